"""The leaves of the parameters that the client method shares, and so sends.

The other leaves are None. A method without `shares` shares all leaves, and its trees are returned
as they are. Of clients that train alone, nothing travels.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Int

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import MERGED, Client, Part, Shared
from fedsim.types.client import ALONE


def shared_leaves(client: Client, params: Tree) -> Tree:
    """Return the shared leaves of a tree with the structure of `params`, such as an update."""
    if client.server == ALONE:
        return jax.tree.map(lambda leaf: None, params)
    if client.travel.shares is None:
        return params
    return tree.select_leaves(params, client.travel.shares(params))


def bytes_without_part(part: Part, params: Tree) -> Int[np.ndarray, " levels"]:
    """Return the bytes of the parameters that a client of each level does not have."""

    def of_leaf(leaf: Any, kept: np.ndarray) -> np.ndarray:
        return tree.payload_bytes(leaf) // max(leaf.size, 1) * (leaf.size - kept)

    of_leaves = jax.tree.leaves(jax.tree.map(of_leaf, params, part.kept(params)))
    return np.sum(of_leaves, axis=0)


def bytes_at_server(client: Client, params: Tree) -> int:
    """Return the bytes of shared parameters beyond what travels (`Travel.instead`)."""
    if client.travel.instead is None:
        return 0
    shared = tree.payload_bytes(shared_leaves(client, params))
    return shared - tree.payload_bytes(client.travel.instead(params))


def sent_variables(client: Client, shared: Shared) -> Shared:
    """Return the variables that travel: of the parameters, only the shared leaves.

    Frozen leaves that the server moves do so in their own way (`downlink.MergedDownlink`).
    """
    shared = {name: section for name, section in shared.items() if name != MERGED}
    if client.travel.stats == "kept":
        shared = {**shared, "stats": {}}
    return {**shared, "params": shared_leaves(client, shared["params"])}
