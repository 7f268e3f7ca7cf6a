"""Many open a board that is not there yet, or lies on storage that cannot carry WAL, or was open before a fork."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import coordinate
from coordinate import errors
from coordinate.db import dialect, env, forks, migrate, schema
from coordinate.db.engine import Database
from tests.races import arena
from tests.races.arena import Go, Weakness

pytestmark = pytest.mark.race

IMPORTED_BEFORE_FORKING = (env, migrate, schema)


def first_dispatches(paths: Sequence[str], number: int) -> Callable[[Go], list[str]]:
    def live(go: Go) -> list[str]:
        ids = []
        for path in paths:
            go()
            with coordinate.connect(path, agent=f"agent-{number}", create=True) as c:
                ids.append(c.dispatch(title="First", role="worker").task.id)
        return ids

    return live


def play_first(*paths: str, processes: int = 16, weakness: Weakness | None = None) -> None:
    """All of them make one board after the other, each at one moment."""
    bodies = [first_dispatches(paths, number) for number in range(processes)]
    for path, *ids in zip(paths, *arena.run(bodies, weakness=weakness, seconds=180 + 20 * len(paths)), strict=True):
        assert sorted(ids, key=lambda task: int(task[5:])) == [f"TASK-{number + 1}" for number in range(processes)]
        assert len(arena.rows(path, "SELECT version_num FROM coordinate_version")) == 1
        assert arena.rows(path, "PRAGMA journal_mode") == [("wal",)]
        assert arena.rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_16_processes_make_one_board_of_a_path_where_nothing_was(tmp_path: Path) -> None:
    """SQ-03, 30 rounds. Guards: one immediate transaction from reading the version on; a patient switch to WAL."""
    play_first(*(str(tmp_path / f"board-{number}.db") for number in range(30)))


def test_an_upgrade_that_begins_late_is_noticed(tmp_path: Path) -> None:
    both_have_looked = arena.FORK.Barrier(2, timeout=10)

    def begin_deferred() -> None:
        begun: list[int] = []

        def begin(self: dialect.SQLite, connection: Any, *, writes: bool, **_: Any) -> None:
            connection.execute("BEGIN")
            if writes and not begun:
                begun.append(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])
                both_have_looked.wait()

        dialect.SQLite.begin = begin  # type: ignore[method-assign]

    with pytest.raises(arena.Crash, match="Busy"):
        play_first(str(tmp_path / "board.db"), processes=2, weakness=begin_deferred)


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


def play_on(path: str, vfs: str, weakness: Weakness = lambda: None) -> None:
    """4 processes share 100 tasks on a board that lies on such storage."""

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

    arena.run([make], weakness=on_vfs(vfs))
    took = arena.run([work] * 4, weakness=arena.together(on_vfs(vfs), weakness))
    assert sorted(handle for handles in took for handle in handles) == sorted(f"TASK-{n}@1" for n in range(1, 101))
    arena.assert_sound(path)


def test_claims_are_exclusive_between_4_processes_without_wal(tmp_path: Path) -> None:
    """SQ-05. Guard: the lock of the file, held over each whole write transaction."""
    play_on(str(tmp_path / "board.db"), "unix-dotfile")


def test_storage_that_locks_nothing_is_noticed(tmp_path: Path) -> None:
    with pytest.raises((AssertionError, sqlite3.DatabaseError)):
        play_on(str(tmp_path / "board.db"), "unix-none", arena.meeting_before("claim_at_once", parties=4))


def test_a_commit_without_wal_waits_for_a_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer does not wait in SQLite for its turn; what it has written, it writes out when the readers are gone."""
    monkeypatch.setattr(dialect, "file_system_of", lambda _folder: "nfs")
    path = tmp_path / "board.db"
    with coordinate.connect(path, agent="alice", create=True) as c:
        c.dispatch(title="One", role="worker")
        reader = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM tasks").fetchone()
        over = threading.Timer(0.5, reader.close)
        over.start()
        assert c.dispatch(title="Two", role="worker").task.id == "TASK-2"
        assert not over.is_alive()


def test_who_cannot_get_at_the_log_for_all_the_others_is_told_to_try_again(tmp_path: Path) -> None:
    """SQLite gives up after ten seconds in which others had every one of its marks; here in no time."""
    error = sqlite3.OperationalError("locking protocol")
    error.sqlite_errorcode = sqlite3.SQLITE_PROTOCOL
    told = dialect.SQLite(str(tmp_path / "board.db")).explain(error, committing=False)
    assert told is not None
    assert (type(told.error), told.again) == (errors.Busy, True)


def test_a_look_after_a_write_is_as_patient_as_the_board(tmp_path: Path) -> None:
    with coordinate.connect(tmp_path / "board.db", agent="alice", create=True) as c:
        c.dispatch(title="One", role="worker")
        patience, _ = c.database.perform(
            lambda tx: tx._connection.execute("PRAGMA busy_timeout").fetchone()[0], writes=False
        )
        assert patience == 30_000


# --- another file in the same place -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["made anew", "put there"])
def test_whoever_has_the_board_open_goes_on_with_the_file_that_came_in_its_place(
    sqlite_board: str, tmp_path: Path, how: str
) -> None:
    """Two truths: SQLite goes on with a file that nobody can reach. Guard: each transaction looks whose place it is."""
    with coordinate.connect(sqlite_board, agent="a") as c:
        c.dispatch(title="old", role="worker")
        for path in Path(sqlite_board).parent.glob(f"{Path(sqlite_board).name}*"):
            path.unlink()
        for act in (c.stats, lambda: c.dispatch(title="nowhere", role="worker")):
            with pytest.raises(errors.NoBoard):
                act()
        new = sqlite_board if how == "made anew" else str(tmp_path / "another.db")
        with coordinate.connect(new, agent="b", create=True) as other:
            other.dispatch(title="new", role="worker")
        if how == "put there":
            Path(new).rename(sqlite_board)
        claim = c.claim_next(role="worker")
        assert claim is not None
        assert claim.task.title == "new"
        c.complete(handle=claim)
    assert arena.rows(sqlite_board, "SELECT title, status FROM tasks") == [("new", "DONE")]


# --- after a fork -----------------------------------------------------------------------------------------------------


def play_fork(board_url: str, weakness: Weakness | None = None) -> None:
    parted, written = arena.FORK.Event(), arena.FORK.Event()

    def parent(go: Go) -> int:
        with coordinate.connect(board_url, agent="parent") as c:
            c.dispatch(title="Parent's", role="worker")
            if (child := os.fork()) == 0:
                try:
                    c.dispatch(title="Child's first", role="worker")
                    written.set()
                    assert parted.wait(arena.PATIENCE_SECONDS)
                    c.dispatch(title="Child's second", role="worker")
                    os._exit(0)
                finally:
                    os._exit(1)
            assert written.wait(arena.PATIENCE_SECONDS)
        parted.set()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert arena.run([parent], weakness=weakness) == [0]
    titles = [title for (title,) in arena.rows(board_url, "SELECT title FROM tasks ORDER BY number")]
    assert titles == ["Parent's", "Child's first", "Child's second"]


def test_a_forked_child_commits_for_good_also_when_the_parent_closes(board_url: str) -> None:
    """Guard: no connection goes through a fork."""
    play_fork(board_url)


def test_a_connection_that_goes_through_a_fork_is_noticed(sqlite_board: str) -> None:
    """SQLite's library in the child takes the parent's locks for its own, and the parent removes the child's log."""

    def keep() -> None:
        after, kept = Database.after_fork, []

        def after_fork(self: Database, *, child: bool) -> None:
            if child:
                kept.append(self._idle)
                self._idle = []
            after(self, child=child)

        Database.before_fork = lambda self: self._lock.acquire() and None  # type: ignore[method-assign]
        Database.after_fork = after_fork  # type: ignore[method-assign]

    with pytest.raises(AssertionError):
        play_fork(sqlite_board, keep)


def test_a_signal_at_a_fork_leaves_nothing_locked(board_url: str) -> None:
    """A Ctrl-C while a process starts others. Guard: signals are put off while Python would drop what they raise."""

    class Rang(Exception):
        pass

    def parent(go: Go) -> None:
        me, rang, listens = os.getpid(), 0, False

        def ring(*_: object) -> None:
            nonlocal listens
            if listens and os.getpid() == me:
                listens = False
                raise Rang

        c = coordinate.connect(board_url, agent="parent")  # closing it would wait for what is locked
        signal.signal(signal.SIGUSR1, ring)
        if (bell := os.fork()) == 0:
            while os.getppid() == me:
                os.kill(me, signal.SIGUSR1)
                time.sleep(0.002)
            os._exit(0)
        while rang < 100:
            try:
                listens = True
                if (child := os.fork()) == 0:
                    os._exit(0)
                os.waitpid(child, 0)
                listens = False
            except Rang:
                rang += 1
            assert not forks._fork._turn.locked(), "for ever"
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.kill(bell, signal.SIGKILL)
        c.dispatch(title="T", role="r")

    arena.run([parent])


def play_a_signal_in_the_midst_of_a_fork(url: str, weakness: Weakness | None = None) -> list[str]:
    class Rang(Exception):
        pass

    class Bell:
        def before_fork(self) -> None:
            pass

        def after_fork(self, *, child: bool) -> None:
            if not child:
                os.kill(os.getpid(), signal.SIGUSR1)

    def parent(go: Go) -> str:
        me, bell = os.getpid(), Bell()

        def ring(*_: object) -> None:
            raise Rang

        signal.signal(signal.SIGUSR1, ring)
        forks.watch(bell)
        c = coordinate.connect(url, agent="parent")  # closing it would wait for what is locked
        try:
            if os.fork() == 0:
                os._exit(0)
        except Rang:
            if os.getpid() != me:
                os._exit(1)
            told = "it came"
        else:
            told = "it was lost"
        assert os.wait()[1] == 0, "it is the parent's alone"
        assert not forks._fork._turn.locked(), "for ever"
        c.stats()
        return told

    return arena.run([parent], weakness=weakness)


def test_a_signal_in_the_midst_of_a_fork_comes_when_it_is_over(board_url: str) -> None:
    """Guard: signals are put off while Python would drop what they raise."""
    assert play_a_signal_in_the_midst_of_a_fork(board_url) == ["it came"]


def test_signals_that_come_between_the_halves_of_a_fork_are_noticed(sqlite_board: str) -> None:
    def let_in() -> None:
        forks._Fork._put_signals_off = lambda self: None  # type: ignore[method-assign]

    with pytest.raises(arena.Crash, match="for ever"):
        play_a_signal_in_the_midst_of_a_fork(sqlite_board, let_in)


def play_a_board_that_comes_at_a_fork(url: str, weakness: Weakness | None = None) -> None:
    def parent(go: Go) -> int:
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.unraisablehook = lambda told: None
        came: list[Database] = []
        watchers = forks._fork.watchers.data  # type: ignore[attr-defined]

        class Gathered(weakref.ref[Database]):
            def __call__(self) -> Database | None:
                if not coming.is_alive() and not came:
                    count = len(watchers)
                    coming.start()
                    while len(watchers) == count:
                        time.sleep(0.001)
                    time.sleep(0.05)  # it would go on
                return super().__call__()

        coming = threading.Thread(target=lambda: came.append(Database(dialect.SQLite(url))))
        with coordinate.connect(url, agent="parent") as c:
            watchers.remove(weakref.ref(c.database))
            watchers.add(Gathered(c.database))
            assert c.database._idle
            if (child := os.fork()) == 0:
                os._exit(len(c.database._idle) + len(came))
            coming.join()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    assert arena.run([parent], weakness=weakness) == [0]


def test_a_fork_tells_all_also_when_others_come_meanwhile(sqlite_board: str) -> None:
    """Guard: all are gathered again, and who came opens nothing before the fork is over."""
    play_a_board_that_comes_at_a_fork(sqlite_board)


@pytest.mark.parametrize(
    ("guard", "instead"), [("_all", lambda self: list(self.watchers)), ("wait", lambda self: None)], ids=["all", "wait"]
)
def test_a_fork_that_does_not_mind_who_comes_is_noticed(sqlite_board: str, guard: str, instead: Any) -> None:
    with pytest.raises(AssertionError):
        play_a_board_that_comes_at_a_fork(sqlite_board, lambda: setattr(forks._Fork, guard, instead))


FIRST = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")
came = []
coming = threading.Thread(target=lambda: came.append(coordinate.connect(sys.argv[1])))
os.register_at_fork(before=lambda: [coming.start(), coming.join(float(sys.argv[2]))])  # it runs after what comes later
import coordinate
from coordinate.db import forks
exec(sys.argv[3])
if (child := os.fork()) == 0:
    os._exit(len(came))
coming.join()
came[0].stats()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def open_with_a_fork(url: str, seconds: float, weakness: str = "") -> int:
    """How many boards went through a fork, of the one that is the first of its process and comes in the midst of it."""
    return subprocess.run(
        [sys.executable, "-c", FIRST, url, str(seconds), weakness], timeout=60, check=False
    ).returncode


def test_also_the_first_board_of_a_process_waits_for_a_fork(sqlite_board: str) -> None:
    """Guard: a fork says that it is being made, whether anybody has to be told or not."""
    assert open_with_a_fork(sqlite_board, 0.5) == 0


def test_a_first_board_that_goes_through_a_fork_is_noticed(sqlite_board: str) -> None:
    assert open_with_a_fork(sqlite_board, 30, "forks._fork.wait = lambda: None") == 1


def test_what_another_thread_forks_meanwhile_loses_no_signal(sqlite_board: str) -> None:
    """Guard: who forks forgets no signal that waits for the fork of the main thread to be over."""
    fork = forks._Fork()
    fork._forked = True
    fork.watchers.add(idle := Database(dialect.SQLite(sqlite_board)))
    was = signal.getsignal(signal.SIGINT)
    try:
        fork.before()
        os.kill(os.getpid(), signal.SIGINT)
        other = threading.Thread(target=fork.before)
        other.start()
        other.join(0.2)
        assert fork.came == [signal.SIGINT]
    finally:
        fork.after(child=False)
    other.join()
    assert signal.getsignal(signal.SIGINT) is was
    del idle


def test_a_fork_waits_for_threads_at_work_and_harms_none(board_url: str) -> None:
    """Guard: a fork closes what is idle and waits for what is in use; nobody at work is cut off."""

    def parent(go: Go) -> list[int]:
        # Later Pythons warn of exactly this: a fork beside threads.
        warnings.simplefilter("ignore", DeprecationWarning)
        with coordinate.connect(board_url, agent="parent") as c:
            threads = [
                threading.Thread(target=lambda: [c.dispatch(title="T", role="r") for _ in range(40)]) for _ in "abc"
            ]
            for thread in threads:
                thread.start()
            ends = []
            for _ in range(5):
                if (child := os.fork()) == 0:
                    try:
                        c.dispatch(title="C", role="r")
                        os._exit(0)
                    finally:
                        os._exit(1)
                ends.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            for thread in threads:
                thread.join()
            return ends

    assert arena.run([parent]) == [[0] * 5]
    assert arena.rows(board_url, "SELECT title, count(*) FROM tasks GROUP BY title ORDER BY title") == [
        ("C", 5),
        ("T", 120),
    ]
    arena.assert_sound(board_url)
