"""Edges and a cloud: trajectories against a plain loop, and their clock."""

import jax
import numpy as np
import pytest
from edges import hierfavg
from nodes import D, problem, run, scenario
from test_graph_runs import digits
from unchanged import run_of_same_bytes

import fedsim
from fedsim import tree
from fedsim.scenario import read

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SIZES = [1, 4, 2, 3, 1, 5, 2, 2]
MODEL_BYTES = 4 * D  # messages are counted as float32


def hierarchical(groups, **keys) -> dict:
    return {"kind": "hierarchical", "groups": groups, **keys}


EDGES = [[0, 3, 6], [1, 2], [4, 5, 7]]


def run_and_cohorts(inputs: dict, written: dict) -> tuple[fedsim.Result, list[list[int]]]:
    """A run, and the clients whose messages counted in each of its rounds."""
    result = run(inputs, written)
    plan = result.experiment.plans[written["seeds"][0]]
    state = plan.begin()
    cohorts = []
    for r in range(1, written["rounds"] + 1):
        work, state = plan.round(r, state)
        cohorts.append(work.ids.tolist())
    return result, cohorts


def empty_periods(cohorts: list[list[int]], every: int) -> int:
    """In how many of the cloud's periods nobody of some edge took part."""
    empty = 0
    for first in range(0, len(cohorts) - every + 1, every):
        came = set().union(*cohorts[first : first + every])
        empty += sum(came.isdisjoint(members) for members in EDGES)
    return empty


def test_hierfavg_under_partial_participation():
    """With server steps other than 1 on both levels."""
    inputs = problem(8, sizes=SIZES)
    inner, (rate, beta) = 0.5, (0.7, 0.9)
    servers = {
        "inner": ["mean", {"kind": "sgd", "lr": inner}],
        "outer": ["mean", {"kind": "sgd", "lr": rate, "momentum": beta}],
    }
    topology = hierarchical(EDGES, edge_rounds=3, **servers)
    fleet = {"availability": {"kind": "bernoulli", "rate": 0.2}}
    written = scenario("sgd", topology, rounds=10, steps=2, fleet=fleet, seeds=[2])
    result, cohorts = run_and_cohorts(inputs, written)
    assert [] in cohorts
    empty = empty_periods(cohorts, every=3)
    assert empty > 0

    x = hierfavg(inputs, EDGES, cohorts, every=3, inner=inner, outer=(rate, beta))
    np.testing.assert_allclose(result.model(), x, rtol=1e-9, atol=1e-9)
    assert np.ptp(x, axis=0).max() > 1e-3  # round 10 was the edges' alone

    last = result.rounds.iloc[-1]
    assert last["cloud_bytes_up"] == (3 * len(EDGES) - empty) * MODEL_BYTES
    assert last["cloud_bytes_down"] == 3 * len(EDGES) * MODEL_BYTES
    assert last["bytes_up"] == sum(map(len, cohorts)) * MODEL_BYTES
    assert result.clients["cluster"].tolist() == [0, 1, 1, 0, 2, 2, 0, 2]


@pytest.mark.long
def test_an_edge_waits_for_its_own_clients_and_the_cloud_for_all_edges():
    """Client 0 takes 9 s a round, the others 1 s; the cloud's link takes 2 + 3 + 2 · 0.5 s."""
    link = {"cloud_up": MODEL_BYTES / 2, "cloud_down": MODEL_BYTES / 3, "cloud_latency": 0.5}
    topology = hierarchical([[0, 1], [2, 3]], edge_rounds=2, **link)
    cohort = {"kind": "listed", "rounds": [[0, 2], [2, 3], [1, 3], [2]]}
    inputs = problem(4)
    written = scenario("sgd", topology, 4, steps=[9, 1, 1, 1], cohort=cohort)
    result = run(inputs, {**written, "evaluate": {"every": 1}})
    # Edge 0 takes 9, 0, 1 and 0 s, edge 1 one second each.
    assert result.rounds["virtual_seconds"].tolist() == [0, 9, 9 + 6, 16, 17 + 6]


REFUSED = [
    ({"topology": hierarchical([[0, 1], [1, 2]])}, "topology", "client 1 is listed twice"),
    ({"topology": hierarchical([[0, 1], [2]])}, "topology.groups", "name every client once"),
    ({"topology": hierarchical(3, outer="trust")}, "topology.outer", "updates alone"),
    ({"topology": hierarchical(3, inner=["fedadam"])}, "topology", "no rule"),
]


@pytest.mark.parametrize("sections, where, remedy", REFUSED)
def test_refused_with_the_key_and_the_remedy(sections, where, remedy):
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.run(digits(**{"topology": hierarchical(3), **sections}))
    lines = str(error.value).splitlines()
    assert any(where in line and remedy in line for line in lines), lines


def test_there_is_no_mixing_matrix_of_edges():
    with pytest.raises(fedsim.ScenarioError, match="use another kind, such as ring"):
        fedsim.mixing("hierarchical(groups=2)", nodes=4)


def test_a_resolved_scenario_reads_back_as_itself():
    topology = hierarchical(3, edge_rounds=2, outer=["median", "fedadam"])
    plain = read(digits(topology=topology)).resolved()
    assert "server" not in plain
    assert read(plain).resolved() == plain


@pytest.mark.long
def test_one_edge_is_a_server_also_in_rounds_without_clients():
    sections = digits(rounds=12, fleet={"availability": {"kind": "bernoulli", "rate": 0.1}})
    flat = fedsim.run({**sections, "topology": None})
    edge = fedsim.run({**sections, "topology": hierarchical(1)})
    assert (flat.rounds["clients_sampled"].iloc[1:] == 0).any()
    assert edge.rounds["virtual_seconds"].equals(flat.rounds["virtual_seconds"])
    near = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    jax.tree.map(near, tree.take(edge.model(), 0), flat.model())


@pytest.mark.long
def test_kills_and_blocks_change_no_byte(tmp_path):
    topology = hierarchical(
        3, edge_rounds=2, inner=["mean", "fedadam"], outer=["median", {"kind": "sgd", "lr": 0.9}]
    )
    written = digits(topology=topology, cohort={"kind": "uniform", "size": 5}, rounds=5)
    run_of_same_bytes(written, tmp_path, cut=3)
