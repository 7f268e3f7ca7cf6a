"""The holder's verbs and the handle that guards them; QL-17: every verb at every status by everybody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coordinate import Coordinator
from coordinate.errors import CoordinateError, Held, InvalidInput, InvalidState, NotFound, StaleClaim
from coordinate.states import BY_THEMSELVES, MOVES, STATUSES
from tests.clock import age
from tests.tables import assert_sound, dump, nothing_changes, refused, rows

Verb = Callable[..., Any]

HOLDER_VERBS: dict[str, Verb] = {
    "log_progress": lambda c, handle, agent: c.log_progress(handle=handle, note="n", agent=agent),
    "extend_lease": lambda c, handle, agent: c.extend_lease(handle=handle, agent=agent),
    "keep_alive": lambda c, handle, agent: c.keep_alive(handle=handle, agent=agent),
    "complete": lambda c, handle, agent: c.complete(handle=handle, agent=agent),
    "submit": lambda c, handle, agent: c.complete(handle=handle, review=True, agent=agent),
    "block": lambda c, handle, agent: c.block(handle=handle, reason="r", agent=agent),
    "release": lambda c, handle, agent: c.release(handle=handle, agent=agent),
    "transfer": lambda c, handle, agent: c.transfer(handle=handle, to="zoe", agent=agent),
}
OTHER_VERBS: dict[str, Verb] = {
    "claim": lambda c, handle, agent: c.claim_task(task=bare(handle), agent=agent),
    "unblock": lambda c, handle, agent: c.unblock(task=bare(handle), agent=agent),
    "approve": lambda c, handle, agent: c.approve(task=bare(handle), agent=agent),
    "reject": lambda c, handle, agent: c.reject(task=bare(handle), reason="r", agent=agent),
    "cancel": lambda c, handle, agent: c.cancel(task=bare(handle), agent=agent),
    "reopen": lambda c, handle, agent: c.reopen(task=bare(handle), agent=agent),
}
VERBS = HOLDER_VERBS | OTHER_VERBS
ENDS = {"complete": "DONE", "submit": "IN_REVIEW", "block": "BLOCKED"}


def bare(handle: str) -> str:
    return handle.split("@", maxsplit=1)[0]


def held(board: Coordinator, agent: str = "alice") -> str:
    """A fresh task, claimed; its handle."""
    task = board.dispatch(title="T", role="worker").task
    return board.claim_task(task=task.id, agent=agent).handle


# --- QL-17: the whole matrix ------------------------------------------------------------------------------------------


def put(board: Coordinator, status: str) -> str:
    """A fresh task at a status, worked on by alice wherever anybody worked on it; the handle of its first attempt."""
    handle = f"{board.dispatch(title='T', role='worker').task.id}@1"
    if status == "CANCELLED":
        board.cancel(task=bare(handle))
    elif status != "TODO":
        board.claim_task(task=bare(handle))
        before = {"BLOCKED": "block", "IN_REVIEW": "submit", "DONE": "complete"}
        if status in before:
            VERBS[before[status]](board, handle, "alice")
    assert board.view(task=bare(handle)).task.status == status
    return handle


def expected(status: str, verb: str, who: str) -> str:
    """What must come of it: `ok`, `already`, or the code of the refusal."""
    owner = {move.verb: move.owner for move in MOVES}.get(verb, "the holder")
    legal = any(move.verb == verb and status in move.sources for move in MOVES) or (
        verb not in OTHER_VERBS and status == "IN_PROGRESS"
    )
    if owner == "the holder":
        if legal:
            return "ok" if who == "holder" else "held_by_another"
        return "already" if ENDS.get(verb) == status and who == "holder" else "stale_claim"
    if verb == "claim" and status == "IN_PROGRESS":
        return "held_by_another"
    if not legal:
        return "invalid_state"
    return "self_review" if owner == "a reviewer" and who == "holder" else "ok"


AGENTS = {"holder": "alice", "other": "bob", "reviewer": "rita"}


@pytest.mark.parametrize("status", STATUSES)
def test_every_verb_at_every_status_by_everybody(board: Coordinator, board_url: str, status: str) -> None:
    """QL-17: generated from the table of moves. A refusal changes nothing and says where the task stands."""
    assert {move.verb for move in MOVES if move.owner not in BY_THEMSELVES} <= set(VERBS)
    target = {move.verb: move.target for move in MOVES}
    for verb, call in VERBS.items():
        for who, agent in AGENTS.items():
            handle = put(board, status)
            if who == "reviewer" and status == "IN_REVIEW":
                assert board.claim_review(task=bare(handle), agent=agent) is not None
            want = expected(status, verb, who)
            before, got, said = dump(board_url), "ok", ""
            try:
                if getattr(call(board, handle, agent), "already", False):
                    got = "already"
            except CoordinateError as error:
                got, said = error.code, f"{error.message} {error.facts}"
            place = f"{verb} at {status} by {who}"
            assert got == want, place
            after = dump(board_url)
            if want == "ok":
                assert after != before, place
                assert board.view(task=bare(handle)).task.status == target.get(verb, status), place
            else:
                assert after == before, place
                assert want == "already" or status in said or "alice holds" in said, f"{place}: {said}"
    assert_sound(board_url)


def test_every_status_has_a_way_out() -> None:
    """QL-17: also from DONE; and every refusal can name the next owner."""
    for status in STATUSES:
        assert any(status in move.sources and move.owner not in BY_THEMSELVES for move in MOVES)


# --- the handle -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", HOLDER_VERBS)
@pytest.mark.parametrize("end", ["released", "expired", "transferred", "cancelled", "reopened", "never was"])
def test_a_stale_handle_is_refused_on_every_verb_and_nothing_changes(
    board: Coordinator, board_url: str, verb: str, end: str
) -> None:
    handle = held(board)
    task = bare(handle)
    if end == "released":
        board.release(handle=handle)
        board.claim_task(task=task, agent="bob")
    elif end == "expired":
        age(board_url, 901)
        board.claim_task(task=task, agent="bob")
    elif end == "transferred":
        board.transfer(handle=handle, to="bob")
    elif end == "cancelled":
        board.cancel(task=task)
    elif end == "reopened":
        board.complete(handle=handle)
        board.reopen(task=task)
        board.claim_task(task=task)
    else:
        handle = f"{task}@7"
    with refused(board_url, StaleClaim) as caught:
        HOLDER_VERBS[verb](board, handle, "alice")
    now = board.view(task=task).task
    assert (caught.value.facts["status"], caught.value.facts["holder"]) == (now.status, now.assigned_agent)


@pytest.mark.parametrize("verb", HOLDER_VERBS)
def test_anothers_current_handle_is_refused_naming_holder_and_until(
    board: Coordinator, board_url: str, verb: str
) -> None:
    handle = held(board)
    until = board.mine()[0].lease_until.isoformat(timespec="seconds").replace("+00:00", "Z")
    for shown in (handle, bare(handle)):
        with refused(board_url, Held, f"alice holds TASK-1 until {until}") as caught:
            HOLDER_VERBS[verb](board, shown, "bob")
        assert (caught.value.facts["holder"], caught.value.facts["until"]) == ("alice", until)
        assert caught.value.exit_status == 3


@pytest.mark.parametrize("verb", ["complete", "submit", "block", "release"])
def test_the_same_verb_again_answers_the_same_and_writes_nothing(board: Coordinator, board_url: str, verb: str) -> None:
    handle = held(board)
    first = HOLDER_VERBS[verb](board, handle, "alice")
    assert not first.already
    for shown in (handle, bare(handle)):
        if verb == "release" and shown != handle:
            continue  # a released task is nobody's: its bare id names no attempt
        with nothing_changes(board_url):
            again = HOLDER_VERBS[verb](board, shown, "alice")
        assert (again.already, again.task) == (True, first.task)
    for agent in ("bob", "rita"):
        with refused(board_url, StaleClaim):
            HOLDER_VERBS[verb](board, handle, agent)


@pytest.mark.parametrize(("first", "then"), [(a, b) for a in ENDS for b in (*ENDS, "release") if a != b])
def test_another_verb_after_the_end_is_stale(board: Coordinator, board_url: str, first: str, then: str) -> None:
    handle = held(board)
    HOLDER_VERBS[first](board, handle, "alice")
    with refused(board_url, StaleClaim):
        HOLDER_VERBS[then](board, handle, "alice")


def test_a_repeat_is_stale_once_the_task_went_on(board: Coordinator, board_url: str) -> None:
    handle = held(board)
    board.complete(handle=handle)
    board.reopen(task="TASK-1")
    with refused(board_url, StaleClaim):
        board.complete(handle=handle)
    board.release(handle=board.claim_task(task="TASK-1"))
    with refused(board_url, StaleClaim):
        board.release(handle=handle)


def test_a_bare_id_is_accepted_from_who_holds_it_and_never_held_it_before(board: Coordinator, board_url: str) -> None:
    handle = held(board)
    board.log_progress(handle="TASK-1", note="n")
    board.log_progress(handle=" task-1@1 ", note="n")
    board.release(handle=handle)
    board.claim_task(task="TASK-1", agent="bob")
    board.log_progress(handle="TASK-1", note="n", agent="bob")
    board.transfer(handle="TASK-1", to="alice", agent="bob")
    for verb in HOLDER_VERBS.values():
        with refused(board_url, StaleClaim, "alice held TASK-1 before") as caught:
            verb(board, "TASK-1", "alice")
        assert caught.value.facts["current"] == "TASK-1@3"
    assert board.complete(handle="TASK-1@3").task.status == "DONE"
    with refused(board_url, InvalidState, "DONE"):
        board.log_progress(handle="TASK-1", note="n")


def test_verbs_take_the_claim_itself(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    board.log_progress(handle=claim, note="n")
    assert board.complete(handle=claim).task.status == "DONE"


# --- what each of them does -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("note_type", ["PROGRESS", "ERROR", "DECISION"])
def test_progress_is_a_note_with_its_type(board: Coordinator, note_type: str) -> None:
    board.log_progress(handle=held(board), note=" as it is\n", note_type=note_type)
    note = board.view(task="TASK-1").notes[0]
    assert (note.author, note.note_type, note.content) == ("alice", note_type, " as it is\n")


@pytest.mark.parametrize(("review", "status"), [(False, "DONE"), (True, "IN_REVIEW")])
def test_completing_clears_holder_and_lease_and_keeps_the_result(board: Coordinator, review: bool, status: str) -> None:
    task = board.complete(handle=held(board), review=review, result="see main@4f2").task
    assert (task.status, task.assigned_agent, task.lease_until, task.session_id) == (status, None, None, None)
    assert (task.result, task.claimed_by) == ("see main@4f2", "alice")
    assert (task.finished_at is not None) is not review
    assert board.mine() == []


def test_blocking_keeps_the_reason_and_nobody_claims_it_until_it_is_unblocked(board: Coordinator) -> None:
    task = board.block(handle=held(board), reason="no key for the API").task
    assert (task.status, task.assigned_agent, task.lease_until) == ("BLOCKED", None, None)
    note = board.view(task="TASK-1").notes[0]
    assert (note.note_type, note.author, note.content) == ("BLOCKED", "alice", "no key for the API")
    assert board.claim_next(role="worker") is None
    board.unblock(task="TASK-1", note="here it is", agent="mona")
    assert board.view(task="TASK-1").notes[0].content == "here it is"
    assert board.claim_next(role="worker").handle == "TASK-1@2"


def test_release_after_a_while_keeps_it_out_of_the_queue_so_long(board: Coordinator, board_url: str) -> None:
    handle = held(board)
    task = board.release(handle=handle, after_seconds=600, reason="the build is red").task
    assert (task.status, task.parked, task.assigned_agent) == ("TODO", "later", None)
    assert board.release(handle=handle, after_seconds=600).already
    assert board.claim_next(role="worker") is None
    age(board_url, 601)
    assert board.claim_next(role="worker").handle == "TASK-1@2"
    assert board.release(handle="TASK-1@2", after_seconds=0).task.status == "TODO"
    assert board.claim_next(role="worker").handle == "TASK-1@3"


def test_transfer_gives_the_receiver_a_fresh_lease_and_the_sole_right(board: Coordinator, board_url: str) -> None:
    handle = held(board)
    age(board_url, 600)
    claim = board.transfer(handle=handle, to="bob")
    assert (claim.handle, claim.task.assigned_agent, claim.holding) == ("TASK-1@2", "bob", ("TASK-1@2",))
    assert (claim.lease_until - claim.task.updated_at).total_seconds() > 890
    board.log_progress(handle="TASK-1@2", note="mine now", agent="bob")
    chained = board.transfer(handle=claim, to="carol", lease_seconds=30, agent="bob")
    assert (chained.handle, chained.task.lease_seconds, chained.task.claimed_by) == ("TASK-1@3", 30, "alice")
    for stale, agent in (("TASK-1@1", "alice"), ("TASK-1@2", "bob")):
        with refused(board_url, StaleClaim, "transferred"):
            board.complete(handle=stale, agent=agent)
    assert rows(board_url, "SELECT attempt, agent, outcome FROM attempts ORDER BY attempt") == [
        (1, "alice", "transferred"),
        (2, "bob", "transferred"),
        (3, "carol", None),
    ]
    event = board.list_events(event_type="task.transferred")[-1]
    assert (event.payload["agent"], event.payload["from_agent"]) == ("carol", "bob")
    assert_sound(board_url)


def test_transfer_to_oneself_is_refused(board: Coordinator, board_url: str) -> None:
    handle = held(board)
    with refused(board_url, InvalidInput):
        board.transfer(handle=handle, to="alice")


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_completes_what_it_may_and_answers_for_each(board: Coordinator, board_url: str) -> None:
    mine, done, foreign = held(board), held(board), held(board, "bob")
    board.complete(handle=done)
    wanted = [foreign, mine, "TASK-99@1", done, "TASK-2@5", bare(mine)]
    outcomes = board.complete_batch(handles=[*wanted, mine])
    assert [(each.id, each.ok, each.already, each.code) for each in outcomes] == [
        (foreign, False, False, "held_by_another"),
        (mine, True, False, ""),
        ("TASK-99@1", False, False, "not_found"),
        (done, True, True, ""),
        ("TASK-2@5", False, False, "stale_claim"),
        (bare(mine), True, True, ""),
    ]
    assert all(each.error for each in outcomes if not each.ok)
    assert board.view(task="TASK-3").task.status == "IN_PROGRESS"
    assert_sound(board_url)


def test_a_batch_finishes_two_that_one_other_waits_for(board: Coordinator, board_url: str) -> None:
    first, second = held(board), held(board)
    last = board.dispatch(title="Last", role="worker", depends_on=[bare(first), bare(second)]).task
    board.complete_batch(handles=[second, first])
    assert board.claim_next(role="worker").task.id == last.id
    assert_sound(board_url)


def test_a_batch_of_nothing_or_too_much_is_refused(board: Coordinator, board_url: str) -> None:
    for handles in ([], ["TASK-1@1"] * 101, "TASK-1@1", ["TASK-1@1", "nonsense"]):
        with refused(board_url, InvalidInput):
            board.complete_batch(handles=handles)


def test_verbs_on_unknown_tasks_are_not_found(board: Coordinator, board_url: str) -> None:
    for verb in VERBS.values():
        with refused(board_url, NotFound, "there is no TASK-99"):
            verb(board, "TASK-99@1", "alice")
