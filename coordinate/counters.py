"""Counters mint numbers: each once, rising, without a gap after a failed transaction."""

from __future__ import annotations

from datetime import datetime

from coordinate import inputs
from coordinate.db.engine import Tx
from coordinate.errors import InvalidState, NotABoard


def take(tx: Tx, kind: str, count: int = 1) -> tuple[int, datetime]:
    """Mint `count` numbers; returns the first of them and the database's time.

    The counter's row stays locked until the transaction ends, so whoever else mints waits, and a rolled-back
    transaction gives its numbers back.
    """
    row = tx.one("counter_take", kind=kind, count=count)
    if row is None:
        raise NotABoard(
            f"the counter {kind} is missing, which the migrations make",
            hint="somebody deleted it: coordinate db doctor --deep lists what is missing",
        )
    return int(row.value) - count + 1, row.now


def raise_to(tx: Tx, kind: str, least: int) -> None:
    """Lift a counter so that the next number is above `least`; never lowers it."""
    tx.run("counter_raise", kind=kind, least=least)


def raise_ids(tx: Tx, table: str, least: int, *, room: int = 0) -> bool:
    """Lift a table's ids so that the next is above `least`; never lowers them. False where only their owner may.

    `room`: so much further where others may take ids at the same moment.
    """
    for row in tx.where_needed("sequence_last", table=table):
        tx.where_needed("sequence_forget", table=table)
        tx.where_needed("sequence_set", table=table, value=max(least, row.value))
        return True
    return bool(tx.where_needed(f"{table}_identity_raise", least=least + room))


def counter_next(tx: Tx, *, kind: str, floor: int = 0, count: int = 1, project: str = "default") -> list[int]:
    """Mint `count` (1 to 1,000) numbers of a kind, each above `floor` and above every number minted before.

    Numbers of a project and kind rise and never return; whoever mints at the same moment gets others. `floor` seeds a
    counter whose numbers are used elsewhere already; one below what was minted changes nothing. Numbers end at
    2^63 - 1: a call that would go beyond is refused as `InvalidState`, and mints nothing.
    """
    kind, project = inputs.name(kind, "kind"), inputs.name(project, "project")
    if "/" in kind:
        raise inputs.refuse("kind", "a kind of counter holds no slash", hint="write it with a colon: item:P")
    floor = inputs.integer(floor, "floor", least=0, most=inputs.BIGINT_MAX - inputs.IDS_MAX)
    count = inputs.integer(count, "count", least=1, most=inputs.IDS_MAX)
    # The last slash parts project and kind, and keeps the counters of users apart from the board's own.
    row = tx.one("counter_next", kind=f"{project}/{kind}", floor=floor, count=count)
    if row is None:
        raise InvalidState(
            f"the counter {kind} of project {project} has fewer than {count} numbers left below 2^63",
            hint="count on under another kind",
        )
    return list(range(int(row.value) - count + 1, int(row.value) + 1))
