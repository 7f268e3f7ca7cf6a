"""Tokens: what lets clients of the server in.

What changes, and why: one table of hashes, so that a client on another machine is somebody, with a role and an end.
Before or after deploying code: before; older programs never look at it and may go on writing.
Cost on a large table: none is touched.
What the downgrade loses: every token. Their holders need new ones.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0004"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
INSTANT = sa.DateTime(timezone=True).with_variant(sa.Text(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", BIGINT, sa.Identity(always=False), primary_key=True),
        sa.Column("hash", TEXT, nullable=False),
        sa.Column("agent", TEXT, nullable=False),
        sa.Column("role", TEXT, nullable=False),
        sa.Column("label", TEXT, nullable=False, server_default=""),
        sa.Column("created_by", TEXT, nullable=False),
        sa.Column("created_at", INSTANT, nullable=False),
        sa.Column("expires_at", INSTANT),
        sa.Column("last_used_at", INSTANT),
        sa.Column("revoked_at", INSTANT),
        sa.UniqueConstraint("hash", name=op.f("uq_tokens_hash")),
        sa.ForeignKeyConstraint(["agent"], ["agents.name"], name=op.f("fk_tokens_agent")),
        sa.CheckConstraint("role IN ('worker', 'reviewer', 'manager', 'human', 'admin')", name=op.f("ck_tokens_role")),
        sqlite_autoincrement=True,
    )
    op.execute("UPDATE schema_window SET revision = '0006'")


def downgrade() -> None:
    op.drop_table("tokens")
    op.execute("UPDATE schema_window SET revision = '0004'")
