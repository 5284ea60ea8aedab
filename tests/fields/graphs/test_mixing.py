"""Mixing matrices: closed forms of their gaps, and what all of them have in common."""

import numpy as np
import pytest
from nodes import network_of

import fedsim
from fedsim.errors import ScenarioError
from fedsim.fields.graphs.network import Network, NetworkSettings
from fedsim.fields.graphs.topology import erdos_renyi as drawn
from fedsim.fields.graphs.topology import gap_of, matrix_of

pi = np.pi

GAPS = [
    *[("ring", n, 2 / 3 * (1 - np.cos(2 * pi / n))) for n in (3, 5, 6, 17)],
    *[("path", n, 2 / 3 * (1 - np.cos(pi / n))) for n in (3, 4, 11)],
    *[("star", n, 1 / n) for n in (3, 8)],
    *[("complete", n, 1.0) for n in (2, 3, 9)],
    *[("hypercube", 2**k, 2 / (k + 1)) for k in (1, 2, 3, 5)],
]


@pytest.mark.parametrize("kind, nodes, gap", GAPS)
def test_gap_in_closed_form(kind, nodes, gap):
    assert fedsim.spectral_gap(fedsim.mixing(kind, nodes=nodes)) == pytest.approx(gap, abs=1e-9)


@pytest.mark.parametrize("a, b", [(3, 3), (3, 5), (4, 6)])
def test_gap_of_a_torus_by_fourier(a, b):
    j, k = np.meshgrid(np.arange(a), np.arange(b), indexing="ij")
    eigenvalues = (1 + 2 * np.cos(2 * pi * j / a) + 2 * np.cos(2 * pi * k / b)) / 5
    gap = 1 - np.sort(np.abs(eigenvalues.ravel()))[-2]
    W = fedsim.mixing({"kind": "torus", "rows": a}, nodes=a * b)
    assert fedsim.spectral_gap(W) == pytest.approx(gap, abs=1e-9)


UNDIRECTED = [
    ("grid(rows=3)", 12),
    ("star", 7),
    ("erdos_renyi(p=0.6)", 12),
    ("regular(degree=4)", 11),
    ("watts_strogatz(k=4, p=0.3)", 15),
    ("barabasi_albert(m=2)", 15),
    ({"kind": "listed", "edges": [[0, 1], [2, 1], [1, 3], [3, 0], [0, 3]]}, 4),
    ({"kind": "path", "weights": "max_degree"}, 6),
    ({"kind": "ring", "weights": "uniform"}, 6),
]


@pytest.mark.parametrize("topology, nodes", UNDIRECTED)
def test_rows_and_columns_add_up_to_one(topology, nodes):
    W = fedsim.mixing(topology, nodes=nodes)
    assert (W == W.T).all()
    assert (W >= 0).all()
    assert (np.diag(W) > 0).all()
    np.testing.assert_allclose(W.sum(0), 1, atol=1e-12)
    np.testing.assert_allclose(W.sum(1), 1, atol=1e-12)


def test_metropolis_and_max_degree_by_hand():
    edges = [[0, 1], [1, 2], [1, 3]]  # degrees 1, 3, 1, 1
    star = {"kind": "listed", "edges": edges}
    W = fedsim.mixing(star, nodes=4)
    assert W[1].tolist() == [0.25, 0.25, 0.25, 0.25]
    assert W[0].tolist() == [0.75, 0.25, 0, 0]
    assert (fedsim.mixing({**star, "weights": "max_degree"}, nodes=4) == W).all()

    path = {"kind": "listed", "edges": [[0, 1], [1, 2], [2, 3], [1, 3]]}  # degrees 1, 3, 2, 2
    W = fedsim.mixing(path, nodes=4)
    assert W[2, 3] == 1 / 3
    assert W[2, 1] == 1 / 4
    assert fedsim.mixing({**path, "weights": "max_degree"}, nodes=4)[2, 3] == 1 / 4


def test_exponential_hears_the_powers_of_two_and_is_doubly_stochastic():
    W = fedsim.mixing("exponential", nodes=6)
    assert np.flatnonzero(W[0]).tolist() == [0, 1, 2, 4]
    assert W[0, 1] == 1 / 4
    np.testing.assert_allclose(W.sum(0), 1, atol=1e-12)
    np.testing.assert_allclose(W.sum(1), 1, atol=1e-12)
    assert not (W == W.T).all()


def test_one_peer_after_another_is_the_mean_of_all_where_n_is_a_power_of_two():
    network = network_of({"kind": "exponential", "peers": "one"}, 8, rounds=9)
    product = np.eye(8)
    for r in (1, 2, 3):
        W = matrix_of(network.mixing(r))
        assert (np.diag(W) == 0.5).all()
        product = W @ product
    np.testing.assert_allclose(product, 1 / 8, atol=1e-15)
    assert (matrix_of(network.mixing(4)) == matrix_of(network.mixing(1))).all()


def test_a_directed_graph_hands_out_equal_parts():
    edges = [[0, 1], [0, 2], [1, 2], [2, 0]]
    W = fedsim.mixing({"kind": "listed", "edges": edges, "directed": True}, nodes=3)
    assert W[:, 0].tolist() == [1 / 3, 1 / 3, 1 / 3]  # 1 and 2 hear 0
    assert W[:, 1].tolist() == [0, 1 / 2, 1 / 2]
    assert W[:, 2].tolist() == [1 / 2, 0, 1 / 2]

    ring = fedsim.mixing({"kind": "ring", "directed": True}, nodes=4)
    assert ring[1].tolist() == [0.5, 0.5, 0, 0]  # 1 hears 0


def test_links_that_fail_leave_their_weight_at_both_ends():
    settings = NetworkSettings(drawn(p=0.7), weights="metropolis", redraw=2, fail=0.3)
    network = Network(settings, nodes=10, seed=3, rounds=6)
    active = np.ones(10, bool)
    active[4] = False
    full = [matrix_of(Network(settings._replace(fail=0.0), 10, 3, 6).mixing(r)) for r in (1, 2, 3)]
    assert (full[0] == full[1]).all()
    assert not (full[1] == full[2]).all()  # drawn again

    lost = 0
    for r in range(1, 7):
        W = matrix_of(network.mixing(r, active))
        np.testing.assert_allclose(W.sum(0), 1, atol=1e-12)
        np.testing.assert_allclose(W.sum(1), 1, atol=1e-12)
        assert W[4, 4] == pytest.approx(1, abs=1e-12)
        if r <= 3:
            kept = (W > 0) & ~np.eye(10, dtype=bool)
            assert (W[kept] == full[r - 1][kept]).all()
            lost += int(((full[r - 1] > 0) & (W == 0)).sum())
    assert lost > 20
    assert (matrix_of(network.mixing(2)) == matrix_of(network.mixing(2))).all()

    directed = Network(NetworkSettings(drawn(p=0.5), weights=None, fail=0.4), 9, seed=1, rounds=3)
    for r in (1, 2, 3):
        np.testing.assert_allclose(matrix_of(directed.mixing(r)).sum(0), 1, atol=1e-12)


def test_gap_of_a_large_graph_by_its_largest_eigenvalues(monkeypatch):
    network = network_of({"kind": "torus", "rows": 4}, 24, rounds=1)
    exact = gap_of(network.mixing(1))
    monkeypatch.setattr("fedsim.fields.graphs.topology.spectrum.DENSE", 5)
    assert gap_of(network.mixing(1)) == pytest.approx(exact, abs=1e-9)


def test_edges_of_a_file(tmp_path):
    file = tmp_path / "edges.csv"
    file.write_text("source,target\n0,1\n1,2\n2,0\n")
    edges = [[0, 1], [1, 2], [2, 0]]
    for directed in (False, True):
        listed = {"kind": "listed", "directed": directed}
        W = fedsim.mixing({**listed, "path": str(file)}, nodes=3)
        assert (W == fedsim.mixing({**listed, "edges": edges}, nodes=3)).all()

    file.write_text("source,target\n0,1.5\n")
    with pytest.raises(ScenarioError, match=r"topology\.path: .*row 2.*whole number"):
        fedsim.mixing({"kind": "listed", "path": str(file)}, nodes=3)
    with pytest.raises(ScenarioError, match="found neither; write one of them"):
        fedsim.mixing("listed", nodes=3)


def test_a_seed_decides_a_random_graph():
    kind = "erdos_renyi(p=0.5)"
    same = fedsim.mixing(kind, nodes=12, seed=4) == fedsim.mixing(kind, nodes=12, seed=4)
    assert same.all()
    assert not (fedsim.mixing(kind, nodes=12, seed=4) == fedsim.mixing(kind, nodes=12)).all()


REFUSED = [
    ("erdos_renyi(p=0.01)", 30, "kind: the graph is not connected", "one of them node "),
    ({"kind": "listed", "edges": [[0, 1], [2, 3]]}, 4, "not connected: it has 2", "nodes 0, 1"),
    ({"kind": "listed", "edges": [[0, 1]], "directed": True}, 2, "not connected", "of them node 1"),
    ({"kind": "listed", "edges": [[0, 9]]}, 4, "edges: [0, 9] names a node", "0 to 3"),
    ({"kind": "listed", "edges": [[1, 1]]}, 4, "edges: [1, 1] is no edge", "remove it"),
    ("torus(rows=3)", 10, "rows: 3 rows do not divide 10", "divisor"),
    ("hypercube", 6, "kind: hypercube needs 2, 4, 8", "exponential"),
    ("regular(degree=9)", 9, "degree: is 9", "lower it"),
    ("regular(degree=3)", 9, "degree: 9 nodes of degree 3", "even"),
    ("barabasi_albert(m=9)", 9, "m: is 9", "lower it"),
    ("watts_strogatz(k=10)", 9, "k: is 10", "lower it"),
    ({"kind": "star", "weights": "uniform"}, 4, "weights: uniform needs a regular", "metropolis"),
    ({"kind": "exponential", "weights": "metropolis"}, 4, "weights: metropolis is", "remove"),
    ({"kind": "ring", "redraw": 3}, 4, "redraw: draws random graphs again", "remove it"),
    ("rign", 4, "no topology 'rign'", "'ring'"),
    ("ring", 1, "nodes: should be an integer of at least 2", "found 1"),
    ({"kind": "ring", "fail": 1.0}, 4, "fail", "from 0 to below 1"),
]


@pytest.mark.parametrize("topology, nodes, problem, remedy", REFUSED)
def test_refused_with_the_key_and_the_remedy(topology, nodes, problem, remedy):
    with pytest.raises(ScenarioError) as error:
        fedsim.mixing(topology, nodes=nodes)
    assert problem in str(error.value)
    assert remedy in str(error.value)


def test_without_networkx_random_graphs_name_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "networkx", None)
    with pytest.raises(ScenarioError, match=r"fedsim-jax\[graphs\]"):
        fedsim.mixing("regular(degree=2)", nodes=5)
    assert len(fedsim.mixing("ring", nodes=5)) == 5


def test_a_matrix_that_is_none_has_no_gap():
    with pytest.raises(ValueError, match="square and finite"):
        fedsim.spectral_gap(np.ones((2, 3)))
