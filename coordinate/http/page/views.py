"""What the page shows. Each view reads the board in one go on a thread, bounded, and is then written as HTML."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from coordinate import inputs
from coordinate.http.page.answers import Values, asked, number, shown
from coordinate.http.page.words import HERE
from coordinate.service import Coordinator

URGENT_MAX = 30
ANSWERED_MAX = 20
PAGE = 50


def routes() -> list[BaseRoute]:
    """What the page consists of, but for its front, which shares its address with other clients."""
    return [
        Route("/asks", shown("asks.html", asks), methods=["GET"]),
        Route("/asks/{ask}", shown("ask.html", ask), methods=["GET"]),
        *(Route(f"/page.{kind}", partial(_file, f"page.{kind}"), methods=["GET"]) for kind in ("css", "js", "svg")),
    ]


# --- the views --------------------------------------------------------------------------------------------------------


def needs_you(board: Coordinator, request: Request) -> Values:
    """Asks in order of urgency, what sleeps, and what became of the answers."""
    project = asked(request, "project")
    now = board.now()
    live = board.list_asks(state="open", kind="question", project=project, limit=inputs.LIST_MAX)
    urgent = board.urgent_asks(project=project, limit=URGENT_MAX)
    said = board.list_asks(unhandled=True, project=project, limit=PAGE)
    closed = board.list_asks(
        state="closed", kind="question", project=project, before=inputs.BIGINT_MAX, limit=ANSWERED_MAX
    )
    return {
        "urgent": urgent,
        "needing": board.attention_count(project=project),
        "asleep": [each for each in live if each.snoozed_until is not None and each.snoozed_until > now][:PAGE],
        "said": said[::-1],
        "closed": closed,
        "told": [
            each
            for kind in ("note", "done")
            for each in board.list_asks(kind=kind, project=project, before=inputs.BIGINT_MAX, limit=5)
        ],
        "tasks": _titles(board, [each.surface_id for each in (*urgent, *said) if each.surface == "task"]),
    }


def _titles(board: Coordinator, tasks: list[str]) -> dict[str, str]:
    return {task: board.view(task=task, notes=0, history=0).task.title for task in dict.fromkeys(tasks)}


def asks(board: Coordinator, request: Request) -> Values:
    """All asks, the latest first, or those whose words hold a text."""
    query, project, state = asked(request, "q"), asked(request, "project"), asked(request, "state")
    if query is not None:
        found = board.list_asks(query=query, project=project, after=number(request, "after") or 0, limit=PAGE)
        more = found[-1].number if len(found) == PAGE else None
        return {"asks": found, "query": query, "state": None, "more": more and ("after", more)}
    before = number(request, "before")
    before = inputs.BIGINT_MAX if before is None else before
    found = board.list_asks(state=state, project=project, before=before, limit=PAGE)
    more = found[-1].number if len(found) == PAGE else None
    return {"asks": found, "query": None, "state": state, "more": more and ("before", more)}


def ask(board: Coordinator, request: Request) -> Values:
    """All about one ask."""
    view = board.show_ask(ask=request.path_params["ask"])
    on = [view.ask.surface_id] if view.ask.surface == "task" else []
    return {"view": view, "ask": view.ask, "tasks": _titles(board, on)}


front = shown("needs_you.html", needs_you)

# --- files ------------------------------------------------------------------------------------------------------------


async def _file(name: str, request: Request) -> Response:
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return FileResponse(HERE / "static" / name, media_type=kinds[name.rpartition(".")[2]])
