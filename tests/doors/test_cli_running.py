"""Commands that last: `run` keeps a claim alive, `events tail` follows the log, and signals end both as they should."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.clock import age
from tests.doors.command import Command


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    """A board on which alice holds TASK-1@1 for 2 seconds."""
    command = Command(board_url, tmp_path, COORDINATE_AGENT="alice")
    command("task", "dispatch", "--title", "t", "--role", "w")
    command("task", "claim", "TASK-1", "--lease", "2")
    return command


def until(look: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)


# --- run --------------------------------------------------------------------------------------------------------------


def test_run_keeps_the_claim_alive_and_ends_as_its_command_does(call: Command) -> None:
    done = call("run", "TASK-1@1", "--", "sh", "-c", "echo out; echo err >&2; sleep 4; exit 7")
    assert (done.status, done.out, done.err) == (7, "out\n", "err\n")
    assert call("task", "claim", "TASK-1", COORDINATE_AGENT="bob").status == 3
    assert call("task", "complete", "TASK-1@1").json["status"] == "DONE"


def test_run_stops_its_command_when_the_claim_is_lost(call: Command, tmp_path: Path) -> None:
    script = "trap 'echo stopped > stopped; exit 0' TERM; echo started > started; while :; do sleep 0.1; done"
    running = call.started("run", "TASK-1@1", "--", "sh", "-c", script)
    until((tmp_path / "started").exists)
    call("task", "cancel", "TASK-1", COORDINATE_AGENT="boss")
    _, err = running.communicate(timeout=30)
    assert running.returncode == 4
    assert json.loads(err)["code"] == "stale_claim"
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
    running.communicate(timeout=30)
    assert running.returncode == {signal.SIGTERM: 11, signal.SIGINT: 12}[number]


# --- signals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_wait_that_is_interrupted_says_so_by_its_exit(call: Command, number: signal.Signals, status: int) -> None:
    waiting = call.started("task", "claim-next", "--role", "none", "--wait", "60")
    time.sleep(1.5)
    waiting.send_signal(number)
    out, err = waiting.communicate(timeout=10)
    assert (waiting.returncode, out, err) == (status, "", "")


def test_a_wait_ends_with_the_task_that_becomes_ready(call: Command) -> None:
    waiting = call.started("task", "claim-next", "--role", "late", "--wait", "60")
    time.sleep(1)
    call("task", "dispatch", "--title", "late", "--role", "late")
    out, _ = waiting.communicate(timeout=10)
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
    out, err = tail.communicate(timeout=10)
    assert (tail.returncode, out, err) == (0, "", "")


def test_tail_of_a_consumer_goes_on_where_it_was(call: Command) -> None:
    arguments = ("events", "tail", "--consumer", "ci", "--from-start")
    for expected in (["task.created", "task.claimed"], ["task.completed"]):
        tail = call.started(*arguments)
        assert [event["event"] for event in _lines(tail, len(expected))] == expected
        last = call("events", "list").json[-1]["id"]
        until(lambda last=last: call("events", "next", "--consumer", "ci").json["acknowledged"] >= last)
        tail.send_signal(signal.SIGINT)
        tail.communicate(timeout=10)
        call("task", "complete", "TASK-1@1")


def test_an_event_whose_command_fails_is_not_acknowledged(call: Command, tmp_path: Path) -> None:
    """At least once: three tries, then the tail ends with the command's status, and the next begins with that event."""
    program = tmp_path / "program.py"
    program.write_text(
        "import json, sys\n"
        "event = json.load(sys.stdin)\n"
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
