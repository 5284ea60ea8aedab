"""The rungs of a search: how long each setting of a method was played, and how it did then."""

from collections.abc import Sequence
from typing import NamedTuple

from fedsim.report.context import Context
from fedsim.report.results import Row
from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.summary import as_loss, grouped, larger_is_better, variation_of
from fedsim.study.words import path_and_value

MOST = 32  # settings of a panel


class Played(NamedTuple):
    """A setting of a search.

    Attributes:
      rung: the round after which it ended.
      score: on validation samples after that round; None: it has none.
    """

    name: str
    rung: int
    score: float | None
    chosen: bool


class Search(NamedTuple):
    """The settings of a method under one variation.

    Attributes:
      title: method, variation, and the paths that are tuned.
      settings: those that were played longest first, then the best.
    """

    title: str
    method: str
    metric: str
    rungs: list[int]
    settings: list[Played]
    left_out: int = 0


def searches(tuning: Sequence[Row], context: Context) -> list[Search]:
    """Return the searches with rungs of a comparison, in the order of the result."""
    with_rungs = [row for row in tuning if row.get("rung")]
    groups = grouped(with_rungs, key=lambda row: (variation_of(row), str(row["method"])))
    order = context.including([method for _, method in groups]).order
    ordered = sorted(groups, key=lambda key: list(order).index(key[1]))
    return [_search(groups[key], context) for key in ordered]


def _search(rows: Sequence[Row], context: Context) -> Search:
    first = rows[0]
    rising = larger_is_better(str(first["metric"]))
    paths = list(dict.fromkeys(path for row in rows for path, _ in _tuned(row)))

    def rank(row: Row) -> tuple[int, bool, float]:
        score = row.get("validation_mean")
        return -int(row["rung"]), score is None, 0.0 if score is None else as_loss(score, rising)

    settings = []
    for row in sorted(rows, key=rank):
        name = ", ".join(value for _, value in _tuned(row))
        settings.append(
            Played(name, int(row["rung"]), row.get("validation_mean"), bool(row["chosen"]))
        )
    words = [str(first["method"]), context.words(variation_of(first)), *paths]
    return Search(
        title=", ".join(filter(None, words)),
        method=str(first["method"]),
        metric=str(first["metric"]),
        rungs=sorted({setting.rung for setting in settings}),
        settings=settings[:MOST],
        left_out=len(settings[MOST:]),
    )


def _tuned(row: Row) -> list[tuple[str, str]]:
    """The paths that are tuned, with the values of a row."""
    return [path_and_value(setting) for setting in split_at_commas(str(row["tuned"]))]
