"""A board of the kanban tool, read in any shape it ever had; the file itself is never touched.

Its files are copied as they lie, under the lock that any reader takes, and only the private copy is opened: opening a
file in WAL mode would write to its neighbours. Tables are recognised by the columns that are there, never by position
or by a version number, which such boards are known to carry wrongly. (A board of that tool is a SQLite file by nature,
so this room names that engine.)
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from coordinate import errors

try:
    import fcntl
except ImportError:  # the comparison before and after the copy has to do
    fcntl = None  # type: ignore[assignment]

MAGIC = b"SQLite format 3\0"
PATIENCE = 30.0
# The bytes of the file that a reader of SQLite locks. While they are locked nobody commits in rollback mode, and
# nobody who leaves takes the write-ahead log away.
SHARED_FIRST, SHARED_SIZE = 0x40000002, 510
WAL_HEADER = 32

Raw = dict[str, Any]


class Kanban:
    """The private copy of a board: its tables' rows, column by column; a column that is missing reads as None."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        named = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        self._tables = {str(name).lower() for (name,) in named}

    @property
    def tables(self) -> set[str]:
        return self._tables

    def columns(self, table: str) -> list[str]:
        """The names of a table's columns; none when there is no such table."""
        if table not in self._tables:
            return []
        return [str(row[1]).lower() for row in self._connection.execute(f"PRAGMA table_info({table})")]

    def rows(self, table: str, wanted: tuple[str, ...]) -> Iterator[Raw]:
        """The wanted columns of all rows, one row at a time, in the order of their ids."""
        there = self.columns(table)
        if not there:
            return
        picked = ", ".join(f'"{name}"' if name in there else f'NULL AS "{name}"' for name in wanted)
        order = ' ORDER BY "id"' if "id" in there and table != "tasks" else ""
        for values in self._connection.execute(f"SELECT {picked} FROM {table}{order}"):
            yield dict(zip(wanted, values, strict=True))

    def last_id(self, table: str) -> int:
        """The highest id that a table ever gave out, also when that row is long gone."""
        given = [row["seq"] for row in self.rows("sqlite_sequence", ("name", "seq")) if row["name"] == table]
        if "id" in self.columns(table):
            given += self._connection.execute(f'SELECT max("id") FROM {table}').fetchone()
        return max((value for value in given if isinstance(value, int)), default=0)


@contextmanager
def opened(source: Path) -> Iterator[Kanban]:
    """A consistent private copy of the board at `source`, as it was at one moment, also while others write to it.

    Raises `NotFound` when there is no file, `NotABoard` when it is something else or damaged, `Busy` when it never
    kept still. Not for a process that has the same file open through SQLite itself: closing any handle of a file
    drops all locks that the process has on it.
    """
    _refuse_what_is_no_file(source)
    with tempfile.TemporaryDirectory(prefix="coordinate-adopt-") as folder:
        copy = _copied(source.resolve(), Path(folder))
        try:
            with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
                # Bytes that are no text become halves of surrogate pairs, which are found and told like any other.
                connection.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
                connection.execute("PRAGMA trusted_schema = OFF")
                board = Kanban(connection)
                _refuse_other_tables(board, source)
                yield board
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise
            raise errors.NotABoard(
                f"{source} is damaged: {error}", hint="repair it with sqlite3's .recover and adopt the result"
            ) from error


def _refuse_what_is_no_file(source: Path) -> None:
    if source.is_dir():
        raise errors.NotABoard(f"{source} is a folder, not a board", hint="name the file, such as .kanban/kanban.db")
    if not source.exists():
        raise errors.NotFound(f"there is no file {source}", hint="name the board's file, such as .kanban/kanban.db")
    if not source.is_file():
        raise errors.NotABoard(f"{source} is no ordinary file", hint="name the board's file")


def _refuse_other_tables(board: Kanban, source: Path) -> None:
    if {"coordinate_version", "schema_window"} & board.tables:
        raise errors.NotABoard(
            f"{source} is a board of coordinate already",
            hint="nothing needs to be adopted: use it with --db",
        )
    needed = {"tasks": {"id", "title", "status", "role_boundary"}, "notes": {"task_id"}, "history": {"task_id"}}
    missing = [table for table, columns in needed.items() if not columns <= set(board.columns(table))]
    if missing:
        shown = ", ".join(sorted(board.tables)[:5]) or "none"
        raise errors.NotABoard(
            f"{source} is no board of the kanban tool: its tables are {shown}",
            hint="name a board of the kanban tool, such as .kanban/kanban.db",
            missing=missing,
        )


# --- the copy ---------------------------------------------------------------------------------------------------------


def _copied(source: Path, folder: Path) -> Path:
    """Copy the file, then its log, and believe the copy only if the log was not begun anew meanwhile.

    In WAL mode the file changes only by pages that stand in the log too, and the log only grows until it is begun anew
    with another header. So the file copied first and the log copied after it make one moment: the end of the log.
    """
    copy = folder / "board.db"
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with source.open("rb") as file, _read_locked(file, deadline):
                if file.read(len(MAGIC)) != MAGIC:
                    raise errors.NotABoard(f"{source} is not a SQLite file", hint="name the board's file")
                before = _sign_of_change(source)
                file.seek(0)
                with copy.open("wb") as into:
                    shutil.copyfileobj(file, into, 1 << 20)
                for suffix in ("-journal", "-wal"):
                    _copy_neighbour(source, copy, suffix)
                if _sign_of_change(source) == before:
                    return copy
        except PermissionError:
            raise errors.PermissionDenied(f"{source} may not be read", hint="check its permissions") from None
        except OSError as error:
            raise errors.Unreachable(
                f"{source} cannot be copied: {error}", hint="$TMPDIR names the folder for the copy: it needs the room"
            ) from error
        if time.monotonic() > deadline:
            raise errors.Busy(f"{source} did not keep still for {PATIENCE:g} s", hint="try again when less happens")
        time.sleep(0.02)


def _copy_neighbour(source: Path, copy: Path, suffix: str) -> None:
    beside = copy.with_name(copy.name + suffix)
    beside.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(source.with_name(source.name + suffix), beside)


def _sign_of_change(source: Path) -> object:
    """Equal before and after the copy when the copy is one moment: the log's header, without a log the file's date."""
    with suppress(FileNotFoundError), source.with_name(source.name + "-wal").open("rb") as log:
        if header := log.read(WAL_HEADER):
            return header
    found = source.stat()
    return found.st_size, found.st_mtime_ns


@contextmanager
def _read_locked(file: BinaryIO, deadline: float) -> Iterator[None]:
    """Lock like any reader, without writing a byte; closing the file lets go."""
    while fcntl is not None:
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, SHARED_SIZE, SHARED_FIRST)
        except (BlockingIOError, PermissionError):
            if time.monotonic() > deadline:
                raise errors.Busy(f"{file.name} stayed locked for {PATIENCE:g} s", hint="try again") from None
            time.sleep(0.02)
            continue
        except OSError:
            break  # storage without locks: the comparison has to do
        break
    yield
