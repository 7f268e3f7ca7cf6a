"""The statements as plain SQL, ready to run: `Statement` objects read from this folder's files.

A file is read once a process; a statement's header is parsed when it is first used, so that a short-lived command pays
for what it sends only.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from coordinate.frozen import dataclass


@dataclass(frozen=True)
class Statement:
    """One statement: its text with `:name` binds, and the kinds of its parameters and of its result columns."""

    name: str
    sql: str
    takes: dict[str, str]
    gives: dict[str, str]


class Library:
    """All statements of one engine, by name."""

    def __init__(self, engine: str) -> None:
        source = (Path(__file__).parent / f"{engine}.sql").read_bytes().decode()
        self._sources = {chunk.split("\n", 1)[0]: chunk for chunk in source.split("\n-- name: ")[1:]}
        self._parsed: dict[str, Statement] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._sources

    def __getitem__(self, name: str) -> Statement:
        if name not in self._parsed:
            self._parsed[name] = _parse(self._sources[name])
        return self._parsed[name]

    def names(self) -> list[str]:
        """Every statement's name, in the file's order."""
        return list(self._sources)


@cache
def library_of(engine: str) -> Library:
    """The statements of one engine, shared by all who use it."""
    return Library(engine)


def _parse(chunk: str) -> Statement:
    name, commented = chunk.split("\n", 1)
    sql = commented.split("\n-- =====", 1)[0].rstrip().removesuffix(";")
    header, start = "", 0
    while sql.startswith("--", start):
        end = sql.index("\n", start)
        header += sql[start + 2 : end]
        start = end + 1
    takes, gives = header.split(" takes: ", 1)[1].split(" gives: ", 1)
    return Statement(name, sql[start:], _kinds(takes), _kinds(gives))


def _kinds(listed: str) -> dict[str, str]:
    return {} if listed == "nothing" else dict(entry.split() for entry in listed.split(", "))
