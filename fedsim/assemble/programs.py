"""The device half of the build: pure functions made once per static configuration, shared by all runs of a process.

What is data (learning rates, batches, steps, cohorts, who is malicious) is no part of the key, so that runs that differ
in nothing else are compiled once: seeds, learning rates, and all rules behind one client method.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsim.assemble.links import factory_of, server_of
from fedsim.assemble.rates import client_rate, counts_steps
from fedsim.clients import augmenting, carrying, mean_loss, sgd
from fedsim.compose import FAMILIES, named, server_step
from fedsim.engine.deviation import Deviations
from fedsim.engine.evaluation import Evaluate, evaluator
from fedsim.engine.lanes import Lanes
from fedsim.engine.memory import Memories
from fedsim.engine.pipeline import Pipeline
from fedsim.engine.server import Server
from fedsim.engine.task import LOSSES, task
from fedsim.fleet import Timetable
from fedsim.models import Tokens, as_model, reading
from fedsim.rules.mean import mean
from fedsim.stages.discount import discount
from fedsim.stages.mixing import mixing
from fedsim.types import Client, Model, Task

KEPT = 64  # configurations of each kind
DATA = {
    "batch",
    "steps",
    "epochs",
    "shuffle",
    "drop_last",
    "lr_per",
}  # of a client section: what the plan reads


class HashableSection:
    """A checked section as a key: equal text and equal factory are the same thing."""

    def __init__(self, section: Any, without: frozenset[str] | set[str] = frozenset()):
        self.section = section
        self.key = (
            FAMILIES[section.family][section.kind],
            section.model_dump_json(exclude=set(without)),
        )

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashableSection) and self.key == other.key


class Training(NamedTuple):
    """How clients train, and how models are evaluated."""

    client: Client
    task: Task
    lanes: Lanes
    probe: Lanes  # of the pass at the global model, for methods and rules that ask for one
    evaluate: Evaluate
    own: Lanes  # of the server's own training, for rules that ask for its update
    memories: Memories  # of the method, where no stage remembers anything beside it


def client_key(section: Any) -> HashableSection:
    """A client section without what the plan reads; a schedule by local steps is part of the program."""
    return HashableSection(section, DATA if counts_steps(section) else DATA | {"lr"})


def augmented(section: Any) -> tuple[HashableSection, ...]:
    """The augmentation of a data section, as a key."""
    return tuple(map(HashableSection, section.augment))


@functools.lru_cache(KEPT)
def registered_model(
    section: HashableSection,
    shape: tuple[int, ...],
    outputs: int,
    expects: tuple[tuple[str, int], ...],
    tokens: Tokens | None,
) -> Model:
    """A model by its kind, for samples of a shape; its `init` is one program.

    Args:
      section: the model section.
      shape: of one sample.
      outputs: that it is to have.
      expects: `(("classes", 10),)` or `(("targets", 2),)`, against which its outputs are checked when traced, or neither.
      tokens: what it must know of them, where samples are tokens.

    Raises:
      ValueError: for tokens, where the model takes numbers.
    """
    known: Any = dict(expects)
    build = factory_of(section.section)()
    reads_tokens = "tokens" in inspect.signature(build).parameters
    if tokens is not None and not reads_tokens:
        kind = section.section.kind
        raise ValueError(
            f"{kind} takes numbers, and these samples are tokens; use char_lstm, char_gru or transformer"
        )
    made = build(shape, outputs, tokens) if reads_tokens else build(shape, outputs)
    model = as_model(made, shape=shape, **known)
    return model._replace(init=jax.jit(model.init))


@functools.lru_cache(KEPT)
def stored_model(model: Model, scale: float) -> Model:
    """A model for features as they are stored: the same one for the same model, so that it is compiled once."""
    return reading(model, scale)


@functools.lru_cache(KEPT)
def user_model(
    init: Callable, apply: Callable, shape: tuple[int, ...], expects: tuple[tuple[str, int], ...]
) -> Model:
    """A user's pair of functions as a model."""
    known: Any = dict(expects)
    return as_model(init, apply, shape=shape, **known)


@functools.lru_cache(KEPT)
def training(
    net: Model,
    loss: Callable | str,
    classes: int,
    section: HashableSection,
    augment: tuple[HashableSection, ...] = (),
) -> Training:
    """The program that trains and evaluates a model.

    What is measured at the global model, and scores, are of samples as they stand.
    """
    c = section.section
    schedule = client_rate(c).schedule

    def rate(lr, step):
        return jnp.asarray(schedule(step.astype(lr.dtype)), lr.dtype) if schedule else lr

    cost = LOSSES[loss] if isinstance(loss, str) else loss
    plain = task(net, cost, factory_of(c.optimizer), rate, classes)
    job = plain._replace(augment=_augmenting(augment)) if augment else plain
    client = factory_of(c)()
    if c.optimizer_state == "carry":
        client = carrying(client, lambda params: job.optimizer(jnp.zeros(())).init(params))
    return Training(
        client=client,
        task=job,
        lanes=Lanes(client, job),
        probe=Lanes(client.probe or mean_loss, plain),
        evaluate=evaluation(net, cost, classes),
        own=Lanes(sgd()._replace(shares=client.shares), job),
        memories=Memories(client),
    )


def _augmenting(links: tuple[HashableSection, ...]) -> Callable:
    """`data.augment`, as a change of a batch."""
    sections = [link.section for link in links]
    names = named([section.kind for section in sections])
    return augmenting(
        {name: factory_of(section)() for name, section in zip(names, sections, strict=True)}
    )


@functools.lru_cache(KEPT)
def evaluation(net: Model, cost: Callable, classes: int) -> Evaluate:
    """The program that evaluates a model, which is the same whoever trains it."""
    return evaluator(net.apply, cost, classes > 0)


@functools.lru_cache(KEPT)
def serving(
    learned: tuple,
    wire: tuple[HashableSection, ...],
    server: tuple[HashableSection, ...],
    schedule: HashableSection,
    broadcast: tuple[HashableSection, ...] = (),
    *,
    drop: bool,
    width: int,
    **shape: int,
) -> Server:
    """The server's program for what `training(*learned)` sends; without the optimisers behind its rule it is made once.

    Where the schedule is one in which old updates count less, they do behind all stages; where it mixes models, that is the
    last step on the aggregate.

    Raises:
      OrderError: for a server list in an order that means nothing.
    """
    stages, rule, steps, tail = server_of([w.section for w in server])
    if tail:
        inner = serving(
            learned,
            wire,
            server[: -len(tail)],
            schedule,
            broadcast,
            drop=drop,
            width=width,
            **shape,
        )
        return inner.with_optimiser(server_step(*tail))
    timetable: Timetable = factory_of(schedule.section)()
    if timetable.discount is not None:
        stages = [*stages, discount(timetable.discount)]
    if timetable.mixing is not None:
        steps = [*steps, mixing()]
    before, trained = [factory_of(w.section)() for w in wire], training(*learned)
    codec = factory_of(broadcast[0].section)() if broadcast else None
    pipeline = Pipeline(before, stages, rule, steps, trained.client, drop=drop, width=width)
    return Server(
        pipeline,
        trained.task,
        codec,
        trained.memories,
        deviations(learned, wire, drop, width),
        **shape,
    )


@functools.lru_cache(KEPT)
def deviations(
    learned: tuple, wire: tuple[HashableSection, ...], drop: bool, width: int
) -> Deviations:
    """The program that measures rows behind a wire, whatever rule follows: as of the plain mean."""
    trained = training(*learned)
    links = [factory_of(w.section)() for w in wire]
    pipeline = Pipeline(links, [], mean(), [], trained.client, drop=drop, width=width)
    return Deviations(pipeline, trained.task)
