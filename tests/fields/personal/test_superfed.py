"""SuPerFed against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from near_points import ALL, NEAR, SIZES, D, means, played, points

from fedsim.compose import tag_of
from fedsim.engine.keys import Phase, round_key

COHORTS = [[0, 3, 4], [1, 2, 5], [6], [0, 1, 3, 5], ALL]
MU, NU, SHARE, STEP, LR, STEPS = 0.3, 0.8, 0.4, 0.7, 0.2, 2


MODEL = (
    lambda key: {"p": jax.random.normal(key, (D,)), "q": jnp.zeros(())},
    lambda p, x: 0.5 * jnp.sum((p["p"] + p["q"] - x) ** 2, axis=-1),
)


def xi(number: int, client: int, step: int) -> float:
    """The mixture of a batch, the only thing that is drawn."""
    key = round_key(jax.random.key(0), number, Phase.CLIENT)
    key = jax.random.fold_in(jax.random.fold_in(key, client), step)
    key = jax.random.fold_in(key, tag_of("superfed"))
    return float(jax.random.uniform(key, (), jnp.float64))


def flat(params) -> np.ndarray:
    return np.append(params["p"], params["q"])


def penalties(w, v, x):
    """As the authors' `superfed_update`: norms of differences by leaf, and the squared cosine."""
    pull = np.zeros(D + 1)
    for leaf in (slice(0, D), slice(D, D + 1)):
        apart = np.linalg.norm((w - x)[leaf])
        if apart > 0:
            pull[leaf] = (w - x)[leaf] / apart
    ww, vv, wv = w @ w, v @ v, w @ v
    by_w = 2 * wv / (ww * vv) * v - 2 * wv**2 / (ww**2 * vv) * w
    by_v = 2 * wv / (ww * vv) * w - 2 * wv**2 / (ww * vv**2) * v
    return MU * pull + NU * by_w, NU * by_v


@pytest.mark.long
def test_superfed_is_that_of_its_authors():
    """With partial cohorts, an empty client, a round of nobody, and a server step.

    A client's own model is between the shared one and its own point.
    """
    with jax.enable_x64():
        draws = {
            (r, i, k): xi(r, i, k)
            for r in range(1, len(COHORTS) + 1)
            for i in ALL
            for k in range(STEPS)
        }
    client = {"kind": "superfed", "mu": MU, "nu": NU, "share": SHARE}
    server = ["mean", {"kind": "sgd", "lr": STEP}]
    seen, result = played(COHORTS, model=MODEL, client=client, server=server)
    start, end = result.experiment.shared[0]["params"], seen[-1]
    got = result.state()["client"]["v"]
    x = flat(start["shared"])
    v = {i: flat(start["own"]) for i in ALL}
    sizes = np.array(SIZES, float)
    for number, cohort in enumerate(COHORTS, start=1):
        able = [i for i in cohort if SIZES[i]]
        deltas = []
        for i in able:
            w = x
            for k in range(STEPS):
                share = draws[number, i, k]
                theta = (1 - share) * w + share * v[i]
                residual = theta[:D] + theta[D] - means()[i]
                g = np.append(residual, residual.sum())
                by_w, by_v = penalties(w, v[i], x)
                w = w - LR * ((1 - share) * g + by_w)
                v[i] = v[i] - LR * (share * g + by_v)
            deltas.append(w - x)
        if able:
            x = x + STEP * sizes[able] @ np.array(deltas) / sizes[able].sum()
    np.testing.assert_allclose(flat(end["shared"]), x, **NEAR)
    for i in ALL:
        np.testing.assert_allclose(flat(jax.tree.map(lambda leaf, i=i: leaf[i], got)), v[i], **NEAR)
        theta = (1 - SHARE) * x + SHARE * v[i]
        losses = 0.5 * ((theta[:D] + theta[D] - points()[0]) ** 2).sum(1)
        np.testing.assert_allclose(result.predict(points()[0], client=i), losses, **NEAR)
    np.testing.assert_array_equal(flat(end["own"]), flat(start["own"]))
    messages = sum(map(len, COHORTS))
    assert result.rounds["bytes_up"].iloc[-1] == 4 * (D + 1) * messages  # as of one model
