"""The sweep: what is over ends, with one event each; what lives is left alone; twice changes nothing."""

from __future__ import annotations

from contextlib import closing

import pytest

import coordinate
from coordinate import Coordinator
from tests.clock import age
from tests.fleet import Enter, enter, held
from tests.tables import assert_sound, connect, nothing_changes, rows

__all__ = ["enter"]


def test_stale_sessions_lose_their_leases_and_nobody_else_does(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 8."""
    stale, live = enter("alice", ttl_seconds=60), enter("bob", ttl_seconds=6_000)
    board.dispatch(title="T", role="worker", scopes=["tree"])
    claim = stale.claim_next(role="worker", lease_seconds=9_000)
    stale.open_worktree(task=claim.handle, branch="b", root="/r")
    stale.claim_scopes(patterns=["a", "b"], ttl_seconds=9_000)
    stale.acquire_lock(name="l", ttl_seconds=9_000)
    live.claim_scopes(patterns=["c"], ttl_seconds=9_000)
    board.claim_scopes(patterns=["d"], ttl_seconds=9_000)
    age(board_url, 59)
    assert board.sweep().sessions == (), "strictly older than its time"
    age(board_url, 2)
    swept = board.sweep()
    assert swept.sessions == (stale.session,)
    assert sorted(lease.resource for lease in swept.leases) == ["a", "b", "l"]
    assert held(board) == [("alice", "d"), ("alice", "tree"), ("bob", "c")]
    told = "SELECT event_type, ref, agent FROM events WHERE event_type LIKE '%.swept' ORDER BY ref"
    swept_events = [("lease.swept", "a", "system"), ("lease.swept", "b", "system"), ("lock.swept", "l", "system")]
    assert rows(board_url, told) == swept_events
    with nothing_changes(board_url):
        again = board.sweep()
    assert (again.sessions, again.leases, again.tasks, again.more) == ((), (), (), False)


def test_what_is_past_ends_also_without_a_session_and_claims_are_taken_back(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker", scopes=["src"])
    board.claim_next(role="worker", lease_seconds=60)
    board.claim_scopes(patterns=["docs"], ttl_seconds=60)
    age(board_url, 61)
    swept = board.sweep(agent="bob")
    assert sorted(lease.resource for lease in swept.leases) == ["docs", "src"]
    assert swept.tasks == ("TASK-1",)
    assert board.view(task="TASK-1").task.status == "TODO"
    assert_sound(board_url)


def test_a_bounded_sweep_says_that_there_is_more(enter: Enter, board_url: str) -> None:
    alice = enter("alice", ttl_seconds=9_000)
    alice.claim_scopes(patterns=[f"f{n}" for n in range(25)], ttl_seconds=60)
    age(board_url, 61)
    ended = [alice.sweep(limit=10) for _ in range(3)]
    assert [(len(each.leases), each.more) for each in ended] == [(10, True), (10, True), (5, False)]


def test_cursors_of_sessions_that_are_long_over_go_with_a_prune(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    for _ in range(2):
        enter("alice", ttl_seconds=60)
    board.next_events(consumer="mine")
    age(board_url, 61)
    board.sweep()
    age(board_url, 29 * 24 * 3_600)
    board.prune()
    assert rows(board_url, "SELECT count(*) FROM event_cursors") == [(3,)], "a swept one may come back"
    age(board_url, 2 * 24 * 3_600)
    board.prune(dry_run=True)
    board.prune()
    assert rows(board_url, "SELECT consumer FROM event_cursors") == [("mine",)]


def test_the_calls_of_a_session_sweep_a_little_now_and_then(board: Coordinator, enter: Enter, board_url: str) -> None:
    stale, live = enter("alice", ttl_seconds=60), enter("bob", ttl_seconds=100)
    stale.claim_scopes(patterns=["src"], ttl_seconds=9_000)
    age(board_url, 61)
    enter("bob", session=live.session).stats()
    assert held(board) == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("locked", ["tasks WHERE id = 'TASK-1'", "asks", "leases", "tasks WHERE parked = 'scope'"])
def test_whoever_locks_what_is_over_is_in_no_others_way(
    board: Coordinator, enter: Enter, board_url: str, monkeypatch: pytest.MonkeyPatch, locked: str
) -> None:
    """A transaction that lasts, of a caller's own or by hand: the calls of all sessions sweep along, and go on."""
    live, silent = enter("alice", ttl_seconds=600), enter("bob", ttl_seconds=60)
    silent.claim_scopes(patterns=["src"], ttl_seconds=9_000)
    board.dispatch(title="Asked about", role="worker")
    board.ask(title="Which?", action_owner="task", impact="all", task="TASK-1", timeout_seconds=60)
    board.dispatch(title="Set aside", role="writer", scopes=["src"])
    assert board.claim_next(role="writer") is None
    age(board_url, 400)
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.2")
    with closing(connect(board_url)) as other:
        other.execute("BEGIN")
        assert other.execute(f"SELECT FROM {locked} FOR UPDATE").rowcount > 0
        with coordinate.connect(board_url, session=live.session) as alice:
            alice.mine()
        assert len(board.list_leases()) == (locked == "leases" or "parked" in locked)
        other.execute("ROLLBACK")
    board.sweep()
    assert (board.list_leases(), board.show_ask(ask="ASK-1").ask.close_reason) == ([], "expired")
    assert_sound(board_url)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_whoever_reads_answers_in_a_transaction_that_lasts_keeps_nobody_from_claiming(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever claims takes back what is past first, with a look at what was asked about it."""
    board.dispatch(title="Asked about", role="worker")
    board.claim_next(role="worker", lease_seconds=60)
    board.ask(title="Which?", action_owner="task", impact="all", task="TASK-1")
    board.dispatch(title="Another", role="writer")
    age(board_url, 61)
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.2")
    with closing(connect(board_url)) as other, coordinate.connect(board_url, agent="alice") as alice:
        other.execute("BEGIN")
        other.execute("SELECT FROM asks FOR UPDATE")
        assert alice.claim_next(role="writer").task.id == "TASK-2"
        other.execute("ROLLBACK")
    assert board.view(task="TASK-1").task.status == "TODO"
