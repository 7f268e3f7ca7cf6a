"""Agents and sessions: two sessions of one name are two holders; what is lost is told once."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.db.dialect import Postgres
from coordinate.errors import InvalidInput, InvalidState, NotFound
from tests.clock import age
from tests.fleet import Enter, enter, held, one
from tests.tables import connect, refused, rows

__all__ = ["enter"]


def test_a_name_is_kept_and_a_missing_one_is_made_that_nobody_has(board: Coordinator) -> None:
    made = {board.register().agent for _ in range(20)}
    assert len(made) == 20
    assert board.register(name="alice", role="writer").agent == "alice"
    assert board.register(name="alice").agent == "alice"
    (alice,) = [agent for agent in board.list_agents() if agent.name == "alice"]
    assert (alice.role, alice.live_sessions) == ("writer", 2)
    assert [agent.name for agent in board.list_agents(after="ag-~", limit=1)] == ["alice"]


def test_two_sessions_of_one_name_are_two_holders(board: Coordinator, enter: Enter, board_url: str) -> None:
    """QL-23, statement 4. The end of one frees nothing of the other, and their cursors are their own."""
    first, second = enter("alice"), enter("alice")
    assert first.session != second.session
    one(first.claim_scopes(patterns=["src"]))
    (conflict,) = second.claim_scopes(patterns=["src/app.py"]).conflicts
    assert (conflict.holder, conflict.session) == ("alice", first.session)
    one(second.claim_scopes(patterns=["docs"]))
    first.emit(event_type="note", message="one", agent="bob")
    for each in (first, second):
        each.next_events(consumer=each.session, from_start=True)
    read = first.next_events(consumer=first.session)
    first.ack(consumer=first.session, position=read.delivered)
    assert second.next_events(consumer=second.session).acknowledged == 0
    first.end_session()
    assert held(board) == [("alice", "docs")]
    told = [each for (each,) in rows(board_url, "SELECT consumer FROM event_cursors WHERE consumer LIKE 'learnings:%'")]
    assert told == [f"learnings:{second.session}"]


def test_the_end_of_a_session_releases_its_scopes_and_locks_and_leaves_its_claims(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice = enter("alice")
    board.dispatch(title="T", role="worker", scopes=["task"])
    claim = alice.claim_next(role="worker")
    alice.claim_scopes(patterns=["src"])
    alice.acquire_lock(name="integrate")
    assert alice.end_session().end_reason == "ended"
    assert held(board) == [("alice", "task")], "what belongs to a held task ends with its hold"
    assert board.complete(handle=claim).task.status == "DONE"
    assert held(board) == []
    assert not alice.end_session().live, "twice changes nothing"
    with refused(board_url, InvalidState, "was ended"):
        enter("alice", session=alice.session).stats()


def test_a_session_that_never_was_is_said_so_whatever_is_asked_of_it(board: Coordinator, board_url: str) -> None:
    calls = [
        lambda: board.claim_scopes(patterns=["src"], session="s-0"),
        lambda: board.acquire_lock(name="l", session="s-0"),
        lambda: board.claim_next(role="worker", session="s-0"),
        lambda: board.heartbeat(session="s-0"),
        lambda: board.set_doing(doing="x", session="s-0"),
        lambda: board.end_session(session="s-0"),
        lambda: board.tell_losses(session="s-0"),
        lambda: coordinate.connect(board_url, session="s-0"),
    ]
    for call in calls:
        with refused(board_url, NotFound, "no session s-0"):
            call()
    for call in (board.heartbeat, board.end_session, board.tell_losses, board.set_doing):
        with refused(board_url, NotFound, "no session is shown"):
            call()


def test_a_session_says_the_name_and_another_with_it_is_a_mistake(enter: Enter, board_url: str) -> None:
    alice = enter("alice")
    with coordinate.connect(board_url, session=alice.session) as again:
        assert again.agent == "alice"
    with pytest.raises(InvalidInput, match="alice's, not bob's"):
        coordinate.connect(board_url, agent="bob", session=alice.session)


def test_a_session_named_with_a_call_is_its_agents_alone(board: Coordinator, enter: Enter, board_url: str) -> None:
    """Whoever knows a session's id acts in its name, or not at all."""
    bob = enter("bob")
    one(bob.claim_scopes(patterns=["src"]))
    calls = [
        lambda: board.end_session(session=bob.session),
        lambda: board.tell_losses(session=bob.session),
        lambda: board.set_doing(doing="x", session=bob.session),
        lambda: board.heartbeat(session=bob.session),
        lambda: board.learnings(session=bob.session),
        lambda: board.release_leases(every=True, session=bob.session),
        lambda: board.claim_scopes(patterns=["src"], session=bob.session),
        lambda: board.claim_next(role="worker", session=bob.session),
        lambda: bob.acquire_lock(name="l", agent="carol", session=bob.session),
    ]
    for call in calls:
        with refused(board_url, InvalidInput, "is bob's, not (alice|carol)'s"):
            call()
    assert board.release_leases(every=True, agent="bob", session=bob.session)
    with coordinate.connect(board_url) as nobody:
        assert nobody.claim_scopes(patterns=["src"], session=bob.session).leases[0].agent == "bob"


def test_who_names_another_agent_does_not_act_in_the_connections_session(enter: Enter) -> None:
    alice = enter("alice")
    lease = one(alice.claim_scopes(patterns=["src"], agent="bob"))
    assert (lease.agent, lease.session_id) == ("bob", None)
    assert not alice.claim_scopes(patterns=["src"]).granted


def test_what_a_session_is_at_is_not_shown_for_long_without_a_call(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Of the statements on the inbox the last: a mere heartbeat keeps the session alive, and no claim to be at work."""
    alice = enter("alice", doing="the parser", ttl_seconds=9_000)
    alice.set_doing(detail="grammar stands")
    for _ in range(3):
        age(board_url, 610)
        alice.heartbeat()
    (session,) = board.list_sessions()
    assert (session.live, session.doing, session.detail) == (True, "", "")
    enter("alice", session=alice.session).stats()
    assert board.list_sessions()[0].doing == "", "a call does not bring it back"
    alice.set_doing(doing="the printer")
    age(board_url, 1_700)
    alice.stats()
    assert board.list_sessions()[0].doing == "the printer"


def test_sessions_are_listed_live_or_stale_with_what_they_are_at(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice = enter("alice", doing="the parser", ttl_seconds=60)
    alice.set_doing(detail="grammar stands")
    (session,) = board.list_sessions(of_agent="alice")
    assert (session.doing, session.detail, session.live) == ("the parser", "grammar stands", True)
    age(board_url, 61)
    (session,) = board.list_sessions()
    assert not session.live
    assert board.list_agents()[0].live_sessions == 0
    enter("alice", session=alice.session).stats()
    assert board.list_sessions()[0].live, "every call is a sign of life"
    alice.end_session()
    assert board.list_sessions() == []
    assert len(board.list_sessions(ended=True)) == 1


def test_sessions_are_read_page_by_page(board: Coordinator, board_url: str) -> None:
    for number in range(5):
        board.register(name=f"agent-{number % 2}")
        age(board_url, number % 3)
    everyone = [session.id for session in board.list_sessions()]
    paged: list[str] = []
    while page := board.list_sessions(limit=2, after=paged[-1] if paged else None):
        paged += [session.id for session in page]
    assert paged == everyone
    with refused(board_url, NotFound):
        board.list_sessions(after="s-nobody")


# --- renewal ----------------------------------------------------------------------------------------------------------


def left(board_url: str, resource: str) -> float:
    seconds = (
        "extract(epoch FROM expires_at - clock_timestamp())"
        if board_url.startswith("postgresql")
        else "(julianday(expires_at) - julianday('now')) * 86400"
    )
    return float(rows(board_url, f"SELECT {seconds} FROM leases WHERE resource = '{resource}'")[0][0])


def test_a_call_renews_what_is_half_over_each_its_own_length_and_never_a_lock(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 6: a claim of 7,200 s stays one of 7,200 s."""
    alice = enter("alice", ttl_seconds=9_000)
    board.dispatch(title="T", role="worker")
    for resource, ttl in (("short", 900), ("long", 7_200), ("fresh", 2_000)):
        alice.claim_scopes(patterns=[resource], ttl_seconds=ttl)
    alice.acquire_lock(name="lock", ttl_seconds=900)
    claim = alice.claim_next(role="worker", lease_seconds=900)
    age(board_url, 500)
    enter("alice", session=alice.session).stats()
    assert 895 < left(board_url, "short") <= 901
    assert 1_490 < left(board_url, "fresh") <= 1_501, "more than half is left: nothing is written"
    assert 6_690 < left(board_url, "long") <= 6_701
    assert 390 < left(board_url, "lock") <= 401
    until = board.view(task=claim.task.id).task.lease_until
    assert (until - claim.lease_until).total_seconds() > -10
    age(board_url, 3_200)
    enter("alice", session=alice.session).stats()
    assert 7_190 < left(board_url, "long") <= 7_201


def test_renewal_revives_nothing_and_never_shortens(enter: Enter, board_url: str) -> None:
    """Statement 6."""
    alice = enter("alice", ttl_seconds=9_000)
    gone = one(alice.claim_scopes(patterns=["gone"], ttl_seconds=60))
    kept = one(alice.claim_scopes(patterns=["kept"], ttl_seconds=60))
    alice.renew_leases(fences=[kept.fence], ttl_seconds=5_000)
    age(board_url, 61)
    alice = enter("alice", session=alice.session)
    alice.heartbeat()
    assert left(board_url, "gone") < 0
    assert left(board_url, "kept") > 4_900
    alice.renew_leases(fences=[kept.fence], ttl_seconds=10)
    assert left(board_url, "kept") > 4_900
    assert gone.fence not in [lease.fence for lease in alice.list_leases()]


def test_without_a_session_a_call_renews_nothing(board: Coordinator, board_url: str) -> None:
    one(board.claim_scopes(patterns=["src"], ttl_seconds=100))
    age(board_url, 60)
    board.stats()
    assert left(board_url, "src") < 41


# --- losses -----------------------------------------------------------------------------------------------------------


def test_losses_are_told_once(board: Coordinator, enter: Enter, board_url: str) -> None:
    """Statement 5: the former holder's next call says what it lost."""
    alice = enter("alice", ttl_seconds=9_000)
    board.dispatch(title="T", role="worker")
    claim = alice.claim_next(role="worker", lease_seconds=60)
    alice.claim_scopes(patterns=["src"], ttl_seconds=60)
    alice.acquire_lock(name="lock", ttl_seconds=60)
    assert alice.lost() is None
    age(board_url, 61)
    one(board.claim_scopes(patterns=["src/app.py"], agent="bob"))
    board.claim_next(role="worker", agent="bob")
    board.acquire_lock(name="lock", agent="bob")
    alice = enter("alice", session=alice.session)
    alice.stats()
    lost = alice.lost()
    assert sorted(lease.resource for lease in lost.leases) == ["lock", "src"]
    assert {lease.release_reason for lease in lost.leases} == {"expired"}
    assert lost.claims == (claim.handle,)
    assert alice.lost() is None
    told = enter("alice", session=alice.session).tell_losses()
    assert (told.leases, told.claims) == ((), ())
    # A caller that missed it may ask again, as often as it likes.
    for _ in range(2):
        again = alice.tell_losses(again=True)
        assert (sorted(lease.resource for lease in again.leases), again.claims) == (["lock", "src"], (claim.handle,))
    assert enter("alice").tell_losses(again=True).leases == ()


def test_more_losses_than_fit_are_told_in_turns_and_none_is_left_out(enter: Enter, board_url: str) -> None:
    alice = enter("alice", ttl_seconds=9_000)
    for start in (0, 60):
        alice.claim_scopes(patterns=[f"f{n}" for n in range(start, start + 60)], ttl_seconds=60)
    age(board_url, 61)
    alice.sweep(limit=1_000, agent="bob")
    told: list[str] = []
    while page := alice.tell_losses().leases:
        told += [lease.resource for lease in page]
    assert sorted(told) == sorted(f"f{n}" for n in range(120))
    assert [lease.resource for lease in alice.tell_losses(again=True).leases] == [f"f{n}" for n in range(70, 120)]


def test_a_swept_session_that_comes_back_is_told_what_it_lost_and_missed_nothing(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """Statement 10: it goes on from its old cursor, and its own expiry notice is among what it receives."""
    alice = enter("alice", ttl_seconds=60)
    alice.next_events(consumer=alice.session)
    alice.claim_scopes(patterns=["src", "docs"], ttl_seconds=7_000)
    read = alice.next_events(consumer=alice.session, not_by="alice")
    alice.ack(consumer=alice.session, position=read.delivered)
    age(board_url, 61)
    board.emit(event_type="note", message="before", agent="bob")
    swept = board.sweep(agent="bob")
    assert swept.sessions == (alice.session,)
    board.emit(event_type="note", message="after", agent="bob")
    alice = enter("alice", session=alice.session)
    missed = alice.next_events(consumer=alice.session, not_by="alice")
    assert [event.event for event in missed.events] == ["note", "lease.swept", "lease.swept", "note"]
    assert {event.payload.get("former_session") for event in missed.events[1:3]} == {alice.session}
    assert sorted(lease.resource for lease in alice.lost().leases) == ["docs", "src"]
    assert alice.list_sessions()[0].live


def test_a_swept_session_may_be_ended_on_purpose_and_is_not_back_then(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice = enter("alice", ttl_seconds=60)
    age(board_url, 61)
    board.sweep()
    with coordinate.connect(board_url, session=alice.session) as other:
        other.end_session()
        with pytest.raises(InvalidState, match="was ended"):
            other.mine()
        other.end_session()
    assert [each.live for each in board.list_sessions(ended=True)] == [False]


def test_one_who_finds_its_own_expiry_is_handed_the_event_too(enter: Enter, board_url: str) -> None:
    alice = enter("alice", ttl_seconds=9_000)
    alice.claim_scopes(patterns=["src"], ttl_seconds=60)
    alice.next_events(consumer="alice", not_by="alice")
    age(board_url, 61)
    one(alice.claim_scopes(patterns=["src"]))
    found = alice.next_events(consumer="alice", not_by="alice").events
    assert [(event.event, event.payload["former_holder"]) for event in found] == [("lease.expired", "alice")]


def test_nothing_is_granted_to_a_session_that_another_process_has_just_ended(
    board: Coordinator, board_url: str
) -> None:
    """A sign of life is due once a second at most, so the grant itself looks whether the session is still there."""
    session = board.register(name="sue").id
    board.dispatch(title="t", role="worker")
    board.claim_task(task=board.dispatch(title="h", role="other").task.id, agent="sue")
    with coordinate.connect(board_url, session=session) as c, coordinate.connect(board_url, session=session) as other:
        c.mine()
        other.end_session()
        for grant in (
            lambda: c.claim_scopes(patterns=["src"]),
            lambda: c.acquire_lock(name="deploy"),
            lambda: c.claim_next(role="worker"),
            lambda: c.claim_task(task="TASK-1"),
            lambda: c.open_worktree(task="TASK-2", branch="b", root="/r"),
            lambda: c.adopt_worktree(task="TASK-2"),
        ):
            with pytest.raises(InvalidState, match="was ended"):
                grant()
    assert board.list_leases() == []


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_sign_of_life_that_comes_while_its_session_is_ended_is_refused(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite the two come one after the other."""
    session = board.register(name="sue").id
    asked = board.database.engine.binder(board.database.engine.library["session_heartbeat"])[0]
    execute = Postgres.execute
    with coordinate.connect(board_url, session=session) as sue, coordinate.connect(board_url, session=session) as other:

        def ending(self: Postgres, connection: Any, sql: str, params: Any) -> Any:
            if sql == asked:
                other.end_session()
            return execute(self, connection, sql, params)

        monkeypatch.setattr(Postgres, "execute", ending)
        with pytest.raises(InvalidState, match="was ended"):
            sue.heartbeat()


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_a_lease_that_somebody_has_locked_is_renewed_later_and_the_others_now(enter: Enter, board_url: str) -> None:
    """As whoever sets a task aside on it does, in a transaction that may last; nor do two wait in a circle."""
    sue = enter("sue", ttl_seconds=9_000)
    locked, free = sue.claim_scopes(patterns=["docs", "src"], ttl_seconds=60).leases
    age(board_url, 40)

    def renewed() -> list[int]:
        sue.heartbeat()
        return [lease.id for lease in sue.list_leases() if lease.expires_at - lease.acquired_at > timedelta(seconds=99)]

    with closing(connect(board_url)) as other:
        other.execute("BEGIN")
        other.execute(f"SELECT FROM leases WHERE id = {locked.id} FOR SHARE")
        assert renewed() == [free.id]
        other.execute("ROLLBACK")
    assert renewed() == [free.id, locked.id]


def test_a_session_that_is_swept_between_two_of_its_calls_is_back_with_what_it_is_granted(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice = enter("alice", ttl_seconds=60)
    alice.stats()
    age(board_url, 61)
    board.sweep()
    one(alice.claim_scopes(patterns=["src"]))
    assert board.list_sessions(of_agent="alice")[0].live


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_read_whose_session_owes_a_sign_of_life_waits_for_no_writer(
    engine: str, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who has the write lock for long, such as a restore, stops those who write and nobody who only looks."""
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "3000")
    monkeypatch.setattr("coordinate.service.LOOK_SECONDS", 0.1)
    got: list[int] = []
    with coordinate.connect(board_url, agent="alice") as c:
        c.session = c.register(name="alice").id
        age(board_url, 300)
        with closing(connect(board_url)) as other:
            other.execute("BEGIN IMMEDIATE")
            reader = threading.Thread(target=lambda: got.append(c.status().total))
            reader.start()
            reader.join(20)
            seen = list(got)
            other.execute("ROLLBACK")
        reader.join()
    assert seen == [0]
