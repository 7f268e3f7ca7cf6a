"""Agents, their sessions, and what they lost; counters, replay, sweep."""

from __future__ import annotations

import os
import socket
from typing import Any

from coordinate.cli.declared import DURATION, OneOf, argument, command, option
from coordinate.cli.shared import Call, given, with_events

NAME_MAX = 100

limit_option = option("--limit", type=int, help="At most so many.")


@command("register", example="coordinate agent register alice --id-only")
@argument("name", required=False)
@option("--kind", type=OneOf("agent", "human"), help="What stands behind the name.")
@option("--role", help="What it usually does.")
@option("--project", help="Where it works. Default: default.")
@option("--doing", help="What it is at.")
@option("--stream", help="What its replay bookkeeping belongs to.")
@option("--ttl", "ttl_seconds", type=DURATION, help="Silent for longer it counts as stale: 10m (default), 2h.")
@option("--id-only", is_flag=True, help="Print the session's id alone, for a shell.")
def register(call: Call, name: str | None, id_only: bool, **said: Any) -> None:
    """Begin a session of an agent; without a name a fresh one is made.

    Show its id with later calls, in $COORDINATE_SESSION: it says the agent's name too. In a shell:
    export COORDINATE_SESSION=$(coordinate agent register alice --id-only)
    """
    call.session = None  # a new run, whichever one the shell is in
    with call.board() as board:
        session = board.register(
            name=name or call.agent or None, host=socket.gethostname()[:NAME_MAX], pid=os.getppid(), **given(**said)
        )
        if id_only:
            call.show_text(session.id, "id")
        else:
            call.show(session)


@command("heartbeat", example="coordinate agent heartbeat --with-events")
@with_events
def heartbeat(call: Call) -> None:
    """Give a sign of life of the session, as every call of it does; renews what has less than half its time left."""
    with call.board() as board:
        call.show(board.heartbeat())


@command("doing", example='coordinate agent doing "the parser" --detail "grammar stands"')
@argument("doing", required=False)
@option("--detail", help="More about it.")
def set_doing(call: Call, doing: str | None, detail: str | None) -> None:
    """Say what the session is at, for whoever looks; what is left away stays as it is."""
    with call.board() as board:
        call.show(board.set_doing(**given(doing=doing, detail=detail)))


@command("end", example="coordinate agent end")
def end(call: Call) -> None:
    """End the session: its scope leases and locks are released; claims of tasks run on to their time."""
    with call.board() as board:
        call.show(board.end_session())


@command("list", example="coordinate agent list --format table")
@option("--after", metavar="NAME", help="Go on behind this name.")
@limit_option
def list_agents(call: Call, **wanted: Any) -> None:
    """List agents by name, with how many of their sessions live."""
    with call.board() as board:
        call.show(board.list_agents(**given(**wanted)))


@command("sessions", example="coordinate agent sessions --ended")
@option("--of", "of_agent", metavar="NAME", help="Only of this agent.")
@option("--project", help="Only of this project.")
@option("--ended", is_flag=True, help="Also those that are over.")
@option("--after", metavar="ID", help="Go on behind this session.")
@limit_option
def list_sessions(call: Call, ended: bool, **wanted: Any) -> None:
    """List sessions, the latest sign of life first, live or stale."""
    with call.board() as board:
        call.show(board.list_sessions(ended=ended, **given(**wanted)))


@command("lost", example="coordinate agent lost --all")
@option("--all", "again", is_flag=True, help="Also what was told before: the latest 50 leases and 50 claims.")
def lost(call: Call, again: bool) -> None:
    """Say what the session lost since it was last told: leases and claims that ended without it."""
    with call.board() as board:
        call.show(board.tell_losses(again=again))


@command("next", example="coordinate counter next ADR --floor 41")
@argument("kind")
@option("--floor", type=int, help="Every number is above this one.")
@option("--count", type=int, help="How many numbers.")
@option("--project", help="Whose counter. Default: default.")
def counter_next(call: Call, kind: str, **wanted: Any) -> None:
    """Mint numbers of a kind: each once, rising, above a floor."""
    with call.board() as board:
        minted = board.counter_next(kind=kind, **given(**wanted))
        call.show({"kind": kind, "value": minted[-1], "values": minted})


@command("mark", example="coordinate replay mark main 4f2a 77c1")
@argument("stream")
@argument("event_keys", nargs=-1, required=True, metavar="KEY...")
def mark(call: Call, stream: str, event_keys: tuple[str, ...]) -> None:
    """Note that a stream has applied events; answers those that it had not."""
    with call.board() as board:
        call.show({"stream": stream, "new": board.mark_applied(stream=stream, event_keys=list(event_keys))})


@command("show", example="coordinate replay show main")
@argument("stream")
@option("--after", metavar="KEY", help="Go on behind this key.")
@limit_option
def show(call: Call, stream: str, **wanted: Any) -> None:
    """List what a stream has applied, by key."""
    with call.board() as board:
        call.show(board.applied(stream=stream, **given(**wanted)))


@command("sweep", example="coordinate sweep")
@option("--limit", type=int, help="At most so many of each kind; then the answer says that there is more.")
def sweep(call: Call, limit: int | None) -> None:
    """End what is over: stale sessions' leases, leases and claims past their time. Again changes nothing more."""
    with call.board() as board:
        call.show(board.sweep(**given(limit=limit)))
