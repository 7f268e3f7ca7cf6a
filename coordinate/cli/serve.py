"""The doors for other programs: MCP over stdin and stdout, and a server for other machines."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path

import click

from coordinate import git, signals
from coordinate.cli.declared import OneOf, command, option
from coordinate.cli.shared import BadUsage, Call

PROFILES = ("worker", "reviewer", "manager", "all")


@command("mcp", example="coordinate mcp --agent alice --profile worker")
@option("--profile", type=OneOf(*PROFILES), default="worker", help="Which tools. Default: worker.")
@option("--init", is_flag=True, help="Make the board first, or upgrade it after a backup; a file only.")
def mcp(call: Call, profile: str, init: bool) -> None:
    """Serve one MCP client over stdin and stdout, as one session of an agent.

    Without --agent or $COORDINATE_AGENT the agent gets a fresh name at each start, and no later one finds its answers;
    with the hooks of a harness, give the name that they have. Clients pass few variables: name a board that only your
    shell knows with --db, or in the client's env. A session in $COORDINATE_SESSION is gone on with. The command ends
    when its client is gone, and releases nothing.
    """
    _need("mcp")
    from coordinate.mcp import stdio

    protocol = stdio.Protocol()
    if init:
        _make(call)
    with call.board() as board:
        for warning in dict.fromkeys(board.database.warnings):
            call.warn(warning)
        stdio.serve(board, protocol=protocol, profile=profile, place=_place)


@command("serve", example="coordinate serve --port 8787")
@option("--host", default="127.0.0.1", help="Where to listen. Default: 127.0.0.1; another needs tokens.")
@option("--port", type=click.IntRange(0, 65535), default=8787, help="Default: 8787; 0 takes a free one.")
@option("--name", "names", multiple=True, metavar="HOST:PORT", help="A name by which clients reach it, to the letter.")
@option("--https", is_flag=True, help="Clients reach it through a proxy that speaks TLS.")
@option("--rate", type=click.FloatRange(1), default=200.0, help="Requests a second for each token. Default: 200.")
def serve(call: Call, host: str, port: int, names: tuple[str, ...], https: bool, rate: float) -> None:
    """Serve a page for people, MCP, a JSON API, the log as it grows and figures over HTTP, until a signal comes.

    The answer, printed when it listens, says where, and on this machine holds a link that signs a browser in. It
    delivers the webhooks of config.toml along the way.
    """
    if not math.isfinite(rate):
        raise BadUsage("--rate is a number of requests a second")
    _need("mcp", "starlette", "uvicorn", "jinja2")
    from coordinate import config, webhooks
    from coordinate.http.serve import serve as run
    from coordinate.service import connect

    # It ends as with TERM: no new requests, and what runs is finished.
    signals.on_hangup(lambda number, frame: signal.raise_signal(signal.SIGTERM))
    place = config.locate(call.target())
    hooks, folder = webhooks.configured(place), None if place.refusals else place.folder
    with connect(call.target()) as board, webhooks.delivering(board, hooks, call.warn):
        for warning in dict.fromkeys(board.database.warnings):
            call.warn(warning)
        run(
            board,
            host=host,
            port=port,
            names=names,
            https=https,
            rate=rate,
            owner=call.agent,
            folder=folder,
            tell=call.show,
        )


def _need(*modules: str) -> None:
    """The extra is installed, or it is said which."""
    from importlib.util import find_spec

    from coordinate.errors import MissingExtra

    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"this needs {', '.join(missing)}, which is not installed",
            hint="python -m pip install 'coordinate-db[server]'",
        )


def _make(call: Call) -> None:
    """See that there is a board of this program's schema, where that is a file; a server's schema is its DBA's."""
    from coordinate import config, errors, harness
    from coordinate.service import connect

    try:
        connect(call.target()).close()
    except (errors.NoBoard, errors.SchemaBehind) as error:
        met = error
    else:
        return
    named = call.target() or os.environ.get("COORDINATE_DB")
    folder = None if named else config.find_folder(config.absolute(""))
    if not named and folder is None:
        made = harness.init(Path(), harness=None, plan=None, db=None, agent=call.agent, warn=call.warn)
        call.warn(f"a new board was made: {made.board.database}")
        return
    place = config.locate(call.target())
    if config.is_server(place.target):
        raise met
    if isinstance(met, errors.NoBoard) and place.source == str(folder):
        # A person's shell may name a board that the client does not know of: a second one would be a second truth.
        raise errors.NoBoard(
            f"{folder} was set up without a board in it, and nothing says which one is used here",
            hint="name it where the client is set up, with --db or in its env; or make one here: coordinate init",
        )
    connect(call.target(), create=True).close()
    done = "a new board was made" if isinstance(met, errors.NoBoard) else "the board was upgraded, after a backup"
    call.warn(f"{done}: {config.path_of(place.target)}")


def _place() -> tuple[str, str]:
    """The repository and the branch that the client works in, as far as git tells."""
    try:
        top = git.top(".")
        branch = git.ask(".", "rev-parse", "--abbrev-ref", "HEAD").strip()
    except git.Unknown:
        return "default", ""
    return Path(top).name[:100] or "default", branch[:500]
