"""How a statement is declared: a name, a purpose, a Core clause. Compiled ahead by `coordinate.compile_sql`.

Only the `statements.py` modules import this. A statement's parameters and result columns are read off the clause, so
nothing is declared twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ClauseElement
from sqlalchemy.sql.compiler import SQLCompiler

from coordinate.db.portable import ENGINES, kind_of


@dataclass(frozen=True, slots=True)
class Declared:
    """One statement before it is compiled. `only` names the one engine that needs it ('' = both)."""

    name: str
    purpose: str
    clause: ClauseElement
    only: str = ""


class Statements:
    """The statements of one room, in reading order."""

    def __init__(self, room: str) -> None:
        self.room = room
        self.declared: list[Declared] = []

    def add(self, name: str, purpose: str, clause: ClauseElement, *, only: str = "") -> None:
        self.declared.append(Declared(name, purpose, clause, only))


@dataclass(frozen=True, slots=True)
class Printed:
    """A compiled statement: text with `:name` binds, and the kinds of what goes in and comes out."""

    sql: str
    takes: dict[str, str]
    gives: dict[str, str]


def print_statement(declared: Declared, engine: str) -> Printed:
    """Compile for one engine. Raises `ValueError` when the compiler had to invent a bind's name or a value."""
    compiled = declared.clause.compile(dialect=ENGINES[engine])
    assert isinstance(compiled, SQLCompiler)
    takes: dict[str, str] = {}
    for name, bind in compiled.binds.items():
        if bind.unique or not bind.required or not str(name).isidentifier():
            raise ValueError(f"{declared.name}: the bind {name} is not one that a caller gives; use const()")
        takes[str(name)] = kind_of(bind.type)
    gives = {str(entry[0]): kind_of(entry[3]) for entry in _result_columns(compiled)}
    sql = "\n".join(line.rstrip() for line in str(compiled).strip().splitlines())
    return Printed(sql, takes, gives)


def _result_columns(compiled: SQLCompiler) -> list[Any]:
    return list(compiled._result_columns)
