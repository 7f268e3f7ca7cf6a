"""Migrations are gentle to a Postgres that others use: a linter for migrations reads what each of them would run."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig

import pytest

from coordinate.db import knowledge, migrate

# What the linter says of every migration, and why it does not apply here.
NOT_FOR_US = {
    "prefer-bigint-over-int": "counts and seconds with a bound; what is minted is BIGINT",
    "prefer-text-field": "Alembic's own version table",
    "require-statement-timeout": "a long build is meant to end; lock_timeout keeps others from queueing behind it",
}
# What a revision does all the same. None of it may be taken for a habit: a later revision has no entry here.
EMPTY = "partial indexes on older tables, empty when they are built: one scan, nothing sorted"
ALL_THE_SAME = {
    "0003": {"require-concurrent-index-creation": EMPTY},
    "0004": {"require-concurrent-index-creation": EMPTY},
}


def linted(sql: str) -> set[str]:
    program = shutil.which("squawk") or shutil.which("squawk", path=sysconfig.get_path("scripts"))
    if program is None:
        pytest.fail("squawk is not installed: python -m pip install '.[test]'")
    done = subprocess.run(
        [program, "--pg-version", "14", "--reporter", "json", "--stdin-filepath", "migration.sql"],
        input=sql,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return {found["rule_name"] for found in json.loads(done.stdout)} - NOT_FOR_US.keys()


@pytest.mark.parametrize("revision", knowledge.REVISIONS)
def test_no_migration_does_what_hurts_a_busy_server(revision: str) -> None:
    place = knowledge.REVISIONS.index(revision)
    before = "base" if place == 0 else knowledge.REVISIONS[place - 1]
    assert linted(migrate.sql("postgresql", f"{before}:{revision}")) == ALL_THE_SAME.get(revision, {}).keys()


def test_the_linter_sees_what_hurts() -> None:
    hurts = {
        "CREATE INDEX i ON tasks (title);": "require-concurrent-index-creation",
        "ALTER TABLE tasks ADD CONSTRAINT c CHECK (number > 0);": "constraint-missing-not-valid",
        "ALTER TABLE tasks ALTER COLUMN number TYPE text;": "changing-column-type",
    }
    for sql, rule in hurts.items():
        assert rule in linted("SET lock_timeout = '2s';\n" + sql)
