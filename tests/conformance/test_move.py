"""A board moves to another database and back: everything comes, nothing else does, and whoever writes is told."""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict

import coordinate
from coordinate import Coordinator, errors, service
from coordinate.cli.root import root
from coordinate.db import dialect, doctor, knowledge, migrate, move, sides
from coordinate.db.portable import kind_of
from coordinate.db.sides import TABLES, columns_of, holds
from coordinate.records import Symptom
from tests.conftest import create_board_on_postgres
from tests.postgres import Server, url_with_database, with_user
from tests.races import arena
from tests.tables import as_owner, ask, connect, is_postgres, nothing_changes, rows, run

ODD = "Größe, 長さ 🚀 'quotes' \"and\" \\N \\u0000 %s\ttab\nline\r\x0b end"
KANBAN = Path(__file__).parents[1] / "samples" / "kanban" / "written-by-HEAD.db"
# Until when something is held, or may be answered: these get the time back.
HELD = {
    ("tasks", "lease_until"),
    ("tasks", "parked_until"),
    ("tasks", "review_until"),
    ("leases", "expires_at"),
    ("sessions", "heartbeat_at"),
    ("asks", "taken_until"),
    ("asks", "expires_at"),
}
# What somebody named by the clock on the wall stays: when to begin, when to be reminded, when a secret ends.
NAMED = {("tasks", "not_before"), ("asks", "snoozed_until"), ("tokens", "expires_at")}
# When something happened stays as well.
HAPPENED = {
    *("acknowledged_at", "acquired_at", "applied_at", "archived_at", "closed_at", "created_at", "ended_at"),
    *("finished_at", "first_at", "handled_at", "last_at", "last_call_at", "last_used_at", "outcome_at", "released_at"),
    *("removed_at", "revoked_at", "seen_at", "started_at", "told_at", "updated_at"),
}


@pytest.fixture(autouse=True)
def password(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that a board tells has no secret in it: whoever follows it has the password elsewhere."""
    if secret := conninfo_to_dict(postgres.url).get("password"):
        monkeypatch.setenv("PGPASSWORD", str(secret))


@pytest.fixture
def third_url(engine: str, postgres: Server, tmp_path: Path) -> Iterator[str]:
    """An empty place on the same engine as the board."""
    if engine == "sqlite":
        yield str(tmp_path / "it's third.db")
        return
    with postgres.schema() as url:
        yield url


@pytest.fixture
def lived(board_url: str, engine: str) -> str:
    """A board on which a bit of everything has happened."""
    with coordinate.connect(board_url, agent="alice") as c:
        c.set_project_defaults(name="Ünïcode", lease_seconds=1_800)
        session = c.register(name="alice", host="h", pid=7).id
        first = c.dispatch(title="Größe 長さ 🚀", body=ODD, role="worker", project="Ünïcode", dedup_key="once").task
        second = c.dispatch(title="Waits", role="worker", depends_on=[first.id]).task
        scoped = c.dispatch(title="Scoped", role="scoped", scopes=["src/größe/**"]).task
        third = c.dispatch(title="Held", role="held").task
        c.dispatch(title="Later", role="worker", not_before=datetime(2090, 1, 1, tzinfo=UTC))
        done = c.claim_task(task=first.id)
        c.log_progress(handle=done, note=ODD)
        c.complete(handle=done, result=ODD)
        c.claim_task(task=third.id, lease_seconds=600, session=session)
        c.claim_task(task=scoped.id, agent="bob")
        c.open_worktree(task=scoped.id, branch="b", root="/wt", agent="bob")
        c.complete(handle=c.claim_task(task=second.id), review=True)
        c.acquire_lock(name="deploy", ttl_seconds=500, session=session)
        c.counter_next(kind="item", floor=41)
        c.emit(event_type="learned", payload={"text": ODD, "n": [1, 2.5, None, True]}, message=ODD, ttl_seconds=None)
        c.mark_applied(stream="s", event_keys=["k"])
        c.next_events(consumer="reader", from_start=True, limit=5)
        c.ack(consumer="reader", position=3)
    return as_owner(board_url)


def told(url: str, *, but: set[tuple[str, str]] = frozenset()) -> dict[str, list[Any]]:  # type: ignore[assignment]
    """Every row, read by the bare driver and put into one form; an event's id is its position."""
    found = {}
    with closing(connect(url)) as connection:
        for table in TABLES:
            names = [column.name for column in columns_of(table) if (table.name, column.name) not in but]
            asked = ", ".join(f"r.{name}" for name in names)
            if table.name == "events":
                asked = asked.replace("r.id", "f.position", 1) + " FROM events r JOIN event_feed f ON f.event_id = r.id"
            else:
                asked += f" FROM {table.name} r"
            cells = [
                [_plain(name, value) for name, value in zip(names, row, strict=True)]
                for row in connection.execute(f"SELECT {asked}")
            ]
            found[table.name] = sorted(cells, key=repr)
    return found


def assert_as_it_was_made(url: str) -> None:
    """Empty, and a board on which all that is numbered begins at one."""
    found = {table: cells for table, cells in told(url).items() if cells}
    assert set(found) == {"counters"}
    assert {value for _, value in found["counters"]} == {0}
    assert {"task", "fence", "events_pruned"} <= {kind for kind, _ in found["counters"]}


def assert_given_up(url: str, board: str) -> None:
    """Whoever was told of the new place early, or waits for it, is sent back, and makes no second board there."""
    for make in (False, True):
        with pytest.raises(errors.Moved, match="moved back to") as refused:
            coordinate.connect(url, agent="eve", create=make)
        assert (refused.value.exit_status, refused.value.facts["address"]) == (7, address_of(board))
    with pytest.raises(errors.Moved):
        migrate.wait_for_head(url, 0.1)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, bool):
        return int(value)
    if name in ("payload", "options") and isinstance(value, str):
        return json.loads(value)
    return value


def test_everything_moves_and_comes_back_as_it_was(lived: str, other_url: str, third_url: str) -> None:
    before = told(lived, but=HELD)
    assert all(
        before[table] for table in ("worktrees", "leases", "event_cursors", "sessions", "applied_events", "attempts")
    )
    there = move.move(lived, other_url)
    assert told(other_url, but=HELD) == before
    back = move.move(other_url, third_url)
    assert told(third_url, but=HELD) == before
    held = {table for table, _ in HELD}
    same = {name: each.checksum for name, each in there.tables.items() if name not in held}
    assert same == {name: back.tables[name].checksum for name in same}
    assert {name: each.rows for name, each in there.tables.items()} == {name: len(before[name]) for name in before}
    assert there.rows == sum(map(len, before.values()))
    assert there.bytes > 0


def test_all_numbers_go_on_above_everything_ever_used(lived: str, engine: str, other_url: str) -> None:
    """MV-04, SQ-22: gaps, pruned maxima, ids beyond 2^31; one of everything is made at the first try."""
    high = 2**31 + 5
    with coordinate.connect(lived, agent="alice") as c:
        c.comment(task="TASK-1", text="gone")
        c.counter_next(kind="item", floor=high)
        fence = c.acquire_lock(name="gone").fence
        position = c.next_events(consumer="reader", limit=500).events[-1].id
    for table in ("notes", "history", "worktrees", "leases"):
        _set_mark(lived, engine, table, high)
    run(lived, "DELETE FROM notes WHERE content = 'gone'", "UPDATE counters SET value = 3 WHERE kind = 'task'")
    newest = rows(lived, "SELECT max(number) FROM tasks")[0][0]
    move.move(lived, other_url)
    with coordinate.connect(other_url, agent="carol") as c:
        made = c.dispatch(title="new", role="new").task
        assert made.number == newest + 1, "the counter had been set back"
        claim = c.claim_task(task=made.id)
        c.comment(task=made.id, text="new")
        assert c.open_worktree(task=claim.handle, branch="n", root="/n", patterns=["other"]).worktree
        assert c.acquire_lock(name="new").fence > fence
        assert c.counter_next(kind="item") == [high + 2]
        events = c.next_events(consumer="reader", limit=500).events
        assert min(event.id for event in events if event.agent == "carol") > position
        assert len({event.id for event in events}) == len(events)
    for table, column in (("notes", "content"), ("worktrees", "branch")):
        assert rows(other_url, f"SELECT id FROM {table} WHERE {column} LIKE 'n%' AND id > {high}"), table
    assert rows(other_url, f"SELECT 1 FROM history WHERE task_id = '{made.id}' AND id <= {high}") == []


def _set_mark(url: str, engine: str, table: str, value: int) -> None:
    if engine == "sqlite":
        run(url, f"UPDATE sqlite_sequence SET seq = {value} WHERE name = '{table}'")
    else:
        run(url, f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), {value})")


def test_readers_go_on_where_they_were(lived: str, other_url: str) -> None:
    """Events in readers' futures, delivered and acknowledged apart, and the claim that a worker holds."""
    with coordinate.connect(lived, agent="alice") as c:
        expected = c.next_events(consumer="reader", limit=500).events
        held = c.mine()
    move.move(lived, other_url)
    with coordinate.connect(other_url, agent="alice") as c:
        batch = c.next_events(consumer="reader", limit=500)
        assert batch.acknowledged == 3
        assert batch.gap is None
        assert batch.events == expected
        assert [each.handle for each in c.mine()] == [each.handle for each in held]
        for each in held:
            c.complete(handle=each.handle)
        assert [event.event for event in c.next_events(consumer="reader", limit=500).events[len(expected) :]] == [
            "task.completed"
        ] * len(held)


def test_what_humans_and_others_said_and_nobody_has_read_arrives_at_the_new_place(
    board_url: str, other_url: str
) -> None:
    """Answers, open asks, boards, learnings and tokens; whoever was handed an answer finishes with it over there."""
    turn = {"next_step": "Sign it 🚀", "action_owner": "task", "impact": "no release"}
    with coordinate.connect(as_owner(board_url), agent="alice") as c:
        c.learnings(agent="bob")
        c.emit(event_type="learned", message="größe matters")
        parked = c.claim_task(task=c.dispatch(title="Which?", role="worker").task.id)
        asked = {
            "unread": c.ask(title="größe?", action_owner="task", impact="all", task=parked, blocking=True).ask.id,
            "handed": c.ask(title="長さ?", action_owner="task", impact="much", project="other").ask.id,
            "open": c.ask(title="still?", action_owner="task", impact="some").ask.id,
        }
        c.respond(ask=asked["handed"], text="first", agent="henry")
        assert [ask.id for ask in c.pending(project="other").responses] == [asked["handed"]]
        c.respond(ask=asked["unread"], text="größe 🚀", agent="henry")
        c.board_row(title="Release", label="Sign", status="blocked", **turn)
        row = c.board_get(title="Release").rows[0]
        c.respond(ask=row.turn.ask_id, kind="handled", agent="henry")
        secret = c.create_token(name="door", role="worker").secret
    move.move(as_owner(board_url), other_url)
    with coordinate.connect(other_url, agent="alice") as c:
        said = {ask.id: ask.response for ask in c.pending().responses}
        assert {name for name, ask in asked.items() if ask in said} == {"unread", "handed"}
        assert said[asked["unread"]].text == "größe 🚀"
        assert said[row.turn.ask_id].kind == "handled"
        assert c.acknowledge(ask=asked["handed"], response_seq=1, outcome="done").ask.outcome == "done"
        claim = c.claim_next(role="worker")
        assert claim.task.id == parked.task.id, "reserved for who asked"
        assert c.board_get(title="Release").rows[0].turn.ask_id == row.turn.ask_id
        assert [event.message for event in c.learnings(agent="bob").events] == ["größe matters"]
        assert c.learnings(agent="bob").events == ()
        assert c.authenticate(secret=secret).agent == "door"
        c.respond(ask=asked["open"], text="now", agent="henry")
        assert c.ask(title="next", action_owner="task", impact="some").ask.number > int(
            row.turn.ask_id.removeprefix("ASK-")
        )
        assert c.examine() == []


def test_of_every_time_it_is_decided_whether_a_move_gives_it_back() -> None:
    times = {
        (table.name, column.name)
        for table in TABLES
        for column in columns_of(table)
        if kind_of(column.type) == "instant"
    }
    assert {each for each in times if each[1] not in HAPPENED} == HELD | NAMED, "which is it?"
    assert {(table.name, column.name) for table, column in holds()} == HELD


def test_what_was_live_at_the_fence_gets_the_time_back_and_what_was_not_does_not(lived: str, other_url: str) -> None:
    asked = {"action_owner": "task", "impact": "all"}
    with coordinate.connect(lived, agent="dave") as c:
        dead = c.claim_task(task=c.dispatch(title="Dead", role="dead").task.id).task.id
        c.claim_review(agent="rita")
        taken = c.ask(title="Taken?", timeout_seconds=900, **asked).ask.id
        c.respond(ask=taken, text="yes", agent="henry")
        c.take(ask=taken)
        c.ask(title="Open?", timeout_seconds=900, task=c.dispatch(title="Open", role="open").task.id, **asked)
        parked = c.claim_task(task=c.dispatch(title="Parked", role="parked").task.id)
        answered = c.ask(title="Which?", task=parked, blocking=True, **asked).ask.id
        c.respond(ask=answered, text="this", agent="henry")
        asleep = c.ask(title="Asleep?", task=c.dispatch(title="Asleep", role="asleep").task.id, **asked).ask.id
        c.snooze(ask=asleep, until=datetime(2090, 1, 1, tzinfo=UTC), agent="henry")
        c.create_token(name="door", role="worker", ttl_seconds=900)
    run(lived, f"UPDATE tasks SET lease_until = '2001-01-01T00:00:00.000Z' WHERE id = '{dead}'")
    before = _times(lived)
    assert {place for place, values in before.items() if values} == HELD | NAMED
    report = move.move(lived, other_url)
    after = _times(other_url)
    assert report.added_seconds > 0
    moved = {
        (place, key): after[place][key] - value
        for place, values in before.items()
        for key, value in values.items()
        if after[place][key] != value
    }
    assert set(moved.values()) == {timedelta(seconds=report.added_seconds)}
    assert len(moved) == report.holds
    assert {place for place, _ in moved} == HELD
    assert (("tasks", "lease_until"), dead) not in moved
    assert (("asks", "taken_until"), taken) in moved


def _times(url: str) -> dict[tuple[str, str], dict[Any, datetime]]:
    """What is to come, or might get time back, by place and row."""
    return {
        (table, column): {
            key: value if isinstance(value, datetime) else datetime.fromisoformat(value)
            for key, value in rows(url, f"SELECT id, {column} FROM {table}")
            if value is not None
        }
        for table, column in HELD | NAMED
    }


# --- the fence --------------------------------------------------------------------------------------------------------


def test_writers_are_told_while_it_moves_and_where_it_is_afterwards(lived: str, other_url: str) -> None:
    """MV-07: exit 5 and then 7, with the address; readers read; a call that would change nothing is told as well."""
    seen: list[str] = []
    with coordinate.connect(lived, agent="alice") as c:

        def look(doing: str, *_: object) -> None:
            if not seen:
                seen.append(doing)
                _writers_are_told(c, lived, errors.Moving)

        move.move(lived, other_url, progress=look)
        assert seen
        told_of = _writers_are_told(c, lived, errors.Moved)
        assert told_of.exit_status == 7
        assert (
            told_of.facts["address"]
            == dialect.open_engine(other_url, create=False, patience=1, synchronous="FULL").address()
        )
    with coordinate.connect(lived) as c:
        assert any("has moved to" in warning for warning in c.database.warnings)
    with coordinate.connect(str(told_of.facts["address"]), agent="alice") as c:
        c.dispatch(title="goes on", role="worker")


def _writers_are_told(c: Coordinator, url: str, kind: type[errors.CoordinateError]) -> errors.CoordinateError:
    refused: list[errors.CoordinateError] = []
    with nothing_changes(url):
        for call in (
            lambda: c.dispatch(title="x", role="worker"),
            lambda: c.claim_next(role="nobody"),
            lambda: c.complete(handle="TASK-1@9"),  # stale here; where the board is, it may be current
            lambda: c.acquire_lock(name="deploy", agent="eve"),
            lambda: c.next_events(consumer="reader"),
        ):
            with pytest.raises(kind) as caught:
                call()
            refused.append(caught.value)
        assert c.view(task="TASK-1").task.body == ODD
        assert c.tail_events(after=0)[0]
        with (
            closing(connect(url)) as program_of_any_version,
            pytest.raises(Exception, match=r"this board (is moving|has moved) to"),
        ):
            program_of_any_version.execute("UPDATE tasks SET title = 'x' WHERE id = 'TASK-1'")
    return refused[0]


def test_whoever_waits_goes_on_while_it_moves_and_is_told_once_it_has(lived: str, other_url: str) -> None:
    vain: list[bool] = []
    with coordinate.connect(lived, agent="zoe") as c:
        ask = c.ask(title="Which?", action_owner="task", impact="all").ask.id
        asked: dict[str, Any] = {"title": "Which?", "action_owner": "task", "impact": "x", "agent": "yan"}
        said, over = (c.ask(**asked, timeout_seconds=60).ask.id for _ in range(2))
        c.respond(ask=said, text="this", agent="ann")
        run(lived, f"UPDATE asks SET expires_at = created_at WHERE id = '{over}'")
        head = c.tail_events()[1]
        waits: list[Callable[[], bool]] = [
            lambda: c.wait_ask(ask=ask) is None,
            lambda: c.wait_ask(ask=ask, wait=0.01) is None,
            lambda: c.wait_ask(ask=said) is None,
            lambda: c.wait_ask(ask=over) is None,
            lambda: c.wait_for(wait=0).nothing,
            lambda: c.wait_for(wait=0.01).nothing,
            lambda: c.tail_events(after=head) == ([], head),
        ]

        def look(*_: object) -> None:
            if not vain:
                vain.extend(wait() for wait in waits)

        move.move(lived, other_url, progress=look)
        assert vain == [True] * len(waits)
        for wait in waits:
            with pytest.raises(errors.Moved):
                wait()
        assert c.tail_events(after=0)[0], "what there was is read still"
        assert c.tail_events()[1] == head


def test_inside_a_callers_transaction_the_fence_speaks_too(lived: str, other_url: str) -> None:
    move.move(lived, other_url)
    with coordinate.connect(lived, agent="alice") as c, closing(connect(lived)) as raw:
        raw.execute("BEGIN")
        for call in (lambda inner: inner.dispatch(title="x", role="w"), lambda inner: inner.claim_next(role="nobody")):
            with pytest.raises(errors.Moved):
                call(c.using(raw))
        raw.execute("ROLLBACK")


def test_a_moved_board_is_not_moved_migrated_or_adopted_into_again(
    lived: str, other_url: str, third_url: str, tmp_path: Path
) -> None:
    move.move(lived, other_url)
    before = told(lived)
    with pytest.raises(errors.Moved):
        migrate.downgrade(lived, "0001")
    sample = Path(shutil.copy(KANBAN, tmp_path))
    with pytest.raises(errors.Moved):
        service.adopt(sample, lived)
    assert migrate.current(lived).at_head
    assert told(lived) == before
    with pytest.raises(errors.Moved):
        move.move(lived, third_url)
    with pytest.raises(errors.Moved):
        move.move(lived, third_url, resume=True)
    assert move.move(lived, other_url, resume=True).state == "moved", "nothing was left to do"


# --- the checks -------------------------------------------------------------------------------------------------------


def test_every_value_that_postgres_would_refuse_is_listed_and_nothing_is_written(
    tmp_path: Path, sqlite_template: Path, pg_url: str, postgres: Server
) -> None:
    """MV-01, MV-03, MV-05: the counts are those of what was planted; the other board stays empty."""
    board = tmp_path / "board.db"
    board.write_bytes(sqlite_template.read_bytes())
    with coordinate.connect(board, agent="alice") as c:
        for number in range(12):
            c.dispatch(title=f"T{number}", role="worker")
        c.emit(event_type="fine", payload={"literal": "\\u0000", "surrogates": "🚀"})
    planted = {
        ("tasks", "TASK-1", "title"): "'a' || char(0) || 'b'",
        ("tasks", "TASK-2", "revision"): "'abc'",
        ("tasks", "TASK-3", "attempt"): "9223372036854775807",
        ("tasks", "TASK-4", "scoped"): "'maybe'",
        ("tasks", "TASK-5", "body"): "CAST(x'61eda080' AS TEXT)",
        ("tasks", "TASK-6", "created_at"): "'2030-01-31 12:00:00'",
        ("tasks", "TASK-7", "not_before"): "1900000000",
        ("tasks", "TASK-8", "updated_at"): "'2030-02-30T12:00:00.000Z'",
        ("tasks", "TASK-9", "not_before"): "'2030-01-31T12:00:00+02:00'",
        ("tasks", "TASK-10", "dedup_key"): "printf('%.5000c', 'x')",
        ("tasks", "TASK-11", "result"): "x'00ff'",
        ("events", "1", "payload"): '\'{"a": "x\\u0000"}\'',
        ("events", "2", "payload"): '\'{"a": "\\ud800"}\'',
        ("events", "3", "payload"): "'[1'",
        ("events", "5", "payload"): "CAST(x'7b2261223a22ff5c7530303030227d' AS TEXT)",
        ("events", "4", "message"): "char(0)",
    }
    run(
        str(board),
        *(
            f"UPDATE {table} SET {column} = {value} WHERE id = '{row}'"
            for (table, row, column), value in planted.items()
        ),
    )
    run(
        str(board),
        "PRAGMA foreign_keys = OFF",
        "INSERT INTO notes (task_id, author, content, created_at)"
        " VALUES ('TASK-99', 'a', 'orphan', '2030-01-01T00:00:00.000Z')",
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE tasks SET priority = 5000 WHERE id = 'TASK-12'",
    )
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove) as refused:
            move.move(str(board), pg_url, dry_run=dry_run)
        assert rows(str(board), "SELECT * FROM board_move") == []
        values = refused.value.facts["values"]
        assert isinstance(values, list)
        found = [(each["table"], each["row"], each["column"]) for each in values if isinstance(each, dict)]
        orphan = ("notes", "1", "task_id")
        assert {each for each in found if each[2] != "ck_tasks_priority"} == {*planted, orphan}
        assert ("tasks", "TASK-12", "ck_tasks_priority") in found
        assert refused.value.facts["values_count"] == len(found) == len(set(found)) == len(planted) + 2
        assert rows(pg_url, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()") == [(0,)]
    with coordinate.connect(board, agent="alice") as c:
        c.dispatch(title="not fenced", role="worker")


def test_numbers_from_which_nobody_could_count_on_are_listed(lived: str, engine: str, other_url: str) -> None:
    """Also what stands in no table of ours; a user's own counter may end where it likes."""
    last = 2**63 - 1
    run(
        lived,
        f"UPDATE counters SET value = {last} WHERE kind = 'task'",
        "DELETE FROM counters WHERE kind = 'ask'",
        f"INSERT INTO counters (kind, value) VALUES ('default/mine', {last})",
        f"UPDATE notes SET id = {last} WHERE id = 1",
        f"UPDATE tasks SET revision = {last}, attempt = {2**31 - 1} WHERE id = 'TASK-5'",
    )
    expected = {
        ("counters", "task", "value"),
        ("counters", "ask", "value"),
        ("notes", str(last), "id"),
        ("tasks", "TASK-5", "revision"),
        ("tasks", "TASK-5", "attempt"),
    }
    _set_mark(lived, engine, "worktrees", last)
    if engine == "sqlite":
        run(
            lived,
            f"UPDATE events SET id = {last} WHERE id = 1",
            "UPDATE sqlite_sequence SET seq = 'abc' WHERE name = 'history'",
            f"UPDATE sqlite_sequence SET seq = {last} WHERE name = 'events'",
        )
        expected |= {("sqlite_sequence", name, "seq") for name in ("worktrees", "history", "events")}
        expected.add(("events", str(last), "id"))
    else:
        run(
            lived,
            f"UPDATE event_feed_state SET position = {last}",
            f"UPDATE event_feed SET position = {last} WHERE position = 1",
        )
        expected |= {("event_feed_state", "1", "position"), ("event_feed", str(last), "position")}
        expected.add(("worktrees_id_seq", "", "last_value"))
    for dry_run in (True, False):
        with nothing_changes(lived), pytest.raises(errors.CannotMove) as refused:
            move.move(lived, other_url, dry_run=dry_run)
        values = cast(list[dict[str, str]], refused.value.facts["values"])
        assert {(each["table"], each["row"], each["column"]) for each in values} == expected
        assert len(values) == len(expected)


def test_times_and_json_that_a_file_could_not_give_back_are_listed(
    pg_url: str, postgres_script: str | None, sqlite_url: str
) -> None:
    """MV-01, MV-05, on the way back."""
    create_board_on_postgres(pg_url, postgres_script)
    with coordinate.connect(pg_url, agent="alice") as c:
        for _ in range(3):
            c.dispatch(title="T", role="worker")
    run(
        pg_url,
        "UPDATE tasks SET created_at = '2030-01-01 00:00:00.123456Z' WHERE id = 'TASK-1'",
        "UPDATE tasks SET not_before = 'infinity' WHERE id = 'TASK-2'",
        r"""UPDATE events SET payload = '{"a": "\u0000"}' WHERE id = 1""",
        r"""UPDATE events SET payload = '{"a": "literal \\u0000"}' WHERE id = 2""",
    )
    with pytest.raises(errors.CannotMove) as refused:
        move.move(pg_url, sqlite_url)
    assert refused.value.facts["values_count"] == 3
    assert not Path(sqlite_url).exists()


def test_one_report_names_all_that_stands_in_the_way(lived: str, engine: str, other_url: str, tmp_path: Path) -> None:
    """MV-08: the other place is not empty; the rest is told with it."""
    with coordinate.connect(other_url, agent="alice", create=True) as c:
        c.dispatch(title="mine", role="worker")
    if engine == "sqlite":
        run(lived, "UPDATE tasks SET title = 'a' || char(0) WHERE id = 'TASK-1'")
    with (
        nothing_changes(lived),
        nothing_changes(other_url),
        pytest.raises(errors.CannotMove, match="not empty") as refused,
    ):
        move.move(lived, other_url)
    assert refused.value.facts["values_count"] == (1 if engine == "sqlite" else 0)
    with pytest.raises(errors.CannotMove, match="the same"):
        move.move(lived, lived)
    with pytest.raises(errors.Unreachable, match="does not answer"):
        move.move(lived, "postgresql://nobody@127.0.0.1:1/none")
    for unsayable in ("a\nb.db", "a\udce9.db"):
        with pytest.raises(errors.InvalidInput, match="cannot be told"):
            move.move(lived, str(tmp_path / unsayable))


def test_where_no_file_can_be_made_the_dry_run_says_so_too(lived: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "long").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "astray").symlink_to("/proc/x/y.db")
    for place, said in (
        (Path(os.devnull), "is no file"),
        (tmp_path / "loop", "is no file"),
        (tmp_path / "astray", "nothing can be made|may not be written"),
        (tmp_path / "file" / "x.db", "is no folder"),
        (Path("/proc/x/y.db"), "nothing can be made|may not be written"),
        (tmp_path / "long" / f"{'x' * 300}.db", "too long"),
        (tmp_path / "long" / f"{'x' * 250}.db", "too long"),
        (tmp_path / "long" / ("x" * 300) / "y.db", "too long"),
    ):
        for dry_run in (True, False):
            with nothing_changes(lived), pytest.raises(errors.CannotMove, match=said):
                move.move(lived, str(place), dry_run=dry_run)
    assert list((tmp_path / "long").iterdir()) == []
    with pytest.raises(errors.InvalidInput, match="too long"):
        move.undo(lived, str(tmp_path / ("x" * 300)))


def test_an_empty_board_is_not_moved_onto_itself_under_another_name(
    board_url: str, engine: str, tmp_path: Path, postgres: Server
) -> None:
    """Links and folders, hosts and roles: whatever leads to the same rows is the same board."""
    board_url = as_owner(board_url)
    role = f"mover_{secrets.token_hex(4)}"
    if engine == "sqlite":
        (tmp_path / "link.db").symlink_to(board_url)
        (tmp_path / "hard.db").hardlink_to(board_url)
        (tmp_path / "folder").symlink_to(tmp_path)
        others = [str(tmp_path / "link.db"), str(tmp_path / "hard.db"), str(tmp_path / "folder" / "board.db")]
    else:
        run(postgres.url, f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'pw'")
        others = [with_user(board_url, role, "pw"), f"{board_url}&application_name=other"]
    try:
        for other in others:
            with pytest.raises(errors.CannotMove, match="the same"):
                move.move(board_url, other)
            assert rows(board_url, "SELECT * FROM board_move") == []
        run(board_url, "INSERT INTO board_move VALUES (1, 'n', 'moved', '/x', '2030-01-01T00:00:00.000Z', NULL)")
        for other in others:
            for act in (
                lambda to=other: move.undo(board_url, to),
                lambda to=other: move.move(board_url, to, resume=True),
            ):
                with pytest.raises(errors.InvalidInput, match="the board itself"):
                    act()
    finally:
        if engine == "postgresql":
            run(postgres.url, f"DROP ROLE {role}")


def test_a_place_that_holds_anything_is_not_empty(lived: str, other_url: str) -> None:
    """MV-08: numbers that were minted there are somebody's, and so are tables that bear our names."""
    migrate.upgrade(other_url)
    run(other_url, "UPDATE counters SET value = 7 WHERE kind = 'task'")
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match="not empty: there are rows in counters"):
            move.move(lived, other_url, dry_run=dry_run)
    migrate.downgrade(other_url, "base")
    run(other_url, "CREATE TABLE idx_tasks_claim (id INTEGER)", "CREATE VIEW notes AS SELECT 1 AS one")
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match="idx_tasks_claim, notes in the way"):
            move.move(lived, other_url, dry_run=dry_run)
    assert rows(lived, "SELECT * FROM board_move") == []


FOREIGN = {
    "postgresql": {
        "CREATE TABLE pk_tasks (id INTEGER)": "pk_tasks",
        "CREATE SEQUENCE uq_tasks_number": "uq_tasks_number",
        "CREATE INDEX idx_tasks_claim ON pk_tasks (id)": r"idx_tasks_claim \(on pk_tasks\)",
        "CREATE VIEW coordinate_version AS SELECT 1 AS version_num": "coordinate_version",
        "CREATE TYPE asks AS ENUM ('x')": "type asks",
        "CREATE FUNCTION coordinate_number_events(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1'": (
            "function coordinate_number_events"
        ),
        "CREATE FUNCTION coordinate_fence() RETURNS integer LANGUAGE sql AS 'SELECT 1'": "function coordinate_fence",
    },
    "sqlite": {
        "CREATE TABLE IDX_tasks_claim (id INTEGER)": "idx_tasks_claim",
        "CREATE VIEW coordinate_version AS SELECT 1 AS version_num": "coordinate_version",
        "CREATE TABLE event_feed (id INTEGER)": "event_feed",
        "CREATE TRIGGER coordinate_fence_x BEFORE INSERT ON event_feed BEGIN SELECT 1; END": (
            "trigger coordinate_fence_x"
        ),
    },
}


def test_every_name_that_the_board_needs_is_looked_for_before_anything_is_fenced(lived: str, other_url: str) -> None:
    """MV-08: keys, types, functions and triggers of other programs, all in one report, as the move itself would."""
    foreign = FOREIGN["postgresql" if is_postgres(other_url) else "sqlite"]
    run(other_url, *foreign)
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match="in the way, of another program") as refused:
            move.move(lived, other_url, dry_run=dry_run)
        for named in foreign.values():
            assert re.search(rf"[ ,]{named}[ ,;]", refused.value.message + ";"), (named, refused.value.message)
        assert rows(lived, "SELECT * FROM board_move") == []


def test_a_file_where_things_have_odd_names_takes_a_board_and_keeps_them(sqlite_url: str, tmp_path: Path) -> None:
    """Another program's index is let alone; one that a DBA made on a table of the board is back in the end."""
    coordinate.connect(sqlite_url, create=True).close()
    migrate.upgrade(there := str(tmp_path / "there.db"))
    run(there, "CREATE TABLE orders (no TEXT)", 'CREATE INDEX "orders-by-no" ON orders (no)')
    run(there, 'CREATE INDEX "by hand" ON tasks (title)')
    catalog = "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"
    found = rows(there, catalog)
    run(there, 'CREATE TRIGGER "coordinate_fence_left over" BEFORE INSERT ON tasks BEGIN SELECT 1; END')
    assert move.move(sqlite_url, there).state == "moved"
    assert rows(there, catalog) == found


def test_a_place_whose_tables_others_name_is_refused_before_anything_is_closed(sqlite_url: str, pg_url: str) -> None:
    """It cannot be emptied; the program whose table that is can make its key anew when the board has moved."""
    coordinate.connect(sqlite_url, create=True).close()
    migrate.upgrade(pg_url)
    run(pg_url, 'CREATE TABLE "in voices" (task TEXT REFERENCES tasks (id))')
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match='rows of the board: "in voices"'):
            move.move(sqlite_url, pg_url, dry_run=dry_run)
    run(pg_url, 'DROP TABLE "in voices"')
    assert move.move(sqlite_url, pg_url).state == "moved"


def test_another_programs_sequence_makes_way(sqlite_url: str, pg_url: str) -> None:
    """The server names the sequence of an id otherwise where its name is taken: nothing is in the way."""
    with coordinate.connect(sqlite_url, agent="alice", create=True) as c:
        c.dispatch(title="first", role="worker")
    run(pg_url, "CREATE TABLE events_id_seq (id INTEGER)", "CREATE SEQUENCE history_id_seq")
    assert move.move(sqlite_url, pg_url, dry_run=True).state == "checked"
    assert move.move(sqlite_url, pg_url).state == "moved"
    with coordinate.connect(pg_url, agent="alice") as c:
        assert c.dispatch(title="goes on", role="worker").task.number == 2


def test_a_function_that_is_not_ours_stops_a_move_before_it_is_replaced(
    pg_url: str, postgres_script: str | None, sqlite_url: str
) -> None:
    """On a board that is left, too."""
    create_board_on_postgres(pg_url, postgres_script)
    run(pg_url, "CREATE FUNCTION coordinate_fence() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'")
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match="function coordinate_fence in the way"):
            move.move(pg_url, sqlite_url, dry_run=dry_run)
    body = "SELECT prosrc FROM pg_proc WHERE oid = to_regproc('coordinate_fence')"
    assert rows(pg_url, body) == [("BEGIN RETURN NEW; END",)]


@pytest.fixture
def odd_database(postgres: Server) -> Iterator[Callable[[str], str]]:
    """Makes databases of other encodings."""
    with closing(connect(postgres.url)) as admin:
        made: list[str] = []

        def make(encoding: str) -> str:
            name = f"odd_{secrets.token_hex(4)}"
            admin.execute(
                f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
            )
            made.append(name)
            return url_with_database(postgres.url, name)

        yield make
        for name in made:
            admin.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused_at_the_first_look(
    encoding: str, odd_database: Callable[[str], str], sqlite_url: str
) -> None:
    url = odd_database(encoding)
    migrate.upgrade(sqlite_url)
    for act in (
        lambda: coordinate.connect(url),
        lambda: coordinate.connect(url, create=True),
        lambda: migrate.upgrade(url),
        lambda: migrate.current(url),
        lambda: move.move(url, sqlite_url),
    ):
        with pytest.raises(errors.UnsupportedDatabase, match=f"encoding {encoding}"):
            act()
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match=f"encoding {encoding}"):
            move.move(sqlite_url, url, dry_run=dry_run)
    assert rows(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]


def test_what_a_dba_set_for_sessions_changes_nothing(
    odd_database: Callable[[str], str], tmp_path: Path, sqlite_template: Path
) -> None:
    """MV-05: dates in another style and zone, strings with other escapes, another encoding; there and back."""
    board = str(shutil.copy(sqlite_template, tmp_path / "board.db"))
    with coordinate.connect(board, agent="alice") as c:
        c.claim_task(task=c.dispatch(title="Größe 長さ 🚀 it's", body=ODD, role="worker").task.id)
        c.emit(event_type="learned", message=ODD, payload={"text": ODD})
    url = odd_database("UTF8")
    ((name,),) = rows(url, "SELECT current_database()")
    for setting in (
        "datestyle = 'SQL, DMY'",
        "timezone = '<+0330>-03:30'",
        "standard_conforming_strings = off",
        "client_encoding = 'LATIN1'",
        "bytea_output = 'escape'",
        "intervalstyle = 'sql_standard'",
        "default_transaction_isolation = 'serializable'",
        "default_transaction_deferrable = on",
    ):
        run(url, f"ALTER DATABASE {name} SET {setting}")
    before = told(board, but=HELD)
    move.move(board, url)
    assert migrate.check(url) == []
    assert doctor.examine(url, deep=True).symptoms == []
    with coordinate.connect(url, agent="alice") as c:
        assert c.view(task="TASK-1").task.lease_until > datetime.now(UTC)
        assert [task.id for task in c.list_tasks(query="長さ").tasks] == ["TASK-1"]
        assert c.examine() == []
    move.move(url, back := str(tmp_path / "back.db"))
    assert told(back, but=HELD) == before


def test_where_sessions_are_read_only_the_dry_run_says_so_too(
    pg_url: str, tmp_path: Path, sqlite_template: Path
) -> None:
    """No BEGIN of ours overrides what a DBA set, also when a move goes on."""
    board = str(shutil.copy(sqlite_template, tmp_path / "board.db"))
    read_only = f"{pg_url}%20-cdefault_transaction_read_only%3Don"
    for dry_run in (True, False):
        with pytest.raises(errors.CannotMove, match="default_transaction_read_only"):
            move.move(board, read_only, dry_run=dry_run)
    killed_while_it_copied(board, pg_url)
    with pytest.raises(errors.ReadOnly, match="default_transaction_read_only"):
        move.move(board, read_only, resume=True)


def test_a_dry_run_changes_nothing_and_says_that_it_could(lived: str, engine: str, other_url: str) -> None:
    with nothing_changes(lived):
        told_of = move.move(lived, other_url, dry_run=True)
    assert (told_of.state, told_of.rows) == ("checked", sum(map(len, told(lived).values())))
    assert told_of.bytes > 10_000
    assert rows(lived, "SELECT state FROM board_move") == []
    if engine == "sqlite":
        assert rows(other_url, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()") == [(0,)]
    else:
        assert not Path(other_url).exists()


def test_an_empty_place_of_an_older_schema_is_upgraded_and_one_with_rows_is_not(lived: str, other_url: str) -> None:
    """MV-08: whoever was killed while it made the new place left one whose schema is half the way."""
    migrate.upgrade(other_url, "0001")
    run(
        other_url,
        "INSERT INTO tasks (id, number, title, status, role_boundary, created_at, updated_at) VALUES"
        " ('TASK-1', 1, 't', 'TODO', 'w', '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z')",
    )
    with pytest.raises(errors.CannotMove, match="not empty: there are rows in tasks"):
        move.move(lived, other_url)
    assert migrate.current(other_url).revisions == ("0001",)
    run(other_url, "DELETE FROM tasks", "CREATE TABLE tokens (id INTEGER)")
    with pytest.raises(errors.CannotMove, match="tokens in the way"):
        move.move(lived, other_url, dry_run=True)
    run(other_url, "DROP TABLE tokens")
    assert move.move(lived, other_url, dry_run=True).state == "checked"
    assert migrate.current(other_url).revisions == ("0001",)
    before = told(lived, but=HELD)
    move.move(lived, other_url)
    assert told(other_url, but=HELD) == before
    assert migrate.check(other_url) == []


# --- what goes wrong --------------------------------------------------------------------------------------------------


def test_a_copy_that_was_tampered_with_is_noticed_and_the_board_stays(
    lived: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: the comparison reads both sides anew."""
    before = told(lived, but=HELD)
    verify = move._Ends._verify

    def tampered(ends: Any, number: str) -> None:
        if is_postgres(other_url):
            run(
                other_url,
                "ALTER TABLE notes DISABLE TRIGGER ALL",
                "UPDATE notes SET content = content || ' ' WHERE id = 1",
            )
        else:
            run(
                other_url,
                "DROP TRIGGER coordinate_fence_notes_update",
                "UPDATE notes SET content = content || ' ' WHERE id = 1",
            )
        verify(ends, number)

    monkeypatch.setattr(move._Ends, "_verify", tampered)
    with pytest.raises(errors.CopyDiffers, match=r"notes") as refused:
        move.move(lived, other_url)
    assert refused.value.exit_status == 1
    assert "stays closed" in refused.value.hint
    monkeypatch.undo()
    assert told(lived, but=HELD) == before
    assert_given_up(other_url, lived)
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="goes on", role="worker")
    assert move.move(lived, other_url).state == "moved"


def test_a_board_that_is_not_whole_is_none(lived: str, other_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads or writes a copy before the old board has said where it is."""
    looked = []

    def look(ends: Any, number: str) -> None:
        for make in (False, True):
            with pytest.raises(errors.Moving, match="not whole yet"):
                coordinate.connect(other_url, agent="eve", create=make)
        looked.append(number)
        send_on(ends, number)

    send_on = move._Ends._send_on
    monkeypatch.setattr(move._Ends, "_send_on", look)
    move.move(lived, other_url)
    assert looked


def test_whoever_asks_for_a_place_that_is_being_filled_is_told_at_once(
    lived: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Readers, writers, deployments that wait, a second mover: none hangs, and none stops the move that runs."""
    monkeypatch.setattr(sides, "FENCE_SECONDS", 0.1)
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.1")
    looked = []

    def look(doing: str, table: str, *_: object) -> None:
        if doing == "verify" or looked:
            return
        looked.append(table)
        fence = migrate.current(other_url).fence
        assert fence is not None
        assert fence["state"] == "arriving"
        with pytest.raises(errors.Moving, match="being filled from"):
            coordinate.connect(other_url, agent="eve")
        assert isinstance(migrate.wait_for_head(other_url, 0.1), errors.Moving)
        with pytest.raises(errors.Moving, match="another mover") as refused:
            move.move(lived, None, resume=True)
        assert refused.value.exit_status == 5

    assert move.move(lived, other_url, progress=look).state == "moved"
    assert looked


def test_a_move_that_is_undone_while_it_copies_leaves_the_place_closed(
    lived: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever undoes it cannot shut a place that is being filled: the mover does, once it is told."""
    monkeypatch.setattr(sides, "FENCE_SECONDS", 0.1)
    undone: list[str] = []

    def undo(doing: str, *_: object) -> None:
        if not undone:
            undone.append(move.undo(lived).state)

    with pytest.raises(errors.Moving, match="undid it"):
        move.move(lived, other_url, progress=undo)
    assert undone == ["undone"]
    assert_given_up(other_url, lived)
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="goes on", role="worker")


def test_whoever_looks_at_a_board_whose_record_is_locked_is_told(
    pg_url: str, postgres_script: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who changes or loads tables on Postgres locks readers out, and may take as long as they like."""
    create_board_on_postgres(pg_url, postgres_script)
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.1")
    with coordinate.connect(pg_url, agent="alice") as c, closing(connect(pg_url)) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE coordinate_version, tasks")
        for look in (
            lambda: migrate.current(pg_url),
            lambda: coordinate.connect(pg_url),
            c.list_tasks,
            lambda: c.dispatch(title="x", role="worker"),
            lambda: move.move(pg_url, "/nowhere"),
        ):
            with pytest.raises(errors.Busy):
                look()
        assert isinstance(migrate.wait_for_head(pg_url, 0.1), errors.Busy)


def test_undo_leads_back_while_nothing_was_written_and_not_afterwards(lived: str, other_url: str) -> None:
    before = told(lived, but=HELD)
    move.move(lived, other_url)
    with coordinate.connect(other_url, agent="alice") as c:
        c.list_tasks()  # a look is no change
        assert move.undo(lived).state == "undone"
        with pytest.raises(errors.Moved, match="moved back"):
            c.dispatch(title="x", role="worker")
    assert told(lived, but=HELD) == before
    assert move.undo(lived).already, "it was, by the one before"
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="goes on", role="worker")
    move.move(lived, other_url)
    with coordinate.connect(other_url, agent="alice") as c:
        c.dispatch(title="written", role="worker")
    with nothing_changes(other_url), pytest.raises(errors.InvalidState, match="written to since"):
        move.undo(lived)
    with coordinate.connect(other_url, agent="alice") as c:
        c.dispatch(title="still open", role="worker")


def test_a_writer_that_does_not_end_stops_the_move_and_nobody_else(
    board_url: str, engine: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-12, for a move: it gives up, names who stands in the way, and others write on."""
    monkeypatch.setattr(sides, "FENCE_SECONDS", 0.5)
    board_url = as_owner(board_url)
    with closing(connect(board_url)) as idle:
        idle.execute("BEGIN" if engine == "postgresql" else "BEGIN IMMEDIATE")
        idle.execute("UPDATE counters SET value = value WHERE kind = 'fence'")
        with pytest.raises((errors.MigrationBlocked, errors.Busy)) as refused:
            move.move(board_url, other_url)
        if engine == "postgresql":
            # Among others, as the server's own vacuum may hold a table at that moment too.
            assert str(ask(idle, "SELECT pg_backend_pid()")[0][0]) in refused.value.facts["blocked_by"]
            with coordinate.connect(board_url, agent="alice") as c:
                c.counter_next(kind="others")
                c.dispatch(title="the tables that were fenced already are open", role="worker")
            left = "FROM pg_trigger WHERE tgname = 'coordinate_fence' AND tgrelid = 'agents'::regclass"
            assert rows(board_url, f"SELECT count(*) {left}") == [(0,)]
        idle.execute("ROLLBACK")
    assert move.move(board_url, other_url).state == "moved"


def test_a_half_done_undo_is_finished_and_not_taken_for_a_move(
    lived: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The new place is closed and the old one still sends everybody there: nobody is told that it moved."""
    move.move(lived, other_url)
    with monkeypatch.context() as killed:
        killed.setattr(move._Ends, "_lift_source", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            move.undo(lived)
    with pytest.raises(errors.InvalidState, match="is being undone"):
        move.move(lived, None, resume=True)
    with pytest.raises(errors.Moved, match="has moved back"):
        move.move(other_url, lived + "x")
    assert move.undo(lived).state == "undone"
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="goes on", role="worker")


def test_states_that_contradict_each_other_are_refused(lived: str, other_url: str) -> None:
    move.move(lived, other_url)
    acts = {"resume": lambda: move.move(lived, None, resume=True), "undo": lambda: move.undo(lived)}
    for here, there, refused in (
        ("moving", "arrived", ["resume"]),
        ("moved", "arriving", ["resume"]),
        ("moved", "stayed", ["resume", "undo"]),
    ):
        run(lived, f"UPDATE board_move SET state = '{here}'")
        run(other_url, f"UPDATE board_move SET state = '{there}'")
        for act in refused:
            with pytest.raises(errors.NotABoard, match="contradict"):
                acts[act]()
        assert rows(lived, "SELECT state FROM board_move") == [(here,)]
    run(other_url, "UPDATE board_move SET state = 'arriving'")
    assert move.undo(lived).state == "undone", "what was never opened stands in nobody's way"


def test_a_state_that_this_program_does_not_know_is_refused(
    lived: str, engine: str, other_url: str, third_url: str
) -> None:
    """A newer program wrote it; on either end, and the doctor says so."""
    for url in (lived, other_url):
        migrate.upgrade(url)
        if is_postgres(url):
            run(url, "ALTER TABLE board_move DROP CONSTRAINT ck_board_move_state")
        ignored = "SELECT 1" if is_postgres(url) else "PRAGMA ignore_check_constraints = ON"
        run(url, ignored, "INSERT INTO board_move VALUES (1, 'n', 'flying', '/x', '2030-01-01T00:00:00.000Z', NULL)")
    told_of = "'flying', which this program does not know"
    for act in (
        lambda: move.move(lived, third_url),
        lambda: move.move(third_url, lived),
        lambda: move.undo(lived),
        lambda: coordinate.connect(lived),
        lambda: migrate.wait_for_head(lived, 1.0),
    ):
        migrate.upgrade(third_url)
        with pytest.raises((errors.NotABoard, errors.CannotMove), match=told_of):
            act()
    examined = doctor.examine(lived, deep=True)
    assert ("move", "fault") in [(each.kind, each.severity) for each in examined.symptoms]


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (
            "postgres://u:p%40ss@h:5/n?sslpassword=p@ss&options=-csearch_path%3Dteam",
            "postgresql://u@h:5/n?options=-csearch_path%3Dteam",
        ),
        (
            "postgresql://a,b/n?target_session_attrs=read-write&password=p@ss",
            "postgresql://a:5432,b:5432/n?target_session_attrs=read-write",
        ),
        ("postgresql:///n?host=/run/pg&user=x%20y", "postgresql://x%20y@/n?host=/run/pg&port=5432"),
        ("postgresql://h/n?hostaddr=1.2.3.4", "postgresql://h:5432/n?hostaddr=1.2.3.4"),
        ("postgresql:///n?hostaddr=1.2.3.4", "postgresql://1.2.3.4:5432/n"),
        ("postgresql://u@/?service=svc", "postgresql://u@served:7/there?options=-csearch_path%3Dours"),
    ],
)
def test_an_address_is_told_without_its_secrets_and_leads_there_by_itself(
    given: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a service adds is on the mover's machine alone; a user that it names is the mover's."""
    (tmp_path / "services").write_text(
        "[svc]\nhost=served\nport=7\ndbname=there\nuser=dba\npassword=hush\noptions=-csearch_path=ours\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert dialect.Postgres(given).address() == shown
    monkeypatch.delenv("PGSERVICEFILE")
    assert dialect.Postgres(shown).address() == shown


def test_what_the_movers_environment_says_is_told_to_those_without_it(
    sqlite_url: str, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not who the mover is there."""
    coordinate.connect(sqlite_url, create=True).close()
    for name, part in conninfo_to_dict(pg_url).items():
        monkeypatch.setenv({"dbname": "PGDATABASE"}.get(name, f"PG{name.upper()}"), str(part))
    assert move.move(sqlite_url, "postgresql://").state == "moved"
    with coordinate.connect(sqlite_url, agent="a") as c, pytest.raises(errors.Moved) as told:
        c.dispatch(title="x", role="worker")
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGOPTIONS"):
        monkeypatch.delenv(name, raising=False)
    address = str(told.value.facts["address"])
    assert "user" not in conninfo_to_dict(address)
    with coordinate.connect(address, agent="a") as c:
        assert c.dispatch(title="x", role="worker").task.id == "TASK-1"


# --- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def within_reach() -> Iterator[Path]:
    """A folder to which every user can come; pytest's own are for the caller alone."""
    with tempfile.TemporaryDirectory(prefix="move-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_in_which_nothing_may_be_written_is_told_before_anything_is_done(
    within_reach: Path, sqlite_template: Path
) -> None:
    """Either end, in one report; root may write everywhere, so another user tries."""
    here, there = within_reach / "here", within_reach / "there"
    for folder in (here, there):
        folder.mkdir()
    board = here / "board.db"
    board.write_bytes(sqlite_template.read_bytes())

    def refused(target: Path = there / "new" / "deep.db") -> list[Any]:
        with pytest.raises(errors.CannotMove) as caught:
            move.move(str(board), str(target))
        assert isinstance(caught.value.facts["problems"], list)
        return caught.value.facts["problems"]

    board.chmod(0o666)
    here.chmod(0o777)
    (made := here / "made.db").touch(0o444)
    assert arena.as_somebody(lambda: refused(made)) == [f"{made}: {made} may not be written"]
    there.chmod(0o555)
    assert arena.as_somebody(refused) == [f"{there / 'new' / 'deep.db'}: {there} may not be written"]
    board.chmod(0o444)
    assert arena.as_somebody(refused) == [
        f"{board}: {board} may not be written",
        f"{there / 'new' / 'deep.db'}: {there} may not be written",
    ]
    assert list(there.iterdir()) == []
    assert rows(str(board), "SELECT * FROM board_move") == []


def test_a_role_that_may_not_is_told_before_anything_is_done(
    lived: str, engine: str, other_url: str, postgres: Server, tmp_path: Path
) -> None:
    """PG-15: no schema to use, no right to create in it, tables that are another's: each is said, nothing is fenced."""
    on_server = lived if engine == "postgresql" else other_url
    source, target = (lived, str(tmp_path / "new.db")) if engine == "postgresql" else (lived, other_url)
    role, (home,) = f"mover_{secrets.token_hex(4)}", rows(on_server, "SELECT current_schema()")[0]
    run(postgres.url, f"CREATE ROLE {role} LOGIN PASSWORD 'pw'")

    def as_mover(url: str) -> str:
        if "search_path" not in url:  # a database of its own, met through a pooler, who comes as one role for all
            url = url_with_database(postgres.url, str(conninfo_to_dict(url)["dbname"]))
        return with_user(url, role, "pw")

    def refused() -> str:
        ends = [as_mover(url) if is_postgres(url) else url for url in (source, target)]
        with pytest.raises((errors.CannotMove, errors.PermissionDenied, errors.NoBoard)) as caught:
            move.move(ends[0], ends[1])
        return caught.value.message

    try:
        if engine == "sqlite":
            assert "no schema in its search_path" in refused()
            run(on_server, f"GRANT USAGE ON SCHEMA {home} TO {role}")
            assert f"may create nothing in schema {home}: GRANT CREATE ON SCHEMA {home}" in refused()
            migrate.upgrade(on_server)
        run(
            on_server,
            f"GRANT USAGE, CREATE ON SCHEMA {home} TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {home} TO {role}",
        )
        assert "the tables belong to" in refused()
        assert "a move is for their owner" in refused()
        assert rows(source, "SELECT * FROM board_move") == []
    finally:
        run(on_server, f"DROP OWNED BY {role}")
        run(postgres.url, f"DROP ROLE {role}")


# --- it is interrupted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("doing", "resumes"), [("copy", False), ("verify", False), ("copy", True)])
def test_ctrl_c_lifts_the_fence_and_leaves_the_other_place_closed(
    lived: str, other_url: str, doing: str, resumes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: pressed once more while that is done, too; the board may go there after all."""
    before = told(lived, but=HELD)
    if resumes:
        killed_while_it_copied(lived, other_url)

    def interrupt(what: str, *_: object) -> None:
        if what == doing:
            signal.raise_signal(signal.SIGINT)

    lift, shut = move._Ends._lift_source, move._Ends._shut_target

    def once_more(step: Callable[..., Any], *arguments: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    with monkeypatch.context() as impatient, pytest.raises(KeyboardInterrupt):
        impatient.setattr(move._Ends, "_lift_source", lambda *given: once_more(lift, *given))
        impatient.setattr(move._Ends, "_shut_target", lambda *given: once_more(shut, *given))
        move.move(lived, other_url, resume=resumes, progress=interrupt)
    assert told(lived, but=HELD) == before
    assert_given_up(other_url, lived)
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="goes on", role="worker")
    assert move.move(lived, other_url).state == "moved"


def killed_while_it_copied(url: str, target: str) -> None:
    (ended,) = arena.run([lambda go: move.move(url, target, progress=lambda *_: arena.kill_myself())])
    assert ended == arena.KILLED


def test_a_move_goes_on_only_where_it_was_begun(lived: str, other_url: str, third_url: str) -> None:
    """MV-08: whoever names another place touches nothing; who names none is led to the one that the board keeps."""
    before = told(lived, but=HELD)
    with pytest.raises(errors.InvalidState, match="no move of this board"):
        move.move(lived, None, resume=True)
    killed_while_it_copied(lived, other_url)
    recorded = rows(lived, "SELECT * FROM board_move"), rows(other_url, "SELECT * FROM board_move")
    for again in (lambda: move.move(lived, third_url, resume=True), lambda: move.undo(lived, third_url)):
        with pytest.raises(errors.InvalidInput) as refused:
            again()
        assert str(refused.value.facts["address"]) in refused.value.message
        assert (rows(lived, "SELECT * FROM board_move"), rows(other_url, "SELECT * FROM board_move")) == recorded
        assert not migrate.current(third_url, missing_ok=True).revisions
    with coordinate.connect(lived, agent="alice") as c, pytest.raises(errors.Moving):
        c.dispatch(title="the fence stays", role="worker")
    assert move.move(lived, None, resume=True).state == "moved"
    assert told(other_url, but=HELD) == before
    assert move.move(lived, None, resume=True).state == "moved", "nothing was left to do"


def test_a_new_place_is_closed_before_the_old_one_is_fenced(lived: str, other_url: str) -> None:
    """And where the mover is killed in between, the old board works, the new one does not, and both ways lead on."""

    def dies() -> None:
        move._Ends._fence_source = lambda *_: arena.kill_myself()  # type: ignore[method-assign]

    migrate.upgrade(other_url)
    for lead_on in (lambda: move.undo(lived), lambda: move.move(lived, other_url, resume=True)):
        (ended,) = arena.run([lambda go: move.move(lived, other_url)], weakness=dies)
        assert ended == arena.KILLED
        with coordinate.connect(lived, agent="alice") as c:
            c.dispatch(title="works", role="worker")
        with pytest.raises(errors.Moving), coordinate.connect(other_url, agent="alice") as c:
            c.dispatch(title="does not", role="worker")
        ended_as = lead_on()
        if ended_as.state == "undone":
            assert not ended_as.already
            assert move.undo(lived).already
            assert_given_up(other_url, lived)
    assert rows(other_url, "SELECT state FROM board_move") == [("arrived",)]


@pytest.mark.parametrize("resumes", [False, True])
def test_a_mover_that_lives_fences_nothing_once_its_move_was_undone(
    lived: str, other_url: str, resumes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: it has noted where it goes, and closed the new place, or goes on with another's; then it is undone."""
    fence = move._Ends._fence_source
    undone = []

    def late(ends: Any, number: str) -> None:
        undone.append(move.undo(lived))
        fence(ends, number)

    if resumes:
        killed_while_it_copied(lived, other_url)
    monkeypatch.setattr(move._Ends, "_fence_source", late)
    with pytest.raises(errors.Moving, match="or undid it"):
        move.move(lived, other_url, resume=resumes)
    assert [(each.state, each.already) for each in undone] == [("undone", False)]
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="works", role="worker")
    assert_given_up(other_url, lived)


@pytest.mark.parametrize("step", ["digest", "_open"])
def test_a_mover_whose_copy_another_took_back_is_told_of_that(
    lived: str, other_url: str, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: it was stopped while it compared the sides, or when only the last step was left."""
    act = getattr(move if step == "digest" else move._Ends, step)

    def late(*given: Any) -> Any:
        monkeypatch.undo()
        assert move.undo(lived, other_url).state == "undone"
        assert move.undo(lived, other_url).state == "opened"
        with coordinate.connect(lived, agent="alice") as c:
            c.dispatch(title="goes on", role="worker")
        return act(*given)

    monkeypatch.setattr(move if step == "digest" else move._Ends, step, late)
    with pytest.raises(errors.Moving, match="or undid it") as refused:
        move.move(lived, other_url)
    assert "--resume" not in refused.value.hint
    with coordinate.connect(lived, agent="alice") as c:
        c.dispatch(title="works", role="worker")


@pytest.mark.parametrize("doing", ["copy", "verify"])
def test_of_a_mover_and_one_that_resumes_beside_it_one_goes_on(
    lived: str, other_url: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: the second looked while the place was being filled, and comes to it when it is filled, or goes ahead; one
    that is interrupted while it compares lifts nothing.
    """
    before = told(lived, but=HELD)
    beside: list[str] = []
    look = move._Ends._target_row

    def as_it_was(ends: Any) -> Any:
        found = look(ends)
        return SimpleNamespace(move=found.move, state="arriving", address=found.address)

    def resumes(now: str, *_: object) -> None:
        if now != doing or beside:
            return
        beside.append("begins")
        with monkeypatch.context() as looked:
            looked.setattr(sides, "FENCE_SECONDS", 0.1)
            if doing == "verify":
                with pytest.raises(KeyboardInterrupt):
                    move.move(lived, None, resume=True, progress=lambda *_: signal.raise_signal(signal.SIGINT))
                looked.setattr(move._Ends, "_target_row", as_it_was)
            try:
                beside.append(move.move(lived, None, resume=True).state)
            except (errors.Moving, errors.Busy) as error:
                beside.append(error.code)

    assert move.move(lived, other_url, progress=resumes).state == "moved"
    assert beside == ["begins", "moving"]
    assert told(other_url, but=HELD) == before
    assert move.move(lived, None, resume=True).state == "moved"


def test_a_files_name_is_nothing_but_a_name_to_the_fence(tmp_path: Path, pg_url: str) -> None:
    odd = str(tmp_path / "it's $coordinate_fence$ $$.db")
    coordinate.connect(odd, create=True).close()
    assert move.move(odd, pg_url).state == "moved"


def test_a_place_that_a_move_left_closed_takes_its_board_again_or_is_opened_when_it_is_named(
    lived: str, other_url: str, third_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: also where the undo could not reach it; it takes no other board before."""
    killed_while_it_copied(lived, other_url)
    with monkeypatch.context() as unreachable:
        unreachable.setattr(move._Ends, "_shut_target", lambda *_: (_ for _ in ()).throw(errors.Unreachable("gone")))
        assert move.undo(lived).state == "undone"
    with coordinate.connect(third_url, agent="alice", create=True) as c:
        c.dispatch(title="another", role="worker")
    for state, ended in (("arriving", "undone"), ("withdrawn", "opened")):
        assert rows(other_url, "SELECT state FROM board_move") == [(state,)]
        with pytest.raises(errors.CannotMove, match="db move --undo --from"):
            move.move(third_url, other_url)
        with pytest.raises(errors.InvalidState, match="comes from another board"):
            move.undo(third_url, other_url)
        report = move.undo(lived, other_url)
        assert (report.state, report.already) == (ended, False)
    assert rows(other_url, "SELECT state FROM board_move") == []
    assert_as_it_was_made(other_url)
    again = move.undo(lived, other_url)
    assert (again.state, again.already, again.opens) == ("opened", True, ""), "nothing is left to be done"
    with pytest.raises(errors.InvalidState, match="left anything closed"):
        move.undo(third_url, other_url)
    assert move.move(third_url, other_url).state == "moved"


def test_a_board_may_go_to_any_place_that_its_moves_left_closed(lived: str, other_url: str, third_url: str) -> None:
    for place in (other_url, third_url):
        with pytest.raises(KeyboardInterrupt):
            move.move(lived, place, progress=lambda *_: signal.raise_signal(signal.SIGINT))
        assert_given_up(place, lived)
    assert move.move(lived, other_url).state == "moved"


def test_a_move_whose_new_place_is_gone_says_so_and_undo_opens_the_board(
    board_url: str, engine: str, odd_database: Callable[[str], str], postgres: Server, tmp_path: Path
) -> None:
    """MV-08: a file is made anew; a database is not for a move to make. Undone, or gone on with, nothing is lost."""
    board = as_owner(board_url)
    there = str(tmp_path / "new.db") if engine == "postgresql" else odd_database("UTF8")

    def goes() -> None:
        if engine == "postgresql":
            Path(there).unlink()
        else:
            run(postgres.url, f"DROP DATABASE {conninfo_to_dict(there)['dbname']}")

    with coordinate.connect(board, agent="alice") as c:
        c.dispatch(title="first", role="worker")
        killed_while_it_copied(board, there)
        goes()
        if engine == "sqlite":
            with pytest.raises(errors.InvalidState, match=r"is moving to .* that is gone") as refused:
                move.move(board, None, resume=True)
            assert "--undo" in refused.value.hint
        assert move.undo(board).state == "undone"
        c.dispatch(title="open again", role="worker")
    if engine == "sqlite":
        run(postgres.url, f"CREATE DATABASE {conninfo_to_dict(there)['dbname']} TEMPLATE template0")
    killed_while_it_copied(board, there)
    if engine == "postgresql":
        goes()
    assert move.move(board, None, resume=True).state == "moved"
    assert rows(there, "SELECT count(*) FROM tasks") == [(2,)]
    goes()
    for act in (lambda: move.move(board, None, resume=True), lambda: move.undo(board)):
        with pytest.raises(errors.InvalidState, match=r"has moved to .* that is gone"):
            act()
    assert rows(board, "SELECT state FROM board_move") == [("moved",)]


def test_a_reader_that_does_not_end_at_the_new_place_is_named(
    sqlite_url: str, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-12, for a move: filling the place and opening it lock readers out too."""
    monkeypatch.setattr(sides, "FENCE_SECONDS", 0.1)
    monkeypatch.setattr(sides, "_LOCK_SECONDS", 0.6)
    migrate.upgrade(sqlite_url)
    open_, fence = move._Ends._open, move._Ends._fence_source
    fenced: list[str] = []

    @contextmanager
    def reader() -> Iterator[None]:
        with closing(connect(pg_url)) as idle:
            idle.execute("BEGIN")
            idle.execute("SELECT * FROM counters")
            with pytest.raises(errors.MigrationBlocked, match="reader or writer does not end") as refused:
                yield
            assert str(ask(idle, "SELECT pg_backend_pid()")[0][0]) in refused.value.facts["blocked_by"]

    def opens(ends: Any, number: str) -> None:
        with reader():
            open_(ends, number)
        raise KeyboardInterrupt

    monkeypatch.setattr(move._Ends, "_fence_source", lambda ends, number: (fenced.append(number), fence(ends, number)))
    migrate.upgrade(pg_url)
    with reader():
        move.move(sqlite_url, pg_url)
    assert fenced == [], "who reads there is waited for while everybody still works here"
    assert_given_up(pg_url, sqlite_url)
    with monkeypatch.context() as late, pytest.raises(KeyboardInterrupt):
        late.setattr(move._Ends, "_open", opens)
        move.move(sqlite_url, pg_url)
    assert move.move(sqlite_url, None, resume=True).state == "moved"


def test_whoever_was_quicker_at_the_new_place_is_told_of(
    board_url: str, other_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MV-08: it was empty when it was looked at, of an older schema or at head, and stays as it is."""
    board_url = as_owner(board_url)
    close = move._Ends._close_target
    task = (
        "INSERT INTO tasks (id, number, title, status, role_boundary, created_at, updated_at) VALUES"
        " ('TASK-1', 1, 't', 'TODO', 'w', '2030-01-01T00:00:00.000Z', '2030-01-01T00:00:00.000Z')"
    )

    def late(ends: Any, *arguments: Any) -> None:
        run(other_url, task)
        close(ends, *arguments)

    monkeypatch.setattr(move._Ends, "_close_target", late)
    for revision in ("0001", knowledge.HEAD):
        migrate.upgrade(other_url, revision)
        with pytest.raises(errors.NotEmpty, match="rows in tasks"):
            move.move(board_url, other_url)
        assert migrate.current(other_url).revisions == (revision,)
        run(other_url, "DELETE FROM tasks")
    for url in (board_url, other_url):
        with coordinate.connect(url, agent="eve") as c:
            c.dispatch(title="open", role="worker")


# --- what the doctor says of it ---------------------------------------------------------------------------------------

COMMAND = re.compile(r"coordinate (db move(?: --(?:undo|resume)| --(?:from|to) (?:'[^']*'|[^\s,]+))+)")


def symptoms_of(url: str, **options: bool) -> dict[str, Symptom]:
    """Those of a move."""
    kinds = ("fence", "unfinished", "moving", "moved", "arriving", "copied", "withdrawn")
    return {each.kind: each for each in doctor.examine(url, **options).symptoms if each.kind in kinds}


def advised(*urls: str) -> list[Callable[[], str]]:
    """The commands that the doctor names there, to be run as they stand; each answers what became of the move."""
    symptoms = [(url, each) for url in urls for each in symptoms_of(url).values()]
    assert {each.severity for _, each in symptoms} <= {"warning"}, "a state is no fault"

    def run_it(url: str, command: str) -> str:
        done = CliRunner().invoke(root, shlex.split(command), env={"COORDINATE_DB": url}, catch_exceptions=False)
        return str(json.loads(done.stdout)["state"])

    return [partial(run_it, url, command) for url, each in symptoms for command in COMMAND.findall(each.hint)]


def killed_before(step: str, source: str, target: str) -> None:
    def weaken() -> None:
        if step == "raise_fence":  # the record says that it moves, and nothing stops a writer yet
            side = sides.PostgresSide if is_postgres(source) else sides.SQLiteSide
            side.raise_fence = lambda *_: arena.kill_myself()  # type: ignore[method-assign]
        else:
            setattr(move._Ends, step, lambda *_: arena.kill_myself())

    (ended,) = arena.run([lambda go: move.move(source, target)], weakness=weaken)
    assert ended == arena.KILLED


# Before which step the mover was killed; what is said here and there; how each command that is named ends, and which of
# them is run when the board is a file, and when it is on Postgres.
UNFINISHED = [
    ("_fence_source", {"unfinished": "closed"}, "arriving", ["moved", "undone", "undone"], (0, 2)),
    ("raise_fence", {"moving": "is moving", "fence": "let writers pass"}, "arriving", ["moved", "undone"] * 2, (1, 2)),
    ("_verify", {"moving": "is moving"}, "copied", ["moved", "undone"] * 2, (3, 0)),
    ("_open", {"moved": "has moved"}, "copied", ["moved", "moved"], (0, 1)),
]


@pytest.mark.parametrize(("step", "here", "there", "ends", "chosen"), UNFINISHED)
def test_the_doctor_says_what_an_unfinished_move_left_and_what_to_run(
    step: str,
    here: dict[str, str],
    there: str,
    ends: list[str],
    chosen: tuple[int, int],
    board_url: str,
    other_url: str,
) -> None:
    """MV-08: asked at either side; the commands that it names end the matter, and then it has nothing to say."""
    board_url = as_owner(board_url)
    killed_before(step, board_url, other_url)
    symptoms = symptoms_of(board_url)
    assert {kind for kind in here if here[kind] in symptoms[kind].said} == set(symptoms), symptoms
    assert set(symptoms_of(other_url)) == {there}
    commands = advised(board_url, other_url)
    assert len(commands) == len(ends)
    number = chosen[is_postgres(board_url)]
    assert commands[number]() == ends[number]
    if ends[number] == "undone":
        assert [command() for command in advised(other_url)] == ["opened"]
    assert symptoms_of(other_url) == {}
    if ends[number] == "moved":
        assert "name it with --db" in symptoms_of(board_url)["moved"].hint
        assert move.undo(board_url).state == "undone"
    run(board_url, "UPDATE board_move SET address = 'postgresql://127.0.0.1:1/none'")
    assert symptoms_of(board_url) == {}, "it need not look there any more"


def test_the_doctor_knows_a_half_done_undo_and_a_place_that_does_not_answer(
    board_url: str, other_url: str, tmp_path: Path
) -> None:
    """And a record whose other side knows nothing of it, or a fence that somebody took away."""
    board_url = as_owner(board_url)
    move.move(board_url, other_url)
    (ended,) = arena.run(
        [lambda go: move.undo(board_url)],
        weakness=lambda: setattr(move._Ends, "_lift_source", lambda *_: arena.kill_myself()),
    )
    assert ended == arena.KILLED
    for url, kind in ((board_url, "moved"), (other_url, "withdrawn")):
        assert "undo was killed" in symptoms_of(url)[kind].hint
    undo = advised(other_url)[0]
    for state, kind in (("stayed", "unfinished"), ("moved", "moved"), ("moving", "moving"), ("copied", "copied")):
        run(board_url, f"UPDATE board_move SET state = '{state}', address = 'postgresql://127.0.0.1:1/none'")
        symptoms = symptoms_of(board_url, repair=True)
        assert "does not answer" in symptoms[kind].found[0]
        if state == "stayed":  # no repair opens what may be the wrong one of two boards
            fault = symptoms["fence"]
            assert (fault.severity, fault.count, fault.repaired) == ("fault", len(sides.FENCED), 0)
        else:
            assert set(symptoms) == {kind}
    run(board_url, f"UPDATE board_move SET state = 'stayed', address = '{tmp_path / 'none.db'}'")
    assert set(symptoms_of(board_url)) == {"fence"}, "nothing is there that could have been left closed"
    run(board_url, "UPDATE board_move SET state = 'moved'")
    assert "bring it back" in symptoms_of(board_url)["moved"].hint
    run(board_url, f"UPDATE board_move SET state = 'moved', address = '{address_of(other_url)}'")
    assert undo() == "undone"
    gone = "FUNCTION coordinate_fence() CASCADE" if is_postgres(other_url) else "TRIGGER coordinate_fence_tasks_insert"
    run(other_url, f"DROP {gone}")
    fault = symptoms_of(other_url)["fence"]
    assert fault.severity == "fault"
    assert "let writers pass" in fault.said


def address_of(url: str) -> str:
    return sides.side_of(url).engine.address()


def test_what_an_undo_could_not_take_away_is_said_and_goes_once_it_can(
    pg_url: str, postgres_script: str | None, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-12: a session that read a table and does not end keeps a trigger there, which lets everybody pass."""
    monkeypatch.setattr(sides, "_LOCK_SECONDS", 0.2)
    create_board_on_postgres(pg_url, postgres_script)
    killed_while_it_copied(pg_url, sqlite_url)
    with closing(connect(pg_url)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT 1 FROM tasks, notes")
        assert move.undo(pg_url).inert == ("notes", "tasks")
        with coordinate.connect(pg_url, agent="alice") as c:
            c.dispatch(title="passes", role="worker")
        for repair in (False, True):
            left = symptoms_of(pg_url, repair=repair)["fence"]
            assert (left.severity, left.found, left.repaired) == ("warning", ("notes", "tasks"), 0)
            assert "lets everybody pass" in left.said
            assert "db doctor --repair" in left.hint
        reader.execute("ROLLBACK")
    assert symptoms_of(pg_url, repair=True)["fence"].repaired == 2
    assert symptoms_of(pg_url) == {}
    assert rows(pg_url, "SELECT to_regproc('coordinate_fence')") == [(None,)]


def test_an_event_that_never_gets_a_position_ends_a_move(
    pg_url: str, postgres_script: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hand with SQL took its position away: the fence does not stay up for ever."""
    create_board_on_postgres(pg_url, postgres_script)
    with coordinate.connect(pg_url, agent="a") as board:
        board.emit(event_type="one")
        board.next_events(consumer="c")
    run(pg_url, "DELETE FROM event_feed")
    monkeypatch.setattr(sides, "FENCE_SECONDS", 0.3)
    with pytest.raises(errors.Busy, match="1 events get no position"):
        move.move(pg_url, str(tmp_path / "new.db"))
    with coordinate.connect(pg_url, agent="a") as board:
        board.emit(event_type="two")
