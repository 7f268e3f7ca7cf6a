"""The application: what is served at which path, and its beginning and end."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
from mcp.server.streamable_http_manager import StreamableHTTPASGIApp, StreamableHTTPSessionManager
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from coordinate import __version__, inputs
from coordinate.errors import Busy, CoordinateError, NotAuthenticated, NotFound
from coordinate.http import api
from coordinate.http.gate import (
    BODY_MAX,
    Gate,
    Refused,
    Rules,
    address_of,
    csrf_token,
    parse_form,
    refused,
    status_of,
    unsaid,
    wants_page,
)
from coordinate.http.page import answers, deeds, views
from coordinate.http.seats import Seats
from coordinate.http.transports import Shares
from coordinate.mcp.calls import Calls
from coordinate.mcp.server import make_server
from coordinate.records import Token, as_json
from coordinate.service import Coordinator

PROBE_SECONDS = 5.0
STOP_SECONDS = 0.2
SIGNED_IN_SECONDS_MAX = 30 * 86_400


class Application:
    """The whole of it as an ASGI application: the gate, and behind it the routes. Made anew for each event loop."""

    def __init__(self, board: Coordinator, rules: Rules, *, stopping: Callable[[], bool] = lambda: False) -> None:
        self.board, self.rules, self._stopping = board, rules, stopping
        self._gate: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._gate is None:
            self._gate = self._build()
        await self._gate(scope, receive, send)

    def _build(self) -> ASGIApp:
        calls = Calls(self.board)
        mcp = StreamableHTTPSessionManager(make_server(calls, Seats(calls)), max_request_body_size=BODY_MAX)

        @asynccontextmanager
        async def running(app: Starlette) -> AsyncIterator[None]:
            async with mcp.run(), anyio.create_task_group() as tasks:
                tasks.start_soon(calls.feed.run)
                tasks.start_soon(self._end_streams, calls)
                tasks.start_soon(app.state.gate.watch)
                yield
                tasks.cancel_scope.cancel()

        app = Starlette(
            routes=[Route("/mcp", Shares(StreamableHTTPASGIApp(mcp))), *routes()],
            lifespan=running,
            exception_handlers={404: nowhere, 405: otherwise, Refused: turned_away},
        )
        gate = Gate(app, calls, self.rules, answers.once_more)
        app.state.calls, app.state.rules, app.state.gate, app.state.began = calls, self.rules, gate, time.time()
        # A board that takes no write keeps its probes, of which anybody may ask for many, and nobody else's threads.
        app.state.probes = anyio.CapacityLimiter(1)
        return gate

    async def _end_streams(self, calls: Calls) -> None:
        """A stream has no end of its own; the server waits for it when it stops."""
        while not self._stopping():
            await anyio.sleep(STOP_SECONDS)
        calls.feed.stop()


def routes() -> list[BaseRoute]:
    """What is served besides MCP."""
    return [
        Route("/", contents, methods=["GET"]),
        Route("/enter", enter, methods=["GET", "POST"]),
        Route("/leave", leave, methods=["POST"]),
        Route("/api/openapi.json", api.openapi, methods=["GET"]),
        Route("/api/{operation}", api.perform, methods=["POST"]),
        Route("/events", events, methods=["GET"]),
        Route("/healthz", health, methods=["GET"]),
        Route("/metrics", metrics, methods=["GET"]),
        *views.routes(),
        *deeds.routes(),
    ]


async def contents(request: Request) -> Response:
    """The page; for others than browsers what there is, and who signed in is told the proof to show with a change."""
    if wants_page(request.headers):
        return await views.front(request)
    there = {"mcp": "/mcp", "api": "/api/openapi.json", "events": "/events", "metrics": "/metrics"}
    return JSONResponse(there | {"csrf": csrf_token(request) or None})


async def turned_away(request: Request, error: Exception) -> Response:
    """A refusal, as whoever asks reads it."""
    assert isinstance(error, CoordinateError)
    return answers.problem(request, error) if wants_page(request.headers) else refused(error)


async def nowhere(request: Request, _: Exception) -> Response:
    """Nothing is served there."""
    return await turned_away(request, NotFound("nothing is served at this address", hint="begin at /"))


async def otherwise(request: Request, raised: Exception) -> Response:
    """Something is served there, by another method."""
    allowed = ((raised.headers if isinstance(raised, HTTPException) else None) or {}).get("Allow", "")
    error = Refused(405, "method_not_allowed", f"{request.method} is not served here", f"use {allowed}")
    answer = await turned_away(request, error)
    answer.headers["Allow"] = allowed
    return answer


# --- signing in -------------------------------------------------------------------------------------------------------


async def enter(request: Request) -> Response:
    """Sign a browser in with the key of a link, or with a token from a form; the cookie then stands for that."""
    form = parse_form(await request.body() if request.method == "POST" else request.scope["query_string"])
    secret, to = (form.get("token") or form.get("key") or "").strip(), answers.own(form.get("to", ""), view=True)
    if not secret and request.method == "GET" and wants_page(request.headers):
        return answers.door(to)
    gate: Gate = request.app.state.gate
    try:
        token = await gate.admit(secret, address_of(request.scope))
        lasts = SIGNED_IN_SECONDS_MAX
        if token is not None:
            lasts = await gate.calls.run(partial(_lasts, gate.calls.board, token))
    except CoordinateError as error:
        if not wants_page(request.headers):
            return refused(error)
        ended = "This link ended with the server that printed it: open the one that the running server printed."
        of_link = "key" in form and isinstance(error, NotAuthenticated)
        return answers.door(to, ended if of_link else error.message, status_of(error))
    answer = RedirectResponse(to, 303)
    # Lax: whoever follows a link from elsewhere stays signed in; what changes something shows origin and proof.
    rules = gate.rules
    gate.sign_ins.end(request.cookies.get(rules.cookie, ""))
    cookie, until = gate.sign_ins.begin(secret, lasts), None if token is None else lasts
    https = rules.scheme == "https"
    answer.set_cookie(rules.cookie, cookie, max_age=until, httponly=True, samesite="lax", secure=https)
    return answer


def _lasts(board: Coordinator, token: Token) -> int:
    """For how many seconds a browser stays signed in."""
    if token.expires_at is None:
        return SIGNED_IN_SECONDS_MAX
    return min(SIGNED_IN_SECONDS_MAX, max(1, int((token.expires_at - board.now()).total_seconds())))


async def leave(request: Request) -> Response:
    """Sign out."""
    gate: Gate = request.app.state.gate
    if not gate.sign_ins.end(request.scope["state"]["sign_in"]):
        said = f"you are still signed in: {gate.rules.kept} cannot be written, and a restart would sign you in again"
        error = Refused(503, "not_kept", said, "try again when it can be written, or delete that file")
        return await turned_away(request, error)
    answer = RedirectResponse("/enter", 303)
    https = gate.rules.scheme == "https"
    answer.delete_cookie(gate.rules.cookie, httponly=True, samesite="lax", secure=https)
    return answer


# --- the log as it grows ----------------------------------------------------------------------------------------------


async def events(request: Request) -> Response:
    """The log as server-sent events, from any process's writes, within a second.

    `after` (or Last-Event-ID, which a browser sends when it comes back) begins behind a position, without it from now
    on; `project` narrows it. Each has its position as `id` and the event as JSON in `data`.
    """
    calls: Calls = request.app.state.calls
    try:
        said = request.headers.get("last-event-id") or request.query_params.get("after")
        if said is not None and not (said.isascii() and said.isdigit() and len(said) < 19):
            raise inputs.refuse("after", "after must be a position of the log, a whole number")
        project = inputs.name_or_none(request.query_params.get("project"), "project")
        head = (await calls.run(calls.board.tail_events))[1]
        # A browser that comes back to a board that was restored begins at its end; whoever asks is told.
        if "after" in request.query_params and said is not None and int(said) > head:
            raise inputs.refuse("after", f"the log ends at {head}, before {said}")
        after = head if said is None else min(int(said), head)
        await calls.run(partial(calls.board.tail_events, after=after, limit=1))  # nothing comes where it has moved
    except CoordinateError as error:
        return refused(error)
    if request.method == "HEAD":  # a stream has no end that one could wait for
        return Response(media_type="text/event-stream")
    return StreamingResponse(_lines(calls, after, project), media_type="text/event-stream")


async def _lines(calls: Calls, after: int, project: str | None) -> AsyncIterator[str]:
    yield f"retry: 1000\nid: {after}\ndata:\n\n" if after else "retry: 1000\n\n"
    async for event in calls.feed.follow(after, project):
        if event is None:
            yield ": nothing new\n\n"
        else:
            yield f"id: {event.id}\nevent: log\ndata: {json.dumps(as_json(event))}\n\n"


# --- for operators ----------------------------------------------------------------------------------------------------


async def health(request: Request) -> JSONResponse:
    """Whether the board takes writes: it is written to, without being changed."""
    state = request.app.state
    calls: Calls = state.calls
    try:
        with anyio.fail_after(PROBE_SECONDS):
            await anyio.to_thread.run_sync(calls.board.probe, abandon_on_cancel=True, limiter=state.probes)
    except TimeoutError:
        return refused(Busy(f"the board took no write within {PROBE_SECONDS:g} s", hint="see who holds its lock"))
    except CoordinateError as error:
        return refused(unsaid(error))
    return JSONResponse({"status": "ok", "version": __version__})


async def metrics(request: Request) -> Response:
    """Figures in Prometheus' text form."""
    state = request.app.state
    calls: Calls = state.calls
    try:
        stands = await calls.run(partial(calls.board.status, days=1))
        position = (await calls.run(calls.board.tail_events))[1]
    except CoordinateError as error:
        return refused(error)
    lines = [
        *_figure(
            "coordinate_tasks",
            "gauge",
            "Tasks by status.",
            {("status", each): n for each, n in stands.by_status.items()},
        ),
        *_figure("coordinate_expired_leases", "gauge", "Claims whose time is over.", {(): stands.expired_leases}),
        *_figure("coordinate_live_sessions", "gauge", "Sessions that live.", {(): stands.sessions_live}),
        *_figure("coordinate_events_position", "counter", "The last position of the log.", {(): position}),
        *_figure("coordinate_followers", "gauge", "Who waits or follows.", {(): calls.feed.followers}),
        *_figure(
            "coordinate_requests_total",
            "counter",
            "Requests answered, by status.",
            {("status", str(status)): count for status, count in sorted(state.gate.answered.items())},
        ),
        *_figure("coordinate_started_seconds", "gauge", "When the server began.", {(): int(state.began)}),
    ]
    return PlainTextResponse("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


def _figure(name: str, kind: str, says: str, values: dict[Any, int]) -> list[str]:
    shown = [f"# HELP {name} {says}", f"# TYPE {name} {kind}"]
    for label, value in values.items():
        shown.append(f'{name}{{{label[0]}="{label[1]}"}} {value}' if label else f"{name} {value}")
    return shown
