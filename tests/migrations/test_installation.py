"""The migrations as they are installed, called and logged: from a wheel, by a host program, by a DBA with an ini."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import psycopg
import pytest
from alembic import command
from sqlalchemy import create_engine

from coordinate.db import migrate
from coordinate.db.dialect import is_postgres
from coordinate.db.knowledge import HEAD
from tests.migrations.catalog import CHECKOUT, alembic, catalog, config_for


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the wheel fills it: the package, and what pyproject.toml puts into it."""
    site = tmp_path_factory.mktemp("site-packages")
    shutil.copytree(CHECKOUT / "coordinate", site / "coordinate", ignore=shutil.ignore_patterns("__pycache__"))
    built = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    for source, target in built["force-include"].items():
        copy = shutil.copytree if (CHECKOUT / source).is_dir() else shutil.copy
        (site / target).parent.mkdir(exist_ok=True)
        copy(CHECKOUT / source, site / target)
    return site


def python(code: str, site: Path, cwd: Path, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(site), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_printed_ini_is_all_that_alembic_needs_beside_the_wheel(
    db_url: str, installed: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "dba's 100%"
    folder.mkdir()
    (folder / "alembic.ini").write_text(migrate.ini())
    more = {"cwd": folder, "PYTHONPATH": str(installed)}
    assert f"-> {HEAD}" not in alembic("upgrade", "head", url=db_url, **more).stdout  # type: ignore[arg-type]
    assert f"{HEAD} (head)" in alembic("current", url=db_url, **more).stdout  # type: ignore[arg-type]
    assert "No new upgrade" in alembic("-x", f"url={db_url}", "check", **more).stdout  # type: ignore[arg-type]
    assert f"-> {HEAD}" in alembic("history", **more).stdout  # type: ignore[arg-type]
    printed = alembic("upgrade", "head", "--sql", url=db_url, **more).stdout  # type: ignore[arg-type]
    assert printed == alembic("upgrade", "head", "--sql", url=db_url).stdout
    alembic("downgrade", "base", url=db_url, **more)  # type: ignore[arg-type]
    assert {kind: found for kind, found in catalog(db_url).items() if found} == {}


def test_the_installed_package_finds_its_own_migrations(installed: Path, tmp_path: Path) -> None:
    told = python(
        "from coordinate.db import migrate; print(migrate.scripts()); print(migrate.upgrade('board.db').after);"
        "print(len(migrate.sql('postgresql')) > 1000); import coordinate; coordinate.connect('board.db').list_tasks()",
        installed,
        tmp_path,
    )
    assert told.split() == [str(installed / "coordinate" / "_migrations"), HEAD, "True"]


def test_the_folder_alembic_never_becomes_a_package() -> None:
    """With an `__init__.py` it would hide the library from `python -m alembic` and from pytest."""
    assert not list((CHECKOUT / "alembic").rglob("__init__.py"))
    assert alembic("--version").stdout.startswith("alembic ")


HOST = """
import logging, os, sys, warnings
logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="host %(message)s")
mine = logging.getLogger("host.thing"); mine.setLevel(logging.DEBUG)
theirs = logging.getLogger("alembic"); theirs.setLevel(logging.CRITICAL)
names = ["", "host.thing", "alembic", "alembic.runtime.migration", "sqlalchemy.engine"]
def state():
    found = [logging.getLogger(name) for name in names]  # a library's own NullHandler says nothing
    heard = [[h for h in l.handlers if type(h) is not logging.NullHandler] for l in found]
    return [(l.name, l.level, l.disabled, h, l.propagate, list(l.filters)) for l, h in zip(found, heard)]
before = state()
"""


@pytest.mark.parametrize(
    "act",
    [
        "import coordinate; coordinate.connect(os.environ['URL'], create=True).close()",
        "from coordinate.db import migrate; migrate.upgrade(os.environ['URL']); migrate.check(os.environ['URL'])",
        "from alembic import command; from alembic.config import Config;"
        "os.environ['COORDINATE_DB'] = os.environ['URL']; command.upgrade(Config('alembic.ini'), 'head')",
    ],
    ids=["connect", "migrate", "alembic from code"],
)
def test_a_host_programs_logging_is_as_it_was(act: str, db_url: str) -> None:
    """AL-09"""
    told = python(
        f"{HOST}\n{act}\nassert state() == before, (before, state())\nmine.error('heard'); print('done')",
        CHECKOUT,
        CHECKOUT,
        URL=db_url,
    )
    assert told == "done\n"


def test_alembic_logs_to_stderr_and_answers_on_stdout(db_url: str) -> None:
    done = alembic("upgrade", "head", url=db_url)
    assert done.stdout == ""
    assert f"-> {HEAD}" in done.stderr
    assert alembic("current", url=db_url).stdout.strip() == f"{HEAD} (head)"


def test_alembic_works_from_the_checkout_on_the_board_of_the_folder(tmp_path: Path) -> None:
    """No address given: the nearest `.coordinate/`, as for every other command; and none is made unasked."""
    ini = str(CHECKOUT / "alembic.ini")
    said = alembic("-c", ini, "upgrade", "head", cwd=tmp_path, code=255).stderr
    assert "there is no board here" in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    (tmp_path / ".coordinate").mkdir()
    alembic("-c", ini, "upgrade", "head", cwd=tmp_path)
    assert [path.name for path in (tmp_path / ".coordinate").iterdir()] == ["board.db"]


def test_an_unknown_revision_is_named_without_a_traceback(board_url: str) -> None:
    said = alembic("upgrade", "nonsense", url=board_url, code=255).stderr
    assert "nonsense" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("kind", ["engine", "connection"])
def test_a_caller_may_hand_over_its_own_engine_or_connection(kind: str, db_url: str) -> None:
    """A transaction that it has begun is its own to end: what it rolls back was never there."""
    if is_postgres(db_url):
        engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(db_url))
    else:
        engine = create_engine(f"sqlite:///{db_url}")
    scripts = CHECKOUT / "alembic"
    try:
        if kind == "engine":
            command.upgrade(config_for(scripts, connection=engine), "head")
        else:
            with engine.connect() as connection:
                if is_postgres(db_url):
                    begun = connection.begin()
                    command.upgrade(config_for(scripts, connection=connection), "head")
                    begun.rollback()
                    assert {kind: found for kind, found in catalog(db_url).items() if found} == {}
                command.upgrade(config_for(scripts, connection=connection), "head")
    finally:
        engine.dispose()
    assert migrate.current(db_url).at_head
