"""The command line as its users have it: a process of its own, its two streams and its exit status."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import coordinate

COORDINATE = [sys.executable, "-m", "coordinate"]


@dataclass(frozen=True)
class Answer:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document of a call that succeeded."""
        assert self.status == 0, self
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        """The one JSON line of a call that was refused, which printed no answer."""
        assert self.status != 0, self
        assert self.out == "", self
        (line,) = self.err.splitlines()
        told = json.loads(line)
        assert {"error", "code", "hint"} <= told.keys()
        return told


class Command:
    """`coordinate …` on one board, in an empty folder."""

    first: Callable[[], None] | None = None
    """What the process does before it becomes the command."""

    def __init__(self, url: str, folder: Path, **environment: str) -> None:
        self.url, self.folder = url, folder
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATE_")}
        # What is printed is buffered, as it is for users; a checkout need not be installed.
        package = str(Path(coordinate.__file__).parents[1])
        settled = {"PYTHONUNBUFFERED": "", "PYTHONPATH": package, "COORDINATE_DB": url}
        self.environment = {**inherited, **settled, **environment}

    def __call__(self, *arguments: str, stdin: str = "", **environment: str) -> Answer:
        done = subprocess.run(
            [*COORDINATE, *arguments],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.folder,
            env={**self.environment, **environment},
            preexec_fn=self.first,
            timeout=180,
            check=False,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def started(self, *arguments: str, within: str = "", **options: Any) -> subprocess.Popen[str]:
        """The same, left to run; `within` is what a shell does first."""
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        shell = ["sh", "-c", f'{within} && exec "$@"', "sh"] if within else []
        return subprocess.Popen(
            [*shell, *COORDINATE, *arguments], text=True, cwd=self.folder, env=self.environment, **(pipes | options)
        )


def has_its_board(started: subprocess.Popen[str]) -> bool:
    """Whether a command that was started is at work: it has opened its file, or is connected to its server."""
    opened = []
    for each in Path(f"/proc/{started.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            opened.append(str(each.readlink()))
    return any(name.startswith("socket:") or name.endswith("board.db") for name in opened)
