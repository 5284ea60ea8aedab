"""CHOCO-SGD: compressed gossip."""

from typing import Annotated

import jax
from annotated_types import Gt, Le
from jax.flatten_util import ravel_pytree

from fedsim import tree
from fedsim.clients.sgd import sgd
from fedsim.compose import client, in_bytes, shaped
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.types import Client, Codec, Gossip, no_row


@client
def choco(codec: Codec | None = None, gamma: Annotated[float, Gt(0), Le(1)] = 1.0) -> Client:
    """Nodes of a graph send compressed differences to what their neighbours know of them.

    After the training, q_i = Q(y_i − x̂_i) is sent, and all who hear i keep x̂_i ← x̂_i + q_i;
    x_i ← y_i + γ Σ_j W_ij (x̂_j − x̂_i), from x̂_i = 0. In rounds without mixing (`every`), nodes
    train alone, and x̂_i stays. Without a codec and with γ = 1: `sgd`.

    State: a second model for every client, x̂_i.    Sends: what the codec makes of one model.
    Needs: a `topology` whose edges are undirected.

    Args:
      codec: Q, any codec without a memory; by default none.
      gamma: γ, the consensus step; the coarser the codec, the smaller.

    References:
      Koloskova, Stich, Jaggi 2019, Decentralized Stochastic Optimization and Gossip Algorithms with
      Compressed Communication, arXiv:1902.00340, Algorithm 2.
    """
    if codec is not None and (codec.memory is not no_row or codec.recursive):
        raise ValueError(f"{codec.name} has a memory, and x̂ is one already; use a codec without")

    def memory(shared, key):
        del key
        return {"x_hat": tree.zeros_like(shared["params"])}

    def compressed(difference, key):
        """Q(difference), and the bytes of it."""
        if codec is None:
            return difference, None
        x, unravel = ravel_pytree(difference)
        of_tree = shaped(codec, difference)
        payload, bits, _ = of_tree.encode(x, (), key)
        return unravel(of_tree.decode(payload, len(x)).astype(x.dtype)), in_bytes(bits)

    def send(before, trained, key):
        q, size = compressed(tree.subtract(trained[NODE_MODEL], before["x_hat"]), key)
        return {NODE_MODEL: tree.add(before["x_hat"], q)}, size

    def receive(before, trained, sent, mixed):
        del before
        towards = jax.tree.map(
            lambda mixed, own: gamma * (mixed - own), mixed[NODE_MODEL], sent[NODE_MODEL]
        )
        return {
            **trained,
            NODE_MODEL: tree.add(trained[NODE_MODEL], towards),
            "x_hat": sent[NODE_MODEL],
        }

    needs = frozenset({"rows", "symmetric"})
    gossip = Gossip(send, receive, needs, rests=True)
    return sgd()._replace(memory=memory, server=gossip)
