"""The names that a board takes where it lives, read off the schema; and what else bears one of them.

Tables, views, indexes and keys share one space of names; on Postgres types have another, and functions a third. What a
sequence is called does not matter: the server finds another name for it by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import PrimaryKeyConstraint, UniqueConstraint

from coordinate.db import schema


def taken(engine: str, ask: Callable[[str], Iterable[Any]], *, new: Collection[str]) -> list[str]:
    """What bears a name that the board needs, and is something else, or elsewhere.

    Of the names that are `new` nothing is the board's yet: whatever bears one is another's. `ask` runs a query.
    """
    needed = {(_space(kind), name): (kind, on) for kind, name, on in _needed(engine)}
    return [
        _told(kind, name, on)
        for kind, name, on in ask(_FOUND[engine])
        if (ours := needed.get((_space(kind), name))) and (ours != (kind, on) or name in new)
    ]


def of_a_board(engine: str) -> set[str]:
    """All but the record of its version, which may stand there, empty, where no board is."""
    return {name for _, name, on in _needed(engine) if schema.VERSION_TABLE not in (name, on)}


def _needed(engine: str) -> Iterator[tuple[str, str, str]]:
    """What it is, its name, and the table that it is on."""
    for table in (*schema.metadata.sorted_tables, schema.coordinate_version):
        if not schema.belongs(table, engine):
            if instead := table.info.get("instead"):
                yield instead, table.name, ""
            continue
        yield "table", table.name, ""
        for index in table.indexes:
            if schema.belongs(index, engine):
                yield "index", str(index.name), table.name
        if engine == "postgresql":
            yield "row type", table.name, ""
            for key in table.constraints:
                if isinstance(key, (PrimaryKeyConstraint, UniqueConstraint)):
                    yield "index", str(key.name), table.name
    if engine == "postgresql":
        yield "function", schema.NUMBER_EVENTS, ""


def _space(kind: str) -> str:
    return {"type": "types", "row type": "types", "function": "functions"}.get(kind, "relations")


def _told(kind: str, name: str, on: str) -> str:
    if _space(kind) != "relations":
        return f"{kind} {name}"
    return f"{name} (on {on})" if on else name


_HERE = "to_regnamespace(quote_ident(current_schema()))"
# What it is, its name, and the table that it is on. A table's own row type is no thing of its own.
_FOUND = {
    "sqlite": "SELECT type, lower(name), CASE type WHEN 'index' THEN lower(tbl_name) ELSE '' END"
    " FROM sqlite_master WHERE type <> 'trigger' ORDER BY 2, 1",
    "postgresql": "SELECT CASE WHEN c.relkind IN ('r', 'p') THEN 'table' WHEN c.relkind IN ('i', 'I') THEN 'index'"
    " ELSE 'another thing' END AS kind, c.relname AS name, coalesce(t.relname, '') FROM pg_class c"
    " LEFT JOIN pg_index i ON i.indexrelid = c.oid LEFT JOIN pg_class t ON t.oid = i.indrelid"
    f" WHERE c.relnamespace = {_HERE}"
    f" UNION ALL SELECT 'type', typname, '' FROM pg_type WHERE typnamespace = {_HERE} AND typrelid = 0 AND typelem = 0"
    f" UNION ALL SELECT DISTINCT 'function', proname, '' FROM pg_proc WHERE pronamespace = {_HERE} ORDER BY name, kind",
}
