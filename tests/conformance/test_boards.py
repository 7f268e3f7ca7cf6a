"""Boards: whole boards and single rows at their revisions, the human's turn, steps, progress, words beside rows.

Steps of field case QL-24 (ask and answer) on rows of a board. A row is blocked exactly while it has a live ask: every
test ends with a look at the tables that says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.errors import (
    AnswerChanged,
    Closed,
    Held,
    InvalidInput,
    InvalidState,
    NotFound,
    OutdatedRevision,
    UnreadAnswer,
)
from coordinate.records import Ask, BoardRow, GivenRow
from tests.tables import nothing_changes, refused, rows

TITLE = "Release 2"
DECISION = {
    "status": "blocked",
    "note": "two names are free",
    "next_step": "choose a name",
    "action_owner": "decision",
    "impact": "the docs wait for it",
    "options": ["heron", {"label": "crane", "recommended": True}],
}
DEED = {
    "status": "blocked",
    "note": "the key expired",
    "next_step": "renew the key",
    "action_owner": "task",
    "impact": "no build is signed",
}
STEP = {name: value for name, value in DEED.items() if name != "status"}


@pytest.fixture(autouse=True)
def every_row_is_blocked_exactly_while_it_has_a_live_ask(board_url: str) -> Iterator[None]:
    yield
    differing = rows(
        board_url,
        "SELECT r.label, r.status, a.id FROM board_rows r"
        " LEFT JOIN asks a ON a.surface = 'row' AND a.surface_id = r.id AND a.closed_at IS NULL"
        " WHERE (r.status = 'blocked') <> (a.id IS NOT NULL) OR (a.id IS NOT NULL AND a.step_no <> r.step_no)",
    )
    assert differing == []


@pytest.fixture
def release(board: Coordinator) -> Coordinator:
    """A board of three rows: Docs and API tracked, Name the human's turn."""
    board.board_upsert(title=TITLE, rows=[GivenRow("Docs"), GivenRow("API"), GivenRow("Name", **DECISION)])
    return board


def row_of(c: Coordinator, label: str) -> BoardRow:
    view = c.board_get(title=TITLE, full=True)
    (found,) = [row for row in (*view.rows, *view.set_aside) if row.label == label]
    return found


def version(c: Coordinator) -> int:
    return c.board_get(title=TITLE).board.revision


def labels(c: Coordinator) -> list[str]:
    return [row.label for row in c.board_get(title=TITLE).rows]


def ask_of(c: Coordinator, label: str) -> str:
    turn = row_of(c, label).turn
    assert turn is not None
    return turn.ask_id


def set_row(c: Coordinator, label: str, **values: Any) -> Any:
    """A write at the row's current revision."""
    return c.board_row(title=TITLE, label=label, expected_revision=row_of(c, label).revision, **values)


def collected(c: Coordinator, ask: str) -> Ask:
    """What the agent is handed of one ask."""
    (found,) = [each for each in c.pending().responses if each.id == ask]
    return found


# --- a whole board ----------------------------------------------------------------------------------------------------


def test_a_board_is_made_with_its_rows_in_their_order(board: Coordinator) -> None:
    made = board.board_upsert(title=TITLE, rows=[{"label": "Docs"}, GivenRow("API", status="partial", note="half")])
    assert (made.board.revision, made.board.status, made.board.created_by) == (1, "active", "alice")
    assert [(row.label, row.status, row.revision) for row in made.rows] == [
        ("Docs", "tracked", 1),
        ("API", "partial", 1),
    ]
    view = board.board_get(title=TITLE)
    assert [(row.label, row.note, row.position) for row in view.rows] == [("Docs", "", 1), ("API", "half", 2)]
    assert view.board == made.board


def test_a_board_is_one_of_its_title_in_a_project(board: Coordinator) -> None:
    first = board.board_upsert(title=TITLE, rows=[])
    other = board.board_upsert(title=TITLE, rows=[], project="other")
    assert first.board.id != other.board.id
    assert [each.board.id for each in board.board_list(project="other")] == [other.board.id]
    assert [each.board.id for each in board.board_list(after=other.board.id)] == [first.board.id]
    assert board.board_list(after=first.board.id) == board.board_list(after=other.board.id, project="other") == []
    with pytest.raises(NotFound):
        board.board_list(after="BOARD-9")


def test_a_whole_board_at_another_version_than_its_own_changes_nothing(release: Coordinator, board_url: str) -> None:
    """Statement 15; whoever is refused learns the current number."""
    for shown in (None, 2, 99):
        with refused(board_url, OutdatedRevision) as caught:
            release.board_upsert(title=TITLE, rows=[GivenRow("Docs", revision=1, note="new")], board_version=shown)
        assert caught.value.facts["board_revision"] == 1


def test_a_board_that_is_not_there_has_no_version(board: Coordinator, board_url: str) -> None:
    with refused(board_url, NotFound):
        board.board_upsert(title=TITLE, rows=[], board_version=1)


def test_sending_the_same_board_again_changes_nothing(release: Coordinator, board_url: str) -> None:
    """Statement 15; neither with the revisions of the rows nor without."""
    again = [GivenRow("Docs"), GivenRow("API", revision=1, status="tracked"), GivenRow("Name", revision=1, **DECISION)]
    with nothing_changes(board_url):
        answer = release.board_upsert(title=TITLE, rows=again, board_version=1)
    assert [row.changed for row in answer.rows] == [False] * 3
    assert answer.rows[2].ask_id == ask_of(release, "Name")


def test_what_a_row_leaves_out_keeps_its_value_and_an_empty_one_clears_it(release: Coordinator) -> None:
    kept = GivenRow("API", revision=1, note="half done", context="long story", impact="shipping waits")
    release.board_upsert(title=TITLE, rows=[GivenRow("Docs"), kept, GivenRow("Name")], board_version=1)
    set_row(release, "API", status="partial")
    row = row_of(release, "API")
    assert (row.note, row.context, row.impact, row.status) == ("half done", "long story", "shipping waits", "partial")
    set_row(release, "API", note="", impact="")
    row = row_of(release, "API")
    assert (row.note, row.context, row.impact) == ("", "long story", "")


def test_a_row_is_changed_at_its_own_revision_only_and_the_whole_write_falls_with_it(
    release: Coordinator, board_url: str
) -> None:
    set_row(release, "API", note="by somebody else")
    new = GivenRow("Docs", revision=1, note="new")
    for shown in (1, None):
        with refused(board_url, OutdatedRevision) as caught:
            release.board_upsert(
                title=TITLE, rows=[new, GivenRow("API", revision=shown, note="mine"), GivenRow("Name")], board_version=1
            )
        assert (caught.value.facts["label"], caught.value.facts["revision"]) == ("API", 2)


def test_a_row_that_is_left_out_is_set_aside_with_its_words_and_steps_and_comes_back(release: Coordinator) -> None:
    """Statement 15: nothing that the human said is lost."""
    release.respond(ask=ask_of(release, "Name"), choice="heron", agent="ann")
    asked = collected(release, ask_of(release, "Name"))
    set_row(release, "Name", status="done", response_seq=asked.response_seq, outcome="it is heron")
    release.board_annotate(title=TITLE, label="Name", text="heron, with a capital", agent="ann")
    answer = release.board_upsert(title=TITLE, rows=[GivenRow("API"), GivenRow("Docs")], board_version=1)
    assert (answer.set_aside, answer.board.revision) == (("Name",), 2)
    assert labels(release) == ["API", "Docs"]
    aside = row_of(release, "Name")
    assert [step.response.choice for step in aside.steps if step.response] == ["heron"]
    assert [words.text for words in release.pending(session=None).annotations] == ["heron, with a capital"]
    back = release.board_upsert(
        title=TITLE, rows=[{"label": "Name"}, {"label": "API"}, {"label": "Docs"}], board_version=2
    )
    assert back.rows[0].id == aside.id
    row = row_of(release, "Name")
    assert (row.status, row.outcome, row.step_no, len(row.steps)) == ("done", "it is heron", 1, 1)


def test_a_blocked_row_cannot_be_left_out(release: Coordinator, board_url: str) -> None:
    with refused(board_url, InvalidState, "Name waits for a human"):
        release.board_upsert(title=TITLE, rows=[GivenRow("Docs")], board_version=1)


def test_a_board_and_a_row_may_be_named_by_their_ids(release: Coordinator, board_url: str) -> None:
    """As events and answers show them; an id makes nothing."""
    view = release.board_get(title="BOARD-1")
    by_id: dict[str, Any] = {"title": "BOARD-1", "label": view.rows[0].id}
    assert release.board_row(**by_id, expected_revision=1, status="partial").rows[0].label == "Docs"
    assert release.board_annotate(**by_id, text="shorter", agent="ann").about == "Docs"
    release.board_advance(**by_id, **STEP, expected_revision=2, board_version=view.board.revision)
    release.board_archive(title="BOARD-1")
    release.board_unarchive(title="BOARD-1")
    rows_now = [GivenRow(row.label) for row in release.board_get(title="BOARD-1", project="elsewhere").rows]
    assert not any(row.changed for row in release.board_upsert(title="BOARD-1", rows=rows_now, board_version=3).rows)
    for call in (
        lambda: release.board_get(title="BOARD-9"),
        lambda: release.board_upsert(title="BOARD-9", rows=[]),
        lambda: release.board_row(title=TITLE, label="ROW-9"),
        lambda: release.board_upsert(title=TITLE, rows=[GivenRow("ROW-1")], board_version=3),
    ):
        with refused(board_url, NotFound):
            call()


def test_two_rows_of_one_label_are_refused(board: Coordinator, board_url: str) -> None:
    with refused(board_url, InvalidInput, "two rows are called Docs"):
        board.board_upsert(title=TITLE, rows=[{"label": "Docs"}, {"label": " Docs "}])
    with refused(board_url, InvalidInput, "two rows are called"):
        board.board_upsert(title=TITLE, rows=[{"label": "Caf\u00e9"}, {"label": "Cafe\u0301"}])


def test_two_labels_that_look_the_same_are_the_same(release: Coordinator, board_url: str) -> None:
    for hidden in ("Do\u200bcs", "\u202eDocs"):
        with refused(board_url, InvalidInput, "invisible"):
            release.board_row(title=TITLE, label=hidden)
        with refused(board_url, InvalidInput, "invisible"):
            release.board_upsert(title=hidden, rows=[])


def test_a_row_that_may_not_come_in_is_refused(board: Coordinator, board_url: str) -> None:
    wrong: list[Any] = [
        {"label": "Docs", "state": "done"},
        {"status": "done"},
        {"label": "Docs", "options": "heron"},
        {"label": "Docs", "action_owner": "human"},
        {"label": "Docs", "response_seq": True},
        "Docs",
        None,
    ]
    for row in wrong:
        with refused(board_url, InvalidInput):
            board.board_upsert(title=TITLE, rows=[row])


def test_a_board_has_at_most_200_rows(board: Coordinator, board_url: str) -> None:
    full = [GivenRow(f"Row {number}") for number in range(200)]
    with refused(board_url, InvalidInput, "at most 200"):
        board.board_upsert(title=TITLE, rows=[*full, GivenRow("one more")])
    board.board_upsert(title=TITLE, rows=full)
    with refused(board_url, InvalidInput, "at most 200"):
        board.board_row(title=TITLE, label="one more")
    assert len(board.board_get(title=TITLE, full=True).rows) == 200


# --- which number guards what -----------------------------------------------------------------------------------------


def test_the_revision_of_a_board_moves_with_its_list_of_rows_and_its_status_alone(release: Coordinator) -> None:
    set_row(release, "API", note="x")
    release.board_annotate(title=TITLE, label="Docs", text="well done", agent="ann")
    release.respond(ask=ask_of(release, "Name"), choice="heron", agent="ann")
    assert version(release) == 1
    order = [GivenRow("Name"), GivenRow("API"), GivenRow("Docs")]
    assert release.board_upsert(title=TITLE, rows=order, board_version=1).board.revision == 2
    assert [row_of(release, label).revision for label in ("Name", "API", "Docs")] == [1, 2, 1]
    assert release.board_row(title=TITLE, label="Tests").board.revision == 3
    assert release.board_archive(title=TITLE).revision == 4
    assert labels(release) == ["Name", "API", "Docs", "Tests"]


def test_two_agents_on_different_rows_do_not_refuse_each_other(release: Coordinator) -> None:
    """Each read the board before either wrote; one of them advances, the other edits."""
    seen = release.board_get(title=TITLE)
    docs, api, name = seen.rows
    release.board_row(title=TITLE, label="API", expected_revision=api.revision, note="a", agent="bob")
    release.board_advance(
        title=TITLE, label="Name", expected_revision=name.revision, board_version=seen.board.revision, **STEP
    )
    release.board_advance(
        title=TITLE, label="Docs", expected_revision=docs.revision, board_version=seen.board.revision, **STEP
    )


# --- one row ----------------------------------------------------------------------------------------------------------


def test_a_row_and_its_board_are_made_where_they_are_missing(board: Coordinator) -> None:
    made = board.board_row(title=TITLE, label="Docs")
    assert (made.board.title, made.rows[0].status, made.rows[0].revision) == (TITLE, "tracked", 1)
    board.board_row(title=TITLE, label="API", status="missing")
    assert labels(board) == ["Docs", "API"]


def test_a_row_that_is_not_there_has_no_revision(release: Coordinator, board_url: str) -> None:
    with refused(board_url, NotFound):
        release.board_row(title=TITLE, label="Tests", expected_revision=1)


def test_a_row_is_written_at_its_current_revision_only(release: Coordinator, board_url: str) -> None:
    assert set_row(release, "API", note="first").rows[0].revision == 2
    for shown in (None, 1, 3):
        with refused(board_url, OutdatedRevision) as caught:
            release.board_row(title=TITLE, label="API", expected_revision=shown, note="second")
        assert caught.value.facts["revision"] == 2
    with nothing_changes(board_url):
        assert not release.board_row(title=TITLE, label="API", note="first").rows[0].changed


def test_any_status_may_follow_any_other(board: Coordinator) -> None:
    """The table of a row's statuses; those that are the human's turn are tested below."""
    plain = ("tracked", "partial", "missing", "na", "done")
    board.board_upsert(title=TITLE, rows=[GivenRow("Docs"), GivenRow("stays open")])
    for before in plain:
        for after in plain:
            set_row(board, "Docs", status=before)
            set_row(board, "Docs", status=after)
            assert row_of(board, "Docs").status == after


# --- the human's turn -------------------------------------------------------------------------------------------------


def test_a_blocked_row_says_the_one_thing_to_do(release: Coordinator, board_url: str) -> None:
    for step in ("", " "):
        with refused(board_url, InvalidInput, "say the one thing"):
            release.board_row(title=TITLE, label="New", **DECISION | {"next_step": step})
        with refused(board_url, InvalidInput, "say the one thing"):
            set_row(release, "Name", next_step=step)


def test_a_blocked_row_says_what_the_human_is_to_do(board: Coordinator, board_url: str) -> None:
    board.board_row(title=TITLE, label="Name")
    for missing in ("action_owner", "impact", "options"):
        said = {name: value for name, value in DECISION.items() if name != missing}
        with refused(board_url, InvalidInput):
            board.board_row(title=TITLE, label="Name", expected_revision=1, **said)


def test_the_ask_of_a_blocked_row_says_what_the_row_says(release: Coordinator) -> None:
    """Statement 12."""
    ask = release.show_ask(ask=ask_of(release, "Name")).ask
    row = row_of(release, "Name")
    assert (ask.title, ask.detail, ask.step_no, ask.asked_by) == ("Release 2: Name", row.note, 1, "alice")
    assert (ask.next_step, ask.action_owner, ask.impact) == (row.next_step, row.action_owner, row.impact)
    assert ask.options == row.options == [{"label": "heron"}, {"label": "crane", "recommended": True}]


def test_sending_a_blocked_row_again_keeps_what_the_human_did(release: Coordinator) -> None:
    """Statement 12: in other words it is a new revision of the same ask, and no acknowledgement."""
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    set_row(release, "Name", **DECISION | {"note": "three names are free"})
    set_row(release, "Name", impact="docs and code wait for it")
    view = release.show_ask(ask=ask)
    assert (view.ask.revision, view.ask.detail) == (3, "three names are free")
    assert view.ask.response is not None
    assert (view.ask.response.choice, view.ask.response.outdated) == ("heron", True)
    turn = row_of(release, "Name").turn
    assert turn is not None
    assert (turn.ask_id, turn.response) == (ask, view.ask.response)


def test_a_step_keeps_its_owner(release: Coordinator, board_url: str) -> None:
    with refused(board_url, InvalidInput, "waits for a decision"):
        set_row(release, "Name", action_owner="approval")


def test_leaving_blocked_acknowledges_the_response(release: Coordinator) -> None:
    """Statement 12: status, ask, outcome, in one go."""
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    seq = collected(release, ask).response_seq
    left = set_row(release, "Name", status="done", response_seq=seq, outcome="renamed to heron")
    assert (left.rows[0].status, left.rows[0].ask_id) == ("done", None)
    closed = release.show_ask(ask=ask).ask
    assert (closed.close_reason, closed.outcome) == ("done", "renamed to heron")
    row = row_of(release, "Name")
    assert (row.outcome, row.turn) == ("renamed to heron", None)
    assert row.outcome_at is not None


def test_leaving_blocked_without_an_outcome_is_refused_for_a_decision(release: Coordinator, board_url: str) -> None:
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    seq = collected(release, ask).response_seq
    revision = row_of(release, "Name").revision
    with refused(board_url, InvalidInput, "say in one line what came of it"):
        release.board_row(title=TITLE, label="Name", expected_revision=revision, status="done", response_seq=seq)


def test_leaving_blocked_over_a_word_that_nobody_was_handed_is_refused(release: Coordinator, board_url: str) -> None:
    """Statement 9: also by whoever guesses its number."""
    release.respond(ask=ask_of(release, "Name"), text="neither of them", agent="ann")
    for seq in (None, 1):
        with refused(board_url, UnreadAnswer) as caught:
            release.board_row(
                title=TITLE, label="Name", expected_revision=1, status="done", response_seq=seq, outcome="heron"
            )
        assert caught.value.facts["text"] == "neither of them"


@pytest.mark.parametrize("handed", [False, True])
def test_leaving_blocked_after_the_human_spoke_again_is_refused(
    release: Coordinator, board_url: str, handed: bool
) -> None:
    """Statement 9: the number that was acted on is not the current one, even if the newer word was handed over too."""
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    seq = collected(release, ask).response_seq
    release.respond(ask=ask, choice="crane", agent="ann")
    if handed:
        collected(release, ask)
    with refused(board_url, AnswerChanged) as caught:
        release.board_row(
            title=TITLE, label="Name", expected_revision=1, status="done", response_seq=seq, outcome="it is heron"
        )
    assert caught.value.facts["response_seq"] == 2


@pytest.mark.parametrize("verb", ["board_row", "board_advance", "board_upsert"])
def test_whoever_ends_a_turn_names_the_response_that_they_acted_on(
    release: Coordinator, board_url: str, verb: str
) -> None:
    """Statement 9: a row that was left without a number could be left over a word that came in between."""
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", text="or crane", agent="ann")
    row = row_of(release, "Name")
    ends: dict[str, Any] = {
        "board_row": {"label": "Name", "expected_revision": row.revision, "status": "partial", "outcome": "heron"},
        "board_advance": STEP
        | {"label": "Name", "expected_revision": row.revision, "outcome": "x", "board_version": version(release)},
        "board_upsert": {
            "rows": [
                GivenRow("Docs"),
                GivenRow("API"),
                GivenRow("Name", revision=row.revision, status="done", outcome="heron"),
            ],
            "board_version": version(release),
        },
    }
    with refused(board_url, UnreadAnswer):
        getattr(release, verb)(title=TITLE, **ends[verb])
    release.pending()
    with refused(board_url, InvalidInput, rf"ann answered {ask} \(response 1\): 'heron', 'or crane'") as caught:
        getattr(release, verb)(title=TITLE, **ends[verb])
    assert (caught.value.facts["field"], caught.value.facts["response_seq"]) == ("response_seq", 1)
    assert "--response 1" in caught.value.hint


def test_a_turn_is_ended_by_who_was_handed_the_response_and_by_nobody_while_another_acts_on_it(
    release: Coordinator, board_url: str
) -> None:
    """Statement 9 on a row: its number alone is not enough."""
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    release.pending()
    row = row_of(release, "Name")
    end: dict[str, Any] = {"title": TITLE, "label": "Name", "expected_revision": row.revision, "status": "partial"}
    step: dict[str, Any] = STEP | {"title": TITLE, "label": "Name", "board_version": version(release)}
    with coordinate.connect(board_url, agent="bob") as bob:
        with refused(board_url, UnreadAnswer):
            bob.board_row(**end, outcome="heron", response_seq=1)
        bob.pending()
        release.take(ask=ask)
        with refused(board_url, Held):
            bob.board_row(**end, outcome="heron", response_seq=1)
        with refused(board_url, Held):
            bob.board_advance(**step, expected_revision=row.revision, response_seq=1)
        with refused(board_url, Held):
            bob.board_row(**end | {"status": "blocked", "note": "other words"})
    set_row(release, "Name", status="partial", outcome="heron", response_seq=1)


def test_a_row_that_nobody_answered_takes_its_ask_back(release: Coordinator) -> None:
    ask = ask_of(release, "Name")
    set_row(release, "Name", status="na", outcome="the name stays")
    assert release.show_ask(ask=ask).ask.close_reason == "withdrawn"
    with pytest.raises(Closed):
        release.respond(ask=ask, choice="heron", agent="ann")


def test_a_clarification_is_no_end_of_a_step(release: Coordinator, board_url: str) -> None:
    ask = ask_of(release, "Name")
    release.respond(ask=ask, kind="clarify", text="a name for what?", agent="ann")
    seq = collected(release, ask).response_seq
    with refused(board_url, InvalidState):
        release.board_row(
            title=TITLE, label="Name", expected_revision=1, status="done", response_seq=seq, outcome="done"
        )
    release.board_advance(title=TITLE, label="Name", expected_revision=1, board_version=1, response_seq=seq, **STEP)


def test_an_outcome_comes_at_the_end_of_the_turn(release: Coordinator, board_url: str) -> None:
    with refused(board_url, InvalidInput, "outcome"):
        release.board_row(title=TITLE, label="Name", expected_revision=1, outcome="heron")


def test_an_ask_that_is_closed_where_it_stands_unblocks_its_row(release: Coordinator, board_url: str) -> None:
    """Statement 12, from the other side: withdrawn, dismissed or acknowledged, and again once there is a next step."""
    asked = []
    for close in ("withdraw", "dismiss", "acknowledge"):
        ask, before = ask_of(release, "Name"), row_of(release, "Name").revision
        asked.append(ask)
        if close == "acknowledge":
            release.respond(ask=ask, choice="heron", agent="ann")
            seq = collected(release, ask).response_seq
            release.acknowledge(ask=ask, response_seq=seq, outcome="heron it is")
        else:
            getattr(release, close)(ask=ask, reason="not needed")
        row = row_of(release, "Name")
        assert (row.status, row.revision, row.turn) == ("tracked", before + 1, None)
        set_row(release, "Name", **DECISION)
    assert [step.outcome for step in row_of(release, "Name").steps] == ["heron it is", "not needed", "not needed"]
    with nothing_changes(board_url):
        assert release.acknowledge(ask=asked[-1], response_seq=1, outcome="heron it is").already


def test_what_a_row_asks_is_put_in_other_words_on_its_board(release: Coordinator, board_url: str) -> None:
    with refused(board_url, InvalidState, "says what ROW-3 of a board says"):
        release.revise(ask=ask_of(release, "Name"), title="Which name?")


# --- steps ------------------------------------------------------------------------------------------------------------


def test_the_next_step_starts_with_nothing_and_the_last_one_stays_readable(release: Coordinator) -> None:
    """Statement 13: by advancing."""
    first = ask_of(release, "Name")
    release.respond(ask=first, choice="heron", agent="ann")
    seq = collected(release, first).response_seq
    advanced = release.board_advance(
        title=TITLE,
        label="Name",
        expected_revision=1,
        board_version=1,
        response_seq=seq,
        outcome="heron it is",
        context="how to renew",
        **STEP,
    )
    row = row_of(release, "Name")
    assert (row.status, row.step_no, row.revision) == ("blocked", 2, 2)
    assert (row.note, row.next_step, row.action_owner, row.options) == (
        "the key expired",
        "renew the key",
        "task",
        None,
    )
    assert (row.outcome, row.context) == ("", "how to renew")
    assert row.turn is not None
    assert (row.turn.ask_id, row.turn.response, row.turn.snoozed_until) == (advanced.rows[0].ask_id, None, None)
    (step,) = row.steps
    assert step.response is not None
    assert (step.id, step.step_no, step.next_step, step.response.choice) == (first, 1, "choose a name", "heron")
    assert (step.seen_by, step.outcome, step.close_reason) == ("alice", "heron it is", "superseded")


def test_a_row_that_becomes_blocked_again_is_a_new_step(release: Coordinator, board_url: str) -> None:
    """Statement 13: by leaving and coming back; what the last step asked is not asked again."""
    set_row(release, "Name", status="partial", outcome="asked too early")
    with refused(board_url, InvalidInput):
        release.board_row(title=TITLE, label="Name", expected_revision=2, status="blocked")
    set_row(release, "Name", **DEED)
    row = row_of(release, "Name")
    assert (row.step_no, row.outcome, row.options, [step.step_no for step in row.steps]) == (2, "", None, [1])


def test_a_row_advances_from_anywhere(release: Coordinator) -> None:
    release.board_advance(title=TITLE, label="Docs", expected_revision=1, board_version=1, **STEP)
    assert (row_of(release, "Docs").status, row_of(release, "Docs").step_no) == ("blocked", 1)


def test_advancing_needs_both_current_revisions_and_tells_them(release: Coordinator, board_url: str) -> None:
    """Statement 14, QL-24: advance with an old revision."""
    set_row(release, "Name", note="three names")
    release.board_row(title=TITLE, label="Tests")
    ask = ask_of(release, "Name")
    for shown in ((1, 2), (2, 1)):
        with refused(board_url, OutdatedRevision) as caught:
            release.board_advance(title=TITLE, label="Name", expected_revision=shown[0], board_version=shown[1], **STEP)
        now = {"board": TITLE, "board_revision": 2, "label": "Name", "revision": 2, "status": "blocked"}
        assert caught.value.facts == now | {"step_no": 1, "ask_id": ask}


def test_advancing_over_a_word_that_was_not_read_is_refused(release: Coordinator, board_url: str) -> None:
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    with refused(board_url, UnreadAnswer):
        release.board_advance(title=TITLE, label="Name", expected_revision=1, board_version=1, **STEP)
    seq = collected(release, ask).response_seq
    release.respond(ask=ask, choice="crane", agent="ann")
    with refused(board_url, AnswerChanged):
        release.board_advance(title=TITLE, label="Name", expected_revision=1, board_version=1, response_seq=seq, **STEP)


def test_advancing_over_a_decision_says_what_came_of_it(release: Coordinator, board_url: str) -> None:
    ask = ask_of(release, "Name")
    release.respond(ask=ask, choice="heron", agent="ann")
    seq = collected(release, ask).response_seq
    step: dict[str, Any] = STEP | {"title": TITLE, "label": "Name", "expected_revision": 1, "board_version": 1}
    for given in ({}, {"outcome": " "}):
        with refused(board_url, InvalidInput, f"{ask} is a decision"):
            release.board_advance(**step, response_seq=seq, **given)
    release.board_advance(**step, response_seq=seq, outcome="heron it is")


def test_what_is_not_there_does_not_advance(release: Coordinator, board_url: str) -> None:
    for title, label in ((TITLE, "Tests"), ("Release 3", "Name")):
        with refused(board_url, NotFound):
            release.board_advance(title=title, label=label, expected_revision=1, board_version=1, **STEP)


def test_an_answer_to_a_step_is_refused_once_there_is_the_next(release: Coordinator, board_url: str) -> None:
    """Statement 16: the ask and its step are what a human's word is pinned to."""
    first = ask_of(release, "Name")
    release.board_advance(title=TITLE, label="Name", expected_revision=1, board_version=1, **STEP)
    with refused(board_url, Closed):
        release.respond(ask=first, choice="heron", agent="ann")


def test_whatever_agents_do_to_other_rows_a_humans_word_is_taken(release: Coordinator) -> None:
    """Statement 16: between reading the board and speaking, all else of it changed."""
    seen = ask_of(release, "Name")
    set_row(release, "API", **DEED)
    release.board_upsert(title=TITLE, rows=[GivenRow("Name"), GivenRow("API")], board_version=1)
    set_row(release, "Name", note="three names")
    release.respond(ask=seen, choice="heron", agent="ann")
    release.board_annotate(title=TITLE, label="Name", text="hurry", agent="ann")
    turn = row_of(release, "Name").turn
    assert turn is not None
    assert turn.response is not None


# --- progress and the archive -----------------------------------------------------------------------------------------


def test_progress_is_done_and_half_of_partial_over_what_counts(board: Coordinator) -> None:
    """Statement 18; where no row counts nothing is complete."""
    expected = {
        "": None,
        "na na": None,
        "tracked": 0.0,
        "missing": 0.0,
        "partial": 0.5,
        "done": 1.0,
        "done na": 1.0,
        "done partial tracked missing na": 0.375,
    }
    for statuses, fraction in expected.items():
        rows_of = [GivenRow(f"R{n}", status=each) for n, each in enumerate(statuses.split())]
        made = board.board_upsert(title=f"B {statuses}", rows=rows_of)
        assert made.progress.fraction == fraction, statuses
        assert made.board.status == ("archived" if fraction == 1.0 else "active"), statuses
    for listed in board.board_list(archived=True):
        statuses = listed.board.title.removeprefix("B").strip()
        assert listed.progress == board.board_get(title=listed.board.title).progress
        assert listed.progress.fraction == expected[statuses]


def test_a_blocked_row_counts_for_nothing(release: Coordinator) -> None:
    set_row(release, "Docs", status="done")
    assert release.board_get(title=TITLE).progress.fraction == pytest.approx(1 / 3)


def test_a_board_archives_itself_when_all_is_done_and_a_later_write_brings_it_back(release: Coordinator) -> None:
    """Statement 18."""
    set_row(release, "Docs", status="done")
    set_row(release, "API", status="na")
    last = set_row(release, "Name", status="done", outcome="the name stays")
    assert (last.board.status, last.board.revision, last.board.archived_by) == ("archived", 2, "alice")
    assert (release.board_list(), len(release.board_list(archived=True))) == ([], 1)
    back = set_row(release, "API", status="partial")
    assert (back.board.status, back.board.revision, back.board.archived_at) == ("active", 3, None)
    assert [each.board.title for each in release.board_list()] == [TITLE]


def test_a_board_does_not_archive_itself_over_words_that_nobody_was_handed(board: Coordinator) -> None:
    """Statement 18: they would be hidden with it."""
    board.board_upsert(title=TITLE, rows=[GivenRow("Docs", status="partial")])
    board.board_annotate(title=TITLE, label="Docs", text="one page is missing", agent="ann")
    assert set_row(board, "Docs", status="done").board.status == "active"
    assert [each.unseen for each in board.board_list()] == [1]
    assert [words.text for words in board.pending().annotations] == ["one page is missing"]
    assert set_row(board, "Docs", note="now they are all there").board.status == "archived"


def test_archiving_and_bringing_back_by_hand(release: Coordinator, board_url: str) -> None:
    with refused(board_url, OutdatedRevision) as caught:
        release.board_archive(title=TITLE, board_version=7)
    assert caught.value.facts["board_revision"] == 1
    gone = release.board_archive(title=TITLE, board_version=1, agent="ann")
    assert (gone.status, gone.revision, gone.archived_by) == ("archived", 2, "ann")
    with nothing_changes(board_url):
        assert release.board_archive(title=TITLE) == gone
    assert release.show_ask(ask=ask_of(release, "Name")).ask.state == "open"
    back = release.board_unarchive(title=TITLE, board_version=2)
    assert (back.status, back.revision, back.archived_at, back.archived_by) == ("active", 3, None, None)
    with nothing_changes(board_url):
        release.board_unarchive(title=TITLE)
    with refused(board_url, NotFound):
        release.board_archive(title="Release 3")


def test_a_same_board_sent_again_stays_archived(board: Coordinator, board_url: str) -> None:
    board.board_upsert(title=TITLE, rows=[GivenRow("Docs")])
    board.board_archive(title=TITLE)
    with nothing_changes(board_url):
        board.board_upsert(title=TITLE, rows=[GivenRow("Docs")], board_version=2)
    board.board_advance(title=TITLE, label="Docs", expected_revision=1, board_version=2, **STEP)
    assert board.board_get(title=TITLE).board.status == "active"


# --- words beside rows ------------------------------------------------------------------------------------------------


def test_words_beside_a_row_reach_every_session_once_until_they_are_acknowledged(
    release: Coordinator, board_url: str
) -> None:
    """Statement 10, on a row; a row set aside and an archived board make no difference."""
    words = release.board_annotate(title=TITLE, label="Docs", text="say it shorter", agent="ann")
    release.board_upsert(title=TITLE, rows=[GivenRow("API"), GivenRow("Name")], board_version=1)
    release.board_archive(title=TITLE)
    readers = [coordinate.connect(board_url, session=release.register(name=name).id) for name in ("bob", "bob", "eve")]
    for reader in readers[:2]:
        assert [each.id for each in reader.pending().annotations] == [words.id]
        assert reader.pending().annotations == ()
    assert row_of(release, "Docs").annotations[0].seen_by == "bob"
    readers[0].acknowledge_annotation(annotation=words.id)
    assert readers[2].pending().annotations == ()
    assert release.board_get(title=TITLE, full=True).set_aside[0].annotations[0].close_reason == "acknowledged"
    for reader in readers:
        reader.close()


def test_words_beside_a_row_change_no_number_that_agents_compare(release: Coordinator, board_url: str) -> None:
    """Statement 8, on a row: neither saying nor handing over."""
    asked = (
        "SELECT id, revision, updated_at FROM board_rows UNION SELECT id, revision, updated_at FROM boards ORDER BY 1"
    )
    before = rows(board_url, asked)
    release.board_annotate(title=TITLE, label="Name", text="soon", agent="ann")
    release.respond(ask=ask_of(release, "Name"), choice="heron", agent="ann")
    release.pending()
    assert rows(board_url, asked) == before


def test_words_are_said_beside_a_row_that_is_there(release: Coordinator, board_url: str) -> None:
    for title, label in ((TITLE, "Tests"), ("Release 3", "Name")):
        with refused(board_url, NotFound):
            release.board_annotate(title=title, label=label, text="x")


# --- looks ------------------------------------------------------------------------------------------------------------


def test_a_lean_look_leaves_contexts_and_steps_out_and_hands_nothing_over(release: Coordinator, board_url: str) -> None:
    set_row(release, "API", context="c" * 50)
    set_row(release, "Name", status="partial", outcome="later")
    set_row(release, "Name", **DEED)
    release.respond(ask=ask_of(release, "Name"), kind="handled", agent="ann")
    release.board_annotate(title=TITLE, label="API", text="soon", agent="ann")
    with nothing_changes(board_url):
        lean, full = release.board_get(title=TITLE), release.board_get(title=TITLE, full=True)
    assert [(row.context, row.context_chars, row.steps) for row in lean.rows[1:]] == [("", 50, ()), ("", 0, ())]
    assert (full.rows[1].context, len(full.rows[2].steps)) == ("c" * 50, 1)
    assert [row.turn for row in lean.rows] == [row.turn for row in full.rows]
    assert lean.rows[2].turn is not None
    assert lean.rows[2].turn.response is not None
    assert [words.text for words in lean.rows[1].annotations] == ["soon"]
    with pytest.raises(NotFound):
        release.board_get(title="Release 3")


def test_every_change_of_a_board_or_a_row_has_its_event(release: Coordinator) -> None:
    set_row(release, "API", status="done")
    release.board_archive(title=TITLE)
    release.board_unarchive(title=TITLE)
    release.board_upsert(title=TITLE, rows=[GivenRow("Name")], board_version=3)
    told = [event for event in release.list_events() if event.event.startswith("board.")]
    assert [event.event.removeprefix("board.") for event in told] == [
        *("created", "row_written", "row_written", "row_written"),
        *("row_written", "archived", "unarchived", "written", "row_set_aside", "row_set_aside"),
    ]
    board, api = release.board_get(title=TITLE).board, row_of(release, "API")
    assert (told[4].ref, told[4].payload) == (
        api.id,
        {
            **{"board_id": board.id, "title": TITLE, "row_id": api.id, "label": "API", "revision": "2"},
            **{"status": "done", "was": "tracked"},
        },
    )
    assert (told[7].ref, told[7].payload) == (board.id, {"board_id": board.id, "title": TITLE, "revision": "4"})


def test_a_write_inside_a_callers_own_transaction_goes_or_stays_with_it(board: Coordinator, board_url: str) -> None:
    """A refused write leaves nothing behind, though the rows before the refused one were written already."""
    board.board_upsert(title=TITLE, rows=[GivenRow("Docs")])
    with nothing_changes(board_url), pytest.raises(InvalidInput):
        board.board_upsert(
            title=TITLE,
            rows=[GivenRow("Docs", revision=1, note="x"), GivenRow("Name", status="blocked")],
            board_version=1,
        )


@pytest.mark.parametrize("given", [{}, {"label": "Docs"}, set(), iter([{"label": "Docs"}])])
def test_rows_and_options_are_lists(board: Coordinator, board_url: str, given: Any) -> None:
    """What is no list is no empty board: it would set every row aside."""
    board.board_upsert(title="B", rows=[{"label": "Docs"}])
    with refused(board_url, InvalidInput, "must be a list"):
        board.board_upsert(title="B", rows=given, board_version=1)
    with refused(board_url, InvalidInput, "must be a list"):
        board.ask(title="q", action_owner="decision", impact="i", options=given)
    assert board.board_upsert(title="B", rows=[], board_version=1).progress.fraction is None
