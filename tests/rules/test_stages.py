"""Laws of stages and of attacks on messages, for every registered one."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import if_all_installed
from test_rules import OURS, bits, deltas, poisoned

import fedsim
from fedsim.compose import FAMILIES, lift
from fedsim.tree import take, weighted_mean
from fedsim.types import Aim, Context, RowStage, Updates
from tests.cohorts import cohort_of, context_of

K = 9
STAGES: dict[str, dict[str, Any]] = {
    "clip": {"norm": 0.5},
    "adaptive_clip": {"initial": 0.5},
    "mix_neighbours": {"f": 3},
    "adaptive_robust_clip": {"f": 2},
    "bucket": {"size": 2},
    "local_gaussian": {"norm": 0.5, "epsilon": 1e4, "delta": 1e-5},
    "local_laplace": {"norm": 0.5, "epsilon": 1e4},
}
ATTACKS: dict[str, dict[str, Any]] = {
    "sign_flip": {"scale": 2.0},
    "gaussian": {"std": 3.0},
    "nonfinite": {},
    "optimised": {},
    "little_is_enough": {"z": 1.5},
    "inner_product": {},
    "constant": {"value": 7.0},
    "zero": {},
    "min_max": {},
    "min_sum": {"direction": "std"},
    "model_replacement": {},
    "constrain_and_scale": {"norm": 30.0},
    "free_rider": {},
    "mimic": {},
    "fang": {},
    "neurotoxin": {"density": 0.5},
}
MAY_STAY = {"neurotoxin"}  # in a first round nothing is known that it could leave out
ALL_ATTACKS = [*ATTACKS.items(), ("fang", {"against": "krum"})]
EVERY = [*STAGES.items(), *ALL_ATTACKS]
MALICIOUS = np.array([0, 0, 1, 0, 0, 0, 1, 1, 0], bool)

QUICK = "sign_flip"
"""In the fast part, whose messages are checked there by the same program."""


def links(kinds) -> list:
    marks = lambda name: () if name == QUICK else pytest.mark.long
    return [
        pytest.param({"kind": name, **rest}, id=name, marks=marks(name)) for name, rest in kinds
    ]


every_link = pytest.mark.parametrize("link", links(EVERY))
every_attack = pytest.mark.parametrize("link", links(ALL_ATTACKS))


@if_all_installed
def test_every_stage_and_attack_has_a_line():
    assert set(STAGES) == set(OURS["stage"]) and set(ATTACKS) == set(OURS["attack"])


def sent(link, stack, **more):
    return fedsim.transmit(link, stack, **more)[0]


def honest_mean(updates: Updates, context: Context):
    """A defence that no attack moves."""
    return weighted_mean(updates.delta, updates.weight * ~context.malicious)


def through(link, updates: Updates) -> Updates:
    """The whole struct behind a link, not only its deltas."""
    rest = dict(link)
    name = rest.pop("kind")
    noun = {k: f for kinds in FAMILIES.values() for k, f in kinds.items()}[name](**rest)
    noun = noun.aim(honest_mean) if isinstance(noun, Aim) else noun
    noun = lift(noun) if isinstance(noun, RowStage) else noun
    params = take(updates.delta, 0)
    context = context_of(K, shared={"params": params}, malicious=jnp.asarray(MALICIOUS))
    return jax.jit(noun.apply)(updates, noun.init(params, K), context)[0]


@pytest.mark.long
@every_link
def test_weight_never_grows_and_the_other_sections_are_left_alone(link):
    stack, w = jax.tree.map(jnp.asarray, deltas()), jnp.arange(K, dtype=jnp.float32)
    other = {"stats": {"mean": jnp.ones((K, 2))}, "aux": {"c": jnp.ones((K, 1))}}
    before = cohort_of(stack, w > 0, w, **other)
    after = through(link, before)
    assert (after.weight <= before.weight).all()
    assert bits(after._replace(delta=(), arrived=())) == bits(before._replace(delta=(), arrived=()))


@pytest.mark.optimised
@every_attack
def test_honest_rows_pass_bit_for_bit(link):
    stack = poisoned(deltas(), slice(0, 1), np.nan)  # an honest client may have diverged
    got = sent(link, stack, malicious=MALICIOUS)
    assert bits(take(got, ~MALICIOUS)) == bits(take(stack, ~MALICIOUS))
    assert bits(sent(link, stack)) == bits(stack)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(stack), strict=True):
        assert link["kind"] in MAY_STAY or (a != b)[MALICIOUS].all()


@pytest.mark.parametrize(
    ("link", "sent_by"),
    [
        ({"kind": "constant", "value": 7.0}, lambda row: 0 * row + 7),
        ({"kind": "zero"}, lambda row: 0 * row),
        ({"kind": "sign_flip", "scale": 2.0}, lambda row: -2 * row),
        ({"kind": "nonfinite", "value": "nan"}, lambda row: 0 * row + np.nan),
        ({"kind": "nonfinite", "value": "inf"}, lambda row: 0 * row + np.inf),
    ],
)
def test_what_malicious_clients_send_instead(link, sent_by):
    stack = deltas()
    got = sent(link, stack, malicious=MALICIOUS)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(stack), strict=True):
        np.testing.assert_array_equal(a[MALICIOUS], sent_by(b[MALICIOUS]))


@pytest.mark.long
def test_a_message_is_noised_by_its_client_as_much_as_epsilon_asks():
    """Of two rows of zeros: σ = 3.7304 for ε = 1, δ = 1e-5, Δ = 1 (Balle and Wang 2018).

    The classic σ is √(2 ln 125000); Laplace noise of scale 2 · 1/4 has the mean magnitude ½.
    """
    rows = np.zeros((2, 40_000))
    gaussian = {"kind": "local_gaussian", "norm": 0.5, "epsilon": 1.0, "delta": 1e-5}
    exact = sent(gaussian, rows)
    assert abs(exact.std() - 3.7304) < 0.04
    assert abs(np.corrcoef(exact)[0, 1]) < 0.02
    classic = sent({**gaussian, "calibration": "classic"}, rows)
    assert abs(classic.std() - np.sqrt(2 * np.log(125_000))) < 0.05
    laplace = sent({"kind": "local_laplace", "norm": 1.0, "epsilon": 4.0}, rows)
    assert abs(np.abs(laplace).mean() - 0.5) < 0.01


def test_gaussian_noise_is_the_client_s_own_and_comes_again():
    """It differs between clients, leaves and seeds, and does not depend on who else attacks."""
    stack = {"a": np.zeros((3, 20_000), np.float32), "b": np.full((3, 20_000), 5, np.float32)}
    link = {"kind": "gaussian", "std": 3.0}
    draw = lambda seed, ids=(0, 2): sent(link, stack, malicious=list(ids), seed=seed)
    got, again, other, alone = draw(0), draw(0), draw(1), draw(0, [2])
    assert bits(got) == bits(again) and bits(take(alone, 2)) == bits(take(got, 2))
    rows = [got["a"][0], got["a"][2], got["b"][0], got["b"][2], other["a"][0], other["b"][2]]
    assert np.abs(np.corrcoef(rows) - np.eye(6)).max() < 0.03
    for row in rows:
        assert abs(row.mean()) < 0.1 and abs(row.std() - 3) < 0.1  # nothing is left of the 5


def test_clip_shortens_only_what_is_longer():
    X = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    got = sent({"kind": "clip", "norm": 1.0}, X)
    np.testing.assert_allclose(got[0], [0.6, 0.8], rtol=1e-15)
    assert bits(got[1:]) == bits(X[1:])


@pytest.mark.parametrize("value", [1e-30, 1e20, 3e38])
def test_clip_neither_overflows_nor_underflows(value):
    X = np.full((1, 400), value, np.float32)
    X[0, 7] = -value
    got = sent({"kind": "clip", "norm": value if value < 1 else 1.0}, X)
    np.testing.assert_allclose(np.linalg.norm(got[0].astype(float)), min(value, 1.0), rtol=1e-5)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30])
def test_mixing_keeps_outliers_to_themselves(value):
    got = sent({"kind": "mix_neighbours", "f": 3}, poisoned(deltas(), slice(3, 5), value))
    for leaf in jax.tree.leaves(got):
        others = np.delete(leaf, [3, 4], 0)
        assert (np.abs(others) < 10).all()


@pytest.mark.long
def test_mixing_gives_row_and_answer_alike_in_every_block_of_columns():
    X = np.random.default_rng(3).normal(size=(40, 3000))
    distance = ((X[:, None] - X[None]) ** 2).sum(-1)
    nearest = np.argsort(distance, 1, kind="stable")[:, :33]
    got = sent({"kind": "mix_neighbours", "f": 7}, X)
    np.testing.assert_allclose(got, X[nearest].mean(1), rtol=1e-12, atol=1e-14)
