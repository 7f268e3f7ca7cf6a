"""Worktrees against a real git repository: what could be lost is never dropped unsaid, and doubt counts as loss."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.doors.command import Answer, Command
from tests.doors.repository import Repository

WORKTREE_KEYS = {
    *("id", "task_id", "agent", "session_id", "project", "branch", "root", "base", "state"),
    *("created_at", "updated_at", "closed_at", "close_reason"),
}


@pytest.fixture
def alice(repository: Repository) -> Command:
    """Alice holds TASK-1, which changes src, and has opened the linked worktree for it."""
    call = repository.call("alice")
    call("task", "dispatch", "--title", "t", "--role", "w", "--scope", "src")
    assert call("task", "claim", "TASK-1").status == 0
    assert opened(call, "--base", "main").status == 0
    return call


@pytest.fixture
def bob(repository: Repository) -> Command:
    return repository.call("bob")


def opened(call: Command, *more: str, task: str = "TASK-1@1") -> Answer:
    return call("worktree", "open", task, "--branch", "task-1", "--root", "../linked", *more)


def refused(answer: Answer) -> str:
    """Why it was refused as work that could be lost."""
    assert (answer.status, answer.error["code"]) == (2, "unsaved_work"), answer
    return str(answer.error["error"])


def resources(call: Command) -> list[str]:
    return [lease["resource"] for lease in call("lease", "list").json]


# --- the story of one -------------------------------------------------------------------------------------------------


def test_a_worktree_is_opened_worked_in_and_closed_when_merged(alice: Command, repository: Repository) -> None:
    (listed,) = alice("worktree", "list").json
    assert listed.keys() == WORKTREE_KEYS
    assert (listed["root"], listed["base"], listed["state"]) == (str(repository.linked), "main", "open")
    (lease,) = alice("lease", "list").json
    assert (lease["resource"], lease["expires_at"], lease["worktree_id"]) == ("src", None, listed["id"])
    repository.commit("src/a.py", at=repository.linked)
    assert alice("worktree", "show", "TASK-1").json["unsaved"] == "1 commit(s) of task-1 that main does not have"
    assert alice("worktree", "state", "TASK-1", "integrating").json["state"] == "integrating"
    assert alice("task", "complete", "TASK-1@1").status == 0
    assert resources(alice) == ["src"]  # until merge or abort, also when the task's hold is over
    assert repository.git("merge", "-q", "task-1").status == 0
    closed = alice("worktree", "close", "TASK-1", "--reason", "merged as PR 7").json
    assert (closed["state"], closed["close_reason"]) == ("merged", "merged as PR 7")
    assert resources(alice) == []
    assert alice("worktree", "list").json == []
    assert [each["state"] for each in alice("worktree", "list", "--closed").json] == ["merged"]
    assert alice("worktree", "list", "--closed", "--before", str(closed["id"])).json == []
    assert alice("worktree", "show", "TASK-1").json == {}
    assert alice("worktree", "close", "TASK-1").error["code"] == "not_found"


def test_open_answers_the_worktree_with_its_scopes_or_the_conflicts_with_exit_3(
    repository: Repository, bob: Command
) -> None:
    call = repository.call("alice")
    call("task", "dispatch", "--title", "t", "--role", "w")
    assert opened(call).error["code"] == "invalid_state"  # nobody holds it yet
    call("task", "claim", "TASK-1")
    bob("lease", "claim", "docs/api")
    met = opened(call, "--scope", "docs", "--scope", "src")
    answer: dict[str, Any] = json.loads(met.out)
    assert (met.status, met.err, answer["worktree"], answer["leases"]) == (3, "", None, [])
    assert [(each["pattern"], each["holder"]) for each in answer["conflicts"]] == [("docs", "bob")]
    made_ = opened(call, "--scope", "src").json
    assert (made_["worktree"]["task_id"], [lease["resource"] for lease in made_["leases"]]) == ("TASK-1", ["src"])
    assert opened(call, "--scope", "src").error["code"] == "held_by_another"
    assert opened(call, task="TASK-9@1").error["code"] == "not_found"


def test_only_its_agent_changes_a_worktree_unless_it_is_adopted(alice: Command, bob: Command) -> None:
    for words in (("state", "TASK-1", "gating"), ("close", "TASK-1"), ("abort", "TASK-1")):
        told = bob("worktree", *words)
        assert (told.status, told.error["holder"]) == (3, "alice"), words
    assert bob("worktree", "adopt", "TASK-1").json["agent"] == "bob"
    assert [lease["agent"] for lease in alice("lease", "list").json] == ["bob"]
    assert bob("worktree", "state", "TASK-1", "gating").status == 0
    assert bob("worktree", "abort", "TASK-1").json["state"] == "aborted"
    assert bob("worktree", "state", "TASK-1", "gating").error["code"] == "not_found"
    assert bob("worktree", "state", "TASK-1", "merged").error["code"] == "usage"


def test_a_worktree_is_found_by_its_task_however_many_are_open(alice: Command, repository: Repository) -> None:
    repository.write("new.py", at=repository.linked)
    alice("task", "dispatch", "--title", "t", "--role", "w")
    alice("task", "claim", "TASK-2")
    assert alice("worktree", "open", "TASK-2@1", "--branch", "b", "--root", "../other", "--scope", "docs").status == 0
    assert "1 uncommitted file(s)" in refused(alice("worktree", "close", "TASK-1@1"))
    assert alice("worktree", "show", "task-2").json["branch"] == "b"


def test_what_git_knows_otherwise_is_warned_of_when_it_is_opened(repository: Repository) -> None:
    call = repository.call("alice")
    for number in range(1, 6):
        call("task", "dispatch", "--title", "t", "--role", "w", "--scope", f"d{number}")
        call("task", "claim", f"TASK-{number}")
    (repository.main / "sub").mkdir()
    told = [
        (["--branch", "task-1", "--root", "../linked", "--base", "main"], []),
        (["--branch", "other", "--root", "../linked", "--base", "gone"], ["task-1 is", "gone is no branch"]),
        (["--branch", "task-1", "--root", "sub"], ["no working copy of its own"]),
        (["--branch", "b", "--root", "../not-there-yet", "--base", "gone"], []),
        (["--branch", "b", "--root", "/"], ["git cannot tell"]),
    ]
    for number, (words, doubts) in enumerate(told, 1):
        opened_ = call("worktree", "open", f"TASK-{number}@1", *words)
        assert opened_.json["worktree"]["state"] == "open", words
        warned = [json.loads(line) for line in opened_.err.splitlines()]
        assert all(each["task_id"] == f"TASK-{number}" for each in warned)
        assert len(warned) == len(doubts), opened_.err
        assert all(doubt in each["warning"] for doubt, each in zip(doubts, warned, strict=True)), opened_.err


# --- what could be lost -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["close", "abort", "adopt"])
@pytest.mark.parametrize("kind", ["new", "changed", "staged", "deleted", "new though git is told not to look"])
def test_uncommitted_work_is_never_dropped(alice: Command, repository: Repository, verb: str, kind: str) -> None:
    match kind:
        case "new":
            repository.write("with space.py", at=repository.linked)
        case "changed" | "staged":
            repository.write("README", "other", at=repository.linked)
            if kind == "staged":
                repository.git("add", "README", at=repository.linked)
        case "deleted":
            (repository.linked / "README").unlink()
        case _:
            repository.git("config", "status.showUntrackedFiles", "no")
            repository.write("src/new.py", at=repository.linked)
    assert "1 uncommitted file(s)" in refused(alice("worktree", verb, "TASK-1"))
    assert resources(alice) == ["src"]
    assert alice("worktree", verb, "TASK-1", "--force").status == 0


@pytest.mark.parametrize("verb", ["close", "abort"])
def test_unmerged_work_is_never_dropped_and_force_is_recorded(
    alice: Command, repository: Repository, verb: str
) -> None:
    repository.commit("src/a.py", at=repository.linked)
    repository.commit("src/b.py", at=repository.linked)
    assert "2 commit(s) of task-1 that main does not have" in refused(alice("worktree", verb, "TASK-1"))
    closed = alice("worktree", verb, "TASK-1", "--force", "--reason", "superseded").json
    assert closed["close_reason"] == "superseded; dropped: 2 commit(s) of task-1 that main does not have"
    assert resources(alice) == ["src"], "the task is held still, and so are its scopes"
    assert repository.linked.is_dir()  # on disk nothing was changed


def test_commits_that_are_on_no_branch_count_too(alice: Command, repository: Repository) -> None:
    repository.git("checkout", "-q", "--detach", at=repository.linked)
    repository.commit("src/a.py", at=repository.linked)
    assert "1 commit(s)" in refused(alice("worktree", "close", "TASK-1"))


@pytest.mark.parametrize("base", ["", "HEAD", "no-such-branch", "--all", "-x"])
def test_a_base_that_nobody_knows_counts_as_unmerged_work(repository: Repository, base: str) -> None:
    """HEAD is whatever is checked out in the working copy itself, whose commits it always has."""
    call = repository.call("alice")
    call("task", "dispatch", "--title", "t", "--role", "w")
    call("task", "claim", "TASK-1")
    answer = opened(call, *([f"--base={base}"] if base else []))
    assert (answer.status, len(answer.err.splitlines())) == (0, 1 if base else 0), "a base that is none is warned of"
    why = "nobody can tell" if base in ("", "HEAD") else "git cannot tell"
    assert why in refused(call("worktree", "close", "TASK-1"))
    assert call("worktree", "close", "TASK-1", "--base", "main").json["state"] == "merged"


def test_a_branch_that_is_gone_counts_as_unmerged_work(alice: Command, repository: Repository) -> None:
    repository.git("branch", "-m", "task-1", "renamed", at=repository.linked)
    assert "git cannot tell" in refused(alice("worktree", "close", "TASK-1"))


@pytest.mark.parametrize("verb", ["close", "abort", "adopt"])
def test_a_root_that_is_not_on_this_machine_counts_as_work_and_is_said(
    alice: Command, repository: Repository, verb: str
) -> None:
    shutil.rmtree(repository.linked)
    assert f"{repository.linked} is not on this machine" in refused(alice("worktree", verb, "TASK-1"))
    done = alice("worktree", verb, "TASK-1", "--force").json
    if verb != "adopt":
        assert done["close_reason"] == f"dropped: {repository.linked} is not on this machine, " + (
            "so nobody can tell what is in it"
        )


@pytest.mark.parametrize("root", ["/".join(["", *("d" * 240,) * 4]), "/" + "d" * 960])
def test_what_would_be_lost_may_take_any_number_of_words(repository: Repository, root: str) -> None:
    """Nor need it be a folder that any system could have."""
    call = repository.call("alice")
    call("task", "dispatch", "--title", "t", "--role", "w")
    call("task", "claim", "TASK-1")
    assert call("worktree", "open", "TASK-1@1", "--branch", "task-1", "--root", root).status == 0
    assert call("worktree", "show", "TASK-1").json["unsaved"].startswith(f"{root} is not on")
    assert refused(call("worktree", "abort", "TASK-1")).endswith("...")
    assert call("worktree", "abort", "TASK-1", "--force").json["close_reason"].startswith(f"dropped: {root}")


@pytest.mark.parametrize("what", ["a folder of another checkout", "no checkout"])
def test_a_root_that_is_no_working_copy_of_its_own_counts_as_work(
    alice: Command, repository: Repository, what: str
) -> None:
    shutil.rmtree(repository.linked)
    if what == "no checkout":
        repository.linked.mkdir()
    else:
        (repository.main / "sub").mkdir()
        repository.linked.symlink_to(repository.main / "sub")
    refused(alice("worktree", "close", "TASK-1"))


def test_a_hooks_environment_does_not_turn_the_look_to_another_repository(
    alice: Command, repository: Repository
) -> None:
    repository.write("new.py", at=repository.linked)
    git = {"GIT_DIR": str(repository.main / ".git"), "GIT_WORK_TREE": str(repository.main)}
    assert "uncommitted" in refused(alice("worktree", "close", "TASK-1", **git))


@pytest.mark.parametrize("verb", ["close", "adopt"])
def test_one_that_was_opened_while_git_looked_at_another_is_left_alone(
    alice: Command, repository: Repository, tmp_path: Path, verb: str
) -> None:
    """What lies in it nobody has looked at."""
    repository.git("worktree", "add", "-q", "-b", "other", str(tmp_path / "other"))
    git, meanwhile = tmp_path / "first" / "git", "coordinate worktree"
    git.parent.mkdir()
    git.write_text(
        f"""#!/bin/sh
        case "$*" in *status*) [ -e '{tmp_path}/once' ] || {{
            touch '{tmp_path}/once'
            {meanwhile} abort TASK-1 --agent alice && {meanwhile} open TASK-1@1 --branch other --root ../other
        }} >&2;; esac
        exec {shutil.which("git")} "$@"
        """
    )
    git.chmod(0o755)
    path = f"{git.parent}:{tmp_path / 'bin'}:{os.environ['PATH']}"
    answer = alice("worktree", verb, "TASK-1", "--force", PATH=path)
    assert (answer.status, answer.error["code"]) == (2, "invalid_state")
    assert alice("worktree", "show", "TASK-1").json["root"] == str(tmp_path / "other")


def test_ignored_files_do_not_count(alice: Command, repository: Repository) -> None:
    (repository.main / ".git" / "info" / "exclude").write_text("build/\n")
    repository.write("build/x", at=repository.linked)
    assert alice("worktree", "close", "TASK-1").json["state"] == "merged"
