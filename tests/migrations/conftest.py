"""What only tests of migrations ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import coordinate
from coordinate.db import knowledge, migrate
from tests.migrations.catalog import CHECKOUT, fill, path_of, write_later


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The product's migrations, and two more behind them that a test may break and mend."""
    copy = Path(shutil.copytree(CHECKOUT / "alembic", tmp_path / "scripts 100%"))
    write_later(copy, "9001", knowledge.HEAD)
    write_later(copy, "9002", "9001")
    return copy


@pytest.fixture
def board_file(sqlite_url: str) -> Path:
    """A file with a board of everything."""
    migrate.upgrade(sqlite_url)
    fill(sqlite_url)
    return path_of(sqlite_url)


@pytest.fixture
def plain(sqlite_template: Path, tmp_path: Path) -> Path:
    """A board with one task."""
    with coordinate.connect(board := Path(shutil.copy(sqlite_template, tmp_path / "plain.db")), agent="alice") as c:
        c.dispatch(title="t", role="w")
    return board
