"""Agents and their sessions: a durable name, and one run of it. Two sessions of one name are two holders.

A process or connection that goes away releases nothing by itself: holds run to their end, and a later process that
shows the same session goes on with them. Only an ended session, the sweep, or time ends a hold.
"""

from __future__ import annotations

from coordinate import events, inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidState, NotFound
from coordinate.records import Agent, Lease, Lost, Session

SESSION_SECONDS = 600
LOST_MAX = 50
END_BATCH = 1_000


def register(
    tx: Tx,
    *,
    name: str | None = None,
    kind: str = "agent",
    role: str | None = None,
    project: str = "default",
    host: str = "",
    pid: int | None = None,
    stream: str = "",
    doing: str = "",
    ttl_seconds: int = SESSION_SECONDS,
) -> Session:
    """Begin a session of an agent, and make the agent if it is new; show the answer's `id` with every later call.

    Without a `name` a fresh one is generated that nobody has; `kind` is agent or human. The session counts as stale
    after `ttl_seconds` (10 to 604,800) without a call; the sweep then ends what it holds. Two registrations of one name
    are two sessions. What others say from now on waits for it (`learnings`).
    """
    kind = inputs.one_of(kind, "kind", ("agent", "human"))
    role = inputs.name_or_none(role, "role")
    import secrets  # loads the hash library, which no other call needs

    if name is None:
        name = f"ag-{secrets.token_hex(8)}"
    name = inputs.agent(name, "name")
    if tx.one("agent_insert", name=name, kind=kind, role=role) is None and role is not None:
        tx.run("agent_update", name=name, kind=None, role=role)
    row = tx.the(
        "session_insert",
        id=f"s-{secrets.token_hex(12)}",
        agent=name,
        host=inputs.text(host, "host", limit=inputs.NAME_MAX),
        pid=inputs.integer_or_none(pid, "pid"),
        project=inputs.name(project, "project"),
        stream=inputs.text(stream, "stream", limit=inputs.TITLE_MAX),
        doing=inputs.text(doing, "doing", limit=inputs.TITLE_MAX),
        ttl_seconds=inputs.integer(ttl_seconds, "ttl_seconds", least=10, most=inputs.LEASE_SECONDS_MAX),
    )
    events.listen_from_here(tx, session=row.id)
    return _session(row, live=True)


def list_agents(tx: Tx, *, after: str | None = None, limit: int = 100) -> list[Agent]:
    """Agents by name, each with how many of its sessions live; `after` (a name) pages on."""
    after = inputs.name_or_none(after, "after")
    return [Agent(**row._asdict()) for row in tx.all("agents_list", after=after, limit=inputs.limit(limit))]


def list_sessions(
    tx: Tx,
    *,
    of_agent: str | None = None,
    project: str | None = None,
    ended: bool = False,
    after: str | None = None,
    limit: int = 100,
) -> list[Session]:
    """Sessions, the latest sign of life first, each live or stale; with `ended` also those that are over.

    `after` (the id of the last one seen) pages on; what gives a sign of life meanwhile goes to the front.
    """
    after = inputs.name_or_none(after, "after")
    if after is not None and tx.one("session", id=after) is None:
        raise _unknown(after)
    rows = tx.all(
        "sessions_list" if inputs.flag(ended, "ended") else "sessions_open",
        agent=None if of_agent is None else inputs.agent(of_agent, "of_agent"),
        project=inputs.name_or_none(project, "project"),
        after=after,
        limit=inputs.limit(limit),
    )
    return [_session(row, live=row.live) for row in rows]


def live_count(tx: Tx, *, project: str | None) -> int:
    """How many sessions are live."""
    return int(tx.the("sessions_live_count", project=inputs.name_or_none(project, "project")).count)


def set_doing(tx: Tx, *, doing: str | None = None, detail: str | None = None, session: str | None = None) -> Session:
    """Say what the session is at (500 characters) and details (2,000), for whoever looks who works on what.

    It is shown for 30 minutes after the session's last call; a mere heartbeat does not prolong that.
    """
    row = tx.one(
        "session_doing",
        id=_shown(session),
        doing=None if doing is None else inputs.text(doing, "doing", limit=inputs.TITLE_MAX),
        detail=None if detail is None else inputs.text(detail, "detail", limit=inputs.MESSAGE_MAX),
    )
    if row is None:
        raise _unknown(session)
    return _session(row, live=row.ended_at is None)


def end_session(tx: Tx, *, session: str | None = None) -> Session:
    """End a session on purpose: its scope leases and locks are released; claims of tasks run on to their time.

    What belongs to an open worktree stays. Another session of the same agent keeps what is its own. Ending it twice
    changes nothing. Its place in the event log is forgotten.
    """
    session_id = _shown(session)
    before = tx.one("session_lock", id=session_id)
    if before is None:
        raise _unknown(session)
    row = tx.one("session_end", id=session_id, reason="ended")
    if row is None:
        return _session(before, live=False)
    while rows := tx.all("leases_of_sessions", sessions=[session_id], limit=END_BATCH):
        leases.end(tx, rows, reason="released", by=row.agent)
    events.listen_no_more(tx, session=session_id)
    return _session(row, live=False)


def end_stale(tx: Tx, *, limit: int, by: str = "system") -> tuple[list[str], list[Lease], bool]:
    """End a batch of sessions that have been silent for too long, and what they hold; whether there may be more.

    Whoever claims does it first, so that nobody is told to wait for the dead.
    """
    stale = [str(row.id) for row in tx.all("sessions_stale", limit=limit)]
    if not stale:
        return [], [], False
    held = tx.all("leases_free_of_sessions", sessions=stale, limit=END_BATCH)
    ended = leases.end(tx, held, reason="swept", by=by)
    # What somebody has locked, or is too much for once: its session is stale still, and the next sweep goes on.
    holding = {row.session_id for row in tx.all("sessions_holding", sessions=stale)}
    over = [session for session in stale if session not in holding]
    for session in over:
        tx.one("session_end", id=session, reason="stale")
    return over, ended, len(held) == END_BATCH or len(over) == limit


# --- signs of life ----------------------------------------------------------------------------------------------------


def due(tx: Tx, *, session: str) -> tuple[bool, bool]:
    """Whether a call of this session must write (a sign of life, a renewal), and whether it lost something.

    Raises `NotFound` for a session that never was, `InvalidState` for one that was ended on purpose.
    """
    row = tx.one("session_due", id=_shown(session))
    if row is None:
        raise _unknown(session)
    _refuse_ended(row, session)
    return bool(row.beat or row.renew or row.ended_at is not None), bool(row.lost)


def enter(tx: Tx, *, session: str | None) -> None:
    """From here to the end of the transaction the session cannot be ended: whatever is granted to it, it can give back.

    One that was swept as stale is back. Raises as `due`.
    """
    if session is None:
        return
    row = tx.one("session_share", id=_shown(session))
    if row is None:
        raise _unknown(session)
    _refuse_ended(row, session)
    if row.ended_at is not None:
        tx.run("session_beat", id=session)


def _refuse_ended(row: Row, session: str) -> None:
    if row.ended_at is not None and row.end_reason == "ended":
        raise InvalidState(
            f"session {session} of {row.agent} was ended",
            hint="begin another: coordinate agent register",
            session=session,
        )


def keep(tx: Tx, *, session: str) -> None:
    """After a sign of life: renew the live scope leases and claims of the session with less than half their time left.

    Never a lock, never what is past, never to a shorter time. A scope of its own whose time is over ends here, so that
    the session is told that it lost it.
    """
    past = tx.send("session_past_leases", id=session, limit=END_BATCH)
    tx.run("session_renew_leases", id=session)
    renewed = tx.send("session_renew_tasks", id=session)
    leases.end(tx, past(), reason="expired", by="system")
    for row in renewed():
        if row.scoped:
            leases.keep_with_task(tx, row.id, row.lease_until)


def heartbeat(tx: Tx, *, session: str | None = None) -> Session:
    """Give a sign of life and nothing else; `Coordinator.heartbeat` says what is promised."""
    session_id = _shown(session)
    due(tx, session=session_id)
    tx.run("session_heartbeat", id=session_id)
    shown = tx.send("session", id=session_id)
    keep(tx, session=session_id)
    (row,) = shown()
    _refuse_ended(row, session_id)  # it may have been ended since that was looked at
    return _session(row, live=True)


def agent_of(tx: Tx, *, session: str) -> str:
    """Whose session it is. Raises `NotFound` for one that never was."""
    row = tx.one("session", id=_shown(session))
    if row is None:
        raise _unknown(session)
    return str(row.agent)


def tell_losses(tx: Tx, *, again: bool = False, session: str | None = None) -> Lost:
    """What the session lost since it was last told: leases that ended without it, claims whose time was over.

    Each is told once; of leases 50 at a time, so call again while there are so many. `again` answers also what was
    told before: the latest 50 leases and 50 claims that the session ever lost, for a caller that missed it.
    """
    again = inputs.flag(again, "again")
    session_id = _shown(session)
    if tx.one("session_lock", id=session_id) is None:
        raise _unknown(session)
    gone = sorted(tx.all("session_lost_leases", id=session_id, limit=LOST_MAX), key=lambda row: int(row.id))
    claims = tx.all("session_lost_claims", id=session_id)
    if again:
        gone = tx.all("session_losses_leases", id=session_id, limit=LOST_MAX)[::-1]
        claims = tx.all("session_losses_claims", id=session_id, limit=LOST_MAX)
    return Lost(tuple(map(leases.lease_of, gone)), tuple(sorted(f"{row.task_id}@{row.attempt}" for row in claims)))


def _shown(session: str | None) -> str:
    if not session:
        raise NotFound("no session is shown", hint="begin one: coordinate agent register; then set $COORDINATE_SESSION")
    return inputs.line(session, "session", limit=inputs.NAME_MAX)


def _unknown(session: str | None) -> NotFound:
    return NotFound(f"there is no session {session}", hint="begin one: coordinate agent register", session=session)


def _session(row: Row, *, live: bool) -> Session:
    return Session(**{**row._asdict(), "live": live})
