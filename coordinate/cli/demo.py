"""`coordinate demo` and `coordinate bench`: the same agents, with and without a story.

The story and the progress bar go to stderr, the verdict as JSON to stdout.
"""

from __future__ import annotations

import json
import sys

import click

from coordinate.cli.shared import Call, command
from coordinate.demo import Options, Verdict, play

BAR = 40
_SIGNS = {"DONE": "█", "IN_REVIEW": "▓", "IN_PROGRESS": "▒", "BLOCKED": "!", "TODO": "·"}


@command("demo", example="coordinate demo --agents 20 --tasks 200 --kill 3")
@click.option("--agents", default=50, show_default=True, type=click.IntRange(1, 1000), help="agent processes")
@click.option("--tasks", default=500, show_default=True, type=click.IntRange(1, 100_000), help="tasks in the plan")
@click.option("--kill", default=5, show_default=True, type=click.IntRange(0), help="agents to SIGKILL half-way")
@click.option("--lease", default=2, show_default=True, type=click.IntRange(1, 60), help="lease in seconds, short")
def demo(call: Call, agents: int, tasks: int, kill: int, lease: int) -> None:
    """Watch many agents share one board, some of them killed half-way, and read the verdict.

    Needs nothing set up: a fresh board (an empty place named by --db, else a temporary file), a plan with
    dependencies, priorities and reviews, real processes. At the end the database itself is asked: double claims, lost
    tasks, stale completions refused, leases recovered. Exit 0 only if every promise holds.
    """
    if kill >= agents:
        raise click.UsageError("--kill must leave at least one agent alive")
    options = Options(agents=agents, tasks=tasks, kill=kill, target=call.target(), lease_seconds=lease)
    _say(
        f"A fresh board with {tasks} tasks; {agents} agents, each a process of its own; {kill} of them will be killed"
        f" in the middle of their work. A lease lasts {lease} s."
    )
    verdict = play(options, _Bar(tasks).show)
    _say("")
    for line in _story(verdict):
        _say(line)
    if call.format == "json" or not sys.stdout.isatty():
        click.echo(json.dumps(verdict.as_dict()))
    if not verdict.holds:
        sys.exit(1)


@command("bench", example="coordinate bench --agents 8 --tasks 1000")
@click.option("--agents", default=50, show_default=True, type=click.IntRange(1, 1000), help="agent processes")
@click.option("--tasks", default=2000, show_default=True, type=click.IntRange(1, 1_000_000), help="equal tasks")
def bench(call: Call, agents: int, tasks: int) -> None:
    """Measure your own hardware: agents claim and complete equal tasks as fast as they can. Prints JSON.

    claims_per_second counts claim and completion together; claim_ms is the time of one successful claim.
    """
    options = Options(
        agents=agents, tasks=tasks, kill=0, target=call.target(), lease_seconds=60, work_seconds=0.0, story=False
    )
    verdict = play(options, _Bar(tasks).show)
    _say("")
    click.echo(json.dumps(verdict.as_dict()))
    if not verdict.holds:
        sys.exit(1)


class _Bar:
    """One line that is drawn over on a terminal, and a line now and then elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.terminal = sys.stderr.isatty()
        self.drawn = -1

    def show(self, counts: dict[str, int], killed: int, rate: float) -> None:
        done = counts.get("DONE", 0)
        said = f"{done:>6}/{self.total} done  {rate:5.0f}/s  {counts.get('IN_PROGRESS', 0):>3} held  {killed} killed"
        if self.terminal:
            click.echo(f"\r{self._bar(counts)} {said}", err=True, nl=False)
        elif (quarter := 4 * done // self.total) != self.drawn:
            self.drawn = quarter
            _say(said)

    def _bar(self, counts: dict[str, int]) -> str:
        bar = ""
        for status, sign in _SIGNS.items():
            bar += sign * round(BAR * counts.get(status, 0) / self.total)
        return bar[:BAR].ljust(BAR, "·")


def _story(verdict: Verdict) -> list[str]:
    def line(holds: bool, said: str) -> str:
        return ("  ok    " if holds else "  BROKEN ") + said

    claim, share = verdict.claim_ms, verdict.tasks_per_agent
    refused, tried = verdict.stale_completions_refused, verdict.stale_completions_tried
    return [
        f"{verdict.done} of {verdict.tasks} tasks done by {verdict.agents} agents in {verdict.seconds} s"
        f" ({verdict.board}, {verdict.claims_per_second} claims/s). The database says:",
        line(not verdict.double_claims, f"{verdict.double_claims} double claims"),
        line(not verdict.lost_tasks, f"{verdict.lost_tasks} lost tasks"),
        line(not verdict.done_more_than_once, f"{verdict.done_more_than_once} tasks finished more than once"),
        line(
            verdict.leases_recovered >= verdict.killed_holding,
            f"{verdict.killed} agents killed, {verdict.killed_holding} of them holding a task;"
            f" {verdict.leases_recovered} leases recovered",
        ),
        line(refused == verdict.killed_holding, f"{refused} of {tried} completions by the dead refused as stale"),
        line(
            not verdict.unserved_agents, f"tasks per agent: {share['least']} to {share['most']}, mean {share['mean']}"
        ),
        f"        a claim took {claim['p50']} ms (p50), {claim['p95']} (p95), {claim['p99']} (p99),"
        f" {claim['max']} (max)",
        "Every promise holds." if verdict.holds else "BROKEN: " + "; ".join(verdict.broken),
    ]


def _say(text: str) -> None:
    click.echo(text, err=True)
