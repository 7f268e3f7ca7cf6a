"""Figures drawn: how much is left, how long work takes, how much of it is lost, and by whom. Shapes only; no markup.

Each chart says in a sentence what it shows, and has the same figures as a table beneath. Coordinates are those of its
own small canvas, which the page scales.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from statistics import median

from coordinate.frozen import dataclass
from coordinate.http.page.words import span
from coordinate.records import Effort, Finished, Status

WIDTH, HEIGHT = 440, 220
LEFT, RIGHT, TOP, BOTTOM = 48, 424, 14, 192
AGENTS_SHOWN = 12
TABLE_MAX = 100
WELL = ("completed", "submitted")
MINUTE, HOUR, DAY = 60, 3_600, 86_400


@dataclass(frozen=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    kind: str
    says: str


@dataclass(frozen=True)
class Line:
    """A line through points; `says` stands at its end, at x and y."""

    points: str
    kind: str
    says: str = ""
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    task: str
    says: str


@dataclass(frozen=True)
class Tick:
    at: float
    says: str


@dataclass(frozen=True)
class Chart:
    """`across` are the ticks of the time axis, `up` those of the other; `names` are rows instead of that."""

    name: str
    title: str
    says: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    bars: tuple[Bar, ...] = ()
    lines: tuple[Line, ...] = ()
    dots: tuple[Dot, ...] = ()
    across: tuple[Tick, ...] = ()
    up: tuple[Tick, ...] = ()
    names: tuple[Tick, ...] = ()
    height: int = HEIGHT
    legend: tuple[tuple[str, str], ...] = ()


def charts(status: Status, finished: Sequence[Finished], effort: Effort, now: datetime) -> list[Chart]:
    """All of them, in the order in which one asks."""
    days = len(status.burndown)
    since = (now - timedelta(days=days - 1)).replace(hour=0, minute=0, second=0, microsecond=0)
    done = [each for each in finished if each.status == "DONE" and each.finished_at >= since]
    return [
        _burn_down(status),
        _throughput(status),
        _times("cycle", "Cycle time", "from the last claim until it was done", done, since, now),
        _times("lead", "Lead time", "from when it was put on the board until it was done", done, since, now),
        _lost(effort),
        _agents(effort, done),
    ]


# --- one each ---------------------------------------------------------------------------------------------------------


def _burn_down(status: Status) -> Chart:
    days = status.burndown
    most = _ceiling(max((day.open for day in days), default=0))
    points = [(_middle(at, len(days)), _height(day.open, most)) for at, day in enumerate(days)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{BOTTOM} {line} {points[-1][0]:.1f},{BOTTOM}" if points else ""
    first, last = (days[0].open, days[-1].open) if days else (0, 0)
    return Chart(
        name="burn-down",
        title="Burn-down",
        says=f"Open tasks at the end of each day: from {first} to {last} in {len(days)} days.",
        head=("day", "open", "came in", "done", "cancelled"),
        rows=tuple((d.day, str(d.open), str(d.created), str(d.done), str(d.cancelled)) for d in reversed(days)),
        lines=(Line(area, "area"), Line(line, "open")),
        across=_days([day.day for day in days]),
        up=_ticks(most),
    )


def _throughput(status: Status) -> Chart:
    days = status.burndown
    most = _ceiling(max((day.done for day in days), default=0))
    total = sum(day.done for day in days)
    weeks = [sum(day.done for day in days[max(0, at - 6) : at + 1]) / min(7, at + 1) for at in range(len(days))]
    line = " ".join(f"{_middle(at, len(days)):.1f},{_height(mean, most):.1f}" for at, mean in enumerate(weeks))
    return Chart(
        name="throughput",
        title="Throughput",
        says=f"Tasks done on each day: {total} in {len(days)} days, and the mean of seven days as a line.",
        head=("day", "done", "mean of 7 days"),
        rows=tuple((day.day, str(day.done), f"{weeks[at]:.1f}") for at, day in reversed(list(enumerate(days)))),
        bars=tuple(
            _bar(at, len(days), 0, day.done, most, "good", f"{day.day}: {day.done} done")
            for at, day in enumerate(days)
            if day.done
        ),
        lines=(Line(line, "mean"),),
        across=_days([day.day for day in days]),
        up=_ticks(most),
    )


def _times(name: str, title: str, told: str, done: Sequence[Finished], since: datetime, now: datetime) -> Chart:
    taken = [
        (each, (each.finished_at - begun).total_seconds())
        for each in done
        if (begun := each.started_at if name == "cycle" else each.created_at) is not None
    ]
    times = sorted(seconds for _, seconds in taken)
    least, most = _bounds(times)
    whole = max(1.0, (now - since).total_seconds())

    def up(seconds: float) -> float:
        share = math.log(max(seconds, least) / least) / math.log(most / least)
        return BOTTOM - min(1.0, share) * (BOTTOM - TOP)

    marks = [("half", median(times)), ("85 %", times[math.ceil(0.85 * len(times)) - 1])] if times else []
    heights = _labels([up(seconds) for _, seconds in marks])
    found = "; ".join(f"{said} within {span(max(1, seconds))}" for said, seconds in marks) or "none was done yet"
    return Chart(
        name=name,
        title=title,
        says=f"How long a task took, {told}: {found}.",
        head=("task", "agent", "took", "done at"),
        rows=tuple(
            (each.id, each.agent or "", span(seconds), each.finished_at.strftime("%Y-%m-%d %H:%M"))
            for each, seconds in taken[:TABLE_MAX]
        ),
        lines=tuple(
            Line(
                f"{LEFT},{up(seconds):.1f} {RIGHT},{up(seconds):.1f}",
                "mark",
                f"{said}: {span(seconds)}",
                RIGHT,
                height,
            )
            for (said, seconds), height in zip(marks, heights, strict=True)
        ),
        dots=tuple(
            Dot(
                LEFT + (each.finished_at - since).total_seconds() / whole * (RIGHT - LEFT),
                up(seconds),
                each.id,
                f"{each.id} {each.title}: {span(seconds)}",
            )
            for each, seconds in taken
        ),
        across=_days([(since + timedelta(days=at)).strftime("%Y-%m-%d") for at in range((now - since).days + 1)]),
        up=tuple(Tick(up(seconds), span(seconds)) for seconds in _SCALE if least <= seconds <= most),
    )


def _labels(heights: Sequence[float]) -> list[float]:
    """Where the words of lines stand, the lowest first: beneath it when there is room above the axis; no two in one
    place."""
    found: list[float] = []
    for at in heights:
        wanted = at + 11 if not found and at + 11 < BOTTOM - 2 else at - 4
        found.append(min([wanted, *(each - 13 for each in found)]))
    return found


def _lost(effort: Effort) -> Chart:
    days = list(effort.by_day.items())
    ended = [sum(outcomes.values()) for _, outcomes in days]
    lost = [outcomes.get("expired", 0) for _, outcomes in days]
    most = _ceiling(max(ended, default=0))
    share = f"{100 * sum(lost) / sum(ended):.0f} %" if sum(ended) else "none"
    bars = []
    for at, (day, _) in enumerate(days):
        well = ended[at] - lost[at]
        if well:
            bars.append(_bar(at, len(days), 0, well, most, "calm", f"{day}: {well} ended otherwise"))
        if lost[at]:
            bars.append(_bar(at, len(days), well, lost[at], most, "bad", f"{day}: {lost[at]} expired"))
    return Chart(
        name="expiry",
        title="Expiry rate",
        says=f"Attempts that ended on each day, and those lost because the lease ran out: {share} of {sum(ended)}.",
        head=("day", "ended", "expired"),
        rows=tuple((day, str(ended[at]), str(lost[at])) for at, (day, _) in reversed(list(enumerate(days)))),
        bars=tuple(bars),
        across=_days([day for day, _ in days]),
        up=_ticks(most),
        legend=(("calm", "ended otherwise"), ("bad", "expired")),
    )


def _agents(effort: Effort, done: Sequence[Finished]) -> Chart:
    by_agent = sorted(effort.by_agent.items(), key=lambda each: (-sum(each[1].get(how, 0) for how in WELL), each[0]))
    most = _ceiling(max((sum(outcomes.values()) for _, outcomes in by_agent), default=0))
    row, left = 24, 110
    bars, rows, names = [], [], []
    for at, (agent, outcomes) in enumerate(by_agent):
        well, bad = sum(outcomes.get(how, 0) for how in WELL), outcomes.get("expired", 0)
        other = sum(outcomes.values()) - well - bad
        times = [(t.finished_at - t.started_at).total_seconds() for t in done if t.agent == agent and t.started_at]
        rows.append((agent, str(well), str(bad), str(other), span(median(times)) if times else ""))
        if at >= AGENTS_SHOWN:
            continue
        x = float(left)
        names.append(Tick(TOP + at * row + 13, agent if len(agent) <= 14 else f"{agent[:13]}…"))
        for count, kind, said in (
            (well, "good", "done or handed in"),
            (other, "calm", "other"),
            (bad, "bad", "expired"),
        ):
            width = count / most * (RIGHT - left)
            if count:
                bars.append(Bar(x, TOP + at * row, max(1.0, width - 1), row - 8, kind, f"{agent}: {count} {said}"))
            x += width
    return Chart(
        name="agents",
        title="By agent",
        says=f"How the attempts of each agent ended; the {AGENTS_SHOWN} with most are drawn.",
        head=("agent", "done or handed in", "expired", "other", "half took at most"),
        rows=tuple(rows),
        bars=tuple(bars),
        names=tuple(names),
        height=max(60, TOP + len(names) * row + 6),
        legend=(("good", "done or handed in"), ("calm", "other"), ("bad", "expired")),
    )


# --- measures ---------------------------------------------------------------------------------------------------------

_SCALE = (1, 10, MINUTE, 10 * MINUTE, HOUR, 6 * HOUR, DAY, 7 * DAY, 28 * DAY, 365 * DAY)


def _bounds(times: Sequence[float]) -> tuple[float, float]:
    """The steps of the scale around all of them."""
    if not times:
        return MINUTE, DAY
    least = max((step for step in _SCALE if step <= max(times[0], 1)), default=1)
    return least, min((step for step in _SCALE if step > max(times[-1], least)), default=times[-1] * 2)


def _ceiling(most: float) -> int:
    """A round number at or above, at least 4."""
    if most <= 4:
        return 4
    size = 10 ** math.floor(math.log10(most))
    return next(int(step * size) for step in (1, 2, 4, 5, 8, 10) if step * size >= most)


def _ticks(most: int) -> tuple[Tick, ...]:
    parts = 4 if most % 4 == 0 else 5
    return tuple(Tick(_height(most * at / parts, most), f"{most * at / parts:g}") for at in range(parts + 1))


def _height(value: float, most: float) -> float:
    return BOTTOM - value / most * (BOTTOM - TOP)


def _middle(at: int, count: int) -> float:
    return LEFT + (at + 0.5) * (RIGHT - LEFT) / count


def _bar(at: int, count: int, below: float, value: float, most: float, kind: str, says: str) -> Bar:
    wide = (RIGHT - LEFT) / count
    top = _height(below + value, most)
    return Bar(LEFT + at * wide + wide * 0.15, top, wide * 0.7, _height(below, most) - top, kind, says)


def _days(days: Sequence[str]) -> tuple[Tick, ...]:
    """Some of the days, evenly, the last one among them."""
    every = max(1, math.ceil(len(days) / 5))
    chosen: Iterable[int] = range(len(days) - 1, -1, -every)
    return tuple(Tick(_middle(at, len(days)), days[at][5:]) for at in chosen if at or len(days) < 3)
