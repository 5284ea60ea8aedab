"""What an axis costs against a baseline that it does not touch, in a sentence."""

import pytest

from fedsim.report.context import context_of
from fedsim.report.page.price import price

PATH = "fleet.malicious"


def sentence(means, base=(0.95, 0.95), p=0.01, metric="test_accuracy"):
    """The sentence about means of two methods at 0 and at 0.2, beside those of the baseline."""
    rows = []
    for number, value in enumerate((0, 0.2)):
        of_value = {"base": base[number], **{name: means[name][number] for name in means}}
        for method, mean in of_value.items():
            row = {"method": method, PATH: value, "variant": f"{PATH}={value}", "mean": mean}
            rows.append({**row, "p_adjusted": None if method == "base" else p})
    scenario = {"name": "front", "compare": {"vary": {PATH: [0, 0.2]}}}
    runs = [{"method": name, "metric": metric, "final": 0.5} for name in ("base", *means)]
    return price(rows, "base", context_of(scenario, runs, "final", ["base", *means]))


def test_the_best_method_at_both_ends_is_what_it_costs():
    said = sentence({"a": (0.93, 0.70), "b": (0.90, 0.83)})
    assert said == "0 % malicious costs 2.0 points of test accuracy, 20 % malicious costs 12.0."
    said = sentence({"a": (0.70, 0.93)})
    assert said == "20 % malicious costs 2.0 points of test accuracy, 0 % malicious costs 25.0."
    said = sentence({"a": (1.2, 1.5)}, metric="test_loss")
    assert said == "0 % malicious costs 0.25 of test loss, 20 % malicious costs 0.55."


@pytest.mark.parametrize(
    ("means", "more"),
    [
        pytest.param({"a": (0.93, 0.70)}, {"base": (0.95, 0.94)}, id="the axis moves the baseline"),
        pytest.param({"a": (0.93, 0.70)}, {"p": 0.2}, id="no clear difference"),
        pytest.param({"a": (0.93, 0.70)}, {"p": None}, id="not tested"),
        pytest.param({"a": (0.96, 0.70)}, {}, id="a gain at one end"),
        pytest.param({}, {}, id="the baseline alone"),
    ],
)
def test_nothing_is_said_where_it_is_no_cost(means, more):
    assert sentence(means, **more) == ""
