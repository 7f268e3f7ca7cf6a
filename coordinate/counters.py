"""Counters mint numbers: each once, rising, without a gap after a failed transaction."""

from __future__ import annotations

from datetime import datetime

from coordinate.db.engine import Tx


def take(tx: Tx, kind: str, count: int = 1) -> tuple[int, datetime]:
    """Mint `count` numbers; returns the first of them and the database's time.

    The counter's row stays locked until the transaction ends, so whoever else mints waits, and a rolled-back
    transaction gives its numbers back.
    """
    row = tx.one("counter_take", kind=kind, count=count)
    if row is None:
        raise LookupError(f"the counter {kind!r} is missing; the migrations make it")
    return int(row.value) - count + 1, row.now


def raise_to(tx: Tx, kind: str, least: int) -> None:
    """Lift a counter so that the next number is above `least`; never lowers it."""
    tx.run("counter_raise", kind=kind, least=least)
