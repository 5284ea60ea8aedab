"""The table in which operators are registered."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Operator(NamedTuple):
    """An ATen operator in JAX.

    Attributes:
      call: the function, with the signature of the operator.
      keyed: whether it draws numbers, and takes `key=`.
      masked: whether it mixes the rows of a batch, and takes `mask=` `[B]`, the rows that count;
        None: all do.
    """

    call: Callable[..., Any]
    keyed: bool = False
    masked: bool = False


OPERATORS: dict[str, Operator] = {}


def operator(*names: str, keyed: bool = False, masked: bool = False) -> Callable:
    """Register a function as operators, such as `add.Tensor`."""

    def register(call: Callable) -> Callable:
        for name in names:
            OPERATORS[f"aten.{name}"] = Operator(call, keyed, masked)
        return call

    return register
