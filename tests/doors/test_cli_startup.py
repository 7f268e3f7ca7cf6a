"""What a call costs before it does anything: the hot verbs load nothing that is slow to load, help loads no core."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.doors.command import Command

# Runs the command line as the console script does, then says on stderr what was loaded.
WATCHED = """
import json, os, sys
from coordinate.__main__ import main
os._exit = sys.exit
sys.argv = ["coordinate", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

HOT = [
    ("task", "dispatch", "--title", "t", "--role", "worker", "--depends-on", "TASK-1"),
    ("task", "claim-next", "--agent", "a", "--role", "worker", "--count", "2"),
    ("task", "claim-next", "--agent", "a", "--role", "worker", "--why"),
    ("task", "log-progress", "TASK-1@1", "--agent", "a", "--note", "n"),
    ("task", "extend-lease", "TASK-1@1", "--agent", "a"),
    ("task", "mine", "--agent", "a"),
    ("task", "view", "TASK-1"),
    ("task", "complete", "TASK-1@1", "--agent", "a"),
    ("agent", "heartbeat", "--agent", "a"),
    ("lease", "claim", "src/api", "--agent", "a"),
    ("inbox", "pending", "--agent", "a"),
]
# Each takes milliseconds, and none of these verbs needs it; Postgres' driver brings some of them along.
SLOW = {"click", "coordinate.cli.root", "coordinate.cli.run", "coordinate.hooks", "coordinate.plans", "gettext"}
ALSO_THE_DRIVERS = {"asyncio", "dataclasses", "inspect", "locale", "platform", "random", "shlex", "string"}
ALSO_THE_DRIVERS |= {"subprocess", "uuid"}


def loaded_by(call: Command, *arguments: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", WATCHED, *arguments], capture_output=True, env=call.environment, check=True
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_hot_verbs_load_nothing_that_is_slow_to_load(board_url: str, tmp_path: Path) -> None:
    call = Command(board_url, tmp_path)
    call("task", "dispatch", "--title", "first", "--role", "worker")
    call.environment["COORDINATE_SESSION"] = call("agent", "register", "a").json["id"]
    for arguments in HOT:
        loaded = loaded_by(call, *arguments)
        assert loaded & {"sqlalchemy", "alembic", "mako"} == set(), arguments
        assert loaded & SLOW == set(), arguments
        assert board_url.startswith("postgresql://") or loaded & ALSO_THE_DRIVERS == set(), arguments


@pytest.mark.parametrize(
    "arguments", [("--help",), ("task", "--help"), ("task", "claim-next", "--help"), ("--version",)]
)
def test_help_loads_no_part_of_the_core(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    loaded = loaded_by(Command("/nowhere.db", tmp_path), *arguments)
    assert {
        name for name in loaded if name.startswith(("coordinate.db", "coordinate.work", "coordinate.service"))
    } == set()
    assert loaded & {"sqlalchemy", "alembic", "sqlite3", "psycopg"} == set()


# Of a process that may open few files none is left, then one, and so on.
SPENT = """
import os, resource, sys
import coordinate

coordinate.connect(sys.argv[1]).close()
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
for left in range(8):
    opened = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass
    for each in opened[:left]:
        os.close(each)
    try:
        with coordinate.connect(sys.argv[1], agent="alice") as board:
            board.dispatch(title="T", role="w")
        said = "done"
    except coordinate.errors.CoordinateError as error:
        said = error.code
    for each in opened[left:]:
        os.close(each)
    print(said)
"""


def test_who_may_open_no_more_files_is_told_that_the_board_is_not_reached(board_url: str) -> None:
    ended = subprocess.run([sys.executable, "-c", SPENT, board_url], capture_output=True, text=True, check=True)
    said = ended.stdout.split()
    assert said[0] == "unreachable"
    assert set(said) == {"unreachable", "done"}
    assert said == sorted(said, reverse=True)
