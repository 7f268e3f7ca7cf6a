"""Boards: titled tables of rows that a human watches. A row is blocked exactly while it has a live ask.

Each number guards its own thing: a board's revision moves when rows come, go or change places, or when its status
does; a row's revision moves when an agent changes the row; a human's words move neither. So two agents on different
rows never refuse each other, and nothing that an agent does on another row makes a human's word fail. Whoever writes
locks the board first, then its rows, then the ask, so that what the next statement reads is what is decided on. A human
locks the ask alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from coordinate import counters, events, inputs
from coordinate.db.engine import Row, Tx
from coordinate.errors import Fact, InvalidState, NotFound, OutdatedRevision
from coordinate.frozen import dataclass
from coordinate.inbox import asks, deliveries
from coordinate.inputs import Json
from coordinate.records import (
    Annotation,
    Ask,
    Board,
    BoardRow,
    BoardSummary,
    BoardView,
    BoardWritten,
    GivenRow,
    Progress,
    RowWritten,
    Turn,
)
from coordinate.states import ACTION_OWNERS, ROW_STATUSES

_BOARD_ID = r"BOARD-[1-9][0-9]*"
_ROW_ID = r"ROW-[1-9][0-9]*"
NAME_MAX = 200
ROWS_MAX = 200
STEPS_MAX = 20
WORDS_MAX = 1_000

TRACKED, BLOCKED = "tracked", "blocked"
ACTIVE, ARCHIVED = "active", "archived"
# What a row says that nobody wrote yet; the second part is about the human's step alone.
_BLANK: dict[str, Any] = {"status": TRACKED, "note": "", "context": "", "step_no": 0}
_NO_STEP: dict[str, Any] = {
    "next_step": "",
    "action_owner": None,
    "impact": "",
    "next_after": "",
    "options": None,
    "outcome": "",
}


# --- what agents write ------------------------------------------------------------------------------------------------


def board_upsert(
    tx: Tx,
    *,
    title: str,
    rows: Sequence[GivenRow | Mapping[str, Any]],
    board_version: int | None = None,
    project: str = "default",
    stream: str = "",
    agent: str = "",
    session: str | None = None,
) -> BoardWritten:
    """Write a whole board: its rows in their order, each by its label; a board that is not there yet is made.

    A board may also be named by its id (`BOARD-3`), which makes none. An existing board is written at its current
    revision only (`board_version`), and a row is changed only at its own (`revision`), else `OutdatedRevision` with the
    current numbers, and nothing changes. What a row leaves out keeps
    its value, an empty text or list clears it. A row that is left out is set aside with its words and steps, and is
    back when its label is named again; a blocked one cannot be left out. Two rows of one label are refused, as are more
    than 200. Sending the same again changes no revision. For statuses and asks see `board_row`. Of two that write at
    once one waits for the other, and then shows an old number.
    """
    given = _given_rows(rows)
    labels = [each.label for each in given]
    board_version = inputs.integer_or_none(board_version, "board_version")
    hand, is_new = _take(tx, title, project, stream, agent, session)
    if is_new and board_version is not None:
        raise _no_board(hand.board.title, hand.board.project)
    if not is_new and board_version != hand.board.revision:
        raise _outdated(hand, f"it is at revision {hand.board.revision}{_not(board_version)}")
    stored = {row.label: row for row in tx.all("board_rows_lock", board_id=hand.board.id, labels=labels)}
    before = [row for row in stored.values() if row.removed_at is None]
    numbers = _mint(tx, sum(label not in stored for label in labels))
    written = [_write(hand, stored.get(each.label), each, at, numbers) for at, each in enumerate(given, start=1)]
    left_out = [row for row in before if row.label not in labels]
    _set_aside(hand, left_out)
    moved = labels != [row.label for row in before]
    if moved:
        places = [{"id": each.row.id, "position": at} for at, each in enumerate(written, start=1)]
        tx.run_many("board_row_place", places)
    return _settle(hand, written, left_out, moved=moved, is_new=is_new)


def board_row(
    tx: Tx,
    *,
    title: str,
    label: str,
    expected_revision: int | None = None,
    status: str | None = None,
    note: str | None = None,
    next_step: str | None = None,
    action_owner: str | None = None,
    impact: str | None = None,
    next_after: str | None = None,
    options: Sequence[Json | str] | None = None,
    context: str | None = None,
    outcome: str | None = None,
    response_seq: int | None = None,
    project: str = "default",
    agent: str = "",
    session: str | None = None,
) -> BoardWritten:
    """Write one row; a row or a board that is not there yet is made (`tracked` unless said otherwise, at the end).

    Either may be named by its id (`BOARD-3`, `ROW-7`), which makes none. A row is changed at its current revision only
    (`expected_revision`), else `OutdatedRevision` with the current one.
    What is left out keeps its value. `status` is tracked, partial, missing, na, done or blocked, in any order.
    `blocked` is the human's turn and opens an ask: `next_step`, `action_owner` (decision, task or approval), `impact`,
    and 2 to 4 `options` of a decision or an approval say what is to be done, in this call. Blocked again with other
    words revises the ask, and what the human did stays. Any other status ends the turn and acknowledges the response:
    `response_seq` names the one that was acted on (a must where there is one), `outcome` says what came of it (a must
    for a decision or an approval). Refused with `AnswerChanged` when the human spoke again, with `UnreadAnswer` when
    the caller was not handed it; a clarification is advanced or revised. Without a response the ask is withdrawn. A
    write to an archived board brings it back.
    """
    given = _checked(
        GivenRow(
            label,
            revision=expected_revision,
            status=status,
            note=note,
            next_step=next_step,
            action_owner=action_owner,
            impact=impact,
            next_after=next_after,
            options=options,
            context=context,
            outcome=outcome,
            response_seq=response_seq,
        )
    )
    hand, is_new = _take(tx, title, project, "", agent, session)
    row = tx.one("board_row_named", board_id=hand.board.id, label=given.label)
    moved = row is None or row.removed_at is not None
    position = _end(hand) if row is None or moved else int(row.position)
    written = _write(hand, row, given, position, _mint(tx, int(row is None)))
    return _settle(hand, [written], [], moved=moved, is_new=is_new)


def board_advance(
    tx: Tx,
    *,
    title: str,
    label: str,
    expected_revision: int,
    board_version: int,
    note: str,
    next_step: str,
    action_owner: str,
    impact: str,
    next_after: str = "",
    options: Sequence[Json | str] | None = None,
    context: str | None = None,
    outcome: str = "",
    response_seq: int | None = None,
    project: str = "default",
    agent: str = "",
    session: str | None = None,
) -> BoardWritten:
    """Set the human's next step on a row: the one before is closed and stays readable, the new one starts with nothing.

    Both revisions must be the current ones. Of several at once exactly one wins; the others get `OutdatedRevision` with
    the current numbers and write nothing. A response to the step before must have been seen, and `response_seq` name
    it, else `AnswerChanged` or `UnreadAnswer`. `outcome` says what came of it (a must for a decision or an approval).
    The row may stand anywhere before; `context` stays unless given.
    """
    given = _checked(
        GivenRow(
            label,
            revision=inputs.integer(expected_revision, "expected_revision"),
            status=BLOCKED,
            note=inputs.text(note, "note", blank=False),
            next_step=inputs.text(next_step, "next_step", blank=False),
            action_owner=inputs.one_of(action_owner, "action_owner", ACTION_OWNERS),
            impact=inputs.text(impact, "impact", blank=False),
            next_after=next_after,
            options=options,
            context=context,
            outcome=outcome,
            response_seq=response_seq,
        )
    )
    board_version = inputs.integer(board_version, "board_version")
    agent = inputs.agent(agent)
    hand = _Hand(tx, _find(tx, title, project, lock=True), agent, session)
    row = tx.one("board_row_named", board_id=hand.board.id, label=given.label)
    if row is None or row.removed_at is not None:
        raise _no_row(hand.board, given.label)
    if hand.board.revision != board_version:
        raise _outdated(hand, f"it is at revision {hand.board.revision}{_not(board_version)}", row)
    written = _write(hand, row, given, int(row.position), iter(()), advances=True)
    return _settle(hand, [written], [], moved=False, is_new=False)


# --- the steps of a write, in the order they are taken ----------------------------------------------------------------


@dataclass(frozen=True)
class _Hand:
    """Who writes to which board; it is locked."""

    tx: Tx
    board: Row
    agent: str
    session: str | None


@dataclass(frozen=True)
class _Written:
    """A row as it is now, and where it stood before ('' = it was not there)."""

    row: Row
    was: str
    changed: bool


def _take(tx: Tx, title: str, project: str, stream: str, agent: str, session: str | None) -> tuple[_Hand, bool]:
    """The board, locked, and whether it was made just now."""
    agent = inputs.agent(agent)
    named = {"title": _name(title, "title"), "project": inputs.name(project, "project")}
    stream = inputs.text(stream, "stream", limit=inputs.TITLE_MAX)
    board = tx.one("board_lock", **named)
    if board is None and re.fullmatch(_BOARD_ID, named["title"]):
        raise _no_board(**named)
    if board is None:
        number, _ = counters.take(tx, "board")
        made = tx.one("board_insert", id=f"BOARD-{number}", number=number, stream=stream, agent=agent, **named)
        if made is not None:
            return _Hand(tx, made, agent, session), True
        # Somebody made it in the meantime; this statement waited for them and sees it.
        board = tx.the("board_lock", **named)
    return _Hand(tx, board, agent, session), False


def _mint(tx: Tx, count: int) -> Iterator[int]:
    """Numbers for new rows; taken before any ask's, so that all writers lock the counters in one order."""
    if not count:
        return iter(())
    first, _ = counters.take(tx, "row", count)
    return iter(range(first, first + count))


def _end(hand: _Hand) -> int:
    """The place behind the last row."""
    standing = _standing(hand.tx, [hand.board.id])[hand.board.id]
    if sum(getattr(standing, status) for status in ROW_STATUSES) >= ROWS_MAX:
        raise inputs.refuse("label", f"a board has at most {ROWS_MAX} rows", hint="begin another board")
    return int(standing.last_position) + 1


def _write(
    hand: _Hand, row: Row | None, given: GivenRow, position: int, numbers: Iterator[int], *, advances: bool = False
) -> _Written:
    """Bring a row to what is given, and its ask with it, in one go or not at all."""
    was = "" if row is None else str(row.status)
    status = given.status or was or TRACKED
    begins = status == BLOCKED and (was != BLOCKED or advances)
    wanted = _wanted(row, given, begins=begins)
    content = _step(hand, given, wanted, advances=advances) if status == BLOCKED else None
    listed = row is not None and row.removed_at is None
    if row is None:
        if given.revision is not None:
            raise _no_row(hand.board, given.label)
    elif given.revision not in (None, row.revision):
        raise _outdated(hand, f"its row {row.label} is at revision {row.revision}{_not(given.revision)}", row)
    elif listed and all(getattr(row, name) == wanted[name] for name in wanted):
        return _Written(row, was, changed=False)
    elif listed and given.revision is None:
        raise _outdated(hand, f"to change its row {row.label} show the revision that you read", row)
    elif content is not None and not begins and content.action_owner != row.action_owner:
        hint = "advance to another step"
        raise inputs.refuse(
            "action_owner", f"{row.label} waits for {inputs.one(row.action_owner)} of a human", hint=hint
        )
    after = _put(hand, row, given.label, position, numbers, wanted)
    _turn(hand, was, after, given, content, begins=begins, advances=advances)
    return _Written(after, was, changed=True)


def _wanted(row: Row | None, given: GivenRow, *, begins: bool) -> dict[str, Any]:
    """What the row will say: what is given, else what it said. A step that begins has nothing of the last one."""
    blank = _BLANK | _NO_STEP
    said = blank if row is None else {name: getattr(row, name) for name in blank}
    if begins:
        said = said | _NO_STEP | {"step_no": said["step_no"] + 1}
    told = {name: getattr(given, name, None) for name in blank}
    return said | {name: value or blank[name] for name, value in told.items() if value is not None}


def _step(hand: _Hand, given: GivenRow, wanted: dict[str, Any], *, advances: bool) -> asks.Content:
    """What a blocked row asks; the outcome that is given with it is one of the step before."""
    if given.outcome and not advances:
        raise inputs.refuse("outcome", f"{given.label} is the human's turn: its outcome comes when that is over")
    if not wanted["next_step"].strip():
        raise inputs.missing("next_step", f"{given.label} is the human's turn: say the one thing that they are to do")
    content = asks.content_of(
        title=f"{hand.board.title}: {given.label}",
        detail=wanted["note"],
        context=wanted["context"],
        **{name: wanted[name] for name in _NO_STEP if name != "outcome"},
    )
    wanted |= {"outcome": "", "options": content.options}
    return content


def _put(
    hand: _Hand, row: Row | None, label: str, position: int, numbers: Iterator[int], wanted: dict[str, Any]
) -> Row:
    if row is not None:
        return hand.tx.the("board_row_write", id=row.id, revision=row.revision, position=position, **wanted)
    if re.fullmatch(_ROW_ID, label):
        raise _no_row(hand.board, label)
    number = next(numbers)
    made = {"id": f"ROW-{number}", "number": number, "board_id": hand.board.id, "label": label}
    return hand.tx.the("board_row_insert", position=position, **made, **wanted)


def _turn(
    hand: _Hand, was: str, row: Row, given: GivenRow, content: asks.Content | None, *, begins: bool, advances: bool
) -> None:
    """Let the row's ask follow: closed where the human's turn ends, opened where one begins, else revised."""
    tx, live = hand.tx, asks.ask_of_row(hand.tx, row.id) if was == BLOCKED else None
    if live is not None and (begins or content is None):
        asks.close_for_row(
            tx,
            live,
            reason="superseded" if advances else "done",
            response_seq=given.response_seq,
            outcome=given.outcome or "",
            agent=hand.agent,
            session=hand.session,
        )
    elif live is not None and content is not None:
        asks.revise_for_row(tx, live, content, agent=hand.agent, session=hand.session)
    if begins and content is not None:
        asks.open_for_row(
            tx,
            row_id=row.id,
            step_no=int(row.step_no),
            project=hand.board.project,
            stream=hand.board.stream,
            content=content,
            agent=hand.agent,
            session=hand.session,
        )


def _set_aside(hand: _Hand, rows: list[Row]) -> None:
    """Off the list, with all that was said; never while it is the human's turn."""
    for row in rows:
        if row.status == BLOCKED:
            raise InvalidState(
                f"{row.label} waits for a human and cannot be left out",
                hint="name it in the list, or end its turn first by giving it another status",
                label=row.label,
                revision=int(row.revision),
            )
    if rows:
        hand.tx.run("board_rows_set_aside", ids=[row.id for row in rows])


def _settle(hand: _Hand, written: list[_Written], left_out: list[Row], *, moved: bool, is_new: bool) -> BoardWritten:
    """The board follows its rows: archived when all that counts is done and every word was handed over, else active."""
    tx, board = hand.tx, hand.board
    changed = [each for each in written if each.changed]
    standing = _standing(tx, [board.id])[board.id]
    progress = _progress(standing)
    if changed or moved or is_new:
        status = ARCHIVED if progress.fraction == 1.0 and not standing.unseen else ACTIVE
        after = tx.the(
            "board_write",
            id=board.id,
            status=status,
            moved=int(not is_new and (moved or status != board.status)),
            agent=hand.agent,
        )
        _tell(hand, after, changed, left_out, moved=moved, is_new=is_new)
        board = after
    live = asks.asks_of_rows(tx, [each.row.id for each in written if each.row.status == BLOCKED])
    return BoardWritten(
        board=Board(**board._asdict()),
        rows=tuple(_row_written(each, live.get(each.row.id)) for each in written),
        set_aside=tuple(row.label for row in left_out),
        progress=progress,
    )


def _tell(hand: _Hand, board: Row, changed: list[_Written], left_out: list[Row], *, moved: bool, is_new: bool) -> None:
    """One event for the board if it is new or its list of rows changed, one for each row, one for its status."""
    tx, by = hand.tx, hand.agent
    if is_new or moved:
        _log(tx, "board.created" if is_new else "board.written", board, by)
    for each in changed:
        _log(tx, "board.row_written", board, by, each.row, status=each.row.status, was=each.was)
    for row in left_out:
        _log(tx, "board.row_set_aside", board, by, row, was=row.status)
    if board.status != hand.board.status:
        _log(tx, "board.archived" if board.status == ARCHIVED else "board.unarchived", board, by)


def _row_written(each: _Written, ask: Row | None) -> RowWritten:
    row = each.row
    return RowWritten(
        id=row.id,
        label=row.label,
        status=row.status,
        revision=row.revision,
        step_no=row.step_no,
        ask_id=None if ask is None else ask.id,
        changed=each.changed,
    )


# --- what humans say beside a row -------------------------------------------------------------------------------------


def board_annotate(
    tx: Tx, *, title: str, label: str, text: str, project: str = "default", agent: str = ""
) -> Annotation:
    """Say something beside a row, also one that was set aside or of an archived board: to be known, not waited for.

    At most 10,000 characters. Every session that polls the project is handed it once, until an agent acknowledges it.
    The same words again, before anybody was handed them, are the same annotation, so that a retry is harmless. No
    revision moves, so whatever agents write at the same moment, neither refuses the other. Raises `NotFound`.
    """
    board = _find(tx, title, project)
    label = _name(label, "label")
    row = tx.one("board_row", board_id=board.id, label=label)
    if row is None:
        raise _no_row(board, label)
    return deliveries.annotated(
        tx, project=board.project, row_id=row.id, step_no=int(row.step_no), text=text, agent=agent
    )


# --- archive ----------------------------------------------------------------------------------------------------------


def board_archive(
    tx: Tx, *, title: str, board_version: int | None = None, project: str = "default", agent: str = ""
) -> Board:
    """Take a board off the list; nothing of it is lost, its asks stay with the human, and a later write brings it back.

    `board_version`, if given, must be its current revision, else `OutdatedRevision`. Doing it twice changes nothing.
    """
    return _set_status(tx, ARCHIVED, title, board_version, project, agent)


def board_unarchive(
    tx: Tx, *, title: str, board_version: int | None = None, project: str = "default", agent: str = ""
) -> Board:
    """Bring an archived board back; see `board_archive`."""
    return _set_status(tx, ACTIVE, title, board_version, project, agent)


def _set_status(tx: Tx, status: str, title: str, board_version: int | None, project: str, agent: str) -> Board:
    verb = "board_archive" if status == ARCHIVED else "board_unarchive"
    named = {"title": _name(title, "title"), "project": inputs.name(project, "project")}
    agent, version = inputs.agent(agent), inputs.integer_or_none(board_version, "board_version")
    given = {"agent": agent} if status == ARCHIVED else {}
    row = tx.one(verb, version=version, **named, **given)
    if row is not None:
        _log(tx, verb.replace("_", ".") + "d", row, agent)
        return Board(**row._asdict())
    board = _find(tx, title, project)
    if version not in (None, board.revision):
        raise _outdated(_Hand(tx, board, agent, None), f"it is at revision {board.revision}{_not(version)}")
    return Board(**board._asdict())


# --- look -------------------------------------------------------------------------------------------------------------


def board_get(tx: Tx, *, title: str, project: str = "default", full: bool = False) -> BoardView:
    """A board with its rows in order, each with its live ask and the human's words on it that nobody finished with.

    Lean: of `context` only its length, no earlier steps. `full` adds contexts, the latest 20 steps of each row with
    their responses and outcomes, all words, and the rows that were set aside (200 at most). Looking hands nothing over:
    `pending` does. Raises `NotFound`.
    """
    full = inputs.flag(full, "full")
    board = _find(tx, title, project)
    listed = tx.all("board_rows_listed", board_id=board.id, limit=ROWS_MAX)
    aside = tx.all("board_rows_aside", board_id=board.id, limit=ROWS_MAX) if full else []
    ids = [row.id for row in (*listed, *aside)]
    live = asks.asks_of_rows(tx, [row.id for row in listed if row.status == BLOCKED])
    words: dict[str, list[Annotation]] = {}
    for each in reversed(tx.all("board_row_words", row_ids=ids, all=int(full), limit=WORDS_MAX)):
        words.setdefault(each.row_id, []).append(Annotation(**each._asdict()))

    def shown(row: Row) -> BoardRow:
        steps = asks.steps_of_row(tx, row.id, limit=STEPS_MAX) if full and row.step_no else []
        return BoardRow(
            **{name: value for name, value in row._asdict().items() if name not in ("number", "board_id", "context")},
            context=row.context if full else "",
            context_chars=len(row.context),
            turn=_turn_of(asks.ask_of(live[row.id])) if row.id in live else None,
            annotations=tuple(words.get(row.id, ())),
            steps=tuple(asks.ask_of(step) for step in steps if step.closed_at is not None),
        )

    return BoardView(
        board=Board(**board._asdict()),
        progress=_progress(_standing(tx, [board.id])[board.id]),
        rows=tuple(shown(row) for row in listed),
        set_aside=tuple(shown(row) for row in aside),
    )


def _turn_of(ask: Ask) -> Turn:
    return Turn(
        ask_id=ask.id,
        state=ask.state,
        revision=ask.revision,
        asked_by=ask.asked_by,
        snoozed_until=ask.snoozed_until,
        response=ask.response,
        seen_by=ask.seen_by,
        taken_by=ask.taken_by,
        taken_until=ask.taken_until,
    )


def board_list(
    tx: Tx, *, project: str | None = None, archived: bool = False, after: str | None = None, limit: int = 100
) -> list[BoardSummary]:
    """Active boards with their progress, the latest change first; with `archived` also those that are archived.

    `after` (the id of the last one seen) pages on; what is changed meanwhile goes to the front.
    Progress is (done + ½ partial) / (rows − na), None when no row counts; `unseen` counts a human's words on rows that
    nobody was handed.
    """
    seen = None if after is None else _find(tx, after, "default")
    found = tx.all(
        "boards_list",
        before=None if seen is None else seen.updated_at,
        before_number=None if seen is None else seen.number,
        project=inputs.name_or_none(project, "project"),
        all=int(inputs.flag(archived, "archived")),
        limit=inputs.limit(limit),
    )
    standing = _standing(tx, [board.id for board in found])
    return [
        BoardSummary(Board(**board._asdict()), _progress(standing[board.id]), int(standing[board.id].unseen))
        for board in found
    ]


def _standing(tx: Tx, ids: list[str]) -> dict[str, Row]:
    return {row.id: row for row in tx.all("boards_standing", ids=ids)}


def _progress(standing: Row) -> Progress:
    counts = {status: int(getattr(standing, status)) for status in ROW_STATUSES}
    countable = sum(counts.values()) - counts["na"]
    fraction = (counts["done"] + counts["partial"] / 2) / countable if countable else None
    return Progress(**counts, fraction=fraction)


def _find(tx: Tx, title: str, project: str, *, lock: bool = False) -> Row:
    title, project = _name(title, "title"), inputs.name(project, "project")
    board = tx.one("board_lock" if lock else "board", title=title, project=project)
    if board is None:
        raise _no_board(title, project)
    return board


# --- what may come in -------------------------------------------------------------------------------------------------


def _given_rows(rows: Sequence[GivenRow | Mapping[str, Any]]) -> list[GivenRow]:
    """Rows as they may be written, each label once."""
    given = [_checked(_as_given(row)) for row in inputs.listed(rows, "rows")]
    if len(given) > ROWS_MAX:
        raise inputs.refuse("rows", f"a board has at most {ROWS_MAX} rows, not {len(given)}", most=ROWS_MAX)
    seen: set[str] = set()
    for row in given:
        if row.label in seen:
            raise inputs.refuse("rows", f"two rows are called {row.label}", hint="a row is known by its label")
        seen.add(row.label)
    return given


def _as_given(row: object) -> GivenRow:
    if isinstance(row, GivenRow):
        return row
    if not isinstance(row, dict):
        raise inputs.refuse("rows", f"a row must be an object with a label, not {type(row).__name__}")
    known = list(GivenRow.__match_args__)
    if unknown := [str(key)[:40] for key in row if key not in known]:
        raise inputs.refuse("rows", f"a row has no {unknown[0]!r}", hint=f"it has {', '.join(known)}")
    if "label" not in row:
        raise inputs.refuse("rows", "a row without a label", hint='such as {"label": "Docs", "status": "partial"}')
    return GivenRow(**row)


def _checked(row: GivenRow) -> GivenRow:
    """The same with every value in its canonical form; what is absent stays None."""

    def maybe(name: str, limit: int) -> str | None:
        value = getattr(row, name)
        return None if value is None else inputs.text(value, name, limit=limit)

    return GivenRow(
        _name(row.label, "label"),
        revision=inputs.integer_or_none(row.revision, "revision"),
        status=None if row.status is None else inputs.one_of(row.status, "status", ROW_STATUSES),
        note=maybe("note", inputs.NOTE_MAX),
        next_step=maybe("next_step", inputs.REASON_MAX),
        action_owner=None
        if row.action_owner is None
        else inputs.one_of(row.action_owner, "action_owner", ("", *ACTION_OWNERS)),
        impact=maybe("impact", inputs.REASON_MAX),
        next_after=maybe("next_after", inputs.REASON_MAX),
        options=None if row.options is None else asks.options_of(row.options) or [],
        context=maybe("context", inputs.TEXT_MAX),
        outcome=maybe("outcome", asks.OUTCOME_MAX),
        response_seq=inputs.integer_or_none(row.response_seq, "response_seq"),
    )


def _name(value: str, field: str) -> str:
    return inputs.label(value, field, limit=NAME_MAX)


# --- refusals and events ----------------------------------------------------------------------------------------------


def _no_board(title: str, project: str) -> NotFound:
    return NotFound(f"there is no board {title!r} in {project}", hint="see: coordinate board list --archived")


def _no_row(board: Row, label: str) -> NotFound:
    return NotFound(f"the board {board.title!r} has no row {label!r}", hint="see: coordinate board get TITLE --full")


def _not(revision: int | None) -> str:
    return "; show the one that you read" if revision is None else f", not {revision}"


def _outdated(hand: _Hand, what: str, row: Row | None = None) -> OutdatedRevision:
    """With every current number, so that whoever lost can go on from there."""
    board = hand.board
    now: dict[str, Fact] = {"board": board.title, "board_revision": int(board.revision)}
    if row is not None:
        ask = asks.asks_of_rows(hand.tx, [row.id]).get(row.id)
        now |= {"label": row.label, "revision": int(row.revision), "status": row.status, "step_no": int(row.step_no)}
        now |= {"ask_id": None if ask is None else ask.id}
    return OutdatedRevision(
        f"the board {board.title!r} does not stand where you say: {what}",
        hint="read it again with coordinate board get, and show the revisions that you read (--version, --revision)",
        **now,
    )


def _log(tx: Tx, event_type: str, board: Row, agent: str, row: Row | None = None, **what: str) -> None:
    """Write the event of a board, or of one of its rows; every value is a text, and what is empty is left out."""
    said = {"board_id": board.id, "title": board.title, "revision": str(board.revision)}
    if row is not None:
        said |= {"row_id": row.id, "label": row.label, "revision": str(row.revision)}
    said |= {name: value for name, value in what.items() if value}
    events.append(tx, event_type, said, project=board.project, agent=agent, ref=board.id if row is None else row.id)
