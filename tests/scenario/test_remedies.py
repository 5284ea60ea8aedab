"""What wrong words and values of a scenario are answered with."""

import numpy as np
import pytest
from conftest import if_all_installed

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.explain import explanations, lines_of
from fedsim.scenario.guide import guide_to_rules

SCENARIO = {"name": "s", "rounds": 2, "data": {"kind": "digits", "clients": 4}}


def mine():
    """A function that is not decorated."""


def test_numbers_of_numpy_are_numbers():
    scenario = read({**SCENARIO, "rounds": np.int64(3), "client": {"lr": np.float32(0.25)}})
    assert scenario.spec.rounds == 3 and scenario.spec.client.lr == 0.25
    assert scenario.resolved()["client"]["lr"] == 0.25


@pytest.mark.parametrize(
    ("sections", "answer"),
    [
        ({"client": {"lr": object()}}, "is of type object; write a number, a text, a list or a"),
        ({"method": mine}, "method: is the function mine; decorate it, and write 'mine'"),
        ({"server": (mine, "mean")}, "server[0]: is the function mine; decorate it"),
    ],
)
def test_a_value_that_no_file_could_hold(sections, answer):
    with pytest.raises(ScenarioError) as refused:
        read({**SCENARIO, **sections})
    assert answer in str(refused.value)


@if_all_installed
def test_a_parameter_of_many_kinds_is_a_line_for_each():
    (scale,) = explanations("scale")
    assert {"codec/sign", "codec/rand_k", "client/knn_per"} <= set(scale["entries"])
    for name in ("scale", "f"):
        (parameter,) = (e for e in explanations(name) if e["family"] == "parameter")
        lines = [line for _, line in lines_of(parameter)]
        assert len(lines) == 3 + len(parameter["entries"])  # its name, a blank line, a sentence


def test_advice_on_rules_names_every_rule_with_what_it_resists():
    entries = guide_to_rules()["entries"]
    assert entries["krum"].startswith("resists ") and "is given f" in entries["krum"]
    assert len(entries) > 40 and "fedprox" not in entries
