"""Steering: edits, priorities, projects, comments, cancelling and reopening."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from coordinate import Coordinator
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidInput, InvalidState, NotFound, OutdatedRevision
from tests.tables import assert_sound, nothing_changes, refused, rows

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def test_an_edit_changes_what_is_given_and_names_the_old_values(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="Old", role="worker", scopes=["a"])
    given = {
        "title": "New",
        "body": "More",
        "priority": 7,
        "project": "api",
        "not_before": LATER,
        "max_attempts": 2,
    }
    task = board.edit(task="TASK-1", role="reviewer", scopes=["src/**"], **given)
    assert {name: getattr(task, name) for name in given} == given
    assert (task.role_boundary, task.revision) == ("reviewer", 2)
    view = board.view(task="TASK-1")
    assert [scope.pattern for scope in view.scopes] == ["src/**"]
    assert (view.history[0].action, view.history[0].agent) == ("UPDATE", "alice")
    for said in ("title was Old", "priority was 100", "role was worker"):
        assert said in view.history[0].detail
    fields = board.list_events(event_type="task.updated")[0].payload["fields"].split(",")
    assert set(fields) == {*given, "role", "scopes"}
    assert_sound(board_url)


def test_an_edit_that_changes_nothing_writes_nothing(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker", scopes=["a", "b"])
    with nothing_changes(board_url):
        board.edit(task="TASK-1")
        board.edit(task="TASK-1", title="T", priority=100, scopes=["b", "a"])


def test_of_two_edits_of_one_revision_the_second_is_outdated(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    assert board.edit(task="TASK-1", title="A", expected_revision=1).revision == 2
    with refused(board_url, OutdatedRevision) as caught:
        board.edit(task="TASK-1", title="B", expected_revision=1)
    assert (caught.value.facts["revision"], caught.value.exit_status) == (2, 4)


@pytest.mark.parametrize("status", ["DONE", "CANCELLED"])
def test_what_is_finished_is_not_edited(board: Coordinator, board_url: str, status: str) -> None:
    board.dispatch(title="T", role="worker")
    if status == "DONE":
        board.complete(handle=board.claim_next(role="worker"))
    else:
        board.cancel(task="TASK-1")
    with refused(board_url, InvalidState, status):
        board.edit(task="TASK-1", title="X")


def test_an_edit_leaves_the_holder_alone(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    edited = board.edit(task="TASK-1", role="other", not_before=LATER, agent="mona")
    assert (edited.status, edited.assigned_agent, edited.lease_until) == ("IN_PROGRESS", "alice", claim.lease_until)
    released = board.release(handle=claim).task
    assert (released.parked, released.parked_until) == ("later", LATER)


def test_priorities_and_projects_are_set_for_many_and_unknown_ids_left_out(board: Coordinator, board_url: str) -> None:
    for _ in range(3):
        board.dispatch(title="T", role="worker")
    assert board.set_priority(tasks=["TASK-3", "TASK-99", "task-1", "TASK-3"], priority=5) == 2
    assert board.set_project(tasks=["TASK-2"], project="api") == 1
    assert rows(board_url, "SELECT priority, project FROM tasks ORDER BY number") == [
        (5, "default"),
        (100, "api"),
        (5, "default"),
    ]
    updates = board.list_events(event_type="task.priority_updated")
    assert [event.payload["priority"] for event in updates] == ["5", "5"]
    with refused(board_url, InvalidInput):
        board.set_priority(tasks=[], priority=5)
    assert_sound(board_url)


@pytest.mark.parametrize("note_type", ["COMMENT", "DECISION", "REVIEW", "ERROR"])
def test_anybody_may_comment_at_any_status_and_renews_nothing(board: Coordinator, note_type: str) -> None:
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    note = board.comment(task="TASK-1", text="a word", note_type=note_type, agent="mona")
    assert (note.author, note.note_type, note.content) == ("mona", note_type, "a word")
    assert board.mine()[0].lease_until == claim.lease_until
    board.complete(handle=claim)
    assert board.comment(task="TASK-1", text="late").id > note.id


def test_a_note_of_no_such_type_is_refused_by_the_parameters_name(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    with nothing_changes(board_url), pytest.raises(InvalidInput) as refusal:
        board.comment(task="TASK-1", text="a word", note_type="PROGRESS")
    assert refusal.value.facts["field"] == "note_type"


def test_a_task_that_is_dispatched_while_it_is_commented_on_is_there_or_not(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two looks may come before it."""
    board.dispatch(title="T", role="worker")

    def early(tx: Tx, name: str, /, **given: object) -> Callable[[], list[Row]]:
        tx.all(name, **given)
        return list

    monkeypatch.setattr(Tx, "send", early)
    with refused(board_url, NotFound, "there is no TASK-1"):
        board.comment(task="TASK-1", text="a word")


def test_cancel_and_reopen_keep_their_reasons(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker", not_before=LATER)
    cancelled = board.cancel(task="TASK-1", reason="a twin").task
    assert (cancelled.status, cancelled.parked, cancelled.finished_at is not None) == ("CANCELLED", "", True)
    assert board.claim_next(role="worker") is None
    reopened = board.reopen(task="TASK-1", reason="no twin")
    assert (reopened.status, reopened.parked, reopened.parked_until) == ("TODO", "later", LATER)
    assert [entry.detail for entry in board.view(task="TASK-1").history[:2]] == ["no twin", "a twin"]
    assert_sound(board_url)


def test_project_defaults_are_set_and_taken_back(board: Coordinator) -> None:
    assert board.set_project_defaults(name="api", lease_seconds=60).lease_seconds == 60
    assert board.set_project_defaults(name="api", max_attempts=2).lease_seconds is None
