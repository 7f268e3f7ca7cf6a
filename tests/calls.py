"""Calls of every operation, made up by chance: most of them make sense on the board as their answers have shown it.

`Random` knows the tasks, claims, asks and rows that it was told of, and takes its values from there; now and then it
takes something odd. What it calls is a method of the Coordinator, so a call may be made on two boards, or by several
processes on one.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from coordinate import Coordinator
from coordinate.errors import CoordinateError
from coordinate.operations import Operation, operations
from coordinate.plans import PlannedTask
from coordinate.records import as_json

AGENTS = ("alice", "bob", "carol")
PATHS = ("src", "src/a", "src/b", "docs", "docs/ä", "*.md", "a_", "SRC/A")
ODD = (
    "",
    " ",
    "x" * 120,
    "ä",
    "ß",
    "İ",
    "e\u0301",
    "ﬁ",
    "🚀",
    "\u200b",
    "a%b",
    "a_b",
    "a\\b",
    "'; --",
    "$1",
    ":a",
    "?",
    "{}",
)
WORDS = ("some words", "other words", "One", "Ä", "straße")
# What several call much more often than the rest, since much follows from it.
OFTEN = {
    **dict.fromkeys(("dispatch", "claim_next", "ask", "respond", "complete", "board_upsert"), 5),
    **dict.fromkeys(("claim_task", "claim_batch", "claim_scopes", "release", "open_worktree", "board_row"), 3),
    **dict.fromkeys(("depend_add", "approve", "reject", "claim_review", "pending", "acknowledge", "take"), 3),
}
# They end the game: of a closed project nothing is seen any more, and what was pruned is not there to be compared.
RARE = {"close_project": 0.2, "prune": 0.0}
OF_A_HOLDER = ("complete", "block", "release", "transfer", "log_progress", "extend_lease", "keep_alive")
Call = tuple[Operation, dict[str, Any], str]  # what is called, with what, by whom


class Random:
    """Makes up calls, one after the other; the same numbers make the same calls where the answers are the same."""

    def __init__(self, seed: int, *, seconds: tuple[int, ...] = (600, 3_600)) -> None:
        self._random = random.Random(seed)
        self._seconds = seconds
        self._tasks = ["TASK-1"]
        self._asks = ["ASK-1"]
        self._annotations = ["ANN-1"]
        self._fences = [1]
        self._handles: dict[str, str] = {}  # and who got them
        self._askers: dict[str, str] = {}
        self._revisions: dict[tuple[str, str], int] = {}  # of each board and of its rows
        self._operations = list(operations().values())
        self._weights = [RARE.get(each.name, OFTEN.get(each.name, 1)) for each in self._operations]

    def call(self) -> Call:
        """The next one."""
        (operation,) = self._random.choices(self._operations, self._weights)
        given = {
            each.name: self._value(operation.name, each.name)
            for each in operation.parameters
            if each.required or each.name == "wait" or self._maybe(0.4)
        }
        agent = self._random.choice(AGENTS)
        if self._maybe(0.9):
            agent = self._make_sense(operation.name, given, agent)
        return operation, given, agent

    def learn(self, call: Call, answer: Any) -> None:
        """What one answer says of what there is."""
        operation, given, agent = call
        said = json.dumps(answer, ensure_ascii=False)
        for known, pattern in (
            (self._tasks, r"TASK-\d+\b(?!@)"),
            (self._asks, r"\bASK-\d+"),
            (self._annotations, r"ANN-\d+"),
        ):
            _remember(known, re.findall(pattern, said))
        _remember(self._fences, [int(each) for each in re.findall(r'"fence": (\d+)', said)])
        if operation.name in ("claim_next", "claim_batch", "claim_task", "transfer"):
            for claim in answer if isinstance(answer, list) else [answer]:
                if claim:
                    self._handles.pop(claim["handle"], None)
                    self._handles[claim["handle"]] = claim["task"]["assigned_agent"]
        if operation.name == "ask":
            self._askers[answer["ask"]["id"]] = agent
        if operation.name.startswith("board_") and isinstance(answer, dict) and "title" in given:
            for row in answer.get("rows", ()):
                self._revisions[given["title"], row["label"]] = row["revision"]
            if "board" in answer:
                self._revisions[given["title"], ""] = answer["board"]["revision"]

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance

    def _value(self, operation: str, name: str) -> Any:
        if name != "wait" and self._maybe(0.03):
            return self._random.choice((*ODD, None, 0, -1, 10**9, True, [], {}))
        choose = self._random.choice
        values: dict[str, Callable[[], Any]] = {
            "ask": lambda: choose(self._asks[-5:]),
            "supersedes": lambda: choose(self._asks[-5:]),
            "task": lambda: choose(self._tasks[-8:]),
            "on": lambda: choose(self._tasks[-8:]),
            "depends_on": lambda: self._some(self._tasks[-8:]),
            "tasks": lambda: self._some(self._tasks[-8:]),
            "annotation": lambda: choose(self._annotations),
            "handle": lambda: choose([*list(self._handles)[-5:], "TASK-1@1"]),
            "handles": lambda: self._some(list(self._handles)[-5:]),
            "fences": lambda: self._some(self._fences[-5:]),
            "fence": lambda: choose(self._fences[-5:]),
            "to": lambda: choose(AGENTS),
            "role": lambda: choose(("worker", "worker", "worker", "tester")),
            "project": lambda: choose(("default", "default", "a", "z")),
            "title": lambda: choose(("One", "Two")),
            "label": lambda: choose(("r1", "r2", "ä")),
            "name": lambda: choose(("default", "a", "n1")),
            "patterns": lambda: self._some(PATHS),
            "scopes": lambda: self._some(PATHS),
            "mode": lambda: choose(("exclusive", "exclusive", "shared")),
            "priority": lambda: choose((1, 100, 999)),
            "count": lambda: choose((1, 2, 5)),
            "limit": lambda: choose((1, 2, 50)),
            "wait": lambda: 0,
            "days": lambda: choose((1, 30)),
            "options": lambda: ["red", {"label": "blue", "recommended": True}],
            "choice": lambda: choose(("red", "blue")),
            "action_owner": lambda: choose(("decision", "task", "approval")),
            "rows": self._rows,
            "plan": self._plan,
            "payload": lambda: choose(({}, {"a": [1, {"ä": None}]}, {"f": 1e300, "n": 2**60})),
            "position": lambda: choose((0, 1, 5)),
            "consumer": lambda: choose(("c1", "c2")),
            "event_type": lambda: choose(("learning", "task.created", "x.y")),
            "event_types": lambda: choose((None, ["learning"], ["task.created", "x.y"])),
            "event_keys": lambda: choose((["a"], ["a", "b"])),
            "dedup_key": lambda: choose(("k1", "k2")),
            "client_id": lambda: "c1",
            "state": lambda: "gating" if operation == "set_worktree_state" else choose(("open", "answered")),
            "note_type": lambda: choose(("DECISION", "ERROR")),
            "until": lambda: datetime.now(UTC) + timedelta(hours=1),
            "kind": lambda: choose(
                {"respond": ("answer", "clarify", "decline", "handled")}.get(operation, ("question",))
            ),
            "status": lambda: choose(("blocked", "tracked", "done") if "board" in operation else ("TODO", "DONE")),
            "after": lambda: choose((None, 0)),
            "root": lambda: f"/w/{self._random.randrange(9)}",
        }
        if name in values:
            return values[name]()
        if name.endswith("seconds"):
            return choose(self._seconds)
        if name.endswith(("revision", "version", "seq")) or name in ("max_attempts", "floor", "notes", "history"):
            return choose((1, 1, 2, 3))
        if name in ("not_before", "before"):
            return None
        if name in _FLAGS:
            return self._maybe(0.4)
        return choose((*WORDS, choose(ODD)))

    def _make_sense(self, operation: str, given: dict[str, Any], agent: str) -> str:
        """Let most calls be such as somebody would make: by whom it concerns, and at what they saw; says by whom."""
        for name in ("expected_revision", "override", "supersedes", "client_seq", "action_id", "context", "outcome"):
            given.pop(name, None)
        held = list(self._handles.items())[-5:]
        if held and (operation in OF_A_HOLDER or (operation in ("open_worktree", "ask") and self._maybe(0.6))):
            handle, agent = self._random.choice(held)
            given["handle" if operation in OF_A_HOLDER else "task"] = handle
        if operation == "ask":
            given |= {"kind": "question", "impact": "all waits", "next_step": "say it", "options": ["red", "blue"]}
            given |= {"action_owner": "decision", "blocking": "@" in str(given.get("task"))}
        if operation == "respond":
            given |= {"text": "words"}
            given.pop("client_id", None)
        if operation == "open_worktree":
            given |= {"task": str(given["task"]).split("@")[0], "branch": "b", "patterns": []}
        if operation in ("revise", "withdraw", "collect", "take", "acknowledge"):
            agent = self._askers.get(str(given.get("ask")), agent)
        if operation in ("claim_review", "approve", "reject"):
            agent = "rita"
        if operation == "register":
            given["name"] = agent
        title, label = str(given.get("title")), str(given.get("label"))
        if operation.startswith("board_"):
            given.pop("project", None)
        if operation in ("board_row", "board_advance"):
            given["expected_revision"] = self._revisions.get((title, label))
        if operation in ("board_upsert", "board_advance", "board_archive"):
            given["board_version"] = self._revisions.get((title, ""))
        for row in given["rows"] if operation == "board_upsert" and isinstance(given["rows"], list) else ():
            row["revision"] = self._revisions.get((title, row["label"]))
        return agent

    def _some(self, values: Any) -> list[Any]:
        return self._random.sample(values, min(len(values), self._random.choice((0, 1, 1, 2))))

    def _rows(self) -> list[dict[str, Any]]:
        blocked = {"status": "blocked", "next_step": "say it", "action_owner": "task", "impact": "all waits"}
        labels = self._random.sample(("r1", "r2", "ä"), self._random.choice((1, 2)))
        return [{"label": label, **(blocked if self._maybe(0.5) else {"status": "tracked"})} for label in labels]

    def _plan(self) -> list[PlannedTask]:
        waits = self._random.choice(((), ("a",), ("b",), (self._tasks[-1],)))
        return [PlannedTask("a", "One", "worker"), PlannedTask("b", "Ä", "worker", depends_on=waits, scopes=("src",))]


_FLAGS = {
    *("first", "full", "every", "force", "aborted", "blocking", "review", "dry_run", "withdraw_ask", "attention"),
    *("clear_not_before", "told", "unhandled", "snoozed", "ended", "closed", "archived", "again", "from_start"),
    *("acknowledge", "respect_dependencies"),
}


def _remember(known: list[Any], said: list[Any]) -> None:
    """The latest last, and not more than a few: those that many meet."""
    known += [each for each in dict.fromkeys(said) if each not in known]
    del known[:-12]


def answer_to(board: Coordinator, call: Call) -> tuple[str, Any]:
    """What it answers, or how it is refused, as JSON; whatever else is raised is a fault."""
    operation, given, agent = call
    try:
        return "", as_json(getattr(board.acting(agent=agent), operation.name)(**given))
    except CoordinateError as refused:
        return refused.code, refused.as_dict()
