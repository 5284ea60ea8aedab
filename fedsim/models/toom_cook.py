"""Convolutions with fewer products: Toom and Cook's short convolution along the height, many channels at a time.

m neighbouring places of a kernel of k rows share m + k − 1 rows of the image. Read as values of polynomials,

    y = A [(G w) ⊙ (D x)],    x: m + k − 1 rows,    w: k rows of the kernel,    y: m rows of the result,

with one product for each of m + k − 1 points in place of m k: 8 for 20 with four rows of a 5×5 kernel, 6 for 12 with 3×3.
Each "product" is a matrix product over channels and the width. The three small matrices hold sums of few terms; their
growth costs one to two bits of accuracy (with m = 4 and k = 5, 2·10⁻⁶ of the largest value in float32 where a plain sum has
6·10⁻⁷), which is why m and k stay small.

References:
  Winograd 1980, Arithmetic Complexity of Computations; Lavin & Gray 2016, Fast Algorithms for Convolutional Neural Networks,
  arXiv:1509.09308 (along both sides; here along one, so that products stay large).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # and infinity
KERNELS = (3, 5, 7)  # rows of a kernel
MOST_PLACES = 4  # that share products: m


class Short(NamedTuple):
    """A short convolution of a kernel of k rows into m places.

    Attributes:
      A: `[m, n]`, from products to places; n = m + k − 1.
      G: `[n, k]`, of a kernel's rows.
      D: `[n, n]`, of an image's rows.
    """

    A: np.ndarray
    G: np.ndarray
    D: np.ndarray


@functools.cache
def short(m: int, k: int) -> Short:
    """The short convolution of m places with a kernel of k rows; G and D are scaled by powers of two to alike sizes."""
    points = np.array(POINTS[: m + k - 2])
    powers = lambda count: np.vstack([points[:, None] ** np.arange(count), np.eye(count)[-1]])
    others = [np.delete(points, j) for j in range(len(points))]
    D = np.array([[*np.poly(rest)[::-1], 0.0] for rest in others] + [np.poly(points)[::-1]])
    G = (
        powers(k)
        / np.array([*(np.prod(p - rest) for p, rest in zip(points, others, strict=True)), 1.0])[
            :, None
        ]
    )
    scale = (
        2.0 ** np.round(np.log2(np.linalg.norm(G, axis=1) / np.linalg.norm(D, axis=1)) / 2)[:, None]
    )
    return Short(powers(m).T, G / scale, D * scale)


def rows_at_once(k: int, places: int) -> int | None:
    """How many of these places should share products: as few products as can be; None where a plain sum does as well."""
    if k not in KERNELS:
        return None
    products = lambda m: (m + k - 1) * -(-places // m)
    most = min(MOST_PLACES, len(POINTS) + 2 - k)  # more points have powers that cost accuracy
    best = min(range(2, most + 1), key=products)
    return best if products(best) <= 0.75 * k * places else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def short_convolution(x, W, m: int, before: int):
    """The convolution of stride 1 with `before` zeros around the image: (k − 1)/2 for `SAME`, 0 for `VALID`.

    Args:
      x: images `[C, H, W, B]`.
      W: kernel `[k, k, C, out]`.
      m: places along the height that share their products.
      before: rows and columns of zeros on every side.

    Returns:
      `[out, H + 2 before − k + 1, W + 2 before − k + 1, B]`.
    """
    return _forward(x, W, m, before)[0]


def _forward(x, W, m: int, before: int):
    k, _, C, out = W.shape
    height, width = (side + 2 * before - k + 1 for side in x.shape[1:3])
    kernels = _sums(short(m, k).G, W).reshape(-1, k * C, out)
    products = jnp.einsum("pko,pkn->pon", kernels, _columns(x, m, k, before))
    places = _sums(
        short(m, k).A, products.reshape(len(kernels), out, -1, width, x.shape[3]), axis=2
    )
    return places.reshape(out, -1, width, x.shape[3])[:, :height], (x, W, kernels)


def _backward(m: int, before: int, inputs, g):
    """The gradients of every product, and the transposes of the three small matrices around them."""
    x, W, kernels = inputs
    k, _, C, out = W.shape
    T = -(-g.shape[1] // m)
    rows = jnp.pad(g, ((0, 0), (0, T * m - g.shape[1]), (0, 0), (0, 0))).reshape(
        out, T, m, *g.shape[2:]
    )
    products = _sums(short(m, k).A.T, [rows[:, :, i] for i in range(m)])
    flat = products.reshape(len(kernels), out, -1)
    d_kernels = jnp.einsum("pkn,pon->pko", _columns(x, m, k, before), flat)
    d_columns = (kernels @ flat).reshape(-1, k, C, *products.shape[2:])
    beyond = k - 1 - before  # places of the width that saw zeros, and those that were not asked for
    d_columns = jnp.pad(d_columns, ((0, 0),) * 4 + ((beyond, beyond), (0, 0)))
    shifted = [d_columns[:, j, ..., k - 1 - j : k - 1 - j + x.shape[2], :] for j in range(k)]
    d_rows = _sums(short(m, k).D.T, functools.reduce(jnp.add, shifted))
    d_W = _sums(short(m, k).G.T, d_kernels.reshape(-1, *W.shape[1:]))
    return _overlapping(d_rows, m)[:, before : before + x.shape[1]], d_W


short_convolution.defvjp(_forward, _backward)


def _columns(x, m: int, k: int, before: int):
    """An image's rows combined for every point, as the k places along the width see them: `[n, k·C, T·W·B]`."""
    C, H, width, _ = x.shape
    T = -(-(H + 2 * before - k + 1) // m)
    x = jnp.pad(x, ((0, 0), (before, T * m + k - 1 - H - before), (before, before), (0, 0)))
    rows = [lax.slice_in_dim(x, i, i + (T - 1) * m + 1, m, axis=1) for i in range(m + k - 1)]
    combined = _sums(short(m, k).D, rows)
    width += 2 * before - k + 1
    return jnp.concatenate([combined[:, :, :, j : j + width] for j in range(k)], 1).reshape(
        len(combined), k * C, -1
    )


def _overlapping(rows, m: int):
    """`[n, C, T, W, B]`, row i of tile t at t·m + i of the image -> `[C, H, W, B]`; tiles that overlap are added."""
    n, over = len(rows), -(-len(rows) // m)
    shifted = lambda i, s: jnp.pad(rows[i + s * m], ((0, 0), (s, over - 1 - s), (0, 0), (0, 0)))
    sums = [
        functools.reduce(jnp.add, [shifted(i, s) for s in range(over) if i + s * m < n])
        for i in range(m)
    ]
    stacked = jnp.stack(sums, 2)
    return stacked.reshape(len(stacked), -1, *stacked.shape[3:])


def _sums(matrix: np.ndarray, parts, axis: int = 0):
    """Sums of parts, one for each row of a small matrix, stacked along an axis.

    They start from a zero that the compiler does not know, so that every addition has one product to contract.
    """
    zero = lax.optimization_barrier(jnp.zeros((), parts[0].dtype))
    terms = [[float(c) * part for c, part in zip(row, parts, strict=True) if c] for row in matrix]
    return jnp.stack([functools.reduce(jnp.add, row, zero) for row in terms], axis)
