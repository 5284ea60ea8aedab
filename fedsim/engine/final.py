"""What a run leaves: models, and what server and clients remember."""

from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.engine.frozen import with_frozen
from fedsim.engine.memory import CLIENT
from fedsim.engine.scoring.scorer import end_of
from fedsim.models.freezing import with_all_leaves
from fedsim.tree import Tree
from fedsim.types import Shared

if TYPE_CHECKING:
    from fedsim.engine.run import Run


def remembered(run: "Run", ids: np.ndarray) -> Tree:
    """Return the memory of clients by owner, rows `[len(ids), ...]`.

    A client that never took part has the row that it would start with.
    """
    seen, rows = run.store.rows(ids)
    fresh = run.program.server.memories.fresh(run.initial, run.key, ids)
    return tree.select(jnp.asarray(seen), rows, fresh)


def final_variables(run: "Run", client: int | None = None) -> Shared:
    """Return variables with all leaves of the model, as NumPy arrays.

    Args:
      client: whose own ones; None: the shared ones.

    Raises:
      ValueError: for a client that has no model of its own.
    """
    if client is None:
        variables = with_frozen(run.result.shared, run.frozen)
    else:
        variables = run.form.own_variables(end_of(run), client)
    return jax.tree.map(np.asarray, with_all_leaves(variables))


def final_state(run: "Run") -> dict[str, dict[str, Any]]:
    """Return what server and clients remember, by name, as NumPy arrays.

    Rows of clients are `[N, ...]`, in the order of ids.
    """
    server = run.result
    rows = remembered(run, np.arange(run.plan.federation.N, dtype=np.int32))
    client = rows.pop(CLIENT) or {}

    # `optimizer_state: carry` puts the optimizer's memory next to the method's.
    if set(client) == {"method", "optimizer"}:
        client = {**(client["method"] or {}), "optimizer": client["optimizer"]}
    client |= rows

    fields = {**server.shared["aux"], **_fields(server.state)}
    if run.program.server.client.bank is not None:
        fields["theta"] = server.shared["params"]
    elif run.program.server.client.model is not None:  # a model of the method's own
        fields |= server.shared["params"]
    return {"server": jax.tree.map(np.asarray, fields), "client": jax.tree.map(np.asarray, client)}


def _fields(state: Any) -> dict[str, Any]:
    """Return the fields of all named tuples inside a state; optax names its states that way."""
    fields = {}
    if hasattr(state, "_fields"):
        for name, value in zip(state._fields, state, strict=True):
            # `lambda_` is `lambda`, which is a keyword of Python.
            fields |= _fields(value) or {name.rstrip("_"): value}
    elif isinstance(state, dict):
        for value in state.values():
            fields |= _fields(value)
    elif isinstance(state, tuple | list):
        for value in state:
            fields |= _fields(value)
    return {name: value for name, value in fields.items() if jax.tree.leaves(value)}
