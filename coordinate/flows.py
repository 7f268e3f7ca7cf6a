"""The few operations that touch two wings: claims with scopes, worktrees, asks that hang on tasks, and the sweep.

Taking a task and taking its scopes is one decision in one transaction. A task whose scopes another holds is set aside
on the lease that is in the way, so that the next claimer does not meet it again; when that lease ends, by release,
sweep, merge or mere time, the task is back in its old place.

A task that waits for a human is BLOCKED exactly while its ask is open; each verb that changes the one changes the other
in the same transaction. The task's row is always locked before the ask's, so that no two of them wait in a circle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from coordinate import inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import AskOpen, Held, InvalidState
from coordinate.fleet import agents, scopes, worktrees
from coordinate.fleet.scopes import CONFLICTS_MAX
from coordinate.frozen import dataclass
from coordinate.inbox import asks, deliveries, responses
from coordinate.inputs import Json
from coordinate.records import (
    Acknowledged,
    Ask,
    Asked,
    Cancelled,
    Claim,
    Done,
    Lease,
    OpenedWorktree,
    Outcome,
    Responded,
    Scopes,
    Session,
    Settled,
    Status,
    Swept,
    Task,
    Worktree,
)
from coordinate.states import BLOCKED, CANCELLED, FINAL, IN_PROGRESS, IN_REVIEW, TODO
from coordinate.work import claims, figures, review, story, tasks

P = ParamSpec("P")
R = TypeVar("R")

SWEEP_MAX = 100
SWEEP_ALONG = 10
# How many tasks one claim sets aside before it lets others write; the next look goes on from there.
SET_ASIDE_MAX = 500
# How many it looks at first when it has met one; then more, while all of them are in the way.
AHEAD_FIRST = 10
# Against how many leases that it met last a task is held before the database is asked.
BLOCKERS_TRIED = 8
# How much higher the numbers of a board go on whose later days nobody can read any more.
NUMBERS_MARGIN = 1_000_000
ATTEMPTS_MARGIN = 1_000
SETTLE_BATCH = 1_000
RESTORED = "the board was put back to an earlier day"


@dataclass(frozen=True)
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
    first: bool = False,
    wait: bool = False,
    agent: str = "",
    session: str | None = None,
) -> Look:
    """One look for up to `count` ready tasks, taken with their scopes in the queue's order; `wait` for locked ones.

    The `first` look of a call also brings back what others set aside on a scope that the session itself holds.
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
    agents.enter(tx, session=session)
    more, reserved = claims.set_due_right(tx, queue.agent, _after_hold)
    if more:
        return Look([], more=True)
    looking = _Looking(tx, queue, session, [])
    if first:
        looking.bring_back_own(count)
    taken: list[Row] = []
    aside, stopped = 0, False
    while len(taken) < count and aside < SET_ASIDE_MAX and not stopped:
        # With the lock of the scopes it waits for no ready task: whoever has that row may wait for the lock.
        rows = claims.take_reserved(tx, queue, count) if reserved else []
        reserved = False
        rows = rows or claims.take(tx, queue, count - len(taken), wait=wait and not taken and not looking.projects)
        if not rows:
            break
        found = len(rows)
        rows = [row for row in rows if _set_aside_for_who_acts(tx, row, queue.agent) is None]
        aside += found - len(rows)
        looking.lock({row.project for row in rows if row.scoped})
        blockers = []
        for row in rows:
            if row.scoped and row.project not in looking.projects:
                _never_taken(tx, row.id, None)
                stopped = True
                continue
            held, blocker = _with_scopes(tx, row, queue.params["lease_seconds"], queue.agent, session)
            blockers += [] if blocker is None else [blocker]
            taken += [] if held is None else [held]
        if blockers:
            aside += len(blockers) + looking.set_aside_ahead(blockers)
    if taken:
        return Look(_with_responses(tx, claims.claimed(tx, taken, queue.agent, session), queue.agent, session))
    # A holder that died, or a human who did not answer in time, may be all that is in the way.
    swept = _end_stale(tx, limit=SWEEP_ALONG)[0]
    # Not behind the lock of the scopes: whoever has the row of a task that waits for a human may wait for that lock.
    overdue = [] if looking.projects else expire_asks(tx, limit=SWEEP_ALONG)
    more = stopped or aside > 0 or bool(swept or overdue)
    return Look([], more=more, locked=not wait and claims.any_locked(tx, queue))


def claim_task(
    tx: Tx, *, task: str, lease_seconds: int | None = None, agent: str = "", session: str | None = None
) -> Claim:
    """Take one task by its id with its scopes, whatever its role. Of two at once exactly one gets it.

    Raises `Held` (with holder and expiry) while another's lease on it, or on one of its scopes, lives;
    `UnmetDependencies`, `NotReady` before its time, `InvalidState` when it is not waiting to be done.
    """
    agents.enter(tx, session=session)
    seen = tx.one("task", task_id=inputs.task_id(task))
    if seen is not None and seen.scoped and (seen.status == IN_PROGRESS or seen.parked_on is not None):
        # What is not ready is met by others who have the lock, or end the lease that it was set aside on.
        leases.lock_scopes(tx, seen.project)
        if seen.parked_on is not None:
            tx.one("lease_share", id=seen.parked_on)
    row, met_expiry = claims.take_one(tx, task, lease_seconds, agent, session, _after_hold)
    if (kept := _set_aside_for_who_acts(tx, row, inputs.agent(agent))) is not None:
        refused = asks.held(kept)
        refused.keeps_changes = met_expiry
        raise refused
    if row.scoped:
        leases.lock_scopes(tx, row.project)
        _end_stale(tx, limit=SWEEP_ALONG)
    held, blocker = _with_scopes(tx, row, lease_seconds, inputs.agent(agent), session)
    if blocker is not None:
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
    agent = inputs.agent(agent)
    return _with_responses(tx, claims.claimed(tx, [held], agent, session), agent, session)[0]


@dataclass(frozen=True)
class _Looking:
    """One look at a queue, with the projects whose scopes it has locked: always in one order, so that none waits
    for another in a circle."""

    tx: Tx
    queue: claims.Queue
    session: str | None
    projects: list[str]

    def lock(self, projects: set[str]) -> None:
        """Lock what comes behind the last; what does not is left to the next look."""
        for project in sorted(projects):
            if not self.projects or project > self.projects[-1]:
                leases.lock_scopes(self.tx, project)
                self.projects.append(project)

    def bring_back_own(self, count: int) -> None:
        """What others set aside on a scope of this very session is ready to it: the first of that return first."""
        rows = claims.own_aside(self.tx, self.queue, count)
        self.lock({row.project for row in rows})
        if rows:
            self.tx.run("tasks_unpark", ids=[row.id for row in rows])

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
                blocker = None if met is None else _held_still(self.tx, met)
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
    """Take the scopes of a task that was just taken, with their project locked; or set it aside again.

    Answers the task, or the lease in the way.
    """
    if not row.scoped:
        return row, None
    patterns = [each.pattern for each in tx.all("scopes_of", ids=[row.id])]
    # What the task's open worktree keeps comes to whoever holds the task, and so must be free of others too.
    kept = tx.all("leases_of_tasks", ids=[row.id], limit=inputs.LIST_MAX)
    patterns = list(dict.fromkeys([*patterns, *(each.resource for each in kept)]))
    caller = leases.Caller(agent, session, row.id)
    _take_back_late(tx, patterns, project=row.project, caller=caller)
    if (blocker := leases.blocker_of(tx, patterns, project=row.project, caller=caller)) is not None:
        _never_taken(tx, row.id, _held_still(tx, blocker))
        return None, blocker
    _, own, past = leases.conflicts_of(tx, patterns, project=row.project, mode="exclusive", caller=caller)
    leases.end(tx, past, reason="expired", by=agent)
    held = tx.one("claim_scoped", task_id=row.id, lease_seconds=lease_seconds)
    assert held is not None
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


def _held_still(tx: Tx, lease: Row) -> Row | None:
    """A lease as it is, if it still lives: an end of it comes before, and we see it, or after, and it sees the task."""
    tx.one("lease_share", id=lease.id)
    return tx.one("lease_lives", id=lease.id)


def _never_taken(tx: Tx, task_id: str, blocker: Row | None) -> None:
    """A task that was just taken is as before, and out of the way while the blocker lives, if there is one."""
    tx.run(
        "task_set_aside",
        task_id=task_id,
        lease_id=None if blocker is None else blocker.id,
        parked="" if blocker is None else "scope",
        parked_until=None if blocker is None else blocker.expires_at,
        reserved_for=None,
    )


def _set_aside_for_who_acts(tx: Tx, row: Row, agent: str) -> Row | None:
    """A task that was just taken is as before, and kept for the agent that acts on its response; the ask, if so.

    Else whoever claims the task acts on the response from now on, and its hold says so.
    """
    if row.ask_id is None or asks.find(tx, row.ask_id, lock=True).taken_until is None:
        return None
    tx.run("ask_let_go", ask_id=row.ask_id, agent=agent)
    taken = asks.find(tx, row.ask_id)
    if taken.taken_until is None:
        return None
    kept = {"parked": "reserved", "parked_until": taken.taken_until, "reserved_for": taken.taken_by}
    tx.run("task_set_aside", task_id=row.id, lease_id=None, **kept)
    return taken


def _take_back_late(tx: Tx, patterns: Sequence[str], *, project: str, caller: leases.Caller) -> None:
    """End each hold that is past and keeps one of these, after `lock_scopes`.

    A task whose hold is past loses it to whoever takes one of its scopes: so what is held has all that it declares.
    """
    for task_id in leases.late_holds(tx, patterns, project=project, caller=caller):
        claims.take_back(tx, task_id, _after_hold)


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
    agents.enter(tx, session=session)
    task_id = attempt = None
    if task is not None:
        seen = scopes.held_task(tx, "task", task, agent, project)
        task_id, project = str(seen.id), str(seen.project)
    project = project or "default"
    caller = leases.Caller(agent, session, task_id, shown)
    leases.lock_scopes(tx, project)
    _take_back_late(tx, wanted, project=project, caller=caller)
    _end_stale(tx, limit=SWEEP_ALONG)
    if task_id is not None:
        attempt = int(scopes.held_task(tx, "task_lock", str(task), agent, project).attempt)
    conflicts, own, past = leases.conflicts_of(tx, wanted, project=project, mode=mode, caller=caller)
    if conflicts:
        return Scopes(False, (), tuple(conflicts[:CONFLICTS_MAX]), len(conflicts[CONFLICTS_MAX:]))
    leases.end(tx, past, reason="expired", by=agent)
    # What a late hold of the session keeps ends with that hold, unless this is claimed for a task.
    again = {row.resource: row for row in own if row.mode in (mode, "exclusive") and (row.live or task_id)}
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
    agents.enter(tx, session=session)
    leases.lock_scopes(tx, project)
    # What is held for the task may be shared with others until now.
    covered = list(dict.fromkeys([*wanted, *(each.resource for each in tx.all("leases_of_task", task_id=task_id))]))
    _take_back_late(tx, covered, project=project, caller=caller)
    row = story.find(tx, task_id, lock=True)
    if row.assigned_agent != agent or row.project != project or (attempt is not None and row.attempt != attempt):
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


def end_session(tx: Tx, *, session: str | None = None) -> Session:
    """End a session on purpose: its scope leases and locks are released; claims of tasks run on to their time.

    What it took of responses is free again, and what belongs to an open worktree stays. Another session of the same
    agent keeps what is its own. Ending it twice changes nothing; any other call of an ended session is refused.
    """
    ended = agents.end_session(tx, session=session)
    tx.run("asks_let_go", sessions=[ended.id])
    return ended


def _end_stale(tx: Tx, *, limit: int, by: str = "system") -> tuple[list[str], list[Lease], bool]:
    """End sessions that have been silent for too long, with what they hold and act on; see `agents.end_stale`."""
    over, ended, more = agents.end_stale(tx, limit=limit, by=by)
    if over:
        tx.run("asks_let_go", sessions=over)
    return over, ended, more


def sweep(tx: Tx, *, limit: int = SWEEP_MAX, agent: str = "") -> Swept:
    """End what is over: stale sessions lose their leases, leases, claims and asks past their time end, each logged.

    At most `limit` (1 to 1,000) of each kind; `more` says to call again. Doing it twice changes nothing more. Live
    sessions, what belongs to an open worktree, and the scopes of a held task are left alone. The calls of sessions do
    it along, now and then and a little.
    """
    limit = inputs.limit(limit)
    by = inputs.agent(agent) if agent else "system"
    over, ended, more = _end_stale(tx, limit=limit, by=by)
    past = tx.all("leases_past", limit=limit)
    ended += leases.end(tx, past, reason="expired", by=by)
    unanswered = expire_asks(tx, limit=limit)
    taken_back, scoped = claims.take_back_expired(tx, _after_hold, limit=limit)
    ended += scoped
    more = more or limit in (len(past), len(taken_back), len(unanswered))
    return Swept(tuple(over), tuple(ended), tuple(taken_back), tuple(unanswered), more)


def sign_of_life(tx: Tx, *, session: str) -> bool:
    """What a session's call does now and then: renew what is its own, sweep a little; whether it lost something."""
    agents.keep(tx, session=session)
    sweep(tx, limit=SWEEP_ALONG)
    return agents.due(tx, session=session)[1]


def settle(tx: Tx, *, known: bool) -> Settled:
    """After a board was put back to an earlier day: end every live hold, and let no number come twice.

    Who holds what since then nobody can tell, so claims, leases, locks, reserved reviews and takes of responses end,
    and their holders are told; what belongs to an open worktree stays until it is merged or aborted. Unless the numbers
    are `known` to lie above all that were given out, they go on by a wide margin: counters, ids, positions and
    revisions by 1,000,000, attempts by 1,000.
    """
    tx.where_needed("lock_edges")
    if not known:
        _raise_numbers(tx)
    freed: list[str] = []
    while ended := claims.end_all(tx, _after_hold, reason=RESTORED, limit=SETTLE_BATCH):
        freed += ended
    over = 0
    before = None
    while page := tx.all("leases_held", before=before, limit=SETTLE_BATCH):
        over += len(leases.end(tx, page, reason="expired", by="system"))
        before = page[-1].id
    tx.run("reviews_end")
    tx.run("takes_end")
    return Settled(len(freed), over, known)


def _raise_numbers(tx: Tx) -> None:
    tx.run("tasks_raise", attempts=ATTEMPTS_MARGIN, revisions=NUMBERS_MARGIN)
    for table in ("boards", "board_rows", "asks"):
        tx.run(f"{table}_raise", revisions=NUMBERS_MARGIN)
    tx.run("counters_raise", count=NUMBERS_MARGIN)
    for row in tx.all("ids_last"):
        least = int(max(row.used, row.last or 0)) + NUMBERS_MARGIN
        tx.where_needed("sequence_forget", table=row.id)
        tx.where_needed("sequence_set", table=row.id, value=least)
        tx.where_needed(f"{row.id}_identity_raise", least=least)
    tx.where_needed("feed_lock")
    for row in tx.where_needed("feed_last"):
        tx.where_needed("feed_raise", least=int(row.position) + NUMBERS_MARGIN)


def status(tx: Tx, *, project: str | None = None, days: int = 14) -> Status:
    """Where the board stands: counts, per cent done (of what was not cancelled), and a burn-down by day (UTC).

    `unreachable` lists live tasks that wait for a cancelled one and need somebody's help. `asks_open` counts what needs
    a human now, `asks_answered` what humans have finished with and agents have not, `sessions_live` who is at work.
    `days` 1 to 366.
    """
    tasks_only = figures.status(tx, project=project, days=days)
    return replace(
        tasks_only,
        asks_open=asks.attention_count(tx, project=project),
        asks_answered=asks.unhandled_count(tx, project=project),
        sessions_live=agents.live_count(tx, project=project),
    )


# --- asks that hang on tasks ------------------------------------------------------------------------------------------


def ask(
    tx: Tx,
    *,
    title: str,
    kind: str = "question",
    action_owner: str | None = None,
    detail: str = "",
    next_step: str = "",
    impact: str = "",
    next_after: str = "",
    options: Sequence[Json | str] | None = None,
    context: str = "",
    task: str | Claim | None = None,
    blocking: bool = False,
    supersedes: str | None = None,
    dedup_key: str | None = None,
    timeout_seconds: int | None = None,
    project: str | None = None,
    stream: str = "",
    agent: str = "",
    session: str | None = None,
) -> Asked:
    """Ask a human: a `question`, or tell them a `note` or that something is `done`.

    `action_owner` says what is asked: a `decision` or an `approval` (2 to 4 `options`, each a label or an object of
    label, detail and recommended) or a `task`, a deed. `impact` says what waits for it; `title` is the ask in one line,
    `next_step` the one thing to do, `next_after` what follows, `context` the long background (100,000 characters).
    With `task` it hangs on that task; `blocking` then parks the task, shown by its claim handle, in the same
    transaction: BLOCKED without a lease, until the response makes it TODO, reserved for the asker for 15 minutes, and
    comes along with the claim. An `approval` on a task in review decides the review: its first option lets it pass,
    `decline` sends it back. One live ask in a place: of several at once one opens, the others get `AlreadyAsked` with
    its id. `supersedes` closes that ask and opens the next step in its place. `dedup_key` makes a retry harmless while
    that ask lives. `timeout_seconds` (to one year) lets it expire without an answer.
    """
    agent = inputs.agent(agent)
    content = asks.content_of(
        kind=kind,
        action_owner=action_owner,
        title=title,
        detail=detail,
        next_step=next_step,
        impact=impact,
        next_after=next_after,
        options=options,
        context=context,
    )
    dedup_key = None if dedup_key is None else inputs.line(dedup_key, "dedup_key", limit=responses.KEY_MAX)
    project = inputs.name_or_none(project, "project")
    if timeout_seconds is not None:
        inputs.integer(timeout_seconds, "timeout_seconds", least=1, most=inputs.DELAY_SECONDS_MAX)
    blocking = inputs.flag(blocking, "blocking")
    if blocking and (task is None or kind != "question"):
        raise inputs.refuse("blocking", "only a question about a task is blocking", hint="name the task by its handle")
    on = None if task is None else story.find(tx, inputs.handle(task)[0], lock=True)
    if on is not None and on.status in FINAL:
        raise claims.wrong_state(on, "ask")
    stream = inputs.text(stream, "stream", limit=inputs.TITLE_MAX)
    if blocking and on is not None and (live := _park(tx, on, task, title, agent)):
        return Asked(live, already=True)
    before = None if supersedes is None else _to_supersede(tx, supersedes, on)
    place = asks.Place() if on is None else asks.Place("task", on.id)
    if before is not None:
        place = asks.Place(before.surface, before.surface_id)
        project = project or before.project
    project = on.project if on is not None else project or "default"
    if before is not None:
        twin = asks.twin(tx, project, dedup_key)
        if twin is not None and twin.id != before.id:  # this very call came before, or the key is another's
            return _the_same(twin, place, blocking=blocking, only_there=True)
        readers = [asks.reader(agent, session)]
        said: dict[str, Any] = {"reason": "superseded", "response_seq": None, "outcome": "superseded"}
        asks.closed(tx, before, agent=agent, readers=readers, **said)
    row, already = asks.open_at(
        tx,
        place,
        content,
        project=project,
        stream=stream,
        dedup_key=dedup_key,
        blocking=blocking,
        timeout_seconds=timeout_seconds,
        agent=agent,
        session=session,
    )
    if already:
        return _the_same(row, place, blocking=blocking, only_there=before is not None)
    if on is not None:
        tx.run("task_ask", task_id=on.id, ask_id=row.id)
    return Asked(asks.ask_of(row), already=False)


def _the_same(row: Row, place: asks.Place, *, blocking: bool, only_there: bool) -> Asked:
    """The ask that lives under the key, for a retry; what is to be in one place and lives in another is no retry."""
    elsewhere = (row.surface, row.surface_id) != (place.surface, place.id)
    if (elsewhere and (only_there or blocking)) or (blocking and not row.blocking):
        raise asks.already_asked(row)
    return Asked(asks.ask_of(row), already=True)


def _to_supersede(tx: Tx, ask: str, on: Row | None) -> Row:
    """The ask in whose place the next one comes, locked."""
    before = asks.find(tx, ask, lock=True)
    if before.surface == "row" or (before.surface == "task") != (on is not None):
        where = "a board's row; the board advances it" if before.surface == "row" else before.surface_id
        raise InvalidState(f"{before.id} hangs on {where}", hint="name its task", ask_id=before.id)
    if on is not None and before.surface_id != on.id:
        raise InvalidState(f"{before.id} hangs on {before.surface_id}", hint="name its task", ask_id=before.id)
    return before


def _park(tx: Tx, on: Row, task: str | Claim | None, title: str, agent: str) -> Ask | None:
    """BLOCKED and without a lease; or, where this very handle did it already, the ask that lives since."""
    assert task is not None
    if on.status == BLOCKED and inputs.handle(task)[1] is None:
        return None
    done = claims.block(tx, handle=task, reason=f"asks a human: {title}", agent=agent)
    live = tx.one("ask_at", surface="task", surface_id=on.id) if done.already else None
    return asks.ask_of(live) if live is not None and live.blocking and live.asked_by == agent else None


def revise(
    tx: Tx,
    *,
    ask: str,
    title: str | None = None,
    detail: str | None = None,
    next_step: str | None = None,
    impact: str | None = None,
    next_after: str | None = None,
    options: Sequence[Json | str] | None = None,
    context: str | None = None,
    expected_revision: int | None = None,
    agent: str = "",
    session: str | None = None,
) -> Ask:
    """Put an ask in other words; what is absent stays. The revision counts up, unless nothing differs.

    A response to the earlier words stays and is marked `outdated`; a clarification that was handed over is answered by
    the new words, and it is the human's turn again. Raises `OutdatedRevision` when `expected_revision` is not the
    current one, `Held` while another acts on the response, `Closed`, `NotFound`.
    """
    agent = inputs.agent(agent)
    if expected_revision is not None:
        inputs.integer(expected_revision, "expected_revision", least=1, most=inputs.BIGINT_MAX)
    words = {
        "title": title,
        "detail": detail,
        "next_step": next_step,
        "impact": impact,
        "next_after": next_after,
        "options": options,
        "context": context,
    }
    on, before = _locked(tx, ask)
    if before.surface == "row":
        raise InvalidState(
            f"{before.id} says what {before.surface_id} of a board says",
            hint="put it in other words there: coordinate board row TITLE LABEL",
            ask_id=before.id,
        )
    row, changed = asks.revised(tx, before, expected_revision=expected_revision, agent=agent, session=session, **words)
    if changed and row.handled_at is None:
        _follow(tx, on, row, agent=agent)
    return asks.ask_of(asks.find(tx, row.id))


def respond(
    tx: Tx,
    *,
    ask: str,
    kind: str = "answer",
    text: str = "",
    choice: str | None = None,
    context: str = "",
    revision: int | None = None,
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """A human's response, from the inbox: always succeeds while the ask lives, replaces what was there, is unseen.

    `kind` is answer, clarify (words needed, at most 10,000 characters, or for an answer `choice`, an option's label),
    decline, or handled: the deed is done. `revision` says which revision of the ask was looked at; a response to an
    earlier one is marked `outdated`. A client that names its deed (`client_id`, `client_seq` rising, `action_id`) may
    repeat it: the first result comes back and nothing is written; a deed older than its last about this ask raises
    `OutdatedRevision`.
    A blocked task goes back into the queue, reserved for the asker. Raises `Empty`, `Closed`, `NotAQuestion`,
    `NotFound`; `SelfReview` when the speaker would judge their own work.
    """
    said = responses.said_of(kind=kind, text=text, choice=choice, context=context, revision=revision)
    action = responses.action_of(client_id, client_seq, action_id)
    on, before = _locked(tx, ask)
    done = responses.responded(tx, before, said, action, agent=agent, session=session)
    return done if done.already else _followed(tx, on, done, asks.speaker(agent))


def answer(
    tx: Tx,
    *,
    ask: str,
    text: str = "",
    kind: str = "answer",
    choice: str | None = None,
    context: str = "",
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """Record what the human said in chat; the recording session has thereby been handed it. The ask stays open to act.

    One conditional update, refused in four ways that change nothing: `Empty`, `NotFound`, `Closed`, and `UnreadAnswer`
    with the waiting text while a response waits that this session was not handed. (A note is `NotAQuestion`.) Of a
    chat answer and one from the inbox at once, the inbox's stands in either order. A client may name its deed, as in
    `respond`.
    """
    agent = inputs.agent(agent)
    said = responses.said_of(kind=kind, text=text, choice=choice, context=context, revision=None)
    action = responses.action_of(client_id, client_seq, action_id)
    on = _task_under(tx, ask)
    done = responses.answered(tx, inputs.ask_id(ask), said, action, agent=agent, session=session)
    return done if done.already else _followed(tx, on, done, agent)


def withdraw_response(
    tx: Tx,
    *,
    ask: str,
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """A human takes a response back, as long as nobody was handed it: the ask is open again, its task BLOCKED.

    A task that is held again by now waits when that hold ends; about one that was cancelled nothing is asked any more.
    Against a pickup at the same moment exactly one of the two happens. Raises `AlreadySeen`, `AlreadyDecided` when it
    has passed or refused a review, `Closed`. Where there is nothing to take back it answers `already`.
    """
    action = responses.action_of(client_id, client_seq, action_id)
    on, before = _locked(tx, ask)
    done = responses.taken_back(tx, before, action, agent=agent, session=session)
    return done if done.already else _followed(tx, on, done, asks.speaker(agent))


def take(
    tx: Tx,
    *,
    ask: str,
    seconds: int = deliveries.TAKE_SECONDS,
    agent: str = "",
    session: str | None = None,
) -> Ask:
    """Say that you act on a response, alone for `seconds` (1 to 604,800), so that two agents do not both; collects it.

    Of two at once one gets it. Taking it again prolongs it. Until then no other agent acknowledges, revises, supersedes
    or withdraws the ask, ends its turn on a board, or claims the task that it brings. Raises `Held` naming the other
    while theirs lasts, while another holds that task or it is kept for them; when it is over, anybody may take it, as
    when the session ends. Raises `InvalidState` without a response, `Closed`.
    """
    agent, seconds = inputs.agent(agent), inputs.lease_seconds(seconds, "seconds")
    on, before = _locked(tx, ask)
    if on is not None and before.state == "answered":
        _refuse_kept(tx, on, agent)
    return deliveries.taken(tx, before, seconds=seconds, agent=agent, session=session)


def _refuse_kept(tx: Tx, on: Row, agent: str) -> None:
    """Whoever holds a task, or whom it is kept for, acts on what was answered about it."""
    holds = on.status == IN_PROGRESS
    whose, until = (on.assigned_agent, on.lease_until) if holds else (on.reserved_for, on.parked_until)
    clock = tx.one("clock")
    assert clock is not None
    if whose in (None, agent) or until is None or until <= clock.now:
        return
    if holds:
        raise claims.held_by(on)
    shown = leases.when(until)
    raise Held(
        f"{on.id} is kept for {whose} until {shown}, and so is what was answered about it",
        hint="leave it to them, or wait until then",
        task_id=on.id,
        holder=whose,
        until=shown,
    )


def acknowledge(
    tx: Tx, *, ask: str, response_seq: int, outcome: str = "", agent: str = "", session: str | None = None
) -> Acknowledged:
    """Say that you have finished with a response: the ask closes with an `outcome` (1,000 characters).

    `response_seq` names the response that was acted on; when the human spoke again since, `AnswerChanged` says so and
    nothing closes. A decision or an approval needs an outcome; a clarification is no end (`InvalidState`), revise,
    supersede or withdraw the ask. Raises `UnreadAnswer` with the text when the caller was not handed the response,
    `Held` while another acts on it, `Closed`. Doing it again answers `already`.
    """
    agent = inputs.agent(agent)
    seq, outcome = deliveries.acknowledgement_of(response_seq, outcome)
    on, before = _locked_to_close(tx, ask)
    row, already = deliveries.acknowledged(tx, before, response_seq=seq, outcome=outcome, agent=agent, session=session)
    _follow(tx, on, row, agent=agent)
    return deliveries.outcome_record(row, already=already)


def withdraw(tx: Tx, *, ask: str, reason: str = "", agent: str = "", session: str | None = None) -> Ask:
    """The agent takes its ask back, with the reason; a task that waited for it goes back into the queue.

    Never over a response that the caller was not handed: `UnreadAnswer` with its text; or that another acts on: `Held`.
    Raises `Closed`.
    """
    agent, reason = inputs.agent(agent), inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    on, before = _locked_to_close(tx, ask)
    row = asks.withdrawn(tx, before, reason=reason, agent=agent, session=session)
    _follow(tx, on, row, agent=agent)
    return asks.ask_of(row)


def dismiss(tx: Tx, *, ask: str, reason: str = "", agent: str = "") -> Ask:
    """The human will not answer; a task that waited for it goes back into the queue with a note that says so.

    Raises `InvalidState` once there is a response, `Closed`.
    """
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    on, before = _locked_to_close(tx, ask)
    row = asks.dismissed(tx, before, reason=reason, agent=asks.speaker(agent))
    _follow(tx, on, row, agent=asks.speaker(agent))
    return asks.ask_of(row)


def expire_asks(tx: Tx, *, limit: int) -> list[str]:
    """Close a batch of asks whose time is over, recorded as a time-out and never as the human's no; their ids."""
    over = []
    for due in tx.all("asks_due", limit=limit):
        on, _ = _locked_to_close(tx, due.id)
        row = asks.expired(tx, due.id)
        if row is not None:
            _follow(tx, on, row, agent="system")
            over.append(str(row.id))
    return over


def unblock(tx: Tx, *, task: str, note: str = "", withdraw_ask: bool = False, agent: str = "") -> Task:
    """Put a BLOCKED task back into the queue with fresh attempts; `note` (at most 10,000 characters) says what changed.

    While it waits for a human this is refused with `AskOpen`, naming the ask; `withdraw_ask` withdraws that too. Raises
    `InvalidState` unless it is BLOCKED.
    """
    withdraws = inputs.flag(withdraw_ask, "withdraw_ask")
    row = story.find(tx, inputs.task_id(task), lock=True)
    if row.status == BLOCKED and row.ask_id is not None:
        waits_for = asks.find(tx, row.ask_id, lock=True)
        if waits_for.state == "open" and waits_for.blocking:
            if not withdraws:
                raise _waits(row.id, waits_for, "answer that, or withdraw it along: --withdraw-ask")
            _withdrawn_along(tx, waits_for, f"{row.id} was unblocked", agent)
    return tasks.unblock(tx, task=task, note=note, agent=agent)


def approve(tx: Tx, *, task: str, note: str = "", override: str | None = None, agent: str = "") -> Task:
    """Pass the review of a task: IN_REVIEW becomes DONE, and whoever waited for it may go on at that moment.

    An approval that a human was asked for and has not given yet is withdrawn. Raises `SelfReview` when the reviewer
    held the task in this round of work, unless `override` (a human's reason, recorded in the history) is given; `Held`
    while another reviewer has reserved it; `InvalidState`.
    """
    return _judged(tx, review.approve(tx, task=task, note=note, override=override, agent=agent), agent)


def approve_all(
    tx: Tx,
    *,
    project: str | None = None,
    override: str | None = None,
    limit: int = review.APPROVE_ALL_MAX,
    agent: str = "",
) -> list[Outcome]:
    """Approve what waits for review (at most 1,000, by priority); each answers for itself, a refused one stops none."""
    agent = inputs.agent(agent)

    def one(task: str) -> Task:
        return approve(tx, task=task, override=override, agent=agent)

    return review.approve_each(tx, project=project, override=override, limit=limit, one=one)


def reject(tx: Tx, *, task: str, reason: str, override: str | None = None, agent: str = "") -> Task:
    """Send a task back: IN_REVIEW becomes TODO in its old place in the queue, with the reason as a REJECTED note.

    A new round of work begins: those who held it before may review the next. Raises as `approve`.
    """
    return _judged(tx, review.reject(tx, task=task, reason=reason, override=override, agent=agent), agent)


def _judged(tx: Tx, task: Task, agent: str) -> Task:
    """The review is over: what a human was asked about it and has not answered is asked no more."""
    if task.ask_id is None:
        return task
    waits_for = asks.find(tx, task.ask_id, lock=True)
    if waits_for.state != "open" or waits_for.action_owner != "approval":
        return task
    _withdrawn_along(tx, waits_for, f"{task.id} was reviewed otherwise", agent)
    return replace(task, ask_id=None)


def _withdrawn_along(tx: Tx, waits_for: Row, said: str, agent: str) -> None:
    """What a human was asked about a locked task, and has not answered, is asked no more."""
    asks.withdrawn(tx, waits_for, reason=said, agent=inputs.agent(agent), session=None)
    tx.run("task_ask_over", task_id=waits_for.surface_id, ask_id=waits_for.id)


def cancel(tx: Tx, *, task: str, reason: str = "", agent: str = "") -> Cancelled:
    """End a task that nobody shall do any more. Who held it holds it no longer; `reopen` brings it back.

    The answer lists the live tasks that depend on it (`stranded`): they never become ready unless the dependency is
    removed, or this task reopened and done. Against a completion at the same moment exactly one of the two happens.
    What it asked a human and was not answered yet is withdrawn.
    """
    done = tasks.cancel(tx, task=task, reason=reason, agent=agent)
    if done.task.ask_id is None:
        return done
    waits_for = asks.find(tx, done.task.ask_id, lock=True)
    if waits_for.state != "open":
        return done
    _withdrawn_along(tx, waits_for, f"{done.task.id} was cancelled", agent)
    return replace(done, task=replace(done.task, ask_id=None))


def complete(
    tx: Tx,
    *,
    handle: str | Claim,
    review: bool = False,
    result: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Done:
    """Finish a task: DONE, or IN_REVIEW with `review=True`. Whoever waited for a DONE task may go on at that moment.

    `result` (at most 100,000 characters) is what came of it, shown with the claim of whatever depends on it. What a
    human answered about it is acknowledged along, with the result (its first 1,000 characters) as the outcome: a must
    for a decision or an approval. Refused, and the task still held: with `UnreadAnswer` when neither the caller nor the
    claim was handed their last word, with `InvalidState` while they want something clarified, with `AskOpen` while the
    task waits for them, with `Held` while another acts on the response or holds the task. Called again with the same
    handle after it succeeded, it answers the same with `already` and writes nothing. Raises `StaleClaim` when the
    handle's attempt ended otherwise.
    """
    done = claims.complete(tx, handle=handle, review=review, result=result, agent=agent)
    if done.already or done.task.ask_id is None:
        return done
    readers = _readers(tx, done.task, agent, session)
    answered = _finishable(tx, done.task, readers)
    if answered is None:
        return done
    outcome = (done.task.result or f"{done.task.id} is {done.task.status}")[: asks.OUTCOME_MAX]
    said: dict[str, Any] = {"reason": "done", "response_seq": answered.response_seq, "outcome": outcome}
    asks.closed(tx, answered, agent=inputs.agent(agent), readers=readers, **said)
    tx.run("task_ask_over", task_id=done.task.id, ask_id=answered.id)
    return replace(done, task=replace(done.task, ask_id=None))


def release(
    tx: Tx, *, handle: str | Claim, reason: str = "", after_seconds: int | None = None, agent: str = ""
) -> Done:
    """Give a task back to the queue, in its old place; with `after_seconds` (0 to one year) not before then.

    One that waits for a human is BLOCKED until they answer. It costs none of the task's attempts. Repeated with the
    same handle it answers the same with `already`. Raises `StaleClaim` or `Held`.
    """
    done = claims.release(tx, handle=handle, reason=reason, after_seconds=after_seconds, agent=agent)
    if done.already or done.task.ask_id is None:
        return done
    _after_hold(tx, story.find(tx, done.task.id), "")
    return replace(done, task=story.task_of(tx, story.find(tx, done.task.id)))


def complete_batch(
    tx: Tx, *, handles: list[str], review: bool = False, agent: str = "", session: str | None = None
) -> list[Outcome]:
    """Finish several tasks in one transaction; each answers for itself, and a refused one does not stop the others.

    At most 100 handles. They are worked in one order, so two batches never wait for each other in a circle. A task is
    refused as `complete` refuses it without a result.
    """
    agent, review = inputs.agent(agent), inputs.flag(review, "review")

    def finish(shown: str) -> Done:
        # What is refused here is not undone with the transaction, so it is looked at first, under the task's lock.
        task_id, attempt = inputs.handle(shown)
        row = tx.one("task_lock", task_id=task_id)
        current = row is not None and row.assigned_agent == agent and attempt in (None, row.attempt)
        if row is not None and current and row.ask_id is not None:
            _finishable(tx, row, _readers(tx, row, agent, session))
        return complete(tx, handle=shown, review=review, agent=agent, session=session)

    return claims.each_of(tx, handles, finish)


def _readers(tx: Tx, task: Row | Task, agent: str, session: str | None) -> list[str]:
    """Who finishes a task: the caller, and the reader that the latest claim was made by, whose handle it shows."""
    claim = tx.one("attempt", task_id=task.id, attempt=task.attempt)
    assert claim is not None
    return [asks.reader(inputs.agent(agent), session), asks.reader(claim.agent, claim.session_id)]


def _finishable(tx: Tx, task: Row | Task, readers: list[str]) -> Row | None:
    """The ask that whoever finishes a locked task has finished with, locked; None where a human answered none.

    What a human says from now on is kept. Raises what `complete` promises.
    """
    assert task.ask_id is not None
    before = asks.find(tx, task.ask_id, lock=True)
    if before.state == "open" and before.blocking:
        hint = f"release the task until they answer, or take the ask back: coordinate inbox withdraw {before.id}"
        raise _waits(task.id, before, hint)
    if before.state != "answered":
        return None
    if (refused := asks.why_not_finished(tx, before.id, readers)) is not None:
        raise refused
    asks.refuse_clarify(asks.find(tx, before.id))
    if before.action_owner in ("decision", "approval") and not (task.result or "").strip():
        raise inputs.refuse(
            "result",
            f"{before.id} is a {before.action_owner}: say what came of it in the result of {task.id}",
            hint=f"give a result, or acknowledge {before.id} first, with an outcome",
        )
    return before


def _waits(task_id: str, ask: Row, hint: str) -> AskOpen:
    return AskOpen(f"{task_id} waits for a human: {ask.id}, {ask.title!r}", hint=hint, task_id=task_id, ask_id=ask.id)


def _along_with_asks(move: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Tx, P], R]:
    @functools.wraps(move)
    def moving(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> R:
        done = move(tx, *args, **kwargs)
        if kwargs.get("project") is not None:
            ids = inputs.task_ids(kwargs.get("tasks") or [kwargs["task"]], "tasks")
            _move_asks(tx, ids, inputs.name(kwargs["project"], "project"), str(kwargs.get("agent") or "system"))
        return done

    return cast("Callable[Concatenate[Tx, P], R]", moving)


edit = _along_with_asks(tasks.edit)
set_project = _along_with_asks(tasks.set_project)


def _move_asks(tx: Tx, task_ids: list[str], project: str, agent: str) -> None:
    """What humans are asked about locked tasks, and what they said beside it, goes to the tasks' project."""
    for live in tx.all("asks_at", surface="task", surface_ids=task_ids):
        if (row := tx.one("ask_move", ask_id=live.id, project=project)) is not None:
            tx.run("annotations_move", ask_id=row.id, project=project)
            asks.record(tx, row, "ask.moved", agent=agent, was=live.project)


# --- the steps of those verbs -----------------------------------------------------------------------------------------


def _task_under(tx: Tx, ask: str) -> Row | None:
    """The task that an ask hangs on, locked; None when it hangs elsewhere. An ask never moves."""
    row = asks.find(tx, ask)
    return story.find(tx, row.surface_id, lock=True) if row.surface == "task" else None


def _locked(tx: Tx, ask: str) -> tuple[Row | None, Row]:
    """The task that an ask hangs on and the ask, locked in this order."""
    on = _task_under(tx, ask)
    return on, asks.find(tx, ask, lock=True)


def _locked_to_close(tx: Tx, ask: str) -> tuple[Row | None, Row]:
    """The same, and before them the board's row that the ask makes blocked: its writers lock it before the ask."""
    row = asks.find(tx, ask)
    if row.surface == "row":
        tx.one("board_row_lock", row_id=row.surface_id)
    return _locked(tx, ask)


def _followed(tx: Tx, on: Row | None, done: Responded, agent: str) -> Responded:
    """What a response did, once task or row have followed."""
    _follow(tx, on, done.ask, agent=agent)
    return done if on is None else replace(done, ask=asks.ask_of(asks.find(tx, done.ask.id)))


def _follow(tx: Tx, on: Row | None, row: Row | Ask, *, agent: str) -> None:
    """Let a locked task or row follow its ask: a task waits while a blocking one is open, a row while one lives."""
    if row.surface == "row" and row.closed_at is not None:
        tx.run("board_row_unblock", row_id=row.surface_id, step_no=row.step_no, outcome=row.outcome)
    if on is None:
        return
    if row.closed_at is not None:
        tx.run("task_ask_over", task_id=on.id, ask_id=row.id)
        if row.blocking and on.status == BLOCKED and on.ask_id == row.id:
            said = f"{row.id} was closed without an answer ({row.close_reason}): {row.outcome}"
            tasks.unanswered(tx, on, ask_id=row.id, said=said, agent=agent)
    elif row.handled_at is None:
        if on.status == CANCELLED:
            _withdrawn_along(tx, asks.find(tx, row.id), f"{on.id} was cancelled", agent)
        elif row.blocking and on.status == TODO and on.ask_id == row.id:
            # One that is held by now waits when that hold ends.
            tasks.waits_again(tx, on, ask_id=row.id, said=f"{row.id} waits for a human again", agent=agent)
    elif row.blocking and on.status == BLOCKED and on.ask_id == row.id:
        said = f"{row.id} was answered"
        tasks.answered(tx, on, ask_id=row.id, asker=row.asked_by, said=said, agent=agent)
    elif isinstance(row, Ask) and row.action_owner == "approval" and on.status == IN_REVIEW:
        _decide(tx, on, row, agent)


def _decide(tx: Tx, on: Row, ask: Ask, agent: str) -> None:
    """The first option of an approval is the go-ahead; a decline sends the work back; all else decides nothing."""
    said = ask.response
    assert said is not None
    words = " ".join(part for part in (said.choice, said.text) if part)
    if said.kind == "decline":
        review.decided(tx, on, approved=False, said=words or f"{ask.id} was declined", agent=agent)
    elif said.kind == "answer" and ask.options and said.choice == ask.options[0]["label"] and not said.outdated:
        review.decided(tx, on, approved=True, said=said.text, agent=agent)
    else:
        return
    responses.acted_on(tx, ask)


def _with_responses(tx: Tx, taken: list[Claim], agent: str, session: str | None) -> list[Claim]:
    """Hand what humans were asked about these tasks along with the claims; a response has thereby been handed over."""
    return [
        claim if claim.task.ask_id is None else _with_ask(tx, claim, claim.task.ask_id, agent, session)
        for claim in taken
    ]


def _with_ask(tx: Tx, claim: Claim, ask_id: str, agent: str, session: str | None) -> Claim:
    return replace(claim, ask=deliveries.collect(tx, ask=ask_id, full=True, agent=agent, session=session))


def _after_hold(tx: Tx, row: Row, said: str) -> None:
    """What follows for a task that lost or left its holder: whether it waits for a human, or must ask one."""
    if row.status == BLOCKED:
        _ask_about_spent(tx, row, said)
    elif row.ask_id is not None:
        live = asks.find(tx, row.ask_id, lock=True)
        if live.state == "open" and live.blocking:
            tasks.waits_again(tx, row, ask_id=live.id, said=f"{live.id} waits for a human still", agent="system")


def _ask_about_spent(tx: Tx, row: Row, said: str) -> None:
    """A task that spent its attempts asks a human by itself; a question that is open there already becomes blocking.

    Where an answer stands that agents have not finished with, it asks beside it, for an answer is not put aside.
    """
    live = tx.one("ask_at_lock", surface="task", surface_id=row.id)
    if live is not None and live.state == "open" and live.kind == "question":
        tx.run("ask_block", ask_id=live.id)
        return
    then = "respond (it is tried again)" if live is None else f"unblock {row.id}"
    content = asks.content_of(
        action_owner="task",
        title=f"{row.id} spent its attempts: {row.title}"[: inputs.TITLE_MAX],
        detail=said,
        next_step=f"look into it, then {then}, or cancel {row.id}",
        impact="nobody works on it until then",
    )
    place = asks.Place("task", row.id) if live is None else asks.Place()
    opened, _ = asks.open_at(
        tx, place, content, project=row.project, blocking=live is None, agent="system", session=None
    )
    if live is None:
        tx.run("task_ask", task_id=row.id, ask_id=opened.id)
