"""The transport sessions of MCP clients: each token has its share of them.

The library keeps so many for all, and lets go of one when its client ends it or was silent for half an hour. A client
that begins another for each of its calls would leave none for the rest; so of one token's own that one ends for the
next which was used longest ago.
"""

from __future__ import annotations

from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from coordinate.http.gate import caller_of

OF_ONE_MAX = 500


class Shares:
    """An ASGI application around the one of MCP, behind the gate."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        # By token, the one that was used longest ago first.
        self._used: dict[int | None, dict[str, None]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        mine = self._used.setdefault(caller_of(Request(scope)).token, {})
        shown = Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if shown in mine:
            del mine[shown]
            mine[shown] = None

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                ended = message["status"] == 404 or (scope["method"] == "DELETE" and message["status"] < 400)
                if shown is not None and ended:
                    mine.pop(shown, None)
                begun = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if shown is None and begun is not None and message["status"] < 400:
                    mine[begun] = None
            await send(message)

        await self.app(scope, receive, noted)
        while len(mine) > OF_ONE_MAX:
            oldest = next(iter(mine))
            del mine[oldest]
            await self._end(scope, oldest)

    async def _end(self, scope: Scope, session: str) -> None:
        """As its client would end it."""

        async def nothing() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def unheard(message: Message) -> None:
            pass

        headers = [(MCP_SESSION_ID_HEADER.encode(), session.encode())]
        await self.app({**scope, "method": "DELETE", "headers": headers}, nothing, unheard)
