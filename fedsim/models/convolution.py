"""The convolutional network, and a convolution that stays one large matrix product when every client has its own kernel.

`vmap` over the kernel of `lax.conv_general_dilated` is a grouped convolution, which XLA runs at 2 to 4 % of a CPU's peak
(and no faster inside a loop). Shifted slices and ONE matrix product do the same sums at the speed of the product.
"""

from typing import Annotated

import jax
import jax.numpy as jnp
from annotated_types import Ge, MinLen
from jax import lax

from fedsim.compose import model
from fedsim.models.dense import Build, Width, affine, glorot, he, weights
from fedsim.types import Model


@model
def cnn(
    channels: Annotated[list[Width], MinLen(1)] = [32, 64],  # noqa: B006 (read, never changed)
    kernel: Annotated[int, Ge(1)] = 5,
    hidden: Annotated[int, Ge(1)] = 512,
) -> Build:
    """Convolutional network: per entry of `channels` a convolution, 2×2 max-pooling and ReLU; then hidden, then classes.

    Convolutions keep height and width (zero padding); pooling halves them and drops an odd last row or column. With the
    defaults and 28×28×1 images: 1,663,370 parameters. Start as in `mlp`. `features` are the values of the hidden layer
    `[B, hidden]`, `head` is the last layer.

    Needs: images `[height, width, channels]`, or `[height, width]` for one channel.

    Args:
      channels: output channels of the convolutions.
      kernel: side of their square kernels.
      hidden: width of the hidden layer.
    Raises:
      ValueError: for samples that are no images, or too small for the kernel or to be halved so often.
    References:
      McMahan et al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data, arXiv:1602.05629.
    """

    def build(shape: tuple[int, ...], outputs: int) -> Model:
        height, width, depth = _image(shape, len(channels))
        if kernel >= 2 * max(height, width):
            text = f"cnn: kernels of {kernel}×{kernel} reach beyond {height}×{width} images from everywhere"
            raise ValueError(f"{text}; `kernel` at most {2 * max(height, width) - 1}")
        pixels = (height >> len(channels)) * (width >> len(channels))
        names = [f"conv{i}" for i in range(len(channels))]

        def init(key):
            keys = [jax.random.fold_in(key, i) for i in range(len(channels) + 2)]
            params, fan = {}, depth
            for name, k, out in zip(names, keys, channels, strict=False):
                params[name] = weights(k, (kernel, kernel, fan, out), he(kernel * kernel * fan))
                fan = out
            params["hidden"] = weights(keys[-2], (pixels * fan, hidden), he(pixels * fan))
            params["last"] = weights(keys[-1], (hidden, outputs), glorot(hidden, outputs))
            return {"params": params, "stats": {}}

        def body(params, x, convolve):
            h = x.reshape(len(x), height, width, depth)
            for name in names:  # ReLU and bias after pooling: the same values, at a quarter of the places
                h = jax.nn.relu(pool(convolve(h, params[name]["W"])) + params[name]["b"])
            return jax.nn.relu(affine(params["hidden"], h.reshape(len(x), -1)))

        def features(variables, x):
            return body(variables["params"], x, convolution)

        def head(variables, h):
            return affine(variables["params"]["last"], h)

        def apply(variables, x, *, mask=None, key=None, train=False):
            h = body(variables["params"], x, convolution if train else plain_convolution)
            return head(variables, h), variables["stats"]

        return Model(init=init, apply=apply, features=features, head=head)

    return build


def _image(shape: tuple[int, ...], halvings: int) -> tuple[int, int, int]:
    if len(shape) not in (2, 3):
        raise ValueError(f"cnn needs images [height, width, channels], samples have shape {tuple(shape)}; use mlp")
    height, width, depth = (*shape, 1)[:3]
    if min(height, width) >> halvings == 0:
        raise ValueError(f"cnn: {height}×{width} images cannot be halved {halvings} times; give fewer `channels`")
    return height, width, depth


def plain_convolution(x, W):
    """XLA's own convolution, for one kernel and many images: x `[B, H, W, C]`, W `[k, k, C, out]` -> `[B, H, W, out]`."""
    return lax.conv_general_dilated(x, W, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def convolution(x, W):
    """The same as one matrix product, for training: x `[B, H, W, C]`, W `[k, k, C, out]` -> `[B, H, W, out]`.

    Whichever moves fewer numbers: all k² shifts gathered into columns before the product; or the k shifts along the
    width gathered before it and those along the height added up behind it.
    """
    k, _, C, out = W.shape
    return _split(x, W) if C + out < k * C else _gathered(x, W)


def _gathered(x, W):
    """Columns `[B·H·W, k·k·C] @ [k·k·C, out]`."""
    k, _, C, out = W.shape
    columns = jnp.concatenate([tap for row in _shifts(x, k, 1) for tap in _shifts(row, k, 2)], -1)
    columns = columns.reshape(-1, k * k * C)
    return _product(columns, W.reshape(-1, out)).reshape(*x.shape[:3], out)


def _split(x, W):
    """Columns `[B·H·W, k·C] @ [k·C, k·out]`, then the sum of k shifted slices."""
    k, _, C, out = W.shape
    columns = jnp.concatenate(_shifts(x, k, 2), -1).reshape(-1, k * C)
    rows = _product(columns, W.transpose(1, 2, 0, 3).reshape(k * C, k * out)).reshape(*x.shape[:3], k * out)
    return sum(shift[..., i * out : (i + 1) * out] for i, shift in enumerate(_shifts(rows, k, 1)))


def _shifts(x, k: int, axis: int) -> list:
    """`x` read at offsets −⌊(k−1)/2⌋ … ⌊k/2⌋ along an axis, zero outside."""
    n, before = x.shape[axis], (k - 1) // 2
    padding = [(before, k - 1 - before) if a == axis else (0, 0) for a in range(x.ndim)]
    padded = jnp.pad(x, padding)
    return [lax.slice_in_dim(padded, i, i + n, axis=axis) for i in range(k)]


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
