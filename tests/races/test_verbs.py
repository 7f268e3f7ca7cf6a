"""Two verbs on one task at one moment: exactly one of them happens, the other is told; and numbers have no gaps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import psycopg
import pytest

import coordinate
from coordinate.db.compiled import Library
from coordinate.service import Coordinator
from tests.races import arena
from tests.races.arena import Call, Noticed, Weakness

pytestmark = pytest.mark.race

ROUNDS = 100


@dataclass(frozen=True)
class Duel:
    """Where the task is brought first, the two calls, what the loser is told, and how history names the winners."""

    bring: Callable[[Coordinator, str], None]
    calls: tuple[Callable[[str, str], Call], Callable[[str, str], Call]]
    losers: tuple[set[str], set[str]]
    actions: tuple[str, str]


def nowhere(c: Coordinator, handle: str) -> None:
    """Held it is."""


def into_review(c: Coordinator, handle: str) -> None:
    c.complete(handle=handle, review=True)


def into_blocked(c: Coordinator, handle: str) -> None:
    c.block(handle=handle, reason="no key")


def complete(task: str, handle: str) -> Call:
    return "complete", {"handle": handle}


def cancel(task: str, handle: str) -> Call:
    return "cancel", {"task": task}


def transfer(task: str, handle: str) -> Call:
    return "transfer", {"handle": handle, "to": "heir"}


def approve(task: str, handle: str) -> Call:
    return "approve", {"task": task, "agent": "judge"}


def reject(task: str, handle: str) -> Call:
    return "reject", {"task": task, "reason": "no tests", "agent": "jury"}


def unblock(task: str, handle: str) -> Call:
    return "unblock", {"task": task}


DUELS = {
    "approve and reject": Duel(
        into_review, (approve, reject), ({"invalid_state"}, {"invalid_state"}), ("APPROVE", "REJECT")
    ),
    "complete and cancel": Duel(
        nowhere, (complete, cancel), ({"stale_claim"}, {"invalid_state"}), ("COMPLETE", "CANCEL")
    ),
    "transfer and complete": Duel(
        nowhere, (transfer, complete), ({"stale_claim"}, {"stale_claim"}), ("TRANSFER", "COMPLETE")
    ),
    "unblock twice": Duel(
        into_blocked, (unblock, unblock), ({"invalid_state"}, {"invalid_state"}), ("UNBLOCK", "UNBLOCK")
    ),
}


def prepare(url: str, count: int, bring: Callable[[Coordinator, str], None]) -> dict[str, str]:
    with arena.setting_up(url, agent="racer") as c:
        arena.dispatch_many(c, count)
        held = arena.claim_all(c)
        for handle in held.values():
            bring(c, handle)
    return held


def play(url: str, duel: Duel, *, count: int = ROUNDS, weakness: Weakness | None = None) -> None:
    held = prepare(url, count, duel.bring)
    scripts = [[call(task, handle) for task, handle in held.items()] for call in duel.calls]
    answers = arena.rounds(url, *scripts, weakness=weakness)
    for task, said in zip(held, answers, strict=True):
        assert sum(answer.ok for answer in said) == 1, f"{task}: {said}"
        for answer, losing in zip(said, duel.losers, strict=True):
            assert answer.ok or answer.code in losing, f"{task}: {said}"
    winners = Counter(
        (task, action)
        for task, said in zip(held, answers, strict=True)
        for answer, action in zip(said, duel.actions, strict=True)
        if answer.ok
    )
    listed = ", ".join(f"'{action}'" for action in duel.actions)
    told = Counter(arena.rows(url, f"SELECT task_id, action FROM history WHERE action IN ({listed})"))
    assert told == winners
    arena.assert_sound(url)


@pytest.mark.parametrize("duel", DUELS.values(), ids=DUELS.keys())
def test_of_two_at_once_exactly_one_happens(board_url: str, duel: Duel) -> None:
    """Guard: the statement that moves the task looks where it stands, or at the handle; see `test_it_is_noticed_…`."""
    play(board_url, duel)


# The row is not locked, where it stands is looked at too early, and the moving statement does not look again.
BLIND = {
    "approve and reject": arena.together(
        arena.cut("task_approve", r" AND tasks\.status \|\| '' = 'IN_REVIEW'"),
        arena.cut("task_reject", r" AND tasks\.status \|\| '' = 'IN_REVIEW'"),
        arena.slow_before("task_approve", 0.01),
        arena.slow_before("task_reject", 0.01),
    ),
    "complete and cancel": arena.cut(
        "claim_complete", r" AND tasks\.status \|\| '' = .* AND tasks\.assigned_agent = :agent"
    ),
    "transfer and complete": arena.cut(
        "claim_complete", r" AND tasks\.status \|\| '' = .* AND tasks\.assigned_agent = :agent"
    ),
    "unblock twice": arena.together(
        arena.cut("task_unblock", r" AND tasks\.status \|\| '' = 'BLOCKED'"), arena.slow_before("task_unblock", 0.01)
    ),
}


@pytest.mark.parametrize("duel", DUELS)
def test_it_is_noticed_when_nobody_looks_where_the_task_stands(noticed: Noticed, engine: str, duel: str) -> None:
    blind = BLIND[duel]
    if "cancel" not in duel and "transfer" not in duel:
        early = {"sqlite": arena.no_transactions, "postgresql": arena.cut("task_lock", " FOR UPDATE")}
        blind = arena.together(blind, early[engine])
    noticed(lambda url: play(url, DUELS[duel], count=40, weakness=blind))


def test_completing_twice_with_one_handle_is_one_completion(board_url: str) -> None:
    """Guard: the handle is looked at in the statement that finishes; who comes second is answered `already`."""
    held = prepare(board_url, ROUNDS, nowhere)
    calls = [complete(task, handle) for task, handle in held.items()]
    for said in arena.rounds(board_url, calls, calls):
        assert all(answer.ok for answer in said)
        assert sorted(answer.value.already for answer in said) == [False, True]
    assert arena.rows(board_url, "SELECT count(*) FROM history WHERE action = 'COMPLETE'") == [(ROUNDS,)]
    arena.assert_sound(board_url)


# --- numbers ----------------------------------------------------------------------------------------------------------


def numbers(url: str) -> list[int]:
    return [int(number) for (number,) in arena.rows(url, "SELECT number FROM tasks ORDER BY number")]


def play_dispatch(url: str, *, weakness: Weakness | None = None) -> None:
    """16 processes dispatch at once, every fourth time something that is refused half-way."""
    fine = ("dispatch", {"title": "One", "role": "worker"})
    refused = ("dispatch", {"title": "One", "role": "worker", "depends_on": ["TASK-100000"]})
    script = [fine, fine, refused, fine] * 5
    answers = arena.rounds(url, *[script] * 16, weakness=weakness)
    got = sorted(answer.value.task.number for said in answers for answer in said if answer.ok)
    assert {answer.code for said in answers for answer in said if not answer.ok} == {"not_found"}
    assert got == numbers(url) == list(range(1, 16 * 15 + 1))


def test_16_processes_dispatch_without_a_gap_or_a_number_given_twice(board_url: str) -> None:
    """Guard: the counter's row stays locked until the transaction ends, and a refused one gives its numbers back."""
    play_dispatch(board_url)


def test_a_counter_that_is_read_before_it_is_written_is_noticed(noticed: Noticed, engine: str) -> None:
    read = {
        "sqlite": "SELECT value + :count AS value, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now"
        " FROM counters WHERE kind = :kind",
        "postgresql": "SELECT value + CAST(:count AS bigint) AS value, clock_timestamp() AS now"
        " FROM counters WHERE kind = :kind",
    }
    noticed(lambda url: play_dispatch(url, weakness=arena.replaced("counter_take", read[engine])))


def play_dedup(url: str, *, count: int, weakness: Weakness | None = None) -> None:
    script = [("dispatch", {"title": "One", "role": "worker", "dedup_key": f"key {number}"}) for number in range(count)]
    answers = arena.rounds(url, *[script] * 8, weakness=weakness)
    for said in answers:
        assert all(answer.ok for answer in said), {answer.code for answer in said}
        assert len({answer.value.task.id for answer in said}) == 1
        assert sum(not answer.value.already for answer in said) == 1
    assert numbers(url) == list(range(1, count + 1))


def test_one_dedup_key_dispatched_by_8_processes_makes_one_task_and_no_gap(board_url: str) -> None:
    """Guard: the key is looked for again once the counter's row is locked."""
    play_dedup(board_url, count=ROUNDS)


def test_a_dedup_key_that_is_looked_for_too_early_is_noticed(noticed: Noticed, engine: str) -> None:
    def look_once() -> None:
        from coordinate.work import tasks

        look = tasks._already_dispatched
        seen: list[int] = []

        def once(tx: object, news: object) -> object:
            if id(tx) in seen:
                return {}
            seen[:] = [id(tx)]
            return look(tx, news)  # type: ignore[arg-type]

        tasks._already_dispatched = once  # type: ignore[assignment]

    weakness = arena.together(look_once, arena.no_transactions) if engine == "sqlite" else look_once
    noticed(lambda url: play_dedup(url, count=20, weakness=weakness))


# --- reviews ----------------------------------------------------------------------------------------------------------


def review_of_ones_own(url: str) -> str | None:
    """Rita looks for a review; before her look has the row, she has done the next round of the work herself."""
    waits = "WHERE pg_advisory_xact_lock_shared(7) IS NOT NULL AND tasks.status = 'IN_REVIEW'"
    arena.cut("review_pick", r"WHERE tasks\.status = 'IN_REVIEW'", put=waits)()
    with coordinate.connect(url, agent="rita") as c, psycopg.connect(url) as beside, ThreadPoolExecutor() as thread:
        c.dispatch(title="t", role="worker")
        c.complete(handle=c.claim_next(role="worker", agent="bob"), review=True, agent="bob")
        beside.execute("SELECT pg_advisory_xact_lock(7)")
        looking = thread.submit(c.claim_review)
        arena.await_blocked(url, beside.info.backend_pid)
        c.reject(task="TASK-1", reason="again", agent="sam")
        c.complete(handle=c.claim_next(role="worker"), review=True)
        beside.commit()
        found = looking.result(30)
    return None if found is None else found.reviewer


@pytest.fixture
def weakened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to statements of its own process is undone behind it."""
    monkeypatch.setattr(Library, "__getitem__", Library.__getitem__)


@pytest.mark.usefixtures("weakened")
def test_nobody_reserves_the_review_of_what_they_did_while_they_looked(postgres_board: str) -> None:
    """Guard: once the row is locked, a later statement asks who worked on it."""
    assert review_of_ones_own(postgres_board) is None


@pytest.mark.usefixtures("weakened")
def test_a_review_of_ones_own_work_is_noticed(postgres_board: str) -> None:
    arena.cut("review_claim", r" AND NOT \(EXISTS .*\)(?= RETURNING)")()
    assert review_of_ones_own(postgres_board) == "rita"
