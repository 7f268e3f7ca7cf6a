"""A verified copy of a SQLite board beside it, made before its schema changes; the last three are kept.

A crash leaves at most a file that ends in `.partial`, which the next backup removes: the final name appears only once
the copy is whole and checked.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from coordinate import errors

KEPT = 3


def make(board: Path, revision: str) -> Path:
    """Copy what is committed to `NAME.backup-REVISION-NUMBER`. The caller holds the board's write lock."""
    partial = board.with_name(f"{board.name}.backup.partial")
    _remove(partial)
    try:
        _copy(board, partial)
        made = [number for number, _ in _backups(board)]
        final = board.with_name(f"{board.name}.backup-{revision}-{max(made, default=0) + 1}")
        partial.replace(final)
    finally:
        _remove(partial)
    for _, old in _backups(board)[:-KEPT]:
        old.unlink(missing_ok=True)
    return final


def _copy(board: Path, partial: Path) -> None:
    # As secret as the board itself, from the first byte on.
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, stat.S_IMODE(board.stat().st_mode)))
    with closing(sqlite3.connect(board)) as source, closing(sqlite3.connect(partial)) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        verdict = str(copy.execute("PRAGMA integrity_check").fetchone()[0])
    if verdict != "ok":
        raise errors.NotABoard(f"{board} is damaged: {verdict}", hint="restore a backup; nothing was changed")


def _remove(partial: Path) -> None:
    """With what SQLite keeps beside a file: a journal left by a crash would be played into the next copy."""
    for beside in ("", "-journal", "-wal", "-shm"):
        partial.with_name(partial.name + beside).unlink(missing_ok=True)


def _backups(board: Path) -> list[tuple[int, Path]]:
    """The backups of a board, oldest first."""
    found = []
    for path in board.parent.iterdir():
        if path.name.startswith(f"{board.name}.backup-"):
            number = path.name.rsplit("-", 1)[1]
            if number.isdecimal():
                found.append((int(number), path))
    return sorted(found)
