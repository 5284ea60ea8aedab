"""One small cohort that all cases share, and rules played on it for some rounds."""

import functools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.compose import FAMILIES, chain, fresh_rows, labels, with_row_stage
from fedsim.types import Context, Updates

NONE = [float("nan"), float("nan")]  # a client that did not report: its row may hold anything
CLIENTS = 8
"""Clients that there are in all; those of the cohort are the first six."""


QUICK = {"xla_cpu_use_fusion_emitters": False}
"""XLA compiles in half the time with its older code for fused operations."""


@functools.cache
def known_options() -> dict[str, Any]:
    """QUICK, where this version of XLA knows it."""
    try:
        jax.jit(lambda x: x + 1, compiler_options=QUICK)(1.0)
    except jax.errors.JaxRuntimeError:
        return {}
    return QUICK


def compiled(function: Callable, **options: Any) -> Callable:
    """One program of a function, quickly made."""
    return jax.jit(function, compiler_options=known_options(), **options)


class Cohort(NamedTuple):
    """Six clients, of which the third did not report, and what a server knows beside updates."""

    rows: Any = ([1, 0], [3, 4], NONE, [2, 2], [0, -1], [10, -6])
    samples: Any = (1, 2, 9, 1, 3, 2)
    count: Any = (1, 1, 1, 1, 1, 1)
    loss: Any = (0.5, 1, 9, 2, 0.25, 1)
    steps: Any = (2, 1, 7, 3, 1, 2)
    effort: Any = (1, 2, 7, 4, 1, 2)
    malicious: Any = (0, 0, 0, 0, 0, 0)
    params: Any = (1, -1)
    number: int = 1  # of the round
    lr: float = 0.5
    reference: Any = (3, 4)
    all_samples: float = 40
    expected: float = 4
    expected_samples: float = 16
    share: Any = (0.5, 0.25, 0.5, 0.5, 0.5, 0.25)


class Case(NamedTuple):
    """A link, some rounds, and what must come out of each."""

    link: dict[str, Any]
    rounds: list[Cohort]
    wanted: list[Any]


def case(link: dict[str, Any], *pairs: tuple[Cohort, Any]) -> Case:
    """A case of rounds one after another, each with what must come out of it."""
    return Case(link, [cohort for cohort, _ in pairs], [wanted for _, wanted in pairs])


def column(cohort: Cohort, name: str, dtype: Any = np.float32) -> np.ndarray:
    """A number of every row; of more than six rows it is that of the sixth before."""
    return np.resize(np.asarray(getattr(cohort, name), dtype), len(cohort.rows))


def updates_of(cohort: Cohort, memory: Any) -> Updates:
    """The messages of a round; a row that holds a NaN did not arrive."""
    rows = np.asarray(cohort.rows, np.float32)
    numbers = ("samples", "count", "loss", "steps", "effort")
    floats = {name: column(cohort, name) for name in numbers}
    return Updates(
        delta=rows,
        stats={},
        aux={},
        arrived=~np.isnan(rows).any(axis=1),
        memory=memory,
        bytes=np.zeros(len(rows), np.int32),
        age=np.zeros(len(rows), np.int32),
        **floats,
    )


def half_square(params: Any, batch: Any = None, key: Any = None) -> Any:
    """½‖x‖², the loss on the server's own samples."""
    del batch, key
    return 0.5 * jnp.sum(params * params)


def context_of(cohort: Cohort) -> Context:
    """What stages and rules may know of it."""
    return Context(
        key=jax.random.key(0),
        round=np.int32(cohort.number),
        N=np.float32(CLIENTS),
        lr=np.float32(cohort.lr),
        shared={"params": np.asarray(cohort.params, np.float32)},
        ids=np.arange(len(cohort.rows)),
        malicious=column(cohort, "malicious", bool),
        reference=np.asarray(cohort.reference, np.float32),
        samples=np.float32(cohort.all_samples),
        expected=np.float32(cohort.expected),
        expected_samples=np.float32(cohort.expected_samples),
        share=column(cohort, "share"),
    )


def made(family: str, link: dict[str, Any]) -> Any:
    """What the factory of a link makes, with the codecs inside it."""
    arguments = {name: value for name, value in link.items() if name != "kind"}
    for name, value in arguments.items():
        if isinstance(value, dict):
            arguments[name] = made("codec", value)
    return FAMILIES[family][link["kind"]](**arguments)


class Played(NamedTuple):
    """A rule by itself, compiled."""

    start: Callable  # context -> (state, memory)
    play: Callable  # (updates, state, context) -> (step, state, memory)


@functools.cache
def played(written: str) -> Played:
    """The rule of a link in JSON: links that are written alike share a program."""
    rule = made("rule", json.loads(written))
    stages = with_row_stage([], rule)
    names, before = labels(stages), chain(stages)

    def start(context: Context):
        memory = fresh_rows(dict(zip(names, stages, strict=True)), context)
        return rule.init(context.shared["params"], jnp.ones(CLIENTS, bool)), memory

    def play(updates: Updates, state: Any, context: Context):
        context = context._replace(server_loss=half_square)
        sent, _, _ = before.apply(
            updates, before.init(context.shared["params"], updates.arrived), context
        )
        step, state, _ = rule.apply(sent, state, context)
        return step, state, tree.select(updates.arrived, sent.memory, updates.memory)

    return Played(start, compiled(play))


def steps_of(case: Case) -> list[np.ndarray]:
    """What a rule makes of the rounds of a case, one after another."""
    start, play = played(json.dumps(case.link, sort_keys=True))
    state, memory = start(context_of(case.rounds[0]))
    steps = []
    for cohort in case.rounds:
        step, state, memory = play(updates_of(cohort, memory), state, context_of(cohort))
        steps.append(np.asarray(step))
    return steps
