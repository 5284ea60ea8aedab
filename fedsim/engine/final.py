"""A run that has ended: its model's scores on every client, and what is remembered."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim import tree
from fedsim.data import Federation
from fedsim.engine.evaluation import MEANS, in_batches, labels_of
from fedsim.engine.frozen import with_frozen
from fedsim.engine.memory import CLIENT
from fedsim.engine.run import Run
from fedsim.engine.server_records import ServerState
from fedsim.fleet.streams import Stream, generator
from fedsim.models.freezing import with_all_leaves
from fedsim.tree import Tree
from fedsim.types import Shared

MAX_SCORED = 10_000  # clients that are scored under `evaluate.clients: auto`
STACK_BATCHES = 16  # batches that go to the device at a time: all samples may not fit
FEW_CALLS = 16  # calls for which no further program is compiled


class Moment(NamedTuple):
    """When clients are scored."""

    server: ServerState
    round: int  # whose labels count, where labels move


def scored_rows(f: Federation) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples that clients are scored on.

    Returns:
      Rows of `x` followed by `x_test`, and the client of each.
    """
    rows = f.test_holders.indices
    owner = f.test_holders.owner
    if not f.tests_own:
        rows = np.concatenate([f.holders.indices, rows])
        owner = np.concatenate([f.holders.owner, owner])
    return rows, owner


def scored_clients(federation: Federation, seed: int, wanted: int | str) -> np.ndarray:
    """Return the clients that a final model is scored on, as a mask `[N]`.

    They are those with `scored_rows`, or some drawn from them.

    Args:
      federation: the clients.
      seed: the run's seed.
      wanted: as `evaluate.clients`: `all`, `auto`, or how many.
    """
    _, owner = scored_rows(federation)
    scored = np.unique(owner)
    if wanted == "all":
        count = len(scored)
    elif wanted == "auto":
        count = MAX_SCORED
    else:
        count = int(wanted)
    if count < len(scored):
        scored = generator(seed, Stream.SCORED).choice(scored, count, replace=False)

    mask = np.zeros(federation.N, bool)
    mask[scored] = True
    return mask


def client_scores(
    run: Run, chosen: np.ndarray, scored: tuple[np.ndarray, np.ndarray], moment: Moment
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score the shared model on the clients' own samples.

    Args:
      run: a run.
      chosen: mask of the clients to score `[N]`.
      scored: the samples, as rows of `x` followed by `x_test`, and the client of each.
      moment: the server, after which round.

    Returns:
      Means over labels by name `[N]`: `loss`, and `accuracy` or `mae`; and the number of labels
      `[N]`. Clients that are not chosen have none.
    """
    if not chosen.any():
        return {}, np.zeros(len(chosen), np.int64)

    f = run.plan.federation.unpooled
    rows, owner = scored
    is_chosen = chosen[owner]
    everything = bool(is_chosen.all())
    of_rows, labels = row_scores(run, rows[is_chosen], moment, everything=everything)
    return client_means(f, of_rows, owner[is_chosen], labels)


def row_scores(
    run: Run, rows: np.ndarray, moment: Moment, everything: bool = False
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score the shared model on samples.

    Args:
      run: a run.
      rows: rows of `x` followed by `x_test`.
      moment: the server, after which round.
      everything: whether nearly all samples are among them; then all are scored.

    Returns:
      Scores of the rows by name `[n]`, and the number of labels of each `[n]`.
    """
    f = run.plan.federation.unpooled
    sets = [(f.train.x, f.labels_in(moment.round))]
    if (rows >= len(f.train.x)).any():
        sets.append((f.test.x, f.test.y))
    if not everything:
        sets, rows = _selected(sets, rows)

    by_set = []
    for x, y in sets:
        by_set.append(scores_of_set(run, x, y, moment))
    of_rows = {}
    for name in by_set[0]:
        of_rows[name] = np.concatenate([scores[name] for scores in by_set])[rows]
    labels = np.concatenate([labels_of(y) for _, y in sets])[rows]
    return of_rows, labels


def scores_of_set(run: Run, x: np.ndarray, y: np.ndarray, moment: Moment) -> dict[str, np.ndarray]:
    """Return the scores of the rows of a set by name `[n]`, as `Scorer.by_row`.

    Args:
      run: a run.
      x: the samples.
      y: their labels or targets.
      moment: the server, after which round.
    """
    scorer = run.scorer
    stacks = in_batches(x, y, scorer.batch, stack_batches(run, len(x)))
    return scorer.by_row(moment.server, scorer.scores(moment.server, stacks, wait=True), len(x))


def stack_batches(run: Run, rows: int) -> int:
    """Return how many batches of samples go to the device at a time.

    They are as many as in a stack of the test set, whose program is compiled, if that takes few
    calls; which rows share a call changes no bit.

    Args:
      run: a run.
      rows: samples to score.
    """
    for x, _ in run.scorer.stacks.get("test", [])[:1]:
        batches, batch = x.shape[:2]
        if batches < STACK_BATCHES and rows <= FEW_CALLS * batches * batch:
            return batches
    return STACK_BATCHES


def _selected(
    sets: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return the sets with only the samples that are needed, and the position of each row in them.

    Args:
      sets: (x, y), counted one after another.
      rows: rows of the sets.
    """
    needed, position = np.unique(rows, return_inverse=True)
    selected = []
    first = 0
    for x, y in sets:
        in_set = (needed >= first) & (needed < first + len(x))
        index = needed[in_set] - first
        if len(index):
            selected.append((x[index], y[index]))
        first += len(x)
    return selected, position


def client_means(
    f: Federation, of_rows: dict[str, np.ndarray], owner: np.ndarray, labels: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the means of every client.

    Args:
      f: the clients.
      of_rows: scores of rows by name `[n]`.
      owner: the client of each row `[n]`.
      labels: number of labels of each row `[n]`.

    Returns:
      Means by name `[N]`, and the number of labels `[N]`.
    """
    counts = np.bincount(owner, labels, f.N).astype(np.int64)
    if "distance" in of_rows:
        targets = max(f.train.y[0].size, 1)
        of_rows["distance"] /= targets  # a mean over targets too

    means = {}
    with np.errstate(invalid="ignore"):
        for name, values in of_rows.items():
            if name in MEANS:
                means[MEANS[name]] = np.bincount(owner, values, f.N) / counts
    return means, counts


def remembered(run: Run, ids: np.ndarray) -> Tree:
    """Return the memory of clients by owner, rows `[len(ids), ...]`.

    A client that never took part has the row that it would start with.
    """
    seen, rows = run.store.rows(ids)
    fresh = run.program.server.memories.fresh(run.initial, run.key, ids)
    return tree.select(jnp.asarray(seen), rows, fresh)


def final_variables(run: Run) -> Shared:
    """Return the shared variables with all leaves of the model, as NumPy arrays."""
    variables = with_all_leaves(with_frozen(run.server.shared, run.frozen))
    return jax.tree.map(np.asarray, variables)


def final_state(run: Run) -> dict[str, dict[str, Any]]:
    """Return what server and clients remember, by name, as NumPy arrays.

    Rows of clients are `[N, ...]`, in the order of ids.
    """
    server = run.server
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
