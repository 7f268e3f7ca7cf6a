"""Responses: what a human says or does about an ask. None is lost, overwritten unread, or silently refused.

The inbox (the command line, a page, Python) outranks: its word replaces whatever was there, read or not. What a human
said in chat is recorded by an agent, and never over a word that this agent was not handed. No clocks are compared; in
either order the inbox's word is the one that stands.
"""

from __future__ import annotations

from coordinate import inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import (
    AlreadyDecided,
    AlreadySeen,
    AnswerChanged,
    CoordinateError,
    Empty,
    InvalidState,
    NotAQuestion,
    OutdatedRevision,
)
from coordinate.frozen import dataclass, replace
from coordinate.inbox import asks
from coordinate.records import Ask, Responded
from coordinate.states import RESPONSE_KINDS

# Kinds that mean something without a word.
WORDLESS = ("decline", "handled")
KEY_MAX = 200
SHOWN_MAX = 200


@dataclass(frozen=True)
class Action:
    """Which deed of which client it is, so that a retry does nothing and a late one is not applied."""

    client_id: str | None
    client_seq: int | None
    action_id: str | None


def action_of(client_id: str | None, client_seq: int | None, action_id: str | None) -> Action:
    """Check how a client names its deed: all three or none."""
    if (client_id, client_seq, action_id) == (None, None, None):
        return Action(None, None, None)
    return Action(
        inputs.line(client_id, "client_id", limit=KEY_MAX),
        inputs.integer(client_seq, "client_seq", least=1),
        inputs.line(action_id, "action_id", limit=KEY_MAX),
    )


@dataclass(frozen=True)
class Said:
    """A response in checked values."""

    kind: str
    text: str
    choice: str | None
    context: str
    revision: int | None

    @property
    def folded(self) -> str:
        return inputs.fold("\n".join(part for part in (self.choice, self.text, self.context) if part))


def said_of(*, kind: str, text: str, choice: str | None, context: str, revision: int | None) -> Said:
    """Check what is said. Raises `Empty` where words are needed."""
    kind = inputs.one_of(kind, "kind", RESPONSE_KINDS)
    text = inputs.text(text, "text", limit=inputs.NOTE_MAX)
    choice = None if choice is None else inputs.label(choice, "choice", limit=asks.LABEL_MAX)
    context = inputs.text(context, "context", limit=inputs.NOTE_MAX)
    inputs.integer_or_none(revision, "revision", least=1)
    if kind not in WORDLESS and not inputs.visible(text) and choice is None:
        raise Empty(f"the {kind} says nothing", hint="say it in words, or choose an option")
    return Said(kind, text, choice, context, revision)


def responded(tx: Tx, before: Row, said: Said, action: Action, *, agent: str, session: str | None) -> Responded | None:
    """The human's word on a locked ask, from the inbox: replaces what is there, and is unseen. None after its time.

    The answer holds what it `replaced`. The same action again answers what it did and writes nothing; an older one of
    the client raises `OutdatedRevision`.
    Raises `Closed`, `NotAQuestion`.
    """
    if (first := _replayed(tx, before, action)) is not None:
        return first
    _refuse(before, said)
    stood = None if before.handled_at is None else asks.ask_of(asks.find(tx, before.id)).response
    row = tx.one("ask_respond", ask_id=before.id)
    if row is None:
        return None
    _write(tx, row, said, "inbox", action, agent=asks.speaker(agent), session=session)
    return replace(_answer(tx, row), replaced=stood)


def taken_back(
    tx: Tx,
    before: Row,
    action: Action,
    *,
    response_seq: int | None = None,
    decided: bool,
    agent: str,
    session: str | None,
) -> Responded:
    """The human takes the current response to a locked ask back, as long as nobody was handed it.

    The answer holds what was taken back (`replaced`), for another person may have said it.
    Raises `AnswerChanged` when it is not the one that `response_seq` names, `AlreadySeen` naming who was handed it,
    `AlreadyDecided` when the board itself acted on it or what it is about is `decided`, `Closed`. Where nothing is to
    be taken back it answers `already`, and a named deed is written down, so that it takes nothing back when it comes
    again.
    """
    if (first := _replayed(tx, before, action)) is not None:
        return first
    if before.closed_at is not None:
        raise asks.is_closed(before)
    if response_seq is not None and (before.handled_at is None or before.response_seq != response_seq):
        raise _stands_otherwise(tx, before, response_seq)
    nothing = Said("withdrawn", "", None, "", None)
    if before.handled_at is None:
        if action.action_id is not None:
            now = tx.the("ask_nothing_said", ask_id=before.id)
            _write(tx, now, nothing, "inbox", action, agent=asks.speaker(agent), session=session)
        return Responded(asks.lean(asks.find(tx, before.id)), None, already=True)
    stood = asks.ask_of(asks.find(tx, before.id)).response
    row = None if decided else tx.one("ask_take_back", ask_id=before.id)
    if row is None and (decided or before.seen_by is None):
        raise AlreadyDecided(
            f"{before.surface_id} has gone on since the response to {before.id}: it cannot be unsaid",
            hint=f"say something else instead; if {before.surface_id} is done, it may be reopened",
            ask_id=before.id,
            task_id=before.surface_id,
            response_seq=before.response_seq,
        )
    if row is None:
        raise AlreadySeen(
            f"{before.seen_by} was handed the response to {before.id}: it cannot be unsaid",
            hint="say something else instead: it replaces what was said, and whoever acts on it is told",
            ask_id=before.id,
            seen_by=before.seen_by,
            response_seq=before.response_seq,
        )
    _write(tx, row, nothing, "inbox", action, agent=asks.speaker(agent), session=session)
    return replace(_answer(tx, row), replaced=stood)


def answered(tx: Tx, ask_id: str, said: Said, action: Action, *, agent: str, session: str | None) -> Responded | None:
    """What the human said in chat, recorded by the agent that heard it, which has thereby been handed it. None after
    the time of the ask.

    One conditional update: only while no response waits that this session was not handed. Looking why it refused comes
    after. Raises `UnreadAnswer` with the waiting text, `Closed`, `NotAQuestion`, `NotFound`.
    """
    if action.action_id is not None:
        first = _replayed(tx, asks.find(tx, ask_id, lock=True), action)
        if first is not None:
            return first
    row = tx.one("ask_answer", ask_id=ask_id, agent=agent, readers=[asks.reader(agent, session)])
    if row is None:
        if (refused := _why_not(tx, ask_id)) is not None:
            raise refused
        return None
    _refuse_choice(row, said)
    _write(tx, row, said, "chat", action, agent=agent, session=session)
    record_delivery(tx, row, agent=agent, session=session)
    return _answer(tx, row)


def acted_on(tx: Tx, ask: Ask) -> None:
    """The board itself acted on the current response: it stands for good, though no agent was handed it yet."""
    tx.run("ask_acted_on", ask_id=ask.id)
    record_delivery(tx, ask, agent="system", session=None)


def record_delivery(tx: Tx, row: Row | Ask, *, agent: str, session: str | None, context_revision: int = 0) -> None:
    """That a session was handed the current response, and with it the ask's own context (its revision) or not."""
    tx.run(
        "delivery_record",
        ask_id=row.id,
        seq=row.response_seq,
        reader=asks.reader(agent, session),
        agent=agent,
        context_revision=context_revision,
    )


def _replayed(tx: Tx, before: Row, action: Action) -> Responded | None:
    """What this very action did when it first came, or None when it is new."""
    if action.action_id is None:
        return None
    named = {"ask_id": before.id, "client_id": action.client_id}
    if found := tx.one("response_of_action", action_id=action.action_id, **named):
        now = asks.find(tx, before.id)
        return Responded(asks.lean(now), asks.response_of(found, now.revision), already=True)
    last = tx.one("response_last_of_client", **named)
    if last is not None and last.client_seq is not None and last.client_seq >= (action.client_seq or 0):
        raise OutdatedRevision(
            f"{action.client_id} has done action {last.client_seq} about {before.id} since:"
            f" another with number {action.client_seq} came too late",
            hint=f"look again, and if it is to be said still, number it above {last.client_seq}",
            ask_id=before.id,
            client_seq=last.client_seq,
        )
    return None


def _refuse(row: Row, said: Said) -> None:
    if row.closed_at is not None:
        raise asks.is_closed(row)
    if row.kind != "question":
        raise _no_question(row)
    if said.revision is not None and said.revision > row.revision:
        raise inputs.refuse("revision", f"{row.id} stands at revision {row.revision}, not {said.revision}")
    if said.revision in (None, row.revision):  # what an earlier revision offered nobody can tell: it counts as outdated
        _refuse_choice(row, said)


def _refuse_choice(row: Row, said: Said) -> None:
    labels = [str(option["label"]) for option in row.options or []]
    if said.choice is not None and said.choice not in labels:
        raise inputs.refuse(
            "choice",
            f"{row.id} has no such option; there are: {', '.join(labels) or 'none'}",
            hint="choose one of these; if you looked at an earlier revision of the ask, say which (revision)",
        )


def _why_not(tx: Tx, ask_id: str) -> CoordinateError | None:
    row = asks.find(tx, ask_id)
    if row.closed_at is not None:
        return asks.is_closed(row)
    if row.kind != "question":
        return _no_question(row)
    return None if row.handled_at is None else asks.unread(tx, ask_id, None)


def _stands_otherwise(tx: Tx, before: Row, response_seq: int) -> AnswerChanged:
    """Another response stands than the one that was to be taken back, or none."""
    stands = asks.ask_of(asks.find(tx, before.id)).response
    now = "nothing stands now"
    if stands is not None:
        words = ", ".join(repr(part[:SHOWN_MAX]) for part in (stands.choice, stands.text) if part) or stands.kind
        now = f"what stands now is {stands.said_by}'s {words}, response {stands.seq}"
    return AnswerChanged(
        f"response {response_seq} to {before.id} does not stand: {now}",
        hint=f"look at it again: coordinate inbox show {before.id}",
        ask_id=before.id,
        response_seq=before.response_seq,
    )


def _no_question(row: Row) -> NotAQuestion:
    return NotAQuestion(
        f"{row.id} is a {row.kind}: it asks nothing",
        hint=f"say something beside it: coordinate inbox annotate {row.id}",
        ask_id=row.id,
        kind=row.kind,
    )


def _write(tx: Tx, row: Row, said: Said, channel: str, action: Action, *, agent: str, session: str | None) -> None:
    tx.run(
        "response_insert",
        ask_id=row.id,
        seq=row.response_seq,
        kind=said.kind,
        channel=channel,
        text=said.text,
        choice=said.choice,
        context=said.context,
        ask_revision=row.revision if said.revision is None else said.revision,
        said_by=agent,
        session=session,
        client_id=action.client_id,
        client_seq=action.client_seq,
        action_id=action.action_id,
        folded=said.folded,
    )
    past = "ask.response_withdrawn" if said.kind == "withdrawn" else "ask.answered"
    asks.record(tx, row, past, agent=agent, kind=said.kind, response_seq=row.response_seq, channel=channel)
    tx.announce("answered")


def _answer(tx: Tx, row: Row) -> Responded:
    ask = asks.lean(asks.find(tx, row.id))
    return Responded(ask, ask.response, warnings=_doubts(ask))


def _doubts(ask: Ask) -> tuple[str, ...]:
    """Words that are the label of an option are words still: whether they choose it nobody guesses, but it is said."""
    said = ask.response
    if said is None or said.kind != "answer" or said.choice is not None:
        return ()
    meant = [str(each["label"]) for each in ask.options or [] if inputs.fold(each["label"]) == inputs.fold(said.text)]
    return tuple(f"{label!r} is an option, but words choose none: give it as the choice (--choice)" for label in meant)


def refuse_open(row: Row) -> InvalidState:
    """It is the human's turn still."""
    return InvalidState(
        f"{row.id} has no response yet",
        hint=f"wait for it: coordinate inbox wait {row.id}",
        ask_id=row.id,
        state=row.state,
    )
