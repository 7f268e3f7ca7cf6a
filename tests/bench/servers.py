"""Postgres: what a claim costs beside the same rows in one statement, and what a drained queue leaves behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg

import coordinate
from coordinate.db.dialect import Postgres
from tests.bench.boards import fill_waiting
from tests.bench.rounds import Figure, in_turns

WARM = 12

# One round trip and one transaction for the whole claim: what is taken, its attempt, its history and its event.
FUSED = """
WITH picked AS (
  SELECT id FROM tasks WHERE role_boundary = 'worker' AND status = 'TODO' AND unmet_dependencies = 0 AND parked = ''
  ORDER BY priority, created_at, number LIMIT 1 FOR UPDATE SKIP LOCKED
), taken AS (
  UPDATE tasks SET status = 'IN_PROGRESS', assigned_agent = %(agent)s, attempt = attempt + 1, lease_seconds = 900,
    lease_until = clock_timestamp() + interval '15 minutes', revision = revision + 1, updated_at = clock_timestamp()
  WHERE id = (SELECT id FROM picked) RETURNING id, attempt
), opened AS (
  INSERT INTO attempts (task_id, attempt, agent, started_at) SELECT id, attempt, %(agent)s, clock_timestamp() FROM taken
), told AS (
  INSERT INTO history (task_id, agent, action, attempt, detail, created_at)
  SELECT id, %(agent)s, 'CLAIM', attempt, '', clock_timestamp() FROM taken
), said AS (
  INSERT INTO events (created_at, event_type, payload, ttl_seconds, project, agent, ref, message, folded)
  SELECT clock_timestamp(), 'task.claimed', '{}', 259200, 'default', %(agent)s, id, '', '' FROM taken
)
SELECT id, attempt FROM taken
"""


def claims(url: str, *, clients: int, rounds: int, seconds: float) -> Figure:
    """Claims a second of so many clients, against the same rows written by one fused statement without any check."""
    coordinate.connect(url, create=True).close()
    fill_waiting(url, 200_000)
    c = coordinate.connect(url, agent="bench")

    def ours(agent: str) -> Callable[[], object]:
        return lambda: c.claim_next(role="worker", agent=agent)

    def fused(agent: str) -> Callable[[], object]:
        connection = psycopg.connect(url, autocommit=True)
        return lambda: connection.execute(FUSED, {"agent": agent}).fetchone()

    figure = in_turns(
        f"claims/s of {clients} clients, Postgres: ours / one fused statement",
        lambda: _together(ours, clients, seconds),
        lambda: _together(fused, clients, seconds),
        rounds=rounds,
        aim=0.85,
    )
    c.close()
    return figure


def _together(client: Callable[[str], Callable[[], object]], clients: int, seconds: float) -> float:
    acts = [client(f"agent-{number}") for number in range(clients)]
    done = [0] * clients
    barrier = threading.Barrier(clients)

    def live(number: int) -> None:
        for _ in range(WARM):  # connected, and its statements prepared
            acts[number]()
        barrier.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            acts[number]()
            done[number] += 1

    threads = [threading.Thread(target=live, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / seconds


def drained(url: str, *, tasks: int, drained: int, patience: float = 180.0) -> Figure:
    """Buffers that a claim reads once part of the queue is drained and the server had a minute or two, against before.

    Nobody vacuums by hand. Counted, not timed: the plan of the claim's own statement, rolled back.
    """
    coordinate.connect(url, create=True).close()
    fill_waiting(url, tasks)
    fresh = buffers_of_a_claim(url)
    with psycopg.connect(url, autocommit=True) as connection:
        for first in range(0, drained, 1000):
            connection.execute(
                "UPDATE tasks SET status = 'DONE', attempt = 1, finished_at = clock_timestamp()"
                " WHERE number > %s AND number <= %s",
                [first, first + 1000],
            )
    at_once = buffers_of_a_claim(url)
    until = time.monotonic() + patience
    while (settled := buffers_of_a_claim(url)) > 1.3 * fresh and time.monotonic() < until:
        time.sleep(5)
    return Figure(
        f"buffers of a claim, {drained:,} of {tasks:,} drained / fresh",
        "lower",
        [settled / fresh],
        [fresh] * 3,
        aim=1.3,
        reads=f"{settled} against {fresh}; {at_once} at once after the last",
        facts={"fresh": fresh, "at_once": at_once, "settled": settled},
    )


def buffers_of_a_claim(url: str) -> int:
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
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
