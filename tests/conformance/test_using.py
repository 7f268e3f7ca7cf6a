"""using(): operations inside a caller's own transaction, committed or rolled back with the caller's data."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text

import coordinate
from coordinate import Coordinator
from coordinate.db.engine import Tx
from coordinate.errors import DependencyCycle, NoBoard, NotABoard, NotFound, UnsupportedConnection
from tests.clock import age
from tests.tables import as_owner, assert_sound, connect, dump, is_postgres, nothing_changes, rows, run


@pytest.fixture
def orders(board_url: str) -> Iterator[Engine]:
    """The caller's own engine, with a table of the caller's beside the board's."""
    run(as_owner(board_url), "CREATE TABLE orders (id INTEGER)")
    if is_postgres(board_url):
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(board_url))
    else:
        engine = create_engine(
            "sqlite://", creator=lambda: sqlite3.connect(board_url, isolation_level=None, check_same_thread=False)
        )

        @event.listens_for(engine, "begin")
        def begin_immediate(connection: Connection) -> None:
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    yield engine
    engine.dispose()


def order(connection: Connection) -> None:
    connection.execute(text("INSERT INTO orders (id) VALUES (1)"))


def test_work_is_queued_with_the_callers_data(board: Coordinator, board_url: str, orders: Engine) -> None:
    with orders.begin() as connection:
        order(connection)
        inside = board.using(connection)
        task = inside.dispatch(title="Ship order 1", role="worker").task
        assert inside.view(task=task.id).task == task
        assert inside.agent == "alice"
    assert rows(board_url, "SELECT count(*) FROM orders") == [(1,)]
    assert board.claim_next(role="worker").task.id == task.id
    assert [event.event for event in board.list_events()] == ["task.created", "task.claimed"]
    assert_sound(board_url)


def test_work_is_finished_with_the_callers_data(board: Coordinator, board_url: str, orders: Engine) -> None:
    board.dispatch(title="T", role="worker")
    board.dispatch(title="Next", role="worker", depends_on=["TASK-1"])
    claim = board.claim_next(role="worker")
    with orders.begin() as connection:
        order(connection)
        board.using(connection).complete(handle=claim, result="done")
    assert board.claim_next(role="worker").task.id == "TASK-2"
    assert_sound(board_url)


def test_when_the_caller_rolls_back_nothing_happened(board: Coordinator, board_url: str, orders: Engine) -> None:
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    with nothing_changes(board_url), orders.connect() as connection, connection.begin() as transaction:
        order(connection)
        inside = board.using(connection)
        inside.dispatch(title="U", role="worker")
        inside.complete(handle=claim)
        transaction.rollback()
    assert rows(board_url, "SELECT count(*) FROM orders") == [(0,)]
    assert board.dispatch(title="V", role="worker").task.id == "TASK-2"


def test_a_refused_operation_leaves_nothing_in_the_callers_transaction(
    board: Coordinator, board_url: str, orders: Engine
) -> None:
    """The caller goes on after the refusal and commits: what the operation had begun to write is gone."""
    board.dispatch(title="T", role="worker")
    board.dispatch(title="U", role="other")
    board.claim_next(role="worker")
    board.depend_add(task="TASK-1", on="TASK-2")
    age(board_url, 901)
    with nothing_changes(board_url), orders.begin() as connection:
        order(connection)
        inside = board.using(connection)
        with pytest.raises(NotFound):
            inside.dispatch(title="V", role="worker", depends_on=["TASK-99"])
        with pytest.raises(DependencyCycle):
            inside.depend_add(task="TASK-2", on="TASK-1")
        with pytest.raises(coordinate.errors.UnmetDependencies):
            inside.claim_task(task="TASK-1", agent="bob")
    assert rows(board_url, "SELECT count(*) FROM orders") == [(1,)]


def test_what_undid_the_callers_transaction_is_what_the_caller_hears_of(
    board: Coordinator, board_url: str, orders: Engine
) -> None:
    """A full disk, a lost connection: there is no savepoint left to go back to."""
    if is_postgres(board_url):
        undone, said = "SELECT pg_terminate_backend(pg_backend_pid())", "terminating connection"
        act = f"CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM ({undone}); END $$;"
        act += "CREATE TRIGGER fails BEFORE INSERT ON tasks EXECUTE FUNCTION fails()"
    else:
        said = "disk is full"
        act = f"CREATE TRIGGER fails BEFORE INSERT ON tasks BEGIN SELECT RAISE(ROLLBACK, '{said}'); END"
    run(as_owner(board_url), act)
    with orders.connect() as connection:
        order(connection)
        with pytest.raises(Exception, match=said):
            board.using(connection).dispatch(title="T", role="worker")
        connection.invalidate()
    assert rows(board_url, "SELECT count(*) FROM orders") == [(0,)]


def test_many_operations_share_one_transaction(board: Coordinator, board_url: str, orders: Engine) -> None:
    with orders.begin() as connection:
        inside = board.using(connection)
        for _ in range(3):
            inside.dispatch(title="T", role="worker")
        claims = inside.claim_batch(role="worker", count=2)
        inside.complete(handle=claims[0])
        inside.emit(event_type="note", message="m")
        before = dump(board_url)
        assert before["tasks"] == [], "nobody else sees any of it yet"
    assert board.status().by_status == {"DONE": 1, "IN_PROGRESS": 1, "TODO": 1}
    assert_sound(board_url)


@pytest.mark.parametrize("called", ["once", "by each"])
def test_two_threads_on_one_connection_take_turns(board: Coordinator, board_url: str, called: str) -> None:
    """Else a refusal of the one undoes what the other was told of, and the caller commits without it."""
    opened: Any = (
        psycopg.connect(board_url)
        if is_postgres(board_url)
        else sqlite3.connect(board_url, isolation_level=None, check_same_thread=False)
    )
    with closing(opened) as raw, ThreadPoolExecutor() as pool:
        raw.execute("BEGIN" if is_postgres(board_url) else "BEGIN IMMEDIATE")
        inside = board.using(raw)
        begun, told = threading.Event(), threading.Event()

        def refused(tx: Tx) -> None:
            begun.set()
            told.wait(0.5)
            raise NotFound("no")

        first = pool.submit(inside.database.perform, refused, writes=True)
        begun.wait()
        task = (inside if called == "once" else board.using(raw)).dispatch(title="T", role="worker").task
        told.set()
        assert isinstance(first.exception(), NotFound)
        raw.execute("COMMIT")
    assert board.view(task=task.id).task.title == "T"


def test_what_others_left_is_not_swept_in_the_callers_transaction(
    board: Coordinator, board_url: str, orders: Engine
) -> None:
    """It would be locked for as long as that lasts; a session's call outside of it sweeps."""
    session = board.register(name="alice").id
    board.dispatch(title="T", role="worker")
    board.claim_next(role="worker", agent="bob")
    age(board_url, 901)
    with coordinate.connect(board_url, agent="alice", session=session) as c:
        with orders.begin() as connection:
            c.using(connection).dispatch(title="Ship order 1", role="shipper")
        assert board.view(task="TASK-1").task.assigned_agent == "bob"
        age(board_url, 601)
        c._next_sign.clear()
        with closing(connect(board_url)) as plain:
            assert c.using(plain).stats().total_tasks == 2, "a look needs no transaction, and begins none"
        c.stats()
    assert board.view(task="TASK-1").task.status == "TODO"


def test_the_driver_connection_itself_will_do_too(board: Coordinator, board_url: str) -> None:
    if is_postgres(board_url):
        with psycopg.connect(board_url) as raw:
            board.using(raw).dispatch(title="T", role="worker")
    else:
        raw = sqlite3.connect(board_url, isolation_level=None)
        raw.execute("BEGIN IMMEDIATE")
        board.using(raw).dispatch(title="T", role="worker")
        raw.execute("COMMIT")
        raw.close()
    assert board.view(task="TASK-1").task.title == "T"


def test_what_the_driver_was_told_to_make_of_rows_and_texts_is_the_callers_own(
    board: Coordinator, board_url: str
) -> None:
    if is_postgres(board_url):
        raw: Any = psycopg.connect(board_url, row_factory=psycopg.rows.dict_row)
    else:
        raw = sqlite3.connect(board_url, isolation_level=None)
        raw.row_factory = lambda cursor, row: {
            each[0]: value for each, value in zip(cursor.description, row, strict=True)
        }
        raw.text_factory = bytes
    raw.execute("BEGIN" if is_postgres(board_url) else "BEGIN IMMEDIATE")
    with pytest.raises(NotFound):
        board.using(raw).comment(task="TASK-1", text="none yet")
    board.using(raw).dispatch(title="T", role="worker")
    assert [task.title for task in board.using(raw).list_tasks().tasks] == ["T"]
    assert raw.execute("SELECT title FROM tasks").fetchone() in ({"title": "T"}, {"title": b"T"})
    raw.commit()
    raw.close()
    assert board.view(task="TASK-1").task.title == "T"


def test_a_driver_that_begins_late_is_made_to_begin(board: Coordinator, board_url: str) -> None:
    """SQLAlchemy's own way with SQLite: nothing is begun before the first write."""
    if is_postgres(board_url):
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(board_url))
    else:
        engine = create_engine(f"sqlite:///{board_url}")
    with nothing_changes(board_url), engine.connect() as connection:
        board.using(connection).dispatch(title="T", role="worker")
        connection.rollback()
    with engine.begin() as connection:
        board.using(connection).dispatch(title="T", role="worker")
    engine.dispose()
    assert board.view(task="TASK-1").task.title == "T"


def test_a_connection_that_commits_by_itself_is_refused(board: Coordinator, board_url: str) -> None:
    raw: Any = connect(board_url)
    with nothing_changes(board_url), pytest.raises(UnsupportedConnection, match="autocommit"):
        board.using(raw).dispatch(title="T", role="worker")
    assert board.using(raw).list_tasks().tasks == (), "reading may do without"
    raw.close()


class Fake:
    """Looks like a connection of some other driver."""


@pytest.mark.parametrize("given", [None, 3, "postgresql://x", object(), Fake()])
def test_any_other_connection_is_refused(board: Coordinator, given: Any) -> None:
    with pytest.raises(UnsupportedConnection):
        board.using(given)


def test_an_asynchronous_connection_is_refused(board: Coordinator) -> None:
    with pytest.raises(UnsupportedConnection):
        board.using(object.__new__(psycopg.AsyncConnection))


def test_what_is_no_board_is_named_by_where_the_callers_connection_leads(board: Coordinator, pg_url: str) -> None:
    there = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(pg_url))
    with there.connect() as connection, pytest.raises(NoBoard) as refused:
        board.using(connection).dispatch(title="T", role="worker")
    there.dispose()
    assert str(psycopg.conninfo.conninfo_to_dict(pg_url)["host"]) in refused.value.message


def test_a_place_that_is_no_board_is_refused(board: Coordinator, tmp_path: Any) -> None:
    other = create_engine("sqlite://", creator=lambda: sqlite3.connect(tmp_path / "other.db"))
    with other.connect() as connection, pytest.raises(NoBoard):
        board.using(connection).dispatch(title="T", role="worker")
    with other.connect() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        with pytest.raises(NotABoard):
            board.using(connection).status()
    other.dispose()
