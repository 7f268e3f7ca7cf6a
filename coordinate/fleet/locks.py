"""Named locks: short holds, one holder each. Taken over only after their time, with a higher fence.

Whoever takes one ends what silent sessions hold first, also of the inbox, so that stands in `flows/claiming.py`.
"""

from __future__ import annotations

from coordinate import counters, inputs, leases
from coordinate.db.engine import Tx
from coordinate.errors import CoordinateError, Held, NotFound, StaleClaim
from coordinate.records import Lease

LOCK_SECONDS = 60


def take(tx: Tx, *, name: str, project: str, ttl_seconds: int, agent: str, session: str | None) -> Lease:
    """Take a lock for a session that cannot end meanwhile; `flows.claiming.acquire_lock` says what is promised."""
    name = inputs.not_own(name, "name", inputs.OWN_LOCKS)
    project, agent = inputs.name(project, "project"), inputs.agent(agent)
    ttl = inputs.lease_seconds(ttl_seconds, "ttl_seconds")
    for past in tx.all("lock_expire", project=project, resource=name):
        leases.log_end(tx, leases.lease_of(past), "expired", by=agent)
    nested = {"project": project, "resource": name, "session": session, "ttl_seconds": ttl}
    if (row := tx.one("lock_nest", **nested)) is not None:
        return leases.lease_of(row)
    fence, _ = counters.take(tx, "fence")
    row = tx.one(
        "lock_insert",
        kind="lock",
        project=project,
        resource=name,
        prefix="",
        mode="exclusive",
        agent=agent,
        session=session,
        task_id=None,
        attempt=None,
        worktree_id=None,
        fence=fence,
        ttl_seconds=ttl,
    )
    if row is None:
        # Another call of this very session may have taken it since we looked.
        if (row := tx.one("lock_nest", **nested)) is None:
            raise _held(tx, name, project)
        return leases.lease_of(row)
    lease = leases.lease_of(row)
    leases.log(tx, "lock.acquired", [lease], agent=agent)
    return lease


def release_lock(
    tx: Tx,
    *,
    name: str,
    fence: int | None = None,
    project: str = "default",
    agent: str = "",
    session: str | None = None,
) -> Lease:
    """Give a lock back, by its session or by the fence that the grant carried; a nested one by one level.

    Raises `StaleClaim` when it was lost meanwhile, `Held` when another has it, `NotFound` when nobody does.
    """
    lease = _own(tx, "lock_release", name, project, fence, agent, session)
    if lease.released_at is not None:
        leases.log_end(tx, lease, "released", by=lease.agent)
        tx.announce("ready")
    return lease


def renew_lock(
    tx: Tx,
    *,
    name: str,
    fence: int | None = None,
    project: str = "default",
    ttl_seconds: int | None = None,
    agent: str = "",
    session: str | None = None,
) -> Lease:
    """Renew a live lock to its length from now. Raises as `release_lock`; a lock that is past is lost."""
    ttl = inputs.lease_seconds_or_none(ttl_seconds, "ttl_seconds")
    return _own(tx, "lock_renew", name, project, fence, agent, session, ttl_seconds=ttl)


def _own(
    tx: Tx, statement: str, name: str, project: str, fence: int | None, agent: str, session: str | None, **more: object
) -> Lease:
    """Change the caller's own lock by a statement that decides whether it is; raise why it is not."""
    name = inputs.not_own(name, "name", inputs.OWN_LOCKS)
    project, agent = inputs.name(project, "project"), inputs.agent(agent)
    fence = inputs.integer_or_none(fence, "fence", least=1)
    row = tx.one(statement, project=project, resource=name, fence=fence, agent=agent, session=session, **more)
    if row is None:
        raise _why_not_own(tx, name, project, fence, agent, session)
    return leases.lease_of(row)


def _why_not_own(
    tx: Tx, name: str, project: str, fence: int | None, agent: str, session: str | None
) -> CoordinateError:
    row = tx.one("lock_held", project=project, resource=name)
    shown = row is not None and (row.fence == fence if fence is not None else session and row.session_id == session)
    if row is not None and shown:
        return _lost(name, int(row.fence)) if row.agent == agent and not row.live else _held(tx, name, project)
    if fence is not None:
        before = tx.one("lease_by_fence", fence=fence)
        if before is not None and before.kind == "lock" and before.resource == name:
            return _lost(name, fence)
    elif session and (lost := tx.one("lock_lost", project=project, resource=name, session=session)) is not None:
        return _lost(name, int(lost.fence))
    if row is None or not row.live:
        return NotFound(f"nobody holds the lock {name}", hint="see: coordinate lock list")
    return _held(tx, name, project)


def _held(tx: Tx, name: str, project: str) -> Held:
    row = tx.one("lock_held", project=project, resource=name)
    if row is None:
        return Held(f"the lock {name} was just taken by another", hint="try again", holder=None)
    until = leases.when(row.expires_at)
    return Held(
        f"{row.agent} holds the lock {name} until {until}",
        hint="wait for it: coordinate lock acquire --wait; if it is yours, show its --fence or its session",
        holder=row.agent,
        session=row.session_id,
        until=until,
    )


def _lost(name: str, fence: int) -> StaleClaim:
    return StaleClaim(
        f"the lock {name} with fence {fence} is over: its time ended, or it was released",
        hint="what it protects may have been changed by another; take it again",
        fence=fence,
    )
