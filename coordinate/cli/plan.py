"""Plan files: check them, dispatch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from coordinate.cli.shared import Call, choice, command, given, read_file

if TYPE_CHECKING:
    from coordinate.plans import PlannedTask


@command("lint", example="coordinate plan lint plan.md")
@click.argument("file", metavar="[FILE]", required=False)
@choice("--project", help="Without FILE: only tasks of this project.")
def lint(call: Call, file: str | None, project: str | None) -> None:
    """Say what is wrong with a plan file (- is stdin), or without one with the board.

    Answers a list of task_id, severity (error or warn) and message; [] when all is well. Exit 2 with an error in it.
    """
    from coordinate.plans import lint_plan

    if file is None:
        with call.board() as board:
            issues = [(issue.severity, issue) for issue in board.lint(**given(project=project))]
    else:
        issues = [(issue.severity, issue) for issue in lint_plan(_read(file))]  # type: ignore[misc]
    call.show([issue for _, issue in issues])
    if any(severity == "error" for severity, _ in issues):
        raise click.exceptions.Exit(2)


@command("dispatch", example="coordinate plan dispatch plan.md --project api")
@click.argument("file", metavar="FILE")
@choice("--project", help="Where tasks go that name no project.")
def dispatch(call: Call, file: str, project: str | None) -> None:
    """Put all tasks of a plan file (- is stdin) into the queue, in its order, or none of them."""
    planned = _read(file)
    with call.board() as board:
        call.show(board.dispatch_plan(plan=planned, **given(project=project)))


def _read(file: str) -> list[PlannedTask]:
    from coordinate.plans import parse_plan

    return parse_plan(read_file(file), source="stdin" if file == "-" else file)
