"""Making a board of the kanban tool fit our rules: every row is repaired or left out, and each such thing is told.

The board is read row by row and written, tidied, into a private file from which an adoption then takes it; so nothing
is ever held in memory as a whole, and the target's transaction is short. What counts as fit is said in `inputs.py`.
"""

from __future__ import annotations

import json
import re
import sqlite3
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from coordinate import events, inputs
from coordinate.errors import InvalidInput
from coordinate.records import Finding
from coordinate.states import BLOCKED, CANCELLED, DONE, IN_PROGRESS, IN_REVIEW, NOTE_TYPES, STATUSES, TODO
from coordinate.work import kanban

LISTED_MAX = 50
BATCH = 250
# A number beyond this was never minted by counting; it is treated like any other id that is no id.
NUMBER_MAX = 1_000_000_000_000_000
# Written as JSON, a character takes at most six.
RAW_MAX = inputs.PAYLOAD_MAX // 8
EPOCH_SECONDS = (100_000_000, 100_000_000_000)

TABLES = ("tasks", "task_dependencies", "attempts", "notes", "history", "events")
_TASK_ID = re.compile(r"\s*TASK-0*([1-9][0-9]{0,15})\s*", re.IGNORECASE)
_ID_IN_PAYLOAD = re.compile(r'"task_id"\s*:\s*"TASK-0*([1-9][0-9]{0,15})"')
_FORBIDDEN = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# What the tool and its driver wrote over time, such as 2026-06-01 09:00:00.123 +0000 UTC m=+0.01.
_TIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?))?"
    r"\s*(?:(Z|[+-]\d{2}:?\d{2})(?: [A-Z]{1,5}| [+-]\d{2,4})?| ?UTC| ?GMT)?(?: m=\S+)?"
)

_SCHEMA = """
CREATE TABLE numbers (old TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE tasks (
    number INTEGER PRIMARY KEY, title TEXT, body TEXT, status TEXT, role TEXT, project TEXT, priority INTEGER,
    holder TEXT, lease_until TEXT, claimed_by TEXT, created_at TEXT, updated_at TEXT, waits TEXT, former_status TEXT,
    attempt INTEGER DEFAULT 0, rejected_attempt INTEGER DEFAULT 0
);
CREATE TABLE edges (number INTEGER, depends_on INTEGER, PRIMARY KEY (number, depends_on)) WITHOUT ROWID;
CREATE TABLE attempts (
    number INTEGER, attempt INTEGER, agent TEXT, started_at TEXT, ended_at TEXT, outcome TEXT, reason TEXT
);
CREATE TABLE notes (
    place INTEGER PRIMARY KEY, number INTEGER, author TEXT, note_type TEXT, content TEXT, created_at TEXT
);
CREATE TABLE history (
    place INTEGER PRIMARY KEY, number INTEGER, agent TEXT, receiver TEXT, action TEXT, attempt INTEGER, detail TEXT,
    created_at TEXT
);
CREATE TABLE events (
    place INTEGER PRIMARY KEY, created_at TEXT, event_type TEXT, payload TEXT, ttl_seconds INTEGER, project TEXT,
    agent TEXT, ref TEXT
);
CREATE INDEX history_of ON history (number, place);
"""


@dataclass(slots=True)
class Findings:
    """What was repaired or left out: at most fifty listed of each kind, and all of them counted."""

    repairs: list[Finding] = field(default_factory=list)
    left_out: list[Finding] = field(default_factory=list)
    repairs_total: int = 0
    left_out_total: int = 0
    kinds: Counter[str] = field(default_factory=Counter)

    def repaired(self, table: str, row_id: object, what: str, value: object, done: str) -> None:
        self.repairs_total += 1
        self._list(self.repairs, table, row_id, what, value, done)

    def dropped(self, table: str, row_id: object, what: str, value: object) -> None:
        self.left_out_total += 1
        self._list(self.left_out, table, row_id, what, value, "left out")

    def _list(self, listed: list[Finding], table: str, row_id: object, what: str, value: object, done: str) -> None:
        kind = f"{table}: {what}"
        self.kinds[kind] += 1
        if self.kinds[kind] <= LISTED_MAX:
            listed.append(Finding(table, _shown(row_id), what, _shown(value), done))


class Tidied:
    """A board ready to be taken over, in a private file; each list is read row by row, as often as it is needed."""

    def __init__(self, source: Path, connection: sqlite3.Connection) -> None:
        self.source = str(source)
        self.findings = Findings()
        self.found: dict[str, int] = dict.fromkeys(TABLES, 0)
        del self.found["attempts"]  # the source knows none: they are told by its history
        self.last_id: dict[str, int] = {}
        self.highest = 0
        self.connection = connection
        connection.executescript(_SCHEMA)

    def rows(self, query: str, *values: object) -> Iterator[sqlite3.Row]:
        yield from self.connection.execute(query, values)

    def has(self, query: str, *values: object) -> bool:
        return self.connection.execute(query, values).fetchone() is not None

    def count(self, table: str) -> int:
        return int(self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@contextmanager
def tidied(source: Path) -> Iterator[Tidied]:
    """The board at `source`, tidied; the file is only read. Raises as `kanban.opened`."""
    with (
        TemporaryDirectory(prefix="coordinate-tidied-") as folder,
        closing(sqlite3.connect(Path(folder) / "tidied.db", isolation_level=None)) as connection,
    ):
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("PRAGMA synchronous = OFF")
        into = Tidied(source, connection)
        with kanban.opened(source) as board:
            _Tidying(board, into).everything()
        yield into


def batches(rows: Iterable[Any]) -> Iterator[list[Any]]:
    """The same rows, a bounded number at a time."""
    remaining = iter(rows)
    while batch := list(islice(remaining, BATCH)):
        yield batch


# --- the board, table by table ----------------------------------------------------------------------------------------


class _Tidying:
    """One pass over a board. The order matters: numbers first, then who names them, then what follows from both."""

    def __init__(self, board: kanban.Kanban, into: Tidied) -> None:
        self.board = board
        self.into = into
        self.findings = into.findings

    def everything(self) -> None:
        self.into.connection.execute("BEGIN")
        for table in ("notes", "history", "events"):
            self.into.last_id[table] = self._plausible("sqlite_sequence", table, self.board.last_id(table))
        self.into.highest = self._highest_used()
        self._write("tasks", self._tasks(exact=True))
        self._write("tasks", self._tasks(exact=False))
        self._edges_of_table()
        self._edges_of_texts()
        self._leave_out_circles()
        self._write("notes", self._notes())
        self._write("notes", self._notes_on_unknown_statuses())
        self._write("history", self._history())
        self._write("events", self._events())
        self._write("attempts", self._attempts())
        self.into.connection.execute("COMMIT")

    def _write(self, table: str, rows: Iterator[dict[str, Any]]) -> None:
        """Row by row, so that each row sees those before it."""
        for row in rows:
            marks = ", ".join(f":{name}" for name in row)
            self.into.connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", row)

    # numbers

    def _highest_used(self) -> int:
        """The highest number that any task ever had, also one that is gone."""
        highest = 0
        for table, column in (("tasks", "id"), ("notes", "task_id"), ("history", "task_id")):
            for row in self.board.rows(table, (column,)):
                highest = max(highest, _number(row[column]) or 0)
        for row in self.board.rows("events", ("payload",)):
            found = _ID_IN_PAYLOAD.search(_decoded(row["payload"]))
            highest = max(highest, int(found.group(1)) if found and int(found.group(1)) < NUMBER_MAX else 0)
        minted = tuple(name for name in self.board.columns("task_seq") if name != "id")
        for row in self.board.rows("task_seq", minted) if minted else ():
            for value in row.values():
                highest = max(highest, self._plausible("task_seq", "", value))
        return highest

    def _plausible(self, table: str, row_id: str, value: object) -> int:
        if isinstance(value, int) and 0 <= value < NUMBER_MAX:
            return value
        self.findings.dropped(table, row_id, "no number that counting could have reached", value)
        return 0

    def _known(self, raw: object) -> int | None:
        """The number of the task that a row of the source names, if that task came over."""
        if raw is None:
            return None
        for query, value in (
            ("SELECT number FROM numbers WHERE old = ?", _decoded(raw)),
            ("SELECT number FROM tasks WHERE number = ?", _number(raw)),
        ):
            if value is not None and (found := self.into.connection.execute(query, (_storable(value),)).fetchone()):
                return int(found[0])
        return None

    # tasks

    def _tasks(self, *, exact: bool) -> Iterator[dict[str, Any]]:
        """Tasks whose id is written as it should be come first, so that no other can take their number."""
        wanted = ("id", "title", "status", "role_boundary", "project", "priority", "assigned_agent", "lease_until")
        has_project = "project" in self.board.columns("tasks")
        for row in self.board.rows("tasks", (*wanted, "claimed_by", "created_at", "updated_at", "depends_on")):
            number = _number(row["id"])
            if exact != (number is not None and row["id"] == f"TASK-{number}"):
                continue
            self.into.found["tasks"] += 1
            if number is None or self._is_taken(number):
                number = self._renumbered(row["id"], known=number is not None)
            elif not exact:
                self._remember(row["id"], number)
                self.findings.repaired("tasks", row["id"], "id is written otherwise", row["id"], f"is TASK-{number}")
            if not has_project:
                row["project"] = "default"
            yield self._task(number, row)

    def _is_taken(self, number: int) -> bool:
        return self.into.has("SELECT 1 FROM tasks WHERE number = ?", number)

    def _renumbered(self, raw: object, *, known: bool) -> int:
        self.into.highest += 1
        self._remember(raw, self.into.highest)
        what = "id is used twice" if known else "id is not TASK-n"
        self.findings.repaired("tasks", raw, what, raw, f"is TASK-{self.into.highest}")
        return self.into.highest

    def _remember(self, raw: object, number: int) -> None:
        if raw is not None and raw != f"TASK-{_number(raw)}":
            old = _storable(_decoded(raw))
            self.into.connection.execute("INSERT OR IGNORE INTO numbers VALUES (?, ?)", (old, number))

    def _task(self, number: int, row: kanban.Raw) -> dict[str, Any]:
        cells = _Cells(self.findings, "tasks", row["id"])
        title, body = cells.title(row["title"], f"(untitled TASK-{number})")
        status = cells.status(row["status"])
        holder = lease = None
        if row["assigned_agent"] is not None and _decoded(row["assigned_agent"]).strip():
            holder = cells.agent(row["assigned_agent"], "assigned_agent")
        if status == IN_PROGRESS and holder is None:
            status = TODO
            cells.told("IN_PROGRESS without a holder", row["assigned_agent"], "put back into the queue")
        elif status == IN_PROGRESS:
            lease = cells.lease(row["lease_until"])
        elif holder is not None:
            holder = None
            cells.told("holder of a task that is not IN_PROGRESS", row["assigned_agent"], "has no holder")
        claimed_by = row["claimed_by"]
        return {
            "number": number,
            "title": title,
            "body": body,
            "status": status or BLOCKED,
            "role": cells.name(row["role_boundary"], "role_boundary", instead="worker"),
            "project": cells.name(row["project"], "project", instead="default"),
            "priority": cells.whole(row["priority"], "priority", least=0, most=inputs.PRIORITY_MAX, instead=100),
            "holder": holder,
            "lease_until": lease,
            "claimed_by": cells.agent(claimed_by, "claimed_by") if _decoded(claimed_by).strip() else None,
            "created_at": cells.moment(row["created_at"], "created_at", "taken from its history or its last change"),
            "updated_at": cells.moment(row["updated_at"], "updated_at", "taken from created_at"),
            "waits": _storable(_decoded(row["depends_on"])) or None,
            "former_status": None if status else _storable(_shown(row["status"])),
        }

    # dependencies

    def _edges_of_table(self) -> None:
        for row in self.board.rows("task_dependencies", ("task_id", "depends_on_task_id")):
            self.into.found["task_dependencies"] += 1
            owner, raw = row["task_id"], row["depends_on_task_id"]
            number = self._known(owner)
            if number is None:
                self.findings.dropped("task_dependencies", owner, "edge of a task that does not exist", raw)
            elif (on := self._dependency("task_dependencies", owner, number, raw)) and not self._add_edge(number, on):
                self.findings.dropped("task_dependencies", owner, "dependency is named twice", raw)

    def _edges_of_texts(self) -> None:
        """The comma texts; an edge that stands in the table too is the same edge."""
        for task in self.into.rows("SELECT number, waits FROM tasks WHERE waits IS NOT NULL ORDER BY number"):
            number, shown = task["number"], f"TASK-{task['number']}"
            named: set[int] = set()
            for raw in filter(None, (part.strip() for part in task["waits"].split(","))):
                on = self._dependency("tasks", shown, number, raw)
                twice, fresh = on in named, on is not None and self._add_edge(number, on)
                if twice:
                    self.findings.dropped("tasks", shown, "dependency is named twice", raw)
                self.into.found["task_dependencies"] += on is None or twice or fresh
                named |= {on} if on else set()

    def _dependency(self, table: str, owner: object, number: int, raw: object) -> int | None:
        """The number of the task that is waited for; None when it is left out."""
        on = self._known(raw)
        if on is None:
            what = "dependency does not exist" if _number(raw) else "dependency is no task id"
            self.findings.dropped(table, owner, what, raw)
        elif on == number:
            self.findings.dropped(table, owner, "task depends on itself", raw)
            return None
        return on

    def _add_edge(self, number: int, on: int) -> bool:
        """Whether the edge is new."""
        return self.into.connection.execute("INSERT OR IGNORE INTO edges VALUES (?, ?)", (number, on)).rowcount == 1

    def _leave_out_circles(self) -> None:
        """Leave out each edge that closes a circle.

        Edges that lead to a lower number, as the tool always made them, close none among themselves. So only the
        others are looked at, one by one, against the edges that stand: all those downward and those accepted before.
        """
        connection = self.into.connection
        connection.execute("CREATE TABLE upward AS SELECT * FROM edges WHERE depends_on > number")
        connection.execute("DELETE FROM edges WHERE depends_on > number")
        reaches = (
            "WITH RECURSIVE reach (number) AS (SELECT ?1 UNION SELECT e.depends_on FROM edges e"
            " JOIN reach r ON e.number = r.number) SELECT 1 FROM reach WHERE number = ?2"
        )
        for number, on in self.into.rows("SELECT number, depends_on FROM upward ORDER BY number, depends_on"):
            if self.into.has(reaches, on, number):
                self.findings.dropped("task_dependencies", f"TASK-{number}", "edge closes a circle", f"TASK-{on}")
            else:
                connection.execute("INSERT INTO edges VALUES (?, ?)", (number, on))

    # notes, history, events

    def _notes(self) -> Iterator[dict[str, Any]]:
        for row, number, cells in self._of_tasks("notes", ("author", "note_type", "content", "created_at")):
            note = {
                "number": number,
                "author": cells.name(row["author"], "author", instead="unknown"),
                "note_type": cells.note_type(row["note_type"]),
                "created_at": cells.moment(row["created_at"], "created_at", "given the time of the adoption"),
            }
            content = cells.text(row["content"], "content")
            parts = [content[at : at + inputs.NOTE_MAX] for at in range(0, len(content), inputs.NOTE_MAX)]
            if len(parts) > 1:
                cells.told("content is too long", f"{len(content)} characters", f"split into {len(parts)} notes")
            yield from ({**note, "content": part} for part in parts or [""])

    def _notes_on_unknown_statuses(self) -> Iterator[dict[str, Any]]:
        query = "SELECT number, former_status FROM tasks WHERE former_status IS NOT NULL ORDER BY number"
        for task in self.into.rows(query):
            said = f"Adopted with a status that does not exist: {task['former_status']}. It needs a look."
            note = {"number": task["number"], "author": "system", "note_type": "SYSTEM", "created_at": None}
            yield {**note, "content": said}

    def _history(self) -> Iterator[dict[str, Any]]:
        for row, number, cells in self._of_tasks("history", ("agent", "action", "created_at")):
            action = cells.name(row["action"], "action", instead="UPDATE").upper()
            agent, receiver, detail = row["agent"], None, ""
            if action == "TRANSFER" and "→" in _decoded(agent):
                detail = cells.text(agent, "agent")
                agent, receiver = (cells.agent(name, "agent") for name in detail.split("→", 1))
            yield {
                "number": number,
                "agent": cells.name(agent, "agent", instead="unknown"),
                "receiver": receiver,
                "action": action,
                "detail": detail[: inputs.REASON_MAX],
                "created_at": cells.moment(row["created_at"], "created_at", "given the time of the adoption"),
            }

    def _of_tasks(self, table: str, wanted: tuple[str, ...]) -> Iterator[tuple[kanban.Raw, int, _Cells]]:
        for row in self.board.rows(table, ("id", "task_id", *wanted)):
            self.into.found[table] += 1
            number = self._known(row["task_id"])
            if number is None:
                self.findings.dropped(table, row["id"], "its task does not exist", row["task_id"])
            else:
                yield row, number, _Cells(self.findings, table, row["id"])

    def _events(self) -> Iterator[dict[str, Any]]:
        has_ttl = "ttl_seconds" in self.board.columns("events")
        for row in self.board.rows("events", ("id", "created_at", "event_type", "payload", "ttl_seconds")):
            self.into.found["events"] += 1
            cells = _Cells(self.findings, "events", row["id"])
            payload = cells.payload(row["payload"])
            project, agent = payload.get("project"), payload.get("from_agent") or payload.get("agent")
            number = self._known(payload.get("task_id"))
            if number is not None:
                payload["task_id"] = f"TASK-{number}"
            yield {
                "created_at": cells.moment(row["created_at"], "created_at", "given the time of the adoption"),
                "event_type": cells.name(row["event_type"], "event_type", instead="unknown"),
                "payload": inputs.dump_json(payload),
                "ttl_seconds": cells.time_to_live(row["ttl_seconds"]) if has_ttl else None,
                "project": _fitting_name(project) or "default",
                "agent": _fitting_name(agent),
                "ref": None if number is None else f"TASK-{number}",
            }

    # attempts

    def _attempts(self) -> Iterator[dict[str, Any]]:
        """Whoever held a task is told by its history; the task's own row has the last word."""
        connection = self.into.connection
        for task in self.into.rows("SELECT * FROM tasks ORDER BY number"):
            walk = _Walk()
            story = self.into.rows("SELECT * FROM history WHERE number = ? ORDER BY place", task["number"])
            for rows in batches(story):
                seen = [(walk.see(row), row["place"]) for row in rows]
                connection.executemany("UPDATE history SET attempt = ? WHERE place = ?", seen)
            if not walk.settle(task):
                self.findings.repaired(
                    "tasks",
                    f"TASK-{task['number']}",
                    "nobody knows who did the work under review",
                    "",
                    "open to any reviewer",
                )
            first = task["claimed_by"] or (walk.attempts[0].agent if walk.attempts else None)
            connection.execute(
                "UPDATE tasks SET attempt = ?, rejected_attempt = ?, claimed_by = ? WHERE number = ?",
                (len(walk.attempts), walk.rejected, first, task["number"]),
            )
            for place, each in enumerate(walk.attempts, start=1):
                yield {"number": task["number"], "attempt": place, **asdict(each)}


@dataclass(slots=True)
class _Attempt:
    agent: str
    started_at: str | None
    ended_at: str | None = None
    outcome: str | None = None
    reason: str = ""


class _Walk:
    """The attempts at one task, told by its history from the oldest row on.

    Rows may be missing, since the tool pruned history of live tasks too: whoever did what only a holder can do was one.
    REVIEW stands for submit, approve and reject alike: the first while the task is held is a submission, the next a
    judgement, and a judgement that is followed by another claim was a rejection.
    """

    def __init__(self) -> None:
        self.attempts: list[_Attempt] = []
        self.status = TODO
        self.judged: int | None = None
        self.rejected = 0

    def see(self, row: sqlite3.Row) -> int | None:
        """Take in one row; the answer is the attempt that it belongs to."""
        agent, at = row["agent"], row["created_at"]
        match row["action"]:
            case "CLAIM":
                self._open(agent, at)
            case "TRANSFER" if row["receiver"]:
                self._hold(agent, at)
                self._close("transferred", at, f"to {row['receiver']}")
                self._open(row["receiver"], at)
            case "PROGRESS" | "EXTEND" if self.status != DONE:
                self._hold(agent, at)
            case "BLOCK" if self.status != DONE:
                self._end(agent, at, "blocked", BLOCKED)
            case "COMPLETE" if self.status != DONE:
                self._end(agent, at, "completed", DONE)
            case "REVIEW" if self.status == IN_REVIEW:
                self.judged, self.status = len(self.attempts), DONE
                return None
            case "REVIEW" if self.status != DONE:
                self._end(agent, at, "submitted", IN_REVIEW)
            case _:
                return None
        return len(self.attempts) or None

    def settle(self, task: sqlite3.Row) -> bool:
        """Let the attempts agree with where the task stands; False when nobody knows who did the work under review."""
        status, changed_at = task["status"], task["updated_at"]
        if status == IN_PROGRESS:
            self._hold(task["holder"], changed_at)
            return True
        ended = {DONE: "completed", IN_REVIEW: "submitted", BLOCKED: "blocked", CANCELLED: "cancelled"}
        self._close(ended.get(status, "released"), changed_at, "")
        if status == DONE and not self.attempts:  # its history is gone
            self._end(task["claimed_by"] or "unknown", changed_at, "completed", DONE)
        if status == TODO and self.judged is not None:
            self.rejected = self.judged
        if status != IN_REVIEW:
            return True
        if len(self.attempts) == self.rejected and task["claimed_by"]:
            self._end(task["claimed_by"], changed_at, "submitted", IN_REVIEW)
        if len(self.attempts) == self.rejected:
            return False
        self.attempts[-1].outcome = "submitted"
        return True

    def _hold(self, agent: str, at: str | None) -> None:
        if not self.attempts or self.attempts[-1].outcome is not None or self.attempts[-1].agent != agent:
            self._open(agent, at)

    def _open(self, agent: str, at: str | None) -> None:
        self._close("expired", at, "the lease was not renewed")
        if self.judged is not None:
            self.rejected, self.judged = self.judged, None
        self.attempts.append(_Attempt(agent, at))
        self.status = IN_PROGRESS

    def _end(self, agent: str, at: str | None, outcome: str, status: str) -> None:
        self._hold(agent, at)
        self._close(outcome, at, "")
        self.status = status

    def _close(self, outcome: str, at: str | None, reason: str) -> None:
        if self.attempts and self.attempts[-1].outcome is None:
            last = self.attempts[-1]
            last.ended_at, last.outcome, last.reason = at, outcome, reason


# --- one row's cells --------------------------------------------------------------------------------------------------


class _Cells:
    """The cells of one row, each made fit; whatever had to be changed is told."""

    def __init__(self, findings: Findings, table: str, row_id: object) -> None:
        self._findings = findings
        self._table = table
        self._row_id = row_id

    def told(self, what: str, value: object, done: str) -> None:
        self._findings.repaired(self._table, self._row_id, what, value, done)

    def text(self, value: object, name: str) -> str:
        """A text that can be stored, whatever was there."""
        if not isinstance(value, str | None):
            self.told(f"{name} is not text", value, "written as text")
        words = _decoded(value)
        if _FORBIDDEN.search(words):
            self.told(f"{name} holds NUL or broken characters", words, "each replaced by U+FFFD")
            words = _storable(words)
        return words

    def line(self, value: object, name: str, *, limit: int, instead: str) -> str:
        """One line of at most `limit` characters, not blank."""
        words = self.text(value, name)
        if _CONTROL.search(words.strip()):
            self.told(f"{name} holds control characters", words, "each run replaced by a blank")
        words = _CONTROL.sub(" ", words).strip()
        if not inputs.visible(words):
            self.told(f"{name} is missing", value, f"is {instead}")
            return instead
        if len(words) > limit:
            self.told(f"{name} is too long", f"{len(words)} characters", f"cut at {limit} characters")
            words = words[: limit - 1].rstrip() + "…"
        return words

    def title(self, value: object, instead: str) -> tuple[str, str]:
        """The title, and a body that keeps the whole of one that is too long."""
        title = self.line(value, "title", limit=inputs.TITLE_MAX, instead=instead)
        whole = _storable(_decoded(value)).strip()
        return title, whole[: inputs.TEXT_MAX] if len(whole) > inputs.TITLE_MAX else ""

    def name(self, value: object, name: str, *, instead: str) -> str:
        """What is compared: composed, and without what nobody sees, so that somebody can say it."""
        words = self.text(value, name)
        seen = "".join(each for each in words if each.isascii() or unicodedata.category(each) != "Cf")
        composed = inputs.HIDDEN.sub("", unicodedata.normalize("NFC", seen))
        if composed != words:
            self.told(f"{name} holds invisible or decomposed characters", words, "composed, or left out")
        return self.line(composed, name, limit=inputs.NAME_MAX, instead=instead)

    def agent(self, value: object, name: str) -> str:
        """The name of somebody who can act; a name of the board's own is nobody's."""
        words = self.name(value, name, instead="unknown")
        try:
            return inputs.agent(words)
        except InvalidInput:
            self.told(f"{name} has the name of the board itself", words, f"is {words}-agent")
            return f"{words}-agent"

    def status(self, value: object) -> str | None:
        """A status of ours, or None when there is no such status."""
        status = re.sub(r"[ -]", "_", _decoded(value).strip().upper())
        if status not in STATUSES:
            self.told("status does not exist", value, "is BLOCKED, with a note")
            return None
        if status != value:
            self.told("status is written otherwise", value, f"is {status}")
        return status

    def note_type(self, value: object) -> str | None:
        if value is None:
            return None
        kind = _decoded(value).strip().upper()
        if kind == value and kind in NOTE_TYPES:
            return kind
        repaired = kind if kind in NOTE_TYPES else None if not kind else "COMMENT"
        self.told("note type does not exist", value, f"is {repaired or 'without a type'}")
        return repaired

    def whole(self, value: object, name: str, *, least: int, most: int, instead: int) -> int:
        """A whole number between two bounds."""
        try:
            number = int(float(_decoded(value))) if not isinstance(value, int) else value
        except (ValueError, OverflowError):
            self.told(f"{name} is no number", value, f"is {instead}")
            return instead
        kept = min(max(number, least), most)
        if kept != number:
            self.told(f"{name} is out of range", value, f"is {kept}")
        elif not isinstance(value, int):
            self.told(f"{name} is no whole number", value, f"is {kept}")
        return kept

    def moment(self, value: object, name: str, otherwise: str) -> str | None:
        """A time in the one shape, or None when it cannot be read."""
        moment = parse_moment(value)
        if moment is None:
            self.told(f"{name} is missing" if value is None else f"{name} cannot be read", value, otherwise)
            return None
        return moment.isoformat(timespec="milliseconds")

    def lease(self, value: object) -> str | None:
        """When the lease ends; None when it never would, or nobody knows."""
        moment = parse_moment(value)
        if moment is not None:
            return moment.isoformat(timespec="milliseconds")
        what = "IN_PROGRESS without a lease" if value is None else "lease_until is absurd or cannot be read"
        self.told(what, value, "ends 15 minutes after the adoption")
        return None

    def time_to_live(self, value: object) -> int | None:
        if value is None:
            return None
        number = value if isinstance(value, int) else parse_whole(_decoded(value))
        if number is None or number < 0:
            self.told("ttl_seconds is no time to live", value, f"is {events.TTL_SECONDS}")
            return events.TTL_SECONDS
        if number > inputs.TTL_SECONDS_MAX:
            self.told("ttl_seconds is longer than a century", value, "never expires")
            return None
        return number

    def payload(self, value: object) -> dict[str, Any]:
        """A JSON object; anything else is kept as the text it was, under `raw`."""
        words = _decoded(value)
        try:
            parsed = json.loads(words)
            cleaned = _storable_json(parsed)
            checked = dict(inputs.payload(cleaned))
        except (ValueError, RecursionError, InvalidInput):
            done = f"kept as text under raw, at most {RAW_MAX} characters"
            self.told("payload is no JSON object that fits", words, done)
            return {"raw": _storable(words)[:RAW_MAX]}
        if cleaned != parsed:
            self.told("payload holds NUL or broken characters", words, "each replaced by U+FFFD")
        return checked


def parse_moment(value: object) -> datetime | None:
    """A time in any shape met so far, as UTC in whole milliseconds; one without a zone is UTC. None: unreadable."""
    words = _decoded(value).strip()
    try:
        if re.fullmatch(r"\d{9,14}(\.\d+)?", words):
            seconds = float(words)
            least, most = EPOCH_SECONDS
            seconds = seconds if seconds < most else seconds / 1000
            moment = datetime.fromtimestamp(seconds, UTC) if seconds >= least else None
        elif found := _TIME.fullmatch(words):
            day, clock, zone = found.groups()
            moment = datetime.fromisoformat(f"{day}T{clock or '00:00'}{zone or ''}")
        else:
            moment = datetime.fromisoformat(words)
        if moment is None:
            return None
        return inputs.instant(moment if moment.tzinfo else moment.replace(tzinfo=UTC), "time")
    except (ValueError, OverflowError, OSError, InvalidInput):
        return None


def parse_whole(words: str) -> int | None:
    return int(words) if re.fullmatch(r"\s*-?[0-9]{1,18}\s*", words) else None


def _number(raw: object) -> int | None:
    """12 for `TASK-12`, also when it is written ` task-012 `; None for what is no task id."""
    found = _TASK_ID.fullmatch(_decoded(raw))
    number = int(found.group(1)) if found else NUMBER_MAX
    return number if number < NUMBER_MAX else None


def _decoded(value: object) -> str:
    """Whatever a cell holds, as text."""
    if value is None:
        return ""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _storable(value: Any) -> Any:
    return _FORBIDDEN.sub("\ufffd", value) if isinstance(value, str) else value


def _storable_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {_storable(key): _storable_json(item) for key, item in value.items()}
    return [_storable_json(item) for item in value] if isinstance(value, list) else _storable(value)


def _fitting_name(value: object) -> str | None:
    try:
        return inputs.name(value, "name")
    except InvalidInput:
        return None


def _shown(value: object) -> str:
    """What stood there, safe to print and never long."""
    words: str = _storable(_decoded(value))
    return words if len(words) <= 60 else words[:57] + "..."
