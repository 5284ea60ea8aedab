"""Methods by attacks: the mean score of each pair, and the worst of every method."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fedsim.report.about import About
from fedsim.report.results import Row
from fedsim.study.standings import mean_score
from fedsim.study.worst_case import by_attack


class Grid(NamedTuple):
    """Methods by attacks under one variation of everything else.

    Attributes:
      title: what varies beside the attack, in words; empty where nothing does.
      methods: in their order.
      attacks: in words.
      means: mean scores `[methods, attacks]`; NaN where there are none, infinite where runs
        diverged.
      shades: how good they are among all that are finite, `[methods, attacks]`: from 0 to 1, NaN
        where there are none.
      worst: whether no attack hurts the method more, `[methods, attacks]`.
      seeds: how many there are.
    """

    title: str
    methods: list[str]
    attacks: list[str]
    means: np.ndarray
    shades: np.ndarray
    worst: np.ndarray
    seeds: int


def grids(summary: Sequence[Row], about: About) -> list[Grid]:
    """A grid for every variation beside the attack; none where attacks do not vary.

    Args:
      summary: rows of `summary.csv`.
      about: what is shown.
    """
    return [_grid(rest, methods, about) for rest, methods in by_attack(summary).items()]


def _grid(rest: str, methods: Mapping[str, Mapping[str, list[Row]]], about: About) -> Grid:
    names = about.ordered([*methods])
    attacks = list(dict.fromkeys(attack for attacked in methods.values() for attack in attacked))
    means = np.array(
        [[mean_score(methods[m].get(a, []), about.score) for a in attacks] for m in names], float
    )
    runs = [run for attacked in methods.values() for part in attacked.values() for run in part]
    gains = means if about.rising else -means
    return Grid(
        title=about.words(rest) if rest else "",
        methods=names,
        attacks=[about.words(attack).removesuffix(" on the wire") for attack in attacks],
        means=means,
        shades=_shares(np.where(np.isfinite(gains), gains, np.nan)),
        worst=gains == np.fmin.reduce(gains, axis=1, keepdims=True),
        seeds=len({run["seed"] for run in runs}),
    )


def _shares(gains: np.ndarray) -> np.ndarray:
    """Where values lie between the smallest and the largest; all of them are best where they are
    the same.
    """
    if not np.isfinite(gains).any():
        return gains
    low, high = np.nanmin(gains), np.nanmax(gains)
    return (gains - low) / (high - low) if high > low else gains - low + 1.0
