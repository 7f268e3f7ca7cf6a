"""Move: one row that says whether this board moves, has moved, or came from elsewhere.

What changes, and why: `board_move` holds the state of a move, its number, the other side's address and its times.
Whoever writes a board that has moved is told so by the database; the programs read here what a call that changed
nothing must know.
Before or after deploying code: before; older programs may go on, since a fence stops them by triggers.
Cost on a large table: none, the table is new.
What the downgrade loses: where this board came from. A board that moves or has moved refuses it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "board_move",
        sa.Column("id", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("move", TEXT, nullable=False),
        sa.Column("state", TEXT, nullable=False),
        sa.Column("address", TEXT, nullable=False),
        sa.Column("fenced_at", INSTANT, nullable=False),
        sa.Column("opened_at", INSTANT),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_board_move")),
        sa.CheckConstraint("id = 1", name=op.f("ck_board_move_one_row")),
        sa.CheckConstraint(
            "state IN ('moving', 'moved', 'stayed', 'arriving', 'copied', 'arrived', 'withdrawn')",
            name=op.f("ck_board_move_state"),
        ),
    )
    op.execute("UPDATE schema_window SET revision = '0007'")


def downgrade() -> None:
    op.drop_table("board_move")
    op.execute("UPDATE schema_window SET revision = '0006'")
