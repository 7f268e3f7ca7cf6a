"""The database itself: where it is, its schema, for DBAs. Loads Alembic only where migrations are needed."""

from __future__ import annotations

import click

from coordinate import config
from coordinate.cli.shared import OUTPUT_ONLY, Call, command
from coordinate.records import as_json


@command("where", example="coordinate db where")
def where(call: Call) -> None:
    """Say which board is meant, and why; opens nothing, and shows no password."""
    from coordinate.db.dialect import open_engine

    place = config.locate(call.target())
    engine = open_engine(
        place.target, create=False, patience=config.patience(place), synchronous=config.synchronous(place)
    )
    for refusal in place.refusals:
        call.warn(refusal)
    call.show(
        {
            "database": engine.describe(),
            "engine": engine.name,
            "named_by": place.source,
            "folder": None if place.folder is None else str(place.folder),
        }
    )


@command("upgrade", example="coordinate db upgrade")
@click.argument("revision", required=False, default="head")
def upgrade(call: Call, revision: str) -> None:
    """Bring a board to the newest schema, or to REVISION; makes it if it is not there.

    A SQLite board is copied beside itself first ("backup"). At head already it does nothing.
    """
    from coordinate.db import migrate

    call.show(as_json(migrate.upgrade(_target(call), revision)))


@command("downgrade", example="coordinate db downgrade 0001")
@click.argument("revision")
def downgrade(call: Call, revision: str) -> None:
    """Take a board back to an older schema; a SQLite board is copied beside itself first."""
    from coordinate.db import migrate

    call.show(as_json(migrate.downgrade(_target(call), revision)))


@command("current", example="coordinate db current")
def current(call: Call) -> None:
    """Say where a board's schema stands, and what this program knows."""
    from coordinate.db import migrate

    standing = migrate.current(_target(call))
    call.show({**as_json(standing), "at_head": standing.at_head})


@command("check", example="coordinate db check")
def check(call: Call) -> None:
    """Compare a board's tables with what this program expects; exit 2 when they differ."""
    from coordinate.db import migrate

    differences = migrate.check(_target(call))
    call.show({"differences": differences}, nothing="no differences")
    if differences:
        raise click.exceptions.Exit(2)


@command("history", example="coordinate db history", takes=OUTPUT_ONLY)
def history(call: Call) -> None:
    """List the migrations that this program knows, oldest first."""
    from coordinate.db import migrate

    call.show(migrate.history())


@command("sql", example="coordinate db sql --engine postgresql > coordinate.sql")
@click.argument("revisions", required=False, default="base:head", metavar="[FROM:TO]")
@click.option("--engine", type=click.Choice(["sqlite", "postgresql"]), help="Default: that of the board.")
@click.option("--down", is_flag=True, help="The way back; FROM:TO is needed.")
def sql(call: Call, revisions: str, engine: str | None, down: bool) -> None:
    """Print the migrations as plain SQL, for a DBA to read and run; touches no database."""
    from coordinate.db import migrate
    from coordinate.db.dialect import is_postgres

    chosen = engine or ("postgresql" if is_postgres(config.locate(call.target()).target) else "sqlite")
    call.show_text(migrate.sql(chosen, revisions, down=down), "sql")


@command("ini", example="coordinate db ini > alembic.ini", takes=OUTPUT_ONLY)
def ini(call: Call) -> None:
    """Print what a DBA with only the wheel puts into an alembic.ini."""
    from coordinate.db import migrate

    call.show_text(migrate.ini(), "ini")


def _target(call: Call) -> str:
    return config.locate(call.target()).target
