"""`python -m coordinate.compile_sql` writes every statement of the program as plain SQL, one file for each engine.

The files ship in the wheel: the program runs them as they are, and whoever owns the database can read in one place
all that will ever be sent. A test keeps them equal to what the `statements.py` modules declare.
"""

from __future__ import annotations

import re
from pathlib import Path

from coordinate import checkup_statements, shared_statements
from coordinate.db.portable import ENGINES
from coordinate.db.statements import Declared, Statements, print_statement
from coordinate.fleet import statements as fleet_statements
from coordinate.inbox import board_statements
from coordinate.inbox import statements as inbox_statements
from coordinate.work import statements as work_statements

ROOMS: list[Statements] = [
    shared_statements.STATEMENTS,
    work_statements.STATEMENTS,
    fleet_statements.STATEMENTS,
    inbox_statements.STATEMENTS,
    board_statements.STATEMENTS,
    checkup_statements.STATEMENTS,
]
FOLDER = Path(__file__).parent / "db" / "compiled"
WIDTH = 120
TITLES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}


def compile_all(engine: str) -> str:
    """The whole file of one engine, as text."""
    parts = [
        f"-- Every statement on a board's rows that coordinate sends to {TITLES[engine]} while it runs. Beside them:\n"
        "-- what begins and ends transactions, looks at the catalog, migrates a board, moves it, or examines it.\n"
        "-- Made by `python -m coordinate.compile_sql` from the statements.py modules; do not edit.\n"
    ]
    seen: set[str] = set()
    for room in ROOMS:
        parts.append(f"\n-- ===== {room.room} =====\n")
        for declared in room.declared:
            if declared.name in seen:
                raise ValueError(f"two statements are called {declared.name}")
            seen.add(declared.name)
            if declared.only in ("", engine):
                parts.append(_print(declared, engine))
    return "".join(parts)


def _print(declared: Declared, engine: str) -> str:
    printed = print_statement(declared, engine)
    header = [
        f"-- name: {declared.name}",
        *_wrap(f"-- why: {' '.join(declared.purpose.split())}", "--   "),
        *_wrap(f"-- takes: {_kinds(printed.takes)}", "--   "),
        *_wrap(f"-- gives: {_kinds(printed.gives)}", "--   "),
    ]
    clauses = re.sub(r" (WHERE|RETURNING|ORDER BY|GROUP BY|HAVING|LIMIT) ", r"\n\1 ", printed.sql)
    sql = [part for line in clauses.splitlines() for part in _wrap(line.strip(), "    ")]
    return "\n" + "\n".join(header + sql) + ";\n"


def _wrap(line: str, indent: str) -> list[str]:
    """Break a long line at spaces, but never inside a quoted text."""
    words = re.split(r" (?=(?:[^']*'[^']*')*[^']*$)", line)
    lines, current = [], words[0]
    for word in words[1:]:
        if len(current) + 1 + len(word) > WIDTH:
            lines.append(current)
            current = indent + word
        else:
            current += " " + word
    return [*lines, current]


def _kinds(kinds: dict[str, str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in kinds.items()) or "nothing"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for engine in ENGINES:
        (FOLDER / f"{engine}.sql").write_text(compile_all(engine), encoding="utf-8")


if __name__ == "__main__":
    main()
