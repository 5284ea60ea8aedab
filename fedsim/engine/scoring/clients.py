"""The clients' scores: at the end of a run for `clients.csv`, and while it lasts for `rounds.csv`.

Which models a client is scored by is up to the form of the server: the `shared` one, its `personal`
one, or both.
"""

import numpy as np

from fedsim.data import Federation, Holders
from fedsim.data.partition import parts_of
from fedsim.disk.distribution import distribution
from fedsim.engine.scoring.rows import (
    MEANS,
    OUTPUTS,
    Measures,
    Rows,
    labels_of,
    scores_by_row,
)
from fedsim.engine.scoring.scorer import Moment
from fedsim.engine.scoring.sets import in_batches
from fedsim.fleet.streams import Stream, generator

MAX_SCORED = 10_000  # clients that are scored under `evaluate.clients: auto`
STACK_BATCHES = 16  # batches that go to the device at a time: all samples may not fit
FEW_CALLS = 16  # calls for which no further program is compiled

ClientScores = tuple[dict[str, np.ndarray], np.ndarray]
"""Means over a client's labels by name `[N]`: `loss`, and `accuracy` or `mae`, and what is measured
(NaN where there is no such score); and the number of its labels `[N]`. Clients that are not scored
have none."""

Columns = dict[str, float | None]


def final_scores(moment: Moment, wanted: int | str) -> dict[str, ClientScores]:
    """Score the clients at the end of a run -> scores by the beginning of their columns' names.

    The shared model is `global`. It is scored on samples that clients train on as well, unless some
    client keeps samples of its own to be tested on.

    Args:
      wanted: how many clients, as `evaluate.clients`.
    """
    f = moment.federation
    shared_on = scored_holders(f)
    chosen = scored_clients(f, moment.run.plan.seed, wanted)
    scores = moment.run.form.client_scores(moment, chosen, shared_on, own=f.test_holders)
    return {"global" if model == "shared" else model: scores[model] for model in scores}


def columns_of_clients(moment: Moment, wanted: int | str) -> Columns:
    """Score the clients in an evaluated round -> columns of `rounds.csv`.

    The scores are on samples that each client keeps for this alone: nobody trains on them, and no
    final score is on them. The shared model is `client`.

    Args:
      wanted: how many clients, as `evaluate.clients`.
    """
    f = moment.federation
    form = moment.run.form
    own = f.validation_holders
    assert own is not None
    chosen = scored_clients(f, moment.run.plan.seed, wanted)
    scores = form.client_scores(moment, chosen, shared_on=own, own=own)

    columns: Columns = {}
    # A single model that clients choose from is shown as theirs alone.
    if "shared" in scores and not form.chooses:
        columns |= _columns(moment, "client", scores["shared"])
    # A client without a model of its own has the shared one.
    columns |= _columns(moment, "personal", scores.get("personal") or scores["shared"])
    return columns


def scored_holders(f: Federation) -> Holders:
    """Return the samples that the shared model is scored on at the end, by client.

    They are those of `x` that the client trains on, where none that trains has others, then those
    that it is tested on.
    """
    if f.tests_own:
        return f.test_holders
    rows = np.concatenate([f.holders.indices, f.test_holders.indices])
    owner = np.concatenate([f.holders.owner, f.test_holders.owner])
    return Holders(*parts_of(rows, owner, f.N)[:2])


def scored_clients(federation: Federation, seed: int, wanted: int | str) -> np.ndarray:
    """Return the clients that are scored, as a mask `[N]`: those of `scored_holders`, or some.

    Args:
      wanted: as `evaluate.clients`: `all`, `auto`, or how many.
    """
    scored = np.flatnonzero(scored_holders(federation).sizes)
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


def shared_scores(moment: Moment, chosen: np.ndarray, holders: Holders) -> ClientScores:
    """Score the shared model on the clients' own samples.

    Args:
      chosen: mask of the clients to score `[N]`.
      holders: the samples of every client, as rows of `x` followed by `x_test`.
    """
    f = moment.federation
    if not chosen.any():
        return {}, np.zeros(f.N, np.int64)

    owner = holders.owner
    is_chosen = chosen[owner]
    everything = bool(is_chosen.all())
    (of_rows,), y = row_scores(moment, holders.indices[is_chosen], everything)
    return client_means(moment, of_rows, owner[is_chosen], y)


def row_scores(
    moment: Moment, rows: np.ndarray, everything: bool = False
) -> tuple[list[Rows], np.ndarray]:
    """Score every model of the server on samples.

    Args:
      rows: rows of `x` followed by `x_test`.
      everything: whether nearly all samples are among them; then all are scored.

    Returns:
      Scores of the rows by each model, and their labels or targets `[n, ...]`.
    """
    f = moment.federation
    sets = [(f.train.x, moment.labels)]
    if (rows >= len(f.train.x)).any():
        sets.append((f.test.x, f.test.y))
    if not everything:
        sets, rows = _selected(sets, rows)

    by_set = [scores_of_set(moment, x, y) for x, y in sets]
    by_model = []
    for parts in zip(*by_set, strict=True):
        of_model = {}
        for name in parts[0]:
            of_model[name] = np.concatenate([part[name] for part in parts])[rows]
        by_model.append(of_model)
    return by_model, np.concatenate([y for _, y in sets])[rows]


def scores_of_set(moment: Moment, x: np.ndarray, y: np.ndarray) -> list[Rows]:
    """Return the scores of all samples of a set by each model of the server."""
    scorer = moment.run.scorer
    stacks = in_batches(x, y, scorer.batch, stack_batches(moment, len(x)))
    by_model = scorer.scores(moment.server, stacks, wait=True)
    return [scores_by_row(of_model, len(x)) for of_model in by_model]


def stack_batches(moment: Moment, rows: int) -> int:
    """Return how many batches of samples go to the device at a time.

    They are as many as in a stack of the test set, whose program is compiled, if that takes few
    calls; which rows share a call changes no bit.
    """
    test = moment.run.scorer.sets.get("test")
    if test is not None:
        batches, batch = test.stacks[0][0].shape[:2]
        if batches < STACK_BATCHES and rows <= FEW_CALLS * batches * batch:
            return batches
    return STACK_BATCHES


def _selected(
    sets: list[tuple[np.ndarray, np.ndarray]], rows: np.ndarray
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """Return the sets with only the samples that are needed, and the position of each row in them.

    Args:
      sets: (x, y), counted one after another.
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


def client_means(moment: Moment, of_rows: Rows, owner: np.ndarray, y: np.ndarray) -> ClientScores:
    """Return the means of every client, and what is measured of its outputs.

    Args:
      of_rows: scores of rows by name `[n]`.
      owner: the client of each row `[n]`.
      y: labels or targets of each row `[n, ...]`.
    """
    f = moment.federation
    counts = np.bincount(owner, labels_of(y), f.N).astype(np.int64)
    if "distance" in of_rows:
        targets = max(f.train.y[0].size, 1)
        of_rows["distance"] /= targets  # a mean over targets too

    means = {}
    with np.errstate(invalid="ignore"):
        for name, values in of_rows.items():
            if name in MEANS:
                means[MEANS[name]] = np.bincount(owner, values, f.N) / counts
    measures = moment.run.program.measures
    if measures is not None:
        means |= _measured(measures, of_rows[OUTPUTS], owner, y, f.N)
    return means, counts


def _measured(
    measures: Measures, outputs: np.ndarray, owner: np.ndarray, y: np.ndarray, N: int
) -> dict[str, np.ndarray]:
    """Return what is measured of every client's rows `[N]`, NaN where there is no such score."""
    names = measures.names if measures.loss is None else ("loss", *measures.names)
    values = {name: np.full(N, np.nan) for name in names}
    order = np.argsort(owner, kind="stable")
    clients, first = np.unique(owner[order], return_index=True)
    for client, rows in zip(clients, np.split(order, first[1:]), strict=True):
        for name, value in measures.all_of(outputs[rows], y[rows]).items():
            values[name][client] = np.nan if value is None else value
    return values


def _columns(moment: Moment, model: str, scores: ClientScores) -> Columns:
    """Return how the scores of a model are distributed over clients; losses are not shown.

    Of what is measured also how many clients have no such score, `undefined`.
    """
    means, labels = scores
    measures = moment.run.program.measures
    measured = () if measures is None else measures.names
    columns: Columns = {}
    for metric in dict.fromkeys(("accuracy", "mae", *measured)):
        if metric not in means:
            continue
        numbers = labels
        if metric in measured:
            has_none = np.isnan(means[metric])
            numbers = np.where(has_none, 0, labels)
            columns[f"{model}_{metric}_undefined"] = int((has_none & (labels > 0)).sum())
        columns |= distribution(f"{model}_{metric}", means[metric], numbers)
    return columns
