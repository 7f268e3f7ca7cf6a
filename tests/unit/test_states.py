"""The table of moves: closed, complete, and the same as what the database enforces."""

from __future__ import annotations

from coordinate import states
from coordinate.db.schema import attempts, notes, tasks
from coordinate.states import FINAL, LIVE, MOVE, MOVES, OWNERS, STATUSES, ways_out


def test_every_move_leads_from_and_to_a_status() -> None:
    for move in MOVES:
        assert set(move.sources) <= set(STATUSES)
        assert move.target in STATUSES
        assert move.sources


def test_every_verb_is_one_move() -> None:
    assert len(MOVE) == len(MOVES)


def test_every_status_has_an_owner_and_a_way_out_that_somebody_can_take() -> None:
    assert set(OWNERS) == set(STATUSES)
    for status in STATUSES:
        assert ways_out(status)
        assert all(MOVE[verb].owner != "the clock" for verb in ways_out(status))


def test_every_status_can_be_reached_and_left_for_good_work() -> None:
    reached = {"TODO"}
    for _ in STATUSES:
        reached |= {move.target for move in MOVES if reached & set(move.sources)}
    assert reached == set(STATUSES)
    back = {"TODO"}
    for _ in STATUSES:
        back |= {source for move in MOVES if move.target in back for source in move.sources}
    assert back == set(STATUSES), "from everywhere a task can be put to work again"


def test_live_and_final_part_the_statuses() -> None:
    assert set(LIVE) | set(FINAL) == set(STATUSES)
    assert not set(LIVE) & set(FINAL)


def test_a_move_out_of_a_hold_says_how_the_attempt_ended_and_no_other_move_does() -> None:
    for move in MOVES:
        assert bool(move.outcome) == ("IN_PROGRESS" in move.sources), move.verb
    assert {move.outcome for move in MOVES if move.outcome} == set(states.OUTCOMES)


def test_only_the_holder_and_the_clock_and_a_cancellation_end_a_hold() -> None:
    enders = {move.owner for move in MOVES if "IN_PROGRESS" in move.sources} - {"the holder", "the clock"}
    assert enders == {"anyone"}
    assert [move.verb for move in MOVES if "IN_PROGRESS" in move.sources and move.owner == "anyone"] == ["cancel"]


def test_events_are_named_after_what_happened_and_shared_by_no_two_outcomes() -> None:
    for move in MOVES:
        assert move.event.startswith(("task.", "review."))
    named = {move.event: {other.outcome for other in MOVES if other.event == move.event} for move in MOVES}
    assert all(len(outcomes) == 1 for outcomes in named.values())


def test_the_constraints_of_the_database_come_from_these_tables() -> None:
    def check(table: object, name: str) -> str:
        return next(str(each.sqltext) for each in table.constraints if str(each.name).endswith(name))

    for text, words in (
        (check(tasks, "_status"), STATUSES),
        (check(tasks, "_parked"), states.PARKED),
        (check(attempts, "_outcome"), states.OUTCOMES),
        (check(notes, "_note_type"), states.NOTE_TYPES),
    ):
        assert all(f"'{word}'" in text for word in words)
    assert set(states.PROGRESS_NOTE_TYPES) <= set(states.NOTE_TYPES)
