"""LeNet and residual networks: the papers' sizes, training and evaluation, normalisation, bits."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sampled
from plain_resnet import plain_resnet

from fedsim.models import lenet, resnet
from fedsim.models.images import batch_last, of_channels
from fedsim.models.normalisation import batch_norm, group_norm, running

KEY = jax.random.key(3)


def numbers(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape))


def close(a, b, tolerance):
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=tolerance, rtol=tolerance), a, b
    )


@pytest.mark.parametrize(
    ("build", "shape", "count"),
    [
        (lenet(), (28, 28), 61_706),  # 6 and 16 kernels, layers of 120 and 84
        (resnet(20, "batch"), (32, 32, 3), 269_722),  # He et al.: 0.27 M
        pytest.param(  # Reddi et al.: 11.2 M
            resnet(18, "group"), (32, 32, 3), 11_173_962, marks=pytest.mark.long
        ),
        (
            resnet(8, "none"),
            (16, 16, 1),
            75_050 - 2 * 16 * 9,
        ),  # the biases alone, and a kernel for one channel
    ],
)
def test_parameters(build, shape, count):
    params = jax.eval_shape(build(shape, 10).init, KEY)["params"]
    assert sum(leaf.size for leaf in jax.tree.leaves(params)) == count


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
        close(ours, plain_resnet(params, np.asarray(x), 8, "group"), 1e-11)


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
                expected[sample, :, :, part] = (values - values.mean()) / np.sqrt(
                    values.var() + 1e-5
                )
        got = jax.jit(lambda p, x: samples(group_norm(p, batch_last(x, 3, 5, 6), 2)))(p, x)
        close(got, expected * p["scale"] + p["shift"], 1e-12)


@pytest.mark.long
@pytest.mark.parametrize(("dtype", "tolerance"), sampled([("float64", 1e-10), ("float32", 1e-4)]))
def test_gradient_of_group_normalisation_is_autodiffs(dtype, tolerance):
    def written_out(p, x):
        h = x.reshape(2, -1, x.shape[3])  # [groups, C/groups·H·W, B]
        h = (h - h.mean(1, keepdims=True)) / jnp.sqrt(h.var(1, keepdims=True) + 1e-5)
        return h.reshape(x.shape) * of_channels(p["scale"]) + of_channels(p["shift"])

    with jax.enable_x64(True):
        x = numbers(6, 3, 5, 4).astype(dtype)
        g = numbers(6, 3, 5, 4, seed=3).astype(dtype)
        p = {
            "scale": numbers(6, seed=1).astype(dtype),
            "shift": numbers(6, seed=2).astype(dtype),
        }
        mine = jax.vjp(lambda p, x: group_norm(p, x, 2), p, x)[1](g)
        expected = jax.vjp(written_out, p, x)[1](g)
        close(mine, expected, tolerance)


@pytest.mark.long
def test_group_normalisation_of_narrow_floats_keeps_their_type():
    p = {"scale": jnp.ones(4, jnp.bfloat16), "shift": jnp.zeros(4, jnp.bfloat16)}
    x = numbers(4, 3, 3, 2).astype(jnp.bfloat16)
    value, pull = jax.vjp(lambda p, x: group_norm(p, x, 2), p, x)
    assert value.dtype == x.dtype
    assert {leaf.dtype for leaf in jax.tree.leaves(pull(value))} == {x.dtype}


@pytest.mark.long
def test_batch_normalisation_counts_valid_rows_alone():
    with jax.enable_x64(True):
        x, p = numbers(5, 3, 2, 4), {"scale": numbers(4, seed=1), "shift": numbers(4, seed=2)}
        mask = jnp.asarray([True, True, False, True, False])
        valid = np.asarray(x)[np.asarray(mask)].reshape(-1, 4)
        images, damaged = batch_last(x, 3, 2, 4), batch_last(x.at[2].set(jnp.nan), 3, 2, 4)
        values, moved = batch_norm(p, running(4), damaged, mask, train=True)
        expected = (x - valid.mean(0)) / np.sqrt(valid.var(0) + 1e-5) * p["scale"] + p["shift"]
        close(samples(values)[mask], expected[mask], 1e-12)
        close(moved, {"mean": 0.1 * valid.mean(0), "var": 0.9 + 0.1 * valid.var(0, ddof=1)}, 1e-12)
        unmoved = batch_norm(p, moved, images, jnp.zeros(5, bool), train=True)[1]
        close(unmoved, moved, 0)
        still = (x - moved["mean"]) / np.sqrt(moved["var"] + 1e-5) * p["scale"] + p["shift"]
        close(samples(batch_norm(p, moved, images, mask, train=False)[0]), still, 1e-12)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: resnet(20, groups=3), "3 do not divide the 16 channels"),
        (lambda: resnet()((64,), 10), "resnet needs images"),
        (lambda: lenet()((28,), 10), "lenet needs images"),
        (lambda: lenet()((8, 8), 10), "at least 12×12"),
    ],
)
def test_refusals(make, says):
    with pytest.raises(ValueError, match=says):
        make()
