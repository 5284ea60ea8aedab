"""Differences, intervals, chance and standings by hand: small numbers, infinite scores."""

import re

import numpy as np
import pandas as pd
import pytest
from compared import BASE, BETTER, LEVEL, rows_of

from fedsim.study import pairing, standings, statistics
from fedsim.study.breakdown import breakdown_point
from fedsim.study.guessing import chance_levels


def test_an_interval_needs_two_finite_values():
    assert statistics.interval(np.array([1.0])) is None
    assert statistics.interval(np.array([1.0, np.inf])) is None
    assert statistics.sample_sd(np.array([1.0])) is None
    assert statistics.sample_sd(np.array([1.0, 2.0])) == pytest.approx(0.5**0.5)
    low, high = statistics.interval(np.array([1.0, 2.0]))
    assert (low + high) / 2 == pytest.approx(1.5)
    assert (high - low) / 2 == pytest.approx(12.706204736 * 0.5)


def test_infinite_differences_are_tested_by_who_was_better():
    one, other = np.array([1.0, 2.0, np.inf, 4.0]), np.array([0.0, 0.0, 0.0, 5.0])
    signs = statistics.sign_flip(np.array([1.0, 1.0, 1.0, -1.0]))
    assert statistics.p_different(one, other) == signs
    finite = statistics.sign_flip(np.array([0.5, -1.0]))
    assert statistics.p_different(one[:2], np.array([0.5, 3.0])) == finite


def test_how_small_p_can_be_and_how_many_seeds_that_takes():
    """Up to 16 pairs all signs are tried, beyond 65,536 that are drawn and the observed ones."""
    assert statistics.sign_flip(np.ones(16)) == statistics.smallest_p(16) == 2 / 2**16
    assert statistics.smallest_p(17) == 1 / 65_537
    d = np.arange(-4.0, 13)
    signs = np.random.default_rng(0).choice((1.0, -1.0), (65_536, 17))
    as_large = np.abs(signs @ d) >= d.sum()
    assert statistics.sign_flip(d) == (as_large.sum() + 1) / 65_537
    assert [standings.too_few(seeds, tests=1) for seeds in (5, 6)] == [True, False]


@pytest.mark.parametrize("tests", [1, 2, 7])
def test_the_seeds_that_are_said_to_be_enough_are_enough(tests):
    text = standings.few_seeds(2, tests)
    enough = int(re.search(r", (\d+) would do", text)[1])
    assert standings.few_seeds(enough, tests) == "" and standings.too_few(enough - 1, tests)


def test_chance_is_the_share_of_the_most_frequent_label():
    labels = {"client": ["A", "A", "B"], "label": ["cat", "dog", "dog"], "samples": [4, 2, 4]}
    table = pd.DataFrame(labels)
    assert chance_levels(table, "test_accuracy") == {"": 0.6}
    assert chance_levels(table, "test_loss") == {}
    for unknown in (table.assign(label=None), None):
        assert chance_levels(unknown, "test_accuracy") == {}
    varied = table.assign(variant=["x", "x", "y"])
    assert chance_levels(varied, "test_accuracy") == {"x": 4 / 6, "y": 1.0}


@pytest.mark.parametrize(
    ("level", "at", "above"),
    [(0.5, 0.52, 0.5201), (0.01, 0.0124, 0.0126)],
    ids=["two points above", "a quarter above a low level"],
)
def test_a_score_near_that_of_guessing_is_at_chance_level(level, at, above):
    rows = rows_of({"at": [at], "above": [above], "below": [0.5 * level]})
    (group,) = standings.standings([], rows, "at", "final", {"": level}).values()
    assert {s.method for s in group if s.chance} == {"at", "below"}
    assert {s.method: s.outcome for s in group} == {"at": "baseline", "above": "", "below": ""}
    assert {(s.better, s.tied, s.benefit) for s in group} == {(0, 0, 0.0)}


def test_methods_are_compared_on_their_common_seeds_and_over_all_pairs():
    rows = rows_of({"base": [0.5] * 8, "other": [0.6] * 10, "late": [0.5]})
    rows[-1]["seed"] = 20  # which no other method has
    expected = {"other": 2 / 2**8, "late": None}
    assert pairing.p_values_against(rows, "base", "final") == expected


def test_a_table_of_differences_by_hand():
    scores = {"base": BASE, "level": LEVEL, "better": BETTER}
    rows = pairing.against(rows_of(scores), "base", "final")
    for row, (method, values) in zip(rows, scores.items(), strict=True):
        assert (row["method"], row["baseline"]) == (method, "base")
        assert (row["metric"], row["score"]) == ("test_accuracy", "final")
        assert (row["seeds"], row["diverged"], row["failed"]) == (7, 0, 0)
        assert row["mean"] == pytest.approx(np.mean(values))
        assert row["sd"] == pytest.approx(np.std(values, ddof=1))
    base, level, better = rows
    tests = (*pairing.TESTS, "p_adjusted")
    assert [base[name] for name in tests] == [None] * len(tests)
    assert pairing.without_baseline(rows) == [level, better]
    assert better["difference"] == pytest.approx(np.mean(BETTER) - np.mean(BASE))
    assert (better["p_value"], better["p_adjusted"]) == (2 / 2**7, 4 / 2**7)
    assert level["p_adjusted"] == level["p_value"]
    assert better["probability_of_improvement"] == 1.0
    assert level["probability_of_improvement"] == 3.5 / 7


def test_only_seeds_that_both_ran_are_paired():
    rows = rows_of({"base": BASE, "some": BETTER})
    rows[-1] |= {"status": "failed", "final": None}
    rows[0] |= {"status": "failed", "final": None}
    rows[8]["diverged"] = 1
    base, some = sorted(pairing.against(rows[::-1], "base", "final"), key=lambda row: row["method"])
    assert (base["seeds"], base["failed"]) == (6, 1)
    assert base["mean"] == pytest.approx(np.mean(BASE[1:]))
    assert (some["seeds"], some["failed"], some["diverged"]) == (5, 1, 1)
    scores = [0.0, *BETTER[2:6]]
    assert some["mean"] == pytest.approx(np.mean(scores))
    assert some["difference"] == pytest.approx(np.mean(scores) - np.mean(BASE[1:6]))
    none = pairing.against([{**row, "status": "failed"} for row in rows], "base", "final")[1]
    assert none["seeds"] == 0
    assert none["mean"] is none["p_value"] is none["metric"] is None
    assert none["failed"] == 7
    one = pairing.against(rows_of({"base": [0.5], "other": [0.75]}), "base", "final")[1]
    assert (one["seeds"], one["mean"], one["difference"]) == (1, 0.75, 0.25)
    assert one["sd"] is one["p_value"] is None


def test_variations_are_compared_each_with_its_own_baseline():
    rows = rows_of({"base": BASE, "m": BETTER}, variant="a", lr=1) + rows_of(
        {"base": BETTER, "m": BASE}, variant="b", lr=2
    )
    table = pairing.against(rows, "base", "final", ["lr"])
    first, second = pairing.without_baseline(table)
    assert (first["variant"], first["lr"], round(first["difference"], 6)) == ("a", 1, 0.112857)
    assert (second["variant"], second["lr"]) == ("b", 2)
    assert second["difference"] == -first["difference"]


def test_without_scores_there_is_nothing_over_all_variations():
    rows = rows_of({"a": [0.1]}, variant="x") + rows_of({"a": [0.1]}, variant="y")
    failed = [{**row, "status": "failed", "final": None} for row in rows]
    assert pairing.scores_of(failed, "final") is None
    assert pairing.across(None, "final") == pairing.profiles(None, "final") == []


def test_scores_over_all_variations():
    rows = [
        *rows_of({"a": [0.1, 0.2, 0.3, 0.4], "b": [0.5, 0.6, 0.7, 0.8]}, variant="x"),
        *rows_of({"a": [0.2, 0.2, 0.2, 0.2], "b": [0.1, 0.1, 0.1, 0.9]}, variant="y"),
        *rows_of({"a": [0.9, 0.9, 0.9, 0.9]}, variant="z"),
    ]
    scores = pairing.scores_of(rows, "final")
    assert (scores.methods, scores.metric) == (["a", "b"], "test_accuracy")
    assert (scores.variations, scores.left_out) == (2, 1)
    assert scores.table.tolist() == [
        [[0.1, 0.2, 0.3, 0.4], [0.2] * 4],
        [[0.5, 0.6, 0.7, 0.8], [0.1, 0.1, 0.1, 0.9]],
    ]
    a, b = pairing.across(scores, "final")
    assert (a["method"], a["variations"], a["left_out"], a["score"]) == ("a", 2, 1, "final")
    assert a["iqm"] == pytest.approx(0.2)
    assert b["iqm"] == pytest.approx((0.1 + 0.5 + 0.6 + 0.7) / 4)
    assert (a["mean_rank"], b["mean_rank"]) == (2.0, 1.0)
    assert a["ci_low"] <= a["iqm"] <= a["ci_high"]
    profiles = pairing.profiles(scores, "final")
    assert len(profiles) == 2 * 51
    assert [profiles[i]["threshold"] for i in (0, 50)] == pytest.approx([0.1, 0.9])
    assert [profiles[i]["share"] for i in (0, 51, 101)] == [7 / 8, 5 / 8, 0]
    assert pairing.scores_of(rows[:8], "final") is None
    rows[8]["diverged"] = 1
    assert pairing.scores_of(rows, "final").table[0, 1].tolist() == [0.0, 0.2, 0.2, 0.2]


def broken_at(means, values=(0, 1, 2, 3, 4), sds=None, seeds=None, start=0.1, larger=True):
    n = len(means)
    return breakdown_point(values[:n], means, sds or [0.0] * n, seeds or [5] * n, start, larger)


def test_breakdown_points_by_hand():
    assert broken_at([0.9, 0.9, 0.4, 0.1, 0.1]) == 2
    assert broken_at([0.9, 0.4, 0.9, 0.1]) == 3
    assert broken_at([0.1, 0.1, 0.4, 0.8, 0.9]) == 2  # falls from its end to its start
    assert broken_at([0.1, 0.4, 0.9, 0.9]) == 1
    assert broken_at([0.1, 0.9]) == 0
    assert broken_at([0.9, 0.1]) == 1
    assert broken_at([0.9, 0.5, 0.5]) is None
    assert broken_at([0.9, 0.1, 0.9]) is None  # half of the gain is enough
    assert broken_at([0.5, 0.25, 0.1], start=0.0) is not None
    assert broken_at([0.5, 0.25, 0.25], start=0.0) is None
    assert broken_at([0.2, 1.9, 2.3], start=2.4, larger=False) == 1
    assert broken_at([0.5, 0.6, np.inf, np.inf], start=2.3, larger=False) == 2
    assert broken_at([np.nan, 0.9, np.nan, 0.1]) == 3
    assert broken_at([0.9, np.nan]) is None
    assert broken_at([]) is None


def test_an_insignificant_gain_has_no_breakdown_point():
    half = statistics.half_width_of(0.2, 4)
    for gain, wanted in ((half * 1.01, 1), (half * 0.99, None)):
        assert broken_at([gain, 0.0], sds=[0.2, 0.0], seeds=[4, 9], start=0.0) == wanted
    assert broken_at([0.1, 0.1]) is None
    assert broken_at([0.1, 0.05]) is None
    assert broken_at([0.05, 0.01]) is None
    assert broken_at([0.11, 0.1], sds=[None, None]) == 1
