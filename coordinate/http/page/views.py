"""What the page shows. Each view reads the board in one go on a thread, bounded, and is then written as HTML."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from coordinate import inputs, records
from coordinate.errors import CoordinateError
from coordinate.http.gate import caller_of
from coordinate.http.page import charts
from coordinate.http.page.answers import Values, asked, number, shown
from coordinate.http.page.words import HERE, place
from coordinate.operations import operations
from coordinate.records import Ask, Event, Lease, Session, Task
from coordinate.service import Coordinator
from coordinate.states import BLOCKED, DONE, FINAL, IN_PROGRESS, IN_REVIEW, TODO

URGENT_MAX = 30
REVIEWS_MAX = 30
TOLD_MAX = 10
ANSWERED_MAX = 20
# How many answers are looked through at a time, and how often, for those of one person.
SAID_MAX = 200
LOOKS_MAX = 5
REPLACED_MAX = 20
COLUMNS = (TODO, IN_PROGRESS, BLOCKED, IN_REVIEW, DONE)
COLUMN_MAX = 20
PEOPLE_MAX = 200
SESSIONS_SHOWN = 3
DRAWN_MAX = 1_000
PAGE = 50

R = TypeVar("R")


def routes() -> list[BaseRoute]:
    """What the page consists of, but for its front, which shares its address with other clients."""
    return [
        Route("/asks", shown("asks.html", asks), methods=["GET"]),
        Route("/asks/{ask}", shown("ask.html", ask), methods=["GET"]),
        Route("/boards", shown("boards.html", boards), methods=["GET"]),
        Route("/board", shown("board.html", one_board), methods=["GET"]),
        Route("/tasks", shown("tasks.html", tasks), methods=["GET"]),
        Route("/tasks/{task}", shown("task.html", task), methods=["GET"]),
        Route("/who", shown("who.html", who), methods=["GET"]),
        Route("/log", shown("log.html", log), methods=["GET"]),
        Route("/charts", shown("charts.html", figures), methods=["GET"]),
        *(Route(f"/page.{kind}", partial(_file, f"page.{kind}"), methods=["GET"]) for kind in ("css", "js", "svg")),
    ]


# --- the views --------------------------------------------------------------------------------------------------------


def needs_you(board: Coordinator, request: Request) -> Values:
    """Asks in order of urgency, reviews, what sleeps, and what became of the answers."""
    project = asked(request, "project")
    urgent = board.urgent_asks(project=project, limit=URGENT_MAX)
    closed = board.list_asks(
        state="closed", kind="question", project=project, before=inputs.BIGINT_MAX, limit=ANSWERED_MAX
    )
    return {
        "urgent": urgent,
        **_reviews(board, request, project, {each.id for each in urgent if each.action_owner == "approval"}),
        "needing": board.attention_count(project=project),
        **_asleep(board, project, number(request, "asleep_after")),
        **_said_by(board, caller_of(request).agent, project, number(request, "before")),
        "closed": closed,
        "told": board.list_asks(told=True, project=project, before=inputs.BIGINT_MAX, limit=TOLD_MAX),
        "tasks": _titles(board, [each.surface_id for each in urgent if each.surface == "task"]),
    }


def _said_by(board: Coordinator, name: str, project: str | None, before: int | None) -> Values:
    """A person's answers that the agents have not finished with, by the latest ask; and where the next page begins.

    Also those that another person has replaced since, as far as a few looks tell.
    """
    said: list[Ask] = []
    looks = REPLACED_MAX
    at = inputs.BIGINT_MAX if before is None else before
    for _ in range(LOOKS_MAX):
        found = board.list_asks(state="answered", project=project, before=at, limit=SAID_MAX)
        for each in found:
            mine = each.response is not None and each.response.said_by == name
            if not mine and each.response_seq > 1 and looks:
                looks -= 1
                mine = any(one.said_by == name for one in board.show_ask(ask=each.id).responses)
            if mine:
                said.append(each)
            at = each.number
            if len(said) == PAGE:
                return {"said": said, "more_said": at, "said_before": before}
        if len(found) < SAID_MAX:
            return {"said": said, "more_said": None, "said_before": before}
    return {"said": said, "more_said": at, "said_before": before}


def _asleep(board: Coordinator, project: str | None, after: int | None) -> Values:
    """What a person put off; and where the next page begins."""
    found = board.list_asks(snoozed=True, project=project, after=after or 0, limit=PAGE + 1)
    asleep, more = _page(found, PAGE, lambda last: last.number)
    return {"asleep": asleep, "more_asleep": more}


def _reviews(board: Coordinator, request: Request, project: str | None, approvals: set[str]) -> Values:
    """What waits for a review by whoever may pass it, without what the approvals that are asked for decide."""
    if not operations()["approve"].allows(caller_of(request).role):
        return {"reviews": [], "more_reviews": None}
    page = board.list_tasks(status=IN_REVIEW, project=project, limit=REVIEWS_MAX)
    return {"reviews": [each for each in page.tasks if each.ask_id not in approvals], "more_reviews": page.next}


def _titles(board: Coordinator, tasks: list[str]) -> dict[str, str]:
    return {task: board.view(task=task, notes=0, history=0).task.title for task in dict.fromkeys(tasks)}


def asks(board: Coordinator, request: Request) -> Values:
    """All asks, the latest first, or those whose words hold a text."""
    query, project, state = asked(request, "q"), asked(request, "project"), asked(request, "state")
    if query is not None:
        found = board.list_asks(query=query, project=project, after=number(request, "after") or 0, limit=PAGE + 1)
        page, more = _page(found, PAGE, lambda last: last.number)
        return {"asks": page, "query": query, "state": None, "more": more and ("after", more)}
    before = number(request, "before")
    before = inputs.BIGINT_MAX if before is None else before
    found = board.list_asks(state=state, project=project, before=before, limit=PAGE + 1)
    page, more = _page(found, PAGE, lambda last: last.number)
    return {"asks": page, "query": None, "state": state, "more": more and ("before", more)}


def ask(board: Coordinator, request: Request) -> Values:
    """All about one ask."""
    view = board.show_ask(ask=request.path_params["ask"])
    on = [view.ask.surface_id] if view.ask.surface == "task" else []
    return {"view": view, "ask": view.ask, "tasks": _titles(board, on)}


def boards(board: Coordinator, request: Request) -> Values:
    """Boards with their progress, the latest change first."""
    archived = asked(request, "archived") is not None
    project, after = asked(request, "project"), asked(request, "after")
    found = board.board_list(project=project, archived=archived, after=after, limit=PAGE + 1)
    page, more = _page(found, PAGE, lambda last: last.board.id)
    return {"boards": page, "archived": archived, "more": more}


def one_board(board: Coordinator, request: Request) -> Values:
    """A board with all that is known of its rows."""
    title, project = asked(request, "title") or "", asked(request, "project") or "default"
    return {"view": board.board_get(title=title, project=project, full=True), "project": None}


def tasks(board: Coordinator, request: Request) -> Values:
    """Tasks by where they stand, in the queue's order; what is finished the latest first; or one column, paged."""
    project, role, agent, query = (asked(request, name) for name in ("project", "role", "agent", "q"))
    status = asked(request, "status")
    after = asked(request, "after") if status else None
    stats = board.stats(project=project)
    columns = []
    for each in (status,) if status else COLUMNS:
        limit = PAGE if status else COLUMN_MAX
        if each in FINAL:
            found = board.list_finished(
                status=each,
                role=role,
                by_agent=agent,
                project=project,
                query=query,
                after=after,
                limit=limit + 1,
            )
            ended, more = _page(found, limit, lambda last: last.id)
            column: Values = {"tasks": ended, "more": more}
        else:
            page = board.list_tasks(
                status=each,
                role=role,
                assigned_to=agent,
                project=project,
                query=query,
                after=after,
                limit=limit,
            )
            column = {"tasks": page.tasks, "more": page.next}
        counted = stats.by_status.get(each, 0) if (role, agent, query) == (None, None, None) else None
        columns.append(column | {"status": each, "count": counted})
    return {
        "columns": columns,
        "stats": stats,
        "agents": [each.name for each in board.list_agents(limit=200)],
        "filters": {"project": project, "role": role, "agent": agent, "q": query},
    }


def task(board: Coordinator, request: Request) -> Values:
    """A task's whole story."""
    name = request.path_params["task"]
    notes_before, history_before = number(request, "notes_before"), number(request, "history_before")
    view = board.view(task=name, notes_before=notes_before, history_before=history_before)
    return {
        "view": view,
        "task": view.task,
        "why": board.why(task=name),
        "asks": _asks_on(board, view.task),
        "leases": board.list_leases(task=name, limit=PAGE),
        "notes_before": notes_before,
    }


def _asks_on(board: Coordinator, found: Task) -> list[Ask]:
    """What humans are, or were last, asked about a task, and before that."""
    if found.ask_id is None:
        return []
    view = board.show_ask(ask=found.ask_id)
    return [view.ask, *view.steps[:5]]


def who(board: Coordinator, request: Request) -> Values:
    """Who works on what, and holds which files until when."""
    project = asked(request, "project")
    before, after, trees_before = number(request, "before"), asked(request, "after"), number(request, "trees_before")
    held = board.list_tasks(status=IN_PROGRESS, project=project, limit=PEOPLE_MAX)
    holds = board.list_leases(project=project, before=before, limit=PEOPLE_MAX + 1)
    leases, more_leases = _page(holds, PEOPLE_MAX, lambda last: last.id)
    sessions = board.list_sessions(project=project, limit=PEOPLE_MAX)
    found = board.list_worktrees(project=project, before=trees_before, limit=PAGE + 1)
    trees, more_trees = _page(found, PAGE, lambda last: last.id)
    agents, more_agents = _page(board.list_agents(after=after, limit=PAGE + 1), PAGE, lambda last: last.name)
    return {
        "people": _people(sessions, held.tasks, leases),
        "more_people": len(sessions) == PEOPLE_MAX or held.next is not None,
        "leases": leases,
        "more_leases": more_leases,
        "worktrees": trees,
        "more_worktrees": more_trees,
        "agents": agents,
        "more_agents": more_agents,
    }


def _people(sessions: Sequence[Session], held: Sequence[Task], leases: Sequence[Lease]) -> list[Values]:
    """Whoever has a session or holds something, the live and busy first."""
    found: dict[str, Values] = {}

    def at(name: str) -> Values:
        return found.setdefault(name, {"name": name, "live": False, "sessions": [], "tasks": [], "leases": []})

    for session in sessions:
        one = at(session.agent)
        one["live"] = one["live"] or session.live
        if len(one["sessions"]) < SESSIONS_SHOWN:
            one["sessions"].append(session)
    for each in held:
        at(str(each.assigned_agent))["tasks"].append(each)
    for lease in leases:
        at(lease.agent)["leases"].append(lease)
    return sorted(found.values(), key=lambda one: (not one["live"], not one["tasks"], one["name"]))


def log(board: Coordinator, request: Request) -> Values:
    """The event log, the latest first; a text is searched for in messages and payloads."""
    names = {"q": "q", "kind": "kind", "ref": "ref", "agent": "agent", "project": "project"}
    filters = {name: asked(request, given) for name, given in names.items()}
    before, project = number(request, "before"), filters["project"]
    if filters["q"] is not None:
        kinds = None if filters["kind"] is None else [filters["kind"]]
        found = board.search_events(
            query=filters["q"], event_types=kinds, project=project, before=before, limit=PAGE + 1
        )
    else:
        found = board.list_events(
            event_type=filters["kind"],
            ref=filters["ref"],
            by_agent=filters["agent"],
            project=project,
            before=before,
            limit=PAGE + 1,
        )[::-1]
    page, more = _page(found, PAGE, lambda last: last.id)
    return {"events": page, "said": _said(board, page), "filters": filters, "more": more}


def _said(board: Coordinator, events: Sequence[Event]) -> dict[tuple[str, str], records.Response]:
    """What humans said, by ask and number: the events name it, and do not hold the words."""
    asks = dict.fromkeys(str(each.ref) for each in events if "response_seq" in each.payload and place(each.ref))
    found: dict[tuple[str, str], records.Response] = {}
    for name in asks:
        try:
            responses = board.show_ask(ask=name).responses
        except CoordinateError:  # anybody may emit an event about anything
            continue
        found |= {(name, str(each.seq)): each for each in responses}
    return found


def figures(board: Coordinator, request: Request) -> Values:
    """Charts of the last days."""
    project, days = asked(request, "project"), number(request, "days") or 30
    status = board.status(project=project, days=days)
    finished = board.list_finished(project=project, limit=DRAWN_MAX)
    effort = board.effort(project=project, days=days)
    return {"charts": charts.charts(status, finished, effort, board.now()), "status": status, "days": days}


def _page(found: Sequence[R], most: int, mark: Callable[[R], str | int | None]) -> tuple[Sequence[R], str | int | None]:
    """Of what was looked for, one more than a page holds, the page; and where the next one begins, if there is one."""
    return found[:most], mark(found[most - 1]) if len(found) > most else None


front = shown("needs_you.html", needs_you)

# --- files ------------------------------------------------------------------------------------------------------------


async def _file(name: str, request: Request) -> Response:
    kinds = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    return FileResponse(HERE / "static" / name, media_type=kinds[name.rpartition(".")[2]])
