"""Random walks: three agents do whatever comes to mind, and a small model of the rules says what must come of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

import coordinate
from coordinate.errors import CoordinateError
from coordinate.states import FINAL, LIVE, MOVE
from tests.clock import age
from tests.conftest import create_board_on_postgres
from tests.tables import ask, assert_sound_over, connect

AGENTS = ("alice", "bob", "carol")


@dataclass
class Task:
    """What the model knows of a task. An attempt is (agent, outcome); the last one is open while outcome is ''."""

    number: int
    priority: int
    max_attempts: int
    status: str = "TODO"
    attempts: list[tuple[str, str]] = field(default_factory=list)
    waits_for: set[int] = field(default_factory=set)
    expired: bool = False
    delayed: bool = False
    expiries: int = 0
    rejected: int = 0
    reviewer: str | None = None

    @property
    def id(self) -> str:
        return f"TASK-{self.number}"

    @property
    def holder(self) -> str | None:
        return self.attempts[-1][0] if self.status == "IN_PROGRESS" else None

    def open(self, agent: str) -> None:
        self.attempts.append((agent, ""))
        self.status, self.expired = "IN_PROGRESS", False

    def close(self, outcome: str, status: str) -> None:
        self.attempts[-1] = (self.attempts[-1][0], outcome)
        self.status, self.expired = status, False

    def worked(self, agent: str) -> bool:
        return agent in [each for each, _ in self.attempts[self.rejected :]]


class Model:
    """The rules, as plain as they can be said. Every verb answers what the board must answer: a result or a code."""

    def __init__(self) -> None:
        self.tasks: dict[int, Task] = {}

    def queue(self) -> list[Task]:
        return sorted(self.tasks.values(), key=lambda task: (task.priority, task.number))

    def unmet(self, task: Task) -> int:
        return sum(self.tasks[number].status != "DONE" for number in task.waits_for)

    def reaches(self, start: int, goal: int) -> bool:
        return start == goal or any(self.reaches(number, goal) for number in self.tasks[start].waits_for)

    def dispatch(self, priority: int, max_attempts: int, on: list[int]) -> str:
        if any(self.tasks[number].status == "CANCELLED" for number in on):
            return "unreachable_dependency"
        task = Task(len(self.tasks) + 1, priority, max_attempts, waits_for=set(on))
        self.tasks[task.number] = task
        return task.id

    def take_back(self, task: Task) -> None:
        task.expiries += 1
        task.close("expired", "BLOCKED" if task.expiries >= task.max_attempts else "TODO")

    def claim_next(self, agent: str, count: int) -> str:
        for task in self.tasks.values():
            if task.status == "IN_PROGRESS" and task.expired:
                self.take_back(task)
        ready = [t for t in self.queue() if t.status == "TODO" and not self.unmet(t) and not t.delayed][:count]
        for task in ready:
            task.open(agent)
        return ",".join(f"{task.id}@{len(task.attempts)}" for task in ready)

    def claim_task(self, agent: str, task: Task) -> str:
        if task.status == "IN_PROGRESS" and task.expired:
            self.take_back(task)
        if task.status == "IN_PROGRESS":
            return "held_by_another"
        if task.status != "TODO":
            return "invalid_state"
        if self.unmet(task):
            return "unmet_dependencies"
        if task.delayed:
            return "not_ready"
        task.open(agent)
        return f"{task.id}@{len(task.attempts)}"

    def hold(self, agent: str, task: Task, attempt: int, verb: str) -> str:
        """A holder's verb with a handle: `ok`, `already`, or why not."""
        if task.status == "IN_PROGRESS" and attempt == len(task.attempts):
            return "ok" if agent == task.holder else "held_by_another"
        move = MOVE.get(verb)
        if (
            move is not None
            and task.status == move.target
            and attempt == len(task.attempts)
            and task.attempts[-1] == (agent, move.outcome)
        ):
            return "already"
        return "stale_claim"

    def judge(self, agent: str, task: Task) -> str:
        if task.status != "IN_REVIEW":
            return "invalid_state"
        if task.reviewer not in (None, agent):
            return "held_by_another"
        return "self_review" if task.worked(agent) else "ok"


def outcome(call: Callable[[], Any]) -> str:
    try:
        answer = call()
    except CoordinateError as error:
        return error.code
    if getattr(answer, "already", False):
        return "already"
    return "ok"


class Walk(RuleBasedStateMachine):
    new_board: Callable[[], Any]  # set by the test: a context manager that gives a fresh board's address

    def __init__(self) -> None:
        super().__init__()
        self.closing = ExitStack()
        self.url = self.closing.enter_context(type(self).new_board())
        self.board = self.closing.enter_context(coordinate.connect(self.url))
        self.tables = self.closing.enter_context(closing(connect(self.url)))
        self.model = Model()

    def teardown(self) -> None:
        self.closing.close()

    agents = st.sampled_from(AGENTS)
    picks = st.integers(0, 1000)
    aims = st.integers(0, 3)  # 0 is not aimed at all

    def pick(self, number: int) -> Task:
        return self.model.tasks[number % max(1, len(self.model.tasks)) + 1]

    def aimed(self, number: int, aim: int, *statuses: str) -> Task:
        """Mostly a task at one of these statuses, so that walks get somewhere; now and then any."""
        there = [task for task in self.model.tasks.values() if task.status in statuses]
        return there[number % len(there)] if aim and there else self.pick(number)

    # --- the queue ---

    @initialize()
    def begin(self) -> None:
        for number, on in enumerate(([], [], [1], [1, 2], [])):
            self.dispatch(priority=number % 2, attempts=2, on=[each - 1 for each in on])

    @precondition(lambda self: len(self.model.tasks) < 8)
    @rule(priority=st.integers(0, 2), attempts=st.integers(1, 3), on=st.lists(picks, max_size=2))
    def dispatch(self, priority: int, attempts: int, on: list[int]) -> None:
        numbers = sorted({self.pick(number).number for number in on})
        want = self.model.dispatch(priority, attempts, numbers)
        try:
            got = self.board.dispatch(
                title="T",
                role="worker",
                priority=priority,
                max_attempts=attempts,
                depends_on=[f"TASK-{number}" for number in numbers],
            ).task.id
        except CoordinateError as error:
            got = error.code
        assert got == want

    @rule(agent=agents, count=st.integers(1, 3))
    def claim_next(self, agent: str, count: int) -> None:
        want = self.model.claim_next(agent, count)
        claims = self.board.claim_batch(role="worker", count=count, agent=agent)
        assert ",".join(claim.handle for claim in claims) == want

    @rule(agent=agents, number=picks, aim=aims)
    def claim_task(self, agent: str, number: int, aim: int) -> None:
        task = self.aimed(number, aim, "TODO", "IN_PROGRESS")
        want = self.model.claim_task(agent, task)
        try:
            got = self.board.claim_task(task=task.id, agent=agent).handle
        except CoordinateError as error:
            got = error.code
        assert got == want

    @rule()
    def time_passes(self) -> None:
        age(self.url, 2_000)
        for task in self.model.tasks.values():
            task.expired, task.delayed, task.reviewer = task.status == "IN_PROGRESS", False, None

    # --- the holder ---

    @rule(
        agent=agents,
        number=picks,
        back=st.sampled_from([0, 0, 0, 0, 1, -1]),
        verb=st.sampled_from(["log_progress", "extend_lease", "complete", "submit", "block", "release", "transfer"]),
        delay=st.booleans(),
        aim=aims,
        again=st.booleans(),
    )
    def hold(self, agent: str, number: int, back: int, verb: str, delay: bool, aim: int, again: bool) -> None:
        task = self.aimed(number, aim, "IN_PROGRESS")
        if aim and task.holder:
            agent, back = task.holder, 0
        attempt = len(task.attempts) - back
        if attempt < 1:
            return
        receiver = AGENTS[(AGENTS.index(agent) + 1) % 3]
        shown: dict[str, Any] = {"handle": f"{task.id}@{attempt}", "agent": agent}
        call: dict[str, Callable[[], Any]] = {
            "log_progress": lambda: self.board.log_progress(note="n", **shown),
            "extend_lease": lambda: self.board.extend_lease(**shown),
            "complete": lambda: self.board.complete(**shown),
            "submit": lambda: self.board.complete(review=True, **shown),
            "block": lambda: self.board.block(reason="r", **shown),
            "release": lambda: self.board.release(after_seconds=600 if delay else None, **shown),
            "transfer": lambda: self.board.transfer(to=receiver, **shown),
        }
        want = self.model.hold(agent, task, attempt, verb)
        assert outcome(call[verb]) == want
        if want != "ok":
            return
        if verb in ("log_progress", "extend_lease"):
            task.expired = False
        else:
            task.close(MOVE[verb].outcome, MOVE[verb].target)
            if verb == "transfer":
                task.open(receiver)
            task.delayed = task.delayed or (verb == "release" and delay)
        if again:
            assert outcome(call[verb]) == self.model.hold(agent, task, attempt, verb)

    # --- anybody ---

    @rule(agent=agents, number=picks, verb=st.sampled_from(["unblock", "unblock", "cancel", "reopen"]), aim=aims)
    def steer(self, agent: str, number: int, verb: str, aim: int) -> None:
        sources = {"unblock": ("BLOCKED",), "cancel": LIVE, "reopen": FINAL}[verb]
        task = self.aimed(number, aim, *sources)
        want = "ok" if task.status in sources else "invalid_state"
        more = {"withdraw_ask": True} if verb == "unblock" else {}
        assert outcome(lambda: getattr(self.board, verb)(task=task.id, agent=agent, **more)) == want
        if want != "ok":
            return
        if verb == "cancel":
            if task.holder:
                task.close("cancelled", "CANCELLED")
            task.status, task.reviewer = "CANCELLED", None
        else:
            task.status, task.expiries = "TODO", 0

    @rule(agent=agents, number=picks, approve=st.booleans(), aim=aims)
    def review(self, agent: str, number: int, approve: bool, aim: int) -> None:
        if aim and not any(task.status == "IN_REVIEW" for task in self.model.tasks.values()):
            self.hold(agent, number, 0, "submit", False, aim, False)
        task = self.aimed(number, aim, "IN_REVIEW")
        want = self.model.judge(agent, task)
        if approve:
            got = outcome(lambda: self.board.approve(task=task.id, agent=agent))
        else:
            got = outcome(lambda: self.board.reject(task=task.id, reason="r", agent=agent))
        assert got == want
        if want == "ok" and approve:
            task.status, task.reviewer = "DONE", None
        elif want == "ok":
            task.status, task.reviewer, task.expiries, task.rejected = "TODO", None, 0, len(task.attempts)

    @rule(agent=agents)
    def claim_review(self, agent: str) -> None:
        free = [t for t in self.model.queue() if t.status == "IN_REVIEW" and t.reviewer is None and not t.worked(agent)]
        found = self.board.claim_review(agent=agent)
        assert (found and found.id) == (free[0].id if free else None)
        if free:
            free[0].reviewer = agent

    @rule(number=picks, on=picks, add=st.booleans(), agent=agents)
    def depend(self, number: int, on: int, add: bool, agent: str) -> None:
        task, other = self.pick(number), self.pick(on)
        if not add:
            want = "ok" if other.number in task.waits_for else "not_found"
        elif task.status in FINAL:
            want = "invalid_state"
        elif self.model.reaches(other.number, task.number):
            want = "dependency_cycle"
        else:
            want = "unreachable_dependency" if other.status == "CANCELLED" else "ok"
        verb = self.board.depend_add if add else self.board.depend_remove
        assert outcome(lambda: verb(task=task.id, on=other.id, agent=agent)) == want
        if want == "ok":
            (task.waits_for.add if add else task.waits_for.remove)(other.number)

    @rule(number=picks, priority=st.integers(0, 2), agent=agents)
    def edit(self, number: int, priority: int, agent: str) -> None:
        task = self.pick(number)
        want = "invalid_state" if task.status in FINAL else "ok"
        assert outcome(lambda: self.board.edit(task=task.id, priority=priority, agent=agent)) == want
        if want == "ok":
            task.priority = priority

    # --- what always holds ---

    @invariant()
    def board_and_model_agree(self) -> None:
        stored = ask(
            self.tables,
            "SELECT id, status, assigned_agent, attempt, expiries, priority, unmet_dependencies, rejected_attempt"
            " FROM tasks ORDER BY number",
        )
        assert stored == [
            (t.id, t.status, t.holder, len(t.attempts), t.expiries, t.priority, self.model.unmet(t), t.rejected)
            for t in self.model.tasks.values()
        ]
        ended = ask(self.tables, "SELECT task_id, attempt, agent, coalesce(outcome, '') FROM attempts")
        assert sorted(ended) == sorted(
            (task.id, number, *attempt)
            for task in self.model.tasks.values()
            for number, attempt in enumerate(task.attempts, 1)
        )

    @invariant()
    def the_tables_are_sound(self) -> None:
        assert_sound_over(self.tables)


@pytest.fixture
def new_board(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], Any]:
    if engine == "sqlite":
        template = request.getfixturevalue("sqlite_template")

        @contextmanager
        def on_sqlite() -> Iterator[str]:
            path = Path(shutil.copy(template, tmp_path / "walk.db"))
            yield str(path)
            for each in tmp_path.glob("walk.db*"):
                each.unlink()

        return on_sqlite
    server, script = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_script")

    @contextmanager
    def on_postgres() -> Iterator[str]:
        with server.schema() as url:
            create_board_on_postgres(url, script)
            yield url

    return on_postgres


@pytest.mark.slow
def test_a_random_walk_never_leaves_the_rules(engine: str, new_board: Callable[[], Any]) -> None:
    """QL-17, QL-08, QL-26 in every mixture: the model agrees, counts are right, attempts only rise."""
    walk = type("WalkOnABoard", (Walk,), {"new_board": staticmethod(new_board)})
    examples = 150 if engine == "sqlite" else 20
    run_state_machine_as_test(
        walk,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )
