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
    # Fewer of what is rarer: agents at work, their worktrees with scopes, and what humans are asked and have answered.
    f"INSERT INTO agents (name, created_at) SELECT 'agent-' || i, {_THEN} FROM n WHERE i <= 50",
    f"""INSERT INTO sessions (id, agent, doing, ttl_seconds, started_at, heartbeat_at, last_call_at)
        SELECT 'session-' || i, 'agent-' || i, {_TEXTS}, 600, {_THEN}, '2090-01-01T00:00:00.000Z', {_THEN}
          FROM n WHERE i <= 50""",
    f"""INSERT INTO worktrees (task_id, agent, branch, root, created_at, updated_at)
        SELECT 'TASK-' || i, 'agent-' || (i % 50), 'größe/' || i, '/größe/' || i, {_THEN}, {_THEN}
          FROM n WHERE i % 100 = 1""",
    """INSERT INTO leases (kind, resource, prefix, agent, task_id, attempt, worktree_id, fence, ttl_seconds,
                            acquired_at)
        SELECT 'scope', branch, branch, agent, task_id, 1, id, id, 900, created_at FROM worktrees""",
    f"""INSERT INTO boards (id, number, title, created_by, created_at, updated_at)
        SELECT 'BOARD-' || i, i, 'Größe ' || i, 'agent-1', {_THEN}, {_THEN} FROM n WHERE i <= 7""",
    f"""INSERT INTO board_rows (id, number, board_id, label, position, note, created_at, updated_at)
        SELECT 'ROW-' || i, i, 'BOARD-' || (i % 7 + 1), '長さ ' || i, i, {_TEXTS}, {_THEN}, {_THEN}
          FROM n WHERE i <= 70""",
    f"""INSERT INTO asks (id, number, kind, action_owner, surface_id, title, detail, options, asked_by, state,
                          response_seq, handled_at, folded, created_at, updated_at)
        SELECT 'ASK-' || i, i, 'question', 'decision', 'ASK-' || i, 'Which 🚀 ' || i, {_TEXTS}, '["größe","長さ"]',
               'agent-' || (i % 50), CASE i % 2 WHEN 0 THEN 'answered' ELSE 'open' END, i % 2 = 0,
               CASE i % 2 WHEN 0 THEN {_THEN} END, 'which', {_THEN}, {_THEN}
          FROM (SELECT i / 200 AS i FROM n WHERE i % 200 = 0) AS each""",
    """INSERT INTO ask_responses (ask_id, seq, kind, channel, text, ask_revision, said_by, created_at)
        SELECT id, 1, 'answer', 'inbox', 'größe 🚀 ' || number, 1, 'human', handled_at FROM asks
         WHERE state = 'answered'""",
    """UPDATE counters SET value = CASE kind WHEN 'task' THEN (SELECT count(*) FROM tasks)
        WHEN 'fence' THEN (SELECT count(*) FROM leases) WHEN 'board' THEN 7 WHEN 'row' THEN 70
        WHEN 'ask' THEN (SELECT count(*) FROM asks) ELSE value END""",
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
        connection.execute(
            "INSERT INTO event_cursors VALUES ('reader', ?, ?, '2030-01-01T00:00:00.000Z')", [count // 2, 7]
        )
