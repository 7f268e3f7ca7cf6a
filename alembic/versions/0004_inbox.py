"""Inbox: what only a human can give. Asks, responses, deliveries, boards and their rows, annotations.

What changes, and why: an agent that waits for a person needs a place where the answer cannot be lost, overwritten
unread, or acted on in an outdated version. A task that waits for a human names its ask (`tasks.ask_id`), and one that
was answered is set aside for the asker for a while.
Before or after deploying code: together: a program of 0003 may not write any more, since it would put a task back into
the queue whose ask is still open.
Cost on a large table: `tasks` gets one column without a default (no rewrite) and a partial index that is empty at
first; on Postgres it is built while writers wait, but scans one column of the table only once.
What the downgrade loses: asks, responses, deliveries, boards, rows and annotations; tasks set aside for an asker return
to the queue. Counters stay, so that no number of an ask is ever given again.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")
JSON = sa.JSON().with_variant(sa.Text(), "sqlite")
COUNTERS = ("ask", "annotation", "board", "row")


def upgrade() -> None:
    op.create_table(
        "boards",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("number", BIGINT, nullable=False),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False, server_default="active"),
        sa.Column("stream", TEXT, nullable=False, server_default=""),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("revision", BIGINT, nullable=False, server_default="1"),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("archived_at", INSTANT),
        sa.Column("archived_by", TEXT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_boards")),
        sa.UniqueConstraint("number", name=op.f("uq_boards_number")),
        sa.UniqueConstraint("project", "title", name=op.f("uq_boards_project")),
        sa.CheckConstraint("status IN ('active', 'archived')", name=op.f("ck_boards_status")),
        sa.CheckConstraint("(status = 'archived') = (archived_at IS NOT NULL)", name=op.f("ck_boards_archived")),
    )
    _partial("idx_boards_active", "boards", ["project", "updated_at", "number"], "status = 'active'")
    op.create_table(
        "board_rows",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("number", BIGINT, nullable=False),
        sa.Column("board_id", TEXT, nullable=False),
        sa.Column("label", TEXT, nullable=False),
        sa.Column("status", TEXT, nullable=False, server_default="tracked"),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("note", TEXT, nullable=False, server_default=""),
        sa.Column("next_step", TEXT, nullable=False, server_default=""),
        sa.Column("action_owner", TEXT),
        sa.Column("impact", TEXT, nullable=False, server_default=""),
        sa.Column("next_after", TEXT, nullable=False, server_default=""),
        sa.Column("options", JSON),
        sa.Column("context", TEXT, nullable=False, server_default=""),
        sa.Column("outcome", TEXT, nullable=False, server_default=""),
        sa.Column("outcome_at", INSTANT),
        sa.Column("step_no", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("revision", BIGINT, nullable=False, server_default="1"),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.Column("removed_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board_rows")),
        sa.UniqueConstraint("number", name=op.f("uq_board_rows_number")),
        sa.UniqueConstraint("board_id", "label", name=op.f("uq_board_rows_board_id")),
        sa.ForeignKeyConstraint(["board_id"], ["boards.id"], name=op.f("fk_board_rows_board_id"), ondelete="CASCADE"),
        sa.CheckConstraint(
            "status IN ('tracked', 'partial', 'missing', 'na', 'done', 'blocked')", name=op.f("ck_board_rows_status")
        ),
        sa.CheckConstraint("action_owner IN ('decision', 'task', 'approval')", name=op.f("ck_board_rows_action_owner")),
        sa.CheckConstraint("step_no >= 0", name=op.f("ck_board_rows_step_no")),
        sa.CheckConstraint("removed_at IS NULL OR status <> 'blocked'", name=op.f("ck_board_rows_removed")),
    )
    _partial("idx_board_rows_board", "board_rows", ["board_id", "position", "number"], "removed_at IS NULL")
    op.create_table(
        "asks",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("number", BIGINT, nullable=False),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("stream", TEXT, nullable=False, server_default=""),
        sa.Column("kind", TEXT, nullable=False, server_default="question"),
        sa.Column("action_owner", TEXT),
        sa.Column("surface", TEXT, nullable=False, server_default="alone"),
        sa.Column("surface_id", TEXT, nullable=False),
        sa.Column("step_no", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("dedup_key", TEXT),
        sa.Column("blocking", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("title", TEXT, nullable=False),
        sa.Column("detail", TEXT, nullable=False, server_default=""),
        sa.Column("next_step", TEXT, nullable=False, server_default=""),
        sa.Column("impact", TEXT, nullable=False, server_default=""),
        sa.Column("next_after", TEXT, nullable=False, server_default=""),
        sa.Column("options", JSON),
        sa.Column("context", TEXT, nullable=False, server_default=""),
        sa.Column("asked_by", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("state", TEXT, nullable=False, server_default="open"),
        sa.Column("revision", BIGINT, nullable=False, server_default="1"),
        sa.Column("snoozed_until", INSTANT),
        sa.Column("expires_at", INSTANT),
        sa.Column("response_seq", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("handled_at", INSTANT),
        sa.Column("delivered_seq", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("seen_at", INSTANT),
        sa.Column("seen_by", TEXT),
        sa.Column("taken_by", TEXT),
        sa.Column("taken_session_id", TEXT),
        sa.Column("taken_until", INSTANT),
        sa.Column("outcome", TEXT, nullable=False, server_default=""),
        sa.Column("outcome_at", INSTANT),
        sa.Column("closed_at", INSTANT),
        sa.Column("closed_by", TEXT),
        sa.Column("close_reason", TEXT, nullable=False, server_default=""),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("updated_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_asks")),
        sa.UniqueConstraint("number", name=op.f("uq_asks_number")),
        sa.CheckConstraint("kind IN ('question', 'note', 'done')", name=op.f("ck_asks_kind")),
        sa.CheckConstraint("action_owner IN ('decision', 'task', 'approval')", name=op.f("ck_asks_action_owner")),
        sa.CheckConstraint("(kind = 'question') = (action_owner IS NOT NULL)", name=op.f("ck_asks_owned")),
        sa.CheckConstraint("surface IN ('alone', 'task', 'row')", name=op.f("ck_asks_surface")),
        sa.CheckConstraint("state IN ('open', 'answered', 'closed')", name=op.f("ck_asks_state")),
        sa.CheckConstraint(
            "state = 'closed' OR (state = 'answered') = (handled_at IS NOT NULL)", name=op.f("ck_asks_handled")
        ),
        sa.CheckConstraint(
            "(state = 'closed') = (closed_at IS NOT NULL) AND (state = 'closed') = (outcome <> '')"
            " AND (state = 'closed') = (outcome_at IS NOT NULL) AND (state = 'closed') = (close_reason <> '')",
            name=op.f("ck_asks_closed"),
        ),
        sa.CheckConstraint(
            "close_reason IN ('', 'done', 'superseded', 'withdrawn', 'dismissed', 'expired')",
            name=op.f("ck_asks_close_reason"),
        ),
        sa.CheckConstraint("delivered_seq >= 0 AND delivered_seq <= response_seq", name=op.f("ck_asks_delivered_seq")),
        sa.CheckConstraint("(seen_at IS NULL) = (seen_by IS NULL)", name=op.f("ck_asks_seen")),
        sa.CheckConstraint("step_no > 0 AND revision > 0", name=op.f("ck_asks_step_no")),
    )
    live = "closed_at IS NULL"
    _partial("idx_asks_place", "asks", ["surface", "surface_id"], live, unique=True)
    _partial("idx_asks_dedup", "asks", ["project", "dedup_key"], f"dedup_key IS NOT NULL AND {live}", unique=True)
    _partial("idx_asks_live", "asks", ["project", "number"], live)
    _partial("idx_asks_answered", "asks", ["project", "number"], "handled_at IS NOT NULL AND outcome = ''")
    _partial("idx_asks_expiry", "asks", ["expires_at", "number"], "expires_at IS NOT NULL AND state = 'open'")
    op.create_index("idx_asks_steps", "asks", ["surface", "surface_id", "step_no"])
    op.create_index("idx_asks_project", "asks", ["project", "number"])
    op.create_table(
        "ask_responses",
        sa.Column("ask_id", TEXT, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", TEXT, nullable=False),
        sa.Column("channel", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False, server_default=""),
        sa.Column("choice", TEXT),
        sa.Column("context", TEXT, nullable=False, server_default=""),
        sa.Column("ask_revision", BIGINT, nullable=False),
        sa.Column("said_by", TEXT, nullable=False),
        sa.Column("session_id", TEXT),
        sa.Column("client_id", TEXT),
        sa.Column("client_seq", BIGINT),
        sa.Column("action_id", TEXT),
        sa.Column("folded", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("ask_id", "seq", name=op.f("pk_ask_responses")),
        sa.ForeignKeyConstraint(["ask_id"], ["asks.id"], name=op.f("fk_ask_responses_ask_id"), ondelete="CASCADE"),
        sa.CheckConstraint(
            "kind IN ('answer', 'clarify', 'decline', 'handled', 'withdrawn')", name=op.f("ck_ask_responses_kind")
        ),
        sa.CheckConstraint("channel IN ('inbox', 'chat')", name=op.f("ck_ask_responses_channel")),
        sa.CheckConstraint("seq > 0", name=op.f("ck_ask_responses_seq")),
    )
    _partial(
        "idx_ask_responses_action",
        "ask_responses",
        ["ask_id", "client_id", "action_id"],
        "action_id IS NOT NULL",
        unique=True,
    )
    op.create_table(
        "ask_deliveries",
        sa.Column("ask_id", TEXT, nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("reader", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("context_revision", BIGINT, nullable=False, server_default="0"),
        sa.Column("times", sa.Integer(), nullable=False, server_default="1"),
        sa.Column("first_at", INSTANT, nullable=False),
        sa.Column("last_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("ask_id", "seq", "reader", name=op.f("pk_ask_deliveries")),
        sa.ForeignKeyConstraint(
            ["ask_id", "seq"],
            ["ask_responses.ask_id", "ask_responses.seq"],
            name=op.f("fk_ask_deliveries_ask_id"),
            ondelete="CASCADE",
        ),
        sa.CheckConstraint("times > 0", name=op.f("ck_ask_deliveries_times")),
    )
    op.create_table(
        "annotations",
        sa.Column("id", TEXT, nullable=False),
        sa.Column("number", BIGINT, nullable=False),
        sa.Column("project", TEXT, nullable=False, server_default="default"),
        sa.Column("ask_id", TEXT),
        sa.Column("row_id", TEXT),
        sa.Column("step_no", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("author", TEXT, nullable=False),
        sa.Column("text", TEXT, nullable=False),
        sa.Column("seen_at", INSTANT),
        sa.Column("seen_by", TEXT),
        sa.Column("closed_at", INSTANT),
        sa.Column("close_reason", TEXT, nullable=False, server_default=""),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_annotations")),
        sa.UniqueConstraint("number", name=op.f("uq_annotations_number")),
        sa.ForeignKeyConstraint(["ask_id"], ["asks.id"], name=op.f("fk_annotations_ask_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["row_id"], ["board_rows.id"], name=op.f("fk_annotations_row_id"), ondelete="CASCADE"),
        sa.CheckConstraint("(ask_id IS NULL) <> (row_id IS NULL)", name=op.f("ck_annotations_place")),
        sa.CheckConstraint("(seen_at IS NULL) = (seen_by IS NULL)", name=op.f("ck_annotations_seen")),
        sa.CheckConstraint(
            "close_reason IN ('', 'acknowledged', 'withdrawn')", name=op.f("ck_annotations_close_reason")
        ),
        sa.CheckConstraint("(closed_at IS NULL) = (close_reason = '')", name=op.f("ck_annotations_closed")),
    )
    _partial("idx_annotations_live", "annotations", ["project", "number"], live)
    _partial("idx_annotations_ask", "annotations", ["ask_id", "number"], "ask_id IS NOT NULL")
    _partial("idx_annotations_row", "annotations", ["row_id", "number"], "row_id IS NOT NULL")
    op.create_table(
        "annotation_deliveries",
        sa.Column("annotation_id", TEXT, nullable=False),
        sa.Column("reader", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("first_at", INSTANT, nullable=False),
        sa.PrimaryKeyConstraint("annotation_id", "reader", name=op.f("pk_annotation_deliveries")),
        sa.ForeignKeyConstraint(
            ["annotation_id"],
            ["annotations.id"],
            name=op.f("fk_annotation_deliveries_annotation_id"),
            ondelete="CASCADE",
        ),
    )
    op.add_column("tasks", sa.Column("ask_id", TEXT))
    _partial(
        "idx_tasks_reserved", "tasks", ["reserved_for", "role_boundary", "priority", "number"], "parked = 'reserved'"
    )
    for kind in COUNTERS:
        op.execute(
            f"INSERT INTO counters (kind, value) SELECT '{kind}', 0"
            f" WHERE NOT EXISTS (SELECT 1 FROM counters WHERE kind = '{kind}')"
        )
    op.execute("UPDATE schema_window SET revision = '0004', oldest_writer = 4")


def downgrade() -> None:
    op.execute("UPDATE tasks SET parked = '', parked_until = NULL, reserved_for = NULL WHERE parked = 'reserved'")
    op.drop_index("idx_tasks_reserved", table_name="tasks")
    op.drop_column("tasks", "ask_id")
    for table in (
        "annotation_deliveries",
        "annotations",
        "ask_deliveries",
        "ask_responses",
        "asks",
        "board_rows",
        "boards",
    ):
        op.drop_table(table)
    op.execute("UPDATE schema_window SET revision = '0003', oldest_writer = 3")


def _partial(name: str, table: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    clause = sa.text(where)
    op.create_index(name, table, columns, unique=unique, sqlite_where=clause, postgresql_where=clause)
