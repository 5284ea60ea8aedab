"""Which leaves of the parameters travel: those that the client method shares, None in place of the others.

A method that says nothing shares all of them, and gets the trees that it gave.
"""

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Shared


def travelling(client: Client, params: Tree) -> Tree:
    """The shared leaves of a tree like `params`, an update too."""
    return params if client.shares is None else tree.part(params, client.shares(params))


def sent(client: Client, shared: Shared) -> Shared:
    """The shared variables as they travel."""
    return {**shared, "params": travelling(client, shared["params"])}
