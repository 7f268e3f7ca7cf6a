"""A restore while agents work: nobody is handed what was handed out before, and the board stays sound."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

import coordinate
from coordinate import errors, service
from coordinate.db import backup, restore
from tests.races import arena
from tests.races.arena import Go, Weakness

pytestmark = pytest.mark.race


def play_restore(board: str, weakness: Weakness | None = None) -> None:
    """Four workers claim, release and lock again and again; in their midst the board goes back to its first day."""
    with arena.setting_up(board, agent="racer") as c:
        arena.dispatch_many(c, 12)
    made = backup.export(Path(board), Path(board).with_name(f"{Path(board).name}.copy")).backup
    over, claims = arena.FORK.Event(), arena.FORK.Value("i", 0)

    def restorer(go: Go) -> tuple[list[str], list[int]]:
        def await_claims(more: int) -> None:
            enough, until = claims.value + more, time.monotonic() + arena.PATIENCE_SECONDS
            while claims.value < enough and time.monotonic() < until:
                time.sleep(0.01)

        go()
        await_claims(40)
        told = service.restore(made, board, replace=True)
        assert told.settled.known
        await_claims(40)
        over.set()
        return [], []

    def worker(number: int) -> Callable[[Go], tuple[list[str], list[int]]]:
        def live(go: Go) -> tuple[list[str], list[int]]:
            handles, fences = [], []
            with coordinate.connect(board, agent=f"worker-{number}") as c:
                c.stats()
                go()
                while not over.is_set():
                    claim = c.claim_next(role="worker")
                    if claim is not None:
                        handles.append(claim.handle)
                        with claims.get_lock():
                            claims.value += 1
                        fences.append(c.acquire_lock(name=claim.handle).fence)
                        try:
                            c.release(handle=claim)
                        except errors.StaleClaim:  # it was taken back with all others
                            continue
            return handles, fences

        return live

    answers = arena.run([*map(worker, range(4)), restorer], weakness=weakness)
    for place in (0, 1):
        given = [each for answer in answers for each in answer[place]]
        assert len(given) >= 80
        assert len(given) == len(set(given)), "something was handed out twice"
    with coordinate.connect(board, agent="alice") as c:
        assert c.examine() == []


def test_nothing_is_handed_out_twice_when_a_board_is_restored_amid_its_writers(sqlite_board: str) -> None:
    """Design rule 4.7. Guard: numbers go on above those read in the very transaction that replaces them."""
    play_restore(sqlite_board)


def numbers_as_in_the_backup() -> None:
    restore._raise_numbers = lambda connection: None


def test_a_restore_that_does_not_raise_the_numbers_is_noticed(sqlite_board: str) -> None:
    with pytest.raises(AssertionError):
        play_restore(sqlite_board, numbers_as_in_the_backup)
