"""What an operator has: backups, grants, a check that deployments wait on; from outside, on real engines."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import coordinate
from coordinate import errors
from coordinate.db import backup, dialect, doctor, knowledge, migrate, move, server
from coordinate.records import Symptom
from tests.doors.command import Command
from tests.migrations.catalog import fill, rows, run, run_script
from tests.postgres import Server, with_user
from tests.races import arena

FORK = multiprocessing.get_context("fork")


# --- backup -----------------------------------------------------------------------------------------------------------


def test_a_backup_is_one_checked_file_that_works_as_a_board(board_file: Path, tmp_path: Path) -> None:
    """SQ-09: a connection is open, and what was committed last is in the log alone."""
    call = Command(str(board_file), tmp_path)
    tmp_path.chmod(0o755)
    board_file.chmod(0o640)
    with coordinate.connect(board_file, agent="alice") as c:
        c.dispatch(title="only in the log", role="worker")
        told = call("db", "backup", "a#b ?%20é.db").json
        assert list(told) == ["database", "backup", "bytes", "rows"]
        made = tmp_path / "a#b ?%20é.db"
        assert (told["backup"], told["bytes"]) == (str(made), made.stat().st_size)
        assert rows(str(made)) == rows(str(board_file))
        assert told["rows"].items() >= {table: count for table, (count, _) in rows(str(made)).items()}.items()
    assert made.stat().st_mode & 0o777 == 0o640
    assert {path.name for path in tmp_path.iterdir()} == {made.name, board_file.name}
    with coordinate.connect(made, agent="alice") as c:
        assert c.list_tasks(query="only in the log").tasks
    again = call("db", "backup", made.name)
    assert (again.status, again.error["code"]) == (2, "not_empty")


def test_a_backup_holds_all_that_was_acknowledged_before_it_began_while_writers_work(
    board_file: Path, tmp_path: Path
) -> None:
    """SQ-09"""
    acknowledged: list[str] = []
    over = threading.Event()

    def write() -> None:
        with coordinate.connect(board_file, agent="writer") as c:
            while not over.is_set():
                acknowledged.append(c.dispatch(title="t", role="worker").task.id)

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        for number in range(5):
            before = list(acknowledged)
            made = backup.export(board_file, tmp_path / f"copy-{number}.db")
            held = {task_id for (task_id,) in run(made.backup, "SELECT id FROM tasks")}
            assert set(before) <= held
            assert run(made.backup, "PRAGMA integrity_check") == [("ok",)]
    finally:
        over.set()
        for writer in writers:
            writer.join()


@pytest.mark.slow
def test_an_operators_backup_that_is_killed_leaves_no_file_that_looks_complete(
    board_file: Path, tmp_path: Path
) -> None:
    """SQ-09: SIGKILL at twenty moments."""
    expected = rows(str(board_file))
    chance = random.Random(2)
    folder = tmp_path / "copies"
    folder.mkdir()
    for turn in range(20):
        process = FORK.Process(target=_export_again_and_again, args=(board_file, folder, turn))
        process.start()
        while not (folder / f"{turn}-0.db").exists():
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.06))
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    whole = [path for path in folder.iterdir() if ".partial" not in path.name]
    assert len(whole) >= 20
    for path in whole:
        with closing(sqlite3.connect(path)) as alone:
            assert alone.execute("PRAGMA quick_check").fetchone() == ("ok",)
            assert alone.execute("SELECT count(*) FROM events").fetchone() == (expected["events"][0],)


def _export_again_and_again(board: Path, folder: Path, turn: int) -> None:
    for number in range(10_000):
        backup.export(board, folder / f"{turn}-{number}.db")


def test_where_storage_knows_no_links_a_backup_still_replaces_nothing(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """vfat, exfat and many network mounts refuse link(2)."""
    mine = tmp_path / "mine.db"

    def refuse(source: Path, target: Path) -> None:
        mine.write_text("mine")  # somebody is faster
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    made = backup.export(plain, tmp_path / "stick.db")
    assert rows(made.backup) == rows(str(plain))
    mine.unlink()
    with pytest.raises(errors.NotEmpty, match="appeared meanwhile"):
        backup.export(plain, mine)
    assert {path.name for path in tmp_path.iterdir()} == {plain.name, "mine.db", "stick.db"}
    assert mine.read_text() == "mine"


def test_what_is_no_board_is_not_backed_up_and_no_file_is_left(tmp_path: Path) -> None:
    call = Command(str(tmp_path / "none.db"), tmp_path)
    assert call("db", "backup", "copy.db").error["code"] == "no_board"
    (tmp_path / "none.db").write_bytes(b"Dear diary" * 500)
    assert call("db", "backup", "copy.db").error["code"] == "not_a_board"
    run(str(tmp_path / "other.db"), "CREATE TABLE invoices (id)")
    assert call("db", "backup", "copy.db", "--db", "other.db").error["code"] == "not_a_board"
    assert {path.name for path in tmp_path.iterdir()} == {"none.db", "other.db"}


def test_a_damaged_board_is_not_taken_for_a_backup(board_file: Path, tmp_path: Path) -> None:
    content = bytearray(board_file.read_bytes())
    for page in range(4096 * 6, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    board_file.write_bytes(content)
    with pytest.raises(errors.NotABoard, match="damaged"):
        backup.export(board_file, tmp_path / "copy.db")
    assert {path.name for path in tmp_path.iterdir()} == {board_file.name}


def test_on_postgres_the_refusal_shows_the_command_that_backs_up_without_a_secret(pg_url: str, tmp_path: Path) -> None:
    migrate.upgrade(pg_url)
    home = re.search(r"search_path%3D(\w+)", pg_url)
    assert home
    call = Command(pg_url + "&password=hunter2", tmp_path)
    told = call("db", "backup", "it's.dump").error
    assert told["hint"].startswith("pg_dump --format=custom")
    assert home[1] in told["hint"]
    assert "hunter2" not in str(told)


# --- grant ------------------------------------------------------------------------------------------------------------


def test_the_printed_grants_are_enough_for_the_program_and_for_nothing_else(postgres: Server, tmp_path: Path) -> None:
    """PG-15 (b), with names that must be quoted; the grants hold for tables that come later too."""
    dba, app, schema = 'own er"', 'app "1" é', 'Team "B" %s'
    run(postgres.url, *(f"CREATE ROLE {server.quoted(role)} LOGIN PASSWORD 'pw'" for role in (dba, app)))
    try:
        with postgres.database() as url:
            run(url, f"CREATE SCHEMA {server.quoted(schema)} AUTHORIZATION {server.quoted(dba)}")
            run(url, f"ALTER ROLE {server.quoted(dba)} SET search_path = {server.quoted(schema)}")
            as_dba, as_app = (with_user(url, role, "pw") for role in (dba, app))
            migrate.upgrade(as_dba, "0001")
            migrate.upgrade(as_dba)
            printed = Command(as_dba, tmp_path)("db", "grant", app).out
            assert "ALL TABLES" not in printed
            run_script(as_dba, printed)
            finds = printed.split("-- ALTER ROLE", 1)[1].replace("\n-- ", "\n")
            run_script(url, "ALTER ROLE" + finds)
            run(as_dba, "CREATE TABLE later (id integer)")
            run(as_app, "INSERT INTO later VALUES (1)")
            fill(as_app, owner=as_dba)
            for refused in (
                "CREATE TABLE mine (id int)",
                "UPDATE schema_window SET revision = 'x'",
                "UPDATE coordinate_version SET version_num = 'x'",
                "DELETE FROM board_move",
                "DROP TABLE tasks",
                "SELECT setval('events_id_seq', 1)",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    run(as_app, refused)
    finally:
        for role in (dba, app):
            run(postgres.url, f"DROP ROLE {server.quoted(role)}")


def test_a_role_that_is_led_past_a_board_is_told_and_makes_no_second_one(postgres: Server, tmp_path: Path) -> None:
    """PG-15: in the layout that the page prints; without USAGE, and without a search_path that anybody chose."""
    run(postgres.url, "CREATE ROLE keeper LOGIN PASSWORD 'pw'", "CREATE ROLE guest LOGIN PASSWORD 'pw'")
    try:
        with postgres.database() as url:
            run(url, "CREATE SCHEMA board AUTHORIZATION keeper", "GRANT CREATE ON SCHEMA public TO guest")
            as_keeper = with_user(url, "keeper", "pw") + "&options=-csearch_path%3Dboard"
            as_guest = with_user(url, "guest", "pw")
            call = Command(as_keeper, tmp_path)
            assert "db upgrade" in call("db", "grant", "guest").error["hint"], "nothing is there yet"
            migrate.upgrade(as_keeper)
            for verb in (("db", "upgrade"), ("task", "list"), ("db", "grant", "guest")):
                told = call(*verb, "--db", as_guest).error
                assert (told["code"], told["schemas"]) == ("no_board", ["board"]), verb
                told = call(*verb, "--db", as_guest + "&options=-csearch_path%3Dboard,public").error
                assert (told["code"], told["schema"]) == ("permission_denied", "board"), verb
            assert run(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
            run(url, "GRANT USAGE ON SCHEMA board TO guest")
            told = call("db", "upgrade", "--db", as_guest + "&options=-csearch_path%3Dboard").error
            assert told["code"] == "permission_denied"
            assert call("db", "upgrade", "--db", as_guest + "&options=-csearch_path%3Dpublic").status == 0, (
                "it was said"
            )
    finally:
        run(postgres.url, "DROP ROLE guest", "DROP ROLE keeper")


def test_a_file_has_no_roles_to_grant_to(board_file: Path, tmp_path: Path) -> None:
    assert Command(str(board_file), tmp_path)("db", "grant", "app").error["code"] == "invalid_input"


# --- a check that waits -----------------------------------------------------------------------------------------------


def test_a_deployment_waits_until_somebody_has_made_the_board(db_url: str, tmp_path: Path) -> None:
    call = Command(db_url, tmp_path)
    in_vain = call("db", "check", "--wait", "0s")
    assert in_vain.status == 8
    assert '"code":"no_board"' in in_vain.out.replace(" ", "")
    waiting = call.started("db", "check", "--wait", "60s")
    time.sleep(0.5)
    migrate.upgrade(db_url)
    out, _ = waiting.communicate(timeout=60)
    assert (waiting.returncode, out.strip()) == (0, '{"differences": []}')
    run(db_url, "ALTER TABLE tasks ADD COLUMN mood TEXT")
    assert call("db", "check", "--wait", "1s").status == 2
    run(db_url, "UPDATE coordinate_version SET version_num = '7777'")
    assert call("db", "check", "--wait", "60s").error["code"] == "schema_ahead"


# --- doctor -----------------------------------------------------------------------------------------------------------


def examined(url: str, **options: bool) -> dict[str, Symptom]:
    return {symptom.kind: symptom for symptom in doctor.examine(url, **options).symptoms if symptom.kind != "version"}


def test_a_board_that_was_used_is_healthy_and_is_not_touched(board_url: str, tmp_path: Path) -> None:
    fill(board_url)
    call = Command(board_url, tmp_path)
    before = rows(board_url)
    for options in ((), ("--deep",), ("--repair",)):
        told = call("db", "doctor", *options).json
        assert told["healthy"] is True, told
        assert [
            each["kind"] for each in told["symptoms"] if each["kind"] not in ("version", "idle_in_transaction")
        ] == []
        assert rows(board_url) == before


def test_a_fault_among_the_rows_is_exit_2_until_it_is_repaired(board_url: str, tmp_path: Path) -> None:
    fill(board_url)
    call = Command(board_url, tmp_path)
    run(board_url, "UPDATE tasks SET unmet_dependencies = 3 WHERE status = 'DONE'")
    assert call("db", "doctor").status == 0  # a quick look does not read them
    sick = call("db", "doctor", "--deep")
    assert sick.status == 2
    (symptom,) = [each for each in json.loads(sick.out)["symptoms"] if each["kind"] == "counts"]
    assert (symptom["repair"], symptom["repaired"]) == ("count them again", 0)
    assert call("db", "doctor", "--repair").json["healthy"] is True
    assert call("db", "doctor", "--deep").json["healthy"] is True


@pytest.mark.parametrize("revision", knowledge.REVISIONS[:-1])
def test_a_board_of_an_older_schema_suffers_from_that_alone(board_file: Path, revision: str) -> None:
    migrate.downgrade(str(board_file), revision)
    found = examined(str(board_file), deep=True)
    assert set(found) == {"schema"}
    assert "coordinate db upgrade" in found["schema"].hint


def test_a_changed_schema_is_a_fault(board_url: str) -> None:
    run(board_url, "ALTER TABLE tasks ADD COLUMN mood TEXT")
    assert "mood" in examined(board_url, deep=True)["drift"].found[0]
    run(board_url, "UPDATE coordinate_version SET version_num = '7777'")
    assert "newer version" in examined(board_url, deep=True)["schema"].said


@pytest.mark.parametrize(
    ("harm", "kind"),
    [
        ("DROP TABLE history", "tables"),
        ("DROP TABLE board_move", "tables"),
        ("ALTER TABLE sessions RENAME COLUMN doing TO did", "drift"),
        ("DELETE FROM counters", "counters_missing"),
    ],
)
def test_what_is_missing_is_found_and_breaks_no_command(harm: str, kind: str, board_url: str, tmp_path: Path) -> None:
    run(board_url, harm)
    call = Command(board_url, tmp_path)
    sick = call("db", "doctor", "--deep")
    told = json.loads(sick.out)
    assert (sick.status, told["healthy"]) == (2, False)
    assert kind in {each["kind"] for each in told["symptoms"] if each["severity"] == "fault"}
    if harm.startswith("DROP"):
        assert "tables" in examined(board_url)
    with pytest.raises(errors.NotABoard), coordinate.connect(board_url, agent="alice") as c:
        c.register(name="alice")
        c.dispatch(title="x", role="worker")
        c.sweep()


def test_a_feed_that_lost_its_place_is_found_and_not_moved(pg_url: str, tmp_path: Path) -> None:
    """A move does not wait for positions that nobody can give."""
    migrate.upgrade(pg_url)
    run(pg_url, "DELETE FROM event_feed_state")
    assert examined(pg_url)["tables"].severity == "fault"
    with pytest.raises(errors.CannotMove) as caught:
        move.move(pg_url, str(tmp_path / "new.db"))
    assert "event_feed_state" in str(caught.value.as_dict())
    with coordinate.connect(pg_url, agent="alice") as c:
        c.dispatch(title="not fenced", role="worker")


def test_a_disk_that_is_full_is_said_and_no_half_of_a_backup_stays(board_file: Path, tmp_path: Path) -> None:
    def refused(act: Callable[[], object]) -> str:
        def body(go: arena.Go) -> str:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # less than the board has
            with pytest.raises(errors.Unreachable) as caught:
                act()
            return caught.value.message

        (said,) = arena.run([body])
        return str(said)

    assert "the disk refuses a copy of" in refused(lambda: backup.export(board_file, tmp_path / "copy.db"))
    assert "the disk refuses a copy of" in refused(lambda: migrate.downgrade(str(board_file), "0001"))
    assert (
        sorted(path.name for path in board_file.parent.iterdir() if "backup" in path.name or "copy" in path.name) == []
    )


def test_a_reader_that_never_finishes_is_named_with_the_size_of_the_log(
    board_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQ-04: the log cannot be used anew while somebody stays in a read transaction."""
    monkeypatch.setattr(doctor, "LOG_BYTES_MAX", 50_000)
    reads = f"import sqlite3; c = sqlite3.connect({str(board_file)!r}, isolation_level=None); c.execute('BEGIN');"
    reads += " c.execute('SELECT * FROM tasks').fetchone(); print('reading', flush=True); input()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", reads], **pipes) as reader:  # type: ignore[call-overload]
        assert reader.stdout.readline() == b"reading\n"
        with coordinate.connect(board_file, agent="alice") as c:
            for _ in range(20):
                c.comment(task="TASK-1", text="x" * 9_000)
            found = doctor.examine(str(board_file), repair=True)
            (log,) = [each for each in found.symptoms if each.kind == "log"]
            assert found.facts["wal_bytes"] > 50_000
            assert found.facts["wal_held_by"] == [f"{reader.pid} python"] or not Path("/proc/locks").exists()
            assert (log.repair, log.repaired) == ("write it back and cut it off", 0)
            reader.communicate(b"\n")
            (log,) = [each for each in doctor.examine(str(board_file), repair=True).symptoms if each.kind == "log"]
            assert (log.repaired, log.found) == (1, ())
            assert "log" not in examined(str(board_file))


def test_storage_that_cannot_carry_the_log_is_said(board_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQ-05"""
    monkeypatch.setattr("coordinate.db.dialect.file_system_of", lambda folder: "nfs4")
    told = examined(str(board_file))["storage"]
    assert "nfs4" in told.said


def test_a_link_to_a_board_is_judged_by_where_the_board_lies(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQ-05: storage, log and who keeps it; and an upgrade's copy lies beside the board, whatever it was called."""
    (link := tmp_path / "elsewhere" / "link.db").parent.mkdir()
    link.symlink_to(plain)
    with coordinate.connect(plain, agent="alice") as c, closing(sqlite3.connect(plain)) as reader:
        reader.executescript("BEGIN; SELECT count(*) FROM tasks")
        c.dispatch(title="t", role="w")
        assert doctor.examine(str(link)).facts["wal_bytes"] > 0
    monkeypatch.setattr(dialect, "file_system_of", lambda path: "nfs4" if path.samefile(plain) else "ext4")
    assert "nfs4" in examined(str(link))["storage"].said
    assert run(str(plain), "PRAGMA journal_mode") == [("delete",)]
    assert migrate.downgrade(str(link), "0008").backup == f"{plain}.backup-{knowledge.HEAD}-1"
    assert {path.name for path in link.parent.iterdir()} == {link.name}


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells which file system a file lies on")
def test_the_storage_of_a_file_is_that_of_what_a_link_leads_to(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to("/proc/version")
    assert dialect.file_system_of(link) == dialect.file_system_of(Path("/proc/version")) == "proc"
    assert dialect.file_system_of(tmp_path) != "proc"


@pytest.mark.parametrize(
    ("version", "harmful"),
    [
        ((3, 40, 1), True),
        ((3, 44, 5), True),
        ((3, 44, 6), False),
        ((3, 50, 7), False),
        ((3, 51, 2), True),
        ((3, 51, 3), False),
    ],
)
def test_a_version_of_sqlite_with_a_known_defect_is_said(version: tuple[int, int, int], harmful: bool) -> None:
    assert bool(doctor.defects_of(version)) == harmful


def test_what_a_file_alone_can_suffer_from_is_found(board_file: Path) -> None:
    """MV-03: values that SQLite took and that nobody else would."""
    url = str(board_file)
    board_file.chmod(0o666)
    board_file.with_name("another.db").hardlink_to(board_file)
    run(
        url,
        "UPDATE tasks SET lease_seconds = 'abc', created_at = '2030-01-01' WHERE id = 'TASK-1'",
        "UPDATE task_dependencies SET met = 'maybe'",
        "PRAGMA ignore_check_constraints = ON",
        "UPDATE tasks SET priority = 5000 WHERE id = 'TASK-1'",
        "UPDATE events SET created_at = '2090-01-01T00:00:00.000Z' WHERE id = (SELECT max(id) FROM events)",
        "DELETE FROM tasks WHERE id = 'TASK-2'",
    )
    found = examined(url, deep=True)
    assert set(found) == {"rights", "names", "clock", "values"}, "a broken rule of a table is no damage of the file"
    (told,) = [said for said in found["values"].found if said.startswith("task_dependencies") and "met" in said]
    assert told.endswith("is neither 0 nor 1")
    values = str(found["values"].found)
    for said in (
        "TASK-1: lease_seconds is no whole",
        "TASK-1: created_at is no time",
        "ck_tasks_priority",
        "no row of",
    ):
        assert said in values
    content = bytearray(board_file.read_bytes())
    content[4096 * 9 : 4096 * 9 + 300] = b"\xff" * 300
    board_file.write_bytes(content)
    assert "integrity" in examined(url, deep=True)


def test_what_a_server_can_suffer_from_is_found(pg_url: str, postgres: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """PG-15: rights that are missing; sessions in the way; an index whose build failed; a server that is read only."""
    monkeypatch.setattr(doctor, "_IDLE", doctor._IDLE.replace("interval '60 s'", "interval '0 s'"))
    migrate.upgrade(pg_url)
    run(postgres.url, "CREATE ROLE frail LOGIN PASSWORD 'pw'")
    try:
        home = re.search(r"search_path%3D(\w+)", pg_url)[1]  # type: ignore[index]
        run(
            pg_url,
            f"GRANT USAGE ON SCHEMA {home} TO frail",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA {home} TO frail",
            "REVOKE EXECUTE ON FUNCTION coordinate_number_events FROM PUBLIC",
            "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'idx_tasks_project'::regclass",
            "ALTER ROLE frail SET default_transaction_read_only = on",
        )
        with psycopg.connect(pg_url, application_name="sleeper") as idle:
            idle.execute("SELECT 1")
            time.sleep(0.1)
            found = examined(with_user(pg_url, "frail", "pw"))
            assert "(sleeper)" in str(examined(pg_url)["idle_in_transaction"].found)
        assert {"rights", "indexes", "read_only"} <= set(found)
        assert "agents: DELETE" in found["rights"].found
        assert found["indexes"].found == ("idx_tasks_project",)
    finally:
        run(postgres.url, "DROP OWNED BY frail", "DROP ROLE frail")


# --- the page for DBAs ------------------------------------------------------------------------------------------------


def test_the_sql_of_the_page_for_dbas_runs(pg_url: str, tmp_path: Path) -> None:
    """Monitoring as a role that may only read; settings as the owner, which no check minds."""
    migrate.upgrade(pg_url)
    fill(pg_url)
    page = (Path(__file__).parents[2] / "docs" / "dba.md").read_text(encoding="utf-8")
    watching, retention = (re.findall(r"^```sql\n(.*?)^```", part, re.M | re.S) for part in page.split("## Retention"))
    queries = [query for block in watching[1:] for query in block.split(";\n") if query.strip()]
    assert len(queries) == 7
    for query in queries:
        with psycopg.connect(pg_url) as connection:
            connection.execute("SET TRANSACTION READ ONLY")
            connection.execute(query.encode())
    run(pg_url, *retention)
    assert migrate.check(pg_url) == []


def test_no_command_for_operators_shows_a_secret(tmp_path: Path) -> None:
    """PG-18: a server that does not answer, and an address that cannot be read."""
    (tmp_path / "x.dump").touch()
    verbs = [
        ("doctor", "--deep"),
        ("backup", "new.dump"),
        ("grant", "app"),
        ("restore", "x.dump"),
        ("restore", "--settle", "--yes"),
        ("check", "--wait", "0s"),
    ]
    for url in ("postgresql://u:hun%40ter2@127.0.0.1:1/n?sslpassword=hun%40ter2", "postgresql://u:hun@ter2@h:x/n"):
        call = Command(url, tmp_path)
        running = [call.started("db", *verb) for verb in verbs]
        for verb, each in zip(verbs, running, strict=True):
            said = "".join(each.communicate(timeout=60))
            assert each.returncode in (2, 5, 8), (verb, said)
            assert "hun" not in said, said
