"""Dependencies: who waits for whom, how the count stays right, and what can never be met."""

from __future__ import annotations

import pytest

from coordinate import Coordinator
from coordinate.errors import (
    DependencyCycle,
    InvalidState,
    NotFound,
    UnmetDependencies,
    UnreachableDependency,
)
from coordinate.plans import PlannedTask
from tests.tables import assert_sound, nothing_changes, refused, rows, run


def tasks(board: Coordinator, *depends_on: list[int]) -> None:
    """TASK-1, TASK-2, … each depending on the numbers given."""
    for numbers in depends_on:
        board.dispatch(title="T", role="worker", depends_on=[f"TASK-{number}" for number in numbers])


def unmet(board_url: str) -> list[int]:
    return [count for (count,) in rows(board_url, "SELECT unmet_dependencies FROM tasks ORDER BY number")]


def finish(board: Coordinator, task: str, **options: object) -> None:
    board.complete(handle=board.claim_task(task=task), **options)


def test_a_task_becomes_claimable_the_moment_its_last_dependency_is_done(board: Coordinator, board_url: str) -> None:
    tasks(board, [], [], [1, 2])
    assert unmet(board_url) == [0, 0, 2]
    finish(board, "TASK-1")
    assert unmet(board_url) == [0, 0, 1]
    with refused(board_url, UnmetDependencies):
        board.claim_task(task="TASK-3")
    finish(board, "TASK-2")
    assert board.claim_next(role="worker").task.id == "TASK-3"
    assert_sound(board_url)


def test_only_done_counts(board: Coordinator, board_url: str) -> None:
    tasks(board, [], [1])
    claim = board.claim_task(task="TASK-1")
    board.block(handle=claim, reason="r")
    assert unmet(board_url) == [0, 1]
    board.unblock(task="TASK-1")
    board.complete(handle=board.claim_task(task="TASK-1"), review=True)
    assert unmet(board_url) == [0, 1]
    board.approve(task="TASK-1", agent="rita")
    assert unmet(board_url) == [0, 0]
    assert_sound(board_url)


def test_edges_are_added_and_removed_later_too(board: Coordinator, board_url: str) -> None:
    tasks(board, [], [], [])
    assert board.depend_add(task="TASK-3", on="TASK-1").depends_on == ("TASK-1",)
    assert board.depend_add(task="TASK-3", on="TASK-2").unmet_dependencies == 2
    with nothing_changes(board_url):
        assert board.depend_add(task="TASK-3", on="TASK-2").unmet_dependencies == 2
    assert board.depend_remove(task="TASK-3", on="TASK-1").depends_on == ("TASK-2",)
    finish(board, "TASK-2")
    assert board.depend_remove(task="TASK-3", on="TASK-2").unmet_dependencies == 0
    with refused(board_url, NotFound, "TASK-3 does not depend on TASK-2"):
        board.depend_remove(task="TASK-3", on="TASK-2")
    assert_sound(board_url)


@pytest.mark.parametrize("status", ["TODO", "IN_PROGRESS", "BLOCKED", "IN_REVIEW", "DONE", "CANCELLED"])
def test_the_count_equals_the_unmet_edges_at_every_status_of_the_dependent(
    board: Coordinator, board_url: str, status: str
) -> None:
    tasks(board, [], [], [1])
    if status == "CANCELLED":
        board.cancel(task="TASK-3")
    elif status != "TODO":
        finish(board, "TASK-1")
        claim = board.claim_task(task="TASK-3")
        if status == "BLOCKED":
            board.block(handle=claim, reason="r")
        elif status != "IN_PROGRESS":
            board.complete(handle=claim, review=status == "IN_REVIEW")
        board.reopen(task="TASK-1")
    assert unmet(board_url) == [0, 0, 1]
    assert_sound(board_url)
    if status in ("DONE", "CANCELLED"):
        with refused(board_url, InvalidState, status):
            board.depend_add(task="TASK-3", on="TASK-2")
    else:
        assert board.depend_add(task="TASK-3", on="TASK-2").unmet_dependencies == 2
        assert board.depend_remove(task="TASK-3", on="TASK-2").unmet_dependencies == 1
    finish(board, "TASK-1")
    assert unmet(board_url) == [0, 0, 0]
    assert_sound(board_url)


def test_reopening_makes_dependents_wait_again_and_leaves_the_held_one_alone(
    board: Coordinator, board_url: str
) -> None:
    tasks(board, [], [1], [1])
    finish(board, "TASK-1")
    claim = board.claim_task(task="TASK-2")
    reopened = board.reopen(task="TASK-1", reason="it was wrong")
    assert (reopened.status, reopened.result, reopened.finished_at) == ("TODO", None, None)
    with refused(board_url, UnmetDependencies):
        board.claim_task(task="TASK-3")
    assert board.release(handle=claim).task.unmet_dependencies == 1
    assert board.claim_next(role="worker").task.id == "TASK-1"
    assert_sound(board_url)


def test_results_are_shown_with_the_claim_of_what_depends_on_them(board: Coordinator) -> None:
    tasks(board, [], [], [2, 1])
    finish(board, "TASK-1", result="the schema is in docs/schema.md")
    finish(board, "TASK-2")
    claim = board.claim_next(role="worker")
    assert [(each.id, each.met, each.result) for each in claim.dependencies] == [
        ("TASK-1", True, "the schema is in docs/schema.md"),
        ("TASK-2", True, None),
    ]


def test_view_and_lists_show_dependencies_and_dependents_by_number(board: Coordinator) -> None:
    tasks(board, *[[] for _ in range(10)], [10, 2, 9])
    assert board.view(task="TASK-11").task.depends_on == ("TASK-2", "TASK-9", "TASK-10")
    assert board.list_tasks().tasks[-1].depends_on == ("TASK-2", "TASK-9", "TASK-10")
    assert board.view(task="TASK-2").dependents == ("TASK-11",)


# --- what can never be met --------------------------------------------------------------------------------------------


def test_a_cancelled_dependency_is_said_and_never_silently_waited_for(board: Coordinator, board_url: str) -> None:
    """QL-07: cancelled, in every place where somebody looks; and out of it, both ways."""
    tasks(board, [], [1], [1])
    board.cancel(task="TASK-3")
    cancelled = board.cancel(task="TASK-1", reason="not needed", agent="mona")
    assert (cancelled.stranded, cancelled.former_holder) == (("TASK-2",), None)
    assert board.claim_next(role="worker") is None
    why = board.why(task="TASK-2")
    assert (why.ready, [reason.code for reason in why.reasons]) == (False, ["unreachable"])
    assert "unreachable" in [reason.code for reason in board.why_idle(role="worker").reasons]
    assert board.status().unreachable == ("TASK-2",)
    assert [(issue.task_id, issue.severity) for issue in board.lint()] == [("TASK-2", "error")]
    assert [each.reachable for each in board.view(task="TASK-2").dependencies] == [False]
    with refused(board_url, UnmetDependencies, "CANCELLED"):
        board.claim_task(task="TASK-2")
    with refused(board_url, UnreachableDependency):
        board.depend_add(task="TASK-2", on="TASK-1")
    board.reopen(task="TASK-1")
    assert board.why(task="TASK-2").reasons[0].code == "dependency"
    board.cancel(task="TASK-1")
    assert board.depend_remove(task="TASK-2", on="TASK-1").unmet_dependencies == 0
    assert board.claim_next(role="worker").task.id == "TASK-2"
    assert_sound(board_url)


def test_who_is_stranded_is_said_whatever_was_cancelled_before_them(board: Coordinator, board_url: str) -> None:
    plan = [PlannedTask("root", "Root", "worker")]
    plan += [PlannedTask(f"k{n}", "T", "worker", depends_on=("root",)) for n in range(202)]
    board.dispatch_plan(plan=plan)
    run(board_url, "UPDATE tasks SET status = 'CANCELLED' WHERE number BETWEEN 2 AND 101")
    seen = board.view(task="TASK-1")
    assert (seen.dependents[-1], len(seen.dependents), seen.more_dependents) == ("TASK-101", 100, 102)
    cancelled = board.cancel(task="TASK-1")
    assert (cancelled.stranded[0], len(cancelled.stranded), cancelled.more_stranded) == ("TASK-102", 100, 2)


def test_a_dependency_that_never_existed_is_refused(board: Coordinator, board_url: str) -> None:
    """QL-07: never existed, at dispatch and later."""
    tasks(board, [])
    with refused(board_url, NotFound, "TASK-9"):
        board.dispatch(title="T", role="worker", depends_on=["TASK-9"])
    with refused(board_url, NotFound, "TASK-9"):
        board.depend_add(task="TASK-1", on="TASK-9")
    with refused(board_url, NotFound, "TASK-9"):
        board.depend_add(task="TASK-9", on="TASK-1")


def test_a_blocked_dependency_is_named_as_the_reason(board: Coordinator) -> None:
    """QL-07: the work on it failed; the dependent waits, and says for what."""
    tasks(board, [], [1])
    board.block(handle=board.claim_task(task="TASK-1"), reason="r")
    reason = board.why(task="TASK-2").reasons[0]
    assert (reason.code, reason.ref) == ("dependency", "TASK-1")
    assert "BLOCKED" in reason.message


def test_cancelling_a_held_task_ends_the_hold(board: Coordinator, board_url: str) -> None:
    tasks(board, [])
    board.claim_task(task="TASK-1")
    assert board.cancel(task="TASK-1", agent="mona").former_holder == "alice"
    assert rows(board_url, "SELECT outcome FROM attempts") == [("cancelled",)]
    assert_sound(board_url)


# --- circles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 10])
def test_a_circle_of_any_length_is_refused(board: Coordinator, board_url: str, length: int) -> None:
    """QL-08: itself, two, three, ten; two processes at once are played among the races."""
    tasks(board, [], *[[number] for number in range(1, length)])
    with refused(board_url, DependencyCycle):
        board.depend_add(task="TASK-1", on=f"TASK-{length}")
    assert_sound(board_url)


def test_a_circle_is_one_also_through_what_is_done(board: Coordinator, board_url: str) -> None:
    """QL-08: a met edge counts, since its dependency may be reopened."""
    tasks(board, [], [1])
    finish(board, "TASK-1")
    board.reopen(task="TASK-1")
    with refused(board_url, DependencyCycle):
        board.depend_add(task="TASK-1", on="TASK-2")


def test_ids_of_duplicates_and_the_past_satisfy_nothing(board: Coordinator, board_url: str) -> None:
    """QL-08: a duplicate edge is one edge; numbers never come back, so no old completion is taken for a new task's."""
    tasks(board, [])
    task = board.dispatch(title="T", role="worker", depends_on=["TASK-1", "task-1", "TASK-1"]).task
    assert (task.depends_on, task.unmet_dependencies) == (("TASK-1",), 1)
    finish(board, "TASK-1")
    board.reopen(task="TASK-1")
    assert unmet(board_url)[1] == 1, "the completion before the reopening counts no more"
    assert board.dispatch(title="T", role="worker").task.id == "TASK-3"
    assert_sound(board_url)
