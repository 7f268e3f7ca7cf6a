"""Sessions of an agent by their last sign of life: the list of agents reads one of each, not all that ever were.

What changes, and why: no session is ever deleted, and whoever listed the agents read all sessions of each, those that
ended long ago too; the index gives the latest of an agent, and those that may be live. It takes the place of
`idx_sessions_agent`, whose order nobody asked for.
Before or after deploying code: either; programs of the revision before go on writing.
Cost on a large table: the one index is written where the other was, and with each sign of life. On Postgres it is built
CONCURRENTLY, while others read and write: it scans the table twice, and waits, for a minute at most, for transactions
that were open before; when they last longer it fails and can be run again, which first drops the unfinished index; that
waits as an ALTER does. An index of that name that is another is left alone, and refused. An empty table is indexed at
once. On SQLite the build reads the table once, within the upgrade's transaction.
What the downgrade loses: the index. That it replaced is built again, while whoever writes a session waits.
"""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

NAME = "idx_sessions_seen"
REPLACED = "idx_sessions_agent"
WAIT = "60s"
# A build that failed leaves an index under this name that is no good; one that ended before its revision was recorded
# is kept. What anybody else made under this name is theirs.
CLEAR = f"""
DO $$ DECLARE found oid := to_regclass(quote_ident(current_schema()) || '.{NAME}'); BEGIN
  IF found IS NOT NULL AND pg_get_indexdef(found) IS DISTINCT FROM format(
    'CREATE INDEX {NAME} ON %I.sessions USING btree (agent, heartbeat_at, id)',
    current_schema()
  ) THEN
    RAISE EXCEPTION '{NAME} in schema % is not what the board needs under this name', current_schema()
      USING ERRCODE = 'duplicate_table', HINT = 'rename it, then run this again';
  ELSIF EXISTS (SELECT FROM pg_index WHERE indexrelid = found AND NOT indisvalid) THEN
    EXECUTE format('DROP INDEX %s', found::regclass);
  END IF;
END $$
"""


def upgrade() -> None:
    made = f"{NAME} ON sessions (agent, heartbeat_at, id)"
    if _beside_others():
        with op.get_context().autocommit_block():
            op.execute(CLEAR)
            # Whoever waits here lets others pass, so it may wait longer than an ALTER.
            op.execute(f"SET lock_timeout = '{WAIT}'")
            op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {made}")
            op.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {REPLACED}")
            op.execute("SET lock_timeout = '2s'")
    elif op.get_context().dialect.name == "postgresql":
        op.execute(CLEAR)
        op.execute(f"CREATE INDEX IF NOT EXISTS {made}")
        op.execute(f"DROP INDEX IF EXISTS {REPLACED}")
    else:
        op.execute(f"CREATE INDEX {made}")
        op.execute(f"DROP INDEX {REPLACED}")
    op.execute("UPDATE schema_window SET revision = '0011'")


def downgrade() -> None:
    op.execute(f"CREATE INDEX {REPLACED} ON sessions (agent, started_at, id)")
    op.execute(f"DROP INDEX {NAME}")
    op.execute("UPDATE schema_window SET revision = '0010'")


def _beside_others() -> bool:
    """Whether it is built beside others who read and write; a caller's own transaction does not allow that."""
    context = op.get_context()
    if context.dialect.name != "postgresql":
        return False
    if context.as_sql:
        return True
    own = context.opts.get("transaction_per_migration")
    return bool(own and op.get_bind().exec_driver_sql("SELECT 1 FROM sessions LIMIT 1").first())
