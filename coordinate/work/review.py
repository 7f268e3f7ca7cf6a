"""Review: whoever did the work in this round may not judge it, whatever the path; a human may override, on record.

A round begins with the first claim, or with the last rejection. `claim_review` lets reviewers share one queue without
working on the same task.
"""

from __future__ import annotations

from collections.abc import Callable

from coordinate import inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import CoordinateError, Held, SelfReview
from coordinate.records import Outcome, Task
from coordinate.states import IN_REVIEW, MOVE
from coordinate.work import dependencies, story
from coordinate.work.claims import in_order, wrong_state

REVIEW_SECONDS = 1_800
APPROVE_ALL_MAX = 1_000


def claim_review(
    tx: Tx,
    *,
    task: str | None = None,
    project: str | None = None,
    lease_seconds: int = REVIEW_SECONDS,
    agent: str = "",
) -> Task | None:
    """Reserve the next submitted task for this reviewer (30 minutes by default); None when there is none for them.

    Tasks that the reviewer worked on in this round, and those another reviewer has reserved, are passed over; so is one
    that somebody changes at this very moment, which the next call finds. `task` asks for one by name, and is refused as
    `approve` would be. Approving or rejecting ends the reservation; so does its time.
    """
    agent = inputs.agent(agent)
    task_id = None if task is None else inputs.task_id(task)
    named = None if task_id is None else story.find(tx, task_id, lock=True)
    project = inputs.name_or_none(project, "project")
    if named is not None:
        _refuse(tx, named, "claim_review", agent, override=None)
        if project not in (None, named.project):
            said = f"{named.id} is of project {named.project}, not {project}"
            raise inputs.refuse("project", said, hint="leave the project away; nothing was reserved")
    lease = inputs.lease_seconds(lease_seconds)
    row = None
    while row is None:
        picked = tx.one("review_pick", task_id=task_id, project=project, agent=agent)
        if picked is None:
            return None if named is None else story.task_of(tx, named)  # the caller has reserved it already
        row = tx.one("review_claim", task_id=picked.id, lease_seconds=lease, agent=agent)
    story.record(tx, row, "CLAIM_REVIEW", "review.claimed", agent=agent)
    return story.task_of(tx, row)


def review_count(tx: Tx, *, project: str | None = None) -> int:
    """How many tasks wait for a review, but for those that an approval which a human is asked for decides."""
    return int(tx.the("review_count", project=inputs.name_or_none(project, "project")).count)


def approve(
    tx: Tx,
    *,
    task: str,
    note: str = "",
    override: str | None = None,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Pass the review of a task; `flows.finishing.approve` says what is promised."""
    row = _reviewed(tx, "approve", task, agent, override=override, revision=expected_revision, detail=_noted(note))
    if note:
        story.note(tx, row.id, inputs.agent(agent), "REVIEW", note)
    dependencies.met_by(tx, row.id)
    return story.task_of(tx, row)


def reject(
    tx: Tx,
    *,
    task: str,
    reason: str,
    override: str | None = None,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Send a task back to the queue; `flows.finishing.reject` says what is promised."""
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX, blank=False)
    row = _reviewed(tx, "reject", task, agent, override=override, revision=expected_revision, detail=reason)
    story.note(tx, row.id, inputs.agent(agent), "REJECTED", reason)
    story.announce(tx, row)
    return story.task_of(tx, row)


def decided(tx: Tx, row: Row, *, approved: bool, said: str, agent: str) -> None:
    """A human decided whether a locked IN_REVIEW task passes: DONE, or back to TODO with the reason as a REVIEW note.

    Whoever has reserved the review is relieved. Raises `SelfReview` when the speaker worked on it in this round.
    """
    verb = "approve" if approved else "reject"
    _refuse_own(tx, row, agent, override=None)
    after = tx.the(f"task_{verb}", task_id=row.id)
    move, reason = MOVE[verb], said[: inputs.REASON_MAX]
    story.record(
        tx, after, move.action, move.event, agent=agent, detail=reason, reason="" if approved else reason, override=None
    )
    if said:
        story.note(tx, row.id, agent, "REVIEW", said)
    if approved:
        dependencies.met_by(tx, row.id)
    else:
        story.announce(tx, after)


def approve_each(
    tx: Tx,
    *,
    project: str | None,
    override: str | None,
    limit: int,
    agent: str,
    lock: Callable[[list[str]], None],
    one: Callable[[str], Task],
) -> list[Outcome]:
    """Pass what waits for review by `one`, each for itself, all of them locked before the first."""
    project = inputs.name_or_none(project, "project")
    if override is not None:
        inputs.text(override, "override", limit=inputs.REASON_MAX, blank=False)
    limit = inputs.limit(limit, most=APPROVE_ALL_MAX)
    found = tx.all("review_ids", project=project, override=override, agent=agent, limit=limit)
    lock([row.id for row in found])
    outcomes: dict[str, Outcome] = {}
    for row in sorted(found, key=lambda row: int(row.number)):
        try:
            outcomes[row.id] = Outcome(row.id, ok=True, task=one(row.id))
        except CoordinateError as error:
            outcomes[row.id] = Outcome(row.id, ok=False, error=error.message, code=error.code)
    return [outcomes[row.id] for row in in_order(found)]


def _noted(note: str) -> str:
    return inputs.text(note, "note", limit=inputs.NOTE_MAX)[: inputs.REASON_MAX]


def _reviewed(
    tx: Tx, verb: str, task: str, agent: str, *, override: str | None, revision: int | None, detail: str
) -> Row:
    """Lock the task, look who worked on it, then move it: the lock covers both."""
    task_id, agent = inputs.task_id(task), inputs.agent(agent)
    if override is not None:
        override = inputs.text(override, "override", limit=inputs.REASON_MAX, blank=False)
    before = story.find(tx, task_id, lock=True)
    story.refuse_outdated(before, revision)
    _refuse(tx, before, verb, agent, override=override)
    row = tx.the(f"task_{verb}", task_id=task_id)
    move = MOVE[verb]
    said = detail if override is None else f"override: {override}" + (f"; {detail}" if detail else "")
    reason = detail if verb == "reject" else ""
    story.record(tx, row, move.action, move.event, agent=agent, detail=said, reason=reason, override=override)
    return row


def _refuse(tx: Tx, row: Row, verb: str, agent: str, *, override: str | None) -> None:
    if row.status != IN_REVIEW:
        raise wrong_state(row, verb)
    _refuse_reserved(tx, row, agent)
    _refuse_own(tx, row, agent, override=override)


def _refuse_own(tx: Tx, row: Row, agent: str, *, override: str | None) -> None:
    worked = tx.one("review_worked", task_id=row.id, rejected_attempt=row.rejected_attempt, agent=agent)
    if worked is not None and worked.worked and override is None:
        raise SelfReview(
            f"{agent} worked on {row.id} in this round and cannot review it",
            hint="let another agent review it; a human may override with a reason, which is recorded",
            task_id=row.id,
            status=row.status,
        )


def _refuse_reserved(tx: Tx, row: Row, agent: str) -> None:
    if row.reviewer in (None, agent):
        return
    if row.review_until > tx.now():
        until = leases.when(row.review_until)
        raise Held(
            f"{row.reviewer} reviews {row.id} until {until}",
            hint="review another: coordinate task claim-review",
            task_id=row.id,
            holder=row.reviewer,
            until=until,
        )
