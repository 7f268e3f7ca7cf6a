"""pgbouncer in front of the tests' Postgres, as teams run it: transaction mode, few connections, nothing prepared.

Debian's 1.18 is the right one to test with: it loses what a client prepares, and every state of a session.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

from tests.postgres import Server, nobody, stop_at_exit, url_with_database, wait_for_answer

SETTINGS = """
[databases]
* = {server}
[pgbouncer]
pool_mode = transaction
default_pool_size = 2
max_client_conn = 500
listen_addr =
listen_port = 6432
unix_socket_dir = {home}
auth_type = any
ignore_startup_parameters = extra_float_digits
logfile = {home}/log
pidfile = {home}/pid
"""


class Pooler:
    """A running pgbouncer, for as long as the block lasts."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.home = Path(tempfile.mkdtemp(prefix="pool-", dir="/tmp"))
        self.process: subprocess.Popen[bytes] | None = None

    def url(self, url: str) -> str:
        """The same database through the pooler."""
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        return url_with_database(f"postgresql://postgres@/postgres?host={self.home}&port=6432", str(name))

    def __enter__(self) -> Pooler:
        program = shutil.which("pgbouncer", path=os.environ["PATH"] + ":/usr/sbin")
        if program is None:
            pytest.fail("pgbouncer is not installed: apt-get install pgbouncer")
        known = psycopg.conninfo.conninfo_to_dict(self.server.url)
        named = {part: known[part] for part in ("host", "port", "user", "password") if known.get(part)}
        settings = self.home / "settings.ini"
        settings.write_text(SETTINGS.format(home=self.home, server=psycopg.conninfo.make_conninfo(**named)))
        owner = nobody() if os.geteuid() == 0 else {}
        if owner:
            for path in (self.home, settings):
                os.chown(path, owner["user"], owner["group"])
        self.process = subprocess.Popen([program, "-q", settings], stdin=subprocess.DEVNULL, **owner)
        stop_at_exit(self)  # type: ignore[arg-type]
        wait_for_answer(self.url(self.server.url), seconds=20, still_running=lambda: self.process.poll() is None)  # type: ignore[union-attr]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.home)
