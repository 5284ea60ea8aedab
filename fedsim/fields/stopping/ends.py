"""Where runs ended: the rounds that they were played to, by method and variation."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fedsim.disk.tables import Record
from fedsim.report.context import Context
from fedsim.study.summary import grouped, variation_of


class Ends(NamedTuple):
    """The ends of a method's runs under one variation.

    Attributes:
      variation: in words; empty where nothing varies.
      rounds: the last round of every run.
    """

    method: str
    variation: str
    rounds: list[int]
    early: list[bool]

    @property
    def title(self) -> str:
        """Method and variation."""
        return ", ".join(filter(None, (self.method, self.variation)))

    @property
    def mean(self) -> float:
        """The mean of the last rounds."""
        return sum(self.rounds) / len(self.rounds)


def ends_of(summary: Sequence[Record], rounds: Sequence[Record], context: Context) -> list[Ends]:
    """Return where runs ended, by variation; nothing unless some of several ended early."""
    if len(summary) < 2 or all(run.get("stopped") is None for run in summary):
        return []
    last: dict[tuple[str, str, int], int] = {}
    for row in rounds:
        last[_run_of(row)] = int(row["round"])

    groups: Mapping[tuple[str, str], list[Record]] = grouped(
        [run for run in summary if _run_of(run) in last],
        key=lambda run: (variation_of(run), run["method"]),
    )
    variations = list(dict.fromkeys(variation for variation, _ in groups))
    found = []
    for variation in variations:
        for method in context.order:
            runs = groups.get((variation, method), [])
            if runs:
                ends = [last[_run_of(run)] for run in runs]
                early = [run.get("stopped") is not None for run in runs]
                found.append(Ends(method, context.words(variation), ends, early))
    return found


def _run_of(row: Record) -> tuple[str, str, int]:
    return variation_of(row), row["method"], row["seed"]
