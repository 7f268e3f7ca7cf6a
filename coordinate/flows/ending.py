"""What ends by itself or for good: silent sessions, leases, claims and asks past their time; and how a board stands."""

from __future__ import annotations

from coordinate import counters, inputs, leases
from coordinate.db.engine import Tx
from coordinate.fleet import agents
from coordinate.flows import asked
from coordinate.frozen import replace
from coordinate.inbox import asks
from coordinate.records import (
    Lease,
    Session,
    Settled,
    Status,
    Swept,
)
from coordinate.work import claims, figures

SWEEP_MAX = 100
SWEEP_ALONG = 10
# How much higher the numbers of a board go on whose later days nobody can read any more.
NUMBERS_MARGIN = 1_000_000
ATTEMPTS_MARGIN = 1_000
SETTLE_BATCH = 1_000
RESTORED = "the board was put back to an earlier day"


def end_session(tx: Tx, *, session: str | None = None) -> Session:
    """End a session on purpose: its scope leases and locks are released; claims of tasks run on to their time.

    What it took of responses is free again, and what belongs to an open worktree stays. Another session of the same
    agent keeps what is its own. Ending it twice changes nothing; any other call of an ended session is refused.
    """
    ended = agents.end_session(tx, session=session)
    tx.run("asks_let_go", sessions=[ended.id])
    return ended


def end_stale(tx: Tx, *, limit: int, by: str = "system") -> tuple[list[str], list[Lease], bool]:
    """End sessions that have been silent for too long, with what they hold and act on; see `agents.end_stale`."""
    over, ended, more = agents.end_stale(tx, limit=limit, by=by)
    if over:
        tx.run("asks_let_go", sessions=over)
    return over, ended, more


def sweep(tx: Tx, *, limit: int = SWEEP_MAX, agent: str = "") -> Swept:
    """End what is over: stale sessions lose their leases, leases, claims and asks past their time end, each logged.

    At most `limit` (1 to 1,000) of each kind; `more` says to call again. Doing it twice changes nothing more. Live
    sessions, what belongs to an open worktree, and the scopes of a held task are left alone. The calls of sessions do
    it along, now and then and a little.
    """
    limit = inputs.limit(limit)
    by = inputs.agent(agent) if agent else "system"
    over, ended, more = end_stale(tx, limit=limit, by=by)
    past = tx.all("leases_past", limit=limit)
    ended += leases.end(tx, past, reason="expired", by=by)
    unanswered = asked.expire_asks(tx, limit=limit)
    taken_back, scoped = claims.take_back_expired(tx, asked.after_hold, limit=limit)
    ended += scoped
    more = more or limit in (len(past), len(taken_back), len(unanswered))
    return Swept(tuple(over), tuple(ended), tuple(taken_back), tuple(unanswered), more)


def sign_of_life(tx: Tx, *, session: str) -> bool:
    """What a session's call does now and then: renew what is its own; whether it lost something."""
    tx.run("session_beat", id=session)
    agents.keep(tx, session=session)
    return agents.due(tx, session=session)[1]


def sweep_along(tx: Tx, *, session: str) -> bool:
    """And sweep a little, in a transaction of its own: who is in the way of that is not in the way of the call."""
    sweep(tx, limit=SWEEP_ALONG)
    return agents.due(tx, session=session)[1]


def settle(tx: Tx, *, known: bool) -> Settled:
    """After a board was put back to an earlier day: end every live hold, and let no number come twice.

    Who holds what since then nobody can tell, so claims, leases, locks, reserved reviews and takes of responses end,
    and their holders are told; what belongs to an open worktree stays until it is merged or aborted. Unless the numbers
    are `known` to lie above all that were given out, they go on by a wide margin: counters, ids, positions and
    revisions by 1,000,000, attempts by 1,000.
    """
    tx.where_needed("lock_edges")
    if not known:
        _raise_numbers(tx)
    freed: list[str] = []
    while ended := claims.end_all(tx, asked.after_hold, reason=RESTORED, limit=SETTLE_BATCH):
        freed += ended
    over = 0
    before = None
    while page := tx.all("leases_held", before=before, limit=SETTLE_BATCH):
        over += len(leases.end(tx, page, reason="expired", by="system"))
        before = page[-1].id
    tx.run("reviews_end")
    tx.run("takes_end")
    return Settled(len(freed), over, known)


def _raise_numbers(tx: Tx) -> None:
    tx.run("tasks_raise", attempts=ATTEMPTS_MARGIN, revisions=NUMBERS_MARGIN)
    for table in ("boards", "board_rows", "asks", "ask_responses"):
        tx.run(f"{table}_raise", revisions=NUMBERS_MARGIN)
    tx.run("counters_raise", count=NUMBERS_MARGIN)
    for row in tx.all("ids_last"):
        least = int(max(row.used, row.last or 0)) + NUMBERS_MARGIN
        counters.raise_ids(tx, row.id, least)
    tx.where_needed("feed_lock")
    for row in tx.where_needed("feed_last"):
        tx.where_needed("feed_raise", least=int(row.position) + NUMBERS_MARGIN)


def status(tx: Tx, *, project: str | None = None, days: int = 14) -> Status:
    """Where the board stands: counts, per cent done (of what was not cancelled), and a burn-down by day (UTC).

    `unreachable` lists live tasks that wait for a cancelled one and need somebody's help. `asks_open` counts what needs
    a human now, `asks_told` notes and milestones that nobody has dismissed, `asks_answered` what humans have finished
    with and agents have not, `sessions_live` who is at work.
    `days` 1 to 366.
    """
    tasks_only = figures.status(tx, project=project, days=days)
    return replace(
        tasks_only,
        asks_open=asks.attention_count(tx, project=project),
        asks_told=asks.told_count(tx, project=project),
        asks_answered=asks.unhandled_count(tx, project=project),
        sessions_live=agents.live_count(tx, project=project),
    )
