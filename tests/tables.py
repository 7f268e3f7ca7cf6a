"""A board's tables as they are, read and written past the product: what a test compares before and after."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg
import pytest

from coordinate.errors import CoordinateError

# Giving positions to events is no change of the board: whoever reads first does it.
TABLES = (
    "tasks",
    "task_dependencies",
    "task_scopes",
    "attempts",
    "notes",
    "history",
    "events",
    "event_cursors",
    "counters",
    "projects",
    "leases",
    "worktrees",
    "applied_events",
    "boards",
    "board_rows",
    "asks",
    "ask_responses",
    "ask_deliveries",
    "annotations",
    "annotation_deliveries",
)
Dump = dict[str, list[tuple[Any, ...]]]


def is_postgres(url: str) -> bool:
    return url.startswith("postgresql://")


def connect(url: str) -> Any:
    """A connection of the bare driver, in autocommit."""
    if is_postgres(url):
        return psycopg.connect(url, autocommit=True, prepare_threshold=None)  # there may be a pooler in between
    return sqlite3.connect(url, isolation_level=None, timeout=30)


def rows(url: str, sql: str) -> list[tuple[Any, ...]]:
    """What one query answers."""
    with closing(connect(url)) as connection:
        return ask(connection, sql)


def ask(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in connection.execute(sql)]


def as_owner(url: str) -> str:
    """The same board as the owner of its tables, where a test changes these and boards are met with rows only."""
    return url.replace("coordinate_rows:rows@", "postgres@")


def run(url: str, *statements: str) -> None:
    """Run statements for their effect."""
    with closing(connect(url)) as connection:
        for statement in statements:
            connection.execute(statement)


def dump(url: str) -> Dump:
    """Every row of every table that a refusal must leave alone."""
    with closing(connect(url)) as connection:
        return {table: sorted(ask(connection, f"SELECT * FROM {table}"), key=repr) for table in TABLES}


@contextmanager
def nothing_changes(url: str) -> Iterator[None]:
    before = dump(url)
    yield
    after = dump(url)
    assert after == before, f"changed: {[table for table in TABLES if after[table] != before[table]]}"


@contextmanager
def refused(
    url: str, error: type[CoordinateError], match: str | None = None
) -> Iterator[pytest.ExceptionInfo[CoordinateError]]:
    """The block is refused with exactly this error, and nothing in any table changes."""
    with nothing_changes(url), pytest.raises(error, match=match) as caught:
        yield caught
    assert type(caught.value) is error


def assert_sound(url: str) -> None:
    """What holds of every board at every moment, read from the tables alone."""
    with closing(connect(url)) as connection:
        assert_sound_over(connection)


def assert_sound_over(connection: Any) -> None:
    wrong_counts = """
        SELECT t.id, t.status, t.unmet_dependencies,
               (SELECT count(*) FROM task_dependencies d WHERE d.task_id = t.id AND NOT d.met) AS unmet
          FROM tasks t
         WHERE t.unmet_dependencies <>
               (SELECT count(*) FROM task_dependencies d WHERE d.task_id = t.id AND NOT d.met)"""
    wrong_edges = """
        SELECT d.task_id, d.depends_on_task_id FROM task_dependencies d
          JOIN tasks t ON t.id = d.depends_on_task_id WHERE d.met <> (t.status = 'DONE')"""
    wrong_holds = """
        SELECT t.id, t.status FROM tasks t
         WHERE (CASE WHEN t.status = 'IN_PROGRESS' THEN 1 ELSE 0 END) <>
               (SELECT count(*) FROM attempts a WHERE a.task_id = t.id AND a.ended_at IS NULL
                   AND a.attempt = t.attempt AND a.agent = t.assigned_agent)
            OR t.attempt <> (SELECT count(*) FROM attempts a WHERE a.task_id = t.id)
            OR t.attempt <> (SELECT coalesce(max(a.attempt), 0) FROM attempts a WHERE a.task_id = t.id)"""
    wrong_story = """
        SELECT t.id FROM tasks t WHERE (SELECT count(*) FROM history h WHERE h.task_id = t.id) <>
               (SELECT count(*) FROM events e WHERE e.ref = t.id AND e.event_type NOT LIKE 'worktree.%'
                  AND e.event_type NOT LIKE 'lease.%')"""
    wrong_scopes = """
        SELECT l.id, l.resource FROM leases l JOIN tasks t ON t.id = l.task_id
         WHERE l.released_at IS NULL AND l.worktree_id IS NULL
           AND (t.status <> 'IN_PROGRESS' OR l.attempt <> t.attempt OR l.agent <> t.assigned_agent OR NOT t.scoped)"""
    wrong_parked = """
        SELECT t.id FROM tasks t LEFT JOIN leases l ON l.id = t.parked_on
         WHERE (t.parked = 'scope') <> (t.parked_on IS NOT NULL)
            OR (t.parked = 'scope' AND (t.status <> 'TODO' OR l.released_at IS NOT NULL))"""
    wrong_asks = """
        SELECT t.id, t.status, t.ask_id FROM tasks t LEFT JOIN asks a
            ON a.surface = 'task' AND a.surface_id = t.id AND a.closed_at IS NULL
         WHERE coalesce(t.ask_id, '') <> coalesce(a.id, '')
            OR (a.blocking AND a.state = 'open' AND t.status NOT IN ('BLOCKED', 'IN_PROGRESS'))
            OR (a.blocking AND a.state = 'answered' AND t.status = 'BLOCKED' AND t.expiries = 0)"""
    wrong_rows = """
        SELECT r.id, r.status FROM board_rows r
         WHERE (CASE WHEN r.status = 'blocked' THEN 1 ELSE 0 END) <> (SELECT count(*) FROM asks a
                WHERE a.surface = 'row' AND a.surface_id = r.id AND a.closed_at IS NULL)"""
    wrong_responses = """
        SELECT a.id FROM asks a
         WHERE a.response_seq <> (SELECT count(*) FROM ask_responses r WHERE r.ask_id = a.id)
            OR a.delivered_seq <> (SELECT coalesce(max(d.seq), 0) FROM ask_deliveries d WHERE d.ask_id = a.id)
            OR (a.seen_at IS NOT NULL AND a.delivered_seq <> a.response_seq)"""
    questions = (wrong_counts, wrong_edges, wrong_holds, wrong_story, wrong_scopes, wrong_parked)
    for question in (*questions, wrong_asks, wrong_rows, wrong_responses):
        assert ask(connection, question) == [], question
