"""Runs over a graph: trajectories against plain loops, and what they have in common with FedAvg."""

import nodes
import numpy as np
import pytest
from conftest import sampled
from nodes import models, network_of, problem, run, scenario
from reference.scenarios import consecutive
from unchanged import run_of_same_bytes

import fedsim
from fedsim.fields.graphs.topology import matrix_of

NEAR = {"rtol": 1e-9, "atol": 1e-9}
RING = {"kind": "ring"}
DIRECTED = {
    "kind": "listed",
    "directed": True,
    "edges": [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3], [3, 4], [4, 0], [4, 1]],
}


def matrix(topology, n: int):
    W = fedsim.mixing(topology, nodes=n)
    return lambda r: W


@pytest.mark.long
def test_dfedavg_follows_the_paper_and_reports_consensus_bytes_and_scores():
    inputs = problem(5)
    result = run(inputs, scenario("sgd", RING, rounds=4, steps=2, evaluate={"every": 2}))
    x = nodes.dfedavg(inputs, matrix(RING, 5), rounds=4, lr=0.1, steps=2)
    np.testing.assert_allclose(models(result), x, **NEAR)
    np.testing.assert_allclose(result.model(), x.mean(0), **NEAR)

    first, _, last = result.rounds.to_dict("records")
    assert first["consensus"] == 0
    assert last["consensus"] == pytest.approx(((x - x.mean(0)) ** 2).sum(1).mean(), rel=1e-9)
    assert last["bytes_up"] == last["bytes_down"] == 4 * 5 * 2 * nodes.D * 4
    assert result.clients["bytes_up"].tolist() == [4 * 2 * nodes.D * 4] * 5

    # The loss of each node's own model, on the samples of all.
    each = list(zip(inputs["H"], inputs["a"], strict=True))
    losses = [np.mean([0.5 * (z - a) @ H @ (z - a) for H, a in each]) for z in x]
    assert last["node_loss_mean"] == pytest.approx(np.mean(losses), rel=1e-9)
    assert last["node_loss_worst"] == pytest.approx(np.max(losses), rel=1e-9)
    assert last["node_loss_std"] == pytest.approx(np.std(losses), rel=1e-6)


TRAJECTORIES = [
    ({"kind": "gradient_tracking"}, {"kind": "exponential"}, 5),
    ({"kind": "sgd"}, {"kind": "torus", "rows": 3, "mix": "before"}, 9),
    ({"kind": "sgd"}, {"kind": "exponential"}, 6),
    ({"kind": "sgd"}, {"kind": "ring", "directed": True}, 5),
    ({"kind": "dfedavgm", "momentum": 0.7}, {"kind": "star", "weights": "max_degree"}, 5),
    ({"kind": "sgd", "momentum": 0.7}, {"kind": "star"}, 5),
    ({"kind": "dfedsam", "rho": 0.2}, {"kind": "ring"}, 5),
    ({"kind": "push_sum"}, DIRECTED, 5),
    ({"kind": "exact_diffusion"}, {"kind": "grid", "rows": 2}, 6),
    ({"kind": "choco", "codec": {"kind": "top_k", "k": 1}, "gamma": 0.3}, {"kind": "path"}, 5),
]


@pytest.mark.parametrize("client, topology, n", sampled(TRAJECTORIES, every=len(TRAJECTORIES)))
def test_trajectories_of_the_papers(client, topology, n):
    inputs = problem(n)
    kind, W, mix = client["kind"], matrix(topology, n), topology.get("mix", "after")
    training = {name: value for name, value in client.items() if name in ("momentum", "rho")}
    references = {
        "gradient_tracking": lambda: nodes.tracking(inputs, W, 5, 0.1),
        "push_sum": lambda: nodes.push(inputs, W, 5, 0.1, steps=2),
        "exact_diffusion": lambda: nodes.diffusion(inputs, W, 5, 0.1),
        "choco": lambda: nodes.choco(inputs, W, 5, 0.1, 0.3, nodes.largest),
    }
    plain = lambda: nodes.dfedavg(inputs, W, 5, lr=0.1, steps=3, mix=mix, **training)
    steps = {"push_sum": 2}.get(kind, 1) if kind in references else 3
    x = references.get(kind, plain)()
    result = run(inputs, scenario(client, topology, rounds=5, steps=steps))
    np.testing.assert_allclose(models(result), x, **NEAR)
    np.testing.assert_allclose(result.model(), x.mean(0), **NEAR)


@pytest.mark.long
def test_choco_sends_what_its_codec_makes_in_rounds_that_mix():
    inputs = problem(4)
    client = {"kind": "choco", "codec": {"kind": "top_k", "k": 1}, "gamma": 0.3}
    result = run(inputs, scenario(client, {"kind": "ring", "every": 2}, rounds=5))
    x = nodes.choco(inputs, matrix(RING, 4), 5, 0.1, 0.3, nodes.largest, every=2)
    np.testing.assert_allclose(models(result), x, **NEAR)
    index_bits = 2  # ⌈log2 3⌉
    assert result.rounds["bytes_up"].iloc[-1] == 2 * 4 * 2 * -(-(32 + index_bits) // 8)


@pytest.mark.long
def test_mixing_every_few_rounds():
    """Node 0 takes 9 s, and has one neighbour: a second to hear it and one to be heard."""
    inputs = problem(5)
    steps = [9, 1, 1, 1, 1]
    links = {"kind": "constant", "down": 4.0 * nodes.D, "up": 4.0 * nodes.D}
    sections = {"fleet": {"links": links}, "evaluate": {"every": 1}}
    topology = {"kind": "path", "every": 3}
    result = run(inputs, scenario("sgd", topology, rounds=4, steps=steps, **sections))
    W = fedsim.mixing("path", nodes=5)
    of_round = lambda r: W if r == 3 else np.eye(5)
    x = nodes.dfedavg(inputs, of_round, rounds=4, lr=0.1, steps=steps)
    np.testing.assert_allclose(models(result), x, **NEAR)
    assert result.rounds["bytes_up"].iloc[-1] == 4 * 2 * nodes.D * 4
    assert result.rounds["virtual_seconds"].tolist() == [0, 9, 18, 29, 38]


@pytest.mark.long
def test_links_that_fail_and_graphs_that_are_drawn_again():
    inputs = problem(6)
    topology = {"kind": "erdos_renyi", "p": 0.6, "redraw": 2, "fail": 0.3}
    result = run(inputs, scenario("gradient_tracking", topology, rounds=6))
    network = network_of(topology, 6, rounds=6)
    x = nodes.tracking(inputs, lambda r: matrix_of(network.mixing(r)), rounds=6, lr=0.1)
    np.testing.assert_allclose(models(result), x, **NEAR)

    links = sum((network.mixing(r).weight > 0).sum() for r in range(1, 7))
    assert result.rounds["bytes_up"].iloc[-1] == links * 2 * nodes.D * 4


@pytest.mark.long
@pytest.mark.parametrize("client", ["sgd", "exact_diffusion", "push_sum"])
def test_a_node_that_is_away_keeps_its_row(client):
    """Its weight falls back to both ends; who is there is read from the run."""
    inputs = problem(6)
    fleet = {"availability": {"kind": "bernoulli", "rate": 0.6}}
    result = run(inputs, scenario(client, RING, rounds=4, fleet=fleet))
    plan = result.experiment.plans[0]
    network = network_of(RING, 6, rounds=4)
    x = nodes.start(inputs)
    psi = x.copy()
    absent = 0
    for r in range(1, 5):
        active = np.isin(np.arange(6), plan.round(r)[0].ids)
        absent += (~active).sum()
        W = matrix_of(network.mixing(r, active))
        np.testing.assert_allclose(W.sum(0), 1, atol=1e-12)
        y = x.copy()
        for i in np.flatnonzero(active):
            y[i] = nodes.trained(inputs, i, x[i], 0.1, 1)
        if client == "exact_diffusion":
            new = (np.eye(6) + W) / 2 @ np.where(active[:, None], y + x - psi, 0)
            psi = np.where(active[:, None], y, psi)
        else:
            new = W @ y
        x = np.where(active[:, None], new, x)
    assert absent > 4
    np.testing.assert_allclose(models(result), x, **NEAR)


def sign_flipped(inputs, x, malicious: int):
    """What the nodes hold after one step of η = 0.1, and what is heard of it."""
    held = np.array([nodes.trained(inputs, i, x[i], 0.1, 1) for i in range(len(x))])
    heard = held.copy()
    heard[malicious] = x[malicious] - 5 * (held[malicious] - x[malicious])
    return held, heard


@pytest.mark.long
@pytest.mark.parametrize("rule", ["trimmed_mean", "clipped_gossip", "plain"])
def test_robust_mixing_under_an_attack(rule):
    """Node 1 sends five times its step the other way, and goes on with its own."""
    inputs = problem(6)
    complete_but_one = {"kind": "listed", "edges": [[a, b] for a in range(6) for b in range(a)][1:]}
    mix_rule = {
        "trimmed_mean": {"kind": "trimmed_mean", "trim": 1},
        "clipped_gossip": [{"kind": "clip", "norm": 0.3}, "mean"],
        "plain": None,
    }[rule]
    attacked = {"wire": [{"kind": "sign_flip", "scale": 5.0}], "fleet": {"malicious": [1]}}
    topology = {**complete_but_one, "mix_rule": mix_rule}
    result = run(inputs, scenario("sgd", topology, rounds=3, **attacked))

    W = fedsim.mixing(complete_but_one, nodes=6)
    x = nodes.start(inputs)
    for _ in range(3):
        held, heard = sign_flipped(inputs, x, malicious=1)
        new = []
        for i in range(6):
            others = [j for j in range(6) if j != i and W[i, j] > 0]
            rows = np.array([held[i], *heard[others]])
            if rule == "trimmed_mean":
                new.append(np.sort(rows, axis=0)[1:-1].mean(0))
                continue
            away = rows - held[i]
            length = np.linalg.norm(away, axis=1, keepdims=True)
            if rule == "clipped_gossip":
                away = away * np.minimum(1, 0.3 / np.maximum(length, 1e-300))
            new.append(held[i] + W[i, [i, *others]] @ away)
        x = np.array(new)
    np.testing.assert_allclose(models(result), x, **NEAR)
    assert result.rounds["malicious_reported"].iloc[-1] == 3


@pytest.mark.long
def test_a_node_waits_for_its_slowest_neighbour_and_not_for_all():
    """One slow node of a path delays the others one hop a round."""
    inputs = problem(5)
    written = scenario("sgd", "path", rounds=4, steps=[9, 1, 1, 1, 1], evaluate={"every": 1})
    result = run(inputs, written)
    # Node 0 takes 9 s, the others 1 s. The last round to end is always node 0's own.
    assert result.rounds["virtual_seconds"].tolist() == [0, 9, 18, 27, 36]

    plan = result.experiment.plans[0]
    state = plan.begin()
    ready = []
    for r in range(1, 4):
        _, state = plan.round(r, state)
        ready.append(state["nodes"].tolist())
    assert ready == [[9, 9, 1, 1, 1], [18, 18, 10, 2, 2], [27, 27, 19, 11, 3]]


def digits(**sections) -> dict:
    return {
        "name": "digits",
        "rounds": 3,
        "data": {"kind": "digits", "clients": 12, "partition": "dirichlet(alpha=0.1)"},
        "client": {"lr": 0.1, "batch": 16},
        "topology": "ring",
        **sections,
    }


@pytest.mark.long
@pytest.mark.parametrize("client", ["sgd", "exact_diffusion"])
def test_a_node_without_samples_hands_on_what_it_hears(client):
    """Nodes 1 and 4 have no samples: their gradient is zero."""
    inputs = problem(6, sizes=[1, 0, 2, 1, 0, 3])
    inputs["H"][[1, 4]] = 0
    written = scenario(client, RING, rounds=4, data={"clients": 6})
    result = run(inputs, written, partition=consecutive((1, 0, 2, 1, 0, 3)))
    W = matrix(RING, 6)
    x = {
        "sgd": lambda: nodes.dfedavg(inputs, W, 4, lr=0.1, steps=1),
        "exact_diffusion": lambda: nodes.diffusion(inputs, W, 4, 0.1),
    }[client]()
    np.testing.assert_allclose(models(result), x, **NEAR)
    assert result.rounds["bytes_up"].iloc[-1] == 4 * 6 * 2 * nodes.D * 4


REFUSED = [
    ({"cohort": "uniform(size=2)"}, "cohort", "remove cohort, or remove topology"),
    ({"topology": "exponential", "fleet": {"dropout": 0.1}}, "topology.kind", "push_sum"),
    ({"topology": {"kind": "grid", "rows": 5}}, "topology.rows", "a divisor of data.clients"),
    ({"topology": {"kind": "ring", "mix_rule": "trust"}}, "mix_rule", "asks for more"),
]


@pytest.mark.parametrize("sections, where, remedy", REFUSED)
def test_refused_with_the_key_and_the_remedy(sections, where, remedy):
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.run(digits(**sections))
    lines = str(error.value).splitlines()
    assert any(where in line and remedy in line for line in lines), lines


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("resident", [256.0, 0.0])
def test_kills_blocks_and_the_disk_change_no_byte(tmp_path, resident):
    client = {"kind": "gradient_tracking", "lr": 0.1, "steps": 1}
    speed = {"speed": {"kind": "lognormal", "sigma": 1.0}}
    checkpoint = {"resident_mb": resident}
    written = digits(client=client, checkpoint=checkpoint, fleet=speed, rounds=4)
    run_of_same_bytes(written, tmp_path, cut=2)
