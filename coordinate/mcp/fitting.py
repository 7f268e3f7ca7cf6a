"""An answer that fits: a client reads all that it is given, and refuses or cuts what is much longer.

First go fields that hold nothing and the ends of long texts, but payloads of events before what was said with them;
then, of what a list holds, all but what each entry is known by and what a later call shows: ids, handles, revisions; at
last the ends of the lists.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

TEXT_LENGTHS, SHORT_LENGTHS = (40_000, 10_000, 2_000), (2_000, 500, 100)
LIST_LENGTHS = (500, 200, 100, 50, 20, 10, 1)
# What an entry of a list is known by, what a call about it shows, and how it stands.
KNOWN_BY = {
    *("handle", "claim", "id", "key", "ask_id", "task_id", "row_id", "seq", "attempt", "revision", "response_seq"),
    *("fence", "resource", "pattern", "consumer", "ok", "code", "already", "changed", "status", "state", "event"),
}
WORDS = {"title", "label", "name", "text", "choice", "message"}
SHORTENED = "of each entry there is only what it is known by; what was done is done, and can be looked at by its id"


def fitted(value: Any, most: int) -> tuple[Any, str]:
    """The value in at most `most` characters of JSON, as far as can be; and what is missing but the ends of texts."""
    for found in _ever_shorter(value):
        if _is_within(found[0], most) and length(found[0]) <= most:
            break
    return found


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def length(value: Any) -> int:
    return len(dump(value))


def without_nothing(value: Any) -> Any:
    """The same without the fields that hold nothing: an agent reads what is there."""
    return _without(value, lambda item: item is None)


def fit_together(values: list[Any], most: int) -> int:
    """How many of these, from the first on, fit into so many characters; one in any case."""
    lengths = accumulate(length(each) + 1 for each in values)
    return max(1, sum(1 for reached in lengths if reached <= most))


def _is_within(value: Any, most: int) -> bool:
    """Whether its texts alone are no longer than that: what is much longer is not written out to be measured."""
    left, within = most, [value]
    while within and left >= 0:
        item = within.pop()
        if isinstance(item, dict):
            within += item.values()
        elif isinstance(item, list):
            within += item
        left -= len(item) if isinstance(item, str) else 1
    return left >= 0


def _ever_shorter(value: Any) -> Iterator[tuple[Any, str]]:
    yield value, ""
    value = _without(value, lambda item: item in ("", [], {}, None))
    yield value, ""
    for most in TEXT_LENGTHS:
        yield _cut(value, most), ""
    value = _without_payloads(value)
    for most in SHORT_LENGTHS:
        shown = _cut(value, most)
        yield shown, ""
    for names in (KNOWN_BY | WORDS, KNOWN_BY):
        value = _known(shown, names)
        yield value, SHORTENED
    for most in LIST_LENGTHS:
        left_out: list[int] = []
        shown = _heads(value, most, left_out)
        yield shown, f"{SHORTENED}; {sum(left_out)} more entries are left out"


def _without(value: Any, empty: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, empty) for key, item in value.items() if not empty(item)}
    return [_without(item, empty) for item in value] if isinstance(value, list) else value


def _without_payloads(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: f"… [{length(item)} characters]" if key == "payload" else _without_payloads(item)
            for key, item in value.items()
        }
    return [_without_payloads(item) for item in value] if isinstance(value, list) else value


def _cut(value: Any, most: int) -> Any:
    if isinstance(value, str) and len(value) > most:
        return f"{value[:most]}… [{len(value) - most} more characters]"
    if isinstance(value, dict):
        return {key: _cut(item, most) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut(item, most) for item in value]
    return value


def _known(value: Any, names: set[str], *, listed: bool = False) -> Any:
    """Of each object in a list the fields of these names, and the objects within it that have any."""
    if isinstance(value, list):
        return [_known(item, names, listed=True) for item in value]
    if not isinstance(value, dict):
        return value
    if not listed:
        return {key: _known(item, names) for key, item in value.items()}
    within = {key: _known(item, names, listed=True) for key, item in value.items() if isinstance(item, dict)}
    return {key: within.get(key, item) for key, item in value.items() if key in names or within.get(key)}


def _heads(value: Any, most: int, left_out: list[int]) -> Any:
    """The first entries of every list; how many are left out is added up beside it."""
    if isinstance(value, dict):
        return {key: _heads(item, most, left_out) for key, item in value.items()}
    if isinstance(value, list):
        left_out.append(max(0, len(value) - most))
        return [_heads(item, most, left_out) for item in value[:most]]
    return value
