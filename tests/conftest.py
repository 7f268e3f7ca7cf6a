"""What every test can ask for: an empty place, a board, a Postgres server; on both engines, and never a silent skip."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest

from tests.doors import browser
from tests.pooler import Pooler
from tests.postgres import Server, Unavailable, start_server, with_user

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

    from coordinate import Coordinator

SERVER = pytest.StashKey[Server]()


# Which engines, and which Postgres: decided once, in the process that the user started, before anything is collected.


# Started in the background SIGINT is ignored, by nohup SIGHUP, and so would every program under test ignore them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Where no bytecode is written, each of the many programs under test would compile what all of them import.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engine",
        choices=["sqlite", "postgresql", "both"],
        default="both",
        help="run what needs no database and what runs on this engine; the rest is deselected (default: both)",
    )
    parser.addoption(
        "--postgres-as",
        choices=["owner", "rows", "pooled"],
        default="owner",
        help="how boards on Postgres are met: as the owner of the tables (default), as a role that may change rows and"
        " nothing else, or through pgbouncer in transaction mode",
    )

    parser.addoption(
        "--no-skips",
        action="store_true",
        help="fail when a test was skipped or expected to fail: for a machine on which every test can run",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput"):
        if shared := config.workerinput["postgres"]:
            config.stash[SERVER] = Server(*shared)
    elif config.option.engine != "sqlite" and not config.option.collectonly:
        try:
            config.stash[SERVER] = start_server()
        except Unavailable as refusal:
            raise pytest.UsageError(str(refusal)) from refusal


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: WorkerController) -> None:
    """Hand the one server to a worker of pytest-xdist; workers never start one."""
    server = node.config.stash.get(SERVER, None)
    node.workerinput["postgres"] = server and (server.url, server.how)


def not_run(config: pytest.Config) -> int:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return sum(len(reporter.stats.get(kind, ())) for kind in ("skipped", "xfailed", "xpassed")) if reporter else 0


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.option.no_skips and not hasattr(session.config, "workerinput") and not_run(session.config):
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.option.no_skips and (count := not_run(config)):
        terminalreporter.write_line(f"--no-skips: {count} test(s) were skipped or expected to fail", red=True)


def pytest_unconfigure(config: pytest.Config) -> None:
    if server := config.stash.get(SERVER, None):
        server.stop()


def pytest_report_header(config: pytest.Config) -> list[str]:
    engine = config.option.engine
    server = config.stash.get(SERVER, None)
    postgres = f"postgres: {server.how if server else 'not started'}"
    postgres += f"\nbrowser: {browser.find() or 'NONE FOUND, the tests of the page are SKIPPED: install Chromium'}"
    return [postgres] if engine == "both" else [f"engine: {engine} only, tests on the other are DESELECTED", postgres]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    engine = config.option.engine
    if engine == "both":
        return
    config.hook.pytest_deselected(items=[item for item in items if needs_other_engine(item, engine)])
    items[:] = [item for item in items if not needs_other_engine(item, engine)]


def needs_other_engine(item: pytest.Item, engine: str) -> bool:
    """A test that uses both engines at once (a move, say) counts as one of Postgres."""
    fixtures = getattr(item, "fixturenames", ())
    chosen = item.callspec.params.get("engine") if hasattr(item, "callspec") else None
    on_postgres = chosen == "postgresql" or "postgres" in fixtures
    on_sqlite = (chosen == "sqlite" or "sqlite_url" in fixtures) and not on_postgres
    return on_postgres if engine == "sqlite" else on_sqlite


# Empty places.


@pytest.fixture(scope="session")
def postgres(pytestconfig: pytest.Config) -> Server:
    """The server that all tests and workers share: do not stop it."""
    server = pytestconfig.stash.get(SERVER, None)
    if server is None:
        pytest.fail("This test asks for Postgres at run time, but --engine sqlite was given.")
    return server


@pytest.fixture
def pg_url(postgres: Server) -> Iterator[str]:
    """A fresh, empty schema."""
    with postgres.schema() as url:
        yield url


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A path where no file is yet."""
    return str(tmp_path / "empty.db")


@pytest.fixture(params=["sqlite", "postgresql"])
def engine(request: pytest.FixtureRequest) -> str:
    """The engine that this run of the test is on."""
    return request.param


@pytest.fixture
def db_url(engine: str, request: pytest.FixtureRequest) -> str:
    """An empty place on either engine: no file yet, or an empty schema."""
    return request.getfixturevalue("sqlite_url" if engine == "sqlite" else "pg_url")


@pytest.fixture
def other_url(engine: str, postgres: Server, request: pytest.FixtureRequest) -> str:
    """An empty place on the other engine."""
    return str(request.getfixturevalue("pg_url" if engine == "sqlite" else "sqlite_url"))


# Boards: the same with the schema at head, made once and then copied, because upgrading each time is slow.


@pytest.fixture
def board_url(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A board at head, with nothing on it."""
    if engine == "sqlite":
        yield str(shutil.copy(request.getfixturevalue("sqlite_template"), tmp_path / "board.db"))
        return
    server, script = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_script")
    met = request.config.option.postgres_as
    if met == "pooled":  # a pooler knows no search_path of a client's own: hence a database each
        pooler = request.getfixturevalue("pooler")
        with server.database() as url:
            create_board_on_postgres(url, script)
            yield pooler.url(url)
        return
    with server.schema() as url:
        create_board_on_postgres(url, script)
        yield url if met == "owner" else with_rows_only(url)


@pytest.fixture(scope="session")
def pooler(postgres: Server) -> Iterator[Pooler]:
    """pgbouncer in transaction mode, with two connections to the server for each database."""
    with Pooler(postgres) as pooler:
        yield pooler


@pytest.fixture
def board(board_url: str) -> Iterator[Coordinator]:
    """An open Coordinator of agent alice on a board of its own."""
    import coordinate

    with coordinate.connect(board_url, agent="alice") as coordinator:
        yield coordinator


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from coordinate.db import migrate

    template = tmp_path_factory.mktemp("template") / "board.db"
    migrate.upgrade(str(template))
    left_open = template.with_name("board.db-wal")
    assert not left_open.exists(), (
        "upgrade left a connection open: a copy of the file alone would miss what is in the WAL"
    )
    return template


@pytest.fixture(scope="session")
def postgres_script() -> str | None:
    """The whole upgrade as SQL, or None where the migrations cannot print it."""
    from coordinate.db import migrate

    if not hasattr(migrate, "sql"):
        return None
    # CONCURRENTLY cannot run in one batch with other statements, and would wait for the transactions of other tests.
    return migrate.sql("postgresql").replace(" CONCURRENTLY", "")


def create_board_on_postgres(url: str, script: str | None) -> None:
    from coordinate.db import migrate

    if script is None:
        migrate.upgrade(url)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(script.encode())


def with_rows_only(url: str) -> str:
    """The same board for a role that has what `coordinate db grant` prints, and nothing else."""
    from coordinate.db import server

    home = server.home_of(url)
    with psycopg.connect(url, autocommit=True) as connection:
        with suppress(psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
            connection.execute("CREATE ROLE coordinate_rows LOGIN PASSWORD 'rows'")
        # Where the board is, the address says: each test has another place.
        grants = [line for line in server.grants(home, "coordinate_rows").splitlines() if "search_path" not in line]
        connection.execute("\n".join(grants).encode())
    return with_user(url, "coordinate_rows", "rows")
