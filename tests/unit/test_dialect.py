"""What the Postgres half of the dialect makes of addresses and errors; errors are the driver's own."""

from __future__ import annotations

import psycopg
import pytest

from coordinate import errors
from coordinate.db.dialect import Postgres
from tests.postgres import Server
from tests.tables import run

KNOWN = {option.keyword.decode(): option.dispchar for option in psycopg.pq.Conninfo.get_defaults()}
SECRET = sorted(
    {name for name, shown in KNOWN.items() if shown == b"*"}
    | {"passfile", "sslkey", "sslkeylogfile", "scram_client_key", "scram_server_key"} & set(KNOWN)
)


@pytest.mark.parametrize("name", SECRET)
def test_no_secret_of_libpq_is_part_of_a_told_address(name: str) -> None:
    """PG-18: whatever libpq itself marks as a password, and its keys."""
    engine = Postgres(f"postgresql://u@h/n?{name}=hunter2&sslrootcert=/root.crt")
    assert engine.address() == "postgresql://u@h/n?sslrootcert=%2Froot.crt"
    assert "hunter2" not in engine.describe()


@pytest.mark.parametrize("name", [name for name in SECRET if name not in ("passfile", "sslkey", "sslkeylogfile")])
def test_no_secret_of_libpq_is_repeated_from_an_error(name: str) -> None:
    """PG-18"""
    explained = Postgres(f"postgresql://u@h/n?{name}=hunter2").explain(
        psycopg.OperationalError("hunter2 is wrong"), committing=False
    )
    assert explained is not None
    assert "hunter2" not in explained.error.message


def test_statements_that_a_pooler_lost_are_tried_again_however_often_and_prepared_no_more() -> None:
    """PG-03: several idle connections may each remember one."""
    engine = Postgres("postgresql://h/n")
    for state in ("26000", "42P05", "26000"):
        explained = engine.explain(psycopg.errors.lookup(state)("prepared statement"), committing=False)
        assert explained is not None
        assert (explained.again, explained.lost) == (True, True)
        assert not engine._prepares


def test_a_plan_of_an_older_schema_is_made_anew_and_no_standby(postgres: Server) -> None:
    engine = Postgres(postgres.url)
    with postgres.schema() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (a integer)")
        connection.execute("SELECT * FROM t", prepare=True)
        run(url, "ALTER TABLE t ADD COLUMN b integer")
        with pytest.raises(psycopg.errors.FeatureNotSupported) as refused:
            connection.execute("SELECT * FROM t", prepare=True)
    explained = engine.explain(refused.value, committing=False)
    assert explained is not None
    assert (type(explained.error), explained.again, explained.lost) == (errors.Busy, True, True)
    assert engine._prepares
