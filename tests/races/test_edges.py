"""Dependencies that change while tasks finish: counts stay right, no circle closes, no ready task stays hidden."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import pytest

import coordinate
from coordinate.plans import PlannedTask
from coordinate.service import Coordinator
from coordinate.work import dependencies
from tests.races import arena
from tests.races.arena import Answer, Call, Go, Noticed, Weakness

pytestmark = pytest.mark.race

ROUNDS = 200


class Round:
    """The tasks of one round by letter; `handle` is what the racers hold of those that can be claimed."""

    def __init__(self, ids: dict[str, str], handles: dict[str, str]) -> None:
        self.ids = ids
        self.handles = handles

    def complete(self, letter: str) -> Call:
        return "complete", {"handle": self.handles[letter]}

    def complete_batch(self, letters: str) -> Call:
        return "complete_batch", {"handles": [self.handles[letter] for letter in letters]}

    def add(self, letter: str, on: str) -> Call:
        return "depend_add", {"task": self.ids[letter], "on": self.ids[on]}

    def remove(self, letter: str, on: str) -> Call:
        return "depend_remove", {"task": self.ids[letter], "on": self.ids[on]}

    def move(self, verb: str, letter: str) -> Call:
        return verb, {"task": self.ids[letter]}


@dataclass(frozen=True)
class Race:
    """Who waits for whom, what was finished before, and what is done at one moment; `wins` of the calls succeed."""

    waits: dict[str, str]
    calls: tuple[Callable[[Round], Call], ...]
    wins: int = 2
    finished: str = ""


RACES = {
    "an edge is added while its dependency completes": Race(
        {"A": "", "D": ""}, (lambda r: r.complete("A"), lambda r: r.add("D", "A"))
    ),
    "an edge is removed while its dependency completes": Race(
        {"A": "", "D": "A"}, (lambda r: r.complete("A"), lambda r: r.remove("D", "A"))
    ),
    "an edge is added while its dependency is reopened": Race(
        {"A": "", "D": ""}, (lambda r: r.move("reopen", "A"), lambda r: r.add("D", "A")), finished="A"
    ),
    "one dependency is reopened while the other completes": Race(
        {"A": "", "B": "", "D": "AB"}, (lambda r: r.move("reopen", "A"), lambda r: r.complete("B")), finished="A"
    ),
    "a dependency is cancelled while it completes": Race(
        {"A": "", "D": "A"}, (lambda r: r.complete("A"), lambda r: r.move("cancel", "A")), wins=1
    ),
    "two dependencies complete": Race(
        {"A": "", "B": "", "D": "AB"}, (lambda r: r.complete("A"), lambda r: r.complete("B"))
    ),
    "two dependencies complete in two batches of opposite order": Race(
        {"A": "", "B": "", "D": "AB", "E": "BA"},
        (lambda r: r.complete_batch("AB"), lambda r: r.complete_batch("BA")),
    ),
}


def play(url: str, race: Race, *, count: int = ROUNDS, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url, agent="racer") as c:
        played = prepare(c, race, count)
    scripts = [[call(each) for each in played] for call in race.calls]
    answers = arena.rounds(url, *scripts, weakness=weakness)
    odd = [said for said in answers if sum(answer.ok for answer in said) != race.wins]
    assert not odd, f"{len(odd)} rounds with other than {race.wins} winners, one of them {codes(odd[0])}"
    arena.assert_sound(url)
    assert_nothing_hidden(url)


def prepare(c: Coordinator, race: Race, count: int) -> list[Round]:
    dependents = {letter for letter in race.waits if letter >= "D"}
    plan = [
        PlannedTask(
            key=f"{letter}{number}",
            title=f"{letter} of round {number}",
            role="waiter" if letter in dependents else "worker",
            depends_on=tuple(f"{on}{number}" for on in waits),
        )
        for number in range(count)
        for letter, waits in race.waits.items()
    ]
    ids = {each.task.title: each.task.id for each in c.dispatch_plan(plan=plan)}
    held = arena.claim_all(c)
    rounds = []
    for number in range(count):
        own = {letter: ids[f"{letter} of round {number}"] for letter in race.waits}
        rounds.append(Round(own, {letter: held[task] for letter, task in own.items() if task in held}))
        for letter in race.finished:
            c.complete(handle=held[own[letter]])
    return rounds


def codes(said: tuple[Answer, ...]) -> list[str]:
    return [answer.code or "ok" for answer in said]


def assert_nothing_hidden(url: str) -> None:
    """What has no unmet edge is found by claiming; when all that can be done is done, only the stranded are left."""
    ready = (
        "SELECT id FROM tasks WHERE status = 'TODO' AND role_boundary = 'waiter' AND NOT EXISTS"
        " (SELECT 1 FROM task_dependencies d WHERE d.task_id = tasks.id AND NOT d.met)"
    )
    with arena.setting_up(url, agent="finisher") as c:
        expected = {task for (task,) in arena.rows(url, ready)}
        found = arena.claim_all(c, "waiter", "finisher")
        assert found.keys() == expected
        for handle in found.values():
            c.complete(handle=handle)
        racing = [task.handle for task in c.mine(agent="racer", limit=1000)]
        for handle in racing:
            c.complete(handle=handle or "", agent="racer")
        while held := arena.claim_all(c, "worker", "finisher") | arena.claim_all(c, "waiter", "finisher"):
            for handle in held.values():
                c.complete(handle=handle)
    left = (
        "SELECT id FROM tasks WHERE status NOT IN ('DONE', 'CANCELLED') AND NOT EXISTS"
        " (SELECT 1 FROM task_dependencies d JOIN tasks o ON o.id = d.depends_on_task_id"
        " WHERE d.task_id = tasks.id AND o.status = 'CANCELLED')"
    )
    assert arena.rows(url, left) == []
    arena.assert_sound(url)


@pytest.mark.parametrize("race", RACES.values(), ids=RACES.keys())
def test_counts_stay_right_and_nothing_is_hidden_while(board_url: str, race: Race) -> None:
    """Guards: edges are turned by compare-and-set and counted after the status change; adding one holds the dependency.

    200 barrier rounds. What breaks without each of them: `test_it_is_noticed_…`.
    """
    play(board_url, race)


# --- the same races with a guard taken out ----------------------------------------------------------------------------

# A count that is made anew sees its snapshot from before it waited, not what the other has just committed.
_anew = r"unmet_dependencies ?= ?\(?tasks\.unmet_dependencies [-+] 1\)?"
_count = "unmet_dependencies = (SELECT count(*) FROM task_dependencies d WHERE d.task_id = tasks.id AND d.met IS false)"
COUNTED_ANEW = arena.together(
    *(arena.cut(f"dependents_{verb}", _anew, put=_count) for verb in ("release", "count_down", "count_up"))
)
BOTH = ("sqlite", "postgresql")
NOTICED: dict[str, tuple[str, str, Weakness]] = {
    "the dependency may change while an edge to it is added": (
        "postgresql",
        "an edge is added while its dependency completes",
        arena.together(arena.cut("task_share", r" FOR SHARE"), arena.slow_before("dependents_count_up", 0.01)),
    ),
    "a removed edge is subtracted whether met or not": (
        "both",
        "an edge is removed while its dependency completes",
        arena.cut("edge_delete", r"RETURNING (task_dependencies\.)?met", put="RETURNING false"),
    ),
    "unmet edges are counted anew when two complete": ("postgresql", "two dependencies complete", COUNTED_ANEW),
    "unmet edges are counted anew when one is reopened": (
        "postgresql",
        "one dependency is reopened while the other completes",
        COUNTED_ANEW,
    ),
    "what is met already is met again": (
        "both",
        "one dependency is reopened while the other completes",
        arena.cut("edges_unmeet", r" AND task_dependencies\.met IS true", put=" OR true"),
    ),
    "a completion looks at the handle no more": (
        "both",
        "a dependency is cancelled while it completes",
        arena.cut("claim_complete", r" AND tasks\.status \|\| '' = .* AND tasks\.assigned_agent = :agent"),
    ),
    "edges are forgotten at completion": (
        "sqlite",
        "two dependencies complete in two batches of opposite order",
        arena.cut("edges_meet", r"WHERE ", put="WHERE false AND "),
    ),
    "edges are forgotten at a completion on a server": (
        "postgresql",
        "two dependencies complete in two batches of opposite order",
        arena.cut("dependents_release", r"WHERE (?=task_dependencies)", put="WHERE false AND "),
    ),
}


@pytest.mark.parametrize(
    ("engine", "guard"),
    [(engine, guard) for guard, (where, *_) in NOTICED.items() for engine in BOTH if where in ("both", engine)],
    indirect=["engine"],
)
def test_it_is_noticed_when(noticed: Noticed, guard: str) -> None:
    """Where SQLite's one writer is guard enough, only Postgres is asked."""
    _, race, weakness = NOTICED[guard]
    noticed(lambda url: play(url, RACES[race], count=60, weakness=weakness))


def add_while_it_ends(url: str, end: str) -> str:
    """An edge is added to a held task, and waits for another's; meanwhile the task ends. What came of the edge."""
    with coordinate.connect(url, agent="a") as c, psycopg.connect(url) as beside, ThreadPoolExecutor() as thread:
        for title in ("ends", "waits for the last", "the last"):
            c.dispatch(title=title, role="worker")
        claim = c.claim_task(task="TASK-1")
        c.using(beside).depend_add(task="TASK-2", on="TASK-3")
        adding = thread.submit(c.depend_add, task="TASK-1", on="TASK-3")
        arena.await_blocked(url, beside.info.backend_pid)
        c.complete(handle=claim) if end == "complete" else c.cancel(task="TASK-1")
        beside.commit()
        refused = adding.exception(30)
    assert arena.rows(url, "SELECT task_id FROM task_dependencies ORDER BY task_id") == (
        [("TASK-2",)] if refused else [("TASK-1",), ("TASK-2",)]
    )
    arena.assert_sound(url)
    return "" if refused is None else str(refused)


@pytest.mark.parametrize("end", ["complete", "cancel"])
def test_no_edge_is_added_to_a_task_that_ended_while_the_edge_waited(postgres_board: str, end: str) -> None:
    """Guard: the dependent is locked and looked at again, behind the lock that it waited for."""
    assert "waits for nothing" in add_while_it_ends(postgres_board, end)


def test_an_edge_that_is_added_to_what_ended_is_noticed(postgres_board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dependencies, "_refuse_finished", lambda row: None)
    assert add_while_it_ends(postgres_board, "complete") == ""


# --- circles ----------------------------------------------------------------------------------------------------------


def play_circle(url: str, size: int, *, count: int = 100, weakness: Weakness | None = None) -> None:
    """Each of `size` tasks is made to wait for the next one, at one moment."""
    with arena.setting_up(url) as c:
        ids = arena.dispatch_many(c, count * size)
    rings = [ids[start : start + size] for start in range(0, len(ids), size)]
    scripts = [
        [("depend_add", {"task": ring[place], "on": ring[(place + 1) % size]}) for ring in rings]
        for place in range(size)
    ]
    answers = arena.rounds(url, *scripts, weakness=weakness)
    refused = [[answer.code for answer in said if not answer.ok] for said in answers]
    assert refused == [["dependency_cycle"]] * count
    assert arena.rows(url, "SELECT count(*) FROM task_dependencies") == [(count * (size - 1),)]
    arena.assert_sound(url)


@pytest.mark.parametrize("size", [2, 3])
def test_of_edges_that_would_close_a_circle_together_one_is_refused(board_url: str, size: int) -> None:
    """QL-08, 100 rounds. Guard: one lock per board for adding edges; on SQLite the one writer."""
    play_circle(board_url, size)


def test_a_circle_that_closes_is_noticed(noticed: Noticed, engine: str) -> None:
    unguarded = {
        "sqlite": arena.no_transactions,
        # Without the others, the two would deadlock on the rows they share, and one of them be refused after all.
        "postgresql": arena.together(
            arena.replaced("lock_edges", "SELECT true"),
            arena.cut("task_share", " FOR SHARE"),
            arena.cut("task_lock", " FOR UPDATE"),
        ),
    }
    weakness = arena.together(unguarded[engine], arena.slow_before("edge_insert", 0.01))
    noticed(lambda url: play_circle(url, 2, count=40, weakness=weakness))


# --- in one order -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Meeting:
    """What is done while another has the row `first`, and the row that must still be `free` then; `weakness` turns the
    order about. Of TASK-1 and TASK-2 each is waited for by one of TASK-3 and TASK-4, the first by the last, and TASK-1
    also by TASK-9 and TASK-10; they are held by `a`."""

    act: Callable[[Coordinator], object]
    first: str
    free: str
    weakness: Weakness
    before: Callable[[Coordinator], object] = lambda c: None


def backwards(statement: str) -> Weakness:
    return arena.cut(statement, r"(ORDER BY \w+\.number)", put=r"\1 DESC")


BOTH_TASKS = ["TASK-1@1", "TASK-2@1"]


def submit_both(c: Coordinator) -> None:
    c.complete_batch(handles=BOTH_TASKS, review=True)


def ask_about_both(c: Coordinator) -> None:
    for task in ("TASK-2", "TASK-1"):
        ask = c.ask(title="Look?", action_owner="task", impact="none", task=task).ask.id
        c.respond(ask=ask, kind="handled", agent="ann")
    c.pending()


MEETINGS = {
    "one is completed that several wait for": Meeting(
        lambda c: c.complete(handle="TASK-1@1"), "TASK-9", "TASK-10", backwards("dependents_release")
    ),
    "one is reopened that several waited for": Meeting(
        lambda c: c.reopen(task="TASK-1"),
        "TASK-9",
        "TASK-10",
        backwards("dependents_count_up"),
        before=lambda c: c.complete(handle="TASK-1@1"),
    ),
    "several are completed": Meeting(
        lambda c: c.complete_batch(handles=BOTH_TASKS), "TASK-3", "TASK-4", backwards("tasks_lock_along")
    ),
    "several are approved": Meeting(
        lambda c: c.approve_all(agent="b"), "TASK-3", "TASK-4", backwards("tasks_lock_along"), before=submit_both
    ),
    "several are completed that a human was asked about": Meeting(
        lambda c: c.complete_batch(handles=BOTH_TASKS),
        "ASK-1",
        "ASK-2",
        arena.cut("asks_lock", r"ORDER BY asks\.number", put="ORDER BY asks.number DESC"),
        before=ask_about_both,
    ),
    "an edge is removed": Meeting(
        lambda c: c.depend_remove(task="TASK-4", on="TASK-1"),
        "TASK-4",
        "edge",
        arena.cut("task_lock", " FOR UPDATE"),
    ),
}


def meet(url: str, meeting: Meeting, weakness: Weakness | None = None) -> None:
    waits = {2: [1], 3: [0], 8: [0], 9: [0]}
    with arena.setting_up(url, agent="a") as c:
        tasks = arena.dispatch_many(c, 10, waits=waits)
        for task in tasks[:2]:
            c.claim_task(task=task)
        meeting.before(c)
        c.set_priority(tasks=["TASK-9", "TASK-3"], priority=1)  # so that they lie behind the others

    def act(go: Go) -> None:
        with coordinate.connect(url, agent="a") as c:
            go()
            meeting.act(c)

    def have(go: Go) -> bool:
        table = "asks" if meeting.first.startswith("ASK") else "tasks"
        look = f"SELECT 1 FROM {table} WHERE id = '{meeting.free}' FOR UPDATE SKIP LOCKED"
        if meeting.free == "edge":
            look = "SELECT 1 FROM task_dependencies WHERE task_id = 'TASK-4' FOR UPDATE SKIP LOCKED"
        with psycopg.connect(url) as having:
            having.execute(f"SELECT 1 FROM {table} WHERE id = '{meeting.first}' FOR UPDATE".encode())
            go()
            arena.await_blocked(url, having.info.backend_pid)
            return arena.rows(url, look) == [(1,)]

    assert arena.run([act, have], weakness=weakness) == [None, True]
    arena.assert_sound(url)


@pytest.mark.parametrize("meeting", MEETINGS.values(), ids=MEETINGS.keys())
def test_no_circle_of_locks_closes_when(postgres_board: str, meeting: Meeting) -> None:
    """Whoever waits for a row has none that its owner may come to want: all take them in one order.

    A deadlock would be resolved and tried again, after a second in which nobody gets on.
    """
    meet(postgres_board, meeting)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize(
    "name", ["one is completed that several wait for", "several are completed", "an edge is removed"]
)
def test_another_order_is_noticed_when(noticed: Noticed, name: str) -> None:
    noticed(lambda url: meet(url, MEETINGS[name], MEETINGS[name].weakness))
