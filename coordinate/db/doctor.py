"""The doctor looks beneath the rows: file and log, storage, versions, clock, rights, sessions in the way, the schema.

It only looks, save that a repair lets a log that grew be written back and cut off, and takes away what an undone move
left. What cannot be among the rows themselves is for `coordinate.checkup`.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from coordinate import config, errors
from coordinate.db import backup, dialect, fence, knowledge, migrate, schema, sides
from coordinate.records import Symptom

SHOWN_MAX = 20
FOUND_MAX = 1_000
# Twice what SQLite lets a log grow to before it writes it back (1,000 pages of 4 KB), and room for one large change.
LOG_BYTES_MAX = 16_000_000
CLOCK_SECONDS_MAX = 5.0
IDLE_SECONDS_MAX = 60

# Defects of SQLite that concern a board: since when, before what it is cured, from which patch on of older lines too.
DEFECTS = (
    (
        (3, 7, 0),
        (3, 51, 3),
        {(3, 44): 6, (3, 50): 7},
        "the WAL-reset bug: two checkpoints at the moment of a commit may damage the file (very rare)",
    ),
)


@dataclass(frozen=True, slots=True)
class Examined:
    """What the place is, and what is wrong with it; `at_head` says whether the rows can be asked."""

    facts: dict[str, Any]
    symptoms: list[Symptom]
    at_head: bool


def examine(target: str, *, deep: bool = False, repair: bool = False) -> Examined:
    """Look at a place. `deep` reads all of it: integrity, values that cannot be, the schema compared.

    Raises what opening it raises: `NoBoard`, `NotABoard` (damaged), `Unreachable`.
    """
    look = _server if dialect.is_postgres(target) else _file
    try:
        standing = migrate.current(target)
    except errors.PermissionDenied as error:
        if look is not _server:
            raise
        where: dict[str, Any] = {"database": dialect.Postgres(target).describe()}
        lacks = _fault("rights", error.message, error.hint)
        return Examined(where, [lacks, *_server(target, where, deep=deep, repair=repair)], at_head=False)
    facts: dict[str, Any] = {"database": standing.database, "revision": ", ".join(standing.revisions)}
    if standing.fence is not None:
        facts["fence"] = standing.fence
    symptoms = list(_of_a_move(target, repair=repair))
    try:
        knowledge.judge(list(standing.revisions), standing.window, standing.database, [])
    except (errors.SchemaBehind, errors.SchemaAhead, errors.NotABoard) as error:
        symptoms.append(_fault("schema", error.message, error.hint))
    symptoms += look(target, facts, deep=deep, repair=repair)
    at_head = standing.at_head and not any(each.kind in ("schema", "move", "tables") for each in symptoms)
    damaged = any(each.kind == "integrity" for each in symptoms)
    if deep and at_head and (differences := migrate.check(target)):
        hint = "somebody changed the tables past the migrations: change them back, or restore a backup"
        symptoms.append(_fault("drift", "the tables are not those that this program expects", hint, *differences))
    if deep and at_head and not damaged:
        try:
            symptoms += _values(target)
        except errors.NotABoard as error:
            symptoms.append(lacking(error))
            at_head = False
    return Examined(facts, symptoms, at_head)


def lacking(error: errors.NotABoard) -> Symptom:
    """What a look at the rows met where something of the board is missing."""
    return _fault("tables", error.message, "restore a backup, or make anew what is missing")


def _missing(engine: dialect.Engine, connection: Any, facts: dict[str, Any]) -> Iterator[Symptom]:
    """Tables that the newest schema has, and this board of it has not."""
    if facts.get("revision") == knowledge.HEAD:
        ours = {table.name for table in schema.metadata.sorted_tables if schema.belongs(table, engine.name)}
        if gone := sorted(ours - set(engine.look_around(connection)[0])):
            yield _fault("tables", "tables of the board are missing", "somebody dropped them: restore a backup", *gone)


def _values(target: str) -> Iterator[Symptom]:
    """Values that no program of ours writes: the other engine would refuse them, or not give them back."""
    side = sides.side_of(target)
    with side.transaction(writes=False):
        found = [f"{each.table} {each.row}: {each.column} {each.fault}" for each in islice(side.faults(), FOUND_MAX)]
    if found:
        hint = "somebody wrote past the program: set them right by hand"
        yield _fault("values", "values and rows that cannot be", hint, *found)


def _fault(kind: str, said: str, hint: str = "", *found: str) -> Symptom:
    return Symptom(kind, "fault", said, hint, "", found[:SHOWN_MAX], max(1, len(found)), False)


def _warning(kind: str, said: str, hint: str = "", *found: str) -> Symptom:
    return replace(_fault(kind, said, hint, *found), severity="warning")


@contextmanager
def _in_our_words(engine: dialect.Engine) -> Iterator[None]:
    try:
        yield
    except engine.driver_error as error:
        raise dialect.in_our_words(engine, error) from None


# --- a move -----------------------------------------------------------------------------------------------------------


def _of_a_move(target: str, *, repair: bool) -> Iterator[Symptom]:
    """What a move left here, and what to run. Both sides are read, for neither knows how the other ended."""
    side = sides.side_of(target)
    with side.transaction(writes=False) as tx:
        tables = side.tables()
        if schema.board_move.name not in tables:
            return
        row, fences = tx.one("move_state"), side.fences()
    if row is None or not fence.is_up(row.state):
        if fences:
            yield _left(side, fences, repair=repair)
        if row is not None and row.state == fence.STAYED and row.opened_at is None:
            yield from _given_up(row)
        return
    refusal = fence.refusal(row.state, row.address)
    if isinstance(refusal, errors.NotABoard):
        yield _fault("move", refusal.message, refusal.hint)
        return
    there, said = _beyond(row)
    left = row.state in (fence.MOVING, fence.MOVED)
    hint = _at_the_old_place(row.state, there) if left else _at_the_new_place(row, there, side.engine.address())
    since = dialect.format_instant(row.fenced_at)
    yield _warning(row.state, f"{refusal.message}; nobody may write since {since}", hint, f"{row.address} {said}")
    if bare := [table for table in sides.FENCED if table in tables and not fences.get(table)]:
        said = "tables of a board that nobody may write let writers pass"
        if row.state == fence.MOVING:
            yield _warning("fence", said, "nothing is copied before the fence is whole", *bare)
        else:
            hint = "somebody took the fence away: let nobody write here; what was written since is on one side alone"
            yield _fault("fence", said, hint, *bare)


def _left(side: sides.Side, fences: dict[str, bool], *, repair: bool) -> Symptom:
    """What an undo could not take away, since somebody stayed in a transaction that read the table."""
    if any(fences.values()):
        said = "tables refuse every change, and by its record the board does not move: somebody changed one of the two"
        hint = "find out whether this is the board that agents shall use, before you drop those triggers by hand"
        return _fault("fence", said, hint, *fences)
    said = "what is left of a fence: it lets everybody pass, and costs each change a call"
    hint = "as the owner of the tables, once nobody stays in a transaction: coordinate db doctor --repair"
    symptom = replace(_warning("fence", said, hint, *fences), repair="take it away", count=len(fences))
    if repair:
        side.clear_fence()
        with side.transaction(writes=False):
            symptom = replace(symptom, repaired=len(fences) - len(side.fences()))
    return symptom


def _given_up(row: Any) -> Iterator[Symptom]:
    """A move that failed or was undone and could not shut its place, or whose mover was killed before the fence."""
    there, said = _beyond(row)
    place = shlex.quote(row.address)
    undo = "coordinate db move --undo gives it up"
    if there == _UNSEEN:
        what = f"a move to {row.address} was given up; whether it left that place closed cannot be seen from here"
        yield _warning("unfinished", what, f"once it answers: {undo} there too", f"{row.address} {said}")
    elif there in (fence.ARRIVING, fence.COPIED):
        what = f"a move to {row.address} was given up, or has not fenced this board yet; it left that place closed"
        again = f"coordinate db move --to {place} goes there after all"
        yield _warning("unfinished", what, f"if no mover runs any more: {again}, {undo}", f"{row.address} {said}")


_UNSEEN, _GONE, _ANOTHER = "unseen", "gone", "another"


def _beyond(row: Any) -> tuple[str, str]:
    """The state of the same move at the other side, and that in words."""
    there = None
    try:
        if migrate.current(row.address, missing_ok=True, patience=5.0).revisions:
            side = sides.side_of(row.address)
            with side.transaction(writes=False) as tx:
                there = tx.one("move_state") if schema.board_move.name in side.tables() else None
    except errors.NoBoard:
        pass
    except (errors.CoordinateError, OSError) as error:
        return _UNSEEN, f"cannot be seen from here: {error}"
    if there is None:
        return _GONE, "holds no board that was ever moved, as seen from here"
    if there.move != row.move:
        return _ANOTHER, "tells of another move, a later one perhaps"
    return there.state, f"says: {there.state}"


def _at_the_old_place(state: str, there: str) -> str:
    if state == fence.MOVING:
        return "if no mover runs any more: coordinate db move --resume goes on, coordinate db move --undo gives up"
    if there in (fence.ARRIVING, fence.COPIED):
        return "if no mover runs any more, the last step is missing: coordinate db move --resume opens the new place"
    if there == fence.WITHDRAWN:
        return "an undo was killed half-way: coordinate db move --undo finishes it"
    if there == _GONE:
        return "if that place was lost, bring it back from its backup; what is here is how the board was when it moved"
    return "the board is there: name it with --db or $COORDINATE_DB; what is here is how it was then"


def _at_the_new_place(row: Any, there: str, here: str) -> str:
    old = f"--from {shlex.quote(row.address)}"
    undo = f"coordinate db move --undo {old} --to {shlex.quote(here)}"
    if there == _UNSEEN and row.state != fence.WITHDRAWN:
        return "coordinate db doctor at the other side, or where both can be seen, says what to run"
    match row.state, there:
        case fence.WITHDRAWN, fence.MOVED:
            return f"an undo was killed half-way: coordinate db move --undo {old} finishes it"
        case fence.WITHDRAWN, _:
            said = "the board is there: name it with --db or $COORDINATE_DB; only that board may move here again"
            return f"{said}; for other use {undo} empties and opens this place"
        case _, fence.MOVED:
            return f"if no mover runs any more, the last step is missing: coordinate db move --resume {old} opens it"
        case _, fence.MOVING:
            go_on, give_up = (f"coordinate db move --{verb} {old}" for verb in ("resume", "undo"))
            return f"if no mover runs any more: {go_on} goes on, {give_up} gives up"
    return f"if no mover runs any more: {undo} gives it up"


# --- a SQLite file ----------------------------------------------------------------------------------------------------


def _file(target: str, facts: dict[str, Any], *, deep: bool, repair: bool) -> Iterator[Symptom]:
    path = Path(os.path.realpath(config.path_of(target)))  # beside what a link leads to lies the log
    engine = dialect.SQLite(str(path), patience=1.0)
    with closing(engine.connect()) as connection, _in_our_words(engine):
        facts |= {
            "engine": engine.name,
            "version": sqlite3.sqlite_version,
            "journal_mode": connection.execute("PRAGMA journal_mode").fetchone()[0],
            "storage": dialect.file_system_of(path),
            "bytes": path.stat().st_size,
        }
        yield from _missing(engine, connection, facts)
        yield from (_warning("storage", warning) for warning in engine.warnings)
        yield from (
            _warning(
                "version", f"SQLite {sqlite3.sqlite_version} has {defect}", "use a Python that links a newer SQLite"
            )
            for defect in defects_of(sqlite3.sqlite_version_info)
        )
        yield from _log(path, facts, connection, repair=repair)
        yield from _file_rights(path)
        if (links := path.stat().st_nlink) > 1:
            said = f"{path} is one of {links} names of a file, and SQLite keeps a log beside each: two boards"
            yield _warning("names", said, "write by one name alone; coordinate db backup makes a copy")
        yield from _clock_of_rows(connection)
        if deep:
            try:
                yield from _integrity(connection)
            except sqlite3.DatabaseError as error:
                yield _damaged(str(error))


def defects_of(version: tuple[int, int, int]) -> list[str]:
    """What is known of a version of SQLite that may harm a board."""
    return [
        said
        for since, cured, patched, said in DEFECTS
        if since <= version < cured and not version[2] >= patched.get(version[:2], 1_000)
    ]


def _log(path: Path, facts: dict[str, Any], connection: sqlite3.Connection, *, repair: bool) -> Iterator[Symptom]:
    """How large the log is, and who keeps it from being used anew."""
    log = path.with_name(f"{path.name}-wal")
    facts["wal_bytes"] = log.stat().st_size if log.exists() else 0
    facts["wal_held_by"] = holders(path)
    if facts["wal_bytes"] <= LOG_BYTES_MAX:
        return
    said = f"the log beside the file has grown to {facts['wal_bytes']:,} bytes: every read looks through it"
    hint = "end the reader that has stayed in one transaction" if facts["wal_held_by"] else "no reader holds it now"
    symptom = replace(_warning("log", said, hint, *facts["wal_held_by"]), repair="write it back and cut it off")
    if repair:
        busy, _, _ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        symptom = replace(symptom, repaired=1 - busy)
    yield symptom


def holders(path: Path) -> list[str]:
    """The processes that stay in a read transaction, as `PID NAME`; the kernel lists their locks (Linux).

    A reader locks one of five bytes of the shared memory for as long as its transaction lasts. Two looks tell one that
    stays from one that passes.
    """
    staying = _lock_owners(path)
    time.sleep(0.2 if staying else 0)
    return [f"{pid} {_name(pid)}" for pid in sorted(staying & _lock_owners(path))]


def _lock_owners(path: Path) -> set[int]:
    try:
        shared = path.with_name(f"{path.name}-shm").stat()
        listed = Path("/proc/locks").read_text(encoding="ascii")
    except OSError:
        return set()
    file = f"{os.major(shared.st_dev):02x}:{os.minor(shared.st_dev):02x}:{shared.st_ino}"
    locks = [line.split() for line in listed.splitlines()]
    read_marks = range(123, 128)
    found = {int(lock[4]) for lock in locks if lock[1] == "POSIX" and lock[5] == file and int(lock[6]) in read_marks}
    return found - {os.getpid()}


def _name(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    return "of another container" if pid <= 0 else "gone"


def _file_rights(path: Path) -> Iterator[Symptom]:
    for place in (path, path.parent):
        if not os.access(place, os.W_OK):
            yield _fault("rights", f"this user may not write {place}", "even reading a board writes beside it")
    if path.stat().st_mode & stat.S_IWOTH:
        yield _warning("rights", f"every user of this machine may write {path}", "chmod o-w takes that away")


def _clock_of_rows(connection: sqlite3.Connection) -> Iterator[Symptom]:
    """Here the clock is the host's: a row of the future was written by another clock, or before this one was set."""
    ahead = 0.0
    # An older schema has no events; what is no time is told with the values.
    with suppress(sqlite3.OperationalError, ValueError, TypeError):
        newest = connection.execute("SELECT created_at FROM events ORDER BY id DESC LIMIT 1").fetchone()
        if newest is not None:
            ahead = (datetime.fromisoformat(newest[0]) - datetime.now(UTC)).total_seconds()
    if ahead > CLOCK_SECONDS_MAX:
        said = f"the newest event lies {ahead:,.0f} s in the future: leases of that time end so much later"
        yield _warning("clock", said, "compare the clocks of the hosts that use this file")


def _integrity(connection: sqlite3.Connection) -> Iterator[Symptom]:
    """What SQLite says of a file; that a value breaks a rule of its table is no damage, and told with the values."""
    if found := list(backup.damage(connection, "integrity_check", most=SHOWN_MAX)):
        yield _damaged(*found)


def _damaged(*found: str) -> Symptom:
    return _fault("integrity", "the file is damaged", "restore a backup, and look at the disk", *found)


# --- a Postgres server ------------------------------------------------------------------------------------------------


def _server(target: str, facts: dict[str, Any], *, deep: bool, repair: bool) -> Iterator[Symptom]:
    engine = dialect.open_engine(target, create=False, patience=5.0, synchronous="FULL")
    connection = dialect.let_in(engine)

    def ask(sql: str) -> list[Any]:
        return list(engine.execute(connection, sql, []).fetchall())

    with closing(connection), _in_our_words(engine):
        names = ("version", "role", "schema", "read_only", "sessions", "sessions_max")
        facts |= {"engine": engine.name, **dict(zip(names, ask(_ABOUT)[0], strict=True))}
        yield from _missing(engine, connection, facts)
        (now,) = ask("SELECT clock_timestamp()")[0]
        apart = abs((now - datetime.now(UTC)).total_seconds())
        if facts["read_only"]:
            said = "the server accepts no writes: it is a standby, or set to read only"
            yield _warning("read_only", said, "name the primary, or several hosts with target_session_attrs=read-write")
        if apart > CLOCK_SECONDS_MAX:
            said = f"the clocks of this host and of the server are {apart:,.0f} s apart"
            yield _warning(
                "clock", said, "harmless for the board, whose clock is the server's; not for reading its times"
            )
        if missing := [f"{table}: {right}" for table, right in ask(_RIGHTS)]:
            hint = "a DBA can grant them: coordinate db grant ROLE prints how"
            yield _fault("rights", f"the role {facts['role']} lacks rights", hint, *missing)
        elif ask(_FEED)[0][0] and not ask("SELECT 1 FROM event_feed_state"):
            said = "event_feed_state is empty, which says how far events are numbered: readers get no new ones"
            yield _fault("tables", said, "somebody deleted it: restore a backup")
        if idle := [f"{pid} ({program or 'no name'}), {seconds} s" for pid, program, seconds in ask(_IDLE)]:
            said = f"sessions idle in a transaction for more than {IDLE_SECONDS_MAX} s: they block upgrades and vacuum"
            yield _warning("idle_in_transaction", said, "end them where they come from", *idle)
        if invalid := [name for (name,) in ask(_INVALID)]:
            hint = "a build that failed: REINDEX INDEX CONCURRENTLY, as the owner of the tables"
            if facts.get("revision") != knowledge.HEAD:
                hint = "an upgrade that gave up left it, and clears it: coordinate db upgrade again, as their owner"
            yield _fault("indexes", "indexes that are not valid and serve nobody", hint, *invalid)
        if bloated := [f"{table}: {dead:,} dead, {live:,} live" for table, dead, live in ask(_DEAD)]:
            hint = "VACUUM them, and see the advice on autovacuum in the documentation"
            yield _warning("dead_rows", "tables with more dead rows than live ones", hint, *bloated)


_HERE = "n.nspname = current_schema()"
_ABOUT = """
    SELECT current_setting('server_version'), current_user::text, current_schema()::text,
           pg_is_in_recovery() OR current_setting('transaction_read_only') = 'on',
           (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()),
           current_setting('max_connections')::int"""
_RIGHTS = f"""
    SELECT c.relname, r.needed FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     CROSS JOIN (VALUES ('SELECT'), ('INSERT'), ('UPDATE'), ('DELETE')) r(needed)
     WHERE {_HERE} AND c.relkind = 'r' AND NOT has_table_privilege(c.oid, r.needed)
       AND c.relname IN ({", ".join(f"'{name}'" for name in sorted(schema.metadata.tables))})
       AND (c.relname NOT IN ('schema_window', 'board_move') OR r.needed = 'SELECT')
    UNION ALL
    SELECT p.proname, 'EXECUTE' FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE {_HERE} AND p.proname = '{schema.NUMBER_EVENTS}' AND NOT has_function_privilege(p.oid, 'EXECUTE')
     ORDER BY 1, 2"""
_FEED = "SELECT to_regclass(quote_ident(current_schema()) || '.event_feed_state') IS NOT NULL"
_IDLE = f"""
    SELECT pid, application_name, extract(epoch FROM clock_timestamp() - state_change)::bigint FROM pg_stat_activity
     WHERE datname = current_database() AND state LIKE 'idle in transaction%'
       AND state_change < clock_timestamp() - interval '{IDLE_SECONDS_MAX} s' ORDER BY pid"""
_INVALID = f"""
    SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
      JOIN pg_namespace n ON n.oid = c.relnamespace WHERE {_HERE} AND NOT i.indisvalid ORDER BY 1"""
_DEAD = """
    SELECT relname, n_dead_tup, n_live_tup FROM pg_stat_user_tables
     WHERE schemaname = current_schema() AND n_dead_tup > 10000 AND n_dead_tup > n_live_tup ORDER BY relname"""
