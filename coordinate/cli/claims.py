"""Taking a task, and what its holder may do."""

from __future__ import annotations

from coordinate import inputs
from coordinate.cli.declared import DURATION, argument, choice, command, option
from coordinate.cli.shared import BadUsage, Call, given, read_text, with_events

handle_argument = argument("handle", metavar="TASK-ID@ATTEMPT")
HOLDING_MAX = 20
lease_option = option("--lease", type=DURATION, help="How long the hold lasts unless renewed: 90s, 15m, 2h.")


@command("claim-next", example="coordinate task claim-next --agent alice --role worker --wait 60")
@option("--role", required=True, help="Whose queue.")
@choice("--project", help="Only tasks of this project. Default: all.")
@option("--count", type=int, default=1, help="Up to so many at once; more than 1 answers a list.")
@option("--respect-deps/--no-respect-deps", default=True, help="Pass over tasks with unmet dependencies.")
@lease_option
@option("--wait", type=DURATION, help="Wait so long for one to become ready: seconds, or 90s, 10m.")
@option("--why", is_flag=True, help="When there is nothing, say why.")
@with_events
def claim_next(
    call: Call,
    role: str,
    project: str | None,
    count: int,
    respect_deps: bool,
    lease: int | None,
    wait: int | None,
    why: bool,
) -> None:
    """Take the next ready task of a role: lowest priority number first, then the oldest.

    Answers the task with its "claim" (the handle for every later verb) and "attempt", or {} when there is nothing;
    "ask" is what a human was asked about it, with their "response" or why there is none ("close_reason"); "holding"
    lists the handles of what the agent holds already.
    """
    wanted = given(role=role, project=project, lease_seconds=lease) | {"respect_dependencies": respect_deps}
    several = count != 1
    if several and call.with_events:
        raise BadUsage("--with-events goes with one task, not with --count")
    with call.board() as board:
        claims = board.claim_batch(count=count, **wanted) if several else []
        if not claims and (wait or not several):
            found = board.claim_next(wait=wait or 0, **wanted)
            claims = [found] if found else []
        if claims:
            call.show(claims if several else claims[0])
        elif several and not why:
            call.show([])
        else:
            held = [task.handle for task in board.mine(limit=HOLDING_MAX)]
            nothing = {"why": board.why_idle(**given(role=role, project=project))} if why else {}
            call.show(nothing | ({"holding": held} if held else {}))


@command("claim", example="coordinate task claim TASK-12 --agent alice")
@argument("task", metavar="TASK-ID")
@lease_option
@option("--transfer", is_flag=True, help="Hand the task on instead; needs --to, and the handle.")
@option("--to", help="With --transfer: who gets it.")
@with_events
def claim(call: Call, task: str, lease: int | None, transfer: bool, to: str | None) -> None:
    """Take one task by its id, whatever its role."""
    if transfer != bool(to):
        raise BadUsage("--transfer and --to go together: hand a held task on with both, or claim it with neither")
    with call.board() as board:
        if transfer:
            call.show(board.transfer(handle=task, **given(to=to, lease_seconds=lease)))
        else:
            call.show(board.claim_task(task=task, **given(lease_seconds=lease)))


@command("mine", example="coordinate task mine --agent alice")
@option("--limit", type=int, help="At most so many.")
def mine(call: Call, limit: int | None) -> None:
    """List what an agent holds now; "claim" is the handle of each."""
    with call.board() as board:
        call.show(board.mine(**given(limit=limit)))


@command("log-progress", example='coordinate task log-progress TASK-12@3 --agent alice --note "tests pass"')
@handle_argument
@option("--note", required=True, help="What was done or found.")
@choice("--type", "note_type", upper=True, help="PROGRESS (default), ERROR or DECISION.")
@with_events
def log_progress(call: Call, handle: str, note: str, note_type: str | None) -> None:
    """Note what was done or found, and renew the lease to its full length."""
    with call.board() as board:
        call.show(board.log_progress(handle=handle, note=note, **given(note_type=note_type)))


@command("extend-lease", example="coordinate task extend-lease TASK-12@3 --agent alice --minutes 60")
@handle_argument
@option("--minutes", type=int, help="Minutes from now; 0 means the default: the length it was claimed with.")
@option("--lease", type=DURATION, help="The same in other units: 90s, 15m, 2h.")
@with_events
def extend_lease(call: Call, handle: str, minutes: int | None, lease: int | None) -> None:
    """Renew the lease without a note; never to less than it has."""
    if minutes is not None and lease is not None:
        raise BadUsage("give --minutes or --lease, not both")
    if minutes is not None:
        lease = 60 * inputs.integer(minutes, "minutes", least=0, most=inputs.LEASE_SECONDS_MAX // 60) or None
    with call.board() as board:
        call.show(board.extend_lease(handle=handle, **given(lease_seconds=lease)))


@command("complete", example='coordinate task complete TASK-12@3 --agent alice --result "merged as 4f2a"')
@handle_argument
@option("--review", is_flag=True, help="Submit it for review instead of finishing it.")
@option("--result", help="What came of it; shown with the claim of what depends on it.")
@option("--result-file", metavar="FILE", help="The same from a UTF-8 file; - is stdin.")
@with_events
def complete(call: Call, handle: str, review: bool, result: str | None, result_file: str | None) -> None:
    """Finish a task, or submit it for review. Repeating it answers the same with "already"."""
    said = read_text(result, result_file, "result")
    with call.board() as board:
        call.show(board.complete(handle=handle, review=review, **given(result=said)))


@command("block", example='coordinate task block TASK-12@3 --agent alice --reason "needs the API key"')
@handle_argument
@option("--reason", required=True, help="What it waits for.")
@with_events
def block(call: Call, handle: str, reason: str) -> None:
    """Give a task back as BLOCKED, with the reason; `task unblock` puts it back into the queue."""
    with call.board() as board:
        call.show(board.block(handle=handle, reason=reason))


@command("release", example="coordinate task release TASK-12@3 --agent alice --after 10m")
@handle_argument
@option("--reason", help="Why.")
@option("--after", type=DURATION, help="Not before so long from now: 90s, 10m, 2h.")
@with_events
def release(call: Call, handle: str, reason: str | None, after: int | None) -> None:
    """Give a task back to the queue, in its old place."""
    with call.board() as board:
        call.show(board.release(handle=handle, **given(reason=reason, after_seconds=after)))


@command("transfer", example="coordinate task transfer TASK-12@3 --agent alice --to bob")
@handle_argument
@option("--to", required=True, help="Who gets it.")
@lease_option
@with_events
def transfer(call: Call, handle: str, to: str, lease: int | None) -> None:
    """Hand a held task to another agent; the answer carries the new handle, yours is stale at once."""
    with call.board() as board:
        call.show(board.transfer(handle=handle, to=to, **given(lease_seconds=lease)))
