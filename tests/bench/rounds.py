"""How a figure is made: two things in turns within one run, the median of their paired ratios, and how sure it is."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

# A reference, or a ratio, whose middle half spreads further than this part of its median says nothing about anything.
NOISE_MOST = 0.35
ROUNDS_LEAST = 3  # fewer have no middle half


@dataclass(frozen=True)
class Figure:
    """A ratio: ours to the reference, for each round. `better` is "higher" or "lower"; `aim` what is promised.

    `short` names what else was promised and is not so. What is `counted` and not timed needs no rounds.
    """

    what: str
    better: str
    ratios: list[float]
    reference: list[float]
    aim: float | None = None
    reads: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    short: tuple[str, ...] = ()
    counted: bool = False

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def verdict(self) -> str:
        if self.short:
            return "not reached: " + ", ".join(self.short)
        if self.doubt:
            return f"no conclusion: {self.doubt}"
        if self.aim is None:
            return ""
        reached = self.ratio >= self.aim if self.better == "higher" else self.ratio <= self.aim
        return "reached" if reached else "not reached"

    @property
    def doubt(self) -> str:
        """Why nothing can be concluded from the ratio; empty if something can."""
        if self.counted:
            return ""
        if len(self.ratios) < ROUNDS_LEAST:
            return f"it takes {ROUNDS_LEAST} rounds, and had {len(self.ratios)}"
        noisy = {"reference": spread(self.reference), "ratio": spread(self.ratios)}
        return ", ".join(f"the {what} spreads by {by:.0%}" for what, by in noisy.items() if by > NOISE_MOST)

    def as_dict(self) -> dict[str, Any]:
        sides = (self.reference, self.ratios) if len(self.ratios) >= ROUNDS_LEAST else ()
        noise = max((round(spread(side), 3) for side in sides), default=None)
        return {
            "what": self.what,
            "ratio": round(self.ratio, 4),
            "rounds": [round(each, 4) for each in self.ratios],
            "better": self.better,
            "aim": self.aim,
            "noise": noise,
            "verdict": self.verdict,
            "reads": self.reads,
            **self.facts,
        }


def spread(side: Sequence[float]) -> float:
    """How far its middle half spreads, as a part of its median."""
    low, middle, high = statistics.quantiles(side, n=4)
    return (high - low) / middle


def in_turns(
    what: str,
    ours: Callable[[], float],
    reference: Callable[[], float],
    *,
    rounds: int = 7,
    better: str = "higher",
    aim: float | None = None,
    unit: str = "/s",
) -> Figure:
    """Measure both, ours first in every other round; each call returns one figure, a rate or a time."""
    pairs = []
    for number in range(rounds):
        if number % 2:
            theirs = reference()
            pairs.append((ours(), theirs))
        else:
            mine = ours()
            pairs.append((mine, reference()))
    middle = [statistics.median(side) for side in zip(*pairs, strict=True)]
    return Figure(
        what,
        better,
        [mine / theirs for mine, theirs in pairs],
        [theirs for _, theirs in pairs],
        aim=aim,
        reads=f"{told(middle[0])}{unit} against {told(middle[1])}{unit}",
    )


def told(number: float) -> str:
    return f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"


def table(figures: Sequence[Figure]) -> str:
    """One line for each figure, for people."""
    return "\n".join(
        f"{figure.what:<64} {figure.ratio:>8.3f}  {_aim(figure):<12} {figure.verdict}   ({figure.reads})"
        for figure in figures
    )


def plot(figures: Sequence[Figure]) -> str:
    """An SVG: a dot for each round, a bar at the median, a line at the aim; each figure on its own scale from 0."""
    row, left, width, top = 34, 470, 360, 64
    parts = [
        '<text x="10" y="22" font-size="16">Ratios, ours to the reference</text>',
        '<text x="10" y="42" fill="#666">dot: one round; bar: the median; dashed line: the aim; grey: no'
        " conclusion; every row has a scale of its own, from 0</text>",
    ]
    for number, figure in enumerate(figures):
        y = top + 14 + number * row
        most = max([*figure.ratios, figure.aim or 0.0]) * 1.1

        def x(value: float, most: float = most) -> float:
            return left + width * value / most

        colour = "#999" if figure.doubt else "#06c"
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(figure.what)}</text>')
        parts.append(f'<path d="M{left} {y}h{width}" stroke="#ddd"/>')
        parts += [
            f'<circle cx="{x(each):.1f}" cy="{y}" r="3" fill="{colour}" opacity="0.5"/>' for each in figure.ratios
        ]
        parts.append(f'<path d="M{x(figure.ratio):.1f} {y - 9}v18" stroke="{colour}" stroke-width="3"/>')
        if figure.aim is not None:
            parts.append(f'<path d="M{x(figure.aim):.1f} {y - 12}v24" stroke="#c30" stroke-dasharray="3"/>')
        beside = ", ".join(filter(None, [f"{figure.ratio:.3f}", _aim(figure), figure.reads]))
        parts.append(f'<text x="{left + width + 10}" y="{y + 4}">{escape(beside)}</text>')
    height = top + 14 + row * len(figures)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 620}" height="{height}"'
        f' font-family="sans-serif" font-size="12"><title>coordinate: ratios, ours to the reference</title>'
        f"{''.join(parts)}</svg>\n"
    )


def _aim(figure: Figure) -> str:
    if figure.aim is None:
        return ""
    return f"aim {'≥' if figure.better == 'higher' else '≤'} {figure.aim:g}"
