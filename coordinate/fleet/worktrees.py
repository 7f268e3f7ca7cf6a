"""Worktrees: working copies in which a task's changes live until merged or aborted; and replay bookkeeping.

While one is open its scopes have no end: they hold even when the session that opened it is gone. Closing needs to know
whether work would be lost; whoever calls looks with git first and says so, since nothing slow happens in here.
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinate import events, inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidState, NotFound, UnsavedWork
from coordinate.fleet.scopes import canonical
from coordinate.records import Applied, OpenedWorktree, Worktree
from coordinate.states import WORKTREE_CLOSED, WORKTREE_STATES

EVENT_KEYS_MAX = 1_000
# Two of them stand in one index entry, in up to four bytes a character.
KEY_MAX = 200


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

    `patterns` default to what the task declares; what is held for the task already goes over to the worktree. Every
    other open worktree and live scope is looked at: a conflict is an answer, and nothing is written. Raises `Held` when
    the task has an open worktree, `InvalidState` when there is nothing to hold.
    """
    agent = inputs.agent(agent)
    branch = inputs.line(branch, "branch", limit=inputs.TITLE_MAX)
    root = inputs.line(root, "root", limit=inputs.REASON_MAX)
    base = inputs.text(base, "base", limit=inputs.TITLE_MAX)
    task_id, attempt = inputs.handle(task)
    row = tx.one("task_lock", task_id=task_id)
    if row is None:
        raise NotFound(f"there is no {task_id}", hint="coordinate task list shows what there is")
    if row.assigned_agent != agent or (attempt is not None and row.attempt != attempt):
        raise InvalidState(
            f"{agent} does not hold {task_id}",
            hint="claim the task first",
            holder=row.assigned_agent,
            status=row.status,
        )
    declared = [each.pattern for each in tx.all("scopes_of", ids=[task_id])]
    wanted = canonical(patterns if isinstance(patterns, str) or patterns else declared or ["."])
    leases.lock_scopes(tx, row.project)
    caller = leases.Caller(agent, session, task_id)
    conflicts, _, past = leases.conflicts_of(tx, wanted, project=row.project, mode="exclusive", caller=caller)
    if conflicts:
        return OpenedWorktree(None, (), tuple(conflicts))
    made = tx.one(
        "worktree_insert",
        task_id=task_id,
        agent=agent,
        session=session,
        project=row.project,
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
        project=row.project,
        mode="exclusive",
        agent=agent,
        session=session,
        task_id=task_id,
        attempt=int(row.attempt),
        worktree_id=int(made.id),
    )
    worktree = Worktree(**made._asdict())
    _log(tx, "worktree.opened", worktree, agent)
    return OpenedWorktree(worktree, tuple(kept + granted), ())


def set_worktree_state(tx: Tx, *, task: str, state: str, agent: str = "") -> Worktree:
    """Say where the changes of an open worktree stand: open, gating, integrating, conflict or replaying."""
    agent = inputs.agent(agent)
    allowed = tuple(each for each in WORKTREE_STATES if each not in WORKTREE_CLOSED)
    state = inputs.one_of(state, "state", allowed)
    row = _live(tx, task)
    if row.agent != agent:
        raise _foreign(row)
    changed = tx.one("worktree_state", id=row.id, state=state)
    assert changed is not None
    worktree = Worktree(**changed._asdict())
    _log(tx, "worktree.state", worktree, agent)
    return worktree


def close_worktree(
    tx: Tx,
    *,
    task: str,
    aborted: bool = False,
    unsaved: str = "",
    force: bool = False,
    reason: str = "",
    agent: str = "",
) -> Worktree:
    """Close a worktree as merged (or `aborted`): its scopes end, and tasks set aside on them return to the queue.

    `unsaved` says what would be lost (uncommitted or unmerged work), as the caller found by looking; then it is
    refused as `UnsavedWork` unless `force`, which is recorded. Only its agent may close it, unless `force`.
    """
    agent = inputs.agent(agent)
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    unsaved = inputs.text(unsaved, "unsaved", limit=inputs.REASON_MAX)
    aborted, force = inputs.flag(aborted, "aborted"), inputs.flag(force, "force")
    row = _live(tx, task)
    if row.agent != agent and not force:
        raise _foreign(row)
    if unsaved and not force:
        raise UnsavedWork(
            f"the worktree of {row.task_id} at {row.root} holds work that would be lost: {unsaved}",
            hint="commit and merge it first; whoever decides to drop it says so with force, and is recorded",
            task_id=row.task_id,
            branch=row.branch,
            root=row.root,
        )
    state = "aborted" if aborted else "merged"
    said = "; ".join(part for part in (reason, f"dropped: {unsaved}" if unsaved else "") if part)
    closed = tx.one("worktree_close", id=row.id, state=state, reason=said)
    assert closed is not None
    leases.end(tx, tx.all("leases_of_worktree", worktree_id=row.id), reason=state, by=agent)
    worktree = Worktree(**closed._asdict())
    _log(tx, f"worktree.{state}", worktree, agent)
    return worktree


def adopt_worktree(
    tx: Tx, *, task: str, unsaved: str = "", force: bool = False, agent: str = "", session: str | None = None
) -> Worktree:
    """Go on in a worktree that another agent left open; its scopes become the caller's.

    Refused as `UnsavedWork` while it holds uncommitted work, unless `force`.
    """
    agent, force = inputs.agent(agent), inputs.flag(force, "force")
    unsaved = inputs.text(unsaved, "unsaved", limit=inputs.REASON_MAX)
    row = _live(tx, task)
    if unsaved and not force:
        raise UnsavedWork(
            f"{row.agent}'s worktree of {row.task_id} at {row.root} holds work: {unsaved}",
            hint="ask its agent, or say force, which is recorded",
            task_id=row.task_id,
            holder=row.agent,
        )
    adopted = tx.one("worktree_adopt", id=row.id, agent=agent, session=session)
    assert adopted is not None
    tx.all("leases_take_over", worktree_id=row.id, agent=agent, session=session)
    worktree = Worktree(**adopted._asdict())
    _log(tx, "worktree.adopted", worktree, agent, from_agent=row.agent)
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
        project=None if project is None else inputs.name(project, "project"),
        all=int(inputs.flag(closed, "closed")),
        before=None if before is None else inputs.integer(before, "before", least=0, most=inputs.BIGINT_MAX),
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
    return [key for key in keys if tx.one("applied_insert", stream=stream, event_key=key)]


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


def _foreign(row: Row) -> Held:
    return Held(
        f"the worktree of {row.task_id} is {row.agent}'s, on branch {row.branch}",
        hint="adopt it first: coordinate worktree adopt",
        task_id=row.task_id,
        holder=row.agent,
    )


def _log(tx: Tx, event_type: str, worktree: Worktree, agent: str, **more: str) -> None:
    said = {"agent": agent, "task_id": worktree.task_id, "branch": worktree.branch, "root": worktree.root}
    said |= {"state": worktree.state, **more}
    events.append(tx, event_type, said, project=worktree.project, agent=agent, ref=worktree.task_id)
