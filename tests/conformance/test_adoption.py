"""Adoption: a board of the kanban tool comes over whole or not at all, and its file stays as it is."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import coordinate
from coordinate import Coordinator, service
from coordinate.db import migrate
from coordinate.errors import InvalidInput, NotABoard, NotEmpty, NotFound, SchemaBehind, SelfReview, UnmetDependencies
from coordinate.records import Adopted
from coordinate.work.tidying import LISTED_MAX, parse_moment, tidied
from tests.clock import age
from tests.tables import as_owner, is_postgres, nothing_changes, refused, rows

SAMPLES = Path(__file__).parents[1] / "samples" / "kanban"


@pytest.fixture
def board_url(board_url: str) -> str:
    """Ids are raised by the owner of the tables alone."""
    return as_owner(board_url)


NAMES = sorted(path.stem for path in SAMPLES.glob("*.db"))

# tasks, notes, history, events, edges, edges left out, the next number
EXPECTED = {
    "first-release-real": (1, 0, 2, 0, [], 0, "TASK-2"),
    "schema-02": (8, 5, 18, 0, [], 0, "TASK-10"),
    "schema-05": (8, 5, 18, 3, [], 0, "TASK-10"),
    "schema-08": (8, 5, 18, 3, [], 0, "TASK-10"),
    "schema-10": (8, 5, 18, 3, [(2, 1), (6, 3), (6, 5)], 1, "TASK-10"),
    "written-by-v0.1.5": (9, 5, 27, 27, [], 0, "TASK-10"),
    "written-by-v0.1.10": (9, 5, 27, 27, [(2, 1), (8, 2), (8, 3)], 0, "TASK-10"),
    "written-by-v0.1.13-alpha": (9, 5, 27, 27, [(2, 1), (8, 2), (8, 3)], 0, "TASK-10"),
    "written-by-HEAD": (9, 5, 27, 27, [(2, 1), (8, 2), (8, 3)], 0, "TASK-10"),
    "half-upgraded-v0.1.12": (10, 5, 28, 28, [(2, 1), (8, 2), (8, 3)], 0, "TASK-11"),
}

# No constraint and no type: what SQLite would take from anybody.
LOOSE = """
CREATE TABLE tasks (id, title, status, role_boundary, project, priority, assigned_agent, lease_until, claimed_by,
                    depends_on, created_at, updated_at);
CREATE TABLE notes (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id, author, note_type, content, created_at);
CREATE TABLE history (id INTEGER PRIMARY KEY AUTOINCREMENT, task_id, agent, action, created_at);
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, created_at, event_type, payload, ttl_seconds);
CREATE TABLE task_dependencies (task_id, depends_on_task_id);
CREATE TABLE task_seq (id, next_id);
"""
TASK = {
    "title": "T",
    "status": "TODO",
    "role_boundary": "worker",
    "project": "default",
    "priority": 100,
    "created_at": "2026-06-01 09:00:00",
    "updated_at": "2026-06-01 09:00:00",
}
AT = "2026-06-01 09:00:00"


class Planted:
    """A board of the kanban tool that a test makes, with whatever it wants to find repaired."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(LOOSE)

    def add(self, table: str, *planted: dict[str, object]) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            for row in planted:
                marks = ", ".join("?" * len(row))
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})",
                    tuple(row.values()),
                )

    def task(self, task_id: object, **values: object) -> None:
        self.add("tasks", {**TASK, "id": task_id, **values})

    def tell(self, task_id: str, *story: tuple[str, str]) -> None:
        self.add(
            "history", *({"task_id": task_id, "agent": who, "action": what, "created_at": AT} for who, what in story)
        )


@pytest.fixture
def planted(tmp_path: Path) -> Planted:
    return Planted(tmp_path / "planted.db")


@pytest.fixture
def sample(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return Path(shutil.copy(SAMPLES / f"{request.param}.db", tmp_path / "kanban.db"))


def every_sample(function: object) -> object:
    return pytest.mark.parametrize("sample", NAMES, indirect=True)(function)


def one_sample(name: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("sample", [name], indirect=True)


def folder_of(path: Path) -> dict[str, tuple[str, int]]:
    """Every file of a folder: what is in it, and when it was written."""
    return {
        each.name: (hashlib.sha256(each.read_bytes()).hexdigest(), each.stat().st_mtime_ns)
        for each in path.parent.iterdir()
        if each.is_file() and each.name.startswith(path.name)
    }


def source_rows(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def told(report: Adopted, what: str) -> list[tuple[str, str]]:
    """Which row a finding names, and what was done about it."""
    return [(each.id, each.done) for each in (*report.repairs, *report.left_out) if each.what == what]


def assert_holds_together(url: str) -> None:
    assert (
        rows(
            url,
            """
            SELECT t.id FROM tasks t WHERE t.unmet_dependencies <>
                (SELECT count(*) FROM task_dependencies d WHERE d.task_id = t.id AND NOT d.met)
            UNION SELECT d.task_id FROM task_dependencies d JOIN tasks t ON t.id = d.depends_on_task_id
             WHERE d.met <> (t.status = 'DONE')
            UNION SELECT t.id FROM tasks t WHERE t.attempt <> (SELECT count(*) FROM attempts a WHERE a.task_id = t.id)
            UNION SELECT t.id FROM tasks t WHERE (CASE WHEN t.status = 'IN_PROGRESS' THEN 1 ELSE 0 END) <>
                (SELECT count(*) FROM attempts a WHERE a.task_id = t.id AND a.ended_at IS NULL
                    AND a.attempt = t.attempt AND a.agent = t.assigned_agent)
            """,
        )
        == []
    )


def utc(*when: int) -> datetime:
    return datetime(*when, tzinfo=UTC)


# --- every shape ------------------------------------------------------------------------------------------------------


def test_each_sample_is_expected() -> None:
    assert sorted(EXPECTED) == NAMES


@every_sample
def test_everything_of_every_shape_comes_over(board: Coordinator, board_url: str, sample: Path, request) -> None:
    tasks, notes, history, events, edges, left_out, next_id = EXPECTED[request.node.callspec.params["sample"]]
    report = board.adopt(source=sample)
    assert {name: report.carried[name] for name in ("tasks", "notes", "history", "events")} == {
        "tasks": tasks,
        "notes": notes,
        "history": history,
        "events": events,
    }
    assert report.found == {
        "tasks": tasks,
        "task_dependencies": len(edges) + left_out,
        "notes": notes,
        "history": history,
        "events": events,
    }
    assert (report.left_out_total, report.repairs_total, report.next_id) == (left_out, 0, next_id)
    assert rows(board_url, "SELECT task_id, depends_on_task_id FROM task_dependencies ORDER BY 1, 2") == [
        (f"TASK-{one}", f"TASK-{other}") for one, other in edges
    ]
    kept = "SELECT id, title, status, role_boundary, priority, assigned_agent FROM tasks ORDER BY id"
    assert rows(board_url, kept) == source_rows(sample, kept)
    told_by = "SELECT id, task_id, author, note_type, content FROM notes ORDER BY id"
    assert rows(board_url, told_by) == source_rows(sample, told_by)
    assert [row[:3] for row in rows(board_url, "SELECT id, task_id, action, agent FROM history ORDER BY id")] == [
        tuple(row) for row in source_rows(sample, "SELECT id, task_id, action FROM history ORDER BY id")
    ]
    assert board.dispatch(title="Next", role="worker").task.id == next_id
    assert_holds_together(board_url)


@every_sample
def test_ready_tasks_are_exactly_those_whose_dependencies_are_done(board: Coordinator, sample: Path, request) -> None:
    board.adopt(source=sample)
    edges = EXPECTED[request.node.callspec.params["sample"]][4]
    status = dict(source_rows(sample, "SELECT id, status FROM tasks"))
    waiting = {f"TASK-{one}" for one, other in edges if status[f"TASK-{other}"] != "DONE"}
    now = datetime.now(UTC)
    expected = set()
    for task_id, stands, lease in source_rows(sample, "SELECT id, status, lease_until FROM tasks"):
        ended = lease is not None and datetime.fromisoformat(str(lease)).replace(tzinfo=UTC) < now
        if task_id not in waiting and (stands == "TODO" or (stands == "IN_PROGRESS" and ended)):
            expected.add(task_id)
    found = set()
    for role in ("worker", "reviewer"):
        while claim := board.claim_next(role=role, agent="newcomer"):
            found.add(claim.task.id)
    assert found == expected


@every_sample
def test_the_source_stays_byte_for_byte(board: Coordinator, sample: Path) -> None:
    before = folder_of(sample)
    board.adopt(source=sample)
    assert folder_of(sample) == before


@every_sample
def test_times_stay_as_they_were(board: Coordinator, board_url: str, sample: Path) -> None:
    board.adopt(source=sample)
    times = "SELECT created_at, updated_at FROM tasks ORDER BY id"
    for ours, theirs in zip(rows(board_url, times), source_rows(sample, times), strict=True):
        assert [parse_moment(str(each)) for each in ours] == [parse_moment(each) for each in theirs]
    times = "SELECT created_at FROM history ORDER BY id"
    assert [parse_moment(str(each)) for (each,) in rows(board_url, times)] == [
        parse_moment(each) for (each,) in source_rows(sample, times)
    ]


@one_sample("written-by-HEAD")
def test_events_keep_their_order_payload_and_numbers(board: Coordinator, sample: Path) -> None:
    board.adopt(source=sample)
    batch = board.next_events(consumer="reader", from_start=True, limit=500)
    wanted = source_rows(sample, "SELECT id, event_type, payload, created_at FROM events ORDER BY id")
    assert [(each.id, each.event, each.payload) for each in batch.events] == [
        (number, kind, json.loads(payload)) for number, kind, payload, _ in wanted
    ]
    assert [each.created_at for each in batch.events] == [parse_moment(at) for *_, at in wanted]
    board.dispatch(title="New", role="worker")
    assert [each.id for each in board.next_events(consumer="reader", acknowledge=True).events] == [28]


@one_sample("schema-10")
def test_an_event_that_never_expires_stays_so(board: Coordinator, board_url: str, sample: Path) -> None:
    board.adopt(source=sample)
    assert rows(board_url, "SELECT ttl_seconds FROM events ORDER BY id") == [(259200,), (259200,), (None,)]


def test_ids_and_positions_never_return_although_the_newest_were_pruned(
    board: Coordinator, board_url: str, planted: Planted
) -> None:
    """SQ-22, MV-04"""
    planted.task("TASK-1", status="IN_PROGRESS", assigned_agent="bob", lease_until="2099-01-01 00:00:00")
    for table in ("notes", "history", "events"):
        row = {"created_at": AT} if table == "events" else {"task_id": "TASK-1", "created_at": AT}
        named = {"notes": {"author": "a", "content": "c"}, "history": {"agent": "a", "action": "CLAIM"}}
        planted.add(
            table,
            *({**row, **named.get(table, {"event_type": "task.claimed", "payload": "{}"})} for _ in range(9)),
        )
        with closing(sqlite3.connect(planted.path, isolation_level=None)) as connection:
            connection.execute(f"DELETE FROM {table} WHERE id > 5")
    board.adopt(source=planted.path)
    board.comment(task="TASK-1", text="new")
    highest = {table: rows(board_url, f"SELECT max(id) FROM {table}")[0][0] for table in ("notes", "history")}
    highest["events"] = board.next_events(consumer="c", from_start=True).events[-1].id
    assert all(value > 9 for value in highest.values()), highest


@pytest.mark.parametrize(
    ("table", "row"),
    [
        ("history", {"task_id": "TASK-41", "agent": "a", "action": "CLAIM", "created_at": AT}),
        ("notes", {"task_id": "TASK-41", "author": "a", "content": "c", "created_at": AT}),
        ("events", {"created_at": AT, "event_type": "task.created", "payload": '{"task_id":"TASK-41"}'}),
        ("task_seq", {"id": 1, "next_id": 41}),
    ],
)
def test_the_next_number_is_above_every_number_ever_used(
    board: Coordinator, planted: Planted, table: str, row: dict[str, object]
) -> None:
    planted.task("TASK-7")
    planted.add("task_seq", {"next_id": 3}, {"next_id": 2})
    planted.add(table, row)
    assert board.adopt(source=planted.path).next_id == "TASK-42"
    assert board.dispatch(title="Next", role="worker").task.number == 42


def test_a_title_cannot_pretend_a_number_and_a_named_dependency_is_no_use(board: Coordinator, planted: Planted) -> None:
    planted.task("TASK-1", depends_on="TASK-404")
    payload = json.dumps({"task_id": "TASK-1", "title": '"task_id":"TASK-900"'})
    planted.add("events", {"created_at": AT, "event_type": "task.created", "payload": payload})
    assert board.adopt(source=planted.path).next_id == "TASK-2"


# --- holders ----------------------------------------------------------------------------------------------------------


@one_sample("schema-08")
def test_a_live_holder_goes_on_with_its_handle(board: Coordinator, board_url: str, sample: Path) -> None:
    board.adopt(source=sample)
    (held,) = board.mine(agent="bob")
    assert (held.handle, held.lease_until) == ("TASK-2@1", utc(2099, 1, 1))
    board.log_progress(handle="TASK-2", note="on", agent="bob")
    assert board.complete(handle="TASK-2@1", agent="bob").task.status == "DONE"
    assert_holds_together(board_url)


@one_sample("schema-08")
def test_an_expired_lease_is_taken_back_by_the_next_claim(board: Coordinator, board_url: str, sample: Path) -> None:
    """QL-01"""
    board.adopt(source=sample)
    claim = board.claim_next(role="worker", agent="dan")
    assert claim is not None and claim.handle == "TASK-3@2"
    found = board.view(task="TASK-3").history
    assert [each.action for each in found[:2]] == ["CLAIM", "EXPIRE"]
    assert "carol" in found[1].detail
    assert_holds_together(board_url)


@one_sample("written-by-HEAD")
def test_who_worked_in_this_round_may_not_review_and_who_was_rejected_may(board: Coordinator, sample: Path) -> None:
    """QL-26"""
    board.adopt(source=sample)
    with pytest.raises(SelfReview):
        board.approve(task="TASK-6", agent="carol")
    assert board.approve(task="TASK-6", agent="rita").status == "DONE"
    # TASK-7: frank was rejected, gina holds it.
    assert [(each.agent, each.outcome) for each in board.view(task="TASK-7").attempts] == [
        ("gina", None),
        ("frank", "submitted"),
    ]
    board.extend_lease(handle="TASK-7@2", agent="gina")
    board.complete(handle="TASK-7@2", review=True, agent="gina")
    with pytest.raises(SelfReview):
        board.approve(task="TASK-7", agent="gina")
    assert board.approve(task="TASK-7", agent="frank").status == "DONE"


@one_sample("schema-10")
def test_a_transfer_tells_both_and_both_may_not_review(board: Coordinator, sample: Path) -> None:
    board.adopt(source=sample)
    (transfer,) = [each for each in board.view(task="TASK-5").history if each.action == "TRANSFER"]
    assert (transfer.agent, transfer.detail, transfer.attempt) == ("zed", "zed→erin", 2)
    for agent in ("zed", "erin"):
        with pytest.raises(SelfReview):
            board.approve(task="TASK-5", agent=agent)


@one_sample("schema-08")
def test_a_blocked_task_keeps_its_reason_and_can_be_unblocked(board: Coordinator, sample: Path) -> None:
    board.adopt(source=sample)
    view = board.view(task="TASK-4")
    assert (view.task.status, view.notes[0].note_type, view.notes[0].content) == (
        "BLOCKED",
        "BLOCKED",
        "waiting for copy",
    )
    assert view.attempts[0].outcome == "blocked"
    assert board.unblock(task="TASK-4").status == "TODO"


def test_done_without_history_the_first_claimer_did_it_and_nothing_is_wrong(
    board: Coordinator, planted: Planted
) -> None:
    """The tool pruned history, so most of what was done long ago has none."""
    planted.task("TASK-1", status="DONE", claimed_by="bob")
    planted.task("TASK-2", status="DONE")
    planted.task("TASK-3", status="CANCELLED")
    board.adopt(source=planted.path)
    done = [(each.task.id, [(one.agent, one.outcome) for one in each.attempts]) for each in board.export()]
    assert done == [("TASK-1", [("bob", "completed")]), ("TASK-2", [("unknown", "completed")]), ("TASK-3", [])]
    assert board.examine() == []


def test_under_review_without_history_the_first_claimer_did_it(board: Coordinator, planted: Planted) -> None:
    planted.task("TASK-1", status="IN_REVIEW", claimed_by="bob")
    planted.task("TASK-2", status="IN_REVIEW")
    report = board.adopt(source=planted.path)
    with pytest.raises(SelfReview):
        board.approve(task="TASK-1", agent="bob")
    assert told(report, "nobody knows who did the work under review") == [("TASK-2", "open to any reviewer")]
    assert board.approve(task="TASK-2", agent="bob").status == "DONE"


@pytest.mark.parametrize(
    ("lease", "what"),
    [
        (None, "IN_PROGRESS without a lease"),
        ("9999-12-31 00:00:00", "lease_until is absurd or cannot be read"),
        ("19063-01-01 00:00:00", "lease_until is absurd or cannot be read"),
        ("soon", "lease_until is absurd or cannot be read"),
        (b"\x00\xff", "lease_until is absurd or cannot be read"),
    ],
)
def test_a_lease_that_never_ends_ends_in_15_minutes(
    board: Coordinator, board_url: str, planted: Planted, lease: object, what: str
) -> None:
    planted.task("TASK-1", status="IN_PROGRESS", assigned_agent="bob", lease_until=lease)
    report = board.adopt(source=planted.path)
    assert told(report, what) == [("TASK-1", "ends 15 minutes after the adoption")]
    (held,) = board.mine(agent="bob")
    assert held.lease_until is not None
    assert abs(held.lease_until - datetime.now(UTC) - timedelta(minutes=15)) < timedelta(seconds=30)
    age(board_url, 1_000)
    assert board.claim_next(role="worker", agent="dan").handle == "TASK-1@2"


@pytest.mark.parametrize("agent", [None, "", "  "])
def test_in_progress_without_a_holder_goes_back_into_the_queue(
    board: Coordinator, planted: Planted, agent: object
) -> None:
    planted.task("TASK-1", status="IN_PROGRESS", assigned_agent=agent, lease_until="2099-01-01 00:00:00")
    report = board.adopt(source=planted.path)
    assert told(report, "IN_PROGRESS without a holder") == [("TASK-1", "put back into the queue")]
    assert board.claim_next(role="worker").task.id == "TASK-1"


def test_attempts_are_rebuilt_from_a_history_with_holes(board: Coordinator, board_url: str, planted: Planted) -> None:
    planted.task("TASK-1", status="IN_PROGRESS", assigned_agent="eve", lease_until="2099-01-01 00:00:00")
    planted.tell(
        "TASK-1",
        ("ann", "PROGRESS"),  # her CLAIM was pruned
        ("bob", "CLAIM"),  # so her lease had expired
        ("bob→cid", "TRANSFER"),
        ("cid", "REVIEW"),
        ("ann", "REVIEW"),  # a rejection, since it was claimed again
        ("dan", "CLAIM"),
        ("dan", "BLOCK"),
        ("eve", "CLAIM"),
    )
    board.adopt(source=planted.path)
    attempts = [(each.attempt, each.agent, each.outcome) for each in reversed(board.view(task="TASK-1").attempts)]
    assert attempts == [
        (1, "ann", "expired"),
        (2, "bob", "transferred"),
        (3, "cid", "submitted"),
        (4, "dan", "blocked"),
        (5, "eve", None),
    ]
    assert rows(board_url, "SELECT rejected_attempt, attempt, claimed_by FROM tasks") == [(3, 5, "ann")]
    assert rows(board_url, "SELECT attempt FROM history ORDER BY id") == [
        (1,),
        (2,),
        (3,),
        (3,),
        (None,),
        (4,),
        (4,),
        (5,),
    ]
    assert_holds_together(board_url)


# --- dependencies -----------------------------------------------------------------------------------------------------


def test_edges_come_from_the_table_the_text_and_both(board: Coordinator, board_url: str, planted: Planted) -> None:
    for number in range(1, 6):
        planted.task(f"TASK-{number}", status="DONE" if number == 1 else "TODO")
    planted.task("TASK-6", depends_on=" TASK-3 , TASK-5,, ")
    planted.add("task_dependencies", *({"task_id": "TASK-6", "depends_on_task_id": f"TASK-{n}"} for n in (1, 3, 4)))
    report = board.adopt(source=planted.path)
    assert board.view(task="TASK-6").task.depends_on == ("TASK-1", "TASK-3", "TASK-4", "TASK-5")
    assert (report.found["task_dependencies"], report.carried["task_dependencies"]) == (4, 4)
    assert (report.repairs_total, report.left_out_total) == (0, 0)
    with pytest.raises(UnmetDependencies):
        board.claim_task(task="TASK-6")
    assert_holds_together(board_url)


def test_edges_that_cannot_be_are_left_out_and_told(board: Coordinator, board_url: str, planted: Planted) -> None:
    """QL-07, QL-08"""
    planted.task("TASK-1", depends_on="TASK-1,TASK-404,soon,TASK-2,TASK-2,task-2")
    planted.task("TASK-2", depends_on="TASK-3")
    planted.task("TASK-3", depends_on="TASK-1")
    planted.add(
        "task_dependencies",
        {"task_id": "TASK-3", "depends_on_task_id": "TASK-1"},
        {"task_id": "TASK-3", "depends_on_task_id": "TASK-1"},
        {"task_id": "TASK-77", "depends_on_task_id": "TASK-1"},
        {"task_id": None, "depends_on_task_id": None},
    )
    report = board.adopt(source=planted.path)
    left_out = {(each.what, each.id, each.value) for each in report.left_out}
    assert left_out == {
        ("task depends on itself", "TASK-1", "TASK-1"),
        ("dependency does not exist", "TASK-1", "TASK-404"),
        ("dependency is no task id", "TASK-1", "soon"),
        ("dependency is named twice", "TASK-1", "TASK-2"),
        ("dependency is named twice", "TASK-1", "task-2"),
        ("dependency is named twice", "TASK-3", "TASK-1"),
        ("edge of a task that does not exist", "TASK-77", "TASK-1"),
        ("edge of a task that does not exist", "", ""),
        ("edge closes a circle", "TASK-2", "TASK-3"),
    }
    assert report.left_out_total == 9
    assert report.found["task_dependencies"] == report.carried["task_dependencies"] + report.left_out_total
    assert board.claim_next(role="worker").task.id == "TASK-2"
    assert_holds_together(board_url)


def test_a_long_circle_loses_one_edge(board: Coordinator, planted: Planted) -> None:
    count = 3_000
    planted.add(
        "tasks", *({**TASK, "id": f"TASK-{n}", "depends_on": f"TASK-{n % count + 1}"} for n in range(1, count + 1))
    )
    report = board.adopt(source=planted.path)
    assert (report.left_out_total, report.carried["task_dependencies"]) == (1, count - 1)


# --- what does not fit ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-06-01 09:00:00", utc(2026, 6, 1, 9)),
        ("2026-06-01T09:00:00", utc(2026, 6, 1, 9)),
        ("2026-06-01T09:00:00Z", utc(2026, 6, 1, 9)),
        ("2026-06-01T09:00:00+02:00", utc(2026, 6, 1, 7)),
        ("2026-06-01 09:00:00-0800", utc(2026, 6, 1, 17)),
        ("2026-06-01 09:00:00.123456", utc(2026, 6, 1, 9, 0, 0, 123_000)),
        ("2026-06-01 09:00:00.123456789 +0200 CEST m=+0.012", utc(2026, 6, 1, 7, 0, 0, 123_000)),
        ("2026-06-01 09:00:00 +0000 UTC", utc(2026, 6, 1, 9)),
        ("2026-06-01 09:00:00 UTC", utc(2026, 6, 1, 9)),
        (" 2026-06-01 09:00 ", utc(2026, 6, 1, 9)),
        ("2026-06-01", utc(2026, 6, 1)),
        (1_780_304_400, utc(2026, 6, 1, 9)),
        ("1780304400123", utc(2026, 6, 1, 9, 0, 0, 123_000)),
        (b"2026-06-01 09:00:00", utc(2026, 6, 1, 9)),
    ],
)
def test_times_are_read_in_every_shape(board: Coordinator, planted: Planted, written: object, moment: datetime) -> None:
    """MV-05"""
    planted.task("TASK-1", created_at=written)
    report = board.adopt(source=planted.path)
    assert (board.view(task="TASK-1").task.created_at, report.repairs_total) == (moment, 0)


@pytest.mark.parametrize(
    "written",
    ["soon", "", "2026-13-45 09:00:00", 7, 1e300, b"\xff\x00", "0001-01-01", "2026-06-01 25:00:00 CEST", "9" * 15],
)
def test_times_that_cannot_be_read_are_taken_from_what_is_near_and_told(
    board: Coordinator, planted: Planted, written: object
) -> None:
    """MV-05"""
    planted.task("TASK-1", created_at=written, updated_at="2026-06-05 10:00:00")
    planted.tell("TASK-1", ("system", "DISPATCH"))
    planted.task("TASK-2", created_at="2026-06-04", updated_at=written)
    planted.task("TASK-3", created_at=None, updated_at=None)
    report = board.adopt(source=planted.path)
    assert [id_ for id_, _ in told(report, "created_at cannot be read")] == ["TASK-1"]
    assert [id_ for id_, _ in told(report, "updated_at cannot be read")] == ["TASK-2"]
    assert [id_ for id_, _ in told(report, "created_at is missing")] == ["TASK-3"]
    assert board.view(task="TASK-1").task.created_at == utc(2026, 6, 1, 9)
    assert board.view(task="TASK-2").task.updated_at == utc(2026, 6, 4)
    assert abs(board.view(task="TASK-3").task.created_at - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("column", "value", "what", "kept"),
    [
        ("title", None, "title is missing", "(untitled TASK-1)"),
        ("title", "  ", "title is missing", "(untitled TASK-1)"),
        ("title", 42, "title is not text", "42"),
        ("title", b"bytes", "title is not text", "bytes"),
        ("title", "a\0b", "title holds NUL or broken characters", "a\ufffdb"),
        ("title", "a\n\tb", "title holds control characters", "a b"),
        ("title", "x" * 600, "title is too long", "x" * 499 + "…"),
        ("role_boundary", None, "role_boundary is missing", "worker"),
        ("title", "\u200b", "title is missing", "(untitled TASK-1)"),
        ("role_boundary", " ", "role_boundary is missing", "worker"),
        ("role_boundary", "re\u0301dacteur", "role_boundary holds invisible or decomposed characters", "r\xe9dacteur"),
        ("role_boundary", "work\u200ber", "role_boundary holds invisible or decomposed characters", "worker"),
        ("role_boundary", "worker\u3164", "role_boundary holds invisible or decomposed characters", "worker"),
        ("project", None, "project is missing", "default"),
        ("priority", -5, "priority is out of range", 0),
        ("priority", 5000, "priority is out of range", 999),
        ("priority", 2**62, "priority is out of range", 999),
        ("priority", "7", "priority is no whole number", 7),
        ("priority", "high", "priority is no number", 100),
        ("priority", None, "priority is no number", 100),
        ("status", "done", "status is written otherwise", "DONE"),
        ("status", "WONTFIX", "status does not exist", "BLOCKED"),
        ("status", None, "status does not exist", "BLOCKED"),
        ("assigned_agent", "bob", "holder of a task that is not IN_PROGRESS", None),
    ],
)
def test_a_cell_of_a_task_is_made_fit_and_told(
    board: Coordinator, board_url: str, planted: Planted, column: str, value: object, what: str, kept: object
) -> None:
    """MV-01, MV-03"""
    planted.task("TASK-1", **{column: value})
    report = board.adopt(source=planted.path)
    assert [id_ for id_, _ in told(report, what)] == ["TASK-1"], report.repairs
    assert report.repairs_total == 1
    assert getattr(board.view(task="TASK-1").task, column) == kept


@pytest.mark.parametrize(
    ("holder", "name"),
    [("Jose\u0301", "Jos\xe9"), ("webhooks", "webhooks-agent"), ("s-" + "0" * 24, "s-" + "0" * 24 + "-agent")],
)
def test_whoever_holds_an_adopted_task_can_finish_it(
    board: Coordinator, planted: Planted, holder: str, name: str
) -> None:
    planted.task("TASK-1", status="IN_PROGRESS", assigned_agent=holder, lease_until="2126-01-01 00:00:00")
    report = board.adopt(source=planted.path)
    assert [each.id for each in report.repairs if each.what.startswith("assigned_agent ")] == ["TASK-1"]
    assert board.complete(handle="TASK-1@1", agent=name).task.status == "DONE"


def test_the_whole_of_a_title_that_is_too_long_is_in_the_body(board: Coordinator, planted: Planted) -> None:
    planted.task("TASK-1", title="word " * 200)
    board.adopt(source=planted.path)
    assert board.view(task="TASK-1").task.body == ("word " * 200).strip()


def test_an_unknown_status_waits_for_somebody_with_a_note_that_says_so(board: Coordinator, planted: Planted) -> None:
    planted.task("TASK-1", status="WONTFIX")
    board.adopt(source=planted.path)
    (note,) = board.view(task="TASK-1").notes
    assert (note.author, note.note_type) == ("system", "SYSTEM")
    assert "WONTFIX" in note.content
    assert board.claim_next(role="worker") is None


def test_ids_that_are_no_ids_get_numbers_and_take_their_story_along(
    board: Coordinator, board_url: str, planted: Planted
) -> None:
    for task_id in ("task-1", "TASK-1", "API-7", None, "TASK-0", "TASK-" + "9" * 17, "TASK-007", "TASK-5", "TASK-5"):
        planted.task(task_id, title=f"was {task_id}")
    planted.task("TASK-3", depends_on="API-7")
    planted.add("notes", {"task_id": "API-7", "author": "a", "content": "of API-7", "created_at": AT})
    planted.add("events", {"created_at": AT, "event_type": "task.created", "payload": '{"task_id":"API-7"}'})
    report = board.adopt(source=planted.path)
    assert told(report, "id is used twice") == [("TASK-5", "is TASK-8"), ("task-1", "is TASK-9")]
    assert told(report, "id is not TASK-n") == [
        ("API-7", "is TASK-10"),
        ("", "is TASK-11"),
        ("TASK-0", "is TASK-12"),
        ("TASK-" + "9" * 17, "is TASK-13"),
    ]
    assert told(report, "id is written otherwise") == [("TASK-007", "is TASK-7")]
    assert report.carried["tasks"] == report.found["tasks"] == 10
    titles = dict(rows(board_url, "SELECT title, id FROM tasks"))
    assert (titles["was TASK-1"], titles["was task-1"]) == ("TASK-1", "TASK-9")
    view = board.view(task="TASK-10")
    assert (view.notes[0].content, view.dependents) == ("of API-7", ("TASK-3",))
    (event,) = board.list_events(ref="TASK-10")
    assert event.payload == {"task_id": "TASK-10"}
    assert report.next_id == "TASK-14"


def test_notes_and_history_are_made_fit_or_left_out(board: Coordinator, planted: Planted) -> None:
    planted.task("TASK-1")
    note = {"task_id": "TASK-1", "author": "a", "content": "c", "created_at": AT}
    planted.add(
        "notes",
        {**note, "note_type": None},
        {**note, "note_type": "WEIRD"},
        {**note, "note_type": "progress"},
        {**note, "author": None},
        {**note, "content": "x" * 25_000},
        {**note, "content": "a\0b"},
        {**note, "content": None},
        {**note, "task_id": "TASK-99"},
    )
    planted.add(
        "history",
        {"task_id": "TASK-1", "agent": None, "action": None, "created_at": "never"},
        {"task_id": None, "agent": "a", "action": "CLAIM", "created_at": AT},
    )
    report = board.adopt(source=planted.path)
    notes = list(reversed(board.view(task="TASK-1").notes))
    assert [each.note_type for each in notes[:3]] == [None, "COMMENT", "PROGRESS"]
    assert notes[3].author == "unknown"
    assert "".join(each.content for each in notes[4:7]) == "x" * 25_000
    assert [each.content for each in notes[7:]] == ["a\ufffdb", ""]
    (entry,) = board.view(task="TASK-1").history
    assert (entry.agent, entry.action) == ("unknown", "UPDATE")
    assert [(each.table, each.id) for each in report.left_out] == [("notes", "8"), ("history", "2")]
    assert report.kinds["notes: content is too long"] == 1


def test_payloads_that_are_no_objects_are_kept_as_text(board: Coordinator, planted: Planted) -> None:
    """MV-01"""
    planted.task("TASK-1")
    payloads = [
        "not json",
        "[1]",
        "",
        None,
        '{"n": NaN}',
        '{"n": 1e999}',
        "[" * 100_000,
        '{"a": "b\\u0000c"}',
        '{"a": "\\\\u0000"}',
        '{"n": 99999999999999999999}',
        "x" * 200_000,
    ]
    planted.add("events", *({"created_at": AT, "event_type": "e", "payload": each} for each in payloads))
    planted.add(
        "events",
        *({"created_at": AT, "event_type": "e", "payload": "{}", "ttl_seconds": each} for each in (-1, "abc", 10**18)),
    )
    report = board.adopt(source=planted.path)
    found = [each.payload for each in board.next_events(consumer="c", from_start=True).events]
    assert found[:7] == [
        {"raw": text} for text in ("not json", "[1]", "", "", '{"n": NaN}', '{"n": 1e999}', "[" * 12_500)
    ]
    assert found[7:10] == [{"a": "b\ufffdc"}, {"a": "\\u0000"}, {"raw": '{"n": 99999999999999999999}'}]
    assert report.kinds["events: payload is no JSON object that fits"] == 9
    assert report.kinds["events: payload holds NUL or broken characters"] == 1
    assert (report.kinds["events: ttl_seconds is no time to live"], report.carried["events"]) == (2, 14)


def test_the_report_is_bounded_and_its_totals_are_true(board: Coordinator, planted: Planted) -> None:
    planted.add(
        "tasks", *({**TASK, "id": f"TASK-{n}", "priority": 5000, "depends_on": "TASK-999999"} for n in range(1, 301))
    )
    report = board.adopt(source=planted.path)
    assert (len(report.repairs), report.repairs_total) == (LISTED_MAX, 300)
    assert (len(report.left_out), report.left_out_total) == (LISTED_MAX, 300)
    assert report.kinds == {"tasks: priority is out of range": 300, "tasks: dependency does not exist": 300}


NASTY = (
    *(None, "", " ", "a\0b", "\x1b[31m", b"\xff\xfe\0", b"", -1, 0, 7, 2**62, -(2**63), 1.5, 1e300, float("inf")),
    *(
        "TASK-1",
        "task-2",
        "TASK-3,TASK-4",
        "x" * 700,
        "é🚀",
        "a→b",
        "→",
        "system",
        AT,
        "2099-01-01 00:00:00",
        "99999-01-01",
    ),
    *("IN_PROGRESS", "IN_REVIEW", "DONE", "CLAIM", "REVIEW", "TRANSFER"),
    *("{}", "[]", '{"task_id": 7, "project": [], "agent": "\\ud800"}', "{" * 2_000),
)


@pytest.mark.parametrize("seed", range(5))
def test_whatever_such_a_file_holds_it_comes_over_or_is_told(
    board: Coordinator, board_url: str, planted: Planted, seed: int
) -> None:
    """MV-03"""
    chance = random.Random(seed)
    columns = {
        "tasks": ("id", *TASK, "assigned_agent", "lease_until", "claimed_by", "depends_on"),
        "notes": ("task_id", "author", "note_type", "content", "created_at"),
        "history": ("task_id", "agent", "action", "created_at"),
        "events": ("created_at", "event_type", "payload", "ttl_seconds"),
        "task_dependencies": ("task_id", "depends_on_task_id"),
        "task_seq": ("id", "next_id"),
    }
    for table, names in columns.items():
        planted.add(table, *({name: chance.choice(NASTY) for name in names} for _ in range(60)))
    for number in range(10, 60):
        odd = {name: chance.choice(NASTY) for name in chance.sample(columns["tasks"][1:], 4)}
        planted.task(f"TASK-{number}", **{"status": "IN_PROGRESS", "assigned_agent": "bob", "lease_until": AT, **odd})
        story = {"task_id": f"TASK-{number}", "created_at": AT}
        planted.add(
            "history",
            *({**story, "agent": chance.choice(NASTY), "action": chance.choice(NASTY)} for _ in range(20)),
        )
    report = board.adopt(source=planted.path)
    assert report.carried["tasks"] == report.found["tasks"] == 110
    dropped = {table: sum(f.table == table for f in report.left_out) for table in ("notes", "history")}
    assert report.carried["history"] == report.found["history"] - dropped["history"]
    assert report.carried["events"] == report.found["events"]
    assert_holds_together(board_url)
    assert len(list(board.export())) == 110
    while board.claim_next(role="worker", agent="dan"):
        pass
    assert_holds_together(board_url)


# --- refusals ---------------------------------------------------------------------------------------------------------


@one_sample("schema-08")
def test_a_board_with_tasks_is_refused_and_stays(board: Coordinator, board_url: str, sample: Path) -> None:
    """MV-08"""
    board.dispatch(title="Mine", role="worker")
    with refused(board_url, NotEmpty):
        board.adopt(source=sample)


@one_sample("schema-08")
def test_a_second_adoption_is_refused(board: Coordinator, board_url: str, sample: Path) -> None:
    """MV-08"""
    board.adopt(source=sample)
    with refused(board_url, NotEmpty):
        board.adopt(source=sample)


@one_sample("schema-08")
def test_a_board_of_an_older_schema_is_refused_as_it_is(db_url: str, sample: Path) -> None:
    migrate.upgrade(db_url, "0008")
    before = migrate.current(db_url)
    with pytest.raises(SchemaBehind):
        service.adopt(sample, db_url)
    assert migrate.current(db_url) == before


@one_sample("written-by-HEAD")
def test_a_board_with_events_but_no_task_is_empty_enough(board: Coordinator, sample: Path) -> None:
    board.emit(event_type="hello")
    board.emit(event_type="hello")
    assert [each.id for each in board.next_events(consumer="c", from_start=True).events] == [1, 2]
    board.adopt(source=sample)
    found = board.next_events(consumer="c", acknowledge=True).events
    assert [each.id for each in found] == list(range(3, 30))
    assert found[0].payload["task_id"] == "TASK-1"


def test_what_is_no_board_of_the_kanban_tool_is_refused_each_with_its_own_message(
    board: Coordinator, board_url: str, tmp_path: Path, sqlite_template: Path
) -> None:
    """AL-13"""
    (tmp_path / "words.db").write_text("just words, and many of them")
    (tmp_path / "empty.db").write_bytes(b"")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE tasks (id, name)")
    with closing(sqlite3.connect(tmp_path / "none.db")) as connection:
        connection.execute("VACUUM")
    shutil.copy(sqlite_template, tmp_path / "ours.db")
    torn = bytearray((SAMPLES / "written-by-HEAD.db").read_bytes())
    torn[4096:] = b"\xaa" * (len(torn) - 4096)
    (tmp_path / "torn.db").write_bytes(torn)
    for name, error, match in (
        ("missing.db", NotFound, "there is no file"),
        (".", NotABoard, "is a folder"),
        ("n" * 300, InvalidInput, "cannot be had: File name too long"),
        ("words.db", NotABoard, "is not a SQLite file"),
        ("empty.db", NotABoard, "is not a SQLite file"),
        ("other.db", NotABoard, "is no board of the kanban tool: its tables are tasks"),
        ("none.db", NotABoard, "not a SQLite file|its tables are none"),
        ("ours.db", NotABoard, "is a board of coordinate already"),
        ("torn.db", NotABoard, "is damaged"),
    ):
        before = folder_of(tmp_path / name)
        with refused(board_url, error, match):
            board.adopt(source=tmp_path / name)
        assert folder_of(tmp_path / name) == before


def test_a_board_is_not_adopted_into_itself(tmp_path: Path, sqlite_template: Path) -> None:
    path = Path(shutil.copy(sqlite_template, tmp_path / "board.db"))
    with coordinate.connect(path) as board, pytest.raises(InvalidInput):
        board.adopt(source=path)
    kanban = Path(shutil.copy(SAMPLES / "schema-08.db", tmp_path / "kanban.db"))
    before = folder_of(kanban)
    with pytest.raises(InvalidInput):
        service.adopt(kanban, kanban)
    assert folder_of(kanban) == before


@one_sample("schema-08")
def test_adopting_makes_the_target_unless_the_source_is_no_board(db_url: str, sample: Path, tmp_path: Path) -> None:
    (tmp_path / "words.db").write_text("just words")
    with pytest.raises(NotABoard):
        service.adopt(tmp_path / "words.db", db_url)
    if not is_postgres(db_url):
        assert not Path(db_url).exists()
    assert service.adopt(sample, db_url).carried["tasks"] == 8
    with coordinate.connect(db_url) as board:
        assert board.stats().total_tasks == 8


# --- while others work, and when it is interrupted --------------------------------------------------------------------


def test_what_lies_in_the_log_only_comes_over_and_the_neighbours_stay(board: Coordinator, planted: Planted) -> None:
    """SQ-09: the board's newest rows are in its write-ahead log, and another process has it open."""
    script = (
        "import sqlite3, sys, time\n"
        "c = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "c.execute('PRAGMA journal_mode = WAL'); c.execute('PRAGMA wal_autocheckpoint = 0')\n"
        'c.execute("INSERT INTO tasks (id, title, status, role_boundary, priority, created_at, updated_at)'
        " VALUES ('TASK-1', 'In the log', 'TODO', 'worker', 1, '2026-06-01', '2026-06-01')\")\n"
        "c.execute('BEGIN IMMEDIATE'); c.execute(\"INSERT INTO tasks (id) VALUES ('TASK-2')\")\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(planted.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == b"ready\n"
        before = folder_of(planted.path)
        assert set(before) == {"planted.db", "planted.db-wal", "planted.db-shm"}
        report = board.adopt(source=planted.path)
        assert folder_of(planted.path) == before
        other.kill()
    assert report.carried["tasks"] == 1
    assert board.view(task="TASK-1").task.title == "In the log"


WRITER = """
import sqlite3, sys, time
number = 0
while True:
    c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=30)
    c.execute("PRAGMA wal_autocheckpoint = 5")
    for _ in range(20):
        number += 1
        c.execute("BEGIN IMMEDIATE")
        c.execute("UPDATE tasks SET title = ?", (str(number),))
        c.execute("UPDATE notes SET content = ?", (str(number),))
        c.execute("COMMIT")
    c.close()
    print(number, flush=True)
    if number % 100 == 0:
        time.sleep(0.3)
"""


@pytest.mark.race
@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_board_that_is_being_written_is_read_as_it_was_at_one_moment(planted: Planted, journal: str) -> None:
    """MV-07: commits, checkpoints, a log begun anew and a log taken away, all the while.

    Each commit changes a page at the file's begin and one at its end, 16 MB apart. The writer rests now and then, for
    who never rests can outrun a reader that the machine leaves no time.
    """
    planted.task("TASK-1")
    with closing(sqlite3.connect(planted.path)) as connection, connection:
        connection.execute(f"PRAGMA journal_mode = {journal}")
        connection.executescript("DROP TABLE notes; CREATE TABLE ballast (bytes); VACUUM;")
        connection.execute("INSERT INTO ballast VALUES (zeroblob(16000000))")
        connection.execute("CREATE TABLE notes (id, task_id, author, note_type, content, created_at)")
    planted.add("notes", {"id": 1, "task_id": "TASK-1", "author": "a", "content": "0", "created_at": AT})
    with subprocess.Popen([sys.executable, "-c", WRITER, str(planted.path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        drain = threading.Thread(target=writer.stdout.read)
        writer.stdout.readline()
        drain.start()
        seen = []
        try:
            while len(seen) < 25 or len(set(seen)) < 5:
                with tidied(planted.path) as board:
                    (begin,) = next(board.rows("SELECT title FROM tasks"))
                    (end,) = next(board.rows("SELECT content FROM notes"))
                assert begin == end
                seen.append(int(begin))
            assert writer.poll() is None
        finally:
            writer.kill()
            drain.join()
    assert seen == sorted(seen)


HALF_WAY = "import sys; from coordinate import service; service.adopt(sys.argv[1], sys.argv[2])"


@pytest.mark.race
def test_a_crash_half_way_leaves_the_board_empty_and_a_second_run_does_it(
    board_url: str, engine: str, planted: Planted
) -> None:
    """MV-08"""
    planted.add("tasks", *({**TASK, "id": f"TASK-{n}", "title": "x" * 400} for n in range(1, 10_001)))
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", HALF_WAY, str(planted.path), board_url]) as adopting:
            wait_until_half_way(adopting, board_url)
            os.kill(adopting.pid, signal.SIGKILL)
        assert adopting.returncode == -signal.SIGKILL
        assert rows(board_url, "SELECT count(*) FROM tasks") == [(0,)]
        assert rows(board_url, "SELECT value FROM counters WHERE kind = 'task'") == [(0,)]
    assert service.adopt(planted.path, board_url).carried["tasks"] == 10_000
    with coordinate.connect(board_url, agent="alice") as board:
        assert board.claim_next(role="worker").task.id == "TASK-1"


def wait_until_half_way(adopting: subprocess.Popen[bytes], url: str) -> None:
    """Until the process has written tasks that nobody else sees yet."""
    log = Path(url + "-wal")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and adopting.poll() is None:
        if not is_postgres(url):
            if log.exists() and log.stat().st_size > 1_000_000:
                return
        elif rows(
            url,
            "SELECT 1 FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE c.relname = 'tasks'"
            " AND c.relnamespace = current_schema()::regnamespace AND l.mode = 'RowExclusiveLock'",
        ):
            time.sleep(0.1)
            return
        time.sleep(0.002)
    pytest.fail("the adoption was never seen half-way")


@pytest.mark.race
@one_sample("written-by-HEAD")
def test_of_many_adoptions_and_dispatches_at_once_nothing_is_mixed(board_url: str, sample: Path) -> None:
    """MV-08: whoever comes first wins; a dispatch comes before, and the adoption is refused, or after it."""
    barrier = threading.Barrier(5)
    adopted: list[bool] = []

    def adopting() -> None:
        barrier.wait()
        try:
            service.adopt(sample, board_url)
            adopted.append(True)
        except NotEmpty:
            adopted.append(False)

    def dispatching() -> None:
        barrier.wait()
        with coordinate.connect(board_url) as board:
            board.dispatch(title="Mine", role="worker")

    threads = [threading.Thread(target=adopting) for _ in range(4)] + [threading.Thread(target=dispatching)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(adopted) == 4
    (mine,) = rows(board_url, "SELECT number FROM tasks WHERE title = 'Mine'")
    assert (sum(adopted), mine[0]) in ((1, 10), (0, 1))


# --- the command ------------------------------------------------------------------------------------------------------


@one_sample("half-upgraded-v0.1.12")
def test_the_command_adopts_prints_its_report_and_refuses_in_json(db_url: str, sample: Path, tmp_path: Path) -> None:
    """IF-04"""

    def command(*args: str) -> subprocess.CompletedProcess[str]:
        adopt = [sys.executable, "-m", "coordinate", "db", "adopt", *args]
        return subprocess.run(adopt, check=False, capture_output=True, text=True)

    done = command(str(sample), "--db", db_url)
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert (report["carried"]["tasks"], report["carried"]["task_dependencies"], report["next_id"]) == (10, 3, "TASK-11")
    with nothing_changes(db_url):
        again = command(str(sample), "--db", db_url)
    assert (again.returncode, json.loads(again.stderr)["code"]) == (2, "not_empty")
    missing = command(str(tmp_path / "no such#file?.db"), "--db", db_url)
    assert (missing.returncode, json.loads(missing.stderr)["code"], missing.stdout) == (2, "not_found", "")


@pytest.mark.parametrize("name", ["sp ace.db", "a#b.db", "a?b.db", "a%20b.db", "é🚀.db", "-lead.db"])
def test_a_path_is_a_path(tmp_path: Path, name: str) -> None:
    """SQ-13"""
    source = Path(shutil.copy(SAMPLES / "schema-10.db", tmp_path / name))
    assert service.adopt(source, tmp_path / f"target {name}").carried["tasks"] == 8
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, f"target {name}"])
