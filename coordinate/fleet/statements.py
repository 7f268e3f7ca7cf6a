"""The SQL of the fleet wing, in Core: agents, sessions, scopes, locks, worktrees, replay.

A lease is live while it is not released and its time is not over; a lease bound to an open worktree has no time.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    and_,
    case,
    cast,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from coordinate.db.portable import (
    BIGINT,
    before,
    const,
    counted,
    from_now,
    given,
    given_integer,
    given_text,
    insert_unless_there,
    now,
    optional,
    plus_seconds,
)
from coordinate.db.schema import agents, applied_events, attempts, leases, sessions, tasks, tokens, worktrees
from coordinate.db.statements import Statements
from coordinate.inputs import LEASE_SECONDS_MAX

DOING_SECONDS = 1_800
STATEMENTS = Statements("fleet: agents, sessions, scopes, locks, worktrees, replay, tokens")
add = STATEMENTS.add

a, s, w, lease, t = agents.c, sessions.c, worktrees.c, leases.c, tasks.c
_HELD = lease.released_at.is_(None)
_SCOPE = lease.kind == const("scope")
_LEASE = tuple(leases.c)

# --- agents and sessions ----------------------------------------------------------------------------------------------

add(
    "agent_insert",
    "A durable name; whoever comes first makes it.",
    insert_unless_there(agents, "name", **given(agents, "name kind role"), created_at=now()).returning(a.name),
)
add(
    "agent_update",
    "What an agent is; what is absent stays.",
    update(agents)
    .where(a.name == given_text("name"))
    .values(
        kind=func.coalesce(given_text("kind"), a.kind, type_=a.kind.type),
        role=func.coalesce(given_text("role"), a.role, type_=a.role.type),
    ),
)
add("agent", "One agent.", select(agents).where(a.name == given_text("name")))
_SESSION = tuple(sessions.c)
# Who has not called for so long is at nothing any more, whatever keeps the session alive.
_IDLE = plus_seconds(s.last_call_at, const(DOING_SECONDS)) < now()
_DOING = {column.name: case((_IDLE, const("")), else_=column) for column in (s.doing, s.detail)}
_SHOWN = tuple(_DOING[each.name].label(each.name) if each.name in _DOING else each for each in _SESSION)
_STALE = and_(s.ended_at.is_(None), plus_seconds(s.heartbeat_at, s.ttl_seconds) < now())
_FRESH = plus_seconds(s.heartbeat_at, s.ttl_seconds) >= now()
# None is given more time than this: so much an index can tell.
_RECENT = s.heartbeat_at >= from_now(const(-LEASE_SECONDS_MAX))
add(
    "session_insert",
    "One run of an agent.",
    insert(sessions)
    .values(
        **given(sessions, "id agent host pid project stream doing ttl_seconds"),
        started_at=now(),
        heartbeat_at=now(),
        last_call_at=now(),
    )
    .returning(*_SESSION),
)
add("session", "One session.", select(*_SHOWN).where(s.id == given_text("id")))
add(
    "session_lock",
    "One session, locked: a sweep and a sign of life come one after the other.",
    # Its key stays free: whoever changes one of its leases twice asks for that, and may have the lease we wait for.
    select(*_SESSION).where(s.id == given_text("id")).with_for_update(key_share=True),
)
_seen = sessions.alias("seen")
_seen_at = select(_seen.c.heartbeat_at).where(_seen.c.id == given_text("after")).scalar_subquery()
add(
    "session_share",
    "One session that something is granted to: it ends before this, or after it and with what was granted.",
    select(*_SESSION).where(s.id == given_text("id")).with_for_update(read=True),
)
_sessions = (
    select(*_SHOWN, and_(s.ended_at.is_(None), _FRESH).label("live"))
    .where(
        optional(s.agent),
        optional(s.project),
        optional(
            s.id,
            given_text("after"),
            or_(s.heartbeat_at < _seen_at, and_(s.heartbeat_at == _seen_at, s.id > given_text("after"))),
        ),
    )
    .order_by(s.heartbeat_at.desc(), s.id)
    .limit(given_integer("limit"))
)
add(
    "sessions_list",
    "Sessions, the latest sign of life first, with whether each is live; `after` (an id) pages on.",
    _sessions,
)
# One of its own, since only few of all that ever were go on.
add("sessions_open", "The same of those that are not over.", _sessions.where(s.ended_at.is_(None)))
add(
    "sessions_live_count",
    "How many sessions have given a sign of life in their time.",
    select(counted(s.id)).where(s.ended_at.is_(None), _FRESH, optional(s.project)),
)
add(
    "agents_list",
    "Agents by name, with how many of their sessions are live.",
    select(
        *agents.c,
        select(func.count(s.id, type_=BIGINT))
        .where(s.agent == a.name, s.ended_at.is_(None), _RECENT, _FRESH)
        .correlate(agents)
        .scalar_subquery()
        .label("live_sessions"),
        select(func.max(s.heartbeat_at, type_=s.heartbeat_at.type))
        .where(s.agent == a.name)
        .correlate(agents)
        .scalar_subquery()
        .label("last_seen"),
    )
    .where(optional(a.name, given_text("after"), a.name > given_text("after")))
    .order_by(a.name)
    .limit(given_integer("limit")),
)
add(
    "session_doing",
    "What a session is at; what is absent stays.",
    update(sessions)
    .where(s.id == given_text("id"))
    .values(
        doing=func.coalesce(given_text("doing"), s.doing, type_=s.doing.type),
        detail=func.coalesce(given_text("detail"), s.detail, type_=s.detail.type),
        last_call_at=now(),
    )
    .returning(*_SESSION),
)
add(
    "sessions_stale",
    "A batch of sessions without a sign of life for longer than their time, locked; the longest silent first.",
    select(*_SESSION)
    .where(_STALE)
    .order_by(s.heartbeat_at, s.id)
    .limit(given_integer("limit"))
    .with_for_update(skip_locked=True, key_share=True),
)
add(
    "session_end",
    "The run is over; one that was swept, and so may come back, may be ended on purpose still.",
    update(sessions)
    .where(
        s.id == given_text("id"),
        or_(s.ended_at.is_(None), and_(s.end_reason == const("stale"), given_text("reason") == const("ended"))),
    )
    .values(ended_at=now(), end_reason=given_text("reason"))
    .returning(*_SESSION),
)
_LOST = lease.release_reason.in_([const("expired"), const("swept")])
# What is released has a reason; the index of what ended is found by these words alone.
_ENDED = lease.released_at.is_not(None)
_losses_leases = and_(lease.session_id == given_text("id"), _LOST)
_losses_claims = and_(attempts.c.session_id == given_text("id"), attempts.c.outcome == const("expired"))
# Each loss carries whether it was told: a mark in time would pass over one that is committed late.
_lost_lease = and_(_losses_leases, lease.told_at.is_(None))
_lost_claim = and_(_losses_claims, attempts.c.told_at.is_(None))


def _half_over(until: ColumnElement[Any], seconds: ColumnElement[Any]) -> ColumnElement[bool]:
    """Still live, but with less than half of its time left."""
    return and_(until > now(), until < from_now(seconds / const(2)))


# Scopes of a task are renewed with its hold.
_OWN = and_(_SCOPE, _HELD, lease.session_id == given_text("id"), lease.task_id.is_(None))
_lease_due = and_(_OWN, _half_over(lease.expires_at, lease.ttl_seconds))
_task_due = and_(
    t.status == const("IN_PROGRESS"), t.session_id == given_text("id"), _half_over(t.lease_until, t.lease_seconds)
)
_own_past = and_(_OWN, lease.expires_at <= now())
add(
    "session_due",
    "Whether a call of this session must write a sign of life, renew something, or tell of a loss; mostly none.",
    select(
        s.agent,
        s.ended_at,
        s.end_reason,
        or_(
            plus_seconds(s.heartbeat_at, s.ttl_seconds / const(4)) < now(),
            plus_seconds(s.last_call_at, s.ttl_seconds / const(4)) < now(),
        ).label("beat"),
        or_(
            exists(select(lease.id).where(_lease_due)),
            exists(select(lease.id).where(_own_past)),
            exists(select(t.number).where(_task_due)),
        ).label("renew"),
        or_(
            exists(select(lease.id).where(_lost_lease)),
            exists(select(attempts.c.attempt).where(_lost_claim)),
        ).label("lost"),
    ).where(s.id == given_text("id")),
)
add(
    "session_beat",
    "A sign of life; one that was swept as stale is back, one that was ended on purpose is not.",
    update(sessions)
    .where(s.id == given_text("id"), s.end_reason != const("ended"))
    .values(heartbeat_at=now(), last_call_at=now(), ended_at=const(None), end_reason=const(""), **_DOING),
)
add(
    "session_heartbeat",
    "The same of whoever does nothing else: it is no call.",
    update(sessions)
    .where(s.id == given_text("id"), s.end_reason != const("ended"))
    .values(heartbeat_at=now(), ended_at=const(None), end_reason=const("")),
)
_half_done = select(lease.id).where(_lease_due).order_by(lease.id).with_for_update(skip_locked=True).cte("half_done")
add(
    "session_renew_leases",
    "Renew the live scope leases of a session whose time is half over, each for its own length; never a lock.",
    # One that is locked is renewed by the next call: whoever sets a task aside on it may take long.
    update(leases)
    .where(lease.id.in_(select(_half_done.c.id)), _lease_due)
    .values(expires_at=from_now(lease.ttl_seconds)),
)
add(
    "session_past_leases",
    "Scope leases of a session whose time is over and that no task keeps: it lost them, though nobody took them yet.",
    select(*_LEASE).where(_own_past).order_by(lease.id).limit(given_integer("limit")).with_for_update(skip_locked=True),
)
_renewing = select(t.id).where(_task_due).order_by(t.number).with_for_update(skip_locked=True).cte("renewing")
add(
    "session_renew_tasks",
    "Renew the live claims of a session whose time is half over.",
    # One that is locked is in the hands of its holder's verb, which renews or ends it.
    update(tasks)
    .where(t.id.in_(select(_renewing.c.id)), _task_due)
    .values(lease_until=from_now(t.lease_seconds))
    .returning(t.id, t.lease_until, t.scoped),
)
add(
    "session_lost_leases",
    "Leases that a session lost and was not told of; told with this.",
    update(leases)
    .where(
        lease.id.in_(select(lease.id).where(_lost_lease).order_by(lease.id).limit(given_integer("limit"))),
        lease.told_at.is_(None),
    )
    .values(told_at=now())
    .returning(*_LEASE),
)
add(
    "session_lost_claims",
    "Claims that a session lost and was not told of; told with this.",
    update(attempts).where(_lost_claim).values(told_at=now()).returning(attempts.c.task_id, attempts.c.attempt),
)
add(
    "session_losses_leases",
    "Leases that a session lost, told or not, the latest first.",
    select(*_LEASE).where(_losses_leases, _ENDED).order_by(lease.id.desc()).limit(given_integer("limit")),
)
add(
    "session_losses_claims",
    "Claims that a session lost, told or not, the latest first.",
    select(attempts.c.task_id, attempts.c.attempt)
    .where(_losses_claims)
    .order_by(attempts.c.ended_at.desc(), attempts.c.task_id, attempts.c.attempt)
    .limit(given_integer("limit")),
)
add(
    "lock_lost",
    "The last grant of a lock to a session, when it ended without its doing.",
    select(lease.fence).where(
        lease.id.in_(
            select(lease.id)
            .where(
                lease.kind == const("lock"),
                lease.project == given_text("project"),
                lease.resource == given_text("resource"),
                lease.session_id == given_text("session"),
                _ENDED,
            )
            .order_by(lease.id.desc())
            .limit(const(1))
        ),
        _LOST,
    ),
)

# --- worktrees --------------------------------------------------------------------------------------------------------

_WORKTREE = tuple(worktrees.c)
add(
    "worktree_insert",
    "A working copy in which a task's changes live; one live for each task, by constraint.",
    insert_unless_there(
        worktrees,
        **given(worktrees, "task_id agent project branch root base"),
        session_id=given_text("session"),
        state=const("open"),
        created_at=now(),
        updated_at=now(),
    ).returning(*_WORKTREE),
)
add(
    "worktree_of_task",
    "The open worktree of a task, locked for the verb that follows.",
    select(*_WORKTREE).where(w.task_id == given_text("task_id"), w.closed_at.is_(None)).with_for_update(),
)
add(
    "worktree_seen",
    "The open worktree of a task, for whoever only looks.",
    select(*_WORKTREE).where(w.task_id == given_text("task_id"), w.closed_at.is_(None)),
)
add(
    "worktree_state",
    "Where its changes stand.",
    update(worktrees)
    .where(w.id == given_integer("id"), w.closed_at.is_(None))
    .values(state=given_text("state"), updated_at=now())
    .returning(*_WORKTREE),
)
add(
    "worktree_close",
    "Merged or aborted: it is over.",
    update(worktrees)
    .where(w.id == given_integer("id"), w.closed_at.is_(None))
    .values(state=given_text("state"), close_reason=given_text("reason"), closed_at=now(), updated_at=now())
    .returning(*_WORKTREE),
)
add(
    "worktree_adopt",
    "Another agent goes on in it.",
    update(worktrees)
    .where(w.id == given_integer("id"), w.closed_at.is_(None))
    .values(agent=given_text("agent"), session_id=given_text("session"), updated_at=now())
    .returning(*_WORKTREE),
)
add(
    "worktrees_list",
    "Worktrees, the newest first; `before` (an id) pages back.",
    select(*_WORKTREE)
    .where(
        optional(w.project),
        or_(cast(given_integer("all"), BigInteger) == const(1), w.closed_at.is_(None)),
        before(w.id),
    )
    .order_by(w.id.desc())
    .limit(given_integer("limit")),
)

# --- replay -----------------------------------------------------------------------------------------------------------

add(
    "applied_insert",
    "An event that a stream has applied; a second time changes nothing.",
    insert_unless_there(
        applied_events, "stream", "event_key", **given(applied_events, "stream event_key"), applied_at=now()
    ).returning(applied_events.c.event_key),
)
add(
    "applied_list",
    "What a stream has applied, by key; `after` pages on.",
    select(applied_events.c.event_key, applied_events.c.applied_at)
    .where(
        applied_events.c.stream == given_text("stream"),
        optional(applied_events.c.event_key, given_text("after"), applied_events.c.event_key > given_text("after")),
    )
    .order_by(applied_events.c.event_key)
    .limit(given_integer("limit")),
)

# --- tokens -----------------------------------------------------------------------------------------------------------

k = tokens.c
_kind = select(a.kind).where(a.name == k.agent).scalar_subquery().label("kind")
_TOKEN = (*(each for each in k if each.name != "hash"), _kind)
_due = or_(k.last_used_at.is_(None), plus_seconds(k.last_used_at, const(60)) <= now())
add(
    "token_insert",
    "A token, of which only the hash is kept.",
    insert(tokens)
    .values(
        **given(tokens, "hash agent role label created_by"),
        created_at=now(),
        expires_at=plus_seconds(now(), given_integer("ttl_seconds")),
    )
    .returning(k.id),
)
add(
    "token_of_hash",
    "A token that lets in now, and whether its use is due to be noted.",
    select(*_TOKEN, _due.label("due")).where(
        k.hash == given_text("hash"), k.revoked_at.is_(None), or_(k.expires_at.is_(None), k.expires_at > now())
    ),
)
add("token_used", "A token was used.", update(tokens).where(k.id == given_integer("id")).values(last_used_at=now()))
add(
    "token_revoke",
    "End a token; one that is over stays as it is.",
    update(tokens)
    .where(k.id == given_integer("id"), k.revoked_at.is_(None))
    .values(revoked_at=now())
    .returning(*_TOKEN),
)
add("token", "One token.", select(*_TOKEN).where(k.id == given_integer("id")))
add(
    "tokens_list",
    "Tokens, the newest first; `before` pages on.",
    select(*_TOKEN).where(before(k.id)).order_by(k.id.desc()).limit(given_integer("limit")),
)
add(
    "tokens_live",
    "Whether any token lets somebody in.",
    select(counted(k.id)).where(k.revoked_at.is_(None), or_(k.expires_at.is_(None), k.expires_at > now())),
)
