"""Calls of many clients at once over one board: a few threads work, and whoever waits takes none of them.

The board is asked from threads, as many as it keeps connections; some are left to those who only look, for whoever
writes may wait long for others. A call that waits looks, and looks again when the log
has grown or two seconds are over. Who follows the log and who waits share one reader of it, on either engine, whichever
process wrote; it rests while there is nobody.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio
from anyio import to_thread

from coordinate.errors import CoordinateError, Held, Moved, NotAuthenticated
from coordinate.operations import WAIT_SECONDS_MAX, Caller, Operation, nothing_yet
from coordinate.records import Event
from coordinate.service import Coordinator

R = TypeVar("R")

WORKERS, WRITERS = 8, 6
LOOK_SECONDS, SOON_SECONDS = 2.0, 0.5
# What comes in quick succession is told together, for each time all who wait look again. Measured with 60 that wait and
# 85 events a second: 40 % less work for the same calls.
READ_SECONDS, REST_SECONDS = 0.25, 0.05
KEPT_MAX = 1_000
PAGE = 500


class ClientGone(CoordinateError):
    """Nobody is there to be told."""

    code = "client_gone"
    http_status = 499


class Calls:
    """Performs operations for the clients of one process; to be made within its event loop."""

    def __init__(self, board: Coordinator) -> None:
        self.board = board
        self._workers, self._writers = anyio.CapacityLimiter(WORKERS), anyio.CapacityLimiter(WRITERS)
        self.feed = Feed(self)
        # Tokens that were found to have ended while their calls waited.
        self.ended: set[int] = set()

    async def run(self, work: Callable[[], R], *, apart: anyio.CapacityLimiter | None = None) -> R:
        """Do something with the board on a thread. What has begun is finished, also when the client goes away.

        `apart` is for those who may take no thread from the others.
        """
        return await to_thread.run_sync(work, limiter=apart or self._workers)

    async def write(self, work: Callable[[], R]) -> R:
        """The same for what may write."""
        async with self._writers:
            return await self.run(work)

    async def write_soon(self, work: Callable[[], R]) -> R | None:
        """The same, unless all writers wait for long: then it is left, and the answer is None."""
        with anyio.move_on_after(SOON_SECONDS) as waiting:
            await self._writers.acquire()
        if waiting.cancelled_caught:
            return None
        try:
            return await self.run(work)
        finally:
            self._writers.release()

    async def perform(
        self,
        operation: Operation,
        board: Coordinator,
        caller: Caller,
        arguments: Mapping[str, Any],
        *,
        told: Callable[[Any], Any] = lambda answer: answer,
        gone: Callable[[], Awaitable[bool]] | None = None,
    ) -> Any:
        """Perform an operation; one that may wait does it here, where it takes no thread.

        `told` makes of its answer what is told, on the thread too, for a long one would let all others wait. `gone`
        tells whether the client went away: that ends a wait, which would take what nobody is told of.
        """
        run, wait = self.run if operation.looks else self.write, _wait_of(operation, arguments)

        def look(given: Mapping[str, Any]) -> tuple[Any, bool]:
            answer = operation.call(board, caller, given)
            return told(answer), bool(wait) and nothing_yet(answer)

        if not wait:
            return (await run(partial(look, arguments)))[0]
        deadline = time.monotonic() + wait
        at_once = {**arguments, "wait": 0}
        with self.feed.followed():
            while True:
                seen = self.feed.changed
                left = 0.0 if self.feed.stopped else deadline - time.monotonic()
                try:
                    answer, in_vain = await run(partial(look, at_once))
                except Held:
                    if left <= 0:
                        raise
                else:
                    if not in_vain or left <= 0:
                        return answer
                with anyio.move_on_after(min(left, LOOK_SECONDS)):
                    await seen.wait()
                if caller.token in self.ended:
                    raise NotAuthenticated("the token has ended", hint="ask for another")
                if gone is not None and await gone():
                    raise ClientGone("the client went away while it waited")


class Feed:
    """The log as it grows: one reader for all in this process, and the newest events kept for those behind."""

    def __init__(self, calls: Calls) -> None:
        self.changed = anyio.Event()
        self.stopped = False
        # The board has moved, and those who follow have read all that will ever come here.
        self.over = False
        self._calls = calls
        self.followers = 0
        self._wanted = anyio.Event()
        self._position: int | None = None
        self._kept: deque[Event] = deque(maxlen=KEPT_MAX)
        self._kept_after = 0

    async def run(self) -> None:
        """Read the log while somebody follows it; ends when it is cancelled."""
        while True:
            if not self.followers:
                # What happens meanwhile is not kept: the next reader begins at the head of its day.
                self._position = None
                self._kept.clear()
                await self._wanted.wait()
            try:
                grown = self._keep(*await self._calls.run(self._read))
                self.over = False
                if not grown:
                    await to_thread.run_sync(self._calls.board.database.wait, READ_SECONDS, abandon_on_cancel=True)
            except CoordinateError as error:
                await anyio.sleep(READ_SECONDS)  # the board is busy or away; a look will say so
                self.over = isinstance(error, Moved)
                grown = True
            if grown:
                self._tell()
                await anyio.sleep(REST_SECONDS)

    def stop(self) -> None:
        """Let everybody who follows come to an end."""
        self.stopped = True
        self._tell()

    @contextmanager
    def followed(self) -> Iterator[None]:
        """While somebody waits for a change."""
        self.followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.followers -= 1
            if not self.followers:
                self._wanted = anyio.Event()

    async def follow(self, after: int, project: str | None = None) -> AsyncIterator[Event | None]:
        """The events behind a position as they come, None now and then when nothing came; ends when it has moved."""
        with self.followed():
            while not self.stopped:
                seen = self.changed
                found = await self._behind(after)
                for event in found:
                    after = event.id or after
                    if project in (None, event.project):
                        yield event
                if not found and self.over:
                    return
                if not found:
                    with anyio.move_on_after(15):
                        await seen.wait()
                    if not seen.is_set():
                        yield None

    async def _behind(self, after: int) -> list[Event]:
        if self._position is not None and after >= self._kept_after:
            return [event for event in self._kept if (event.id or 0) > after]
        return (await self._calls.run(partial(self._calls.board.tail_events, after=after, limit=PAGE)))[0]

    def _read(self) -> tuple[list[Event], int]:
        return self._calls.board.tail_events(after=self._position, limit=PAGE)

    def _keep(self, found: list[Event], position: int) -> bool:
        begins = self._position is None
        for event in found:
            if len(self._kept) == KEPT_MAX:
                self._kept_after = self._kept[0].id or self._kept_after
            self._kept.append(event)
        if begins:
            self._kept_after = position
        self._position = position
        return begins or bool(found)

    def _tell(self) -> None:
        told, self.changed = self.changed, anyio.Event()
        told.set()


def _wait_of(operation: Operation, arguments: Mapping[str, Any]) -> float:
    """For how long a call is to wait; 0 also for what the operation will refuse."""
    if not operation.waits:
        return 0
    default = next(each.default for each in operation.parameters if each.name == "wait")
    wait = arguments.get("wait", default)
    number = isinstance(wait, int | float) and not isinstance(wait, bool)
    return wait if number and 0 < wait <= WAIT_SECONDS_MAX else 0
