"""How migrations run, for Alembic's own command line and for `coordinate db`: one script for both.

On SQLite one BEGIN IMMEDIATE reaches from reading the version to the last statement, so a failure leaves nothing and
of many at once one migrates and the others find it done. Foreign keys are off meanwhile (a table rebuild would empty
the child tables) and checked before the commit. On Postgres a session's advisory lock is polled, committing after each
try, since a blocking wait would deadlock with CREATE INDEX CONCURRENTLY; each revision is its own transaction, and
`lock_timeout` makes it give up rather than queue everybody behind it.
"""

from __future__ import annotations

import logging.config
import os
import time
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, create_engine, event, pool, text
from sqlalchemy.engine import Engine

from coordinate import config as settings
from coordinate import errors
from coordinate.db import dialect, knowledge, schema

if TYPE_CHECKING:
    from alembic.runtime.environment import EnvironmentContext

LOCK_TIMEOUT = "5s"
WAIT_SECONDS = 120.0


def run(context: Any) -> None:
    """Alembic's env.py: migrate the database named by `-x url=`, the environment or the ini, or print the SQL."""
    given = context.config.attributes.get("connection")
    if not context.config.attributes.get("quiet"):
        _log_as_the_ini_says(context.config.config_file_name)
    if context.is_offline_mode():
        _print_sql(context)
    elif given is not None:
        # A caller's own connection or engine: its transaction, its logging, its responsibility.
        if isinstance(given, Engine):
            with given.begin() as connection:
                _migrate_on(context, connection)
        else:
            _migrate_on(context, given)
    else:
        migrate(context, target_of(context))


def target_of(context: Any) -> str:
    """Which database: `-x url=…`, $COORDINATE_DB, the ini's sqlalchemy.url (read raw: a % is a %), this folder's."""
    arguments = context.get_x_argument(as_dictionary=True)
    raw = context.config.file_config.get(context.config.config_ini_section, "sqlalchemy.url", raw=True, fallback="")
    found = context.config.attributes.get("target") or arguments.get("url") or os.environ.get("COORDINATE_DB") or raw
    return str(found or settings.locate(None).target)


def migrate(context: Any, target: str) -> None:
    """Bring a database to the revision asked for, alone."""
    engine = sqlalchemy_engine(target)
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "sqlite":
                _migrate_sqlite(context, connection)
            else:
                _migrate_postgres(context, connection)
    finally:
        engine.dispose()


def sqlalchemy_engine(target: str, *, create: bool = True) -> Engine:
    """A SQLAlchemy engine for migrations over the same connections that the program uses itself."""
    ours = dialect.open_engine(target, create=create, patience=WAIT_SECONDS, synchronous="FULL")
    name = "postgresql+psycopg" if ours.name == "postgresql" else ours.name
    engine = create_engine(f"{name}://", creator=lambda: _connect(ours), poolclass=pool.NullPool)
    if ours.name == "sqlite":
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine


def _connect(ours: dialect.Engine) -> Any:
    try:
        connection = ours.connect()
    except dialect.Interrupted as interrupted:
        raise interrupted.error from None
    if ours.name == "sqlite":
        connection.execute("PRAGMA foreign_keys = OFF")
        return connection
    import psycopg

    connection.autocommit = False
    connection.cursor_factory = psycopg.Cursor
    return connection


def _migrate_sqlite(context: Any, connection: Connection) -> None:
    with connection.begin():
        _migrate_on(context, connection)
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchall()
        if broken:
            raise RuntimeError(f"the migration would leave {len(broken)} row(s) without their parent: {broken[:5]}")


def _migrate_postgres(context: Any, connection: Connection) -> None:
    home = connection.execute(text("SELECT current_schema()")).scalar()
    connection.commit()
    if home is None:
        raise errors.NotABoard(
            "no schema of the search_path exists", hint="create the schema, or name one that exists in search_path"
        )
    # One schema, whatever the search_path lists: tables of another one must be neither found nor made.
    quoted = connection.dialect.identifier_preparer.quote_identifier(home)
    connection.execute(text(f"SET search_path TO {quoted}"))
    connection.execute(text(f"SET lock_timeout = '{LOCK_TIMEOUT}'"))
    connection.commit()
    _wait_for_turn(connection)
    try:
        _migrate_on(context, connection, transaction_per_migration=True)
        connection.commit()
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(hashtextextended(current_schema() || '/migrate', 0))"))
        connection.commit()


def _wait_for_turn(connection: Connection) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    lock = text("SELECT pg_try_advisory_lock(hashtextextended(current_schema() || '/migrate', 0))")
    while not connection.execute(lock).scalar():
        connection.commit()
        if time.monotonic() > deadline:
            raise errors.MigrationBlocked(
                f"another upgrade has been running for {WAIT_SECONDS:g} s", hint="wait for it, then run this again"
            )
        time.sleep(0.1)
    connection.commit()


def _migrate_on(context: Any, connection: Connection, **more: Any) -> None:
    context.configure(connection=connection, **_options(connection.dialect.name), **more)
    with context.begin_transaction():
        context.run_migrations()


def _print_sql(context: Any) -> None:
    engine = context.config.attributes.get("engine") or context.get_x_argument(as_dictionary=True).get("engine")
    if engine is None:
        engine = "postgresql" if dialect.is_postgres(target_of(context)) else "sqlite"
    # The alembic command line prints to stdout: SQL and nothing else.
    context.configure(
        dialect_name=engine,
        literal_binds=True,
        transaction_per_migration=engine == "postgresql",
        **_options(engine),
    )
    with context.begin_transaction():
        if engine == "postgresql":
            context.get_context().impl.static_output(f"SET lock_timeout = '{LOCK_TIMEOUT}';\n")
        context.run_migrations()


def _options(engine: str) -> dict[str, Any]:
    """What Alembic must know to compare and to run, on either engine."""

    def include_object(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
        return kind == "table" and reflected and name == schema.VERSION_TABLE or schema.belongs(item, engine)

    options: dict[str, Any] = {
        "target_metadata": schema.metadata,
        "version_table": schema.VERSION_TABLE,
        "transactional_ddl": True,
        "include_object": include_object,
        "compare_type": True,
        "user_module_prefix": None,
    }
    if engine == "sqlite":
        # An identity column is reported as a changed default on SQLite, always.
        options["compare_server_default"] = lambda *_: False
    return options


def _log_as_the_ini_says(path: str | None) -> None:
    if path and os.path.exists(path):
        try:
            logging.config.fileConfig(path, disable_existing_loggers=False)
        except KeyError:
            pass  # an ini without [loggers]


__all__ = ["knowledge", "migrate", "run", "sqlalchemy_engine", "target_of"]
