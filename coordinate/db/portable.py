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


class _Printed(ColumnElement[Any]):
    """An expression for which each engine has its own words; `{}` stands for each of its parts, in their order."""

    inherit_cache = False
    sqlite = postgresql = ""

    def __init__(self, *parts: ColumnElement[Any]) -> None:
        self.parts = parts


@compiles(_Printed)
def _(element: _Printed, compiler: SQLCompiler, **kw: Any) -> str:
    words = str(getattr(element, compiler.dialect.name))
    return words.format(*(compiler.process(part, **kw) for part in element.parts))


class now(_Printed):  # noqa: N801 - reads as SQL
    """The database's clock, in milliseconds.

    On Postgres a scalar sub-select: the bare function is volatile, and no index serves a comparison with it.
    """

    type = DateTime(timezone=True)
    sqlite = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now')"
    postgresql = "(SELECT date_trunc('milliseconds', clock_timestamp()))"


_CLOCK = select(now().label("now")).cte("clock")


def at_once() -> ColumnElement[Any]:
    """The clock, read once for a whole statement.

    On Postgres each `now()` is a reading of its own, and a time may lie between two of them: what is decided twice in
    one statement, in two columns or two sums, is decided by this.
    """
    return select(_CLOCK.c.now).scalar_subquery()


_INTERVAL = "make_interval(secs => CAST({} AS DOUBLE PRECISION))"


class plus_seconds(_Printed):  # noqa: N801
    """A moment plus a number of seconds."""

    type = DateTime(timezone=True)
    sqlite = "strftime('%Y-%m-%dT%H:%M:%fZ', {}, ({}) || ' seconds')"
    postgresql = f"({{}} + {_INTERVAL})"


class from_now(_Printed):  # noqa: N801
    """The moment in a number of seconds."""

    type = DateTime(timezone=True)
    sqlite = "strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ({}) || ' seconds')"
    postgresql = f"(SELECT date_trunc('milliseconds', clock_timestamp()) + {_INTERVAL})"


class _Condition(_Printed):
    """Something true or false. Printed as it is: SQLite would be given `… = 1`, which no index serves."""

    type = Boolean()

    def self_group(self, against: Any = None) -> Any:
        return self


class among(_Condition):  # noqa: N801
    """`column` is one of the texts in the list bound to `name`: one bind, however long the list."""

    sqlite = "{} IN (SELECT value FROM json_each({}))"
    postgresql = "{} = ANY (CAST({} AS TEXT[]))"

    def __init__(self, column: ColumnElement[Any], name: str) -> None:
        super().__init__(column, bindparam(name, type_=StringList()))


class one_of(_Condition):  # noqa: N801
    """`column` is among the ids that a CTE found, each looked up by itself.

    Postgres would join the two, and read the whole table where it guesses that the CTE finds many.
    """

    sqlite = "{} IN {}"
    postgresql = "{} = ANY (ARRAY{})"

    def __init__(self, column: ColumnElement[Any], found: CTE) -> None:
        super().__init__(column, select(found.c.id).scalar_subquery())


class contains(_Condition):  # noqa: N801
    """`needle` stands somewhere in `column`, literally: no character is a wildcard."""

    sqlite = "instr({}, {}) > 0"
    postgresql = "strpos({}, {}) > 0"


class day_of(_Printed):  # noqa: N801
    """The UTC day of a moment, as 2030-01-31."""

    type = Text()
    sqlite = "substr({}, 1, 10)"
    postgresql = "to_char({} AT TIME ZONE 'UTC', 'YYYY-MM-DD')"


class greatest(_Printed):  # noqa: N801
    """The larger of two values, neither of them NULL."""

    sqlite = "max({}, {})"
    postgresql = "greatest({}, {})"

    def __init__(self, left: ColumnElement[Any], right: ColumnElement[Any]) -> None:
        super().__init__(left, right)
        self.type = left.type


class last_id(_Printed):  # noqa: N801
    """The last id that a table gave out. NULL on Postgres where the role may not look."""

    type = BigInteger()

    def __init__(self, table: str) -> None:
        super().__init__()
        self.sqlite = f"coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0)"
        named = f"schemaname = current_schema() AND sequencename = '{table}_id_seq'"
        may_look = "has_sequence_privilege(format('%I.%I', schemaname, sequencename), 'SELECT')"
        self.postgresql = (
            f"(SELECT CASE WHEN {may_look} THEN coalesce(last_value, 0) END FROM pg_sequences WHERE {named})"
        )


class board_lock(_Condition):  # noqa: N801
    """An advisory transaction lock of this schema under a name, on Postgres; SQLite has one writer anyway.

    With `of` (a given text) there is one such lock for each of its values. Where it does not wait, it is true if the
    lock was to be had.
    """

    def __init__(self, name: str, *of: ColumnElement[Any], waits: bool = True) -> None:
        super().__init__(*of)
        each = " || '/' || CAST({} AS TEXT)" * len(of)
        key = f"hashtextextended(current_schema() || '/{name}'{each}, 0)"
        self.postgresql = f"pg_advisory_xact_lock({key}) IS NULL" if waits else f"pg_try_advisory_xact_lock({key})"


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
