"""Scope leases: which paths somebody means to change. No two agents hold overlapping scopes, unless both share.

A claim takes all of its patterns or none; it ends what is past, also the hold on a task, so it stands in
`flows/claiming.py`. Here is who may renew and release. What a held task or an open worktree keeps ends with that, and
not singly.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinate import inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidInput, InvalidState, NotFound, StaleClaim
from coordinate.records import Lease, Scopes

PATTERNS_MAX = 100
CONFLICTS_MAX = 100
FENCES_MAX = 1_000


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
    shown = shown_fences(fences)
    task_id = None if task is None else str(held_task(tx, "task", task, inputs.agent(agent)).id)
    conflicts, own, _ = leases.conflicts_of(
        tx,
        wanted,
        project=inputs.name(project, "project"),
        mode=inputs.one_of(mode, "mode", ("exclusive", "shared")),
        caller=leases.Caller(inputs.agent(agent) if agent else "", session, task_id, shown),
        looking=True,
    )
    told = tuple(conflicts[:CONFLICTS_MAX])
    return Scopes(not conflicts, tuple(leases.lease_of(row) for row in own), told, len(conflicts) - len(told))


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
        "leases_list" if inputs.flag(ended, "ended") else "leases_live",
        kind=None if kind is None else inputs.one_of(kind, "kind", ("scope", "lock")),
        project=inputs.name_or_none(project, "project"),
        agent=None if held_by is None else inputs.agent(held_by, "held_by"),
        task_id=None if task is None else inputs.task_id(task),
        before=inputs.integer_or_none(before, "before"),
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
    """Renew scopes by their fences, each to its own length (or `ttl_seconds`) from now; all or none.

    Never to less, and never one that is past: `StaleClaim` says which was lost. `Held` when one is another's,
    `NotFound` when it never was. What a held task or an open worktree keeps lasts as long as that, and comes back as it
    is: renew the hold. Locks are renewed by `renew_lock`.
    """
    agent = inputs.agent(agent)
    ttl = inputs.lease_seconds_or_none(ttl_seconds, "ttl_seconds")
    renewed = []
    for fence in _some(fences):
        row = _own(tx, fence, agent, session)
        if row.task_id is not None and row.live:
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
    """Release scopes by fence, or the session's own by pattern, or (`every`) up to 1,000 that the session holds.

    Without any of the three it is refused, and so is `every` beside another: it never means everything by accident.
    Scopes of a held task or an open worktree end with that: `every` leaves them, and naming one raises `InvalidState`.
    Releasing what is released already changes nothing. Locks are given back by `release_lock`. Raises `Held` when a
    fence is another's, `NotFound` when it never was, and for a pattern or `every` where no session is shown.
    """
    agent, project = inputs.agent(agent), inputs.name(project, "project")
    every, shown = inputs.flag(every, "every"), shown_fences(fences)
    wanted = canonical(patterns) if isinstance(patterns, str) or patterns else []
    if not shown and not wanted and not every:
        raise InvalidInput("nothing is named to release", hint="name fences or patterns, or say --all", field="fences")
    if every and (shown or wanted):
        raise InvalidInput("everything and something named contradict", hint="leave one of them away", field="every")
    if (wanted or every) and not session:
        raise NotFound(
            "without a session nothing is yours by pattern",
            hint="show the fence that the claim gave, or set $COORDINATE_SESSION",
        )
    if every:
        rows = tx.all("scopes_free", session=session, limit=inputs.LIST_MAX)
    else:
        rows = _named(tx, shown, wanted, project, agent, session)
    return leases.end(tx, rows, reason="released", by=agent)


def _named(tx: Tx, shown: list[int], wanted: list[str], project: str, agent: str, session: str | None) -> list[Row]:
    """What is to be released, by fence or by pattern; each locked before it is judged, in the order of the fences."""
    found: set[int] = set()
    if wanted:
        seen = tx.all("scopes_of_session", session=session, project=project, resources=wanted, limit=inputs.LIST_MAX)
        found = {row.fence for row in seen}
    held = [_own(tx, fence, agent, session, ended_ok=True) for fence in sorted({*shown, *found})]
    held = [row for row in held if row.released_at is None]
    # A session may hold one path for itself and for its task.
    free = {row.resource for row in held if row.fence in found and row.task_id is None}
    rows = [row for row in held if row.fence in shown or row.task_id is None or row.resource not in free]
    if kept := next((row for row in rows if row.task_id is not None), None):
        whose, end = ("", "release or complete it") if kept.worktree_id is None else ("the worktree of ", "close that")
        raise InvalidState(
            f"{kept.resource} (fence {kept.fence}) is kept by {whose}{kept.task_id}, and ends with it",
            hint=f"{end}; its scopes are not released singly",
            task_id=kept.task_id,
        )
    return rows


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
    if row.kind != "scope":
        raise InvalidState(
            f"fence {fence} is the lock {row.resource}, not a scope",
            hint="see: coordinate lock renew, coordinate lock release",
        )
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


def held_task(tx: Tx, statement: str, task: str, agent: str, project: str | None = None) -> Row:
    """The task that the caller holds and shows; locked (`task_lock`), its hold cannot end meanwhile."""
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
    if project not in (None, row.project):
        raise InvalidState(
            f"{task_id} is of project {row.project}, not {project}",
            hint="its scopes are claimed there: leave the project away",
            project=row.project,
        )
    return row


def _some(fences: Sequence[int]) -> list[int]:
    found = shown_fences(fences)
    if not found:
        raise InvalidInput("no fence is named", hint="a claim's answer and `lease list` show it", field="fences")
    return found


def shown_fences(fences: Sequence[int]) -> list[int]:
    listed = inputs.listed(fences, "fences")
    found = sorted({inputs.integer(fence, "fences", least=1) for fence in listed})
    if len(found) > FENCES_MAX:
        raise InvalidInput(f"at most {FENCES_MAX} fences at once", field="fences")
    return found
