"""Answers as people read them: plain aligned columns, no wider than the terminal; into a pipe nothing is cut."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from datetime import UTC, datetime
from typing import Any

from coordinate.cli.output import plain

# What a person wants to see of a thing with these keys, in this order; of anything else, all of it.
_COLUMNS = (
    (
        "id",
        "status",
        "priority",
        "role_boundary",
        "project",
        "assigned_agent",
        "claim",
        "lease_until",
        "waits",
        "title",
        "error",
    ),
    ("id", "created_at", "event", "ref", "agent", "message"),
    ("id", "created_at", "author", "note_type", "content"),
    ("id", "created_at", "agent", "action", "attempt", "detail"),
    ("resource", "mode", "agent", "task_id", "fence", "expires_at", "released_at"),
    ("id", "agent", "project", "doing", "live", "heartbeat_at"),
    ("task_id", "agent", "branch", "state", "root"),
    ("id", "state", "action_owner", "surface_id", "project", "asked_by", "said", "seen_by", "taken_by", "title"),
    ("id", "label", "status", "revision", "step_no", "asks", "note", "next_step", "outcome"),
    ("title", "status", "project", "fraction", "blocked", "unseen", "revision", "updated_at"),
)
# What most tasks have is not shown while all of them have it.
_USUAL = {"project": "default", "priority": 100}
_HEADS = {
    "action_owner": "owner",
    "surface_id": "on",
    "role_boundary": "role",
    "assigned_agent": "agent",
    "lease_until": "lease",
    "priority": "prio",
}
_STYLES = {
    "done": "32",
    "partial": "36",
    "blocked": "31",
    "na": "2",
    "DONE": "32",
    "IN_PROGRESS": "36",
    "IN_REVIEW": "35",
    "BLOCKED": "31",
    "CANCELLED": "2",
    "error": "31",
}
_MOMENTS = ("snoozed_until", "expires_at")
_WIDTH_MIN = 8


def as_table(value: Any) -> str:
    """A list as columns; a record as lines, with what it lists below. Nothing is an empty text."""
    return "\n".join(_lines(plain(value)))


def _lines(value: Any) -> list[str]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return _columns(value)
    if isinstance(value, list):
        return [_cell(item) for item in value]
    if not isinstance(value, dict):
        return [_cell(value)]
    facts = {key: item for key, item in value.items() if not _is_section(item) and item not in (None, "", [], {})}
    width = max((len(key) for key in facts), default=0)
    lines = [f"{_styled(key.ljust(width), '1')}  {_coloured(_cell(item))}" for key, item in facts.items()]
    for key, item in value.items():
        if _is_section(item):
            lines += ["", _styled(key.upper(), "1"), *_lines(item)]
    return lines


def _is_section(value: Any) -> bool:
    return (isinstance(value, dict) and bool(value)) or (isinstance(value, list) and value != [] and _has_dict(value))


def _has_dict(values: list[Any]) -> bool:
    return any(isinstance(item, dict) for item in values)


def _columns(rows: list[dict[str, Any]]) -> list[str]:
    if not rows:
        return []
    rows = [_of_a_task(row) if "lease_until" in row and "role_boundary" in row else row for row in rows]
    rows = [row | {"asks": _asks(row["turn"])} if row.get("turn") else row for row in rows]
    rows = [_of_an_ask(row) if "response_seq" in row and "snoozed_until" in row else row for row in rows]
    known = list(dict.fromkeys(key for row in rows for key in row))
    wanted = next((some for some in _COLUMNS if sum(key in known for key in some) >= 5), tuple(known))
    names = [key for key in wanted if any(row.get(key) not in (None, "", [], {}, _USUAL.get(key)) for row in rows)]
    table = [[_HEADS.get(name, name) for name in names], *[[_cell(row.get(name)) for name in names] for row in rows]]
    widths = _fitted([max(_width(line[place]) for line in table) for place in range(len(names))])
    head, *body = [[_padded(cell, width) for cell, width in zip(line, widths, strict=True)] for line in table]
    lines = [_styled("  ".join(head).upper().rstrip(), "1")]
    return lines + ["  ".join(_coloured(cell) for cell in line).rstrip() for line in body]


def _of_a_task(row: dict[str, Any]) -> dict[str, Any]:
    """The same with what it waits for, and the end of its lease short enough for a column."""
    lease = datetime.fromisoformat(row["lease_until"]) if row["lease_until"] else None
    now = datetime.now(UTC)
    shown = None
    if lease is not None:
        shown = lease.strftime("%H:%MZ" if lease.date() == now.date() else "%Y-%m-%d %H:%MZ")
    return {**row, "lease_until": shown, "waits": _waits(row, past=lease is not None and lease <= now)}


def _of_an_ask(row: dict[str, Any]) -> dict[str, Any]:
    """The same with what was said, and with the state that a person means by it."""
    now = datetime.now(UTC)
    past = {name: row[name] is not None and datetime.fromisoformat(row[name]) <= now for name in _MOMENTS}
    state = row["state"]
    if state == "open" and past["expires_at"]:
        state = "over"
    elif state == "open" and row["snoozed_until"] and not past["snoozed_until"]:
        state = "snoozed"
    return {**row, "state": state, "said": _said(row["response"])}


def _waits(row: dict[str, Any], *, past: bool) -> str:
    if past:
        return "lease past"
    if row["status"] != "TODO":
        return f"reviewer {row['reviewer']}" if row["status"] == "IN_REVIEW" and row["reviewer"] else ""
    if row["unmet_dependencies"]:
        named = str(row["depends_on"]).split(",")
        some = "" if len(named) == row["unmet_dependencies"] else f"{row['unmet_dependencies']} of "
        return some + ", ".join(named)
    match row["parked"]:
        case "later":
            return f"until {str(row['not_before'] or row['parked_until'])[:16]}Z"
        case "scope":
            return "scope"
        case "reserved":
            return f"reserved for {row['reserved_for']}"
    return ""


def _asks(turn: dict[str, Any]) -> str:
    """Whom a row of a board waits for."""
    said = turn["response"]
    return f"{turn['ask_id']} {_said(said)}" if said else str(turn["ask_id"])


def _said(response: dict[str, Any] | None) -> str:
    """A human's response with its number, which an acknowledgement names."""
    if not response:
        return ""
    words = ", ".join(part for part in (response["choice"], response["text"]) if part)
    said = f"{response['kind']} {response['seq']}" + (f": {words}" if words else "")
    return f"{said} (outdated)" if response["outdated"] else said


def _fitted(widths: list[int]) -> list[int]:
    """Take from the widest column until the line fits the terminal."""
    if not sys.stdout.isatty():
        return widths
    room = shutil.get_terminal_size().columns - 2 * (len(widths) - 1)
    while sum(widths) > room and max(widths) > _WIDTH_MIN:
        widest = widths.index(max(widths))
        widths[widest] = max(_WIDTH_MIN, widths[widest] - (sum(widths) - room))
    return widths


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        shown = value
    elif isinstance(value, list) and not _has_dict(value):
        shown = ", ".join(map(str, value))
    else:
        shown = json.dumps(value, ensure_ascii=False)
    # One line, and nothing that would steer the terminal.
    return "".join(letter if letter.isprintable() else " " for letter in shown)


def _width(text: str) -> int:
    return sum(_letter_width(letter) for letter in text)


def _letter_width(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def _padded(text: str, width: int) -> str:
    if _width(text) > width:
        kept, used = "", 0
        for letter in text:
            used += _letter_width(letter)
            if used > width - 3:
                break
            kept += letter
        text = kept + "..."
    return text + " " * (width - _width(text))


def _coloured(cell: str) -> str:
    return _styled(cell, _STYLES[cell.strip()]) if cell.strip() in _STYLES else cell


def _styled(text: str, style: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\033[{style}m{text}\033[0m"
