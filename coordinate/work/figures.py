"""Figures and reasons: counts, burn-down, lint of the board, and what a task or an idle agent waits for."""

from __future__ import annotations

from datetime import datetime, timedelta

from coordinate import inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.records import Day, Effort, Finished, LintIssue, Reason, Stats, Status, Why
from coordinate.states import BLOCKED as BLOCKED_STATUS
from coordinate.states import CANCELLED, DONE, IN_PROGRESS, IN_REVIEW, OWNERS, TODO
from coordinate.work import story

LINT_MAX = 1_000
ROLES_MAX = 100
AGENTS_MAX = 50
BURNDOWN_DAYS_MAX = 366


def stats(tx: Tx, *, project: str | None = None) -> Stats:
    """How many tasks stand where, and by role; keys with nothing in them are left out."""
    by_status, by_role, more_roles, expired = _counts(tx, inputs.name_or_none(project, "project"))
    return Stats(by_status, by_role, expired, sum(by_status.values()), more_roles)


def status(tx: Tx, *, project: str | None = None, days: int = 14) -> Status:
    """Where the tasks stand; `flows.ending.status` says what is promised."""
    project = inputs.name_or_none(project, "project")
    days = inputs.integer(days, "days", least=1, most=BURNDOWN_DAYS_MAX)
    by_status, by_role, more_roles, expired = _counts(tx, project)
    total, done = sum(by_status.values()), by_status.get(DONE, 0)
    counted = total - by_status.get(CANCELLED, 0)
    stuck = tx.all("unreachable_ids", project=project, role=None, limit=100)
    left = total - done - by_status.get(CANCELLED, 0)
    return Status(
        by_status=by_status,
        by_role=by_role,
        expired_leases=expired,
        total=total,
        done_count=done,
        percent_done=round(100 * done / counted, 2) if counted else 0.0,
        unreachable=tuple(row.id for row in stuck),
        burndown=_burndown(tx, project, days, left),
        more_roles=more_roles,
    )


def _counts(tx: Tx, project: str | None) -> tuple[dict[str, int], dict[str, int], int, int]:
    by_status: dict[str, int] = {}
    by_role: dict[str, int] = {}
    for row in tx.all("tasks_counts", project=project):
        by_status[row.status] = by_status.get(row.status, 0) + row.count
        by_role[row.role_boundary] = by_role.get(row.role_boundary, 0) + row.count
    expired = tx.one("tasks_expired_count", project=project)
    shown = sorted(by_role, key=lambda role: (-by_role[role], role))[:ROLES_MAX]
    told = {role: by_role[role] for role in sorted(shown)}
    return by_status, told, len(by_role) - len(told), int(expired.count) if expired else 0


def _burndown(tx: Tx, project: str | None, days: int, open_now: int) -> tuple[Day, ...]:
    """Counted back from what is open now, so that the last day agrees with the counts."""
    now = tx.now()
    first = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    created = {row.day: row.count for row in tx.all("burn_created", since=first, project=project)}
    ended = {(row.day, row.status): row.count for row in tx.all("burn_finished", since=first, project=project)}
    found: list[Day] = []
    left = open_now
    for back in range(days):
        day = (now - timedelta(days=back)).strftime("%Y-%m-%d")
        came, done, gone = created.get(day, 0), ended.get((day, DONE), 0), ended.get((day, CANCELLED), 0)
        found.append(Day(day, came, done, gone, left))
        left += done + gone - came
    return tuple(reversed(found))


def list_finished(
    tx: Tx,
    *,
    status: str | None = None,
    role: str | None = None,
    by_agent: str | None = None,
    project: str | None = None,
    query: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> list[Finished]:
    """The tasks that ended last, DONE or CANCELLED, the latest first; `limit` at most 1,000.

    `after` (the id of the last one seen) pages on; `InvalidInput` when that one was reopened meanwhile.

    `started_at` and `agent` are those of the last attempt, so that what took how long can be told. `query` is text
    that the title or the body holds: literal, in any letter case.
    """
    seen = None if after is None else story.find(tx, inputs.task_id(after, "after"))
    if seen is not None and seen.finished_at is None:
        raise inputs.refuse("after", f"{seen.id} is not finished", hint="begin again without `after`")
    rows = tx.all(
        "tasks_finished",
        before=None if seen is None else seen.finished_at,
        before_number=None if seen is None else seen.number,
        status=None if status is None else inputs.status(status),
        role=inputs.name_or_none(role, "role"),
        agent=inputs.name_or_none(by_agent, "by_agent"),
        project=inputs.name_or_none(project, "project"),
        needle=None if query is None else inputs.fold(inputs.text(query, "query", limit=inputs.QUERY_MAX)),
        limit=inputs.limit(limit),
    )
    return [Finished(**row._asdict()) for row in rows]


def effort(tx: Tx, *, project: str | None = None, days: int = 30) -> Effort:
    """How attempts ended in the last `days` (1 to 366): by day, and by agent for those with most."""
    days = inputs.integer(days, "days", least=1, most=BURNDOWN_DAYS_MAX)
    since = (tx.now() - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    given = {"since": since, "project": inputs.name_or_none(project, "project")}
    by_day: dict[str, dict[str, int]] = {
        (since + timedelta(days=each)).strftime("%Y-%m-%d"): {} for each in range(days)
    }
    for row in tx.all("attempts_by_day", **given):
        by_day.setdefault(row.day, {})[row.outcome] = row.count
    by_agent: dict[str, dict[str, int]] = {}
    for row in tx.all("attempts_by_agent", limit=AGENTS_MAX, **given):
        by_agent.setdefault(row.agent, {})[row.outcome] = row.count
    return Effort(by_day, by_agent)


def now(tx: Tx) -> datetime:
    """What time it is at the board: by this clock leases end."""
    return tx.now()


def lint(tx: Tx, *, project: str | None = None) -> list[LintIssue]:
    """What is wrong with the board's plan: tasks that can never become ready, roles and blocks that need a look.

    At most 1,000 issues. `error` means that something waits for ever, `warn` that somebody should look.
    """
    project = inputs.name_or_none(project, "project")
    issues = [
        LintIssue(row.id, "error", f"waits for {row.depends_on}, which was cancelled: it will never become ready")
        for row in tx.all("tasks_unreachable", project=project, role=None, limit=LINT_MAX)
    ]
    page = tx.all("tasks_blocked", project=project, limit=LINT_MAX)
    issues += [LintIssue(row.id, "warn", "is BLOCKED and waits for somebody to unblock it") for row in page]
    twins = tx.all("tasks_twins", project=project, limit=LINT_MAX)
    issues += [
        LintIssue(f"TASK-{row.first}", "warn", f"has the same title and role as {row.count - 1} other live task(s)")
        for row in twins
    ]
    return issues[:LINT_MAX]


def why(tx: Tx, *, task: str) -> Why:
    """What a task waits for, in one truthful answer: dependencies, time, holder, reviewer, or nothing."""
    row = story.find(tx, inputs.task_id(task))
    now = tx.now()
    reasons: list[Reason] = []
    if row.status == TODO:
        reasons = _why_todo(tx, row, now)
    elif row.status == IN_PROGRESS:
        past = row.lease_until <= now
        said = f"{row.assigned_agent} holds it (attempt {row.attempt})"
        said += "; the lease is past, so the next claim takes it back" if past else ""
        reasons = [Reason("expired" if past else "held", said, f"{row.id}@{row.attempt}", row.lease_until)]
    elif row.status == BLOCKED_STATUS and (asked := _waits_for_a_human(tx, row, now)):
        reasons = [asked]
    elif row.status == BLOCKED_STATUS:
        noted = tx.one("note_of_block", task_id=row.id)
        cause = "no reason was given" if noted is None else noted.content
        reasons = [Reason("blocked", f"it is BLOCKED: {cause}", row.id)]
    elif row.status == IN_REVIEW:
        reserved = row.reviewer is not None and row.review_until > now
        said = f"{row.reviewer} reviews it" if reserved else f"it waits for {OWNERS[IN_REVIEW]}"
        reasons = [Reason("in_review", said, row.id, row.review_until if reserved else None)]
    else:
        reasons = [Reason("finished", f"it is {row.status}", row.id)]
    ready = row.status == TODO and not reasons
    if ready:
        reasons = [Reason("ready", f"nothing: the next claim of role {row.role_boundary} in its turn takes it", row.id)]
    return Why(row.id, ready, row.status, tuple(reasons))


def _waits_for_a_human(tx: Tx, row: Row, now: datetime) -> Reason | None:
    """What a BLOCKED task waits for a human with, in its own place or beside an answer; None where it does not."""
    asked = None if row.ask_id is None else tx.one("ask", ask_id=row.ask_id)
    if asked is None or asked.state != "open" or not asked.blocking:
        asked = tx.one("ask_at", surface="alone", surface_id=row.id)
    if asked is None or asked.state != "open":
        return None
    if asked.expires_at is not None and asked.expires_at <= now:
        said = f"nobody answered {asked.id} in time; the next sweep puts it back: coordinate sweep"
    else:
        said = f"a human has to answer {asked.id}: coordinate inbox show {asked.id}"
    return Reason("ask", said, asked.id, asked.expires_at)


def _why_todo(tx: Tx, row: Row, now: datetime) -> list[Reason]:
    reasons = []
    for edge in story.edges_of(tx, [row.id]):
        if edge.met:
            continue
        if edge.status == CANCELLED:
            said = f"it depends on {edge.depends_on_task_id}, which was cancelled: it will never become ready"
            reasons.append(Reason("unreachable", said, edge.depends_on_task_id))
        else:
            said = f"it depends on {edge.depends_on_task_id} ({edge.title}), which is {edge.status}"
            reasons.append(Reason("dependency", said, edge.depends_on_task_id))
    patterns = [each.pattern for each in tx.all("scopes_of", ids=[row.id])] if row.scoped else []
    own = leases.Caller(task_id=row.id)
    blocker = leases.blocker_of(tx, patterns, project=row.project, caller=own, looking=True) if patterns else None
    if (lease := blocker) is not None:
        said = f"{lease.agent} holds {lease.resource}; that ends {leases.ends(lease)}"
        reasons.append(Reason("scope", said, lease.task_id or lease.resource, lease.expires_at))
    if row.parked == "reserved" and row.parked_until > now:
        said = f"a human answered what {row.reserved_for} asked, so it is reserved for them"
        reasons.append(Reason("reserved", said, row.reserved_for, row.parked_until))
    asked = None if row.ask_id is None else tx.one("ask", ask_id=row.ask_id)
    if asked is not None and asked.handled_at is not None and asked.taken_until is not None and asked.taken_until > now:
        said = f"{asked.taken_by} acts on {asked.id}, which a human answered"
        said += f", in session {asked.taken_session_id}" if asked.taken_session_id else ""
        reasons.append(Reason("taken", said, asked.taken_by, asked.taken_until))
    if row.not_before is not None and row.not_before > now:
        reasons.append(Reason("not_before", "its time has not come", row.id, row.not_before))
    return reasons


def why_idle(tx: Tx, *, role: str, project: str | None = None) -> Why:
    """Why an agent of this role finds nothing to claim, and when that may change by itself.

    `ready` is True when there is something to claim. Reads the role's live tasks once; not for a tight loop.
    """
    role, project = inputs.name(role, "role"), inputs.name_or_none(project, "project")
    census = tx.the("queue_census", role=role, project=project)
    now = tx.now()
    reasons: list[Reason] = []
    if census.ready:
        reasons.append(Reason("ready", f"{census.ready} task(s) are ready to be claimed"))
    if census.waiting:
        reasons.append(Reason("dependency", f"{census.waiting} task(s) wait for others"))
    if census.later:
        said = f"{census.later} task(s) lie in the future, or are left to somebody"
        reasons.append(Reason("not_before", said, until=census.next_due))
    if census.scope:
        said = f"{census.scope} task(s) wait for scopes that others hold; `task why` names the holder"
        reasons.append(Reason("scope", said))
    if census.held:
        past = census.next_expiry is not None and census.next_expiry <= now
        said = f"{census.held} task(s) are held" + ("; a lease is past, so a claim takes it back" if past else "")
        reasons.append(Reason("held", said, until=census.next_expiry))
    if census.blocked:
        reasons.append(Reason("blocked", f"{census.blocked} task(s) are BLOCKED and wait for somebody"))
    if census.in_review:
        reasons.append(Reason("in_review", f"{census.in_review} task(s) wait for a review"))
    reasons += [
        Reason("unreachable", f"{row.id} waits for {row.depends_on}, which was cancelled", row.id)
        for row in tx.all("tasks_unreachable", project=project, role=role, limit=5)
    ]
    if not census.total:
        others = tx.all("roles_with_ready", project=project)
        listed = ", ".join(f"{each.role_boundary} ({each.count})" for each in others)
        said = f"no live task has the role {role}"
        reasons.append(Reason("no_tasks", said + (f"; ready in other roles: {listed}" if listed else "")))
    return Why(role, bool(census.ready), None, tuple(reasons))


def has_work(tx: Tx, *, role: str, project: str | None = None) -> bool:
    """Whether a claim of this role would find something now."""
    return bool(
        tx.the("queue_has_work", role=inputs.name(role, "role"), project=inputs.name_or_none(project, "project")).work
    )


def next_change(tx: Tx, *, claims: bool) -> float:
    """In how many seconds the queue next changes by itself (a lease ends, a task comes due); infinite if never.

    For whoever `claims`, what is past counts: the next claim brings it back. Whoever only looks would look for ever.
    """
    row = tx.the("queue_next_due" if claims else "queue_next_change")
    moments = [moment for moment in (row.expiry, row.due) if moment is not None]
    return max(0.0, (min(moments) - row.now).total_seconds()) if moments else float("inf")
