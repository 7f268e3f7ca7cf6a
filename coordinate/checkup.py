"""The checkup of a board: what of its rows cannot be, found by asking, and the repair of what can be derived.

A fault is something that no operation of the program leaves behind: somebody wrote past it, or storage lied. A repair
changes only what follows from other rows, under the locks that the operations take, and writes its story.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter

from coordinate import counters, events, leases
from coordinate.db.engine import Row, Tx
from coordinate.frozen import dataclass, replace
from coordinate.records import Symptom
from coordinate.work import story

FOUND_MAX = 1_000
SHOWN_MAX = 20
EDGES_PAGE = 10_000
# A sequence of Postgres takes part in no transaction: so far above, it overtakes whoever writes just now.
IDS_ROOM = 1_000


@dataclass(frozen=True)
class Check:
    """One question: the statement whose every row is a contradiction, and what to say of it."""

    kind: str
    severity: str
    said: str
    hint: str
    repair: str = ""
    mend: Callable[[Tx, Row], None] | None = None


def examine(tx: Tx) -> list[Symptom]:
    """Read the whole board and list what cannot be: two holders, attempts that went back, wrong counts, circles.

    One symptom for each kind, with the first twenty things it was found in; `repair` says what `repair` would do about
    it, and is empty where only a person can tell what is right. Reads every task: seconds on a large board. Changes
    nothing.
    """
    found = [symptom for check in CHECKS if (symptom := _ask(tx, check)[0])]
    return [*found, *_circles(tx), *_numbers(tx)]


def repair(tx: Tx) -> list[Symptom]:
    """Mend what follows from other rows: edges, counts, orphaned leases, tasks set aside, cursors, counters, ids.

    At most 1,000 of a kind in one transaction; `more` says to call again. What was mended is told in `repaired`, in
    the history of its task and in the log. The rest is listed as `examine` lists it.
    """
    tx.where_needed("lock_edges")
    told = []
    for check in CHECKS:
        symptom, rows = _ask(tx, check)
        if symptom is None:
            continue
        if check.mend is not None:
            for row in rows:
                check.mend(tx, row)
            symptom = replace(symptom, repaired=len(rows))
        told.append(symptom)
    return [*told, *_circles(tx), *_numbers(tx, mend=True)]


def _ask(tx: Tx, check: Check) -> tuple[Symptom | None, list[Row]]:
    rows = tx.all(check.kind, limit=FOUND_MAX)
    shown = tuple(f"{row.id}: {row.found}" for row in rows[:SHOWN_MAX])
    name = check.kind.removeprefix("wrong_")
    said, hint, more = check.said, check.hint, len(rows) == FOUND_MAX
    return (Symptom(name, check.severity, said, hint, check.repair, shown, len(rows), more) if rows else None), rows


def _circles(tx: Tx) -> list[Symptom]:
    """Tasks that wait for each other in a circle: what is left once all that can be taken away is taken away."""
    waits: dict[str, set[str]] = {}
    for row in _edges(tx):
        waits.setdefault(row.task_id, set()).add(row.depends_on_task_id)
    sorter = TopologicalSorter(waits)
    with suppress(CycleError):  # it goes as far as the circles let it all the same
        sorter.prepare()
    while free := sorter.get_ready():
        for task in free:
            waits.pop(task, None)
        sorter.done(*free)
    if not waits:
        return []
    shown = tuple(f"{task}: waits for {', '.join(sorted(on & waits.keys()))}" for task, on in waits.items())
    return [
        Symptom(
            "circles",
            "fault",
            "tasks wait for each other in a circle, or for one that stands in one",
            "take one dependency away: coordinate task depend remove",
            "",
            shown[:SHOWN_MAX],
            len(waits),
            False,
        )
    ]


def _edges(tx: Tx) -> Iterator[Row]:
    after = ("", "")
    while page := tx.all("edges_after", task_id=after[0], depends_on=after[1], limit=EDGES_PAGE):
        yield from page
        after = (page[-1].task_id, page[-1].depends_on_task_id)


def _numbers(tx: Tx, *, mend: bool = False) -> list[Symptom]:
    """Counters and sequences below what is used: the next number would come twice."""
    told = []
    if low := tx.all("wrong_counters"):
        for row in low if mend else ():
            counters.raise_to(tx, row.id, int(row.used))
        said = "a counter lies below a number that is used: the next would come twice"
        cure = "raise it to the highest that is used"
        told.append(Symptom("counters", "fault", said, "", cure, _used(low), len(low), False, len(low) if mend else 0))
    if gone := tuple(row.id for row in tx.all("missing_counters")):
        said = "counters are missing: what they number can be made no more"
        hint = "restore a backup; or insert each into counters, with the highest number that was ever used"
        told.append(Symptom("counters_missing", "fault", said, hint, "", gone, len(gone), False))
    # Who may not read a sequence is told no last number.
    if low := [row for row in tx.all("ids_last") if row.last is not None and row.last < row.used]:
        said = "ids were written past their sequence: the next insert fails, or an id comes back"
        hint = "as the role that owns the tables: coordinate db doctor --repair"
        cure = "let the sequence go on above the highest id, as the owner of the tables"
        raised = [counters.raise_ids(tx, row.id, int(row.used), room=IDS_ROOM) for row in low if mend]
        told.append(Symptom("ids", "fault", said, hint, cure, _used(low), len(low), False, sum(raised)))
    return told


def _used(rows: list[Row]) -> tuple[str, ...]:
    return tuple(f"{row.id}: {row.used} is used, {row.last} was the last given out" for row in rows)


# --- repairs ----------------------------------------------------------------------------------------------------------


def _mend_edge(tx: Tx, row: Row) -> None:
    tx.one("task_share", task_id=row.found)  # a completion of it waits, or was before
    tx.one("edge_mend", task_id=row.id, depends_on=row.found)


def _mend_count(tx: Tx, row: Row) -> None:
    tx.one("task_lock", task_id=row.id)
    if (mended := tx.one("count_mend", task_id=row.id)) is not None:
        _record(tx, mended, f"unmet dependencies: {row.found} became {mended.unmet_dependencies}")


def _mend_lease(tx: Tx, row: Row) -> None:
    if (seen := tx.one("lease_orphaned", fence=int(row.id))) is None:
        return
    leases.lock_scopes(tx, seen.project)  # whoever claims its task meanwhile takes it over, or does not see it
    tx.one("lease_by_fence", fence=int(row.id))
    if (found := tx.one("lease_orphaned", fence=int(row.id))) is not None:
        leases.end(tx, [found], reason="swept", by="system")


def _put_back(tx: Tx, row: Row) -> None:
    tx.one("task_lock", task_id=row.id)  # it may have been answered, or taken, since it was found
    if (mended := tx.one("task_put_back", task_id=row.id)) is not None:
        _record(tx, mended, f"was set aside ({row.found}) for nothing; it is back in the queue")
        tx.announce("ready")


def _mend_cursor(tx: Tx, row: Row) -> None:
    cursor, end = tx.one("cursor_lock", consumer=row.id), events.head(tx)
    if cursor is not None and cursor.delivered > end:  # the log goes on, and may have come there since
        tx.run("cursor_rewind", consumer=row.id, position=min(int(cursor.acknowledged), end))


def _record(tx: Tx, row: Row, detail: str) -> None:
    story.record(tx, row, "UPDATE", "task.updated", agent="system", detail=f"repaired: {detail}")


# Edges before counts, leases before what was set aside on them.
CHECKS = (
    Check(
        "wrong_holders",
        "fault",
        "two attempts of one task are open at once",
        "the index idx_attempts_open is gone: compare the schema with `coordinate db check`",
    ),
    Check(
        "wrong_claims",
        "fault",
        "one attempt was claimed twice: two agents held one handle",
        "the events and the history tell who; a restored file that both sides went on with looks like this",
    ),
    Check(
        "wrong_overlaps",
        "warning",
        "an attempt ended after the next one had begun",
        "a clock that was set back looks like this; else somebody wrote past the program",
    ),
    Check(
        "wrong_holds",
        "fault",
        "a holder without an open attempt, or an open attempt without a holder",
        "cancel and reopen the task",
    ),
    Check(
        "wrong_attempts",
        "fault",
        "a task's attempt lies below one that was given out: an old handle could become current again",
        "stop the agents, then `coordinate db restore --settle --yes` raises all of them, and ends every claim",
    ),
    Check("wrong_done", "warning", "a task is DONE, and no attempt did it", "somebody wrote past the program"),
    Check(
        "wrong_edges",
        "fault",
        "a dependency counts as met and is not done, or the reverse",
        "",
        "let it say whether the dependency is done",
        _mend_edge,
    ),
    Check(
        "wrong_counts",
        "fault",
        "a task counts more or fewer unmet dependencies than it has: it starts too early, or never",
        "",
        "count them again",
        _mend_count,
    ),
    Check(
        "wrong_leases",
        "fault",
        "a lease whose task, worktree or session is over",
        "",
        "end it as swept",
        _mend_lease,
    ),
    Check(
        "wrong_parked",
        "fault",
        "a task is set aside, and nothing will ever bring it back",
        "",
        "put it back into the queue",
        _put_back,
    ),
    Check(
        "wrong_rows",
        "fault",
        "a row of a board is blocked and nobody is asked, or somebody is asked and it is not blocked",
        "write the row anew on its board: blocked with what is asked, or withdraw its ask",
    ),
    Check(
        "wrong_asks",
        "fault",
        "a task names another ask than the one that lives about it, or goes on while it waits for a human",
        "withdraw the ask, and ask anew",
    ),
    Check(
        "wrong_cursors",
        "fault",
        "a consumer has read beyond the end of the log: it would miss what comes next",
        "a log that was put back to an earlier day looks like this",
        "set it to what it acknowledged, or to the end of the log",
        _mend_cursor,
    ),
)
