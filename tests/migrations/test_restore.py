"""A backup in the place of a board: nothing of the later days comes twice, and nobody holds anything any more."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import shlex
import shutil
import signal
import sqlite3
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

import coordinate
from coordinate import errors, service
from coordinate.db import backup, migrate, move, server
from coordinate.db.knowledge import HEAD
from coordinate.db.restore import replacing
from tests.doors.command import Command
from tests.migrations.catalog import catalog, fill, rows, run, run_script
from tests.postgres import Server, answer, local_binaries, major_version, wheel_binaries, with_user
from tests.races import arena
from tests.tables import as_owner, assert_sound

FORK = multiprocessing.get_context("fork")


def numbers(url: str) -> dict[str, int]:
    """The highest of all that is given out by number."""
    asked = {
        "task": "SELECT value FROM counters WHERE kind = 'task'",
        "fence": "SELECT value FROM counters WHERE kind = 'fence'",
        "event": "SELECT max(id) FROM events",
        "note": "SELECT max(id) FROM notes",
        "attempt": "SELECT attempt FROM tasks WHERE id = 'TASK-4'",
        "revision": "SELECT revision FROM tasks WHERE id = 'TASK-4'",
    }
    return {name: run(url, sql)[0][0] or 0 for name, sql in asked.items()}


def go_on(c: coordinate.Coordinator) -> dict[str, object]:
    """One more of everything that has a number."""
    c.dispatch(title="new", role="other")
    c.acquire_lock(name=f"l{time.monotonic()}")
    claim = c.claim_task(task="TASK-4") if c.view(task="TASK-4").task.status == "TODO" else None
    c.comment(task="TASK-4", text="n")
    return {"claim": claim}


@pytest.fixture
def two_days(board_file: Path, tmp_path: Path) -> tuple[str, Path]:
    """A board and its backup of an earlier day; since then all numbers went on, and TASK-4 is held by a new attempt."""
    url = str(board_file)
    with coordinate.connect(url, agent="alice") as c:
        c.unblock(task="TASK-4")
        made = Path(backup.export(board_file, tmp_path / "backup.db").backup)
        for _ in range(3):
            claim = c.claim_task(task="TASK-4")
            c.release(handle=claim)
        for _ in range(5):
            go_on(c)
        c.counter_next(kind="adr", floor=40)
        c.prune()
    return url, made


def test_no_number_of_the_later_days_comes_twice(two_days: tuple[str, Path], tmp_path: Path) -> None:
    """Design rule 4.7, for whoever has the board open meanwhile too."""
    url, made = two_days
    call = Command(url, tmp_path)
    before, contents = numbers(url), rows(url)
    with coordinate.connect(url, agent="alice") as c:
        (held,) = [task for task in c.mine() if task.id == "TASK-4"]
        refused = call("db", "restore", str(made))
        assert (refused.status, refused.error["code"]) == (2, "not_empty")
        assert rows(url) == contents
        told = call("db", "restore", str(made), "--replace").json
        assert rows(told["kept"]) == contents
        assert told["settled"]["known"] is True
        assert told["settled"]["claims_ended"] > 0 < told["settled"]["leases_ended"]
        with pytest.raises(errors.StaleClaim):
            c.complete(handle=held.handle)
        claim = go_on(c)["claim"]
        after = numbers(url)
        assert all(after[name] > before[name] for name in before), (before, after)
        assert claim.attempt > held.attempt  # type: ignore[attr-defined]
        assert c.counter_next(kind="adr")[0] > 41
        assert c.examine() == []
    assert run(url, "PRAGMA foreign_key_check") == []
    assert catalog(url) == catalog(str(made))


def test_every_live_hold_of_the_backup_ends_and_its_holder_is_told(board_file: Path, tmp_path: Path) -> None:
    url = str(board_file)
    with coordinate.connect(url, agent="alice") as c:
        session = c.register(name="alice").id
        c.session = session
        claim = c.claim_task(task=c.dispatch(title="t", role="w", scopes=["x"]).task.id)
        c.acquire_lock(name="l")
        reviewed = c.claim_task(task=c.dispatch(title="r", role="w").task.id)
        c.complete(handle=reviewed, review=True)
        c.claim_review(agent="bob")
        made = backup.export(board_file, tmp_path / "backup.db")
    assert service.restore(made.backup, url, replace=True).settled.known
    with coordinate.connect(url, agent="carol") as c:
        assert run(url, "SELECT count(*) FROM tasks WHERE lease_until IS NOT NULL OR reviewer IS NOT NULL") == [(0,)]
        assert run(url, "SELECT count(*) FROM leases WHERE released_at IS NULL AND worktree_id IS NULL") == [(0,)]
        with coordinate.connect(url, session=session) as back:
            assert claim.handle in back.tell_losses().claims
        last = run(url, f"SELECT outcome, reason FROM attempts WHERE task_id = '{claim.task.id}'")
        assert last == [("expired", "the board was put back to an earlier day")]
        assert c.claim_task(task=claim.task.id).attempt == claim.attempt + 1
        assert c.examine() == []
    assert_sound(url)


@pytest.mark.parametrize("damage", ["all of it", "a page"])
def test_a_board_that_cannot_be_read_is_set_aside_and_numbers_go_on_by_a_wide_margin(
    two_days: tuple[str, Path], damage: str
) -> None:
    url, made = two_days
    before = numbers(url)
    content = bytearray(Path(url).read_bytes())
    for page in range(4096 * (6 if damage == "a page" else 0), len(content), 4096):
        content[page : page + 300] = b"\xff" * 300
    Path(url).write_bytes(content)
    with pytest.raises(errors.NotEmpty, match="cannot be read"):
        service.restore(made, url)
    told = service.restore(made, url, replace=True)
    assert told.kept == f"{url}.replaced-1"
    assert told.settled.known is False
    with coordinate.connect(url, agent="alice") as c:
        go_on(c)
        after = numbers(url)
        assert all(after[name] > before[name] + 900 for name in before), (before, after)
        assert c.examine() == []


def test_where_the_board_was_lost_numbers_go_on_by_a_wide_margin(two_days: tuple[str, Path]) -> None:
    """Design rule 4.7: what stands there now shows nothing of what the lost one gave out."""
    url, made = two_days
    before = numbers(url)
    (lost,) = run(url, "SELECT id || '@' || attempt FROM tasks WHERE id = 'TASK-4'")
    for left in ("nothing", "an empty file", "a new board"):
        for beside in ("", "-wal", "-shm"):
            Path(url + beside).unlink(missing_ok=True)
        if left == "an empty file":
            Path(url).touch()
        if left == "a new board":
            coordinate.connect(url, create=True).close()
        assert service.restore(made, url, replace=True).settled.known is False
        with coordinate.connect(url, agent="alice") as c:
            go_on(c)
            after = numbers(url)
            assert all(after[name] > before[name] + 900 for name in before), (left, before, after)
            with pytest.raises(errors.StaleClaim):
                c.complete(handle=lost[0])


def test_a_restore_takes_no_copy_away_that_was_there_before(plain: Path) -> None:
    """Least of all the one that it is made from; one that fails leaves none of its own."""
    there = {plain.with_name(f"{plain.name}.backup-{HEAD}-{end}") for end in (*range(1, 5), "failed")}
    for path in there:
        backup.copy(plain, path)
    broken = plain.with_name(f"{plain.name}.backup-{HEAD}-failed")
    run(str(broken), "DELETE FROM tasks")
    content = broken.read_bytes()
    with pytest.raises(errors.NotABoard, match="without their parent"):
        service.restore(broken, plain, replace=True)
    told = service.restore(plain.with_name(f"{plain.name}.backup-{HEAD}-1"), plain, replace=True)
    assert set(plain.parent.glob(f"{plain.name}.backup-*")) == {*there, Path(str(told.kept))}
    assert broken.read_bytes() == content


def test_a_linked_board_that_cannot_be_read_is_replaced_where_it_lies(plain: Path, tmp_path: Path) -> None:
    """Whoever names the file itself works on with those who name the link."""
    made = backup.export(plain, tmp_path / "backup.db").backup
    (link := tmp_path / "elsewhere" / "link.db").parent.mkdir()
    link.symlink_to(plain)
    plain.write_bytes(b"\xff" * 9_000)
    assert service.restore(made, link, replace=True).kept == f"{plain}.replaced-1"
    assert link.is_symlink()
    with coordinate.connect(plain, agent="alice") as c:
        c.dispatch(title="t", role="w")


@pytest.mark.parametrize("left", ["a board", "damage", "nothing"])
def test_a_restored_board_is_no_more_open_to_others_than_before(plain: Path, tmp_path: Path, left: str) -> None:
    """Also where a new file takes its place, made by root perhaps; a backup is often kept from being written."""
    plain.chmod(0o600)
    owner = 65_534 if os.geteuid() == 0 else os.geteuid()
    os.chown(plain, owner, -1)
    made = Path(backup.export(plain, tmp_path / "backup.db").backup)
    made.chmod(0o400)
    if left == "damage":
        plain.write_bytes(b"\xff" * 9_000)
    if left == "nothing":
        plain.unlink()
    kept = service.restore(made, plain, replace=True).kept
    for path in (plain, Path(kept or plain)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert left == "nothing" or path.stat().st_uid == owner


@pytest.mark.parametrize("harm", ["DROP TABLE tasks", "DROP TABLE counters", "DELETE FROM counters"])
def test_a_board_that_lost_its_numbers_is_replaced_and_they_go_on_by_a_wide_margin(
    two_days: tuple[str, Path], harm: str
) -> None:
    board, saved = two_days
    run(board, harm)
    with pytest.raises(errors.NotEmpty):
        service.restore(saved, board)
    restored = service.restore(saved, board, replace=True)
    assert restored.kept is not None
    with coordinate.connect(board, agent="alice") as c:
        assert c.dispatch(title="new", role="worker").task.number > 1_000_000


def test_a_board_put_back_by_other_means_is_settled(board_url: str, tmp_path: Path) -> None:
    """What follows pg_restore, or a file that was copied by hand."""
    fill(board_url)
    before = numbers(board_url)
    board_url = as_owner(board_url)
    call = Command(board_url, tmp_path)
    asked = call("db", "restore", "--settle")
    assert (asked.status, asked.error["field"]) == (2, "yes"), "it cannot tell a board that nobody put back"
    assert numbers(board_url) == before
    told = call("db", "restore", "--settle", "--yes").json
    assert told["claims_ended"] > 0
    with coordinate.connect(board_url, agent="alice") as c:
        events = c.next_events(consumer="reader").events
        assert {each.event for each in events} >= {"task.lease_expired"}
        assert events[-1].id > 1_000_000 or board_url.startswith("postgresql")
        go_on(c)
        after = numbers(board_url)
        assert all(after[name] > before[name] + 900 for name in before), (before, after)
        assert c.next_events(consumer="reader").events[-1].id > 1_000_000
        last, _ = c.database.perform(lambda tx: {row.id: row.last for row in tx.all("ids_last")}, writes=False)
        assert {table: number for table, number in last.items() if number < 1_000_000} == {}
        assert c.examine() == []


def test_a_backup_of_an_older_schema_is_upgraded_on_the_way(board_file: Path, tmp_path: Path) -> None:
    migrate.downgrade(str(board_file), "0001")
    made = backup.export(board_file, tmp_path / "old.db")
    content = Path(made.backup).read_bytes()
    told = service.restore(made.backup, board_file, replace=True)
    assert migrate.current(str(board_file)).at_head
    assert told.rows["notes"] == made.rows["notes"]
    assert Path(made.backup).read_bytes() == content
    left = {path.name for path in tmp_path.iterdir()} - {Path(str(told.kept)).name}
    assert {name for name in left if not name.startswith(f"{board_file.name}.backup-")} == {"old.db", board_file.name}
    migrate.downgrade(str(board_file), "0001")
    assert rows(str(board_file))["notes"] == rows(made.backup)["notes"], "so the way back is whole"


@pytest.mark.parametrize("what", ["nothing", "text", "foreign", "ahead", "itself"])
def test_what_is_no_backup_is_refused_and_nothing_changes(board_file: Path, tmp_path: Path, what: str) -> None:
    source = tmp_path / "source.db"
    if what == "text":
        source.write_text("Dear diary" * 1000)
    if what == "foreign":
        run(str(source), "CREATE TABLE invoices (id)")
    if what == "ahead":
        backup.export(board_file, source)
        run(str(source), "UPDATE coordinate_version SET version_num = '7777'")
    before = rows(str(board_file))
    with pytest.raises((errors.NotFound, errors.NotABoard, errors.SchemaAhead, errors.InvalidInput)):
        service.restore(board_file if what == "itself" else source, board_file, replace=True)
    assert rows(str(board_file)) == before
    assert not list(tmp_path.glob(".*restore*"))


@pytest.fixture
def shared_file(plain: Path) -> Path:
    """A board beside what another program has: names with spaces, links that lead nowhere, a module of its own."""
    with closing(sqlite3.connect(plain)) as other:
        other.executescript(
            """
            CREATE VIRTUAL TABLE "orders fts" USING fts5(words);
            INSERT INTO "orders fts" VALUES ('hello');
            CREATE TABLE "the ""lines"" sold" (id INTEGER PRIMARY KEY, price REAL, gross REAL AS (price * 1.2));
            INSERT INTO "the ""lines"" sold" (price) VALUES (10);
            CREATE INDEX "orders-by-price" ON "the ""lines"" sold" (price);
            CREATE TRIGGER "lines-seen" AFTER INSERT ON "the ""lines"" sold" BEGIN SELECT 1; END;
            CREATE VIEW "sold dear" AS SELECT price FROM "the ""lines"" sold" WHERE price > 5;
            CREATE TRIGGER "sell dear" INSTEAD OF INSERT ON "sold dear" BEGIN SELECT 1; END;
            CREATE TABLE returns (line REFERENCES "the ""lines"" sold" (price), shop REFERENCES shops (id));
            INSERT INTO returns VALUES (1, 1);
            PRAGMA writable_schema = ON;
            INSERT INTO sqlite_master
            VALUES ('table', 'places', 'places', 0, 'CREATE VIRTUAL TABLE places USING sea(x)');
            """
        )
    return plain


def test_what_other_programs_have_in_the_file_comes_back_with_it(shared_file: Path, tmp_path: Path) -> None:
    """Also what serves searches, and where nobody here knows how; migrations run beside it all."""
    url, fresh = str(shared_file), str(tmp_path / "fresh.db")
    looks = (
        """SELECT * FROM "orders fts" WHERE words MATCH 'hello'""",
        'SELECT * FROM "the ""lines"" sold"',
        "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY 1, 2",
    )
    before = [run(url, look) for look in looks]
    made = backup.export(shared_file, tmp_path / "backup.db").backup
    run(url, """INSERT INTO "orders fts" VALUES ('hello again')""", "CREATE VIRTUAL TABLE gone USING fts5(x)")
    for place in (fresh, url):
        assert service.restore(made, place, replace=True).rows['the "lines" sold'] == 1
        assert [run(place, look) for look in looks] == before
        with coordinate.connect(place, agent="alice") as c:
            c.dispatch(title="t", role="w")
    assert migrate.check(url) == []
    assert run(url, "PRAGMA integrity_check") == [("ok",)]
    migrate.downgrade(url, "0008")
    assert run(url, looks[0]) == before[0]


@pytest.fixture
def within_reach(sqlite_template: Path) -> Iterator[Path]:
    """A folder to which every user can come, with a board, and places at which others end."""
    with TemporaryDirectory(prefix="restore-", dir="/tmp") as made:
        folder = Path(made)
        for name, mode in (("board.db", 0o666), ("secret.db", 0o600), ("closed/in.db", 0o600), ("fixed/in.db", 0o666)):
            (folder / name).parent.mkdir(exist_ok=True)
            shutil.copy(sqlite_template, folder / name)
            (folder / name).chmod(mode)
        for name, mode in (("", 0o777), ("closed", 0o700), ("fixed", 0o555)):
            (folder / name).chmod(mode)
        yield folder


def test_what_cannot_be_read_is_no_backup_and_said(within_reach: Path) -> None:
    """Root may read everything, so another user tries."""

    def refused(what: str) -> str:
        with pytest.raises(errors.CoordinateError) as caught:
            service.restore(within_reach / what, within_reach / "new.db")
        return caught.value.code

    def said() -> dict[str, str]:
        return {
            what: refused(what) for what in ("", "none.db", "board.db/x.db", "secret.db", "closed/in.db", "x" * 300)
        }

    assert arena.as_somebody(said) == {
        "": "not_found",
        "none.db": "not_found",
        "board.db/x.db": "not_found",
        "secret.db": "permission_denied",
        "closed/in.db": "permission_denied",
        "x" * 300: "invalid_input",
    }


def test_a_log_that_is_anothers_is_what_is_named(within_reach: Path) -> None:
    """Who may write the folder and not the board came first, if only to read; the board itself is as it should be."""
    (log := within_reach / "board.db-wal").touch(mode=0o444)

    def write() -> str:
        with (
            coordinate.connect(within_reach / "board.db", agent="a") as c,
            pytest.raises(errors.PermissionDenied) as no,
        ):
            c.dispatch(title="t", role="w")
        return no.value.message

    assert arena.as_somebody(write) == f"{log} may not be written"


def test_a_backup_that_is_kept_from_being_written_is_restored(within_reach: Path) -> None:
    """Root may write everything, so another user restores."""
    (made := within_reach / "backup.db").write_bytes((within_reach / "board.db").read_bytes())
    made.chmod(0o444)

    def restore() -> list[str | None]:
        places = (within_reach / name for name in ("board.db", "new.db"))
        return [service.restore(made, place, replace=True).kept for place in places]

    assert arena.as_somebody(restore) == [f"{within_reach}/board.db.backup-{HEAD}-1", None]


def test_what_may_not_be_taken_away_hinders_nothing_that_is_done(within_reach: Path) -> None:
    """In a folder where each may only remove what is theirs, or not even look around."""
    board, looked = within_reach / "board.db", within_reach / "backup.db"
    backup.export(board, looked)
    looked.chmod(0o666)
    migrate.downgrade(str(board), "0009")
    for number in range(backup.KEPT):
        backup.make(board, "0009").replace(f"{board}.backup-0001-{number}")
    left = set(within_reach.glob("*.backup-*"))
    for mode, revision in ((0o1777, "0010"), (0o1733, HEAD)):
        within_reach.chmod(mode)
        done = arena.as_somebody(partial(migrate.upgrade, str(board), revision))
        assert done.after == revision
        assert set(within_reach.glob("*.backup-*")) >= {*left, Path(done.backup)}
    within_reach.chmod(0o1777)
    board.write_bytes(damaged := b"\xff" * 9_000)

    def refused() -> str:
        with pytest.raises(errors.PermissionDenied) as no:
            service.restore(looked, board, replace=True)
        return no.value.message

    assert f"{board} cannot be set aside" in arena.as_somebody(refused)
    assert board.read_bytes() == damaged


def test_a_restore_that_fails_leaves_a_damaged_board_where_it_was(plain: Path, tmp_path: Path) -> None:
    """Else the next command finds an empty file there, and says how to make a new board."""
    made = backup.export(plain, tmp_path / "backup.db").backup
    run(made, "DELETE FROM tasks")
    plain.write_bytes(damaged := b"\xff" * 9_000)
    there = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(errors.NotABoard, match="without their parent"):
        service.restore(made, plain, replace=True)
    assert plain.read_bytes() == damaged
    assert {path.name for path in tmp_path.iterdir()} == there


def test_a_restore_that_is_interrupted_once_it_is_done_stays_done(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others may have written there by then: nothing is taken away under them."""
    made = backup.export(plain, tmp_path / "backup.db").backup
    plain.write_bytes(damaged := b"\xff" * 9_000)
    put = Path.replace

    def interrupted(self: Path, target: Path) -> None:
        put(self, target)
        if target == plain:
            monkeypatch.undo()
            with coordinate.connect(plain, agent="quick") as c:
                c.dispatch(title="meanwhile", role="w")
            raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        service.restore(made, plain, replace=True)
    assert run(str(plain), "SELECT title FROM tasks ORDER BY number") == [("t",), ("meanwhile",)]
    assert Path(f"{plain}.replaced-1").read_bytes() == damaged


def test_a_damaged_board_is_where_it_was_until_all_of_the_backup_is_there(plain: Path, tmp_path: Path) -> None:
    """Whoever is killed leaves no empty place, at which the next command would make a board that begins anew. Of two
    the slower finds that nothing is damaged any more.
    """
    made = Path(backup.export(plain, tmp_path / "backup.db").backup)
    plain.write_bytes(damaged := b"\xff" * 9_000)
    with pytest.raises(errors.Busy), replacing(made, plain, replace=True):
        assert plain.read_bytes() == damaged
        service.restore(made, plain, replace=True)
        with coordinate.connect(plain, agent="quick") as c:
            c.dispatch(title="meanwhile", role="w")
    assert run(str(plain), "SELECT title FROM tasks ORDER BY number") == [("t",), ("meanwhile",)]
    assert [path.read_bytes() for path in tmp_path.glob("*.replaced-*")] == [damaged]


def test_an_interrupt_while_a_damaged_board_is_set_aside_puts_it_back(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nothing lies at its place, and the next command says how to make a new board."""
    made = backup.export(plain, tmp_path / "backup.db").backup
    plain.write_bytes(damaged := b"\xff" * 9_000)
    there = {path.name for path in tmp_path.iterdir()}
    rename = Path.rename

    def interrupted(self: Path, target: str) -> Path:
        monkeypatch.undo()
        rename(self, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        service.restore(made, plain, replace=True)
    assert plain.read_bytes() == damaged
    assert {path.name for path in tmp_path.iterdir()} == there


def test_what_hinders_a_restore_at_its_beginning_is_said(
    plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COORDINATE_BUSY_SECONDS", "0.1")
    made = backup.export(plain, tmp_path / "backup.db").backup
    with closing(sqlite3.connect(plain)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(errors.Busy):
            service.restore(made, plain, replace=True)
    wide = tmp_path / "wide.db"
    run(str(wide), "PRAGMA encoding = 'UTF-16'", "CREATE TABLE another (x)")
    with pytest.raises(errors.InvalidState, match="encoding"):
        service.restore(backup.export(plain, tmp_path / "b.db").backup, wide, replace=True)


def test_where_nothing_can_be_made_nothing_is_restored_copied_or_begun(within_reach: Path) -> None:
    board, refused = within_reach / "board.db", (errors.PermissionDenied, errors.InvalidInput)

    def act() -> None:
        for what in ("board.db/x.db", "closed/x.db", "fixed/x.db", "fixed/deep/x.db", "x" * 300):
            with pytest.raises(refused):
                service.restore(board, within_reach / what)
            with pytest.raises(refused):
                backup.export(board, within_reach / what)
            with pytest.raises(refused):
                coordinate.connect(within_reach / what, create=True)

    arena.as_somebody(act)


def test_a_board_that_has_moved_is_not_put_back_under_those_who_were_sent_on(
    two_days: tuple[str, Path], tmp_path: Path
) -> None:
    """MV-07: two boards would be worked on; under another name a backup of it may stand."""
    url, made = two_days
    move.move(url, str(tmp_path / "there.db"))
    before = rows(url)
    with pytest.raises(errors.Moved, match=r"there\.db"):
        service.restore(made, url, replace=True)
    assert rows(url) == before
    with coordinate.connect(url, agent="alice") as c, pytest.raises(errors.Moved):
        c.dispatch(title="x", role="w")
    assert service.restore(made, tmp_path / "beside.db").settled.claims_ended > 0


def test_a_copy_of_a_moved_board_is_no_backup(board_file: Path, tmp_path: Path) -> None:
    """Neither made nor put back, and nothing is left behind."""
    shutil.copy(board_file, tmp_path / "before.db")
    move.move(str(board_file), str(tmp_path / "there.db"))
    copy = Path(shutil.copy(board_file, tmp_path / "by-hand.db"))
    there = {path.name for path in tmp_path.iterdir()}
    call = Command(str(board_file), tmp_path)
    assert call("db", "backup", "new.db").error["code"] == "moved"
    refused = call("db", "restore", str(copy), "--db", "fresh.db")
    assert (refused.status, refused.error["code"]) == (2, "invalid_state")
    assert "there.db" in refused.error["error"]
    assert {path.name for path in tmp_path.iterdir()} - there <= {"by-hand.db-shm", "by-hand.db-wal"}


def test_a_copy_of_a_moved_board_closes_and_opens_nothing_elsewhere(
    plain: Path, sqlite_template: Path, tmp_path: Path
) -> None:
    """MV-07: the board is where it moved to, whatever a copy of the old place says; a link to that is no copy."""
    url, copy, there = str(plain), str(tmp_path / "copy.db"), str(shutil.copy(sqlite_template, tmp_path / "there.db"))
    move.move(url, there)
    shutil.copy(url, copy)
    (link := tmp_path / "link.db").symlink_to(url)
    with pytest.raises(errors.InvalidState) as refused:
        service.restore(copy, tmp_path / "fresh.db")
    assert "--undo" not in refused.value.hint, "that would close the board"
    with pytest.raises(errors.InvalidState, match=re.escape(f"came from {url}")):
        move.undo(copy)
    with pytest.raises(errors.InvalidState, match=re.escape(f"came from {url}")):
        move.move(copy, None, resume=True)
    with coordinate.connect(there, agent="alice") as c:
        assert move.move(str(link), None, resume=True).state == "moved"
        assert move.undo(str(link)).state == "undone"
        with pytest.raises(errors.Moved):
            c.dispatch(title="x", role="w")
    with coordinate.connect(url, agent="alice") as c:
        c.dispatch(title="x", role="w")


def test_a_copy_that_was_made_while_a_board_moved_is_opened_alone(
    plain: Path, sqlite_template: Path, tmp_path: Path
) -> None:
    """MV-07: the mover goes on."""
    url, copy, there = str(plain), str(tmp_path / "copy.db"), str(shutil.copy(sqlite_template, tmp_path / "there.db"))

    def meanwhile(what: str, *_: object) -> None:
        if what == "verify" and not Path(copy).exists():
            backup.copy(plain, Path(copy))
            assert move.undo(copy).state == "undone"

    assert move.move(url, there, progress=meanwhile).state == "moved"
    for each in (copy, there):
        with coordinate.connect(each, agent="alice") as c:
            c.dispatch(title="x", role="w")


def test_a_board_that_came_back_in_the_middle_of_a_move_is_told_and_undone(
    lived_elsewhere: str, tmp_path: Path
) -> None:
    """A dump made between the fence and the copy: the doctor names it, settling waits for the undo."""
    url = lived_elsewhere
    call = Command(url, tmp_path)
    told = call("db", "restore", "--settle", "--yes").error
    assert told["code"] == "invalid_state"
    assert "db move --undo" in told["hint"]
    assert call("db", "move", "--undo").json["state"] == "undone"
    assert call("db", "restore", "--settle", "--yes").status == 0


@pytest.fixture
def lived_elsewhere(db_url: str, tmp_path: Path) -> str:
    """A board as a dump brings it back that was made while it moved to a place that is gone since."""
    migrate.upgrade(db_url)
    fill(db_url)
    (ended,) = arena.run(
        [lambda go: move.move(db_url, str(tmp_path / "gone.db"), progress=lambda *_: arena.kill_myself())]
    )
    assert ended == arena.KILLED
    for left in tmp_path.glob("gone.db*"):
        left.unlink()
    return db_url


def test_only_the_owner_of_the_tables_settles(pg_url: str, postgres: Server) -> None:
    migrate.upgrade(pg_url)
    fill(pg_url)
    before = rows(pg_url)
    run(postgres.url, "CREATE ROLE clerk LOGIN PASSWORD 'pw'")
    try:
        printed = server.grants(server.home_of(pg_url), "clerk")
        run_script(pg_url, printed)
        with pytest.raises(errors.PermissionDenied, match="for their owner"):
            service.settle(with_user(pg_url, "clerk", "pw"))
        assert rows(pg_url) == before
    finally:
        run(pg_url, "DROP OWNED BY clerk")
        run(postgres.url, "DROP ROLE clerk")


def test_on_postgres_the_refusal_shows_the_way(pg_url: str, tmp_path: Path) -> None:
    migrate.upgrade(pg_url)
    told = Command(pg_url, tmp_path)("db", "restore", "x.dump").error
    told_in_order = ("coordinate db downgrade base", "pg_restore --exit-on-error", "db grant", "--settle --yes")
    places = [told["hint"].index(each) for each in told_in_order]
    assert places == sorted(places)


def test_what_the_refusals_show_backs_up_and_restores_a_board_on_postgres(postgres: Server, tmp_path: Path) -> None:
    """pg_dump and pg_restore as they are shown, then `--settle`; into another database, as after a lost server."""
    with postgres.database() as url, postgres.database() as again:
        for each in (url, again):
            run(each, 'CREATE SCHEMA "Team B"')
            run(each, f'ALTER DATABASE {name_of(each)} SET search_path = "Team B"')
        migrate.upgrade(url)
        fill(url)
        before = numbers(url)
        call = Command(url, tmp_path)
        run_shown(url, call("db", "backup", "board.dump").error["hint"])
        shown = re.search(r"pg_restore .*?(?=; then)", call("db", "restore", "board.dump").error["hint"])
        assert shown
        run_shown(url, shown[0].replace(name_of(url), name_of(again)))
        assert rows(again) == rows(url)
        assert catalog(again) == catalog(url)
        assert Command(again, tmp_path)("db", "restore", "--settle", "--yes").json["claims_ended"] > 0
        with coordinate.connect(again, agent="alice") as c:
            go_on(c)
            assert all(numbers(again)[name] > before[name] + 900 for name in before)
            assert c.examine() == []


def run_shown(url: str, command: str) -> None:
    """Type what was shown, with the tools of the server's own version."""
    tool, *arguments = shlex.split(command)
    version = int(answer(url, "SHOW server_version_num")) // 10000
    fitting = [folder for folder in (local_binaries(), wheel_binaries()) if folder and major_version(folder) == version]
    done = subprocess.run(
        [str(fitting[0] / tool) if fitting else tool, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def name_of(url: str) -> str:
    return str(psycopg.conninfo.conninfo_to_dict(url)["dbname"])


@pytest.mark.slow
def test_a_restore_that_is_killed_leaves_the_old_board_or_the_new_one(two_days: tuple[str, Path]) -> None:
    """SIGKILL at twelve moments."""
    url, made = two_days
    old, chance = rows(url)["history"], random.Random(3)
    ended = set()
    for _ in range(12):
        process = FORK.Process(target=service.restore, args=(made, url), kwargs={"replace": True})
        process.start()
        time.sleep(chance.uniform(0.0, 0.12))
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert run(url, "PRAGMA integrity_check") == [("ok",)]
        with coordinate.connect(url, agent="alice") as c:
            is_old = rows(url)["history"] == old
            assert is_old or c.examine() == []
        ended.add(is_old)
        if not is_old:
            old = rows(url)["history"]
    assert service.restore(made, url, replace=True).settled.known


def revisions(url: str) -> list[int]:
    """Of a board, its row and the row's ask."""
    return [run(url, f"SELECT max(revision) FROM {table}")[0][0] for table in ("boards", "board_rows", "asks")]


def test_no_revision_of_the_later_days_comes_twice_and_nobody_acts_on_a_response(
    board_file: Path, tmp_path: Path
) -> None:
    """Design rule 4.7: whoever read a row in those days shows an old number."""
    url = str(board_file)
    said = {"title": "Release", "label": "Key", "status": "blocked", "action_owner": "task", "impact": "no build"}
    said |= {"next_step": "renew it"}
    with coordinate.connect(url, agent="alice") as c:
        c.board_row(**said)
        ask = c.board_get(title="Release").rows[0].turn.ask_id
        c.respond(ask=ask, kind="handled")
        c.take(ask=ask)
        made = backup.export(board_file, tmp_path / "backup.db").backup
        for number in range(3):
            c.board_row(**said, expected_revision=number + 1, note=f"{number}")
        c.board_row(title="Release", label="Docs")
    shown = revisions(url)
    service.restore(made, url, replace=True)
    assert all(now > before for now, before in zip(revisions(url), shown, strict=True))
    with coordinate.connect(url, agent="bob") as c:
        taken = c.take(ask=ask)
        assert (taken.taken_by, taken.response and taken.response.outdated) == ("bob", False), "its words are the same"
    settled = revisions(url)
    service.settle(url)
    assert [now - before for now, before in zip(revisions(url), settled, strict=True)] == [1_000_000] * 3
    with coordinate.connect(url, agent="bob") as c:
        taken = c.take(ask=ask)
        assert (taken.taken_by, taken.response and taken.response.outdated) == ("bob", False), "its words are the same"
