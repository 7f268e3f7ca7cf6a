"""A Postgres that says no: serialization failures, deadlocks, cut connections, a restart. Workers go on."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db import dialect, engine
from coordinate.db.dialect import Interrupted, Postgres
from coordinate.db.engine import Tx
from coordinate.service import Coordinator
from tests.clock import age
from tests.conftest import create_board_on_postgres
from tests.postgres import BinaryServer, Server, start_server
from tests.races import arena
from tests.races.arena import Go, Racer, Weakness

pytestmark = pytest.mark.race


@pytest.fixture
def serializable_board(postgres: Server, postgres_script: str | None) -> Iterator[str]:
    """A board in a database whose transactions are serializable unless they say otherwise."""
    with postgres.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f'ALTER DATABASE "{name}" SET default_transaction_isolation = serializable'.encode())
        create_board_on_postgres(url, postgres_script)
        yield url


def counting(seen: list[str]) -> None:
    """Write down what the database gave as a reason to try again."""
    explain = Postgres.explain

    def counted(self: Postgres, error: Exception, *, committing: bool) -> Interrupted | None:
        seen.append(getattr(error, "sqlstate", None) or "")
        return explain(self, error, committing=committing)

    Postgres.explain = counted  # type: ignore[method-assign]


def really_serializable() -> None:
    """Write transactions that fail often and rightly."""
    weaker = "ISOLATION LEVEL READ COMMITTED"
    assert weaker in dialect._BEGIN_WRITE
    dialect._BEGIN_WRITE = dialect._BEGIN_WRITE.replace(weaker, "ISOLATION LEVEL SERIALIZABLE")


def first_waited_for(url: str) -> Weakness:
    """The first of them commits its first change when another waits for what it has locked: that one fails then."""

    def wait() -> None:
        finish, waited = Tx.finish, Racer.number != 0

        def late(self: Tx) -> None:
            nonlocal waited
            finish(self)
            if self.events and not waited:
                waited = True
                arena.await_blocked(url, self._connection.info.backend_pid)

        Tx.finish = late  # type: ignore[method-assign]

    return wait


def never_again() -> None:
    """What the database asks to try again is not tried again."""
    initialize = Interrupted.__init__

    def once(self: Interrupted, error: errors.CoordinateError, *, again: bool, **more: Any) -> None:
        initialize(self, error, again=False, **more)

    Interrupted.__init__ = once  # type: ignore[method-assign]


def play_lives(url: str, weakness: Weakness | None = None, *, turns: int = 10) -> list[str]:
    """8 workers lead tasks through their whole life; the reasons to try again that the database gave."""

    def worker(number: int) -> Callable[[Go], list[str]]:
        def live(go: Go) -> list[str]:
            seen: list[str] = []
            counting(seen)
            with coordinate.connect(url, agent=f"worker-{number}") as c:
                c.stats()
                go()
                for _ in range(turns):
                    one_life(c, f"judge-{number}")
            return seen

        return live

    answers = arena.run([worker(number) for number in range(8)], weakness=weakness)
    done = dict(arena.rows(url, "SELECT action, count(*) FROM history GROUP BY action"))
    events = dict(arena.rows(url, "SELECT event_type, count(*) FROM events GROUP BY event_type"))
    for action, event in (
        ("CLAIM", "task.claimed"),
        ("SUBMIT", "task.submitted_for_review"),
        ("APPROVE", "review.approved"),
    ):
        assert done[action] == events[event] == 8 * turns
    assert events["task.created"] == 8 * turns
    arena.assert_sound(url)
    return [state for seen in answers for state in seen]


def one_life(c: Coordinator, judge: str) -> None:
    c.dispatch(title="One", role="worker")
    while (claim := c.claim_next(role="worker")) is None:
        time.sleep(0.01)
    c.log_progress(handle=claim, note="half")
    c.complete(handle=claim, review=True)
    c.approve(task=claim.task.id, agent=judge)


def test_a_serializable_database_fails_nobody(serializable_board: str) -> None:
    """PG-10. Guard: each transaction says which isolation it needs; none is left to the database's default."""
    seen = play_lives(serializable_board)
    assert "40001" not in seen


def test_serialization_failures_are_tried_again_and_double_nothing(serializable_board: str) -> None:
    """PG-10. Guard: what the database calls a serialization failure is tried again, whole and with its events anew."""
    weakness = arena.together(really_serializable, first_waited_for(serializable_board))
    assert "40001" in play_lives(serializable_board, weakness)


def test_a_serialization_failure_that_is_not_tried_again_is_noticed(serializable_board: str) -> None:
    weakness = arena.together(really_serializable, first_waited_for(serializable_board), never_again)
    with pytest.raises(arena.Crash, match="Busy"):
        play_lives(serializable_board, weakness)


def play_batches(url: str, weakness: Weakness | None = None, *, count: int = 60) -> None:
    """Two batches complete the same pairs, named in opposite order, at one moment."""
    with arena.setting_up(url, agent="racer") as c:
        arena.dispatch_many(c, 2 * count)
        held = list(arena.claim_all(c).values())
    pairs = list(zip(held[::2], held[1::2], strict=True))
    there = [("complete_batch", {"handles": [one, two]}) for one, two in pairs]
    back = [("complete_batch", {"handles": [two, one]}) for one, two in pairs]
    for said in arena.rounds(url, there, back, weakness=weakness):
        assert all(answer.ok for answer in said), said
        assert all(outcome.ok for answer in said for outcome in answer.value)
        assert sum(not outcome.already for answer in said for outcome in answer.value) == 2
    arena.assert_sound(url)


def test_batches_of_opposite_order_complete_each_task_once(serializable_board: str) -> None:
    """PG-10. Guards: a batch locks all in the order of its numbers, and a deadlock would be tried again."""
    play_batches(serializable_board)


def in_the_order_given() -> None:
    from coordinate.work import claims

    claims.sorted = lambda wanted, key: [*wanted]  # type: ignore[attr-defined]


def test_a_batch_in_the_order_given_that_is_not_tried_again_is_noticed(serializable_board: str) -> None:
    with pytest.raises(AssertionError, match="busy"):
        weakness = arena.together(
            in_the_order_given,
            arena.cut("tasks_lock_along", " FOR UPDATE"),
            never_again,
            arena.meeting_before("dependents_release"),  # each has one task, and wants the other's
        )
        play_batches(serializable_board, weakness, count=1)


# --- cut connections and a restart ------------------------------------------------------------------------------------


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server that may be restarted."""
    server = start_server("local", "wheel")
    yield server
    server.stop()


def restless(url: str, number: int, calm: Event) -> Callable[[Go], dict[str, int]]:
    """A worker that dispatches until it is calm, claims and completes, whatever the server does; what it counted."""

    def live(go: Go) -> dict[str, int]:
        told = {"unknown": 0, "dispatched": 0, "done": 0}
        with coordinate.connect(url, agent=f"worker-{number}") as c:
            c.stats()
            go()
            while True:
                if not calm.is_set():
                    insist(told, c.dispatch, title="One", role="worker", dedup_key=f"{number}/{told['dispatched']}")
                    told["dispatched"] += 1
                claim = claim_or_find(c, told)
                if claim is None:
                    if calm.is_set() and c.stats().by_status.keys() <= {"DONE"}:
                        return told
                    time.sleep(0.05)
                    continue
                insist(told, c.complete, handle=claim)
                told["done"] += 1

    return live


def play_cuts(
    server: Server, script: str | None, weakness: Weakness | None = None, *, cuts: int = 20
) -> dict[str, int]:
    """8 workers loop; a session of theirs is cut every 200 ms, then the server restarts. Returns what was counted."""
    calm = arena.FORK.Event()
    url = server.url
    create_board_on_postgres(url, script)

    def cutter(go: Go) -> dict[str, int]:
        go()
        cut = 0
        with psycopg.connect(url, autocommit=True) as connection:
            while cut < cuts:
                time.sleep(0.2)
                cut += len(
                    connection.execute(
                        b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'coordinate'"
                        b" ORDER BY random() LIMIT 1"
                    ).fetchall()
                )
        server.restart()
        time.sleep(0.5)
        calm.set()
        return {"cut": cut}

    answers = arena.run([*(restless(url, number, calm) for number in range(8)), cutter], weakness=weakness)
    total = {name: sum(answer.get(name, 0) for answer in answers) for name in ("cut", "unknown", "dispatched", "done")}
    print(total)
    assert total["cut"] == cuts
    assert arena.rows(url, "SELECT status, count(*) FROM tasks GROUP BY status") == [("DONE", total["dispatched"])]
    assert total["done"] == total["dispatched"]
    arena.assert_sound(url)
    return total


def insist(told: dict[str, int], verb: Callable[..., Any], **given: Any) -> Any:
    """A connection cut in the middle of a commit leaves the outcome unknown: a repeated call finds it or does it."""
    while True:
        try:
            return verb(**given)
        except errors.OutcomeUnknown:
            told["unknown"] += 1


def claim_or_find(c: Coordinator, told: dict[str, int]) -> str | None:
    try:
        claim = c.claim_next(role="worker", lease_seconds=600)
    except errors.OutcomeUnknown:
        told["unknown"] += 1
        return next((task.handle for task in c.mine()), None)
    return claim and claim.handle


def test_workers_go_on_through_cut_connections_and_a_restart(own_server: Server, postgres_script: str | None) -> None:
    """PG-11. Guard: a lost connection is tried again, unless it was lost during the commit, which is said."""
    play_cuts(own_server, postgres_script)


def test_a_new_process_is_patient_with_a_server_that_says_that_it_shuts_down(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-11: the address is right then, so that the patience is that of a known place and not of a first try."""
    assert isinstance(own_server, BinaryServer)
    monkeypatch.setattr(engine, "FIRST_RETRY_SECONDS", 0.0)
    newcomer = engine.Database(Postgres(own_server.url))
    with psycopg.connect(own_server.url):  # such a stop waits for it, and lets nobody else in
        own_server._run("pg_ctl", "stop", "-D", own_server.data, "-m", "smart", "-W")
        began = time.monotonic()
        with pytest.raises(errors.Unreachable, match="shutting down"):
            newcomer.perform(lambda tx: None, writes=False, patience=1.0)
        assert time.monotonic() - began > 0.3, "it tried again"


def test_a_cut_connection_that_is_not_tried_again_is_noticed(own_server: Server, postgres_script: str | None) -> None:
    with pytest.raises(arena.Crash, match="Unreachable"):
        play_cuts(own_server, postgres_script, never_again, cuts=4)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_client_that_stops_in_its_transaction_holds_nothing_for_ever(engine: str, postgres_board: str) -> None:
    """PG-12: a closed laptop, a debugger. Guard: the server is told that what was asked is all, and then may end it."""
    with arena.setting_up(postgres_board) as c:
        arena.dispatch_many(c, 1)

    def stops() -> None:
        dialect._NEVER_IDLE = dialect._NEVER_IDLE.replace("30s", "500ms")
        Tx.finish = lambda self: self.events and os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[method-assign]
        with coordinate.connect(postgres_board, agent="stopped") as c:
            c.claim_next(role="worker")

    client = arena.FORK.Process(target=stops)
    client.start()
    try:
        assert os.WIFSTOPPED(os.waitpid(client.pid or 0, os.WUNTRACED)[1])
        with coordinate.connect(postgres_board, agent="boss") as c:
            c.cancel(task="TASK-1")
    finally:
        client.kill()
        client.join()


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_claim_whose_connection_is_cut_while_it_waits_goes_on(engine: str, postgres_board: str) -> None:
    """PG-11. Guard: only that the task is locked for long is told at once; anything else is tried again."""
    got: list[object] = []
    cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with coordinate.connect(postgres_board, agent="a") as c, psycopg.connect(postgres_board) as other:
        c.dispatch(title="The last", role="worker")
        other.execute("SELECT FROM tasks FOR UPDATE")
        claimer = threading.Thread(target=lambda: got.append(c.claim_next(role="worker")))
        claimer.start()
        with psycopg.connect(postgres_board, autocommit=True) as boss:
            while claimer.is_alive() and not boss.execute(cut, [other.info.backend_pid]).fetchall():
                time.sleep(0.01)
        other.rollback()
        claimer.join()
    assert [claim.handle for claim in got] == ["TASK-1@1"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_read_whose_connection_is_cut_at_its_end_is_made_again(engine: str, postgres_board: str) -> None:
    """PG-11. Its outcome is known: nothing was to be changed."""
    with coordinate.connect(postgres_board, agent="a") as c, psycopg.connect(postgres_board, autocommit=True) as boss:
        seen: list[int] = []

        def look(tx: Tx) -> int:
            tx.one("clock")
            seen.append(tx._connection.info.backend_pid)
            if len(seen) == 1:
                boss.execute("SELECT pg_terminate_backend(%s, 10000)", seen)
            return len(seen)

        assert c.database.perform(look, writes=False)[0] == 2


@contextmanager
def owing_a_sign(url: str) -> Iterator[Coordinator]:
    """A board with a task, open to a session whose next call is to give a sign of life."""
    with coordinate.connect(url, agent="a") as c:
        c.session = c.register(name="a").id
        c.dispatch(title="t", role="worker")
        age(url, 300)
        c._next_sign.clear()
        yield c


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_sign_of_life_whose_outcome_is_unknown_is_not_that_of_the_call(
    engine: str, postgres_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-11: else an agent looks for a claim that was never begun."""
    with owing_a_sign(postgres_board) as c:
        commit, commits = dialect.Postgres.commit, iter(range(20))

        def cut(self: dialect.Postgres, connection: object) -> None:
            commit(self, connection)
            if next(commits) == 1:  # after the look whether one is due
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(dialect.Postgres, "commit", cut)
        assert c.claim_next(role="worker") is not None


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_call_goes_on_whatever_hinders_its_sign_of_life(
    engine: str, postgres_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-11: a connection that breaks as the call sweeps along; and a standby, or a role that may only read."""
    with owing_a_sign(postgres_board) as c:
        begin, begins = dialect.Postgres.begin, iter(range(20))

        def cut(self: dialect.Postgres, connection: object, **how: Any) -> None:
            if next(begins) == 2:  # after the look and the sign
                raise psycopg.OperationalError("server closed the connection unexpectedly")
            begin(self, connection, **how)

        monkeypatch.setattr(dialect.Postgres, "begin", cut)
        assert c.claim_next(role="worker") is not None
        monkeypatch.undo()
        age(postgres_board, 300)
        read_only = postgres_board.replace("options=", "options=-cdefault_transaction_read_only%3Don%20")
        with coordinate.connect(read_only, session=c.session) as reader:
            assert reader.status().total == 1


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_events_that_were_handed_out_to_nobody_are_handed_out_again(
    engine: str, postgres_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-11: the answer of a commit is lost. A loop would say --ack again, and acknowledge what it never had."""
    with coordinate.connect(postgres_board, agent="a") as c:
        for number in range(3):
            c.emit(event_type="t", message=str(number))
        c.next_events(consumer="ci", limit=1, from_start=True)
        commit, commits = dialect.Postgres.commit, iter(range(10))

        def cut(self: dialect.Postgres, connection: object) -> None:
            commit(self, connection)
            if next(commits) < 2:  # of the numbering, and of the cursor
                raise psycopg.OperationalError("server closed the connection unexpectedly")

        monkeypatch.setattr(dialect.Postgres, "commit", cut)
        batch = c.next_events(consumer="ci", limit=1, acknowledge=True)
    assert ([event.message for event in batch.events], batch.redelivered) == (["1"], 1)


def test_many_threads_of_a_process_share_a_few_connections(board_url: str) -> None:
    """Guard: the places. A server pays more for a new connection than for some calls, and has only so many."""
    opened: list[object] = []
    together = threading.Barrier(30)

    def read(c: Coordinator) -> None:
        together.wait()
        for _ in range(5):
            c.stats()

    with coordinate.connect(board_url, agent="a") as c:
        connect = c.database.engine.connect
        c.database.engine.connect = lambda: opened.append(None) or connect()  # type: ignore[method-assign]
        threads = [threading.Thread(target=read, args=(c,)) for _ in range(30)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(opened) <= engine.CONNECTIONS_MAX
