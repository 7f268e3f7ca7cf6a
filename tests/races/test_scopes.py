"""No two agents hold overlapping scopes, no task with scopes is lost, one holder of a lock, no number minted twice."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import errors, paths
from coordinate.db.compiled import Library
from coordinate.db.engine import Row, Tx
from coordinate.service import Coordinator
from coordinate.work import claims
from tests.races import arena
from tests.races.arena import Go, Noticed, Weakness

pytestmark = pytest.mark.race

ROUNDS = 300
# In each round every two of these sets overlap, so exactly one can be granted.
CONTESTED: list[tuple[list[str], ...]] = [
    (["src"], ["src/api/x.py"]),
    (["src/*.py"], ["src/app.py"]),
    (["a", "b"], ["b", "a"]),
    (["."], ["deep/down/here"]),
    (["free", "src/**"], ["src/api"]),
    (["docs"], ["docs"]),
]
SIX: list[tuple[list[str], ...]] = [
    (["src"], ["src/api"], ["src/api/x.py"], ["src/**/x.py"], ["src/api/*.py"], ["."]),
    (["a", "b"], ["b", "a"], ["b/c", "a"], ["a/d", "b"], ["b", "a/*"], ["a", "b/**"]),
    (["x"], ["x"], ["x"], ["x"], ["x"], ["x"]),
]
# What keeps two grants apart: on Postgres the project's lock, on SQLite that a writer begins immediate.
UNGUARDED: dict[str, Weakness] = {
    "sqlite": arena.no_transactions,
    "postgresql": arena.replaced("scopes_lock", "SELECT :project IS NULL AS locked"),
}


def claimer(url: str, number: int, sets: Sequence[list[str]]) -> Callable[[Go], list[list[int]]]:
    """Claims its set of each round at the same moment as the others; keeps it until all have answered."""

    def live(go: Go) -> list[list[int]]:
        with coordinate.connect(url, agent=f"agent-{number}") as door:
            session = door.register(name=f"agent-{number}").id
        won = []
        with coordinate.connect(url, agent=f"agent-{number}", session=session) as c:
            c.stats()
            for patterns in sets:
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.001))))
                answer = c.claim_scopes(patterns=patterns)
                assert answer.granted != bool(answer.conflicts)
                assert len(answer.leases) == (len(patterns) if answer.granted else 0)
                won.append([lease.fence for lease in answer.leases])
                go()
                if number == 0:
                    assert_no_overlap(c)
                go()
                if answer.granted:
                    c.release_leases(every=True)
        return won

    return live


def assert_no_overlap(c: Coordinator) -> None:
    live = c.list_leases(kind="scope", limit=1_000)
    for a, b in itertools.combinations(live, 2):
        foreign = (a.agent, a.session_id) != (b.agent, b.session_id)
        assert not (foreign and a.project == b.project and paths.overlaps(a.resource, b.resource)), (a, b)


def contest(url: str, games: list[tuple[list[str], ...]], rounds: int, weakness: Weakness | None = None) -> None:
    scripts: list[list[list[str]]] = [[] for _ in games[0]]
    for number in range(rounds):
        sets = list(games[number % len(games)])
        random.shuffle(sets)
        for script, patterns in zip(scripts, sets, strict=True):
            script.append(patterns)
    bodies = [claimer(url, number, script) for number, script in enumerate(scripts)]
    for number, answers in enumerate(zip(*arena.run(bodies, weakness=weakness), strict=True)):
        winners = [fences for fences in answers if fences]
        assert len(winners) == 1, f"round {number}: {len(winners)} of {len(answers)} were granted"


@pytest.mark.parametrize("games", [CONTESTED, SIX], ids=["two", "six"])
def test_of_overlapping_claims_at_one_moment_exactly_one_is_granted(
    board_url: str, games: list[tuple[list[str], ...]]
) -> None:
    """Statement 1, in 300 rounds: parent and child, glob and file, sets in opposite order."""
    contest(board_url, games, ROUNDS)
    live = arena.rows(board_url, "SELECT count(*) FROM leases WHERE released_at IS NULL")
    assert live == [(0,)]


def test_without_the_lock_of_the_scopes_the_race_is_lost(engine: str, noticed: Noticed) -> None:
    """The guard is needed: a race that cannot fail proves nothing."""
    noticed(lambda url: contest(url, SIX, 100, UNGUARDED[engine]))


# --- tasks with scopes ------------------------------------------------------------------------------------------------


def worker(url: str, number: int) -> Callable[[Go], list[tuple[str, tuple[str, ...], float, float]]]:
    """Claims and completes until every task is done; says what it held from when to when."""

    def live(go: Go) -> list[tuple[str, tuple[str, ...], float, float]]:
        with coordinate.connect(url, agent=f"worker-{number}") as c:
            c.stats()
            go()
            held = []
            idle_since = time.monotonic()
            while True:
                claim = c.claim_next(role="worker")
                if claim is None:
                    if c.stats().by_status.keys() <= {"DONE"}:
                        return held
                    assert time.monotonic() - idle_since < arena.PATIENCE_SECONDS, "something is never handed out"
                    time.sleep(0.01)
                    continue
                got = time.monotonic()
                scopes = tuple(lease.resource for lease in c.list_leases(task=claim.task.id))
                time.sleep(random.uniform(0, 0.003))
                held.append((claim.task.id, scopes, got, time.monotonic()))
                c.complete(handle=claim)
                idle_since = time.monotonic()

    return live


def test_no_two_holders_overlap_and_no_task_is_lost(board_url: str) -> None:
    """Eight processes, 160 tasks over few paths, each of which is in the way of many others."""
    choices = [["src"], ["src/a"], ["src/b"], ["src/*.py"], ["docs"], ["docs/a.md", "src/a"], ["lib"], []]
    with arena.setting_up(board_url) as c:
        for number in range(160):
            c.dispatch(title="T", role="worker", scopes=choices[number % len(choices)])
    tallies = arena.run([worker(board_url, number) for number in range(8)])
    assert arena.rows(board_url, "SELECT status, count(*) FROM tasks GROUP BY status") == [("DONE", 160)]
    held = [(each, number) for number, tally in enumerate(tallies) for each in tally]
    for ((_, ours, since, until), a), ((_, theirs, begun, ended), b) in itertools.combinations(held, 2):
        if a != b and since < ended and begun < until:
            assert not any(paths.overlaps(x, y) for x in ours for y in theirs), (ours, theirs)
    assert arena.rows(board_url, "SELECT count(*) FROM leases WHERE released_at IS NULL") == [(0,)]
    assert arena.rows(board_url, "SELECT count(*) FROM tasks WHERE parked_on IS NOT NULL") == [(0,)]
    arena.assert_sound(board_url)


@pytest.mark.parametrize("end", ["release", "expire"])
def test_no_task_stays_aside_on_a_lease_that_is_over(board_url: str, end: str) -> None:
    """200 rounds: the lease ends at the moment that a claimer sets a task aside on it. Guard: `lease_share`."""
    rounds = 200
    with arena.setting_up(board_url) as c:
        c.dispatch(title="T", role="worker", scopes=["src/app.py"])

    def holder(go: Go) -> None:
        with coordinate.connect(board_url, agent="holder") as c:
            for _ in range(rounds):
                answer = c.claim_scopes(patterns=["src"])
                assert answer.granted
                if end == "expire":
                    fence = answer.leases[0].fence
                    arena.change(
                        board_url,
                        f"UPDATE leases SET expires_at = '2001-01-01T00:00:00.000Z' WHERE fence = {fence}",
                    )
                go()
                time.sleep(random.uniform(0, 0.002))
                if end == "release":
                    c.release_leases(fences=[answer.leases[0].fence])
                else:
                    c.sweep()
                go()
                go()

    def claimer(go: Go) -> list[str]:
        wrong = []
        with coordinate.connect(board_url, agent="claimer") as c:
            for number in range(rounds):
                go()
                time.sleep(random.uniform(0, 0.002))
                claim = c.claim_next(role="worker")
                go()
                claim = claim or c.claim_next(role="worker")
                if claim is None:
                    wrong.append(f"round {number}: the lease is over, and the task is not handed out")
                    c.claim_task(task="TASK-1")
                c.release(handle="TASK-1@" + str(c.view(task="TASK-1").task.attempt))
                go()
        return wrong

    assert arena.run([holder, claimer])[1] == []
    arena.assert_sound(board_url)


# --- one session's calls at one moment --------------------------------------------------------------------------------

# What is done to a scope while another call of its session binds it to a held task, and whose lock keeps them apart.
UNBINDING = ("release everything", "release it by its pattern", "end the session")
LOCKED = {"scopes_free": UNBINDING[0], "lease_by_fence": UNBINDING[0], "leases_of_sessions": UNBINDING[2]}


def bind_and(url: str, deed: str, rounds: int, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url, "alice") as c:
        for _ in range(rounds):
            c.dispatch(title="T", role="worker")
        sessions = [c.register(name="alice").id for _ in range(rounds)]

    def binder(go: Go) -> None:
        with coordinate.connect(url, agent="alice") as c:
            for session in sessions:
                claim = c.claim_next(role="worker")
                fence = c.claim_scopes(patterns=["src"], session=session).leases[0].fence
                go()
                answer = c.claim_scopes(patterns=["src"], task=claim.handle, fences=[fence])
                go()
                kept = [lease.resource for lease in c.list_leases(task=claim.task.id)]
                assert answer.granted, answer
                assert kept == ["src"], "a held task was granted a scope that it has not"
                c.complete(handle=claim)

    def other(go: Go) -> None:
        with coordinate.connect(url, agent="alice") as c:
            c.stats()
            for session in sessions:
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.002))))
                with suppress(errors.InvalidState):  # the task keeps it already
                    if deed == "end the session":
                        c.end_session(session=session)
                    elif deed == "release everything":
                        c.release_leases(every=True, session=session)
                    else:
                        c.release_leases(patterns=["src"], session=session)
                go()

    arena.run([binder, other], weakness=weakness)


@pytest.mark.parametrize("deed", UNBINDING)
def test_what_is_bound_to_a_held_task_is_not_released_by_a_call_that_saw_it_free(
    board_url: str, engine: str, deed: str
) -> None:
    """Nor do the two wait for each other in a circle."""
    before = arena.rows(board_url, DEADLOCKS) if engine == "postgresql" else []
    bind_and(board_url, deed, 15)
    assert (arena.rows(board_url, DEADLOCKS) if engine == "postgresql" else []) == before


@pytest.mark.parametrize("look", LOCKED)
def test_without_the_lock_of_what_is_looked_at_a_held_task_has_not_its_scope(
    engine: str, noticed: Noticed, look: str
) -> None:
    unlocked = arena.no_transactions if engine == "sqlite" else arena.cut(look, "FOR UPDATE")

    def play(url: str) -> None:
        # Who binds has looked, and goes on when all is released; or who releases has, when it is bound.
        meanwhile = ("lease_bind", 0) if look == "lease_by_fence" else ("lease_end", 1)
        overtaken = arena.overtaken_before(meanwhile[0], number=meanwhile[1])
        bind_and(url, LOCKED[look], 2, arena.together(unlocked, overtaken))

    noticed(play)


def test_what_is_claimed_again_at_the_moment_of_its_release_is_granted_anew_or_was_renewed(board_url: str) -> None:
    rounds = 25
    with arena.setting_up(board_url) as c:
        session = c.register(name="alice").id

    def claimer(go: Go) -> None:
        with coordinate.connect(board_url, agent="alice", session=session) as c:
            for _ in range(rounds):
                c.claim_scopes(patterns=["src"], ttl_seconds=60)
                go()
                (lease,) = c.claim_scopes(patterns=["src"], ttl_seconds=6_000).leases
                go()
                assert (lease.expires_at - lease.acquired_at).total_seconds() >= 6_000, "granted, and not renewed"
                c.release_leases(every=True)

    def releaser(go: Go) -> None:
        with coordinate.connect(board_url, agent="alice", session=session) as c:
            for _ in range(rounds):
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.002))))
                c.release_leases(patterns=["src"])
                go()

    arena.run([claimer, releaser])


# --- locks and counters -----------------------------------------------------------------------------------------------


def test_of_many_who_take_a_lock_one_has_it_also_when_its_time_is_over(board_url: str) -> None:
    """Eight processes, 50 rounds of take-over after expiry: one holder, and the fences rise. Guard: a unique index."""
    rounds = 50

    def taker(number: int) -> Callable[[Go], list[int]]:
        def live(go: Go) -> list[int]:
            got = []
            with coordinate.connect(board_url, agent=f"agent-{number}") as c:
                c.stats()
                for _ in range(rounds):
                    go()
                    try:
                        got.append(c.acquire_lock(name="integrate").fence)
                    except errors.Held:
                        got.append(0)
                    go()
                    if number == 0:
                        arena.change(
                            board_url,
                            "UPDATE leases SET expires_at = '2001-01-01T00:00:00.000Z' WHERE released_at IS NULL",
                        )
                    go()
            return got

        return live

    answers = list(zip(*arena.run([taker(number) for number in range(8)]), strict=True))
    winners = [[fence for fence in answer if fence] for answer in answers]
    assert [len(each) for each in winners] == [1] * rounds
    fences = [fence for (fence,) in winners]
    assert fences == sorted(set(fences))
    told = arena.rows(board_url, "SELECT count(*) FROM events WHERE event_type = 'lock.expired'")
    assert told == [(rounds - 1,)]


# What two calls of one session do with its lock at one moment: how deep it is held before, the deeds, and what the two
# may be told together (a depth, 0 for the end, or a refusal) with how deep it is held then.
LOST = "stale_claim"
Shared = tuple[int, tuple[str, str], set[tuple[int | str, int | str, int]]]
LOST = "stale_claim"
TAKEN_TWICE: Shared = (0, ("take", "take"), {(1, 2, 2), (2, 1, 2)})
GIVEN_TWICE: Shared = (1, ("give", "give"), {(0, LOST, 0), (LOST, 0, 0)})
SHARED = [
    TAKEN_TWICE,
    GIVEN_TWICE,
    (2, ("give", "give"), {(0, 1, 0), (1, 0, 0)}),
    (1, ("give", "take"), {(1, 2, 1), (0, 1, 1)}),
    (1, ("give late", "take over"), {(0, 1, 1), (LOST, 1, 1)}),
]


def share(url: str, games: list[Shared], weakness: Weakness | None = None) -> None:
    """Two processes of one session at one lock; who takes over is another's, and then the time is over."""
    with arena.setting_up(url) as c:
        alice, bob = (c.register(name=name).id for name in ("alice", "bob"))

    def deed(c: Coordinator, what: str, fence: int) -> int | str:
        try:
            if what == "take over":
                return c.acquire_lock(name="l", agent="bob", session=bob).depth
            if what == "take":
                return c.acquire_lock(name="l").depth
            given = c.release_lock(name="l", fence=fence)
        except errors.CoordinateError as error:
            return error.code
        return 0 if given.released_at else given.depth

    def player(number: int) -> Callable[[Go], list[tuple[int | str, int]]]:
        def live(go: Go) -> list[tuple[int | str, int]]:
            told = []
            with coordinate.connect(url, agent="alice", session=alice) as c:
                for depth, deeds, _ in games:
                    for _ in range(0 if number else depth):
                        c.acquire_lock(name="l")
                    if (number, deeds[0]) == (0, "give late"):
                        arena.change(url, "UPDATE leases SET expires_at = '2001-01-01T00:00:00.000Z'")
                    go()
                    fence = max((lease.fence for lease in c.list_leases(ended=True)), default=1)
                    go()
                    answer = deed(c, deeds[number], fence)
                    go()
                    held = c.list_leases()
                    told.append((answer, sum(each.depth for each in held)))
                    go()
                    for each in [] if number else held:
                        for _ in range(each.depth):
                            c.release_lock(name="l", fence=each.fence, agent=each.agent)
            return told

        return live

    first, second = arena.run([player(0), player(1)], weakness=weakness)
    for (_, deeds, allowed), (one, stands), (another, _) in zip(games, first, second, strict=True):
        assert (one, another, stands) in allowed, f"{deeds}: {one}, {another}, then held {stands} deep"


def test_a_session_that_takes_and_gives_its_lock_twice_at_once_has_it_as_deep_as_it_was_told(board_url: str) -> None:
    """And whoever lost it meanwhile is told so."""
    share(board_url, SHARED * 6)


def test_without_the_look_whether_the_lock_is_held_still_it_is_given_back_twice(noticed: Noticed) -> None:
    unheld = arena.cut("lock_release", r"AND leases\.released_at IS NULL")
    noticed(lambda url: share(url, [GIVEN_TWICE] * 5, unheld))


def test_without_the_second_try_to_nest_a_session_is_held_up_by_itself(engine: str, noticed: Noticed) -> None:
    def nest_at_first_only() -> None:
        one = Tx.one

        def weakened(self: Tx, name: str, /, **params: Any) -> Row | None:
            if name == "lock_insert":
                self.announce("insert was tried")
            again = name == "lock_nest" and "insert was tried" in self._topics
            return None if again else one(self, name, **params)

        Tx.one = weakened  # type: ignore[method-assign]

    guard = arena.together(nest_at_first_only, arena.no_transactions) if engine == "sqlite" else nest_at_first_only

    def play(url: str) -> None:
        share(url, [TAKEN_TWICE], arena.together(guard, arena.meeting_before("counter_take")))

    noticed(play)


def test_a_counter_mints_400_different_numbers_for_eight_processes(board_url: str) -> None:
    """Statement 9, with floors that differ. Guard: one statement mints."""

    def minter(number: int) -> Callable[[Go], list[int]]:
        def live(go: Go) -> list[int]:
            with coordinate.connect(board_url, agent=f"agent-{number}") as c:
                c.stats()
                go()
                return [c.counter_next(kind="adr", floor=100 + number)[0] for _ in range(50)]

        return live

    minted = [n for each in arena.run([minter(number) for number in range(8)]) for n in each]
    assert len(set(minted)) == 400
    assert min(minted) > 100


def test_sixteen_processes_that_make_a_board_and_use_the_fleet_all_succeed(
    engine: str, request: pytest.FixtureRequest
) -> None:
    """Statement 15: nothing is lost, no number is given twice."""
    with ExitStack() as stack:
        if engine == "sqlite":
            urls = [str(request.getfixturevalue("tmp_path") / f"fresh-{number}" / "board.db") for number in range(30)]
        else:
            urls = [stack.enter_context(request.getfixturevalue("postgres").schema()) for _ in range(5)]
        for answers in zip(*first_calls(urls), strict=True):
            assert len({session for session, _ in answers}) == 16
            assert sorted(number for _, number in answers) == list(range(1, 17))


def first_calls(urls: Sequence[str]) -> list[list[tuple[str, int]]]:
    def live(go: Go) -> list[tuple[str, int]]:
        made = []
        for url in urls:
            go()
            with coordinate.connect(url, agent="alice", create=True) as c:
                session = c.register(name="alice").id
                assert session in [each.id for each in c.list_sessions()]
                made.append((session, c.counter_next(kind="adr")[0]))
        return made

    return arena.run([live] * 16, seconds=180 + 20 * len(urls))


# --- a task and its scopes are one ------------------------------------------------------------------------------------


def late_and_taker(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """A holder whose time is over renews at the moment that another takes its scope: one of the two gets its way."""
    with arena.setting_up(url) as c:
        for _ in range(rounds):
            c.dispatch(title="T", role="worker", scopes=["src"])

    def holder(go: Go) -> list[bool]:
        renewed = []
        with coordinate.connect(url, agent="holder") as c:
            for number in range(rounds):
                claim = c.claim_task(task=f"TASK-{number + 1}")
                past = "'2001-01-01T00:00:00.000Z'"
                arena.change(url, f"UPDATE tasks SET lease_until = {past} WHERE id = '{claim.task.id}'")
                arena.change(url, f"UPDATE leases SET expires_at = {past} WHERE task_id = '{claim.task.id}'")
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.002))))
                try:
                    c.keep_alive(handle=claim)
                    renewed.append(True)
                except errors.StaleClaim:
                    renewed.append(False)
                go()
                if renewed[-1]:
                    c.complete(handle=claim)
                else:
                    c.cancel(task=claim.task.id)
                go()
        return renewed

    def taker(go: Go) -> list[bool]:
        granted = []
        with coordinate.connect(url, agent="taker") as c:
            c.stats()
            for _ in range(rounds):
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.002))))
                answer = c.claim_scopes(patterns=["src/app.py"])
                granted.append(answer.granted)
                go()
                if answer.granted:
                    c.release_leases(fences=[answer.leases[0].fence])
                go()
        return granted

    renewed, granted = arena.run([holder, taker], weakness=weakness)
    assert [a != b for a, b in zip(renewed, granted, strict=True)] == [True] * rounds
    arena.assert_sound(url)


def test_a_late_holder_renews_or_another_takes_its_scope_never_both(board_url: str) -> None:
    late_and_taker(board_url, 60)


def test_without_the_look_whether_the_hold_is_past_still_both_get_their_way(engine: str, noticed: Noticed) -> None:
    """Guard: the take-back changes the row only while its hold is past."""
    unguarded = arena.cut("task_take_back", r"AND tasks\.lease_until <= .*?\)\)? (?=RETURNING)")
    if engine == "sqlite":  # one writer at a time: there the look before the change is a guard too
        unguarded = arena.together(unguarded, arena.no_transactions)
    noticed(lambda url: late_and_taker(url, 60, unguarded))


def test_of_two_worktrees_that_overlap_one_is_opened(board_url: str) -> None:
    """60 rounds of two sessions, and of two processes of one session."""
    rounds = 30
    with arena.setting_up(board_url) as c:
        for _ in range(4 * rounds):
            c.dispatch(title="T", role="worker")
        shared = c.register(name="alice").id
        apart = [c.register(name="alice").id, c.register(name="alice").id]

    def opener(number: int) -> Callable[[Go], list[bool]]:
        def live(go: Go) -> list[bool]:
            opened = []
            for session in (shared, apart[number]):
                with coordinate.connect(board_url, agent="alice", session=session) as c:
                    for _ in range(rounds):
                        claim = c.claim_next(role="worker")
                        go()
                        answer = c.open_worktree(
                            task=claim.handle, branch="b", root="/r", patterns=[["src"], ["src/*.py"]][number]
                        )
                        opened.append(answer.worktree is not None)
                        go()
                        c.complete(handle=claim)
                        if answer.worktree is not None:
                            c.close_worktree(task=claim.task.id)
                        go()
            return opened

        return live

    first, second = arena.run([opener(0), opener(1)])
    assert [a != b for a, b in zip(first, second, strict=True)] == [True] * (2 * rounds)


def test_releasing_a_scope_and_claiming_what_waits_for_it_never_wait_for_each_other(postgres_board: str) -> None:
    """A deadlock would be resolved and tried again, after a second in which nobody gets on."""
    rounds = 60
    with arena.setting_up(postgres_board) as c:
        for _ in range(5):
            c.dispatch(title="T", role="worker", scopes=["src/app.py"])

    def holder(go: Go) -> None:
        with coordinate.connect(postgres_board, agent="holder") as c:
            for _ in range(rounds):
                fence = c.claim_scopes(patterns=["src"]).leases[0].fence
                go()
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.003))))
                c.release_leases(fences=[fence])
                go()
                go()

    def claimer(number: int) -> Callable[[Go], None]:
        def live(go: Go) -> None:
            with coordinate.connect(postgres_board, agent=f"claimer-{number}") as c:
                for _ in range(rounds):
                    go()
                    assert c.claim_next(role="worker") is None
                    go()
                    time.sleep(random.choice((0.0, random.uniform(0, 0.003))))
                    try:
                        claim = c.claim_task(task=f"TASK-{number + 1}")
                    except errors.Held:
                        claim = None
                    go()
                    if claim is not None:
                        c.release(handle=claim)
                    go()

        return live

    before = arena.rows(postgres_board, DEADLOCKS)
    arena.run([holder, claimer(0), claimer(1)])
    assert arena.rows(postgres_board, DEADLOCKS) == before
    arena.assert_sound(postgres_board)


def test_who_releases_several_scopes_and_who_sets_tasks_aside_on_them_never_wait_in_a_circle(
    postgres_board: str,
) -> None:
    """Tasks meet the leases in the order against that of whoever ends them."""
    rounds = 25
    with arena.setting_up(postgres_board) as c:
        for pattern in ("b", "a"):
            c.dispatch(title="T", role="worker", scopes=[pattern])

    def holder(go: Go) -> None:
        with coordinate.connect(postgres_board, agent="holder") as c:
            for _ in range(rounds):
                fences = [lease.fence for lease in c.claim_scopes(patterns=["a", "b"]).leases]
                go()
                time.sleep(random.uniform(0, 0.008))
                c.release_leases(fences=fences)
                go()
                go()

    def claimer(go: Go) -> None:
        with coordinate.connect(postgres_board, agent="claimer") as c:
            c.stats()
            for _ in range(rounds):
                go()
                claim = c.claim_next(role="worker")
                if claim is not None:
                    c.release(handle=claim)
                go()
                free = c.claim_batch(role="worker", count=2)
                assert len(free) == 2, "a task stays aside on a lease that is over"
                for claim in free:
                    c.release(handle=claim)
                go()

    before = arena.rows(postgres_board, DEADLOCKS)
    arena.run([holder, claimer])
    assert arena.rows(postgres_board, DEADLOCKS) == before
    arena.assert_sound(postgres_board)


DEADLOCKS = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"


BLOCKED_BY = "SELECT pid FROM pg_stat_activity WHERE {} = ANY (pg_blocking_pids(pid))"


def holders_after_a_transfer(url: str) -> list[tuple[Any, ...]]:
    """A task gets its first scope while it is transferred, and the giver claims what overlaps that; who holds what."""
    with coordinate.connect(url, agent="a") as door:
        session = door.register(name="a").id
    gate = "pg_advisory_xact_lock_shared(7) IS NOT NULL AND "
    arena.cut("leases_give", r"(?<=WHERE )", put=gate)()
    with (
        coordinate.connect(url, agent="a", session=session) as c,
        psycopg.connect(url) as beside,
        psycopg.connect(url) as keeper,
        ThreadPoolExecutor() as thread,
    ):
        c.dispatch(title="t", role="worker")
        claim = c.claim_next(role="worker")
        assert c.using(beside).claim_scopes(patterns=["src/a"], task=claim.handle).granted
        keeper.execute("SELECT pg_advisory_xact_lock(7)")
        giving = thread.submit(c.transfer, handle=claim, to="b")
        arena.await_blocked(url, beside.info.backend_pid)
        beside.commit()
        arena.await_blocked(url, keeper.info.backend_pid)
        ((transfer,),) = arena.rows(url, BLOCKED_BY.format(keeper.info.backend_pid))
        claiming = thread.submit(c.claim_scopes, patterns=["src"])
        while not claiming.done() and not arena.rows(url, BLOCKED_BY.format(transfer)):
            time.sleep(0.01)  # it waits for the transfer, if that has the lock of the scopes
        keeper.commit()
        giving.result(30)
        claiming.result(30)
    return arena.rows(url, "SELECT agent, resource FROM leases WHERE released_at IS NULL ORDER BY agent")


@pytest.fixture
def weakened(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to statements of its own process is undone behind it."""
    monkeypatch.setattr(Library, "__getitem__", Library.__getitem__)


@pytest.mark.usefixtures("weakened")
def test_a_scope_that_is_bound_while_its_task_is_transferred_is_not_split(postgres_board: str) -> None:
    """Guard: a transfer has the project's lock before it looks, whether the task had scopes or not."""
    assert holders_after_a_transfer(postgres_board) == [("b", "src/a")]


@pytest.mark.usefixtures("weakened")
def test_a_transfer_without_the_lock_of_the_scopes_is_noticed(
    postgres_board: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims.leases, "lock_scopes", lambda tx, project: None)
    assert holders_after_a_transfer(postgres_board) == [("a", "src"), ("b", "src/a")]


# --- in one order -----------------------------------------------------------------------------------------------------


def claim_behind_a_lock(url: str, act: Callable[[Coordinator], object], weakness: Weakness | None = None) -> None:
    """Somebody has the lock of the scopes, and may come to want the task that is claimed meanwhile."""
    with arena.setting_up(url) as c:
        c.dispatch(title="T", role="worker", scopes=["src"])

    def claim(go: Go) -> object:
        with coordinate.connect(url, agent="a") as c:
            go()
            return act(c)

    def have(go: Go) -> bool:
        with coordinate.connect(url, agent="b") as c, psycopg.connect(url) as beside:
            assert c.using(beside).claim_scopes(patterns=["docs"]).granted
            go()
            arena.await_blocked(url, beside.info.backend_pid)
            return arena.rows(url, "SELECT id FROM tasks FOR UPDATE SKIP LOCKED") == [("TASK-1",)]

    assert arena.run([claim, have], weakness=weakness) == ["TASK-1@1", True]
    arena.assert_sound(url)


@pytest.mark.parametrize("verb", ["claim_next", "claim_task"])
def test_who_waits_for_the_lock_of_the_scopes_has_no_task_that_its_owner_may_want(
    postgres_board: str, verb: str
) -> None:
    """The owner may close the worktree of that task, hand it on, or claim more scopes for it."""
    given = {"role": "worker"} if verb == "claim_next" else {"task": "TASK-1"}
    claim_behind_a_lock(postgres_board, lambda c: getattr(c, verb)(**given).handle)


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_who_waits_for_it_with_a_task_is_noticed(noticed: Noticed) -> None:
    waiting = arena.cut("scopes_try", r"pg_try_(\w+)(\(.*\)) AS", put=r"pg_\1\2 IS NOT NULL AS")
    noticed(lambda url: claim_behind_a_lock(url, lambda c: c.claim_next(role="worker").handle, waiting))
