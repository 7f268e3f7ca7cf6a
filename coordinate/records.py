"""What callers get back: frozen records whose fields are the columns' names. Times are aware UTC.

`as_json` turns any of them into plain JSON values, with times as RFC 3339 text; doors print that.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from coordinate.frozen import dataclass


@dataclass(frozen=True)
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
    ask_id: str | None
    depends_on: tuple[str, ...] = ()

    @property
    def handle(self) -> str | None:
        """The claim handle of whoever holds it now, or None."""
        return f"{self.id}@{self.attempt}" if self.assigned_agent else None


@dataclass(frozen=True)
class HeldTask(Task):
    """A task that its agent holds now: show `claim`, its handle, with every verb about it."""

    claim: str = ""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Response:
    """What a human said or did about an ask: answer, clarify, decline, handled; or withdrawn, what they took back.

    `seq` is what an acknowledgement names. `outdated`: it answers an earlier `ask_revision` than the current one.
    """

    ask_id: str
    seq: int
    kind: str
    channel: str
    text: str
    choice: str | None
    context: str
    ask_revision: int
    said_by: str
    created_at: datetime
    outdated: bool


@dataclass(frozen=True)
class Ask:
    """Something only a human can give. `response` is what they said last, None while it is their turn.

    Three facts apart: the human has done their part (`handled_at`), somebody was handed it (`seen_at`, `seen_by`), the
    agent side has finished with it (`outcome`, `closed_at`). `step_no` counts the asks of its place.
    """

    id: str
    number: int
    project: str
    stream: str
    kind: str
    action_owner: str | None
    surface: str
    surface_id: str
    step_no: int
    dedup_key: str | None
    blocking: bool
    title: str
    detail: str
    next_step: str
    impact: str
    next_after: str
    options: list[Any] | None
    context: str
    asked_by: str
    session_id: str | None
    state: str
    revision: int
    snoozed_until: datetime | None
    expires_at: datetime | None
    response_seq: int
    handled_at: datetime | None
    delivered_seq: int
    seen_at: datetime | None
    seen_by: str | None
    taken_by: str | None
    taken_session_id: str | None
    taken_until: datetime | None
    outcome: str
    outcome_at: datetime | None
    closed_at: datetime | None
    closed_by: str | None
    close_reason: str
    created_at: datetime
    updated_at: datetime
    response: Response | None = None


@dataclass(frozen=True)
class Asked:
    """An ask that was opened; `already`: its `dedup_key` is live, or this very call was made before: this is that."""

    ask: Ask
    already: bool = False


@dataclass(frozen=True)
class Responded:
    """What a response did. `already`: this client action came before, or it is taken back already; nothing was
    written. `replaced`: the response that stood until then, whoever gave it; it is kept. `warnings`: what else may
    have been meant."""

    ask: Ask
    response: Response | None
    already: bool = False
    replaced: Response | None = None
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Acknowledged:
    """An ask that the agent side has finished with; `already` when the same acknowledgement came before."""

    ask: Ask
    already: bool = False


@dataclass(frozen=True)
class Annotation:
    """What a human says beside an ask or a row, `about` which one: to be known, not to be waited for."""

    id: str
    number: int
    project: str
    ask_id: str | None
    row_id: str | None
    step_no: int
    author: str
    text: str
    seen_at: datetime | None
    seen_by: str | None
    closed_at: datetime | None
    close_reason: str
    created_at: datetime
    about: str


@dataclass(frozen=True)
class Delivery:
    """That a session (or an agent without one) was handed a response, when first and last, and how often."""

    ask_id: str
    seq: int
    reader: str
    agent: str
    context_revision: int
    times: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class Pending:
    """What humans have said to a session: responses until each is acknowledged, annotations once.

    `waiting` counts the asks that are still the human's; `next` is where the next page of responses begins,
    `next_annotation` that of annotations, None at the end.
    """

    responses: tuple[Ask, ...]
    annotations: tuple[Annotation, ...]
    waiting: int
    next: int | None
    next_annotation: int | None


@dataclass(frozen=True)
class AskView:
    """All about one ask: what was said, who was handed it, what stands beside it, and the earlier asks of its place."""

    ask: Ask
    responses: tuple[Response, ...]
    deliveries: tuple[Delivery, ...]
    annotations: tuple[Annotation, ...]
    steps: tuple[Ask, ...]


@dataclass(frozen=True)
class GivenRow:
    """A row of a board as an agent writes it, known by its `label`. What is None keeps its value; '' or [] clears it.

    `revision` is the one that the agent read; a new row, and one that says nothing new, need none. `next_step`,
    `action_owner`, `impact`, `next_after` and `options` say what a human is to do about a `blocked` row; `response_seq`
    and `outcome` end that: which response was acted on, and what came of it.
    """

    label: str
    revision: int | None = None
    status: str | None = None
    note: str | None = None
    next_step: str | None = None
    action_owner: str | None = None
    impact: str | None = None
    next_after: str | None = None
    options: Any = None
    context: str | None = None
    outcome: str | None = None
    response_seq: int | None = None


@dataclass(frozen=True)
class Board:
    """A titled table of rows that a human watches. `revision` moves with its list of rows and its status."""

    id: str
    number: int
    project: str
    title: str
    status: str
    stream: str
    created_by: str
    revision: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None
    archived_by: str | None


@dataclass(frozen=True)
class Progress:
    """How many rows stand where; `fraction` = (done + half of partial) / (all but na), None when no row counts."""

    tracked: int
    partial: int
    missing: int
    na: int
    done: int
    blocked: int
    fraction: float | None


@dataclass(frozen=True)
class RowWritten:
    """A row after a write: the `revision` to show next time, and the ask that makes it blocked."""

    id: str
    label: str
    status: str
    revision: int
    step_no: int
    ask_id: str | None
    changed: bool


@dataclass(frozen=True)
class BoardWritten:
    """What a write left: the board with its revision, each row that was named, and the labels set aside."""

    board: Board
    rows: tuple[RowWritten, ...]
    set_aside: tuple[str, ...]
    progress: Progress


@dataclass(frozen=True)
class Turn:
    """That it is a human's turn: the live ask, what they said last (None: nothing yet), who was handed it."""

    ask_id: str
    state: str
    revision: int
    asked_by: str
    snoozed_until: datetime | None
    response: Response | None
    seen_by: str | None
    taken_by: str | None
    taken_until: datetime | None


@dataclass(frozen=True)
class BoardRow:
    """A row; while it is blocked, whose `turn` it is. With `full` its earlier steps, the latest first."""

    id: str
    label: str
    status: str
    position: int
    note: str
    next_step: str
    action_owner: str | None
    impact: str
    next_after: str
    options: list[Any] | None
    context: str
    context_chars: int
    outcome: str
    outcome_at: datetime | None
    step_no: int
    revision: int
    created_at: datetime
    updated_at: datetime
    removed_at: datetime | None
    turn: Turn | None
    annotations: tuple[Annotation, ...]
    steps: tuple[Ask, ...]


@dataclass(frozen=True)
class BoardView:
    """A board with its rows in order; `set_aside` only with `full`."""

    board: Board
    progress: Progress
    rows: tuple[BoardRow, ...]
    set_aside: tuple[BoardRow, ...]


@dataclass(frozen=True)
class BoardSummary:
    """A board in a list: how far it is, and how many of a human's words on it nobody was handed."""

    board: Board
    progress: Progress
    unseen: int


@dataclass(frozen=True)
class Claim:
    """A task that is now the caller's: show `handle` with every verb that follows.

    `dependencies` carries the results of what the task depended on; `holding` the handles of what the caller's agent
    holds now, this one included and at most 20 (`mine` lists more); `ask` what a human was asked about the task, with
    the response, or what it waited for and ended without one (`close_reason` expired, dismissed or withdrawn): that is
    neither a yes nor a no.
    """

    handle: str
    task: Task
    attempt: int
    lease_until: datetime
    dependencies: tuple[Dependency, ...] = ()
    holding: tuple[str, ...] = ()
    ask: Ask | None = None


@dataclass(frozen=True)
class Done:
    """The answer of a holder's verb that ends the hold. `already` is True when the same handle had done it before."""

    task: Task
    already: bool = False


@dataclass(frozen=True)
class Dispatched:
    """A task that was dispatched; `already` is True when its `dedup_key` was used before: this is that task."""

    task: Task
    already: bool = False


@dataclass(frozen=True)
class Cancelled:
    """A cancelled task, who held it, and who now waits for what will never come, with how many more."""

    task: Task
    former_holder: str | None
    stranded: tuple[str, ...]
    more_stranded: int = 0


@dataclass(frozen=True)
class Outcome:
    """One line of a batch: the task, or why it was refused (`error`, `code`)."""

    id: str
    ok: bool
    task: Task | None = None
    already: bool = False
    error: str = ""
    code: str = ""


@dataclass(frozen=True)
class Note:
    id: int
    task_id: str
    author: str
    note_type: str | None
    content: str
    created_at: datetime


@dataclass(frozen=True)
class HistoryEntry:
    id: int
    task_id: str
    agent: str
    action: str
    attempt: int | None
    detail: str
    created_at: datetime


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Scope:
    """A pattern of paths that a task means to change."""

    pattern: str
    mode: str


@dataclass(frozen=True)
class TaskView:
    """A task's whole story, newest first; `more_notes` and `more_history` give the `before` of the next page.

    Of tasks that depend on it the 100 oldest are named, `more_dependents` counts the others; of its attempts the latest
    20.
    """

    task: Task
    notes: tuple[Note, ...]
    history: tuple[HistoryEntry, ...]
    dependencies: tuple[Dependency, ...]
    dependents: tuple[str, ...]
    scopes: tuple[Scope, ...]
    attempts: tuple[Attempt, ...]
    more_notes: int | None
    more_history: int | None
    more_dependents: int


@dataclass(frozen=True)
class TaskPage:
    """A page of tasks; `next` is the cursor of the next page, or None at the end."""

    tasks: tuple[Task, ...]
    next: str | None


@dataclass(frozen=True)
class ExportedTask:
    """Everything of one task, for `export`."""

    task: Task
    notes: tuple[Note, ...]
    history: tuple[HistoryEntry, ...]
    attempts: tuple[Attempt, ...]
    scopes: tuple[Scope, ...]


@dataclass(frozen=True)
class Reason:
    """One thing that something waits for: a stable `code`, a sentence, and when it ends by itself, if it does."""

    code: str
    message: str
    ref: str | None = None
    until: datetime | None = None


@dataclass(frozen=True)
class Why:
    """What something waits for. `ready` (or claimable) is True when it waits for nothing."""

    subject: str
    ready: bool
    status: str | None
    reasons: tuple[Reason, ...]


@dataclass(frozen=True)
class Stats:
    """Counts; `by_role` has the 100 roles with most tasks, `more_roles` says how many others there are."""

    by_status: dict[str, int]
    by_role: dict[str, int]
    expired_leases: int
    total_tasks: int
    more_roles: int


@dataclass(frozen=True)
class Day:
    """One day of the burn-down (UTC); `open` is what was left at its end."""

    day: str
    created: int
    done: int
    cancelled: int
    open: int


@dataclass(frozen=True)
class Finished:
    """A task that ended, with who held it last and since when; None where nobody ever did."""

    id: str
    number: int
    title: str
    status: str
    role_boundary: str
    project: str
    priority: int
    created_at: datetime
    finished_at: datetime
    agent: str | None
    started_at: datetime | None


@dataclass(frozen=True)
class Effort:
    """How many attempts ended how, by day (UTC, also days without any) and by agent, those with most first."""

    by_day: dict[str, dict[str, int]]
    by_agent: dict[str, dict[str, int]]


@dataclass(frozen=True)
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
    asks_open: int = 0
    asks_told: int = 0
    asks_answered: int = 0
    sessions_live: int = 0


@dataclass(frozen=True)
class LintIssue:
    task_id: str
    severity: str
    message: str


@dataclass(frozen=True)
class Pruned:
    events_deleted: int
    history_deleted: int
    notes_deleted: int
    dry_run: bool


@dataclass(frozen=True)
class Project:
    name: str
    lease_seconds: int | None
    max_attempts: int | None
    closed_at: datetime | None


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Gap:
    """Events that were pruned before the consumer read them: from, through (positions), and how many."""

    after: int
    through: int
    lost: int


@dataclass(frozen=True)
class EventBatch:
    """What a consumer is handed: events after what it acknowledged. `redelivered` of them were handed out before."""

    consumer: str
    events: tuple[Event, ...]
    acknowledged: int
    delivered: int
    redelivered: int
    gap: Gap | None


@dataclass(frozen=True)
class Learnings:
    """What others said since the caller last asked, oldest first, and how much more of it waits."""

    events: tuple[Event, ...]
    more: int
    gap: Gap | None


@dataclass(frozen=True)
class News:
    """What a wait ended with: whether there is work of the role (None: not asked), the caller's asks that humans have
    answered and nobody was handed, and what others said, with how much more of it waits."""

    work: bool | None
    answers: tuple[str, ...]
    said: tuple[Event, ...]
    more: int

    @property
    def nothing(self) -> bool:
        """Whether the wait was in vain."""
        return not (self.work or self.answers or self.said)


@dataclass(frozen=True)
class Cursor:
    consumer: str
    delivered: int
    acknowledged: int


@dataclass(frozen=True)
class Agent:
    """A durable name; `live_sessions` of its sessions gave a sign of life lately."""

    name: str
    kind: str
    role: str | None
    created_at: datetime
    live_sessions: int
    last_seen: datetime | None


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Scopes:
    """The answer to a claim or a check of scopes: granted, or the conflicts as data and nothing written.

    `conflicts` are the first 100; `more` counts the rest.
    """

    granted: bool
    leases: tuple[Lease, ...]
    conflicts: tuple[Conflict, ...]
    more: int = 0


@dataclass(frozen=True)
class Lost:
    """What a session lost since it was last told: leases that ended, and claims whose time was over (handles)."""

    leases: tuple[Lease, ...]
    claims: tuple[str, ...]


@dataclass(frozen=True)
class Swept:
    """What a sweep ended: stale sessions, leases, claims taken back, asks without an answer in their time.

    `more` says that it reached its bound.
    """

    sessions: tuple[str, ...]
    leases: tuple[Lease, ...]
    tasks: tuple[str, ...]
    asks: tuple[str, ...]
    more: bool


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class OpenedWorktree:
    """A worktree with the scopes it holds; or None and the conflicts (the first 100, then `more`), nothing written."""

    worktree: Worktree | None
    leases: tuple[Lease, ...]
    conflicts: tuple[Conflict, ...]
    more: int = 0


@dataclass(frozen=True)
class Applied:
    event_key: str
    applied_at: datetime


@dataclass(frozen=True)
class Token:
    """What lets a client in as an agent or a human, with a role. The secret itself is kept nowhere."""

    id: int
    agent: str
    kind: str
    role: str
    label: str
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True)
class NewToken:
    """A token that was just made, and its `secret`, which is told this once."""

    token: Token
    secret: str


@dataclass(frozen=True)
class Finding:
    """Something of an adopted board that could not come over as it was: where, what, its value, what was done."""

    table: str
    id: str
    what: str
    value: str
    done: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Settled:
    """What ended when a board was put back to an earlier day.

    `known`: the board that is replaced showed all numbers that were given out since, so that they go on just above. If
    not (it is damaged, lost, or another board), and always where a board was put back by other means, they go on by a
    wide margin.
    """

    claims_ended: int
    leases_ended: int
    known: bool


@dataclass(frozen=True)
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
    if (names := getattr(value, "__match_args__", None)) is not None:
        return {name: as_json(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value
