"""The server's connections: how many there are, and how long one may take to say what it wants and to hear the answer.

Whoever connects and says nothing, or a letter now and then, or never reads what they asked for, holds a file of the
process without having shown a token. So a request has to arrive in time, an answer has to be read, and where there is
no room left, the oldest of those that have not said what they want makes room for the next.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import Any, ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0
CONNECTIONS_MAX, CONNECTIONS_LEAST = 2_000, 50
# How many are taken in before the first of them is looked at; and files kept for these, the board and all else.
AT_A_TIME, FILES_KEPT = 100, 200
SAID_SECONDS = 10.0
# For how long nothing of an answer may be read. The system keeps so much of one for each connection, and tells of what
# was read in steps of a third of that: if it chose itself, a slow reader would look like one that has stopped.
UNREAD_SECONDS = 30.0
SEND_BUFFER = 128 * 1024


class Connection(H11Protocol):
    """One connection, whose requests arrive in time or not at all, and whose answers are read."""

    room: ClassVar[int] = CONNECTIONS_MAX
    _arriving: ClassVar[dict[Connection, asyncio.TimerHandle]] = {}
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        with suppress(OSError):  # it is gone already
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._expect()
        if len(self.connections) > self.room:
            next(iter(self._arriving))._cut()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()  # what came along with one request is the beginning of the next, and no data may follow

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_wait_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget()
        self._end_wait_for_reader()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Whether a request has begun to arrive, and is not there yet."""
        state = self.conn.their_state
        if state is h11.SEND_BODY or (state is h11.IDLE and self.conn.trailing_data[0]):
            if self not in self._arriving:
                self._expect()
        else:
            self._forget()

    def _expect(self) -> None:
        self._arriving[self] = self.loop.call_later(REQUEST_SECONDS, self._late)

    def _late(self) -> None:
        if self.flow.read_paused:  # it is not the client who takes so long
            self._expect()
        else:
            self._cut()

    def _wait_for_reader(self, left: int) -> None:
        self._end_wait_for_reader()
        self._unread = self.loop.call_later(UNREAD_SECONDS, self._heard, left)

    def _heard(self, left: int) -> None:
        now = self.transport.get_write_buffer_size()
        if now < left:
            self._wait_for_reader(now)
        else:
            self._cut()

    def _end_wait_for_reader(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _cut(self) -> None:
        self._forget()
        self.connections.discard(self)
        self.transport.abort()

    def _forget(self) -> None:
        if (timer := self._arriving.pop(self, None)) is not None:
            timer.cancel()


def make_room() -> None:
    """Let the process open as many files as it needs, or as it may, and have no more connections than that."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS_MAX + FILES_KEPT
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        Connection.room = max(CONNECTIONS_LEAST, min(CONNECTIONS_MAX, soft - FILES_KEPT))


class Seldom(logging.Filter):
    """Lets the same thing be said once in a while: what strangers cause must not fill a disk."""

    def __init__(self) -> None:
        super().__init__()
        self._said: dict[Any, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        now, what = time.monotonic(), (record.msg, record.exc_info and record.exc_info[0])
        if now - self._said.get(what, -SAID_SECONDS) < SAID_SECONDS:
            return False
        if len(self._said) > 100:
            self._said.clear()
        self._said[what] = now
        return True
