"""Stochastic gradient push: directed edges."""

import jax
import jax.numpy as jnp

from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.types import Client, Gossip


@client
def push_sum() -> Client:
    """Nodes of a graph with directed edges hand out parts of their model, and of a weight.

    x_i ← Σ_j W_ij (x_j − Σ η_l ∇f_j(z)) ;  w_i ← Σ_j W_ij w_j ;  z_i = x_i / w_i, from w_i = 1;
    gradients are taken at z_i, from which the local steps begin. Columns of W add up to one, its
    rows need not: the weight makes up for a node that hears more than it sends. Where rows add up
    to one, w_i stays 1: `sgd`.

    State: z_i as x, and w_i, a number a node.    Sends: one model and a number.
    Needs: a `topology`.

    References:
      Assran et al. 2019, Stochastic Gradient Push, arXiv:1811.10792, Algorithm 1; Kempe, Dobra,
      Gehrke 2003, Gossip-Based Computation of Aggregate Information.
    """

    def memory(shared, key):
        del key
        return {"w": jnp.ones((), jax.tree.leaves(shared["params"])[0].dtype)}

    def send(before, trained, key):
        del key
        w = before["w"]

        def pushed(z, after):
            return w * z + (after - z)

        x = jax.tree.map(pushed, before[NODE_MODEL], trained[NODE_MODEL])
        return {NODE_MODEL: x, "w": w}, None

    def receive(before, trained, sent, mixed):
        del before, sent
        w = mixed["w"]
        return {**trained, NODE_MODEL: jax.tree.map(lambda x: x / w, mixed[NODE_MODEL]), "w": w}

    return sgd()._replace(memory=memory, server=Gossip(send, receive, needs=frozenset()))
