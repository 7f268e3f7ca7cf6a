"""Where a path lies: which project is meant, and what the path is called from its root. Nothing here asks git."""

from __future__ import annotations

import os
import re
import unicodedata
from itertools import takewhile
from pathlib import Path

from coordinate import config, errors
from coordinate.cli.shared import as_path, as_text

# What would read as a wildcard, or is refused in a pattern, stands for any one character.
_UNPLAIN = re.compile(r"[*?\[\]{}\\\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_GLOB = frozenset("*?[{")
_DRIVE = re.compile(r"[A-Za-z]:")


def patterns_from_root(typed: tuple[str, ...]) -> list[str]:
    """Paths and globs as typed, each from the root of the project that the caller's folder lies in.

    As with git they count from the caller's folder, and an absolute one may lie in any worktree of the project. The
    root is the top of the git checkout, else the folder of the board; without either they are taken as given. Raises
    `InvalidInput` for what lies outside. Links are not followed, and what follows the first wildcard stays as it is.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # a removed worktree: what is typed there counted from its top, most likely
        return list(typed)
    root = root_of(here)
    return list(typed) if root is None else [_from_root(each, here, root) for each in typed]


def root_of(path: Path) -> Path | None:
    """The top of the git checkout that a path lies in, else the folder of the board; None outside of both."""
    around = (path, *path.parents)
    for mark in (".git", config.FOLDER):
        for each in around:
            if os.path.lexists(each / mark):
                return each
    return None


def as_pattern(name: str) -> str:
    """A file's own name as a pattern that means it, and at worst more."""
    if not name.strip():
        return "?" * len(name)
    plain = _UNPLAIN.sub("?", unicodedata.normalize("NFC", name))
    # A first segment that reads like a drive would make the path an absolute one.
    return plain[0] + "?" + plain[2:] if _DRIVE.fullmatch(plain.split("/", 1)[0]) else plain


def _from_root(typed: str, here: Path, root: Path) -> str:
    if not typed.strip():
        return typed  # refused as it is
    segments = typed.replace("\\", "/").split("/")
    plain = list(takewhile(_GLOB.isdisjoint, segments))
    drive = os.path.splitdrive(segments[0])[0]  # only where there are some
    start = Path("/") if segments[0] == "" else Path(f"{drive}/") if drive else here
    place = Path(os.path.normpath(start.joinpath(*map(as_path, plain))))
    name = Path(os.path.relpath(place, _root_around(place, root, typed))).as_posix()
    return "/".join([as_pattern(as_text(name)), *segments[len(plain) :]])


def _root_around(place: Path, root: Path, typed: str) -> Path:
    """The root to count from: that of another worktree of the project, where the place lies in one."""
    other = root_of(place)
    if other is not None and _main(other) == _main(root):
        return other
    if place.is_relative_to(root):
        return root
    raise errors.InvalidInput(
        f"{typed} lies outside of {as_text(str(root))}, so it is no path of this project",
        hint="paths count from the folder you are in, as with git; name one inside",
        field="patterns",
    )


def _main(root: Path) -> str:
    """What all worktrees of a project have in common."""
    return os.path.realpath(config.main_checkout(root) or root)
