"""The leaves of the parameters that travel: those that the client method shares.

The other leaves are None. A method without `shares` shares all leaves, and its trees are returned
as they are. Of clients that train alone, nothing travels.
"""

import jax

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Shared


def travelling(client: Client, params: Tree) -> Tree:
    """Return the shared leaves of a tree with the structure of `params`, such as an update."""
    if client.alone:
        return jax.tree.map(lambda leaf: None, params)
    if client.shares is None:
        return params
    return tree.part(params, client.shares(params))


def sent(client: Client, shared: Shared) -> Shared:
    """Return the shared variables with the leaves of the parameters that travel."""
    if client.alone:
        shared = {**shared, "stats": {}}
    return {**shared, "params": travelling(client, shared["params"])}
