"""All that SQLite and Postgres do differently while the program runs: connect, begin, bind, read, explain, wake.

(Its build-time half, how an expression prints, is `portable.py`.) The rest of the program sees one `Engine` and never
asks which. Both engines promise the same: a write transaction that nobody else's decision can slip into, aware UTC
times in whole milliseconds, and errors of ours instead of the driver's.
"""

from __future__ import annotations

import json
import math
import os
import re
import sqlite3
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import quote, urlencode

from coordinate import config, errors
from coordinate.addresses import FILES_OF_SECRETS, SECRETS, without_secret
from coordinate.db import fence
from coordinate.db.compiled import Library, Statement, library_of
from coordinate.db.gate import Gate, rest
from coordinate.db.knowledge import VERSION_TABLE
from coordinate.inputs import dump_json

Params = dict[str, Any]
Binder = Callable[[Params], Any]
Decoders = list[tuple[int, Callable[[Any], Any]]]

POSTGRES_PREFIXES = ("postgresql://", "postgres://", "postgresql+psycopg://")
_ADDRESS = r"[A-Za-z][A-Za-z0-9+.:-]+:/|[Jj][Dd][Bb][Cc]:"
_KEYWORDS = r"\s*(host|hostaddr|port|dbname|user|password|passfile|service|sslmode)\s*="
SQLITE_LEAST = (3, 35, 0)
# The board, its log, the memory that goes with it; a journal, or one to spare.
FILES_OF_A_CONNECTION = 4
POSTGRES_LEAST = 140000


class Interrupted(Exception):
    """The engine could not do it now: `error` is what the caller is told if trying again does not help either."""

    def __init__(
        self,
        error: errors.CoordinateError,
        *,
        again: bool,
        lost: bool = False,
        reached: bool = False,
        seconds_max: float = math.inf,
    ) -> None:
        super().__init__(error.message)
        self.reached = reached  # something answered there, so that the address is right
        self.seconds_max = seconds_max  # for how long another try is wanted
        self.error = error
        self.again = again
        self.lost = lost


class Engine(Protocol):
    """What the rest of the program knows of a database."""

    name: str
    library: Library
    driver_error: type[Exception]
    warnings: list[str]
    patience: float
    """How many seconds to wait for what others have, such as a lock."""
    line_patience: float | None
    """How long a thread stands in line behind other writers of its process; None where each goes its own way."""

    def describe(self) -> str:
        """Where the database is, without any secret."""

    def address(self, *, here: bool = False) -> str:
        """An address that leads there by itself, still without any secret; `here`: with what this machine alone has."""

    def connect(self) -> Any: ...
    def close(self, connection: Any) -> None: ...
    def usable(self, connection: Any) -> bool: ...
    def begin(self, connection: Any, *, writes: bool, hurry: float = math.inf) -> None:
        """Begin. A file's lock is waited for `hurry` seconds, if the engine has more patience."""

    def leave(self) -> None:
        """After the end of a transaction that wrote, or of the try to begin one: let the next one in."""

    def commit(self, connection: Any) -> None: ...
    def rollback(self, connection: Any) -> None: ...
    def binder(self, statement: Statement) -> tuple[str, Binder]: ...
    def decoders(self, statement: Statement) -> Decoders: ...
    def execute(self, connection: Any, sql: str, params: Any) -> Any: ...
    def execute_many(self, connection: Any, sql: str, params: Iterable[Any]) -> None: ...
    def answered(self, connection: Any, executed: Any) -> Any:
        """The same, once its rows are there."""

    def rows_later(self, connection: Any, executed: Any) -> Callable[[], Sequence[Any]]:
        """What gives its rows, also once the transaction is over."""

    def rows_touched(self, connection: Any, executed: Any) -> int: ...

    def plain_rows(self, connection: Any) -> AbstractContextManager[None]:
        """As long as it lasts, a caller's own connection gives tuples and text, whatever it was to make."""

    def explain(self, error: Exception, *, committing: bool) -> Interrupted | None:
        """What a driver's error means; None when it is a fault of ours."""

    def schema_stamp(self, connection: Any) -> object:
        """Something that differs once the schema has changed under an open connection.

        Raises `Interrupted` where that leads to the board no more.
        """

    def look_around(self, connection: Any) -> tuple[list[str], str]:
        """The tables that are there, and the place where this engine keeps them ('' where there is but one)."""

    def wait(self, seconds: float) -> None:
        """Return when somebody else changed the board, or after that long. A hint, never a promise."""

    def stop_waiting(self) -> None:
        """Close what is kept open between two calls, beside connections."""

    def before_fork(self) -> None:
        """Close what must not be open in two processes; nobody is at work."""

    def after_fork(self) -> None:
        """In the child: let go of what the parent had open all the same."""


def is_postgres(target: str) -> bool:
    """Whether a target is a Postgres address; anything else is a path. Raises `InvalidInput` for other addresses."""
    plain = target.startswith(("/", ".", *POSTGRES_PREFIXES, "sqlite:///"))
    if not plain and (re.match(_ADDRESS, target) or re.match(_KEYWORDS, target)):
        # Not shown: taken for a path, it would put a password into file names and messages.
        raise errors.InvalidInput(
            "the address is of no database that this program knows",
            hint="write postgresql://USER@HOST:PORT/NAME, or a path (./a:/b if it looks like an address)",
            field="db",
        )
    return target.startswith(POSTGRES_PREFIXES)


def remembered(target: str) -> str:
    """The address of a board as it may be written down: without a secret, and the same from every folder.

    The path of a file with a secret stays, since it leads there from this machine.
    """
    if is_postgres(target):
        return without_secret(target)
    return open_engine(target, create=False, patience=0, synchronous="NORMAL").describe()


@contextmanager
def way_to(target: str) -> Iterator[None]:
    """Make the folders that the place of a file lacks; where the block raises, those in which nothing lies go again."""
    path = None if is_postgres(target) else config.path_of(target)
    lacking = [] if path is None else [each for each in path.parents if not os.path.lexists(each)]
    try:
        for each in reversed(lacking):
            with config.reaching(each, "db"):
                each.mkdir(exist_ok=True)
        yield
    except BaseException:
        for each in lacking:
            with suppress(OSError):
                each.rmdir()
        raise


def open_engine(target: str, *, create: bool, patience: float, synchronous: str, gate: bool = False) -> Engine:
    """The engine for a target. Nothing is opened yet. `gate`: writers of a file go in the order in which they came."""
    if is_postgres(target):
        return Postgres(target, patience=patience)
    path = str(config.path_of(target))
    return SQLite(path, create=create, patience=patience, synchronous=synchronous, gate=gate)


def let_in(engine: Engine) -> Any:
    """Connect. A server that answers, and lets nobody in just now, is asked again while the engine has patience."""
    deadline = time.monotonic() + engine.patience
    pause = 0.05
    while True:
        try:
            return engine.connect()
        except Interrupted as interrupted:
            if not (interrupted.again and interrupted.reached) or time.monotonic() + pause > deadline:
                raise interrupted.error from None
        rest(pause)
        pause = min(pause * 2, 1.0)


def in_our_words(engine: Engine, error: BaseException) -> BaseException:
    """What a caller is told of what a driver raised; a fault of ours stays what it is."""
    explained = engine.explain(error, committing=False) if isinstance(error, engine.driver_error) else None
    return error if explained is None else explained.error


# --- SQLite -----------------------------------------------------------------------------------------------------------

# File systems on which WAL's shared memory does not work between processes.
NO_WAL = {"9p", "virtiofs", "nfs", "nfs4", "cifs", "smb3", "smbfs", "fuse.sshfs", "fuse.smbnetfs", "vboxsf", "prl_fs"}


_CAME_TWICE = (sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_ROWID)
_ABSENT = "^no such (table|column)|has no column named"


class _Connection(sqlite3.Connection):
    """One that remembers how it was set up, so that it is told only what changes."""

    wal = False
    file: tuple[int, int] | None = None
    _patience = -1.0
    _scratch = "DEFAULT"

    def be_patient(self, seconds: float) -> None:
        """Wait so long for a lock that another has."""
        if seconds != self._patience:
            self.execute(f"PRAGMA busy_timeout = {int(seconds * 1000)}")
            self._patience = seconds

    def keep_scratch(self, where: str) -> None:
        """Where what a statement needs for itself is kept: in MEMORY, or as by DEFAULT in a file once it is large."""
        if where != self._scratch:
            self.execute(f"PRAGMA temp_store = {where}")
            self._scratch = where


class SQLite:
    """One file. Writers begin immediate, so that what they read is what they change; readers take no write lock."""

    name = "sqlite"
    driver_error: type[Exception] = sqlite3.Error

    def __init__(
        self,
        path: str,
        *,
        create: bool = False,
        patience: float = 30.0,
        synchronous: str = "NORMAL",
        gate: bool = False,
    ) -> None:
        self.path = Path(path).absolute()
        self._place = str(self.path)
        self.create = create
        self.patience = patience
        self.synchronous = synchronous
        self.gate = Gate(self.path, wanted=gate)
        self.line_patience: float | None = patience if gate else None
        self.library = library_of(self.name)
        self.warnings: list[str] = []
        if sqlite3.sqlite_version_info < SQLITE_LEAST:
            raise errors.UnsupportedDatabase(
                f"SQLite {sqlite3.sqlite_version} is linked to this Python; 3.35 or later is needed",
                hint="use a Python that brings a newer SQLite",
            )

    def describe(self) -> str:
        return self._place

    def address(self, *, here: bool = False) -> str:
        return self._place

    def connect(self) -> _Connection:
        """Open the file. Raises `NoBoard` when it is not there and may not be made."""
        with config.reaching(self.path, "db"):
            may_open = self.create or self.path.exists()
        if not may_open:
            import shlex

            raise errors.NoBoard(
                f"there is no board at {self.path}",
                hint=f"make one: coordinate db upgrade --db {shlex.quote(str(self.path))}   (or here: coordinate init)",
                path=str(self.path),
            )
        before = self._file()  # one that comes now is noticed later
        try:
            connection = self._open()
        except sqlite3.Error as error:
            explained = self.explain(error, committing=False)
            raise (explained.error if explained else errors.Unreachable(str(error))) from error
        connection.file = before or self._file()
        self._set_up(connection)
        return connection

    def _file(self) -> tuple[int, int] | None:
        """Which file lies at the board's place, whatever it is called."""
        try:
            found = os.stat(self._place)  # noqa: PTH116 - for each transaction, so by a text made once
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _open(self) -> _Connection:
        # A file: address, so that SQLite makes no file unasked; quoted, so that # ? % in a path stay a path's.
        mode = "rwc" if self.create else "rw"
        address = f"file:{quote(os.fsencode(self.path))}?mode={mode}"
        return sqlite3.connect(
            address,
            uri=True,
            timeout=self.patience,  # set by the driver before anything else is asked
            isolation_level=None,  # autocommit: we say BEGIN ourselves
            check_same_thread=False,
            cached_statements=256,
            factory=_Connection,
        )

    def _set_up(self, connection: _Connection) -> None:
        deadline = time.monotonic() + self.patience
        while True:
            try:
                self._choose_journal(connection)
                break
            except sqlite3.DatabaseError as error:
                # Switching the journal does not wait for busy_timeout at every step: several may open a new file.
                busy = getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
                if not busy or time.monotonic() > deadline:
                    connection.close()
                    raise in_our_words(self, error) from error
                rest(0.01)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA synchronous = {self.synchronous}")

    def _choose_journal(self, connection: _Connection) -> None:
        """WAL wherever the storage can carry it; elsewhere a rollback journal, said once, and just as exclusive."""
        now = str(connection.execute("PRAGMA journal_mode").fetchone()[0])
        storage = file_system_of(self.path)
        wanted = "delete" if storage in NO_WAL else "wal"
        self.gate.useful = self.gate.useful and storage not in NO_WAL
        if now != wanted and not self._is_ours(connection):
            return
        if now != wanted:
            now = str(connection.execute(f"PRAGMA journal_mode = {wanted}").fetchone()[0])
        connection.wal = now == "wal"
        if now != "wal":
            where = f"file system {storage}" if storage in NO_WAL else "this storage"
            self.warnings.append(
                f"{self.path} lies on unsupported or network storage ({where} cannot carry SQLite's WAL): a rollback"
                " journal is used, which is slower; a local disk, or Postgres, is the cure"
            )

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """A board, or the empty file that becomes one; another program's file is left as it is."""
        tables, _ = self.look_around(connection)
        return {VERSION_TABLE, "schema_window"} <= set(tables) or (self.create and not tables)

    def close(self, connection: sqlite3.Connection) -> None:
        connection.close()

    def usable(self, connection: sqlite3.Connection) -> bool:
        return not connection.in_transaction

    def begin(self, connection: _Connection, *, writes: bool, hurry: float = math.inf) -> None:
        if writes:
            self._begin_write(connection, min(self.patience, hurry))
        else:
            connection.be_patient(self.patience)
            connection.keep_scratch("DEFAULT")  # a figure may sort a whole table
            connection.execute("BEGIN")

    def _begin_write(self, connection: _Connection, patience: float) -> None:
        """Wait for our turn at the gate, then for the write lock. SQLite's own wait lets writers starve: it sleeps up
        to 100 ms at a time, while those who just came in look at once.

        Without a gate who has waited longer looks more often.
        """
        started, pause = time.monotonic(), 0.0001
        if not self.gate.goes_on:
            self.gate.enter()
        connection.be_patient(0)
        # The pages before a savepoint: a claim's fill the 64 KB beyond which they would go to a file, one by one.
        connection.keep_scratch("MEMORY")
        try:
            while True:
                first = self.gate.wait(started + patience - time.monotonic())
                try:
                    connection.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    waited = time.monotonic() - started
                    if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= patience:
                        raise
                else:
                    return
                if self.gate.enter(make=True) or not first:
                    continue
                # Who is first waits for the end of another's turn, which comes soon, or for something that may last.
                pause = min(0.001, 1.2 * pause) if self.gate.entered else max(0.002, 0.02 - waited / 10)
                rest(pause)
        finally:
            if not connection.wal:  # else a commit waits for nobody
                connection.be_patient(self.patience)

    def leave(self) -> None:
        self.gate.leave()

    def commit(self, connection: sqlite3.Connection) -> None:
        connection.execute("COMMIT")

    def rollback(self, connection: sqlite3.Connection) -> None:
        if connection.in_transaction:
            connection.execute("ROLLBACK")

    def binder(self, statement: Statement) -> tuple[str, Binder]:
        order: list[str] = []

        def place(name: str) -> str:
            order.append(name)
            return "?"

        return _with_places(statement.sql, place), _in_order(statement, order, _SQLITE_IN)

    def decoders(self, statement: Statement) -> Decoders:
        kinds = enumerate(statement.gives.values())
        return [(index, _SQLITE_OUT[kind]) for index, kind in kinds if kind in _SQLITE_OUT]

    execute = staticmethod(sqlite3.Connection.execute)

    def answered(self, connection: sqlite3.Connection, executed: sqlite3.Cursor) -> sqlite3.Cursor:
        return executed

    def rows_later(self, connection: sqlite3.Connection, executed: sqlite3.Cursor) -> Callable[[], Sequence[Any]]:
        rows = executed.fetchall()  # an open cursor would keep the transaction open
        return lambda: rows

    def execute_many(self, connection: sqlite3.Connection, sql: str, params: Iterable[Any]) -> None:
        connection.executemany(sql, params)

    def rows_touched(self, connection: sqlite3.Connection, executed: sqlite3.Cursor) -> int:
        return executed.rowcount

    @contextmanager
    def plain_rows(self, connection: sqlite3.Connection) -> Iterator[None]:
        rows, texts = connection.row_factory, connection.text_factory
        connection.row_factory, connection.text_factory = None, str
        try:
            yield
        finally:
            connection.row_factory, connection.text_factory = rows, texts

    def explain(self, error: Exception, *, committing: bool) -> Interrupted | None:
        if isinstance(error, sqlite3.ProgrammingError) and "closed database" in str(error):
            return Interrupted(errors.Unreachable("the board was closed"), again=False)
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return None
        if code == sqlite3.SQLITE_CONSTRAINT_TRIGGER and (fenced := fence.told(str(error))):
            return Interrupted(fenced, again=False)
        match code & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return Interrupted(
                    errors.Busy(
                        f"the board at {self.path} stayed locked for {self.patience:g} s",
                        hint="try again, or wait longer: $COORDINATE_BUSY_SECONDS",
                    ),
                    # BUSY after the full wait is an answer; BUSY_SNAPSHOT and BUSY_RECOVERY come at once.
                    again=code != sqlite3.SQLITE_BUSY,
                )
            case sqlite3.SQLITE_PROTOCOL:
                crowded = errors.Busy(
                    f"others had every place at the log of {self.path} for ten seconds", hint="try again"
                )
                return Interrupted(crowded, again=True)
            case sqlite3.SQLITE_READONLY:
                refused = errors.PermissionDenied(
                    f"{self._not_ours_to_write()} may not be written",
                    hint="let this user write the file, what lies beside it and its folder; even reading a board writes"
                    " beside it, and whoever may write the folder alone keeps the others out",
                )
                return Interrupted(refused, again=False)
            case sqlite3.SQLITE_NOTADB:
                return Interrupted(
                    errors.NotABoard(f"{self.path} is not a SQLite file", hint="name another path"), again=False
                )
            case sqlite3.SQLITE_CORRUPT:
                return Interrupted(
                    errors.NotABoard(f"{self.path} is damaged: {error}", hint="restore a backup"), again=False
                )
            case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_PERM:
                return Interrupted(self._not_opened(), again=False)
            case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR:
                return Interrupted(
                    errors.Unreachable(f"the disk refuses {self.path}: {error}", hint="free some space"), again=False
                )
            case sqlite3.SQLITE_CONSTRAINT if code in _CAME_TWICE:
                return Interrupted(_came_twice(str(self.path), str(error)), again=False)
            case sqlite3.SQLITE_ERROR if re.search(_ABSENT, str(error)):
                return Interrupted(_lacks(str(self.path), str(error)), again=False)
        return None

    def _not_opened(self) -> errors.CoordinateError:
        """SQLite says only that it could not open a file, which is also so where a process may open no more."""
        opened: list[int] = []
        try:
            opened.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(FILES_OF_A_CONNECTION))
        except OSError as error:
            said = f"{self.path} cannot be opened: {error.strerror}"
            return errors.Unreachable(said, hint="let the process open more files, or close some; then try again")
        finally:
            for each in opened:
                os.close(each)
        return errors.PermissionDenied(
            f"{self.path} cannot be opened", hint="check that the folder is there and may be written"
        )

    def _not_ours_to_write(self) -> Path:
        """What of a board this user may not write: the log may be another's, who came first."""
        board = Path(os.path.realpath(self.path))
        parts = (board, *(board.with_name(f"{board.name}{beside}") for beside in ("-wal", "-shm", "-journal")))
        return next((part for part in parts if part.exists() and not os.access(part, os.W_OK)), self.path)

    def schema_stamp(self, connection: _Connection) -> object:
        # SQLite goes on with a file that was deleted or renamed, and nobody would ever see what is written there. On
        # storage that cannot carry WAL a file's number may mean nothing.
        if connection.wal and connection.file != self._file():
            replaced = errors.Busy(f"another file came in the place of {self.path}", hint="try again")
            raise Interrupted(replaced, again=True, lost=True)
        return connection.execute("PRAGMA schema_version").fetchone()[0]

    def look_around(self, connection: sqlite3.Connection) -> tuple[list[str], str]:
        found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return [row[0] for row in found], ""

    def wait(self, seconds: float) -> None:
        """Watch the file's change counter: a read of shared memory, no lock."""
        deadline = time.monotonic() + seconds
        try:
            with closing(self._open()) as connection:
                seen = connection.execute("PRAGMA data_version").fetchone()
                while (left := deadline - time.monotonic()) > 0:
                    time.sleep(min(0.02, left))
                    if connection.execute("PRAGMA data_version").fetchone() != seen:
                        return
        except sqlite3.Error:
            time.sleep(max(0.0, min(deadline - time.monotonic(), 0.2)))  # the look that follows says what is wrong

    def stop_waiting(self) -> None:
        self.gate.close()

    def before_fork(self) -> None:
        self.stop_waiting()

    def after_fork(self) -> None:
        self.gate.forget()


def _lacks(where: str, said: str) -> errors.NotABoard:
    return errors.NotABoard(
        f"{where} lacks a part of a board: {said}",
        hint="somebody changed the tables past the migrations: coordinate db doctor --deep compares them",
        lacks=said,
    )


def _came_twice(where: str, said: str) -> errors.NotABoard:
    """No statement of ours meets a key that is there without saying what then: what was minted was not new."""
    return errors.NotABoard(
        f"{where} gave out a number that is used already: {said}",
        hint="a counter, or the sequence of a table's ids, stands below what is used: coordinate db doctor --deep shows"
        " which; as the role that owns the tables, coordinate db doctor --repair lets it go on above",
        twice=said,
    )


def file_system_of(path: Path) -> str:
    """The type of the file system that holds what a path leads to ('' where the system does not tell)."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    here = os.path.realpath(path)  # a file may be mounted by itself
    best, found = -1, ""
    for mount in mounts.splitlines():
        fields = mount.split(" ")
        point = fields[4].replace("\\040", " ")
        inside = here == point or here.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= best:
            best, found = len(point), fields[fields.index("-") + 1]
    return found


def format_instant(moment: datetime) -> str:
    """The one fixed-width text of a moment: 2030-01-31T12:00:00.000Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


_BIND = r"'[^']*'|:([a-z_][a-z0-9_]*)"


def _with_places(sql: str, place: Callable[[str], str]) -> str:
    """A statement as a driver takes it, with the place of a value where its `:name` stood."""
    return re.sub(_BIND, lambda found: place(found[1]) if found[1] else found[0], sql)


# Begin and end of a statement take SQLite as long as the row between them, and a server longer. More rows at once win
# nothing, and have more values than a SQLite may take that was built to save room.
ROWS_AT_ONCE = 40


def with_rows(sql: str, count: int) -> str:
    """The INSERT of a row, with its places, as one of so many rows; '' for any other statement."""
    found = re.fullmatch(r"(?s)(INSERT INTO .*\sVALUES\s+)(\((?:(?!\s(?:ON CONFLICT|RETURNING)\s).)*\))", sql)
    if not found:
        return ""
    width = len(set(re.findall(r"\$[0-9]+", found[2])))
    rows = (re.sub(r"\$([0-9]+)", lambda n: f"${int(n[1]) + row * width}", found[2]) for row in range(count))  # noqa: B023
    return found[1] + ", ".join(rows)


def _in_order(statement: Statement, order: list[str], encoders: dict[str, Callable[[Any], Any]]) -> Binder:
    """What puts named values in the order of their places. A driver that had to look up the names would be slower."""
    kinds = [(index, statement.takes[name]) for index, name in enumerate(order)]
    encoded = [(index, encoders[kind]) for index, kind in kinds if kind in encoders]
    taken = itemgetter(*order) if len(order) > 1 else lambda params: [params[name] for name in order]

    def bind(params: Params) -> list[Any]:
        values = list(taken(params))
        for index, encode in encoded:
            if values[index] is not None:
                values[index] = encode(values[index])
        return values

    return bind


_SQLITE_IN: dict[str, Callable[[Any], Any]] = {
    "instant": lru_cache(maxsize=16)(format_instant),  # the tasks of a plan have one time
    "json": dump_json,
    "list": dump_json,
    "boolean": int,
}
_SQLITE_OUT: dict[str, Callable[[Any], Any]] = {
    "instant": datetime.fromisoformat,
    "json": json.loads,
    "boolean": bool,
}


# --- Postgres ---------------------------------------------------------------------------------------------------------

_POSTGRES_IN: dict[str, Callable[[Any], Any]] = {"json": dump_json}
_BEGIN_WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
_BEGIN_READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
# Nothing of it outlives the transaction, so a pooler in transaction mode is no hindrance. A client that stops inside a
# transaction must not hold its rows for ever. Nor must one that forgot a transaction open stop all others: whoever
# waits for its rows is told, and may try again; also who only looks, for a table that is being changed lets nobody in.
_NEVER_IDLE = "SELECT set_config('idle_in_transaction_session_timeout', '30s', true)"
_WAIT = ", set_config('lock_timeout', '{}', true)"
# What changes something names its rows, or walks to the head of an index: a plan that knows no values is as good there,
# and made once. Of a limit that it is only told, Postgres guesses that it lets in a tenth of all rows: left to itself
# it would plan anew each time, and on a large board compile machine code for what is then a single row.
_PLAN_ONCE = ", set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true)"
_LOCK_SECONDS_MAX = 5.0
# Where those who wait listen. It may have 63 bytes, as the schema's name may, which is part of it where it has room.
_HOME = "current_schema()"
CHANNEL = f"'coordinate_' || CASE WHEN octet_length({_HOME}) > 52 THEN md5({_HOME}) ELSE {_HOME} END"
# Settings that change how values are written and read: what the server must say they are, and what sees to it.
_SESSION = (
    ("DateStyle", "ISO", "SET datestyle = 'ISO'"),
    ("TimeZone", "UTC", "SET timezone = 'UTC'"),
    ("standard_conforming_strings", "on", "SET standard_conforming_strings = on"),
)
# A statement is prepared when a connection sends it for the so-maniest time: a short command prepares none.
_PREPARE_AT = 4
# A pooler that was not seen: what was prepared is on another server, or somebody else's is on this one.
_PREPARED_IN_VAIN = ("26000", "42P05")
# When a host is gone that says nothing any more, not even that a connection is no more: left to itself, a system tries
# for a quarter of an hour to send, and waits two hours before it asks whether somebody is there. Half of the time for
# which a call is tried again, so that it can go on elsewhere. In seconds; the other in milliseconds.
_GONE = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 2}
_SILENT = {"tcp_user_timeout": 15_000}
_LOST = ("08", "57P01", "57P02", "57P03", "57P05", "25P03", "53300")

# Boards in other schemas than the one that is used: whether search_path names it, whether this role may use it, and
# whether anybody chose that search_path. Everybody may read the catalog.
_ELSEWHERE = f"""
    SELECT n.nspname::text,
           EXISTS (SELECT FROM regexp_split_to_table(current_setting('search_path'), ' *, *') p(name)
                    WHERE p.name IN (n.nspname::text, quote_ident(n.nspname))
                       OR (p.name = '"$user"' AND n.nspname = current_user)),
           has_schema_privilege(n.oid, 'USAGE'),
           (SELECT source NOT IN ('default', 'configuration file') FROM pg_settings WHERE name = 'search_path')
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relname = '{VERSION_TABLE}' AND c.relkind = 'r' AND n.nspname IS DISTINCT FROM current_schema()
     ORDER BY 1"""

# What the server says when another try cannot help; libpq hands no code along with a refused connection.
_HOPELESS = (
    "authentication",
    "certificate",
    "does not exist",
    "pg_hba.conf",
    "could not translate host name",
    "does not support SSL",
    "of service",
    "service file",
    "bad value",
    "invalid",
)


_NO_DATABASE = r'FATAL: +database "([^"]*)" does not exist'
_WRONG_VALUE = (
    r'invalid integer value "[^"]*" for connection option "(\w+)"'
    r'|bad value for (\w+)|invalid (\w+) (?:value|number): "'
)
_NO_SERVICE = r'(definition of service|service file) "[^"]*" not found'
_NO_TLS = ("does not support SSL", "certificate", "private key file")
_NOT_LET_IN = ("authentication failed", "no password supplied", "pg_hba.conf", 'FATAL:  role "')
# A server that starts or stops says so itself (57P03), one without a place (53300), and a pooler that lost its server.
_NO_PLACE = ("too many clients", "too many connections", "connection slots", "no more connections allowed")
_NOT_NOW = (
    *("is starting up", "is shutting down", "not yet accepting connections", "not accepting connections"),
    *("in recovery mode", "server login has been failing", "server_login_retry", "query_wait_timeout"),
    *_NO_PLACE,
)
# What says where an address leads: what is shown of it, and what else there may be.
_PLACE, _LEADS = ("host", "port", "dbname"), ("hostaddr", "options", "target_session_attrs")
_OF_THIS_MACHINE = (*FILES_OF_SECRETS, "service")


class Postgres:
    """One schema of a Postgres database. Short READ COMMITTED transactions; nothing relies on a session's state.

    Statements go out one behind the other (libpq's pipeline) and are waited for when their rows are looked at, and at
    the end: a transaction costs as many round trips as it has questions that depend on answers.
    """

    name = "postgresql"

    def __init__(self, url: str, *, patience: float = 30.0) -> None:
        try:
            import logging

            import psycopg
        except ImportError:
            raise errors.MissingExtra(
                "Postgres needs the driver psycopg, which is not installed",
                hint="python -m pip install 'coordinate-db[postgres]'",
            ) from None
        self._psycopg = psycopg
        if not (said := logging.getLogger("psycopg")).handlers:
            said.addHandler(logging.NullHandler())  # what the driver remarks is in our errors, and not for stderr
        self.line_patience: float | None = None
        self.patience = patience
        self._settings = _NEVER_IDLE + _WAIT.format(max(1, round(1000 * min(patience, _LOCK_SECONDS_MAX))))
        self._prepares = True
        self.driver_error: type[Exception] = psycopg.Error
        self.conninfo = "postgresql://" + url.split("://", 1)[1]
        self._address = self._read_address()
        self.library = library_of(self.name)
        self.warnings: list[str] = []
        self.gives_up_early = True
        """Whether a host that acknowledges nothing for 15 s is taken for gone, also if it may only be busy."""
        self._listening: list[tuple[int, Any]] = []
        self._pipelines: dict[Any, tuple[Any, Any]] = {}

    def describe(self) -> str:
        """Hosts, ports and database, as an address that leads there and that anybody may see."""
        known = self._resolved()
        hosts, ports = known["host"].split(","), known["port"].split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        name = quote(known["dbname"], safe="")
        if any(host.startswith(("/", "@")) for host in hosts):  # sockets
            return f"postgresql:///{name}?host={quote(','.join(hosts), safe='/,')}&port={','.join(ports)}"
        places = [
            f"{f'[{host}]' if ':' in host else quote(host, safe='')}:{port}"
            for host, port in zip(hosts, ports, strict=False)
        ]
        return f"postgresql://{','.join(places)}/{name}"

    def _resolved(self) -> dict[str, str]:
        """Where libpq would go, by the address, a service, $PGHOST and the like, and its defaults.

        It is asked itself: a mode that there is not stops it before it looks up a host or a password, and after it has
        put these together.
        """
        asked = self._psycopg.conninfo.make_conninfo(**{**self._address, "sslmode": "none", "password": "none"})
        attempt = self._psycopg.pq.PGconn.connect_start(asked.encode())
        chosen = {each.keyword.decode(): each.val or b"" for each in attempt.info if each.val != each.compiled}
        found = {name: chosen.get(name, b"").decode(errors="replace") for name in (*_PLACE, *_LEADS)}
        first = attempt.host.decode(errors="replace")
        attempt.finish()
        return {
            **found,
            "host": found["host"] or found["hostaddr"] or self._address.get("host") or first or "localhost",
            "hostaddr": found["hostaddr"] if found["host"] else "",
            "port": ",".join(port or "5432" for port in found["port"].split(",")),
            "dbname": found["dbname"] or self._address.get("dbname") or "",
        }

    def address(self, *, here: bool = False) -> str:
        """All of the address that is no secret, and what the environment or a service adds to where it leads.

        The user is that of the address alone; `here` keeps the paths of files of secrets, and the service.
        """
        place, user = self.describe(), self._address.get("user")
        if user is not None:
            place = place.replace("://", f"://{quote(user, safe='')}@", 1)
        untold = ("user", *_PLACE, *SECRETS, *(() if here else _OF_THIS_MACHINE))
        known = {**self._address, **self._resolved()}
        rest = urlencode({name: part for name, part in known.items() if part and name not in untold}, quote_via=quote)
        return place + ("&" if "?" in place else "?") * bool(rest) + rest

    def _read_address(self) -> dict[str, Any]:
        """The parts of the address. One whose password was not encoded spills parts of it into host, port or name."""
        try:
            known = self._psycopg.conninfo.conninfo_to_dict(self.conninfo)
        except (self._psycopg.Error, UnicodeError) as error:
            unknown = re.search(r'invalid URI query parameter: "(\w+)"', str(error))
            if unknown and "@" not in self.conninfo.partition("?")[2]:  # else it may be a piece of a password
                raise errors.InvalidInput(
                    f"the Postgres address has a parameter that libpq does not know: {unknown[1]}",
                    hint="leave it away, or look how it is written: Postgres' manual lists the Parameter Key Words",
                    field="db",
                ) from None
            known = None
        cut = "\0" in self.conninfo  # there libpq stops to read, and would lead elsewhere
        if known is None or cut or any("@" in str(known.get(part, "")) for part in ("host", "port", "dbname")):
            raise errors.InvalidInput(
                "the Postgres address cannot be read",
                # The address stands last: with an @ after it, it would read as one with a password.
                hint="write @ : / % # ? and spaces in a password as %40 %3A %2F %25 %23 %3F %20, and the whole as"
                " postgresql://USER@HOST:PORT/NAME",
                field="db",
            )
        ports = [port for port in str(known.get("port") or "").split(",") if port]
        if not all(port.isascii() and port.isdecimal() and 0 < int(port) < 65536 for port in ports):
            # Not shown: where the host was forgotten it is a password.
            raise errors.InvalidInput(
                "the port in the Postgres address is no number from 1 to 65535",
                hint="write it as postgresql://USER@HOST:PORT/NAME; it is 5432 where it is left away",
                field="db",
            )
        return dict(known)

    def connect(self) -> Any:
        """Connect. Raises `Unreachable`."""
        seconds = max(2, min(10, math.ceil(self.patience)))  # less than two is too little for libpq
        patience: dict[str, Any] = {"connect_timeout": seconds, **_GONE, **(_SILENT if self.gives_up_early else {})}
        patience = {name: value for name, value in patience.items() if name not in self._address}
        try:
            connection = self._psycopg.connect(
                self.conninfo,
                autocommit=True,  # we say BEGIN ourselves
                prepare_threshold=None,  # until we know that there is no pooler
                cursor_factory=self._psycopg.RawCursor,
                fallback_application_name="coordinate",
                client_encoding="UTF8",
                **patience,
            )
            self._set_up(connection)
        except (self._psycopg.Error, UnicodeError, OSError) as error:
            said = str(error)
            hopeless = any(sign in said for sign in _HOPELESS)
            reached = any(sign in said for sign in _NOT_NOW)
            raise Interrupted(self._not_connected(error), again=not hopeless, lost=True, reached=reached) from None
        if connection.info.server_version < POSTGRES_LEAST:
            connection.close()
            raise errors.UnsupportedDatabase(
                f"{self.describe()} runs PostgreSQL {connection.info.server_version // 10000}; 14 or later is needed"
            )
        return connection

    def _set_up(self, connection: Any) -> None:
        """See that text means what it says, whatever somebody set for the database or the role.

        The server tells these settings by itself, and a pooler keeps them for its client; so it costs nothing where
        they are as they should be.
        """
        told = connection.info.parameter_status
        if (encoding := told("server_encoding") or "UTF8") != "UTF8":
            connection.close()
            raise errors.UnsupportedDatabase(
                f"{self.describe()} has the encoding {encoding}, which cannot hold every text; UTF8 is needed",
                hint="a DBA can make another: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0",
            )
        as_needed = [setting for name, needed, setting in _SESSION if not str(told(name)).startswith(needed)]
        if as_needed:
            connection.execute("; ".join(as_needed))

    def _not_connected(self, error: Exception) -> errors.CoordinateError:
        said = str(error)
        told = f"{self.describe()} lets nobody in: {self._without_secret(' '.join(said.split()))}"
        if missing := re.search(_NO_DATABASE, said):
            import shlex

            return errors.NoBoard(
                f"{self.describe()} does not exist: the server runs, and has no database {missing[1]}",
                hint=f"check the name, or let a DBA create it: createdb {shlex.quote(missing[1])}",
            )
        if wrong := re.search(_WRONG_VALUE, said):
            name = next(filter(None, wrong.groups()))
            return errors.InvalidInput(
                f"{name} has a value that libpq does not take",
                hint=f"look at {name} in the address, in its service, and in what the environment says (PG…)",
                field="db",
            )
        if missing := re.search(_NO_SERVICE, said):
            return errors.InvalidInput(
                f"what the service of the Postgres address means is not known: {missing[0]}",
                hint="look at service in the address, and at the service file: ~/.pg_service.conf, or $PGSERVICEFILE",
                field="db",
            )
        if any(sign in said for sign in _NOT_LET_IN):
            return errors.PermissionDenied(
                told, hint="check the user, and the password in a passfile or $PGPASSWORD; a DBA knows pg_hba.conf"
            )
        return self._unreachable(error)

    def _unreachable(self, error: Exception) -> errors.CoordinateError:
        said = " ".join(str(error).split())
        if any(sign in said for sign in _NO_TLS):
            return errors.Unreachable(
                f"TLS to {self.describe()} was refused: {self._without_secret(said)}",
                hint="look at sslmode and sslrootcert in the address: that root must have signed what the server shows,"
                " which must name the host; and at whether the server speaks TLS (SHOW ssl)",
            )
        hint = "check the address and that the server runs; then try again"
        if "unsupported startup parameter" in said:
            hint = (
                "a pooler stands there, which takes no options= from an address: leave them away, and let the role have"
                " the schema: ALTER ROLE … SET search_path = …"
            )
        if any(sign in said for sign in _NO_PLACE):
            hint = (
                "wait until others have gone, then try again; a DBA can raise max_connections, or the CONNECTION LIMIT"
                " of the role or database, or put a pooler in front"
            )
        return errors.Unreachable(f"{self.describe()} does not answer: {self._without_secret(said)}", hint=hint)

    def _without_secret(self, said: str) -> str:
        for part in SECRETS:
            if secret := self._address.get(part):
                said = said.replace(str(secret), "***")
        return said

    def close(self, connection: Any) -> None:
        connection.close()

    def usable(self, connection: Any) -> bool:
        # 0 is libpq's IDLE: connected and in no transaction.
        return not connection.closed and connection.info.transaction_status == 0

    def begin(self, connection: Any, *, writes: bool, hurry: float = math.inf) -> None:
        if writes and (refused := self.read_only_by_default(connection)):
            raise Interrupted(refused, again=False, lost=True)
        opened = connection.pipeline()
        self._pipelines[connection] = opened, opened.__enter__()
        connection.execute(_BEGIN_WRITE if writes else _BEGIN_READ)
        connection.execute(self._settings + _PLAN_ONCE if writes else self._settings)

    def read_only_by_default(self, connection: Any) -> errors.ReadOnly | None:
        """Our BEGIN would override what a DBA set for a role, a database or the server; a pooler may not tell us."""
        if connection.info.parameter_status("default_transaction_read_only") != "on":
            return None
        return errors.ReadOnly(
            f"{self.describe()} accepts no writes: default_transaction_read_only is on for this role here",
            hint="a DBA set it, for the role, the database or the server; nothing was changed",
        )

    def leave(self) -> None:
        pass

    def commit(self, connection: Any) -> None:
        connection.execute("COMMIT")
        self._end_pipeline(connection)

    def rollback(self, connection: Any) -> None:
        with suppress(self._psycopg.Error):  # what had gone out when it went wrong; it was told already
            self._end_pipeline(connection)
        if not connection.closed and connection.info.transaction_status != 0:
            connection.execute("ROLLBACK")

    def _end_pipeline(self, connection: Any) -> None:
        """Wait for all that has gone out, and raise what went wrong with it."""
        met = sys.exception()
        if opened := self._pipelines.pop(connection, None):
            try:
                opened[0].__exit__(None, None, None)
            except self._psycopg.OperationalError as error:
                # Where a signal's handler raised in the midst of that, the driver cannot end it, and says so instead.
                came = error.__context__
                if came is not met and came is not None and not isinstance(came, Exception):
                    raise came from None
                raise

    def binder(self, statement: Statement) -> tuple[str, Binder]:
        order: list[str] = []

        def place(name: str) -> str:
            if name not in order:
                order.append(name)
            return f"${order.index(name) + 1}"

        return _with_places(statement.sql, place), _in_order(statement, order, _POSTGRES_IN)

    def decoders(self, statement: Statement) -> Decoders:
        return [(index, _to_utc) for index, kind in enumerate(statement.gives.values()) if kind == "instant"]

    def execute(self, connection: Any, sql: str, params: Any) -> Any:
        return self._cursor(connection).execute(sql, params)

    def execute_many(self, connection: Any, sql: str, params: Iterable[Any]) -> None:
        with self._cursor(connection) as cursor:
            cursor.executemany(sql, params)

    def answered(self, connection: Any, executed: Any) -> Any:
        # The driver would ask for the rows alone, and the server, which then expects more, wait for ever for a client
        # that stops: it ends a transaction that is idle only where it was told that this is all for now.
        if executed.pgresult is None and (opened := self._pipelines.get(connection)):
            opened[1].sync()
        return executed

    def rows_later(self, connection: Any, executed: Any) -> Callable[[], Sequence[Any]]:
        return lambda: cast("Sequence[Any]", self.answered(connection, executed).fetchall())

    def rows_touched(self, connection: Any, executed: Any) -> int:
        return int(self.answered(connection, executed).rowcount)

    def plain_rows(self, connection: Any) -> AbstractContextManager[None]:
        return nullcontext()  # each cursor says it

    def _cursor(self, connection: Any) -> Any:
        # Said each time, because a caller's own connection may make other cursors and other rows.
        return self._psycopg.RawCursor(connection, row_factory=self._psycopg.rows.tuple_row)

    def explain(self, error: Exception, *, committing: bool) -> Interrupted | None:
        state = getattr(error, "sqlstate", None) or ""
        source = error.diag.source_function if isinstance(error, self._psycopg.Error) else None
        if state == "P0001" and (fenced := fence.told(str(error))):
            return Interrupted(fenced, again=False)
        if state in ("40001", "40P01"):
            busy = errors.Busy("the database kept putting others first", hint="try again")
            return Interrupted(busy, again=True)
        if state == "55P03":
            busy = errors.Busy(
                "another transaction has what this call needs locked, and does not end",
                hint="try again; pg_stat_activity shows sessions that are idle in transaction",
            )
            return Interrupted(busy, again=True, seconds_max=self.patience)
        if state == "57014":
            cancelled = errors.Busy(
                "the server cancelled the call before it was over: a DBA did, or statement_timeout is too short for it",
                hint="try again; ALTER ROLE … SET statement_timeout gives more time; nothing was changed",
            )
            return Interrupted(cancelled, again=False)
        # The result of a prepared statement is not what it was: a new connection plans it for the schema of now.
        if state == "0A000" and source == "RevalidateCachedQuery":
            changed = errors.Busy("the schema was changed under this call", hint="try again")
            return Interrupted(changed, again=True, lost=True)
        # A standby refuses to begin READ WRITE with "feature not supported"; no statement of ours asks for another.
        if state in ("25006", "0A000"):
            standby = errors.ReadOnly(
                f"{self.describe()} accepts no writes: it is a standby, or set to read only",
                hint="name the primary, or several hosts with target_session_attrs=read-write",
            )
            return Interrupted(standby, again=True, lost=True)
        if state == "42501":
            refused = errors.PermissionDenied(
                f"the database role may not do this: {self._without_secret(str(error)).splitlines()[0]}",
                hint="coordinate db doctor lists what rights are missing, coordinate db grant ROLE prints how to give"
                " them",
            )
            return Interrupted(refused, again=False)
        # No such table or column, or the one function.
        if state in ("42P01", "42703") or (state == "42883" and "coordinate_number_events" in str(error)):
            return Interrupted(_lacks(self.describe(), str(error).splitlines()[0]), again=False)
        if state == "23505":
            return Interrupted(_came_twice(self.describe(), str(error).splitlines()[0]), again=False)
        if state in ("53100", "53200"):
            return Interrupted(errors.Unreachable("the server is out of space or memory"), again=False)
        if state in _PREPARED_IN_VAIN:
            self._prepares = False
            return Interrupted(self._unreachable(error), again=True, lost=True)
        lost = state.startswith(_LOST) or (isinstance(error, self._psycopg.OperationalError) and not state)
        if lost and committing:
            unknown = errors.OutcomeUnknown(
                "the connection broke during the commit: the change was made wholly or not at all",
                hint="look at the task before repeating the call",
            )
            return Interrupted(unknown, again=False, lost=True)
        return Interrupted(self._unreachable(error), again=True, lost=True) if lost else None

    def schema_stamp(self, connection: Any) -> object:
        # No cheap sign of a change here: look again every few seconds.
        return int(time.monotonic() / 5)

    def look_around(self, connection: Any) -> tuple[list[str], str]:
        home, server = self.execute(connection, "SELECT current_schema(), pg_backend_pid()", []).fetchone()
        # A pooler does not say which server it will be; in transaction mode that may be another each time.
        if self._prepares and server == connection.info.backend_pid:
            connection.prepare_threshold = _PREPARE_AT
        found = self.execute(connection, "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", [])
        tables = [row[0] for row in found]
        if VERSION_TABLE not in tables:
            self.refuse_a_board_elsewhere(connection)
        if home is None:
            raise no_schema(self.describe())
        return tables, str(home or "")

    def refuse_a_board_elsewhere(self, connection: Any) -> None:
        """Where this role finds no board: raise when one is in a schema that its `search_path` names and it may not
        use; or when nobody chose a schema and there is one in another, since a second board would be made in `public`.
        """
        found = self.execute(connection, _ELSEWHERE, []).fetchall()
        hidden = [schema for schema, named, usable, _ in found if named and not usable]
        if hidden:
            role = self.execute(connection, "SELECT quote_ident(current_user)", []).fetchone()[0]
            raise errors.PermissionDenied(
                f"{self.describe()} has a board in schema {hidden[0]}, which the role {role} may not use",
                hint=f"its owner can grant it: coordinate db grant {role} prints how",
                schema=hidden[0],
            )
        others = [schema for schema, _, _, chosen in found if not chosen]
        if others:
            raise errors.NoBoard(
                f"{self.describe()} has a board in schema {', '.join(others)}, and this role's search_path was never"
                " set: it leads elsewhere",
                hint=f"ALTER ROLE … SET search_path = {others[0]}, or an address that ends in"
                f" ?options=-csearch_path%3D{others[0]}; a second board in public is asked for by that name",
                schemas=others,
            )

    def wait(self, seconds: float) -> None:
        """LISTEN on a connection of its own; where a pooler swallows it, look every 2 seconds."""
        seconds = min(seconds, 2.0)
        deadline = time.monotonic() + seconds
        try:
            connection = self._listener()
            try:
                for _ in connection.notifies(timeout=max(0.0, deadline - time.monotonic()), stop_after=1):
                    break
            except self._psycopg.Error:
                connection.close()
                raise
            self._listening.append((os.getpid(), connection))
        except (self._psycopg.Error, Interrupted, errors.CoordinateError):
            time.sleep(max(0.0, deadline - time.monotonic()))

    def _listener(self) -> Any:
        """A connection that listens and that no other thread waits on."""
        with suppress(IndexError):  # taking from a list is one step, so threads need no lock
            while True:
                pid, connection = self._listening.pop()
                if pid == os.getpid() and not connection.closed:
                    return connection
        connection = self.connect()
        asked = f"SELECT quote_ident({CHANNEL}), pg_backend_pid()"
        channel, server = connection.execute(asked).fetchone()
        if server == connection.info.backend_pid:  # else a session of a pooler's would listen, for others and for ever
            connection.execute(f"LISTEN {channel}")
        return connection

    def stop_waiting(self) -> None:
        with suppress(IndexError):
            while True:
                pid, connection = self._listening.pop()
                if pid == os.getpid():
                    connection.close()

    def before_fork(self) -> None:
        pass

    def after_fork(self) -> None:
        pass


def no_schema(where: str) -> errors.NoBoard:
    """Nothing of a search_path is there, or may be used: neither is there a board, nor can one be made."""
    return errors.NoBoard(
        f"{where} has no schema in its search_path that this role may use",
        hint="check search_path, create the schema, or let its owner GRANT USAGE, CREATE ON SCHEMA … TO the role",
    )


def _to_utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC)


def adopt_connection(raw: Any) -> Engine:
    """The engine for a caller's own driver connection; raises `UnsupportedConnection` for anything else."""
    if isinstance(raw, sqlite3.Connection):
        return _Borrowed()
    psycopg = sys.modules.get("psycopg")
    if psycopg is not None and isinstance(raw, psycopg.Connection):
        return _adopted(raw)
    given = f"{type(raw).__module__}.{type(raw).__name__}"
    raise errors.UnsupportedConnection(
        f"using() needs a synchronous pysqlite or psycopg 3 connection, not {given}",
        hint="create_engine('postgresql+psycopg://…') or create_engine('sqlite:///…')",
    )


def _adopted(raw: Any) -> Postgres:
    """Nothing is opened here; where the connection leads is for what is said of it."""
    engine = Postgres("postgresql://")
    if not raw.closed:
        engine._address |= {"host": raw.info.host, "port": str(raw.info.port), "dbname": raw.info.dbname}
    return engine


def join_transaction(raw: Any, begin: Callable[[], None]) -> None:
    """See that a caller's connection is in a transaction that ours may be part of; else `UnsupportedConnection`.

    `begin` begins the one of SQLAlchemy where that has none yet: what happened in the driver's alone, its commit would
    not know of. On Postgres only READ COMMITTED will do: under an older snapshot a completion would not see the edges
    that it must turn, and a task would wait for ever.
    """
    begin()
    if not isinstance(raw, sqlite3.Connection):
        level = raw.execute("SELECT current_setting('transaction_isolation')").fetchone()
        if "read committed" not in (level.values() if isinstance(level, dict) else level):
            raise errors.UnsupportedConnection(
                f"the transaction is at isolation level {level}, and only READ COMMITTED is safe here",
                hint="connection.execution_options(isolation_level='READ COMMITTED')",
            )
    if isinstance(raw, sqlite3.Connection):
        if raw.in_transaction:
            return
        if raw.isolation_level is not None and getattr(raw, "autocommit", None) is not True:
            raw.execute("BEGIN IMMEDIATE")  # the driver itself would begin at its first write, too late for ours
            return
    elif not raw.autocommit or raw.info.transaction_status != 0:
        return
    raise errors.UnsupportedConnection(
        "the connection is in autocommit and in no transaction", hint="begin one: with engine.begin() as connection"
    )


class _Borrowed(SQLite):
    """SQLite over a caller's connection: nothing is opened here."""

    def __init__(self) -> None:
        super().__init__(":caller:")

    def describe(self) -> str:
        return "the caller's connection"
