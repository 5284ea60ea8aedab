"""Client learning-rate schedules: any optax schedule of plain numbers under its own name."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import optax
from annotated_types import Ge

from fedsim.compose import schedule

NUMBERS_ONLY = (
    "constant_schedule",
    "cosine_decay_schedule",
    "exponential_decay",
    "linear_schedule",
    "polynomial_schedule",
    "warmup_constant_schedule",
    "warmup_cosine_decay_schedule",
    "warmup_exponential_decay_schedule",
)


def by_name(factory: Callable) -> Callable:
    """An optax schedule's factory as a kind, with annotations that optax leaves out."""
    signature = inspect.signature(factory)
    parameters = [_annotated(parameter) for parameter in signature.parameters.values()]

    def build(**numbers: Any) -> Callable:
        return factory(**numbers)

    build.__name__ = build.__qualname__ = factory.__name__
    build.__doc__ = factory.__doc__
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return build


def _annotated(parameter: inspect.Parameter) -> inspect.Parameter:
    """A keyword of an optax schedule with its type: counts are integers, other numbers floats."""
    default: Any = parameter.default
    annotation: Any
    if isinstance(default, bool):
        annotation = bool
    elif parameter.name.endswith(("steps", "begin")):
        annotation = Annotated[int, Ge(0)]
    else:
        annotation = float

    if default is None:
        annotation = annotation | None
    elif annotation is float and default is not parameter.empty:
        default = float(default)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(parameter.name, kind, annotation=annotation, default=default)


for _name in NUMBERS_ONLY:
    schedule(by_name(getattr(optax, _name)))
