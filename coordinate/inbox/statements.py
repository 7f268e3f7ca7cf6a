"""The SQL of asks, responses, deliveries and annotations, in Core.

One conditional UPDATE decides who wins. A response is pinned by its number (`response_seq`), never by a time. What a
session is handed is read after its rows were locked, in a later statement, so that nobody replaces it in between.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Select,
    and_,
    case,
    cast,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from coordinate.db.portable import (
    BIGINT,
    INTEGER,
    TEXT,
    among,
    before,
    const,
    contains,
    counted,
    from_now,
    given,
    given_boolean,
    given_instant,
    given_integer,
    given_text,
    greatest,
    insert_or_change,
    insert_unless_there,
    now,
    optional,
)
from coordinate.db.schema import (
    annotation_deliveries,
    annotations_table,
    ask_deliveries,
    ask_responses,
    asks,
    board_rows,
    boards,
    projects,
)
from coordinate.db.statements import Statements

STATEMENTS = Statements("inbox: asks, responses, deliveries, annotations")
add = STATEMENTS.add

a, r, d, n = asks.c, ask_responses.c, ask_deliveries.c, annotations_table.c
_ASK = tuple(column for column in asks.c if column.name != "folded")
_THIS = a.id == given_text("ask_id")
_LIVE = a.closed_at.is_(None)
_ANSWERED = and_(a.handled_at.is_not(None), a.outcome == const(""))
_AWAKE = or_(a.snoozed_until.is_(None), a.snoozed_until <= now())
# By this, few that live or are unfinished are found by what they are, and sorted: along the numbers themselves, all
# that was ever asked would be read to find them.
_among_few = a.number + const(0)
# A reader is a session, or an agent that shows none.
_READER = given_text("reader")
# Whoever finishes a task speaks also for the reader that claimed it.
_HANDED = exists(
    select(d.seq).where(d.ask_id == a.id, d.seq == a.response_seq, among(d.reader, "readers")).correlate(asks)
)
_TAKER = func.coalesce(a.taken_session_id, a.taken_by, type_=TEXT)
_FREE = or_(a.taken_until.is_(None), a.taken_until <= now(), among(_TAKER, "readers"))

# --- one ask ----------------------------------------------------------------------------------------------------------

_current = asks.outerjoin(ask_responses, and_(r.ask_id == a.id, r.seq == a.response_seq, a.handled_at.is_not(None)))
_RESPONSE = (
    r.kind.label("response_kind"),
    r.channel.label("response_channel"),
    r.text.label("response_text"),
    r.choice.label("response_choice"),
    r.context.label("response_context"),
    r.ask_revision.label("response_revision"),
    r.said_by.label("response_by"),
    r.created_at.label("response_at"),
)


def _shown(*more: ColumnElement[Any]) -> Select[Any]:
    """Asks with their current response, NULL where there is none."""
    return select(*_ASK, *_RESPONSE, *more).select_from(_current)


_AT = and_(a.surface == given_text("surface"), a.surface_id == given_text("surface_id"))
_steps_before = (
    select((func.coalesce(func.max(a.step_no), const(0), type_=INTEGER) + const(1)).label("step_no"))
    .where(_AT)
    .scalar_subquery()
)
add("ask", "One ask with its current response.", _shown().where(_THIS))
add(
    "ask_for",
    "The same, with whether a reader was handed that response, and whether no other acts on it.",
    _shown(_HANDED.label("handed"), _FREE.label("free")).where(_THIS),
)
add("ask_lock", "One ask, locked for the verb that follows.", select(*_ASK).where(_THIS).with_for_update())
add(
    "ask_lock_free",
    "The same of one that nobody else has locked.",
    select(*_ASK).where(_THIS).with_for_update(skip_locked=True),
)
add(
    "asks_lock",
    "Several asks behind a number, locked in the order in which all do so who lock more than one.",
    select(a.id, a.number)
    .where(among(a.id, "ids"), a.number > given_integer("after"))
    .order_by(a.number)
    .with_for_update(),
)
add("ask_at", "The live ask in a place.", _shown().where(_AT, _LIVE))
add(
    "ask_at_lock",
    "The same, locked.",
    select(*_ASK).where(_AT, _LIVE).with_for_update(),
)
add(
    "asks_at",
    "The live asks of several places of one kind.",
    _shown().where(a.surface == given_text("surface"), among(a.surface_id, "surface_ids"), _LIVE),
)
add(
    "ask_steps",
    "The asks that a place has had, before a step if one is named, the latest first.",
    _shown().where(_AT, before(a.step_no)).order_by(a.step_no.desc(), a.number.desc()).limit(given_integer("limit")),
)
add(
    "ask_twin",
    "The live ask that a retry means.",
    _shown().where(a.project == given_text("project"), a.dedup_key == given_text("dedup_key"), _LIVE),
)


def _time_or(else_: Any) -> ColumnElement[Any]:
    """When the time is over that is given from now on; else as it says."""
    seconds = given_integer("timeout_seconds")
    return case((cast(seconds, BigInteger).is_not(None), from_now(seconds)), else_=else_)


_words = given(asks, "title detail next_step impact next_after options context folded")
add(
    "ask_insert",
    "A new ask, unless one lives in its place or under its key: the two partial unique indexes decide.",
    insert_unless_there(
        asks,
        **given(asks, "id number project stream kind action_owner surface surface_id dedup_key blocking asked_by"),
        **_words,
        step_no=func.coalesce(cast(given_integer("step_no"), BigInteger), _steps_before, type_=INTEGER),
        session_id=given_text("session"),
        expires_at=_time_or(const(None)),
        created_at=now(),
        updated_at=now(),
    ).returning(*_ASK),
)
add(
    "ask_revise",
    "Other words for a locked ask, or another time, where no other acts on its response.",
    update(asks)
    .where(_THIS, _LIVE, or_(a.handled_at.is_(None), _FREE))
    .values(
        **_words,
        revision=a.revision + given_integer("reworded"),
        expires_at=_time_or(a.expires_at),
        updated_at=now(),
    )
    .returning(*_ASK),
)
_NOT_TAKEN = {"taken_by": const(None), "taken_session_id": const(None), "taken_until": const(None)}
_unseen = {"seen_at": const(None), "seen_by": const(None)}
add(
    "ask_again",
    "A clarification that was handed over is answered by other words: the human's turn again, who spoke in time.",
    update(asks)
    .where(_THIS, a.state == const("answered"), a.delivered_seq == a.response_seq)
    .values(state=const("open"), handled_at=const(None), expires_at=_time_or(const(None)), **_unseen, **_NOT_TAKEN)
    .returning(*_ASK),
)
_other = asks.alias("other")
_key_is_taken = exists(
    select(_other.c.id)
    .where(_other.c.project == given_text("project"), _other.c.dedup_key == a.dedup_key, _other.c.closed_at.is_(None))
    .correlate(asks)
)
add(
    "ask_move",
    "A live ask goes to its task's project; it lets go of a key that lives there already.",
    update(asks)
    .where(_THIS, _LIVE, a.project != given_text("project"))
    .values(
        project=given_text("project"),
        dedup_key=case((_key_is_taken, const(None)), else_=a.dedup_key),
        updated_at=now(),
    )
    .returning(*_ASK),
)
add(
    "ask_block",
    "What was asked beside the work is now what the task waits for, or the other way round.",
    update(asks).where(_THIS, _LIVE).values(blocking=given_boolean("blocking")).returning(*_ASK),
)
add(
    "ask_snooze",
    "Out of the human's sight until then; NULL wakes it.",
    update(asks).where(_THIS, a.state == const("open")).values(snoozed_until=given_instant("until")).returning(*_ASK),
)

# --- closing ----------------------------------------------------------------------------------------------------------

_closed = {
    "state": const("closed"),
    "close_reason": given_text("reason"),
    "outcome": given_text("outcome"),
    "outcome_at": now(),
    "closed_at": now(),
    "closed_by": given_text("agent"),
    "snoozed_until": const(None),
}


def _close(*guards: Any) -> Any:
    return update(asks).where(_THIS, _LIVE, *guards).values(**_closed).returning(*_ASK)


add(
    "ask_close",
    "Close an ask unless a response waits that the caller was not handed or does not name, or that another acts on.",
    # Whoever names a number means that one, even if a later word was handed over too.
    _close(or_(a.handled_at.is_(None), and_(_HANDED, _FREE, optional(a.response_seq)))),
)
_kind_of_current = select(r.kind).where(r.ask_id == a.id, r.seq == a.response_seq).correlate(asks).scalar_subquery()
add(
    "ask_acknowledge",
    "The agent side has finished with exactly this response, which it was handed; a clarification is no end.",
    _close(
        _ANSWERED,
        a.response_seq == given_integer("response_seq"),
        _HANDED,
        _kind_of_current != const("clarify"),
        _FREE,
    ),
)
add("ask_dismiss", "The human will not answer; only while nothing was answered.", _close(a.state == const("open")))
add(
    "ask_expire",
    "Nobody answered in time; the guard repeated.",
    _close(a.state == const("open"), a.expires_at <= now()),
)
add(
    "asks_due",
    "Asks whose time is over without an answer, the longest first.",
    select(a.id, a.surface, a.surface_id)
    .where(a.state == const("open"), a.expires_at.is_not(None), a.expires_at <= now())
    .order_by(a.expires_at, a.number)
    .limit(given_integer("limit")),
)

# --- responses --------------------------------------------------------------------------------------------------------

_answered = {
    "state": const("answered"),
    "response_seq": a.response_seq + const(1),
    "handled_at": now(),
    "snoozed_until": const(None),
}
_QUESTION = a.kind == const("question")
_IN_TIME = or_(a.handled_at.is_not(None), a.expires_at.is_(None), a.expires_at > now())
add(
    "ask_respond",
    "The human's word replaces whatever was there and is unseen, as long as the ask lives and its time lasts.",
    update(asks).where(_THIS, _LIVE, _QUESTION, _IN_TIME).values(**_answered, **_unseen).returning(*_ASK),
)
add(
    "ask_answer",
    "What the human said in chat, unless a response waits that the recording session was not handed.",
    update(asks)
    .where(_THIS, _LIVE, _QUESTION, _IN_TIME, or_(a.handled_at.is_(None), _HANDED))
    .values(**_answered, delivered_seq=a.response_seq + const(1), seen_at=now(), seen_by=given_text("agent"))
    .returning(*_ASK),
)
add(
    "ask_take_back",
    "The human takes a response back, as long as nobody was handed it; a time that is over meanwhile ends nothing.",
    update(asks)
    .where(_THIS, _LIVE, a.handled_at.is_not(None), a.delivered_seq < a.response_seq)
    .values(
        state=const("open"),
        response_seq=a.response_seq + const(1),
        handled_at=const(None),
        expires_at=case((a.expires_at > now(), a.expires_at), else_=const(None)),
        updated_at=now(),
        **_unseen,
    )
    .returning(*_ASK),
)
add(
    "ask_nothing_said",
    "There was nothing to take back; that the human meant to is kept.",
    update(asks).where(_THIS, a.state == const("open")).values(response_seq=a.response_seq + const(1)).returning(*_ASK),
)
add(
    "ask_acted_on",
    "The board itself was handed the current response and acted on it; which agent is handed it first stays open.",
    update(asks).where(_THIS).values(delivered_seq=a.response_seq),
)
add(
    "response_insert",
    "What was said or done, for good.",
    insert(ask_responses).values(
        **given(
            ask_responses,
            "ask_id seq kind channel text choice context ask_revision said_by client_id client_seq action_id folded",
        ),
        session_id=given_text("session"),
        created_at=now(),
    ),
)
_RESPONSES = tuple(column for column in ask_responses.c if column.name != "folded")
add(
    "response_of_action",
    "What a client's action did when it first came.",
    select(*_RESPONSES).where(
        r.ask_id == given_text("ask_id"),
        r.client_id == given_text("client_id"),
        r.action_id == given_text("action_id"),
    ),
)
add(
    "response_last_of_client",
    "How far a client has come with an ask.",
    select(func.max(r.client_seq, type_=BIGINT).label("client_seq")).where(
        r.ask_id == given_text("ask_id"), r.client_id == given_text("client_id")
    ),
)
add(
    "responses_of",
    "What was said to an ask, the latest last.",
    select(*_RESPONSES)
    .where(r.ask_id == given_text("ask_id"), r.seq > given_integer("after"))
    .order_by(r.seq)
    .limit(given_integer("limit")),
)

# --- deliveries -------------------------------------------------------------------------------------------------------

add(
    "pending_lock",
    "A batch of answered asks that nobody has finished with, locked: what is read next is what stays.",
    select(a.id, a.number)
    .where(_ANSWERED, optional(a.project), _among_few > given_integer("after"))
    .order_by(_among_few)
    .limit(given_integer("limit"))
    .with_for_update(),
)
_context_handed = (
    select(func.coalesce(func.max(d.context_revision), const(0), type_=BIGINT))
    .where(d.ask_id == a.id, d.reader == _READER)
    .correlate(asks)
    .scalar_subquery()
)
add(
    "pending",
    "Those asks with their current response, and which revision of their own context the reader already has.",
    _shown(_context_handed.label("context_handed")).where(among(a.id, "ids"), _ANSWERED).order_by(a.number),
)
add(
    "asks_seen",
    "Somebody was handed these responses; who was first stays.",
    update(asks)
    .where(among(a.id, "ids"), a.handled_at.is_not(None), a.seen_at.is_(None))
    .values(delivered_seq=a.response_seq, seen_at=now(), seen_by=given_text("agent"))
    .returning(a.id, a.delivered_seq, a.seen_at, a.seen_by),
)
add(
    "delivery_record",
    "A response was handed to a session; the first time stays.",
    insert_or_change(
        ask_deliveries,
        "ask_id",
        "seq",
        "reader",
        **given(ask_deliveries, "ask_id seq agent context_revision"),
        change={
            "times": d.times + const(1),
            "last_at": now(),
            "context_revision": greatest(d.context_revision, given_integer("context_revision")),
        },
        reader=_READER,
        first_at=now(),
        last_at=now(),
    ),
)
add(
    "deliveries_of",
    "Who was handed what of an ask, the latest response first.",
    select(ask_deliveries)
    .where(d.ask_id == given_text("ask_id"))
    .order_by(d.seq.desc(), d.first_at, d.reader)
    .limit(given_integer("limit")),
)
add(
    "ask_take",
    "Act on a response, alone for a while.",
    update(asks)
    .where(_THIS, _ANSWERED, _FREE)
    .values(
        taken_by=given_text("agent"),
        taken_session_id=given_text("session"),
        taken_until=from_now(given_integer("seconds")),
    )
    .returning(*_ASK),
)
add(
    "ask_let_go",
    "Whoever claims the task that it brings acts on it from now on: nothing of an own take, or of one that is past.",
    update(asks)
    .where(_THIS, a.taken_until.is_not(None), or_(a.handled_at.is_(None), a.taken_until <= now(), _TAKER == _READER))
    .values(**_NOT_TAKEN),
)
_taken_by_them = (
    select(a.id)
    .where(_ANSWERED, among(a.taken_session_id, "sessions"))
    .order_by(_among_few)
    .with_for_update()
    .cte("taken_by_them")
)
add(
    "asks_let_go",
    "Sessions that are over act on nothing any more.",
    update(asks).where(a.id.in_(select(_taken_by_them.c.id))).values(**_NOT_TAKEN),
)

# --- annotations ------------------------------------------------------------------------------------------------------

_about = func.coalesce(a.title, board_rows.c.label, type_=TEXT).label("about")
_placed = annotations_table.outerjoin(asks, a.id == n.ask_id).outerjoin(board_rows, board_rows.c.id == n.row_id)
_annotation = select(*annotations_table.c, _about).select_from(_placed)
_OPEN = n.closed_at.is_(None)
add(
    "annotation_insert",
    "What a human says beside an ask or a row.",
    insert(annotations_table).values(
        **given(annotations_table, "id number project ask_id row_id step_no author text"), created_at=now()
    ),
)
add(
    "annotation_twin",
    "The same words of the same speaker in the same place, which nobody was handed yet.",
    select(n.id)
    .where(
        or_(n.ask_id == given_text("ask_id"), n.row_id == given_text("row_id")),
        n.author == given_text("author"),
        n.text == given_text("text"),
        n.seen_at.is_(None),
        _OPEN,
    )
    .order_by(n.number)
    .limit(const(1)),
)
add("annotation", "One annotation.", _annotation.where(n.id == given_text("id")))
add(
    "annotations_of",
    "What was said beside an ask, the latest first.",
    _annotation.where(n.ask_id == given_text("ask_id"), n.close_reason != const("withdrawn"))
    .order_by(n.number.desc())
    .limit(given_integer("limit")),
)
add(
    "annotations_move",
    "What was said beside an ask, and nobody has finished with, goes along with it.",
    update(annotations_table).where(n.ask_id == given_text("ask_id"), _OPEN).values(project=given_text("project")),
)
add(
    "annotation_take_back",
    "The human takes words back, as long as nobody was handed them.",
    update(annotations_table)
    .where(n.id == given_text("id"), _OPEN, n.seen_at.is_(None))
    .values(closed_at=now(), close_reason=const("withdrawn"))
    .returning(n.id, n.project),
)
add(
    "annotation_acknowledge",
    "An agent has taken note, after somebody was handed it.",
    update(annotations_table)
    .where(n.id == given_text("id"), _OPEN, n.seen_at.is_not(None))
    .values(closed_at=now(), close_reason=const("acknowledged"))
    .returning(n.id, n.project),
)
_told = exists(
    select(annotation_deliveries.c.reader)
    .where(annotation_deliveries.c.annotation_id == n.id, annotation_deliveries.c.reader == _READER)
    .correlate(annotations_table)
)
_NOT_TOLD = or_(~_told, given_boolean("full"))
add(
    "annotations_lock",
    "A batch of words that a session was not handed, or all in full, locked: nobody takes them back in between.",
    select(n.id, n.number)
    .where(_OPEN, _NOT_TOLD, optional(n.project), n.number + const(0) > given_integer("after"))
    .order_by(n.number + const(0))  # few are open: see `_among_few`
    .limit(given_integer("limit"))
    .with_for_update(),
)
add(
    "annotations_pending",
    "Those words as they stand now, without what the same session was handed while this waited for the lock.",
    _annotation.where(among(n.id, "ids"), _OPEN, _NOT_TOLD).order_by(n.number),
)
add(
    "annotations_seen",
    "Somebody was handed these words; who was first stays.",
    update(annotations_table)
    .where(among(n.id, "ids"), n.seen_at.is_(None))
    .values(seen_at=now(), seen_by=given_text("agent")),
)
add(
    "annotation_record",
    "A session was handed these words.",
    insert_unless_there(
        annotation_deliveries,
        "annotation_id",
        "reader",
        annotation_id=given_text("id"),
        reader=_READER,
        agent=given_text("agent"),
        first_at=now(),
    ),
)

# --- lists ------------------------------------------------------------------------------------------------------------

# A closed project is out of sight until something newer is asked, said in other words, or watched in it.
_newer, _lives = asks.alias("newer"), asks.alias("lives")
# Which those are is found once, and not for each ask anew; only where something would be hidden by it.
_hidden = select(projects.c.name).where(
    projects.c.closed_at.is_not(None),
    projects.c.name.in_(select(_lives.c.project).where(_lives.c.closed_at.is_(None))),
    ~exists(select(boards.c.id).where(boards.c.project == projects.c.name, boards.c.created_at > projects.c.closed_at)),
    ~exists(select(_newer.c.id).where(_newer.c.project == projects.c.name, _newer.c.updated_at > projects.c.closed_at)),
)
_IN_SIGHT = and_(_LIVE, a.state == const("open"), _IN_TIME, _AWAKE, a.project.not_in(_hidden))
_ATTENTION = and_(_IN_SIGHT, _QUESTION)
_TOLD = and_(_IN_SIGHT, a.kind != const("question"))
_filters = (
    optional(a.project),
    optional(a.kind),
    optional(a.asked_by),
)
_limit = given_integer("limit")


def _list(*conditions: Any, number: ColumnElement[Any] = _among_few) -> Any:
    return _shown().where(*conditions, *_filters, number > given_integer("after")).order_by(number).limit(_limit)


def _newest(*conditions: Any, number: ColumnElement[Any] = _among_few) -> Any:
    between = (number > given_integer("after"), number < given_integer("before"))
    return _shown().where(*conditions, *_filters, *between).order_by(number.desc()).limit(_limit)


# What nobody answered in time is not open any more, though nothing has come by yet that writes so.
_WAITS = and_(_LIVE, a.state == const("open"), _IN_TIME)
_of_state = optional(a.state)
add("asks_list", "A page of asks by number, all or those of a state.", _list(_of_state, number=a.number))
add("asks_newest", "The same, the latest first.", _newest(_of_state, number=a.number))
add("asks_open", "A page of what is open still.", _list(_WAITS))
add("asks_open_newest", "The same, the latest first.", _newest(_WAITS))
add(
    "asks_urgent",
    "What needs the human now: first what a task stands still for, then what ends soonest, then the oldest.",
    _shown()
    .where(_ATTENTION, optional(a.project))
    .order_by(a.blocking.desc(), a.expires_at.is_(None), a.expires_at, a.number)
    .limit(_limit),
)
add("asks_attention", "A page of what needs the human now.", _list(_ATTENTION))
add("asks_told", "A page of what agents tell, and nobody has dismissed.", _list(_TOLD))
add("asks_told_newest", "The same, the latest first.", _newest(_TOLD))
add("asks_snoozed", "A page of what sleeps.", _list(_WAITS, ~_AWAKE))
add("asks_unhandled", "A page of what humans have finished with, and agents have not.", _list(_ANSWERED))
add("asks_unhandled_newest", "The same, the latest first.", _newest(_ANSWERED))
add(
    "asks_unseen",
    "What humans have answered an agent, and nobody was handed yet.",
    select(a.id)
    .where(_ANSWERED, a.seen_at.is_(None), a.asked_by == given_text("asked_by"))
    .order_by(_among_few)
    .limit(given_integer("limit")),
)
_said = exists(select(r.seq).where(r.ask_id == a.id, contains(r.folded, given_text("needle"))).correlate(asks))
add(
    "asks_search",
    "A page of asks whose words, or whose responses' words, hold a text; literal and case-folded.",
    _list(or_(contains(a.folded, given_text("needle")), _said), number=a.number),
)
add(
    "attention_count",
    "How many asks need the human now.",
    select(counted(a.number)).where(_ATTENTION, optional(a.project)),
)
add(
    "told_count",
    "How many notes and milestones nobody has dismissed.",
    select(counted(a.number)).where(_TOLD, optional(a.project)),
)
add(
    "unhandled_count",
    "How many asks humans have finished with, and agents have not.",
    select(counted(a.number)).where(_ANSWERED, optional(a.project)),
)
add(
    "asks_open_count",
    "How many asks of a project wait for the human.",
    select(counted(a.number)).where(_LIVE, a.state == const("open"), _IN_TIME, _QUESTION, optional(a.project)),
)
add(
    "project_close",
    "The human is done with a project.",
    update(projects).where(projects.c.name == given_text("name")).values(closed_at=now()),
)
add(
    "project_reopen",
    "And wants to see it again.",
    update(projects).where(projects.c.name == given_text("name")).values(closed_at=const(None)),
)
