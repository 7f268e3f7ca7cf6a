"""Events: the log, its one order, and the cursors of those who read it.

What changes, and why: the event log. On SQLite the order is the id's, and `event_feed` is a view. On Postgres an id can
become visible after a higher one, so a position is given after commit: events carry their transaction's id, and
`coordinate_number_events` appends to `event_feed` what is visible now and was not in the snapshot stored by the last
step. A committed transaction is in exactly one such difference, a rolled-back one in none, and an open one delays
nobody. See docs/decisions/event-order.md.
Before or after deploying code: before.
Cost on a large table: none, the tables are new.
What the downgrade loses: all events and cursors.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
JSON_OBJECT = sa.JSON().with_variant(sa.Text(), "sqlite")


class Xid8(sa.types.UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "xid8"


class Snapshot(sa.types.UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "pg_snapshot"


# Runs in a READ COMMITTED transaction of its own. Whoever does not get the lock reads what is numbered already. The
# INSERT and the UPDATE are one statement and so share one snapshot, which is the one stored. A batch that is full keeps
# the old snapshot: the next step looks at the same difference again, without what has its position by then.
# SECURITY DEFINER: a role that may only read can still be served; hence its search_path is pinned below to this schema,
# with the caller's temporary tables last. After a restore into another cluster the stored transaction ids mean
# nothing: seen by the system identifier, and the next step looks at all events once.
NUMBER_EVENTS = """
CREATE FUNCTION coordinate_number_events(batch bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $body$
DECLARE
    here text;
    since pg_snapshot;
    last bigint;
    reached bigint;
BEGIN
    IF pg_is_in_recovery() THEN
        RETURN NULL;
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/events', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT system_identifier INTO here FROM pg_control_system();
    SELECT coalesce(CASE WHEN cluster = here THEN snapshot END, CAST('1:1:' AS pg_snapshot)), position
      INTO since, last FROM event_feed_state WHERE id = 1;
    WITH fresh AS (
        SELECT e.id FROM events e WHERE e.xid >= pg_snapshot_xmax(since)
        UNION
        SELECT e.id FROM events e WHERE e.xid IN (SELECT pg_snapshot_xip(since))
    ), batch_of AS (
        SELECT f.id FROM fresh f
         WHERE NOT EXISTS (SELECT 1 FROM event_feed n WHERE n.event_id = f.id)
         ORDER BY f.id LIMIT batch
    ), appended AS (
        INSERT INTO event_feed (position, event_id)
        SELECT last + row_number() OVER (ORDER BY id), id FROM batch_of
        RETURNING position
    )
    UPDATE event_feed_state
       SET position = last + (SELECT count(*) FROM appended),
           snapshot = CASE WHEN (SELECT count(*) FROM appended) < batch THEN pg_current_snapshot() ELSE since END,
           cluster = here
     WHERE id = 1 AND EXISTS (SELECT 1 FROM appended)
    RETURNING position INTO reached;
    RETURN coalesce(reached, last);
END
$body$
"""
PIN_SEARCH_PATH = """
DO $body$ BEGIN
    EXECUTE format(
        'ALTER FUNCTION coordinate_number_events(bigint) SET search_path TO %I, pg_temp', current_schema());
END $body$
"""


def upgrade() -> None:
    postgres = op.get_context().dialect.name == "postgresql"
    own = [sa.Column("xid", Xid8(), nullable=False, server_default=sa.text("pg_current_xact_id()"))]
    op.create_table(
        "events",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("event_type", TEXT, nullable=False),
        sa.Column("payload", JSON_OBJECT, nullable=False),
        sa.Column("ttl_seconds", BIGINT, server_default="259200"),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("agent", TEXT),
        sa.Column("ref", TEXT),
        sa.Column("message", TEXT, nullable=False, server_default=""),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        *(own if postgres else []),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        sa.CheckConstraint("ttl_seconds >= 0", name=op.f("ck_events_ttl_seconds")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "event_cursors",
        sa.Column("consumer", TEXT, nullable=False),
        sa.Column("delivered", BIGINT, nullable=False),
        sa.Column("acknowledged", BIGINT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("consumer", name=op.f("pk_event_cursors")),
        sa.CheckConstraint("acknowledged <= delivered", name=op.f("ck_event_cursors_order")),
    )
    if postgres:
        _feed_on_postgres()
    else:
        op.execute("CREATE VIEW event_feed AS SELECT id AS position, id AS event_id FROM events")
    op.execute("INSERT INTO counters (kind, value) VALUES ('events_pruned', 0)")
    op.execute("UPDATE schema_window SET revision = '0002', oldest_writer = 2")


def _feed_on_postgres() -> None:
    op.create_index("idx_events_xid", "events", ["xid", "id"])
    op.create_table(
        "event_feed",
        sa.Column("position", sa.BigInteger(), nullable=False, autoincrement=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_event_feed")),
        sa.UniqueConstraint("event_id", name=op.f("uq_event_feed_event_id")),
        sa.ForeignKeyConstraint(["event_id"], ["events.id"], name=op.f("fk_event_feed_event_id"), ondelete="CASCADE"),
    )
    op.create_table(
        "event_feed_state",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("position", sa.BigInteger(), nullable=False, server_default="0"),
        sa.Column("snapshot", Snapshot()),
        sa.Column("cluster", TEXT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_event_feed_state")),
        sa.CheckConstraint("id = 1", name=op.f("ck_event_feed_state_one_row")),
    )
    op.execute("INSERT INTO event_feed_state (id, position) VALUES (1, 0)")
    op.execute(NUMBER_EVENTS)
    op.execute(PIN_SEARCH_PATH)


def downgrade() -> None:
    if op.get_context().dialect.name == "postgresql":
        op.execute("DROP FUNCTION coordinate_number_events(bigint)")
        op.drop_table("event_feed_state")
        op.drop_table("event_feed")
    else:
        op.execute("DROP VIEW event_feed")
    op.drop_table("event_cursors")
    op.drop_table("events")
    op.execute("DELETE FROM counters WHERE kind = 'events_pruned'")
    op.execute("UPDATE schema_window SET revision = '0001', oldest_writer = 1")
