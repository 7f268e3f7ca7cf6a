"""The log: look back, follow, consume, add."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from coordinate import errors
from coordinate.cli.declared import DURATION, Kind, argument, choice, command, option
from coordinate.cli.shared import BadUsage, Call, Exit, as_path, given, one_text

if TYPE_CHECKING:
    from coordinate.records import Event, EventBatch
    from coordinate.service import Coordinator

# A command that fails on an event is given it so often before the tail stops, with a pause between.
EXEC_TRIES = 3
EXEC_PAUSE_SECONDS = 1.0
# A tail looks no more often: each look asks the database, and a consumer's writes.
INTERVAL_SECONDS = 0.05

project_option = choice("--project", help="Only events of this project.")
limit_option = option("--limit", type=int, help="At most so many; 0 means the default.")
before_option = option("--before", type=int, metavar="ID", help="The page before the event with this id.")
ndjson_option = option("--ndjson", is_flag=True, help="One event a line.")
consumer_option = option("--consumer", required=True, metavar="NAME", help="Who reads: a name that lasts.")
not_by_option = option("--not-by", metavar="AGENT", help="Leave out the events of one agent.")


@command("list", example="coordinate events list --limit 20")
@limit_option
@before_option
@option("--type", "event_type", help="Only of this type, such as task.completed.")
@option("--ref", help="Only about this, such as TASK-12.")
@option("--by", "by_agent", metavar="AGENT", help="Only by this agent.")
@project_option
@ndjson_option
def list_events(call: Call, limit: int | None, ndjson: bool, **filters: Any) -> None:
    """Show the newest events, the oldest of them first."""
    with call.board() as board:
        _show(call, board.list_events(**given(limit=limit or None, **filters)), ndjson=ndjson)


@command("search", example='coordinate events search "parser"')
@argument("words", metavar="[TEXT]", required=False)
@option("--text", "query", help="Words in message, reference or payload, in any letter case.")
@option("--type", "event_types", multiple=True, help="Only of this type; repeatable.")
@limit_option
@before_option
@project_option
@ndjson_option
def search(
    call: Call,
    words: str | None,
    query: str | None,
    event_types: tuple[str, ...],
    limit: int | None,
    ndjson: bool,
    **filters: Any,
) -> None:
    """Find events by their words, newest first."""
    text = one_text(words, query)
    if text is None:
        raise BadUsage("say what to look for: a text")
    wanted = given(limit=limit or None, event_types=list(event_types) or None, **filters)
    with call.board() as board:
        _show(call, board.search_events(query=text, **wanted), ndjson=ndjson)


def _show(call: Call, events: Iterable[Event], *, ndjson: bool) -> None:
    if ndjson:
        call.show_lines(events)
    else:
        call.show(events)


@command("next", example="coordinate events next --consumer ci --ack --wait 60")
@consumer_option
@option("--limit", type=int, help="At most so many.")
@option("--ack", "acknowledge", is_flag=True, help="First acknowledge what was handed out before; not a loop's start.")
@option("--from-start", is_flag=True, help="A new consumer begins with the oldest event, not with the next.")
@option("--wait", type=DURATION, help="Wait so long for one: seconds, or 90s, 10m. In vain: exit 8.")
@not_by_option
@project_option
def next_events(call: Call, wait: int | None, **wanted: Any) -> None:
    """Hand a consumer the events it has not acknowledged, each at least once; "gap" tells what was pruned unread."""
    with call.board() as board:
        batch = board.next_events(**given(wait=wait, **wanted))
        if wanted["from_start"]:
            _tell_of_place(call, batch)
        call.show(batch)
    if wait and not batch.events and batch.gap is None:
        raise Exit(8)


def _tell_of_place(call: Call, batch: EventBatch) -> None:
    """`--from-start` says where a new consumer begins; one that has been here before may expect something else."""
    if batch.acknowledged:
        call.warn(
            f"{batch.consumer} kept its place: --from-start is for a new consumer; to read again, use `events rewind`",
            acknowledged=batch.acknowledged,
        )


@command("rewind", example="coordinate events rewind --consumer ci --to 0")
@consumer_option
@option("--to", "position", type=int, required=True, metavar="POSITION", help="Read again what is behind it.")
def rewind(call: Call, position: int, consumer: str) -> None:
    """Take a consumer back to an earlier place: what is behind it is handed out again; 0 is the oldest event."""
    with call.board() as board:
        call.show(board.rewind(consumer=consumer, position=position))


@command("ack", example="coordinate events ack 117 --consumer ci")
@argument("position", type=int, metavar="EVENT-ID")
@consumer_option
def ack(call: Call, position: int, consumer: str) -> None:
    """Say that a consumer has finished with every event up to this one."""
    with call.board() as board:
        call.show(board.ack(consumer=consumer, position=position))


@command("emit", example='coordinate events emit build.failed --agent ci --message "main is red" --ref TASK-12')
@argument("event_type", metavar="TYPE")
@option("--message", help="For people, at most 2,000 characters.")
@option("--payload", metavar="JSON", help='For programs: a JSON object, such as {"build": 7}.')
@option("--ref", help="What it is about: a task, a path.")
@choice("--project", help="Which project it belongs to.")
@option("--ttl", type=DURATION, help="How long it is kept at least: 90s, 2h, 3d.")
@option("--keep", is_flag=True, help="Keep it for ever.")
def emit(call: Call, event_type: str, payload: str | None, ttl: int | None, keep: bool, **said: str | None) -> None:
    """Log an event of any type, for whoever follows the log."""
    from coordinate import inputs

    if keep and ttl is not None:
        raise BadUsage("give --ttl or --keep, not both")
    wanted = given(payload=None if payload is None else inputs.parse_payload(payload), ttl_seconds=ttl, **said)
    if keep:
        wanted["ttl_seconds"] = None
    with call.board() as board:
        board.emit(event_type=event_type, **wanted)
        call.show({"event": event_type})


# --- following --------------------------------------------------------------------------------------------------------


class _Interval(Kind):
    """`500ms`, `2s` or seconds, as seconds; not so little that to look is all that is done."""

    name = "interval"

    def read(self, text: str, field: str) -> float:
        number, unit = (text[:-2], 1000) if text.endswith("ms") else (text.removesuffix("s"), 1)
        if not number.isascii() or not number.isdigit() or len(number) > 6:
            raise errors.InvalidInput(f"{field} looks like 500ms or 2s", field=field)
        if int(number) / unit < INTERVAL_SECONDS:
            raise errors.InvalidInput(f"{field} is at least 50ms, not {text}", field=field)
        return int(number) / unit


INTERVAL = _Interval()


@command("tail", example="coordinate events tail --from-start --project api")
@option("--from-start", is_flag=True, help="Begin with the oldest event, not with the next.")
@option("--interval", type=INTERVAL, default="500ms", help="Look at least so often: 500ms, 2s; 50ms or more.")
@option("--consumer", metavar="NAME", help="Go on where this consumer was; acknowledge what was printed.")
@option("--exec", "program", metavar="CMD", help="With --consumer: run CMD for each event, JSON on its stdin.")
@not_by_option
@project_option
def tail(
    call: Call,
    from_start: bool,
    interval: float,
    consumer: str | None,
    program: str | None,
    **filters: str | None,
) -> None:
    """Print events as they happen, one JSON document a line, until interrupted (exit 0), or the board moves (exit 7).

    With --exec an event is acknowledged when CMD ends with 0: every event reaches it at least once, in order. What
    fails is tried three times; then the tail stops with CMD's exit status, and the next one begins with that event.
    CMD is run without a shell; its output goes to stderr.
    """
    words = None if program is None else _words(program)
    if words is not None and (consumer is None or not words):
        raise BadUsage("--exec needs --consumer, and a command to run")
    with call.board() as board:
        try:
            if consumer is None:
                _follow(call, board, from_start, interval, filters)
            else:
                wanted = {"consumer": consumer, "from_start": from_start, **given(**filters)}
                deal = _printed(call) if words is None else _executed(words)
                raise Exit(_consume(call, board, interval, wanted, deal))
        except KeyboardInterrupt:
            return


def _words(program: str) -> list[str]:
    try:
        return [as_path(word) for word in shlex.split(program)]
    except ValueError as error:  # a quote that does not end
        raise BadUsage(f"--exec is no command: {error}") from None


def _follow(call: Call, board: Coordinator, from_start: bool, interval: float, filters: dict[str, Any]) -> None:
    after = 0 if from_start else board.tail_events()[1]
    while True:
        found, after = board.tail_events(after=after, **given(**filters))
        call.show_lines(found)
        if not found:
            board.database.wait(interval)


def _consume(
    call: Call, board: Coordinator, interval: float, wanted: dict[str, Any], deal: Callable[[Event], int]
) -> int:
    first = True
    while True:
        batch = board.next_events(wait=interval, **wanted)
        if first and wanted["from_start"]:
            _tell_of_place(call, batch)
        first = False
        if batch.gap is not None:
            call.warn(
                "events were pruned before this consumer read them",
                after=batch.gap.after,
                through=batch.gap.through,
                lost=batch.gap.lost,
            )
        for event in batch.events:
            if status := deal(event):
                return status
            if not _acknowledged(board, batch, event.id or 0):
                break
        else:
            if batch.delivered > batch.acknowledged:  # also past what the filters left out
                _acknowledged(board, batch, batch.delivered)


def _acknowledged(board: Coordinator, batch: EventBatch, position: int) -> bool:
    """False where somebody took the consumer back meanwhile: what is behind its place comes next."""
    try:
        board.ack(consumer=batch.consumer, position=position)
    except errors.InvalidInput as error:
        if "delivered" not in error.facts:
            raise
        return False
    return True


def _printed(call: Call) -> Callable[[Event], int]:
    def deal(event: Event) -> int:
        call.show_lines([event])
        return 0

    return deal


def _executed(words: list[str]) -> Callable[[Event], int]:
    from coordinate.cli.output import as_line

    def deal(event: Event) -> int:
        for left in reversed(range(EXEC_TRIES)):
            try:
                ended = subprocess.run(words, input=(as_line(event) + "\n").encode(), stdout=sys.stderr, check=False)
            except OSError as error:
                raise errors.NotFound(f"{words[0]} cannot be run: {error.strerror}", hint="check --exec") from None
            if ended.returncode == 0:
                return 0
            if left:
                time.sleep(EXEC_PAUSE_SECONDS)
        said = f"{words[0]} failed {EXEC_TRIES} times on event {event.id}, which is not acknowledged"
        hint = "mend it and start again: it begins with that event"
        refusal = {"error": said, "code": "exec_failed", "hint": hint, "event_id": event.id}
        sys.stderr.write(json.dumps(refusal) + "\n")
        return ended.returncode if ended.returncode > 0 else 128 - ended.returncode

    return deal
