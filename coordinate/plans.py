"""Plan files: markdown, JSON or JSONL read into planned tasks, and their lint. No database: nothing here dispatches.

Promised: a plan is read wholly or not at all, no entry is skipped in silence, and all that is wrong with a file is
told at once. The caller turns planned tasks into tasks, in one transaction, after `order_of` has accepted them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from graphlib import CycleError, TopologicalSorter
from itertools import chain, dropwhile, islice
from typing import Any, NoReturn

from coordinate.errors import Fact, InvalidInput

PLAN_BYTES_MAX = 1 << 20
TASKS_MAX = 10_000
TITLE_MAX = 500
BODY_MAX = 100_000
NAME_MAX = 100
PATTERN_MAX = 1_000
DEDUP_KEY_MAX = 200
ATTEMPTS_MAX = 1_000
LIST_MAX = 1_000
PROBLEMS_MAX = 100
ISSUES_MAX = 1_000

_USUAL_ROLES = ("manager", "worker", "reviewer")
_TITLE_LONG = 120


@dataclass(frozen=True, slots=True)
class PlannedTask:
    """A task as the plan has it. `depends_on` holds local keys and ids of existing tasks; `line` is where it began."""

    key: str
    title: str
    role: str = "worker"
    priority: int = 100
    project: str = ""
    body: str = ""
    depends_on: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    not_before: datetime | None = None
    dedup_key: str | None = None
    max_attempts: int | None = None
    line: int = 0


@dataclass(frozen=True, slots=True)
class LintIssue:
    """What lint says of one task (its local key, else its title); `severity` is `error` or `warn`, `line` 0 unknown."""

    task_id: str
    severity: str
    message: str
    line: int = 0


def parse_plan(text: str, *, source: str = "plan") -> list[PlannedTask]:
    """Read a plan of at most 1 MiB and 10,000 tasks; `source` is its name in messages.

    Markdown: every heading of `##` or deeper is a task, what stands below it its body, a heading of `#` the plan's
    title. Markers in the heading are cut out of the title: `[p10]` `[role:reviewer]` `[project:api]`
    `[key:schema]` `[after:schema,TASK-4]` `[scope:src/api/**]`. What is no valid marker stays in the title, and
    `lint_plan` says why. Without `[key:…]` the local key is the title's slug, where one task alone has it.

    JSON: an array of objects, an object with `tasks`, one object, or one object a line. Keys: title, role (or
    role_boundary), priority, project, body, key, depends_on and scopes (a list, or text with commas), not_before
    (RFC 3339 with its offset), dedup_key, max_attempts. `null` means "not given".

    Raises InvalidInput with the first problem as its message and up to 100 in `problems` (line, task, message).
    """
    problems = _Problems(source)
    entries = _entries(_readable(text, problems), problems)
    if len(entries) > TASKS_MAX:
        problems.refuse(f"{len(entries):,} tasks; a plan holds at most {TASKS_MAX:,}", hint="Split the plan.")
    tasks = [_planned(entry, line, number, problems) for number, (line, entry) in enumerate(entries, 1)]
    if problems.found and not problems.fields & {"key", "title", "depends_on"}:
        # The author mends all in one go; only where the names themselves are in doubt would this be guessing.
        problems.add_faults(tasks)
    problems.raise_any()
    if not tasks:
        problems.refuse("no task in it", hint=_SHAPES)
    return tasks


def order_of(tasks: Sequence[PlannedTask]) -> list[PlannedTask]:
    """The tasks in the plan's order, a dependency named twice kept once; a dependency may name a later task.

    Raises InvalidInput (shaped as by `parse_plan`) for a local key used twice, a dependency on a local key that no
    task has, a task that waits for itself, and tasks that wait for each other in a circle.
    """
    problems = _Problems("plan")
    problems.add_faults(tasks)
    problems.raise_any()
    return [
        replace(task, depends_on=tuple(dict.fromkeys(task.depends_on))) if task.depends_on else task for task in tasks
    ]


def lint_plan(tasks: Sequence[PlannedTask]) -> list[LintIssue]:
    """What `dispatch_plan` would refuse, as errors, then warnings of what is hardly meant; 1,000 at most."""
    errors = (LintIssue(_name_of(task), "error", message, task.line) for task, _, message in _faults(tasks))
    warnings = (LintIssue(_name_of(task), "warn", message, task.line) for task, message in _doubts(tasks))
    return list(islice(chain(errors, warnings), ISSUES_MAX))


def ids_in(tasks: Sequence[PlannedTask]) -> dict[str, list[PlannedTask]]:
    """The ids of existing tasks that a plan names, each with the tasks that wait for it."""
    found: dict[str, list[PlannedTask]] = {}
    for task in tasks:
        for name in dict.fromkeys(task.depends_on):
            if _is_id(name):
                found.setdefault(name, []).append(task)
    return found


def lint_ids(named: dict[str, list[PlannedTask]], status_of: Callable[[str], str | None]) -> list[LintIssue]:
    """What a board says of them: `status_of` answers where a task stands, or None when there is none."""
    issues: list[LintIssue] = []
    for name, tasks in islice(named.items(), ISSUES_MAX):
        status = status_of(name)
        if status is not None and status != "CANCELLED":
            continue
        wrong = "which does not exist" if status is None else "which is CANCELLED: it would never become ready"
        issues += [LintIssue(_name_of(task), "error", f"it waits for {name}, {wrong}", task.line) for task in tasks]
    return issues[:ISSUES_MAX]


@dataclass(frozen=True, slots=True)
class _Problem:
    line: int
    task: str
    message: str
    field: str
    hint: str


class _Problems:
    """What is wrong with one plan, collected, so that its author mends it in one go."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.found: list[_Problem] = []

    def add(self, message: str, *, line: int = 0, task: str = "", field: str = "plan", hint: str = "") -> None:
        self.found.append(_Problem(line, task, message, field, hint))
        if len(self.found) == PROBLEMS_MAX:
            self.raise_any()

    def add_faults(self, tasks: Sequence[PlannedTask]) -> None:
        for task, field, message in _faults(tasks):
            self.add(message, line=task.line, task=_name_of(task), field=field, hint=_NAMES)

    @property
    def fields(self) -> set[str]:
        return {problem.field for problem in self.found}

    def refuse(self, message: str, *, line: int = 0, hint: str = "") -> NoReturn:
        self.add(message, line=line, hint=hint)
        raise self.error()

    def raise_any(self) -> None:
        if self.found:
            raise self.error()

    def error(self) -> InvalidInput:
        found = sorted(self.found, key=lambda problem: problem.line)
        first = found[0]
        place = f"{self.source}:{first.line}" if first.line else self.source
        told: list[dict[str, Fact]] = [{"line": it.line, "task": it.task, "message": it.message} for it in found]
        many = f"Mend the {len(found)} in `problems`; nothing was taken from the plan."
        return InvalidInput(
            ": ".join(part for part in (place, first.task, first.message) if part),
            hint=first.hint or (many if len(found) > 1 else "Nothing was taken from the plan."),
            field=first.field,
            line=first.line,
            problems=told,
        )


class _FieldError(Exception):
    """A value that a field or a marker does not take; the text goes on after the field's name."""


# --- From text to entries: the line where one begins, and its keys and values ---------------------------------------


@dataclass(frozen=True, slots=True)
class _Object:
    """A JSON object, or a heading, as pairs: a dict would hide that a key was given twice."""

    pairs: list[tuple[str, object]]


_Entries = list[tuple[int, object]]

_SHAPES = (
    "A plan is markdown with a heading such as `## [p10] Build the API` for each task, a JSON array of objects "
    "(which may be the `tasks` of an object), or one JSON object on each line."
)
_NAMES = (
    "A dependency names the key of a task in the plan (in markdown its `[key:…]`, or without one the slug of a title "
    "that no other task has), or an existing task such as TASK-4."
)
_NOT_TEXT = re.compile("[\0\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_JSON_START = re.compile(r'\s*(?:\[\s*)?\{\s*["}]')
_HEADING = re.compile(r" {0,3}##+(.*)")


def _readable(text: str, problems: _Problems) -> str:
    # Characters are counted first: whoever sends a gigabyte does not get it encoded as well.
    if len(text) > PLAN_BYTES_MAX or len(text.encode("utf-8", "surrogatepass")) > PLAN_BYTES_MAX:
        problems.refuse("the plan is longer than 1 MiB", hint="Split the plan.")
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if found := _NOT_TEXT.search(text):
        problems.refuse("NUL or half a surrogate pair is not text", line=text.count("\n", 0, found.start()) + 1)
    return text


def _entries(text: str, problems: _Problems) -> _Entries:
    # Markdown too may begin with a bracket (a badge, a checkbox), so short of a clear start the headings decide. The
    # other way round, a JSON file with a mistake in it must not turn into tasks because of a `##` somewhere.
    lines = text.split("\n")
    if not _JSON_START.match(text) and (
        not text.lstrip().startswith(("[", "{")) or any(_HEADING.match(line) for line in lines)
    ):
        return _from_markdown(lines, problems)
    try:
        return _from_json(text, problems)
    except ValueError as wrong:
        filled = [line.strip() for line in lines if line.strip()]
        if len(filled) > 1 and filled[0].startswith("{") and filled[0].endswith("}"):
            return _from_json_lines(lines, problems)
        problems.refuse(f"this is not JSON: {wrong}", line=getattr(wrong, "lineno", 0), hint=_SHAPES)


def _from_json(text: str, problems: _Problems) -> _Entries:
    whole = _decoded(text)
    depth = 0
    if isinstance(whole, _Object) and any(key == "tasks" for key, _ in whole.pairs):
        for key, _ in whole.pairs:
            if key != "tasks":
                problems.add(f"unknown key {_quoted(key)} beside `tasks`", field=_printable(key))
        lists = [value for key, value in whole.pairs if key == "tasks"]
        if len(lists) > 1:
            problems.refuse("the key `tasks` is given twice")
        whole = lists[0]
        if not isinstance(whole, list):
            problems.refuse(f"`tasks` must be a list, not {_kind(whole)}")
        depth = 1
    entries, depth = (whole, depth + 1) if isinstance(whole, list) else ([whole], depth)
    lines = iter(_object_lines(text, depth))
    return [(next(lines, 0) if isinstance(entry, _Object) else 0, entry) for entry in entries]


def _decoded(text: str) -> Any:
    # NaN and Infinity need no care: they come out as floats, which no field takes, and are refused with their place.
    try:
        return json.loads(text, object_pairs_hook=_Object)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _object_lines(text: str, depth: int) -> list[int]:
    """The line on which each object at this depth of a valid JSON text begins; the decoder does not tell."""
    lines, line, level = [], 1, 0
    for token in re.finditer(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}\n]', text):
        match token[0]:
            case "\n":
                line += 1
            case "{" | "[":
                if token[0] == "{" and level == depth:
                    lines.append(line)
                level += 1
            case "}" | "]":
                level -= 1
    return lines


def _from_json_lines(lines: list[str], problems: _Problems) -> _Entries:
    entries: _Entries = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entries.append((number, _decoded(line)))
            except ValueError as wrong:
                problems.add(f"this line is not JSON: {getattr(wrong, 'msg', wrong)}", line=number, hint=_SHAPES)
    return entries


def _from_markdown(lines: list[str], problems: _Problems) -> _Entries:
    found = list(_task_headings(lines, problems))
    starts = [start for start, _ in found]
    headings = [_without_markers(heading) for _, heading in found]
    taken = {heading["key"] for heading in headings if "key" in heading}
    slugs = Counter(slug_of(heading["title"]) for heading in headings if "key" not in heading)
    ends = [*starts, len(lines)][1:]
    for start, end, heading in zip(starts, ends, headings, strict=True):
        slug = slug_of(heading["title"])
        if slug and slugs[slug] == 1 and slug not in taken:
            heading.setdefault("key", slug)
        # Only blank lines go: the first line's indent may be what makes it code.
        heading["body"] = "\n".join(dropwhile(lambda line: not line.strip(), lines[start + 1 : end])).rstrip()
    return [(start + 1, _Object(list(heading.items()))) for start, heading in zip(starts, headings, strict=True)]


def _task_headings(lines: list[str], problems: _Problems) -> Iterator[tuple[int, str]]:
    """Where tasks begin, and the heading's text. In a code block or a comment, what looks like a heading is none."""
    opened, indent, opened_at = "", 0, 0
    for index, line in enumerate(lines):
        if opened == "<!--":
            opened = "" if "-->" in line else opened
        elif opened:
            mark = line.strip()
            closes = mark.startswith(opened) and not mark.strip(opened[0]) and _indent(line) <= indent + 3
            opened = "" if closes else opened
        elif heading := _HEADING.match(line):
            yield index, _without_closing(heading[1])
        elif fence := _FENCE.match(line):
            opened, indent, opened_at = fence["mark"], fence.start("mark"), index + 1
        elif line.lstrip().startswith("<!--") and _indent(line) <= 3 and "-->" not in line:
            opened, opened_at = "<!--", index + 1
    if opened:
        # Read as markdown has it, an open block would swallow every task that follows.
        what = "comment" if opened == "<!--" else "code block"
        problems.add(f"the {what} that opens here is never closed", line=opened_at)


# The fence of a code block, which may be the first thing in a list item. Between backticks it is inline code.
_FENCE = re.compile(r"[ \t]*(?:(?:[-*+]|[0-9]{1,9}[.)])[ \t]+)*(?P<mark>`{3,}(?=[^`]*$)|~{3,})")


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _without_closing(heading: str) -> str:
    """`Title ##` is `Title`, but `C#` is `C#`."""
    trimmed = heading.rstrip()
    bare = trimmed.rstrip("#")
    return bare if not bare or bare[-1].isspace() else trimmed


def _without_markers(heading: str) -> dict[str, Any]:
    """The heading's title, and what the markers in it say."""
    said: dict[str, Any] = {}

    def cut(found: re.Match[str]) -> str:
        if found["code"]:
            return found[0]
        try:
            field, value = _marker(found)
        except _FieldError:
            return found[0]
        if isinstance(value, tuple):
            said.setdefault(field, []).extend(value)
        elif field in said:
            return found[0]
        else:
            said[field] = value
        return ""

    title = _MARKER.sub(cut, heading)
    return {**said, "title": " ".join(title.split())}


# Inline code comes first, so that a marker in it is text; a marker followed by `(` is a link. A value may hold one
# pair of brackets, for patterns such as `src/[ab]/**`.
_MARKER = re.compile(
    r"(?P<code>`[^`]*`)|\[(?:[pP](?P<priority>-?[0-9]{1,9})|(?P<name>[A-Za-z_]+):(?P<value>(?:[^][]|\[[^][]*\])*))\](?!\()"
)
_MARKER_FIELDS = {"role": "role", "project": "project", "key": "key", "after": "depends_on", "scope": "scopes"}


def _marker(found: re.Match[str]) -> tuple[str, object]:
    if found["priority"]:
        return "priority", _FIELDS["priority"](int(found["priority"]))
    field = _MARKER_FIELDS.get(found["name"].lower())
    if field is None:
        raise _FieldError(f"is no known marker{_meant(found['name'].lower(), _MARKER_FIELDS)}")
    value = _FIELDS[field](found["value"])
    if not value:
        raise _FieldError("is empty")
    return field, value


def slug_of(title: str) -> str:
    """The local key of a markdown task that names none, where no other has it."""
    return re.sub(r"[\W_]+", "-", title.casefold())[:NAME_MAX].strip("-")


# --- From an entry to a planned task ---------------------------------------------------------------------------------


def _planned(entry: object, line: int, number: int, problems: _Problems) -> PlannedTask:
    if not isinstance(entry, _Object):
        problems.add(f"must be an object, not {_kind(entry)}", line=line, task=f"entry {number}")
        return PlannedTask("", "", line=line)
    given = dict(entry.pairs)
    title = given.get("title")
    name = _printable(title.strip() if isinstance(title, str) else "") or f"entry {number}"
    values: dict[str, Any] = {"key": "", "title": ""}
    seen = set()
    for key, value in entry.pairs:
        field = "role" if key == "role_boundary" else key
        wrong = ""
        if field not in _FIELDS:
            wrong = f"is no key of a task{_meant(key, _FIELDS)}; the keys are {', '.join(_FIELDS)}"
        elif field in seen:
            wrong = "is given twice" + (" (role_boundary is another word for role)" if field == "role" else "")
        elif value is not None:
            try:
                values[field] = _FIELDS[field](value)
            except _FieldError as error:
                wrong = str(error)
        seen.add(field)
        if wrong:
            shown = key if field in _FIELDS else _quoted(key)
            problems.add(f"{shown} {wrong}", line=line, task=name, field=_printable(field))
    if title is None:
        problems.add("the title is missing", line=line, task=name, field="title")
    return PlannedTask(**values, line=line)


def _line(value: object, longest: int) -> str:
    line = _text(value.strip() if isinstance(value, str) else value, longest)
    if not line:
        raise _FieldError("must not be blank")
    if _CONTROL.search(line):
        raise _FieldError("must be one line without control characters")
    return line


def _text(value: object, longest: int) -> str:
    if not isinstance(value, str):
        raise _FieldError(f"must be text, not {_kind(value)}")
    if len(value) > longest:
        raise _FieldError(f"is {len(value):,} characters long; at most {longest:,} are allowed")
    if _NOT_TEXT.search(value):
        raise _FieldError("must not contain NUL or half a surrogate pair")
    return value


def _integer(value: object, lowest: int, highest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not lowest <= value <= highest:
        raise _FieldError(f"must be a whole number from {lowest:,} to {highest:,}, not {_kind(value)}")
    return value


def _key(value: object) -> str:
    key = _line(value, NAME_MAX)
    if "," in key or _is_id(key):
        raise _FieldError("must be a local name: without commas, and not of the form TASK-12")
    return key


def _list(value: object, longest: int) -> tuple[str, ...]:
    if isinstance(value, str):
        # The commas of `src/{a,b}` separate nothing; cut there, it would become two other patterns in silence.
        value = [value] if "{" in value else value.split(",")
        value = [part for part in value if part.strip()]
    if not isinstance(value, list):
        raise _FieldError(f"must be a list of texts, not {_kind(value)}")
    if len(value) > LIST_MAX:
        raise _FieldError(f"has {len(value):,} entries; at most {LIST_MAX:,} are allowed")
    try:
        return tuple(_line(part, longest) for part in value)
    except _FieldError as wrong:
        raise _FieldError(f"has an entry that {wrong}") from None


def _moment(value: object) -> datetime:
    text = _line(value, NAME_MAX).upper()
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9:]{5})?", text):
        raise _FieldError("must be a time such as 2030-01-31T09:00:00Z")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise _FieldError("is no time that exists") from None
    if moment.tzinfo is None:
        raise _FieldError("must say its time zone: add Z, or an offset such as +02:00")
    # In the first and the last year of the calendar, an offset could lead out of it.
    if not 1 < moment.year < 9999 or not 1970 <= moment.astimezone(UTC).year <= 9998:
        raise _FieldError("must lie between the years 1970 and 9998")
    return moment.astimezone(UTC)


_FIELDS: dict[str, Callable[[object], Any]] = {
    "title": lambda value: _line(value, TITLE_MAX),
    "role": lambda value: _line(value, NAME_MAX),
    "priority": lambda value: _integer(value, 0, 999),
    "project": lambda value: _line(value, NAME_MAX),
    "body": lambda value: _text(value, BODY_MAX),
    "key": _key,
    "depends_on": lambda value: _list(value, NAME_MAX),
    "scopes": lambda value: _list(value, PATTERN_MAX),
    "not_before": _moment,
    "dedup_key": lambda value: _line(value, DEDUP_KEY_MAX),
    "max_attempts": lambda value: _integer(value, 1, ATTEMPTS_MAX),
}


# --- What is wrong, or doubtful, between tasks -----------------------------------------------------------------------


def _faults(tasks: Sequence[PlannedTask]) -> Iterator[tuple[PlannedTask, str, str]]:
    """Task, field and message of what cannot be dispatched; at most PROBLEMS_MAX, for each may cost a long search."""
    by_key: dict[str, PlannedTask] = {}
    for task in tasks:
        if task.key:
            by_key.setdefault(task.key, task)
    yield from islice(chain(_bad_names(tasks, by_key), _circles(by_key)), PROBLEMS_MAX)


def _bad_names(tasks: Sequence[PlannedTask], by_key: dict[str, PlannedTask]) -> Iterator[tuple[PlannedTask, str, str]]:
    seen: set[str] = set()
    for task in tasks:
        if task.key in seen:
            first = by_key[task.key]
            yield task, "key", f"the key {_quoted(task.key)} is already that of {_quoted(first.title)}{_at(first)}"
        if task.key:
            seen.add(task.key)
        for name in dict.fromkeys(task.depends_on):
            if task.key and name == task.key:
                yield task, "depends_on", "it waits for itself"
            elif name not in by_key and not _is_id(name):
                nearest = _nearest(name, by_key)
                yield task, "depends_on", f"it waits for {_quoted(name)}, which is the key of no task{nearest}"


def _nearest(name: str, by_key: dict[str, PlannedTask]) -> str:
    if _is_id(name.upper()):
        return f"; the id of a task is written {name.upper()}"
    # The slug is compared, so that a title finds its key; 200 keys, because that many take some ten milliseconds.
    return _meant(slug_of(name), islice(by_key, 200))


def _circles(by_key: dict[str, PlannedTask]) -> Iterator[tuple[PlannedTask, str, str]]:
    if not any(task.depends_on for task in by_key.values()):
        return
    waits_for = {
        key: [name for name in task.depends_on if name in by_key and name != key] for key, task in by_key.items()
    }
    # Each look finds one circle, which is then taken out. Ten are enough to go on with.
    for _ in range(10):
        try:
            TopologicalSorter(waits_for).prepare()
        except CycleError as found:
            circle: list[str] = found.args[1][::-1]
            shown = circle if len(circle) <= 10 else [*circle[:5], f"… {len(circle) - 7:,} more …", *circle[-2:]]
            yield by_key[circle[0]], "depends_on", f"tasks wait for each other in a circle: {' → '.join(shown)}"
            for key in circle:
                waits_for.pop(key, None)
        else:
            return


def _doubts(tasks: Sequence[PlannedTask]) -> Iterator[tuple[PlannedTask, str]]:
    by_title: dict[str, PlannedTask] = {}
    for task in tasks:
        if first := by_title.get(task.title.casefold()):
            yield task, f"it has the same title as an earlier task{_at(first)}"
        by_title.setdefault(task.title.casefold(), task)
        if len(task.title) > _TITLE_LONG:
            yield task, f"the title is {len(task.title)} characters long; details belong in the body"
        if task.role not in _USUAL_ROLES and (meant := _meant(task.role.casefold(), _USUAL_ROLES, 0.8)):
            yield task, f"only agents of the role {_quoted(task.role)} will take it{meant}"
        for found in _MARKER.finditer(task.title):
            if found["code"]:
                continue
            try:
                _marker(found)
            except _FieldError as wrong:
                yield task, f"{_quoted(found[0])} stays in the title: it {wrong}"
            else:
                yield task, f"{_quoted(found[0])} stays in the title: it counts in a markdown heading only, and once"


# --- Words -----------------------------------------------------------------------------------------------------------


def _is_id(name: str) -> bool:
    return re.fullmatch(r"TASK-[1-9][0-9]{0,17}", name) is not None


def _name_of(task: PlannedTask) -> str:
    return task.key or task.title


def _at(task: PlannedTask) -> str:
    return f" (line {task.line})" if task.line else ""


def _meant(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    near = get_close_matches(word[:NAME_MAX], list(known), n=1, cutoff=cutoff)
    return f"; did you mean {near[0]!r}?" if near else ""


def _quoted(text: str) -> str:
    return repr(_short(text))


def _printable(text: str) -> str:
    """Safe in a message: half a surrogate pair, above all, cannot be written out."""
    return "".join(letter if letter.isprintable() else "?" for letter in _short(text))


def _short(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


def _kind(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case int() | float():
            return _short(str(value))
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "an object"
