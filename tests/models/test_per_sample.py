"""A gradient for every sample of a batch: against that of the batch, and against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from conftest import sampled
from test_lanes import X64, by_hand, ragged

import fedsim
from fedsim import tree
from fedsim.clients import sgd
from fedsim.compose.shapes import ContractError
from fedsim.engine.task import task
from fedsim.losses import cross_entropy
from fedsim.types import Batch, Model


def forward(variables, x, *, mask=None, key=None, train=False):
    params = variables["params"]
    return jnp.tanh(x @ params["W"]) + params["b"], variables["stats"]


def job(**model):
    """The task of a small network, W [5, 3] and b [3]."""
    net = Model(init=lambda key: {}, apply=forward, **model)
    return task(net, cross_entropy(), optax.sgd, lambda lr, step: lr, 3)


def batch(rows: int, real: int) -> Batch:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(rows, 5)), rng.integers(0, 3, rows)
    mask = np.arange(rows) < real
    x[~mask] = np.nan  # whatever fills a batch up
    return Batch(x, y, mask, jax.random.key(1), np.int32(0))


@pytest.mark.parametrize("real", sampled([4, 1, 6, 0], 4))
@pytest.mark.parametrize(
    "objective", [None, pytest.param(lambda v, o, b: o.sum(1), marks=pytest.mark.long)]
)
def test_their_mean_is_the_gradient_of_the_batch(real, objective):
    with jax.enable_x64(True):
        work = job()
        params = {"W": np.random.default_rng(1).normal(size=(5, 3)), "b": np.linspace(-1, 1, 3)}
        rows = batch(6, real)
        # A mean over a batch multiplies what fills it up by zero.
        clean = rows._replace(x=np.nan_to_num(rows.x))
        variables = {"params": params, "stats": {}}
        per_sample = lambda batch: work.per_sample(variables, batch, objective)
        of_batch = lambda batch: work.value_and_grad(variables, batch, objective)
        both = jax.jit(lambda rows, clean: (per_sample(rows), of_batch(clean)))
        ((losses, stats), each), ((loss, _), g) = both(rows, clean)
        mean = jax.tree.map(lambda leaf: np.sum(leaf, 0) / max(real, 1), each)
        np.testing.assert_allclose(losses.sum() / max(real, 1), loss, rtol=1e-12)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14), mean, g)
        assert stats == {} and losses.shape == (6,) and each["W"].shape == (6, 5, 3)
        assert not losses[real:].any() and not each["W"][real:].any() and not each["b"][real:].any()


@pytest.mark.parametrize(("mixes", "stats"), [(True, {}), (False, {"mean": 0.0})])
def test_a_model_whose_rows_see_each_other_is_refused(mixes, stats):
    line = "the rows of a batch see each other in this model; take one without stat"
    with pytest.raises(ContractError, match=line):
        job(mixes_rows=mixes).per_sample({"params": {}, "stats": stats}, None)


@fedsim.client
def clipped(norm: float = 1.0):
    """Every sample's gradient, clipped, as on the page about clients."""

    def gradient(task, variables, batch, local, shared, work):
        (losses, stats), rows = task.per_sample(variables, batch)
        n = batch.mask.sum().astype(work.lr.dtype)
        factor = jnp.minimum(1, norm / jnp.maximum(tree.norms(rows, tree.zero_row(rows)), 1e-12))
        return (losses.sum() / n, stats), tree.over(tree.weighted_sum(rows, factor), n)

    return sgd()._replace(gradient=gradient)


@pytest.mark.long
@pytest.mark.parametrize("norm", [0.4, 100.0])
def test_a_client_that_clips_every_sample_is_that_of_numpy(norm):
    client = {"kind": "clipped", "norm": norm, "lr": 0.3, "batch": 4, "epochs": 1, "shuffle": False}
    written = {"name": "clipped", "rounds": 2, "client": client, "numerics": X64}
    got = fedsim.run(written, data=ragged()).model()
    for name, want in by_hand(ragged(), rounds=2, epochs=1, norm=norm).items():
        np.testing.assert_allclose(got[name], want, rtol=1e-11, atol=1e-14)


def test_a_run_that_asks_for_it_where_rows_see_each_other_is_refused():
    params = {"W": jnp.zeros((ragged().x.shape[1], 3)), "b": jnp.zeros(3)}
    net = Model(lambda key: {"params": params, "stats": {}}, forward, mixes_rows=True)
    written = {"name": "x", "rounds": 1, "client": {"kind": "clipped", "batch": "full"}}
    line = "client clipped: gradient asks for the gradient of every sample, and the rows of a batch"
    with pytest.raises(fedsim.ScenarioError, match=line):
        fedsim.run(written, data=ragged(), model=net)
