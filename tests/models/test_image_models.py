"""Residual networks and normalisation against plain NumPy and autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from plain_resnet import plain_resnet
from test_models import KEY, close, numbers

from fedsim.models import resnet
from fedsim.models.images import batch_last, of_channels
from fedsim.models.normalisation import batch_norm, group_norm, running


def scattered(model, seed=0):
    """Parameters of which none is at its start, so that every layer and every shift counts."""
    variables = jax.jit(model.init)(KEY)
    leaves, structure = jax.tree.flatten(variables["params"])
    moved = []
    for number, leaf in enumerate(leaves):
        fan_in = leaf.size / leaf.shape[-1]
        noise = np.random.default_rng(seed + number).normal(size=leaf.shape)
        moved.append(leaf + 0.3 * noise / np.sqrt(fan_in))
    return {**variables, "params": jax.tree.unflatten(structure, moved)}


def classes_of(model, variables):
    """Parameters -> classes of images in training."""
    return lambda params, x: model.apply({**variables, "params": params}, x, train=True)[0]


@pytest.mark.long
def test_residual_networks_are_torchs():
    with jax.enable_x64(True):
        model = resnet(8, "group")((6, 5, 2), 3)
        variables, x = scattered(model), numbers(2, 6, 5, 2)
        ours = jax.jit(classes_of(model, variables))(variables["params"], x)
        params = jax.tree.map(np.asarray, variables["params"])
        close(ours, plain_resnet(params, np.asarray(x), 8), 1e-11)


def samples(images):
    """`[C, H, W, B]` as `[B, H, W, C]`."""
    return images.transpose(3, 1, 2, 0)


def test_group_normalisation():
    with jax.enable_x64(True):
        x, p = numbers(2, 3, 5, 6), {"scale": numbers(6, seed=1), "shift": numbers(6, seed=2)}
        expected = np.empty(x.shape)
        for sample in range(2):
            for part in (slice(0, 3), slice(3, 6)):
                values = np.asarray(x[sample, :, :, part])
                centred = values - values.mean()
                expected[sample, :, :, part] = centred / np.sqrt(values.var() + 1e-5)
        got = jax.jit(lambda p, x: samples(group_norm(p, batch_last(x, 3, 5, 6), 2)))(p, x)
        close(got, expected * p["scale"] + p["shift"], 1e-12)


@pytest.mark.long
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-4), ("bfloat16", 0.1)]
)
def test_gradient_of_group_normalisation_is_autodiffs(dtype, tolerance):
    def written_out(p, x):
        h = x.reshape(2, -1, x.shape[3])  # [groups, C/groups·H·W, B]
        h = (h - h.mean(1, keepdims=True)) / jnp.sqrt(h.var(1, keepdims=True) + 1e-5)
        return h.reshape(x.shape) * of_channels(p["scale"]) + of_channels(p["shift"])

    with jax.enable_x64(True):
        x, g = (numbers(6, 3, 5, 4, seed=seed, dtype=dtype) for seed in (0, 3))
        scale, shift = (numbers(6, seed=seed, dtype=dtype) for seed in (1, 2))
        p = {"scale": scale, "shift": shift}

        def both(normalised):
            def value_and_gradient(p, x):
                value, pull = jax.vjp(normalised, p, x)
                return value, pull(g)

            return jax.jit(value_and_gradient)(p, x)

        mine = both(lambda p, x: group_norm(p, x, 2))
        assert {leaf.dtype.name for leaf in jax.tree.leaves(mine)} == {dtype}
        close(mine, both(written_out), tolerance)


@pytest.mark.long
def test_batch_normalisation_counts_valid_rows_alone():
    with jax.enable_x64(True):
        x, p = numbers(5, 3, 2, 4), {"scale": numbers(4, seed=1), "shift": numbers(4, seed=2)}
        mask = jnp.asarray([True, True, False, True, False])
        valid = np.asarray(x)[np.asarray(mask)].reshape(-1, 4)
        images, damaged = batch_last(x, 3, 2, 4), batch_last(x.at[2].set(jnp.nan), 3, 2, 4)
        norm = jax.jit(batch_norm, static_argnames="train")
        values, moved = norm(p, running(4), damaged, mask, train=True)
        expected = (x - valid.mean(0)) / np.sqrt(valid.var(0) + 1e-5) * p["scale"] + p["shift"]
        close(samples(values)[mask], expected[mask], 1e-12)
        close(moved, {"mean": 0.1 * valid.mean(0), "var": 0.9 + 0.1 * valid.var(0, ddof=1)}, 1e-12)
        unmoved = norm(p, moved, images, jnp.zeros(5, bool), train=True)[1]
        close(unmoved, moved, 0)
        still = (x - moved["mean"]) / np.sqrt(moved["var"] + 1e-5) * p["scale"] + p["shift"]
        close(samples(norm(p, moved, images, mask, train=False)[0]), still, 1e-12)
