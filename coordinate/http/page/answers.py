"""How a view of the board becomes an answer for a browser, and what it says when something is refused."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from coordinate import inputs
from coordinate.errors import CoordinateError
from coordinate.frozen import dataclass
from coordinate.http.gate import Refused, caller_of, csrf_token, is_view, status_of
from coordinate.http.page.words import render
from coordinate.mcp.calls import Calls
from coordinate.operations import Caller, operations, refusal
from coordinate.service import Coordinator

Values = dict[str, Any]
View = Callable[[Coordinator, Request], Values]

# Where the views are, what they are called, and what on a narrow screen.
VIEWS = (
    ("/", "Needs you", "You"),
    ("/boards", "Boards", "Boards"),
    ("/tasks", "Tasks", "Tasks"),
    ("/who", "Who", "Who"),
    ("/log", "Log", "Log"),
    ("/charts", "Charts", "Charts"),
)

# So many names are chosen from; of more, one is written.
CHOICES_MAX = 200

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choices:
    """Names to choose from; `more` says that these are only the first."""

    names: list[str]
    more: bool


def shown(template: str, view: View) -> Callable[[Request], Awaitable[Response]]:
    """A route that shows what a view found."""

    async def answer(request: Request) -> Response:
        calls: Calls = request.app.state.calls
        try:
            caller = caller_of(request)
            return HTMLResponse(await calls.run(partial(_written, template, view, calls, caller, request)))
        except CoordinateError as error:
            return problem(request, error)
        except Exception as error:
            logger.exception("%s failed", request.url.path)
            return problem(request, error)

    return answer


def _written(template: str, view: View, calls: Calls, caller: Caller, request: Request) -> str:
    """Look and write on one thread: whoever else is served need not wait for a long page."""
    board = calls.board.acting(agent=caller.agent)
    values = view(board, request)
    return render(template, _frame(board, request, caller) | values)


def _frame(board: Coordinator, request: Request, caller: Caller) -> Values:
    """What every view needs beside its own values."""
    return {
        "now": board.now(),
        "waiting": waiting(board, caller),
        "projects": _projects(board),
        "me": caller,
        "may": partial(_may, caller),
        "csrf": csrf_token(request),
        "here": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
        "path": request.url.path,
        "views": VIEWS,
        "project": asked(request, "project"),
    }


def _projects(board: Coordinator) -> Choices:
    found = [each.name for each in board.list_projects(limit=CHOICES_MAX + 1)]
    return Choices(found[:CHOICES_MAX], len(found) > CHOICES_MAX)


def waiting(board: Coordinator, caller: Caller) -> int:
    """How much waits for whoever looks: what is asked, and what they may review."""
    return board.attention_count() + (board.review_count() if _may(caller, "approve") else 0)


def _may(caller: Caller, operation: str) -> bool:
    return operations()[operation].allows(caller.role)


def problem(request: Request, error: Exception, *, typed: str = "", back: str = "/") -> Response:
    """A refusal as a page: what happened, what to do, and the words that were typed."""
    told = refusal(error)
    status = status_of(error) if isinstance(error, CoordinateError) else 500
    if isinstance(error, Refused):
        told["code"] = error.shown
    if "coordinate " in told["hint"]:  # what to type elsewhere does not help here
        told["hint"] = "Look for it under Tasks, or among all asks." if status == 404 else ""
    values = {"status": status, "said": told, "typed": typed, "back": back}
    return HTMLResponse(render("problem.html", values), status)


def told(said: str, notice: str, *, back: str) -> Response:
    """That a deed was done, and what the one who did it could not know."""
    values = {"status": 200, "said": {"error": f"{said}. {notice}", "hint": "", "code": "done"}, "typed": ""}
    return HTMLResponse(render("problem.html", values | {"back": back}))


def asked(request: Request, name: str) -> str | None:
    """A filter of the address; what is empty is absent."""
    return request.query_params.get(name) or None


def number(request: Request, name: str) -> int | None:
    """A cursor of the address."""
    said = asked(request, name)
    return None if said is None else inputs.parse_integer(said, name, hint="follow the page's own links")


def own(path: str, *, view: bool = False) -> str:
    """Where to go on: a path of this server (or a view of the page), whatever the form says."""
    ours = path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()
    return path if ours and (not view or is_view(path.partition("?")[0])) else "/"


def door(to: str = "/", said: str = "", status: int = 200, *, typed: str = "") -> Response:
    """The form that takes a token and leads on, why the last one was not taken, and what was typed meanwhile."""
    return HTMLResponse(render("enter.html", {"to": to, "said": said, "typed": typed}), status)


def once_more(error: CoordinateError, path: str, form: dict[str, str], proof: str) -> Response:
    """A form that was turned away, to be sent again as it was; whoever is signed out signs in first."""
    typed, back = form.get("text", "").replace("\r\n", "\n"), own(form.get("back", ""))
    if not proof:
        to = own(back, view=True)
        return door(to, "You are signed out. Sign in, and say it again: nothing was done.", 401, typed=typed)
    fields = {name: value for name, value in form.items() if name not in ("csrf", "text")}
    return HTMLResponse(
        render("again.html", {"to": path, "fields": fields, "typed": typed, "back": back, "csrf": proof}),
        status_of(error),
    )
