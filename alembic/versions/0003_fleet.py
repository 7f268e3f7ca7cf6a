"""Fleet: agents and their sessions, scope leases and locks, worktrees, replay bookkeeping.

What changes, and why: who is alive, who may touch which files, which working copies are open. A task that meets a held
scope is set aside on that lease (`tasks.parked_on`), so that it does not stand in front of the queue.
Before or after deploying code: together: a program of 0002 may not write any more, since it would claim tasks without
their scopes.
Cost on a large table: `tasks` gets two columns with constant defaults (no rewrite) and two partial indexes that are
empty at first; on Postgres they are built while writers wait, but scan one column of the table only once.
What the downgrade loses: agents, sessions, leases, locks, worktrees and what was told of losses; tasks set aside for a
scope return to the queue. Counters stay, so that no fence and no minted number is ever given again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("name", TEXT, nullable=False),
        sa.Column("kind", TEXT, nullable=False, server_default="agent"),
        sa.Column("role", TEXT),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_agents")),
        sa.CheckConstraint("kind IN ('agent', 'human')", name=op.f("ck_agents_kind")),
    )
    op.create_table(
        "sessions",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("host", TEXT, nullable=False, server_default=""),
        sa.Column("pid", sa.BigInteger()),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("stream", TEXT, nullable=False, server_default=""),
        sa.Column("doing", TEXT, nullable=False, server_default=""),
        sa.Column("detail", TEXT, nullable=False, server_default=""),
        sa.Column("ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("started_at", INSTANT, nullable=False),
        sa.Column("heartbeat_at", INSTANT, nullable=False),
        sa.Column("last_call_at", INSTANT, nullable=False),
        sa.Column("ended_at", INSTANT),
        sa.Column("end_reason", TEXT, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
        sa.ForeignKeyConstraint(["agent"], ["agents.name"], name=op.f("fk_sessions_agent")),
        sa.CheckConstraint("ttl_seconds > 0", name=op.f("ck_sessions_ttl_seconds")),
    )
    op.create_index("idx_sessions_agent", "sessions", ["agent", "started_at", "id"])
    _partial("idx_sessions_stale", "sessions", ["heartbeat_at", "id"], "ended_at IS NULL")
    op.create_table(
        "worktrees",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("task_id", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("branch", TEXT, nullable=False),
        sa.Column("root", TEXT, nullable=False),
        sa.Column("base", TEXT, nullable=False, server_default=""),
        sa.Column("state", TEXT, nullable=False, server_default="open"),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("closed_at", INSTANT),
        sa.Column("close_reason", TEXT, nullable=False, server_default=""),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worktrees")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_worktrees_task_id"), ondelete="CASCADE"),
        sa.CheckConstraint(
            "state IN ('open', 'gating', 'integrating', 'conflict', 'replaying', 'merged', 'aborted')",
            name=op.f("ck_worktrees_state"),
        ),
        sa.CheckConstraint(
            "(closed_at IS NULL) = (state NOT IN ('merged', 'aborted'))", name=op.f("ck_worktrees_closed")
        ),
        sqlite_autoincrement=True,
    )
    _partial("idx_worktrees_live", "worktrees", ["task_id"], "closed_at IS NULL", unique=True)
    op.create_table(
        "leases",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("resource", TEXT, nullable=False),
        sa.Column("prefix", TEXT, nullable=False, server_default=""),
        sa.Column("mode", TEXT, nullable=False, server_default="exclusive"),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("task_id", TEXT),
        sa.Column("attempt", sa.Integer()),
        sa.Column("worktree_id", BIGINT),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("ttl_seconds", sa.Integer(), nullable=False),
        sa.Column("acquired_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("released_at", INSTANT),
        sa.Column("release_reason", TEXT),
        sa.Column("told_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_leases")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_leases_session_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_leases_task_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["worktree_id"], ["worktrees.id"], name=op.f("fk_leases_worktree_id"), ondelete="CASCADE"
        ),
        sa.UniqueConstraint("fence", name=op.f("uq_leases_fence")),
        sa.CheckConstraint("kind IN ('scope', 'lock')", name=op.f("ck_leases_kind")),
        sa.CheckConstraint("mode IN ('exclusive', 'shared')", name=op.f("ck_leases_mode")),
        sa.CheckConstraint("depth > 0 AND ttl_seconds > 0", name=op.f("ck_leases_depth")),
        sa.CheckConstraint("(expires_at IS NULL) = (worktree_id IS NOT NULL)", name=op.f("ck_leases_expiry")),
        sa.CheckConstraint("(released_at IS NULL) = (release_reason IS NULL)", name=op.f("ck_leases_released")),
        sqlite_autoincrement=True,
    )
    held = "released_at IS NULL"
    untold = "told_at IS NULL"
    _partial("idx_leases_lock", "leases", ["project", "resource"], f"kind = 'lock' AND {held}", unique=True)
    _partial("idx_leases_scope", "leases", ["project", "prefix", "id"], f"kind = 'scope' AND {held}")
    _partial("idx_leases_expiry", "leases", ["expires_at", "id"], held)
    _partial("idx_leases_session", "leases", ["session_id", "id"], held)
    _partial("idx_leases_task", "leases", ["task_id", "id"], f"task_id IS NOT NULL AND {held}")
    _partial("idx_leases_lost", "leases", ["session_id", "id"], f"release_reason IN ('expired', 'swept') AND {untold}")
    op.create_table(
        "applied_events",
        sa.Column("stream", TEXT, nullable=False),
        sa.Column("event_key", TEXT, nullable=False),
        sa.Column("applied_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("stream", "event_key", name=op.f("pk_applied_events")),
    )
    op.add_column("tasks", sa.Column("scoped", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("tasks", sa.Column("parked_on", BIGINT))
    _partial("idx_tasks_parked_on", "tasks", ["parked_on", "number"], "parked = 'scope'")
    _partial("idx_tasks_session", "tasks", ["session_id", "number"], "status = 'IN_PROGRESS'")
    op.add_column("attempts", sa.Column("told_at", INSTANT))
    _partial("idx_attempts_lost", "attempts", ["session_id"], f"outcome = 'expired' AND {untold}")
    op.execute("UPDATE tasks SET scoped = true WHERE id IN (SELECT task_id FROM task_scopes)")
    op.execute(
        "INSERT INTO counters (kind, value) SELECT 'fence', 0"
        " WHERE NOT EXISTS (SELECT 1 FROM counters WHERE kind = 'fence')"
    )
    op.execute("UPDATE schema_window SET revision = '0003', oldest_writer = 3")


def downgrade() -> None:
    op.execute("UPDATE tasks SET parked = '', parked_until = NULL WHERE parked = 'scope'")
    op.drop_index("idx_attempts_lost", table_name="attempts")
    op.drop_column("attempts", "told_at")
    op.drop_index("idx_tasks_session", table_name="tasks")
    op.drop_index("idx_tasks_parked_on", table_name="tasks")
    op.drop_column("tasks", "parked_on")
    op.drop_column("tasks", "scoped")
    for table in ("applied_events", "leases", "worktrees", "sessions", "agents"):
        op.drop_table(table)
    op.execute("UPDATE schema_window SET revision = '0002', oldest_writer = 2")


def _partial(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    clause = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=clause, postgresql_where=clause)
