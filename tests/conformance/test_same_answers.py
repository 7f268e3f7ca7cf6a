"""The same calls on both engines have the same answers, refusals and words, whatever the calls are."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import coordinate
from coordinate.operations import operations
from tests.calls import Random, answer_to
from tests.clock import age
from tests.conftest import create_board_on_postgres
from tests.tables import assert_sound

CALLS = 1_200
# Longer than half of the leases last, and shorter than the others.
LATER = 2_000


def test_whatever_is_called_both_engines_say_the_same(
    sqlite_template: Path, tmp_path: Path, pg_url: str, postgres_script: str | None
) -> None:
    file = str(shutil.copy(sqlite_template, tmp_path / "board.db"))
    create_board_on_postgres(pg_url, postgres_script)
    calls, answered = Random(seed=8), Counter[str]()
    with coordinate.connect(file) as on_sqlite, coordinate.connect(pg_url) as on_postgres:
        for number in range(CALLS):
            if number % 150 == 149:
                age(file, LATER)
                age(pg_url, LATER)
            call = calls.call()
            on_postgres.database.number_events()  # there by whoever reads the log; on SQLite by whoever writes it
            ours, theirs = answer_to(on_sqlite, call), answer_to(on_postgres, call)
            assert without_chance(ours) == without_chance(theirs), (number, call[0].name, call[1], call[2])
            assert ours[0] != "internal"
            answered[call[0].name] += not ours[0]
            if not ours[0]:
                calls.learn(call, ours[1])
        assert on_sqlite.examine() == on_postgres.examine() == []
    assert_sound(file)
    assert_sound(pg_url)
    assert sum(1 for each in answered.values() if each) > 0.75 * len(operations())


def without_chance(answer: Any) -> str:
    """An answer without its times, and without the numbers of rows: what was refused may have used one on Postgres."""
    said = json.dumps(answer, ensure_ascii=False, sort_keys=True)
    said = re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+(Z| UTC)?", "TIME", said)
    said = re.sub(
        r'"(id|parked_on|worktree_id|more_notes|more_history|next)": (\d+|"[^"]*TIME[^"]*")', r'"\1": ID', said
    )
    return re.sub(r"\b(s-|ag-|coordinate_)[\w-]{16,}", r"\1CHANCE", said)
