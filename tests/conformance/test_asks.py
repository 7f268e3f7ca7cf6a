"""The inbox: asks, responses, deliveries, acknowledgements, and tasks that wait for a human.

Field case QL-24 (ask and answer). A statement by number is one of those that the inbox was built to satisfy.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine

import coordinate
from coordinate import Coordinator
from coordinate.errors import (
    AlreadyAsked,
    AlreadyDecided,
    AlreadySeen,
    AnswerChanged,
    AskOpen,
    Closed,
    Empty,
    Held,
    InvalidInput,
    InvalidState,
    NotAQuestion,
    NotFound,
    NotReady,
    OutdatedRevision,
    SelfReview,
    UnreadAnswer,
)
from coordinate.flows import ending
from coordinate.records import Ask, Claim, Response
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows

COLOUR: dict[str, Any] = {
    "title": "Which colour?",
    "action_owner": "decision",
    "impact": "the logo waits",
    "options": ["red", {"label": "blue", "recommended": True}],
}
KEY: dict[str, Any] = {"title": "Renew the key", "action_owner": "task", "impact": "no build is signed"}
APPROVAL: dict[str, Any] = {
    "title": "May it go out?",
    "action_owner": "approval",
    "impact": "the release",
    "options": ["go ahead", "wait"],
}


@pytest.fixture(autouse=True)
def the_board_is_sound(board_url: str) -> Iterator[None]:
    yield
    assert_sound(board_url)


@pytest.fixture
def ann(board_url: str) -> Iterator[Coordinator]:
    """The human."""
    with coordinate.connect(board_url, agent="ann") as c:
        yield c


@pytest.fixture
def bob(board_url: str) -> Iterator[Coordinator]:
    """Another agent."""
    with coordinate.connect(board_url, agent="bob") as c:
        yield c


def handed(c: Coordinator, ask: str = "ASK-1") -> Ask | None:
    return next((each for each in c.pending().responses if each.id == ask), None)


def said(ask: Ask | None) -> Response:
    assert ask is not None
    assert ask.response is not None
    return ask.response


def claimed(c: Coordinator, role: str = "worker") -> Claim:
    found = c.claim_next(role=role)
    assert found is not None
    return found


# --- asking -----------------------------------------------------------------------------------------------------------


def test_what_is_asked_comes_back_as_it_was_said(board: Coordinator) -> None:
    asked = board.ask(
        **COLOUR, detail="d", next_step="n", next_after="f", context="c", stream="main", project="p", dedup_key="k"
    ).ask
    assert (asked.id, asked.number, asked.state, asked.revision, asked.step_no) == ("ASK-1", 1, "open", 1, 1)
    assert asked.options == [{"label": "red"}, {"label": "blue", "recommended": True}]
    assert (asked.asked_by, asked.surface, asked.surface_id, asked.response) == ("alice", "alone", "ASK-1", None)
    assert (asked.outcome, asked.handled_at, asked.seen_at, asked.closed_at) == ("", None, None, None)
    assert board.show_ask(ask="ask-1").ask == replace(asked, context="c")  # which the caller has
    assert [event.event for event in board.list_events(ref="ASK-1")] == ["ask.opened"]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"action_owner": None}, "action_owner"),
        ({"impact": " "}, "impact"),
        ({"options": ["one"]}, "options"),
        ({"options": None}, "options"),
        ({"action_owner": "task"}, "options"),
        ({"kind": "note"}, "action_owner"),
        ({"blocking": True}, "blocking"),
    ],
)
def test_a_question_says_what_it_needs_and_what_waits(
    board: Coordinator, board_url: str, wrong: dict[str, Any], field: str
) -> None:
    with refused(board_url, InvalidInput) as caught:
        board.ask(**COLOUR | wrong)
    assert caught.value.facts["field"] == field


def test_of_several_asks_in_a_place_one_lives_and_the_others_are_told_its_id(
    board: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Statement 11: on a task, and under a key; the constraints are the database's own."""
    board.dispatch(title="Logo", role="worker")
    first = board.ask(**COLOUR, task="TASK-1").ask
    with refused(board_url, AlreadyAsked, first.id) as caught:
        bob.ask(**KEY, task="TASK-1")
    assert caught.value.facts["ask_id"] == first.id
    keyed = board.ask(**KEY, dedup_key="key")
    again = bob.ask(**KEY, dedup_key="key")
    assert (again.ask.id, again.already, keyed.already) == (keyed.ask.id, True, False)
    indexes = rows(board_url, "SELECT count(*) FROM asks WHERE closed_at IS NULL GROUP BY surface, surface_id")
    assert indexes == [(1,), (1,)]
    board.withdraw(ask=first.id)
    assert bob.ask(**KEY, task="TASK-1").ask.step_no == 2


def test_other_words_count_a_revision_and_mark_an_earlier_answer(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """QL-24: the question changed between display and answer."""
    board.ask(**COLOUR)
    assert board.revise(ask="ASK-1", detail="dark theme", expected_revision=1).revision == 2
    with nothing_changes(board_url):
        assert board.revise(ask="ASK-1", detail="dark theme").revision == 2
    with refused(board_url, OutdatedRevision, "revision 2"):
        board.revise(ask="ASK-1", detail="x", expected_revision=1)
    assert said(ann.respond(ask="ASK-1", choice="red", revision=1).ask).outdated
    assert not said(ann.respond(ask="ASK-1", choice="red", revision=2).ask).outdated
    assert said(board.revise(ask="ASK-1", impact="more waits")).outdated
    with refused(board_url, InvalidInput, "revision 3"):
        ann.respond(ask="ASK-1", choice="red", revision=4)


def test_a_retry_of_the_next_step_answers_it_and_takes_nothing_elsewhere_out_of_its_place(
    board: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """With `supersedes` and a key: the same call twice. A key that lives elsewhere leaves no place without its ask."""
    board.ask(**COLOUR, dedup_key="colour")
    call: dict[str, Any] = KEY | {"supersedes": "ASK-1", "dedup_key": "key"}
    assert (board.ask(**call).ask.id, board.show_ask(ask="ASK-1").ask.close_reason) == ("ASK-2", "superseded")
    with nothing_changes(board_url):
        again = board.ask(**call)
        assert (again.ask.id, again.ask.step_no, again.already) == ("ASK-2", 2, True)
    same = board.ask(**KEY, supersedes="ASK-2", dedup_key="key")
    assert (same.ask.id, same.ask.step_no, same.already) == ("ASK-3", 3, False)
    bob.ask(**COLOUR, dedup_key="other")
    with refused(board_url, AlreadyAsked, "ASK-4") as caught:
        board.ask(**KEY, supersedes="ASK-3", dedup_key="other")
    assert caught.value.facts["ask_id"] == "ASK-4"


def test_a_retry_says_the_same_words_and_other_words_are_not_taken_for_one(
    board: Coordinator, waiting: Claim, board_url: str
) -> None:
    """Under a key, and where the handle of the task that it parked is shown again."""
    board.ask(**COLOUR, dedup_key="colour")
    for other in (COLOUR | {"title": "Which font?"}, COLOUR | {"options": ["red", "green"]}, KEY):
        with refused(board_url, AlreadyAsked, "ASK-2, 'Which colour") as caught:
            board.ask(**other, dedup_key="colour")
        assert "another dedup_key" in caught.value.hint
        with refused(board_url, AlreadyAsked, "ASK-1"):
            board.ask(**other, task=waiting, blocking=True)
    call: dict[str, Any] = {"task": waiting, "blocking": True, "supersedes": "ASK-1", "dedup_key": "next"}
    for _ in range(2):
        assert board.ask(**KEY, **call).ask.id == "ASK-3"
    for keyed in (call, call | {"dedup_key": None}, call | {"dedup_key": "later"}):
        with refused(board_url, AlreadyAsked, "ASK-3"):
            board.ask(**COLOUR, **keyed)
    assert board.ask(**COLOUR, **call | {"supersedes": "ASK-3"}).ask.id == "ASK-4"


def test_what_an_option_is_called_holds_no_invisible_characters(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Two that look the same are the same: `é` however it was typed, nothing of zero width, nothing that turns."""
    for hidden in ("re\u200bd", "\u202ered", "red\ufeff", "red\u3164", "r\u115fed", "red\ufe0f", "\u26a0\ufe0f\ufe0f"):
        with refused(board_url, InvalidInput, "invisible"):
            board.ask(**COLOUR | {"options": ["red", hidden]})
    with refused(board_url, InvalidInput, "same label"):
        board.ask(**COLOUR | {"options": ["caf\u00e9", "cafe\u0301"]})
    signs = ["\u26a0\ufe0f careful", "1\ufe0f\u20e3"]  # how these are drawn is seen
    board.ask(**COLOUR | {"options": ["tea", "cafe\u0301", *signs]})
    for typed in ("caf\u00e9", "cafe\u0301"):
        assert said(ann.respond(ask="ASK-1", choice=typed).ask).choice == "caf\u00e9"


def test_whoever_names_something_else_is_told_what_to_name(board: Coordinator, board_url: str) -> None:
    board.board_row(title="Release 2", label="Name")
    with refused(board_url, InvalidInput, "ROW-1 is a row of a board") as caught:
        board.ask(**COLOUR, task="ROW-1")
    assert "coordinate board row" in caught.value.hint
    asked = board.ask(**COLOUR)
    for record in (asked, asked.ask):
        with refused(board_url, InvalidInput) as caught:
            board.wait_ask(ask=record)  # type: ignore[arg-type]
        assert caught.value.hint == "give its id: ASK-1"
    board.dispatch(title="t", role="worker")
    board.ask(**KEY, task="TASK-1")
    blocked = {"status": "blocked", "next_step": "choose", "impact": "all", "action_owner": "task"}
    board.board_row(title="Release 2", label="Name", expected_revision=1, **blocked)
    for call, hint in (
        (KEY | {"supersedes": "ASK-1", "task": "TASK-1"}, "leave the task out"),
        (KEY | {"supersedes": "ASK-2"}, "name its task: TASK-1"),
        (KEY | {"supersedes": "ASK-3"}, "coordinate board advance"),
    ):
        with refused(board_url, InvalidState) as told:
            board.ask(**call)
        assert hint in told.value.hint
    board.respond(ask="ASK-1", choice="red")
    for hint in ("take the response back", "say something else instead"):
        with refused(board_url, InvalidState) as told:
            board.dismiss(ask="ASK-1")
        assert told.value.hint.startswith(hint)
        board.pending()
    session = board.register(name="alice").id
    with refused(board_url, InvalidInput, "the id of a session"):
        board.pending(agent=session)


# --- responding -------------------------------------------------------------------------------------------------------


def test_a_response_always_succeeds_while_the_ask_lives_and_is_unseen(board: Coordinator, ann: Coordinator) -> None:
    """Statement 1: also after it was handed over and taken; who speaks second learns what stood before."""
    board.ask(**COLOUR)
    stood = None
    for seq, choice in enumerate(["red", "blue", "red"], start=1):
        done = ann.respond(ask="ASK-1", choice=choice, text=f"word {seq}")
        assert done.replaced == stood
        asked, stood = done.ask, done.response
        assert (asked.state, asked.response_seq, asked.seen_at, asked.seen_by) == ("answered", seq, None, None)
        assert (said(asked).choice, said(asked).said_by, said(asked).channel) == (choice, "ann", "inbox")
        assert asked.handled_at is not None
        assert said(handed(board)).seq == seq
        board.take(ask="ASK-1")
    assert [each.seq for each in board.show_ask(ask="ASK-1").responses] == [1, 2, 3]


@pytest.mark.parametrize("kind", ["answer", "clarify", "decline", "handled"])
def test_every_kind_of_response_is_the_humans_part_done(board: Coordinator, ann: Coordinator, kind: str) -> None:
    board.ask(**KEY)
    asked = ann.respond(ask="ASK-1", kind=kind, text="so").ask
    assert (said(asked).kind, asked.state) == (kind, "answered")
    assert [each.id for each in board.list_asks(unhandled=True)] == ["ASK-1"]


def test_a_chat_answer_never_covers_an_unread_one(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    """Statement 2, QL-24: the waiting text comes with the refusal; once it was handed over, chat may replace it."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="blue", text="the darker one")
    with refused(board_url, UnreadAnswer) as caught:
        board.answer(ask="ASK-1", choice="red")
    facts = caught.value.facts
    assert (facts["text"], facts["choice"], facts["kind"], facts["response_seq"]) == (
        "the darker one",
        "blue",
        "answer",
        1,
    )
    board.pending()
    assert said(board.answer(ask="ASK-1", choice="red").ask).seq == 2


def test_what_one_session_was_handed_lets_no_other_answer_over_it(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="blue")
    board.pending()
    with refused(board_url, UnreadAnswer):
        bob.answer(ask="ASK-1", choice="red")


def test_a_chat_answer_is_seen_by_who_recorded_it_and_closes_nothing(
    board: Coordinator, ann: Coordinator, bob: Coordinator
) -> None:
    """Statement 3."""
    board.ask(**COLOUR)
    asked = board.answer(ask="ASK-1", choice="red").ask
    assert (asked.state, asked.delivered_seq, asked.seen_by, said(asked).channel) == ("answered", 1, "alice", "chat")
    assert [(each.reader, each.seq) for each in board.show_ask(ask="ASK-1").deliveries] == [("alice", 1)]
    assert said(handed(bob)).choice == "red"
    asked = ann.respond(ask="ASK-1", choice="blue").ask
    assert (asked.seen_at, said(asked).choice) == (None, "blue")


def test_what_cannot_be_answered_in_chat_is_refused_each_in_its_way(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 4: four reasons, and a fifth for what asks nothing; no row changes."""
    for _ in range(2):
        board.ask(**COLOUR)
    board.ask(title="The parser stands", kind="done")
    ann.dismiss(ask="ASK-2")
    ann.respond(ask="ASK-1", choice="red")
    calls: list[tuple[type[Any], Callable[[], Any]]] = [
        (Empty, lambda: board.answer(ask="ASK-1", text=" \n")),
        (NotFound, lambda: board.answer(ask="ASK-9", text="x")),
        (Closed, lambda: board.answer(ask="ASK-2", text="x")),
        (UnreadAnswer, lambda: board.answer(ask="ASK-1", text="x")),
        (NotAQuestion, lambda: board.answer(ask="ASK-3", text="x")),
        (NotAQuestion, lambda: ann.respond(ask="ASK-3", text="x")),
    ]
    codes = []
    for error, call in calls:
        with refused(board_url, error) as caught:
            call()
        codes.append(caught.value.code)
    assert codes[:4] == ["empty", "not_found", "closed", "unread_inbox_answer"]


def test_a_human_may_unsay_what_nobody_was_handed(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    """Statement 5: and nothing after that."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    asked = ann.withdraw_response(ask="ASK-1").ask
    assert (asked.state, asked.handled_at, asked.response, asked.response_seq) == ("open", None, None, 2)
    assert handed(board) is None
    with nothing_changes(board_url):
        assert ann.withdraw_response(ask="ASK-1").already
    ann.respond(ask="ASK-1", choice="blue")
    board.pending()
    with refused(board_url, AlreadySeen, "alice") as caught:
        ann.withdraw_response(ask="ASK-1")
    assert caught.value.facts["seen_by"] == "alice"
    assert said(handed(board)).choice == "blue"


def test_an_undo_takes_back_the_response_that_it_names_and_no_other(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Two people answer: what the first takes back is never what the second said, nor what nobody says any more."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    ann.acting(agent="ben").respond(ask="ASK-1", choice="blue", text="darker")
    with refused(board_url, AnswerChanged, "what stands now is ben's 'blue', 'darker', response 2") as caught:
        ann.withdraw_response(ask="ASK-1", response_seq=1)
    assert caught.value.facts["response_seq"] == 2
    undo = {"ask": "ASK-1", "response_seq": 2, "client_id": "phone", "client_seq": 1, "action_id": "undo"}
    assert ann.withdraw_response(**undo).ask.response is None
    with nothing_changes(board_url):
        assert ann.withdraw_response(**undo).already
    for number in (2, 3):
        with refused(board_url, AnswerChanged, "nothing stands now"):
            ann.withdraw_response(ask="ASK-1", response_seq=number)


def test_a_response_to_a_closed_ask_says_that_it_is_closed(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 10: it would reach nobody."""
    board.ask(**KEY)
    ann.respond(ask="ASK-1", kind="handled")
    board.pending()
    board.acknowledge(ask="ASK-1", response_seq=1)
    for call in (
        lambda: ann.respond(ask="ASK-1", text="more"),
        lambda: ann.withdraw_response(ask="ASK-1"),
        lambda: ann.dismiss(ask="ASK-1"),
        lambda: board.withdraw(ask="ASK-1"),
        lambda: board.revise(ask="ASK-1", title="x"),
        lambda: ann.snooze(ask="ASK-1", until=coordinate_now(board) + timedelta(hours=1)),
    ):
        with refused(board_url, Closed, "ASK-1 was closed as done by alice"):
            call()


def coordinate_now(c: Coordinator) -> Any:
    return c.list_asks()[0].updated_at


def test_the_same_deed_again_writes_nothing_and_a_late_one_is_not_applied(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 17."""
    board.ask(**COLOUR)
    first = {"ask": "ASK-1", "choice": "red", "client_id": "phone", "client_seq": 1, "action_id": "a"}
    second = first | {"choice": "blue", "client_seq": 2, "action_id": "b"}
    assert not ann.respond(**first).already
    ann.respond(**second)
    with nothing_changes(board_url):
        again = ann.respond(**first)
        assert (again.already, said_again(again).seq, said(again.ask).choice) == (True, 1, "blue")
    for number in (1, 2):  # a number is of one deed
        with refused(board_url, OutdatedRevision, "came too late"):
            ann.respond(**first | {"action_id": "c", "client_seq": number})
    with refused(board_url, OutdatedRevision):
        ann.withdraw_response(ask="ASK-1", client_id="phone", client_seq=1, action_id="d")
    board.ask(**KEY)
    ann.respond(ask="ASK-2", kind="handled", client_id="phone", client_seq=1, action_id="a")  # each ask has its order
    taken = {"ask": "ASK-1", "client_id": "phone", "client_seq": 3, "action_id": "e"}
    ann.withdraw_response(**taken)
    ann.respond(ask="ASK-1", choice="red", client_id="page", client_seq=1, action_id="a")
    with nothing_changes(board_url):
        assert ann.withdraw_response(**taken).already
    with nothing_changes(board_url):
        assert ann.respond(**first | {"choice": "blue"}).already


def test_an_undo_that_found_nothing_takes_nothing_back_when_it_comes_again(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    board.ask(**COLOUR)
    undo = {"ask": "ASK-1", "client_id": "phone", "client_seq": 1, "action_id": "undo"}
    assert ann.withdraw_response(**undo).already
    ann.respond(ask="ASK-1", choice="red", client_id="page", client_seq=1, action_id="a")
    with nothing_changes(board_url):
        assert ann.withdraw_response(**undo).already
    assert said(handed(board)).choice == "red"
    board.ask(**COLOUR)
    with nothing_changes(board_url):
        assert ann.withdraw_response(ask="ASK-2").already


def test_so_it_is_with_what_is_recorded_from_a_chat(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    """Statement 17: a retry is no second answer, also once the human has said something else."""
    board.ask(**COLOUR)
    deed: dict[str, Any] = {"ask": "ASK-1", "choice": "red", "client_id": "c", "client_seq": 1, "action_id": "a"}
    assert not board.answer(**deed).already
    ann.respond(ask="ASK-1", choice="blue")
    with nothing_changes(board_url):
        again = board.answer(**deed)
        assert (again.already, said_again(again).seq) == (True, 1)
    board.pending()
    board.answer(**deed | {"client_seq": 3, "action_id": "b"})
    with refused(board_url, OutdatedRevision, "came too late"):
        board.answer(**deed | {"client_seq": 2, "action_id": "d"})


def said_again(responded: Any) -> Response:
    assert responded.response is not None
    found: Response = responded.response
    return found


def test_an_answer_by_an_option_of_an_earlier_revision_is_kept_and_marked(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """QL-24: the question changed between display and answer, and the option that was chosen is gone."""
    board.ask(**COLOUR)
    board.revise(ask="ASK-1", options=["green", "blue"])
    for revision in (None, 2):
        with refused(board_url, InvalidInput, "no such option; there are: green, blue"):
            ann.respond(ask="ASK-1", choice="red", revision=revision)
    found = said(ann.respond(ask="ASK-1", choice="red", revision=1).ask)
    assert (found.choice, found.ask_revision, found.outdated) == ("red", 1, True)
    assert said(handed(board)).outdated


# --- handing over -----------------------------------------------------------------------------------------------------


def test_every_session_is_handed_every_response_until_it_is_acknowledged(
    board: Coordinator, ann: Coordinator, bob: Coordinator
) -> None:
    """Statement 6, QL-24: whoever dies after collecting it takes nothing along."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    for reader in (board, bob, board, bob):
        assert said(handed(reader)).choice == "red"
    found = {each.reader: each.times for each in board.show_ask(ask="ASK-1").deliveries}
    assert found == {"alice": 2, "bob": 2}
    bob.acknowledge(ask="ASK-1", response_seq=1, outcome="it is red")
    assert (handed(board), handed(bob)) == (None, None)


def test_an_asks_own_context_comes_once_per_session(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    board.ask(**COLOUR, context="long")
    ann.respond(ask="ASK-1", choice="red")
    sessions = [board.register(name="alice").id for _ in range(2)]
    for session in sessions:
        contexts = [
            board.pending(session=session).responses[0].context,
            board.pending(session=session).responses[0].context,
            board.pending(session=session, full=True).responses[0].context,
        ]
        assert contexts == ["long", "", "long"]
    ann.respond(ask="ASK-1", choice="blue")
    assert board.pending(session=sessions[0]).responses[0].context == ""
    board.revise(ask="ASK-1", context="longer")
    assert board.pending(session=sessions[0]).responses[0].context == "longer"


def test_handing_over_changes_nothing_but_the_evidence_of_it(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Statement 8: the first time and the first name stay; no event, no revision, no count of attention."""
    board.ask(**COLOUR)
    board.ask(**KEY)
    before = ann.respond(ask="ASK-1", choice="red").ask
    events, attention = rows(board_url, "SELECT count(*) FROM events"), board.attention_count()
    board.pending()
    first = board.show_ask(ask="ASK-1")
    bob.pending()
    board.pending()
    after = board.show_ask(ask="ASK-1")
    assert (after.ask.seen_at, after.ask.seen_by) == (first.ask.seen_at, "alice")
    assert after.deliveries[0].first_at == first.deliveries[0].first_at
    assert (after.ask.updated_at, after.ask.revision) == (before.updated_at, before.revision)
    assert (rows(board_url, "SELECT count(*) FROM events"), board.attention_count()) == (events, attention)


def test_what_is_pending_comes_page_by_page_and_by_project(board: Coordinator, ann: Coordinator) -> None:
    for number in range(5):
        board.ask(**KEY, project="p" if number % 2 else "q")
        ann.respond(ask=f"ASK-{number + 1}", kind="handled")
    page = board.pending(limit=3)
    assert ([each.number for each in page.responses], page.next) == ([1, 2, 3], 3)
    page = board.pending(limit=3, after=page.next or 0)
    assert ([each.number for each in page.responses], page.next) == ([4, 5], None)
    assert [each.number for each in board.pending(project="p").responses] == [2, 4]
    board.ask(**KEY, project="p")
    assert (board.pending(project="p").waiting, board.pending(project="q").waiting) == (1, 0)


def test_one_agent_acts_on_a_response_at_a_time(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Statement 20, its end: what the dead took is free again when its time is over."""
    board.ask(**COLOUR)
    with refused(board_url, InvalidState, "no response yet"):
        board.take(ask="ASK-1")
    ann.respond(ask="ASK-1", choice="red")
    taken = board.take(ask="ASK-1", seconds=600)
    assert (taken.taken_by, said(taken).choice, taken.seen_by) == ("alice", "red", "alice")
    assert handed(bob) is not None
    for call in (lambda: bob.take(ask="ASK-1"), lambda: bob.acknowledge(ask="ASK-1", response_seq=1, outcome="x")):
        with refused(board_url, Held, "alice acts on ASK-1"):
            call()
    board.take(ask="ASK-1", seconds=900)
    age(board_url, 901)
    assert bob.take(ask="ASK-1").taken_by == "bob"
    with refused(board_url, Held, "bob acts on ASK-1"):
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="x")
    bob.acknowledge(ask="ASK-1", response_seq=1, outcome="red it is")


def test_what_one_agent_acts_on_no_other_changes_or_takes_back(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """As long as it takes the human's word to be acted on; the human's next word is free to come all the same."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    board.take(ask="ASK-1", seconds=600)
    bob.pending()
    calls: list[Callable[[], Any]] = [
        lambda: bob.revise(ask="ASK-1", detail="x"),
        lambda: bob.withdraw(ask="ASK-1"),
        lambda: bob.ask(**COLOUR, supersedes="ASK-1"),
        lambda: bob.acknowledge(ask="ASK-1", response_seq=1, outcome="x"),
    ]
    for call in calls:
        with refused(board_url, Held, "alice acts on ASK-1"):
            call()
    ann.respond(ask="ASK-1", choice="blue")
    board.pending()
    board.revise(ask="ASK-1", detail="x")
    bob.pending()
    age(board_url, 601)
    bob.revise(ask="ASK-1", detail="y")
    assert bob.withdraw(ask="ASK-1", reason="found out").closed_by == "bob"


def test_a_task_whose_response_somebody_acts_on_is_passed_over_by_others(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    board.dispatch(title="Behind it", role="worker")
    ann.respond(ask="ASK-1", choice="blue")
    with refused(board_url, Held, "kept for alice"):
        bob.take(ask="ASK-1")
    age(board_url, 901)
    bob.take(ask="ASK-1", seconds=3_600)
    assert claimed(board).task.title == "Behind it"
    (reason,) = board.why(task="TASK-1").reasons
    assert (reason.code, reason.ref, reason.message) == (
        "taken",
        "bob",
        "bob acts on ASK-1, which a human answered",
    )
    assert (board.why_idle(role="worker").ready, board.wait_for(role="worker", wait=0).work) == (False, False)
    with refused(board_url, Held, "bob acts on ASK-1"):
        board.claim_task(task="TASK-1")
    assert board.claim_next(role="worker") is None
    claim = claimed(bob)
    assert (claim.task.id, said(claim.ask).choice) == ("TASK-1", "blue")
    board.pending()
    for theirs in (
        lambda: board.take(ask="ASK-1"),
        lambda: board.acknowledge(ask="ASK-1", response_seq=1, outcome="blue it is"),
    ):
        with refused(board_url, Held, "bob holds TASK-1"):
            theirs()
    bob.complete(handle=claim, result="blue")


@pytest.mark.parametrize("verb", ["claim", "lock", "sweep"])
def test_a_silent_session_acts_on_nothing_any_more_whoever_ends_it(
    board: Coordinator, ann: Coordinator, board_url: str, verb: str
) -> None:
    board.ask(**KEY)
    ann.respond(ask="ASK-1", kind="handled")
    board.take(ask="ASK-1", seconds=604_800, session=board.register(name="alice", ttl_seconds=60).id)
    age(board_url, 61)
    if verb == "claim":
        board.claim_scopes(patterns=["src"])
    elif verb == "lock":
        board.acquire_lock(name="deploy")
    board.sweep()
    assert board.show_ask(ask="ASK-1").ask.taken_by is None


@pytest.mark.parametrize("respect_dependencies", [True, False])
def test_another_session_of_the_same_agent_claims_no_task_whose_response_one_acts_on(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str, respect_dependencies: bool
) -> None:
    """Nor does it end the take; the session that took it claims the task as ever."""
    ann.respond(ask="ASK-1", choice="blue")
    acts, other = (board.register(name="alice").id for _ in range(2))
    board.take(ask="ASK-1", session=acts)
    for session in (other, None):
        with refused(board_url, Held, f"alice acts on ASK-1 in session {acts}"):
            board.claim_task(task="TASK-1", session=session)
        claim = board.claim_next(role="worker", session=session, respect_dependencies=respect_dependencies)
        assert claim is None
    assert board.show_ask(ask="ASK-1").ask.taken_session_id == acts
    claim = board.claim_next(role="worker", session=acts, respect_dependencies=respect_dependencies)
    assert claim is not None
    assert said(claim.ask).choice == "blue"
    assert board.show_ask(ask="ASK-1").ask.taken_by is None


@pytest.mark.parametrize("end", ["acknowledged", "the session ends", "its time is over", "asked again"])
def test_a_task_is_anybodys_again_once_nobody_acts_on_its_response(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str, end: str
) -> None:
    """A claim that met the take in between keeps nothing for the taker beyond it."""
    ann.respond(ask="ASK-1", choice="blue")
    age(board_url, 901)
    session = bob.register(name="bob").id
    bob.take(ask="ASK-1", seconds=3_600, session=session)
    assert board.claim_next(role="worker") is None
    match end:
        case "acknowledged":
            bob.acknowledge(ask="ASK-1", response_seq=1, outcome="blue it is", session=session)
        case "the session ends":
            bob.end_session(session=session)
        case "its time is over":
            age(board_url, 3_601)
        case "asked again":
            ann.respond(ask="ASK-1", kind="clarify", text="which blue?")
            bob.pending(session=session)
            bob.revise(ask="ASK-1", detail="navy or sky", session=session)
            ann.respond(ask="ASK-1", choice="blue")
            age(board_url, 901)
    assert board.why(task="TASK-1").ready
    assert claimed(board).task.id == "TASK-1"


@pytest.mark.parametrize("kept", ["reserved", "held"])
def test_an_answer_that_is_kept_for_one_agent_is_ended_and_changed_by_no_other(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str, kept: str
) -> None:
    """On no path: not acknowledged, taken, withdrawn, put in other words, nor put aside for another ask."""
    ann.respond(ask="ASK-1", choice="blue")
    if kept == "held":
        claimed(board)
    bob.pending()
    calls: list[Callable[[], Any]] = [
        lambda: bob.take(ask="ASK-1"),
        lambda: bob.acknowledge(ask="ASK-1", response_seq=1, outcome="x"),
        lambda: bob.withdraw(ask="ASK-1", reason="x"),
        lambda: bob.revise(ask="ASK-1", detail="x"),
        lambda: bob.ask(**COLOUR, task="TASK-1", supersedes="ASK-1", outcome="x"),
    ]
    for call in calls:
        with refused(board_url, Held, "alice"):
            call()


def test_any_response_beside_a_spent_task_lets_it_be_tried_again_also_when_its_limit_was_raised(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    board.dispatch(title="t", role="worker", max_attempts=1)
    board.ask(**COLOUR, task=claimed(board))
    ann.respond(ask="ASK-1", choice="blue")
    age(board_url, 901)
    board.sweep()
    (reason,) = board.why(task="TASK-1").reasons
    assert (reason.code, reason.ref) == ("ask", "ASK-2")
    board.edit(task="TASK-1", max_attempts=3)
    ann.respond(ask="ASK-2", kind="handled")
    claim = claimed(board)
    board.block(handle=claim, reason="the printer is out of ink")
    (reason,) = board.why(task="TASK-1").reasons
    assert (reason.code, "out of ink" in reason.message) == ("blocked", True)


def test_whoever_unsays_is_told_what_was_taken_back(board: Coordinator, ann: Coordinator, bob: Coordinator) -> None:
    """Another person may have spoken since."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    bob.respond(ask="ASK-1", choice="blue")
    unsaid = ann.withdraw_response(ask="ASK-1").replaced
    assert unsaid is not None
    assert (unsaid.said_by, unsaid.choice) == ("bob", "blue")


def test_a_task_by_name_is_refused_while_another_acts_on_its_response(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    age(board_url, 901)
    bob.take(ask="ASK-1", seconds=600)
    with refused(board_url, Held, "bob acts on ASK-1"):
        board.claim_task(task="TASK-1")
    age(board_url, 601)
    assert said(board.claim_task(task="TASK-1").ask).choice == "blue"


def test_a_session_that_is_over_acts_on_nothing_any_more(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Ended on purpose, or swept because it was silent."""
    for number in (1, 2):
        board.ask(**COLOUR)
        ann.respond(ask=f"ASK-{number}", choice="red")
        session = board.register(name="alice").id
        board.take(ask=f"ASK-{number}", seconds=86_400, session=session)
        with refused(board_url, Held, "alice acts on"):
            bob.take(ask=f"ASK-{number}")
        if number == 1:
            board.end_session(session=session)
        else:
            age(board_url, 3_600)
            board.sweep()
        assert bob.take(ask=f"ASK-{number}").taken_by == "bob"


def test_whoever_comes_after_a_session_that_died_is_told_how_to_go_on(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Of the same agent too: who acts on it, until when, and how to end that session."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    died, next_one = (board.register(name="alice").id for _ in range(2))
    board.take(ask="ASK-1", session=died)
    calls: list[Callable[[], Any]] = [
        lambda: board.take(ask="ASK-1", session=next_one),
        lambda: board.acknowledge(ask="ASK-1", response_seq=1, outcome="red it is", session=next_one),
        lambda: board.withdraw(ask="ASK-1", reason="x", session=next_one),
    ]
    board.pending(session=next_one)
    for call in calls:
        with refused(board_url, Held, f"alice .*{died}.* until .*Z") as caught:
            call()
        assert f"coordinate agent end --session {died} --agent alice" in caught.value.hint  # whoever is told it
    board.end_session(session=died)
    calls[0]()
    calls[1]()


@pytest.mark.parametrize("verb", ["ask", "pending", "take", "acknowledge"])
def test_a_session_that_was_ended_does_nothing_more(
    board: Coordinator, ann: Coordinator, board_url: str, verb: str
) -> None:
    board.ask(**KEY)
    ann.respond(ask="ASK-1", kind="handled")
    session = board.register(name="alice").id
    board.pending(session=session)
    with coordinate.connect(board_url, agent="alice", session=session) as other:
        other.end_session()
    given: dict[str, dict[str, Any]] = {
        "ask": KEY,
        "pending": {},
        "take": {"ask": "ASK-1"},
        "acknowledge": {"ask": "ASK-1", "response_seq": 1},
    }
    with refused(board_url, InvalidState, "was ended"):
        getattr(board, verb)(**given[verb], session=session)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_an_acknowledgement_is_of_who_was_handed_that_response(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Statement 9: a number that was guessed, or read in a list, is no delivery."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red", text="a warm one")
    board.pending()
    with refused(board_url, UnreadAnswer, "a warm one"):
        bob.acknowledge(ask="ASK-1", response_seq=1, outcome="x")
    bob.collect(ask="ASK-1")
    bob.acknowledge(ask="ASK-1", response_seq=1, outcome="red")


def test_an_acknowledgement_names_the_response_that_it_acted_on(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 9: also while nobody was handed the new one; nothing closes."""
    board.ask(**COLOUR)
    with refused(board_url, InvalidState, "no response yet"):
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="x")
    ann.respond(ask="ASK-1", choice="red")
    with refused(board_url, UnreadAnswer):
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="guessed")
    with refused(board_url, UnreadAnswer):
        board.withdraw(ask="ASK-1")
    board.pending()
    ann.respond(ask="ASK-1", choice="blue")
    for seq in (1, 2):
        with refused(board_url, AnswerChanged if seq == 1 else UnreadAnswer):
            board.acknowledge(ask="ASK-1", response_seq=seq, outcome="it is red")
    board.pending()
    with refused(board_url, AnswerChanged) as caught:
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="it is red")
    assert (caught.value.facts["response_seq"], caught.value.facts["choice"]) == (2, "blue")
    done = board.acknowledge(ask="ASK-1", response_seq=2, outcome="it is blue")
    assert (done.ask.state, done.ask.outcome, done.ask.close_reason, done.already) == (
        "closed",
        "it is blue",
        "done",
        False,
    )
    with nothing_changes(board_url):
        assert board.acknowledge(ask="ASK-1", response_seq=2, outcome="it is blue").already


def test_a_decision_and_an_approval_end_with_an_outcome(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    for number, asked in enumerate((COLOUR, APPROVAL, KEY), start=1):
        board.ask(**asked)
        ann.respond(ask=f"ASK-{number}", text="so be it")
    board.pending()
    for ask in ("ASK-1", "ASK-2"):
        with refused(board_url, InvalidInput, "say in one line"):
            board.acknowledge(ask=ask, response_seq=1)
    assert board.acknowledge(ask="ASK-3", response_seq=1).ask.outcome == "done"


def test_whatever_ends_an_answered_decision_says_what_came_of_it(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Also where another takes its place, or the agent takes it back; who was not handed the answer is told that."""
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", choice="red")
    with refused(board_url, UnreadAnswer, "waits to be read: 'red'"):
        board.withdraw(ask="ASK-1")
    board.pending()
    for outcome in ("", " "):
        with refused(board_url, InvalidInput, "ASK-1 is a decision"):
            board.withdraw(ask="ASK-1", reason=outcome)
        with refused(board_url, InvalidInput, "ASK-1 is a decision"):
            board.ask(**APPROVAL, supersedes="ASK-1", outcome=outcome)
    board.ask(**APPROVAL, supersedes="ASK-1", outcome="the logo is red")
    assert board.show_ask(ask="ASK-1").ask.outcome == "the logo is red"
    with refused(board_url, InvalidInput, "the ask that is superseded"):
        board.ask(**KEY, outcome="x")
    ann.respond(ask="ASK-2", kind="decline")
    board.pending()
    assert board.withdraw(ask="ASK-2", reason="it stays here").outcome == "it stays here"


def test_what_a_human_wants_clarified_is_answered_by_other_words_or_the_next_step(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    board.ask(**COLOUR)
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    board.pending()
    with refused(board_url, InvalidState, "wants ASK-1 to be clarified"):
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="x")
    again = board.revise(ask="ASK-1", detail="the small one")
    assert (again.state, again.handled_at, again.seen_at, again.revision) == ("open", None, None, 2)
    assert handed(board) is None
    ann.respond(ask="ASK-1", kind="clarify", text="how small?")
    board.pending()
    step = board.ask(**COLOUR | {"title": "16 px: which colour?"}, supersedes="ASK-1").ask
    assert (step.id, step.step_no, step.surface_id, step.response_seq) == ("ASK-2", 2, "ASK-1", 0)
    view = board.show_ask(ask="ASK-2")
    assert [(each.id, each.close_reason, said(each).text) for each in view.steps] == [
        ("ASK-1", "superseded", "how small?")
    ]


def test_the_query_of_what_humans_finished_and_agents_have_not_works_on_the_table(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    for number in range(1, 6):
        board.ask(**KEY)
        if number > 1:
            ann.respond(ask=f"ASK-{number}", kind="handled")
    ann.withdraw_response(ask="ASK-3")
    board.pending()
    board.acknowledge(ask="ASK-4", response_seq=1)
    query = "SELECT id FROM asks WHERE handled_at IS NOT NULL AND outcome = '' ORDER BY number"
    assert rows(board_url, query) == [("ASK-2",), ("ASK-5",)]
    assert [each.id for each in ann.list_asks(unhandled=True)] == ["ASK-2", "ASK-5"]


# --- the human's attention --------------------------------------------------------------------------------------------


def test_what_was_answered_and_nobody_was_handed_is_found_behind_much_that_was(
    board: Coordinator, ann: Coordinator
) -> None:
    for number in range(1, 104):
        board.ask(**KEY | {"title": f"q{number}"})
        ann.respond(ask=f"ASK-{number}", kind="handled")
        if number == 102:
            behind = board.pending(limit=100).next
            assert board.pending(limit=100, after=behind).next is None
    assert board.unread_answers() == ("ASK-103",)
    assert ann.unread_answers() == ()


def test_a_snoozed_ask_is_out_of_sight_until_its_time_a_response_or_a_wake(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 19, its first half."""
    for _ in range(3):
        board.ask(**KEY)
    later = coordinate_now(board) + timedelta(hours=2)
    with refused(board_url, InvalidInput, "must be a date"):
        ann.snooze(ask="ASK-1", until="tomorrow")  # type: ignore[arg-type]
    for number in (1, 2, 3):
        assert ann.snooze(ask=f"ASK-{number}", until=later).snoozed_until is not None
    assert (ann.list_asks(attention=True), ann.attention_count()) == ([], 0)
    assert [each.snoozed_until is not None for each in ann.list_asks(state="open")] == [True, True, True]
    assert ann.wake(ask="ASK-1").snoozed_until is None
    assert ann.respond(ask="ASK-2", kind="handled").ask.snoozed_until is None
    assert [each.id for each in ann.list_asks(attention=True)] == ["ASK-1"]
    with refused(board_url, InvalidState, "answered"):
        ann.snooze(ask="ASK-2", until=later)
    age(board_url, 7_201)
    assert [each.id for each in ann.list_asks(attention=True)] == ["ASK-1", "ASK-3"]


def test_a_closed_project_is_out_of_sight_until_something_newer_is_asked(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Statement 19, its second half."""
    board.ask(**KEY, project="p")
    board.ask(**KEY, project="q")
    assert ann.close_project(name="p") == 1
    assert [each.project for each in ann.list_asks(attention=True)] == ["q"]
    assert [(each.name, each.closed_at is not None) for each in ann.list_projects()] == [("p", True), ("q", False)]
    assert ann.reopen_project(name="p") == 1
    assert ann.attention_count(project="p") == 1
    ann.close_project(name="p")
    age(board_url, 1)
    board.ask(**KEY, project="p")
    assert [each.id for each in ann.list_asks(attention=True)] == ["ASK-1", "ASK-2", "ASK-3"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_what_is_being_asked_while_a_project_is_closed_is_counted(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Else it would be out of sight though nobody ever saw it. On SQLite the two come one after the other."""
    hidden: list[int] = []
    closing = threading.Thread(target=lambda: hidden.append(ann.close_project(name="p")))
    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(board_url))
    with engine.begin() as connection:
        board.using(connection).ask(**KEY, project="p")
        closing.start()
        closing.join(0.3)
    closing.join()
    engine.dispose()
    assert hidden == [1]


@pytest.mark.parametrize("newer", ["move", "clarified", "unsaid", "revised"])
def test_what_becomes_the_humans_turn_in_a_closed_project_is_newer(
    board: Coordinator, ann: Coordinator, board_url: str, newer: str
) -> None:
    board.dispatch(title="Draw the logo", role="worker", project="q" if newer == "move" else "p")
    board.ask(**COLOUR, task="TASK-1")
    if newer in ("clarified", "unsaid"):
        ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    if newer == "clarified":
        board.pending()
    ann.close_project(name="p")
    age(board_url, 1)
    if newer == "move":
        board.edit(task="TASK-1", project="p")
    elif newer == "unsaid":
        ann.withdraw_response(ask="ASK-1")
    else:
        board.revise(ask="ASK-1", detail="the small one")
    assert ann.attention_count(project="p") == 1


def test_the_standing_of_a_board_tells_what_is_asked_and_who_is_at_work(board: Coordinator, ann: Coordinator) -> None:
    for project in ("p", "p", "q"):
        board.ask(**KEY, project=project)
    ann.respond(ask="ASK-1", kind="handled")
    board.register(name="alice", project="q")
    standing = {each: board.status(project=each) for each in (None, "p", "q")}
    told = {each: (found.asks_open, found.asks_answered, found.sessions_live) for each, found in standing.items()}
    assert told == {None: (2, 1, 1), "p": (1, 1, 0), "q": (1, 0, 1)}


def test_an_ask_of_a_long_story_shows_what_was_asked_before_it(board: Coordinator) -> None:
    for number in range(24):
        board.ask(**KEY, supersedes=f"ASK-{number}" if number else None)
    for number, before in ((3, [2, 1]), (24, list(range(23, 3, -1)))):
        assert [each.step_no for each in board.show_ask(ask=f"ASK-{number}").steps] == before


def test_help_shows_what_a_caller_gives() -> None:
    shown = inspect.signature(Coordinator.ask)
    assert list(shown.parameters)[:2] == ["self", "title"]
    assert "tx" not in inspect.signature(Coordinator.edit).parameters


def test_what_agents_tell_is_found_until_a_human_puts_it_away(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """Notes and milestones: in a list and a count of their own, apart from what is asked."""
    board.ask(title="The build is slow today", kind="note")
    board.ask(title="The parser stands", kind="done", project="p")
    board.ask(**COLOUR)
    assert [each.id for each in ann.list_asks(told=True)] == ["ASK-1", "ASK-2"]
    assert [each.id for each in ann.list_asks(told=True, before=1_000)] == ["ASK-2", "ASK-1"]
    assert [each.id for each in ann.list_asks(told=True, before=2, project="default")] == ["ASK-1"]
    assert [each.id for each in ann.list_asks(told=True, project="p", kind="done")] == ["ASK-2"]
    assert (ann.status().asks_told, ann.status(project="p").asks_told, ann.status().asks_open) == (2, 1, 1)
    ann.close_project(name="p")
    ann.dismiss(ask="ASK-1")
    assert (ann.list_asks(told=True), ann.status().asks_told) == ([], 0)
    assert ann.list_asks(told=True, before=1_000) == []
    with refused(board_url, InvalidInput, "exclude each other"):
        ann.list_asks(told=True, attention=True)


def test_attention_is_for_questions_that_are_open(board: Coordinator, ann: Coordinator) -> None:
    board.ask(title="A word", kind="note")
    board.ask(**KEY)
    board.ask(**KEY)
    ann.respond(ask="ASK-3", kind="handled")
    assert ([each.id for each in ann.list_asks(attention=True)], ann.attention_count()) == (["ASK-2"], 1)


def test_an_ask_whose_time_is_over_ends_as_a_time_out_and_never_as_a_no(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    for _ in range(2):
        board.ask(**KEY, timeout_seconds=600)
    ann.respond(ask="ASK-2", kind="handled")
    age(board_url, 601)
    ann.respond(ask="ASK-2", kind="clarify", text="which key was it?")  # what was answered in time has time
    assert board.sweep().asks == ("ASK-1",)
    ended = board.show_ask(ask="ASK-1").ask
    assert (ended.close_reason, ended.closed_by, ended.response_seq) == ("expired", "system", 0)
    assert ended.outcome == "nobody answered in time"
    assert board.sweep().asks == ()
    board.ask(**KEY, timeout_seconds=600)
    age(board_url, 601)
    found = board.wait_ask(ask="ASK-3")
    assert found is not None
    assert found.close_reason == "expired"


@pytest.mark.parametrize("verb", ["respond", "answer"])
def test_a_response_after_the_time_is_told_so_and_ends_the_ask(
    board: Coordinator, ann: Coordinator, board_url: str, verb: str
) -> None:
    """Also before any sweep; a task that waited for it goes on."""
    board.dispatch(title="Draw the logo", role="worker")
    board.ask(**COLOUR, task=claimed(board), blocking=True, timeout_seconds=600)
    board.ask(**COLOUR, timeout_seconds=600)
    age(board_url, 601)
    assert ann.list_asks(attention=True) == []
    for ask in ("ASK-1", "ASK-2"):
        with pytest.raises(Closed, match="nobody answered in time"):
            getattr(ann, verb)(ask=ask, choice="red")
        ended = board.show_ask(ask=ask).ask
        assert (ended.close_reason, ended.response_seq) == ("expired", 0)
    assert board.view(task="TASK-1").task.status == "TODO"


def test_a_human_who_asked_back_in_time_is_waited_for_without_end(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    """What they said was no time-out; new time is given by who asks."""
    board.dispatch(title="Draw the logo", role="worker")
    board.ask(**COLOUR, task=claimed(board), blocking=True, timeout_seconds=600)
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    handed(board)
    age(board_url, 601)
    assert board.revise(ask="ASK-1", detail="the small one").expires_at is None
    assert (board.sweep().asks, board.view(task="TASK-1").task.status) == ((), "BLOCKED")
    ann.respond(ask="ASK-1", kind="clarify", text="on which ground?")
    handed(board)
    assert board.revise(ask="ASK-1", detail="on white", timeout_seconds=600).expires_at is not None
    assert said(ann.respond(ask="ASK-1", choice="red").ask).choice == "red"


def test_more_time_is_given_without_other_words(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    """The revision stays, for no response is outdated by it."""
    asked = board.ask(**KEY, timeout_seconds=600).ask
    longer = board.revise(ask="ASK-1", timeout_seconds=1_200)
    assert longer.expires_at is not None
    assert asked.expires_at is not None
    assert (longer.expires_at > asked.expires_at, longer.revision) == (True, 1)
    age(board_url, 601)
    assert board.sweep().asks == ()
    ann.respond(ask="ASK-1", kind="handled")


@pytest.mark.parametrize("past", [False, True])
def test_a_response_that_is_taken_back_leaves_the_time_that_is_left(
    board: Coordinator, ann: Coordinator, board_url: str, past: bool
) -> None:
    """And where that is over, the ask is open all the same: its human spoke in time."""
    board.ask(**KEY, timeout_seconds=600)
    ann.respond(ask="ASK-1", kind="handled")
    age(board_url, 601 if past else 60)
    again = ann.withdraw_response(ask="ASK-1").ask
    assert (again.state, again.expires_at is None) == ("open", past)
    assert board.sweep().asks == ()
    ann.respond(ask="ASK-1", kind="decline")


@pytest.mark.parametrize("verb", ["revise", "snooze", "wake", "dismiss", "withdraw", "take", "acknowledge", "unsay"])
def test_an_ask_whose_time_is_over_is_closed_to_every_verb(
    board: Coordinator, waiting: Claim, board_url: str, verb: str
) -> None:
    """Whoever comes first ends it, and the task that waited goes on."""
    board.revise(ask="ASK-1", timeout_seconds=600)
    age(board_url, 601)
    (reason,) = board.why(task="TASK-1").reasons
    assert reason.until is not None
    assert "nobody answered ASK-1 in time" in reason.message
    assert (board.pending().waiting, board.list_asks(state="open")) == (0, [])
    calls: dict[str, Callable[[], Any]] = {
        "revise": lambda: board.revise(ask="ASK-1", detail="x"),
        "snooze": lambda: board.snooze(ask="ASK-1", until=datetime.now(UTC) + timedelta(hours=1)),
        "wake": lambda: board.wake(ask="ASK-1"),
        "dismiss": lambda: board.dismiss(ask="ASK-1"),
        "withdraw": lambda: board.withdraw(ask="ASK-1"),
        "take": lambda: board.take(ask="ASK-1"),
        "acknowledge": lambda: board.acknowledge(ask="ASK-1", response_seq=1, outcome="x"),
        "unsay": lambda: board.withdraw_response(ask="ASK-1"),
    }
    with pytest.raises(Closed, match="nobody answered in time"):
        calls[verb]()
    assert board.show_ask(ask="ASK-1").ask.close_reason == "expired"
    assert board.view(task="TASK-1").task.status == "TODO"


def test_an_ask_whose_time_is_over_is_in_no_others_way(board: Coordinator, waiting: Claim, board_url: str) -> None:
    """Neither in its place nor under its key; what the task waited for is over, and it may be unblocked."""
    board.revise(ask="ASK-1", timeout_seconds=600)
    board.ask(**KEY, dedup_key="key", timeout_seconds=600)
    age(board_url, 601)
    asked = board.ask(**KEY, dedup_key="key")
    assert (asked.ask.id, asked.already) == ("ASK-3", False)
    assert board.ask(**COLOUR, task="TASK-1").ask.id == "ASK-4"
    assert [board.show_ask(ask=f"ASK-{n}").ask.close_reason for n in (1, 2)] == ["expired", "expired"]
    assert board.view(task="TASK-1").task.status == "TODO"
    board.ask(**KEY, timeout_seconds=600)
    age(board_url, 601)
    with pytest.raises(Closed, match="nobody answered in time"):
        board.ask(**KEY, supersedes="ASK-5")
    board.ask(**KEY, project="p")
    board.ask(**KEY, project="p", dedup_key="next", timeout_seconds=600)
    age(board_url, 601)
    assert not board.ask(**KEY, supersedes="ASK-6", dedup_key="next").already


def test_a_task_that_nobody_answered_in_time_is_unblocked_by_that(
    board: Coordinator, waiting: Claim, board_url: str
) -> None:
    seen = board.view(task="TASK-1").task.revision
    board.revise(ask="ASK-1", timeout_seconds=600)
    age(board_url, 601)
    with refused(board_url, OutdatedRevision, "was changed meanwhile"):
        board.unblock(task="TASK-1", expected_revision=seen - 1)
    assert board.unblock(task="TASK-1", note="go on without", expected_revision=seen).status == "TODO"
    assert board.view(task="TASK-1").notes[0].content == "go on without"
    assert board.show_ask(ask="ASK-1").ask.close_reason == "expired"


def test_a_claim_that_finds_nothing_ends_asks_that_nobody_answered_in_time(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="t", role="worker")
    claim = board.claim_next(role="worker")
    board.ask(**KEY, task=claim.handle, blocking=True, timeout_seconds=600)
    assert board.claim_next(role="worker") is None
    age(board_url, 601)
    again = board.claim_next(role="worker")
    assert again is not None
    assert again.handle == "TASK-1@2"
    assert board.show_ask(ask="ASK-1").ask.close_reason == "expired"


def test_words_beside_an_ask_reach_every_session_once_until_acknowledged(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """Statement 10: a note and a milestone too, and what is closed; unsaid only while nobody was handed them."""
    board.ask(title="The parser stands", kind="done", project="p")
    said_beside = ann.annotate(ask="ASK-1", text="well done")
    assert (said_beside.id, said_beside.author, said_beside.about) == ("ANN-1", "ann", "The parser stands")
    ann.annotate(ask="ASK-1", text="a slip")
    with nothing_changes(board_url):
        assert ann.annotate(ask="ASK-1", text="well done").id == "ANN-1", "a retry"
    assert ann.withdraw_annotation(annotation="ANN-2").close_reason == "withdrawn"
    with refused(board_url, InvalidState, "handed to nobody"):
        board.acknowledge_annotation(annotation="ANN-1")
    ann.dismiss(ask="ASK-1")
    assert bob.pending(project="q").annotations == ()
    for reader in (board, bob):
        found = [[each.text for each in reader.pending(project="p").annotations] for _ in range(2)]
        assert found == [["well done"], []]
    lost = bob.pending(project="p", full=True)
    assert [each.text for each in lost.annotations] == ["well done"], "whose output was lost asks for all again"
    assert ann.annotate(ask="ASK-1", text="well done").id == "ANN-3", "not any more once it was handed over"
    ann.withdraw_annotation(annotation="ANN-3")
    with refused(board_url, AlreadySeen, "alice"):
        ann.withdraw_annotation(annotation="ANN-1")
    assert bob.acknowledge_annotation(annotation="ANN-1").close_reason == "acknowledged"
    with coordinate.connect(board_url, agent="carol") as carol:
        assert carol.pending(full=True).annotations == ()
    assert [each.text for each in board.show_ask(ask="ASK-1").annotations] == ["well done"]


def test_all_words_are_handed_out_again_page_by_page_and_the_latest_are_shown(
    board: Coordinator, ann: Coordinator
) -> None:
    board.ask(title="The parser stands", kind="done")
    words = [f"no {number}" for number in range(105)]
    for text in words:
        ann.annotate(ask="ASK-1", text=text)
    once = board.pending(limit=100)
    assert len(once.annotations) == 100 and once.next_annotation == 100, "and more wait"
    for _ in range(2):
        again, after = list[str](), 0
        while page := board.pending(full=True, limit=50, after_annotation=after):
            again += [each.text for each in page.annotations]
            if page.next_annotation is None:
                break
            after = page.next_annotation
        assert again == words
    assert [each.text for each in board.show_ask(ask="ASK-1").annotations] == words[-100:]


# --- lists and searches -----------------------------------------------------------------------------------------------


def test_asks_are_listed_by_number_and_found_by_their_words(
    board: Coordinator, ann: Coordinator, bob: Coordinator
) -> None:
    for number in range(1, 13):
        board.ask(**KEY | {"title": f"Straße {number} 100%"})
    bob.ask(title="note", kind="note", context="a_b")
    ann.respond(ask="ASK-3", text="Only on MONDAYS")
    assert [each.number for each in board.list_asks(limit=3, after=8)] == [9, 10, 11]
    assert [each.id for each in board.list_asks(asked_by="bob")] == ["ASK-13"]
    assert [each.id for each in board.list_asks(kind="note")] == ["ASK-13"]
    assert [each.id for each in board.list_asks(state="answered")] == ["ASK-3"]
    assert len(board.list_asks(query="STRASSE")) == 12
    assert len(board.list_asks(query="0%", limit=5)) == 5
    assert [each.id for each in board.list_asks(query="mondays")] == ["ASK-3"]
    assert [each.id for each in board.list_asks(query="a_B")] == ["ASK-13"]
    assert board.list_asks(query="a%b") == []
    with pytest.raises(InvalidInput, match="exclude each other"):
        board.list_asks(attention=True, query="x")


# --- a task that waits for a human ------------------------------------------------------------------------------------


@pytest.fixture
def waiting(board: Coordinator) -> Claim:
    """A task that alice held and that waits for a human now."""
    board.dispatch(title="Draw the logo", role="worker")
    claim = claimed(board)
    board.ask(**COLOUR, task=claim, blocking=True)
    return claim


def test_a_blocking_ask_parks_its_task_in_the_same_transaction(
    board: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    task = board.view(task="TASK-1").task
    assert (task.status, task.assigned_agent, task.lease_until, task.ask_id) == ("BLOCKED", None, None, "ASK-1")
    assert [entry.action for entry in board.view(task="TASK-1").history][:1] == ["BLOCK"]
    reason = board.why(task="TASK-1").reasons[0]
    assert (reason.code, reason.ref) == ("ask", "ASK-1")
    with nothing_changes(board_url):
        again = board.ask(**COLOUR, task=waiting, blocking=True)
        assert (again.ask.id, again.already) == ("ASK-1", True)
    bob.dispatch(title="Held", role="worker")
    other = claimed(bob)
    with nothing_changes(board_url):
        for wrong in (other.handle, "TASK-2"):
            with pytest.raises(Held):
                board.ask(**COLOUR, task=wrong, blocking=True)


def test_the_response_brings_the_task_back_to_the_asker_with_the_claim(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    board.dispatch(title="Sooner", role="worker", priority=1)
    ann.respond(ask="ASK-1", choice="blue", text="the darker one")
    task = board.view(task="TASK-1").task
    assert (task.status, task.parked, task.reserved_for, task.expiries) == ("TODO", "reserved", "alice", 0)
    assert board.why(task="TASK-1").reasons[0].code == "reserved"
    with refused(board_url, NotReady, "reserved for alice"):
        bob.claim_task(task="TASK-1")
    assert claimed(bob).task.title == "Sooner"
    assert bob.claim_next(role="worker") is None
    assert board.claim_next(role="other") is None
    claim = claimed(board)
    assert (claim.handle, claim.ask is not None and claim.ask.seen_by) == ("TASK-1@2", "alice")
    assert said(claim.ask).text == "the darker one"
    done = board.complete(handle=claim, result="logo.svg")
    assert (done.task.status, done.task.ask_id) == ("DONE", None)
    ended = board.show_ask(ask="ASK-1").ask
    assert (ended.state, ended.outcome, ended.closed_by) == ("closed", "logo.svg", "alice")


def test_when_the_asker_does_not_come_anybody_gets_the_task_and_the_response(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    assert bob.claim_next(role="worker") is None
    age(board_url, 901)
    claim = claimed(bob)
    assert said(claim.ask).choice == "blue"
    bob.release(handle=claim)
    again = board.claim_task(task="TASK-1")
    assert said(again.ask).choice == "blue"
    board.complete(handle=again, result="blue")
    assert board.show_ask(ask="ASK-1").ask.close_reason == "done"


def test_the_asker_may_also_take_its_reserved_task_by_name(
    board: Coordinator, ann: Coordinator, waiting: Claim
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    claim = board.claim_task(task="TASK-1")
    assert (claim.task.parked, claim.task.reserved_for, said(claim.ask).choice) == ("", None, "blue")


def test_a_response_brings_no_task_back_before_its_time(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    board.edit(task="TASK-1", not_before=coordinate_now(board) + timedelta(hours=2))
    ann.respond(ask="ASK-1", choice="blue")
    task = board.view(task="TASK-1").task
    assert (task.status, task.parked, task.reserved_for) == ("TODO", "later", None)
    for c in (board, bob):
        assert c.claim_next(role="worker") is None
    with refused(board_url, NotReady, "set aside until"):
        board.claim_task(task="TASK-1")
    age(board_url, 7_201)
    assert said(claimed(bob).ask).choice == "blue"


def test_nor_when_its_time_is_set_after_the_response(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    board.edit(task="TASK-1", priority=5)
    assert board.view(task="TASK-1").task.reserved_for == "alice"
    board.edit(task="TASK-1", not_before=coordinate_now(board) + timedelta(hours=2))
    assert board.claim_next(role="worker") is None
    age(board_url, 7_201)
    assert said(claimed(board).ask).choice == "blue"


def test_work_is_not_finished_over_a_word_that_nobody_was_handed(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    claim = claimed(board)
    ann.respond(ask="ASK-1", choice="red", text="red after all")
    for review in (False, True):
        with refused(board_url, UnreadAnswer, "red after all"):
            board.complete(handle=claim, review=review)
    (outcome,) = board.complete_batch(handles=[claim.handle])
    assert (outcome.ok, outcome.code) == (False, "unread_inbox_answer")
    board.pending()
    board.complete(handle=claim, result="red")
    assert said(board.show_ask(ask="ASK-1").ask).choice == "red"


def test_whoever_finishes_was_handed_the_last_word_itself(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    """Statement 9: that somebody else was handed it is no help to the one who acts."""
    ann.respond(ask="ASK-1", choice="blue")
    claim = claimed(board)
    ann.respond(ask="ASK-1", choice="red", text="red after all")
    bob.pending()
    with refused(board_url, UnreadAnswer, "red after all"):
        board.complete(handle=claim, result="logo.svg, blue")
    (outcome,) = board.complete_batch(handles=[claim.handle])
    assert (outcome.ok, outcome.code) == (False, "unread_inbox_answer")
    board.pending()
    board.complete(handle=claim, result="logo.svg, red")
    assert board.show_ask(ask="ASK-1").ask.outcome == "logo.svg, red"


def test_what_came_with_the_claim_was_handed_to_whoever_shows_its_handle(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    """The claim was made by a session, and is finished by a call without one; who is given the task reads first."""
    session = board.register(name="alice").id
    ann.respond(ask="ASK-1", choice="blue")
    claim = board.claim_next(role="worker", session=session)
    assert claim is not None
    given = board.transfer(handle=claim, to="bob")
    with coordinate.connect(board_url, agent="bob") as bob:
        with refused(board_url, UnreadAnswer):
            bob.complete(handle=given, result="r")
        back = bob.transfer(handle=given, to="alice")
    board.release(handle=back)
    claim = board.claim_next(role="worker", session=session)
    assert claim is not None
    assert board.complete(handle=claim, result="r").task.ask_id is None


def test_a_clarification_is_not_finished_with_by_finishing_the_task(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    claim = claimed(board)
    for review in (False, True):
        with refused(board_url, InvalidState, "wants ASK-1 to be clarified"):
            board.complete(handle=claim, review=review, result="r")
    (outcome,) = board.complete_batch(handles=[claim.handle])
    assert (outcome.ok, outcome.code) == (False, "invalid_state")
    board.withdraw(ask="ASK-1", reason="both")
    assert board.complete(handle=claim).task.status == "DONE"


def test_a_task_with_a_decision_is_finished_with_a_result_which_is_its_outcome(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    claim = claimed(board)
    with refused(board_url, InvalidInput, "ASK-1 is a decision") as caught:
        board.complete(handle=claim)
    assert "acknowledge" in caught.value.hint
    (outcome,) = board.complete_batch(handles=[claim.handle])
    assert (outcome.ok, outcome.code) == (False, "invalid_input")
    board.acknowledge(ask="ASK-1", response_seq=1, outcome="blue it is")
    assert board.complete(handle=claim).task.status == "DONE"


def test_a_batch_answers_again_and_refuses_what_is_stale_whatever_the_human_says_meanwhile(
    board: Coordinator, ann: Coordinator, bob: Coordinator
) -> None:
    board.dispatch(title="Draw the logo", role="worker")
    board.ask(**KEY, task="TASK-1")
    stale = claimed(bob)
    bob.release(handle=stale)
    claim = claimed(board)
    assert board.complete_batch(handles=[claim.handle])[0].ok
    ann.respond(ask="ASK-1", kind="handled")
    (again,) = board.complete_batch(handles=[claim.handle])
    assert (again.ok, again.already) == (True, True)
    (late,) = bob.complete_batch(handles=[stale.handle])
    assert late.code == "stale_claim"


def test_a_response_taken_back_blocks_the_task_again(board: Coordinator, ann: Coordinator, waiting: Claim) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    ann.withdraw_response(ask="ASK-1")
    task = board.view(task="TASK-1").task
    assert (task.status, task.parked, task.reserved_for) == ("BLOCKED", "", None)
    assert board.claim_next(role="worker") is None
    ann.respond(ask="ASK-1", choice="red")
    assert said(claimed(board).ask).choice == "red"


@pytest.fixture
def asked_again(board: Coordinator, ann: Coordinator, waiting: Claim) -> Claim:
    """The human wanted something clarified, the task was claimed with that, and then the ask was put in other words."""
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    claim = claimed(board)
    board.revise(ask="ASK-1", detail="the small one")
    assert (board.show_ask(ask="ASK-1").ask.state, board.view(task="TASK-1").task.status) == ("open", "IN_PROGRESS")
    return claim


@pytest.mark.parametrize("end", ["release", "expire", "transfer and release", "restore"])
def test_a_task_that_is_held_while_a_human_is_asked_again_waits_when_that_hold_ends(
    board: Coordinator, ann: Coordinator, bob: Coordinator, asked_again: Claim, board_url: str, end: str
) -> None:
    if end == "release":
        assert board.release(handle=asked_again).task.status == "BLOCKED"
        with nothing_changes(board_url):
            assert board.release(handle=asked_again).already
    elif end == "expire":
        age(board_url, 901)
        assert board.claim_next(role="worker") is None
    elif end == "restore":
        board._perform(lambda tx: ending.settle(tx, known=True), writes=True)
    else:
        bob.release(handle=board.transfer(handle=asked_again, to="bob"))
    task = board.view(task="TASK-1").task
    assert (task.status, task.ask_id, board.why(task="TASK-1").reasons[0].ref) == ("BLOCKED", "ASK-1", "ASK-1")
    assert board.claim_next(role="worker") is None
    ann.respond(ask="ASK-1", choice="blue")
    assert said(claimed(board).ask).choice == "blue"


def test_work_is_not_finished_while_it_waits_for_a_human(
    board: Coordinator, ann: Coordinator, asked_again: Claim, board_url: str
) -> None:
    for review in (False, True):
        with refused(board_url, AskOpen, "TASK-1 waits for a human: ASK-1"):
            board.complete(handle=asked_again, review=review, result="r")
    (outcome,) = board.complete_batch(handles=[asked_again.handle])
    assert (outcome.ok, outcome.code) == (False, "ask_open")
    ann.respond(ask="ASK-1", choice="blue")
    board.pending()
    assert board.complete(handle=asked_again, result="blue").task.ask_id is None


def test_a_response_that_is_taken_back_while_the_task_is_held_parks_it_after_that(
    board: Coordinator, ann: Coordinator, waiting: Claim
) -> None:
    """Nobody was handed the second word."""
    ann.respond(ask="ASK-1", choice="blue")
    claim = claimed(board)
    ann.respond(ask="ASK-1", choice="red")
    ann.withdraw_response(ask="ASK-1")
    assert board.view(task="TASK-1").task.status == "IN_PROGRESS"
    assert board.release(handle=claim).task.status == "BLOCKED"


@pytest.mark.parametrize("again", ["withdraw_response", "revise"])
def test_a_human_is_not_asked_again_about_what_was_cancelled(
    board: Coordinator, ann: Coordinator, waiting: Claim, again: str
) -> None:
    """And a task that is reopened afterwards waits for nobody."""
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    if again == "revise":
        board.pending()
    board.cancel(task="TASK-1")
    if again == "revise":
        assert board.revise(ask="ASK-1", detail="the small one").close_reason == "withdrawn"
    else:
        assert ann.withdraw_response(ask="ASK-1").ask.close_reason == "withdrawn"
    assert ann.attention_count() == 0
    assert board.reopen(task="TASK-1").ask_id is None
    told = claimed(board).ask
    assert told is not None
    assert (told.close_reason, told.outcome) == ("withdrawn", "TASK-1 was cancelled")


def test_a_task_that_is_reopened_brings_the_response_that_stands(
    board: Coordinator, ann: Coordinator, waiting: Claim
) -> None:
    ann.respond(ask="ASK-1", choice="blue")
    board.cancel(task="TASK-1")
    board.reopen(task="TASK-1")
    assert said(claimed(board).ask).choice == "blue"


def test_a_task_that_moves_takes_what_is_asked_about_it_along(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """One by one and in a batch; a key that lives in the new project already is let go of."""
    for number in (1, 2, 3):
        board.dispatch(title=f"t{number}", role="worker", project="old")
        board.ask(**KEY, task=f"TASK-{number}", dedup_key=f"k{number}")
    bob.ask(**KEY, dedup_key="k3", project="new")
    ann.annotate(ask="ASK-1", text="mind the budget")
    board.edit(task="TASK-1", project="new")
    board.set_project(tasks=["TASK-2", "TASK-3"], project="new")
    assert [each.id for each in ann.list_asks(attention=True, project="new")] == ["ASK-1", "ASK-2", "ASK-3", "ASK-4"]
    assert ann.list_asks(project="old") == []
    assert [each.dedup_key for each in ann.list_asks()] == ["k1", "k2", None, "k3"]
    assert board.list_events(ref="ASK-2")[-1].event == "ask.moved"
    assert [each.text for each in board.pending(project="new").annotations] == ["mind the budget"]
    with nothing_changes(board_url):
        board.edit(task="TASK-1", project="new")


def test_unblocking_over_an_open_ask_is_refused_unless_it_withdraws_it(
    board: Coordinator, waiting: Claim, board_url: str
) -> None:
    with refused(board_url, AskOpen, "ASK-1") as caught:
        board.unblock(task="TASK-1")
    assert caught.value.facts["ask_id"] == "ASK-1"
    assert board.unblock(task="TASK-1", withdraw_ask=True).status == "TODO"
    assert board.show_ask(ask="ASK-1").ask.close_reason == "withdrawn"


ENDED = {"dismiss": "dismissed", "withdraw": "withdrawn", "expire": "expired"}


@pytest.mark.parametrize("end", ENDED)
def test_a_task_whose_ask_ends_without_an_answer_is_back_in_the_queue_and_says_why(
    board: Coordinator, ann: Coordinator, board_url: str, end: str
) -> None:
    board.dispatch(title="Draw the logo", role="worker")
    board.ask(**COLOUR, task=claimed(board), blocking=True, timeout_seconds=600)
    if end == "expire":
        age(board_url, 601)
        board.sweep()
    else:
        getattr(ann if end == "dismiss" else board, end)(ask="ASK-1", reason="because")
    view = board.view(task="TASK-1")
    assert (view.task.status, view.task.ask_id, view.notes[0].note_type) == ("TODO", None, "SYSTEM")
    assert "ASK-1 was closed without an answer" in view.notes[0].content
    for _ in range(2):  # whoever claims it next is told, until something else is asked
        claim = claimed(board)
        assert claim.ask is not None
        assert (claim.ask.id, claim.ask.close_reason, claim.ask.response) == ("ASK-1", ENDED[end], None)
        board.release(handle=claim)
    claim = claimed(board)
    board.ask(**COLOUR, task=claim)
    board.release(handle=claim)
    claim = claimed(board)
    assert claim.ask is not None
    assert claim.ask.id == "ASK-2"
    board.withdraw(ask="ASK-2")
    board.release(handle=claim)
    assert claimed(board).ask is None


def test_the_next_question_of_a_task_follows_a_clarification(
    board: Coordinator, ann: Coordinator, waiting: Claim, board_url: str
) -> None:
    ann.respond(ask="ASK-1", kind="clarify", text="which logo?")
    claim = claimed(board)
    assert said(claim.ask).kind == "clarify"
    with refused(board_url, AlreadyAsked):
        board.ask(**COLOUR | {"title": "The small one?"}, task=claim, blocking=True)
    call: dict[str, Any] = COLOUR | {"title": "The small one?", "task": claim, "blocking": True, "supersedes": "ASK-1"}
    step = board.ask(**call).ask
    with nothing_changes(board_url):
        assert (board.ask(**call).ask.id, board.ask(**call).already) == ("ASK-2", True)
    assert (step.id, step.step_no, board.view(task="TASK-1").task.ask_id) == ("ASK-2", 2, "ASK-2")
    ann.respond(ask="ASK-2", choice="red")
    assert said(claimed(board).ask).choice == "red"


def test_what_comes_in_the_place_of_a_question_that_a_task_waits_for_is_waited_for(
    board: Coordinator, ann: Coordinator, bob: Coordinator, waiting: Claim, board_url: str
) -> None:
    for kind in ("note", "done"):
        with refused(board_url, InvalidInput, "TASK-1 waits for ASK-1"):
            bob.ask(title="never mind", kind=kind, task="TASK-1", supersedes="ASK-1")
    assert bob.ask(**KEY, task="TASK-1", supersedes="ASK-1").ask.blocking
    assert board.ask(**COLOUR, task=waiting, blocking=True, supersedes="ASK-2").ask.id == "ASK-3"
    task = board.view(task="TASK-1").task
    assert (task.status, task.ask_id) == ("BLOCKED", "ASK-3")
    ann.respond(ask="ASK-3", choice="red")
    assert said(claimed(board).ask).choice == "red"


def test_asking_again_under_a_key_that_is_answered_keeps_the_claim(board: Coordinator, ann: Coordinator) -> None:
    """Else the task would wait behind an answer, and be nobody's turn."""
    board.dispatch(title="Draw the logo", role="worker")
    call: dict[str, Any] = COLOUR | {"blocking": True, "dedup_key": "colour"}
    board.ask(**call, task=claimed(board))
    ann.respond(ask="ASK-1", choice="red")
    claim = claimed(board)
    again = board.ask(**call, task=claim)
    assert (again.already, said(again.ask).choice) == (True, "red")
    assert board.view(task="TASK-1").task.status == "IN_PROGRESS"
    step = board.ask(**call | {"dedup_key": "next"}, task=claim, supersedes="ASK-1", outcome="red").ask
    ann.respond(ask=step.id, choice="blue")
    claim = claimed(board)
    again = board.ask(**call | {"dedup_key": "next"}, task=claim, supersedes="ASK-1")
    assert (again.ask.id, again.already, board.view(task="TASK-1").task.status) == ("ASK-2", True, "IN_PROGRESS")
    assert board.complete(handle=claim, result="blue").task.status == "DONE"


@pytest.mark.parametrize("then", ["acknowledge", "withdraw", "respond", "unsay"])
def test_a_task_that_is_blocked_for_a_reason_of_its_own_is_not_freed_by_what_was_asked(
    board: Coordinator, ann: Coordinator, waiting: Claim, then: str
) -> None:
    ann.respond(ask="ASK-1", choice="red")
    board.block(handle=claimed(board), reason="the disk is full")
    if then == "acknowledge":
        board.acknowledge(ask="ASK-1", response_seq=1, outcome="red")
    elif then == "withdraw":
        board.withdraw(ask="ASK-1", reason="no need")
    else:
        ann.respond(ask="ASK-1", choice="blue")
        if then == "unsay":
            ann.withdraw_response(ask="ASK-1")
            ann.respond(ask="ASK-1", choice="red")
    view = board.view(task="TASK-1")
    assert view.task.status == "BLOCKED"
    assert not [note for note in view.notes if note.note_type == "SYSTEM"]
    assert board.unblock(task="TASK-1").status == "TODO"


def test_nor_when_it_was_blocked_while_the_human_was_asked_again(
    board: Coordinator, ann: Coordinator, asked_again: Claim
) -> None:
    board.block(handle=asked_again, reason="the disk is full")
    ann.respond(ask="ASK-1", choice="red")
    assert board.view(task="TASK-1").task.status == "BLOCKED"
    board.unblock(task="TASK-1")
    assert said(claimed(board).ask).choice == "red"


def test_a_cancelled_task_asks_nothing_any_more(board: Coordinator, ann: Coordinator, waiting: Claim) -> None:
    assert board.cancel(task="TASK-1").task.ask_id is None
    assert board.show_ask(ask="ASK-1").ask.close_reason == "withdrawn"
    assert ann.attention_count() == 0


def test_a_question_beside_the_work_blocks_nothing(board: Coordinator, ann: Coordinator) -> None:
    board.dispatch(title="Draw the logo", role="worker")
    claim = claimed(board)
    board.ask(**COLOUR, task=claim.task.id)
    board.log_progress(handle=claim, note="on it")
    ann.respond(ask="ASK-1", choice="red")
    assert board.view(task="TASK-1").task.status == "IN_PROGRESS"
    assert said(handed(board)).choice == "red"
    board.complete(handle=claim, result="red")
    assert board.show_ask(ask="ASK-1").ask.state == "closed"


def test_a_task_that_spent_its_attempts_asks_a_human_by_itself(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    board.dispatch(title="Kills its workers", role="worker", max_attempts=1)
    claimed(board)
    age(board_url, 901)
    assert board.claim_next(role="worker") is None
    (asked,) = ann.list_asks(attention=True)
    assert (asked.asked_by, asked.action_owner, asked.blocking, asked.surface_id) == ("system", "task", True, "TASK-1")
    ann.respond(ask=asked.id, kind="handled", text="more memory now")
    task = board.view(task="TASK-1").task
    assert (task.status, task.parked, task.expiries) == ("TODO", "", 0)
    assert said(claimed(bob).ask).text == "more memory now"


def test_a_question_beside_the_work_is_what_a_spent_task_waits_for(
    board: Coordinator, ann: Coordinator, board_url: str
) -> None:
    board.dispatch(title="Kills its workers", role="worker", max_attempts=1)
    board.ask(**COLOUR, task=claimed(board).task.id)
    age(board_url, 901)
    assert board.sweep().tasks == ("TASK-1",)
    assert board.show_ask(ask="ASK-1").ask.blocking
    ann.respond(ask="ASK-1", choice="red")
    assert said(claimed(board).ask).choice == "red"


def test_a_task_that_spent_its_attempts_with_an_answer_at_hand_asks_beside_it(
    board: Coordinator, ann: Coordinator, bob: Coordinator, board_url: str
) -> None:
    """The answer stays what it is, for whoever tries again."""
    board.dispatch(title="Kills its workers", role="worker", max_attempts=1)
    board.ask(**COLOUR, task=claimed(board), blocking=True)
    ann.respond(ask="ASK-1", choice="blue")
    claimed(board)
    age(board_url, 901)
    board.sweep()
    (asked,) = ann.list_asks(attention=True)
    assert (asked.asked_by, asked.surface, asked.surface_id) == ("system", "alone", "TASK-1")
    ann.respond(ask=asked.id, kind="handled")
    assert said(claimed(bob).ask).choice == "blue"


@pytest.mark.parametrize("end", ["unblock", "cancel", "dismiss", "move"])
def test_what_is_asked_beside_an_answer_about_a_spent_task_follows_the_task(
    board: Coordinator, ann: Coordinator, board_url: str, end: str
) -> None:
    board.dispatch(title="Kills its workers", role="worker", max_attempts=1)
    board.ask(**COLOUR, task=claimed(board), blocking=True)
    ann.respond(ask="ASK-1", choice="blue")
    for _ in range(2):
        claimed(board)
        age(board_url, 901)
        board.sweep()
        (asked,) = ann.list_asks(attention=True)
        if end == "dismiss":
            ann.dismiss(ask=asked.id)
        elif end == "move":
            board.edit(task="TASK-1", project="new")
            assert [each.project for each in ann.list_asks(attention=True)] == ["new"]
            board.unblock(task="TASK-1")
        else:
            getattr(board, end)(task="TASK-1")
        assert ann.attention_count() == 0
        if end == "cancel":
            board.reopen(task="TASK-1")


def test_a_note_leaves_the_place_to_a_question(board: Coordinator, ann: Coordinator, board_url: str) -> None:
    board.dispatch(title="Kills its workers", role="worker", max_attempts=1)
    board.ask(title="half of it stands", kind="done", task=claimed(board).task.id)
    age(board_url, 901)
    board.sweep()
    (asked,) = ann.list_asks(attention=True)
    assert (asked.surface_id, asked.blocking, asked.step_no) == ("TASK-1", True, 2)
    assert board.show_ask(ask="ASK-1").ask.close_reason == "superseded"
    ann.respond(ask=asked.id, kind="handled")
    board.complete(handle=claimed(board), result="r")
    board.dispatch(title="Draw the logo", role="worker")
    board.ask(title="half of it stands", kind="note", task="TASK-2")
    assert board.ask(**COLOUR, task=claimed(board), blocking=True).ask.step_no == 2


@pytest.fixture
def in_review(board: Coordinator) -> Coordinator:
    board.dispatch(title="Draw the logo", role="worker")
    board.complete(handle=claimed(board), review=True)
    board.ask(**APPROVAL, task="TASK-1")
    return board


def test_an_approval_on_a_task_in_review_is_the_humans_review(in_review: Coordinator, ann: Coordinator) -> None:
    in_review.dispatch(title="Behind it", role="worker", depends_on=["TASK-1"])
    ann.respond(ask="ASK-1", choice="wait")
    assert in_review.view(task="TASK-1").task.status == "IN_REVIEW"
    ann.respond(ask="ASK-1", choice="go ahead", text="fine")
    view = in_review.view(task="TASK-1")
    assert (view.task.status, view.notes[0].note_type, view.notes[0].author) == ("DONE", "REVIEW", "ann")
    assert view.history[0].action == "APPROVE"
    assert claimed(in_review).task.id == "TASK-2"


def test_a_declined_approval_sends_the_work_back_with_the_reason(in_review: Coordinator, ann: Coordinator) -> None:
    ann.respond(ask="ASK-1", kind="decline", text="rounder")
    view = in_review.view(task="TASK-1")
    assert (view.task.status, view.notes[0].note_type, view.notes[0].content) == ("TODO", "REVIEW", "rounder")
    assert view.history[0].action == "REJECT"
    claim = claimed(in_review)
    assert said(claim.ask).text == "rounder"
    in_review.complete(handle=claim, review=True, result="rounder")
    assert in_review.ask(**APPROVAL, task="TASK-1").ask.step_no == 2


@pytest.mark.parametrize("response", [{"choice": "go ahead"}, {"kind": "decline", "text": "rounder"}])
def test_a_response_that_decided_a_review_is_not_unsaid(
    in_review: Coordinator, ann: Coordinator, board_url: str, response: dict[str, str]
) -> None:
    """Though no agent was handed it yet: the board itself went on with it."""
    ann.respond(ask="ASK-1", choice="wait")
    ann.withdraw_response(ask="ASK-1")
    ann.respond(ask="ASK-1", **response)
    with refused(board_url, AlreadyDecided, "TASK-1 has gone on"):
        ann.withdraw_response(ask="ASK-1")
    assert in_review.unread_answers() == ("ASK-1",)
    assert said(handed(in_review)).seq == 3
    ann.respond(ask="ASK-1", text="it was a slip")
    if "choice" in response:
        with refused(board_url, AlreadyDecided):
            ann.withdraw_response(ask="ASK-1")
    else:
        assert ann.withdraw_response(ask="ASK-1").ask.state == "open"


def test_an_answer_about_what_is_done_by_now_is_not_unsaid(
    in_review: Coordinator, ann: Coordinator, board_url: str
) -> None:
    ann.respond(ask="ASK-1", choice="wait")
    ann.approve(task="TASK-1")
    with refused(board_url, AlreadyDecided, "TASK-1"):
        ann.withdraw_response(ask="ASK-1")


@pytest.mark.parametrize("verb", ["approve", "approve_all", "reject"])
def test_a_review_that_somebody_else_decided_asks_the_human_no_more(
    in_review: Coordinator, ann: Coordinator, bob: Coordinator, verb: str
) -> None:
    call = {"approve": {"task": "TASK-1"}, "approve_all": {}, "reject": {"task": "TASK-1", "reason": "r"}}[verb]
    getattr(bob, verb)(**call)
    assert ann.attention_count() == 0
    assert in_review.show_ask(ask="ASK-1").ask.close_reason == "withdrawn"
    assert in_review.view(task="TASK-1").task.ask_id is None


def test_nobody_approves_their_own_work_through_the_inbox(
    in_review: Coordinator, bob: Coordinator, board_url: str
) -> None:
    for call in (in_review.respond, in_review.answer):
        with refused(board_url, SelfReview):
            call(ask="ASK-1", choice="go ahead")
    bob.answer(ask="ASK-1", choice="go ahead", text="she said so")
    assert in_review.view(task="TASK-1").task.status == "DONE"


def test_options_that_are_changed_after_the_answer_approve_nothing(in_review: Coordinator, ann: Coordinator) -> None:
    ann.respond(ask="ASK-1", choice="wait")
    in_review.revise(ask="ASK-1", options=["wait", "go ahead"])
    assert in_review.view(task="TASK-1").task.status == "IN_REVIEW"
    ann.respond(ask="ASK-1", choice="wait", revision=1)
    assert in_review.view(task="TASK-1").task.status == "IN_REVIEW"


# --- waiting ----------------------------------------------------------------------------------------------------------


def test_whoever_waits_is_handed_the_response_when_it_comes(board: Coordinator, board_url: str) -> None:
    board.ask(**COLOUR)
    assert board.wait_ask(ask="ASK-1") is None

    def respond() -> None:
        with coordinate.connect(board_url, agent="ann") as human:
            human.respond(ask="ASK-1", choice="red")

    later = threading.Timer(0.3, respond)
    later.start()
    found = board.wait_ask(ask="ASK-1", wait=60)
    later.join()
    assert found is not None
    assert (said(found).choice, found.seen_by) == ("red", "alice")
    assert board.wait_ask(ask="ASK-1", after=1) is None
    board.acknowledge(ask="ASK-1", response_seq=1, outcome="it is red")
    ended = board.wait_ask(ask="ASK-1", after=1)
    assert ended is not None
    assert ended.state == "closed"


def test_the_most_urgent_ask_comes_first(board: Coordinator, ann: Coordinator) -> None:
    """What a task stands still for, what ends soonest, the oldest; and by number the latest first."""
    board.ask(**KEY)
    board.ask(**KEY, timeout_seconds=7_200)
    board.ask(**KEY, timeout_seconds=3_600)
    board.dispatch(title="T", role="worker")
    board.ask(**KEY, task=board.claim_task(task="TASK-1").handle, blocking=True)
    board.ask(**KEY)
    board.ask(title="A word", kind="note")
    urgent = ann.urgent_asks()
    assert [each.id for each in urgent] == ["ASK-4", "ASK-3", "ASK-2", "ASK-1", "ASK-5"]
    assert len(urgent) == ann.attention_count()
    assert [each.id for each in ann.urgent_asks(limit=2)] == ["ASK-4", "ASK-3"]
    assert ann.urgent_asks(project="p") == []
    assert [each.number for each in ann.list_asks(before=99, kind="question", limit=3)] == [5, 4, 3]
    assert [each.number for each in ann.list_asks(before=3)] == [2, 1]
