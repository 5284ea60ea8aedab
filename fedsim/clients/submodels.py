"""Clients that train a part of the model: some of the units of every hidden layer."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Part, Shared, Work

Axes = tuple[int | None, ...]  # hidden units along every axis of a leaf; None: it stays whole

ROUNDING = 1e-9  # 0.07 · 100 is 7.000000000000001, and keeps 7 units


class Widths(NamedTuple):
    """How wide the parts are, and which units they have.

    Attributes:
      widths: share of the units of every hidden layer, by level, the largest first.
      rolls: whether the units change from round to round (FedRolex); else they are the first ones
        of the layer (HeteroFL).
    """

    widths: tuple[float, ...]
    rolls: bool = False

    def kept(self, units: int) -> np.ndarray:
        """Return how many of a layer's units a part has, by level: ⌈width · units⌉, at least 1."""
        kept = [max(math.ceil(width * units - ROUNDING), 1) for width in self.widths]
        return np.array(kept, np.int64)


def in_widths(inner: Client, widths: Widths, hidden: tuple[tuple[str, Axes], ...]) -> Client:
    """Return a method whose clients each train a sub-model of their own width.

    A client of width w has ⌈w K⌉ of the K units of every hidden layer, with their biases and all
    weights between them, and all inputs and outputs. The others are zero while it trains and are
    left as they are, so that it trains the small network, as if it were cut out: a unit of zeros
    behind a ReLU passes on nothing, and has no gradient.

    The units are the first ones (HeteroFL), or those from (r − 1) mod K on in round r, past the
    last one to the first (FedRolex). Outputs are not rescaled by the width (HeteroFL's scaler), no
    normalisation is added (its static batch normalisation), and classes that a client lacks count
    in its cross-entropy (its masked loss; use `fedrs` for something close).

    Args:
      inner: the method, whose clients remember and send nothing but the parameters.
      widths: how wide the parts are.
      hidden: `Model.hidden`.

    References:
      Diao, Ding, Tarokh 2021, HeteroFL: Computation and Communication Efficient Federated Learning
      for Heterogeneous Clients, arXiv:2010.01264, Algorithm 1; Alam et al. 2022, FedRolex:
      Model-Heterogeneous Federated Learning with Rolling Sub-Model Extraction, arXiv:2212.01548,
      Algorithm 1.
    """
    return in_parts(inner, part_of(widths, dict(hidden)))


def in_parts(inner: Client, part: Part) -> Client:
    """Return a method whose clients each train a part of the model.

    What a client does not have is zero while it trains, and left as it is.

    Args:
      inner: the method, whose clients remember and send nothing but the parameters.
      part: of each size; numbers outside of it have no gradient where they are zero.
    """

    def cut(params: Tree, work: Work) -> Tree:
        """The parameters, with zeros for what the client does not have."""
        return jax.tree.map(
            lambda leaf, has: jnp.where(has, leaf, 0), params, part.trains(params, work)
        )

    def received(shared: Shared, work: Work) -> Shared:
        return {**shared, "params": cut(shared["params"], work)}

    def start(task, shared, row, work):
        return inner.start(task, received(shared, work), row, work)

    def gradient(task, variables, batch, local, shared, work):
        return inner.gradient(task, variables, batch, local, received(shared, work), work)

    def step(task, g, params, local, shared, work):
        params, local = inner.step(task, g, params, local, received(shared, work), work)
        return cut(params, work), local

    def finish(task, shared, variables, local, row, work):
        return inner.finish(task, received(shared, work), variables, local, row, work)

    return inner._replace(start=start, gradient=gradient, step=step, finish=finish, part=part)


def part_of(widths: Widths, hidden: dict[str, Axes]) -> Part:
    """Return which numbers of the parameters a client has.

    Args:
      widths: how wide the parts are.
      hidden: axes by the name of the leaf; other leaves stay whole.
    """

    def has_positions(units: int, size: int, work: Work) -> Bool[Array, " size"]:
        """Whether a client has each position along an axis."""
        first = work.round % units if widths.rolls else 0
        behind_first = (jnp.arange(size) - first) % units
        return behind_first < jnp.asarray(widths.kept(units))[work.level]

    def trains(params: Tree, work: Work) -> Tree:
        def of_leaf(name: str, leaf: Array) -> Array:
            has = jnp.ones(leaf.shape, bool)
            for axis, units in enumerate(hidden.get(name, ())):
                if units is not None:
                    positions = has_positions(units, leaf.shape[axis], work)
                    others = [other for other in range(leaf.ndim) if other != axis]
                    has &= jnp.expand_dims(positions, others)
            return has

        return tree.map_by_name(of_leaf, params)

    def kept(params: Tree) -> Tree:
        def of_leaf(name: str, leaf: Array) -> np.ndarray:
            numbers = np.full(len(widths.widths), leaf.size, np.int64)
            for units in hidden.get(name, ()):
                if units is not None:
                    numbers = numbers // units * widths.kept(units)
            return numbers

        return tree.map_by_name(of_leaf, params)

    return Part(trains=trains, kept=kept)
