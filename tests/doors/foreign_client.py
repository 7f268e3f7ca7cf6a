"""Clients that nobody here wrote drive the doors: the SDK for JavaScript, and the inspector's command line.

Not collected with the suite, since it needs node. `.ci/run` runs it: $COORDINATE_TEST_NODE is a folder in which
`npm install` was run with `tests/doors/foreign/package.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coordinate import Coordinator
from tests.doors.server import serving

STDIO = [sys.executable, "-m", "coordinate", "mcp"]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Path]:
    """The folder with what was installed, and the worker in it."""
    folder = Path(os.environ["COORDINATE_TEST_NODE"])
    shutil.copy(Path(__file__).parent / "foreign" / "worker.mjs", folder)
    yield folder


@pytest.mark.parametrize("how", ["stdio", "http"])
def test_the_sdk_for_javascript_does_a_workers_whole_loop(
    board: Coordinator, board_url: str, tmp_path: Path, node: Path, how: str
) -> None:
    board.dispatch(title="A", role="worker")
    with serving(board, board_url, tmp_path / "served") as server:
        target = [*STDIO, "--agent", "wendy"] if how == "stdio" else [server.mcp, server.secrets["worker"]]
        worker = subprocess.Popen(
            ["node", "worker.mjs", how, *target],
            cwd=node,
            env=server.command.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert worker.stdout is not None
        board.respond(ask=worker.stdout.readline().strip(), choice="PEG", agent="hugo")
        out, _ = worker.communicate(timeout=60)
        assert (worker.returncode, out) == (0, "TASK-1@1 IN_REVIEW true\n")
        assert server.api("approve", "reviewer", task="TASK-1").json["status"] == "DONE"
    assert board.view(task="TASK-1").task.claimed_by == "wendy"


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
@pytest.mark.parametrize("how", ["stdio", "http"])
def test_the_inspector_does_a_workers_whole_loop(
    board: Coordinator, board_url: str, tmp_path: Path, node: Path, how: str
) -> None:
    """Each of its calls is a client of its own: over HTTP it goes by a name, over stdio it shows its session."""
    board.dispatch(title="A", role="worker")
    with serving(board, board_url, tmp_path / "served") as server:
        shown = {name: server.command.environment[name] for name in ("COORDINATE_DB", "PYTHONPATH")}
        shown["COORDINATE_SESSION"] = board.register(name="wendy").id
        target = [part for name, value in shown.items() for part in ("-e", f"{name}={value}")] + STDIO
        if how == "http":
            target = ["--transport", "http", "--server-url", server.mcp]
            target += ["--header", f"Authorization: Bearer {server.secrets['worker']}"]
            target += ["--header", "Coordinate-Client: inspector"]

        def inspect(*words: str) -> Any:
            command = ["node_modules/.bin/mcp-inspector", "--cli", *target, *words]
            done = subprocess.run(command, cwd=node, capture_output=True, text=True, check=False, timeout=60)
            assert done.returncode == 0, done.stdout + done.stderr
            return json.loads(done.stdout)

        def call(tool: str, **arguments: Any) -> Any:
            given = [part for name, value in arguments.items() for part in ("--tool-arg", f"{name}={value}")]
            return inspect("--method", "tools/call", "--tool-name", tool, *given)["structuredContent"]["result"]

        assert len(inspect("--method", "tools/list")["tools"]) > 8
        handle = call("claim_next_task", role="worker")["handle"]
        assert call("claim_scopes", patterns='["docs"]')["granted"]
        call("log_progress", handle=handle, note="half of it")
        asked = call(
            "ask_human",
            title="Which grammar?",
            action_owner="decision",
            impact="the parser waits",
            options='["PEG","LR"]',
            task=handle,
        )
        ask = asked["ask"]["id"]
        answering = threading.Timer(1, board.respond, kwargs={"ask": ask, "choice": "PEG", "agent": "hugo"})
        answering.start()
        assert call("wait_for", wait=40)["answers"] == [ask]
        assert call("read_answers")["responses"][0]["response"]["choice"] == "PEG"
        call("acknowledge_answer", ask=ask, response_seq=1, outcome="PEG it is")
        assert call("complete_task", handle=handle, review="true", result="parser.py")["task"]["status"] == "IN_REVIEW"
        assert server.api("approve", "reviewer", task="TASK-1").json["status"] == "DONE"
    assert board.view(task="TASK-1").task.claimed_by == "wendy"
    assert [each.agent for each in board.list_leases(kind="scope", ended=True)] == ["wendy"]
