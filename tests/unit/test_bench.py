"""The benches are honest: what their verdicts say of which rounds, and what they refuse before measuring anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench import peers
from tests.bench.rounds import Figure, plot
from tests.bench.writers import fallen_short

STEADY, WILD = [1.0, 1.01, 0.99, 1.0, 1.0], [0.4, 1.9, 1.0, 1.6, 0.5]


@pytest.mark.parametrize(
    ("ratios", "reference", "aim", "verdict"),
    [
        (STEADY, STEADY, 0.9, "reached"),
        (STEADY, STEADY, 1.1, "not reached"),
        (STEADY, STEADY, None, ""),
        (STEADY, WILD, 0.9, "no conclusion: the reference spreads by 130%"),
        (WILD, STEADY, 0.9, "no conclusion: the ratio spreads by 130%"),
        (WILD, WILD, 0.9, "no conclusion: the reference spreads by 130%, the ratio spreads by 130%"),
        (STEADY[:2], STEADY[:2], 0.9, "no conclusion: it takes 3 rounds, and had 2"),
    ],
)
def test_a_verdict_is_given_only_where_both_sides_hold_still(
    ratios: list[float], reference: list[float], aim: float | None, verdict: str
) -> None:
    assert Figure("a", "higher", ratios, reference, aim=aim).verdict == verdict


def test_what_is_counted_needs_no_rounds() -> None:
    assert Figure("a", "lower", [0.95], [43.0], aim=1.3, counted=True).verdict == "reached"


@pytest.mark.parametrize(
    ("served", "failed", "short"),
    [
        (0.5, 0, []),
        (0.41, 0, ["least served 0.41 of the mean, below 0.5"]),
        (0.9, 3, ["3 failures"]),
        (0.1, 1, ["1 failures", "least served 0.10 of the mean, below 0.5"]),
    ],
)
def test_a_pace_at_the_cost_of_some_writers_is_not_reached(served: float, failed: int, short: list[str]) -> None:
    assert list(fallen_short(served, failed)) == short
    for ratios in (STEADY, WILD):
        verdict = Figure("a", "higher", ratios, STEADY, aim=0.1, short=tuple(short)).verdict
        assert not short or verdict == f"not reached: {', '.join(short)}"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("api --rounds 0", "at least 1"),
        ("api --seconds 0", "above 0"),
        ("writers --writers 7", "invalid choice: 7"),
        ("writers --writers", "expected at least one argument"),
        ("threads --writers 1000", "nothing to measure: threads take --writers 50 or 200"),
        ("api --engine postgresql", "nothing to measure: api is not measured on postgresql"),
        ("api claims --engine sqlite", "nothing to measure: claims is not measured on sqlite"),
        ("api --json nowhere/figures.json", "there is no folder nowhere"),
        ("api --plot .", ". is a folder"),
        ("move --json nowhere/figures.json", "there is no folder nowhere"),
        ("drill --kills 0", "at least 1"),
        ("peers", "python -m pip install '.[bench]'"),
        ("", "python -m pip install '.[bench]'"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is(
    words: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench", *words.split()])
    monkeypatch.setattr(bench, "measured", lambda options: pytest.fail("it measures"))
    monkeypatch.setattr(peers, "ON_FILE", ("a_module_that_nobody_has",))
    with pytest.raises(SystemExit) as end:
        bench.main()
    assert end.value.code == 2
    assert said in capsys.readouterr().err


def test_a_plan_shrinks_with_the_tasks_and_never_grows_above_its_usual_size(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(bench.bulk, "dispatch", lambda folder, tasks, rounds: sizes.append(tasks))
    for tasks in ("10000", "5000000"):
        monkeypatch.setattr(sys, "argv", ["bench", "bulk", "--engine", "sqlite", "--tasks", tasks])
        monkeypatch.setattr(bench.rounds, "table", lambda figures: "")
        bench.main()
    assert sizes == [10_000, 100_000]


def test_a_plot_says_what_is_drawn() -> None:
    drawn = plot([Figure("ours / theirs", "higher", STEADY, STEADY, aim=0.9, reads="9/s against 10/s")])
    assert "<title>" in drawn
    assert "dashed line: the aim" in drawn
    assert "1.000, aim ≥ 0.9, 9/s against 10/s" in drawn
