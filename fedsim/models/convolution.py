"""Convolutions that remain large matrix products if every client has its own kernel, and pooling.

Under `vmap` over its kernel, `lax.conv_general_dilated` becomes a grouped convolution, which XLA
runs at 2 to 4 % of a CPU's peak (and no faster inside a loop). Shifted slices and matrix products
compute the same sums at the speed of the products.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.machine import platform
from fedsim.models.computing import is_narrow
from fedsim.models.dense import affine
from fedsim.models.toom_cook import rows_at_once, short_convolution
from fedsim.types import Model

Padding = Literal["SAME", "VALID"] | int


class Side(NamedTuple):
    """One side of an image, as a kernel walks along it.

    Attributes:
      before: zeros in front of the first pixel.
      behind: zeros behind the last pixel that a kernel needs.
      positions: positions of the kernel.
    """

    before: int
    behind: int
    positions: int


def network(init: Callable, body: Callable) -> Model:
    """Return a network on images, without statistics, that ends in the affine layer `last`.

    Args:
      init: key -> `{"params", "stats"}`.
      body: (params, x, convolve) -> features `[B, F]`; `convolve` is what `convolution_of` returns.
    """

    def features(variables, x):
        return body(variables["params"], x, convolution)

    def head(variables, h):
        return affine(variables["params"]["last"], h)

    def apply(variables, x, *, mask=None, key=None, train=False):
        h = body(variables["params"], x, convolution_of(train))
        return head(variables, h), variables["stats"]

    return Model(init=init, apply=apply, features=features, head=head)


def convolution_of(train: bool) -> Callable:
    """Return `convolution`, or XLA's where that is faster.

    XLA's is faster with one kernel for many images, on an accelerator.
    """
    return convolution if train or platform() == "cpu" else plain_convolution


def plain_convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """XLA's convolution, for one kernel and many images.

    Args:
      x: images `[C, H, W, B]`.
      W: kernel `[k, k, C, out]`.
      stride: pixels between two positions of the kernel, along either side.
      padding: a number: zeros on every side of the image, as in torch; `SAME`: ⌈H/stride⌉
        positions, with zeros where they need them, an odd one behind, as in TensorFlow; `VALID`:
        only positions inside the image.

    Returns:
      `[out, ⌈H/stride⌉, ⌈W/stride⌉, B]` with `SAME`; `[out, ⌊(H + 2p − k)/stride⌋ + 1, ⌊(W + 2p −
      k)/stride⌋ + 1, B]` with p zeros, where `VALID` has none.
    """
    # On a CPU, XLA's convolution of images with the batch last is 30 times slower.
    x = x.transpose(3, 1, 2, 0)
    zeros = [(padding, padding)] * 2 if isinstance(padding, int) else padding
    y = lax.conv_general_dilated(
        x, W, (stride, stride), zeros, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y.transpose(3, 1, 2, 0)


def convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """`plain_convolution` as matrix products.

    Where it pays, with fewer of them (`toom_cook`); not where few channels become many, since
    results are then larger than what is saved, and not for narrow floats, whose few bits it would
    cost. Otherwise as one product over all k² shifts of the image, which are the columns `[k·k·C,
    H·W·B]`.
    """
    k, _, C, out = W.shape
    before = side_of(x.shape[1], k, 1, padding).before
    positions = x.shape[1] + 2 * before - k + 1
    m = rows_at_once(k, positions)
    if m and stride == 1 and out <= k * C and not is_narrow(x):
        return short_convolution(x, W, m, before)

    shifts = []
    for rows in _shifts(x, k, 1, stride, padding):
        shifts += _shifts(rows, k, 2, stride, padding)
    columns = jnp.concatenate(shifts)  # [k·k·C, H, W, B]
    y = _product(columns.reshape(k * k * C, -1), W.reshape(-1, out))
    return y.reshape(out, *columns.shape[1:])


def side_of(pixels: int, k: int, stride: int, padding: Padding) -> Side:
    """Return how a kernel of k pixels walks along a side of an image.

    Args:
      padding: as for `plain_convolution`.

    >>> side_of(8, 3, 2, "SAME"), side_of(8, 3, 2, 1)
    (Side(before=0, behind=1, positions=4), Side(before=1, behind=0, positions=4))
    """
    if padding == "SAME":
        positions = -(-pixels // stride)  # rounded up
        before = max((positions - 1) * stride + k - pixels, 0) // 2
    else:
        before = 0 if padding == "VALID" else padding
        positions = (pixels + 2 * before - k) // stride + 1
    reached = (positions - 1) * stride + k
    return Side(before, max(reached - before - pixels, 0), positions)


def _shifts(x, k: int, axis: int, stride: int, padding: Padding) -> list:
    """Return `x` as each of a kernel's k taps along an axis sees it; zero outside the image."""
    side = side_of(x.shape[axis], k, stride, padding)
    if side.before or side.behind:
        zeros = [(0, 0)] * x.ndim
        zeros[axis] = (side.before, side.behind)
        x = jnp.pad(x, zeros)
    length = (side.positions - 1) * stride + 1
    return [lax.slice_in_dim(x, tap, tap + length, stride, axis) for tap in range(k)]


@jax.custom_vjp
def _product(columns, W):
    """`Wᵀ columns`; the gradient of W is columns gᵀ, where autodiff would transpose g columnsᵀ."""
    return jnp.einsum("ko,kn->on", W, columns)


def _product_and_inputs(columns, W):
    return _product(columns, W), (columns, W)


def _product_gradients(inputs, g):
    columns, W = inputs
    return W @ g, jnp.einsum("kn,on->ko", columns, g)


_product.defvjp(_product_and_inputs, _product_gradients)


def pool(x):
    """The maximum of every 2×2 square, `[C, H, W, B]` -> `[C, H//2, W//2, B]`.

    An odd last row or column is dropped.
    """
    C, H, W, B = x.shape
    even = x[:, : H // 2 * 2, : W // 2 * 2]
    return _maximum(even.reshape(C, H // 2, 2, W // 2, 2, B))


@jax.custom_vjp
def _maximum(squares):
    """The maximum of squares `[C, H, 2, W, 2, B]`.

    The gradient goes to the first of equal maxima, as in other libraries. Autodiff would divide it
    among them, in three passes.
    """
    return squares.max((2, 4))


def _maximum_and_place(squares):
    """The maximum, and which of the four it is: the gradient needs no more of the squares."""
    top = squares.max((2, 4))
    a, b, c = (squares[:, :, i, :, j] == top for i, j in ((0, 0), (0, 1), (1, 0)))
    place = jnp.where(a, 0, jnp.where(b, 1, jnp.where(c, 2, 3))).astype(jnp.int32)
    return top, place


def _gradient_of_maximum(place, g):
    places = jnp.asarray([[0, 1], [2, 3]], place.dtype)
    is_first = place[:, :, None, :, None] == places[:, None, :, None]
    return (jnp.where(is_first, g[:, :, None, :, None], 0),)


_maximum.defvjp(_maximum_and_place, _gradient_of_maximum)
