"""Readers hold nothing while they are idle, and every reader of the log gets every event once, all in one order."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate.db.dialect import is_postgres
from coordinate.db.engine import Tx
from coordinate.service import Coordinator
from tests.races import arena
from tests.races.arena import Go, Noticed, Weakness

pytestmark = pytest.mark.race

# SQLite folds its log back at 1,000 pages of 4 KB when no reader is in the way; several times that is no growth.
WAL_BYTES_MOST = 16_000_000


@contextmanager
def own_transaction(url: str) -> Iterator[Any]:
    """A caller's own transaction, begun as the product's would be; committed at the end, rolled back by an error."""
    if is_postgres(url):
        with psycopg.connect(url) as connection:
            yield connection
        return
    with closing(sqlite3.connect(url, isolation_level=None, timeout=120)) as lite:
        lite.execute("BEGIN IMMEDIATE")
        try:
            yield lite
        except BaseException:
            lite.execute("ROLLBACK")
            raise
        lite.execute("COMMIT")


# --- what is told once ---


def hear_at_once(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """Two calls of one session ask at one moment for what was just said; each word is handed to one of them."""
    with arena.setting_up(url, "bob") as c:
        session = c.register(name="bob").id

    def hear(go: Go) -> list[str]:
        with coordinate.connect(url, session=session) as c:
            heard: list[str] = []
            for _ in range(rounds):
                go()
                heard += [event.message for event in c.learnings().events]
                go()
            return heard

    def say(go: Go) -> list[str]:
        with coordinate.connect(url, agent="carol") as c:
            said = [f"no {number}" for number in range(rounds)]
            for message in said:
                c.emit(event_type="learned", message=message)
                c.tail_events()
                go()
                go()
            return said

    first, second, said = arena.run([hear, hear, say], weakness=weakness)
    assert sorted(first + second) == sorted(said)


def test_what_others_say_is_handed_once_to_a_session_that_asks_twice_at_once(board_url: str) -> None:
    hear_at_once(board_url, 30)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_without_the_lock_of_its_place_a_session_is_told_twice(noticed: Noticed) -> None:
    """On SQLite writers come one by one anyway."""
    noticed(lambda url: hear_at_once(url, 30, arena.cut("cursor_lock", " FOR UPDATE")))


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_session_that_is_ended_while_it_is_told_is_no_fault(board_url: str) -> None:
    """Its place in the log goes away between the look at it and the lock."""
    with arena.setting_up(board_url, "bob") as c:
        session = c.register(name="bob").id
        c.acting(agent="carol").emit(event_type="learned", message="m")

    def hear(go: Go) -> int:
        left = [go, go]  # only the first time

        def meet(tx: Tx) -> None:
            while left:
                left.pop()()

        arena.before("cursor_lock", meet)
        with coordinate.connect(board_url, session=session) as c:
            return len(c.learnings().events)

    def end(go: Go) -> int:
        with coordinate.connect(board_url, session=session) as c:
            go()
            c.end_session()
            go()
            return 0

    assert arena.run([hear, end]) == [0, 0]


# --- idle readers -----------------------------------------------------------------------------------------------------


def play_notes(path: str, notes: int, weakness: Weakness | None = None) -> int:
    """Write notes while a reader of every kind is open and idle; return how large the log is at the end."""
    reading, written = arena.FORK.Event(), arena.FORK.Event()

    def idle(go: Go) -> None:
        with coordinate.connect(path, agent="reader") as c:
            c.tail_events()
            c.next_events(consumer="idle", from_start=True)
            c.view(task="TASK-1")
            c.status()
            page = c.export(page=1)
            next(page)
            waited = c.claim_next(role="nobody", wait=0.1)
            assert waited is None
            reading.set()
            assert written.wait(160)
            assert next(page)

    def write(go: Go) -> int:
        assert reading.wait(arena.PATIENCE_SECONDS)
        with coordinate.connect(path, agent="writer") as c:
            for start in range(0, notes, 200):
                with own_transaction(path) as connection:
                    own = c.using(connection)
                    for number in range(start, start + 200):
                        own.comment(task="TASK-1", text=f"{number} {'x' * 1000}")
            size = Path(path + "-wal").stat().st_size
        written.set()
        return size

    with arena.setting_up(path) as c:
        arena.dispatch_many(c, 2)
    return int(arena.run([idle, write], weakness=weakness)[1])


def test_an_idle_reader_does_not_make_the_log_grow_under_20000_notes(sqlite_board: str, record_property: Any) -> None:
    """SQ-04. Guard: a read ends its transaction before its answer is given."""
    size = play_notes(sqlite_board, 20_000)
    record_property("wal_bytes", size)
    print({"wal_bytes": size})
    assert size < WAL_BYTES_MOST
    assert arena.rows(sqlite_board, "SELECT count(*) FROM notes") == [(20_000,)]


def test_a_reader_that_holds_its_transaction_is_noticed(sqlite_board: str) -> None:
    def hold() -> None:
        look = Coordinator.status
        held = []

        def holding(self: Coordinator, **options: Any) -> Any:
            connection = sqlite3.connect(sqlite_board, isolation_level=None)
            connection.execute("BEGIN")
            connection.execute("SELECT count(*) FROM tasks").fetchall()
            held.append(connection)
            return look(self, **options)

        Coordinator.status = holding  # type: ignore[method-assign,assignment]

    assert play_notes(sqlite_board, 6_000, hold) > WAL_BYTES_MOST


# --- one order of events ----------------------------------------------------------------------------------------------


def read_all(url: str, consumer: str, count: int, seconds: float) -> list[tuple[int, str]]:
    """Read by cursor until so many events came, in batches of odd sizes, each acknowledged by the next call."""
    read: list[tuple[int, str]] = []
    deadline = time.monotonic() + seconds
    with coordinate.connect(url, agent=consumer) as c:
        while len(read) < count and time.monotonic() < deadline:
            batch = c.next_events(
                consumer=consumer, limit=random.choice((1, 7, 100)), from_start=True, acknowledge=True, wait=0.2
            )
            read += [(event.id or 0, event.message) for event in batch.events]
    return read


def test_an_event_that_commits_late_is_read_all_the_same(board_url: str) -> None:
    """PG-01. A writes first and commits last; B commits in between and is read before. (SQLite lets B wait.)"""
    a_wrote, b_read = arena.FORK.Event(), arena.FORK.Event()

    def a(go: Go) -> None:
        with coordinate.connect(board_url, agent="a") as c, own_transaction(board_url) as connection:
            c.using(connection).emit(event_type="test", message="from a")
            a_wrote.set()
            b_read.wait(0.5 if not is_postgres(board_url) else 10)

    def b(go: Go) -> list[str]:
        assert a_wrote.wait(arena.PATIENCE_SECONDS)
        with coordinate.connect(board_url, agent="b") as c:
            c.emit(event_type="test", message="from b")
            first = c.next_events(consumer="reader", from_start=True)
            b_read.set()
            read, until = list(first.events), time.monotonic() + arena.PATIENCE_SECONDS
            while len(read) < 2 and time.monotonic() < until:
                read += c.next_events(consumer="reader", acknowledge=True, wait=0.2).events
            read += c.next_events(consumer="reader", acknowledge=True, wait=0.2).events
            assert [event.id for event in read] == sorted(event.id or 0 for event in read)
            return [event.message for event in read]

    _, read = arena.run([a, b])
    assert read == (["from b", "from a"] if is_postgres(board_url) else ["from a", "from b"])


def play_feed(
    url: str, weakness: Weakness | None = None, *, writers: int = 20, each: int = 30, patience: float = 120
) -> None:
    """Writers with random pauses inside their transactions, some rolled back; three readers at the same time."""
    pause = 0.01 if is_postgres(url) else 0.001

    def writer(number: int) -> Callable[[Go], list[str]]:
        def live(go: Go) -> list[str]:
            committed = []
            with coordinate.connect(url, agent=f"writer-{number}") as c:
                go()
                for turn in range(each):
                    message = f"{number}/{turn}"
                    if turn % 10 == 9:
                        try:
                            with own_transaction(url) as connection:
                                c.using(connection).emit(event_type="test", message=f"never {message}")
                                raise LookupError
                        except LookupError:
                            pass
                    with own_transaction(url) as connection:
                        time.sleep(random.uniform(0, pause))
                        c.using(connection).emit(event_type="test", message=message)
                        time.sleep(random.uniform(0, pause))
                    committed.append(message)
            return committed

        return live

    def reader(name: str) -> Callable[[Go], list[tuple[int, str]]]:
        def live(go: Go) -> list[tuple[int, str]]:
            go()
            return read_all(url, name, writers * each, patience)

        return live

    bodies = [*map(writer, range(writers)), *map(reader, ("r1", "r2", "r3"))]
    answers = arena.run(bodies, weakness=weakness)
    committed = sorted(message for written in answers[:writers] for message in written)
    first, *others = answers[writers:]
    assert sorted(message for _, message in first) == committed, "not every event, or one twice"
    assert all(other == first for other in others), "not the same order for all"
    positions = [position for position, _ in first]
    assert positions == sorted(set(positions))
    for number in range(writers):
        own = [message for _, message in first if message.startswith(f"{number}/")]
        assert own == [f"{number}/{turn}" for turn in range(each)], "committed before, yet read after"


def test_every_reader_gets_every_event_once_and_in_one_order(board_url: str) -> None:
    """PG-01. Guard: on Postgres positions are given after commit, by whoever reads; on SQLite the id is the order."""
    play_feed(board_url)


def test_a_feed_in_the_order_of_its_ids_is_noticed(noticed: Noticed, engine: str) -> None:
    """On Postgres the lower id may commit later; on SQLite a cursor that takes what it sees twice is seen too."""
    by_id = (
        "WITH fresh AS (INSERT INTO event_feed (position, event_id) SELECT id, id FROM events"
        " WHERE id > (SELECT coalesce(max(position), 0) FROM event_feed) AND CAST(:batch AS bigint) > 0"
        " ON CONFLICT DO NOTHING RETURNING position) SELECT max(position) AS position FROM fresh"
    )
    weak = {
        "sqlite": arena.cut("events_after", r"position > :after", put="position >= :after"),
        "postgresql": arena.replaced("events_number", by_id),
    }
    noticed(lambda url: play_feed(url, weak[engine], writers=8, each=20, patience=4))
