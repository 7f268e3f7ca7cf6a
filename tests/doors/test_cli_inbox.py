"""The inbox group from outside: each command's answer, refusal and status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.command import Command

ASK = ("inbox", "ask", "Which colour?", "--owner", "decision", "--option", "red", "--option", "blue")
IMPACT = ("--impact", "the logo waits")


@pytest.fixture
def engine() -> str:
    """One will do for the door: what the inbox does is tested on both elsewhere."""
    return "sqlite"


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    """Calls of alice, who has asked ASK-1."""
    call = Command(board_url, tmp_path, COORDINATE_AGENT="alice")
    assert call(*ASK, "--recommend", "blue", *IMPACT).json["id"] == "ASK-1"
    return call


def test_an_ask_from_question_to_outcome(call: Command) -> None:
    assert [each["label"] for each in call("inbox", "show", "ASK-1").json["ask"]["options"]] == ["red", "blue"]
    assert call("inbox", "wait", "ASK-1", "--timeout", "0").status == 8
    said = call("inbox", "respond", "ask-1", "the darker one", "--choice", "blue", "--agent", "ann").json
    assert (said["state"], said["response"]["said_by"]) == ("answered", "ann")
    unread = call("inbox", "answer", "ASK-1", "--choice", "red")
    assert (unread.status, unread.error["code"], unread.error["text"]) == (4, "unread_inbox_answer", "the darker one")
    (handed,) = call("inbox", "pending").json["responses"]
    assert handed["response"]["seq"] == 1
    assert call("inbox", "take", "ASK-1", "--for", "30m").json["taken_by"] == "alice"
    assert call("inbox", "take", "ASK-1", "--agent", "bob").status == 3
    assert call("inbox", "list", "--unhandled").json[0]["id"] == "ASK-1"
    assert call("inbox", "ack", "ASK-1", "--outcome", "x").status == 2
    assert call("inbox", "ack", "ASK-1", "--response", "1").error["field"] == "outcome"
    done = call("inbox", "ack", "ASK-1", "--response", "1", "--outcome", "it is blue").json
    assert (done["state"], done["response"]["seq"]) == ("closed", 1)
    assert call("inbox", "respond", "ASK-1", "red").error["code"] == "closed"
    assert call("inbox", "search", "DARKER").json[0]["outcome"] == "it is blue"
    assert "answer 1: blue, the darker one" in call("inbox", "list", "--format", "table").out


def test_the_words_of_a_human_are_told_to_the_letter(call: Command) -> None:
    """Also where they look like an address with a password."""
    words = "see https://docs.example: write to ann@example.org, and set password=secret in .env"
    call("inbox", "respond", "ASK-1", words, "--agent", "ann")
    told = call("inbox", "answer", "ASK-1", "in chat", "--agent", "alice").error
    assert told["text"] == words
    assert words in told["error"]


def test_a_refusal_names_the_flag_that_was_typed(call: Command) -> None:
    no_owner = call("inbox", "ask", "Which colour?", *IMPACT).error
    assert (no_owner["error"], no_owner["field"]) == (
        "--owner is missing: it is one of decision, task, approval",
        "action_owner",
    )
    assert no_owner["hint"] == "--owner is needed; nothing was changed"
    assert call("inbox", "ask", "Which colour?", "--owner", "task").error["hint"].startswith("--impact is needed")
    two = call("inbox", "list", "--attention", "--told").error
    assert two["error"] == "--attention and told exclude each other"
    assert call("inbox", "list", "--unhandled", "--state", "open").error["hint"] == "leave one of the two away"
    too_long = call("inbox", "ask", "Which colour?", "--owner", "task", "--next-step", "x" * 1_001, *IMPACT).error
    assert too_long["error"].startswith("--next-step has 1001 characters")
    assert (
        call("task", "claim-next", "--role", "w", "--lease", "0s").error["error"].startswith("--lease must be from 1")
    )
    row = call("board", "row", "Release", "Docs", "--status", "blocked", "--owner", "task", *IMPACT).error
    assert (row["code"], row["hint"]) == ("invalid_input", "--next-step is needed; nothing was changed")


def test_a_closed_project_says_what_it_hides(call: Command) -> None:
    assert call("project", "close", "default").json == {"project": "default", "closed": True, "asks_hidden": 1}
    assert call("project", "list").json[0]["closed_at"]
    assert call("project", "reopen", "default").json["asks_open"] == 1


def test_what_a_human_does_with_an_ask(call: Command) -> None:
    assert call("inbox", "snooze", "ASK-1", "--for", "2h").json["snoozed_until"]
    assert call("inbox", "list", "--attention").json == []
    assert [each["id"] for each in call("inbox", "list", "--snoozed").json] == ["ASK-1"]
    assert " snoozed " in call("inbox", "list", "--format", "table").out
    assert call("inbox", "snooze", "ASK-1").status == 2
    assert call("inbox", "wake", "ASK-1").json["snoozed_until"] is None
    assert call("inbox", "respond", "ASK-1", "--kind", "clarify").error["code"] == "empty"
    assert call("inbox", "respond", "ASK-1", "which?", "--kind", "clarify").status == 0
    assert call("inbox", "respond", "ASK-1", "--withdraw", "--kind", "decline").status == 2
    assert call("inbox", "respond", "ASK-1", "which?", "--response", "1").status == 2
    assert call("inbox", "respond", "ASK-1", "--withdraw", "--response", "2").error["code"] == "answer_changed"
    assert call("inbox", "respond", "ASK-1", "--withdraw", "--response", "1").json["state"] == "open"
    assert call("inbox", "annotate", "ASK-1", "mind the budget").json["id"] == "ANN-1"
    assert call("inbox", "annotate", "ASK-1", "a slip").json["id"] == "ANN-2"
    assert call("inbox", "unannotate", "ANN-2").json["close_reason"] == "withdrawn"
    assert call("inbox", "pending").json["annotations"][0]["text"] == "mind the budget"
    assert call("inbox", "ack", "ANN-1").json["close_reason"] == "acknowledged"
    assert call("inbox", "dismiss", "ASK-1", "--reason", "not now").json["outcome"] == "not now"
    assert call("project", "close", "default").json["asks_hidden"] == 0
    assert call("project", "reopen", "default").json["asks_open"] == 0


def test_what_an_agent_does_with_its_ask(call: Command) -> None:
    call("task", "dispatch", "--title", "Logo", "--role", "worker")
    held = call("task", "claim-next", "--role", "worker").json["claim"]
    blocking = call(*ASK, *IMPACT, "--task", held, "--blocking").json
    assert (blocking["id"], blocking["blocking"]) == ("ASK-2", True)
    again = call("inbox", "ask", "Other?", "--owner", "task", *IMPACT, "--task", "TASK-1")
    assert (again.status, again.error["ask_id"]) == (3, "ASK-2")
    assert call("task", "unblock", "TASK-1").error["code"] == "ask_open"
    call("inbox", "respond", "ASK-2", "--choice", "red", "--agent", "ann")
    claim = call("task", "claim-next", "--role", "worker").json
    assert (claim["claim"], claim["ask"]["response"]["choice"]) == ("TASK-1@2", "red")
    assert call("inbox", "revise", "ASK-1", "--detail", "dark", "--expected-revision", "1").json["revision"] == 2
    assert call("inbox", "revise", "ASK-1", "--detail", "x", "--expected-revision", "1").status == 4
    assert call("inbox", "ask", "x", "--recommend", "blue").status == 2
    step = call(*ASK, *IMPACT, "--supersedes", "ASK-1").json
    assert (step["step_no"], step["surface_id"]) == (2, "ASK-1")
    assert call("inbox", "withdraw", step["id"], "--reason", "found it").json["close_reason"] == "withdrawn"


def test_words_that_are_an_options_label_choose_nothing_and_say_so(call: Command) -> None:
    said = call("inbox", "respond", "ASK-1", "Red").json
    assert (said["response"]["choice"], "--choice" in said["warnings"][0]) == (None, True)
    assert "warnings" not in call("inbox", "respond", "ASK-1", "--choice", "red").json
    assert call("inbox", "respond", "ASK-1", "\u200b\u2060 \u3164").error["code"] == "empty"


def test_a_table_of_what_was_said_shows_its_number_and_that_it_is_outdated(call: Command) -> None:
    call("inbox", "respond", "ASK-1", "blue, perhaps", "--agent", "ann")
    call("inbox", "revise", "ASK-1", "--detail", "dark")
    assert "answer 1: blue, perhaps (outdated)" in call("inbox", "pending", "--format", "table").out


def test_the_background_is_shown_and_handed_over_and_in_no_list(call: Command) -> None:
    """An agent pays for every word that it is told again."""
    long = "x" * 10_000
    assert call("inbox", "ask", "Why?", "--owner", "task", *IMPACT, "--context", long).json["context"] == ""
    assert call("inbox", "respond", "ASK-2", "because").json["context"] == ""
    for words in (("list",), ("search", "why"), ("watch", "--once")):
        assert long not in call("inbox", *words).out
    assert call("inbox", "show", "ASK-2").json["ask"]["context"] == long
    assert call("inbox", "pending").json["responses"][0]["context"] == long


def test_watch_prints_what_needs_the_human_as_it_comes(call: Command) -> None:
    once = call("inbox", "watch", "--once")
    assert [json.loads(line)["id"] for line in once.out.splitlines()] == ["ASK-1"]
    watching = call.started("inbox", "watch")
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["id"] == "ASK-1"
        call("inbox", "ask", "Renew the key", "--owner", "task", *IMPACT)
        assert json.loads(watching.stdout.readline())["id"] == "ASK-2"
        call("inbox", "revise", "ASK-1", "--detail", "dark")
        assert json.loads(watching.stdout.readline())["revision"] == 2
        call("inbox", "ask", "The key is new", "--kind", "done")
        assert json.loads(watching.stdout.readline())["kind"] == "done"
        assert [each["id"] for each in call("inbox", "list", "--told").json] == ["ASK-3"]
    finally:
        watching.terminate()
        watching.communicate(timeout=30)
