"""Claims: the act of taking a task, and what its holder may do. No task is ever held by two.

A claim opens an attempt; `TASK-12@3` is the third attempt at TASK-12 and the fencing token of whoever holds it. Every
verb of a holder changes the row only while that attempt is the latest, open, and the caller's: one guarded UPDATE
decides, and only when it changed nothing do we look again, to explain. Expiry is lazy: a lease that is past may be
taken, and until somebody takes it, the verb that shows its handle may still renew or finish.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from coordinate import inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import CoordinateError, Held, InvalidInput, InvalidState, NotReady, StaleClaim, UnmetDependencies
from coordinate.frozen import dataclass
from coordinate.records import Claim, Dependency, Done, HeldTask, Lease, Outcome, Task
from coordinate.states import (
    BLOCKED,
    IN_PROGRESS,
    MOVE,
    OWNERS,
    PROGRESS_NOTE_TYPES,
    TODO,
    Move,
    ways_out,
)
from coordinate.work import dependencies, story

# How much of what is due one claim sets right before it takes its own: a bound, not a promise of order.
TAKE_BACK_MAX = 20
UNPARK_MAX = 200
HOLDING_MAX = 20
# How long one look waits for rows that others have locked.
LOCKED_PATIENCE = "1s"
# What follows for a task whose hold is over: back in the queue, or BLOCKED with the reason, if no attempts are left.
OnExpiry = Callable[[Tx, Row, str], None]

# --- taking: the steps, which `flows/claiming.py` puts together with the scopes of a task -----------------------------


@dataclass(frozen=True)
class Queue:
    """Which queue a claim looks at, in checked values: the statement and what it takes."""

    statement: str
    agent: str
    params: dict[str, object]

    @property
    def indexed(self) -> bool:
        return "_any" not in self.statement

    @property
    def seen(self) -> list[str]:
        """What it takes to look without taking."""
        return [name for name in ("role", "project", "agent", "session") if name in self.params]


def queue_of(
    *,
    role: str,
    count: int,
    project: str | None,
    lease_seconds: int | None,
    respect_dependencies: bool,
    agent: str,
    session: str | None,
) -> Queue:
    """Check what a claim was asked."""
    role, agent = inputs.name(role, "role"), inputs.agent(agent)
    project = inputs.name_or_none(project, "project")
    inputs.integer(count, "count", least=1, most=inputs.BATCH_MAX)
    respects = inputs.flag(respect_dependencies, "respect_dependencies")
    statement = "claim_next" + ("" if respects else "_any") + ("" if project is None else "_project")
    params: dict[str, object] = {
        "role": role,
        **({} if project is None else {"project": project}),
        "lease_seconds": inputs.lease_seconds_or_none(lease_seconds),
        "agent": agent,
        "session": inputs.name_or_none(session, "session"),
    }
    return Queue(statement, agent, params)


def take_at_once(tx: Tx, queue: Queue, count: int) -> list[Row]:
    """Take the first ready task, where one is asked for and nothing else comes first: mostly that is all of a claim."""
    if count > 1 or not queue.indexed:
        return []
    return tx.all(queue.statement.replace("next", "at_once"), **queue.params)


def take(tx: Tx, queue: Queue, count: int, *, wait: bool = False) -> list[Row]:
    """Take the first ready tasks, in order, but those that others have locked; with `wait` these too, soon or not."""
    if wait:
        tx.where_needed("lock_patience", patience=LOCKED_PATIENCE)
        rows = tx.where_needed(queue.statement + "_wait", limit=count, **queue.params)
    elif count == 1 and queue.indexed:
        rows = tx.all(queue.statement, **queue.params)
    else:
        rows = tx.all(queue.statement + ("_many" if queue.indexed else ""), limit=count, **queue.params)
    return in_order(rows)


def in_order(rows: list[Row]) -> list[Row]:
    """As they stood in the queue; what was changed comes back in any order."""
    return sorted(rows, key=lambda row: (row.priority, row.created_at, row.number))


def ahead(tx: Tx, queue: Queue, limit: int) -> list[Row]:
    """What stands first in the queue, only looked at; nothing where the queue has no index to walk."""
    if not queue.indexed:
        return []
    return tx.all(queue.statement + "_ahead", limit=limit, **{name: queue.params[name] for name in queue.seen})


def own_aside(tx: Tx, queue: Queue, limit: int) -> list[Row]:
    """The first tasks of the queue that were set aside on what the claimer's session holds."""
    if not queue.indexed or queue.params["session"] is None:
        return []
    params = {name: queue.params[name] for name in queue.seen if name != "agent"}
    return tx.all(queue.statement + "_own", limit=limit, **params)


def take_one(
    tx: Tx, task: str, lease_seconds: int | None, agent: str, session: str | None, follow: OnExpiry
) -> tuple[Row, bool]:
    """Take one task by name; a lease on it that is past is taken back first, and the second answer is True."""
    task_id, agent, session = inputs.task_id(task), inputs.agent(agent), inputs.name_or_none(session, "session")
    lease = inputs.lease_seconds_or_none(lease_seconds)
    taken_back = take_back(tx, task_id, follow)
    tx.run("task_unpark", task_id=task_id)
    row = tx.one("claim_task", task_id=task_id, lease_seconds=lease, agent=agent, session=session)
    if row is None:
        refused = _why_not_claimable(tx, story.find(tx, task_id), agent)
        refused.keeps_changes = taken_back  # an expiry that was met is written, whatever follows from it
        raise refused
    return row, taken_back


def any_locked(tx: Tx, queue: Queue) -> bool:
    """Whether the queue shows a ready task all the same: others have it locked, and may yet let go of it."""
    return bool(tx.where_needed(queue.statement + "_seen", **{name: queue.params[name] for name in queue.seen}))


def reserved(tx: Tx, queue: Queue) -> list[Row]:
    """What of the queue is reserved for the caller, only looked at; some of it may have to be passed over."""
    by_project = "_project" if "project" in queue.params else ""
    return tx.all("reserved" + by_project, limit=inputs.BATCH_MAX, **{name: queue.params[name] for name in queue.seen})


def take_reserved(tx: Tx, queue: Queue, rows: list[Row]) -> list[Row]:
    """Take what is reserved for the caller, but what others have locked."""
    params = {name: value for name, value in queue.params.items() if name not in ("role", "project")}
    return in_order(tx.all("claim_reserved", ids=[row.id for row in rows], **params))


def set_due_right(tx: Tx, agent: str, follow: OnExpiry) -> tuple[bool, bool]:
    """What ended by itself first: leases that are past are taken back, what is set aside and due is put back.

    The first answer is True when there was something, a bounded part of it: the caller commits before it claims. Who
    waits for the lock of the scopes must have none of these rows, for whoever has the lock may need them. The second:
    something is reserved for the agent. `follow` is called for each task that was taken back.
    """
    due = tx.the("queue_due", agent=agent)
    expired = due.expired and take_back_expired(tx, follow, limit=TAKE_BACK_MAX)[0]
    unparked = due.parked and tx.all("queue_unpark", limit=UNPARK_MAX)
    return bool(expired or unparked), bool(due.reserved)


def take_back_expired(tx: Tx, follow: OnExpiry, *, limit: int) -> tuple[list[str], list[Lease]]:
    """End a batch of expired holds: attempt closed, history and event name the former holder. Their ids and scopes."""
    rows = sorted(tx.all("queue_take_back", limit=limit), key=lambda row: int(row.number))
    return [row.id for row in rows], [lease for row in rows for lease in _write_expiry(tx, row, follow)]


def take_back(tx: Tx, task_id: str, follow: OnExpiry) -> bool:
    """End the hold on one task, if it is past: by name, or because somebody takes what it left of its scopes."""
    rows = tx.all("task_take_back", task_id=task_id)
    for row in rows:
        _write_expiry(tx, row, follow)
    return bool(rows)


def end_all(tx: Tx, follow: OnExpiry, *, reason: str, limit: int) -> list[str]:
    """End a batch of holds whatever is left of their leases; nobody's expiry counts. Returns the ids."""
    rows = tx.all("holds_end", limit=limit)
    move = MOVE["expire"]
    for row in sorted(rows, key=lambda row: int(row.number)):
        ended = tx.one("attempt_close", task_id=row.id, outcome=move.outcome, reason=reason)
        former = {} if ended is None else {"former_holder": ended.agent, "former_session": ended.session_id}
        if row.scoped:
            leases.end_of_task(tx, row.id, reason="expired", by="system")
        attempt = None if ended is None else ended.attempt
        story.record(tx, row, move.action, move.event, agent="system", attempt=attempt, detail=reason, **former)
        tx.announce("ready")
        follow(tx, row, "")
    return [row.id for row in rows]


def _write_expiry(tx: Tx, row: Row, follow: OnExpiry) -> list[Lease]:
    ended = tx.the("attempt_close", task_id=row.id, outcome="expired", reason="the lease was not renewed")
    scopes = leases.end_of_task(tx, row.id, reason="expired", by="system") if row.scoped else []
    move = MOVE["exhaust" if row.status == BLOCKED else "expire"]
    detail = f"lease of {ended.agent} expired ({row.expiries} of {row.max_attempts})"
    story.record(
        tx,
        row,
        move.action,
        move.event,
        agent="system",
        attempt=ended.attempt,
        detail=detail,
        former_holder=ended.agent,
        former_session=ended.session_id,
        expiries=row.expiries,
    )
    if row.status != BLOCKED:
        tx.announce("ready")
        follow(tx, row, "")
        return scopes
    said = f"{row.expiries} leases expired in a row; nobody finished it. It needs a look before it is tried again."
    story.note(tx, row.id, "system", "SYSTEM", said)
    story.record(tx, row, "BLOCK", "task.attempts_spent", agent="system", detail=said, former_holder=ended.agent)
    follow(tx, row, said)
    return scopes


def claimed(tx: Tx, rows: list[Row], agent: str, session: str | None) -> Callable[[], list[Claim]]:
    """Open the attempts of tasks that were taken, and write their story; the handles are the fencing tokens.

    The claims are made when they are called for, also after the commit: others need not wait for that.
    """
    move = MOVE["claim"]
    for row in rows:
        tx.at_end("attempt_open", task_id=row.id, attempt=row.attempt, agent=agent, session=session)
        story.record(
            tx, row, move.action, move.event, agent=agent, attempt=row.attempt, role_boundary=row.role_boundary
        )
    return _claims(tx, rows, agent)


def _claims(tx: Tx, rows: list[Row], agent: str) -> Callable[[], list[Claim]]:
    """The claims of what an agent has just got, each with what it depended on, and with all that the agent holds."""
    held = tx.ask("handles_held", agent=agent, limit=HOLDING_MAX)
    depend = [row.id for row in rows if row.depends]
    edges = tx.ask("dependencies_of", ids=depend) if depend else list

    def made() -> list[Claim]:
        waits: dict[str, list[Dependency]] = {row.id: [] for row in rows}
        for edge in edges():
            waits[edge.task_id].append(story.dependency_of(edge))
        first = [row.handle for row in held()]
        return [
            Claim(
                handle=(handle := f"{row.id}@{row.attempt}"),
                task=_task_of(row, [each.id for each in waits[row.id]]),
                attempt=row.attempt,
                lease_until=row.lease_until,
                dependencies=tuple(waits[row.id]),
                holding=tuple(first if handle in first else [*first[: HOLDING_MAX - 1], handle]),
                ask=None,
            )
            for row in rows
        ]

    return made


def _task_of(row: Row, depends_on: list[str]) -> Task:
    values = row._asdict()
    del values["depends"]
    return Task(**values, depends_on=tuple(depends_on))


def _task_held(tx: Tx, row: Row) -> Task:
    """The record of what its holder has just changed."""
    edges = story.edges_of(tx, [row.id] if row.depends else [])
    return _task_of(row, [edge.depends_on_task_id for edge in edges])


def _why_not_claimable(tx: Tx, row: Row, agent: str) -> CoordinateError:
    if row.status == IN_PROGRESS:
        refused = held_by(row)
        if row.assigned_agent == agent:
            refused.hint = f"you hold it already: go on with the handle {row.id}@{row.attempt}"
        return refused
    if row.status != TODO:
        return wrong_state(row, "claim")
    if row.unmet_dependencies:
        edges = [edge for edge in story.edges_of(tx, [row.id]) if not edge.met]
        waits = ", ".join(f"{edge.depends_on_task_id} ({edge.status})" for edge in edges)
        return UnmetDependencies(
            f"{row.id} has unmet dependencies: it waits for {waits}",
            hint=f"see: coordinate task why {row.id}",
            task_id=row.id,
            waits_for=[edge.depends_on_task_id for edge in edges],
        )
    until = leases.when_or_none(row.parked_until)
    match row.parked:
        case "later":
            why = f"{row.id} is set aside until {until}"
            hint = f"claim another, or let it start now: coordinate task edit {row.id} --clear-not-before"
        case "reserved":
            why, hint = (
                f"{row.id} is reserved for {row.reserved_for} until {until}",
                "claim another, or wait until then",
            )
        case _:
            why, hint = f"{row.id} was set aside just now", f"see: coordinate task why {row.id}"
    return NotReady(why, hint=hint, task_id=row.id, until=until)


# --- what the holder may do -------------------------------------------------------------------------------------------


def log_progress(
    tx: Tx,
    *,
    handle: str | Claim,
    note: str,
    note_type: str = "PROGRESS",
    agent: str = "",
) -> Task:
    """Write a note on a task that the caller holds, and renew its lease to its full length from now.

    `note_type` is PROGRESS, ERROR or DECISION; the note has at most 10,000 characters. Raises `StaleClaim` when the
    handle's attempt is over, `Held` when another agent holds the task.
    """
    content = inputs.text(note, "note", limit=inputs.NOTE_MAX, blank=False)
    note_type = inputs.note_type(note_type, PROGRESS_NOTE_TYPES)
    row = _guarded(tx, "claim_renew", handle, agent, "log progress on", lease_seconds=None)
    story.note(tx, row.id, row.assigned_agent, note_type, content)
    story.record(
        tx, row, "PROGRESS", "task.progress", agent=row.assigned_agent, attempt=row.attempt, note_type=note_type
    )
    return _task_held(tx, row)


def extend_lease(tx: Tx, *, handle: str | Claim, lease_seconds: int | None = None, agent: str = "") -> Task:
    """Renew the lease to `lease_seconds` from now (default: the length it was claimed with); never to less.

    An expired lease that nobody took yet may still be renewed. Raises `StaleClaim` or `Held`.
    """
    lease = inputs.lease_seconds_or_none(lease_seconds)
    row = _guarded(tx, "claim_renew", handle, agent, "extend", lease_seconds=lease)
    story.record(
        tx,
        row,
        "EXTEND",
        "task.lease_extended",
        agent=row.assigned_agent,
        attempt=row.attempt,
        lease_until=leases.when_or_none(row.lease_until),
    )
    return _task_held(tx, row)


def keep_alive(tx: Tx, *, handle: str | Claim, agent: str = "") -> datetime:
    """Renew the lease as a mere sign of life: no history, no event. Returns until when. Raises as `extend_lease`."""
    row = _guarded(tx, "claim_keep", handle, agent, "keep", lease_seconds=None)
    until: datetime = row.lease_until
    return until


def complete(tx: Tx, *, handle: str | Claim, review: bool = False, result: str | None = None, agent: str = "") -> Done:
    """Finish a task, or submit it for review; `flows.finishing.complete` says what is promised."""
    if result is not None:
        result = inputs.text(result, "result")
    verb = MOVE["submit" if inputs.flag(review, "review") else "complete"]
    done = _leave(tx, "claim_submit" if review else "claim_complete", verb, handle, agent, result=result)
    if not done.already and not review:
        dependencies.met_by(tx, done.task.id)
    return done


def block(tx: Tx, *, handle: str | Claim, reason: str, agent: str = "") -> Done:
    """Give a task back as BLOCKED, with the reason (at most 1,000 characters) as a note. `unblock` puts it back.

    Repeated with the same handle it answers the same with `already`. Raises `StaleClaim` or `Held`.
    """
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX, blank=False)
    done = _leave(tx, "claim_block", MOVE["block"], handle, agent, reason=reason)
    if not done.already:
        story.note(tx, done.task.id, inputs.agent(agent), "BLOCKED", reason)
    return done


def release(
    tx: Tx, *, handle: str | Claim, reason: str = "", after_seconds: int | None = None, agent: str = ""
) -> Done:
    """Give a task back to the queue; `flows.finishing.release` says what is promised."""
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    after_seconds = inputs.integer_or_none(after_seconds, "after_seconds", least=0, most=inputs.DELAY_SECONDS_MAX)
    done = _leave(tx, "claim_release", MOVE["release"], handle, agent, reason=reason, after_seconds=after_seconds)
    if not done.already and not done.task.parked:
        tx.announce("ready")
    return done


def transfer(tx: Tx, *, handle: str | Claim, to: str, lease_seconds: int | None = None, agent: str = "") -> Claim:
    """Hand a held task to another agent in one step; the answer carries the new handle, the old one is stale at once.

    The receiver gets a fresh lease and need not be known. Raises `StaleClaim`, `Held`, or `InvalidInput` when the
    receiver is the caller; `InvalidState` when the caller's session keeps a scope that overlaps one of the task's.
    """
    to = inputs.agent(to, "to")
    lease = inputs.lease_seconds_or_none(lease_seconds)
    task_id, attempt, agent = resolve(tx, handle, agent, "transfer")
    if to == agent:
        raise InvalidInput("a task cannot be transferred to whoever holds it", hint="name another agent", field="to")
    move = MOVE["transfer"]
    # Also where it has no scopes yet: the holder may bind some before the task is locked.
    project = story.find(tx, task_id).project
    leases.lock_scopes(tx, project)
    row = tx.one("claim_transfer", task_id=task_id, attempt=attempt, agent=agent, to=to, lease_seconds=lease)
    if row is None:
        raise refusal(tx, task_id, attempt, agent, "transfer")
    if row.scoped and row.project != project:
        raise InvalidState(f"{task_id} was moved to {row.project} just now", hint="transfer it again", task_id=task_id)
    tx.run("attempt_close", task_id=task_id, outcome=move.outcome, reason=f"to {to}")
    tx.run("attempt_open", task_id=task_id, attempt=row.attempt, agent=to, session=None)
    if row.scoped:
        leases.give(tx, task_id, to=to, attempt=row.attempt)
        leases.keep_with_task(tx, task_id, row.lease_until)
    story.record(tx, row, move.action, move.event, agent=agent, attempt=row.attempt, detail=f"{agent}→{to}", to=to)
    return _claims(tx, [row], to)()[0]


def mine(tx: Tx, *, agent: str = "", limit: int = 100) -> list[HeldTask]:
    """What an agent holds now, each with its handle as `claim`; at most `limit` of them."""
    rows = tx.all("tasks_held", agent=inputs.agent(agent), limit=inputs.limit(limit))
    return [HeldTask(**vars(task), claim=f"{task.id}@{task.attempt}") for task in story.tasks_of(tx, rows)]


def each_of(handles: list[str], *, lock: Callable[[list[str]], None], finish: Callable[[str], Done]) -> list[Outcome]:
    """Finish several tasks, all of them locked before the first."""
    if not isinstance(handles, list | tuple) or not 1 <= len(handles) <= inputs.BATCH_MAX:
        raise InvalidInput(f"a batch takes 1 to {inputs.BATCH_MAX} handles", field="handles")
    wanted = dict.fromkeys(inputs.handle(each) for each in handles)
    lock([task_id for task_id, _ in wanted])
    outcomes: dict[str, Outcome] = {}
    for task_id, attempt in sorted(wanted, key=lambda each: inputs.task_number(each[0])):
        shown = task_id if attempt is None else f"{task_id}@{attempt}"
        try:
            done = finish(shown)
            outcomes[shown] = Outcome(shown, ok=True, task=done.task, already=done.already)
        except CoordinateError as error:
            outcomes[shown] = Outcome(shown, ok=False, error=error.message, code=error.code)
    return [outcomes[task_id if attempt is None else f"{task_id}@{attempt}"] for task_id, attempt in wanted]


# --- the guard, and what to say when it refuses -----------------------------------------------------------------------


def resolve(tx: Tx, handle: str | Claim, agent: str, verb: str) -> tuple[str, int, str]:
    """What a caller shows, as (task, attempt, agent).

    A bare id is accepted only from an agent that holds the task now and never held an earlier attempt of it, since
    otherwise a call meant for the earlier attempt could not be told from one meant for this.
    """
    task_id, attempt = inputs.handle(handle)
    agent = inputs.agent(agent)
    if attempt is not None:
        return task_id, attempt, agent
    row = story.find(tx, task_id)
    if row.status != IN_PROGRESS:
        raise wrong_state(row, verb)
    if row.assigned_agent != agent:
        raise held_by(row)
    held = tx.one("attempts_of_agent", task_id=task_id, agent=agent)
    if held is None or held.count != 1:
        raise StaleClaim(
            f"{agent} held {task_id} before: the bare id does not say which attempt is meant",
            hint="show the claim handle; `coordinate task mine` lists it",
            task_id=task_id,
            current=f"{task_id}@{row.attempt}",
        )
    return task_id, int(row.attempt), agent


def _guarded(tx: Tx, statement: str, handle: str | Claim, agent: str, verb: str, **params: object) -> Row:
    task_id, attempt, agent = resolve(tx, handle, agent, verb)
    row = tx.one(statement, task_id=task_id, attempt=attempt, agent=agent, **params)
    if row is None:
        raise refusal(tx, task_id, attempt, agent, verb)
    if row.scoped:
        leases.keep_with_task(tx, task_id, row.lease_until)
    return row


def _leave(
    tx: Tx,
    statement: str,
    move: Move,
    handle: str | Claim,
    agent: str,
    *,
    reason: str = "",
    **given: object,
) -> Done:
    """One of the moves that end a hold: the guarded change, the closed attempt, history and event; or `already`."""
    shown = inputs.handle(handle)
    if shown[1] is None and (before := _ended_by(tx, shown[0], move, inputs.agent(agent))):
        return Done(story.task_of(tx, before), already=True)
    task_id, attempt, agent = resolve(tx, handle, agent, move.verb)
    row = tx.one(statement, task_id=task_id, attempt=attempt, agent=agent, **given)
    if row is None:
        if before := _ended_by(tx, task_id, move, agent, attempt):
            return Done(story.task_of(tx, before), already=True)
        raise refusal(tx, task_id, attempt, agent, move.verb)
    tx.at_end("attempt_close", task_id=task_id, outcome=move.outcome, reason=reason)
    if row.scoped:
        leases.end_of_task(tx, task_id, reason="released", by=agent)
    story.record(tx, row, move.action, move.event, agent=agent, attempt=attempt, detail=reason, reason=reason)
    return Done(_task_held(tx, row))


def _ended_by(tx: Tx, task_id: str, move: Move, agent: str, attempt: int | None = None) -> Row | None:
    """The task, if this very handle already made this very move and nothing has happened since."""
    row = tx.one("task", task_id=task_id)
    if row is None:
        return None
    # What is released while it waits for a human is BLOCKED at once.
    waits = move.verb == "release" and row.status == BLOCKED and row.ask_id is not None
    if row.status != move.target and not waits:
        return None
    if attempt is None:
        # A bare id names the latest attempt only for an agent that held no other.
        held = tx.one("attempts_of_agent", task_id=task_id, agent=agent)
        if held is None or held.count != 1:
            return None
    tx.write_now("attempt_close")  # it may be this very transaction that ended it
    # The last there is: the task's own number goes on by a margin where a board was restored.
    last = tx.one("attempts_of_task", task_id=task_id, limit=1)
    if last is None or attempt not in (None, last.attempt):
        return None
    return row if (last.agent, last.outcome) == (agent, move.outcome) else None


def refusal(tx: Tx, task_id: str, attempt: int, agent: str, verb: str) -> CoordinateError:
    """Why a handle was refused: it names no attempt, its attempt is over, or it is another's."""
    row = story.find(tx, task_id)
    shown = f"{task_id}@{attempt}"
    if row.status == IN_PROGRESS and row.attempt == attempt:
        return held_by(row)
    tx.write_now("attempt_close")
    ended = tx.one("attempt", task_id=task_id, attempt=attempt)
    if ended is None:
        said = f"{shown} names an attempt that never was"
    else:
        said = f"{shown} is over: {ended.agent}'s attempt was {ended.outcome} at {leases.when_or_none(ended.ended_at)}"
        if ended.reason:
            said += f" ({ended.reason})"
    now = f"{task_id} is {row.status} now"
    if row.status == IN_PROGRESS:
        now = f"{row.assigned_agent} holds {task_id} until {leases.when_or_none(row.lease_until)}"
    return StaleClaim(
        f"{said}; {now}",
        hint="stop working on it; claim the next task, or see `coordinate task mine`",
        task_id=task_id,
        attempt=attempt,
        status=row.status,
        holder=row.assigned_agent,
        until=leases.when_or_none(row.lease_until),
    )


def held_by(row: Row) -> Held:
    """Another holds the task."""
    return Held(
        f"{row.assigned_agent} holds {row.id} until {leases.when_or_none(row.lease_until)}",
        hint="claim another task, ask the holder to release or transfer it, or wait until the lease ends",
        task_id=row.id,
        holder=row.assigned_agent,
        until=leases.when_or_none(row.lease_until),
        assigned_to=row.assigned_agent,
    )


def wrong_state(row: Row, verb: str) -> InvalidState:
    """The move does not exist from where the task stands; says whose move it is, and what leads on."""
    ways = ways_out(row.status)
    return InvalidState(
        f"invalid state transition: {row.id} is {row.status} and cannot be moved by {verb};"
        f" the next move is of {OWNERS[row.status]}",
        hint=f"from {row.status} lead: {', '.join(ways)}",
        task_id=row.id,
        status=row.status,
        holder=row.assigned_agent,
    )
