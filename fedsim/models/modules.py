"""Modules of Flax (linen, nnx) and Equinox as models.

They are recognised by the names of their types; a library is imported only for one of its modules.
"""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedsim.types import Model

LIBRARIES = ("flax.linen", "flax.nnx", "equinox")

# Names of the arguments by which networks ask whether they are being trained.
TRAINING = ("train", "training", "is_training")
NOT_TRAINING = ("deterministic", "inference", "use_running_average")


def wrapped(thing: Any, example: Callable | None) -> Model | None:
    """Return a module, or a function `key -> module`, as a model; None for anything else.

    Args:
      thing: perhaps a module.
      example: makes a batch of one sample; None: the samples' shape is unknown.
    """
    library = library_of(thing)
    if library == "flax.linen":
        return linen(thing, example)
    if library == "flax.nnx":
        return nnx(thing, lambda key: thing)
    if library == "equinox":
        return equinox(thing, lambda key: thing)

    may_make_modules = (
        callable(thing)
        and not isinstance(thing, type)
        and not hasattr(thing, "apply")
        and required_arguments(thing) == 1
    )
    if not may_make_modules:
        return None
    module = thing(jax.random.key(0))
    library = library_of(module)
    if library == "flax.linen":
        return linen(module, example)
    if library == "flax.nnx":
        return nnx(module, thing)
    if library == "equinox":
        return equinox(module, thing)
    return None


def library_of(thing: Any) -> str:
    """Return the library whose module `thing` is an instance of, or an empty string."""
    for kind in type(thing).__mro__:
        for library in LIBRARIES:
            if kind.__module__ == library or kind.__module__.startswith(library + "."):
                return library
    return ""


def linen(module: Any, example: Callable | None) -> Model:
    """Return a Flax linen module as a model; all its collections but `params` are stats.

    Raises:
      ValueError: without an example, which `module.init(rngs, x)` needs.
    """
    if example is None:
        raise ValueError(
            "model: a linen module needs a sample; "
            "give as_model(..., shape=) its shape without the batch, "
            "or return build(shape, outputs) from a kind of model"
        )
    names = accepted_names(type(module).__call__, 2)

    def init(key):
        rngs = {"params": key, "dropout": jax.random.fold_in(key, 0)}
        x = example()
        options = options_for(names, mask=jnp.ones(1, bool), key=key, train=False)
        collections = dict(module.init(rngs, x, **options))
        params = collections.pop("params", {})
        return {"params": params, "stats": collections}

    def apply(variables, x, *, mask=None, key=None, train=False):
        stats = variables["stats"]
        collections = {"params": variables["params"], **stats}
        options = options_for(names, mask, key, train)
        rngs = None if key is None else {"dropout": key}
        if not (train and stats):
            return module.apply(collections, x, rngs=rngs, **options), stats
        outputs, new = module.apply(collections, x, rngs=rngs, mutable=list(stats), **options)
        return outputs, {**stats, **new}

    collections = jax.eval_shape(init, jax.random.key(0))["stats"]
    mixes_rows = "batch_stats" in collections and "mask" not in names
    return Model(init, apply, mixes_rows=mixes_rows)


def nnx(module: Any, make: Callable) -> Model:
    """Return a Flax nnx module as a model.

    Its `nnx.Param`s are params, and all other variables are stats, except for random streams, which
    restart from the batch's key.

    Args:
      module: the module.
      make: key -> such a module with start values.
    """
    from flax import nnx as flax_nnx  # pyright: ignore[reportMissingImports]

    def split(m) -> Any:
        return flax_nnx.split(m, flax_nnx.Param, flax_nnx.RngState, ...)

    def is_key(leaf) -> bool:
        return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)

    def filled(state, values):
        state = jax.tree.map(lambda leaf: leaf, state)  # new variables that belong to this trace
        flax_nnx.replace_by_pure_dict(state, values)
        return state

    pure = flax_nnx.to_pure_dict
    graph, params_state, stream_state, stats_state = split(module)
    names = accepted_names(type(module).__call__, 2)

    def init(key):
        _, params, _, stats = split(make(key))
        return {"params": pure(params), "stats": pure(stats)}

    def apply(variables, x, *, mask=None, key=None, train=False):
        leaves, tree = jax.tree.flatten(stream_state)
        if key is not None:
            leaves = [
                jax.random.fold_in(key, i) if is_key(leaf) else leaf
                for i, leaf in enumerate(leaves)
            ]
        merged = flax_nnx.merge(
            graph,
            filled(params_state, variables["params"]),
            tree.unflatten(leaves),
            filled(stats_state, variables["stats"]),
        )
        if train:
            merged.train()
        else:
            merged.eval()
        outputs = merged(x, **options_for(names, mask, key, train))
        if not train:
            return outputs, variables["stats"]
        _, _, _, stats = split(merged)
        return outputs, pure(stats)

    averages = bool(jax.tree.leaves(flax_nnx.state(module, flax_nnx.BatchStat)))
    return Model(init, apply, mixes_rows=averages and "mask" not in names)


def equinox(module: Any, make: Callable) -> Model:
    """Return an Equinox module as a model.

    Its inexact arrays are params, and the rest is fixed. It is written for one sample, and vmapped
    over the batch.

    Args:
      module: the module.
      make: key -> such a module with start values.

    Raises:
      TypeError: for modules with state, which need more than a sample.
    """
    import equinox as eqx  # pyright: ignore[reportMissingImports]

    if required_arguments(type(module).__call__) > 2:
        raise TypeError(
            f"model: {type(module).__name__}.__call__ takes more than one sample (`stats`?); "
            "wrap a function apply(params, x) with as_model(init, apply)"
        )
    _, fixed = eqx.partition(module, eqx.is_inexact_array)
    names = accepted_names(type(module).__call__, 2) - {"mask"}  # one sample has none

    def init(key):
        params, _ = eqx.partition(make(key), eqx.is_inexact_array)
        return {"params": params, "stats": {}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        combined = eqx.combine(variables["params"], fixed)
        network = eqx.nn.inference_mode(combined, value=not train)

        def of_sample(row, key):
            return network(row, **options_for(names, mask, key, train))

        keys = None if key is None else jax.random.split(key, len(x))
        outputs = jax.vmap(of_sample)(x, keys)
        return outputs, variables["stats"]

    return Model(init, apply)


def required_arguments(function: Callable) -> int:
    """Return how many arguments a function needs; 1 if it has no signature."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)


def accepted_names(function: Callable, skip: int) -> frozenset[str]:
    """Return which of `mask`, `key` and the switches for training a function accepts by name.

    Args:
      function: the function.
      skip: how many of its first arguments to leave out.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return frozenset()
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = frozenset(p.name for p in parameters if p.kind in by_name)
    return names & {"mask", "key", *TRAINING, *NOT_TRAINING}


def options_for(names: frozenset[str], mask, key, train: bool) -> dict[str, Any]:
    """Return the arguments of these names."""
    values = {"mask": mask, "key": key}
    values |= dict.fromkeys(TRAINING, train)
    values |= dict.fromkeys(NOT_TRAINING, not train)
    return {name: values[name] for name in sorted(names)}
