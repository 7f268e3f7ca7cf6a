"""What stands where a board was expected, and what each program does there: refused in words of its own, unchanged."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic.command import upgrade as upgrade_by_hand

import coordinate
from coordinate import errors, service
from coordinate.db import env, knowledge, migrate, names
from coordinate.db.dialect import Engine, is_postgres
from coordinate.db.knowledge import HEAD
from tests.migrations.catalog import alembic, catalog, create_tables, fill, path_of, run, unchanged


def open_and_look(url: str) -> None:
    with coordinate.connect(url, agent="alice") as c:
        c.list_tasks()


def make(url: str) -> None:
    coordinate.connect(url, create=True).close()


def stamp(url: str, *versions: str) -> None:
    listed = ", ".join(f"('{version}')" for version in versions)
    run(
        url,
        "DELETE FROM coordinate_version",
        *([f"INSERT INTO coordinate_version VALUES {listed}"] if versions else []),
    )


# --- a newer board, an older board, and one that contradicts itself ---------------------------------------------------


def test_a_board_of_a_newer_version_is_refused_everywhere_and_not_touched(board_url: str) -> None:
    """AL-01: an unknown revision, through the library, the migrations and Alembic's own command line."""
    fill(board_url)
    stamp(board_url, "7777")
    with unchanged(board_url):
        for act in (open_and_look, make, migrate.upgrade, migrate.check, lambda url: migrate.downgrade(url, "base")):
            with pytest.raises(errors.SchemaAhead, match=rf"newer version.*7777.*up to {HEAD}") as refused:
                act(board_url)
            assert refused.value.exit_status == 6
            assert refused.value.facts == {"revision": "7777", "known": knowledge.HEAD}
        for command in (["current"], ["upgrade", "head"], ["downgrade", "base"], ["check"]):
            said = alembic(*command, url=board_url, code=255)
            assert "newer version" in said.stderr
            assert "7777" in said.stderr
            assert "Traceback" not in said.stderr
    assert migrate.current(board_url).revisions == ("7777",)


def test_a_newer_board_whose_window_admits_this_program_works_with_a_warning(board_url: str) -> None:
    """AL-01, the other half: mixed versions work side by side as long as the newer one says so."""
    stamp(board_url, "7777")
    run(board_url, "UPDATE schema_window SET revision = '7777', oldest_writer = 4")
    with coordinate.connect(board_url, agent="alice") as c:
        c.dispatch(title="t", role="worker")
        assert c.claim_next(role="worker")
        assert len(c.database.warnings) == 1
        assert "newer revision 7777" in c.database.warnings[0]


def test_a_window_that_closes_under_an_open_program_stops_it_at_the_next_write(board_url: str) -> None:
    with coordinate.connect(board_url, agent="alice") as c:
        c.dispatch(title="t", role="worker")
        run(board_url, f"UPDATE schema_window SET revision = '7777', oldest_writer = {knowledge.NUMBER + 1}")
        stamp(board_url, "7777")
        run(board_url, "CREATE TABLE later (id integer)")  # on SQLite any change of the schema is seen at once
        c.database._idle = [(connection, None) for connection, _ in c.database._idle]  # as after 5 s, on Postgres
        with pytest.raises(errors.SchemaAhead):
            c.dispatch(title="u", role="worker")
    assert run(board_url, "SELECT count(*) FROM tasks") == [(1,)]


def test_what_changes_no_schema_reads_no_rows(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each program of a deployment checks the board before it starts, however large that is."""

    def read(connection: sqlite3.Connection) -> list[object]:
        raise AssertionError("all rows were read")

    monkeypatch.setattr("coordinate.db.backup.orphans", read)
    assert migrate.check(str(plain)) == []
    migrate._run(str(plain), lambda config: upgrade_by_hand(config, "head"))
    with pytest.raises(AssertionError):
        migrate.downgrade(str(plain), "0009")
    assert migrate.current(str(plain)).at_head


def test_an_upgrade_that_cannot_begin_says_so_in_our_words(board_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who keeps a file locked, a server that goes away: nothing is wrong with the program."""
    migrate.downgrade(board_url, "0009")
    connect = env._connect

    def cut_off(ours: Engine) -> Any:
        connection = connect(ours)
        with suppress(psycopg.Error):
            connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return connection

    if is_postgres(board_url):
        monkeypatch.setattr(env, "_connect", cut_off)
        with pytest.raises(errors.Unreachable):
            migrate.upgrade(board_url)
        return
    monkeypatch.setattr(env, "WAIT_SECONDS", 0.1)
    with closing(sqlite3.connect(path_of(board_url))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(errors.Busy):
            migrate.upgrade(board_url)


def test_several_version_rows_are_refused_and_not_touched(board_url: str) -> None:
    """AL-01"""
    for versions in (("0004", HEAD), (HEAD, "7777")):
        stamp(board_url, *versions)
        with unchanged(board_url):
            for act in (open_and_look, make, lambda url: migrate.downgrade(url, "base")):
                with pytest.raises((errors.NotABoard, errors.SchemaAhead), match=r"2 schema versions|newer"):
                    act(board_url)
            alembic("upgrade", "head", url=board_url, code=255)


def test_an_older_board_names_the_command_that_upgrades_it(board_url: str) -> None:
    fill(board_url)
    migrate.downgrade(board_url, "0001")
    with unchanged(board_url), pytest.raises(errors.SchemaBehind, match=rf"0001.*needs {HEAD}") as refused:
        open_and_look(board_url)
    assert refused.value.exit_status == 6
    assert "coordinate db upgrade" in refused.value.hint
    assert "not up to date" in alembic("check", url=board_url, code=255).stderr
    migrate.upgrade(board_url)
    open_and_look(board_url)


def test_a_window_that_contradicts_the_version_is_said_plainly(board_url: str) -> None:
    run(board_url, "DELETE FROM schema_window")
    with pytest.raises(errors.NotABoard, match="contradicts itself"):
        open_and_look(board_url)


# --- AL-13: tables, but not a board ----------------------------------------------------------------------------------


def test_tables_made_without_migrations_are_recognised_and_left_alone(db_url: str) -> None:
    """AL-13"""
    create_tables(db_url)
    refused_unchanged(db_url, "tables of a board, but no record of their version", migrate.upgrade)


def test_a_board_that_only_lost_its_record_is_offered_a_stamp_if_its_tables_match(board_url: str) -> None:
    """AL-13: the offer is made when the tables are exactly those of the revision, and works; else it is not made."""
    run(board_url, "DROP TABLE coordinate_version")
    with unchanged(board_url), pytest.raises(errors.NotABoard) as refused:
        migrate.upgrade(board_url)
    offered = re.search(r"alembic (stamp \w+)", refused.value.hint)
    assert offered
    run(board_url, "ALTER TABLE tasks ADD COLUMN mood TEXT")
    with pytest.raises(errors.NotABoard) as refused:
        migrate.upgrade(board_url)
    assert "stamp" not in refused.value.hint
    run(board_url, "ALTER TABLE tasks DROP COLUMN mood")
    alembic(*offered[1].split(), url=board_url)
    open_and_look(board_url)


def test_a_foreign_tasks_table_is_recognised_and_left_alone(db_url: str) -> None:
    """AL-13"""
    run(db_url, "CREATE TABLE tasks (id integer PRIMARY KEY, what text)", "INSERT INTO tasks VALUES (1, 'mine')")
    refused_unchanged(db_url, "holds other tables (tasks) and no board", migrate.upgrade)


@pytest.mark.parametrize("before", ["base", "0008"])
def test_an_index_of_others_with_a_name_of_ours_is_told_before_anything_is_written(db_url: str, before: str) -> None:
    if before != "base":
        migrate.upgrade(db_url, before)
    run(db_url, "CREATE TABLE invoices (id integer)", "CREATE INDEX idx_tasks_finished ON invoices (id)")
    with unchanged(db_url), pytest.raises(errors.NotABoard, match=r"is taken: idx_tasks_finished \(on invoices\)"):
        migrate.upgrade(db_url)


def test_a_key_is_an_index_too_on_postgres(pg_url: str) -> None:
    run(pg_url, "CREATE TABLE invoices (id integer CONSTRAINT pk_tasks PRIMARY KEY)")
    with unchanged(pg_url), pytest.raises(errors.NotABoard, match=r"is taken: pk_tasks \(on invoices\)"):
        migrate.upgrade(pg_url)


def test_every_name_that_a_board_takes_is_known(db_url: str, engine: str) -> None:
    """Whatever a migration makes: else another program's thing of that name would be met half-way."""
    migrate.upgrade(db_url)
    made = {row for row in run(db_url, names._FOUND[engine]) if "_id_seq" not in row[1] and "sqlite_" not in row[1]}
    assert made == {each for each in names._needed(engine) if each[0] != "row type"}


def test_a_name_that_only_a_later_revision_needs_is_told_in_words(db_url: str) -> None:
    migrate.upgrade(db_url, "0004")
    run(db_url, "CREATE TABLE tokens (id integer)")
    with pytest.raises(errors.NotABoard, match=r"is taken: .*tokens"):
        migrate.upgrade(db_url)
    assert migrate.current(db_url).revisions == ("0004",)


def test_a_board_of_the_kanban_tool_is_sent_to_adoption(db_url: str) -> None:
    """AL-13"""
    run(db_url, *(f"CREATE TABLE {name} (id integer PRIMARY KEY)" for name in ("tasks", "notes", "history", "events")))
    with unchanged(db_url), pytest.raises(errors.NotABoard, match="board of the kanban tool") as refused:
        open_and_look(db_url)
    assert "db adopt" in refused.value.hint
    refused_unchanged(db_url, "board of the kanban tool", migrate.upgrade)


def test_an_empty_version_table_is_recognised_and_left_alone(db_url: str) -> None:
    """AL-13: alone it is an empty place, in which a board can be made; beside a board's tables it is no record."""
    run(db_url, "CREATE TABLE coordinate_version (version_num varchar(32) NOT NULL)")
    with unchanged(db_url), pytest.raises(errors.NotABoard, match="records 0 schema versions"):
        open_and_look(db_url)
    make(db_url)
    run(db_url, "DELETE FROM coordinate_version")
    refused_unchanged(db_url, "no record of their version", migrate.upgrade)


def test_an_empty_file_is_no_board_and_stays_empty_until_one_is_made(sqlite_url: str) -> None:
    """AL-13"""
    path_of(sqlite_url).touch()
    with unchanged(sqlite_url):
        for act in (open_and_look, migrate.current, migrate.check, lambda url: migrate.downgrade(url, "base")):
            with pytest.raises(errors.NoBoard, match="holds no board: it is empty"):
                act(sqlite_url)
        alembic("current", url=sqlite_url)
    make(sqlite_url)
    open_and_look(sqlite_url)


@pytest.mark.parametrize("content", [b"Dear diary, ...\n" * 100, b"SQLite format 3\0" + b"\xff" * 4080, b"xy"])
def test_a_file_that_is_not_sqlite_is_recognised_and_left_alone(sqlite_url: str, content: bytes) -> None:
    """AL-13"""
    path_of(sqlite_url).write_bytes(content)
    refused_unchanged(sqlite_url, str(sqlite_url), migrate.current)


def test_a_place_where_nothing_is_stays_empty_where_what_would_make_it_is_refused(tmp_path: Path) -> None:
    """A revision that is none, a backup that is not there, a name that no file can have."""
    for revision in ("nonsense", "+99"):
        with pytest.raises(errors.InvalidInput):
            migrate.upgrade(str(tmp_path / "board.db"), revision)
    with pytest.raises(errors.NotFound):
        service.restore(tmp_path / "backup.db", tmp_path / "new" / "folder" / "board.db")
    with pytest.raises((errors.InvalidInput, errors.PermissionDenied)):
        make(str(tmp_path / "new" / ("n" * 300)))
    assert list(tmp_path.iterdir()) == []


def test_a_place_where_nothing_is_stays_empty_whatever_looks_there(db_url: str) -> None:
    """No verb that only looks creates a file, a folder, a table."""
    before = catalog(db_url) if is_postgres(db_url) else None
    for act in (open_and_look, migrate.current, migrate.check, lambda url: migrate.downgrade(url, "base")):
        with pytest.raises(errors.NoBoard):
            act(db_url)
    code = 0 if is_postgres(db_url) else 255
    for command in (["current"], ["check"], ["downgrade", "base"], ["history", "-r", "current:head"]):
        alembic(*command, url=db_url, code=255 if command == ["check"] else code)
    if is_postgres(db_url):
        assert catalog(db_url) == before
    else:
        assert list(path_of(db_url).parent.iterdir()) == []


def test_a_board_is_made_beside_tables_of_others_that_are_in_nobodys_way(db_url: str) -> None:
    """What `using()` is for: one transaction over a program's own tables and the board."""
    run(db_url, "CREATE TABLE invoices (id integer PRIMARY KEY)", "INSERT INTO invoices VALUES (1)")
    with unchanged(db_url), pytest.raises(errors.NotABoard, match="invoices"):
        open_and_look(db_url)
    make(db_url)
    open_and_look(db_url)
    assert migrate.check(db_url) == []
    migrate.downgrade(db_url, "base")
    assert run(db_url, "SELECT * FROM invoices") == [(1,)]


def refused_unchanged(url: str, said: str, *acts: object) -> None:
    with unchanged(url):
        for act in (open_and_look, make, *acts):
            with pytest.raises(errors.NotABoard, match=re.escape(said)) as refused:
                act(url)  # type: ignore[operator]
            assert refused.value.exit_status == 6
        told = alembic("upgrade", "head", url=url, code=255)
        assert "Traceback" not in told.stderr
