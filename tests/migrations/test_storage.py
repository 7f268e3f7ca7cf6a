"""A claim stays cheap while a queue is drained, with nobody vacuuming by hand: counted in buffers, not in time."""

from __future__ import annotations

import time

import psycopg

import coordinate
from tests.bench.boards import fill_waiting
from tests.bench.servers import buffers_of_a_claim
from tests.postgres import start_server

WAITING, DRAINED = 20_000, 3_500  # less than the fifth at which autovacuum comes by default


def drain(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(
            "UPDATE tasks SET status = 'DONE', attempt = 1, finished_at = clock_timestamp() WHERE number <= %s",
            [DRAINED],
        )


def test_autovacuum_clears_a_drained_queue_early_and_by_its_defaults_would_not() -> None:
    """A server of its own, whose autovacuum looks around each second instead of each minute; else as it comes."""
    server = start_server("local", "wheel")
    try:
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET autovacuum_naptime = '1s'")
            admin.execute("SELECT pg_reload_conf()")
        with server.database("as_it_is") as ours, server.database("by_default") as plain:
            for url in (ours, plain):
                coordinate.connect(url, create=True).close()
            with psycopg.connect(plain) as connection:
                connection.execute(
                    "ALTER TABLE tasks RESET (autovacuum_vacuum_scale_factor, autovacuum_vacuum_threshold,"
                    " vacuum_index_cleanup)"
                )
            for url in (ours, plain):
                fill_waiting(url, WAITING)
            fresh, _ = buffers_of_a_claim(ours)
            for url in (plain, ours):
                drain(url)
            assert buffers_of_a_claim(ours)[0] > 1.3 * fresh, "there is something to clear"
            until = time.monotonic() + 90
            while (settled := buffers_of_a_claim(ours))[0] > 1.3 * fresh:
                assert time.monotonic() < until, f"a claim still reads {settled[0]} buffers instead of {fresh}"
                time.sleep(0.5)
            assert settled[1] <= 20, "to find the task"
            assert buffers_of_a_claim(plain)[0] > 1.3 * fresh
    finally:
        server.stop()
