"""What operations say, in the words of whoever calls them by a tool: tools for commands, and nothing of a shell.

A hint is written for whoever types; one that names a command leads nowhere here. So commands become the tools that do
the same, where the caller has them, and what only a shell can do is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from coordinate.mcp.tools import NAMES, PROFILES

# The operations behind the commands that hints name.
COMMANDS = {
    "agent register": "register",
    "board get": "board_get",
    "board list": "board_list",
    "board row": "board_row",
    "events list": "list_events",
    "events next": "next_events",
    "inbox annotate": "annotate",
    "inbox list": "list_asks",
    "inbox pending": "pending",
    "inbox show": "show_ask",
    "inbox wait": "wait_ask",
    "inbox withdraw": "withdraw",
    "lease claim": "claim_scopes",
    "lease list": "list_leases",
    "lock acquire": "acquire_lock",
    "lock list": "list_leases",
    "lock release": "release_lock",
    "lock renew": "renew_lock",
    "task claim-next": "claim_next",
    "task claim-review": "claim_review",
    "task list": "list_tasks",
    "task mine": "mine",
    "task reopen": "reopen",
    "task view": "view",
    "task why": "why",
    "token list": "list_tokens",
    "worktree adopt": "adopt_worktree",
    "worktree list": "list_worktrees",
}
_COMMAND = re.compile(
    rf"(?:`(?:coordinate )?|coordinate )({'|'.join(COMMANDS)})\b((?: [A-Z]+-\d+(?:@\d+)?)?)([^`;,]*`)?"
)
_OF_A_SHELL = re.compile(
    r"\bcoordinate [a-z]|`[a-z]+ |\$[A-Z]|--(?:session|agent|db)\b|\bpip |\bevents next\b|on the command line"
)
# Where one way out ends and the next begins.
_PARTS = re.compile(r"(; |, or | or (?=set |\$)|, on the command line )")
_OPERATION = re.compile(r"^(\w+)(?= (?:needs|has no argument|is not for the role)\b)")


def in_tools(told: Mapping[str, Any], profile: str) -> dict[str, Any]:
    """A refusal as data, for a client of this profile."""
    return _spoken(told, partial(_tool_of, profile=profile))


def in_operations(told: Mapping[str, Any]) -> dict[str, Any]:
    """The same for whoever calls every operation by its own name."""
    return _spoken(told, str)


def _spoken(told: Mapping[str, Any], name_of: Callable[[str], str | None]) -> dict[str, Any]:
    def command(found: re.Match[str]) -> str:
        name = name_of(COMMANDS[found[1]])
        return found[0] if name is None else name + found[2]

    def operation(found: re.Match[str]) -> str:
        return name_of(found[1]) or found[1]

    error = _OPERATION.sub(operation, _COMMAND.sub(command, told["error"]))
    first, *rest = _PARTS.split(_COMMAND.sub(command, told["hint"]))
    ways = [("", first), *zip(rest[::2], rest[1::2], strict=True)]
    kept = [(before, way) for before, way in ways if not _OF_A_SHELL.search(before + way)]
    hint = "".join(before + way if at else way for at, (before, way) in enumerate(kept))
    return {**told, "error": error, "hint": re.sub(r"--([a-z]+)", r"\1", hint)}


def _tool_of(operation: str, profile: str) -> str | None:
    if operation in PROFILES.get(profile, ()):
        return NAMES.get(operation, operation)
    return operation if profile == "all" else None
