"""The few operations that touch two wings: claiming a task with its scopes, and the sweep.

Taking a task and taking its scopes is one decision in one transaction. A task whose scopes another holds is set aside
on the lease that is in the way, so that the next claimer does not meet it again; when that lease ends, by release,
sweep, merge or mere time, the task is back in its old place.
"""

from __future__ import annotations

from coordinate import inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held
from coordinate.fleet import agents
from coordinate.frozen import dataclass
from coordinate.records import Claim, Swept
from coordinate.work import claims

SWEEP_MAX = 100
SWEEP_ALONG = 10
# How many tasks one claim sets aside before it lets others write; the next look goes on from there.
SET_ASIDE_MAX = 100


@dataclass(frozen=True, slots=True)
class Look:
    """What a look at the queue gave. `more`: a bound was reached, look again. `locked`: others have what is left."""

    claims: list[Claim]
    more: bool = False
    locked: bool = False


def claim_batch(
    tx: Tx,
    *,
    role: str,
    count: int,
    project: str | None = None,
    lease_seconds: int | None = None,
    respect_dependencies: bool = True,
    wait: bool = False,
    agent: str = "",
    session: str | None = None,
) -> Look:
    """One look for up to `count` ready tasks, taken with their scopes in the queue's order; `wait` for locked ones.

    A task whose declared scopes another holds is set aside and passed over. What is due is set right first. Both are
    bounded: when nothing else came of it, the caller commits and looks again.
    """
    queue = claims.queue_of(
        role=role,
        count=count,
        project=project,
        lease_seconds=lease_seconds,
        respect_dependencies=respect_dependencies,
        agent=agent,
        session=session,
    )
    more = claims.set_due_right(tx)
    taken: list[Row] = []
    aside = 0
    while len(taken) < count and aside < SET_ASIDE_MAX:
        # Once this transaction grants scopes it waits for no task's row: whoever has that row may wait for our grant.
        rows = claims.take(tx, queue, count - len(taken), wait=wait and not taken and not aside)
        if not rows:
            break
        free = [row for row in rows if not row.scoped or _with_scopes(tx, row, queue.agent, session) is None]
        aside += len(rows) - len(free)
        taken += free
    if taken:
        return Look(claims.claimed(tx, taken, queue.agent, session))
    # A holder that died may be all that is in the way.
    swept = agents.end_stale(tx, limit=SWEEP_ALONG)[0]
    return Look([], more=more or aside > 0 or bool(swept), locked=not wait and claims.any_locked(tx, queue))


def claim_task(
    tx: Tx, *, task: str, lease_seconds: int | None = None, agent: str = "", session: str | None = None
) -> Claim:
    """Take one task by its id with its scopes, whatever its role. Of two at once exactly one gets it.

    Raises `Held` (with holder and expiry) while another's lease on it, or on one of its scopes, lives;
    `UnmetDependencies`, `NotReady` before its time, `InvalidState` when it is not waiting to be done.
    """
    agents.end_stale(tx, limit=SWEEP_ALONG)
    row, met_expiry = claims.take_one(tx, task, lease_seconds, agent, session)
    if row.scoped and (blocker := _with_scopes(tx, row, inputs.agent(agent), session)) is not None:
        until = blocker.expires_at
        shown = None if until is None else until.isoformat(timespec="seconds").replace("+00:00", "Z")
        refused = Held(
            f"{row.id} cannot be claimed: {blocker.agent} holds {blocker.resource}"
            + (f" until {shown}" if shown else " for an open worktree"),
            hint="claim another task, or wait until that lease ends",
            task_id=row.id,
            holder=blocker.agent,
            until=shown,
        )
        refused.keeps_changes = met_expiry
        raise refused
    return claims.claimed(tx, [row], inputs.agent(agent), session)[0]


def _with_scopes(tx: Tx, row: Row, agent: str, session: str | None) -> Row | None:
    """Take the scopes of a task that was just taken; or set it aside again, and return the lease in the way."""
    patterns = [each.pattern for each in tx.all("scopes_of", ids=[row.id])]
    if not patterns:
        return None
    leases.lock_scopes(tx, row.project)
    caller = leases.Caller(agent, session, row.id)
    blocker = leases.blocker_of(tx, patterns, project=row.project, caller=caller)
    if blocker is None:
        _, own, past = leases.conflicts_of(tx, patterns, project=row.project, mode="exclusive", caller=caller)
        leases.end(tx, past, reason="expired", by=agent)
        # What the session holds for itself may end before the task does; only what is the task's own need not be taken.
        held = {each.resource for each in own if each.task_id == row.id}
        leases.grant_scopes(
            tx,
            [pattern for pattern in patterns if pattern not in held],
            project=row.project,
            mode="exclusive",
            agent=agent,
            session=session,
            task_id=row.id,
            attempt=int(row.attempt),
            ttl_seconds=int(row.lease_seconds),
        )
        return None
    # Its row is held still: an end of that lease comes before, and we see it, or after, and it sees the task.
    tx.one("lease_share", id=blocker.id)
    living = tx.one("lease_lives", id=blocker.id)
    tx.run(
        "task_set_aside",
        task_id=row.id,
        lease_id=None if living is None else living.id,
        parked="" if living is None else "scope",
        parked_until=None if living is None else living.expires_at,
    )
    return blocker


def sweep(tx: Tx, *, limit: int = SWEEP_MAX, agent: str = "") -> Swept:
    """End what is over: stale sessions lose their leases, leases and claims past their time end, one event for each.

    At most `limit` (1 to 1,000) of each kind; `more` says to call again. Doing it twice changes nothing more. Live
    sessions, what belongs to an open worktree, and the scopes of a held task are left alone. The calls of sessions do
    it along, now and then and a little.
    """
    limit = inputs.limit(limit)
    by = inputs.agent(agent) if agent else "system"
    over, ended, more = agents.end_stale(tx, limit=limit, by=by)
    past = tx.all("leases_past", limit=limit)
    ended += leases.end(tx, past, reason="expired", by=by)
    tasks = claims.take_back_expired(tx, limit=limit)
    more = more or limit in (len(past), len(tasks))
    return Swept(tuple(over), tuple(ended), tuple(tasks), more)


def sign_of_life(tx: Tx, *, session: str) -> bool:
    """What a session's call does now and then: renew what is its own, sweep a little; whether it lost something."""
    agents.keep(tx, session=session)
    sweep(tx, limit=SWEEP_ALONG)
    return agents.due(tx, session=session)[1]
