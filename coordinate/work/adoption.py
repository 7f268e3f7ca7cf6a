"""Adoption: a board of the kanban tool becomes a board of ours, whole or not at all.

The board comes tidied (see `tidying.py`); here it is written, in one transaction and in bounded batches. Numbers, ids
and positions go on above everything that the source ever gave out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from coordinate import counters, inputs
from coordinate.db.engine import Tx
from coordinate.errors import NotEmpty, PermissionDenied
from coordinate.records import Adopted
from coordinate.states import DONE, FINAL
from coordinate.work.tidying import TABLES, Tidied, batches

FRESH_LEASE = timedelta(minutes=15)


def adopt(tx: Tx, *, board: Tidied) -> Adopted:
    """Write a tidied board into this one, which must hold no task. Raises `NotEmpty`, `PermissionDenied`."""
    # Whoever dispatches takes this counter first: holding it, we look and write with no task coming in between.
    _, now = counters.take(tx, "task", 0)
    _refuse_tasks(tx)
    counters.raise_to(tx, "task", board.highest)
    _continue_ids(tx, board)
    written = _Written(board, now)
    carried: dict[str, int] = {}
    for table in TABLES:
        carried[table] = 0
        for batch in batches(getattr(written, table)()):
            tx.run_many(f"adopt_{table}", batch)
            carried[table] += len(batch)
    _continue_feed(tx, board)
    tx.announce("ready")
    return _report(tx, board, carried)


def _refuse_tasks(tx: Tx) -> None:
    found = tx.one("tasks_any")
    if found is not None and found.any:
        raise NotEmpty(
            "the board holds tasks already; adopting a board into it would mix them",
            hint="name another with --db: a new file, or an empty database or schema",
        )


def _continue_ids(tx: Tx, board: Tidied) -> None:
    """Let ids rise to the highest that the source ever gave out, so that rows without gaps keep theirs."""
    for table in ("notes", "history", "events"):
        before = _before_first(board, table)
        if before and not counters.raise_ids(tx, table, before):
            raise PermissionDenied(
                f"the ids of {table} must go on above {before}, and only the owner of the tables may let them",
                hint="adopt as the role that owns the tables; nothing was changed",
            )


def _continue_feed(tx: Tx, board: Tidied) -> None:
    """The same for the positions of events where these are given after commit; the lock is held for one statement."""
    tx.where_needed("feed_lock")
    tx.where_needed("feed_raise", least=_before_first(board, "events"))


def _before_first(board: Tidied, table: str) -> int:
    return max(0, board.last_id[table] - board.count(table))


def _report(tx: Tx, board: Tidied, carried: dict[str, int]) -> Adopted:
    last = tx.the("counter_value", kind="task")
    findings = board.findings
    return Adopted(
        source=board.source,
        found=dict(board.found),
        carried=carried,
        repairs=tuple(findings.repairs),
        repairs_total=findings.repairs_total,
        left_out=tuple(findings.left_out),
        left_out_total=findings.left_out_total,
        kinds=dict(findings.kinds),
        next_id=f"TASK-{last.value + 1}",
    )


class _Written:
    """The rows of the tidied board as our statements take them, which find what they need of each by its name."""

    def __init__(self, board: Tidied, now: datetime) -> None:
        self._rows = board.rows
        self._now = now

    def tasks(self) -> Iterator[dict[str, Any]]:
        # What could not be read is taken from what is near: the first history row, the last change, the adoption.
        query = (
            "SELECT t.*, (SELECT min(created_at) FROM history WHERE number = t.number) AS begun,"
            " (SELECT max(created_at) FROM history WHERE number = t.number AND action IN ('COMPLETE', 'REVIEW'))"
            " AS ended,"
            " (SELECT count(*) FROM edges e JOIN tasks d ON d.number = e.depends_on"
            f" WHERE e.number = t.number AND d.status <> '{DONE}') AS unmet FROM tasks t ORDER BY number"
        )
        for row in self._rows(query):
            created_at = self._moment(row["created_at"] or row["begun"] or row["updated_at"])
            updated_at = self._moment(row["updated_at"] or row["created_at"] or row["begun"])
            lease = row["lease_until"] or (self._now + FRESH_LEASE).isoformat()
            finished = self._moment(row["ended"]) if row["ended"] else updated_at
            yield {
                **row,
                "id": f"TASK-{row['number']}",
                "agent": row["holder"],
                "lease_until": self._moment(lease) if row["holder"] else None,
                "unmet_dependencies": row["unmet"],
                "folded": inputs.fold(f"{row['title']}\n{row['body']}" if row["body"] else row["title"]),
                "created_at": created_at,
                "updated_at": updated_at,
                "finished_at": finished if row["status"] in FINAL else None,
            }

    def task_dependencies(self) -> Iterator[dict[str, Any]]:
        query = (
            f"SELECT e.number, e.depends_on, d.status = '{DONE}' AS met FROM edges e"
            " JOIN tasks d ON d.number = e.depends_on ORDER BY e.number, e.depends_on"
        )
        for row in self._rows(query):
            edge = {"task_id": f"TASK-{row['number']}", "depends_on": f"TASK-{row['depends_on']}"}
            yield {**edge, "met": bool(row["met"])}

    def attempts(self) -> Iterator[dict[str, Any]]:
        for row in self._rows("SELECT * FROM attempts ORDER BY number, attempt"):
            started_at = self._moment(row["started_at"])
            ended_at = self._moment(row["ended_at"]) if row["outcome"] else None
            yield {**row, "task_id": f"TASK-{row['number']}", "started_at": started_at, "ended_at": ended_at}

    def notes(self) -> Iterator[dict[str, Any]]:
        for row in self._rows("SELECT * FROM notes ORDER BY place"):
            said = {"folded": inputs.fold(row["content"]), "created_at": self._moment(row["created_at"])}
            yield {**row, "task_id": f"TASK-{row['number']}", **said}

    def history(self) -> Iterator[dict[str, Any]]:
        for row in self._rows("SELECT * FROM history ORDER BY place"):
            yield {**row, "task_id": f"TASK-{row['number']}", "created_at": self._moment(row["created_at"])}

    def events(self) -> Iterator[dict[str, Any]]:
        for row in self._rows("SELECT * FROM events ORDER BY place"):
            payload = json.loads(row["payload"])
            words = " ".join(part for part in (row["ref"] or "", *map(str, payload.values())) if part)
            created_at = self._moment(row["created_at"])
            yield {**row, "created_at": created_at, "payload": payload, "folded": inputs.fold(words)}

    def _moment(self, text: str | None) -> datetime:
        return datetime.fromisoformat(text) if text else self._now
