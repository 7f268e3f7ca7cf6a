"""Verified copies of a SQLite board: where an operator wants one, and beside it before its schema changes.

A copy is one file with nothing beside it, made while others work. A crash leaves at most a file that ends in
`.partial`, or an empty one: the final name appears only once the copy is whole and checked.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from coordinate import config, errors
from coordinate.db import dialect, fence, knowledge, schema
from coordinate.db.engine import Database, Tx
from coordinate.db.server import quoted

# How many of those beside a board are kept.
KEPT = 3
# What they are called. Names of any other form are other people's, also those that end in a number, such as a date.
_MADE = re.compile(
    rf"(?P<board>.+)\.backup-(?:{'|'.join((*knowledge.REVISIONS, 'none'))})-(?:(?P<number>[0-9]+)|failed)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Copied:
    """What a backup holds: the rows of each table, counted in the board and again in the copy."""

    database: str
    backup: str
    bytes: int
    rows: dict[str, int]


def export(board: Path, file: Path) -> Copied:
    """Copy a board into a new file, while others read and write; it holds all that was committed before the call.

    Raises `NoBoard`, `NotABoard` (other tables, or damaged), `NotEmpty` when the file is there already; `Moved` and
    `Moving` where a move's fence is up; `InvalidInput` for a name such as upgrades give to what they remove by and by.
    """
    if _MADE.fullmatch(file.name):
        raise errors.InvalidInput(
            f"{file.name} is named like the copies that upgrades make, and remove when there are newer ones",
            hint="name it otherwise, such as by its date",
            field="file",
        )
    refuse_what_is_no_board(board, str(board))
    if (elsewhere := fence.stops(standing_of_move(board))) is not None:
        raise elsewhere  # a copy of this would be no backup of the board
    if os.path.lexists(file):
        raise errors.NotEmpty(f"{file} is there already", hint="name a new file: a backup never replaces one")
    partial = file.with_name(f".{file.name}.{token_hex(4)}.partial")
    try:
        rows = copy(board, partial)
        _name(partial, file)
    except FileExistsError:
        raise errors.NotEmpty(f"{file} appeared meanwhile", hint="name a new file") from None
    except OSError as error:
        raise errors.PermissionDenied(
            f"{file} cannot be written: {error.strerror}", hint="name another place"
        ) from None
    finally:
        with suppress(OSError):  # where nothing could be made, there is nothing to take away
            _remove(partial)
    return Copied(str(board), str(file), file.stat().st_size, rows)


def _name(partial: Path, file: Path) -> None:
    """Unlike a rename this fails where somebody was faster (`FileExistsError`)."""
    try:
        os.link(partial, file)
    except FileExistsError:
        raise
    except OSError:  # the storage knows no links, such as that of a stick: the name is taken first, by an empty file
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        partial.replace(file)


def make(board: Path, revision: str) -> Path:
    """Copy what is committed to `NAME.backup-REVISION-NUMBER`. The caller holds the board's write lock.

    Older ones stay until the caller, whose work came to its end, says `prune`; or else `set_aside`.
    """
    partial = board.with_name(f"{board.name}.backup.partial")
    with config.reaching(partial, "db"):
        _remove(partial)
        try:
            copy(board, partial)
            number = max((number for number, _ in _backups(board)), default=0) + 1
            while os.path.lexists(final := board.with_name(f"{board.name}.backup-{revision}-{number}")):
                number += 1  # of a revision that only a newer program knows, or in a folder that may not be listed
            _give_rights(partial, board)
            partial.replace(final)
        finally:
            _remove(partial)
    return final


def make_like(example: Path, board: Path) -> None:
    """An empty file, unless one is there, for a board that was another: with its rights from the first byte on."""
    with config.reaching(board, "db"), suppress(FileExistsError):
        os.close(os.open(board, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        _give_rights(board, example)


def _give_rights(file: Path, like: Path) -> None:
    """As open to others as another, and its owner's where root made it."""
    with suppress(OSError):  # then it is for fewer than could be
        if hasattr(os, "geteuid") and os.geteuid() == 0:
            os.chown(file, (found := like.stat()).st_uid, found.st_gid)
        file.chmod(_open_to(like))


def prune(board: Path) -> None:
    """Keep the last few of those beside a board; also what may not be removed, such as another user's."""
    for _, old in _backups(board)[:-KEPT]:
        with suppress(OSError):
            old.unlink()


def set_aside(made: Path, board: Path) -> None:
    """What was to come after this backup failed and changed nothing: it takes no good one's place.

    One of each revision is kept, as `NAME.backup-REVISION-failed`, however often that is tried. Nothing is done where
    it had come before it was interrupted, or nobody can tell.
    """
    with suppress(OSError, sqlite3.Error):
        if _revision(made) == _revision(board):
            made.replace(made.with_name(f"{made.name.rsplit('-', 1)[0]}-failed"))


def _revision(board: Path) -> Any:
    with closing(sqlite3.connect(board)) as connection:
        return connection.execute(f"SELECT version_num FROM {knowledge.VERSION_TABLE}").fetchall()


def refuse_what_is_no_board(board: Path, where: str) -> None:
    """Raise `NoBoard`, `NotABoard` unless a file holds a board, of whatever schema."""
    engine = dialect.SQLite(str(board))
    connection = engine.connect()
    try:
        tables, _ = engine.look_around(connection)
    except sqlite3.Error as error:
        raise dialect.in_our_words(engine, error) from None
    finally:
        connection.close()
    if knowledge.VERSION_TABLE not in tables:
        raise knowledge.without_version(tables, where)


def standing_of_move(board: Path) -> Any:
    """The row of a move, if there is one; an older schema has no table for it."""
    engine = dialect.SQLite(str(board))
    with closing(engine.connect()) as connection:
        tables, _ = engine.look_around(connection)
        return Tx(Database(engine), connection).one("move_state") if "board_move" in tables else None


def copy(board: Path, partial: Path) -> dict[str, int]:
    """Copy what is committed into a new file, and check it; the answer is the rows of each table."""
    try:
        # As secret as the board itself, from the first byte on.
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _open_to(board)))
        rows = _copy(board, partial)
        with partial.open("rb+") as written:
            os.fsync(written.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
            raise errors.Unreachable(f"the disk refuses a copy of {board}: {error.strerror}", hint=_SPACE) from None
        raise errors.PermissionDenied(
            f"{partial.parent} takes no copy of {board}: {error.strerror}", hint="name another place"
        ) from None
    return rows


def _open_to(board: Path) -> int:
    """Who may reach a board: where its folder lets others not in, its own mode says nothing of them.

    Its owner may write, though what is copied here may be kept from that, as a backup is.
    """
    mode, folder = stat.S_IMODE(board.stat().st_mode), board.resolve().parent.stat().st_mode
    for enters, rights in ((stat.S_IXGRP, stat.S_IRWXG), (stat.S_IXOTH, stat.S_IRWXO)):
        mode &= ~(0 if folder & enters else rights)
    return mode | stat.S_IRUSR | stat.S_IWUSR


_SPACE = "free some space there, or name another place; nothing was changed"


def _copy(board: Path, partial: Path) -> dict[str, int]:
    try:
        rows, counted, verdict = _copied(board, partial)
    except sqlite3.DatabaseError as error:
        match error.sqlite_errorcode & 0xFF:
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
                raise _damaged(board, str(error)) from None
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                raise errors.Unreachable(f"the disk refuses a copy of {board}: {error}", hint=_SPACE) from None
        raise dialect.in_our_words(dialect.SQLite(str(board)), error) from None
    if verdict:
        raise _damaged(board, verdict)
    if counted != rows:
        raise errors.CoordinateError(f"the copy of {board} does not hold its rows: {counted} instead of {rows}")
    return rows


def _copied(board: Path, partial: Path) -> tuple[dict[str, int], dict[str, int], str]:
    """The rows of each table in the board, those of the copy, and what SQLite says of that."""
    with closing(sqlite3.connect(board, isolation_level=None)) as source, closing(sqlite3.connect(partial)) as made:
        source.execute("BEGIN")  # the counts and the copy see one moment
        rows = count(source)
        source.backup(made)
        made.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        verdict = next(damage(made, "integrity_check"), "")
        return rows, {} if verdict else count(made), verdict


def damage(connection: sqlite3.Connection, check: str, *, most: int = 10_000) -> Iterator[str]:
    """What SQLite says of a file that is damaged; a value that breaks a rule of its table is no damage."""
    for (said,) in connection.execute(f"PRAGMA main.{check}({most})").fetchall():
        if said != "ok" and not _OF_A_VALUE.match(said):
            yield said


_OF_A_VALUE = re.compile(r"(CHECK constraint failed|[A-Z]+ value) in ")


def count(connection: sqlite3.Connection) -> dict[str, int]:
    """The rows of each table; of virtual ones, whose module may not be at hand, those of the tables that they need."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY name")
    return {name: connection.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()[0] for (name,) in tables}


def orphans(connection: sqlite3.Connection) -> list[Any]:
    """The rows of the board that lack their parent; other programs' tables may be as they like."""
    there = connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'").fetchall()
    ours = [name for (name,) in there if name in schema.metadata.tables]
    return [row for name in ours for row in connection.execute(f"PRAGMA main.foreign_key_check({name})")]


def _damaged(board: Path, verdict: str) -> errors.NotABoard:
    return errors.NotABoard(f"{board} is damaged: {verdict}", hint="restore a backup; nothing was changed")


def _remove(partial: Path) -> None:
    """With what SQLite keeps beside a file: a journal left by a crash would be played into the next copy."""
    for beside in ("", "-journal", "-wal", "-shm"):
        partial.with_name(partial.name + beside).unlink(missing_ok=True)


def _backups(board: Path) -> list[tuple[int, Path]]:
    """The backups of a board, oldest first; none where the folder may not be listed."""
    try:
        there = list(board.parent.iterdir())
    except PermissionError:
        return []
    found = [(made, path) for path in there if (made := _MADE.fullmatch(path.name))]
    return sorted((int(made["number"]), path) for made, path in found if made["board"] == board.name and made["number"])
