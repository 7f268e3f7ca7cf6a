"""Which board am I in, and which settings hold: flag, then environment, then file, then default.

The board is named by `--db`, by $COORDINATE_DB, or by the nearest `.coordinate/` upward; a git worktree looks in its
main checkout too. Configuration and hooks are read only from a folder that the caller (or root) owns, that others
cannot write and that git does not track.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coordinate import errors

FOLDER = ".coordinate"
BOARD = "board.db"
SYNCHRONOUS = ("NORMAL", "FULL", "EXTRA", "OFF")


@dataclass(frozen=True, slots=True)
class Place:
    """A board's address and how it was found; `folder` is its `.coordinate/`, if it has one."""

    target: str = field(repr=False)  # may hold a password
    source: str
    folder: Path | None
    settings: dict[str, Any] = field(default_factory=dict)
    refusals: tuple[str, ...] = ()


def locate(flag: str | None, *, start: Path | None = None) -> Place:
    """Find the board. Raises `NoBoard` when nothing names one; opens and creates nothing."""
    folder = find_folder(start or Path.cwd())
    refusal = untrusted(folder) if folder else None
    settings = _settings(folder) if folder and not refusal else {}
    refusals = (f"{folder} is not used for settings and hooks: {refusal}",) if folder and refusal else ()
    if flag:
        return Place(flag, "--db", folder, settings, refusals)
    if named := os.environ.get("COORDINATE_DB"):
        return Place(named, "$COORDINATE_DB", folder, settings, refusals)
    if folder is None:
        raise errors.NoBoard(
            "there is no board here: no .coordinate folder in this folder or above it",
            hint="begin with: coordinate init   (or name one with --db or $COORDINATE_DB)",
        )
    if named := settings.get("db"):
        # A relative path counts from the file that names it, wherever the command is run.
        target = str(named) if "://" in str(named) else str(folder / str(named))
        return Place(target, str(folder / "config.toml"), folder, settings, refusals)
    return Place(str(folder / BOARD), str(folder), folder, settings, refusals)


def find_folder(start: Path) -> Path | None:
    """The nearest `.coordinate/` upward from a folder, or from the main checkout of its git worktree."""
    for here in (start, *start.parents):
        if (here / FOLDER).is_dir():
            return here / FOLDER
        if (main := _main_checkout(here)) is not None and (main / FOLDER).is_dir():
            return main / FOLDER
    return None


def setting(place: Place | None, name: str, environment: str, default: Any) -> Any:
    """One setting: environment, then the board's config.toml, then the default."""
    if (value := os.environ.get(environment)) is not None:
        return value
    return place.settings.get(name, default) if place else default


def patience(place: Place | None) -> float:
    """How many seconds to wait for a locked board ($COORDINATE_BUSY_SECONDS, `busy_seconds`; 30)."""
    value = setting(place, "busy_seconds", "COORDINATE_BUSY_SECONDS", 30)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise errors.InvalidInput(
            f"busy_seconds must be a number of seconds from 0 to 3600, not {value!r}", field="busy_seconds"
        )
    return seconds


def synchronous(place: Place | None) -> str:
    """How hard SQLite syncs ($COORDINATE_SYNCHRONOUS, `synchronous`; NORMAL)."""
    value = str(setting(place, "synchronous", "COORDINATE_SYNCHRONOUS", "NORMAL")).upper()
    if value not in SYNCHRONOUS:
        raise errors.InvalidInput(
            f"synchronous must be one of {', '.join(SYNCHRONOUS)}, not {value!r}", field="synchronous"
        )
    return value


def untrusted(folder: Path) -> str | None:
    """Why a `.coordinate/` is not used for settings and hooks; None when it is.

    Whoever could put a file there could run code as the caller, or send its answers elsewhere.
    """
    for path in (folder, folder / "config.toml", folder / "hooks"):
        if fault := foreign(path):
            return fault
    return None


def foreign(path: Path) -> str | None:
    """Why what lies at a path may be another user's doing; None when only the caller or root could have written it.

    A link is judged by what it leads to. What is not there is nobody's doing.
    """
    if not hasattr(os, "getuid"):
        return None
    try:
        found = path.stat()
    except OSError:
        return None
    if found.st_uid not in (os.getuid(), 0):
        return f"{path.name} belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"{path.name} can be written by others (chmod go-w takes that away)"
    return None


def tracked_by_git(path: Path) -> bool:
    """Whether git tracks a file or folder: what came with a checkout was written by somebody else.

    Where git cannot say (it is not installed, it distrusts the repository), the answer is yes.
    """
    if not any((here / ".git").exists() for here in path.parents):
        return False
    import subprocess  # rarely needed, and slow to load

    # Inside a git hook these name another index or repository. An fsmonitor would be a program of the repository's.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    ask = ["git", "-C", str(path.parent), "--literal-pathspecs", "-c", "core.fsmonitor=false", "ls-files"]
    try:
        listed = subprocess.run(
            [*ask, "--", path.name],
            capture_output=True,
            timeout=10,
            check=False,
            stdin=subprocess.DEVNULL,
            env=environment,
        )
    except (OSError, subprocess.TimeoutExpired):
        return True
    return bool(listed.stdout.strip()) or listed.returncode != 0


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.toml"
    if not path.is_file():
        return {}
    import tomllib

    if tracked_by_git(path):
        raise errors.PermissionDenied(
            f"{path} is tracked by git and is not used", hint="git rm --cached it; `coordinate init` ignores the folder"
        )
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise errors.InvalidInput(f"{path} cannot be read: {error}", field="config") from None


def _main_checkout(here: Path) -> Path | None:
    """The main checkout of a linked git worktree: its .git is a file that points into the main one's."""
    pointer = here / ".git"
    if not pointer.is_file():
        return None
    try:
        said = pointer.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        return None
    if not said.startswith("gitdir: "):
        return None
    gitdir = (here / said.removeprefix("gitdir: ")).resolve()
    # …/main/.git/worktrees/NAME
    return gitdir.parents[2] if gitdir.parent.name == "worktrees" and gitdir.parents[1].name == ".git" else None
