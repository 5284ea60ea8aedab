"""ATen operators in JAX: a function for each, with the signature of the operator.

`table()` has them by name, as `aten.add.Tensor`. Arguments that only say where or how a tensor is
stored (`device`, `layout`, `memory_format`, ...) are taken away before the call.
"""

import functools
from importlib import import_module
from typing import Any

from fedsim.fields.torch.operators.registry import OPERATORS, Operator

MODULES = (
    "attention",
    "convolutions",
    "elementwise",
    "indexing",
    "linear",
    "normalisation",
    "random",
    "recurrent",
    "reductions",
    "shapes",
)


@functools.cache
def table() -> dict[str, Operator]:
    """Return name -> operator, of all that there are."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
    return OPERATORS


def known(target: Any) -> Operator | None:
    """Return the operator of a node's target; None: there is none."""
    return table().get(str(target))
