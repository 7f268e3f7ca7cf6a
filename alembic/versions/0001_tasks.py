"""Tasks: the work wing's tables, counters, and the schema window.

What changes, and why: the first tables. `schema_window` records the oldest schema knowledge that may write, so that
later programs and this one can tell whether they may work side by side.
Before or after deploying code: before.
Cost on a large table: none, the tables are new.
What the downgrade loses: everything.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
READY = "status = 'TODO' AND unmet_dependencies = 0 AND parked = ''"


def upgrade() -> None:
    op.create_table(
        "projects",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("lease_seconds", sa.Integer()),
        sa.Column("max_attempts", sa.Integer()),
        sa.Column("closed_at", INSTANT),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_projects")),
    )
    op.create_table(
        "tasks",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("number", BIGINT, nullable=False),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("body", TEXT, nullable=False, server_default=""),
        sa.Column("status", TEXT, nullable=False),
        sa.Column("role_boundary", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("priority", sa.Integer(), nullable=False, server_default="100"),
        sa.Column("assigned_agent", TEXT),
        sa.Column("session_id", TEXT),
        sa.Column("lease_until", INSTANT),
        sa.Column("lease_seconds", sa.Integer()),
        sa.Column("attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("expiries", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("claimed_by", TEXT),
        sa.Column("max_attempts", sa.Integer(), nullable=False, server_default="5"),
        sa.Column("not_before", INSTANT),
        sa.Column("unmet_dependencies", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("parked", TEXT, nullable=False, server_default=""),
        sa.Column("parked_until", INSTANT),
        sa.Column("reserved_for", TEXT),
        sa.Column("reviewer", TEXT),
        sa.Column("review_until", INSTANT),
        sa.Column("rejected_attempt", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("result", TEXT),
        sa.Column("dedup_key", TEXT),
        sa.Column("created_by", TEXT, nullable=False, server_default="system"),
        sa.Column("revision", BIGINT, nullable=False, server_default="1"),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("finished_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        sa.UniqueConstraint("number", name=op.f("uq_tasks_number")),
        sa.CheckConstraint(
            "status IN ('TODO', 'IN_PROGRESS', 'BLOCKED', 'IN_REVIEW', 'DONE', 'CANCELLED')",
            name=op.f("ck_tasks_status"),
        ),
        sa.CheckConstraint("priority BETWEEN 0 AND 999", name=op.f("ck_tasks_priority")),
        sa.CheckConstraint("attempt >= 0 AND expiries >= 0 AND rejected_attempt >= 0", name=op.f("ck_tasks_attempt")),
        sa.CheckConstraint("unmet_dependencies >= 0", name=op.f("ck_tasks_unmet_dependencies")),
        sa.CheckConstraint("parked IN ('', 'later', 'scope', 'reserved')", name=op.f("ck_tasks_parked")),
        sa.CheckConstraint(
            "(status = 'IN_PROGRESS') = (assigned_agent IS NOT NULL)"
            " AND (status = 'IN_PROGRESS') = (lease_until IS NOT NULL)",
            name=op.f("ck_tasks_holder"),
        ),
    )
    _partial("idx_tasks_claim", ["role_boundary", "priority", "created_at", "number"], READY)
    _partial("idx_tasks_claim_project", ["role_boundary", "project", "priority", "created_at", "number"], READY)
    _partial("idx_tasks_lease", ["lease_until", "number"], "status = 'IN_PROGRESS'")
    _partial("idx_tasks_parked", ["parked_until", "number"], "parked <> ''")
    _partial("idx_tasks_holder", ["assigned_agent", "number"], "status = 'IN_PROGRESS'")
    _partial("idx_tasks_review", ["priority", "created_at", "number"], "status = 'IN_REVIEW'")
    _partial("idx_tasks_dedup", ["dedup_key"], "dedup_key IS NOT NULL", unique=True)
    op.create_index("idx_tasks_project", "tasks", ["project", "status", "priority", "created_at", "number"])
    op.create_table(
        "task_dependencies",
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("depends_on_task_id", TEXT, nullable=False),
        sa.Column("met", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("task_id", "depends_on_task_id", name=op.f("pk_task_dependencies")),
        _of_task("task_dependencies"),
        sa.ForeignKeyConstraint(
            ["depends_on_task_id"],
            ["tasks.id"],
            name=op.f("fk_task_dependencies_depends_on_task_id"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("task_id <> depends_on_task_id", name=op.f("ck_task_dependencies_itself")),
    )
    op.create_index("idx_task_dependencies_reverse", "task_dependencies", ["depends_on_task_id", "task_id"])
    op.create_table(
        "task_scopes",
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("pattern", TEXT, nullable=False),
        sa.Column("mode", TEXT, nullable=False, server_default="exclusive"),
        sa.PrimaryKeyConstraint("task_id", "pattern", name=op.f("pk_task_scopes")),
        _of_task("task_scopes"),
        sa.CheckConstraint("mode IN ('exclusive', 'shared')", name=op.f("ck_task_scopes_mode")),
    )
    op.create_table(
        "attempts",
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("outcome", TEXT),
        sa.Column("reason", TEXT, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("task_id", "attempt", name=op.f("pk_attempts")),
        _of_task("attempts"),
        sa.CheckConstraint(
            "outcome IN ('completed', 'submitted', 'blocked', 'released', 'transferred', 'expired', 'cancelled')",
            name=op.f("ck_attempts_outcome"),
        ),
        sa.CheckConstraint("(outcome IS NULL) = (ended_at IS NULL)", name=op.f("ck_attempts_ended")),
    )
    op.create_index(
        "idx_attempts_open",
        "attempts",
        ["task_id"],
        unique=True,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "notes",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("author", TEXT, nullable=False),
        sa.Column("note_type", TEXT),
        sa.Column("content", TEXT, nullable=False),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notes")),
        _of_task("notes"),
        sa.CheckConstraint(
            "note_type IN ('PROGRESS', 'ERROR', 'DECISION', 'REVIEW', 'SYSTEM', 'BLOCKED', 'REJECTED', 'COMMENT')",
            name=op.f("ck_notes_note_type"),
        ),
        sqlite_autoincrement=True,
    )
    op.create_index("idx_notes_task", "notes", ["task_id", "id"])
    op.create_table(
        "history",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("action", TEXT, nullable=False),
        sa.Column("attempt", sa.Integer()),
        sa.Column("detail", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_history")),
        _of_task("history"),
        sqlite_autoincrement=True,
    )
    op.create_index("idx_history_task", "history", ["task_id", "id"])
    op.create_table(
        "counters",
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("value", BIGINT, nullable=False),
        sa.PrimaryKeyConstraint("kind", name=op.f("pk_counters")),
    )
    op.create_table(
        "schema_window",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("revision", TEXT, nullable=False),
        sa.Column("oldest_writer", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_schema_window")),
        sa.CheckConstraint("id = 1", name=op.f("ck_schema_window_one_row")),
    )
    op.execute("INSERT INTO counters (kind, value) VALUES ('task', 0)")
    op.execute("INSERT INTO schema_window (id, revision, oldest_writer) VALUES (1, '0001', 1)")


def downgrade() -> None:
    for table in (
        "schema_window",
        "counters",
        "history",
        "notes",
        "attempts",
        "task_scopes",
        "task_dependencies",
        "tasks",
        "projects",
    ):
        op.drop_table(table)


def _partial(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, "tasks", columns, unique=unique, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _of_task(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f(f"fk_{table}_task_id"), ondelete="CASCADE")
