"""`python -m tests.bench drill`: a large board moves to Postgres and back while agents work, and movers are killed.

First it goes there and back and every checksum is compared. Then it goes there and back once more, while agents keep
trying to claim and complete, wherever they were sent: nothing may be done on both sides, and everybody must have been
told. Then movers of a smaller board are killed with SIGKILL at random moments, and each time the next run must end what
was begun, or undo it, with every row where it was. Any promise that breaks ends the drill with an error.
"""

from __future__ import annotations

import argparse
import random
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import coordinate
from coordinate import errors
from coordinate.db import move
from coordinate.db.sides import holds
from tests.bench.arguments import positive
from tests.bench.boards import fill_lived
from tests.conformance.test_move import HELD, told
from tests.postgres import Server, start_server
from tests.races.arena import FORK, Go, rows, run
from tests.races.test_move import at_most_one_is_written

HELD_TABLES = {table.name for table, _ in holds()}


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench drill", description=__doc__)
    parser.add_argument("--tasks", type=positive, default=200_000, help="on the board that moves while agents work")
    parser.add_argument("--agents", type=positive, default=10)
    parser.add_argument("--kills", type=positive, default=20)
    parser.add_argument("--kill-tasks", type=positive, default=20_000, help="on the board whose movers are killed")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args(arguments)
    server = start_server()
    try:
        with tempfile.TemporaryDirectory(prefix="coordinate-drill-") as folder:
            there_and_back(server, Path(folder), options.tasks)
            while_agents_work(server, Path(folder), options.tasks, options.agents)
            print(f"seed {options.seed}", flush=True)
            killed(server, Path(folder), options.kill_tasks, options.kills, random.Random(options.seed))
    finally:
        server.stop()


def a_board(path: Path, tasks: int) -> str:
    coordinate.connect(path, create=True).close()
    fill_lived(str(path), tasks)
    return str(path)


# --- there and back ---------------------------------------------------------------------------------------------------


def there_and_back(server: Server, folder: Path, tasks: int) -> None:
    board, back = a_board(folder / "quiet.db", tasks), str(folder / "quiet-back.db")
    with server.database("quiet") as url:
        there = move.move(board, url)
        home = move.move(url, back)
    differ = [name for name, each in there.tables.items() if name not in HELD_TABLES and each != home.tables[name]]
    assert not differ, differ
    assert {name: each.rows for name, each in there.tables.items()} == {
        name: each.rows for name, each in home.tables.items()
    }
    filled = sum(each.rows > 0 for each in there.tables.values())
    print(
        f"there and back: {tasks:,} tasks, {there.rows:,} rows of {filled} tables, {there.bytes / 1e6:,.0f} MB;"
        f" checksums equal; nobody could write for {there.added_seconds:.1f} s and {home.added_seconds:.1f} s",
        flush=True,
    )
    _remove(folder, "quiet")


# --- while agents work ------------------------------------------------------------------------------------------------


def while_agents_work(server: Server, folder: Path, tasks: int, agents: int) -> None:
    board, back = a_board(folder / "busy.db", tasks), str(folder / "busy-back.db")
    done_before = rows(board, "SELECT count(*) FROM tasks WHERE status = 'DONE'")[0][0]
    with server.database("busy") as url:
        over = FORK.Event()
        bodies = [
            mover([board, url, back], over),
            *(worker(board, f"drill-{number}", over) for number in range(agents)),
        ]
        _, *answers = run(bodies, seconds=3600)
        places = [board, url, back]
        done = Counter(task for answer in answers for task, _ in answer["done"])
        assert max(done.values()) == 1, "nothing was done twice"
        ends = [rows(place, "SELECT count(*) FROM tasks WHERE status = 'DONE'")[0][0] for place in places]
        assert ends[-1] == done_before + len(done)
    known = {_address(place): number for number, place in enumerate(places)}
    by_place = Counter(known[place] for answer in answers for _, place in answer["done"])
    assert [ends[0] - done_before, ends[1] - ends[0], ends[2] - ends[1]] == [by_place[number] for number in range(3)]
    told_twice = [answer for answer in answers if answer["heard"]["moved"] == 2 and answer["place"] == _address(back)]
    assert len(told_twice) == agents, "everybody who wrote to an old place was told"
    with coordinate.connect(back) as c:
        found = [symptom for symptom in c.examine() if symptom.severity == "fault"]
        assert not found, found
    print(
        f"while {agents} agents work: {len(done):,} tasks done, on the three boards {[by_place[n] for n in range(3)]},"
        f" none twice; told 'moving' {sum(answer['heard']['moving'] for answer in answers):,} times, 'moved'"
        f" {sum(answer['heard']['moved'] for answer in answers)} times",
        flush=True,
    )
    _remove(folder, "busy")


def mover(places: list[str], over: Any) -> Callable[[Go], None]:
    """From place to place, with a while for work on each."""

    def body(go: Go) -> None:
        go()
        try:
            for source, target in pairwise(places):
                time.sleep(3)
                move.move(source, target)
            time.sleep(3)
        finally:
            over.set()

    return body


def worker(url: str, name: str, over: Any) -> Callable[[Go], dict[str, Any]]:
    """Claim and complete until it is over, wherever the board is; a claim is kept from place to place."""

    def body(go: Go) -> dict[str, Any]:
        done: list[tuple[str, str]] = []
        heard: Counter[str] = Counter()
        place, held = _address(url), None
        go()
        while not (over.is_set() and held is None):
            try:
                with coordinate.connect(place, agent=name) as c:
                    while not (over.is_set() and held is None):
                        held = held or c.claim_next(role="worker")
                        time.sleep(0.05)
                        if held is None:  # a small board is soon done
                            continue
                        c.complete(handle=held)
                        done.append((held.task.id, place))
                        held = None
            except (errors.Moving, errors.Moved) as stopped:
                heard[stopped.code] += 1
                if isinstance(stopped, errors.Moved):
                    place = str(stopped.facts["address"])
                time.sleep(0.1)
        return {"done": done, "heard": heard, "place": place}

    return body


def _address(url: str) -> str:
    return move.side_of(url).engine.address()


# --- movers are killed ------------------------------------------------------------------------------------------------


def killed(server: Server, folder: Path, tasks: int, kills: int, chance: random.Random) -> None:
    """From a file to Postgres and the other way in turns, each killed once, resumed or undone in turns."""
    template = folder / "template.db"
    a_board(template, tasks)
    with closing(sqlite3.connect(template)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with server.database("timed") as url:
        started = time.monotonic()
        move.move(_copy(template, folder / "timed.db"), url)
        lasts = time.monotonic() - started
    ended: Counter[str] = Counter()
    number = 0
    while number < kills:
        with server.database(f"kill{number}") as url:
            _remove(folder, "kill-")
            file = _copy(template, folder / f"kill-{number}.db")
            if number % 2:
                move.move(file, url)
                source, target = url, str(folder / f"kill-{number}-back.db")
            else:
                source, target = file, url
            before = told(source, but=HELD)
            moment = chance.uniform(0, lasts)
            process = FORK.Process(target=move.move, args=(source, target))
            process.start()
            process.join(moment)
            process.kill()
            process.join()
            if process.exitcode == 0:  # it was done before
                lasts *= 0.9
                continue
            at_most_one_is_written(source, target)
            state = "".join(row[0] for row in rows(source, "SELECT state FROM board_move"))
            how = _end(source, target, state, undo=number % 4 >= 2)
            assert told(target, but=HELD) == before, (number, moment)
            ended[f"{state or 'not begun'}, {how}"] += 1
        number += 1
    print(
        f"killed: {kills} movers of {tasks:,} tasks at random moments, each ended right: {dict(sorted(ended.items()))}",
        flush=True,
    )


def _end(source: str, target: str, state: str, *, undo: bool) -> str:
    if state not in ("moving", "moved"):
        assert move.move(source, target).state == "moved"
        return "begun again"
    if undo and not (state == "moved" and _is_open(target)):
        assert move.undo(source, target).state == "undone"
        assert move.move(source, target).state == "moved"
        return "undone and begun again"
    assert move.move(source, target, resume=True).state == "moved"
    return "resumed"


def _is_open(target: str) -> bool:
    return rows(target, "SELECT state FROM board_move") == [("arrived",)]


def _copy(template: Path, place: Path) -> str:
    place.write_bytes(template.read_bytes())
    return str(place)


def _remove(folder: Path, prefix: str) -> None:
    for path in folder.glob(f"{prefix}*"):
        path.unlink()
