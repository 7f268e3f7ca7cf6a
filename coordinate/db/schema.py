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
    Column("number", BIGINT, nullable=False),
    Column("title", TEXT, nullable=False),
    Column("body", TEXT, nullable=False, server_default=""),
    Column("status", TEXT, nullable=False),
    Column("role_boundary", TEXT, nullable=False),
    Column("project", TEXT, nullable=False, server_default="default"),
    Column("priority", INTEGER, nullable=False, server_default="100"),
    Column("assigned_agent", TEXT),
    Column("session_id", TEXT),
    Column("lease_until", INSTANT),
    Column("lease_seconds", INTEGER),
    Column("attempt", INTEGER, nullable=False, server_default="0"),
    Column("expiries", INTEGER, nullable=False, server_default="0"),
    Column("claimed_by", TEXT),
    Column("max_attempts", INTEGER, nullable=False, server_default="5"),
    Column("not_before", INSTANT),
    Column("unmet_dependencies", INTEGER, nullable=False, server_default="0"),
    Column("parked", TEXT, nullable=False, server_default=""),
    Column("parked_until", INSTANT),
    Column("reserved_for", TEXT),
    Column("reviewer", TEXT),
    Column("review_until", INSTANT),
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
    _partial("idx_tasks_review", "priority", "created_at", "number", where="status = 'IN_REVIEW'"),
    _partial("idx_tasks_dedup", "dedup_key", where="dedup_key IS NOT NULL", unique=True),
    Index("idx_tasks_project", "project", "status", "priority", "created_at", "number"),
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
    info={"only": "postgresql"},
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
    Column("heartbeat_at", INSTANT, nullable=False),
    Column("last_call_at", INSTANT, nullable=False),
    Column("ended_at", INSTANT),
    Column("end_reason", TEXT, nullable=False, server_default=""),
    PrimaryKeyConstraint("id"),
    CheckConstraint("ttl_seconds > 0", name="ttl_seconds"),
    Index("idx_sessions_agent", "agent", "started_at", "id"),
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
    Column("fence", BigInteger, nullable=False),
    Column("depth", INTEGER, nullable=False, server_default="1"),
    Column("ttl_seconds", INTEGER, nullable=False),
    Column("acquired_at", INSTANT, nullable=False),
    Column("expires_at", INSTANT),
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

# Made by Alembic; here only so that statements can read it.
coordinate_version = Table(VERSION_TABLE, MetaData(), Column("version_num", TEXT))


def belongs(item: Any, engine: str) -> bool:
    """Whether a table or column exists on this engine."""
    return str(item.info.get("only", engine)) == engine


def create_all(connection: Connection) -> None:
    """Make the tables without migrations: what a test compares with what the migrations make."""
    engine = connection.dialect.name
    metadata.create_all(connection, tables=[table for table in metadata.sorted_tables if belongs(table, engine)])
