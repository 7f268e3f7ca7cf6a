"""Guards: before files change, ask the board whether somebody else holds them.

A guard goes by the path that is about to change, not by the folder that the caller stands in: a path in a linked git
worktree is the same path of the project. Whoever cannot reach the board is refused, unless told to fail open.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import click

from coordinate import errors
from coordinate.cli.shared import Call, command, given

MARK = "# made by coordinate guard install"
GIT_SECONDS = 30


@command("install", example="coordinate guard install")
@click.option("--fail-open", is_flag=True, help="Let a commit through when the board cannot be asked.")
@click.option("--project", help="Whose scopes. Default: default.")
def install(call: Call, fail_open: bool, project: str | None) -> None:
    """Write a git pre-commit hook here that asks the board for the paths of each commit.

    A hook of somebody else's is never replaced: add the line that the refusal shows to it.
    """
    hooks = Path(_git(Path.cwd(), "rev-parse", "--git-path", "hooks").strip()).absolute()
    path = hooks / "pre-commit"
    line = "coordinate guard check --staged"
    line += " --fail-open" if fail_open else ""
    line += f" --project '{_quotable(project)}'" if project else ""
    if path.exists() and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise errors.InvalidState(
            f"{path} is somebody else's hook and stays as it is", hint=f"add this line to it: {line}", path=str(path)
        )
    hooks.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{MARK}\nexec {line}\n", encoding="utf-8")
    path.chmod(0o755)
    call.show({"installed": str(path), "runs": line, "fail_open": fail_open})


@command("check", example="coordinate guard check --staged")
@click.argument("paths", nargs=-1, metavar="[PATH...]")
@click.option("--staged", is_flag=True, help="The paths that the next commit changes, old and new names.")
@click.option("--stdin", "from_stdin", is_flag=True, help="One path from an editor hook's JSON on stdin.")
@click.option("--fail-open", is_flag=True, help="Exit 0 with a warning when the board cannot be asked.")
@click.option("--project", help="Whose scopes. Default: default.")
def check(
    call: Call, paths: tuple[str, ...], staged: bool, from_stdin: bool, fail_open: bool, project: str | None
) -> None:
    """Ask the board about paths; exit status 3, with holder and expiry, when another holds one of them."""
    named = list(paths)
    if staged:
        top = Path(_git(Path.cwd(), "rev-parse", "--show-toplevel").rstrip("\n"))
        named += [str(top / each) for each in _staged()]
    if from_stdin:
        named += _paths_of_hook(sys.stdin.read())
    if not named:
        call.show({"granted": True, "conflicts": []})
        return
    try:
        with call.board() as board:
            conflicts = []
            wanted = [_in_project(Path(each)) for each in named]
            for start in range(0, len(wanted), 100):
                answer = board.check_scopes(patterns=wanted[start : start + 100], **given(project=project))
                conflicts += list(answer.conflicts)
    except (errors.Busy, errors.Unreachable, errors.NoBoard, errors.ReadOnly, errors.SchemaBehind) as error:
        if not fail_open:
            raise
        call.warn(f"the board could not be asked, so nothing is guarded: {error.message}")
        return
    if conflicts:
        first = conflicts[0]
        until = "" if first.until is None else f" until {first.until.isoformat(timespec='seconds')}"
        raise errors.Held(
            f"{first.holder} holds {first.held}{until}; {first.pattern} is part of it",
            hint="ask its holder, or leave these paths alone until the lease ends: coordinate lease list",
            conflicts=[f"{each.pattern}: {each.holder} holds {each.held}" for each in conflicts[:20]],
        )
    call.show({"granted": True, "conflicts": []})


@command("snippet", example="coordinate guard snippet")
def snippet(call: Call) -> None:
    """Print the settings that let an agent's editor calls ask the board before they write."""
    hook = {"type": "command", "command": "coordinate guard check --stdin"}
    call.show({"hooks": {"PreToolUse": [{"matcher": "Edit|Write|MultiEdit|NotebookEdit", "hooks": [hook]}]}})


def _staged() -> list[str]:
    """Both names of a rename count, and what is deleted too."""
    said = _git(Path.cwd(), "diff", "--cached", "--name-status", "-z", "--no-renames")
    fields = said.split("\0")
    return [name for name in fields[1::2] if name]


def _paths_of_hook(said: str) -> list[str]:
    """The path of an editor hook's JSON: `tool_input.file_path`, or the like; none is nothing to guard."""
    try:
        given_input = json.loads(said).get("tool_input", {})
    except (ValueError, AttributeError):
        raise errors.InvalidInput("stdin is not the JSON of an editor hook", field="stdin") from None
    found = [given_input.get(key) for key in ("file_path", "notebook_path", "path")]
    return [each for each in found if isinstance(each, str) and each]


def _in_project(path: Path) -> str:
    """A path as the board knows it: from the top of its checkout, whichever worktree it lies in, links resolved.

    Characters that would read as a wildcard stand for themselves: such a name is asked for by its folder.
    """
    absolute = Path(os.path.realpath(path))
    folder = next((each for each in absolute.parents if each.is_dir()), Path("/"))
    try:
        top = Path(os.path.realpath(_git(folder, "rev-parse", "--show-toplevel").rstrip("\n")))
        inside = absolute.relative_to(top)
    except (errors.InvalidInput, ValueError):
        raise errors.InvalidInput(
            f"{path} lies in no git checkout", hint="name a path of the project", field="path"
        ) from None
    parts: list[str] = []
    for part in inside.parts:
        if any(sign in part for sign in "*?[]{}"):
            break
        parts.append(part)
    return "/".join(parts) or "."


def _git(folder: Path, *words: str) -> str:
    # Inside a hook git names its own repository in the environment: the path decides here.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or "INDEX" in name}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *words],
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
            env=clean,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise errors.InvalidInput(f"git cannot be asked: {error}", field="path") from None
    if done.returncode != 0:
        raise errors.InvalidInput(
            f"git says: {os.fsdecode(done.stderr).strip()[:200]}", hint="run it inside a git checkout", field="path"
        )
    return os.fsdecode(done.stdout)


def _quotable(text: str) -> str:
    if "'" in text:
        raise errors.InvalidInput("a project with a quote in its name cannot be written into a hook", field="project")
    return text
