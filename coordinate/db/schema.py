"""The tables as this program knows them. Migrations make them; a test compares the two catalogs on both engines.

Names and columns of tasks, task_dependencies, notes, history and events are public: people and agents read them.
An index is named after the question it answers. Only statements are built from this module; nothing here runs in a
normal command.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn
from sqlalchemy.types import UserDefinedType

from coordinate import states
from coordinate.db.portable import BIGINT, BOOLEAN, INSTANT, INTEGER, JSON_OBJECT, TEXT

NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s",
    "pk": "pk_%(table_name)s",
}
metadata = MetaData(naming_convention=NAMING)

# What stands in the database beside these tables, and is no table of SQLAlchemy's on every engine.
VERSION_TABLE = "coordinate_version"
NUMBER_EVENTS = "coordinate_number_events"  # on Postgres, a function


class _Xid8(UserDefinedType[str]):
    """A full transaction id of Postgres; the numbering of events compares it with snapshots."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "xid8"


class _Snapshot(UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "pg_snapshot"


@compiles(CreateColumn, "sqlite")
def _create_column(element: CreateColumn, compiler: Any, **kw: Any) -> str | None:
    """Leave out what only Postgres has."""
    if element.element.info.get("only") == "postgresql":
        return None
    return str(compiler.visit_create_column(element, **kw))


def _serial() -> Column[int]:
    """An id that never returns: AUTOINCREMENT on SQLite, identity on Postgres."""
    return Column("id", BIGINT, Identity(always=False), primary_key=True)


def _quoted(values: tuple[str, ...]) -> str:
    return ", ".join(f"'{value}'" for value in values)


_READY = "status = 'TODO' AND unmet_dependencies = 0 AND parked = ''"


def _partial(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """An index over the rows that its question is about."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def _hold(where: str, *, seconds: str = "0") -> dict[str, tuple[str, str]]:
    """A time (after so many `seconds`) until which something is held, in rows `where` it is: a move makes it later."""
    return {"hold": (where, seconds)}


projects = Table(
    "projects",
    metadata,
    Column("name", TEXT, nullable=False),
    Column("lease_seconds", INTEGER),
    Column("max_attempts", INTEGER),
    Column("closed_at", INSTANT),
    PrimaryKeyConstraint("name"),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("number", BIGINT, nullable=False, info={"counter": "task"}),
    Column("title", TEXT, nullable=False),
    Column("body", TEXT, nullable=False, server_default=""),
    Column("status", TEXT, nullable=False),
    Column("role_boundary", TEXT, nullable=False),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("priority", INTEGER, nullable=False, server_default="100"),
    Column("assigned_agent", TEXT),
    Column("session_id", TEXT),
    Column("lease_until", INSTANT, info=_hold("status = 'IN_PROGRESS'")),
    Column("lease_seconds", INTEGER),
    Column("attempt", INTEGER, nullable=False, server_default="0"),
    Column("expiries", INTEGER, nullable=False, server_default="0"),
    Column("claimed_by", TEXT),
    Column("max_attempts", INTEGER, nullable=False, server_default="5"),
    Column("not_before", INSTANT),
    Column("unmet_dependencies", INTEGER, nullable=False, server_default="0"),
    Column("parked", TEXT, nullable=False, server_default=""),
    Column("parked_until", INSTANT, info=_hold("parked IN ('scope', 'reserved')")),
    Column("reserved_for", TEXT),
    Column("reviewer", TEXT),
    Column("review_until", INSTANT, info=_hold("reviewer IS NOT NULL")),
    Column("rejected_attempt", INTEGER, nullable=False, server_default="0"),
    Column("result", TEXT),
    Column("dedup_key", TEXT),
    Column("created_by", TEXT, nullable=False, server_default="system"),
    Column("revision", BIGINT, nullable=False, server_default="1"),
    Column("folded", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    Column("finished_at", INSTANT),
    Column("scoped", BOOLEAN, nullable=False, server_default=false()),
    Column("parked_on", BIGINT),
    # The ask that it waits for, or whose response comes with the next claim.
    Column("ask_id", TEXT),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("number"),
    CheckConstraint(f"status IN ({_quoted(states.STATUSES)})", name="status"),
    CheckConstraint("priority BETWEEN 0 AND 999", name="priority"),
    CheckConstraint("attempt >= 0 AND expiries >= 0 AND rejected_attempt >= 0", name="attempt"),
    CheckConstraint("unmet_dependencies >= 0", name="unmet_dependencies"),
    CheckConstraint(f"parked IN ({_quoted(states.PARKED)})", name="parked"),
    CheckConstraint(
        "(status = 'IN_PROGRESS') = (assigned_agent IS NOT NULL)"
        " AND (status = 'IN_PROGRESS') = (lease_until IS NOT NULL)",
        name="holder",
    ),
    # The queue of a role, of a role in one project: only what is ready stands in it, so its head is the answer.
    _partial("idx_tasks_claim", "role_boundary", "priority", "created_at", "number", where=_READY),
    _partial("idx_tasks_claim_project", "role_boundary", "project", "priority", "created_at", "number", where=_READY),
    # Whose lease is past; what is set aside and due; what an agent holds; what waits for review.
    _partial("idx_tasks_lease", "lease_until", "number", where="status = 'IN_PROGRESS'"),
    _partial("idx_tasks_parked", "parked_until", "number", where="parked <> ''"),
    _partial("idx_tasks_holder", "assigned_agent", "number", where="status = 'IN_PROGRESS'"),
    _partial("idx_tasks_session", "session_id", "number", where="status = 'IN_PROGRESS'"),
    _partial("idx_tasks_parked_on", "parked_on", "number", where="parked = 'scope'"),
    _partial("idx_tasks_reserved", "reserved_for", "role_boundary", "priority", "number", where="parked = 'reserved'"),
    _partial("idx_tasks_review", "priority", "created_at", "number", where="status = 'IN_REVIEW'"),
    _partial("idx_tasks_dedup", "dedup_key", where="dedup_key IS NOT NULL", unique=True),
    Index("idx_tasks_project", "project", "status", "priority", "created_at", "number"),
    # What ended last, and what ended since.
    _partial("idx_tasks_finished", "finished_at", "number", where="finished_at IS NOT NULL"),
    # What left the queue leaves dead entries before what waits, so they are cleared away early.
    postgresql_with={
        "autovacuum_vacuum_scale_factor": "0",
        "autovacuum_vacuum_threshold": "1000",
        "vacuum_index_cleanup": "on",
    },
)

task_dependencies = Table(
    "task_dependencies",
    metadata,
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("depends_on_task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("met", BOOLEAN, nullable=False),
    PrimaryKeyConstraint("task_id", "depends_on_task_id"),
    CheckConstraint("task_id <> depends_on_task_id", name="itself"),
    Index("idx_task_dependencies_reverse", "depends_on_task_id", "task_id"),
)

task_scopes = Table(
    "task_scopes",
    metadata,
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("pattern", TEXT, nullable=False),
    Column("mode", TEXT, nullable=False, server_default="exclusive"),
    PrimaryKeyConstraint("task_id", "pattern"),
    CheckConstraint("mode IN ('exclusive', 'shared')", name="mode"),
)

attempts = Table(
    "attempts",
    metadata,
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("attempt", INTEGER, nullable=False),
    Column("agent", TEXT, nullable=False),
    Column("session_id", TEXT),
    Column("started_at", INSTANT, nullable=False),
    Column("ended_at", INSTANT),
    Column("outcome", TEXT),
    Column("reason", TEXT, nullable=False, server_default=""),
    # When the session was told that it lost this claim.
    Column("told_at", INSTANT),
    PrimaryKeyConstraint("task_id", "attempt"),
    CheckConstraint(f"outcome IN ({_quoted(states.OUTCOMES)})", name="outcome"),
    CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name="ended"),
    _partial("idx_attempts_lost", "session_id", where="outcome = 'expired' AND told_at IS NULL"),
    # The fence itself: a task has at most one open attempt.
    _partial("idx_attempts_open", "task_id", where="ended_at IS NULL", unique=True),
)

notes = Table(
    "notes",
    metadata,
    _serial(),
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("author", TEXT, nullable=False),
    Column("note_type", TEXT),
    Column("content", TEXT, nullable=False),
    Column("folded", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    CheckConstraint(f"note_type IN ({_quoted(states.NOTE_TYPES)})", name="note_type"),
    Index("idx_notes_task", "task_id", "id"),
    sqlite_autoincrement=True,
)

history = Table(
    "history",
    metadata,
    _serial(),
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("agent", TEXT, nullable=False),
    Column("action", TEXT, nullable=False),
    Column("attempt", INTEGER),
    Column("detail", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    Index("idx_history_task", "task_id", "id"),
    sqlite_autoincrement=True,
)

events = Table(
    "events",
    metadata,
    _serial(),
    Column("created_at", INSTANT, nullable=False),
    Column("event_type", TEXT, nullable=False),
    Column("payload", JSON_OBJECT, nullable=False),
    Column("ttl_seconds", BIGINT, server_default="259200"),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("agent", TEXT),
    Column("ref", TEXT),
    Column("message", TEXT, nullable=False, server_default=""),
    Column("folded", TEXT, nullable=False, server_default=""),
    Column("xid", _Xid8(), nullable=False, server_default=text("pg_current_xact_id()"), info={"only": "postgresql"}),
    CheckConstraint("ttl_seconds >= 0", name="ttl_seconds"),
    sqlite_autoincrement=True,
)
# Which events came with the transactions that an earlier snapshot had not seen. (Postgres)
Index("idx_events_xid", events.c.xid, events.c.id, info={"only": "postgresql"}).ddl_if(dialect="postgresql")

# The one order of events. On SQLite a view (position = id); on Postgres a table that the numbering step fills.
event_feed = Table(
    "event_feed",
    metadata,
    Column("position", BIGINT, nullable=False, autoincrement=False),
    Column("event_id", BIGINT, ForeignKey("events.id", ondelete="CASCADE"), nullable=False),
    PrimaryKeyConstraint("position"),
    UniqueConstraint("event_id"),
    info={"only": "postgresql", "instead": "view"},
)
event_feed_state = Table(
    "event_feed_state",
    metadata,
    Column("id", INTEGER, nullable=False, autoincrement=False),
    Column("position", BIGINT, nullable=False, server_default="0"),
    Column("snapshot", _Snapshot()),
    Column("cluster", TEXT),
    PrimaryKeyConstraint("id"),
    CheckConstraint("id = 1", name="one_row"),
    info={"only": "postgresql"},
)

event_cursors = Table(
    "event_cursors",
    metadata,
    Column("consumer", TEXT, nullable=False),
    Column("delivered", BIGINT, nullable=False),
    Column("acknowledged", BIGINT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("consumer"),
    CheckConstraint("acknowledged <= delivered", name="order"),
)

counters = Table(
    "counters",
    metadata,
    Column("kind", TEXT, nullable=False),
    Column("value", BIGINT, nullable=False),
    PrimaryKeyConstraint("kind"),
)

schema_window = Table(
    "schema_window",
    metadata,
    Column("id", INTEGER, nullable=False, autoincrement=False),
    Column("revision", TEXT, nullable=False),
    Column("oldest_writer", INTEGER, nullable=False),
    PrimaryKeyConstraint("id"),
    CheckConstraint("id = 1", name="one_row"),
)

board_move = Table(
    "board_move",
    metadata,
    Column("id", INTEGER, nullable=False, autoincrement=False),
    Column("move", TEXT, nullable=False),
    Column("state", TEXT, nullable=False),
    # The other side, without any secret.
    Column("address", TEXT, nullable=False),
    # By the clock of the board that is left, and of the one that is made.
    Column("fenced_at", INSTANT, nullable=False),
    Column("opened_at", INSTANT),
    PrimaryKeyConstraint("id"),
    CheckConstraint("id = 1", name="one_row"),
    CheckConstraint(
        "state IN ('moving', 'moved', 'stayed', 'arriving', 'copied', 'arrived', 'withdrawn')", name="state"
    ),
)

agents = Table(
    "agents",
    metadata,
    Column("name", TEXT, nullable=False),
    Column("kind", TEXT, nullable=False, server_default="agent"),
    Column("role", TEXT),
    Column("created_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("name"),
    CheckConstraint("kind IN ('agent', 'human')", name="kind"),
)

sessions = Table(
    "sessions",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("agent", TEXT, ForeignKey("agents.name"), nullable=False),
    Column("host", TEXT, nullable=False, server_default=""),
    Column("pid", BigInteger),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("stream", TEXT, nullable=False, server_default=""),
    Column("doing", TEXT, nullable=False, server_default=""),
    Column("detail", TEXT, nullable=False, server_default=""),
    Column("ttl_seconds", INTEGER, nullable=False),
    Column("started_at", INSTANT, nullable=False),
    Column("heartbeat_at", INSTANT, nullable=False, info=_hold("ended_at IS NULL", seconds="ttl_seconds")),
    Column("last_call_at", INSTANT, nullable=False),
    Column("ended_at", INSTANT),
    Column("end_reason", TEXT, nullable=False, server_default=""),
    PrimaryKeyConstraint("id"),
    CheckConstraint("ttl_seconds > 0", name="ttl_seconds"),
    Index("idx_sessions_seen", "agent", "heartbeat_at", "id"),
    _partial("idx_sessions_stale", "heartbeat_at", "id", where="ended_at IS NULL"),
)

worktrees = Table(
    "worktrees",
    metadata,
    _serial(),
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE"), nullable=False),
    Column("agent", TEXT, nullable=False),
    Column("session_id", TEXT),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("branch", TEXT, nullable=False),
    Column("root", TEXT, nullable=False),
    Column("base", TEXT, nullable=False, server_default=""),
    Column("state", TEXT, nullable=False, server_default="open"),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    Column("closed_at", INSTANT),
    Column("close_reason", TEXT, nullable=False, server_default=""),
    CheckConstraint(f"state IN ({_quoted(states.WORKTREE_STATES)})", name="state"),
    CheckConstraint(f"(closed_at IS NULL) = (state NOT IN ({_quoted(states.WORKTREE_CLOSED)}))", name="closed"),
    _partial("idx_worktrees_live", "task_id", where="closed_at IS NULL", unique=True),
    sqlite_autoincrement=True,
)

leases = Table(
    "leases",
    metadata,
    _serial(),
    Column("kind", TEXT, nullable=False),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("resource", TEXT, nullable=False),
    # The leading part of a scope without any wildcard: narrows the search for overlaps to an index range.
    Column("prefix", TEXT, nullable=False, server_default=""),
    Column("mode", TEXT, nullable=False, server_default="exclusive"),
    Column("agent", TEXT, nullable=False),
    Column("session_id", TEXT, ForeignKey("sessions.id")),
    Column("task_id", TEXT, ForeignKey("tasks.id", ondelete="CASCADE")),
    Column("attempt", INTEGER),
    Column("worktree_id", BIGINT, ForeignKey("worktrees.id", ondelete="CASCADE")),
    Column("fence", BigInteger, nullable=False, info={"counter": "fence"}),
    Column("depth", INTEGER, nullable=False, server_default="1"),
    Column("ttl_seconds", INTEGER, nullable=False),
    Column("acquired_at", INSTANT, nullable=False),
    Column("expires_at", INSTANT, info=_hold("released_at IS NULL")),
    Column("released_at", INSTANT),
    Column("release_reason", TEXT),
    # When the session was told that it lost this lease.
    Column("told_at", INSTANT),
    UniqueConstraint("fence"),
    CheckConstraint("kind IN ('scope', 'lock')", name="kind"),
    CheckConstraint("mode IN ('exclusive', 'shared')", name="mode"),
    CheckConstraint("depth > 0 AND ttl_seconds > 0", name="depth"),
    CheckConstraint("(expires_at IS NULL) = (worktree_id IS NOT NULL)", name="expiry"),
    CheckConstraint("(released_at IS NULL) = (release_reason IS NULL)", name="released"),
    # The database is the last arbiter: one holder of a lock.
    _partial("idx_leases_lock", "project", "resource", where="kind = 'lock' AND released_at IS NULL", unique=True),
    _partial("idx_leases_scope", "project", "prefix", "id", where="kind = 'scope' AND released_at IS NULL"),
    _partial("idx_leases_expiry", "expires_at", "id", where="released_at IS NULL"),
    _partial("idx_leases_session", "session_id", "id", where="released_at IS NULL"),
    _partial("idx_leases_task", "task_id", "id", where="task_id IS NOT NULL AND released_at IS NULL"),
    _partial("idx_leases_ended", "session_id", "resource", "id", where="released_at IS NOT NULL"),
    _partial("idx_leases_lost", "session_id", "id", where="release_reason IN ('expired', 'swept') AND told_at IS NULL"),
    sqlite_autoincrement=True,
)

applied_events = Table(
    "applied_events",
    metadata,
    Column("stream", TEXT, nullable=False),
    Column("event_key", TEXT, nullable=False),
    Column("applied_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("stream", "event_key"),
)

boards = Table(
    "boards",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("number", BIGINT, nullable=False, info={"counter": "board"}),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("title", TEXT, nullable=False),
    Column("status", TEXT, nullable=False, server_default="active"),
    Column("stream", TEXT, nullable=False, server_default=""),
    Column("created_by", TEXT, nullable=False),
    Column("revision", BIGINT, nullable=False, server_default="1"),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    Column("archived_at", INSTANT),
    Column("archived_by", TEXT),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("number"),
    UniqueConstraint("project", "title"),
    CheckConstraint("status IN ('active', 'archived')", name="status"),
    CheckConstraint("(status = 'archived') = (archived_at IS NOT NULL)", name="archived"),
    _partial("idx_boards_active", "project", "updated_at", "number", where="status = 'active'"),
)

board_rows = Table(
    "board_rows",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("number", BIGINT, nullable=False, info={"counter": "row"}),
    Column("board_id", TEXT, ForeignKey("boards.id", ondelete="CASCADE"), nullable=False),
    Column("label", TEXT, nullable=False),
    Column("status", TEXT, nullable=False, server_default="tracked"),
    Column("position", INTEGER, nullable=False),
    # What the agent last wrote of the row; while it is blocked, its live ask says the same.
    Column("note", TEXT, nullable=False, server_default=""),
    Column("next_step", TEXT, nullable=False, server_default=""),
    Column("action_owner", TEXT),
    Column("impact", TEXT, nullable=False, server_default=""),
    Column("next_after", TEXT, nullable=False, server_default=""),
    Column("options", JSON_OBJECT),
    Column("context", TEXT, nullable=False, server_default=""),
    Column("outcome", TEXT, nullable=False, server_default=""),
    Column("outcome_at", INSTANT),
    Column("step_no", INTEGER, nullable=False, server_default="0"),
    Column("revision", BIGINT, nullable=False, server_default="1"),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    Column("removed_at", INSTANT),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("number"),
    UniqueConstraint("board_id", "label"),
    CheckConstraint(f"status IN ({_quoted(states.ROW_STATUSES)})", name="status"),
    CheckConstraint(f"action_owner IN ({_quoted(states.ACTION_OWNERS)})", name="action_owner"),
    CheckConstraint("step_no >= 0", name="step_no"),
    CheckConstraint("removed_at IS NULL OR status <> 'blocked'", name="removed"),
    _partial("idx_board_rows_board", "board_id", "position", "number", where="removed_at IS NULL"),
)

_LIVE = "closed_at IS NULL"
asks = Table(
    "asks",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("number", BIGINT, nullable=False, info={"counter": "ask"}),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("stream", TEXT, nullable=False, server_default=""),
    Column("kind", TEXT, nullable=False, server_default="question"),
    Column("action_owner", TEXT),
    # Where it hangs: on a task (`TASK-12`), on a board's row (`ROW-7`), or alone: the first ask there (`ASK-3`).
    Column("surface", TEXT, nullable=False, server_default="alone"),
    Column("surface_id", TEXT, nullable=False),
    Column("step_no", INTEGER, nullable=False, server_default="1"),
    Column("dedup_key", TEXT),
    Column("blocking", BOOLEAN, nullable=False, server_default=false()),
    Column("title", TEXT, nullable=False),
    Column("detail", TEXT, nullable=False, server_default=""),
    Column("next_step", TEXT, nullable=False, server_default=""),
    Column("impact", TEXT, nullable=False, server_default=""),
    Column("next_after", TEXT, nullable=False, server_default=""),
    Column("options", JSON_OBJECT),
    Column("context", TEXT, nullable=False, server_default=""),
    Column("asked_by", TEXT, nullable=False),
    Column("session_id", TEXT),
    Column("state", TEXT, nullable=False, server_default="open"),
    Column("revision", BIGINT, nullable=False, server_default="1"),
    Column("snoozed_until", INSTANT),
    # Nobody can respond while it moves.
    Column("expires_at", INSTANT, info=_hold(_LIVE)),
    # The human has done their part: the latest response, and since when there is a current one.
    Column("response_seq", INTEGER, nullable=False, server_default="0"),
    Column("handled_at", INSTANT),
    # Somebody was handed it: the latest response that anybody was, and who was first with the current one.
    Column("delivered_seq", INTEGER, nullable=False, server_default="0"),
    Column("seen_at", INSTANT),
    Column("seen_by", TEXT),
    # Who says to be acting on it, until when.
    Column("taken_by", TEXT),
    Column("taken_session_id", TEXT),
    Column("taken_until", INSTANT, info=_hold(_LIVE)),
    # The agent side has finished with it.
    Column("outcome", TEXT, nullable=False, server_default=""),
    Column("outcome_at", INSTANT),
    Column("closed_at", INSTANT),
    Column("closed_by", TEXT),
    Column("close_reason", TEXT, nullable=False, server_default=""),
    Column("folded", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    Column("updated_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("number"),
    CheckConstraint(f"kind IN ({_quoted(states.ASK_KINDS)})", name="kind"),
    CheckConstraint(f"action_owner IN ({_quoted(states.ACTION_OWNERS)})", name="action_owner"),
    CheckConstraint("(kind = 'question') = (action_owner IS NOT NULL)", name="owned"),
    CheckConstraint(f"surface IN ({_quoted(states.SURFACES)})", name="surface"),
    CheckConstraint(f"state IN ({_quoted(states.ASK_STATES)})", name="state"),
    CheckConstraint("state = 'closed' OR (state = 'answered') = (handled_at IS NOT NULL)", name="handled"),
    CheckConstraint(
        "(state = 'closed') = (closed_at IS NOT NULL) AND (state = 'closed') = (outcome <> '')"
        " AND (state = 'closed') = (outcome_at IS NOT NULL) AND (state = 'closed') = (close_reason <> '')",
        name="closed",
    ),
    CheckConstraint(f"close_reason IN ({_quoted(('', *states.CLOSE_REASONS))})", name="close_reason"),
    CheckConstraint("delivered_seq >= 0 AND delivered_seq <= response_seq", name="delivered_seq"),
    CheckConstraint("(seen_at IS NULL) = (seen_by IS NULL)", name="seen"),
    CheckConstraint("step_no > 0 AND revision > 0", name="step_no"),
    # The database is the last arbiter: one live ask in a place, and one for each key of a retry.
    _partial("idx_asks_place", "surface", "surface_id", where=_LIVE, unique=True),
    _partial("idx_asks_dedup", "project", "dedup_key", where=f"dedup_key IS NOT NULL AND {_LIVE}", unique=True),
    _partial("idx_asks_live", "project", "number", where=_LIVE),
    _partial("idx_asks_answered", "project", "number", where="handled_at IS NOT NULL AND outcome = ''"),
    _partial("idx_asks_expiry", "expires_at", "number", where="expires_at IS NOT NULL AND state = 'open'"),
    Index("idx_asks_steps", "surface", "surface_id", "step_no"),
    Index("idx_asks_project", "project", "number"),
)

# Append only: what the human said or did, and that they took it back.
ask_responses = Table(
    "ask_responses",
    metadata,
    Column("ask_id", TEXT, ForeignKey("asks.id", ondelete="CASCADE"), nullable=False),
    Column("seq", INTEGER, nullable=False),
    Column("kind", TEXT, nullable=False),
    Column("channel", TEXT, nullable=False),
    Column("text", TEXT, nullable=False, server_default=""),
    Column("choice", TEXT),
    Column("context", TEXT, nullable=False, server_default=""),
    # The revision of the ask that the human was looking at.
    Column("ask_revision", BIGINT, nullable=False),
    Column("said_by", TEXT, nullable=False),
    Column("session_id", TEXT),
    Column("client_id", TEXT),
    Column("client_seq", BIGINT),
    Column("action_id", TEXT),
    Column("folded", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("ask_id", "seq"),
    CheckConstraint(f"kind IN ({_quoted((*states.RESPONSE_KINDS, 'withdrawn'))})", name="kind"),
    CheckConstraint("channel IN ('inbox', 'chat')", name="channel"),
    CheckConstraint("seq > 0", name="seq"),
    _partial(
        "idx_ask_responses_action", "ask_id", "client_id", "action_id", where="action_id IS NOT NULL", unique=True
    ),
)

# Which session (or agent without one: `reader`) was handed which response. Evidence, never an acknowledgement.
ask_deliveries = Table(
    "ask_deliveries",
    metadata,
    Column("ask_id", TEXT, nullable=False),
    Column("seq", INTEGER, nullable=False),
    Column("reader", TEXT, nullable=False),
    Column("agent", TEXT, nullable=False),
    # The revision of the ask whose own context came along; 0 = it was left out.
    Column("context_revision", BIGINT, nullable=False, server_default="0"),
    Column("times", INTEGER, nullable=False, server_default="1"),
    Column("first_at", INSTANT, nullable=False),
    Column("last_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("ask_id", "seq", "reader"),
    ForeignKeyConstraint(["ask_id", "seq"], ["ask_responses.ask_id", "ask_responses.seq"], ondelete="CASCADE"),
    CheckConstraint("times > 0", name="times"),
)

# What a human says beside an ask or a row: to be known, not to be waited for.
annotations_table = Table(
    "annotations",
    metadata,
    Column("id", TEXT, nullable=False),
    Column("number", BIGINT, nullable=False, info={"counter": "annotation"}),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("ask_id", TEXT, ForeignKey("asks.id", ondelete="CASCADE")),
    Column("row_id", TEXT, ForeignKey("board_rows.id", ondelete="CASCADE")),
    Column("step_no", INTEGER, nullable=False, server_default="0"),
    Column("author", TEXT, nullable=False),
    Column("text", TEXT, nullable=False),
    Column("seen_at", INSTANT),
    Column("seen_by", TEXT),
    Column("closed_at", INSTANT),
    Column("close_reason", TEXT, nullable=False, server_default=""),
    Column("created_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("id"),
    UniqueConstraint("number"),
    CheckConstraint("(ask_id IS NULL) <> (row_id IS NULL)", name="place"),
    CheckConstraint("(seen_at IS NULL) = (seen_by IS NULL)", name="seen"),
    CheckConstraint("close_reason IN ('', 'acknowledged', 'withdrawn')", name="close_reason"),
    CheckConstraint("(closed_at IS NULL) = (close_reason = '')", name="closed"),
    _partial("idx_annotations_live", "project", "number", where=_LIVE),
    _partial("idx_annotations_ask", "ask_id", "number", where="ask_id IS NOT NULL"),
    _partial("idx_annotations_row", "row_id", "number", where="row_id IS NOT NULL"),
)

annotation_deliveries = Table(
    "annotation_deliveries",
    metadata,
    Column("annotation_id", TEXT, ForeignKey("annotations.id", ondelete="CASCADE"), nullable=False),
    Column("reader", TEXT, nullable=False),
    Column("agent", TEXT, nullable=False),
    Column("first_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("annotation_id", "reader"),
)

tokens = Table(
    "tokens",
    metadata,
    _serial(),
    Column("hash", TEXT, nullable=False),
    Column("agent", TEXT, ForeignKey("agents.name"), nullable=False),
    Column("role", TEXT, nullable=False),
    Column("label", TEXT, nullable=False, server_default=""),
    Column("created_by", TEXT, nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("expires_at", INSTANT),
    Column("last_used_at", INSTANT),
    Column("revoked_at", INSTANT),
    UniqueConstraint("hash"),
    CheckConstraint(f"role IN ({_quoted(states.TOKEN_ROLES)})", name="role"),
    sqlite_autoincrement=True,
)

# Made by Alembic; here only so that statements can read it.
coordinate_version = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", TEXT),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)


def belongs(item: Any, engine: str) -> bool:
    """Whether a table or column exists on this engine."""
    return str(item.info.get("only", engine)) == engine


def create_all(connection: Connection) -> None:
    """Make the tables without migrations: what a test compares with what the migrations make."""
    engine = connection.dialect.name
    metadata.create_all(connection, tables=[table for table in metadata.sorted_tables if belongs(table, engine)])
