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
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinate import Coordinator
from tests.doors.command import Command
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
def test_the_inspector_lists_and_calls(board: Coordinator, board_url: str, tmp_path: Path, node: Path) -> None:
    board.dispatch(title="A", role="worker")
    command = Command(board_url, tmp_path)
    given = [part for name in ("COORDINATE_DB", "PYTHONPATH") for part in ("-e", f"{name}={command.environment[name]}")]

    def inspect(*words: str) -> dict[str, object]:
        done = subprocess.run(
            ["node_modules/.bin/mcp-inspector", "--cli", *given, *STDIO, "--agent", "wendy", *words],
            cwd=node,
            capture_output=True,
            text=True,
            check=True,
        )
        told: dict[str, object] = json.loads(done.stdout)
        return told

    assert len(inspect("--method", "tools/list")["tools"]) > 8  # type: ignore[arg-type]
    claim = ("--method", "tools/call", "--tool-name", "claim_next_task", "--tool-arg", "role=worker")
    assert inspect(*claim)["structuredContent"]["result"]["handle"] == "TASK-1@1"  # type: ignore[index]
