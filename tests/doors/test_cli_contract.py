"""What programs rely on: one JSON document, one JSON line of error, stable keys, stable exit status (IF-04)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from coordinate import __main__
from coordinate.cli.root import root
from tests.clock import age
from tests.doors.command import Command
from tests.tables import run as run_sql

TASK_KEYS = [
    "id",
    "title",
    "status",
    "role_boundary",
    "project",
    "priority",
    "assigned_agent",
    "lease_until",
    "created_at",
    "updated_at",
    "depends_on",
    "claimed_by",
    "number",
    "body",
    "session_id",
    "lease_seconds",
    "attempt",
    "expiries",
    "max_attempts",
    "not_before",
    "unmet_dependencies",
    "parked",
    "parked_until",
    "reserved_for",
    "reviewer",
    "review_until",
    "rejected_attempt",
    "result",
    "dedup_key",
    "created_by",
    "revision",
    "finished_at",
    "scoped",
    "parked_on",
    "ask_id",
]
NOTE_KEYS = ["id", "task_id", "author", "note_type", "content", "created_at"]
EVENT_KEYS = ["id", "created_at", "event", "payload", "project", "agent", "ref", "message"]


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    return Command(board_url, tmp_path)


# --- the keys ---------------------------------------------------------------------------------------------------------


def test_every_verb_of_the_kanban_tool_answers_with_its_old_keys_first(call: Command) -> None:
    """IF-04: golden keys of success, one life of a task from dispatch to approval."""
    first = call("task", "dispatch", "--title", "one", "--role", "worker", "--json").json
    assert list(first) == TASK_KEYS
    second = call(
        "task", "dispatch", "--title", "two", "--role", "worker", "--depends-on", "TASK-1", "--priority", "5"
    ).json
    assert (second["depends_on"], second["priority"], first["depends_on"]) == ("TASK-1", 5, None)

    claim = call("task", "claim-next", "--agent", "a", "--role", "worker", "--json").json
    assert list(claim) == [*TASK_KEYS, "claim", "dependencies"]
    assert (claim["claim"], claim["attempt"], claim["dependencies"]) == ("TASK-1@1", 1, [])

    logged = call("task", "log-progress", "TASK-1@1", "--agent", "a", "--note", "half", "--type", "DECISION").json
    assert list(logged) == TASK_KEYS
    extended = call("task", "extend-lease", "TASK-1@1", "--agent", "a", "--minutes", "60").json
    assert extended["lease_until"] > logged["lease_until"]
    done = call("task", "complete", "TASK-1@1", "--agent", "a", "--review", "--result", "it works").json
    assert (list(done), done["status"]) == (TASK_KEYS, "IN_REVIEW")
    again = call("task", "complete", "TASK-1@1", "--agent", "a", "--review").json
    assert again == {**done, "already": True}
    assert call("task", "approve", "TASK-1", "--agent", "r").json["status"] == "DONE"

    waiting = call("task", "claim-next", "--agent", "b", "--role", "worker").json
    assert waiting["claim"] == "TASK-2@1"
    (dependency,) = waiting["dependencies"]
    assert dependency == {
        "id": "TASK-1", "title": "one", "status": "DONE", "met": True, "result": "it works", "reachable": True
    }  # fmt: skip

    seen = call("task", "view", "TASK-1", "--notes", "0", "--history", "0").json
    assert list(seen)[:3] == ["task", "notes", "history"]
    assert list(seen["task"]) == TASK_KEYS
    assert [list(note) for note in seen["notes"]] == [NOTE_KEYS]
    assert [entry["action"] for entry in seen["history"]][-2:] == ["CLAIM", "DISPATCH"]
    assert {"id", "task_id", "agent", "action", "created_at"} <= seen["history"][0].keys()


def test_figures_batches_events_and_pruning_keep_their_keys(call: Command) -> None:
    """IF-04: golden keys of what is no task."""
    for title in "abc":
        call("task", "dispatch", "--title", title, "--role", "worker")
    stats = call("task", "stats", "--json").json
    assert stats == {
        "by_status": {"TODO": 3},
        "by_role": {"worker": 3},
        "expired_leases": 0,
        "total_tasks": 3,
        "more_roles": 0,
    }
    status = call("status").json
    assert list(status)[:6] == ["by_status", "by_role", "expired_leases", "total", "done_count", "percent_done"]
    assert call("batch", "set-priority", "--ids", "TASK-1,TASK-9", "--priority", "3").json == {
        "updated": 1, "priority": 3, "missing": ["TASK-9"]
    }  # fmt: skip
    assert call("task", "batch", "set-project", "--ids", "TASK-1", "--ids", "TASK-2", "--project", "p").json == {
        "updated": 2, "project": "p"
    }  # fmt: skip

    claims = call("task", "batch", "claim", "--agent", "a", "--role", "worker", "--count", "2").json
    assert [claim["claim"] for claim in claims] == ["TASK-1@1", "TASK-2@1"]
    assert claims[0]["holding"] == ["TASK-2@1"]
    assert [task["claim"] for task in call("task", "mine", "--agent", "a").json] == ["TASK-1@1", "TASK-2@1"]
    ended = call("task", "batch", "complete", "--ids", "TASK-1@1,TASK-3", "--agent", "a", "--to-review").json
    assert list(ended) == ["completed", "errors", "results"]
    assert [task["id"] for task in ended["completed"]] == ["TASK-1"]
    assert ended["errors"][0].startswith("TASK-3: ")
    assert [(result["id"], result["ok"]) for result in ended["results"]] == [("TASK-1@1", True), ("TASK-3", False)]

    events = call("events", "list", "--limit", "3").json
    assert [list(event) for event in events] == [EVENT_KEYS] * 3
    assert call("prune", "--dry-run").json == {
        "events_deleted": 0, "history_deleted": 0, "notes_deleted": 0, "dry_run": True
    }  # fmt: skip


def test_what_the_holder_does_not_finish_goes_back_or_on(call: Command) -> None:
    for title in "abcd":
        call("task", "dispatch", "--title", title, "--role", "worker")
        call("task", "claim-next", "--agent", "a", "--role", "worker")
    assert call("task", "block", "TASK-1@1", "--agent", "a", "--reason", "no key").json["status"] == "BLOCKED"
    assert call("task", "unblock", "TASK-1", "--agent", "b", "--note", "here").json["status"] == "TODO"
    released = call("task", "release", "TASK-2@1", "--agent", "a", "--after", "10m").json
    assert (released["status"], released["parked"]) == ("TODO", "later")
    assert call("task", "transfer", "TASK-3@1", "--agent", "a", "--to", "b").json["claim"] == "TASK-3@2"
    assert call("task", "claim", "TASK-4", "--transfer", "--to", "b", "--agent", "a").json["claim"] == "TASK-4@2"
    assert call("task", "claim", "TASK-1", "--agent", "b", "--lease", "2h").json["lease_seconds"] == 7200
    cancelled = call("task", "cancel", "TASK-3", "--agent", "m").json
    assert (cancelled["status"], cancelled["former_holder"], cancelled["stranded"]) == ("CANCELLED", "b", [])
    assert call("task", "reopen", "TASK-3", "--agent", "m").json["status"] == "TODO"
    assert list(call("task", "comment", "TASK-3", "--agent", "m", "--note", "so be it").json) == NOTE_KEYS
    assert call("task", "edit", "TASK-3", "--agent", "m", "--title", "new").json["title"] == "new"
    assert call("task", "depend", "add", "TASK-3", "--on", "TASK-1", "--agent", "m").json["depends_on"] == "TASK-1"
    assert call("task", "depend", "remove", "TASK-3", "--on", "TASK-1", "--agent", "m").json["depends_on"] is None
    assert call("task", "why", "TASK-2").json["reasons"][0]["code"] == "not_before"
    assert call("task", "why-idle", "--role", "worker").json["ready"] is True


def test_approve_all_answers_the_approved_and_tells_each_refusal_on_stderr(call: Command) -> None:
    for agent in ("a", "r"):
        call("task", "dispatch", "--title", agent, "--role", "worker")
        call("task", "claim-next", "--agent", agent, "--role", "worker")
    call("batch", "complete", "--review", "--agent", "a", "--ids", "TASK-1")
    call("batch", "complete", "--review", "--agent", "r", "--ids", "TASK-2")
    answer = call("task", "approve", "--all", "--agent", "r")
    assert [task["status"] for task in answer.json] == ["DONE"]
    assert [(json.loads(line)["code"], json.loads(line)["task_id"]) for line in answer.err.splitlines()] == [
        ("self_review", "TASK-2")
    ]
    assert call("task", "claim-review", "--agent", "s").json["reviewer"] == "s"
    for verb, *more in (("approve",), ("reject", "--reason", "x"), ("unblock",), ("reopen",)):
        stale = call("task", verb, "TASK-2", *more, "--agent", "s", "--expected-revision", "1")
        assert stale.error["code"] == "outdated_revision"
    rejected = call("task", "reject", "TASK-2", "--agent", "s", "--reason", "no tests").json
    assert rejected["status"] == "TODO"


# --- nothing, and refusals --------------------------------------------------------------------------------------------


def test_nothing_to_do_is_an_answer(call: Command) -> None:
    """IF-04: empty results are JSON, and exit 0."""
    asked = ("--agent", "a", "--role", "worker")
    assert call("task", "claim-next", *asked).json == {}
    assert call("task", "claim-next", *asked, "--wait", "1").json == {}
    assert call("task", "claim-next", *asked, "--count", "2").json == []
    assert call("task", "batch", "claim", *asked).json == []
    assert call("task", "claim-next", *asked, "--why").json["why"]["ready"] is False
    assert call("task", "claim-review", "--agent", "a").json == {}
    assert call("task", "approve", "--all", "--agent", "a").json == []
    assert call("task", "mine", "--agent", "a").json == []
    assert call("task", "search").json == []
    assert call("task", "list").json == {"tasks": [], "next": None}
    assert call("events", "list").json == []
    assert call("events", "search", "--text", "x").json == []
    assert call("plan", "lint").json == []
    assert call("project", "list").json == []
    assert call("export").out == ""
    assert call("task", "search", "--ndjson").out == ""


@pytest.fixture
def refused(call: Command) -> Iterator[Command]:
    """A board on which alice holds TASK-1@1, lost it as TASK-2@1, and TASK-3 waits for TASK-1."""
    call("task", "dispatch", "--title", "held", "--role", "worker")
    call("task", "dispatch", "--title", "lost", "--role", "worker")
    call("task", "claim", "TASK-2", "--agent", "alice")
    age(call.url, 3_600)
    call("task", "claim", "TASK-2", "--agent", "bob")
    call("task", "claim", "TASK-1", "--agent", "alice")
    call("task", "dispatch", "--title", "waits", "--role", "worker", "--depends-on", "TASK-1")
    return call


def test_each_refusal_has_its_code_and_exit_status(refused: Command) -> None:
    """IF-04: not found, bad input, held, stale, outdated: one JSON line on stderr and nothing on stdout."""
    me = ("--agent", "alice")
    for status, code, arguments in [
        (2, "not_found", ("task", "view", "TASK-99")),
        (2, "invalid_input", ("task", "view", "nope")),
        (2, "invalid_input", ("task", "mine")),
        (2, "invalid_input", ("task", "search", "--status", "BOGUS")),
        (2, "invalid_input", ("task", "list", "--limit", "-1")),
        (2, "invalid_input", ("task", "view", "TASK-1", "--notes", "-1")),
        (2, "invalid_input", ("task", "claim-next", "--role", "worker", *me, "--count", "0")),
        (2, "invalid_input", ("task", "claim-next", "--role", "worker", *me, "--wait", "-1")),
        (2, "invalid_input", ("task", "extend-lease", "TASK-1@1", *me, "--minutes", "-1")),
        (2, "invalid_input", ("task", "dispatch", "--title", " ", "--role", "worker")),
        (2, "invalid_input", ("task", "dispatch", "--title", "t", "--role", "w", "--priority", "1000")),
        (2, "invalid_input", ("task", "dispatch", "--title", "t", "--role", "w", "--not-before", "tomorrow")),
        (2, "invalid_input", ("task", "release", "TASK-1@1", *me, "--after", "soon")),
        (2, "invalid_input", ("prune", "--before", "yesterday")),
        (2, "invalid_input", ("events", "emit", "x", *me, "--payload", "{")),
        (2, "invalid_state", ("task", "approve", "TASK-1", "--agent", "r")),
        (2, "unmet_dependencies", ("task", "claim", "TASK-3", *me)),
        (2, "dependency_cycle", ("task", "depend", "add", "TASK-1", "--on", "TASK-3", *me)),
        (2, "not_found", ("plan", "lint", "no-such-file.md")),
        (2, "usage", ("task", "view")),
        (2, "usage", ("task", "view", "TASK-1", "TASK-2")),
        (2, "usage", ("task", "dispatch", "--role", "worker")),
        (2, "usage", ("task", "list", "--limit", "many")),
        (2, "usage", ("task", "list", "--bogus")),
        (2, "usage", ("task", "bogus")),
        (2, "usage", ("bogus",)),
        (2, "usage", ("--format", "xml", "status")),
        (2, "usage", ("task", "claim", "TASK-1", "--transfer", *me)),
        (2, "usage", ("task", "approve", *me)),
        (3, "held_by_another", ("task", "claim", "TASK-2", *me)),
        (3, "held_by_another", ("task", "complete", "TASK-1@1", "--agent", "bob")),
        (4, "stale_claim", ("task", "complete", "TASK-2@1", *me)),
        (4, "stale_claim", ("task", "log-progress", "TASK-2@1", *me, "--note", "still here")),
        (4, "outdated_revision", ("task", "edit", "TASK-1", *me, "--title", "t", "--expected-revision", "1")),
    ]:
        answer = refused(*arguments, "--json") if arguments[0] != "--format" else refused(*arguments)
        assert (answer.status, answer.error["code"]) == (status, code), (arguments, answer)


def test_a_place_without_a_usable_board_is_exit_6_and_stays_as_it_is(here: Command, tmp_path: Path) -> None:
    """IF-04: no board, foreign file, migration pending, made by a newer version."""
    empty = tmp_path / "empty"
    empty.mkdir()
    nowhere = Command("", empty)
    del nowhere.environment["COORDINATE_DB"]
    for arguments in (("status",), ("task", "search"), ("db", "where"), ("db", "current"), ("export",)):
        answer = nowhere(*arguments)
        assert (answer.status, answer.error["code"]) == (6, "no_board")
    assert list(empty.iterdir()) == []
    assert here("status", "--db", str(tmp_path / "none" / "x.db")).error["code"] == "no_board"
    assert not (tmp_path / "none").exists()

    (tmp_path / "text.db").write_text("no database at all, but a text of some length\n" * 50)
    answer = here("status", "--db", str(tmp_path / "text.db"))
    assert (answer.status, answer.error["code"]) == (6, "not_a_board")
    old = str(tmp_path / "old.db")
    assert here("db", "upgrade", "0001", "--db", old).json["after"] == "0001"
    answer = here("task", "search", "--db", old)
    assert (answer.status, answer.error["code"]) == (6, "schema_behind")
    assert "coordinate db upgrade" in answer.error["hint"]
    run_sql(here.url, "UPDATE coordinate_version SET version_num = '9999'")
    answer = here("task", "search")
    assert (answer.status, answer.error["code"]) == (6, "schema_ahead")


def test_a_locked_board_is_busy_and_exit_5(here: Command) -> None:
    """IF-04: locked; nothing is changed and the caller may try again."""
    with closing(sqlite3.connect(here.url, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = here("task", "dispatch", "--title", "t", "--role", "r", COORDINATE_BUSY_SECONDS="0.1")
        assert (answer.status, answer.error["code"]) == (5, "busy")
        assert here("task", "search", COORDINATE_BUSY_SECONDS="0.1").json == []


def test_an_unreachable_server_is_exit_5(tmp_path: Path) -> None:
    answer = Command("postgresql://nobody@127.0.0.1:1/none", tmp_path)("status")
    assert (answer.status, answer.error["code"]) == (5, "unreachable")


# --- flags ------------------------------------------------------------------------------------------------------------


def test_flags_take_true_and_false_and_texts_that_look_like_them_stay_texts(here: Command) -> None:
    me = ("--agent", "a", "--role", "worker")
    here("task", "dispatch", "--title", "one", "--role", "worker")
    here("task", "dispatch", "--title", "two", "--role", "worker", "--depends-on", "TASK-1")
    assert here("task", "claim-next", *me, "--respect-deps=true").json["id"] == "TASK-1"
    nothing = here("task", "claim-next", *me, "--respect-deps").json
    assert nothing == {"holding": ["TASK-1@1"]}, "nothing to do, and what is held already"
    assert here("task", "claim-next", *me, "--respect-deps=false").json["id"] == "TASK-2"
    here("task", "log-progress", "TASK-2", "--agent", "a", "--note", "--review=false")
    assert here("task", "view", "TASK-2").json["notes"][0]["content"] == "--review=false"
    assert here("task", "complete", "TASK-1@1", "--agent", "a", "--review=false").json["status"] == "DONE"
    assert here("task", "complete", "TASK-2@1", "--agent", "a", "--review=true").json["status"] == "IN_REVIEW"


def test_global_options_may_stand_anywhere_and_the_last_one_wins(here: Command, tmp_path: Path) -> None:
    here("task", "dispatch", "--title", "one", "--role", "worker")
    for arguments in (
        ("--agent", "a", "--json", "task", "claim", "TASK-1"),
        ("task", "--agent", "a", "release", "--format", "json", "TASK-1@1"),
        ("--agent", "x", "task", "claim", "TASK-1", "--agent", "a"),
    ):
        assert here(*arguments, "--db", here.url, COORDINATE_DB="/nowhere.db").json["id"] == "TASK-1"
    assert [task["claim"] for task in here("task", "mine", COORDINATE_AGENT="a").json] == ["TASK-1@2"]
    assert here("task", "search", "--agent", "nobody", COORDINATE_AGENT="a").json == []
    assert here("--format", "table", "task", "stats", "--json").json["total_tasks"] == 1
    assert here("task", "cancel", "TASK-1", "--agent", "a", COORDINATE_FORMAT="xml").error["code"] == "usage"
    assert here("task", "view", "TASK-1").json["task"]["status"] == "IN_PROGRESS"


def test_what_would_be_left_unheard_is_refused_and_changes_nothing(here: Command) -> None:
    here("task", "dispatch", "--title", "one", "--role", "worker")
    me = ("--agent", "a")
    assert here("task", "claim", "TASK-1", "--to", "b", *me).error["code"] == "usage"
    before = here("task", "claim", "TASK-1", "--lease", "60", *me).json
    for length in (("--minutes", "-5"), ("--minutes", "0", "--lease", "60")):
        assert "--minutes" in here("task", "extend-lease", "TASK-1@1", *length, *me).error["error"]
    assert here("task", "view", "TASK-1").json["task"]["revision"] == before["revision"]
    here("task", "complete", "TASK-1@1", "--review", *me)
    for words in (("--all", "--note", "well done"), ("TASK-1", "--project", "api")):
        assert here("task", "approve", *words, "--agent", "b").error["code"] == "usage"
    assert here("task", "view", "TASK-1").json["task"]["status"] == "IN_REVIEW"


def test_what_a_shell_takes_in_is_a_text_whatever_format_the_environment_asks_for(here: Command) -> None:
    for words in (("agent", "register", "a", "--id-only"), ("skill", "view", "worker")):
        assert here(*words, COORDINATE_FORMAT="json").out[0] != "{"
        assert here(*words, "--json").out[0] == "{"


def test_an_empty_filter_is_as_good_as_none(here: Command) -> None:
    here("task", "dispatch", "--title", "one", "--role", "worker", "--project", "", "--depends-on", "")
    assert (
        here("task", "search", "--project", "", "--status", "", "--role", "", "--agent", "").json[0]["id"] == "TASK-1"
    )
    assert here("task", "claim-next", "--agent", "a", "--role", "worker", "--project", "").json["id"] == "TASK-1"


def test_texts_come_from_files_and_from_stdin(here: Command, tmp_path: Path) -> None:
    (tmp_path / "body.md").write_text("line one\nzwölf ✓\n", encoding="utf-8")
    made = here("task", "dispatch", "--title", "t", "--role", "w", "--body-file", "body.md").json
    assert made["body"] == "line one\nzwölf ✓\n"
    here("task", "claim", "TASK-1", "--agent", "a")
    done = here("task", "complete", "TASK-1@1", "--agent", "a", "--result-file", "-", stdin="fertig ✓").json
    assert done["result"] == "fertig ✓"
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    dispatch = ("task", "dispatch", "--title", "t", "--role", "w")
    assert here(*dispatch, "--body-file", "latin.txt").error["code"] == "invalid_input"
    assert here(*dispatch, "--body-file", "none.txt").error["code"] == "not_found"
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(1 << 40)  # a hole: nothing of it lies on the disk
    assert "longer than" in here("plan", "lint", "huge").error["error"]
    assert here(*dispatch, "--body-file", "body.md", "--body", "x").error["code"] == "usage"


def test_a_retry_with_a_dedup_key_answers_the_same_task(call: Command) -> None:
    wanted = (
        "task",
        "dispatch",
        "--title",
        "t",
        "--role",
        "w",
        "--dedup-key",
        "k",
        "--scope",
        "src/**",
        "--scope",
        "a",
    )
    first = call(*wanted).json
    assert call(*wanted).json == {**first, "already": True}
    assert [scope["pattern"] for scope in call("task", "view", "TASK-1").json["scopes"]] == ["a", "src/**"]


def test_long_lists_have_pages_and_lines(call: Command) -> None:
    for title in "abc":
        call("task", "dispatch", "--title", title, "--role", "worker")
    page = call("task", "list", "--limit", "2").json
    assert [task["title"] for task in page["tasks"]] == ["a", "b"]
    rest = call("task", "list", "--limit", "2", "--after", page["next"]).json
    assert ([task["title"] for task in rest["tasks"]], rest["next"]) == (["c"], None)
    found = call("task", "search", "--limit", "2")
    assert len(found.json) == 2
    assert json.loads(found.err)["next"] == page["next"]
    lines = call("task", "list", "--ndjson", "--text", "B").out.splitlines()
    assert [json.loads(line)["title"] for line in lines] == ["b"]
    exported = [json.loads(line) for line in call("export").out.splitlines()]
    assert [each["task"]["id"] for each in exported] == ["TASK-1", "TASK-2", "TASK-3"]
    assert list(exported[0]) == ["task", "notes", "history", "attempts", "scopes"]


def test_a_plan_is_checked_and_dispatched_whole(call: Command, tmp_path: Path) -> None:
    plan = tmp_path / "plan.md"
    plan.write_text("# Plan\n## Build [p10] [key:build]\ndo it\n## Test [after:build] [role:tester]\n")
    assert call("plan", "lint", "plan.md", "--json").json == []
    made = call("plan", "dispatch", "plan.md", "--project", "api").json
    assert [(task["title"], task["depends_on"], task["project"]) for task in made] == [
        ("Build", None, "api"), ("Test", "TASK-1", "api")
    ]  # fmt: skip
    wrong = '[{"title": "a", "key": "a", "depends_on": ["b"]}, {"title": "b", "key": "b", "depends_on": ["a"]}]'
    answer = call("plan", "lint", "-", stdin=wrong)
    assert answer.status == 2
    assert {issue["severity"] for issue in json.loads(answer.out)} == {"error"}
    assert set(json.loads(answer.out)[0]) == {"task_id", "severity", "message", "line"}
    assert call("plan", "dispatch", "-", stdin=wrong).error["code"] == "invalid_input"
    assert call("task", "stats").json["total_tasks"] == 2


def test_consumers_read_the_log_by_cursor(call: Command) -> None:
    assert call("events", "next", "--consumer", "ci").json["events"] == []
    assert call("events", "next", "--consumer", "ci", "--wait", "1").status == 8
    call("task", "dispatch", "--title", "t", "--role", "w")
    call("events", "emit", "build.failed", "--agent", "a", "--message", "main is red", "--payload", '{"build": 7}')
    batch = call("events", "next", "--consumer", "ci", "--wait", "5").json
    assert [event["event"] for event in batch["events"]] == ["task.created", "build.failed"]
    assert call("events", "next", "--consumer", "ci").json["redelivered"] == 2
    assert call("events", "ack", str(batch["delivered"]), "--consumer", "ci").json["acknowledged"] == batch["delivered"]
    assert call("events", "next", "--consumer", "ci").json["events"] == []
    assert call("events", "ack", "999999", "--consumer", "ci").error["code"] == "invalid_input"
    (found,) = call("events", "search", "--text", "MAIN").json
    assert found["payload"] == {"build": 7}


# --- the database group -----------------------------------------------------------------------------------------------


def test_the_db_group_makes_and_describes_a_board(db_url: str, tmp_path: Path) -> None:
    call = Command(db_url, tmp_path)
    assert call("status").status == 6
    assert call("db", "upgrade").json["before"] is None
    assert call("db", "upgrade").json["backup"] is None
    current = call("db", "current").json
    assert (current["revisions"], current["at_head"]) == ([current["known"]], True)
    assert call("db", "check").json == {"differences": []}
    assert call("db", "where").json["named_by"] == "$COORDINATE_DB"
    assert [each["revision"] for each in call("db", "history").json][:2] == ["0001", "0002"]
    assert "CREATE TABLE tasks" in call("db", "sql").out
    assert "CREATE TABLE tasks" in json.loads(call("db", "sql", "--json").out)["sql"]
    assert call("db", "ini").out.startswith("[alembic]\n")
    assert call("db", "downgrade", "0001").json["after"] == "0001"
    assert call("db", "downgrade", "bogus").status == 2


# --- help -------------------------------------------------------------------------------------------------------------


def _commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        yield (*path, name)
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from _commands(found, (*path, name))


def test_every_command_has_help_and_takes_the_global_options() -> None:
    for path in _commands(root):
        answer = CliRunner().invoke(root, [*path, "--help"], prog_name="coordinate")
        assert (answer.exit_code, answer.stderr) == (0, ""), path
        assert answer.stdout.isascii(), path
        assert not any(
            line.startswith("   ")
            for line in answer.stdout.partition("Options:")[0].splitlines()
            if "coordinate " not in line
        ), path
        assert ("--json" in answer.stdout) is (path not in FOR_A_HARNESS), path
        asks_for_board = path[0] not in ("skill", "completion", "version") and path not in NO_BOARD
        assert ("--db" in answer.stdout) is asks_for_board, path


def test_what_means_nothing_to_a_command_is_taken_and_not_shown(here: Command) -> None:
    shown = here("demo", "--help").out
    assert "An empty place to play in" in shown
    assert "--session" not in shown
    for words in (("version",), ("completion", "bash"), ("skill", "list"), ("skill", "view", "worker")):
        assert "--agent" not in here(*words, "--help").out
        assert here(*words, "--agent", "a", "--db", "/nowhere/x.db").status == 0


def test_an_option_with_one_value_is_given_once(here: Command) -> None:
    """The last one would win unseen: a second role, a second board."""
    here("task", "dispatch", "--title", "t", "--role", "a")
    for arguments in (
        ("task", "claim-next", "--role", "a", "--role", "b", "--agent", "x"),
        ("task", "claim-next", "--role", "a", "--agent", "x", "--agent", "x"),
        ("--agent", "x", "--agent", "y", "task", "mine"),
        ("lock", "run", "l", "--ttl", "5", "--ttl", "6", "--", "true"),
    ):
        refused = here(*arguments)
        assert (refused.status, refused.error["code"]) == (2, "usage"), arguments
        assert "given twice" in refused.error["error"]
    assert here("task", "stats").json["by_status"] == {"TODO": 1}
    scopes = ("--scope", "a", "--scope", "b")
    assert here("task", "dispatch", "--title", "t", "--role", "a", *scopes, "--body", "--role", "--json").status == 0


def test_a_mistyped_command_is_told_the_one_that_was_meant(here: Command) -> None:
    for typed, meant in [
        (("task", "clam"), "coordinate task claim"),
        (("taks",), "coordinate task"),
        (("claim-next",), "coordinate task claim-next"),
        (("task", "status"), "coordinate status"),
        (("task", "create"), "coordinate task dispatch"),
        (("done",), "coordinate task complete"),
    ]:
        assert f"did you mean `{meant}`?" in here(*typed).error["error"], typed
    assert "did you mean" not in here("zzz").error["error"]
    assert "Usage: coordinate task claim" in here("task", "claim", "-h").out
    assert here("lock", "run", "x", "ls", "-h").error["code"] == "usage"


def test_every_refusal_says_what_to_do_next(here: Command) -> None:
    here("task", "dispatch", "--title", "t", "--role", "w", "--not-before", "2090-01-01T00:00:00Z")
    for arguments, hint in [
        (("task", "view", "nope"), ""),
        (("task", "dispatch", "--title", " ", "--role", "w"), ""),
        (("task", "list", "--limit", "-1"), ""),
        (("task", "extend-lease", "TASK-1@1", "--agent", "a", "--lease", "soon"), ""),
        (("plan", "lint", "--format", "xml"), "coordinate plan lint --help"),
        (("completion",), "coordinate completion --help"),
        (("task", "mine", "--db"), "coordinate task mine --help"),
        (("task", "mine", "--json=banana"), "coordinate task mine --help"),
        (("task", "claim-next", "--role"), "coordinate task claim-next --help"),
        (("task", "--db"), "coordinate task --help"),
        (("task", "claim", "TASK-1", "--agent", "a"), "coordinate task edit TASK-1 --clear-not-before"),
        (("status", "--db", "./none.db"), f"coordinate db upgrade --db {here.folder}/none.db"),
    ]:
        error = here(*arguments).error
        assert error["hint"], arguments
        assert hint in error["hint"], arguments
        assert "\n" not in error["error"]


def test_words_are_taken_in_any_case_and_a_text_to_search_for_without_its_flag(here: Command) -> None:
    here("task", "dispatch", "--title", "the parser", "--role", "w")
    assert here("task", "list", "--status", "todo").json["tasks"][0]["id"] == "TASK-1"
    assert here("task", "search", "PARSER", "--status", "todo").json == here("task", "search", "--text", "parser").json
    assert here("events", "search", "task-1").json == here("events", "search", "--text", "TASK-1").json != []
    assert here("task", "search", "a", "--text", "b").error["code"] == "usage"
    assert here("events", "search").error["code"] == "usage"


def test_batches_take_their_tasks_as_arguments_too(call: Command) -> None:
    for title in "ab":
        call("task", "dispatch", "--title", title, "--role", "w")
    both = ("TASK-1", "--ids", "TASK-2")
    assert call("batch", "set-priority", *both, "--priority", "3").json == {"updated": 2, "priority": 3}
    assert call("batch", "set-project", "TASK-1", "TASK-7", "TASK-8", "--project", "p").json == {
        "updated": 1, "project": "p", "missing": ["TASK-7", "TASK-8"]
    }  # fmt: skip
    call("batch", "claim", "--role", "w", "--count", "2", "--agent", "a")
    assert [task["id"] for task in call("batch", "complete", *both, "--agent", "a").json["completed"]] == [
        "TASK-1", "TASK-2"
    ]  # fmt: skip
    assert call("batch", "complete", "--agent", "a").error["code"] == "usage"


def test_a_plan_is_linted_against_the_board_and_all_that_is_wrong_is_told_with_its_line(call: Command) -> None:
    call("task", "dispatch", "--title", "there", "--role", "w")
    call("task", "dispatch", "--title", "gone", "--role", "w")
    call("task", "cancel", "TASK-2", "--agent", "a")
    plan = "## One [after:TASK-1,TASK-2]\n\n## Two [after:TASK-77]\n## Two\n"
    answer = call("plan", "lint", "-", stdin=plan)
    assert answer.status == 2
    told = [(issue["line"], issue["severity"], issue["message"]) for issue in json.loads(answer.out)]
    assert [(line, severity) for line, severity, _ in told] == [(1, "error"), (3, "error"), (4, "warn")]
    assert "TASK-2, which is CANCELLED" in told[0][2]
    assert "TASK-77, which does not exist" in told[1][2]

    wrong = '[{"title": "a", "colour": 1},\n{"title": "b", "depends_on": ["nobody"]},\n{"title": "c", "priority": -1}]'
    answer = call("plan", "lint", "-", stdin=wrong)
    assert answer.status == 2
    assert [issue["line"] for issue in json.loads(answer.out)] == [1, 2, 3]
    assert "the keys are title, role, priority" in json.loads(answer.out)[0]["message"]
    alone = call("plan", "lint", "-", stdin=plan, COORDINATE_DB="/nowhere/x.db")
    assert alone.status == 0
    assert "not looked up" in json.loads(alone.err)["warning"]


def test_a_consumer_keeps_its_place_and_is_rewound_on_demand(call: Command) -> None:
    for title in "ab":
        call("task", "dispatch", "--title", title, "--role", "w")
    new = call("events", "next", "--consumer", "ci", "--from-start")
    assert (len(new.json["events"]), new.err) == (2, "")
    call("events", "ack", str(new.json["delivered"]), "--consumer", "ci")
    old = call("events", "next", "--consumer", "ci", "--from-start")
    assert old.json["events"] == []
    assert "kept its place" in json.loads(old.err)["warning"]
    assert call("events", "rewind", "--consumer", "ci", "--to", "0").json["acknowledged"] == 0
    assert len(call("events", "next", "--consumer", "ci").json["events"]) == 2
    assert call("events", "rewind", "--consumer", "ci", "--to", "99999").error["code"] == "invalid_input"


NO_BOARD = (("db", "history"), ("db", "ini"))
# What they print is for a program that reads one format.
FOR_A_HARNESS = tuple(("harness", name) for name in ("session-start", "prompt-submit", "stop"))


def test_the_root_teaches_the_first_three_commands(here: Command) -> None:
    answer = here()
    assert answer.status == 0
    assert answer.out == here("--help").out
    for line in ("coordinate init", "coordinate task dispatch", "coordinate task claim-next"):
        assert line in answer.out


def test_the_public_names_are_listed() -> None:
    import coordinate

    assert {"connect", "Coordinator", "errors", "records"} <= set(dir(coordinate))


def test_version_and_completion(here: Command) -> None:
    from coordinate import __version__

    assert here("--version").out == f"coordinate {__version__}\n"
    assert here("version").json == {"version": __version__}
    for shell in ("bash", "zsh", "fish"):
        assert "_COORDINATE_COMPLETE" in here("completion", shell).out
    offered = here(COMP_WORDS="coordinate task cl", COMP_CWORD="2", _COORDINATE_COMPLETE="bash_complete").out
    assert [line.partition(",")[2] for line in offered.splitlines()] == ["claim-next", "claim", "claim-review"]


# --- what is out of all bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "setting", "busy"),
    [
        ("status", f"busy_seconds = {'9' * 400}", ""),
        ("status", f"busy_seconds = 0x{'f' * 5_000}", ""),
        ("status", "busy_seconds = nan", ""),
        ("status", f"db = 0x{'f' * 5_000}", ""),
        ("webhook list", f"[webhooks.a]\nurl='http://h/'\nsecret_file='key'\ngive_up_seconds=0x{'f' * 5_000}", ""),
        ("status", "", "9" * 5_000),
        ("status", "", "nan"),
        ("events tail --consumer x --exec a'b", "", ""),
        ("events tail --interval 0", "", ""),
        ("events tail --interval 49ms", "", ""),
        ("serve --rate nan", "", ""),
        ("serve --rate 1e400", "", ""),
        ("db upgrade @", "", ""),
        ("db downgrade @", "", ""),
        ("db sql ::", "", ""),
    ],
)
def test_a_value_that_is_out_of_all_bounds_is_bad_input(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    setting: str,
    busy: str,
) -> None:
    """On the command line, in the settings, in the environment."""
    (tmp_path / ".coordinate").mkdir(mode=0o700)
    (tmp_path / ".coordinate" / "config.toml").write_text(setting)
    (tmp_path / ".coordinate" / "key").write_text("whsec_" + "A" * 40)
    (tmp_path / ".coordinate" / "key").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COORDINATE_DB", raising=False)
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", busy)
    assert __main__._perform(words.split()) == 2
    said = capsys.readouterr().err
    assert json.loads(said)["code"] in ("invalid_input", "usage")
    assert len(said) < 500
    assert not list(tmp_path.rglob("*.db"))
