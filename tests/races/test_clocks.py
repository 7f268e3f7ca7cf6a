"""Hosts whose clocks are wrong: no live lease is taken, and every stored time is the database's."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import coordinate
from coordinate import errors
from tests.races import arena
from tests.races.arena import Weakness

pytestmark = pytest.mark.race

MINUTES = 10


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
        claim = c.claim_next(role="other", lease_seconds=60)
        assert claim is not None
        c.log_progress(handle=claim, note="half")
        c.extend_lease(handle=claim, lease_seconds=120)
        c.emit(event_type="test", message="from b")
        c.release(handle=claim, after_seconds=3600)
        assert c.claim_next(role="other") is None, "B took what is not due yet"


def prepare(url: str) -> None:
    with arena.setting_up(url, agent="a") as c:
        c.dispatch(title="A's", role="worker")
        c.dispatch(title="B's", role="other")
        assert c.claim_next(role="worker", lease_seconds=60)


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
    assert 0 < (as_moment(until) - began).total_seconds() <= 62
    (later,) = arena.rows(url, "SELECT not_before FROM tasks WHERE id = 'TASK-2'")[0]
    assert 3598 <= (as_moment(later) - began).total_seconds() <= 3640
    arena.assert_sound(url)


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
        timeout=60,
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
