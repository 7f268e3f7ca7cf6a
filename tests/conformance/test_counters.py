"""Counters: each number once, rising, above a floor."""

from __future__ import annotations

import coordinate
from coordinate import Coordinator, service
from coordinate.errors import InvalidInput, InvalidState
from tests.tables import as_owner, refused, rows


def test_numbers_rise_above_every_floor_and_a_floor_below_changes_nothing(board: Coordinator) -> None:
    """Statement 9."""
    assert board.counter_next(kind="adr", floor=41) == [42]
    assert board.counter_next(kind="adr") == [43]
    assert board.counter_next(kind="adr", floor=7) == [44]
    assert board.counter_next(kind="adr", floor=44) == [45]
    assert board.counter_next(kind="adr", floor=100, count=3) == [101, 102, 103]
    assert board.counter_next(kind="adr", count=2) == [104, 105]


def test_each_project_and_kind_counts_for_itself(board: Coordinator, board_url: str) -> None:
    """Statement 9. Not even odd names meet, and none meets the board's own counters."""
    for kind in ("a", "task", "fence", "b:c"):
        assert board.counter_next(kind=kind) == [1]
    assert board.counter_next(kind="a", project="p") == [1]
    assert board.counter_next(kind="a", project="p/q") == [1]
    with refused(board_url, InvalidInput, "no slash"):
        board.counter_next(kind="q/a", project="p")
    assert board.dispatch(title="T", role="worker").task.id == "TASK-1"


def test_a_refused_call_mints_nothing(board: Coordinator, board_url: str) -> None:
    board.counter_next(kind="a")
    with refused(board_url, InvalidInput):
        board.counter_next(kind="a", count=1_001)
    assert board.counter_next(kind="a") == [2]


def test_where_numbers_end_the_call_is_refused_and_mints_nothing(board: Coordinator, board_url: str) -> None:
    last = 2**63 - 1
    assert board.counter_next(kind="a", floor=last - 1_000, count=998) == list(range(last - 999, last - 1))
    with refused(board_url, InvalidState, "fewer than 3 numbers left"):
        board.counter_next(kind="a", count=3)
    assert board.counter_next(kind="a", count=2) == [last - 1, last]
    for floor in (0, last - 1_000):
        with refused(board_url, InvalidState):
            board.counter_next(kind="a", floor=floor)


def test_a_counter_near_its_end_hinders_no_board_to_be_settled(board: Coordinator, board_url: str) -> None:
    """After a restore all go on by a wide margin; what has no room for it is used up, and gives nothing out twice."""
    board.counter_next(kind="a", floor=2**63 - 2_000)
    board.counter_next(kind="b")
    board.close()
    service.settle(as_owner(board_url))
    with coordinate.connect(board_url, agent="alice") as settled:
        with refused(board_url, InvalidState, "fewer than 1 numbers left"):
            settled.counter_next(kind="a")
        assert settled.counter_next(kind="b") == [1_000_002]
    assert rows(board_url, "SELECT value FROM counters WHERE kind = 'default/a'") == [(2**63 - 1,)]
