"""The documentation is true: what it shows runs, what there is has its place, and generated pages are as generated.

Every `sh` block of a page runs in order, in one fresh folder, with the real command. What a comment behind a command
names is held to: `# exit N` is the exit status (else 0); a handle, an id or a text in quotes must be in the answer.
"""

from __future__ import annotations

import ast
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg
import pytest
from click.testing import CliRunner

import coordinate
from coordinate import errors, reference, states
from coordinate.cli.root import root
from coordinate.db.dialect import is_postgres
from coordinate.service import Coordinator

CHECKOUT = Path(__file__).parents[1]
DOCS = CHECKOUT / "docs"
PAGES = sorted([CHECKOUT / "README.md", CHECKOUT / "CHANGELOG.md", *DOCS.rglob("*.md")])
SHOWN = [
    CHECKOUT / "README.md",
    DOCS / "quickstart.md",
    DOCS / "fleet.md",
    DOCS / "inbox.md",
    DOCS / "boards.md",
    DOCS / "mcp.md",
    DOCS / "serve.md",
    DOCS / "page.md",
    DOCS / "wake.md",
    DOCS / "webhooks.md",
    DOCS / "howto-transactions.md",
]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "postgresql://USER@HOST/NAME"
SMALL_DEMO = "--agents 6 --tasks 30 --kill 1"
# Paths of some machine, addresses of package registries, notes to oneself.
FOREIGN = re.compile(r"(?<![\w.])/(work|home|root|tmp|Users)/|index[-]url|/simple\b|pypi\.|localhost:\d|FIXME|XXX")


def name_of(page: Path) -> str:
    return str(page.relative_to(CHECKOUT))


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


# --- what is shown runs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shown:
    """A command as a page shows it, and what its comment promises."""

    command: str
    said: str

    @property
    def status(self) -> int:
        found = re.search(r"exit (\d+)", self.said)
        return int(found[1]) if found else 0

    @property
    def answered(self) -> list[str]:
        return re.findall(r'"([^"]+)"', self.said) + re.findall(r"TASK-\d+(?:@\d+)?", self.said)


def shown(block: str) -> Iterator[Shown]:
    """The commands of an `sh` block; a here-document belongs to its command."""
    lines = iter(block.splitlines())
    for line in lines:
        command, _, said = line.partition("  # ")
        if begun := re.search(r"<<'(\w+)'", command):
            for more in lines:
                command += "\n" + more
                if more == begun[1]:
                    break
        if command.strip():
            yield Shown(command.strip(), said)


class Shell:
    """A newcomer's shell: it keeps its folder and its variables, and `coordinate` is the one under test."""

    def __init__(self, folder: Path, postgres: str) -> None:
        self.state = folder / "state"
        self.folder = folder / "home"
        self.postgres = postgres
        programs = folder / "bin"
        programs.mkdir()
        self.folder.mkdir()
        package = Path(coordinate.__file__).parents[1]
        real = f'PYTHONPATH="{package}" exec "{sys.executable}"'
        small = f'[ "$*" = demo ] && set -- demo {SMALL_DEMO}'
        write_program(programs / "coordinate", f'{small}\n{real} -m coordinate "$@"')
        # Installing and testing are what is going on already; anything else is this Python.
        write_program(programs / "python", f'case "$2" in pip|pytest) exit 0;; esac\n{real} "$@"')
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("COORDINATE_")}
        self.environment |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "200"}

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        command = command.replace(ADDRESS, self.postgres)
        before = f'. "{self.state}"\n' if self.state.exists() else ""
        after = f'\nstatus=$?\n{{ export -p; echo "cd \'$PWD\'"; }} >"{self.state}"\nexit $status\n'
        return subprocess.run(
            ["sh", "-c", before + command + after],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            stdin=subprocess.DEVNULL,
        )


def write_program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("page", SHOWN, ids=name_of)
def test_every_block_of_a_page_runs_in_order(page: Path, tmp_path: Path, pg_url: str) -> None:
    shell = Shell(tmp_path, pg_url)
    blocks = [(kind, text) for kind, text in FENCE.findall(read(page)) if kind in ("sh", "python")]
    assert blocks
    for kind, text in blocks:
        if kind == "python":
            (tmp_path / "block.py").write_text(text)
            done = shell.run(f'python "{tmp_path / "block.py"}"')
            assert (done.returncode, done.stderr) == (0, ""), text + done.stderr
            continue
        for each in shown(text):
            done = shell.run(each.command)
            told = f"{each.command}\n{done.stdout}\n{done.stderr}"
            assert done.returncode == each.status, told
            for answer in each.answered:
                assert answer in done.stdout, f"{answer} is not the answer of {told}"


# --- what there is has its place --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", reference.PAGES)
def test_a_reference_page_is_what_the_program_prints(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    assert reference.PAGES[name]() == read(DOCS / name), "run: python -m coordinate.reference"


def test_the_states_of_the_concepts_page_are_those_of_the_program() -> None:
    page = read(DOCS / "concepts.md")
    assert reference.with_states(page) == page, "run: python -m coordinate.reference"


def test_every_command_has_its_place() -> None:
    """What the help lists, group by group."""
    page = read(DOCS / "cli.md")

    def walk(words: list[str]) -> Iterator[str]:
        done = CliRunner().invoke(root, [*words, "--help"], terminal_width=200)
        assert done.exit_code == 0, words
        listed = done.output.partition("\nCommands:\n")[2].partition("\n\n")[0]
        names = re.findall(r"^  ([a-z][a-z-]*)  ", listed, re.MULTILINE)
        if not names:
            yield " ".join(["coordinate", *words])
        for name in names:
            yield from walk([*words, name])

    found = list(walk([]))
    assert len(found) > 40
    for path in found:
        assert f"### `{path.replace('coordinate task batch', 'coordinate batch')}`" in page, path


def test_every_option_of_a_command_is_listed_with_it() -> None:
    of_all = {flag for option in root.params for flag in option.opts}
    page, count = read(DOCS / "cli.md"), 0
    for path, _, command in reference.commands():
        section = page.partition(f"### `{path}`\n")[2].partition("\n### ")[0]
        options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
        for option in options:
            if not of_all.intersection(option.opts):
                assert any(f"`{flag}" in section for flag in option.opts), (path, option.opts)
                count += 1
    assert count > 300


@pytest.mark.parametrize("path", [path for path, _, _ in reference.commands()])
def test_every_command_shows_an_example(path: str) -> None:
    section = read(DOCS / "cli.md").partition(f"### `{path}`\n")[2].partition("\n### ")[0]
    assert f"\nExample: `{path}" in section or "eval" in section, section


def test_every_command_that_a_page_or_a_message_names_exists() -> None:
    known = {tuple(path.split()[1:3]) for path, _, _ in reference.commands()} | {("task", "batch")}
    groups = {words[0] for words in known if len(words) > 1}
    sources = [*Path(coordinate.__file__).parent.rglob("*.py"), *PAGES]
    for source in sources:
        for group, name in re.findall(r"\bcoordinate ([a-z]+) ([a-z]+(?:-[a-z]+)*)", read(source)):
            assert group not in groups or (group, name) in known, f"{source}: coordinate {group} {name}"


def test_every_operation_has_its_place() -> None:
    source = ast.parse(read(Path(coordinate.__file__).with_name("service.py")))
    (kind,) = [node for node in source.body if isinstance(node, ast.ClassDef) and node.name == Coordinator.__name__]
    bound = [node.targets[0].id for node in kind.body if isinstance(node, ast.Assign)]
    defined = [node.name for node in kind.body if isinstance(node, ast.FunctionDef)]
    names = [name for name in bound + defined if not name.startswith("_")]
    assert len(names) > 40
    page = read(DOCS / "python.md")
    assert [name for name in names if f"### `{name}`" not in page] == []


def test_every_error_has_its_place_and_a_known_exit_status() -> None:
    page = read(DOCS / "errors.md")
    below = [kind for kind in errors.CoordinateError.__subclasses__() if kind.__module__ == errors.__name__]
    kinds = [errors.CoordinateError, *below]
    assert [kind.code for kind in kinds if f"| `{kind.code}` | `{kind.__name__}` |" not in page] == []
    assert {kind.exit_status for kind in kinds} <= set(reference.EXITS)
    assert len({kind.code for kind in kinds}) == len(kinds)


def test_every_refusal_of_the_server_has_its_place() -> None:
    page = read(DOCS / "errors.md")
    sources = "".join(read(path) for path in Path(coordinate.__file__).parent.glob("http/**/*.py"))
    told = set(re.findall(r'Refused\(\s*(\d{3}), "(\w+)"', sources))
    assert {code for _, code in told} == set(reference.SERVER_CODES)
    for status, code in told:
        assert re.search(rf"^\| `{code}` \| [\d, ]*{status}", page, re.MULTILINE), (code, status)


def test_every_status_note_type_and_outcome_has_its_place() -> None:
    concepts, schema = read(DOCS / "concepts.md"), read(DOCS / "schema.md")
    assert [status for status in states.STATUSES if f"| `{status}` |" not in concepts] == []
    assert [kind for kind in states.NOTE_TYPES if kind not in concepts] == []
    assert [outcome for outcome in states.OUTCOMES if outcome not in schema] == []


def test_every_table_column_and_index_of_a_board_has_its_place(board_url: str) -> None:
    page = read(DOCS / "schema.md")
    assert "`coordinate_version`" in page
    for table, columns, indexes in catalog(board_url):
        if table == "coordinate_version":
            continue
        section = page.partition(f"## `{table}`\n")[2].partition("\n## ")[0]
        assert section, table
        assert [name for name in columns if f"\n| `{name}` |" not in section] == [], table
        assert [name for name in indexes if f"\n| `{name}`" not in section] == [], table


def catalog(url: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Tables and views of a board, with their columns and with the indexes that are no constraint's."""
    if is_postgres(url):
        with psycopg.connect(url) as connection:
            tables = connection.execute(
                "SELECT relname, oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace"
                " AND relkind IN ('r', 'v')"
            ).fetchall()
            for table, oid in tables:
                columns = connection.execute(
                    "SELECT attname FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped", [oid]
                )
                indexes = connection.execute(
                    "SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE i.indrelid = %s"
                    " AND NOT EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = c.oid)",
                    [oid],
                )
                yield table, [row[0] for row in columns], [row[0] for row in indexes]
        return
    with closing(sqlite3.connect(url)) as connection:
        found = connection.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite%'"
        )
        for (table,) in found.fetchall():
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            indexes = [row[1] for row in connection.execute(f"PRAGMA index_list({table})") if row[3] == "c"]
            yield table, columns, indexes


def test_every_page_is_in_an_index() -> None:
    index, decisions = read(DOCS / "README.md"), read(DOCS / "decisions" / "README.md")
    for page in DOCS.glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in index, page
    for page in (DOCS / "decisions").glob("*.md"):
        assert page.name == "README.md" or f"]({page.name})" in decisions, page


# --- what is said is so -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    text = "".join(FENCE.split(read(page))[::3])
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://", target):
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists() and there.is_relative_to(CHECKOUT), target
        if anchor:
            assert anchor in anchors(read(there)), target


def anchors(text: str) -> set[str]:
    """How GitHub names the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_speaks_about_the_product_alone(page: Path) -> None:
    assert (found := FOREIGN.search(read(page))) is None, found


def test_the_readme_map_is_the_tree() -> None:
    (block,) = [text for kind, text in FENCE.findall(read(CHECKOUT / "README.md")) if "service.py " in text]
    named: set[Path] = set()
    above: list[str] = []
    for line in block.splitlines():
        found = re.match(r"( *)(\S+)(.*)", line)
        assert found
        depth = len(found[1]) // 2
        above = [*above[:depth], found[2]]
        here = Path(*above)
        beside = re.findall(r"[\w]+\.py\b", found[3])
        for path in (here, *(here.parent / each for each in beside)):
            if path.name not in ("root.py", "README.md"):
                assert (CHECKOUT / path).exists(), path
                named.add(path)
    folders = {path.parent.relative_to(CHECKOUT) for path in CHECKOUT.glob("coordinate/**/__init__.py")}
    folders |= {path.relative_to(CHECKOUT) for path in CHECKOUT.glob("tests/*/") if path.name != "__pycache__"}
    assert folders - named == set()
    modules = {path.relative_to(CHECKOUT) for path in CHECKOUT.glob("coordinate/**/*.py")}
    modules = {path for path in modules if path.name not in ("__init__.py", "__main__.py") and path.parts[1] != "cli"}
    assert {path for path in modules - named if path.parts[1] != "harness"} == set()
