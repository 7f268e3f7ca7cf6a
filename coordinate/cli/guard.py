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
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coordinate import config, errors
from coordinate.cli import git
from coordinate.cli.shared import Call, as_path, as_text, command, given, read_file

if TYPE_CHECKING:
    from coordinate.records import Conflict

MARK = "# made by coordinate guard install"
OURS = re.compile(
    rf"#!/bin/sh\n{MARK}\n(command -v coordinate .*\n)?exec coordinate guard check --staged.* >/dev/null\n"
)
MISSING = (
    "command -v coordinate >/dev/null || { echo 'no coordinate in $PATH: this commit is not guarded' >&2; exit 0; }\n"
)
# A name of at most so many characters is asked for as it is, a longer one by its folder.
PATTERN_MAX = 1_000
PATTERNS_AT_ONCE = 100
TOLD_MAX = 20
# What would read as a wildcard, or is refused in a pattern, is asked for as any one character.
UNPLAIN = re.compile(r"[*?\[\]{}\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
AWAY = (errors.Busy, errors.Unreachable, errors.ReadOnly, errors.OutcomeUnknown)
NO_BOARD = (errors.NoBoard, errors.NotABoard, errors.SchemaBehind, errors.SchemaAhead, errors.UnsupportedDatabase)

project_option = click.option("--project", help="Whose scopes. Default: default.")
fail_open_option = click.option(
    "--fail-open", is_flag=True, help="Let it pass, with a warning, without a board to ask."
)


@command("install", example="coordinate guard install")
@fail_open_option
@project_option
def install(call: Call, fail_open: bool, project: str | None) -> None:
    """Write a git pre-commit hook here that asks the board for the paths of each commit.

    It holds for all worktrees of the repository. A hook of somebody else's is never replaced: the refusal shows the
    line to add to it. `git commit --no-verify` passes any hook by.
    """
    line = "coordinate guard check --staged" + (" --fail-open" if fail_open else "")
    line += f" --project {shlex.quote(project)}" if project else ""
    try:
        top = git.top(".")
        path = Path(top, git.ask(top, "rev-parse", "--git-path", "hooks").removesuffix("\n"), "pre-commit")
    except git.Unknown as unknown:
        raise errors.InvalidInput(str(unknown), hint="run it inside of a git checkout", field="folder") from None
    if path.is_symlink() or (path.exists() and not OURS.fullmatch(path.read_text("utf-8", "replace"))):
        raise errors.InvalidState(
            f"{path} is somebody else's hook and stays as it is", hint=f"add this line to it: {line}", path=str(path)
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{MARK}\n{MISSING if fail_open else ''}exec {line} >/dev/null\n", encoding="utf-8")
    path.chmod(0o755)
    call.show({"installed": as_text(str(path)), "runs": line, "fail_open": fail_open})


@command("check", example="coordinate guard check --staged")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--staged", is_flag=True, help="The paths that the next commit adds, changes or removes.")
@click.option("--stdin", "from_stdin", is_flag=True, help="The path that an editor hook's JSON on stdin names.")
@fail_open_option
@project_option
@click.option("--fence", "fences", type=int, multiple=True, help="Of a lease that is yours.")
def check(
    call: Call,
    paths: tuple[str, ...],
    staged: bool,
    from_stdin: bool,
    fail_open: bool,
    project: str | None,
    fences: tuple[int, ...],
) -> None:
    """Ask the board about paths; exit status 3, with holder and expiry, when another holds one of them.

    What the session ($COORDINATE_SESSION) holds is no conflict. A path that lies in no checkout is refused; with
    --stdin it is let through, because no scope can mean it.
    """
    wanted: defaultdict[str, list[str]] = defaultdict(list)
    for named, strict in ((paths, True), (_edited() if from_stdin else (), False)):
        for path in named:
            if (found := _placed(path, strict=strict)) is not None:
                wanted[found[0]].append(found[1])
    if staged:
        top, names = _staged()
        wanted[top] += map(_pattern, names)
    try:
        conflicts = [
            conflict for top, patterns in wanted.items() for conflict in _ask(call, top, patterns, project, fences)
        ]
    except (*AWAY, *NO_BOARD) as error:
        if not fail_open:
            raise
        call.warn(f"the board could not be asked, so nothing is guarded: {error.message}", code=error.code)
        conflicts = []
    if conflicts:
        raise _refusal(conflicts)
    call.show({"granted": True, "paths": [pattern for patterns in wanted.values() for pattern in patterns]})


@command("snippet", example="coordinate guard snippet")
@fail_open_option
def snippet(call: Call, fail_open: bool) -> None:
    """Print the settings that let an agent's harness ask the board before it edits a file.

    Such hooks stop the edit on exit status 2 alone, and show the agent what is on stderr.
    """
    line = f"coordinate guard check --stdin{' --fail-open' if fail_open else ''} >/dev/null || exit 2"
    hook = {"type": "command", "command": line}
    call.show({"hooks": {"PreToolUse": [{"matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [hook]}]}})


# --- which paths ------------------------------------------------------------------------------------------------------


def _staged() -> tuple[str, list[str]]:
    """The top of this checkout and what its index changes; of a rename both names, and what is deleted too."""
    try:
        top = git.top(".", in_hook=True)
        said = git.ask(".", "diff", "--cached", "--name-only", "--no-renames", "--no-relative", "-z", in_hook=True)
    except git.Unknown as unknown:
        raise errors.InvalidInput(str(unknown), hint="run it inside of a git checkout", field="staged") from None
    return top, [name for name in said.split("\0") if name]


def _edited() -> Iterator[str]:
    """The path that an editor's hook names, from the folder that it names; none is nothing to guard."""
    try:
        told = json.loads(read_file("-"))
        about = told.get("tool_input") or {}
        found = [about.get(key) for key in ("file_path", "notebook_path", "path")]
        folder = told.get("cwd") or "."
    except (ValueError, AttributeError):
        raise errors.InvalidInput("stdin is not the JSON of an editor hook", field="stdin") from None
    return (str(Path(folder, each)) for each in found if isinstance(each, str) and each)


def _placed(path: str, *, strict: bool) -> tuple[str, str] | None:
    """The checkout that a path lies in, whichever worktree that is, and its name there; links are followed.

    Refused is what lies in no checkout when `strict`, and always what lies in one that git cannot read.
    """
    absolute = Path(os.path.realpath(as_path(path)))
    folder = next(each for each in absolute.parents if each.is_dir())
    if ".git" in absolute.parts:
        why = "it belongs to git itself"
    else:
        try:
            top = git.top(str(folder))
            return top, _pattern(os.path.relpath(absolute, top))
        except git.Unknown as unknown:
            why = str(unknown)
            strict = strict or any((each / ".git").exists() for each in absolute.parents)
    if strict:
        raise errors.InvalidInput(
            f"{path} is no file of a git checkout: {why}", hint="name a path of the project", field="path"
        )
    return None


def _pattern(name: str) -> str:
    """A file's own name as a pattern that means it, and at worst more."""
    path = Path(UNPLAIN.sub("?", name) if name.strip() else "?" * len(name))
    while len(str(path)) > PATTERN_MAX:
        path = path.parent
    return str(path)


# --- the board's answer -----------------------------------------------------------------------------------------------


def _ask(call: Call, top: str, patterns: list[str], project: str | None, fences: tuple[int, ...]) -> Iterable[Conflict]:
    """What others hold, as the board of that checkout says."""
    named, call.db = call.db, call.db or config.locate(None, start=Path(top)).target
    try:
        call.tells_losses = False  # a guard speaks to whoever runs it; the session is told at its own next call
        with call.board() as board:
            for start in range(0, len(patterns), PATTERNS_AT_ONCE):
                some = patterns[start : start + PATTERNS_AT_ONCE]
                yield from board.check_scopes(patterns=some, **given(project=project, fences=fences)).conflicts
    finally:
        call.db = named


def _refusal(conflicts: list[Conflict]) -> errors.Held:
    from coordinate.cli.output import plain

    first = plain(conflicts[0])
    until = f"until {first['until']}" if first["until"] else "for an open worktree"
    return errors.Held(
        f"{first['holder']} holds {first['held']} {until}, and {first['pattern']} is part of it",
        hint="leave it alone until then, or ask its holder; if that is you, set $COORDINATE_SESSION to what holds it",
        holder=first["holder"],
        until=first["until"],
        conflicts=plain(conflicts[:TOLD_MAX]),
    )
