"""Writers of one file go in the order in which they came; threads are done in groups; whoever dies stops nobody."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

if sys.platform == "linux":
    import fcntl

import coordinate
from coordinate import errors
from coordinate.db.dialect import SQLite
from coordinate.db.engine import Database, Tx, _Threads
from coordinate.db.gate import _TURNSTILE, Gate, _lock
from coordinate.db.group import Call, Line, _Waiting
from tests.races import arena
from tests.races.arena import KILLED, Go, Noticed, Weakness
from tests.races.test_claims import HOLDING, assert_each_done_once, play_comeback, worker

pytestmark = pytest.mark.race
on_linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there are no such locks, and no queue")


# --- the queue of processes -------------------------------------------------------------------------------------------


def queue_file(url: str) -> Path:
    return Path(url + "-gate")


def made(url: str) -> Gate:
    gate = Gate(Path(url))
    assert gate.enter(make=True)
    return gate


@pytest.fixture
def nobody_loses_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine somebody may stand for long at the head of the queue, and is not passed over then."""
    monkeypatch.setattr("coordinate.db.gate.STILL_SECONDS", 60.0)


def play_order(url: str, weakness: Weakness | None = None) -> None:
    """Five come one after the other while a sixth writes; then they are let in."""
    coming, served = arena.FORK.Value("i", 0), arena.FORK.SimpleQueue()

    def writer(number: int) -> Callable[[Go], None]:
        def live(go: Go) -> None:
            find = SQLite._begin_write

            def begin(self: SQLite, connection: sqlite3.Connection, patience: float) -> None:
                entered = self.gate.enter()
                with coming.get_lock():
                    coming.value += 1
                find(self, connection, patience)
                served.put(number)
                assert entered or weakness is not None

            with coordinate.connect(url, agent=f"a{number}") as c:
                SQLite._begin_write = begin  # type: ignore[method-assign]
                go()
                while coming.value < number:
                    time.sleep(0.001)
                c.emit(event_type="came", message=str(number))

        return live

    def holder(go: Go) -> None:
        gate = made(url)
        with closing(sqlite3.connect(url, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            go()
            while coming.value < 5:
                time.sleep(0.001)
            time.sleep(0.05)
            connection.execute("COMMIT")
        gate.leave()

    arena.run([*(writer(number) for number in range(5)), holder], weakness=weakness)
    assert [served.get() for _ in range(5)] == [0, 1, 2, 3, 4]


@on_linux
@pytest.mark.usefixtures("nobody_loses_patience")
def test_writers_are_served_in_the_order_in_which_they_came(sqlite_board: str) -> None:
    """SQ-21. Guard: the queue beside the board."""
    for _ in range(5):
        play_order(sqlite_board)


@on_linux
@pytest.mark.usefixtures("nobody_loses_patience")
@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_writers_without_the_queue_are_noticed(noticed: Noticed) -> None:
    def no_queue() -> None:
        Gate.enter = lambda self, *, make=False: False  # type: ignore[method-assign]

    noticed(lambda url: play_order(url, no_queue))


@on_linux
@pytest.mark.parametrize(("seconds", "numbers"), [(60.0, 1), (0.0, 3)])
def test_who_comes_back_within_its_turn_writes_again_and_after_it_takes_a_new_number(
    sqlite_board: str, seconds: float, numbers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinate.db.gate.TURN_SECONDS", seconds)
    made(sqlite_board).close()
    with coordinate.connect(sqlite_board, agent="a") as c:
        for _ in range(3):
            c.emit(event_type="came")
    assert int.from_bytes(queue_file(sqlite_board).read_bytes(), "little") == 1 + numbers


@pytest.mark.usefixtures("nobody_loses_patience")
@pytest.mark.parametrize("gate", ["on", "off"])
def test_30_processes_finish_600_tasks_with_the_gate_and_without(
    gate: str, sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATE_GATE", gate)
    with arena.setting_up(sqlite_board) as c:
        arena.dispatch_many(c, 600)

    def holder(go: Go) -> None:
        """The first of the queue, until all the others stand in it."""
        held = made(sqlite_board)
        go()
        while int.from_bytes(queue_file(sqlite_board).read_bytes(), "little") < 31:
            time.sleep(0.01)
        held.close()

    workers = [worker(sqlite_board, number) for number in range(30)]
    tallies = arena.run([*workers, holder] if gate == "on" else workers)[:30]
    assert_each_done_once(sqlite_board, 600, tallies)
    assert queue_file(sqlite_board).exists() == (gate == "on")
    if gate == "on":
        shares = [len(tally.held) for tally in tallies]
        assert min(shares) > 600 / 30 / 3, f"one had {min(shares)} of {sum(shares)}"


@pytest.mark.parametrize("die", HOLDING)
def test_a_killed_holders_task_comes_back_without_the_gate_too(
    sqlite_board: str, die: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATE_GATE", "off")
    play_comeback(sqlite_board, die)


@on_linux
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
@pytest.mark.parametrize("where", ["writing", "waiting"])
def test_one_that_dies_or_stops_at_the_gate_stops_nobody(sqlite_board: str, where: str, end: signal.Signals) -> None:
    """The kernel frees the bytes of the dead; behind a stopped one that waits, others try the database's lock.

    One that is stopped while it writes has the database's own lock, as without any gate: it goes on at last.
    """
    made(sqlite_board).close()
    there = arena.FORK.Event()
    left, victims_pid = arena.FORK.Value("i", 4), arena.FORK.Value("i", 0)

    def victim(go: Go) -> None:
        victims_pid.value = os.getpid()
        gate = Gate(Path(sqlite_board))
        assert gate.enter()
        with closing(sqlite3.connect(sqlite_board, isolation_level=None)) as connection:
            if where == "writing":
                connection.execute("BEGIN IMMEDIATE")
            there.set()
            go()
            os.kill(os.getpid(), end)
        gate.close()

    def other(go: Go) -> None:
        with coordinate.connect(sqlite_board, agent="other") as c:
            assert there.wait(30)
            go()
            for _ in range(3):
                c.emit(event_type="came")
            with left.get_lock():
                left.value -= 1

    def rescuer(go: Go) -> None:
        go()
        if end == signal.SIGSTOP:
            while left.value and where == "waiting":
                time.sleep(0.01)
            time.sleep(0.2)
            os.kill(victims_pid.value, signal.SIGCONT)

    answers = arena.run([victim, *[other] * 4, rescuer])
    assert answers[0] == (KILLED if end == signal.SIGKILL else None)
    assert arena.rows(sqlite_board, "SELECT count(*) FROM events WHERE event_type = 'came'") == [(12,)]


@on_linux
def test_the_queue_is_made_when_two_meet_with_the_rights_of_the_board(sqlite_board: str) -> None:
    """Nobody who writes alone finds a further file; who may write the board may stand in its queue."""
    os.chmod(sqlite_board, 0o660)
    with coordinate.connect(sqlite_board, agent="a") as c, closing(sqlite3.connect(sqlite_board)) as other:
        c.emit(event_type="alone")
        assert not queue_file(sqlite_board).exists()
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        waiting = threading.Thread(target=lambda: c.emit(event_type="meets"))
        waiting.start()
        while not queue_file(sqlite_board).exists():
            time.sleep(0.001)
        other.execute("COMMIT")
        waiting.join()
    assert stat.S_IMODE(queue_file(sqlite_board).stat().st_mode) == 0o660
    assert queue_file(sqlite_board).stat().st_size == 8


@on_linux
def test_the_queue_may_be_taken_away_at_any_time(sqlite_board: str) -> None:
    first = made(sqlite_board)
    first.leave()
    queue_file(sqlite_board).unlink()
    assert not first.enter()
    second = made(sqlite_board)
    assert first.enter()
    assert not first.wait(0.01), "both stand in the new one"
    second.leave()
    assert first.wait(10)
    first.close()
    second.close()


@on_linux
@pytest.mark.parametrize("what", ["link", "folder", "file"])
def test_what_is_not_ours_is_not_touched(sqlite_board: str, tmp_path: Path, what: str) -> None:
    """A link would let another user choose which of our files is written."""
    precious = tmp_path / "precious"
    precious.write_text("precious text")
    match what:
        case "link":
            queue_file(sqlite_board).symlink_to(precious)
        case "folder":
            queue_file(sqlite_board).mkdir()
        case "file":
            queue_file(sqlite_board).write_text("precious text")
    gate = Gate(Path(sqlite_board))
    assert not gate.enter(make=True)
    assert gate.wait(0), "without a queue it is always one's turn"
    assert precious.read_text() == "precious text"
    with coordinate.connect(sqlite_board, agent="a") as c:
        assert c.dispatch(title="t", role="worker").task.id == "TASK-1"


@on_linux
def test_a_forked_child_holds_no_place_of_its_parents(sqlite_board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forked while its parent is at work for too long to wait for, and lives on; the parent dies at the gate."""
    monkeypatch.setattr("coordinate.db.engine.FORK_PATIENCE_SECONDS", 0.1)
    over = arena.FORK.Event()

    def parent(go: Go) -> None:
        with coordinate.connect(sqlite_board, agent="parent") as c:
            c.emit(event_type="came")
            engine = c.database.engine
            assert isinstance(engine, SQLite) and engine.gate.enter(make=True)
            c.database._at_work.inside.add(0)
            if os.fork() == 0:
                over.wait(60)
                os._exit(0)
            go()
            arena.kill_myself()

    def other(go: Go) -> None:
        go()
        gate = Gate(Path(sqlite_board))
        assert gate.enter()
        until = time.monotonic() + arena.PATIENCE_SECONDS
        while not gate.wait(0.1):
            assert time.monotonic() < until, "the child still holds its parent's place"
        gate.close()
        over.set()

    arena.run([parent, other])


@on_linux
def test_a_board_that_is_closed_under_its_writer_harms_no_other_file(
    sqlite_board: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The queue's file has a number, which the next file that is opened takes. Guard: it is closed by the last."""
    asks, lock = threading.Event(), _lock
    monkeypatch.setattr("coordinate.db.gate._lock", lambda *given, **more: asks.set() or lock(*given, **more))
    other = made(sqlite_board)
    other.leave()
    victims = [tmp_path / f"victim-{number}" for number in range(3)]
    said: list[Any] = []
    assert other._file is not None
    for _ in range(4):
        for victim in victims:
            victim.write_bytes(b"precious text")
        c = coordinate.connect(sqlite_board, agent="a")
        assert _lock(other._file, _TURNSTILE, fcntl.F_WRLCK)
        writer = threading.Thread(target=lambda: said.append(c.emit(event_type="came")))  # noqa: B023
        asks.clear()
        writer.start()
        assert asks.wait(30), "it asks for a number"
        c.close()
        opened = [os.open(victim, os.O_RDWR) for victim in victims]
        _lock(other._file, _TURNSTILE, fcntl.F_UNLCK)
        writer.join()
        for file in opened:
            os.close(file)
        assert [victim.read_bytes() for victim in victims] == [b"precious text"] * 3
        engine = c.database.engine
        assert isinstance(engine, SQLite) and engine.gate._file is None
    other.close()
    assert len(said) == 4


# --- groups of threads ------------------------------------------------------------------------------------------------


def together(c: coordinate.Coordinator, calls: list[Callable[[], Any]]) -> list[Any]:
    """Let threads call at once while another connection holds the lock, so that they are done in one group."""
    answers: list[Any] = [None] * len(calls)

    def perform(number: int) -> None:
        try:
            answers[number] = calls[number]()
        except Exception as error:
            answers[number] = error

    line = c.database._line
    assert line is not None
    with closing(sqlite3.connect(c.database.engine.describe(), isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = []
        for number in range(len(calls)):
            threads.append(threading.Thread(target=perform, args=[number]))
            threads[-1].start()
            while len(line._waiting) <= number:
                time.sleep(0.001)
        other.execute("COMMIT")
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    return answers


def test_whoever_a_signal_kept_from_leaving_blocks_nobody_for_long() -> None:
    """Guards: places are known by their threads, and a leader that does not lead is passed over."""
    places, met = _Threads(threading.Lock(), most=1), []
    assert places.enter(0)
    assert places.enter(0), "our own, whom nobody let go"
    for _ in range(2):
        other = threading.Thread(target=lambda: met.append(places.enter(0)))
        other.start()
        other.join()
        places.leave()
    assert met == [False, True]

    def transact(take: Callable[[], Sequence[Call]]) -> None:
        for call in take():
            call.answer = call.work(None)

    line = Line(0.05)
    for thread in (threading.get_ident(), 0):
        gone = _Waiting(lambda tx: "never")
        gone.thread = thread
        line._waiting.append(gone)
        line._calls[thread] = line._leader = gone
        if thread == 0:
            with pytest.raises(errors.Busy):
                line.perform(lambda tx: "too early", transact)
        assert line.perform(lambda tx: "done", transact).answer == "done"


def test_what_is_committed_is_done_once_whatever_is_raised_after_it(
    sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal comes as the leader gives its connection back. Guard: what is over is said with the commit."""
    give_back = Database._give_back

    def interrupted(self: Database, *given: Any, **more: Any) -> None:
        monkeypatch.undo()
        give_back(self, *given, **more)
        raise KeyboardInterrupt

    with coordinate.connect(sqlite_board, agent="a") as c:
        c.stats()

        def leads() -> str:
            monkeypatch.setattr(Database, "_give_back", interrupted)
            with pytest.raises(KeyboardInterrupt):
                c.dispatch(title="leads", role="worker")
            return "TASK-1"

        follow = [lambda: c.dispatch(title="follows", role="worker").task.id] * 2
        assert together(c, [leads, *follow]) == ["TASK-1", "TASK-2", "TASK-3"]
        assert len(c.list_tasks().tasks) == 3


@pytest.mark.parametrize("lost", ["out of the queue", "nobody leads", "its leader is gone"])
def test_whoever_a_signal_left_alone_does_not_wait_for_ever(lost: str) -> None:
    """A leader is stopped between two steps. Guard: who waits looks each second where it stands."""

    def transact(take: Callable[[], Sequence[Call]]) -> None:
        for call in take():
            call.answer = call.work(None)

    line, told = Line(20), list[Any]()
    line._leader = leader = _Waiting(lambda tx: "leads")
    leader.leads = True

    def wait() -> None:
        try:
            told.append(line.perform(lambda tx: "done", transact).answer)
        except errors.OutcomeUnknown as unknown:
            told.append(type(unknown))

    waiter = threading.Thread(target=wait)
    waiter.start()
    while not line._waiting:
        time.sleep(0.001)
    with line._lock:
        line._leader = None
        if lost != "nobody leads":
            call = line._waiting.popleft()
        if lost == "its leader is gone":
            call.leader, leader.gone = leader, True
    waiter.join(15)
    assert told == [errors.OutcomeUnknown if lost == "its leader is gone" else "done"]


def test_whoever_is_not_told_that_it_is_done_sees_it_soon() -> None:
    """A signal ends the leader between the commit and the news of it. Guard: who waits looks each second."""
    line, taken, told = Line(20), threading.Event(), list[Any]()

    class Untold:
        def __init__(self, turn: Any) -> None:
            self.acquire = turn.acquire

        def release(self) -> None:
            raise KeyboardInterrupt

    def transact(take: Callable[[], Sequence[Call]]) -> None:
        taken.set()
        while len(line._waiting) < 2:
            time.sleep(0.001)
        line._waiting[1].turn = Untold(line._waiting[1].turn)
        for call in take():
            call.answer = call.work(None)

    def lead() -> None:
        with pytest.raises(KeyboardInterrupt):
            line.perform(lambda tx: "lead", transact)

    def wait() -> None:
        started = time.monotonic()
        told.append(line.perform(lambda tx: "done", transact).answer)
        told.append(time.monotonic() - started)

    threads = [threading.Thread(target=lead), threading.Thread(target=wait)]
    threads[0].start()
    assert taken.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert told[0] == "done"
    assert told[1] < 15


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many transactions were committed, in its length."""
    made: list[int] = []
    commit = SQLite.commit

    def counted(self: SQLite, connection: sqlite3.Connection) -> None:
        commit(self, connection)
        made.append(1)

    monkeypatch.setattr(SQLite, "commit", counted)
    return made


def test_threads_that_wait_together_are_committed_together_and_a_refusal_undoes_its_own_alone(
    sqlite_board: str, commits: list[int]
) -> None:
    with coordinate.connect(sqlite_board, agent="a") as c:
        c.dispatch(title="First", role="worker")
        claim = c.claim_next(role="worker")
        assert claim
        commits.clear()
        calls = [lambda: c.dispatch(title="t", role="later").task.id for _ in range(5)]
        refused = [lambda: c.complete(handle="TASK-1@9"), lambda: c.cancel(task="TASK-77", reason="none")]
        answers = together(c, [*calls[:3], *refused, *calls[3:], lambda: c.complete(handle=claim).task.status])
    assert answers[:3] + answers[5:] == ["TASK-2", "TASK-3", "TASK-4", "TASK-5", "TASK-6", "DONE"]
    assert [type(answer) for answer in answers[3:5]] == [errors.StaleClaim, errors.NotFound]
    assert len(commits) == 1
    arena.assert_sound(sqlite_board)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing lists the open files of a process")
def test_a_group_keeps_what_its_savepoints_need_in_memory_and_a_read_what_it_sorts_in_a_file(
    sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, files = SQLite.commit, set[str]()

    def looked_at(self: SQLite, connection: sqlite3.Connection) -> None:
        files.update(each.readlink().name for each in Path("/proc/self/fd").iterdir() if each.is_symlink())
        commit(self, connection)

    with coordinate.connect(sqlite_board, agent="a") as c:
        arena.dispatch_many(c, 300)
        monkeypatch.setattr(SQLite, "commit", looked_at)
        together(c, [lambda: c.claim_next(role="worker") for _ in range(8)])
        assert Path(sqlite_board).name in files
        assert not [name for name in files if name.startswith("etilqs")]
        c.status()
        connection, _ = c.database._idle[-1]
        assert connection.execute("PRAGMA temp_store").fetchone() == (0,)


def test_a_fault_in_a_group_is_met_by_its_own_call_alone(sqlite_board: str) -> None:
    def faulty(tx: Tx) -> None:
        tx.run("history_insert", task_id="TASK-404", agent="a", action="CLAIM", attempt=1, detail="")

    def broken(tx: Tx) -> None:
        raise ZeroDivisionError

    with coordinate.connect(sqlite_board, agent="a") as c:
        writes = [lambda: c.dispatch(title="t", role="worker").task.id for _ in range(4)]
        faults = [
            lambda: c.database.perform(faulty, writes=True),
            lambda: c.database.perform(broken, writes=True),
        ]
        answers = together(c, [*writes[:2], *faults, *writes[2:]])
    assert sorted(answers[:2] + answers[4:]) == ["TASK-1", "TASK-2", "TASK-3", "TASK-4"]
    assert isinstance(answers[2], sqlite3.IntegrityError)
    assert isinstance(answers[3], ZeroDivisionError)
    arena.assert_sound(sqlite_board)
    assert arena.rows(sqlite_board, "SELECT count(*) FROM history") == [(4,)]


def test_nobody_is_answered_before_the_commit_and_one_that_fails_is_told_to_all(
    sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: SQLite, connection: sqlite3.Connection) -> None:
        connection.execute("ROLLBACK")
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    with coordinate.connect(sqlite_board, agent="a") as c:
        with monkeypatch.context() as patched:
            patched.setattr(SQLite, "commit", full)
            answers = together(c, [lambda: c.dispatch(title="t", role="worker") for _ in range(4)])
        assert [type(answer) for answer in answers] == [errors.Unreachable] * 4
        assert arena.rows(sqlite_board, "SELECT count(*) FROM tasks") == [(0,)]
        assert c.dispatch(title="t", role="worker").task.id == "TASK-1"


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_of_the_leader_neither_loses_nor_doubles_what_others_do(
    sqlite_board: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the commit nothing of the group stays and the others are done again; after it all stays."""
    commit = SQLite.commit
    hit = threading.Event()

    def interrupted(self: SQLite, connection: sqlite3.Connection) -> None:
        if when == "after":
            commit(self, connection)
        if not hit.is_set():
            hit.set()
            raise KeyboardInterrupt
        if when == "before":
            commit(self, connection)

    caught: list[BaseException] = []

    def leads() -> None:
        try:
            c.dispatch(title="leader", role="worker")
        except KeyboardInterrupt as error:
            caught.append(error)

    with coordinate.connect(sqlite_board, agent="a") as c, monkeypatch.context() as patched:
        patched.setattr(SQLite, "commit", interrupted)
        answers = together(c, [leads, *[lambda: c.dispatch(title="t", role="worker").task.id for _ in range(3)]])
    assert len(caught) == 1
    kept = 4 if when == "after" else 3
    assert sorted(answers[1:]) == [f"TASK-{number}" for number in range(kept - 2, kept + 1)]
    assert arena.rows(sqlite_board, "SELECT count(*) FROM tasks") == [(kept,)]
    arena.assert_sound(sqlite_board)


def test_who_stands_in_line_too_long_is_told_so_and_nothing_of_it_is_done(
    sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.3")
    go_on = threading.Event()
    with coordinate.connect(sqlite_board, agent="a") as c:
        begun = threading.Event()
        slow = threading.Thread(
            target=lambda: c.database.perform(lambda tx: begun.set() or go_on.wait(30), writes=True)  # type: ignore[func-returns-value]
        )
        slow.start()
        assert begun.wait(30)
        with pytest.raises(errors.Busy, match="other calls of this process"):
            c.dispatch(title="t", role="worker")
        go_on.set()
        slow.join()
        assert c.dispatch(title="t", role="worker").task.id == "TASK-1"


def play_threads(path: str) -> None:
    claims: list[str] = []

    def work(c: coordinate.Coordinator, number: int) -> None:
        while claim := c.claim_next(role="worker", agent=f"t{number}"):
            claims.append(claim.handle)
            c.complete(handle=claim, agent=f"t{number}")

    def live(go: Go) -> list[str]:
        with coordinate.connect(path, agent="a") as c:
            go()
            threads = [threading.Thread(target=work, args=[c, number]) for number in range(16)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return claims

    with arena.setting_up(path) as c:
        arena.dispatch_many(c, 400)
    handles = [handle for each in arena.run([live, live]) for handle in each]
    assert len(handles) == len(set(handles)) == 400
    arena.assert_sound(path)


@pytest.mark.parametrize("gate", ["on", "off"])
def test_two_processes_of_16_threads_finish_each_task_once(
    gate: str, sqlite_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATE_GATE", gate)
    play_threads(sqlite_board)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_group_without_savepoints_is_noticed(noticed: Noticed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guard: each call's own savepoint. A refused one would leave what it had changed before it was refused."""

    def unguarded(self: Database, connection: Any, calls: Any, *, writes: bool) -> None:
        for call in calls:
            call.run(Tx(self, connection, writes=writes))

    monkeypatch.setattr(Database, "_run", unguarded)

    def play(url: str) -> None:
        def half(tx: Tx) -> None:
            tx.run("history_insert", task_id="TASK-1", agent="a", action="CLAIM", attempt=7, detail="")
            raise errors.NotReady("refused after a change")

        with coordinate.connect(url, agent="a") as c:
            c.dispatch(title="First", role="worker")
            together(c, [lambda: c.database.perform(half, writes=True), lambda: c.dispatch(title="t", role="worker")])
        arena.assert_sound(url)

    noticed(play)
