"""Exact diffusion: no bias of heterogeneous data, for one model an edge."""

from fedsim import tree
from fedsim.clients.sgd import sgd
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.types import Client, Gossip


@client
def exact_diffusion() -> Client:
    """Nodes of a graph that correct what mixing would make of different data.

    ψ_i⁺ = x_i − η ∇f_i(x_i) ;  φ_i = ψ_i⁺ + x_i − ψ_i ;  x_i ← (φ_i + Σ_j W_ij φ_j)/2, from
    ψ_i = x_i. On a fixed graph, a constant η reaches the optimum, whatever the nodes' data.

    State: a second model for every client, ψ_i.    Sends: one model.
    Needs: a `topology` whose edges are undirected.

    References:
      Yuan, Ying, Zhao, Sayed 2019, Exact Diffusion for Distributed Optimization and Learning,
      arXiv:1702.05122, Algorithm 1 (also as NIDS and D²: Li, Shi, Yan 2019, arXiv:1704.07807).
    """

    def memory(shared, key):
        del key
        return {"psi": shared["params"]}

    def send(before, trained, key):
        del key
        correction = tree.subtract(before[NODE_MODEL], before["psi"])
        return {NODE_MODEL: tree.add(trained[NODE_MODEL], correction)}, None

    def receive(before, trained, sent, mixed):
        del before
        halves = tree.scale(tree.add(sent[NODE_MODEL], mixed[NODE_MODEL]), 0.5)
        return {**trained, NODE_MODEL: halves, "psi": trained[NODE_MODEL]}

    needs = frozenset({"rows", "symmetric", "every_round"})
    return sgd()._replace(memory=memory, server=Gossip(send, receive, needs))
