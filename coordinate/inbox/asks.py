"""Asks: what an agent needs from a human. One live ask in a place: on a task, on a board's row, or alone.

An ask is open (the human's turn), answered (the agents' turn) or closed (nobody's). It closes only over a response that
somebody was handed. Each change of state writes its event in the same transaction. What boards need of asks stands here
as functions on a row; a row is blocked exactly while it has a live ask, and the caller changes both together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from coordinate import counters, events, inputs, leases
from coordinate.db.engine import Row, Tx
from coordinate.errors import (
    AlreadyAsked,
    AnswerChanged,
    Busy,
    Closed,
    CoordinateError,
    Held,
    InvalidState,
    NotFound,
    OutdatedRevision,
    UnreadAnswer,
)
from coordinate.frozen import dataclass, replace
from coordinate.inputs import Json
from coordinate.records import Annotation, Ask, AskView, Delivery, Response
from coordinate.states import ACTION_OWNERS, ASK_KINDS, ASK_STATES, CLOSE_REASONS

OUTCOME_MAX = 1_000
OPTIONS_MAX = 4
LABEL_MAX = 200
STEPS_MAX = 20
UNSEEN_MAX = 100
STORY_MAX = 100
# How often an ask meets another in its place, or under its key, that is gone when it looks.
OPEN_TRIES = 10
_RESPONSE = "response_"
# Lists of few among all that was ever asked; a state of more is a filter of the whole.
_OF_STATE = {"open": "asks_open", "answered": "asks_unhandled"}


@dataclass(frozen=True)
class Content:
    """What is asked, in checked values; made by `content_of`."""

    kind: str
    action_owner: str | None
    title: str
    detail: str
    next_step: str
    impact: str
    next_after: str
    options: list[Json] | None
    context: str

    @property
    def words(self) -> dict[str, Any]:
        """What a revision may change."""
        return {name: getattr(self, name) for name in WORDS}

    def says(self, row: Row) -> bool:
        """Whether an ask says the same."""
        return all(getattr(row, name) == getattr(self, name) for name in ("kind", "action_owner", *WORDS))

    @property
    def folded(self) -> str:
        said = [str(value) for option in self.options or [] for value in option.values()]
        texts = [self.title, self.detail, self.next_step, self.impact, self.next_after, *said, self.context]
        return inputs.fold("\n".join(text for text in texts if text))


WORDS = ("title", "detail", "next_step", "impact", "next_after", "options", "context")


def content_of(
    *,
    kind: str = "question",
    action_owner: str | None = None,
    title: str,
    detail: str = "",
    next_step: str = "",
    impact: str = "",
    next_after: str = "",
    options: Sequence[Json | str] | None = None,
    context: str = "",
) -> Content:
    """Check what is asked. A question names its `action_owner` and `impact`; a decision or an approval has 2 to 4
    options, at most one of them recommended; a task has none. Raises `InvalidInput`."""
    kind = inputs.one_of(kind, "kind", ASK_KINDS)
    if kind == "question":
        action_owner = inputs.one_of(action_owner, "action_owner", ACTION_OWNERS)
    elif action_owner is not None:
        raise inputs.refuse("action_owner", f"a {kind} asks nothing, so it has no action_owner")
    content = Content(
        kind,
        action_owner,
        inputs.title(title),
        inputs.text(detail, "detail", limit=inputs.NOTE_MAX),
        inputs.text(next_step, "next_step", limit=inputs.REASON_MAX),
        inputs.text(impact, "impact", limit=inputs.REASON_MAX),
        inputs.text(next_after, "next_after", limit=inputs.REASON_MAX),
        options_of(options),
        inputs.text(context, "context"),
    )
    if kind == "question" and not inputs.visible(content.impact):
        raise inputs.missing("impact", "a question says its impact: what waits for it, why now")
    most = OPTIONS_MAX if action_owner in ("decision", "approval") else 0
    least = 2 if most else 0
    if not least <= len(content.options or []) <= most:
        wanted = f"{least} to {most} options" if most else "no options"
        said = f"{inputs.one(action_owner or kind)} has {wanted}, not {len(content.options or [])}"
        hint = "name each of them as an option (--option)" if most else "leave the options away"
        raise inputs.refuse("options", said, hint=f"{hint}; nothing was changed")
    return content


def options_of(options: Sequence[Json | str] | None) -> list[Json] | None:
    checked: list[Json] = []
    for option in inputs.listed(options, "options") if options is not None else []:
        given = {"label": option} if isinstance(option, str) else option
        if not isinstance(given, dict) or not {"label"} <= given.keys() <= {"label", "detail", "recommended"}:
            raise inputs.refuse(
                "options", "an option is a label, or an object of label, detail and recommended", hint="see the docs"
            )
        one: Json = {"label": inputs.label(given["label"], "options", limit=LABEL_MAX)}
        if detail := inputs.text(given.get("detail", ""), "options", limit=inputs.REASON_MAX):
            one["detail"] = detail
        if inputs.flag(given.get("recommended", False), "options"):
            one["recommended"] = True
        checked.append(one)
    if len({str(one["label"]) for one in checked}) < len(checked):
        raise inputs.refuse("options", "two options have the same label")
    if sum("recommended" in one for one in checked) > 1:
        raise inputs.refuse("options", "at most one option is recommended")
    return checked or None


# --- open -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where an ask hangs: on a task, on a row, or (both empty) alone."""

    surface: str = "alone"
    id: str = ""


def open_at(
    tx: Tx,
    place: Place,
    content: Content,
    *,
    project: str,
    stream: str = "",
    step_no: int | None = None,
    dedup_key: str | None = None,
    blocking: bool = False,
    timeout_seconds: int | None = None,
    agent: str,
    session: str | None,
) -> tuple[Row, bool]:
    """Open an ask; the second answer is True when its key is live already and this is that ask.

    Of several at once exactly one opens, for the database keeps one live ask in a place and for a key. Raises
    `AlreadyAsked` naming the one that lives in the place; a note or what is done gives way to a question.
    """
    if found := twin(tx, project, dedup_key):
        return found, True
    if place.id and (found := tx.one("ask_at_lock", surface=place.surface, surface_id=place.id)):
        _give_way(tx, found, content, agent=agent, session=session)
    number, _ = counters.take(tx, "ask")
    ask_id = f"ASK-{number}"
    for _ in range(OPEN_TRIES):
        row = tx.one(
            "ask_insert",
            id=ask_id,
            number=number,
            project=project,
            stream=stream,
            surface=place.surface,
            surface_id=place.id or ask_id,
            step_no=step_no,
            dedup_key=dedup_key,
            blocking=blocking,
            timeout_seconds=timeout_seconds,
            asked_by=agent,
            session=session,
            folded=content.folded,
            kind=content.kind,
            action_owner=content.action_owner,
            **content.words,
        )
        if row is not None:
            record(tx, row, "ask.opened", agent=agent, action_owner=row.action_owner, kind=row.kind)
            return row, False
        # Another came between our look and our insert; it may be closed again before we look which one that was.
        if found := twin(tx, project, dedup_key):
            return found, True
        if found := tx.one("ask_at", surface=place.surface, surface_id=place.id):
            raise already_asked(found)
    raise Busy("others open and close asks in this very place", hint="try again")


def _give_way(tx: Tx, found: Row, content: Content, *, agent: str, session: str | None) -> None:
    """What needs no answer leaves its place to a question; all else keeps it."""
    if found.kind == "question" or content.kind != "question":
        raise already_asked(found)
    readers = [reader(agent, session)]
    closed(tx, found, reason="superseded", response_seq=None, outcome="superseded", agent=agent, readers=readers)


def twin(tx: Tx, project: str, dedup_key: str | None) -> Row | None:
    """The live ask that a retry under this key means."""
    return None if dedup_key is None else tx.one("ask_twin", project=project, dedup_key=dedup_key)


def already_asked(row: Row) -> AlreadyAsked:
    """The place is taken."""
    where = f"{row.surface_id} has a live ask already"
    return _another(row, where, f"revise it, or put yours in its place: --supersedes {row.id}")


def key_is_taken(row: Row) -> AlreadyAsked:
    """What lives under the key says something else, or stands elsewhere."""
    hint = f"a retry says the same in the same place: take another dedup_key, or go on with {row.id}"
    return _another(row, "that dedup_key is of another ask that lives", hint)


def _another(row: Row, what: str, hint: str) -> AlreadyAsked:
    return AlreadyAsked(
        f"{what}: {row.id}, {row.title!r} of {row.asked_by}",
        hint=hint,
        ask_id=row.id,
        asked_by=row.asked_by,
        state=row.state,
    )


# --- change -----------------------------------------------------------------------------------------------------------


def revised(
    tx: Tx,
    before: Row,
    *,
    expected_revision: int | None = None,
    timeout_seconds: int | None = None,
    agent: str,
    session: str | None,
    **words: Any,
) -> tuple[Row, bool]:
    """Other words for a locked ask, those that are None staying; the second answer is False when nothing differs.

    An earlier response stays and counts as outdated. A clarification that was handed over is answered by the new
    words, so that the ask is open again, without end unless it is given new time. Raises `OutdatedRevision`, `Closed`,
    `Held` while another acts on the response.
    """
    _refuse_closed(before)
    if expected_revision is not None and before.revision != expected_revision:
        raise OutdatedRevision(
            f"{before.id} stands at revision {before.revision}, not {expected_revision}",
            hint=f"look again: coordinate inbox show {before.id}",
            ask_id=before.id,
            revision=before.revision,
        )
    now = {name: getattr(before, name) for name in WORDS}
    wanted = now | {name: value for name, value in words.items() if value is not None}
    content = content_of(kind=before.kind, action_owner=before.action_owner, **wanted)
    reworded = content.words != now
    if not reworded and timeout_seconds is None:
        return before, False
    row = tx.one(
        "ask_revise",
        ask_id=before.id,
        folded=content.folded,
        reworded=int(reworded),
        timeout_seconds=timeout_seconds,
        readers=[reader(agent, session)],
        **content.words,
    )
    if row is None:
        raise held(before)
    if reworded and row.handled_at is not None and row.delivered_seq == row.response_seq:
        said = tx.one("ask", ask_id=row.id)
        if said is not None and said.response_kind == "clarify":
            row = tx.the("ask_again", ask_id=row.id, timeout_seconds=timeout_seconds)
    record(tx, row, "ask.revised", agent=agent, revision=row.revision)
    return row, True


def snoozed(tx: Tx, before: Row, *, until: datetime | None, agent: str) -> Ask:
    """A locked ask sleeps until then, or is awake. Raises `InvalidState` when it is not open, `Closed`."""
    by = speaker(agent)
    row = tx.one("ask_snooze", ask_id=before.id, until=until)
    if row is None:
        raise _not_open(before)
    if before.snoozed_until != until:
        past, shown = ("woken", None) if until is None else ("snoozed", leases.when(until))
        record(tx, row, f"ask.{past}", agent=by, until=shown)
        tx.announce("asked")
    return lean(row)


# --- close ------------------------------------------------------------------------------------------------------------


def withdrawn(tx: Tx, before: Row, *, reason: str, agent: str, session: str | None) -> Row:
    """The agent takes a locked ask back, answered or not; never over a response that the caller was not handed."""
    readers = [reader(agent, session)]
    return closed(tx, before, reason="withdrawn", response_seq=None, outcome=reason, agent=agent, readers=readers)


def closed(
    tx: Tx,
    before: Row,
    *,
    reason: str,
    response_seq: int | None,
    outcome: str,
    agent: str,
    readers: Sequence[str],
) -> Row:
    """Close a locked ask, for one of these readers: never over a response that none of them was handed, or that another
    acts on, and never over a decision or an approval without an outcome. Raises `Closed`, `UnreadAnswer`,
    `AnswerChanged` (the response named is not the current one), `Held`, `InvalidInput`."""
    _refuse_closed(before)
    if before.handled_at is not None and not inputs.visible(outcome):
        said = find(tx, before.id)
        if said.response_kind != "clarify" and why_not_finished(tx, said.id, readers, response_seq) is None:
            require_outcome(said, outcome, "reason" if reason == "withdrawn" else "outcome")
    row = tx.one(
        "ask_close",
        ask_id=before.id,
        reason=reason,
        outcome=outcome or reason,
        response_seq=response_seq,
        agent=agent,
        readers=readers,
    )
    if row is None:  # where nothing is in the way by now, it was a take whose time is just over
        raise why_not_finished(tx, before.id, readers, response_seq) or held(before)
    record_closed(tx, row, agent)
    return row


def dismissed(tx: Tx, before: Row, *, reason: str, agent: str) -> Row:
    """The human will not answer a locked ask. Raises `Closed`, or `InvalidState` once there is a response."""
    _refuse_closed(before)
    row = tx.one("ask_dismiss", ask_id=before.id, reason="dismissed", outcome=reason or "dismissed", agent=agent)
    if row is None:
        raise _not_open(before)
    record_closed(tx, row, agent)
    return row


def expired(tx: Tx, ask_id: str) -> Row | None:
    """The time of an ask is over without an answer; None when it is not, or somebody answered."""
    outcome = "nobody answered in time"
    row = tx.one("ask_expire", ask_id=ask_id, reason="expired", outcome=outcome, agent="system")
    if row is not None:
        record_closed(tx, row, "system")
    return row


def may_be_over(row: Row) -> bool:
    """Whether an ask ends by its time: only the database can tell whether that has come."""
    return row.state == "open" and row.expires_at is not None


def record_closed(tx: Tx, row: Row, agent: str) -> None:
    record(tx, row, "ask.closed", agent=agent, reason=row.close_reason, outcome=row.outcome)
    tx.announce("answered")


# --- look -------------------------------------------------------------------------------------------------------------


def show_ask(tx: Tx, *, ask: str) -> AskView:
    """All about one ask: the latest 100 responses, deliveries and annotations, and the 20 asks of its place before it.

    A look is no delivery: whoever acts on a response collects it with `pending` or `wait_ask`.
    """
    row = find(tx, ask)
    said = tx.all("responses_of", ask_id=row.id, after=row.response_seq - STORY_MAX, limit=STORY_MAX)
    place = {"surface": row.surface, "surface_id": row.surface_id}
    steps = tx.all("ask_steps", before=row.step_no, limit=STEPS_MAX, **place)
    beside = tx.all("annotations_of", ask_id=row.id, limit=STORY_MAX)
    return AskView(
        ask_of(row),
        tuple(response_of(each, row.revision) for each in said),
        tuple(Delivery(**each._asdict()) for each in tx.all("deliveries_of", ask_id=row.id, limit=STORY_MAX)),
        tuple(Annotation(**each._asdict()) for each in reversed(beside)),
        tuple(ask_of(each) for each in steps),
    )


def look(tx: Tx, *, ask: str) -> tuple[Ask, bool]:
    """An ask as it stands, and whether its time is over without an answer."""
    row, now = find(tx, ask), tx.now()
    return ask_of(row), may_be_over(row) and row.expires_at <= now


def unanswered(tx: Tx, task_id: str) -> Ask | None:
    """What was asked last about a task, if the task waited for it and it ended without a response."""
    for row in tx.all("ask_steps", surface="task", surface_id=task_id, before=None, limit=1):
        if row.blocking and row.closed_at is not None and row.handled_at is None and row.close_reason != "superseded":
            return ask_of(row)
    return None


def list_asks(
    tx: Tx,
    *,
    attention: bool = False,
    told: bool = False,
    unhandled: bool = False,
    snoozed: bool = False,
    state: str | None = None,
    kind: str | None = None,
    project: str | None = None,
    asked_by: str | None = None,
    query: str | None = None,
    after: int = 0,
    before: int | None = None,
    limit: int = 100,
) -> list[Ask]:
    """Asks by number, a page of them; `after` (a number) pages on. With `before` (a number) the latest first.

    `attention`: what needs the human now, without what is snoozed and closed projects. `told`: what agents tell, notes
    and milestones, that nobody has dismissed, without the same. `unhandled`: what humans have finished with and agents
    have not. `snoozed`: what sleeps. `query`: whose words, or whose responses' words, hold a text; it is literal and
    case-folded. Only one of these five at a time, without `state`, and `before` with `told` alone, else `InvalidInput`.
    `state` is open, answered or closed, `kind` question, note or done. The agents' own `context` is left out:
    `show_ask` has it.
    """
    named = {
        "attention": inputs.flag(attention, "attention"),
        "told": inputs.flag(told, "told"),
        "unhandled": inputs.flag(unhandled, "unhandled"),
        "snoozed": inputs.flag(snoozed, "snoozed"),
        "query": query is not None,
    }
    given = [name for name, asked in named.items() if asked]
    if len(given) > 1:
        said = f"{given[0]} and {given[1]} exclude each other"
        raise inputs.refuse(given[0], said, hint="ask for one list at a time")
    params: dict[str, Any] = {
        "project": inputs.name_or_none(project, "project"),
        "kind": None if kind is None else inputs.one_of(kind, "kind", ASK_KINDS),
        "asked_by": None if asked_by is None else inputs.agent(asked_by, "asked_by"),
        "after": inputs.integer(after, "after"),
        "limit": inputs.limit(limit),
    }
    state = None if state is None else inputs.one_of(state, "state", ASK_STATES)
    before = inputs.integer_or_none(before, "before")
    if given and (state is not None or (before is not None and not named["told"])):
        other = "before" if state is None else "state"
        said = f"{other} goes with no list of its own, which {given[0]} is"
        raise inputs.refuse(other, said, hint="leave one of the two away")
    if query is not None:
        params["needle"] = inputs.fold(inputs.text(query, "query", limit=inputs.QUERY_MAX, blank=False))
        return [lean(row) for row in tx.all("asks_search", **params)]
    statement = f"asks_{given[0]}" if given else _OF_STATE.get(str(state), "asks_list")
    if statement == "asks_list":
        params["state"] = state
    if before is not None:
        statement = f"{statement.removesuffix('_list')}_newest"
        params["before"] = before
    return [lean(row) for row in tx.all(statement, **params)]


def unread_answers(tx: Tx, *, agent: str = "") -> tuple[str, ...]:
    """The caller's asks that humans have answered and nobody was handed yet, at most 100; read with `pending`."""
    return tuple(row.id for row in tx.all("asks_unseen", asked_by=inputs.agent(agent), limit=UNSEEN_MAX))


def urgent_asks(tx: Tx, *, project: str | None = None, limit: int = 100) -> list[Ask]:
    """What needs the human now, the most urgent first.

    First what a task stands still for, then what ends soonest without an answer, then the oldest. It has no cursor:
    what is answered leaves the list. `attention_count` tells how many there are.
    """
    given = {"project": inputs.name_or_none(project, "project"), "limit": inputs.limit(limit)}
    return [ask_of(row) for row in tx.all("asks_urgent", **given)]


def attention_count(tx: Tx, *, project: str | None = None) -> int:
    """How many asks need the human now."""
    return int(tx.the("attention_count", project=inputs.name_or_none(project, "project")).count)


def told_count(tx: Tx, *, project: str | None) -> int:
    """How many notes and milestones nobody has dismissed."""
    return int(tx.the("told_count", project=inputs.name_or_none(project, "project")).count)


def unhandled_count(tx: Tx, *, project: str | None) -> int:
    """How many asks humans have finished with, and agents have not."""
    return int(tx.the("unhandled_count", project=inputs.name_or_none(project, "project")).count)


def close_project(tx: Tx, *, name: str, agent: str = "") -> int:
    """Take a project out of the human's sight, until something newer comes: it is asked, put in other words or moved
    there, becomes the human's turn again, or a board begins.

    Returns how many asks that need the human are hidden by it; they stay open, and tasks that wait for them wait on.
    """
    name = inputs.name(name, "name")
    counters.take(tx, "ask", 0)  # whoever is asking now has asked before, or asks later: it is counted, or in sight
    hidden = attention_count(tx, project=name)
    _set_project(tx, "close", name, agent)
    return hidden


def reopen_project(tx: Tx, *, name: str, agent: str = "") -> int:
    """Bring a closed project back into sight. Returns how many asks in it need the human."""
    _set_project(tx, "reopen", name, agent)
    return attention_count(tx, project=name)


def _set_project(tx: Tx, verb: str, name: str, agent: str) -> None:
    name = inputs.name(name, "name")
    tx.run("project_insert", name=name)
    tx.run(f"project_{verb}", name=name)
    by = speaker(agent)
    past = "closed" if verb == "close" else "reopened"
    events.append(tx, f"project.{past}", {"agent": by, "project": name}, project=name, agent=by, ref=name)


# --- what boards need -------------------------------------------------------------------------------------------------


def ask_of_row(tx: Tx, row_id: str) -> Row | None:
    """The live ask of a board's row, locked for the rest of the transaction; None when it is not blocked."""
    return tx.one("ask_at_lock", surface="row", surface_id=row_id)


def asks_of_rows(tx: Tx, row_ids: list[str]) -> dict[str, Row]:
    """The live asks of several rows by row id, unlocked, each with its current response (`response_kind`,
    `response_text`, … are NULL without one)."""
    return {row.surface_id: row for row in tx.all("asks_at", surface="row", surface_ids=row_ids)}


def steps_of_row(tx: Tx, row_id: str, *, limit: int = STEPS_MAX) -> list[Row]:
    """The asks that a row has had, the latest step first, each with the response that was current."""
    return tx.all("ask_steps", surface="row", surface_id=row_id, before=None, limit=limit)


def open_for_row(
    tx: Tx, *, row_id: str, step_no: int, project: str, stream: str, content: Content, agent: str, session: str | None
) -> Row:
    """Open the ask that makes a row blocked. Raises `AlreadyAsked` (naming the ask) while another lives there."""
    place = Place("row", row_id)
    row, _ = open_at(tx, place, content, project=project, stream=stream, step_no=step_no, agent=agent, session=session)
    return row


def revise_for_row(tx: Tx, ask: Row, content: Content, *, agent: str, session: str | None) -> Row:
    """Re-sent with other words: revision + 1, an earlier response stays and counts as outdated; equal words change
    nothing. The response, its deliveries and the snooze stay as they are, but for a clarification that was handed over:
    the new words answer it."""
    return revised(tx, ask, agent=agent, session=session, **content.words)[0]


def close_for_row(
    tx: Tx, ask: Row, *, reason: str, response_seq: int | None, outcome: str, agent: str, session: str | None
) -> Row:
    """Close the live ask of a row: `reason` is done (leaving blocked), superseded (the next step) or withdrawn.

    Nothing closes over a response that the caller was not handed (`UnreadAnswer` with the waiting text), other than the
    one that `response_seq` names (`AnswerChanged`), or that another acts on (`Held`); with a response it must name one
    (`InvalidInput`), and an answered decision or approval needs an `outcome`. An ask without a response closes as
    withdrawn when `done` was meant. Closing as done is refused for a `clarify`, which is advanced or withdrawn.
    """
    assert reason in CLOSE_REASONS
    readers = [reader(agent, session)]
    if reason == "done" and ask.handled_at is None:
        reason = "withdrawn"
    if reason == "done":
        refuse_clarify(find(tx, ask.id))
    if ask.handled_at is not None and response_seq is None:
        raise why_not_finished(tx, ask.id, readers) or _unnamed(find(tx, ask.id))
    return closed(tx, ask, reason=reason, response_seq=response_seq, outcome=outcome, agent=agent, readers=readers)


# --- steps shared with responses and deliveries -----------------------------------------------------------------------


def find(tx: Tx, ask: str, *, lock: bool = False) -> Row:
    """The ask (with its current response unless it is locked); raises `NotFound`."""
    ask_id = inputs.ask_id(ask)
    row = tx.one("ask_lock" if lock else "ask", ask_id=ask_id)
    if row is None:
        raise NotFound(f"there is no {ask_id}", hint="coordinate inbox list shows what there is", ask_id=ask_id)
    return row


def reader(agent: str, session: str | None) -> str:
    """Who is handed something: a session, or an agent that shows none."""
    return session or agent


def speaker(agent: str) -> str:
    """A person at the command line need not name themselves."""
    return inputs.agent(agent) if agent else "human"


def record(tx: Tx, row: Row, event_type: str, *, agent: str, **payload: object) -> None:
    """Write the event of a change; empty values are left out, and what humans say is not in it."""
    said = {"ask_id": row.id, "title": row.title, "surface_id": row.surface_id, **payload}
    log(tx, event_type, said, project=row.project, agent=agent, ref=row.id)
    if event_type in ("ask.opened", "ask.revised", "ask.moved"):
        tx.announce("asked")


def log(tx: Tx, event_type: str, payload: Mapping[str, object], *, project: str, agent: str, ref: str | None) -> None:
    said = {"project": project, "agent": agent, **payload}
    texts = {key: str(value) for key, value in said.items() if value not in (None, "")}
    events.append(tx, event_type, texts, project=project, agent=agent, ref=ref)


def _refuse_closed(row: Row) -> None:
    if row.closed_at is not None:
        raise is_closed(row)


def is_closed(row: Row) -> Closed:
    """The ask is nobody's any more."""
    return Closed(
        f"{row.id} was closed as {row.close_reason} by {row.closed_by}: {row.outcome}",
        hint="ask anew if it still matters",
        ask_id=row.id,
        close_reason=row.close_reason,
        closed_by=row.closed_by,
    )


def _not_open(row: Row) -> CoordinateError:
    if row.closed_at is not None:
        return is_closed(row)
    handed = row.delivered_seq == row.response_seq
    hint = "say something else instead: {}" if handed else "take the response back: {} --withdraw"
    return InvalidState(
        f"{row.id} is answered: the next move is the agents'",
        hint=hint.format(f"coordinate inbox respond {row.id}"),
        ask_id=row.id,
        state=row.state,
    )


def unread(tx: Tx, ask_id: str, response_seq: int | None) -> CoordinateError:
    """A response waits that the caller was not handed, or another than the one it names; with the waiting text."""
    row = find(tx, ask_id)
    facts: dict[str, Any] = {
        "ask_id": row.id,
        "response_seq": row.response_seq,
        "kind": row.response_kind,
        "text": row.response_text,
        "choice": row.response_choice,
        "context": row.response_context,
    }
    hint = "collect it: coordinate inbox pending"
    if response_seq is not None and response_seq != row.response_seq:
        return AnswerChanged(
            f"the human spoke again: {row.id} has response {row.response_seq}, not {response_seq}", hint=hint, **facts
        )
    return UnreadAnswer(
        f"{row.response_by} answered {row.id}, and the answer waits to be read: {_words(row)}",
        hint=hint,
        **facts,
    )


def _unnamed(row: Row) -> CoordinateError:
    """Whoever ends the human's turn says which of their responses that is for."""
    return inputs.refuse(
        "response_seq",
        f"{row.response_by} answered {row.id} (response {row.response_seq}): {_words(row)}; say that this is the one"
        " that you acted on",
        hint=f"name it: response_seq={row.response_seq}, on the command line --response {row.response_seq}",
        ask_id=row.id,
        response_seq=row.response_seq,
    )


def _words(row: Row) -> str:
    """What a response says, in one line."""
    return ", ".join(repr(part) for part in (row.response_choice, row.response_text) if part) or str(row.response_kind)


def why_not_finished(
    tx: Tx, ask_id: str, readers: Sequence[str], response_seq: int | None = None
) -> CoordinateError | None:
    """Why none of these readers may finish with the current response; None when one may, or there is none."""
    row = tx.the("ask_for", ask_id=ask_id, readers=readers)
    if row.handled_at is None:
        return None
    if not row.handed or response_seq not in (None, row.response_seq):
        return unread(tx, row.id, response_seq)
    return None if row.free else held(row)


def held(row: Row) -> Held:
    """Another says to be acting on the response."""
    import shlex

    until = leases.when(row.taken_until)
    session = row.taken_session_id
    call = f"coordinate agent end --session {session} --agent {shlex.quote(str(row.taken_by))}"
    ends = f"; if that session is dead, end it: {call}" if session else ""
    return Held(
        f"{row.taken_by} acts on {row.id}" + (f" in session {session}" if session else "") + f" until {until}",
        hint=f"leave it to them, or take it when that time is over{ends}",
        ask_id=row.id,
        holder=row.taken_by,
        session=session,
        until=until,
    )


def require_outcome(row: Row, outcome: str, field: str = "outcome") -> None:
    """What was answered to a decision or an approval is finished with by saying what came of it."""
    if row.action_owner in ("decision", "approval") and not inputs.visible(outcome):
        raise inputs.refuse(
            field,
            f"{row.id} is {inputs.one(row.action_owner)}: say in one line what came of it",
            hint=f"give the {field}",
        )


def refuse_clarify(row: Row) -> None:
    if row.response_kind == "clarify":
        raise clarify(row)


def clarify(row: Row) -> InvalidState:
    """What a human wants to be made clear is not finished with."""
    return InvalidState(
        f"{row.response_by} wants {row.id} to be clarified: that is no end of it",
        hint="put the row in other words on its board, or advance it"
        if row.surface == "row"
        else "revise it, supersede it or withdraw it",
        ask_id=row.id,
        state=row.state,
        response_seq=row.response_seq,
    )


def ask_of(row: Row, **changed: Any) -> Ask:
    """The record of an ask, with its current response where the row carries it."""
    values = {name: value for name, value in row._asdict().items() if not name.startswith(_RESPONSE)}
    values["response_seq"] = row.response_seq
    for beside in ("context_handed", "handed", "free"):
        values.pop(beside, None)
    said = getattr(row, "response_kind", None)
    current = None
    if said is not None:
        current = Response(
            row.id,
            row.response_seq,
            said,
            row.response_channel,
            row.response_text,
            row.response_choice,
            row.response_context,
            row.response_revision,
            row.response_by,
            row.response_at,
            row.response_revision < row.revision,
        )
    return Ask(**(values | changed), response=current)


def lean(row: Row) -> Ask:
    """The same for a list, or for whoever has just written it."""
    return without_context(ask_of(row))


def without_context(ask: Ask) -> Ask:
    """The same without the agent's own context, which the session has already."""
    return replace(ask, context="")


def response_of(row: Row, revision: int) -> Response:
    """The record of one response, `outdated` by the ask's current revision."""
    return Response(
        row.ask_id,
        row.seq,
        row.kind,
        row.channel,
        row.text,
        row.choice,
        row.context,
        row.ask_revision,
        row.said_by,
        row.created_at,
        row.ask_revision < revision,
    )
