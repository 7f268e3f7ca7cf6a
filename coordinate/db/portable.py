"""The SQL half of what SQLite and Postgres do differently: column types and expressions that print right for each.

Only the schema and the wings' `statements.py` import this, when statements are compiled ahead or migrations are
compared; the running program does not. The other half, how to talk to each engine, is `dialect.py`.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    CTE,
    JSON,
    BigInteger,
    Boolean,
    ColumnElement,
    DateTime,
    Integer,
    String,
    Table,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.types import TypeEngine, UserDefinedType

# --- printers ---------------------------------------------------------------------------------------------------------


class _SQLiteCompiler(SQLiteCompiler):
    def limit_clause(self, select: Any, **kw: Any) -> str:
        """LIMIT alone; the library's own adds `OFFSET` with a bind of its making."""
        return f"\n LIMIT {self.process(select._limit_clause, **kw)}"


def _printers() -> dict[str, Dialect]:
    # The generic Postgres dialect: the driver's own would add a cast to every bind.
    printers: dict[str, Dialect] = {
        "sqlite": sqlite.dialect(paramstyle="named"),
        "postgresql": PGDialect(paramstyle="named"),  # type: ignore[no-untyped-call]
    }
    printers["sqlite"].statement_compiler = _SQLiteCompiler
    return printers


ENGINES = _printers()

# --- column types -----------------------------------------------------------------------------------------------------

# Text sorts by code point on both: SQLite's BINARY, Postgres' collation "C", whatever the server's locale says.
TEXT = Text().with_variant(Text(collation="C"), "postgresql")
BIGINT = BigInteger().with_variant(Integer(), "sqlite")
INTEGER = Integer()
BOOLEAN = Boolean()
# One fixed-width UTC text on SQLite, 2030-01-31T12:00:00.000Z; timestamptz on Postgres; milliseconds on both.
INSTANT = DateTime(timezone=True).with_variant(Text(), "sqlite")
# Not SQLite's declared type JSON: that has numeric affinity. Not JSONB: that reorders keys.
JSON_OBJECT = JSON().with_variant(Text(), "sqlite")


class StringList(UserDefinedType[list[str]]):
    """A list of texts as one bind: a JSON array on SQLite, text[] on Postgres."""

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "TEXT[]"


def kind_of(type_: TypeEngine[Any]) -> str:
    """The executor's word for a type: text, integer, boolean, instant, json or list."""
    kinds: list[tuple[type, str]] = [
        (StringList, "list"),
        (JSON, "json"),
        (Boolean, "boolean"),
        (DateTime, "instant"),
        (Integer, "integer"),
        (String, "text"),
    ]
    for class_, kind in kinds:
        if isinstance(type_, class_):
            return kind
    raise TypeError(f"no kind for {type_!r}: give the expression a type")


# --- what a caller gives ----------------------------------------------------------------------------------------------


def given_text(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=Text())


def given_integer(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=BigInteger())


def given_instant(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=DateTime(timezone=True))


def given_boolean(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=Boolean())


def given_json(name: str) -> ColumnElement[Any]:
    return bindparam(name, type_=JSON())


def given(table: Table, names: str) -> dict[str, ColumnElement[Any]]:
    """What a caller gives for columns of a table, each under the column's name: `values(**given(notes, "author"))`."""
    return {name: _given(table.c[name]) for name in names.split()}


def _given(column: ColumnElement[Any]) -> ColumnElement[Any]:
    kinds = {
        "text": given_text,
        "integer": given_integer,
        "instant": given_instant,
        "boolean": given_boolean,
        "json": given_json,
    }
    return kinds[kind_of(column.type)](str(column.key))


def const(value: str | int | bool | None) -> ColumnElement[Any]:
    """A literal in the statement's text, never a bind: partial indexes are only matched by literals."""
    if value is None:
        return literal_column("NULL")
    if isinstance(value, bool):
        return literal_column("true" if value else "false", Boolean())
    if isinstance(value, int):
        return literal_column(str(value), BigInteger())
    return literal_column("'" + value.replace("'", "''") + "'", Text())


# --- expressions ------------------------------------------------------------------------------------------------------


class now(ColumnElement[Any]):  # noqa: N801 - reads as SQL
    """The database's clock, in milliseconds.

    On Postgres a scalar sub-select: the bare function is volatile, and no index serves a comparison with it.
    """

    inherit_cache = True
    type = DateTime(timezone=True)


@compiles(now, "sqlite")
def _(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"


@compiles(now, "postgresql")
def _(element: now, compiler: SQLCompiler, **kw: Any) -> str:
    return "(SELECT date_trunc('milliseconds', clock_timestamp()))"


_CLOCK = select(now().label("now")).cte("clock")


def at_once() -> ColumnElement[Any]:
    """The clock, read once for a whole statement.

    On Postgres each `now()` is a reading of its own, and a time may lie between two of them: what is decided twice in
    one statement, in two columns or two sums, is decided by this.
    """
    return select(_CLOCK.c.now).scalar_subquery()


class plus_seconds(ColumnElement[Any]):  # noqa: N801
    """`moment` (a column, or None for now) plus a number of seconds."""

    inherit_cache = False
    type = DateTime(timezone=True)

    def __init__(self, moment: ColumnElement[Any] | None, seconds: ColumnElement[Any]) -> None:
        self.moment = moment
        self.seconds = seconds


@compiles(plus_seconds, "sqlite")
def _(element: plus_seconds, compiler: SQLCompiler, **kw: Any) -> str:
    moment = "'now'" if element.moment is None else compiler.process(element.moment, **kw)
    return f"strftime('%Y-%m-%dT%H:%M:%fZ', {moment}, ({compiler.process(element.seconds, **kw)}) || ' seconds')"


@compiles(plus_seconds, "postgresql")
def _(element: plus_seconds, compiler: SQLCompiler, **kw: Any) -> str:
    seconds = f"make_interval(secs => CAST({compiler.process(element.seconds, **kw)} AS DOUBLE PRECISION))"
    if element.moment is None:
        return f"(SELECT date_trunc('milliseconds', clock_timestamp()) + {seconds})"
    return f"({compiler.process(element.moment, **kw)} + {seconds})"


class _Condition(ColumnElement[Any]):
    """Something true or false. Printed as it is: SQLite would be given `… = 1`, which no index serves."""

    type = Boolean()

    def self_group(self, against: Any = None) -> Any:
        return self


class among(_Condition):  # noqa: N801
    """`column` is one of the texts in the list bound to `name`: one bind, however long the list."""

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        self.column = column
        self.given = bindparam(name, type_=StringList())


@compiles(among, "sqlite")
def _(element: among, compiler: SQLCompiler, **kw: Any) -> str:
    column = compiler.process(element.column, **kw)
    return f"{column} IN (SELECT value FROM json_each({compiler.process(element.given, **kw)}))"


@compiles(among, "postgresql")
def _(element: among, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} = ANY (CAST({compiler.process(element.given, **kw)} AS TEXT[]))"


class one_of(_Condition):  # noqa: N801
    """`column` is among the ids that a CTE found, each looked up by itself.

    Postgres would join the two, and read the whole table where it guesses that the CTE finds many.
    """

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], found: CTE) -> None:
        self.column = column
        self.found = select(found.c.id).scalar_subquery()


@compiles(one_of, "sqlite")
def _(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} IN {compiler.process(element.found, **kw)}"


@compiles(one_of, "postgresql")
def _(element: one_of, compiler: SQLCompiler, **kw: Any) -> str:
    return f"{compiler.process(element.column, **kw)} = ANY (ARRAY{compiler.process(element.found, **kw)})"


class contains(_Condition):  # noqa: N801
    """`needle` stands somewhere in `column`, literally: no character is a wildcard."""

    inherit_cache = False

    def __init__(self, column: ColumnElement[Any], needle: ColumnElement[Any]) -> None:
        self.column = column
        self.needle = needle


@compiles(contains, "sqlite")
def _(element: contains, compiler: SQLCompiler, **kw: Any) -> str:
    return f"instr({compiler.process(element.column, **kw)}, {compiler.process(element.needle, **kw)}) > 0"


@compiles(contains, "postgresql")
def _(element: contains, compiler: SQLCompiler, **kw: Any) -> str:
    return f"strpos({compiler.process(element.column, **kw)}, {compiler.process(element.needle, **kw)}) > 0"


class day_of(ColumnElement[Any]):  # noqa: N801
    """The UTC day of a moment, as 2030-01-31."""

    inherit_cache = False
    type = Text()

    def __init__(self, moment: ColumnElement[Any]) -> None:
        self.moment = moment


@compiles(day_of, "sqlite")
def _(element: day_of, compiler: SQLCompiler, **kw: Any) -> str:
    return f"substr({compiler.process(element.moment, **kw)}, 1, 10)"


@compiles(day_of, "postgresql")
def _(element: day_of, compiler: SQLCompiler, **kw: Any) -> str:
    return f"to_char({compiler.process(element.moment, **kw)} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


class greatest(ColumnElement[Any]):  # noqa: N801
    """The larger of two values, neither of them NULL."""

    inherit_cache = False

    def __init__(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> None:
        self.left = left
        self.right = right
        self.type = left.type


@compiles(greatest, "sqlite")
def _(element: greatest, compiler: SQLCompiler, **kw: Any) -> str:
    return f"max({compiler.process(element.left, **kw)}, {compiler.process(element.right, **kw)})"


@compiles(greatest, "postgresql")
def _(element: greatest, compiler: SQLCompiler, **kw: Any) -> str:
    return f"greatest({compiler.process(element.left, **kw)}, {compiler.process(element.right, **kw)})"


class last_id(ColumnElement[Any]):  # noqa: N801
    """The last id that a table gave out. NULL on Postgres where the role may not look."""

    inherit_cache = False
    type = BigInteger()

    def __init__(self, table: str) -> None:
        self.table = table


@compiles(last_id, "sqlite")
def _(element: last_id, compiler: SQLCompiler, **kw: Any) -> str:
    return f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{element.table}'), 0)"


@compiles(last_id, "postgresql")
def _(element: last_id, compiler: SQLCompiler, **kw: Any) -> str:
    named = f"schemaname = current_schema() AND sequencename = '{element.table}_id_seq'"
    may_look = "has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')"
    return f"(SELECT CASE WHEN {may_look} THEN coalesce(last_value, 0) END FROM pg_sequences WHERE {named})"


class board_lock(_Condition):  # noqa: N801
    """An advisory transaction lock of this schema under a name, on Postgres; SQLite has one writer anyway.

    With `of` (a given text) there is one such lock for each of its values. Where it does not wait, it is true if the
    lock was to be had.
    """

    inherit_cache = False

    def __init__(self, name: str, of: ColumnElement[Any] | None = None, *, waits: bool = True) -> None:
        self.name = name
        self.of = of
        self.waits = waits


@compiles(board_lock, "postgresql")
def _(element: board_lock, compiler: SQLCompiler, **kw: Any) -> str:
    of = "" if element.of is None else f" || '/' || CAST({compiler.process(element.of, **kw)} AS TEXT)"
    lock = "pg_advisory_xact_lock({}) IS NULL" if element.waits else "pg_try_advisory_xact_lock({})"
    return lock.format(f"hashtextextended(current_schema() || '/{element.name}'{of}, 0)")


def insert_unless_there(table: Table, *key: str, **values: Any) -> postgresql.Insert:
    """INSERT … ON CONFLICT (key) DO NOTHING, which both engines read alike; without a key, any constraint."""
    return postgresql.insert(table).values(**values).on_conflict_do_nothing(index_elements=list(key) or None)


def insert_or_change(table: Table, *key: str, change: dict[str, Any], **values: Any) -> postgresql.Insert:
    """INSERT … ON CONFLICT (key) DO UPDATE, likewise."""
    return postgresql.insert(table).values(**values).on_conflict_do_update(index_elements=list(key), set_=change)


def optional(
    column: ColumnElement[Any], given: ColumnElement[Any] | None = None, test: ColumnElement[bool] | None = None
) -> Any:
    """A filter that an absent (NULL) value switches off; it is given under the column's name, unless another is."""
    given = _given(column) if given is None else given
    return or_(cast(given, given.type).is_(None), column == given if test is None else test)


def before(column: ColumnElement[Any]) -> Any:
    """What stands before the number `before`, if one is given: a page back."""
    return optional(column, given_integer("before"), column < given_integer("before"))


def counted(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """How many there are, as `count`."""
    return func.count(column, type_=BIGINT).label("count")
