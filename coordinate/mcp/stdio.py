"""`coordinate mcp`: one client over stdin and stdout, for as long as it is there.

stdout carries the protocol and nothing else: from the first moment whatever else prints there goes to stderr. When the
client is gone (stdin ends and what was asked is answered, nobody reads stdout any more, the parent died) the process
ends too, and when it is told to (SIGTERM, SIGINT). It releases nothing: what the session holds runs on to its time, and
a client that shows the same session goes on with it.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from io import TextIOWrapper
from types import FrameType
from typing import Any, NoReturn

import anyio
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    RequestId,
)
from pydantic import ValidationError

from coordinate import signals
from coordinate.mcp.calls import Calls
from coordinate.mcp.server import CALL_AGAIN, Context, Seat, make_server
from coordinate.operations import Caller
from coordinate.service import Coordinator

LOOK_SECONDS = 0.5
# For how long what was asked is yet answered when stdin has ended.
LAST_WORDS_SECONDS = 5
NAME_MAX = 100


class Protocol:
    """The process's own streams, kept for the protocol."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self.reads = os.dup(0)
        self.writes = os.dup(1)
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)
        os.dup2(2, 1)
        self._parent = os.getppid()

    def nobody(self) -> bool:
        """Whether the client is gone though stdin has not ended: its parent died, or nobody reads."""
        if os.getppid() != self._parent:
            return True
        if not hasattr(select, "poll"):  # Windows: the end of stdin tells alone
            return False
        poll = select.poll()
        poll.register(self.writes, 0)
        return any(state & (select.POLLERR | select.POLLHUP | select.POLLNVAL) for _, state in poll.poll(0))


class Alone:
    """Seats the one client. Its session is the one that it showed, or is begun by its first call, as is the next one
    when that is over."""

    def __init__(self, calls: Calls, *, profile: str, place: Callable[[], tuple[str, str]]) -> None:
        self._calls, self._profile, self._place = calls, profile, place
        # The process's own looks at the log are no calls of the client: no end of its session is in their way.
        self._shown, calls.board.session = calls.board.session, None
        self._seat: Seat | None = None
        self._lock = anyio.Lock()

    async def seat(self, context: Context) -> Seat:
        async with self._lock:
            if self._seat is None:
                told = context.session.client_params
                client = told.client_info.name if told is not None else ""
                self._seat = await self._calls.write(partial(self._begin, client))
            return self._seat

    def profile(self, context: Context) -> str:
        return self._profile

    async def gone(self, context: Context) -> bool:
        return False  # the process ends with it

    def leave(self, context: Context, seat: Seat) -> str:
        if self._seat is seat:
            self._seat = self._shown = None
        return CALL_AGAIN

    def _begin(self, client: str) -> Seat:
        board, session = self._calls.board, self._shown
        if session is None:
            project, branch = self._place()
            begun = board.register(
                name=board.agent or None,
                project=project,
                stream=branch,
                host=socket.gethostname()[:NAME_MAX],
                pid=os.getppid(),
                doing=f"connected by {client}"[:NAME_MAX] if client else "",
            )
            board.agent, session = begun.agent, begun.id
        return Seat(board.acting(agent=board.agent, session=session), Caller(board.agent))


def serve(board: Coordinator, *, protocol: Protocol, profile: str, place: Callable[[], tuple[str, str]]) -> NoReturn:
    """Serve the client until it is gone. `place` tells its project and branch."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end_at_once)
    signals.on_hangup(_end_at_once)
    threading.Thread(target=_end_with_the_client, args=(protocol,), daemon=True).start()
    anyio.run(_serve, board, protocol, profile, place)
    raise AssertionError("the process ends with its client")


async def _serve(board: Coordinator, protocol: Protocol, profile: str, place: Callable[[], tuple[str, str]]) -> None:
    calls = Calls(board)
    server = make_server(calls, Alone(calls, profile=profile, place=place))
    reads = TextIOWrapper(os.fdopen(protocol.reads, "rb", closefd=False), encoding="utf-8", errors="replace")
    writes = TextIOWrapper(os.fdopen(protocol.writes, "wb", closefd=False), encoding="utf-8")
    stdout = anyio.wrap_file(writes)
    async with anyio.create_task_group() as tasks, stdio_server(anyio.wrap_file(reads), stdout) as (incoming, _):
        tasks.start_soon(calls.feed.run)
        unanswered: set[RequestId] = set()
        heard, messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        told, answers = anyio.create_memory_object_stream[SessionMessage](0)
        tasks.start_soon(_tell, answers, stdout, unanswered)
        tasks.start_soon(_hear, incoming, heard, told, unanswered, calls)
        await server.run(messages, told, server.create_initialization_options())
        # At once: a thread may still wait for the board, and nobody is there to be told.
        os._exit(0)


async def _hear(incoming: Any, heard: Any, told: Any, unanswered: set[RequestId], calls: Calls) -> None:
    """Pass on what the client says; whoever sent a line that is no message is told so, for else they wait for ever.

    Who has said all that they have to say may still read: what they asked is answered, if that does not take long.
    """
    async with heard:
        async for each in incoming:
            if isinstance(each, Exception):
                if (fault := _no_message(each)) is not None:
                    await told.send(SessionMessage(fault))
                continue
            if isinstance(each.message, JSONRPCRequest):
                unanswered.add(each.message.id)
            elif isinstance(each.message, JSONRPCNotification) and each.message.method == "notifications/cancelled":
                number = (each.message.params or {}).get("requestId")
                if isinstance(number, int | str):
                    unanswered.discard(number)
            await heard.send(each)
        calls.feed.stop()
        with anyio.move_on_after(LAST_WORDS_SECONDS):
            while unanswered:
                await anyio.sleep(0.02)


async def _tell(answers: Any, stdout: Any, unanswered: set[RequestId]) -> None:
    """Written here and not by the library, which does not tell when it has: the process ends after the last one."""
    async for each in answers:
        await stdout.write(each.message.model_dump_json(by_alias=True, exclude_unset=True) + "\n")
        await stdout.flush()
        if not isinstance(each.message, JSONRPCRequest | JSONRPCNotification):
            unanswered.discard(each.message.id)


def _no_message(fault: Exception) -> JSONRPCError | None:
    """The answer to a line that is no message; None to one that asks for no answer."""
    found: Any = fault.errors()[0] if isinstance(fault, ValidationError) else {"type": "", "input": None}
    code, words, said = INVALID_REQUEST, "this is no message of JSON-RPC", found["input"]
    if found["type"] == "json_invalid":
        code, words, said = (
            PARSE_ERROR,
            "this is no JSON of Unicode text; maybe half a surrogate pair stands in it",
            None,
        )
        with suppress(ValueError, RecursionError):
            said = json.loads(found["input"])
    number = None
    if isinstance(said, dict):
        if ("method" in said) != ("id" in said):
            return None
        number = said.get("id")
    if not (type(number) is int or (isinstance(number, str) and number.isprintable())):
        number = None
    return JSONRPCError(jsonrpc="2.0", id=number, error=ErrorData(code=code, message=words))


def _end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """No unwinding: a thread that waits for the client's next word cannot be woken. What is not committed is undone."""
    os._exit(128 + number)


def _end_with_the_client(protocol: Protocol) -> NoReturn:
    while not protocol.nobody():
        time.sleep(LOOK_SECONDS)
    os._exit(0)
