"""Rotated codecs: their signs, scales, and errors that average out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from test_quantisers import made

from fedsim.codecs.hadamard import rotate, signs
from fedsim.codecs.lloyd_max import centroids


@pytest.mark.long
def test_signs_are_drawn_bit_by_bit():
    for n in (1, 5, 32, 100):
        drawn = signs(jax.random.key(1), n)
        assert set(np.unique(drawn)) <= {-1.0, 1.0} and len(drawn) == n
    many = np.asarray(signs(jax.random.key(2), 40000))
    assert abs(many.sum()) < 5 * 200 and abs((many[1:] * many[:-1]).sum()) < 5 * 200
    assert np.mean(many != np.asarray(signs(jax.random.key(3), 40000))) > 0.45


def test_the_scale_of_drive_is_over_the_padded_vector():
    with jax.enable_x64(True):
        x, key = jnp.linspace(-1.0, 2.0, 5), jax.random.key(3)
        (scale, _, _), _, _ = jax.jit(made("drive", biased=True).encode)(x, (), key)
        rotated = jax.jit(lambda x, key: rotate(x, signs(key, 8)))(x, key)
        assert_allclose(scale, np.abs(rotated).mean(), rtol=1e-12)


@pytest.mark.long
def test_errors_of_unbiased_messages_average_out():
    """With 64 rotations of a vector, the error of the mean is near 1/64 of that of a message."""
    d = 1000
    x = jax.random.normal(jax.random.key(0), (d,))
    for kind, arguments in (("drive", {}), ("eden", {"bits": 3})):
        codec = made(kind, **arguments)
        one = lambda key: codec.decode(codec.encode(x, (), key)[0], d)
        y = jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(1), 64))
        alone, together = ((y - x) ** 2).sum(axis=1).mean(), ((y.mean(axis=0) - x) ** 2).sum()
        assert 0.9 < 64 * together / alone < 1.1
    scale_of = lambda codec: jax.jit(codec.encode)(x, (), jax.random.key(3))[0][0]
    one_bit_scale, scale = scale_of(made("drive")), scale_of(made("eden", bits=1))
    assert_allclose(one_bit_scale, scale * centroids(1)[1], rtol=1e-5)
