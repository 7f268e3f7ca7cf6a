"""Named locks: one holder each, taken over only after their time, with a higher fence."""

from __future__ import annotations

import time

import pytest

from coordinate import Coordinator
from coordinate.errors import Held, NotFound, StaleClaim
from tests.clock import age
from tests.fleet import Enter, enter, held
from tests.tables import refused

__all__ = ["enter"]


def test_a_live_lock_of_another_is_refused_naming_its_holder(board: Coordinator, enter: Enter, board_url: str) -> None:
    """Statement 13."""
    alice = enter("alice")
    lease = alice.acquire_lock(name="integrate", ttl_seconds=60)
    with refused(board_url, Held, "alice holds the lock integrate until") as caught:
        board.acquire_lock(name="integrate", agent="bob")
    assert caught.value.facts["holder"] == "alice"
    assert board.acquire_lock(name="another", agent="bob").fence > lease.fence, "other names go on"
    assert board.acquire_lock(name="integrate", project="p", agent="bob").project == "p"


def test_after_its_time_it_is_taken_with_a_higher_fence_and_the_old_one_is_worth_nothing(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 13."""
    alice = enter("alice")
    old = alice.acquire_lock(name="l", ttl_seconds=60)
    age(board_url, 61)
    new = board.acquire_lock(name="l", agent="bob")
    assert new.fence > old.fence
    (event,) = board.list_events(event_type="lock.expired")
    assert (event.payload["former_holder"], event.payload["kind"]) == ("alice", "lock")
    for call in (alice.release_lock, alice.renew_lock):
        with refused(board_url, StaleClaim):
            call(name="l", fence=old.fence)
        with refused(board_url, StaleClaim):
            call(name="l")
        with refused(board_url, Held):
            call(name="l", fence=new.fence)
    # What it gave back itself it did not lose, and a session that never had it lost nothing.
    board.release_lock(name="l", fence=new.fence, agent="bob")
    alice.release_lock(name="l", fence=alice.acquire_lock(name="l").fence)
    with refused(board_url, NotFound):
        alice.release_lock(name="l")
    board.acquire_lock(name="l", agent="bob")
    for session in (alice, enter("carol")):
        with refused(board_url, Held):
            session.release_lock(name="l")


def test_one_session_nests_and_releases_as_often(board: Coordinator, enter: Enter, board_url: str) -> None:
    """Statement 13."""
    alice = enter("alice")
    first = alice.acquire_lock(name="l")
    again = alice.acquire_lock(name="l")
    assert (again.id, again.fence, again.depth) == (first.id, first.fence, 2)
    another = enter("alice")
    with refused(board_url, Held):
        another.acquire_lock(name="l")
    assert alice.release_lock(name="l").depth == 1
    assert held(board) == [("alice", "l")]
    assert alice.release_lock(name="l").release_reason == "released"
    with refused(board_url, NotFound, "nobody holds"):
        alice.release_lock(name="l")


def test_without_a_session_there_is_no_nesting_and_the_fence_gives_it_back(board: Coordinator, board_url: str) -> None:
    lease = board.acquire_lock(name="l")
    with refused(board_url, Held):
        board.acquire_lock(name="l")
    with refused(board_url, Held):
        board.release_lock(name="l")
    board.release_lock(name="l", fence=lease.fence)
    assert held(board) == []


def test_waiting_in_vain_names_the_holder(board: Coordinator, board_url: str) -> None:
    board.acquire_lock(name="l")
    began = time.monotonic()
    with refused(board_url, Held, r"alice holds the lock l until .*; 0.4 s of waiting are over") as caught:
        board.acquire_lock(name="l", wait=0.4, agent="bob")
    assert "--wait" not in caught.value.hint
    assert 0.3 < time.monotonic() - began < 5


def test_a_context_holds_it_and_releases_on_every_exit(board: Coordinator, enter: Enter) -> None:
    """Statement 13: release on exception."""
    alice = enter("alice")
    with alice.lock("l") as lease, alice.lock("l") as inner:
        assert (inner.fence, inner.depth) == (lease.fence, 2)
    assert held(board) == []
    with pytest.raises(ZeroDivisionError), alice.lock("l"):
        raise ZeroDivisionError
    assert held(board) == []


def test_a_context_whose_lock_was_lost_says_so(board: Coordinator, board_url: str) -> None:
    with pytest.raises(StaleClaim), board.lock("l", ttl_seconds=60):
        age(board_url, 61)
        board.acquire_lock(name="l", agent="bob")
    assert held(board) == [("bob", "l")]


def test_renewal_is_the_holders_own_deed(enter: Enter, board_url: str) -> None:
    alice = enter("alice", ttl_seconds=9_000)
    lease = alice.acquire_lock(name="l", ttl_seconds=100)
    age(board_url, 60)
    assert (alice.renew_lock(name="l").expires_at - lease.expires_at).total_seconds() > -5
    age(board_url, 101)
    with refused(board_url, StaleClaim):
        alice.renew_lock(name="l")
