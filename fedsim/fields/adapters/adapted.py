"""Adapters: small trained leaves next to the frozen weights of a model.

An adapted weight W `[..., n]` is the leaf `<leaf>.base`, and what its adapter trains has further
leaves, as `<leaf>.lora_A`.
"""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from fedsim import tree
from fedsim.compose import tag_of
from fedsim.models.freezing import viewing, with_all_leaves
from fedsim.tree import Tree
from fedsim.types import BASE, Adapter, Model

PROMPT = "prompt"


def adapted(model: Model, adapter: Adapter) -> Model:
    """Return a model whose target weights have an adapter's leaves.

    Where the model only multiplies by a weight (`Model.products`), no adapted weight is made: the
    product is that of the base, plus that of the adapter.

    Raises:
      ValueError: for a prompt of a model that takes none; when it is started, for targets that no
        weight has, and for weights that the adapter does not suit.
    """
    if adapter.prompt:
        return _prompted(model, adapter)
    if adapter.init is None:
        return model._replace(adapter=adapter)
    apply_leaves = adapter.apply
    assert apply_leaves is not None

    def init(key):
        variables = model.init(key)
        params = variables["params"]
        targets = target_names(params, model.products, adapter.targets)
        if adapter.factored_only:
            _require_products(targets, model.products)
        if model.origin is not None:
            _require_matrices(params, targets)

        def start(name: str, W: jax.Array) -> Any:
            if name not in targets:
                return W
            return {BASE: W, **_started(adapter, key, name, W)}

        return {**variables, "params": tree.map_by_name(start, params)}

    def weights(variables: Any, key: Any) -> Any:
        def weight(name: str, leaf: Any) -> Any:
            if not is_adapted(leaf):
                return leaf
            factored = tree.matches_any(name, model.products)
            own_key = None if key is None else jax.random.fold_in(key, tag_of(name))
            return apply_leaves(leaf[BASE], leaf, factored=factored, key=own_key)

        params = tree.map_by_name(weight, variables["params"], is_leaf=is_adapted)
        return {**variables, "params": params}

    targets = None if adapter.targets is None else tuple(adapter.targets)
    hashable = adapter._replace(targets=targets)  # as models are
    return viewing(model, weights)._replace(init=init, adapter=hashable)


def begun_anew(variables: Any, adapter: Adapter, key: jax.Array) -> Tree:
    """Return the parameters with the adapters that a key draws."""

    def anew(name: str, leaf: Any) -> Any:
        if not is_adapted(leaf):
            return leaf
        return {**leaf, **_started(adapter, key, name, leaf[BASE])}

    all_leaves = with_all_leaves(variables)["params"]
    drawn = tree.map_by_name(anew, all_leaves, is_leaf=is_adapted)
    return tree.leaves_like(variables["params"], drawn)


def merged(params: Tree, adapter: Adapter) -> Tree:
    """Return the leaves of the model without the adapter: each weight with its adapter in."""

    def weight(name: str, leaf: Any) -> Any:
        if not is_adapted(leaf):
            return leaf
        apply_leaves = adapter.apply
        assert apply_leaves is not None
        W = apply_leaves(leaf[BASE], leaf, factored=False, key=None)
        if not isinstance(W, jax.Array | np.ndarray):
            text = f"{adapter.leaves[0]} is not of another weight in place of {name}"
            raise ValueError(f"{text}, and cannot be merged; leave merged out")
        return W

    if adapter.prompt:
        raise ValueError("a prompt is no weight, and cannot be merged; leave merged out")
    return tree.map_by_name(weight, params, is_leaf=is_adapted)


def _started(adapter: Adapter, key: jax.Array, name: str, W: jax.Array) -> dict[str, jax.Array]:
    """The leaves of an adapter at the start."""
    assert adapter.init is not None
    return adapter.init(jax.random.fold_in(key, tag_of(name)), name, W)


def _prompted(model: Model, adapter: Adapter) -> Model:
    """The model with the vectors of a prompt in front of every sequence."""
    start = model.prompt
    if start is None:
        raise ValueError("adapter: prompt is for a transformer; use one, or another adapter")

    def init(key):
        variables = model.init(key)
        params = variables["params"]
        prompt = start(jax.random.fold_in(key, tag_of(PROMPT)), params, adapter.prompt)
        return {**variables, "params": {**params, PROMPT: prompt}}

    return model._replace(init=init, adapter=adapter)


def _require_products(targets: set[str], products: Sequence[str]) -> None:
    """Refuse weights that the model does not only multiply by."""
    others = sorted(name for name in targets if not tree.matches_any(name, products))
    if others:
        text = (
            f"the adapter is for weights of mlp, logistic, linear or transformer, not {others[0]}"
        )
        raise ValueError(f"adapter: {text}; use lora without dropout, or other targets")


def _require_matrices(params: Tree, targets: set[str]) -> None:
    """Refuse kernels of another library's network, whose outputs may be their first axis."""
    sizes = dict(zip(tree.leaf_names(params), jax.tree.leaves(params), strict=True))
    kernels = [name for name in sorted(targets) if sizes[name].ndim > 2]
    if kernels:
        text = f"{kernels[0]} is a kernel of another library's network; adapters are for matrices"
        raise ValueError(f"adapter.targets: {text}; name those that are adapted")


def is_adapted(node: Any) -> bool:
    """Return whether a node of the parameters is a weight with an adapter."""
    return isinstance(node, dict) and BASE in node and len(node) > 1


def target_names(params: Tree, products: Sequence[str], targets: Sequence[str] | None) -> set[str]:
    """Return the names of the weights that are adapted.

    Args:
      products: patterns of the weights that the model only multiplies by; may be empty.
      targets: patterns of the weights to adapt. None: those of `products`, else all matrices.

    Raises:
      ValueError: for a pattern that no leaf has, and where no target is a matrix.
    """
    names = tree.leaf_names(params)
    axes = [leaf.ndim for leaf in jax.tree.leaves(params)]
    matrices = [name for name, number in zip(names, axes, strict=True) if number >= 2]
    patterns = targets or products or ["*"]
    tree.require_leaves(names, patterns, key="adapter.targets")
    chosen = {name for name in matrices if tree.matches_any(name, patterns)}
    if not chosen:
        text = f"none of {', '.join(patterns)} is a matrix, which adapters need"
        raise ValueError(f"adapter.targets: {text}; {tree.listed(matrices)}")
    return chosen
