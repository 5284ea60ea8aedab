"""Operators that make tensors, or lay them out anew."""

import jax.numpy as jnp
from jax import lax

from fedsim.fields.torch.operators.registry import operator


@operator("view.default", "_unsafe_view.default", "reshape.default")
def view(x, size):
    return x.reshape(size)


@operator("permute.default")
def permute(x, dims):
    return jnp.transpose(x, dims)


@operator("transpose.int")
def transpose(x, dim0, dim1):
    return jnp.swapaxes(x, dim0, dim1)


@operator("t.default")
def t(x):
    return x.T


@operator("unsqueeze.default")
def unsqueeze(x, dim):
    return jnp.expand_dims(x, dim)


@operator("squeeze.default", "squeeze.dim", "squeeze.dims")
def squeeze(x, dim=None):
    """Axes of another size than one stay."""
    dims = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return jnp.squeeze(x, tuple(d for d in dims if x.shape[d] == 1))


@operator("expand.default")
def expand(x, size, implicit=False):
    """A size of -1 is that of x."""
    new = len(size) - x.ndim
    shape = [x.shape[i - new] if n == -1 else n for i, n in enumerate(size)]
    return jnp.broadcast_to(x, shape)


@operator("repeat.default")
def repeat(x, repeats):
    return jnp.tile(x, repeats)


@operator("cat.default")
def cat(tensors, dim=0):
    """Empty tensors of one axis fit any others."""
    some = [tensor for tensor in tensors if tensor.shape != (0,)]
    return jnp.concatenate(some or tensors, dim)


@operator("stack.default")
def stack(tensors, dim=0):
    return jnp.stack(tensors, dim)


@operator("split_with_sizes.default")
def split_with_sizes(x, split_sizes, dim=0):
    starts = [sum(split_sizes[:i]) for i in range(1, len(split_sizes))]
    return jnp.split(x, starts, dim)


@operator("split.Tensor")
def split(x, split_size, dim=0):
    return jnp.split(x, range(split_size, x.shape[dim], split_size), dim)


@operator("unbind.int")
def unbind(x, dim=0):
    return list(jnp.moveaxis(x, dim, 0))


@operator("flip.default")
def flip(x, dims):
    return jnp.flip(x, tuple(dims))


@operator("roll.default")
def roll(x, shifts, dims=()):
    return jnp.roll(x, tuple(shifts), tuple(dims) or None)


@operator("clone.default", "alias.default", "lift_fresh_copy.default", "contiguous.default")
def clone(x):
    return x


@operator("detach.default")
def detach(x):
    return lax.stop_gradient(x)


@operator("_to_copy.default")
def to_copy(x, dtype=None, non_blocking=False):
    return x if dtype is None else x.astype(dtype)


@operator("copy.default")
def copy(x, source, non_blocking=False):
    return jnp.broadcast_to(source, x.shape).astype(x.dtype)


@operator("constant_pad_nd.default")
def constant_pad(x, pad, value=0):
    """`pad` names axes from the last one; numbers below 0 cut."""
    widths = _widths(x, pad)
    padded = jnp.pad(
        x,
        [(max(a, 0), max(b, 0)) for a, b in widths],
        constant_values=0 if value is None else value,
    )
    cut = [
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(widths, padded.shape, strict=True)
    ]
    return padded[tuple(cut)]


@operator("reflection_pad1d.default", "reflection_pad2d.default", "reflection_pad3d.default")
def reflection_pad(x, padding):
    return jnp.pad(x, _widths(x, padding), mode="reflect")


@operator("replication_pad1d.default", "replication_pad2d.default", "replication_pad3d.default")
def replication_pad(x, padding):
    return jnp.pad(x, _widths(x, padding), mode="edge")


def _widths(x, pad):
    """Widths before and behind every axis."""
    of_last = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)]
    return [(0, 0)] * (x.ndim - len(of_last)) + of_last[::-1]


@operator("full.default")
def full(size, fill_value, dtype=None):
    return jnp.full(size, fill_value, dtype)


@operator("full_like.default")
def full_like(x, fill_value, dtype=None):
    return jnp.full_like(x, fill_value, dtype)


@operator("zeros.default", "empty.memory_format")
def zeros(size, dtype=None):
    return jnp.zeros(size, dtype)


@operator("ones.default")
def ones(size, dtype=None):
    return jnp.ones(size, dtype)


@operator("zeros_like.default", "empty_like.default")
def zeros_like(x, dtype=None):
    return jnp.zeros_like(x, dtype)


@operator("ones_like.default")
def ones_like(x, dtype=None):
    return jnp.ones_like(x, dtype)


@operator("fill.Scalar", "fill.Tensor")
def fill(x, value):
    return jnp.full_like(x, value)


@operator("scalar_tensor.default")
def scalar_tensor(s, dtype=None):
    return jnp.asarray(s, dtype)


@operator("arange.start_step")
def arange(start, end, step=1, dtype=None):
    return jnp.arange(start, end, step, dtype)


@operator("tril.default")
def tril(x, diagonal=0):
    return jnp.tril(x, diagonal)


@operator("triu.default")
def triu(x, diagonal=0):
    return jnp.triu(x, diagonal)


@operator("diagonal.default")
def diagonal(x, offset=0, dim1=0, dim2=1):
    return jnp.diagonal(x, offset, dim1, dim2)


@operator("pixel_shuffle.default")
def pixel_shuffle(x, upscale_factor):
    """`[..., C r², H, W]` -> `[..., C, H r, W r]`."""
    r = upscale_factor
    *rows, channels, height, width = x.shape
    C = channels // (r * r)
    apart = x.reshape(*rows, C, r, r, height, width)
    n = len(rows)
    order = [*range(n), n, n + 3, n + 1, n + 4, n + 2]
    return apart.transpose(order).reshape(*rows, C, height * r, width * r)
