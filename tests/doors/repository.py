"""A real git repository with a board in its main checkout, a linked worktree, and `coordinate` in the hooks' $PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import coordinate
from tests.doors.command import Answer, Command


@dataclass(frozen=True)
class Repository:
    main: Path
    linked: Path
    environment: dict[str, str]

    def git(self, *words: str, at: Path | None = None, **environment: str) -> Answer:
        done = subprocess.run(
            ["git", *words],
            cwd=at or self.main,
            env={**self.environment, **environment},
            capture_output=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())

    def write(self, name: str, text: str = "x\n", *, at: Path | None = None) -> Path:
        path = (at or self.main) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def commit(self, *names: str, at: Path | None = None, **environment: str) -> Answer:
        """Write files and commit them."""
        for name in names:
            self.write(name, os.urandom(4).hex(), at=at)
            self.git("add", "-f", "--", f":(literal){name}", at=at)
        return self.git("commit", "-m", "change", at=at, **environment)

    def call(self, name: str = "", at: Path | None = None) -> Command:
        """`coordinate` of an agent without a session, run in a folder; the board is found from there."""
        command = Command("", at or self.main, COORDINATE_AGENT=name)
        del command.environment["COORDINATE_DB"]
        return command


def made(folder: Path, board: Path) -> Repository:
    """`board` is one to copy."""
    programs = folder / "bin"
    programs.mkdir()
    package = Path(coordinate.__file__).parents[1]
    shim = programs / "coordinate"
    shim.write_text(f'#!/bin/sh\nPYTHONPATH="{package}" exec "{sys.executable}" -m coordinate "$@"\n')
    shim.chmod(0o755)
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("COORDINATE_", "GIT_"))}
    person = {"NAME": "t", "EMAIL": "t@example.org"}
    named = {f"GIT_{who}_{what}": said for who in ("AUTHOR", "COMMITTER") for what, said in person.items()}
    # Where the package is installed its command is in $PATH too; a test takes the one away and must see none.
    elsewhere = [folder for folder in plain["PATH"].split(os.pathsep) if not shutil.which("coordinate", path=folder)]
    plain |= named | {"PATH": os.pathsep.join([str(programs), *elsewhere]), "GIT_CONFIG_GLOBAL": os.devnull}
    found = Repository(folder / "main", folder / "linked", plain)
    found.main.mkdir()
    found.git("init", "-q", "-b", "main")
    assert found.commit("README").status == 0
    assert found.git("worktree", "add", "-q", "-b", "task-1", str(found.linked)).status == 0
    (found.main / ".coordinate").mkdir(mode=0o700)
    (found.main / ".coordinate" / ".gitignore").write_text("*\n")
    shutil.copy(board, found.main / ".coordinate" / "board.db")
    return found
