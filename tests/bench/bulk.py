"""A large plan at once, against the bare driver's executemany with the same rows, history and events."""

from __future__ import annotations

import sqlite3
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import coordinate
from coordinate.db.dialect import SQLite
from coordinate.plans import PlannedTask
from tests.bench.rounds import Figure, in_turns

NOW = "2030-01-01T00:00:00.000Z"


def dispatch(folder: Path, *, tasks: int, rounds: int) -> Figure:
    """Tasks a second of `dispatch_plan`; the driver writes the same rows, which is looked at in the end."""
    plan = [PlannedTask(f"k{number}", f"Task {number}", "worker") for number in range(tasks)]
    places: dict[str, str] = {}

    def place(whose: str) -> str:
        path = str(folder / f"bulk-{whose}.db")
        for each in folder.glob(f"bulk-{whose}.db*"):
            each.unlink()
        coordinate.connect(path, create=True).close()
        places[whose] = path
        return path

    def ours() -> float:
        with coordinate.connect(place("ours"), agent="bench") as c:
            began = time.perf_counter()
            c.dispatch_plan(plan=plan)
            return tasks / (time.perf_counter() - began)

    def raw() -> float:
        engine = SQLite(place("raw"))
        connection = engine.connect()
        sql = {name: engine.library[name].sql for name in ("task_insert", "history_insert", "event_append")}
        began = time.perf_counter()
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(sql["task_insert"], (_task(number, each) for number, each in enumerate(plan, 1)))
        connection.executemany(sql["history_insert"], (_history(number) for number in range(1, tasks + 1)))
        connection.executemany(sql["event_append"], (_event(number) for number in range(1, tasks + 1)))
        connection.execute("COMMIT")
        seconds = time.perf_counter() - began
        connection.close()
        return tasks / seconds

    figure = in_turns(f"dispatch of a plan of {tasks:,}: ours / executemany", ours, raw, rounds=rounds, aim=0.8)
    for mine, its in zip(_written(places["ours"]), _written(places["raw"]), strict=True):
        if mine != its:
            raise RuntimeError(f"the driver wrote other rows: {its}, not {mine}")
    tracemalloc.start()
    ours()
    figure.facts["peak_memory_mb"] = round(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    return figure


def _written(path: str) -> Iterator[tuple[object, ...]]:
    """All rows of a plan, without their times."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("tasks", "history", "events"):
            names = [name for _, name, *_ in connection.execute(f"PRAGMA table_info({table})")]
            kept = ", ".join(name for name in names if not name.endswith("_at"))
            yield from connection.execute(f"SELECT {kept} FROM {table} ORDER BY rowid")


def _task(number: int, each: PlannedTask) -> dict[str, object]:
    return {
        "id": f"TASK-{number}",
        "number": number,
        "title": each.title,
        "body": "",
        "role_boundary": "worker",
        "project": "default",
        "priority": each.priority,
        "max_attempts": 5,
        "not_before": None,
        "unmet_dependencies": 0,
        "parked": "",
        "parked_until": None,
        "dedup_key": None,
        "created_by": "bench",
        "folded": each.title.casefold(),
        "created_at": NOW,
        "scoped": 0,
    }


def _history(number: int) -> dict[str, object]:
    return {"task_id": f"TASK-{number}", "agent": "bench", "action": "DISPATCH", "attempt": None, "detail": ""}


def _event(number: int) -> dict[str, object]:
    said = f'"task_id":"TASK-{number}","title":"Task {number - 1}","project":"default","priority":"100"'
    return {
        "event_type": "task.created",
        "payload": f'{{{said},"agent":"bench","role_boundary":"worker"}}',
        "ttl_seconds": 259200,
        "project": "default",
        "agent": "bench",
        "ref": f"TASK-{number}",
        "message": "",
        "folded": f"task-{number} task-{number} task {number - 1} default 100 bench worker",
    }
