"""Curves over the rounds: of every method under every variation the mean of a column over the
seeds, and its range.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.report.series import Series, Track, diverged, last_rounds, series

BAND = 3  # seeds from which on their range is a band


class Curve(NamedTuple):
    """One column of one method under one variation.

    Attributes:
      name: of the method.
      place: of the method, in the order of the result.
      column: of `rounds.csv`.
      track: the rows that it is made of.
      series: its values by round and seed.
      rounds: `[r]`, those that all seeds have.
      mean: `[r]`, over the seeds.
      low: `[r]`, the least of them.
      high: `[r]`, the largest.
      each: whether every seed is drawn.
      lost: seeds that diverged.
    """

    name: str
    place: int
    column: str
    track: Track
    series: Series
    rounds: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    each: bool
    lost: list[int]

    @property
    def several(self) -> bool:
        """Whether it is over more than one seed."""
        return len(self.series.seeds) > 1

    def mean_of(self, column: str) -> np.ndarray:
        """The mean of another column over the same seeds at the same rounds, `[r]`, at which all of
        them have a value.
        """
        other = series(self.track, column)
        rounds = np.searchsorted(other.rounds, self.rounds)
        seeds = np.searchsorted(other.seeds, self.series.seeds)
        return other.values[np.ix_(rounds, seeds)].mean(1)


def drawn_each(track: Track) -> bool:
    """Whether every seed of a method is drawn: there are too few for a band, or some ended before
    the others.
    """
    last = last_rounds(track)
    return len(last) < BAND or len(set(last.values())) > 1 or bool(diverged(track))


def curve(track: Track, column: str, place: int) -> Curve:
    """A column of a method, in its place in the order of the result."""
    of_column = series(track, column)
    rounds, values = of_column.common()
    none = np.zeros(0)
    some = len(rounds) > 0
    return Curve(
        name=track.name,
        place=place,
        column=column,
        track=track,
        series=of_column,
        rounds=rounds,
        mean=values.mean(1) if some else none,
        low=values.min(1) if some else none,
        high=values.max(1) if some else none,
        each=drawn_each(track),
        lost=diverged(track),
    )


def curves(tracks: Sequence[Track], columns: Sequence[str], names: Sequence[str]) -> list[Curve]:
    """The columns of some methods, the most important method first; columns that a method has not
    are left out.

    Args:
      tracks: of the methods.
      columns: of `rounds.csv`.
      names: of the methods, in the order of the result.
    """
    by_place = sorted(tracks, key=lambda track: names.index(track.name))
    return [
        curve(track, column, names.index(track.name))
        for track in by_place
        for column in columns
        if column in track.values
    ]
