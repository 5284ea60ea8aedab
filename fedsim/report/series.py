"""Rows of `rounds.csv` as series to draw: a value per round and seed, as far as it is finite."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from fedsim.study.summary import is_share

FARTHEST = 1e100  # beyond it, and below its inverse, the arithmetic of axes overflows


class Track(NamedTuple):
    """One method under one variation: its rows of `rounds.csv`.

    Attributes:
      name: of the method.
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
        """Rounds and finite values of one seed; what is missing in between is left out."""
        column = self.values[:, np.flatnonzero(self.seeds == seed)[0]]
        return self.rounds[np.isfinite(column)], column[np.isfinite(column)]

    def common(self) -> tuple[np.ndarray, np.ndarray]:
        """Rounds `[r]` at which all seeds have a value, and these `[r, S]`."""
        whole = np.isfinite(self.values).all(1) & bool(len(self.seeds))
        return self.rounds[whole], self.values[whole]


def by_variant(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of every variation, in the order in which they appear; all of them under "" where nothing varies."""
    if "variant" not in table:
        return {"": table}
    named = table["variant"].fillna("").astype(str)
    return {name: pd.DataFrame(table[named == name]) for name in dict.fromkeys(named)} or {
        "": table
    }


def tracks(rounds: pd.DataFrame, columns: tuple[str, ...]) -> list[Track]:
    """Rows by method, in the order in which they appear; columns that are all missing are left out."""
    names = np.asarray(rounds["method"], object).astype(str)
    numbers = {name: np.asarray(rounds[name], float) for name in columns if name in rounds}
    known = {name: column for name, column in numbers.items() if not np.isnan(column).all()}
    number, seed = np.asarray(rounds["round"], int), np.asarray(rounds["seed"], int)
    by_method = []
    for name in dict.fromkeys(names.tolist()):
        rows = names == name
        values = {column: numbers[rows] for column, numbers in known.items()}
        by_method.append(Track(name=name, rounds=number[rows], seeds=seed[rows], values=values))
    return by_method


def series(track: Track, column: str) -> Series:
    """One column by round and seed; values too large for an axis count as infinite, too small ones as 0.

    An accuracy counts only as long as the test loss is finite: of a model that is no longer finite it means nothing.
    """
    usable = np.abs(track.values[column]) <= FARTHEST
    if is_share(column) and "test_loss" in track.values:
        usable &= np.isfinite(track.values["test_loss"])
    rounds, seeds = np.unique(track.rounds), np.unique(track.seeds[usable])
    table = np.full((len(rounds), len(seeds)), np.nan)
    places = (
        np.searchsorted(rounds, track.rounds[usable]),
        np.searchsorted(seeds, track.seeds[usable]),
    )
    kept = track.values[column][usable]
    table[places] = np.where(np.abs(kept) * FARTHEST < 1, 0.0, kept)
    return Series(rounds, seeds, table)


def last_rounds(track: Track) -> dict[int, int]:
    """The last round of every seed."""
    return {
        int(seed): int(track.rounds[track.seeds == seed].max()) for seed in np.unique(track.seeds)
    }


def diverged(track: Track) -> list[int]:
    """Seeds that diverged: by the column `diverged` where there is one, else those whose last test loss is not finite."""
    lost = (
        np.nan_to_num(track.values["diverged"]) > 0
        if "diverged" in track.values
        else np.zeros(len(track.seeds), bool)
    )
    loss = track.values.get("test_loss", np.zeros(len(track.seeds)))
    at = lambda seed, number: (track.seeds == seed) & (track.rounds == number)
    last = {seed: at(seed, number) for seed, number in last_rounds(track).items()}
    return [
        seed for seed, rows in last.items() if lost[rows].any() or not np.isfinite(loss[rows]).all()
    ]
