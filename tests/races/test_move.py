"""A board moves while others work on it, and movers are killed: nothing is done on both sides, everybody is told."""

from __future__ import annotations

import os
import random
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

import pytest

import coordinate
from coordinate import errors
from coordinate.db import migrate, move, sides
from tests.conformance.test_move import HELD, told
from tests.conftest import create_board_on_postgres
from tests.postgres import Server
from tests.races.arena import (
    FORK,
    KILLED,
    PATIENCE_SECONDS,
    Go,
    Noticed,
    assert_sound,
    change,
    cut,
    dispatch_many,
    kill_myself,
    rows,
    run,
    setting_up,
)
from tests.tables import nothing_changes

pytestmark = pytest.mark.race

# Each agent completes so many, then it works on one until the copy has begun.
AGENTS, TASKS, BEFORE = 10, 60, 2


# --- agents work on ---------------------------------------------------------------------------------------------------


def worker(url: str, name: str, begun: Event, met: Event, over: Event) -> Callable[[Go], dict[str, Any]]:
    """Claim and complete until all is done, wherever the board is; tell what was done where, and what one was told."""

    def body(go: Go) -> dict[str, Any]:
        done: list[tuple[str, str]] = []
        heard: list[str] = []
        place, held = url, None

        def patiently(call: Callable[..., Any], **given: Any) -> Any:
            while True:
                try:
                    return call(**given)
                except errors.Moving as moving:
                    heard.append(moving.code)
                    met.set()
                    time.sleep(0.02)

        go()
        while True:
            ended = over.is_set()
            try:
                with patiently(coordinate.connect, target=place, agent=name) as c:
                    while held := held or patiently(c.claim_next, role="worker"):
                        while place == url and len(done) == BEFORE and not begun.is_set():
                            patiently(c.log_progress, handle=held, note="at work")
                            time.sleep(0.01)
                        patiently(c.complete, handle=held)
                        done.append((held.task.id, place))
                        if begun.is_set():
                            met.set()
                        held = None
                    if (place != url or ended) and not c.stats().by_status.get("IN_PROGRESS"):
                        return {"done": done, "heard": heard, "place": place}
            except errors.Moved as moved:
                heard.append(moved.code)
                place = str(moved.facts["address"])
            time.sleep(0.01)

    return body


def mover(
    url: str, target: str, begun: Event, met: Event, over: Event, *, gives_up: bool, fenced: bool
) -> Callable[[Go], dict[str, Any]]:
    def progress(doing: str, *_: object) -> None:
        if fenced or doing == "verify":
            begun.set()
        if (gives_up or not fenced) and doing == "verify":
            met.wait(PATIENCE_SECONDS)  # somebody meets the fence, or gets past the place where it should be
        if gives_up and doing == "verify":
            raise KeyboardInterrupt

    def body(go: Go) -> dict[str, Any]:
        go()
        try:
            with suppress(KeyboardInterrupt):
                move.move(url, target, progress=progress)
        finally:
            begun.set()
            over.set()
        return {"done": [], "heard": [], "place": url if gives_up else target}

    return body


def played(
    url: str, target: str, *, gives_up: bool = False, fenced: bool = True, weakness: Callable[[], None] | None = None
) -> list[dict[str, Any]]:
    with setting_up(url) as c:
        ids = dispatch_many(c, TASKS)
    moments = FORK.Event(), FORK.Event(), FORK.Event()
    agents = [worker(url, f"agent-{number}", *moments) for number in range(AGENTS)]
    bodies = [mover(url, target, *moments, gives_up=gives_up, fenced=fenced), *agents]
    answers = run(bodies, weakness=weakness)
    done = [task for answer in answers for task, _ in answer["done"]]
    assert sorted(done) == sorted(ids), "each was done once, on one side"
    ends = url if gives_up else target
    assert {answer["place"] for answer in answers} == {ends}, "everybody was told"
    assert rows(ends, "SELECT count(*) FROM tasks WHERE status = 'DONE'") == [(len(ids),)]
    assert_sound(ends)
    left = rows(url, "SELECT count(*) FROM attempts WHERE outcome = 'completed'")[0][0]
    assert left == sum(place == url for answer in answers for _, place in answer["done"])
    return answers


def test_ten_agents_work_on_while_the_board_moves(board_url: str, other_url: str) -> None:
    """MV-07"""
    answers = played(board_url, address_of(other_url))
    assert all("moved" in answer["heard"] for answer in answers[1:])


def test_a_move_that_is_given_up_leaves_ten_agents_at_work_where_they_were(
    board_url: str, engine: str, other_url: str
) -> None:
    """Ctrl-C, while all of them run against the fence; nothing of it is left."""
    answers = played(board_url, address_of(other_url), gives_up=True)
    assert any("moving" in answer["heard"] for answer in answers)
    left = "sqlite_master WHERE type = 'trigger' AND name GLOB 'coordinate_fence*'"
    if engine == "postgresql":
        left = "pg_trigger WHERE tgname = 'coordinate_fence' AND tgrelid = 'tasks'::regclass"
    assert rows(board_url, f"SELECT count(*) FROM {left}") == [(0,)]


def test_without_the_fence_the_race_is_lost(noticed: Noticed, engine: str, postgres: Server, tmp_path: Path) -> None:
    def no_fence() -> None:
        for side in (sides.SQLiteSide, sides.PostgresSide):
            side.raise_fence = lambda self, sentence: None  # type: ignore[method-assign]

    def play(url: str) -> None:
        with places(postgres, tmp_path, engine) as target:
            played(url, address_of(target), fenced=False, weakness=no_fence)

    noticed(play)


@contextmanager
def places(postgres: Server, tmp_path: Path, engine: str) -> Iterator[str]:
    """An empty place on the other engine, for each play."""
    if engine == "postgresql":
        yield str(tmp_path / f"there-{random.random()}.db")
    else:
        with postgres.schema() as url:
            yield url


def address_of(url: str) -> str:
    return sides.side_of(url).engine.address()


# --- movers -----------------------------------------------------------------------------------------------------------


def test_of_two_movers_one_wins(board_url: str, other_url: str, postgres: Server, tmp_path: Path) -> None:
    """Whether they go to one place or to two."""
    with setting_up(board_url) as c:
        dispatch_many(c, 30)
        c.tail_events(after=0)  # on Postgres an event has no position before somebody looks
    before = told(board_url, but=HELD)

    def body(target: str) -> Callable[[Go], tuple[str, str]]:
        def play(go: Go) -> tuple[str, str]:
            go()
            try:
                move.move(board_url, target)
            except (errors.Moving, errors.Moved, errors.CannotMove, errors.NotEmpty) as error:
                return error.code, target
            return "won", target

        return play

    answers = run([body(other_url), body(other_url), body(str(tmp_path / "elsewhere.db"))])
    (winner,) = [target for state, target in answers if state == "won"]
    assert told(winner, but=HELD) == before
    assert rows(board_url, "SELECT state FROM board_move") == [("moved",)]


def undone_twice(url: str, target: str, *, moved: bool, weakness: Callable[[], None] | None = None) -> None:
    """Two who undo one move at once, and one who comes after them: it is undone once, and all of them are told so."""
    with setting_up(url, "alice") as c:
        dispatch_many(c, 3)
        c.claim_next(role="worker")
        c.tail_events(after=0)
    before = told(url)
    (ended,) = run([lambda go: move.move(url, target)], weakness=None if moved else killed_at("_copy", "after"))
    assert moved or ended == KILLED

    def undoing(go: Go) -> tuple[str, bool, int]:
        go()
        report = move.undo(url)
        return report.state, report.already, report.holds

    answers = run([undoing, undoing], weakness=weakness)
    assert [state for state, *_ in answers] == ["undone", "undone"]
    assert sorted(already for _, already, _ in answers) == [False, True]
    assert sorted(holds for *_, holds in answers)[0] == 0, "the time was given back once"
    after = told(url)
    with nothing_changes(url):
        late = move.undo(url)
    assert (late.state, late.already) == ("undone", True)
    assert {table for table in after if after[table] != before[table]} <= {table for table, _ in HELD}
    with setting_up(url, "alice") as c:
        c.dispatch(title="goes on", role="worker")


@pytest.mark.parametrize("moved", [True, False])
def test_of_two_undos_one_lifts_the_fence_and_both_say_so(board_url: str, other_url: str, moved: bool) -> None:
    undone_twice(board_url, address_of(other_url), moved=moved)


def test_an_undo_that_comes_while_another_ends_says_that_it_was_done(board_url: str, other_url: str) -> None:
    """The fence is lifted already, and the new place is not closed for good yet."""
    with setting_up(board_url, "alice") as c:
        dispatch_many(c, 3)
    target = address_of(other_url)
    assert run([lambda go: move.move(board_url, target)], weakness=killed_at("_copy", "after")) == [KILLED]

    def first(go: Go) -> bool:
        shut = move._Ends._shut_target

        def late(self: Any, number: str) -> None:
            go()
            time.sleep(0.5)
            shut(self, number)

        move._Ends._shut_target = late  # type: ignore[method-assign]
        return move.undo(board_url).already

    def second(go: Go) -> bool:
        go()
        return move.undo(board_url).already

    assert run([first, second]) == [False, True]


def test_two_undos_that_do_not_ask_where_the_move_stands_are_noticed(
    noticed: Noticed, postgres: Server, tmp_path: Path, engine: str
) -> None:
    guard = cut("move_pass", r" AND \S+ = :before")

    def play(url: str) -> None:
        with places(postgres, tmp_path, engine) as target:
            undone_twice(url, address_of(target), moved=False, weakness=guard)

    noticed(play)


def test_whoever_waits_for_the_new_place_finds_it_when_it_is_the_board(board_url: str, other_url: str) -> None:
    """MV-07, MV-08: it is made and closed at once, so that nobody who waits for a board there works on an empty one."""
    first_of_the_waiting(board_url, other_url)


def test_a_place_that_is_made_first_and_closed_then_is_noticed(
    noticed: Noticed, engine: str, postgres: Server, tmp_path: Path
) -> None:
    def play(url: str) -> None:
        written, upgrade = FORK.Event(), migrate.upgrade

        def made_open() -> None:
            migrate.upgrade = lambda target, last: (upgrade(target), written.wait(PATIENCE_SECONDS))  # type: ignore

        with places(postgres, tmp_path, engine) as target:
            first_of_the_waiting(url, target, written, weakness=made_open)

    noticed(play)


def first_of_the_waiting(
    url: str, target: str, written: Event | None = None, *, weakness: Callable[[], None] | None = None
) -> None:
    with setting_up(url) as c:
        dispatch_many(c, 3)

    def writer(go: Go) -> str:
        go()
        while True:
            try:
                with coordinate.connect(target, agent="waits") as c:
                    task = c.dispatch(title="Goes on", role="worker").task.id
                if written is not None:
                    written.set()
            except (errors.NoBoard, errors.SchemaBehind, errors.Moving):
                continue
            return task

    def moves(go: Go) -> str:
        go()
        return move.move(url, target).state

    assert run([moves, writer, writer], weakness=weakness)[0] == "moved"
    assert rows(target, "SELECT min(number), max(number) FROM tasks WHERE title = 'Goes on'") == [(4, 5)]


def test_a_resume_that_is_interrupted_while_it_waits_leaves_the_living_mover_alone(
    board_url: str, other_url: str
) -> None:
    """MV-08: a second mover lifts no fence before it is the one who fills the new place."""
    interrupted_beside(board_url, other_url)


def test_a_fence_that_anybody_lifts_is_noticed(noticed: Noticed, engine: str, postgres: Server, tmp_path: Path) -> None:
    def anybodys() -> None:
        sides.FENCE_SECONDS, sides._LOCK_SECONDS = 0.1, 0.1  # type: ignore  # who lifts it then waits in vain
        give_up = move._Ends._give_up
        move._Ends._give_up = lambda self, number, lifts: give_up(self, number, lifts=True)  # type: ignore

    def play(url: str) -> None:
        with places(postgres, tmp_path, engine) as target:
            interrupted_beside(url, target, weakness=anybodys)

    noticed(play)


def interrupted_beside(url: str, target: str, *, weakness: Callable[[], None] | None = None) -> None:
    with setting_up(url) as c:
        dispatch_many(c, 3)
    begun, over = FORK.Event(), FORK.Event()

    def lives(go: Go) -> str:
        def copying(*_: object) -> None:
            begun.set()
            over.wait(30)

        return move.move(url, target, progress=copying).state

    def waits(go: Go) -> str:
        claim = move._Ends._claim_target

        def interrupted(self: Any, *arguments: Any) -> None:
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            claim(self, *arguments)

        move._Ends._claim_target = interrupted  # type: ignore[method-assign]
        begun.wait(30)
        try:
            return move.move(url, None, resume=True).state
        except KeyboardInterrupt:
            return "interrupted"
        finally:
            over.set()

    assert run([lives, waits], weakness=weakness) == ["moved", "interrupted"]
    assert rows(url, "SELECT state FROM board_move") == [("moved",)]


def test_a_board_whose_fence_was_not_up_when_its_mover_was_killed_is_fenced_before_it_goes_on(
    board_url: str, other_url: str
) -> None:
    """MV-08: the record says that it moves already; whoever works there still is stopped before anything is copied."""
    with setting_up(board_url) as c:
        dispatch_many(c, 3)
    (answer,) = run([lambda go: move.move(board_url, other_url)], weakness=killed_at("_fence_source", "after"))
    assert answer == KILLED
    seen = []
    with setting_up(board_url, "alice") as c:
        c.dispatch(title="the fence is not up yet", role="worker")

        def look(doing: str, *_: object) -> None:
            seen.append(doing)
            with pytest.raises(errors.Moving):
                c.dispatch(title="x", role="worker")

        assert move.move(board_url, None, resume=True, progress=look).state == "moved"
    assert seen
    assert rows(other_url, "SELECT count(*) FROM tasks") == [(4,)]


# After the commit of each step that writes; before a commit nothing of the step has happened, so that twice is enough.
POINTS = [
    ("_make_target", "before"),
    ("_make_target", "after"),
    ("_close_target", "after"),
    ("_fence_source", "before"),
    ("_fence_source", "after"),
    ("_claim_target", "after"),
    ("_copy", "before"),
    ("_copy", "after"),
    ("_send_on", "after"),
    ("_open", "after"),
]


def killed_at(step: str, moment: str) -> Callable[[], None]:
    """SIGKILL before or after the commit of a step."""

    def weaken() -> None:
        now = [""]
        perform, transaction, joined = getattr(move._Ends, step), sides._Side.transaction, sides._Side.joined

        def performing(self: Any, *arguments: Any) -> Any:
            now[0] = step
            answer = perform(self, *arguments)
            die("after")  # where the transaction was not its own
            now[0] = ""
            return answer

        def die(reached: str) -> None:
            if (now[0], reached) == (step, moment):
                kill_myself()

        @contextmanager
        def watched(self: Any, *, writes: bool) -> Iterator[Any]:
            with transaction(self, writes=writes) as tx:
                yield tx
                if writes:
                    die("before")
            if writes:
                die("after")

        @contextmanager
        def watched_in_anothers(self: Any, connection: Any) -> Iterator[Any]:
            with joined(self, connection) as tx:
                yield tx
            die("before")

        setattr(move._Ends, step, performing)
        sides._Side.transaction = watched  # type: ignore[method-assign]
        sides._Side.joined = watched_in_anothers  # type: ignore[method-assign]

    return weaken


def test_a_mover_killed_anywhere_leaves_one_board_and_the_next_run_ends_it(
    engine: str, postgres: Server, sqlite_template: Path, postgres_script: str | None, tmp_path: Path
) -> None:
    """MV-08: then resumed, or undone and moved again. `python -m tests.bench drill` kills a large one at any moment."""
    for number, (step, moment) in enumerate(POINTS):
        board = a_board(engine, postgres, sqlite_template, postgres_script, tmp_path / str(number), made=number > 3)
        with board as (url, target):
            before = told(url, but=HELD)
            (answer,) = run(
                [lambda go, url=url, target=target: move.move(url, target)], weakness=killed_at(step, moment)
            )
            assert answer == KILLED, (step, moment)
            at_most_one_is_written(url, target)
            state = rows(url, "SELECT state FROM board_move")
            if state == [("stayed",)]:  # not fenced: the same again, whether it says so or not
                report = move.move(url, target, resume=bool(number))
            elif (number + (engine == "sqlite")) % 2:
                with pytest.raises((errors.Moving, errors.Moved)):
                    move.move(url, target)
                report = move.move(url, target, resume=True)
            else:
                assert move.undo(url, target).state == "undone"
                assert told(url, but=HELD) == before
                with setting_up(url, "alice") as c:
                    c.dispatch(title="open again", role="worker")
                    c.tail_events(after=0)
                before = told(url, but=HELD)
                report = move.move(url, target)
            assert report.state == "moved", (step, moment)
            assert told(target, but=HELD) == before, (step, moment)
            with setting_up(target, "alice") as there, setting_up(url, "alice") as here:
                there.dispatch(title="goes on", role="worker")
                with pytest.raises(errors.Moved):
                    here.dispatch(title="x", role="worker")


@contextmanager
def a_board(
    engine: str, postgres: Server, template: Path, script: str | None, folder: Path, *, made: bool
) -> Iterator[tuple[str, str]]:
    """A board, and a place on the other engine: nothing is there, or it was `made` before."""
    folder.mkdir()
    file = str(folder / "board.db")
    with postgres.schema() as schema:
        url, target = (file, schema) if engine == "sqlite" else (schema, file)
        if made or url == file:
            shutil.copy(template, file)
        if made or url == schema:
            create_board_on_postgres(schema, script)
        with setting_up(url, "alice") as c:
            dispatch_many(c, 12)
            c.complete(handle=c.claim_next(role="worker"), result="größe 🚀")
            c.claim_next(role="worker")
            c.next_events(consumer="reader", from_start=True, limit=4)
            c.tail_events(after=0)
        yield url, target


def at_most_one_is_written(*urls: str) -> None:
    open_ = []
    for url in urls:
        try:
            with coordinate.connect(url, agent="probe") as c:
                if c.stats().total_tasks:
                    c.counter_next(kind="probe")
                    open_.append(url)
        except (errors.NoBoard, errors.SchemaBehind, errors.Moving, errors.Moved):
            continue
    assert len(open_) <= 1, open_
    for url in open_:
        change(url, "DELETE FROM counters WHERE kind = 'default/probe'")
