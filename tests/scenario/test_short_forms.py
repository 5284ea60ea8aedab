"""Short forms of a scenario: calls for mappings, and the client of most papers."""

import re

import pytest
from test_guesses import written

from fedsim.assemble.stack_inputs import checked_links
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.load import edited
from fedsim.scenario.reader import parse


def test_calls_may_replace_mappings_and_set_changes_their_arguments():
    (link,) = checked_links("aggregate", "server", "server", "krum(f=2)")
    assert (link.kind, link.f) == ("krum", 2)
    data = "digits(partition=dirichlet(alpha=0.2, min_samples=3))"
    scenario = read({"name": "x", "data": data, "server": ["krum(f=1)", "adam(lr=1)"]})
    partition = {"kind": "dirichlet", "alpha": 0.2, "min_samples": 3, "bins": None}
    assert scenario.resolved()["data"]["partition"] == partition
    changed = edited(scenario.document, "server[0].f=2")
    assert changed.values["server"][0] == {"kind": "krum", "f": 2}
    # What only looks like a call stays text.
    values = {"name": "x", "data": {"kind": "csv", "path": "a (1).csv", "target": "price (USD)"}}
    assert read(values).resolved()["data"]["target"] == "price (USD)"


SHORT = {"momentum": 0.9, "nesterov": True, "weight_decay": 1e-4}
LONG = {"optimizer": {"kind": "sgd", **SHORT}}
NOTHING = {"momentum": None, "nesterov": False, "weight_decay": 0.0}


@pytest.mark.parametrize("client", [{}, {"kind": "fedprox", "mu": 0.1}], ids=str)
def test_the_short_form_is_resolved_into_the_long_one(client):
    scenarios = {"name": "x", "data": "digits"}
    forms = (SHORT, LONG, {}, NOTHING)
    short, long, plain, zero = (read({**scenarios, "client": {**client, **f}}) for f in forms)
    assert short.resolved() == long.resolved() and short.hash() == long.hash()
    assert read(short.resolved()).resolved() == long.resolved()
    assert plain.hash() == zero.hash()  # the same program


def test_a_method_keeps_the_short_form_of_the_file():
    document = parse(written("client: {lr: 0.5, momentum: 0.9}"), "s.yaml")
    client = read(document, method="fedprox(mu=0.1)").resolved()["client"]
    assert (client["kind"], client["optimizer"]["momentum"]) == ("fedprox", 0.9)


@pytest.mark.parametrize("form", ["{momentum: 0.1}", "{optimizer: {kind: sgd}}", "{}"])
def test_set_changes_either_form(form):
    document = parse(written(f"client: {form}"), "s.yaml")
    for edit in ("client.momentum=0.5", "client.momentum=0.3"):
        scenario = read(document, (edit,))
        document = scenario.document
        assert scenario.resolved()["client"]["optimizer"]["momentum"] == float(edit[-3:])


def test_short_and_long_form_together_are_refused_with_both_lines():
    text = written("client:\n  optimizer: {kind: sgd}\n  momentum: 0.9\n  nesterov: true")
    with pytest.raises(ScenarioError) as error:
        read(parse(text, "s.yaml"))
    first, second = str(error.value).splitlines()
    assert re.match(r"s.yaml:7:3: client.momentum: is short for .*of line 6; keep one", first)
    assert second.startswith("s.yaml:8:3: client.nesterov: is short for")
    with pytest.raises(ScenarioError, match=r"client\.momentum: is short for .* keep one of them"):
        read(parse(written("client: {momentum: 0.9}"), "s.yaml"), ("client.optimizer=adam",))
