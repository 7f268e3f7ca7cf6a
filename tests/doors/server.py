"""`coordinate serve` as a process of its own, and requests to it without any client's help."""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from coordinate import Coordinator
from coordinate.http.app import Application
from tests.doors.command import Command


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    """A running server, and how to reach it."""

    process: subprocess.Popen[str]
    told: dict[str, Any]
    command: Command
    options: tuple[str, ...]
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def mcp(self) -> str:
        return str(self.told["mcp"])

    @property
    def host(self) -> str:
        return str(self.told["url"]).split("/")[2]

    def __call__(self, method: str, path: str, body: Any = None, *, token: str | None = None, **headers: str) -> Reply:
        """One request, byte for byte as said: `Host` and all."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        shown = {"Host": self.host, "Content-Type": "application/json"}
        if token is not None:
            shown["Authorization"] = f"Bearer {token}"
        shown |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection = http.client.HTTPConnection("127.0.0.1", int(self.host.rsplit(":", 1)[1]), timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in shown.items():
                connection.putheader(name, value)
            if "Content-Length" not in shown and (raw or method in ("POST", "PUT", "PATCH")):
                connection.putheader("Content-Length", str(len(raw)))
            connection.endheaders(raw or None)
            answer = connection.getresponse()
            return Reply(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def api(self, operation: str, role: str = "worker", /, **arguments: Any) -> Reply:
        return self("POST", f"/api/{operation}", arguments, token=self.secrets[role])

    def sign_in(self, secret: str) -> str:
        """The cookie of a browser that enters with this token."""
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        entered = self("POST", "/enter", f"token={secret}".encode(), **form)
        assert entered.status == 303
        return entered.headers["set-cookie"].partition(";")[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def start_again(self) -> None:
        """At the same address."""
        port = self.host.rsplit(":", 1)[1]
        self.process, self.told = begin(self.command, "--port", port, *self.options)


def begin(command: Command, *options: str, within: str = "") -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = command.started("serve", *options, stderr=None, within=within)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the server ended"
    return process, json.loads(line)


@contextmanager
def serving(board: Coordinator, url: str, folder: Path, *options: str, within: str = "") -> Iterator[Server]:
    """A server with a token for each role: agents wendy, rita, max, and the humans hugo and ada."""
    folder.mkdir(exist_ok=True)
    command = Command(url, folder)
    names = {"worker": "wendy", "reviewer": "rita", "manager": "max", "human": "hugo", "admin": "ada"}
    secrets = {role: board.create_token(name=name, role=role).secret for role, name in names.items()}
    process, told = begin(command, "--port", "0", *options, within=within)
    server = Server(process, told, command, options, secrets)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


@asynccontextmanager
async def within(app: Application) -> AsyncIterator[Callable[..., Awaitable[Reply]]]:
    """The application in this process, where a test can make its limits small; it is asked as a server is."""
    began, over = anyio.Event(), anyio.Event()

    async def live() -> dict[str, str]:
        if not began.is_set():
            return {"type": "lifespan.startup"}
        await over.wait()
        return {"type": "lifespan.shutdown"}

    async def lived(message: Any) -> None:
        began.set()

    async def ask(method: str, path: str, body: Any = None, *, token: str, **headers: str) -> Reply:
        raw, told = b"" if body is None else json.dumps(body).encode(), []
        shown = {"Host": "here", "Authorization": f"Bearer {token}", "Content-Length": str(len(raw)), **headers}
        shown = {"Content-Type": "application/json", **shown}
        given = [{"type": "http.request", "body": raw}]

        async def receive() -> Any:
            return given.pop() if given else await anyio.sleep_forever()

        async def send(message: Any) -> None:
            told.append(message)

        at, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": at, "raw_path": at.encode(), "query_string": query.encode()}
        scope["headers"] = [(name.lower().encode(), value.encode()) for name, value in shown.items()]
        await app({**scope, "root_path": "", "scheme": "http"}, receive, send)
        found = {name.decode(): value.decode() for name, value in told[0]["headers"]}
        return Reply(told[0]["status"], found, b"".join(each.get("body", b"") for each in told))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(app, {"type": "lifespan"}, live, lived)
        await began.wait()
        yield ask
        over.set()
