"""Guards: before files change, ask the board whether somebody else holds them.

A guard goes by the path that is about to change, not by the folder that the caller stands in: the path decides which
checkout, and so which board, is meant, and a path in a linked git worktree is the same path of the project. When the
board cannot be asked the answer is no, unless told to fail open.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinate import config, errors, git, paths
from coordinate.cli.declared import argument, command, option
from coordinate.cli.places import as_pattern, root_of
from coordinate.cli.shared import BadUsage, Call, as_path, as_text, given, read_file

if TYPE_CHECKING:
    from coordinate.records import Conflict, Scopes

MARK = "# made by coordinate guard install"
OURS = re.compile(
    rf"#!/bin/sh\n{MARK}\n(command -v coordinate .*\n)?exec coordinate guard check --staged.* >/dev/null\n"
)
# Where git looks for hooks, and what all worktrees of the repository share.
_FOLDERS = (("--git-path", "hooks"), ("--git-common-dir",))
# Whatever the settings here, or the .gitmodules of a checkout, would leave out.
_WHOLE = ("--name-only", "--no-renames", "--no-relative", "--ignore-submodules=none")
PATTERNS_AT_ONCE = 100
TOLD_MAX = 20
NO_BOARD = (errors.NoBoard, errors.NotABoard, errors.SchemaBehind, errors.SchemaAhead, errors.UnsupportedDatabase)

project_option = option("--project", help="Whose scopes. Default: default.")
fail_open_option = option("--fail-open", is_flag=True, help="Let it pass, with a warning, without a board to ask.")


@command("install", example="coordinate guard install")
@fail_open_option
@project_option
def install(call: Call, fail_open: bool, project: str | None) -> None:
    """Write a git pre-commit hook here that asks the board for the paths of each commit.

    It holds for all worktrees of the repository. A hook of somebody else's is never replaced, nor is one made where
    other repositories have theirs (core.hooksPath): the refusal shows the line to add. `git commit --no-verify` passes
    any hook by.
    """
    line = "coordinate guard check --staged" + (" --fail-open" if fail_open else "")
    line += f" --project {shlex.quote(project)}" if project else ""
    try:
        top = git.top(".")
        folder, common = (Path(top, git.ask(top, "rev-parse", *words).removesuffix("\n")) for words in _FOLDERS)
    except git.Unknown as unknown:
        raise errors.InvalidInput(str(unknown), hint="run it inside of a git checkout", field="folder") from None
    path = folder / "pre-commit"
    if not any(Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(each)) for each in (top, common)):
        raise errors.InvalidState(
            f"{folder}, which core.hooksPath names, lies outside of this repository: a guard there would stop the"
            " commits of others, which have no board",
            hint=f"let this one have hooks of its own (git config core.hooksPath), or add this line to yours: {line}",
            path=str(path),
        )
    missing = _unless_missing("commit", 0 if fail_open else 1)
    try:
        if path.is_symlink() or (path.exists() and not OURS.fullmatch(path.read_text("utf-8", "replace"))):
            raise errors.InvalidState(
                f"{path} is somebody else's hook and stays as it is",
                hint=f"add this line to it: {line}",
                path=str(path),
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.{os.getpid()}")  # half a hook would let everything pass
        partial.write_bytes(f"#!/bin/sh\n{MARK}\n{missing}\nexec {line} >/dev/null\n".encode())
        partial.chmod(0o755)
        partial.replace(path)
    except OSError as error:
        said = f"{path} cannot be written: {error.strerror}"
        raise errors.InvalidInput(said, hint="see what stands there, or in its way", field="folder") from None
    call.show({"installed": as_text(str(path)), "runs": line, "fail_open": fail_open})


@command("check", example="coordinate guard check --staged")
@argument("paths", nargs=-1, metavar="[PATH...]")
@option("--staged", is_flag=True, help="The paths that the next commit adds, changes or removes.")
@option("--stdin", "from_stdin", is_flag=True, help="The path that an editor hook's JSON on stdin names.")
@fail_open_option
@project_option
@option("--fence", "fences", type=int, multiple=True, help="Of a lease that is yours.")
@option("--task", metavar="HANDLE", help="Of a task that you hold. Default: $COORDINATE_CLAIM, as `run` sets it.")
def check(
    call: Call,
    paths: tuple[str, ...],
    staged: bool,
    from_stdin: bool,
    fail_open: bool,
    project: str | None,
    fences: tuple[int, ...],
    task: str | None,
) -> None:
    """Ask the board about paths; exit status 3, with holder and expiry, when another holds one of them.

    What the session ($COORDINATE_SESSION) holds is no conflict, nor what belongs to the task whose handle you show. A
    path that lies in no checkout is refused; with --stdin it is let through, because no scope can mean it. A folder
    stands for all below it.
    """
    if not (paths or staged or from_stdin):
        raise BadUsage("name paths, or say --staged or --stdin: without any, nothing is guarded")
    own = given(project=project, fences=fences, task=task or as_text(os.environ.get("COORDINATE_CLAIM", "")) or None)
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for named, strict in ((paths, True), (_edited() if from_stdin else (), False)):
        for path in named:
            if (found := _placed(path, strict=strict)) is not None:
                wanted[found[0]] += found[1]
    if staged:
        top, names = _staged()
        wanted[top] += [pattern for name in names for pattern in _patterns(top, name)]
    try:
        answers = [answer for top, patterns in wanted.items() for answer in _ask(call, top, patterns, own)]
    except (*errors.AWAY, *NO_BOARD) as error:
        if not fail_open:
            raise
        call.warn(f"the board could not be asked, so nothing is guarded: {error.message}", code=error.code)
        answers = []
    if conflicts := [conflict for answer in answers for conflict in answer.conflicts]:
        raise _refusal(conflicts, more=sum(answer.more for answer in answers))
    call.show({"granted": True, "paths": [pattern for patterns in wanted.values() for pattern in patterns]})


@command("snippet", example="coordinate guard snippet")
@fail_open_option
def snippet(call: Call, fail_open: bool) -> None:
    """Print the settings that let an agent's harness ask the board before it edits a file.

    Such hooks stop the edit on exit status 2 alone, and show the agent what is on stderr.
    """
    line = f"coordinate guard check --stdin{' --fail-open' if fail_open else ''} >/dev/null || exit 2"
    line = f"{_unless_missing('edit', 0 if fail_open else 2)}; {line}"
    hook = {"type": "command", "command": line}
    call.show({"hooks": {"PreToolUse": [{"matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [hook]}]}})


def _unless_missing(what: str, status: int) -> str:
    """Shell: say in one sentence when there is no command to ask with, and end."""
    end = "passes" if status == 0 else "is refused"
    said = f"this {what} {end}: coordinate is not in $PATH, so nobody can say who holds its files; put it there"
    return f"command -v coordinate >/dev/null || {{ echo '{said}' >&2; exit {status}; }}"


# --- which paths ------------------------------------------------------------------------------------------------------


def _staged() -> tuple[str, list[str]]:
    """The top of this checkout and what its index changes; of a rename both names, and what is deleted too."""
    try:
        top = git.top(".", in_hook=True)
        said = git.ask(".", "diff", "--cached", *_WHOLE, "-z", in_hook=True)
    except git.Unknown as unknown:
        raise errors.InvalidInput(str(unknown), hint="run it inside of a git checkout", field="staged") from None
    return top, [name for name in said.split("\0") if name]


def _edited() -> list[str]:
    """The path that an editor's hook names, from the folder that it names; none is nothing to guard."""
    try:
        told = json.loads(read_file("-"))
    except (ValueError, RecursionError):
        raise _no_hook("stdin is not the JSON of an editor hook") from None
    about = told.get("tool_input", {}) if isinstance(told, dict) else None
    if not isinstance(about, dict):
        raise _no_hook("stdin is not the JSON of an editor hook")
    folder, *named = told.get("cwd"), *(about.get(key) for key in ("file_path", "notebook_path", "path"))
    for each in (folder, *named):
        if not isinstance(each, str | None):
            raise _no_hook("the editor hook names a path or a cwd that is no text")
    return [os.path.join(folder or ".", each) for each in named if each]  # noqa: PTH118 - refused later if it is none


def _no_hook(message: str) -> errors.InvalidInput:
    return errors.InvalidInput(message, hint="see what is expected: coordinate guard snippet", field="stdin")


def _placed(path: str, *, strict: bool) -> tuple[str, list[str]] | None:
    """The checkout that a path lies in, whichever worktree that is, and its name there; links are followed.

    Refused is what lies in no checkout when `strict`, and always what lies in one that git cannot read.
    """
    try:
        if not path:
            raise ValueError
        absolute = os.path.realpath(config.absolute(as_path(path)))
    except ValueError:  # a NUL, half of a surrogate pair
        raise errors.InvalidInput(f"{path!r} is no path", hint="name a path of the project", field="path") from None
    around = [Path(absolute), *Path(absolute).parents]
    if ".git" in around[0].parts:
        why = "it belongs to git itself"
    else:
        try:
            top = git.top(str(next(each for each in around if os.path.isdir(each))))  # noqa: PTH112 - never raises
            return top, _patterns(top, os.path.relpath(absolute, top))
        except git.Unknown as unknown:
            why = str(unknown)
            strict = strict or any(os.path.exists(each / ".git") for each in around)  # noqa: PTH110 - never raises
    if strict:
        raise errors.InvalidInput(
            f"{path} is no file of a git checkout: {why}", hint="name a path of the project", field="path"
        )
    return None


def _patterns(top: str, name: str) -> list[str]:
    """A file of a checkout as patterns that mean it, and at worst more; one too long is asked for by its folder.

    A backslash in its name reads as a separator where a scope is claimed, so that is asked for too.
    """
    readings = []
    for root in _roots(top):
        each = os.path.relpath(os.path.join(top, name), root)  # noqa: PTH118 - it is text
        readings.append(as_pattern(each))
        if "\\" in each:
            readings.append(as_pattern(os.path.normpath(each.replace("\\", "/")).lstrip("/")))
    return [_short(each) for each in readings if each.split("/")[0] not in ("", "..")]


@cache
def _roots(top: str) -> list[Path]:
    """A checkout, and those around it that share its board: whoever claimed a file of a submodule may have stood there,
    and called it otherwise."""
    roots = [Path(top)]
    while not _has_board(roots[-1]) and (outer := root_of(roots[-1].parent)) not in (None, roots[-1]):
        roots.append(outer)
    return roots


def _has_board(top: Path) -> bool:
    return any((each / config.FOLDER).is_dir() for each in (top, config.main_checkout(top) or top))


def _short(pattern: str) -> str:
    while len(pattern) > paths.PATTERN_LENGTH_MAX or len(pattern.encode()) > paths.PATTERN_BYTES_MAX:
        pattern = os.path.dirname(pattern)  # noqa: PTH120 - it is text
    return pattern or "."


# --- the board's answer -----------------------------------------------------------------------------------------------


def _ask(call: Call, top: str, patterns: list[str], own: dict[str, Any]) -> Iterable[Scopes]:
    """What others hold, as the board of that checkout says."""
    named, call.db = call.db, call.db or config.locate(None, start=Path(top)).target
    try:
        call.tells_losses = False  # a guard speaks to whoever runs it; the session is told at its own next call
        with call.board() as board:
            for start in range(0, len(patterns), PATTERNS_AT_ONCE):
                some = patterns[start : start + PATTERNS_AT_ONCE]
                yield board.check_scopes(patterns=some, **own)
    finally:
        call.db = named


def _refusal(conflicts: list[Conflict], *, more: int) -> errors.Held:
    from coordinate.cli.output import plain

    first = plain(conflicts[0])
    return errors.Held(
        f"{first['holder']} holds {first['held']}, and {first['pattern']} is part of it; that ends {first['ends']}",
        hint="leave it alone until then, or ask its holder; if that is you, set $COORDINATE_SESSION to what holds it,"
        " or show your task with --task or $COORDINATE_CLAIM",
        holder=first["holder"],
        until=first["until"],
        conflicts=plain(conflicts[:TOLD_MAX]),
        more=len(conflicts[TOLD_MAX:]) + more,
    )
