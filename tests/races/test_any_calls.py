"""Several processes at once call whatever comes to mind: nothing fails, nobody waits for ever, the board is sound."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import coordinate
from tests.calls import Random, answer_to
from tests.races import arena
from tests.tables import assert_sound

pytestmark = pytest.mark.race

SECONDS = 3.0
# What somebody is told of whom nobody is in the way.
FAULTS = {"internal", "busy", "unreachable", "not_a_board", "outcome_unknown"}


def test_whatever_several_call_at_once_none_fails_and_the_board_is_sound(board_url: str) -> None:
    called = arena.run([caller(board_url, number) for number in range(4)], seconds=60)
    assert min(called) > 0
    assert_sound(board_url)
    with coordinate.connect(board_url) as board:
        assert board.examine() == []


def caller(url: str, number: int) -> Callable[[arena.Go], int]:
    """What one process does; it answers how many of its calls were not refused."""

    def body(go: arena.Go) -> int:
        calls, done = Random(seed=number, seconds=(1, 2, 600)), 0
        with coordinate.connect(url) as board:
            go()
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                call = calls.call()
                code, answer = answer_to(board, call)
                assert code not in FAULTS, (call[0].name, call[1], answer)
                if not code:
                    calls.learn(call, answer)
                    done += 1
        return done

    return body
