"""FedPer: a shared body, and a head for every client."""

import operator
import re
from collections.abc import Callable
from typing import Literal

import jax

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client, Scored, Travel


@client
def fedper(personal: list[str] | None = None) -> Client:
    """A shared body, and a personal head for every client, which it never sends.

    (x, v_i): y ← y − η_l ∇f_i(y; batch), from y = (x, v_i); then v_i is the head of y, and the
    client sends the body of y minus x. A client that has not taken part has the head of the start
    model, and so has the shared model: judge the method by `personal_accuracy` in `clients.csv`
    (with `data.client_test`), not by `test_accuracy`.

    State: v_i, the head, for every client.    Sends: one body, receives one.
    With no personal leaf: `sgd`.

    Args:
      personal: leaves that stay with the client, by their full names or by the parts between dots:
        `[last]` for `last.W` and `last.b`, `[b]` for every b; `*` matches any letters. Left out:
        the last layer, which is the one named `last`, else the model's last layer in the order of
        names.

    Raises:
      ValueError: at build time, for names that match no leaf or every leaf, and for a model with a
        single layer.

    References:
      Arivazhagan et al. 2019, Federated Learning with Personalization Layers, arXiv:1912.00818,
      Algorithms 1 and 2.
    """
    return keeping("head", lambda params: shared_mask(params, personal))


def keeping(
    name: str,
    shares: Callable[[Tree], Tree],
    stats: Literal["averaged", "kept"] = "averaged",
) -> Client:
    """Return plain local training of clients that keep the leaves which they do not share.

    Args:
      name: what a client's row calls them.
      shares: parameters -> a bool for every leaf, whether it travels.
      stats: what happens to running statistics, as `Client.stats`.
    """
    keeps_stats = stats == "kept"

    def row_of(variables):
        params = variables["params"]
        row = {name: unshared_leaves(params, shares(params))}
        return {**row, "stats": variables["stats"]} if keeps_stats else row

    def memory(shared, key):
        del key
        return row_of(shared)

    def personal_model(shared, row):
        params = tree.fill_leaves(row[name], shared["params"])
        return {"params": params, "stats": row["stats"] if keeps_stats else shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return personal_model(shared, row), local

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory=row_of(variables))

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=hooks.step,
        finish=finish,
        travel=Travel(shares=shares, stats=stats),
        scored=Scored(personal_model),
    )


def shared_mask(params: Tree, personal: list[str] | None) -> Tree:
    """Return a bool for every leaf: whether it travels, given `personal` as `fedper` takes it.

    Raises:
      ValueError: where all or none do.
    """
    names = tree.leaf_names(params)
    is_personal = _in_last_layer(names) if personal is None else _matches(names, personal)
    return tree.mask_by_name(params, lambda name: not is_personal(name))


def unshared_leaves(params: Tree, shared: Tree) -> Tree:
    """Return the leaves that do not travel, as `tree.select_leaves` does.

    Args:
      shared: a bool for every leaf, whether it travels.
    """
    return tree.select_leaves(params, opposite(shared))


def opposite(mask: Tree) -> Tree:
    """Return a mask of the other leaves."""
    return jax.tree.map(operator.not_, mask)


def _matches(names: list[str], personal: list[str]) -> Callable[[str], bool]:
    """Return whether one of the patterns matches a leaf's name."""
    tree.require_leaves(names, personal, key="personal")
    is_personal = lambda name: tree.matches_any(name, personal)

    remedy = f"name some of the leaves: {tree.listed(names)}"
    if not personal:
        raise ValueError(f"personal: no leaf is personal; {remedy}")
    if all(map(is_personal, names)):
        raise ValueError(f"personal: every leaf is personal, and nothing is shared; {remedy}")
    return is_personal


def _in_last_layer(names: list[str]) -> Callable[[str], bool]:
    """Return whether a leaf belongs to the last layer."""
    paths = [name.split(".") for name in names]

    # The depth at which the layers differ: a model may be wrapped in modules that hold all of it.
    depth = 0
    while _share_prefix(paths, depth + 1):
        depth += 1
    if all(len(path) == depth + 1 for path in paths):
        remedy = "write in personal which leaves stay, or take a model with more layers"
        raise ValueError(f"the model has a single layer; {remedy}: {tree.listed(names)}")

    layers = {path[depth] for path in paths}
    last = "last" if "last" in layers else max(layers, key=_natural_order)
    return lambda name: name.split(".")[depth] == last


def _share_prefix(paths: list[list[str]], length: int) -> bool:
    """Whether all paths begin with the same `length` parts, and none ends there."""
    prefixes = {tuple(path[:length]) for path in paths}
    return len(prefixes) == 1 and all(len(path) > length for path in paths)


def _natural_order(name: str) -> list:
    """A sort key by which `layer10` comes after `layer2`."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]
