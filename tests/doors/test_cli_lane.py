"""The lane: what it reads without click, click would read the same; all else it leaves to click."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import click
import pytest

from coordinate.cli import lane
from coordinate.cli.commands import GROUPS, ROOT
from coordinate.cli.declared import DURATION, MOMENT, Argument, OneOf, Option, Parameter, Verb, Word, option
from coordinate.cli.events import INTERVAL
from coordinate.cli.root import Command
from coordinate.cli.shared import Call
from coordinate.errors import InvalidInput

TYPED = {None: "word", int: "3", DURATION: "10m", MOMENT: "2030-01-31T12:00:00Z"}


def verbs() -> dict[str, Verb]:
    found = {}
    for group, table in {"": ROOT, **GROUPS}.items():
        for name, (module, attribute, _) in table.items():
            verb = getattr(import_module(f"coordinate.cli.{module}"), attribute)
            if isinstance(verb, Verb):
                found[f"{group} {name}".strip()] = verb
    return found


def words(parameter: Parameter, off: bool = False) -> list[str]:
    """What somebody types who gives it; nothing where its values are known to click alone."""
    kind = parameter.kind
    if isinstance(parameter, Option) and parameter.is_flag:
        return [(parameter.off if off else parameter.opts)[0]]
    if isinstance(kind, OneOf):
        value = kind.words[-1]
    elif isinstance(kind, Word):
        value = "word"
    elif kind not in TYPED:
        return []
    else:
        value = TYPED[kind]
    if isinstance(parameter, Argument):
        return [value, value] if parameter.many else [value]
    return [parameter.opts[-1], value, parameter.opts[-1], value] if parameter.many else [parameter.opts[-1], value]


def lines(verb: Verb) -> Iterator[list[str]]:
    """With what is required alone, with each of the rest beside it, with all of them in both orders, and with `=`."""
    required = [word for each in verb.takes if each.required for word in words(each)]
    yield required
    for each in verb.takes:
        if not each.required:
            yield [*required, *words(each)]
        if isinstance(each, Option) and each.off:
            yield [*required, *words(each, off=True)]
    for kind in (Option, Argument):
        yield [word for each in sorted(verb.takes, key=lambda it: isinstance(it, kind)) for word in words(each)]
    for value in ("=", "=a=b", "=-"):
        texts = [each for each in verb.takes if isinstance(each, Option) and each.kind is None and not each.is_flag]
        yield [*required, *(each.opts[0] + value for each in texts if not each.required)]


@pytest.mark.parametrize("path", verbs())
def test_the_lane_reads_a_line_as_click_does(path: str) -> None:
    verb = verbs()[path]
    for line in lines(verb):
        read = lane.read(verb.takes, line)
        assert read is not None, line
        ours, theirs = Call(), Call()
        taken: dict[str, Any] = {}
        for parameter, value in read.items():
            if parameter.sets:
                ours.remember(parameter.sets, value)
            else:
                taken[parameter.name] = value
        assert taken == Command(verb).make_context(path, list(line), obj=theirs).params, line
        assert vars(ours) == vars(theirs), line


@pytest.mark.parametrize("typed", ["9" * 400, "9" * 5_000, "-1", "1_0", "²", " 3", "1e400", "nan", "999999999d", ""])
@pytest.mark.parametrize("kind", [int, DURATION, MOMENT, INTERVAL])
def test_both_read_an_odd_value_alike_or_refuse_it(kind: Any, typed: str) -> None:
    verb = Verb("odd", option("--odd", type=kind)(lambda call, odd: None), "", "", None)
    read = lane.read(verb.takes, [f"--odd={typed}"])
    if read is not None:
        assert read[verb.takes[0]] == Command(verb).make_context("odd", [f"--odd={typed}"], obj=Call()).params["odd"]
        return
    with pytest.raises((click.UsageError, InvalidInput)):
        Command(verb).make_context("odd", [f"--odd={typed}"], obj=Call())


@pytest.mark.parametrize(
    "line",
    [
        [],
        ["--help"],
        ["--role"],
        ["--rol", "worker"],
        ["--role", "worker", "--role", "other"],
        ["--role", "worker", "TASK-1"],
        ["--role", "worker", "--"],
        ["--role", "worker", "--count", "many"],
        ["--role", "worker", "--wait", "soon"],
        ["--role", "worker", "--format", "yaml"],
        ["--role", "worker", "--why=true"],
    ],
)
def test_a_line_out_of_the_ordinary_is_left_to_click(line: list[str]) -> None:
    assert lane.read(verbs()["task claim-next"].takes, line) is None


@pytest.mark.parametrize("line", [[], ["task"], ["task", "claim-nxt"], ["--agent", "a", "task", "mine"], ["skill"]])
def test_what_names_no_command_is_left_to_click(line: list[str]) -> None:
    assert not lane.ran(line)
