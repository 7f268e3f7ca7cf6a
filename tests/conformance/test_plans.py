"""Plans become tasks: in their order, with their dependencies, all or none."""

from __future__ import annotations

import pytest

from coordinate import Coordinator
from coordinate.errors import InvalidInput, NotFound
from coordinate.plans import PlannedTask, parse_plan
from tests.tables import assert_sound, nothing_changes, refused


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


@pytest.mark.parametrize(
    "last",
    [
        PlannedTask("z", "", line=9),
        PlannedTask("z", "Z", depends_on=("TASK-99",)),
        PlannedTask("z", "Z", depends_on=("nowhere",)),
        PlannedTask("z", "Z", depends_on=("z",)),
        PlannedTask("z", "Z", priority=1000),
        PlannedTask("z", "Z", scopes=("../outside",)),
        PlannedTask("a", "Z"),
    ],
    ids=["blank", "unknown", "no such key", "itself", "priority", "scope", "key twice"],
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
