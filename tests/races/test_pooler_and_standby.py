"""Postgres as teams have it: behind a pooler, with a standby that is promoted while agents work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db import doctor, engine, migrate, move, server
from coordinate.db.dialect import Postgres
from tests.conftest import create_board_on_postgres
from tests.doors.command import Command
from tests.pooler import Pooler
from tests.postgres import BinaryServer, Server, Standby, start_server
from tests.races import arena
from tests.races.arena import Go
from tests.races.test_server import play_lives, restless
from tests.tables import run

pytestmark = pytest.mark.race


# --- a pooler in transaction mode -------------------------------------------------------------------------------------


@pytest.fixture
def pooled(postgres: Server, pooler: Pooler, postgres_script: str | None) -> Iterator[str]:
    """A board behind pgbouncer; a pooler knows no search_path of a client's own, hence a database."""
    with postgres.database() as url:
        create_board_on_postgres(url, postgres_script)
        yield pooler.url(url)


def test_eight_workers_live_on_two_connections_of_a_pooler(pooled: str) -> None:
    """PG-03: nothing relies on prepared statements, or on any state of a session."""
    seen = play_lives(pooled)
    assert not [state for state in seen if state.startswith(("26", "42P05"))], seen
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        prepared = connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()
        assert prepared == (0,)


def test_whoever_waits_behind_a_pooler_is_served_although_nobody_wakes_it(pooled: str) -> None:
    """PG-03: LISTEN reaches nobody there; a wait looks by itself."""
    with coordinate.connect(pooled, agent="alice") as c, coordinate.connect(pooled, agent="bob") as d:
        soon = threading.Timer(0.5, lambda: d.dispatch(title="t", role="worker"))
        soon.start()
        claim = c.claim_next(role="worker", wait=30)
        soon.join()
        assert claim is not None
        assert c.next_events(consumer="ci", from_start=True, wait=10).events[0].event == "task.created"
    with psycopg.connect(pooled, autocommit=True, prepare_threshold=None) as connection:
        listens = connection.execute("SELECT count(*) FROM pg_listening_channels()").fetchone()
        assert listens == (0,), "the pooler's own session would listen for ever"


def test_a_pooler_that_takes_no_options_is_named_with_the_way_round_it(pooled: str) -> None:
    with pytest.raises(errors.Unreachable) as refused:
        coordinate.connect(f"{pooled}&options=-csearch_path%3Dteam", agent="alice")
    assert "ALTER ROLE" in refused.value.hint


# --- too many clients -------------------------------------------------------------------------------------------------


@pytest.fixture
def small_server(postgres_script: str | None) -> Iterator[Server]:
    """A server with a board and twenty places."""
    server = start_server("local", "wheel")
    create_board_on_postgres(server.url, postgres_script)
    yield server
    server.stop()


def test_too_many_clients_are_waited_for(small_server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """PG-11: a server without a free place is tried again, and an operation in need of one succeeds."""
    with psycopg.connect(small_server.url, autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET max_connections = 20")
        connection.execute("CREATE ROLE app LOGIN")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO app")
    small_server.restart()
    url = small_server.url.replace("postgres@", "app@")
    crowd = []
    with coordinate.connect(url, agent="alice") as c:
        c.stats()
        c.database._idle.pop()[0].close()
        with suppress(psycopg.OperationalError):
            while True:
                crowd.append(psycopg.connect(url))
        assert len(crowd) > 10
        soon = threading.Timer(1.0, lambda: [each.close() for each in crowd[:3]])
        soon.start()
        assert c.dispatch(title="t", role="worker").task.id == "TASK-1"
        soon.join()
        with suppress(psycopg.OperationalError):
            while True:
                crowd.append(psycopg.connect(url))
        soon = threading.Timer(1.0, lambda: [each.close() for each in crowd])
        soon.start()
        monkeypatch.setattr(engine, "FIRST_RETRY_SECONDS", 0.0)
        with coordinate.connect(url, agent="bob") as newcomer:  # who was never let in is as patient
            assert newcomer.claim_next(role="worker").handle == "TASK-1@1"
        soon.join()


def test_no_place_is_told_with_what_a_dba_can_do(small_server: Server) -> None:
    """PG-11: by whichever limit it comes. What looks at the database itself waits for one, too."""
    run(small_server.url, "CREATE ROLE app LOGIN CONNECTION LIMIT 0")
    run(small_server.url, "GRANT SELECT ON ALL TABLES IN SCHEMA public TO app")
    url = small_server.url.replace("postgres@", "app@")
    newcomer = engine.Database(Postgres(url))
    with pytest.raises(errors.Unreachable, match="too many connections") as told:
        newcomer.perform(lambda tx: None, writes=False, patience=0.1)
    assert "max_connections" in told.value.hint
    with pytest.raises(errors.Unreachable, match="too many connections"):
        migrate.current(url, patience=0.1)
    for look in (migrate.current, server.home_of, move.rows_of):
        soon = threading.Timer(0.5, run, (small_server.url, "ALTER ROLE app CONNECTION LIMIT -1"))
        soon.start()
        look(url)
        soon.join()
        run(small_server.url, "ALTER ROLE app CONNECTION LIMIT 0")


# --- a standby --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pair(postgres_script: str | None) -> Iterator[tuple[BinaryServer, Standby]]:
    """A primary with a board, and the standby that follows it until the last test here."""
    primary = start_server("local", "wheel")
    assert isinstance(primary, BinaryServer)
    try:
        create_board_on_postgres(primary.url, postgres_script)
        standby = Standby(primary)
        try:
            yield primary, standby
        finally:
            standby.stop()
    finally:
        primary.stop()


def wait_until_followed(primary: Server, standby: Server) -> None:
    with psycopg.connect(primary.url, autocommit=True) as here, psycopg.connect(standby.url, autocommit=True) as there:
        (reached,) = here.execute("SELECT pg_current_wal_lsn()").fetchone()  # type: ignore[misc]
        while not there.execute("SELECT pg_last_wal_replay_lsn() >= %s", [reached]).fetchone()[0]:  # type: ignore[index]
            time.sleep(0.05)


def test_a_standby_is_read_and_says_that_it_takes_no_writes(
    pair: tuple[BinaryServer, Standby], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read asks once for positions, is refused, and goes on with what is numbered; a write is told after a while."""
    primary, standby = pair
    with coordinate.connect(primary.url, agent="alice") as c:
        c.complete(handle=c.claim_task(task=c.dispatch(title="t", role="other").task.id))
        assert len(c.next_events(consumer="ci", from_start=True).events) == 3
    wait_until_followed(primary, standby)
    with coordinate.connect(standby.url, agent="alice") as c:
        assert [task.title for task in c.list_tasks().tasks] == ["t"]
        assert c.list_events()[-1].event == "task.completed"
        tries: list[str] = []
        monkeypatch.setattr("coordinate.db.engine.time.sleep", lambda seconds: tries.append("again"))
        assert c.tail_events(after=0)[0]
        assert tries == []
        monkeypatch.undo()
    refused = Command(standby.url, tmp_path)("db", "upgrade", "head")
    assert refused.status == 0  # at head: nothing to write
    symptoms = {symptom.kind for symptom in doctor.examine(standby.url, deep=True).symptoms}
    assert "read_only" in symptoms
    with coordinate.connect(standby.url, agent="alice") as c, pytest.raises(errors.ReadOnly, match="standby") as said:
        c.database.perform(lambda tx: tx.run("counters_raise", count=1), writes=True, patience=0.5)
    assert said.value.exit_status == 5
    assert "target_session_attrs=read-write" in said.value.hint


def test_workers_go_on_when_the_standby_is_promoted(pair: tuple[BinaryServer, Standby]) -> None:
    """PG-11, with both hosts in the address: the primary stops for good, and everything is done once on the other."""
    primary, standby = pair
    url = (
        f"postgresql://postgres@/postgres?host={primary.home},{standby.home}&port=5432,5432"
        "&target_session_attrs=read-write"
    )
    calm = arena.FORK.Event()

    def await_done(url: str, count: int) -> None:
        done, until = "SELECT count(*) FROM tasks WHERE title = 'One' AND status = 'DONE'", time.monotonic() + 90
        while arena.rows(url, done)[0][0] < count:
            assert time.monotonic() < until, "they do not go on"
            time.sleep(0.1)

    def switch(go: Go) -> dict[str, int]:
        go()
        await_done(primary.url, 8)
        (before,) = arena.rows(primary.url, "SELECT count(*) FROM tasks")[0]
        primary._run("pg_ctl", "stop", "-D", primary.data, "-m", "fast")  # it hands over all that it committed
        standby.promote()
        await_done(standby.url, before + 8)
        calm.set()
        return {}

    answers = arena.run([*(restless(url, number, calm) for number in range(8)), switch])
    dispatched, done = (sum(answer.get(name, 0) for answer in answers) for name in ("dispatched", "done"))
    assert dispatched == done > 16
    assert arena.rows(standby.url, "SELECT status, count(*) FROM tasks WHERE title = 'One' GROUP BY status") == [
        ("DONE", done)
    ]
    arena.assert_sound(standby.url)
