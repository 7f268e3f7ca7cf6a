"""Random calls about scopes, sessions and tasks with scopes, beside a plain model of the rules that says the answer.

Both engines may be wrong alike, and what always holds may hold of a wrong answer: so each answer, and every lease and
task after it, is what the model says. Time goes in steps that no length of a lease, nor half of one, is near to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from typing import Any

import pytest

import coordinate
from coordinate import Coordinator
from coordinate.errors import CoordinateError
from tests.clock import age
from tests.tables import ask, connect

STEPS = {"sqlite": 400, "postgresql": 150}
SETS = (["src"], ["src/a"], ["docs", "src/b"], ["docs"], ["."], ["lib", "src/a"])


@dataclass(eq=False)
class Run:
    """A session, or (of 0 seconds) an agent without one."""

    agent: str
    door: Coordinator
    id: str | None = None
    seconds: int = 0
    seen: int = 0
    stale: bool = False
    signed: bool = False


@dataclass(eq=False)
class Task:
    id: str
    scopes: list[str]
    by: Run | None = None
    until: int = 0
    seconds: int = 0
    attempts: int = 0


@dataclass(eq=False)
class Lease:
    fence: int
    resource: str
    mode: str
    by: Run
    until: int
    seconds: int
    task: Task | None
    ended: str = ""

    def meets(self, patterns: Iterable[str]) -> bool:
        return any(
            "." in (self.resource, each)
            or f"{self.resource}/".startswith(f"{each}/")
            or f"{each}/".startswith(f"{self.resource}/")
            for each in patterns
        )


@dataclass
class Model:
    """The rules. What answers a call answers what the board must answer: a result, or the code of a refusal."""

    tasks: list[Task]
    runs: list[Run] = field(default_factory=list)
    leases: list[Lease] = field(default_factory=list)
    now: int = 0

    def lasts(self, lease: Lease) -> bool:
        """The scopes of a task last as long as its hold, which may be renewed until somebody has ended it."""
        return lease.task is not None or lease.until > self.now

    def held(self) -> list[Lease]:
        return [each for each in self.leases if not each.ended]

    def own(self, by: Run) -> list[Lease]:
        return [each for each in self.held() if by.seconds and each.by is by and each.task is None]

    def others(self, by: Run, patterns: list[str]) -> list[Lease]:
        return [each for each in self.held() if each.meets(patterns) and not (by.seconds and each.by is by)]

    def end(self, leases: Iterable[Lease], why: str) -> None:
        for each in leases:
            each.ended = each.ended or why

    def grant(self, by: Run, pattern: str, mode: str, seconds: int, task: Task | None = None) -> int:
        self.leases.append(Lease(len(self.leases) + 1, pattern, mode, by, self.now + seconds, seconds, task))
        return len(self.leases)

    def sign(self, by: Run) -> None:
        """The first call of a session after a while is a sign of life: it renews what is half over, and sweeps."""
        if not by.seconds or by.signed:
            return
        by.signed = True
        holds: list[Lease | Task] = [*self.own(by), *(each for each in self.tasks if each.by is by)]
        half = [each for each in holds if self.now < each.until < self.now + each.seconds / 2]
        if by.stale or by.seen + by.seconds / 4 < self.now or half or not all(map(self.lasts, self.own(by))):
            by.seen, by.stale = self.now, False
            for each in half:
                each.until = self.now + each.seconds
            self.sweep()

    def sweep(self) -> None:
        self.end_stale()
        self.end((each for each in self.held() if not self.lasts(each)), "expired")
        self.take_back(self.tasks)

    def end_stale(self) -> bool:
        silent = [each for each in self.runs if not each.stale and 0 < each.seconds < self.now - each.seen]
        for run in silent:
            run.stale = True
            self.end(self.own(run), "swept")
        return bool(silent)

    def take_back(self, tasks: Iterable[Task]) -> None:
        for task in [each for each in tasks if each.by is not None and each.until <= self.now]:
            self.leave(task, "expired")

    def leave(self, task: Task, why: str) -> None:
        task.by = None
        self.end((each for each in self.leases if each.task is task), why)

    def claim_next(self, by: Run, seconds: int) -> str:
        self.take_back(self.tasks)
        for _ in range(2):
            for task in self.tasks:
                if task.by is None and not any(map(self.lasts, self.others(by, task.scopes))):
                    self.end(self.others(by, task.scopes), "expired")
                    task.by, task.attempts = by, task.attempts + 1
                    task.seconds, task.until = seconds, self.now + seconds
                    for pattern in task.scopes:
                        self.grant(by, pattern, "exclusive", seconds, task)
                    return f"{task.id}@{task.attempts}"
            if not self.end_stale():  # what silent sessions hold is in the way until nothing else is to be had
                break
        return ""

    def hold(self, by: Run, task: Task, verb: str) -> str | None:
        if task.by is None or task.by.agent != by.agent:
            return "stale_claim" if task.by is None else "held_by_another"
        if verb == "release":
            self.leave(task, "released")
        else:
            task.until = max(task.until, self.now + task.seconds)
        return None

    def claim_scopes(self, by: Run, patterns: list[str], mode: str, seconds: int) -> list[int]:
        self.take_back(each.task for each in self.others(by, patterns) if each.task is not None)
        self.end_stale()
        if any("exclusive" in (mode, each.mode) for each in self.others(by, patterns) if self.lasts(each)):
            return []
        self.end((each for each in self.held() if each.meets(patterns) and not self.lasts(each)), "expired")
        mine = [each for each in self.held() if by.seconds and each.by is by and each.mode in (mode, "exclusive")]
        again = {each.resource: each for each in mine if (each.task or each).until > self.now}
        again = {pattern: again[pattern] for pattern in patterns if pattern in again}
        for each in again.values():
            each.until = max(each.until, self.now + seconds)
        fresh = [self.grant(by, each, mode, seconds) for each in patterns if each not in again]
        return sorted([*(each.fence for each in again.values()), *fresh])


class Walk:
    def __init__(self, url: str, seed: int, stack: ExitStack) -> None:
        self.chance, self.url, self.stack = random.Random(seed), url, stack
        self.board = stack.enter_context(coordinate.connect(url, agent="manager"))
        self.tables = stack.enter_context(closing(connect(url)))
        self.model = Model([Task(f"TASK-{number}", self.chance.choice(([], *SETS))) for number in range(1, 7)])
        for task in self.model.tasks:
            self.board.dispatch(title="T", role="w", scopes=task.scopes, max_attempts=1_000)
        for agent, seconds in (("alice", 2_500), ("alice", 12_500), ("bob", 100_500), ("alice", 0), ("carol", 0)):
            self.enter(agent, seconds)

    def enter(self, agent: str, seconds: int) -> None:
        session = self.board.register(name=agent, ttl_seconds=seconds).id if seconds else None
        door = self.stack.enter_context(coordinate.connect(self.url, agent=agent, session=session))
        self.model.runs.append(Run(agent, door, session, seconds, self.model.now))

    def step(self) -> None:
        chance, model = self.chance, self.model
        by, move = chance.choice(model.runs), chance.random()
        if move < 0.15:
            later = chance.choice((1_000, 1_000, 3_000, 10_000))
            age(self.url, later)
            model.now += later
            for run in model.runs:
                run.signed, run.door._next_sign = False, {}
        elif move < 0.17 and by.seconds:
            by.door.end_session()
            model.end(model.own(by), "released")
            model.runs.remove(by)
            self.enter(by.agent, by.seconds)
        else:
            model.sign(by)
            want, call = self.move(by)
            try:
                got = call()
            except CoordinateError as refused:
                got = refused.code
            assert got == want

    def move(self, by: Run) -> tuple[Any, Callable[[], Any]]:
        """What somebody does, as the answer of the model and the call of the board."""
        chance, model, door, more = self.chance, self.model, by.door, dict[str, Any]()
        seconds, mode = chance.choice((1_500, 4_500, 20_500)), chance.choice(("exclusive", "exclusive", "shared"))
        patterns, held = chance.choice(SETS), [each for each in model.tasks if each.by is not None]
        match chance.choice(("claim", "claim", "scopes", "scopes", "hold", "hold", "sweep")):
            case "claim":
                more = {"role": "w", "lease_seconds": seconds}
                return model.claim_next(by, seconds), lambda: "".join(
                    each.handle for each in door.claim_batch(count=1, **more)
                )
            case "scopes":
                more = {"patterns": patterns, "mode": mode, "ttl_seconds": seconds}
                answer = model.claim_scopes(by, patterns, mode, seconds)
                return answer, lambda: sorted(each.fence for each in door.claim_scopes(**more).leases)
            case "hold" if held:
                task, verb = chance.choice(held), chance.choice(("release", "extend_lease"))
                more = {"handle": f"{task.id}@{task.attempts}"}
                return model.hold(by, task, verb), lambda: getattr(door, verb)(**more) and None
        return model.sweep(), lambda: door.sweep() and None

    def compare(self) -> None:
        leases = "SELECT fence, resource, mode, agent, session_id, task_id, coalesce(release_reason, '') FROM leases"
        assert ask(self.tables, leases + " ORDER BY fence") == [
            (each.fence, each.resource, each.mode, each.by.agent, each.by.id, each.task and each.task.id, each.ended)
            for each in self.model.leases
        ]
        assert ask(self.tables, "SELECT assigned_agent, session_id, attempt FROM tasks ORDER BY number") == [
            (each.by and each.by.agent, each.by and each.by.id, each.attempts) for each in self.model.tasks
        ]


@pytest.mark.parametrize("seed", [3, 4])
def test_every_answer_is_what_the_rules_say(board_url: str, engine: str, seed: int) -> None:
    with ExitStack() as stack:
        walk = Walk(board_url, seed, stack)
        for _ in range(STEPS[engine]):
            walk.step()
            walk.compare()
