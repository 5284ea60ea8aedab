"""Laws for every registered codec: extremes, infinities, downlinks; others are in `conform`.

Those of sizes, blocks and resumes, which a user's codecs keep as well, are tried by
`fedsim check --laws`.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cohorts import cohort_of, context_of
from conftest import own_kinds_of
from numpy.testing import assert_array_equal
from reference.alone import made

import fedsim
from fedsim.compose import codec_stage, initial_memory, lift

pytestmark = pytest.mark.usefixtures("quickly_compiled")

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
ROW_BY_ROW = [kind for kind in KINDS if kind not in SUMMED]
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


def link(kind: str) -> dict:
    return {"kind": kind, **NEEDED.get(kind, {})}


@pytest.mark.quick(12)
@pytest.mark.parametrize("kind", KINDS)
def test_extreme_rows_arrive_as_numbers(kind):
    """In float32, at any magnitude: no overflow, no division by a zero norm, no large growth."""
    rows = np.stack([*ROWS.values()]).astype(np.float32)
    arrived, size = fedsim.transmit(link(kind), rows)
    if kind == "count_sketch":
        arrived = np.stack([fedsim.transmit(link(kind), row[None])[0][0] for row in rows])
    assert arrived.shape == rows.shape and arrived.dtype == np.float32
    small = [name not in ("huge", "one huge", "mixed") for name in ROWS]
    whole = np.isfinite(arrived).all(axis=1)
    assert whole[small].all(), dict(zip(ROWS, whole, strict=True))
    assert whole.all() or kind in OVERFLOWS, dict(zip(ROWS, whole, strict=True))
    assert (size > 0).all()
    assert not arrived[:2].any()  # a zero row is a zero row


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
    updates = through_one(stage, row, memories)
    if not codec.linear:
        assert np.isfinite(updates.delta).all(axis=1).tolist() == [True, False, False]
    for before, after in zip(
        jax.tree.leaves(memories), jax.tree.leaves(updates.memory), strict=True
    ):
        assert_array_equal(before[1:], after[1:])


def through_one(stage, rows, memory):
    """A stack by way of the stage, with memories."""
    K, D = rows.shape
    updates = cohort_of(rows, memory=memory, bytes=jnp.full(K, 4 * D, jnp.int32))
    context = context_of(K, shared={"params": jnp.zeros(D)})
    return lift(stage).apply(updates, (), context)[0]


RUN = {
    "name": "codecs",
    "rounds": 4,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
    "cohort": {"kind": "uniform", "size": 5},
    "server": [{"kind": "mean", "weights": "uniform"}],
}


def run(kind: str, **changes) -> fedsim.Result:
    """With an MLP, so that there are matrices."""
    network = {"kind": "mlp", "hidden": [6]}
    return fedsim.run({**RUN, "model": network, "wire": [link(kind)], **changes})


@pytest.mark.long
@pytest.mark.parametrize(
    "kind", [kind for kind in ROW_BY_ROW if kind != "error_feedback"]
)  # refused there
def test_every_codec_sends_models_out_too(kind):
    """Differences, where a codec leaves out much of what it sends."""
    codec = (
        link(kind)
        if kind in ("ef21", "cast", "lazy", "diana")
        else {"kind": "ef21", "codec": link(kind)}
    )
    result = run("cast", broadcast=[codec], wire=[])
    assert result.status == "done" and np.isfinite(result.rounds["test_loss"]).all()
    for name in ("bytes_up", "bytes_down"):
        assert result.rounds[name].iloc[-1] == result.clients[name].sum()
