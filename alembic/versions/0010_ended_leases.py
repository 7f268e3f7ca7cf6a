"""Leases that ended, by the session that had them: what a session lost is found among its own, not among all.

What changes, and why: no lease is ever deleted, and whoever asked what a session had lost, or gave back a lock that it
had no more, read all that ever ended; the index gives those of one session, and each resource's latest first.
Before or after deploying code: either; programs of the revision before go on writing.
Cost on a large table: one more index is written when a lease ends. On Postgres it is built CONCURRENTLY, while others
read and write: it scans the table twice, and waits, for a minute at most, for transactions that were open before; when
they last longer it fails and can be run again, which first drops the unfinished index; that waits as an ALTER does. An
index of that name that is another is left alone, and refused. An empty table is indexed at once. On SQLite the build
reads the table once, within the upgrade's transaction.
What the downgrade loses: the index.
"""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

NAME = "idx_leases_ended"
WAIT = "60s"
# A build that failed leaves an index under this name that is no good; one that ended before its revision was recorded
# is kept. What anybody else made under this name is theirs.
CLEAR = f"""
DO $$ DECLARE found oid := to_regclass(quote_ident(current_schema()) || '.{NAME}'); BEGIN
  IF found IS NOT NULL AND pg_get_indexdef(found) IS DISTINCT FROM format(
    'CREATE INDEX {NAME} ON %I.leases USING btree (session_id, resource, id) WHERE (released_at IS NOT NULL)',
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
    made = f"{NAME} ON leases (session_id, resource, id) WHERE released_at IS NOT NULL"
    if _beside_others():
        with op.get_context().autocommit_block():
            op.execute(CLEAR)
            # Whoever waits here lets others pass, so it may wait longer than an ALTER.
            op.execute(f"SET lock_timeout = '{WAIT}'")
            op.execute(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {made}")
            op.execute("SET lock_timeout = '2s'")
    elif op.get_context().dialect.name == "postgresql":
        op.execute(CLEAR)
        op.execute(f"CREATE INDEX IF NOT EXISTS {made}")
    else:
        op.execute(f"CREATE INDEX {made}")
    op.execute("UPDATE schema_window SET revision = '0010'")


def downgrade() -> None:
    op.execute(f"DROP INDEX {NAME}")
    op.execute("UPDATE schema_window SET revision = '0009'")


def _beside_others() -> bool:
    """Whether it is built beside others who read and write; a caller's own transaction does not allow that."""
    context = op.get_context()
    if context.dialect.name != "postgresql":
        return False
    if context.as_sql:
        return True
    own = context.opts.get("transaction_per_migration")
    return bool(own and op.get_bind().exec_driver_sql("SELECT 1 FROM leases LIMIT 1").first())
