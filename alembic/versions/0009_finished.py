"""Finished tasks by when they ended: the page's columns and charts begin at the latest instead of reading all.

What changes, and why: `list_finished` sorted every task that ever ended, and the figures of the last days read them
all; the index gives both their order and their days.
Before or after deploying code: either; programs of the revision before go on writing.
Cost on a large table: one more index is written when a task ends. On Postgres it is built CONCURRENTLY, while others
read and write: it scans the table twice, and waits, for a minute at most, for transactions that were open before; when
they last longer it fails and can be run again. An empty table is indexed at once. On SQLite the build reads the table
once, within the upgrade's transaction.
What the downgrade loses: the index.
"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

NAME = "idx_tasks_finished"
WAIT = "60s"


def upgrade() -> None:
    made = f"{NAME} ON tasks (finished_at, number) WHERE finished_at IS NOT NULL"
    if _beside_others():
        with op.get_context().autocommit_block():
            # Whoever waits here lets others pass, so it may wait longer than an ALTER.
            op.execute(f"SET lock_timeout = '{WAIT}'")
            # A build that failed leaves an index that is no good under this name.
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {NAME}")
            op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {made}")
            op.execute("SET lock_timeout = '2s'")
    else:
        op.execute(f"CREATE INDEX {made}")
    op.execute("UPDATE schema_window SET revision = '0009'")


def downgrade() -> None:
    op.execute(f"DROP INDEX {NAME}")
    op.execute("UPDATE schema_window SET revision = '0008'")


def _beside_others() -> bool:
    """Whether it is built beside others who read and write; a caller's own transaction does not allow that."""
    context = op.get_context()
    if context.dialect.name != "postgresql":
        return False
    if context.as_sql:
        return True
    own = context.opts.get("transaction_per_migration")
    return bool(own and op.get_bind().exec_driver_sql("SELECT 1 FROM tasks LIMIT 1").first())
