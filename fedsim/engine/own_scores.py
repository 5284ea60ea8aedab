"""The clients' scores while a run lasts, as columns of `rounds.csv`.

They are on samples that each client keeps for this alone: nobody trains on them, and no final score
is on them.
"""

import numpy as np

from fedsim.engine.bank_scores import choices_at, scores_of_choices
from fedsim.engine.final import Moment, client_scores, scored_clients
from fedsim.engine.personal import personal_scores
from fedsim.engine.run import Run
from fedsim.engine.server_records import ServerState
from fedsim.types.client import ALONE

Columns = dict[str, float | None]


def columns_of_clients(wanted: int | str, run: Run, server: ServerState, round: int) -> Columns:
    """Score the clients in an evaluated round -> columns of `rounds.csv`.

    Args:
      wanted: how many of them, as `evaluate.clients`.
      run: the run, whose memory of the clients is read.
      server: the server.
      round: after which round.
    """
    federation = run.plan.federation.unpooled
    holders = federation.validation_holders
    assert holders is not None
    moment = Moment(server, round)
    chosen = scored_clients(federation, run.plan.seed, wanted)

    # A client without a model of its own has the shared one.
    client = run.program.server.client
    by_model = {}
    if client.bank is not None:
        choices = choices_at(run, moment)
        by_model["personal"] = scores_of_choices(run, choices, chosen, holders, moment)
        return _columns(by_model)

    if client.server != ALONE:
        scored = (holders.indices, holders.owner)
        by_model["client"] = client_scores(run, chosen, scored, moment)
    if client.scored.personal is None:
        by_model["personal"] = by_model["client"]
    else:
        by_model["personal"] = personal_scores(run, chosen, holders, moment)
    return _columns(by_model)


def _columns(by_model: dict[str, tuple[dict[str, np.ndarray], np.ndarray]]) -> Columns:
    """Return columns of means and numbers of labels by model."""
    columns: Columns = {}
    for model, (means, labels) in by_model.items():
        for metric in ("accuracy", "mae"):
            if metric in means:
                columns |= distribution(f"{model}_{metric}", means[metric], labels)
    return columns


def distribution(name: str, values: np.ndarray, labels: np.ndarray) -> Columns:
    """Return how a score is distributed over clients: seven columns that begin with its name.

    `mean` counts every client once and `samples` every label; the others are quantiles, the worst
    client, and the standard deviation over clients. Clients without labels have no score.

    Args:
      name: the score.
      values: the score of every client `[N]`.
      labels: labels that it is the mean over `[N]`.

    >>> columns = distribution("mae", np.array([1.0, 3.0, 7.0]), np.array([1, 3, 0]))
    >>> [columns[f"mae_{name}"] for name in ("mean", "samples", "p50", "worst", "std")]
    [2.0, 2.5, 2.0, 3.0, 1.0]
    """
    scored = labels > 0
    values = values[scored]
    if not len(values):
        return {}
    p10, p50, p90 = np.quantile(values, [0.1, 0.5, 0.9]).tolist()
    worst = values.max() if name.endswith("mae") else values.min()
    return {
        f"{name}_mean": float(values.mean()),
        f"{name}_samples": float(np.average(values, weights=labels[scored])),
        f"{name}_p10": p10,
        f"{name}_p50": p50,
        f"{name}_p90": p90,
        f"{name}_worst": float(worst),
        f"{name}_std": float(values.std()),
    }
