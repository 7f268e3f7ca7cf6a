"""What may come in: the canonical form of what is taken, and the field named in what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinate import inputs
from coordinate.errors import InvalidInput
from coordinate.records import Claim

STORABLE = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))


@pytest.mark.parametrize(
    ("check", "given_value", "taken"),
    [
        (lambda v: inputs.text(v, "f"), " as it is\n", " as it is\n"),
        (lambda v: inputs.text(v, "f", limit=3), "🚀🚀🚀", "🚀🚀🚀"),
        (lambda v: inputs.text(v, "f"), "", ""),
        (lambda v: inputs.line(v, "f", limit=5), " a b ", "a b"),
        (lambda v: inputs.name(v, "f"), "\u00a0é🚀\u2003", "é🚀"),
        (inputs.title, " T ", "T"),
        (inputs.agent, " alice ", "alice"),
        (inputs.task_id, " task-12\n", "TASK-12"),
        (inputs.task_id, "TASK-" + "9" * 18, "TASK-" + "9" * 18),
        (inputs.handle, "task-12@3", ("TASK-12", 3)),
        (inputs.handle, "TASK-12", ("TASK-12", None)),
        (inputs.priority, 0, 0),
        (inputs.priority, 999, 999),
        (inputs.lease_seconds, 604_800, 604_800),
        (lambda v: inputs.seconds(v, "f", most=5), 5, 5.0),
        (lambda v: inputs.flag(v, "f"), False, False),
        (lambda v: inputs.duration(v, "f"), "90", 90),
        (lambda v: inputs.duration(v, "f"), "90s", 90),
        (lambda v: inputs.duration(v, "f"), "10m", 600),
        (lambda v: inputs.duration(v, "f"), "2h", 7_200),
        (lambda v: inputs.duration(v, "f"), "3d", 259_200),
        (lambda v: inputs.task_ids(v, "f"), ["task-2", "TASK-10", "TASK-2"], ["TASK-2", "TASK-10"]),
        (lambda v: inputs.names(v, "f"), ["b", " a", "b"], ["b", "a"]),
        (lambda v: inputs.name_or_none(v, "f"), None, None),
        (inputs.status, "IN_REVIEW", "IN_REVIEW"),
        (inputs.note_type, "DECISION", "DECISION"),
        (inputs.payload, {"a": [1, None, True, 1.5, {"b": "é"}]}, {"a": [1, None, True, 1.5, {"b": "é"}]}),
        (inputs.parse_payload, '{"a": 1}', {"a": 1}),
    ],
)
def test_what_is_good_comes_out_in_its_one_form(check: Callable[[Any], Any], given_value: Any, taken: Any) -> None:
    assert check(given_value) == taken


@pytest.mark.parametrize(
    ("check", "bad", "said"),
    [
        (lambda v: inputs.text(v, "f"), None, "f must be text, not nothing"),
        (lambda v: inputs.text(v, "f"), 3, "f must be text, not int"),
        (lambda v: inputs.text(v, "f"), "a\0", "NUL"),
        (lambda v: inputs.text(v, "f"), "\udc80", "surrogate"),
        (lambda v: inputs.text(v, "f", limit=3), "abcd", "f has 4 characters; at most 3 fit"),
        (lambda v: inputs.text(v, "f", blank=False), " \n", "f must not be empty"),
        (lambda v: inputs.line(v, "f", limit=9), "a\nb", "one line"),
        (lambda v: inputs.line(v, "f", limit=9), "a\x9bb", "one line"),
        (inputs.agent, "", "no agent is named"),
        (inputs.agent, None, "no agent is named"),
        (inputs.agent, "system", "belongs to the board"),
        (inputs.task_id, "TASK-0", "not a task id"),
        (inputs.task_id, "TASK-١", "not a task id"),
        (inputs.task_id, "TASK-1" + "0" * 18, "not a task id"),
        (inputs.handle, "TASK-1@0", "not a claim handle"),
        (inputs.handle, "TASK-1@1@1", "not a claim handle"),
        (inputs.priority, True, "whole number, not bool"),
        (inputs.priority, 5.0, "whole number, not float"),
        (inputs.priority, 1000, "from 0 to 999, not 1000"),
        (inputs.limit, 0, "from 1 to 1000"),
        (lambda v: inputs.seconds(v, "f", most=5), math.nan, "from 0 to 5 seconds"),
        (lambda v: inputs.seconds(v, "f", most=5), 10**400, "from 0 to 5 seconds"),
        (lambda v: inputs.flag(v, "f"), 1, "f must be true or false, not int"),
        (lambda v: inputs.duration(v, "f"), "10 m", "must be a duration"),
        (lambda v: inputs.duration(v, "f"), "-1", "must be a duration"),
        (lambda v: inputs.duration(v, "f"), "١m", "must be a duration"),
        (lambda v: inputs.names(v, "f"), "abc", "f must be a list"),
        (lambda v: inputs.task_ids(v, "f", most=1), ["TASK-1", "TASK-2"], "at most 1 at once"),
        (inputs.payload, [], "JSON object"),
        (inputs.payload, {"a": math.inf}, "NaN or an infinity"),
        (inputs.payload, {"a": 2**63}, "payload must be from"),
        (inputs.payload, {"a": "x" * 100_000}, "longer than 100000"),
        (inputs.parse_payload, "{", "not JSON"),
        (inputs.parse_payload, "[" * 100_000, "not JSON"),
        (inputs.parse_payload, '{"a": NaN}', "NaN"),
    ],
)
def test_what_is_bad_is_refused_in_a_short_sentence(check: Callable[[Any], Any], bad: Any, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check(bad)
    assert said in caught.value.message
    assert len(caught.value.message) < 300
    assert caught.value.facts["field"]
    caught.value.message.encode()


# --- moments ----------------------------------------------------------------------------------------------------------


def test_a_moment_becomes_utc_in_whole_milliseconds() -> None:
    given_moment = datetime(2030, 1, 31, 12, 0, 0, 123999, tzinfo=timezone(timedelta(hours=-8)))
    assert inputs.instant(given_moment, "f") == datetime(2030, 1, 31, 20, 0, 0, 123000, tzinfo=UTC)


@pytest.mark.parametrize("text", ["2030-01-31T12:00:00Z", "2030-01-31 14:00:00+02:00", "20300131T120000Z"])
def test_rfc_3339_is_read(text: str) -> None:
    assert inputs.parse_instant(text, "f") == datetime(2030, 1, 31, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2030-01-31", "2030-01-31T12:00:00", "tomorrow", "", "1893456000", "0001-01-01T00:00Z"]
)
def test_a_text_that_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        inputs.parse_instant(text, "f")


# --- for every text ---------------------------------------------------------------------------------------------------


@given(STORABLE)
def test_any_storable_text_is_taken_as_it_is(text: str) -> None:
    assert inputs.text(text, "f") == text
    assert inputs.payload({text: [text]}) == {text: [text]}


@given(st.text(st.characters(categories=("Cs",)), min_size=1), STORABLE)
def test_half_a_surrogate_pair_is_refused_wherever_it_stands(half: str, rest: str) -> None:
    for text in (half + rest, rest + half):
        with pytest.raises(InvalidInput):
            inputs.text(text, "f")
        with pytest.raises(InvalidInput):
            inputs.payload({"k": text})


@given(STORABLE)
def test_folding_is_stable_and_blind_to_letter_case(text: str) -> None:
    folded = inputs.fold(text)
    assert inputs.fold(folded) == folded
    assert inputs.fold(text.swapcase().casefold()) == inputs.fold(text.swapcase())


@given(st.integers(1, 10**18 - 1), st.integers(1, 10**9 - 1))
def test_a_handle_says_the_same_in_every_spelling(number: int, attempt: int) -> None:
    for shown in (f"TASK-{number}@{attempt}", f" task-{number}@{attempt} "):
        assert inputs.handle(shown) == (f"TASK-{number}", attempt)
    assert inputs.task_number(f"TASK-{number}") == number


def test_a_claim_is_its_handle() -> None:
    claim = Claim("TASK-1@2", None, 2, datetime.now(UTC))  # type: ignore[arg-type]
    assert inputs.handle(claim) == ("TASK-1", 2)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=8))
def test_a_payload_is_taken_or_refused_and_never_anything_else(value: Any) -> None:
    try:
        taken = inputs.payload({"k": value})
    except InvalidInput:
        return
    assert inputs.parse_payload(inputs.dump_json(taken)) == taken
