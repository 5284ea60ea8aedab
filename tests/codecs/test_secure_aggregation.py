"""Secure aggregation: exact sums modulo 2^b in any order, and what a run reports."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fedsim
from fedsim import tree
from fedsim.codecs.modular import Integers, centred, modular, wraps
from fedsim.study.wrap_lines import wrap_lines

SCENARIO = {
    "name": "summed",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 12},
    "cohort": {"kind": "uniform", "size": 7},
    "server": [{"kind": "mean", "weights": "uniform"}],
}
LINK = {"kind": "secure_aggregation", "bits": 20, "scale": 4096.0}
WRAPPED = "secure_aggregation/wrapped"


def run(link=LINK, edits=(), **changes) -> fedsim.Result:
    wire = [] if link is None else [link]
    return fedsim.run({**SCENARIO, "wire": wire, **changes}, edits=edits)


def leaves(result: fedsim.Result) -> np.ndarray:
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(result.model())])


def total_of(blocks: list[np.ndarray], bits: int) -> Integers:
    """The sum of blocks of messages of whole numbers, one block after another."""

    @jax.jit
    def folded(blocks):
        total = Integers(jnp.zeros(blocks[0].shape[1], jnp.int32), jnp.zeros(blocks[0].shape[1]))
        for block in blocks:
            messages = jax.vmap(lambda row: modular(row, bits))(jnp.asarray(block, jnp.float32))
            total = tree.fold(total, messages, jnp.ones(len(block)))
        return total

    return folded(blocks)


@pytest.mark.quick(3)
@pytest.mark.parametrize("bits", [2, 13, 32])
def test_a_sum_is_exact_modulo_a_power_of_two_in_any_order_and_blocks(bits):
    """As Python's integers add up; also messages that are far out of the range."""
    rng = np.random.default_rng(bits)
    sent = np.round(rng.normal(size=(12, 30)) * 2.0 ** rng.uniform(0, 40, (12, 30)))
    sent = sent.astype(np.float32)
    exact = [sum(int(value) for value in column) for column in sent.T]
    size = 2**bits
    residues = [(value + size // 2) % size - size // 2 for value in exact]

    total = total_of([sent], bits)
    in_float32 = np.array(residues, np.float32)
    assert_array_equal(centred(total.upper, bits), in_float32)
    words = np.asarray(total.upper).astype(np.int64) >> (32 - bits)
    assert words.tolist() == residues

    other = total_of([sent[7:], sent[3:7][::-1], sent[:3]], bits)
    assert_array_equal(total.upper, other.upper)


def test_coordinates_that_left_the_range_are_counted():
    """4 bits hold −8 to 7: 7 and −8 fit, 8 and −9 do not, nor does 8 + 8 = 16, which is read as 0;
    8 − 9 = −1 is within, though neither message is.
    """
    sent = np.array([[7, -8, 8, -9, 8, 8], [0, 0, 0, 0, 8, -9]])
    total = total_of([sent], 4)
    assert centred(total.upper, 4).tolist() == [7, -8, -8, 7, 0, -1]
    assert int(wraps(total, 4)) == 3


@pytest.mark.long
def test_a_run_has_the_mean_up_to_rounding():
    """Of one round: within 1/(2s), and b bits for each parameter.

    The honest mean of messages is decoded like the round's; here both are the same.
    """
    coarse = run(rounds=1, evaluate={"diagnostics": True})
    plain = run(link=None, rounds=1)
    assert np.abs(leaves(coarse) - leaves(plain)).max() <= 0.5 / LINK["scale"] + 1e-6
    assert not np.array_equal(leaves(coarse), leaves(plain))
    assert coarse.rounds[WRAPPED].iloc[1] == 0
    assert_allclose(coarse.rounds["honest_distance"].iloc[1], 0, atol=1e-6)

    parameters = leaves(plain).size
    messages = coarse.rounds["clients_reported"].iloc[1]
    assert coarse.rounds["bytes_up"].iloc[1] == messages * -(-LINK["bits"] * parameters // 8)


@pytest.mark.long
def test_wraps_are_counted_where_bits_are_few():
    wrapped = run({**LINK, "bits": 6})
    assert wrapped.rounds[WRAPPED].iloc[1:].min() > 0
    (line,) = wrap_lines(wrapped.records["rounds"])
    assert line.startswith("secure_aggregation: in ")


@pytest.mark.long
def test_an_attack_happens_before_and_sees_what_it_saw():
    """A stack of rows that an attack reads has the same sum as one that is folded."""
    edits = ["fleet.malicious={count: 2}"]
    link = {"kind": "little_is_enough"}
    fine = {**LINK, "bits": 32, "scale": 2.0**24}
    attacked = run(wire=[link, fine], rounds=1, edits=edits)
    plain = run(wire=[link], rounds=1, edits=edits)
    assert_allclose(leaves(attacked), leaves(plain), atol=1e-6)
    assert attacked.rounds[WRAPPED].iloc[1] == 0
