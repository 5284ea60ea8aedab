"""The model section, or a user's own network: the model for the samples at hand, its loss, and its start variables."""

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble.hooks import hook_error, located_hooks, own_file
from fedsim.assemble.memory import check_memory
from fedsim.assemble.programs import (
    HashableSection,
    Training,
    registered_model,
    stored_model,
    user_model,
)
from fedsim.compose.shapes import ContractError, reported
from fedsim.data import Federation
from fedsim.engine.footprint import widest
from fedsim.engine.keys import start_key
from fedsim.errors import LinkError, ScenarioError, shortened
from fedsim.fleet import Local
from fedsim.models import Tokens, as_model
from fedsim.models.modules import required
from fedsim.scenario.reader import Path
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import MODELS
from fedsim.types import Model

Shape: Any = jax.ShapeDtypeStruct


def model_section(scenario: Scenario, federation: Federation) -> Any:
    """The model section; where none is written, samples with regression targets have `linear` in place of the default."""
    spec = scenario.spec
    if federation.classes or "model" in spec.model_fields_set:
        return spec.model
    return MODELS.validate("linear")


def loss_of(scenario: Scenario, federation: Federation) -> str:
    """The name of the loss: as written, else cross-entropy for classes and squared error for targets.

    Raises:
      ScenarioError: for cross-entropy without classes.
    """
    name = scenario.spec.model.loss or ("cross_entropy" if federation.classes else "squared")
    if name == "squared" and federation.per_token:
        text = "squared is for one label a sample, and here every token has one; write cross_entropy, or leave it out"
        raise scenario.error(("model", "loss"), text)
    if name == "cross_entropy" and not federation.classes:
        text = "cross_entropy is for classes, and these targets are numbers; write squared, or leave it out"
        raise scenario.error(("model", "loss"), text)
    return name


def model_of(
    scenario: Scenario, federation: Federation, model: Any, params: Any, loss: Any
) -> Model:
    """The scenario's model for the samples at hand, or the user's own; a custom loss may take any outputs.

    Raises:
      ScenarioError: for a model that does not take such samples.
    """
    if model is None and scenario.spec.model.kind == "logistic" and not federation.classes:
        text = "logistic is for classes, and these targets are numbers; write linear or mlp"
        raise scenario.error(
            ("model",), f"{text}, or make the targets whole numbers or text, which are classes"
        )
    shape = federation.train.x.shape[1:]
    outputs = federation.classes or int(np.prod(federation.train.y.shape[1:], dtype=int))
    expects: Any = (
        {}
        if loss is not None
        else {"classes": outputs}
        if federation.classes
        else {"targets": outputs}
    )
    if expects and federation.per_token:
        expects["labels"] = shape[0]
    with model_errors(scenario, model):
        net = _model(scenario, shape, outputs, expects, _tokens(federation), model, params)
    stored = federation.train.x.dtype == np.uint8 or federation.scale != 1.0
    return stored_model(net, federation.scale) if stored else net


def _tokens(federation: Federation) -> Tokens | None:
    """What a model must know of tokens, where samples are."""
    return Tokens(federation.vocabulary, federation.per_token) if federation.vocabulary else None


def _model(
    scenario: Scenario,
    shape: tuple,
    outputs: int,
    expects: dict[str, int],
    tokens: Tokens | None,
    model: Any,
    params: Any,
) -> Model:
    """The scenario's model, or the user's own, as a `Model`."""
    options: dict[str, Any] = {**expects, "tokens": tokens is not None}
    if model is None:
        return registered_model(
            HashableSection(scenario.spec.model, {"loss"}),
            shape,
            outputs,
            tuple(expects.items()),
            tokens,
        )
    # functions are what they are: an object with state may have changed since the last run
    if type(model) is tuple and len(model) == 2 and all(map(callable, model)):
        return user_model(*model, shape, tuple(options.items()))
    plain = not isinstance(model, type) and not hasattr(model, "apply")
    if callable(model) and plain and params is not None and required(model) >= 2:
        return as_model(lambda key: params, model, shape=shape, **options)
    return as_model(model, shape=shape, **options)


@contextlib.contextmanager
def model_errors(scenario: Scenario, model: Any) -> Iterator[None]:
    """What goes wrong in a model is a line at `model`; for one that fedsim did not bring, with its file and line.

    Raises:
      ScenarioError: for a TypeError or ValueError, which is how JAX says that shapes do not fit.
      HookError: for anything else inside a model of the user's own.
    """
    section = scenario.spec.model
    file = own_file(section) if model is None else file_of(model)
    try:
        with contextlib.nullcontext() if file is None else reported(file):
            yield
    except (ContractError, TypeError, ValueError) as error:
        if isinstance(error, ScenarioError | LinkError):
            raise
        cause, raised = error.__cause__, isinstance(error, ContractError) and error.raised
        text = (str(error if raised or cause is None else cause).splitlines() or [""])[
            0
        ].removeprefix("model: ")
        broken = ContractError(text, raised and not isinstance(cause, TypeError | ValueError))
        broken.__cause__ = cause
        name = section.kind if model is None and file is not None else ""
        raise hook_error(scenario, ("model",), name, broken) from error


def file_of(model: Any) -> str:
    """The file that defines a user's network; empty where it is unknown."""
    parts = model if isinstance(model, tuple) else (model,)
    code = getattr(parts[-1], "__code__", None)
    if code is not None:
        return code.co_filename
    with contextlib.suppress(TypeError, OSError):
        return inspect.getfile(type(model))
    return ""


def start_models(
    scenario: Scenario, net: Model, trained: Training, model: Any, params: Any
) -> tuple[dict[int, Any], Any]:
    """Start variables by seed, made now only where model or parameters were given, and their shapes.

    Raises:
      ScenarioError: for parameters that are no floats, or do not fit the model.
    """
    seeds = scenario.spec.seeds
    with model_errors(scenario, model):
        if model is not None or params is not None:
            _check_size(scenario, net, trained, params)
            shared = {seed: start_variables(scenario, net, trained, seed, params) for seed in seeds}
            return shared, shared[seeds[0]]
        return {}, jax.eval_shape(lambda: start_variables(scenario, net, trained, seeds[0], None))


def _check_size(scenario: Scenario, net: Model, trained: Training, params: Any) -> None:
    """Refuse a user's model that is too large before it is made; one that cannot be traced is made to know its size.

    Raises:
      TooLargeError: naming the bytes.
    """
    size = 0
    with contextlib.suppress(Exception):  # what is wrong with it shows when it is made
        shapes = jax.eval_shape(
            lambda: start_variables(scenario, net, trained, scenario.spec.seeds[0], params)
        )
        size = tree.nbytes(shapes["params"])
    check_memory(scenario, {"start_models": len(scenario.spec.seeds) * size, "server": 3 * size})


def start_variables(
    scenario: Scenario, net: Model, trained: Training, seed: int, params: Any
) -> dict[str, Any]:
    """What the server sends first under a seed: `params`, `stats`, and the client method's `aux`.

    Raises:
      ScenarioError: for parameters that are no floats, or do not fit the model.
    """
    variables = net.init(start_key(jax.random.key(seed)))
    if params is not None:
        given = jax.tree.map(lambda leaf: jnp.asarray(leaf, scenario.spec.numerics.dtype), params)
        try:
            tree.stack([variables["params"], given])
        except ValueError as error:
            raise scenario.error(("model",), f"params= does not fit the model: {error}") from None
        variables = {**variables, "params": given}
    for path, leaf in jax.tree_util.tree_leaves_with_path(variables["params"]):
        if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            name = jax.tree_util.keystr(path)
            text = (
                f"parameter {name} is {leaf.dtype}; parameters are floats, counters go into stats"
            )
            raise scenario.error(("model",), text)
    variables = jax.tree.map(jnp.asarray, variables)
    with located_hooks(scenario, ("client",), scenario.spec.client):
        aux = trained.client.aux(trained.task, variables["params"])
    probe = {} if trained.client.probe is None else {"probe": tree.zeros_like(variables["params"])}
    return {**variables, "aux": aux | probe}


def activation_bytes(
    scenario: Scenario,
    net: Model,
    some: Federation,
    federations: Mapping[int, Federation],
    local: Local,
    shapes: Any,
    model: Any,
) -> int:
    """Bytes of the largest value that the model makes of a batch, from a trace: nothing is computed.

    Args:
      scenario: as read.
      net: the model.
      some: a federation, whose samples are those of all.
      federations: of all seeds, whose largest clients decide how wide a batch is.
      local: how much a client trains.
      shapes: of the start variables.
      model: what was given in place of the scenario's.

    Raises:
      ScenarioError: for a model that does not take such a batch.
    """
    x, key = some.train.x, jax.eval_shape(jax.random.key, 0)
    forward = lambda v, x, mask, key: net.apply(v, x, mask=mask, key=key, train=True)
    with model_errors(scenario, model):
        return max(
            widest(forward, shapes, Shape((rows, *x.shape[1:]), x.dtype), Shape((rows,), bool), key)
            for rows in {local.widest(f.sizes) for f in (some, *federations.values())}
        )


def short_batches(
    scenario: Scenario, net: Model, federation: Federation, local: Local
) -> Iterator[tuple[Path, str]]:
    """A model that mixes the rows of a batch without looking at `mask`, and a client whose batches are not full."""
    eligible = np.flatnonzero(federation.sizes)
    sizes = federation.sizes[eligible]
    rows = local.widest(sizes)
    short = (sizes < rows) if scenario.spec.client.drop_last else (sizes % rows != 0)
    if net.mixes_rows and short.any():
        client = shortened(str(federation.client_names[eligible[short.argmax()]]), 40)
        text = f"mixes the rows of a batch without looking at mask, and client {client} has short batches"
        yield ("model",), f"{text}; set client.drop_last and a batch that every client can fill"
