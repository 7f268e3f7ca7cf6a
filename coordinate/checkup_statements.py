"""The SQL of the checkup: rows that contradict one another, each statement bounded and read-only, and their repair."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Text, and_, case, cast, exists, func, or_, select, union_all, update

from coordinate.db.portable import BIGINT, at_once, const, given_integer, given_text, last_id, now
from coordinate.db.schema import (
    asks,
    attempts,
    board_rows,
    counters,
    event_cursors,
    event_feed,
    history,
    leases,
    metadata,
    sessions,
    task_dependencies,
    tasks,
    worktrees,
)
from coordinate.db.statements import Statements
from coordinate.states import BLOCKED, DONE, IN_PROGRESS, TODO

STATEMENTS = Statements("checkup: rows that contradict one another, and their repair")
add = STATEMENTS.add

t, a, e = tasks.c, attempts.c, task_dependencies.c
_TASK = tuple(each for each in tasks.c if each.name != "folded")
_limit = given_integer("limit")
_nothing = const("")


def _text(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(value, Text)


def _wrong(
    name: str, purpose: str, id_: ColumnElement[Any], found: ColumnElement[Any], source: Any, *where: Any
) -> None:
    """A question whose every row is a contradiction: what it is about, and what was found."""
    clause = select(id_.label("id"), found.label("found")).select_from(source).where(*where)
    add(name, purpose, clause.order_by(id_, found).limit(_limit))


# --- holders and attempts ---------------------------------------------------------------------------------------------

_open = a.ended_at.is_(None)
add(
    "wrong_holders",
    "Tasks with two open attempts.",
    select(a.task_id.label("id"), _text(func.count(a.attempt)).label("found"))
    .where(_open)
    .group_by(a.task_id)
    .having(func.count(a.attempt) > const(1))
    .order_by(a.task_id)
    .limit(_limit),
)
add(
    "wrong_claims",
    "Attempts that the history saw claimed twice.",
    select(history.c.task_id.label("id"), _text(history.c.attempt).label("found"))
    .where(history.c.action == const("CLAIM"))
    .group_by(history.c.task_id, history.c.attempt)
    .having(func.count(history.c.id) > const(1))
    .order_by(history.c.task_id, history.c.attempt)
    .limit(_limit),
)
_later = attempts.alias("later")
_wrong(
    "wrong_overlaps",
    "Attempts that went on after the next one had begun: two held the task at one time.",
    a.task_id,
    _text(a.attempt),
    attempts.join(_later, and_(_later.c.task_id == a.task_id, _later.c.attempt == a.attempt + const(1))),
    or_(_open, a.ended_at > _later.c.started_at),
)
_its_open = and_(a.task_id == t.id, _open)
_own = and_(_its_open, a.attempt == t.attempt, a.agent == t.assigned_agent)
_held = t.status == const(IN_PROGRESS)
_wrong(
    "wrong_holds",
    "Tasks whose holder has no open attempt, or that have an open attempt and no holder.",
    t.id,
    t.status,
    tasks,
    or_(and_(_held, ~exists(select(a.task_id).where(_own))), and_(~_held, exists(select(a.task_id).where(_its_open)))),
)
_highest = select(func.max(a.attempt)).where(a.task_id == t.id).scalar_subquery()
_claimed = select(func.max(history.c.attempt)).where(history.c.task_id == t.id).scalar_subquery()
_wrong(
    "wrong_attempts",
    "Tasks whose attempt went back: a number was given out that is above it.",
    t.id,
    _text(t.attempt),
    tasks,
    or_(t.attempt < func.coalesce(_highest, const(0)), t.attempt < func.coalesce(_claimed, const(0))),
)
_finished = exists(select(a.task_id).where(a.task_id == t.id, a.outcome.in_([const("completed"), const("submitted")])))
_wrong(
    "wrong_done",
    "Tasks that are DONE, and nobody did them.",
    t.id,
    t.status,
    tasks,
    t.status == const(DONE),
    ~_finished,
)

# --- dependencies -----------------------------------------------------------------------------------------------------

_dependency = tasks.alias("dependency")
_is_done = _dependency.c.status == const(DONE)
_disagrees = or_(and_(e.met.is_(const(True)), ~_is_done), and_(e.met.is_(const(False)), _is_done))
_wrong(
    "wrong_edges",
    "Dependencies that count as met and are not done, or the reverse.",
    e.task_id,
    e.depends_on_task_id,
    task_dependencies.join(_dependency, _dependency.c.id == e.depends_on_task_id),
    _disagrees,
)
_unmet = select(func.count(e.task_id, type_=BIGINT)).where(e.task_id == t.id, e.met.is_(const(False))).scalar_subquery()
_wrong(
    "wrong_counts",
    "Tasks that count more or fewer unmet dependencies than they have.",
    t.id,
    _text(t.unmet_dependencies),
    tasks,
    t.unmet_dependencies != _unmet,
)
add(
    "edges_after",
    "A page of all dependencies, for the search for circles.",
    select(e.task_id, e.depends_on_task_id)
    .where(
        or_(
            e.task_id > given_text("task_id"),
            and_(e.task_id == given_text("task_id"), e.depends_on_task_id > given_text("depends_on")),
        )
    )
    .order_by(e.task_id, e.depends_on_task_id)
    .limit(_limit),
)
_this_dependency_done = exists(select(_dependency.c.id).where(_dependency.c.id == given_text("depends_on"), _is_done))
add(
    "edge_mend",
    "Let an edge say whether its dependency is done; in a statement after that task was locked.",
    update(task_dependencies)
    .where(e.task_id == given_text("task_id"), e.depends_on_task_id == given_text("depends_on"))
    .values(met=case((_this_dependency_done, const(True)), else_=const(False)))
    .returning(e.met),
)
add(
    "count_mend",
    "Let a task count its unmet dependencies; in a statement after it was locked.",
    update(tasks)
    .where(t.id == given_text("task_id"), t.unmet_dependencies != _unmet)
    .values(unmet_dependencies=_unmet, revision=t.revision + const(1), updated_at=now())
    .returning(*_TASK),
)

# --- leases, what is set aside, cursors, numbers ----------------------------------------------------------------------

l = leases.c  # noqa: E741
_orphaned = or_(
    and_(
        l.task_id.is_not(None),
        l.worktree_id.is_(None),
        ~exists(select(t.id).where(t.id == l.task_id, _held, t.attempt == l.attempt)),
    ),
    and_(
        l.worktree_id.is_not(None),
        exists(select(worktrees.c.id).where(worktrees.c.id == l.worktree_id, worktrees.c.closed_at.is_not(None))),
    ),
    and_(
        l.task_id.is_(None),
        l.worktree_id.is_(None),
        exists(select(sessions.c.id).where(sessions.c.id == l.session_id, sessions.c.ended_at.is_not(None))),
    ),
)
_wrong(
    "wrong_leases",
    "Leases whose task, worktree or session is over.",
    _text(l.fence),
    l.resource,
    leases,
    l.released_at.is_(None),
    _orphaned,
)
add(
    "lease_orphaned",
    "The lease of a fence, if its task, worktree or session is over.",
    select(leases).where(l.fence == given_integer("fence"), l.released_at.is_(None), _orphaned),
)
_living = exists(select(l.id).where(l.id == t.parked_on, l.released_at.is_(None)))
_for_nothing = or_(
    and_(t.parked == const("scope"), or_(t.status != const(TODO), ~_living)),
    and_(t.parked == const("later"), t.parked_until.is_(None)),
    and_(t.parked != const("scope"), t.parked_on.is_not(None)),
)
_wrong(
    "wrong_parked",
    "Tasks set aside for a scope that nobody holds any more, or without a time at which they return.",
    t.id,
    t.parked,
    tasks,
    _for_nothing,
)
add(
    "task_put_back",
    "Put a locked task back into the queue, in its old place; one whose time has not come waits for that.",
    update(tasks)
    .where(t.id == given_text("task_id"), _for_nothing)
    .values(
        parked=case((t.not_before > at_once(), const("later")), else_=const("")),
        parked_until=case((t.not_before > at_once(), t.not_before), else_=const(None)),
        parked_on=const(None),
        revision=t.revision + const(1),
        updated_at=now(),
    )
    .returning(*_TASK),
)
_head = select(func.coalesce(func.max(event_feed.c.position), const(0))).scalar_subquery()
_pruned = select(counters.c.value).where(counters.c.kind == const("events_pruned")).scalar_subquery()
_wrong(
    "wrong_cursors",
    "Consumers that read beyond the end of the log.",
    event_cursors.c.consumer,
    _text(event_cursors.c.delivered),
    event_cursors,
    event_cursors.c.delivered > _head,
    event_cursors.c.delivered > func.coalesce(_pruned, const(0)),
)


_asked = exists(
    select(asks.c.id).where(
        asks.c.surface == const("row"), asks.c.surface_id == board_rows.c.id, asks.c.closed_at.is_(None)
    )
)
_wrong(
    "wrong_rows",
    "Rows of boards that are blocked and ask nobody, or ask somebody and are not blocked.",
    board_rows.c.id,
    board_rows.c.status,
    board_rows,
    (board_rows.c.status == const("blocked")) != _asked,
)


_its_ask = (
    select(asks.c.id)
    .where(asks.c.surface == const("task"), asks.c.surface_id == t.id, asks.c.closed_at.is_(None))
    .scalar_subquery()
)
_waited_for = exists(select(asks.c.id).where(asks.c.id == t.ask_id, asks.c.state == const("open"), asks.c.blocking))
_wrong(
    "wrong_asks",
    "Tasks that name another ask than the live one about them, or that go on while one is open that they wait for.",
    t.id,
    t.status,
    tasks,
    or_(
        func.coalesce(t.ask_id, _nothing) != func.coalesce(_its_ask, _nothing),
        and_(_waited_for, t.status.not_in([const(BLOCKED), const(IN_PROGRESS)])),
    ),
)


def _most(number: ColumnElement[Any]) -> ColumnElement[Any]:
    return select(func.coalesce(func.max(number), const(0), type_=BIGINT)).scalar_subquery()


_NUMBERED = {
    column.info["counter"]: column for table in metadata.sorted_tables for column in table.c if "counter" in column.info
}
_counted = union_all(
    *(
        select(counters.c.kind.label("id"), _most(used).label("used"), counters.c.value.label("last")).where(
            counters.c.kind == const(kind)
        )
        for kind, used in _NUMBERED.items()
    )
).subquery("asked")
add(
    "wrong_counters",
    "Counters below a number that is used.",
    select(*_counted.c).where(_counted.c.last < _counted.c.used).order_by(_counted.c.id),
)
_kinds = union_all(*(select(const(kind).label("id")) for kind in (*_NUMBERED, "events_pruned"))).subquery("kinds")
add(
    "missing_counters",
    "Counters that the migrations make and that are gone.",
    select(_kinds.c.id).where(_kinds.c.id.not_in(select(counters.c.kind))).order_by(_kinds.c.id),
)
_ids = [
    select(const(each.name).label("id"), _most(each.c.id).label("used"), cast(last_id(each.name), BIGINT).label("last"))
    for each in metadata.sorted_tables
    if "id" in each.c and each.c.id.identity is not None
]
_all_ids = union_all(*_ids).subquery("asked")
add(
    "ids_last",
    "Of every table with ids the highest, and the last that was given out.",
    select(*_all_ids.c).order_by(_all_ids.c.id),
)
