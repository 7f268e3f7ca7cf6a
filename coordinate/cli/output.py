"""Answers as programs read them: JSON in ASCII, so that any locale can print it."""

from __future__ import annotations

import json
import sys
from typing import Any

from coordinate.records import Cancelled, Claim, Dispatched, Done, ExportedTask, Outcome, Task, TaskPage, TaskView
from coordinate.records import as_json as record_as_json

# The keys that a task has had from the start come first, in their old order.
TASK_KEYS = (
    "id",
    "title",
    "status",
    "role_boundary",
    "project",
    "priority",
    "assigned_agent",
    "lease_until",
    "created_at",
    "updated_at",
    "depends_on",
    "claimed_by",
)


def as_document(value: Any) -> str:
    """One JSON document; on one line for a program, which pays for every blank, indented on a terminal."""
    return json.dumps(plain(value), indent=2 if sys.stdout.isatty() else None)


def as_line(value: Any) -> str:
    """One JSON document on one line."""
    return json.dumps(plain(value))


def plain(value: Any) -> Any:
    """An answer as JSON values. A task's own keys stay on top, with what the answer says besides beside them."""
    match value:
        case Task():
            return _task(value)
        case Claim():
            waits = [{**record_as_json(each), "reachable": each.reachable} for each in value.dependencies]
            others = [handle for handle in value.holding if handle != value.handle]
            said = {**_task(value.task), "claim": value.handle, "attempt": value.attempt, "dependencies": waits}
            return {**said, "holding": others} if others else said
        case Done() | Dispatched():
            return {**_task(value.task), "already": True} if value.already else _task(value.task)
        case Cancelled():
            return {**_task(value.task), "former_holder": value.former_holder, "stranded": list(value.stranded)}
        case Outcome():
            said = {"id": value.id, "ok": value.ok}
            return (
                {**said, "already": value.already} if value.ok else {**said, "error": value.error, "code": value.code}
            )
        case TaskView() | ExportedTask():
            return {**record_as_json(value), "task": _task(value.task)}
        case TaskPage():
            return {"tasks": [_task(task) for task in value.tasks], "next": value.next}
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return record_as_json(value)


def _task(task: Task) -> dict[str, Any]:
    known: dict[str, Any] = record_as_json(task)
    known["depends_on"] = ",".join(task.depends_on) or None
    return {key: known[key] for key in TASK_KEYS} | known
