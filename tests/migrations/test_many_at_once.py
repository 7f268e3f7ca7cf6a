"""AL-10: many replicas start at once and each upgrades. One does it, the others find it done, and nobody fails."""

from __future__ import annotations

import itertools
import logging
import multiprocessing
import threading
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from coordinate.db import knowledge, migrate
from coordinate.db.dialect import is_postgres
from tests.migrations.catalog import a_second_place, catalog, fill, path_of, rows, run

PROCESSES, THREADS, ROUNDS = 6, 4, 20

fork = multiprocessing.get_context("fork")  # Alembic is imported already, so that all begin at the same moment


def upgrade_all_at_once(url: str) -> list[str]:
    """Upgrade from six processes and four threads of this one; returns the revisions that were run, all told."""
    barrier = fork.Barrier(PROCESSES + THREADS)
    told = fork.SimpleQueue()
    processes = [fork.Process(target=_upgrade, args=(url, barrier, told.put)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    threads = [threading.Thread(target=_upgrade, args=(url, barrier, told.put)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    answers = [told.get() for _ in range(PROCESSES + THREADS)]
    for each in (*processes, *threads):
        each.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    assert [answer for answer in answers if isinstance(answer, str)] == []
    return sorted(line for answer in answers for line in answer)


def _upgrade(url: str, barrier: Barrier, tell: Callable[[object], None]) -> None:
    ran: list[str] = []
    listener = _Listener(ran)
    logger = logging.getLogger("alembic.runtime.migration")
    logger.addHandler(listener)
    logger.setLevel(logging.INFO)
    try:
        barrier.wait(60)
        migrate.upgrade(url)
        tell(ran)
    except BaseException as error:
        tell(f"{type(error).__name__}: {error}")
    finally:
        logger.removeHandler(listener)


class _Listener(logging.Handler):
    """Hears which revisions its own thread runs."""

    def __init__(self, ran: list[str]) -> None:
        super().__init__()
        self.ran = ran
        self.thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        said = record.getMessage()
        if said.startswith("Running") and threading.get_ident() == self.thread:
            self.ran.append(said.split(",")[0])


def steps(*revisions: str) -> list[str]:
    return [f"Running upgrade {before} -> {after}" for before, after in itertools.pairwise(revisions)]


@pytest.mark.race
def test_many_upgrade_an_empty_place_at_once(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """AL-10"""
    for _ in range(ROUNDS):
        with a_second_place(engine, tmp_path, request) as place:
            assert upgrade_all_at_once(place) == steps("", *knowledge.REVISIONS)
            stands_at_head(place)
            assert run(place, "SELECT kind, value FROM counters ORDER BY kind") == [
                *((kind, 0) for kind in ("annotation", "ask", "board", "events_pruned", "fence", "row", "task")),
            ]
            if not is_postgres(place):
                assert run(place, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.race
def test_many_upgrade_an_older_board_at_once(board_url: str) -> None:
    """AL-10: with rows, which stay; on SQLite one backup is made, by whoever upgrades."""
    fill(board_url)
    goal = catalog(board_url)
    for _ in range(ROUNDS):
        migrate.downgrade(board_url, "0001")
        before = rows(board_url)
        if not is_postgres(board_url):
            for backup in path_of(board_url).parent.glob("*.backup-*"):
                backup.unlink()
        assert upgrade_all_at_once(board_url) == steps(*knowledge.REVISIONS)
        stands_at_head(board_url)
        assert catalog(board_url) == goal
        after = rows(board_url)
        assert [table for table in ("notes", "history") if before[table] != after[table]] == []
        assert [table for table in ("tasks", "attempts") if before[table][0] != after[table][0]] == []  # new columns
        if not is_postgres(board_url):
            backups = [backup.name for backup in path_of(board_url).parent.glob("*.backup-*")]
            assert backups == ["board.db.backup-0001-1"]


def stands_at_head(url: str) -> None:
    assert run(url, "SELECT version_num FROM coordinate_version") == [(knowledge.HEAD,)]
    assert run(url, "SELECT id, revision, oldest_writer FROM schema_window") == [(1, knowledge.HEAD, 4)]
