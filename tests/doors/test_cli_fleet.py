"""Agents, sessions, scopes, locks, counters, replay, sweep from outside: each command's answer, refusal and status."""

from __future__ import annotations

import json
import signal
import sqlite3
import time
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import coordinate
from tests.clock import age
from tests.doors.command import Answer, Command, has_its_board
from tests.doors.test_cli_running import lives, until

SESSION_KEYS = {
    *("id", "agent", "host", "pid", "project", "stream", "doing", "detail", "ttl_seconds"),
    *("started_at", "heartbeat_at", "last_call_at", "ended_at", "end_reason", "live"),
}
LEASE_KEYS = {
    *("id", "kind", "project", "resource", "mode", "agent", "session_id", "task_id", "worktree_id", "fence", "depth"),
    *("ttl_seconds", "acquired_at", "expires_at", "released_at", "release_reason"),
}
CONFLICT_KEYS = {"pattern", "held", "mode", "holder", "session", "task_id", "since", "until", "ends"}


@pytest.fixture
def call(board_url: str, tmp_path: Path) -> Command:
    """Calls of alice without a session."""
    return Command(board_url, tmp_path, COORDINATE_AGENT="alice")


@pytest.fixture
def bob(board_url: str, tmp_path: Path) -> Command:
    """Calls of bob without a session."""
    return Command(board_url, tmp_path, COORDINATE_AGENT="bob")


def in_session(call: Command, name: str = "alice", **environment: str) -> Command:
    """The same board, in a fresh session of an agent; the session alone says the name."""
    begun = call("agent", "register", name, "--id-only")
    assert begun.status == 0, begun
    return Command(call.url, call.folder, COORDINATE_SESSION=begun.out.strip(), **environment)


def status_and_code(answer: Answer) -> tuple[int, Any]:
    return answer.status, answer.error["code"]


def fences(answer: Answer) -> list[int]:
    return [lease["fence"] for lease in answer.json["leases"]]


def warnings(answer: Answer) -> list[dict[str, Any]]:
    return [json.loads(line) for line in answer.err.splitlines()]


# --- agents and sessions ----------------------------------------------------------------------------------------------


def test_a_session_begins_and_is_continued_by_calls_that_show_it(call: Command) -> None:
    begun = call(
        *("agent", "register", "carol", "--kind", "human", "--role", "boss", "--project", "api"),
        *("--doing", "looking", "--stream", "main", "--ttl", "1h"),
    ).json
    assert begun.keys() == SESSION_KEYS
    assert (begun["agent"], begun["doing"], begun["ttl_seconds"], begun["live"]) == ("carol", "looking", 3600, True)
    session = {"COORDINATE_SESSION": begun["id"], "COORDINATE_AGENT": ""}
    assert call("agent", "doing", "the parser", "--detail", "grammar stands", **session).json["doing"] == "the parser"
    beat = call("agent", "heartbeat", **session).json
    assert (beat["id"], beat["doing"], beat["detail"]) == (begun["id"], "the parser", "grammar stands")
    assert call("agent", "doing", "--session", begun["id"], COORDINATE_AGENT="").json["doing"] == "the parser"
    ended = call("agent", "end", **session).json
    assert (ended["live"], ended["end_reason"]) == (False, "ended")
    assert call("agent", "end", **session).json["ended_at"] == ended["ended_at"]
    assert status_and_code(call("agent", "heartbeat", **session)) == (2, "invalid_state")
    assert status_and_code(call("task", "mine", **session)) == (2, "invalid_state")


def test_register_takes_a_name_from_the_call_or_makes_one(call: Command) -> None:
    assert call("agent", "register").json["agent"] == "alice"
    made = {call("agent", "register", COORDINATE_AGENT="").json["agent"] for _ in range(2)}
    assert len(made) == 2
    bare = call("agent", "register", "dora", "--id-only")
    assert bare.out.startswith("s-") and bare.out.count("\n") == 1
    # In a shell that has a session already, another one begins.
    again = call("agent", "register", "dora", "--id-only", COORDINATE_SESSION=bare.out.strip())
    assert again.status == 0 and again.out != bare.out
    assert status_and_code(call("agent", "register", "system")) == (2, "invalid_input")
    assert status_and_code(call("agent", "register", "eve", "--ttl", "5")) == (2, "invalid_input")


def test_a_session_says_its_agents_name_and_bears_no_other(call: Command) -> None:
    alice = in_session(call)
    assert alice("lease", "claim", "src").json["leases"][0]["agent"] == "alice"
    refused = alice("lease", "claim", "docs", "--agent", "bob")
    assert status_and_code(refused) == (2, "invalid_input")
    assert "alice" in refused.error["error"]
    assert status_and_code(call("task", "mine", COORDINATE_SESSION="s-nobody")) == (2, "not_found")
    for words in (("heartbeat",), ("doing", "x"), ("end",), ("lost",)):
        assert status_and_code(call("agent", *words)) == (2, "not_found"), words


def test_agents_and_sessions_are_listed_live_or_stale(call: Command) -> None:
    alice, other = in_session(call), in_session(call)
    in_session(call, "bob")
    age(call.url, 700)
    assert alice("agent", "heartbeat").status == 0
    found = call("agent", "list").json
    assert [(agent["name"], agent["live_sessions"]) for agent in found] == [("alice", 1), ("bob", 0)]
    assert [agent["name"] for agent in call("agent", "list", "--after", "alice", "--limit", "1").json] == ["bob"]
    other("agent", "end")
    assert len(call("agent", "sessions", "--of", "alice").json) == 1
    of_alice = call("agent", "sessions", "--of", "alice", "--ended", "--project", "default").json
    assert sorted(session["live"] for session in of_alice) == [False, True]
    assert call("agent", "sessions", "--limit", "1").json[0]["id"] == alice.environment["COORDINATE_SESSION"]
    assert status_and_code(call("agent", "list", "--limit", "0")) == (2, "invalid_input")
    assert "LIVE_SESSIONS" in call("agent", "list", "--format", "table").out


def test_two_sessions_of_one_name_are_two_holders(call: Command) -> None:
    """QL-23: the second gets an identity of its own, and its end does not free what the first holds."""
    first, second = in_session(call), in_session(call)
    assert first("lease", "claim", "src").status == 0
    assert second("lease", "claim", "src/api.py").status == 3
    assert second("lock", "acquire", "deploy").status == 0
    second("agent", "end")
    assert [lease["resource"] for lease in call("lease", "list").json] == ["src"]
    assert call("lock", "list").json == []


def test_a_hold_outlives_its_process_and_is_its_sessions_alone(call: Command) -> None:
    """Statement 7: a later process of the session holds and renews it; another session of the same agent is refused."""
    first, other = in_session(call), in_session(call)
    claimed = first("lease", "claim", "src", "--ttl", "100").json["leases"][0]
    lock = first("lock", "acquire", "deploy", "--ttl", "1h").json
    age(call.url, 60)
    assert first("lease", "check", "src/a.py").json["granted"]
    assert first("lease", "list").json[0]["expires_at"] > claimed["expires_at"]
    assert first("lock", "acquire", "deploy").json["depth"] == 2
    for words in (("lease", "claim", "src/a.py"), ("lock", "acquire", "deploy"), ("lock", "release", "deploy")):
        assert other(*words).status == 3, words
    for words in (("lease", "renew", "--fence", str(claimed["fence"])), ("lock", "release", "deploy", "--fence", "9")):
        assert other(*words).status in (2, 3), words
    assert other("lease", "release", "src").json == []
    (renewed,) = first("lease", "renew", "--fence", str(claimed["fence"])).json
    assert (renewed["fence"], renewed["session_id"]) == (claimed["fence"], lock["session_id"])
    assert [lease["resource"] for lease in first("lease", "release", "src").json] == ["src"]


# --- signs of life, renewals, losses ----------------------------------------------------------------------------------


def test_a_call_of_a_session_renews_what_it_holds_and_one_without_renews_nothing(call: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src", "--ttl", "100")
    call("lease", "claim", "docs", "--ttl", "100")

    def left() -> dict[str, str]:
        return {lease["resource"]: lease["expires_at"] for lease in call("lease", "list").json}

    age(call.url, 60)
    before = left()
    call("task", "list")
    assert left() == before
    assert alice("task", "list").err == ""
    after = left()
    assert after["src"] > before["src"] and after["docs"] == before["docs"]


def test_what_a_session_lost_is_told_once_beside_the_answer_of_its_next_call(call: Command, bob: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src/api", "--ttl", "60")
    alice("task", "dispatch", "--title", "t", "--role", "w")
    alice("task", "claim", "TASK-1", "--lease", "60")
    age(call.url, 120)
    assert bob("lease", "claim", "src").json["granted"]
    assert bob("task", "claim-next", "--role", "w").json["claim"] == "TASK-1@2"
    told = alice("status")
    assert told.status == 0 and json.loads(told.out)
    (warning,) = warnings(told)
    assert warning["warning"]
    assert [lease["resource"] for lease in warning["lost"]["leases"]] == ["src/api"]
    assert warning["lost"]["leases"][0].keys() == LEASE_KEYS
    assert warning["lost"]["claims"] == ["TASK-1@1"]
    assert alice("status").err == ""
    assert alice("agent", "lost").json == {"leases": [], "claims": []}
    again = alice("agent", "lost", "--all").json
    assert ([lease["resource"] for lease in again["leases"]], again["claims"]) == (["src/api"], ["TASK-1@1"])


def test_what_was_lost_is_told_also_when_the_call_is_refused(call: Command, bob: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src", "--ttl", "60")
    age(call.url, 120)
    bob("lease", "claim", "src")
    refused = alice("task", "view", "TASK-99")
    first, second = warnings(refused)
    assert (refused.status, second["code"]) == (2, "not_found")
    assert [lease["resource"] for lease in first["lost"]["leases"]] == ["src"]


def test_a_session_is_told_of_a_lease_whose_time_ended_though_nobody_took_it(call: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src", "--ttl", "60")
    age(call.url, 120)
    (warning,) = warnings(alice("status"))
    assert [lease["resource"] for lease in warning["lost"]["leases"]] == ["src"]
    assert alice("lease", "list").json == []


def test_agent_lost_answers_what_was_lost_and_says_it_once(call: Command, bob: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src", "--ttl", "60")
    age(call.url, 120)
    bob("lease", "claim", "src")
    told = alice("agent", "lost")
    assert ([lease["resource"] for lease in told.json["leases"]], told.err) == (["src"], "")
    assert alice("agent", "lost").json == {"leases": [], "claims": []}


def test_a_swept_session_comes_back_and_is_told_what_it_lost(call: Command) -> None:
    alice = in_session(call)
    alice("lease", "claim", "src", "--ttl", "2h")
    alice("lock", "acquire", "deploy", "--ttl", "2h")
    age(call.url, 700)
    swept = call("sweep").json
    assert swept["sessions"] == [alice.environment["COORDINATE_SESSION"]]
    assert sorted(lease["release_reason"] for lease in swept["leases"]) == ["swept", "swept"]
    assert (swept["tasks"], swept["more"]) == ([], False)
    again = call("sweep", "--limit", "1").json
    assert again == {"sessions": [], "leases": [], "tasks": [], "asks": [], "more": False}
    (warning,) = warnings(alice("agent", "doing", "again"))
    assert {lease["resource"] for lease in warning["lost"]["leases"]} == {"src", "deploy"}
    assert alice("agent", "heartbeat").json["live"] is True
    assert status_and_code(call("sweep", "--limit", "0")) == (2, "invalid_input")


# --- scopes -----------------------------------------------------------------------------------------------------------


def test_scopes_are_claimed_all_or_none_and_a_conflict_is_an_answer_with_exit_3(call: Command, bob: Command) -> None:
    taken = call("lease", "claim", "./src//api/", "docs/*.md").json
    assert taken.keys() == {"granted", "leases", "conflicts", "more"}
    assert [lease["resource"] for lease in taken["leases"]] == ["src/api", "docs/*.md"]
    assert taken["leases"][0].keys() == LEASE_KEYS
    refused = bob("lease", "claim", "tests", "src/api/users.py")
    assert (refused.status, refused.err) == (3, "")
    answer = json.loads(refused.out)
    assert (answer["granted"], answer["leases"]) == (False, [])
    (conflict,) = answer["conflicts"]
    assert conflict.keys() == CONFLICT_KEYS
    assert (conflict["pattern"], conflict["held"], conflict["holder"]) == ("src/api/users.py", "src/api", "alice")
    assert conflict["since"] < conflict["until"]
    assert bob("lease", "list", "--of", "bob").json == []
    assert status_and_code(bob("lease", "claim", "../x")) == (2, "invalid_input")
    assert status_and_code(bob("lease", "claim")) == (2, "usage")
    assert status_and_code(bob("lease", "claim", "tests", COORDINATE_AGENT="")) == (2, "invalid_input")
    assert bob("lease", "claim", "src", "--project", "other").json["granted"]


def test_shared_scopes_go_together_and_with_no_exclusive_one(call: Command, bob: Command) -> None:
    assert call("lease", "claim", "docs", "--mode", "shared").json["granted"]
    assert bob("lease", "claim", "docs/a.md", "--mode", "shared").json["granted"]
    assert bob("lease", "claim", "docs").status == 3
    assert bob("lease", "check", "docs").status == 3
    assert bob("lease", "check", "docs", "--mode", "shared").status == 0


def test_check_claims_nothing_and_knows_its_own(call: Command, bob: Command) -> None:
    alice = in_session(call)
    (fence,) = fences(alice("lease", "claim", "src"))
    own = alice("lease", "check", "src/a.py").json
    assert (own["granted"], [lease["fence"] for lease in own["leases"]]) == (True, [fence])
    assert call("lease", "check", "src/a.py").status == 3
    assert call("lease", "check", "src/a.py", "--fence", str(fence)).json["granted"]
    assert bob("lease", "check", "docs").json == {"granted": True, "leases": [], "conflicts": [], "more": 0}
    assert len(call("lease", "list").json) == 1


def test_a_scope_bound_to_a_task_ends_with_its_hold(call: Command, bob: Command) -> None:
    call("task", "dispatch", "--title", "t", "--role", "w")
    call("task", "claim", "TASK-1")
    assert call("lease", "claim", "src", "--task", "TASK-1@1").json["leases"][0]["task_id"] == "TASK-1"
    assert [lease["resource"] for lease in call("lease", "list", "--task", "TASK-1").json] == ["src"]
    assert json.loads(bob("lease", "check", "src").out)["conflicts"][0]["task_id"] == "TASK-1"
    assert status_and_code(bob("lease", "claim", "docs", "--task", "TASK-1@1")) == (4, "stale_claim")
    call("task", "complete", "TASK-1@1")
    assert call("lease", "list").json == []


def test_a_task_that_declares_scopes_is_claimed_with_them(call: Command, bob: Command) -> None:
    call("task", "dispatch", "--title", "api", "--role", "w", "--scope", "src/api/**")
    call("task", "dispatch", "--title", "docs", "--role", "w")
    (fence,) = fences(bob("lease", "claim", "src/api/users.py"))
    assert call("task", "claim-next", "--role", "w").json["id"] == "TASK-2"
    refused = call("task", "claim", "TASK-1")
    assert (refused.status, refused.error["holder"]) == (3, "bob")
    assert "bob" in json.dumps(call("task", "why", "TASK-1").json)
    bob("lease", "release", "--fence", str(fence))
    assert call("task", "claim-next", "--role", "w").json["id"] == "TASK-1"
    assert bob("lease", "check", "src/api/x").status == 3


def test_leases_are_renewed_and_released_by_what_proves_them(call: Command, bob: Command) -> None:
    first, second = fences(call("lease", "claim", "src", "docs", "--ttl", "60"))
    longer = call("lease", "renew", "--fence", str(first), "--ttl", "2h").json
    assert [lease["resource"] for lease in longer] == ["src"]
    assert status_and_code(bob("lease", "renew", "--fence", str(first))) == (3, "held_by_another")
    assert status_and_code(call("lease", "renew")) == (2, "invalid_input")
    assert status_and_code(call("lease", "renew", "--fence", "999")) == (2, "not_found")
    age(call.url, 120)
    assert status_and_code(call("lease", "renew", "--fence", str(second))) == (4, "stale_claim")
    # Never everything by accident, and nothing by path without a session.
    assert status_and_code(call("lease", "release")) == (2, "invalid_input")
    assert status_and_code(call("lease", "release", "src")) == (2, "not_found")
    assert status_and_code(bob("lease", "release", "--fence", str(first))) == (3, "held_by_another")
    assert [lease["release_reason"] for lease in call("lease", "release", "--fence", str(first)).json] == ["released"]
    assert call("lease", "release", "--fence", str(first)).json == []
    history = call("lease", "list", "--ended").json
    assert {lease["fence"] for lease in history} >= {first}
    assert call("lease", "list", "--ended", "--before", str(history[-1]["id"])).json == []


def test_a_session_releases_its_own_by_path_or_all(call: Command) -> None:
    alice, other = in_session(call), in_session(call)
    alice("lease", "claim", "src", "docs", "tests")
    other("lease", "claim", "bin")
    assert [lease["resource"] for lease in alice("lease", "release", "./src/", "bin").json] == ["src"]
    assert {lease["resource"] for lease in alice("lease", "release", "--all").json} == {"docs", "tests"}
    assert [lease["resource"] for lease in call("lease", "list").json] == ["bin"]


# --- locks ------------------------------------------------------------------------------------------------------------


def test_a_lock_has_one_holder_and_a_refusal_names_it(call: Command, bob: Command) -> None:
    held = call("lock", "acquire", "integrate", "--ttl", "5m").json
    assert held.keys() == LEASE_KEYS
    refused = bob("lock", "acquire", "integrate", "--wait", "1s")
    assert status_and_code(refused) == (3, "held_by_another")
    assert (refused.error["holder"], refused.error["until"] > held["acquired_at"]) == ("alice", True)
    assert "1 s of waiting are over" in refused.error["error"]
    waited = bob("lease", "claim", "src", "--wait", "1s")
    assert waited.json["granted"]
    assert bob("lock", "acquire", "deploy").status == 0
    assert bob("lock", "acquire", "integrate", "--project", "other").status == 0
    assert [lock["resource"] for lock in call("lock", "list", "--of", "alice").json] == ["integrate"]
    fence = str(held["fence"])
    assert status_and_code(bob("lock", "release", "integrate", "--fence", fence)) == (3, "held_by_another")
    assert call("lock", "release", "integrate", "--fence", fence).json["release_reason"] == "released"
    assert status_and_code(call("lock", "release", "integrate", "--fence", fence)) == (4, "stale_claim")
    assert status_and_code(call("lock", "release", "nothing")) == (2, "not_found")


def test_a_lock_whose_time_is_over_is_taken_with_a_higher_fence(call: Command, bob: Command) -> None:
    first = call("lock", "acquire", "integrate").json["fence"]
    age(call.url, 61)
    second = bob("lock", "acquire", "integrate").json["fence"]
    assert second > first
    for verb in ("release", "renew"):
        assert status_and_code(call("lock", verb, "integrate", "--fence", str(first))) == (4, "stale_claim")
    assert bob("lock", "renew", "integrate", "--fence", str(second), "--ttl", "10m").json["fence"] == second


def test_a_lock_nests_in_a_session_and_not_without_one(call: Command) -> None:
    alice = in_session(call)
    assert [alice("lock", "acquire", "deploy").json["depth"] for _ in range(2)] == [1, 2]
    assert alice("lock", "release", "deploy").json["depth"] == 1
    assert status_and_code(call("lock", "acquire", "deploy")) == (3, "held_by_another")
    assert alice("lock", "release", "deploy").json["release_reason"] == "released"
    call("lock", "acquire", "deploy")
    assert call("lock", "acquire", "deploy").status == 3
    assert status_and_code(call("lock", "release", "deploy")) == (3, "held_by_another")


def test_lock_run_holds_renews_and_gives_back(call: Command, bob: Command) -> None:
    script = "echo $COORDINATE_FENCE; echo err >&2; while [ ! -e finish ]; do sleep 0.1; done; exit 7"
    running = call.started("lock", "run", "integrate", "--ttl", "6", "--", "sh", "-c", script)
    with coordinate.connect(call.url) as board:
        until(board.list_leases)
        (first,) = board.list_leases()
        until(lambda: board.list_leases()[0].expires_at > first.expires_at)
    assert bob("lock", "acquire", "integrate").status == 3
    (call.folder / "finish").touch()
    out, err = running.communicate(timeout=60)
    (before,) = call("lock", "list", "--ended").json
    assert (running.returncode, out, err) == (7, f"{before['fence']}\n", "err\n")
    assert before["release_reason"] == "released"
    assert status_and_code(call("lock", "run", "x", "--", "no-such-command")) == (2, "not_found")
    assert call("lock", "list").json == []
    bob("lock", "acquire", "integrate")
    waited = call("lock", "run", "integrate", "--wait", "1", "--", "touch", "started")
    assert status_and_code(waited) == (3, "held_by_another")
    assert not (call.folder / "started").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_lock_run_hands_signals_on_and_gives_the_lock_back(call: Command, number: signal.Signals) -> None:
    script = "trap 'exit 11' TERM; trap 'exit 12' INT; trap 'exit 13' HUP; echo > started; while :; do sleep 0.1; done"
    running = call.started("lock", "run", "integrate", "--", "sh", "-c", script)
    until((call.folder / "started").exists)
    running.send_signal(number)
    running.communicate(timeout=60)
    assert running.returncode == {signal.SIGTERM: 11, signal.SIGINT: 12, signal.SIGHUP: 13}[number]
    assert call("lock", "list").json == []


def test_a_signal_after_the_command_does_not_keep_the_lock(sqlite_template: Path, tmp_path: Path) -> None:
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    call = Command(str(board), tmp_path, COORDINATE_AGENT="alice")
    script = "echo $$ > pid; mv pid started; while [ ! -e finish ]; do sleep 0.05; done"
    running = call.started("lock", "run", "integrate", "--", "sh", "-c", script)
    until((tmp_path / "started").exists)
    with closing(sqlite3.connect(board, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")  # the end of the lock has to wait
        (tmp_path / "finish").touch()
        until(lambda: not lives(int((tmp_path / "started").read_text())))
        time.sleep(0.2)
        running.send_signal(signal.SIGTERM)
        time.sleep(0.1)
    running.communicate(timeout=60)
    assert (running.returncode, call("lock", "list").json) == (0, [])


def test_lock_run_stops_its_command_when_the_lock_is_lost(call: Command, bob: Command) -> None:
    script = "trap 'echo > stopped; exit 0' TERM; echo > started; while :; do sleep 0.1; done"
    running = call.started("lock", "run", "integrate", "--ttl", "3", "--", "sh", "-c", script)
    until((call.folder / "started").exists)
    age(call.url, 10)
    assert bob("lock", "acquire", "integrate").status == 0
    _, err = running.communicate(timeout=60)
    assert (running.returncode, json.loads(err.splitlines()[-1])["code"]) == (4, "stale_claim")
    assert (call.folder / "stopped").exists()
    assert [lock["agent"] for lock in call("lock", "list").json] == ["bob"]


def test_lock_run_says_that_the_lock_was_lost_before_its_command_ended(call: Command, bob: Command) -> None:
    running = call.started("lock", "run", "integrate", "--", "sh", "-c", "echo > started; sleep 4")
    until((call.folder / "started").exists)
    age(call.url, 100)
    assert bob("lock", "acquire", "integrate").status == 0
    _, err = running.communicate(timeout=60)
    assert (running.returncode, json.loads(err)["code"]) == (4, "stale_claim")


def test_a_session_of_short_time_lives_while_what_it_holds_for_long_is_kept(call: Command) -> None:
    """Each third of the session's own time is a sign of life, however long the claim or the lock lasts."""
    call("task", "dispatch", "--title", "t", "--role", "w")
    with coordinate.connect(call.url) as board:
        ids = [board.register(name=name, ttl_seconds=10).id for name in ("alice", "bob", "carol")]
        claimer, locker = (Command(call.url, call.folder, COORDINATE_SESSION=session) for session in ids[:2])
        claimer("task", "claim", "TASK-1", "--lease", "1h")

        def beats() -> dict[str, datetime]:
            return {session.id: session.heartbeat_at for session in board.list_sessions()}

        with coordinate.connect(call.url, session=ids[2]) as carol, carol.lock("carols", ttl_seconds=3600):
            script = "echo > $0; while [ ! -e finish ]; do sleep 0.1; done"
            running = [
                claimer.started("run", "TASK-1@1", "--", "sh", "-c", script, "claimed"),
                locker.started("lock", "run", "bobs", "--ttl", "1h", "--", "sh", "-c", script, "locked"),
            ]
            try:
                until(lambda: all((call.folder / name).exists() for name in ("claimed", "locked")))
                before = beats()
                until(lambda: all(beats()[session] > before[session] for session in ids))
            finally:
                (call.folder / "finish").touch()
                for child in running:
                    child.communicate(timeout=60)
    assert [child.returncode for child in running] == [0, 0]


# --- counters, replay -------------------------------------------------------------------------------------------------


def test_a_counter_mints_each_number_once_above_its_floor(call: Command) -> None:
    assert call("counter", "next", "ADR").json == {"kind": "ADR", "value": 1, "values": [1]}
    assert call("counter", "next", "ADR", "--floor", "41", "--count", "3").json["values"] == [42, 43, 44]
    assert call("counter", "next", "ADR", "--floor", "7").json["value"] == 45
    assert call("counter", "next", "ADR", "--project", "other").json["value"] == 1
    for words in (("ADR", "--count", "0"), ("ADR", "--floor", "-1"), ("",)):
        assert status_and_code(call("counter", "next", *words)) == (2, "invalid_input"), words


def test_replay_notes_each_event_once(call: Command) -> None:
    assert call("replay", "mark", "main", "4f2a", "77c1").json == {"stream": "main", "new": ["4f2a", "77c1"]}
    assert call("replay", "mark", "main", "77c1", "99ee").json["new"] == ["99ee"]
    found = call("replay", "show", "main", "--after", "4f2a", "--limit", "1").json
    assert [each["event_key"] for each in found] == ["77c1"] and found[0].keys() == {"event_key", "applied_at"}
    assert call("replay", "show", "other").json == []
    assert status_and_code(call("replay", "mark", "main")) == (2, "usage")


# --- learnings --------------------------------------------------------------------------------------------------------


def test_what_others_said_comes_along_once_a_few_at_a_time_with_the_size_of_the_rest(
    call: Command, bob: Command
) -> None:
    call("task", "dispatch", "--title", "t", "--role", "w")
    bob("events", "emit", "learned", "--message", "before alice asked")
    claimed = call("task", "claim-next", "--role", "w", "--with-events").json
    # A newcomer starts at the head.
    assert (claimed["claim"], claimed["events"]) == ("TASK-1@1", {"events": [], "more": 0, "gap": None})
    for number in range(7):
        bob("events", "emit", "learned", "--message", f"no {number}", "--ref", "src")
    call("events", "emit", "learned", "--message", "her own")
    bob("events", "emit", "build.passed")  # no message: nothing said
    first = call("task", "log-progress", "TASK-1@1", "--note", "n", "--with-events").json["events"]
    assert ([event["message"] for event in first["events"]], first["more"]) == ([f"no {n}" for n in range(5)], 2)
    assert first["events"][0]["agent"] == "bob"
    second = call("task", "extend-lease", "TASK-1@1", "--with-events").json["events"]
    assert ([event["message"] for event in second["events"]], second["more"]) == (["no 5", "no 6"], 0)
    assert call("task", "complete", "TASK-1@1", "--with-events").json["events"]["events"] == []
    assert "events" not in call("task", "view", "TASK-1").json


def test_each_session_has_its_own_learnings_and_every_claim_takes_the_flag(call: Command, bob: Command) -> None:
    alice, other = in_session(call), in_session(call)
    bob("events", "emit", "learned", "--message", "the cache lies")  # before they ever asked
    heard = alice("lease", "claim", "src", "--with-events").json
    assert heard["granted"] and [event["message"] for event in heard["events"]["events"]] == ["the cache lies"]
    # Nothing to do, and yet something to hear.
    idle = other("task", "claim-next", "--role", "w", "--with-events").json
    assert idle.keys() == {"events"} and len(idle["events"]["events"]) == 1
    call("task", "dispatch", "--title", "t", "--role", "w")
    verbs = [
        ("claim", "TASK-1"),
        ("block", "TASK-1@1", "--reason", "r"),
        ("claim", "TASK-1"),
        ("release", "TASK-1@2"),
        ("claim", "TASK-1"),
        ("transfer", "TASK-1@3", "--to", "bob"),
    ]
    for words in verbs:
        call("task", "unblock", "TASK-1")  # where it is blocked
        assert "events" in alice("task", *words, "--with-events").json, words
    refused = alice("task", "claim-next", "--role", "w", "--count", "2", "--with-events")
    assert status_and_code(refused) == (2, "usage")
    assert alice("task", "mine").json == []


# --- the doors themselves ---------------------------------------------------------------------------------------------


def test_an_acquire_that_is_interrupted_while_it_waits_holds_nothing(call: Command, bob: Command) -> None:
    bob("lock", "acquire", "integrate", "--ttl", "1h")
    waiting = call.started("lock", "acquire", "integrate", "--wait", "60")
    until(lambda: has_its_board(waiting))
    waiting.send_signal(signal.SIGTERM)
    out, err = waiting.communicate(timeout=60)
    assert (waiting.returncode, out, err) == (143, "", "")
    assert [lock["agent"] for lock in call("lock", "list").json] == ["bob"]


def test_what_a_table_shows_of_leases_is_who_holds_what_until_when(call: Command) -> None:
    call("lease", "claim", "src")
    shown = call("lease", "list", "--format", "table").out.splitlines()
    assert len(shown) == 2
    for word in ("RESOURCE", "AGENT", "EXPIRES_AT", "FENCE"):
        assert word in shown[0]
