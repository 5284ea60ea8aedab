"""Methods by attacks: the mean score of each pair, and the worst of every method."""

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.report.context import Context
from fedsim.report.results import Row
from fedsim.study.standings import mean_score
from fedsim.study.worst_case import by_attack

SHADES = 5  # beside the palest one


class Cell(NamedTuple):
    """A method under an attack.

    Attributes:
      text: the mean score; empty without a run.
      shade: how good it is among all scores, from 0 to `SHADES` for the best.
      worst: whether no attack hurts the method more.
    """

    text: str
    shade: int
    worst: bool


class Grid(NamedTuple):
    """Methods by attacks, with everything else the same.

    Attributes:
      title: the variation of everything else in words; empty where nothing else varies.
    """

    title: str
    methods: list[str]
    attacks: list[str]
    rows: list[list[Cell]]
    seeds: int


def grids(summary: Sequence[Row], context: Context) -> list[Grid]:
    """A grid for every variation apart from the attack; none where attacks do not vary."""
    return [_grid(variant, runs, context) for variant, runs in by_attack(summary).items()]


def _grid(variant: str, runs: Mapping[str, Mapping[str, list[Row]]], context: Context) -> Grid:
    methods = context.ordered([*runs])
    attacks = list(dict.fromkeys(itertools.chain.from_iterable(runs.values())))
    means = np.full((len(methods), len(attacks)), np.nan)
    seeds = set()
    for row, method in enumerate(methods):
        for column, attack in enumerate(attacks):
            group = runs[method].get(attack, [])
            seeds |= {run["seed"] for run in group}
            mean = mean_score(group, context.score)
            if mean is not None:
                means[row, column] = mean

    gains = means if context.rising else -means
    finite = np.where(np.isfinite(gains), gains, np.nan)
    shades = np.rint(SHADES * np.nan_to_num(_shares(finite))).astype(int)
    worst = gains == np.fmin.reduce(gains, axis=1, keepdims=True)
    texts = [list(map(_text, of_method)) for of_method in means.tolist()]
    cells = zip(texts, shades.tolist(), worst.tolist(), strict=True)
    return Grid(
        title=context.words(variant) if variant else "",
        methods=methods,
        attacks=[context.words(attack) for attack in attacks],
        rows=[list(map(Cell, *of_method)) for of_method in cells],
        seeds=len(seeds),
    )


def _text(mean: float) -> str:
    """A mean score in a cell; infinite where runs diverged."""
    if math.isnan(mean):
        return ""
    return "∞" if math.isinf(mean) else f"{mean:.3g}"


def _shares(gains: np.ndarray) -> np.ndarray:
    """Where values lie between the smallest, 0, and the largest, 1; equal ones are all 1."""
    if not np.isfinite(gains).any():
        return gains
    low = np.nanmin(gains)
    high = np.nanmax(gains)
    if high > low:
        return (gains - low) / (high - low)
    return gains - low + 1.0
