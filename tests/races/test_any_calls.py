"""Several processes at once call whatever comes to mind: nothing fails, nobody waits for ever, the board is sound.

What meets what is chance, so this finds what no other test thought of, on a day of its own; for longer, set SECONDS.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

import coordinate
from coordinate.db.compiled import Library
from tests.calls import Random, answer_to
from tests.races import arena
from tests.races.arena import Noticed, Weakness
from tests.tables import assert_sound

pytestmark = pytest.mark.race

PROCESSES = 6
SECONDS = 3.0
# What nobody is told who only meets others.
FAULTS = {"internal", "busy", "unreachable", "not_a_board", "outcome_unknown"}


def play(url: str, *, weakness: Weakness | None = None) -> None:
    called = arena.run([caller(url, number) for number in range(PROCESSES)], weakness=weakness, seconds=60)
    assert min(called) > 0
    assert_sound(url)
    with coordinate.connect(url) as board:
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


def test_whatever_several_call_at_once_none_fails_and_the_board_is_sound(board_url: str) -> None:
    play(board_url)


def test_it_is_noticed_when_nothing_keeps_them_apart(engine: str, noticed: Noticed) -> None:
    locks = r" FOR UPDATE( SKIP LOCKED)?"
    library = Library("postgresql")
    locking = [name for name in library.names() if " FOR UPDATE" in " ".join(library[name].sql.split())]
    unlocked = arena.together(*(arena.cut(name, locks) for name in locking))
    noticed(lambda url: play(url, weakness=arena.no_transactions if engine == "sqlite" else unlocked))
