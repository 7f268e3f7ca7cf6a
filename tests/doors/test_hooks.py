"""Hooks: real programs after a commit, which may fail, hang or be somebody else's without hurting the command."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import coordinate
from coordinate import config, errors, hooks

EVENT = {
    "event_type": "task.completed",
    "payload": {"task_id": "TASK-1", "title": "Ünïcode ✓", "project": "default"},
    "project": "default",
    "agent": "alice",
    "ref": "TASK-1",
    "message": "",
    "folded": "task-1",
    "ttl_seconds": 259200,
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A `.coordinate/` with an empty `hooks/`."""
    made = tmp_path / "project" / ".coordinate"
    (made / "hooks").mkdir(parents=True)
    for each in (made, made / "hooks"):
        each.chmod(0o700)
    return made


def hook(folder: Path, name: str, body: str, mode: int = 0o755) -> Path:
    path = folder / "hooks" / name
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_text("#!/bin/sh\n" + textwrap.dedent(body))
    path.chmod(mode)
    return path


def run(folder: Path | None, *events: dict) -> list[str]:
    """Run the hooks of some events; returns what was warned."""
    warned: list[str] = []
    hooks.runner(folder, warned.append)(list(events) or [EVENT])
    return warned


def alive(pid: int) -> bool:
    """Whether a process still runs; one that ended and was not collected yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 60
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not alive(pid)


# --- what a hook gets -------------------------------------------------------------------------------------------------


def test_a_hook_gets_the_event_as_one_json_object_on_its_input(folder: Path, tmp_path: Path) -> None:
    hook(folder, "task-completed", f"cat > '{tmp_path}/got'")
    assert run(folder) == []
    assert json.loads((tmp_path / "got").read_text("ascii")) == {
        "event": "task.completed",
        "payload": EVENT["payload"],
        "project": "default",
        "agent": "alice",
        "ref": "TASK-1",
        "message": "",
    }


@pytest.mark.parametrize(
    ("event_type", "name"),
    [
        ("task.completed", "task-completed"),
        ("task.lease_expired", "task-lease-expired"),
        ("task.submitted_for_review", "task-submitted-for-review"),
        ("review.approved", "review-approved"),
        ("Größe erreicht", "Größe erreicht"),
    ],
)
def test_a_hook_is_named_after_its_event(folder: Path, tmp_path: Path, event_type: str, name: str) -> None:
    assert hooks.file_name(event_type) == name
    hook(folder, name, f"touch '{tmp_path}/ran'")
    assert run(folder, EVENT | {"event_type": event_type}) == []
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("event_type", ["../evil", "..", ".", "/bin/true", "hooks/x", "task-completed.d/a"])
def test_an_event_type_of_an_agents_choice_leads_to_no_other_file(
    folder: Path, tmp_path: Path, event_type: str
) -> None:
    (folder / "hooks").joinpath("task-completed.d").mkdir(mode=0o700)
    for path in (folder / "evil", folder / "hooks/task-completed.d/a"):
        path.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
        path.chmod(0o755)
    assert run(folder, EVENT | {"event_type": event_type}) == []
    assert not (tmp_path / "ran").exists()


def test_each_event_of_a_batch_runs_its_hook_in_order(folder: Path, tmp_path: Path) -> None:
    hook(folder, "task-completed", f"cat >> '{tmp_path}/got'")
    refs = [f"TASK-{number}" for number in range(1, 6)]
    assert run(folder, *[EVENT | {"ref": ref} for ref in refs]) == []
    assert [json.loads(line)["ref"] for line in (tmp_path / "got").read_text().splitlines()] == refs


def test_the_files_of_a_d_folder_run_side_by_side_after_the_single_hook_and_are_waited_for(
    folder: Path, tmp_path: Path
) -> None:
    hook(folder, "task-completed", f"sleep 0.2; touch '{tmp_path}/first'")
    # Each waits for the other: one after the other, the first would wait in vain.
    for own, other in (("a", "b"), ("b", "a")):
        hook(
            folder,
            f"task-completed.d/{own}",
            f"""
            [ -e '{tmp_path}/first' ] || exit 3
            touch '{tmp_path}/{own}'
            for i in $(seq 500); do [ -e '{tmp_path}/{other}' ] && cat > '{tmp_path}/{own}.got' && exit 0; sleep 0.01
            done; exit 4
            """,
        )
    assert run(folder) == []
    assert json.loads((tmp_path / "a.got").read_text()) == json.loads((tmp_path / "b.got").read_text())


def test_a_large_payload_reaches_a_hook_and_hurts_none_that_does_not_read_it(folder: Path, tmp_path: Path) -> None:
    hook(folder, "task-completed.d/reads", f"wc -c > '{tmp_path}/size'")
    hook(folder, "task-completed.d/ignores", "exit 0")
    assert run(folder, EVENT | {"payload": {"text": "x" * 300_000}}) == []
    assert int((tmp_path / "size").read_text()) > 300_000


def test_what_a_hook_prints_goes_to_standard_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    hook(folder, "task-completed", "echo out; echo err >&2")
    assert run(folder) == []
    out, err = capfd.readouterr()
    assert out == ""
    assert err.split() == ["out", "err"]


@pytest.mark.parametrize("closing", ["2>&-", "1>&- 2>&-"])
def test_a_caller_that_closed_its_standard_error_gets_no_hooks_output_into_another_file(
    folder: Path, tmp_path: Path, closing: str
) -> None:
    hook(folder, "task-completed", f"echo spoiled; echo spoiled >&2; touch '{tmp_path}/ran'")
    program = f"""
        from pathlib import Path
        from coordinate import hooks
        kept = open({str(tmp_path / "kept")!r}, "w")
        hooks.runner(Path({str(folder)!r}), lambda said: None)([{EVENT!r}])
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    command = f'exec "{sys.executable}" "{tmp_path}/program.py" {closing}'
    done = subprocess.run(["sh", "-c", command], env=here(), capture_output=True, check=False)
    assert done.returncode == 0
    assert (tmp_path / "ran").exists()
    assert (tmp_path / "kept").read_text() == ""


def test_a_hook_keeps_the_callers_environment_and_gets_no_secret_of_the_database(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-18"""
    monkeypatch.setenv("MINE", "kept")
    monkeypatch.delenv("COORDINATE_DB", raising=False)
    hook(folder, "task-created", f"env > '{tmp_path}/env'")
    board = tmp_path / "s3cret.db"
    with coordinate.connect(str(board), agent="a", create=True, after_commit=hooks.runner(folder, pytest.fail)) as c:
        c.dispatch(title="t", role="worker")
    seen = (tmp_path / "env").read_text()
    assert "MINE=kept" in seen
    assert "s3cret" not in seen


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_without_hooks_nothing_is_said_and_nothing_is_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pytest.fail("a process was started"))
    assert run(folder) == []
    assert run(None) == []
    assert run(folder / "missing") == []
    (folder / "hooks").rmdir()
    assert run(folder) == []


@pytest.mark.parametrize(
    ("body", "mode", "said"),
    [
        ("exit 7", 0o755, "failed with exit status 7"),
        ("kill -9 $$", 0o755, "was ended by signal 9"),
        ("exit 0", 0o644, "cannot be run: it is not executable (chmod +x)"),
    ],
)
@pytest.mark.parametrize("name", ["task-completed", "task-completed.d/10-mail"])
def test_each_fault_of_a_hook_is_one_warning(folder: Path, name: str, body: str, mode: int, said: str) -> None:
    hook(folder, name, body, mode)
    assert run(folder) == [f"hook {name} {said}"]


def test_a_failing_hook_stops_no_other(folder: Path, tmp_path: Path) -> None:
    hook(folder, "task-completed", "exit 1")
    hook(folder, "task-completed.d/a", "exit 2")
    hook(folder, "task-completed.d/b", f"touch '{tmp_path}/ran'")
    assert len(run(folder)) == 2
    assert (tmp_path / "ran").exists()


def test_a_file_that_no_program_can_run_says_so(folder: Path) -> None:
    path = folder / "hooks" / "task-completed"
    path.write_text("just text")
    path.chmod(0o755)
    assert run(folder) == [
        "hook task-completed cannot be run: its first line does not say with what (such as #!/bin/sh)"
    ]
    path.write_text("#!/nowhere/python\n")
    assert run(folder) == ["hook task-completed cannot be run: the program that its first line names is not there"]
    path.unlink()
    path.mkdir()
    assert run(folder) == ["hook task-completed cannot be run: it is not a file"]
    path.rmdir()
    path.symlink_to("nowhere")
    assert run(folder) == ["hook task-completed cannot be run: it is not a file"]
    path.unlink()
    path.symlink_to(path)
    (said,) = run(folder)
    assert said.startswith("hook task-completed ")


def test_hidden_files_and_an_editors_copies_are_passed_over(folder: Path) -> None:
    for name in (".swp", "mail~", ".gitkeep"):
        hook(folder, f"task-completed.d/{name}", "exit 1")
    assert run(folder) == []


def test_a_hook_that_hangs_is_stopped_with_all_that_it_started(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "SECONDS_MAX", 0.5)
    hook(folder, "task-completed.d/hangs", f"sleep 600 & echo $! > '{tmp_path}/child'; wait")
    hook(folder, "task-completed.d/works", f"touch '{tmp_path}/ran'")
    started = time.monotonic()
    assert run(folder) == ["hook task-completed.d/hangs took longer than 0.5 s and was stopped"]
    assert time.monotonic() - started < 60
    assert (tmp_path / "ran").exists()
    assert gone(int((tmp_path / "child").read_text()))


def test_a_hook_has_thirty_seconds() -> None:
    assert hooks.SECONDS_MAX == 30


def test_an_interrupted_caller_leaves_no_hook_behind(folder: Path, tmp_path: Path) -> None:
    hook(
        folder,
        "task-completed",
        f"echo $$ > '{tmp_path}/pid.part'; mv '{tmp_path}/pid.part' '{tmp_path}/pid'; sleep 600",
    )
    program = f"""
        from pathlib import Path
        from coordinate import hooks
        hooks.runner(Path({str(folder)!r}), print)([{EVENT!r}])
    """
    caller = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)], env=here(), stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists():
        assert time.monotonic() < deadline and caller.poll() is None
        time.sleep(0.01)
    caller.send_signal(signal.SIGINT)
    _, said = caller.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_hook_cannot_set_itself_off(folder: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    coordinate.connect(str(board), create=True).close()
    program = f"""
        import coordinate
        from pathlib import Path
        from coordinate import hooks
        import sys
        run = hooks.runner(Path({str(folder)!r}), lambda said: print(said, file=sys.stderr))
        with coordinate.connect({str(board)!r}, agent="loop", after_commit=run) as c:
            c.dispatch(title="again", role="worker")
    """
    (tmp_path / "again.py").write_text(textwrap.dedent(program))
    hook(folder, "task-created", f'exec "{sys.executable}" "{tmp_path}/again.py"')
    done = subprocess.run(
        [sys.executable, str(tmp_path / "again.py")], env=here(), capture_output=True, check=True, text=True, timeout=60
    )
    assert done.stderr == "hook task-created is not run: this call comes from a hook (task.created)\n"
    with coordinate.connect(str(board)) as c:
        assert c.stats().total_tasks == 2


# --- after the commit, and only then ----------------------------------------------------------------------------------


def test_hooks_run_after_the_commit_and_not_for_what_was_refused(board_url: str, folder: Path, tmp_path: Path) -> None:
    """Behaviour 12 and 15 of the command line that people know; both engines, for the hook reads the board itself."""
    program = f"""
        import coordinate, json, sys
        told = json.load(sys.stdin)
        with coordinate.connect({board_url!r}) as c:
            status = c.view(task=told["ref"]).task.status
        with open({str(tmp_path / "seen")!r}, "a") as seen:
            print(told["event"], told["payload"]["task_id"], status, file=seen)
    """
    (tmp_path / "look.py").write_text(textwrap.dedent(program))
    for name in ("task-created", "task-claimed", "task-completed"):
        hook(
            folder,
            name,
            f'PYTHONPATH="{Path(coordinate.__file__).parents[1]}" exec "{sys.executable}" "{tmp_path}/look.py"',
        )
    warned: list[str] = []
    with coordinate.connect(board_url, agent="alice", after_commit=hooks.runner(folder, warned.append)) as c:
        c.dispatch(title="t", role="worker")
        with pytest.raises(coordinate.errors.InvalidInput):
            c.dispatch(title="", role="worker")
        claim = c.claim_next(role="worker")
        assert claim is not None
        with pytest.raises(coordinate.errors.StaleClaim):
            c.complete(handle="TASK-1@2")
        c.complete(handle=claim)
        assert c.complete(handle=claim).already
    assert warned == []
    assert (tmp_path / "seen").read_text().splitlines() == [
        "task.created TASK-1 TODO",
        "task.claimed TASK-1 IN_PROGRESS",
        "task.completed TASK-1 DONE",
    ]


# --- from the command line --------------------------------------------------------------------------------------------


def command(where: Path, *args: str) -> tuple[dict, list[dict]]:
    """Run a command that must succeed; returns its answer and the JSON lines on its standard error."""
    clean = {name: value for name, value in here().items() if not name.startswith("COORDINATE_")}
    done = subprocess.run(
        [sys.executable, "-m", "coordinate", *args],
        cwd=where,
        env=clean,
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    return json.loads(done.stdout), [json.loads(line) for line in done.stderr.splitlines()]


def test_the_commands_answer_and_exit_status_are_the_same_whatever_a_hook_does(folder: Path) -> None:
    """IF-01, IF-04"""
    command(folder.parent, "init")
    hook(folder, "task-created", """echo '{"event": "printed"}'; exit 1""")
    hook(folder, "task-created.d/a", "exit 0", 0o600)
    answer, said = command(folder.parent, "task", "dispatch", "--title", "t", "--role", "worker")
    assert answer["id"] == "TASK-1"
    assert said == [
        {"event": "printed"},
        {"warning": "hook task-created failed with exit status 1"},
        {"warning": "hook task-created.d/a cannot be run: it is not executable (chmod +x)"},
    ]


def test_a_refused_folder_is_told_once_and_stops_no_command(folder: Path, tmp_path: Path) -> None:
    command(folder.parent, "init")
    hook(folder, "task-created", f"touch '{tmp_path}/ran'")
    folder.chmod(0o770)
    answer, said = command(folder.parent, "task", "dispatch", "--title", "t", "--role", "worker")
    assert answer["id"] == "TASK-1"
    (line,) = said
    assert "is not used for settings and hooks" in line["warning"]
    assert not (tmp_path / "ran").exists()


# --- whose hooks ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0o020, 0o002])
@pytest.mark.parametrize("which", [".", "hooks", "hooks/task-completed", "hooks/task-completed.d", "config.toml"])
def test_what_others_can_write_is_not_run_and_said_once(folder: Path, tmp_path: Path, which: str, bits: int) -> None:
    ran = tmp_path / "ran"
    hook(folder, "task-completed", f"touch '{ran}'")
    hook(folder, "task-completed.d/a", f"touch '{ran}'")
    (folder / "config.toml").write_text("")
    path = folder / which
    path.chmod(path.stat().st_mode | bits)
    (folder / "hooks/task-completed").chmod(0o755 | (bits if which == "hooks/task-completed" else 0))
    if which == "hooks/task-completed.d":
        (folder / "hooks/task-completed").unlink()
    if which == "hooks/task-completed":
        shutil.rmtree(folder / "hooks/task-completed.d")
    warned = run(folder, EVENT, EVENT, EVENT)
    assert len(warned) == 1, warned
    assert "can be written by others" in warned[0]
    assert not ran.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("which", [".", "hooks", "hooks/task-completed"])
def test_what_belongs_to_another_user_is_not_run(folder: Path, tmp_path: Path, which: str) -> None:
    hook(folder, "task-completed", f"touch '{tmp_path}/ran'")
    os.chown(folder / which, 12345, -1)
    (warned,) = run(folder)
    assert "belongs to another user" in warned
    assert not (tmp_path / "ran").exists()


def test_a_link_is_judged_by_what_it_leads_to(folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    real = elsewhere / "notify"
    real.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n")
    real.chmod(0o755)
    (folder / "hooks/task-completed").symlink_to(real)
    assert run(folder) == []
    (tmp_path / "ran").unlink()
    elsewhere.chmod(0o777)
    (warned,) = run(folder)
    assert "elsewhere can be written by others" in warned
    assert not (tmp_path / "ran").exists()


def test_a_hook_that_git_tracks_is_not_run(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = folder.parent
    git(project, "init", "-q")
    tracked = hook(folder, "task-completed", f"touch '{tmp_path}/ran'")
    git(project, "add", "-f", str(tracked))
    linked = project / "notify.sh"
    linked.write_text(tracked.read_text())
    linked.chmod(0o755)
    git(project, "add", "notify.sh")
    (folder / "hooks/task-completed.d").mkdir(mode=0o700)
    (folder / "hooks/task-completed.d/linked").symlink_to(linked)
    hook(folder, "task-completed.d/mine", f"touch '{tmp_path}/mine'")
    # As inside a git hook, which names an index of its own.
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "other-index"))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    warned = run(folder, EVENT, EVENT)
    assert len(warned) == 2
    assert all("tracked by git" in said for said in warned)
    assert not (tmp_path / "ran").exists()
    assert (tmp_path / "mine").exists()


def test_what_git_tracks_in_another_letter_case_is_tracked(folder: Path) -> None:
    """A system to which case makes no difference opens it all the same."""
    git(folder.parent, "init", "-q")
    (folder / "Config.toml").touch()
    assert not config.tracked_by_git(folder / "config.toml")
    git(folder.parent, "add", "-f", ".coordinate/Config.toml")
    assert config.tracked_by_git(folder / "config.toml")
    assert not config.tracked_by_git(folder / "c?nfig.toml")


def test_where_git_cannot_say_a_hook_is_not_run(folder: Path, tmp_path: Path) -> None:
    (folder.parent / ".git").mkdir()
    hook(folder, "task-completed", f"touch '{tmp_path}/ran'")
    (warned,) = run(folder)
    assert "git cannot say" in warned
    assert not (tmp_path / "ran").exists()
    (folder / "config.toml").touch()
    with pytest.raises(errors.PermissionDenied, match="git cannot say whether it is tracked"):
        config.locate(None, start=folder.parent)


def git(where: Path, *args: str) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    subprocess.run(["git", "-C", str(where), *args], check=True, capture_output=True, env=bare)


def here() -> dict[str, str]:
    """The environment of a process that imports the same `coordinate` as this one."""
    return {**os.environ, "PYTHONPATH": str(Path(coordinate.__file__).parents[1])}
