"""No task is ever held by two, nobody fails for another's sake, all are served, and a dead holder's task comes back."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db.dialect import SQLite, is_postgres
from coordinate.service import Coordinator
from tests.races import arena
from tests.races.arena import KILLED, Go, Noticed, Weakness

pytestmark = pytest.mark.race

# What decides a claim: the status is looked at; on Postgres also a candidate's row is locked (skipped where somebody is
# at it) and looked at again. There the second half alone is taken away, and only a true race shows it.
BLIND = r"tasks\.status( \|\| '')? = 'TODO' AND "
UNGUARDED = (r" FOR UPDATE SKIP LOCKED", r"(?<=FROM picked\)\)) AND .*(?= RETURNING)")
CLAIMS = ("claim_at_once", "claim_next")
UNGUARDED_CLAIM = {
    "sqlite": arena.together(*(arena.cut(name, BLIND) for name in CLAIMS)),
    "postgresql": arena.together(*(arena.cut(name, *UNGUARDED) for name in CLAIMS)),
}


@dataclass
class Tally:
    """What one worker saw: its claims by handle with when it held them, how long each claim took."""

    held: list[tuple[str, float, float]] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)


def work(c: Coordinator, tally: Tally, *, most: int = 10_000, doomed: Any = None) -> Tally:
    """Claim and complete until every task is done, or `most` claims were made.

    Half of all tasks are left over until the `doomed` are dead and their time is over.
    """
    while len(tally.waited) < most:
        while doomed is not None and doomed.value and len(tally.waited) >= 25:
            time.sleep(0.02)
        began = time.monotonic()
        claim = c.claim_next(role="worker", lease_seconds=600)
        if claim is None:
            if c.stats().by_status.keys() <= {"DONE"}:
                break
            time.sleep(0.05)
            continue
        got = time.monotonic()
        tally.waited.append(got - began)
        assert not c.complete(handle=claim).already
        tally.held.append((claim.handle, got, time.monotonic()))
    return tally


def worker(url: str, number: int, **options: Any) -> Callable[[Go], Tally]:
    def live(go: Go) -> Tally:
        with coordinate.connect(url, agent=f"worker-{number}") as c:
            c.stats()
            go()
            return work(c, Tally(), **options)

    return live


def assert_each_done_once(url: str, tasks: int, tallies: list[Tally]) -> None:
    """By what the workers say (nobody held what another held then) and by what the database says."""
    held = sorted((handle, since, until) for tally in tallies for handle, since, until in tally.held)
    twice = [handle for handle, count in Counter(handle for handle, *_ in held).items() if count > 1]
    assert not twice, f"held by two: {twice[:5]}"
    assert arena.rows(url, "SELECT status, count(*) FROM tasks GROUP BY status") == [("DONE", tasks)]
    arena.assert_sound(url)


def report(record: Callable[[str, object], None], tallies: list[Tally], seconds: float) -> None:
    waited = [each for tally in tallies for each in tally.waited]
    said = {"claims_per_second": round(len(waited) / seconds), **arena.percentiles(waited)}
    said["least_served"] = min(len(tally.held) for tally in tallies)
    print(said)
    for name, value in said.items():
        record(name, value)


def test_50_processes_finish_2000_tasks_each_once_and_all_are_served(board_url: str, record_property: Any) -> None:
    """Guards: the claim's own WHERE and its row lock. (`…_is_noticed` shows that the judge sees when they are gone.)"""
    with arena.setting_up(board_url) as c:
        arena.dispatch_many(c, 2000)
    began = time.monotonic()
    tallies = arena.run([worker(board_url, number) for number in range(50)])
    report(record_property, tallies, time.monotonic() - began)
    assert_each_done_once(board_url, 2000, tallies)
    assert all(tally.held for tally in tallies), "somebody was never served"
    assert arena.rows(board_url, "SELECT count(*) FROM history WHERE action = 'CLAIM'") == [(2000,)]


def test_a_claim_without_its_guard_is_noticed(engine: str, noticed: Noticed) -> None:
    def play(url: str) -> None:
        with arena.setting_up(url) as c:
            arena.dispatch_many(c, 100)
        bodies = [worker(url, number, most=50) for number in range(8)]
        assert_each_done_once(url, 100, arena.run(bodies, weakness=UNGUARDED_CLAIM[engine]))

    noticed(play)


# --- the dead ---------------------------------------------------------------------------------------------------------


def die_after_claim(c: Coordinator, claim: coordinate.records.Claim) -> None:
    arena.kill_myself()


def die_after_renewal(c: Coordinator, claim: coordinate.records.Claim) -> None:
    c.extend_lease(handle=claim)
    arena.kill_myself()


def die_in_the_middle_of_complete(c: Coordinator, claim: coordinate.records.Claim) -> None:
    """All is written, nothing committed."""
    c.database.engine.commit = lambda connection: arena.kill_myself()  # type: ignore[method-assign]
    c.complete(handle=claim)


def die_after_complete(c: Coordinator, claim: coordinate.records.Claim) -> None:
    """Committed, but nobody was told."""
    c.complete(handle=claim)
    arena.kill_myself()


HOLDING = (die_after_claim, die_after_renewal, die_in_the_middle_of_complete)


def doomed(url: str, number: int, *, die: Callable[..., None], after: int, left: Any = None) -> Callable[[Go], Tally]:
    """Dies after so many tasks; `left` counts those who have not yet."""

    def live(go: Go) -> Tally:
        kill = arena.kill_myself

        def tell_and_die() -> None:
            if left is not None:
                with left.get_lock():
                    left.value -= 1
            kill()

        with coordinate.connect(url, agent=f"doomed-{number}") as c:
            c.stats()
            go()
            tally = work(c, Tally(), most=after)
            claim = c.claim_next(role="worker", lease_seconds=600)
            arena.kill_myself = tell_and_die
            die(c, claim)
            return tally

    return live


def time_passes_for_the_dead(url: str, left: Any) -> Callable[[Go], Tally]:
    """When all of them are dead, their leases end; whoever is `left` then is this one alone, for whom others wait."""

    def live(go: Go) -> Tally:
        go()
        while left.value > 1:
            time.sleep(0.02)
        past = "lease_until = '2001-01-01T00:00:00.000Z'"
        arena.change(url, f"UPDATE tasks SET {past} WHERE status = 'IN_PROGRESS' AND assigned_agent LIKE 'doomed-%'")
        left.value = 0
        return Tally()

    return live


def test_every_task_is_done_once_although_every_fifth_of_50_processes_is_killed(
    board_url: str, record_property: Any
) -> None:
    """Each death while holding is in the history as an expiry. Guard: the next claim takes back what is past."""
    with arena.setting_up(board_url) as c:
        arena.dispatch_many(c, 2000)
    ways, left = (*HOLDING, die_after_complete), arena.FORK.Value("i", 11)
    bodies = [
        doomed(board_url, number, die=ways[number // 5 % len(ways)], after=number // 5, left=left)
        if number % 5 == 0
        else worker(board_url, number, doomed=left)
        for number in range(50)
    ]
    began = time.monotonic()
    *answers, _ = arena.run([*bodies, time_passes_for_the_dead(board_url, left)])
    killed = [number for number, answer in enumerate(answers) if answer == KILLED]
    assert killed == list(range(0, 50, 5))
    tallies = [answer for answer in answers if answer != KILLED]
    report(record_property, tallies, time.monotonic() - began)
    assert_each_done_once(board_url, 2000, tallies)
    held_at_death = {f"doomed-{number}" for number in killed if ways[number // 5 % len(ways)] in HOLDING}
    recovered = "SELECT a.agent, a.task_id FROM attempts a WHERE a.outcome = 'expired' AND a.agent LIKE 'doomed%'"
    assert {agent for agent, _ in arena.rows(board_url, recovered)} == held_at_death
    told = arena.rows(board_url, "SELECT task_id FROM history WHERE action = 'EXPIRE'")
    assert {task for _, task in arena.rows(board_url, recovered)} <= {task for (task,) in told}


def play_comeback(url: str, die: Callable[..., None], weakness: Weakness | None = None) -> None:
    claim = ("claim_next", {"role": "worker"})
    with arena.setting_up(url) as c:
        arena.dispatch_many(c, 1)
    assert arena.run([doomed(url, 1, die=die, after=0)]) == [KILLED]
    assert [answer.value for answer in arena.rounds(url, [claim])[0]] == [None], "the lease still lives"
    arena.expire(url, "TASK-1")
    (answers,) = arena.rounds(url, *[[claim]] * 4, weakness=weakness)
    assert [answer.value.handle for answer in answers if answer.value] == ["TASK-1@2"]
    assert all(answer.ok for answer in answers)
    arena.assert_sound(url)
    expired = arena.rows(url, "SELECT attempt FROM history WHERE action = 'EXPIRE'")
    told = arena.rows(url, "SELECT count(*) FROM events WHERE event_type = 'task.lease_expired'")
    assert (expired, told) == ([(1,)], [(1,)])


@pytest.mark.parametrize("die", HOLDING)
def test_a_killed_holders_task_comes_back_exactly_once(board_url: str, die: Callable[..., None]) -> None:
    """QL-01. Guards: the transaction (nothing of half a completion stays) and the guarded taking back."""
    play_comeback(board_url, die)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_taking_back_without_looking_again_is_noticed(noticed: Noticed) -> None:
    """On SQLite nobody else writes between the look and the taking back."""
    weakness = arena.together(
        arena.cut("queue_take_back", " FOR UPDATE SKIP LOCKED", r"(?<=FROM expired\)\)) AND .*(?= RETURNING)"),
        arena.slow_before("attempt_close", 0.05),
    )
    noticed(lambda url: play_comeback(url, die_after_claim, weakness))


def test_half_a_completion_that_stays_is_noticed(board_url: str) -> None:
    """The judge sees a hold that ended without its attempt, history and event."""
    with arena.setting_up(board_url) as c:
        arena.dispatch_many(c, 1)
        c.claim_next(role="worker", agent="victim")
    arena.assert_sound(board_url)
    arena.change(board_url, "UPDATE tasks SET status = 'DONE', assigned_agent = NULL, lease_until = NULL")
    assert any("TASK-1 is DONE" in fault for fault in arena.faults(board_url))


# --- somebody else in between -----------------------------------------------------------------------------------------


def traced(seen: list[str]) -> Weakness:
    """Write down every statement that the driver is given."""

    def tell() -> None:
        connect = SQLite.connect

        def connect_traced(self: SQLite) -> sqlite3.Connection:
            connection = connect(self)
            connection.set_trace_callback(seen.append)
            return connection

        SQLite.connect = connect_traced  # type: ignore[method-assign]

    return tell


def writes_begun_late(seen: list[str]) -> int:
    """How many statements wrote in a transaction that did not begin immediate."""
    late, immediate = 0, False
    for statement in seen:
        verb = statement.split(None, 1)[0].upper()
        if verb in ("BEGIN", "COMMIT", "ROLLBACK"):
            immediate = statement.upper().startswith("BEGIN IMMEDIATE")
        elif verb in ("INSERT", "UPDATE", "DELETE") or (verb == "WITH" and "UPDATE tasks" in statement):
            late += not immediate
    return late


def mixed(url: str, number: int, turns: int) -> Callable[[Go], tuple[int, int, int]]:
    """Every verb that reads before it writes, beside claim and complete."""

    def live(go: Go) -> tuple[int, int, int]:
        seen: list[str] = []
        traced(seen)()
        claimed = edited = 0
        with coordinate.connect(url, agent=f"worker-{number}") as c:
            c.stats()
            go()
            for turn in range(turns):
                claim = c.claim_next(role="worker")
                if claim is None:
                    continue
                claimed += 1
                match turn % 4:
                    case 0:
                        c.dispatch(title="Next", role="later")
                    case 1:
                        c.log_progress(handle=claim, note="half")
                    case 2:
                        c.edit(task=claim.task.id, priority=7, expected_revision=claim.task.revision)
                        edited += 1
                    case 3:
                        c.depend_add(task=claim.task.id, on="TASK-1")
                        edited += 1
                c.complete(handle=claim)
        return claimed, edited, writes_begun_late(seen)

    return live


def play_mixed(url: str, turns: int, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url) as c:
        arena.dispatch_many(c, 1, role="first")
        arena.dispatch_many(c, 8 * turns)
    played = arena.run([mixed(url, number, turns) for number in range(8)], weakness=weakness)
    done = dict(arena.rows(url, "SELECT action, count(*) FROM history GROUP BY action"))
    claimed, edited, late = (sum(each) for each in zip(*played, strict=True))
    assert claimed == done["CLAIM"] == done["COMPLETE"] == 8 * turns
    assert edited == done["UPDATE"]
    assert late == 0, f"{late} writes in a transaction that read first"
    arena.assert_sound(url)


def test_nobody_is_told_locked_however_many_read_before_they_write(sqlite_board: str) -> None:
    """SQ-01. Guard: every write transaction begins immediate, so that nobody writes between its look and its change."""
    play_mixed(sqlite_board, 200)


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_a_write_transaction_that_begins_late_is_noticed(noticed: Noticed) -> None:
    def begin_deferred() -> None:
        SQLite.begin = lambda self, connection, **_: connection.execute("BEGIN") and None  # type: ignore[method-assign]

    noticed(lambda url: play_mixed(url, 8, begin_deferred))


def play_pause(url: str, weakness: Weakness | None = None) -> None:
    """A looks at the queue and is held up in its transaction; B claims meanwhile (or, on SQLite, must wait)."""
    looked, claimed = arena.FORK.Event(), arena.FORK.Event()

    def slow(go: Go) -> str | None:
        seconds = arena.PATIENCE_SECONDS if is_postgres(url) else 0.7
        arena.before("claim_at_once", lambda tx: (looked.set(), claimed.wait(seconds)))
        with coordinate.connect(url, agent="slow") as c:
            claim = c.claim_next(role="worker")
            return claim and claim.handle

    def quick(go: Go) -> str | None:
        with coordinate.connect(url, agent="quick") as c:
            assert looked.wait(arena.PATIENCE_SECONDS)
            claim = c.claim_next(role="worker")
            claimed.set()
            return claim and claim.handle

    got = dict(zip(("slow", "quick"), arena.run([slow, quick], weakness=weakness), strict=True))
    owners = [agent for agent, handle in got.items() if handle]
    assert len(owners) == 1, f"held by {owners}"
    owner = owners[0]
    assert arena.rows(url, "SELECT assigned_agent, attempt FROM tasks") == [(owner, 1)]
    assert arena.rows(url, "SELECT agent, attempt FROM history WHERE action = 'CLAIM'") == [(owner, 1)]
    arena.assert_sound(url)


def test_a_claimer_that_pauses_between_look_and_change_takes_no_others_task(board_url: str) -> None:
    """SQ-02. Guard: the claim looks at the status in the statement that changes it."""
    with arena.setting_up(board_url) as c:
        arena.dispatch_many(c, 1)
    play_pause(board_url)


def test_a_claim_that_trusts_its_earlier_look_is_noticed(board_url: str) -> None:
    with arena.setting_up(board_url) as c:
        arena.dispatch_many(c, 1)
    with pytest.raises(AssertionError):
        play_pause(board_url, arena.together(*(arena.cut(name, BLIND) for name in CLAIMS)))


def test_a_task_seen_free_and_claimed_by_another_meanwhile_is_refused(board_url: str) -> None:
    """SQ-02. Guard: claiming by id looks at the status again; the owner stays who came first."""
    with coordinate.connect(board_url, agent="slow") as slow, coordinate.connect(board_url, agent="quick") as quick:
        slow.dispatch(title="One", role="worker")
        (seen,) = slow.list_tasks(status="TODO").tasks
        assert quick.claim_next(role="worker")
        with pytest.raises(errors.Held):
            slow.claim_task(task=seen.id)
    assert arena.rows(board_url, "SELECT assigned_agent, attempt FROM tasks") == [("quick", 1)]
    assert arena.rows(board_url, "SELECT agent, attempt FROM history WHERE action = 'CLAIM'") == [("quick", 1)]


# --- a lock that is held long -----------------------------------------------------------------------------------------


def play_with_hog(url: str, tasks: int, processes: int, weakness: Weakness | None = None) -> list[Tally]:
    """Somebody takes the write lock for 0.2 s in every half second."""
    over = arena.FORK.Event()

    def hog(go: Go) -> int:
        times = 0
        with closing(sqlite3.connect(url, isolation_level=None, timeout=30)) as connection:
            go()
            while not over.wait(0.3):
                connection.execute("BEGIN IMMEDIATE")
                time.sleep(0.2)
                connection.execute("COMMIT")
                times += 1
        return times

    left = arena.FORK.Value("i", processes)

    def counted(body: Callable[[Go], Tally]) -> Callable[[Go], Tally]:
        def live(go: Go) -> Tally:
            try:
                return body(go)
            finally:
                with left.get_lock():
                    left.value -= 1
                    if left.value == 0:
                        over.set()

        return live

    with arena.setting_up(url) as c:
        arena.dispatch_many(c, tasks)
    workers = [counted(worker(url, number)) for number in range(processes)]
    *tallies, times = arena.run([*workers, hog], weakness=weakness)
    assert times
    assert_each_done_once(url, tasks, tallies)
    return tallies


def test_50_writers_all_get_through_beside_one_that_holds_the_lock(sqlite_board: str, record_property: Any) -> None:
    """SQ-21. Guards: waiting for the lock, and waiting fairly; nobody waits longer than the configured 30 s."""
    began = time.monotonic()
    tallies = play_with_hog(sqlite_board, 2000, 50)
    report(record_property, tallies, time.monotonic() - began)
    assert all(tally.held for tally in tallies), "somebody was never served"
    assert max(each for tally in tallies for each in tally.waited) < 30


def test_a_writer_that_does_not_wait_is_noticed(sqlite_board: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.01")
    with pytest.raises(arena.Crash, match="Busy"):
        play_with_hog(sqlite_board, 500, 4)


@pytest.mark.parametrize("respects", [True, False])
def test_the_last_task_that_another_has_locked_is_waited_for(postgres_board: str, respects: bool) -> None:
    """None is answered when there is none, and not when somebody is at it who lets go of it."""
    waits = "SELECT 1 FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))"
    with coordinate.connect(postgres_board, agent="a") as c, psycopg.connect(postgres_board) as beside:
        arena.dispatch_many(c, 1)
        beside.execute("SELECT 1 FROM tasks FOR UPDATE")
        with ThreadPoolExecutor() as thread:
            claiming = thread.submit(c.claim_next, role="worker", respect_dependencies=respects)
            while not claiming.done() and not arena.rows(postgres_board, waits.format(beside.info.backend_pid)):
                time.sleep(0.01)
            beside.rollback()
            claim = claiming.result(30)
    assert claim is not None
    assert claim.handle == "TASK-1@1"
