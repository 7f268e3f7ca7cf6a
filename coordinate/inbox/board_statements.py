"""The SQL of boards and their rows, in Core.

Whoever writes to a board locks it first: its rows, their order and its standing then change under one hand, so what is
read in the next statement is what is decided on. A human's words lock neither board nor row.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import BigInteger, ColumnElement, and_, case, cast, func, insert, or_, select, tuple_, update

from coordinate.db.portable import (
    BIGINT,
    among,
    const,
    given,
    given_instant,
    given_integer,
    given_text,
    insert_unless_there,
    now,
    optional,
)
from coordinate.db.schema import annotations_table, ask_responses, asks, board_rows, boards
from coordinate.db.statements import Statements
from coordinate.states import ROW_STATUSES

STATEMENTS = Statements("inbox: boards and their rows")
add = STATEMENTS.add

b, r, words = boards.c, board_rows.c, annotations_table.c
_BOARD = tuple(boards.c)
_ROW = tuple(board_rows.c)
_LAST_CHANGED = (b.updated_at, b.number)
# By its title in a project, or by its id; no title looks like an id.
_THIS = or_(and_(b.project == given_text("project"), b.title == given_text("title")), b.id == given_text("title"))
_THIS_ROW = and_(r.board_id == given_text("board_id"), or_(r.label == given_text("label"), r.id == given_text("label")))
_any_row = board_rows.alias("any_row")  # also one that was set aside
_LISTED = r.removed_at.is_(None)

# --- boards -----------------------------------------------------------------------------------------------------------

add("board", "One board, for whoever only looks.", select(*_BOARD).where(_THIS))
add("board_lock", "One board, locked for the write that follows.", select(*_BOARD).where(_THIS).with_for_update())
add(
    "board_insert",
    "A new board; one of each title in a project, by constraint.",
    insert_unless_there(
        boards,
        "project",
        "title",
        **given(boards, "id number project title stream"),
        created_by=given_text("agent"),
        created_at=now(),
        updated_at=now(),
    ).returning(*_BOARD),
)
add(
    "board_write",
    "What a write left a board at; the revision moves where its list of rows or its status did.",
    update(boards)
    .where(b.id == given_text("id"))
    .values(
        status=given_text("status"),
        archived_at=case(
            (given_text("status") == const("active"), const(None)),
            else_=func.coalesce(b.archived_at, now(), type_=b.archived_at.type),
        ),
        archived_by=case(
            (given_text("status") == const("active"), const(None)),
            else_=func.coalesce(b.archived_by, given_text("agent"), type_=b.archived_by.type),
        ),
        revision=b.revision + given_integer("moved"),
        updated_at=now(),
    )
    .returning(*_BOARD),
)
_version_holds = optional(b.revision, given_integer("version"))
add(
    "board_archive",
    "Set aside a board that is active, at the revision that the caller shows, if it shows one.",
    update(boards)
    .where(_THIS, b.status == const("active"), _version_holds)
    .values(
        status=const("archived"),
        archived_at=now(),
        archived_by=given_text("agent"),
        revision=b.revision + const(1),
        updated_at=now(),
    )
    .returning(*_BOARD),
)
add(
    "board_unarchive",
    "Bring back a board that is archived, at the revision that the caller shows, if it shows one.",
    update(boards)
    .where(_THIS, b.status == const("archived"), _version_holds)
    .values(
        status=const("active"),
        archived_at=const(None),
        archived_by=const(None),
        revision=b.revision + const(1),
        updated_at=now(),
    )
    .returning(*_BOARD),
)
add(
    "boards_list",
    "Boards, the latest change first.",
    select(*_BOARD)
    .where(
        optional(b.project),
        or_(cast(given_integer("all"), BigInteger) == const(1), b.status == const("active")),
        optional(
            b.number,
            given_integer("before_number"),
            tuple_(*_LAST_CHANGED) < tuple_(given_instant("before"), given_integer("before_number")),
        ),
    )
    .order_by(*(each.desc() for each in _LAST_CHANGED))
    .limit(given_integer("limit")),
)


def _count(status: str) -> ColumnElement[Any]:
    return func.count(case((r.status == const(status), r.id)), type_=BIGINT).label(status)


add(
    "boards_standing",
    "How the rows of boards stand, and how many of a human's words on them nobody was handed.",
    select(
        b.id,
        *(_count(status) for status in ROW_STATUSES),
        func.coalesce(func.max(r.position), const(0), type_=BIGINT).label("last_position"),
        select(func.count(words.id, type_=BIGINT))
        .select_from(annotations_table.join(_any_row, _any_row.c.id == words.row_id))
        .where(_any_row.c.board_id == b.id, words.seen_at.is_(None), words.closed_at.is_(None))
        .correlate(boards)
        .scalar_subquery()
        .label("unseen"),
    )
    .select_from(boards.outerjoin(board_rows, and_(r.board_id == b.id, _LISTED)))
    .where(among(b.id, "ids"))
    .group_by(b.id),
)

# --- rows -------------------------------------------------------------------------------------------------------------

_CONTENT = given(board_rows, "status note next_step action_owner impact next_after options context outcome step_no")
add(
    "board_rows_lock",
    "The rows of a board in order, and those set aside whose labels are named; locked for the write that follows.",
    select(*_ROW)
    .where(r.board_id == given_text("board_id"), or_(_LISTED, among(r.label, "labels")))
    .order_by(r.position, r.number)
    .with_for_update(),
)
add(
    "board_row_lock",
    "One row, locked: whoever closes the ask that makes it blocked comes before or after whoever writes it.",
    select(*_ROW).where(r.id == given_text("row_id")).with_for_update(),
)
add(
    "board_row",
    "One row by its label or id, for whoever only says something beside it.",
    select(*_ROW).where(r.board_id == given_text("board_id"), _THIS_ROW),
)
add(
    "board_row_named",
    "One row by its label or id, locked for the write that follows; also one that was set aside.",
    select(*_ROW).where(r.board_id == given_text("board_id"), _THIS_ROW).with_for_update(),
)
add(
    "board_row_insert",
    "A new row; one of each label on a board, by constraint.",
    insert(board_rows)
    .values(
        **given(board_rows, "id number board_id label position"),
        outcome_at=case((given_text("outcome") == const(""), const(None)), else_=now()),
        created_at=now(),
        updated_at=now(),
        **_CONTENT,
    )
    .returning(*_ROW),
)
add(
    "board_row_write",
    "What an agent wrote of a row, at the revision that it was read at; one that was set aside is back with it.",
    update(board_rows)
    .where(r.id == given_text("id"), r.revision == given_integer("revision"))
    .values(
        outcome_at=case(
            (given_text("outcome") == const(""), const(None)),
            (given_text("outcome") == r.outcome, r.outcome_at),
            else_=now(),
        ),
        position=given_integer("position"),
        removed_at=const(None),
        revision=r.revision + const(1),
        updated_at=now(),
        **_CONTENT,
    )
    .returning(*_ROW),
)
add(
    "board_row_place",
    "Where a row stands on its board; no change of the row itself.",
    update(board_rows).where(r.id == given_text("id")).values(position=given_integer("position")),
)
add(
    "board_rows_set_aside",
    "Rows that a whole board left out: kept with their words and steps, off the list.",
    update(board_rows)
    .where(among(r.id, "ids"), _LISTED)
    .values(removed_at=now(), revision=r.revision + const(1), updated_at=now()),
)
add(
    "board_row_unblock",
    "The ask of a row's step was closed where it stood: it is no longer the human's turn.",
    update(board_rows)
    .where(
        r.id == given_text("row_id"),
        r.status == const("blocked"),
        r.step_no == given_integer("step_no"),
    )
    .values(
        status=const("tracked"),
        outcome=given_text("outcome"),
        outcome_at=now(),
        revision=r.revision + const(1),
        updated_at=now(),
    ),
)
add(
    "board_rows_listed",
    "The rows of a board in order.",
    select(*_ROW)
    .where(r.board_id == given_text("board_id"), _LISTED)
    .order_by(r.position, r.number)
    .limit(given_integer("limit")),
)
add(
    "board_rows_aside",
    "Rows of a board that were set aside, the latest first.",
    select(*_ROW)
    .where(r.board_id == given_text("board_id"), r.removed_at.is_not(None))
    .order_by(r.removed_at.desc(), r.number.desc())
    .limit(given_integer("limit")),
)
add(
    "board_row_words",
    "What humans said beside rows, the latest first.",
    select(*annotations_table.c, r.label.label("about"))
    .select_from(annotations_table.join(board_rows, r.id == words.row_id))
    .where(
        among(words.row_id, "row_ids"),
        words.close_reason != const("withdrawn"),
        or_(cast(given_integer("all"), BigInteger) == const(1), words.closed_at.is_(None)),
    )
    .order_by(words.number.desc())
    .limit(given_integer("limit")),
)

# --- after a restore --------------------------------------------------------------------------------------------------

# A response goes along with the revision that it is about, else each would be one to earlier words.
for _revision in (b.revision, r.revision, asks.c.revision, ask_responses.c.ask_revision):
    add(
        f"{_revision.table.name}_raise",
        "After a restore: above every revision that was shown to anybody.",
        update(_revision.table).values({_revision.name: _revision + given_integer("revisions")}),
    )
add(
    "takes_end",
    "After a restore nobody can tell who acts on which response.",
    update(asks)
    .where(asks.c.taken_until.is_not(None), asks.c.closed_at.is_(None))
    .values(taken_by=const(None), taken_session_id=const(None), taken_until=const(None)),
)
