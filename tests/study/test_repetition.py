"""Repetitions: noise is not called a difference, a shift is, and few seeds decide nothing."""

import numpy as np
import pytest

from fedsim.study.repetition import ROUNDING, repetition
from fedsim.study.statistics import sign_flip


def summary(scores, method="fedavg", metric="test_accuracy"):
    rows = []
    for seed, score in enumerate(scores):
        rows.append(
            {"method": method, "seed": seed, "metric": metric, "final": score, "diverged": 0}
        )
    return rows


def test_a_row_is_the_paired_test_of_the_seeds():
    before = np.linspace(0.6, 0.9, 8)
    shift = np.array([0.01, 0.02, 0.015, 0.01, 0.03, 0.01, 0.02, 0.01])
    (row,) = repetition(summary(before), summary(before + shift), "final")
    assert row["difference"] == pytest.approx(shift.mean())
    assert row["p_value"] == sign_flip(shift) == 2 / 2**8
    assert row["differs"] and row["testable"] and not row["same"]


def test_scores_that_differ_by_rounding_are_the_same():
    before = np.linspace(0.6, 0.9, 8)
    (row,) = repetition(summary(before), summary(before * (1 + ROUNDING / 2)), "final")
    assert row["same"] and not row["differs"] and row["difference"] == 0


def test_few_seeds_decide_nothing():
    (row,) = repetition(summary([0.5, 0.6]), summary([0.7, 0.8]), "final")
    assert not row["differs"] and not row["testable"]
    (one,) = repetition(summary([0.5]), summary([0.7]), "final")
    assert not one["differs"] and not one["testable"]


def test_a_run_that_diverges_only_here_counts_with_the_worst_score():
    after = [{**row, "diverged": 1, "final": None} for row in summary([0.8] * 8)]
    (row,) = repetition(summary([0.8] * 8), after, "final")
    assert row["differs"] and row["repeated"] == 0


@pytest.mark.long
def test_of_noise_it_is_wrong_in_at_most_5_percent():
    """Two methods, ten seeds, differences of either sign: 400 repetitions, after Holm."""
    random = np.random.default_rng(0)
    wrong = 0
    for _ in range(400):
        before, after = [], []
        for method in ("a", "b"):
            scores = random.uniform(0.5, 0.9, 10)
            before += summary(scores, method)
            after += summary(scores + 0.01 * random.standard_t(3, 10), method)
        wrong += any(row["differs"] for row in repetition(before, after, "final"))
    assert wrong <= 400 * 0.05 + 2 * (400 * 0.05 * 0.95) ** 0.5
