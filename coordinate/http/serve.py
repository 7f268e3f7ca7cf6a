"""Runs the application: binds, says where it is, serves until it is told to stop, and lets what runs come to an end."""

from __future__ import annotations

import getpass
import logging
import re
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import uvicorn

from coordinate.errors import InvalidInput
from coordinate.frozen import dataclass
from coordinate.http.app import Application
from coordinate.http.gate import THIS_MACHINE, Rules, names_of, new_secret
from coordinate.http.wire import AT_A_TIME, Connection, Seldom, make_room
from coordinate.service import Coordinator

GRACE_SECONDS = 5
# As it stands in a Host header.
NAME = re.compile(r"([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Serving:
    """Where it is served. `sign_in` lets whoever started it in with a browser; None where tokens alone do."""

    url: str
    mcp: str
    sign_in: str | None


def serve(
    board: Coordinator,
    *,
    host: str,
    port: int,
    names: Sequence[str],
    https: bool,
    rate: float,
    owner: str,
    folder: Path | None,
    tell: Callable[[Serving], None],
) -> None:
    """Serve until a signal comes. Beyond this machine only where somebody has a token, under the names given, as also
    behind a proxy.

    In `folder` the sign-ins of a port that was asked for outlast the process.
    """
    local = host in THIS_MACHINE
    _refuse_what_nobody_reaches(board, host, names, needs_names=https or not local, needs_tokens=not local)
    bound = _bind(host, port)
    asked, (address, port) = port, bound.getsockname()[:2]
    kept = folder / f"signins-{address.replace(':', '.')}-{port}" if folder is not None and asked else None
    secret = new_secret() if local else ""
    scheme = "https" if https else "http"
    answers_to = names_of(host, port, scheme, names)
    rules = Rules(answers_to, scheme, rate, secret, owner or _user(), port, kept, _identity(board))
    at = f"{scheme}://{names[0]}" if names else f"http://{'[::1]' if host == '::1' else host}:{port}"
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    for source in ("asyncio", "uvicorn.error", "coordinate.http.gate"):
        logging.getLogger(source).addFilter(Seldom())
    make_room()
    server: uvicorn.Server
    app = Application(board, rules, stopping=lambda: server.should_exit)
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="on",
            timeout_graceful_shutdown=GRACE_SECONDS,
            http=Connection,
            ws="none",
            backlog=AT_A_TIME,
        )
    )
    tell(Serving(f"{at}/", f"{at}/mcp", f"{at}/enter?key={secret}" if local else None))
    server.run(sockets=[bound])


def _refuse_what_nobody_reaches(
    board: Coordinator, host: str, names: Sequence[str], *, needs_names: bool, needs_tokens: bool
) -> None:
    if needs_tokens and not board.anybody_may_enter():
        raise InvalidInput(
            f"{host} can be reached from other machines, and nobody has a token",
            hint="make one first: coordinate token create NAME --role worker",
            field="host",
        )
    if needs_names and not names:
        raise InvalidInput(
            "say under which names the server is reached", hint="--name HOST:PORT, as clients write it", field="name"
        )
    for name in names:
        if not NAME.fullmatch(name):
            said = f"{name!r:.100} is no name of a server: clients write HOST or HOST:PORT, without http:// and path"
            raise InvalidInput(said, hint="--name board.example:8787", field="name")


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise InvalidInput(
            f"{host}:{port} cannot be served: {error}", hint="choose another --port; 0 takes a free one", field="port"
        ) from None


def _identity(board: Coordinator) -> str:
    """Which board it is: another file in the same place is another one."""
    where = board.database.engine.describe()
    with suppress(OSError):
        found = Path(where).stat()
        return f"{where} {found.st_dev} {found.st_ino}"
    return where


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "owner"
