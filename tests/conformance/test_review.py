"""Review: never by whoever did the work in this round; overrides on record; one queue for many reviewers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from coordinate import Coordinator
from coordinate.errors import Held, InvalidInput, InvalidState, NotFound, OutdatedRevision, SelfReview
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows


def submitted(board: Coordinator, *workers: str, **options: object) -> str:
    """A task that the workers held one after the other and the last of them submitted; its id."""
    task = board.dispatch(title="T", role="worker", **options).task.id
    claim = board.claim_task(task=task, agent=workers[0])
    for before, after in pairwise(workers):
        claim = board.transfer(handle=claim, to=after, agent=before)
    board.complete(handle=claim, review=True, agent=workers[-1])
    return task


def test_approve_makes_it_done_and_lets_dependents_go_on(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    board.dispatch(title="Next", role="worker", depends_on=[task])
    approved = board.approve(task=task, note="well done")
    assert (approved.status, approved.finished_at is not None) == ("DONE", True)
    assert board.view(task=task).notes[0].note_type == "REVIEW"
    assert board.claim_next(role="worker").task.id == "TASK-2"
    assert_sound(board_url)


def test_what_waits_for_a_review_is_counted_but_for_what_an_approval_decides(board: Coordinator) -> None:
    first, second = submitted(board, "bob"), submitted(board, "bob", project="p")
    assert (board.review_count(), board.review_count(project="p"), board.review_count(project="q")) == (2, 1, 0)
    asked = {"action_owner": "approval", "impact": "x", "options": ["go", "wait"]}
    ask = board.ask(title="May it go?", task=second, **asked).ask.id
    board.ask(title="Which?", task=first, **{**asked, "action_owner": "decision"})
    assert board.review_count() == 1
    board.respond(ask=ask, choice="wait")  # which decides nothing
    assert board.review_count() == 2
    board.approve(task=first, agent="ann")
    assert board.review_count() == 1


def test_reject_puts_it_back_in_its_old_place_with_the_reason(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    board.dispatch(title="Next", role="worker")
    rejected = board.reject(task=task, reason="no test")
    assert (rejected.status, rejected.rejected_attempt) == ("TODO", 1)
    note = board.view(task=task).notes[0]
    assert (note.note_type, note.author, note.content) == ("REJECTED", "alice", "no test")
    assert board.claim_next(role="worker").handle == "TASK-1@2"
    assert_sound(board_url)


def test_nobody_who_held_it_in_this_round_may_judge_it(board: Coordinator, board_url: str) -> None:
    """QL-26: by the identity of attempts, not by who happens to be named last."""
    task = submitted(board, "bob", "carol")
    board.approve_all(agent="bob")
    for agent in ("bob", "carol"):
        for judge in (board.approve, lambda **options: board.reject(reason="r", **options)):
            with refused(board_url, SelfReview, f"{agent} worked on TASK-1"):
                judge(task=task, agent=agent)
        with refused(board_url, SelfReview):
            board.claim_review(task=task, agent=agent)
        with nothing_changes(board_url):
            assert board.claim_review(agent=agent) is None
            (outcome,) = board.approve_all(agent=agent)
        assert (outcome.id, outcome.ok, outcome.code) == (task, False, "self_review")
    assert board.approve(task=task, agent="dora").status == "DONE"


@pytest.mark.parametrize("end", ["expired", "released", "blocked"])
def test_a_hold_that_ended_otherwise_counts_too(board: Coordinator, board_url: str, end: str) -> None:
    """QL-26: bob began it, carol submitted it."""
    task = board.dispatch(title="T", role="worker").task.id
    claim = board.claim_task(task=task, agent="bob")
    if end == "expired":
        age(board_url, 901)
    elif end == "released":
        board.release(handle=claim, agent="bob")
    else:
        board.block(handle=claim, reason="r", agent="bob")
        board.unblock(task=task)
    board.complete(handle=board.claim_task(task=task, agent="carol"), review=True, agent="carol")
    with refused(board_url, SelfReview):
        board.approve(task=task, agent="bob")


def test_another_session_of_the_same_agent_is_the_same_agent(board: Coordinator, board_url: str) -> None:
    """QL-26"""
    import coordinate

    task = board.dispatch(title="T", role="worker").task.id
    first, second = board.register(name="alice").id, board.register(name="alice").id
    board.complete(handle=board.claim_task(task=task, session=first), review=True)
    with coordinate.connect(board_url, agent="alice", session=second) as other, refused(board_url, SelfReview):
        other.approve(task=task)


def test_a_new_round_begins_with_the_rejection(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    board.reject(task=task, reason="r", agent="dora")
    board.complete(handle=board.claim_task(task=task, agent="carol"), review=True, agent="carol")
    with refused(board_url, SelfReview):
        board.approve(task=task, agent="carol")
    assert board.approve(task=task, agent="bob").status == "DONE"


def test_a_reopened_task_does_not_begin_a_new_round(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    board.approve(task=task, agent="dora")
    board.reopen(task=task)
    board.complete(handle=board.claim_task(task=task, agent="carol"), review=True, agent="carol")
    with refused(board_url, SelfReview):
        board.approve(task=task, agent="bob")


def test_what_was_judged_is_what_was_seen(board: Coordinator, board_url: str) -> None:
    """Between the look and the word another has judged, and the next attempt stands there."""
    task = submitted(board, "bob")
    seen = board.view(task=task).task.revision
    board.reject(task=task, reason="no test", expected_revision=seen, agent="ann")
    board.complete(handle=board.claim_task(task=task, agent="ben"), review=True, result="other", agent="ben")
    for judge in (
        lambda: board.approve(task=task, expected_revision=seen),
        lambda: board.reject(task=task, reason="x", expected_revision=seen),
    ):
        with refused(board_url, OutdatedRevision, "is IN_REVIEW at revision") as caught:
            judge()
    approved = board.approve(task=task, expected_revision=caught.value.facts["revision"])
    board.reopen(task=task, expected_revision=approved.revision)
    board.block(handle=board.claim_task(task=task, agent="bob"), reason="no key", agent="bob")
    with refused(board_url, OutdatedRevision, "is BLOCKED at revision"):
        board.reopen(task=task, expected_revision=approved.revision)
    seen = board.view(task=task).task.revision
    board.unblock(task=task, expected_revision=seen)
    board.block(handle=board.claim_task(task=task, agent="ben"), reason="no disk", agent="ben")
    with refused(board_url, OutdatedRevision, "is BLOCKED at revision"):
        board.unblock(task=task, expected_revision=seen)
    with refused(board_url, OutdatedRevision, "is BLOCKED at revision") as caught:
        board.cancel(task=task, reason="x", expected_revision=seen)
    board.cancel(task=task, reason="x", expected_revision=caught.value.facts["revision"])
    assert_sound(board_url)


def test_a_human_may_override_and_it_is_on_record(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    assert board.approve(task=task, agent="bob", override="nobody else is here").status == "DONE"
    entry = board.view(task=task).history[0]
    assert (entry.action, entry.agent) == ("APPROVE", "bob")
    assert "override: nobody else is here" in entry.detail
    assert board.list_events(event_type="review.approved")[-1].payload["override"] == "nobody else is here"
    other = submitted(board, "bob")
    assert board.reject(task=other, reason="no test", agent="bob", override="me again").status == "TODO"
    assert "me again" in board.view(task=other).history[0].detail
    assert_sound(board_url)


def test_approve_all_answers_for_each_by_priority(board: Coordinator, board_url: str) -> None:
    """QL-26: thirty tasks in one call, some of them one's own; the counts agree with the table."""
    for number in range(30):
        submitted(board, "alice" if number % 3 == 0 else "bob", priority=100 - number)
    outcomes = board.approve_all()
    assert [each.id for each in outcomes] == [f"TASK-{number}" for number in range(30, 0, -1)]
    refusals = [each for each in outcomes if not each.ok]
    assert {each.code for each in refusals} == {"self_review"}
    assert len(refusals) == 10
    counted = dict(rows(board_url, "SELECT status, count(*) FROM tasks GROUP BY status"))
    assert counted == board.status().by_status == {"DONE": 20, "IN_REVIEW": 10}
    assert_sound(board_url)


def test_approve_all_keeps_to_one_project_and_to_its_limit(board: Coordinator) -> None:
    for project in ("a", "b", "a"):
        submitted(board, "bob", project=project)
    assert [each.id for each in board.approve_all(project="a", limit=1)] == ["TASK-1"]
    assert [each.id for each in board.approve_all(project="a")] == ["TASK-3"]
    assert board.approve_all(project="c") == []


def test_approve_all_comes_to_what_stands_behind_what_others_have_to_judge(board: Coordinator) -> None:
    submitted(board, "alice", priority=1)
    submitted(board, "bob", priority=2)
    board.claim_review(task=submitted(board, "bob", priority=3), agent="rita")
    submitted(board, "bob", priority=4)
    passed = [[(each.id, each.ok) for each in board.approve_all(limit=2)] for _ in range(2)]
    assert passed == [[("TASK-2", True), ("TASK-4", True)], [("TASK-1", False), ("TASK-3", False)]]
    assert [each.ok for each in board.approve_all(limit=1, override="I am a human")] == [True]


def test_a_result_that_was_rejected_is_not_what_came_of_the_task(board: Coordinator) -> None:
    """Not shown to who depends on it, nor as the outcome of what a human was asked afterwards."""
    for _ in range(2):
        task = board.dispatch(title="T", role="worker").task.id
        board.complete(handle=board.claim_task(task=task), review=True, result="the first try")
        assert board.reject(task=task, reason="wrong", agent="rita").result == "the first try"
    assert board.complete(handle=board.claim_task(task="TASK-1")).task.result is None
    claim = board.claim_task(task="TASK-2")
    board.ask(title="Which?", action_owner="decision", impact="all", options=["a", "b"], task=claim)
    board.respond(ask="ASK-1", choice="a", agent="ann")
    board.pending()
    (outcome,) = board.complete_batch(handles=[claim.handle])
    assert (outcome.ok, outcome.code, board.view(task="TASK-2").task.status) == (False, "invalid_input", "IN_PROGRESS")
    with pytest.raises(InvalidInput, match="say what came of it"):
        board.complete(handle=claim)
    assert board.complete(handle=claim, result="a, then").task.result == "a, then"
    assert board.show_ask(ask="ASK-1").ask.outcome == "a, then"


def test_a_review_that_is_asked_for_by_name_is_reserved_or_refused(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob", project="api")
    with refused(board_url, InvalidInput, "TASK-1 is of project api, not web"):
        board.claim_review(task=task, project="web", agent="rita")
    assert board.claim_review(task=task, project="api", agent="rita").reviewer == "rita"


# --- one queue for many reviewers -------------------------------------------------------------------------------------


def test_reviewers_share_one_queue(board: Coordinator, board_url: str) -> None:
    submitted(board, "bob", priority=9)
    submitted(board, "rita", priority=1)
    submitted(board, "bob", priority=5)
    first = board.claim_review(agent="rita")
    assert (first.id, first.reviewer) == ("TASK-3", "rita")
    assert board.claim_review(agent="sam").id == "TASK-2"
    assert board.claim_review(agent="sam").id == "TASK-1"
    assert board.claim_review(agent="tom") is None
    with refused(board_url, Held, "rita reviews TASK-3 until") as caught:
        board.approve(task="TASK-3", agent="sam")
    assert caught.value.facts["holder"] == "rita"
    approved = board.approve(task="TASK-3", agent="rita")
    assert (approved.status, approved.reviewer, approved.review_until) == ("DONE", None, None)
    assert board.reject(task="TASK-2", reason="r", agent="sam").reviewer is None
    assert_sound(board_url)


def test_a_reservation_ends_with_its_time(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    board.claim_review(agent="rita", lease_seconds=60)
    with refused(board_url, Held):
        board.claim_review(task=task, agent="sam")
    age(board_url, 61)
    assert board.claim_review(task=task, agent="sam").reviewer == "sam"
    age(board_url, 1801)
    assert board.approve(task=task, agent="tom").status == "DONE"


def test_a_review_asked_for_again_by_name_is_still_ones_own(board: Coordinator, board_url: str) -> None:
    task = submitted(board, "bob")
    reserved = board.claim_review(task=task, agent="rita")
    with nothing_changes(board_url):
        assert board.claim_review(task=task, agent="rita") == reserved
        assert board.claim_review(agent="rita") is None


def test_a_review_asked_for_by_name_says_why_not(board: Coordinator, board_url: str) -> None:
    task = board.dispatch(title="T", role="worker").task.id
    with refused(board_url, InvalidState, "TODO"):
        board.claim_review(task=task)
    with refused(board_url, NotFound):
        board.claim_review(task="TASK-99")
