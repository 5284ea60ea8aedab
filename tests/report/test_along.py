"""Scores along the only numeric axis that varies, on the page."""

import re

import pytest
from conftest import if_all_installed

from fedsim.report.context import context_of
from fedsim.report.page.along import along

PATH = "privacy.epsilon"


def rows(values, variant="{}={}"):
    """Rows of compare.csv of two methods; b is worse by a tenth everywhere."""
    made = []
    for number, value in enumerate(values):
        for method, less in (("a", 0.0), ("b", 0.1)):
            row = {"method": method, "variant": variant.format(PATH, value), PATH: value}
            mean = 0.5 + 0.1 * number - less
            made.append({**row, "metric": "test_accuracy", "mean": mean, "sd": 0.02, "seeds": 5})
    return made


def shown(values, **vary):
    scenario = {"name": "front", "compare": {"vary": {PATH: list(values), **vary}}}
    runs = [{"method": name, "metric": "test_accuracy", "final": 0.5} for name in "ab"]
    return along(rows(values), context_of(scenario, runs, "final", ["a", "b"]))


@if_all_installed
def test_every_method_has_a_curve_with_a_dot_at_every_value():
    found = shown([0.5, 2, 4])
    ((title, picture),) = found.pictures
    assert (found.metric, found.axis, title) == ("test accuracy", "ε", "")
    assert [name for name, _ in found.names] == ["a", "b"]
    assert picture.count("<circle") == 6 and picture.count('class="line"') == 2
    assert "<title>a: 0.7 at 4</title>" in picture and "logarithmic" not in picture

    # Further right is larger, and further up is better.
    dots = re.findall(r'<title>a: .*?</title><circle cx="([0-9.]+)" cy="([0-9.]+)"', picture)
    across = [float(x) for x, _ in dots]
    down = [float(y) for _, y in dots]
    assert across == sorted(across) and down == sorted(down, reverse=True)


def test_values_that_grow_by_factors_are_on_a_logarithmic_axis():
    ((_, picture),) = shown([0.5, 4, 32]).pictures
    assert "ε, logarithmic" in picture
    dots = re.findall(r'<title>a: .*?</title><circle cx="([0-9.]+)"', picture)
    first, second, third = map(float, dots)
    assert second - first == pytest.approx(third - second, abs=0.2)


@pytest.mark.parametrize(
    ("values", "vary"),
    [([0.5, 2], {}), ([0.5, 2, 4], {"client.lr": [1, 2, 3]})],
    ids=["two values", "two axes"],
)
def test_there_is_none_without_an_axis(values, vary):
    assert shown(values, **vary) is None
