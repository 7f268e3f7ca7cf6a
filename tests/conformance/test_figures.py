"""Figures and reasons: counts that agree with the tables, and truthful answers to why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from coordinate import Coordinator
from coordinate.errors import InvalidInput
from coordinate.plans import PlannedTask
from coordinate.service import settle
from tests.clock import age
from tests.tables import as_owner, rows, run

LATER = datetime(2090, 1, 1, tzinfo=UTC)


@pytest.fixture
def busy(board: Coordinator) -> Coordinator:
    """One task at each status, and one more TODO."""
    for _ in range(7):
        board.dispatch(title="T", role="worker")
    board.claim_task(task="TASK-2")
    board.block(handle=board.claim_task(task="TASK-3"), reason="no key")
    board.complete(handle=board.claim_task(task="TASK-4"), review=True)
    board.complete(handle=board.claim_task(task="TASK-5"))
    board.cancel(task="TASK-6")
    board.set_project(tasks=["TASK-7"], project="api")
    return board


def test_roles_are_bounded_and_the_others_counted(board: Coordinator) -> None:
    for number in range(104):
        board.dispatch(title="T", role=f"role-{number}")
    board.dispatch(title="T", role="role-103")
    for figures in (board.stats(), board.status()):
        assert (len(figures.by_role), figures.more_roles, figures.by_role["role-103"]) == (100, 4, 2)


def test_counts_agree_with_the_table(busy: Coordinator, board_url: str) -> None:
    counted = dict(rows(board_url, "SELECT status, count(*) FROM tasks GROUP BY status"))
    stats, status = busy.stats(), busy.status()
    assert stats.by_status == status.by_status == counted
    assert (stats.by_role, stats.total_tasks, status.total) == ({"worker": 7}, 7, 7)
    assert (status.done_count, status.percent_done) == (1, round(100 / 6, 2))
    assert busy.stats(project="api").by_status == {"TODO": 1}
    assert busy.status(project="none").percent_done == 0.0
    assert busy.status(project="none").by_status == {}


def test_the_burn_down_ends_with_what_is_open_now(busy: Coordinator, board_url: str) -> None:
    age(board_url, 86_400)
    busy.dispatch(title="T", role="worker")
    busy.cancel(task="TASK-1")
    days = busy.status(days=3).burndown
    assert len(days) == 3
    assert [(day.created, day.done, day.cancelled, day.open) for day in days] == [
        (0, 0, 0, 0),
        (7, 1, 1, 5),
        (1, 0, 1, 5),
    ]
    assert days[-1].day == datetime.now(UTC).strftime("%Y-%m-%d")
    assert len(busy.status().burndown) == 14


def test_why_says_what_a_task_waits_for(busy: Coordinator, board_url: str) -> None:
    busy.dispatch(title="T", role="worker", depends_on=["TASK-1", "TASK-5"], not_before=LATER)
    wanted = {
        "TASK-1": ["ready"],
        "TASK-2": ["held"],
        "TASK-3": ["blocked"],
        "TASK-4": ["in_review"],
        "TASK-5": ["finished"],
        "TASK-6": ["finished"],
        "TASK-8": ["dependency", "not_before"],
    }
    for task, codes in wanted.items():
        why = busy.why(task=task)
        assert (task, [reason.code for reason in why.reasons]) == (task, codes)
        assert why.ready is (codes == ["ready"])
    held = busy.why(task="TASK-2").reasons[0]
    assert (held.ref, held.until) == ("TASK-2@1", busy.mine()[0].lease_until)
    assert "alice" in held.message
    assert "no key" in busy.why(task="TASK-3").reasons[0].message
    assert busy.why(task="TASK-8").reasons[0].ref == "TASK-1"
    busy.claim_review(agent="rita")
    assert "rita" in busy.why(task="TASK-4").reasons[0].message
    age(board_url, 901)
    assert busy.why(task="TASK-2").reasons[0].code == "expired"


def test_why_says_the_reason_of_a_block_whatever_was_written_since(board: Coordinator) -> None:
    board.dispatch(title="T", role="worker")
    board.block(handle=board.claim_next(role="worker"), reason="the vendor is down")
    for number in range(21):
        board.comment(task="TASK-1", text=f"still waiting {number}")
    assert board.why(task="TASK-1").reasons[0].message == "it is BLOCKED: the vendor is down"


def test_ready_is_true_exactly_when_a_claim_would_take_it(board: Coordinator, board_url: str) -> None:
    soon = datetime.now(UTC) + timedelta(hours=1)
    board.dispatch(title="T", role="worker", not_before=soon)
    board.dispatch(title="T", role="worker", depends_on=["TASK-1"])
    assert [board.why(task=f"TASK-{n}").ready for n in (1, 2)] == [False, False]
    assert not board.why_idle(role="worker").ready
    assert board.claim_next(role="worker") is None
    age(board_url, 3601)
    assert board.why(task="TASK-1").ready
    assert board.why_idle(role="worker").ready
    assert board.claim_next(role="worker").task.id == "TASK-1"


def test_why_idle_counts_what_stands_in_the_way_and_says_until_when(busy: Coordinator) -> None:
    busy.dispatch(title="T", role="worker", not_before=LATER)
    busy.dispatch(title="T", role="worker", depends_on=["TASK-1"])
    busy.claim_task(task="TASK-1")
    busy.claim_task(task="TASK-7")
    why = busy.why_idle(role="worker")
    reasons = {reason.code: reason for reason in why.reasons}
    assert not why.ready
    assert set(reasons) == {"dependency", "not_before", "held", "blocked", "in_review"}
    assert reasons["not_before"].until == LATER
    assert reasons["held"].until == min(task.lease_until for task in busy.mine())
    assert reasons["held"].message.startswith("3 ")


def test_why_idle_names_the_roles_that_have_work(board: Coordinator) -> None:
    board.dispatch(title="T", role="reviewer")
    reason = board.why_idle(role="worker").reasons[0]
    assert reason.code == "no_tasks"
    assert "reviewer (1)" in reason.message
    assert board.why_idle(role="reviewer").reasons[0].code == "ready"


def test_why_idle_tells_of_what_this_role_waits_for_in_vain_only(board: Coordinator) -> None:
    board.dispatch(title="First", role="worker")
    board.dispatch(title="Waits", role="other", depends_on=["TASK-1"])
    board.cancel(task="TASK-1")
    assert [reason.code for reason in board.why_idle(role="worker").reasons] == ["no_tasks"]
    assert [reason.code for reason in board.why_idle(role="other").reasons] == ["dependency", "unreachable"]


def test_lint_names_twins_by_the_first_of_them(board: Coordinator) -> None:
    board.dispatch(title="Other", role="worker")
    for _ in range(9):
        board.dispatch(title="Twin", role="worker")
    for number in range(3, 10):
        board.cancel(task=f"TASK-{number}")
    (issue,) = board.lint()
    assert (issue.task_id, issue.severity) == ("TASK-2", "warn")
    assert "1 other" in issue.message


def test_whose_work_was_finished_is_known_after_a_restore(board: Coordinator, board_url: str) -> None:
    """Attempts keep their numbers there, and the tasks' own go on by a margin."""
    board.dispatch(title="T", role="worker")
    done = board.complete(handle=board.claim_next(role="worker"))
    before = board.list_finished(by_agent="alice")
    assert [each.agent for each in before] == ["alice"]
    settle(as_owner(board_url))
    assert board.list_finished(by_agent="alice") == before
    assert board.complete(handle="TASK-1@1").already
    assert board.view(task=done.task.id).task.attempt > 1


def test_what_waits_in_vain_is_counted_by_tasks_and_effort_by_whole_agents(board: Coordinator, board_url: str) -> None:
    """Neither one task with many cancelled dependencies nor many agents hide what comes behind a limit."""
    plan = [PlannedTask(f"k{n}", "T", "worker") for n in range(101)]
    many = tuple(each.key for each in plan)
    board.dispatch_plan(plan=[*plan, *(PlannedTask(k, "T", "w", depends_on=many) for k in ("waits", "waits too"))])
    ended = "ended_at, outcome) SELECT id, {} FROM tasks WHERE number {}"
    now = rows(board_url, "SELECT max(updated_at) FROM tasks")[0][0]
    for attempt, agent, outcome, numbers in (
        (1, "'agent-' || number", "completed", "<= 60"),
        (1, "'zoe'", "completed", "= 61"),
        (2, "'zoe'", "expired", "= 61"),
    ):
        told = f"{attempt}, {agent}, '{now}', '{now}', '{outcome}'"
        run(board_url, f"INSERT INTO attempts (task_id, attempt, agent, started_at, {ended.format(told, numbers)}")
    run(board_url, "UPDATE tasks SET status = 'CANCELLED' WHERE number <= 101")
    assert board.status().unreachable == ("TASK-102", "TASK-103")
    by_agent = board.effort().by_agent
    assert (len(by_agent), next(iter(by_agent.items()))) == (50, ("zoe", {"completed": 1, "expired": 1}))


def test_what_ended_last_and_how_attempts_ended(board: Coordinator, board_url: str) -> None:
    for number in range(5):
        board.dispatch(title=f"Task {number}", role="worker", project="p" if number else "q")
    board.cancel(task="TASK-1")
    bob = board.acting(agent="bob")
    bob.claim_task(task="TASK-2", lease_seconds=60)
    age(board_url, 86_400)
    board.sweep()
    board.complete(handle=board.claim_task(task="TASK-2"))
    bob.complete(handle=bob.claim_task(task="TASK-3"), review=True)
    board.approve(task="TASK-3")
    found = board.list_finished()
    assert [(each.id, each.status, each.agent) for each in found] == [
        ("TASK-3", "DONE", "bob"),
        ("TASK-2", "DONE", "alice"),
        ("TASK-1", "CANCELLED", None),
    ]
    assert all(each.created_at <= (each.started_at or each.created_at) <= each.finished_at for each in found)
    assert [each.id for each in board.list_finished(limit=1)] == ["TASK-3"]
    assert [each.id for each in board.list_finished(after="TASK-3", limit=1)] == ["TASK-2"]
    assert [each.id for each in board.list_finished(after="TASK-2", by_agent="alice")] == []
    assert [each.id for each in board.list_finished(after="TASK-1")] == []
    with pytest.raises(InvalidInput, match="TASK-4 is not finished"):
        board.list_finished(after="TASK-4")
    assert [each.id for each in board.list_finished(by_agent="alice")] == ["TASK-2"]
    assert [each.id for each in board.list_finished(status="CANCELLED")] == ["TASK-1"]
    assert [each.id for each in board.list_finished(query="tASK 2", project="p", role="worker")] == ["TASK-3"]
    effort = board.effort(days=2)
    assert list(effort.by_day.values()) == [{}, {"completed": 1, "expired": 1, "submitted": 1}]
    assert effort.by_agent == {"bob": {"expired": 1, "submitted": 1}, "alice": {"completed": 1}}
    assert board.effort(project="q").by_agent == {}
    assert abs(board.now() - datetime.now(UTC)) < timedelta(minutes=5)
