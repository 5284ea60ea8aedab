"""Repetitions: noise is not called a difference, a shift is, and few seeds decide nothing."""

import numpy as np
import pytest

from fedsim.study.repetition import ROUNDING, repetition
from fedsim.study.statistics import sign_flip


def summary(scores, method="fedavg"):
    row = {"method": method, "metric": "test_accuracy", "diverged": 0}
    return [{**row, "seed": seed, "final": score} for seed, score in enumerate(scores)]


def test_rows_are_the_paired_tests_of_the_seeds_after_holm():
    before = np.linspace(0.6, 0.9, 8)
    shift = np.array([0.01, 0.02, 0.015, 0.01, 0.03, 0.01, 0.02, 0.01])
    noise = shift * np.array([1, -1] * 4)
    recorded = summary(before) + summary(before, "median")
    first, second = repetition(
        recorded, summary(before + shift) + summary(before + noise, "median"), "final"
    )
    assert first["difference"] == pytest.approx(shift.mean())
    assert first["p_value"] == sign_flip(shift) == 2 / 2**8
    assert first["p_adjusted"] == 4 / 2**8
    assert first["differs"] and first["testable"] and not first["same"]
    assert second["p_value"] == second["p_adjusted"] == sign_flip(noise)
    assert second["testable"] and not second["differs"] and not second["same"]


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
