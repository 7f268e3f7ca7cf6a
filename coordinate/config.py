"""Which board am I in, and which settings hold: flag, then environment, then file, then default.

The board is named by `--db`, by $COORDINATE_DB, or by the nearest `.coordinate/` upward; a git worktree looks in its
main checkout too. Configuration and hooks are read only from a folder that the caller (or root) owns, that others
cannot write and that git does not track.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from coordinate import errors
from coordinate.frozen import dataclass

FOLDER = ".coordinate"
BOARD = "board.db"
CONFIG = "config.toml"
SETTINGS = ("db", "busy_seconds", "synchronous", "gate", "webhooks")
SYNCHRONOUS = ("NORMAL", "FULL", "EXTRA", "OFF")


@dataclass(frozen=True)
class Place:
    """A board's address and how it was found; `folder` is its `.coordinate/`, if it has one.

    `refusals` say why that is not used, `doubts` what of its settings is none.
    """

    target: str
    source: str
    folder: Path | None
    settings: dict[str, Any]
    refusals: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Place({self.source!r}, {self.folder!r})"  # the target and the settings may hold a password


def locate(flag: str | None, *, start: Path | None = None) -> Place:
    """Find the board; opens and creates nothing.

    Raises `NoBoard` when nothing names one, or the name counts from a folder that is gone, `PermissionDenied` when the
    caller may not get there, or settings that are refused may name another board, `InvalidInput` when it is a folder,
    or the settings are no settings. To a board that is named by the flag or by the environment the folder only adds:
    what is wrong with it is then among the place's `refusals`.
    """
    named, source = (flag, "--db") if flag else (os.environ.get("COORDINATE_DB"), "$COORDINATE_DB")
    folder: Path | None = None
    settings: dict[str, Any] = {}
    refusals: tuple[str, ...] = ()
    try:
        folder = find_folder(absolute(start or ""))
        if folder is not None and (refusal := untrusted(folder)):
            refusals = (f"{folder} is not used for settings and hooks: {refusal}",)
        elif folder is not None:
            settings = _settings(folder)
    except errors.CoordinateError as error:
        if not named:
            raise
        refusals = (f"{folder or FOLDER} is not used for settings and hooks: {error.message}",)
    if not named:
        if folder is None:
            raise errors.NoBoard(
                "there is no board here: no .coordinate folder in this folder or above it",
                hint="begin with: coordinate init   (or name one with --db or $COORDINATE_DB)",
            )
        named, source = board_of(folder, settings)
        if refusals and (folder / CONFIG).exists() and not (folder / BOARD).exists():
            # It may name the board; whoever makes one here makes a second truth.
            raise errors.PermissionDenied(refusals[0], hint="put that right, or name the board with --db")
    _refuse_what_cannot_be_opened(named, source)
    # Only said: another version may know it. A line that nobody reads looks like one that is obeyed.
    doubts = tuple(
        f"{name} in {folder}/{CONFIG} is no setting: there are {', '.join(SETTINGS)}"
        for name in settings
        if name not in SETTINGS
    )
    return Place(named, source, folder, settings, refusals, doubts)


def board_of(folder: Path, settings: dict[str, Any]) -> tuple[str, str]:
    """The board that a `.coordinate/` names by itself, and what says so."""
    if written := settings.get("db"):
        # A relative path counts from the file that names it, wherever the command is run.
        return written if "://" in written else str(folder / written), str(folder / CONFIG)
    return str(folder / BOARD), str(folder)


def find_folder(start: Path) -> Path | None:
    """The nearest `.coordinate/` upward from a folder, or from the main checkout of its git worktree."""
    for here in (start, *start.parents):
        if is_folder(here / FOLDER):
            return here / FOLDER
        if (main := main_checkout(here)) is not None and is_folder(main / FOLDER):
            return main / FOLDER
    return None


def no_entry(path: Path, *, instead: str = "name another board with --db or $COORDINATE_DB") -> errors.PermissionDenied:
    """The refusal where the caller's rights end: which folder or file on the way to a path it is, and whose."""
    path = absolute(path)
    barred = next((each for each in reversed(path.parents) if not os.access(each, os.X_OK)), None)
    if barred is not None:
        what = "may not be entered"
    elif path.exists():
        barred, what = path, "may not be opened"
    else:
        barred, what = next(each for each in path.parents if each.exists()), "may not be written to"
    return errors.PermissionDenied(
        f"{barred} {what}: it belongs to {_owner(barred)}",
        hint=f"ask its owner for the right to it, or {instead}",
        path=str(path),
    )


@contextmanager
def reaching(path: Path, field: str) -> Iterator[None]:
    """What the system says against a path that a caller named, in words of ours."""
    try:
        yield
    except PermissionError:
        raise no_entry(path, instead="name another file") from None
    except OSError as error:
        said = f"{path!s:.200} cannot be had: {error.strerror}"
        raise errors.InvalidInput(said, hint="name another file", field=field) from None


def switch(folder: Path, target: str) -> Path:
    """Let a `.coordinate/` name another board: the `db` line of its config.toml; whatever else stands there stays.

    Raises what `switched` raises, and `PermissionDenied` when it cannot be written; then the file is as it was.
    """
    path, text = folder / CONFIG, switched(folder, target)
    partial = path.with_name(f"{CONFIG}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        if path.exists():
            partial.chmod(stat.S_IMODE(path.stat().st_mode))
        partial.replace(path)
    except OSError as error:
        raise errors.PermissionDenied(f"{path} cannot be written: {error.strerror}", field="config") from None
    return path


def switched(folder: Path, target: str) -> str:
    """What config.toml says once it names another board, and is read again to prove it; nothing is written.

    Raises `InvalidInput` when the `db` that stands there is not one line of its own, `PermissionDenied` when the folder
    may not be written.
    """
    import tomllib

    path, line = folder / CONFIG, f"db = {json.dumps(target, ensure_ascii=False)}"
    if not os.access(folder, os.W_OK):
        raise errors.PermissionDenied(f"{folder} may not be written", field="config")
    kept = path.read_text(encoding="utf-8-sig").splitlines() if path.exists() else []
    wanted = {**tomllib.loads("\n".join(kept)), "db": target}
    may_be_it = [number for number, each in enumerate(kept) if re.match(r"\s*[\"']?db[\"']?\s*=", each)]
    for gone in (None, *may_be_it):
        text = "\n".join([line, *(each for number, each in enumerate(kept) if number != gone)]) + "\n"
        with suppress(tomllib.TOMLDecodeError):
            if tomllib.loads(text) == wanted:
                return text
    raise errors.InvalidInput(
        f"{path} names its board in more than a line", hint=f"write there by hand: {line}", field="config"
    )


def patience(place: Place | None) -> float:
    """How many seconds to wait for a locked board ($COORDINATE_BUSY_SECONDS, `busy_seconds`; 30)."""
    value, named = _setting(place, "busy_seconds", "COORDINATE_BUSY_SECONDS", 30)
    try:
        seconds = -1.0 if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        seconds = -1.0
    if not 0 <= seconds <= 3600:
        raise _no_setting("busy_seconds", named, "a number of seconds from 0 to 3600", value, 30)
    return seconds


def synchronous(place: Place | None) -> str:
    """How hard SQLite syncs ($COORDINATE_SYNCHRONOUS, `synchronous`; NORMAL)."""
    value, named = _setting(place, "synchronous", "COORDINATE_SYNCHRONOUS", "NORMAL")
    if str(value).upper() not in SYNCHRONOUS:
        raise _no_setting("synchronous", named, f"one of {', '.join(SYNCHRONOUS)}", value, "NORMAL")
    return str(value).upper()


def gate(place: Place | None) -> bool:
    """Whether writers of a SQLite board go in the order in which they came ($COORDINATE_GATE, `gate`; on)."""
    value, named = _setting(place, "gate", "COORDINATE_GATE", "on")
    if value not in (True, False, "on", "off"):
        raise _no_setting("gate", named, "on or off", value, "on")
    return value in (True, "on")


def _setting(place: Place | None, name: str, variable: str, usual: Any) -> tuple[Any, str]:
    """One setting and who says it: the variable, unless it is empty, then the board's config.toml, then nobody."""
    if value := os.environ.get(variable):
        return value, f"${variable}"
    if place is not None and name in place.settings:
        return place.settings[name], f"{name} in {place.folder}/{CONFIG}"
    return usual, name


def _no_setting(name: str, named: str, wanted: str, value: Any, usual: Any) -> errors.InvalidInput:
    from coordinate import inputs

    return errors.InvalidInput(
        f"{named} must be {wanted}, not {inputs.short(value)}",
        hint=f"put it right, or leave it out: it is {usual} then",
        field=name,
    )


def untrusted(folder: Path) -> str | None:
    """Why a `.coordinate/` is not used for settings and hooks; None when it is.

    Whoever could put a file there could run code as the caller, or send its answers elsewhere.
    """
    for path in (folder, folder / CONFIG, folder / "hooks"):
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


def tracked_by_git(path: Path) -> str:
    """Whether git tracks a file or folder, in words, or nothing: what came with a checkout was written by another.

    Letter case makes no difference: it makes none where a system opens `Config.toml` as config.toml. Where git cannot
    say (it is not installed, it distrusts the repository), it counts as tracked.
    """
    if not any((here / ".git").exists() for here in path.parents):
        return ""
    from coordinate import git  # rarely needed, and slow to load

    try:
        folder = str(path.parent)
        name = git.ask(folder, "rev-parse", "--show-prefix").removesuffix("\n") + path.name
        return "it is tracked by git" if git.ask(folder, "ls-files", "--", f":(top,literal,icase){name}") else ""
    except git.Unknown as unknown:
        return f"git cannot say whether it is tracked ({unknown})"


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    try:
        found = path.stat()
    except FileNotFoundError:
        return {}
    except OSError:
        raise no_entry(path) from None
    if not stat.S_ISREG(found.st_mode):
        raise errors.InvalidInput(f"{path} is no file", hint="move it away", field="config")
    import tomllib

    if why := tracked_by_git(path):
        raise errors.PermissionDenied(
            f"{path} is not used: {why}",
            hint="where it is tracked: git rm --cached it, `coordinate init` ignores the folder; else see what"
            " `git status` says here; or name the board with --db",
        )
    try:
        settings = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # as editors on Windows write it
    except PermissionError:
        raise no_entry(path) from None
    except (OSError, ValueError) as error:
        raise errors.InvalidInput(
            f"{path} cannot be read: {error}", hint='a line of it looks like: db = "board.db"', field="config"
        ) from None
    if not isinstance(settings.get("db", ""), str):
        raise errors.InvalidInput(
            f"db in {path} must be text, not {type(settings['db']).__name__}",
            hint='write a path or an address in quotes: db = "board.db"',
            field="db",
        )
    return settings


def is_server(target: str) -> bool:
    """Whether a target is the address of a server; else it is a file's place."""
    return "://" in target and not target.startswith("sqlite:///")


def path_of(target: str) -> Path:
    """The file that a target means, if it is no server's address; a path is a path, whatever stands in it."""
    return absolute(target.removeprefix("sqlite:///"))


def absolute(path: str | Path) -> Path:
    """A path from the root on; the empty one is the caller's folder.

    Raises `NoBoard` when that folder is gone and the path counts from it: the shells of a removed worktree stay there.
    """
    try:
        return Path(path).absolute()
    except FileNotFoundError:
        named = str(path) not in ("", ".")
        raise errors.NoBoard(
            "the folder that you are in is gone" + f", and {path} counts from it" * named,
            hint="go to one that is there; from here only what is named from the root on is found: --db /path/board.db",
        ) from None


def _refuse_what_cannot_be_opened(target: str, source: str) -> None:
    """A file's place, as far as a look can tell; what is not there may be made, and a server is asked later."""
    if is_server(target):
        return
    path = path_of(target)
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return
    except PermissionError:
        raise no_entry(path) from None
    except (OSError, ValueError) as error:
        raise errors.InvalidInput(f"{target!r:.200} is no path: {error}", hint="name a file", field="db") from None
    if stat.S_ISDIR(found.st_mode):
        raise errors.InvalidInput(
            f"{path} is a folder, not a board; {source} names it",
            hint=f"name the file, such as {path / BOARD}",
            field="db",
        )
    if not os.access(path, os.R_OK):
        raise no_entry(path)


def is_folder(path: Path) -> bool:
    """Whether there is a folder. Raises `PermissionDenied` where the caller may not look."""
    try:
        return path.is_dir()
    except PermissionError:
        raise no_entry(path) from None
    except OSError:  # such as a name that no folder can have
        return False


def _owner(path: Path) -> str:
    try:
        uid = path.stat().st_uid
    except OSError:
        return "another user"
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return f"the user {uid}"


def main_checkout(here: Path) -> Path | None:
    """The main checkout of a linked git worktree: its .git is a file that points into the main one's."""
    pointer = here / ".git"
    try:
        if not pointer.is_file():
            return None
        said = pointer.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError):
        return None
    if not said.startswith("gitdir: "):
        return None
    gitdir = (here / said.removeprefix("gitdir: ")).resolve()
    # …/main/.git/worktrees/NAME
    return gitdir.parents[2] if gitdir.parent.name == "worktrees" and gitdir.parents[1].name == ".git" else None
