"""Scope leases: which paths somebody means to change. No two agents hold overlapping scopes, unless both share.

A claim takes all of its patterns or none. On Postgres it takes one advisory lock a project, looks in the next
statement, and writes then; on SQLite the write transaction is the lock. The taker ends every expired lease that it
meets, with its event. A conflict is an answer, not an error.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinate import inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidInput, InvalidState, NotFound, StaleClaim
from coordinate.fleet import agents
from coordinate.records import Lease, Scopes

PATTERNS_MAX = 100
# How many silent sessions a claim ends first.
STALE_ALONG = 10
FENCES_MAX = 1_000


def claim_scopes(
    tx: Tx,
    *,
    patterns: Sequence[str],
    mode: str = "exclusive",
    task: str | None = None,
    project: str = "default",
    ttl_seconds: int = leases.TTL_SECONDS,
    fences: Sequence[int] = (),
    agent: str = "",
    session: str | None = None,
) -> Scopes:
    """Claim a set of paths or globs, all or none; of two that overlap at the same moment exactly one is granted.

    `mode` is `exclusive`, or `shared` with others that share. `task` (a handle or id) binds the leases to a held task:
    they end with its hold. They last `ttl_seconds` (1 to 604,800) unless renewed. What the session holds itself, or
    shows the `fences` of, is no conflict; claimed again it is renewed. What sessions long silent hold is ended first.
    Not granted: `conflicts` say pattern, holder, task, since when and until when, and no lease is written. Raises
    `InvalidInput`, or `InvalidState` when a held pattern is bound to another task.
    """
    wanted = canonical(patterns)
    mode = inputs.one_of(mode, "mode", ("exclusive", "shared"))
    project, agent = inputs.name(project, "project"), inputs.agent(agent)
    ttl = inputs.lease_seconds(ttl_seconds, "ttl_seconds")
    shown = _fences(fences)
    task_id, attempt = (None, None) if task is None else _held_task(tx, "task_lock", task, agent)
    agents.end_stale(tx, limit=STALE_ALONG)
    leases.lock_scopes(tx, project)
    caller = leases.Caller(agent, session, task_id, shown)
    conflicts, own, past = leases.conflicts_of(tx, wanted, project=project, mode=mode, caller=caller)
    if conflicts:
        return Scopes(False, (), tuple(conflicts))
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
    if task_id is not None:
        tx.run("task_scoped", task_id=task_id)
    return Scopes(True, tuple(kept + fresh), ())


def check_scopes(
    tx: Tx,
    *,
    patterns: Sequence[str],
    mode: str = "exclusive",
    project: str = "default",
    task: str | None = None,
    fences: Sequence[int] = (),
    agent: str = "",
    session: str | None = None,
) -> Scopes:
    """Whether these paths could be claimed now, without claiming them: for an editor's or a commit's guard.

    `granted` says that nobody else holds what overlaps; `conflicts` who does. What the session holds, or the `task`
    whose handle the agent shows, or the leases whose `fences` it shows, are the caller's own (`leases`).
    """
    wanted = canonical(patterns)
    shown = _fences(fences)
    task_id = None if task is None else _held_task(tx, "task", task, inputs.agent(agent))[0]
    conflicts, own, _ = leases.conflicts_of(
        tx,
        wanted,
        project=inputs.name(project, "project"),
        mode=inputs.one_of(mode, "mode", ("exclusive", "shared")),
        caller=leases.Caller(inputs.agent(agent) if agent else "", session, task_id, shown),
    )
    return Scopes(not conflicts, tuple(leases.lease_of(row) for row in own), tuple(conflicts))


def list_leases(
    tx: Tx,
    *,
    kind: str | None = None,
    project: str | None = None,
    held_by: str | None = None,
    task: str | None = None,
    ended: bool = False,
    before: int | None = None,
    limit: int = 100,
) -> list[Lease]:
    """Live leases, the newest first, by kind (`scope`, `lock`), project, holder or task; with `ended` also the past."""
    rows = tx.all(
        "leases_list",
        kind=None if kind is None else inputs.one_of(kind, "kind", ("scope", "lock")),
        project=None if project is None else inputs.name(project, "project"),
        agent=None if held_by is None else inputs.agent(held_by, "held_by"),
        task_id=None if task is None else inputs.task_id(task),
        all=int(inputs.flag(ended, "ended")),
        before=None if before is None else inputs.integer(before, "before", least=0, most=inputs.BIGINT_MAX),
        limit=inputs.limit(limit),
    )
    return [leases.lease_of(row) for row in rows]


def renew_leases(
    tx: Tx,
    *,
    fences: Sequence[int],
    ttl_seconds: int | None = None,
    agent: str = "",
    session: str | None = None,
) -> list[Lease]:
    """Renew leases by their fences, each to its own length (or `ttl_seconds`) from now; all or none.

    Never to less, and never one that is past: `StaleClaim` says which was lost. `Held` when one is another's.
    """
    agent = inputs.agent(agent)
    ttl = None if ttl_seconds is None else inputs.lease_seconds(ttl_seconds, "ttl_seconds")
    renewed = []
    for fence in _some(fences):
        row = _own(tx, fence, agent, session)
        if row.expires_at is None:
            renewed.append(leases.lease_of(row))
            continue
        fresh = tx.one("lease_renew", fence=fence, ttl_seconds=ttl)
        if fresh is None:
            raise _lost(row)
        renewed.append(leases.lease_of(fresh))
    return renewed


def release_leases(
    tx: Tx,
    *,
    fences: Sequence[int] = (),
    patterns: Sequence[str] = (),
    every: bool = False,
    project: str = "default",
    agent: str = "",
    session: str | None = None,
) -> list[Lease]:
    """Release leases by fence, or the session's own by pattern, or (`every`) up to 1,000 of what the session holds.

    Without any of the three it is refused: it never means everything by accident. `every` leaves what belongs to a
    held task, which ends with its hold; what belongs to an open worktree is released only by closing that. Releasing
    what is released already changes nothing. Raises `Held` when a fence is another's.
    """
    agent, project = inputs.agent(agent), inputs.name(project, "project")
    every, shown = inputs.flag(every, "every"), _fences(fences)
    wanted = canonical(patterns) if isinstance(patterns, str) or patterns else []
    if not shown and not wanted and not every:
        raise InvalidInput("nothing is named to release", hint="name fences or patterns, or say --all", field="fences")
    rows = [row for fence in shown if (row := _own(tx, fence, agent, session, ended_ok=True)).released_at is None]
    if kept := next((row for row in rows if row.worktree_id is not None), None):
        raise InvalidState(
            f"{kept.resource} (fence {kept.fence}) belongs to the open worktree of {kept.task_id}",
            hint="close it: coordinate worktree close",
            task_id=kept.task_id,
        )
    if (wanted or every) and not session:
        raise NotFound(
            "without a session nothing is yours by pattern",
            hint="show the fence that the claim gave, or set $COORDINATE_SESSION",
        )
    if wanted:
        rows += tx.all("scopes_of_session", session=session, project=project, resources=wanted, limit=inputs.LIST_MAX)
    if every:
        rows += tx.all("leases_of_session", session=session, limit=inputs.LIST_MAX)
    return leases.end(tx, {row.id: row for row in rows}.values(), reason="released", by=agent)


def canonical(patterns: Sequence[str]) -> list[str]:
    """Patterns in canonical form, each once; 1 to 100 of them."""
    given = [inputs.text(pattern, "patterns") for pattern in inputs.listed(patterns, "patterns")]
    found = list(dict.fromkeys(map(paths.canonical, given)))
    if not 1 <= len(found) <= PATTERNS_MAX:
        raise InvalidInput(f"name 1 to {PATTERNS_MAX} patterns, not {len(found)}", field="patterns")
    return found


def _own(tx: Tx, fence: int, agent: str, session: str | None, *, ended_ok: bool = False) -> Row:
    """The lease of a fence, locked; refused when it is another's. A caller without a session shows it by the fence."""
    row = tx.one("lease_by_fence", fence=fence)
    if row is None:
        raise NotFound(f"there is no lease with fence {fence}", hint="see: coordinate lease list")
    if row.agent != agent or (row.session_id is not None and session is not None and row.session_id != session):
        raise Held(
            f"fence {fence} is {row.agent}'s hold on {row.resource}",
            hint="only its holder may change it",
            holder=row.agent,
        )
    if row.released_at is not None and not ended_ok:
        raise _lost(row)
    return row


def _lost(row: Row) -> StaleClaim:
    said = row.release_reason or "expired"
    return StaleClaim(
        f"the lease on {row.resource} (fence {row.fence}) was {said}: it is not yours any more",
        hint="stop changing it; claim it again",
        fence=int(row.fence),
        resource=row.resource,
    )


def _held_task(tx: Tx, statement: str, task: str, agent: str) -> tuple[str, int]:
    """The task and attempt that the caller holds and shows; locked (`task_lock`), its hold cannot end meanwhile."""
    task_id, attempt = inputs.handle(task)
    row = tx.one(statement, task_id=task_id)
    if row is None:
        raise NotFound(f"there is no {task_id}", hint="coordinate task list shows what there is")
    if row.assigned_agent != agent or (attempt is not None and row.attempt != attempt):
        raise StaleClaim(
            f"{agent} does not hold {(attempt and f'{task_id}@{attempt}') or task_id}",
            hint="claim the task first, or claim the scopes without it",
            task_id=task_id,
            holder=row.assigned_agent,
        )
    return task_id, int(row.attempt)


def _some(fences: Sequence[int]) -> list[int]:
    found = _fences(fences)
    if not found:
        raise InvalidInput("no fence is named", hint="a claim's answer and `lease list` show it", field="fences")
    return found


def _fences(fences: Sequence[int]) -> list[int]:
    listed = inputs.listed(fences, "fences")
    found = sorted({inputs.integer(fence, "fences", least=1, most=inputs.BIGINT_MAX) for fence in listed})
    if len(found) > FENCES_MAX:
        raise InvalidInput(f"at most {FENCES_MAX} fences at once", field="fences")
    return found
