"""`coordinate db move` from outside: what it prints, how it ends, and what a folder names afterwards."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
import tomllib
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import pytest
from psycopg.conninfo import conninfo_to_dict

import coordinate
from coordinate.addresses import NOT_WRITTEN_DOWN
from coordinate.db import migrate
from tests.doors.command import Answer, Command
from tests.doors.test_cli_running import until


def test_a_folders_board_moves_and_the_folder_names_the_new_place(tmp_path: Path) -> None:
    folder, new = tmp_path / ".coordinate", tmp_path / 'new "place"' / "board.db"
    folder.mkdir(mode=0o700)
    old = folder / "board.db"
    with coordinate.connect(old, agent="alice", create=True) as c:
        c.dispatch(title="Größe 🚀", role="worker")
    old.chmod(0o600)
    (folder / "config.toml").write_text('# ours\nbusy_seconds = 7\ndb = "board.db"\n')
    command = Command("", tmp_path)
    del command.environment["COORDINATE_DB"]
    assert command("db", "move", "--to", str(new), "--dry-run").json["state"] == "checked"
    assert not new.parent.exists()
    report = command("db", "move", "--to", str(new), "--switch").json
    assert (report["state"], report["target"], report["switched"]) == ("moved", str(new), str(folder / "config.toml"))
    assert report["tables"]["tasks"]["rows"] == 1
    assert stat.S_IMODE(new.stat().st_mode) == 0o600, "as open to others as the old one"
    kept = (folder / "config.toml").read_text().splitlines()
    assert kept[1:] == ["# ours", "busy_seconds = 7"]
    assert command("db", "where").json["database"] == str(new)
    assert command("task", "claim-next", "--role", "worker", "--agent", "bob").json["claim"] == "TASK-1@1"
    refused = command("task", "claim-next", "--role", "worker", "--agent", "bob", "--db", str(old))
    assert (refused.status, refused.error["code"], refused.error["address"]) == (7, "moved", str(new))
    fence = command("db", "current", "--db", str(old)).json["fence"]
    assert (fence["state"], fence["to"]) == ("moved", str(new))
    for verb in (("db", "check"), ("db", "upgrade"), ("db", "doctor", "--deep"), ("db", "doctor", "--repair")):
        assert command(*verb, "--db", str(old)).json["fence"] == fence, verb
    assert command("db", "check", "--wait", "1s", "--db", str(old)).status == 7
    undone = command("db", "move", "--undo", "--from", str(old))
    assert (undone.status, undone.error["code"]) == (2, "invalid_state")


def test_a_mover_whose_terminal_is_gone_lets_writers_in_again(tmp_path: Path) -> None:
    """As with Ctrl-C and TERM: a connection that breaks must not leave a board that nobody may write."""
    old, new = tmp_path / "board.db", tmp_path / "new.db"
    with coordinate.connect(old, agent="alice", create=True) as c:
        c.dispatch(title="one", role="worker")
    migrate.upgrade(str(new))
    command = Command(str(old), tmp_path, COORDINATE_AGENT="alice")
    with closing(sqlite3.connect(new, isolation_level=None, timeout=10)) as place:
        mover = command.started("db", "move", "--to", str(new))
        until(lambda: place.execute("SELECT 1 FROM board_move").fetchone())  # it is closed
        place.execute("BEGIN IMMEDIATE")  # and nothing can be copied there
        with closing(sqlite3.connect(old)) as seen:
            until(lambda: seen.execute("SELECT 1 FROM board_move WHERE state = 'moving'").fetchone())
        mover.send_signal(signal.SIGHUP)
        time.sleep(0.2)
    assert (mover.communicate(timeout=30)[0], mover.returncode) == ("", 129)
    assert command("task", "dispatch", "--title", "two", "--role", "worker").json["id"] == "TASK-2"


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    command = Command(str(tmp_path / "board.db"), tmp_path)
    for arguments in ((), ("--undo", "--resume"), ("--undo", "--switch"), ("--to", "x.db", "--switch")):
        refused = command("db", "move", *arguments)
        assert (refused.status, refused.error["code"]) == (2, "usage"), arguments


def test_an_empty_name_is_no_board(tmp_path: Path) -> None:
    """What a shell makes of a variable that is not set: this folder's board was not meant."""
    (tmp_path / ".coordinate").mkdir(mode=0o700)
    command = Command("", tmp_path)
    del command.environment["COORDINATE_DB"]
    board = str(tmp_path / ".coordinate" / "board.db")
    migrate.upgrade(board)
    for arguments in (("move", "--from", "", "--to", "new.db"), ("move", "--to", ""), ("current", "--db", "")):
        refused = command("db", *arguments)
        assert refused.status == 2, arguments
    assert command("db", "current", "--db", board).json["fence"] is None


def test_a_terminal_shows_the_same_refusal(tmp_path: Path) -> None:
    """There the rows are counted first, for the bar."""
    old = str(tmp_path / "old.db")
    migrate.upgrade(old, "0003")
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "coordinate", "db", "move", "--from", old, "--to", str(tmp_path / "new.db")]
    assert subprocess.run(command, stderr=theirs, check=False).returncode == 6
    os.close(theirs)
    assert "schema_behind" in os.read(ours, 10_000).decode()
    os.close(ours)


def test_a_switch_that_cannot_be_written_is_told_beside_the_move_that_stands(tmp_path: Path) -> None:
    folder, new = tmp_path / ".coordinate", tmp_path / "new.db"
    folder.mkdir(mode=0o700)
    migrate.upgrade(str(folder / "board.db"))
    config_file = folder / "config.toml"
    command = Command("", tmp_path)
    del command.environment["COORDINATE_DB"]
    config_file.write_text('db = """\nboard.db"""\n')
    refused = command("db", "move", "--to", str(new), "--switch")
    assert (refused.status, refused.error["code"]) == (2, "invalid_input"), "before anything is done"
    assert 'db = "…"' in refused.error["hint"], "an address may hold a password"
    assert not new.exists()
    config_file.write_text('deep = [\n["db"]\n]\n"db" = "board.db"\nbusy_seconds = 7\n[other]\ndb = "stays"\n')
    (folder / "config.toml.partial").mkdir()
    moved = command("db", "move", "--to", str(new), "--switch")
    report, told = json.loads(moved.out), json.loads(moved.err)
    assert (report["state"], report["switched"], moved.status) == ("moved", None, 2)
    assert f"has moved to {new}" in told["error"]
    assert f'db = "{new}"' in told["hint"]
    (folder / "config.toml.partial").rmdir()
    assert command("db", "move", "--resume", "--switch").json["switched"] == str(config_file)
    written = tomllib.loads(config_file.read_text())
    assert written == {"db": str(new), "deep": [["db"]], "busy_seconds": 7, "other": {"db": "stays"}}


@pytest.mark.parametrize("named_by", ["--from", "COORDINATE_DB"])
def test_a_folder_that_names_another_board_is_not_switched(named_by: str, tmp_path: Path) -> None:
    """Its agents would go on at a board of others, and find nothing of theirs; one that names none may name this."""
    folder, other, new = tmp_path / ".coordinate", tmp_path / "other.db", tmp_path / "new.db"
    folder.mkdir(mode=0o700)
    for board in (folder / "board.db", other):
        migrate.upgrade(str(board))
    command = Command("", tmp_path)
    del command.environment["COORDINATE_DB"]
    (tmp_path / "link.db").symlink_to(folder / "board.db")

    def switch(board: Path, to: Path) -> Answer:
        if named_by == "--from":
            return command("db", "move", "--from", str(board), "--to", str(to), "--switch")
        return command("db", "move", "--to", str(to), "--switch", COORDINATE_DB=str(board))

    refused = switch(other, new)
    assert (refused.status, refused.error["code"]) == (2, "usage")
    assert str(folder / "board.db") in refused.error["error"]
    assert not new.exists() and not (folder / "config.toml").exists()
    assert switch(tmp_path / "link.db", new).json["switched"] == str(folder / "config.toml")
    for name in ("board.db", "config.toml"):
        (folder / name).unlink()
    assert switch(other, tmp_path / "newer.db").json["switched"] == str(folder / "config.toml")


@pytest.mark.parametrize("secret", ["", "password=hush&"])
def test_a_folder_that_switches_keeps_its_passfile_and_is_told_what_was_left_out(
    secret: str, tmp_path: Path, pg_url: str
) -> None:
    """PG-17, PG-18: what the others are told names no file of this machine."""
    folder, passfile = tmp_path / ".coordinate", tmp_path / "pass file"
    folder.mkdir(mode=0o700)
    migrate.upgrade(str(folder / "board.db"))
    command = Command("", tmp_path)
    del command.environment["COORDINATE_DB"]
    rest = f"passfile={quote(str(passfile))}&{pg_url.partition('?')[2]}"
    moved = command("db", "move", "--to", f"{pg_url.partition('?')[0]}?{secret}{rest}", "--switch")
    assert moved.status == 0
    assert json.loads(moved.out)["switched"] == str(folder / "config.toml")
    named = tomllib.loads((folder / "config.toml").read_text())["db"]
    assert conninfo_to_dict(named) == {**conninfo_to_dict(pg_url), "passfile": str(passfile)}
    assert [json.loads(line)["warning"] for line in moved.err.splitlines()] == [NOT_WRITTEN_DOWN] * bool(secret)
    assert command("db", "current").json["at_head"]
    told = command("db", "current", "--db", str(folder / "board.db")).json["fence"]["to"]
    assert "passfile" not in told
