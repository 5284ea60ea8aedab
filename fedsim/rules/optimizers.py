"""After the rule, and on the client: any optax optimizer under its own name."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import optax
from annotated_types import Ge

from fedsim.compose import optimizer

# want a loss, a line search, a key; deprecated; `rules/sgd.py`
LEFT_OUT = {"polyak_sgd", "lbfgs", "noisy_sgd", "optimistic_adam", "sgd"}


def by_name(factory: Callable) -> Callable:
    """An optax factory as a link: `learning_rate` is called `lr`, other numbers keep their name, default and type."""
    parameters = [
        inspect.Parameter("lr", inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[float, Ge(0)])
    ]
    for name, parameter in inspect.signature(factory).parameters.items():
        kind = type(parameter.default)
        if kind in (bool, int, float):
            known = {"kind": inspect.Parameter.KEYWORD_ONLY, "default": parameter.default}
            parameters.append(
                inspect.Parameter(name, annotation=int | float if kind is int else kind, **known)
            )
        elif name == "momentum":
            known = {"kind": inspect.Parameter.KEYWORD_ONLY, "default": None}
            parameters.append(inspect.Parameter(name, annotation=float | None, **known))

    def build(lr: Any, **others: Any) -> optax.GradientTransformation:
        return factory(learning_rate=lr, **others)

    build.__name__ = build.__qualname__ = factory.__name__
    build.__doc__ = factory.__doc__
    build.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return build


for _name, _factory in vars(optax).items():
    if getattr(_factory, "__module__", "") == "optax._src.alias" and inspect.isfunction(_factory):
        if "learning_rate" in inspect.signature(_factory).parameters and _name not in LEFT_OUT:
            optimizer(by_name(_factory))
