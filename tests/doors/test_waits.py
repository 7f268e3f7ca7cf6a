"""An answer that a person gives through the server wakes whoever waits for it, in whatever way, on either engine."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from coordinate import Coordinator
from coordinate.db import move
from tests.doors.client import ERAS, over_http
from tests.doors.client import run as run_async
from tests.doors.server import Server, serving
from tests.tables import as_owner

Wait = Callable[[Server, str], Any]


def by_command(server: Server, ask: str) -> Any:
    """`inbox wait`, of an agent that has the board itself."""
    waiting = server.command("inbox", "wait", ask, "--timeout", "50s", "--agent", "wendy")
    return waiting.json["response"]["text"]


def by_api(server: Server, ask: str) -> Any:
    return server.api("wait_ask", ask=ask, wait=50).json["response"]["text"]


def by_tool(server: Server, ask: str) -> Any:
    """`wait_for` tells of it, and `read_answers` has it."""
    said: list[Any] = []

    async def wait() -> None:
        async with over_http(server.mcp, server.secrets["worker"], era=ERAS["sqlite"]) as wendy:
            assert (await wendy("wait_for", wait=50))["answers"] == [ask]
            said.extend((await wendy("read_answers"))["responses"])

    run_async(wait)
    return said[0]["response"]["text"]


@pytest.mark.parametrize("wait", [by_command, by_api, by_tool])
def test_an_answer_from_another_machine_wakes_whoever_waits(
    board: Coordinator, board_url: str, tmp_path: Path, wait: Wait
) -> None:
    asked = board.acting(agent="wendy").ask(title="Which colour?", action_owner="task", impact="the logo")
    with serving(board, board_url, tmp_path / "served") as server:
        said: list[Any] = []
        waiting = threading.Thread(target=lambda: said.append(wait(server, asked.ask.id)))
        began = time.monotonic()
        waiting.start()
        time.sleep(1)
        assert waiting.is_alive()
        assert server.api("respond", "human", ask=asked.ask.id, text="blue").status == 200
        waiting.join(60)
        assert said == ["blue"]
        assert time.monotonic() - began < 45, "the wait ran to its end"


def test_every_wait_ends_when_the_board_moves(
    board: Coordinator, board_url: str, other_url: str, tmp_path: Path
) -> None:
    """Commands with exit status 7, requests with 410, and the stream of the log by its end."""
    ask = board.acting(agent="wendy").ask(title="Which colour?", action_owner="task", impact="the logo").ask.id
    with serving(board, board_url, tmp_path / "served") as server:
        commands = [
            ("inbox", "wait", ask, "--timeout", "50s"),
            ("inbox", "watch"),
            ("events", "tail"),
        ]
        waits: dict[str, Callable[[], Any]] = {
            **{" ".join(words[:2]): partial(server.command, *words, "--agent", "wendy") for words in commands},
            "wait_ask": partial(server.api, "wait_ask", ask=ask, wait=50),
            "wait_for": partial(server.api, "wait_for", wait=50),
            "stream": partial(server, "GET", "/events", token=server.secrets["worker"]),
        }
        ended: dict[str, Any] = {}
        threads = [
            threading.Thread(target=lambda n=name, w=wait: ended.update({n: w()})) for name, wait in waits.items()
        ]
        for thread in threads:
            thread.start()
        time.sleep(2)
        assert not ended
        move.move(as_owner(board_url), other_url)
        for thread in threads:
            thread.join(30)
        assert set(ended) == set(waits)
        for words in commands:
            answer = ended.pop(" ".join(words[:2]))
            assert (answer.status, json.loads(answer.err.splitlines()[-1])["code"]) == (7, "moved"), words
        assert ended.pop("stream").status == 200
        assert {name: (reply.status, reply.json["code"]) for name, reply in ended.items()} == {
            "wait_ask": (410, "moved"),
            "wait_for": (410, "moved"),
        }
        assert waits["stream"]().status == 410
