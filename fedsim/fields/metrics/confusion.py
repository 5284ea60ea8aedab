"""The confusion matrix: how many samples of each class a final model decides for which class."""

from collections.abc import Iterator, Sequence
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
PANELS = 8  # matrices that are drawn


class Matrix(NamedTuple):
    """The confusion matrix of a model.

    Attributes:
      name: of its method, and the number of the model where a method has several.
      labels: the classes.
      samples: of each class, by decision `[C, C]`.
    """

    name: str
    labels: list[str]
    samples: np.ndarray

    @property
    def shares(self) -> np.ndarray:
        """Shares of the samples of each class `[C, C]`; 0 where there are none."""
        of_class = self.samples.sum(axis=1, keepdims=True)
        return self.samples / np.maximum(of_class, 1)


def table(run: Run) -> Record:
    """Return the columns of `confusion.csv`; nothing where no model is shared.

    Of several models, those are counted that some client has, each on all test samples.
    """
    moment = end_of(run)
    test = moment.federation.test
    if not run.scorer.sets or not len(test.y):
        return {}
    by_model = scores_of_set(moment, test.x, test.y)
    labels = list(moment.federation.label_names)
    cells = len(labels) ** 2
    used = [0]
    columns: Record = {}
    if len(by_model) > 1:
        assert moment.choices is not None  # several models are chosen from
        used = np.unique(moment.choices[moment.choices >= 0]).tolist()
        columns["model"] = np.repeat(used, cells).tolist()
    matrices = [Samples(by_model[model][OUTPUTS], test.y).confusion for model in used]
    return {
        **columns,
        "label": np.repeat(labels, len(labels)).tolist() * len(used),
        "decision": labels * len(labels) * len(used),
        "samples": np.ravel(matrices).astype(int).tolist(),
    }


def matrices_of(table: pd.DataFrame, methods: Sequence[str]) -> list[Matrix]:
    """Return the matrices of the first condition by method and model, summed over seeds.

    A model has the same number under every seed, and may be another cluster there; so those of a
    method with several are of the first seed alone.
    """
    first = next(iter(by_variant(table).values()))
    labels = list(dict.fromkeys(first["label"]))
    names = [str(name) for name in labels]
    matrices = []
    for method in methods:
        rows = pd.DataFrame(first[first["method"] == method])
        for name, of_model in _by_model(method, rows):
            cells = np.asarray(of_model["samples"], int).reshape(-1, len(labels), len(labels))
            matrices.append(Matrix(name, names, cells.sum(axis=0)))
    return matrices


def _by_model(method: str, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the name of each matrix of a method, and its rows."""
    if not len(rows):
        return
    if "model" not in rows or np.isnan(rows["model"].to_numpy(float)).all():
        yield method, rows
        return
    of_first_seed = pd.DataFrame(rows[rows["seed"] == rows["seed"].iloc[0]])
    for model in of_first_seed["model"].unique().tolist():
        of_model = pd.DataFrame(of_first_seed[of_first_seed["model"] == model])
        yield f"{method}, model {int(model)}", of_model


def about(table: pd.DataFrame) -> str:
    """Return what is drawn of a table, as a sentence without a full stop."""
    seeds = len(set(table["seed"]))
    text = f"sums over {seeds} seeds" if seeds > 1 else "one seed"
    several = "variant" in table and len(set(table["variant"])) > 1
    return f"{text}, of the first condition" if several else text
