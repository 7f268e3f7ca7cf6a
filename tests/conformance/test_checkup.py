"""The checkup: a sound board has no symptom, each planted fault is named, and what can be derived is mended."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import coordinate
from coordinate import Coordinator, checkup, errors
from coordinate.records import Symptom
from tests.migrations.catalog import fill
from tests.tables import as_owner, assert_sound, dump, nothing_changes, rows, run

LATER = "'2090-01-01T00:00:00.000Z'"
ATTEMPT = "INSERT INTO attempts (task_id, attempt, agent, started_at) VALUES ('TASK-1', {}, 'mallory', {})"
PAST = "'2020-01-01T00:00:00.000Z'"

# What is done past the program: the kind of symptom it must give, and the statements. TASK-1 is held by alice,
# TASK-2 waits for it, TASK-3 is done, TASK-4 is free.
PLANTED: dict[str, tuple[str, ...]] = {
    "holders": ("DROP INDEX idx_attempts_open", ATTEMPT.format(1_000, LATER)),
    "claims": (
        "INSERT INTO history (task_id, agent, action, attempt, created_at) SELECT task_id, 'mallory', action, attempt,"
        " created_at FROM history WHERE task_id = 'TASK-1' AND action = 'CLAIM'",
    ),
    "overlaps": (
        "UPDATE tasks SET attempt = 2, expiries = 1 WHERE id = 'TASK-3'",
        "INSERT INTO attempts (task_id, attempt, agent, started_at, ended_at, outcome) VALUES"
        f" ('TASK-3', 2, 'mallory', {PAST}, {PAST}, 'completed')",
    ),
    "holds": ("UPDATE attempts SET agent = 'mallory' WHERE task_id = 'TASK-1'",),
    "attempts": ("UPDATE tasks SET attempt = 0 WHERE id = 'TASK-3'",),
    "done": ("DELETE FROM attempts WHERE task_id = 'TASK-3'",),
    "edges": ("UPDATE task_dependencies SET met = true WHERE task_id = 'TASK-2'",),
    "counts": ("UPDATE tasks SET unmet_dependencies = 0 WHERE id = 'TASK-2'",),
    "circles": (
        "INSERT INTO task_dependencies VALUES ('TASK-1', 'TASK-2', false)",
        "UPDATE tasks SET unmet_dependencies = 1 WHERE id = 'TASK-1'",
    ),
    "leases": (
        "INSERT INTO leases (kind, resource, agent, task_id, attempt, fence, ttl_seconds, acquired_at, expires_at)"
        f" VALUES ('scope', 'src', 'mallory', 'TASK-4', 1, 0, 60, {PAST}, {LATER})",
    ),
    "parked": (f"UPDATE tasks SET parked = 'scope', parked_on = 99, parked_until = {LATER} WHERE id = 'TASK-4'",),
    "rows": ("UPDATE board_rows SET status = 'blocked' WHERE label = 'Docs'",),
    "asks": ("UPDATE tasks SET ask_id = 'ASK-9' WHERE id = 'TASK-4'",),
    "cursors": (f"INSERT INTO event_cursors VALUES ('ci', 9999, 9999, {PAST})",),
    "counters": ("UPDATE counters SET value = 1 WHERE kind = 'task'",),
    "ids": (
        f"INSERT INTO notes (id, task_id, author, content, created_at) VALUES (5000, 'TASK-4', 'mallory', 'n', {PAST})",
    ),
}
MENDED = {"edges", "counts", "leases", "parked", "cursors", "counters", "ids"}


@pytest.fixture
def four(board: Coordinator) -> Coordinator:
    board.dispatch(title="held", role="worker")
    board.dispatch(title="waits", role="worker", depends_on=["TASK-1"])
    board.dispatch(title="done", role="worker", priority=1)
    board.dispatch(title="free", role="worker")
    board.complete(handle=board.claim_next(role="worker"))
    assert board.claim_next(role="worker").task.id == "TASK-1"
    board.board_row(title="Release", label="Docs")
    return board


def kinds(symptoms: list[Symptom]) -> set[str]:
    return {symptom.kind for symptom in symptoms}


def test_a_board_on_which_everything_was_done_has_no_symptom(board_url: str) -> None:
    fill(board_url, owner=as_owner(board_url))
    with coordinate.connect(board_url, agent="alice") as board:
        before = dump(board_url)
        assert board.examine() == []
        assert board.repair() == []
        assert dump(board_url) == before


@pytest.mark.parametrize("kind", PLANTED)
def test_each_planted_fault_is_named_and_mended_where_that_is_safe(
    four: Coordinator, board_url: str, engine: str, kind: str
) -> None:
    statements = PLANTED[kind]
    if kind == "ids" and engine == "sqlite":  # AUTOINCREMENT keeps up with what is inserted
        statements = (*statements, "UPDATE sqlite_sequence SET seq = 7 WHERE name = 'notes'")
    run(as_owner(board_url), *statements)
    before = dump(board_url)
    found = four.examine()
    assert dump(board_url) == before
    assert kind in kinds(found)
    (symptom,) = [each for each in found if each.kind == kind]
    assert symptom.count == 1 or kind == "circles"
    assert (symptom.repair != "") == (kind in MENDED)
    with coordinate.connect(as_owner(board_url)) as owner:
        repaired = owner.repair()
    assert [each.repaired for each in repaired if each.kind == kind] == [1 if kind in MENDED else 0]
    if kind not in MENDED:
        assert kinds(four.examine()) >= {kind}
        return
    assert four.examine() == []
    if kind not in ("cursors", "counters"):
        assert_sound(board_url)


@pytest.mark.parametrize("kind", ["counters", "ids"])
def test_a_number_that_comes_twice_is_told_until_it_goes_on_above(
    four: Coordinator, board_url: str, engine: str, kind: str
) -> None:
    """Somebody lowered what numbers are taken from. SQLite itself lets no id come while it is used."""
    lowered = (
        "SELECT setval('events_id_seq', 1)" if kind == "ids" else "UPDATE counters SET value = 1 WHERE kind = 'task'"
    )
    if kind == "ids" and engine == "sqlite":
        lowered = "UPDATE sqlite_sequence SET seq = 1 WHERE name = 'events'"
    run(as_owner(board_url), lowered)
    if (kind, engine) != ("ids", "sqlite"):
        with pytest.raises(errors.NotABoard, match="used already") as told:
            four.dispatch(title="next", role="worker")
        assert "coordinate db doctor --repair" in told.value.hint
    assert kind in kinds(four.examine())
    with coordinate.connect(as_owner(board_url)) as owner:
        owner.repair()
    assert four.dispatch(title="next", role="worker").task.id == "TASK-5"
    assert four.claim_next(role="worker") is not None
    assert four.examine() == []


def test_what_is_set_aside_rightly_by_now_is_not_put_back(four: Coordinator, board_url: str) -> None:
    """Agents go on while a board is repaired: what was found wrong may have been answered meanwhile."""
    run(board_url, *PLANTED["parked"])
    found, _ = four.database.perform(lambda tx: tx.all("wrong_parked", limit=9), writes=False)
    assert [row.id for row in found] == ["TASK-4"]
    kept = "parked = 'reserved', parked_on = NULL, reserved_for = 'bob'"
    run(board_url, f"UPDATE tasks SET {kept} WHERE id = 'TASK-4'")
    with nothing_changes(board_url):
        four.database.perform(lambda tx: checkup._put_back(tx, found[0]), writes=True)


def test_a_lease_whose_task_is_held_again_by_now_is_not_swept(four: Coordinator, board_url: str) -> None:
    """A claim takes over what is bound to its task; the repair may have looked before."""
    run(board_url, *PLANTED["leases"])
    found, _ = four.database.perform(lambda tx: tx.all("wrong_leases", limit=9), writes=False)
    assert [row.found for row in found] == ["src"]
    assert four.claim_task(task="TASK-4").attempt == 1
    with nothing_changes(board_url):
        four.database.perform(lambda tx: checkup._mend_lease(tx, found[0]), writes=True)


def test_a_cursor_beyond_the_log_goes_back_to_what_it_acknowledged(four: Coordinator, board_url: str) -> None:
    """What was handed out and not acknowledged is handed out again; and the log may have reached it by now."""
    four.tail_events()  # they have positions
    run(board_url, f"INSERT INTO event_cursors VALUES ('ci', 9999, 2, {PAST}), ('cd', 3, 1, {PAST})")
    found, _ = four.database.perform(lambda tx: tx.all("wrong_cursors", limit=9), writes=False)
    assert [row.id for row in found] == ["ci"]
    seen = four.ack(consumer="cd", position=2)
    mended = [found[0], SimpleNamespace(id="cd")]
    four.database.perform(lambda tx: [checkup._mend_cursor(tx, row) for row in mended], writes=True)
    assert four.next_events(consumer="ci").events[0].id == 3
    assert four.ack(consumer="cd", position=2) == seen


def test_what_was_mended_works_again_and_tells_its_story(four: Coordinator, board_url: str) -> None:
    run(
        board_url,
        *PLANTED["edges"],
        *PLANTED["parked"],
        *PLANTED["counters"],
        "UPDATE tasks SET unmet_dependencies = 0",
    )
    assert four.claim_next(role="worker").task.id == "TASK-2"  # too early
    four.release(handle="TASK-2@1")
    four.repair()
    assert four.claim_next(role="worker").task.id == "TASK-4"
    assert four.claim_next(role="worker") is None
    four.complete(handle="TASK-1@1")
    assert four.claim_next(role="worker").handle == "TASK-2@2"
    assert four.dispatch(title="next", role="worker").task.id == "TASK-5"
    told = rows(board_url, "SELECT detail FROM history WHERE agent = 'system' ORDER BY id")
    assert any("unmet dependencies: 0 became 1" in detail for (detail,) in told)
