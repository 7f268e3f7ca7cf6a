"""Boards under many hands: one advance of several wins, rows do not refuse each other, no word and no row is lost."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import coordinate
from coordinate import errors
from coordinate.records import GivenRow
from tests.races import arena
from tests.races.arena import Answer, Call, Go, Noticed, Weakness

pytestmark = pytest.mark.race

TITLE = "Release 2"
STEP = {"note": "the key expired", "next_step": "renew it", "action_owner": "task", "impact": "no build is signed"}
BLOCKED = {**STEP, "status": "blocked"}
DECISION = {**BLOCKED, "action_owner": "decision", "options": ["heron", "crane"]}
# What makes writers of one board come one after the other: on Postgres its lock, on SQLite that they begin immediate.
UNGUARDED: dict[str, Weakness] = {
    "sqlite": arena.no_transactions,
    "postgresql": arena.together(
        arena.cut("board_lock", " FOR UPDATE"),
        arena.cut("board_rows_lock", " FOR UPDATE"),
        arena.cut("board_row_named", " FOR UPDATE"),
        arena.cut("board_row_write", r" AND board_rows\.revision = :revision"),
    ),
}


def assert_rows_and_asks_agree(url: str) -> None:
    """A row is blocked exactly while it has a live ask, of the step that the row stands at."""
    differing = arena.rows(
        url,
        "SELECT r.label, r.status, r.step_no, a.id, a.step_no FROM board_rows r"
        " LEFT JOIN asks a ON a.surface = 'row' AND a.surface_id = r.id AND a.closed_at IS NULL"
        " WHERE (r.status = 'blocked') <> (a.id IS NOT NULL) OR a.step_no <> r.step_no",
    )
    assert differing == []


# --- advancing --------------------------------------------------------------------------------------------------------


def advancer(url: str, number: int, rounds: int) -> Callable[[Go], list[bool]]:
    """Advances the one row in each round, showing what every process saw before it; checks what it is refused with."""

    def live(go: Go) -> list[bool]:
        won = []
        with coordinate.connect(url, agent=f"agent-{number}") as c:
            c.board_list()
            for at in range(1, rounds + 1):
                go()
                time.sleep(random.choice((0.0, random.uniform(0, 0.001))))
                try:
                    c.board_advance(title=TITLE, label="Key", expected_revision=at, board_version=1, **STEP)
                except errors.OutdatedRevision as outdated:
                    told = [outdated.facts[name] for name in ("board_revision", "revision", "step_no", "ask_id")]
                    assert told == [1, at + 1, at, f"ASK-{at}"]
                    won.append(False)
                else:
                    won.append(True)
        return won

    return live


def advance_at_once(url: str, processes: int, rounds: int, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url) as c:
        c.board_upsert(title=TITLE, rows=[GivenRow("Key")])
    bodies = [advancer(url, number, rounds) for number in range(processes)]
    for at, answers in enumerate(zip(*arena.run(bodies, weakness=weakness), strict=True), start=1):
        assert sum(answers) == 1, f"round {at}: {sum(answers)} of {processes} advanced"
    assert arena.rows(url, "SELECT revision, step_no, status FROM board_rows") == [(rounds + 1, rounds, "blocked")]
    assert arena.rows(url, "SELECT count(*), max(step_no), count(closed_at) FROM asks") == [
        (rounds, rounds, rounds - 1)
    ]
    assert arena.rows(url, "SELECT value FROM counters WHERE kind = 'ask'") == [(rounds,)]
    told = Counter(event for (event,) in arena.rows(url, "SELECT event_type FROM events"))
    assert told == {"board.created": 1, "board.row_written": rounds + 1} | {
        "ask.opened": rounds,
        "ask.closed": rounds - 1,
    }
    assert_rows_and_asks_agree(url)


def test_of_8_advances_at_once_one_wins_and_the_others_write_nothing(board_url: str) -> None:
    """Statement 14, QL-24: in 40 rounds, and each loser is told the current numbers."""
    advance_at_once(board_url, 8, 40)


def test_without_the_lock_of_the_board_advances_collide(engine: str, noticed: Noticed) -> None:
    """The guard is needed: a race that cannot fail proves nothing."""
    noticed(lambda url: advance_at_once(url, 4, 20, UNGUARDED[engine]))


# --- different rows, and a human among them ---------------------------------------------------------------------------


def editor(url: str, label: str, rounds: int) -> Callable[[Go], int]:
    """Writes its own row again and again, and advances it with the board's version as it was read at the beginning."""

    def live(go: Go) -> int:
        with coordinate.connect(url, agent=f"agent of {label}") as c:
            version, revision = c.board_get(title=TITLE).board.revision, 1
            go()
            for number in range(rounds):
                said: dict[str, Any] = {"title": TITLE, "label": label, "expected_revision": revision}
                if number % 3 == 0:
                    written = c.board_advance(**said | STEP | {"board_version": version, "note": f"step {number}"})
                else:
                    written = c.board_row(**said, note=f"note {number}")
                revision = written.rows[0].revision
        return revision

    return live


def human(url: str, rounds: int) -> Callable[[Go], int]:
    """Answers what is asked on the row Name, and says something beside other rows."""

    def live(go: Go) -> int:
        with coordinate.connect(url, agent="ann") as c:
            (ask,) = [row.turn.ask_id for row in c.board_get(title=TITLE).rows if row.turn]
            go()
            for number in range(rounds):
                c.respond(ask=ask, choice=("heron", "crane")[number % 2])
                c.board_annotate(title=TITLE, label=f"Row {number % 3}", text=f"go on, {number}")
        return rounds

    return live


def rewriter(url: str, rounds: int) -> Callable[[Go], int]:
    """Puts the ask that the human answers in other words meanwhile."""

    def live(go: Go) -> int:
        revision = 1
        with coordinate.connect(url, agent="asker") as c:
            c.board_list()
            go()
            for number in range(rounds):
                said = DECISION | {"note": f"{number} names are free"}
                written = c.board_row(title=TITLE, label="Name", expected_revision=revision, **said)
                revision = written.rows[0].revision
        return revision

    return live


def work_side_by_side(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url) as c:
        c.board_upsert(title=TITLE, rows=[*(GivenRow(f"Row {n}") for n in range(3)), GivenRow("Name", **DECISION)])
    bodies = [*(editor(url, f"Row {n}", rounds) for n in range(3)), human(url, rounds), rewriter(url, rounds)]
    arena.run(bodies, weakness=weakness)
    assert set(arena.rows(url, "SELECT revision FROM board_rows")) == {(rounds + 1,)}
    assert arena.rows(url, "SELECT revision FROM boards") == [(1,)]
    assert arena.rows(url, "SELECT response_seq FROM asks WHERE action_owner = 'decision'") == [(rounds,)]
    assert arena.rows(url, "SELECT count(*) FROM annotations") == [(rounds,)]
    assert_rows_and_asks_agree(url)


def test_agents_on_different_rows_and_a_human_refuse_nobody(board_url: str) -> None:
    """Statement 16: three agents edit and advance their own rows, one revises the ask that a human answers."""
    work_side_by_side(board_url, 30)


def test_a_board_whose_revision_moved_with_every_row_would_refuse_them(noticed: Noticed) -> None:
    """What keeps them apart is that a row's change leaves the board's revision alone."""
    noticed(lambda url: work_side_by_side(url, 9, arena.cut("board_write", ":moved", put="1")))


# --- whole boards -----------------------------------------------------------------------------------------------------


def upserter(url: str, number: int, rounds: int) -> Callable[[Go], int]:
    """Adds rows to the shared board, reading it anew where another was faster; its own board nobody else touches."""

    def live(go: Go) -> int:
        with coordinate.connect(url, agent=f"agent-{number}") as c:
            c.board_list()
            go()
            for at in range(rounds):
                own = [GivenRow(f"own {each}") for each in range(at + 1)]
                c.board_upsert(title=f"Board {number}", rows=own, board_version=at or None)
                while not add_row(c, f"{number}-{at}"):
                    pass
        return rounds

    return live


def add_row(c: coordinate.Coordinator, label: str) -> bool:
    view = c.board_get(title=TITLE)
    rows = [*(GivenRow(row.label) for row in view.rows), GivenRow(label)]
    try:
        c.board_upsert(title=TITLE, rows=rows, board_version=view.board.revision)
    except errors.OutdatedRevision:
        return False
    return True


def upsert_at_once(url: str, processes: int, rounds: int, weakness: Weakness | None = None) -> None:
    with arena.setting_up(url) as c:
        c.board_upsert(title=TITLE, rows=[])
    arena.run([upserter(url, number, rounds) for number in range(processes)], weakness=weakness)
    with arena.setting_up(url) as c:
        view = c.board_get(title=TITLE, full=True)
    assert {row.label for row in view.rows} == {f"{n}-{at}" for n in range(processes) for at in range(rounds)}
    assert ([row.position for row in view.rows], view.set_aside) == (list(range(1, len(view.rows) + 1)), ())
    assert view.board.revision == processes * rounds + 1


def test_processes_writing_whole_boards_wait_for_each_other_and_lose_no_row(board_url: str) -> None:
    """Statement 20: nobody meets a busy database, and who comes second with an old version is told so."""
    upsert_at_once(board_url, 3, 15)


def test_without_the_lock_of_the_board_rows_are_lost(engine: str, noticed: Noticed) -> None:
    noticed(lambda url: upsert_at_once(url, 3, 10, UNGUARDED[engine]))


def test_of_several_that_make_the_same_board_one_does(board_url: str) -> None:
    rounds = 20
    scripts: list[list[Call]] = [
        [("board_upsert", {"title": f"T{at}", "rows": [GivenRow("Docs")]}) for at in range(rounds)] for _ in range(4)
    ]
    for answers in arena.rounds(board_url, *scripts):
        assert Counter(answer.code for answer in answers) == {"": 1, "outdated_revision": 3}
    assert arena.rows(board_url, "SELECT value FROM counters WHERE kind = 'board'") == [(rounds,)]


def test_two_that_finish_the_last_rows_at_once_archive_the_board(board_url: str) -> None:
    """Statement 18: neither of them saw the other's row done, and yet one of them knows that all are."""
    rounds = 30
    with arena.setting_up(board_url) as c:
        for at in range(rounds):
            c.board_upsert(title=f"T{at}", rows=[GivenRow("0"), GivenRow("1")])
    done = [
        [
            ("board_row", {"title": f"T{at}", "label": label, "expected_revision": 1, "status": "done"})
            for at in range(rounds)
        ]
        for label in ("0", "1")
    ]
    assert all(answer.ok for answers in arena.rounds(board_url, *done) for answer in answers)
    assert arena.rows(board_url, "SELECT status, count(*) FROM boards GROUP BY status") == [("archived", rounds)]


# --- the human's last word --------------------------------------------------------------------------------------------


def leave_while_the_human_speaks(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """In each round the agent ends the turn with what it was handed, while the human says something else."""
    with arena.setting_up(url) as c:
        c.board_upsert(title=TITLE, rows=[GivenRow(f"R{at}", **DECISION) for at in range(rounds)])
        asked = [row.turn.ask_id for row in c.board_get(title=TITLE).rows if row.turn]
        for ask in asked:
            c.respond(ask=ask, choice="heron", agent="ann")
        while c.pending(limit=100, agent="racer").next:
            pass
    leave: list[Call] = [
        (
            "board_row",
            {
                "title": TITLE,
                "label": f"R{at}",
                "expected_revision": 1,
                "status": "partial",
                "response_seq": 1,
                "outcome": "heron it is",
            },
        )
        for at in range(rounds)
    ]
    speak: list[Call] = [("respond", {"ask": ask, "choice": "crane"}) for ask in asked]
    seen = Counter(_outcome(left, spoken) for left, spoken in arena.rounds(url, leave, speak, weakness=weakness))
    assert set(seen) <= {("left", "closed"), ("answer_changed", "spoken")}, seen
    assert_rows_and_asks_agree(url)


def _outcome(left: Answer, spoken: Answer) -> tuple[str, str]:
    return left.code or "left", spoken.code or "spoken"


def test_a_turn_never_ends_over_a_later_word(board_url: str) -> None:
    """Statement 9 on a row: either the human is told that it is closed, or the agent that the answer changed."""
    leave_while_the_human_speaks(board_url, 60)


def test_without_the_pinned_response_a_word_is_lost(noticed: Noticed) -> None:
    guard = r" AND \(asks\.handled_at IS NULL OR .*?(?= RETURNING)"
    noticed(lambda url: leave_while_the_human_speaks(url, 20, arena.cut("ask_close", guard)))


# --- words beside rows ------------------------------------------------------------------------------------------------


def poll_at_once(url: str, rounds: int, weakness: Weakness | None = None) -> None:
    """Three processes of one reader poll word by word: together they are handed each word once."""
    with arena.setting_up(url) as c:
        c.board_upsert(title=TITLE, rows=[GivenRow("Docs")])
        for at in range(rounds):
            c.board_annotate(title=TITLE, label="Docs", text=f"word {at}", agent="ann")
    polls: list[list[Call]] = [[("pending", {"limit": 1})] * rounds for _ in range(3)]
    answers = [answer for together in arena.rounds(url, *polls, weakness=weakness) for answer in together]
    handed = Counter(words.text for answer in answers for words in answer.value.annotations)
    assert handed == {f"word {at}": 1 for at in range(rounds)}


def test_a_reader_that_polls_several_times_at_once_is_handed_each_word_once(board_url: str) -> None:
    """Statement 10: exactly once for each session."""
    poll_at_once(board_url, 40)


def test_without_a_second_look_a_word_is_handed_twice(noticed: Noticed) -> None:
    """On Postgres the first look is at the rows from before the wait for their lock."""
    told = r" AND \(NOT \(EXISTS \(SELECT annotation_deliveries\.reader.*?= :reader\)\) OR .*?:full.*?\)"
    looks = [arena.cut(name, told) for name in ("annotations_pending", "annotations_lock")]
    noticed(lambda url: poll_at_once(url, 10, arena.together(*looks)))
