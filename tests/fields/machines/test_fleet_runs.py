"""Runs of a fleet: their time, their wasted work, their bytes after a kill, and what is refused."""

import pytest
from building import built
from numpy.testing import assert_allclose
from unchanged import run_of_same_bytes

import fedsim

TINY = {
    "name": "fleet",
    "rounds": 6,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 12},
    "cohort": {"kind": "uniform", "size": 4},
    "client": {"steps": 4},
}
SLOW = {"speed": {"kind": "lognormal", "sigma": 1.0}}
FLEETS = {
    "clocked": {**SLOW, "availability": {"kind": "diurnal", "period": 30.0}},
    "chain": {"availability": "markov", "dropout": {"before": 0.1, "during": 0.2, "after": 0.2}},
}


def run(**sections) -> fedsim.Result:
    return fedsim.run({**TINY, **sections})


@pytest.mark.long
def test_a_codec_shortens_the_time_of_slow_links():
    """In both directions, by the bytes that `check` predicts: 60 per second, 840 for the model."""
    links = {"kind": "constant", "up": 60.0, "down": 120.0, "latency": 0.5}

    def seconds(**sections):
        plan = built({**TINY, "fleet": {"links": links}, **sections}).plans[0]
        return plan.round(1)[0].seconds

    assert_allclose(seconds(), 4 + 1 + 840 / 60 + 840 / 120)
    assert_allclose(seconds(wire=[{"kind": "top_k", "k": 10}]), 4 + 1 + 50 / 60 + 840 / 120)
    assert_allclose(seconds(broadcast=["cast"]), 4 + 1 + 840 / 60 + 420 / 120)


@pytest.mark.long
def test_wasted_work_adds_up():
    result = run(fleet=FLEETS["chain"], evaluate={"target": 0.7})
    rounds, clients = result.rounds, result.clients
    first = rounds[rounds["test_accuracy"] >= 0.7].iloc[0]
    summary = result.summary.iloc[0]
    assert first["round"] == summary["rounds_to_target"]
    assert 0 < first["virtual_seconds"] == summary["virtual_seconds_to_target"]

    offered = clients["rounds_offered"]
    assert rounds["clients_sampled"].sum() == offered.sum()
    assert offered.equals(clients[["rounds_joined", "rounds_late", "rounds_left"]].sum(axis=1))
    last = rounds.iloc[-1]
    assert last["bytes_up"] == clients["bytes_up"].sum()
    assert last["bytes_down"] == clients["bytes_down"].sum()
    model = rounds["bytes_down"].iloc[1] / 4
    useful = 2 * model * clients["rounds_joined"].sum()
    assert useful + rounds["bytes_wasted"].sum() == last["bytes_up"] + last["bytes_down"]


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("name", ["clocked", "chain"])
def test_kills_and_blocks_change_no_byte(name, tmp_path):
    run_of_same_bytes({**TINY, "rounds": 4, "fleet": FLEETS[name]}, tmp_path, cut=2)


@pytest.mark.long
def test_methods_are_compared_under_the_same_outcomes():
    """Methods of equal cost have the same clients, late ones and lost messages."""
    fleet = {**FLEETS["chain"], **SLOW, "deadline": 4.0}
    columns = ["clients_sampled", "clients_reported", "clients_late", "clients_left"]
    one, other = (run(fleet=fleet, method=method).rounds for method in ("fedavg", "fedprox"))
    assert one[[*columns, "virtual_seconds"]].equals(other[[*columns, "virtual_seconds"]])
    assert one["clients_late"].sum() > 0 and one["clients_left"].sum() > 0


@pytest.mark.parametrize(
    ("fleet", "line"),
    [
        ({"availability": "diurnal(low=1.0)"}, "fleet.availability: diurnal: high 0.9"),
        ({"availability": "markov(leave=0.0, come=0.0)"}, "fleet.availability: markov: come and"),
        ({"stragglers": {"share": 0.5}}, "fleet.stragglers: a straggler .* client.epochs is 1"),
    ],
)
def test_a_fleet_that_makes_no_sense_is_refused(fleet, line):
    with pytest.raises(fedsim.ScenarioError, match=line):
        run(fleet=fleet, client={"epochs": 1})
