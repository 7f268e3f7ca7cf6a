"""`coordinate demo` and `coordinate bench`: the same agents, with and without a story.

The story and the progress bar go to stderr, the verdict as JSON to stdout.
"""

from __future__ import annotations

import os
import re
import sys
import textwrap
from dataclasses import replace

import click

from coordinate.cli.declared import command, option
from coordinate.cli.shared import Call, Exit
from coordinate.demo import Options, Verdict, play

BAR_MAX = 40
KILL_USUAL = 5
_SIGNS = {"DONE": "█", "IN_REVIEW": "▓", "IN_PROGRESS": "▒", "BLOCKED": "!", "TODO": "·"}

place_option = option(
    "--db",
    metavar="URL|PATH",
    sets=("db",),
    help="An empty place to play in. Default: a temporary file; $COORDINATE_DB is left alone.",
)


@command("demo", example="coordinate demo --agents 20 --tasks 200 --kill 3", takes=("--db", "--format", "--json"))
@option("--agents", default=50, show_default=True, type=click.IntRange(1, 1000), help="agent processes")
@option("--tasks", default=500, show_default=True, type=click.IntRange(1, 100_000), help="tasks in the plan")
@option("--kill", type=click.IntRange(0), help="workers to SIGKILL half-way; one is left (default: up to 5)")
@option("--lease", default=2, show_default=True, type=click.IntRange(1, 60), help="lease in seconds, short")
@option("--keep", is_flag=True, help="keep the board, and say where it is")
@place_option
def demo(call: Call, agents: int, tasks: int, kill: int | None, lease: int, keep: bool) -> None:
    """Watch many agents share one board, some of them killed half-way, and read the verdict.

    Needs nothing set up: a fresh board, a plan with dependencies, priorities and reviews, real processes. At the end
    the database itself is asked: double claims, lost tasks, stale completions refused, leases recovered. Exit 0 only
    if no promise is broken; "unchecked" says what could not be checked with so few agents or tasks.
    """
    wanted = Options(agents=agents, tasks=tasks, kill=0, target=call.target(), keep=keep, lease_seconds=lease)
    options = replace(wanted, kill=min(KILL_USUAL, wanted.kill_max) if kill is None else kill)
    _say(
        f"A fresh board with {tasks} tasks; {agents} agents, each a process of its own; {options.kill} of them will be"
        f" killed in the middle of their work. A lease lasts {lease} s."
    )
    bar = _Bar(tasks)
    verdict = play(options, bar.show, bar.tell)
    bar.end()
    for line in _story(verdict):
        _say(line)
    if call.format == "json" or not sys.stdout.isatty():
        call.show(verdict.as_dict())
    if not verdict.holds:
        raise Exit(1)


@command("bench", example="coordinate bench --agents 8 --tasks 1000", takes=("--db", "--format", "--json"))
@option("--agents", default=50, show_default=True, type=click.IntRange(1, 1000), help="agent processes")
@option("--tasks", default=2000, show_default=True, type=click.IntRange(1, 1_000_000), help="equal tasks")
@place_option
def bench(call: Call, agents: int, tasks: int) -> None:
    """Measure your own hardware: agents claim and complete equal tasks as fast as they can. Prints JSON.

    All begin at once, when the last has come. claims_per_second counts claim and completion together, over the
    seconds from the first claim to the last completion by the board's clock; claim_ms is the time of one successful
    claim.
    """
    options = Options(
        agents=agents, tasks=tasks, kill=0, target=call.target(), lease_seconds=60, work_seconds=0.0, story=False
    )
    bar = _Bar(tasks)
    verdict = play(options, bar.show, bar.tell)
    bar.end()
    call.show(verdict.as_dict())
    if not verdict.holds:
        raise Exit(1)


class _Bar:
    """One line that is drawn over on a terminal, no wider than it is, and a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.terminal = sys.stderr.isatty()
        self.drawn = -1

    def show(self, counts: dict[str, int], killed: int, rate: float) -> None:
        done = counts.get("DONE", 0)
        said = f"{done:>6}/{self.total} done  {rate:5.0f}/s  {counts.get('IN_PROGRESS', 0):>3} held  {killed} killed"
        if self.terminal:
            room = _columns() - 1  # a terminal may begin a new line once the last column is filled
            width = min(BAR_MAX, room - len(said) - 1)
            line = f"{self._bar(counts, width)} {said}" if width > 3 else said.strip()
            click.echo(f"\r{line[:room].ljust(room)}", err=True, nl=False)
        elif (quarter := 4 * done // self.total) != self.drawn:
            self.drawn = quarter
            _say(said)

    def tell(self, said: str) -> None:
        self.end()
        _say(said)

    def end(self) -> None:
        """Leave the line that is drawn over."""
        if self.terminal:
            _say("")

    def _bar(self, counts: dict[str, int], width: int) -> str:
        bar = ""
        for status, sign in _SIGNS.items():
            bar += sign * round(width * counts.get(status, 0) / self.total)
        return bar[:width].ljust(width, "·")


def _story(verdict: Verdict) -> list[str]:
    def line(holds: bool, said: str) -> str:
        return ("  ok      " if holds else "  BROKEN  ") + said

    claim, share = verdict.claim_ms, verdict.tasks_per_agent
    holding, recovered = verdict.killed_holding, verdict.leases_recovered
    refused, tried = verdict.stale_completions_refused, verdict.stale_completions_tried
    killed = [
        line(
            verdict.lost_tasks > 0 or recovered >= holding,
            f"{verdict.killed} agents killed, {holding} of them holding a task; {recovered} leases recovered",
        ),
        line(refused == tried, f"{refused} of {tried} completions by the dead refused as stale"),
    ]
    return [
        f"{verdict.done} of {verdict.tasks} tasks done by {verdict.agents} agents in {verdict.seconds} s"
        f" ({verdict.board}, {verdict.claims_per_second} claims/s). The database says:",
        line(not verdict.double_claims, f"{verdict.double_claims} double claims"),
        line(not verdict.lost_tasks, f"{verdict.lost_tasks} lost tasks"),
        line(not verdict.done_more_than_once, f"{verdict.done_more_than_once} tasks finished more than once"),
        *(killed if holding else []),
        line(
            not verdict.unserved_agents, f"tasks per agent: {share['least']} to {share['most']}, mean {share['mean']}"
        ),
        *(f"  -       {said}" for said in verdict.unchecked),
        f"          a claim took {claim['p50']} ms (p50), {claim['p95']} (p95), {claim['p99']} (p99),"
        f" {claim['max']} (max)",
        _sum(verdict),
        *([f"The board is kept: {verdict.kept}"] if verdict.kept else []),
    ]


def _sum(verdict: Verdict) -> str:
    if verdict.broken:
        return "BROKEN: " + "; ".join(verdict.broken)
    return "Every promise that could be checked holds." if verdict.unchecked else "Every promise holds."


def _say(text: str) -> None:
    """A sentence, wrapped at words on a terminal; what goes on is set under the words of its beginning."""
    if sys.stderr.isatty() and text:
        indent = " " * (10 if text.startswith("  ") else 0)
        text = "\n".join(textwrap.wrap(text, _columns() - 1, subsequent_indent=indent, break_on_hyphens=False))
    click.echo(text, err=True)


def _columns() -> int:
    """The width of the terminal that stderr is, which need not be the one of stdout."""
    if re.fullmatch("[1-9][0-9]{0,3}", said := os.environ.get("COLUMNS", "")):
        return int(said)
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError):
        return 80
