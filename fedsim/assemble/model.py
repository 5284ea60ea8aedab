"""A scenario's model, or a user's network: made for the samples, with start values."""

import contextlib
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.assemble.data_files import path_of
from fedsim.assemble.facts import Facts
from fedsim.assemble.fields import first_answer
from fedsim.assemble.hooks import hook_error, located_hooks, user_file
from fedsim.assemble.links import factory_of
from fedsim.assemble.losses import demand_clear_targets
from fedsim.assemble.memory import check_memory
from fedsim.assemble.misfit import with_samples
from fedsim.assemble.problems import Findings
from fedsim.assemble.programs import (
    HashableSection,
    Training,
    narrow_model,
    partly_frozen,
    registered_model,
    stored_model,
    user_model,
)
from fedsim.assemble.weights import with_weights
from fedsim.clients.hooks import one_of_each
from fedsim.compose.shapes import ContractError, OutputsError, reported
from fedsim.data import Federation
from fedsim.engine.footprint import largest_value_bytes
from fedsim.engine.keys import start_key
from fedsim.engine.models import one_model
from fedsim.errors import LinkError, ScenarioError, shortened
from fedsim.fleet import Local
from fedsim.models import Tokens, as_model
from fedsim.models.freezing import FROZEN, with_all_leaves, with_params
from fedsim.models.modules import keeps_channels_last, required_arguments
from fedsim.scenario.named_files import MODEL
from fedsim.scenario.scenario import Scenario
from fedsim.scenario.sections import MODELS, ModelCommon
from fedsim.types import Bank, Loss, Model, Rule

Shape: Any = jax.ShapeDtypeStruct

MASKED = "give it an argument mask [B] and pass that on, as Flax's BatchNorm takes it [B, 1]"


class Supplied(NamedTuple):
    """What a Python program passes in place of the scenario's; None: nothing."""

    model: Any = None  # anything that `as_model` takes
    params: Any = None  # start parameters
    loss: Any = None


def model_section(scenario: Scenario, federation: Federation) -> Any:
    """Return the model section; for regression targets `linear`, where none is written."""
    spec = scenario.spec
    if federation.classes or "model" in spec.model_fields_set:
        return spec.model
    return MODELS.validate("linear")


def model_of(
    scenario: Scenario,
    federation: Federation,
    supplied: Supplied,
    loss: Loss | None = None,
    rule: Rule | None = None,
    local: bool = False,
) -> Model:
    """Return the scenario's model for its samples, or the one that was supplied.

    With a loss of the user's own, a model may have any outputs.

    Args:
      loss: what it learns by; None: it is not known.
      rule: of the server; it may decide which leaves are trained.
      local: as clients compute it while they train, by `numerics.compute` and `numerics.remat`.
    """
    kind = scenario.spec.model.kind
    if supplied.model is None and kind == "logistic" and not federation.classes:
        demand_clear_targets(scenario, federation)
        text = "logistic is for classes, and these targets are numbers; write linear or mlp"
        remedy = "or make the targets whole numbers or text, which are classes"
        raise scenario.error(("model",), f"{text}, {remedy}")

    # A network of the user's own gets images as the user gave them.
    is_own = supplied.model is not None and not keeps_channels_last(supplied.model)
    channels_first = is_own and federation.channels_first
    shape = federation.given_shape if channels_first else federation.train.x.shape[1:]
    fit = _fit_of(federation, shape, loss)
    numerics = scenario.spec.numerics
    remat = local and numerics.remat
    if remat:
        _require_blocks(scenario, supplied.model)
    with model_errors(scenario, supplied.model, federation):
        if supplied.model is None:
            located = scenario.spec.model.model_copy(update=path_of(scenario, MODEL))
            section = HashableSection(located, set(ModelCommon.model_fields))
            expects = tuple(fit.expects.items())
            net = registered_model(section, fit.shape, fit.outputs, expects, fit.tokens, remat)
        else:
            net = _supplied_model(supplied, fit)

        if loss is not None and loss.model is not None:
            net = loss.model(net)

        # What fields add to weights is made in float32: the model casts what it is given.
        if local and numerics.compute is not None:
            net = narrow_model(net, numerics.compute)
        net = with_weights(scenario, net, fit.shape)
        net = _partly_trained(scenario.spec.model, net, rule)

    is_as_stored = federation.train.x.dtype != np.uint8 and federation.scale == 1.0
    if is_as_stored and not channels_first:
        return net
    return stored_model(net, federation.scale, channels_first)


def _require_blocks(scenario: Scenario, supplied: Any) -> None:
    """Refuse `remat` for a model whose blocks fedsim does not know."""
    kind = "a model of your own"
    remedy = "put jax.checkpoint around its blocks and leave remat out"
    if supplied is None:
        kind = scenario.spec.model.kind
        build = factory_of(scenario.spec.model)()
        if "remat" in inspect.signature(build).parameters:
            return
        remedy = "leave it out, or use transformer or resnet"
    text = f"{kind} has no blocks whose values could be computed again"
    raise scenario.error(("numerics", "remat"), f"{text}; {remedy}")


def _partly_trained(section: Any, net: Model, rule: Rule | None) -> Model:
    of_fields = first_answer(lambda field: field.model(net, section, rule))
    if of_fields is not None:
        return of_fields
    frozen = net.origin.frozen if net.origin else ()
    if not (section.freeze or section.train or frozen):
        return net
    freeze = None
    if section.freeze is not None or not section.train:
        freeze = (*(section.freeze or ()), *frozen)
    return partly_frozen(net, freeze, tuple(section.train or ()))


class _Fit(NamedTuple):
    """What a model must fit."""

    shape: tuple[int, ...]  # of one sample
    outputs: int
    expects: dict[str, int]  # what outputs are checked against, as `as_model` takes it
    tokens: Tokens | None  # what a model must know about samples that are tokens


def _fit_of(federation: Federation, shape: tuple[int, ...], loss: Loss | None) -> _Fit:
    """What samples of a shape demand of a model; a loss of the user's own takes any outputs."""
    outputs = federation.classes or int(np.prod(federation.train.y.shape[1:], dtype=int))
    if loss is not None and loss.outputs is not None:
        outputs = loss.outputs

    expects: dict[str, int] = {}
    if loss is None or loss.targets:
        expects["classes" if federation.classes else "targets"] = outputs
        if federation.per_token:
            expects["labels"] = shape[0]

    tokens = None
    if federation.vocabulary:
        tokens = Tokens(federation.vocabulary, federation.per_token)
    return _Fit(shape, outputs, expects, tokens)


def _supplied_model(supplied: Supplied, fit: _Fit) -> Model:
    options: dict[str, Any] = {**fit.expects, "tokens": fit.tokens is not None}

    # Only functions are cached: an object with state may have changed since the last run.
    pair = supplied.model
    if type(pair) is tuple and len(pair) == 2 and all(map(callable, pair)):
        return user_model(*pair, fit.shape, tuple(options.items()))

    # A function of parameters and samples is a model once it comes with parameters.
    model = supplied.model
    is_function = callable(model) and not isinstance(model, type) and not hasattr(model, "apply")
    if is_function and supplied.params is not None and required_arguments(model) >= 2:
        return as_model(lambda key: supplied.params, model, shape=fit.shape, **options)
    return as_model(model, shape=fit.shape, **options)


@contextlib.contextmanager
def model_errors(
    scenario: Scenario, model: Any, federation: Federation | None = None
) -> Iterator[None]:
    """Report what goes wrong in a model as a line at `model`; in a user's, with file and line.

    Args:
      model: a user's network; None: the scenario's.
      federation: the samples, which the line describes where a user's model does not fit them.

    Raises:
      HookError: for anything else inside a user's model.
    """
    section = scenario.spec.model
    file = user_file(section) if model is None else _file_of(model)
    try:
        with contextlib.nullcontext() if file is None else reported(file):
            yield
    except (ScenarioError, LinkError):
        raise
    except (ContractError, TypeError, ValueError) as error:
        is_users_kind = model is None and file is not None
        name = section.kind if is_users_kind else ""
        samples = None if file is None else federation
        broken = _in_one_line(error, scenario.spec.data, samples)
        raise hook_error(scenario, ("model",), name, broken) from error


def _in_one_line(error: Exception, data: Any, federation: Federation | None) -> ContractError:
    cause = error.__cause__
    raised = isinstance(error, ContractError) and error.raised
    informative = error if raised or cause is None else cause
    lines = str(informative).splitlines()
    line = lines[0] if lines else ""
    text = line.removeprefix("model: ")

    shapes_do_not_fit = isinstance(cause, TypeError | ValueError)
    is_of_outputs = isinstance(informative, OutputsError)
    # A line that begins with `model:` is about the model alone, unless it is about outputs.
    is_of_inputs = shapes_do_not_fit and text == line
    if federation is not None and (is_of_inputs or is_of_outputs):
        text = with_samples(text, data, federation, is_of_outputs)
    broken = ContractError(text, raised=raised and not shapes_do_not_fit)
    broken.__cause__ = cause
    return broken


def _file_of(model: Any) -> str:
    """The file that defines a user's network; empty where it is unknown."""
    is_pair = isinstance(model, tuple)
    if is_pair and not callable(model[-1]):
        model = model[0]  # an Equinox module, beside its state
        is_pair = False
    function = model[-1] if is_pair else model
    code = getattr(function, "__code__", None)
    if code is not None:
        return code.co_filename
    with contextlib.suppress(TypeError, OSError):
        return inspect.getfile(type(model))
    return ""


def start_models(
    scenario: Scenario, net: Model, trained: Training, supplied: Supplied
) -> tuple[dict[int, Any], Any]:
    """Return start variables by seed, and their shapes.

    The variables are made here only where a model or parameters were supplied; otherwise the
    dictionary is empty, and they are made once it is known that they fit into memory.
    """
    seeds = scenario.spec.seeds
    with model_errors(scenario, supplied.model):
        if supplied.model is None and supplied.params is None:
            return {}, _start_shapes(scenario, net, trained, params=None)

        _check_size(scenario, net, trained, supplied.params)
        shared = starts_by_seed(scenario, net, trained, supplied.params)
        return shared, one_model(trained.client, shared[seeds[0]])


def _start_shapes(scenario: Scenario, net: Model, trained: Training, params: Any) -> Any:
    seed = scenario.spec.seeds[0]
    shapes = jax.eval_shape(lambda: start_variables(scenario, net, trained, seed, params))
    return one_model(trained.client, shapes)


def _check_size(scenario: Scenario, net: Model, trained: Training, params: Any) -> None:
    """Refuse a user's model that is too large before it is made.

    A model that cannot be traced counts as empty: what is wrong with it shows when it is made.
    """
    model_bytes = 0
    with contextlib.suppress(Exception):
        shapes = _start_shapes(scenario, net, trained, params)
        model_bytes = tree.nbytes(with_all_leaves(shapes)["params"])
    seeds = len(scenario.spec.seeds)
    check_memory(scenario, {"start_models": seeds * model_bytes, "server": 3 * model_bytes})


def starts_by_seed(
    scenario: Scenario, net: Model, trained: Training, params: Any
) -> dict[int, dict[str, Any]]:
    """Return `start_variables` by seed; frozen leaves that are equal are held once."""
    starts: dict[int, dict[str, Any]] = {}
    for seed in scenario.spec.seeds:
        start = start_variables(scenario, net, trained, seed, params)
        if FROZEN in start and starts:
            first = next(iter(starts.values()))
            start = {**start, FROZEN: jax.tree.map(_one_of, first[FROZEN], start[FROZEN])}
        starts[seed] = start
    return starts


def _one_of(first: jax.Array, other: jax.Array) -> jax.Array:
    """The first of two leaves where they are equal, so that the other one is freed."""
    return first if first is other or bool(jnp.array_equal(first, other)) else other


def start_variables(
    scenario: Scenario, net: Model, trained: Training, seed: int, params: Any
) -> dict[str, Any]:
    """Return what the server sends first: `params`, `stats`, and the client method's `aux`.

    Of a server with several models, they are stacked `[k, ...]`; `params` is a list of k then.
    Where leaves are frozen, they come with them, as the section `frozen`, which is not sent.
    """
    key = start_key(jax.random.key(seed))
    bank = trained.client.bank
    if bank is None:
        return _start_variables(scenario, net, trained, key, params)

    models = []
    for number, of_model in enumerate(_start_params(scenario, bank, params)):
        # Models that clients choose from must differ. The first is that of a single model.
        model_key = key
        if bank.choice is not None and number > 0:
            model_key = jax.random.fold_in(key, number)
        models.append(_start_variables(scenario, net, trained, model_key, of_model))
    return tree.stack(models)


def _start_params(scenario: Scenario, bank: Bank, params: Any) -> list[Any]:
    """Return the start parameters of every model; None where they are not given."""
    one_for_all = bank.choice is None or bank.models == 1
    if params is None or (one_for_all and not isinstance(params, list | tuple)):
        return [params] * bank.models
    try:
        return one_of_each(params, bank.models, scenario.spec.client.kind)
    except ValueError as error:
        raise scenario.error(("model",), f"params= is {error}") from None


def _start_variables(
    scenario: Scenario, net: Model, trained: Training, key: Any, params: Any
) -> dict[str, Any]:
    """Return the start variables of one model, which a key draws where `params` is None."""
    variables = net.init(key)
    if params is not None:
        variables = with_params(variables, _supplied_params(scenario, net, variables, params))

    _require_floats(scenario, with_all_leaves(variables)["params"])
    # A leaf of the type of Python's numbers would change its type in the first sum.
    variables = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.asarray(leaf).dtype), variables)
    with located_hooks(scenario, ("client",), scenario.spec.client):
        aux = trained.client.aux(trained.task, variables["params"])

    probe = {}
    if trained.client.probe is not None:
        probe = {"probe": tree.zeros_like(variables["params"])}
    return {**variables, "aux": aux | probe}


def _supplied_params(scenario: Scenario, net: Model, variables: Any, params: Any) -> Any:
    """Return start parameters that a Python program passed, of the model that is trained.

    They are those of that model, or of the scenario's, of which the method makes it.
    """
    drawn = with_all_leaves(variables)["params"]
    if jax.tree.structure(params) != jax.tree.structure(drawn):
        params = _without_sections(params)
    supplied = jax.tree.map(lambda leaf: jnp.asarray(leaf, scenario.spec.numerics.dtype), params)
    try:
        if jax.tree.structure(supplied) != jax.tree.structure(drawn):
            supplied = net.begins(drawn, supplied)
        tree.stack([drawn, supplied])  # which compares structures and shapes
    except ValueError as error:
        raise scenario.error(("model",), f"params= does not fit the model: {error}") from None
    return supplied


def _without_sections(params: Any) -> Any:
    """Parameters, or a list of those of several models, without other sections of their files."""
    if isinstance(params, list):
        return [_without_sections(of_model) for of_model in params]
    return params["params"] if _is_of_file(params) else params


def _is_of_file(params: Any) -> bool:
    """Whether a tree is what `load_model` returns: parameters beside other sections."""
    return isinstance(params, dict) and params.keys() <= {"params", "state"} and "params" in params


def _require_floats(scenario: Scenario, params: Any) -> None:
    for path, leaf in jax.tree_util.tree_leaves_with_path(params):
        if not jnp.issubdtype(jnp.asarray(leaf).dtype, jnp.floating):
            parameter = f"parameter {jax.tree_util.keystr(path)} is {leaf.dtype}"
            text = f"{parameter}; parameters are floats, counters go into stats"
            raise scenario.error(("model",), text)


def batch_widths(
    local: Local, federation: Federation, others: Mapping[int, Federation]
) -> set[int]:
    """Rows of the widest batch of a federation, and of others by seed; and those of all seeds."""
    federations = (federation, *others.values())
    nominal = local.nominal_rows(len(federation.train.x), federation.N)
    return {nominal, *(local.widest(each.sizes) for each in federations)}


def activation_bytes(
    scenario: Scenario,
    net: Model,
    supplied: Supplied,
    federation: Federation,
    widths: Iterable[int],
    variables: Any,
) -> dict[int, int]:
    """Return the bytes of the largest value that the model makes of a batch, by its rows.

    They are counted in a trace; nothing is computed.
    """
    x = federation.train.x
    key = jax.eval_shape(jax.random.key, 0)

    def forward(variables, x, mask, key):
        return net.apply(variables, x, mask=mask, key=key, train=True)

    def largest_value(rows: int) -> int:
        batch = Shape((rows, *x.shape[1:]), x.dtype)
        mask = Shape((rows,), bool)
        return largest_value_bytes(forward, variables, batch, mask, key)

    with model_errors(scenario, supplied.model, federation):
        return {rows: largest_value(rows) for rows in widths}


def short_batches(facts: Facts) -> Findings:
    """A model that mixes the rows of a batch and ignores `mask`, where batches are not full."""
    if not facts.model.mixes_rows:
        return
    local = facts.local
    for federation in facts.trained_on.values():
        eligible = np.flatnonzero(federation.sizes)
        sizes = federation.sizes[eligible]
        rows = local.widest(sizes)
        text = "mixes the rows of a batch without looking at mask"
        short = sizes < rows if facts.spec.client.drop_last else sizes % rows != 0
        if local.poisson:
            remedy = "write client.shuffle: true and client.drop_last: true"
            yield ("model",), f"{text}, and Poisson batches are not full; {MASKED}, or {remedy}"
        elif short.any():
            client = shortened(str(federation.client_names[eligible[short.argmax()]]), 40)
            remedy = "set client.drop_last and a batch that every client can fill"
            text = f"{text}, and client {client} has short batches"
            yield ("model",), f"{text}; {MASKED}, or {remedy}"
