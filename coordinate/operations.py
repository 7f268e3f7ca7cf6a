"""Every operation as data, for doors that are made from the list: its parameters and answer as JSON Schema, who may
call it, and the call itself with plain JSON values.

Nothing is described twice: names, parameters, defaults, answers and words come from the operations of `service.py`.
What an operation refuses, it refuses itself; here only what is no argument of it is.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any

from coordinate import errors, inputs, plans, records
from coordinate.errors import CoordinateError, InvalidInput, NotAllowed
from coordinate.frozen import dataclass
from coordinate.service import Coordinator

Schema = dict[str, Any]

# A call from outside waits no longer than this: clients often give up after 60 seconds.
WAIT_SECONDS_MAX = 50

# What takes or gives more than JSON values, or belongs to the process that has the board open.
NOT_OFFERED = {
    *("acting", "adopt", "anybody_may_enter", "authenticate", "close", "export", "lock", "lost", "probe"),
    *("tail_events", "using"),
}

# Filled in from who calls, and no argument of anybody.
OWN = ("agent", "session")

_WORK = {
    *("claim_next", "claim_batch", "claim_task", "log_progress", "extend_lease", "keep_alive", "complete"),
    *("complete_batch", "block", "release", "transfer", "claim_scopes", "renew_leases", "release_leases"),
    *("acquire_lock", "renew_lock", "release_lock", "open_worktree", "set_worktree_state", "close_worktree"),
    *("adopt_worktree", "mark_applied", "counter_next"),
}
# What agents do with people: ask, read, act on, and keep a board of it.
_ASK = {
    *("ask", "revise", "withdraw", "pending", "collect", "take", "answer", "acknowledge", "acknowledge_annotation"),
    *("wait_ask", "board_upsert", "board_row", "board_advance", "board_archive", "board_unarchive"),
}
# What only a human says and does.
_SAY = {
    *("respond", "withdraw_response", "snooze", "wake", "dismiss", "annotate", "withdraw_annotation"),
    *("board_annotate", "close_project", "reopen_project", "approve_all"),
}
_REVIEW = {"claim_review", "approve", "reject"}
_STEER = {
    *("dispatch", "dispatch_plan", "unblock", "cancel", "reopen", "edit", "set_priority", "set_project"),
    *("set_project_defaults", "depend_add", "depend_remove", "sweep"),
}
# What anybody may who has a token: looks, words, signs of life, cursors.
_ANYBODY = {
    *("comment", "emit", "register", "heartbeat", "set_doing", "end_session", "tell_losses", "learnings"),
    *("next_events", "ack", "wait_for", "unread_answers"),
}
_FOR_AN_ADMIN = {"list_tokens", "examine"}
MAY: dict[str, set[str]] = {
    "worker": _WORK | _ASK,
    "reviewer": _REVIEW | _ASK,
    "manager": _WORK | _REVIEW | _STEER | _ASK,
    "human": _WORK | _REVIEW | _STEER | _ASK | _SAY,
}


@dataclass(frozen=True)
class Caller:
    """Who calls, as a token or the owner of the process says; never as an argument says."""

    agent: str
    kind: str = "agent"
    role: str = "admin"
    token: int = 0


@dataclass(frozen=True)
class Parameter:
    name: str
    annotation: str
    required: bool
    default: Any

    @property
    def schema(self) -> Schema:
        shown = schema_of(self.annotation)
        if self.name == "wait":
            shown = {**shown, "minimum": 0, "maximum": WAIT_SECONDS_MAX}
        return shown


@dataclass(frozen=True)
class Operation:
    """One line of the list. `looks` is True when it only reads."""

    name: str
    parameters: tuple[Parameter, ...]
    answer: str
    says: str
    looks: bool

    @property
    def first_sentence(self) -> str:
        return re.split(r"(?<=[.:])\s", " ".join(self.says.split("\n\n")[0].split()), maxsplit=1)[0]

    @property
    def schema(self) -> Schema:
        """What the call takes: one JSON object."""
        properties = {each.name: each.schema for each in self.parameters}
        required = [each.name for each in self.parameters if each.required]
        shown: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
        return {**shown, "required": required} if required else shown

    def allows(self, role: str) -> bool:
        """Whether a role may call it; what no role is given, only an admin may."""
        if role == "admin":
            return True
        looks = self.looks and self.name not in _FOR_AN_ADMIN
        return looks or self.name in _ANYBODY or self.name in MAY.get(role, ())

    @property
    def waits(self) -> bool:
        return any(each.name == "wait" for each in self.parameters)

    def call(self, board: Coordinator, caller: Caller, arguments: Mapping[str, Any]) -> Any:
        """Perform it with JSON values in the caller's name; the answer is a record, or values of records.

        Raises `NotAllowed` for another role's operation, `InvalidInput` for what is missing or unknown, and what the
        operation raises.
        """
        if not self.allows(caller.role):
            raise NotAllowed(
                f"{self.name} is not for the role {caller.role}",
                hint="ask somebody whose role it is, or for a token of another role",
                role=caller.role,
                operation=self.name,
            )
        known = {each.name: each for each in self.parameters}
        if caller.kind != "human" and arguments.get("override") is not None:
            raise NotAllowed("override is for a human", hint="let another reviewer judge it", operation=self.name)
        for name in arguments:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise InvalidInput(
                    f"{self.name} has no argument {name!r:.60}", hint=f"its arguments are: {listed}", field="arguments"
                )
        for each in self.parameters:
            if each.required and each.name not in arguments:
                raise InvalidInput(f"{self.name} needs {each.name}", hint=f"give {each.name}", field=each.name)
        values = {name: _value(known[name], value) for name, value in arguments.items()}
        if self.waits and "wait" in values:
            values["wait"] = inputs.seconds(values["wait"], "wait", most=WAIT_SECONDS_MAX)
        if self.name == "register":  # one's own name, whatever the argument would say
            values |= {"name": caller.agent, "kind": caller.kind}
        return getattr(board, self.name)(**values)


@functools.cache
def operations() -> dict[str, Operation]:
    """All that a door may offer, by name, in the order of the list."""
    found = {}
    for name, function in vars(Coordinator).items():
        if name.startswith("_") or not inspect.isfunction(function) or name in NOT_OFFERED:
            continue
        signature = inspect.signature(function)
        own = (*OWN, "name", "kind", "host", "pid") if name == "register" else OWN
        found[name] = Operation(
            name=name,
            parameters=tuple(
                Parameter(each.name, str(each.annotation), each.default is each.empty, _default(each))
                for each in list(signature.parameters.values())[1:]
                if each.name not in own
            ),
            answer=str(signature.return_annotation),
            says=_says(function),
            looks=getattr(function, "writes", True) is False,
        )
    return found


def _says(function: Callable[..., Any]) -> str:
    """The operation's words with what holds for a call from outside: codes for exceptions, and how long it may wait."""
    says = re.sub(r"`(\w+)`", lambda found: f"`{_CODES.get(found[1], found[1])}`", inspect.getdoc(function) or "")
    return says.replace(f"{inputs.WAIT_SECONDS_MAX:,}", f"{WAIT_SECONDS_MAX}")


_CODES = {name: each.code for name, each in vars(errors).items() if isinstance(each, type) and hasattr(each, "code")}


def nothing_yet(answer: Any) -> bool:
    """Whether a wait that ended with this answer was in vain, so that it may go on."""
    if isinstance(answer, records.News):
        return answer.nothing
    if isinstance(answer, records.EventBatch):
        return not answer.events and answer.gap is None
    if isinstance(answer, records.Scopes):
        return not answer.granted
    return answer is None


def refusal(error: Exception) -> dict[str, Any]:
    """An error as data: error, code, hint and facts. A fault of ours says nothing of its insides."""
    if isinstance(error, CoordinateError):
        return dict(error.as_dict())
    return {"error": "a fault of coordinate; the server's log has the traceback", "code": "internal", "hint": ""}


def _default(parameter: inspect.Parameter) -> Any:
    return None if parameter.default is parameter.empty else parameter.default


# --- JSON values in ---------------------------------------------------------------------------------------------------


def _value(parameter: Parameter, value: Any) -> Any:
    if value is None:
        return None
    if parameter.annotation.startswith("datetime"):
        if not isinstance(value, str):
            raise inputs.refuse(parameter.name, f"{parameter.name} must be a text such as 2030-01-31T12:00:00Z")
        return inputs.parse_instant(value, parameter.name)
    if "PlannedTask" in parameter.annotation:
        return [_planned(each) for each in inputs.listed(value, parameter.name)]
    return value


def _planned(value: Any) -> Any:
    known = {field.name for field in fields(plans.PlannedTask)}
    if not isinstance(value, dict) or not {"key", "title"} <= value.keys() <= known:
        listed = ", ".join(sorted(known - {"key", "title"}))
        raise inputs.refuse("plan", f"a planned task is an object with key, title, and perhaps {listed}")
    moment = value.get("not_before")
    if moment is not None:
        if not isinstance(moment, str):
            raise inputs.refuse("not_before", "not_before must be a text such as 2030-01-31T12:00:00Z")
        value = {**value, "not_before": inputs.parse_instant(moment, "not_before")}
    values: dict[str, Any] = {name: tuple(each) if isinstance(each, list) else each for name, each in value.items()}
    return plans.PlannedTask(**values)


# --- JSON Schema of annotations ---------------------------------------------------------------------------------------

_PLAIN: dict[str, Schema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "datetime": {"type": "string", "format": "date-time"},
    "None": {"type": "null"},
    "Any": {},
}
_LIST = re.compile(r"(?:Sequence|list|tuple)\[(.+?)(?:, \.\.\.)?\]")
_DICT = re.compile(r"(?:dict|Mapping)\[str, (.+)\]")


def schema_of(annotation: str, *, refer: Callable[[str], Schema] | None = None) -> Schema:
    """JSON Schema of a type as it is written in the source. A record is described in place, or as `refer` says."""
    annotation = annotation.strip()
    if annotation in _PLAIN:
        return dict(_PLAIN[annotation])
    choices = _split(annotation, "|")
    if len(choices) > 1:
        choices = [each for each in choices if each != "Claim" or "str" not in choices]  # a handle is a text
        found = [schema_of(each, refer=refer) for each in choices]
        return found[0] if len(found) == 1 else _any_of(found)
    if match := _DICT.fullmatch(annotation):
        return {"type": "object", "additionalProperties": schema_of(match[1], refer=refer)}
    if match := _LIST.fullmatch(annotation):
        return {"type": "array", "items": schema_of(match[1], refer=refer)}
    kind = getattr(records, annotation, None) or getattr(plans, annotation, None)
    if kind is None or not is_dataclass(kind):
        return {}
    return refer(annotation) if refer is not None else record_schema(annotation)


def record_schema(name: str, *, refer: Callable[[str], Schema] | None = None) -> Schema:
    """A record as a JSON object."""
    kind = getattr(records, name, None) or getattr(plans, name)
    listed = fields(kind)
    # An answer has every field; of what comes in, those with a default may be left out.
    comes_in = kind.__module__ == plans.__name__
    required = [each.name for each in listed if not comes_in or each.default is MISSING]
    return {
        "type": "object",
        "properties": {each.name: schema_of(str(each.type), refer=refer) for each in listed},
        "required": required,
    }


def _any_of(found: list[Schema]) -> Schema:
    kinds = [each.get("type") for each in found]
    if all(isinstance(kind, str) for kind in kinds) and all(len(each) == 1 for each in found if each["type"] == "null"):
        plain = [each for each in found if each["type"] != "null"]
        if len(plain) == 1:
            return {**plain[0], "type": [plain[0]["type"], "null"]}
        if all(len(each) == 1 for each in plain):
            return {"type": kinds}
    return {"anyOf": found}


def _split(text: str, at: str) -> list[str]:
    """The parts between a mark, outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]
