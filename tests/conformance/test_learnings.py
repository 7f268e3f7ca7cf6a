"""Learnings: what other agents said, handed along once with the size of the rest; and a session that says its name."""

from __future__ import annotations

import pytest

import coordinate
from coordinate import Coordinator, events
from coordinate.errors import InvalidInput, NotFound
from coordinate.plans import PlannedTask
from coordinate.records import Learnings
from coordinate.service import LOOK_SECONDS
from tests.clock import age
from tests.tables import rows


def say(board: Coordinator, *messages: str, by: str = "bob") -> None:
    for message in messages:
        board.emit(event_type="learned", message=message, agent=by)


def said(learnings: Learnings) -> list[str]:
    return [event.message for event in learnings.events]


def test_a_newcomer_hears_what_is_said_from_now_on(board: Coordinator) -> None:
    say(board, "before")
    assert board.learnings() == Learnings((), 0, None)
    say(board, "after")
    assert said(board.learnings()) == ["after"]
    assert said(board.learnings()) == []


def test_a_session_hears_what_was_said_since_it_was_registered_though_it_never_asked(
    board: Coordinator, board_url: str
) -> None:
    say(board, "before")
    session = board.register(name="carol").id
    say(board, "since")
    with coordinate.connect(board_url, session=session) as carol:
        assert said(carol.learnings()) == ["since"]
        assert said(carol.learnings()) == []


def test_more_counts_exactly_what_is_left_and_the_order_is_the_log_s(board: Coordinator) -> None:
    board.learnings()
    say(board, *(f"no {number}" for number in range(12)))
    say(board, "her own", by="alice")
    board.emit(event_type="build.passed", payload={"build": 7}, agent="ci")  # nothing said
    board.dispatch(title="t", role="w", agent="bob")
    heard = [board.learnings(limit=5) for _ in range(4)]
    assert [each.more for each in heard] == [7, 2, 0, 0]
    assert [message for each in heard for message in said(each)] == [f"no {number}" for number in range(12)]


def test_a_full_page_with_nothing_behind_it_leaves_no_rest(board: Coordinator) -> None:
    board.learnings()
    say(board, "one", "two")
    assert board.learnings(limit=2).more == 0
    with pytest.raises(InvalidInput):
        board.learnings(limit=0)


def test_each_session_and_the_agent_without_one_have_a_cursor_of_their_own(board: Coordinator) -> None:
    sessions = [board.register(name="alice").id for _ in range(2)]
    readers = [None, *sessions]
    for session in readers:
        board.learnings(session=session)
    say(board, "the cache lies")
    assert [said(board.learnings(session=session)) for session in readers] == [["the cache lies"]] * 3


def test_who_reads_the_log_under_the_same_name_and_who_is_told_take_nothing_from_each_other(
    board: Coordinator,
) -> None:
    session = board.register(name="alice").id
    for name in ("alice", session):
        board.next_events(consumer=name)
    board.learnings()
    say(board, "hello")
    for name, run in (("alice", None), (session, session)):
        assert [event.message for event in board.next_events(consumer=name).events] == ["hello"]
        assert said(board.learnings(session=run)) == ["hello"]
        assert [event.message for event in board.next_events(consumer=name).events] == ["hello"], "not acknowledged"


def test_nobody_else_moves_the_place_of_who_is_told(board: Coordinator) -> None:
    session = board.register(name="bob").id
    say(board, "the cache lies", by="carol")
    head = board.tail_events()[1]
    for name in ("bob", session):
        for refused in (
            lambda consumer: board.next_events(consumer=consumer),
            lambda consumer: board.ack(consumer=consumer, position=head),
            lambda consumer: board.rewind(consumer=consumer, position=head),
        ):
            with pytest.raises(InvalidInput, match="belong to the board"):
                refused(f" learnings:{name}")
    assert said(board.learnings(agent="bob", session=session)) == ["the cache lies"]


def test_what_was_pruned_before_it_was_heard_is_a_gap(board: Coordinator, board_url: str) -> None:
    """QL-19: never a silent jump."""
    board.learnings()
    say(board, "gone")
    age(board_url, 4 * 86_400)
    board.prune()
    heard = board.learnings()
    assert heard.events == () and heard.gap is not None and heard.gap.lost >= 1
    assert board.learnings().gap is None


def test_what_came_in_silence_and_was_looked_through_is_no_gap_once_it_is_pruned(
    board: Coordinator, board_url: str
) -> None:
    board.learnings()
    board.emit(event_type="build.passed", agent="ci")  # nothing said
    for _ in range(4):
        assert board.learnings() == Learnings((), 0, None)
        age(board_url, events.TTL_SECONDS // 3 + 1)
    assert board.prune().events_deleted == 1
    assert board.learnings() == Learnings((), 0, None)


def test_a_session_says_its_agents_name_and_bears_no_other(board: Coordinator, board_url: str) -> None:
    session = board.register(name="carol").id
    with coordinate.connect(board_url, session=session) as carol:
        assert carol.agent == "carol"
        assert carol.claim_scopes(patterns=["src"]).leases[0].agent == "carol"
    with coordinate.connect(board_url, agent="carol", session=session) as carol:
        assert carol.agent == "carol"
    with pytest.raises(InvalidInput, match="carol"):
        coordinate.connect(board_url, agent="bob", session=session)
    with pytest.raises(NotFound):
        coordinate.connect(board_url, session="s-nobody")


def test_the_open_worktree_of_a_task_is_found_by_it(board: Coordinator) -> None:
    task = board.dispatch(title="t", role="w").task.id
    assert board.worktree_of(task=task) is None
    claim = board.claim_task(task=task)
    opened = board.open_worktree(task=claim.handle, branch="b", root="/r", patterns=["src"])
    assert board.worktree_of(task=claim.handle) == opened.worktree
    board.close_worktree(task=task, aborted=True)
    assert board.worktree_of(task=task) is None


def test_what_came_in_silence_is_gone_through_once(board: Coordinator, board_url: str) -> None:
    board.learnings()
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", "t", "later") for n in range(events.SILENT_MAX + 1)], agent="bob")
    assert board.wait_for(wait=0).nothing
    (told,) = rows(board_url, "SELECT delivered FROM event_cursors WHERE consumer = 'learnings:alice'")
    assert told == (board.tail_events()[1],)
    say(board, "at last")
    assert [event.message for event in board.wait_for(wait=0).said] == ["at last"]


def test_whoever_waits_does_not_look_again_and_again_for_what_others_have_to_bring_back(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease of another role is past, and nobody claims there."""
    board.dispatch(title="t", role="other")
    board.claim_next(role="other", agent="dead")
    age(board_url, 901)
    ask = board.ask(title="Which?", action_owner="decision", options=["a", "b"], impact="i").ask.id

    class Waits(Exception):
        pass

    def wait(seconds: float) -> None:
        raise Waits(seconds)

    monkeypatch.setattr(board.database, "wait", wait)
    for call in (lambda: board.wait_for(role="worker", wait=600), lambda: board.wait_ask(ask=ask, wait=600)):
        with pytest.raises(Waits) as waits:
            call()
        assert waits.value.args == (LOOK_SECONDS,)
    assert board.claim_next(role="other", wait=600) is not None
