"""What callers get back: frozen records whose fields are the columns' names. Times are aware UTC.

`as_json` turns any of them into plain JSON values, with times as RFC 3339 text; doors print that.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from coordinate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Task:
    """A unit of work. `depends_on` holds the ids it waits or waited for; `result` is what its completion said."""

    id: str
    number: int
    title: str
    body: str
    status: str
    role_boundary: str
    project: str
    priority: int
    assigned_agent: str | None
    session_id: str | None
    lease_until: datetime | None
    lease_seconds: int | None
    attempt: int
    expiries: int
    claimed_by: str | None
    max_attempts: int
    not_before: datetime | None
    unmet_dependencies: int
    parked: str
    parked_until: datetime | None
    reserved_for: str | None
    reviewer: str | None
    review_until: datetime | None
    rejected_attempt: int
    result: str | None
    dedup_key: str | None
    created_by: str
    revision: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None
    scoped: bool
    parked_on: int | None
    depends_on: tuple[str, ...] = ()

    @property
    def handle(self) -> str | None:
        """The claim handle of whoever holds it now, or None."""
        return f"{self.id}@{self.attempt}" if self.assigned_agent else None


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something a task waits or waited for. `reachable` is False when it was cancelled and so cannot be met."""

    id: str
    title: str
    status: str
    met: bool
    result: str | None

    @property
    def reachable(self) -> bool:
        return self.met or self.status != "CANCELLED"


@dataclass(frozen=True, slots=True)
class Claim:
    """A task that is now the caller's: show `handle` with every verb that follows.

    `dependencies` carries the results of what the task depended on; `holding` the handles of all that the caller's
    agent holds now, this one included.
    """

    handle: str
    task: Task
    attempt: int
    lease_until: datetime
    dependencies: tuple[Dependency, ...] = ()
    holding: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """The answer of a holder's verb that ends the hold. `already` is True when the same handle had done it before."""

    task: Task
    already: bool = False


@dataclass(frozen=True, slots=True)
class Dispatched:
    """A task that was dispatched; `already` is True when its `dedup_key` was used before: this is that task."""

    task: Task
    already: bool = False


@dataclass(frozen=True, slots=True)
class Cancelled:
    """A cancelled task, who held it, and who now waits for what will never come."""

    task: Task
    former_holder: str | None
    stranded: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line of a batch: the task, or why it was refused (`error`, `code`)."""

    id: str
    ok: bool
    task: Task | None = None
    already: bool = False
    error: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    id: int
    task_id: str
    author: str
    note_type: str | None
    content: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    id: int
    task_id: str
    agent: str
    action: str
    attempt: int | None
    detail: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Attempt:
    """One holding of a task by one agent."""

    task_id: str
    attempt: int
    agent: str
    session_id: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class Scope:
    """A pattern of paths that a task means to change."""

    pattern: str
    mode: str


@dataclass(frozen=True, slots=True)
class TaskView:
    """A task's whole story, newest first; `more_notes` and `more_history` give the `before` of the next page."""

    task: Task
    notes: tuple[Note, ...]
    history: tuple[HistoryEntry, ...]
    dependencies: tuple[Dependency, ...]
    dependents: tuple[str, ...]
    scopes: tuple[Scope, ...]
    attempts: tuple[Attempt, ...]
    more_notes: int | None
    more_history: int | None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """A page of tasks; `next` is the cursor of the next page, or None at the end."""

    tasks: tuple[Task, ...]
    next: str | None


@dataclass(frozen=True, slots=True)
class ExportedTask:
    """Everything of one task, for `export`."""

    task: Task
    notes: tuple[Note, ...]
    history: tuple[HistoryEntry, ...]
    attempts: tuple[Attempt, ...]
    scopes: tuple[Scope, ...]


@dataclass(frozen=True, slots=True)
class Reason:
    """One thing that something waits for: a stable `code`, a sentence, and when it ends by itself, if it does."""

    code: str
    message: str
    ref: str | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Why:
    """What something waits for. `ready` (or claimable) is True when it waits for nothing."""

    subject: str
    ready: bool
    status: str | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts; `by_role` has the 100 roles with most tasks, `more_roles` says how many others there are."""

    by_status: dict[str, int]
    by_role: dict[str, int]
    expired_leases: int
    total_tasks: int
    more_roles: int


@dataclass(frozen=True, slots=True)
class Day:
    """One day of the burn-down (UTC); `open` is what was left at its end."""

    day: str
    created: int
    done: int
    cancelled: int
    open: int


@dataclass(frozen=True, slots=True)
class Status:
    by_status: dict[str, int]
    by_role: dict[str, int]
    expired_leases: int
    total: int
    done_count: int
    percent_done: float
    unreachable: tuple[str, ...]
    burndown: tuple[Day, ...]
    more_roles: int


@dataclass(frozen=True, slots=True)
class LintIssue:
    task_id: str
    severity: str
    message: str


@dataclass(frozen=True, slots=True)
class Pruned:
    events_deleted: int
    history_deleted: int
    notes_deleted: int
    dry_run: bool


@dataclass(frozen=True, slots=True)
class Project:
    name: str
    lease_seconds: int | None
    max_attempts: int | None


@dataclass(frozen=True, slots=True)
class Event:
    """One line of the log. `id` is its position in the one order; None while it is not numbered yet (Postgres)."""

    id: int | None
    created_at: datetime
    event: str
    payload: dict[str, Any]
    project: str
    agent: str | None
    ref: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Gap:
    """Events that were pruned before the consumer read them: from, through (positions), and how many."""

    after: int
    through: int
    lost: int


@dataclass(frozen=True, slots=True)
class EventBatch:
    """What a consumer is handed: events after what it acknowledged. `redelivered` of them were handed out before."""

    consumer: str
    events: tuple[Event, ...]
    acknowledged: int
    delivered: int
    redelivered: int
    gap: Gap | None


@dataclass(frozen=True, slots=True)
class Learnings:
    """What others said since the caller last asked, oldest first, and how much more of it waits."""

    events: tuple[Event, ...]
    more: int
    gap: Gap | None


@dataclass(frozen=True, slots=True)
class Cursor:
    consumer: str
    delivered: int
    acknowledged: int


@dataclass(frozen=True, slots=True)
class Agent:
    """A durable name; `live_sessions` of its sessions gave a sign of life lately."""

    name: str
    kind: str
    role: str | None
    created_at: datetime
    live_sessions: int
    last_seen: datetime | None


@dataclass(frozen=True, slots=True)
class Session:
    """One run of an agent; callers show its `id` ($COORDINATE_SESSION). Two of one name are two holders."""

    id: str
    agent: str
    host: str
    pid: int | None
    project: str
    stream: str
    doing: str
    detail: str
    ttl_seconds: int
    started_at: datetime
    heartbeat_at: datetime
    last_call_at: datetime
    ended_at: datetime | None
    end_reason: str
    live: bool


@dataclass(frozen=True, slots=True)
class Lease:
    """A hold on a scope or a lock. `fence` rises with every grant; `expires_at` is None for an open worktree's."""

    id: int
    kind: str
    project: str
    resource: str
    mode: str
    agent: str
    session_id: str | None
    task_id: str | None
    worktree_id: int | None
    fence: int
    depth: int
    ttl_seconds: int
    acquired_at: datetime
    expires_at: datetime | None
    released_at: datetime | None
    release_reason: str | None


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a scope is not granted: the pattern asked for, and what another holds that one path could match both.

    `ends` says in words when it is over: at a time, or, where `until` is None, with whose worktree.
    """

    pattern: str
    held: str
    mode: str
    holder: str
    session: str | None
    task_id: str | None
    since: datetime
    until: datetime | None
    ends: str


@dataclass(frozen=True, slots=True)
class Scopes:
    """The answer to a claim or a check of scopes: granted, or the conflicts as data and nothing written.

    `conflicts` are the first 100; `more` counts the rest.
    """

    granted: bool
    leases: tuple[Lease, ...]
    conflicts: tuple[Conflict, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Lost:
    """What a session lost since it was last told: leases that ended, and claims whose time was over (handles)."""

    leases: tuple[Lease, ...]
    claims: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep ended: stale sessions, leases, and claims taken back; `more` says that it reached its bound."""

    sessions: tuple[str, ...]
    leases: tuple[Lease, ...]
    tasks: tuple[str, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class Worktree:
    """A working copy in which a task's changes live until merged or aborted."""

    id: int
    task_id: str
    agent: str
    session_id: str | None
    project: str
    branch: str
    root: str
    base: str
    state: str
    created_at: datetime
    updated_at: datetime
    closed_at: datetime | None
    close_reason: str


@dataclass(frozen=True, slots=True)
class OpenedWorktree:
    """A worktree with the scopes it holds; or None and the conflicts (the first 100, then `more`), nothing written."""

    worktree: Worktree | None
    leases: tuple[Lease, ...]
    conflicts: tuple[Conflict, ...]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    event_key: str
    applied_at: datetime


@dataclass(frozen=True, slots=True)
class Finding:
    """Something of an adopted board that could not come over as it was: where, what, its value, what was done."""

    table: str
    id: str
    what: str
    value: str
    done: str


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an adoption brought over: rows `found` in the source and `carried` to the board, per table.

    `repairs` and `left_out` list at most fifty findings of a kind; the totals count all, `kinds` each kind.
    `next_id` is what the next task will be called.
    """

    source: str
    found: dict[str, int]
    carried: dict[str, int]
    repairs: tuple[Finding, ...]
    repairs_total: int
    left_out: tuple[Finding, ...]
    left_out_total: int
    kinds: dict[str, int]
    next_id: str


@dataclass(frozen=True, slots=True)
class Symptom:
    """Something of a board that cannot be, of one `kind`: what it means, the first things it was `found` in, how many.

    `severity` is `fault`, or `warning` where it may be harmless. `repair` says what a repair does ('': only a person
    can tell what is right), `repaired` how many it did; `more`: there may be others behind these.
    """

    kind: str
    severity: str
    said: str
    hint: str
    repair: str
    found: tuple[str, ...]
    count: int
    more: bool
    repaired: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    """What ended when a board was put back to an earlier day.

    `known`: its numbers go on above all that were given out; else by a wide margin.
    """

    claims_ended: int
    leases_ended: int
    known: bool


@dataclass(frozen=True, slots=True)
class Restored:
    """What a backup put in a board's place: rows of each table, what ended, and where what it replaced is `kept`."""

    database: str
    backup: str
    kept: str | None
    rows: dict[str, int]
    settled: Settled


def as_json(value: Any) -> Any:
    """Plain JSON values of a record: times as RFC 3339 with Z, tuples as lists."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value
