"""Worktrees: working copies in which a task's changes live. This door looks with git, the board does not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from coordinate import config, errors, git, inputs
from coordinate.cli.declared import OneOf, argument, command, option
from coordinate.cli.shared import Call, Exit, as_path, as_text, given
from coordinate.states import WORKTREE_CLOSED, WORKTREE_STATES

if TYPE_CHECKING:
    from coordinate.records import Worktree

# As a base these mean the working copy's own commits, of which none is missing in them.
_ITS_OWN = re.compile(r"(?i)(HEAD|@)($|[~^])")
OPEN_STATES = [state for state in WORKTREE_STATES if state not in WORKTREE_CLOSED]

task_argument = argument("task", metavar="TASK-ID")
reason_option = option("--reason", help="Why.")
base_option = option("--base", help="What it was to be merged into. Default: as `worktree open` said.")
force_option = option("--force", is_flag=True, help="Although work could be lost; it is recorded what.")


@command("open", example="coordinate worktree open TASK-12@3 --branch task-12 --root ../task-12 --base main")
@argument("task", metavar="TASK-ID@ATTEMPT")
@option("--branch", required=True, help="The branch that it works on.")
@option("--root", required=True, help="Where the working copy lies, or will lie.")
@option("--base", help="What it will be merged into.")
@option("--scope", "patterns", multiple=True, help="A path or glob that it changes. Default: the task's own.")
def open_worktree(call: Call, task: str, root: str, **wanted: Any) -> None:
    """Open a working copy for a held task; its scopes hold until merge or abort. A conflict is exit status 3.

    This makes no working copy: `git worktree add` does. Where it is there already and git knows it otherwise, a
    warning says so. Scopes count from the root of the repository.
    """
    with call.board() as board:
        place = os.path.realpath(config.absolute(as_path(root)))
        answer = board.open_worktree(task=task, root=as_text(place), **given(**wanted))
        call.show(answer)
    if answer.worktree is None:
        raise Exit(errors.Held.exit_status)
    for doubt in _doubts(answer.worktree):
        call.warn(f"{doubt}; closing it will need to know better", task_id=answer.worktree.task_id)


@command("state", example="coordinate worktree state TASK-12 integrating")
@task_argument
@argument("state", metavar="STATE", type=OneOf(*OPEN_STATES))
def set_state(call: Call, task: str, state: str) -> None:
    """Say where the changes of an open worktree stand: open, gating, integrating, conflict or replaying."""
    with call.board() as board:
        call.show(board.set_worktree_state(task=task, state=state))


@command("close", example="coordinate worktree close TASK-12")
@task_argument
@base_option
@reason_option
@force_option
def close(call: Call, task: str, base: str | None, reason: str | None, force: bool) -> None:
    """Close a worktree as merged. Refused while git shows uncommitted or unmerged work in it, or cannot tell.

    Call it before you remove the working copy. On disk it changes nothing.
    """
    _close(call, task, base, reason, aborted=False, force=force)


@command("abort", example="coordinate worktree abort TASK-12 --reason superseded")
@task_argument
@base_option
@reason_option
@force_option
def abort(call: Call, task: str, base: str | None, reason: str | None, force: bool) -> None:
    """Close a worktree without merging. Refused while git shows uncommitted or unmerged work, or cannot tell.

    On disk it changes nothing.
    """
    _close(call, task, base, reason, aborted=True, force=force)


@command("adopt", example="coordinate worktree adopt TASK-12")
@task_argument
@force_option
def adopt(call: Call, task: str, force: bool) -> None:
    """Go on in a worktree that another agent left open. Refused while git shows uncommitted work, or cannot tell."""
    with call.board() as board:
        found = board.worktree_of(task=task)
        unsaved = _said(_uncommitted(found)) if found else ""
        call.show(board.adopt_worktree(task=task, unsaved=unsaved, force=force, looked_at=found.id if found else 0))


@command("show", example="coordinate worktree show TASK-12")
@task_argument
def show(call: Call, task: str) -> None:
    """Show the open worktree of a task with what closing it would lose; {} when there is none.

    Nothing that the repository's settings name is run for that, no filter either: where only one (as git-lfs is) could
    tell that a file is unchanged, it counts as changed until git itself has looked again (`git status`).
    """
    from coordinate.cli.output import plain

    with call.board() as board:
        found = board.worktree_of(task=task)
        call.show({**plain(found), "unsaved": _unsaved(found, None)} if found else {})


@command("list", example="coordinate worktree list --closed")
@option("--project", help="Only of this project.")
@option("--closed", is_flag=True, help="Also the merged and aborted ones.")
@option("--before", type=int, metavar="ID", help="The page before the worktree with this id.")
@option("--limit", type=int, help="At most so many.")
def list_worktrees(call: Call, closed: bool, **wanted: Any) -> None:
    """List open worktrees, the newest first."""
    with call.board() as board:
        call.show(board.list_worktrees(closed=closed, **given(**wanted)))


def _close(call: Call, task: str, base: str | None, reason: str | None, *, aborted: bool, force: bool) -> None:
    with call.board() as board:
        found = board.worktree_of(task=task)
        unsaved, looked_at = (_unsaved(found, base), found.id) if found else ("", 0)
        wanted = given(reason=reason, aborted=aborted, force=force)
        call.show(board.close_worktree(task=task, unsaved=unsaved, looked_at=looked_at, **wanted))


# --- what was said of it, against what git knows ----------------------------------------------------------------------


def _doubts(worktree: Worktree) -> Iterator[str]:
    """What git knows otherwise than it was said; nothing of a working copy that is not there yet."""
    if not os.path.lexists(as_path(worktree.root)):
        return
    try:
        top = _top(worktree)
        found = git.ask(top, "branch", "--show-current").removesuffix("\n")
    except git.Unknown as doubt:
        yield str(doubt)
        return
    if as_text(found) != worktree.branch:
        yield f"{worktree.branch} is not checked out at {worktree.root}: {as_text(found) or 'no branch'} is"
    if worktree.base:
        if _ITS_OWN.match(worktree.base):
            yield f"{worktree.base} is whatever is checked out there itself, so name a branch to be merged into"
            return
        try:
            git.ask(top, "rev-parse", "--verify", "--quiet", "--end-of-options", as_path(worktree.base) + "^{commit}")
        except git.Unknown:
            yield f"{worktree.base} is no branch or commit there to be merged into"


# --- what would be lost; whatever git cannot tell counts as work ------------------------------------------------------


def _unsaved(worktree: Worktree, base: str | None) -> str:
    parts = (_uncommitted(worktree), _unmerged(worktree, base or worktree.base))
    return _said("; ".join(dict.fromkeys(part for part in parts if part)))


def _said(doubt: str) -> str:
    """Short enough to be recorded, and text, whatever a folder is called: it must not be in the way of --force."""
    said = doubt.encode(errors="replace").decode()
    return said if len(said) <= inputs.REASON_MAX else said[: inputs.REASON_MAX - 3] + "..."


def _uncommitted(worktree: Worktree) -> str:
    """What is changed or new there and in no commit; ignored files do not count."""
    try:
        count = git.uncommitted(_there(worktree))
    except git.Unknown as doubt:
        return str(doubt)
    return f"{count} uncommitted file(s)" if count else ""


def _unmerged(worktree: Worktree, base: str) -> str:
    """Commits that the base does not have, on its branch or on what is checked out there now."""
    try:
        top = _top(worktree)
        if not base:
            return "nobody said what it is to be merged into (--base), so nobody can tell what is unmerged"
        if _ITS_OWN.match(base):
            return f"{base} is whatever is checked out there itself, so nobody can tell what is unmerged: name a branch"
        revisions = ("HEAD", as_path(worktree.branch), f"^{as_path(base)}")
        count = git.ask(top, "rev-list", "--count", "--end-of-options", *revisions, "--").strip()
    except git.Unknown as doubt:
        return str(doubt)
    return "" if count == "0" else f"{count} commit(s) of {worktree.branch} that {base} does not have"


def _top(worktree: Worktree) -> str:
    root = _there(worktree)
    git.must_be_top(root)
    return root


def _there(worktree: Worktree) -> str:
    root = as_path(worktree.root)
    if not os.path.isdir(root):  # noqa: PTH112 - never raises
        raise git.Unknown(f"{worktree.root} is not on this machine, so nobody can tell what is in it")
    return root
