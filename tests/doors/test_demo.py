"""The demo from outside: what it refuses, what it draws, and a verdict that accuses nobody wrongly."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from coordinate import Coordinator, connect, demo
from coordinate.db import migrate
from tests.doors.command import COORDINATE, Command


@pytest.fixture
def call(tmp_path: Path) -> Command:
    return Command("", tmp_path, TMPDIR=str(tmp_path))


@pytest.mark.parametrize(("agents", "most"), [(1, 0), (2, 0), (6, 4), (20, 17)])
def test_a_demo_that_would_kill_all_workers_is_refused_at_once(
    call: Command, tmp_path: Path, agents: int, most: int
) -> None:
    begun = time.monotonic()
    refused = call("demo", "--agents", str(agents), "--tasks", "6", "--kill", str(most + 1))
    assert (refused.status, refused.error["code"]) == (2, "invalid_input")
    assert f"at most {most} can be killed" in refused.error["error"]
    assert time.monotonic() - begun < 30
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["--agents 1 --tasks 2", "--agents 2 --tasks 1", "--agents 6 --tasks 1 --kill 4"])
def test_a_play_too_small_to_check_everything_breaks_no_promise(call: Command, words: str) -> None:
    verdict = call("demo", *words.split()).json
    assert (verdict["holds"], verdict["broken"]) == (True, [])
    assert bool(verdict["unchecked"]) is ("--kill" in words)


def test_a_kept_board_is_there_afterwards(call: Command) -> None:
    done = call("demo", "--agents", "3", "--tasks", "5", "--keep")
    place = done.json["kept"]
    assert place in done.err
    assert call("status", "--db", place).json["by_status"] == {"DONE": 5}


def test_a_place_with_tasks_in_it_is_refused_in_the_commands_own_name(call: Command) -> None:
    call("demo", "--agents", "2", "--tasks", "1", "--db", "board.db")
    for name in ("demo", "bench"):
        answer = call(name, "--agents", "2", "--tasks", "1", "--db", "board.db")
        told = json.loads(answer.err.splitlines()[-1])
        assert (answer.status, told["code"]) == (2, "not_empty")
        assert f"the {name} wants an empty board" in told["error"]


def test_a_board_of_an_older_schema_is_refused_as_it_is(call: Command, db_url: str, tmp_path: Path) -> None:
    migrate.upgrade(db_url, "0008")
    before, there = migrate.current(db_url), sorted(tmp_path.iterdir())
    answer = call("bench", "--agents", "2", "--tasks", "1", "--db", db_url)
    assert (answer.status, answer.error["code"]) == (6, "schema_behind")
    assert (migrate.current(db_url), sorted(tmp_path.iterdir())) == (before, there)


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_on_a_terminal_no_line_is_wider_than_it_is(call: Command, columns: int) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    words = ["demo", "--agents", "4", "--tasks", "30", "--kill", "1"]
    environment = {name: value for name, value in call.environment.items() if name != "COLUMNS"}
    with subprocess.Popen([*COORDINATE, *words], stdout=subprocess.PIPE, stderr=theirs, env=environment) as child:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 65536):
                said += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert child.returncode == 0
    lines = said.decode().replace("\r\n", "\n").replace("\r", "\n").splitlines()
    assert len(lines) > 10
    assert max(map(len, lines)) < columns


def a_bench(target: str) -> demo.Options:
    return demo.Options(agents=3, tasks=30, kill=0, target=target, lease_seconds=60, work_seconds=0.0, story=False)


@pytest.fixture
def first_gets_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others do nothing until it has asked."""
    work, asked = demo._work_one, tmp_path / "asked"

    def one_of_three(c: Coordinator, *others: Any) -> bool:
        if c.agent == "worker-1":
            asked.touch()
            return False
        while not asked.exists():
            time.sleep(0.001)
        return work(c, *others)

    monkeypatch.setattr(demo, "IDLE_MOST", 0.05)
    monkeypatch.setattr(demo, "_work_one", one_of_three)


@pytest.mark.usefixtures("first_gets_nothing")
def test_an_agent_that_is_passed_over_is_found(db_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "FAIR_SECONDS", 0.0)
    verdict = demo.play(a_bench(db_url))
    assert (verdict.broken, verdict.unchecked) == (["1 agent(s) were never served"], [])
    assert (verdict.holds, verdict.unserved_agents, verdict.done) == (False, 1, 30)


@pytest.mark.usefixtures("first_gets_nothing")
def test_where_the_play_was_too_short_to_say_nobody_is_accused(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FAIR_SECONDS", 3600.0)
    verdict = demo.play(a_bench(sqlite_url))
    assert (verdict.holds, verdict.broken, verdict.unserved_agents) == (True, [], 0)
    (unchecked,) = verdict.unchecked
    assert unchecked.startswith("whether 1 agent(s) that got nothing were passed over could not be checked")


@pytest.mark.parametrize(
    ("began", "lasts", "tasks", "passed_over"),
    [
        (0.0, 4.0, 40, 1),
        (1.9, 4.0, 40, 1),
        (2.1, 4.0, 40, 0),  # it came when half was done
        (0.0, 1.9, 40, 0),  # nothing follows from a second half of less than a second
        (0.0, 4.0, 39, 0),  # nor from fewer than ten tasks for each
        (None, 4.0, 40, 0),  # it never began: that is a failure of its own
    ],
)
def test_who_was_passed_over_is_told_by_the_boards_own_times(
    began: float | None, lasts: float, tasks: int, passed_over: int
) -> None:
    start = datetime(2030, 1, 1, tzinfo=UTC)
    options = demo.Options(agents=4, tasks=tasks, kill=0, story=False)
    ended = [start + timedelta(seconds=lasts * number / tasks) for number in range(tasks, 0, -1)]
    asked = {} if began is None else {"worker-1": start + timedelta(seconds=began)}
    assert demo._passed_over(options, ["worker-1"], asked, ended) == passed_over


def test_nothing_is_claimed_before_the_last_has_come_and_no_rate_is_made_of_no_time(
    db_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(target: str, agent: str, **options: Any) -> Any:
        if agent == "worker-2":
            time.sleep(0.2)
            (tmp_path / "came").write_text(datetime.now(UTC).isoformat())
        return connect(target, agent=agent, **options)

    rates: list[tuple[int, float]] = []
    monkeypatch.setattr(demo, "IDLE_MOST", 0.05)
    monkeypatch.setattr(demo, "connect", late)
    verdict = demo.play(a_bench(db_url), lambda counts, killed, rate: rates.append((counts.get("DONE", 0), rate)))
    assert verdict.holds, verdict
    assert all(rate <= done / demo.RATE_SECONDS for done, rate in rates), rates
    with connect(db_url, agent="reader") as c:
        tasks = list(c.export())
    claimed = [attempt.started_at for each in tasks for attempt in each.attempts]
    ended = [each.task.finished_at for each in tasks if each.task.finished_at]
    assert min(claimed) >= datetime.fromisoformat((tmp_path / "came").read_text()) - timedelta(milliseconds=1)
    assert verdict.claims_per_second == round(30 / (max(ended) - min(claimed)).total_seconds(), 1)
