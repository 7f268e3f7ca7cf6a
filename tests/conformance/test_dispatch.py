"""Dispatch: ids, defaults, what a retry answers, and all or nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import coordinate
from coordinate import Coordinator
from coordinate.errors import DependencyCycle, NotFound, UnreachableDependency
from tests.tables import assert_sound, refused, rows

SOON = datetime(2090, 1, 31, 12, 0, 0, 123000, tzinfo=UTC)


def test_a_new_task_is_what_was_given_and_the_defaults_for_the_rest(board: Coordinator) -> None:
    task = board.dispatch(title="  Write the parser ", role="worker").task
    assert (task.id, task.number, task.title, task.status) == ("TASK-1", 1, "Write the parser", "TODO")
    assert (task.role_boundary, task.project, task.priority, task.body) == ("worker", "default", 100, "")
    assert (task.attempt, task.expiries, task.max_attempts, task.unmet_dependencies) == (0, 0, 5, 0)
    assert (task.created_by, task.assigned_agent, task.handle, task.revision) == ("alice", None, None, 1)
    assert task.created_at == task.updated_at
    assert abs(datetime.now(UTC) - task.created_at) < timedelta(seconds=5)
    assert task.created_at.utcoffset() == timedelta(0)


def test_everything_given_is_kept_to_the_character(board: Coordinator) -> None:
    odd = "a%b_c\\d 'q' \"Q\" é🚀 \N{RIGHT-TO-LEFT MARK}\t\r\n \\u0000 end "
    first = board.dispatch(title="First", role="worker").task
    task = board.dispatch(
        title="Ünïcode 🚀 \\u0000",
        role="r" * 100,
        project="api",
        priority=999,
        body=odd,
        depends_on=[first.id, first.id],
        scopes=["./src//api/", "docs/*.md"],
        not_before=SOON.astimezone(tz=None),
        dedup_key="k-1",
        max_attempts=1,
    ).task
    view = board.view(task=task.id)
    assert view.task == task
    assert (task.title, task.body, task.role_boundary) == ("Ünïcode 🚀 \\u0000", odd, "r" * 100)
    assert (task.priority, task.project, task.max_attempts, task.dedup_key) == (999, "api", 1, "k-1")
    assert (task.depends_on, task.unmet_dependencies) == (("TASK-1",), 1)
    assert (task.not_before, task.parked, task.parked_until) == (SOON, "later", SOON)
    assert [scope.pattern for scope in view.scopes] == ["docs/*.md", "src/api"]


def test_ids_have_no_gap_after_refused_dispatches(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="One", role="worker")
    with refused(board_url, NotFound):
        board.dispatch(title="Two", role="worker", depends_on=["TASK-99"])
    with refused(board_url, DependencyCycle, "TASK-2 cannot wait for itself"):
        board.dispatch(title="Two", role="worker", depends_on=["TASK-2"])
    assert board.dispatch(title="Two", role="worker").task.id == "TASK-2"
    assert_sound(board_url)


def test_the_same_dedup_key_answers_the_task_it_made(board: Coordinator, board_url: str) -> None:
    first = board.dispatch(title="Once", role="worker", dedup_key="k")
    assert not first.already
    again = board.dispatch(title="Something else", role="other", dedup_key="k")
    assert again.already
    assert again.task == first.task
    assert board.dispatch(title="Next", role="worker").task.id == "TASK-2"
    assert_sound(board_url)


def test_a_dependency_that_is_done_already_is_met(board: Coordinator) -> None:
    first = board.dispatch(title="First", role="worker").task
    board.complete(handle=board.claim_task(task=first.id))
    second = board.dispatch(title="Second", role="worker", depends_on=[first.id]).task
    assert second.unmet_dependencies == 0
    assert board.claim_next(role="worker").task.id == second.id


def test_a_cancelled_dependency_is_refused(board: Coordinator, board_url: str) -> None:
    first = board.dispatch(title="First", role="worker").task
    board.cancel(task=first.id)
    with refused(board_url, UnreachableDependency, "TASK-1 was cancelled"):
        board.dispatch(title="Second", role="worker", depends_on=[first.id])


def test_a_project_gives_its_tasks_their_lease_and_their_attempts(board: Coordinator) -> None:
    board.set_project_defaults(name="api", lease_seconds=60, max_attempts=2)
    board.dispatch(title="Here", role="worker", project="api")
    board.dispatch(title="There", role="worker")
    here, there = board.claim_batch(role="worker", count=2)
    assert (here.task.max_attempts, here.task.lease_seconds) == (2, 60)
    assert (there.task.max_attempts, there.task.lease_seconds) == (5, 900)
    assert here.lease_until < there.lease_until


def test_a_task_without_an_agent_is_the_systems(board_url: str) -> None:
    with coordinate.connect(board_url) as nobody:
        assert nobody.dispatch(title="One", role="worker").task.created_by == "system"
    assert rows(board_url, "SELECT agent, action FROM history") == [("system", "DISPATCH")]
