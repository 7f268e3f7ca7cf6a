"""Taking tasks with their scopes, scopes alone, worktrees, and locks.

Taking a task and taking its scopes is one decision in one transaction. A task whose scopes another holds is set aside
on the lease that is in the way, so that the next claimer does not meet it again; when that lease ends, by release,
sweep, merge or mere time, the task is back in its old place. A task whose response another acts on is passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from coordinate import inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import Busy, Held, InvalidState
from coordinate.fleet import agents, locks, scopes, worktrees
from coordinate.fleet.scopes import CONFLICTS_MAX
from coordinate.flows import asked, ending
from coordinate.frozen import dataclass, replace
from coordinate.inbox import asks, deliveries
from coordinate.records import (
    Ask,
    Claim,
    Lease,
    OpenedWorktree,
    Scopes,
    Worktree,
)
from coordinate.work import claims, story

# How many tasks one claim sets aside before it lets others write; the next look goes on from there.
SET_ASIDE_MAX = 500
# How many it looks at first when it has met one; then more, while all of them are in the way.
AHEAD_FIRST = 10
# Against how many leases that it met last a task is held before the database is asked.
BLOCKERS_TRIED = 8


@dataclass(frozen=True)
class Look:
    """What a look at the queue gave; the claims are made when they are called for, after the commit.

    `more`: a bound was reached, look again, and begin with the lock of the scopes of `projects`, which others had.
    `locked`: others have what is left.
    """

    claims: Callable[[], list[Claim]] = list
    more: bool = False
    locked: bool = False
    projects: frozenset[str] = frozenset()


def claim_batch(
    tx: Tx,
    *,
    role: str,
    count: int,
    project: str | None = None,
    lease_seconds: int | None = None,
    respect_dependencies: bool = True,
    wait: bool = False,
    projects: frozenset[str] = frozenset(),
    agent: str = "",
    session: str | None = None,
) -> Look:
    """One look for up to `count` ready tasks, taken with their scopes in the queue's order; `wait` for locked ones.

    The scopes of `projects`, which the look before named, are locked before it has any task, and it waits for no other
    such lock: whoever has one may wait for a task, so what needs another that is not free is left to the next look.
    A task whose declared scopes another holds is set aside and passed over; what others set aside on a scope that the
    session itself holds comes back. What is due is set right first, in a look of its own; mostly nothing is, and the
    task that stands first is taken at once. All is bounded: when nothing else came of it, the caller commits and looks
    again.
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
    agents.enter(tx, session=session)
    looking = _Looking(tx, queue, session, [], [], [], [])
    at_hand = [] if projects else claims.take_at_once(tx, queue, count)
    reserved: list[Row] = []
    if not at_hand:
        more, any_reserved = claims.set_due_right(tx, queue.agent, asked.after_hold)
        if more:
            return Look(more=True, projects=projects)
        looking.wait_for(projects)
        if any_reserved:
            reserved = claims.reserved(tx, queue)
            looking.lock({row.project for row in reserved if row.scoped})
    taken: list[Row] = []
    aside, stopped = 0, False
    while len(taken) < count and aside < SET_ASIDE_MAX and not stopped:
        rows, at_hand = at_hand, []
        while reserved and not rows:
            few, reserved = reserved[: count - len(taken)], reserved[count - len(taken) :]
            rows = claims.take_reserved(tx, queue, [row for row in few if looking.may_have(row)])
        if not rows:
            # Each time: what came back last may meet another's scope, and what stood behind it be free.
            looking.bring_back_own(count - len(taken))
            # With the lock of the scopes it waits for no ready task: whoever has that row may wait for the lock.
            rows = claims.take(tx, queue, count - len(taken), wait=wait and not taken and not looking.projects)
        if not rows:
            break
        kept, passed, stopped = looking.keep(rows)
        taken += kept
        aside += passed
    if taken:
        return Look(_claimed(tx, taken, queue.agent, session))
    # A holder that died, or a human who did not answer in time, may be all that is in the way.
    swept = ending.end_stale(tx, limit=ending.SWEEP_ALONG)[0]
    # Not behind the lock of the scopes: whoever has the row of a task that waits for a human may wait for that lock.
    overdue = [] if looking.projects else asked.expire_asks(tx, limit=ending.SWEEP_ALONG)
    more = stopped or aside > 0 or bool(swept or overdue)
    again = projects.union(looking.busy) if looking.busy else frozenset[str]()
    return Look(more=more, locked=not wait and claims.any_locked(tx, queue), projects=again)


def claim_task(
    tx: Tx, *, task: str, lease_seconds: int | None = None, agent: str = "", session: str | None = None
) -> Claim:
    """Take one task by its id with its scopes, whatever its role. Of two at once exactly one gets it.

    Raises `Held` (with holder and expiry) while another's lease on it, or on one of its scopes, lives;
    `UnmetDependencies`, `NotReady` before its time, `InvalidState` when it is not waiting to be done.
    """
    agents.enter(tx, session=session)
    shared: list[int] = []
    seen = tx.one("task", task_id=inputs.task_id(task))
    if seen is not None and seen.scoped:
        # Others who have the lock may wait for the task, or end the lease that it was set aside on.
        leases.lock_scopes(tx, seen.project)
        if seen.parked_on is not None:
            tx.one("lease_share", id=seen.parked_on)
            shared = [int(seen.parked_on)]
    row, met_expiry = claims.take_one(tx, task, lease_seconds, agent, session, asked.after_hold)
    agent = inputs.agent(agent)
    if (taken := _left_to_who_acts(tx, row, agent, session)) is not None:
        refused = asks.held(taken)
        refused.keeps_changes = met_expiry
        raise refused
    if row.scoped and not leases.lock_free_scopes(tx, row.project):
        _never_taken(tx, row.id, None)
        busy = Busy(f"{row.id} was given scopes, or another project, just now", hint="claim it again")
        busy.keeps_changes = met_expiry
        raise busy
    if row.scoped:
        ending.end_stale(tx, limit=ending.SWEEP_ALONG)
    held, blocker = _with_scopes(tx, row, lease_seconds, agent, session)
    if blocker is not None:
        _never_taken(tx, row.id, _held_still(tx, blocker, shared))
        shown = leases.when_or_none(blocker.expires_at)
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
    assert held is not None
    return _claimed(tx, [held], agent, session)()[0]


@dataclass(frozen=True)
class _Looking:
    """One look at a queue, with what it has locked: the projects of scopes, the asks and the leases by their numbers,
    always in one order, so that none waits for another in a circle; and the projects whose lock others have."""

    tx: Tx
    queue: claims.Queue
    session: str | None
    projects: list[str]
    busy: list[str]
    asks: list[int]
    leases: list[int]

    def wait_for(self, projects: frozenset[str]) -> None:
        """Lock the scopes of projects, before there is anything that others may wait for."""
        for project in sorted(projects):
            leases.lock_scopes(self.tx, project)
            self.projects.append(project)

    def lock(self, projects: set[str]) -> None:
        """The same beside tasks that were taken; what others have just now is left to the next look."""
        for project in projects.difference(self.projects, self.busy):
            had = leases.lock_free_scopes(self.tx, project)
            (self.projects if had else self.busy).append(project)

    def may_have(self, row: Row) -> bool:
        """Whether the scopes of a reserved task are free. It stays reserved while they are not, and is not touched."""
        if not row.scoped or row.project not in self.projects:
            return True
        caller = leases.Caller(self.queue.agent, self.session, row.id)
        wanted = _wanted(self.tx, row.id)
        return leases.blocker_of(self.tx, wanted, project=row.project, caller=caller, looking=True) is None

    def keep(self, rows: list[Row]) -> tuple[list[Row], int, bool]:
        """Of tasks that were just taken those that are ours with all that comes along; the others are as before.

        How many of these were passed over or set aside, more that stand next among them, is the second answer; the
        third, whether the next look is to go on.
        """
        tx, agent, found = self.tx, self.queue.agent, len(rows)
        rows, late = self.lock_asks(rows)
        for row in late:
            _never_taken(tx, row.id, None)
        stopped = bool(late)
        rows = [row for row in rows if _left_to_who_acts(tx, row, agent, self.session) is None]
        aside = found - len(rows)
        self.lock({row.project for row in rows if row.scoped})
        kept: list[Row] = []
        met: list[tuple[str, Row]] = []
        for row in rows:
            if row.scoped and row.project not in self.projects:
                _never_taken(tx, row.id, None)
                stopped = True
                continue
            held, blocker = _with_scopes(tx, row, self.queue.params["lease_seconds"], agent, self.session)
            kept += [] if held is None else [held]
            met += [] if blocker is None else [(row.id, blocker)]
        if met:
            blockers = self.set_aside(met)
            stopped = stopped or len(blockers) < len(met)  # whoever is about to end the others may wait for us
            aside += len(met) + self.set_aside_ahead(blockers)
        return kept, aside, stopped

    def lock_asks(self, rows: list[Row]) -> tuple[list[Row], list[Row]]:
        """Lock what was asked about tasks, as whoever reads answers locks several too; what does not come behind the
        last is left to the next look: the second answer."""
        if not (ids := [row.ask_id for row in rows if row.ask_id is not None]):
            return rows, []
        locked = self.tx.all("asks_lock", ids=ids, after=self.asks[-1] if self.asks else 0)
        self.asks.extend(int(each.number) for each in locked)
        mine = {None, *(each.id for each in locked)}
        return [row for row in rows if row.ask_id in mine], [row for row in rows if row.ask_id not in mine]

    def bring_back_own(self, count: int) -> None:
        """What others set aside on a scope of this very session is ready to it: the first of that return first."""
        rows = claims.own_aside(self.tx, self.queue, count)
        self.lock({row.project for row in rows})
        if rows:
            self.tx.run("tasks_unpark", ids=[row.id for row in rows])

    def set_aside(self, met: list[tuple[str, Row]]) -> list[Row]:
        """Set tasks that were just taken aside, each on the lease in its way; those of the leases that live."""
        living: list[Row] = []
        for task_id, lease in sorted(met, key=lambda each: int(each[1].id)):
            still = _held_still(self.tx, lease, self.leases)
            _never_taken(self.tx, task_id, still)
            living += [] if still is None else [still]
        return living

    def set_aside_ahead(self, blockers: list[Row]) -> int:
        """Set aside what stands next and meets these leases or others, up to the first that may be free."""
        aside, size = 0, AHEAD_FIRST
        living = [lease for each in blockers if (lease := self.tx.one("lease_lives", id=each.id))]
        while aside < SET_ASIDE_MAX:
            found = self._blocked(claims.ahead(self.tx, self.queue, size), living)
            self.tx.run_many("task_park", found)
            aside += len(found)
            if len(found) < size:
                break
            size = min(4 * size, SET_ASIDE_MAX)
        return aside

    def _blocked(self, rows: list[Row], blockers: list[Row]) -> list[dict[str, object]]:
        wanted: dict[str, list[str]] = {}
        for each in self.tx.all("scopes_of", ids=[row.id for row in rows if row.scoped]):
            wanted.setdefault(each.task_id, []).append(each.pattern)
        found: list[dict[str, object]] = []
        for row in rows:
            if row.id not in wanted or row.project not in self.projects:
                break
            caller = leases.Caller(self.queue.agent, self.session, row.id)
            blocker = _known_blocker(blockers, wanted[row.id], row.project, caller)
            if blocker is None:
                met = leases.blocker_of(self.tx, wanted[row.id], project=row.project, caller=caller)
                blocker = None if met is None else _held_still(self.tx, met, self.leases)
                if blocker is None:
                    break
                blockers.append(blocker)
            found.append(
                {
                    "task_id": row.id,
                    "revision": row.revision,
                    "lease_id": blocker.id,
                    "parked_until": blocker.expires_at,
                }
            )
        return found


def _known_blocker(blockers: Sequence[Row], patterns: Sequence[str], project: str, caller: leases.Caller) -> Row | None:
    for each in blockers[-BLOCKERS_TRIED:]:
        foreign = each.project == project and not caller.owns(each)
        if foreign and any(paths.overlaps(pattern, each.resource) for pattern in patterns):
            return each
    return None


def _with_scopes(
    tx: Tx, row: Row, lease_seconds: object, agent: str, session: str | None
) -> tuple[Row | None, Row | None]:
    """Take the scopes of a task that was just taken, with their project locked: the task, or the lease in the way."""
    if not row.scoped:
        return row if row.ask_id is None else _whole(tx, row, lease_seconds, agent, session), None
    patterns = _wanted(tx, row.id)
    caller = leases.Caller(agent, session, row.id)
    _take_back_late(tx, patterns, project=row.project, caller=caller)
    if (blocker := leases.blocker_of(tx, patterns, project=row.project, caller=caller)) is not None:
        return None, blocker
    _, own, past = leases.conflicts_of(tx, patterns, project=row.project, mode="exclusive", caller=caller)
    leases.end(tx, past, reason="expired", by=agent)
    held = _whole(tx, row, lease_seconds, agent, session)
    tx.run("leases_give", task_id=row.id, agent=agent, session=session, attempt=int(held.attempt))
    # What the session holds for itself may end before the task does; only what is the task's own need not be taken.
    had = {each.resource for each in own if each.task_id == row.id and each.mode == "exclusive"}
    leases.grant_scopes(
        tx,
        [pattern for pattern in patterns if pattern not in had],
        project=row.project,
        mode="exclusive",
        agent=agent,
        session=session,
        task_id=row.id,
        attempt=int(held.attempt),
        ttl_seconds=int(held.lease_seconds),
    )
    return held, None


def _wanted(tx: Tx, task_id: str) -> list[str]:
    """What comes to whoever holds a task: what it declares, and what its open worktree keeps."""
    declared = [each.pattern for each in tx.all("scopes_of", ids=[task_id])]
    kept = [each.resource for each in tx.all("leases_of_tasks", ids=[task_id], limit=inputs.LIST_MAX)]
    return list(dict.fromkeys([*declared, *kept]))


def _whole(tx: Tx, row: Row, lease_seconds: object, agent: str, session: str | None) -> Row:
    """A task whose claim nobody is in the way of. Its holder acts on its response from now on, and the hold says so."""
    if row.ask_id is not None:
        tx.run("ask_let_go", ask_id=row.ask_id, reader=asks.reader(agent, session))
    held = tx.the("claim_whole", task_id=row.id, lease_seconds=lease_seconds)
    return held


def _held_still(tx: Tx, lease: Row, shared: list[int]) -> Row | None:
    """A lease as it is, if it still lives: an end of it comes before, and we see it, or after, and it sees the task.

    Of those that come behind the last `shared` one, in the order of all who lock several, it waits for whoever changes
    them just now; of another that is being changed the answer is None too, and the next look sees what became of it.
    """
    still = tx.one("lease_share" if lease.id > max(shared, default=0) else "lease_share_free", id=lease.id)
    shared.append(int(lease.id))
    return None if still is None else tx.one("lease_lives", id=lease.id)


def _never_taken(tx: Tx, task_id: str, blocker: Row | None) -> None:
    """A task that was just taken is as before, and out of the way while the blocker lives, if there is one."""
    tx.run(
        "task_set_aside",
        task_id=task_id,
        lease_id=None if blocker is None else blocker.id,
        parked="" if blocker is None else "scope",
        parked_until=None if blocker is None else blocker.expires_at,
    )


def _left_to_who_acts(tx: Tx, row: Row, agent: str, session: str | None) -> Row | None:
    """A task that was just taken is as before while another reader acts on its response; the ask, if so.

    A claim passes such tasks over, but for a take that came while it waited for the task: the next look sees that.
    A take of the caller's own is no obstacle, and ends when the claim is whole.
    """
    ask = None if row.ask_id is None else asks.find(tx, row.ask_id, lock=True)
    if ask is None or ask.handled_at is None or ask.taken_until is None:
        return None
    by = asks.reader(ask.taken_by, ask.taken_session_id)
    if ask.taken_until <= tx.now() or by == asks.reader(agent, session):
        return None
    _never_taken(tx, row.id, None)
    return ask


def _claimed(tx: Tx, taken: list[Row], agent: str, session: str | None) -> Callable[[], list[Claim]]:
    """The claims of what was taken, with what humans were asked about it; a response has thereby been handed over."""
    made = claims.claimed(tx, taken, agent, session)
    about = [_ask_of(tx, row, agent, session) for row in taken]
    if not any(about):
        return made
    return lambda: [replace(claim, ask=ask) for claim, ask in zip(made(), about, strict=True)]


def _ask_of(tx: Tx, row: Row, agent: str, session: str | None) -> Ask | None:
    """Its ask, or the one that it waited for and that ended unanswered; at its first claim it waited for none."""
    if row.ask_id is not None:
        return deliveries.collect(tx, ask=row.ask_id, full=True, agent=agent, session=session)
    return None if row.attempt == 1 else asks.unanswered(tx, row.id)


def _take_back_late(tx: Tx, patterns: Sequence[str], *, project: str, caller: leases.Caller) -> None:
    """End each hold that is past and keeps one of these, after `lock_scopes`.

    A task whose hold is past loses it to whoever takes one of its scopes: so what is held has all that it declares.
    """
    for task_id in leases.late_holds(tx, patterns, project=project, caller=caller):
        claims.take_back(tx, task_id, asked.after_hold)


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
    claimed again it is renewed; what a held task or an open worktree keeps lasts as long as that. What sessions long
    silent hold is ended first, and a hold on a task that is past ends where its scopes are taken. Not granted:
    `conflicts` say pattern, holder, task, since when and until when, and no lease is written. Raises `InvalidInput`,
    `StaleClaim` when the task is not the caller's, or `InvalidState` when a held pattern is bound to another task, or
    the task is of another project.
    """
    wanted = scopes.canonical(patterns)
    mode = inputs.one_of(mode, "mode", ("exclusive", "shared"))
    agent, project = inputs.agent(agent), inputs.name_or_none(project, "project")
    ttl = inputs.lease_seconds(ttl_seconds, "ttl_seconds")
    shown = scopes.shown_fences(fences)
    agents.enter(tx, session=session)
    task_id = attempt = None
    if task is not None:
        seen = scopes.held_task(tx, "task", task, agent, project)
        task_id, project = str(seen.id), str(seen.project)
    project = project or "default"
    caller = leases.Caller(agent, session, task_id, shown)
    leases.lock_scopes(tx, project)
    _take_back_late(tx, wanted, project=project, caller=caller)
    ending.end_stale(tx, limit=ending.SWEEP_ALONG)
    if task_id is not None:
        attempt = int(scopes.held_task(tx, "task_lock", str(task), agent, project).attempt)
    conflicts, own, past = leases.conflicts_of(tx, wanted, project=project, mode=mode, caller=caller)
    if conflicts:
        return Scopes(False, (), tuple(conflicts[:CONFLICTS_MAX]), len(conflicts[CONFLICTS_MAX:]))
    kept: list[Lease] = []
    for row in _held_again(tx, own, wanted, mode, task_id):
        renewed: Row | None = row
        if task_id is not None:
            tx.run("lease_bind", id=row.id, task_id=task_id, attempt=attempt)
        elif row.task_id is None:
            renewed = tx.one("lease_renew", fence=row.fence, ttl_seconds=ttl)
        if renewed is None:
            past.append(row)  # its time ended just now
        else:
            kept.append(leases.lease_of(renewed))
    leases.end(tx, past, reason="expired", by=agent)
    had = {lease.resource for lease in kept}
    fresh = leases.grant_scopes(
        tx,
        [pattern for pattern in wanted if pattern not in had],
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


def _held_again(tx: Tx, own: Sequence[Row], wanted: Sequence[str], mode: str, task_id: str | None) -> list[Row]:
    """What the session holds itself of the patterns, locked, in their order."""
    again: dict[str, Row] = {}
    for seen in sorted((row for row in own if row.resource in wanted), key=lambda row: int(row.id)):
        # Locked before it counts, in the order of all who lock several: another call may have ended it meanwhile.
        row = tx.one("lease_by_fence", fence=seen.fence)
        # What a late hold of the session keeps ends with that hold, unless this is claimed for a task.
        if row is not None and row.released_at is None and row.mode in (mode, "exclusive") and (row.live or task_id):
            again[row.resource] = row
    held = [again[pattern] for pattern in wanted if pattern in again]
    other = next((row for row in held if task_id is not None and row.task_id not in (None, task_id)), None)
    if other is not None:
        raise InvalidState(
            f"{other.resource} is held for {other.task_id}, not for {task_id}",
            hint="release it first, or leave --task away",
            task_id=other.task_id,
        )
    return held


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
    `InvalidState` when the caller does not hold it, `StaleClaim` when the handle's attempt is over.
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
    agents.enter(tx, session=session)
    leases.lock_scopes(tx, project)
    # What is held for the task may be shared with others until now.
    covered = list(dict.fromkeys([*wanted, *(each.resource for each in tx.all("leases_of_task", task_id=task_id))]))
    _take_back_late(tx, covered, project=project, caller=caller)
    row = story.find(tx, task_id, lock=True)
    if attempt is not None and attempt < row.attempt:
        raise claims.refusal(tx, task_id, attempt, agent, "open a worktree")
    if row.assigned_agent != agent or row.project != project or attempt not in (None, row.attempt):
        raise InvalidState(
            f"{agent} does not hold {task_id}",
            hint="claim the task first",
            holder=row.assigned_agent,
            status=row.status,
        )
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


# --- locks ------------------------------------------------------------------------------------------------------------


def acquire_lock(
    tx: Tx,
    *,
    name: str,
    project: str = "default",
    ttl_seconds: int = locks.LOCK_SECONDS,
    agent: str = "",
    session: str | None = None,
) -> Lease:
    """Take a named lock for `ttl_seconds` (1 to 604,800). Of several at once exactly one gets it.

    The same session takes its own lock again, one level deeper, and must release as often. Without a session there is
    no nesting. Raises `Held` while another's lock lives, with holder and expiry; one whose time is over is taken, with
    a higher fence, and its holder told. Pass the fence to what the lock protects: a lower one there is outdated.
    """
    agents.enter(tx, session=session)
    ending.end_stale(tx, limit=ending.SWEEP_ALONG)
    return locks.take(tx, name=name, project=project, ttl_seconds=ttl_seconds, agent=agent, session=session)
