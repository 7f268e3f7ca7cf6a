"""The SQL of the work wing, in Core: tasks, claims, dependencies, review, notes, history, lists.

Constants are literals, so that the partial indexes of the queue match. Guards and targets of a move come from
`states.py`. Rules that hold throughout: check and change in one statement; order by something unique; a statement that
depends on other rows than the one it locks is a later statement.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    DateTime,
    Text,
    Update,
    and_,
    case,
    cast,
    column,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    table,
    tuple_,
    union,
    update,
)
from sqlalchemy.sql import visitors

from coordinate.db.portable import (
    BIGINT,
    among,
    at_once,
    before,
    board_lock,
    const,
    contains,
    counted,
    day_of,
    from_now,
    given,
    given_instant,
    given_integer,
    given_text,
    greatest,
    insert_unless_there,
    now,
    one_of,
    optional,
    plus_seconds,
)
from coordinate.db.schema import (
    asks,
    attempts,
    boards,
    event_feed_state,
    events,
    history,
    leases,
    metadata,
    notes,
    projects,
    task_dependencies,
    task_scopes,
    tasks,
)
from coordinate.db.statements import Statements
from coordinate.shared_statements import EVENT_APPEND, woken
from coordinate.states import BLOCKED, CANCELLED, DONE, FINAL, IN_PROGRESS, IN_REVIEW, MAX_ATTEMPTS, MOVE, TODO

STATEMENTS = Statements("work: tasks, claims, dependencies, review, notes, history")
add = STATEMENTS.add

LEASE_SECONDS = 900

t = tasks.c
edge = task_dependencies.c
_TASK = tuple(column for column in tasks.c if column.name != "folded")
# A holder is told what the task depends on; most depend on nothing, and then nobody asks.
_TAKEN = (*_TASK, exists(select(edge.task_id).where(edge.task_id == t.id).correlate(tasks)).label("depends"))
_ATTEMPT = tuple(column for column in attempts.c if column.name != "told_at")
_QUEUE_ORDER = (t.priority, t.created_at, t.number)
_THIS = t.id == given_text("task_id")


def _in(column: ColumnElement[Any], statuses: tuple[str, ...]) -> ColumnElement[bool]:
    """`column IN (…)` with literals."""
    return column == const(statuses[0]) if len(statuses) == 1 else column.in_([const(status) for status in statuses])


_live = t.status.not_in([const(status) for status in FINAL])


def _named(state: ColumnElement[bool]) -> ColumnElement[bool]:
    """A state of rows that are found by their ids, written so that none of the indexes on states fits.

    Where a board was analyzed while it was quiet, Postgres takes such an index for empty, and would read all that is
    held, or all that waits, to find the one row that it was told.
    """

    def hidden(element: Any, **_: object) -> ColumnElement[Any] | None:
        return element.concat(const("")) if element is t.status or element is t.parked else None

    found: ColumnElement[bool] = visitors.replacement_traverse(state, {}, hidden)
    return found


_READY = and_(t.status == const(TODO), t.unmet_dependencies == const(0), t.parked == const(""))
_HELD = t.status == const(IN_PROGRESS)
_CURRENT = and_(
    _THIS, _named(_HELD), t.attempt == given_integer("attempt"), t.assigned_agent == given_text("agent")
)  # the handle shown is the latest, and it is the caller's

_CHANGED = {"revision": t.revision + const(1), "updated_at": now()}
_NO_HOLDER = {"assigned_agent": const(None), "session_id": const(None), "lease_until": const(None)}
_NO_REVIEWER = {"reviewer": const(None), "review_until": const(None)}
_LIES_AHEAD = t.not_before > at_once()
_BACK_IN_QUEUE = {
    "parked": case((_LIES_AHEAD, const("later")), else_=const("")),
    "parked_until": case((_LIES_AHEAD, t.not_before), else_=const(None)),
}
# What comes out of the way of an obstacle may still have to wait for its time.
_UNPARKED = {**_BACK_IN_QUEUE, "parked_on": const(None), "reserved_for": const(None)}


# --- the queue: what is due, then the claim ---------------------------------------------------------------------------


def _acted_on(*by: ColumnElement[bool], moment: ColumnElement[Any] | None = None) -> ColumnElement[bool]:
    """Whether somebody acts on the response that a task brings: a look at that one ask, for few tasks have one.

    A scalar sub-select, for Postgres would read all asks into a table of hashes to ask whether one is among them.
    """
    lasts = asks.c.taken_until > (now() if moment is None else moment)
    taken = (
        select(asks.c.id)
        .where(asks.c.id == t.ask_id, asks.c.handled_at.is_not(None), lasts, *by)
        .correlate(tasks)
        .scalar_subquery()
    )
    return and_(t.ask_id.is_not(None), taken.is_not(None))


# Another session of the same agent is another too.
_left_to_another = _acted_on(
    func.coalesce(asks.c.taken_session_id, asks.c.taken_by, type_=Text())
    != func.coalesce(given_text("session"), given_text("agent"), type_=Text())
)


# The heads of two indexes: asked for the least of all, or whether any is past, Postgres may read all of them.
def _head(moment: ColumnElement[Any], state: ColumnElement[bool]) -> ColumnElement[Any]:
    """The first moment; on SQLite those that have none would come before it."""
    return (
        select(moment)
        .where(state, moment.is_not(None))
        .order_by(moment)
        .limit(const(1))
        .correlate(None)
        .scalar_subquery()
    )


_first_expiry = _head(t.lease_until, _HELD)
_first_due = _head(t.parked_until, t.parked != const(""))
_reserved_for_me = and_(t.parked == const("reserved"), t.reserved_for == given_text("agent"))
_any_reserved = exists(select(t.number).where(_reserved_for_me).correlate(None))
add(
    "queue_due",
    "Whether a lease is past, something set aside is due, or something is reserved for the caller; mostly none is.",
    select(
        (_first_expiry <= now()).label("expired"),
        (_first_due <= now()).label("parked"),
        _any_reserved.label("reserved"),
    ),
)
_spent = t.expiries + const(1) >= t.max_attempts
_taken_back = {
    "status": case((_spent, const(MOVE["exhaust"].target)), else_=const(MOVE["expire"].target)),
    "expiries": t.expiries + const(1),
    **_NO_HOLDER,
    **_BACK_IN_QUEUE,
    **_CHANGED,
}
_expired: CTE = (
    select(t.id)
    .where(_HELD, t.lease_until <= now())
    .order_by(t.lease_until, t.number)
    .limit(given_integer("limit"))
    .with_for_update(skip_locked=True)
    .cte("expired")
)
add(
    "queue_take_back",
    "Take back a batch of tasks whose lease is past, the longest past first; spent ones become BLOCKED.",
    update(tasks)
    .where(one_of(t.id, _expired), _named(_HELD), t.lease_until <= now())
    .values(**_taken_back)
    .returning(*_TASK),
)
_held_now: CTE = (
    select(t.id).where(_HELD).order_by(t.number).limit(given_integer("limit")).with_for_update().cte("held")
)
add(
    "holds_end",
    "Take a batch of held tasks back, whatever is left of their leases: the board was put back to an earlier day.",
    update(tasks)
    .where(one_of(t.id, _held_now), _named(_HELD))
    .values(status=const(TODO), **_NO_HOLDER, **_BACK_IN_QUEUE, **_CHANGED)
    .returning(*_TASK),
)
add(
    "reviews_end",
    "Nobody has reserved a review any more.",
    update(tasks).where(t.status == const(IN_REVIEW), t.reviewer.is_not(None)).values(**_NO_REVIEWER),
)
add(
    "tasks_raise",
    "Every attempt and revision goes on that much higher.",
    update(tasks).values(
        attempt=t.attempt + given_integer("attempts"), revision=t.revision + given_integer("revisions")
    ),
)
add(
    "task_take_back",
    "The same for one task, before it is claimed by name.",
    update(tasks).where(_THIS, _named(_HELD), t.lease_until <= now()).values(**_taken_back).returning(*_TASK),
)
_due: CTE = (
    select(t.id)
    .where(t.parked != const(""), t.parked_until <= now())
    .order_by(t.parked_until, t.number)
    .limit(given_integer("limit"))
    .with_for_update(skip_locked=True)
    .cte("due")
)
add(
    "queue_unpark",
    "Put a batch of what is due back into the queue, in its old place. Not a change: no revision, no event.",
    update(tasks)
    .where(one_of(t.id, _due), _named(t.parked != const("")), t.parked_until <= now())
    .values(**_UNPARKED)
    .returning(t.id),
)
add(
    "task_unpark",
    "The same for one task before it is claimed by name; what is in the way of its scopes is looked at anew.",
    update(tasks)
    .where(_THIS, _named(or_(t.parked == const("scope"), and_(t.parked != const(""), t.parked_until <= now()))))
    .values(**_UNPARKED)
    .returning(t.id),
)

_project_lease = select(projects.c.lease_seconds).where(projects.c.name == t.project).scalar_subquery()
_lease = func.coalesce(
    cast(given_integer("lease_seconds"), BigInteger), _project_lease, const(LEASE_SECONDS), type_=BIGINT
)
# What may be another's after all, its scopes or its response, keeps what it had until that is known.
_may_go_back = or_(t.scoped, t.ask_id.is_not(None))
_claimed = {
    "status": const(MOVE["claim"].target),
    "assigned_agent": given_text("agent"),
    "session_id": given_text("session"),
    "lease_seconds": case((_may_go_back, t.lease_seconds), else_=_lease),
    "lease_until": from_now(_lease),
    "attempt": t.attempt + const(1),
    "claimed_by": case((_may_go_back, t.claimed_by), else_=func.coalesce(t.claimed_by, given_text("agent"))),
    "revision": t.revision + const(1),
    "updated_at": case((_may_go_back, t.updated_at), else_=now()),
}


def _claim(
    *,
    by_project: bool = False,
    one: bool = False,
    wait: bool = False,
    ready: ColumnElement[bool] = _READY,
    unless: ColumnElement[bool] | None = None,
    **more: Any,
) -> Update:
    """Check and change at once: the head of the queue, locked (or skipped where somebody else is at it), is taken.

    `one`: Postgres knows that it is a single task, and will never sort a queue for it, however large. `unless`: where
    that holds, it looks for no role, and so at no task.
    """
    role = given_text("role") if unless is None else case((unless, const(None)), else_=given_text("role"))
    project = [t.project == given_text("project")] if by_project else []
    picked = (
        select(t.id)
        .where(t.role_boundary == role, *project, ready, ~_left_to_another)
        .order_by(*_QUEUE_ORDER)
        .limit(const(1) if one else given_integer("limit"))
        .with_for_update(skip_locked=not wait)
        .cte("picked")
    )
    return update(tasks).where(one_of(t.id, picked), _named(ready)).values(**_claimed, **more).returning(*_TAKEN)


_any_own_aside = exists(
    select(leases.c.id)
    .join(tasks, and_(t.parked_on == leases.c.id, t.parked == const("scope")))
    .where(leases.c.session_id == given_text("session"), leases.c.released_at.is_(None))
    .correlate(None)
)
_comes_first = or_(_first_expiry <= now(), _first_due <= now(), _any_reserved, _any_own_aside)
add(
    "claim_at_once",
    "Take the first ready task of a role, unless something is due, reserved, or set aside on what the caller holds.",
    _claim(one=True, unless=_comes_first),
)
add("claim_at_once_project", "The same in one project.", _claim(by_project=True, one=True, unless=_comes_first))
add("claim_next", "Take the first ready task of a role.", _claim(one=True))
add("claim_next_project", "Take the first ready task of a role in one project.", _claim(by_project=True, one=True))
add("claim_next_many", "Take the first ready tasks of a role.", _claim())
add("claim_next_project_many", "Take the first ready tasks of a role in one project.", _claim(by_project=True))
_ready_or_waiting = and_(t.status == const(TODO), t.parked == const(""))
for _any, _ready in (("", _READY), ("_any", _ready_or_waiting)):
    for _name, _more in (("", []), ("_project", [t.project == given_text("project")])):
        add(
            f"claim_next{_any}{_name}_wait",
            "One more look that waits for rows others have locked: they may let go of them.",
            _claim(by_project=bool(_name), wait=True, ready=_ready),
            only="postgresql",
        )
        add(
            f"claim_next{_any}{_name}_seen",
            "Whether such a task is there although none was to be had: somebody has it locked.",
            select(t.id)
            .where(t.role_boundary == given_text("role"), *_more, _ready, ~_left_to_another)
            .order_by(*_QUEUE_ORDER)  # by the index, however few are ready
            .limit(const(1)),
            only="postgresql",
        )
add(
    "lock_patience",
    "Wait no longer than this for a row, in this transaction.",
    select(func.set_config(const("lock_timeout"), given_text("patience"), const(True), type_=Text()).label("patience")),
    only="postgresql",
)
add(
    "claim_next_any",
    "Take the first tasks of a role although they wait for others (`--respect-deps=false`); no index walk.",
    _claim(ready=_ready_or_waiting),
)
add(
    "claim_next_any_project",
    "The same in one project.",
    _claim(by_project=True, ready=_ready_or_waiting),
)
_of_project = t.project == given_text("project")
_mine_to_take = and_(t.status == const(TODO), t.unmet_dependencies == const(0), _reserved_for_me)
_not_reserved: dict[str, Any] = {
    "parked": const(""),
    "parked_until": case((_may_go_back, t.parked_until), else_=const(None)),
    "reserved_for": case((_may_go_back, t.reserved_for), else_=const(None)),
}
for _name, _more in (("", []), ("_project", [_of_project])):
    add(
        f"reserved{_name}",
        "The first tasks of a role that are reserved for the caller, since a human answered what it asked.",
        select(t.id, t.project, t.scoped)
        .where(t.role_boundary == given_text("role"), *_more, _mine_to_take, ~_left_to_another)
        .order_by(*_QUEUE_ORDER)
        .limit(given_integer("limit")),
    )
_wanted = select(t.id).where(among(t.id, "ids"), _named(_mine_to_take), ~_left_to_another)
add(
    "claim_reserved",
    "Take some of them.",
    update(tasks)
    .where(
        one_of(t.id, _wanted.order_by(t.number).with_for_update(skip_locked=True).cte("wanted")),
        _named(_mine_to_take),
    )
    .values(**_claimed, **_not_reserved)
    .returning(*_TAKEN),
)
add(
    "claim_task",
    "Take one task by name, if it is ready, or reserved for the caller.",
    update(tasks)
    .where(_THIS, _named(or_(_READY, _mine_to_take)))
    .values(**_claimed, **_not_reserved)
    .returning(*_TAKEN),
)
add(
    "claim_whole",
    "The rest of a claim, once nobody is in its way: a task that is put back instead was never touched.",
    update(tasks)
    .where(_THIS)
    .values(
        lease_seconds=_lease,
        claimed_by=func.coalesce(t.claimed_by, t.assigned_agent, type_=Text()),
        parked_until=const(None),
        reserved_for=const(None),
        updated_at=now(),
    )
    .returning(*_TAKEN),
)
for _name, _more in (("", []), ("_project", [_of_project])):
    add(
        f"claim_next{_name}_ahead",
        "The first ready tasks of a role, only looked at: those whose scopes others hold are set aside at once.",
        select(t.id, t.project, t.scoped, t.revision)
        .where(t.role_boundary == given_text("role"), *_more, _READY, ~_left_to_another)
        .order_by(*_QUEUE_ORDER)
        .limit(given_integer("limit")),
    )
    add(
        f"claim_next{_name}_own",
        "The first tasks of a role that were set aside on what this session itself holds.",
        select(t.id, t.project)
        .where(
            t.role_boundary == given_text("role"),
            *_more,
            t.parked == const("scope"),
            t.unmet_dependencies == const(0),
            t.parked_on.in_(
                select(leases.c.id).where(leases.c.session_id == given_text("session"), leases.c.released_at.is_(None))
            ),
        )
        .order_by(*_QUEUE_ORDER)
        .limit(given_integer("limit")),
    )
add(
    "tasks_unpark",
    "Back into the queue, since to this claimer the scopes are free.",
    update(tasks)
    .where(
        one_of(
            t.id,
            select(t.id)
            .where(among(t.id, "ids"), _named(t.parked == const("scope")))
            .order_by(t.number)
            .with_for_update(skip_locked=True)
            .cte("own"),
        ),
        _named(t.parked == const("scope")),
    )
    .values(**_UNPARKED),
)
_as_seen = (
    select(t.id)
    .where(_THIS, _named(_READY), t.revision == given_integer("revision"))
    .with_for_update(skip_locked=True)
    .cte("as_seen")
)
add(
    "task_park",
    "Out of the way until the lease in its own ends; if it still is as it was looked at, and nobody is at it.",
    update(tasks)
    .where(one_of(t.id, _as_seen), _named(_READY))
    .values(parked=const("scope"), parked_until=given_instant("parked_until"), parked_on=given_integer("lease_id")),
)
_attempt_open = insert(attempts).values(
    **given(attempts, "task_id attempt agent"), session_id=given_text("session"), started_at=now()
)
add("attempt_open", "The attempt that a claim opens: its number is the fencing token.", _attempt_open)
_attempt_close = (
    update(attempts)
    .where(attempts.c.task_id == given_text("task_id"), attempts.c.ended_at.is_(None))
    .values(**given(attempts, "outcome reason"), ended_at=now())
    .returning(attempts.c.attempt, attempts.c.agent, attempts.c.session_id)
)
add("attempt_close", "End the open attempt of a task; the answer says whose it was.", _attempt_close)
add(
    "attempt",
    "One attempt, to explain why a handle is no longer current.",
    select(*_ATTEMPT).where(
        attempts.c.task_id == given_text("task_id"), attempts.c.attempt == given_integer("attempt")
    ),
)
add(
    "attempts_of_agent",
    "How often an agent held a task: a bare id is accepted only from who held it once.",
    select(counted(attempts.c.attempt)).where(
        attempts.c.task_id == given_text("task_id"), attempts.c.agent == given_text("agent")
    ),
)
add(
    "attempts_of_task",
    "The latest attempts of a task.",
    select(*_ATTEMPT)
    .where(attempts.c.task_id == given_text("task_id"))
    .order_by(attempts.c.attempt.desc())
    .limit(given_integer("limit")),
)

# --- the holder's verbs: each is guarded by the handle ----------------------------------------------------------------

_own_lease = func.coalesce(
    cast(given_integer("lease_seconds"), BigInteger), t.lease_seconds, const(LEASE_SECONDS), type_=BIGINT
)
add(
    "claim_renew",
    "Renew the lease; never to a shorter time.",
    update(tasks)
    .where(_CURRENT)
    .values(lease_until=greatest(t.lease_until, from_now(_own_lease)), **_CHANGED)
    .returning(*_TAKEN),
)
add(
    "claim_keep",
    "Renew the lease as a sign of life: no revision, no history, no event.",
    update(tasks)
    .where(_CURRENT)
    .values(lease_until=greatest(t.lease_until, from_now(_own_lease)))
    .returning(t.lease_until, t.lease_seconds, t.scoped),
)


def _leave(verb: str, **values: Any) -> Update:
    """End the hold by one of the holder's moves."""
    target = {"status": const(MOVE[verb].target)}
    return update(tasks).where(_CURRENT).values(**target, **_NO_HOLDER, **values, **_CHANGED).returning(*_TAKEN)


# What came of it is what this completion says, and never what one said that was rejected.
_given_result = {"result": given_text("result")}
add("claim_complete", "The work is done.", _leave("complete", finished_at=now(), **_given_result))
add("claim_submit", "The work is done and waits for a review.", _leave("submit", **_given_result, **_NO_REVIEWER))
add("claim_block", "The work cannot go on.", _leave("block"))
_after = plus_seconds(at_once(), given_integer("after_seconds"))
_delayed = cast(given_integer("after_seconds"), BigInteger).is_not(None)
add(
    "claim_release",
    "Give the task back, to be claimed again at once or after a while.",
    _leave(
        "release",
        not_before=case((_delayed, _after), else_=t.not_before),
        parked=case((_delayed, const("later")), else_=_BACK_IN_QUEUE["parked"]),
        parked_until=case((_delayed, _after), else_=_BACK_IN_QUEUE["parked_until"]),
    ),
)
add(
    "claim_transfer",
    "Hand the task to another agent: the next attempt begins with a fresh lease.",
    update(tasks)
    .where(_CURRENT)
    .values(
        assigned_agent=given_text("to"),
        session_id=const(None),
        lease_until=from_now(_own_lease),
        lease_seconds=_own_lease,
        attempt=t.attempt + const(1),
        **_CHANGED,
    )
    .returning(*_TAKEN),
)

# --- one task, looked at or locked ------------------------------------------------------------------------------------

add("task", "One task.", select(*_TASK).where(_THIS))
add(
    "task_lock",
    "One task, locked for the verb that follows. (SQLite has one writer anyway.)",
    select(*_TASK).where(_THIS).with_for_update(),
)
add(
    "task_lock_free",
    "The same of one that nobody else has locked, for who waits for nobody.",
    select(*_TASK).where(_THIS).with_for_update(skip_locked=True),
)
add(
    "task_share",
    "Hold a task's row still while an edge to it is added: a completion waits, or was before.",
    select(t.id).where(_THIS).with_for_update(read=True),
)
add("tasks_by_dedup_key", "The tasks that a retry means.", select(*_TASK).where(among(t.dedup_key, "dedup_keys")))
add(
    "task_insert",
    "A new task.",
    insert(tasks).values(
        **given(
            tasks,
            "id number title body role_boundary project priority max_attempts not_before unmet_dependencies parked"
            " parked_until dedup_key created_by folded created_at scoped",
        ),
        status=const(TODO),
        updated_at=given_instant("created_at"),
    ),
)
add(
    "scope_insert",
    "A pattern that a task declares.",
    insert_unless_there(task_scopes, "task_id", "pattern", **given(task_scopes, "task_id pattern mode")),
)
add(
    "scopes_delete",
    "Forget what a task declared.",
    delete(task_scopes).where(task_scopes.c.task_id == given_text("task_id")),
)
_unparked = {
    name: case((t.parked == const("scope"), value), else_=t[name]) for name, value in _BACK_IN_QUEUE.items()
} | {"parked_on": const(None)}
add(
    "task_scoped",
    "It declares scopes, or some are bound to it: whoever takes or ends it looks at leases.",
    update(tasks).where(_THIS).values(scoped=const(True)),
)
add(
    "task_rescoped",
    "Its scopes were replaced: the next claimer looks anew at what is in the way.",
    update(tasks).where(_THIS).values(scoped=const(True), **_unparked),
)
_is_reserved = t.reserved_for.is_not(None)
add(
    "task_set_aside",
    "A task that was just taken, but whose scopes or response are another's: as if never taken, and out of the way;"
    " what is reserved stays so, and is out of the way of others anyhow.",
    update(tasks)
    .where(_THIS)
    .values(
        status=const(TODO),
        **_NO_HOLDER,
        attempt=t.attempt - const(1),
        revision=t.revision - const(1),
        parked=case((_is_reserved, const("reserved")), else_=given_text("parked")),
        parked_until=case((_is_reserved, t.parked_until), else_=given_instant("parked_until")),
        parked_on=case((_is_reserved, const(None)), else_=cast(given_integer("lease_id"), BigInteger)),
    ),
)
add(
    "scopes_of",
    "What tasks declare.",
    select(task_scopes.c.task_id, task_scopes.c.pattern, task_scopes.c.mode)
    .where(among(task_scopes.c.task_id, "ids"))
    .order_by(task_scopes.c.task_id, task_scopes.c.pattern),
)

# --- moves that are nobody's alone ------------------------------------------------------------------------------------


def _move(verb: str, **values: Any) -> Update:
    """A move of a locked task, guarded by where it may start."""
    move = MOVE[verb]
    return (
        update(tasks)
        .where(_THIS, _named(_in(t.status, move.sources)))
        .values(status=const(move.target), **values, **_CHANGED)
        .returning(*_TASK)
    )


add("task_unblock", "Back into the queue, with fresh attempts.", _move("unblock", expiries=const(0), **_BACK_IN_QUEUE))
add(
    "task_answered",
    "Back into the queue with fresh attempts, reserved for a while for whoever asked, or not before its time.",
    _move(
        "unblock",
        expiries=const(0),
        parked=case((_LIES_AHEAD, const("later")), else_=const("reserved")),
        parked_until=case((_LIES_AHEAD, t.not_before), else_=from_now(given_integer("seconds"))),
        reserved_for=case((_LIES_AHEAD, const(None)), else_=given_text("reserved_for")),
    ),
)
add(
    "task_await",
    "The human took the answer back before anybody was handed it: the task waits again.",
    _move("await", parked=const(""), parked_until=const(None), parked_on=const(None), reserved_for=const(None)),
)
add(
    "task_ask",
    "The ask that hangs on a task now.",
    update(tasks).where(_THIS).values(ask_id=given_text("ask_id")),
)
add(
    "task_ask_over",
    "That ask is closed.",
    update(tasks).where(_THIS, t.ask_id == given_text("ask_id")).values(ask_id=const(None)),
)
_asked_to_approve = exists(
    select(asks.c.id)
    .where(
        asks.c.id == t.ask_id,
        asks.c.action_owner == const("approval"),
        asks.c.closed_at.is_(None),
        asks.c.handled_at.is_(None),
    )
    .correlate(tasks)
)
add(
    "review_count",
    "How many tasks wait for a review, but for those that a human's approval decides.",
    select(counted(t.id)).where(t.status == const(IN_REVIEW), optional(t.project), ~_asked_to_approve),
)
add("task_approve", "The review is passed.", _move("approve", finished_at=now(), **_NO_REVIEWER))
add(
    "task_reject",
    "Back into the queue; a new round of work begins.",
    _move("reject", expiries=const(0), rejected_attempt=t.attempt, **_NO_REVIEWER, **_BACK_IN_QUEUE),
)
add(
    "task_cancel",
    "Nobody shall do it any more.",
    _move(
        "cancel",
        finished_at=now(),
        parked=const(""),
        parked_until=const(None),
        parked_on=const(None),
        reserved_for=const(None),
        **_NO_HOLDER,
        **_NO_REVIEWER,
    ),
)
add(
    "task_reopen",
    "Back into the queue, with fresh attempts and without a result.",
    _move("reopen", expiries=const(0), finished_at=const(None), result=const(None), **_BACK_IN_QUEUE),
)


def _edited(kept: ColumnElement[Any], later: ColumnElement[Any], none: ColumnElement[Any]) -> ColumnElement[Any]:
    """What an edit leaves of being set aside: its time comes before a reservation, and a scope before both."""
    return case(
        # Scopes are held in a project: in another one nothing may be in the way.
        (and_(t.parked == const("scope"), t.project == given_text("project")), kept),
        (and_(t.status == const(TODO), given_instant("not_before") > at_once()), later),
        (t.parked == const("reserved"), kept),
        else_=none,
    )


add(
    "task_edit",
    "Change what was given; what is absent stays.",
    update(tasks)
    .where(_THIS)
    .values(
        **given(tasks, "title body folded priority project not_before max_attempts"),
        role_boundary=given_text("role"),
        parked=_edited(t.parked, const("later"), const("")),
        parked_until=_edited(t.parked_until, given_instant("not_before"), const(None)),
        parked_on=_edited(t.parked_on, const(None), const(None)),
        reserved_for=_edited(t.reserved_for, const(None), const(None)),
        **_CHANGED,
    )
    .returning(*_TASK),
)
add("task_touch", "Something about a task changed.", update(tasks).where(_THIS).values(**_CHANGED).returning(*_TASK))
add(
    "tasks_lock",
    "Several tasks, locked in one order so that two batches never wait for each other.",
    select(*_TASK).where(among(t.id, "ids")).order_by(t.number).with_for_update(),
)
add(
    "tasks_set_priority",
    "A new priority for several tasks.",
    update(tasks).where(among(t.id, "ids")).values(priority=given_integer("priority"), **_CHANGED).returning(*_TASK),
)
add(
    "tasks_set_project",
    "A new project for several tasks; the scopes that others hold there are looked at anew.",
    update(tasks)
    .where(among(t.id, "ids"))
    .values(project=given_text("project"), **_unparked, **_CHANGED)
    .returning(*_TASK),
)

# --- review -----------------------------------------------------------------------------------------------------------

_in_review = t.status == const(IN_REVIEW)
_free_for_review = or_(t.reviewer.is_(None), t.review_until <= now())
_worked_on_it = exists(
    select(attempts.c.attempt).where(
        attempts.c.task_id == t.id,
        attempts.c.attempt > t.rejected_attempt,
        attempts.c.agent == given_text("agent"),
    )
)
add(
    "review_pick",
    "Lock the first submitted task that nobody reviews and that the reviewer did not work on in this round.",
    select(t.id)
    .where(
        _in_review,
        _free_for_review,
        optional(t.project),
        optional(t.id, given_text("task_id")),
        ~_worked_on_it,
    )
    .order_by(*_QUEUE_ORDER)
    .limit(const(1))
    .with_for_update(skip_locked=True),
)
add(
    "review_claim",
    "Take it, unless the reviewer did this round of it meanwhile: the look before knew of no later attempts.",
    update(tasks)
    .where(_THIS, _named(_in_review), _free_for_review, ~_worked_on_it)
    .values(reviewer=given_text("agent"), review_until=from_now(given_integer("lease_seconds")), **_CHANGED)
    .returning(*_TASK),
)
add(
    "review_worked",
    "Whether somebody held the task in this round of work.",
    select(
        exists(
            select(attempts.c.attempt).where(
                attempts.c.task_id == given_text("task_id"),
                attempts.c.attempt > given_integer("rejected_attempt"),
                attempts.c.agent == given_text("agent"),
            )
        ).label("worked")
    ),
)
_anothers = and_(t.reviewer != given_text("agent"), t.review_until > now())
_not_theirs = or_(_anothers, and_(cast(given_text("override"), Text).is_(None), _worked_on_it))
add(
    "review_ids",
    "A page of what waits for review: first what this reviewer may judge: what is refused hides none of it.",
    select(t.id, *_QUEUE_ORDER)
    .where(_in_review, optional(t.project))
    .order_by(case((_not_theirs, const(1)), else_=const(0)), *_QUEUE_ORDER)
    .limit(given_integer("limit")),
)

# --- dependencies -----------------------------------------------------------------------------------------------------

add(
    "edge_insert",
    "An edge, met if the dependency is done: its row is held still by task_share, and this is a later statement.",
    insert_unless_there(
        task_dependencies,
        "task_id",
        "depends_on_task_id",
        task_id=given_text("task_id"),
        depends_on_task_id=given_text("depends_on"),
        met=select((t.status == const(DONE)).label("met")).where(t.id == given_text("depends_on")).scalar_subquery(),
    ).returning(edge.met),
)
add(
    "edge_insert_known",
    "An edge of a new task, whose dependency is held still or new itself.",
    insert(task_dependencies).values(
        **given(task_dependencies, "task_id met"), depends_on_task_id=given_text("depends_on")
    ),
)
add(
    "edge_delete",
    "Remove an edge; the answer says whether it was met.",
    delete(task_dependencies)
    .where(edge.task_id == given_text("task_id"), edge.depends_on_task_id == given_text("depends_on"))
    .returning(edge.met),
)
_edges_meet = (
    update(task_dependencies)
    .where(edge.depends_on_task_id == given_text("depends_on"), edge.met.is_(const(False)))
    .values(met=const(True))
)
add(
    "edges_meet",
    "The dependency is done: turn the edges that were not met. Each is turned by exactly one transaction.",
    _edges_meet.returning(edge.task_id),
    only="sqlite",
)
add(
    "edges_unmeet",
    "The dependency is done no more: turn the edges back.",
    update(task_dependencies)
    .where(edge.depends_on_task_id == given_text("depends_on"), edge.met.is_(const(True)))
    .values(met=const(False))
    .returning(edge.task_id),
)
_one_less = (
    update(tasks)
    .values(unmet_dependencies=t.unmet_dependencies - const(1))
    .returning(t.id, t.status, t.unmet_dependencies, t.parked)
)


def _in_turn(found: ColumnElement[bool]) -> ColumnElement[bool]:
    """These tasks, locked in the order of all who lock several: an update alone takes them as it comes by them."""
    return one_of(t.id, select(t.id).where(found).order_by(t.number).with_for_update().cte("in_turn"))


add(
    "dependents_count_down",
    "What was turned is subtracted; the answer says who became ready.",
    _one_less.where(_in_turn(among(t.id, "ids"))),
)
_turned = _edges_meet.returning(edge.task_id.label("id")).cte("turned")
_freed = _one_less.where(_in_turn(one_of(t.id, _turned))).cte("freed")
add(
    "dependents_release",
    "The dependency is done: turn the edges that were not met, subtract what was turned, wake whoever waits for work.",
    select(woken(const("ready")).label("woken"))
    .where(_freed.c.status == const(TODO), _freed.c.unmet_dependencies == const(0), _freed.c.parked == const(""))
    .limit(const(1)),
    only="postgresql",
)
add(
    "dependents_count_up",
    "What was turned back is added.",
    update(tasks)
    .where(_in_turn(among(t.id, "ids")))
    .values(unmet_dependencies=t.unmet_dependencies + const(1))
    .returning(t.id),
)
_concerned = union(
    select(t.id).where(among(t.id, "ids")),
    select(edge.task_id).where(among(edge.depends_on_task_id, "ids"), edge.met.is_(const(False))),
).cte("concerned")
add(
    "tasks_lock_along",
    "Several tasks that will be finished, and those that wait for them, locked in one order before the first changes.",
    select(t.id, t.ask_id).where(one_of(t.id, _concerned)).order_by(t.number).with_for_update(),
    only="postgresql",
)
add(
    "dependent_counts",
    "A task got one more unmet edge.",
    update(tasks).where(_THIS).values(unmet_dependencies=t.unmet_dependencies + const(1)),
)
_waited_for = (
    select(edge.task_id, edge.depends_on_task_id, edge.met, t.title, t.status)
    .select_from(task_dependencies.join(tasks, t.id == edge.depends_on_task_id))
    .where(among(edge.task_id, "ids"))
    .order_by(edge.task_id, t.number)
)
add("edges_of", "What tasks depend on, with where each stands.", _waited_for)
add("dependencies_of", "The same with what came of it, which may be long.", _waited_for.add_columns(t.result))
_dependents = task_dependencies.join(tasks, t.id == edge.task_id)
_depends_on_it = edge.depends_on_task_id == given_text("task_id")
# Of finished ones there may be any number, so they are left out before the limit.
for _name, _purpose, _which in (
    ("dependents", "Who depends on a task.", (_depends_on_it,)),
    ("stranded", "Live tasks that wait for one.", (_depends_on_it, edge.met.is_(const(False)), _live)),
):
    add(
        f"{_name}_of",
        _purpose,
        select(t.id, t.number).select_from(_dependents).where(*_which).order_by(t.number).limit(given_integer("limit")),
    )
    add(
        f"{_name}_count",
        "How many they are.",
        select(counted(t.id)).select_from(_dependents).where(*_which),
    )
_reach = (
    select(edge.depends_on_task_id.label("id"))
    .where(edge.task_id == given_text("from_task"))
    .cte("reach", recursive=True)
)
# An equality, written as a range: only an index serves that. On a table that was never analyzed Postgres would read all
# edges for each step of a chain instead: 18 s for 10,000 steps, 0.09 s this way.
_next = and_(edge.task_id >= _reach.c.id, edge.task_id <= _reach.c.id)
_reach = _reach.union(select(edge.depends_on_task_id).select_from(task_dependencies.join(_reach, _next)))
add(
    "edge_reaches",
    "Whether one task waits for another, directly or through others: such an edge would close a circle.",
    select(exists(select(_reach.c.id).where(_reach.c.id == given_text("to_task"))).label("reaches")),
)

# --- notes and history ------------------------------------------------------------------------------------------------

_note = {
    **given(notes, "task_id author note_type content"),
    "folded": given_text("content_folded"),
    "created_at": now(),
}
_note_insert = insert(notes).inline().values(**_note)
add("note_insert", "A note on a task.", _note_insert)
add(
    "note_write",
    "The same on a task that may not be there; the answer is its id and time.",
    insert(notes)
    .from_select(list(_note), select(*(value.label(name) for name, value in _note.items())).where(_THIS))
    .returning(notes.c.id, notes.c.created_at),
)
_NOTE = (notes.c.id, notes.c.task_id, notes.c.author, notes.c.note_type, notes.c.content, notes.c.created_at)
add(
    "notes_of",
    "The newest notes of a task; `before` pages back.",
    select(*_NOTE)
    .where(
        notes.c.task_id == given_text("task_id"),
        before(notes.c.id),
    )
    .order_by(notes.c.id.desc())
    .limit(given_integer("limit")),
)
add(
    "note_of_block",
    "Why a task is BLOCKED: the newest note that says so, whatever was written on it since.",
    select(notes.c.content)
    .where(notes.c.task_id == given_text("task_id"), notes.c.note_type.in_([const("BLOCKED"), const("SYSTEM")]))
    .order_by(notes.c.id.desc())
    .limit(const(1)),
)
_history_insert = (
    insert(history).inline().values(**given(history, "task_id agent action attempt detail"), created_at=now())
)
add("history_insert", "What happened to a task.", _history_insert)
add(
    "history_dispatched",
    "That new tasks were dispatched.",
    insert(history).from_select(
        ["task_id", "agent", "action", "created_at"],
        select(t.id, t.created_by, const("DISPATCH").label("action"), now().label("created_at"))
        .where(t.number.between(given_integer("first"), given_integer("last")))
        .order_by(t.number),
    ),
)
# The ends of changes. What they tell concerns a row that an earlier statement locked, and wakes whoever waits for it.
_topic = cast(given_text("topic"), Text)
_wakes = case((_topic.is_not(None), woken(_topic)), else_=const(None)).label("woken")
_told = EVENT_APPEND.add_cte(_history_insert.cte("told")).returning(_wakes)
for _name, _purpose, _beside in (
    ("change_told", "What happened to a task, and its event.", ()),
    ("note_told", "The same with a note.", (_note_insert.cte("noted"),)),
    ("claim_told", "The same with the attempt that a claim opens.", (_attempt_open.cte("opened"),)),
    ("leave_told", "The same with the attempt that its holder ends.", (_attempt_close.cte("closed"),)),
):
    add(_name, _purpose, _told.add_cte(*_beside), only="postgresql")
add(
    "history_of",
    "The newest history of a task; `before` pages back.",
    select(history)
    .where(
        history.c.task_id == given_text("task_id"),
        before(history.c.id),
    )
    .order_by(history.c.id.desc())
    .limit(given_integer("limit")),
)


def _prune(table: Any, name: str) -> None:
    finished = select(t.id).where(_in(t.status, FINAL))
    batch = (
        select(table.c.id)
        .where(
            table.c.id > given_integer("after"),
            table.c.created_at < given_instant("before"),
            table.c.task_id.in_(finished),
        )
        .order_by(table.c.id)
        .limit(given_integer("limit"))
    )
    add(f"{name}_prunable", f"A batch of old {name} of finished tasks.", batch)
    add(
        f"{name}_delete",
        f"Remove such a batch; {name} of live tasks stay, whatever their age.",
        delete(table).where(
            table.c.id > given_integer("after"),
            table.c.id <= given_integer("through"),
            table.c.created_at < given_instant("before"),
            table.c.task_id.in_(finished),
        ),
    )


_prune(notes, "notes")
_prune(history, "history")

# --- lists and figures ------------------------------------------------------------------------------------------------

_filters = (
    optional(t.status),
    optional(t.role_boundary, given_text("role")),
    optional(t.assigned_agent, given_text("agent")),
    optional(t.project),
)
_behind = optional(
    t.number,
    given_integer("after_number"),
    tuple_(*_QUEUE_ORDER)
    > tuple_(given_integer("after_priority"), given_instant("after_created_at"), given_integer("after_number")),
)
add(
    "tasks_list",
    "A page of tasks in the queue's order.",
    select(*_TASK).where(*_filters, _behind).order_by(*_QUEUE_ORDER).limit(given_integer("limit")),
)
_has_note = exists(select(notes.c.id).where(notes.c.task_id == t.id, contains(notes.c.folded, given_text("needle"))))
add(
    "tasks_search",
    "A page of tasks whose title, body or notes hold a text; literal and case-folded.",
    select(*_TASK)
    .where(*_filters, or_(contains(t.folded, given_text("needle")), _has_note), _behind)
    .order_by(*_QUEUE_ORDER)
    .limit(given_integer("limit")),
)
add(
    "tasks_held",
    "What an agent holds now.",
    select(*_TASK)
    .where(_HELD, t.assigned_agent == given_text("agent"))
    .order_by(t.number)
    .limit(given_integer("limit")),
)
add(
    "handles_held",
    "The handles of what an agent holds now; answered from the index and the row's attempt.",
    select((t.id + const("@") + cast(t.attempt, Text)).label("handle"))
    .where(_HELD, t.assigned_agent == given_text("agent"))
    .order_by(t.number)
    .limit(given_integer("limit")),
)
add(
    "tasks_after",
    "A page of all tasks by number, for an export.",
    select(*_TASK).where(t.number > given_integer("after")).order_by(t.number).limit(given_integer("limit")),
)
add("tasks_any", "Whether there is any task.", select(exists(select(t.id)).label("any")))
add(
    "tasks_counts",
    "How many tasks stand where, by role.",
    select(t.status, t.role_boundary, counted(t.id))
    .where(optional(t.project))
    .group_by(t.status, t.role_boundary)
    .order_by(t.status, t.role_boundary),
)
add(
    "tasks_expired_count",
    "How many leases are past and not yet taken back.",
    select(counted(t.id)).where(_HELD, t.lease_until <= now(), optional(t.project)),
)
_since = given_instant("since")
_finished_on = day_of(t.finished_at)
_created_on = day_of(t.created_at)
add(
    "burn_created",
    "How many tasks came in on each day.",
    select(_created_on.label("day"), counted(t.id))
    .where(t.created_at >= _since, optional(t.project))
    .group_by(_created_on)
    .order_by(_created_on),
)
add(
    "burn_finished",
    "How many tasks were done or cancelled on each day.",
    select(_finished_on.label("day"), t.status, counted(t.id))
    .where(t.finished_at >= _since, optional(t.project))
    .group_by(_finished_on, t.status)
    .order_by(_finished_on, t.status),
)
_latest = attempts.alias("latest")
_LAST_ENDED = (t.finished_at, t.number)
# Not the task's own number: that goes on by a margin where a board was restored.
_last_attempt = select(func.max(attempts.c.attempt)).where(attempts.c.task_id == t.id).correlate(tasks)
_of_its_latest = and_(_latest.c.task_id == t.id, _latest.c.attempt == _last_attempt.scalar_subquery())
add(
    "tasks_finished",
    "The tasks that ended last, with their last attempt.",
    select(
        *(t.id, t.number, t.title, t.status, t.role_boundary, t.project, t.priority, t.created_at, t.finished_at),
        _latest.c.agent,
        _latest.c.started_at,
    )
    .select_from(tasks.outerjoin(_latest, _of_its_latest))
    .where(
        t.finished_at.is_not(None),
        optional(t.status),
        optional(t.role_boundary, given_text("role")),
        optional(t.project),
        optional(_latest.c.agent),
        optional(t.folded, given_text("needle"), contains(t.folded, given_text("needle"))),
        optional(
            t.number,
            given_integer("before_number"),
            tuple_(*_LAST_ENDED) < tuple_(given_instant("before"), given_integer("before_number")),
        ),
    )
    .order_by(*(each.desc() for each in _LAST_ENDED))
    .limit(given_integer("limit")),
)
_attempt = attempts.c
_ended_on = day_of(_attempt.ended_at)
_attempts_of_project = attempts.join(tasks, t.id == _attempt.task_id)
_ended_lately = and_(_attempt.ended_at >= _since, optional(t.project))
_how_many = counted(_attempt.attempt)
add(
    "attempts_by_day",
    "How many attempts ended how on each day.",
    select(_ended_on.label("day"), _attempt.outcome, _how_many)
    .select_from(_attempts_of_project)
    .where(_ended_lately)
    .group_by(_ended_on, _attempt.outcome)
    .order_by(_ended_on, _attempt.outcome),
)
_busiest = (
    select(_attempt.agent, _how_many)
    .select_from(_attempts_of_project)
    .where(_ended_lately)
    .group_by(_attempt.agent)
    .order_by(_how_many.desc(), _attempt.agent)
    .limit(given_integer("limit"))
    .cte("busiest")
)
add(
    "attempts_by_agent",
    "How many attempts of each agent ended how, of those with most.",
    select(_attempt.agent, _attempt.outcome, _how_many)
    .select_from(_attempts_of_project.join(_busiest, _busiest.c.agent == _attempt.agent))
    .where(_ended_lately)
    .group_by(_busiest.c.count, _attempt.agent, _attempt.outcome)
    .order_by(_busiest.c.count.desc(), _attempt.agent, _attempt.outcome),
)
_dependency = tasks.alias("dependency")
_cancelled_edges = task_dependencies.join(tasks, t.id == edge.task_id).join(
    _dependency, _dependency.c.id == edge.depends_on_task_id
)
_unreachable = (
    edge.met.is_(const(False)),
    _dependency.c.status == const(CANCELLED),
    _live,
    optional(t.project),
    optional(t.role_boundary, given_text("role")),
)
add(
    "tasks_unreachable",
    "Live tasks that wait for a cancelled one, and for which: without somebody's help they never become ready.",
    select(t.id, t.title, t.project, t.number, _dependency.c.id.label("depends_on"))
    .select_from(_cancelled_edges)
    .where(*_unreachable)
    .order_by(t.number, _dependency.c.number)
    .limit(given_integer("limit")),
)
add(
    "unreachable_ids",
    "Each of these tasks once, however many it waits for in vain.",
    select(t.id, t.number)
    .select_from(_cancelled_edges)
    .where(*_unreachable)
    .distinct()
    .order_by(t.number)
    .limit(given_integer("limit")),
)
add(
    "tasks_blocked",
    "What is BLOCKED, for a look.",
    select(t.id, t.number)
    .where(t.status == const(BLOCKED), optional(t.project))
    .order_by(t.number)
    .limit(given_integer("limit")),
)
add(
    "tasks_twins",
    "Live tasks of one title and role: perhaps dispatched twice.",
    select(func.min(t.number, type_=BIGINT).label("first"), counted(t.id))
    .where(_live, optional(t.project))
    .group_by(t.title, t.role_boundary, t.project)
    .having(func.count(t.id, type_=BIGINT) > const(1))
    .order_by(func.min(t.number))
    .limit(given_integer("limit")),
)
_waits_for_nothing = and_(t.status == const(TODO), t.unmet_dependencies == const(0))
# What is due is put back by the next claim; what waits for an open worktree has no time.
_parked_still = or_(t.parked_until.is_(None), t.parked_until > at_once())
_set_aside = or_(and_(t.parked != const(""), _parked_still), _acted_on(moment=at_once()))
_for_a_scope = and_(t.parked == const("scope"), _parked_still)
_in_role = and_(t.role_boundary == given_text("role"), optional(t.project))


def _how_many_are(*these: ColumnElement[bool]) -> ColumnElement[Any]:
    return func.coalesce(func.sum(case((and_(*these), const(1)), else_=const(0))), const(0), type_=BIGINT)


add(
    "queue_census",
    "Why a role finds nothing: how many of its tasks stand where, and the next due time.",
    select(
        func.count(t.id, type_=BIGINT).label("total"),
        _how_many_are(_waits_for_nothing, ~_set_aside).label("ready"),
        _how_many_are(t.status == const(TODO), t.unmet_dependencies > const(0)).label("waiting"),
        _how_many_are(_waits_for_nothing, _set_aside, ~_for_a_scope).label("later"),
        _how_many_are(_waits_for_nothing, _for_a_scope).label("scope"),
        _how_many_are(_HELD).label("held"),
        _how_many_are(t.status == const(BLOCKED)).label("blocked"),
        _how_many_are(_in_review).label("in_review"),
        func.min(case((_HELD, t.lease_until)), type_=DateTime(timezone=True)).label("next_expiry"),
        func.min(case((_set_aside, t.parked_until)), type_=DateTime(timezone=True)).label("next_due"),
    ).where(_in_role, _live),
)
add(
    "queue_next_due",
    "When a claim next finds something to bring back: the first lease to end, the first task to come due; also past.",
    select(_first_expiry.label("expiry"), _first_due.label("due"), now().label("now")),
)
add(
    "queue_next_change",
    "The same of what is to come, for whoever only looks and brings nothing back.",
    select(
        _head(t.lease_until, and_(_HELD, t.lease_until > now())).label("expiry"),
        _head(t.parked_until, and_(t.parked != const(""), t.parked_until > now())).label("due"),
        now().label("now"),
    ),
)
add(
    "queue_has_work",
    "Whether a claim of a role would find something: ready, or due, or held for longer than its lease.",
    select(
        or_(
            exists(select(const(1)).select_from(tasks).where(_READY, ~_acted_on(), _in_role)),
            exists(select(const(1)).select_from(tasks).where(_HELD, t.lease_until <= now(), _in_role)),
            exists(
                select(const(1))
                .select_from(tasks)
                .where(_waits_for_nothing, t.parked != const(""), t.parked_until <= now(), _in_role)
            ),
        ).label("work")
    ),
)
add(
    "roles_with_ready",
    "Which roles have ready tasks, for whoever asks with the wrong one.",
    select(t.role_boundary, counted(t.id))
    .where(_READY, optional(t.project))
    .group_by(t.role_boundary)
    .order_by(t.role_boundary)
    .limit(const(20)),
)

# --- projects ---------------------------------------------------------------------------------------------------------

add(
    "project_insert",
    "Settings of a project begin with its name.",
    insert_unless_there(projects, "name", name=given_text("name")),
)
add(
    "project_set",
    "A project's default lease and attempts.",
    update(projects)
    .where(projects.c.name == given_text("name"))
    .values(**given(projects, "lease_seconds max_attempts"))
    .returning(projects.c.name, projects.c.lease_seconds, projects.c.max_attempts, projects.c.closed_at),
)
add(
    "project",
    "A project's settings.",
    select(projects.c.name, projects.c.lease_seconds, projects.c.max_attempts).where(
        projects.c.name == given_text("name")
    ),
)
add(
    "projects_attempts",
    "How many attempts projects give their tasks, where they say it.",
    select(projects.c.name, projects.c.max_attempts).where(
        among(projects.c.name, "projects"), projects.c.max_attempts.is_not(None)
    ),
)


def _names_in(name: ColumnElement[Any], place: str) -> CTE:
    """The projects of one table, each found as the least above the one before: few rows are read, however many are."""
    walk = select(func.min(name).label("name"), const(1).label("place")).cte(place, recursive=True)
    above = select(func.min(name).label("name")).where(name > walk.c.name).scalar_subquery().label("name")
    goes_on = and_(walk.c.name.is_not(None), walk.c.place < given_integer("limit"))
    return walk.union_all(select(above, (walk.c.place + const(1)).label("place")).where(goes_on))


_walks = (
    _names_in(t.project, "of_tasks"),
    _names_in(asks.c.project, "of_asks"),
    _names_in(boards.c.project, "of_boards"),
)
_project_names = union(*(select(walk.c.name) for walk in _walks), select(projects.c.name)).subquery("names")
add(
    "projects_list",
    "All projects that have tasks, asks, boards or settings.",
    select(_project_names.c.name, projects.c.lease_seconds, projects.c.max_attempts, projects.c.closed_at)
    .select_from(_project_names.outerjoin(projects, projects.c.name == _project_names.c.name))
    .where(_project_names.c.name.is_not(None))
    .order_by(_project_names.c.name)
    .limit(given_integer("limit")),
)

# --- adoption ---------------------------------------------------------------------------------------------------------

add(
    "adopt_tasks",
    "A task of an adopted board, as it stands there: holder, lease and attempt too.",
    insert(tasks).values(
        **given(
            tasks,
            "id number title body status project priority lease_until attempt claimed_by unmet_dependencies"
            " rejected_attempt folded created_at updated_at finished_at",
        ),
        role_boundary=given_text("role"),
        assigned_agent=given_text("agent"),
        max_attempts=const(MAX_ATTEMPTS),
    ),
)
add(
    "adopt_task_dependencies",
    "An edge of an adopted board.",
    insert(task_dependencies).values(
        **given(task_dependencies, "task_id met"), depends_on_task_id=given_text("depends_on")
    ),
)
add(
    "adopt_attempts",
    "An attempt that the history of an adopted board tells of.",
    insert(attempts).values(**given(attempts, "task_id attempt agent started_at ended_at outcome reason")),
)
add(
    "adopt_notes",
    "A note of an adopted board, with its own time.",
    insert(notes).values(**given(notes, "task_id author note_type content folded created_at")),
)
add(
    "adopt_history",
    "A history row of an adopted board, with its own time.",
    insert(history).values(**given(history, "task_id agent action attempt detail created_at")),
)
add(
    "adopt_events",
    "An event of an adopted board, with its own time.",
    insert(events).values(
        **given(events, "created_at event_type payload ttl_seconds project agent ref folded"), message=const("")
    ),
)
# Ids go on above what an adopted board gave out: where AUTOINCREMENT keeps them, then where identities do.
_sequences = table("sqlite_sequence", column("name", Text()), column("seq", BigInteger()))
_of_table = _sequences.c.name == given_text("table")
add(
    "sequence_last",
    "The last id that a table gave out.",
    select(func.coalesce(func.max(_sequences.c.seq), const(0), type_=BIGINT).label("value")).where(_of_table),
    only="sqlite",
)
add("sequence_forget", "Forget it, to write another.", delete(_sequences).where(_of_table), only="sqlite")
add(
    "sequence_set",
    "The next id of a table is above this one.",
    insert(_sequences).values(name=given_text("table"), seq=given_integer("value")),
    only="sqlite",
)
for _name in (each.name for each in metadata.sorted_tables if "id" in each.c and each.c.id.identity is not None):
    _identity: ColumnElement[Any] = literal_column(f"CAST(pg_get_serial_sequence('{_name}', 'id') AS regclass)")
    _last = func.coalesce(func.pg_sequence_last_value(_identity), const(0), type_=BIGINT)
    add(
        f"{_name}_identity_raise",
        f"The next id of {_name} is above this one; no row for a role that may not say so.",
        select(func.setval(_identity, func.greatest(_last, given_integer("least")), type_=BIGINT).label("value")).where(
            func.has_sequence_privilege(_identity, const("UPDATE"))
        ),
        only="postgresql",
    )
add(
    "feed_lock",
    "Nobody numbers events until this transaction ends; whoever would does not wait, but reads what is numbered.",
    select(board_lock("events").label("locked")),
    only="postgresql",
)
add("feed_last", "The last position given out.", select(event_feed_state.c.position), only="postgresql")
add(
    "feed_raise",
    "The next position is above this one.",
    update(event_feed_state)
    .where(event_feed_state.c.position < given_integer("least"))
    .values(position=given_integer("least"))
    .returning(event_feed_state.c.position),
    only="postgresql",
)
