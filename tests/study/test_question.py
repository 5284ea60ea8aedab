"""The headline is about the variation that `compare.question` names, or about the last one."""

import itertools

import pytest
from compared import BASE, BETTER, LEVEL, rows_of
from test_verdict import lines_of, verdict_of

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.study.grid import design_of

VARIED = {"fleet.malicious": [0, 0.2], "client.lr": [0.1, 1]}


def of_variations(scores):
    """Rows by variation, and the scenario in which they vary."""
    rows = []
    for malicious, lr in itertools.product(*VARIED.values()):
        variant = f"fleet.malicious={malicious}, client.lr={lr}"
        rows += rows_of(scores(malicious, lr), variant=variant)
    return rows


@pytest.mark.parametrize(
    ("question", "headline"),
    [
        ({}, "With 20 % malicious, client learning rate 1, m beats base: test accuracy 0.617."),
        ({"fleet.malicious": 0}, "With 0 % malicious, client learning rate 1, no clear difference"),
    ],
)
def test_the_headline_is_about_what_is_asked(question, headline):
    """It is the last value of every axis, unless the scenario asks for another one."""
    rows = of_variations(lambda share, lr: {"base": BASE, "m": BETTER if share and lr else LEVEL})
    scenario = {"compare": {"vary": VARIED, "question": question}}
    about = verdict_of(rows, scenario=scenario)
    assert about.lines[0].startswith(headline)
    where = "fleet.malicious=0.2, client.lr="
    assert {claim.where for claim in about.claims} == {f"{where}0.1", f"{where}1"}


def test_a_long_name_of_what_is_asked_is_in_the_statistics():
    rows = rows_of({"base": BASE, "m": BETTER}, variant="some words of no path at all, and more")
    headline, statistics = lines_of(rows)[:2]
    assert headline == "m beats base: test accuracy 0.617."
    assert statistics.endswith("; with some words of no path at all, and more.")


def test_a_question_is_about_a_value_that_varies():
    compare = {"methods": ["fedavg", "median"], "vary": {"client.lr": [0.1, 1]}}
    written = {"name": "asked", "data": "digits"}
    compare["question"] = {"client.lr": 0.1}
    scenario = read({**written, "compare": compare})
    assert design_of(scenario).scenario.resolved()["compare"]["question"] == {"client.lr": 0.1}
    compare["question"] = {"client.lr": 0.2}
    with pytest.raises(ScenarioError, match=r"lr=0\.2 does not vary; client\.lr has 0\.1, 1"):
        design_of(read({**written, "compare": compare}))
    del compare["question"]
    assert "question" not in design_of(read({**written, "compare": compare})).scenario.resolved()
