"""The backup beside a SQLite board before its schema changes: whole, checked, as secret as the board, three of them."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

import pytest

import coordinate
from coordinate import errors, service
from coordinate.db import backup, dialect, migrate
from coordinate.db.knowledge import HEAD
from tests.migrations.catalog import FAULT, rows, step, write_later


def backups_of(board: Path) -> list[str]:
    return sorted(path.name for path in board.parent.iterdir() if ".backup-" in path.name)


def test_a_new_board_has_no_backup_and_an_upgraded_one_has(board_file: Path) -> None:
    assert backups_of(board_file) == []
    before = rows(str(board_file))
    done = migrate.downgrade(str(board_file), "0001")
    assert done.backup == f"{board_file}.backup-{HEAD}-1"
    assert rows(done.backup) == before
    at_0001 = rows(str(board_file))
    done = migrate.upgrade(str(board_file))
    assert done.backup == f"{board_file}.backup-0001-2"
    assert rows(done.backup) == at_0001
    assert migrate.upgrade(str(board_file)).backup is None
    with closing(sqlite3.connect(done.backup)) as alone:
        assert alone.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_the_backup_holds_what_was_committed_also_what_is_in_the_log_only(board_file: Path) -> None:
    """SQ-09: a copy of the main file alone would miss it."""
    with coordinate.connect(board_file, agent="alice") as c:
        task = c.dispatch(title="only in the log", role="worker").task
        made = backup.make(board_file, HEAD)
        c.dispatch(title="too late", role="worker")
    with coordinate.connect(made, agent="alice") as c:
        assert [found.id for found in c.list_tasks(query="only in the log").tasks] == [task.id]
        assert c.list_tasks(query="too late").tasks == ()


def test_the_last_three_are_kept_and_nothing_else_is_removed(board_file: Path) -> None:
    """A date at the end of a name that somebody chose is no number of ours."""
    given = ("mine", "0001-x", "2026-11-27", "2026-11-28", "0001-2026-11-29", "2026-7", "v2-1")
    bystanders = [*(f"{board_file.name}.backup-{end}" for end in given), "other.db.backup-0001-1"]
    for name in bystanders:
        board_file.with_name(name).write_text("mine")
    for _ in range(12):
        backup.make(board_file, HEAD)
        backup.prune(board_file)
    assert backups_of(board_file) == sorted(
        [*bystanders, *(f"{board_file.name}.backup-{HEAD}-{number}" for number in (10, 11, 12))]
    )


def test_a_copy_of_a_revision_that_this_program_does_not_know_is_neither_removed_nor_replaced(plain: Path) -> None:
    newer = {backup.make(plain, "7777") for _ in range(2)}
    for _ in range(4):
        backup.make(plain, HEAD)
    backup.prune(plain)
    assert newer == set(plain.parent.glob("*.backup-7777-*"))
    assert len(newer) == 2


def test_a_name_that_an_upgrade_would_take_for_its_own_is_refused(plain: Path) -> None:
    for end in (f"backup-{HEAD}-1", "backup-0001-12", "backup-none-3", f"backup-{HEAD}-failed"):
        with pytest.raises(errors.InvalidInput) as caught:
            backup.export(plain, plain.with_name(f"{plain.name}.{end}"))
        assert caught.value.facts["field"] == "file"
    assert backups_of(plain) == []


def test_a_backup_is_as_secret_as_the_board(board_file: Path) -> None:
    board_file.chmod(0o600)
    made = backup.make(board_file, HEAD)
    assert stat.S_IMODE(made.stat().st_mode) == 0o600


def test_a_copy_is_for_nobody_whom_the_folder_of_the_board_keeps_out(plain: Path, tmp_path: Path) -> None:
    """As `init` makes it: the file's own mode says nothing where its folder is closed."""
    plain.chmod(0o444)
    mask = os.umask(0)
    try:
        for folder, expected in ((0o700, 0o600), (0o750, 0o640), (0o755, 0o644)):
            plain.parent.chmod(folder)
            made = Path(backup.export(plain, tmp_path / f"{folder:o}.db").backup)
            assert stat.S_IMODE(made.stat().st_mode) == expected
    finally:
        os.umask(mask)


def test_a_damaged_board_is_not_upgraded_and_leaves_no_backup(board_file: Path) -> None:
    migrate.downgrade(str(board_file), "0001")
    for path in board_file.parent.glob("*.backup-*"):
        path.unlink()
    content = bytearray(board_file.read_bytes())
    for page in range(4096 * 6, len(content), 4096):
        content[page : page + 200] = b"\xff" * 200
    board_file.write_bytes(content)
    with pytest.raises(errors.NotABoard, match="damaged"):
        migrate.upgrade(str(board_file))
    assert backups_of(board_file) == []
    assert board_file.read_bytes() == content


def test_migrations_that_fail_keep_one_backup_and_push_out_none(board_file: Path, scripts: Path) -> None:
    for _ in range(backup.KEPT):
        good = backup.make(board_file, HEAD)
    kept = backups_of(board_file)
    write_later(scripts, "9001", HEAD, fault=FAULT)
    before = rows(str(board_file))
    for _ in range(2):
        with pytest.raises(Exception, match="there_is_no_such_table"):
            step(str(board_file), "9001", scripts)
    assert backups_of(board_file) == [*kept, failed := f"{board_file.name}.backup-{HEAD}-failed"]
    assert rows(str(board_file.with_name(failed))) == rows(str(good)) == rows(str(board_file)) == before


def test_an_upgrade_that_is_interrupted_once_it_is_done_keeps_its_backup(
    board_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the only copy of how the board was; the next upgrade that fails would take its place."""
    migrate.downgrade(str(board_file), "0001")
    before = rows(str(board_file))

    def interrupted(self: sqlite3.Connection) -> None:
        self.execute("COMMIT")
        raise KeyboardInterrupt

    monkeypatch.setattr(dialect._Connection, "commit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        migrate.upgrade(str(board_file))
    assert migrate.current(str(board_file)).at_head
    assert rows(f"{board_file}.backup-0001-2") == before


def test_a_value_that_breaks_a_rule_of_its_table_is_no_damage(board_file: Path, tmp_path: Path) -> None:
    """Whoever put it there, and whose table it is: the board is copied, upgraded and restored with it."""
    url = str(board_file)
    with closing(sqlite3.connect(board_file)) as other:
        other.executescript(
            "CREATE TABLE orders (price INTEGER CHECK (price > 0)); PRAGMA ignore_check_constraints = ON;"
            "INSERT INTO orders VALUES (-1); UPDATE tasks SET priority = 1000 WHERE id = 'TASK-1';"
        )
    made = Path(backup.export(board_file, tmp_path / "made.db").backup)
    migrate.downgrade(url, "0009")
    assert rows(url)["orders"] == rows(str(made))["orders"]
    told = service.restore(made, url, replace=True)
    assert told.settled.known
    assert rows(url)["orders"] == rows(str(made))["orders"]
    assert str(told.kept).startswith(f"{board_file}.backup-")


@pytest.mark.slow
def test_a_backup_that_is_killed_leaves_no_file_that_looks_complete(board_file: Path) -> None:
    """SQ-09: SIGKILL at twenty moments; whatever has a final name is whole."""
    with coordinate.connect(board_file, agent="alice") as c:
        for _ in range(40):
            c.comment(task="TASK-1", text="x" * 9_000)
    expected = rows(str(board_file))
    for _ in range(backup.KEPT):
        backup.make(board_file, "0002")
    fork = multiprocessing.get_context("fork")
    chance = random.Random(1)
    for _ in range(20):
        process = fork.Process(target=_back_up_again_and_again, args=(board_file,))
        process.start()
        time.sleep(chance.uniform(0.01, 0.15))
        assert process.pid
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        for path in board_file.parent.glob(f"{board_file.name}.backup-*"):
            if not path.name.endswith("-journal"):
                assert rows(str(path)) == expected, path
                with closing(sqlite3.connect(path)) as alone:
                    assert alone.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    backup.make(board_file, HEAD)
    backup.prune(board_file)
    assert len(backups_of(board_file)) == backup.KEPT
    assert not list(board_file.parent.glob("*partial*"))


def _back_up_again_and_again(board: Path) -> None:
    while True:
        backup.make(board, HEAD)
        backup.prune(board)
