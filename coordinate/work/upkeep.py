"""Pruning, in bounded batches: expired events, and old notes and history of finished tasks. Nothing of a live task."""

from __future__ import annotations

from datetime import datetime

from coordinate.db.engine import Tx

BATCH = 1_000


def prune_batch(
    tx: Tx, *, table: str, after: int, before: datetime, dry_run: bool, limit: int = BATCH
) -> tuple[int, int | None]:
    """Remove a batch of old `notes` or `history` rows of finished tasks; returns how many, and where to go on."""
    rows = tx.all(f"{table}_prunable", after=after, before=before, limit=limit)
    if not rows:
        return 0, None
    through = int(rows[-1].id)
    deleted = len(rows) if dry_run else tx.count(f"{table}_delete", after=after, through=through, before=before)
    return deleted, through if len(rows) == limit else None
