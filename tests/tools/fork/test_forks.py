"""Forks: the differences by round are those of the seeds, and noise is not called a difference."""

import numpy as np
import pandas as pd
import pytest

from fedsim.tools.fork.differences import fork_lines, paired_rounds


def rounds(values):
    """Rows of `rounds.csv` of `values[seed][round]`."""
    rows = []
    for seed, of_seed in enumerate(values):
        for round, value in enumerate(of_seed):
            rows.append({"seed": seed, "round": round, "test_accuracy": value})
    return pd.DataFrame(rows)


def summary(name, scores):
    row = {"method": name, "metric": "test_accuracy", "diverged": 0}
    return [{**row, "seed": seed, "final": score} for seed, score in enumerate(scores)]


def line(one, other):
    rows = summary("fork", one) + summary("original", other)
    (text,) = fork_lines(rows, "original", "final")
    return text


def test_a_round_is_the_mean_of_the_differences_and_its_interval():
    before = np.array([[0.1, 0.2, 0.3], [0.1, 0.3, 0.5], [0.1, 0.1, 0.2]])
    after = before + np.array([[0, 0.1, 0.2], [0, 0.3, 0.1], [0, 0.2, np.nan]])
    by_round = paired_rounds(rounds(after), rounds(before), "test_accuracy")
    assert [each.round for each in by_round] == [0, 1]  # in round 2 a seed has no value
    start, first = by_round
    assert (start.difference, start.low, start.high) == (0, 0, 0)
    # three differences 0.1, 0.2, 0.3: mean 0.2, sd 0.1, t(2) = 4.302653
    half = 4.302653 * 0.1 / 3**0.5
    assert first.difference == pytest.approx(0.2)
    assert (first.low, first.high) == pytest.approx((0.2 - half, 0.2 + half), abs=1e-6)


def test_a_sentence_says_what_the_test_at_the_end_supports():
    scores = np.linspace(0.5, 0.8, 8)
    shift = np.linspace(0.1, 0.2, 8)
    assert line(scores - shift, scores).startswith("fork ends worse than original: test accuracy -")
    assert line(scores + shift, scores).startswith("fork ends better than original: ")
    assert line(scores + shift, scores).endswith(" over 8 seeds, p = 0.0078.")
    assert line(scores, scores).endswith("+0 over 8 seeds, p = 1.")
    few = line((scores - shift)[:3], scores[:3])
    assert few.endswith("over 3 seeds, which are too few for a difference to be significant.")
    noise = np.array([1, -1, 1, -1, 1, -1, 1, -1.5]) / 100
    assert "not told apart" in line(scores + noise, scores)


@pytest.mark.long
def test_pages_of_two_forks_that_only_add_noise_are_wrong_in_at_most_5_percent():
    random = np.random.default_rng(1)
    wrong = 0
    for _ in range(500):
        scores = random.uniform(0.5, 0.9, 9)
        rows = summary("original", scores)
        for name in ("a", "b"):
            rows += summary(name, scores + 0.02 * random.standard_t(3, 9))
        texts = fork_lines(rows, "original", "final")
        wrong += any("ends better" in text or "ends worse" in text for text in texts)
    assert wrong <= 500 * 0.05 + 2 * (500 * 0.05 * 0.95) ** 0.5
