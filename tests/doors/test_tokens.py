"""Tokens: who they let in, for how long, and that nobody can read one back."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import coordinate
from coordinate import Coordinator, errors
from tests.clock import age
from tests.doors.command import Command
from tests.tables import rows


def test_a_token_is_one_agent_in_one_role_and_its_secret_is_kept_nowhere(board: Coordinator, board_url: str) -> None:
    made = board.create_token(name="bob", role="worker", label="laptop")
    assert (made.token.agent, made.token.kind, made.token.role, made.token.created_by) == (
        "bob",
        "agent",
        "worker",
        "alice",
    )
    found = board.authenticate(secret=made.secret)
    assert (found.id, found.agent, found.role) == (made.token.id, "bob", "worker")
    everything = [rows(board_url, f"SELECT * FROM {table}") for table in ("tokens", "events", "history")]
    assert made.secret.removeprefix("coordinate_") not in repr(everything)
    assert [each.event for each in board.list_events()] == ["token.created"]
    assert made.secret not in repr(board.list_tokens())


@pytest.mark.parametrize("wrong", ["", "x", "coordinate_", "\0", "\ud800", "x" * 10_000])
def test_what_was_never_a_secret_lets_nobody_in(board: Coordinator, wrong: str) -> None:
    board.create_token(name="bob", role="worker")
    with pytest.raises(errors.NotAuthenticated):
        board.authenticate(secret=wrong)


def test_a_revoked_token_is_over_at_once_and_an_expired_one_by_itself(board: Coordinator, board_url: str) -> None:
    forever = board.create_token(name="bob", role="worker")
    an_hour = board.create_token(name="bob", role="worker", ttl_seconds=3600)
    age(board_url, 3601)
    assert board.authenticate(secret=forever.secret).last_used_at is None
    with pytest.raises(errors.NotAuthenticated):
        board.authenticate(secret=an_hour.secret)
    assert board.anybody_may_enter()
    revoked = board.revoke_token(token=forever.token.id)
    assert board.revoke_token(token=forever.token.id).revoked_at == revoked.revoked_at
    with pytest.raises(errors.NotAuthenticated):
        board.authenticate(secret=forever.secret)
    assert not board.anybody_may_enter()
    assert [each.event for each in board.list_events(event_type="token.revoked")] == ["token.revoked"]
    with pytest.raises(errors.NotFound):
        board.revoke_token(token=99)


def test_the_last_use_is_noted_once_a_minute(board: Coordinator, board_url: str) -> None:
    secret = board.create_token(name="bob", role="worker").secret
    board.authenticate(secret=secret)
    first = board.list_tokens()[0].last_used_at
    board.authenticate(secret=secret)
    assert board.list_tokens()[0].last_used_at == first is not None
    age(board_url, 61)
    board.authenticate(secret=secret)
    assert board.list_tokens()[0].last_used_at > first  # type: ignore[operator]


@pytest.mark.parametrize("engine", ["sqlite"], indirect=True)
def test_whoever_shows_a_token_gets_in_while_somebody_has_the_write_lock(
    engine: str, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Guard: that the use is noted is not worth the wait; all pages and readers of a server would stand still."""
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "3000")
    got: list[str] = []
    with coordinate.connect(board_url, agent="alice") as c:
        secret = c.create_token(name="bob", role="worker").secret
        with closing(sqlite3.connect(board_url, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            client = threading.Thread(target=lambda: got.append(c.authenticate(secret=secret).agent))
            client.start()
            client.join(20)
            told = list(got)
            other.execute("ROLLBACK")
        client.join()
    assert told == ["bob"]


def test_a_name_is_an_agent_or_a_human_and_never_both(board: Coordinator) -> None:
    board.create_token(name="bob", role="worker")
    board.create_token(name="hugo", role="human")
    for name, role in (("bob", "human"), ("bob", "admin"), ("hugo", "worker")):
        with pytest.raises(errors.InvalidInput):
            board.create_token(name=name, role=role)
    assert board.create_token(name="hugo", role="admin").token.kind == "human"
    assert [each.id for each in board.list_tokens(limit=2)] == [3, 2]
    assert [each.id for each in board.list_tokens(before=2)] == [1]


def test_the_command_makes_lists_and_revokes(board_url: str, tmp_path: Path) -> None:
    command = Command(board_url, tmp_path, COORDINATE_AGENT="ada")
    made = command("token", "create", "bob", "--role", "worker", "--ttl", "30d").json
    assert made["secret"].startswith("coordinate_")
    assert made["token"]["expires_at"] is not None
    assert [each["agent"] for each in command("token", "list").json] == ["bob"]
    assert command("token", "revoke", "1").json["revoked_at"] is not None
    assert command("token", "revoke", "2").error["code"] == "not_found"
