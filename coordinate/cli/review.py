"""Review: reserve, approve, reject."""

from __future__ import annotations

import json
import sys
from typing import Any

from coordinate.cli.declared import DURATION, argument, choice, command, option
from coordinate.cli.shared import BadUsage, Call, given, revision_option

override_option = option("--override", metavar="REASON", help="A human's reason to review own work; recorded.")


@command("claim-review", example="coordinate task claim-review --agent carol")
@argument("task", metavar="[TASK-ID]", required=False)
@choice("--project", help="Only tasks of this project.")
@option("--lease", type=DURATION, help="How long the reservation lasts: 90s, 30m, 2h.")
def claim_review(call: Call, task: str | None, project: str | None, lease: int | None) -> None:
    """Reserve the next submitted task for this reviewer, or one by its id; {} when there is none for them."""
    with call.board() as board:
        found = board.claim_review(**given(task=task, project=project, lease_seconds=lease))
        call.show({} if found is None else found)


@command("approve", example="coordinate task approve TASK-12 --agent carol")
@argument("task", metavar="[TASK-ID]", required=False)
@option("--all", "everything", is_flag=True, help="All that wait for review; answers the approved ones.")
@choice("--project", help="With --all: only tasks of this project.")
@option("--note", help="What the review of one task found.")
@override_option
@revision_option
def approve(
    call: Call,
    task: str | None,
    everything: bool,
    project: str | None,
    note: str | None,
    override: str | None,
    expected_revision: int | None,
) -> None:
    """Pass the review of a task. With --all the answer is the list of the approved; each refused one is a JSON line on
    stderr, stops none, and leaves the exit status 0."""
    if (task is None) != everything:
        raise BadUsage("give a task id or --all, one of them")
    if everything and (expected_revision is not None or note is not None):
        raise BadUsage("--expected-revision and --note are of one task")
    if not everything and project is not None:
        raise BadUsage("--project narrows --all")
    if task is not None:
        with call.board() as board:
            wanted = given(note=note, override=override, expected_revision=expected_revision)
            call.show(board.approve(task=task, **wanted))
        return
    with call.board() as board:
        outcomes = board.approve_all(**given(project=project, override=override))
    for outcome in outcomes:
        if not outcome.ok:
            hint = f"see: coordinate task why {outcome.id}"
            said = {"error": outcome.error, "code": outcome.code, "hint": hint, "task_id": outcome.id}
            sys.stderr.write(json.dumps(said) + "\n")
    call.show([outcome.task for outcome in outcomes if outcome.ok])


@command("reject", example='coordinate task reject TASK-12 --agent carol --reason "no tests"')
@argument("task", metavar="TASK-ID")
@option("--reason", required=True, help="What is missing.")
@override_option
@revision_option
def reject(call: Call, task: str, reason: str, **wanted: Any) -> None:
    """Send a task back to the queue, in its old place, with the reason as a note."""
    with call.board() as board:
        call.show(board.reject(task=task, reason=reason, **given(**wanted)))
