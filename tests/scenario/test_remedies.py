"""What wrong words and values of a scenario are answered with."""

import numpy as np
import pytest
from conftest import if_all_installed

from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.explain import explanations, lines_of
from fedsim.scenario.guide import guide_to_rules
from fedsim.scenario.plugins import enable

SCENARIO = {
    "name": "s",
    "rounds": 2,
    "data": {"kind": "digits", "clients": 4},
    "model": "logistic",
}


def mine():
    """A function that is not decorated."""


def refusal(**sections) -> str:
    with pytest.raises(ScenarioError) as refused:
        read({**SCENARIO, **sections})
    return str(refused.value)


def test_numbers_of_numpy_are_numbers():
    scenario = read({**SCENARIO, "rounds": np.int64(3), "client": {"lr": np.float32(0.25)}})
    assert scenario.spec.rounds == 3 and scenario.spec.client.lr == 0.25
    assert scenario.resolved()["client"]["lr"] == 0.25


WRONG_VALUES = {
    "is of type object; write a number, a text, a list or a mapping": {"client": {"lr": object()}},
    "method: is the function mine; decorate it, and write 'mine'": {"method": mine},
    "server[0]: is the function mine; decorate it": {"server": (mine, "mean")},
    "should be a method, NAME or NAME(a=1) (fedsim list methods), found 3": {"method": 3},
    "no method or rule 'fedproxx'; did you mean 'fedprox'?": {"method": "fedproxx"},
    "client: should be a client, {kind: NAME, ...} or NAME alone": {
        "client": ["sgd"],
        "method": "fedprox",
    },
    "the learning rate is client.lr: 0.3": {"server": ["0.3"]},
    "write uniform(size=10) (a number of clients, not a share)": {"cohort": "10"},
    "did you mean 'uniform'?": {"cohort": "uniform_k"},
    "that is a rule, which belongs in server": {"cohort": "krum"},
    "did you mean 'adam'?": {"server": ["torch.optim.Adam"]},
    "fedsim list cohorts names all": {"cohort": "torch.x"},
}


@pytest.mark.parametrize("answer", WRONG_VALUES)
def test_a_wrong_value(answer):
    assert answer in refusal(**WRONG_VALUES[answer])


WORDS = {
    "fed prox": "did you mean 'fedprox'?",
    "Krum": "did you mean 'krum'?",
    "learning_rate": "write client.lr",
    "dropout_rate": "write fleet.dropout (a probability that a client drops out",
    "attack_ratio": "with fleet.malicious for who is malicious",
    "latex": "write fedsim export DIRECTORY --format latex",
    "attack_ratio_of": "names with a word of it: attack, ",
}


@if_all_installed
@pytest.mark.parametrize("word", WORDS)
def test_a_word_that_is_not_explained(word):
    with pytest.raises(ScenarioError) as refused:
        explanations(word)
    answer = str(refused.value)
    assert f"nothing is called '{word}'; " in answer and WORDS[word] in answer


def test_a_word_that_nothing_is_like_is_told_where_to_look():
    with pytest.raises(ScenarioError, match="'zzqq', and nothing is like it; fedsim list has all"):
        explanations("zzqq")


@if_all_installed
def test_a_parameter_of_many_kinds_is_a_line_for_each():
    (scale,) = explanations("scale")
    assert {"codec/sign", "codec/rand_k", "client/knn_per"} <= set(scale["entries"])
    for name in ("scale", "eps", "alpha", "f", "iterations"):
        (parameter,) = (e for e in explanations(name) if e["family"] == "parameter")
        lines = [line for _, line in lines_of(parameter)]
        assert len(lines) == 3 + len(parameter["entries"])  # its name, a blank line, a sentence


def test_advice_on_rules_names_every_rule_with_what_it_resists():
    entries = guide_to_rules()["entries"]
    assert entries["krum"].startswith("resists ") and "is given f" in entries["krum"]
    assert len(entries) > 40 and "fedprox" not in entries


@pytest.mark.parametrize(
    ("plugin", "answer"),
    [
        ("nosuch", "no plug-in of that name is installed; the name of a file ends in .py"),
        ("a/none.py", "there is no such file"),
    ],
)
def test_a_plugin_that_is_not_there(plugin, answer):
    with pytest.raises(ScenarioError, match=answer):
        enable(plugin)
