"""Reading: what is accepted, what is refused, and where it says the fault is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fedsim
from fedsim.scenario import ScenarioError, read
from fedsim.scenario.reader import parse

MINIMAL = {"name": "x", "data": {"kind": "digits"}}


def told(text: str, *edits: str) -> list[str]:
    with pytest.raises(ScenarioError) as error:
        read(parse(text, "s.yaml"), edits)
    return str(error.value).splitlines()


def test_only_name_and_data_are_required_and_defaults_are_filled_in():
    full = read(MINIMAL).resolved()
    assert full["rounds"] == 100 and full["seeds"] == [0] and full["data"]["clients"] == 100
    assert full["client"] == {
        "kind": "sgd",
        "lr": 0.1,
        "batch": 16,
        "steps": None,
        "epochs": 1,
        "shuffle": True,
        "drop_last": False,
        "lr_per": "round",
        "optimizer_state": "reset",
        "optimizer": {"kind": "sgd", "momentum": None, "nesterov": False},
    }
    assert full["server"] == [{"kind": "mean", "weights": "samples"}]
    assert list(full["data"]["partition"]) == ["kind"]
    assert told("rounds: 3\n") == ["s.yaml:1:1: name: is required", "s.yaml:1:1: data: is required"]


def test_resolved_reads_back_as_itself():
    scenario = read(MINIMAL, ("server=[mean, {kind: adam, lr: 1e-2}]", "seeds=3"))
    again = read(scenario.resolved())
    assert again.resolved() == scenario.resolved() and again.hash() == scenario.hash()
    assert scenario.resolved()["seeds"] == [0, 1, 2]


def test_a_name_alone_is_a_link():
    assert read({"name": "x", "data": "digits"}).resolved() == read(MINIMAL).resolved()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ndata: digits\nrounds: no\n", "s.yaml:3:9: rounds: should be a valid integer, found 'no'"),
        ("name: x\ndata: digits\nrounds: true\n", "s.yaml:3:9: rounds: should be a valid integer, found True"),
        ("name: x\ndata: digits\nrounds: -1\n", "s.yaml:3:9: rounds: should be greater than or equal to 0, found -1"),
        ("name: x\ndata: digits\nrouns: 3\n", "s.yaml:3:1: rouns: unknown key; did you mean 'rounds'?"),
        ("name: x\nname: y\ndata: digits\n", "s.yaml:2:1: name: this key stands here twice; keep one"),
        ("name: x\ndata: {kind: digit}\n", "s.yaml:2:14: data.kind: no such kind 'digit'; did you mean 'digits'?"),
        ("name: x\ndata: {clients: 3}\n", "s.yaml:2:7: data: needs a kind: write {kind: ...} or the name alone"),
        (
            "name: x\ndata: digits\nclient: {lr: 0.1, batch: 0}\n",
            "s.yaml:3:26: client.batch: should be greater than or equal to 1 or 'full', found 0",
        ),
        (
            "name: x\ndata: digits\nclient:\n  steps: 3\n  epochs: 1\n",
            "s.yaml:4:3: client: steps and epochs are both given; a client trains for one or the other",
        ),
        (
            "name: x\ndata: digits\nseeds: [0, -1]\n",
            "s.yaml:3:12: seeds[1]: should be greater than or equal to 0, found -1",
        ),
        ("name: x\ndata: digits\nseeds: [4294967296]\n", "s.yaml:3:9: seeds[0]: should be less than 4294967296"),
        ("name: x\ndata: !!python/object:os.system digits\n", "s.yaml:2:7: tags are not allowed"),
        ("name: &a x\ndata: *a\n", "s.yaml:1:7: anchors and aliases are not allowed"),
        ("name: x\ndata: digits\nrounds: 010\n", "s.yaml:3:9: rounds: 010 can be read in several ways"),
        ("name: x\ndata: digits\nrounds: 1:30\n", "s.yaml:3:9: rounds: 1:30 can be read in several ways"),
        ("name: x\ndata: digits\nclient: {lr: .inf}\n", "client.lr: should be a valid number, found '.inf'"),
        ("name: x\ndata: [\n", "not YAML"),
        ("- 1\n", "s.yaml:1:1: a scenario is a mapping of keys to values, found a list"),
        ("name: x\ndata: digits\nserver: []\n", "server: List should have at least 1 item"),
        ("name: ../x\ndata: digits\n", "s.yaml:1:7: name: should match pattern"),
        ("name: x\ndata: digits\nserver: [{kind: adam}]\n", "s.yaml:3:10: server[0].lr: is required"),
        ("a: " + "[" * 40, "nested deeper"),
    ],
)
def test_refused_with_place_and_reason(text, said):
    assert any(said in line for line in told(text)), told(text)


def test_all_problems_at_once():
    assert len(told("name: x\ndata: {kind: digits, clients: 0, tset: 0.1}\nrounds: x\nserver: [men]\n")) == 4


@pytest.mark.parametrize(
    ("edit", "path", "value"),
    [
        ("rounds=7", ["rounds"], 7),
        ("data.partition=dirichlet", ["data", "partition", "kind"], "dirichlet"),
        ("data.partition.kind=dirichlet", ["data", "partition", "kind"], "dirichlet"),
        ("server[0].weights=uniform", ["server", 0, "weights"], "uniform"),
        ("server.0.weights=uniform", ["server", 0, "weights"], "uniform"),
        ("server[1]={kind: sgd, lr: 2}", ["server", 1, "lr"], 2.0),
        ("client.steps=[1, 2]", ["client", "steps"], [1, 2]),
        ("client.lr=1e-3", ["client", "lr"], 0.001),
    ],
)
def test_set(edit, path, value):
    written = {**MINIMAL, "data": {"kind": "digits", "partition": {"kind": "iid"}}, "server": [{"kind": "mean"}]}
    got = read({**written, "client": {"epochs": 2}}, (edit,)).resolved()
    for part in path:
        got = got[part]
    assert got == value


def test_set_steps_removes_epochs():
    got = read({**MINIMAL, "client": {"epochs": 2}}, ("client.steps=3",)).resolved()["client"]
    assert (got["steps"], got["epochs"]) == (3, None)


@pytest.mark.parametrize("edit", ["rounds", "=3", "server[9].kind=mean", "name.x=1", "rounds=[", "rouns=3", "data.0=1"])
def test_wrong_sets_are_scenario_errors(edit):
    with pytest.raises(ScenarioError):
        read({**MINIMAL, "server": [{"kind": "mean"}]}, (edit,))


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({"cohort": {"kind": "uniform", "size": 200}}, "cohort.size: a cohort of 200 of 100 clients"),
        ({"cohort": {"kind": "listed", "rounds": [[0, 100]]}}, "there is no client 100; clients are 0 to 99"),
        ({"client": {"steps": [1, 2]}}, "client.steps: 2 numbers of steps for 100 clients"),
        ({"server": ["mean", "mean"]}, "server[1]: needs exactly one rule (fedsim list rules), found 2"),
        ({"server": [{"kind": "sgd", "lr": 1}]}, "server: needs exactly one rule"),
        ({"server": [{"kind": "sgd", "lr": 1}, "mean"]}, "server[0]: sgd is an optimiser and stands before the rule"),
        ({"data": {"kind": "digits", "clients": 5000}}, "data.partition: 5000 clients but only 1438"),
        (
            {"data": {"kind": "digits", "partition": {"kind": "dirichlet", "min_samples": 20}}},
            "100 clients x min_samples 20 needs 2000 samples, there are 1438; min_samples at most 14",
        ),
    ],
)
def test_impossible_combinations(sections, said):
    with pytest.raises(ScenarioError) as error:
        fedsim.run({**MINIMAL, "rounds": 1, **sections})
    assert said in str(error.value)


VALID = """name: fuzz
rounds: 3
data: {kind: digits, clients: 10, partition: {kind: dirichlet, alpha: 0.3}}
client: {lr: 1e-2, batch: full, steps: [1, 2]}
server: [{kind: mean}, {kind: adam, lr: 0.1}]
"""


@settings(deadline=None, max_examples=300)
@given(
    st.integers(0, len(VALID)),
    st.integers(0, 12),
    st.text(max_size=4) | st.sampled_from(["{", "]", "!!x", "&a", "*a", ": ", "\n"]),
)
def test_mutated_files_are_read_or_refused(at, cut, new):
    text = VALID[:at] + new + VALID[at + cut :]
    try:
        read(parse(text, "f.yaml"))
    except ScenarioError as error:
        assert all(line.startswith("f.yaml") for line in str(error).splitlines())
