"""Convolutions and pooling of images `[B, C, ...]`, or of one image `[C, ...]`."""

import math

import jax.numpy as jnp
from jax import lax

from fedsim.fields.torch.operators.registry import operator
from fedsim.models.convolution import convolution as products
from fedsim.models.convolution import pool

IMAGES = 4  # axes of a batch of them


@operator("convolution.default")
def convolution(x, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """`weight` is `[out, C/groups, ...]`; transposed `[C, out/groups, ...]`.

    Those of our own networks are computed as these are, with the batch last: as matrix products.
    """
    n = weight.ndim - 2
    stride, padding, dilation = (_of_axes(value, n) for value in (stride, padding, dilation))
    is_plain = n == 2 and groups == 1 and not transposed and set(dilation) == {1}
    if is_plain and all(len(set(sides)) == 1 for sides in (stride, padding, weight.shape[2:])):
        y = products(batch_last(x), weight.transpose(2, 3, 1, 0), stride[0], padding[0])
        y = batch_first(y)
        return y if bias is None else y + bias[:, None, None]
    widths = [(p, p) for p in padding]
    dilated_input = (1,) * n
    if transposed:
        output_padding = _of_axes(output_padding, n)
        weight = _turned(weight, groups)
        reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        widths = [
            (r - p, r - p + o) for r, p, o in zip(reach, padding, output_padding, strict=True)
        ]
        dilated_input, stride = stride, (1,) * n

    letters = "DHW"[3 - n :]
    layout = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    y = lax.conv_general_dilated(
        x,
        weight,
        window_strides=stride,
        padding=widths,
        lhs_dilation=dilated_input,
        rhs_dilation=dilation,
        dimension_numbers=layout,
        feature_group_count=groups,
    )
    return y if bias is None else y + bias.reshape(-1, *(1,) * n)


def batch_last(x):
    """`[B, C, H, W]` -> `[C, H, W, B]`."""
    return x.transpose(1, 2, 3, 0)


def batch_first(x):
    """`[C, H, W, B]` -> `[B, C, H, W]`."""
    return x.transpose(3, 0, 1, 2)


def _turned(weight, groups):
    """The kernel of a transposed convolution as that of a convolution."""
    C, out, *kernel = weight.shape
    apart = weight.reshape(groups, C // groups, out, *kernel)
    turned = jnp.swapaxes(apart, 1, 2).reshape(groups * out, C // groups, *kernel)
    return jnp.flip(turned, tuple(range(2, turned.ndim)))


def _of_axes(value, n):
    """A number for every axis."""
    value = [value] if isinstance(value, int) else value
    return tuple(value) * n if len(value) == 1 else tuple(value)


@operator("max_pool2d_with_indices.default", "max_pool3d_with_indices.default")
def max_pool(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """-> (values,); nothing may use where they were."""
    window = _windows(x, kernel_size, stride, padding, dilation, ceil_mode)
    if window == _windows(x, (2, 2), (), 0, 1, False) and x.ndim == IMAGES:
        return (batch_first(pool(batch_last(x))),)
    return (lax.reduce_window(x, -jnp.inf, lax.max, **window),)


@operator("avg_pool1d.default", "avg_pool2d.default", "avg_pool3d.default")
def avg_pool(
    x,
    kernel_size,
    stride=(),
    padding=0,
    ceil_mode=False,
    count_include_pad=True,
    divisor_override=None,
):
    window = _windows(x, kernel_size, stride, padding, 1, ceil_mode)
    total = lax.reduce_window(x, 0.0, lax.add, **window)
    if divisor_override is not None:
        return total / divisor_override
    if ceil_mode or not count_include_pad:
        counted = jnp.ones(x.shape, x.dtype)
        if count_include_pad:
            given = _windows(x, kernel_size, stride, padding, 1, False)["padding"]
            counted = jnp.pad(counted, given, constant_values=1)
            window["padding"] = [
                (0, high - p) for (_, high), (_, p) in zip(window["padding"], given, strict=True)
            ]
        return total / lax.reduce_window(counted, 0.0, lax.add, **window)
    return total / math.prod(window["window_dimensions"])


def _windows(x, kernel_size, stride, padding, dilation, ceil_mode):
    """Windows of the last axes, as `lax.reduce_window` takes them."""
    n = 1 if isinstance(kernel_size, int) else len(kernel_size)
    kernel_size = _of_axes(kernel_size, n)
    n = len(kernel_size)
    stride = _of_axes(stride, n) if stride or isinstance(stride, int) else kernel_size
    padding, dilation = _of_axes(padding, n), _of_axes(dilation, n)
    rows = x.ndim - n

    widths = []
    for size, k, s, p, d in zip(
        x.shape[rows:], kernel_size, stride, padding, dilation, strict=True
    ):
        reach = d * (k - 1) + 1
        room = size + 2 * p - reach
        extra = 0
        if ceil_mode:
            # The last window begins in x or in the padding before it.
            count = -(-room // s) + 1
            count -= (count - 1) * s >= size + p
            extra = max((count - 1) * s - room, 0)
        widths.append((p, p + extra))
    ones = (1,) * rows
    return {
        "window_dimensions": (*ones, *kernel_size),
        "window_strides": (*ones, *stride),
        "padding": [(0, 0)] * rows + widths,
        "window_dilation": (*ones, *dilation),
    }


@operator(
    "_adaptive_avg_pool2d.default", "_adaptive_avg_pool3d.default", "adaptive_avg_pool1d.default"
)
def adaptive_avg_pool(x, output_size):
    """Means over the windows ⌊i n/m⌋ to ⌈(i + 1) n/m⌉ of every axis."""
    for axis, m in enumerate(output_size, start=x.ndim - len(output_size)):
        n = x.shape[axis]
        if m == 1:
            x = jnp.mean(x, axis, keepdims=True)
            continue
        windows = [slice(i * n // m, -(-(i + 1) * n // m)) for i in range(m)]
        before = (slice(None),) * axis
        means = [jnp.mean(x[(*before, window)], axis, keepdims=True) for window in windows]
        x = jnp.concatenate(means, axis)
    return x


@operator("upsample_nearest2d.vec", "upsample_nearest1d.vec")
def upsample_nearest(x, output_size, scale_factors):
    sizes = output_size or [int(s * f) for s, f in zip(x.shape[2:], scale_factors, strict=True)]
    for axis, m in enumerate(sizes, start=2):
        index = [i * x.shape[axis] // m for i in range(m)]
        x = jnp.take(x, jnp.asarray(index), axis)
    return x
