"""Modules of Flax (linen, nnx) and Equinox as models.

They are recognised by the names of their types; a library is imported only for one of its modules.
Fields bring those of further libraries.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsim.installed import added, module_of
from fedsim.types import Model

LIBRARIES = ("flax.linen", "flax.nnx", "equinox")

# Names of the arguments by which networks ask whether they are being trained.
TRAINING = ("train", "training", "is_training")
NOT_TRAINING = ("deterministic", "inference", "use_running_average")


class Origin(NamedTuple):
    """The network of another library that a model was made of.

    Attributes:
      module: the network.
      frozen: names of leaves that are not trained, unless `model.train` names them.
      ignored: names of tensors in files of its weights that are no leaves of the model.
    """

    module: Any
    frozen: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def wrapped(thing: Any, example: Callable | None) -> Model | None:
    """Return a module, or a function `key -> module`, as a model; None for anything else.

    An Equinox module with state is a pair, as `eqx.nn.make_with_state` returns it.

    Args:
      thing: perhaps a module.
      example: makes a batch of one sample; None: the samples' shape is unknown.
    """
    model = _of_library(thing, lambda key: thing, example)
    if model is not None:
        return model
    made = _made(thing)
    return None if made is None else _of_library(made, thing, example)


def _made(thing: Any) -> Any:
    """What a function `key -> module` makes; None for anything else."""
    may_make_modules = (
        callable(thing)
        and not isinstance(thing, type)
        and not hasattr(thing, "apply")
        and required_arguments(thing) == 1
    )
    return thing(jax.random.key(0)) if may_make_modules else None


def _of_library(module: Any, make: Callable, example: Callable | None) -> Model | None:
    """Return a module as a model; None for anything else; `make`: key -> such a module."""
    library = library_of(module)
    if library == "flax.linen":
        return linen(module, example)
    if library == "flax.nnx":
        return nnx(module, make)
    if library == "equinox":
        return equinox(module, make)
    if library in _of_fields():
        return module_of(*_of_fields()[library]).wrapped(module, make, example)
    return None


@functools.cache
def _of_fields() -> dict[str, tuple[str, str]]:
    """Library -> package and module of the field that makes models of its modules."""
    return {
        library: (package, module)
        for package, networks in added("NETWORKS")
        for library, module in networks.items()
    }


def keeps_channels_last(thing: Any) -> bool:
    """Whether images are given to a model of this with their channels last, however they came.

    Args:
      thing: what `as_model` takes.
    """
    return library_of(thing) in _of_fields() or library_of(_made(thing)) in _of_fields()


def library_of(thing: Any) -> str:
    """Return the library whose module `thing` is an instance of, or an empty string.

    That of an Equinox module and its state is Equinox.
    """
    if type(thing) is tuple and len(thing) == 2:
        libraries = {library_of(part) for part in thing}
        return "equinox" if libraries == {"equinox"} else ""
    found = (library for library in (*LIBRARIES, *_of_fields()) if is_of(thing, library))
    return next(found, "")


def is_of(thing: Any, library: str) -> bool:
    """Whether something is an object of a library, or of a class that is made of its classes."""
    modules = [kind.__module__ for kind in type(thing).__mro__]
    return any(f"{module}.".startswith(f"{library}.") for module in modules)


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
    averages = _has_floats(collections.get("batch_stats"))
    return Model(init, apply, mixes_rows=averages and "mask" not in names)


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

    averages = _has_floats(flax_nnx.state(module, flax_nnx.BatchStat))
    return Model(init, apply, mixes_rows=averages and "mask" not in names)


def equinox(module: Any, make: Callable) -> Model:
    """Return an Equinox module as a model.

    Its inexact arrays are params, its state is stats, and the rest is fixed. It is written for one
    sample, and vmapped over the batch, whose axis has the name that its batch norm asks for.

    Args:
      module: the module, or a pair of module and state.
      make: key -> such a module, or pair, with start values.

    Raises:
      TypeError: for modules that need state and come without, and those that need more than that.
    """
    import equinox as eqx  # pyright: ignore[reportMissingImports]

    def apart(made) -> tuple[Any, Any]:
        """A module and its state; None where it has none."""
        return made if type(made) is tuple else (made, None)

    def numbered(state: Any) -> dict[str, Any]:
        """The leaves of a state by number, which are its names in files."""
        return {str(i): leaf for i, leaf in enumerate(jax.tree.leaves(state))}

    module, start = apart(module)
    call = type(module).__call__
    of_batch = 2 if start is None else 3  # self, a sample, and perhaps the state
    if required_arguments(call) > of_batch:
        raise TypeError(
            f"model: {type(module).__name__}.__call__ takes more than one sample; if it has state, "
            "give the pair of eqx.nn.make_with_state, else wrap a function apply(params, x) with "
            "as_model(init, apply)"
        )
    _, fixed = eqx.partition(module, eqx.is_inexact_array)
    structure = jax.tree.structure(start)
    names = accepted_names(call, of_batch) - {"mask"}  # one sample has none
    axis = _axis_of_batch(module, eqx.nn.BatchNorm)

    def init(key):
        drawn, state = apart(make(key))
        params, _ = eqx.partition(drawn, eqx.is_inexact_array)
        return {"params": params, "stats": numbered(state)}

    def apply(variables, x, *, mask=None, key=None, train=False):
        combined = eqx.combine(variables["params"], fixed)
        network = eqx.nn.inference_mode(combined, value=not train)
        stats = variables["stats"]

        def of_sample(row, key):
            options = options_for(names, mask, key, train)
            if start is None:
                return network(row, **options), None
            state = structure.unflatten([stats[str(i)] for i in range(len(stats))])
            return network(row, state, **options)

        keys = None if key is None else jax.random.split(key, len(x))
        outputs, state = jax.vmap(of_sample, out_axes=(0, None), axis_name=axis)(x, keys)
        return outputs, numbered(state) if train else stats

    return Model(init, apply, mixes_rows=axis is not None)


def _axis_of_batch(module: Any, batch_norm: type) -> Any:
    """Return the name of the axis over which an Equinox module normalises; None: it does not.

    Raises:
      TypeError: for several names, of which a batch has one.
    """
    is_norm = lambda part: isinstance(part, batch_norm)
    norms = [part for part in jax.tree.leaves(module, is_leaf=is_norm) if is_norm(part)]
    names = list(dict.fromkeys(norm.axis_name for norm in norms))
    if len(names) > 1:
        raise TypeError(f"model: batch norm over the axes {names}; a batch has one, give one name")
    return names[0] if names else None


def _has_floats(state: Any) -> bool:
    """Whether a tree has floats: counters and masks of a module do not mix the rows of a batch."""
    return any(jnp.issubdtype(leaf.dtype, jnp.floating) for leaf in jax.tree.leaves(state))


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
