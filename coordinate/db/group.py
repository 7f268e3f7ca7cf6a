"""Group commit: threads of one process that want to write at the same time are done in one transaction.

One of them leads. It begins, does the work of all who wait by then, each in its own savepoint, commits, and only then
has each its answer: nobody is told of what could still be undone. A refusal undoes its own savepoint alone. Whatever
else goes wrong before the commit undoes the group, and then each of it goes alone, so that a fault, an interrupt or a
full disk is met by the one whom it concerns. Who finds nobody waiting pays nothing for all this.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from coordinate.errors import Busy, CoordinateError, OutcomeUnknown

if TYPE_CHECKING:
    from coordinate.db.engine import Tx

GROUP_MAX = 100
# Whoever is to lead does it at once, if a signal handler has not ended the call. So often those who wait look whether
# one kept them from being told.
LATE_SECONDS = 1.0


class Call:
    """One operation: its work, and what came of it."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        self.work = work
        self.answer: Any = None
        self.events: list[dict[str, Any]] = []
        self.error: Exception | None = None
        self.alone = False
        self.over = False
        self.gone = False

    def run(self, tx: Tx) -> bool:
        """Do the work; whether what it changed is to stay."""
        keeps = True
        try:
            self.answer = self.work(tx)
        except CoordinateError as refused:
            self.error, keeps = refused, refused.keeps_changes
        # Nothing to do, or refused: true here, and perhaps long outdated where the board is now.
        if (self.error is not None or not tx.events) and (fenced := tx.fenced()) is not None:
            self.error, keeps = fenced, False
        if not keeps:
            return False
        tx.finish()
        self.events = tx.events
        if isinstance(self.error, CoordinateError):
            self.error.kept_events = tx.events
        return True


Transact = Callable[[Callable[[], Sequence[Call]]], None]


class _Waiting(Call):
    """One that may have to wait for others of its process."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        super().__init__(work)
        self.thread = threading.get_ident()
        self.leads = False
        self.appointed = 0.0  # when it was to lead
        self.leader: _Waiting | None = None  # who has taken it
        self.turn = threading.Lock()  # released when it is over, or when it is to lead
        self.turn.acquire()


class Line:
    """The calls of one process, in the order in which they came; the first of them leads.

    They are done by `transact(take)`, which runs calls in one transaction: it takes them once it has begun. A commit
    that fails is the error of each; one that was made is over for each, whatever is raised after it. What is raised
    before is undone.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: deque[_Waiting] = deque()
        self._leader: _Waiting | None = None
        self._calls: dict[int, _Waiting] = {}  # of each thread its one

    def perform(self, work: Callable[[Any], Any], transact: Transact, hurry: float = inf) -> Call:
        """Have it done by whoever leads. Raises what it raised; `Busy` when its turn did not come in time."""
        call = _Waiting(work)
        patience = min(self._patience, hurry)
        until = time.monotonic() + patience
        try:
            with self._lock:
                if (last := self._calls.get(call.thread)) is not None:
                    self._go(last)  # a signal kept it from leaving
                self._calls[call.thread] = call
                self._waiting.append(call)
                if self._leader is None:
                    self._appoint(call)
            while not call.over:
                if call.gone:
                    raise self._busy()
                if self._leader is call:
                    self._lead(call, transact)
                elif not call.turn.acquire(timeout=min(patience, LATE_SECONDS)):
                    self._look(call, late=time.monotonic() >= until)
        finally:
            self._leave(call)
        if call.error is not None:
            raise call.error
        return call

    def _lead(self, mine: _Waiting, transact: Transact) -> None:
        group: list[_Waiting] = []

        def take() -> list[_Waiting]:
            with self._lock:
                group.append(self._waiting.popleft())
                while self._waiting and not (mine.alone or self._waiting[0].alone) and len(group) < GROUP_MAX:
                    group.append(self._waiting.popleft())
                for call in group:
                    call.leader = mine
            return group

        mine.leads = True
        try:
            transact(take)
        except BaseException as error:
            met = error if isinstance(error, Exception) else None
            if met is None or len(group) < 2:
                mine.error, mine.over = met, True
            self._put_back([call for call in group if not call.over])
            if met is None:
                raise
        else:
            for call in group:
                call.over = True
        finally:
            mine.leads = False
            for call in group:
                if call.over and call is not mine:
                    call.turn.release()

    def _put_back(self, calls: list[_Waiting]) -> None:
        with self._lock:
            for call in reversed(calls):
                if not call.gone:
                    call.alone, call.answer, call.error, call.events, call.leader = True, None, None, [], None
                    self._waiting.appendleft(call)

    def _look(self, call: _Waiting, *, late: bool) -> None:
        """Wait no more, if it still does and it is late; what is being done has to be waited for."""
        with self._lock:
            if call.over or self._leader is call:
                return
            if call in self._waiting:
                if self._leader is None:  # a signal kept whoever went from appointing the next
                    self._appoint(call)
                    return
                if not late:
                    return
                first = self._leader
                if not first.leads and time.monotonic() > first.appointed + LATE_SECONDS:
                    self._go(first)
                raise self._busy()
            if call.leader is None:  # nor was it taken: a signal came when it was out of the queue
                self._waiting.append(call)
            elif call.leader.gone or not call.leader.leads:
                raise OutcomeUnknown(
                    "the thread that made the change, together with others, was interrupted: it is made or not",
                    hint="look at the task before repeating the call",
                )

    def _leave(self, call: _Waiting) -> None:
        """Whatever happened: nobody waits for one that is gone."""
        with self._lock:
            self._go(call)

    def _go(self, call: _Waiting) -> None:
        call.gone = True
        if self._calls.get(call.thread) is call:
            del self._calls[call.thread]
        if call in self._waiting:
            self._waiting.remove(call)
        if self._leader is call:
            self._leader = None
            if self._waiting:
                self._appoint(self._waiting[0])
                self._waiting[0].turn.release()

    def _appoint(self, call: _Waiting) -> None:
        call.appointed = time.monotonic()
        self._leader = call

    def _busy(self) -> Busy:
        return Busy(
            f"other calls of this process kept the board for {self._patience:g} s",
            hint="try again, or wait longer: $COORDINATE_BUSY_SECONDS",
        )
