"""Scope leases: no two foreign ones overlap unless both share, all or none, and a conflict is an answer."""

from __future__ import annotations

import threading
import unicodedata
from datetime import timedelta

import pytest

from coordinate import Coordinator
from coordinate.errors import Held, InvalidInput, InvalidState, NotFound, StaleClaim
from tests.clock import age
from tests.fleet import Enter, enter, held, one
from tests.tables import nothing_changes, refused, rows

__all__ = ["enter"]

# QL-11, and statement 3.
OVERLAPS = [
    ("src/foo", "src/foobar", False),
    ("src/foo", "src/foo/", True),
    ("./src/foo", "src/foo", True),
    ("src//foo", "src/foo", True),
    ("src/a/../foo", "src/foo", True),
    (".", "src", True),
    ("src", "src/foo/x.py", True),
    ("src\\foo", "src/foo", True),
    ("SRC/foo", "src/foo", False),
    (unicodedata.normalize("NFC", "é"), unicodedata.normalize("NFD", "é"), True),
    ("src/**", "src/app.py", True),
    ("src/*.py", "src/a.py", True),
    ("src/*.py", "src/sub/a.py", False),
    ("?/a", "b/a", True),
    ("src/[ab].py", "src/c.py", False),
    ("a%b", "axb", False),
    ("a_b", "axb", False),
    ("gpu", "gpu/k", True),
    ("gpu", "gpuX", False),
    ("gpu/", "gpu/k", True),
    ("TASK-1", "gpu", False),
    ("*/x", "deep/x", True),
    ("**/x.py", "a/b/x.py", True),
    (".", "\U0010ffff.txt", True),
    ("**/*.txt", "\U0010ffff.txt", True),
]


@pytest.mark.parametrize(("ours", "theirs", "meet"), OVERLAPS)
def test_the_table_of_overlaps_holds_in_claim_check_and_release_both_ways_round(
    board: Coordinator, enter: Enter, ours: str, theirs: str, meet: bool
) -> None:
    """QL-11, statement 3."""
    alice, bob = enter("alice"), enter("bob")
    for first, second in ((ours, theirs), (theirs, ours)):
        one(alice.claim_scopes(patterns=[first]))
        assert bob.check_scopes(patterns=[second]).granted is not meet
        assert bob.claim_scopes(patterns=[second]).granted is not meet
        bob.release_leases(every=True)
        assert len(alice.release_leases(patterns=[first])) == 1, "it is released by the words it was claimed by"
        assert held(board) == []


def test_outside_of_the_root_is_refused(board: Coordinator, board_url: str) -> None:
    """QL-11"""
    for pattern in ("../x", "a/../../x", "/etc", "", " ", "{a,b}"):
        for call in (board.claim_scopes, board.check_scopes):
            with refused(board_url, InvalidInput):
                call(patterns=[pattern])


def test_a_conflict_says_what_who_for_which_task_and_until_when_and_writes_nothing(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statements 1 and 2: a claim of [free, taken] writes no row for the free path."""
    alice = enter("alice")
    board.dispatch(title="T", role="worker")
    claim = alice.claim_next(role="worker")
    lease = one(alice.claim_scopes(patterns=["src"], task=claim.handle))
    with nothing_changes(board_url):
        answer = board.claim_scopes(patterns=["docs", "src/app.py"], agent="bob")
    assert (answer.granted, answer.leases) == (False, ())
    (conflict,) = answer.conflicts
    assert (conflict.pattern, conflict.held, conflict.holder) == ("src/app.py", "src", "alice")
    assert (conflict.task_id, conflict.session) == ("TASK-1", alice.session)
    assert (conflict.since, conflict.until) == (lease.acquired_at, lease.expires_at)
    with nothing_changes(board_url):
        assert board.check_scopes(patterns=["docs", "src/app.py"]).conflicts == answer.conflicts


def test_claimed_again_by_its_session_it_is_the_same_lease_renewed(enter: Enter, board_url: str) -> None:
    """Statement 4."""
    alice = enter("alice")
    first = one(alice.claim_scopes(patterns=["src"]))
    age(board_url, 100)
    again = one(alice.claim_scopes(patterns=["./src/"]))
    assert (again.id, again.fence) == (first.id, first.fence)
    assert again.expires_at > first.expires_at - timedelta(seconds=5)
    wider = one(alice.claim_scopes(patterns=["src/app"]))
    assert wider.id != first.id, "what an own, wider lease covers is granted for itself"


def test_an_own_lease_becomes_one_of_a_held_task_but_does_not_change_from_task_to_task(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 4."""
    alice = enter("alice")
    for _ in range(2):
        board.dispatch(title="T", role="worker")
    first, second = alice.claim_next(role="worker"), alice.claim_next(role="worker")
    one(alice.claim_scopes(patterns=["src"]))
    assert one(alice.claim_scopes(patterns=["src"], task=first.handle)).id == alice.list_leases(task="TASK-1")[0].id
    with refused(board_url, InvalidState, "held for TASK-1, not for TASK-2"):
        alice.claim_scopes(patterns=["docs", "src"], task=second.handle)
    board.complete(handle=first)
    assert held(board) == []


def test_scopes_are_bound_only_to_a_task_that_the_caller_holds(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    claim = board.claim_next(role="worker")
    for agent, handle in (("bob", claim.handle), ("alice", "TASK-1@2")):
        for call in (board.claim_scopes, board.check_scopes):
            with refused(board_url, StaleClaim):
                call(patterns=["src"], task=handle, agent=agent)
    with refused(board_url, NotFound):
        board.claim_scopes(patterns=["src"], task="TASK-9")


def test_without_a_session_callers_are_strangers_unless_they_show_the_fence_or_the_handle(
    board: Coordinator, board_url: str
) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    assert not board.claim_scopes(patterns=["src"]).granted
    assert not board.check_scopes(patterns=["src"]).granted
    assert not board.claim_scopes(patterns=["src"], fences=[lease.fence], agent="bob").granted, "it is alice's fence"
    assert board.check_scopes(patterns=["src"], fences=[lease.fence]).leases == (lease,)
    assert one(board.claim_scopes(patterns=["src"], fences=[lease.fence])).id == lease.id
    board.dispatch(title="T", role="worker", scopes=["docs"])
    claim = board.claim_next(role="worker")
    assert not board.check_scopes(patterns=["docs/a.md"]).granted
    assert board.check_scopes(patterns=["docs/a.md"], task=claim.handle).granted
    assert board.claim_scopes(patterns=["docs/a.md"], task=claim.handle).granted
    with refused(board_url, NotFound, "without a session"):
        board.release_leases(patterns=["src"])
    assert board.release_leases(fences=[lease.fence])[0].release_reason == "released"


def test_those_who_share_share_and_exclude_whoever_does_not(enter: Enter) -> None:
    alice, bob, carol = enter("alice"), enter("bob"), enter("carol")
    one(alice.claim_scopes(patterns=["src"], mode="shared"))
    one(bob.claim_scopes(patterns=["src/app.py"], mode="shared"))
    (conflict, *_) = carol.claim_scopes(patterns=["src"]).conflicts
    assert conflict.mode == "shared"
    assert carol.check_scopes(patterns=["src"], mode="shared").granted
    assert not alice.claim_scopes(patterns=["src"]).granted, "another shares what it would have for itself"
    bob.release_leases(every=True)
    assert one(alice.claim_scopes(patterns=["src"])).mode == "exclusive"
    assert not bob.claim_scopes(patterns=["src"], mode="shared").granted
    assert one(alice.claim_scopes(patterns=["src"], mode="shared")).mode == "exclusive", "it has more already"


def test_an_expired_lease_blocks_nobody_and_its_taker_says_whose_it_was(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 5: without any sweep."""
    alice = enter("alice")
    first = one(alice.claim_scopes(patterns=["src"], ttl_seconds=60))
    age(board_url, 59)
    assert not board.claim_scopes(patterns=["src/app.py"], agent="bob").granted
    age(board_url, 2)
    second = one(board.claim_scopes(patterns=["src/app.py"], agent="bob"))
    assert second.fence > first.fence
    (event,) = board.list_events(event_type="lease.expired")
    assert (event.payload["former_holder"], event.payload["former_session"]) == ("alice", alice.session)
    for call in (alice.renew_leases,):
        with refused(board_url, StaleClaim, "was expired"):
            call(fences=[first.fence])
    assert alice.release_leases(fences=[first.fence]) == [], "what is over already needs no release"


def test_renewal_takes_all_or_none_and_only_ones_own(enter: Enter, board_url: str) -> None:
    """Statements 6 and 13: a write that carries an old or a foreign fence is refused."""
    alice, bob = enter("alice"), enter("bob")
    short = one(alice.claim_scopes(patterns=["a"], ttl_seconds=60))
    long = one(alice.claim_scopes(patterns=["b"], ttl_seconds=600))
    with refused(board_url, Held, "alice's hold"):
        bob.renew_leases(fences=[long.fence])
    with refused(board_url, Held, "alice's hold"):
        bob.release_leases(fences=[long.fence])
    another = enter("alice")
    with refused(board_url, Held):
        another.renew_leases(fences=[long.fence])
    age(board_url, 61)
    alice.heartbeat()  # which ends what is past; else any later call of hers may be the one
    with refused(board_url, StaleClaim):
        alice.renew_leases(fences=[long.fence, short.fence])
    (renewed,) = alice.renew_leases(fences=[long.fence])
    assert renewed.ttl_seconds == 600
    with refused(board_url, NotFound):
        alice.renew_leases(fences=[999])


def test_release_never_means_everything_by_accident(board: Coordinator, enter: Enter, board_url: str) -> None:
    alice, bob = enter("alice"), enter("bob")
    alice.claim_scopes(patterns=["src", "src/app", "docs"])
    alice.claim_scopes(patterns=["src"], project="other")
    bob.claim_scopes(patterns=["lib"])
    for nothing in ({}, {"fences": []}, {"patterns": []}, {"every": False}):
        with refused(board_url, InvalidInput, "nothing is named"):
            alice.release_leases(**nothing)
    for some in ({"fences": [1]}, {"patterns": ["src"]}):
        with refused(board_url, InvalidInput, "everything and"):
            alice.release_leases(every=True, **some)
    with nothing_changes(board_url):
        assert alice.release_leases(patterns=["lib"]) == [], "it is bob's"
        assert alice.release_leases(patterns=["."]) == [], "the root is a pattern, not everything"
    assert [lease.project for lease in alice.release_leases(patterns=["src"])] == ["default"]
    assert held(board) == [("alice", "docs"), ("alice", "src"), ("alice", "src/app"), ("bob", "lib")]
    assert alice.release_leases(every=True)
    assert held(board) == [("bob", "lib")]


def test_a_lease_is_found_by_pattern_among_thousands(enter: Enter) -> None:
    alice = enter("alice")
    for start in range(0, 1_100, 100):
        alice.claim_scopes(patterns=[f"f{n}" for n in range(start, start + 100)])
    assert [lease.resource for lease in alice.release_leases(patterns=["f1099", "f3"])] == ["f3", "f1099"]


def test_projects_do_not_meet(board: Coordinator) -> None:
    one(board.claim_scopes(patterns=["src"], project="p"))
    assert board.claim_scopes(patterns=["src"], project="q", agent="bob").granted
    assert not board.claim_scopes(patterns=["src"], project="p", agent="bob").granted


def test_each_grant_and_each_end_has_its_event(enter: Enter, board_url: str) -> None:
    alice = enter("alice")
    alice.claim_scopes(patterns=["a", "b"])
    alice.release_leases(patterns=["a"])
    told = rows(board_url, "SELECT event_type, ref FROM events ORDER BY id")
    assert told == [("lease.claimed", "a"), ("lease.released", "a")]


def test_a_lease_verb_touches_no_lock(enter: Enter, board_url: str) -> None:
    alice = enter("alice")
    lock = alice.acquire_lock(name="integrate")
    for verb in (alice.renew_leases, alice.release_leases):
        with refused(board_url, InvalidState, "is the lock integrate, not a scope"):
            verb(fences=[lock.fence])
    alice.claim_scopes(patterns=["src"])
    assert [lease.kind for lease in alice.release_leases(every=True)] == ["scope"]
    assert alice.release_lock(name="integrate").fence == lock.fence


def test_a_list_pages_back_and_shows_the_ended_only_when_asked(enter: Enter, board_url: str) -> None:
    alice = enter("alice")
    alice.claim_scopes(patterns=["a", "b", "c"])
    alice.release_leases(patterns=["b"])
    assert [lease.resource for lease in alice.list_leases()] == ["c", "a"]
    assert [lease.resource for lease in alice.list_leases(ended=True, limit=2)] == ["c", "b"]
    last = alice.list_leases(ended=True, limit=2)[-1].id
    assert [lease.resource for lease in alice.list_leases(ended=True, before=last)] == ["a"]
    age(board_url, 1_000)
    assert alice.list_leases() == []


def test_a_claim_waits_until_it_is_granted_or_its_time_is_over(board: Coordinator, board_url: str) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    with nothing_changes(board_url):
        answer = board.claim_scopes(patterns=["src/app.py", "docs"], wait=0.3, agent="bob")
    assert (answer.granted, [conflict.holder for conflict in answer.conflicts]) == (False, ["alice"])
    release = threading.Timer(0.3, lambda: board.release_leases(fences=[lease.fence]))
    release.start()
    assert board.claim_scopes(patterns=["src/app.py", "docs"], wait=60, agent="bob").granted
    release.join()
    # One that ends by its time wakes nobody, and is found all the same.
    one(board.claim_scopes(patterns=["tests"], ttl_seconds=1))
    assert board.claim_scopes(patterns=["tests"], wait=60, agent="bob").granted


def test_a_conflict_says_in_words_what_ends_it_and_many_are_counted(board: Coordinator) -> None:
    for start in (0, 100):
        assert board.claim_scopes(patterns=[f"src/{number}" for number in range(start, start + 60)]).granted
    for answer in (board.claim_scopes(patterns=["."], agent="bob"), board.check_scopes(patterns=["."], agent="bob")):
        assert (answer.granted, len(answer.conflicts), answer.more) == (False, 100, 20)
        assert answer.conflicts[0].ends.startswith(f"at {answer.conflicts[0].until:%Y-%m-%d}")
    board.dispatch(title="T", role="worker", scopes=["lib"])
    claim = board.claim_next(role="worker")
    board.open_worktree(task=claim.handle, branch="b", root="/r")
    (conflict,) = board.check_scopes(patterns=["lib/x.c"], agent="bob").conflicts
    assert (conflict.until, "alice's worktree of TASK-1" in conflict.ends) == (None, True)
    board.dispatch(title="U", role="worker")
    other = board.claim_next(role="worker", agent="bob")
    refused_ = board.open_worktree(task=other.handle, branch="c", root="/s", patterns=["."], agent="bob")
    assert (refused_.worktree, len(refused_.conflicts), refused_.more) == (None, 100, 21)
