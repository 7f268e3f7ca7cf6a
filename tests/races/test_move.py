"""A board moves while others work on it, and movers are killed: nothing is done on both sides, everybody is told."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import coordinate
from coordinate import errors
from coordinate.db import move, sides
from tests.conformance.test_move import HELD, told
from tests.postgres import Server
from tests.races.arena import FORK, Go, Noticed, assert_sound, change, dispatch_many, kill_myself, rows, run, setting_up

pytestmark = pytest.mark.race

AGENTS, TASKS = 10, 300
PACE = 0.05  # so that there is work left when the move begins
SEED, KILLS = 20_26, 20


# --- agents work on ---------------------------------------------------------------------------------------------------


def worker(url: str, name: str, over: Any) -> Callable[[Go], dict[str, Any]]:
    """Claim and complete until all is done, wherever the board is; tell what was done where, and what one was told."""

    def body(go: Go) -> dict[str, Any]:
        done: list[tuple[str, str]] = []
        heard: list[str] = []
        place, held = url, None
        go()
        while True:
            ended = over.is_set()
            try:
                with _patiently(coordinate.connect, heard, target=place, agent=name) as c:
                    while held := held or _patiently(c.claim_next, heard, role="worker"):
                        time.sleep(PACE if place == url else 0)
                        _patiently(c.complete, heard, handle=held)
                        done.append((held.task.id, place))
                        held = None
                    if (place != url or ended) and not c.stats().by_status.get("IN_PROGRESS"):
                        return {"done": done, "heard": heard, "place": place}
            except errors.Moved as moved:
                heard.append(moved.code)
                place = str(moved.facts["address"])
            time.sleep(0.01)

    return body


def _patiently(call: Callable[..., Any], heard: list[str], **given: Any) -> Any:
    while True:
        try:
            return call(**given)
        except errors.Moving as moving:
            heard.append(moving.code)
            time.sleep(0.02)


def mover(url: str, target: str, over: Any) -> Callable[[Go], dict[str, Any]]:
    def body(go: Go) -> dict[str, Any]:
        go()
        try:
            return {"report": move.move(url, target), "done": [], "heard": [], "place": target}
        finally:
            over.set()

    return body


def played(url: str, target: str, *, weakness: Callable[[], None] | None = None) -> list[dict[str, Any]]:
    with setting_up(url) as c:
        ids = dispatch_many(c, TASKS)
    over = FORK.Event()
    bodies = [mover(url, target, over), *(worker(url, f"agent-{number}", over) for number in range(AGENTS))]
    answers = run(bodies, weakness=weakness)
    done = [task for answer in answers for task, _ in answer["done"]]
    assert sorted(done) == sorted(ids), "each was done once, on one side"
    assert {answer["place"] for answer in answers} == {target}, "everybody was told"
    assert rows(target, "SELECT count(*) FROM tasks WHERE status = 'DONE'") == [(len(ids),)]
    assert_sound(target)
    left = rows(url, "SELECT count(*) FROM attempts WHERE outcome = 'completed'")[0][0]
    assert left == sum(place == url for answer in answers for _, place in answer["done"])
    return answers


def test_ten_agents_work_on_while_the_board_moves(board_url: str, other_url: str) -> None:
    """MV-07"""
    answers = played(board_url, address_of(other_url))
    assert all("moved" in answer["heard"] for answer in answers[1:])


def test_without_the_fence_the_race_is_lost(noticed: Noticed, engine: str, postgres: Server, tmp_path: Path) -> None:
    def no_fence() -> None:
        for side in (sides.SQLiteSide, sides.PostgresSide):
            side.raise_fence = lambda self, sentence: None  # type: ignore[method-assign]

    @contextmanager
    def place() -> Iterator[str]:
        if engine == "postgresql":
            yield str(tmp_path / f"there-{random.random()}.db")
        else:
            with postgres.schema() as url:
                yield url

    def play(url: str) -> None:
        with place() as target:
            played(url, address_of(target), weakness=no_fence)

    noticed(play)


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


def killed_at(point: int) -> Callable[[], None]:
    """SIGKILL at the so-many-th begin, statement group or end of a transaction, or page of rows."""

    def weaken() -> None:
        left = [point]

        def count() -> None:
            left[0] -= 1
            if left[0] == 0:
                kill_myself()

        transaction = sides._Side.transaction

        @contextmanager
        def counted(self: Any, *, writes: bool) -> Iterator[Any]:
            count()
            with transaction(self, writes=writes) as tx:
                count()
                yield tx
                count()  # all but committed
            count()

        sides._Side.transaction = counted  # type: ignore[method-assign]
        for side in (sides.SQLiteSide, sides.PostgresSide):
            write = side.write

            def writing(self: Any, table: Any, pages: Any, *, write: Any = write) -> Iterator[tuple[int, int]]:
                for written in write(self, table, pages):
                    count()
                    yield written

            side.write = writing  # type: ignore[method-assign]

    return weaken


POINTS = 75  # a whole move of the board below passes some more


def test_a_mover_killed_anywhere_leaves_one_board_and_the_next_run_ends_it(
    engine: str, postgres: Server, sqlite_template: Path, postgres_script: str | None, tmp_path: Path
) -> None:
    """MV-08: SIGKILL at ten points for each engine, twenty in all; then resumed, or undone and moved again."""
    chance = random.Random(SEED + len(engine))
    for number, point in enumerate(sorted(chance.sample(range(1, POINTS), KILLS // 2))):
        with a_board(engine, postgres, sqlite_template, postgres_script, tmp_path / str(number)) as (url, target):
            before = told(url, but=HELD)
            (answer,) = run([lambda go, url=url, target=target: move.move(url, target)], weakness=killed_at(point))
            at_most_one_is_written(url, target)
            state = [row[0] for row in rows(url, "SELECT state FROM board_move")]
            if answer != "killed" or state in ([], ["stayed"]):
                report = move.move(url, target) if state != ["moved"] else move.move(url, target, resume=True)
            elif number % 2:
                with pytest.raises((errors.Moving, errors.Moved)):
                    move.move(url, target)
                report = move.move(url, target, resume=True)
            else:
                assert move.undo(url, target).state == "undone"
                assert told(url, but=HELD) == before
                with coordinate.connect(url, agent="alice") as c:
                    c.dispatch(title="open again", role="worker")
                    c.tail_events(after=0)
                before = told(url, but=HELD)
                report = move.move(url, target)
            assert report.state == "moved", point
            assert told(target, but=HELD) == before, point
            with coordinate.connect(target, agent="alice") as there, coordinate.connect(url, agent="alice") as here:
                there.dispatch(title="goes on", role="worker")
                with pytest.raises(errors.Moved):
                    here.dispatch(title="x", role="worker")


@contextmanager
def a_board(
    engine: str, postgres: Server, template: Path, script: str | None, folder: Path
) -> Iterator[tuple[str, str]]:
    from tests.conftest import create_board_on_postgres

    folder.mkdir()
    file = str(folder / "board.db")
    with postgres.schema() as schema:
        if engine == "sqlite":
            Path(file).write_bytes(template.read_bytes())
            url, target = file, schema
        else:
            create_board_on_postgres(schema, script)
            url, target = schema, file
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
        except (errors.NoBoard, errors.Moving, errors.Moved):
            continue
    assert len(open_) <= 1, open_
    for url in open_:
        change(url, "DELETE FROM counters WHERE kind = 'default/probe'")
