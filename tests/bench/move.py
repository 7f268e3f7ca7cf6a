"""`python -m tests.bench move [--tasks 1000000]`: a move against a raw `\\copy` of ready files, in one run.

The raw side loads files that Postgres wrote itself, one for each table, into a board at head: the same rows, indexes,
keys and links. What the move does besides (reading the file, a fence, comparing both sides) is not subtracted.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import psycopg

import coordinate
from coordinate.db import migrate, move
from coordinate.records import as_json
from tests.bench.arguments import new_file, positive
from tests.bench.boards import fill_lived
from tests.postgres import Server, start_server


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench move", description=__doc__)
    parser.add_argument("--tasks", type=positive, default=1_000_000)
    parser.add_argument("--json", type=new_file, help="also write the figures to a file")
    options = parser.parse_args(arguments)
    server = start_server()
    try:
        with tempfile.TemporaryDirectory(prefix="coordinate-bench-") as folder:
            figures = _measure(server, Path(folder), options.tasks)
    finally:
        server.stop()
    for name, value in figures.items():
        print(f"{name:<44} {value}")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _measure(server: Server, folder: Path, tasks: int) -> dict[str, Any]:
    board = str(folder / "board.db")
    coordinate.connect(board, create=True).close()
    fill_lived(board, tasks)
    with server.database("moved") as moved, server.database("raw") as raw:
        started = time.perf_counter()
        there = move.move(board, moved)
        whole = time.perf_counter() - started
        files = _write_out(moved, folder)
        migrate.upgrade(raw)
        plain = _load(raw, files)
        started = time.perf_counter()
        back = move.move(moved, str(folder / "back.db"))
        whole_back = time.perf_counter() - started
    return {
        "tasks": f"{tasks:,} ({there.rows:,} rows, {there.bytes / 1e6:,.0f} MB of text)",
        "raw \\copy of ready files": f"{plain:.1f} s",
        "copy by the move": f"{there.copy_seconds:.1f} s, {plain / there.copy_seconds:.2f} of raw (promised: 0.6)",
        "verification": f"{there.verify_seconds:.1f} s, {there.verify_seconds / there.copy_seconds:.2f} of the copy"
        " (promised: 1 at most)",
        "the whole move with its checks": f"{whole:.1f} s, of which nobody could write for {there.added_seconds:.1f} s",
        "back into a file: copy, verification, whole": f"{back.copy_seconds:.1f} s, {back.verify_seconds:.1f} s,"
        f" {whole_back:.1f} s",
        "report": as_json(there),
    }


def _write_out(url: str, folder: Path) -> dict[str, Path]:
    files = {}
    with psycopg.connect(url) as connection:
        for table in (*(each.name for each in move.TABLES), "event_feed"):
            files[table] = folder / f"{table}.copy"
            with files[table].open("wb") as file, connection.cursor().copy(f"COPY {table} TO STDOUT".encode()) as copy:
                file.writelines(copy)
    return files


def _load(url: str, files: dict[str, Path]) -> float:
    """With psql, table after table in the order of their links."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DELETE FROM counters")
    started = time.perf_counter()
    for table, path in files.items():
        subprocess.run(["psql", "-qX", "-v", "ON_ERROR_STOP=1", url, "-c", f"\\copy {table} FROM '{path}'"], check=True)
    return time.perf_counter() - started
