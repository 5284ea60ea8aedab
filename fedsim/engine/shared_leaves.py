"""The leaves of the parameters that the client method shares, and so sends.

The other leaves are None. A method without `shares` shares all leaves, and its trees are returned
as they are. Of clients that train alone, nothing travels.
"""

import jax

from fedsim import tree
from fedsim.tree import Tree
from fedsim.types import Client, Shared


def shared_leaves(client: Client, params: Tree) -> Tree:
    """Return the shared leaves of a tree with the structure of `params`, such as an update."""
    if client.isolated:
        return jax.tree.map(lambda leaf: None, params)
    if client.shares is None:
        return params
    return tree.select_leaves(params, client.shares(params))


def models_sent(client: Client) -> int:
    """Return how many models a client receives in a round."""
    return client.models_sent if client.bank is None else client.bank.sent


def sent_variables(client: Client, shared: Shared) -> Shared:
    """Return the variables that are sent: of the parameters, only the shared leaves."""
    if not client.sends_stats:
        shared = {**shared, "stats": {}}
    return {**shared, "params": shared_leaves(client, shared["params"])}
