"""What a person does on the page: a form names the operation, and the one way in performs it as the API does.

A browser without script is led back to where it was; the script asks for JSON and stays where it is. A refusal keeps
the words that were typed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Route

from coordinate.errors import CoordinateError, InvalidInput, NotFound
from coordinate.http.gate import caller_of, parse_form, refused, wants_page
from coordinate.http.page.answers import own, problem
from coordinate.mcp.calls import Calls
from coordinate.operations import operations, refusal
from coordinate.service import Coordinator

Form = dict[str, str]
Deed = Callable[[Coordinator, Form], tuple[str, dict[str, Any], str]]

SLEEP_SECONDS_MAX = 366 * 86_400

logger = logging.getLogger(__name__)


def routes() -> list[BaseRoute]:
    return [Route("/do/{deed}", do, methods=["POST"])]


async def do(request: Request) -> Response:
    """Perform a deed in the name of whoever signed in."""
    calls: Calls = request.app.state.calls
    form = {name: value.replace("\r\n", "\n") for name, value in parse_form(await request.body()).items()}
    quiet = not wants_page(request.headers)
    back = own(form.get("back", ""))
    try:
        caller = caller_of(request)
        deed = DEEDS.get(request.path_params["deed"])
        if deed is None:
            raise NotFound("there is no such deed", hint="load the page again")
        board = await calls.run(partial(calls.board.acting, agent=caller.agent))
        name, arguments, said = await calls.run(partial(deed, board, form))
        await calls.perform(operations()[name], board, caller, arguments)
    except Exception as error:
        if not isinstance(error, CoordinateError):
            logger.exception("%s failed", request.url.path)
        if not quiet:
            return problem(request, error, typed=form.get("text", ""), back=back)
        return refused(error) if isinstance(error, CoordinateError) else JSONResponse(refusal(error), 500)
    return JSONResponse({"said": said}) if quiet else RedirectResponse(back, 303)


def _need(form: Form, name: str) -> str:
    if name not in form:
        raise InvalidInput(f"the form lacks {name}", hint="load the page again", field=name)
    return form[name]


# --- asks -------------------------------------------------------------------------------------------------------------

_SAID = {"answer": "Answered", "clarify": "Asked back on", "decline": "Declined", "handled": "Done your part of"}


def respond(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask, kind = _need(form, "ask"), form.get("kind", "answer")
    given: dict[str, Any] = {
        "ask": ask,
        "kind": kind,
        "text": form.get("text", ""),
        "choice": form.get("choice") or None,
    }
    if (revision := form.get("revision", "")).isdecimal() and len(revision) < 19:
        given["revision"] = int(revision)
    return "respond", given, f"{_SAID.get(kind, kind)} {ask}"


def undo(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "withdraw_response", {"ask": ask}, f"Took back what was said on {ask}"


def snooze(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask, seconds = _need(form, "ask"), _need(form, "seconds")
    if not (seconds.isascii() and seconds.isdigit() and len(seconds) < 9 and int(seconds) <= SLEEP_SECONDS_MAX):
        raise InvalidInput("seconds must be a whole number", hint="choose one of the times", field="seconds")
    until = board.now() + timedelta(seconds=int(seconds))
    return "snooze", {"ask": ask, "until": until.isoformat()}, f"{ask} sleeps"


def wake(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "wake", {"ask": ask}, f"{ask} is awake"


def dismiss(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "dismiss", {"ask": ask, "reason": form.get("text", "")}, f"Dismissed {ask}"


def annotate(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    ask = _need(form, "ask")
    return "annotate", {"ask": ask, "text": form.get("text", "")}, f"Said beside {ask}"


# --- reviews, and words beside tasks and rows -------------------------------------------------------------------------


def comment(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    task = _need(form, "task")
    return "comment", {"task": task, "text": form.get("text", "")}, f"Noted on {task}"


def approve(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    task = _need(form, "task")
    return "approve", {"task": task, "note": form.get("text", "")}, f"Approved {task}"


def reject(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    task = _need(form, "task")
    return "reject", {"task": task, "reason": form.get("text", "")}, f"Sent {task} back to the queue"


def beside(board: Coordinator, form: Form) -> tuple[str, dict[str, Any], str]:
    row = {name: _need(form, name) for name in ("title", "project", "label")}
    return "board_annotate", {**row, "text": form.get("text", "")}, "Said beside the row"


DEEDS: dict[str, Deed] = {
    "respond": respond,
    "undo": undo,
    "snooze": snooze,
    "wake": wake,
    "dismiss": dismiss,
    "annotate": annotate,
    "comment": comment,
    "approve": approve,
    "reject": reject,
    "beside": beside,
}
