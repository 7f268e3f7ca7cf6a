"""What a migration test looks at: the catalog of a database, its rows, and Alembic's own command line."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine

import coordinate
from coordinate import Coordinator
from coordinate.db import schema
from coordinate.db.dialect import is_postgres
from coordinate.records import GivenRow
from tests.postgres import local_binaries

CHECKOUT = Path(__file__).parents[2]

# Each describes one kind of thing of a schema, whose name is left out so that two schemas can be compared.
POSTGRES_CATALOG = {
    "columns": """
        SELECT c.relname, c.relkind::text, a.attname,
               row_number() OVER (PARTITION BY c.oid ORDER BY a.attnum), -- a column that was dropped keeps its number
               format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text, l.collname,
               pg_get_expr(d.adbin, d.adrelid)
          FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
          LEFT JOIN pg_collation l ON l.oid = a.attcollation
          LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
         WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relkind IN ('r', 'v', 'p', 'm')
           AND a.attnum > 0 AND NOT a.attisdropped""",
    "constraints": """
        SELECT conrelid::regclass::text, conname, contype::text, pg_get_constraintdef(oid), convalidated
          FROM pg_constraint
         WHERE connamespace = quote_ident(current_schema())::regnamespace""",
    "indexes": "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()",
    "storage": """
        SELECT relname, relpersistence::text, reloptions::text, coalesce(i.indisvalid, true) FROM pg_class
          LEFT JOIN pg_index i ON i.indexrelid = pg_class.oid
         WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relkind IN ('r', 'i', 'v')""",
    "functions": """
        SELECT proname, pg_get_functiondef(oid) FROM pg_proc
         WHERE pronamespace = quote_ident(current_schema())::regnamespace""",
    "triggers": """
        SELECT tgname, pg_get_triggerdef(t.oid) FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid
         WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND NOT tgisinternal""",
    "sequences": """
        SELECT sequencename, data_type::text, start_value, increment_by FROM pg_sequences
         WHERE schemaname = current_schema()""",
    "types": """
        SELECT typname FROM pg_type WHERE typnamespace = quote_ident(current_schema())::regnamespace AND typtype <> 'c'
           AND typelem = 0""",
}


def catalog(url: str) -> dict[str, list[Any]]:
    """Everything that stands in the catalog, in an order and a spelling of its own."""
    if not is_postgres(url):
        with closing(sqlite3.connect(path_of(url))) as connection:
            found = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")
            return {"sqlite_master": [(*row[:3], spelling(row[3])) for row in found if row[1] != "sqlite_sequence"]}
    with psycopg.connect(url) as connection:
        home = connection.execute("SELECT current_schema()").fetchone()
        assert home
        return {
            kind: sorted(
                tuple(value.replace(home[0], "HOME") if isinstance(value, str) else value for value in row)
                for row in connection.execute(query.encode()).fetchall()
            )
            for kind, query in POSTGRES_CATALOG.items()
        }


def spelling(sql: str | None) -> str:
    """A definition with one spacing, one order of constraints, and without the quotes that a name does not need."""
    spaced = re.sub(r"\s+", " ", sql or "").strip()
    plain = re.sub(r'"([a-z_][a-z0-9_]*)"', r"\1", spaced).replace("( ", "(").replace(" )", ")").replace(" ,", ",")
    if not plain.startswith("CREATE TABLE"):
        return plain
    columns, *constraints = plain.removesuffix(")").split(", CONSTRAINT ")
    return ", CONSTRAINT ".join([columns, *sorted(constraints)])


def rows(url: str) -> dict[str, tuple[int, str]]:
    """Of every table, how many rows it has and a checksum over all of them."""
    if is_postgres(url):
        with psycopg.connect(url) as connection:
            listed = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
            return {
                name: _summed(connection.execute(f"SELECT * FROM {name}".encode())) for (name,) in listed.fetchall()
            }
    with closing(sqlite3.connect(path_of(url))) as connection:
        listed = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'")
        return {name: _summed(connection.execute(f"SELECT * FROM {name}")) for (name,) in listed.fetchall()}


def _summed(found: Any) -> tuple[int, str]:
    lines = sorted(repr(row) for row in found.fetchall())
    return len(lines), hashlib.sha256("\n".join(lines).encode()).hexdigest()


def run(url: str, *statements: str) -> list[Any]:
    """Run statements behind the program's back; the rows of the last."""
    if is_postgres(url):
        with psycopg.connect(url) as connection:
            found = [connection.execute(each.encode()) for each in statements][-1]
            return found.fetchall() if found.description else []
    with closing(sqlite3.connect(path_of(url))) as connection:
        found = [connection.execute(each) for each in statements][-1].fetchall()
        connection.commit()
        return found


def path_of(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def config_for(scripts: Path, **attributes: Any) -> Config:
    """Alembic from code, as a program would call it, with a folder of migrations of the test's own."""
    config = Config()
    config.set_main_option("script_location", str(scripts).replace("%", "%%"))
    config.attributes.update(attributes)
    return config


def step(url: str, revision: str, scripts: Path = CHECKOUT / "alembic") -> None:
    """One `alembic upgrade` or `downgrade`, whichever leads there, from code."""
    verb = command.downgrade if revision in ("base", "-1") else command.upgrade
    verb(config_for(scripts, target=url), revision)


def alembic(
    *arguments: str, url: str | None = None, cwd: Path = CHECKOUT, code: int = 0, **more: str
) -> subprocess.CompletedProcess[str]:
    """`python -m alembic` as a DBA types it; `url` goes into $COORDINATE_DB."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("COORDINATE", "PG"))}
    environment |= {"PYTHONPATH": str(CHECKOUT), "PYTHONWARNINGS": "error", **more}
    if url is not None:
        environment["COORDINATE_DB"] = url
    done = subprocess.run(
        [sys.executable, "-m", "alembic", *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def run_script(url: str, script: str) -> None:
    """Feed a script to an empty place as a DBA does: psql that stops at the first error, or SQLite's shell."""
    if not is_postgres(url):
        with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection:
            connection.executescript(script)
        return
    folder = local_binaries()
    psql = shutil.which("psql") or (folder and str(folder / "psql"))
    if psql is None or not Path(psql).exists():
        with psycopg.connect(url, autocommit=True) as connection:
            # One string: it stops at the first error, as psql does; but in it nothing can be CONCURRENTLY.
            connection.execute(script.replace(" CONCURRENTLY", "").encode())
        return
    done = subprocess.run(
        [psql, "--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", url],
        input=script,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def fill(url: str, *, owner: str | None = None) -> None:
    """Put rows into every table of a board at head by using it: each status, each outcome, each kind of note."""
    with coordinate.connect(url, agent="alice") as alice, coordinate.connect(url, agent="bob") as bob:
        alice.set_project_defaults(name="default", lease_seconds=600, max_attempts=3)
        first = alice.dispatch(title="The first: 100% ½ 'quoted' \"twice\"", role="worker", scopes=["src/**"]).task
        then = alice.dispatch(title="Behind it", role="worker", depends_on=[first.id]).task
        for title in ("Reviewed", "Blocked", "Released", "Transferred", "Rejected", "Expired", "Held"):
            alice.dispatch(title=title, role="worker", body="\n".join(["x"] * 50), dedup_key=title)
        claim = alice.claim_next(role="worker")
        assert claim and claim.task.id == first.id
        alice.log_progress(handle=claim, note="half of it", note_type="DECISION")
        alice.complete(handle=claim, result="done: é🚀")
        claims = {each.task.title: each for each in alice.claim_batch(role="worker", count=8)}
        assert then.title in claims and len(claims) == 8
        alice.complete(handle=claims["Reviewed"], review=True)
        bob.approve(task=claims["Reviewed"].task.id, note="good")
        alice.block(handle=claims["Blocked"], reason="no key")
        alice.release(handle=claims["Released"], after_seconds=3600)
        alice.transfer(handle=claims["Transferred"], to="bob")
        alice.complete(handle=claims["Rejected"], review=True)
        bob.reject(task=claims["Rejected"].task.id, reason="no tests")
        alice.cancel(task=claims[then.title].task.id)
        alice.comment(task=first.id, text="remember")
        run(url, f"UPDATE tasks SET lease_until = created_at WHERE id = '{claims['Expired'].task.id}'")
        assert bob.claim_task(task=claims["Expired"].task.id).attempt == 2
        alice.session = alice.register(name="alice").id
        assert alice.open_worktree(task=claims["Held"].handle, branch="b", root="/r", patterns=["docs"]).worktree
        assert alice.claim_scopes(patterns=["lib"]).granted
        alice.mark_applied(stream="main", event_keys=["k"])
        alice.create_token(name="bob", role="worker")
        fill_inbox(alice, first.id)
        alice.emit(event_type="learned", payload={"n": [1, None, "é"]}, message="kept", ttl_seconds=None)
        alice.emit(event_type="gone", ttl_seconds=0)
        batch = alice.next_events(consumer="reader", from_start=True)
        alice.ack(consumer="reader", position=batch.events[3].id)
        run(url, "UPDATE events SET created_at = (SELECT min(created_at) FROM tasks) WHERE event_type = 'gone'")
        assert alice.prune().events_deleted >= 1
        came = "1, '5a', 'arrived', '/board.db', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:01.000Z'"
        run(owner or url, f"INSERT INTO board_move (id, move, state, address, fenced_at, opened_at) VALUES ({came})")
    empty = [table for table, (count, _) in rows(url).items() if count == 0]
    assert empty == [], f"nothing was written to {empty}"


def fill_inbox(c: Coordinator, task: str) -> None:
    """Asks at every state, words beside them, a board with a blocked row, and a task reserved for its asker."""
    said: dict[str, Any] = {"action_owner": "decision", "impact": "all waits", "options": ["a", {"label": "b"}]}
    for number in range(4):
        c.ask(title=f"Which {number}?", dedup_key=f"k{number}", timeout_seconds=3600, context="long", **said)
    c.respond(ask="ASK-1", choice="a", text="é🚀", client_id="c", client_seq=1, action_id="x")
    c.annotate(ask="ASK-2", text="mind the gap")
    c.pending()
    c.acknowledge(ask="ASK-1", response_seq=1, outcome="done so")
    c.respond(ask="ASK-2", kind="clarify", text="what?")
    c.snooze(ask="ASK-3", until=datetime(2090, 1, 1, tzinfo=UTC))
    c.dispatch(title="Asks", role="asker", dedup_key="asks")
    asked = c.claim_next(role="asker")
    assert asked
    c.ask(title="May I?", task=asked, blocking=True, **said)
    c.respond(ask="ASK-5", choice="b")
    c.board_upsert(title="Plan", rows=[GivenRow("one")])


@contextmanager
def unchanged(url: str) -> Iterator[None]:
    """Nothing in the database changes within the block: every table, every byte of a file."""
    before = _state(url)
    yield
    assert _state(url) == before


def _state(url: str) -> Any:
    if is_postgres(url):
        return catalog(url), rows(url)
    folder = path_of(url).parent
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def create_tables(url: str) -> None:
    address = url.replace("postgresql://", "postgresql+psycopg://", 1) if is_postgres(url) else f"sqlite:///{url}"
    engine = create_engine(address)
    with engine.begin() as connection:
        schema.create_all(connection)
    engine.dispose()


def a_second_place(engine: str, tmp_path: Path, request: pytest.FixtureRequest) -> AbstractContextManager[str]:
    if engine == "sqlite":
        return nullcontext(str(tmp_path / f"{token_hex(4)}.db"))
    return request.getfixturevalue("postgres").schema()


# A migration behind the product's own, which a test may break and mend.

LATER = """
import sqlalchemy as sa
from alembic import op
revision, down_revision, branch_labels, depends_on = "{revision}", "{before}", None, None
def upgrade():
    op.create_table("later_{revision}", sa.Column("id", sa.Integer(), primary_key=True))
    op.add_column("tasks", sa.Column("mood_{revision}", sa.Text()))
    {fault}
    op.execute("UPDATE schema_window SET revision = '{revision}'")
def downgrade():
    {fault}
    op.drop_column("tasks", "mood_{revision}")
    op.drop_table("later_{revision}")
"""
FAILS = "INSERT INTO there_is_no_such_table VALUES (1)"
FAULT = f'op.execute("{FAILS}")'


def write_later(scripts: Path, revision: str, before: str, *, fault: str = "pass") -> None:
    (scripts / "versions" / f"{revision}_later.py").write_text(
        LATER.format(revision=revision, before=before, fault=fault)
    )
