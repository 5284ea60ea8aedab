"""Every optax optimizer under its own name, behind the rule and on the client."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import optax
from annotated_types import Ge

from fedsim.compose import optimizer

# They need a loss, a line search or a key; are deprecated; or are in `rules/sgd.py`.
LEFT_OUT = {"polyak_sgd", "lbfgs", "noisy_sgd", "optimistic_adam", "sgd"}


def by_name(factory: Callable) -> Callable:
    """Wrap an optax factory as a link.

    `learning_rate` is called `lr`; other numbers have the same names, defaults and types.
    """
    parameters = [_keyword("lr", Annotated[float, Ge(0)], inspect.Parameter.empty)]
    for name, parameter in inspect.signature(factory).parameters.items():
        default = parameter.default
        kind = type(default)
        if kind is int:
            parameters.append(_keyword(name, int | float, default))
        elif kind in (bool, float):
            parameters.append(_keyword(name, kind, default))
        elif name == "momentum":
            parameters.append(_keyword(name, float | None, None))

    def build(lr: Any, **others: Any) -> optax.GradientTransformation:
        return factory(learning_rate=lr, **others)

    build.__name__ = build.__qualname__ = factory.__name__
    build.__doc__ = factory.__doc__
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return build


def _keyword(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


for _name, _factory in vars(optax).items():
    if getattr(_factory, "__module__", "") == "optax._src.alias" and inspect.isfunction(_factory):
        if "learning_rate" in inspect.signature(_factory).parameters and _name not in LEFT_OUT:
            optimizer(by_name(_factory))
