"""Several tasks at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from coordinate.cli.claims import lease_option
from coordinate.cli.declared import argument, choice, command, option, taking
from coordinate.cli.shared import BadUsage, Call, given, tasks_named

if TYPE_CHECKING:
    from coordinate.service import Coordinator


def _tasks(what: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Several tasks, as arguments or as --ids."""
    return taking(
        argument("tasks", nargs=-1, metavar=f"[{what}...]"),
        option("--ids", multiple=True, help="The same as a comma list; repeatable."),
    )


def _named(tasks: tuple[str, ...], ids: tuple[str, ...]) -> list[str]:
    named = tasks_named(tasks + ids)
    if not named:
        raise BadUsage("name at least one task")
    return named


@command("claim", example="coordinate batch claim --agent alice --role worker --count 5")
@option("--role", required=True, help="Whose queue.")
@option("--count", type=int, default=1, help="Up to so many.")
@choice("--project", help="Only tasks of this project.")
@option("--respect-deps/--no-respect-deps", default=True, help="Pass over tasks with unmet dependencies.")
@lease_option
def claim(call: Call, role: str, count: int, project: str | None, respect_deps: bool, lease: int | None) -> None:
    """Take up to --count ready tasks of a role in the queue's order, in one step; [] when there are none."""
    with call.board() as board:
        call.show(
            board.claim_batch(
                role=role,
                count=count,
                respect_dependencies=respect_deps,
                **given(project=project, lease_seconds=lease),
            )
        )


@command("complete", example="coordinate batch complete TASK-3@1 TASK-4@1 --agent alice")
@_tasks("TASK-ID@ATTEMPT")
@option("--review", "--to-review", is_flag=True, help="Submit them for review instead.")
def complete(call: Call, tasks: tuple[str, ...], ids: tuple[str, ...], review: bool) -> None:
    """Finish several tasks by their handles; each answers for itself, and a refused one stops none.

    "completed" holds the tasks, "errors" a sentence for each refusal, "results" both by handle, with codes.
    """
    with call.board() as board:
        outcomes = board.complete_batch(handles=_named(tasks, ids), review=review)
    answer = {
        "completed": [outcome.task for outcome in outcomes if outcome.ok],
        "errors": [f"{outcome.id}: {outcome.error}" for outcome in outcomes if not outcome.ok],
        "results": outcomes,
    }
    call.show({key: value for key, value in answer.items() if value or key != "errors"})


@command("set-priority", example="coordinate batch set-priority TASK-3 TASK-4 --priority 5")
@_tasks("TASK-ID")
@option("--priority", type=int, required=True, help="0 to 999, lower is sooner.")
def set_priority(call: Call, tasks: tuple[str, ...], ids: tuple[str, ...], priority: int) -> None:
    """Give several tasks one priority; "missing" lists the ids that no task has."""
    named = _named(tasks, ids)
    with call.board() as board:
        updated = board.set_priority(tasks=named, priority=priority)
        call.show({"updated": updated, "priority": priority, **_missing(board, named, updated)})


@command("set-project", example="coordinate batch set-project TASK-3 TASK-4 --project api")
@_tasks("TASK-ID")
@option("--project", required=True, help="Where they go.")
def set_project(call: Call, tasks: tuple[str, ...], ids: tuple[str, ...], project: str) -> None:
    """Move several tasks to one project; "missing" lists the ids that no task has."""
    named = _named(tasks, ids)
    with call.board() as board:
        updated = board.set_project(tasks=named, project=project)
        call.show({"updated": updated, "project": project, **_missing(board, named, updated)})


def _missing(board: Coordinator, named: list[str], updated: int) -> dict[str, list[str]]:
    """Tasks are never deleted, so who is looked for afterwards is found if it was there."""
    from coordinate.errors import NotFound

    missing = []
    for task in dict.fromkeys(named) if updated < len(set(named)) else ():
        try:
            board.view(task=task, notes=1, history=1)
        except NotFound:
            missing.append(task)
    return {"missing": missing} if missing else {}
