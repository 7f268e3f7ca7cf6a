"""Leases: hold until a time unless renewed. One meaning of "live" for scopes and locks, one way to end one.

A lease is live while nobody ended it and its time is not over; one that is bound to an open worktree has no time. Every
grant carries a fence, a number that rises with each grant, so that whoever lost a lease can be told from its successor.
Every end writes its event, addressed to the former holder, and puts the tasks that were set aside on it back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from coordinate import counters, events, inputs, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidState
from coordinate.frozen import dataclass
from coordinate.records import Conflict, Lease

TTL_SECONDS = 900
UNPARK_BATCH = 1_000


def lock_scopes(tx: Tx, project: str) -> None:
    """From here to the end of the transaction nobody else grants a scope in this project."""
    tx.where_needed("scopes_lock", project=project)


def lock_free_scopes(tx: Tx, project: str) -> bool:
    """The same, if nobody else has that lock: for whoever has a task that another may wait for while having it."""
    return all(row.locked for row in tx.where_needed("scopes_try", project=project))


@dataclass(frozen=True)
class Caller:
    """Whose leases are no conflict: those of the session, of the task that is held, or whose fence its agent shows.

    Two calls without a session are strangers. What belongs to a task belongs to whoever holds the task.
    """

    agent: str = ""
    session: str | None = None
    task_id: str | None = None
    fences: Sequence[int] = ()

    def owns(self, row: Row) -> bool:
        return bool(
            (self.session is not None and row.session_id == self.session)
            or (self.task_id is not None and row.task_id == self.task_id)
            or (row.fence in self.fences and row.agent == self.agent)
        )


def conflicts_of(
    tx: Tx, patterns: Sequence[str], *, project: str, mode: str, caller: Caller, looking: bool = False
) -> tuple[list[Conflict], list[Row], list[Row]]:
    """What stands in the way of a claim, as (conflicts, own leases that overlap, leases that are past).

    Patterns are canonical. Whoever claims has taken back the holds that were past (`late_holds`); one whose time ended
    since may still be renewed, and so its scopes are in the way. For whoever is only `looking` they are none of these.
    """
    found: list[Conflict] = []
    own: dict[int, Row] = {}
    past: dict[int, Row] = {}
    for pattern, row in _overlapping(tx, patterns, project):
        if caller.owns(row) and (row.live or row.task_id is not None):
            own[row.id] = row
        elif not row.live and row.task_id is None:
            past[row.id] = row
        elif not row.live and looking:
            continue
        elif mode == "exclusive" or row.mode == "exclusive":
            found.append(conflict_of(pattern, row))
    return found, list(own.values()), list(past.values())


def blocker_of(tx: Tx, patterns: Sequence[str], *, project: str, caller: Caller, looking: bool = False) -> Row | None:
    """The lease that stands longest in the way of taking all patterns exclusively, as `conflicts_of` says; or None."""
    foreign = [row for _, row in _overlapping(tx, patterns, project) if not caller.owns(row)]
    in_the_way = [row for row in foreign if row.live or (row.task_id is not None and not looking)]
    # What has no end last of all ends by time: whoever waits for it is not woken in vain before.
    return max(in_the_way, key=lambda row: (row.expires_at is None, row.expires_at or row.acquired_at), default=None)


def late_holds(tx: Tx, patterns: Sequence[str], *, project: str, caller: Caller) -> list[str]:
    """Tasks of others whose hold is past and whose scopes overlap: who takes those takes the task back with them."""
    rows = [row for _, row in _overlapping(tx, patterns, project) if not row.live and not caller.owns(row)]
    return sorted({row.task_id for row in rows if row.task_id is not None})


def _overlapping(tx: Tx, patterns: Sequence[str], project: str) -> Iterator[tuple[str, Row]]:
    for pattern in patterns:
        for row in near(tx, pattern, project):
            if paths.overlaps(pattern, row.resource):
                yield pattern, row


def near(tx: Tx, pattern: str, project: str) -> list[Row]:
    """Unreleased scope leases that could overlap a pattern, by their leading path alone."""
    prefix = paths.literal_prefix(pattern)
    if prefix == ".":  # the root is above everything
        return tx.all("scopes_all", project=project)
    parts = prefix.split("/")
    above = [".", *("/".join(parts[:count]) for count in range(1, len(parts) + 1))]
    # Everything below: from "a/" up to the character after "/".
    return tx.all("scopes_near", project=project, above=above, below=prefix + "/", beyond=prefix + "0")


def conflict_of(pattern: str, row: Row) -> Conflict:
    return Conflict(
        pattern=pattern,
        held=row.resource,
        mode=row.mode,
        holder=row.agent,
        session=row.session_id,
        task_id=row.task_id,
        since=row.acquired_at,
        until=row.expires_at,
        ends=ends(row),
    )


def when(moment: datetime) -> str:
    """A moment in words: RFC 3339 in whole seconds."""
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


def when_or_none(moment: datetime | None) -> str | None:
    return None if moment is None else when(moment)


def ends(row: Row) -> str:
    """In words: the time at which a lease that stands in the way ends, or whose worktree it ends with."""
    if row.expires_at is None:
        return f"when {row.keeper}'s worktree of {row.task_id} is merged or aborted: see coordinate worktree list"
    return f"at {when(row.expires_at)}, unless renewed"


def grant_scopes(
    tx: Tx,
    patterns: Sequence[str],
    *,
    project: str,
    mode: str,
    agent: str,
    session: str | None,
    task_id: str | None = None,
    attempt: int | None = None,
    worktree_id: int | None = None,
    ttl_seconds: int = TTL_SECONDS,
) -> list[Lease]:
    """Write one lease for each pattern, after `lock_scopes` and a look that found no conflict."""
    if not patterns:
        return []
    first, _ = counters.take(tx, "fence", len(patterns))
    granted = []
    for place, pattern in enumerate(patterns):
        row = tx.the(
            "lease_insert",
            kind="scope",
            project=project,
            resource=pattern,
            prefix=paths.literal_prefix(pattern),
            mode=mode,
            agent=agent,
            session=session,
            task_id=task_id,
            attempt=attempt,
            worktree_id=worktree_id,
            fence=first + place,
            ttl_seconds=ttl_seconds,
        )
        granted.append(lease_of(row))
    log(tx, "lease.claimed", granted, agent=agent)
    return granted


def end(tx: Tx, rows: Iterable[Row], *, reason: str, by: str) -> list[Lease]:
    """End leases: `released`, `expired`, `swept`, `merged`, `aborted`; one event each, to the former holder.

    The rows are locked, or nobody else can end or bind them. All who change several do it in the order of their ids.
    What ended by itself is said by the board, so that also a former holder who finds it is handed the event.
    """
    ended = []
    for row in sorted(rows, key=lambda row: int(row.id)):
        done = tx.one("lease_end", id=row.id, reason=reason)
        if done is None:
            continue
        lease = lease_of(done)
        ended.append(lease)
        log_end(tx, lease, reason, by=by)
        if lease.kind == "scope":
            put_back(tx, lease.id)
        tx.announce("ready")
    return ended


def end_of_task(tx: Tx, task_id: str, *, reason: str, by: str) -> list[Lease]:
    """The hold on a task is over, and so are its scopes; those of an open worktree last until merge or abort."""
    return end(tx, tx.all("leases_of_task", task_id=task_id), reason=reason, by=by)


def give(tx: Tx, task_id: str, *, to: str, attempt: int) -> None:
    """The scopes of a transferred task go with it, also what an open worktree keeps, which itself stays its agent's.

    After `lock_scopes`. Raises `InvalidState` when something that overlaps would stay behind.
    """
    refuse_split(tx, tx.all("leases_of_tasks", ids=[task_id], limit=inputs.LIST_MAX))
    tx.run("leases_give", task_id=task_id, agent=to, session=None, attempt=attempt)


def refuse_split(tx: Tx, going: Sequence[Row]) -> None:
    """Raise `InvalidState` when what goes to another agent overlaps a lease that would not go with it.

    Within one session two leases may overlap; between two agents they must not.
    """
    for row in going:
        for _, stays in _overlapping(tx, [row.resource], row.project):
            shared = row.mode == stays.mode == "shared"
            over = not stays.live and stays.task_id is None  # a late hold may still be renewed, with its scopes
            if over or stays.task_id == row.task_id or shared:
                continue
            kept = f"for {stays.task_id}" if stays.task_id else f"with fence {stays.fence}"
            raise InvalidState(
                f"{row.resource} cannot go to another: {stays.agent} holds {stays.resource} {kept}, which overlaps it",
                hint=f"{stays.agent} lets go of {stays.resource} first",
                holder=stays.agent,
                resource=stays.resource,
                task_id=stays.task_id,
            )


def refuse_move(tx: Tx, ids: Sequence[str], project: str) -> None:
    """Raise `InvalidState` when scopes of another project are bound to one of these (locked) tasks."""
    row = tx.one("leases_elsewhere", ids=list(ids), project=project)
    if row is not None:
        raise InvalidState(
            f"{row.task_id} has scopes in project {row.project}, held by {row.agent}: {row.resource}",
            hint="move it when its hold is over and its worktree closed",
            task_id=row.task_id,
            holder=row.agent,
        )


def keep_with_task(tx: Tx, task_id: str, until: datetime) -> None:
    """The scopes of a task last as long as the hold that was just renewed, and no longer."""
    tx.run("leases_keep", task_id=task_id, until=until)


def put_back(tx: Tx, lease_id: int) -> None:
    """Tasks that were set aside on a lease return to the queue, in bounded statements."""
    while len(tx.all("tasks_unpark_from", lease_id=lease_id, limit=UNPARK_BATCH)) == UNPARK_BATCH:
        pass


def log_end(tx: Tx, lease: Lease, reason: str, *, by: str) -> None:
    """The event of a lease that was ended."""
    former = {"former_holder": lease.agent, "former_session": lease.session_id}
    event_type = f"{'lock' if lease.kind == 'lock' else 'lease'}.{reason}"
    if reason in ("expired", "swept"):
        log(tx, event_type, [lease], agent="system", found_by=by, **former)
    else:
        log(tx, event_type, [lease], agent=by, **former)


def lease_of(row: Row) -> Lease:
    kept = row._asdict()
    return Lease(**{name: kept[name] for name in Lease.__match_args__})


def log(tx: Tx, event_type: str, leases: Sequence[Lease], *, agent: str, **more: str | None) -> None:
    first = leases[0]
    said = {
        "agent": agent,
        "kind": first.kind,
        "resources": ",".join(lease.resource for lease in leases)[:1_000],
        "fence": str(leases[-1].fence),
        "task_id": first.task_id,
        **more,
    }
    payload = {key: value for key, value in said.items() if value}
    events.append(tx, event_type, payload, project=first.project, agent=agent, ref=first.task_id or first.resource)
