"""Rows of `rounds.csv` as series to draw: a value per round and seed, where it is finite."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.study.summary import is_share

FARTHEST = 1e100  # beyond it, and below its inverse, the arithmetic of axes overflows


class Track(NamedTuple):
    """One method under one variation: its rows of `rounds.csv`.

    Attributes:
      rounds: `[rows]`.
      seeds: `[rows]`.
      values: by column, `[rows]` each; NaN where nothing was computed.
    """

    name: str
    rounds: np.ndarray
    seeds: np.ndarray
    values: dict[str, np.ndarray]


class Series(NamedTuple):
    """One column of one method.

    Attributes:
      rounds: `[R]`, rising.
      seeds: `[S]`, those that have a finite value.
      values: `[R, S]`, NaN where a seed has no finite value.
    """

    rounds: np.ndarray
    seeds: np.ndarray
    values: np.ndarray

    def of(self, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rounds and finite values of one seed; gaps are skipped."""
        column = self.values[:, np.flatnonzero(self.seeds == seed)[0]]
        finite = np.isfinite(column)
        return self.rounds[finite], column[finite]

    def common(self) -> tuple[np.ndarray, np.ndarray]:
        """The rounds `[r]` at which all seeds have a value, and these values `[r, S]`."""
        if not len(self.seeds):
            return self.rounds[:0], self.values[:0]
        complete = np.isfinite(self.values).all(1)
        return self.rounds[complete], self.values[complete]


def by_variant(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of every variation in order of appearance; all under "" where nothing varies."""
    if "variant" not in table or not len(table):
        return {"": table}
    variants = table["variant"].fillna("").astype(str)
    return {name: pd.DataFrame(table[variants == name]) for name in dict.fromkeys(variants)}


def tracks(rounds: pd.DataFrame, columns: tuple[str, ...]) -> list[Track]:
    """Rows by method, in order of appearance.

    Args:
      columns: those that are read; one that is missing or has no number is skipped.
    """
    names = np.asarray(rounds["method"], object).astype(str)
    values = {}
    for name in columns:
        if name in rounds:
            column = np.asarray(rounds[name], float)
            if not np.isnan(column).all():
                values[name] = column

    round_numbers = np.asarray(rounds["round"], int)
    seeds = np.asarray(rounds["seed"], int)
    by_method = []
    for name in dict.fromkeys(names.tolist()):
        rows = names == name
        of_method = {column: numbers[rows] for column, numbers in values.items()}
        by_method.append(Track(name, round_numbers[rows], seeds[rows], of_method))
    return by_method


def series(track: Track, column: str) -> Series:
    """One column by round and seed.

    Values that are too large for an axis count as infinite, too small ones as 0. An accuracy counts
    only while the test loss is finite: of a model that is no longer finite it means nothing.
    """
    all_values = track.values[column]
    usable = np.abs(all_values) <= FARTHEST
    if is_share(column) and "test_loss" in track.values:
        usable &= np.isfinite(track.values["test_loss"])
    values = all_values[usable]
    values = np.where(np.abs(values) * FARTHEST < 1, 0.0, values)

    rounds = np.unique(track.rounds)
    seeds = np.unique(track.seeds[usable])
    table = np.full((len(rounds), len(seeds)), np.nan)  # [R, S]
    rows = np.searchsorted(rounds, track.rounds[usable])
    columns = np.searchsorted(seeds, track.seeds[usable])
    table[rows, columns] = values
    return Series(rounds, seeds, table)


def last_rounds(track: Track) -> dict[int, int]:
    """The last round of every seed."""
    last = {}
    for seed in np.unique(track.seeds):
        last[int(seed)] = int(track.rounds[track.seeds == seed].max())
    return last


def diverged(track: Track) -> list[int]:
    """Seeds that diverged: by the column `diverged`, or by a last test loss that is not finite."""
    nothing = np.zeros(len(track.seeds))
    marked = np.nan_to_num(track.values.get("diverged", nothing)) > 0
    loss = track.values.get("test_loss", nothing)
    if np.isnan(loss).all():  # there is no shared model to test
        loss = nothing
    lost = []
    for seed, number in last_rounds(track).items():
        last = (track.seeds == seed) & (track.rounds == number)
        if marked[last].any() or not np.isfinite(loss[last]).all():
            lost.append(seed)
    return lost
