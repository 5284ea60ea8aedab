"""Operators of single numbers.

Where a function has a kink, its gradient there is torch's.
"""

import jax
import jax.numpy as jnp

from fedsim.fields.torch.operators.registry import operator

UNARY = {
    "abs": jnp.abs,
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "bitwise_not": jnp.bitwise_not,
    "ceil": jnp.ceil,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "erf": jax.scipy.special.erf,
    "exp": jnp.exp,
    "expm1": jnp.expm1,
    "floor": jnp.floor,
    "isinf": jnp.isinf,
    "isnan": jnp.isnan,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "logical_not": jnp.logical_not,
    "neg": jnp.negative,
    "reciprocal": jnp.reciprocal,
    "relu": jax.nn.relu,
    "round": jnp.round,
    "rsqrt": jax.lax.rsqrt,
    "sigmoid": jax.nn.sigmoid,
    "sign": jnp.sign,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "trunc": jnp.trunc,
}

# Of two tensors, or of a tensor and a number.
BINARY = {
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
    "eq": jnp.equal,
    "fmod": jnp.fmod,
    "ge": jnp.greater_equal,
    "gt": jnp.greater,
    "le": jnp.less_equal,
    "lt": jnp.less,
    "mul": jnp.multiply,
    "ne": jnp.not_equal,
    "pow": jnp.power,
    "remainder": jnp.remainder,
}

BINARY_OF_TENSORS = {
    "atan2": jnp.arctan2,
    "logical_and": jnp.logical_and,
    "logical_or": jnp.logical_or,
    "logical_xor": jnp.logical_xor,
    "maximum": jnp.maximum,
    "minimum": jnp.minimum,
}

for name, function in UNARY.items():
    operator(f"{name}.default")(function)
for name, function in BINARY.items():
    operator(f"{name}.Tensor", f"{name}.Scalar")(function)
for name, function in BINARY_OF_TENSORS.items():
    operator(f"{name}.default")(function)
operator("pow.Tensor_Tensor")(jnp.power)


@operator("add.Tensor", "add.Scalar")
def add(x, other, alpha=1):
    return x + (other if alpha == 1 else alpha * other)


@operator("sub.Tensor", "sub.Scalar")
def sub(x, other, alpha=1):
    return x - (other if alpha == 1 else alpha * other)


@operator("rsub.Scalar", "rsub.Tensor")
def rsub(x, other, alpha=1):
    return other - (x if alpha == 1 else alpha * x)


@operator("div.Tensor", "div.Scalar")
def div(x, other):
    return x / other


@operator("div.Tensor_mode", "div.Scalar_mode")
def div_rounded(x, other, rounding_mode=None):
    if rounding_mode is None:
        return x / other
    if rounding_mode == "floor":
        return jnp.floor_divide(x, other)
    return jnp.trunc(x / other)


@operator("pow.Tensor_Scalar")
def pow_scalar(x, exponent):
    # A whole number as such: the gradient at 0 is finite, as in torch.
    whole = int(exponent) if float(exponent).is_integer() else exponent
    return x**whole


@operator("pow.Scalar")
def scalar_pow(base, exponent):
    return jnp.power(jnp.asarray(base, exponent.dtype), exponent)


@operator("where.self", "where.ScalarOther", "where.ScalarSelf", "where.Scalar")
def where(condition, x, other):
    return jnp.where(condition, x, other)


@operator("clamp.default", "clamp.Tensor")
def clamp(x, min=None, max=None):
    """The gradient is 1 at both ends."""
    if min is not None:
        x = jnp.where(x < min, min, x)
    if max is not None:
        x = jnp.where(x > max, max, x)
    return x


@operator("hardtanh.default")
def hardtanh(x, min_val=-1.0, max_val=1.0):
    """The gradient is 0 at both ends."""
    clipped = jax.lax.stop_gradient(jnp.clip(x, min_val, max_val))
    return jnp.where((x > min_val) & (x < max_val), x, clipped)


@operator("leaky_relu.default")
def leaky_relu(x, negative_slope=0.01):
    return jnp.where(x > 0, x, negative_slope * x)


@operator("elu.default")
def elu(x, alpha=1.0, scale=1.0, input_scale=1.0):
    below = alpha * jnp.expm1(jnp.where(x > 0, 0, x) * input_scale)
    return scale * jnp.where(x > 0, x, below)


@operator("gelu.default")
def gelu(x, approximate="none"):
    return jax.nn.gelu(x, approximate=approximate == "tanh")
