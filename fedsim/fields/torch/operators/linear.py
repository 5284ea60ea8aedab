"""Layers, whose weights are `[out, in]` in torch."""

import jax
import jax.numpy as jnp

from fedsim.fields.torch.operators.registry import operator
from fedsim.models.dense import is_short, sum_of_outer

TURNED = (((1,), (1,)), ((), ()))  # the last axes of both are summed over


@operator("linear.default")
def linear(x, weight, bias=None):
    outputs = _product(x, weight) if is_short(x) else x @ weight.T
    return outputs if bias is None else outputs + bias


@jax.custom_vjp
def _product(x, weight):
    """`x @ weight.T` of a short batch, as fast as `fedsim.models.dense.product`.

    The batch is turned, not the weight. The gradient is a sum of outer products, which compilers
    fuse with the optimizer's step.
    """
    return jax.lax.dot_general(weight, x, TURNED).T


def _product_and_inputs(x, weight):
    return _product(x, weight), (x, weight)


def _gradients(inputs, g):
    x, weight = inputs
    return g @ weight, sum_of_outer(_computed_once(g), _computed_once(x))


_product.defvjp(_product_and_inputs, _gradients)


def _computed_once(rows):
    """Rows that no loop computes again.

    Compilers compute cheap values, such as the choice of a batch, again in each loop that reads
    them. Here the innermost loop is over the inputs, and would be three times slower. A division
    counts as dear; that by a one which the compiler does not know changes no bit.
    """
    one = jax.lax.optimization_barrier(jnp.ones((), rows.dtype))
    return rows / one
