"""`python -m tests.bench [--tasks 1000000] [--json FILE] [--engine sqlite|postgresql|both]`

Every figure is a ratio of medians within this run, measured in turns (A B A B …), so that a machine that is slower
today changes both sides alike. Nothing is asserted here; the promises are in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coordinate
from coordinate.db.dialect import SQLite
from tests.bench.boards import declare_scopes, fill_waiting
from tests.postgres import start_server


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--tasks", type=int, default=1_000_000, help="the larger queue")
    parser.add_argument("--small", type=int, default=10_000, help="the smaller queue")
    parser.add_argument("--claims", type=int, default=2_000, help="claims for each measurement")
    parser.add_argument("--engine", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--json", type=Path, help="also write the figures to a file")
    options = parser.parse_args()
    figures: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="coordinate-bench-") as folder:
        if options.engine != "postgresql":
            figures += [api_against_driver(Path(folder), options.claims), command_against_interpreter(Path(folder))]
            place = lambda name: str(Path(folder) / f"{name}.db")  # noqa: E731
            figures += [queue_length("sqlite", place, options), held_scopes("sqlite", place, options)]
        if options.engine != "sqlite":
            server = start_server()
            try:
                with server.database("small") as small, server.database("large") as large:
                    places = {"small": small, "large": large}
                    figures.append(queue_length("postgresql", places.__getitem__, options))
                with server.database("free") as free, server.database("held") as held:
                    places = {"free": free, "held": held}
                    figures.append(held_scopes("postgresql", places.__getitem__, options))
            finally:
                server.stop()
    for figure in figures:
        print(f"{figure['what']:<58} {figure['ratio']:>7.2f}   ({figure['reads']})")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def api_against_driver(folder: Path, claims: int) -> dict[str, Any]:
    """Claims a second of one process through the Python API, against the same statements on the bare driver."""
    rounds, each = 5, max(100, claims // 5)
    boards = [str(folder / "api.db"), str(folder / "driver.db")]
    for path in boards:
        coordinate.connect(path, create=True).close()
        fill_waiting(path, rounds * each + each)
    with coordinate.connect(boards[0], agent="bench") as c:
        driver = Driver(boards[1])
        c.claim_next(role="worker")
        driver.claim()
        pairs = [(_rate(lambda: c.claim_next(role="worker"), each), _rate(driver.claim, each)) for _ in range(rounds)]
    ratio = statistics.median(api / raw for api, raw in pairs)
    return {
        "what": "claim: Python API / bare driver, one process, SQLite",
        "ratio": ratio,
        "reads": f"higher is better; {statistics.median(a for a, _ in pairs):.0f} claims/s",
        "rounds": [api / raw for api, raw in pairs],
    }


class Driver:
    """The statements of one claim on a bare sqlite3 connection, with nothing around them."""

    def __init__(self, path: str) -> None:
        engine = SQLite(path)
        self.connection = engine.connect()
        self.sql = {name: engine.library[name].sql for name in engine.library.names()}

    def claim(self) -> None:
        run = self.connection.execute
        run("BEGIN IMMEDIATE")
        run("PRAGMA schema_version").fetchone()
        run(self.sql["queue_due"], {"agent": "bench"}).fetchone()
        taken = {"role": "worker", "limit": 1, "lease_seconds": None, "agent": "bench", "session": None}
        row = run(self.sql["claim_next"], taken).fetchall()[0]
        task, attempt = row[0], row[12]
        opened = {"task_id": task, "attempt": attempt, "agent": "bench", "session": None}
        run(self.sql["attempt_open"], opened)
        told = {"task_id": task, "agent": "bench", "action": "CLAIM", "attempt": attempt, "detail": ""}
        run(self.sql["history_insert"], told)
        run(self.sql["handles_held"], {"agent": "bench", "limit": 20}).fetchall()
        run(self.sql["dependencies_of"], {"ids": f'["{task}"]'}).fetchall()
        event = {
            "event_type": "task.claimed",
            "payload": '{"task_id":"TASK-1","title":"Waiting","project":"default","priority":"100","agent":"bench"}',
            "ttl_seconds": 259200,
            "project": "default",
            "agent": "bench",
            "ref": task,
            "message": "",
            "folded": "task-1 waiting default 100 bench",
        }
        run(self.sql["event_append"], event)
        run("COMMIT")


def command_against_interpreter(folder: Path) -> dict[str, Any]:
    """The wall time of `coordinate task claim-next`, against that of an interpreter which does nothing."""
    path = str(folder / "command.db")
    coordinate.connect(path, create=True).close()
    fill_waiting(path, 200)
    environment = os.environ | {"COORDINATE_DB": path, "COORDINATE_AGENT": "bench"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its bytecode; compiling is not measured
    command = [sys.executable, "-m", "coordinate", "task", "claim-next", "--role", "worker"]
    nothing = [sys.executable, "-c", "pass"]
    pairs = [(_wall(command, environment), _wall(nothing, environment)) for _ in range(21)][1:]
    ours = statistics.median(a for a, _ in pairs)
    bare = statistics.median(b for _, b in pairs)
    return {
        "what": "coordinate task claim-next / python -c pass, SQLite",
        "ratio": ours / bare,
        "reads": f"lower is better; {ours * 1000:.0f} ms against {bare * 1000:.0f} ms",
    }


def queue_length(engine: str, place: Callable[[str], str], options: argparse.Namespace) -> dict[str, Any]:
    """What a claim costs with many waiting tasks, against the same with few."""
    boards = {"small": options.small, "large": options.tasks}
    for name, count in boards.items():
        coordinate.connect(place(name), create=True).close()
        fill_waiting(place(name), count)
    rounds, each = 10, max(20, min(options.claims, options.small // 2) // 10)
    costs: dict[str, list[float]] = {name: [] for name in boards}
    with (
        coordinate.connect(place("small"), agent="bench") as small,
        coordinate.connect(place("large"), agent="bench") as large,
    ):
        for _ in range(rounds):
            for name, c in (("small", small), ("large", large)):
                costs[name].append(1 / _rate(lambda c=c: c.claim_next(role="worker"), each))
    ratio = statistics.median(costs["large"]) / statistics.median(costs["small"])
    return {
        "what": f"a claim with {options.tasks:,} waiting / with {options.small:,}, {engine}",
        "ratio": ratio,
        "reads": f"lower is better; {statistics.median(costs['large']) * 1e6:.0f} µs against"
        f" {statistics.median(costs['small']) * 1e6:.0f} µs",
    }


def held_scopes(engine: str, place: Callable[[str], str], options: argparse.Namespace) -> dict[str, Any]:
    """What a claim costs, after the first, when another holds the scopes of the first 5,000 of 100,000 ready tasks."""
    for name in ("free", "held"):
        with coordinate.connect(place(name), agent="holder", create=True) as c:
            fill_waiting(place(name), 100_000)
            if name == "held":
                declare_scopes(place(name), 5_000)
                assert c.claim_scopes(patterns=["held"], ttl_seconds=604_800).granted
    costs: dict[str, list[float]] = {"free": [], "held": []}
    with (
        coordinate.connect(place("free"), agent="bench") as free,
        coordinate.connect(place("held"), agent="bench") as held,
    ):
        sides = (("free", free), ("held", held))
        first = {name: 1 / _rate(lambda c=c: c.claim_next(role="worker"), 1) for name, c in sides}
        for _ in range(max(100, min(options.claims, 2_000))):
            for name, c in sides:
                costs[name].append(1 / _rate(lambda c=c: c.claim_next(role="worker"), 1))
    middle = {name: statistics.median(each) for name, each in costs.items()}
    return {
        "what": f"a claim past 5,000 tasks with held scopes / without scopes, {engine}",
        "ratio": middle["held"] / middle["free"],
        "reads": f"lower is better; {middle['held'] * 1e6:.0f} µs against {middle['free'] * 1e6:.0f} µs;"
        f" the first claim {first['held']:.1f} s",
    }


def _rate(act: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        act()
    return times / (time.perf_counter() - started)


def _wall(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
