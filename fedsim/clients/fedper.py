"""FedPer: a shared body, and a head for every client."""

import re
from collections.abc import Callable
from fnmatch import fnmatchcase

import jax

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.tree import Tree
from fedsim.types import Client


@client
def fedper(personal: list[str] | None = None) -> Client:
    """A shared body, and a head for every client that never leaves it.

    (x, v_i): y ← y − η_l ∇f_i(y; batch), from y = (x, v_i); then v_i is the head of y, and the client sends the body of y
    minus x. A client that has not taken part has the head of the start model, which is what the shared model keeps: what
    says how well the method does is `personal_accuracy` in `clients.csv` (with `data.client_test`), not `test_accuracy`.

    State: v_i, the head, for every client.    Sends: one body, receives one.    With no personal leaf: `sgd`.

    Args:
      personal: leaves that stay with the client, by their names or by parts of them that stand between dots: `[last]` for
        `last.W` and `last.b`, `[b]` for every b; `*` stands for any letters. Left out: the last layer, which is the one
        named `last`, else the last of the model's layers in the order of their names.

    Raises:
      ValueError: at build time, for names that no leaf or every leaf has, and for a model of a single layer.

    References:
      Arivazhagan et al. 2019, Federated Learning with Personalization Layers, arXiv:1912.00818, Algorithms 1 and 2.
    """

    def shares(params):
        return shared_mask(params, personal)

    def head(params):
        return tree.part(params, jax.tree.map(lambda shared: not shared, shares(params)))

    def memory(shared, key):
        del key
        return {"head": head(shared["params"])}

    def own(shared, row):
        return {"params": tree.filled(row["head"], shared["params"]), "stats": shared["stats"]}

    def start(task, shared, row, work):
        _, local = hooks.start(task, shared, row, work)
        return own(shared, row), local

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"head": head(variables["params"])})

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=hooks.step,
        finish=finish,
        shares=shares,
        personal=own,
    )


def shared_mask(params: Tree, personal: list[str] | None) -> Tree:
    """A bool for every leaf: whether it travels, for `personal` as `fedper` takes it.

    Raises:
      ValueError: where all or none do.
    """
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in _leaves(params)]
    stays = _last_layer(names) if personal is None else _matching(names, personal)
    return jax.tree.unflatten(jax.tree.structure(params), [not stays(name) for name in names])


def _leaves(params: Tree) -> list:
    return jax.tree_util.tree_leaves_with_path(params)


def _matching(names: list[str], personal: list[str]) -> Callable[[str], bool]:
    """Whether a leaf has one of the names, or parts of them."""
    if unknown := [part for part in personal if not any(_has(name, part) for name in names)]:
        raise ValueError(f"personal: no leaf is named {unknown[0]!r}; {_listed(names)}")
    stays = lambda name: any(_has(name, part) for part in personal)
    if not personal or all(map(stays, names)):
        which = (
            "every leaf is personal, and nothing is shared" if personal else "no leaf is personal"
        )
        raise ValueError(f"personal: {which}; name some of the leaves: {_listed(names)}")
    return stays


def _has(name: str, part: str) -> bool:
    """Whether the dotted `part` stands between dots in a leaf's name."""
    parts, wanted = name.split("."), part.split(".")
    windows = (parts[i : i + len(wanted)] for i in range(len(parts) - len(wanted) + 1))
    return any(all(map(fnmatchcase, window, wanted)) for window in windows)


def _last_layer(names: list[str]) -> Callable[[str], bool]:
    """Whether a leaf is one of the last layer's."""
    paths, depth = [name.split(".") for name in names], 0
    while len({tuple(path[: depth + 1]) for path in paths}) == 1 and all(
        len(path) > depth + 1 for path in paths
    ):
        depth += 1  # all of it stands in one
    layers = {path[depth] for path in paths}
    if all(len(path) == depth + 1 for path in paths):
        text = "the model has a single layer; write in personal which leaves stay, or take a model with more layers"
        raise ValueError(f"{text}: {_listed(names)}")
    last = "last" if "last" in layers else max(layers, key=_numbered)
    return lambda name: name.split(".")[depth] == last


def _numbered(name: str) -> list:
    """A name in whose order 10 comes after 2."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)]


def _listed(names: list[str]) -> str:
    return f"leaves are {', '.join(name or 'one array' for name in names[:8])}{', ...' if len(names) > 8 else ''}"
