"""What an axis costs against a baseline that it does not touch, as a headline."""

import pytest

from fedsim.study.claims import COSTS
from fedsim.study.findings import findings_of
from fedsim.study.verdict import verdict

PATH = "fleet.malicious"
SEEDS = range(10)


def found(means, base=(0.95, 0.95), p=0.01, metric="test_accuracy"):
    """The verdict on methods with these means at 0 and at 0.2, beside those of the baseline."""
    compared = []
    summary = []
    for number, value in enumerate((0, 0.2)):
        of_value = {"base": base[number], **{name: means[name][number] for name in means}}
        for method, mean in of_value.items():
            who = {"method": method, PATH: value, "variant": f"{PATH}={value}", "metric": metric}
            tests = dict.fromkeys(("difference", "ci_low", "ci_high", "p_adjusted"))
            if method != "base":
                tests |= {"difference": mean - base[number], "p_adjusted": p}
            counts = {"seeds": 10, "diverged": 0, "score": "final", "baseline": "base"}
            compared.append({**who, "mean": mean, **tests, **counts})
            summary += [{**who, "seed": seed, "final": mean, "diverged": 0} for seed in SEEDS]
    scenario = {"name": "front", "compare": {"vary": {PATH: [0, 0.2]}}}
    tables = {"compare": compared, "summary": summary}
    return verdict(findings_of(tables, "base", "final", scenario))


@pytest.mark.parametrize(
    ("means", "more", "headline"),
    [
        (
            {"a": (0.93, 0.70), "b": (0.90, 0.83)},
            {},
            "0 % malicious costs 2.0 points of test accuracy, 20 % malicious costs 12.0.",
        ),
        (
            {"a": (0.70, 0.93)},
            {},
            "20 % malicious costs 2.0 points of test accuracy, 0 % malicious costs 25.0.",
        ),
        (
            {"a": (1.2, 1.5)},
            {"metric": "test_loss"},
            "0 % malicious costs 0.25 of test loss, 20 % malicious costs 0.55.",
        ),
    ],
    ids=["the best method at each end", "the cheaper end first", "no share"],
)
def test_the_headline_says_what_both_ends_cost(means, more, headline):
    found_here = found(means, **more)
    assert found_here.lines[0] == headline
    assert found_here.lines[1].endswith("p ≤ 0.01 after Holm.")
    claims = [claim for claim in found_here.claims if claim.kind == COSTS]
    assert [claim.where for claim in claims] == [f"{PATH}=0", f"{PATH}=0.2"]


@pytest.mark.parametrize(
    ("means", "more"),
    [
        pytest.param({"a": (0.93, 0.70)}, {"base": (0.95, 0.94)}, id="the axis moves the baseline"),
        pytest.param({"a": (0.93, 0.70)}, {"p": 0.2}, id="no clear difference"),
        pytest.param({"a": (0.93, 0.70)}, {"p": None}, id="not tested"),
        pytest.param({"a": (0.96, 0.70)}, {}, id="a gain at one end"),
        pytest.param({"a": (0.93, 0.93)}, {}, id="an axis that no method reads"),
        pytest.param({}, {}, id="the baseline alone"),
    ],
)
def test_nothing_is_said_where_it_is_no_cost(means, more):
    found_here = found(means, **more)
    assert " costs " not in found_here.lines[0]
    assert COSTS not in {claim.kind for claim in found_here.claims}
