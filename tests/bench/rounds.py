"""How a figure is made: two things in turns within one run, the median of their paired ratios, and how sure it is."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

# A reference whose middle half spreads further than this part of its median says nothing about anything.
NOISE_MOST = 0.35


@dataclass(frozen=True)
class Figure:
    """A ratio: ours to the reference, for each round. `better` is "higher" or "lower"; `aim` what is promised."""

    what: str
    better: str
    ratios: list[float]
    reference: list[float]
    aim: float | None = None
    reads: str = ""
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def noise(self) -> float:
        """How far the middle half of the reference spreads, as a part of its median."""
        if len(self.reference) < 3:
            return float("inf")
        low, middle, high = statistics.quantiles(self.reference, n=4)
        return (high - low) / middle

    @property
    def verdict(self) -> str:
        if self.noise > NOISE_MOST:
            return f"no conclusion: the reference spreads by {self.noise:.0%}"
        if self.aim is None:
            return ""
        reached = self.ratio >= self.aim if self.better == "higher" else self.ratio <= self.aim
        return "reached" if reached else "not reached"

    def as_dict(self) -> dict[str, Any]:
        noise = None if self.noise == float("inf") else round(self.noise, 3)
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
        reads=f"{middle[0]:.4g}{unit} against {middle[1]:.4g}{unit}",
    )


def table(figures: Sequence[Figure]) -> str:
    """One line for each figure, for people."""
    lines = []
    for figure in figures:
        aim = "" if figure.aim is None else f"aim {'≥' if figure.better == 'higher' else '≤'} {figure.aim:g}"
        lines.append(f"{figure.what:<64} {figure.ratio:>8.3f}  {aim:<12} {figure.verdict}   ({figure.reads})")
    return "\n".join(lines)


def plot(figures: Sequence[Figure]) -> str:
    """An SVG: a dot for each round, a bar at the median, a line at the aim; each figure on its own scale."""
    row, left, width = 34, 470, 360
    parts = []
    for number, figure in enumerate(figures):
        y = 24 + number * row
        most = max([*figure.ratios, figure.aim or 0.0]) * 1.1

        def x(value: float, most: float = most) -> float:
            return left + width * value / most

        colour = "#999" if figure.noise > NOISE_MOST else "#06c"
        parts.append(f'<text x="{left - 10}" y="{y + 4}" text-anchor="end">{escape(figure.what)}</text>')
        parts += [
            f'<circle cx="{x(each):.1f}" cy="{y}" r="3" fill="{colour}" opacity="0.5"/>' for each in figure.ratios
        ]
        parts.append(f'<path d="M{x(figure.ratio):.1f} {y - 9}v18" stroke="{colour}" stroke-width="3"/>')
        if figure.aim is not None:
            parts.append(f'<path d="M{x(figure.aim):.1f} {y - 12}v24" stroke="#c30" stroke-dasharray="3"/>')
        parts.append(f'<text x="{left + width + 10}" y="{y + 4}">{figure.ratio:.3f}</text>')
    height = 24 + row * len(figures)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 90}" height="{height}"'
        f' font-family="sans-serif" font-size="12">{"".join(parts)}</svg>\n'
    )
