"""Convolutions with fewer products: Toom and Cook's short convolution along the height.

m neighbouring positions of a kernel of k rows share m + k − 1 rows of the image. Read as values of
polynomials,

    y = A [(G w) ⊙ (D x)],    x: m + k − 1 rows,    w: k rows of the kernel,    y: m rows of the
    result,

with one product for each of m + k − 1 points, in place of m k: 8 instead of 20 with four rows of a
5×5 kernel, 6 instead of 12 with 3×3. Each "product" is a matrix product over channels and the
width, so that products remain large. The three small matrices hold sums of few terms. Their growth
costs one to two bits of accuracy (with m = 4 and k = 5, 2·10⁻⁶ of the largest value in float32,
where a plain sum has 6·10⁻⁷), which is why m and k stay small.

References:
  Winograd 1980, Arithmetic Complexity of Computations; Lavin & Gray 2016, Fast Algorithms for
  Convolutional Neural Networks, arXiv:1509.09308 (along both sides; here along one, so that
  products remain large).
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

POINTS = (0.0, 1.0, -1.0, 2.0, -2.0, 0.5, -0.5)  # and infinity
KERNELS = (3, 5, 7)  # rows of a kernel
MAX_POSITIONS = 4  # positions that share products: m


class Short(NamedTuple):
    """A short convolution of a kernel of k rows into m positions.

    Attributes:
      A: `[m, n]`, from products to positions; n = m + k − 1.
      G: `[n, k]`, of a kernel's rows.
      D: `[n, n]`, of an image's rows.
    """

    A: np.ndarray
    G: np.ndarray
    D: np.ndarray


@functools.cache
def short(m: int, k: int) -> Short:
    """Return the short convolution of m positions with a kernel of k rows.

    G and D are scaled by powers of two, to similar sizes.
    """
    points = np.array(POINTS[: m + k - 2])

    def powers(count: int) -> np.ndarray:
        """Values of 1, x, x², ... at all points; at infinity, only the highest `[n, count]`."""
        at_infinity = np.eye(count)[-1]
        return np.vstack([points[:, None] ** np.arange(count), at_infinity])

    other_points = [np.delete(points, j) for j in range(len(points))]

    # Rows of D: coefficients of the polynomials that are zero at all other points.
    numerators = [[*np.poly(others)[::-1], 0.0] for others in other_points]
    D = np.array([*numerators, np.poly(points)[::-1]])

    # Rows of G: values at the points, over the values of these polynomials there.
    denominators = [np.prod(p - others) for p, others in zip(points, other_points, strict=True)]
    G = powers(k) / np.array([*denominators, 1.0])[:, None]

    ratio = np.linalg.norm(G, axis=1) / np.linalg.norm(D, axis=1)
    scale = 2.0 ** np.round(np.log2(ratio) / 2)[:, None]
    return Short(powers(m).T, G / scale, D * scale)


def rows_at_once(k: int, positions: int) -> int | None:
    """Return how many of these positions should share products; None: a plain sum is as good.

    It is the number with the fewest products.
    """
    if k not in KERNELS:
        return None

    def products(m: int) -> int:
        return (m + k - 1) * -(-positions // m)

    most = min(MAX_POSITIONS, len(POINTS) + 2 - k)  # powers of more points would cost accuracy
    best = min(range(2, most + 1), key=products)
    return best if products(best) <= 0.75 * k * positions else None


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def short_convolution(x, W, m: int, before: int):
    """The convolution of stride 1 with zeros around the image.

    Args:
      x: images `[C, H, W, B]`.
      W: kernel `[k, k, C, out]`.
      m: positions along the height that share their products.
      before: rows and columns of zeros on every side; (k − 1)/2 for `SAME`, 0 for `VALID`.

    Returns:
      `[out, H + 2 before − k + 1, W + 2 before − k + 1, B]`.
    """
    return _forward(x, W, m, before)[0]


def _forward(x, W, m: int, before: int):
    k, _, C, out = W.shape
    _, H, width, B = x.shape
    height = H + 2 * before - k + 1
    width = width + 2 * before - k + 1

    kernels = _sums(short(m, k).G, W).reshape(-1, k * C, out)  # [n, k·C, out]
    n = len(kernels)
    columns = _columns(x, m, k, before)  # [n, k·C, T·W·B]
    products = jnp.einsum("pko,pkn->pon", kernels, columns)
    products = products.reshape(n, out, -1, width, B)  # [n, out, T, W, B]

    positions = _sums(short(m, k).A, products, axis=2)  # [out, T, m, W, B]
    y = positions.reshape(out, -1, width, B)[:, :height]
    return y, (x, W, kernels)


def _backward(m: int, before: int, inputs, g):
    """The gradients of all products, and the transposes of the three matrices around them."""
    x, W, kernels = inputs
    k, _, C, out = W.shape
    n = len(kernels)

    # From the gradient of the result to those of the products: Aᵀ.
    T = -(-g.shape[1] // m)  # tiles of m rows
    padded = jnp.pad(g, ((0, 0), (0, T * m - g.shape[1]), (0, 0), (0, 0)))
    tiles = padded.reshape(out, T, m, *g.shape[2:])
    products = _sums(short(m, k).A.T, [tiles[:, :, i] for i in range(m)])  # [n, out, T, W, B]
    flat = products.reshape(n, out, -1)

    # To those of kernels and columns: the products' own gradients.
    d_kernels = jnp.einsum("pkn,pon->pko", _columns(x, m, k, before), flat)
    d_columns = (kernels @ flat).reshape(-1, k, C, *products.shape[2:])  # [n, k, C, T, W, B]

    # To those of the image's rows: each tap along the width is shifted back, then Dᵀ.
    beyond = k - 1 - before  # columns that saw zeros, and those that were not asked for
    d_columns = jnp.pad(d_columns, ((0, 0),) * 4 + ((beyond, beyond), (0, 0)))
    width = x.shape[2]
    shifted = []
    for tap in range(k):
        first = k - 1 - tap
        shifted.append(d_columns[:, tap, ..., first : first + width, :])
    d_rows = _sums(short(m, k).D.T, functools.reduce(jnp.add, shifted))

    # To those of the kernel, Gᵀ, and of the image.
    d_W = _sums(short(m, k).G.T, d_kernels.reshape(-1, *W.shape[1:]))
    d_x = _overlapping(d_rows, m)[:, before : before + x.shape[1]]
    return d_x, d_W


short_convolution.defvjp(_forward, _backward)


def _columns(x, m: int, k: int, before: int):
    """Return an image's rows, combined for every point, as the k taps along the width see them.

    Args:
      x: images `[C, H, W, B]`.
      m: positions along the height that share their products.
      before: rows and columns of zeros on every side.

    Returns:
      `[n, k·C, T·W·B]`, for T tiles of m rows.
    """
    C, H, width, _ = x.shape
    T = -(-(H + 2 * before - k + 1) // m)
    behind = T * m + k - 1 - H - before
    x = jnp.pad(x, ((0, 0), (before, behind), (before, before), (0, 0)))

    # Row i of every tile, combined for every point.
    last = (T - 1) * m + 1
    rows = [lax.slice_in_dim(x, i, i + last, m, axis=1) for i in range(m + k - 1)]
    combined = _sums(short(m, k).D, rows)  # [n, C, T, W, B]

    width += 2 * before - k + 1
    taps = [combined[:, :, :, tap : tap + width] for tap in range(k)]
    return jnp.concatenate(taps, 1).reshape(len(combined), k * C, -1)


def _overlapping(rows, m: int):
    """Put tiles back into an image; where they overlap, they are added.

    Args:
      rows: `[n, C, T, W, B]`; row i of tile t belongs to row t·m + i of the image.
      m: rows from one tile to the next.

    Returns:
      `[C, H, W, B]`.
    """
    n = len(rows)
    over = -(-n // m)  # tiles that a row of the image belongs to, at most

    def shifted(i: int, s: int):
        return jnp.pad(rows[i + s * m], ((0, 0), (s, over - 1 - s), (0, 0), (0, 0)))

    sums = []
    for i in range(m):
        tiles = [shifted(i, s) for s in range(over) if i + s * m < n]
        sums.append(functools.reduce(jnp.add, tiles))
    stacked = jnp.stack(sums, 2)  # [C, T, m, W, B]
    return stacked.reshape(len(stacked), -1, *stacked.shape[3:])


def _sums(matrix: np.ndarray, parts, axis: int = 0):
    """Return sums of parts, one for each row of a small matrix, stacked along an axis.

    They start from a zero that the compiler does not know, so that every addition has one product
    to contract.
    """
    zero = lax.optimization_barrier(jnp.zeros((), parts[0].dtype))
    terms = [[float(c) * part for c, part in zip(row, parts, strict=True) if c] for row in matrix]
    return jnp.stack([functools.reduce(jnp.add, row, zero) for row in terms], axis)
