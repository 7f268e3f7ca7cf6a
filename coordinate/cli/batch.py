"""Several tasks at once."""

from __future__ import annotations

import click

from coordinate.cli.claims import lease_option
from coordinate.cli.shared import Call, choice, command, given, tasks_named

ids_option = click.option("--ids", required=True, multiple=True, help="A comma list; repeatable.")


@command("claim", example="coordinate batch claim --agent alice --role worker --count 5")
@click.option("--role", required=True, help="Whose queue.")
@click.option("--count", type=int, default=1, help="Up to so many.")
@choice("--project", help="Only tasks of this project.")
@click.option("--respect-deps/--no-respect-deps", default=True, help="Pass over tasks with unmet dependencies.")
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


@command("complete", example="coordinate batch complete --agent alice --ids TASK-3@1,TASK-4@1")
@ids_option
@click.option("--review", "--to-review", is_flag=True, help="Submit them for review instead.")
def complete(call: Call, ids: tuple[str, ...], review: bool) -> None:
    """Finish several tasks by their handles; each answers for itself, and a refused one stops none.

    "completed" holds the tasks, "errors" a sentence for each refusal, "results" both by handle, with codes.
    """
    with call.board() as board:
        outcomes = board.complete_batch(handles=tasks_named(ids), review=review)
    answer = {
        "completed": [outcome.task for outcome in outcomes if outcome.ok],
        "errors": [f"{outcome.id}: {outcome.error}" for outcome in outcomes if not outcome.ok],
        "results": outcomes,
    }
    call.show({key: value for key, value in answer.items() if value or key != "errors"})


@command("set-priority", example="coordinate batch set-priority --ids TASK-3,TASK-4 --priority 5")
@ids_option
@click.option("--priority", type=int, required=True, help="0 to 999, lower is sooner.")
def set_priority(call: Call, ids: tuple[str, ...], priority: int) -> None:
    """Give several tasks one priority; unknown ids are left out."""
    with call.board() as board:
        call.show({"updated": board.set_priority(tasks=tasks_named(ids), priority=priority), "priority": priority})


@command("set-project", example="coordinate batch set-project --ids TASK-3,TASK-4 --project api")
@ids_option
@click.option("--project", required=True, help="Where they go.")
def set_project(call: Call, ids: tuple[str, ...], project: str) -> None:
    """Move several tasks to one project; unknown ids are left out."""
    with call.board() as board:
        call.show({"updated": board.set_project(tasks=tasks_named(ids), project=project), "project": project})
