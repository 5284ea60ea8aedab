"""How every client's own model does on its own test samples, for client methods that have personal models."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from fedsim.engine.evaluation import Forward, labels_of, scored
from fedsim.engine.final import client_means, remembered
from fedsim.engine.jitted import Jitted
from fedsim.engine.memory import CLIENT
from fedsim.engine.run import Run
from fedsim.engine.threads import jit_for_threads

ROOM = 1 << 26  # bytes of memory rows and samples that are handed over at a time


def personal_scores(run: Run, chosen: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """How every client's own model does on the samples that it keeps for testing -> (means, labels) as `client_scores`.

    A client that never took part has the model of its first row of memory. No means for a method without personal models,
    where no client keeps samples, and for clients that are not chosen (mask `[N]`). The models are made one after another,
    those of ROOM bytes of rows in a call.
    """
    f, client, task = run.plan.federation, run.program.server.client, run.program.task
    tested = np.flatnonzero(chosen[f.test_holders.owner])
    if client.personal is None or not len(tested):
        return {}, np.zeros(f.N, np.int64)
    order = tested[np.argsort(f.test_holders.owner[tested], kind="stable")]
    rows, owner = f.test_holders.indices[order], f.test_holders.owner[order]
    batch, place = by_client(owner, run.batch)
    first = np.flatnonzero(place == 0)  # of each batch
    ids, E = owner[first].astype(np.int32), int(place.max()) + 1
    index = np.repeat(rows[first][:, None], E, axis=1)  # places that are left are filled up
    index[batch, place] = rows
    y_now = f.labels_in(run.round)
    per_batch = run.row_bytes() + E * (f.train.x[:1].nbytes + f.train.y[:1].nbytes)
    width = int(np.clip(ROOM // per_batch, 1, len(ids)))
    score = scorer(client.personal, task.apply, task.loss, task.classes > 0)
    shared = run.program.server.sender.shown(run.server)
    parts = []
    for start in range(0, len(ids), width):
        some = np.minimum(
            np.arange(start, start + width), len(ids) - 1
        )  # one shape, one compilation
        x, y = _taken(f.train.x, f.test.x, index[some]), _taken(y_now, f.test.y, index[some])
        parts.append(
            jax.tree.map(np.asarray, score(shared, remembered(run, ids[some])[CLIENT], x, y))
        )
    scores = {
        name: np.concatenate([part[name] for part in parts])[batch, place].astype(float)
        for name in parts[0]
    }
    return client_means(f, scores, owner, labels_of(_taken(y_now, f.test.y, rows)))


def by_client(owner: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
    """Samples put into batches that hold those of one client each -> (batch, place in it) of every sample.

    Args:
      owner: of every sample, sorted `[n]`.
      most: samples of a batch; it holds no more than the mean client has, so that batches are about half full at least.
    """
    clients, begin, count = np.unique(owner, return_index=True, return_counts=True)
    E = min(-(-len(owner) // len(clients)), most)
    batches = -(-count // E)
    within = np.arange(len(owner)) - np.repeat(
        begin, count
    )  # number of the sample among its client's
    before = np.repeat(np.cumsum(batches) - batches, count)  # batches of the clients before it
    return before + within // E, within % E


@functools.lru_cache(16)
def scorer(personal: Callable, apply: Forward, loss: Callable, labelled: bool) -> Jitted:
    """Compiled `(shared, rows [n, ...], x [n, E, ...], y [n, E]) -> {"loss": [n, E], ...}`: the model of each row of memory
    on its own batch, one after another.
    """

    def score(shared: Any, rows: Any, x: Any, y: Any) -> Any:
        return lax.map(
            lambda one: scored(apply, loss, labelled, personal(shared, one[0]), *one[1:]),
            (rows, x, y),
        )

    return jit_for_threads(score)


def _taken(own: np.ndarray, test: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Rows of the training arrays and, behind them, of the test arrays."""
    taken = own[np.minimum(index, len(own) - 1)]
    beyond = index >= len(own)
    if beyond.any():
        taken[beyond] = test[index[beyond] - len(own)]
    return taken
