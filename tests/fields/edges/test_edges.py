"""Edges and a cloud: trajectories against a plain loop, and their clock."""

import jax
import numpy as np
import pytest
from nodes import D, problem, run, scenario, trained
from test_graph_runs import digits
from unchanged import run_of_same_bytes

import fedsim
from fedsim import tree
from fedsim.fleet import Planner
from fedsim.scenario import read

SIZES = [1, 4, 2, 3, 1, 5, 2, 2]
MODEL_BYTES = 4 * D  # messages are counted as float32


def hierarchical(groups, **keys) -> dict:
    return {"kind": "hierarchical", "groups": groups, **keys}


EDGES = [[0, 3, 6], [1, 2], [4, 5, 7]]


def hierfavg(inputs, edges, cohorts, every, inner, outer, lr=0.1, steps=2):
    """Liu et al. 2020, Algorithm 1, in plain loops, where some clients stay away.

    Args:
      cohorts: the clients of each round.
      every: κ₂, rounds from one of the cloud to the next.
      inner: learning rate of the edges' servers.
      outer: learning rate and momentum of the cloud's.
      steps: of a client in a round, κ₁.

    Returns:
      The edges' models at the end `[k, D]`.
    """
    n = inputs["sizes"]
    cloud = inputs["x0"]
    x = [cloud for _ in edges]
    weight = [0 for _ in edges]  # samples that each edge has heard of since the cloud's last round
    m = np.zeros_like(cloud)
    for r, cohort in enumerate(cohorts, start=1):
        for g, members in enumerate(edges):
            active = [i for i in members if i in cohort]
            total = sum(n[i] for i in active)
            if total == 0:
                continue
            average = sum(n[i] * trained(inputs, i, x[g], lr, steps) for i in active) / total
            x[g] = (1 - inner) * x[g] + inner * average
            weight[g] += total
        if r % every == 0 and sum(weight) > 0:
            average = sum(w * model for w, model in zip(weight, x, strict=True)) / sum(weight)
            rate, beta = outer
            m = beta * m + average - cloud
            cloud = cloud + rate * m
            x = [cloud for _ in edges]
            weight = [0 for _ in edges]
    return np.array(x)


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
    result = run(inputs, written)
    planner = Planner(result.experiment.plans[2])
    cohorts = [planner.round(r).ids.tolist() for r in range(1, 11)]
    periods = [set().union(*cohorts[first : first + 3]) for first in (0, 3, 6)]
    # In how many of the cloud's periods nobody of some edge took part.
    empty = sum(came.isdisjoint(members) for came in periods for members in EDGES)
    assert [] in cohorts and empty > 0

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


@pytest.mark.parametrize(
    ("topology", "line"),
    [
        (hierarchical([[0, 1], [1, 2]]), "topology: .*client 1 is listed twice"),
        (hierarchical([[0, 1], [2]]), "topology.groups: .*name every client once"),
        (hierarchical(3, outer="trust"), "topology.outer.*updates alone"),
        (hierarchical(3, inner=["fedadam"]), "topology: hierarchical: inner has no rule"),
    ],
)
def test_refused_with_the_key_and_the_remedy(topology, line):
    with pytest.raises(fedsim.ScenarioError, match=line):
        fedsim.run(digits(topology=topology))


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


@pytest.mark.optimised
@pytest.mark.long
def test_kills_and_blocks_change_no_byte(tmp_path):
    topology = hierarchical(
        3, edge_rounds=2, inner=["mean", "fedadam"], outer=["median", {"kind": "sgd", "lr": 0.9}]
    )
    written = digits(topology=topology, cohort={"kind": "uniform", "size": 5}, rounds=5)
    run_of_same_bytes(written, tmp_path, cut=3)
