"""Convolutions that stay one large matrix product when every client has its own kernel, and pooling.

`vmap` over the kernel of `lax.conv_general_dilated` is a grouped convolution, which XLA runs at 2 to 4 % of a CPU's peak
(and no faster inside a loop). Shifted slices and ONE matrix product do the same sums at the speed of the product.
"""

from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jax import lax

from fedsim.models.dense import affine
from fedsim.types import Model

Padding = Literal["SAME", "VALID"]


def image_shape(model: str, shape: tuple[int, ...], least: int = 1) -> tuple[int, int, int]:
    """(height, width, channels) of samples; `[height, width]` has one channel.

    Args:
      model: which asks, for the error.
      shape: of one sample.
      least: pixels that the shorter side must have.

    Raises:
      ValueError: for samples that are no images, or too small.
    """
    if len(shape) not in (2, 3):
        raise ValueError(f"{model} needs images [height, width, channels], samples have shape {tuple(shape)}; use mlp")
    height, width, depth = (*shape, 1)[:3]
    if min(height, width) < least:
        raise ValueError(f"{model} needs images of at least {least}×{least} pixels, samples have {height}×{width}")
    return height, width, depth


def network(init: Callable, body: Callable) -> Model:
    """A network on images without statistics, with the affine layer `last` behind its features.

    Args:
      init: key -> `{"params", "stats"}`.
      body: (params, x, convolve) -> features `[B, F]`; `convolve` is `convolution` in training, else `plain_convolution`.
    """

    def features(variables, x):
        return body(variables["params"], x, convolution)

    def head(variables, h):
        return affine(variables["params"]["last"], h)

    def apply(variables, x, *, mask=None, key=None, train=False):
        h = body(variables["params"], x, convolution if train else plain_convolution)
        return head(variables, h), variables["stats"]

    return Model(init=init, apply=apply, features=features, head=head)


def plain_convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """XLA's own convolution, for one kernel and many images.

    Args:
      x: images `[B, H, W, C]`.
      W: kernel `[k, k, C, out]`.
      stride: pixels between two places of the kernel, along either side.
      padding: `SAME`: ⌈H/stride⌉ places, zeros outside; `VALID`: only places inside the image.

    Returns:
      `[B, ⌈H/stride⌉, ⌈W/stride⌉, out]`, or what `VALID` leaves of it.
    """
    return lax.conv_general_dilated(x, W, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolution(x, W, stride: int = 1, padding: Padding = "SAME"):
    """`plain_convolution` as one matrix product, for training.

    Whichever moves fewer numbers: all k² shifts gathered into columns before the product; or the k shifts along the
    width gathered before it and those along the height added up behind it.
    """
    k, _, C, out = W.shape
    return _split(x, W, padding) if stride == 1 and C + out < k * C else _gathered(x, W, stride, padding)


def _gathered(x, W, stride: int, padding: Padding):
    """Columns `[B·H·W, k·k·C] @ [k·k·C, out]`."""
    k, _, C, out = W.shape
    shifts = [tap for row in _shifts(x, k, 1, stride, padding) for tap in _shifts(row, k, 2, stride, padding)]
    columns = jnp.concatenate(shifts, -1)
    return _product(columns.reshape(-1, k * k * C), W.reshape(-1, out)).reshape(*columns.shape[:3], out)


def _split(x, W, padding: Padding):
    """Columns `[B·H·W, k·C] @ [k·C, k·out]`, then the sum of k shifted slices."""
    k, _, C, out = W.shape
    columns = jnp.concatenate(_shifts(x, k, 2, 1, padding), -1)
    rows = _product(columns.reshape(-1, k * C), W.transpose(1, 2, 0, 3).reshape(k * C, k * out))
    rows = rows.reshape(*columns.shape[:3], k * out)
    shifts = _shifts(rows, k, 1, 1, padding)
    return sum(shift[..., i * out : (i + 1) * out] for i, shift in enumerate(shifts))


def _shifts(x, k: int, axis: int, stride: int, padding: Padding) -> list:
    """`x` along an axis as each of the k places of a kernel sees it; zero outside."""
    n = x.shape[axis]
    places = -(-n // stride) if padding == "SAME" else (n - k) // stride + 1
    beyond = max((places - 1) * stride + k - n, 0)
    if beyond:
        pad = [(beyond // 2, beyond - beyond // 2) if a == axis else (0, 0) for a in range(x.ndim)]
        x = jnp.pad(x, pad)
    return [lax.slice_in_dim(x, i, i + (places - 1) * stride + 1, stride, axis) for i in range(k)]


@jax.custom_vjp
def _product(columns, W):
    """`columns @ W`; its gradient of W is written columnsᵀ @ g, where autodiff would transpose gᵀ @ columns."""
    return columns @ W


_product.defvjp(lambda columns, W: (columns @ W, (columns, W)), lambda pair, g: (g @ pair[1].T, pair[0].T @ g))


def pool(x):
    """Maximum of every 2×2 square, `[B, H, W, C]` -> `[B, H//2, W//2, C]`; an odd last row or column is dropped."""
    B, H, W, C = x.shape
    return _maximum(x[:, : H // 2 * 2, : W // 2 * 2].reshape(B, H // 2, 2, W // 2, 2, C))


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
