"""Which way a score is better: its worst and its best value, by the name of its column.

>>> larger_is_better("test_accuracy"), larger_is_better("personal_mae_mean")
(True, False)
"""

import math

from fedsim.installed import added

LARGE = (-math.inf, math.inf)  # of a score that nothing is known of
SMALL = (math.inf, 0.0)
# Name of a score -> its worst and its best value.
ENDS = {
    "accuracy": (0.0, 1.0),
    "r2": (-math.inf, 1.0),
    "loss": SMALL,
    "mae": SMALL,
    "perplexity": SMALL,
    "success": (1.0, 0.0),  # of an attack
}
# Kind of a metric -> the same; a column may say more behind it, as `test_f1_macro`.
ENDS_OF_FIELDS = {kind: ends for _, of_field in added("ENDS") for kind, ends in of_field.items()}
# Words in the name of a user's own score of which a smaller value is better.
SMALL_WORDS = {"loss", "error"}
# What is said of a score of all clients, behind its name.
OF_CLIENTS = ["mean", "samples", "p10", "p50", "p90", "worst", "std"]
BY_CLIENT = ("client", "personal")  # beginnings of the columns of such scores


def score_of(column: str) -> str:
    """Return the name of the score that a column is of.

    >>> [score_of(name) for name in ("test_accuracy", "client_mae_p10", "attack_success", "loss")]
    ['accuracy', 'mae', 'success', 'loss']
    """
    name = column.removesuffix(f"_{statistic_of(column)}")
    return name.partition("_")[2] or name


def statistic_of(column: str) -> str:
    """Return what a column says of a score of all clients, of `OF_CLIENTS`; empty for others.

    >>> statistic_of("client_mae_p10"), statistic_of("test_mae")
    ('p10', '')
    """
    if not column.startswith(BY_CLIENT):
        return ""
    statistic = column.rpartition("_")[2]
    return statistic if statistic in OF_CLIENTS else ""


def mean_of(column: str) -> str:
    """Return the column of the mean over clients beside another one of the same score.

    >>> mean_of("client_accuracy_p10"), mean_of("test_loss")
    ('client_accuracy_mean', 'test_loss')
    """
    statistic = statistic_of(column)
    return f"{column.removesuffix(statistic)}mean" if statistic else column


def ends_of(column: str) -> tuple[float, float]:
    """Return the worst and the best value of a column's score."""
    if statistic_of(column) == "std":
        return SMALL
    score = score_of(column)
    for kind in sorted(ENDS_OF_FIELDS, key=len, reverse=True):
        if score == kind or score.startswith(f"{kind}_"):
            return ENDS_OF_FIELDS[kind]
    if score in ENDS:
        return ENDS[score]
    return SMALL if SMALL_WORDS.intersection(score.split("_")) else LARGE


def larger_is_better(metric: str) -> bool:
    """Return whether a larger value of a metric is better: of accuracies and R², not of losses.

    >>> [larger_is_better(name) for name in ("test_accuracy", "test_r2", "test_mae", "test_loss")]
    [True, True, False, False]
    >>> larger_is_better("attack_success"), larger_is_better("personal_mae_mean")
    (False, False)
    """
    worst_value, best = ends_of(metric)
    return best > worst_value


def is_share(metric: str) -> bool:
    """Return whether a metric lies between 0 and 1."""
    return set(ends_of(metric)) == {0.0, 1.0}


def worst(metric: str) -> float:
    """Return the worst value of a metric, which is the score of a run that diverged.

    >>> [worst(name) for name in ("test_accuracy", "test_r2", "test_loss", "attack_success")]
    [0.0, -inf, inf, 1.0]
    """
    return ends_of(metric)[0]
