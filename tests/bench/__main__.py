"""`python -m tests.bench [FIGURE…] [--json FILE] [--plot FILE.svg] [--engine sqlite|postgresql|both]`

`python -m tests.bench move` measures a move alone, and `drill` lets one go wrong; see `move.py` and `drill.py`.

Every figure is the median of ratios that were measured in turns within this run (A B B A …), so that a machine that is
slower today changes both sides alike; where they vary too much, or were too few, no conclusion is drawn. Nothing is
asserted here: what is promised, and the method, stand in docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import coordinate
from coordinate.db.dialect import SQLite
from tests.bench import bulk, drill, move, peers, rounds, servers, writers
from tests.bench.arguments import new_file, positive, seconds
from tests.bench.boards import declare_scopes, fill_waiting
from tests.bench.rounds import Figure, in_turns
from tests.postgres import Unavailable, start_server

FIGURES = ("api", "command", "burst", "queue", "scopes", "bulk", "writers", "threads", "peers", "claims", "drain")
CLAIM = [sys.executable, "-m", "coordinate", "task", "claim-next", "--role", "worker"]
BURST = 50
ON_FILES = tuple(name for name in FIGURES if name not in ("claims", "drain"))
ON_SERVERS = ("command", "queue", "scopes", "peers", "claims", "drain")


def main() -> None:
    if sys.argv[1:2] == ["move"]:
        move.main(sys.argv[2:])
        return
    if sys.argv[1:2] == ["drill"]:
        drill.main(sys.argv[2:])
        return
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("figures", nargs="*", metavar="FIGURE", help=f"some of {', '.join(FIGURES)}; default: all")
    parser.add_argument(
        "--tasks", type=positive, default=1_000_000, help="the larger queue; a plan has 100,000 at most"
    )
    parser.add_argument("--small", type=positive, default=10_000, help="the smaller queue")
    parser.add_argument("--claims", type=positive, default=2_000, help="claims for each measurement")
    parser.add_argument(
        "--rounds", type=positive, default=7, help="how often each pair is measured; 3 at least for a conclusion"
    )
    parser.add_argument("--seconds", type=seconds, default=4.0, help="how long writers and clients work in each round")
    counts = sorted(writers.PROCESSES)
    parser.add_argument("--writers", type=int, nargs="+", choices=counts, default=[50, 200], help="how many at once")
    parser.add_argument("--engine", choices=["sqlite", "postgresql", "both"], default="both")
    parser.add_argument("--json", type=new_file, help="also write the figures to a file")
    parser.add_argument("--plot", type=new_file, help="also draw the figures, as SVG")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"no such figure: {', '.join(unknown)}")
    for refusal in refusals(options):
        parser.error(refusal)
    found: list[Figure] = []
    try:
        for figure in measured(options):
            found.append(figure)
            print(rounds.table([figure]), flush=True)
    except Unavailable as missing:
        parser.exit(2, f"{missing}\n")
    finally:
        if options.json:
            told = {"machine": machine(), "figures": [figure.as_dict() for figure in found]}
            options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
        if options.plot:
            options.plot.write_text(rounds.plot(found), encoding="utf-8")


def refusals(options: argparse.Namespace) -> Iterator[str]:
    """Why these options would measure nothing, or stop half-way."""
    on_files, on_servers = options.engine != "postgresql", options.engine != "sqlite"
    for name in options.figures:
        if not ((on_files and name in ON_FILES) or (on_servers and name in ON_SERVERS)):
            yield f"nothing to measure: {name} is not measured on {options.engine}; leave --engine away"
    if "threads" in options.figures and not set(options.writers) & set(writers.THREADS):
        yield f"nothing to measure: threads take --writers {' or '.join(map(str, writers.THREADS))}"
    if "peers" in (options.figures or FIGURES):
        modules = [*(peers.ON_FILE if on_files else ()), *(peers.ON_SERVER if on_servers else ())]
        if missing := peers.missing(modules):
            yield (
                f"peers need {', '.join(missing)}: python -m pip install '.[bench]', or name the other figures:"
                f" {' '.join(name for name in FIGURES if name != 'peers')}"
            )


def machine() -> dict[str, Any]:
    load = os.getloadavg()
    return {"cores": os.cpu_count(), "python": platform.python_version(), "system": platform.platform(), "load": load}


def measured(options: argparse.Namespace) -> Iterator[Figure]:
    wanted = options.figures or FIGURES
    if options.engine != "postgresql":
        with tempfile.TemporaryDirectory(prefix="coordinate-bench-") as folder:
            yield from _on_files([name for name in ON_FILES if name in wanted], Path(folder), options)
    if options.engine != "sqlite" and (on_servers := [name for name in ON_SERVERS if name in wanted]):
        with ExitStack() as stack:
            server = start_server()
            stack.callback(server.stop)
            for name in on_servers:
                with ExitStack() as databases:
                    places: dict[str, str] = {}

                    def place(name: str, places: dict[str, str] = places, stack: ExitStack = databases) -> str:
                        if name not in places:
                            places[name] = stack.enter_context(server.database(name))
                        return places[name]

                    yield from _on_server(name, place, options)


def _on_files(wanted: list[str], folder: Path, options: argparse.Namespace) -> Iterator[Figure]:
    def place(name: str) -> str:
        return str(folder / f"{name}.db")

    for name in wanted:
        match name:
            case "api":
                yield api_against_driver(folder, options)
            case "command":
                yield command_against_interpreter(place("command"), "pass", 4.5)
            case "burst":
                yield burst_against_import(place("burst"), options)
            case "queue":
                yield queue_length("sqlite", place, options, 1.25)
            case "scopes":
                yield held_scopes("sqlite", place, options)
            case "bulk":
                yield bulk.dispatch(folder, tasks=min(options.tasks, 100_000), rounds=options.rounds)
            case "writers":
                for count in options.writers:
                    yield from writers.processes(folder, count, rounds=options.rounds, seconds=options.seconds)
            case "threads":
                for count in options.writers:
                    if count in writers.THREADS:
                        for full in (False, True):
                            yield from writers.threads(
                                folder, count, rounds=options.rounds, seconds=options.seconds, full=full
                            )
            case "peers":
                yield from peers.on_file(folder, rounds=options.rounds, each=max(1, options.claims // 4))


def _on_server(name: str, place: Callable[[str], str], options: argparse.Namespace) -> Iterator[Figure]:
    match name:
        case "command":
            yield command_against_interpreter(place("command"), "import psycopg", 1.35)
        case "queue":
            yield queue_length("postgresql", place, options, 1.15)
        case "scopes":
            yield held_scopes("postgresql", place, options)
        case "peers":
            yield from peers.on_server(place, rounds=options.rounds, each=max(1, options.claims // 20))
        case "claims":
            yield servers.claims(place, clients=50, rounds=options.rounds, seconds=options.seconds)
        case "drain":
            yield servers.drained(place("drain"), tasks=options.tasks, drained=options.tasks * 2 // 5)


def api_against_driver(folder: Path, options: argparse.Namespace) -> Figure:
    """Claims a second of one process through the Python API, against the same statements on the bare driver."""
    each = max(100, options.claims // 5)
    boards = [str(folder / "api.db"), str(folder / "driver.db")]
    for path in boards:
        coordinate.connect(path, create=True).close()
        fill_waiting(path, options.rounds * each + each)
    with coordinate.connect(boards[0], agent="bench") as c:
        driver = Driver(boards[1])
        c.claim_next(role="worker")
        driver.claim()
        return in_turns(
            "claim: Python API / bare driver, one process, SQLite",
            lambda: _rate(lambda: c.claim_next(role="worker"), each),
            lambda: _rate(driver.claim, each),
            rounds=options.rounds,
            aim=0.9,
        )


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
        taken = {"role": "worker", "lease_seconds": None, "agent": "bench", "session": None}
        row = run(self.sql["claim_at_once"], taken).fetchall()[0]
        task, attempt = row[0], row[12]
        run(self.sql["handles_held"], {"agent": "bench", "limit": 20}).fetchall()
        run(self.sql["dependencies_of"], {"ids": f'["{task}"]'}).fetchall()
        opened = {"task_id": task, "attempt": attempt, "agent": "bench", "session": None}
        run(self.sql["attempt_open"], opened)
        told = {"task_id": task, "agent": "bench", "action": "CLAIM", "attempt": attempt, "detail": ""}
        run(self.sql["history_insert"], told)
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


def command_against_interpreter(place: str, bare: str, aim: float) -> Figure:
    """The wall time of `coordinate task claim-next`, against that of an interpreter which does as little as `bare`."""
    environment = _claimable(place, 200)
    _wall(CLAIM, environment)
    return in_turns(
        f"coordinate task claim-next / python -c '{bare}'",
        lambda: _wall(CLAIM, environment),
        lambda: _wall([sys.executable, "-c", bare], environment),
        rounds=20,
        better="lower",
        aim=aim,
        unit=" s",
    )


def burst_against_import(place: str, options: argparse.Namespace) -> Figure:
    """Answers a second of `BURST` claims that start at once on one file, against as many that import SQLAlchemy."""
    environment = _claimable(place, (options.rounds + 1) * BURST)
    _wall(CLAIM, environment)
    return in_turns(
        f"{BURST} coordinate task claim-next at once / python -c 'import sqlalchemy'",
        lambda: BURST / _wall_of_all(CLAIM, environment),
        lambda: BURST / _wall_of_all([sys.executable, "-c", "import sqlalchemy"], environment),
        rounds=options.rounds,
        aim=5,
    )


def queue_length(engine: str, place: Callable[[str], str], options: argparse.Namespace, aim: float) -> Figure:
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
    return _costs(
        f"a claim with {options.tasks:,} waiting / with {options.small:,}, {engine}",
        costs["large"],
        costs["small"],
        aim,
    )


def _costs(what: str, ours: list[float], reference: list[float], aim: float | None, told: str = "") -> Figure:
    middle = statistics.median(ours) * 1e6, statistics.median(reference) * 1e6
    ratios = [mine / theirs for mine, theirs in zip(ours, reference, strict=True)]
    reads = f"{middle[0]:.0f} µs against {middle[1]:.0f} µs{told}"
    return Figure(what, "lower", ratios, reference, aim=aim, reads=reads)


def held_scopes(engine: str, place: Callable[[str], str], options: argparse.Namespace) -> Figure:
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
    return _costs(
        f"a claim past 5,000 tasks with held scopes / without scopes, {engine}",
        costs["held"],
        costs["free"],
        None,
        f"; the first claim {first['held']:.1f} s",
    )


def _rate(act: Callable[[], object], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        act()
    return times / (time.perf_counter() - started)


def _claimable(place: str, count: int) -> dict[str, str]:
    """A new board with so many ready tasks; returns the environment of a command that claims from it."""
    coordinate.connect(place, create=True).close()
    fill_waiting(place, count)
    environment = os.environ | {"COORDINATE_DB": place, "COORDINATE_AGENT": "bench"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed command has its bytecode; compiling is not measured
    return environment


def _wall_of_all(command: list[str], environment: dict[str, str]) -> float:
    """The time from the start of the first of `BURST` to the end of the last."""
    started = time.perf_counter()
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) for _ in range(BURST)]
    failed = [process.returncode for process in running if process.wait() != 0]
    assert not failed, failed
    return time.perf_counter() - started


def _wall(command: list[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
