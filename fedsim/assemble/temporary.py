"""Bytes that a program needs while it runs, besides what goes in: counted from its trace, or told by the compiler."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax

FUSED = {  # operations that XLA computes within the one that reads them
    "abs", "add", "and", "bitcast_convert_type", "broadcast_in_dim", "ceil", "clamp", "concatenate",
    "convert_element_type", "copy", "div", "dynamic_slice", "eq", "erf", "erf_inv", "exp", "expand_dims", "expm1",
    "floor", "gather", "ge", "gt", "integer_pow", "iota", "is_finite", "le", "log", "log1p", "logistic", "lt",
    "max", "min", "mul", "ne", "neg", "not", "or", "pad", "pow", "reduce_precision", "rem", "reshape", "rev",
    "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "slice",
    "sqrt", "square", "squeeze", "stop_gradient", "sub", "tanh", "transpose", "xor",
}  # fmt: skip


def counted(program: Any, *arguments: Any, donated: Any = ()) -> int:
    """The most bytes of values that are there at once, from a trace; XLA's own number is mostly within twice and half of it.

    Args:
      program: made by `jax.jit`.
      arguments: their shapes.
      donated: those whose memory the results take.
    """
    taken = sum(math.prod(leaf.shape) * leaf.dtype.itemsize for leaf in jax.tree.leaves(donated))
    return max(_peak(program.trace(*arguments).jaxpr.jaxpr) - taken, 0)


def measured(program: Any, *arguments: Any) -> int:
    """What the compiler says, which compiles the program."""
    stats = program.lower(*arguments).compile().memory_analysis()
    if stats is None:
        return 0
    return int(
        stats.temp_size_in_bytes + max(stats.output_size_in_bytes - stats.alias_size_in_bytes, 0)
    )


def _peak(jaxpr: Any) -> int:
    """The most bytes that a traced program holds at once: a value from where it is made to where it is last read."""
    end, last = len(jaxpr.eqns), dict[Any, int]()
    for i, equation in enumerate(jaxpr.eqns):
        last |= dict.fromkeys(_read(equation.invars), i)
    last |= dict.fromkeys(_read(jaxpr.outvars), end)
    for i, equation in reversed(list(enumerate(jaxpr.eqns))):
        if equation.primitive.name in FUSED:  # whoever reads the result reads what it is made of
            until = max(last.get(variable, i) for variable in equation.outvars)
            last |= {
                variable: max(last[variable], until)
                for variable in _read(equation.invars)
                if until < end
            }
    held = most = 0
    ending: Counter[int] = Counter()  # bytes that are free after each operation
    for i, equation in enumerate(jaxpr.eqns):
        made = {v: _held(equation, v, last.get(v, i) == end) for v in equation.outvars}
        inner = max(map(_peak, _inner(equation)), default=0)
        within = (
            max(inner, sum(made.values())) if not _loops(equation) else inner + sum(made.values())
        )
        most = max(most, held + within)
        for variable, size in made.items():
            ending[last.get(variable, i)] += size
        held += sum(made.values()) - ending[i]
    return most


def _held(equation: Any, variable: Any, result: bool) -> int:
    """Bytes of a value that an operation makes; none where it is fused into whoever reads it."""
    if (equation.primitive.name in FUSED and not result) or not hasattr(variable.aval, "shape"):
        return 0
    return math.prod(variable.aval.shape) * getattr(variable.aval.dtype, "itemsize", 8)


def _loops(equation: Any) -> bool:
    """Whether the results are carried beside what the program within makes, and are not that."""
    return equation.primitive.name in ("while", "scan")


def _read(variables: Any) -> list[Any]:
    """Variables without literals, which cannot be hashed."""
    return [variable for variable in variables if not hasattr(variable, "val")]


def _inner(equation: Any) -> Iterator[Any]:
    """The programs within an operation."""
    for inner in jax.tree.leaves(
        list(equation.params.values()), is_leaf=lambda leaf: hasattr(leaf, "eqns")
    ):
        inner = getattr(inner, "jaxpr", inner)
        if hasattr(inner, "eqns"):
            yield inner
