"""What only a Postgres server has: a role for the program and what to grant it, and tools of its own for backups.

Nothing here changes anything: a DBA reads what is printed, and runs it or not.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from coordinate import errors
from coordinate.db import dialect, schema

# What is recorded of the schema's age is for migrations to write.
READ_ONLY = (schema.VERSION_TABLE, schema.schema_window.name)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a board lives on its server, and whose it is; names as they are, unquoted."""

    database: str
    schema: str
    owner: str


def home_of(target: str) -> Home:
    """Ask the server. Raises `NoBoard` when there are no tables of a board, `Unreachable`."""
    engine = _engine(target)
    try:
        connection = engine.connect()
    except dialect.Interrupted as interrupted:
        raise interrupted.error from None
    try:
        found = connection.execute(
            "SELECT current_database(), schemaname, tableowner FROM pg_tables"
            f" WHERE schemaname = current_schema() AND tablename = '{schema.VERSION_TABLE}'"
        ).fetchone()
    finally:
        engine.close(connection)
    if found is None:
        raise errors.NoBoard(f"{engine.describe()} holds no board", hint="make one: coordinate db upgrade")
    return Home(*found)


def grants(home: Home, role: str) -> str:
    """The SQL that lets a role run the program: rows of the board's tables, and nothing else."""
    here, to, owner = quoted(home.schema), quoted(role), quoted(home.owner)
    tables = sorted(table.name for table in schema.metadata.tables.values() if schema.belongs(table, "postgresql"))
    written = ", ".join(f"{here}.{quoted(name)}" for name in tables if name not in READ_ONLY)
    ids = [(name, schema.metadata.tables[name].c.get("id")) for name in tables]
    serial = [f"{name}_id_seq" for name, id_ in ids if id_ is not None and id_.identity is not None]
    sequences = "SEQUENCE " + ", ".join(f"{here}.{quoted(name)}" for name in serial)
    read = ", ".join(f"{here}.{quoted(name)}" for name in READ_ONLY)
    return "\n".join(
        [
            f"GRANT USAGE ON SCHEMA {here} TO {to};",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {written} TO {to};",
            f"GRANT SELECT ON {read} TO {to};",
            f"GRANT EXECUTE ON FUNCTION {here}.coordinate_number_events(bigint) TO {to};",
            "-- Ids are identities and need no grant; adoption of another board raises them:",
            f"GRANT SELECT, UPDATE ON {sequences} TO {to};",
            "-- Tables that a later upgrade adds:",
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {here}"
            f" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {to};",
            "-- Where the program finds the board, unless its address says so:",
            f"ALTER ROLE {to} IN DATABASE {quoted(home.database)} SET search_path = {here};",
            "",
        ]
    )


def quoted(name: str) -> str:
    """An identifier of SQL, whatever stands in it."""
    return '"' + name.replace('"', '""') + '"'


def dump_command(target: str, file: Path) -> str:
    """The call of pg_dump that backs the board up, without any secret: that comes from a passfile or PGPASSWORD."""
    pattern = f"--schema={quoted(home_of(target).schema)}"
    return shlex.join(["pg_dump", "--format=custom", pattern, f"--file={file}", _engine(target).address()])


def restore_command(target: str, file: Path) -> str:
    """The call of pg_restore that puts such a file into a database."""
    options = ["--exit-on-error", "--single-transaction", "--no-owner"]
    return shlex.join(["pg_restore", *options, f"--dbname={_engine(target).address()}", str(file)])


def _engine(target: str) -> dialect.Postgres:
    if not dialect.is_postgres(target):
        raise errors.InvalidInput(
            "this board is a SQLite file, which has no roles: who may write the file and its folder may use it",
            hint="on Postgres this prints what to grant; on a file: chmod, chown",
            field="db",
        )
    return dialect.Postgres(target)
