"""Worktrees: working copies in which a task's changes live. This door looks with git, the board does not."""

from __future__ import annotations

import subprocess
from pathlib import Path

import click

from coordinate import errors
from coordinate.cli.shared import Call, command, given
from coordinate.states import WORKTREE_CLOSED, WORKTREE_STATES

GIT_SECONDS = 30


@command("open", example="coordinate worktree open TASK-12@3 --branch task-12 --root ../task-12 --base main")
@click.argument("task", metavar="TASK-ID@ATTEMPT")
@click.option("--branch", required=True, help="The branch that it works on.")
@click.option("--root", required=True, help="Where the working copy lies.")
@click.option("--base", help="What it will be merged into.")
@click.option("--scope", "patterns", multiple=True, help="A path or glob that it changes. Default: the task's own.")
def open_worktree(call: Call, task: str, branch: str, root: str, base: str | None, patterns: tuple[str, ...]) -> None:
    """Open a working copy for a held task; its scopes hold until merge or abort. A conflict is exit status 3."""
    with call.board() as board:
        answer = board.open_worktree(
            task=task, branch=branch, root=str(Path(root).absolute()), **given(base=base, patterns=patterns)
        )
        call.show(answer)
    if answer.worktree is None:
        raise click.exceptions.Exit(errors.Held.exit_status)


@command("state", example="coordinate worktree state TASK-12 integrating")
@click.argument("task", metavar="TASK-ID")
@click.argument("state", type=click.Choice([each for each in WORKTREE_STATES if each not in WORKTREE_CLOSED]))
def set_state(call: Call, task: str, state: str) -> None:
    """Say where the changes of an open worktree stand."""
    with call.board() as board:
        call.show(board.set_worktree_state(task=task, state=state))


@command("close", example="coordinate worktree close TASK-12")
@click.argument("task", metavar="TASK-ID")
@click.option("--reason", help="A word about it.")
@click.option("--force", is_flag=True, help="Although work would be lost; recorded.")
def close(call: Call, task: str, reason: str | None, force: bool) -> None:
    """Close a worktree as merged. Refused while git shows uncommitted or unmerged work in it."""
    _close(call, task, reason, aborted=False, force=force)


@command("abort", example="coordinate worktree abort TASK-12 --reason superseded")
@click.argument("task", metavar="TASK-ID")
@click.option("--reason", help="Why.")
@click.option("--force", is_flag=True, help="Although work would be lost; recorded.")
def abort(call: Call, task: str, reason: str | None, force: bool) -> None:
    """Close a worktree without merging. Refused while git shows uncommitted or unmerged work in it."""
    _close(call, task, reason, aborted=True, force=force)


@command("adopt", example="coordinate worktree adopt TASK-12")
@click.argument("task", metavar="TASK-ID")
@click.option("--force", is_flag=True, help="Although uncommitted work lies in it; recorded.")
def adopt(call: Call, task: str, force: bool) -> None:
    """Go on in a worktree that another agent left open."""
    with call.board() as board:
        found = _open_of(board.list_worktrees(limit=1000), task)
        unsaved = uncommitted(found.root) if found else ""
        call.show(board.adopt_worktree(task=task, unsaved=unsaved, force=force))


@command("list", example="coordinate worktree list --closed")
@click.option("--project", help="Only of this project.")
@click.option("--closed", is_flag=True, help="Also the merged and aborted ones.")
@click.option("--limit", type=int, help="At most so many.")
def list_worktrees(call: Call, project: str | None, closed: bool, limit: int | None) -> None:
    """List open worktrees, the newest first."""
    with call.board() as board:
        call.show(board.list_worktrees(closed=closed, **given(project=project, limit=limit)))


def _close(call: Call, task: str, reason: str | None, *, aborted: bool, force: bool) -> None:
    with call.board() as board:
        found = _open_of(board.list_worktrees(limit=1000), task)
        unsaved = "; ".join(part for part in (uncommitted(found.root), unmerged(found)) if part) if found else ""
        call.show(
            board.close_worktree(task=task, aborted=aborted, unsaved=unsaved, force=force, **given(reason=reason))
        )


def _open_of(worktrees, task: str):  # type: ignore[no-untyped-def]
    wanted = task.partition("@")[0].upper()
    return next((each for each in worktrees if each.task_id == wanted), None)


def uncommitted(root: str) -> str:
    """What git shows as uncommitted in a working copy; nothing where there is no such folder on this machine."""
    if not Path(root).is_dir():
        return ""
    said = _git(root, "status", "--porcelain")
    return f"{len(said.splitlines())} uncommitted file(s)" if said.strip() else ""


def unmerged(worktree) -> str:  # type: ignore[no-untyped-def]
    """How many commits of the branch its base does not have."""
    if not worktree.base or not Path(worktree.root).is_dir():
        return ""
    said = _git(worktree.root, "rev-list", "--count", f"{worktree.base}..{worktree.branch}").strip()
    return f"{said} commit(s) of {worktree.branch} that {worktree.base} does not have" if said not in ("", "0") else ""


def _git(root: str, *words: str) -> str:
    """Ask git; a question that it cannot answer counts as work that could be lost."""
    try:
        done = subprocess.run(
            ["git", "-C", root, *words],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.UnsavedWork(f"git cannot be asked about {root}: {error}", hint="look yourself") from None
    if done.returncode != 0:
        raise errors.UnsavedWork(
            f"git cannot tell whether work would be lost in {root}: {done.stderr.strip()[:200]}", hint="look yourself"
        )
    return done.stdout
