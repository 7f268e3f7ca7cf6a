"""Plans become tasks: in their order, with their dependencies, all or none."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from coordinate import Coordinator
from coordinate.errors import InvalidInput, NotFound
from coordinate.plans import PlannedTask, parse_plan
from tests.tables import assert_sound, nothing_changes, refused, rows


def test_a_plan_is_written_in_its_order_with_local_dependencies(board: Coordinator, board_url: str) -> None:
    board.dispatch(title="There before", role="worker")
    plan = parse_plan("## Second [key:b] [after:a,TASK-1]\nbody\n## First [key:a] [p5] [role:reviewer]\n")
    made = [each.task for each in board.dispatch_plan(plan=plan, project="api")]
    assert [(task.id, task.title, task.project) for task in made] == [
        ("TASK-2", "Second", "api"),
        ("TASK-3", "First", "api"),
    ]
    assert made[0].depends_on == ("TASK-1", "TASK-3")
    assert (made[0].unmet_dependencies, made[1].priority, made[1].role_boundary) == (2, 5, "reviewer")
    assert_sound(board_url)


def test_what_is_answered_of_new_tasks_is_what_stands_on_the_board(board: Coordinator) -> None:
    board.set_project_defaults(name="api", max_attempts=2)
    for number in range(9):
        board.dispatch(title=f"Before {number}", role="other")
    board.complete(handle=board.claim_task(task="TASK-2"))
    again = PlannedTask("again", "Once more", dedup_key="k")
    board.dispatch_plan(plan=[again])
    plan = [
        PlannedTask("plain", 'Größe "1" \\ 🚀', body="\u00c5 \u1e9e\r\n\tend "),
        PlannedTask("waits", "Waits", depends_on=("last", "TASK-9", "plain", "TASK-2", "again", "last")),
        PlannedTask("met", "Waits no more", depends_on=("TASK-2",), project="api"),
        again,
        PlannedTask("scoped", "Has scopes", scopes=("src/", "docs/*.md", "src"), max_attempts=7, project="api"),
        PlannedTask("soon", "Later", not_before=datetime(2090, 1, 1, tzinfo=UTC), dedup_key="soon"),
        PlannedTask("last", "Was to be later", not_before=datetime(2020, 1, 1, tzinfo=UTC), priority=0),
    ]
    made = board.dispatch_plan(plan=plan)
    assert [board.view(task=each.task.id).task for each in made] == [each.task for each in made]
    assert [each.task.id for each in made] == [f"TASK-{number}" for number in (11, 12, 13, 10, 14, 15, 16)]
    assert [each.already for each in made] == [each is again for each in plan]
    waits = made[1].task
    assert waits.depends_on == ("TASK-2", "TASK-9", "TASK-10", "TASK-11", "TASK-16")
    assert [each.task.unmet_dependencies for each in made] == [0, 4, 0, 0, 0, 0, 0]
    assert [each.task.max_attempts for each in made] == [5, 5, 2, 5, 7, 5, 5]
    assert [each.task.parked for each in made] == ["", "", "", "", "", "later", ""]


def test_each_new_task_of_a_plan_has_its_line_of_history_and_its_event(board: Coordinator, board_url: str) -> None:
    """Also where many rows go in by one statement, and some are left over."""
    titles = [f"Step {number}" for number in range(1, 98)]
    plan = [PlannedTask(f"k{number}", title, priority=number) for number, title in enumerate(titles)]
    board.dispatch_plan(plan=[PlannedTask("old", "Step 1", priority=0, dedup_key="old")])
    board.dispatch_plan(plan=[PlannedTask("old", "Old", dedup_key="old"), *plan[1:]])
    expected = [(f"TASK-{number}", title, number - 1) for number, title in enumerate(titles, 1)]
    assert rows(board_url, "SELECT id, title, priority FROM tasks ORDER BY number") == expected
    told = [(task_id, "alice", "DISPATCH", None, "") for task_id, _, _ in expected]
    assert rows(board_url, "SELECT task_id, agent, action, attempt, detail FROM history ORDER BY id") == told
    created = board.list_events(event_type="task.created", limit=1_000)
    assert [(event.ref, event.agent, event.payload) for event in created] == [
        (
            task_id,
            "alice",
            {
                "task_id": task_id,
                "title": title,
                "project": "default",
                "priority": str(priority),
                "agent": "alice",
                "role_boundary": "worker",
            },
        )
        for task_id, title, priority in expected
    ]


@pytest.mark.parametrize(
    "last",
    [
        PlannedTask("z", "", line=9),
        PlannedTask("z", "Z", depends_on=("TASK-99",)),
        PlannedTask("z", "Z", depends_on=("TASK-2",)),
        PlannedTask("z", "Z", depends_on=("nowhere",)),
        PlannedTask("z", "Z", depends_on=("z",)),
        PlannedTask("z", "Z", priority=1000),
        PlannedTask("z", "Z", scopes=("../outside",)),
        PlannedTask("a", "Z"),
    ],
    ids=["blank", "unknown", "the id it will have", "no such key", "itself", "priority", "scope", "key twice"],
)
def test_a_plan_with_one_bad_task_leaves_none(board: Coordinator, board_url: str, last: PlannedTask) -> None:
    with nothing_changes(board_url), pytest.raises((InvalidInput, NotFound)):
        board.dispatch_plan(plan=[PlannedTask("a", "A"), PlannedTask("b", "B", depends_on=("a",)), last])
    assert board.dispatch(title="One", role="worker").task.id == "TASK-1"


def test_a_plan_dispatched_again_with_its_dedup_keys_is_there_once(board: Coordinator, board_url: str) -> None:
    def plan(*names: str) -> list[PlannedTask]:
        return [PlannedTask(name, name.upper(), dedup_key=f"plan/{name}") for name in names]

    board.dispatch_plan(plan=plan("a", "b"))
    again = board.dispatch_plan(plan=[*plan("a", "b"), PlannedTask("c", "C", depends_on=("a",), dedup_key="plan/c")])
    assert [(each.task.id, each.already) for each in again] == [("TASK-1", True), ("TASK-2", True), ("TASK-3", False)]
    assert again[2].task.depends_on == ("TASK-1",)
    assert_sound(board_url)


def test_two_tasks_of_one_plan_under_one_dedup_key_are_refused(board: Coordinator, board_url: str) -> None:
    twice = [PlannedTask("a", "A", dedup_key="k"), PlannedTask("b", "B", dedup_key="k")]
    with refused(board_url, InvalidInput):
        board.dispatch_plan(plan=twice)
