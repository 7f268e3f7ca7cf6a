"""The JSON API: `POST /api/OPERATION` with one JSON object, made from the list of operations, and its OpenAPI document.

The answer is the operation's own, as JSON; a refusal is `{"error", "code", "hint", …}` with the status of its class.
Who calls is what the token says; a session of the token's agent may be shown in the header `Coordinate-Session`.
"""

from __future__ import annotations

import functools
import logging
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from coordinate import __version__
from coordinate.errors import CoordinateError, NotFound
from coordinate.http.gate import Refused, caller_of, parse_object, refused
from coordinate.mcp.calls import Calls
from coordinate.mcp.words import in_operations
from coordinate.operations import Caller, Operation, Schema, operations, record_schema, refusal, schema_of
from coordinate.records import as_json
from coordinate.service import Coordinator

SESSION_HEADER = "coordinate-session"

logger = logging.getLogger(__name__)


async def perform(request: Request) -> JSONResponse:
    """One operation."""
    calls: Calls = request.app.state.calls
    try:
        caller = caller_of(request)
        operation = operations().get(request.path_params["operation"])
        if operation is None:
            raise NotFound("there is no such operation", hint="/api/openapi.json lists them")
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, "not_json", "the body must be JSON", "send Content-Type: application/json")
        arguments = parse_object(await request.body())
        # To register is to begin a new run, whichever one the caller shows.
        board = await board_of(calls, request, caller, session=operation.name != "register")
        gone = request.is_disconnected
        answer: JSONResponse = await calls.perform(operation, board, caller, arguments, told=_answer, gone=gone)
    except CoordinateError as error:
        told = in_operations(refusal(error))
        error.message, error.hint = told["error"], told["hint"]
        return refused(error)
    except Exception as error:
        logger.exception("%s failed", request.url.path)
        return JSONResponse(refusal(error), 500)
    return answer


def _answer(answer: Any) -> JSONResponse:
    return JSONResponse(as_json(answer))


async def board_of(calls: Calls, request: Request, caller: Caller, *, session: bool = True) -> Coordinator:
    """The board in the caller's name, and in the session that the request shows."""
    shown = request.headers.get(SESSION_HEADER) if session else None
    return await calls.run(partial(calls.board.acting, agent=caller.agent, session=shown))


async def openapi(request: Request) -> JSONResponse:
    """The API as an OpenAPI document."""
    return JSONResponse(document())


@functools.cache
def document() -> Schema:
    """The OpenAPI document: one path for each operation."""
    components: dict[str, Schema] = {"Error": _ERROR}

    def refer(name: str) -> Schema:
        if name not in components:
            components[name] = {}  # a record may hold its own kind
            components[name] = record_schema(name, refer=refer)
        return {"$ref": f"#/components/schemas/{name}"}

    paths = {f"/api/{each.name}": {"post": _path(each, refer)} for each in operations().values()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "coordinate", "version": __version__, "description": __doc__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


_ERROR: Schema = {
    "type": "object",
    "properties": {"error": {"type": "string"}, "code": {"type": "string"}, "hint": {"type": "string"}},
    "required": ["error", "code", "hint"],
}
_REFUSALS = {
    "400": "The body is not a JSON object.",
    "401": "No token, or one that is over.",
    "403": "A foreign host or origin, or not for this role.",
    "404": "No such thing.",
    "409": "Held by another, outdated, or no such move from where it stands.",
    "410": "The board has moved; `address` says where.",
    "413": "Too large.",
    "415": "The body is not application/json.",
    "422": "A value that may not come in.",
    "429": "Too many requests.",
    "503": "The board is busy or away; try again.",
}


def _path(operation: Operation, refer: Any) -> Schema:
    answer = {
        "description": "Done.",
        "content": {"application/json": {"schema": schema_of(operation.answer, refer=refer)}},
    }
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {
        "operationId": operation.name,
        "summary": operation.first_sentence,
        "description": operation.says,
        "parameters": [{"name": "Coordinate-Session", "in": "header", "schema": {"type": "string"}, "required": False}],
        "requestBody": {
            "required": bool(operation.schema.get("required")),
            "content": {"application/json": {"schema": operation.schema}},
        },
        "responses": {"200": answer}
        | {status: {"description": said, "content": failed} for status, said in _REFUSALS.items()},
    }
