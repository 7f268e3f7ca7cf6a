"""What humans are asked about tasks and rows, and what follows from it, in one transaction.

A task that waits for a human is BLOCKED exactly while its ask is open; one that is held when its ask opens again waits
as soon as that hold ends. Each verb that changes the one changes the other. The task's row is always locked before the
ask's, and a board's row before both, so that no two of them wait in a circle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from coordinate import inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import AskOpen, Closed, Held, InvalidState
from coordinate.fleet import agents
from coordinate.frozen import replace
from coordinate.inbox import asks, deliveries, responses
from coordinate.inputs import Json
from coordinate.records import (
    Acknowledged,
    Ask,
    Asked,
    Claim,
    Responded,
)
from coordinate.states import BLOCKED, CANCELLED, DONE, FINAL, IN_PROGRESS, IN_REVIEW, TODO
from coordinate.work import claims, review, story, tasks

SEQ_MAX = (1 << 31) - 1

P = ParamSpec("P")
R = TypeVar("R")


def _of_a_live_session(verb: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Tx, P], R]:
    """A session that was ended does nothing more, and none ends in the middle of it."""

    @functools.wraps(verb)
    def entered(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> R:
        agents.enter(tx, session=cast("str | None", kwargs.get("session")))
        return verb(tx, *args, **kwargs)

    return cast("Callable[Concatenate[Tx, P], R]", entered)


pending = _of_a_live_session(deliveries.pending)


# --- what agents ask --------------------------------------------------------------------------------------------------


@_of_a_live_session
def ask(
    tx: Tx,
    *,
    title: str,
    kind: str = "question",
    action_owner: str | None = None,
    detail: str = "",
    next_step: str = "",
    impact: str = "",
    next_after: str = "",
    options: Sequence[Json | str] | None = None,
    context: str = "",
    task: str | Claim | None = None,
    blocking: bool = False,
    supersedes: str | None = None,
    outcome: str = "",
    dedup_key: str | None = None,
    timeout_seconds: int | None = None,
    project: str | None = None,
    stream: str = "",
    agent: str = "",
    session: str | None = None,
) -> Asked:
    """Ask a human: a `question`, or tell them a `note` or that something is `done`. The ask is the answer's `ask`.

    The answer is an `Asked`, so what is asked is known by `.ask.id` from then on; `already` says that it was there.
    `action_owner` says what is asked: a `decision` or an `approval` (2 to 4 `options`, each a label or an object of
    label, detail and recommended) or a `task`, a deed. `impact` says what waits for it; `title` is the ask in one line,
    `next_step` the one thing to do, `next_after` what follows, `context` the long background (100,000 characters).
    With `task` it hangs on that task; `blocking` then parks the task, shown by its claim handle, in the same
    transaction: BLOCKED without a lease, until the response makes it TODO, reserved for the asker for 15 minutes, and
    comes along with the claim. An `approval` on a task in review decides the review: its first option lets it pass,
    `decline` sends it back. One live ask in a place: of several at once one opens, the others get `AlreadyAsked` with
    its id; a note or what is done leaves its place to a question. `supersedes` closes that ask and opens the next step
    in its place, with what came of its response as `outcome` (1,000 characters; a must for a decision or an approval
    that was answered); what a task waits for is superseded by a question alone, which is blocking too. `dedup_key`
    makes a retry in the same words harmless while that ask lives: once it is answered the answer comes back, and the
    task stays held. Other words under it are refused (`AlreadyAsked`).
    `timeout_seconds` (to one year) lets it expire without an answer; it is about the human's first word, and a human
    who spoke in time (a clarification too) is waited for without end.
    """
    agent = inputs.agent(agent)
    content = asks.content_of(
        kind=kind,
        action_owner=action_owner,
        title=title,
        detail=detail,
        next_step=next_step,
        impact=impact,
        next_after=next_after,
        options=options,
        context=context,
    )
    dedup_key = None if dedup_key is None else inputs.line(dedup_key, "dedup_key", limit=responses.KEY_MAX)
    project = inputs.name_or_none(project, "project")
    inputs.integer_or_none(timeout_seconds, "timeout_seconds", least=1, most=inputs.DELAY_SECONDS_MAX)
    outcome = inputs.text(outcome, "outcome", limit=asks.OUTCOME_MAX).strip()
    if outcome and supersedes is None:
        raise inputs.refuse("outcome", "an outcome is of the ask that is superseded", hint="name that: supersedes")
    blocking = inputs.flag(blocking, "blocking")
    if blocking and (task is None or kind != "question"):
        raise inputs.refuse("blocking", "only a question about a task is blocking", hint="name the task by its handle")
    _end_what_is_over(tx, None if task is None else _about(task), project, dedup_key, supersedes)
    on = None if task is None else story.find(tx, _about(task), lock=True)
    if on is not None and on.status in FINAL:
        raise claims.wrong_state(on, "ask")
    stream = inputs.text(stream, "stream", limit=inputs.TITLE_MAX)
    before = None if supersedes is None else _to_supersede(tx, supersedes, on, kind, agent)
    place = asks.Place() if on is None else asks.Place("task", on.id)
    if before is not None:
        place = asks.Place(before.surface, before.surface_id)
        project = project or before.project
    project = on.project if on is not None else project or "default"
    twin = asks.twin(tx, project, dedup_key)
    if twin is not None and before is not None and twin.id == before.id:
        twin = None
    if twin is not None and twin.handled_at is not None and on is not None:  # there is nothing to wait for
        return _the_same(twin, content, place, blocking=False, only_there=blocking or before is not None)
    if blocking and on is not None and (live := _park(tx, on, task, content, agent, before)):
        return Asked(live, already=True)
    if before is not None:
        if twin is not None:  # this very call came before, or the key is another's
            return _the_same(twin, content, place, blocking=blocking, only_there=True)
        blocking = blocking or (before.state == "open" and before.blocking)
        readers = [asks.reader(agent, session)]
        said: dict[str, Any] = {"reason": "superseded", "response_seq": None, "outcome": outcome}
        asks.closed(tx, before, agent=agent, readers=readers, **said)
    row, already = asks.open_at(
        tx,
        place,
        content,
        project=project,
        stream=stream,
        dedup_key=dedup_key,
        blocking=blocking,
        timeout_seconds=timeout_seconds,
        agent=agent,
        session=session,
    )
    if already:
        return _the_same(row, content, place, blocking=blocking, only_there=before is not None)
    if on is not None:
        tx.run("task_ask", task_id=on.id, ask_id=row.id)
    return Asked(asks.lean(row), already=False)


def _end_what_is_over(
    tx: Tx, task_id: str | None, project: str | None, dedup_key: str | None, supersedes: str | None
) -> None:
    """What nobody answered in time is in the way of no ask, neither in its place nor under its key; before any lock."""
    about = None if task_id is None else story.find(tx, task_id)
    before = None if supersedes is None else asks.find(tx, supersedes)
    place = about if about is not None else before
    if place is not None and (place is about or project is None):
        project = str(place.project)
    found = [
        asks.twin(tx, project or "default", dedup_key),
        None if about is None else tx.one("ask_at", surface="task", surface_id=about.id),
        before,
    ]
    for row in {row.id: row for row in found if row is not None and asks.may_be_over(row)}.values():
        over = _expire(tx, row.id)
        if over is not None and supersedes is not None and over.id == inputs.ask_id(supersedes):
            raise _ended(over)


def _about(task: str | Claim) -> str:
    """The task that it is about; a board's row asks otherwise."""
    if isinstance(task, str) and task.strip().upper().startswith("ROW-"):
        hint = "a row asks by being blocked: coordinate board row TITLE LABEL --status blocked"
        raise inputs.refuse(
            "task", f"{inputs.line(task, 'task', limit=inputs.NAME_MAX)} is a row of a board", hint=hint
        )
    return inputs.handle(task)[0]


def _the_same(row: Row, content: asks.Content, place: asks.Place, *, blocking: bool, only_there: bool) -> Asked:
    """The ask that lives under the key, for a retry: it says the same words, in the one place if it is to be there."""
    elsewhere = (row.surface, row.surface_id) != (place.surface, place.id)
    if not content.says(row) or (elsewhere and (only_there or blocking)):
        raise asks.key_is_taken(row)
    if blocking and not row.blocking:
        raise asks.already_asked(row)
    return Asked(asks.lean(row), already=True)


def _to_supersede(tx: Tx, ask: str, on: Row | None, kind: str, agent: str) -> Row:
    """The ask in whose place the next one comes, locked; what a task waits for gives way to a question alone."""
    before = asks.find(tx, ask, lock=True)
    if before.surface == "row":
        hint = "set the row's next step: coordinate board advance"
        raise InvalidState(f"{before.id} hangs on {before.surface_id}, a row of a board", hint=hint, ask_id=before.id)
    if before.surface == "task" and (on is None or before.surface_id != on.id):
        hint = f"name its task: {before.surface_id}"
        raise InvalidState(f"{before.id} hangs on {before.surface_id}", hint=hint, ask_id=before.id)
    if before.surface == "alone" and on is not None:
        raise InvalidState(f"{before.id} hangs on no task", hint="leave the task out", ask_id=before.id)
    _refuse_kept(tx, on, before, agent)
    if before.state == "open" and (before.blocking or _beside_a_task(before)) and kind != "question":
        raise inputs.refuse(
            "kind",
            f"{before.surface_id} waits for {before.id}, and nobody can answer a {kind}",
            hint=f"ask a question in its place, or withdraw it: coordinate inbox withdraw {before.id}",
        )
    return before


def _park(
    tx: Tx, on: Row, task: str | Claim | None, content: asks.Content, agent: str, before: Row | None
) -> Ask | None:
    """BLOCKED and without a lease; or, where this very handle did it already in these words, the ask that lives."""
    assert task is not None
    if on.status == BLOCKED and inputs.handle(task)[1] is None:
        return None
    done = claims.block(tx, handle=task, reason=f"asks a human: {content.title}", agent=agent)
    live = tx.one("ask_at", surface="task", surface_id=on.id) if done.already else None
    mine = live is not None and live.blocking and live.asked_by == agent
    if live is None or not mine or (before is not None and live.id == before.id):
        return None
    if not content.says(live):
        raise asks.already_asked(live)
    return asks.ask_of(live)


def revise(
    tx: Tx,
    *,
    ask: str,
    title: str | None = None,
    detail: str | None = None,
    next_step: str | None = None,
    impact: str | None = None,
    next_after: str | None = None,
    options: Sequence[Json | str] | None = None,
    context: str | None = None,
    timeout_seconds: int | None = None,
    expected_revision: int | None = None,
    agent: str = "",
    session: str | None = None,
) -> Ask:
    """Put an ask in other words; what is absent stays. The revision counts up, unless nothing differs.

    A response to the earlier words stays and is marked `outdated`; a clarification that was handed over is answered by
    the new words, and it is the human's turn again, without end, for they spoke in time. `timeout_seconds` (to one
    year) gives it that long from now, also where no word differs. Raises `OutdatedRevision` when `expected_revision` is
    not the current one, `Held` while another acts on the response, holds its task or has that kept for them, `Closed`,
    `NotFound`.
    """
    agent = inputs.agent(agent)
    inputs.integer_or_none(expected_revision, "expected_revision", least=1)
    inputs.integer_or_none(timeout_seconds, "timeout_seconds", least=1, most=inputs.DELAY_SECONDS_MAX)
    words = {
        "title": title,
        "detail": detail,
        "next_step": next_step,
        "impact": impact,
        "next_after": next_after,
        "options": options,
        "context": context,
    }
    on, before = _locked(tx, ask)
    if before.surface == "row":
        raise InvalidState(
            f"{before.id} says what {before.surface_id} of a board says",
            hint="put it in other words there: coordinate board row TITLE LABEL",
            ask_id=before.id,
        )
    _refuse_kept(tx, on, before, agent)
    row, changed = asks.revised(
        tx,
        before,
        expected_revision=expected_revision,
        timeout_seconds=timeout_seconds,
        agent=agent,
        session=session,
        **words,
    )
    if changed and row.handled_at is None:
        _follow(tx, on, before, row, agent=agent)
    return asks.lean(asks.find(tx, row.id))


# --- what humans say --------------------------------------------------------------------------------------------------


def respond(
    tx: Tx,
    *,
    ask: str,
    kind: str = "answer",
    text: str = "",
    choice: str | None = None,
    context: str = "",
    revision: int | None = None,
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """A human's response, from the inbox: always succeeds while the ask lives, replaces what was there, is unseen.

    `kind` is answer, clarify (words needed, at most 10,000 characters, or for an answer `choice`, an option's label),
    decline, or handled: the deed is done. `revision` says which revision of the ask was looked at; a response to an
    earlier one is marked `outdated`. `replaced` in the answer is the response that stood before, so that of two people
    at once the second learns what the first had said; both are kept. A client that names its deed (`client_id`,
    `client_seq` rising, `action_id`) may repeat it: the first result comes back and nothing is written; a deed older
    than its last about this ask raises `OutdatedRevision`.
    A blocked task goes back into the queue, reserved for the asker. Raises `Empty`, `Closed` (also when the ask's time
    is over, which ends it), `NotAQuestion`, `NotFound`; `SelfReview` when the speaker would judge their own work.
    """
    said = responses.said_of(kind=kind, text=text, choice=choice, context=context, revision=revision)
    action = responses.action_of(client_id, client_seq, action_id)
    on, before = _rows(tx, ask)
    done = responses.responded(tx, before, said, action, agent=agent, session=session)
    return _followed(tx, on, before, done, asks.speaker(agent))


def answer(
    tx: Tx,
    *,
    ask: str,
    text: str = "",
    kind: str = "answer",
    choice: str | None = None,
    context: str = "",
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """Record what the human said in chat; the recording session has thereby been handed it. The ask stays open to act.

    One conditional update, refused in four ways that change nothing: `Empty`, `NotFound`, `Closed`, and `UnreadAnswer`
    with the waiting text while a response waits that this session was not handed. (A note is `NotAQuestion`.) Of a
    chat answer and one from the inbox at once, the inbox's stands in either order. A client may name its deed, as in
    `respond`.
    """
    agent = inputs.agent(agent)
    said = responses.said_of(kind=kind, text=text, choice=choice, context=context, revision=None)
    action = responses.action_of(client_id, client_seq, action_id)
    on = _task_under(tx, ask)
    before = asks.find(tx, ask)  # what it says of a task's ask stands, for whoever changes that locks the task first
    done = responses.answered(tx, inputs.ask_id(ask), said, action, agent=agent, session=session)
    return _followed(tx, on, before, done, agent)


def withdraw_response(
    tx: Tx,
    *,
    ask: str,
    response_seq: int | None = None,
    client_id: str | None = None,
    client_seq: int | None = None,
    action_id: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Responded:
    """A human takes a response back, as long as nobody was handed it: the ask is open again, its task BLOCKED.

    A task that is held again by now waits when that hold ends; about one that was cancelled nothing is asked any more.
    A time for an answer that is over by then ends nothing any more: the ask waits without end.
    Against a pickup at the same moment exactly one of the two happens. `response_seq` names the response that is meant:
    where another stands by now, or none, it is refused as `AnswerChanged`, which says what stands. Raises
    `AlreadySeen`, `AlreadyDecided` when the board has acted on it, or an approval's task is done, `Closed`. Without
    `response_seq` it answers `already` where there is nothing to take back.
    """
    action = responses.action_of(client_id, client_seq, action_id)
    inputs.integer_or_none(response_seq, "response_seq", least=1, most=SEQ_MAX)
    on, before = _rows(tx, ask) if action.action_id else _locked(tx, ask)
    decided = on is not None and on.status == DONE and before.action_owner == "approval"
    done = responses.taken_back(
        tx, before, action, response_seq=response_seq, decided=decided, agent=agent, session=session
    )
    return _followed(tx, on, before, done, asks.speaker(agent))


def snooze(tx: Tx, *, ask: str, until: datetime, agent: str = "") -> Ask:
    """Put an open ask out of the human's sight until a moment in the future; it stays listed, and any response ends it.

    Raises `InvalidState` when it is not open, `Closed` (also when its time is over, which ends it).
    """
    until = inputs.instant(until, "until")
    if until <= tx.now():
        raise inputs.refuse("until", "until lies in the past", hint="name a moment to come, or wake it")
    return asks.snoozed(tx, _locked(tx, ask)[1], until=until, agent=agent)


def wake(tx: Tx, *, ask: str, agent: str = "") -> Ask:
    """Bring a snoozed ask back into sight; one that is awake stays as it is. Raises `InvalidState`, `Closed`."""
    return asks.snoozed(tx, _locked(tx, ask)[1], until=None, agent=agent)


# --- what agents do with it -------------------------------------------------------------------------------------------


@_of_a_live_session
def take(
    tx: Tx,
    *,
    ask: str,
    seconds: int = deliveries.TAKE_SECONDS,
    agent: str = "",
    session: str | None = None,
) -> Ask:
    """Say that you act on a response, alone for `seconds` (1 to 604,800), so that two agents do not both; collects it.

    Of two at once one gets it. Taking it again prolongs it. Until then no other agent acknowledges, revises, supersedes
    or withdraws the ask, ends its turn on a board, or claims the task that it brings. Raises `Held` naming the other
    while theirs lasts, while another holds that task or it is kept for them; when it is over, anybody may take it, as
    when the session ends. Raises `InvalidState` without a response, `Closed`.
    """
    agent, seconds = inputs.agent(agent), inputs.lease_seconds(seconds, "seconds")
    on, before = _locked(tx, ask)
    _refuse_kept(tx, on, before, agent)
    return deliveries.taken(tx, before, seconds=seconds, agent=agent, session=session)


def _refuse_kept(tx: Tx, on: Row | None, before: Row, agent: str) -> None:
    """Whoever holds a task, or whom it is kept for, acts on what was answered about it; no other ends or changes it."""
    if on is None or before.state != "answered":
        return
    holds = on.status == IN_PROGRESS
    whose, until = (on.assigned_agent, on.lease_until) if holds else (on.reserved_for, on.parked_until)
    if whose in (None, agent) or until is None or until <= tx.now():
        return
    if holds:
        raise claims.held_by(on)
    shown = leases.when(until)
    raise Held(
        f"{on.id} is kept for {whose} until {shown}, and so is what was answered about it",
        hint="leave it to them, or wait until then",
        task_id=on.id,
        holder=whose,
        until=shown,
    )


@_of_a_live_session
def acknowledge(
    tx: Tx, *, ask: str, response_seq: int, outcome: str = "", agent: str = "", session: str | None = None
) -> Acknowledged:
    """Say that you have finished with a response: the ask closes with an `outcome` (1,000 characters).

    `response_seq` names the response that was acted on; when the human spoke again since, `AnswerChanged` says so and
    nothing closes. A decision or an approval needs an outcome; a clarification is no end (`InvalidState`), revise,
    supersede or withdraw the ask. Raises `UnreadAnswer` with the text when the caller was not handed the response,
    `Held` while another acts on it, holds the task that it is about, or has that kept for them; `Closed`. Doing it
    again answers `already`.
    """
    agent = inputs.agent(agent)
    seq = inputs.integer(response_seq, "response_seq", least=1, most=SEQ_MAX)
    outcome = inputs.text(outcome, "outcome", limit=asks.OUTCOME_MAX).strip()
    on, before = _locked_to_close(tx, ask)
    _refuse_kept(tx, on, before, agent)
    row, already = deliveries.acknowledged(tx, before, response_seq=seq, outcome=outcome, agent=agent, session=session)
    _follow(tx, on, before, row, agent=agent)
    return Acknowledged(asks.lean(asks.find(tx, row.id)), already)


def withdraw(tx: Tx, *, ask: str, reason: str = "", agent: str = "", session: str | None = None) -> Ask:
    """The agent takes its ask back, with the reason; a task that waited for it goes back into the queue.

    Never over a response that the caller was not handed: `UnreadAnswer` with its text; or that another acts on, or
    whose task another holds or has kept for them: `Held`. The reason is the outcome, so an answered decision or
    approval needs one. Raises `Closed`.
    """
    agent, reason = inputs.agent(agent), inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    on, before = _locked_to_close(tx, ask)
    _refuse_kept(tx, on, before, agent)
    row = asks.withdrawn(tx, before, reason=reason, agent=agent, session=session)
    _follow(tx, on, before, row, agent=agent)
    return asks.lean(asks.find(tx, row.id))


def dismiss(tx: Tx, *, ask: str, reason: str = "", agent: str = "") -> Ask:
    """The human will not answer; a task that waited for it goes back into the queue with a note that says so.

    Raises `InvalidState` once there is a response, `Closed`.
    """
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    on, before = _locked_to_close(tx, ask)
    row = asks.dismissed(tx, before, reason=reason, agent=asks.speaker(agent))
    _follow(tx, on, before, row, agent=asks.speaker(agent))
    return asks.lean(row)


def expire_asks(tx: Tx, *, limit: int) -> list[str]:
    """Close a batch of asks whose time is over, recorded as a time-out and never as the human's no; their ids.

    It waits for nobody: what somebody has locked is left to the next.
    """
    ended = [_expire(tx, due.id) for due in tx.all("asks_due", limit=limit) if _is_free(tx, due)]
    return [str(row.id) for row in ended if row is not None]


def end_if_over(tx: Tx, on: Row | None, before: Row) -> Row | None:
    """End a locked ask that nobody answered in time, with what follows for its task; None while it goes on."""
    over = asks.expired(tx, before.id) if asks.may_be_over(before) else None
    if over is not None:
        _follow(tx, on, before, over, agent="system")
    return over


# --- the steps of those verbs -----------------------------------------------------------------------------------------


def _task_under(tx: Tx, ask: str) -> Row | None:
    """The task that an ask is about, locked; None when it is about something else. An ask never moves."""
    row = asks.find(tx, ask)
    return story.find(tx, row.surface_id, lock=True) if row.surface == "task" or _beside_a_task(row) else None


def _beside_a_task(row: Row | Ask) -> bool:
    """Whether it asks about a spent task, beside an answer that stands in the task's own place."""
    return row.surface == "alone" and str(row.surface_id).startswith("TASK-")


def _rows(tx: Tx, ask: str) -> tuple[Row | None, Row]:
    """The task that an ask hangs on and the ask, locked in this order."""
    on = _task_under(tx, ask)
    return on, asks.find(tx, ask, lock=True)


def _rows_to_close(tx: Tx, ask: str) -> tuple[Row | None, Row]:
    """The same, and before them the board's row that the ask makes blocked: its writers lock it before the ask."""
    row = asks.find(tx, ask)
    if row.surface == "row":
        tx.one("board_row_lock", row_id=row.surface_id)
    return _rows(tx, ask)


def _locked(tx: Tx, ask: str, rows: Callable[[Tx, str], tuple[Row | None, Row]] = _rows) -> tuple[Row | None, Row]:
    """What a verb acts on; an ask whose time is over ends here, and the verb is told so."""
    on, before = rows(tx, ask)
    if (over := end_if_over(tx, on, before)) is not None:
        raise _ended(over)
    return on, before


def _locked_to_close(tx: Tx, ask: str) -> tuple[Row | None, Row]:
    return _locked(tx, ask, _rows_to_close)


def _is_free(tx: Tx, due: Row) -> bool:
    """Lock an ask, and before it the task that it is about, unless somebody else has one of them locked."""
    on = due.surface_id if due.surface == "task" or _beside_a_task(due) else None
    if on is not None and tx.one("task_lock_free", task_id=on) is None:
        return False
    return tx.one("ask_lock_free", ask_id=due.id) is not None


def _expire(tx: Tx, ask: str) -> Row | None:
    on, before = _rows_to_close(tx, ask)
    return end_if_over(tx, on, before)


def _ended(over: Row) -> Closed:
    """Too late: the ask has ended, and that is written whatever is refused."""
    refused = asks.is_closed(over)
    refused.keeps_changes = True
    return refused


def _followed(tx: Tx, on: Row | None, before: Row, done: Responded | None, agent: str) -> Responded:
    """What a response did, once task or row have followed. After the ask's time it did nothing, and the ask ends."""
    if done is None:
        raise _ended(end_if_over(tx, on, before) or asks.find(tx, before.id))  # a sweep may have come between
    if done.already:
        return done
    _follow(tx, on, before, done.ask, agent=agent)
    return done if on is None else replace(done, ask=asks.lean(asks.find(tx, done.ask.id)))


def _follow(tx: Tx, on: Row | None, before: Row, row: Row | Ask, *, agent: str) -> None:
    """Let a locked task or row follow its ask: a task waits while a blocking one is open, a row while one lives.

    Only a task that waited for this ask is freed by it; one whose ask was answered is BLOCKED for another reason.
    """
    if row.surface == "row" and row.closed_at is not None:
        tx.run("board_row_unblock", row_id=row.surface_id, step_no=row.step_no, outcome=row.outcome)
    if on is None:
        return
    waited = before.state == "open" and on.status == BLOCKED and _waits_for(on, row)
    if row.closed_at is not None:
        tx.run("task_ask_over", task_id=on.id, ask_id=row.id)
        if waited:
            said = f"{row.id} was closed without an answer ({row.close_reason}): {row.outcome}"
            tasks.unanswered(tx, on, ask_id=row.id, said=said, agent=agent)
    elif row.handled_at is None:
        if on.status == CANCELLED:
            withdrawn_along(tx, asks.find(tx, row.id), f"{on.id} was cancelled", agent)
        elif row.blocking and on.status == TODO and on.ask_id == row.id:
            # One that is held by now waits when that hold ends.
            tasks.waits_again(tx, on, ask_id=row.id, said=f"{row.id} waits for a human again", agent=agent)
        elif on.status == BLOCKED and before.state == "answered":
            stands_beside(tx, row.id)
    elif waited:
        said = f"{row.id} was answered"
        tasks.answered(tx, on, ask_id=row.id, asker=row.asked_by, said=said, agent=agent)
        if isinstance(row, Ask) and _beside_a_task(row):
            responses.acted_on(tx, row)
    elif isinstance(row, Ask) and row.action_owner == "approval" and on.status == IN_REVIEW:
        _decide(tx, on, row, agent)


def _waits_for(on: Row, row: Row | Ask) -> bool:
    """Whether a BLOCKED task waits for this ask, as long as that is open."""
    if _beside_a_task(row):  # whatever its limit is by now: what puts it back into the queue sets its expiries to none
        return bool(on.expiries)
    return bool(row.blocking and on.ask_id == row.id)


def stands_beside(tx: Tx, ask_id: str) -> None:
    """A task that is BLOCKED for a reason of its own does not wait for the ask that is open there."""
    tx.run("ask_block", ask_id=ask_id, blocking=False)


def _decide(tx: Tx, on: Row, ask: Ask, agent: str) -> None:
    """The first option of an approval is the go-ahead; a decline sends the work back; all else decides nothing."""
    said = ask.response
    assert said is not None
    words = " ".join(part for part in (said.choice, said.text) if part)
    if said.kind == "decline":
        review.decided(tx, on, approved=False, said=words or f"{ask.id} was declined", agent=agent)
    elif said.kind == "answer" and ask.options and said.choice == ask.options[0]["label"] and not said.outdated:
        review.decided(tx, on, approved=True, said=said.text, agent=agent)
    else:
        return
    responses.acted_on(tx, ask)


def after_hold(tx: Tx, row: Row, said: str) -> None:
    """What follows for a task that lost or left its holder: whether it waits for a human, or must ask one."""
    if row.status == BLOCKED:
        _ask_about_spent(tx, row, said)
    elif row.ask_id is not None:
        live = asks.find(tx, row.ask_id)  # not locked: its state changes under the lock of the task alone
        if live.state == "open" and live.blocking:
            tasks.waits_again(tx, row, ask_id=live.id, said=f"{live.id} waits for a human still", agent="system")


def _ask_about_spent(tx: Tx, row: Row, said: str) -> None:
    """A task that spent its attempts asks a human by itself; a question that is open there already becomes blocking.

    Where an answer stands that agents have not finished with, it asks beside it, for an answer is not put aside; any
    response to that lets the task be tried again too. Only where even that is answered already, it asks alone.
    """
    live = tx.one("ask_at_lock", surface="task", surface_id=row.id)
    if live is not None and live.state == "open" and live.kind == "question":
        tx.run("ask_block", ask_id=live.id, blocking=True)
        return
    free = live is None or live.kind != "question"
    beside = None if free else tx.one("ask_at_lock", surface="alone", surface_id=row.id)
    if beside is not None and beside.state == "open":
        return
    then = "respond (it is tried again)" if beside is None else f"unblock {row.id}"
    content = asks.content_of(
        action_owner="task",
        title=f"{row.id} spent its attempts: {row.title}"[: inputs.TITLE_MAX],
        detail=said,
        next_step=f"look into it, then {then}, or cancel {row.id}",
        impact="nobody works on it until then",
    )
    place = asks.Place("task" if free else "alone", row.id if beside is None else "")
    opened, _ = asks.open_at(tx, place, content, project=row.project, blocking=free, agent="system", session=None)
    if free:
        tx.run("task_ask", task_id=row.id, ask_id=opened.id)


def withdrawn_along(tx: Tx, waits_for: Row, said: str, agent: str) -> None:
    """What a human was asked about a locked task, and has not answered, is asked no more."""
    asks.withdrawn(tx, waits_for, reason=said, agent=inputs.agent(agent), session=None)
    tx.run("task_ask_over", task_id=waits_for.surface_id, ask_id=waits_for.id)


def asked_no_more(tx: Tx, task_id: str, said: str, agent: str) -> None:
    """What is asked beside an answer about a locked task that was spent is asked no more: somebody else decided."""
    live = tx.one("ask_at_lock", surface="alone", surface_id=task_id)
    if live is not None and live.state == "open":
        withdrawn_along(tx, live, said, agent)


def waits(task_id: str, ask: Row, hint: str) -> AskOpen:
    return AskOpen(f"{task_id} waits for a human: {ask.id}, {ask.title!r}", hint=hint, task_id=task_id, ask_id=ask.id)
