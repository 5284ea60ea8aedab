"""Other people's models in the form of ours."""

from collections.abc import Callable
from typing import Any

from fedsim.types import Model


def as_model(init: Any, apply: Callable | None = None) -> Model:
    """Wrap plain functions `init(key) -> params` and `apply(params, x) -> outputs` as a `Model`.

    Args:
      init: the first function, or a pair `(init, apply)`, or an object with both as attributes, or a `Model`.
      apply: the second function; `x` is a batch `[B, ...]`, `outputs` has the same leading axis.

    Raises:
      TypeError: when neither form fits.
    """
    if isinstance(init, Model):
        return init
    if apply is None:
        init, apply = _pair(init)
    assert apply is not None
    inner_init, inner_apply = init, apply

    def wrapped_init(key):
        return {"params": inner_init(key), "state": {}}

    def wrapped_apply(variables, x, *, mask=None, key=None, train=False):
        del mask, key, train
        return inner_apply(variables["params"], x), variables["state"]

    return Model(wrapped_init, wrapped_apply)


def _pair(model: Any) -> tuple[Callable, Callable]:
    if isinstance(model, tuple) and len(model) == 2 and all(callable(part) for part in model):
        return model[0], model[1]
    init, apply = getattr(model, "init", None), getattr(model, "apply", None)
    if callable(init) and callable(apply):
        return init, apply
    raise TypeError(f"model: {type(model).__name__} is no Model, no pair (init, apply) and has no .init and .apply")
