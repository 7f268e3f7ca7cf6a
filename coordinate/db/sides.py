"""The two ends of a move, one class for each engine: read and write rows, fence a board, find what cannot move.

Rows pass in one form that is the same on both: text as it is, whole numbers, 0 and 1, a moment as its one fixed-width
text, JSON as its text; an event's id is its position in the one order. Tables and columns are those of `schema.py`:
what is added there moves along by itself.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Protocol
from zlib import adler32, crc32

from sqlalchemy import BigInteger, CheckConstraint, Column, Table, UniqueConstraint

from coordinate import errors, inputs
from coordinate.db import backup, dialect, fence, names
from coordinate.db.engine import Database, Tx
from coordinate.db.portable import kind_of
from coordinate.db.schema import VERSION_TABLE, counters, events, metadata
from coordinate.db.server import quoted

PAGE = 500
# How long running writers are waited for.
FENCE_SECONDS = 20.0
Row = tuple[Any, ...]
Written = Iterator[tuple[int, int]]

# What says how old the schema is and where the board is: each side has its own. Not written by anybody on a fenced one.
_OF_ITS_OWN = ("schema_window", "board_move")
TABLES: list[Table] = [
    table for table in metadata.sorted_tables if "only" not in table.info and table.name not in _OF_ITS_OWN
]
FENCED = [*(table.name for table in TABLES), "schema_window", VERSION_TABLE]
_PREFIX = "coordinate_fence"

# A btree entry of Postgres ends at 2,704 bytes; some of them are its header.
_INDEXED_BYTES_MAX = 2_600
# The board counts on from its numbers: the upper half is for those to come. Users' own numbers may be any.
_INTEGER_MAX, _BIGINT_MAX = 1 << 30, 1 << 62
_TOO_LARGE = "is too large, or leaves no room for those to come"
_OF_USERS = {"pid", "client_seq"}
_COUNTERS = {column.info["counter"] for table in TABLES for column in table.columns if "counter" in column.info}


@dataclass(frozen=True, slots=True)
class Fault:
    """A value that the other engine would refuse, or could not give back as it was."""

    table: str
    row: str
    column: str
    fault: str


@dataclass(frozen=True, slots=True)
class Digest:
    """How many rows a table has, how many bytes they say, and a checksum that does not depend on their order."""

    rows: int
    bytes: int
    checksum: str


class Side(Protocol):
    """A board's database as a move sees it. All but `transaction` and what says so happens inside of one."""

    engine: dialect.Engine

    def transaction(self, *, writes: bool) -> Any:
        """One transaction over a connection of its own: committed at the end, rolled back on an error of ours."""

    def joined(self, connection: Any) -> Any:
        """A transaction that somebody else began and ends, over a connection of the driver's."""

    def stop_writers(self, tables: Sequence[str], *, wait: bool = True) -> None:
        """Let running writers of these tables finish, and hold up new ones, and movers, until the transaction ends.

        Without `wait` it raises `Busy` at once when one is running.
        """

    def stop_readers(self) -> None:
        """Let who reads the board's rows finish as well, where filling it locks them out."""

    def in_the_way(self, error: errors.CoordinateError, *, readers: bool) -> errors.CoordinateError:
        """Who did not let go of the tables; `readers` too, where these were locked out. Outside of a transaction."""

    def fenced_together(self) -> list[list[str]]:
        """The tables to be fenced while writers are about, in the groups that one transaction each can fence."""

    def raise_fence(self, sentence: str, tables: Sequence[str] = FENCED) -> None: ...
    def lift_fence(self) -> None: ...
    def open_fence(self) -> None:
        """Lift the fence while writers are about: what may be left of it lets all pass."""

    def clear_fence(self) -> None:
        """Take away what an opened fence left. Outside of a transaction; what cannot be had now stays."""

    def fences(self) -> dict[str, bool]:
        """The tables on which something of a fence stands, and whether it refuses every change."""

    def links_of_others(self) -> list[str]:
        """Other programs' tables with keys that name the board's rows, where it cannot be emptied for those."""

    def settle(self) -> None:
        """See that every event has its position. Outside of a transaction, on a fenced board."""

    def problems(self) -> list[str]:
        """What hinders this role to fence and fill a board here."""

    def make_room(self, *, dry_run: bool) -> list[str]:
        """Where no board is yet: let one be made (or only look); what hinders it. Outside of a transaction."""

    def make_like(self, other: Side) -> None:
        """Where nothing is yet, and both are files: as open to others as the other one. Outside of a transaction."""

    def identity(self) -> object:
        """What is the same wherever it is reached from, and of nothing else; None where nothing is yet.

        Outside of a transaction.
        """

    def in_our_way(self, new: Collection[str]) -> list[str]:
        """What bears a name that the board needs, or its fence, of another program; of the names that are `new` (see
        `names.taken`) whatever bears one. Outside of a transaction.
        """

    def faults(self) -> Iterator[Fault]: ...
    def tables(self) -> list[str]:
        """Those that are there."""

    def count(self, table: Table) -> int: ...
    def stored(self) -> int:
        """The bytes that the board takes up."""

    def pages(self, table: Table) -> Iterator[list[Row]]: ...
    def lines(self, table: Table) -> Iterator[bytes]:
        """The rows as COPY prints them: what was written one way is read back another way, on both sides."""

    def empty(self) -> None: ...
    def empty_again(self) -> None:
        """Leave what the migrations leave: no rows, and the board's own counters at nought."""

    def strip(self) -> list[str]:
        """Take away indexes and foreign keys for as long as rows are written; what brings them back."""

    def write(self, table: Table, pages: Iterator[list[Row]]) -> Written:
        """Write rows; yields how many, and how many bytes."""

    def run(self, sql: str) -> None: ...
    def mark(self, table: Table) -> int:
        """The highest id ever given in a table, also to what is gone."""

    def set_mark(self, table: Table, mark: int) -> None: ...
    def highest(self, table: Table, column: Column[Any]) -> int: ...
    def open_feed(self) -> None:
        """Let readers go on behind the events that came, which are committed by now."""

    def shift(self, table: Table, column: Column[Any], *, seconds: float, later_than: datetime) -> int:
        """Move the holds of a column that end later than a moment; how many there were."""


def side_of(target: str) -> Side:
    """The side for an address or a path. Nothing is opened yet."""
    engine = dialect.open_engine(target, create=False, patience=FENCE_SECONDS, synchronous="NORMAL", gate=True)
    return PostgresSide(engine) if isinstance(engine, dialect.Postgres) else SQLiteSide(engine)


def same_place(one: Side, other: Side) -> bool:
    """Whatever the two are called: links, hosts, sockets and roles lead to one place in many ways."""
    if one.engine.address() == other.engine.address():
        return True
    here = one.identity()
    return here is not None and here == other.identity()


def columns_of(table: Table) -> list[Column[Any]]:
    """Those that both engines have."""
    return [column for column in table.columns if "only" not in column.info]


def has_mark(table: Table) -> bool:
    return any(column.identity is not None for column in table.columns)


def holds() -> Iterator[tuple[Table, Column[Any]]]:
    """The times until which something is held."""
    return ((table, column) for table in TABLES for column in table.columns if "hold" in column.info)


def digest(side: Side, table: Table) -> Digest:
    """Read a table once more, as lines that the database prints itself, and add up the checksums of the lines.

    Two cheap sums instead of one cryptographic hash: they are there to see an accident, and while they are taken
    nobody can work.
    """
    rows = size = first = second = 0
    lines = side.lines(table)
    while batch := list(islice(lines, PAGE)):
        rows += len(batch)
        size += sum(map(len, batch))
        first += sum(map(crc32, batch))
        second += sum(map(adler32, batch))
    return Digest(rows, size, f"{first % (1 << 64):016x}{second % (1 << 64):016x}")


class _Side:
    """What both have in common: the connection of the transaction that is open."""

    engine: dialect.Engine

    def __init__(self, engine: dialect.Engine) -> None:
        self.engine = engine
        self.database = Database(engine)
        self._connection: Any = None

    @contextmanager
    def transaction(self, *, writes: bool) -> Iterator[Tx]:
        engine = self.engine
        self._connection = dialect.let_in(engine)
        try:
            self._begin(writes=writes)
            yield Tx(self.database, self._connection)
            self._connection.execute("COMMIT")
        except engine.driver_error as error:
            raise self._in_our_words(error) from error
        finally:
            with suppress(engine.driver_error):
                engine.close(self._connection)
            if writes:
                engine.leave()

    @contextmanager
    def joined(self, connection: Any) -> Iterator[Tx]:
        self._connection = connection
        try:
            yield Tx(self.database, connection)
        except self.engine.driver_error as error:
            raise self._in_our_words(error) from error

    def _begin(self, *, writes: bool) -> None:
        raise NotImplementedError

    def _in_our_words(self, error: Exception) -> BaseException:
        return dialect.in_our_words(self.engine, error)

    def _ask(self, sql: str, *params: Any) -> list[Row]:
        return list(self.engine.execute(self._connection, sql, params).fetchall())

    def run(self, sql: str) -> None:
        self.engine.execute(self._connection, sql, ())

    def tables(self) -> list[str]:
        return self.engine.look_around(self._connection)[0]

    def count(self, table: Table) -> int:
        return int(self._ask(f"SELECT count(*) FROM {table.name}")[0][0])

    def highest(self, table: Table, column: Column[Any]) -> int:
        return int(self._ask(f"SELECT coalesce(max({column.name}), 0) FROM {table.name}")[0][0])

    def links_of_others(self) -> list[str]:
        return []

    def make_like(self, other: Side) -> None: ...
    def settle(self) -> None: ...
    def open_feed(self) -> None: ...
    def stop_writers(self, tables: Sequence[str], *, wait: bool = True) -> None: ...
    def stop_readers(self) -> None: ...

    def _missing_counters(self) -> Iterator[Fault]:
        there = {kind for (kind,) in self._ask("SELECT kind FROM counters")}
        for kind in sorted({*_COUNTERS, "events_pruned"} - there):
            yield Fault("counters", kind, "value", "is missing, and nothing of the kind can be numbered")

    def empty(self) -> None:
        raise NotImplementedError

    def empty_again(self) -> None:
        own = self._ask("SELECT kind FROM counters WHERE kind NOT LIKE '%/%'")
        self.empty()
        for (kind,) in own:
            self.run(f"INSERT INTO counters (kind, value) VALUES ({_quoted(kind)}, 0)")

    def in_our_way(self, new: Collection[str]) -> list[str]:
        with self.transaction(writes=False):
            found = [*names.taken(self.engine.name, self._ask, new=new), *self._not_our_fence()]
        return [f"has {', '.join(found)} in the way, of another program"] if found else []

    def _not_our_fence(self) -> list[str]:
        """What bears the name of the fence, and is another's: it would be replaced, and taken away with it."""
        raise NotImplementedError

    def in_the_way(self, error: errors.CoordinateError, *, readers: bool) -> errors.CoordinateError:
        return error


# --- SQLite -----------------------------------------------------------------------------------------------------------

_SHAPE = "'%Y-%m-%dT%H:%M:%fZ'"
_VERBS = ("INSERT", "UPDATE", "DELETE")
_FENCES = f"type = 'trigger' AND name GLOB '{_PREFIX}_*'"


class SQLiteSide(_Side):
    """A file. Its write transactions begin immediate, so that no other writer runs beside them."""

    def _begin(self, *, writes: bool) -> None:
        self._connection.execute("PRAGMA cache_size = -65536")
        self.engine.begin(self._connection, writes=writes)

    def problems(self) -> list[str]:
        board = Path(os.path.realpath(self.engine.describe()))
        return [f"{path} may not be written" for path in (board, board.parent) if not os.access(path, os.W_OK)]

    def make_room(self, *, dry_run: bool) -> list[str]:
        board = Path(os.path.realpath(self.engine.describe()))  # what a link leads to is made there
        if os.path.lexists(board) and not board.is_file():
            return ["is no file"]
        if board.exists() and not os.access(board, os.W_OK):
            return [f"{board} may not be written"]
        folder = board.parent
        there = next(path for path in (folder, *folder.parents) if path.exists())
        if not there.is_dir():
            return [f"{there} is no folder"]
        if not os.access(there, os.W_OK):
            return [f"{there} may not be written"]
        if len(os.fsencode(f"{board.name}-journal")) > os.pathconf(there, "PC_NAME_MAX"):
            return ["its name is too long"]
        try:
            tempfile.TemporaryFile(dir=there).close()  # it never has a name
            if not dry_run:
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return [f"nothing can be made in {there}: {error.strerror}"]
        return []

    def make_like(self, other: Side) -> None:
        if isinstance(other, SQLiteSide):
            backup.make_like(Path(other.engine.describe()), Path(os.path.realpath(self.engine.describe())))

    def identity(self) -> object:
        path = Path(self.engine.describe())
        return (found.st_dev, found.st_ino) if path.exists() and (found := path.stat()) else None

    def in_our_way(self, new: Collection[str]) -> list[str]:
        return super().in_our_way(new) if self.identity() else []

    def _not_our_fence(self) -> list[str]:
        found = self._ask(f"SELECT name, lower(tbl_name) FROM sqlite_master WHERE {_FENCES} ORDER BY name")
        return [f"trigger {name}" for name, table in found if table not in FENCED]

    # The fence: three triggers a table. What RAISE says must be a literal, so they are made anew with what they say.

    def fenced_together(self) -> list[list[str]]:
        return [FENCED]

    def raise_fence(self, sentence: str, tables: Sequence[str] = FENCED) -> None:
        self.lift_fence()
        for table in tables:
            for verb in _VERBS:
                self.run(
                    f"CREATE TRIGGER {_PREFIX}_{table}_{verb.lower()} BEFORE {verb} ON {table}"
                    f" BEGIN SELECT RAISE(ABORT, {_quoted(sentence)}); END"
                )

    def lift_fence(self) -> None:
        found = self._ask(f"SELECT name FROM sqlite_master WHERE {_FENCES}")
        for (name,) in found:
            self.run(f"DROP TRIGGER {quoted(name)}")

    def open_fence(self) -> None:
        self.lift_fence()

    def clear_fence(self) -> None: ...

    def fences(self) -> dict[str, bool]:
        found = self._ask(f"SELECT tbl_name, count(*) FROM sqlite_master WHERE {_FENCES} GROUP BY tbl_name ORDER BY 1")
        return {table: triggers == len(_VERBS) for table, triggers in found}

    # Rows.

    def pages(self, table: Table) -> Iterator[list[Row]]:
        cursor = self._connection.execute(f"SELECT {_names(table)} FROM {table.name}")
        while page := cursor.fetchmany(PAGE):
            yield page

    def lines(self, table: Table) -> Iterator[bytes]:
        form = "\t".join("%s" for _ in columns_of(table)) + "\n"
        printed = ", ".join(map(_printed, columns_of(table)))
        for (line,) in self._connection.execute(f"SELECT CAST(printf('{form}', {printed}) AS BLOB) FROM {table.name}"):
            yield line

    def empty(self) -> None:
        for table in reversed(TABLES):
            self.run(f"DELETE FROM {table.name}")

    def strip(self) -> list[str]:
        found = self._ask(
            "SELECT name, sql, lower(tbl_name) FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
        )
        ours = [(name, sql) for name, sql, table in found if table in FENCED]
        for name, _ in ours:
            self.run(f"DROP INDEX {quoted(name)}")
        return [sql for _, sql in ours]

    def write(self, table: Table, pages: Iterator[list[Row]]) -> Written:
        binds = ", ".join("?" for _ in columns_of(table))
        insert = f"INSERT INTO {table.name} ({_names(table)}) VALUES ({binds})"
        size = self._bytes()
        for page in pages:
            self._connection.executemany(insert, page)
            before, size = size, self._bytes()
            yield len(page), size - before

    def stored(self) -> int:
        return self._bytes()

    def _bytes(self) -> int:
        return int(self._ask("PRAGMA page_count")[0][0]) * int(self._ask("PRAGMA page_size")[0][0])

    def mark(self, table: Table) -> int:
        highest = f"(SELECT coalesce(max(id), 0) FROM {table.name})"
        given = f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table.name}'), 0)"
        return int(self._ask(f"SELECT max({highest}, {given})")[0][0])

    def set_mark(self, table: Table, mark: int) -> None:
        self._ask("DELETE FROM sqlite_sequence WHERE name = ?", table.name)
        self._ask("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", table.name, mark)

    def shift(self, table: Table, column: Column[Any], *, seconds: float, later_than: datetime) -> int:
        where, more = column.info["hold"]
        moved = self._connection.execute(
            f"UPDATE {table.name} SET {column.name} = strftime({_SHAPE}, {column.name}, ? || ' seconds')"
            f" WHERE ({where}) AND strftime({_SHAPE}, {column.name}, ({more}) || ' seconds') > ?",
            (seconds, dialect.format_instant(later_than)),
        )
        return int(moved.rowcount)

    # What Postgres would refuse. One pass in SQL for each table; the rows it names are few.

    def faults(self) -> Iterator[Fault]:
        self._connection.create_function("json_fault", 1, _json_fault, deterministic=True)
        self._connection.text_factory = lambda raw: raw.decode(errors="backslashreplace")
        for table in TABLES:
            yield from self._refused(table)
            yield from self._undecodable(table)
        yield from self._missing_counters()
        for table in filter(has_mark, TABLES):
            for (seq,) in self._ask("SELECT seq FROM sqlite_sequence WHERE name = ?", table.name):
                if not isinstance(seq, int):
                    yield Fault("sqlite_sequence", table.name, "seq", "is no whole number")
                elif seq > _BIGINT_MAX:
                    yield Fault("sqlite_sequence", table.name, "seq", _TOO_LARGE)

    def _refused(self, table: Table) -> Iterator[Fault]:
        rules = list(_rules(table))
        found = self._connection.execute(
            f"SELECT {_row_name(table)}, {', '.join(f'({condition}) IS TRUE' for *_, condition in rules)}"
            f" FROM {table.name} WHERE {' OR '.join(f'({condition})' for *_, condition in rules)}"
        )
        for row, *broken in found:
            for (column, fault, _), is_broken in zip(rules, broken, strict=True):
                if is_broken:
                    yield Fault(table.name, str(row), column, fault)

    def _undecodable(self, table: Table) -> Iterator[Fault]:
        """Text that is no UTF-8, lone surrogates among it: SQLite stores it, and no program can read it."""
        texts = [column.name for column in columns_of(table) if kind_of(column.type) != "integer"]
        if self._decodes(f"SELECT {', '.join(texts)} FROM {table.name}"):
            return
        blobs = ", ".join(f"CASE WHEN typeof({name}) = 'text' THEN CAST({name} AS BLOB) END" for name in texts)
        for row, *values in self._connection.execute(f"SELECT {_row_name(table)}, {blobs} FROM {table.name}"):
            for name, value in zip(texts, values, strict=True):
                if value is not None and not _is_text(value):
                    yield Fault(
                        table.name, str(row), name, "is not UTF-8 text (half of a surrogate pair, or other bytes)"
                    )

    def _decodes(self, sql: str) -> bool:
        kept, self._connection.text_factory = self._connection.text_factory, str
        try:
            deque(self._connection.execute(sql), maxlen=0)
        except (sqlite3.OperationalError, UnicodeDecodeError):
            return False
        else:
            return True
        finally:
            self._connection.text_factory = kept


def _rules(table: Table) -> Iterator[tuple[str, str, str]]:
    """Column, what is wrong with its value, and the condition under which it is."""
    for column in columns_of(table):
        name = column.name
        for fault, condition in _VALUE_RULES[kind_of(column.type)](name, column):
            yield name, fault, f"{name} IS NOT NULL AND {condition}"
        if not column.nullable:
            yield name, "is missing", f"{name} IS NULL"
    for link in table.foreign_key_constraints:
        pairs = [(key.parent.name, key.column.name) for key in link.elements]
        parent = link.referred_table.name
        given = " AND ".join(f"{table.name}.{name} IS NOT NULL" for name, _ in pairs)
        same = " AND ".join(f"parent.{there} = {table.name}.{name}" for name, there in pairs)
        missing = f"{given} AND NOT EXISTS (SELECT 1 FROM {parent} AS parent WHERE {same})"
        yield ", ".join(name for name, _ in pairs), f"names no row of {parent}", missing
    for check in table.constraints:
        if isinstance(check, CheckConstraint):
            yield str(check.name), "breaks this rule of the table", f"NOT ({check.sqltext})"
    indexed = [[column.name for column in index.columns] for index in table.indexes if "only" not in index.info]
    indexed += [
        [column.name for column in each.columns] for each in table.constraints if isinstance(each, UniqueConstraint)
    ]
    for key in [*indexed, [column.name for column in table.primary_key.columns]]:
        size = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for name in key)
        yield (
            ", ".join(key),
            f"takes more than {_INDEXED_BYTES_MAX:,} bytes, too long for an index",
            f"{size} > {_INDEXED_BYTES_MAX}",
        )


def _text_rules(name: str, column: Column[Any]) -> Iterator[tuple[str, str]]:
    yield "is no text", f"typeof({name}) <> 'text'"
    yield "contains a NUL character", f"typeof({name}) = 'text' AND instr({name}, char(0)) > 0"


def _integer_rules(name: str, column: Column[Any]) -> Iterator[tuple[str, str]]:
    yield "is no whole number", f"typeof({name}) <> 'integer'"
    yield _TOO_LARGE, f"typeof({name}) = 'integer' AND {_too_large(column)}"


def _too_large(column: Column[Any]) -> str:
    name = column.name
    if name in _OF_USERS:
        return "1 = 0"
    if column is counters.c.value:
        return f"({name} > {_BIGINT_MAX} AND kind NOT LIKE '%/%')"
    if isinstance(column.type, BigInteger):
        return f"{name} > {_BIGINT_MAX}"
    return f"{name} NOT BETWEEN {-2 * _INTEGER_MAX} AND {_INTEGER_MAX}"


def _boolean_rules(name: str, column: Column[Any]) -> Iterator[tuple[str, str]]:
    yield "is neither 0 nor 1", f"(typeof({name}) <> 'integer' OR {name} NOT IN (0, 1))"


def _instant_rules(name: str, column: Column[Any]) -> Iterator[tuple[str, str]]:
    # Adding nothing makes SQLite look at the calendar: it would print the 30th of February as it came.
    again = f"strftime({_SHAPE}, {name}, '+0 seconds')"
    shaped = f"typeof({name}) = 'text' AND {name} IS {again} AND {name} >= '0001'"
    yield "is no time of the form 2030-01-31T12:00:00.000Z", f"NOT ({shaped})"


_JSON_FAULT = "holds a NUL or half of a surrogate pair within its JSON"


def _json_rules(name: str, column: Column[Any]) -> Iterator[tuple[str, str]]:
    yield (
        "is no JSON object or array",
        f"CASE WHEN typeof({name}) <> 'text' THEN 1 WHEN instr({name}, char(0)) > 0 THEN 1"
        f" WHEN json_valid({name}) THEN json_type({name}) NOT IN ('object', 'array') ELSE 1 END",
    )
    # An escaped NUL or surrogate, a bare control character: rare enough to be looked at by Python.
    doubtful = (
        f"instr({name}, '\\u0000') > 0 OR instr(lower({name}), '\\ud') > 0"
        f" OR {name} GLOB '*[' || char(1) || '-' || char(31) || ']*'"
    )
    yield (
        _JSON_FAULT,
        f"CASE WHEN {doubtful} THEN json_fault(CAST({name} AS BLOB)) ELSE 0 END",
    )


_VALUE_RULES: dict[str, Callable[[str, Column[Any]], Iterator[tuple[str, str]]]] = {
    "text": _text_rules,
    "integer": _integer_rules,
    "boolean": _boolean_rules,
    "instant": _instant_rules,
    "json": _json_rules,
}


def _json_fault(said: str | bytes) -> bool:
    """Bytes are what a file holds; those that are no text at all are listed as such."""
    try:
        value = json.loads(said.decode() if isinstance(said, bytes) else said)
        inputs.payload(value if isinstance(value, dict) else {"": value})
    except UnicodeDecodeError:
        return False
    except (ValueError, RecursionError):
        return True
    except errors.InvalidInput as refused:
        return "NUL" in refused.message or "surrogate" in refused.message
    return False


def _is_text(value: bytes | int | float) -> bool:
    try:
        return not isinstance(value, bytes) or value.decode() is not None
    except UnicodeDecodeError:
        return False


# What COPY escapes, the escape itself first. Hardly a value has any of it, so one look comes before the seven.
_ESCAPED = {92: r"\\", 8: r"\b", 9: r"\t", 10: r"\n", 11: r"\v", 12: r"\f", 13: r"\r"}


def _printed(column: Column[Any]) -> str:
    """A value as COPY prints it."""
    name = column.name
    if kind_of(column.type) in ("text", "json"):
        escaped = name
        for code, shown in _ESCAPED.items():
            escaped = f"replace({escaped}, char({code}), '{shown}')"
        any_of_it = "'*[' || char(8) || '-' || char(13) || '\\]*'"
        return f"coalesce(CASE WHEN {name} GLOB {any_of_it} THEN {escaped} ELSE {name} END, '\\N')"
    return f"coalesce({name}, '\\N')"


def _names(table: Table) -> str:
    return ", ".join(column.name for column in columns_of(table))


def _row_name(table: Table) -> str:
    """The key of a row as people write it: `TASK-1`, or `TASK-1, 3`."""
    return " || ', ' || ".join(f"CAST({column.name} AS TEXT)" for column in table.primary_key.columns)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# --- Postgres ---------------------------------------------------------------------------------------------------------

_HOME = "to_regnamespace(quote_ident(current_schema()))"
_LOCK_SECONDS = 2
# The function of the fence, and the two ways in which we write it.
_FENCE = f"FROM pg_proc WHERE pronamespace = {_HOME} AND proname = '{_PREFIX}' AND pronargs = 0"
_OPEN = "RETURN NULL"
_OUR_FENCE = re.compile(rf"BEGIN (RAISE EXCEPTION USING MESSAGE = '.*'|{_OPEN}); END", re.DOTALL)
_RESTORE = "somebody deleted it: restore a backup"


class PostgresSide(_Side):
    """A schema. Each step is one transaction and leaves nothing in the session, so a pooler may stand between."""

    def __init__(self, engine: dialect.Postgres) -> None:
        engine.gives_up_early = False  # a server that writes much at once may take nothing for a while
        super().__init__(engine)

    def _begin(self, *, writes: bool) -> None:
        """Not as short calls begin: no pipeline, in which nothing can be copied, and time for what is long."""
        assert isinstance(self.engine, dialect.Postgres)
        if writes and (refused := self.engine.read_only_by_default(self._connection)):
            raise refused
        level = "READ COMMITTED READ WRITE" if writes else "REPEATABLE READ READ ONLY"
        newer = " SET LOCAL transaction_timeout = 0;" if self._connection.info.server_version >= 170000 else ""
        self._connection.execute(
            f"BEGIN ISOLATION LEVEL {level};{newer}"
            " SET LOCAL idle_in_transaction_session_timeout = 0; SET LOCAL statement_timeout = 0;"
            f" SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'; SET LOCAL maintenance_work_mem = '128MB'"
        )

    def _in_our_words(self, error: Exception) -> BaseException:
        state = getattr(error, "sqlstate", None) or ""
        if state.startswith(("22", "23")):
            return errors.CannotMove(
                f"{self.engine.describe()} refuses a row: {str(error).splitlines()[0]}",
                hint="coordinate db move --dry-run lists what must be put right first",
            )
        return super()._in_our_words(error)

    def problems(self) -> list[str]:
        home, creates, recovering, writes = self._ask(
            "SELECT current_schema(), has_schema_privilege(current_schema(), 'CREATE'), pg_is_in_recovery(),"
            " current_setting('default_transaction_read_only') = 'off'"
        )[0]
        if recovering:
            return ["the server is a standby and accepts no writes"]
        if not writes:
            return ["accepts no writes: default_transaction_read_only is on for this role here"]
        if home is None:
            return ["the role may use no schema of its search_path"]
        owners = self._ask(
            "SELECT string_agg(DISTINCT tableowner, ', ') FROM pg_tables WHERE schemaname = current_schema()"
            " AND tablename = ANY ($1) AND NOT pg_has_role(tableowner, 'USAGE')",
            [*FENCED, "board_move"],
        )[0][0]
        found = (
            []
            if creates
            else [f"the role may create nothing in schema {home}: GRANT CREATE ON SCHEMA {home} is missing"]
        )
        return [*found, f"the tables belong to {owners}: a move is for their owner"] if owners else found

    def make_room(self, *, dry_run: bool) -> list[str]:
        with self.transaction(writes=False):
            return self.problems()

    def identity(self) -> object:
        """One running server, one database of it, one schema: a copy of the server has begun at another time."""
        with self.transaction(writes=False):
            return self._ask(
                "SELECT (SELECT system_identifier FROM pg_control_system()), pg_postmaster_start_time(),"
                f" (SELECT oid FROM pg_database WHERE datname = current_database()), CAST({_HOME} AS oid)"
            )[0]

    def _not_our_fence(self) -> list[str]:
        found = self._ask(f"SELECT CAST(prorettype AS regtype) = 'trigger'::regtype, prosrc {_FENCE}")
        return [f"function {_PREFIX}" for is_trigger, body in found if not (is_trigger and _OUR_FENCE.fullmatch(body))]

    # The fence: one function, and one trigger a table that runs for every statement, whether it finds a row or not.
    # Where others are at work it goes up, and is cleared away, one table after the other: a mover that holds one table
    # and waits for the next, and a writer that holds that one and waits for the first, would never end.

    def stop_writers(self, tables: Sequence[str], *, wait: bool = True) -> None:
        held = f"{', '.join(['board_move', *tables])} IN SHARE ROW EXCLUSIVE MODE"
        self.run(f"LOCK TABLE {held}{'' if wait else ' NOWAIT'}")

    def stop_readers(self) -> None:
        self.run(f"LOCK TABLE {', '.join([*FENCED, 'event_feed'])} IN ACCESS EXCLUSIVE MODE")

    def fenced_together(self) -> list[list[str]]:
        return [[table] for table in FENCED]

    def in_the_way(self, error: errors.CoordinateError, *, readers: bool) -> errors.CoordinateError:
        with self.transaction(writes=False):
            found = self._ask(
                "SELECT DISTINCT l.pid, a.state, a.application_name FROM pg_locks l"
                f" JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = {_HOME} AND c.relname = ANY ($1)"
                " LEFT JOIN pg_stat_activity a ON a.pid = l.pid WHERE l.granted AND l.pid <> pg_backend_pid()"
                " AND ($3 OR l.mode NOT IN ('AccessShareLock', 'RowShareLock'))"
                " AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
                " AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => $2))"
                " ORDER BY 1",
                [*names.of_a_board("postgresql"), VERSION_TABLE],
                _LOCK_SECONDS - 0.5,
                readers,
            )
        who = [f"{pid} ({', '.join(filter(None, (state, name))) or 'another role'})" for pid, state, name in found]
        return errors.MigrationBlocked(
            f"the move could not have the tables of {self.engine.describe()} to itself: a"
            f" {'reader or writer' if readers else 'writer'} does not end its transaction; in the way:"
            f" backend {', backend '.join(who) or 'gone meanwhile'}",
            hint="end that transaction (pg_stat_activity tells whose), then run it again",
            blocked_by=[str(row[0]) for row in found],
        )

    def raise_fence(self, sentence: str, tables: Sequence[str] = FENCED) -> None:
        self._let_the_fence(f"RAISE EXCEPTION USING MESSAGE = {_quoted(sentence)}")
        there = self.fences()
        for table in tables:
            if table not in there:
                self.run(
                    f"CREATE TRIGGER {_PREFIX} BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON {table}"
                    f" FOR EACH STATEMENT EXECUTE FUNCTION {_PREFIX}()"
                )

    def _let_the_fence(self, act: str) -> None:
        self.run(
            f"CREATE OR REPLACE FUNCTION {_PREFIX}() RETURNS trigger LANGUAGE plpgsql AS {_quoted(f'BEGIN {act}; END')}"
        )

    def lift_fence(self) -> None:
        self.run(f"DROP FUNCTION IF EXISTS {_PREFIX}() CASCADE")

    def open_fence(self) -> None:
        self._let_the_fence(_OPEN)

    def clear_fence(self) -> None:
        function = f"DROP FUNCTION IF EXISTS {_PREFIX}()"
        if self._cleared(f"LOCK TABLE {', '.join(FENCED)} NOWAIT", f"{function} CASCADE"):
            return
        for table in FENCED:
            self._cleared(f"DROP TRIGGER IF EXISTS {_PREFIX} ON {table}")
        self._cleared(function)

    def _cleared(self, *statements: str) -> bool:
        """Whether nobody was in the way. Unless another move has begun, whose fence this would be."""
        try:
            with self.transaction(writes=True) as tx:
                self.stop_writers([])
                if fence.stops(tx.one("move_state")) is None:
                    for statement in statements:
                        self.run(statement)
        except (errors.CoordinateError, self.engine.driver_error):  # the function, while a table's trigger needs it
            return False
        return True

    def fences(self) -> dict[str, bool]:
        found = self._ask(
            "SELECT c.relname, t.tgenabled <> 'D' AND strpos(p.prosrc, $1) = 0 FROM pg_trigger t"
            f" JOIN pg_class c ON c.oid = t.tgrelid AND c.relnamespace = {_HOME} JOIN pg_proc p ON p.oid = t.tgfoid"
            f" WHERE t.tgname = '{_PREFIX}' ORDER BY 1",
            f"BEGIN {_OPEN}; END",
        )
        return dict(found)

    def settle(self) -> None:
        before, deadline = None, 0.0
        while True:
            with self.transaction(writes=True) as tx:
                tx.one("events_number", batch=50_000)
                ((left,),) = self._ask(
                    "SELECT count(*) FROM events e WHERE NOT EXISTS (SELECT FROM event_feed f WHERE f.event_id = e.id)"
                )
            if left == 0:
                return
            if before is None or left < before:
                before, deadline = left, time.monotonic() + FENCE_SECONDS
            elif time.monotonic() > deadline:
                raise errors.Busy(
                    f"{left} events get no position in the log: a reader that gives them one does not end, or a hand"
                    " with SQL changed events or event_feed",
                    hint="try again; if it stays so, delete those events, as the owner of the tables",
                )
            else:
                time.sleep(0.05)  # a reader is at it

    # Rows.

    def pages(self, table: Table) -> Iterator[list[Row]]:
        self.run(f"DECLARE moving NO SCROLL CURSOR FOR {self._select(table)}")
        while page := self._ask(f"FETCH {PAGE} FROM moving"):
            yield page
        self.run("CLOSE moving")

    def _select(self, table: Table) -> str:
        wanted = ", ".join(self._read(table, column) for column in columns_of(table))
        if table.name != "events":
            return f"SELECT {wanted} FROM {table.name} AS r"
        return f"SELECT {wanted} FROM events AS r JOIN event_feed AS f ON f.event_id = r.id ORDER BY f.position"

    def _read(self, table: Table, column: Column[Any]) -> str:
        if table.name == "events" and column.name == "id":
            return "f.position"
        match kind_of(column.type):
            case "instant":
                return f"to_char(r.{column.name} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS\"Z\"')"
            case "json":
                return f"CAST(r.{column.name} AS TEXT)"
            case "boolean":
                return f"CAST(r.{column.name} AS INTEGER)"
        return f"r.{column.name}"

    def lines(self, table: Table) -> Iterator[bytes]:
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY ({self._select(table)}) TO STDOUT".encode()) as copy,
        ):
            yield from map(bytes, copy)

    def stored(self) -> int:
        found = self._ask(
            f"SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class WHERE relnamespace = {_HOME}"
            " AND relname = ANY ($1) AND relkind = 'r'",
            [table.name for table in TABLES],
        )
        return int(found[0][0])

    def links_of_others(self) -> list[str]:
        found = self._ask(
            "SELECT DISTINCT conrelid::regclass::text FROM pg_constraint k"
            f" JOIN pg_class t ON t.oid = k.confrelid AND t.relnamespace = {_HOME} AND t.relname = ANY ($1)"
            " JOIN pg_class o ON o.oid = k.conrelid"
            f" WHERE k.contype = 'f' AND NOT (o.relnamespace = {_HOME} AND o.relname = ANY ($1)) ORDER BY 1",
            [*FENCED, "event_feed"],
        )
        return [name for (name,) in found]

    def empty(self) -> None:
        self.run(f"TRUNCATE {', '.join(table.name for table in TABLES)}, event_feed")

    def strip(self) -> list[str]:
        """Also the links from row to row: checked once at the end, by a join, they cost a fifth."""
        links = self._ask(
            "SELECT conrelid::regclass::text, quote_ident(conname), pg_get_constraintdef(oid) FROM pg_constraint"
            f" WHERE contype = 'f' AND connamespace = {_HOME} AND conrelid::regclass::text = ANY ($1) ORDER BY 1, 2",
            [*FENCED, "event_feed"],
        )
        indexes = self._ask(
            "SELECT i.indexrelid::regclass::text, pg_get_indexdef(i.indexrelid) FROM pg_index i"
            f" JOIN pg_class t ON t.oid = i.indrelid AND t.relnamespace = {_HOME} AND t.relname = ANY ($1)"
            " WHERE NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = i.indexrelid) ORDER BY 1",
            [*FENCED, "event_feed"],
        )
        for table, name, _ in links:
            self.run(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
        for name, _ in indexes:
            self.run(f"DROP INDEX {name}")
        return [
            *(definition for _, definition in indexes),
            *(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}" for table, name, definition in links),
        ]

    def write(self, table: Table, pages: Iterator[list[Row]]) -> Written:
        from psycopg import RawCursor
        from psycopg.copy import LibpqWriter

        written = [0]

        class Counting(LibpqWriter):
            def write(self, data: Any) -> None:
                written[0] += len(data)
                super().write(data)

        # FREEZE: nobody can see these rows before they are committed, so no reader must settle that later.
        with RawCursor(self._connection) as cursor:
            into = f"COPY {table.name} ({_names(table)}) FROM STDIN WITH (FREEZE)"
            with cursor.copy(into.encode(), writer=Counting(cursor)) as copy:
                for page in pages:
                    before = written[0]
                    for row in page:
                        copy.write_row(row)
                    yield len(page), written[0] - before
        if table.name == "events":
            self.run("INSERT INTO event_feed (position, event_id) SELECT id, id FROM events ORDER BY id")

    def mark(self, table: Table) -> int:
        if table.name == "events":
            if found := self._ask("SELECT position FROM event_feed_state"):
                return int(found[0][0])
            raise errors.NotABoard("event_feed_state is empty, which says how far events are numbered", hint=_RESTORE)
        given, used = self._ask(f"SELECT last_value, is_called FROM {self._sequence(table)}")[0]
        highest = self._ask(f"SELECT coalesce(max(id), 0) FROM {table.name}")[0][0]
        return max(int(given) if used else 0, int(highest))

    def set_mark(self, table: Table, mark: int) -> None:
        self._ask("SELECT setval(CAST($1 AS regclass), $2, $3)", self._sequence(table), max(mark, 1), mark > 0)
        if table.name == "events":
            self._ask("UPDATE event_feed_state SET position = $1 RETURNING id", mark)

    def _sequence(self, table: Table) -> str:
        named = f"quote_ident(current_schema()) || '.{table.name}'"
        return str(self._ask(f"SELECT pg_get_serial_sequence({named}, 'id')")[0][0])

    def open_feed(self) -> None:
        # From here on the numbering looks at later transactions only, instead of at every event that came.
        self.run(
            "UPDATE event_feed_state SET snapshot = pg_current_snapshot(),"
            " cluster = (SELECT system_identifier FROM pg_control_system())"
        )

    def shift(self, table: Table, column: Column[Any], *, seconds: float, later_than: datetime) -> int:
        where, more = column.info["hold"]
        second = "interval '1 second'"
        moved = self.engine.execute(
            self._connection,
            f"UPDATE {table.name} SET {column.name} = {column.name} + CAST($1 AS DOUBLE PRECISION) * {second}"
            f" WHERE ({where}) AND {column.name} + ({more}) * {second} > CAST($2 AS TIMESTAMPTZ)",
            (seconds, later_than),
        )
        return int(moved.rowcount)

    def faults(self) -> Iterator[Fault]:
        """What a file could not give back: a time that is finer than a millisecond, or outside of the calendar; and
        numbers from which neither engine could count on.
        """
        yield from self._missing_counters()
        yield from self._ended()
        for table in TABLES:
            rules = {column.name: rule for column in columns_of(table) if (rule := _rule_of_a_file(column))}
            anywhere = " OR ".join(f"({wrong})" for wrong, _ in rules.values())
            if anywhere and self._ask(f"SELECT 1 FROM {table.name} WHERE {anywhere} LIMIT 1"):
                for name, (wrong, fault) in rules.items():
                    for (row,) in self._ask(f"SELECT {_row_name(table)} FROM {table.name} WHERE {wrong} LIMIT 10000"):
                        yield Fault(table.name, str(row), name, fault)
            for column in columns_of(table):
                if kind_of(column.type) == "json":
                    yield from self._unpaired(table, column.name)

    def _ended(self) -> Iterator[Fault]:
        """What numbers come from. A sequence that this role may not read shows nothing here."""
        if not (found := self._ask("SELECT position FROM event_feed_state")):
            yield Fault("event_feed_state", "1", "position", "is missing, which says how far events are numbered")
        elif found[0][0] > _BIGINT_MAX:
            yield Fault("event_feed_state", "1", "position", _TOO_LARGE)
        for (position,) in self._ask(f"SELECT position FROM event_feed WHERE position > {_BIGINT_MAX} LIMIT 10000"):
            yield Fault("event_feed", str(position), "position", _TOO_LARGE)
        ended = self._ask(
            "SELECT CAST(sequencename AS text) FROM pg_sequences WHERE schemaname = current_schema()"
            f" AND sequencename = ANY ($1) AND last_value > {_BIGINT_MAX} ORDER BY 1",
            [f"{table.name}_id_seq" for table in TABLES if has_mark(table) and table is not events],
        )
        for (name,) in ended:
            yield Fault(name, "", "last_value", _TOO_LARGE)

    def _unpaired(self, table: Table, name: str) -> Iterator[Fault]:
        """JSON is kept as it was written, so it may hold what no text could: Python looks at the doubtful."""
        text = f"CAST({name} AS TEXT)"
        doubtful = f"strpos({text}, '\\u0000') > 0 OR strpos(lower({text}), '\\ud') > 0"
        for row, said in self._ask(f"SELECT {_row_name(table)}, {text} FROM {table.name} WHERE {doubtful} LIMIT 10000"):
            if _json_fault(said):
                yield Fault(table.name, str(row), name, _JSON_FAULT)


def _rule_of_a_file(column: Column[Any]) -> tuple[str, str] | None:
    """The condition under which a value of Postgres is wrong, and what is wrong with it."""
    name = column.name
    match kind_of(column.type):
        case "instant":
            wrong = (
                f"NOT isfinite({name}) OR {name} <> date_trunc('milliseconds', {name})"
                f" OR {name} < '0001-01-01Z' OR {name} >= '10000-01-01Z'"
            )
            return wrong, "is no time in whole milliseconds of the years 1 to 9999"
        case "json":
            return f"json_typeof({name}) NOT IN ('object', 'array')", "is no JSON object or array"
        case "integer" if column is not events.c.id:  # over there it is the position
            return _too_large(column), _TOO_LARGE
    return None
