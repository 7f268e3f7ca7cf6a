"""Who waits for whom. `unmet_dependencies` of a task always equals the number of its edges that are not met.

Finishing a task turns its unmet edges by compare-and-set, then subtracts from each dependent what it turned, in a
statement after the status change: a statement keeps the snapshot from before it waited, so what depends on other rows
comes later than the lock it relies on. Adding or removing an edge takes one lock per board, holds the rows of both
tasks, and looks at them in the next statement.

So that none waits for another in a circle, a task is locked before those that wait for it, and of several the older
one first: mostly what is waited for is older.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinate import inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import DependencyCycle, InvalidState, NotFound, UnreachableDependency
from coordinate.records import Task
from coordinate.states import CANCELLED, DONE, FINAL, TODO
from coordinate.work import story

SHOWN_MAX = 100


def depend_add(tx: Tx, *, task: str, on: str, agent: str = "") -> Task:
    """Let a task wait for another one too. Adding an edge that is there already changes nothing.

    A task that is held already goes on; the new dependency counts once it is back in the queue. Raises
    `DependencyCycle` when the other waits for this one, directly or through others, whoever adds an edge at the same
    moment; `UnreachableDependency` when the other was cancelled; `InvalidState` when this task is finished.
    """
    task_id, on_id = inputs.task_id(task), inputs.task_id(on, "on")
    agent = inputs.agent(agent)
    _refuse_finished(story.find(tx, task_id))
    _refuse_itself(task_id, on_id)
    _hold_both(tx, task_id, on_id)
    row = story.find(tx, task_id)  # it may have been finished while this waited
    _refuse_finished(row)
    if _add_edge(tx, task_id, on_id):
        row = _changed(tx, task_id, agent, "task.dependency_added", on_id)
    return story.task_of(tx, row)


def depend_remove(tx: Tx, *, task: str, on: str, agent: str = "") -> Task:
    """Let a task wait for another one no longer. Raises `NotFound` when it does not."""
    task_id, on_id = inputs.task_id(task), inputs.task_id(on, "on")
    agent = inputs.agent(agent)
    story.find(tx, task_id)
    _hold_both(tx, task_id, on_id)
    removed = tx.one("edge_delete", task_id=task_id, depends_on=on_id)
    if removed is None:
        raise NotFound(f"{task_id} does not depend on {on_id}", hint=f"see: coordinate task view {task_id}")
    if not removed.met:
        _count_down(tx, [task_id])
    return story.task_of(tx, _changed(tx, task_id, agent, "task.dependency_removed", on_id))


def _hold_both(tx: Tx, task_id: str, on_id: str) -> None:
    """Keep other edges from being added or removed, and hold both tasks, in the order in which a completion does."""
    tx.ran("lock_edges")
    tx.run("task_share", task_id=on_id)
    tx.run("task_lock", task_id=task_id)


def _add_edge(tx: Tx, task_id: str, on_id: str) -> bool:
    """Add an edge from a task that others may wait for already to another, both held; whether it is new."""
    status = _status_of(tx, on_id)()
    _refuse_circle(tx, task_id, on_id)
    _refuse_cancelled(on_id, status)
    edge = tx.one("edge_insert", task_id=task_id, depends_on=on_id)
    if edge is not None and not edge.met:
        tx.run("dependent_counts", task_id=task_id)
    return edge is not None


def hold_for_new(tx: Tx, waits: dict[str, list[str]]) -> set[str]:
    """Hold still what tasks that will be written now are to wait for; returns what of it is done already.

    Nobody waits for them yet, so no circle can close.
    """
    tx.ran("lock_edges")
    for task_id, named in waits.items():
        for on_id in named:
            _refuse_itself(task_id, on_id)
    outside = sorted({on_id for named in waits.values() for on_id in named}, key=inputs.task_number)
    held_still = {on_id: _hold_still(tx, on_id) for on_id in outside}
    statuses = {on_id: status() for on_id, status in held_still.items()}
    for on_id, status in statuses.items():
        _refuse_cancelled(on_id, status)
    return {on_id for on_id, status in statuses.items() if status == DONE}


def _refuse_finished(row: Row) -> None:
    if row.status in FINAL:
        raise InvalidState(f"{row.id} is {row.status} and waits for nothing", hint="reopen it first", status=row.status)


def _refuse_itself(task_id: str, on_id: str) -> None:
    if on_id == task_id:
        raise DependencyCycle(f"{task_id} cannot wait for itself", hint="leave it out", task_id=task_id)


def _hold_still(tx: Tx, on_id: str) -> Callable[[], str]:
    """Lock a dependency against completion until the edge is written; its status, read in the next statement."""
    tx.run("task_share", task_id=on_id)
    return _status_of(tx, on_id)


def _status_of(tx: Tx, on_id: str) -> Callable[[], str]:
    looked = tx.send("task", task_id=on_id)

    def status() -> str:
        if not (rows := looked()):
            raise NotFound(f"there is no {on_id} to depend on", hint="dispatch it first", task_id=on_id)
        return str(rows[0].status)

    return status


def _refuse_cancelled(on_id: str, status: str) -> None:
    if status == CANCELLED:
        raise UnreachableDependency(
            f"{on_id} was cancelled: what depends on it would wait for ever",
            hint=f"reopen it with `coordinate task reopen {on_id}`, or depend on another task",
            task_id=on_id,
        )


def met_by(tx: Tx, task_id: str) -> None:
    """The task is done: whoever waited for it waits for one less. Runs after the statement that made it DONE."""
    if tx.ran("dependents_release", depends_on=task_id):
        return
    turned = [row.task_id for row in tx.all("edges_meet", depends_on=task_id)]
    _count_down(tx, sorted(turned, key=inputs.task_number))


def unmet_by(tx: Tx, task_id: str) -> None:
    """The task is done no more: whoever depended on it waits for it again."""
    turned = [row.task_id for row in tx.all("edges_unmeet", depends_on=task_id)]
    if turned:
        tx.run("dependents_count_up", ids=sorted(turned, key=inputs.task_number))


def stranded_by(tx: Tx, task_id: str) -> tuple[tuple[str, ...], int]:
    """Live tasks with an unmet edge to this one, at most a hundred, and how many there are beyond."""
    return _first_of(tx, "stranded", task_id)


def dependents_of(tx: Tx, task_id: str) -> tuple[tuple[str, ...], int]:
    """Tasks with an edge to this one, finished or not, likewise."""
    return _first_of(tx, "dependents", task_id)


def _first_of(tx: Tx, kind: str, task_id: str) -> tuple[tuple[str, ...], int]:
    ids = tuple(row.id for row in tx.all(f"{kind}_of", task_id=task_id, limit=SHOWN_MAX))
    counted = tx.one(f"{kind}_count", task_id=task_id) if len(ids) == SHOWN_MAX else None
    return ids, int(counted.count) - SHOWN_MAX if counted else 0


def _count_down(tx: Tx, ids: list[str]) -> None:
    if not ids:
        return
    for row in tx.all("dependents_count_down", ids=ids):
        if row.status == TODO:
            story.announce(tx, row)


def _refuse_circle(tx: Tx, task_id: str, on_id: str) -> None:
    found = tx.one("edge_reaches", from_task=on_id, to_task=task_id)
    if found is not None and found.reaches:
        raise DependencyCycle(
            f"{on_id} already waits for {task_id}: the edge would close a circle",
            hint=f"see: coordinate task why {on_id}",
            task_id=task_id,
            on=on_id,
        )


def _changed(tx: Tx, task_id: str, agent: str, event_type: str, on_id: str) -> Row:
    row = tx.the("task_touch", task_id=task_id)
    detail = f"{event_type.removeprefix('task.dependency_')} dependency {on_id}"
    story.record(tx, row, "UPDATE", event_type, agent=agent, detail=detail, depends_on=on_id)
    return row
