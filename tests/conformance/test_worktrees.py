"""Worktrees: their scopes last until merge or abort, and unsaved work is never dropped by accident. Replay."""

from __future__ import annotations

import threading
import time
from contextlib import closing

import pytest

from coordinate import Coordinator
from coordinate.errors import Held, InvalidState, NotFound, StaleClaim, UnsavedWork
from coordinate.records import Claim
from tests.clock import age
from tests.fleet import Enter, enter, held, one
from tests.tables import assert_sound, connect, nothing_changes, refused, rows

__all__ = ["enter"]


@pytest.fixture
def claim(board: Coordinator) -> Claim:
    board.dispatch(title="T", role="worker", scopes=["src"])
    return board.claim_next(role="worker")


def open_one(board: Coordinator, claim: Claim, **given: object) -> None:
    assert board.open_worktree(task=claim.handle, branch="b", root="/r", **given).worktree


def test_its_scopes_last_past_the_hold_the_session_and_all_time_until_merge(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 14."""
    alice = enter("alice", ttl_seconds=60)
    board.dispatch(title="T", role="worker", scopes=["src"])
    claim = alice.claim_next(role="worker")
    opened = alice.open_worktree(task=claim.handle, branch="b", root="/r")
    assert [(lease.resource, lease.expires_at) for lease in opened.leases] == [("src", None)]
    board.dispatch(title="U", role="worker", scopes=["src/app.py"])
    alice.complete(handle=claim, review=True)
    alice.end_session()
    age(board_url, 10_000_000)
    board.sweep()
    assert board.claim_next(role="worker", agent="bob") is None
    assert "when alice's worktree of TASK-1 is merged or aborted" in board.why(task="TASK-2").reasons[0].message
    (conflict,) = board.claim_scopes(patterns=["src"], agent="bob").conflicts
    assert (conflict.task_id, conflict.until) == ("TASK-1", None)
    assert board.close_worktree(task="TASK-1").state == "merged"
    assert held(board) == []
    assert board.claim_next(role="worker", agent="bob").handle == "TASK-2@1"
    assert_sound(board_url)


def test_the_next_holder_of_the_task_is_not_kept_out_by_its_own_worktree(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    open_one(board, claim)
    board.complete(handle=claim, review=True)
    board.reject(task="TASK-1", reason="r", agent="rita")
    again = board.claim_next(role="worker")
    assert again.handle == "TASK-1@2"
    assert len(held(board)) == 1
    board.release(handle=again)
    assert board.claim_next(role="worker", agent="bob").handle == "TASK-1@3"
    assert held(board) == [("bob", "src")]
    assert_sound(board_url)


def test_a_conflict_with_any_live_scope_is_an_answer_and_writes_nothing(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    """Statement 14."""
    board.claim_scopes(patterns=["docs"], agent="bob")
    with nothing_changes(board_url):
        opened = board.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["src", "docs/a.md"])
    assert opened.worktree is None
    assert [(each.pattern, each.holder) for each in opened.conflicts] == [("docs/a.md", "bob")]


def test_one_open_worktree_for_each_task_by_its_holder_only(board: Coordinator, claim: Claim, board_url: str) -> None:
    open_one(board, claim)
    with refused(board_url, Held, "open worktree already"):
        board.open_worktree(task=claim.handle, branch="c", root="/s")
    with refused(board_url, InvalidState, "bob does not hold TASK-1"):
        board.open_worktree(task="TASK-1", branch="c", root="/s", agent="bob")
    with refused(board_url, NotFound):
        board.open_worktree(task="TASK-9", branch="c", root="/s")
    board.close_worktree(task="TASK-1")
    open_one(board, claim)


def test_a_handle_that_is_over_opens_none(board: Coordinator, claim: Claim, board_url: str) -> None:
    """Also not for who holds the task anew: it is that handle that counts."""
    board.release(handle=claim)
    assert board.claim_next(role="worker").handle == "TASK-1@2"
    with refused(board_url, StaleClaim, "TASK-1@1 is over"):
        board.open_worktree(task=claim.handle, branch="b", root="/r")


def test_without_scopes_it_holds_the_whole_repository(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    open_one(board, board.claim_next(role="worker"))
    assert held(board) == [("alice", ".")]


def test_its_leases_are_released_only_with_it(board: Coordinator, enter: Enter, board_url: str) -> None:
    alice = enter("alice")
    board.dispatch(title="T", role="worker", scopes=["src"])
    opened = alice.open_worktree(task=alice.claim_next(role="worker").handle, branch="b", root="/r")
    with refused(board_url, InvalidState, "worktree of TASK-1"):
        alice.release_leases(fences=[opened.leases[0].fence])
    with refused(board_url, InvalidState, "worktree of TASK-1"):
        alice.release_leases(patterns=["src"])
    with nothing_changes(board_url):
        assert alice.release_leases(every=True) == []


def test_unsaved_work_is_not_dropped_without_force_and_force_is_on_record(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    """Statement 14."""
    open_one(board, claim)
    with refused(board_url, UnsavedWork, "2 files are not committed") as caught:
        board.close_worktree(task="TASK-1", aborted=True, unsaved="2 files are not committed")
    assert caught.value.facts["branch"] == "b"
    closed = board.close_worktree(
        task="TASK-1", aborted=True, unsaved="2 files are not committed", force=True, reason="no use"
    )
    assert (closed.state, closed.close_reason) == ("aborted", "no use; dropped: 2 files are not committed")
    with refused(board_url, NotFound, "no open worktree"):
        board.close_worktree(task="TASK-1")


def test_only_its_agent_closes_it_until_another_adopts_it(board: Coordinator, claim: Claim, board_url: str) -> None:
    """Statement 14: abort ends the leases of that task and of no other."""
    open_one(board, claim)
    board.claim_scopes(patterns=["docs"])
    for call in (board.close_worktree, board.set_worktree_state):
        with refused(board_url, Held, "alice's, on branch b"):
            call(task="TASK-1", agent="bob", **({"state": "gating"} if call == board.set_worktree_state else {}))
    with refused(board_url, UnsavedWork):
        board.adopt_worktree(task="TASK-1", unsaved="a file", agent="bob")
    assert board.adopt_worktree(task="TASK-1", agent="bob").agent == "bob"
    assert held(board) == [("alice", "docs"), ("bob", "src")]
    assert board.set_worktree_state(task="TASK-1", state="gating", agent="bob").state == "gating"
    board.block(handle=claim, reason="r")
    board.close_worktree(task="TASK-1", aborted=True, agent="bob")
    assert held(board) == [("alice", "docs")]
    told = [event for (event,) in rows(board_url, "SELECT event_type FROM events WHERE event_type LIKE 'worktree.%'")]
    assert sorted(told) == ["worktree.aborted", "worktree.adopted", "worktree.opened", "worktree.state"]


def test_another_worktree_than_was_looked_at_is_neither_closed_nor_adopted(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    """To look with git takes seconds: one that was opened meanwhile may hold other work."""
    open_one(board, claim)
    seen = board.worktree_of(task="TASK-1")
    assert seen is not None
    board.close_worktree(task="TASK-1", aborted=True, looked_at=seen.id)
    open_one(board, claim)
    for call in (board.close_worktree, board.adopt_worktree):
        for looked_at in (0, seen.id):
            with refused(board_url, InvalidState, "another open worktree now than was looked at"):
                call(task="TASK-1", looked_at=looked_at, force=True, agent="bob")
    assert board.adopt_worktree(task="TASK-1", looked_at=seen.id + 1, agent="bob").agent == "bob"


def test_closed_while_the_task_is_held_its_scopes_last_as_long_as_the_hold(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    """Whoever merges first and completes then holds what the task declares in between."""
    board.claim_scopes(patterns=["docs"], task=claim.handle)
    age(board_url, 1)
    opened = board.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["src", "lib"])
    assert [lease.expires_at for lease in opened.leases] == [None] * 3
    board.close_worktree(task="TASK-1")
    assert held(board) == [("alice", "docs"), ("alice", "src")]
    until = board.mine()[0].lease_until
    assert all(lease.expires_at >= until for lease in board.list_leases())
    assert_sound(board_url)
    board.complete(handle=claim)
    assert held(board) == []


def test_two_open_worktrees_never_overlap_also_in_one_session(enter: Enter, board: Coordinator, board_url: str) -> None:
    alice = enter("alice")
    for _ in range(2):
        board.dispatch(title="T", role="worker")
    first, second = alice.claim_next(role="worker"), alice.claim_next(role="worker")
    alice.open_worktree(task=first.handle, branch="b", root="/r", patterns=["src"])
    with nothing_changes(board_url):
        (conflict,) = alice.open_worktree(
            task=second.handle, branch="c", root="/s", patterns=["docs", "src/app.py"]
        ).conflicts
    assert (conflict.pattern, conflict.held, conflict.task_id) == ("src/app.py", "src", "TASK-1")


def test_what_is_shared_becomes_the_worktrees_alone_or_it_is_not_opened(
    enter: Enter, board: Coordinator, board_url: str
) -> None:
    alice, bob = enter("alice"), enter("bob")
    board.dispatch(title="T", role="worker")
    claim = alice.claim_next(role="worker")
    for each in (alice, bob):
        each.claim_scopes(patterns=["src"], mode="shared", **({"task": claim.handle} if each is alice else {}))
    with nothing_changes(board_url):
        (conflict,) = alice.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["docs"]).conflicts
    assert (conflict.pattern, conflict.holder, conflict.mode) == ("src", "bob", "shared")
    bob.release_leases(every=True)
    opened = alice.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["docs"])
    assert {(lease.resource, lease.mode) for lease in opened.leases} == {("docs", "exclusive"), ("src", "exclusive")}
    assert not bob.claim_scopes(patterns=["src"], mode="shared").granted


def test_what_overlaps_is_not_split_between_two_agents(enter: Enter, board: Coordinator, board_url: str) -> None:
    """By transfer and by adoption: within one session two scopes may overlap, between two agents they must not."""
    alice = enter("alice")
    board.dispatch(title="T", role="worker", scopes=["src"])
    claim = alice.claim_next(role="worker")
    own = alice.claim_scopes(patterns=["src/app.py"]).leases[0]
    with refused(board_url, InvalidState, "alice holds src/app.py with fence"):
        alice.transfer(handle=claim, to="bob")
    open_one(alice, claim)
    with refused(board_url, InvalidState, "alice holds src/app.py with fence"):
        board.adopt_worktree(task="TASK-1", agent="bob")
    alice.release_leases(fences=[own.fence])
    assert board.adopt_worktree(task="TASK-1", agent="bob").agent == "bob"
    alice.transfer(handle=claim, to="bob")


def test_transfer_of_the_task_leaves_the_worktree_with_its_agent(
    board: Coordinator, claim: Claim, board_url: str
) -> None:
    open_one(board, claim)
    moved = board.transfer(handle=claim, to="bob")
    assert held(board) == [("bob", "src")]
    assert board.worktree_of(task="TASK-1").agent == "alice"
    assert board.check_scopes(patterns=["src/x"], task=moved.handle, agent="bob").granted
    board.adopt_worktree(task="TASK-1", agent="bob")
    assert held(board) == [("bob", "src")]


def test_the_list_shows_the_open_ones_and_the_closed_when_asked(board: Coordinator, claim: Claim) -> None:
    open_one(board, claim)
    assert board.worktree_of(task="TASK-1").branch == "b"
    assert [each.task_id for each in board.list_worktrees()] == ["TASK-1"]
    board.close_worktree(task="TASK-1")
    assert board.worktree_of(task="TASK-1") is None
    assert board.list_worktrees() == []
    assert [each.state for each in board.list_worktrees(closed=True)] == ["merged"]


def test_what_a_stream_applied_is_kept_once_and_pages(board: Coordinator, board_url: str) -> None:
    assert board.applied(stream="main") == []
    assert board.mark_applied(stream="main", event_keys=["b", "a"]) == ["b", "a"]
    assert board.mark_applied(stream="main", event_keys=["a", "c", "c"]) == ["c"]
    with nothing_changes(board_url):
        assert board.mark_applied(stream="main", event_keys=["a", "b", "c"]) == []
    assert [each.event_key for each in board.applied(stream="main", limit=2)] == ["a", "b"]
    assert [each.event_key for each in board.applied(stream="main", after="b")] == ["c"]
    assert board.applied(stream="other") == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_keys_are_marked_in_one_order_however_they_are_given(board: Coordinator, board_url: str) -> None:
    """Else two who mark the same ones may wait for each other in a circle."""
    mark = "INSERT INTO applied_events (stream, event_key, applied_at) VALUES ('main', '{}', now())"
    new: list[str] = []
    marking = threading.Thread(target=lambda: new.extend(board.mark_applied(stream="main", event_keys=["c", "b", "a"])))
    with closing(connect(board_url)) as other:
        other.execute("BEGIN")
        other.execute(mark.format("a"))
        marking.start()
        while not rows(board_url, "SELECT FROM pg_locks WHERE NOT granted"):
            time.sleep(0.02)
        other.execute("SET LOCAL lock_timeout = '50ms'")
        other.execute(mark.format("b"))
        other.execute("COMMIT")
        marking.join()
    assert new == ["c"]


@pytest.mark.parametrize("leave", ["release", "expiry"])
def test_the_scopes_of_an_open_worktree_are_whoevers_who_holds_its_task(
    board: Coordinator, enter: Enter, board_url: str, leave: str
) -> None:
    """So nobody holds a task without its scopes, and no two agents have what overlaps."""
    alice, bob = enter("alice", ttl_seconds=9_000), enter("bob", ttl_seconds=9_000)
    board.dispatch(title="t", role="worker", scopes=["src"])
    claim = alice.claim_next(role="worker")
    assert alice.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["src", "docs"]).worktree
    one(alice.claim_scopes(patterns=["docs/a.md"]))
    if leave == "release":
        alice.release(handle=claim)
    else:
        age(board_url, 901)
        alice.heartbeat()
        one(alice.claim_scopes(patterns=["docs/a.md"]))
    assert bob.claim_next(role="worker") is None, "alice would hold a part of what comes along"
    with refused(board_url, Held, "alice holds docs/a.md"):
        bob.claim_task(task="TASK-1")
    alice.release_leases(patterns=["docs/a.md"])
    assert bob.claim_next(role="worker").handle == "TASK-1@2"
    assert held(board) == [("bob", "docs"), ("bob", "src")]
    assert bob.check_scopes(patterns=["src/x"]).granted
    assert not alice.claim_scopes(patterns=["src/x"]).granted
    bob.adopt_worktree(task="TASK-1")
    assert_sound(board_url)


def test_what_another_shares_late_is_taken_back_before_a_worktree_has_it_alone(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice, bob = enter("alice", ttl_seconds=9_000), enter("bob", ttl_seconds=9_000)
    for _ in range(2):
        board.dispatch(title="T", role="worker")
    claim = alice.claim_next(role="worker", lease_seconds=9_000)
    late = bob.claim_next(role="worker", lease_seconds=60)
    for c, hold in ((alice, claim), (bob, late)):
        one(c.claim_scopes(patterns=["src"], mode="shared", task=hold.handle, ttl_seconds=60))
    age(board_url, 70)
    assert alice.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["docs"]).worktree
    with pytest.raises(StaleClaim):
        bob.log_progress(handle=late, note="n")
    assert held(board) == [("alice", "docs"), ("alice", "src")]
    assert_sound(board_url)


def test_an_adopted_worktree_gives_its_scopes_back_to_the_holder_whole(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice, bob = enter("alice"), enter("bob")
    board.dispatch(title="T", role="worker", scopes=["src"])
    open_one(alice, alice.claim_next(role="worker"))
    bob.adopt_worktree(task="TASK-1")
    own = one(bob.claim_scopes(patterns=["src/app.py"]))
    with refused(board_url, InvalidState, "bob holds src/app.py with fence"):
        bob.close_worktree(task="TASK-1")
    bob.release_leases(fences=[own.fence])
    bob.close_worktree(task="TASK-1")
    assert held(board) == [("alice", "src")]


def test_a_refusal_says_whose_worktree_it_is_also_when_another_holds_the_task(
    board: Coordinator, enter: Enter, claim: Claim
) -> None:
    open_one(board, claim)
    board.release(handle=claim)
    assert enter("bob").claim_next(role="worker").handle == "TASK-1@2"
    (conflict,) = enter("carol").claim_scopes(patterns=["src"]).conflicts
    assert (conflict.holder, "alice's worktree" in conflict.ends) == ("bob", True)
