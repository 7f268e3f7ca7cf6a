"""Tasks: dispatched one or many at a time, edited, commented on, cancelled, reopened, looked at, listed, exported."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from coordinate import counters, events, inputs, leases, paths
from coordinate.db.engine import Row, Tx
from coordinate.errors import InvalidInput, InvalidState
from coordinate.frozen import record_of
from coordinate.records import (
    Attempt,
    Cancelled,
    Dispatched,
    ExportedTask,
    HistoryEntry,
    Note,
    Project,
    Scope,
    Task,
    TaskPage,
    TaskView,
)
from coordinate.states import FINAL, IN_PROGRESS, MAX_ATTEMPTS, MOVE, TODO
from coordinate.work import dependencies, story
from coordinate.work.claims import wrong_state

if TYPE_CHECKING:
    from coordinate.plans import PlannedTask

SCOPES_MAX = 100
ATTEMPTS_SHOWN = 20
EXPORT_PAGE = 100
STORY_MAX = 1_000_000

# --- dispatch ---------------------------------------------------------------------------------------------------------


# A task about to be written: its fields as a record will have them, and beside them `scopes` and what searches look
# through. Until all of a plan have their ids, `depends_on` holds places in the plan too.
_New = dict[str, Any]
# What is true of a task to which nothing has happened; the columns that no dispatch writes say the same by default.
_UNTOUCHED: _New = dict.fromkeys(Task.__match_args__) | {
    "status": TODO,
    "attempt": 0,
    "expiries": 0,
    "unmet_dependencies": 0,
    "parked": "",
    "rejected_attempt": 0,
    "revision": 1,
    "scoped": False,
}


def dispatch(
    tx: Tx,
    *,
    title: str,
    role: str,
    project: str = "default",
    priority: int = 100,
    body: str = "",
    depends_on: Sequence[str] = (),
    scopes: Sequence[str] = (),
    not_before: datetime | None = None,
    dedup_key: str | None = None,
    max_attempts: int | None = None,
    agent: str = "",
) -> Dispatched:
    """Put a new task into the queue of a role and return it.

    `priority` 0..999, lower is sooner. `depends_on` lists tasks that must be DONE first; a cancelled one is refused.
    `scopes` are paths or globs that the work means to change. `not_before` (aware) keeps it out of the queue until
    then. `dedup_key` makes a retry harmless: the same key again answers the task it made, with `already`. Ids rise
    without gaps; a refused dispatch uses none. Raises `InvalidInput`, `NotFound`, `UnreachableDependency`.
    """
    new = _checked(
        title=title,
        role=role,
        project=project,
        priority=priority,
        body=body,
        depends_on=depends_on,
        scopes=scopes,
        not_before=not_before,
        dedup_key=dedup_key,
        max_attempts=max_attempts,
    )
    return _write(tx, [new], agent=agent)[0]


def dispatch_plan(
    tx: Tx, *, plan: Sequence[PlannedTask], project: str = "default", agent: str = ""
) -> list[Dispatched]:
    """Put all tasks of a plan into the queue, in the plan's order, or none of them.

    Each has a `key`, by which others of the plan name it in `depends_on` (tasks that exist are named by their ids), a
    `title`, and what else `dispatch` takes; `plans.parse_plan` reads them from a file. Raises as `dispatch`.
    """
    return _write(tx, check_plan(plan, project=project), agent=agent)


def check_plan(plan: Sequence[PlannedTask], *, project: str = "default") -> list[_New]:
    """A plan's tasks as they are to be written. Raises `InvalidInput` for what is wrong whatever a board holds."""
    from coordinate.plans import PlannedTask, order_of  # only who dispatches a plan pays for loading it

    if not isinstance(plan, list | tuple) or not all(isinstance(each, PlannedTask) for each in plan):
        raise InvalidInput("plan must be a list of PlannedTask", hint="see plans.parse_plan", field="plan")
    if not all(
        isinstance(name, str) for each in plan for name in (each.key, *inputs.listed(each.depends_on, "depends_on"))
    ):
        raise InvalidInput("keys and dependencies of a plan are texts", field="depends_on")
    ordered = order_of(plan)
    if not ordered:
        raise InvalidInput("the plan has no tasks", field="plan")
    news = [
        _checked(
            title=each.title,
            role=each.role,
            project=each.project or project,
            priority=each.priority,
            body=each.body,
            depends_on=(),
            scopes=each.scopes,
            not_before=each.not_before,
            dedup_key=each.dedup_key,
            max_attempts=each.max_attempts,
        )
        for each in ordered
    ]
    keys = [new["dedup_key"] for new in news if new["dedup_key"] is not None]
    if len(set(keys)) < len(keys):
        raise InvalidInput("two tasks of the plan have one dedup_key", hint="give each its own", field="dedup_key")
    place = {each.key: index for index, each in enumerate(ordered) if each.key}
    for new, each in zip(news, ordered, strict=True):
        if each.depends_on:
            new["depends_on"] = tuple(
                place[name] if name in place else inputs.task_id(name, "depends_on") for name in each.depends_on
            )
    return news


def _checked(
    *,
    title: str,
    role: str,
    project: str,
    priority: int,
    body: str,
    depends_on: Sequence[str],
    scopes: Sequence[str],
    not_before: datetime | None,
    dedup_key: str | None,
    max_attempts: int | None,
) -> _New:
    new = {
        **_UNTOUCHED,
        "title": inputs.title(title),
        "role_boundary": inputs.name(role, "role"),
        "project": inputs.name(project, "project"),
        "priority": inputs.priority(priority),
        "body": inputs.text(body, "body"),
        "depends_on": () if depends_on == () else _dependencies(depends_on),
        "scopes": () if scopes == () else _patterns(scopes),
        "not_before": None if not_before is None else inputs.instant(not_before, "not_before"),
        "dedup_key": None if dedup_key is None else inputs.line(dedup_key, "dedup_key", limit=200),
        "max_attempts": inputs.integer_or_none(max_attempts, "max_attempts", least=1, most=inputs.ATTEMPTS_MAX),
    }
    new["folded"] = _folded(new["title"], new["body"])
    return new


def _dependencies(ids: Sequence[str]) -> tuple[str, ...]:
    return tuple(inputs.task_ids(ids, "depends_on", most=inputs.DEPENDENCIES_MAX))


def _patterns(scopes: Sequence[str]) -> tuple[str, ...]:
    given = [inputs.text(pattern, "scopes") for pattern in inputs.listed(scopes, "scopes")]
    patterns = tuple(dict.fromkeys(map(paths.canonical, given)))
    if len(patterns) > SCOPES_MAX:
        raise InvalidInput(f"a task declares at most {SCOPES_MAX} scopes, not {len(patterns)}", field="scopes")
    return patterns


def _write(tx: Tx, news: list[_New], *, agent: str) -> list[Dispatched]:
    """Write new tasks in order. The counter's row, locked first, also keeps two with one dedup key apart."""
    author = _author(agent)
    known = _already_dispatched(tx, news)
    made: list[Task] = []
    if taken := len(news) - len(known):
        usual = tx.send("projects_attempts", projects=list({new["project"] for new in news}))
        first, now = counters.take(tx, "task", taken)
        # Whoever dispatched the same key between our look and our turn at the counter was first: its number goes back.
        known = _already_dispatched(tx, news)
        if late := taken - (len(news) - len(known)):
            counters.take(tx, "task", -late)
        fresh = [new for index, new in enumerate(news) if index not in known]
        _settle(fresh, first, now, author, {row.name: row.max_attempts for row in usual()})
        edges = _edges(tx, news, known)
        made = _insert(tx, fresh, edges, author)
    told, rest = dict(zip(known, story.tasks_of(tx, known.values()), strict=True)), iter(made)
    return [
        Dispatched(task=told[index], already=True) if index in told else Dispatched(task=next(rest), already=False)
        for index in range(len(news))
    ]


def _already_dispatched(tx: Tx, news: list[_New]) -> dict[int, Row]:
    places = {new["dedup_key"]: index for index, new in enumerate(news) if new["dedup_key"] is not None}
    keys, found = list(places), []
    for start in range(0, len(keys), inputs.IDS_MAX):
        found += tx.all("tasks_by_dedup_key", dedup_keys=keys[start : start + inputs.IDS_MAX])
    return {places[row.dedup_key]: row for row in found}


def _settle(fresh: list[_New], first: int, now: datetime, author: str, attempts: dict[str, int]) -> None:
    """Fill in what is known of new tasks once their numbers are."""
    for number, new in enumerate(fresh, first):
        new["id"], new["number"], new["created_by"] = f"TASK-{number}", number, author
        new["created_at"] = new["updated_at"] = now
        new["scoped"] = bool(new["scopes"])
        if new["max_attempts"] is None:
            new["max_attempts"] = attempts.get(new["project"], MAX_ATTEMPTS)
        if new["not_before"] is not None and new["not_before"] > now:
            new["parked"], new["parked_until"] = "later", new["not_before"]


def _edges(tx: Tx, news: list[_New], known: dict[int, Row]) -> list[dict[str, Any]]:
    """Hold still what new tasks wait for and fill in how much of it is unmet; returns the edges, to be written later.

    By its id a task of the plan is not known to anybody yet, so what is named by one was there before.
    """
    waiting = [new for index, new in enumerate(news) if index not in known and new["depends_on"]]
    if not waiting:
        return []
    for new in waiting:
        new["depends_on"] = [known[each].id if each in known else each for each in new["depends_on"]]
    named = {new["id"]: [each for each in new["depends_on"] if isinstance(each, str)] for new in waiting}
    done = dependencies.hold_for_new(tx, named)
    edges = []
    for new in waiting:
        ids = {news[each]["id"] if isinstance(each, int) else each for each in new["depends_on"]}
        new["depends_on"] = tuple(sorted(ids, key=inputs.task_number))
        new["unmet_dependencies"] = len(ids - done)
        edges += [{"task_id": new["id"], "depends_on": on_id, "met": on_id in done} for on_id in new["depends_on"]]
    return edges


def _insert(tx: Tx, fresh: list[_New], edges: list[dict[str, Any]], author: str) -> list[Task]:
    """Write settled tasks, with all that belongs to them; returns their records."""
    if not fresh:
        return []
    tx.run_many("task_insert", fresh)
    tx.run_many("edge_insert_known", edges)
    for new in fresh:
        del new["folded"]
        if patterns := new.pop("scopes"):
            declared = [{"task_id": new["id"], "pattern": pattern, "mode": "exclusive"} for pattern in patterns]
            tx.run_many("scope_insert", declared)
    made = [record_of(Task, new) for new in fresh]
    if len(made) == 1:
        story.record(tx, made[0], "DISPATCH", "task.created", agent=author, role_boundary=made[0].role_boundary)
    else:
        tx.run("history_dispatched", first=fresh[0]["number"], last=fresh[-1]["number"])
        for task in made:
            story.tell(tx, task, "task.created", agent=author, role_boundary=task.role_boundary)
    story.announce(tx, *made)
    return made


def _author(agent: str) -> str:
    """Whoever is named; the board itself where nobody is."""
    return inputs.agent(agent) if agent else "system"


def _folded(title: str, body: str) -> str:
    return inputs.fold(f"{title}\n{body}" if body else title)


# --- moves that are nobody's alone ------------------------------------------------------------------------------------


def unblock(tx: Tx, *, task: str, note: str = "", expected_revision: int | None = None, agent: str = "") -> Task:
    """Put a BLOCKED task back into the queue; `flows.finishing.unblock` says what is promised."""
    said = inputs.text(note, "note", limit=inputs.NOTE_MAX)
    row = _move(tx, "unblock", task, agent, detail=said, expected_revision=expected_revision)
    if note:
        story.note(tx, row.id, inputs.agent(agent), "COMMENT", note)
    story.announce(tx, row)
    return story.task_of(tx, row)


RESERVE_SECONDS = 900


def answered(tx: Tx, row: Row, *, ask_id: str, asker: str, said: str, agent: str) -> None:
    """A human answered what a locked BLOCKED task waited for: back in the queue, for the asker alone for 15 minutes.

    The board itself is nobody to wait for.
    """
    if asker == "system":
        after = tx.the("task_unblock", task_id=row.id)
    else:
        after = tx.the("task_answered", task_id=row.id, reserved_for=asker, seconds=RESERVE_SECONDS)
    _record_move(tx, after, "unblock", said, agent=agent, ask_id=ask_id)
    tx.announce("ready")


def unanswered(tx: Tx, row: Row, *, ask_id: str, said: str, agent: str) -> None:
    """What a locked BLOCKED task waited for will not come: back in the queue, with the reason as a note."""
    after = tx.the("task_unblock", task_id=row.id)
    story.note(tx, row.id, "system", "SYSTEM", said)
    _record_move(tx, after, "unblock", said, agent=agent, ask_id=ask_id)
    story.announce(tx, after)


def waits_again(tx: Tx, row: Row, *, ask_id: str, said: str, agent: str) -> None:
    """The answer to what a locked task asked does not stand any more, and nobody took the task since."""
    after = tx.the("task_await", task_id=row.id)
    _record_move(tx, after, "await", said, agent=agent, ask_id=ask_id)


def _record_move(tx: Tx, row: Row, verb: str, said: str, *, agent: str, ask_id: str) -> None:
    move = MOVE[verb]
    story.record(tx, row, move.action, move.event, agent=agent, detail=said[: inputs.REASON_MAX], ask_id=ask_id)


def cancel(tx: Tx, *, task: str, reason: str = "", expected_revision: int | None = None, agent: str = "") -> Cancelled:
    """End a task that nobody shall do any more; `flows.finishing.cancel` says what is promised."""
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    row = _move(tx, "cancel", task, agent, detail=reason, reason=reason, expected_revision=expected_revision)
    ended = tx.one("attempt_close", task_id=row.id, outcome="cancelled", reason=reason)
    if row.scoped:
        leases.end_of_task(tx, row.id, reason="released", by=inputs.agent(agent))
    stranded, more = dependencies.stranded_by(tx, row.id)
    return Cancelled(story.task_of(tx, row), ended.agent if ended else None, stranded, more)


def reopen(tx: Tx, *, task: str, reason: str = "", expected_revision: int | None = None, agent: str = "") -> Task:
    """Put a DONE or CANCELLED task back into the queue; whoever depended on it waits for it again.

    Dependents that are held or finished already stay so; those still in the queue leave it until this is done. With
    `expected_revision` it is refused as `OutdatedRevision` when the task changed since.
    """
    reason = inputs.text(reason, "reason", limit=inputs.REASON_MAX)
    row = _move(tx, "reopen", task, agent, detail=reason, reason=reason, expected_revision=expected_revision)
    dependencies.unmet_by(tx, row.id)
    story.announce(tx, row)
    return story.task_of(tx, row)


def _move(
    tx: Tx,
    verb: str,
    task: str,
    agent: str,
    *,
    detail: str,
    reason: str = "",
    expected_revision: int | None = None,
) -> Row:
    """A move that asks nothing of the caller but where the task stands; the row is locked, so the reason is exact."""
    task_id, agent = inputs.task_id(task), inputs.agent(agent)
    before = story.find(tx, task_id, lock=True)
    story.refuse_outdated(before, expected_revision)
    row = tx.one(f"task_{verb}", task_id=task_id)
    if row is None:
        raise wrong_state(before, verb)
    move = MOVE[verb]
    attempt = before.attempt if before.status == IN_PROGRESS else None
    story.record(tx, row, move.action, move.event, agent=agent, attempt=attempt, detail=detail, reason=reason)
    return row


# --- words and edits --------------------------------------------------------------------------------------------------


def comment(tx: Tx, *, task: str, text: str, note_type: str = "COMMENT", agent: str = "") -> Note:
    """Write a note on any task, held or not, by anyone; it renews nothing. At most 10,000 characters.

    `note_type` is COMMENT, DECISION, REVIEW or ERROR.
    """
    task_id, agent = inputs.task_id(task), inputs.agent(agent)
    content = inputs.text(text, "text", limit=inputs.NOTE_MAX, blank=False)
    note_type = inputs.note_type(note_type, ("COMMENT", "DECISION", "REVIEW", "ERROR"))
    noted = tx.send("note_write", **story.note_of(task_id, agent, note_type, content))
    row = story.find(tx, task_id)
    if not (found := noted()):  # it was dispatched between the two
        raise story.not_there(task_id)
    (written,) = found
    story.record(tx, row, "COMMENT", "task.commented", agent=agent, note_type=note_type)
    return Note(written.id, task_id, agent, note_type, content, written.created_at)


def edit(
    tx: Tx,
    *,
    task: str,
    title: str | None = None,
    body: str | None = None,
    priority: int | None = None,
    project: str | None = None,
    role: str | None = None,
    scopes: Sequence[str] | None = None,
    not_before: datetime | None = None,
    clear_not_before: bool = False,
    max_attempts: int | None = None,
    expected_revision: int | None = None,
    agent: str = "",
) -> Task:
    """Change what a task says; what is not given stays. History and event name each field with its old value.

    Allowed at every status but DONE and CANCELLED. `scopes` replaces the list, but not while the task is held;
    `project` moves it and what a human is asked about it, but not while scopes are held for it. `clear_not_before` lets
    it start now. With `expected_revision` it is refused as `OutdatedRevision` when somebody changed the task since.
    """
    task_id, agent = inputs.task_id(task), inputs.agent(agent)
    before = story.find(tx, task_id, lock=True)
    story.refuse_outdated(before, expected_revision)
    if before.status in FINAL:
        raise InvalidState(
            f"{task_id} is {before.status} and is not edited any more", hint="reopen it first", status=before.status
        )
    wanted: dict[str, Any] = {
        "title": before.title if title is None else inputs.title(title),
        "body": before.body if body is None else inputs.text(body, "body"),
        "priority": before.priority if priority is None else inputs.priority(priority),
        "project": before.project if project is None else inputs.name(project, "project"),
        "role": before.role_boundary if role is None else inputs.name(role, "role"),
        "not_before": before.not_before if not_before is None else inputs.instant(not_before, "not_before"),
        "max_attempts": before.max_attempts
        if max_attempts is None
        else inputs.integer(max_attempts, "max_attempts", least=1, most=inputs.ATTEMPTS_MAX),
    }
    if inputs.flag(clear_not_before, "clear_not_before"):
        wanted["not_before"] = None
    old = {name: getattr(before, "role_boundary" if name == "role" else name) for name in wanted}
    changed = {name: old[name] for name in wanted if wanted[name] != old[name]}
    leases.refuse_move(tx, [task_id], wanted["project"])
    if scopes is not None and _replace_scopes(tx, before, _patterns(scopes)):
        changed["scopes"] = "replaced"
    if not changed:
        return story.task_of(tx, before)
    row = tx.the("task_edit", task_id=task_id, folded=_folded(wanted["title"], wanted["body"]), **wanted)
    detail = "; ".join(f"{name} was {_brief(value)}" for name, value in changed.items())
    story.record(
        tx, row, "UPDATE", "task.updated", agent=agent, detail=detail[: inputs.REASON_MAX], fields=",".join(changed)
    )
    story.announce(tx, row)
    return story.task_of(tx, row)


def _replace_scopes(tx: Tx, task: Row, patterns: Sequence[str]) -> bool:
    task_id = task.id
    if sorted(patterns) == sorted(row.pattern for row in tx.all("scopes_of", ids=[task_id])):
        return False
    if task.status == IN_PROGRESS:
        raise InvalidState(
            f"{task.assigned_agent} holds {task_id} with its scopes, which are not changed meanwhile",
            hint=f"the holder adds some with `lease claim --task {task_id}@{task.attempt}`; else change them later",
            task_id=task_id,
            holder=task.assigned_agent,
        )
    tx.run("scopes_delete", task_id=task_id)
    for pattern in patterns:
        tx.run("scope_insert", task_id=task_id, pattern=pattern, mode="exclusive")
    tx.run("task_rescoped", task_id=task_id)
    return True


def _brief(value: object) -> str:
    if isinstance(value, datetime):
        return leases.when(value)
    shown = "nothing" if value in (None, "") else str(value).replace("\n", " ")
    return shown if len(shown) <= 80 else shown[:77] + "..."


def set_priority(tx: Tx, *, tasks: Sequence[str], priority: int, agent: str = "") -> int:
    """Give several tasks one priority, in one transaction; unknown ids are left out. Returns how many changed."""
    priority, agent = inputs.priority(priority), _author(agent)
    rows = _set_many(tx, "tasks_set_priority", tasks, priority=priority)
    for row in rows:
        detail = f"priority set to {priority}"
        story.record(tx, row, "UPDATE", "task.priority_updated", agent=agent, detail=detail)
    return len(rows)


def set_project(tx: Tx, *, tasks: Sequence[str], project: str, agent: str = "") -> int:
    """Move several tasks to one project, in one transaction; unknown ids are left out. Returns how many changed.

    What humans are asked about them goes along.
    Raises `InvalidState`, and moves none, while scopes are held for one of them, by its hold or an open worktree.
    """
    project, agent = inputs.name(project, "project"), _author(agent)
    rows = _set_many(tx, "tasks_set_project", tasks, project=project)
    for row in rows:
        detail = f"project set to {project}"
        story.record(tx, row, "UPDATE", "task.project_updated", agent=agent, detail=detail)
        story.announce(tx, row)
    return len(rows)


def _set_many(tx: Tx, statement: str, tasks: Sequence[str], **value: object) -> list[Row]:
    ids = inputs.task_ids(tasks, "tasks")
    if not ids:
        raise InvalidInput("no task is named", field="tasks")
    tx.all("tasks_lock", ids=ids)  # in one order, so that two batches never wait for each other in a circle
    if "project" in value:
        leases.refuse_move(tx, ids, str(value["project"]))
    return sorted(tx.all(statement, ids=ids, **value), key=lambda row: int(row.number))


def set_project_defaults(
    tx: Tx, *, name: str, lease_seconds: int | None = None, max_attempts: int | None = None, agent: str = ""
) -> Project:
    """Set what claims and new tasks of a project get unless told otherwise; None means the program's default."""
    name = inputs.name(name, "name")
    lease = inputs.lease_seconds_or_none(lease_seconds)
    max_attempts = inputs.integer_or_none(max_attempts, "max_attempts", least=1, most=inputs.ATTEMPTS_MAX)
    tx.run("project_insert", name=name)
    row = tx.the("project_set", name=name, lease_seconds=lease, max_attempts=max_attempts)
    said = {"project": name, "lease_seconds": lease, "max_attempts": max_attempts}
    author = _author(agent)
    events.append(
        tx,
        "project.updated",
        {"agent": author} | {key: str(value) for key, value in said.items() if value is not None},
        project=name,
        agent=author,
        ref=name,
    )
    return Project(**row._asdict())


def list_projects(tx: Tx, *, limit: int = 1_000) -> list[Project]:
    """The projects that have tasks, asks, boards or settings, by name, at most 1,000.

    None means the program's default; `closed_at` is since when the human is done with it, unless something is newer.
    """
    return [Project(**row._asdict()) for row in tx.all("projects_list", limit=inputs.limit(limit))]


# --- looking ----------------------------------------------------------------------------------------------------------


def view(
    tx: Tx,
    *,
    task: str,
    notes: int = 20,
    history: int = 20,
    notes_before: int | None = None,
    history_before: int | None = None,
) -> TaskView:
    """A task's whole story: newest notes and history first, `notes` and `history` of each (0 to 1,000).

    `notes_before` and `history_before` (ids) page back; `more_notes` and `more_history` of the answer give them.
    """
    task_id = inputs.task_id(task)
    row = story.find(tx, task_id)
    note_rows = _story_page(tx, "notes_of", task_id, notes, notes_before, "notes")
    history_rows = _story_page(tx, "history_of", task_id, history, history_before, "history")
    waits = [story.dependency_of(edge) for edge in tx.all("dependencies_of", ids=[task_id])]
    dependents, more = dependencies.dependents_of(tx, task_id)
    return TaskView(
        task=Task(**row._asdict(), depends_on=tuple(each.id for each in waits)),
        notes=tuple(Note(**each._asdict()) for each in note_rows[:notes]),
        history=tuple(HistoryEntry(**each._asdict()) for each in history_rows[:history]),
        dependencies=tuple(waits),
        dependents=dependents,
        scopes=tuple(Scope(each.pattern, each.mode) for each in tx.all("scopes_of", ids=[task_id])),
        attempts=tuple(
            Attempt(**each._asdict()) for each in tx.all("attempts_of_task", task_id=task_id, limit=ATTEMPTS_SHOWN)
        ),
        more_notes=int(note_rows[notes - 1].id) if len(note_rows) > notes > 0 else None,
        more_history=int(history_rows[history - 1].id) if len(history_rows) > history > 0 else None,
        more_dependents=more,
    )


def _story_page(tx: Tx, statement: str, task_id: str, count: int, before: int | None, field: str) -> list[Row]:
    count = inputs.integer(count, field, least=0, most=inputs.LIST_MAX)
    before = inputs.integer_or_none(before, f"{field}_before")
    return tx.all(statement, task_id=task_id, before=before, limit=count + 1)


def list_tasks(
    tx: Tx,
    *,
    status: str | None = None,
    role: str | None = None,
    assigned_to: str | None = None,
    project: str | None = None,
    query: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> TaskPage:
    """A page of tasks in the queue's order (priority, created_at, number), narrowed by any of the filters.

    `query` is text that the title, the body or a note holds: literal, in any letter case. `after` is the `next` of
    the page before; `limit` at most 1,000.
    """
    limit = inputs.limit(limit)
    wanted: dict[str, Any] = {
        "status": None if status is None else inputs.status(status),
        "role": inputs.name_or_none(role, "role"),
        "agent": inputs.name_or_none(assigned_to, "assigned_to"),
        "project": inputs.name_or_none(project, "project"),
        "limit": limit + 1,
        **_page_after(after),
    }
    if query is None:
        rows = tx.all("tasks_list", **wanted)
    else:
        needle = inputs.fold(inputs.text(query, "query", limit=inputs.QUERY_MAX))
        rows = tx.all("tasks_search", needle=needle, **wanted)
    page = rows[:limit]
    return TaskPage(tuple(story.tasks_of(tx, page)), _page_mark(page[-1]) if len(rows) > limit else None)


def _page_mark(row: Row) -> str:
    return f"{row.priority}~{row.created_at.isoformat()}~{row.number}"


def _page_after(mark: str | None) -> dict[str, Any]:
    if mark is None:
        return {"after_priority": None, "after_created_at": None, "after_number": None}
    try:
        priority, created_at, number = mark.split("~")
        return {
            "after_priority": inputs.priority(int(priority)),
            "after_created_at": inputs.parse_instant(created_at, "after"),
            "after_number": inputs.integer(int(number), "after"),
        }
    except (ValueError, AttributeError, TypeError):
        raise InvalidInput("after is no page mark", hint="give the `next` of the page before", field="after") from None


def export_page(tx: Tx, *, after: int = 0, limit: int = EXPORT_PAGE) -> list[ExportedTask]:
    """A page of everything there is about tasks, by number, behind task number `after`; at most 1,000.

    Within a task nothing is left out, so a page holds as much as its tasks do.
    """
    after = inputs.integer(after, "after")
    rows = tx.all("tasks_after", after=after, limit=inputs.limit(limit))
    scopes: dict[str, list[Scope]] = {}
    for each in tx.all("scopes_of", ids=[row.id for row in rows]):
        scopes.setdefault(each.task_id, []).append(Scope(each.pattern, each.mode))
    return [
        ExportedTask(
            task=task,
            notes=tuple(Note(**each._asdict()) for each in _whole(tx, "notes_of", task.id)),
            history=tuple(HistoryEntry(**each._asdict()) for each in _whole(tx, "history_of", task.id)),
            attempts=tuple(
                Attempt(**each._asdict())
                for each in reversed(tx.all("attempts_of_task", task_id=task.id, limit=STORY_MAX))
            ),
            scopes=tuple(scopes.get(task.id, ())),
        )
        for task in story.tasks_of(tx, rows)
    ]


def _whole(tx: Tx, statement: str, task_id: str) -> list[Row]:
    return list(reversed(tx.all(statement, task_id=task_id, before=None, limit=STORY_MAX)))
