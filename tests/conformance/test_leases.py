"""Leases: renewal, expiry, what comes back, and what is tried no more."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import pytest

from coordinate import Coordinator
from coordinate.errors import Held, InvalidState, StaleClaim
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows


@pytest.fixture(autouse=True)
def one_task(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")


def left(until: datetime) -> float:
    return (until - datetime.now(UTC)).total_seconds()


def test_before_its_end_a_lease_keeps_others_out_and_after_it_the_task_is_theirs(
    board: Coordinator, board_url: str
) -> None:
    board.claim_next(role="worker", lease_seconds=60)
    board.log_progress(handle="TASK-1@1", note="what I know", agent="alice")
    age(board_url, 50)
    assert board.claim_next(role="worker", agent="bob") is None
    with refused(board_url, Held):
        board.claim_task(task="TASK-1", agent="bob")
    age(board_url, 11)
    claim = board.claim_next(role="worker", agent="bob")
    assert claim.handle == "TASK-1@2"
    assert board.view(task="TASK-1").notes[0].content == "what I know"
    assert_sound(board_url)


def test_claim_by_id_takes_an_expired_lease_too_also_ones_own(board: Coordinator, board_url: str) -> None:
    board.claim_next(role="worker")
    age(board_url, 901)
    assert board.claim_task(task="TASK-1", agent="bob").handle == "TASK-1@2"
    age(board_url, 901)
    assert board.claim_task(task="TASK-1", agent="bob").handle == "TASK-1@3"
    assert_sound(board_url)


def test_an_expiry_names_the_former_holder_in_attempt_history_and_event(board: Coordinator, board_url: str) -> None:
    """QL-01: the crash itself is played by real processes among the races; here is what is left behind."""
    session = board.register(name="alice").id
    board.claim_next(role="worker", session=session)
    age(board_url, 901)
    again = board.claim_next(role="worker", agent="bob")
    assert (again.attempt, again.task.expiries) == (2, 1)
    view = board.view(task="TASK-1")
    assert [(each.attempt, each.agent, each.outcome) for each in view.attempts] == [
        (2, "bob", None),
        (1, "alice", "expired"),
    ]
    expiry = view.history[1]
    assert (expiry.action, expiry.agent, expiry.attempt) == ("EXPIRE", "system", 1)
    assert "alice" in expiry.detail
    event = board.list_events(event_type="task.lease_expired")[0]
    assert (event.payload["former_holder"], event.payload["former_session"]) == ("alice", session)
    assert event.payload["attempt"] == "1"
    assert board.claim_next(role="worker", agent="carol") is None, "it comes back exactly once"
    assert_sound(board_url)


def test_until_somebody_takes_it_an_expired_lease_may_be_renewed_and_finished(
    board: Coordinator, board_url: str
) -> None:
    claim = board.claim_next(role="worker")
    age(board_url, 5000)
    board.extend_lease(handle=claim)
    assert board.claim_next(role="worker", agent="bob") is None
    age(board_url, 5000)
    assert board.complete(handle=claim).task.status == "DONE"
    assert rows(board_url, "SELECT outcome FROM attempts") == [("completed",)]


def test_after_the_task_was_taken_the_former_holder_can_change_nothing(board: Coordinator, board_url: str) -> None:
    claim = board.claim_next(role="worker")
    age(board_url, 901)
    board.claim_next(role="worker", agent="bob")
    for verb in (board.complete, board.release, board.extend_lease, board.keep_alive):
        with refused(board_url, StaleClaim, r"alice's attempt was expired.*bob holds TASK-1 until"):
            verb(handle=claim)


@pytest.mark.parametrize("verb", ["log_progress", "extend_lease", "keep_alive"])
def test_renewal_gives_the_full_length_from_now_and_never_less(board: Coordinator, board_url: str, verb: str) -> None:
    claim = board.claim_next(role="worker", lease_seconds=600)
    renew = {
        "log_progress": lambda: board.log_progress(handle=claim, note="n"),
        "extend_lease": lambda: board.extend_lease(handle=claim),
        "keep_alive": lambda: board.keep_alive(handle=claim),
    }[verb]
    age(board_url, 400)
    renew()
    assert 590 < left(board.mine()[0].lease_until) < 601
    assert board.extend_lease(handle=claim, lease_seconds=5000).lease_seconds == 600
    renew()
    assert left(board.mine()[0].lease_until) > 4900
    board.extend_lease(handle=claim, lease_seconds=1)
    assert left(board.mine()[0].lease_until) > 4900


def test_a_sign_of_life_writes_no_story(board: Coordinator, board_url: str) -> None:
    claim = board.claim_next(role="worker")
    before = rows(board_url, "SELECT count(*) FROM history"), rows(board_url, "SELECT count(*) FROM events")
    assert left(board.keep_alive(handle=claim)) > 890
    assert before == (rows(board_url, "SELECT count(*) FROM history"), rows(board_url, "SELECT count(*) FROM events"))
    assert board.mine()[0].revision == claim.task.revision


def test_a_task_that_kills_its_workers_is_blocked_and_a_human_can_see_why(board: Coordinator, board_url: str) -> None:
    """QL-05: three workers in a row die; a release in between does not count."""
    board.edit(task="TASK-1", max_attempts=3)
    for attempt in (1, 2):
        assert board.claim_next(role="worker", agent=f"victim-{attempt}").attempt == attempt
        age(board_url, 901)
    board.release(handle=board.claim_next(role="worker"))
    assert board.view(task="TASK-1").task.expiries == 2
    assert board.claim_next(role="worker", agent="victim-3").attempt == 4
    age(board_url, 901)
    assert board.claim_next(role="worker", agent="bob") is None
    view = board.view(task="TASK-1")
    assert (view.task.status, view.task.expiries, view.task.assigned_agent) == ("BLOCKED", 3, None)
    assert (view.notes[0].note_type, view.notes[0].author) == ("SYSTEM", "system")
    assert [entry.action for entry in view.history[:2]] == ["BLOCK", "EXPIRE"]
    assert board.list_events(event_type="task.attempts_spent")[0].payload["former_holder"] == "victim-3"
    assert board.why(task="TASK-1").reasons[0].code == "ask"
    assert [issue.task_id for issue in board.lint()] == ["TASK-1"]
    with refused(board_url, InvalidState, "BLOCKED"):
        board.claim_task(task="TASK-1")
    assert_sound(board_url)
    assert board.unblock(task="TASK-1", withdraw_ask=True).expiries == 0
    assert board.claim_next(role="worker").attempt == 5


@pytest.mark.parametrize("verb", ["unblock", "reopen", "reject"])
def test_a_new_start_gives_fresh_attempts(board: Coordinator, board_url: str, verb: str) -> None:
    board.claim_next(role="worker")
    age(board_url, 901)
    claim = board.claim_next(role="worker")
    assert claim.task.expiries == 1
    if verb == "unblock":
        board.block(handle=claim, reason="r")
        assert board.unblock(task="TASK-1", withdraw_ask=True).expiries == 0
    elif verb == "reopen":
        board.complete(handle=claim)
        assert board.reopen(task="TASK-1").expiries == 0
    else:
        board.complete(handle=claim, review=True)
        assert board.reject(task="TASK-1", reason="r", agent="rita").expiries == 0


@pytest.mark.parametrize("verb", ["release", "transfer", "block"])
def test_giving_a_task_up_costs_none_of_its_attempts(board: Coordinator, board_url: str, verb: str) -> None:
    claim = board.claim_next(role="worker")
    if verb == "release":
        board.release(handle=claim)
    elif verb == "transfer":
        board.transfer(handle=claim, to="bob")
    else:
        board.block(handle=claim, reason="r")
    assert board.view(task="TASK-1").task.expiries == 0


def test_claim_by_id_of_a_task_whose_attempts_are_spent_says_where_it_stands(
    board: Coordinator, board_url: str
) -> None:
    board.edit(task="TASK-1", max_attempts=1)
    board.claim_next(role="worker")
    age(board_url, 901)
    with pytest.raises(InvalidState, match="BLOCKED"):
        board.claim_task(task="TASK-1", agent="bob")
    assert board.view(task="TASK-1").task.status == "BLOCKED", "what the refusal says is so"


def test_more_expired_leases_than_one_claim_takes_back_all_come_back(board: Coordinator, board_url: str) -> None:
    for _ in range(59):
        board.dispatch(title="T", role="worker")
    assert len(board.claim_batch(role="worker", count=60)) == 60
    age(board_url, 901)
    found = []
    while claim := board.claim_next(role="worker", agent="bob"):
        found.append(claim.task.number)
    assert sorted(found) == list(range(1, 61))
    assert_sound(board_url)


def test_reading_never_takes_a_lease_back(board: Coordinator, board_url: str) -> None:
    board.claim_next(role="worker")
    age(board_url, 901)
    with nothing_changes(board_url):
        board.view(task="TASK-1")
        assert board.status().expired_leases == board.stats().expired_leases == 1
        assert board.why(task="TASK-1").reasons[0].code == "expired"
        board.list_tasks()
        board.mine()


def test_the_lease_is_measured_by_the_databases_clock_in_whole_milliseconds(board: Coordinator) -> None:
    claim = board.claim_next(role="worker", lease_seconds=10)
    length = claim.lease_until - claim.task.updated_at
    assert timedelta(seconds=9.9) < length < timedelta(seconds=10.1)
    assert claim.lease_until.microsecond % 1000 == 0


def test_a_worker_that_is_killed_loses_its_task_to_the_next(board: Coordinator, board_url: str) -> None:
    """QL-01 with one real process: it claims and is gone without a word."""
    script = (
        "import coordinate, os, sys, signal\n"
        "c = coordinate.connect(sys.argv[1], agent='victim')\n"
        "c.claim_next(role='worker')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, board_url], check=False, capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert board.claim_next(role="worker") is None
    age(board_url, 901)
    assert board.claim_next(role="worker").handle == "TASK-1@2"
    assert board.list_events(event_type="task.lease_expired")[0].payload["former_holder"] == "victim"
