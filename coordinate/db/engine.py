"""Transactions on either engine: begin, run statements by name, commit, try again where the database asks for it.

`Database` has a few connections and is safe for threads and after a fork. `Tx` is what a wing's function gets:
it runs compiled statements, gathers the events of the operation and never begins or ends anything itself. The events
are appended by the last statement before the commit, so that their order follows the row locks.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakValueDictionary

from coordinate import errors
from coordinate.db import fence, forks, knowledge
from coordinate.db.compiled import Statement
from coordinate.db.dialect import ROWS_AT_ONCE, Engine, Interrupted, with_rows
from coordinate.db.gate import rest
from coordinate.db.group import Call, Line

R = TypeVar("R")

# Of one process. More threads than these wait for one another: each new connection costs a server more than some calls.
CONNECTIONS_MAX = 8
RETRY_SECONDS = 30.0
# A place that never answered yet is more likely a wrong address than a restart.
FIRST_RETRY_SECONDS = 3.0
FORK_PATIENCE_SECONDS = 5.0
# A prime: where the last batch of many events is exactly full, each look goes through all of them until another comes.
NUMBERED_MAX = 9_973
# By what a transaction writes at its end, beside one event: the statement that does it all, where an engine has one.
_TOGETHER = {
    frozenset({"history_insert"}): "change_told",
    frozenset({"history_insert", "note_insert"}): "note_told",
    frozenset({"history_insert", "attempt_open"}): "claim_told",
    frozenset({"history_insert", "attempt_close"}): "leave_told",
}


class Row(Protocol):
    """One row of a result: its columns as attributes."""

    def __getattr__(self, name: str) -> Any: ...
    def _asdict(self) -> dict[str, Any]: ...


class _Row(tuple[Any, ...]):
    """A named tuple without the constructor of one, which takes eight times as long to define as all else."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))


def _row_of(names: Iterable[str]) -> type[_Row]:
    """The class of rows with these columns."""
    fields = tuple(names)
    columns = {name: property(itemgetter(index)) for index, name in enumerate(fields)}
    return type("Row", (_Row,), {"__slots__": (), "_fields": fields, **columns})


class _Prepared:
    """A statement made ready for one engine: text, binder, column names, decoders."""

    __slots__ = ("bind", "row", "sql")

    def __init__(self, engine: Engine, statement: Statement) -> None:
        self.sql, self.bind = engine.binder(statement)
        # Without a call of Python's for each row, as a constructor would be.
        make: Callable[[Iterable[Any]], Any] = partial(tuple.__new__, _row_of(statement.gives))
        decoders = engine.decoders(statement)

        def decoded(raw: Iterable[Any]) -> Row:
            values = list(raw)
            for index, decode in decoders:
                if values[index] is not None:
                    values[index] = decode(values[index])
            return cast("Row", make(values))

        self.row: Callable[[Iterable[Any]], Row] = decoded if decoders else make


class Tx:
    """One open transaction. Wing functions take it first and pass keyword arguments to statements by name."""

    def __init__(self, database: Database, connection: Any, *, writes: bool = False) -> None:
        self._database = database
        self._connection = connection
        self._run_on = database.engine.execute
        self._answered = database.engine.answered
        self._writes = writes
        self.events: list[dict[str, Any]] = []
        self._asks: list[Callable[[], None]] = []
        self._at_end: dict[str, list[dict[str, Any]]] = {}
        self._topics: set[str] = set()

    def one(self, name: str, /, **params: Any) -> Row | None:
        """The first row of a statement, or None."""
        statement = self._database.prepared(name)
        raw = self._answered(self._connection, self._execute(statement, params)).fetchone()
        return None if raw is None else statement.row(raw)

    def the(self, name: str, /, **params: Any) -> Row:
        """The row of a statement that always gives one."""
        row = self.one(name, **params)
        assert row is not None
        return row

    def now(self) -> datetime:
        """The database's time, by which everything ends."""
        moment: datetime = self.the("clock").now
        return moment

    def all(self, name: str, /, **params: Any) -> list[Row]:
        """All rows of a statement; every statement that can return many has a limit."""
        statement = self._database.prepared(name)
        return list(map(statement.row, self._answered(self._connection, self._execute(statement, params))))

    def send(self, name: str, /, **params: Any) -> Callable[[], list[Row]]:
        """Ask now, and wait for the answer later, with that of what was sent since: who calls what is returned."""
        statement = self._database.prepared(name)
        rows = self._database.engine.rows_later(self._connection, self._execute(statement, params))
        return lambda: list(map(statement.row, rows()))

    def ask(self, name: str, /, **params: Any) -> Callable[[], list[Row]]:
        """Ask at the end, together with all else that is sent then; who calls what is returned has all rows.

        That is for after the commit; called before, it asks at once.
        """
        asked: list[Callable[[], list[Row]]] = []

        def ask() -> None:
            if not asked:
                asked.append(self.send(name, **params))

        def rows() -> list[Row]:
            ask()
            return asked[0]()

        self._asks.append(ask)
        return rows

    def run(self, name: str, /, **params: Any) -> None:
        """Run for the effect. Where that saves a round trip, an error of it is met by a later statement."""
        self._execute(self._database.prepared(name), params)

    def count(self, name: str, /, **params: Any) -> int:
        """Run for the effect; the answer is the number of rows touched."""
        ran = self._execute(self._database.prepared(name), params)
        return self._database.engine.rows_touched(self._connection, ran)

    def run_many(self, name: str, rows: list[dict[str, Any]]) -> None:
        """The same statement for many rows; what it inserts goes in many at a time."""
        statement = self._database.prepared(name)
        each = map(statement.bind, rows)
        execute_many = self._database.engine.execute_many
        if len(rows) >= ROWS_AT_ONCE and (insert := with_rows(statement.sql, ROWS_AT_ONCE)):
            times = len(rows) // ROWS_AT_ONCE
            together = (list(chain.from_iterable(islice(each, ROWS_AT_ONCE))) for _ in range(times))
            execute_many(self._connection, insert, together)
        left = list(each)
        if len(left) == 1:
            self._run_on(self._connection, statement.sql, left[0])
        elif left:
            execute_many(self._connection, statement.sql, left)

    def at_end(self, name: str, /, **params: Any) -> None:
        """Write at the end, before the events, what nothing in this transaction reads again."""
        self._at_end.setdefault(name, []).append(params)

    def write_now(self, name: str, /) -> None:
        """Write what was to come at the end, for whoever reads it after all."""
        self.run_many(name, self._at_end.pop(name, []))

    def where_needed(self, name: str, /, **params: Any) -> list[Row]:
        """Run a statement that only one of the engines needs; nothing on the other."""
        return self.all(name, **params) if self._database.has(name) else []

    def ran(self, name: str, /, **params: Any) -> bool:
        """Run for the effect a statement that only one of the engines has; whether it was run."""
        found = self._database.has(name)
        if found:
            self.run(name, **params)
        return found

    def announce(self, topic: str) -> None:
        """Wake waiters of a topic when this commits."""
        self._topics.add(topic)

    def fenced(self) -> errors.CoordinateError | None:
        """`Moving` or `Moved`, where a change may not be made; what changes a row, the database stops by itself."""
        return fence.stops(self.one("move_state")) if self._writes else None

    def expects(self) -> None:
        """For whoever found nothing, and waits: raises `Moved` where nothing will come. One that moves may stay yet."""
        stopped = fence.stops(self.one("move_state"))
        if stopped is not None and not isinstance(stopped, errors.Moving):
            raise stopped

    def finish(self) -> None:
        """The last statements of the transaction: what was to come at the end, and the events after all else."""
        for ask in self._asks:
            ask()
        if not self._ended_together():
            for topic in sorted(self._topics):
                self.ran("announce", topic=topic)
            for name, each in self._at_end.items():
                self.run_many(name, each)
            self.run_many("event_append", self.events)

    def _ended_together(self) -> bool:
        """Whether one statement wrote all that was to come, and woke whom it concerns."""
        name = _TOGETHER.get(frozenset(self._at_end), "")
        if len(self.events) != 1 or len(self._topics) > 1 or not self._database.has(name):
            return False
        rows = [row for each in self._at_end.values() for row in each]
        if len(rows) > len(self._at_end):
            return False
        told = {name: value for row in (*rows, *self.events) for name, value in row.items()}
        self.run(name, topic=next(iter(self._topics), None), **told)
        return True

    def _execute(self, statement: _Prepared, params: dict[str, Any]) -> Any:
        return self._run_on(self._connection, statement.sql, statement.bind(params))


class _Threads:
    """The threads that are at something, at most so many at once, each for the time of a `with`.

    They are known by their numbers and not counted: what a signal handler raises between two steps may keep one
    from leaving, and then it is simply still there when it comes again. A stop lets no more begin.
    """

    def __init__(self, lock: threading.Lock, *, most: int | None = None) -> None:
        self.inside: set[int] = set()
        self._most = most
        self._lock = lock
        self._changed = threading.Condition(lock)
        self._stopped = False

    def __enter__(self) -> None:
        self.enter(None)

    def __exit__(self, *raised: object) -> None:
        self.leave()

    def enter(self, seconds: float | None) -> bool:
        """Come in; False when there was no room for so long."""
        me = threading.get_ident()
        with self._lock:  # not the condition, which a signal might meet between its lock and us
            if self._room(me) or self._changed.wait_for(lambda: self._room(me), seconds):
                self.inside.add(me)
                return True
        return False

    def leave(self) -> None:
        """Go; also for who is not there."""
        with self._lock:
            self.inside.discard(threading.get_ident())
            # Nobody waits for room where there was some.
            if self._stopped or (self._most is not None and len(self.inside) >= self._most - 1):
                self._changed.notify_all()

    def stop(self, seconds: float) -> None:
        """Let nobody begin, and wait so long for those who did; with the lock held, as the next one."""
        self._stopped = True
        self._changed.wait_for(lambda: not self.inside, seconds)

    def go_on(self) -> None:
        self._stopped = False
        self._changed.notify_all()

    def _room(self, me: int) -> bool:
        return not self._stopped and (self._most is None or me in self.inside or len(self.inside) < self._most)


class Database:
    """A board's database: transactions with retries over a handful of connections."""

    borrowed = False

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.warnings = engine.warnings
        self._prepared: dict[str, _Prepared] = {}
        self._idle: list[tuple[Any, object]] = []
        self._lock = threading.Lock()
        self._places = _Threads(threading.Lock(), most=CONNECTIONS_MAX)
        self._at_work = _Threads(self._lock)
        self._line = self._new_line()
        self._closed = False
        self._reached = False
        forks.watch(self)

    def _new_line(self) -> Line | None:
        patience = self.engine.line_patience
        return None if patience is None else Line(patience)

    def perform(
        self,
        work: Callable[[Tx], R],
        *,
        writes: bool,
        patience: float = RETRY_SECONDS,
        hurry: float = math.inf,
        at_once: tuple[type[errors.CoordinateError], ...] = (),
    ) -> tuple[R, list[dict[str, Any]]]:
        """Run `work` in one transaction; returns its answer and the events that were committed with it.

        What the database calls a serialization failure, a deadlock or a lost connection is tried again, with jitter,
        for up to `patience` seconds, for a lock no longer than the board's own, or `hurry` seconds for that of a file;
        a connection lost during a commit is not (`OutcomeUnknown`), nor an error that is to be told `at_once`. `work`
        may therefore run several times, but is committed at most once.
        """
        started = time.monotonic()
        pause = 0.005
        while True:
            try:
                with self._at_work:
                    if writes and self._line is not None:
                        call = self._line.perform(work, partial(self._transact, hurry=hurry), hurry)
                    else:
                        call = self._perform_alone(work, writes, hurry)
            except Interrupted as interrupted:
                self._reached = self._reached or interrupted.reached
                most = min(patience if self._reached else FIRST_RETRY_SECONDS, patience, interrupted.seconds_max)
                told = not interrupted.again or isinstance(interrupted.error, at_once)
                if told or time.monotonic() + pause > started + most:
                    raise interrupted.error from interrupted.__cause__
            else:
                return call.answer, call.events
            finally:
                if self._closed:
                    self._stop_waiting()
            rest(pause)
            pause = min(pause * 2, 1.0)

    def _perform_alone(self, work: Callable[[Tx], R], writes: bool, hurry: float) -> Call:
        call = Call(work)
        self._transact(lambda: [call], writes=writes, hurry=hurry)
        if call.error is not None:
            raise call.error
        return call

    def _transact(self, take: Callable[[], Sequence[Call]], *, writes: bool = True, hurry: float) -> None:
        """One transaction for the calls that `take` gives once it has begun; see `group.Line`."""
        connection, stamp = self._take()
        engine = self.engine
        calls: Sequence[Call] = ()
        committing = healthy = False
        try:
            engine.begin(connection, writes=writes, hurry=hurry)
            stamp = self._check_schema(connection, stamp)
            calls = take()
            self._run(connection, calls, writes=writes)
            committing = True
            engine.commit(connection)
            healthy = True
            for call in calls:  # whatever is raised from here on, such as by a signal handler
                call.over = True
        except engine.driver_error as error:
            explained = engine.explain(error, committing=committing and writes)
            if explained is None:
                raise
            healthy = not explained.lost
            explained.__cause__ = error
            if not committing:
                raise explained from error
            for call in calls:
                call.error = explained
        except errors.CoordinateError:
            healthy = True
            raise
        except BaseException:
            if committing and engine.usable(connection):  # interrupted after the commit was made
                for call in calls:
                    call.over = True
            raise
        finally:
            try:
                self._give_back(connection, stamp, healthy=healthy)
            finally:
                if writes:
                    engine.leave()

    def _run(self, connection: Any, calls: Sequence[Call], *, writes: bool) -> None:
        """The work of each, in a savepoint of its own where there are several; what is refused leaves nothing."""
        if len(calls) == 1:
            (call,) = calls
            if not call.run(Tx(self, connection, writes=writes)) and call.error is not None:
                raise call.error
            return
        for call in calls:
            self.engine.execute(connection, "SAVEPOINT call", {})
            if not call.run(Tx(self, connection, writes=writes)):
                self.engine.execute(connection, "ROLLBACK TO SAVEPOINT call", {})
            self.engine.execute(connection, "RELEASE SAVEPOINT call", {})

    def _check_schema(self, connection: Any, stamp: object) -> object:
        now = self.engine.schema_stamp(connection)
        if now != stamp:
            self._check_knowledge(connection)
        return now

    def _check_knowledge(self, connection: Any) -> None:
        tables, home = self.engine.look_around(connection)
        where = self.engine.describe() + (f" in schema {home}" if home else "")
        knowledge.check(Tx(self, connection), tables, where, self.warnings)

    def _take(self) -> tuple[Any, object]:
        if not self._places.enter(RETRY_SECONDS):
            raise errors.Busy(
                f"other calls of this process kept all its {CONNECTIONS_MAX} connections for {RETRY_SECONDS:g} s",
                hint="try again, with fewer calls at the same time",
            )
        try:
            with self._lock:
                if self._closed:
                    raise errors.Unreachable("the board was closed", hint="connect again")
                if self._idle:
                    return self._idle.pop()
            connection = self.engine.connect()
        except BaseException:
            self._places.leave()
            raise
        self._reached = True
        return connection, None

    def _give_back(self, connection: Any, stamp: object, *, healthy: bool) -> None:
        try:
            try:
                self.engine.rollback(connection)
                healthy = healthy and self.engine.usable(connection)
            except self.engine.driver_error:
                healthy = False
            with self._lock:
                if healthy and not self._closed:
                    self._idle.append((connection, stamp))
                    return
            with suppress(self.engine.driver_error):  # it may be lost already
                self.engine.close(connection)
        finally:
            self._places.leave()

    def prepared(self, name: str) -> _Prepared:
        found = self._prepared.get(name)
        if found is None:
            found = self._prepared[name] = _Prepared(self.engine, self.engine.library[name])
        return found

    def has(self, name: str) -> bool:
        """Whether this engine needs a statement of that name."""
        return name in self.engine.library

    def number_events(self, batch: int = NUMBERED_MAX) -> None:
        """Give positions to committed events, where readers do that; in a short transaction of its own."""
        if self.has("events_number"):
            # A standby's readers see what was numbered elsewhere, those of a fenced board what the move numbered.
            elsewhere = (errors.ReadOnly, errors.Moving, errors.Moved)
            # Where it broke at its end, what is numbered is read, and the next reader numbers the rest.
            with suppress(*elsewhere, errors.OutcomeUnknown):
                self.perform(lambda tx: tx.all("events_number", batch=batch), writes=True, at_once=elsewhere)

    def may_wait(self) -> None:
        """Raise `InvalidInput` where a wait would do harm."""

    def wait(self, seconds: float) -> None:
        """Return when the board may have changed, or after `seconds`."""
        try:
            with self._at_work:
                self.engine.wait(seconds)
        finally:
            if self._closed:
                self._stop_waiting()

    def close(self) -> None:
        """Close the idle connections; those in use close when they are given back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.engine.close(connection)
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        """Once nobody is at work: whoever stands in the queue would write its number into what is opened next."""
        with self._lock:
            if not self._at_work.inside:
                self.engine.stop_waiting()

    # No connection goes through a fork. On Postgres both processes would talk on one socket. On SQLite the library in
    # the child would take the parent's file locks for its own: the parent, closing, would see nobody else and remove
    # the log that the child goes on writing to, and with it what the child commits.

    def before_fork(self) -> None:
        """Wait for threads at work (up to 5 s), close what is idle, and hold the lock until the fork is over."""
        with self._lock:
            self._at_work.stop(FORK_PATIENCE_SECONDS)
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            self.engine.close(connection)
        self._lock.acquire()
        if not self._at_work.inside:
            self.engine.before_fork()

    def after_fork(self, *, child: bool) -> None:
        """Go on; in the child nobody is at work, since other threads do not go through a fork."""
        if child:
            self._at_work.inside.clear()
            self._places = _Threads(threading.Lock(), most=CONNECTIONS_MAX)
            self._line = self._new_line()
            self.engine.after_fork()
        self._at_work.go_on()
        self._lock.release()


# What takes turns at a caller's connection; by its number, since a driver's own may not be weakly referred to.
_turns: WeakValueDictionary[int, Any] = WeakValueDictionary()
_turns_lock = threading.Lock()


class Borrowed(Database):
    """The caller's own transaction: nothing is committed, rolled back or retried here.

    `join` sees to it that there is one before each change, and refuses what could not be right. Threads take turns,
    whichever of them called for it: a savepoint that is gone back to undoes what others did since.
    """

    borrowed = True

    def __init__(self, engine: Engine, connection: Any, join: Callable[[], None]) -> None:
        super().__init__(engine)
        self._connection = connection
        self._join = join
        self._checked = False
        with _turns_lock:
            self._turn = _turns.setdefault(id(connection), threading.RLock())

    def perform(self, work: Callable[[Tx], R], *, writes: bool, **_: Any) -> tuple[R, list[dict[str, Any]]]:
        with self._turn, self.engine.plain_rows(self._connection):
            return self._perform_within(work, writes=writes)

    def _perform_within(self, work: Callable[[Tx], R], *, writes: bool) -> tuple[R, list[dict[str, Any]]]:
        if not self._checked:
            self._check_knowledge(self._connection)
            self._checked = True
        tx = Tx(self, self._connection, writes=writes)
        if not writes:
            return work(tx), tx.events
        self._join()
        # A refused operation leaves nothing behind in a transaction that the caller may go on to commit.
        self._connection.execute("SAVEPOINT coordinate")
        try:
            answer = work(tx)
            if not tx.events and (stopped := tx.fenced()) is not None:
                raise stopped
            tx.finish()
        except BaseException as error:
            # A full disk or a lost connection has undone all of the transaction: then it is what the caller hears of.
            with suppress(self.engine.driver_error):
                self._connection.execute("ROLLBACK TO SAVEPOINT coordinate")
                self._connection.execute("RELEASE SAVEPOINT coordinate")
            fenced = fence.told(str(error)) if isinstance(error, self.engine.driver_error) else None
            if fenced is not None:
                raise fenced from error
            raise
        self._connection.execute("RELEASE SAVEPOINT coordinate")
        return answer, tx.events

    def number_events(self, batch: int = NUMBERED_MAX) -> None:
        """Not here: the numbering's lock would last as long as the caller's transaction."""

    def wait(self, seconds: float) -> None:
        self.may_wait()

    def may_wait(self) -> None:
        raise errors.InvalidInput(
            "waiting inside a transaction of your own would hold it open", hint="wait outside of it", field="wait"
        )
