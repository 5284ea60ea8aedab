"""Operators that read or write at indices."""

import jax.numpy as jnp
from jax import lax

from fedsim.fields.torch.operators.registry import operator


@operator("embedding.default")
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    """The row `padding_idx` gets no gradient."""
    if padding_idx >= 0:
        fixed = lax.stop_gradient(weight[padding_idx])
        weight = weight.at[padding_idx].set(fixed)
    return weight[indices]


@operator("select.int")
def select(x, dim, index):
    return lax.index_in_dim(x, index, dim, keepdims=False)


@operator("slice.Tensor")
def slice_(x, dim=0, start=None, end=None, step=1):
    return x[_along(x, dim, slice(start, end, step))]


@operator("select_scatter.default")
def select_scatter(x, source, dim, index):
    return x.at[_along(x, dim, index)].set(source)


@operator("slice_scatter.default")
def slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    return x.at[_along(x, dim, slice(start, end, step))].set(source)


def _along(x, dim, index):
    """An index of one axis as one of all axes."""
    return (*(slice(None),) * (dim % x.ndim), index)


@operator("index.Tensor")
def index(x, indices):
    return x[_indices(indices)]


@operator("index_put.default", "_unsafe_index_put.default")
def index_put(x, indices, values, accumulate=False):
    at = x.at[_indices(indices)]
    return at.add(values) if accumulate else at.set(values)


def _indices(indices):
    return tuple(slice(None) if each is None else each for each in indices)


@operator("index_select.default")
def index_select(x, dim, index):
    return jnp.take(x, index, dim)


@operator("gather.default")
def gather(x, dim, index, sparse_grad=False):
    return x[_of_axis(index, dim)]


@operator("scatter.src", "scatter.value")
def scatter(x, dim, index, source):
    return x.at[_of_axis(index, dim)].set(_part(source, index))


@operator("scatter_add.default")
def scatter_add(x, dim, index, source):
    return x.at[_of_axis(index, dim)].add(_part(source, index))


def _part(source, index):
    """The corner of a tensor that an index asks for; a number as it is."""
    if jnp.ndim(source) == 0:
        return source
    return source[tuple(map(slice, index.shape))]


def _of_axis(index, dim):
    """Indices of all axes: that of one axis, and positions for the others."""
    grid = list(jnp.indices(index.shape, sparse=True))
    grid[dim % index.ndim] = index
    return tuple(grid)


@operator("masked_fill.Scalar", "masked_fill.Tensor")
def masked_fill(x, mask, value):
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)
