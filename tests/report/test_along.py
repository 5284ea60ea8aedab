"""Scores along the only numeric axis that varies, on the page."""

import json
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


def ways_in(picture):
    """The numbers of the path of method a: from the left, and from the top."""
    drawn = re.search(r'class="series s0" data-name="a"><path d="M(.*?)"', picture)[1]
    return [float(way) for way in re.findall(r"-?[\d.]+", drawn)]


@if_all_installed
def test_every_method_has_a_curve_with_numbers_at_every_value():
    found = shown([0.5, 2, 4])
    (picture,) = found.pictures
    assert (found.metric, found.axis) == ("test accuracy", "ε")
    assert [name for name, _ in found.names] == ["a", "b"]
    assert 'class="series band s0" data-name="a"' in picture and "logarithmic" not in picture

    numbers = json.loads(re.search(r"data-numbers='(.*?)'", picture)[1])
    assert numbers["axes"][0]["axis"] == [0.5, 2, 4]
    assert numbers["curves"][0]["y"] == pytest.approx([0.5, 0.6, 0.7])
    # Further right is larger, and further up is better.
    _, _, right, down, more_right, more_down = ways_in(picture)
    assert right > 0 and more_right > 0 and down < 0 and more_down < 0


def test_values_that_grow_by_factors_are_on_a_logarithmic_axis():
    (picture,) = shown([0.5, 4, 32]).pictures
    _, _, right, _, more_right, _ = ways_in(picture)
    assert ", logarithmic<" in picture and right == pytest.approx(more_right, abs=0.2)


def test_there_is_none_without_three_values_or_with_two_axes():
    assert shown([0.5, 2]) is None
    assert shown([0.5, 2, 4], **{"client.lr": [1, 2, 3]}) is None
