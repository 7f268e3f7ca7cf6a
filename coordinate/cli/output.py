"""Answers as programs read them: JSON in ASCII, so that any locale can print it."""

from __future__ import annotations

import json
import sys
from typing import Any

from coordinate.cli.shared import in_utf8
from coordinate.records import (
    Acknowledged,
    Asked,
    BoardSummary,
    BoardView,
    BoardWritten,
    Cancelled,
    Claim,
    Dispatched,
    Done,
    ExportedTask,
    Outcome,
    Responded,
    Task,
    TaskPage,
    TaskView,
)
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
    return json.dumps(_said(value), indent=2 if sys.stdout.isatty() else None)


def as_line(value: Any) -> str:
    """One JSON document on one line."""
    return json.dumps(_said(value))


def _said(value: Any) -> Any:
    return plain(value) if sys.getfilesystemencoding() == "utf-8" else in_utf8(plain(value))


def plain(value: Any) -> Any:
    """An answer as JSON values. The keys of a task or a board stay on top, with what else it says beside them."""
    match value:
        case Task():
            return _task(value)
        case Claim():
            return _claim(value)
        case Asked() | Acknowledged() | Responded():
            return _ask(value)
        case Done() | Dispatched():
            return {**_task(value.task), "already": True} if value.already else _task(value.task)
        case Cancelled():
            more = {"more_stranded": value.more_stranded} if value.more_stranded else {}
            stranded = {"former_holder": value.former_holder, "stranded": list(value.stranded)}
            return {**_task(value.task), **stranded, **more}
        case Outcome():
            said = {"id": value.id, "ok": value.ok}
            return (
                {**said, "already": value.already} if value.ok else {**said, "error": value.error, "code": value.code}
            )
        case TaskView() | ExportedTask():
            return {**record_as_json(value), "task": _task(value.task)}
        case BoardSummary():
            return {**record_as_json(value.board), **record_as_json(value.progress), "unseen": value.unseen}
        case BoardView() | BoardWritten():
            said = record_as_json(value)
            return {**said.pop("board"), **said}
        case TaskPage():
            return {"tasks": [_task(task) for task in value.tasks], "next": value.next}
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
    return record_as_json(value)


def lean(view: BoardView) -> dict[str, Any]:
    """A board, and of its rows only what they say: an agent pays for every empty field."""
    said: dict[str, Any] = plain(view)
    rows = [{name: value for name, value in row.items() if value not in ("", None, [])} for row in said["rows"]]
    return {**said, "rows": rows}


def _claim(claim: Claim) -> dict[str, Any]:
    waits = [{**record_as_json(each), "reachable": each.reachable} for each in claim.dependencies]
    said = {**_task(claim.task), "claim": claim.handle, "attempt": claim.attempt, "dependencies": waits}
    if claim.ask is not None:
        said["ask"] = record_as_json(claim.ask)
    if others := [handle for handle in claim.holding if handle != claim.handle]:
        said["holding"] = others
    return said


def _ask(answer: Asked | Acknowledged | Responded) -> dict[str, Any]:
    said: dict[str, Any] = record_as_json(answer.ask)
    if isinstance(answer, Responded):
        said["response"] = record_as_json(answer.response)
        if answer.replaced is not None:
            said["replaced"] = record_as_json(answer.replaced)
        if answer.warnings:
            said["warnings"] = list(answer.warnings)
    if answer.already:
        said["already"] = True
    return said


def _task(task: Task) -> dict[str, Any]:
    known: dict[str, Any] = record_as_json(task)
    known["depends_on"] = ",".join(task.depends_on) or None
    return {key: known[key] for key in TASK_KEYS} | known
