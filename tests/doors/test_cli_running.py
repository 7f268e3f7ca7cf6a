"""Commands that last: `run` keeps a claim alive, `events tail` follows the log, and signals end both as they should."""

from __future__ import annotations

import fcntl
import importlib.util
import json
import os
import pty
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest

import coordinate
from tests.clock import age
from tests.doors.command import COORDINATE, Command, has_its_board


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    """A board on which alice holds TASK-1@1, for 2 seconds at first."""
    command = Command(board_url, tmp_path, COORDINATE_AGENT="alice")
    command("task", "dispatch", "--title", "t", "--role", "w")
    command("task", "claim", "TASK-1", "--lease", "2")
    return command


def until(look: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_keeps_the_claim_alive_and_ends_as_its_command_does(call: Command) -> None:
    call("task", "release", "TASK-1@1")
    call("task", "claim", "TASK-1", "--lease", "6")
    with coordinate.connect(call.url) as board:

        def ends() -> datetime:
            until = board.view(task="TASK-1").task.lease_until
            assert until is not None
            return until

        first = ends()
        script = "echo out; echo err >&2; while [ ! -e finish ]; do sleep 0.1; done; exit 7"
        running = call.started("run", "TASK-1@2", "--", "sh", "-c", script)
        until(lambda: ends() > first)
        started = ends()
        until(lambda: ends() > started)
    assert call("task", "claim", "TASK-1", COORDINATE_AGENT="bob").status == 3
    (call.folder / "finish").touch()
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (7, "out\n", "err\n")
    assert call("task", "complete", "TASK-1@2").json["status"] == "DONE"


def test_run_stops_its_command_when_the_claim_is_lost(call: Command, tmp_path: Path) -> None:
    script = "trap 'echo stopped > stopped; exit 0' TERM; echo started > started; while :; do sleep 0.1; done"
    running = call.started("run", "TASK-1@1", "--", "sh", "-c", script)
    until((tmp_path / "started").exists)
    call("task", "cancel", "TASK-1", COORDINATE_AGENT="boss")
    _, err = running.communicate(timeout=60)
    assert running.returncode == 4
    assert json.loads(err.splitlines()[-1])["code"] == "stale_claim"  # the shell may say of its child what became of it
    assert (tmp_path / "stopped").exists()


def test_run_starts_nothing_without_a_claim(call: Command, tmp_path: Path) -> None:
    age(call.url, 10)
    call("task", "claim", "TASK-1", COORDINATE_AGENT="bob")
    refused = call("run", "TASK-1@1", "--", "touch", "started")
    assert (refused.status, refused.error["code"]) == (4, "stale_claim")
    assert not (tmp_path / "started").exists()
    assert call("run", "TASK-1@2", "--agent", "bob", "--", "no-such-command").error["code"] == "not_found"
    assert call("run", "TASK-1@2", "--agent", "bob").error["code"] == "usage"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_hands_signals_on_to_its_command(call: Command, tmp_path: Path, number: signal.Signals) -> None:
    script = "trap 'exit 11' TERM; trap 'exit 12' INT; echo started > started; while :; do sleep 0.1; done"
    running = call.started("run", "TASK-1@1", "--", "sh", "-c", script)
    until((tmp_path / "started").exists)
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == {signal.SIGTERM: 11, signal.SIGINT: 12}[number]


def test_what_a_command_started_does_not_go_on_without_the_claim(call: Command, tmp_path: Path) -> None:
    """The whole group is stopped: what a shell, make or npm started too, and also what does not listen to TERM."""
    child = f"{sys.executable} -c 'import signal, time; signal.signal({{}}, signal.SIG_IGN); time.sleep(60)'"
    script = (
        f"{child.format('signal.SIGINT')} & echo $! > pids; {child.format('signal.SIGTERM')} & echo $! >> pids; wait"
    )
    running = call.started("run", "TASK-1@1", "--", "sh", "-c", script)
    until(lambda: (tmp_path / "pids").exists() and len((tmp_path / "pids").read_text().split()) == 2)
    call("task", "cancel", "TASK-1", COORDINATE_AGENT="boss")
    _, err = running.communicate(timeout=60)
    assert (running.returncode, json.loads(err.splitlines()[-1])["code"]) == (4, "stale_claim")
    for pid in (tmp_path / "pids").read_text().split():
        until(lambda pid=pid: not lives(int(pid)))


def test_run_tells_its_command_the_handle(call: Command) -> None:
    for named in ("TASK-1@1", "TASK-1"):
        assert call("run", named, "--", "sh", "-c", "echo $COORDINATE_CLAIM").out == "TASK-1@1\n"


def test_commands_are_run_also_where_there_is_no_hangup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "SIGHUP")
    spec = importlib.util.find_spec("coordinate.cli.run")
    assert spec is not None and spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_a_name_reaches_the_command_in_any_locale(call: Command) -> None:
    call("task", "transfer", "TASK-1@1", "--to", "jürgen")
    running = ("run", "TASK-1@2", "--agent", "jürgen", "--", "sh", "-c", "echo $COORDINATE_AGENT")
    assert call(*running, LC_ALL="C", PYTHONUTF8="0").out == "jürgen\n"


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a killed parent is not told of, as the help says")
def test_a_command_whose_run_was_killed_is_ended(call: Command, tmp_path: Path) -> None:
    running = call.started("run", "TASK-1@1", "--", "sh", "-c", "echo $$ > pids; exec sleep 60")
    until(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().strip())
    running.kill()
    running.communicate()
    until(lambda: not lives(int((tmp_path / "pids").read_text())))


def test_on_a_terminal_a_command_reads_from_it_and_is_interrupted_and_stopped_by_its_keys(
    call: Command, tmp_path: Path
) -> None:
    """Ctrl-Z stops both, so that the shell has its prompt again; fg goes on with both; Ctrl-C is the command's.

    The command starts nothing while keys are pressed: a program that is stopped between vfork and exec never counts as
    stopped, because it waits for its child, which is; no shell has its prompt again then.
    """
    ours, theirs = pty.openpty()
    script = "trap 'echo caught > caught; exit 9' INT; sleep 60 & echo $$ > started; read line; echo $line > read; wait"
    (tmp_path / "script.sh").write_text(script)
    words = " ".join([*COORDINATE, "run", "TASK-1@1", "--", "sh", "script.sh"])
    shell = subprocess.Popen(
        ["bash", "--norc", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=tmp_path,
        env=call.environment | {"PS1": "$ "},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(theirs, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(theirs)
    reading = threading.Thread(target=drain, args=(ours,), daemon=True)
    reading.start()

    def said(name: str) -> str:
        return (tmp_path / name).read_text().strip() if (tmp_path / name).exists() else ""

    try:
        os.write(ours, words.encode() + b"\n")
        until(lambda: said("started"))
        os.write(ours, b"hello\n")
        until(lambda: said("read") == "hello")

        def asked() -> bool:
            """The shell answers once it has its terminal back; until then the command's terminal takes the words."""
            os.write(ours, b"\x1a")
            time.sleep(0.1)
            os.write(ours, b"jobs > jobs\n")
            time.sleep(0.5)
            return "Stopped" in said("jobs")

        until(asked)
        os.write(ours, b"fg\n")
        command = int(said("started"))
        until(lambda: os.tcgetpgrp(ours) == command and "\nState:\tT" not in status(command))
        os.write(ours, b"\x03")
        until(lambda: said("caught") == "caught")
        os.write(ours, b"echo $? > status; exit\n")
        until(lambda: said("status") == "9")
    finally:
        shell.kill()
        shell.wait()


def drain(terminal: int) -> None:
    with suppress(OSError):
        while os.read(terminal, 65536):
            pass


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def lives(pid: int) -> bool:
    """A zombie that nobody reaps lives no more."""
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in status(pid)
    except (ProcessLookupError, FileNotFoundError):
        return False


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_wait_that_is_interrupted_says_so_by_its_exit(call: Command, number: signal.Signals, status: int) -> None:
    waiting = call.started("task", "claim-next", "--role", "none", "--wait", "60")
    until(lambda: has_its_board(waiting))
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (status, "", "")


# The signal comes while the command still loads, again where it is met, and once more as it ends.
SIGNALLED = """
import os, sys
from coordinate import __main__

def met(end=__main__._end_in_peace):
    __main__._end_in_peace = end
    os.kill(os.getpid(), NUMBER)
    end()

def signalled(status, end=os._exit):
    os.kill(os.getpid(), NUMBER)
    end(status)

class Signals:
    def find_spec(self, name, path, target=None):
        if name == "coordinate.service":
            os.kill(os.getpid(), NUMBER)

sys.meta_path.insert(0, Signals())
os._exit = signalled
__main__._end_in_peace = met
sys.argv = ["coordinate", "status"]
__main__.main()
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_command_that_is_interrupted_while_it_loads_says_so_by_its_exit(number: signal.Signals, status: int) -> None:
    program = SIGNALLED.replace("NUMBER", str(int(number)))
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", "")


# The signal comes in a step of which Python drops what is raised there.
DROPPED = """
import os, sys, weakref
from coordinate.__main__ import main

def waits():
    try:
        yield
    finally:
        yield

class Signals:
    def find_spec(self, name, path, target=None):
        if name == "coordinate.service":
            next(waits())  # what the driver leaves behind where it is interrupted is not told either
            weakref.ref(Signals(), lambda gone: os.kill(os.getpid(), NUMBER))

sys.meta_path.insert(0, Signals())
main()
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_a_signal_that_python_drops_ends_a_wait_all_the_same(
    call: Command, number: signal.Signals, status: int
) -> None:
    program = DROPPED.replace("NUMBER", str(int(number)))
    wait = ["task", "claim-next", "--role", "none", "--wait", "20"]
    ended = subprocess.run(
        [sys.executable, "-c", program, *wait], env=call.environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (status, "", "")


def test_a_wait_ends_with_the_task_that_becomes_ready(call: Command) -> None:
    waiting = call.started("task", "claim-next", "--role", "late", "--wait", "60")
    until(lambda: has_its_board(waiting))
    time.sleep(0.2)  # it has looked in vain
    call("task", "dispatch", "--title", "late", "--role", "late")
    out, _ = waiting.communicate(timeout=60)
    assert json.loads(out)["claim"] == "TASK-2@1"


# --- tail -------------------------------------------------------------------------------------------------------------


def _lines(tail: subprocess.Popen[str], count: int) -> list[dict[str, object]]:
    assert tail.stdout is not None
    return [json.loads(tail.stdout.readline()) for _ in range(count)]


def test_tail_prints_events_as_lines_until_it_is_interrupted(call: Command) -> None:
    tail = call.started("events", "tail", "--from-start", "--interval", "100ms")
    assert [event["event"] for event in _lines(tail, 2)] == ["task.created", "task.claimed"]
    call("task", "complete", "TASK-1@1")
    assert [event["event"] for event in _lines(tail, 1)] == ["task.completed"]
    tail.send_signal(signal.SIGINT)
    out, err = tail.communicate(timeout=60)
    assert (tail.returncode, out, err) == (0, "", "")


def test_tail_of_a_consumer_goes_on_where_it_was(call: Command) -> None:
    arguments = ("events", "tail", "--consumer", "ci", "--from-start")
    for expected in (["task.created", "task.claimed"], ["task.completed"]):
        tail = call.started(*arguments)
        assert [event["event"] for event in _lines(tail, len(expected))] == expected
        last = call("events", "list").json[-1]["id"]
        until(lambda last=last: call("events", "next", "--consumer", "ci").json["acknowledged"] >= last)
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=60)
        call("task", "complete", "TASK-1@1")


def test_an_event_whose_command_fails_is_not_acknowledged(call: Command, tmp_path: Path) -> None:
    """At least once: three tries, then the tail ends with the command's status, and the next begins with that event."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        "line = sys.stdin.read()\n"
        "assert line.endswith('\\n') and line.count('\\n') == 1\n"
        "event = json.loads(line)\n"
        "open('seen', 'a').write(event['event'] + '\\n')\n"
        "print('said by the program')\n"
        "sys.exit(9 if event['event'] == 'task.claimed' else 0)\n"
    )
    executed = f"{sys.executable} program.py"
    tail = call("events", "tail", "--consumer", "ci", "--from-start", "--exec", executed)
    assert (tail.status, tail.out) == (9, "")
    assert json.loads(tail.err.splitlines()[-1])["code"] == "exec_failed"
    assert (tmp_path / "seen").read_text().split() == ["task.created"] + 3 * ["task.claimed"]
    assert [event["event"] for event in call("events", "next", "--consumer", "ci").json["events"]] == ["task.claimed"]
    assert call("events", "tail", "--exec", executed).error["code"] == "usage"


def test_a_tail_that_is_killed_before_it_acknowledges_hands_the_event_out_again(call: Command, tmp_path: Path) -> None:
    """At least once; and nothing of an event's text is ever part of a command line."""
    (tmp_path / "program.py").write_text(
        "import json, os, signal, sys\n"
        "event = json.load(sys.stdin)\n"
        "first = not os.path.exists('seen')\n"
        "open('seen', 'a').write(str(event['id']) + ' ' + event['message'] + '\\n')\n"
        "if first: os.kill(os.getppid(), signal.SIGKILL)\n"
        "if event['message'] == 'last': os.kill(os.getppid(), signal.SIGINT)\n"
    )
    nasty = "$(touch pwned); `touch pwned` | touch pwned"
    call("events", "emit", "note", "--agent", "bob", "--message", nasty)
    call("events", "emit", "note", "--agent", "bob", "--message", "last")
    tail = ("events", "tail", "--consumer", "ci", "--from-start", "--exec", f"{sys.executable} program.py")
    assert call(*tail).status == -signal.SIGKILL
    assert call(*tail).status == 0
    seen = [line.split(" ", 1) for line in (tmp_path / "seen").read_text().splitlines()]
    assert seen[0] == seen[1]
    assert [int(position) for position, _ in seen[1:]] == list(range(int(seen[0][0]), int(seen[0][0]) + len(seen) - 1))
    assert [message for _, message in seen[-2:]] == [nasty, "last"]
    assert not (tmp_path / "pwned").exists()


def test_a_tail_whose_consumer_is_taken_back_meanwhile_goes_on_from_there(
    call: Command, board_url: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(
        "import coordinate, json, os, signal, sys\n"
        "seen = open('seen', 'a+')\n"
        "seen.write(str(json.load(sys.stdin)['id']) + '\\n')\n"
        "seen.seek(0)\n"
        "seen = seen.read().split()\n"
        "if len(seen) == 1:\n"
        f"    with coordinate.connect({board_url!r}) as board: board.rewind(consumer='ci', position=0)\n"
        "if len(seen) == 3: os.kill(os.getppid(), signal.SIGINT)\n"
    )
    executed = f"{sys.executable} program.py"
    tail = call("events", "tail", "--consumer", "ci", "--from-start", "--exec", executed)
    assert (tail.status, tail.err) == (0, "")
    assert (tmp_path / "seen").read_text().split() == ["1", "1", "2"]


# --- hooks ------------------------------------------------------------------------------------------------------------


def test_hooks_run_after_the_commit_and_before_the_command_ends(sqlite_template: Path, tmp_path: Path) -> None:
    folder = tmp_path / ".coordinate"
    (folder / "hooks").mkdir(parents=True, mode=0o755)
    (folder / "board.db").write_bytes(sqlite_template.read_bytes())
    hook = folder / "hooks" / "task-created"
    hook.write_text("#!/bin/sh\nsleep 0.3; cat > told; echo noise; exit 1\n")
    hook.chmod(0o755)
    call = Command("", tmp_path)
    del call.environment["COORDINATE_DB"]
    assert call("task", "dispatch", "--title", "t", "--role", "w").json["id"] == "TASK-1"
    (told,) = [json.loads(found.read_text()) for found in tmp_path.rglob("told")]
    assert told["event"] == "task.created"
