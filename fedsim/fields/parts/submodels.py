"""Clients that train a part of the model: some of the units of every hidden layer."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Objective, Part, Shared, Task, Work

Axes = tuple[int | None, ...]  # hidden units along every axis of a leaf; None: it stays whole

ROUNDING = 1e-9  # 0.07 · 100 is 7.000000000000001, and keeps 7 units


class Widths(NamedTuple):
    """How wide the parts are, and which units they have.

    Attributes:
      widths: share of the units of every hidden layer, by level, the largest first.
      rolls: whether the units change from round to round (FedRolex); else they are the first ones
        of the layer (HeteroFL).
      scaler: whether hidden units are divided by the width in training (HeteroFL).
      masked_loss: whether the outputs of classes that a client lacks are 0 in training, and
        its last layer counts for the others alone (HeteroFL).
    """

    widths: tuple[float, ...]
    rolls: bool = False
    scaler: bool = False
    masked_loss: bool = False

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
    last one to the first (FedRolex). With `scaler`, the values of hidden units before their ReLU
    are divided by the width w in training, and not when a model is scored. With `masked_loss`, the
    outputs of classes that a client lacks are replaced by 0 in the loss that it minimises, so that
    it trains the other classes' weights and biases of the last layer alone.
    HeteroFL's static batch normalisation is not here: no model that can be cut has a normalisation.

    Args:
      inner: the method, whose clients remember and send nothing but the parameters.

    References:
      Diao, Ding, Tarokh 2021, HeteroFL: Computation and Communication Efficient Federated Learning
      for Heterogeneous Clients, arXiv:2010.01264, Algorithm 1 and section 3 (scaler, masked loss,
      and the last layer's mean over who holds a class, as in the authors' code); Alam et al. 2022,
      FedRolex:
      Model-Heterogeneous Federated Learning with Rolling Sub-Model Extraction, arXiv:2212.01548,
      Algorithm 1.
    """
    axes = dict(hidden)
    part = part_of(widths, axes)

    # Where all clients have the whole model, nothing is cut, and the program is the plain one.
    are_whole = all(width == 1 for width in widths.widths)
    travel = inner.travel._replace(part=part)
    method = inner._replace(travel=travel) if are_whole else in_parts(inner, part)
    if not (widths.scaler or widths.masked_loss):
        return method

    def gradient(task, variables, batch, local, shared, work):
        task = of_part(task, widths, axes, work)
        return method.gradient(task, variables, batch, local, shared, work)

    needs = inner.needs | {"labels"} if widths.masked_loss else inner.needs
    return method._replace(gradient=gradient, needs=needs)


def in_parts(inner: Client, part: Part) -> Client:
    """Return a method whose clients each train a part of the model.

    What a client does not train is zero meanwhile, and left as it is.

    Args:
      inner: the method, whose clients remember and send nothing but the parameters.
      part: of each size; numbers outside of it have no gradient where they are zero.
    """

    def cut(params: Tree, work: Work) -> Tree:
        """The parameters, with zeros for what the client does not train."""
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

    travel = inner.travel._replace(part=part)
    return inner._replace(start=start, gradient=gradient, step=step, finish=finish, travel=travel)


def of_part(task: Task, widths: Widths, hidden: dict[str, Axes], work: Work) -> Task:
    """Return a task with the scaler and the masked loss of ONE client's part."""

    def scaled(leaves: Tree) -> Tree:
        """Weights and biases of hidden units over the width: so are their values."""
        if not widths.scaler:
            return leaves
        inverse = 1 / jnp.asarray(widths.widths, work.lr.dtype)[work.level]

        def of_leaf(name: str, leaf: Array) -> Array:
            makes_units = name in hidden and hidden[name][-1] is not None
            return leaf * inverse.astype(leaf.dtype) if makes_units else leaf

        return tree.map_by_name(of_leaf, leaves)

    def masked(objective: Objective | None) -> Objective | None:
        if not widths.masked_loss:
            return objective

        def of_outputs(variables, outputs, batch):
            known = jnp.where(work.labels > 0, outputs, 0)
            if objective is None:
                return task.loss(known, batch.y)
            return objective(variables, known, batch)

        return of_outputs

    def value_and_grad(variables, batch, objective=None):
        model = {**variables, "params": scaled(variables["params"])}
        value, g = task.value_and_grad(model, batch, masked(objective))
        return value, scaled(g)

    return task._replace(value_and_grad=value_and_grad)


def part_of(widths: Widths, hidden: dict[str, Axes]) -> Part:
    """Return which numbers of the parameters a client trains.

    Under a masked loss, it has the whole last layer, and trains it for the classes that it holds.

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
            axes = hidden.get(name, ())
            for axis, units in enumerate(axes):
                if units is not None:
                    positions = has_positions(units, leaf.shape[axis], work)
                    others = [other for other in range(leaf.ndim) if other != axis]
                    has &= jnp.expand_dims(positions, others)
            is_of_outputs = bool(axes) and axes[-1] is None
            if widths.masked_loss and is_of_outputs:
                has &= work.labels > 0  # [..., C]
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
