"""How migrations run, for Alembic's own command line and for `coordinate db`: one script for both.

On SQLite one BEGIN IMMEDIATE reaches from reading the version to the last statement, so a failure leaves nothing and
of many at once one migrates and the others find it done. Foreign keys are off meanwhile (a table rebuild would empty
the child tables) and checked before the commit. On Postgres a session's advisory lock is polled, committing after each
try, since a blocking wait would deadlock with CREATE INDEX CONCURRENTLY; each revision is its own transaction (unless
a last step is to be seen with them or not at all), and `lock_timeout` makes it give up rather than queue everybody
behind it.

Verbs that only look (`current`, `check`, `history`) create nothing and take no lock.
"""

from __future__ import annotations

import logging.config
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from alembic.autogenerate import compare_metadata
from alembic.util.exc import CommandError
from sqlalchemy import Connection, create_engine, event, inspect, pool, text
from sqlalchemy.engine import Engine
from sqlalchemy.exc import DBAPIError

from coordinate import config as settings
from coordinate import errors
from coordinate.db import backup, dialect, knowledge, names, schema

# Everybody else who comes waits behind a waiting ALTER: so not for long, and longer than any transaction of ours.
LOCK_SECONDS = 2
IDLE_SECONDS = 60
WAIT_SECONDS = 120.0

# What Alembic calls the verbs that change a database.
MOVES = ("upgrade", "downgrade")
WRITES = (*MOVES, "do_stamp", "do_ensure_version")


def run(context: Any) -> None:
    """Alembic's env.py: migrate the database named by `-x url=`, the environment or the ini, or print the SQL."""
    verb = _verb(context)
    from_command_line = context.config.cmd_opts is not None
    if from_command_line:
        _log_as_the_ini_says(context.config)
    try:
        _run(context, verb)
    except errors.CoordinateError as refusal:
        if not from_command_line:
            raise
        # Alembic shows its own kind of error as a line, and any other as a traceback.
        raise CommandError(f"{refusal.message}; {refusal.hint}" if refusal.hint else refusal.message) from None


def _verb(context: Any) -> str:
    """What Alembic is about to do; its options can be read only once they are configured, so this comes twice."""
    context.configure(dialect_name="sqlite")
    return str(context.get_context().opts["fn"].__name__)


def _run(context: Any, verb: str) -> None:
    given = context.config.attributes.get("connection")
    if context.is_offline_mode():
        _print_sql(context, verb)
    elif given is None:
        _migrate(context, verb, target_of(context))
    elif isinstance(given, Engine):
        with given.begin() as connection:
            _migrate_on(context, verb, connection, "this database")
    else:
        # A caller's own connection: its transaction, its responsibility.
        _migrate_on(context, verb, given, "this database")


def target_of(context: Any) -> str:
    """Which database: `-x url=…`, $COORDINATE_DB, the ini's sqlalchemy.url (read raw: a % is a %), this folder's."""
    arguments = context.get_x_argument(as_dictionary=True)
    raw = context.config.file_config.get(context.config.config_ini_section, "sqlalchemy.url", raw=True, fallback="")
    found = context.config.attributes.get("target") or arguments.get("url") or os.environ.get("COORDINATE_DB") or raw
    return str(found or settings.locate(None).target)


# --- on a database ----------------------------------------------------------------------------------------------------


def _migrate(context: Any, verb: str, target: str) -> None:
    ours = dialect.open_engine(target, create=verb == "upgrade", patience=WAIT_SECONDS, synchronous="FULL")
    engine = _sqlalchemy_engine(ours, writes=verb in WRITES)
    try:
        with _connected(engine, ours) as connection:
            if ours.name == "sqlite":
                _migrate_sqlite(context, verb, connection, ours.describe())
            else:
                _migrate_postgres(context, verb, connection, ours)
    finally:
        engine.dispose()


def _sqlalchemy_engine(ours: dialect.Engine, *, writes: bool) -> Engine:
    """A SQLAlchemy engine for migrations over the same connections that the program uses itself."""
    name = "postgresql+psycopg" if ours.name == "postgresql" else ours.name
    engine = create_engine(f"{name}://", creator=lambda: _connect(ours), poolclass=pool.NullPool)
    if ours.name == "sqlite":
        # Begun as the program begins: many that start at once wait fairly for the one that migrates.
        event.listen(engine, "begin", lambda connection: ours.begin(_driver(connection), writes=writes))
    else:
        # What SQLAlchemy does not know, so that a comparison can read it back.
        own: list[Any] = [schema.events.c.xid.type, schema.event_feed_state.c.snapshot.type]
        reflecting: Any = engine.dialect
        reflecting.ischema_names = reflecting.ischema_names | {each.get_col_spec(): type(each) for each in own}
    return engine


def _driver(connection: Connection) -> Any:
    return connection.connection.dbapi_connection


def _connect(ours: dialect.Engine) -> Any:
    connection = dialect.let_in(ours)
    if ours.name == "sqlite":
        connection.execute("PRAGMA foreign_keys = OFF")
        return connection
    import psycopg

    connection.autocommit = False
    connection.cursor_factory = psycopg.Cursor
    return connection


def _migrate_sqlite(context: Any, verb: str, connection: Connection, where: str) -> None:
    board, told = Path(os.path.realpath(where)), context.config.attributes
    try:
        with connection.begin():
            changed = _migrate_on(context, verb, connection, where, board=board)
            if changed and (broken := backup.orphans(_driver(connection))):
                raise errors.CoordinateError(
                    f"{where} would hold {len(broken)} row(s) without their parent: {broken[:5]}",
                    hint="nothing was changed",
                )
    except BaseException:
        if made := told.pop("backup", None):
            backup.set_aside(Path(made), board)
        raise
    if "backup" in told:
        backup.prune(board)


def _migrate_postgres(context: Any, verb: str, connection: Connection, ours: dialect.Engine) -> None:
    where = ours.describe()
    home, is_there = connection.execute(
        text("SELECT current_schema(), to_regclass(quote_ident(current_schema()) || :table) IS NOT NULL"),
        {"table": f".{schema.VERSION_TABLE}"},
    ).one()
    if verb in MOVES and not is_there and isinstance(ours, dialect.Postgres):
        ours.refuse_a_board_elsewhere(_driver(connection))
    if home is None:
        raise dialect.no_schema(where)
    # One schema, whatever the search_path lists: tables of another one must be neither found nor made. And a client
    # that is cut off must not hold its locks for ever.
    connection.execute(
        text(
            "SELECT set_config('search_path', quote_ident(:home), false), set_config('lock_timeout', :lock, false),"
            " set_config('idle_in_transaction_session_timeout', :idle, false)"
        ),
        {"home": home, "lock": f"{LOCK_SECONDS}s", "idle": f"{IDLE_SECONDS}s"},
    )
    connection.commit()
    where = f"{where} in schema {home}"
    if verb not in WRITES:
        _migrate_on(context, verb, connection, where)
        return
    _wait_for_turn(connection)
    try:
        alone = context.config.attributes.get("last") is None
        _migrate_on(context, verb, connection, where, transaction_per_migration=alone)
        connection.commit()
    finally:
        # The lock ends with the session in any case; this is for a pooler that keeps it.
        with suppress(DBAPIError, errors.CoordinateError):
            connection.rollback()
            connection.execute(text(f"SELECT pg_advisory_unlock({_LOCK})"))
            connection.commit()


_LOCK = "hashtextextended(current_schema() || '/migrate', 0)"


def _wait_for_turn(connection: Connection) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not connection.execute(text(f"SELECT pg_try_advisory_lock({_LOCK})")).scalar():
        connection.commit()
        if time.monotonic() > deadline:
            raise errors.MigrationBlocked(
                f"another upgrade has been running for {WAIT_SECONDS:g} s", hint="wait for it, then run this again"
            )
        time.sleep(0.1)
    connection.commit()


def _migrate_on(
    context: Any, verb: str, connection: Connection, where: str, *, board: Path | None = None, **more: Any
) -> bool:
    """Do what the verb says; whether there was a step to be made."""
    context.configure(
        connection=connection, dont_mutate=verb not in WRITES, **_options(connection.dialect.name), **more
    )
    migration = context.get_context()
    with context.begin_transaction():
        before = migration.get_current_heads()
        _refuse_what_is_not_ours(context, verb, connection, before, where)
        steps = list(migration.opts["fn"](before, migration)) if verb in MOVES else []
        if board and before and steps:
            context.config.attributes["backup"] = str(backup.make(board, before[0]))
        context.run_migrations()
        if verb == "downgrade" and not migration.get_current_heads():
            connection.execute(text(f"DROP TABLE IF EXISTS {schema.VERSION_TABLE}"))
        if last := context.config.attributes.get("last"):
            last(_driver(connection))
        return bool(steps)


def _refuse_what_is_not_ours(
    context: Any, verb: str, connection: Connection, heads: tuple[str, ...], where: str
) -> None:
    """Before anything is written: a board of a newer program, or tables in whose way ours would be."""
    known = [script.revision for script in context.script.walk_revisions()]
    if verb not in WRITES or verb in MOVES:
        for head in heads:
            if head not in known:
                raise knowledge.ahead(where, head, known[0])
    if verb in MOVES and len(heads) > 1:
        raise knowledge.not_one_version(where, list(heads))
    if verb in MOVES and not heads:
        looked = inspect(connection)
        there = {*looked.get_table_names(), *looked.get_view_names()} - {schema.VERSION_TABLE}
        if there & set(schema.metadata.tables):
            raise knowledge.without_version(sorted(there), where, stamp=_could_stamp(context, connection, there))
    if verb == "upgrade":
        engine = connection.dialect.name
        new = () if heads else names.of_a_board(engine)
        if taken := names.taken(engine, lambda sql: connection.execute(text(sql)).fetchall(), new=new):
            raise knowledge.name_taken(where, ", ".join(taken))


def _could_stamp(context: Any, connection: Connection, there: set[str]) -> str | None:
    """The revision that only lost its record: `schema_window` names it, and the tables are exactly those of it."""
    if schema.schema_window.name not in there:
        return None
    revision = connection.execute(text("SELECT revision FROM schema_window")).scalar()
    if revision != knowledge.HEAD or compare_metadata(context.get_context(), schema.metadata):
        return None
    return str(revision)


# --- as SQL -----------------------------------------------------------------------------------------------------------


def _print_sql(context: Any, verb: str) -> None:
    """The alembic command line prints this to stdout: SQL and nothing else."""
    engine = context.config.attributes.get("engine") or context.get_x_argument(as_dictionary=True).get("engine")
    if engine is None:
        try:
            engine = "postgresql" if dialect.is_postgres(target_of(context)) else "sqlite"
        except errors.NoBoard as error:
            error.hint = "say for which engine: -x engine=postgresql, or sqlite"
            raise
    context.configure(
        dialect_name=engine,
        dialect_opts={"paramstyle": "named"},  # a % in a statement is printed once
        literal_binds=True,
        transaction_per_migration=engine == "postgresql",
        **_options(engine),
    )
    with context.begin_transaction():
        printed = context.get_context().impl.static_output
        if engine == "postgresql":
            printed(f"SET lock_timeout = '{LOCK_SECONDS}s';\n")
            start = context.get_starting_revision_argument()
            if start not in (None, "base"):
                printed(_begins_at(context.script.get_revision(start).revision))
        context.run_migrations()
        if verb == "downgrade" and not context.get_revision_argument():
            printed(f"DROP TABLE {schema.VERSION_TABLE};\n")


def _begins_at(revision: str) -> str:
    """SQL that fails where the board does not stand at the revision at which a script begins."""
    return (
        "DO $$ BEGIN\n"
        f"  IF (SELECT array_agg(version_num::text) FROM {schema.VERSION_TABLE}) IS DISTINCT FROM ARRAY['{revision}']"
        " THEN\n"
        f"    RAISE EXCEPTION 'this script begins at revision {revision}, and the board in schema % does not stand"
        " there', current_schema();\n"
        "  END IF;\nEND $$;\n"
    )


def _options(engine: str) -> dict[str, Any]:
    """What Alembic must know to compare and to run, on either engine."""

    def include_name(name: str | None, kind: str, parents: Any) -> bool:
        # Tables of others may stand beside ours, also such as nobody here can read.
        return kind != "table" or name in schema.metadata.tables

    def include_object(item: Any, name: str | None, kind: str, reflected: bool, other: Any) -> bool:
        return schema.belongs(item, engine)

    options: dict[str, Any] = {
        "target_metadata": schema.metadata,
        "version_table": schema.VERSION_TABLE,
        "transactional_ddl": True,
        "include_name": include_name,
        "include_object": include_object,
        "compare_type": True,
        "user_module_prefix": None,
    }
    if engine == "sqlite":
        # An identity column is reported as a changed default on SQLite, always.
        options["compare_server_default"] = lambda *_: False
    return options


# --- errors and logging -----------------------------------------------------------------------------------------------


@contextmanager
def _connected(engine: Engine, ours: dialect.Engine) -> Iterator[Connection]:
    """A connection. Database errors, from its first look on, are the product's own; what a migration itself does wrong
    stays as it is.
    """
    with ExitStack() as opened:
        try:
            connection = opened.enter_context(engine.connect())
            yield connection
        except (DBAPIError, ours.driver_error) as error:  # the driver's own where we begin
            cause = error.orig if isinstance(error, DBAPIError) else error
            state = getattr(cause, "sqlstate", None)
            if state == "55P03":
                raise _blocked(connection) from None
            if state in _DUPLICATES or re.search(_IS_THERE, str(cause)):
                raise knowledge.name_taken(ours.describe(), str(cause).splitlines()[0]) from None
            if state == "42501":
                raise _missing_right(connection, str(cause).splitlines()[0]) from None
            explained = ours.explain(cause, committing=False) if isinstance(cause, Exception) else None
            if explained is None or "lacks" in explained.error.facts:
                raise
            raise explained.error from None


# A table or an index, another thing, or a function of that name is there.
_DUPLICATES = ("42P07", "42710", "42723")
_IS_THERE = r"there is already an? |already exists|already another table"


def _blocked(connection: Connection) -> errors.MigrationBlocked:
    """Who stood in the way: whoever holds a lock on a table here in a transaction older than our wait."""
    connection.rollback()
    waited = connection.execute(
        text("SELECT setting::int / 1000 FROM pg_settings WHERE name = 'lock_timeout'")
    ).scalar_one()
    unfinished = connection.execute(
        text(
            "SELECT string_agg(c.relname, ', ' ORDER BY c.relname) FROM pg_index i"
            " JOIN pg_class c ON c.oid = i.indexrelid WHERE NOT i.indisvalid"
            " AND i.indrelid = to_regclass(quote_ident(current_schema()) || '.tasks')"
        )
    ).scalar()
    found = connection.execute(
        text(
            "SELECT DISTINCT l.pid, a.state, a.application_name FROM pg_locks l"
            " JOIN pg_class c ON c.oid = l.relation AND c.relnamespace = to_regnamespace(quote_ident(current_schema()))"
            " LEFT JOIN pg_stat_activity a ON a.pid = l.pid"
            " WHERE l.granted AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())"
            " AND (a.xact_start IS NULL OR a.xact_start < clock_timestamp() - make_interval(secs => :wait))"
            " AND l.pid <> pg_backend_pid() ORDER BY l.pid"
        ),
        {"wait": waited - 0.5},
    ).fetchall()
    who = [f"{pid} ({', '.join(filter(None, (state, program))) or 'another role'})" for pid, state, program in found]
    stays = (
        f"of that revision an unfinished index stays ({unfinished}), which harms nobody and which the next run clears"
        if unfinished
        else "nothing of that revision was changed"
    )
    return errors.MigrationBlocked(
        f"the migration waited {waited} s for a lock and gave up; in the way:"
        f" backend {', backend '.join(who) or 'gone meanwhile'}",
        hint=f"{stays}; end that transaction (pg_stat_activity tells whose), then run it again",
        blocked_by=[str(row[0]) for row in found],
    )


def _missing_right(connection: Connection, said: str) -> errors.PermissionDenied:
    connection.rollback()
    role, home, owners = connection.execute(
        text(
            "SELECT quote_ident(current_user), quote_ident(current_schema()),"
            " (SELECT string_agg(DISTINCT tableowner, ', ') FROM pg_tables WHERE schemaname = current_schema()"
            " AND tablename IN ('tasks', 'coordinate_version') AND NOT pg_has_role(tableowner, 'USAGE'))"
        )
    ).one()
    if owners:
        hint = f"migrations are for the role that owns the tables: {owners}"
    else:
        hint = f"the owner of the schema can grant it: GRANT USAGE, CREATE ON SCHEMA {home} TO {role}"
    return errors.PermissionDenied(f"the role {role} may not migrate schema {home}: {said}", hint=hint)


def _log_as_the_ini_says(config: Any) -> None:
    """Only for Alembic's own command line: a host program's logging is its own."""
    if config.config_file_name and config.file_config.has_section("loggers"):
        logging.config.fileConfig(config.config_file_name, disable_existing_loggers=False)
