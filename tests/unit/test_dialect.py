"""What the Postgres half of the dialect makes of addresses and errors; errors are the driver's own."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from coordinate import errors
from coordinate.db import migrate
from coordinate.db.dialect import Postgres
from tests.postgres import Server, url_with_database, url_with_search_path
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
    assert engine.address() == "postgresql://u@h:5432/n?sslrootcert=%2Froot.crt"
    assert "hunter2" not in engine.describe()


@pytest.mark.parametrize("name", [name for name in SECRET if name not in ("passfile", "sslkey", "sslkeylogfile")])
def test_no_secret_of_libpq_is_repeated_from_an_error(name: str) -> None:
    """PG-18"""
    explained = Postgres(f"postgresql://u@h/n?{name}=hunter2").explain(
        psycopg.OperationalError("hunter2 is wrong"), committing=False
    )
    assert explained is not None
    assert "hunter2" not in explained.error.message


def test_a_host_that_is_gone_without_a_word_is_given_up_unless_the_address_says_otherwise(postgres: Server) -> None:
    """A system by itself tries for a quarter of an hour to send, and for two hours to listen."""
    for more, expected in (("", "15000"), ("tcp_user_timeout=7", "7")):
        target = postgres.url + ("&" if "?" in postgres.url else "?") * bool(more) + more
        connection = Postgres(target).connect()
        said = connection.info.get_parameters()
        connection.close()
        assert said["tcp_user_timeout"] == expected
        assert said["keepalives_idle"] == "5"


def test_statements_that_a_pooler_lost_are_tried_again_however_often_and_prepared_no_more() -> None:
    """PG-03: several idle connections may each remember one."""
    engine = Postgres("postgresql://h/n")
    for state in ("26000", "42P05", "26000"):
        explained = engine.explain(psycopg.errors.lookup(state)("prepared statement"), committing=False)
        assert explained is not None
        assert (explained.again, explained.lost) == (True, True)
        assert not engine._prepares


class Came(BaseException):
    """What a signal's handler raises."""


@pytest.mark.parametrize("before", [None, Came()], ids=["alone", "while another is met"])
def test_a_signal_that_comes_as_a_transaction_ends_is_what_is_told(postgres: Server, before: Came | None) -> None:
    """The driver cannot end its pipeline then, and would tell of that; a connection that broke is told of as ever."""
    engine = Postgres(postgres.url)
    connection = engine.connect()
    left: list[Generator[object, psycopg.waiting.Ready]] = []

    def broken(steps: Generator[object, psycopg.waiting.Ready]) -> None:
        left.append(steps)
        with suppress(StopIteration):
            wanted = next(steps)
            while wanted != psycopg.waiting.Wait.R:
                wanted = steps.send(psycopg.waiting.Ready.W)
            if before is None:
                raise Came
            connection.close()
            raise psycopg.OperationalError("the server went away")

    engine.begin(connection, writes=True)
    connection.wait = broken
    try:
        raise before or ValueError
    except (Came, ValueError):
        with pytest.raises(psycopg.OperationalError if before else Came):
            engine.commit(connection)
    connection.close()
    with suppress(RuntimeError, psycopg.Error):
        left[-1].close()


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


def test_an_address_that_libpq_would_read_in_part_is_refused() -> None:
    with pytest.raises(errors.InvalidInput, match="cannot be read"):
        Postgres("postgresql://u\0@elsewhere/n")


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://u:hush@a:5741,b:5743/pf", "postgresql://a:5741,b:5743/pf"),
        ("postgresql://a,b:1/n?user=u", "postgresql://a:5432,b:1/n"),
        ("postgresql://[::1]:5/a%2Fb", "postgresql://[::1]:5/a%2Fb"),
        ("postgresql:///n?host=/run/pg&port=6", "postgresql:///n?host=/run/pg&port=6"),
        ("postgresql:///n?hostaddr=::1,1.2.3.4&port=1,2", "postgresql://[::1]:1,1.2.3.4:2/n"),
        ("postgresql:///?service=svc", "postgresql://served:7/there"),
        ("postgresql:///work", "postgresql://surroundings:99/work"),
        ("postgresql://h?sslmode=verify-full", "postgresql://h:99/me"),
    ],
)
def test_what_is_shown_is_where_it_leads(
    address: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By libpq's own rules, and as an address that leads there."""
    services = tmp_path / "services"
    services.write_text("[svc]\nhost=served\nport=7\ndbname=there\npassword=hush\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    monkeypatch.setenv("PGUSER", "me")
    if "surroundings" in shown or shown.endswith("/me"):
        monkeypatch.setenv("PGHOST", "surroundings")
        monkeypatch.setenv("PGPORT", "99")
    engine = Postgres(address)
    assert engine.describe() == shown
    assert Postgres(shown).describe() == shown


@pytest.mark.parametrize(
    ("place", "said", "hint"),
    [
        ("127.0.0.1:1/n?foo=hush", "does not know: foo", "Parameter Key Words"),
        ("127.0.0.1:5hush/n", "the port", "HOST:PORT"),
        ("127.0.0.1:1,2:99999/n", "the port", "HOST:PORT"),
        ("127.0.0.1:1/n?sslmode=hush", "sslmode has a value", "sslmode"),
        ("/n?service=nix", 'service "nix" not found', "PGSERVICEFILE"),
        ("127.0.0.1:1/n?connect_timeout=hush", "connect_timeout has a value", "connect_timeout"),
    ],
)
def test_what_is_wrong_with_an_address_is_named_and_not_shown(
    place: str,
    said: str,
    hint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """PG-18: a part that is in the wrong place may be a password."""
    (tmp_path / "services").write_text("")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    with pytest.raises(errors.InvalidInput, match=said) as refused:
        migrate.current(f"postgresql://{place}")
    assert hint in refused.value.hint
    assert "hush" not in str(refused.value.as_dict())


def test_a_database_and_a_schema_that_are_not_there_are_said_to_be_missing(postgres: Server) -> None:
    missing = url_with_database(postgres.url, "no%20one's")
    for act in (migrate.current, migrate.upgrade):
        with pytest.raises(errors.NoBoard, match="has no database no one's") as refused:
            act(missing)
        assert "createdb" in refused.value.hint
        with pytest.raises(errors.NoBoard, match="no schema in its search_path"):
            act(url_with_search_path(postgres.url, "nope"))
