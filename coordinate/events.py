"""The event log: append in the transaction of the change, read after a cursor, acknowledge, search, prune.

A consumer reads by name. It is handed what it has not acknowledged, so whoever dies between reading and finishing is
handed it again: at least once, all readers in one order, none missed. Delivered and acknowledged are kept apart. The
`id` of an event is its position in that order; on Postgres positions are given after commit, by whoever reads first.
"""

from __future__ import annotations

from typing import Any

from coordinate import inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidInput, NotFound
from coordinate.records import Cursor, Event, EventBatch, Gap, Learnings

TTL_SECONDS = 259_200
NEXT_MAX = 500
# Whoever reads such an event may rely on it that the board itself wrote it.
OWN_EVENTS = (
    *("task.", "review.", "project.", "lease.", "lock.", "worktree.", "session.", "ask.", "board."),
    *("token.", "webhook."),
)
# A few, since they come along with another answer.
LEARNINGS_MAX = 5
SILENT_MAX = 1_000


def append(
    tx: Tx,
    event_type: str,
    payload: dict[str, Any],
    *,
    project: str,
    agent: str | None,
    ref: str | None,
    message: str = "",
    ttl_seconds: int | None = TTL_SECONDS,
) -> None:
    """Log an event with this transaction; it is written by the last statement before the commit, or not at all."""
    text = " ".join(filter(None, (message, ref, *_said(payload))))
    tx.events.append(
        {
            "event_type": event_type,
            "payload": inputs.dump_json(payload),
            "ttl_seconds": ttl_seconds,
            "project": project,
            "agent": agent,
            "ref": ref,
            "message": message,
            "folded": inputs.fold(text),
        }
    )


def _said(value: dict[str, Any] | list[Any]) -> list[str]:
    """The texts of a JSON value as they are, however deep: what a search looks through."""
    found: list[str] = []
    for item in value.values() if isinstance(value, dict) else value:
        if isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict | list):
            found += _said(item)
        elif item is not None:
            found.append(str(item))
    return found


def emit(
    tx: Tx,
    *,
    event_type: str,
    payload: dict[str, Any] | None = None,
    message: str = "",
    ref: str | None = None,
    project: str = "default",
    agent: str = "",
    ttl_seconds: int | None = TTL_SECONDS,
) -> None:
    """Log an event of any type: a learning, a warning, a milestone, for whoever follows the log.

    `message` is for people (2,000 characters), `payload` a JSON object, `ref` what it is about (a task, a path).
    `ttl_seconds` is how long it is kept at least; None keeps it for ever. Raises `InvalidInput`, also for a type of the
    board's own events (`task.…`, `ask.…`).
    """
    event_type = inputs.name(event_type, "event_type")
    if event_type.startswith(OWN_EVENTS) and not isinstance(agent, inputs.Own):
        raise InvalidInput(
            f"{event_type} is a name of the board's own events",
            hint=f"choose one that does not begin with {', '.join(OWN_EVENTS)}",
            field="event_type",
        )
    append(
        tx,
        event_type,
        inputs.payload({} if payload is None else payload),
        project=inputs.name(project, "project"),
        agent=inputs.agent(agent),
        ref=None if ref is None else inputs.line(ref, "ref", limit=inputs.TITLE_MAX),
        message=inputs.text(message, "message", limit=inputs.MESSAGE_MAX),
        ttl_seconds=inputs.integer_or_none(ttl_seconds, "ttl_seconds", least=0, most=inputs.TTL_SECONDS_MAX),
    )


def list_events(
    tx: Tx,
    *,
    event_type: str | None = None,
    ref: str | None = None,
    project: str | None = None,
    by_agent: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Event]:
    """The newest events, oldest of them first. `before` (an event's id) pages back; at most 1,000 at once.

    Reading this way moves no cursor and numbers nothing: on Postgres an event nobody read by cursor yet has no id.
    """
    found = tx.all(
        "events_latest",
        event_type=inputs.name_or_none(event_type, "event_type"),
        ref=None if ref is None else inputs.line(ref, "ref", limit=inputs.TITLE_MAX),
        project=inputs.name_or_none(project, "project"),
        agent=inputs.name_or_none(by_agent, "by_agent"),
        before=inputs.integer_or_none(before, "before"),
        limit=inputs.limit(limit),
    )
    return [_event(row) for row in reversed(found)]


def search_events(
    tx: Tx,
    *,
    query: str,
    event_types: list[str] | None = None,
    project: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> list[Event]:
    """Events whose message, reference or payload values hold `query`, newest first.

    The text is literal (no wildcards) and letter case does not matter, in any language. `event_types` narrows it.
    """
    found = tx.all(
        "events_search",
        needle=inputs.fold(inputs.text(query, "query", limit=inputs.QUERY_MAX)),
        project=inputs.name_or_none(project, "project"),
        any_type="any" if event_types is None else None,
        event_types=[] if event_types is None else inputs.names(event_types, "event_types"),
        before=inputs.integer_or_none(before, "before"),
        limit=inputs.limit(limit),
    )
    return [_event(row) for row in found]


def peek(tx: Tx, *, after: int, project: str | None = None, not_by: str | None = None, limit: int = 100) -> list[Event]:
    """The events behind a position, in order; moves no cursor."""
    found = tx.all(
        "events_after",
        after=inputs.integer_or_none(after, "after"),
        project=inputs.name_or_none(project, "project"),
        not_by=inputs.name_or_none(not_by, "not_by"),
        limit=inputs.limit(limit),
    )
    return [_event(row) for row in found]


def head(tx: Tx) -> int:
    """The last position given out so far."""
    return int(tx.the("feed_head").position)


def next_events(
    tx: Tx,
    *,
    consumer: str,
    limit: int = 100,
    from_start: bool = False,
    acknowledge: bool = False,
    project: str | None = None,
    not_by: str | None = None,
) -> EventBatch:
    """Hand a consumer the events behind what it acknowledged; a new consumer starts at the head.

    Repeating the call without `ack` hands out the same events again (at least once). `acknowledge` first
    acknowledges all that was delivered before, for a loop that has finished with its last batch; its first call leaves
    that away, for what an earlier run was handed may be unfinished. `delivered` is how far this batch goes.
    `from_start` lets a *new* consumer begin with the oldest event. `not_by` leaves out one agent's own events. Events
    pruned before the consumer read them come back as `gap`, never as silence. Two processes under one consumer name get
    the same events.
    """
    consumer = inputs.not_own(consumer, "consumer", *inputs.OWN_CONSUMERS)
    limit = inputs.limit(limit, most=NEXT_MAX)
    project, not_by = inputs.name_or_none(project, "project"), inputs.name_or_none(not_by, "not_by")
    from_start, acknowledge = inputs.flag(from_start, "from_start"), inputs.flag(acknowledge, "acknowledge")
    here, cursor = _place(tx, consumer, from_start=from_start)
    acknowledged = int(cursor.acknowledged)
    if acknowledge and cursor.delivered > acknowledged:
        tx.run("cursor_acknowledge", consumer=consumer, position=cursor.delivered)
        acknowledged = int(cursor.delivered)
    found, pruned = _page(tx, here, "events_after", after=acknowledged, project=project, not_by=not_by, limit=limit)
    reached = int(found[-1].position) if found else acknowledged
    if len(found) < limit:
        # A short page means that everything up to the head was looked at, also what the filters left out. A full one
        # ends with its last event, also where an earlier page was longer.
        reached = max(reached, int(here.position), int(cursor.delivered))
    tx.run("cursor_deliver", consumer=consumer, position=reached)
    return EventBatch(
        consumer=consumer,
        events=tuple(_event(row) for row in found),
        acknowledged=acknowledged,
        delivered=reached,
        redelivered=sum(1 for row in found if row.position <= cursor.delivered),
        gap=_gap(tx, acknowledged, pruned),
    )


def learnings(tx: Tx, *, limit: int = LEARNINGS_MAX, agent: str = "", session: str | None = None) -> Learnings:
    """What other agents said since the caller last asked: events with a message, oldest first, `limit` at most.

    Each is handed along once, and `more` says how many wait for the next call. The session's place begins where that
    was registered; without a session it is the agent's, and a newcomer starts at the head. Whoever must not miss one
    reads with `next_events`, which keeps a place of its own, and acknowledges.
    """
    agent, consumer = inputs.agent(agent), listener(inputs.name(session or agent, "session"))
    limit = inputs.limit(limit, most=NEXT_MAX)
    here, _ = _place(tx, consumer)
    # Locked, so that of two calls at once the second sees what the first was handed; and begun anew where the session
    # was ended in between, which takes its place away.
    while (cursor := tx.one("cursor_lock", consumer=consumer)) is None:
        here, _ = _place(tx, consumer)
    after = int(cursor.delivered)
    found, pruned = _page(tx, here, "said_after", after=after, not_by=agent, limit=limit)
    last = int(found[-1].position) if found else after
    left = tx.one("said_count", after=last, not_by=agent) if len(found) == limit else None
    more = int(left.count) if left else 0
    reached = last if more else max(last, int(here.position))
    tx.run("cursor_deliver", consumer=consumer, position=reached)
    tx.run("cursor_acknowledge", consumer=consumer, position=reached)
    return Learnings(tuple(_event(row) for row in found), more, _gap(tx, after, pruned))


def unheard(tx: Tx, *, agent: str, session: str | None) -> bool:
    """Whether to call `learnings`: it would hand something along, or tell of a gap, a newcomer has to begin, or much
    came in silence, or for long: each look would go through it again, and once it is pruned it would pass for a gap.
    """
    agent, consumer = inputs.agent(agent), listener(inputs.name(session or agent, "session"))
    cursor = tx.one("cursor", consumer=consumer)
    here = tx.the("feed_head")
    if cursor is None or here.position - cursor.delivered > SILENT_MAX or here.pruned > cursor.delivered:
        return True
    if cursor.rested and here.position > cursor.delivered:
        return True
    return bool(tx.all("said_after", after=int(cursor.delivered), not_by=agent, limit=1))


def ack(tx: Tx, *, consumer: str, position: int) -> Cursor:
    """Say that a consumer has finished with every event up to `position` (an event's id).

    A cursor never moves back: an older position changes nothing. One that was never delivered is refused.
    """
    consumer = inputs.not_own(consumer, "consumer", *inputs.OWN_CONSUMERS)
    position = inputs.integer(position, "position")
    cursor = tx.one("cursor", consumer=consumer)
    if cursor is None:
        raise NotFound(f"no consumer is called {consumer}", hint="it begins with: events next --consumer NAME")
    if position > cursor.delivered:
        raise InvalidInput(
            f"{consumer} was handed events up to {cursor.delivered}, not {position}",
            hint="acknowledge what was delivered",
            field="position",
            delivered=int(cursor.delivered),
        )
    moved = tx.one("cursor_acknowledge", consumer=consumer, position=position) or cursor
    return Cursor(consumer, int(moved.delivered), int(moved.acknowledged))


def rewind(tx: Tx, *, consumer: str, position: int) -> Cursor:
    """Put a consumer back to a position (0: the oldest event), so that what stands behind it is handed out again.

    The one way in which a cursor moves back; a position beyond the head is refused. A new consumer begins there.
    """
    consumer = inputs.not_own(consumer, "consumer", *inputs.OWN_CONSUMERS)
    position = inputs.integer(position, "position")
    if position > head(tx):
        raise InvalidInput(
            f"the log ends at {head(tx)}, before {position}", hint="name a position of the log", field="position"
        )
    tx.one("cursor_start", consumer=consumer, position=position)
    tx.run("cursor_rewind", consumer=consumer, position=position)
    return Cursor(consumer, position, position)


def prune_batch(tx: Tx, *, after: int, limit: int, dry_run: bool) -> tuple[int, int | None]:
    """Remove one batch of numbered events whose time is over; returns how many, and where the next batch begins."""
    batch = tx.all("events_expired", after=after, limit=limit)
    if not batch:
        return 0, None
    through = int(batch[-1].position)
    deleted = len(batch)
    if not dry_run:
        deleted = tx.count("events_delete", after=after, through=through)
        tx.run("counter_raise", kind="events_pruned", least=through)
    return deleted, through if len(batch) == limit else None


def _page(tx: Tx, here: Row, statement: str, **wanted: Any) -> tuple[list[Row], int]:
    """Events behind a position, and up to where the log was pruned when they were read.

    What was pruned since `here` was looked at may be missing among them, and that is no gap yet by what `here` says.
    """
    pruned = int(here.pruned)
    while True:
        found, now = tx.send(statement, **wanted), tx.send("feed_head")
        rows, since = found(), int(now()[0].pruned)
        if since == pruned:
            return rows, pruned
        pruned = since


def _gap(tx: Tx, acknowledged: int, pruned: int) -> Gap | None:
    if acknowledged >= pruned:
        return None
    left = tx.the("feed_count", after=acknowledged, through=pruned)
    lost = pruned - acknowledged - int(left.count)
    return Gap(acknowledged, pruned, lost) if lost > 0 else None


def listener(name: str) -> str:
    """The consumer by which learnings are told to a session or an agent: none that reads the log by itself."""
    return f"{inputs.OF_LEARNINGS}{name}"


def listen_from_here(tx: Tx, *, session: str) -> None:
    """A session is told what others say from now on."""
    _place(tx, listener(session))


def listen_no_more(tx: Tx, *, session: str) -> None:
    """A session that is over is told nothing more."""
    tx.run("cursor_forget", consumer=listener(session))


def _place(tx: Tx, consumer: str, *, from_start: bool = False) -> tuple[Row, Row]:
    """The head of the log, and where a consumer stands; one who comes back keeps its place.

    A newcomer is handed what comes from now on, or `from_start` what there is too.
    """
    head = tx.send("feed_head")
    cursor = tx.one("cursor", consumer=consumer)
    (here,) = head()
    while cursor is None:
        tx.run("cursor_start", consumer=consumer, position=0 if from_start else int(here.position))
        cursor = tx.one("cursor", consumer=consumer)
    return here, cursor


def _event(row: Row) -> Event:
    return Event(
        id=row.position,
        created_at=row.created_at,
        event=row.event_type,
        payload=row.payload,
        project=row.project,
        agent=row.agent,
        ref=row.ref,
        message=row.message,
    )


def forget_cursors(tx: Tx, *, limit: int) -> bool:
    """Forget a batch of cursors of sessions that are long over; whether there may be more."""
    return tx.count("cursors_forget", limit=limit) == limit
