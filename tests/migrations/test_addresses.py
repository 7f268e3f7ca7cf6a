"""Addresses: odd paths and odd passwords lead where they say, and a secret is never said aloud."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest

import coordinate
from coordinate import config, errors
from coordinate.db import migrate
from coordinate.db.knowledge import HEAD
from tests.migrations.catalog import CHECKOUT, alembic, run
from tests.postgres import BinaryServer, start_server
from tests.tables import rows

# --- SQ-13: a path is a path ------------------------------------------------------------------------------------------

NAMES = ["sp ace", "a#b", "a?b", "a%20b", "a%2Fb", "é🚀", "dot.", "-dash", "a[b]*.db", "quo'te\".db", "a;b:c", "a&b=c"]


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_named_file_is_used_whatever_its_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQ-13: through the library, the migrations, the environment and another process."""
    folder = tmp_path / f"in {name}"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def files() -> set[str]:
        return {path.name for path in folder.iterdir()}

    assert migrate.upgrade(name).database == str(folder / name)
    assert files() == {name}
    with coordinate.connect(name, agent="alice") as c:
        c.dispatch(title="t", role="worker")
        assert files() <= {name, f"{name}-wal", f"{name}-shm"}
    assert files() == {name}
    listed = subprocess.run(
        [sys.executable, "-c", "import coordinate; print(coordinate.connect().list_tasks().tasks[0].id)"],
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "COORDINATE_DB": name},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout.strip() == "TASK-1"
    assert files() == {name}
    alembic("-c", str(CHECKOUT / "alembic.ini"), "downgrade", "0001", url=name, cwd=folder)
    assert files() == {name, f"{name}.backup-{HEAD}-1"}
    alembic("-c", str(CHECKOUT / "alembic.ini"), "-x", f"url={name}", "upgrade", "head", cwd=folder)
    assert files() == {name, f"{name}.backup-{HEAD}-1", f"{name}.backup-0001-2"}
    with coordinate.connect(f"sqlite:///{folder / name}", agent="alice") as c:
        assert [task.id for task in c.list_tasks().tasks] == ["TASK-1"]
    with coordinate.connect(folder / f"{name}.backup-{HEAD}-1", agent="alice") as c:
        assert [task.id for task in c.list_tasks().tasks] == ["TASK-1"]


# --- PG-17: a password is a password ----------------------------------------------------------------------------------

PASSWORD = "p@s:s/w%4 #?é"


@pytest.fixture(scope="module")
def asks_for_password(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a role with an odd password on a server that insists on it."""
    server = start_server("local", "wheel")
    assert isinstance(server, BinaryServer)
    try:
        for statement in (
            f"CREATE ROLE odd LOGIN PASSWORD '{PASSWORD}'",
            "CREATE DATABASE odd OWNER odd",
        ):
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(statement.encode())
        rules = server.data / "pg_hba.conf"
        rules.write_text("local all odd scram-sha-256\n" + rules.read_text())
        run(server.url, "SELECT pg_reload_conf()")
        yield f"postgresql://odd:{quote(PASSWORD, safe='')}@/odd?host={server.home}&port=5432"
    finally:
        server.stop()


def test_an_odd_password_works_from_the_environment_the_ini_and_a_flag(asks_for_password: str, tmp_path: Path) -> None:
    """PG-17"""
    url = asks_for_password
    for scheme in ("postgresql://", "postgres://", "postgresql+psycopg://"):
        migrate.upgrade(url.replace("postgresql://", scheme))
        with coordinate.connect(url.replace("postgresql://", scheme), agent="alice") as c:
            c.dispatch(title="t", role="worker")
    ini = tmp_path / "alembic.ini"
    ini.write_text(
        f"[alembic]\nscript_location = {CHECKOUT / 'alembic'}\npath_separator = os\nsqlalchemy.url = {url}\n"
    )
    for given in ({"url": url}, {"ini": "-c"}, {"flag": "-x"}):
        before = ["-c", str(ini)] if "ini" in given else ["-x", f"url={url}"] if "flag" in given else []
        said = ""
        for command in (["downgrade", "0001"], ["upgrade", "head"], ["current"], ["upgrade", "head", "--sql"]):
            done = alembic(*before, *command, url=given.get("url"))
            said += done.stdout + done.stderr
        assert f"{HEAD} (head)" in said
        assert "COMMIT;" in said
        assert PASSWORD not in said
        assert quote(PASSWORD, safe="") not in said
    assert migrate.current(url).at_head


def test_a_wrong_password_is_refused_at_once_and_not_shown(asks_for_password: str) -> None:
    """PG-17, PG-18: also proof that the server of the test above does ask."""
    wrong = asks_for_password.replace("%40", "hush%40")
    told = everything_said(wrong)
    assert "password authentication failed" in told
    assert "hush" not in told


# --- TLS --------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def over_tls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A role's URL on a server that takes its password over TLS alone, and a root certificate that signed nothing."""
    server = start_server("local", "wheel")
    assert isinstance(server, BinaryServer)
    try:
        for statement in ("CREATE ROLE app LOGIN PASSWORD 'hush'", "CREATE DATABASE app OWNER app"):
            with psycopg.connect(server.url, autocommit=True) as connection:
                connection.execute(statement.encode())
        mine, other = tmp_path_factory.mktemp("mine"), tmp_path_factory.mktemp("other")
        for folder in (mine, other):
            certify(folder)
        for name in ("server.key", "server.crt"):
            shutil.copy(mine / name, server.data / name)
            (server.data / name).chmod(0o600)
        server._hand_over()
        (server.data / "pg_hba.conf").write_text("local all all trust\nhostssl all app all scram-sha-256\n")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        with (server.data / "postgresql.conf").open("a") as settings:
            settings.write(f"ssl = on\nlisten_addresses = '127.0.0.1'\nport = {port}\n")
        server.restart()
        url = f"postgresql://app:hush@localhost:{port}/app?sslmode=verify-full&sslrootcert={mine / 'server.crt'}"
        yield url, other / "server.crt"
    finally:
        server.stop()


def certify(folder: Path) -> None:
    """A key, and a certificate for localhost that is its own root."""
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"]
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", folder / "server.key", "-out", folder / "server.crt"]
    subprocess.run(["openssl", "req", "-x509", *named, *made], check=True, capture_output=True)


def test_tls_parameters_are_passed_on_and_a_wrong_root_is_refused(
    over_tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PG-18: and what is said of the certificate says no secret, at once."""
    url, other = over_tls
    migrate.upgrade(url)
    assert migrate.current(url).at_head
    assert rows(url, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()") == [(True,)]
    with coordinate.connect(url, agent="alice") as c:
        c.dispatch(title="t", role="worker")
        assert "sslmode=verify-full&sslrootcert=" in c.database.engine.address()
    for wrong, reason in (
        (re.sub("sslrootcert=.*", f"sslrootcert={other}", url), "certificate verify failed"),
        (re.sub("sslrootcert=.*", f"sslrootcert={other}-not", url), "root certificate file"),
        (url.replace("localhost", "127.0.0.1"), 'does not match host name "127.0.0.1"'),
        (re.sub("sslmode=.*", "sslmode=disable", url), "no encryption"),
    ):
        tries: list[float] = []
        monkeypatch.setattr("coordinate.db.engine.time.sleep", tries.append)
        told = everything_said(wrong)
        monkeypatch.undo()
        assert reason in told
        assert ("TLS to postgresql://" in told and "sslrootcert in the address" in told) == ("sslroot" in wrong)
        assert "hush" not in told
        assert tries == [], "no other try can help"


# --- PG-18: a secret is never said ------------------------------------------------------------------------------------

SECRET = "hush"
ADDRESSES = {
    "wrong port": f"postgresql://me:{SECRET}@127.0.0.1:1/board",
    "wrong port, query": f"postgresql://me@127.0.0.1:1/board?password={SECRET}",
    "unknown host": f"postgresql://me:{SECRET}@nowhere.invalid/board",
    "wrong driver": f"postgresql+psycopg2://me:{SECRET}@127.0.0.1/board",
    "other database": f"mysql://me:{SECRET}@127.0.0.1/board",
    "of Java": f"jdbc:postgresql://127.0.0.1/board?user=me&password={SECRET}",
    "of Java, other": f"jdbc:oracle:thin:me/{SECRET}@127.0.0.1:1521/board",
    "misspelt": f"Postgresql://me:{SECRET}@127.0.0.1/board",
    "one slash": f"postgresql:/me:{SECRET}@127.0.0.1/board",
    "port is no number": f"postgresql://me:{SECRET}@127.0.0.1:port/board",
    "port too large": f"postgresql://me:{SECRET}@127.0.0.1:99999/board",
    "open bracket": f"postgresql://me:{SECRET}@[::1/board",
    "bad percent": f"postgresql://me:{SECRET}%zz@127.0.0.1/board",
    "raw slash": f"postgresql://me:{SECRET}/{SECRET}@127.0.0.1:1/board",
    "raw slash, number": f"postgresql://me:12/{SECRET}@127.0.0.1:1/board",
    "raw at": f"postgresql://me:{SECRET}@{SECRET}@127.0.0.1:1/board",
    "raw question mark": f"postgresql://me:{SECRET}?{SECRET}@127.0.0.1:1/board",
    "unknown option": f"postgresql://me:{SECRET}@127.0.0.1:1/board?what=ever",
    "option without value": f"postgresql://me:{SECRET}@127.0.0.1:1/board?{SECRET}",
    "nul": f"postgresql://me:{SECRET}@127.0.0.1:1/bo%00ard",
}


@pytest.mark.parametrize("address", ADDRESSES.values(), ids=ADDRESSES)
def test_no_error_says_a_secret(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PG-18: not in the message, hint, facts, repr, traceback or a file's name, and none of it is a fault of ours."""
    monkeypatch.chdir(tmp_path)
    told = everything_said(address)
    assert SECRET not in told
    assert list(tmp_path.iterdir()) == []


def everything_said(address: str) -> str:
    """What connecting and migrating there says, in every form in which it could be seen."""
    told = []
    place = config.locate(address)
    told.append(repr(place))
    for act in (
        lambda: coordinate.connect(address, agent="alice").list_tasks(),
        lambda: coordinate.connect(address, create=True),
        lambda: migrate.upgrade(address),
        lambda: migrate.current(address),
        lambda: migrate.check(address),
    ):
        with warnings.catch_warnings(record=True) as warned, pytest.raises(errors.CoordinateError) as refused:
            act()
        assert type(refused.value) is not errors.CoordinateError
        told += [str(each.message) for each in warned]
        told += [str(refused.value), repr(refused.value), repr(refused.value.as_dict())]
        told += ["".join(traceback.format_exception(refused.value)), repr(refused.value.__cause__)]
    return "\n".join(told)


@pytest.mark.parametrize("address", ["wrong port", "wrong driver", "raw slash", "raw at", "wrong port, query"])
def test_alembic_says_no_secret_even_when_it_says_everything(address: str, tmp_path: Path) -> None:
    """PG-18: with all logging on, from the environment, an ini and a flag; and never a traceback."""
    url = ADDRESSES[address]
    text = (CHECKOUT / "alembic.ini").read_text().replace("WARNING", "DEBUG").replace("%(here)s", str(CHECKOUT))
    loud = tmp_path / "loud.ini"
    loud.write_text(text)
    with_url = tmp_path / "url.ini"
    with_url.write_text(text.replace("[loggers]", f"sqlalchemy.url = {url}\n\n[loggers]", 1))
    for done in (
        alembic("-c", str(loud), "upgrade", "head", url=url, code=255),
        alembic("-c", str(loud), "-x", f"url={url}", "current", code=255),
        alembic("-c", str(with_url), "check", code=255),
    ):
        assert SECRET not in done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert re.search(r"cannot be read|does not answer|no database that this program knows", done.stderr)
