"""A task's story: each change writes its history row and its event in its own transaction, or neither."""

from __future__ import annotations

from collections.abc import Iterable

from coordinate import events, inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import NotFound, OutdatedRevision
from coordinate.frozen import record_of
from coordinate.records import Dependency, Task


def record(
    tx: Tx,
    row: Row | Task,
    action: str,
    event_type: str,
    *,
    agent: str,
    attempt: int | None = None,
    detail: str = "",
    to: str | None = None,
    **payload: object,
) -> None:
    """Write what happened to a task by `agent` (and `to` whom it went, if it did).

    The event's payload values are texts, and empty ones are left out, as its readers expect.
    """
    tx.at_end("history_insert", task_id=row.id, agent=agent, action=action, attempt=attempt, detail=detail)
    tell(tx, row, event_type, agent=agent, attempt=attempt, to=to, **payload)


def tell(
    tx: Tx,
    row: Row | Task,
    event_type: str,
    *,
    agent: str,
    attempt: int | None = None,
    to: str | None = None,
    **payload: object,
) -> None:
    """Log an event of a task whose history is written already; `record` says what its payload is."""
    who = {"agent": agent} if to is None else {"agent": to, "from_agent": agent}
    task = {"task_id": row.id, "title": row.title, "project": row.project, "priority": row.priority}
    said = {**task, **who, "attempt": attempt, **payload}
    texts = {key: str(value) for key, value in said.items() if value not in (None, "")}
    events.append(tx, event_type, texts, project=row.project, agent=agent, ref=row.id)


def announce(tx: Tx, *rows: Row | Task) -> None:
    """Wake whoever waits for work, if nothing is in the way of one of these TODO tasks."""
    if any(row.unmet_dependencies == 0 and row.parked == "" for row in rows):
        tx.announce("ready")


def find(tx: Tx, task_id: str, *, lock: bool = False) -> Row:
    """The task, locked for the rest of the transaction if asked; raises `NotFound`."""
    row = tx.one("task_lock" if lock else "task", task_id=task_id)
    if row is None:
        raise not_there(task_id)
    return row


def not_there(task_id: str) -> NotFound:
    """There is no such task."""
    return NotFound(f"there is no {task_id}", hint="coordinate task list shows what there is", task_id=task_id)


def refuse_outdated(row: Row, expected_revision: int | None) -> None:
    """Refuse what was meant for a locked task as it stood at another revision; None is meant for any."""
    if expected_revision is None:
        return
    inputs.integer(expected_revision, "expected_revision")
    if row.revision != expected_revision:
        raise OutdatedRevision(
            f"{row.id} is {row.status} at revision {row.revision}, not {expected_revision}: it was changed meanwhile",
            hint=f"read it again: coordinate task view {row.id}",
            task_id=row.id,
            status=row.status,
            revision=int(row.revision),
        )


def task_of(tx: Tx, row: Row) -> Task:
    """The record of one row, with what it depends on."""
    return tasks_of(tx, [row])[0]


def tasks_of(tx: Tx, rows: Iterable[Row]) -> list[Task]:
    """The records of a page of rows, with what they depend on."""
    rows = list(rows)
    waits: dict[str, list[str]] = {}
    for edge in edges_of(tx, [row.id for row in rows]):
        waits.setdefault(edge.task_id, []).append(edge.depends_on_task_id)
    return [record_of(Task, {**row._asdict(), "depends_on": tuple(waits.get(row.id, ()))}) for row in rows]


def edges_of(tx: Tx, ids: list[str]) -> list[Row]:
    """What tasks depend on, without what came of it."""
    return tx.all("edges_of", ids=ids) if ids else []


def dependency_of(row: Row) -> Dependency:
    """What a task depends on, with what came of it."""
    return Dependency(row.depends_on_task_id, row.title, row.status, row.met, row.result)


def note(tx: Tx, task_id: str, author: str, note_type: str, content: str) -> None:
    """Add a note to a task."""
    tx.at_end("note_insert", **note_of(task_id, author, note_type, content))


def note_of(task_id: str, author: str, note_type: str, content: str) -> dict[str, str]:
    """What a note is made of."""
    return {
        "task_id": task_id,
        "author": author,
        "note_type": note_type,
        "content": content,
        "content_folded": inputs.fold(content),
    }
