"""Many agents, one board, some killed half-way, and an honest verdict computed from the database.

The same machinery serves `coordinate demo` (a realistic plan, kills, a story) and `coordinate bench` (equal tasks, no
story). Every agent is a process of its own with its own connection; what it measured it writes to a file of its own,
so that killing one can neither block nor falsify another.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import random
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from coordinate import errors, signals
from coordinate.plans import PlannedTask
from coordinate.records import ExportedTask
from coordinate.service import Coordinator, connect, open_or_make

IDLE_LEAST, IDLE_MOST = 0.02, 0.25
RATE_SECONDS = 0.1  # before that a rate says nothing
REVIEWER_SHARE = 10  # one agent in ten reviews
REVIEW_EVERY = 5  # one task in five is reviewed
GROUP = 10  # tasks of one feature: a design, seven parts, two that need all of them

STALL_SECONDS = 10.0  # so long without any change, and it is said what is waited for

# An agent that got nothing was passed over only where the others got plenty, for longer than a busy machine may keep a
# process waiting: so many tasks for each agent, and so long a second half.
FAIR_TASKS = 10
FAIR_SECONDS = 1.0

Show = Callable[[dict[str, int], int, float], None]
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Options:
    """What to play: sizes, how many to kill, how long a lease lasts, where, and after how long a standstill to give up.

    With `keep` the board outlives the play also where no `target` names a place for it. Raises `InvalidInput` when
    more are to be killed than the work can spare.
    """

    agents: int = 50
    tasks: int = 500
    kill: int = 5
    lease_seconds: int = 2
    work_seconds: float = 0.05
    patience_seconds: float = 120.0
    target: str | None = None
    keep: bool = False
    story: bool = True
    seed: int = 1

    @property
    def reviewers(self) -> int:
        return max(1, self.agents // REVIEWER_SHARE) if self.story and self.agents > 1 else 0

    @property
    def kill_max(self) -> int:
        """Reviewers are not killed, and one worker must be left to do what the dead began."""
        return self.agents - self.reviewers - 1

    def __post_init__(self) -> None:
        if self.kill > self.kill_max:
            raise errors.InvalidInput(
                f"of {self.agents} agents at most {self.kill_max} can be killed: {self.reviewers} review, and one"
                " worker must be left",
                hint=f"--kill {self.kill_max}, or more --agents",
                field="kill",
            )


@dataclass(slots=True)
class Verdict:
    """What the database says at the end; `holds` only if no promise is `broken`.

    `seconds` go from the first claim to the last completion by the board's clock, so that the start of the processes
    does not count; `claims_per_second` is of those. `unserved_agents` were passed over while others got plenty.
    `unchecked` names those promises that this play gave no occasion to check; `kept` is where the board is, if it was
    to stay.
    """

    holds: bool
    seconds: float
    board: str
    kept: str | None
    agents: int
    tasks: int
    done: int
    double_claims: int
    lost_tasks: int
    done_more_than_once: int
    failures: list[str]
    killed: int
    killed_holding: int
    leases_recovered: int
    stale_completions_tried: int
    stale_completions_refused: int
    claims: int
    claims_per_second: float
    claim_ms: dict[str, float]
    tasks_per_agent: dict[str, float]
    unserved_agents: int
    broken: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def play(options: Options, show: Show = lambda counts, killed, rate: None, tell: Tell = lambda said: None) -> Verdict:
    """Run it. Before anything is written it raises `NotEmpty` when the target holds tasks already, and `SchemaBehind`
    when it is of an older schema.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coordinate-demo-")))
        target = options.target or str(_kept_place() if options.keep else folder / "board.db")
        with open_or_make(target, agent="manager") as c:
            if c.list_tasks(limit=1).tasks:
                raise errors.NotEmpty(
                    f"{c.database.engine.describe()} holds tasks already: the {'demo' if options.story else 'bench'}"
                    " wants an empty board",
                    hint="name an empty place, or leave --db away",
                )
            c.dispatch_plan(plan=plan_of(options))
        with _agents(options, target, folder) as agents, connect(target, agent="manager") as c:
            agents.begin()
            watched = _watch(options, c, agents.processes, show, tell)
        with connect(target, agent="manager") as c:
            return _judge(options, c, folder, watched)


def _kept_place() -> Path:
    """A new file in a folder of its own, for the caller alone."""
    return Path(tempfile.mkdtemp(prefix="coordinate-demo-")) / "board.db"


def plan_of(options: Options) -> list[PlannedTask]:
    """A plan: features of ten tasks, a design first, then parts, then what needs them all; or just equal tasks."""
    if not options.story:
        return [PlannedTask(key=f"t{index}", title=f"Task {index}") for index in range(1, options.tasks + 1)]
    chance = random.Random(options.seed)
    planned: list[PlannedTask] = []
    for index in range(options.tasks):
        feature, place = divmod(index, GROUP)
        first = feature * GROUP
        waits: tuple[str, ...]
        if place == 0:
            title, waits = f"Design feature {feature + 1}", ()
        elif place < GROUP - 2:
            title, waits = f"Build part {place} of feature {feature + 1}", (f"t{first}",)
        else:
            kind = "Test" if place == GROUP - 2 else "Document"
            title, waits = f"{kind} feature {feature + 1}", tuple(f"t{first + part}" for part in range(1, place))
        priority = 10 if feature % 7 == 3 else 100 + chance.randrange(3) * 10
        planned.append(PlannedTask(key=f"t{index}", title=title, priority=priority, depends_on=waits))
    return planned


# --- the agents -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Agents:
    """The processes, which wait at a gate until all have come."""

    processes: list[multiprocessing.process.BaseProcess]
    folder: Path
    gate: Any
    patience_seconds: float

    def begin(self) -> None:
        """Open the gate once every agent wrote the first line of its diary, or died, or patience ended."""
        until = time.monotonic() + self.patience_seconds
        waited_for = list(self.processes)
        while waited_for and time.monotonic() < until:
            time.sleep(0.01)
            waited_for = [each for each in waited_for if each.is_alive() and not self._came(each.name)]
        self.gate.close()

    def _came(self, name: str) -> bool:
        path = _diary(self.folder, name)
        return path.exists() and path.stat().st_size > 0


@contextmanager
def _agents(options: Options, target: str, folder: Path) -> Iterator[_Agents]:
    """Start every agent as a process; whatever happens, none outlives this."""
    methods = multiprocessing.get_all_start_methods()
    # Forking is quick and safe here: this process has one thread, and its connections are not carried over.
    start: Any = multiprocessing.get_context("fork" if "fork" in methods else "spawn")
    # The gate is a pipe into which nobody writes: it opens when its last writing end is closed. Nobody can be killed
    # while holding it, as one could with a lock.
    wait, gate = start.Pipe(duplex=False)
    agents: list[multiprocessing.process.BaseProcess] = []
    # The address goes to the children by inheritance or pipe, never through a command line that others can list.
    for number in range(1, options.agents + 1):
        reviews = number <= options.reviewers
        name = f"reviewer-{number}" if reviews else f"worker-{number}"
        process = start.Process(target=_live, name=name, args=(options, target, folder, name, reviews, wait, gate))
        process.daemon = True
        agents.append(process)
    try:
        for process in agents:
            _interrupts(blocked=True)
            process.start()
            _interrupts(blocked=False)
        yield _Agents(agents, folder, gate, options.patience_seconds)
    finally:
        _interrupts(blocked=False)
        for process in agents:
            if process.pid is not None:
                process.kill()
                process.join()
        wait.close()
        gate.close()


def _interrupts(*, blocked: bool) -> None:
    """A Ctrl-C waits while a process is started, so that the new one never meets it in the midst of ours."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_BLOCK if blocked else signal.SIG_UNBLOCK, signals.ENDING)


def _live(options: Options, target: str, folder: Path, name: str, reviews: bool, wait: Any, gate: Any) -> None:
    """One agent's life: come, wait at the gate, then take, work, finish, until everything is done."""
    gate.close()
    chance = random.Random(f"{options.seed} {name}")
    with _diary(folder, name).open("a", encoding="utf-8", buffering=1) as diary:
        try:
            _interrupts(blocked=False)
            with connect(target, agent=name) as c:
                diary.write(json.dumps({"came": True}) + "\n")
                wait.poll(None)
                diary.write(json.dumps({"began": c.now().isoformat()}) + "\n")
                step = _review_one if reviews else _work_one
                idle = IDLE_LEAST
                while idle < IDLE_MOST or not _finished(c):
                    if step(c, options, chance, diary):
                        idle = IDLE_LEAST
                    else:
                        time.sleep(idle * chance.uniform(0.5, 1.5))
                        idle = min(IDLE_MOST, idle * 2)
        except errors.CoordinateError as error:
            diary.write(json.dumps({"failure": f"{name}: {error.code}: {error.message}"}) + "\n")
        except KeyboardInterrupt:
            pass


def _diary(folder: Path, name: str) -> Path:
    return folder / f"{name}.jsonl"


def _work_one(c: Coordinator, options: Options, chance: random.Random, diary: Any) -> bool:
    begun = time.perf_counter()
    claim = c.claim_next(role="worker", lease_seconds=options.lease_seconds)
    took = time.perf_counter() - begun
    if claim is None:
        return False
    diary.write(json.dumps({"claim": claim.handle, "ms": took * 1000}) + "\n")
    time.sleep(chance.uniform(0, 2 * options.work_seconds))
    try:
        if options.story and chance.random() < 0.3:
            c.log_progress(handle=claim, note="half of it stands")
        reviewed = options.story and claim.task.number % REVIEW_EVERY == 0
        c.complete(handle=claim, review=reviewed, result=f"done by {c.agent}" if options.story else None)
    except errors.StaleClaim as lost:
        # The machine was so busy that the lease ended: the work is another's now, which is what leases promise.
        diary.write(json.dumps({"lost": claim.handle, "why": lost.message}) + "\n")
    return True


def _review_one(c: Coordinator, options: Options, chance: random.Random, diary: Any) -> bool:
    task = c.claim_review(lease_seconds=max(60, options.lease_seconds))
    if task is None:
        return False
    time.sleep(chance.uniform(0, options.work_seconds))
    if task.rejected_attempt == 0 and task.number % (3 * REVIEW_EVERY) == 0:
        c.reject(task=task.id, reason="no test shows it")
    else:
        c.approve(task=task.id)
    return True


def _finished(c: Coordinator) -> bool:
    counts = c.stats().by_status
    return sum(counts.values()) == counts.get("DONE", 0)


# --- watching and killing ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Killed:
    agent: str
    holding: tuple[str, ...]
    refused: int = 0
    tried: int = 0


@dataclass(slots=True)
class _Watched:
    """Who was killed, and what was waited for when nothing moved any more."""

    killed: list[_Killed] = field(default_factory=list)
    waits_for: list[str] = field(default_factory=list)


def _watch(
    options: Options, c: Coordinator, agents: list[multiprocessing.process.BaseProcess], show: Show, tell: Tell
) -> _Watched:
    """Show what happens, kill some agents in the middle of their work, and play their ghosts afterwards."""
    watched = _Watched()
    killed = watched.killed
    victims = [process for process in agents if process.name.startswith("worker")]
    random.Random(options.seed).shuffle(victims)
    started = moved = time.monotonic()
    before: object = None
    while True:
        counts = c.stats().by_status
        done, now = counts.get("DONE", 0), time.monotonic()
        show(counts, len(killed), done / (now - started) if now - started >= RATE_SECONDS else 0.0)
        if counts != before:
            before, moved, watched.waits_for = counts, now, []
        elif now - moved > STALL_SECONDS and not watched.waits_for:
            watched.waits_for = _waits_for(c, counts)
            tell("Nothing has moved for a while: " + "; ".join(watched.waits_for) + ".")
        if done == options.tasks:
            break
        if now - moved > options.patience_seconds or not any(process.is_alive() for process in agents):
            watched.waits_for = _waits_for(c, counts)
            break
        share = done / options.tasks
        if len(killed) < options.kill and share >= 0.1 + 0.6 * len(killed) / options.kill:
            _kill_one(c, victims, killed)
        for ghost in killed:
            _haunt(c, ghost)
        time.sleep(0.1)
    for ghost in killed:
        _haunt(c, ghost)
    for process in agents:
        process.join(timeout=5)
    return watched


def _waits_for(c: Coordinator, counts: dict[str, int]) -> list[str]:
    said = [reason.message for reason in c.why_idle(role="worker").reasons]
    return said or [f"{count} task(s) are {status}" for status, count in counts.items() if status != "DONE"]


def _kill_one(c: Coordinator, victims: list[multiprocessing.process.BaseProcess], killed: list[_Killed]) -> None:
    """SIGKILL one agent, preferably one that holds a task now, never the last; what it held is read after its death."""
    alive = [process for process in victims if process.is_alive()]
    if len(alive) < 2:
        return
    holders = [process for process in alive if c.mine(agent=process.name)]
    victim = (holders or alive)[0]
    victims.remove(victim)
    victim.kill()
    victim.join()
    held = tuple(task.handle for task in c.mine(agent=victim.name) if task.handle)
    killed.append(_Killed(victim.name, held))


def _haunt(c: Coordinator, ghost: _Killed) -> None:
    """Once its task is somebody else's, the dead agent comes back and tries to finish it: it must be refused."""
    for handle in ghost.holding[ghost.tried :]:
        task_id, attempt = handle.split("@")
        if c.view(task=task_id, notes=0, history=0).task.attempt == int(attempt):
            return
        ghost.tried += 1
        try:
            c.complete(handle=handle, agent=ghost.agent)
        except errors.StaleClaim:
            ghost.refused += 1


# --- the verdict ------------------------------------------------------------------------------------------------------


def _judge(options: Options, c: Coordinator, folder: Path, watched: _Watched) -> Verdict:
    """Read the whole board, task by task, and hold it against the promises."""
    done = doubles = lost = repeated = expired = total = 0
    claimed_at: list[datetime] = []
    finished_at: list[datetime] = []
    for exported in c.export():
        total += 1
        finished = exported.task.status == "DONE"
        done += finished
        lost += not finished
        doubles += _double_claims(exported)
        endings = sum(entry.action in ("COMPLETE", "APPROVE") for entry in exported.history)
        repeated += endings > 1
        expired += sum(entry.action == "EXPIRE" for entry in exported.history)
        claimed_at += [attempt.started_at for attempt in exported.attempts]
        finished_at += [exported.task.finished_at] if exported.task.finished_at else []
    lost += options.tasks - total
    killed, diaries = watched.killed, _diaries(folder)
    dead = {ghost.agent for ghost in killed}  # they may have died before they could be served
    workers = [f"worker-{number}" for number in range(options.reviewers + 1, options.agents + 1)]
    shares = {name: diaries.served.get(name, 0) for name in workers if name not in dead}
    empty_handed = [name for name, share in shares.items() if share == 0]
    passed_over = _passed_over(options, empty_handed, diaries.began, finished_at)
    seconds = (max(finished_at) - min(claimed_at)).total_seconds() if finished_at and claimed_at else 0.0
    latencies = diaries.latencies
    verdict = Verdict(
        holds=True,
        seconds=round(seconds, 2),
        board=c.database.engine.name,
        kept=c.database.engine.describe() if options.keep or options.target else None,
        agents=options.agents,
        tasks=options.tasks,
        done=done,
        double_claims=doubles,
        lost_tasks=lost,
        done_more_than_once=repeated,
        failures=diaries.failures[:20],
        killed=len(killed),
        killed_holding=sum(len(ghost.holding) for ghost in killed),
        leases_recovered=expired,
        stale_completions_tried=sum(ghost.tried for ghost in killed),
        stale_completions_refused=sum(ghost.refused for ghost in killed),
        claims=len(latencies),
        claims_per_second=round(len(latencies) / max(seconds, 0.001), 1),
        claim_ms={name: round(_percentile(latencies, part), 2) for name, part in _PARTS.items()},
        tasks_per_agent={
            "least": min(shares.values(), default=0),
            "mean": round(sum(shares.values()) / len(shares), 2) if shares else 0.0,
            "most": max(shares.values(), default=0),
        },
        unserved_agents=passed_over,
        waits_for=watched.waits_for,
    )
    verdict.broken = list(_broken(verdict))
    verdict.unchecked = list(_unchecked(options, verdict, len(empty_handed) - passed_over))
    verdict.holds = not verdict.broken
    return verdict


def _passed_over(options: Options, empty_handed: list[str], began: dict[str, datetime], ended: list[datetime]) -> int:
    """How many of those that got nothing were asking before half of the tasks had ended, all by the board's clock.

    None where the work was too little, or over too soon, for that to say anything about the board.
    """
    ended, half = sorted(ended), (options.tasks + 1) // 2
    if options.tasks < FAIR_TASKS * options.agents or len(ended) < half:
        return 0
    half_done_at = ended[half - 1]
    if (ended[-1] - half_done_at).total_seconds() < FAIR_SECONDS:
        return 0
    return sum(name in began and began[name] < half_done_at for name in empty_handed)


def _broken(verdict: Verdict) -> Iterator[str]:
    if verdict.double_claims:
        yield f"{verdict.double_claims} task(s) were held by two at once"
    if verdict.lost_tasks:
        waits = ": " + "; ".join(verdict.waits_for) if verdict.waits_for else ""
        yield f"{verdict.lost_tasks} task(s) are not done{waits}"
    if verdict.done_more_than_once:
        yield f"{verdict.done_more_than_once} task(s) were finished more than once"
    if verdict.failures:
        yield f"{len(verdict.failures)} agent(s) failed, the first with: {verdict.failures[0]}"
    if not verdict.lost_tasks and verdict.leases_recovered < verdict.killed_holding:
        yield f"{verdict.killed_holding - verdict.leases_recovered} lease(s) of killed agents were not recovered"
    if accepted := verdict.stale_completions_tried - verdict.stale_completions_refused:
        yield f"{accepted} stale completion(s) were not refused"
    if verdict.unserved_agents:
        yield f"{verdict.unserved_agents} agent(s) were never served"


def _unchecked(options: Options, verdict: Verdict, unjudged: int) -> Iterator[str]:
    """What these options, or this machine, gave no occasion to see; no promise is broken by that."""
    if verdict.killed < options.kill:
        yield f"{options.kill - verdict.killed} agent(s) could not be killed: the work was over too soon"
    if options.kill and not verdict.killed_holding:
        yield "whether leases come back could not be checked: no killed agent held a task"
    if missing := verdict.killed_holding - verdict.stale_completions_tried:
        yield f"{missing} stale completion(s) could not be tried: the task came to nobody else"
    if unjudged and options.tasks >= FAIR_TASKS * options.agents:
        yield f"whether {unjudged} agent(s) that got nothing were passed over could not be checked: too quickly done"


def _double_claims(exported: ExportedTask) -> int:
    """Attempts of one task that overlap in time, or whose numbers do not rise by one."""
    attempts = exported.attempts
    wrong = sum(attempt.attempt != place for place, attempt in enumerate(attempts, start=1))
    for before, after in pairwise(attempts):
        wrong += before.ended_at is None or before.ended_at > after.started_at
    claimed = sum(entry.action == "CLAIM" for entry in exported.history)
    return wrong + (claimed != len(attempts))


_PARTS = {"p50": 0.50, "p95": 0.95, "p99": 0.99, "max": 1.0}


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)] if values else 0.0


@dataclass(slots=True)
class _Diaries:
    latencies: list[float] = field(default_factory=list)
    served: Counter[str] = field(default_factory=Counter)
    began: dict[str, datetime] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def _diaries(folder: Path) -> _Diaries:
    found = _Diaries()
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # the last line of a killed agent may be torn
            if "ms" in entry:
                found.latencies.append(entry["ms"])
                found.served[path.stem] += 1
            elif "began" in entry:
                found.began[path.stem] = datetime.fromisoformat(entry["began"])
            elif "failure" in entry:
                found.failures.append(entry["failure"])
    return found
