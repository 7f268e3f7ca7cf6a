"""How the server knows the MCP clients that come over HTTP: one session for each, in the name of its token.

A client with a transport session is known by that; one that sends each request for itself is known by its token and
its name, or by the header `Coordinate-Client`, and finds its session again after the server was started anew. Whoever
shows `Coordinate-Session` goes on with that session of its agent.
"""

from __future__ import annotations

from functools import partial

import anyio
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.requests import Request

from coordinate.errors import NotFound
from coordinate.http.api import SESSION_HEADER
from coordinate.http.gate import caller_of
from coordinate.mcp.calls import Calls
from coordinate.mcp.server import CALL_AGAIN, Context, Seat
from coordinate.operations import Caller
from coordinate.service import Coordinator

CLIENT_HEADER = "coordinate-client"
# How many clients of one token have a seat; the next one takes that of whom nothing was heard for the longest time.
OF_ONE_MAX = 1_000
LOOKED_AT = 1_000
NAME_MAX = 80
SHOW_ANOTHER = f"show a session that lives in the header {SESSION_HEADER.title()}, or none"
PROFILE_OF = {"worker": "worker", "reviewer": "reviewer", "manager": "manager", "human": "all", "admin": "all"}


class Seats:
    """The seats of all clients."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        # By token, the one that was used longest ago first.
        self._seats: dict[str, dict[tuple[str, ...], Seat]] = {}
        self._lock = anyio.Lock()

    async def seat(self, context: Context) -> Seat:
        key, caller = _key(context), caller_of(_request(context))
        mine = self._seats.setdefault(key[0], {})
        if key not in mine:
            async with self._lock:
                if key not in mine:
                    mine[key] = Seat(await self._calls.write(partial(self._begin, key, caller)), caller)
        mine[key] = seat = mine.pop(key)
        if len(mine) > OF_ONE_MAX:
            del mine[next(iter(mine))]
        return seat

    def profile(self, context: Context) -> str:
        request = _request(context)
        return request.query_params.get("profile", PROFILE_OF[caller_of(request).role])

    async def gone(self, context: Context) -> bool:
        return await _request(context).is_disconnected()

    def leave(self, context: Context, seat: Seat) -> str:
        key = _key(context)
        mine = self._seats.get(key[0], {})
        if mine.get(key) is seat:
            del mine[key]
        return SHOW_ANOTHER if key[1] == "shown" else CALL_AGAIN

    def _begin(self, key: tuple[str, ...], caller: Caller) -> Coordinator:
        board = self._calls.board
        token, how, who = key
        if how == "shown":
            try:
                return board.acting(agent=caller.agent, session=who)
            except NotFound as error:
                error.hint = SHOW_ANOTHER
                raise
        mark = f"mcp {token} {how} {who}"
        if how == "client" and (found := self._of_before(caller.agent, mark)) is not None:
            return board.acting(agent=caller.agent, session=found)
        begun = board.register(name=caller.agent, kind=caller.kind, stream=mark)
        return board.acting(agent=caller.agent, session=begun.id)

    def _of_before(self, agent: str, mark: str) -> str | None:
        """The live session that an earlier process, or an earlier seat, began for a client."""
        after: str | None = None
        while True:
            found = self._calls.board.list_sessions(of_agent=agent, after=after, limit=LOOKED_AT)
            for session in found:
                if session.live and session.stream == mark:
                    return session.id
            if len(found) < LOOKED_AT:
                return None
            after = found[-1].id


def _request(context: Context) -> Request:
    """The HTTP request that a call came with."""
    assert isinstance(context.request, Request)
    return context.request


def _key(context: Context) -> tuple[str, ...]:
    """Which client a request is of: (token, how it is known, by what)."""
    request = _request(context)
    token, headers = str(caller_of(request).token), request.headers
    if session := headers.get(SESSION_HEADER):
        return token, "shown", session
    if label := headers.get(CLIENT_HEADER):
        return token, "client", label[:NAME_MAX]
    if transport := headers.get(MCP_SESSION_ID_HEADER):
        return token, "transport", transport[:NAME_MAX]
    told = context.session.client_params
    return token, "client", told.client_info.name[:NAME_MAX] if told is not None else ""
