"""Gradient tracking: every node follows the gradient of all."""

from fedsim import tree
from fedsim.clients import hooks
from fedsim.compose import client
from fedsim.fields.graphs.clients.nodes import NODE_MODEL
from fedsim.types import Client, Gossip


@client
def gradient_tracking() -> Client:
    """Nodes of a graph step along an estimate of the gradient of all, and mix it too.

    x_i ← Σ_j W_ij (x_j − η y_j) ;  y_i ← Σ_j W_ij y_j + ∇f_i(x_i⁺) − ∇f_i(x_i), from
    y_i = ∇f_i(x_i). Each ∇f_i is taken on the batch of its own round. The mean of all y_i is that
    of the gradients, so that a constant η reaches the optimum, whatever the nodes' data.

    State: y_i (mixed) and the gradient g_i, two models a node.    Sends: two models.
    Needs: a `topology` whose rows and columns add up to one, `steps: 1`, and samples at every node:
    one without them would not take the step along y_i.

    References:
      Di Lorenzo and Scutari 2016, NEXT, arXiv:1602.00591; Nedić, Olshevsky, Shi 2017, DIGing,
      arXiv:1607.03218; stochastic: Pu and Nedić 2021, arXiv:1805.11454.
    """

    def memory(shared, key):
        del key
        zeros = tree.zeros_like(shared["params"])
        return {"y": zeros, "g": zeros}

    def start(task, shared, row, work):
        variables, local = hooks.start(task, shared, row, work)
        return variables, {**local, **row}

    def step(task, g, params, local, shared, work):
        y = tree.add(local["y"], tree.subtract(g, local["g"]))
        params, local = hooks.step(task, y, params, local, shared, work)
        return params, {**local, "y": y, "g": g}

    def finish(task, shared, variables, local, row, work):
        message = hooks.finish(task, shared, variables, local, row, work)
        return message._replace(memory={"y": local["y"], "g": local["g"]})

    def send(before, trained, key):
        del before, key
        return {NODE_MODEL: trained[NODE_MODEL], "y": trained["y"]}, None

    def receive(before, trained, sent, mixed):
        del before, sent
        return {**trained, **mixed}

    return Client(
        memory=memory,
        start=start,
        gradient=hooks.gradient,
        step=step,
        finish=finish,
        server=Gossip(send, receive, needs=frozenset({"rows", "one_step", "samples"})),
    )
