"""Reading: what is accepted, what is refused, and where the error points."""

import re

import numpy as np
import pytest

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import DataError, ScenarioError
from fedsim.scenario import read
from fedsim.scenario.reader import parse

MINIMAL = {"name": "x", "data": "digits"}


def test_setting_a_key_of_a_number_says_how_to_replace_it():
    said = "found 0.2 .*--set 'fleet.malicious={count: 0.3}' replaces"
    with pytest.raises(ScenarioError, match=said):
        read({"name": "s", "fleet": {"malicious": 0.2}}, ("fleet.malicious.count=0.3",))


def error_lines(text: str, *edits: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        read(parse(text, "s.yaml"), edits)
    return str(error.value).splitlines()


def test_only_name_and_data_are_required_and_defaults_are_filled_in():
    full = read(MINIMAL).resolved()
    assert full["rounds"] == 100 and full["seeds"] == [0] and full["data"]["clients"] == 100
    client = {"kind": "sgd", "lr": 0.1, "batch": 16, "steps": None, "epochs": 1, "shuffle": True}
    optimizer = {"kind": "sgd", "momentum": None, "nesterov": False, "weight_decay": 0.0}
    assert client.items() <= full["client"].items() and full["client"]["optimizer"] == optimizer
    assert full["server"] == [{"kind": "mean", "weights": "samples", "denominator": "actual"}]
    assert list(full["data"]["partition"]) == ["kind"]
    name, data = error_lines("rounds: 3\n")
    assert name.startswith("s.yaml:1:1: name: is missing; write name: with 1 to 64 letters")
    assert data.startswith("s.yaml:1:1: data: is missing; write data: with a dataset")


def test_resolved_reads_back_as_itself():
    scenario = read(MINIMAL, ("server=[mean, {kind: adam, lr: 1e-2}]", "seeds=3"))
    again = read(scenario.resolved())
    assert again.resolved() == scenario.resolved() and again.hash() == scenario.hash()
    assert scenario.resolved()["seeds"] == [0, 1, 2]


@pytest.mark.parametrize(
    ("edit", "path", "value"),
    [
        ("rounds=7", ["rounds"], 7),
        ("data.partition.kind=dirichlet", ["data", "partition", "kind"], "dirichlet"),
        ("server.0.weights=uniform", ["server", 0, "weights"], "uniform"),
        ("server[1]={kind: sgd, lr: 2}", ["server", 1, "lr"], 2.0),
        ("client.steps=[1, 2]", ["client", "steps"], [1, 2]),
        ("client.steps=3", ["client", "epochs"], None),
        ("client.lr=1e-3", ["client", "lr"], 0.001),
    ],
)
def test_set_changes_the_value_at_a_path(edit, path, value):
    written = {"name": "x", "data": {"kind": "digits", "partition": {"kind": "iid"}}}
    written |= {"server": [{"kind": "mean"}], "client": {"epochs": 2}}
    got = read(written, (edit,)).resolved()
    for part in path:
        got = got[part]
    assert got == value


def built(text: str, **given) -> list[str]:
    """The lines of the error when a scenario is built."""
    scenario = read(parse(text, "s.yaml"))
    with pytest.raises(ScenarioError) as error, numerics(scenario) as devices:
        build(scenario, devices=devices[:1], **given)
    return str(error.value).splitlines()


@pytest.mark.parametrize(
    ("text", "places"),
    [
        # what a link refuses, whatever the samples are like
        (
            "name: x\ndata: {kind: csv, path: nowhere.csv}\nclient:\n"
            "  lr: {kind: cosine_decay_schedule, init_value: 1, decay_steps: 0}\n",
            ["2:25 data.path", "4:7 client.lr"],
        ),
        # a method that needs classes, a model that needs images, a rule that needs another method,
        # two links that need too many rows
        (
            "name: x\ndata: {kind: linear_regression, clients: 50}\n"
            "cohort: {kind: uniform, size: 6}\nmodel: cnn\n"
            "client: fedlc\nserver: [{kind: mix_neighbours, f: 9}, {kind: dyn}]\n",
            ["4:8 model", "5:9 client.kind", "6:36 server[0].f", "6:40 server[1]"],
        ),
        # all that depends on clients and cohort, in the order of the file
        (
            "name: x\ndata: {kind: digits, clients: 50, server: {samples: 10}}\n"
            "fleet: {malicious: [3, 77, 50]}\ncohort: {kind: uniform, size: 60}\n"
            "client: {kind: fedsgd, optimizer_state: carry}\nserver: [{kind: krum, f: 40}]\n",
            [
                "2:53 data.server.samples",
                "3:24 fleet.malicious[1]",
                "3:28 fleet.malicious[2]",
                "4:31 cohort.size",
                "5:41 client.optimizer_state",
                "6:26 server[0].f",
            ],
        ),
        # too many clients: which of them have samples is not known, what the model makes of them is
        (
            "name: x\ndata: {kind: digits, clients: 5000}\nfleet: {malicious: [4999]}\nmodel:\n"
            "  {kind: cnn, channels: [2, 2, 2, 2]}\n",
            ["2:31 data.clients", "5:3 model"],
        ),
    ],
)
def test_a_problem_does_not_hide_independent_ones(text, places):
    reported = [re.match(r"s\.yaml:(\d+:\d+): ([^:]+): ", line).groups() for line in built(text)]
    assert [" ".join(place) for place in reported] == places


def test_unusable_samples_are_reported_among_other_problems():
    nothing = fedsim.Arrays(np.full((4, 2), np.nan), np.array([0, 1, 0, 1]))
    scenario = "name: x\ndata: {kind: supplied, clients: 2}\n"
    with pytest.raises(DataError, match=r"^x: row 0 is not finite"):
        fedsim.run({"name": "x"}, data=nothing)
    lines = built(scenario + "client: {kind: fedsgd, optimizer_state: carry}\n", data=nothing)
    assert [line.partition(": ")[0] for line in lines] == ["s.yaml:2:7", "s.yaml:3:41"]
    assert "data: x: row 0 is not finite" in lines[0]
