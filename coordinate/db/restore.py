"""Put a backup in the place of a SQLite board: in one transaction, whatever other programs have the file open.

The file stays the same file, so that nobody goes on writing to one that was moved away; one that cannot be read makes
way for another, once that is whole. What was there is kept beside it.
All its numbers go on above those of the board that is replaced, and by a wide margin where that does not show what was
given out since the backup: no handle, fence, id or position that was ever given out is given out again.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinate import config, errors
from coordinate.db import backup, dialect, fence, knowledge, migrate
from coordinate.db.engine import Database, Tx
from coordinate.db.server import quoted


@dataclass(slots=True)
class Replacing:
    """A board that holds the backup's rows, before the commit. `known`: its numbers are above all ever given out."""

    tx: Tx
    known: bool
    kept: str | None
    rows: dict[str, int] = field(default_factory=dict)


@contextmanager
def replacing(source: Path, board: Path, *, replace: bool) -> Iterator[Replacing]:
    """Fill the board from the backup; what the block does to it is part of the same transaction, then it is committed.

    A backup of an older schema is upgraded on the way, in a copy. Raises `NotEmpty` when there is a board already and
    `replace` does not say that this is meant, `Moved` or `Moving` when nobody may write there, `InvalidState` when the
    backup is of a board that moved, `NotABoard` when either is none, `SchemaAhead`.
    """
    board = Path(os.path.realpath(board))  # what a link leads to is the board, also for those who do not come by it
    _refuse_what_is_no_file(source, board)
    with dialect.way_to(str(board)), _room_beside(board) as folder:
        copy = _copy_at_head(source, Path(folder) / "board.db")
        damaged = board.exists() and _is_damaged(board, replace=replace)
        place, aside = (Path(folder) / "new.db", _free_name(board)) if damaged else (board, None)
        if damaged or not board.exists():
            backup.make_like(board if damaged else source, place)  # what was lost is as open to others as its backup
        engine = dialect.SQLite(str(place), create=True, patience=config.patience(None))
        with closing(engine.connect()) as connection:
            _begin(engine, connection, copy)
            kept = None
            try:
                kept = _keep(engine, connection, board, replace=replace)
                shown = kept is not None and _shows_its_numbers(connection)
                known = shown and _is_of_a_later_day(connection)
                if shown:
                    _note_numbers(connection)
                rows = _fill(connection)
                if shown:
                    _raise_numbers(connection)
                tx = Tx(Database(engine), connection)
                yield Replacing(tx, known, kept or aside, rows)
                tx.finish()
            except BaseException as error:
                engine.rollback(connection)
                if kept is not None:
                    Path(kept).unlink()  # the board is as it was
                raise dialect.in_our_words(engine, error) from None
            try:
                engine.commit(connection)
                if aside is not None:
                    connection.execute("PRAGMA main.journal_mode = DELETE")  # all of it is in the file
            except sqlite3.Error as error:
                raise dialect.in_our_words(engine, error) from None
        if aside is not None:
            _put_in_place(place, board, aside)


def _begin(engine: dialect.SQLite, connection: Any, copy: Path) -> None:
    """Nobody writes from here on, and the backup stands beside."""
    try:
        connection.execute("PRAGMA foreign_keys = OFF")
        connection.execute("PRAGMA ignore_check_constraints = ON")  # a value comes back as it was
        connection.execute("ATTACH DATABASE ? AS source", [str(copy)])
        engine.begin(connection, writes=True)
    except sqlite3.Error as error:
        if "text encoding" in str(error):
            raise errors.InvalidState(
                "the backup stores its text in another encoding than the file that it shall fill",
                hint="stop the agents, keep what is there, with its -wal and -shm, elsewhere; put a copy of the backup"
                " in its place; then coordinate db restore --settle --yes",
            ) from None
        raise dialect.in_our_words(engine, error) from None


def _refuse_what_is_no_file(source: Path, board: Path) -> None:
    with config.reaching(source, "file"):
        if not source.is_file():
            raise errors.NotFound(f"there is no file {source}", hint="name a backup that is there")
        itself = board.exists() and source.samefile(board)
    if itself:
        raise errors.InvalidInput(f"{source} is the board itself", hint="name a backup", field="file")
    if not os.access(source, os.R_OK):
        raise config.no_entry(source)


def _room_beside(board: Path) -> TemporaryDirectory[str]:
    with config.reaching(board, "db"):
        return TemporaryDirectory(prefix=f".{board.name}.restore-", dir=board.parent)


def _copy_at_head(source: Path, copy: Path) -> Path:
    """The backup, checked and at this program's schema; the file itself is only read."""
    backup.copy(source, copy)
    backup.refuse_what_is_no_board(copy, str(source))
    _refuse_a_fenced_backup(copy, source)
    standing = migrate.current(str(copy))
    if not standing.at_head and set(standing.revisions) <= set(knowledge.REVISIONS):
        migrate.upgrade(str(copy))
        standing = migrate.current(str(copy))
    knowledge.judge(list(standing.revisions), standing.window, str(source), [])
    return copy


def _refuse_a_fenced_backup(copy: Path, source: Path) -> None:
    """A copy of a board that was moving, or had moved, would refuse every writer, or send them elsewhere."""
    if (fenced := fence.stops(backup.standing_of_move(copy))) is not None:
        raise errors.InvalidState(
            f"{source} is no backup of a board at work: {fenced.message}",
            hint="take an older backup, or one of the board where it is; nothing was changed",
        )


def _is_damaged(board: Path, *, replace: bool) -> bool:
    """Whether a file makes way for a new one, since it is damaged or none of SQLite's."""
    damage = _damage(board)
    if damage and not replace:
        raise errors.NotEmpty(f"{board} is there, and cannot be read: {damage}", hint=REPLACE)
    return bool(damage)


def _free_name(board: Path) -> str:
    number = 1
    while any(os.path.lexists(f"{board}.replaced-{number}{beside}") for beside in _BESIDE):
        number += 1
    return f"{board}.replaced-{number}"


def _put_in_place(made: Path, board: Path, aside: str) -> None:
    """The damaged file is kept under another name. Until the new one is whole it is where it was, so that whoever is
    killed leaves no empty place, in which the next command would make a board that begins anew.
    """
    if not _damage(board):
        raise errors.Busy(f"another restore of {board} was quicker", hint="look at what it put there")
    try:
        _rename(str(board), aside)
        made.replace(board)
    except BaseException:
        if not os.path.lexists(board):
            _rename(aside, str(board))
        raise


# What SQLite keeps beside a file.
_BESIDE = ("", "-wal", "-shm", "-journal")


def _rename(here: str, there: str) -> None:
    """All of them or none: what lies beside a file goes first, so that the file is not left without it."""
    try:
        for beside in reversed(_BESIDE):
            if os.path.lexists(here + beside):
                Path(here + beside).rename(there + beside)
    except BaseException as error:
        for beside in _BESIDE:
            if os.path.lexists(there + beside) and not os.path.lexists(here + beside):
                Path(there + beside).rename(here + beside)
        if not isinstance(error, OSError):
            raise
        said = f"{here} cannot be set aside: {error.strerror}"
        raise errors.PermissionDenied(said, hint="ask its owner; nothing was changed", path=here) from None


def _damage(board: Path) -> str:
    """Why a file cannot be read; '' when it can. One that is only locked is not damaged."""
    engine = dialect.SQLite(str(board))
    try:
        with closing(engine.connect()) as connection:
            return next(backup.damage(connection, "quick_check"), "")
    except errors.NotABoard as error:
        return error.message
    except sqlite3.DatabaseError as error:
        told = dialect.in_our_words(engine, error)
        if told is error or isinstance(told, errors.NotABoard):
            return str(error)
        raise told from None


# What callers show the revision of, beside tasks; a board of an older schema has none of them.
REVISED = ("boards", "board_rows", "asks")
REPLACE = "stop the agents first; then say --replace: what is there is kept beside it under another name"


def _keep(engine: dialect.SQLite, connection: sqlite3.Connection, board: Path, *, replace: bool) -> str | None:
    """Copy the board that is there beside itself; None when the file is empty. Nobody writes to it from here on."""
    tables, _ = engine.look_around(connection)
    if not tables:
        return None
    if knowledge.VERSION_TABLE not in tables:
        raise knowledge.without_version(tables, str(board))
    if "board_move" in tables:  # an older schema has none
        row = Tx(Database(engine), connection).one("move_state")
        if (elsewhere := fence.stops(row)) is not None:
            raise elsewhere  # whoever asks here is sent there: a second board would be worked on
    if not replace:
        looks = "SELECT count(*), count(lease_until) FROM tasks"
        tasks, held = connection.execute(looks).fetchone() if "tasks" in tables else (0, 0)
        raise errors.NotEmpty(f"{board} holds a board: {tasks} tasks, {held} of them held", hint=REPLACE, tasks=tasks)
    (revision,) = connection.execute(f"SELECT max(version_num) FROM {knowledge.VERSION_TABLE}").fetchone()
    return str(backup.make(board, revision or "none"))


def _shows_its_numbers(connection: sqlite3.Connection) -> bool:
    """Whether nothing is gone that says which numbers were given out."""
    there = all(_has(connection, table) for table in ("tasks", "counters", "sqlite_sequence"))
    return there and connection.execute("SELECT 1 FROM counters WHERE kind = 'task'").fetchone() is not None


def _is_of_a_later_day(connection: sqlite3.Connection) -> bool:
    """Whether it stands nowhere below the backup: else it is another board, such as a new one in place of one that was
    lost, and what was given out since the backup cannot be read here.
    """
    below = connection.execute(
        "SELECT 1 FROM source.counters s LEFT JOIN main.counters m USING (kind)"
        " WHERE s.kind <> 'events_pruned' AND coalesce(m.value, 0) < s.value"
        " UNION ALL SELECT 1 FROM source.sqlite_sequence s LEFT JOIN main.sqlite_sequence m USING (name)"
        " WHERE coalesce(m.seq, 0) < s.seq"
    )
    return below.fetchone() is None


def _note_numbers(connection: sqlite3.Connection) -> None:
    """What the board that is there gave out, in tables of this connection alone."""
    connection.execute("CREATE TEMP TABLE was_tasks AS SELECT id, attempt, revision FROM main.tasks")
    connection.execute("CREATE UNIQUE INDEX temp.was_task ON was_tasks (id)")
    for table in REVISED:
        if _has(connection, table):
            connection.execute(f"CREATE TEMP TABLE was_{table} AS SELECT id, revision FROM main.{table}")
    connection.execute("CREATE TEMP TABLE was_counters AS SELECT kind, value FROM main.counters")
    connection.execute("CREATE TEMP TABLE was_ids AS SELECT name, seq FROM main.sqlite_sequence")


def _fill(connection: sqlite3.Connection) -> dict[str, int]:
    """Everything that stands in the backup, in the place of everything that stood here."""
    ours = "name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    _change_virtual_tables(connection, "DELETE FROM main.sqlite_master WHERE ")
    for kind, name in connection.execute(  # a trigger before the view that it would go along with
        f"SELECT type, name FROM main.sqlite_master WHERE type IN ('trigger', 'view', 'table') AND {ours}"
        " ORDER BY type = 'table', type = 'view'"
    ).fetchall():
        connection.execute(f"DROP {kind} main.{quoted(name)}")
    made = connection.execute(
        f"SELECT type, name, sql FROM source.sqlite_master WHERE sql IS NOT NULL AND {ours} AND NOT ({_VIRTUAL})"
        " ORDER BY type <> 'table'"
    ).fetchall()
    rows = {}
    for kind, name, sql in made:
        connection.execute(sql)
        if kind == "table":
            table = quoted(name)
            rows[name] = connection.execute(f"INSERT INTO main.{table} SELECT * FROM source.{table}").rowcount
    _change_virtual_tables(connection, "INSERT INTO main.sqlite_master SELECT * FROM source.sqlite_master WHERE ")
    connection.execute("DELETE FROM main.sqlite_sequence")
    connection.execute("INSERT INTO main.sqlite_sequence SELECT * FROM source.sqlite_sequence")
    if broken := backup.orphans(connection):
        raise errors.NotABoard(f"the backup holds {len(broken)} rows without their parent", hint="nothing was changed")
    return rows


_VIRTUAL = "type = 'table' AND rootpage = 0"


def _change_virtual_tables(connection: sqlite3.Connection, change: str) -> None:
    """As VACUUM does: what they hold is in other tables, row for row; their module need not be at hand, and is to make
    or drop nothing by itself.
    """
    schemas = "SELECT 1 FROM {}.sqlite_master WHERE " + _VIRTUAL
    if connection.execute(f"{schemas.format('main')} UNION ALL {schemas.format('source')}").fetchone():
        connection.execute("PRAGMA writable_schema = ON")
        connection.execute(change + _VIRTUAL)
        connection.execute("PRAGMA writable_schema = RESET")  # and read anew what stands there


def _raise_numbers(connection: sqlite3.Connection) -> None:
    connection.execute(
        "UPDATE main.tasks SET attempt = max(tasks.attempt, w.attempt), revision = max(tasks.revision, w.revision) + 1"
        " FROM was_tasks w WHERE w.id = tasks.id"
    )
    for table in REVISED:
        if _has(connection, f"was_{table}", "temp"):
            connection.execute(
                f"UPDATE main.{table} SET revision = max({table}.revision, w.revision) + 1"
                f" FROM was_{table} w WHERE w.id = {table}.id"
            )
    if _has(connection, "was_asks", "temp"):  # a response goes along with the revision that it is about
        connection.execute(
            "UPDATE main.ask_responses SET ask_revision = ask_revision + a.revision - s.revision"
            " FROM main.asks a JOIN source.asks s USING (id) WHERE a.id = ask_responses.ask_id"
        )
    # Up to where the log was pruned is no number that was given out.
    connection.execute(
        "INSERT INTO main.counters (kind, value) SELECT kind, value FROM was_counters WHERE kind <> 'events_pruned'"
        " ON CONFLICT (kind) DO UPDATE SET value = max(value, excluded.value)"
    )
    connection.execute(
        "UPDATE main.sqlite_sequence SET seq = max(sqlite_sequence.seq, w.seq)"
        " FROM was_ids w WHERE w.name = sqlite_sequence.name"
    )
    connection.execute(
        "INSERT INTO main.sqlite_sequence (name, seq) SELECT name, seq FROM was_ids"
        " WHERE name NOT IN (SELECT name FROM main.sqlite_sequence)"
    )


def _has(connection: sqlite3.Connection, table: str, schema: str = "main") -> bool:
    found = connection.execute(f"SELECT 1 FROM {schema}.sqlite_master WHERE type = 'table' AND name = ?", [table])
    return found.fetchone() is not None
