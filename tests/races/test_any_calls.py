"""Several processes at once call whatever comes to mind: nothing fails, nobody waits for ever, the board is sound.

What meets what is chance, so this finds what no other test thought of, on a day of its own; for longer, set SECONDS.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence

import pytest

import coordinate
from coordinate.db.compiled import Library
from tests.calls import Random, answer_to
from tests.races import arena
from tests.races.arena import Call, Noticed, Weakness
from tests.tables import assert_sound

pytestmark = pytest.mark.race

PROCESSES = 6
SECONDS = 3.0
# What nobody is told who only meets others.
FAULTS = {"internal", "busy", "unreachable", "not_a_board", "outcome_unknown"}


def play(url: str, opening: Sequence[Call] = (), *, weakness: Weakness | None = None) -> None:
    """The first of them may begin with calls that are given."""
    called = arena.run([caller(url, number, opening) for number in range(PROCESSES)], weakness=weakness)
    assert min(called) > 0
    assert_sound(url)
    with coordinate.connect(url) as board:
        assert board.examine() == []


def caller(url: str, number: int, opening: Sequence[Call]) -> Callable[[arena.Go], int]:
    """What one process does; it answers how many of its calls were not refused."""

    def body(go: arena.Go) -> int:
        calls, done = Random(seed=number, seconds=(1, 2, 600)), 0
        with coordinate.connect(url) as board:
            go()
            for verb, given in opening[number : number + 1]:
                getattr(board, verb)(**given)
            go()
            until = time.monotonic() + SECONDS
            while time.monotonic() < until or not done:
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
    """The first two make tasks wait for one another, each before the other's is seen; then come the others' calls."""
    locks = r" FOR (UPDATE|SHARE)( SKIP LOCKED)?"
    library = Library("postgresql")
    locking = [name for name in library.names() if re.search(locks, " ".join(library[name].sql.split()))]
    unlocked = arena.together(
        arena.replaced("lock_edges", "SELECT true"), *(arena.cut(name, locks) for name in locking)
    )

    def play_apart(url: str) -> None:
        with arena.setting_up(url) as c:
            one, two = arena.dispatch_many(c, 2)
        circle = [("depend_add", {"task": task, "on": on}) for task, on in ((one, two), (two, one))]
        unguarded = arena.no_transactions if engine == "sqlite" else unlocked
        play(url, circle, weakness=arena.together(unguarded, arena.overtaken_before("edge_insert")))

    noticed(play_apart)
