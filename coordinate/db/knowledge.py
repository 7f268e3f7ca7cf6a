"""Which schema this program knows, and whether it may work with the one it finds.

A database records its revision, and in `schema_window` the oldest schema knowledge that may still write to it. So old
and new programs can work side by side while a migration allows it, and are refused once it does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coordinate import errors

if TYPE_CHECKING:
    from coordinate.db.engine import Database

# Every revision that this program knows, oldest first. A test keeps it equal to the migrations.
REVISIONS = ("0001", "0002")
HEAD = REVISIONS[-1]
NUMBER = int(HEAD)
VERSION_TABLE = "coordinate_version"


def check(database: Database, connection: Any) -> None:
    """Raise `NoBoard`, `NotABoard`, `SchemaBehind` or `SchemaAhead` unless this program may work here; read-only."""
    from coordinate.db.engine import Tx

    tables, home = database.engine.look_around(connection)
    where = database.engine.describe() + (f" in schema {home}" if home else "")
    if VERSION_TABLE not in tables:
        raise without_version(tables, where)
    tx = Tx(database, connection)
    versions = [row.version_num for row in tx.all("schema_versions")]
    window = tx.one("schema_window") if "schema_window" in tables else None
    judge(versions, (window.revision, window.oldest_writer) if window else None, where, database.warnings)


def judge(versions: list[str], window: tuple[str, int] | None, where: str, warnings: list[str]) -> None:
    """The rule itself: what is recorded against what this program knows."""
    if len(versions) != 1:
        raise errors.NotABoard(
            f"{where} records {len(versions)} schema versions ({', '.join(versions) or 'none'}) instead of one",
            hint="an upgrade was interrupted by other tools; restore a backup, or ask who changed coordinate_version",
            versions=versions,
        )
    (version,) = versions
    if version in REVISIONS[:-1]:
        raise errors.SchemaBehind(
            f"{where} stands at schema revision {version}; this program needs {HEAD}",
            hint="run: coordinate db upgrade",
            revision=version,
            needed=HEAD,
        )
    revision, oldest_writer = window or ("", NUMBER + 1)
    if version == HEAD and revision == version and oldest_writer <= NUMBER:
        return
    if revision == version and oldest_writer <= NUMBER:
        warnings.append(f"{where} stands at newer revision {version}; it still admits this program ({HEAD})")
        return
    raise errors.SchemaAhead(
        f"{where} was made by a newer version of coordinate: it stands at revision {version},"
        f" this program knows up to {HEAD}",
        hint="install a newer coordinate-db",
        revision=version,
        known=HEAD,
    )


def without_version(tables: list[str], where: str) -> errors.CoordinateError:
    """What a place without our version table is, said plainly."""
    if not tables:
        return errors.NoBoard(f"{where} holds no board: it is empty", hint="make one: coordinate db upgrade")
    ours = {"tasks", "counters", "schema_window", "task_dependencies", "attempts"}
    if ours <= set(tables):
        return errors.NotABoard(
            f"{where} has the tables of a board, but no record of their version",
            hint="they were made without migrations, or the record was lost: begin anew with `coordinate db upgrade` in an"
            " empty place; if schema_window still names the revision, a DBA can record it with `alembic stamp`",
            tables=sorted(tables)[:20],
        )
    kanban = {"tasks", "notes", "history"}
    if kanban <= set(tables):
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
