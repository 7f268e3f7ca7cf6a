"""The log: one event and one history row for each change, one order, nothing missed, nothing pruned too early."""

from __future__ import annotations

import functools
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

import coordinate
from coordinate import Coordinator
from coordinate.db.dialect import Postgres
from coordinate.errors import Closed, InvalidInput, NotFound
from coordinate.plans import PlannedTask
from tests.clock import age
from tests.tables import assert_sound, nothing_changes, refused, rows, run
from tests.tables import dump as table_dump

DAY = 86_400


def types(board: Coordinator, **options: object) -> list[str]:
    return [event.event for event in board.next_events(consumer="c", limit=500, **options).events]


def emit(board: Coordinator, count: int, **options: object) -> None:
    for number in range(count):
        board.emit(event_type="note", message=f"m{number}", **options)


# --- one change, one line ---------------------------------------------------------------------------------------------


def test_every_change_writes_one_history_row_and_one_event(board: Coordinator, board_url: str) -> None:
    """QL-17: the count of events is the count of changes; each line is named after its change."""
    steps = [
        (lambda: board.dispatch(title="T", role="worker"), "DISPATCH", "task.created"),
        (lambda: board.dispatch(title="T", role="other"), "DISPATCH", "task.created"),
        (lambda: board.claim_next(role="worker"), "CLAIM", "task.claimed"),
        (lambda: board.log_progress(handle="TASK-1@1", note="n"), "PROGRESS", "task.progress"),
        (lambda: board.extend_lease(handle="TASK-1@1"), "EXTEND", "task.lease_extended"),
        (lambda: board.release(handle="TASK-1@1"), "RELEASE", "task.released"),
        (lambda: board.claim_task(task="TASK-1"), "CLAIM", "task.claimed"),
        (lambda: board.transfer(handle="TASK-1@2", to="bob"), "TRANSFER", "task.transferred"),
        (lambda: board.block(handle="TASK-1@3", reason="r", agent="bob"), "BLOCK", "task.blocked"),
        (lambda: board.unblock(task="TASK-1", note="n"), "UNBLOCK", "task.unblocked"),
        (lambda: board.claim_task(task="TASK-1"), "CLAIM", "task.claimed"),
        (lambda: board.complete(handle="TASK-1@4", review=True), "SUBMIT", "task.submitted_for_review"),
        (lambda: board.claim_review(agent="rita"), "CLAIM_REVIEW", "review.claimed"),
        (lambda: board.reject(task="TASK-1", reason="r", agent="rita"), "REJECT", "review.rejected"),
        (lambda: board.claim_task(task="TASK-1"), "CLAIM", "task.claimed"),
        (lambda: board.complete(handle="TASK-1@5", review=True), "SUBMIT", "task.submitted_for_review"),
        (lambda: board.approve(task="TASK-1", agent="rita"), "APPROVE", "review.approved"),
        (lambda: board.reopen(task="TASK-1"), "REOPEN", "task.reopened"),
        (lambda: board.depend_add(task="TASK-1", on="TASK-2"), "UPDATE", "task.dependency_added"),
        (lambda: board.depend_remove(task="TASK-1", on="TASK-2"), "UPDATE", "task.dependency_removed"),
        (lambda: board.edit(task="TASK-1", title="U"), "UPDATE", "task.updated"),
        (lambda: board.set_priority(tasks=["TASK-1"], priority=3), "UPDATE", "task.priority_updated"),
        (lambda: board.set_project(tasks=["TASK-1"], project="p"), "UPDATE", "task.project_updated"),
        (lambda: board.comment(task="TASK-1", text="t"), "COMMENT", "task.commented"),
        (lambda: board.claim_task(task="TASK-1"), "CLAIM", "task.claimed"),
        (lambda: board.complete(handle="TASK-1@6"), "COMPLETE", "task.completed"),
        (lambda: board.cancel(task="TASK-2"), "CANCEL", "task.cancelled"),
    ]
    for step, _, _ in steps:
        step()
    assert rows(board_url, "SELECT action FROM history ORDER BY id") == [(action,) for _, action, _ in steps]
    assert types(board, from_start=True) == [event for _, _, event in steps]
    assert_sound(board_url)


def test_what_is_no_change_writes_neither(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker", not_before=datetime.now(UTC) + timedelta(hours=1))
    board.dispatch(title="U", role="worker")
    claim = board.claim_next(role="worker")
    age(board_url, 3601)
    before = (table_dump(board_url)["history"], table_dump(board_url)["events"])
    board.keep_alive(handle=claim)
    board.next_events(consumer="c", from_start=True, acknowledge=True)
    board.ack(consumer="c", position=1)
    board.view(task="TASK-1")
    assert before == (table_dump(board_url)["history"], table_dump(board_url)["events"])


def test_an_event_says_who_what_and_which_task_in_texts(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker", project="api", priority=0)
    board.claim_next(role="worker", agent="bob")
    event = board.list_events()[-1]
    assert (event.event, event.project, event.agent, event.ref) == ("task.claimed", "api", "bob", "TASK-1")
    assert event.payload == {
        "task_id": "TASK-1",
        "title": "T",
        "project": "api",
        "priority": "0",
        "agent": "bob",
        "attempt": "1",
        "role_boundary": "worker",
    }
    assert event.created_at.utcoffset() == timedelta(0)


def test_a_refused_operation_tells_nobody(board_url: str) -> None:
    told: list[object] = []
    with coordinate.connect(board_url, agent="alice", after_commit=told.extend) as c:
        c.dispatch(title="T", role="worker")
        assert [event["event_type"] for event in told] == ["task.created"]
        with refused(board_url, NotFound):
            c.dispatch(title="T", role="worker", depends_on=["TASK-9"])
        assert len(told) == 1


def test_what_a_call_ends_along_the_way_is_told_like_what_it_does(board: Coordinator, board_url: str) -> None:
    """A sign of life sweeps, and a refusal may end what was over first: both are commits of the caller's process."""
    session = board.register(name="sue", ttl_seconds=9_000).id
    board.dispatch(title="T", role="worker")
    board.claim_next(role="worker", lease_seconds=60)
    board.ask(title="Which colour?", action_owner="task", impact="the logo waits")
    told: list[str] = []

    def tell(events: list[dict[str, object]]) -> None:
        told.extend(str(event["event_type"]) for event in events)

    age(board_url, 3_000)
    with coordinate.connect(board_url, session=session, after_commit=tell) as sue:
        sue.mine()
        assert told == ["task.lease_expired"]
        sue.revise(ask="ASK-1", timeout_seconds=60)
        age(board_url, 61)
        with pytest.raises(Closed):
            sue.respond(ask="ASK-1", text="blue")
    assert told == ["task.lease_expired", "ask.revised", "ask.closed"]


# --- cursors ----------------------------------------------------------------------------------------------------------


def test_a_newcomer_starts_at_the_head_or_where_told(board: Coordinator) -> None:
    emit(board, 3)
    assert board.next_events(consumer="new").events == ()
    assert len(board.next_events(consumer="old", from_start=True).events) == 3
    emit(board, 1)
    assert [event.message for event in board.next_events(consumer="new").events] == ["m0"]
    assert board.next_events(consumer="new", from_start=True).delivered == 4, "from_start is for newcomers"


def test_what_is_not_acknowledged_is_handed_out_again(board: Coordinator) -> None:
    emit(board, 5)
    first = board.next_events(consumer="c", from_start=True, limit=2)
    assert ([event.message for event in first.events], first.redelivered) == (["m0", "m1"], 0)
    again = board.next_events(consumer="c", limit=3)
    assert ([event.message for event in again.events], again.redelivered) == (["m0", "m1", "m2"], 2)
    cursor = board.ack(consumer="c", position=again.events[1].id)
    assert (cursor.acknowledged, cursor.delivered) == (again.events[1].id, again.events[2].id)
    rest = board.next_events(consumer="c")
    assert ([event.message for event in rest.events], rest.redelivered) == (["m2", "m3", "m4"], 1)
    assert board.next_events(consumer="c", acknowledge=True).events == ()
    assert board.next_events(consumer="other", from_start=True).redelivered == 0


def test_a_page_goes_as_far_as_its_own_events_though_an_earlier_one_was_longer(board: Coordinator) -> None:
    """Whoever acknowledges a page has finished with that, and not with what another run was handed and lost."""
    emit(board, 5)
    board.next_events(consumer="c", from_start=True, limit=5)
    seen = []
    while (batch := board.next_events(consumer="c", limit=2)).events:
        seen += [event.message for event in batch.events]
        board.ack(consumer="c", position=batch.delivered)
    assert seen == ["m0", "m1", "m2", "m3", "m4"]


def test_what_another_is_handed_while_one_waits_is_not_finished_with(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    board.next_events(consumer="c")

    def meanwhile(seconds: float) -> None:
        with coordinate.connect(board_url, agent="bob") as bob:
            emit(bob, 1)
            assert [event.message for event in bob.next_events(consumer="c").events] == ["m0"]

    monkeypatch.setattr(board.database, "wait", meanwhile)
    batch = board.next_events(consumer="c", acknowledge=True, wait=5)
    assert ([event.message for event in batch.events], batch.redelivered) == (["m0"], 1)


def test_a_cursor_never_moves_back_nor_beyond_what_was_delivered(board: Coordinator, board_url: str) -> None:
    emit(board, 3)
    batch = board.next_events(consumer="c", from_start=True, limit=2)
    assert board.ack(consumer="c", position=batch.delivered).acknowledged == batch.delivered
    assert board.ack(consumer="c", position=1).acknowledged == batch.delivered
    with refused(board_url, InvalidInput):
        board.ack(consumer="c", position=batch.delivered + 1)
    with refused(board_url, NotFound, "nobody"):
        board.ack(consumer="nobody", position=1)


def test_readers_see_one_order_and_positions_rise(board: Coordinator) -> None:
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", "T") for n in range(10)])
    emit(board, 10)
    seen: list[list[int]] = [[], []]
    for number, (reader, size) in enumerate((("a", 3), ("b", 7))):
        board.next_events(consumer=reader, from_start=True, limit=1)
        while events := board.next_events(consumer=reader, limit=size).events:
            seen[number] += [event.id for event in events]
            board.ack(consumer=reader, position=events[-1].id)
    assert seen[0] == seen[1] == sorted(set(seen[0]))
    assert len(seen[0]) == 20
    assert [event.id for event in board.list_events(limit=5)] == seen[0][-5:]


def test_filters_leave_out_and_the_cursor_moves_on(board: Coordinator) -> None:
    emit(board, 2, agent="bob")
    emit(board, 2, project="api")
    options = {"consumer": "c", "from_start": True, "not_by": "alice"}
    batch = board.next_events(**options)
    assert [event.agent for event in batch.events] == ["bob", "bob"]
    assert batch.delivered == 4, "what was left out was looked at too"
    board.ack(consumer="c", position=4)
    assert board.next_events(consumer="c").events == ()
    assert len(board.next_events(consumer="d", from_start=True, project="api").events) == 2


def test_tail_goes_on_from_its_position_and_moves_no_cursor(board: Coordinator, board_url: str) -> None:
    emit(board, 2)
    nothing, position = board.tail_events()
    assert nothing == []
    emit(board, 3)
    with nothing_changes(board_url):
        events, position = board.tail_events(after=position, limit=2)
        rest, last = board.tail_events(after=position)
        none, still = board.tail_events(after=last)
    assert ([event.message for event in events + rest], none, still) == (["m0", "m1", "m2"], [], last)


def test_a_waiting_reader_returns_with_what_comes(board: Coordinator, board_url: str) -> None:
    board.next_events(consumer="c")

    def later() -> None:
        time.sleep(0.3)
        with coordinate.connect(board_url, agent="bob") as bob:
            bob.emit(event_type="note", message="hello")

    other = threading.Thread(target=later)
    other.start()
    batch = board.next_events(consumer="c", wait=20)
    other.join()
    assert [event.message for event in batch.events] == ["hello"]
    assert board.next_events(consumer="c", acknowledge=True, wait=0.1).events == ()


# --- retention --------------------------------------------------------------------------------------------------------


def test_a_reader_that_was_too_slow_is_told_what_it_lost(board: Coordinator, board_url: str) -> None:
    """QL-19: never a silent jump, and numbers never repeat."""
    emit(board, 3, ttl_seconds=0)
    batch = board.next_events(consumer="slow", from_start=True, limit=1)
    board.ack(consumer="slow", position=batch.delivered)
    emit(board, 2, ttl_seconds=None)
    age(board_url, 1)
    assert board.prune().events_deleted == 3
    late = board.next_events(consumer="slow")
    assert late.gap is not None
    assert (late.gap.after, late.gap.lost) == (batch.delivered, 2)
    assert [event.message for event in late.events] == ["m0", "m1"]
    assert late.events[0].id > late.gap.through
    board.ack(consumer="slow", position=late.delivered)
    assert board.next_events(consumer="slow").gap is None


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
@pytest.mark.parametrize("statement", ["events_after", "said_after"])
def test_what_is_pruned_while_a_page_is_read_is_told(
    board: Coordinator, board_url: str, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    """QL-19: on SQLite the two come one after the other."""
    asked = board.database.engine.binder(board.database.engine.library[statement])[0]
    execute = Postgres.execute
    reads = board.next_events if statement == "events_after" else board.learnings
    name = {"consumer": "c"} if statement == "events_after" else {"agent": "carl"}
    reads(**name)
    emit(board, 3, ttl_seconds=0)
    emit(board, 1)
    age(board_url, 1)
    deleted: list[int] = []
    with coordinate.connect(board_url, agent="bob") as bob:

        def pruning(self: Postgres, connection: Any, sql: str, params: Any) -> Any:
            if sql == asked and not deleted:
                deleted.append(bob.prune().events_deleted)
            return execute(self, connection, sql, params)

        monkeypatch.setattr(Postgres, "execute", pruning)
        batch = reads(**name)
    assert (deleted, [event.message for event in batch.events]) == ([3], ["m0"])
    assert batch.gap is not None
    assert batch.gap.lost == 3


def test_what_is_expired_goes_whatever_else_a_prune_is_to_remove(board: Coordinator, board_url: str) -> None:
    """QL-19: `before` is for notes and history; an event goes by its own time, and never before it."""
    emit(board, 2, ttl_seconds=0)
    emit(board, 1, ttl_seconds=3600)
    emit(board, 1, ttl_seconds=None)
    age(board_url, 1)
    long_ago, soon = (datetime.now(UTC) + timedelta(days=days) for days in (-365, 365))
    assert board.prune(before=long_ago, dry_run=True).events_deleted == 2
    assert board.prune(before=long_ago).events_deleted == 2
    assert board.prune(before=soon).events_deleted == 0
    assert len(board.next_events(consumer="c", from_start=True).events) == 2


def test_a_reader_that_kept_up_has_no_gap(board: Coordinator, board_url: str) -> None:
    """QL-19: pruned behind a reader is not lost for it; what lives between the pruned is still handed out."""
    emit(board, 3, ttl_seconds=0)
    board.ack(consumer="c", position=board.next_events(consumer="c", from_start=True).delivered)
    age(board_url, 1)
    board.prune()
    assert board.next_events(consumer="c").gap is None
    board.emit(event_type="kept", ttl_seconds=None)
    emit(board, 1, ttl_seconds=0)
    board.next_events(consumer="c", limit=1)
    age(board_url, 1)
    board.prune()
    batch = board.next_events(consumer="c")
    assert [event.event for event in batch.events] == ["kept"]
    assert batch.gap is not None
    assert batch.gap.lost == 1


def test_ids_never_return(board: Coordinator, board_url: str) -> None:
    """SQ-22: the newest event, note, history row and task go; what comes next has a number never seen."""
    emit(board, 3, ttl_seconds=0)
    batch = board.next_events(consumer="c", from_start=True)
    board.ack(consumer="c", position=batch.delivered)
    age(board_url, 1)
    assert board.prune().events_deleted == 3
    emit(board, 1)
    (event,) = board.next_events(consumer="c").events
    assert event.id > batch.delivered

    board.dispatch(title="T", role="worker")
    note = board.comment(task="TASK-1", text="t").id
    board.cancel(task="TASK-1")
    entry = board.view(task="TASK-1").history[0].id
    age(board_url, 10)
    pruned = board.prune(before=datetime.now(UTC) - timedelta(seconds=5))
    assert (pruned.notes_deleted, pruned.history_deleted) == (1, 3)
    assert board.comment(task="TASK-1", text="t").id > note
    assert board.view(task="TASK-1").history[0].id > entry
    run(board_url, "DELETE FROM tasks")
    assert board.dispatch(title="T", role="worker").task.id == "TASK-2"


def test_pruning_keeps_what_lives(board: Coordinator, board_url: str) -> None:
    for title in ("live", "done"):
        board.dispatch(title=title, role="worker")
        board.comment(task=f"TASK-{2 - (title == 'live')}", text="t")
    board.complete(handle=board.claim_task(task="TASK-2"))
    board.emit(event_type="for ever", ttl_seconds=None)
    age(board_url, 40 * DAY)
    board.emit(event_type="fresh")
    cut = datetime.now(UTC) - timedelta(days=30)
    with nothing_changes(board_url):
        counted = board.prune(before=cut, dry_run=True)
    pruned = board.prune(before=cut)
    assert (counted.dry_run, pruned.dry_run) == (True, False)
    assert (pruned.events_deleted, pruned.history_deleted, pruned.notes_deleted) == (6, 4, 1)
    assert (counted.events_deleted, counted.history_deleted, counted.notes_deleted) == (6, 4, 1)
    assert [event.event for event in board.list_events()] == ["for ever", "fresh"]
    assert len(board.view(task="TASK-1").notes) == 1
    assert len(board.view(task="TASK-1").history) == 2
    assert board.view(task="TASK-2").task.status == "DONE"
    again = board.prune(before=cut)
    assert (again.events_deleted, again.history_deleted, again.notes_deleted) == (0, 0, 0)


def test_without_a_date_only_expired_events_go(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    board.cancel(task="TASK-1")
    age(board_url, 2 * DAY)
    assert board.prune().events_deleted == 0
    age(board_url, 2 * DAY)
    pruned = board.prune()
    assert (pruned.events_deleted, pruned.history_deleted, pruned.notes_deleted) == (2, 0, 0)


def test_pruning_goes_batch_by_batch(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="T", role="worker")
    board.cancel(task="TASK-1")
    run(
        board_url,
        "INSERT INTO notes (task_id, author, content, created_at) WITH RECURSIVE n(i) AS"
        " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)"
        " SELECT 'TASK-1', 'a', 'c', (SELECT created_at FROM tasks) FROM n",
    )
    age(board_url, 10)
    assert board.prune(before=datetime.now(UTC)).notes_deleted == 2500


# --- emit, list, search -----------------------------------------------------------------------------------------------


def test_a_payload_comes_back_as_it_was(board: Coordinator) -> None:
    payload = {"z": 1, "a": [1.5, None, True, "\\u0000 é🚀"], "big": 2**63 - 1, "deep": {"k": {}}, "": ""}
    board.emit(event_type="learned", payload=payload, message="m", ref="src/a.py", project="api")
    event = board.list_events()[0]
    assert event.payload == payload
    assert list(event.payload) == list(payload)
    assert isinstance(event.payload["big"], int)
    assert (event.message, event.ref, event.project, event.agent) == ("m", "src/a.py", "api", "alice")


def test_lists_narrow_and_page_back(board: Coordinator) -> None:
    emit(board, 30)
    board.emit(event_type="other", ref="x", project="p", agent="bob")
    board.next_events(consumer="c")
    page = board.list_events(limit=10)
    older = board.list_events(limit=10, before=page[0].id)
    assert [event.message for event in older] == [f"m{n}" for n in range(11, 21)]
    for wanted in ({"event_type": "other"}, {"ref": "x"}, {"project": "p"}, {"by_agent": "bob"}):
        assert [event.event for event in board.list_events(**wanted)] == ["other"]


@pytest.mark.parametrize("engine", ["postgresql"], indirect=True)
def test_lists_page_back_past_one_that_was_committed_late(board: Coordinator, board_url: str) -> None:
    """It has a lower id and a higher position than those that overtook it."""
    board.emit(event_type="x", message="first")
    with psycopg.connect(board_url) as slow:
        board.using(slow).emit(event_type="x", message="late")
        board.emit(event_type="x", message="early")
        board.tail_events()
    board.tail_events()
    board.emit(event_type="x", message="last")
    board.tail_events()
    for look in (board.list_events, functools.partial(board.search_events, query="")):
        found, before = [], None
        while page := look(limit=1, before=before):
            (event,) = page
            found.append(event.message)
            before = event.id
        assert found == ["last", "early", "late", "first"]


@pytest.mark.parametrize(
    ("text", "query", "decoy"),
    [
        ("100% sure", "100%", "1000 sure"),
        ("a_b", "A_B", "axb"),
        ("C:\\temp", "c:\\TEMP", "C:temp"),
        ("multi-agent", "multi-agent", "multi agent"),
        ('don\'t say "x"', 't say "X"', "dont say x"),
        ("Straße", "STRASSE", "strase"),
        ("привет", "ПРИВЕТ", "пока"),
        ("cafe\u0301", "CAFÉ", "cafe"),
        ("a🚀b", "🚀", "👍"),
        ("two\nlines", "two\nlines", "two lines"),
    ],
)
def test_search_is_literal_and_ignores_letter_case(board: Coordinator, text: str, query: str, decoy: str) -> None:
    """QL-21: in the message, the reference, and the values of the payload however deep they stand."""
    for said in (text, decoy):
        board.emit(event_type="message", message=said)
        board.emit(event_type="value", payload={"k": said})
        board.emit(event_type="deep", payload={"k": [{"k": said}]})
    assert [event.event for event in board.search_events(query=query)] == ["deep", "value", "message"]
    assert [event.event for event in board.search_events(query=query, event_types=["deep", "x"])] == ["deep"]
    assert board.search_events(query=query, project="none") == []


def test_search_takes_any_text(board: Coordinator) -> None:
    """QL-21: nothing is a syntax."""
    emit(board, 1)
    for query in ("", "%", "_", "\\", '"', "(", "*", "TODO:", "don't", "x" * 10_000, "🚀", "NEAR/2", "a/b"):
        assert len(board.search_events(query=query)) == (1 if query == "" else 0)
