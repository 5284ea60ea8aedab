"""A choice at the edge of its grid or range is remarked on, and noise seldom is."""

import math

import numpy as np
import pytest

from fedsim.scenario.ranges import Range
from fedsim.study.edges import edge_lines, ranges_in
from fedsim.study.findings import findings_of
from fedsim.study.verdict import verdict


def row(means, chosen, method="m", **columns):
    """Rows of `tuning.csv`: values of a path with their validation means."""
    (path, values), *_ = columns.items()
    rows = [
        {"method": method, path: v, "validation_mean": m, "chosen": 0}
        for v, m in zip(values, means, strict=True)
    ]
    rows[chosen]["chosen"] = 1
    return rows


def test_a_choice_at_the_edge_of_its_grid_is_remarked_on():
    falling = row([0.9, 0.8, 0.7], 0, mu=[0.01, 0.1, 1])
    rising = row([0.7, 0.8, 0.9], 2, mu=[0.01, 0.1, 1])
    tables = {"compare": [], "summary": [], "tuning": falling}
    about = verdict(findings_of(tables, "m", scenario={}), ["mu"])
    assert about.edges == about.lines[1:] == edge_lines(falling, ["mu"], {})
    (line,) = about.edges
    assert line == (
        "m is best with the smallest μ (mu) tried, 0.01 of 0.01, 0.1, 1: try smaller values, too."
    )
    (line,) = edge_lines(rising, ["mu"], {})
    assert "the largest μ (mu)" in line and "try larger values" in line
    others = [{**r, "method": "n"} for r in falling]
    (line,) = edge_lines([*falling, *others], ["mu"], {})
    assert line.startswith("m and n are best with the smallest μ (mu) tried, 0.01 of")
    (line,) = edge_lines([{**r, "variant": "x=1"} for r in rising], ["mu"], {})
    assert line.startswith("With x 1: m is best")


@pytest.mark.parametrize(
    "rows",
    [
        row([0.8, 0.9, 0.7], 1, mu=[0.01, 0.1, 1]),
        row([0.8, 0.9], 1, mu=[0.01, 0.1]),  # two values: every choice is an edge
        row([0.9, 0.8, 0.7], 0, mu=[0, 0.1, 1]),  # nothing lies below 0
        row([0.9, 0.9, 0.7], 0, mu=[0.01, 0.1, 1]),  # no better than one that is no edge
        row([0.9, 0.8, 0.7], 0, mu=["a", "b", "c"]),
        row([0.9, 0.8, 0.7], 0, mu=[True, False, True]),
        row([None, None, None], 0, mu=[0.01, 0.1, 1]),
    ],
)
def test_a_choice_inside_its_grid_gets_no_remark(rows):
    assert edge_lines(rows, ["mu", "another"], {}) == []


def drawn_rows(values, best, method="m"):
    """Rows of `tuning.csv` of drawn settings, and how many seeds have each as their best."""
    return [
        {"method": method, "mu": float(v), "best_seeds": int(b), "validation_mean": 0.5}
        for v, b in zip(values, best, strict=True)
    ]


def test_a_best_setting_in_an_outer_tenth_of_its_range_in_most_seeds_is_named():
    """On the range's own scale; of drawn settings, the largest alone is no remark."""
    compare = {
        "methods": ["fedavg", {"method": "fedprox(mu=log(1e-3, 1))", "label": "m"}],
        "tune": {"client.lr": [0.1, 0.3]},
        "budget": 4,
    }
    ranges = ranges_in({"compare": compare})
    assert ranges == {("m", "method.mu"): Range("log", 0.001, 1.0)}
    ranges = {("m", "mu"): Range("log", 0.001, 1.0)}
    values = [0.0019, 0.03, 0.4, 0.6]  # 0.6 is in the upper tenth, of which 0.501 is the end
    (line,) = edge_lines(drawn_rows(values, [0, 1, 1, 8]), ["mu"], ranges)
    assert line.startswith("In 8 of 10 seeds, the best μ (mu) of m")
    assert "in the upper tenth of its range, log(0.001, 1), of 4 settings tried" in line
    (line,) = edge_lines(drawn_rows(values, [9, 1, 0, 0]), ["mu"], ranges)
    assert "In 9 of 10 seeds" in line and "lower tenth" in line
    for best in ([0, 0, 10, 0], [1, 1, 1, 7], [0, 0, 0, 4]):
        assert edge_lines(drawn_rows(values, best), ["mu"], ranges) == []
    rows = [{**row, "chosen": False} for row in drawn_rows(values, [1] * 4)]
    rows[-1] |= {"chosen": True, "validation_mean": 0.6}
    assert len(edge_lines(rows, ["mu"], {})) == 1
    assert edge_lines(rows, ["mu"], ranges) == []


def test_pure_noise_seldom_has_its_best_settings_in_an_outer_tenth():
    """Four uniform draws and ten seeds: at one of two ends, by the binomial law, 0.93 %."""
    expected = 0.0
    for within in range(1, 4):
        rest = 4 - within
        chance = math.comb(4, within) * 0.1**within * 0.9**rest
        for seeds in (8, 9, 10):
            of_best = math.comb(10, seeds) * (within / 4) ** seeds * (rest / 4) ** (10 - seeds)
            expected += 2 * chance * of_best
    assert expected == pytest.approx(0.0093, abs=1e-4)

    rng = np.random.default_rng(0)
    repeats = 4000
    ranges = {("m", "mu"): Range("uniform", 0.0, 1.0)}
    lines = 0
    for _ in range(repeats):
        best = rng.multinomial(10, [0.25] * 4)
        lines += len(edge_lines(drawn_rows(rng.uniform(size=4), best), [], ranges))
    assert abs(lines / repeats - expected) < 4 * math.sqrt(expected / repeats)
