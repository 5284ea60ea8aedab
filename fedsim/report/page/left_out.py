"""Who is left out, on the page: how well the final model serves clients by how often they took
part.
"""

import numpy as np
import pandas as pd

from fedsim.report.about import About
from fedsim.report.page import strips
from fedsim.report.series import by_variant
from fedsim.study.statistics import interval

ENDS = (0.0, 0.5, 1.5)  # of the classes: never, and times the mean of all clients
WORDS = (
    "never took part",
    "less than half as often as the mean",
    "about as often as the mean",
    "more than 1.5 times as often",
)


def left_out(clients: pd.DataFrame | None, about: About) -> list[tuple[str, strips.Strips]]:
    """A picture for every variation in which a fleet leaves clients out, a row for every method.

    Args:
      clients: the columns of `clients.csv`.
      about: what is shown.
    """
    if clients is None or not {"rounds_late", "global_accuracy"} <= {*clients}:
        return []
    pictures = []
    for variant, table in by_variant(clients).items():
        if np.isnan(np.asarray(table["rounds_late"], float)).all():
            continue
        marks = {name: _marks(pd.DataFrame(table[table["method"] == name])) for name in about.order}
        rows = [(name, "", of) for name, of in marks.items() if of]
        ends = [
            end
            for *_, of in rows
            for mark in of
            for end in (mark.at, mark.low, mark.high)
            if end is not None
        ]
        if not ends:
            continue
        x = strips.percent_axis([min(max(end, 0.0), 1.0) for end in ends], share=True)
        keys = [(strips.symbol(kind), words) for kind, words in enumerate(WORDS)]
        of = "accuracy of the final model on the clients' own samples"
        label = f"{of}, mean over the seeds and 95 % interval"
        pictures.append((about.words(variant), strips.marks_picture(rows, x, label, keys=keys)))
    return pictures


def classes_of(joined: np.ndarray) -> np.ndarray:
    """The class of every client by the rounds that it joined: 0 never, 1 rarely, 2 about as often
    as the mean, 3 often.

    >>> classes_of(np.array([0, 1, 4, 5, 15])).tolist()
    [0, 1, 2, 2, 3]
    """
    share = joined / max(float(joined.mean()), 1e-300)
    return np.where(joined == 0, 0, 1 + np.searchsorted(ENDS[1:], share, "right"))


def _marks(table: pd.DataFrame) -> list[strips.Mark]:
    """A mark for every class: the mean over the seeds of the mean over its clients; none where
    nobody was scored.
    """
    if not len(table):
        return []
    seeds = [pd.DataFrame(part) for _, part in table.groupby("seed")]
    kinds = [classes_of(np.asarray(part["rounds_joined"], float)) for part in seeds]
    marks = []
    for kind, words in enumerate(WORDS):
        scores = [_scored(part)[of == kind] for part, of in zip(seeds, kinds, strict=True)]
        scores = [values[~np.isnan(values)] for values in scores]
        means = np.array([float(values.mean()) for values in scores if len(values)])
        count = sum(map(len, scores)) / len(seeds)
        if not len(means):
            marks.append(strips.Mark(None, None, None, [], False, "", f"{words}: nobody"))
            continue
        low, high = interval(means) or (None, None)
        if low is not None and high is not None:
            low, high = max(low, 0.0), min(high, 1.0)
        text = f"{means.mean():.3f}"
        marks.append(
            strips.Mark(
                float(means.mean()),
                low,
                high,
                [],
                True,
                text,
                f"{words}: {text}, {count:.3g} clients a seed",
            )
        )
    return marks


def _scored(clients: pd.DataFrame) -> np.ndarray:
    return np.asarray(clients["global_accuracy"], float)
