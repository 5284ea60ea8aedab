"""The noise of every mechanism by hand: what its rounds are made of, and how they covary."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from conftest import if_whole, own_kinds_of
from numpy.testing import assert_allclose
from test_private_runs import SCENARIO, context, privacy
from unchanged import run_of_same_bytes

import fedsim
from fedsim import tree
from fedsim.fields.privacy.counting.records import DISTRIBUTED
from fedsim.kinds import FAMILIES

D = 3
# Two rounds back, all are remembered; and θ = (½, 0), ω = (¼, ⅛).
BLT = {"buffers": 2, "decay": [0.5, 0.0], "scale": [0.25, 0.125]}
# kind, its options, the first column of C: binom(2k, k)/4^k; ω_1 + ω_2, then ¼ (½)^(k − 1)
TOEPLITZ = [
    ("gaussian", {}, [1, 0, 0, 0, 0, 0]),
    ("banded", {"bands": 3}, [1, 1 / 2, 3 / 8, 0, 0, 0]),
    ("blt", BLT, [1, 3 / 8, 1 / 8, 1 / 16, 1 / 32, 1 / 64]),
]


def key(round: int) -> jax.Array:
    return jax.random.fold_in(jax.random.key(7), round)


def noises(kind: str, rounds: int, **options) -> np.ndarray:
    """The noise of rounds 1, 2, ... `[rounds, D]`."""
    mechanism = FAMILIES["mechanism"][kind](**options)
    like = jnp.zeros(D)
    state = mechanism.init(like)
    draw = jax.jit(mechanism.draw)
    drawn = []
    for t in range(1, rounds + 1):
        noise, state = draw(like, state, context()._replace(key=key(t), round=jnp.int32(t)))
        drawn.append(noise)
    return np.array(drawn)


def independent(rounds: int) -> np.ndarray:
    """Z of rounds 1, 2, ... `[rounds, D]`."""
    return np.array([tree.normal(jnp.zeros(D), key(t)) for t in range(1, rounds + 1)])


@pytest.mark.parametrize(("kind", "options", "c"), TOEPLITZ)
def test_a_toeplitz_matrix_makes_independent_draws_of_the_noise(kind, options, c):
    """C w = Z, of all its coefficients by hand."""
    C = np.array([[c[i - j] if i >= j else 0 for j in range(6)] for i in range(6)])
    assert_allclose(C @ noises(kind, 6, **options), independent(6), atol=1e-6)


# Rounds whose draws are in the sum over rounds 1 to t: 2^ℓ rounds end with the node of level ℓ.
NODES = {
    None: [[1], [2], [2, 3], [4], [4, 5], [4, 6], [4, 6, 7], [8]],
    3: [[1], [2], [2, 3], [2, 3, 4], [2, 3, 5], [2, 3, 5, 6], [2, 3, 5, 6, 7], [2, 3, 5, 6, 8]],
}


@pytest.mark.parametrize("restart", NODES)
def test_a_tree_has_a_node_for_every_one_in_the_binary_digits_of_the_round(restart):
    """One that restarts keeps the sum of the trees before."""
    sums = np.cumsum(noises("tree", 8, restart=restart), axis=0)
    Z = independent(8)
    assert_allclose(sums, [sum(Z[t - 1] for t in nodes) for nodes in NODES[restart]], atol=1e-6)


def test_every_mechanism_has_a_case():
    # What clients add has its cases in test_distributed.
    assert own_kinds_of("mechanism").keys() == {"gaussian", "banded", "blt", "tree", *DISTRIBUTED}


def private(mechanism, **changes) -> dict:
    section = privacy(mechanism=mechanism, noise_multiplier=3.0)
    return {**SCENARIO, "cohort": "all", "privacy": section, **changes}


@if_whole
@pytest.mark.long
def test_noise_of_rounds_of_a_run_covaries_as_it_should():
    """Models of clients that stay where they are: (zC/m)² C⁻¹C⁻ᵀ over the rounds."""
    models = []

    def watch(experiment, seed, row):
        shared = row.server.shared["params"]
        models.append(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(shared)]))

    mechanism = {"kind": "banded", "bands": 3}
    model = {"kind": "mlp", "hidden": [500]}
    setting = private(mechanism, client={"lr": 0.0}, rounds=5, model=model)
    fedsim.run(setting, watch=watch)
    noise = np.diff(models, axis=0) / (3 * 0.2 / 20)
    c = [1, 1 / 2, 3 / 8]
    C = sum(value * np.eye(5, k=-k) for k, value in enumerate(c))
    wanted = np.linalg.inv(C) @ np.linalg.inv(C).T
    assert_allclose(np.cov(noise), wanted, atol=6 * wanted.max() / np.sqrt(len(noise[0])))


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("mechanism", ["tree", "banded(bands=3)"])
def test_kills_and_blocks_change_no_byte(mechanism, tmp_path):
    """Of correlated noise, and of a bound that learns."""
    scenario = private(mechanism, rounds=4)
    scenario["privacy"]["clip"] = {"kind": "adaptive", "count_std": 2.0}
    run_of_same_bytes(scenario, tmp_path, cut=2)


@pytest.mark.long
def test_the_matrix_of_blt_stands_in_the_resolved_scenario():
    resolved = built(private({"kind": "blt", "buffers": 2})).scenario.resolved()
    mechanism = resolved["privacy"]["mechanism"]
    assert len(mechanism["decay"]) == len(mechanism["scale"]) == 2
    assert built(resolved).scenario.resolved() == resolved
