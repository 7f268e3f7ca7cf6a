"""A random walk over tasks with scopes, worktrees and sessions: whatever is refused, what must always hold does."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress

import pytest

import coordinate
from coordinate import Coordinator, paths
from coordinate.errors import CoordinateError
from tests.clock import age
from tests.tables import ask, assert_sound_over, connect

STEPS = {"sqlite": 1_000, "postgresql": 300}
# Within each set nothing overlaps: what overlaps was granted to two.
SETS = [["src"], ["src/app.py"], ["src/*.py", "lib"], ["docs"], ["docs/a.md", "src"], ["docs", "src/app.py"], ["lib"]]

UNBOUND = """
    SELECT t.id, s.pattern FROM tasks t JOIN task_scopes s ON s.task_id = t.id
     WHERE t.status = 'IN_PROGRESS' AND NOT EXISTS (SELECT 1 FROM leases l WHERE l.task_id = t.id
           AND l.resource = s.pattern AND l.project = t.project AND l.mode = 'exclusive' AND l.released_at IS NULL
           AND (l.worktree_id IS NOT NULL OR l.attempt = t.attempt AND l.expires_at >= t.lease_until))"""
HOLDING = "SELECT id, id || '@' || attempt, assigned_agent FROM tasks WHERE status = 'IN_PROGRESS' ORDER BY number"
HELD = """
    SELECT agent, session_id, task_id, project, resource, mode, id FROM leases
     WHERE kind = 'scope' AND released_at IS NULL"""
LIVE = {
    "sqlite": HELD + " AND (expires_at IS NULL OR expires_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))",
    "postgresql": HELD + " AND (expires_at IS NULL OR expires_at > clock_timestamp())",
}


def moves(
    url: str, doors: list[Coordinator], held: list[tuple[str, str, str]], chance: random.Random
) -> list[Callable[[], object]]:
    """What somebody may do next: holders mostly what is theirs, and anybody whatever chance says."""
    who = holder = chance.choice(doors)
    task = handle = f"TASK-{chance.randint(1, 6)}"
    if held and chance.random() < 0.8:
        task, handle, agent = chance.choice(held)
        holder = chance.choice([door for door in doors if door.agent == agent])
    some = chance.choice(SETS)
    project = chance.choice(["default", "default", "p"])
    other = chance.choice(["alice", "bob"])

    def late_and_taken() -> object:
        age(url, 70)
        who.claim_scopes(patterns=some)
        return holder.log_progress(handle=handle, note="n")

    return [
        *[late_and_taken] * 3,
        *[lambda: who.claim_next(role="worker", lease_seconds=60)] * 2,
        lambda: who.claim_next(role="worker", project=project),
        lambda: who.claim_task(task=task),
        lambda: who.claim_scopes(patterns=some, ttl_seconds=chance.choice([1, 60, 900]), project=project),
        lambda: who.claim_scopes(patterns=some, mode="shared"),
        lambda: holder.claim_scopes(patterns=some, task=handle, ttl_seconds=chance.choice([1, 900])),
        lambda: holder.claim_scopes(patterns=some, task=handle, mode="shared"),
        lambda: who.release_leases(patterns=some),
        lambda: who.release_leases(every=True),
        lambda: who.release_leases(fences=[chance.randint(1, 40)]),
        *[lambda: holder.log_progress(handle=handle, note="n")] * 3,
        lambda: holder.complete(handle=handle, review=chance.random() < 0.5),
        lambda: holder.release(handle=handle),
        lambda: holder.transfer(handle=handle, to=other),
        lambda: who.reject(task=task, reason="r", agent="rita"),
        lambda: who.reopen(task=task),
        lambda: who.cancel(task=task) if chance.random() < 0.3 else None,
        lambda: who.unblock(task=task),
        lambda: who.edit(task=task, scopes=some, project=project),
        lambda: who.set_project(tasks=[task], project=project),
        lambda: holder.open_worktree(task=handle, branch="b", root="/r", patterns=chance.choice([[], some])),
        lambda: holder.close_worktree(task=task, aborted=chance.random() < 0.5, force=chance.random() < 0.3),
        lambda: who.adopt_worktree(task=task),
        who.heartbeat,
        who.sweep,
        *[lambda: age(url, chance.choice([20, 70, 70, 700]))] * 3,
    ]


def assert_held_apart(found: list[tuple[str, ...]]) -> None:
    """No two live scopes overlap, unless both share, or they are one session's or one task's."""
    for a, b in itertools.combinations(found, 2):
        own = (a[1] is not None and a[1] == b[1]) or (a[2] is not None and a[2] == b[2])
        shared = a[5] == b[5] == "shared"
        assert own or shared or a[3] != b[3] or not paths.overlaps(a[4], b[4]), (a, b)


@pytest.mark.parametrize("seed", [1, 2])
def test_held_tasks_have_their_scopes_and_no_two_holders_overlap(board_url: str, engine: str, seed: int) -> None:
    chance = random.Random(seed)
    with ExitStack() as stack:
        tables = stack.enter_context(closing(connect(board_url)))
        board = stack.enter_context(coordinate.connect(board_url, agent="manager"))
        doors = []
        for agent in ("alice", "alice", "bob"):
            session = board.register(name=agent, ttl_seconds=600).id
            doors.append(stack.enter_context(coordinate.connect(board_url, agent=agent, session=session)))
        doors.append(stack.enter_context(coordinate.connect(board_url, agent="bob")))
        for _ in range(6):
            board.dispatch(title="T", role="worker", scopes=chance.choice([[], *SETS]), max_attempts=99)
        done = 0
        for step in range(STEPS[engine]):
            with suppress(CoordinateError):
                done += chance.choice(moves(board_url, doors, ask(tables, HOLDING), chance))() is not None
            assert ask(tables, UNBOUND) == [], f"step {step}"
            assert_held_apart(ask(tables, LIVE[engine]))
            assert_sound_over(tables)
        assert done > STEPS[engine] // 6, "the walk got nowhere"
