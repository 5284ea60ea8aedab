"""A rule by itself, in fedsim and in NumPy, over rounds of random updates instead of training."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.compose import FAMILIES, chain, fresh_rows, labels, with_row_stage
from fedsim.types import Context
from reference import loop, problems
from reference.conditions import HARD, cohorts
from tests.cohorts import cohort_of, context_of

SIZES = np.array(problems.SIZES)
ABLE = np.flatnonzero(SIZES)
D, LR, SERVER_LR = 3, 0.4, 0.5
ENDS = [2]  # of the first of two leaves
TWICE = [[1, 2, 2, 5, 6], [2, 4, 4, 4, 7], [1, 4, 5, 6, 7]]
"""Cohorts in which clients are drawn more than once."""


def rounds(twice: bool, seed: int = 7) -> list[loop.Round]:
    """Rounds of some of the clients, the model left open; in the third, client 5 is far away."""
    rng = np.random.default_rng(seed)
    made = []
    for number, ids in enumerate(TWICE if twice else cohorts(HARD), 1):
        columns = {
            "updates": rng.normal(size=(len(SIZES), D)) + [0.3, 0.0, -0.5],
            "losses": rng.uniform(0.2, 2.0, len(SIZES)),
            "work": rng.uniform(0.5, 4.0, len(SIZES)),
            "steps": rng.integers(1, 6, len(SIZES)),
            "counts": SIZES,
        }
        if number == 3:
            columns["updates"][5] *= -40
        sent = {name: column[ids] for name, column in columns.items()}
        known = {"x": None, "clients": ids, "lr": LR, "N": len(ABLE), "n": int(SIZES.sum())}
        made.append(loop.Round(number=number, **known, **sent))
    return made


def in_numpy(rule: type, played: list[loop.Round], start: np.ndarray) -> list[np.ndarray]:
    """What a rule makes of every round; the model moves half as far. Small rounds are skipped."""
    x, made, steps = start, rule(start, ABLE.tolist()), []
    for each in played:
        if len(each.clients) >= made.min_clients:
            steps.append(made.reduce(each._replace(x=x)))
            x = x + SERVER_LR * steps[-1]
    return steps


def in_fedsim(
    link: dict, least: int, played: list[loop.Round], start: np.ndarray
) -> list[np.ndarray]:
    """The same: a row for every client, NaN where it did not report."""
    rule = made("rule", link)
    stages = with_row_stage([], rule)
    before = chain(stages)

    def context(number: Any, x: Any) -> Context:
        return context_of(
            len(SIZES),
            round=number,
            N=jnp.asarray(float(len(ABLE))),
            lr=jnp.asarray(LR),
            shared={"params": x},
            samples=jnp.asarray(float(SIZES.sum())),
        )

    def play(sent, state, number, x):
        known = context(number, x)
        updates, _, _ = before.apply(sent, before.init(x, sent.arrived), known)
        step, state, _ = rule.apply(updates, state, known)
        x = jax.tree.map(lambda x, step: x + SERVER_LR * step, x, step)
        return step, state, x, tree.select(sent.arrived, updates.memory, sent.memory)

    x = leaves(start)
    memory = fresh_rows(dict(zip(labels(stages), stages, strict=True)), context(1, x))
    state, steps, play = rule.init(x, jnp.asarray(SIZES > 0)), [], jax.jit(play)
    for each in played:
        if len(each.clients) >= least:
            sent = updates_of(each)._replace(memory=memory)
            step, state, x, memory = play(sent, state, jnp.int32(each.number), x)
            steps.append(np.concatenate(jax.tree.leaves(step)))
    return steps


def updates_of(each: loop.Round) -> Any:
    """The messages of a round."""
    count = np.bincount(each.clients, minlength=len(SIZES))

    def spread(values: np.ndarray, absent: float) -> jax.Array:
        wide = np.full((len(SIZES), *values.shape[1:]), absent)
        wide[each.clients] = values
        return jnp.asarray(wide)

    numbers = {"loss": each.losses, "steps": each.steps, "effort": each.work}
    return cohort_of(
        leaves(spread(each.updates, np.nan)),
        jnp.asarray(count > 0),
        jnp.asarray(SIZES.astype(float)),
        count=jnp.asarray(count.astype(float)),
        **{name: spread(values, 9.0) for name, values in numbers.items()},
    )


def leaves(rows: Any) -> dict[str, Any]:
    """Numbers as a model of two leaves."""
    first, second = jnp.split(jnp.asarray(rows), ENDS, axis=-1)
    return {"W": first, "b": second}


def made(family: str, link: dict[str, Any]) -> Any:
    """What the factory of a link makes, with the links inside it."""
    arguments = {name: value for name, value in link.items() if name != "kind"}
    for name, value in arguments.items():
        if isinstance(value, dict):
            arguments[name] = made(family, value)
    return FAMILIES[family][link["kind"]](**arguments)
