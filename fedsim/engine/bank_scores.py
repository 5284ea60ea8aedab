"""A run with several models: the model of every client, and its scores."""

import numpy as np

from fedsim.data import Holders
from fedsim.engine.bank import GROUPS
from fedsim.engine.evaluation import of_model_name
from fedsim.engine.final import Moment, client_means, row_scores, scores_of_set
from fedsim.engine.meters.moves import NONE
from fedsim.engine.run import Run


def choices_at(run: Run, moment: Moment) -> np.ndarray:
    """Return the number of every client's model `[N]`; NONE for a client without training samples.

    It is the model of least loss over all of the client's training samples, the first of
    equal ones, or the one that the server has decided on.

    Args:
      run: a run.
      moment: the server, after which round.
    """
    f = run.plan.federation.unpooled
    bank = run.program.server.client.bank
    assert bank is not None
    has_samples = f.sizes > 0
    if bank.grouping is not None:
        cluster = np.asarray(moment.server.state[GROUPS].cluster)
        return np.where(has_samples, cluster, NONE)

    y = f.labels_in(moment.round)
    scores = scores_of_set(run, f.train.x, y, moment)
    owner = f.holders.owner
    rows = f.holders.indices
    losses = []  # of every model, by client
    for model in range(bank.models):
        of_rows = scores[of_model_name("loss", model)][rows]
        losses.append(np.bincount(owner, of_rows, f.N))
    return np.where(has_samples, np.argmin(losses, axis=0), NONE)


def scores_of_choices(
    run: Run, choices: np.ndarray, chosen: np.ndarray, holders: Holders, moment: Moment
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Score every client's model on samples of the client.

    Args:
      run: a run.
      choices: as `choices_at` returns them.
      chosen: mask of the clients to score `[N]`.
      holders: the samples of every client.
      moment: the server, after which round.

    Returns:
      Means and numbers of labels, as `client_scores`; no means where nobody has samples.
    """
    f = run.plan.federation.unpooled
    scored = (chosen & (choices != NONE))[holders.owner]
    owner = holders.owner[scored]
    if not len(owner):
        return {}, np.zeros(f.N, np.int64)

    by_model, labels = row_scores(run, holders.indices[scored], moment)
    model = choices[owner]
    of_rows = {}
    for name in [name for name in by_model if "/" not in name]:
        values = np.stack([by_model[of_model_name(name, j)] for j in range(model.max() + 1)])
        of_rows[name] = values[model, np.arange(len(model))]
    return client_means(f, of_rows, owner, labels)
