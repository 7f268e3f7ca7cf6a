"""Bad input of every kind, into every parameter of every operation: refused with its code, and nothing changes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.errors import CoordinateError, InvalidInput, NotFound
from coordinate.plans import PlannedTask
from coordinate.records import GivenRow
from tests.tables import dump, refused

NOT_TEXT = [3, True, 1.5, b"text", ["text"], {"text": 1}, object()]
UNSTORABLE = ["a\0b", "\ud800", "x\udfffy"]
NOT_A_LINE = ["two\nlines", "a\tb", "\x1b[31m", "a\x85b", "\x7f"]
BLANK = ["", " ", "\t\n", "\u2003"]


@dataclass(frozen=True)
class Kind:
    """What a parameter takes: values that it must refuse. None is refused too where `required`."""

    bad: list[Any]
    required: bool = True

    def optional(self) -> Kind:
        return Kind(self.bad, required=False)

    def values(self) -> list[Any]:
        return [*self.bad, None] if self.required else self.bad


def text(most: int, *, blank: bool = True) -> Kind:
    return Kind([*NOT_TEXT, *UNSTORABLE, "x" * (most + 1), "🚀" * (most + 1), *([] if blank else BLANK)])


def line(most: int) -> Kind:
    return Kind([*text(most, blank=False).bad, *NOT_A_LINE])


def whole(least: int, most: int) -> Kind:
    return Kind([True, False, 1.0, "1", b"1", [1], math.nan, least - 1, -(10**30), most + 1, 10**30])


def each(kind: Kind) -> list[Any]:
    return [[value] for value in kind.values()]


NAME = line(100)
TASK_SHAPE = Kind(
    [*NOT_TEXT, *UNSTORABLE, *BLANK, "TASK-0", "TASK-01", "TASK--1", "TASK-1@1x", "TASK-\u0661", "12", "JOB-1"]
)
TASK = Kind([*TASK_SHAPE.bad, "TASK-1@1", "TASK-99", "TASK-" + "9" * 18, "TASK-" + "9" * 50])
HANDLE = Kind(
    [
        *TASK_SHAPE.bad,
        "@1",
        "TASK-1@",
        "TASK-1@0",
        "TASK-1@-1",
        "TASK-1@1@1",
        "TASK-1@x",
        "TASK-1@" + "9" * 10,
        "TASK-99@1",
    ]
)
NOT_A_LIST = ["TASK-1", 3, True, object()]
FLAG = Kind(["yes", "", 1, 0, 1.0, []])
INSTANT = Kind(
    [
        *("2030-01-31T12:00:00Z", 1_900_000_000, True, math.nan, date(2030, 1, 31)),
        datetime(2030, 1, 31),  # noqa: DTZ001 - naive: nobody can say when that is
        datetime(1969, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-12))),
    ],
    required=False,
)
SECONDS = Kind([True, "1", None, math.nan, math.inf, -math.inf, -0.1, -1, 86_401, 10**400], required=False)
DEEP: dict[str, Any] = {}
for _ in range(40):
    DEEP = {"k": DEEP}
PAYLOAD = Kind(
    [
        *("{}", 3, True, False, 0, "", [], [["k", "v"]], DEEP, {"k": "x" * 100_001}, {1: "v"}, {None: "v"}),
        *({"k": value} for value in (math.nan, math.inf, 2**63, -(2**63) - 1, b"v", {1}, object(), "\0", "\ud800")),
        *({"k\0": 1}, {"\udc00": 1}, {"k": [{"k": math.nan}]}, {"k": (1, 2)}),
    ],
    required=False,
)
STATUS = Kind([*NOT_TEXT, *UNSTORABLE, *BLANK, "todo", "DOING", "TODO "], required=False)
NOTE_TYPE = Kind([*STATUS.bad, "progress", "SYSTEM", "BLOCKED"])
MARK = Kind(
    [
        *(*NOT_TEXT, *BLANK, "x", "1~2", "\0~\0~\0", "1~now~1", "1~2030-01-01T00:00:00~1"),
        *("-1~2030-01-01T00:00:00Z~1", "1~2030-01-01T00:00:00Z~-1", "1~2030-01-01T00:00:00Z~1~1"),
        *("1~2030-01-01T00:00:00Z~" + "9" * digits for digits in (30, 5_000)),
    ],
    required=False,
)
SCOPES = Kind(
    [
        *NOT_A_LIST[1:],
        "src/**",
        *each(Kind([*NOT_TEXT, *UNSTORABLE, "../x", "/etc", "x" * 5000])),
        ["a"] * 0 + [f"f{n}" for n in range(101)],
    ]
)
PLAN = Kind(
    ["## A", 3, True, [], ["## A"], [None], [{"title": "A"}]]
    + [[PlannedTask("k", title)] for title in line(500).values()]
    + [[PlannedTask("k", "A", role=role)] for role in NAME.values()]
    + [[PlannedTask("k", "A", priority=priority)] for priority in whole(0, 999).values()]
    + [[PlannedTask("k", "A", body=body)] for body in text(100_000).values()]
    + [[PlannedTask("k", "A", not_before=moment)] for moment in INSTANT.bad]
    + [[PlannedTask("k", "A", depends_on=names)] for names in (("x",), ("TASK-99",), ("k",), (3,), ("\0",), 3)]
    + [[PlannedTask("k", "A"), PlannedTask("k", "B")]]
)
BIGINT = 2**63 - 1
ASK = Kind([*NOT_TEXT, *UNSTORABLE, *BLANK, "ASK-0", "ASK-01", "TASK-1", "1", "ASK-99", "ASK-" + "9" * 30])
OPTIONS = Kind(
    [
        *(3, True, "ab", [], ["a"], ["a", "a"], ["a", 3], ["a", ""], ["a", "x" * 201], ["a", "b", "c", "d", "e"]),
        *(["a", {"lab": "b"}], ["a", {"label": "b", "more": 1}], ["a", {"label": "b", "detail": 1}], ["a", None]),
        *(["a", {"label": "b", "recommended": "yes"}], [{"label": each, "recommended": True} for each in "ab"]),
    ]
)

# Every parameter of every operation, by name; below, where one operation means something else by it.
KINDS: dict[str, Kind] = {
    "title": line(500),
    "role": NAME,
    "project": NAME,
    "priority": whole(0, 999),
    "body": text(100_000),
    "depends_on": Kind([*NOT_A_LIST, *each(TASK), [f"TASK-{n}" for n in range(1, 1002)]]),
    "scopes": SCOPES,
    "not_before": INSTANT,
    "dedup_key": line(200).optional(),
    "max_attempts": whole(1, 1000).optional(),
    "agent": Kind([value for value in NAME.bad if value != ""], required=False),
    "session": Kind([value for value in NAME.bad if value != ""], required=False),
    "plan": PLAN,
    "count": whole(1, 100),
    "lease_seconds": whole(1, 604_800).optional(),
    "respect_dependencies": FLAG,
    "wait": SECONDS,
    "task": TASK,
    "on": TASK,
    "handle": HANDLE,
    "handles": Kind([*NOT_A_LIST, [], ["TASK-1@1"] * 101, *each(Kind(HANDLE.bad[:-1]))]),
    "note": text(10_000, blank=False),
    "note_type": NOTE_TYPE,
    "review": FLAG,
    "again": FLAG,
    "result": text(100_000).optional(),
    "reason": text(1_000),
    "after_seconds": whole(0, 366 * 86_400).optional(),
    "to": Kind([*NAME.bad, "system", "alice"]),
    "limit": whole(1, 1000),
    "override": text(1_000, blank=False).optional(),
    "text": text(10_000, blank=False),
    "clear_not_before": FLAG,
    "expected_revision": Kind([True, "1", 1.0, -1, 2**64, []], required=False),
    "tasks": Kind([*NOT_A_LIST, [], *each(TASK_SHAPE), [f"TASK-{n}" for n in range(1, 1002)]]),
    "name": NAME,
    "notes": whole(0, 1000),
    "history": whole(0, 1000),
    "notes_before": whole(0, BIGINT).optional(),
    "history_before": whole(0, BIGINT).optional(),
    "status": STATUS,
    "assigned_to": NAME.optional(),
    "query": text(10_000),
    "days": whole(1, 366),
    "event_type": NAME,
    "event_types": Kind(["note", 3, True, *each(NAME)], required=False),
    "payload": PAYLOAD,
    "message": text(2_000),
    "ref": line(500).optional(),
    "ttl_seconds": whole(0, 100 * 366 * 86_400).optional(),
    "by_agent": NAME.optional(),
    "not_by": NAME.optional(),
    "before": whole(0, BIGINT).optional(),
    "looked_at": whole(0, BIGINT).optional(),
    "consumer": NAME,
    "position": Kind([*whole(0, BIGINT).bad, None, 9_999]),
    "from_start": FLAG,
    "acknowledge": FLAG,
    "after": whole(0, BIGINT).optional(),
    "page": whole(1, 1000),
    "dry_run": FLAG,
    # the fleet
    "kind": NAME,
    "host": text(100),
    "pid": whole(0, BIGINT).optional(),
    "stream": line(500),
    "doing": text(500),
    "detail": text(2_000).optional(),
    "patterns": Kind([*SCOPES.bad, []]),
    "mode": Kind(["", "Exclusive", 3, True, b"shared", ["shared"]]),
    "fences": Kind([3, True, "1", *each(Kind([*whole(1, BIGINT).bad, None])), list(range(1, 1_002))]),
    "fence": whole(1, BIGINT).optional(),
    "every": FLAG,
    "ended": FLAG,
    "closed": FLAG,
    "force": FLAG,
    "aborted": FLAG,
    "held_by": NAME.optional(),
    "of_agent": NAME.optional(),
    "branch": line(500),
    "root": line(1_000),
    "base": text(500),
    "state": Kind(["", "Open", "merged", "aborted", 3, True, b"open"]),
    "unsaved": text(1_000),
    "event_keys": Kind([*NOT_A_LIST, [], *each(line(500)), [f"k{n}" for n in range(1_001)]]),
    "floor": whole(0, BIGINT - 1_000),
    # asks
    "ask": ASK,
    "action_owner": Kind(["", "Decision", "human", 3, True, ["task"]]),
    "impact": text(1_000, blank=False),
    "next_step": text(1_000),
    "next_after": text(1_000),
    "options": OPTIONS,
    "context": text(10_000),
    "blocking": FLAG,
    "supersedes": ASK.optional(),
    "timeout_seconds": whole(1, 366 * 86_400).optional(),
    "choice": Kind([*line(200).bad, "c"], required=False),
    "revision": Kind([*whole(1, BIGINT).bad, 2], required=False),
    "client_id": line(200),
    "client_seq": whole(1, BIGINT),
    "action_id": line(200),
    "until": Kind([*INSTANT.bad, datetime(2020, 1, 1, tzinfo=UTC)]),
    "annotation": Kind(["", "ANN-0", "ANN-99", "ASK-1", 1, None, b"ANN-1", "ANN-" + "9" * 30]),
    "full": FLAG,
    "seconds": whole(1, 604_800),
    "response_seq": whole(1, 2**31 - 1),
    "outcome": text(1_000, blank=False),
    "attention": FLAG,
    "told": FLAG,
    "snoozed": FLAG,
    "unhandled": FLAG,
    "asked_by": NAME.optional(),
    "withdraw_ask": FLAG,
    "token": Kind([*whole(1, BIGINT).bad, None, 99]),
}
SPECIAL: dict[tuple[str, str], Kind] = {
    **{("edit", name): KINDS[name].optional() for name in ("title", "role", "project", "priority", "body", "scopes")},
    **{("list_tasks", name): KINDS[name].optional() for name in ("role", "query")},
    **{(name, "reason"): text(1_000, blank=False) for name in ("block", "reject")},
    **{(name, "note"): text(10_000) for name in ("approve", "unblock")},
    ("list_tasks", "after"): MARK,
    ("claim_review", "task"): TASK.optional(),
    ("claim_review", "lease_seconds"): whole(1, 604_800),
    ("list_events", "event_type"): NAME.optional(),
    ("next_events", "limit"): whole(1, 500),
    ("export_page", "after"): whole(0, BIGINT),
    ("prune", "before"): INSTANT,
    ("register", "name"): NAME.optional(),
    ("register", "kind"): Kind(["", "robot", 3, True, b"agent"]),
    ("register", "role"): NAME.optional(),
    ("register", "stream"): text(500),
    ("register", "ttl_seconds"): whole(10, 604_800),
    ("list_agents", "after"): NAME.optional(),
    ("board_list", "after"): line(200).optional(),
    ("list_sessions", "after"): NAME.optional(),
    ("set_doing", "doing"): text(500).optional(),
    ("counter_next", "kind"): Kind([*NAME.bad, "a/b"]),
    ("counter_next", "count"): whole(1, 1_000),
    ("applied", "after"): line(500).optional(),
    ("claim_scopes", "ttl_seconds"): whole(1, 604_800),
    ("claim_scopes", "project"): NAME.optional(),
    ("list_leases", "kind"): Kind(["", "task", 3, True], required=False),
    ("release_leases", "patterns"): SCOPES.optional(),
    ("open_worktree", "patterns"): SCOPES.optional(),
    ("learnings", "limit"): whole(1, 500),
    **{(name, "ttl_seconds"): whole(1, 604_800).optional() for name in ("renew_leases", "renew_lock")},
    **{(name, "ttl_seconds"): whole(1, 604_800) for name in ("acquire_lock", "lock")},
    **{(name, "task"): Kind(HANDLE.bad, required=False) for name in ("claim_scopes", "check_scopes")},
    ("list_leases", "task"): TASK_SHAPE.optional(),
    **{
        (name, "task"): HANDLE
        for name in ("open_worktree", "set_worktree_state", "close_worktree", "adopt_worktree", "worktree_of")
    },
    ("worktree_of", "task"): Kind(TASK_SHAPE.bad),
    **{(name, "kind"): Kind(["", "Question", "handle", 3, True, b"note"]) for name in ("ask", "respond", "answer")},
    ("ask", "task"): Kind(HANDLE.bad, required=False),
    ("ask", "detail"): text(10_000),
    ("ask", "outcome"): text(1_000),
    ("ask", "context"): text(100_000),
    ("ask", "stream"): text(500),
    **{("revise", name): KINDS[name].optional() for name in ("title", "impact", "next_step", "next_after", "options")},
    ("revise", "detail"): text(10_000).optional(),
    ("revise", "context"): text(100_000).optional(),
    **{(name, "text"): text(10_000) for name in ("respond", "answer")},
    ("pending", "limit"): whole(1, 100),
    ("pending", "after"): whole(0, BIGINT),
    ("pending", "after_annotation"): whole(0, BIGINT),
    ("wait_ask", "after"): whole(0, BIGINT),
    ("list_asks", "after"): whole(0, BIGINT),
    ("list_finished", "role"): NAME.optional(),
    ("list_finished", "query"): text(10_000).optional(),
    ("list_finished", "after"): TASK.optional(),
    ("list_asks", "before"): whole(0, BIGINT).optional(),
    ("list_asks", "state"): Kind(["", "Open", "OPEN", 3, True], required=False),
    ("list_asks", "kind"): Kind(["", "Question", 3, True], required=False),
    ("list_asks", "query"): text(10_000, blank=False).optional(),
    ("create_token", "role"): Kind([*NAME.bad, "king"]),
    ("create_token", "ttl_seconds"): whole(60, 100 * 366 * 86_400).optional(),
    ("list_tokens", "before"): whole(0, BIGINT).optional(),
    ("wait_for", "role"): NAME.optional(),
    ("acting", "agent"): NAME,
    ("acting", "session"): Kind([*(value for value in NAME.bad if value != ""), "s-nobody"], required=False),
    ("create_token", "label"): text(100),
}
MAY_MEAN_ALL = {"claim_batch", "claim_next", "claim_review", "approve_all", "list_tasks", "stats", "status", "lint"} | {
    "review_count",
    *(
        "list_finished",
        "effort",
        "urgent_asks",
        "why_idle",
        "list_events",
        "search_events",
        "next_events",
        "tail_events",
    ),
    *("list_leases", "list_sessions", "list_worktrees", "ask", "pending", "list_asks", "attention_count", "wait_for"),
}  # None as a project means every project


def kind_of(operation: str, parameter: str) -> Kind:
    if (operation, parameter) in SPECIAL:
        return SPECIAL[operation, parameter]
    if parameter == "project" and operation in MAY_MEAN_ALL:
        return NAME.optional()
    return KINDS[parameter]


# For every operation a call that would succeed, but for the one bad value.
GOOD: dict[str, dict[str, Any]] = {
    "dispatch": {"title": "T", "role": "worker"},
    "dispatch_plan": {"plan": [PlannedTask("k", "A")]},
    "claim_batch": {"role": "worker", "count": 1},
    "claim_next": {"role": "worker"},
    "claim_task": {"task": "TASK-5"},
    "log_progress": {"handle": "TASK-1@1", "note": "n"},
    "extend_lease": {"handle": "TASK-1@1"},
    "keep_alive": {"handle": "TASK-1@1"},
    "complete": {"handle": "TASK-1@1"},
    "complete_batch": {"handles": ["TASK-1@1"]},
    "block": {"handle": "TASK-1@1", "reason": "r"},
    "release": {"handle": "TASK-1@1"},
    "transfer": {"handle": "TASK-1@1", "to": "zoe"},
    "mine": {},
    "claim_review": {"task": "TASK-3"},
    "review_count": {},
    "approve": {"task": "TASK-3"},
    "approve_all": {},
    "reject": {"task": "TASK-3", "reason": "r"},
    "unblock": {"task": "TASK-2"},
    "cancel": {"task": "TASK-5"},
    "reopen": {"task": "TASK-4"},
    "comment": {"task": "TASK-5", "text": "t"},
    "edit": {"task": "TASK-5", "title": "U"},
    "set_priority": {"tasks": ["TASK-5"], "priority": 1},
    "set_project": {"tasks": ["TASK-5"], "project": "p"},
    "set_project_defaults": {"name": "p"},
    "depend_add": {"task": "TASK-5", "on": "TASK-2"},
    "depend_remove": {"task": "TASK-6", "on": "TASK-5"},
    "view": {"task": "TASK-1"},
    "list_tasks": {},
    "list_projects": {},
    "export_page": {},
    "export": {},
    "stats": {},
    "status": {},
    "lint": {},
    "list_finished": {},
    "effort": {},
    "now": {},
    "why": {"task": "TASK-1"},
    "why_idle": {"role": "worker"},
    "emit": {"event_type": "note"},
    "list_events": {},
    "search_events": {"query": "q"},
    "ack": {"consumer": "c", "position": 1},
    "rewind": {"consumer": "c", "position": 0},
    "next_events": {"consumer": "c"},
    "tail_events": {},
    "prune": {},
    "register": {"name": "zoe"},
    "heartbeat": {},
    "set_doing": {"doing": "this"},
    "list_agents": {},
    "list_sessions": {},
    "end_session": {},
    "tell_losses": {},
    "lost": {},
    "learnings": {},
    "claim_scopes": {"patterns": ["docs"]},
    "check_scopes": {"patterns": ["src"]},
    "list_leases": {},
    "renew_leases": {"fences": [1]},
    "release_leases": {"fences": [1]},
    "acquire_lock": {"name": "free"},
    "renew_lock": {"name": "mine"},
    "release_lock": {"name": "mine"},
    "lock": {"name": "free"},
    "open_worktree": {"task": "TASK-7@1", "branch": "b", "root": "/r"},
    "set_worktree_state": {"task": "TASK-1", "state": "gating"},
    "close_worktree": {"task": "TASK-1"},
    "adopt_worktree": {"task": "TASK-1"},
    "worktree_of": {"task": "TASK-1"},
    "list_worktrees": {},
    "mark_applied": {"stream": "s", "event_keys": ["k"]},
    "applied": {"stream": "s"},
    "counter_next": {"kind": "adr"},
    "sweep": {},
    "examine": {},
    "repair": {},
    "ask": {"title": "T", "action_owner": "decision", "impact": "i", "options": ["a", "b"]},
    "revise": {"ask": "ASK-1", "title": "U"},
    "withdraw": {"ask": "ASK-1"},
    "respond": {"ask": "ASK-1", "choice": "a", "client_id": "c", "client_seq": 1, "action_id": "x"},
    "withdraw_response": {"ask": "ASK-3", "client_id": "c", "client_seq": 1, "action_id": "x"},
    "snooze": {"ask": "ASK-1", "until": datetime(2090, 1, 1, tzinfo=UTC)},
    "wake": {"ask": "ASK-1"},
    "dismiss": {"ask": "ASK-1"},
    "annotate": {"ask": "ASK-1", "text": "t"},
    "withdraw_annotation": {"annotation": "ANN-2"},
    "acknowledge_annotation": {"annotation": "ANN-1"},
    "close_project": {"name": "p"},
    "reopen_project": {"name": "p"},
    "pending": {},
    "collect": {"ask": "ASK-2"},
    "take": {"ask": "ASK-2"},
    "answer": {"ask": "ASK-1", "choice": "a", "client_id": "c", "client_seq": 1, "action_id": "x"},
    "acknowledge": {"ask": "ASK-2", "response_seq": 1, "outcome": "o"},
    "show_ask": {"ask": "ASK-1"},
    "list_asks": {},
    "attention_count": {},
    "urgent_asks": {},
    "wait_ask": {"ask": "ASK-2"},
}
# Boards: much of what an ask must say a row may leave out, which keeps its value.
BOARD_STEP = {"note": "n", "next_step": "s", "impact": "i", "action_owner": "task"}
GOOD |= {
    "board_upsert": {"title": "New", "rows": [GivenRow("R")]},
    "board_row": {"title": "B", "label": "New"},
    "board_advance": {"title": "B", "label": "R", "expected_revision": 1, "board_version": 1} | BOARD_STEP,
    "board_annotate": {"title": "B", "label": "R", "text": "t"},
    "board_get": {"title": "B"},
    "board_list": {},
    "board_archive": {"title": "B"},
    "board_unarchive": {"title": "B"},
}
KINDS |= {"label": line(200), "board_version": whole(0, BIGINT).optional(), "archived": FLAG}
SPECIAL |= {
    ("board_upsert", "stream"): text(500),
    ("board_upsert", "rows"): Kind(
        ["R", 3, True, *each(Kind([*NOT_TEXT, {}, {"label": "R", "state": "done"}, {1: "R"}, {"label": "R", 1: 1}]))]
        + [[{"label": f"R{n}"} for n in range(201)], [{"label": "R"}, {"label": "R"}]]
        + [[GivenRow(label)] for label in line(200).values()]
        + [[{"label": "R", "note": note}] for note in text(10_000).bad]
        + [[{"label": "R", "status": status}] for status in [*STATUS.bad, "TODO"]]
    ),
    ("withdraw_response", "response_seq"): whole(1, 2**31 - 1).optional(),
    ("board_row", "status"): Kind([*STATUS.bad, "TODO"], required=False),
    ("board_row", "note"): text(10_000).optional(),
    **{("board_row", name): text(1_000).optional() for name in ("next_step", "impact", "outcome")},
    ("board_row", "action_owner"): Kind([*NOT_TEXT, *UNSTORABLE, "human", "Decision"], required=False),
    **{("board_advance", name): whole(0, BIGINT) for name in ("expected_revision", "board_version")},
    ("board_advance", "action_owner"): Kind([*NOT_TEXT, "human", ""]),
    **{("board_advance", name): text(1_000, blank=False) for name in ("next_step", "impact")},
    ("board_advance", "outcome"): text(1_000).optional(),
    **{
        (name, parameter): kind.optional()
        for name in ("board_row", "board_advance")
        for parameter, kind in {
            "next_after": text(1_000),
            "context": text(100_000),
            "response_seq": whole(0, BIGINT),
            "options": Kind(["A", 3, True, ["A", 3], [{"label": 1}, "A"], ["A", {"label": "B", "x": 1}], ["A", "A\0"]]),
        }.items()
    },
}
MAY_MEAN_ALL |= {"board_list"}
GOOD |= {
    "create_token": {"name": "zoe", "role": "worker"},
    "list_tokens": {},
    "revoke_token": {"token": 1},
    "anybody_may_enter": {},
    "probe": {},
    "acting": {"agent": "zoe"},
    "wait_for": {"wait": 0},
    "unread_answers": {},
}
# Tested where they are at home: what they take is no value but a file, a connection or a secret.
ELSEWHERE = {"adopt", "using", "close", "authenticate"}


def operations() -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(Coordinator, inspect.isfunction)
    return {name: function for name, function in found if not name.startswith("_")}


def parameters(operation: str) -> list[str]:
    return list(inspect.signature(operations()[operation]).parameters)[1:]


def test_every_parameter_of_every_operation_has_its_bad_values() -> None:
    assert set(GOOD) == set(operations()) - ELSEWHERE
    unknown = [
        (operation, name)
        for operation in GOOD
        for name in parameters(operation)
        if name not in KINDS and (operation, name) not in SPECIAL
    ]
    assert unknown == []


@pytest.fixture
def stage(board: Coordinator) -> Coordinator:
    """Tasks: two that alice holds, one BLOCKED, one that bob submitted, one DONE, two TODO; a reader; her session.

    Asks: one open with words beside it, of which she was handed the first; one answered and handed to her, one not.
    """
    for _ in range(5):
        board.dispatch(title="T", role="worker")
    board.dispatch(title="Waits", role="worker", depends_on=["TASK-5"])
    board.claim_task(task="TASK-1")
    board.block(handle=board.claim_task(task="TASK-2"), reason="r")
    board.complete(handle=board.claim_task(task="TASK-3", agent="bob"), review=True, agent="bob")
    board.complete(handle=board.claim_task(task="TASK-4"))
    board.next_events(consumer="c", from_start=True)
    board.session = board.register(name="alice").id
    board.claim_scopes(patterns=["lib"])
    board.acquire_lock(name="mine")
    board.open_worktree(task="TASK-1", branch="b", root="/r", patterns=["src"])
    board.dispatch(title="T", role="worker")
    board.claim_task(task="TASK-7")
    for _ in range(3):
        board.ask(**GOOD["ask"])
    board.respond(ask="ASK-2", choice="a")
    board.annotate(ask="ASK-1", text="first")
    assert len(board.pending().responses) == 1
    board.annotate(ask="ASK-1", text="second")
    board.respond(ask="ASK-3", choice="a")
    board.board_upsert(title="B", rows=[GivenRow("R")])
    board.create_token(name="bob", role="worker")
    return board


@pytest.mark.parametrize("operation", GOOD)
def test_bad_values_are_refused_and_change_nothing(stage: Coordinator, board_url: str, operation: str) -> None:
    def call(**values: Any) -> Any:
        answer = getattr(stage, operation)(**GOOD[operation] | values)
        if operation == "lock":
            with answer as held:
                return held
        return list(answer) if operation == "export" else answer

    before = dump(board_url)
    wrong = []
    for name in parameters(operation):
        for value in kind_of(operation, name).values():
            shown = repr(value)[:60]
            try:
                call(**{name: value})
            except (InvalidInput, NotFound) as error:
                printable = "\ud800" not in error.message and "\0" not in error.message and len(error.message) < 2_000
                if not printable or not str(error):
                    wrong.append(f"{name}={shown}: cannot be printed: {error.message[:80]!r}")
            except CoordinateError as error:
                wrong.append(f"{name}={shown}: refused as {error.code}")
            except Exception as error:
                wrong.append(f"{name}={shown}: {type(error).__name__}: {str(error)[:80]!r}")
            else:
                wrong.append(f"{name}={shown}: accepted")
        after = dump(board_url)
        if after != before:
            wrong.append(f"{name}: something changed: {[table for table in after if after[table] != before[table]]}")
            before = after
    assert not wrong, "\n".join(wrong)
    call()


@pytest.mark.parametrize("session", [3, "a\0b", "x" * 101, "two\nlines", "\ud800", "bob\u3164", "bob\ufe0f"])
def test_a_connection_refuses_a_session_or_an_agent_that_is_no_name(board_url: str, session: Any) -> None:
    with pytest.raises(InvalidInput):
        coordinate.connect(board_url, agent="alice", session=session)
    with pytest.raises(InvalidInput):
        coordinate.connect(board_url, agent=session)


def test_without_a_name_the_verbs_that_need_one_say_so(board_url: str) -> None:
    with coordinate.connect(board_url) as nobody:
        nobody.dispatch(title="T", role="worker")
        calls: list[Callable[[], Any]] = [
            lambda: nobody.claim_next(role="worker"),
            lambda: nobody.claim_task(task="TASK-1"),
            lambda: nobody.log_progress(handle="TASK-1@1", note="n"),
            lambda: nobody.complete(handle="TASK-1@1"),
            lambda: nobody.cancel(task="TASK-1"),
            lambda: nobody.comment(task="TASK-1", text="t"),
            nobody.approve_all,
            nobody.mine,
        ]
        for call in calls:
            with refused(board_url, InvalidInput, "no agent is named"):
                call()


def test_values_at_their_limits_are_taken(board: Coordinator) -> None:
    task = board.dispatch(
        title="🚀" * 500,
        role="🚀" * 100,
        project="p" * 100,
        priority=999,
        body="🚀" * 100_000,
        dedup_key="k" * 200,
        max_attempts=1000,
    ).task
    session = board.register(name="a" * 100).id
    claim = board.claim_next(role="🚀" * 100, lease_seconds=604_800, agent="a" * 100, session=session)
    board.log_progress(handle=claim, note="🚀" * 10_000, agent="a" * 100)
    board.block(handle=claim, reason="🚀" * 1_000, agent="a" * 100)
    board.unblock(task=task.id, note="n" * 10_000)
    board.complete(handle=board.claim_task(task=task.id), result="🚀" * 100_000)
    assert board.view(task=task.id).task.result == "🚀" * 100_000
    board.emit(event_type="e" * 100, message="🚀" * 2_000, payload={"k": "🚀" * 90_000}, ttl_seconds=3_162_240_000)
    board.prune()
    assert board.list_tasks(query="🚀" * 10_000).tasks[0].id == task.id
