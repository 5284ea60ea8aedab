"""The table of worst cases has the worst attack of every method, and is only about attacks."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from fedsim.report.context import context_of
from fedsim.report.figures import figures_of_attacks
from fedsim.study.conclusions import conclusions
from fedsim.study.exchange import worst_apart
from fedsim.study.statistics import interval
from fedsim.study.worst_case import by_attack, split_attack, worst_cases

SCORES = {  # by attack and method, for alpha 1; one less for alpha 0.1
    "[]": {"a": 0.9, "b": 0.9, "c": 0.1},
    "[{kind: sign_flip, scale: 5}]": {"a": 0.2, "b": 0.7, "c": 0.5},
    "[gaussian]": {"a": 0.8, "b": 0.6, "c": 0.7},
}


def summary(seeds=8):
    rng, rows = np.random.default_rng(0), []
    for (alpha, less), (wire, scores) in product(((1, 0.0), (0.1, 0.05)), SCORES.items()):
        variant = f"wire={wire}, data.partition.alpha={alpha}"
        axes = {"variant": variant, "wire": wire, "data.partition.alpha": str(alpha)}
        for (method, score), seed in product(scores.items(), range(seeds)):
            value = score - less + 0.001 * rng.standard_normal()
            row = {"method": method, **axes, "seed": seed, "metric": "test_accuracy"}
            rows.append({**row, "final": value, "diverged": 0})
    return rows


def test_the_worst_attack_has_the_lowest_mean_and_no_attack_does_not_count():
    rows = summary()
    table = pd.DataFrame(worst_cases(rows, "final"))
    first, second = (f"data.partition.alpha={alpha}" for alpha in (1, 0.1))
    assert table["variant"].tolist() == [first] * 3 + [second] * 3
    assert table["method"].tolist() == ["b", "c", "a"] * 2
    assert set(table["attacks"]) == {2}
    assert set(table["best"]) == {"b"}
    flipped, noise = "wire=[{kind: sign_flip, scale: 5}]", "wire=[gaussian]"
    assert table["attack"].tolist()[:3] == [noise, flipped, flipped]

    scores = pd.DataFrame(rows).groupby(["method", "variant"])["final"].apply(np.array)
    best = scores["b", f"{noise}, {first}"]
    of_best = table.iloc[0]
    ends = of_best["mean"], of_best["ci_low"], of_best["ci_high"]
    assert ends == pytest.approx((best.mean(), *interval(best)), rel=1e-12)
    assert of_best["sd"] == pytest.approx(best.std(ddof=1))
    assert all((best > scores[method, f"{flipped}, {first}"]).all() for method in "ca")
    pairs = 2 * 3  # of methods, under two variations
    assert table["p_adjusted"].tolist()[1:3] == [pairs * 2 / 2**8] * 2
    assert np.isnan(of_best["p_adjusted"])


def test_runs_that_diverged_count_as_the_worst_and_are_tested_by_their_rank():
    rows = summary(seeds=2)
    rows[-1] |= {"diverged": 1}  # c under noise, one of two seeds
    last = {row["method"]: row for row in worst_cases(rows, "final")[3:]}
    assert last["c"]["attack"] == "wire=[gaussian]" and last["c"]["mean"] < 0.4

    one = np.array([[1.0, 2.0], [1.0, 2.0]])
    lost = np.full((2, 2), -np.inf)
    assert worst_apart(one, lost) == worst_apart(lost, one) == 0.5
    assert worst_apart(lost, lost) == 1.0


def test_without_varied_attacks_there_is_no_table():
    """Codecs on the wire are no attacks."""
    rows = [row for row in summary() if row["wire"] != "[gaussian]"]
    assert by_attack(rows) == {}
    assert worst_cases(rows, "final") == []
    assert figures_of_attacks(rows, context_of({}, rows)) == []
    assert split_attack("") == ("", "")
    assert split_attack("fleet.malicious=0.2") == ("fleet.malicious=0.2", "")
    assert split_attack("wire=[cast, sign_flip]") == ("", "wire=[cast, sign_flip]")
    assert split_attack("wire[0].k=5") == ("wire[0].k=5", "")
    assert conclusions(rows, [], "a", "final", ["wire"])["worst"] == []
    of_codecs = [row | {"variant": "wire=[cast]"} for row in summary() if row["wire"] == "[]"]
    assert worst_cases([*rows, *of_codecs], "final") == []
