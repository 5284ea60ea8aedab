"""Clients of edges: each trains the model of its own edge."""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from fedsim.types import Bank, Client, Grouping


class Edges(NamedTuple):
    """The server's state of its groups."""

    cluster: Int[Array, " N"]  # the edge of every client
    clusters: Int[Array, ""]  # edges


def at_edge(method: Client, edges: int, edge_of: Callable[[int], np.ndarray]) -> Client:
    """Return a method whose clients have the model of their edge in place of a shared one."""

    def init(task, params, present, k):
        del task, params
        return Edges(jnp.asarray(edge_of(len(present))), jnp.asarray(k, jnp.int32))

    return method._replace(server=Bank(models=edges, grouping=Grouping(init)))
