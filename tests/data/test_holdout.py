"""Clients that are held out: by name, and each in turn."""

import numpy as np
import pytest
from click.testing import CliRunner

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.cli import cli
from fedsim.data.splits import clients_to_test
from fedsim.errors import PartitionError, ScenarioError
from fedsim.scenario import read

HEART = {"kind": "heart_disease", "drop": ["slope", "ca", "thal"], "missing": "drop"}


def scenario(**data):
    return {"name": "held", "rounds": 0, "model": "logistic", "data": data}


def federation(**data):
    return federations_of(read(scenario(**data)), None, np.dtype("float32"))[0]


def test_named_clients_are_the_test_set():
    f = federation(**HEART, test={"clients": ["Hungary", "Switzerland"]})
    assert f.client_names[f.held_out].tolist() == ["Hungary", "Switzerland"]
    assert len(f.test.y) == 261 + 46 and f.sizes.tolist() == [303, 0, 0, 130]


def test_clients_of_a_drawn_partition_are_named_by_number():
    f = federation(kind="iris", clients=5, partition="iid", test={"clients": [3, 1]})
    assert np.flatnonzero(f.held_out).tolist() == [1, 3]


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (["Hungry"], "no client 'Hungry'; did you mean 'Hungary'"),
        (["Mars"], "no client 'Mars'; there are Cleveland, Hungary, Oslo"),
        (["Empty"], "no client 'Empty'"),
        (["Cleveland", "Hungary", "Oslo"], "none would be left to train"),
    ],
    ids=["misspelt", "unknown", "without samples", "everybody"],
)
def test_names_of_nobody_and_of_everybody_are_refused(chosen, said):
    names = ["Cleveland", "Hungary", "Oslo", "Empty"]
    with pytest.raises(PartitionError, match=said):
        clients_to_test(np.array([True, True, True, False]), chosen, 0, names)


def test_each_client_is_held_out_in_turn():
    rng = np.random.default_rng(0)
    arrays = fedsim.Arrays(rng.normal(size=(30, 2)), np.arange(30) % 2, np.arange(30) % 3 + 7)
    each = scenario(holdout="each")
    comparison = fedsim.compare(each, ["fedavg"], data=arrays, seeds=1, progress=False)
    texts = [f"{{clients: [{number}]}}" for number in (7, 8, 9)]
    assert comparison.summary["data.test"].tolist() == texts
    without_samples = comparison.clients[comparison.clients["samples"] == 0]
    assert without_samples["client"].tolist() == [7, 8, 9]
    assert without_samples["data.test"].tolist() == texts


def test_a_single_run_and_a_second_axis_are_refused():
    each = scenario(**HEART, holdout="each")
    with pytest.raises(ScenarioError, match=r"data\.holdout: each is a run for every client"):
        fedsim.run(each, progress=False)
    with pytest.raises(ScenarioError, match=r"data\.holdout: each varies data\.test"):
        fedsim.compare(each, ["fedavg"], vary={"data.test": [0.1, 0.2]})


@pytest.mark.long
def test_check_counts_the_runs_of_all_clients(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text(
        "{name: s, rounds: 1, model: logistic, data: {kind: heart_disease, holdout: each},"
        " compare: {methods: [fedavg]}}"
    )
    checked = CliRunner().invoke(cli, ["check", str(file)])
    assert checked.exit_code == 0 and "4 configurations in order" in checked.output
