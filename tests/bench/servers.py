"""Postgres: what a claim costs beside the same work in one statement, and what a drained queue leaves behind."""

from __future__ import annotations

import math
import multiprocessing
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

import psycopg

import coordinate
from coordinate.db.dialect import Postgres
from tests.bench.boards import fill_waiting
from tests.bench.rounds import Figure, in_turns
from tests.postgres import Unavailable, local_binaries, wheel_binaries

WAITING = 60_000
WARM = 12
FIND_MOST = 20  # buffers, to find the task in a queue that was drained
FORK = multiprocessing.get_context("fork")

# What a claim reads and writes, all of it, in one statement and one transaction: ours, with what follows as CTEs.
SAME_WORK = """
WITH taken AS ({claim}
), opened AS (
  INSERT INTO attempts (task_id, attempt, agent, session_id, started_at)
  SELECT id, attempt, assigned_agent, session_id, updated_at FROM taken
), told AS (
  INSERT INTO history (task_id, agent, action, attempt, detail, created_at)
  SELECT id, assigned_agent, 'CLAIM', attempt, '', updated_at FROM taken
), said AS (
  INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded)
  SELECT updated_at, 'task.claimed', json_build_object('task_id', id, 'title', title, 'project', project,
    'priority', priority::text, 'agent', assigned_agent, 'attempt', attempt::text, 'role_boundary', role_boundary),
    259200, project, assigned_agent, id, '', lower(concat_ws(' ', id, title, project, priority, assigned_agent))
  FROM taken
)
SELECT taken.*, ARRAY({held}) FROM taken;
"""


def claims(place: Callable[[str], str], *, clients: int, rounds: int, seconds: float) -> Figure:
    """Claims a second of so many processes, against pgbench with as many clients that do the same in one statement.

    Each side has a fresh board in each round.
    """
    count = 0

    def board() -> str:
        nonlocal count
        count += 1
        url = place(f"claims_{count}")
        coordinate.connect(url, create=True).close()
        fill_waiting(url, WAITING)
        return url

    return in_turns(
        f"claims/s of {clients} clients, Postgres: ours / pgbench, one statement",
        lambda: _as_processes(board(), clients, seconds),
        lambda: _as_pgbench(board(), clients, seconds),
        rounds=rounds,
        aim=0.85,
    )


def _as_processes(url: str, clients: int, seconds: float) -> float:
    barrier, told = FORK.Barrier(clients, timeout=300), FORK.SimpleQueue()

    def live(number: int) -> None:
        done = 0
        with coordinate.connect(url, agent=f"agent-{number}") as c:
            for _ in range(WARM):  # connected, and its statements prepared
                c.claim_next(role="worker")
            barrier.wait()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                c.claim_next(role="worker")
                done += 1
        told.put(done)

    processes = [FORK.Process(target=live, args=(number,), daemon=True) for number in range(clients)]
    for process in processes:
        process.start()
    done = sum(told.get() for _ in processes)
    for process in processes:
        process.join()
    return done / seconds


def _as_pgbench(url: str, clients: int, seconds: float) -> float:
    library = Postgres(url).library
    given = {
        "role": "'worker'",
        "agent": "'agent-' || :client_id",
        "session": "NULL",
        "lease_seconds": "NULL",
        "limit": "20",
    }

    def fill(sql: str) -> str:
        return re.sub(r"(?<!:):([a-z_]+)", lambda found: f"({given[found[1]]})", sql)

    work = SAME_WORK.format(claim=fill(library["claim_at_once"].sql), held=fill(library["handles_held"].sql))
    with tempfile.NamedTemporaryFile("w", suffix=".sql", encoding="utf-8") as script:
        script.write(work)
        script.flush()
        options = [
            "--no-vacuum",
            "--protocol=prepared",
            f"--client={clients}",
            "--jobs=2",
            f"--time={math.ceil(seconds)}",
        ]
        command = [_pgbench(), *options, f"--file={script.name}", url]
        ran = subprocess.run(command, check=True, capture_output=True, text=True)
    (pace,) = re.findall(r"^tps = ([0-9.]+)", ran.stdout, re.MULTILINE)
    return float(pace)


def _pgbench() -> str:
    folders = [folder for folder in (local_binaries(), wheel_binaries()) if folder is not None]
    found = shutil.which("pgbench", path=os.pathsep.join([os.environ["PATH"], *map(str, folders)]))
    if found is None:
        raise Unavailable("pgbench is not to be found: it comes with Postgres, or with the extra test")
    return found


def drained(url: str, *, tasks: int, drained: int, patience: float = 180.0) -> Figure:
    """Buffers that a claim reads once part of the queue is drained and the server had a minute or two, against before.

    Nobody vacuums by hand. Counted, not timed: the plan of the claim's own statement, rolled back.
    """
    coordinate.connect(url, create=True).close()
    fill_waiting(url, tasks)
    fresh, _ = buffers_of_a_claim(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(0, drained, 1000):
            connection.execute(
                "UPDATE tasks SET status = 'DONE', attempt = 1, finished_at = clock_timestamp()"
                " WHERE number > %s AND number <= %s",
                [first, first + 1000],
            )
    at_once, _ = buffers_of_a_claim(url)
    until = time.monotonic() + patience
    while (settled := buffers_of_a_claim(url))[0] > 1.3 * fresh and time.monotonic() < until:
        time.sleep(5)
    whole, look = settled
    return Figure(
        f"buffers of a claim, {drained:,} of {tasks:,} drained / fresh",
        "lower",
        [whole / fresh],
        [fresh],
        aim=1.3,
        counted=True,
        short=() if look <= FIND_MOST else (f"{look} buffers to find the task, above {FIND_MOST}",),
        reads=f"{whole} against {fresh}, {look} of them to find the task; {at_once} at once after the last",
        facts={"fresh": fresh, "at_once": at_once, "settled": whole, "settled_to_find": look},
    )


def buffers_of_a_claim(url: str) -> tuple[int, int]:
    """All that a claim touches, and what it takes of that to find the task; the rest writes the row and its indexes."""
    engine = Postgres(url)
    sql, bind = engine.binder(engine.library["claim_at_once"])
    taken: dict[str, Any] = {"role": "worker", "lease_seconds": None, "agent": "x", "session": None}
    with psycopg.connect(url) as connection:
        cursor = psycopg.RawCursor(connection)
        for _ in range(2):  # the first finds what is dead, and marks it
            cursor.execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", bind(dict(taken)))
            found = cursor.fetchone()
            assert found is not None
            plan = found[0][0]["Plan"]
            connection.rollback()
    (look,) = (each for each in plan["Plans"] if each.get("Subplan Name") == "CTE picked")
    return _touched(plan), _touched(look)


def _touched(node: dict[str, Any]) -> int:
    return int(node["Shared Hit Blocks"] + node["Shared Read Blocks"])
