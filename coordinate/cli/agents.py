"""Agents, their sessions, and what they lost; counters, replay, sweep."""

from __future__ import annotations

import os
import socket

import click

from coordinate.cli.shared import DURATION, Call, command, given


@command("register", example="export COORDINATE_SESSION=$(coordinate agent register alice --id-only)")
@click.argument("name", required=False)
@click.option("--kind", type=click.Choice(["agent", "human"]), help="What stands behind the name.")
@click.option("--role", help="What it usually does.")
@click.option("--project", help="Where it works. Default: default.")
@click.option("--doing", help="What it is at.")
@click.option("--stream", help="What its replay bookkeeping belongs to.")
@click.option("--ttl", type=DURATION, help="Silent for longer than this it counts as stale: 10m, 2h.")
@click.option("--id-only", is_flag=True, help="Print the session's id alone, for a shell.")
def register(
    call: Call,
    name: str | None,
    kind: str | None,
    role: str | None,
    project: str | None,
    doing: str | None,
    stream: str | None,
    ttl: int | None,
    id_only: bool,
) -> None:
    """Begin a session of an agent; without a name a fresh one is made. Show its id with later calls."""
    call.session = None
    with call.board() as board:
        session = board.register(
            name=name or call.agent or None,
            host=socket.gethostname()[:100],
            pid=os.getppid(),
            **given(kind=kind, role=role, project=project, doing=doing, stream=stream, ttl_seconds=ttl),
        )
    if id_only:
        click.echo(session.id)
    else:
        call.show(session)


@command("heartbeat", example="coordinate agent heartbeat")
def heartbeat(call: Call) -> None:
    """Give a sign of life of $COORDINATE_SESSION; renews what has less than half of its time left."""
    with call.board() as board:
        call.show(board.heartbeat())


@command("doing", example='coordinate agent doing "the parser" --detail "grammar stands"')
@click.argument("doing", required=False)
@click.option("--detail", help="More about it.")
def set_doing(call: Call, doing: str | None, detail: str | None) -> None:
    """Say what the session is at, for whoever looks."""
    with call.board() as board:
        call.show(board.set_doing(**given(doing=doing, detail=detail)))


@command("end", example="coordinate agent end")
def end(call: Call) -> None:
    """End the session: its scope leases and locks are released; claims of tasks run on to their time."""
    with call.board() as board:
        call.show(board.end_session())


@command("list", example="coordinate agent list --format table")
@click.option("--after", metavar="NAME", help="Go on behind this name.")
@click.option("--limit", type=int, help="At most so many.")
def list_agents(call: Call, after: str | None, limit: int | None) -> None:
    """List agents by name, with how many of their sessions live."""
    with call.board() as board:
        call.show(board.list_agents(**given(after=after, limit=limit)))


@command("sessions", example="coordinate agent sessions --ended")
@click.option("--of", "of_agent", metavar="NAME", help="Only of this agent.")
@click.option("--project", help="Only of this project.")
@click.option("--ended", is_flag=True, help="Also those that are over.")
@click.option("--limit", type=int, help="At most so many.")
def list_sessions(call: Call, of_agent: str | None, project: str | None, ended: bool, limit: int | None) -> None:
    """List sessions, the latest sign of life first, live or stale."""
    with call.board() as board:
        call.show(board.list_sessions(ended=ended, **given(of_agent=of_agent, project=project, limit=limit)))


@command("lost", example="coordinate agent lost")
def lost(call: Call) -> None:
    """Say what the session lost since it was last told: leases and claims that ended without it."""
    with call.board() as board:
        call.show(board.tell_losses())


@command("next", example="coordinate counter next ADR --floor 41")
@click.argument("kind")
@click.option("--floor", type=int, help="Every number is above this one.")
@click.option("--count", type=int, help="How many numbers.")
@click.option("--project", help="Whose counter. Default: default.")
def counter_next(call: Call, kind: str, floor: int | None, count: int | None, project: str | None) -> None:
    """Mint numbers of a kind: each once, rising, above a floor."""
    with call.board() as board:
        minted = board.counter_next(kind=kind, **given(floor=floor, count=count, project=project))
    call.show({"kind": kind, "value": minted[-1], "values": minted})


@command("mark", example="coordinate replay mark main 4f2a 77c1")
@click.argument("stream")
@click.argument("event_keys", nargs=-1, required=True)
def mark(call: Call, stream: str, event_keys: tuple[str, ...]) -> None:
    """Note that a stream has applied events; answers those that it had not."""
    with call.board() as board:
        call.show({"stream": stream, "new": board.mark_applied(stream=stream, event_keys=list(event_keys))})


@command("show", example="coordinate replay show main")
@click.argument("stream")
@click.option("--after", metavar="KEY", help="Go on behind this key.")
@click.option("--limit", type=int, help="At most so many.")
def show(call: Call, stream: str, after: str | None, limit: int | None) -> None:
    """List what a stream has applied."""
    with call.board() as board:
        call.show(board.applied(stream=stream, **given(after=after, limit=limit)))


@command("sweep", example="coordinate sweep")
@click.option("--limit", type=int, help="At most so many of each kind.")
def sweep(call: Call, limit: int | None) -> None:
    """End what is over: stale sessions' leases, leases and claims past their time. Again changes nothing more."""
    with call.board() as board:
        call.show(board.sweep(**given(limit=limit)))
