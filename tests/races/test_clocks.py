"""Hosts whose clocks are wrong: no live lease is taken, and every stored time is the database's."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db.compiled import Library, Statement
from tests.races import arena
from tests.races.arena import Weakness

pytestmark = pytest.mark.race

# A wrong clock is wrong by more than a lease, which lasts longer than the slowest machine needs.
MINUTES, LEASE_SECONDS = 10, 300


def live_with(url: str) -> None:
    """What worker B does while its clock is wrong: it tries to take A's task, and has one of its own."""
    with coordinate.connect(url, agent="b") as c:
        assert c.claim_next(role="worker") is None, "B took a live lease"
        try:
            c.claim_task(task="TASK-1")
        except errors.Held:
            pass
        else:
            raise AssertionError("B took a live lease by its name")
        claim = c.claim_next(role="other", lease_seconds=LEASE_SECONDS)
        assert claim is not None
        c.log_progress(handle=claim, note="half")
        c.extend_lease(handle=claim, lease_seconds=2 * LEASE_SECONDS)
        c.emit(event_type="test", message="from b")
        c.release(handle=claim, after_seconds=3600)
        assert c.claim_next(role="other") is None, "B took what is not due yet"


def prepare(url: str) -> None:
    with arena.setting_up(url, agent="a") as c:
        c.dispatch(title="A's", role="worker")
        c.dispatch(title="B's", role="other")
        assert c.claim_next(role="worker", lease_seconds=LEASE_SECONDS)


def assert_times_are_the_databases(url: str, began: datetime) -> None:
    """Every stored time lies between the database's time before and after, but for what lies in the future by wish."""
    ended = database_time(url)
    columns = {
        "tasks": ("created_at", "updated_at"),
        "history": ("created_at",),
        "events": ("created_at",),
        "notes": ("created_at",),
        "attempts": ("started_at", "ended_at"),
    }
    for table, names in columns.items():
        for name in names:
            for (moment,) in arena.rows(url, f"SELECT {name} FROM {table} WHERE {name} IS NOT NULL"):
                assert began <= as_moment(moment) <= ended, f"{table}.{name} is {moment}"
    holder, until = arena.rows(url, "SELECT assigned_agent, lease_until FROM tasks WHERE id = 'TASK-1'")[0]
    assert holder == "a"
    assert_within(until, began, ended, LEASE_SECONDS)
    (later,) = arena.rows(url, "SELECT not_before FROM tasks WHERE id = 'TASK-2'")[0]
    assert_within(later, began, ended, 3600)
    arena.assert_sound(url)


def assert_within(moment: Any, began: datetime, ended: datetime, seconds: int) -> None:
    """So many seconds after something that happened between two moments."""
    assert began <= as_moment(moment) - timedelta(seconds=seconds) <= ended


def database_time(url: str) -> datetime:
    with coordinate.connect(url) as c:
        return c.database.perform(lambda tx: tx.one("clock"), writes=False)[0].now  # type: ignore[union-attr]


def as_moment(stored: Any) -> datetime:
    return datetime.fromisoformat(stored) if isinstance(stored, str) else stored


def shifted(shift: Callable[[float], float]) -> Weakness:
    """A host's clock as Python sees it."""

    def set_clock() -> None:
        true = time.time
        time.time = lambda: shift(true())

    return set_clock


SHIFTS = {
    "10 minutes ahead": lambda now: now + 60 * MINUTES,
    "10 minutes behind": lambda now: now - 60 * MINUTES,
    "stepping back and forth": lambda now: now + 60 * MINUTES * (-1) ** int(now * 50),
}


@pytest.mark.parametrize("shift", SHIFTS)
def test_a_host_whose_clock_is_wrong_takes_no_live_lease(board_url: str, shift: str) -> None:
    """PG-08. Guard: all times are taken and compared in the statements, by the database's clock."""
    prepare(board_url)
    began = as_moment(arena.rows(board_url, "SELECT min(created_at) FROM tasks")[0][0])
    arena.run([lambda go: live_with(board_url)], weakness=shifted(SHIFTS[shift]))
    assert_times_are_the_databases(board_url, began)


# On Postgres the server's clock is another process's. Without faketime the shifts above are what can be tried.
FAKETIME = ["+10m", "-10m"] if shutil.which("faketime") else []


@pytest.mark.parametrize("shift", FAKETIME)
def test_a_process_whose_clock_is_wrong_takes_no_live_lease(postgres_board: str, shift: str) -> None:
    """PG-08. The same with a clock that is wrong for every call of the process, the driver's included."""
    prepare(postgres_board)
    began = as_moment(arena.rows(postgres_board, "SELECT min(created_at) FROM tasks")[0][0])
    paths = [str(Path(__file__).parents[2]), str(Path(coordinate.__file__).parents[1])]
    told = (
        "import sys, time; from tests.races.test_clocks import live_with;"
        " print(time.time(), flush=True); live_with(sys.argv[1])"
    )
    done = subprocess.run(
        ["faketime", "-f", shift, sys.executable, "-c", told, postgres_board],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        timeout=LEASE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert abs(abs(float(done.stdout) - time.time()) - 60 * MINUTES) < 60, "faketime did nothing"
    assert_times_are_the_databases(postgres_board, began)


def test_a_lease_that_is_judged_by_the_hosts_clock_is_noticed(board_url: str, engine: str) -> None:
    ahead = {
        "sqlite": (r"'now'\)", "'now', '+10 minutes')"),
        "postgresql": (r"clock_timestamp\(\)", "clock_timestamp() + interval '10 minutes'"),
    }
    pattern, put = ahead[engine]
    prepare(board_url)
    weakness = arena.together(
        arena.cut("queue_due", pattern, put=put),
        arena.cut("queue_take_back", pattern, put=put),
    )
    with pytest.raises(AssertionError, match="B took a live lease"):
        arena.run([lambda go: live_with(board_url)], weakness=weakness)


# A clock that is a second later at each reading: what a slow server may do between two readings in one statement.
TICKING = """CREATE SEQUENCE ticks;
CREATE FUNCTION ticking() RETURNS timestamptz LANGUAGE sql AS
$$ SELECT timestamptz '2030-01-01 00:00:00Z' + nextval('ticks') * interval '1 second' $$"""
HELD = "status = 'IN_PROGRESS', assigned_agent = 'a', lease_until = '2029-01-01 00:00:00Z'"
TASK: dict[str, Any] = {"task_id": "TASK-1"}
NAMED: dict[str, Any] = {**TASK, "attempt": 0, "agent": "a"}
# What sets a task aside until its time, or puts it back: what it takes, and where the task stands before.
SETTING_ASIDE: dict[str, tuple[dict[str, Any], str]] = {
    "task_unblock": (TASK, "status = 'BLOCKED'"),
    "task_answered": ({**TASK, "reserved_for": "a", "seconds": 900}, "status = 'BLOCKED'"),
    "claim_release": ({**NAMED, "after_seconds": None}, HELD),
    "queue_take_back": ({"limit": 9}, HELD),
    "queue_unpark": ({"limit": 9}, "parked = 'reserved', parked_until = '2029-01-01 00:00:00Z', reserved_for = 'a'"),
    "task_rescoped": (TASK, "parked = 'scope', parked_on = 7"),
    "tasks_unpark_from": ({"lease_id": 7, "limit": 9}, "parked = 'scope', parked_on = 7"),
    "task_put_back": (TASK, "parked = 'scope', parked_on = 7"),
    "task_edit": (
        {**TASK, "title": "t", "body": "", "folded": "t", "priority": 1, "project": "default", "role": "worker"}
        | {"max_attempts": 5},
        "parked = ''",
    ),
}
READY = "status = 'TODO', attempt = 0, parked = '', parked_on = NULL, parked_until = NULL, reserved_for = NULL"


@pytest.fixture
def ticking_board(postgres_board: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A board on Postgres with one task, whose statements read the clock that ticks."""
    with arena.setting_up(postgres_board) as c:
        c.dispatch(title="t", role="worker")
    arena.change(postgres_board, TICKING)
    compiled = Library.__getitem__

    def ticking(self: Library, name: str) -> Statement:
        statement = compiled(self, name)
        return dataclasses.replace(statement, sql=statement.sql.replace("clock_timestamp()", "ticking()"))

    monkeypatch.setattr(Library, "__getitem__", ticking)
    return postgres_board


def comes(ahead: int) -> str:
    """A time so many readings of the clock ahead."""
    return f"(SELECT timestamptz '2030-01-01 00:00:00.5Z' + (last_value + {ahead}) * interval '1s' FROM ticks)"


def set_aside_wrongly(url: str, statements: Iterable[str]) -> Iterator[str]:
    """Let the task's time come between two readings of a statement; how the task then stands, if that cannot be."""
    with coordinate.connect(url, agent="a") as c, psycopg.connect(url, autocommit=True) as beside:
        for statement, ahead in itertools.product(statements, range(6)):
            given, before = SETTING_ASIDE[statement]
            beside.execute(
                f"UPDATE tasks SET {READY}, assigned_agent = NULL, lease_until = NULL, not_before = {comes(ahead)}"
            )
            beside.execute(f"UPDATE tasks SET {before}")
            (not_before,) = beside.execute("SELECT not_before FROM tasks").fetchone() or ()
            took = {**given, "not_before": not_before} if statement == "task_edit" else given
            c.database.perform(lambda tx, name=statement, took=took: tx.run(name, **took), writes=True)  # type: ignore[misc]
            now = beside.execute("SELECT parked, parked_until, reserved_for FROM tasks").fetchone()
            if now not in (("", None, None), ("later", not_before, None)) and now[0::2] != ("reserved", "a"):
                yield f"{statement}: {now}"


def test_a_time_that_comes_while_a_statement_runs_sets_no_task_aside_for_ever(ticking_board: str) -> None:
    """Guard: what two columns say of one time is decided by one reading of the clock."""
    assert not list(set_aside_wrongly(ticking_board, SETTING_ASIDE))


def test_two_readings_of_the_clock_are_noticed(ticking_board: str) -> None:
    arena.cut("task_unblock", r"SELECT clock\.now FROM clock", put="SELECT ticking()")()
    assert "task_unblock: ('later', None, None)" in set_aside_wrongly(ticking_board, ["task_unblock"])


def counted_wrongly(url: str) -> Iterator[Any]:
    """A task comes due, or is let go of, between two readings of one census: how often it was counted, if not once."""
    with coordinate.connect(url, agent="a") as c, psycopg.connect(url, autocommit=True) as beside:
        ask = c.ask(title="Which?", action_owner="task", impact="i", next_step="n", task="TASK-1").ask.id
        c.respond(ask=ask, kind="handled", agent="hana")
        c.take(ask=ask)
        for ahead, (aside, until) in itertools.product(range(6), (("later", "past"), ("", "comes"))):
            moments = {"comes": comes(ahead), "past": "timestamptz '2029-01-01 00:00:00Z'"}
            beside.execute(f"UPDATE asks SET taken_until = {moments[until]}")
            parked_until = moments["comes"] if aside else "NULL"
            beside.execute(f"UPDATE tasks SET parked = '{aside}', parked_until = {parked_until}")
            census, _ = c.database.perform(lambda tx: tx.one("queue_census", role="worker", project=None), writes=True)
            assert census is not None
            if (census.ready, census.later) not in ((1, 0), (0, 1)):
                yield aside, census.ready, census.later


def test_a_census_counts_each_task_once_though_its_time_comes_meanwhile(ticking_board: str) -> None:
    assert not list(counted_wrongly(ticking_board))


def test_a_census_that_reads_the_clock_twice_is_noticed(ticking_board: str) -> None:
    arena.cut("queue_census", r"SELECT clock\.now FROM clock", put="SELECT ticking()")()
    assert {aside for aside, *_ in counted_wrongly(ticking_board)} == {"later", ""}
