"""Scope patterns: one canonical form for each, and whether two of them could ever name the same path.

A pattern is a path from the root of the repository, in which these are not plain text:

- `*` any text without `/`, also none and also a leading dot; `?` one character; neither crosses `/`.
- `**` any number of segments, also none. `**.py` reads as `**/*.py`, `a**` as `a*/**`, and `a**b` as `a*/**` too.
- `[abc]`, `[a-z]`, `[!abc]`, `[^abc]` one character. A `[` that is not closed within its segment is plain text.
  Because names such as `[slug]` are real, the classes of a segment also stand for themselves as they are written.
- There is no escape: a backslash is a separator, and `[*]` is how to write a plain `*`. Alternatives such as `{a,b}`
  are refused. All else, `%` and `_` included, is plain text.

A pattern covers what it matches and everything below it; the root, `.`, covers everything. Doubt means conflict: a
class that tools, locales or letter cases read differently makes its segment stand for any name. Such are `[[:alpha:]]`
and every range that does not run upwards between two ASCII digits or two ASCII letters of one case: `[z-a]`, `[0-Z]`.

Not resolved here: symbolic links (the caller passes the path they lead to) and letter case (kept, unless `fold_case`
says that the repository lies where case makes no difference). A character is one code point of the NFC form.

**Cost.** `overlaps` and `matches` fill a table of segments by segments, and for a pair of segments that must agree,
at most four tables of characters by characters, each cell once, and a row of these at a time. That is
O(len(a) · len(b)) in time, O(len(b)) in space and without recursion, for any patterns. Whoever claims holds a lock
meanwhile, so what would cost more is read as wider: a path of more than 64 segments means the folder at its 64th, and a
segment with more than 16 classes, or a class of more than 64 characters, any name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import TypeVar

from coordinate.errors import InvalidInput

ROOT = "."
PATTERN_LENGTH_MAX = 1_000
PATTERN_BYTES_MAX = 2_000
DEPTH_MAX = 64
CLASSES_MAX = 16
CLASS_LENGTH_MAX = 64

Characters = tuple[tuple[int, int], ...]
"""The code points that may stand in one place, as closed ranges."""

Reading = list[Characters | None]
"""A segment, place by place; None is `*`."""

T = TypeVar("T")

_GLOB = frozenset("*?[")
_ANY_CHARACTER: Characters = ((0, 0x10FFFF),)
_CLASS = r"(?s)\[(?P<negated>[!^]?+)(?P<members>.[^\]]*)\]"
_MEMBER = r"(?s)(.)-(.)|(.)"
_ALTERNATIVES = r"(?<!\[)\{[^{}]*(?:,|\.\.)[^{}]*\}"
_DRIVE = r"[A-Za-z]:"
_RUNS = ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")


def canonical(pattern: str, *, root: str | None = None, fold_case: bool = False) -> str:
    r"""The one form in which a pattern is stored and compared.

    `\`, `./`, `//`, `..`, a trailing `/` and the Unicode form are resolved; the root is `.`. `root` is the absolute
    path of the repository; an absolute pattern is accepted only when it lies there. `fold_case` makes letters that
    differ only in case the same, one character for one.

    Raises `InvalidInput` for a pattern that is blank, longer than 1,000 characters, not plain text, outside the
    repository, written with alternatives in braces, or that steps back with `..` over a glob, because where that
    leads depends on what is on the disk.
    """
    _refuse_unreadable(pattern)
    segments, is_absolute = _resolve(pattern, fold_case)
    if is_absolute:
        top, is_known = _resolve(root or "", fold_case)
        segments = _below(top if is_known else None, segments, pattern)
    result = "/".join(segments[:DEPTH_MAX]) or ROOT
    _refuse_too_long(result)
    return result


def overlaps(a: str, b: str) -> bool:
    """Whether one path could lie in both of two canonical patterns; in doubt, yes. Symmetric."""
    return _meet(_covered(a), _covered(b), _share_a_name)


def matches(pattern: str, path: str) -> bool:
    """Whether a concrete path, in canonical form, lies in a canonical pattern; in doubt, yes."""
    return _meet(_covered(pattern), _split(path), _admits)


def literal_prefix(pattern: str) -> str:
    """The leading segments of a canonical pattern that hold no glob character; `.` when there are none.

    Patterns can overlap only when the prefix of one is the prefix of the other, or an ancestor of it.
    """
    return "/".join(takewhile(_GLOB.isdisjoint, _split(pattern))) or ROOT


# --- the steps of `canonical` ---------------------------------------------------------------------------------------


def _refuse_unreadable(pattern: str) -> None:
    if not pattern.strip():
        raise _refusal("A scope is empty.", "Write `.` for the whole repository, or a path such as `src/app.py`.")
    _refuse_too_long(pattern)
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in pattern):
        raise _refusal(
            f"The scope {pattern!r} holds a control character or a lone surrogate.",
            "Write the path as plain text.",
        )
    if re.search(_ALTERNATIVES, pattern):
        raise _refusal(
            f"The scope {pattern!r} holds alternatives in braces, which have no meaning here.",
            "Write one scope for each of them. Where a name really holds a brace, write `[{]`.",
        )


def _refuse_too_long(pattern: str) -> None:
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise _refusal(
            f"A scope has {len(pattern):,} characters; at most {PATTERN_LENGTH_MAX:,} are allowed.",
            "Name a directory further up: it covers everything below it.",
        )
    if len(pattern.encode("utf-8", "surrogatepass")) > PATTERN_BYTES_MAX:
        raise _refusal(
            f"A scope takes more than {PATTERN_BYTES_MAX:,} bytes in UTF-8, which no index holds.",
            "Name a directory further up: it covers everything below it.",
        )


def _resolve(pattern: str, fold_case: bool) -> tuple[list[str], bool]:
    """The segments without `.` and `..`, and whether the pattern is absolute."""
    text = unicodedata.normalize("NFC", pattern).replace("\\", "/")
    kept: list[str] = []
    for segment in text.split("/"):
        if segment == "..":
            _step_back(kept, pattern)
        elif segment not in {"", "."}:
            kept.append(_folded(segment) if fold_case else segment)
    has_drive = bool(kept and re.fullmatch(_DRIVE, kept[0]))
    if has_drive:
        kept[0] = kept[0].upper()
    return kept, has_drive or text.startswith("/")


def _step_back(kept: list[str], pattern: str) -> None:
    if not kept:
        raise _refusal(
            f"The scope {pattern!r} leads out of the repository by `..`.",
            "Name a path inside the repository.",
        )
    if not _GLOB.isdisjoint(kept[-1]):
        raise _refusal(
            f"The scope {pattern!r} steps back with `..` over {kept[-1]!r}, which can stand for many directories.",
            "Write the scope without `..`.",
        )
    kept.pop()


def _folded(segment: str) -> str:
    """The segment without difference of case, one character for one, so that `?` and classes keep their meaning."""
    if _is_doubtful(segment):
        # The folded ends of a range such as `A-z` would no longer tell what lay between them.
        return "**" if "**" in segment else "*"
    folded = (fold if len(fold := character.casefold()) == 1 else character.lower()[0] for character in segment)
    return unicodedata.normalize("NFC", "".join(folded))


def _below(top: list[str] | None, segments: list[str], pattern: str) -> list[str]:
    """The segments of an absolute pattern from the top of the repository on."""
    hint = "Write the path from the root of the repository, such as `src/app.py`."
    if top is None:
        raise _refusal(f"The scope {pattern!r} is an absolute path, and where the repository lies is not known.", hint)
    if segments[: len(top)] != top:
        raise _refusal(f"The scope {pattern!r} is an absolute path outside the repository.", hint)
    return segments[len(top) :]


def _refusal(message: str, hint: str) -> InvalidInput:
    return InvalidInput(message, hint=hint, field="scopes")


# --- the steps of `overlaps` and `matches` --------------------------------------------------------------------------
#
# Both questions are the same at two levels: a pattern is a row of segments among which `**` stands for any number, a
# segment is a row of characters among which `*` does. Two such rows meet when one text can be read by both.


def _meet(left: Sequence[T | None], right: Sequence[T | None], agree: Callable[[T, T], bool]) -> bool:
    """Whether two rows, in which None stands for any number of items, can stand for the same items.

    Cell [i][j] of the table says whether the first i of `left` and the first j of `right` can. A None next to
    anything either stands for nothing more, or takes in the other side's item and stays: both ways, one side moves on.
    Two plain items must agree, and both sides move on. Only the last line of the table is kept.
    """
    line = [True]
    for theirs in right:
        line.append(line[-1] and theirs is None)
    for ours in left:
        above, line = line, [line[0] and ours is None]
        for j, theirs in enumerate(right):
            if ours is None or theirs is None:
                line.append(line[j] or above[j + 1])
            else:
                line.append(above[j] and agree(ours, theirs))
        if True not in line:
            return False
    return line[-1]


@lru_cache(1024)
def _covered(pattern: str) -> tuple[str | None, ...]:
    """The segments of a pattern, None for `**`, and one more None for everything below what it matches."""
    return (*(part for segment in _split(pattern) for part in _spread(segment)), None)


def _split(pattern: str) -> list[str]:
    return [] if pattern == ROOT else pattern.split("/")


def _spread(segment: str) -> Iterable[str | None]:
    """A segment with `**` in it as several. With text on both sides, what follows is dropped: wider, so safe."""
    segment = re.sub(_CLASS, lambda found: re.sub(r"\*+", "*", found[0]), segment)
    if "**" not in segment:
        return [segment]
    head, tail = re.split(r"\*\*+", segment, maxsplit=1)
    if head:
        return [head + "*", None]
    return [None, *_spread("*" + tail)] if tail else [None]


@lru_cache(4096)  # the same few segments stand in most patterns
def _share_a_name(a: str, b: str) -> bool:
    if a == b:
        return True
    if _GLOB.isdisjoint(a) and _GLOB.isdisjoint(b):
        return False
    return any(_read_alike(ours, theirs) for ours in _readings(a) for theirs in _readings(b))


def _admits(segment: str, name: str) -> bool:
    as_it_is: Reading = [_exactly(character) for character in name]
    return any(_read_alike(reading, as_it_is) for reading in _readings(segment))


def _read_alike(left: Reading, right: Reading) -> bool:
    """What `_meet` says of two rows of characters; here a line of its table is the bits of a number."""
    end = 1 << len(right)
    places: dict[Characters | None, int] = {}
    for j, theirs in enumerate(right):
        places[theirs] = places.get(theirs, 0) | 1 << j
    stars = places.pop(None, 0)
    ranges = {theirs: where for theirs, where in places.items() if theirs and not _is_one(theirs)}
    agreeing: dict[Characters, int] = {}
    line = _on(1, stars)
    for ours in left:
        if ours is None:
            line = (end << 1) - (line & -line)  # from the first that can on, all can
        else:
            if ours not in agreeing:
                some = ranges if _is_one(ours) else places
                agreeing[ours] = places.get(ours, 0)
                for theirs, where in some.items():
                    if theirs is not None and _share_a_character(ours, theirs):
                        agreeing[ours] |= where
            line = _on((line & agreeing[ours]) << 1 | line & stars, stars)
        if not line:
            return False
    return bool(line & end)


def _on(line: int, stars: int) -> int:
    """The same, with what stands for nothing passed."""
    while (more := line | (line & stars) << 1) != line:
        line = more
    return line


def _is_one(characters: Characters) -> bool:
    return len(characters) == 1 and characters[0][0] == characters[0][1]


def _share_a_character(a: Characters, b: Characters) -> bool:
    return any(first <= end and start <= last for first, last in a for start, end in b)


@lru_cache(1024)
def _readings(segment: str) -> list[Reading]:
    """What a segment may mean: its classes as plain text, and as classes; in doubt, any name."""
    plain = [_place(character) for character in segment]
    classes = list(re.finditer(_CLASS, segment))
    if not classes:
        return [plain]
    if _is_doubtful(segment):
        return [[None]]
    reading: Reading = []
    done = 0
    for found in classes:
        reading += [*plain[done : found.start()], _members(found)]
        done = found.end()
    return [plain, reading + plain[done:]]


def _place(character: str) -> Characters | None:
    if character == "*":
        return None
    return _ANY_CHARACTER if character == "?" else _exactly(character)


def _exactly(character: str) -> Characters:
    return ((ord(character), ord(character)),)


def _is_doubtful(segment: str) -> bool:
    """Whether a class in it is read differently by different tools, locales or letter cases, or costs much."""
    for count, found in enumerate(re.finditer(_CLASS, segment), 1):
        members = found["members"]
        if count > CLASSES_MAX or len(members) > CLASS_LENGTH_MAX:
            return True
        if any(opening in members for opening in ("[:", "[.", "[=")):
            return True
        if any(last and not _is_plain_range(first, last) for first, last, _ in re.findall(_MEMBER, members)):
            return True
    return False


def _is_plain_range(first: str, last: str) -> bool:
    return first <= last and any(first in row and last in row for row in _RUNS)


def _members(found: re.Match[str]) -> Characters:
    members = re.findall(_MEMBER, found["members"])
    ranges = [(ord(first or one), ord(last or one)) for first, last, one in members]
    return _all_but(ranges) if found["negated"] else tuple(ranges)


def _all_but(ranges: list[tuple[int, int]]) -> Characters:
    gaps = []
    start = 0
    for first, last in sorted(ranges):
        if start < first:
            gaps.append((start, first - 1))
        start = max(start, last + 1)
    return (*gaps, (start, 0x10FFFF))
