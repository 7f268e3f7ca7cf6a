"""View, list, search, mine, export: pages, order, filters; text is data."""

from __future__ import annotations

import json

import pytest

from coordinate import Coordinator
from coordinate.db.engine import Tx
from coordinate.errors import NotFound
from coordinate.plans import PlannedTask
from coordinate.records import as_json
from tests.tables import nothing_changes, refused, run


def plan(board: Coordinator, count: int) -> None:
    board.dispatch_plan(plan=[PlannedTask(f"k{n}", f"Step {n}") for n in range(count)])


def ids(page: object) -> list[str]:
    return [task.id for task in page.tasks]


def test_view_shows_the_newest_first_and_pages_back(board: Coordinator) -> None:
    plan(board, 1)
    for number in range(25):
        board.comment(task="TASK-1", text=f"note {number}")
    view = board.view(task="TASK-1")
    assert [note.content for note in view.notes] == [f"note {n}" for n in range(24, 4, -1)]
    older = board.view(task="TASK-1", notes_before=view.more_notes, history_before=view.more_history)
    assert [note.content for note in older.notes] == [f"note {n}" for n in range(4, -1, -1)]
    assert (older.more_notes, older.more_history) == (None, None)
    assert [entry.action for entry in older.history][-1] == "DISPATCH"
    assert len(view.history) + len(older.history) == 26
    none = board.view(task="TASK-1", notes=0, history=0)
    assert (none.notes, none.history) == ((), ())
    assert len(board.view(task="TASK-1", notes=1000).notes) == 25
    with pytest.raises(NotFound, match="there is no TASK-2"):
        board.view(task="TASK-2")


def test_a_list_goes_in_the_queues_order_page_by_page(board: Coordinator, board_url: str) -> None:
    plan(board, 25)
    run(board_url, "UPDATE tasks SET created_at = (SELECT min(created_at) FROM tasks)")
    board.set_priority(tasks=["TASK-24"], priority=1)
    found, after = [], None
    while True:
        page = board.list_tasks(limit=10, after=after)
        found += ids(page)
        if (after := page.next) is None:
            break
    assert found == ["TASK-24", *(f"TASK-{n}" for n in range(1, 26) if n != 24)]
    assert board.list_tasks(limit=25).next is None


def test_a_page_goes_on_where_the_last_one_ended_whatever_was_added(board: Coordinator) -> None:
    plan(board, 4)
    page = board.list_tasks(limit=2)
    board.dispatch(title="Urgent", role="worker", priority=0)
    board.cancel(task="TASK-2")
    assert ids(board.list_tasks(limit=2, after=page.next)) == ["TASK-3", "TASK-4"]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"status": "IN_PROGRESS"}, ["TASK-2"]),
        ({"role": "reviewer"}, ["TASK-3"]),
        ({"assigned_to": "alice"}, ["TASK-2"]),
        ({"project": "api"}, ["TASK-1", "TASK-2"]),
        ({"project": "api", "status": "TODO"}, ["TASK-1"]),
        ({"query": "step"}, ["TASK-1", "TASK-2"]),
        ({"query": "step", "project": "default"}, []),
        ({"role": "nobody"}, []),
    ],
)
def test_filters_narrow_and_are_exact(board: Coordinator, filters: dict[str, str], found: list[str]) -> None:
    board.dispatch(title="Step one", role="worker", project="api")
    board.dispatch(title="Step two", role="worker", project="api")
    board.dispatch(title="Look", role="reviewer")
    board.claim_task(task="TASK-2")
    assert ids(board.list_tasks(**filters)) == found


TEXTS = ["100% sure", "1000 sure", "a_b", "axb", "C:\\temp", "multi-agent", "TODO: fix", "don't", 'say "hi"', "f(x)*"]
LANGUAGES = [
    ("STRASSE", "Straße"),
    ("straße", "STRASSE"),
    ("ÉCOLE", "e\u0301cole"),
    ("ΣΊΣΥΦΟΣ", "Σίσυφος"),
    ("привет", "ПРИВЕТ"),
    ("ǆ", "Ǆ"),
    ("🚀", "a🚀b"),
    ("İ", "i̇"),
]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("%", ["100% sure"]),
        ("_", ["a_b"]),
        ("\\", ["C:\\temp"]),
        ("100%", ["100% sure"]),
        ("a_b", ["a_b"]),
        ("Multi-Agent", ["multi-agent"]),
        ("todo:", ["TODO: fix"]),
        ("DON'T", ["don't"]),
        ('"', ['say "hi"']),
        ("(", ["f(x)*"]),
        ("*", ["f(x)*"]),
        ("", TEXTS),
        ("no such " * 1000, []),
        ("👍", []),
    ],
)
def test_search_is_literal(board: Coordinator, query: str, found: list[str]) -> None:
    """QL-21: title, body and notes."""
    for text in TEXTS:
        board.dispatch(title=text, role="title")
        board.dispatch(title="T", body=f"x{text}y", role="body")
        task = board.dispatch(title="T", role="note").task.id
        board.comment(task=task, text=f"x{text}y")
    wanted = [TEXTS.index(text) for text in found]
    for place, role in enumerate(("title", "body", "note"), 1):
        assert ids(board.list_tasks(role=role, query=query)) == [f"TASK-{3 * n + place}" for n in wanted]


@pytest.mark.parametrize(("query", "text"), LANGUAGES)
def test_search_ignores_letter_case_in_every_language(board: Coordinator, query: str, text: str) -> None:
    """QL-21: composed or not, and where one letter folds to two."""
    board.dispatch(title=f"x {text} y", role="worker")
    board.dispatch(title="another", role="worker")
    board.comment(task="TASK-2", text=text)
    assert ids(board.list_tasks(query=query)) == ["TASK-1", "TASK-2"]


def test_an_edited_task_is_found_by_its_new_text_only(board: Coordinator) -> None:
    board.dispatch(title="Old", body="Same", role="worker")
    board.edit(task="TASK-1", title="New")
    assert [ids(board.list_tasks(query=text)) for text in ("old", "new", "same")] == [[], ["TASK-1"], ["TASK-1"]]


def test_an_export_holds_everything_by_number_page_by_page(board: Coordinator, board_url: str) -> None:
    plan(board, 12)
    board.comment(task="TASK-2", text="first")
    board.comment(task="TASK-2", text="second")
    board.edit(task="TASK-2", scopes=["src/**"])
    board.release(handle=board.claim_task(task="TASK-2"))
    with nothing_changes(board_url):
        found = list(board.export(page=5))
    assert [each.task.number for each in found] == list(range(1, 13))
    second = found[1]
    assert [note.content for note in second.notes] == ["first", "second"]
    assert [entry.action for entry in second.history] == [
        "DISPATCH",
        "COMMENT",
        "COMMENT",
        "UPDATE",
        "CLAIM",
        "RELEASE",
    ]
    assert [(each.attempt, each.outcome) for each in second.attempts] == [(1, "released")]
    assert [scope.pattern for scope in second.scopes] == ["src/**"]


def test_records_print_as_plain_json_with_utc_times(board: Coordinator) -> None:
    plan(board, 1)
    claim = board.claim_next(role="worker")
    printed = json.loads(json.dumps(as_json(claim)))
    assert printed["handle"] == "TASK-1@1"
    assert printed["task"]["depends_on"] == []
    assert printed["lease_until"].endswith("Z")
    assert len(printed["lease_until"]) == len("2030-01-31T12:00:00.000Z")


def test_what_came_of_dependencies_is_read_only_where_it_is_shown(
    board: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result may have 100,000 characters, and a page a thousand tasks that wait for the same."""
    board.dispatch(title="first", role="first")
    board.dispatch(title="next", role="worker", depends_on=["TASK-1"])
    board.complete(handle=board.claim_next(role="first"), result="long")
    asked: list[str] = []
    real = Tx.all
    monkeypatch.setattr(Tx, "all", lambda tx, name, /, **given: asked.append(name) or real(tx, name, **given))
    assert [task.depends_on for task in board.list_tasks(role="worker").tasks] == [("TASK-1",)]
    assert board.edit(task="TASK-2", priority=1).depends_on == ("TASK-1",)
    board.why(task="TASK-2")
    assert "dependencies_of" not in asked
    assert board.view(task="TASK-2").dependencies[0].result == "long"
    assert board.claim_next(role="worker").dependencies[0].result == "long"


def test_reading_changes_nothing(board: Coordinator, board_url: str) -> None:
    plan(board, 3)
    board.claim_next(role="worker")
    with nothing_changes(board_url):
        board.view(task="TASK-1")
        board.list_tasks(query="step")
        board.mine()
        board.stats()
        board.status()
        board.lint()
        board.why(task="TASK-1")
        board.why_idle(role="worker")
        board.list_events()
        board.search_events(query="step")
        board.tail_events()
        list(board.export())
        board.prune(dry_run=True)
    with refused(board_url, NotFound):
        board.why(task="TASK-9")
