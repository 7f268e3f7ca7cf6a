"""Worktrees: working copies in which a task's changes live until merged or aborted; and replay bookkeeping.

One is opened in `flows/claiming.py`, since that may end the hold on another task. While it is open its scopes have no
end: they hold even when the session that opened it is gone. Closing needs to know whether work would be lost; whoever
calls looks with git first and says so, since nothing slow happens in here.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinate import events, inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidState, NotFound, UnsavedWork
from coordinate.fleet import agents
from coordinate.records import Applied, Worktree
from coordinate.states import WORKTREE_CLOSED, WORKTREE_STATES

EVENT_KEYS_MAX = 1_000
# Two of them stand in one index entry, in up to four bytes a character.
KEY_MAX = 200


def set_worktree_state(tx: Tx, *, task: str, state: str, agent: str = "") -> Worktree:
    """Say where the changes of an open worktree stand: open, gating, integrating, conflict or replaying.

    Raises `NotFound` where none is open, `Held` when it is another agent's.
    """
    agent = inputs.agent(agent)
    allowed = tuple(each for each in WORKTREE_STATES if each not in WORKTREE_CLOSED)
    state = inputs.one_of(state, "state", allowed)
    row = _live(tx, task)
    if row.agent != agent:
        raise _foreign(row)
    changed = tx.the("worktree_state", id=row.id, state=state)
    worktree = Worktree(**changed._asdict())
    log(tx, "worktree.state", worktree, agent)
    return worktree


def close_worktree(
    tx: Tx,
    *,
    task: str,
    aborted: bool = False,
    unsaved: str = "",
    force: bool = False,
    reason: str = "",
    looked_at: int | None = None,
    agent: str = "",
) -> Worktree:
    """Close a worktree as merged (or `aborted`): its scopes end, and tasks set aside on them return to the queue.

    While its task is held, what the task declares, or held before the worktree was opened, lasts until that hold ends.
    `unsaved` says what would be lost (uncommitted or unmerged work), as the caller found by looking at the worktree of
    the id `looked_at` (0: none was open); then it is refused as `UnsavedWork` unless `force`, which is recorded. Only
    its agent may close it (`Held`), unless `force`. Raises `NotFound` where none is open, `InvalidState` when another
    is open now than was looked at, and while its agent holds something else that overlaps what goes back to the hold.
    """
    agent = inputs.agent(agent)
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    unsaved = inputs.text(unsaved, "unsaved", limit=inputs.REASON_MAX)
    aborted, force = inputs.flag(aborted, "aborted"), inputs.flag(force, "force")
    row, hold = _live_with_scopes(tx, task, looked_at)
    if row.agent != agent and not force:
        raise _foreign(row)
    if unsaved and not force:
        raise UnsavedWork(
            f"the worktree of {row.task_id} at {row.root} holds work that would be lost: {unsaved}",
            hint="commit and merge it first; whoever decides to drop it says --force, and is recorded",
            task_id=row.task_id,
            branch=row.branch,
            root=row.root,
        )
    state = "aborted" if aborted else "merged"
    said = "; ".join(part for part in (reason, f"dropped: {unsaved}" if unsaved else "") if part)
    closed = tx.the("worktree_close", id=row.id, state=state, reason=said)
    if hold.lease_until is not None:
        if hold.assigned_agent != row.agent:
            leases.refuse_split(tx, tx.all("leases_of_worktree", worktree_id=row.id))
        tx.run(
            "leases_return",
            worktree_id=row.id,
            opened_at=row.created_at,
            agent=hold.assigned_agent,
            session=hold.session_id,
            attempt=hold.attempt,
            until=hold.lease_until,
        )
    leases.end(tx, tx.all("leases_of_worktree", worktree_id=row.id), reason=state, by=agent)
    worktree = Worktree(**closed._asdict())
    log(tx, f"worktree.{state}", worktree, agent)
    return worktree


def adopt_worktree(
    tx: Tx,
    *,
    task: str,
    unsaved: str = "",
    force: bool = False,
    looked_at: int | None = None,
    agent: str = "",
    session: str | None = None,
) -> Worktree:
    """Go on in a worktree that another agent left open; its scopes become the caller's.

    Refused as `UnsavedWork` while it holds uncommitted work, unless `force`; as `InvalidState` when another is open now
    than that of the id `looked_at` (0: none was), and while its agent holds something else that overlaps its scopes;
    as `NotFound` where none is open.
    """
    agent, force = inputs.agent(agent), inputs.flag(force, "force")
    unsaved = inputs.text(unsaved, "unsaved", limit=inputs.REASON_MAX)
    agents.enter(tx, session=session)
    row, _ = _live_with_scopes(tx, task, looked_at)
    if unsaved and not force:
        raise UnsavedWork(
            f"{row.agent}'s worktree of {row.task_id} at {row.root} holds work: {unsaved}",
            hint="ask its agent, or say force, which is recorded",
            task_id=row.task_id,
            holder=row.agent,
        )
    if (row.agent, row.session_id) != (agent, session):
        leases.refuse_split(tx, tx.all("leases_of_worktree", worktree_id=row.id))
    adopted = tx.the("worktree_adopt", id=row.id, agent=agent, session=session)
    tx.all("leases_take_over", worktree_id=row.id, agent=agent, session=session)
    worktree = Worktree(**adopted._asdict())
    log(tx, "worktree.adopted", worktree, agent, from_agent=row.agent)
    return worktree


def worktree_of(tx: Tx, *, task: str) -> Worktree | None:
    """The open worktree of a task, or None."""
    row = tx.one("worktree_seen", task_id=inputs.handle(task)[0])
    return None if row is None else Worktree(**row._asdict())


def list_worktrees(
    tx: Tx, *, project: str | None = None, closed: bool = False, before: int | None = None, limit: int = 100
) -> list[Worktree]:
    """Open worktrees, the newest first; with `closed` also the merged and aborted ones."""
    rows = tx.all(
        "worktrees_list",
        project=inputs.name_or_none(project, "project"),
        all=int(inputs.flag(closed, "closed")),
        before=inputs.integer_or_none(before, "before"),
        limit=inputs.limit(limit),
    )
    return [Worktree(**row._asdict()) for row in rows]


# --- replay -----------------------------------------------------------------------------------------------------------


def mark_applied(tx: Tx, *, stream: str, event_keys: Sequence[str]) -> list[str]:
    """Note that a stream has applied events; returns the keys that it had not. Repeating changes nothing."""
    stream = inputs.line(stream, "stream", limit=KEY_MAX)
    keys = [inputs.line(key, "event_keys", limit=KEY_MAX) for key in inputs.listed(event_keys, "event_keys")]
    if not 1 <= len(keys) <= EVENT_KEYS_MAX:
        raise inputs.refuse("event_keys", f"name 1 to {EVENT_KEYS_MAX} event keys")
    # In one order, so that no two wait for each other in a circle.
    new = {key for key in sorted(set(keys)) if tx.one("applied_insert", stream=stream, event_key=key)}
    return [key for key in dict.fromkeys(keys) if key in new]


def applied(tx: Tx, *, stream: str, after: str | None = None, limit: int = 1_000) -> list[Applied]:
    """What a stream has applied, by key; `after` pages on."""
    rows = tx.all(
        "applied_list",
        stream=inputs.line(stream, "stream", limit=KEY_MAX),
        after=None if after is None else inputs.line(after, "after", limit=KEY_MAX),
        limit=inputs.limit(limit),
    )
    return [Applied(**row._asdict()) for row in rows]


def _live(tx: Tx, task: str) -> Row:
    task_id, _ = inputs.handle(task)
    row = tx.one("worktree_of_task", task_id=task_id)
    if row is None:
        raise NotFound(f"{task_id} has no open worktree", hint="see: coordinate worktree list --closed")
    return row


def _live_with_scopes(tx: Tx, task: str, looked_at: int | None) -> tuple[Row, Row]:
    """The open worktree and its task, for a verb that hands its scopes on: locked in the order of all who do that."""
    task_id, _ = inputs.handle(task)
    inputs.integer_or_none(looked_at, "looked_at")
    seen = tx.one("worktree_seen", task_id=task_id)
    if seen is not None:
        leases.lock_scopes(tx, seen.project)
    hold = tx.one("task_lock", task_id=task_id)
    row = _live(tx, task)
    assert hold is not None
    if looked_at not in (None, row.id):
        raise InvalidState(
            f"{task_id} has another open worktree now than was looked at: {row.agent}'s, at {row.root}",
            hint="look at that one: coordinate worktree show",
            task_id=task_id,
            root=row.root,
        )
    return row, hold


def _foreign(row: Row) -> Held:
    return Held(
        f"the worktree of {row.task_id} is {row.agent}'s, on branch {row.branch}",
        hint="adopt it first: coordinate worktree adopt",
        task_id=row.task_id,
        holder=row.agent,
    )


def log(tx: Tx, event_type: str, worktree: Worktree, agent: str, **more: str) -> None:
    said = {"agent": agent, "task_id": worktree.task_id, "branch": worktree.branch, "root": worktree.root}
    said |= {"state": worktree.state, **more}
    events.append(tx, event_type, said, project=worktree.project, agent=agent, ref=worktree.task_id)
