"""Modules of Flax (linen, nnx) and Equinox as models. They are known by their types' names, and imported only for one of them."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from fedsim.types import Model

LIBRARIES = ("flax.linen", "flax.nnx", "equinox")
SWITCHES = {  # names under which networks ask whether they are being trained
    "train": lambda train: train,
    "training": lambda train: train,
    "is_training": lambda train: train,
    "deterministic": lambda train: not train,
    "inference": lambda train: not train,
    "use_running_average": lambda train: not train,
}


def wrapped(thing: Any, example: Callable | None) -> Model | None:
    """A module, or a function `key -> module`, as a model; None for anything else."""
    library = library_of(thing)
    if library == "flax.linen":
        return linen(thing, example)
    if library == "flax.nnx":
        return nnx(thing, lambda key: thing)
    if library == "equinox":
        return equinox(thing, lambda key: thing)
    if (
        callable(thing)
        and not isinstance(thing, type)
        and not hasattr(thing, "apply")
        and required(thing) == 1
    ):
        first = thing(jax.random.key(0))
        made = {"flax.nnx": nnx, "equinox": equinox}.get(library_of(first))
        if made is not None:
            return made(first, thing)
        return linen(first, example) if library_of(first) else None
    return None


def library_of(thing: Any) -> str:
    """The library whose module `thing` is an instance of, or an empty string."""
    for kind in type(thing).__mro__:
        for library in LIBRARIES:
            if kind.__module__ == library or kind.__module__.startswith(library + "."):
                return library
    return ""


def linen(module: Any, example: Callable | None) -> Model:
    """Flax linen: `module.init(rngs, x)`; all collections but `params` are stats."""
    if example is None:
        raise ValueError(
            "model: a linen module needs a sample; give as_model(..., shape=) its shape without the batch"
        )
    names = asked(type(module).__call__, 2)

    def init(key):
        rngs = {"params": key, "dropout": jax.random.fold_in(key, 0)}
        stats = dict(module.init(rngs, example(), **given(names, jnp.ones(1, bool), key, False)))
        return {"params": stats.pop("params", {}), "stats": stats}

    def apply(variables, x, *, mask=None, key=None, train=False):
        everything = {"params": variables["params"], **variables["stats"]}
        options = {
            "rngs": None if key is None else {"dropout": key},
            **given(names, mask, key, train),
        }
        if not (train and variables["stats"]):
            return module.apply(everything, x, **options), variables["stats"]
        outputs, new = module.apply(everything, x, mutable=list(variables["stats"]), **options)
        return outputs, {**variables["stats"], **new}

    collections = jax.eval_shape(init, jax.random.key(0))["stats"]
    return Model(init, apply, mixes_rows="batch_stats" in collections and "mask" not in names)


def nnx(module: Any, make: Callable) -> Model:
    """Flax nnx: `nnx.Param`s are params, random streams restart from the batch's key, all other variables are stats."""
    from flax import nnx as flax_nnx  # pyright: ignore[reportMissingImports]

    def split(m) -> Any:
        return flax_nnx.split(m, flax_nnx.Param, flax_nnx.RngState, ...)

    pure, is_key = (
        flax_nnx.to_pure_dict,
        lambda leaf: jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key),
    )
    graph, *parts = split(module)
    names = asked(type(module).__call__, 2)

    def fill(part, values):
        part = jax.tree.map(lambda leaf: leaf, part)  # new variables, of the trace that we are in
        flax_nnx.replace_by_pure_dict(part, values)
        return part

    def init(key):
        _, params, _, stats = split(make(key))
        return {"params": pure(params), "stats": pure(stats)}

    def apply(variables, x, *, mask=None, key=None, train=False):
        params, streams, stats = parts
        leaves, tree = jax.tree.flatten(streams)
        if key is not None:
            leaves = [
                jax.random.fold_in(key, i) if is_key(leaf) else leaf
                for i, leaf in enumerate(leaves)
            ]
        merged = flax_nnx.merge(
            graph,
            fill(params, variables["params"]),
            tree.unflatten(leaves),
            fill(stats, variables["stats"]),
        )
        (merged.train if train else merged.eval)()
        outputs = merged(x, **given(names, mask, key, train))
        return outputs, pure(split(merged)[3]) if train else variables["stats"]

    averages = bool(jax.tree.leaves(flax_nnx.state(module, flax_nnx.BatchStat)))
    return Model(init, apply, mixes_rows=averages and "mask" not in names)


def equinox(module: Any, make: Callable) -> Model:
    """Equinox: inexact arrays are params, the rest is fixed; a module sees one sample and is vmapped over the batch."""
    import equinox as eqx  # pyright: ignore[reportMissingImports]

    if required(type(module).__call__) > 2:
        raise TypeError(
            f"model: {type(module).__name__}.__call__ takes more than one sample (`stats`?); "
            "wrap a function apply(params, x) with as_model(init, apply)"
        )
    _, fixed = eqx.partition(module, eqx.is_inexact_array)
    names = asked(type(module).__call__, 2) - {"mask"}  # one sample has none

    def init(key):
        return {"params": eqx.partition(make(key), eqx.is_inexact_array)[0], "stats": {}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        network = eqx.nn.inference_mode(eqx.combine(variables["params"], fixed), value=not train)
        keys = None if key is None else jax.random.split(key, len(x))
        outputs = jax.vmap(lambda row, key: network(row, **given(names, mask, key, train)))(x, keys)
        return outputs, variables["stats"]

    return Model(init, apply)


def required(function: Callable) -> int:
    """How many arguments a function cannot do without; 1 where it does not say."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in places and p.default is inspect.Parameter.empty for p in parameters)


def asked(function: Callable, skip: int) -> frozenset[str]:
    """Which of `mask`, `key` and the switches a function has by name, beyond its first `skip` arguments."""
    try:
        parameters = list(inspect.signature(function).parameters.values())[skip:]
    except (TypeError, ValueError):
        return frozenset()
    kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return frozenset(p.name for p in parameters if p.kind in kinds) & {"mask", "key", *SWITCHES}


def given(names: frozenset[str], mask, key, train: bool) -> dict[str, Any]:
    """The arguments asked for."""
    return {
        n: mask if n == "mask" else key if n == "key" else SWITCHES[n](train) for n in sorted(names)
    }
