"""A run that has ended: how its model does on every client, and what server and clients remember."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.data import Federation
from fedsim.engine.evaluation import gathered, in_batches, labels_of
from fedsim.engine.memory import CLIENT
from fedsim.engine.run import Run
from fedsim.fleet.streams import Stream, generator
from fedsim.tree import Tree

MOST = 10_000  # clients of whom all are scored unless it is said otherwise
SLAB = 16  # batches that are handed over at a time: the samples may be more than fit


NAMES = {"loss": "loss", "hit": "accuracy", "distance": "mae"}  # of what is shown of every client


def scored_rows(f: Federation) -> tuple[np.ndarray, np.ndarray]:
    """The samples that clients are scored on -> (rows of `x` followed by `x_test`, the client of each)."""
    rows, owner = f.test_holders.indices, f.test_holders.owner
    if f.held_out[owner].all():
        rows, owner = (
            np.concatenate([f.holders.indices, rows]),
            np.concatenate([f.holders.owner, owner]),
        )
    return rows, owner


def scored_clients(federation: Federation, seed: int, wanted: int | str) -> np.ndarray:
    """Mask `[N]` of the clients that a final model is scored on: those that have `scored_rows`, or so many drawn of them.

    Args:
      federation: the clients.
      seed: of the run.
      wanted: as `evaluate.clients`.
    """
    able = np.unique(scored_rows(federation)[1])
    count = len(able) if wanted == "all" else MOST if wanted == "auto" else int(wanted)
    mask = np.zeros(federation.N, bool)
    mask[
        able
        if count >= len(able)
        else generator(seed, Stream.SCORED).choice(able, count, replace=False)
    ] = True
    return mask


def client_scores(run: Run, chosen: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """How the shared model does on clients' own samples -> (means by name, number of labels), `[N]` each.

    The samples are those that clients keep for testing, or, where only clients that never train have such, the ones that
    the others train on. The means are `loss`, and `accuracy` or `mae`, over their labels, which are those of the last round
    where they move; those of clients that are not chosen (mask `[N]`) are none.
    """
    if not chosen.any():
        return {}, np.zeros(len(chosen), np.int64)
    f = run.plan.federation
    rows, owner = scored_rows(f)
    sets = [(f.train.x, f.labels_in(run.round)), (f.test.x, f.test.y)][
        : 1 + bool((rows >= len(f.train.x)).any())
    ]
    if not chosen[owner].all():
        rows, owner = rows[chosen[owner]], owner[chosen[owner]]
        needed, rows = np.unique(rows, return_inverse=True)
        of_x = needed[needed < len(f.train.x)]
        indices = (of_x, needed[len(of_x) :] - len(f.train.x))
        sets = [
            (x[index], y[index]) for (x, y), index in zip(sets, indices, strict=False) if len(index)
        ]
    parts = [
        gathered(run.scores(run.server, in_batches(x, y, run.batch, SLAB), wait=True), len(x))
        for x, y in sets
    ]
    of_rows = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    labels = np.concatenate([labels_of(y) for _, y in sets])[rows]
    return client_means(f, {name: values[rows] for name, values in of_rows.items()}, owner, labels)


def client_means(
    f: Federation, of_rows: dict[str, np.ndarray], owner: np.ndarray, labels: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Scores of rows, their owners and numbers of labels -> (means by name, number of labels), `[N]` each."""
    counts = np.bincount(owner, labels, f.N).astype(np.int64)
    if "distance" in of_rows:
        of_rows["distance"] /= max(f.train.y[0].size, 1)  # a mean over targets too
    with np.errstate(invalid="ignore"):
        means = {
            NAMES[name]: np.bincount(owner, v, f.N) / counts
            for name, v in of_rows.items()
            if name in NAMES
        }
    return means, counts


def remembered(run: Run, ids: np.ndarray) -> Tree:
    """Rows of memory of these clients `[len(ids), ...]`, by owner; one that never took part has the row it would start with."""
    seen, rows = run.store.rows(ids)
    return tree.select(
        jnp.asarray(seen), rows, run.program.server.memories.fresh(run.start, run.key, ids)
    )


def final_state(run: Run) -> dict[str, dict[str, Any]]:
    """What server and clients remember, by name, as NumPy arrays; client rows `[N, ...]` in the order of ids."""
    server = run.server
    rows = remembered(run, np.arange(run.plan.federation.N, dtype=np.int32))
    client = rows.pop(CLIENT) or {}
    if set(client) == {
        "method",
        "optimizer",
    }:  # `optimizer_state: carry` keeps the optimizer's beside the method's own
        client = {**(client["method"] or {}), "optimizer": client["optimizer"]}
    client |= rows
    fields = {**server.shared["aux"], **_fields(server.state)}
    return {"server": jax.tree.map(np.asarray, fields), "client": jax.tree.map(np.asarray, client)}


def _fields(state: Any) -> dict[str, Any]:
    """The named fields of all named tuples inside a state (optax names its states so)."""
    fields = {}
    if hasattr(state, "_fields"):
        for name, value in zip(state._fields, state, strict=True):
            fields |= _fields(value) or {name.rstrip("_"): value}  # `lambda` is no name in Python
    elif isinstance(state, dict | tuple | list):
        for value in state.values() if isinstance(state, dict) else state:
            fields |= _fields(value)
    return {name: value for name, value in fields.items() if jax.tree.leaves(value)}
