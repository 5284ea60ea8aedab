"""Client learning-rate schedules: any optax schedule of plain numbers under its own name."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import optax
from annotated_types import Ge

from fedsim.compose import schedule

NUMBERS_ONLY = (
    "constant_schedule", "cosine_decay_schedule", "exponential_decay", "linear_schedule", "polynomial_schedule",
    "warmup_constant_schedule", "warmup_cosine_decay_schedule", "warmup_exponential_decay_schedule",
)  # fmt: skip


def by_name(factory: Callable) -> Callable:
    """An optax schedule's factory as a link: its own parameter names; counts are integers, the rest are floats."""
    parameters = []
    for name, parameter in inspect.signature(factory).parameters.items():
        default: Any = parameter.default
        whole = name.endswith(("steps", "begin"))
        kind: Any = bool if isinstance(default, bool) else Annotated[int, Ge(0)] if whole else float
        if default is None:
            kind = kind | None
        elif kind is float and default is not parameter.empty:
            default = float(default)
        parameters.append(
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default
            )
        )

    def build(**numbers: Any) -> Callable:
        return factory(**numbers)

    build.__name__ = build.__qualname__ = factory.__name__
    build.__doc__ = factory.__doc__
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return build


for _name in NUMBERS_ONLY:
    schedule(by_name(getattr(optax, _name)))
