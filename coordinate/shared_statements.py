"""The SQL of what every wing shares: the schema's age, counters, the event log and its cursors."""

from __future__ import annotations

from sqlalchemy import Text, cast, delete, func, insert, literal_column, or_, select, update

from coordinate.db.portable import (
    BIGINT,
    among,
    board_lock,
    const,
    contains,
    given_instant,
    given_integer,
    given_json,
    given_text,
    greatest,
    insert_unless_there,
    now,
    optional,
    plus_seconds,
)
from coordinate.db.schema import (
    coordinate_version,
    counters,
    event_cursors,
    event_feed,
    events,
    schema_window,
)
from coordinate.db.statements import Statements

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
add("clock", "The database's time.", select(now().label("now")))
add(
    "lock_edges",
    "Edges are added and removed one at a time: counts stay right, and circles of any length are seen.",
    select(board_lock("edges").label("locked")),
    only="postgresql",
)
_channel = literal_column("'coordinate_' || current_schema()", Text())
add(
    "announce",
    "Wake whoever waits. A hint only: every wait also looks by itself.",
    select(func.pg_notify(_channel, given_text("topic")).is_(None).label("sent")),
    only="postgresql",
)

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
add("counter_value", "The last number minted.", select(counters.c.value).where(counters.c.kind == given_text("kind")))

# --- events -----------------------------------------------------------------------------------------------------------

add(
    "event_append",
    "One line of the log. The last statement of its transaction, so that the order of events follows the row locks.",
    insert(events).values(
        created_at=now(),
        event_type=given_text("event_type"),
        payload=given_json("payload"),
        ttl_seconds=given_integer("ttl_seconds"),
        project=given_text("project"),
        agent=given_text("agent"),
        ref=given_text("ref"),
        message=given_text("message"),
        folded=given_text("folded"),
    ),
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
_before = optional(event_feed.c.position, given_integer("before"), event_feed.c.position < given_integer("before"))

add(
    "events_after",
    "The numbered events behind a position, in the one order.",
    select(*_EVENT)
    .select_from(_numbered)
    .where(
        event_feed.c.position > given_integer("after"),
        optional(events.c.project, given_text("project")),
        optional(
            events.c.agent,
            given_text("not_by"),
            or_(events.c.agent.is_(None), events.c.agent != given_text("not_by")),
        ),
    )
    .order_by(event_feed.c.position)
    .limit(given_integer("limit")),
)
add(
    "events_latest",
    "The newest events, newest first, numbered yet or not; `before` pages back by position.",
    select(*_EVENT)
    .select_from(_everything)
    .where(
        optional(events.c.event_type, given_text("event_type")),
        optional(events.c.ref, given_text("ref")),
        optional(events.c.project, given_text("project")),
        optional(events.c.agent, given_text("agent")),
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
        optional(events.c.project, given_text("project")),
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
    select(func.count(event_feed.c.position, type_=BIGINT).label("count")).where(
        event_feed.c.position > given_integer("after"), event_feed.c.position <= given_integer("through")
    ),
)
_old = optional(events.c.created_at, given_instant("before"), events.c.created_at < given_instant("before"))
_expired = (
    select(event_feed.c.position, events.c.id)
    .select_from(_numbered)
    .where(
        event_feed.c.position > given_integer("after"),
        events.c.ttl_seconds.is_not(None),
        plus_seconds(events.c.created_at, events.c.ttl_seconds) < now(),
        _old,
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
        _old,
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
add(
    "cursor",
    "How far a consumer was handed events, and how far it has finished with them.",
    select(event_cursors.c.consumer, event_cursors.c.delivered, event_cursors.c.acknowledged).where(
        event_cursors.c.consumer == given_text("consumer")
    ),
)
add(
    "cursor_deliver",
    "Handed out up to here; never back.",
    update(event_cursors)
    .where(event_cursors.c.consumer == given_text("consumer"), event_cursors.c.delivered < given_integer("position"))
    .values(delivered=given_integer("position"), updated_at=now()),
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
