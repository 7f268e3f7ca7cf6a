"""Many writers of one file: the queue and the groups, against SQLite's own wait for its lock."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import coordinate
from coordinate.db import engine
from coordinate.db.dialect import SQLite
from tests.bench.boards import fill_waiting
from tests.bench.rounds import Figure, told

FORK = multiprocessing.get_context("fork")
TASKS = 40_000
SHARE_LEAST = 0.5  # what the least served writer gets at least, as a part of the mean
Lives = list[tuple[list[float], int]]  # of each writer: how long its claims took, and how many failed

# writers: the least of the pace, the most of the 99th percentile (against the same number with SQLite's wait)
PROCESSES = {50: (0.5, 1 / 4), 200: (0.65, 1 / 8), 1000: (2.0, 1 / 5)}
THREADS = {50: (1.3, 1 / 5), 200: (2.2, 1 / 20)}


def processes(folder: Path, count: int, *, rounds: int, seconds: float) -> list[Figure]:
    pace, wait = PROCESSES[count]
    return _compare(f"{count} processes", folder, count, _as_processes, rounds, seconds, pace, wait)


def threads(folder: Path, count: int, *, rounds: int, seconds: float, full: bool = False) -> list[Figure]:
    pace, wait = THREADS[count]
    name = f"{count} threads" + (", synchronous=FULL" if full else "")
    if full:
        pace = {50: 4.0, 200: 10.0}[count]
    with _environment("COORDINATE_SYNCHRONOUS", "FULL" if full else "NORMAL"):
        return _compare(name, folder, count, _as_threads, rounds, seconds, pace, wait)


def _compare(
    name: str,
    folder: Path,
    count: int,
    play: Callable[[str, int, float], Lives],
    rounds: int,
    seconds: float,
    pace: float,
    wait: float,
) -> list[Figure]:
    rates: dict[str, list[float]] = {"ours": [], "theirs": []}
    waits: dict[str, list[float]] = {"ours": [], "theirs": []}
    least, failed = [], 0
    for number in range(rounds):
        sides = ("ours", "theirs") if number % 2 else ("theirs", "ours")
        for side in sides:
            path = str(folder / f"{name}-{number}-{side}.db")
            coordinate.connect(path, create=True).close()
            fill_waiting(path, TASKS)
            with _environment("COORDINATE_GATE", "on" if side == "ours" else "off"), _sqlites_own_wait(side):
                lives = play(path, count, seconds)
            for each in (path, path + "-wal", path + "-shm", path + "-gate"):
                Path(each).unlink(missing_ok=True)
            took = sorted(each for life, _ in lives for each in life)
            rates[side].append(len(took) / seconds)
            waits[side].append(took[min(len(took) - 1, int(0.99 * len(took)))] if took else seconds)
            if side == "ours":
                shares = [len(life) for life, _ in lives]
                least.append(min(shares) / max(1, statistics.mean(shares)))
                failed += sum(failures for _, failures in lives)
    served = min(least)  # nobody is left behind in any round
    figure = _figure(f"{name}: claims/s", "higher", rates, pace, "/s")
    return [
        replace(
            figure,
            reads=f"{figure.reads}; least served {served:.2f} of the mean, {failed} failures",
            facts={"least_served": round(served, 3), "failures": failed},
            short=tuple(fallen_short(served, failed)),
        ),
        _figure(f"{name}: p99 of a claim", "lower", waits, wait, " s"),
    ]


def fallen_short(served: float, failed: int) -> Iterator[str]:
    """What is promised beside the pace: nobody fails, and nobody gets much less than the others."""
    if failed:
        yield f"{failed} failures"
    if served < SHARE_LEAST:
        yield f"least served {served:.2f} of the mean, below {SHARE_LEAST:g}"


def _figure(what: str, better: str, sides: dict[str, list[float]], aim: float, unit: str) -> Figure:
    middle = {side: statistics.median(each) for side, each in sides.items()}
    return Figure(
        what,
        better,
        [ours / theirs for ours, theirs in zip(sides["ours"], sides["theirs"], strict=True)],
        sides["theirs"],
        aim=aim,
        reads=f"{told(middle['ours'])}{unit} against {told(middle['theirs'])}{unit}",
    )


@contextmanager
def _sqlites_own_wait(side: str) -> Iterator[None]:
    """The reference: BEGIN IMMEDIATE under busy_timeout, on a connection of each thread's own."""
    ours, most = SQLite._begin_write, engine.CONNECTIONS_MAX

    def begin(self: SQLite, connection: sqlite3.Connection, patience: float) -> None:
        connection.execute("BEGIN IMMEDIATE")

    if side == "theirs":
        SQLite._begin_write = begin  # type: ignore[method-assign]
        engine.CONNECTIONS_MAX = max(THREADS)
    try:
        yield
    finally:
        SQLite._begin_write = ours  # type: ignore[method-assign]
        engine.CONNECTIONS_MAX = most


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def _as_processes(path: str, count: int, seconds: float) -> Lives:
    barrier, told = FORK.Barrier(count, timeout=300), FORK.SimpleQueue()

    def live(number: int) -> None:
        with coordinate.connect(path, agent=f"writer-{number}") as c:
            told.put(_claims(c, f"writer-{number}", barrier, seconds))
            barrier.wait()  # processes that end take the processor from those that have a claim to make yet

    writers = [FORK.Process(target=live, args=(number,), daemon=True) for number in range(count)]
    for writer in writers:
        writer.start()
    lives = [told.get() for _ in writers]
    for writer in writers:
        writer.join()
    return lives


def _as_threads(path: str, count: int, seconds: float) -> Lives:
    barrier, lives = threading.Barrier(count), []
    with coordinate.connect(path, agent="writer") as c:

        def live(number: int) -> None:
            lives.append(_claims(c, f"writer-{number}", barrier, seconds))

        writers = [threading.Thread(target=live, args=(number,)) for number in range(count)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    return lives


def _claims(c: coordinate.Coordinator, agent: str, barrier: Any, seconds: float) -> tuple[list[float], int]:
    took, failed = [], 0
    with suppress(coordinate.errors.CoordinateError):  # its statements are read and prepared, on either side
        c.claim_next(role="worker", agent=agent)
    barrier.wait()
    until = time.monotonic() + seconds
    while (began := time.monotonic()) < until:
        try:
            c.claim_next(role="worker", agent=agent)
        except coordinate.errors.CoordinateError:
            failed += 1
        else:
            took.append(time.monotonic() - began)
    return took, failed
