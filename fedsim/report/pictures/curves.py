"""Curves over the rounds: the mean of a column over the seeds of a method, and its range."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedsim.report.series import Series, Track, diverged, last_rounds, series

BAND = 3  # seeds from which on their range is drawn as a band


class Line(NamedTuple):
    """A line of numbers, and the band around it.

    Attributes:
      x: `[r]`.
      y: `[r]`.
      low: lower end of the band, `[r]`; None without a band.
    """

    name: str
    rank: int
    x: np.ndarray
    y: np.ndarray
    low: np.ndarray | None = None
    high: np.ndarray | None = None


class Curve(NamedTuple):
    """One column of one method under one variation.

    Attributes:
      series: its values by round and seed.
      rounds: `[r]`, the rounds at which all seeds have a value.
      mean: `[r]`, over the seeds.
      low: `[r]`, the smallest of the seeds.
      high: `[r]`, the largest.
      each: whether every seed is drawn.
      lost: seeds that diverged.
    """

    name: str
    rank: int
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
        """Whether there is more than one seed."""
        return len(self.series.seeds) > 1

    def mean_of(self, column: str) -> np.ndarray:
        """The mean of another column over the same seeds at the same rounds, `[r]`.

        Args:
          column: of `rounds.csv`, in which all seeds have a value at these rounds.
        """
        other = series(self.track, column)
        rounds = np.searchsorted(other.rounds, self.rounds)
        seeds = np.searchsorted(other.seeds, self.series.seeds)
        return other.values[np.ix_(rounds, seeds)].mean(1)

    def spent(self, columns: Sequence[str]) -> np.ndarray:
        """The sum of columns at its rounds, `[r]`; `[0]` where one of them is not counted."""
        total = np.zeros(len(self.rounds))
        for column in columns:
            counted = self.track.values.get(column)
            if counted is None or np.isnan(counted).all():
                return np.zeros(0)
            total = total + self.mean_of(column)
        return total

    def over(self, positions: np.ndarray, positive: bool) -> "Curve":
        """The same over something else than rounds: its mean and range, without single seeds.

        Args:
          positions: of its points, `[r]`; `[0]` where they are unknown.
          positive: leave out points at 0, as a logarithmic axis does.
        """
        shown = positions > 0 if positive else np.full(len(positions), True)
        places = np.flatnonzero(shown)
        return self._replace(
            rounds=positions[places],
            mean=self.mean[places],
            low=self.low[places],
            high=self.high[places],
            each=False,
            lost=[],
        )


def drawn_each(track: Track) -> bool:
    """Whether every seed of a method is drawn: there are few, or some ended before the others."""
    last = last_rounds(track)
    return len(last) < BAND or len(set(last.values())) > 1 or bool(diverged(track))


def curve(track: Track, column: str, rank: int) -> Curve:
    """A column of a method."""
    of_column = series(track, column)
    rounds, values = of_column.common()
    mean = low = high = np.zeros(0)
    if len(rounds):
        mean = values.mean(1)
        low = values.min(1)
        high = values.max(1)
    return Curve(
        name=track.name,
        rank=rank,
        column=column,
        track=track,
        series=of_column,
        rounds=rounds,
        mean=mean,
        low=low,
        high=high,
        each=drawn_each(track),
        lost=diverged(track),
    )


def curves(tracks: Sequence[Track], columns: Sequence[str], names: Sequence[str]) -> list[Curve]:
    """The curves of several methods, the most important method first.

    Args:
      columns: of `rounds.csv`; those that a method does not have are skipped.
    """
    ranks = {track.name: names.index(track.name) for track in tracks}
    drawn = []
    for track in sorted(tracks, key=lambda track: ranks[track.name]):
        for column in columns:
            if column in track.values:
                drawn.append(curve(track, column, ranks[track.name]))
    return drawn
