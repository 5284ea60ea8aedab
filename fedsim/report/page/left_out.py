"""Who is left out, on the page: how well the final model serves clients that took part rarely."""

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.figures.rows import Shown, rows_on_page
from fedsim.report.page.clients import ClientScore, score_of, scores_of_method
from fedsim.report.pictures.rows import SHAPES, Key, Mark, Row, Rows, empty_mark, in_shares, span_of
from fedsim.report.series import by_variant
from fedsim.study.statistics import interval

# Classes of clients that took part at all, by their rounds over the mean of all clients.
ABOUT_THE_MEAN = 0.5
OFTEN = 1.5
WORDS = (
    "never took part",
    "less than half as often as the mean",
    "about as often as the mean",
    "more than 1.5 times as often",
)


def left_out(clients: pd.DataFrame | None, context: Context) -> list[tuple[str, Shown]]:
    """A picture, a row per method, for every variation in which a fleet leaves clients out."""
    score = score_of(clients, context.metric)
    if clients is None or score is None or "rounds_late" not in clients:
        return []
    pictures = []
    for variant, table in by_variant(clients).items():
        if np.isnan(np.asarray(table["rounds_late"], float)).all():  # without a fleet
            continue
        picture = _picture(table, score, context)
        if picture is not None:
            pictures.append((context.words(variant), picture))
    return pictures


def _picture(table: pd.DataFrame, score: ClientScore, context: Context) -> Shown | None:
    """The picture of one variation; None where no client was scored."""
    rows = []
    for method in context.order:
        of_method = pd.DataFrame(table[table["method"] == method])
        if not len(of_method):
            continue
        marks = _marks(of_method, score)
        rows.append(Row(method, "", context.rank_of(method), marks))
    if not any(row.numbers for row in rows):
        return None

    span = span_of(rows, share=score.share)
    scored = f"{score.words} of the final model on the clients' own samples"
    label = f"{scored}, mean over the seeds and 95 % interval"
    keys = [Key(words, shape) for shape, words in zip(SHAPES, WORDS, strict=True)]
    return rows_on_page(Rows(rows, span, label, keys=keys))


def classes_of(joined: np.ndarray) -> np.ndarray:
    """Classes of clients: 0 never took part, 1 rarely, 2 about as often as the mean, 3 often.

    Args:
      joined: the rounds that every client took part in, `[N]`.

    >>> classes_of(np.array([0, 1, 4, 5, 15])).tolist()
    [0, 1, 2, 2, 3]
    """
    mean = max(float(joined.mean()), 1e-300)
    how_often = 1 + np.searchsorted((ABOUT_THE_MEAN, OFTEN), joined / mean, "right")
    return np.where(joined == 0, 0, how_often)


def _marks(table: pd.DataFrame, score: ClientScore) -> list[Mark]:
    """A mark per class of a method's clients: the mean over seeds of the mean over clients."""
    scores: list[list[np.ndarray]] = [[] for _ in WORDS]  # by class and seed, `[clients]`
    for _, of_seed in table.groupby("seed"):
        of_clients = scores_of_method(of_seed, score)
        kinds = classes_of(np.asarray(of_seed["rounds_joined"], float))
        for kind, of_class in enumerate(scores):
            values = of_clients[kinds == kind]
            of_class.append(values[np.isfinite(values)])

    marks = []
    for words, of_class in zip(WORDS, scores, strict=True):
        marks.append(_mark(words, of_class, score.share))
    return marks


def _mark(words: str, scores: list[np.ndarray], share: bool) -> Mark:
    means = np.array([float(values.mean()) for values in scores if len(values)])
    if not len(means):
        return empty_mark(f"{words}: nobody")

    low, high = interval(means) or (None, None)
    if share:
        low, high = in_shares(low, high)
    mean = float(means.mean())
    clients = sum(map(len, scores)) / len(scores)
    return Mark(
        at=mean,
        low=low,
        high=high,
        dots=[],
        filled=True,
        text=f"{mean:.3f}",
        title=f"{words}: {mean:.3f}, {clients:.3g} clients per seed",
    )
