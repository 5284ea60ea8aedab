"""Convolutions that stay large matrix products when every client has its own kernel, and pooling.

`vmap` over the kernel of `lax.conv_general_dilated` is a grouped convolution, which XLA runs at 2 to 4 % of a CPU's peak
(and no faster inside a loop). Shifted slices and matrix products do the same sums at the speed of the products.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.machine import platform
from fedsim.models.dense import affine
from fedsim.models.toom_cook import rows_at_once, short_convolution
from fedsim.types import Model

Padding = Literal["SAME", "VALID"] | int


class Side(NamedTuple):
    """One side of an image, as a kernel walks along it.

    Attributes:
      before: zeros in front of the first pixel.
      behind: zeros behind the last pixel that a kernel needs.
      places: of the kernel.
    """

    before: int
    behind: int
    places: int


def network(init: Callable, body: Callable) -> Model:
    """A network on images without statistics, with the affine layer `last` behind its features.

    Args:
      init: key -> `{"params", "stats"}`.
      body: (params, x, convolve) -> features `[B, F]`; `convolve` is what `convolution_of` gives.
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
    """`convolution`, or XLA's own where it is faster: one kernel for many images, on an accelerator."""
    return convolution if train or platform() == "cpu" else plain_convolution


def plain_convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """XLA's own convolution, for one kernel and many images.

    Args:
      x: images `[C, H, W, B]`.
      W: kernel `[k, k, C, out]`.
      stride: pixels between two places of the kernel, along either side.
      padding: a number: so many zeros on every side of the image, as in torch; `SAME`: ⌈H/stride⌉ places, zeros where they
        need them, an odd one behind, as in TensorFlow; `VALID`: only places inside the image.

    Returns:
      `[out, ⌈H/stride⌉, ⌈W/stride⌉, B]` with `SAME`; `[out, ⌊(H + 2p − k)/stride⌋ + 1, ⌊(W + 2p − k)/stride⌋ + 1, B]` with p
      zeros, of which `VALID` has none.
    """
    x = x.transpose(
        3, 1, 2, 0
    )  # on a CPU, XLA's convolution of batch-last images is 30 times slower
    zeros = [(padding, padding)] * 2 if isinstance(padding, int) else padding
    y = lax.conv_general_dilated(
        x, W, (stride, stride), zeros, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    return y.transpose(3, 1, 2, 0)


def convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """`plain_convolution` as matrix products.

    With fewer of them where that pays (`toom_cook`); not where few channels become many, since then results are larger
    than what is saved. Else as one product of all k² shifts: columns `[k·k·C, H·W·B]`.
    """
    k, _, C, out = W.shape
    before = side_of(x.shape[1], k, 1, padding).before
    m = rows_at_once(k, x.shape[1] + 2 * before - k + 1)
    if m and stride == 1 and out <= k * C:
        return short_convolution(x, W, m, before)
    shifts = [
        tap
        for row in _shifts(x, k, 1, stride, padding)
        for tap in _shifts(row, k, 2, stride, padding)
    ]
    columns = jnp.concatenate(shifts)
    return _product(columns.reshape(k * k * C, -1), W.reshape(-1, out)).reshape(
        out, *columns.shape[1:]
    )


def side_of(pixels: int, k: int, stride: int, padding: Padding) -> Side:
    """How a kernel of k pixels walks along a side of an image; `padding` as of `plain_convolution`.

    >>> side_of(8, 3, 2, "SAME"), side_of(8, 3, 2, 1)
    (Side(before=0, behind=1, places=4), Side(before=1, behind=0, places=4))
    """
    if padding == "SAME":
        places = -(-pixels // stride)
        before = max((places - 1) * stride + k - pixels, 0) // 2
    else:
        before = 0 if padding == "VALID" else padding
        places = (pixels + 2 * before - k) // stride + 1
    reached = (places - 1) * stride + k
    return Side(before, max(reached - before - pixels, 0), places)


def _shifts(x, k: int, axis: int, stride: int, padding: Padding) -> list:
    """`x` along an axis as each of the k places of a kernel sees it; zero outside."""
    side = side_of(x.shape[axis], k, stride, padding)
    if side.before or side.behind:
        zeros = [(0, 0)] * x.ndim
        zeros[axis] = (side.before, side.behind)
        x = jnp.pad(x, zeros)
    last = (side.places - 1) * stride + 1
    return [lax.slice_in_dim(x, i, i + last, stride, axis) for i in range(k)]


@jax.custom_vjp
def _product(columns, W):
    """`Wᵀ columns`; the gradient of W is written columns gᵀ, where autodiff would transpose g columnsᵀ."""
    return jnp.einsum("ko,kn->on", W, columns)


_product.defvjp(
    lambda columns, W: (_product(columns, W), (columns, W)),
    lambda pair, g: (pair[1] @ g, jnp.einsum("kn,on->ko", pair[0], g)),
)


def pool(x):
    """Maximum of every 2×2 square, `[C, H, W, B]` -> `[C, H//2, W//2, B]`; an odd last row or column is dropped."""
    C, H, W, B = x.shape
    return _maximum(x[:, : H // 2 * 2, : W // 2 * 2].reshape(C, H // 2, 2, W // 2, 2, B))


@jax.custom_vjp
def _maximum(squares):
    """The gradient goes to the first of equal maxima, as everywhere else; autodiff would count them, in three passes."""
    return squares.max((2, 4))


def _gradient_of_maximum(inputs, g):
    squares, top = inputs
    a, b, c = (squares[:, :, i, :, j] == top for i, j in ((0, 0), (0, 1), (1, 0)))
    first = [[a, b & ~a], [c & ~(a | b), ~(a | b | c)]]
    rows = [jnp.stack([jnp.where(mask, g, 0) for mask in row], 3) for row in first]
    return (jnp.stack(rows, 2),)


_maximum.defvjp(lambda squares: (top := squares.max((2, 4)), (squares, top)), _gradient_of_maximum)
