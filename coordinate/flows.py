"""The few operations that touch two wings: claiming tasks with scopes, scopes and worktrees, and the sweep.

Taking a task and taking its scopes is one decision in one transaction. A task whose scopes another holds is set aside
on the lease that is in the way, so that the next claimer does not meet it again; when that lease ends, by release,
sweep, merge or mere time, the task is back in its old place.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinate import inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidState
from coordinate.fleet import agents, scopes, worktrees
from coordinate.fleet.scopes import CONFLICTS_MAX
from coordinate.frozen import dataclass
from coordinate.records import Claim, Lease, OpenedWorktree, Scopes, Settled, Swept, Worktree
from coordinate.work import claims, story

SWEEP_MAX = 100
SWEEP_ALONG = 10
# How many tasks one claim sets aside before it lets others write; the next look goes on from there.
SET_ASIDE_MAX = 100
# How much higher the numbers of a board go on whose later days nobody can read any more.
NUMBERS_MARGIN = 1_000_000
ATTEMPTS_MARGIN = 1_000
SETTLE_BATCH = 1_000
RESTORED = "the board was put back to an earlier day"


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

    A task whose declared scopes another holds is set aside and passed over. What is due is set right first, in a look
    of its own. All is bounded: when nothing else came of it, the caller commits and looks again.
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
    if claims.set_due_right(tx):
        return Look([], more=True)
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
    return Look([], more=aside > 0 or bool(swept), locked=not wait and claims.any_locked(tx, queue))


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
            + (f" until {shown}" if shown else ""),
            hint=f"claim another task, or wait until that lease ends: {leases.ends(blocker)}",
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
    caller = leases.Caller(agent, session, row.id)
    _alone(tx, patterns, project=row.project, caller=caller)
    blocker = leases.blocker_of(tx, patterns, project=row.project, caller=caller)
    if blocker is None:
        _, own, past = leases.conflicts_of(tx, patterns, project=row.project, mode="exclusive", caller=caller)
        leases.end(tx, past, reason="expired", by=agent)
        # What the session holds for itself may end before the task does; only what is the task's own need not be taken.
        held = {each.resource for each in own if each.task_id == row.id and each.mode == "exclusive"}
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


def _alone(tx: Tx, patterns: Sequence[str], *, project: str, caller: leases.Caller) -> None:
    """From here on nobody else grants a scope in the project, and no hold that is past keeps one of these.

    A task whose hold is past loses it to whoever takes one of its scopes: so what is held has all that it declares.
    """
    leases.lock_scopes(tx, project)
    for task_id in leases.late_holds(tx, patterns, project=project, caller=caller):
        claims.take_back(tx, task_id)


# --- scopes and worktrees ---------------------------------------------------------------------------------------------


def claim_scopes(
    tx: Tx,
    *,
    patterns: Sequence[str],
    mode: str = "exclusive",
    task: str | None = None,
    project: str | None = None,
    ttl_seconds: int = leases.TTL_SECONDS,
    fences: Sequence[int] = (),
    agent: str = "",
    session: str | None = None,
) -> Scopes:
    """Claim a set of paths or globs, all or none; of two that overlap at the same moment exactly one is granted.

    `mode` is `exclusive`, or `shared` with others that share. They last `ttl_seconds` (1 to 604,800) unless renewed.
    `task` (a handle or id) binds them to a held task instead: they last as long as its hold, which is renewed by this.
    `project` is the task's, or `default`. What the session holds itself, or shows the `fences` of, is no conflict;
    claimed again it is renewed. What sessions long silent hold is ended first, and a hold on a task that is past ends
    where its scopes are taken. Not granted: `conflicts` say pattern, holder, task, since when and until when, and no
    lease is written. Raises `InvalidInput`, `StaleClaim` when the task is not the caller's, or `InvalidState` when a
    held pattern is bound to another task, or the task is of another project.
    """
    wanted = scopes.canonical(patterns)
    mode = inputs.one_of(mode, "mode", ("exclusive", "shared"))
    agent, project = inputs.agent(agent), None if project is None else inputs.name(project, "project")
    ttl = inputs.lease_seconds(ttl_seconds, "ttl_seconds")
    shown = scopes.shown_fences(fences)
    task_id = attempt = None
    if task is not None:
        seen = scopes.held_task(tx, "task", task, agent, project)
        task_id, project = str(seen.id), str(seen.project)
    project = project or "default"
    caller = leases.Caller(agent, session, task_id, shown)
    _alone(tx, wanted, project=project, caller=caller)
    agents.end_stale(tx, limit=SWEEP_ALONG)
    if task_id is not None:
        attempt = int(scopes.held_task(tx, "task_lock", str(task), agent, project).attempt)
    conflicts, own, past = leases.conflicts_of(tx, wanted, project=project, mode=mode, caller=caller)
    if conflicts:
        return Scopes(False, (), tuple(conflicts[:CONFLICTS_MAX]), len(conflicts[CONFLICTS_MAX:]))
    leases.end(tx, past, reason="expired", by=agent)
    again = {row.resource: row for row in own if row.mode in (mode, "exclusive")}
    kept: list[Lease] = []
    for pattern in [each for each in wanted if each in again]:
        row = again[pattern]
        if task_id is not None and row.task_id not in (None, task_id):
            raise InvalidState(
                f"{pattern} is held for {row.task_id}, not for {task_id}",
                hint="release it first, or leave --task away",
                task_id=row.task_id,
            )
        if task_id is not None:
            tx.run("lease_bind", id=row.id, task_id=task_id, attempt=attempt)
        renewed = tx.one("lease_renew", fence=row.fence, ttl_seconds=ttl)
        kept.append(leases.lease_of(renewed or row))
    fresh = leases.grant_scopes(
        tx,
        [pattern for pattern in wanted if pattern not in again],
        project=project,
        mode=mode,
        agent=agent,
        session=session,
        task_id=task_id,
        attempt=attempt,
        ttl_seconds=ttl,
    )
    granted = [*kept, *fresh]
    if task_id is not None:
        tx.run("task_scoped", task_id=task_id)
        claims.keep_alive(tx, handle=f"{task_id}@{attempt}", agent=agent)
        bound = {row.id: row for row in tx.all("leases_of_tasks", ids=[task_id], limit=inputs.LIST_MAX)}
        granted = [leases.lease_of(bound[lease.id]) if lease.id in bound else lease for lease in granted]
    return Scopes(True, tuple(granted), ())


def open_worktree(
    tx: Tx,
    *,
    task: str,
    branch: str,
    root: str,
    base: str = "",
    patterns: Sequence[str] = (),
    agent: str = "",
    session: str | None = None,
) -> OpenedWorktree:
    """Open a working copy for a task that the caller holds, with its scopes; of two at once exactly one is opened.

    `patterns` default to what the task declares; what is held for the task already goes over to the worktree, and is
    shared with nobody from then on. Every other open worktree, the session's own too, and every live scope of others
    is looked at: a conflict is an answer, and nothing is written. Raises `Held` when the task has an open worktree,
    `InvalidState` when there is nothing to hold.
    """
    agent = inputs.agent(agent)
    branch = inputs.line(branch, "branch", limit=inputs.TITLE_MAX)
    root = inputs.line(root, "root", limit=inputs.REASON_MAX)
    base = inputs.text(base, "base", limit=inputs.TITLE_MAX)
    task_id, attempt = inputs.handle(task)
    project = story.find(tx, task_id).project
    declared = [each.pattern for each in tx.all("scopes_of", ids=[task_id])]
    wanted = scopes.canonical(patterns if isinstance(patterns, str) or patterns else declared or ["."])
    caller = leases.Caller(agent, session, task_id)
    _alone(tx, wanted, project=project, caller=caller)
    row = story.find(tx, task_id, lock=True)
    if row.assigned_agent != agent or row.project != project or (attempt is not None and row.attempt != attempt):
        raise InvalidState(
            f"{agent} does not hold {task_id}",
            hint="claim the task first",
            holder=row.assigned_agent,
            status=row.status,
        )
    # What is held for the task may be shared with others until now.
    covered = list(dict.fromkeys([*wanted, *(each.resource for each in tx.all("leases_of_task", task_id=task_id))]))
    conflicts, own, past = leases.conflicts_of(tx, covered, project=project, mode="exclusive", caller=caller)
    conflicts += [
        leases.conflict_of(pattern, each)
        for each in own
        if each.worktree_id is not None and each.task_id != task_id
        for pattern in covered
        if paths.overlaps(pattern, each.resource)
    ]
    if conflicts:
        return OpenedWorktree(None, (), tuple(conflicts[:CONFLICTS_MAX]), len(conflicts[CONFLICTS_MAX:]))
    made = tx.one(
        "worktree_insert",
        task_id=task_id,
        agent=agent,
        session=session,
        project=project,
        branch=branch,
        root=root,
        base=base,
    )
    if made is None:
        raise Held(f"{task_id} has an open worktree already", hint="see: coordinate worktree list", task_id=task_id)
    leases.end(tx, past, reason="expired", by=agent)
    kept = [leases.lease_of(each) for each in tx.all("leases_bind", task_id=task_id, worktree_id=made.id)]
    missing = [pattern for pattern in wanted if pattern not in {lease.resource for lease in kept}]
    granted = leases.grant_scopes(
        tx,
        missing,
        project=project,
        mode="exclusive",
        agent=agent,
        session=session,
        task_id=task_id,
        attempt=int(row.attempt),
        worktree_id=int(made.id),
    )
    # Whoever takes or ends the task looks at leases from now on.
    tx.run("task_scoped", task_id=task_id)
    worktree = Worktree(**made._asdict())
    worktrees.log(tx, "worktree.opened", worktree, agent)
    return OpenedWorktree(worktree, tuple(kept + granted), ())


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
    tasks, scoped = claims.take_back_expired(tx, limit=limit)
    ended += scoped
    more = more or limit in (len(past), len(tasks))
    return Swept(tuple(over), tuple(ended), tuple(tasks), more)


def sign_of_life(tx: Tx, *, session: str) -> bool:
    """What a session's call does now and then: renew what is its own, sweep a little; whether it lost something."""
    agents.keep(tx, session=session)
    sweep(tx, limit=SWEEP_ALONG)
    return agents.due(tx, session=session)[1]


def settle(tx: Tx, *, known: bool) -> Settled:
    """After a board was put back to an earlier day: end every live hold, and let no number come twice.

    Who holds what since then nobody can tell, so claims, leases, locks and reserved reviews end, and their holders are
    told; what belongs to an open worktree stays until it is merged or aborted. Unless the numbers are `known` to lie
    above all that were given out, they go on by a wide margin: counters, ids, positions and revisions by 1,000,000,
    attempts by 1,000.
    """
    tx.where_needed("lock_edges")
    if not known:
        _raise_numbers(tx)
    tasks: list[str] = []
    while ended := claims.end_all(tx, reason=RESTORED, limit=SETTLE_BATCH):
        tasks += ended
    over = 0
    before = None
    while page := tx.all("leases_held", before=before, limit=SETTLE_BATCH):
        over += len(leases.end(tx, page, reason="expired", by="system"))
        before = page[-1].id
    tx.run("reviews_end")
    return Settled(len(tasks), over, known)


def _raise_numbers(tx: Tx) -> None:
    tx.run("tasks_raise", attempts=ATTEMPTS_MARGIN, revisions=NUMBERS_MARGIN)
    tx.run("counters_raise", count=NUMBERS_MARGIN)
    for row in tx.all("ids_last"):
        least = int(max(row.used, row.last or 0)) + NUMBERS_MARGIN
        tx.where_needed("sequence_forget", table=row.id)
        tx.where_needed("sequence_set", table=row.id, value=least)
        tx.where_needed(f"{row.id}_identity_raise", least=least)
    tx.where_needed("feed_lock")
    for row in tx.where_needed("feed_last"):
        tx.where_needed("feed_raise", least=int(row.position) + NUMBERS_MARGIN)
