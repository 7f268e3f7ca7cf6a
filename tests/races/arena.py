"""Races between real processes: fork them, let them go at one moment, gather what each says, judge by the database.

A process is forked while its parent has no connection open, and connects by itself. A *weakness* takes one guard out of
the package in the forked processes only, so that a test can show that the race fails without it: a race that cannot
fail proves nothing.
"""

from __future__ import annotations

import dataclasses
import multiprocessing
import os
import pickle
import random
import re
import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar, cast

import psycopg

import coordinate
from coordinate import errors
from coordinate.db.compiled import Library, Statement
from coordinate.db.dialect import SQLite
from coordinate.db.engine import Tx
from coordinate.plans import PlannedTask
from coordinate.service import Coordinator
from tests.postgres import nobody
from tests.tables import rows
from tests.tables import run as change

FORK = multiprocessing.get_context("fork")
KILLED = "killed"
R = TypeVar("R")
Go = Callable[[], None]
Weakness = Callable[[], None]
Play = Callable[[str], object]  # given the URL of a board
Noticed = Callable[[Play], None]  # the fixture of that name


# --- processes --------------------------------------------------------------------------------------------------------


# That nothing hangs for ever: far above what the slowest machine needs.
PATIENCE_SECONDS = 60.0


class Racer:
    """This process among those that race: which one it is, how it waits for all others, and what its end is told to."""

    number: int
    wait_for_all: Go
    at_the_end: list[Go]


def run(bodies: Sequence[Callable[[Go], Any]], *, weakness: Weakness | None = None, seconds: float = 180) -> list[Any]:
    """Fork a process for each body; return what each returned, or KILLED for those that ended by SIGKILL.

    A body is called with `go`, which waits until every process has called it as often. Whatever a body raises fails
    the test, and so does a process that is not done after `seconds`; whatever happens, no process is left behind.
    """
    barrier = FORK.Barrier(len(bodies), timeout=PATIENCE_SECONDS)
    racers = []
    try:
        for number, body in enumerate(bodies):
            ours, theirs = FORK.Pipe(duplex=False)
            racer = FORK.Process(target=_live, args=(number, body, barrier, theirs, weakness), daemon=True)
            with warnings.catch_warnings():
                # Later Pythons warn of a fork beside other threads; ours touch nothing that a racer uses.
                warnings.simplefilter("ignore", DeprecationWarning)
                racer.start()
            theirs.close()
            racers.append((racer, ours))
        answers = _answers([ours for _, ours in racers], time.monotonic() + seconds)
        for racer, _ in racers:
            racer.join(10)
        ended = [racer.exitcode for racer, _ in racers]
        crashes = [answer.told for answer in answers if isinstance(answer, _Crashed)]
        if missing := next((told for told in crashes if NoSuchGuard.__name__ in told), None):
            raise NoSuchGuard(missing)
        if crashes:  # who waited for one that failed tells of a broken barrier only: show the cause
            raise Crash(next((told for told in crashes if "BrokenBarrierError" not in told), crashes[0]))
        for answer, end in zip(answers, ended, strict=True):
            assert answer != KILLED or end == -signal.SIGKILL, f"a process ended with {end} and without an answer"
        return answers
    finally:
        for racer, ours in racers:
            racer.kill()
            racer.join()
            ours.close()


def _live(number: int, body: Callable[[Go], Any], barrier: Any, answer: Connection, weakness: Weakness | None) -> None:
    Racer.number, Racer.wait_for_all, Racer.at_the_end = number, barrier.wait, []
    try:
        if weakness is not None:
            weakness()
        said = body(Racer.wait_for_all)
        pickle.dumps(said)
    except BaseException:
        barrier.abort()
        said = _Crashed(traceback.format_exc())
    for end in Racer.at_the_end:
        end()
    answer.send(said)


def _answers(pipes: list[Connection], deadline: float) -> list[Any]:
    answers: dict[Connection, Any] = {}
    while len(answers) < len(pipes):
        ready = wait([pipe for pipe in pipes if pipe not in answers], max(0.0, deadline - time.monotonic()))
        assert ready, f"{len(pipes) - len(answers)} of {len(pipes)} processes are not done in time"
        for pipe in ready:
            assert isinstance(pipe, Connection)
            try:
                answers[pipe] = pipe.recv()
            except EOFError:
                answers[pipe] = KILLED
    return [answers[pipe] for pipe in pipes]


@dataclasses.dataclass(frozen=True)
class _Crashed:
    told: str


class NoSuchGuard(Exception):
    """A weakness that weakens nothing any more: the statement was written anew."""


class Crash(AssertionError):
    """A process raised what it was not expected to; the message is its traceback."""


def as_somebody(act: Callable[[], R]) -> R:
    """In another process, as a user that is not root."""

    def body(go: Go) -> R:
        if os.geteuid() == 0:
            os.setgid(nobody()["group"])
            os.setuid(nobody()["user"])
        return act()

    (answer,) = run([body])
    return cast("R", answer)


def kill_myself() -> None:
    """What a crash, an OOM killer or a closed laptop does: no handler runs, nothing is said."""
    os.kill(os.getpid(), signal.SIGKILL)


# --- rounds: each process does one call after another, all of them at the same moment ---------------------------------

Call = tuple[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came of a call: `value` if it was `ok`, else the `code` of the refusal."""

    ok: bool
    value: Any = None
    code: str = ""


def rounds(
    url: str, *scripts: Sequence[Call], weakness: Weakness | None = None, each_first: bool = False
) -> list[tuple[Answer, ...]]:
    """Let one process for each script make its calls, each behind a barrier; the answers come back by round.

    A start is jittered by up to a millisecond, so that either may be the first. With `each_first` the calls of the
    first rounds come one after the other, and each process begins one of them. A refusal is an answer.
    """
    assert len({len(script) for script in scripts}) == 1
    processes = len(scripts)

    def body(number: int, script: Sequence[Call]) -> Callable[[Go], list[Answer]]:
        def play(go: Go) -> list[Answer]:
            answers = []
            with coordinate.connect(url, agent="racer") as c:
                c.stats()  # connected, and the schema looked at
                for at, call in enumerate(script):
                    waits = (number - at) % processes if each_first and at < processes else 0
                    for turn in range(processes if each_first and at < processes else 1):
                        go()
                        if turn == waits:
                            answers.append(_call(c, *call))
            return answers

        return play

    bodies = [body(number, script) for number, script in enumerate(scripts)]
    return list(zip(*run(bodies, weakness=weakness), strict=True))


def _call(c: Coordinator, verb: str, given: dict[str, Any]) -> Answer:
    time.sleep(random.choice((0.0, random.uniform(0, 0.001))))
    try:
        return Answer(True, getattr(c, verb)(**given))
    except errors.CoordinateError as error:
        return Answer(False, code=error.code)


# --- weaknesses -------------------------------------------------------------------------------------------------------


def together(*weaknesses: Weakness) -> Weakness:
    return lambda: [each() for each in weaknesses] and None


def cut(name: str, *patterns: str, put: str = "") -> Weakness:
    """A compiled statement, white space made one blank, without the parts that match `patterns`; each must match."""

    def weaken() -> None:
        compiled = Library.__getitem__

        def weakened(self: Library, asked: str) -> Statement:
            statement = compiled(self, asked)
            if asked != name:
                return statement
            sql = " ".join(statement.sql.split())
            for pattern in patterns:
                sql, found = re.subn(pattern, put, sql)
                if not found:
                    raise NoSuchGuard(f"{pattern} is not in {name}: {sql}")
            return dataclasses.replace(statement, sql=sql)

        Library.__getitem__ = weakened  # type: ignore[method-assign]

    return weaken


def replaced(name: str, sql: str) -> Weakness:
    """Another statement in the place of a compiled one."""
    return cut(name, r"^.+$", put=sql.replace("\\", "\\\\"))


def before(name: str, act: Callable[[Tx], object]) -> None:
    """In this process `act` comes just before a statement is asked."""

    def acting(method: Callable[..., Any]) -> Callable[..., Any]:
        def ask(self: Tx, asked: str, /, **params: Any) -> Any:
            if asked == name:
                act(self)
            return method(self, asked, **params)

        return ask

    for method in ("one", "all", "run"):
        setattr(Tx, method, acting(getattr(Tx, method)))


def slow_before(name: str, seconds: float) -> Weakness:
    """No weakness: a process that is slow at a bad moment, which must do no harm."""
    return lambda: before(name, lambda tx: time.sleep(random.uniform(0, seconds)))


def overtaken_before(name: str, *, number: int = 0) -> Weakness:
    """No weakness: a coincidence that is made, where to await it would leave to chance what a test finds.

    The process of this number comes to a statement behind a barrier, and goes on when another has done whatever that
    does up to its next barrier; the others begin when it stands there. What then goes wrong goes wrong for certain.
    """
    stands, overtaken = FORK.Event(), FORK.Event()

    def weaken() -> None:
        wait_for_all, ours, begun = Racer.wait_for_all, Racer.number == number, False

        def go() -> None:
            nonlocal begun
            if begun:
                end()
            wait_for_all()
            begun = True
            if not ours:
                stands.wait(PATIENCE_SECONDS / 2)

        def stand() -> None:
            if begun and not stands.is_set():
                stands.set()
                overtaken.wait(PATIENCE_SECONDS / 2)

        end = stands.set if ours else overtaken.set
        Racer.wait_for_all = go
        Racer.at_the_end.append(end)
        if ours:
            before(name, lambda tx: stand())

    return weaken


def meeting_before(name: str, *, parties: int = 2) -> Weakness:
    """No weakness: so many processes come to a statement, each for the first time, before any of them makes it."""
    barrier = FORK.Barrier(parties, timeout=PATIENCE_SECONDS / 2)

    def weaken() -> None:
        met = False

        def meet() -> None:
            nonlocal met
            if not met:
                met = True
                with suppress(threading.BrokenBarrierError):
                    barrier.wait()

        before(name, lambda tx: meet())

    return weaken


def no_transactions() -> None:
    """SQLite without BEGIN and COMMIT: every statement for itself, as a driver left to its defaults does it."""
    SQLite.begin = lambda self, connection, **_: None  # type: ignore[method-assign]
    SQLite.commit = lambda self, connection: None  # type: ignore[method-assign]


# --- the judge: what must be true of every board, whoever raced -------------------------------------------------------


def await_blocked(url: str, pid: int) -> None:
    """Until somebody waits for what this backend of Postgres has locked."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE %s = ANY (pg_blocking_pids(pid))"
    with psycopg.connect(url, autocommit=True) as connection:
        for _ in range(3_000):
            if connection.execute(asked, [pid]).fetchone() != (0,):
                return
            time.sleep(0.01)
    raise AssertionError(f"nobody waits for {pid}")


def expire(url: str, task: str) -> None:
    """Let the lease of a task have ended long ago."""
    change(url, f"UPDATE tasks SET lease_until = '2001-01-01T00:00:00.000Z' WHERE id = '{task}'")


def faults(url: str) -> list[str]:
    """All that is wrong with a board: holds, attempts, history, events, edges and counts that do not agree."""
    return [*_wrong_attempts(url), *_wrong_story(url), *_wrong_edges(url)]


def assert_sound(url: str) -> None:
    found = faults(url)
    assert not found, f"{len(found)} faults, among them: " + "; ".join(found[:5])


def _wrong_attempts(url: str) -> Iterator[str]:
    tasks = rows(url, "SELECT id, status, attempt, assigned_agent FROM tasks")
    reopened = Counter(task for (task,) in rows(url, "SELECT task_id FROM history WHERE action = 'REOPEN'"))
    attempts: dict[str, list[tuple[Any, ...]]] = {task: [] for task, *_ in tasks}
    for task, *rest in rows(
        url, "SELECT task_id, attempt, agent, ended_at, outcome FROM attempts ORDER BY task_id, attempt"
    ):
        attempts[task].append(tuple(rest))
    for task, status, attempt, agent in tasks:
        numbers = [number for number, *_ in attempts[task]]
        if numbers != list(range(1, attempt + 1)):
            yield f"{task} stands at attempt {attempt}, its attempts are {numbers}"
        still = [(number, who) for number, who, ended_at, _ in attempts[task] if ended_at is None]
        if still != ([(attempt, agent)] if status == "IN_PROGRESS" else []):
            yield f"{task} is {status}, held by {agent} at {attempt}, but open are {still}"
        if (agent is None) != (status != "IN_PROGRESS"):
            yield f"{task} is {status} and assigned to {agent}"
        completed = [outcome for *_, outcome in attempts[task]].count("completed")
        if completed > 1 + reopened[task]:
            yield f"{task} was completed {completed} times and reopened {reopened[task]} times"


def _wrong_story(url: str) -> Iterator[str]:
    """Each attempt began with one CLAIM or TRANSFER, each end of one has its row, and each row its event."""
    told = rows(url, "SELECT task_id, action, attempt FROM history")
    begun = Counter((task, attempt) for task, action, attempt in told if action in ("CLAIM", "TRANSFER"))
    opened = Counter((task, attempt) for task, attempt in rows(url, "SELECT task_id, attempt FROM attempts"))
    for odd in (begun - opened) + (opened - begun):
        yield f"attempt {odd} began {opened[odd]} times, history tells of {begun[odd]}"
    actions = {"completed": "COMPLETE", "submitted": "SUBMIT", "expired": "EXPIRE", "released": "RELEASE"}
    ended = Counter((task, actions[how]) for task, how in _ends(url) if how in actions)
    history = Counter((task, action) for task, action, _ in told if action in actions.values())
    for odd in (ended - history) + (history - ended):
        yield f"{odd}: {ended[odd]} attempts, {history[odd]} rows of history"
    names = {"CLAIM": "task.claimed", "COMPLETE": "task.completed", "EXPIRE": "task.lease_expired"}
    events = Counter(rows(url, "SELECT ref, event_type FROM events"))
    rows_of = Counter((task, names[action]) for task, action, _ in told if action in names)
    for odd in rows_of:
        if events[odd] != rows_of[odd]:
            yield f"{odd}: {rows_of[odd]} rows of history, {events[odd]} events"


def _ends(url: str) -> list[tuple[Any, ...]]:
    return rows(url, "SELECT task_id, outcome FROM attempts WHERE outcome IS NOT NULL")


def _wrong_edges(url: str) -> Iterator[str]:
    counted = rows(
        url,
        "SELECT t.id, t.unmet_dependencies, (SELECT count(*) FROM task_dependencies d WHERE d.task_id = t.id"
        " AND NOT d.met) AS unmet FROM tasks t ORDER BY t.number",
    )
    for task, said, true in counted:
        if said != true:
            yield f"{task} counts {said} unmet dependencies and has {true}"
    edges = rows(
        url,
        "SELECT d.task_id, d.depends_on_task_id, d.met, t.status FROM task_dependencies d"
        " JOIN tasks t ON t.id = d.depends_on_task_id",
    )
    for task, on, met, status in edges:
        if bool(met) != (status == "DONE"):
            yield f"{task} waits for {on}, which is {status}, and met is {met}"
    if circle := _circle({(task, on) for task, on, *_ in edges}):
        yield f"a circle through {circle}"


def _circle(edges: set[tuple[str, str]]) -> set[str]:
    """What is left when whatever waits for nothing is taken away, again and again."""
    while True:
        waiting = {task for task, _ in edges}
        left = {(task, on) for task, on in edges if on in waiting}
        if left == edges:
            return waiting
        edges = left


# --- helpers ----------------------------------------------------------------------------------------------------------


@contextmanager
def setting_up(url: str, agent: str = "manager") -> Iterator[Coordinator]:
    """A connection that is closed again before anything is forked."""
    with coordinate.connect(url, agent=agent) as c:
        yield c


def dispatch_many(
    c: Coordinator, count: int, *, role: str = "worker", waits: dict[int, list[int]] | None = None
) -> list[str]:
    """So many equal tasks, the third of them waiting for the first two where `waits` says {2: [0, 1]}; their ids."""
    plan = [
        PlannedTask(
            f"k{index}", f"Task {index}", role, depends_on=tuple(f"k{on}" for on in (waits or {}).get(index, ()))
        )
        for index in range(count)
    ]
    return [each.task.id for each in c.dispatch_plan(plan=plan)]


def claim_all(c: Coordinator, role: str = "worker", agent: str = "racer") -> dict[str, str]:
    """Claim whatever is ready; the handle of each task."""
    held = {}
    while batch := c.claim_batch(role=role, count=100, agent=agent):
        held |= {claim.task.id: claim.handle for claim in batch}
    return held


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """p50, p99 and the most, in milliseconds."""
    ordered = sorted(seconds)
    return {
        name: round(1000 * ordered[min(len(ordered) - 1, int(len(ordered) * share))], 1)
        for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
    }
