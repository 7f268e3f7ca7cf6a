"""Deliveries: what humans said, handed to sessions at least once, until somebody has finished with it.

A delivery is evidence for the human ("seen"), never an acknowledgement: it changes no revision, no `updated_at`, and
nothing of what another session is handed. What is handed over is pinned: its rows are locked first and read in a later
statement, so that a response which the human replaces meanwhile is handed over either before or not at all.
"""

from __future__ import annotations

from coordinate import counters, inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import AlreadySeen, AnswerChanged, CoordinateError, InvalidState, NotFound
from coordinate.inbox import asks, responses
from coordinate.records import Annotation, Ask, Pending

PENDING_MAX = 100
TAKE_SECONDS = 900

# --- handing over -----------------------------------------------------------------------------------------------------


def pending(
    tx: Tx,
    *,
    project: str | None = None,
    full: bool = False,
    after: int = 0,
    after_annotation: int = 0,
    limit: int = 20,
    agent: str = "",
    session: str | None = None,
) -> Pending:
    """Collect what humans have said: every response that nobody has acknowledged, whoever asked, to every session.

    Called again it hands out the same again (at least once), so whoever dies in between loses nothing. An ask's own
    `context` comes along the first time a session is handed it, then only with `full`. `taken_by` says who acts on a
    response already. Annotations come once per session, with `full` again, until acknowledged. Absent, all projects
    count; `limit` (1 to 100) is of responses and of annotations each, and `after` (what `next` said) and
    `after_annotation` (what `next_annotation` said) page on. Acknowledge with the `response_seq` that you acted on.
    """
    agent, project = inputs.agent(agent), inputs.name_or_none(project, "project")
    full = inputs.flag(full, "full")
    after = inputs.integer(after, "after")
    beyond = inputs.integer(after_annotation, "after_annotation")
    limit = inputs.limit(limit, most=PENDING_MAX)
    locked = tx.all("pending_lock", project=project, after=after, limit=limit)
    handed = hand_over(tx, [row.id for row in locked], full=full, agent=agent, session=session)
    words, more_words = _hand_words(tx, project, beyond, limit, full=full, agent=agent, session=session)
    waiting = tx.the("asks_open_count", project=project)
    more = locked[-1].number if len(locked) == limit else None
    return Pending(tuple(handed), tuple(words), waiting.count, more, more_words)


def hand_over(tx: Tx, ids: list[str], *, full: bool, agent: str, session: str | None) -> list[Ask]:
    """Hand the current responses of locked asks to a session: read them now, and record that it was handed them."""
    if not ids:
        return []
    rows = tx.all("pending", ids=ids, reader=asks.reader(agent, session))
    first = {row.id: row._asdict() for row in tx.all("asks_seen", ids=ids, agent=agent)}
    handed = []
    for row in rows:
        with_context = full or row.context_handed < row.revision
        responses.record_delivery(
            tx, row, agent=agent, session=session, context_revision=row.revision if with_context else 0
        )
        shown = asks.ask_of(row, **first.get(row.id, {}))
        handed.append(shown if with_context else asks.without_context(shown))
    return handed


def collect(tx: Tx, *, ask: str, full: bool = False, agent: str = "", session: str | None = None) -> Ask:
    """One ask as it stands, with its response if there is one, which the session has then been handed."""
    agent, full = inputs.agent(agent), inputs.flag(full, "full")
    before = asks.find(tx, ask, lock=True)
    handed = []
    if before.state == "answered":
        handed = hand_over(tx, [before.id], full=full, agent=agent, session=session)
    return handed[0] if handed else asks.ask_of(asks.find(tx, before.id))


def taken(tx: Tx, before: Row, *, seconds: int, agent: str, session: str | None) -> Ask:
    """Act on the response to a locked ask, alone for a while. Raises `Held`, `InvalidState`, `Closed`."""
    readers = [asks.reader(agent, session)]
    row = tx.one("ask_take", ask_id=before.id, seconds=seconds, agent=agent, session=session, readers=readers)
    if row is None:
        raise _why_not_mine(before)
    return hand_over(tx, [row.id], full=False, agent=agent, session=session)[0]


def _why_not_mine(row: Row) -> CoordinateError:
    if row.closed_at is not None:
        return asks.is_closed(row)
    if row.handled_at is None:
        return responses.refuse_open(row)
    return asks.held(row)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def acknowledged(
    tx: Tx, before: Row, *, response_seq: int, outcome: str, agent: str, session: str | None
) -> tuple[Row, bool]:
    """Finish with a locked ask; the second answer is True when this very acknowledgement came before."""
    if before.closed_at is not None:
        if (before.close_reason, before.response_seq, before.closed_by) == ("done", response_seq, agent):
            return before, True
        raise asks.is_closed(before)
    asks.require_outcome(before, outcome)
    row = tx.one(
        "ask_acknowledge",
        ask_id=before.id,
        response_seq=response_seq,
        reason="done",
        outcome=outcome or "done",
        agent=agent,
        readers=[asks.reader(agent, session)],
    )
    if row is None:
        raise _why_not_done(tx, before, response_seq, asks.reader(agent, session))
    asks.record_closed(tx, row, agent)
    return row, False


def _why_not_done(tx: Tx, before: Row, response_seq: int, reader: str) -> CoordinateError:
    row = asks.find(tx, before.id)
    if row.handled_at is None:
        if row.response_seq > 0 and row.response_seq >= response_seq:
            return AnswerChanged(
                f"{row.id} waits for the human again: response {response_seq} does not stand any more",
                hint=f"wait for the next: coordinate inbox wait {row.id}",
                ask_id=row.id,
                response_seq=row.response_seq,
            )
        return responses.refuse_open(row)
    if (refused := asks.why_not_finished(tx, row.id, [reader], response_seq)) is not None:
        return refused
    # Where nothing is in the way by now, it was a take whose time is just over.
    return asks.clarify(row) if row.response_kind == "clarify" else asks.held(before)


# --- what humans say beside it ----------------------------------------------------------------------------------------


def annotate(tx: Tx, *, ask: str, text: str, agent: str = "") -> Annotation:
    """Say something beside an ask, closed or not, a note or a milestone too: to be known, not to be waited for.

    At most 10,000 characters. Every session that polls the project is handed it once, until an agent acknowledges it.
    The same words again, before anybody was handed them, are the same annotation, so that a retry is harmless.
    """
    row = asks.find(tx, ask)
    return annotated(tx, project=row.project, ask_id=row.id, step_no=row.step_no, text=text, agent=agent)


def annotated(
    tx: Tx,
    *,
    project: str,
    ask_id: str | None = None,
    row_id: str | None = None,
    step_no: int = 0,
    text: str,
    agent: str,
) -> Annotation:
    """Write words beside an ask or a row, once however often they are said before anybody was handed them."""
    text = inputs.text(text, "text", limit=inputs.NOTE_MAX, blank=False)
    author = asks.speaker(agent)
    same = {"ask_id": ask_id, "row_id": row_id, "author": author, "text": text}
    if (said := tx.one("annotation_twin", **same)) is not None:
        return _annotation(tx, said.id)
    number, _ = counters.take(tx, "annotation")
    if (said := tx.one("annotation_twin", **same)) is not None:  # by whoever was before us at the counter
        return _annotation(tx, said.id)
    tx.run(
        "annotation_insert",
        id=f"ANN-{number}",
        number=number,
        project=project,
        ask_id=ask_id,
        row_id=row_id,
        step_no=step_no,
        author=author,
        text=text,
    )
    written = _annotation(tx, f"ANN-{number}")
    asks.log(
        tx,
        "ask.annotated" if row_id is None else "board.annotated",
        {"annotation_id": written.id, "ask_id": ask_id, "row_id": row_id, "title": written.about},
        project=project,
        agent=author,
        ref=ask_id or row_id,
    )
    tx.announce("answered")
    return written


def withdraw_annotation(tx: Tx, *, annotation: str, agent: str = "") -> Annotation:
    """Take words back, as long as no session was handed them; else `AlreadySeen`. Doing it twice changes nothing."""
    return _end_words(tx, "take_back", "withdrawn", annotation, asks.speaker(agent))


def acknowledge_annotation(tx: Tx, *, annotation: str, agent: str = "") -> Annotation:
    """Say that words are taken note of: no session is handed them any more. Doing it twice changes nothing.

    Raises `InvalidState` for words that nobody was handed yet.
    """
    return _end_words(tx, "acknowledge", "acknowledged", annotation, inputs.agent(agent))


def _end_words(tx: Tx, verb: str, reason: str, annotation: str, agent: str) -> Annotation:
    annotation_id = inputs.annotation_id(annotation)
    row = tx.one(f"annotation_{verb}", id=annotation_id)
    words = _annotation(tx, annotation_id)
    if row is None and words.close_reason != reason:
        if words.closed_at is None and reason == "withdrawn":
            raise AlreadySeen(
                f"{words.seen_by} was handed {words.id}: it cannot be unsaid",
                hint="say something more beside it",
                annotation_id=words.id,
                seen_by=words.seen_by,
            )
        stands = "was " + words.close_reason if words.closed_at else "was handed to nobody yet"
        raise InvalidState(f"{words.id} {stands}", hint="coordinate inbox pending", annotation_id=words.id)
    if row is not None:
        said: dict[str, object] = {"annotation_id": words.id, "ask_id": words.ask_id, "row_id": words.row_id}
        room = "ask" if words.row_id is None else "board"
        ref = words.ask_id or words.row_id
        asks.log(tx, f"{room}.annotation_{reason}", said, project=words.project, agent=agent, ref=ref)
    return words


def _annotation(tx: Tx, annotation_id: str) -> Annotation:
    row = tx.one("annotation", id=annotation_id)
    if row is None:
        raise NotFound(f"there is no {annotation_id}", annotation_id=annotation_id)
    return Annotation(**row._asdict())


def _hand_words(
    tx: Tx, project: str | None, after: int, limit: int, *, full: bool, agent: str, session: str | None
) -> tuple[list[Annotation], int | None]:
    """The annotations that this session was not handed yet, or all of them in full; and where the next page begins."""
    reader = asks.reader(agent, session)
    locked = tx.all("annotations_lock", project=project, after=after, limit=limit, full=full, reader=reader)
    if not locked:
        return [], None
    ids = [row.id for row in locked]
    tx.run("annotations_seen", ids=ids, agent=agent)
    words = [Annotation(**row._asdict()) for row in tx.all("annotations_pending", ids=ids, full=full, reader=reader)]
    tx.run_many("annotation_record", [{"id": each.id, "reader": reader, "agent": agent} for each in words])
    return words, int(locked[-1].number) if len(locked) == limit else None
