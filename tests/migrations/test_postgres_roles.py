"""Migrations on a Postgres that others own and use: rights, schemas, locks in the way."""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db import doctor, migrate
from coordinate.db.compiled import Library
from coordinate.db.dialect import Postgres
from coordinate.db.env import LOCK_SECONDS
from coordinate.db.knowledge import HEAD
from coordinate.db.schema import metadata
from tests.migrations.catalog import alembic, catalog, fill, rows, run, run_script, step, unchanged, write_later
from tests.postgres import Server, with_user


class Roles:
    """Roles that live as long as the test."""

    def __init__(self, superuser: str) -> None:
        self.superuser = superuser
        self.made: list[str] = []

    def make(self, name: str) -> str:
        role = f"{name}_{secrets.token_hex(4)}"
        run(self.superuser, f"CREATE ROLE {role} LOGIN PASSWORD 'pw' NOSUPERUSER")
        self.made.append(role)
        return role

    def url(self, role: str, url: str) -> str:
        return re.sub(r"^postgresql://[^@/?]*@", f"postgresql://{role}:pw@", url)


@pytest.fixture
def roles(postgres: Server) -> Iterator[Roles]:
    roles = Roles(postgres.url)
    yield roles
    for role in roles.made:
        run(postgres.url, f"DROP ROLE {role}")


@pytest.fixture
def home(postgres: Server, roles: Roles) -> Iterator[str]:
    """A database of the test's own, as its superuser; gone before the roles that own things in it."""
    with postgres.database() as url:
        yield url


# --- PG-15: rights ----------------------------------------------------------------------------------------------------


def test_a_role_that_may_not_create_is_told_which_grant_it_needs(home: str, roles: Roles) -> None:
    """PG-15 (a): and the grant that the message shows is enough."""
    role = roles.make("plain")
    run(home, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    as_role = roles.url(role, home)
    with (
        unchanged(home),
        pytest.raises(errors.PermissionDenied, match=f"role {role} may not migrate schema public") as no,
    ):
        migrate.upgrade(as_role)
    said = alembic("upgrade", "head", url=as_role, code=255).stderr
    assert "Traceback" not in said
    grant = re.search(r"GRANT .*", no.value.hint)
    assert grant
    assert grant[0] in said
    run(home, grant[0])
    migrate.upgrade(as_role)
    fill(as_role)


def test_a_role_that_may_not_even_use_the_schema_is_told_so(home: str, roles: Roles) -> None:
    """PG-15 (a)"""
    role = roles.make("stranger")
    run(home, "REVOKE ALL ON SCHEMA public FROM PUBLIC")
    with (
        unchanged(home),
        pytest.raises(errors.NoBoard, match="no schema in its search_path that this role may use") as no,
    ):
        migrate.upgrade(roles.url(role, home))
    assert "GRANT USAGE, CREATE" in no.value.hint


def test_the_program_needs_nothing_but_rows_of_tables_that_a_dba_owns(home: str, roles: Roles) -> None:
    """PG-15 (b): the whole life of tasks and events, cursors included; and any attempt at DDL would fail the test."""
    dba, app = roles.make("dba"), roles.make("app")
    run(home, f"CREATE SCHEMA board AUTHORIZATION {dba}", f"ALTER ROLE {app} SET search_path = board")
    run(home, f"ALTER ROLE {dba} SET search_path = board")
    migrate.upgrade(roles.url(dba, home))
    for grant in GRANTS:
        run(roles.url(dba, home), grant.format(schema="board", role=app))
    run(home, FORBID_DDL.format(role=app), "CREATE EVENT TRIGGER no_ddl ON ddl_command_start EXECUTE FUNCTION no_ddl()")
    as_app = roles.url(app, home)
    with pytest.raises(psycopg.Error, match="attempted CREATE TABLE"):
        run(as_app, "CREATE TEMP TABLE x (id int)")
    fill(as_app)
    with coordinate.connect(as_app, agent="carol") as c:
        c.dispatch(title="one more", role="worker")
        assert c.next_events(consumer="another", from_start=True).events[-1].event == "task.created"
    assert migrate.current(as_app).at_head
    assert migrate.upgrade(as_app).backup is None  # at head: nothing to do, and so nothing to be allowed
    run(home, "DROP EVENT TRIGGER no_ddl")
    with unchanged(as_app), pytest.raises(errors.PermissionDenied, match="may not migrate schema board") as no:
        migrate.downgrade(as_app, "0001")
    assert f"role that owns the tables: {dba}" in no.value.hint


# What docs/dba.md tells a DBA to grant.
GRANTS = (
    "GRANT USAGE ON SCHEMA {schema} TO {role}",
    "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
)
FORBID_DDL = """
    CREATE FUNCTION public.no_ddl() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN
        IF current_user = '{role}' THEN RAISE EXCEPTION 'attempted %', tg_tag; END IF;
    END $$"""


def test_the_documented_grants_are_the_tested_ones() -> None:
    said = " ".join((Path(__file__).parents[2] / "docs" / "dba.md").read_text().split())
    for grant in GRANTS:
        assert grant.format(schema="board", role="app") in said


def test_no_statement_of_the_program_is_ddl(engine: str) -> None:
    """PG-15 (b): by reading all that will ever be sent."""
    library = Library(engine)
    for name in library.names():
        assert re.match(r"(SELECT|INSERT|UPDATE|DELETE|WITH)\b", library[name].sql), library[name].sql
        assert not re.search(r"\b(CREATE|ALTER|DROP|TRUNCATE|GRANT)\b", library[name].sql), name


def test_a_temporary_table_of_the_caller_does_not_slip_into_the_numbering(home: str, roles: Roles) -> None:
    """The numbering step runs with its owner's rights: it must look at the board's tables and at no others."""
    role = roles.make("sly")
    migrate.upgrade(home)
    for grant in GRANTS:
        run(home, grant.format(schema="public", role=role))
    with coordinate.connect(home, agent="alice") as c:
        c.dispatch(title="t", role="worker")
    with psycopg.connect(roles.url(role, home)) as connection:
        connection.execute(
            "CREATE TEMP TABLE event_feed_state AS SELECT 1 AS id, 100::bigint AS position,"
            " NULL::pg_snapshot AS snapshot, ''::text AS cluster"
        )
        assert connection.execute("SELECT coordinate_number_events(10)").fetchone() == (1,)


def test_verbs_that_look_work_where_nothing_may_be_written(home: str, roles: Roles) -> None:
    migrate.upgrade(home)
    role = roles.make("reader")
    run(home, f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}")
    run(home, f"ALTER ROLE {role} SET default_transaction_read_only = on")
    as_role = roles.url(role, home)
    assert migrate.current(as_role).at_head
    assert migrate.check(as_role) == []
    assert f"{HEAD} (head)" in alembic("current", url=as_role).stdout
    run(home, f"GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}")
    with coordinate.connect(as_role, agent="alice") as c:
        assert not c.list_tasks().tasks
        with pytest.raises(errors.ReadOnly, match="default_transaction_read_only"):
            c.dispatch(title="what a DBA forbade", role="worker")


def test_missing_rights_are_named_even_where_nothing_can_be_read(home: str, roles: Roles) -> None:
    migrate.upgrade(home)
    examined = doctor.examine(roles.url(roles.make("blind"), home))
    (said, lacks) = [symptom for symptom in examined.symptoms if symptom.kind == "rights"]
    assert "permission denied" in said.said
    assert "agents: SELECT" in lacks.found
    assert lacks.count > 50


def test_a_database_that_is_not_there_and_a_role_that_is_not_are_no_reason_to_try_again(home: str) -> None:
    with pytest.raises(errors.NoBoard, match="does not exist"):
        migrate.current(
            re.sub(r"@/\w+", "@/nowhere", home) if "@/" in home else re.sub(r"(@[^/]+)/\w+", r"\1/nowhere", home)
        )
    with pytest.raises(errors.PermissionDenied, match="lets nobody in"):
        migrate.current(with_user(home, "nobody at all", "pw"))


def test_a_printed_script_runs_only_where_it_begins(home: str) -> None:
    migrate.upgrade(home, "0006")
    printed = migrate.sql("postgresql", "0007:0008")
    with pytest.raises(psycopg.errors.RaiseException, match="begins at revision 0007"):
        run(home, printed)
    migrate.upgrade(home, "0007")
    run_script(home, printed)
    assert migrate.current(home).revisions == ("0008",)
    with pytest.raises(errors.InvalidInput, match="way back"):
        migrate.sql("postgresql", "0008:0004")
    run_script(home, migrate.sql("postgresql", "0008:0007", down=True))
    assert migrate.current(home).revisions == ("0007",)


TASK = (
    "INSERT INTO tasks (id, number, title, status, role_boundary, created_at, updated_at)"
    " VALUES ('TASK-{0}', {0}, 't', 'TODO', 'worker', now(), now())"
)
UNFINISHED = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_tasks_finished'::regclass"


def test_an_index_is_built_beside_writers(home: str) -> None:
    migrate.upgrade(home, "0008")
    run(home, TASK.format(1))
    with psycopg.connect(home) as writer, ThreadPoolExecutor() as beside:
        writer.execute(TASK.format(2).encode())
        upgrade = beside.submit(migrate.upgrade, home)
        waits = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
            " AND query LIKE '% INDEX CONCURRENTLY %'"
        )
        while not run(home, waits)[0][0]:
            assert not upgrade.done()
        run(home, TASK.format(3))  # nobody waits for it
        writer.commit()
        upgrade.result(timeout=60)
    assert migrate.current(home).at_head
    ((built,),) = run(home, "SELECT indexdef FROM pg_indexes WHERE indexname = 'idx_tasks_finished'")
    assert "(finished_at, number) WHERE" in built
    assert run(home, "SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]


def test_a_build_that_gives_up_says_how_long_it_waited_and_what_it_left(home: str, scripts: Path) -> None:
    """And the doctor names the way on; it is the one that works."""
    migrate.upgrade(home, "0008")
    run(home, TASK.format(1))
    revision = scripts / "versions" / "0009_finished.py"
    revision.write_text(revision.read_text().replace('"60s"', '"1s"'))
    with psycopg.connect(home, application_name="sleeper") as idle:
        idle.execute(TASK.format(2).encode())
        with pytest.raises(errors.MigrationBlocked, match=r"waited 1 s .*sleeper") as no:
            step(home, "0009", scripts)
    assert "unfinished index stays (idx_tasks_finished)" in no.value.hint
    (left,) = [each for each in doctor.examine(home).symptoms if each.kind == "indexes"]
    assert "coordinate db upgrade" in left.hint
    migrate.upgrade(home)
    assert run(home, "SELECT count(*) FROM pg_index WHERE NOT indisvalid") == [(0,)]


def test_what_a_failed_build_left_is_cleared_from_an_empty_table_too(home: str) -> None:
    migrate.upgrade(home, "0008")
    ours = "(finished_at, number) WHERE finished_at IS NOT NULL"
    run(home, f"CREATE INDEX idx_tasks_finished ON tasks {ours}", UNFINISHED)
    migrate.upgrade(home)
    assert migrate.check(home) == []


@pytest.mark.parametrize("left", ["on another table", "another on tasks", "another that is unfinished"])
@pytest.mark.parametrize("script", [False, True])
def test_what_others_named_like_an_index_of_ours_is_never_dropped(home: str, left: str, script: bool) -> None:
    migrate.upgrade(home, "0008")
    run(home, TASK.format(1), "CREATE TABLE invoices (title text)")
    run(home, f"CREATE INDEX idx_tasks_finished ON {'invoices' if left == 'on another table' else 'tasks'} (title)")
    if left != "another on tasks":
        run(home, UNFINISHED)
    with unchanged(home):
        if script:
            with pytest.raises((AssertionError, psycopg.Error), match="not what the board needs"):
                run_script(home, migrate.sql("postgresql", "0008:0009"))
        else:
            with pytest.raises(errors.NotABoard, match="idx_tasks_finished"):
                migrate.upgrade(home)
    assert migrate.current(home).revisions == ("0008",)


# --- PG-15: schemas ---------------------------------------------------------------------------------------------------


def test_a_schema_may_have_as_long_a_name_as_the_server_allows(postgres: Server) -> None:
    """Whoever waits is woken by a name that has the schema's in it, and no more room than that."""
    with postgres.schema("long_" + "ü" * 29) as url, coordinate.connect(url, agent="a", create=True) as c:
        engine = c.database.engine
        assert isinstance(engine, Postgres)
        with engine._listener() as listening:
            c.dispatch(title="T", role="worker")
            assert [told.payload for told in listening.notifies(timeout=30, stop_after=1)] == ["ready"]


@pytest.mark.parametrize("schema", ["coord", "team-b", 'Team "B"'])
def test_everything_is_made_in_the_first_schema_whatever_stands_in_the_others(
    home: str, schema: str, roles: Roles, postgres: Server
) -> None:
    """PG-15 (c) and (d): a decoy version table and a decoy tasks table in public are neither read nor written."""
    run(
        home,
        f"CREATE SCHEMA {quoted(schema)}",
        "CREATE TABLE public.coordinate_version (version_num varchar(32) NOT NULL)",
        "INSERT INTO public.coordinate_version VALUES ('9999')",
        "CREATE TABLE public.tasks (id integer)",
    )
    role = roles.make("owner")
    run(home, f"ALTER SCHEMA {quoted(schema)} OWNER TO {role}", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
    run(home, f"ALTER ROLE {role} SET search_path = {quoted(schema)}, public")
    url = roles.url(role, home)
    with unchanged(home):  # looks at public
        with pytest.raises(errors.NoBoard):
            coordinate.connect(url, agent="alice")
        assert migrate.upgrade(url).before is None
        fill(url)
        assert f"{HEAD} (head)" in alembic("current", url=url).stdout
        assert migrate.check(url) == []
        assert len(rows(url)) == len(metadata.tables) + 1, "and the version"
        alembic("downgrade", "base", url=url)
        assert {kind: found for kind, found in catalog(url).items() if found} == {}
        alembic("upgrade", "head", url=url)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


# --- PG-12: somebody stands in the way --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", ["upgrade", "downgrade"])
def test_a_blocked_migration_gives_up_soon_names_who_blocks_and_holds_nobody_up(
    pg_url: str, scripts: Path, way: str
) -> None:
    """PG-12"""
    migrate.upgrade(pg_url)
    write_later(
        scripts,
        "9001",
        HEAD,
        fault="op.execute(\"SELECT set_config('x.idle', current_setting("
        "'idle_in_transaction_session_timeout'), false)\")",
    )
    with coordinate.connect(pg_url, agent="alice") as c, psycopg.connect(pg_url, application_name="sleeper") as idle:
        c.dispatch(title="t", role="worker")
        idle.execute("SELECT count(*) FROM tasks, tokens, leases, sessions, board_move")
        latencies: list[float] = []
        done = threading.Event()
        reader = threading.Thread(target=list_tasks_until, args=(pg_url, done, latencies))
        before = run(pg_url, "SELECT version_num FROM coordinate_version")
        reader.start()
        started = time.monotonic()
        with pytest.raises(
            errors.MigrationBlocked, match=f"backend {idle.info.backend_pid} \\(idle in transaction, sleeper"
        ) as no:
            if way == "upgrade":
                step(pg_url, "9001", scripts)
            else:
                migrate.downgrade(pg_url, "base")
        assert time.monotonic() - started < LOCK_SECONDS + 10
        done.set()
        reader.join()
        assert str(idle.info.backend_pid) in no.value.facts["blocked_by"]  # type: ignore[operator]
        assert no.value.exit_status == 5
        assert max(latencies) < LOCK_SECONDS + 10
        idle.rollback()
        assert run(pg_url, "SELECT version_num FROM coordinate_version") == before
    if way == "upgrade":
        step(pg_url, "9001", scripts)
    else:
        migrate.downgrade(pg_url, "base")


def list_tasks_until(url: str, done: threading.Event, latencies: list[float]) -> None:
    with coordinate.connect(url, agent="bob") as c:
        while not done.is_set():
            started = time.monotonic()
            try:
                c.list_tasks()
            except errors.SchemaBehind:
                return  # a downgrade went past this program
            latencies.append(time.monotonic() - started)
            time.sleep(0.02)


@pytest.mark.slow
def test_the_command_line_says_who_blocks_without_a_traceback(pg_url: str) -> None:
    """PG-12"""
    migrate.upgrade(pg_url)
    with psycopg.connect(pg_url) as idle:
        idle.execute("SELECT count(*) FROM events")
        said = alembic("downgrade", "0001", url=pg_url, code=255).stderr
        assert f"backend {idle.info.backend_pid}" in said
        assert "Traceback" not in said
    alembic("downgrade", "0001", url=pg_url)


def test_a_migration_that_is_cut_off_does_not_hold_its_locks_for_ever(pg_url: str, scripts: Path) -> None:
    """PG-12: the server ends a session that stays idle inside a migration's transaction."""
    asks = "assert op.get_bind().exec_driver_sql('SHOW {}').scalar() == '{}'"
    fault = "; ".join([asks.format("idle_in_transaction_session_timeout", "1min"), asks.format("lock_timeout", "2s")])
    write_later(scripts, "9001", HEAD, fault=fault)
    step(pg_url, "9001", scripts)


OURS = ("idle_in_transaction_session_timeout", "plan_cache_mode", "jit")


def test_the_programs_own_transactions_have_settings_of_their_own(board: coordinate.Coordinator) -> None:
    """PG-12: on Postgres a client that stops holds nothing for ever; writers plan once, and compile nothing."""
    if board.database.engine.name == "postgresql":
        connection = board.database.engine.connect()
        for writes in (True, False):
            board.database.engine.begin(connection, writes=writes)
            shown = [connection.execute(f"SHOW {name}").fetchone()[0] for name in OURS]
            board.database.engine.rollback(connection)
            assert shown == (["30s", "force_generic_plan", "off"] if writes else ["30s", "auto", "on"])
        board.database.engine.close(connection)


def test_an_upgrade_waits_for_another_and_finds_it_done(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinate.db.env.WAIT_SECONDS", 0.5)
    with psycopg.connect(pg_url, autocommit=True) as other:
        key = "hashtextextended(current_schema() || '/migrate', 0)"
        other.execute(f"SELECT pg_advisory_lock({key})")
        with pytest.raises(errors.MigrationBlocked, match="another upgrade has been running"):
            migrate.upgrade(pg_url)
    assert migrate.upgrade(pg_url).after == HEAD
