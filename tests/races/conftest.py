"""What only races ask for."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.conftest import create_board_on_postgres
from tests.races.arena import Noticed, Play

PLAYS = 10


@pytest.fixture
def sqlite_board(sqlite_template: Path, tmp_path: Path, sqlite_url: str) -> str:
    """An empty board in a SQLite file, for what concerns that engine alone."""
    return str(shutil.copy(sqlite_template, tmp_path / "board.db"))


@pytest.fixture
def postgres_board(pg_url: str, postgres_script: str | None) -> str:
    """An empty board on Postgres, for what concerns that engine alone."""
    create_board_on_postgres(pg_url, postgres_script)
    return pg_url


@pytest.fixture
def noticed(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Noticed:
    """Asks that a race without its guard is lost: it is played on fresh boards until it is, for chance decides when.

    Where one play seldom meets the coincidence, make that: see `arena.overtaken_before` and `arena.meeting_before`.
    """

    def fresh(stack: ExitStack, number: int) -> str:
        if engine == "sqlite":
            return str(shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / f"weak-{number}.db"))
        url = stack.enter_context(request.getfixturevalue("postgres").schema())
        create_board_on_postgres(url, request.getfixturevalue("postgres_script"))
        return url

    def until_lost(play: Play) -> None:
        for number in range(PLAYS):
            with ExitStack() as stack:
                url = fresh(stack, number)
                try:
                    play(url)
                except AssertionError:
                    return
        pytest.fail(f"Nothing noticed in {PLAYS} plays that the guard is gone.")

    return until_lost
