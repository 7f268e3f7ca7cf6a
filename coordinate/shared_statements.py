"""The SQL of what every wing shares: the schema's age, counters, the event log and its cursors."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    and_,
    case,
    cast,
    delete,
    func,
    insert,
    literal_column,
    or_,
    select,
    union,
    update,
)
from sqlalchemy.dialects import postgresql

from coordinate.db.dialect import CHANNEL
from coordinate.db.portable import (
    BIGINT,
    JSON_OBJECT,
    among,
    at_once,
    before,
    board_lock,
    const,
    contains,
    counted,
    from_now,
    given,
    given_instant,
    given_integer,
    given_text,
    greatest,
    insert_or_change,
    insert_unless_there,
    now,
    one_of,
    optional,
    plus_seconds,
)
from coordinate.db.schema import (
    board_move,
    coordinate_version,
    counters,
    event_cursors,
    event_feed,
    events,
    leases,
    schema_window,
    sessions,
    task_scopes,
    tasks,
    worktrees,
)
from coordinate.db.statements import Statements
from coordinate.inputs import BIGINT_MAX

CURSOR_SECONDS = 30 * 24 * 3_600
# A place that is told of silence moves at least so often: long before what it passed is pruned.
REST_SECONDS = 24 * 3_600

STATEMENTS = Statements("shared: the schema's age, counters, events")
add = STATEMENTS.add

# --- the schema's age, the clock, locks -------------------------------------------------------------------------------

add(
    "schema_versions",
    "Which revision the database stands at: one row; more or none say that something is wrong.",
    select(coordinate_version.c.version_num).order_by(coordinate_version.c.version_num),
)
add(
    "schema_window",
    "The revision that last set the window, and the oldest schema knowledge that may still write.",
    select(schema_window.c.revision, schema_window.c.oldest_writer),
)
add(
    "move_state",
    "Whether this board moves, has moved or came from elsewhere: no row, or one.",
    select(board_move.c.move, board_move.c.state, board_move.c.address, board_move.c.fenced_at, board_move.c.opened_at),
)
_begun = given(board_move, "move state address fenced_at") | {"opened_at": const(None)}
add(
    "move_begin",
    "The one row of a move, on either side; whoever writes it holds up all writers meanwhile.",
    insert_or_change(board_move, "id", change=_begun, id=const(1), **_begun),
)
add(
    "move_pass",
    "Bring a move to its next state, if it stands where this one thinks it does.",
    update(board_move)
    .where(board_move.c.move == given_text("move"), board_move.c.state == given_text("before"))
    .values(**given(board_move, "state opened_at")),
)
add(
    "move_forget",
    "The board stays where it is.",
    delete(board_move).where(board_move.c.move == given_text("move"), board_move.c.state == given_text("before")),
)
add("clock", "The database's time.", select(now().label("now")))
add(
    "lock_edges",
    "Edges are added and removed one at a time: counts stay right, and circles of any length are seen.",
    select(board_lock("edges").label("locked")),
    only="postgresql",
)


def woken(topic: ColumnElement[Any]) -> ColumnElement[bool]:
    """Wake whoever waits for a topic, once this commits. A hint only: every wait also looks by itself."""
    return func.pg_notify(literal_column(CHANNEL, Text()), topic).is_(None)


add("announce", "Wake whoever waits.", select(woken(given_text("topic")).label("woken")), only="postgresql")

# --- counters ---------------------------------------------------------------------------------------------------------

add(
    "counter_take",
    "Mint `count` numbers of a kind; the answer is the last of them. The row stays locked until the transaction ends.",
    update(counters)
    .where(counters.c.kind == given_text("kind"))
    .values(value=counters.c.value + given_integer("count"))
    .returning(counters.c.value, now().label("now")),
)
add(
    "counter_raise",
    "Lift a counter to what was already used; it never falls.",
    update(counters)
    .where(counters.c.kind == given_text("kind"), counters.c.value < given_integer("least"))
    .values(value=given_integer("least")),
)
add(
    "counters_raise",
    "Every counter goes on that much higher, or is used up. (Up to where the log was pruned is no number given out.)",
    update(counters)
    .where(counters.c.kind != const("events_pruned"))
    .values(
        value=case(
            (counters.c.value > const(BIGINT_MAX) - given_integer("count"), const(BIGINT_MAX)),
            else_=counters.c.value + given_integer("count"),
        )
    ),
)
add(
    "probe",
    "A write that changes nothing: does the board take writes?",
    update(counters).where(counters.c.kind == const("fence")).values(value=counters.c.value),
)
add("counter_value", "The last number minted.", select(counters.c.value).where(counters.c.kind == given_text("kind")))

# --- events -----------------------------------------------------------------------------------------------------------

EVENT_APPEND = (
    insert(events)
    .inline()
    .values(
        **given(events, "event_type ttl_seconds project agent ref message folded"),
        created_at=now(),
        payload=cast(given_text("payload"), JSON_OBJECT),
    )
)
add(
    "event_append",
    "One line of the log. The last statement of its transaction, so that the order of events follows the row locks.",
    EVENT_APPEND,
)
add(
    "events_number",
    "Give positions to what was committed since the last time. NULL: somebody else is at it, or this is a standby.",
    select(func.coordinate_number_events(given_integer("batch"), type_=BIGINT).label("position")),
    only="postgresql",
)

_EVENT = (
    event_feed.c.position,
    events.c.created_at,
    events.c.event_type,
    events.c.payload,
    events.c.ttl_seconds,
    events.c.project,
    events.c.agent,
    events.c.ref,
    events.c.message,
)
_numbered = event_feed.join(events, events.c.id == event_feed.c.event_id)
_everything = events.outerjoin(event_feed, events.c.id == event_feed.c.event_id)
# Positions are in another order than events were inserted in, where transactions overlapped: a page that ended by
# position and began by id would leave out what is between.
_before = events.c.id < func.coalesce(
    select(event_feed.c.event_id)
    .where(event_feed.c.position >= given_integer("before"))
    .order_by(event_feed.c.position)
    .limit(const(1))
    .correlate(None)
    .scalar_subquery(),
    const((1 << 63) - 1),
    type_=BIGINT,
)

add(
    "events_after",
    "The numbered events behind a position, in the one order.",
    select(*_EVENT)
    .select_from(_numbered)
    .where(
        event_feed.c.position > given_integer("after"),
        optional(events.c.project),
        optional(
            events.c.agent,
            given_text("not_by"),
            or_(events.c.agent.is_(None), events.c.agent != given_text("not_by")),
        ),
    )
    .order_by(event_feed.c.position)
    .limit(given_integer("limit")),
)
_said = (
    event_feed.c.position > given_integer("after"),
    events.c.message != const(""),
    or_(events.c.agent.is_(None), events.c.agent != given_text("not_by")),
)
add(
    "said_after",
    "What other agents said behind a position: events with a message, in the one order.",
    select(*_EVENT).select_from(_numbered).where(*_said).order_by(event_feed.c.position).limit(given_integer("limit")),
)
add(
    "said_count",
    "How much other agents said behind a position.",
    select(counted(event_feed.c.position)).select_from(_numbered).where(*_said),
)
add(
    "events_latest",
    "The newest events, newest first, numbered yet or not; `before` is the position of the first of the page before.",
    select(*_EVENT)
    .select_from(_everything)
    .where(
        optional(events.c.event_type),
        optional(events.c.ref),
        optional(events.c.project),
        optional(events.c.agent),
        _before,
    )
    .order_by(events.c.id.desc())
    .limit(given_integer("limit")),
)
add(
    "events_search",
    "Events whose message, reference or payload holds a text, newest first. Literal and case-folded.",
    select(*_EVENT)
    .select_from(_everything)
    .where(
        contains(events.c.folded, given_text("needle")),
        optional(events.c.project),
        or_(cast(given_text("any_type"), Text).is_not(None), among(events.c.event_type, "event_types")),
        _before,
    )
    .order_by(events.c.id.desc())
    .limit(given_integer("limit")),
)
_pruned = select(counters.c.value).where(counters.c.kind == const("events_pruned")).scalar_subquery()
add(
    "feed_head",
    "The last position given out, or pruned; and up to where the log was pruned.",
    select(
        greatest(
            func.coalesce(select(func.max(event_feed.c.position)).scalar_subquery(), const(0), type_=BIGINT),
            func.coalesce(_pruned, const(0), type_=BIGINT),
        ).label("position"),
        func.coalesce(_pruned, const(0), type_=BIGINT).label("pruned"),
    ),
)
add(
    "feed_count",
    "How many events stand between two positions; what is missing there was pruned.",
    select(counted(event_feed.c.position)).where(
        event_feed.c.position > given_integer("after"), event_feed.c.position <= given_integer("through")
    ),
)
_expired = (
    select(event_feed.c.position, events.c.id)
    .select_from(_numbered)
    .where(
        event_feed.c.position > given_integer("after"),
        events.c.ttl_seconds.is_not(None),
        plus_seconds(events.c.created_at, events.c.ttl_seconds) < now(),
    )
    .order_by(event_feed.c.position)
    .limit(given_integer("limit"))
)
add("events_expired", "A batch of numbered events whose time is over, oldest first.", _expired)
add(
    "events_delete",
    "Remove a run of expired events; their place in the feed goes with them.",
    delete(events).where(
        events.c.ttl_seconds.is_not(None),
        plus_seconds(events.c.created_at, events.c.ttl_seconds) < now(),
        events.c.id.in_(
            select(event_feed.c.event_id).where(
                event_feed.c.position > given_integer("after"), event_feed.c.position <= given_integer("through")
            )
        ),
    ),
)

# --- cursors ----------------------------------------------------------------------------------------------------------

add(
    "cursor_start",
    "A newcomer starts where it is told; one who comes back keeps its place.",
    insert_unless_there(
        event_cursors,
        "consumer",
        consumer=given_text("consumer"),
        delivered=given_integer("position"),
        acknowledged=given_integer("position"),
        updated_at=now(),
    ).returning(event_cursors.c.consumer),
)
_rested = plus_seconds(event_cursors.c.updated_at, const(REST_SECONDS)) < now()
_cursor = select(
    event_cursors.c.consumer, event_cursors.c.delivered, event_cursors.c.acknowledged, _rested.label("rested")
).where(event_cursors.c.consumer == given_text("consumer"))
add("cursor", "How far a consumer was handed events, and how far it has finished with them.", _cursor)
add("cursor_lock", "The same, locked for who hands events out once.", _cursor.with_for_update())
add(
    "cursor_deliver",
    "Handed out up to here; never back.",
    update(event_cursors)
    .where(event_cursors.c.consumer == given_text("consumer"), event_cursors.c.delivered < given_integer("position"))
    .values(delivered=given_integer("position"), updated_at=now()),
)
add(
    "cursor_rewind",
    "Back to a position, asked for by name.",
    update(event_cursors)
    .where(event_cursors.c.consumer == given_text("consumer"))
    .values(delivered=given_integer("position"), acknowledged=given_integer("position"), updated_at=now()),
)
add(
    "cursor_acknowledge",
    "Finished up to here; never back, never beyond what was handed out.",
    update(event_cursors)
    .where(
        event_cursors.c.consumer == given_text("consumer"),
        event_cursors.c.acknowledged < given_integer("position"),
        event_cursors.c.delivered >= given_integer("position"),
    )
    .values(acknowledged=given_integer("position"), updated_at=now())
    .returning(event_cursors.c.delivered, event_cursors.c.acknowledged),
)

add(
    "cursor_forget",
    "Nobody reads on from here.",
    delete(event_cursors).where(event_cursors.c.consumer == given_text("consumer")),
)
_long_over = (
    select(event_cursors.c.consumer)
    .select_from(event_cursors.join(sessions, event_cursors.c.consumer == const("learnings:") + sessions.c.id))
    .where(plus_seconds(sessions.c.ended_at, const(CURSOR_SECONDS)) < now())
    .order_by(event_cursors.c.consumer)
    .limit(given_integer("limit"))
)
add(
    "cursors_forget",
    "Cursors of sessions that are long over: one that was swept may come back, and reads on until then.",
    delete(event_cursors).where(event_cursors.c.consumer.in_(_long_over)),
)

# --- leases: scopes and locks -----------------------------------------------------------------------------------------

lease = leases.c
_HELD = lease.released_at.is_(None)
_LIVE = and_(_HELD, or_(lease.expires_at.is_(None), lease.expires_at > now()))
_PAST = and_(_HELD, lease.expires_at <= now())
_SCOPE = lease.kind == const("scope")
_LOCK = lease.kind == const("lock")
_LEASE = tuple(leases.c)
_ttl = cast(given_integer("ttl_seconds"), BigInteger)
_until = case((cast(given_integer("worktree_id"), BigInteger).is_not(None), const(None)), else_=from_now(_ttl))
_grant = {
    **given(leases, "kind project resource prefix mode agent task_id attempt worktree_id fence"),
    "session_id": given_text("session"),
    "ttl_seconds": _ttl,
    "acquired_at": now(),
    "expires_at": _until,
}
add(
    "scopes_lock",
    "One grant of scopes at a time in a project: the look and the write that follow see every other grant.",
    select(board_lock("scopes", given_text("project")).label("locked")),
    only="postgresql",
)
add(
    "scopes_try",
    "The same, unless somebody has the lock: the answer says whether it was to be had.",
    select(board_lock("scopes", given_text("project"), waits=False).label("locked")),
    only="postgresql",
)
_keeper = select(worktrees.c.agent).where(worktrees.c.id == lease.worktree_id).correlate(leases).scalar_subquery()
_near = (*_LEASE, _LIVE.label("live"), _keeper.label("keeper"))
_in_project = (_SCOPE, _HELD, lease.project == given_text("project"))
add(
    "scopes_near",
    "Unreleased scope leases whose leading path lies above or below one: the only ones that can overlap it.",
    # Two looks, each along the index: of either-or SQLite makes one look through the whole project.
    union(
        select(*_near).where(*_in_project, among(lease.prefix, "above")),
        select(*_near).where(*_in_project, lease.prefix >= given_text("below"), lease.prefix < given_text("beyond")),
    ).order_by("id"),
)
add(
    "scopes_all",
    "All unreleased scope leases of a project: what could overlap its root.",
    select(*_near).where(*_in_project).order_by(lease.id),
)
add(
    "lease_insert",
    "A scope lease; without an end when it is bound to an open worktree.",
    insert(leases).values(**_grant).returning(*_LEASE),
)
add(
    "lock_insert",
    "A lock, unless somebody holds it: the unique index decides.",
    insert_unless_there(leases, **_grant).returning(*_LEASE),
)
add(
    "lock_held",
    "Who holds a lock (perhaps beyond its time).",
    select(*_LEASE, _LIVE.label("live")).where(
        _LOCK, _HELD, lease.project == given_text("project"), lease.resource == given_text("resource")
    ),
)
add(
    "lock_expire",
    "End a lock whose time is over, before somebody else takes it.",
    update(leases)
    .where(_LOCK, _PAST, lease.project == given_text("project"), lease.resource == given_text("resource"))
    .values(released_at=now(), release_reason=const("expired"))
    .returning(*_LEASE),
)
add(
    "lock_nest",
    "The same session takes the lock once more.",
    update(leases)
    .where(
        _LOCK,
        _LIVE,
        lease.project == given_text("project"),
        lease.resource == given_text("resource"),
        lease.session_id == given_text("session"),
    )
    .values(
        depth=lease.depth + const(1),
        expires_at=greatest(lease.expires_at, from_now(given_integer("ttl_seconds"))),
    )
    .returning(*_LEASE),
)
_renewed = greatest(
    lease.expires_at,
    from_now(func.coalesce(cast(given_integer("ttl_seconds"), BigInteger), lease.ttl_seconds, type_=BIGINT)),
)
_last = lease.depth == const(1)
_own_lock = (
    _LOCK,
    _HELD,
    lease.project == given_text("project"),
    lease.resource == given_text("resource"),
    lease.agent == given_text("agent"),
    case(
        (cast(given_integer("fence"), BigInteger).is_not(None), lease.fence == given_integer("fence")),
        else_=lease.session_id == given_text("session"),
    ),
)
add(
    "lock_release",
    "One level of an own lock less, shown by its fence or else by the session; the last level ends it.",
    update(leases)
    .where(*_own_lock)
    .values(
        depth=case((_last, lease.depth), else_=lease.depth - const(1)),
        released_at=case((_last, now()), else_=const(None)),
        release_reason=case((_last, const("released")), else_=const(None)),
    )
    .returning(*_LEASE),
)
add(
    "lock_renew",
    "Renew an own lock that lives to its full length from now; never to less.",
    update(leases).where(*_own_lock, lease.expires_at > now()).values(expires_at=_renewed).returning(*_LEASE),
)
add(
    "lease_renew",
    "Renew a live lease to its full length from now; never to less, never one that is past, released or a task's.",
    update(leases)
    .where(lease.fence == given_integer("fence"), _HELD, lease.task_id.is_(None), lease.expires_at > now())
    .values(expires_at=_renewed)
    .returning(*_LEASE),
)
add(
    "lease_end",
    "End a lease that nobody ended before.",
    update(leases)
    .where(lease.id == given_integer("id"), _HELD)
    .values(released_at=now(), release_reason=given_text("reason"))
    .returning(*_LEASE),
)
add(
    "lease_by_fence",
    "The lease of a fence, locked.",
    select(*_LEASE, _LIVE.label("live")).where(lease.fence == given_integer("fence")).with_for_update(),
)
add(
    "lease_share",
    "Hold a lease's row still while a task is set aside on it: its end waits, or was before.",
    select(lease.id).where(lease.id == given_integer("id")).with_for_update(read=True),
)
add(
    "lease_share_free",
    "The same of one that nobody else has locked; no row where somebody has.",
    select(lease.id).where(lease.id == given_integer("id")).with_for_update(read=True, skip_locked=True),
)
add(
    "lease_lives",
    "Whether it still lives, in a statement after the lock.",
    select(*_LEASE).where(lease.id == given_integer("id"), _LIVE),
)
add(
    "leases_of_task",
    "Unreleased scope leases bound to a task, but to no worktree: they end with the hold.",
    select(*_LEASE)
    .where(_HELD, lease.task_id == given_text("task_id"), lease.worktree_id.is_(None))
    .order_by(lease.id),
)
add(
    "leases_of_worktree",
    "Unreleased leases of a worktree.",
    # Few are held, and they are sorted: along the ids, all that ever ended would be read to find them.
    select(*_LEASE).where(_HELD, lease.worktree_id == given_integer("worktree_id")).order_by(lease.id + const(0)),
)
_of_sessions = (_HELD, among(lease.session_id, "sessions"), lease.task_id.is_(None))
_leases_of_sessions = select(*_LEASE).where(*_of_sessions).order_by(lease.id).limit(given_integer("limit"))
add(
    "leases_of_sessions",
    "Unreleased leases of sessions, locked; what a held task or an open worktree keeps ends with that.",
    _leases_of_sessions.with_for_update(),
)
add(
    "leases_free_of_sessions",
    "The same of those that nobody else has locked: whoever sweeps waits for no other.",
    _leases_of_sessions.with_for_update(skip_locked=True),
)
add(
    "sessions_holding",
    "Which of these sessions hold one still.",
    select(lease.session_id).where(*_of_sessions).distinct(),
)
add(
    "leases_of_tasks",
    "Unreleased leases bound to tasks, by their hold or by an open worktree.",
    select(*_LEASE).where(_HELD, among(lease.task_id, "ids")).order_by(lease.id).limit(given_integer("limit")),
)
add(
    "leases_elsewhere",
    "The first that is bound to one of these tasks in another project than this.",
    select(*_LEASE)
    .where(_HELD, among(lease.task_id, "ids"), lease.project != given_text("project"))
    .order_by(lease.id)
    .limit(const(1)),
)
add(
    "scopes_free",
    "Scopes of a session that neither a held task nor an open worktree keeps, locked: none is bound meanwhile.",
    select(*_LEASE)
    .where(_SCOPE, _HELD, lease.session_id == given_text("session"), lease.task_id.is_(None))
    .order_by(lease.id)
    .limit(given_integer("limit"))
    .with_for_update(),
)
add(
    "scopes_of_session",
    "What a session holds of some patterns, also what a held task or an open worktree keeps.",
    select(*_LEASE)
    .where(
        _SCOPE,
        _HELD,
        lease.session_id == given_text("session"),
        lease.project == given_text("project"),
        among(lease.resource, "resources"),
    )
    .order_by(lease.id)
    .limit(given_integer("limit")),
)
add(
    "leases_give",
    "What is bound to a task goes to its new holder, also what its open worktree keeps.",
    update(leases)
    .where(_HELD, lease.task_id == given_text("task_id"))
    .values(**given(leases, "agent attempt"), session_id=given_text("session")),
)
add(
    "leases_keep",
    "The scopes of a task last as long as its hold, like which they may be renewed until somebody has ended them.",
    update(leases)
    .where(_HELD, lease.task_id == given_text("task_id"), lease.worktree_id.is_(None))
    .values(expires_at=given_instant("until")),
)
add(
    "lease_bind",
    "An own lease becomes one of a held task.",
    update(leases)
    .where(lease.id == given_integer("id"), _HELD, lease.task_id.is_(None))
    .values(**given(leases, "task_id attempt")),
)
add(
    "leases_take_over",
    "An adopted worktree's leases are the adopter's.",
    update(leases)
    .where(_HELD, lease.worktree_id == given_integer("worktree_id"))
    .values(agent=given_text("agent"), session_id=given_text("session"))
    .returning(lease.id),
)
add(
    "leases_bind",
    "What is bound to a task belongs to its open worktree from now on, shared with nobody, and has no end.",
    update(leases)
    .where(_HELD, lease.task_id == given_text("task_id"), lease.worktree_id.is_(None), _SCOPE)
    .values(worktree_id=given_integer("worktree_id"), mode=const("exclusive"), expires_at=const(None))
    .returning(*_LEASE),
)
add(
    "leases_return",
    "A worktree is over, the hold on its task is not: what the task declares, or had before, lasts as long as that.",
    update(leases)
    .where(
        _HELD,
        lease.worktree_id == given_integer("worktree_id"),
        or_(
            lease.acquired_at < given_instant("opened_at"),
            lease.resource.in_(select(task_scopes.c.pattern).where(task_scopes.c.task_id == lease.task_id)),
        ),
    )
    .values(
        **given(leases, "agent attempt"),
        worktree_id=const(None),
        session_id=given_text("session"),
        expires_at=given_instant("until"),
    ),
)
add(
    "leases_past",
    "A batch of leases whose time is over, locked; the longest past first. What a task keeps ends with its hold.",
    select(*_LEASE)
    .where(_PAST, lease.task_id.is_(None))
    .order_by(lease.expires_at, lease.id)
    .limit(given_integer("limit"))
    .with_for_update(skip_locked=True),
)
add(
    "leases_held",
    "A page of leases that nobody ended, live or past, newest first; without what an open worktree keeps.",
    select(*_LEASE)
    .where(
        _HELD,
        lease.worktree_id.is_(None),
        before(lease.id),
    )
    .order_by(lease.id.desc())
    .limit(given_integer("limit")),
)
_listed = (
    optional(lease.kind),
    optional(lease.project),
    optional(lease.agent),
    optional(lease.task_id),
    before(lease.id),
)
add(
    "leases_list",
    "Leases by kind, holder or project, live or over; `before` (an id) pages back.",
    select(*_LEASE).where(*_listed).order_by(lease.id.desc()).limit(given_integer("limit")),
)
add(
    "leases_live",
    "The live ones of these.",
    # Sorted, as above.
    select(*_LEASE).where(*_listed, _LIVE).order_by((lease.id + const(0)).desc()).limit(given_integer("limit")),
)
add(
    "tasks_unpark_from",
    "Put a batch of tasks that were set aside on a lease back into the queue, in their old places.",
    update(tasks)
    .where(
        one_of(
            tasks.c.id,
            select(tasks.c.id)
            .where(tasks.c.parked == const("scope"), tasks.c.parked_on == given_integer("lease_id"))
            .order_by(tasks.c.number)
            .limit(given_integer("limit"))
            .with_for_update()
            .cte("set_aside"),
        )
    )
    .values(
        parked=case((tasks.c.not_before > at_once(), const("later")), else_=const("")),
        parked_until=case((tasks.c.not_before > at_once(), tasks.c.not_before), else_=const(None)),
        parked_on=const(None),
    )
    .returning(tasks.c.id),
)

# --- counters of users ------------------------------------------------------------------------------------------------

_minting = postgresql.insert(counters).values(
    kind=given_text("kind"), value=cast(given_integer("floor"), BigInteger) + given_integer("count")
)
add(
    "counter_next",
    "Mint `count` numbers above a floor and above every number minted before; the answer is the last of them.",
    _minting.on_conflict_do_update(
        index_elements=["kind"],
        set_={"value": greatest(counters.c.value, given_integer("floor")) + given_integer("count")},
        # No row comes back where the numbers end: the engines would go on differently, and both wrongly.
        where=greatest(counters.c.value, given_integer("floor")) <= const(BIGINT_MAX) - given_integer("count"),
    ).returning(counters.c.value),
)
