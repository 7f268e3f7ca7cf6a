"""The demo from outside: what it refuses, what it draws, and a verdict that accuses nobody wrongly."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest

from tests.doors.command import COORDINATE, Command


@pytest.fixture
def call(tmp_path: Path) -> Command:
    return Command("", tmp_path, TMPDIR=str(tmp_path))


@pytest.mark.parametrize(("agents", "most"), [(1, 0), (2, 0), (6, 4), (20, 17)])
def test_a_demo_that_would_kill_all_workers_is_refused_at_once(
    call: Command, tmp_path: Path, agents: int, most: int
) -> None:
    begun = time.monotonic()
    refused = call("demo", "--agents", str(agents), "--tasks", "6", "--kill", str(most + 1))
    assert (refused.status, refused.error["code"]) == (2, "invalid_input")
    assert f"at most {most} can be killed" in refused.error["error"]
    assert time.monotonic() - begun < 10
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", ["--agents 1 --tasks 2", "--agents 2 --tasks 1", "--agents 6 --tasks 1 --kill 4"])
def test_a_play_too_small_to_check_everything_breaks_no_promise(call: Command, words: str) -> None:
    verdict = call("demo", *words.split()).json
    assert (verdict["holds"], verdict["broken"]) == (True, [])
    assert bool(verdict["unchecked"]) is ("--kill" in words)


def test_a_kept_board_is_there_afterwards(call: Command) -> None:
    done = call("demo", "--agents", "3", "--tasks", "5", "--keep")
    place = done.json["kept"]
    assert place in done.err
    assert call("status", "--db", place).json["by_status"] == {"DONE": 5}


def test_a_place_with_tasks_in_it_is_refused_in_the_commands_own_name(call: Command) -> None:
    call("demo", "--agents", "2", "--tasks", "1", "--db", "board.db")
    for name in ("demo", "bench"):
        answer = call(name, "--agents", "2", "--tasks", "1", "--db", "board.db")
        told = json.loads(answer.err.splitlines()[-1])
        assert (answer.status, told["code"]) == (2, "not_empty")
        assert f"the {name} wants an empty board" in told["error"]


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_on_a_terminal_no_line_is_wider_than_it_is(call: Command, columns: int) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, columns, 0, 0))
    words = ["demo", "--agents", "4", "--tasks", "30", "--kill", "1"]
    environment = {name: value for name, value in call.environment.items() if name != "COLUMNS"}
    with subprocess.Popen([*COORDINATE, *words], stdout=subprocess.PIPE, stderr=theirs, env=environment) as child:
        os.close(theirs)
        said = b""
        try:
            while chunk := os.read(ours, 65536):
                said += chunk
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(ours)
    assert child.returncode == 0
    lines = said.decode().replace("\r\n", "\n").replace("\r", "\n").splitlines()
    assert len(lines) > 10
    assert max(map(len, lines)) < columns
