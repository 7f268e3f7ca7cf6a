"""The chain of migrations: complete, reversible, faithful to the rows, and one with what the program expects."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from alembic.script import ScriptDirectory
from sqlalchemy import event
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

import coordinate
from coordinate.db import knowledge, migrate
from coordinate.db.dialect import is_postgres
from tests.doors.command import Command
from tests.migrations.catalog import (
    CHECKOUT,
    FAILS,
    FAULT,
    a_second_place,
    alembic,
    catalog,
    create_tables,
    fill,
    path_of,
    rows,
    run,
    run_script,
    step,
    write_later,
)
from tests.postgres import Server

REVISIONS = list(knowledge.REVISIONS)


def test_the_program_knows_exactly_the_revisions_of_the_one_chain() -> None:
    chain = ScriptDirectory(str(CHECKOUT / "alembic"))
    assert tuple(script.revision for script in reversed(list(chain.walk_revisions()))) == knowledge.REVISIONS
    assert chain.get_heads() == [knowledge.HEAD]
    assert chain.get_bases() == ["0001"]
    assert [entry["revision"] for entry in migrate.history()] == REVISIONS
    assert int(knowledge.HEAD) == knowledge.NUMBER


def test_every_migration_says_what_it_costs_and_what_its_downgrade_loses() -> None:
    for script in ScriptDirectory(str(CHECKOUT / "alembic")).walk_revisions():
        for heading in ("What changes, and why:", "Before or after deploying code:", "Cost on a", "downgrade loses:"):
            assert heading in (script.longdoc or ""), f"{script.path} does not say: {heading}"


def test_rows_survive_down_and_up_again_through_every_revision(board_url: str) -> None:
    """AL-02. What a revision's downgrade removes is named here; all else keeps its rows, to the last byte."""
    lost = {
        "0011": set(),
        "0010": set(),
        "0009": set(),
        "0008": set(),
        "0007": {"board_move"},
        "0006": {"tokens"},
        "0004": {"boards", "board_rows", "asks", "ask_responses", "ask_deliveries"}
        | {"annotations", "annotation_deliveries"},
        "0003": {"agents", "sessions", "leases", "worktrees", "applied_events"},
        "0002": {"events", "event_cursors", "event_feed", "event_feed_state"},
        "0001": {"tasks", "task_dependencies", "task_scopes", "attempts", "notes", "history", "counters"}
        | {"projects", "schema_window", "coordinate_version"},
    }
    fill(board_url)
    changed = {"counters", "schema_window", "coordinate_version"}  # a row each is the revision's own
    reshaped = {"0004": {"tasks"}, "0003": {"tasks", "attempts"}}  # and these gain and lose a column
    before = rows(board_url)
    assert set(before) >= {"tasks", "notes", "history", "attempts", "events", "event_cursors"}
    for revision in reversed(REVISIONS):
        before, kept = rows(board_url), [t for t in before if t not in changed | reshaped.get(revision, set())]
        counts = {t: before[t][0] for t in reshaped.get(revision, ())}
        migrate.downgrade(board_url, "base" if revision == "0001" else REVISIONS[REVISIONS.index(revision) - 1])
        after = rows(board_url)
        assert set(before) - set(after) == lost[revision] & set(before)
        assert {t: after[t] for t in after if t in kept} == {t: before[t] for t in after if t in kept}
        assert {t: after[t][0] for t in counts} == counts
        check_foreign_keys(board_url)
        if revision != "0001":
            migrate.upgrade(board_url, revision)
            again = rows(board_url)
            assert {t: again[t] for t in after if t in kept} == {t: after[t] for t in after if t in kept}
            assert {t: again[t][0] for t in counts} == counts
            check_foreign_keys(board_url)
            migrate.downgrade(board_url, REVISIONS[REVISIONS.index(revision) - 1])
        before = rows(board_url)
    assert rows(board_url) == {}
    migrate.upgrade(board_url)
    fill(board_url)


def check_foreign_keys(url: str) -> None:
    if not is_postgres(url):
        assert run(url, "PRAGMA foreign_key_check") == []
        assert run(url, "PRAGMA integrity_check") == [("ok",)]


def test_ids_do_not_come_back_after_down_and_up(board_url: str) -> None:
    """SQ-22, for the notes and history that 0001 keeps while 0002 goes and comes."""
    fill(board_url)
    highest = run(board_url, "SELECT max(id) FROM notes")[0][0]
    run(board_url, f"DELETE FROM notes WHERE id = {highest}")
    fence = run(board_url, "SELECT value FROM counters WHERE kind = 'fence'")[0][0]
    migrate.downgrade(board_url, "0001")
    migrate.upgrade(board_url)
    with coordinate.connect(board_url, agent="alice") as c:
        assert c.acquire_lock(name="l").fence == fence + 1
        c.comment(task="TASK-1", text="a new one")
    assert run(board_url, "SELECT max(id) FROM notes")[0][0] > highest


def test_downgrade_to_base_leaves_nothing_behind(db_url: str) -> None:
    migrate.upgrade(db_url)
    fill(db_url)
    done = migrate.downgrade(db_url, "base")
    assert (done.before, done.after) == (knowledge.HEAD, "base")
    assert {kind: found for kind, found in catalog(db_url).items() if found} == {}
    assert migrate.upgrade(db_url).after == knowledge.HEAD


def test_fresh_stepwise_and_created_tables_are_the_same_to_the_last_index(
    engine: str, db_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """AL-03, facts 11: what `alembic check` does not see (CHECKs, partial WHERE, AUTOINCREMENT) is compared here."""
    migrate.upgrade(db_url)
    with a_second_place(engine, tmp_path, request) as stepwise, a_second_place(engine, tmp_path, request) as created:
        for revision in REVISIONS:
            step(stepwise, revision)
        fill(stepwise)
        step(stepwise, "-1")
        step(stepwise, "head")
        assert catalog(stepwise) == catalog(db_url)
        create_tables(created)
        assert without_what_no_table_is(catalog(db_url)) == without_what_no_table_is(catalog(created))
        for place in (db_url, stepwise, created):
            refuses_an_illegal_status(place)


@pytest.mark.parametrize("revision", REVISIONS[:-1])
def test_wherever_an_upgrade_with_rows_begins_it_ends_at_the_same_schema(
    engine: str, board_url: str, tmp_path: Path, request: pytest.FixtureRequest, revision: str
) -> None:
    """AL-03: online, and as printed SQL that is fed to the engine's own shell."""
    goal = catalog(board_url)
    fill(board_url)
    migrate.downgrade(board_url, revision)
    kept = {table: count for table, (count, _) in rows(board_url).items()}
    with a_second_place(engine, tmp_path, request) as printed:
        step(printed, revision)
        run_script(printed, migrate.sql(engine, f"{revision}:head"))
        assert catalog(printed) == goal
    migrate.upgrade(board_url)
    assert catalog(board_url) == goal
    now = {table: count for table, (count, _) in rows(board_url).items()}
    assert {table for table in kept if now[table] != kept[table]} <= {"counters"}  # later revisions add their own


def test_no_revision_loses_a_trigger_or_a_mark_of_ids_on_sqlite(sqlite_url: str) -> None:
    """AL-02, AL-03, facts 3: what a careless table rebuild loses, on the way up and on the way down."""
    migrate.upgrade(sqlite_url)
    fill(sqlite_url)
    migrate.downgrade(sqlite_url, REVISIONS[0])
    run(sqlite_url, "CREATE TABLE seen (id)", "UPDATE sqlite_sequence SET seq = seq + 5000")
    tables = [name for (name,) in run(sqlite_url, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    own = [name for name in tables if name not in ("seen", "sqlite_sequence")]
    for name in own:
        run(sqlite_url, f"CREATE TRIGGER watch_{name} AFTER DELETE ON {name} BEGIN INSERT INTO seen VALUES (1); END")
    marks = run(sqlite_url, "SELECT name, seq FROM sqlite_sequence ORDER BY name")
    triggers = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' ORDER BY name"
    before = run(sqlite_url, triggers)
    assert len(before) > 8
    assert marks
    for revision in [*REVISIONS[1:], *reversed(REVISIONS[:-1])]:
        act = migrate.upgrade if revision > migrate.current(sqlite_url).revisions[0] else migrate.downgrade
        act(sqlite_url, revision)
        assert run(sqlite_url, triggers) == before
        now = dict(run(sqlite_url, "SELECT name, seq FROM sqlite_sequence"))
        assert {name: now[name] for name, _ in marks} == dict(marks)
        check_foreign_keys(sqlite_url)


def without_what_no_table_is(found: dict[str, list[tuple[str, ...]]]) -> dict[str, list[tuple[str, ...]]]:
    """The view, the function and Alembic's own table are made by migrations alone."""
    own = re.compile(r"coordinate_version|coordinate_number_events")
    return {
        kind: [entry for entry in entries if entry[0] != "view" and not own.search(" ".join(map(str, entry[:3])))]
        for kind, entries in found.items()
    }


def refuses_an_illegal_status(url: str) -> None:
    columns = "id, number, title, status, role_boundary, created_at, updated_at"
    moment = "'2030-01-31T12:00:00.000Z'"
    with pytest.raises(Exception, match="ck_tasks_status"):
        run(url, f"INSERT INTO tasks ({columns}) VALUES ('TASK-9', 9, 't', 'DOING', 'r', {moment}, {moment})")


def test_the_printed_sql_makes_the_same_schema_without_a_server_at_hand(
    engine: str, db_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """AL-05. Nothing answers at the address given: `--sql` must not even try."""
    unreachable = "postgresql://nobody@127.0.0.1:1/none" if engine == "postgresql" else str(tmp_path / "none.db")
    up = alembic("upgrade", "base:head", "--sql", url=unreachable)
    down = alembic("downgrade", "head:base", "--sql", url=unreachable)
    assert not (tmp_path / "none.db").exists()
    for script in (up.stdout, down.stdout):
        assert not re.search(r"^(INFO|WARN|ERROR|Running)", script, re.MULTILINE)
    if engine == "postgresql":
        assert up.stdout.startswith("SET lock_timeout")
    migrate.upgrade(db_url)
    with a_second_place(engine, tmp_path, request) as printed:
        run_script(printed, up.stdout)
        assert catalog(printed) == catalog(db_url)
        fill(printed)
        run_script(printed, down.stdout)
        assert {kind: found for kind, found in catalog(printed).items() if found} == {}


def test_without_a_board_at_hand_it_says_how_to_name_the_engine(tmp_path: Path) -> None:
    refused = alembic("-c", str(CHECKOUT / "alembic.ini"), "upgrade", "head", "--sql", cwd=tmp_path, code=255)
    assert "-x engine=postgresql" in refused.stdout + refused.stderr
    assert "--engine postgresql" in Command("", tmp_path)("db", "sql").error["hint"]


def test_the_installed_command_prints_the_same_sql_as_alembic(engine: str) -> None:
    assert migrate.sql(engine) == alembic("-x", f"engine={engine}", "upgrade", "head", "--sql").stdout
    assert "DROP TABLE tasks" in migrate.sql(engine, "head:base", down=True)


def test_alembic_check_finds_nothing_three_times(engine: str, board_url: str, tmp_path: Path) -> None:
    """AL-08; also with rows, and with another program's table beside ours."""
    fill(board_url)
    run(board_url, "CREATE TABLE another_program (id integer PRIMARY KEY)")
    for _ in range(3):
        said = alembic("-x", f"url={board_url}", "check", cwd=CHECKOUT)
        assert "No new upgrade operations detected" in said.stdout
    assert migrate.check(board_url) == []


def test_check_sees_what_was_changed_by_hand(board_url: str) -> None:
    run(board_url, "ALTER TABLE tasks ADD COLUMN mood TEXT")
    assert "mood" in migrate.check(board_url)[0]
    alembic("check", url=board_url, code=255)


# --- a migration that fails -------------------------------------------------------------------------------------------


def test_a_revision_that_fails_half_way_leaves_none_of_it_and_can_be_run_again(board_url: str, scripts: Path) -> None:
    fill(board_url)
    write_later(scripts, "9002", "9001", fault=FAULT)
    standing, contents = run(board_url, "SELECT version_num FROM coordinate_version"), catalog(board_url)
    with pytest.raises(DBAPIError):
        step(board_url, "head", scripts)
    if is_postgres(board_url):  # each revision is a transaction of its own: 9001 is done, of 9002 nothing
        assert run(board_url, "SELECT version_num FROM coordinate_version") == [("9001",)]
        assert "later_9002" not in str(catalog(board_url))
    else:
        assert run(board_url, "SELECT version_num FROM coordinate_version") == standing
        assert catalog(board_url) == contents
    write_later(scripts, "9002", "9001")
    step(board_url, "head", scripts)
    assert run(board_url, "SELECT version_num FROM coordinate_version") == [("9002",)]
    assert run(board_url, "SELECT revision FROM schema_window") == [("9002",)]
    write_later(scripts, "9002", "9001", fault=FAULT)
    with pytest.raises(DBAPIError):
        step(board_url, "-1", scripts)
    assert run(board_url, "SELECT version_num FROM coordinate_version") == [("9002",)]
    write_later(scripts, "9002", "9001")
    step(board_url, "-1", scripts)
    assert "later_9002" not in str(catalog(board_url))


def test_whichever_statement_of_the_chain_fails_a_rerun_succeeds(
    engine: str, db_url: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every statement of the upgrade is once replaced by one that fails; the next run gets past it, on the same place.

    A revision that was committed before the failure stays, so that each statement is met once more at most.
    """
    with statement_fails(0) as seen:
        migrate.upgrade(db_url)
    with a_second_place(engine, tmp_path, request) as place:
        failed: list[str] = []
        stands, index = migrate.current(place, missing_ok=True).revisions, 1
        while stands != (knowledge.HEAD,):
            with statement_fails(index) as tried, suppress(DBAPIError):
                migrate.upgrade(place)
            before, stands = stands, migrate.current(place, missing_ok=True).revisions
            failed += tried[index - 1 : index]
            index = 2 if stands != before else index + 1  # the first of the next revision has just failed
        assert sorted(failed) == sorted(seen)
        assert len(seen) > 20
        assert catalog(place) == catalog(db_url)
        assert run(place, "SELECT revision, oldest_writer FROM schema_window") == [(knowledge.HEAD, 4)]


@contextmanager
def statement_fails(index: int) -> Iterator[list[str]]:
    """Within the block the `index`-th statement that changes something is another one, which fails."""
    seen: list[str] = []

    def replace(connection: object, cursor: object, statement: str, parameters: object, *_: object) -> object:
        if statement.split(maxsplit=1)[0] not in ("SELECT", "PRAGMA", "BEGIN"):
            seen.append(statement)
            if len(seen) == index:
                return FAILS, {}
        return statement, parameters

    event.listen(Engine, "before_cursor_execute", replace, retval=True)
    try:
        yield seen
    finally:
        event.remove(Engine, "before_cursor_execute", replace)


def test_a_rebuilt_parent_table_does_not_empty_its_children(tmp_path: Path, sqlite_url: str, scripts: Path) -> None:
    """AL-02, facts 2: a rebuild of `tasks` with foreign keys on would cascade into every table that refers to it."""
    migrate.upgrade(sqlite_url)
    fill(sqlite_url)
    write_later(
        scripts,
        "9002",
        "9001",
        fault="\n    ".join(
            [
                'with op.batch_alter_table("tasks", recreate="always") as table:',
                '        table.alter_column("title", nullable=False)',
            ]
        ),
    )
    before = rows(sqlite_url)
    step(sqlite_url, "head", scripts)
    after = rows(sqlite_url)
    for table in ("notes", "history", "attempts", "task_dependencies", "task_scopes", "events"):
        assert after[table] == before[table]
    check_foreign_keys(sqlite_url)


def test_a_migration_that_orphans_rows_is_refused_whole(sqlite_url: str, scripts: Path) -> None:
    """AL-02: foreign keys are off while a SQLite migration runs, so it is checked before the commit."""
    migrate.upgrade(sqlite_url)
    fill(sqlite_url)
    write_later(scripts, "9002", "9001", fault="op.execute(\"DELETE FROM tasks WHERE id = 'TASK-1'\")")
    before = rows(sqlite_url)
    with pytest.raises(coordinate.errors.CoordinateError, match="without their parent"):
        step(sqlite_url, "head", scripts)
    assert rows(sqlite_url) == before
    assert path_of(sqlite_url).exists()


def test_a_migration_leaves_no_lock_and_no_open_transaction_on_the_server(
    pg_url: str, postgres: Server, scripts: Path
) -> None:
    write_later(scripts, "9002", "9001", fault=FAULT)
    with psycopg.connect(postgres.url, autocommit=True) as look:
        for attempt in ("head", "9001"):
            if attempt == "head":
                with pytest.raises(DBAPIError):
                    step(pg_url, attempt, scripts)
            else:
                step(pg_url, attempt, scripts)
            key = "hashtextextended((SELECT nspname FROM pg_namespace WHERE nspname = %s) || '/migrate', 0)"
            home = re.search(r"search_path%3D(\w+)", pg_url)[1]  # type: ignore[index]
            held = look.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
                f" AND (classid::bigint << 32 | objid::bigint) = {key}",
                [home],
            ).fetchone()
            assert held == (0,)
