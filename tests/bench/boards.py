"""Large boards for benchmarks and plans, written with plain SQL in one statement."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from coordinate.db.dialect import is_postgres

_COLUMNS = "id, number, title, status, role_boundary, priority, created_at, updated_at"
_SQLITE = f"""
WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last)
INSERT INTO tasks ({_COLUMNS})
SELECT 'TASK-' || i, i, 'Waiting ' || i, 'TODO', 'worker', 100,
       '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z' FROM n
"""
_POSTGRES = f"""
INSERT INTO tasks ({_COLUMNS})
SELECT 'TASK-' || i, i, 'Waiting ' || i, 'TODO', 'worker', 100,
       '2030-01-01T00:00:00Z', '2030-01-01T00:00:00Z' FROM generate_series(%(first)s::bigint, %(last)s::bigint) AS i
"""


def fill_waiting(target: str, count: int, *, first: int = 1) -> None:
    """Add `count` equal, ready tasks to a board at head, and move its counter behind them."""
    last = first + count - 1
    if is_postgres(target):
        import psycopg

        with psycopg.connect(target) as connection:
            connection.execute(_POSTGRES, {"first": first, "last": last})
            connection.execute("UPDATE counters SET value = %s WHERE kind = 'task'", [last])
        with psycopg.connect(target, autocommit=True) as connection:
            connection.execute("VACUUM (ANALYZE) tasks")
        return
    with closing(sqlite3.connect(target)) as connection:
        connection.execute(_SQLITE, {"first": first, "last": last})
        connection.execute("UPDATE counters SET value = ? WHERE kind = 'task'", [last])
        connection.commit()


def declare_scopes(target: str, count: int) -> None:
    """Let the first `count` tasks declare a path each under `held/`."""
    declare = (
        "INSERT INTO task_scopes (task_id, pattern, mode)"
        f" SELECT id, 'held/' || number, 'exclusive' FROM tasks WHERE number <= {count:d}",
        f"UPDATE tasks SET scoped = (1 = 1) WHERE number <= {count:d}",
    )
    if is_postgres(target):
        import psycopg

        with psycopg.connect(target, autocommit=True) as server:
            for statement in (*declare, "VACUUM (ANALYZE) tasks"):
                server.execute(statement.encode())
        return
    with closing(sqlite3.connect(target)) as file, file:
        for statement in declare:
            file.execute(statement)
