"""Operators that reduce axes, or follow them."""

import jax
import jax.numpy as jnp

from fedsim.fields.torch.operators.registry import operator


def axes_of(dim):
    """Axes as JAX takes them; an empty list means all of them."""
    if dim is None or isinstance(dim, int):
        return dim
    return tuple(dim) or None


@operator("sum.default")
def sum_all(x, dtype=None):
    return jnp.sum(x, dtype=dtype)


@operator("sum.dim_IntList")
def sum_dims(x, dim=None, keepdim=False, dtype=None):
    return jnp.sum(x, axes_of(dim), dtype=dtype, keepdims=keepdim)


@operator("mean.default")
def mean_all(x, dtype=None):
    return jnp.mean(x, dtype=dtype)


@operator("mean.dim")
def mean_dims(x, dim=None, keepdim=False, dtype=None):
    return jnp.mean(x, axes_of(dim), dtype=dtype, keepdims=keepdim)


@operator("prod.default")
def prod_all(x, dtype=None):
    return jnp.prod(x, dtype=dtype)


@operator("prod.dim_int")
def prod_dim(x, dim, keepdim=False, dtype=None):
    return jnp.prod(x, dim, dtype=dtype, keepdims=keepdim)


@operator("amax.default")
def amax(x, dim=(), keepdim=False):
    return jnp.max(x, axes_of(dim), keepdims=keepdim)


@operator("amin.default")
def amin(x, dim=(), keepdim=False):
    return jnp.min(x, axes_of(dim), keepdims=keepdim)


@operator("max.default")
def max_all(x):
    return jnp.max(x)


@operator("min.default")
def min_all(x):
    return jnp.min(x)


@operator("max.dim")
def max_dim(x, dim, keepdim=False):
    return _at(x, jnp.argmax(x, dim, keepdims=True), dim, keepdim)


@operator("min.dim")
def min_dim(x, dim, keepdim=False):
    return _at(x, jnp.argmin(x, dim, keepdims=True), dim, keepdim)


def _at(x, index, dim, keepdim):
    """Values at an index of an axis, and the index."""
    values = jnp.take_along_axis(x, index, dim)
    return (values, index) if keepdim else (values.squeeze(dim), index.squeeze(dim))


@operator("argmax.default")
def argmax(x, dim=None, keepdim=False):
    return jnp.argmax(x, dim, keepdims=keepdim)


@operator("argmin.default")
def argmin(x, dim=None, keepdim=False):
    return jnp.argmin(x, dim, keepdims=keepdim)


@operator("any.default", "any.dim", "any.dims")
def any_(x, dim=None, keepdim=False):
    return jnp.any(x, axes_of(dim), keepdims=keepdim)


@operator("all.default", "all.dim", "all.dims")
def all_(x, dim=None, keepdim=False):
    return jnp.all(x, axes_of(dim), keepdims=keepdim)


@operator("var.correction")
def var(x, dim=None, correction=1, keepdim=False):
    return jnp.var(x, axes_of(dim), ddof=1 if correction is None else correction, keepdims=keepdim)


@operator("var.dim")
def var_dims(x, dim, unbiased=True, keepdim=False):
    return jnp.var(x, axes_of(dim), ddof=int(unbiased), keepdims=keepdim)


@operator("var_mean.correction")
def var_mean(x, dim=None, correction=1, keepdim=False):
    return var(x, dim, correction, keepdim), jnp.mean(x, axes_of(dim), keepdims=keepdim)


@operator("linalg_vector_norm.default")
def vector_norm(x, ord=2, dim=None, keepdim=False, dtype=None):
    x = x if dtype is None else x.astype(dtype)
    axes = axes_of(dim)
    size = jnp.abs(x)
    if ord == jnp.inf:
        return jnp.max(size, axes, keepdims=keepdim)
    if ord == 1:
        return jnp.sum(size, axes, keepdims=keepdim)
    return jnp.sum(size**ord, axes, keepdims=keepdim) ** (1 / ord)


@operator("cumsum.default")
def cumsum(x, dim, dtype=None):
    return jnp.cumsum(x, dim, dtype=dtype)


@operator("topk.default")
def topk(x, k, dim=-1, largest=True, sorted=True):
    last = jnp.moveaxis(x, dim, -1)
    _, index = jax.lax.top_k(last if largest else -last, k)
    values = jnp.take_along_axis(last, index, -1)
    return jnp.moveaxis(values, -1, dim), jnp.moveaxis(index, -1, dim)


@operator("sort.default", "sort.stable")
def sort(x, dim=-1, descending=False, stable=None):
    index = jnp.argsort(x, dim, descending=descending)
    return jnp.take_along_axis(x, index, dim), index


@operator("_softmax.default")
def softmax(x, dim, half_to_float=False):
    return jax.nn.softmax(x, dim)


@operator("_log_softmax.default")
def log_softmax(x, dim, half_to_float=False):
    return jax.nn.log_softmax(x, dim)


@operator("mm.default", "bmm.default", "matmul.default")
def matmul(x, other):
    return x @ other


@operator("addmm.default")
def addmm(bias, x, other, beta=1, alpha=1):
    product = x @ other
    product = product if alpha == 1 else alpha * product
    return product + (bias if beta == 1 else beta * bias)


@operator("dot.default")
def dot(x, other):
    return jnp.dot(x, other)
