"""Coordinator: the list of all that can be done, one line for each operation.

An operation is a wing's function that takes a transaction first. Here it is bound: the transaction is begun, tried
again where the database asks for it, committed; `agent` and `session` are filled in from the connection. The function's
own signature and docstring are the operation's one description.
"""

from __future__ import annotations

import functools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from coordinate import checkup, config, counters, errors, events, inputs, leases
from coordinate.db import fence
from coordinate.db.dialect import adopt_connection, is_postgres, join_transaction, open_engine, way_to
from coordinate.db.engine import RETRY_SECONDS, Borrowed, Database, Tx
from coordinate.fleet import agents, locks, scopes, tokens, worktrees
from coordinate.flows import asked, claiming, ending, finishing
from coordinate.inbox import asks, boards, deliveries
from coordinate.records import (
    Adopted,
    Ask,
    Claim,
    Event,
    EventBatch,
    ExportedTask,
    Learnings,
    Lease,
    Lost,
    News,
    Pruned,
    Restored,
    Scopes,
    Session,
    Settled,
    Token,
)
from coordinate.work import claims, dependencies, figures, review, tasks, upkeep

if TYPE_CHECKING:
    import inspect

    from coordinate.plans import PlannedTask

P = ParamSpec("P")
R = TypeVar("R")
AfterCommit = Callable[[list[dict[str, Any]]], None]

# Every wait looks again at least this often, whatever it was told.
LOOK_SECONDS = 2.0
# Whoever waits for a scope looks at least this often: a lease that ends by its time is no change that wakes anybody.
SCOPE_SECONDS = 1.0
# A session in one process looks at most this often whether a sign of life or a renewal is due.
SIGN_SECONDS = 1.0
# How long whoever shows a token waits for a note of its use, which may be left out.
NOTE_SECONDS = 0.5


class _Shown:
    """A wing's function as `help` shows it: `self` in place of the transaction; worked out when somebody asks."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.__wrapped__ = function

    @property
    def __signature__(self) -> inspect.Signature:
        import inspect  # slow to load

        seen = inspect.signature(self.__wrapped__)
        tx, *parameters = seen.parameters.values()
        return seen.replace(parameters=[tx.replace(name="self", annotation=tx.empty), *parameters])


def _bound(
    function: Callable[Concatenate[Tx, P], R], *, writes: bool, at_head: bool = False
) -> Callable[Concatenate[Coordinator, P], R]:
    innermost: Any = function
    while hasattr(innermost, "__wrapped__"):
        innermost = innermost.__wrapped__
    code = innermost.__code__
    named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    filled = [name for name in ("agent", "session") if name in named]

    @functools.wraps(function)
    def operation(self: Coordinator, *args: P.args, **kwargs: P.kwargs) -> R:
        caller = dict(zip(("agent", "session"), self._caller(kwargs.get("agent"), kwargs.get("session")), strict=True))
        kwargs.update({name: caller[name] for name in filled})
        if at_head:
            self.database.number_events()
        return self._perform(lambda tx: function(tx, *args, **kwargs), writes=writes, session=caller["session"])

    operation.writes = writes  # type: ignore[attr-defined]
    operation.__wrapped__ = _Shown(function)  # type: ignore[assignment]
    return cast("Callable[Concatenate[Coordinator, P], R]", operation)


def write(
    function: Callable[Concatenate[Tx, P], R], *, at_head: bool = False
) -> Callable[Concatenate[Coordinator, P], R]:
    """An operation that changes something: one write transaction; `at_head` when it starts a reader of the log."""
    return _bound(function, writes=True, at_head=at_head)


def read(function: Callable[Concatenate[Tx, P], R]) -> Callable[Concatenate[Coordinator, P], R]:
    """An operation that only looks: one consistent snapshot, no lock, nothing written."""
    return _bound(function, writes=False)


class Coordinator:
    """A connection to a board, in an agent's name; safe for threads and after a fork. Made by `coordinate.connect`."""

    # --- work: dispatch
    dispatch = write(tasks.dispatch)
    dispatch_plan = write(tasks.dispatch_plan)

    # --- work: take a task and hold it
    claim_task = write(claiming.claim_task)
    log_progress = write(claims.log_progress)
    extend_lease = write(claims.extend_lease)
    keep_alive = write(claims.keep_alive)
    complete = write(finishing.complete)
    complete_batch = write(finishing.complete_batch)
    block = write(finishing.block)
    release = write(finishing.release)
    transfer = write(claims.transfer)
    mine = read(claims.mine)

    # --- work: review
    claim_review = write(review.claim_review)
    review_count = read(review.review_count)
    approve = write(finishing.approve)
    approve_all = write(finishing.approve_all)
    reject = write(finishing.reject)

    # --- work: steer
    unblock = write(finishing.unblock)
    cancel = write(finishing.cancel)
    reopen = write(tasks.reopen)
    comment = write(tasks.comment)
    edit = write(finishing.edit)
    set_priority = write(tasks.set_priority)
    set_project = write(finishing.set_project)
    set_project_defaults = write(tasks.set_project_defaults)
    depend_add = write(dependencies.depend_add)
    depend_remove = write(dependencies.depend_remove)

    # --- work: look
    view = read(tasks.view)
    list_tasks = read(tasks.list_tasks)
    export_page = read(tasks.export_page)
    list_projects = read(tasks.list_projects)
    stats = read(figures.stats)
    status = read(ending.status)
    list_finished = read(figures.list_finished)
    effort = read(figures.effort)
    now = read(figures.now)
    lint = read(figures.lint)
    why = read(figures.why)
    why_idle = read(figures.why_idle)

    # --- fleet: agents and sessions
    register = write(agents.register, at_head=True)
    set_doing = write(agents.set_doing)
    list_agents = read(agents.list_agents)
    list_sessions = read(agents.list_sessions)
    tell_losses = write(agents.tell_losses)

    # --- fleet: scopes and locks
    _claim_scopes_now = write(claiming.claim_scopes)
    check_scopes = read(scopes.check_scopes)
    list_leases = read(scopes.list_leases)
    renew_leases = write(scopes.renew_leases)
    release_leases = write(scopes.release_leases)
    _acquire_lock_now = write(claiming.acquire_lock)
    release_lock = write(locks.release_lock)
    renew_lock = write(locks.renew_lock)

    # --- fleet: worktrees, replay, counters, sweep
    open_worktree = write(claiming.open_worktree)
    set_worktree_state = write(worktrees.set_worktree_state)
    close_worktree = write(worktrees.close_worktree)
    adopt_worktree = write(worktrees.adopt_worktree)
    worktree_of = read(worktrees.worktree_of)
    list_worktrees = read(worktrees.list_worktrees)
    mark_applied = write(worktrees.mark_applied)
    applied = read(worktrees.applied)
    counter_next = write(counters.counter_next)
    sweep = write(ending.sweep)

    # --- inbox: boards
    board_upsert = write(boards.board_upsert)
    board_row = write(boards.board_row)
    board_advance = write(boards.board_advance)
    board_annotate = write(boards.board_annotate)
    board_get = read(boards.board_get)
    board_list = read(boards.board_list)
    board_archive = write(boards.board_archive)
    board_unarchive = write(boards.board_unarchive)

    # --- inbox: what an agent asks
    ask = write(asked.ask)
    revise = write(asked.revise)
    withdraw = write(asked.withdraw)

    # --- inbox: what a human does
    respond = write(asked.respond)
    withdraw_response = write(asked.withdraw_response)
    snooze = write(asked.snooze)
    wake = write(asked.wake)
    dismiss = write(asked.dismiss)
    annotate = write(deliveries.annotate)
    withdraw_annotation = write(deliveries.withdraw_annotation)
    close_project = write(asks.close_project)
    reopen_project = write(asks.reopen_project)

    # --- inbox: what an agent does with it
    pending = write(asked.pending)
    collect = write(deliveries.collect)
    take = write(asked.take)
    answer = write(asked.answer)
    acknowledge = write(asked.acknowledge)
    acknowledge_annotation = write(deliveries.acknowledge_annotation)

    # --- inbox: look
    show_ask = read(asks.show_ask)
    list_asks = read(asks.list_asks)
    urgent_asks = read(asks.urgent_asks)
    attention_count = read(asks.attention_count)
    unread_answers = read(asks.unread_answers)

    # --- fleet: tokens of the server's clients
    create_token = write(tokens.create_token)
    list_tokens = read(tokens.list_tokens)
    revoke_token = write(tokens.revoke_token)

    # --- events
    emit = write(events.emit)
    list_events = read(events.list_events)
    search_events = read(events.search_events)
    ack = write(events.ack)
    rewind = write(events.rewind)

    # --- operators
    examine = read(checkup.examine)
    repair = write(checkup.repair)

    # --- work: adopt

    def adopt(self, *, source: str | Path) -> Adopted:
        """Take over a board of the kanban tool, in any shape it ever had, into this board, which must hold no task.

        All or nothing, in one transaction: tasks, notes, history, events, dependencies, holders and their leases; the
        next number is one above the highest ever used there. The file at `source` is only read, and may be in use.
        The answer counts what came over and lists what was repaired or left out. Raises `NotFound`, `NotABoard`,
        `NotEmpty`; of two at once exactly one adopts.
        """
        _refuse_itself(source, self.database.engine.describe())
        from coordinate.work import adoption, tidying

        with tidying.tidied(Path(source)) as board:
            return self._perform(lambda tx: adoption.adopt(tx, board=board), writes=True)

    def __init__(
        self,
        database: Database,
        *,
        agent: str = "",
        session: str | None = None,
        after_commit: AfterCommit | None = None,
    ) -> None:
        self.database = database
        self.agent = agent
        self.session = session
        self._after_commit = after_commit
        self._next_sign: dict[str, float] = {}
        self._lost_something = False
        self._owners: dict[str, str] = {}

    def claim_batch(
        self,
        *,
        role: str,
        count: int,
        project: str | None = None,
        lease_seconds: int | None = None,
        respect_dependencies: bool = True,
        agent: str = "",
        session: str | None = None,
    ) -> list[Claim]:
        """Take up to `count` (1 to 100) ready tasks with their scopes in the queue's order, in one transaction.

        A task whose declared scopes another holds is passed over; see `claim_next`.
        """
        name, run = self._caller(agent, session)

        look = functools.partial(
            claiming.claim_batch,
            role=role,
            count=count,
            project=project,
            lease_seconds=lease_seconds,
            respect_dependencies=respect_dependencies,
            agent=name,
            session=run,
        )
        found = self._perform(look, writes=True, session=run)
        while True:
            if found.locked and not found.more and not self.database.borrowed:
                # Somebody has the last ready task locked: it is his, or he lets go of it soon; if not, there is none.
                with suppress(errors.Busy):
                    found = self._perform(
                        functools.partial(look, wait=True), writes=True, session=run, at_once=(errors.Busy,)
                    )
            if not found.more:
                return found.claims()
            found = self._perform(functools.partial(look, projects=found.projects), writes=True, session=run)

    def claim_next(
        self,
        *,
        role: str,
        project: str | None = None,
        lease_seconds: int | None = None,
        respect_dependencies: bool = True,
        wait: float = 0.0,
        agent: str = "",
        session: str | None = None,
    ) -> Claim | None:
        """Take the next ready task of a role: the lowest (priority, created_at, number). None when there is none.

        Ready means TODO, no unmet dependency, `not_before` passed, and no declared scope held by another: task and
        scopes are taken in one transaction. `project` restricts the search; absent, all projects count.
        `respect_dependencies=False` takes also what waits for other tasks. The lease lasts `lease_seconds` (1 to
        604,800; default the project's setting, else 900) and must be renewed by working (`log_progress`,
        `extend_lease`) or it may be taken. Show the claim's `handle` with every later verb. `wait` (seconds, at most
        86,400) returns the moment one becomes ready, or None after that long. Any number of agents may call this at
        once: each gets a different task, and nobody fails for another's sake.
        """
        found = self._until(
            lambda: self.claim_batch(
                role=role,
                count=1,
                project=project,
                lease_seconds=lease_seconds,
                respect_dependencies=respect_dependencies,
                agent=agent,
                session=session,
            ),
            wait,
            claims=True,
        )
        return found[0] if found else None

    def wait_ask(
        self,
        *,
        ask: str,
        after: int = 0,
        full: bool = False,
        wait: float = 0.0,
        agent: str = "",
        session: str | None = None,
    ) -> Ask | None:
        """Wait for a human's response to an ask, from any machine; None after `wait` seconds (at most 86,400) in vain.

        It returns the moment there is a response later than number `after`, which this session has then been handed,
        or the ask is closed. As `pending` does, it leaves out the ask's own context that the session has, but for
        `full`. It waits on while the board moves, and raises `Moved` once it has.
        """
        name, run = self._caller(agent, session)
        inputs.integer(after, "after")

        def look() -> list[Ask]:
            found, is_due = self._perform(lambda tx: asks.look(tx, ask=ask), writes=False, session=run)
            if is_due:
                with suppress(errors.Moving):  # it ends where the board is then
                    self._perform(lambda tx: asked.expire_asks(tx, limit=ending.SWEEP_ALONG), writes=True)
                found, _ = self._perform(lambda tx: asks.look(tx, ask=ask), writes=False, session=run)
            if found.closed_at is not None:
                return [found]
            if found.handled_at is None or found.response_seq <= after:
                self._perform_only(Tx.expects, writes=False)
                return []
            try:
                found = self._perform(
                    lambda tx: deliveries.collect(tx, ask=ask, full=full, agent=name, session=run),
                    writes=True,
                    session=run,
                )
            except errors.Moving:  # it is handed over where the board is then
                return []
            # Between the two looks the human may have taken the response back.
            return [] if found.response is None and found.closed_at is None else [found]

        found = self._until(look, wait)
        return found[0] if found else None

    def next_events(
        self,
        *,
        consumer: str,
        limit: int = 100,
        from_start: bool = False,
        acknowledge: bool = False,
        project: str | None = None,
        not_by: str | None = None,
        wait: float = 0.0,
    ) -> EventBatch:
        """Hand a consumer the events behind what it acknowledged; a new consumer starts at the head.

        Repeating the call without `ack` hands out the same events again (at least once). `acknowledge` first
        acknowledges all that was delivered before, for a loop that has finished with its last batch; its first call
        leaves that away, for what an earlier run was handed may be unfinished. `delivered` is how far this batch goes.
        `from_start` lets a *new* consumer begin with the oldest event. `not_by` leaves out one agent's own events.
        Events pruned before the consumer read them come back as `gap`, never as silence. `limit` is at most 500;
        `wait` (seconds, at most 86,400) returns as soon as there is one. Two processes under one consumer name get the
        same events.
        """
        deadline = self._deadline(wait)
        look = functools.partial(
            events.next_events,
            consumer=consumer,
            limit=limit,
            from_start=from_start,
            project=project,
            not_by=not_by,
        )
        while True:
            self.database.number_events()
            try:
                batch = self._perform(functools.partial(look, acknowledge=acknowledge), writes=True)
            except errors.OutcomeUnknown:
                # It was handed out or not, and nobody has it. Told so, a loop would acknowledge it with its next call.
                acknowledge = False
                continue
            left = deadline - time.monotonic()
            if batch.events or batch.gap or left <= 0:
                return batch
            acknowledge = False  # what another under this name is handed while this waits is not finished with
            self.database.wait(min(left, LOOK_SECONDS))

    def learnings(self, *, limit: int = events.LEARNINGS_MAX, agent: str = "", session: str | None = None) -> Learnings:
        """What other agents said since the caller last asked: events with a message, oldest first, `limit` at most.

        Each is handed along once, and `more` says how many wait for the next call. The cursor is called like the
        session and starts where that was registered; without a session it is called like the agent, and a newcomer
        starts at the head. Whoever must not miss one reads with `next_events`, which keeps a place of its own.
        """
        self.database.number_events()
        name, run = self._caller(agent, session)
        inputs.limit(limit, most=events.NEXT_MAX)
        # Whoever asks often is mostly told nothing, and waits for no writer then.
        if not self._perform(lambda tx: events.unheard(tx, agent=name, session=run), writes=False, session=run):
            return Learnings((), 0, None)
        return self._perform(
            lambda tx: events.learnings(tx, limit=limit, agent=name, session=run), writes=True, session=run
        )

    def wait_for(
        self,
        *,
        role: str | None = None,
        project: str | None = None,
        wait: float = 50.0,
        agent: str = "",
        session: str | None = None,
    ) -> News:
        """Wait, at most `wait` seconds, until there is something for the caller: work, an answer, or others' words.

        Work of the `role` that is ready is told, not taken: `claim_next` takes it, if it is still there. `answers` are
        asks of the caller that humans have answered: `pending` reads them. Others' words are what `learnings` hands
        along, each once. In vain the answer says so: call again. Raises `Moved` when there is nothing, and the board
        has moved; while it moves this waits on.
        """
        role, project = inputs.name_or_none(role, "role"), inputs.name_or_none(project, "project")
        agent, session = self._caller(agent, session)
        deadline = self._deadline(wait)
        while True:
            work = None
            if role is not None:
                work = self._perform(functools.partial(figures.has_work, role=role, project=project), writes=False)
            self.database.number_events()
            said: tuple[Event, ...] = ()
            more = 0
            if self._perform(lambda tx: events.unheard(tx, agent=agent, session=session), writes=False):
                with suppress(errors.Moving):  # they come along later, where the board is then
                    heard = self.learnings(agent=agent, session=session)
                    said, more = heard.events, heard.more
            news = News(work, self.unread_answers(agent=agent), said, more)
            if news.nothing:
                self._perform_only(Tx.expects, writes=False)
            left = deadline - time.monotonic()
            if not news.nothing or left <= 0:
                return news
            due = LOOK_SECONDS
            if role is not None:
                due = self._perform(functools.partial(figures.next_change, claims=False), writes=False)
            self.database.wait(max(0.01, min(left, due, LOOK_SECONDS)))

    def tail_events(
        self, *, after: int | None = None, project: str | None = None, not_by: str | None = None, limit: int = 100
    ) -> tuple[list[Event], int]:
        """The events behind a position (None: the head) in order, and the position to go on from. Moves no cursor.

        Raises `Moved` when there is none behind the position, and the board has moved: positions are the same there.
        """
        self.database.number_events()
        start = self._perform(events.head, writes=False) if after is None else after

        def look(tx: Tx) -> list[Event]:
            found = events.peek(tx, after=start, project=project, not_by=not_by, limit=limit)
            if not found and after is not None:
                tx.expects()
            return found

        found = self._perform(look, writes=False)
        return found, (found[-1].id or start) if found else start

    def export(self, *, page: int = tasks.EXPORT_PAGE) -> Iterator[ExportedTask]:
        """Everything about every task, by number, read page by page; what changes meanwhile may be in or out."""
        after = 0
        while found := self.export_page(after=after, limit=page):
            yield from found
            after = found[-1].task.number

    def prune(self, *, before: datetime | None = None, dry_run: bool = False) -> Pruned:
        """Remove expired events, and notes and history of finished tasks written before `before` (an aware moment).

        An event goes by its own time to live, whatever `before` says, and one without never; nothing of a live task
        goes. Along go the event cursors of sessions that are over for 30 days. In batches of 1,000, each a transaction
        of its own, so that others work on; interrupted, it has done part. Without `before` only expired events go.
        `dry_run` counts and removes nothing.
        """
        before, dry_run = None if before is None else inputs.instant(before, "before"), inputs.flag(dry_run, "dry_run")
        self.database.number_events()
        deleted = {"events": self._in_batches(events.prune_batch, dry_run=dry_run, limit=upkeep.BATCH)}
        for table in ("history", "notes"):
            deleted[table] = (
                0
                if before is None
                else self._in_batches(upkeep.prune_batch, table=table, before=before, dry_run=dry_run)
            )
        forget = functools.partial(events.forget_cursors, limit=upkeep.BATCH)
        while not dry_run and self._perform(forget, writes=True):
            pass
        return Pruned(deleted["events"], deleted["history"], deleted["notes"], dry_run)

    def using(self, connection: Any) -> Coordinator:
        """The same operations inside a caller's own SQLAlchemy transaction: queued or finished with its data or not.

        `connection` is a SQLAlchemy connection over pysqlite or psycopg 3, else `UnsupportedConnection`, as is one
        that commits by itself, or on Postgres one that is not at READ COMMITTED. Nothing is committed, retried or
        hooked here: a busy or failed database is the caller's to handle. A refused operation leaves nothing behind,
        so the caller may go on and commit. On SQLite begin immediate yourself, or a write may fail with the board
        busy; see the how-to in the documentation.
        """
        proxied = getattr(connection, "connection", connection)
        raw = getattr(proxied, "dbapi_connection", None) or proxied

        def begin() -> None:
            # SQLAlchemy begins its transaction at its first statement, and does not know of those of the driver.
            if callable(getattr(connection, "in_transaction", None)) and not connection.in_transaction():
                connection.begin()

        database = Borrowed(adopt_connection(raw), raw, lambda: join_transaction(raw, begin))
        return Coordinator(database, agent=self.agent, session=self.session)

    def authenticate(self, *, secret: str) -> Token:
        """Whose secret it is, for a door that lets clients in. Raises `NotAuthenticated`; its use is noted."""
        found, due = self._perform_only(lambda tx: tokens.who(tx, secret=secret), writes=False)
        if due:
            with suppress(errors.CoordinateError):  # a client gets in at once, also while the board is busy
                self._perform_only(
                    lambda tx: tokens.note_use(tx, token=found.id), writes=True, patience=0.0, hurry=NOTE_SECONDS
                )
        return found

    def anybody_may_enter(self) -> bool:
        """Whether any token is live."""
        return self._perform_only(tokens.any_live, writes=False)

    def probe(self) -> None:
        """Write to the board without changing it: whether it takes writes. Raises what is wrong."""
        self._perform_only(lambda tx: tx.run("probe"), writes=True, patience=0.0)

    def acting(self, *, agent: str, session: str | None = None) -> Coordinator:
        """The same board in another's name, over the same connections: for a program that serves many agents.

        Raises `NotFound` for a session that never was, `InvalidInput` for one that is another agent's.
        """
        other = Coordinator(self.database, agent=inputs.agent(agent), after_commit=self._after_commit)
        other.session = inputs.name_or_none(session or None, "session")
        if other.session is not None:
            other._owner(other.session, agent)
        return other

    def close(self) -> None:
        """Close the idle connections. Releases nothing: what this agent holds runs on until its lease ends."""
        self.database.close()

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def lock(
        self, name: str, *, project: str = "default", ttl_seconds: int = locks.LOCK_SECONDS, wait: float = 30.0
    ) -> Iterator[Lease]:
        """Hold a named lock while the block runs: renewed in the background, released on every exit.

        A renewal is a sign of life of the session, and comes often enough for it to stay live as well.
        Waits up to `wait` seconds, then raises `Held` naming the holder. If the lock is lost meanwhile (this process
        was stopped for longer than its time), leaving the block raises `StaleClaim`.
        """
        most = seconds_between_signs(self)  # before anything is held
        held = self.acquire_lock(name=name, project=project, ttl_seconds=ttl_seconds, wait=wait)
        over = threading.Event()
        lost: list[errors.CoordinateError] = []

        def renew() -> None:
            while not over.wait(min(ttl_seconds / 3, most)):
                try:
                    self.renew_lock(name=name, fence=held.fence, project=project)
                except (errors.StaleClaim, errors.NotFound, errors.Held) as error:
                    lost.append(error)
                    return
                except errors.CoordinateError:
                    continue  # the board is busy or away: try again while the lock may still live

        renewing = threading.Thread(target=renew, name=f"renew {name}", daemon=True)
        renewing.start()
        try:
            yield held
        finally:
            over.set()
            renewing.join()
            if not lost:
                self.release_lock(name=name, fence=held.fence, project=project)
        if lost:
            raise lost[0]

    def acquire_lock(
        self,
        *,
        name: str,
        project: str = "default",
        ttl_seconds: int = locks.LOCK_SECONDS,
        wait: float = 0.0,
        agent: str = "",
        session: str | None = None,
    ) -> Lease:
        """Take a named lock for `ttl_seconds` (1 to 604,800). Of several at once exactly one gets it.

        The same session takes its own lock again, one level deeper, and must release as often. Without a session
        there is no nesting. Raises `Held` while another's lock lives, with holder and expiry, also after waiting
        `wait` seconds in vain; one whose time is over is taken, with a higher fence, and its holder told. Pass the
        fence to what the lock protects: a lower one there is outdated.
        """
        deadline = time.monotonic() + inputs.seconds(wait, "wait", most=inputs.WAIT_SECONDS_MAX)
        while True:
            try:
                return self._acquire_lock_now(
                    name=name, project=project, ttl_seconds=ttl_seconds, agent=agent, session=session
                )
            except errors.Held as held:
                left = deadline - time.monotonic()
                if left <= 0 and wait:
                    said = f"{held.message}; {wait:g} s of waiting are over"
                    raise errors.Held(said, hint="ask its holder, or wait longer", **held.facts) from None
                if left <= 0:
                    raise
                self.database.wait(min(left, 0.25))

    def claim_scopes(
        self,
        *,
        patterns: Sequence[str],
        mode: str = "exclusive",
        task: str | None = None,
        project: str | None = None,
        ttl_seconds: int = leases.TTL_SECONDS,
        fences: Sequence[int] = (),
        wait: float = 0.0,
        agent: str = "",
        session: str | None = None,
    ) -> Scopes:
        """Claim a set of paths or globs, all or none; of two that overlap at the same moment exactly one is granted.

        `mode` is `exclusive`, or `shared` with others that share. They last `ttl_seconds` (1 to 604,800) unless
        renewed. `task` (a handle or id) binds them to a held task instead: they last as long as its hold, which is
        renewed by this. `project` is the task's, or `default`. What the session holds itself, or shows the `fences`
        of, is no conflict; claimed again it is renewed. What sessions long silent hold is ended first, and a hold on a
        task that is past ends where its scopes are taken. Not granted, also after waiting `wait` seconds (at most
        86,400) in vain: `conflicts` say pattern, holder, task, since when, until when and what ends it, and no lease
        is written. Whoever waits holds none of them meanwhile, and there is no queue. Raises `InvalidInput`,
        `StaleClaim` when the task is not the caller's, or `InvalidState` when a held pattern is bound to another task,
        or the task is of another project.
        """
        deadline = self._deadline(wait)
        while True:
            answer = self._claim_scopes_now(
                patterns=patterns,
                mode=mode,
                task=task,
                project=project,
                ttl_seconds=ttl_seconds,
                fences=fences,
                agent=agent,
                session=session,
            )
            left = deadline - time.monotonic()
            if answer.granted or left <= 0:
                return answer
            self.database.wait(min(left, SCOPE_SECONDS))

    def heartbeat(self, *, session: str | None = None) -> Session:
        """Give a sign of life and nothing else; renews what has less than half of its time left.

        It is no call: what the session says to be doing is not shown any longer for it. Raises `NotFound` where no
        session is shown, `InvalidState` for one that was ended.
        """
        _, alive = self._caller(None, session)
        return self._perform_only(lambda tx: agents.heartbeat(tx, session=alive), writes=True)

    def end_session(self, *, session: str | None = None) -> Session:
        """End a session on purpose: its scope leases and locks are released; claims of tasks run on to their time.

        What it took of responses is free again, and what belongs to an open worktree stays. Another session of the
        same agent keeps what is its own. Ending it twice changes nothing; any other call of an ended session is
        refused.
        """
        _, run = self._caller(None, session)
        return self._perform_only(lambda tx: ending.end_session(tx, session=run), writes=True)

    def lost(self) -> Lost | None:
        """What this session lost since it was last told, if the last call noticed something; asked once, told once."""
        if not self._lost_something or not self.session:
            return None
        self._lost_something = False
        return self.tell_losses(session=self.session)

    def _caller(self, agent: Any, session: Any) -> tuple[Any, Any]:
        """In whose name a call acts: whoever names another agent than the connection's does not act in its session.

        A session that a call names for itself must be that agent's, and says the name where there is none.
        """
        another = agent not in (None, "", self.agent)
        name = agent if another else self.agent
        if session and (another or session != self.session):
            return self._owner(session, name), session
        return name, None if another else self.session

    def _owner(self, session: Any, named: Any) -> str:
        """Whose session it is: one run of one agent, so another name with it is a mistake."""
        session = inputs.name(session, "session")
        if (owner := self._owners.get(session)) is None:
            owner = self.database.perform(lambda tx: agents.agent_of(tx, session=session), writes=False)[0]
            self._owners[session] = owner
        if named not in ("", owner):
            raise errors.InvalidInput(
                f"session {session} is {owner}'s, not {inputs.agent(named)}'s",
                hint="leave the name away, or show no session: two agents are two sessions",
                field="session",
            )
        return owner

    def _perform(
        self,
        work: Callable[[Tx], R],
        *,
        writes: bool,
        session: str | None = None,
        at_once: tuple[type[errors.CoordinateError], ...] = (),
    ) -> R:
        # A look in a caller's own transaction writes nothing, for there may be none, or one that shall not write.
        if (run := session or self.session) and (writes or not self.database.borrowed):
            self._give_sign_of_life(inputs.name(run, "session"), writes=writes)
        return self._perform_only(work, writes=writes, at_once=at_once)

    def _perform_only(
        self,
        work: Callable[[Tx], R],
        *,
        writes: bool,
        patience: float = RETRY_SECONDS,
        hurry: float = math.inf,
        at_once: tuple[type[errors.CoordinateError], ...] = (),
    ) -> R:
        try:
            answer, committed = self.database.perform(
                work, writes=writes, patience=patience, hurry=hurry, at_once=at_once
            )
        except errors.CoordinateError as refused:
            self._tell(refused.kept_events)
            raise
        self._tell(committed)
        return answer

    def _tell(self, committed: list[dict[str, Any]]) -> None:
        if committed and self._after_commit is not None:
            self._after_commit([{**event, "payload": json.loads(event["payload"])} for event in committed])

    def _give_sign_of_life(self, session: str, *, writes: bool) -> None:
        """Each call of a session is one; mostly a look suffices, and now and then it writes or renews.

        A call that only reads waits for no writer for long: the next one is a sign too.
        """
        if time.monotonic() < self._next_sign.get(session, 0.0):
            return
        due, lost = self.database.perform(lambda tx: agents.due(tx, session=session), writes=False)[0]
        if due:
            # A call that only reads goes on; and what became of the sign says nothing of the call itself.
            most = math.inf if writes else LOOK_SECONDS
            hindered: list[type[errors.CoordinateError]] = [errors.Moving, errors.Moved, errors.OutcomeUnknown]
            hindered += [errors.ReadOnly] if writes else [errors.ReadOnly, errors.Busy, errors.Unreachable]
            with suppress(*hindered):
                sign = functools.partial(ending.sign_of_life, session=session)
                lost = self._perform_only(
                    sign, writes=True, patience=min(RETRY_SECONDS, most), hurry=most, at_once=(errors.ReadOnly,)
                )
                lost = self._sweep_along(session) or lost
        self._next_sign[session] = time.monotonic() + SIGN_SECONDS
        self._lost_something = self._lost_something or (lost and session == self.session)

    def _sweep_along(self, session: str) -> bool:
        """End a little of what is over; whether the session has lost something by then."""
        if self.database.borrowed:  # it would be locked for as long as the caller's transaction lasts
            return False
        # Somebody has something locked, or a connection broke: the next call of whomever sweeps that.
        with suppress(errors.Busy, errors.Unreachable):
            sweep = functools.partial(ending.sweep_along, session=session)
            return self._perform_only(sweep, writes=True, patience=0.0, hurry=LOOK_SECONDS)
        return False

    def _deadline(self, wait: float) -> float:
        """When a call has waited for so long. Raises `InvalidInput` where a wait would do harm."""
        deadline = time.monotonic() + inputs.seconds(wait, "wait", most=inputs.WAIT_SECONDS_MAX)
        if wait:
            self.database.may_wait()
        return deadline

    def _until(self, look: Callable[[], list[R]], wait: float, *, claims: bool = False) -> list[R]:
        """Look until something is there: at a hint and every two seconds; whoever claims, at the next due time too."""
        deadline = self._deadline(wait)
        while True:
            found = look()
            left = deadline - time.monotonic()
            if found or left <= 0:
                return found
            due = LOOK_SECONDS
            if claims:
                due = self._perform(functools.partial(figures.next_change, claims=True), writes=False)
            self.database.wait(max(0.01, min(left, due, LOOK_SECONDS)))

    def _in_batches(self, batch: Callable[..., tuple[int, int | None]], **options: Any) -> int:
        total, after = 0, 0
        while True:
            count, go_on = self._perform(functools.partial(batch, after=after, **options), writes=True)
            total += count
            if go_on is None:
                return total
            after = go_on


def connect(
    target: str | Path | None = None,
    *,
    agent: str = "",
    session: str | None = None,
    create: bool = False,
    after_commit: AfterCommit | None = None,
) -> Coordinator:
    """Open a board: a path, a Postgres address, or (None) the one that $COORDINATE_DB or the nearest folder names.

    `agent` is the name that operations act in, `session` one run of it, which alone says the name too. Neither is
    read from the environment: $COORDINATE_AGENT and $COORDINATE_SESSION are the command line's; a program that goes
    on with the session of its shell passes `session=os.environ.get("COORDINATE_SESSION")`. With
    `create=True` a missing board is made (and an older one upgraded); otherwise nothing is ever created. Raises
    `NoBoard`, `NotABoard`, `SchemaBehind`, `SchemaAhead` or `Unreachable`; `NotFound` for a session that never was.
    `after_commit` is called with the events of each commit that a call makes, also with what it ended along the way.
    """
    place = config.locate(None if target is None else str(target))
    if agent:
        inputs.agent(agent)
    session = inputs.name_or_none(session or None, "session")
    if create:
        _make(place.target)
    engine = open_engine(
        place.target,
        create=False,
        patience=config.patience(place),
        synchronous=config.synchronous(place),
        gate=config.gate(place),
    )
    database = Database(engine)
    database.warnings.extend((*place.refusals, *place.doubts))
    coordinator = Coordinator(database, agent=agent, session=session, after_commit=after_commit)
    with _no_connection_left(coordinator):
        database.perform(lambda tx: None, writes=False)  # says at once what is wrong with the place
        if session is not None:
            coordinator.agent = coordinator._owner(session, agent)
    return coordinator


def open_or_make(target: str, *, agent: str = "") -> Coordinator:
    """The board that is there as it is, or a new one: for whoever may yet refuse it, and then has not upgraded it."""
    try:
        return connect(target, agent=agent)
    except errors.NoBoard:
        return connect(target, agent=agent, create=True)


def check_plan(plan: Sequence[PlannedTask]) -> None:
    """Raise what `Coordinator.dispatch_plan` raises for a plan whatever the board holds."""
    tasks.check_plan(plan)


def seconds_between_signs(board: Coordinator) -> float:
    """How long what keeps something alive may be silent: a third of its session's time, so that it is kept as well."""
    return board.heartbeat().ttl_seconds / 3 if board.session else math.inf


def adopt(source: str | Path, target: str | Path | None = None) -> Adopted:
    """Take over a board of the kanban tool as `Coordinator.adopt` does, into a board that is made if it is not there.

    `target` as for `connect`; a board of an older schema is refused as it is (`SchemaBehind`). When `source` turns out
    to be no such board, nothing is made.
    """
    from coordinate.work import adoption, tidying

    place = config.locate(None if target is None else str(target))
    _refuse_itself(source, str(config.path_of(place.target)))
    with tidying.tidied(Path(source)) as board, open_or_make(place.target) as coordinator:
        return coordinator._perform(lambda tx: adoption.adopt(tx, board=board), writes=True)


def restore(source: str | Path, target: str | Path | None = None, *, replace: bool = False) -> Restored:
    """Put a backup of a SQLite board in the place of the one that `target` means, in one transaction.

    Every live hold of the backup ends, with its event, and all numbers go on above those of the board that is replaced,
    or by a wide margin where that cannot be read (damaged, lost, or another board): no handle, fence, id or position
    comes twice. Programs that have the board open go on with what is there now. A board that is there is kept beside
    the new one, and `NotEmpty` is raised unless `replace` says that it is meant; one that has moved stays as it is
    (`Moved`), since its callers are sent on.
    """
    from coordinate.db.restore import replacing

    place = config.locate(None if target is None else str(target))
    if is_postgres(place.target):
        raise errors.InvalidInput("a board on Postgres is restored by pg_restore; then it is settled", field="db")
    board = config.path_of(place.target)
    with replacing(Path(source).absolute(), board, replace=replace) as replaced:
        settled = ending.settle(replaced.tx, known=replaced.known)
    return Restored(str(board), str(source), replaced.kept, replaced.rows, settled)


def settle(target: str | Path | None = None) -> Settled:
    """After a board was put back to an earlier day by other means (pg_restore, a copied file): see `restore`.

    Stop the agents first: whatever is held ends, also on a board that nobody put back. On Postgres it needs the role
    that owns the tables (`PermissionDenied`). A backup that was made while the board moved is refused (`InvalidState`)
    until that move is undone; so is one that was made after it, which is the board no longer.
    """
    place = config.locate(None if target is None else str(target))
    if is_postgres(place.target):
        from coordinate.db.server import require_owner

        require_owner(place.target)
    with connect(target) as coordinator:
        row, _ = coordinator.database.perform(lambda tx: tx.one("move_state"), writes=False)
        if (fenced := fence.stops(row)) is not None:
            hint = "the board is there; if it was lost, restore a backup of it"
            if isinstance(fenced, errors.Moving):
                hint = "if this came back with a backup: coordinate db move --undo, then settle it"
            raise errors.InvalidState(f"the fence of a move is up: {fenced.message}", hint=hint)
        return coordinator._perform(lambda tx: ending.settle(tx, known=False), writes=True)


def _refuse_itself(source: str | Path, target: str) -> None:
    """Before the file is opened: to close a handle of a file drops the locks that a connection has on it."""
    if not isinstance(source, str | Path):
        raise errors.InvalidInput("source must be the path of a board", hint="name its file", field="source")
    with config.reaching(Path(source), "source"):
        same = Path(source).exists() and Path(target).exists() and Path(source).samefile(target)
    if same:
        raise errors.InvalidInput(
            f"{source} cannot be adopted into itself", hint="name another file with --db", field="source"
        )


@contextmanager
def _no_connection_left(coordinator: Coordinator) -> Iterator[None]:
    try:
        yield
    except errors.CoordinateError:
        coordinator.close()
        raise


def _make(target: str) -> None:
    from coordinate.db import migrate  # Alembic: only when asked to create

    with way_to(target):
        migrate.upgrade(target)
