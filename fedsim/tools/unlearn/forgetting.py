"""How well a model has forgotten clients: scores, distance to retraining, a membership attack."""

from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jaxtyping import Float

from fedsim.disk.tables import Record
from fedsim.engine.final import final_variables
from fedsim.engine.run import Run
from fedsim.engine.scoring.clients import row_scores
from fedsim.engine.scoring.rows import labels_of, metrics, with_loss_of_set
from fedsim.engine.scoring.scorer import Moment
from fedsim.engine.server_records import ServerState
from fedsim.study.statistics import paired
from fedsim.tools.unlearn.columns import UNLEARNING
from fedsim.tools.unlearn.ways import ORIGINAL, RETRAIN, Made
from fedsim.tree import Tree
from fedsim.types import Shared

# Columns of scores that are compared with those of retraining.
COMPARED = (
    *(name for name in UNLEARNING if name.startswith(("test_", "forgotten_"))),
    "attack_auc",
    "gradient_steps",
)


def forgetting(run: Run, server: ServerState, clients: Sequence[int]) -> Record:
    """Score a server on the test set and on the training samples of clients.

    The attack guesses that a sample was trained on where its loss is low: `attack_auc` is the area
    under the curve of its true against its false positives, the clients' training samples against
    the test samples. Where the clients' samples are unlike those of the test set, a model that
    never saw them is not at 0.5; so what counts is the distance to retraining.

    References:
      Yeom, Giacomelli, Fredrikson, Jha 2018, Privacy Risk in Machine Learning: Analyzing the
      Connection to Overfitting, CSF 2018, arXiv:1709.01604, section 4 (an attack by a threshold on
      the loss).

    Returns:
      `test_loss`, `test_accuracy` ... and `forgotten_loss` ..., and `attack_auc`; those without
      samples are missing, and the attack on losses that are not finite, or of whole sets alone.
    """
    f = run.plan.federation.unpooled
    trained = np.concatenate([f.holders.of(client) for client in clients])
    tested = len(f.train.x) + np.arange(len(f.test.x))
    rows = np.concatenate([trained, tested])
    (of_rows,), targets = row_scores(Moment(run, server, run.rounds), rows)

    record: Record = {}
    loss = run.program.task.loss
    measures = with_loss_of_set(None, loss)
    is_forgotten = np.arange(len(rows)) < len(trained)
    trained_y = f.labels_in(run.rounds)[trained]
    sets = {"test": (~is_forgotten, f.test.y), "forgotten": (is_forgotten, trained_y)}
    for name, (is_in, y) in sets.items():
        if is_in.any():
            means = metrics({key: values[is_in] for key, values in of_rows.items()}, y, measures)
            record |= {f"{name}_{metric}": value for metric, value in means.items()}

    if is_forgotten.any() and not is_forgotten.all() and loss.of_set is None:
        losses = of_rows["loss"] / np.maximum(
            labels_of(targets), 1
        )  # of a sequence the mean over its tokens
        if np.isfinite(losses).all():
            record["attack_auc"] = auc(-losses[is_forgotten], -losses[~is_forgotten])
    return record


def scored(
    run: Run, made: Mapping[str, Made], clients: Sequence[int]
) -> tuple[list[Record], dict[str, Shared]]:
    """Score what every way made of a seed, against retraining (inside `numerics`).

    Args:
      made: by way; the original and `retrain` are among them.

    Returns:
      A row per way, and the final variables by way.
    """
    variables = {}
    for way, of_way in made.items():
        run.server = of_way.server
        variables[way] = final_variables(run)

    retrained = variables[RETRAIN]["params"]
    start = distance(variables[ORIGINAL]["params"], retrained)
    rows = []
    for way, of_way in made.items():
        away = distance(variables[way]["params"], retrained)
        row = {
            "how": way,
            "from_round": of_way.from_round,
            "rounds": of_way.rounds,
            "gradient_steps": of_way.steps,
            "distance": away,
            "relative_distance": away / start if start else None,
            "reason": of_way.reason or None,
        }
        rows.append({**row, **forgetting(run, of_way.server, clients)})
    return rows, variables


def differences_of(rows: Sequence[Record]) -> list[Record]:
    """Return how the scores of every way differ from those of retraining, paired by seed.

    Returns:
      A row per way and column of scores, with Student's 95 % interval of the mean difference.
    """
    by_way: dict[str, dict[int, Record]] = {}
    for row in rows:
        by_way.setdefault(row["how"], {})[row["seed"]] = row
    retrained = by_way.pop(RETRAIN)
    seeds = sorted(retrained)

    differences = []
    for way, by_seed in by_way.items():
        for column in COMPARED:
            # None becomes NaN, of which there is no difference; nor is there one of a lost run.
            one = np.array([by_seed[seed].get(column) for seed in seeds], float)
            other = np.array([retrained[seed].get(column) for seed in seeds], float)
            if not np.isfinite([one, other]).all():
                continue
            pairs = paired(one, other, larger_is_better=True)
            differences.append(
                {
                    "how": way,
                    "column": column,
                    "seeds": pairs.seeds,
                    "mean": float(one.mean()),
                    "mean_retrain": float(other.mean()),
                    "difference": pairs.difference,
                    "ci_low": pairs.ci_low,
                    "ci_high": pairs.ci_high,
                }
            )
    return differences


def auc(positive: Float[np.ndarray, " n"], negative: Float[np.ndarray, " m"]) -> float:
    """Return how often a positive has a higher score than a negative; ties count half.

    It is the area under the receiver operating characteristic, and Mann and Whitney's U over n m.

    >>> auc(np.array([3.0, 2.0]), np.array([1.0, 2.0]))
    0.875
    """
    from scipy.stats import mannwhitneyu  # takes a tenth of a second to import

    return float(mannwhitneyu(positive, negative).statistic / (len(positive) * len(negative)))


def distance(params: Tree, other: Tree) -> float:
    """Return ‖params − other‖₂ over all leaves, in float64."""
    difference = _coordinates(params) - _coordinates(other)
    return float(np.linalg.norm(difference))


def _coordinates(params: Tree) -> np.ndarray:
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(params)]
    return np.concatenate(leaves)
