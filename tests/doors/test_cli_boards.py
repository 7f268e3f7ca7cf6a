"""The board group from outside: each command's answer, refusal and status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.command import Command

TITLE = "Release 2"
BOARD_KEYS = {
    *("id", "number", "project", "title", "status", "stream", "created_by", "revision", "created_at", "updated_at"),
    *("archived_at", "archived_by"),
}
STEP = ("--owner", "task", "--note", "the key expired", "--next-step", "renew it", "--impact", "no build is signed")


@pytest.fixture
def engine() -> str:
    """One will do for the door: what boards do is tested on both elsewhere."""
    return "sqlite"


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    """Calls of alice on a board of two rows, Docs and Name."""
    call = Command(board_url, tmp_path, COORDINATE_AGENT="alice")
    rows = [{"label": "Docs", "status": "partial"}, {"label": "Name"}]
    (tmp_path / "rows.json").write_text(json.dumps(rows), encoding="utf-8")
    made = call("board", "upsert", TITLE, "rows.json")
    assert made.status == 0, made
    assert made.json.keys() == BOARD_KEYS | {"rows", "set_aside", "progress"}
    return call


def test_a_whole_board_comes_from_a_file_or_from_stdin(call: Command) -> None:
    assert call("board", "upsert", TITLE, "rows.json").error["code"] == "outdated_revision"
    again = call("board", "upsert", TITLE, "rows.json", "--version", "1")
    assert [row["changed"] for row in again.json["rows"]] == [False, False]
    rows = {"board_version": 1, "rows": [{"label": "Name"}]}
    less = call("board", "upsert", TITLE, "-", stdin=json.dumps(rows))
    assert (less.json["set_aside"], less.json["revision"]) == (["Docs"], 2)
    for text in ("{", '{"row": []}', '[{"label": "Docs", "state": "done"}]', '"Docs"'):
        wrong = call("board", "upsert", TITLE, "-", "--version", "2", stdin=text)
        assert (wrong.status, wrong.error["code"]) == (2, "invalid_input"), text


def test_a_row_its_step_and_the_next(call: Command) -> None:
    asked = call(
        *("board", "row", TITLE, "Name", "--revision", "1", "--status", "blocked", "--owner", "decision"),
        *("--next-step", "choose", "--impact", "the docs wait"),
        *("--option", "heron", "--option", "crane", "--recommend", "crane"),
    )
    assert asked.json["rows"][0]["ask_id"] == "ASK-1"
    docs, name = call("board", "get", TITLE).json["rows"]
    assert "options" in name and "options" not in docs  # what a row does not say is left out
    options = name["options"]
    assert options == [{"label": "heron"}, {"label": "crane", "recommended": True}]
    late = call("board", "row", TITLE, "Name", "--revision", "1", "--note", "x")
    assert (late.status, late.error["revision"], late.error["ask_id"]) == (4, 2, "ASK-1")
    advanced = call("board", "advance", TITLE, "Name", "--revision", "2", "--version", "1", *STEP)
    assert (advanced.json["rows"][0]["step_no"], advanced.json["rows"][0]["ask_id"]) == (2, "ASK-2")
    assert call("board", "advance", TITLE, "Name", "--revision", "2", "--version", "1", *STEP).status == 4
    assert call("board", "advance", TITLE, "Name", "--revision", "3", "--version", "1", *STEP[2:]).status == 2
    assert call("board", "row", TITLE, "Name", "--recommend", "owl").error["code"] == "usage"


def test_words_looks_and_the_archive(call: Command) -> None:
    words = call("board", "annotate", TITLE, "Docs", "say it shorter", "--agent", "ann").json
    assert (words["author"], words["about"]) == ("ann", "Docs")
    assert call("board", "get", TITLE).json["rows"][0]["annotations"] == [words]
    shown = call("board", "get", TITLE, "--format", "table").out
    assert "ID     LABEL  STATUS   REVISION" in shown
    (listed,) = call("board", "list").json
    assert (listed["fraction"], listed["unseen"], listed["partial"]) == (0.25, 1, 1)
    assert call("board", "list", "--format", "table").out.split()[:4] == ["TITLE", "STATUS", "FRACTION", "BLOCKED"]
    assert call("board", "archive", TITLE, "--version", "7").status == 4
    assert call("board", "archive", TITLE).json["status"] == "archived"
    assert call("board", "list").json == []
    assert [each["status"] for each in call("board", "list", "--archived").json] == ["archived"]
    assert call("board", "unarchive", TITLE).json["status"] == "active"
    assert call("board", "get", "Release 3").error["code"] == "not_found"
