"""What may come in: every value from outside passes one of these checks, alike for both engines.

SQLite would store a NUL, a text that is too long or a word in a number's column; Postgres would not. So neither is
asked: the rule is here. Each check returns the value in its canonical form or raises `InvalidInput` naming the field.
Lengths are counted in characters. Nothing here reads or writes a database.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

from coordinate.errors import Fact, InvalidInput
from coordinate.states import NOTE_TYPES, STATUSES

Json = dict[str, "JsonValue"]
JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]

NAME_MAX = 100
TITLE_MAX = 500
NOTE_MAX = 10_000
REASON_MAX = 1_000
TEXT_MAX = 100_000
MESSAGE_MAX = 2_000
QUERY_MAX = 10_000
PAYLOAD_MAX = 100_000
PRIORITY_MAX = 999
LEASE_SECONDS_MAX = 7 * 86_400
DELAY_SECONDS_MAX = 366 * 86_400
TTL_SECONDS_MAX = 100 * 366 * 86_400
ATTEMPTS_MAX = 1_000
BATCH_MAX = 100
LIST_MAX = 1_000
IDS_MAX = 1_000
DEPENDENCIES_MAX = 1_000
WAIT_SECONDS_MAX = 86_400
BIGINT_MAX = (1 << 63) - 1

# In these names the board itself acts: what bears them can be relied on.
OWN_AGENTS = ("system", "webhooks")
# So begin the names of the places in the log that the board itself keeps: how far a webhook was delivered, and how far
# somebody was told what others say.
OF_WEBHOOKS, OF_LEARNINGS = "webhook:", "learnings:"
OWN_CONSUMERS = (OF_WEBHOOKS, OF_LEARNINGS)
# And so the locks of whoever delivers webhooks.
OWN_LOCKS = "webhook "

# As text: the library compiles one when it is first asked for, and a command needs few.
_TASK_ID = r"TASK-([1-9][0-9]{0,17})"
_ASK_ID = r"ASK-([1-9][0-9]{0,17})"
_ANNOTATION_ID = r"ANN-([1-9][0-9]{0,17})"
_SESSION_ID = r"s-[0-9a-f]{24}"
_HANDLE = r"(TASK-[1-9][0-9]{0,17})@([1-9][0-9]{0,8})"
_DURATION = r"([0-9]{1,9})(s|m|h|d)"
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
# C0 and C1 controls: allowed nowhere in names and titles; a text may hold tab and newlines.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Zs")
# Letters and marks that are drawn as nothing: fillers, the empty Braille cell, variation selectors.
_FILLERS = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
_BLANK = frozenset(_FILLERS) | {chr(each) for each in range(0xFE00, 0xFE10)}
# A selector says how a sign is drawn, in colours or as a key; after a letter it is nothing.
HIDDEN = re.compile(rf"[{_FILLERS}]|(?<![^\w\x00-\x7f\ufe00-\ufe0f])[\ufe00-\ufe0f](?!\u20e3)")
_FORBIDDEN = "[\x00\ud800-\udfff]"


class Own(str):
    """A name of the board's own: it passes where the same letters from outside are refused, for no door makes one."""

    __slots__ = ()


def text(value: object, field: str, *, limit: int = TEXT_MAX, blank: bool = True) -> str:
    """A text of at most `limit` characters without NUL or lone surrogates; trimmed only to see whether it is blank."""
    if not isinstance(value, str):
        raise refuse(field, f"{field} must be text, not {_kind(value)}")
    if ("\0" in value or not value.isascii()) and (found := re.search(_FORBIDDEN, value)):
        what = "a NUL character" if found.group() == "\0" else "half of a surrogate pair"
        raise refuse(field, f"{field} contains {what}, which cannot be stored")
    if len(value) > limit:
        raise refuse(field, f"{field} has {len(value)} characters; at most {limit} fit", limit=limit)
    if not blank and not visible(value):
        raise refuse(field, f"{field} must not be empty")
    return value


def visible(value: str) -> bool:
    """Whether there is anything to see in a text."""
    for each in value:  # noqa: SIM110 - most texts begin with something, and any() would cost them twice as much
        if unicodedata.category(each) not in _UNSEEN and each not in _BLANK:
            return True
    return False


def line(value: object, field: str, *, limit: int) -> str:
    """A text of one line, trimmed, not blank, without control characters: a title, a name."""
    checked = text(value, field, limit=limit, blank=False).strip()
    if not checked.isprintable() and _CONTROL.search(checked):
        raise refuse(field, f"{field} must be one line without control characters")
    return checked


def name(value: object, field: str) -> str:
    """An agent, role, project, consumer or event type: one line of at most 100 characters, in composed form."""
    return label(value, field, limit=NAME_MAX)


def label(value: object, field: str, *, limit: int) -> str:
    """What something is known by: a name, an option, a board's title, a row. One line, in composed form.

    Names are compared, so what looks the same must be the same: no invisible characters, and `é` however it was typed.
    """
    checked = line(value, field, limit=limit)
    if checked.isascii():
        return checked
    checked = unicodedata.normalize("NFC", checked)
    if HIDDEN.search(checked) or any(unicodedata.category(character) == "Cf" for character in checked):
        raise refuse(field, f"{field} must not contain invisible characters")
    return line(checked, field, limit=limit)


def name_or_none(value: object, field: str) -> str | None:
    """A name that may be absent: an optional filter, a session."""
    return None if value is None else name(value, field)


def names(values: object, field: str) -> list[str]:
    """Distinct names in the order given."""
    return list(dict.fromkeys(name(value, field) for value in listed(values, field)))


def listed(values: object, field: str) -> list[object]:
    """Several values in their order; a text is not taken for a list of letters, nor an object for one of its names."""
    if isinstance(values, str | bytes) or not isinstance(values, (list, tuple, Sequence)):
        raise refuse(field, f"{field} must be a list, not {_kind(values)}")
    return list(values)


def agent(value: object, field: str = "agent") -> str:
    """An agent's name; missing is a clearer error than blank."""
    if value is None or value == "":
        raise refuse(field, "no agent is named", hint="name yourself with --agent NAME or $COORDINATE_AGENT")
    if isinstance(value, Own):
        return value
    checked = name(value, field)
    if checked.startswith("s-") and re.fullmatch(_SESSION_ID, checked):  # both are readers of responses
        raise refuse(field, f"{checked} is the id of a session, no agent's name", hint="show a session with --session")
    if checked in OWN_AGENTS:
        raise refuse(field, f"the name {checked!r} belongs to the board itself", hint="choose another name")
    return checked


def not_own(value: object, field: str, *own: str) -> str:
    """A name that does not begin like those of the board's own, unless it is one."""
    checked = name(value, field)
    begins = next((each for each in own if checked.startswith(each)), None)
    if begins is not None and not isinstance(value, Own):
        raise refuse(field, f"names that begin with {begins!r} belong to the board itself", hint="choose another name")
    return checked


def title(value: object) -> str:
    """A task's title: one line of at most 500 characters."""
    return line(value, "title", limit=TITLE_MAX)


def note_type(value: object, allowed: tuple[str, ...] = NOTE_TYPES) -> str:
    return one_of(value, "note_type", allowed)


def status(value: object) -> str:
    return one_of(value, "status", STATUSES)


def integer(value: object, field: str, *, least: int = 0, most: int = BIGINT_MAX) -> int:
    """A whole number within bounds, by default those of a column that counts; True and False are no numbers."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse(field, f"{field} must be a whole number, not {_kind(value)}")
    if not least <= value <= most:
        raise refuse(field, f"{field} must be from {least} to {most}, not {short(value)}", least=least, most=most)
    return value


def integer_or_none(value: object, field: str, *, least: int = 0, most: int = BIGINT_MAX) -> int | None:
    """The same where it may be absent: the number before a page, a revision that is expected."""
    return None if value is None else integer(value, field, least=least, most=most)


def flag(value: object, field: str) -> bool:
    """True or False; nothing else stands for them."""
    if not isinstance(value, bool):
        raise refuse(field, f"{field} must be true or false, not {_kind(value)}")
    return value


def priority(value: object) -> int:
    return integer(value, "priority", least=0, most=PRIORITY_MAX)


def lease_seconds(value: object, field: str = "lease_seconds") -> int:
    return integer(value, field, least=1, most=LEASE_SECONDS_MAX)


def lease_seconds_or_none(value: object, field: str = "lease_seconds") -> int | None:
    """The same where it may be absent: a project's or the program's default then."""
    return None if value is None else lease_seconds(value, field)


def limit(value: object, *, most: int = LIST_MAX) -> int:
    return integer(value, "limit", least=1, most=most)


def seconds(value: object, field: str, *, most: float) -> float:
    """A length of time in seconds, not negative, finite."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(field, f"{field} must be a number of seconds, not {_kind(value)}")
    if not 0 <= value <= most:  # no NaN is
        raise refuse(field, f"{field} must be from 0 to {most:g} seconds")
    return float(value)


def duration(value: str, field: str) -> int:
    """`90`, `90s`, `10m`, `2h` or `3d` as seconds."""
    if value.isascii() and value.isdigit() and len(value) <= 9:
        return int(value)
    if found := re.fullmatch(_DURATION, value):
        return int(found.group(1)) * _UNITS[found.group(2)]
    raise refuse(field, f"{field} must be a duration such as 90s, 10m, 2h or 3d, not {short(value)}")


def instant(value: object, field: str) -> datetime:
    """An aware moment, as UTC in whole milliseconds; a naive one is refused, since nobody can say when it is."""
    if not isinstance(value, datetime):
        raise refuse(field, f"{field} must be a date and time, not {_kind(value)}")
    if value.tzinfo is None or value.utcoffset() is None:
        raise refuse(field, f"{field} has no time zone", hint="write it as 2030-01-31T12:00:00Z")
    try:
        moment = value.astimezone(UTC)
    except OverflowError:
        raise refuse(field, f"{field} lies outside of the calendar") from None
    if not 1970 <= moment.year <= 9998:
        raise refuse(field, f"{field} must lie between the years 1970 and 9998")
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def parse_instant(value: str, field: str) -> datetime:
    """RFC 3339 text as an instant."""
    try:
        parsed = datetime.fromisoformat(value)
    except ValueError:
        raise refuse(
            field, f"{field} is not a date and time: {short(value)}", hint="write it as 2030-01-31T12:00:00Z"
        ) from None
    return instant(parsed, field)


def parse_integer(value: str, field: str, *, most: int = BIGINT_MAX, hint: str = "") -> int:
    """Digits as a whole number."""
    if value.isascii() and value.isdigit() and len(value) < 19 and int(value) <= most:
        return int(value)
    raise refuse(field, f"{field} must be a whole number", hint=hint)


def task_id(value: object, field: str = "task_id") -> str:
    """`TASK-12`, also typed in lower case."""
    if isinstance(value, str) and (found := re.fullmatch(_TASK_ID, value.strip().upper())):
        return found.group()
    raise refuse(field, f"not a task id: {short(value)}", hint="a task id looks like TASK-12")


def task_number(value: str) -> int:
    """12 for `TASK-12`."""
    return int(value.removeprefix("TASK-"))


def task_ids(values: object, field: str, *, most: int = IDS_MAX) -> list[str]:
    """Distinct task ids in the order given."""
    ids = list(dict.fromkeys([task_id(value, field) for value in listed(values, field)]))
    if len(ids) > most:
        raise refuse(field, f"{field} names {len(ids)} tasks; at most {most} at once", most=most)
    return ids


def ask_id(value: object, field: str = "ask") -> str:
    """`ASK-12`, also typed in lower case."""
    return _id(value, field, _ASK_ID, "an ask's id looks like ASK-12")


def annotation_id(value: object, field: str = "annotation") -> str:
    """`ANN-3`, also typed in lower case."""
    return _id(value, field, _ANNOTATION_ID, "an annotation's id looks like ANN-3")


def _id(value: object, field: str, shape: str, hint: str) -> str:
    known = getattr(getattr(value, "ask", value), "id", None)
    if isinstance(known, str):
        raise refuse(field, f"{field} is an id, not {_kind(value)}", hint=f"give its id: {known}")
    if isinstance(value, str) and (found := re.fullmatch(shape, value.strip().upper())):
        return found.group()
    raise refuse(field, f"{field} is no such id: {short(value)}", hint=hint)


def handle(value: object) -> tuple[str, int | None]:
    """A claim handle `TASK-12@3` as (task id, attempt), or a bare id as (task id, None)."""
    shown = getattr(value, "handle", value)
    if isinstance(shown, str):
        shown = shown.strip().upper()
        if found := re.fullmatch(_HANDLE, shown):
            return found.group(1), int(found.group(2))
        if found := re.fullmatch(_TASK_ID, shown):
            return found.group(), None
    raise refuse("handle", f"not a claim handle: {short(value)}", hint="a claim handle looks like TASK-12@3")


def payload(value: object) -> Json:
    """A JSON object: finite numbers that fit 64 bits, no NUL or surrogate anywhere, at most 100,000 characters."""
    if not isinstance(value, dict):
        raise refuse("payload", f"payload must be a JSON object, not {_kind(value)}")
    _check_json(value, depth=0)
    if len(dump_json(value)) > PAYLOAD_MAX:
        raise refuse("payload", f"payload is longer than {PAYLOAD_MAX} characters", limit=PAYLOAD_MAX)
    return value


def parse_payload(value: str) -> Json:
    """The same from text."""
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        raise refuse("payload", "payload is not JSON", hint='write a JSON object, such as {"what": "built"}') from None
    return payload(parsed)


dump_json = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def fold(value: str) -> str:
    """The form in which text is searched: composed and case-folded for all languages, alike on both engines."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", value).casefold())


def _check_json(value: object, *, depth: int) -> None:
    if depth > 32:
        raise refuse("payload", "payload is nested deeper than 32 levels")
    if isinstance(value, str):
        text(value, "payload", limit=PAYLOAD_MAX)
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int):
        integer(value, "payload", least=-BIGINT_MAX - 1, most=BIGINT_MAX)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise refuse("payload", "payload holds NaN or an infinity, which JSON does not know")
    elif isinstance(value, list):
        for item in value:
            _check_json(item, depth=depth + 1)
    elif isinstance(value, dict):
        for key, item in value.items():
            text(key, "payload", limit=PAYLOAD_MAX)
            _check_json(item, depth=depth + 1)
    else:
        raise refuse("payload", f"payload holds {_kind(value)}, which JSON does not know")


def one_of(value: object, field: str, allowed: tuple[str, ...]) -> str:
    """One of a few words."""
    if value is None:
        raise missing(field, f"{field} is missing: it is one of {', '.join(allowed)}")
    if not isinstance(value, str) or value not in allowed:
        raise refuse(field, f"{field} must be one of {', '.join(allowed)}, not {short(value)}")
    return value


def refuse(field: str, message: str, *, hint: str = "", **facts: Fact) -> InvalidInput:
    """The error for a value that may not come in, to be raised."""
    return InvalidInput(message, hint=hint or f"give another {field}; nothing was changed", field=field, **facts)


def missing(field: str, message: str) -> InvalidInput:
    """The error for a value that must come in, to be raised."""
    return refuse(field, message, hint=f"{field} is needed; nothing was changed")


def one(word: str) -> str:
    """A word with its article, for a message."""
    return f"{'an' if word[0] in 'aeiou' else 'a'} {word}"


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__


def short(value: object) -> str:
    """What was given, safe to print and never long."""
    if isinstance(value, int) and value.bit_length() > 1_000:  # Python itself prints none of more than 4,300 digits
        return "a number of hundreds of digits"
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:57] + "..."
