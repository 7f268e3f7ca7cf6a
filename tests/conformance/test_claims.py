"""Claims: the order of the queue, who may take what, and what a claim carries."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.errors import Held, InvalidInput, InvalidState, NotFound, NotReady, UnmetDependencies
from coordinate.plans import PlannedTask
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows, run

LATER = datetime(2090, 1, 1, tzinfo=UTC)


def claimed(board: Coordinator, role: str = "worker", **options: object) -> list[str]:
    """Claim until nothing is left; the ids in that order."""
    found = []
    while claim := board.claim_next(role=role, **options):
        found.append(claim.task.id)
    return found


# --- order ------------------------------------------------------------------------------------------------------------


def test_a_plan_of_20_equal_tasks_is_claimed_in_the_plans_order(board: Coordinator) -> None:
    made = board.dispatch_plan(plan=[PlannedTask(f"k{n}", f"Step {n}") for n in range(20)])
    assert claimed(board) == [each.task.id for each in made] == [f"TASK-{n}" for n in range(1, 21)]


def test_the_lowest_priority_number_goes_first_then_the_oldest(board: Coordinator) -> None:
    for priority in (100, 0, 999, 100, 0):
        board.dispatch(title="T", role="worker", priority=priority)
    assert claimed(board) == ["TASK-2", "TASK-5", "TASK-1", "TASK-4", "TASK-3"]


def test_task_2_comes_before_task_10_when_all_else_is_equal(board: Coordinator, board_url: str) -> None:
    for _ in range(10):
        board.dispatch(title="T", role="worker")
    run(board_url, "UPDATE tasks SET created_at = (SELECT min(created_at) FROM tasks)")
    assert claimed(board) == [f"TASK-{n}" for n in range(1, 11)]


def test_what_came_back_keeps_its_old_place(board: Coordinator) -> None:
    for _ in range(3):
        board.dispatch(title="T", role="worker")
    first = board.claim_next(role="worker")
    board.release(handle=first)
    assert claimed(board) == ["TASK-1", "TASK-2", "TASK-3"]


def test_a_changed_priority_changes_the_place(board: Coordinator) -> None:
    for _ in range(3):
        board.dispatch(title="T", role="worker")
    board.edit(task="TASK-3", priority=1)
    assert board.set_priority(tasks=["TASK-2", "TASK-1"], priority=50) == 2
    assert claimed(board) == ["TASK-3", "TASK-1", "TASK-2"]


def test_role_and_project_narrow_the_search_to_the_letter(board: Coordinator) -> None:
    board.dispatch(title="T", role="Worker")
    board.dispatch(title="T", role="worker", project="api")
    board.dispatch(title="T", role="worker")
    assert board.claim_next(role="work") is None
    assert board.claim_next(role="worker", project="none") is None
    assert claimed(board, project="default") == ["TASK-3"]
    assert claimed(board) == ["TASK-2"]
    assert claimed(board, "Worker") == ["TASK-1"]


def test_a_task_is_out_of_the_queue_until_its_time(board: Coordinator, board_url: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    board.dispatch(title="Later", role="worker", priority=0, not_before=soon)
    board.dispatch(title="Now", role="worker")
    assert claimed(board) == ["TASK-2"]
    with refused(board_url, NotReady) as caught:
        board.claim_task(task="TASK-1")
    assert caught.value.facts["until"] == soon.isoformat(timespec="seconds").replace("+00:00", "Z")
    assert "--clear-not-before" in caught.value.hint
    age(board_url, 3601)
    assert board.claim_next(role="worker").task.id == "TASK-1"


def test_a_task_that_is_reserved_says_for_whom_and_advises_nothing_that_does_not_help(
    board: Coordinator, board_url: str
) -> None:
    board.dispatch(title="T", role="worker", not_before=datetime.now(UTC) + timedelta(hours=1))
    run(board_url, "UPDATE tasks SET parked = 'reserved', reserved_for = 'bob', not_before = NULL")
    with refused(board_url, NotReady, "TASK-1 is reserved for bob until ") as caught:
        board.claim_task(task="TASK-1")
    assert "--clear-not-before" not in caught.value.hint


def test_a_time_that_is_past_already_does_not_hold_a_task_back(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker", not_before=datetime(1999, 1, 1, tzinfo=UTC))
    assert claimed(board) == ["TASK-1"]


def test_what_is_due_goes_back_to_its_old_place(board: Coordinator, board_url: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    board.dispatch(title="Urgent, later", role="worker", priority=1, not_before=soon)
    board.dispatch(title="Ordinary", role="worker")
    age(board_url, 3601)
    before = board.view(task="TASK-1").task.revision
    assert claimed(board) == ["TASK-1", "TASK-2"]
    # Un-parking is no change: only the claim raised the revision.
    assert board.view(task="TASK-1").task.revision == before + 1


@pytest.mark.parametrize("way", ["a lease that is past", "its time", "a reservation", "a scope of one's own"])
def test_what_is_ready_only_now_is_not_passed_over(board: Coordinator, board_url: str, way: str) -> None:
    """A claim takes what stands first at once, and first looks for what comes before it.

    What is set aside without an end hides none of that: SQLite sorts its NULL before every moment.
    """
    board.dispatch(title="Aside without end", role="other")
    run(board_url, "UPDATE tasks SET parked = 'scope'")
    session = board.register(name="alice").id
    board.dispatch(title="First", role="worker", scopes=["src"])
    board.dispatch(title="Second", role="worker")
    match way:
        case "a lease that is past":
            board.claim_next(role="worker", lease_seconds=60)
            age(board_url, 61)
        case "its time":
            board.edit(task="TASK-2", not_before=datetime.now(UTC) + timedelta(hours=1))
            age(board_url, 3601)
        case "a reservation":
            run(board_url, "UPDATE tasks SET parked = 'reserved', reserved_for = 'alice' WHERE number = 2")
        case _:
            board.claim_scopes(patterns=["src"], session=session)
            assert board.claim_next(role="worker", agent="other").task.id == "TASK-3"
            board.dispatch(title="Third", role="worker")
    assert board.claim_next(role="worker", session=session).task.id == "TASK-2"


def test_editing_the_time_sets_a_task_aside_and_puts_it_back(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    assert board.edit(task="TASK-1", not_before=LATER).parked == "later"
    assert board.claim_next(role="worker") is None
    assert board.edit(task="TASK-1", clear_not_before=True).parked == ""
    assert claimed(board) == ["TASK-1"]


def test_a_ready_task_is_found_however_many_blocked_ones_stand_before_it(board: Coordinator) -> None:
    plan = [PlannedTask("gate", "Gate", role="human")]
    plan += [PlannedTask(f"k{n}", "Urgent", priority=0, depends_on=("gate",)) for n in range(300)]
    board.dispatch_plan(plan=[*plan, PlannedTask("free", "Free", priority=999)])
    assert claimed(board) == ["TASK-302"]


# --- several at once --------------------------------------------------------------------------------------------------


def test_a_batch_takes_up_to_count_in_the_queues_order(board: Coordinator, board_url: str) -> None:
    for priority in (7, 3, 5):
        board.dispatch(title="T", role="worker", priority=priority)
    assert [claim.handle for claim in board.claim_batch(role="worker", count=2)] == ["TASK-2@1", "TASK-3@1"]
    left = board.claim_batch(role="worker", count=100)
    assert [claim.handle for claim in left] == ["TASK-1@1"]
    assert left[0].holding == ("TASK-1@1", "TASK-2@1", "TASK-3@1")
    assert board.claim_batch(role="worker", count=5) == []
    assert_sound(board_url)


def test_a_claim_is_among_what_its_agent_holds_however_much_that_is(board: Coordinator) -> None:
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", f"Step {n}") for n in range(23)])
    claims = board.claim_batch(role="worker", count=23)
    assert [len(claim.holding) for claim in claims] == [20] * 23
    assert all(claim.handle in claim.holding for claim in claims)


def test_respect_dependencies_false_takes_what_waits_but_not_what_is_set_aside(board: Coordinator) -> None:
    board.dispatch(title="First", role="other")
    board.dispatch(title="Waits", role="worker", depends_on=["TASK-1"])
    board.dispatch(title="Later", role="worker", not_before=LATER)
    assert board.claim_next(role="worker") is None
    assert claimed(board, respect_dependencies=False) == ["TASK-2"]
    assert claimed(board, respect_dependencies=False, project="default") == []


# --- what a claim is --------------------------------------------------------------------------------------------------


def test_a_claim_carries_handle_lease_and_all_that_the_caller_holds(board: Coordinator, board_url: str) -> None:
    for _ in range(2):
        board.dispatch(title="T", role="worker")
    session = board.register(name="alice").id
    first = board.claim_next(role="worker", lease_seconds=60, session=session)
    second = board.claim_next(role="worker")
    assert (first.handle, first.attempt, first.task.handle) == ("TASK-1@1", 1, "TASK-1@1")
    assert (first.task.assigned_agent, first.task.session_id, first.task.claimed_by) == ("alice", session, "alice")
    assert second.holding == ("TASK-1@1", "TASK-2@1")
    now = datetime.now(UTC)
    assert abs(first.lease_until - now - timedelta(seconds=60)) < timedelta(seconds=5)
    assert abs(second.lease_until - now - timedelta(seconds=900)) < timedelta(seconds=5)
    assert [task.handle for task in board.mine()] == ["TASK-1@1", "TASK-2@1"]
    assert board.mine(agent="bob") == []
    assert rows(board_url, "SELECT attempt, agent, session_id, outcome FROM attempts WHERE task_id = 'TASK-1'") == [
        (1, "alice", session, None)
    ]
    assert_sound(board_url)


def test_nothing_to_do_is_an_answer_and_changes_nothing(board: Coordinator, board_url: str) -> None:
    with nothing_changes(board_url):
        assert board.claim_next(role="worker") is None
        assert board.claim_next(role="worker", wait=0.05) is None
        assert board.claim_batch(role="worker", count=3) == []


def test_claim_by_id_ignores_the_role_and_says_who_holds_it_until_when(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="reviewer")
    claim = board.claim_task(task="task-1", lease_seconds=120)
    assert claim.handle == "TASK-1@1"
    with refused(board_url, Held, "alice holds TASK-1 until") as caught:
        board.claim_task(task="TASK-1", agent="bob")
    assert caught.value.facts["holder"] == "alice"
    assert caught.value.facts["until"] == claim.lease_until.isoformat(timespec="seconds").replace("+00:00", "Z")
    with refused(board_url, Held):
        board.claim_task(task="TASK-1")


def test_who_claims_what_they_hold_is_told_their_handle(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    board.release(handle=board.claim_next(role="worker"))
    board.claim_next(role="worker")
    with pytest.raises(Held) as caught, nothing_changes(board_url):
        board.claim_task(task="TASK-1")
    assert "TASK-1@2" in caught.value.hint
    with pytest.raises(Held, match="alice holds TASK-1") as caught:
        board.claim_task(task="TASK-1", agent="bob")
    assert "@" not in caught.value.hint


def test_claim_by_id_is_refused_where_the_task_is_not_waiting_to_be_done(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="First", role="worker")
    board.dispatch(title="Waits", role="worker", depends_on=["TASK-1"])
    with refused(board_url, UnmetDependencies, r"TASK-1 \(TODO\)") as caught:
        board.claim_task(task="TASK-2")
    assert caught.value.facts["waits_for"] == ["TASK-1"]
    board.cancel(task="TASK-1")
    with refused(board_url, InvalidState, "CANCELLED"):
        board.claim_task(task="TASK-1")
    with refused(board_url, NotFound):
        board.claim_task(task="TASK-3")


def test_the_first_claimer_is_remembered_for_ever(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    board.release(handle=board.claim_next(role="worker"))
    again = board.claim_next(role="worker", agent="bob")
    assert (again.handle, again.task.claimed_by, again.task.assigned_agent) == ("TASK-1@2", "alice", "bob")


def test_threads_on_one_coordinator_each_get_a_different_task(board: Coordinator, board_url: str) -> None:
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", "T") for n in range(40)])
    found: list[str] = []

    def work(name: str) -> None:
        found.extend(claimed(board, agent=name))

    threads = [threading.Thread(target=work, args=(f"agent-{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == sorted(f"TASK-{n}" for n in range(1, 41))
    assert_sound(board_url)


# --- waiting ----------------------------------------------------------------------------------------------------------


def wake(board_url: str, change: str) -> None:
    time.sleep(0.3)
    with coordinate.connect(board_url, agent="bob") as bob:
        if change == "dispatch":
            bob.dispatch(title="T", role="worker")
        elif change == "complete":
            bob.complete(handle="TASK-1@1")
        else:
            bob.release(handle="TASK-1@1")


@pytest.mark.parametrize("change", ["dispatch", "complete", "release"])
def test_a_waiting_claim_returns_the_moment_a_task_is_ready(board: Coordinator, board_url: str, change: str) -> None:
    if change != "dispatch":
        board.dispatch(title="First", role="worker")
        board.claim_next(role="worker", agent="bob")
    if change == "complete":
        board.dispatch(title="Second", role="worker", depends_on=["TASK-1"])
    other = threading.Thread(target=wake, args=(board_url, change))
    started = time.monotonic()
    other.start()
    claim = board.claim_next(role="worker", wait=20)
    waited = time.monotonic() - started
    other.join()
    assert claim is not None
    assert 0.2 < waited < 10


def test_a_waiting_claim_takes_what_comes_due_by_itself(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker", not_before=datetime.now(UTC) + timedelta(milliseconds=600))
    started = time.monotonic()
    assert board.claim_next(role="worker", wait=20).task.id == "TASK-1"
    assert time.monotonic() - started < 5


def test_a_wait_in_vain_ends_in_time(board: Coordinator) -> None:
    started = time.monotonic()
    assert board.claim_next(role="worker", wait=0.3) is None
    assert 0.3 <= time.monotonic() - started < 3
    with pytest.raises(InvalidInput):
        board.claim_next(role="worker", wait=-1)
