"""How every client's personal model does on samples of its own that it never trains on.

Only client methods with personal models have them.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jax import lax

from fedsim import tree
from fedsim.data import Federation, Holders
from fedsim.engine.final import remembered
from fedsim.engine.frozen import with_frozen, without_frozen
from fedsim.engine.jitted import Jitted
from fedsim.engine.memory import CLIENT
from fedsim.engine.scoring.clients import ClientScores, client_means
from fedsim.engine.scoring.rows import MAX_CACHED, Scoring, scoring_of
from fedsim.engine.scoring.scorer import Moment
from fedsim.engine.threads import jit_for_threads
from fedsim.tree import Tree
from fedsim.types import Shared, Task

CALL_BYTES = 1 << 26  # of memory rows and samples that go to the device at a time


class OwnBatches(NamedTuple):
    """Samples of clients in batches that hold those of one client each.

    Attributes:
      rows: rows of `train` followed by `test`, sorted by client `[n]`.
      owner: the client of each `[n]`.
      batch: the batch of each `[n]`, rising.
      column: its column there `[n]`.
      index: the rows of every batch, filled up with its first one `[batches, E]`.
      ids: the client of every batch `[batches]`.
    """

    rows: np.ndarray
    owner: np.ndarray
    batch: np.ndarray
    column: np.ndarray
    index: np.ndarray
    ids: np.ndarray


def personal_scores(moment: Moment, chosen: np.ndarray, holders: Holders) -> ClientScores:
    """Score every client's personal model on samples that the client never trains on.

    A client that never took part has the model of its first row of memory. Where the method trains
    before a score, the client does so first. The models are scored one at a time, those of
    CALL_BYTES of rows in a call.

    Args:
      chosen: mask of the clients to score `[N]`.

    Returns:
      The scores; no means where no client keeps samples.
    """
    run = moment.run
    f = moment.federation
    client = run.program.server.client
    assert client.scored.personal is not None
    own = own_batches(holders, chosen, run.scorer.batch)
    if own is None:
        return {}, np.zeros(f.N, np.int64)

    variables_of = client.scored.personal if run.tuner is None else _tuned_variables
    predict = (
        None
        if client.scored.predict is None
        else Prediction(client.scored.predict, run.program.task)
    )
    scoring = scoring_of(run.program.task, run.program.measures)
    score = personal_evaluator(variables_of, scoring, predict)

    shared = run.scorer.shown(moment.server)
    scores: dict[str, np.ndarray] = {}
    for called, rows in _models(moment, own):
        x = _taken(f.train.x, f.test.x, own.index[called])
        y = _taken(moment.labels, f.test.y, own.index[called])
        at_hand = () if predict is None else own_samples(f, own.ids[called], moment.labels)
        for name, values in score(shared, rows, x, y, at_hand).items():
            by_batch = scores.setdefault(name, np.zeros(own.index.shape + values.shape[2:]))
            by_batch[called] = values

    of_rows = {name: by_batch[own.batch, own.column] for name, by_batch in scores.items()}
    y = _taken(moment.labels, f.test.y, own.rows)
    return client_means(moment, of_rows, own.owner, y)


def personal_variables(moment: Moment, id: int) -> Tree:
    """Return a client's own variables, as they are scored.

    Raises:
      ValueError: for a method whose clients have no models of their own.
    """
    run = moment.run
    personal = run.program.server.client.scored.personal
    if personal is None:
        raise ValueError("clients have no models of their own under this method; leave client out")
    ids = np.array([id], np.int32)
    shared = run.program.server.sender.shown(moment.server)
    if run.tuner is None:
        variables = personal(shared, tree.take(remembered(run, ids)[CLIENT], 0))
    else:
        variables = tree.take(_tuned(moment, ids), 0)
    return with_frozen(variables, run.frozen, shared)


def _models(moment: Moment, own: OwnBatches) -> Iterator[tuple[np.ndarray, Tree]]:
    """Yield batches, and for each of them what its client's model is made of.

    Every call has equally many batches, so that it is compiled once: the last of them is repeated.
    """
    run = moment.run
    f = moment.federation
    sample_bytes = f.train.x[:1].nbytes + f.train.y[:1].nbytes
    row_bytes = run.row_bytes()
    if run.tuner is not None:
        row_bytes = tree.nbytes(moment.server.shared["params"])
    samples = own.index.shape[1]
    if run.program.server.client.scored.predict is not None:
        samples += int(f.tuned.sizes.max())
    batch_bytes = row_bytes + samples * sample_bytes
    size = int(np.clip(CALL_BYTES // batch_bytes, 1, len(own.ids)))

    if run.tuner is None:
        for called in _calls(np.arange(len(own.ids)), size):
            yield called, remembered(run, own.ids[called])[CLIENT]
        return

    # The clients train in blocks, each of which is scored before the next one trains.
    clients = np.unique(own.ids)
    for first in range(0, len(clients), run.tuner.block):
        members = clients[first : first + run.tuner.block]
        models = _tuned(moment, members)
        for called in _calls(np.flatnonzero(np.isin(own.ids, members)), size):
            yield called, tree.take(models, np.searchsorted(members, own.ids[called]))


def _calls(batches: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Yield batches, `size` at a time; the last one fills up the last call."""
    for first in range(0, len(batches), size):
        yield batches[np.minimum(np.arange(first, first + size), len(batches) - 1)]


def _tuned(moment: Moment, ids: np.ndarray) -> Tree:
    """Return the models of clients, of at most one block, after the training before a score."""
    run = moment.run
    assert run.tuner is not None
    shared = run.program.server.sender.shown(moment.server)
    slots = np.minimum(np.arange(run.tuner.block), len(ids) - 1)
    memory = remembered(run, ids[slots])[CLIENT]
    return run.tuner.models(shared, memory, ids, moment.round)


def _tuned_variables(shared: Shared, row: Tree) -> Tree:
    """The personal variables of a client that has trained before its score: its row."""
    del shared
    return row


def own_batches(holders: Holders, chosen: np.ndarray, largest: int) -> OwnBatches | None:
    """Put the samples that clients are scored on into batches; None where there are none.

    Args:
      chosen: mask of the clients to score `[N]`.
      largest: samples of a batch, at most.
    """
    scored = np.flatnonzero(chosen[holders.owner])
    if not len(scored):
        return None
    order = scored[np.argsort(holders.owner[scored], kind="stable")]
    rows = holders.indices[order]
    owner = holders.owner[order]

    batch, column = by_client(owner, largest)
    first = np.flatnonzero(column == 0)  # of each batch
    width = int(column.max()) + 1
    index = np.repeat(rows[first][:, None], width, axis=1)
    index[batch, column] = rows
    ids = owner[first].astype(np.int32)
    return OwnBatches(rows=rows, owner=owner, batch=batch, column=column, index=index, ids=ids)


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


def own_samples(f: Federation, ids: np.ndarray, y: np.ndarray) -> tuple:
    """Return what clients train on, or are tuned on if they never train: x, y and mask.

    Args:
      y: the labels of the training samples at the moment.
    """
    holders = f.tuned.holders
    index = np.zeros((len(ids), int(holders.sizes.max())), np.int64)
    mask = np.zeros(index.shape, bool)
    for row, id in enumerate(ids):
        samples = holders.of(id)
        index[row, : len(samples)] = samples
        mask[row, : len(samples)] = True
    return f.train.x[index], y[index], mask


class Prediction(NamedTuple):
    """How clients predict with their own samples at hand."""

    predict: Callable  # as `Scored.predict`
    task: Task

    def forward(self, own: tuple) -> Callable:
        """Return the prediction of ONE client, in the form of a model's `apply`."""

        def apply(variables: Any, x: Any, **options: Any) -> tuple[Any, Any]:
            del options
            return self.predict(self.task, variables, x, own), {}

        return apply


@functools.lru_cache(MAX_CACHED)
def personal_evaluator(
    personal: Callable, scoring: Scoring, prediction: Prediction | None = None
) -> Jitted:
    """Return the compiled scoring of the model of each row of memory on its own batch.

    Args:
      personal: (shared variables, row of memory) -> the client's variables.
      prediction: how clients predict with their own samples; None: by the model alone.

    Returns:
      (shared and frozen variables, rows `[n, ...]`, x `[n, E, ...]`, y `[n, E]`, own samples
      `[n, ...]` where `prediction` reads them) -> scores by name `[n, E]`.
    """

    def score(shared: Any, rows: Any, x: Any, y: Any, own: Any = ()) -> Any:
        shared, frozen = without_frozen(shared)

        def of_batch(batch):
            row, x, y, own = batch
            variables = with_frozen(personal(shared, row), frozen, shared)
            if prediction is None:
                return scoring.score(variables, x, y)
            with_samples = scoring._replace(forward=prediction.forward(own))
            return with_samples.score(variables, x, y)

        return lax.map(of_batch, (rows, x, y, own))

    return jit_for_threads(score)


def _taken(train: np.ndarray, test: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Return rows of the training array, followed by those of the test array."""
    taken = train[np.minimum(index, len(train) - 1)]
    in_test = index >= len(train)
    if in_test.any():
        taken[in_test] = test[index[in_test] - len(train)]
    return taken
