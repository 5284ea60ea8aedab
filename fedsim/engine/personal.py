"""How every client's personal model does on its own test samples.

Only client methods with personal models have them.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax import lax

from fedsim.engine.evaluation import Scoring, labels_of
from fedsim.engine.final import client_means, remembered
from fedsim.engine.frozen import with_frozen, without_frozen
from fedsim.engine.jitted import Jitted
from fedsim.engine.memory import CLIENT
from fedsim.engine.run import Run
from fedsim.engine.threads import jit_for_threads

CALL_BYTES = 1 << 26  # of memory rows and samples that go to the device at a time


def personal_scores(run: Run, chosen: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score every client's personal model on the samples that the client keeps for testing.

    A client that never took part has the model of its first row of memory. The models are computed
    one at a time, those of CALL_BYTES of rows in a call.

    Args:
      run: a run that has ended.
      chosen: mask of the clients to score `[N]`.

    Returns:
      Means and numbers of labels, as `client_scores`. There are no means for a method without
      personal models, where no client keeps samples, and for clients that are not chosen.
    """
    f = run.plan.federation.unpooled
    client = run.program.server.client
    task = run.program.task
    tested = np.flatnonzero(chosen[f.test_holders.owner])
    if client.personal is None or not len(tested):
        return {}, np.zeros(f.N, np.int64)

    # The test samples, sorted by client.
    order = tested[np.argsort(f.test_holders.owner[tested], kind="stable")]
    rows = f.test_holders.indices[order]
    owner = f.test_holders.owner[order]

    # Batches hold the samples of one client each; a shorter one is filled up with its first sample.
    batch, column = by_client(owner, run.evaluation_batch)
    first = np.flatnonzero(column == 0)  # of each batch
    ids = owner[first].astype(np.int32)  # [batches]
    E = int(column.max()) + 1
    index = np.repeat(rows[first][:, None], E, axis=1)  # [batches, E]
    index[batch, column] = rows

    y_now = f.labels_in(run.round)
    sample_bytes = f.train.x[:1].nbytes + f.train.y[:1].nbytes
    batch_bytes = run.row_bytes() + E * sample_bytes
    batches = int(np.clip(CALL_BYTES // batch_bytes, 1, len(ids)))  # in a call

    score = scorer(client.personal, Scoring(task.apply, task.loss, task.classes > 0))
    shared = with_frozen(run.program.server.sender.shown(run.server), run.frozen)
    by_call = []
    for begin in range(0, len(ids), batches):
        # The last call repeats the last batch: calls of one shape are compiled once.
        called = np.minimum(np.arange(begin, begin + batches), len(ids) - 1)
        x = _taken(f.train.x, f.test.x, index[called])
        y = _taken(y_now, f.test.y, index[called])
        memory = remembered(run, ids[called])[CLIENT]
        by_call.append(jax.tree.map(np.asarray, score(shared, memory, x, y)))

    scores = {}
    for name in by_call[0]:
        by_batch = np.concatenate([of_call[name] for of_call in by_call])  # [batches, E]
        scores[name] = by_batch[batch, column].astype(float)
    labels = labels_of(_taken(y_now, f.test.y, rows))
    return client_means(f, scores, owner, labels)


def by_client(owner: np.ndarray, largest: int) -> tuple[np.ndarray, np.ndarray]:
    """Put samples into batches that hold those of one client each.

    A batch holds no more than the mean client has, so that batches are at least about half full.

    Args:
      owner: the client of every sample, sorted `[n]`.
      largest: samples of a batch, at most.

    Returns:
      The batch of every sample, and its column there.
    """
    clients, begin, count = np.unique(owner, return_index=True, return_counts=True)
    E = min(-(-len(owner) // len(clients)), largest)
    batches = -(-count // E)  # of every client

    within_client = np.arange(len(owner)) - np.repeat(begin, count)
    batches_before = np.repeat(np.cumsum(batches) - batches, count)
    return batches_before + within_client // E, within_client % E


@functools.lru_cache(16)
def scorer(personal: Callable, scoring: Scoring) -> Jitted:
    """Return the compiled scoring of the model of each row of memory on its own batch.

    Args:
      personal: (shared variables, row of memory) -> the client's variables.
      scoring: scores a batch.

    Returns:
      (shared and frozen variables, rows `[n, ...]`, x `[n, E, ...]`, y `[n, E]`) -> scores by name
      `[n, E]`.
    """

    def score(shared: Any, rows: Any, x: Any, y: Any) -> Any:
        shared, frozen = without_frozen(shared)

        def of_batch(batch):
            row, x, y = batch
            variables = with_frozen(personal(shared, row), frozen)
            return scoring.score(variables, x, y)

        return lax.map(of_batch, (rows, x, y))

    return jit_for_threads(score)


def _taken(train: np.ndarray, test: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return rows of the training array, followed by those of the test array."""
    taken = train[np.minimum(index, len(train) - 1)]
    in_test = index >= len(train)
    if in_test.any():
        taken[in_test] = test[index[in_test] - len(train)]
    return taken
