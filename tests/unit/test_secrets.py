"""What is said on stderr: no secret of any address in it, and every other word of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import coordinate
from coordinate.addresses import without_secrets

PASSWORDS = [
    "hush",
    "p@ss@",
    ":p:",
    "a/b",
    "12/b",
    "p%40%2F",
    "Größe🚀",
    "a?b=c",
    "a://b",
    "a b",
    "it's (x)",
    "1234",
    "[a]",
]
PLAIN = [
    "postgresql://127.0.0.1:5741/pf",
    "postgresql://a:5741,b:5743/pf",
    "postgresql://[::1]:5432/n",
    "postgresql://app@h:5432/n",
    "postgresql://app@[::1]:5432/n?user=x",
    "postgresql:///n?host=/run/pg&port=5432",
    "postgresql+psycopg://h:1?dbname=n",
    "http://localhost:8080",
    "sqlite:///a:b",
]


@pytest.mark.parametrize("plain", PLAIN)
def test_an_address_without_a_password_is_said_whole_whatever_follows(plain: str) -> None:
    """PG-18: what was refused, and why, stands beside it."""
    for said in (
        f"{plain}: it would refuse me@example",
        f"the place '{plain}' would refuse TASK-1@2",
        f"{plain} and {plain}; {plain} is TASK-3@1",
        f"app@h, {plain}",
    ):
        assert without_secrets(said) == said


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_is_not_said_in_whatever_address_of_many_it_stands(password: str) -> None:
    """PG-18"""
    for scheme in ("postgresql", "postgres", "postgresql+psycopg", "mysql"):
        for user in ("me", "", "me@corp", "Größe", "a%3Ab"):
            for plain in PLAIN:
                told = "{0}: {1}://{2}:{3}@h:5/n would refuse, and so {1}://{2}:{3}@h2/n; {0} did TASK-1@2"
                said = without_secrets(told.format(plain, scheme, user, password))
                assert said == told.format(plain, scheme, user, "***"), password


@pytest.mark.parametrize("name", ["password", "sslpassword", "PASSWORD", "scram_client_key", "oauth_client_secret"])
def test_a_parameter_that_is_a_secret_is_not_said(name: str) -> None:
    """PG-18: in an address, and in libpq's keywords."""
    for told in (
        "postgresql://h:5/n?{0}={1}&user=u is wrong, says me@h",
        "host=h {0}={1} user=u",
        "h {0} = {1} user=u",
    ):
        assert without_secrets(told.format(name, "hu@sh:/")) == told.format(name, "***")
    assert without_secrets(rf"host=h {name}='a \' b' user=u") == f"host=h {name}=*** user=u"


def _said_in(module: Path) -> Iterator[str]:
    """Every text of a module, with a word for what is filled in."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)


def test_the_programs_own_examples_of_an_address_are_said_whole() -> None:
    """The hint that teaches how an address is written has no password in it, and no part of it is taken for one."""
    modules = Path(coordinate.__file__).parent.rglob("*.py")
    said = {each for module in modules if module.stem != "addresses" for each in _said_in(module) if "://" in each}
    assert any("postgresql://USER@HOST:PORT/NAME" in each and "%40" in each for each in said)
    assert {each: without_secrets(each) for each in said} == {each: each for each in said}
