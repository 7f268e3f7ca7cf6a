"""Many open a board that is not there yet, or lies on storage that cannot carry WAL, or was open before a fork."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

import coordinate
from coordinate.db import dialect, env, migrate, schema
from tests.races import arena
from tests.races.arena import Go, Weakness

pytestmark = pytest.mark.race

IMPORTED_BEFORE_FORKING = (env, migrate, schema)


def first_dispatch(url: str, number: int) -> Callable[[Go], str]:
    def live(go: Go) -> str:
        go()
        with coordinate.connect(url, agent=f"agent-{number}", create=True) as c:
            return c.dispatch(title="First", role="worker").task.id

    return live


def play_first(path: str, *, processes: int = 16, weakness: Weakness | None = None) -> None:
    ids = arena.run([first_dispatch(path, number) for number in range(processes)], weakness=weakness)
    assert sorted(ids, key=lambda task: int(task[5:])) == [f"TASK-{number + 1}" for number in range(processes)]
    assert len(arena.rows(path, "SELECT version_num FROM coordinate_version")) == 1
    assert arena.rows(path, "PRAGMA journal_mode") == [("wal",)]
    assert arena.rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_16_processes_make_one_board_of_a_path_where_nothing_was(tmp_path: Path) -> None:
    """SQ-03, 30 rounds. Guards: one immediate transaction from reading the version on; a patient switch to WAL."""
    for number in range(30):
        play_first(str(tmp_path / f"board-{number}.db"))


def test_an_upgrade_that_begins_late_is_noticed(tmp_path: Path) -> None:
    def begin_deferred() -> None:
        listen = event.listen
        event.listen = lambda target, name, do, **more: listen(  # type: ignore[assignment]
            target, name, lambda connection: connection.exec_driver_sql("BEGIN"), **more
        )
        env.event.listen = event.listen

    with pytest.raises(AssertionError):
        for number in range(10):
            play_first(str(tmp_path / f"board-{number}.db"), weakness=begin_deferred)


# --- storage without WAL ----------------------------------------------------------------------------------------------


def on_vfs(name: str) -> Weakness:
    """Storage without shared memory or without locks, as SQLite's own other drivers of a Unix file imitate it."""

    def choose() -> None:
        connect = sqlite3.connect

        def connect_there(address: str, *args: Any, **more: Any) -> sqlite3.Connection:
            return connect(f"{address}&vfs={name}", *args, **more)

        dialect.sqlite3.connect = connect_there  # type: ignore[attr-defined]

    return choose


@pytest.mark.parametrize("vfs", ["unix-dotfile", "unix-none"])
def test_storage_that_cannot_carry_wal_is_noticed_and_told(tmp_path: Path, vfs: str) -> None:
    """SQ-05. Guard: the answer of the journal pragma is looked at."""

    def make(go: Go) -> tuple[str, list[str]]:
        with coordinate.connect(tmp_path / "board.db", agent="alice", create=True) as c:
            c.dispatch(title="One", role="worker")
            claim = c.claim_next(role="worker")
            assert claim is not None
            c.complete(handle=claim)
            return claim.handle, c.database.warnings

    ((handle, warned),) = arena.run([make], weakness=on_vfs(vfs))
    assert handle == "TASK-1@1"
    assert any("unsupported or network storage" in each and "rollback journal" in each for each in warned)
    assert arena.rows(str(tmp_path / "board.db"), "PRAGMA journal_mode") == [("delete",)]


def test_claims_are_exclusive_between_4_processes_without_wal(tmp_path: Path) -> None:
    """SQ-05. Guard: BEGIN IMMEDIATE, also over a rollback journal."""
    path = str(tmp_path / "board.db")

    def make(go: Go) -> None:
        with coordinate.connect(path, agent="manager", create=True) as c:
            arena.dispatch_many(c, 100)

    def work(go: Go) -> list[str]:
        handles = []
        with coordinate.connect(path, agent="racer") as c:
            go()
            while claim := c.claim_next(role="worker"):
                c.complete(handle=claim)
                handles.append(claim.handle)
        return handles

    arena.run([make], weakness=on_vfs("unix-dotfile"))
    took = arena.run([work] * 4, weakness=on_vfs("unix-dotfile"))
    assert sorted(handle for handles in took for handle in handles) == sorted(f"TASK-{n}@1" for n in range(1, 101))
    arena.assert_sound(path)


# --- after a fork -----------------------------------------------------------------------------------------------------


def test_what_a_forked_child_commits_stays_when_the_parent_closes(board_url: str) -> None:
    """Guard: no idle connection of SQLite's goes through a fork.

    Its library in the child would take the parent's locks for its own: the parent, closing, would see nobody else, and
    remove the log that the child writes to.
    """
    parted = arena.FORK.Event()

    def parent(go: Go) -> None:
        with coordinate.connect(board_url, agent="parent") as c:
            c.dispatch(title="Parent's", role="worker")
            said = arena.FORK.Event()

            def child() -> None:
                c.dispatch(title="Child's first", role="worker")
                said.set()
                assert parted.wait(10)
                c.dispatch(title="Child's second", role="worker")

            forked = arena.FORK.Process(target=child)
            forked._config["daemon"] = False  # type: ignore[attr-defined]
            forked.start()
            assert said.wait(10)
        parted.set()
        forked.join(20)
        assert forked.exitcode == 0

    arena.run([parent])
    time.sleep(0)
    titles = [title for (title,) in arena.rows(board_url, "SELECT title FROM tasks ORDER BY number")]
    assert titles == ["Parent's", "Child's first", "Child's second"]
