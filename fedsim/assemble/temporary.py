"""Bytes that a program needs while it runs, besides its arguments."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

# Operations that XLA computes within the one that reads them.
FUSED = {
    "abs", "add", "and", "bitcast_convert_type", "broadcast_in_dim", "ceil", "clamp",
    "concatenate", "convert_element_type", "copy", "div", "dynamic_slice", "eq", "erf", "erf_inv",
    "exp", "expand_dims", "expm1", "floor", "gather", "ge", "gt", "integer_pow", "iota",
    "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "not",
    "or", "pad", "pow", "reduce_precision", "rem", "reshape", "rev", "round", "rsqrt", "select_n",
    "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "slice", "sqrt",
    "square", "squeeze", "stop_gradient", "sub", "tanh", "transpose", "xor",
}  # fmt: skip


def traced_bytes(program: Any, *arguments: Any, donated: Any = ()) -> int:
    """Return the most bytes of values that exist at once, from a trace.

    XLA's own number is mostly between half and twice as large.

    Args:
      donated: those whose memory the results take.
    """
    leaves = jax.tree.leaves(donated)
    donated_bytes = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in leaves)
    peak_bytes = _peak_bytes(program.trace(*arguments).jaxpr.jaxpr)
    return max(peak_bytes - donated_bytes, 0)


def compiled_bytes(program: Any, *arguments: Any) -> int:
    """Return the bytes that the compiler reports, which compiles the program."""
    stats = program.lower(*arguments).compile().memory_analysis()
    if stats is None:
        return 0
    new_output_bytes = max(stats.output_size_in_bytes - stats.alias_size_in_bytes, 0)
    return int(stats.temp_size_in_bytes + new_output_bytes)


def _peak_bytes(jaxpr: Any) -> int:
    """The most bytes that a traced program holds at once.

    A value is held from the operation that makes it to the last one that reads it.
    """
    end = len(jaxpr.eqns)
    last = _last_reads(jaxpr)
    held = 0
    peak = 0
    freed: Counter[int] = Counter()  # bytes that are free after each operation
    for i, equation in enumerate(jaxpr.eqns):
        made = {}
        for variable in equation.outvars:
            is_result = last.get(variable, i) == end
            made[variable] = _value_bytes(equation, variable, is_result)
        made_bytes = sum(made.values())

        inner_bytes = max(map(_peak_bytes, _inner(equation)), default=0)
        if _is_loop(equation):
            working_bytes = inner_bytes + made_bytes
        else:
            working_bytes = max(inner_bytes, made_bytes)
        peak = max(peak, held + working_bytes)

        for variable, size in made.items():
            freed[last.get(variable, i)] += size
        held += made_bytes - freed[i]
    return peak


def _last_reads(jaxpr: Any) -> dict[Any, int]:
    """The number of the last operation that reads each variable; of results, one past the end."""
    end = len(jaxpr.eqns)
    last: dict[Any, int] = {}
    for i, equation in enumerate(jaxpr.eqns):
        for variable in _variables(equation.invars):
            last[variable] = i
    for variable in _variables(jaxpr.outvars):
        last[variable] = end

    # Whoever reads the result of a fused operation reads what the result is made of.
    for i, equation in reversed(list(enumerate(jaxpr.eqns))):
        if equation.primitive.name not in FUSED:
            continue
        until = max(last.get(variable, i) for variable in equation.outvars)
        if until < end:
            for variable in _variables(equation.invars):
                last[variable] = max(last[variable], until)
    return last


def _value_bytes(equation: Any, variable: Any, is_result: bool) -> int:
    """Bytes of a value that an operation makes; 0 where it is fused into whoever reads it."""
    is_fused = equation.primitive.name in FUSED and not is_result
    if is_fused or not hasattr(variable.aval, "shape"):
        return 0
    return math.prod(variable.aval.shape) * getattr(variable.aval.dtype, "itemsize", 8)


def _is_loop(equation: Any) -> bool:
    """Whether results are carried next to what the inner program makes, and are not that."""
    return equation.primitive.name in ("while", "scan")


def _variables(arguments: Any) -> list[Any]:
    """Arguments without literals, which cannot be hashed."""
    return [argument for argument in arguments if not hasattr(argument, "val")]


def _inner(equation: Any) -> Iterator[Any]:
    """The programs within an operation."""
    is_program = lambda leaf: hasattr(leaf, "eqns")
    for leaf in jax.tree.leaves(list(equation.params.values()), is_leaf=is_program):
        jaxpr = getattr(leaf, "jaxpr", leaf)
        if hasattr(jaxpr, "eqns"):
            yield jaxpr
