"""MCP clients of the official SDK, as agents use them: over stdin and stdout, and over HTTP with a token."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from tests.doors.command import Command

# Clients that begin with a handshake, and those that send each request for itself: each on one of the engines.
ERAS = {"sqlite": "legacy", "postgresql": "auto"}


class Refused(Exception):
    """The tool answered with an error."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told)
        self.code: str = told["code"]
        self.told = told


class Agent:
    """A client with its tools as calls: `await agent("claim_next_task", role="worker")`."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.answer: dict[str, Any] = {}

    async def __call__(self, tool: str, /, **arguments: Any) -> Any:
        answer = await self.client.call_tool(tool, arguments)
        assert json.loads(answer.content[0].text) == answer.structured_content  # type: ignore[union-attr]
        self.answer = answer.structured_content
        if answer.is_error:
            assert {"error", "code", "hint"} <= self.answer.keys()
            raise Refused(self.answer)
        return self.answer["result"]

    async def refused(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        try:
            answer = await self(tool, **arguments)
        except Refused as refusal:
            return refusal.told
        raise AssertionError(f"{tool} was not refused: {answer}")


@asynccontextmanager
async def over_stdio(
    command: Command, *options: str, era: str = "auto", name: str = "tester", **environment: str
) -> AsyncIterator[Agent]:
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "coordinate", "mcp", *options],
        env={**command.environment, **environment},
        cwd=str(command.folder),
    )
    async with Client(server, mode=era, client_info=Implementation(name=name, version="1")) as client:
        yield Agent(client)


@asynccontextmanager
async def over_http(
    url: str, secret: str, *, era: str = "auto", name: str = "tester", **headers: str
) -> AsyncIterator[Agent]:
    shown = {"Authorization": f"Bearer {secret}", **{key.replace("_", "-"): value for key, value in headers.items()}}
    async with httpx2.AsyncClient(headers=shown, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=era, client_info=Implementation(name=name, version="1")) as client:
            yield Agent(client)


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(120):
            await work()

    asyncio.run(bounded())


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder
