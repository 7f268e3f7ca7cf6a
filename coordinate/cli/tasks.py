"""Tasks: dispatch, edit, comment, and the moves that are nobody's alone."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from coordinate.cli.declared import MOMENT, argument, choice, command, option, taking
from coordinate.cli.shared import BadUsage, Call, given, read_text, revision_option, tasks_named

task_argument = argument("task", metavar="TASK-ID")


# What a task says, apart from its title and role.
_content_options = taking(
    choice("--project", help="Which project it belongs to."),
    option("--priority", type=int, help="0 to 999, lower is sooner."),
    option("--body", help="Everything the worker needs to know."),
    option("--body-file", metavar="FILE", help="The body from a UTF-8 file; - is stdin."),
    option(
        "--scope",
        "scopes",
        multiple=True,
        help="A path or glob that the work changes, from the root of the repository; repeatable.",
    ),
    option("--not-before", type=MOMENT, help="Not to be claimed before: 2030-01-31T12:00:00Z."),
    option("--max-attempts", type=int, help="Leases that may expire before the task is BLOCKED."),
)


@command("dispatch", example='coordinate task dispatch --title "Write the parser" --role worker --depends-on TASK-1')
@option("--title", required=True, help="One line, at most 500 characters.")
@option("--role", required=True, help="Who may take it: worker, reviewer, or any word you use.")
@option("--depends-on", multiple=True, help="Tasks that must be DONE first: a comma list; repeatable.")
@option("--dedup-key", help="The same key again answers the same task instead of making another.")
@_content_options
def dispatch(
    call: Call,
    title: str,
    role: str,
    depends_on: tuple[str, ...],
    body: str | None,
    body_file: str | None,
    project: str | None,
    **content: Any,
) -> None:
    """Put a new task into the queue of a role, and answer it with its id."""
    said = read_text(body, body_file, "body")
    waits = tuple(tasks_named(depends_on))
    with call.board() as board:
        call.show(
            board.dispatch(title=title, role=role, **given(body=said, depends_on=waits, project=project, **content))
        )


@command("edit", example="coordinate task edit TASK-12 --agent alice --priority 5")
@task_argument
@option("--title", help="One line, at most 500 characters.")
@option("--role", help="Who may take it.")
@option("--clear-scopes", is_flag=True, help="Declare no scope any more.")
@option("--clear-not-before", is_flag=True, help="Let it start now.")
@option("--expected-revision", type=int, help="Refuse when somebody changed the task since this revision.")
@_content_options
def edit(
    call: Call,
    task: str,
    body: str | None,
    body_file: str | None,
    scopes: tuple[str, ...],
    clear_scopes: bool,
    clear_not_before: bool,
    not_before: datetime | None,
    **content: Any,
) -> None:
    """Change what a task says; what is not given stays. --scope replaces the whole list."""
    if (clear_scopes and scopes) or (clear_not_before and not_before):
        raise BadUsage("give a new value or clear the old one, not both")
    said = given(body=read_text(body, body_file, "body"), scopes=scopes, not_before=not_before, **content)
    if clear_scopes:
        said["scopes"] = []
    with call.board() as board:
        call.show(board.edit(task=task, clear_not_before=clear_not_before, **said))


@command("comment", example='coordinate task comment TASK-12 --agent bob --note "see the log of build 7"')
@task_argument
@option("--note", required=True, help="At most 10,000 characters.")
@choice("--type", "note_type", upper=True, help="COMMENT (default), DECISION, REVIEW or ERROR.")
def comment(call: Call, task: str, note: str, note_type: str | None) -> None:
    """Write a note on any task, held or not; renews nothing."""
    with call.board() as board:
        call.show(board.comment(task=task, text=note, **given(note_type=note_type)))


@command("unblock", example='coordinate task unblock TASK-12 --agent alice --note "the key is there"')
@task_argument
@option("--note", help="What changed.")
@option("--withdraw-ask", is_flag=True, help="Withdraw what it asks a human along.")
@revision_option
def unblock(call: Call, task: str, withdraw_ask: bool, **wanted: Any) -> None:
    """Put a BLOCKED task back into the queue, with fresh attempts; refused while it waits for a human."""
    with call.board() as board:
        call.show(board.unblock(task=task, withdraw_ask=withdraw_ask, **given(**wanted)))


@command("cancel", example='coordinate task cancel TASK-12 --agent alice --reason "not needed"')
@task_argument
@option("--reason", help="Why.")
@revision_option
def cancel(call: Call, task: str, **wanted: Any) -> None:
    """End a task that nobody shall do any more; "stranded" lists what now waits for it in vain."""
    with call.board() as board:
        call.show(board.cancel(task=task, **given(**wanted)))


@command("reopen", example='coordinate task reopen TASK-12 --agent alice --reason "the bug is back"')
@task_argument
@option("--reason", help="Why.")
@revision_option
def reopen(call: Call, task: str, **wanted: Any) -> None:
    """Put a finished or cancelled task back into the queue; what depended on it waits again."""
    with call.board() as board:
        call.show(board.reopen(task=task, **given(**wanted)))


on_option = option("--on", required=True, metavar="TASK-ID", help="The task that must be DONE first.")


@command("add", example="coordinate task depend add TASK-12 --on TASK-7 --agent alice")
@task_argument
@on_option
def depend_add(call: Call, task: str, on: str) -> None:
    """Let a task wait for another one too."""
    with call.board() as board:
        call.show(board.depend_add(task=task, on=on))


@command("remove", example="coordinate task depend remove TASK-12 --on TASK-7 --agent alice")
@task_argument
@on_option
def depend_remove(call: Call, task: str, on: str) -> None:
    """Let a task wait for another one no longer."""
    with call.board() as board:
        call.show(board.depend_remove(task=task, on=on))
