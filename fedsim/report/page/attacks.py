"""Methods against attacks as a table with shades: the mean score of each pair, the worst of every method marked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.report.page.strips import breakable
from fedsim.report.results import metric_of
from fedsim.study.standings import mean_score
from fedsim.study.summary import Record, larger_is_better
from fedsim.study.words import variation
from fedsim.study.worst_case import by_attack

SHADES = 5  # from the worst score to the best


class Cell(NamedTuple):
    """A method under an attack."""

    text: str
    shade: int  # 0, the worst, to SHADES
    worst: bool  # of the method


class Grid(NamedTuple):
    """Methods by attacks under one variation of everything else."""

    title: str
    attacks: list[str]
    rows: list[tuple[str, list[Cell]]]


def grids(summary: Sequence[Record], names: Sequence[str], score: str, scenario: Mapping[str, Any]) -> list[Grid]:
    """A grid for every variation beside the attack; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
      names: of methods, in the order of the result.
      score: `final`, `best` or `mean_last_k`.
      scenario: as in `run.json`.
    """
    return [_grid(rest, methods, names, score, scenario) for rest, methods in by_attack(summary).items()]


def _grid(
    rest: str,
    methods: Mapping[str, Mapping[str, Sequence[Record]]],
    names: Sequence[str],
    score: str,
    scenario: Mapping[str, Any],
) -> Grid:
    attacks = list(dict.fromkeys(attack for attacked in methods.values() for attack in attacked))
    means = {m: {a: mean_score(attacked.get(a, []), score) for a in attacks} for m, attacked in methods.items()}
    known = [v for row in means.values() for v in row.values() if v is not None and math.isfinite(v)]
    runs = [run for attacked in methods.values() for part in attacked.values() for run in part]
    sign = 1 if larger_is_better(metric_of(runs)) else -1
    low, high = min((sign * v for v in known), default=0.0), max((sign * v for v in known), default=0.0)

    def cell(value: float | None, least: float | None) -> Cell:
        if value is None:
            return Cell("", 0, False)
        if not math.isfinite(value):
            return Cell("diverged", 0, True)
        shade = round(SHADES * (sign * value - low) / (high - low)) if high > low else SHADES
        return Cell(f"{value:.3g}", shade, value == least)

    rows = []
    for name in [name for name in names if name in means]:
        values = [value for value in means[name].values() if value is not None]
        least = min(values, key=lambda value: sign * value) if values else None
        rows.append((breakable(name), [cell(means[name][attack], least) for attack in attacks]))
    title = variation(rest, scenario) if rest else ""
    return Grid(title, [variation(attack, scenario).removesuffix(" on the wire") for attack in attacks], rows)
