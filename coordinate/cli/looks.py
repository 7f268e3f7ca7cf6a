"""Looking: one task, many, the whole board; and taking away what has expired."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

from coordinate.cli.declared import argument, choice, command, option, taking
from coordinate.cli.shared import Call, given, one_text
from coordinate.states import IN_PROGRESS

if TYPE_CHECKING:
    from coordinate.records import Status, Task
    from coordinate.service import Coordinator

HELD_MAX = 50

project_option = choice("--project", help="Only tasks of this project.")


@command("view", example="coordinate task view TASK-12 --notes 50")
@argument("task", metavar="TASK-ID")
@option("--notes", type=int, help="How many notes; 0 means the default.")
@option("--history", type=int, help="How many lines of history; 0 means the default.")
@option("--notes-before", type=int, help="The next page of notes: `more_notes` of the page before.")
@option("--history-before", type=int, help="The next page of history: `more_history` of the page before.")
def view(call: Call, task: str, notes: int | None, history: int | None, **pages: int | None) -> None:
    """Show a task's whole story, newest first: notes, history, dependencies, attempts."""
    with call.board() as board:
        call.show(board.view(task=task, **given(notes=notes or None, history=history or None, **pages)))


_filters = taking(
    choice("--status", upper=True, help="TODO, IN_PROGRESS, BLOCKED, IN_REVIEW, DONE or CANCELLED."),
    choice("--role", help="Only tasks of this role."),
    choice("--agent", "assigned_to", help="Only what this agent holds."),
    project_option,
    choice("--text", "query", help="Words in title, body or notes, in any letter case."),
    option("--limit", type=int, help="At most so many; 0 means the default."),
    option("--after", metavar="CURSOR", help="The next page: `next` of the page before."),
    option("--ndjson", is_flag=True, help="One task a line; without --limit all of them."),
)


@command("list", example="coordinate task list --status TODO --limit 20")
@_filters
def list_tasks(call: Call, ndjson: bool, limit: int | None, **filters: Any) -> None:
    """List tasks in the queue's order; "next" is the cursor of the next page, for --after."""
    with call.board() as board:
        if ndjson:
            call.show_lines(_pages(board, limit, filters))
        else:
            call.show(board.list_tasks(**given(limit=limit or None, **filters)))


@command("search", example='coordinate task search "parser" --status DONE')
@argument("words", metavar="[TEXT]", required=False)
@_filters
def search(call: Call, ndjson: bool, limit: int | None, words: str | None, **filters: Any) -> None:
    """List tasks by their facts and their words; answers an array, and says on stderr when there are more."""
    filters["query"] = one_text(words, filters["query"])
    with call.board() as board:
        if ndjson:
            call.show_lines(_pages(board, limit, filters))
            return
        page = board.list_tasks(**given(limit=limit or None, **filters))
        call.show(page.tasks)
        if page.next:
            call.warn("there are more tasks; go on with --after", next=page.next)


def _pages(board: Coordinator, limit: int | None, filters: dict[str, Any]) -> Iterator[Task]:
    while True:
        page = board.list_tasks(**given(limit=limit or None, **filters))
        yield from page.tasks
        if limit or page.next is None:
            return
        filters["after"] = page.next


@command("why", example="coordinate task why TASK-12")
@argument("task", metavar="TASK-ID")
def why(call: Call, task: str) -> None:
    """Say what a task waits for: dependencies, time, holder, reviewer, or nothing."""
    with call.board() as board:
        call.show(board.why(task=task))


@command("why-idle", example="coordinate task why-idle --role worker")
@option("--role", required=True, help="Whose queue.")
@project_option
def why_idle(call: Call, role: str, project: str | None) -> None:
    """Say why a role finds nothing to claim, and when that may change by itself."""
    with call.board() as board:
        call.show(board.why_idle(role=role, **given(project=project)))


@command("stats", example="coordinate task stats")
@project_option
def stats(call: Call, project: str | None) -> None:
    """Count tasks by status and role."""
    with call.board() as board:
        call.show(board.stats(**given(project=project)))


@command("status", example="coordinate status --format table")
@project_option
@option("--days", type=int, help="Days of the burn-down.")
def status(call: Call, project: str | None, days: int | None) -> None:
    """Say where the board stands: counts, per cent done, what is stuck, a burn-down by day."""
    with call.board() as board:
        found = board.status(**given(project=project, days=days))
        call.show(_for_people(board, found, project) if call.format == "table" else found)


def _for_people(board: Coordinator, found: Status, project: str | None) -> dict[str, Any]:
    """The same without the days on which nothing happened, and with who holds what."""
    from coordinate.cli.output import plain

    held = board.list_tasks(status=IN_PROGRESS, limit=HELD_MAX, **given(project=project)).tasks
    days = [day for day in found.burndown if day.created or day.done or day.cancelled]
    return {**plain(found), "burndown": plain(days), "held": plain(held)}


@command("export", example="coordinate export > board.jsonl")
def export(call: Call) -> None:
    """Print everything about every task, by number, one JSON document a line."""
    with call.board() as board:
        call.show_lines(board.export())


@command("prune", example="coordinate prune --before 30d --dry-run")
@option("--before", help="Also notes and history of finished tasks before: 30d, or 2030-01-31 (UTC).")
@option("--dry-run", is_flag=True, help="Count, and remove nothing.")
def prune(call: Call, before: str | None, dry_run: bool) -> None:
    """Remove events whose time is over; with --before old notes and history of finished tasks too."""
    with call.board() as board:
        call.show(board.prune(before=None if before is None else _moment(before, board.now), dry_run=dry_run))


def _moment(said: str, now: Callable[[], datetime]) -> datetime:
    """`30d` before now at the board, or the beginning of a day in UTC."""
    import re
    from datetime import UTC, timedelta

    from coordinate.errors import InvalidInput

    try:
        if re.fullmatch(r"[1-9][0-9]{0,4}d", said):
            return now() - timedelta(days=int(said[:-1]))
        return datetime.strptime(said, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise InvalidInput(
            f"before is neither days nor a date: {said!r}", hint="30d, or 2030-01-31", field="before"
        ) from None
