"""Plans: what is read from markdown, JSON and JSONL, what is refused and how it is told, and what lint says."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinate.errors import InvalidInput
from coordinate.plans import LintIssue, PlannedTask, lint_plan, order_of, parse_plan


def refused(text: str, **kwargs: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        parse_plan(text, **kwargs)
    return checked(caught.value)


def checked(error: InvalidInput) -> InvalidInput:
    """Every refusal can be printed, says where, and lists what is wrong, the first of it in the message."""
    json.dumps(error.as_dict(), ensure_ascii=False).encode()
    problems = error.facts["problems"]
    assert isinstance(problems, list)
    assert 1 <= len(problems) <= 100
    assert isinstance(problems[0], dict)
    assert set(problems[0]) == {"line", "task", "message"}
    assert str(problems[0]["message"]) in error.message
    assert error.facts["line"] == problems[0]["line"]
    assert error.facts["field"]
    assert error.hint
    return error


def messages(error: InvalidInput) -> list[str]:
    problems: Any = error.facts["problems"]
    return [problem["message"] for problem in problems]


def lines(error: InvalidInput) -> list[int]:
    problems: Any = error.facts["problems"]
    return [problem["line"] for problem in problems]


def one(**entry: object) -> PlannedTask:
    [task] = parse_plan(json.dumps([{"title": "A", **entry}]))
    return task


# --- Markdown ---


PLAN = """\
# The plan

What it is for.

## [p10] [key:schema] Design the schema
- tables
- indexes

Then write it down.

### Build the API [role:worker][project:api] [after:schema,TASK-4] [scope:src/api/**]
## Review [role:reviewer] the API [after:build-the-api] [scope:src/[ab]/*.py]
"""


def test_markdown_headings_become_tasks_with_their_markers_cut_out() -> None:
    assert parse_plan(PLAN) == [
        PlannedTask(
            "schema", "Design the schema", priority=10, line=5, body="- tables\n- indexes\n\nThen write it down."
        ),
        PlannedTask(
            "build-the-api",
            "Build the API",
            project="api",
            depends_on=("schema", "TASK-4"),
            scopes=("src/api/**",),
            line=11,
        ),
        PlannedTask(
            "review-the-api",
            "Review the API",
            role="reviewer",
            depends_on=("build-the-api",),
            scopes=("src/[ab]/*.py",),
            line=12,
        ),
    ]


@pytest.mark.parametrize("change", [lambda t: "\ufeff" + t, lambda t: t.replace("\n", "\r\n"), lambda t: "\n\n" + t])
def test_byte_order_mark_and_line_ends_make_no_difference(change: Any) -> None:
    expected = [{**asdict(task), "line": 0} for task in parse_plan(PLAN)]
    assert [{**asdict(task), "line": 0} for task in parse_plan(change(PLAN))] == expected


@pytest.mark.parametrize(
    "block",
    [
        "```\n## no task\n```",
        "~~~~ sh\n## no task\n~~~\n## no task\n~~~~~",
        "````md\n```\n## no task\n```\n````",
        "```\n## no task\n    ```\n## no task\n```",
        "- step\n\n  ```sh\n  ## no task\n  ```",
        "- ```sh\n  ## no task\n  ```",
        "1. step\n\n     ```sh\n     ## no task\n     ```",
        "<!--\n## no task\n-->",
        "    ## no task",
        "# no task",
        "> ## no task",
        r"\## no task",
    ],
)
def test_what_only_looks_like_a_heading_is_body(block: str) -> None:
    first, second = parse_plan(f"## One\n\n{block}\n\n## Two\n")
    assert (first.title, second.title) == ("One", "Two")
    assert first.body == block


def test_inline_code_at_the_start_of_a_line_opens_no_block() -> None:
    assert [task.title for task in parse_plan("## One\n```not a fence```\n## Two")] == ["One", "Two"]


def test_a_block_that_is_never_closed_is_refused_since_it_would_swallow_tasks() -> None:
    assert lines(refused("## One\n\n```sh\nmake\n\n## Two\n")) == [3]
    assert lines(refused("## One\n<!-- later\n## Two\n")) == [2]


@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("##No space", "No space"),
        ("   ####### Deep", "Deep"),
        ("## Closed ##", "Closed"),
        ("## Learn C#", "Learn C#"),
        ("##   Wide    space\t", "Wide space"),
        ("## `[p10]` is a marker", "`[p10]` is a marker"),
        ("## See [p10](https://example.org)", "See [p10](https://example.org)"),
        ("## Fix a[0]", "Fix a[0]"),
        ("## Über 日本", "Über 日本"),
    ],
)
def test_titles(heading: str, title: str) -> None:
    [task] = parse_plan(heading)
    assert (task.title, task.priority) == (title, 100)


@pytest.mark.parametrize(("marker", "priority"), [("[p0]", 0), ("[P1]", 1), ("[p007]", 7), ("[p999]", 999)])
def test_priority_markers(marker: str, priority: int) -> None:
    assert parse_plan(f"## A {marker} b")[0] == PlannedTask("a-b", "A b", priority=priority, line=1)


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("[p1000]", "from 0 to 999, not 1000"),
        ("[p-1]", "from 0 to 999"),
        ("[rol:reviewer]", "did you mean 'role'?"),
        ("[owner:me]", "no known marker"),
        ("[role: ]", "must not be blank"),
        ("[after:,]", "is empty"),
        ("[key:a,b]", "without commas"),
        ("[key:TASK-4]", "not of the form TASK-12"),
        (f"[project:{'x' * 101}]", "101 characters"),
    ],
)
def test_what_is_no_valid_marker_stays_in_the_title_and_lint_says_why(marker: str, said: str) -> None:
    [task] = parse_plan(f"## A {marker}")
    assert task.title == f"A {marker}"
    [issue] = lint_plan([task])
    assert issue.severity == "warn"
    assert said in issue.message


def test_a_marker_given_twice_counts_once_and_the_other_shows() -> None:
    [task] = parse_plan("## [p1] A [p2] [after:TASK-1] [after:TASK-2]")
    assert (task.title, task.priority, task.depends_on) == ("A [p2]", 1, ("TASK-1", "TASK-2"))
    assert [issue.severity for issue in lint_plan([task])] == ["warn"]


def test_the_key_defaults_to_the_slug_of_a_title_that_one_task_alone_has() -> None:
    text = "## Same!\n## same\n## Given [key:other]\n## Other\n## !!!\n## Größe_2\n"
    assert [task.key for task in parse_plan(text)] == ["", "", "other", "", "", "grösse-2"]


def test_the_body_keeps_its_indent_and_loses_only_blank_edges() -> None:
    assert parse_plan("## A\n\n  \n    code\n\n  text\n\n\n")[0].body == "    code\n\n  text"


def test_a_heading_without_title_is_an_error_with_its_line() -> None:
    error = refused("## A\n##\n## [p1]\n", source="plan.md")
    assert lines(error) == [2, 3]
    assert error.message == "plan.md:2: entry 2: title must not be blank"


@pytest.mark.parametrize("text", ["", " \n", "# Only a title\n\n- [ ] step", "hello", "null", "[]", '{"tasks": []}'])
def test_a_text_without_tasks_is_refused_with_the_shapes_of_a_plan(text: str) -> None:
    assert "heading" in refused(text).hint


# --- JSON ---


def test_json_takes_every_key() -> None:
    entry = {
        "key": "a",
        "title": " Build ",
        "role": "reviewer",
        "priority": 0,
        "project": "api",
        "body": " kept \n",
        "depends_on": ["b", "TASK-4"],
        "scopes": ["src/{a,b}", "docs"],
        "not_before": "2030-01-31T10:00:00.5+02:00",
        "dedup_key": "once",
        "max_attempts": 3,
    }
    expected = PlannedTask(
        "a",
        "Build",
        "reviewer",
        0,
        "api",
        " kept \n",
        ("b", "TASK-4"),
        ("src/{a,b}", "docs"),
        datetime(2030, 1, 31, 8, 0, 0, 500_000, tzinfo=UTC),
        "once",
        3,
        1,
    )
    assert parse_plan(json.dumps([entry])) == [expected]
    assert expected.not_before is not None
    assert parse_plan(json.dumps(entry)) == parse_plan(json.dumps({"tasks": [entry]})) == [expected]


def test_null_means_not_given_and_role_boundary_is_the_role() -> None:
    assert one(role=None, depends_on=None, not_before=None) == PlannedTask("", "A", line=1)
    assert one(role_boundary="reviewer").role == "reviewer"
    assert "is given twice" in refused('[{"title": "A", "role": "x", "role_boundary": "x"}]').message


def test_lists_may_be_written_with_commas_and_braces_are_not_cut() -> None:
    assert one(depends_on="a, TASK-4,", scopes="src,docs").depends_on == ("a", "TASK-4")
    assert one(scopes="src,docs").scopes == ("src", "docs")
    assert one(scopes="src/{a,b}").scopes == ("src/{a,b}",)


def test_jsonl_and_lines_of_entries() -> None:
    assert [task.line for task in parse_plan('\ufeff{"title": "A"}\r\n\r\n{"title": "B"}\r\n')] == [1, 3]
    pretty = json.dumps({"tasks": [{"title": '"}[{\\'}, {"title": "B", "depends_on": ["x"]}, {"title": "C"}]}, indent=1)
    found = [pretty.split("\n")[task.line - 1].strip() for task in parse_plan(pretty)]
    assert found == ["{"] * 3
    assert [task.line for task in parse_plan('\n[{"title": "A"},\n{"title":\n"B"}, {"title": "C"}]')] == [2, 3, 4]
    assert len(parse_plan('{"tasks": [{"title": "A"}\n,{"title": "B"}]}')) == 2


def test_jsonl_tells_each_bad_line() -> None:
    error = refused('{"title": "A"}\n{"title": }\n[1]\n{"title": " "}\n')
    assert lines(error) == [2, 3, 4]


@pytest.mark.parametrize(
    "text",
    [
        "[![build](https://example.org/b.svg)](https://example.org)\n\n## A",
        "[ ] first\n## A",
        "[toc]\n## A",
        "{% raw %}\n## A",
    ],
)
def test_markdown_may_begin_with_a_bracket(text: str) -> None:
    assert [task.title for task in parse_plan(text)] == ["A"]


def test_a_mistake_in_json_never_makes_it_markdown() -> None:
    error = refused('[{"title": "A",\n "body": "x\n## No task\n"}]')
    assert "not JSON" in error.message
    assert error.facts["line"] == 2


@pytest.mark.parametrize(
    ("entry", "field", "said"),
    [
        ({}, "title", "the title is missing"),
        ({"title": None}, "title", "the title is missing"),
        ({"title": " \t"}, "title", "blank"),
        ({"title": 5}, "title", "text, not 5"),
        ({"title": "x" * 501}, "title", "501"),
        ({"title": "a\nb"}, "title", "one line"),
        ({"title": "a\0"}, "title", "NUL"),
        ({"title": "a\x1b[2J"}, "title", "one line"),
        ({"title": "\ud800"}, "title", "surrogate"),
        ({"title": "A", "body": "\0"}, "body", "NUL"),
        ({"title": "A", "body": "x" * 100_001}, "body", "100,001"),
        ({"title": "A", "role": ""}, "role", "blank"),
        ({"title": "A", "role": "x" * 101}, "role", "101"),
        ({"title": "A", "project": True}, "project", "not true"),
        ({"title": "A", "key": "TASK-4"}, "key", "TASK-12"),
        ({"title": "A", "key": "a,b"}, "key", "commas"),
        ({"title": "A", "priority": True}, "priority", "not true"),
        ({"title": "A", "priority": "5"}, "priority", "not text"),
        ({"title": "A", "priority": 5.0}, "priority", "not 5.0"),
        ({"title": "A", "priority": -1}, "priority", "not -1"),
        ({"title": "A", "priority": 1000}, "priority", "not 1000"),
        ({"title": "A", "priority": 10**400}, "priority", "not 1000"),
        ({"title": "A", "priority": float("nan")}, "priority", "not nan"),
        ({"title": "A", "priority": float("inf")}, "priority", "not inf"),
        ({"title": "A", "max_attempts": 0}, "max_attempts", "from 1"),
        ({"title": "A", "depends_on": 4}, "depends_on", "a list of texts"),
        ({"title": "A", "depends_on": [4]}, "depends_on", "not 4"),
        ({"title": "A", "depends_on": [""]}, "depends_on", "blank"),
        ({"title": "A", "depends_on": {"a": 1}}, "depends_on", "an object"),
        ({"title": "A", "depends_on": ["a"] * 1001}, "depends_on", "1,001"),
        ({"title": "A", "scopes": ["\udc00"]}, "scopes", "surrogate"),
        ({"title": "A", "not_before": "2030-01-31T10:00:00"}, "not_before", "time zone"),
        ({"title": "A", "not_before": "2030-01-31"}, "not_before", "such as"),
        ({"title": "A", "not_before": "2030-02-30T10:00:00Z"}, "not_before", "exists"),
        ({"title": "A", "not_before": "0001-01-01T00:00:00+23:00"}, "not_before", "1970"),
        ({"title": "A", "not_before": "9999-12-31T23:00:00-23:00"}, "not_before", "9998"),
        ({"title": "A", "not_before": 5}, "not_before", "text"),
        ({"title": "A", "priorty": 5}, "priorty", "did you mean 'priority'?"),
        ({"title": "A", "\ud800\0": 5}, "??", "no key of a task"),
    ],
)
def test_a_bad_value_is_refused_by_its_field(entry: dict[str, object], field: str, said: str) -> None:
    error = refused(json.dumps([entry]))
    assert error.facts["field"] == field
    assert said in error.message
    assert lines(error) == [1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"title": "A", "title": "B"}]', "title is given twice"),
        ('[{"title": "A"}, 5]', "must be an object, not 5"),
        ('[{"title": "A"}, null]', "not null"),
        ('{"tasks": {}}', "must be a list"),
        ('{"tasks": [], "tasks": []}', "given twice"),
        ('{"tasks": [], "name": "x"}', "unknown key 'name'"),
        ('[{"title": "A"}', "not JSON"),
        ("[1,", "not JSON"),
        ("[" * 200_000, "nested"),
        ('[{"title": "A", "priority": ' + "9" * 5000 + "}]", "not JSON"),
        ("## A\0", "NUL"),
        ("# T\n## A \ud800", "surrogate"),
        ("## " + "x" * 501, "501"),
        ("## A\x1b[2J", "control"),
        ("é" * 600_000, "1 MiB"),
        ("## A\n" + "x" * 100_001, "100,001"),
        ("## A\n" * 10_001, "10,001 tasks"),
    ],
)
def test_nasty_texts_are_refused(text: str, said: str) -> None:
    assert said in refused(text).message


def test_the_limits_themselves_are_allowed() -> None:
    assert len(one(title="x" * 500, body="y" * 100_000, role="z" * 100).title) == 500
    assert len(parse_plan("## A\n" * 10_000)) == 10_000


def test_all_problems_are_told_at_once_up_to_a_hundred() -> None:
    error = refused('[{"title": "", "priority": -1},\n {"title": "B", "nope": 1}]', source="p.json")
    assert lines(error) == [1, 1, 2]
    assert error.message.startswith("p.json:1: entry 1: title")
    assert [task["task"] for task in error.facts["problems"]] == ["entry 1", "entry 1", "B"]  # type: ignore[union-attr, index]
    assert len(messages(refused("##\n" * 5000))) == 100


def test_hostile_texts_are_read_in_linear_time() -> None:
    size = 1_000_000
    keys = json.dumps([{f"key{number}": 1 for number in range(50_000)}])
    nasty = ["[a:", "[a:[b]", "[b:]", "`", " ", "- ", "[p", "#", "\t#", "``` ", "<!--", "[{", '{"a":', "_", "- -\n"]
    texts = [keys, '["' + "x" * size, *("## A " + part * (size // len(part)) for part in nasty)]
    texts += ["## A\n" + part * (size // len(part)) for part in nasty] + [part * (size // len(part)) for part in nasty]
    for text in texts:
        began = time.process_time()
        try:
            lint_plan(parse_plan(text))
        except InvalidInput as error:
            checked(error)
        assert time.process_time() - began < 5, text[:20]


# --- Between tasks ---


def task(key: str, *depends_on: str, **more: Any) -> PlannedTask:
    return PlannedTask(key, more.pop("title", f"Title of {key}"), depends_on=depends_on, **more)


def disordered(*tasks: PlannedTask) -> list[str]:
    with pytest.raises(InvalidInput) as caught:
        order_of(tasks)
    errors = [issue.message for issue in lint_plan(tasks) if issue.severity == "error"]
    assert sorted(errors) == sorted(messages(caught.value))
    return messages(checked(caught.value))


def test_the_order_is_the_plans_and_a_dependency_named_twice_is_kept_once() -> None:
    tasks = [task("b", "a", "TASK-4", "a", "TASK-4"), task("", "b"), task("a")]
    assert order_of(tasks) == [task("b", "a", "TASK-4"), task("", "b"), task("a")]
    assert order_of([]) == []


@pytest.mark.parametrize(
    ("tasks", "said"),
    [
        ([task("a"), task("a", line=7)], "the key 'a' is already that of 'Title of a'"),
        ([task("a")] * 2, "the key 'a' is already"),
        ([task("a", "a")], "waits for itself"),
        ([task("schema"), task("b", "shcema")], "did you mean 'schema'?"),
        ([task("build-the-api"), task("b", "Build the API")], "did you mean 'build-the-api'?"),
        ([task("a", "task-4")], "is written TASK-4"),
        ([task("a", "TASK-0")], "'TASK-0', which is the key of no task"),
        ([task("a", "TASK-" + "9" * 19)], "which is the key of no task"),
        ([task("a", "TASK-٣")], "which is the key of no task"),
        ([task("a", "b"), task("b", "a")], "in a circle: "),
    ],
)
def test_one_fault_is_one_problem(tasks: list[PlannedTask], said: str) -> None:
    [message] = disordered(*tasks)
    assert said in message


@pytest.mark.parametrize("length", [2, 3, 10, 3000])
def test_a_circle_is_named_in_the_order_of_waiting(length: int) -> None:
    tasks = [task(f"k{number}", f"k{(number + 1) % length}", "TASK-1") for number in range(length)]
    [message] = disordered(*tasks, task("", "k0"))
    names = message.split(": ")[1].split(" → ")
    assert names[0] == names[-1]
    assert length > 9 or len(names) == length + 1
    follows = {(f"k{number}", f"k{(number + 1) % length}") for number in range(length)}
    assert {pair for pair in pairwise(names) if "…" not in "".join(pair)} <= follows
    assert len(message) < 300


def test_circles_apart_are_all_told() -> None:
    assert len(disordered(task("a", "b"), task("b", "a"), task("c", "d", "a"), task("d", "c"), task("e", "a"))) == 2


def test_many_faults_are_bounded_in_number_and_time() -> None:
    began = time.process_time()
    assert len(disordered(*(task(f"key-of-part-{number}", "kye-of-part") for number in range(10_000)))) == 100
    assert len(disordered(*(task(f"k{number}", f"k{number ^ 1}") for number in range(10_000)))) == 10
    assert time.process_time() - began < 20


# --- Lint ---


def test_a_good_plan_has_no_issues() -> None:
    assert lint_plan(parse_plan(PLAN)) == []


def test_lint_names_the_task_and_puts_errors_first() -> None:
    issues = lint_plan(parse_plan("## Same\n## Same [after:nothing-at-all]\n"))
    assert [(issue.task_id, issue.severity) for issue in issues] == [("Same", "error"), ("Same", "warn")]
    assert issues[1] == LintIssue("Same", "warn", "it has the same title as an earlier task (line 1)", 2)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"role": "reviwer"}, "did you mean 'reviewer'?"),
        ({"role": "Worker"}, "did you mean 'worker'?"),
        ({"title": "x" * 121}, "121 characters"),
        ({"title": "A [p10]"}, "markdown heading only"),
    ],
)
def test_lint_warns_of_what_is_hardly_meant(entry: dict[str, object], said: str) -> None:
    [issue] = lint_plan([one(**entry)])
    assert issue.severity == "warn"
    assert said in issue.message


@pytest.mark.parametrize("role", ["worker", "reviewer", "tester", "security", "front-end"])
def test_a_role_of_ones_own_is_no_issue(role: str) -> None:
    assert lint_plan([one(role=role)]) == []


def test_lint_is_bounded() -> None:
    assert len(lint_plan([task("", title="Same")] * 5000)) == 1000


# --- Anything at all ---


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1, max_size=20).filter(
    lambda word: word == word.strip() and "," not in word and not word.startswith("TASK-")
)
TASKS = st.lists(
    st.builds(
        PlannedTask,
        key=WORDS,
        title=WORDS,
        role=WORDS,
        priority=st.integers(0, 999),
        project=WORDS,
        body=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=50),
        depends_on=st.lists(WORDS, max_size=3).map(tuple),
        scopes=st.lists(WORDS, max_size=3).map(tuple),
        not_before=st.none() | st.datetimes(datetime(1970, 1, 1), datetime(9998, 12, 31), timezones=st.just(UTC)),  # noqa: DTZ001
        dedup_key=st.none() | WORDS,
        max_attempts=st.none() | st.integers(1, 1000),
    ),
    min_size=1,
    max_size=5,
)


def entry_of(planned: PlannedTask) -> dict[str, object]:
    entry = {**asdict(planned), "not_before": planned.not_before and planned.not_before.isoformat()}
    del entry["line"]
    return entry


@settings(deadline=None)
@given(TASKS, st.booleans())
def test_what_is_written_as_json_comes_back(tasks: list[PlannedTask], escaped: bool) -> None:
    entries = [entry_of(planned) for planned in tasks]
    texts = [
        json.dumps(entries, ensure_ascii=escaped),
        json.dumps({"tasks": entries}, ensure_ascii=escaped, indent=2),
        "\n".join(json.dumps(entry, ensure_ascii=escaped) for entry in entries),
    ]
    for text in texts:
        assert [entry_of(planned) for planned in parse_plan(text)] == entries


# fmt: off
PIECES = st.sampled_from([
    "## ", "# ", "[p10]", "[after:a]", "[key:a]", "[scope:", "]", "[", "{", "}", ":", ",", "\n", "\r", "```", "~~~",
    "<!--", "-->", "`", "\ufeff", "\0", "\ud800", "NaN", "1e999", "null", '"title"', '"A"', '"tasks"',
    '"\\ud800"', "TASK-1",
])
# fmt: on
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["title", "tasks", "priority", "key", "body", "role"]), inner)
    ),
    max_leaves=20,
)


@settings(max_examples=500, deadline=None)
@given(st.text() | st.lists(PIECES | st.text(max_size=5)).map("".join) | JSON.map(json.dumps))
def test_whatever_the_text_a_plan_is_read_or_refused(text: str) -> None:
    try:
        tasks = parse_plan(text)
        issues = lint_plan(tasks)
        assert all(planned.title == planned.title.strip() != "" for planned in tasks)
        order_of(tasks)
    except InvalidInput as error:
        checked(error)
    else:
        assert all(issue.severity == "warn" for issue in issues)
