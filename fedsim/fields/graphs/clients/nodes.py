"""Clients as the nodes of a graph: each trains the model of its own row, and mixes it."""

from typing import Literal

from fedsim import tree
from fedsim.clients.hooks import no_memory
from fedsim.types import Client, Gossip

NODE_MODEL = "x"  # the model of a node, in its row of memory


def send_model(before, trained, key):
    """Send the model after the training."""
    del before, key
    return {NODE_MODEL: trained[NODE_MODEL]}, None


def take_mixed(before, trained, sent, mixed):
    """Take what was mixed in place of what was sent."""
    del before, sent
    return {**trained, **mixed}


def send_old_model(before, trained, key):
    """Send the model before the training."""
    del trained, key
    return {NODE_MODEL: before[NODE_MODEL]}, None


def add_step(before, trained, sent, mixed):
    """Add the step of the training to the mix of the models before it."""
    del sent
    step = tree.subtract(trained[NODE_MODEL], before[NODE_MODEL])
    return {**trained, NODE_MODEL: tree.add(mixed[NODE_MODEL], step)}


# x_i ← Σ_j W_ij y_j, where y_j is x_j after the training of node j.
AFTER = Gossip(send_model, take_mixed)

# x_i ← Σ_j W_ij x_j + (y_i − x_i)
BEFORE = Gossip(send_old_model, add_step)


def at_node(method: Client, mix: Literal["after", "before"]) -> Client:
    """Return a client method whose clients are nodes of a graph.

    Where a client would begin at the shared parameters, a node begins at its own.

    Args:
      method: which sends and remembers nothing but its model, or has a `gossip`.
      mix: when a method without a `gossip` of its own mixes.
    """
    gossip = method.gossip
    has_own = gossip not in (None, AFTER)
    if not has_own:
        gossip = AFTER if mix == "after" else BEFORE

    def named(remembered):
        """What the method remembers, as entries of a node's row; `gossip` reads them by name."""
        if method.memory is no_memory:
            return {}
        return remembered if has_own else {"method": remembered}

    def remembered(row):
        if method.memory is no_memory:
            return ()
        if not has_own:
            return row["method"]
        return {name: value for name, value in row.items() if name != NODE_MODEL}

    def at_own(shared, x):
        return {**shared, "params": x}

    def memory(shared, key):
        return {NODE_MODEL: shared["params"], **named(method.memory(shared, key))}

    def start(task, shared, row, work):
        x = row[NODE_MODEL]
        variables, local = method.start(task, at_own(shared, x), remembered(row), work)
        return variables, {"method": local, "x": x}

    def gradient(task, variables, batch, local, shared, work):
        shared = at_own(shared, local["x"])
        return method.gradient(task, variables, batch, local["method"], shared, work)

    def step(task, g, params, local, shared, work):
        shared = at_own(shared, local["x"])
        params, of_method = method.step(task, g, params, local["method"], shared, work)
        return params, {**local, "method": of_method}

    def finish(task, shared, variables, local, row, work):
        shared = at_own(shared, row[NODE_MODEL])
        local = local["method"]
        message = method.finish(task, shared, variables, local, remembered(row), work)
        return message._replace(memory={NODE_MODEL: variables["params"], **named(message.memory)})

    def personal(shared, row):
        return {"params": row[NODE_MODEL], "stats": shared["stats"]}

    return method._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        scored=method.scored._replace(personal=personal),
        server=gossip,
    )
