"""What only races ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


@pytest.fixture
def sqlite_board(sqlite_template: Path, tmp_path: Path, sqlite_url: str) -> str:
    """An empty board in a SQLite file, for what concerns that engine alone."""
    return str(shutil.copy(sqlite_template, tmp_path / "board.db"))
