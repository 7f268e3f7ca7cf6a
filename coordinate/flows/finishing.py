"""The end of work on a task, with what humans were asked about it: nothing ends over a word that was not handed over.

Also what moves or puts back a task, and takes what is asked about it along.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from coordinate import counters, inputs
from coordinate.db.engine import Row, Tx
from coordinate.flows import asked
from coordinate.frozen import replace
from coordinate.inbox import asks
from coordinate.records import (
    Cancelled,
    Claim,
    Done,
    Outcome,
    Task,
)
from coordinate.states import BLOCKED
from coordinate.work import claims, review, story, tasks

P = ParamSpec("P")
R = TypeVar("R")


# --- by whoever holds it ----------------------------------------------------------------------------------------------


def complete(
    tx: Tx,
    *,
    handle: str | Claim,
    review: bool = False,
    result: str | None = None,
    agent: str = "",
    session: str | None = None,
) -> Done:
    """Finish a task: DONE, or IN_REVIEW with `review=True`. Whoever waited for a DONE task may go on at that moment.

    `result` (at most 100,000 characters) is what came of it, shown with the claim of whatever depends on it; one that
    was submitted before and rejected does not stand for it. What a human answered about it is acknowledged along, with
    the result (its first 1,000 characters) as the outcome: a must for a decision or an approval. Refused, and the task
    still held: with `UnreadAnswer` when neither the caller nor the claim was handed their last word, with
    `InvalidState` while they want something clarified, with `AskOpen` while the task waits for them, with `Held` while
    another acts on the response or holds the task. Called again with the same handle after it succeeded, it answers the
    same with `already` and writes nothing. Raises `StaleClaim` when the handle's attempt ended otherwise.
    """
    done = claims.complete(tx, handle=handle, review=review, result=result, agent=agent)
    if done.already or done.task.ask_id is None:
        return done
    readers = _readers(tx, done.task, agent, session)
    answered = _finishable(tx, done.task, readers, done.task.result)
    if answered is None:
        return done
    outcome = (done.task.result or f"{done.task.id} is {done.task.status}")[: asks.OUTCOME_MAX]
    said: dict[str, Any] = {"reason": "done", "response_seq": answered.response_seq, "outcome": outcome}
    asks.closed(tx, answered, agent=inputs.agent(agent), readers=readers, **said)
    tx.run("task_ask_over", task_id=done.task.id, ask_id=answered.id)
    return replace(done, task=replace(done.task, ask_id=None))


def release(
    tx: Tx, *, handle: str | Claim, reason: str = "", after_seconds: int | None = None, agent: str = ""
) -> Done:
    """Give a task back to the queue, in its old place; with `after_seconds` (0 to one year) not before then.

    One that waits for a human is BLOCKED until they answer. It costs none of the task's attempts. Repeated with the
    same handle it answers the same with `already`. Raises `StaleClaim` or `Held`.
    """
    done = claims.release(tx, handle=handle, reason=reason, after_seconds=after_seconds, agent=agent)
    if done.already or done.task.ask_id is None:
        return done
    asked.after_hold(tx, story.find(tx, done.task.id), "")
    return replace(done, task=story.task_of(tx, story.find(tx, done.task.id)))


def block(tx: Tx, *, handle: str | Claim, reason: str, agent: str = "") -> Done:
    """Give a task back as BLOCKED, with the reason (at most 1,000 characters) as a note. `unblock` puts it back.

    It waits for that alone: what is asked about it stands beside it, and an answer does not put it back. Repeated with
    the same handle it answers the same with `already`. Raises `StaleClaim` or `Held`.
    """
    done = claims.block(tx, handle=handle, reason=reason, agent=agent)
    if not done.already and done.task.ask_id is not None:
        asked.stands_beside(tx, done.task.ask_id)
    return done


def complete_batch(
    tx: Tx, *, handles: list[str], review: bool = False, agent: str = "", session: str | None = None
) -> list[Outcome]:
    """Finish several tasks in one transaction; each answers for itself, and a refused one does not stop the others.

    At most 100 handles. They are worked in one order, so two batches never wait for each other in a circle. A task is
    refused as `complete` refuses it without a result.
    """
    agent, review = inputs.agent(agent), inputs.flag(review, "review")

    def finish(shown: str) -> Done:
        # What is refused here is not undone with the transaction, so it is looked at first, under the task's lock.
        task_id, attempt = inputs.handle(shown)
        row = tx.one("task_lock", task_id=task_id)
        current = row is not None and row.assigned_agent == agent and attempt in (None, row.attempt)
        if row is not None and current and row.ask_id is not None:
            _finishable(tx, row, _readers(tx, row, agent, session), None)
        return complete(tx, handle=shown, review=review, agent=agent, session=session)

    return claims.each_of(handles, lock=functools.partial(_lock_all, tx), finish=finish)


def _lock_all(tx: Tx, ids: list[str]) -> None:
    """Lock tasks that will be finished, whoever waits for them, and what was asked about them, before one changes.

    Each kind in the order of its numbers: were they taken as each task is finished, two batches that free the same
    tasks could wait for each other in a circle.
    """
    finished = set(ids)
    rows = tx.where_needed("tasks_lock_along", ids=ids)
    if asked_about := [row.ask_id for row in rows if row.ask_id is not None and row.id in finished]:
        tx.all("asks_lock", ids=asked_about, after=0)


def _readers(tx: Tx, task: Row | Task, agent: str, session: str | None) -> list[str]:
    """Who finishes a task: the caller, and the reader that the latest claim was made by, whose handle it shows."""
    claim = tx.the("attempt", task_id=task.id, attempt=task.attempt)
    return [asks.reader(inputs.agent(agent), session), asks.reader(claim.agent, claim.session_id)]


def _finishable(tx: Tx, task: Row | Task, readers: list[str], result: str | None) -> Row | None:
    """The ask that whoever finishes a locked task, with this result, has finished with, locked; None where a human
    answered none.

    What a human says from now on is kept. Raises what `complete` promises.
    """
    assert task.ask_id is not None
    before = asks.find(tx, task.ask_id, lock=True)
    if before.state == "open" and before.blocking:
        hint = f"release the task until they answer, or take the ask back: coordinate inbox withdraw {before.id}"
        raise asked.waits(task.id, before, hint)
    if before.state != "answered":
        return None
    if (refused := asks.why_not_finished(tx, before.id, readers)) is not None:
        raise refused
    asks.refuse_clarify(asks.find(tx, before.id))
    if before.action_owner in ("decision", "approval") and not (result or "").strip():
        raise inputs.refuse(
            "result",
            f"{before.id} is {inputs.one(before.action_owner)}: say what came of it in the result of {task.id}",
            hint=f"give a result, or acknowledge {before.id} first, with an outcome",
        )
    return before


def approve(
    tx: Tx,
    *,
    task: str,
    note: str = "",
    override: str | None = None,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Pass the review of a task: IN_REVIEW becomes DONE, and whoever waited for it may go on at that moment.

    An approval that a human was asked for and has not given yet is withdrawn. Raises `SelfReview` when the reviewer
    held the task in this round of work, unless `override` (a human's reason, recorded in the history) is given; `Held`
    while another reviewer has reserved it; `OutdatedRevision` with `expected_revision` when the task changed since, so
    that nobody passes what they did not see; `InvalidState`.
    """
    passed = review.approve(
        tx, task=task, note=note, override=override, expected_revision=expected_revision, agent=agent
    )
    return _judged(tx, passed, agent)


def approve_all(
    tx: Tx,
    *,
    project: str | None = None,
    override: str | None = None,
    limit: int = review.APPROVE_ALL_MAX,
    agent: str = "",
) -> list[Outcome]:
    """Approve what waits for review, by priority; each answers for itself, a refused one stops none.

    At most 1,000: what this reviewer may judge goes before what is refused, so that calling it again comes to all.
    """
    agent = inputs.agent(agent)

    def one(task: str) -> Task:
        return approve(tx, task=task, override=override, agent=agent)

    lock = functools.partial(_lock_all, tx)
    return review.approve_each(tx, project=project, override=override, limit=limit, agent=agent, lock=lock, one=one)


def reject(
    tx: Tx,
    *,
    task: str,
    reason: str,
    override: str | None = None,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Send a task back: IN_REVIEW becomes TODO in its old place in the queue, with the reason as a REJECTED note.

    A new round of work begins: those who held it before may review the next. Raises as `approve`.
    """
    sent_back = review.reject(
        tx, task=task, reason=reason, override=override, expected_revision=expected_revision, agent=agent
    )
    return _judged(tx, sent_back, agent)


def _judged(tx: Tx, task: Task, agent: str) -> Task:
    """The review is over: what a human was asked about it and has not answered is asked no more."""
    if task.ask_id is None:
        return task
    waits_for = asks.find(tx, task.ask_id, lock=True)
    if waits_for.state != "open" or waits_for.action_owner != "approval":
        return task
    asked.withdrawn_along(tx, waits_for, f"{task.id} was reviewed otherwise", agent)
    return replace(task, ask_id=None)


def cancel(tx: Tx, *, task: str, reason: str = "", expected_revision: int | None = None, agent: str = "") -> Cancelled:
    """End a task that nobody shall do any more. Who held it holds it no longer; `reopen` brings it back.

    The answer lists the live tasks that depend on it (`stranded`, at most 100; `more_stranded` counts the others): they
    never become ready unless the dependency is removed, or this task reopened and done. Against a completion at the
    same moment exactly one of the two happens. What it asked a human and was not answered yet is withdrawn. With
    `expected_revision` it is refused as `OutdatedRevision` when the task changed since.
    """
    done = tasks.cancel(tx, task=task, reason=reason, expected_revision=expected_revision, agent=agent)
    asked.asked_no_more(tx, done.task.id, f"{done.task.id} was cancelled", agent)
    if done.task.ask_id is None:
        return done
    waits_for = asks.find(tx, done.task.ask_id, lock=True)
    if waits_for.state != "open":
        return done
    asked.withdrawn_along(tx, waits_for, f"{done.task.id} was cancelled", agent)
    return replace(done, task=replace(done.task, ask_id=None))


# --- by others --------------------------------------------------------------------------------------------------------


def unblock(
    tx: Tx,
    *,
    task: str,
    note: str = "",
    withdraw_ask: bool = False,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Put a BLOCKED task back into the queue with fresh attempts; `note` (at most 10,000 characters) says what changed.

    While it waits for a human this is refused with `AskOpen`, naming the ask; `withdraw_ask` withdraws that too. With
    `expected_revision` it is refused as `OutdatedRevision` when the task changed since: another reason may stand there.
    Raises `InvalidState` unless it is BLOCKED.
    """
    withdraws, said = inputs.flag(withdraw_ask, "withdraw_ask"), inputs.text(note, "note", limit=inputs.NOTE_MAX)
    row = story.find(tx, inputs.task_id(task), lock=True)
    story.refuse_outdated(row, expected_revision)
    if row.status == BLOCKED and row.ask_id is not None:
        waits_for = asks.find(tx, row.ask_id, lock=True)
        if waits_for.state == "open" and waits_for.blocking:
            if asked.end_if_over(tx, row, waits_for) is not None:  # which puts it back into the queue by itself
                if said:
                    story.note(tx, row.id, inputs.agent(agent), "COMMENT", said)
                return story.task_of(tx, story.find(tx, row.id))
            if not withdraws:
                raise asked.waits(row.id, waits_for, "answer that, or withdraw it along: --withdraw-ask")
            asked.withdrawn_along(tx, waits_for, f"{row.id} was unblocked", agent)
    unblocked = tasks.unblock(tx, task=task, note=note, expected_revision=expected_revision, agent=agent)
    asked.asked_no_more(tx, row.id, f"{row.id} was unblocked", agent)
    return unblocked


# --- moves to another project -----------------------------------------------------------------------------------------


def _along_with_asks(move: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Tx, P], R]:
    @functools.wraps(move)
    def moving(tx: Tx, *args: P.args, **kwargs: P.kwargs) -> R:
        done = move(tx, *args, **kwargs)
        if kwargs.get("project") is not None:
            ids = inputs.task_ids(kwargs.get("tasks") or [kwargs["task"]], "tasks")
            _move_asks(tx, ids, inputs.name(kwargs["project"], "project"), str(kwargs.get("agent") or "system"))
        return done

    return cast("Callable[Concatenate[Tx, P], R]", moving)


edit = _along_with_asks(tasks.edit)
set_project = _along_with_asks(tasks.set_project)


def _move_asks(tx: Tx, task_ids: list[str], project: str, agent: str) -> None:
    """What humans are asked about locked tasks, and what they said beside it, goes to the tasks' project."""
    found = [live for place in ("task", "alone") for live in tx.all("asks_at", surface=place, surface_ids=task_ids)]
    if found:
        tx.all("asks_lock", ids=[live.id for live in found], after=0)
        counters.take(tx, "ask", 0)  # whoever asks or moves at the same moment waits, so that each sees which keys live
    for live in found:
        if (row := tx.one("ask_move", ask_id=live.id, project=project)) is not None:
            tx.run("annotations_move", ask_id=row.id, project=project)
            asks.record(tx, row, "ask.moved", agent=agent, was=live.project)
