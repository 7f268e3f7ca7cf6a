"""What is asked of git in a folder that another named: nothing that its settings name is run, and nothing is missed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coordinate import config, git
from tests.doors.command import Command
from tests.doors.repository import Repository

MISSING = "0" * 39 + "1"


@pytest.fixture
def bob(repository: Repository) -> Command:
    """Who looks after a worktree that alice opened."""
    alice = repository.call("alice")
    alice("task", "dispatch", "--title", "t", "--role", "w")
    assert alice("task", "claim", "TASK-1").status == 0
    words = ("TASK-1@1", "--branch", "task-1", "--root", str(repository.linked), "--base", "main")
    assert alice("worktree", "open", *words).status == 0
    return repository.call("bob")


def trap(folder: Path, name: str, then: str = "cat") -> str:
    """A program that leaves a trace when it is run."""
    path = folder / f"trap-{name}"
    path.write_text(f"#!/bin/sh\ntouch '{folder}/RAN-{name}'\n{then}\n")
    path.chmod(0o755)
    return str(path)


def ran(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("RAN-*"))


def set_traps(repository: Repository, at: Path, traps: Path) -> None:
    """All that settings and attributes let git run, and files that may have changed since git looked at them."""
    programs = {
        "core.fsmonitor": "fsmonitor",
        "core.sshCommand": "ssh",
        "core.pager": "pager",
        "pager.status": "pager-of-status",
        "credential.helper": "credential",
        "diff.external": "diff",
        "diff.d.command": "diff-driver",
        "diff.d.textconv": "textconv",
        "filter.a.clean": "clean",
        "filter.b.process": "process",
        "filter.C.d.clean": "dotted",
    }
    hooks = traps / "hooks"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(trap(traps, "hook"))
    settings = {key: trap(traps, name) for key, name in programs.items()} | {
        "filter.C.d.required": "true",
        "core.hooksPath": str(hooks),
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::{trap(traps, 'fetch', 'exit 1')}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }
    repository.commit("f", "g", "h", at=at)
    for key, value in settings.items():
        assert repository.git("config", key, value, at=at).status == 0, key
    common = Path(at, repository.git("rev-parse", "--git-common-dir", at=at).out.strip())
    (common / "info").mkdir(exist_ok=True)
    (common / "info" / "attributes").write_text("f filter=a diff=d\ng filter=b\nh filter=C.d\n")
    for name in ("f", "g", "h"):
        os.utime(at / name, (1, 1))


def test_no_program_that_a_repository_names_is_run_in_it(repository: Repository, bob: Command, tmp_path: Path) -> None:
    set_traps(repository, repository.linked, tmp_path)
    for words in (("show",), ("adopt",), ("close", "--base", MISSING)):
        assert bob("worktree", *words[:1], "TASK-1", *words[1:]).status in (0, 2)
    assert not config.tracked_by_git(repository.main / ".coordinate")
    assert repository.call("bob", at=repository.linked)("guard", "check", "--staged").status == 0
    assert ran(tmp_path) == []
    for words in (("status",), ("cat-file", "-e", MISSING)):  # the traps are ones
        repository.git(*words, at=repository.linked)
    assert {"RAN-fsmonitor", "RAN-clean", "RAN-dotted", "RAN-fetch"} <= set(ran(tmp_path))


def test_submodules_are_looked_into_without_running_what_they_name(
    repository: Repository, bob: Command, tmp_path: Path
) -> None:
    within = repository.linked / "sub" / "within"
    within.mkdir(parents=True)
    repository.git("init", "-q", "-b", "main", at=within)
    repository.commit("README", at=within)
    repository.git("add", "sub", at=repository.linked)
    (repository.linked / "loop").symlink_to(repository.linked)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{MISSING},loop", at=repository.linked)
    repository.git("commit", "-qm", "sub", at=repository.linked)
    clean = bob("worktree", "show", "TASK-1").json["unsaved"]
    set_traps(repository, within, tmp_path)
    repository.write("new", at=within)
    after = bob("worktree", "show", "TASK-1").json["unsaved"]
    assert ran(tmp_path) == []
    # The link in the place of a submodule; then also its commit that is another, and there a new file.
    assert (clean.split(";")[0], after.split(";")[0]) == ("1 uncommitted file(s)", "3 uncommitted file(s)")


def test_a_checkout_brings_no_repository_of_its_own_to_be_asked(repository: Repository, tmp_path: Path) -> None:
    brought = repository.main / "brought"
    repository.git("init", "-q", "--bare", str(brought))
    for key, value in {"core.bare": "false", "core.worktree": str(brought)}.items():
        assert repository.git("config", "--file", str(brought / "config"), key, value).status == 0
    assert repository.git("rev-parse", "--show-toplevel", at=brought).out.strip() == str(brought)
    with pytest.raises(git.Unknown):
        git.uncommitted(str(brought))


def test_a_filter_that_cannot_be_put_aside_leaves_git_without_an_answer(repository: Repository) -> None:
    repository.git("config", "filter.a=b.clean", "cat")
    with pytest.raises(git.Unknown, match="holds a ="):
        git.uncommitted(str(repository.main))
