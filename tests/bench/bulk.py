"""A large plan at once, against the bare driver's executemany with the same rows, history and events."""

from __future__ import annotations

import time
import tracemalloc
from pathlib import Path

import coordinate
from coordinate.db.dialect import SQLite
from coordinate.plans import PlannedTask
from tests.bench.rounds import Figure, in_turns

NOW = "2030-01-01T00:00:00.000Z"


def dispatch(folder: Path, *, tasks: int, rounds: int) -> Figure:
    """Tasks a second of `dispatch_plan`; the statements are its own, and so are the rows."""
    plan = [PlannedTask(f"k{number}", f"Task {number}", "worker") for number in range(tasks)]
    count = 0

    def place() -> str:
        nonlocal count
        count += 1
        path = str(folder / f"bulk-{count}.db")
        coordinate.connect(path, create=True).close()
        return path

    def ours() -> float:
        with coordinate.connect(place(), agent="bench") as c:
            began = time.perf_counter()
            c.dispatch_plan(plan=plan)
            return tasks / (time.perf_counter() - began)

    def raw() -> float:
        engine = SQLite(place())
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
    tracemalloc.start()
    ours()
    figure.facts["peak_memory_mb"] = round(tracemalloc.get_traced_memory()[1] / 1e6)
    tracemalloc.stop()
    return figure


def _task(number: int, each: PlannedTask) -> dict[str, object]:
    return {
        "id": f"TASK-{number}",
        "number": number,
        "title": each.title,
        "body": "",
        "role": "worker",
        "project": "default",
        "priority": each.priority,
        "max_attempts": None,
        "not_before": None,
        "dedup_key": None,
        "created_by": "bench",
        "folded": each.title.casefold(),
        "created_at": NOW,
    }


def _history(number: int) -> dict[str, object]:
    return {"task_id": f"TASK-{number}", "agent": "bench", "action": "DISPATCH", "attempt": None, "detail": ""}


def _event(number: int) -> dict[str, object]:
    return {
        "event_type": "task.created",
        "payload": f'{{"task_id":"TASK-{number}","title":"Task {number}","project":"default","priority":"100"}}',
        "ttl_seconds": 259200,
        "project": "default",
        "agent": "bench",
        "ref": f"TASK-{number}",
        "message": "",
        "folded": f"task-{number} task default 100",
    }
