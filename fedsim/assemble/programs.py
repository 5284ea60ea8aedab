"""The compiled half of a build: pure functions, made once for each static configuration.

All runs of a process share them. Numbers that a plan hands over (learning rates, batches, steps,
cohorts, who is malicious) are not part of a configuration, so runs that differ in nothing else are
compiled once: seeds, learning rates, and all rules behind one client method.
"""

import functools
import inspect
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from fedsim.assemble.fields import fields, first_answer
from fedsim.assemble.links import factory_of, server_of
from fedsim.assemble.rates import client_rate, counts_steps
from fedsim.assemble.section_keys import HashableSection, hashable_sections
from fedsim.clients import augmenting, balancing, carrying, mean_loss, tuning
from fedsim.compose import server_step, unique_names
from fedsim.engine.lanes import Lanes, Private
from fedsim.engine.memory import Memories
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.sending import Sender
from fedsim.engine.server import Server
from fedsim.engine.task import task
from fedsim.field import ServerParts, ServerSetting
from fedsim.losses.weights import BY_CLIENT
from fedsim.models import Tokens, as_model, reading
from fedsim.models.computing import computing_in
from fedsim.models.freezing import freezing
from fedsim.models.modules import library_of
from fedsim.types import Client, Loss, Model, RowStage, ServerLinks, Task

MAX_CACHED = 64  # configurations of each kind

# Keys of a client section that the plan reads, and the program does not.
PLANNED_KEYS = {"batch", "steps", "epochs", "shuffle", "drop_last", "lr_per", "width", "rank"}


class TrainingInputs(NamedTuple):
    """What decides the program that trains, as a key."""

    model: Model
    loss: Loss
    classes: int
    client: HashableSection  # as `client_key` makes it
    augment: tuple[HashableSection, ...]
    sample: tuple[tuple[int, ...], str] | None = None  # shape and type of one, as it is stored
    of_fields: tuple[tuple[str, Hashable], ...] = ()  # how fields change the method, by name
    local_model: Model | None = None  # how clients compute the model, where it is another program


class Training(NamedTuple):
    """How clients train."""

    client: Client
    task: Task  # of the server and of scores; the lanes have that of clients
    lanes: Lanes
    probe: Lanes  # of the pass at the global model, for methods and rules that ask for one
    memories: Memories  # of the method, where no stage remembers anything as well
    tuning: Lanes | None  # of the training before a score, for methods that have one


class ServerSections(NamedTuple):
    """The sections that decide the server's program."""

    wire: tuple[HashableSection, ...]
    server: tuple[HashableSection, ...]
    of_fields: tuple[tuple[str, Hashable], ...] = ()  # how fields change the program, by name
    before: tuple[RowStage, ...] = ()  # stages in front of the scenario's own


class ServerShape(NamedTuple):
    """The static shape of the stack that the server works on."""

    width: int  # lanes
    block: int  # slots of a block
    blocks: int


def client_key(section: Any) -> HashableSection:
    """A client section without the keys that the plan reads.

    The learning rate is one of them, unless a schedule counts local steps, which is compiled. So is
    the batch, unless a field makes gradients private.
    """
    planned = set(PLANNED_KEYS)
    if not counts_steps(section):
        planned.add("lr")
    if _private_gradients(section) is not None:
        planned.remove("batch")  # the sum of gradients is divided by it
    return HashableSection(section, planned)


def augment_key(section: Any) -> tuple[HashableSection, ...]:
    """The augmentation of a data section, as a key."""
    return hashable_sections(section.augment)


def server_sections(spec: Any) -> ServerSections:
    """The sections of a scenario that decide the server's program, as keys."""
    server = first_answer(lambda field: field.served(spec)) or spec.server
    return ServerSections(
        wire=hashable_sections(spec.wire),
        server=hashable_sections(server),
        of_fields=tuple((name, field.server(spec)) for name, field in fields().items()),
    )


@functools.lru_cache(MAX_CACHED)
def registered_model(
    section: HashableSection,
    shape: tuple[int, ...],
    outputs: int,
    expects: tuple[tuple[str, int], ...],
    tokens: Tokens | None,
    remat: bool = False,
) -> Model:
    """Return a model by its kind, for samples of a shape; its `init` is one program.

    Args:
      expects: `(("classes", 10),)` or `(("targets", 2),)`, which its outputs are checked against
        when they are traced; or empty.
      remat: whether the inner values of its blocks are computed again for the gradient.

    Raises:
      TypeError: for a user's factory that returns a network.
      ValueError: for tokens, where the model takes numbers.
    """
    build = factory_of(section.section)()
    if isinstance(build, Model) or library_of(build):
        form = "return a function that makes one, lambda shape, outputs: NETWORK"
        raise TypeError(f"the factory returned a network; {form}")
    reads_tokens = "tokens" in inspect.signature(build).parameters
    if tokens is not None and not reads_tokens:
        text = f"{section.section.kind} takes numbers, and these samples are tokens"
        raise ValueError(f"{text}; use char_lstm, char_gru or transformer")

    keywords: dict[str, Any] = {"tokens": tokens} if reads_tokens else {}
    if remat:
        keywords["remat"] = True
    made = build(shape, outputs, **keywords)
    options: Any = dict(expects)
    model = as_model(made, shape=shape, **options)
    return model._replace(init=jax.jit(model.init))


# Cached, so that equal models are compiled once.
narrow_model = functools.lru_cache(MAX_CACHED)(computing_in)
stored_model = functools.lru_cache(MAX_CACHED)(reading)
partly_frozen = functools.lru_cache(MAX_CACHED)(freezing)


@functools.lru_cache(MAX_CACHED)
def user_model(
    init: Callable, apply: Callable, shape: tuple[int, ...], expects: tuple[tuple[str, int], ...]
) -> Model:
    """A user's pair of functions as a model; `expects` as in `registered_model`."""
    options: Any = dict(expects)
    return as_model(init, apply, shape=shape, **options)


@functools.lru_cache(MAX_CACHED)
def training(inputs: TrainingInputs) -> Training:
    """Return the programs that train a model.

    Augmentation changes what clients train on. Passes at the global model and scores see the
    samples unchanged. Scores, and what the server computes, are by `inputs.model`, however clients
    compute it.
    """
    model = inputs.local_model or inputs.model
    classes = inputs.classes
    section = inputs.client.section
    loss = inputs.loss
    schedule = client_rate(section).schedule

    def rate(lr, step):
        if schedule is None:
            return lr
        return jnp.asarray(schedule(step.astype(lr.dtype)), lr.dtype)

    optimizer = _optimizer_of(section)
    plain_task = task(model, loss, optimizer, rate, classes)
    client_task = plain_task
    if inputs.augment:
        client_task = plain_task._replace(augment=_augmentation(inputs.augment))
    method = _client_method(inputs, plain_task)
    if "features" in method.needs and model.features is not None and inputs.sample is not None:
        client_task = client_task._replace(width=_feature_width(model, *inputs.sample))

    scored_task = client_task
    if inputs.local_model is not None:
        of_model = task(inputs.model, loss, optimizer, rate, classes)
        scored_task = of_model._replace(augment=client_task.augment, width=client_task.width)

    before_score = None
    if method.scored.tune_steps is not None:
        tuned = balancing(tuning(method)) if _balances(inputs) else tuning(method)
        before_score = Lanes(tuned, client_task)
    return Training(
        client=method,
        task=scored_task,
        lanes=Lanes(method, client_task, _private_gradients(section)),
        probe=Lanes(_pass_of(method), plain_task),
        memories=Memories(method),
        tuning=before_score,
    )


def _optimizer_of(section: Any) -> Callable[[Any], optax.GradientTransformation]:
    """What makes the optimiser of a client section for a learning rate, behind `clip`."""
    plain = factory_of(section.optimizer)
    clip = section.clip
    if clip is None:
        return plain
    if clip.norm is not None:
        clipping = optax.clip_by_global_norm(clip.norm)
    else:
        clipping = optax.clip(clip.value)
    return lambda lr: optax.chain(clipping, plain(lr))


def _client_method(inputs: TrainingInputs, plain_task: Task) -> Client:
    """The client method, with what the scenario puts around it."""
    section = inputs.client.section

    def fresh_optimizer_state(params):
        return plain_task.optimizer(jnp.zeros(())).init(params)

    method = factory_of(section)()
    if section.statistics == "pooled":
        method = method._replace(travel=method.travel._replace(stats="pooled"))
    if section.optimizer_state == "carry":
        method = carrying(method, fresh_optimizer_state)
    for name, key in inputs.of_fields:
        change = fields()[name].client
        if key is not None and change is not None:
            method = change(method, key, inputs.model)
    return balancing(method) if _balances(inputs) else method


def _balances(inputs: TrainingInputs) -> bool:
    """Whether every client has weights of classes of its own."""
    return inputs.loss.class_weights == BY_CLIENT


def _feature_width(model: Model, shape: tuple[int, ...], dtype: str) -> int:
    """Return how many numbers the features of one sample are; nothing is computed."""
    assert model.features is not None
    variables = jax.eval_shape(model.init, jax.eval_shape(jax.random.key, 0))
    x = jax.ShapeDtypeStruct((1, *shape), dtype)
    return jax.eval_shape(model.features, variables, x).size


def _pass_of(method: Client) -> Client:
    """The pass before training: the method's, its clients' choice of a model, or their losses."""
    if method.bank is not None and method.bank.choice is not None:
        return method.bank.choice
    return method.probe or mean_loss


def _augmentation(links: tuple[HashableSection, ...]) -> Callable:
    sections = [link.section for link in links]
    names = unique_names([section.kind for section in sections])
    changes = [factory_of(section)() for section in sections]
    return augmenting(dict(zip(names, changes, strict=True)))


def _private_gradients(section: Any) -> Private | None:
    """How gradients of single samples are made private, of a client section; None: not."""
    return first_answer(lambda field: field.gradients(section))


@functools.lru_cache(MAX_CACHED)
def serving(
    training_inputs: TrainingInputs,
    sections: ServerSections,
    *,
    drop: bool,
    shape: ServerShape,
) -> Server:
    """Return the server's program for what `training(training_inputs)` sends.

    Raises:
      OrderError: for a server list in an order that means nothing.
    """
    stages, rule, steps, optimisers = server_of([link.section for link in sections.server])
    stages = [*sections.before, *stages]

    # Servers that differ in their optimisers alone share everything in front of them.
    if optimisers:
        without_optimisers = sections.server[: -len(optimisers)]
        server = serving(
            training_inputs,
            sections._replace(server=without_optimisers),
            drop=drop,
            shape=shape,
        )
        return server.with_optimiser(server_step(*optimisers))

    trained = training(training_inputs)
    wire = made_of(sections.wire)
    parts = ServerParts(wire, stages, rule, steps, make=Server, kept=[], sender=Sender)
    setting = ServerSetting(trained.client, shape.width, drop)
    for name, key in sections.of_fields:
        change = fields()[name].serves
        if change is not None:
            parts = change(parts, key, setting)
    pipeline = Pipeline(
        wire=parts.wire,
        server=ServerLinks(parts.stages, parts.rule, parts.steps),
        client=trained.client,
        task=trained.task,
        drops_nonfinite=drop,
        width=shape.width,
        scale=_scale_of(training_inputs.model),
    )
    return parts.make(
        pipeline,
        sender=parts.sender(pipeline),
        memories=trained.memories,
        rows=shape.blocks * shape.block,
        kept=parts.kept,
    )


def _scale_of(model: Model) -> float:
    """What the pair of a model's adapter counts."""
    adapter = model.adapter
    return 1.0 if adapter is None or not adapter.rank else adapter.scale(adapter.rank)


def made_of(links: tuple[HashableSection, ...]) -> list[Any]:
    """Return what the factories of these sections make."""
    return [factory_of(link.section)() for link in links]
