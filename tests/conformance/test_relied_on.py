"""Fifteen behaviours that users rely on, one test for each; the other files go into the corners.

Numbers 14 (what the command prints) and 15 (hooks) are shown here as far as the Python API goes: errors are data, and
what is told after a commit is told once. The command line's own tests do the rest.
"""

from __future__ import annotations

import json
import threading

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.errors import Held, InvalidState, NotFound, SelfReview, UnmetDependencies
from coordinate.plans import PlannedTask
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows


def dispatch(board: Coordinator, **options: object) -> str:
    return board.dispatch(**{"title": "T", "role": "worker"} | options).task.id


def test_01_workers_at_once_each_get_a_different_task_and_none_fails(board: Coordinator, board_url: str) -> None:
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", "T") for n in range(24)])
    errors: list[Exception] = []

    def work(name: str) -> None:
        try:
            with coordinate.connect(board_url, agent=name) as own:
                while claim := own.claim_next(role="worker"):
                    own.complete(handle=claim)
        except Exception as error:
            errors.append(error)

    workers = [threading.Thread(target=work, args=(f"w{n}",)) for n in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert errors == []
    assert rows(board_url, "SELECT count(*), count(DISTINCT task_id) FROM history WHERE action = 'CLAIM'") == [(24, 24)]
    assert board.status().by_status == {"DONE": 24}
    assert_sound(board_url)


def test_02_smallest_priority_first_then_oldest_within_role_and_project(board: Coordinator) -> None:
    for priority, project in ((5, "a"), (1, "b"), (5, "a"), (1, "a")):
        dispatch(board, priority=priority, project=project)
    assert board.claim_next(role="other") is None
    assert board.claim_next(role="worker", project="a").task.id == "TASK-4"
    assert [claim.task.id for claim in board.claim_batch(role="worker", count=9)] == ["TASK-2", "TASK-1", "TASK-3"]


def test_03_what_waits_is_not_given_out_until_the_moment_it_is_ready(board: Coordinator, board_url: str) -> None:
    first = dispatch(board, role="other")
    waits = [dispatch(board, priority=0, depends_on=[first]) for _ in range(30)]
    free = dispatch(board, priority=999)
    with refused(board_url, UnmetDependencies):
        board.claim_task(task=waits[0])
    assert board.claim_next(role="worker").task.id == free
    assert board.claim_next(role="worker") is None
    assert board.claim_next(role="worker", respect_dependencies=False).task.id == waits[0]
    board.complete(handle=board.claim_next(role="other"))
    assert board.claim_next(role="worker").task.id == waits[1]


def test_04_no_work_is_an_answer(board: Coordinator, board_url: str) -> None:
    with nothing_changes(board_url):
        assert board.claim_next(role="worker") is None
        assert board.claim_batch(role="worker", count=3) == []


def test_05_after_the_lease_another_gets_it_and_sees_the_notes(board: Coordinator, board_url: str) -> None:
    task = dispatch(board)
    board.log_progress(handle=board.claim_next(role="worker"), note="half done")
    assert board.claim_next(role="worker", agent="bob") is None
    with refused(board_url, Held):
        board.claim_task(task=task, agent="bob")
    age(board_url, 901)
    assert board.claim_next(role="worker", agent="bob").task.id == task
    assert [note.content for note in board.view(task=task).notes] == ["half done"]


def test_06_progress_and_extension_renew_the_lease_for_the_holder_only(board: Coordinator, board_url: str) -> None:
    dispatch(board)
    claim = board.claim_next(role="worker")
    age(board_url, 600)
    renewed = board.log_progress(handle=claim, note="n")
    assert (renewed.lease_until - renewed.updated_at).total_seconds() == pytest.approx(900, abs=1)
    extended = board.extend_lease(handle=claim, lease_seconds=1800)
    assert (extended.lease_until - extended.updated_at).total_seconds() == pytest.approx(1800, abs=1)
    assert len(board.view(task="TASK-1").notes) == 1
    for verb in (
        lambda: board.log_progress(handle=claim, note="n", agent="bob"),
        lambda: board.extend_lease(handle=claim, agent="bob"),
    ):
        with refused(board_url, Held):
            verb()


def test_07_only_the_holder_completes(board: Coordinator, board_url: str) -> None:
    for _ in range(2):
        dispatch(board)
    first, second = board.claim_batch(role="worker", count=2)
    with refused(board_url, Held, "alice holds TASK-1"):
        board.complete(handle=first, agent="bob")
    assert board.complete(handle=first).task.status == "DONE"
    submitted = board.complete(handle=second, review=True).task
    assert (submitted.status, submitted.assigned_agent, submitted.lease_until) == ("IN_REVIEW", None, None)


def test_08_review_moves_what_is_in_review_and_never_by_who_did_it(board: Coordinator, board_url: str) -> None:
    task = dispatch(board)
    for verb in (board.approve, lambda **given: board.reject(reason="r", **given)):
        with refused(board_url, InvalidState, "invalid state transition"):
            verb(task=task)
    board.complete(handle=board.claim_next(role="worker"), review=True)
    with refused(board_url, SelfReview):
        board.approve(task=task)
    assert board.reject(task=task, reason="no test", agent="rita").status == "TODO"
    assert board.view(task=task).notes[0].content == "no test"
    board.complete(handle=board.claim_task(task=task, agent="bob"), review=True, agent="bob")
    assert board.approve(task=task).status == "DONE", "alice claimed it first, but this round's work is bob's"


def test_09_what_is_blocked_stays_so_until_somebody_unblocks_it(board: Coordinator) -> None:
    task = dispatch(board)
    board.block(handle=board.claim_next(role="worker"), reason="no key")
    assert board.claim_next(role="worker") is None
    assert board.view(task=task).notes[0].content == "no key"
    assert board.unblock(task=task, agent="mona").status == "TODO"
    assert board.claim_next(role="worker").task.id == task


def test_10_transfer_gives_the_sole_right_and_chains(board: Coordinator, board_url: str) -> None:
    dispatch(board)
    claim = board.claim_next(role="worker")
    for giver, taker in (("alice", "bob"), ("bob", "carol")):
        before, claim = claim, board.transfer(handle=claim, to=taker, agent=giver)
        with refused(board_url, coordinate.errors.StaleClaim):
            board.complete(handle=before, agent=giver)
    assert board.complete(handle=claim, agent="carol").task.status == "DONE"


def test_11_batches_claim_in_order_and_complete_what_they_can(board: Coordinator) -> None:
    for priority in (3, 1, 2):
        dispatch(board, priority=priority)
    claims = board.claim_batch(role="worker", count=5)
    assert [claim.task.id for claim in claims] == ["TASK-2", "TASK-3", "TASK-1"]
    outcomes = board.complete_batch(handles=["TASK-9@1", *(claim.handle for claim in claims)])
    assert [outcome.ok for outcome in outcomes] == [False, True, True, True]
    assert outcomes[0].error


def test_11_a_batch_that_names_a_task_twice_finishes_it_once(board: Coordinator, board_url: str) -> None:
    """The second is answered by what the first has just done, as if it came in a later call."""
    for _ in range(2):
        dispatch(board)
    first, second = board.claim_batch(role="worker", count=2)
    outcomes = board.complete_batch(handles=[first.handle, "TASK-1", second.handle])
    assert [(outcome.ok, outcome.already) for outcome in outcomes] == [(True, False), (True, True), (True, False)]
    assert_sound(board_url)


def test_12_each_change_has_its_story_and_a_refused_one_has_none(board: Coordinator, board_url: str) -> None:
    dispatch(board)
    with refused(board_url, NotFound):
        dispatch(board, depends_on=["TASK-9"])
    claim = board.claim_next(role="worker")
    with refused(board_url, Held):
        board.complete(handle=claim, agent="bob")
    board.complete(handle=claim)
    events = board.next_events(consumer="c", from_start=True).events
    assert [event.event for event in events] == ["task.created", "task.claimed", "task.completed"]
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert_sound(board_url)


def test_13_ids_rise_without_gaps_also_when_many_dispatch(board: Coordinator, board_url: str) -> None:
    def work() -> None:
        with coordinate.connect(board_url, agent="bob") as own:
            for _ in range(5):
                dispatch(own)
                with pytest.raises(NotFound):
                    dispatch(own, depends_on=["TASK-999"])

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert rows(board_url, "SELECT id FROM tasks ORDER BY number") == [(f"TASK-{n}",) for n in range(1, 21)]


def test_14_an_error_is_one_line_of_json_with_its_code(board: Coordinator) -> None:
    with pytest.raises(NotFound) as caught:
        board.view(task="TASK-1")
    printed = json.dumps(caught.value.as_dict())
    assert "\n" not in printed
    assert json.loads(printed) == {
        "error": "there is no TASK-1",
        "code": "not_found",
        "hint": "coordinate task list shows what there is",
        "task_id": "TASK-1",
    }
    assert caught.value.exit_status == 2


def test_15_what_is_told_after_a_commit_is_told_once_and_only_then(board_url: str) -> None:
    told: list[tuple[str, str]] = []

    def tell(events: list[dict[str, object]]) -> None:
        told.extend((str(event["event_type"]), rows(board_url, "SELECT status FROM tasks")[0][0]) for event in events)

    with coordinate.connect(board_url, agent="alice", after_commit=tell) as board:
        dispatch(board)
        claim = board.claim_next(role="worker")
        board.complete(handle=claim)
        board.complete(handle=claim)
    assert told == [("task.created", "TODO"), ("task.claimed", "IN_PROGRESS"), ("task.completed", "DONE")]
