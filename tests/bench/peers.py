"""The same work done by others: one process enqueues, one by one and many at once, then takes and finishes.

Needs the extra `bench`. Many at once go the quickest way that a peer has; some have but the one, and go one by one.

Ours is never compared at doing less: each of our steps also writes history and an event, which the peers do not have.
All files are in WAL mode with synchronous=NORMAL where the peer lets one choose; a peer that does not is as it comes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import coordinate
from coordinate.plans import PlannedTask
from tests.bench.rounds import Figure, in_turns


class Work(NamedTuple):
    """What is measured, each for so many tasks."""

    enqueue: Callable[[int], None]
    enqueue_at_once: Callable[[int], None]
    take: Callable[[int], None]


Peer = Callable[[str, ExitStack], Work]  # at a place; what it opened is closed with the stack

ON_FILE = ("huey", "litequeue", "persistqueue")
ON_SERVER = ("procrastinate", "pgqueuer")


def missing(modules: Iterable[str]) -> list[str]:
    """Those of the modules that are not installed."""
    return [module for module in modules if find_spec(module) is None]


def on_file(folder: Path, *, rounds: int, each: int) -> list[Figure]:
    peers: dict[str, Peer] = {"huey": _huey, "litequeue": _litequeue, "persist-queue": _persist_queue}
    return _compare(peers, lambda name: str(folder / name), rounds, each)


def on_server(place: Callable[[str], str], *, rounds: int, each: int) -> list[Figure]:
    return _compare({"procrastinate": _procrastinate, "pgqueuer": _pgqueuer}, place, rounds, each)


def _compare(peers: dict[str, Peer], place: Callable[[str], str], rounds: int, each: int) -> list[Figure]:
    figures = []
    with ExitStack() as stack:
        mine = _ours(place("ours"), stack)
        for name, peer in peers.items():
            its = peer(place(name.replace("-", "_")), stack)
            for what, ours, theirs in (
                ("enqueue", mine.enqueue, its.enqueue),
                (f"enqueue {each:,} at once", mine.enqueue_at_once, its.enqueue_at_once),
                ("take + finish", mine.take, its.take),
            ):
                figures.append(
                    in_turns(
                        f"{what}: ours / {name}",
                        lambda act=ours: _rate(act, each),
                        lambda act=theirs: _rate(act, each),
                        rounds=rounds,
                        aim=1.0,
                    )
                )
    return figures


def _rate(act: Callable[[int], None], times: int) -> float:
    began = time.perf_counter()
    act(times)
    return times / (time.perf_counter() - began)


def _ours(place: str, stack: ExitStack) -> Work:
    c = stack.enter_context(coordinate.connect(place, agent="bench", create=True))

    def enqueue(times: int) -> None:
        for _ in range(times):
            c.dispatch(title="A task", role="worker")

    def enqueue_at_once(times: int) -> None:
        c.dispatch_plan(plan=[PlannedTask(str(key), "A task", "worker") for key in range(times)])

    def take(times: int) -> None:
        for _ in range(times):
            claim = c.claim_next(role="worker")
            assert claim is not None
            c.complete(handle=claim)

    return Work(enqueue, enqueue_at_once, take)


def _huey(place: str, stack: ExitStack) -> Work:
    from huey import SqliteHuey

    queue = SqliteHuey(filename=place, journal_mode="wal", fsync=False)

    @queue.task()  # type: ignore[untyped-decorator, unused-ignore]
    def work(title: str) -> str:
        return title

    def enqueue(times: int) -> None:
        for _ in range(times):
            work("A task")

    def take(times: int) -> None:
        for _ in range(times):
            queue.execute(queue.dequeue())

    return Work(enqueue, enqueue, take)


def _litequeue(place: str, stack: ExitStack) -> Work:
    from litequeue import LiteQueue

    queue = LiteQueue(place)

    def enqueue(times: int) -> None:
        for _ in range(times):
            queue.put("A task")

    def enqueue_at_once(times: int) -> None:
        with queue.transaction():
            enqueue(times)

    def take(times: int) -> None:
        for _ in range(times):
            queue.done(queue.pop().message_id)

    return Work(enqueue, enqueue_at_once, take)


def _persist_queue(place: str, stack: ExitStack) -> Work:
    from persistqueue import SQLiteAckQueue

    queue = SQLiteAckQueue(place, auto_commit=True)

    def enqueue(times: int) -> None:
        for _ in range(times):
            queue.put("A task")

    def take(times: int) -> None:
        for _ in range(times):
            queue.ack(queue.get())

    return Work(enqueue, enqueue, take)


def _procrastinate(place: str, stack: ExitStack) -> Work:
    from procrastinate import App, PsycopgConnector, jobs

    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    app = App(connector=PsycopgConnector(conninfo=place))

    @app.task(name="work")
    def work(title: str) -> None:
        pass

    worker: Any = None

    async def open_() -> None:
        nonlocal worker
        await app.open_async()
        await app.schema_manager.apply_schema_async()
        worker = await app.job_manager.register_worker()
        stack.callback(lambda: loop.run_until_complete(app.close_async()))

    async def enqueue(times: int) -> None:
        for _ in range(times):
            await work.defer_async(title="A task")

    async def enqueue_at_once(times: int) -> None:
        await work.batch_defer_async(*({"title": "A task"} for _ in range(times)))

    async def take(times: int) -> None:
        for _ in range(times):
            job = await app.job_manager.fetch_job(queues=None, worker_id=worker)
            assert job is not None
            await app.job_manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)

    loop.run_until_complete(open_())
    return Work(
        lambda times: loop.run_until_complete(enqueue(times)),
        lambda times: loop.run_until_complete(enqueue_at_once(times)),
        lambda times: loop.run_until_complete(take(times)),
    )


def _pgqueuer(place: str, stack: ExitStack) -> Work:
    import datetime
    import uuid

    import psycopg
    from pgqueuer.db import PsycopgDriver
    from pgqueuer.ports.repository import EntrypointExecutionParameter
    from pgqueuer.queries import Queries

    loop = asyncio.new_event_loop()
    stack.callback(loop.close)
    manager: Any = uuid.uuid4()
    queries: Any = None

    async def open_() -> None:
        nonlocal queries
        connection = await psycopg.AsyncConnection.connect(place, autocommit=True)
        stack.callback(lambda: loop.run_until_complete(connection.close()))
        queries = Queries(PsycopgDriver(connection))
        await queries.install()

    async def enqueue(times: int) -> None:
        for _ in range(times):
            await queries.enqueue("work", b"A task")

    async def enqueue_at_once(times: int) -> None:
        await queries.enqueue(["work"] * times, [b"A task"] * times, [0] * times)

    async def take(times: int) -> None:
        for _ in range(times):
            (job,) = await queries.dequeue(
                1, {"work": EntrypointExecutionParameter(0)}, manager, None, datetime.timedelta(minutes=5)
            )
            await queries.log_jobs([(job, "successful", None)])

    loop.run_until_complete(open_())
    return Work(
        lambda times: loop.run_until_complete(enqueue(times)),
        lambda times: loop.run_until_complete(enqueue_at_once(times)),
        lambda times: loop.run_until_complete(take(times)),
    )
