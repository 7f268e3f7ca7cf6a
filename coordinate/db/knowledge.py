"""Which schema this program knows, and whether it may work with the one it finds.

A database records its revision, and in `schema_window` the oldest schema knowledge that may still write to it. So old
and new programs can work side by side while a migration allows it, and are refused once it does not.
"""

from __future__ import annotations

from typing import Any, Protocol

from coordinate import errors
from coordinate.db import fence

# Every revision that this program knows, oldest first. A test keeps it equal to the migrations.
REVISIONS = ("0001", "0002", "0003", "0004", "0006", "0007", "0008", "0009", "0010", "0011")
HEAD = REVISIONS[-1]
NUMBER = int(HEAD)
VERSION_TABLE = "coordinate_version"


class Reads(Protocol):
    """As much of a transaction as is needed here."""

    def one(self, name: str, /, **params: Any) -> Any: ...
    def all(self, name: str, /, **params: Any) -> list[Any]: ...


def check(tx: Reads, tables: list[str], where: str, warnings: list[str]) -> None:
    """Raise `NoBoard`, `NotABoard`, `SchemaBehind` or `SchemaAhead` unless this program may work here; read-only.

    `Moving` or `Moved` where a move has not finished making the board, or was undone. `tables` are those that are
    there, `where` names the place in an error. A newer schema that still admits this program is a warning.
    """
    versions = [row.version_num for row in tx.all("schema_versions")] if VERSION_TABLE in tables else []
    if not versions:
        raise without_version(tables, where)
    window = tx.one("schema_window") if "schema_window" in tables else None
    judge(versions, (window.revision, window.oldest_writer) if window else None, where, warnings)
    fence.admit(tx.one("move_state"), where, warnings)


def judge(versions: list[str], window: tuple[str, int] | None, where: str, warnings: list[str]) -> None:
    """The rule itself: what is recorded against what this program knows."""
    if len(versions) != 1:
        raise not_one_version(where, versions)
    (version,) = versions
    if version in REVISIONS[:-1]:
        raise errors.SchemaBehind(
            f"{where} stands at schema revision {version}; this program needs {HEAD}",
            hint="run: coordinate db upgrade",
            revision=version,
            needed=HEAD,
        )
    admitted = window is not None and window[0] == version and window[1] <= NUMBER
    if version != HEAD and not admitted:
        raise ahead(where, version, HEAD)
    if not admitted:
        raise errors.NotABoard(
            f"{where} contradicts itself: coordinate_version says {version}, schema_window says {window or 'nothing'}",
            hint="somebody changed one of them by hand, or a restore was not whole; restore a backup",
        )
    warning = f"{where} stands at newer revision {version}; it still admits this program ({HEAD})"
    if version != HEAD and warning not in warnings:
        warnings.append(warning)


def ahead(where: str, version: str, known: str) -> errors.SchemaAhead:
    """A revision that is none of this program's."""
    return errors.SchemaAhead(
        f"{where} was made by a newer version of coordinate: it stands at revision {version},"
        f" this program knows up to {known}",
        hint="install a newer coordinate-db",
        revision=version,
        known=known,
    )


def not_one_version(where: str, versions: list[str]) -> errors.NotABoard:
    """An empty record, or one of several."""
    return errors.NotABoard(
        f"{where} records {len(versions)} schema versions ({', '.join(versions) or 'none'}) instead of one",
        hint="an upgrade was interrupted by other tools; restore a backup, or ask who changed coordinate_version",
        versions=versions,
    )


def without_version(tables: list[str], where: str, *, stamp: str | None = None) -> errors.CoordinateError:
    """What a place without our version is, said plainly. `stamp`: the revision that only lost its record."""
    if tables == [VERSION_TABLE]:
        return not_one_version(where, [])
    tables = [name for name in tables if name != VERSION_TABLE]
    if not tables:
        return errors.NoBoard(f"{where} holds no board: it is empty", hint="make one: coordinate db upgrade")
    ours = {"tasks", "counters", "schema_window", "task_dependencies", "attempts"}
    if ours <= set(tables):
        return errors.NotABoard(
            f"{where} has the tables of a board, but no record of their version",
            hint=f"they are exactly those of revision {stamp}: record it with `alembic stamp {stamp}`"
            if stamp
            else "they were made without migrations, or changed since: begin anew in an empty place; if only the record"
            " was lost, `coordinate db upgrade` says how to write it again",
            tables=sorted(tables)[:20],
        )
    if {"tasks", "notes", "history"} <= set(tables):
        return errors.NotABoard(
            f"{where} is a board of the kanban tool, not of coordinate",
            hint="take it over: coordinate db adopt FILE --db NEW",
            tables=sorted(tables)[:20],
        )
    return errors.NotABoard(
        f"{where} holds other tables ({', '.join(sorted(tables)[:5])}) and no board",
        hint="name another path, database or schema",
        tables=sorted(tables)[:20],
    )


def name_taken(where: str, what: str) -> errors.NotABoard:
    """Something of another program's has a name that the board needs."""
    return errors.NotABoard(
        f"{where}: a name that the board needs is taken: {what}",
        hint="rename that, or name another database or schema; nothing was changed",
    )
