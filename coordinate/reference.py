"""`python -m coordinate.reference [FOLDER]` writes the reference pages of the documentation (FOLDER: docs).

Each page is printed from the thing itself: commands, operations, errors, tables, states. What only a reader needs, the
words beside a column or an index, stands here; a column without words is a fault. A test keeps the pages equal.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any

import click
from sqlalchemy import CheckConstraint, Column, ForeignKeyConstraint, Index, Table

from coordinate import errors, plans, records, service, states
from coordinate.cli.declared import GLOBAL_OPTIONS
from coordinate.cli.root import LazyGroup, root
from coordinate.db.portable import ENGINES
from coordinate.db.schema import metadata
from coordinate.service import Coordinator

Row = Iterable[str]
MADE = "<!-- Made by `python -m coordinate.reference`; do not edit. -->\n"
BLOCK = re.compile(r"(<!-- states:begin -->\n).*?(<!-- states:end -->)", re.DOTALL)

EXITS = {
    0: "done; also “nothing to do”",
    1: "a fault of coordinate",
    2: "refused by the rules, or bad usage",
    3: "held by another",
    4: "the claim is stale, or the revision outdated",
    5: "the database is unreachable, busy or moving: try again",
    6: "no board here, or its schema is behind or ahead",
    7: "the board has moved: the error names the new address",
    8: "waited in vain (`inbox wait`, `events next --wait`, `db check --wait`)",
    129: "the terminal, or the connection to it, is gone",
    130: "interrupted (Ctrl-C)",
    141: "nobody read the output to its end; what was asked for is done",
    143: "terminated",
}

# Codes that only the command line has: they are no class, because no caller in Python meets them.
COMMAND_LINE_CODES = {
    "usage": ("2", "An unknown command or flag, or flags that do not go together."),
    "output_lost": ("1", "The answer could not be written, as to a full disk; a change that was asked for was made."),
    "exec_failed": ("its own", "The program of `events tail --exec` failed three times; the exit status is its own."),
}

# Codes that only the server's gate has: what is wrong with a request, whatever it asks for.
SERVER_CODES = {
    "not_json": ("400, 415", "The body is no JSON object, or does not say that it is JSON."),
    "cut_off": ("400", "The request ended before its body did. Nothing was changed."),
    "foreign_host": ("403", "The `Host` is none of the server's names."),
    "foreign_origin": ("403", "Another site asks, or a browser that does not say which."),
    "csrf": ("403", "A change with a cookie, without its second proof."),
    "method_not_allowed": ("405", "Another method is served at this path."),
    "too_large": ("413", "The body is larger than its kind may be."),
    "too_many_requests": (
        "429",
        "The limit of the token, or of the address, is reached: wait, `retry_after` seconds where it says so.",
    ),
    "not_kept": ("503", "A sign-in could not be ended, since its file cannot be written."),
}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs")
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")
    concepts = folder / "concepts.md"
    concepts.write_text(with_states(concepts.read_text(encoding="utf-8")), encoding="utf-8")


# --- the command line -------------------------------------------------------------------------------------------------


def cli_page() -> str:
    """Every command: usage, what it does, its own options, an example."""
    found = list(commands())
    listed = [(f"[`{path}`](#{_anchor(path)})", line) for path, line, _ in found]
    return _page(
        "The command line",
        "What holds for every command stands first, then each command by name. `coordinate COMMAND --help` says the"
        " same.",
        "## Output",
        "stdout carries one JSON document, also on a terminal, because agents run under one. `--format table`, or"
        " `COORDINATE_FORMAT=table`, prints columns for people. `export` and `events tail` print one JSON document a"
        " line. SQL, skills and scripts are printed as they are; with `--json` they come as a JSON document.",
        "An error is one JSON line on stderr: `error` (a sentence), `code` (see [errors](errors.md)), `hint` (what to"
        ' do next), then facts such as `task_id`, `holder`, `until`. A warning is a JSON line with `"warning"`. Times'
        " are RFC 3339 in UTC. Durations are seconds, or `90s`, `10m`, `2h`, `3d`.",
        _exit_table(),
        "## Options of every command",
        "They may stand anywhere in the line; the one nearest to its end wins.",
        _table(("option", "meaning"), [_option(option, root) for option in root.params[-len(GLOBAL_OPTIONS) :]]),
        "| variable | meaning |\n|---|---|\n"
        "| `COORDINATE_DB`, `COORDINATE_AGENT`, `COORDINATE_SESSION`, `COORDINATE_FORMAT` | the options above |\n"
        "| `COORDINATE_BUSY_SECONDS` | how long to wait for a locked SQLite board (30) |\n"
        "| `COORDINATE_SYNCHRONOUS` | how hard SQLite syncs: NORMAL (default), FULL, EXTRA, OFF |\n"
        "| `COORDINATE_GATE` | `off`: writers of a SQLite board do not queue, each waits for its lock (on) |\n"
        "| `COORDINATE_DEBUG` | `1` adds the traceback of a fault of coordinate |\n"
        "| `NO_COLOR`, `TERM=dumb` | tables without colours |",
        "`.coordinate/config.toml` may hold `db`, `busy_seconds`, `synchronous`, `gate` and [webhooks](webhooks.md)."
        " A flag wins over a variable, a variable over the file, the file over the default; an empty variable counts"
        " as none. What else stands in the file is not obeyed, and said in a warning.",
        "## Commands",
        _table(("command", "what it does"), listed),
        "`coordinate task batch …` is another way to say `coordinate batch …`.",
        *(_command(path, command) for path, _, command in found),
    )


def commands() -> Iterator[tuple[str, str, click.Command]]:
    """Every command as (words, one line, command), in the order of the help; a group in two places once, at the top."""

    def walk(group: LazyGroup, path: str) -> Iterator[tuple[str, str, click.Command]]:
        for name, (_, _, line) in group.table.items():
            command = group.get_command(click.Context(group), name)
            assert command is not None
            if not isinstance(command, LazyGroup):
                yield f"{path} {name}", line, command
            elif group is root or root.table.get(name, ())[:2] != group.table[name][:2]:
                yield from walk(command, f"{path} {name}")

    return walk(root, "coordinate")


def _command(path: str, command: click.Command) -> str:
    text, _, example = re.sub(r"\n\n(\x08\n)?Example:\s*", "\0", inspect.cleandoc(command.help or "")).partition("\0")
    usage = " ".join([path, *command.collect_usage_pieces(click.Context(command))])
    every = {_option(option, root) for option in root.params[-len(GLOBAL_OPTIONS) :]}
    listed = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    own = [shown for param in listed if (shown := _option(param, command)) not in every]
    return _joined(
        f"### `{path}`",
        f"```\n{usage}\n```",
        text.replace("\x08\n", ""),
        _table(("option", "meaning"), own) if own else "",
        f"Example: `{' '.join(example.split())}`" if example else "",
    )


def _option(option: click.Parameter, command: click.Command) -> Row:
    record = option.get_help_record(click.Context(command))
    assert record is not None
    names, said = record
    return f"`{names}`", " ".join(said.replace("[required]", "Required.").split())


def _exit_table() -> str:
    return "## Exit status\n\n" + _table(("status", "meaning"), [(str(exit_), said) for exit_, said in EXITS.items()])


# --- Python -----------------------------------------------------------------------------------------------------------

# Where a reader looks for an operation. One that is named nowhere here is listed at the end, not lost.
CHAPTERS = {
    "Dispatch": ("dispatch", "dispatch_plan"),
    "Take a task and hold it": (
        *("claim_next", "claim_batch", "claim_task", "log_progress", "extend_lease", "keep_alive", "complete"),
        *("complete_batch", "block", "release", "transfer", "mine"),
    ),
    "Review": ("claim_review", "review_count", "approve", "approve_all", "reject"),
    "Steer": (
        *("unblock", "cancel", "reopen", "comment", "edit", "set_priority", "set_project", "set_project_defaults"),
        *("depend_add", "depend_remove"),
    ),
    "Look": (
        *("view", "list_tasks", "export", "export_page", "list_projects", "stats", "status", "lint", "why", "why_idle"),
        *("list_finished", "effort", "now"),
    ),
    "Ask a human": ("ask", "revise", "withdraw", "wait_ask"),
    "Respond": (
        *("respond", "withdraw_response", "snooze", "wake", "dismiss", "annotate", "withdraw_annotation"),
        *("close_project", "reopen_project"),
    ),
    "Act on responses": (
        *("unread_answers", "pending", "collect", "take", "answer", "acknowledge", "acknowledge_annotation"),
    ),
    "Boards": (
        *("board_upsert", "board_row", "board_advance", "board_annotate", "board_get", "board_list"),
        *("board_archive", "board_unarchive"),
    ),
    "Look into the inbox": ("show_ask", "list_asks", "urgent_asks", "attention_count"),
    "Events": (
        *("emit", "list_events", "search_events", "next_events", "learnings", "wait_for", "ack", "rewind"),
        *("tail_events", "prune"),
    ),
    "Agents and sessions": (
        *("register", "heartbeat", "set_doing", "end_session", "list_agents", "list_sessions", "lost", "tell_losses"),
    ),
    "Scopes and locks": (
        *("claim_scopes", "check_scopes", "list_leases", "renew_leases", "release_leases"),
        *("lock", "acquire_lock", "renew_lock", "release_lock"),
    ),
    "Tokens": ("create_token", "list_tokens", "revoke_token", "authenticate", "anybody_may_enter"),
    "Worktrees, counters, replay, sweep": (
        *("open_worktree", "set_worktree_state", "close_worktree", "adopt_worktree", "worktree_of", "list_worktrees"),
        *("counter_next", "mark_applied", "applied", "sweep"),
    ),
    "The board itself": ("using", "acting", "adopt", "probe", "examine", "repair", "close"),
}


def python_page() -> str:
    """Every operation of Coordinator: signature and docstring; then the records that come back."""
    named = [name for names in CHAPTERS.values() for name in names]
    rest = tuple(name for name in operations() if name not in named)
    chapters = {**CHAPTERS, **({"More": rest} if rest else {})}
    kinds = [kind for kind in vars(records).values() if inspect.isclass(kind) and is_dataclass(kind)]
    return _page(
        "Python",
        "`coordinate.connect` opens a board; the `Coordinator` it gives has every operation below. Arguments are given"
        " by name. `agent` and `session` are filled in from the connection where they are left out. A handle is a text"
        " (`TASK-12@3`) or the `Claim` itself. Times are aware datetimes; naive ones are refused. Any operation may"
        " raise `InvalidInput` for a value that may not come in, `NotFound` for a task, an ask or a session that is not"
        " there, and `Busy` or `Unreachable` when the database does not answer; see [errors](errors.md).",
        "Each operation is one transaction. A Coordinator may be shared by threads and used after a fork.",
        "## Open a board",
        *(_operation(function) for function in (service.connect, service.adopt)),
        *(
            _joined(f"## {chapter}", *(_operation(getattr(Coordinator, name)) for name in names))
            for chapter, names in chapters.items()
        ),
        "## Plans",
        "`from coordinate import plans`: a plan file becomes what `dispatch_plan` takes.",
        *(_operation(function) for function in (plans.parse_plan, plans.lint_plan)),
        _record(plans.PlannedTask),
        "## What comes back",
        "Frozen records. `coordinate.records.as_json` makes plain JSON values of any of them.",
        *(_record(kind) for kind in kinds),
    )


def operations() -> list[str]:
    """The names of all that a Coordinator can do."""
    return [name for name, value in vars(Coordinator).items() if not name.startswith("_") and callable(value)]


def _operation(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    params = [param for name, param in signature.parameters.items() if name not in ("tx", "self")]
    shown = [_parameter(param) for param in params]
    if any(param.kind is param.KEYWORD_ONLY for param in params):
        shown.insert(next(i for i, param in enumerate(params) if param.kind is param.KEYWORD_ONLY), "*")
    line = f"{function.__name__}({', '.join(shown)}) -> {signature.return_annotation}"
    if len(line) > 100:
        body = "".join(f"    {each},\n" for each in shown)
        line = f"{function.__name__}(\n{body}) -> {signature.return_annotation}"
    return _joined(f"### `{function.__name__}`", f"```\n{line}\n```", inspect.getdoc(function) or "")


def _parameter(param: inspect.Parameter) -> str:
    default = "" if param.default is param.empty else f" = {param.default!r}"
    return f"{param.name}: {param.annotation}{default}"


def _record(kind: type) -> str:
    said = inspect.getdoc(kind) or ""
    held = [
        f"`{field.name}` {field.type}" + ("" if field.default is MISSING else f" = {field.default!r}")
        for field in fields(kind)
    ]
    return _joined(f"### `{kind.__name__}`", "" if said == kind.__name__ else said, ", ".join(held) + ".")


# --- errors -----------------------------------------------------------------------------------------------------------


def errors_page() -> str:
    """Every error: code, class, exit status, HTTP status, sentence."""
    return _page(
        "Errors",
        "A program tells errors apart by `code`; codes are stable. On the command line an error is one JSON line on"
        " stderr and an exit status, in Python an exception of `coordinate.errors` with `message`, `hint`, `facts`,"
        " `code`, `exit_status` and `http_status`. Whatever is refused has changed nothing. “Nothing to claim” is an"
        " answer, not an error.",
        _exit_table(),
        "## Codes",
        _table(
            ("code", "in Python", "exit", "HTTP", "when"),
            [
                (f"`{kind.code}`", f"`{kind.__name__}`", str(kind.exit_status), str(kind.http_status), _sentence(kind))
                for kind in error_classes()
            ],
        ),
        "Only the command line has these:",
        _table(
            ("code", "exit", "when"),
            [(f"`{code}`", exit_, said) for code, (exit_, said) in COMMAND_LINE_CODES.items()],
        ),
        "Only [the server](serve.md) has these:",
        _table(
            ("code", "HTTP", "when"), [(f"`{code}`", status, said) for code, (status, said) in SERVER_CODES.items()]
        ),
    )


def error_classes() -> list[type[errors.CoordinateError]]:
    """All of them, as `errors.py` lists them."""
    return [
        kind for kind in vars(errors).values() if inspect.isclass(kind) and issubclass(kind, errors.CoordinateError)
    ]


def _sentence(kind: type) -> str:
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


# --- states -----------------------------------------------------------------------------------------------------------


def with_states(page: str) -> str:
    """The same page with the diagram and the moves between its marks brought up to date."""
    found, times = BLOCK.subn(lambda match: f"{match[1]}\n{states_block()}\n\n{match[2]}", page)
    if times != 1:
        raise ValueError("the page must have the marks states:begin and states:end once")
    return found


def states_block() -> str:
    """The diagram of a task's states, who moves at each, and every move."""
    arrows: dict[tuple[str, str], list[str]] = {}
    for move in states.MOVES:
        for source in move.sources:
            arrows.setdefault((source, move.target), []).append(move.verb)
    lines = [f"    {source} --> {target}: {', '.join(verbs)}" for (source, target), verbs in arrows.items()]
    moves = [
        (f"`{move.verb}`", ", ".join(move.sources), move.target, move.owner, f"`{move.action}`", f"`{move.event}`")
        for move in states.MOVES
    ]
    return _joined(
        "```mermaid\nstateDiagram-v2\n    [*] --> TODO: dispatch\n" + "\n".join(lines) + "\n```",
        _table(("status", "whose move it is"), [(f"`{status}`", states.OWNERS[status]) for status in states.STATUSES]),
        _table(("move", "from", "to", "by", "in the history", "event"), moves),
    )


# --- the schema -------------------------------------------------------------------------------------------------------

TABLES = {
    "projects": "Settings of a project. A project needs no row here to have tasks.",
    "tasks": "One row for each task: what it says, where it stands, who holds it.",
    "task_dependencies": "Who waits for whom: one row for each edge.",
    "task_scopes": "The paths and globs that a task says it will change.",
    "attempts": "Every holding of a task by an agent, past and present. The attempt's number is the fencing token.",
    "notes": "What was written on a task, by its holders, reviewers and anybody.",
    "history": "Every change of a task, in the transaction of the change.",
    "events": "The log that programs follow: one row for each event, in the transaction of the change.",
    "event_feed": "The one order of events. On SQLite it is a view in which the position is the event's id.",
    "event_feed_state": "How far the numbering of events has come; one row.",
    "event_cursors": "How far each consumer has read; delivered and acknowledged are kept apart.",
    "counters": "The last number of each kind that was given out.",
    "board_move": "Whether this board moves, has moved, or came from elsewhere: no row, or one.",
    "agents": "Names that last, made by their first session.",
    "sessions": "Runs of agents: signs of life, and what each is at.",
    "worktrees": "Working copies in which a task's changes live; at most one open for each task.",
    "leases": "Holds on scopes and locks, past and present. A row is never removed while its task is there.",
    "applied_events": "Which events a stream has applied: replay bookkeeping.",
    "boards": "Titled tables that humans watch.",
    "board_rows": "The rows of boards, also those set aside; a row is blocked exactly while an ask lives on it.",
    "asks": "What agents ask of humans. Where `handled_at` is set and `outcome` is '', humans are done, agents not.",
    "ask_responses": "What humans said or did about asks, and what they took back; rows are only added.",
    "ask_deliveries": "Which session was handed which response. Evidence, never an acknowledgement.",
    "annotations": "What humans said beside asks and rows: to be known, not to be waited for.",
    "annotation_deliveries": "Which session was handed which annotation.",
    "tokens": "What lets clients of the server in; only hashes are kept.",
    "schema_window": "The oldest schema knowledge that may still write to this database; one row.",
}

COLUMNS = {
    "projects": {
        "name": "The project.",
        "lease_seconds": "How long a claim lasts; NULL: 900.",
        "max_attempts": "Leases that may expire before a task is BLOCKED; NULL: 5.",
        "closed_at": "When the human closed it: its asks are out of sight until something newer is asked there.",
    },
    "tasks": {
        "id": "`TASK-12`.",
        "number": "12: the tie-break of every order, so that TASK-2 comes before TASK-10.",
        "title": "One line, at most 500 characters.",
        "body": "What the worker needs to know, at most 100,000 characters.",
        "status": "Where it stands; see [the states](concepts.md#states).",
        "role_boundary": "The role that may claim it.",
        "project": "The project it belongs to.",
        "priority": "0 to 999, lower is sooner.",
        "assigned_agent": "Who holds it; NULL unless IN_PROGRESS.",
        "session_id": "The run of that agent, if the claim named one.",
        "lease_until": "When the hold may be taken over; NULL unless IN_PROGRESS.",
        "lease_seconds": "The length that the lease was claimed with; renewals use it.",
        "attempt": "The latest attempt's number, 0 before the first claim. `id@attempt` is the handle.",
        "expiries": "Leases that expired since the task last became TODO by unblock, reject or reopen.",
        "claimed_by": "The first agent that claimed it; never changed.",
        "max_attempts": "When `expiries` reaches it, the task becomes BLOCKED.",
        "not_before": "Not to be claimed before this time.",
        "unmet_dependencies": "How many of its edges are not met; always equal to their count.",
        "parked": "Why it is set aside from the queue: '' (it is not), later, scope, reserved.",
        "parked_until": "When it is due to be put back.",
        "parked_on": "The lease that stands in the way of its scopes, while `parked` is scope.",
        "ask_id": "The live ask that hangs on it: what it waits for, or whose response comes with the next claim.",
        "scoped": "Whether it has scopes, declared or held; a task without takes no look at leases.",
        "reserved_for": "For whom it is set aside, since a human answered what they asked.",
        "reviewer": "Who has reserved its review.",
        "review_until": "Until when.",
        "rejected_attempt": "The attempt that was last rejected; later ones are this round of work.",
        "result": "What came of it, as its completion said.",
        "dedup_key": "The key that makes a repeated dispatch answer this task.",
        "created_by": "Who dispatched it.",
        "revision": "Rises with every change but a lease's renewal by `keep_alive`.",
        "folded": "Title and body without letter case, for the search.",
        "created_at": "When it was dispatched.",
        "updated_at": "When it last changed.",
        "finished_at": "When it became DONE or CANCELLED.",
    },
    "task_dependencies": {
        "task_id": "The task that waits.",
        "depends_on_task_id": "The task that must be DONE first.",
        "met": "Whether it is.",
    },
    "task_scopes": {
        "task_id": "The task.",
        "pattern": "A path or glob in its canonical form.",
        "mode": "exclusive or shared. Every scope is declared exclusive now.",
    },
    "attempts": {
        "task_id": "The task.",
        "attempt": "1, 2, 3… for each task, never used twice.",
        "agent": "Who held it.",
        "session_id": "Which run of the agent, if the claim named one.",
        "started_at": "When it was claimed, or received.",
        "ended_at": "When the hold ended; NULL while it lasts.",
        "outcome": "How it ended: " + ", ".join(states.OUTCOMES) + ".",
        "reason": "Why, if somebody said so.",
        "told_at": "When the session was told that it lost this claim.",
    },
    "notes": {
        "id": "Rises; never returns.",
        "task_id": "The task.",
        "author": "Who wrote it; `system` for the board itself.",
        "note_type": ", ".join(states.NOTE_TYPES) + "; NULL for adopted notes without one.",
        "content": "The text, at most 10,000 characters.",
        "folded": "The text without letter case, for the search.",
        "created_at": "When it was written.",
    },
    "history": {
        "id": "Rises; never returns.",
        "task_id": "The task.",
        "agent": "Who did it; `system` for the board itself.",
        "action": "What was done: CLAIM, COMPLETE…; see [the states](concepts.md#states).",
        "attempt": "The attempt it belongs to, if any.",
        "detail": "The reason, or what was changed.",
        "created_at": "When.",
    },
    "events": {
        "id": "Rises; never returns. On Postgres it is not the order: see `event_feed`.",
        "created_at": "When it was logged.",
        "event_type": "`task.completed` and the like, or a type of your own.",
        "payload": "A JSON object.",
        "ttl_seconds": "How long it is kept at least; NULL keeps it for ever.",
        "project": "The project it belongs to.",
        "agent": "In whose name.",
        "ref": "What it is about: a task, a path.",
        "message": "For people.",
        "folded": "Message, reference and payload values without letter case, for the search.",
        "xid": "The transaction that logged it; the numbering compares it with snapshots.",
    },
    "event_feed": {
        "position": "The event's place in the one order; what commands show as an event's id.",
        "event_id": "The event.",
    },
    "event_feed_state": {
        "id": "Always 1.",
        "position": "The last position given out.",
        "snapshot": "What was visible when the numbering last ran.",
        "cluster": "Which server wrote that snapshot: it means nothing on another, after a restore.",
    },
    "event_cursors": {
        "consumer": "The reader's name.",
        "delivered": "The last position it was handed.",
        "acknowledged": "The last position it has finished with.",
        "updated_at": "When either moved.",
    },
    "counters": {
        "kind": "`task`: task numbers. `events_pruned`: up to where the log was pruned. `fence`: fences."
        " `PROJECT/KIND`: what `counter next` mints.",
        "value": "The last number given out.",
    },
    "board_move": {
        "id": "Always 1.",
        "move": "The move's own number, the same on both sides.",
        "state": "`moving`, `moved` or `stayed` where a board was; `arriving`, `copied`, `arrived` or `withdrawn`"
        " where one came to.",
        "address": "The other side, without any secret.",
        "fenced_at": "When the board that is left was fenced, by its clock.",
        "opened_at": "When this board was opened, by its own clock, and nothing left at the other side; NULL: not.",
    },
    "agents": {
        "name": "The agent.",
        "kind": "agent or human.",
        "role": "What it usually does, if it said so.",
        "created_at": "When it first came.",
    },
    "sessions": {
        "id": "What calls show: `s-` and 24 digits.",
        "agent": "Whose run it is.",
        "host": "The machine that it began on.",
        "pid": "The process that began it.",
        "project": "Where it works.",
        "stream": "What its replay bookkeeping belongs to.",
        "doing": "What it is at, in its own words.",
        "detail": "More about that.",
        "ttl_seconds": "Silent for longer than this it is stale.",
        "started_at": "When it began.",
        "heartbeat_at": "Its last sign of life, written at most each quarter of its time.",
        "last_call_at": "Its last call that wrote one.",
        "ended_at": "When it ended; NULL while it lasts. One that was swept and calls again is back.",
        "end_reason": "ended (on purpose) or stale (swept).",
    },
    "worktrees": {
        "id": "Rises; never returns.",
        "task_id": "The task.",
        "agent": "Who works in it.",
        "session_id": "Which run of that agent, if it showed one.",
        "project": "The task's project.",
        "branch": "The branch that it works on.",
        "root": "Where it lies, on its agent's machine.",
        "base": "What it will be merged into.",
        "state": ", ".join(states.WORKTREE_STATES) + ".",
        "created_at": "When it was opened.",
        "updated_at": "When it last changed.",
        "closed_at": "When it was merged or aborted; NULL while it is open.",
        "close_reason": "Why, and what was dropped by force.",
    },
    "leases": {
        "id": "Rises; never returns.",
        "kind": "scope or lock.",
        "project": "Scopes and locks of different projects never meet.",
        "resource": "The path or glob in its canonical form, or the lock's name.",
        "prefix": "The leading part of a scope that holds no wildcard: narrows the search for overlaps.",
        "mode": "exclusive or shared.",
        "agent": "Who holds it.",
        "session_id": "Which run of that agent; NULL when the call showed none.",
        "task_id": "The task whose hold it ends with, if it is bound to one.",
        "attempt": "The attempt of that task.",
        "worktree_id": "The open worktree that keeps it without an end.",
        "fence": "Rises with every grant on the board.",
        "depth": "How often its session took the lock.",
        "ttl_seconds": "Its length; renewals use it.",
        "acquired_at": "When it was granted.",
        "expires_at": "When it may be taken; NULL for an open worktree's.",
        "released_at": "When it ended; NULL while nobody ended it.",
        "release_reason": "How: released, expired, swept, merged, aborted.",
        "told_at": "When the session was told that it lost it.",
    },
    "applied_events": {
        "stream": "Who applied it.",
        "event_key": "The event, by a key of the stream's own.",
        "applied_at": "When.",
    },
    "boards": {
        "id": "`BOARD-3`.",
        "number": "3: boards sort by it.",
        "project": "The project it belongs to.",
        "title": "Its title, once in a project.",
        "status": "active or archived.",
        "stream": "The line of work that it was made for.",
        "created_by": "Whose it is.",
        "revision": "Counts changes of its list of rows and of its status; a whole-board write must show it.",
        "created_at": "When it was made.",
        "updated_at": "When an agent last wrote it.",
        "archived_at": "When it was archived.",
        "archived_by": "By whom.",
    },
    "board_rows": {
        "id": "`ROW-7`.",
        "number": "7: rows sort by it where their places are equal.",
        "board_id": "The board.",
        "label": "Its name, once on a board.",
        "status": "tracked, partial, missing, na, done, or blocked: the human's turn.",
        "position": "Its place on the board.",
        "note": "How it stands, in the agent's words.",
        "next_step": "The one thing that the human has to do.",
        "action_owner": "What is asked of the human: decision, task or approval.",
        "impact": "What waits for it.",
        "next_after": "What follows.",
        "options": "What may be chosen, as a JSON array.",
        "context": "The long background.",
        "outcome": "What came of the last step.",
        "outcome_at": "Since when.",
        "step_no": "How many steps of the human it has had.",
        "revision": "Counts what agents change in it.",
        "created_at": "When it came.",
        "updated_at": "When an agent last changed it.",
        "removed_at": "When it was left out of the board; it is kept aside with what humans said.",
    },
    "asks": {
        "id": "`ASK-12`.",
        "number": "12: asks sort by it.",
        "project": "The project it belongs to.",
        "stream": "The line of work it comes from.",
        "kind": "question, note, or done (a milestone).",
        "action_owner": "What is asked: decision, task (a deed) or approval; NULL for notes and milestones.",
        "surface": "Where it hangs: on a task, on a board's row, or alone.",
        "surface_id": "Which task or row; of one that is alone the first ask in its place.",
        "step_no": "Counts the asks of its place.",
        "dedup_key": "A retry with the same key means this ask while it lives.",
        "blocking": "Whether the task waits for it.",
        "title": "The ask in one line.",
        "detail": "The ask in short.",
        "next_step": "The one thing that the human has to do.",
        "impact": "What waits for it.",
        "next_after": "What follows.",
        "options": "What may be chosen, as a JSON array of label, detail, recommended.",
        "context": "The long background.",
        "asked_by": "The agent that asks; system for the board itself.",
        "session_id": "The run of that agent, if it showed one.",
        "state": "open: the human's turn; answered: the agents'; closed: nobody's.",
        "revision": "Counts changes of what is asked.",
        "snoozed_until": "Out of the human's sight until then.",
        "expires_at": "When it closes without an answer.",
        "response_seq": "The number of the latest response; pins compare it.",
        "handled_at": "When the human did their part; NULL while it is their turn.",
        "delivered_seq": "The latest response that anybody was handed.",
        "seen_at": "When the current response was first handed over.",
        "seen_by": "To which agent.",
        "taken_by": "Who says to act on it.",
        "taken_session_id": "In which run.",
        "taken_until": "Until when others leave it to them.",
        "outcome": "What came of it; '' while the agents have not finished.",
        "outcome_at": "Since when.",
        "closed_at": "When it closed.",
        "closed_by": "By whom.",
        "close_reason": "done, superseded, withdrawn, dismissed or expired; '' while it lives.",
        "folded": "Its words, case-folded, for searches.",
        "created_at": "When it was asked.",
        "updated_at": "When its words last changed; deliveries and responses do not touch it.",
    },
    "ask_responses": {
        "ask_id": "The ask.",
        "seq": "1, 2, 3… for each ask: what an acknowledgement names.",
        "kind": "answer, clarify, decline, handled; or withdrawn: the one before does not stand any more.",
        "channel": "inbox: from the human. chat: recorded by the agent that heard it.",
        "text": "The words.",
        "choice": "The label of the option chosen.",
        "context": "Further direction.",
        "ask_revision": "The revision of the ask that was looked at; an earlier one is an outdated answer.",
        "said_by": "Who said it, or recorded it.",
        "session_id": "In which run, if one was shown.",
        "client_id": "Which client, if it names its deeds.",
        "client_seq": "How far that client was; an earlier deed is not applied.",
        "action_id": "Which deed; the same again does nothing.",
        "folded": "The words, case-folded, for searches.",
        "created_at": "When.",
    },
    "ask_deliveries": {
        "ask_id": "The ask.",
        "seq": "The response.",
        "reader": "The session that was handed it, or the agent that showed none.",
        "agent": "Whose session it is.",
        "context_revision": "Of which revision the ask's own context came along; 0: it was left out.",
        "times": "How often.",
        "first_at": "When first.",
        "last_at": "When last.",
    },
    "annotations": {
        "id": "`ANN-5`.",
        "number": "5: annotations sort by it.",
        "project": "The project it belongs to.",
        "ask_id": "The ask beside which it stands.",
        "row_id": "Or the row.",
        "step_no": "The step at which it was said.",
        "author": "Who said it.",
        "text": "The words.",
        "seen_at": "When a session was first handed it.",
        "seen_by": "Which agent's.",
        "closed_at": "When it ended.",
        "close_reason": "acknowledged by an agent, or withdrawn by its author; '' while it is handed out.",
        "created_at": "When it was said.",
    },
    "annotation_deliveries": {
        "annotation_id": "The annotation.",
        "reader": "The session that was handed it, or the agent that showed none.",
        "agent": "Whose session it is.",
        "first_at": "When.",
    },
    "tokens": {
        "id": "Rises; never returns.",
        "hash": "SHA-256 of the secret, in hexadecimal digits.",
        "agent": "Whom it lets in.",
        "role": ", ".join(states.TOKEN_ROLES) + ".",
        "label": "What it is for.",
        "created_by": "Who made it.",
        "created_at": "When.",
        "expires_at": "When it ends; NULL: not by itself.",
        "last_used_at": "Its last use, noted at most once a minute.",
        "revoked_at": "When it was ended.",
    },
    "schema_window": {
        "id": "Always 1.",
        "revision": "The revision that set it.",
        "oldest_writer": "The oldest revision whose programs may still write here.",
    },
}

QUESTIONS = {
    "idx_tasks_claim": "Which ready task of a role is next?",
    "idx_tasks_claim_project": "Which ready task of a role in one project is next?",
    "idx_tasks_lease": "Whose lease is past?",
    "idx_tasks_parked": "What was set aside and is due?",
    "idx_tasks_holder": "What does an agent hold?",
    "idx_tasks_review": "What waits for review?",
    "idx_tasks_dedup": "Which task was dispatched with this key?",
    "idx_tasks_project": "Which tasks of a project stand at a status, in the queue's order?",
    "idx_tasks_finished": "What ended last, and what ended since?",
    "idx_task_dependencies_reverse": "Who waits for this task?",
    "idx_attempts_open": "Does somebody hold it? At most one open attempt for each task.",
    "idx_tasks_parked_on": "Which tasks wait for this lease?",
    "idx_tasks_session": "What does a session hold?",
    "idx_attempts_lost": "Which claims did a session lose that it was not told of?",
    "idx_sessions_seen": "Which sessions has an agent, and when did it last give a sign of life?",
    "idx_sessions_stale": "Which sessions were silent for longest?",
    "idx_worktrees_live": "Which worktree of a task is open? At most one.",
    "idx_leases_lock": "Who holds a lock? At most one.",
    "idx_leases_scope": "Which scopes lie above or below a path?",
    "idx_leases_expiry": "Which leases are past?",
    "idx_leases_session": "What does a session hold?",
    "idx_leases_task": "Which leases does a task keep?",
    "idx_leases_ended": "Which leases did a session have, and how did they end?",
    "idx_leases_lost": "Which leases did a session lose that it was not told of?",
    "idx_tasks_reserved": "What is reserved for an agent?",
    "idx_boards_active": "Which boards of a project are active?",
    "idx_board_rows_board": "Which rows has a board, in order?",
    "idx_asks_place": "Which ask lives in a place? At most one.",
    "idx_asks_dedup": "Which live ask has this key? At most one.",
    "idx_asks_live": "Which asks of a project live?",
    "idx_asks_answered": "What have humans finished with, and agents not?",
    "idx_asks_expiry": "Which asks are past their time?",
    "idx_asks_steps": "Which asks has a place had?",
    "idx_asks_project": "Which asks has a project?",
    "idx_ask_responses_action": "What did this deed of a client do?",
    "idx_annotations_live": "Which words are handed out still?",
    "idx_annotations_ask": "What stands beside an ask?",
    "idx_annotations_row": "What stands beside a row?",
    "idx_notes_task": "Which notes has a task, newest first?",
    "idx_history_task": "What happened to a task, newest first?",
    "idx_events_xid": "Which events came with transactions that the last numbering had not seen?",
}


def schema_page() -> str:
    """Every table: columns, indexes with the question each answers, constraints."""
    return _page(
        "The schema",
        "One schema on both engines, made by the migrations. The names of `tasks`, `task_dependencies`, `notes`,"
        " `history` and `events` are public: read them with your own SQL. To change rows, use the commands: they keep"
        " counts, history and events true.",
        "Text sorts by code point on both engines (collation `C` on Postgres). Times are `timestamptz` on Postgres; on"
        " SQLite they are UTC texts of one width, `2030-01-31T12:00:00.000Z`, which sort as times. Ids of notes,"
        " history and events never return (AUTOINCREMENT, identity). `coordinate_version` is Alembic's own table: the"
        " revision the schema stands at.",
        *(_table_section(table) for table in metadata.tables.values()),
    )


def _table_section(table: Table) -> str:
    name, only = table.name, table.info.get("only")
    on_postgres = " On Postgres only." if only and name != "event_feed" else ""
    indexes = sorted(table.indexes, key=lambda index: str(index.name))
    return _joined(
        f"## `{name}`",
        TABLES[name] + on_postgres,
        _table(
            ("column", "SQLite", "Postgres", "default", "meaning"), [_column(name, column) for column in table.columns]
        ),
        _table(
            ("index", "on", "where", "the question it answers"),
            [_index(index) for index in indexes],
        )
        if indexes
        else "",
        "Constraints: " + "; ".join(_constraints(table)) + ".",
    )


def _column(table: str, column: Column[Any]) -> Row:
    types = [column.type.compile(ENGINES[engine]).split(" COLLATE")[0] for engine in ("sqlite", "postgresql")]
    if column.info.get("only") == "postgresql" or table == "event_feed_state":
        types[0] = "–"
    null = "" if column.nullable else " NOT NULL"
    shown = [kind if kind == "–" else f"{kind}{null}" for kind in types]
    return f"`{column.name}`", *shown, _default(column), COLUMNS[table][column.name]


def _default(column: Column[Any]) -> str:
    if column.identity is not None:
        return "the next"
    given: Any = column.server_default
    if given is None:
        return ""
    text = str(getattr(given.arg, "text", given.arg))
    return f"`{text}`" if text else "`''`"


def _index(index: Index) -> Row:
    on = ", ".join(f"`{column.name}`" for column in index.columns)
    where = index.dialect_options["postgresql"]["where"]
    unique = "unique: " if index.unique else ""
    name = str(index.name)
    only = " (Postgres only)" if index.info.get("only") else ""
    return f"`{name}`{only}", unique + on, "" if where is None else f"`{where}`", QUESTIONS[name]


def _constraints(table: Table) -> Iterator[str]:
    yield f"primary key ({', '.join(f'`{column.name}`' for column in table.primary_key)})"
    for constraint in sorted(table.constraints, key=lambda each: str(each.name)):
        if isinstance(constraint, CheckConstraint):
            yield f"`{constraint.sqltext}`"
        elif isinstance(constraint, ForeignKeyConstraint):
            names = ", ".join(f"`{key.parent.name}`" for key in constraint.elements)
            goes = ", and goes with it" if constraint.ondelete else ""
            verb = "is" if len(constraint.elements) == 1 else "name"
            yield f"{names} {verb} a row of `{constraint.elements[0].column.table.name}`{goes}"
        elif constraint is not table.primary_key:
            yield f"unique ({', '.join(f'`{column.name}`' for column in constraint.columns)})"  # type: ignore[attr-defined]


# --- markdown ---------------------------------------------------------------------------------------------------------

PAGES = {"cli.md": cli_page, "python.md": python_page, "errors.md": errors_page, "schema.md": schema_page}


def _page(title: str, *parts: str) -> str:
    return _joined(f"# {title}", MADE.strip(), *parts) + "\n"


def _joined(*parts: str) -> str:
    return "\n\n".join(part for part in parts if part)


def _table(head: Row, rows: Iterable[Row]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _anchor(heading: str) -> str:
    """How GitHub links to a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


if __name__ == "__main__":
    main()
