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


_TEXTS = "'Größe, 長さ, 🚀 and \"quotes\" \\ of step ' || i || char(10) || 'second line'"
_THEN = "'2030-01-01T00:00:00.' || printf('%03d', i % 1000) || 'Z'"
_LIVED = (
    f"""INSERT INTO tasks (id, number, title, body, status, role_boundary, project, priority, assigned_agent,
                           lease_until, attempt, claimed_by, result, folded, created_at, updated_at)
        SELECT 'TASK-' || i, i, 'Step ' || i, {_TEXTS},
               CASE i % 4 WHEN 0 THEN 'DONE' WHEN 1 THEN 'IN_PROGRESS' ELSE 'TODO' END,
               'worker', 'project-' || (i % 7), i % 1000, CASE i % 4 WHEN 1 THEN 'agent-' || (i % 50) END,
               CASE i % 4 WHEN 1 THEN '2090-01-01T00:00:00.000Z' END, i % 4 < 2,
               CASE WHEN i % 4 < 2 THEN 'agent-' || (i % 50) END, CASE i % 4 WHEN 0 THEN 'done ' || i END,
               'step ' || i, {_THEN}, {_THEN} FROM n""",
    f"""INSERT INTO attempts (task_id, attempt, agent, started_at, ended_at, outcome)
        SELECT 'TASK-' || i, 1, 'agent-' || (i % 50), {_THEN}, CASE i % 4 WHEN 0 THEN {_THEN} END,
               CASE i % 4 WHEN 0 THEN 'completed' END FROM n WHERE i % 4 < 2""",
    """INSERT INTO task_dependencies (task_id, depends_on_task_id, met)
        SELECT 'TASK-' || i, 'TASK-' || (i - 3), true FROM n WHERE i % 4 = 3 AND i > 3""",
    f"""INSERT INTO history (task_id, agent, action, attempt, detail, created_at)
        SELECT 'TASK-' || i, 'agent-' || (i % 50), 'DISPATCH', 0, '', {_THEN} FROM n""",
    f"""INSERT INTO notes (task_id, author, note_type, content, created_at)
        SELECT 'TASK-' || i, 'agent-' || (i % 50), 'PROGRESS', {_TEXTS}, {_THEN} FROM n WHERE i % 2 = 0""",
    f"""INSERT INTO events (created_at, event_type, payload, project, agent, ref, message, folded)
        SELECT {_THEN}, 'task.dispatched', json_object('task_id', 'TASK-' || i, 'title', 'Größe ' || i),
               'project-' || (i % 7), 'agent-' || (i % 50), 'TASK-' || i, '', 'task-' || i FROM n""",
)


def fill_lived(path: str, count: int) -> None:
    """Fill an empty board in a file with tasks in several states, and all that comes with them."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TEMP TABLE n (i INTEGER PRIMARY KEY)")
        connection.execute(
            "INSERT INTO n WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r WHERE i < ?) SELECT i FROM r",
            [count],
        )
        for statement in _LIVED:
            connection.execute(statement)
        connection.execute("UPDATE counters SET value = ? WHERE kind = 'task'", [count])
        connection.execute(
            "INSERT INTO event_cursors VALUES ('reader', ?, ?, '2030-01-01T00:00:00.000Z')", [count // 2, 7]
        )
