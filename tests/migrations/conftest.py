"""What only tests of migrations ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import coordinate
from coordinate.db import knowledge
from tests.migrations.catalog import CHECKOUT, write_later


@pytest.fixture
def scripts(tmp_path: Path) -> Path:
    """The product's migrations, and two more behind them that a test may break and mend."""
    copy = Path(shutil.copytree(CHECKOUT / "alembic", tmp_path / "scripts 100%"))
    write_later(copy, "9001", knowledge.HEAD)
    write_later(copy, "9002", "9001")
    return copy


@pytest.fixture
def plain(sqlite_template: Path, tmp_path: Path) -> Path:
    """A board with one task."""
    with coordinate.connect(board := Path(shutil.copy(sqlite_template, tmp_path / "plain.db")), agent="alice") as c:
        c.dispatch(title="t", role="w")
    return board
