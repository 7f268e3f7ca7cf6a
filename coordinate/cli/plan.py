"""Plan files: check them, dispatch them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinate.cli.declared import argument, choice, command
from coordinate.cli.shared import Call, Exit, given, read_file

if TYPE_CHECKING:
    from coordinate.plans import LintIssue, PlannedTask

FORMAT = """
    \b
    A plan in markdown: a heading of ## or deeper is a task, the text below it
    its body, and markers in it say the rest:
    `## Build the API [key:api] [p10] [role:worker] [scope:src/api/**]`
    `## Test it [after:api,TASK-4] [project:web]`
    In JSON: a list of objects, {"tasks": [...]}, or one object a line. Keys:
    title (needed), role, priority, project, body, key, depends_on, scopes,
    not_before, dedup_key, max_attempts.
    `{"title": "Test it", "depends_on": ["api", "TASK-4"], "priority": 10}`
"""


@command("lint", example="coordinate plan lint plan.md", more=FORMAT)
@argument("file", metavar="[FILE]", required=False)
@choice("--project", help="Without FILE: only tasks of this project.")
def lint(call: Call, file: str | None, project: str | None) -> None:
    """Say what is wrong with a plan file (- is stdin), or without one with the board.

    Answers a list of task_id, severity (error or warn), message and, of a file, line (0: not known); [] when all is
    well. Exit 2 with an error in it. Where there is a board, the ids of its tasks that a file names are looked up.
    """
    if file is not None:
        issues = [(issue.severity, issue) for issue in _lint_file(call, file)]
    else:
        with call.board() as board:
            issues = [(issue.severity, issue) for issue in board.lint(**given(project=project))]  # type: ignore[misc]
    call.show([issue for _, issue in issues], nothing="no issues")
    if any(severity == "error" for severity, _ in issues):
        raise Exit(2)


def _lint_file(call: Call, file: str) -> list[LintIssue]:
    from coordinate import errors
    from coordinate.plans import LintIssue, lint_plan

    text = read_file(file)
    try:
        planned = _parsed(text, file)
    except errors.InvalidInput as refused:
        problems: list[dict[str, object]] = refused.facts["problems"]  # type: ignore[assignment]
        return [
            LintIssue(str(each["task"]), "error", str(each["message"]), int(str(each["line"]))) for each in problems
        ]
    issues = lint_plan(planned)
    errors_end = sum(issue.severity == "error" for issue in issues)
    return [*issues[:errors_end], *_lint_ids(call, planned), *issues[errors_end:]]


def _lint_ids(call: Call, planned: list[PlannedTask]) -> list[LintIssue]:
    """What the board here, if there is one, says of the ids that a plan names."""
    from coordinate import errors
    from coordinate.plans import ids_in, lint_ids

    if not (named := ids_in(planned)):
        return []
    try:
        with call.board() as board:

            def status_of(task: str) -> str | None:
                try:
                    return board.view(task=task, notes=1, history=1).task.status
                except errors.NotFound:
                    return None

            return lint_ids(named, status_of)
    except errors.CoordinateError as error:
        call.warn(f"the ids of existing tasks were not looked up: {error.message}", ids=list(named)[:10])
        return []


@command("dispatch", example="coordinate plan dispatch plan.md --project api", more=FORMAT)
@argument("file", metavar="FILE")
@choice("--project", help="Where tasks go that name no project.")
def dispatch(call: Call, file: str, project: str | None) -> None:
    """Put all tasks of a plan file (- is stdin) into the queue, in its order, or none of them."""
    planned = _parsed(read_file(file), file)
    with call.board() as board:
        call.show(board.dispatch_plan(plan=planned, **given(project=project)))


def _parsed(text: str, file: str) -> list[PlannedTask]:
    from coordinate.plans import parse_plan

    return parse_plan(text, source="stdin" if file == "-" else file)
