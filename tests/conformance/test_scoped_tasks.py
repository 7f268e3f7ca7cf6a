"""Tasks that declare scopes: task and scopes are one decision, and what another holds does not stand in the way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Thread
from typing import Any

import pytest

from coordinate import Coordinator
from coordinate.db.engine import Row, Tx
from coordinate.errors import Held, InvalidState, StaleClaim
from coordinate.plans import PlannedTask
from tests.clock import age
from tests.fleet import Enter, enter, held, one
from tests.tables import assert_sound, nothing_changes, refused, rows, run

__all__ = ["enter"]


def dispatch(board: Coordinator, *scopes: str, **given: Any) -> str:
    return board.dispatch(title="T", role="worker", scopes=list(scopes), **given).task.id


def next_of(board: Coordinator, agent: str = "bob") -> str | None:
    claim = board.claim_next(role="worker", agent=agent)
    return claim and claim.task.id


def parked(board_url: str) -> list[str]:
    return [task for (task,) in rows(board_url, "SELECT id FROM tasks WHERE parked = 'scope' ORDER BY number")]


def test_a_claim_takes_the_task_with_its_scopes_for_the_length_of_the_claim(board: Coordinator) -> None:
    dispatch(board, "src/api", "docs/**")
    claim = board.claim_next(role="worker", lease_seconds=600)
    leases = board.list_leases(task="TASK-1")
    assert {(lease.resource, lease.ttl_seconds, lease.mode) for lease in leases} == {
        ("docs/**", 600, "exclusive"),
        ("src/api", 600, "exclusive"),
    }
    assert all(abs((lease.expires_at - claim.lease_until).total_seconds()) < 1 for lease in leases)
    assert not board.claim_scopes(patterns=["src"], agent="bob").granted


def test_tasks_whose_scopes_others_hold_are_passed_over_in_order_and_come_back_in_their_places(
    board: Coordinator, board_url: str
) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    for scopes in (("src/a",), ("docs",), ("src/b",), (), ("lib",)):
        dispatch(board, *scopes)
    assert [next_of(board), next_of(board)] == ["TASK-2", "TASK-4"]
    assert parked(board_url) == ["TASK-1", "TASK-3"]
    untouched = "attempt, revision, status, claimed_by, assigned_agent, lease_seconds, updated_at = created_at"
    before = rows(board_url, f"SELECT {untouched} FROM tasks WHERE number = 1")
    assert before == [(0, 1, "TODO", None, None, None, True)], "as if it had never been touched"
    board.release_leases(fences=[lease.fence])
    assert parked(board_url) == []
    assert [next_of(board) for _ in range(4)] == ["TASK-1", "TASK-3", "TASK-5", None]
    assert_sound(board_url)


def test_a_batch_takes_what_is_free_and_no_two_that_overlap(board: Coordinator, board_url: str) -> None:
    for scopes in (("a",), ("a/x",), (), ("b",), ("a",)):
        dispatch(board, *scopes)
    taken = board.claim_batch(role="worker", count=5, agent="bob")
    assert [claim.task.id for claim in taken] == ["TASK-1", "TASK-3", "TASK-4"]
    assert parked(board_url) == ["TASK-2", "TASK-5"]
    board.complete(handle=taken[0], agent="bob")
    assert next_of(board) == "TASK-2"
    assert_sound(board_url)


def test_when_all_that_is_ready_is_held_there_is_nothing_to_claim(board: Coordinator, board_url: str) -> None:
    board.claim_scopes(patterns=["."])
    for number in range(30):
        dispatch(board, f"f{number}")
    assert next_of(board) is None
    assert len(parked(board_url)) == 30
    assert board.claim_batch(role="worker", count=10, agent="bob") == []


def test_by_mere_time_they_come_back_in_their_order(board: Coordinator, board_url: str) -> None:
    board.claim_scopes(patterns=["src"], ttl_seconds=60)
    for number in range(3):
        dispatch(board, f"src/{number}")
    assert next_of(board) is None
    age(board_url, 61)
    assert [next_of(board) for _ in range(4)] == ["TASK-1", "TASK-2", "TASK-3", None]
    (event,) = board.list_events(event_type="lease.expired")
    assert event.payload["former_holder"] == "alice"
    assert_sound(board_url)


def test_a_wait_ends_the_moment_the_lease_does(board: Coordinator) -> None:
    board.claim_scopes(patterns=["src"], ttl_seconds=1)
    dispatch(board, "src")
    assert board.claim_next(role="worker", wait=20, agent="bob").handle == "TASK-1@1"


def test_a_renewed_lease_goes_on_to_hold_them_back(board: Coordinator, board_url: str) -> None:
    lease = one(board.claim_scopes(patterns=["src"], ttl_seconds=60))
    dispatch(board, "src")
    assert next_of(board) is None
    age(board_url, 50)
    board.renew_leases(fences=[lease.fence])
    age(board_url, 50)
    assert next_of(board) is None
    age(board_url, 11)
    assert next_of(board) == "TASK-1"


def test_what_a_task_keeps_ends_with_its_hold_whatever_time_was_asked_for_it(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    dispatch(board, "src")
    alice, long = enter("alice"), 600_000
    claim = alice.claim_next(role="worker", lease_seconds=60)
    alice.claim_scopes(patterns=["docs"], ttl_seconds=long)
    bound = alice.claim_scopes(patterns=["docs", "lib"], task=claim.handle, ttl_seconds=long).leases
    alice.claim_scopes(patterns=["src"], ttl_seconds=long)
    fences = [lease.fence for lease in board.list_leases(task=claim.task.id)]
    assert {lease.fence for lease in bound} < set(fences)
    until = board.view(task=claim.task.id).task.lease_until
    assert {lease.expires_at for lease in alice.renew_leases(fences=fences, ttl_seconds=long)} == {until}
    age(board_url, 61)
    with refused(board_url, StaleClaim):
        alice.renew_leases(fences=fences)
    assert board.claim_scopes(patterns=["src", "docs", "lib"], agent="bob").granted, "as the task is anybody's"
    with refused(board_url, StaleClaim):
        alice.extend_lease(handle=claim)


@pytest.mark.parametrize("taker", ["scopes", "task"])
def test_a_hold_whose_time_ends_while_another_takes_its_scope_is_taken_back_or_keeps_it(
    board: Coordinator, monkeypatch: pytest.MonkeyPatch, taker: str
) -> None:
    """The time ends between the look for holds that are past and the look at what is in the way."""
    dispatch(board, "src")
    claim = board.claim_next(role="worker")
    dispatch(board, "src/a")
    look = Tx.all
    past = "'2001-01-01T00:00:00.000Z'"

    def all_and_its_time_ends(tx: Tx, name: str, /, **params: Any) -> list[Row]:
        rows = look(tx, name, **params)
        if name == "scopes_near":
            monkeypatch.setattr(Tx, "all", look)
            for change in (f"tasks SET lease_until = {past} WHERE id = 'TASK-1'", f"leases SET expires_at = {past}"):
                tx._run_on(tx._connection, f"UPDATE {change}", ())
        return rows

    monkeypatch.setattr(Tx, "all", all_and_its_time_ends)
    if taker == "scopes":
        taken = board.claim_scopes(patterns=["src/a"], agent="bob").granted
    else:
        taken = board.claim_next(role="worker", agent="bob") is not None
    try:
        board.keep_alive(handle=claim)
        kept = True
    except StaleClaim:
        kept = False
    assert taken is not kept


END: dict[str, Callable[[Coordinator, str, Any], Any]] = {
    "complete": lambda board, url, claim: board.complete(handle=claim),
    "submit": lambda board, url, claim: board.complete(handle=claim, review=True),
    "block": lambda board, url, claim: board.block(handle=claim, reason="r"),
    "release": lambda board, url, claim: board.release(handle=claim, after_seconds=900),
    "cancel": lambda board, url, claim: board.cancel(task=claim.task.id),
    "expire": lambda board, url, claim: (age(url, 901), board.sweep()),
    "batch": lambda board, url, claim: board.complete_batch(handles=[claim.handle]),
}


@pytest.mark.parametrize("way", END)
def test_however_a_hold_ends_its_scopes_end_and_who_waited_goes_on(
    board: Coordinator, board_url: str, way: str
) -> None:
    dispatch(board, "src")
    dispatch(board, "src/app.py")
    claim = board.claim_next(role="worker")
    assert next_of(board) is None
    END[way](board, board_url, claim)
    assert parked(board_url) == []
    board.cancel(task="TASK-1") if way == "expire" else None
    assert next_of(board) == "TASK-2"
    assert held(board) == [("bob", "src/app.py")]
    assert_sound(board_url)


def test_transfer_carries_the_scopes_and_gives_them_the_length_of_the_new_hold(
    board: Coordinator, board_url: str
) -> None:
    dispatch(board, "src")
    claim = board.claim_next(role="worker", lease_seconds=60)
    moved = board.transfer(handle=claim, to="bob", lease_seconds=600)
    (lease,) = board.list_leases()
    assert (lease.agent, lease.session_id, lease.task_id) == ("bob", None, "TASK-1")
    assert abs((lease.expires_at - moved.lease_until).total_seconds()) < 1
    with refused(board_url, StaleClaim):
        board.claim_scopes(patterns=["src/x"], task=claim.handle)
    assert board.check_scopes(patterns=["src/x"], task=moved.handle, agent="bob").granted
    board.complete(handle=moved, agent="bob")
    assert held(board) == []
    assert_sound(board_url)


@pytest.mark.parametrize("verb", ["log_progress", "extend_lease", "keep_alive"])
def test_the_holders_verbs_renew_the_scopes_with_the_task(board: Coordinator, board_url: str, verb: str) -> None:
    """Without a session too; what a task needs is not lost while the task is held."""
    dispatch(board, "src")
    claim = board.claim_next(role="worker", lease_seconds=600)
    for _ in range(3):
        age(board_url, 500)
        getattr(board, verb)(handle=claim, **({"note": "n"} if verb == "log_progress" else {}))
        assert not board.claim_scopes(patterns=["src"], agent="bob").granted
    (lease,) = board.list_leases()
    assert abs((lease.expires_at - board.mine()[0].lease_until).total_seconds()) < 1


def test_claim_by_id_is_refused_naming_the_holder_of_the_scope_and_changes_nothing(
    board: Coordinator, board_url: str
) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    dispatch(board, "src/app.py")
    with refused(board_url, Held, "TASK-1 cannot be claimed: alice holds src until"):
        board.claim_task(task="TASK-1", agent="bob")
    assert next_of(board) is None
    with refused(board_url, Held):
        board.claim_task(task="TASK-1", agent="bob")
    board.release_leases(fences=[lease.fence])
    assert board.claim_task(task="TASK-1", agent="bob").handle == "TASK-1@1"


def test_an_expiry_that_a_refused_claim_met_is_written(board: Coordinator, board_url: str) -> None:
    dispatch(board, "src")
    board.claim_next(role="worker", lease_seconds=60)
    board.claim_scopes(patterns=["docs"], agent="carol")
    run(board_url, "INSERT INTO task_scopes (task_id, pattern) VALUES ('TASK-1', 'docs')")
    age(board_url, 61)
    with pytest.raises(Held, match="carol holds docs"):
        board.claim_task(task="TASK-1", agent="bob")
    view = board.view(task="TASK-1")
    assert (view.task.status, view.attempts[0].outcome) == ("TODO", "expired")
    assert_sound(board_url)


def test_who_holds_the_scope_itself_may_take_the_task(enter: Enter, board: Coordinator) -> None:
    alice = enter("alice")
    alice.claim_scopes(patterns=["src"])
    dispatch(board, "src/app.py")
    claim = alice.claim_next(role="worker")
    assert claim.handle == "TASK-1@1"
    assert held(board) == [("alice", "src"), ("alice", "src/app.py")]
    alice.complete(handle=claim)
    assert held(board) == [("alice", "src")]


def test_who_holds_the_scope_is_offered_what_others_set_aside_on_it_in_its_place_in_the_queue(
    enter: Enter, board: Coordinator, board_url: str
) -> None:
    alice = enter("alice")
    alice.claim_scopes(patterns=["src"])
    for number, priority in enumerate((100, 50, 100)):
        dispatch(board, f"src/{number}", priority=priority)
    dispatch(board, priority=70)
    assert board.claim_batch(role="other", count=1) == []
    bobs = [board.claim_next(role="worker", agent="bob"), board.claim_next(role="worker", agent="bob")]
    assert [bob and bob.task.id for bob in bobs] == ["TASK-4", None]
    assert parked(board_url) == ["TASK-1", "TASK-2", "TASK-3"]
    assert [alice.claim_next(role="worker").task.id for _ in range(3)] == ["TASK-2", "TASK-1", "TASK-3"]
    assert_sound(board_url)


def test_what_was_set_aside_on_a_scope_of_ones_own_and_meets_anothers_hides_nothing_behind_it(
    enter: Enter, board: Coordinator, board_url: str
) -> None:
    alice, bob = enter("alice"), enter("bob")
    alice.claim_scopes(patterns=["src"], ttl_seconds=3_600)
    bob.claim_scopes(patterns=["docs", "lib"], ttl_seconds=1_800)
    for scopes in (("src/0", "docs"), ("src/1", "lib"), ("src/2",)):
        dispatch(board, *scopes)
    assert next_of(board, "carol") is None
    assert parked(board_url) == ["TASK-1", "TASK-2", "TASK-3"]
    dispatch(board)
    assert next_of(alice, "alice") == "TASK-3"
    assert parked(board_url) == ["TASK-1", "TASK-2"]
    assert_sound(board_url)


def answered(board: Coordinator, scope: str, project: str) -> str:
    """A task that alice asked about, and that was answered: reserved for her."""
    task = dispatch(board, scope, project=project)
    claim = board.claim_task(task=task)
    ask = board.ask(title="Do it", action_owner="task", impact="all", next_step="it", task=claim, blocking=True).ask
    board.respond(ask=ask.id, kind="handled", agent="hana")
    return task


def test_what_is_reserved_for_the_asker_stays_so_while_its_scope_is_anothers(
    board: Coordinator, board_url: str
) -> None:
    """Also by project: what is in the way of one hides no other, whatever the order of their projects."""
    for scope, project in (("src", "b"), ("src", "a"), ("docs", "a")):
        answered(board, scope, project)
    fences = [one(board.claim_scopes(patterns=["src"], project=each, agent="carol")).fence for each in "ab"]
    kept = "SELECT parked, reserved_for, parked_until, revision, updated_at, claimed_by FROM tasks WHERE number < 3"
    before = rows(board_url, kept)
    assert [next_of(board, "alice") for _ in range(3)] == ["TASK-3", None, None]
    assert rows(board_url, kept) == before
    board.release_leases(fences=fences, agent="carol")
    assert [next_of(board, each) for each in ("bob", "alice", "alice", "alice")] == [None, "TASK-1", "TASK-2", None]
    assert rows(board_url, "SELECT DISTINCT parked, reserved_for, parked_until FROM tasks") == [("", None, None)]
    assert_sound(board_url)


def test_what_is_reserved_in_one_project_and_held_does_not_keep_its_asker_from_what_is_ready_in_another(
    board: Coordinator,
) -> None:
    answered(board, "src", "z")
    assert board.acting(agent="carol").claim_scopes(patterns=["src"], project="z").granted
    ready = dispatch(board, "docs", project="a")
    found: list[str | None] = []
    alice = Thread(target=lambda: found.append(next_of(board, "alice")), daemon=True)
    alice.start()
    alice.join(timeout=30)
    assert found == [ready]


def test_a_take_stays_though_a_claim_of_its_own_meets_a_scope(board: Coordinator, board_url: str) -> None:
    answered(board, "src", "default")
    board.take(ask="ASK-1", seconds=7_200)
    age(board_url, 901)  # what was reserved is no longer
    lease = one(board.claim_scopes(patterns=["src"], agent="carol"))
    assert next_of(board, "alice") is None
    assert board.show_ask(ask="ASK-1").ask.taken_by == "alice"
    board.release_leases(fences=[lease.fence], agent="carol")
    assert [next_of(board, each) for each in ("bob", "alice")] == [None, "TASK-1"]
    assert board.show_ask(ask="ASK-1").ask.taken_by is None


def test_the_first_claimer_stays_though_a_later_claim_meets_a_scope(board: Coordinator, board_url: str) -> None:
    """Boards that were adopted know of first claimers without attempts."""
    dispatch(board, "src")
    run(board_url, "UPDATE tasks SET claimed_by = 'first'")
    lease = one(board.claim_scopes(patterns=["src"]))
    assert next_of(board) is None
    assert rows(board_url, "SELECT claimed_by, parked FROM tasks") == [("first", "scope")]
    board.release_leases(fences=[lease.fence])
    assert board.claim_next(role="worker", agent="bob").task.claimed_by == "first"


def test_thousands_that_one_lease_blocks_are_set_aside_together(board: Coordinator, board_url: str) -> None:
    board.claim_scopes(patterns=["src"])
    board.claim_scopes(patterns=["docs"])
    scopes = [["src/a"], ["docs/b"], ["lib", "src/c"]]
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", "T", "worker", scopes=tuple(scopes[n % 3])) for n in range(1_200)])
    dispatch(board, "lib")
    dispatch(board, "src")
    assert next_of(board) == "TASK-1201"
    assert len(parked(board_url)) == 1_200
    assert_sound(board_url)


def test_why_names_the_holder_of_the_scope_met_or_not_yet(board: Coordinator) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    dispatch(board, "src/app.py")
    for _ in range(2):
        answer = board.why(task="TASK-1")
        (reason,) = answer.reasons
        assert (answer.ready, reason.code, reason.until) == (False, "scope", lease.expires_at)
        assert "alice holds src" in reason.message
        assert next_of(board) is None
    idle = board.why_idle(role="worker")
    assert (idle.ready, [reason.code for reason in idle.reasons]) == (False, ["scope"])
    board.release_leases(fences=[lease.fence])
    assert board.why(task="TASK-1").ready


def test_new_scopes_bring_a_task_back_to_be_looked_at_anew(board: Coordinator) -> None:
    board.claim_scopes(patterns=["src"])
    dispatch(board, "src")
    assert next_of(board) is None
    board.edit(task="TASK-1", scopes=["docs"])
    assert next_of(board) == "TASK-1"


def test_a_time_that_was_set_meanwhile_still_holds_when_the_lease_ends(board: Coordinator, board_url: str) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    dispatch(board, "src")
    assert next_of(board) is None
    board.edit(task="TASK-1", not_before=datetime.now(UTC) + timedelta(hours=1))
    board.release_leases(fences=[lease.fence])
    assert next_of(board) is None
    age(board_url, 3_700)
    assert next_of(board) == "TASK-1"


def test_a_task_of_another_project_is_not_in_the_way(board: Coordinator) -> None:
    board.claim_scopes(patterns=["src"], project="p")
    dispatch(board, "src")
    assert next_of(board) == "TASK-1"


def test_the_scopes_of_a_task_that_comes_back_are_free_for_the_next_attempt(board: Coordinator, board_url: str) -> None:
    dispatch(board, "src")
    board.claim_next(role="worker", lease_seconds=60)
    age(board_url, 61)
    claim = board.claim_next(role="worker", agent="bob")
    assert claim.handle == "TASK-1@2"
    assert held(board) == [("bob", "src")]
    assert_sound(board_url)


def test_a_conflict_leaves_no_trace_but_the_place_aside(board: Coordinator, board_url: str) -> None:
    board.claim_scopes(patterns=["src"])
    dispatch(board, "src")
    next_of(board)
    with nothing_changes(board_url):
        assert next_of(board) is None


# --- a held task has all of its scopes --------------------------------------------------------------------------------

LATE: dict[str, Callable[[Coordinator, Any], Any]] = {
    "log_progress": lambda board, claim: board.log_progress(handle=claim, note="n"),
    "extend_lease": lambda board, claim: board.extend_lease(handle=claim),
    "keep_alive": lambda board, claim: board.keep_alive(handle=claim),
    "complete": lambda board, claim: board.complete(handle=claim),
    "transfer": lambda board, claim: board.transfer(handle=claim, to="carol"),
    "claim_scopes": lambda board, claim: board.claim_scopes(patterns=["lib"], task=claim.handle),
}
TAKE: dict[str, Callable[[Coordinator], Any]] = {
    "scopes": lambda board: board.claim_scopes(patterns=["src/app.py"], agent="bob"),
    "task": lambda board: board.claim_task(task="TASK-2", agent="bob"),
    "worktree": lambda board: board.open_worktree(
        task="TASK-3", branch="b", root="/r", patterns=["src/app.py"], agent="bob"
    ),
}


def late(board: Coordinator, board_url: str) -> Any:
    """TASK-1 with `src` and `docs`, whose hold by alice is past; TASK-2 wants `src/app.py`; TASK-3 is bob's."""
    dispatch(board, "src", "docs")
    dispatch(board, "src/app.py")
    dispatch(board)
    claim = board.claim_next(role="worker", lease_seconds=60)
    board.claim_task(task="TASK-3", agent="bob", lease_seconds=9_000)
    age(board_url, 61)
    return claim


@pytest.mark.parametrize("way", TAKE)
def test_who_takes_a_scope_of_a_late_holder_takes_the_task_back_with_it(
    board: Coordinator, board_url: str, way: str
) -> None:
    claim = late(board, board_url)
    TAKE[way](board)
    assert held(board) == [("bob", "src/app.py")]
    view = board.view(task="TASK-1")
    assert (view.task.status, view.attempts[0].outcome, view.task.expiries) == ("TODO", "expired", 1)
    for verb, call in LATE.items():
        with refused(board_url, StaleClaim):
            call(board, claim)
            pytest.fail(verb)
    assert_sound(board_url)


@pytest.mark.parametrize("verb", LATE)
def test_until_somebody_does_the_late_holder_may_go_on_with_all_of_its_scopes(
    board: Coordinator, board_url: str, verb: str
) -> None:
    claim = late(board, board_url)
    LATE[verb](board, claim)
    taken = board.claim_scopes(patterns=["src", "docs"], agent="bob")
    assert taken.granted == (verb == "complete")
    assert_sound(board_url)


def test_a_late_hold_that_nobody_is_in_the_way_of_is_left_alone(board: Coordinator, board_url: str) -> None:
    claim = late(board, board_url)
    assert board.claim_scopes(patterns=["lib"], agent="bob").granted
    assert board.check_scopes(patterns=["src"], agent="bob").granted
    assert board.log_progress(handle=claim, note="n").attempt == 1


def test_scopes_bound_to_a_task_last_as_long_as_its_hold_however_short_they_were_asked_for(
    enter: Enter, board: Coordinator, board_url: str
) -> None:
    alice = enter("alice", ttl_seconds=9_000)
    dispatch(board)
    claim = alice.claim_next(role="worker", lease_seconds=600)
    alice.claim_scopes(patterns=["a"], ttl_seconds=1)
    answer = alice.claim_scopes(patterns=["a", "b"], task=claim.handle, ttl_seconds=1)
    assert all(lease.expires_at >= claim.lease_until for lease in answer.leases)
    age(board_url, 500)
    enter("alice", session=alice.session).stats()
    age(board_url, 500)
    assert not board.claim_scopes(patterns=["b"], agent="bob").granted, "a call of the session renews both alike"
    enter("alice", session=alice.session).stats()  # so that none of the refused calls is one that renews
    for given in ({"fences": [answer.leases[0].fence]}, {"patterns": ["b"]}):
        with refused(board_url, InvalidState, "kept by TASK-1"):
            alice.release_leases(**given)
    board.complete(handle=claim)
    assert held(board) == []


def test_the_scopes_of_a_held_task_are_not_edited_nor_is_it_moved_away_from_them(
    board: Coordinator, board_url: str
) -> None:
    dispatch(board, "src")
    claim = board.claim_next(role="worker")
    with refused(board_url, InvalidState, "alice holds TASK-1 with its scopes"):
        board.edit(task="TASK-1", scopes=["docs"], agent="bob")
    for move in (
        lambda: board.edit(task="TASK-1", project="p"),
        lambda: board.set_project(tasks=["TASK-9", "TASK-1"], project="p"),
    ):
        with refused(board_url, InvalidState, "TASK-1 has scopes in project default, held by alice"):
            move()
    board.open_worktree(task=claim.handle, branch="b", root="/r")
    board.complete(handle=claim, review=True)
    with refused(board_url, InvalidState, "TASK-1 has scopes"):
        board.set_project(tasks=["TASK-1"], project="p")
    board.close_worktree(task="TASK-1")
    assert board.set_project(tasks=["TASK-1"], project="p") == 1


def test_no_number_of_scopes_hides_the_one_that_a_move_would_leave_behind(board: Coordinator, board_url: str) -> None:
    dispatch(board, "src")
    dispatch(board, "src", project="p")
    claims = board.claim_batch(role="worker", count=2)
    copied = "project, resource, prefix, mode, agent, task_id, attempt, ttl_seconds, acquired_at, expires_at"
    run(
        board_url,
        f"""INSERT INTO leases (kind, fence, {copied})
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000)
            SELECT 'scope', 1000 + i, {copied} FROM leases, n WHERE project = 'p'""",
        "DELETE FROM leases WHERE project = 'default'",
    )
    assert board.claim_scopes(patterns=["docs"], task=claims[0].handle, project="default").granted
    with refused(board_url, InvalidState, "TASK-1 has scopes in project default"):
        board.set_project(tasks=["TASK-1", "TASK-2"], project="p")


def test_scopes_of_a_task_are_claimed_in_its_project(board: Coordinator, board_url: str) -> None:
    dispatch(board, project="p")
    claim = board.claim_next(role="worker")
    with refused(board_url, InvalidState, "TASK-1 is of project p, not q"):
        board.claim_scopes(patterns=["src"], task=claim.handle, project="q")
    assert one(board.claim_scopes(patterns=["src"], task=claim.handle)).project == "p"


@pytest.mark.parametrize("move", ["edit", "set_project"])
def test_a_task_set_aside_in_one_project_is_ready_in_another(board: Coordinator, board_url: str, move: str) -> None:
    lease = one(board.claim_scopes(patterns=["src"]))
    dispatch(board, "src")
    assert next_of(board) is None
    board.edit(task="TASK-1", priority=5)
    assert parked(board_url) == ["TASK-1"], "another edit leaves it where it is"
    if move == "edit":
        board.edit(task="TASK-1", project="p")
    else:
        board.set_project(tasks=["TASK-1"], project="p")
    assert (parked(board_url), board.why(task="TASK-1").ready) == ([], True)
    board.release_leases(fences=[lease.fence])
    assert next_of(board) == "TASK-1"
    assert_sound(board_url)


def test_a_task_is_not_transferred_from_beside_a_late_hold_that_overlaps_it(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    """A late hold may still be renewed, and its scopes with it."""
    alice = enter("alice", ttl_seconds=9_000)
    board.dispatch(title="T", role="worker", scopes=["src"])
    board.dispatch(title="T", role="worker", scopes=["src/app.py"])
    claim = alice.claim_task(task="TASK-1", lease_seconds=9_000)
    late = alice.claim_task(task="TASK-2", lease_seconds=60)
    age(board_url, 70)
    with refused(board_url, InvalidState, "alice holds src/app.py for TASK-2"):
        alice.transfer(handle=claim, to="bob")
    alice.complete(handle=late)
    alice.transfer(handle=claim, to="bob")


def test_a_scope_that_a_late_hold_of_ones_own_keeps_is_granted_anew(
    board: Coordinator, enter: Enter, board_url: str
) -> None:
    alice, bob = enter("alice", ttl_seconds=9_000), enter("bob", ttl_seconds=9_000)
    board.dispatch(title="T", role="worker", scopes=["src"])
    alice.claim_next(role="worker", lease_seconds=60)
    age(board_url, 70)
    one(alice.claim_scopes(patterns=["src"]))
    assert not bob.claim_scopes(patterns=["src"]).granted
    assert_sound(board_url)
