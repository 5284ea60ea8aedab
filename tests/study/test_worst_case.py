"""Methods under the worst of several attacks: table, sentences, page and figure, by hand."""

from functools import partial
from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from test_page_content import comparison, page_text

from fedsim.report.context import context_of
from fedsim.report.figures import figures_of_attacks
from fedsim.study.attack_findings import worst_case_findings
from fedsim.study.conclusions import conclusions
from fedsim.study.exchange import beyond, exchanged, worst_apart
from fedsim.study.findings import findings_of
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


def found_in(rows):
    worst = worst_cases(rows, "final")
    tables = {"compare": [], "summary": rows, "worst": worst}
    (found,) = worst_case_findings(findings_of(tables, "a"))
    return found


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


def test_the_best_method_under_its_worst_attack_is_named():
    """Under the variation that is asked about, which is the last one."""
    found = found_in(summary())
    assert found.text == "Under the worst of 2 attacks, b beats both others"
    assert found.where == "α = 0.1"
    assert found.numbers.startswith("test accuracy 0.550 with b (gaussian")
    assert found.numbers.endswith("; p < 0.05 after Holm")
    assert {(claim.who, claim.whom) for claim in found.claims} == {("b", "a"), ("b", "c")}


def test_without_significance_nobody_is_named():
    """12 / 2**7 is too much, whatever the scores are."""
    found = found_in(summary(seeds=7))
    few = "7 seeds are too few, 8 would do"
    assert found.text == f"No clear difference under 2 attacks: {few}" and not found.claims


def test_the_exchange_test_finds_the_worst_attacks_again():
    """Against loops over the definition; under one attack, it is SciPy's paired test."""
    rng = np.random.default_rng(3)
    one, other = rng.normal(0.3, 1, (2, 5, 3))
    gap = lambda a, b: abs(a.mean(0).min() - b.mean(0).min())
    observed = gap(one, other)
    hits = 0
    for signs in product((False, True), repeat=5):
        swapped = np.array(signs)[:, None]
        apart = gap(np.where(swapped, other, one), np.where(swapped, one, other))
        hits += apart >= observed - 1e-12
    assert exchanged(one, other) == exchanged(other, one) == hits / 2**5

    one, other = rng.normal(0.3, 1, (2, 7, 1))
    d = (one - other)[:, 0]
    flipped = partial(stats.permutation_test, (d,), np.mean, permutation_type="samples")
    assert exchanged(one, other) == flipped().pvalue
    assert beyond(one, other) == flipped(alternative="greater").pvalue


def test_runs_that_diverged_count_as_the_worst_and_are_tested_by_their_rank():
    rows = summary(seeds=2)
    rows[-1] |= {"diverged": 1}  # c under noise, one of two seeds
    last = {row["method"]: row for row in worst_cases(rows, "final")[3:]}
    assert last["c"]["attack"] == "wire=[gaussian]" and last["c"]["mean"] < 0.4

    one = np.array([[1.0, 2.0], [1.0, 2.0]])
    lost = np.full((2, 2), -np.inf)
    assert worst_apart(one, lost) == worst_apart(lost, one) == 0.5
    assert worst_apart(lost, lost) == 1.0


@pytest.mark.long
@pytest.mark.parametrize("fares", [[0] * 5, [0, *[0.4] * 4]], ids=["alike", "unlike"])
def test_choosing_the_worst_attack_keeps_the_level_of_the_test(fares):
    """The worst attacks of both are equally bad, as are all attacks on the second."""
    rng = np.random.default_rng(5)
    p = [
        worst_apart(rng.normal(fares, 0.01, (8, 5)), rng.normal(0, 0.01, (8, 5)))
        for _ in range(300)
    ]
    assert np.mean(np.array(p) < 0.05) <= 0.06


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


def test_the_figure_has_a_number_for_every_pair():
    first, second = figures_of_attacks(
        summary(), context_of({"name": "grid"}, summary(), order=["c", "a", "b"])
    )
    (axes,) = first.axes
    assert [text.get_text() for text in axes.get_yticklabels()] == ["c", "a", "b"]
    assert [text.get_text() for text in axes.get_xticklabels()] == ["sign flip scale 5", "gaussian"]
    assert [text.get_text() for text in axes.texts][:2] == ["0.501", "0.7"]
    assert len(axes.texts) == 6
    assert len(second.axes) == 1


def test_the_page_shows_every_method_under_every_attack():
    rows = summary(seeds=2)
    found = {**conclusions(rows, [], "a", "final", ["wire"]), "summary": rows}
    frames = {name: pd.DataFrame(table) for name, table in found.items()}
    text = page_text(comparison(baseline="a"), frames)
    assert "Every method under every attack" in text
    assert text.count(' worst">') == 3 * 2  # methods and other variations
