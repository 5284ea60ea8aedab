"""Clients whose adapters have different ranks."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from fedsim import tree
from fedsim.fields.parts.submodels import in_parts
from fedsim.tree import Tree
from fedsim.types import LOW_RANK, Adapter, Client, Part, Shared, Task, Work

A, B = LOW_RANK
RANK_AXIS = {A: 1, B: 0}


def in_ranks(inner: Client, ranks: Sequence[int], adapter: Adapter) -> Client:
    """Return a method whose clients each train pairs A B of a rank of their own.

    A client of rank r has the first r columns of A and rows of B, for every target; the others are
    zero while it trains, and neither received nor sent. Its A B counts alpha/r. The server's pairs
    count alpha/R with R the rank of the adapter: a client divides B by R/r when it comes, and sends
    R/r times its change, so that what the server sees has one scale. Where alpha is the rank, every
    pair counts 1.

    Args:
      inner: the method, whose clients remember and send nothing but the parameters.
      ranks: of the levels, the largest first.
      adapter: the model's, with a pair of rank R.

    References:
      Cho et al. 2024, Heterogeneous LoRA for Federated Fine-tuning of On-Device Foundation Models,
      arXiv:2401.06432, section 4 (the first rows of a pair, and zeros in place of the others; ranks
      stay as they are here, without its pruning of them).
    """
    method = in_parts(inner, part_of_ranks(ranks))
    scales = np.array([adapter.scale(rank) for rank in ranks]) / adapter.scale(adapter.rank)
    return method if (scales == 1).all() else with_scales(method, scales)


def part_of_ranks(ranks: Sequence[int]) -> Part:
    """Return which numbers of the parameters a client has."""

    def trains(params: Tree, work: Work) -> Tree:
        rank = jnp.asarray(ranks)[work.level]

        def has(name: str, leaf: Array) -> Array:
            axis = _rank_axis(name)
            if axis is None:
                return jnp.ones(leaf.shape, bool)
            shape = [1, 1]
            shape[axis] = -1
            is_first = jnp.arange(leaf.shape[axis]) < rank
            return jnp.broadcast_to(is_first.reshape(shape), leaf.shape)

        return tree.map_by_name(has, params)

    def kept(params: Tree) -> Tree:
        def of_leaf(name: str, leaf: Array) -> np.ndarray:
            axis = _rank_axis(name)
            if axis is None:
                return np.full(len(ranks), leaf.size, np.int64)
            return leaf.size // leaf.shape[axis] * np.array(ranks, np.int64)

        return tree.map_by_name(of_leaf, params)

    return Part(trains=trains, kept=kept)


def with_scales(inner: Client, scales: np.ndarray) -> Client:
    """Return a method whose clients' A B count more than the server's.

    Args:
      scales: how much more, by level `[levels]`.
    """

    def times(params: Tree, work: Work, inverse: bool = False) -> Tree:
        """B times the client's scale, or divided by it."""
        scale = jnp.asarray(1 / scales if inverse else scales)[work.level]

        def scaled(name: str, leaf: Array) -> Array:
            is_b = name.split(".")[-1] == B
            return leaf * scale.astype(leaf.dtype) if is_b else leaf

        return tree.map_by_name(scaled, params)

    def received(shared: Shared, work: Work) -> Shared:
        return {**shared, "params": times(shared["params"], work, inverse=True)}

    def own(task: Task, work: Work) -> Task:
        """The task on the client's own pairs."""

        def seen(variables):
            return {**variables, "params": times(variables["params"], work)}

        def value_and_grad(variables, batch, objective=None):
            value, g = task.value_and_grad(seen(variables), batch, objective)
            return value, times(g, work)

        def apply(variables, x, **options):
            return task.apply(seen(variables), x, **options)

        return task._replace(value_and_grad=value_and_grad, apply=apply)

    def start(task, shared, row, work):
        return inner.start(own(task, work), received(shared, work), row, work)

    def gradient(task, variables, batch, local, shared, work):
        shared = received(shared, work)
        return inner.gradient(own(task, work), variables, batch, local, shared, work)

    def step(task, g, params, local, shared, work):
        return inner.step(own(task, work), g, params, local, received(shared, work), work)

    def finish(task, shared, variables, local, row, work):
        shared = received(shared, work)
        message = inner.finish(own(task, work), shared, variables, local, row, work)
        return message._replace(delta=times(message.delta, work))

    return inner._replace(start=start, gradient=gradient, step=step, finish=finish)


def _rank_axis(name: str) -> int | None:
    """The axis of a leaf that its rank is along; None: it is of no pair."""
    return RANK_AXIS.get(name.split(".")[-1])
