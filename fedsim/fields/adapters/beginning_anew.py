"""Clients whose adapters begin anew in every round, where the server merges what they trained."""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp

from fedsim import tree
from fedsim.clients.hooks import scored_by_method
from fedsim.tree import Tree
from fedsim.types import Client, Shared, Work


def beginning_anew(
    inner: Client, draw: Callable[[Shared, jax.Array], Tree], leaves: Sequence[str]
) -> Client:
    """Return a method whose clients begin every round with an adapter of their own.

    In its first round a client has the adapter of the start model, and later one that it draws. It
    sends the adapter itself, in place of a difference; all other leaves are those of the method.

    Args:
      inner: the method, whose clients remember nothing of adapters.
      draw: (shared variables, key) -> the parameters with a new adapter.
    """

    def with_params(shared: Shared, params: Tree) -> Shared:
        return {**shared, "params": params}

    def is_drawn(params: Tree) -> Tree:
        return tree.mask_by_name(params, lambda name: name.split(".")[-1] in leaves)

    def received(shared: Shared, local: Tree) -> Shared:
        """What the client began the round with."""
        return with_params(shared, tree.fill_leaves(local["adapter"], shared["params"]))

    def memory(shared, key):
        return {
            "method": inner.memory(shared, key),
            "key": jax.random.key_data(key),
            "rounds": jnp.zeros((), jnp.int32),
        }

    def start(task, shared, row, work):
        key = jax.random.fold_in(jax.random.wrap_key_data(row["key"]), row["rounds"])
        is_first = row["rounds"] == 0
        params = tree.select(is_first, shared["params"], draw(shared, key))
        variables, local = inner.start(task, with_params(shared, params), row["method"], work)
        adapter = tree.select_leaves(params, is_drawn(params))
        return variables, {"method": local, "adapter": adapter}

    def gradient(task, variables, batch, local, shared, work):
        shared = received(shared, local)
        return inner.gradient(task, variables, batch, local["method"], shared, work)

    def step(task, g, params, local, shared, work):
        shared = received(shared, local)
        params, of_method = inner.step(task, g, params, local["method"], shared, work)
        return params, {**local, "method": of_method}

    def finish(task, shared, variables, local, row, work: Work):
        params = shared["params"]
        without = lambda drawn, leaf: jnp.zeros_like(leaf) if drawn else leaf
        shared = with_params(shared, jax.tree.map(without, is_drawn(params), params))
        message = inner.finish(task, shared, variables, local["method"], row["method"], work)
        after = {**row, "method": message.memory, "rounds": row["rounds"] + 1}
        return message._replace(memory=after)

    return inner._replace(
        memory=memory,
        start=start,
        gradient=gradient,
        step=step,
        finish=finish,
        scored=scored_by_method(inner.scored),
    )
