"""What several doors ask for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.doors.command import Command
from tests.doors.repository import Repository, made


@pytest.fixture
def repository(tmp_path: Path, sqlite_template: Path) -> Repository:
    """A git repository with a board in its main checkout."""
    return made(tmp_path, sqlite_template)


@pytest.fixture
def here(sqlite_template: Path, tmp_path: Path) -> Command:
    """Calls on a board where one engine tells all."""
    return Command(str(shutil.copy(sqlite_template, tmp_path / "board.db")), tmp_path)
