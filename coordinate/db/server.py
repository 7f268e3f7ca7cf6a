"""What only a Postgres server has: a role for the program and what to grant it, and tools of its own for backups.

Nothing here changes anything: a DBA reads what is printed, and runs it or not.
"""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coordinate import errors
from coordinate.db import dialect, schema

# What is recorded of the schema's age is for migrations to write, and where the board is, for a move.
READ_ONLY = (schema.VERSION_TABLE, schema.schema_window.name, schema.board_move.name)


@dataclass(frozen=True, slots=True)
class Home:
    """Where a board lives on its server, and whose it is; names as they are, unquoted."""

    database: str
    schema: str
    owner: str


def home_of(target: str) -> Home:
    """Ask the server. Raises `NoBoard` when there are no tables of a board, `Unreachable`."""
    engine = _engine(target)
    with _session(engine) as connection:
        found = connection.execute(
            "SELECT current_database(), schemaname, tableowner FROM pg_tables"
            f" WHERE schemaname = current_schema() AND tablename = '{schema.VERSION_TABLE}'"
        ).fetchone()
        if found is None:
            engine.refuse_a_board_elsewhere(connection)
    if found is None:
        raise errors.NoBoard(
            f"{engine.describe()} holds no board yet, so that there are no tables to speak of",
            hint="make it as the role that shall own it: coordinate db upgrade; then this again",
        )
    return Home(*found)


def require_owner(target: str) -> None:
    """Raise `PermissionDenied` unless this role owns the board's tables, as a member at least."""
    home = home_of(target)
    with _session(_engine(target)) as connection:
        owns, role = connection.execute("SELECT pg_has_role($1, 'USAGE'), current_user", [home.owner]).fetchone()
    if not owns:
        raise errors.PermissionDenied(
            f"the tables belong to {home.owner}, and this is for their owner; you are {role}",
            hint="nothing was changed",
        )


def grants(home: Home, role: str) -> str:
    """The SQL that lets a role run the program: rows of the board's tables, and nothing else."""
    here, to, owner = quoted(home.schema), quoted(role), quoted(home.owner)
    tables = sorted(table.name for table in schema.metadata.tables.values() if schema.belongs(table, "postgresql"))
    written = ", ".join(f"{here}.{quoted(name)}" for name in tables if name not in READ_ONLY)
    ids = [(name, schema.metadata.tables[name].c.get("id")) for name in tables]
    serial = [f"{name}_id_seq" for name, id_ in ids if id_ is not None and id_.identity is not None]
    sequences = "SEQUENCE " + ", ".join(f"{here}.{quoted(name)}" for name in serial)
    read = ", ".join(f"{here}.{quoted(name)}" for name in READ_ONLY)
    finds = f"ALTER ROLE {to} IN DATABASE {quoted(home.database)} SET search_path = {here};"
    return "\n".join(
        [
            f"GRANT USAGE ON SCHEMA {here} TO {to};",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON {written} TO {to};",
            f"GRANT SELECT ON {read} TO {to};",
            "-- For migrations and moves alone, whatever was granted on all tables before:",
            f"REVOKE INSERT, UPDATE, DELETE ON {read} FROM {to};",
            f"GRANT EXECUTE ON FUNCTION {here}.coordinate_number_events(bigint) TO {to};",
            "-- Ids are identities and need no grant. The doctor looks at them; who raises them owns the tables:",
            f"GRANT SELECT ON {sequences} TO {to};",
            f"REVOKE UPDATE ON {sequences} FROM {to};",
            "-- Tables that a later upgrade adds:",
            f"ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {here}"
            f" GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {to};",
            "-- Where the program finds the board, unless its address says so. Not for the owner of the tables:",
            "-- a superuser, or a role with CREATEROLE that may alter this one, runs it, in a session of its own:",
            *(f"-- {line}" for line in finds.splitlines()),
            "",
        ]
    )


def quoted(name: str) -> str:
    """An identifier of SQL, whatever stands in it."""
    return '"' + name.replace('"', '""') + '"'


def dump_command(target: str, file: Path) -> str:
    """The call of pg_dump that backs the board up, without any secret: that comes from a passfile or PGPASSWORD."""
    pattern = f"--schema={quoted(home_of(target).schema)}"
    return shlex.join(["pg_dump", "--format=custom", pattern, f"--file={file}", _engine(target).address(here=True)])


def restore_command(target: str, file: Path) -> str:
    """The call of pg_restore that puts such a file into a schema that is there and empty.

    So named it makes no schema, for which the owner of the tables would need a right on the database.
    """
    options = ["--exit-on-error", "--single-transaction", "--no-owner", f"--schema={schema_of(target)}"]
    return shlex.join(["pg_restore", *options, f"--dbname={_engine(target).address(here=True)}", str(file)])


def schema_of(target: str) -> str:
    """Where everything goes: the first schema of `search_path` that is there."""
    with _session(_engine(target)) as connection:
        return str(connection.execute("SELECT coalesce(current_schema(), 'public')").fetchone()[0])


def _session(engine: dialect.Postgres) -> closing[Any]:
    return closing(dialect.let_in(engine))


def _engine(target: str) -> dialect.Postgres:
    if not dialect.is_postgres(target):
        raise errors.InvalidInput(
            "this board is a SQLite file, which has no roles: who may write the file and its folder may use it",
            hint="on Postgres this prints what to grant; on a file: chmod, chown",
            field="db",
        )
    return dialect.Postgres(target)
