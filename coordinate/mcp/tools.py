"""The tools of each profile: operations by the names under which agents know them, with their schemas and words.

A profile is about a dozen tools, since every definition costs each of its readers a part of their context. Whoever
needs another operation takes the profile `all`, which reaches every one of them by its name.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from coordinate import inputs
from coordinate.errors import InvalidInput, NotFound
from coordinate.frozen import dataclass
from coordinate.operations import Operation, Schema, operations

# verb_noun, where the operation's own name has no noun or a vague one.
NAMES = {
    "claim_next": "claim_next_task",
    "ask": "ask_human",
    "pending": "read_answers",
    "acknowledge": "acknowledge_answer",
    "board_upsert": "write_board",
    "board_row": "update_row",
    "board_advance": "advance_row",
    "edit": "edit_task",
    "emit": "emit_event",
    "learnings": "read_learnings",
    "lint": "lint_board",
    "mine": "list_my_tasks",
    "stats": "show_stats",
    "status": "show_status",
    "view": "view_task",
    "why": "explain_task",
    "why_idle": "explain_idle",
    **{verb: f"{verb}_task" for verb in ("dispatch", "complete", "block", "release", "transfer", "approve", "reject")},
    **{verb: f"{verb}_task" for verb in ("unblock", "cancel", "reopen", "comment")},
}
_OF_TOOLS = {tool: operation for operation, tool in NAMES.items()}
# Names of operations that stand for a field where a description has them.
_FIELDS = ("ask", "status")
_ASKING = ("ask", "pending", "acknowledge")
PROFILES: dict[str, tuple[str, ...]] = {
    "worker": (
        *("claim_next", "log_progress", "complete", "block", "release", "mine", "view", "why"),
        *("claim_scopes", "release_leases", "emit", "wait_for", *_ASKING),
    ),
    "reviewer": (
        *("claim_review", "approve", "reject", "list_tasks", "view", "why", "comment", "list_events", "emit"),
        *("wait_for", *_ASKING),
    ),
    "manager": (
        *("dispatch", "dispatch_plan", "list_tasks", "view", "status", "why", "edit", "unblock", "cancel"),
        *("wait_for", *_ASKING, "board_upsert", "board_row", "board_advance"),
    ),
    "all": (
        *("dispatch", "claim_next", "log_progress", "complete", "block", "view", "list_tasks", "status", "why"),
        *("wait_for", *_ASKING),
    ),
}
# How many a list gives where nobody says: an agent reads all that it is given.
LIMITS = {"list_tasks": 20, "list_events": 20, "mine": 20}


@dataclass(frozen=True)
class Tool:
    """One tool: an operation under its name; without one, a tool of the door's own."""

    name: str
    says: str
    schema: Schema
    looks: bool
    operation: Operation | None = None

    def filled(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments with what this door gives where nobody says otherwise. Raises `InvalidInput` for what a tool of
        its own does not take; an operation refuses that itself.
        """
        for name in arguments if self.operation is None else ():
            if name not in self.schema["properties"]:
                said, listed = f"{self.name} has no argument {name!r:.60}", ", ".join(self.schema["properties"])
                raise InvalidInput(said, hint=f"its arguments are: {listed}", field="arguments")
        limit = LIMITS.get(self.operation.name) if self.operation else None
        return arguments if limit is None or "limit" in arguments else {"limit": limit, **arguments}


DESCRIBE = Tool(
    "describe_operations",
    "What each further operation is for; with names, their whole description and the arguments they take.",
    {"type": "object", "properties": {"names": {"type": "array", "items": {"type": "string"}}}},
    looks=True,
)
CALL = Tool(
    "call_operation",
    "Perform any operation by its name with its arguments, as describe_operations tells them.",
    {
        "type": "object",
        "properties": {"name": {"type": "string"}, "arguments": {"type": "object"}},
        "required": ["name"],
    },
    looks=False,
)


@functools.cache
def tools_of(profile: str) -> dict[str, Tool]:
    """The tools of a profile by name. Raises `NotFound`."""
    if profile not in PROFILES:
        raise NotFound(f"there is no profile {profile!r:.40}", hint=f"the profiles are {', '.join(PROFILES)}")
    known = operations()
    chosen = [_tool(known[name], PROFILES[profile]) for name in PROFILES[profile]]
    own = [DESCRIBE, CALL] if profile == "all" else []
    return {tool.name: tool for tool in (*chosen, *own)}


def described(names: object) -> dict[str, Any]:
    """Every operation in a sentence, or the named ones whole. Raises `InvalidInput`, `NotFound`."""
    if names in (None, [], ""):
        return {name: operation.first_sentence for name, operation in operations().items()}
    found = [operation_of(name) for name in inputs.listed(names, "names")]
    return {each.name: {"says": each.says, "takes": each.schema} for each in found}


def operation_of(name: object) -> Operation:
    """An operation by its name, or by that of the tool that does it. Raises `NotFound`."""
    known = operations()
    found = known.get(name) or known.get(_OF_TOOLS.get(name, "")) if isinstance(name, str) else None
    if found is None:
        raise NotFound(f"there is no operation {name!r:.60}", hint="describe_operations lists them")
    return found


def _tool(operation: Operation, offered: tuple[str, ...]) -> Tool:
    def name(found: re.Match[str]) -> str:
        known = found[1] in offered and found[1] not in _FIELDS
        return f"`{NAMES.get(found[1], found[1]) if known else found[1]}`"

    says = re.sub(r"`(\w+)`", name, operation.says)
    return Tool(NAMES.get(operation.name, operation.name), says, _short(operation), operation.looks, operation)


def _short(operation: Operation) -> Schema:
    """The schema without what an agent does not need: that a value may be left out says that it may be absent."""
    properties = {}
    for each in operation.parameters:
        if each.name == "override":
            continue  # a human's
        shown = {name: value for name, value in each.schema.items() if name != "additionalProperties"}
        kind = shown.get("type")
        if isinstance(kind, list) and kind[1:] == ["null"]:
            shown["type"] = kind[0]
        if each.default not in (None, "", (), False):
            shown["default"] = LIMITS.get(operation.name, each.default) if each.name == "limit" else each.default
        properties[each.name] = shown
    return {**operation.schema, "properties": properties}
