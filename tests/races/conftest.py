"""What only races ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.conftest import create_board_on_postgres


@pytest.fixture
def sqlite_board(sqlite_template: Path, tmp_path: Path, sqlite_url: str) -> str:
    """An empty board in a SQLite file, for what concerns that engine alone."""
    return str(shutil.copy(sqlite_template, tmp_path / "board.db"))


@pytest.fixture
def postgres_board(pg_url: str, postgres_script: str | None) -> str:
    """An empty board on Postgres, for what concerns that engine alone."""
    create_board_on_postgres(pg_url, postgres_script)
    return pg_url
