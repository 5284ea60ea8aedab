"""The confusion matrix: how many samples of each class the final model decides for which class."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.disk.tables import Record
from fedsim.engine.run import Run
from fedsim.engine.scoring.clients import scores_of_set
from fedsim.engine.scoring.rows import OUTPUTS
from fedsim.engine.scoring.scorer import end_of
from fedsim.fields.metrics.samples import Samples
from fedsim.report.series import by_variant

TITLE = "Confusion matrix of the test samples"
MAX_CLASSES = 100
PANELS = 8  # methods that are drawn


class Matrix(NamedTuple):
    """The confusion matrix of a method.

    Attributes:
      method: its name.
      labels: the classes.
      samples: of each class, by decision `[C, C]`.
    """

    method: str
    labels: list[str]
    samples: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Shares of the samples of each class `[C, C]`; 0 where there are none."""
        of_class = self.samples.sum(axis=1, keepdims=True)
        return self.samples / np.maximum(of_class, 1)


def table(run: Run) -> Record:
    """Return the columns of `confusion.csv`; nothing where there is not one model of all.

    Args:
      run: a run that has ended.
    """
    moment = end_of(run)
    test = moment.federation.test
    if not run.scorer.sets or not len(test.y):
        return {}
    by_model = scores_of_set(moment, test.x, test.y)
    if len(by_model) > 1:
        return {}
    samples = Samples(by_model[0][OUTPUTS], test.y)
    labels = list(moment.federation.label_names)
    return {
        "label": np.repeat(labels, len(labels)).tolist(),
        "decision": labels * len(labels),
        "samples": samples.confusion.astype(int).ravel().tolist(),
    }


def matrices_of(table: pd.DataFrame, methods: Sequence[str]) -> list[Matrix]:
    """Return the matrices of the first condition by method, summed over seeds.

    Args:
      table: the columns of `confusion.csv`.
      methods: in the order of the result.
    """
    first = next(iter(by_variant(table).values()))
    labels = list(dict.fromkeys(first["label"]))
    matrices = []
    for method in methods:
        rows = pd.DataFrame(first[first["method"] == method])
        if len(rows):
            cells = np.asarray(rows["samples"], int).reshape(-1, len(labels), len(labels))
            matrices.append(Matrix(method, [str(name) for name in labels], cells.sum(axis=0)))
    return matrices[:PANELS]


def about(table: pd.DataFrame) -> str:
    """Return what is drawn of a table, as a sentence without a full stop."""
    seeds = len(set(table["seed"]))
    text = f"sums over {seeds} seeds" if seeds > 1 else "one seed"
    several = "variant" in table and len(set(table["variant"])) > 1
    return f"{text}, of the first condition" if several else text
