"""Laws for every registered codec: extremes, infinities, downlinks; others are in `conform`.

Those of sizes, blocks and resumes, which a user's codecs keep as well, are tried by
`fedsim check --laws`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from conftest import own_kinds_of, sampled
from numpy.testing import assert_array_equal
from reference.alone import made

import fedsim
from fedsim.compose import codec_stage, initial_memory, lift

TOP = {"kind": "top_k", "k": 3}
NEEDED = {  # arguments without which a codec cannot be, or is too large for short messages
    "count_sketch": {"rows": 3, "columns": 40},
    "diana": {"codec": {"kind": "cast"}, "alpha": 0.5},
    "ef21": {"codec": TOP},
    "eden": {"bits": 2},
    "error_feedback": {"codec": TOP},
    "lazy": {"probability": 0.5},
    "low_rank": {"rank": 1},
    "product_quantise": {"codewords": 4, "block": 2},
    "qsgd": {"levels": 4},
    "rand_k": {"k": 3},
    "stochastic_quantise": {"levels": 4},
    "threshold": {"value": 0.5},
    "top_k": {"k": 3},
}
KINDS = sorted(own_kinds_of("codec"))
SUMMED = ("count_sketch", "secure_aggregation")  # whose payloads are decoded as a sum
D = 11
ROWS = {
    "zero": np.zeros(D),
    "negative zero": -np.zeros(D),
    "one coordinate": np.eye(D)[4] * -2.5,
    "all equal": np.full(D, 0.125),
    "huge": np.linspace(-3e38, 3e38, D),
    "one huge": np.where(np.arange(D) == 2, 3e38, 1e-3),
    "denormal": np.linspace(-4e-45, 4e-44, D),
    "mixed": np.r_[np.logspace(-30, 30, D - 1), 0.0],
}


def quickly_one(kinds: list[str]) -> list:
    """All kinds but one are long; laws of the one share its program."""
    return sampled(kinds, len(kinds), kinds.index("rand_k"))


def link(kind: str) -> dict:
    return {"kind": kind, **NEEDED.get(kind, {})}


@pytest.mark.parametrize("kind", quickly_one(KINDS))
def test_extreme_rows_arrive_as_numbers(kind):
    """In float32, at any magnitude: no overflow, no division by a zero norm, no large growth."""
    rows = np.stack([*ROWS.values()]).astype(np.float32)
    arrived, size = fedsim.transmit(link(kind), rows)
    if kind == "count_sketch":
        arrived = np.stack([fedsim.transmit(link(kind), row[None])[0][0] for row in rows])
    assert arrived.shape == rows.shape and arrived.dtype == np.float32
    broken = {name for name, row in zip(ROWS, arrived, strict=True) if not np.isfinite(row).all()}
    assert broken <= ({"huge", "one huge", "mixed"} if kind in OVERFLOWS else set())
    assert (size > 0).all()
    assert not arrived[:2].any()  # a zero row is a zero row


SCALED = ["drive", "eden", "natural", "qsgd", "rand_k", "sign", "terngrad", "top_k"]
SCALED += ["low_rank", "product_quantise", "stochastic_quantise"]
"""What these send is relative to the message."""


@pytest.mark.parametrize("kind", quickly_one(SCALED))
def test_a_message_times_a_power_of_two_arrives_times_it_to_the_bit(kind):
    rows = np.random.default_rng(0).normal(size=(len(ROWS), D)).astype(np.float32)
    small, large = (fedsim.transmit(link(kind), unit * rows)[0] for unit in (2.0**-20, 2.0**20))
    assert_array_equal(large, 2.0**40 * small)


OVERFLOWS = {
    "count_sketch": "coordinates are summed",
    "cast": "float16's largest number is 65504, and bfloat16 rounds the largest ones up",
    "rand_k": "what is kept is multiplied by d / k",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_is_not_finite_is_dropped_and_its_memory_stays(kind):
    codec, row = made("codec", link(kind)), np.ones((3, D), np.float32)
    row[1, 3], row[2, 7] = np.nan, -np.inf
    stage, memory = codec_stage(codec), initial_memory(codec, jnp.zeros(D), jnp.zeros(D))
    memories = jax.tree.map(lambda leaf: jnp.stack([leaf] * 3), memory)
    sent = cohort_of(row, memory=memories, bytes=jnp.full(3, 4 * D, jnp.int32))
    updates, _, _ = lift(stage).apply(sent, (), context_of(3, shared={"params": jnp.zeros(D)}))
    if not codec.linear:
        assert np.isfinite(updates.delta).all(axis=1).tolist() == [True, False, False]
    kept = lambda memory: [leaf[1:] for leaf in jax.tree.leaves(memory)]
    for before, after in zip(kept(memories), kept(updates.memory), strict=True):
        assert_array_equal(before, after)


SENT_OUT = [kind for kind in KINDS if kind not in (*SUMMED, "error_feedback")]  # refused there


@pytest.mark.long
@pytest.mark.parametrize("kind", SENT_OUT)
def test_every_codec_sends_models_out_too(kind):
    """Differences, where a codec leaves out much of what it sends; an MLP has matrices."""
    whole = kind in ("ef21", "cast", "lazy", "diana")
    codec = link(kind) if whole else {"kind": "ef21", "codec": link(kind)}
    written = {
        "name": "codecs",
        "rounds": 4,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6]},
        "cohort": {"kind": "uniform", "size": 5},
        "broadcast": [codec],
    }
    result = fedsim.run(written)
    assert result.status == "done" and np.isfinite(result.rounds["test_loss"]).all()
    for name in ("bytes_up", "bytes_down"):
        assert result.rounds[name].iloc[-1] == result.clients[name].sum()
