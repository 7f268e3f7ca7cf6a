"""Where the caller's rights end: a refusal that names the folder and its owner, never a fault of ours.

The commands run without root's right to pass over permissions, so that these promises are also held to as root.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import coordinate
from coordinate import errors, service
from tests.doors.command import Answer, Command

DAC_OVERRIDE, DAC_READ_SEARCH, PR_CAPBSET_DROP = 1, 2, 24


class Ordinary(Command):
    """A user to whom permissions apply."""

    @staticmethod
    def first() -> None:
        _without_privileges()


def _without_privileges() -> None:
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        for right in (DAC_OVERRIDE, DAC_READ_SEARCH):
            libc.prctl(PR_CAPBSET_DROP, right, 0, 0, 0)


@pytest.fixture
def barred(sqlite_template: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder with a board, which may not be entered."""
    folder = tmp_path / "project" / ".coordinate"
    folder.mkdir(parents=True)
    (folder / "board.db").write_bytes(sqlite_template.read_bytes())
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.fixture
def call(barred: Path) -> Ordinary:
    found = Ordinary("", barred.parent)
    del found.environment["COORDINATE_DB"]
    return found


def _refused(answer: Answer, barred: Path) -> None:
    assert (answer.status, answer.error["code"]) == (2, "permission_denied"), answer
    assert str(barred) in answer.error["error"]
    assert barred.owner() in answer.error["error"]
    assert answer.error["hint"]


def test_a_folder_that_may_not_be_entered_is_a_refusal_that_names_its_owner(call: Ordinary, barred: Path) -> None:
    for arguments in (("status",), ("db", "where"), ("db", "upgrade"), ("task", "list"), ("init",)):
        _refused(call(*arguments), barred)


def test_a_board_that_is_named_is_used_whatever_the_folder_is(
    call: Ordinary, barred: Path, sqlite_template: Path
) -> None:
    board = barred.parent / "own.db"
    board.write_bytes(sqlite_template.read_bytes())
    words = ("task", "dispatch", "--title", "t", "--role", "w")
    for made in (call(*words, "--db", str(board)), call(*words, COORDINATE_DB=str(board))):
        assert made.json["status"] == "TODO"
        assert "is not used for settings and hooks" in made.err


def test_a_named_path_behind_a_closed_door_is_a_refusal_too(call: Ordinary, barred: Path, tmp_path: Path) -> None:
    behind = str(barred / "deeper" / "x.db")
    call = Ordinary("", tmp_path)
    for arguments in (("status",), ("db", "upgrade"), ("db", "current"), ("demo", "--agents", "2", "--tasks", "1")):
        answer = call(*arguments, "--db", behind)
        told = Answer(answer.status, answer.out, answer.err.splitlines()[-1])
        _refused(told, barred)
    _refused(call("db", "adopt", behind, "--db", str(tmp_path / "new.db")), barred)
    unread = call("plan", "lint", behind)
    _refused(unread, barred)
    assert unread.error["hint"].endswith("name another file"), "no board is what it asks for"
    assert not (tmp_path / "new.db").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_another_users_folder_is_refused_with_the_other_users_name(call: Ordinary, barred: Path) -> None:
    barred.chmod(0o700)
    os.chown(barred, 65534, 65534)
    _refused(call("status"), barred)


def test_a_folder_is_no_board(tmp_path: Path) -> None:
    (tmp_path / "some").mkdir()
    call = Ordinary("some", tmp_path)
    for arguments in (("status",), ("db", "upgrade"), ("db", "current")):
        answer = call(*arguments)
        assert (answer.status, answer.error["code"]) == (2, "invalid_input")
        assert "is a folder" in answer.error["error"]


def board_with_settings(here: Path, template: Path, text: str) -> Path:
    """A `.coordinate/` that is trusted, with a board and a config.toml."""
    folder = here / ".coordinate"
    folder.mkdir(mode=0o755)
    (folder / "board.db").write_bytes(template.read_bytes())
    (folder / "config.toml").write_text(text)
    (folder / "config.toml").chmod(0o644)
    return folder


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("busy_seconds = true", "busy_seconds"),
        ("busy_seconds = 'long'", "busy_seconds"),
        ("db = 5", "db"),
        ("synchronous = 7", "synchronous"),
        ("gate = 'ajar'", "gate"),
        ("db = ", "config"),
        ("\ufeffgate = 'ajar'", "gate"),
    ],
)
def test_settings_that_are_none_are_refused_by_their_name(
    sqlite_template: Path, tmp_path: Path, text: str, field: str
) -> None:
    folder = board_with_settings(tmp_path, sqlite_template, text)
    call = Ordinary("", tmp_path)
    answer = call("status")
    assert (answer.error["code"], answer.error["field"]) == ("invalid_input", field)
    assert str(folder / "config.toml") in answer.error["error"]
    assert answer.error["hint"]


@pytest.mark.parametrize("text", ["dbb = 'x.db'", "[webhook.chat]\nurl = 'https://chat.example'"])
def test_a_line_that_is_no_setting_is_said_and_stands_in_nobodys_way(
    sqlite_template: Path, tmp_path: Path, text: str
) -> None:
    folder = board_with_settings(tmp_path, sqlite_template, text)
    for arguments in (("status",), ("db", "where")):
        answer = Ordinary("", tmp_path)(*arguments)
        assert answer.json
        warning = json.loads(answer.err)["warning"]
        assert f"in {folder / 'config.toml'} is no setting" in warning
        assert "busy_seconds, synchronous, gate, webhooks" in warning


def test_a_variable_that_is_empty_is_none_and_a_wrong_one_is_named(sqlite_template: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    wrong = {"BUSY_SECONDS": "long", "SYNCHRONOUS": "HARD", "GATE": "ajar", "FORMAT": "xml", "DB": str(tmp_path)}
    wrong |= {"AGENT": "a\tb", "SESSION": "a\tb"}
    call = Command(str(board), tmp_path)
    assert call("status", "--db", str(board), **{f"COORDINATE_{name}": "" for name in wrong}).json
    for name, value in wrong.items():
        error = call("status", **{f"COORDINATE_{name}": value}).error
        assert f"$COORDINATE_{name}" in error["error"]
        assert error["hint"]
    assert "--agent" in call("status", "--agent", "a\tb", COORDINATE_AGENT="a").error["error"]


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo], ids=["folder", "fifo"])
def test_settings_in_something_that_is_no_file_are_refused(tmp_path: Path, make: object) -> None:
    (tmp_path / ".coordinate").mkdir(mode=0o755)
    make(tmp_path / ".coordinate" / "config.toml")  # type: ignore[operator]
    (tmp_path / ".coordinate" / "config.toml").chmod(0o755)
    answer = Ordinary("", tmp_path)("status")
    assert (answer.error["code"], answer.error["field"]) == ("invalid_input", "config")


def test_a_revision_that_there_is_not_is_bad_input(tmp_path: Path) -> None:
    for words in (("mysql", "--engine", "sqlite"), ("0001:mysql", "--engine", "postgresql")):
        assert Ordinary("x.db", tmp_path)("db", "sql", *words).error["code"] == "invalid_input"


@pytest.mark.parametrize("source", [None, 5, b"x", ["x"]])
def test_only_a_path_can_be_adopted(sqlite_template: Path, tmp_path: Path, source: object) -> None:
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    with coordinate.connect(board) as c, pytest.raises(errors.InvalidInput):
        c.adopt(source=source)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidInput):
        service.adopt(source, board)  # type: ignore[arg-type]
