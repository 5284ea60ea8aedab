"""What a meter is, and the counts since the last row that all meters share."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedsim.disk.checkpoint import Snapshot, restore_tree
from fedsim.engine.records import DispatchedRound

Columns = dict[str, Any]


class Since:
    """What happened since the last evaluated round; a new row begins with an empty one.

    Attributes:
      sums: numbers that columns are made of.
      columns: columns of `rounds.csv` that are complete as they are.
    """

    def __init__(self, sums: Mapping[str, float] | None = None, columns: Columns | None = None):
        self.sums = dict(sums or {})
        self.columns = dict(columns or {})

    def __getitem__(self, name: str) -> float:
        """Return a sum; 0 where nothing was added."""
        return self.sums.get(name, 0)

    def add(self, **numbers: float) -> None:
        for name, number in numbers.items():
            self.sums[name] = self[name] + number

    def report(self, values: Mapping[str, Any]) -> None:
        """Add columns of a round: integers are summed, of other values the last one counts.

        A float that is NaN says nothing about the round: it becomes None.
        """
        for name, reported in values.items():
            value = None if reported is None else np.asarray(reported).item()
            if isinstance(value, int):  # or a bool
                self.columns[name] = self.columns.get(name, 0) + value
            elif value is not None and math.isnan(value):
                self.columns[name] = None
            else:
                self.columns[name] = value

    def state(self) -> dict[str, Any]:
        """Return what a checkpoint stores."""
        return {**self.sums, "info": self.columns}

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> "Since":
        """Return what `state` returned."""
        sums = dict(state)
        columns = sums.pop("info")
        return cls(sums, columns)


class Meter:
    """Counts something of the rounds of a run, on the host and by value.

    A run goes through its meters after every round, and in every row of `rounds.csv`. What counts
    from the start of the run is an attribute that `stored` names; what counts since the last row is
    in `Since`.

    Attributes:
      stored: attributes that a checkpoint stores by these names, plain values or arrays.
      may_end: whether it may end the run with a round that the host has not read.
      reads_rows: whether it may do so with an evaluated round alone.
    """

    stored: tuple[str, ...] = ()
    may_end: bool = False
    reads_rows: bool = False

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        """Count a round that is over."""

    def ending(self, dispatched: DispatchedRound) -> tuple[str, str] | None:
        """Return the status with which a round ends the run, and the reason; None: it goes on."""
        return None

    def ends_with(self, row: Columns) -> bool:
        """Return whether an evaluated round is the last one, as if `rounds` had said so."""
        return False

    def chooses(self, row: Columns) -> bool:
        """Return whether the server after an evaluated round is the run's result until further."""
        return False

    def verdict(self, round: int) -> tuple[str, str] | None:
        """Return status and reason of a run whose last round is over; None: it is done."""
        return None

    def row(self, round: int, since: Since) -> Columns:
        """Return the columns of an evaluated round."""
        return {}

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return columns of `clients.csv`, for the clients with these ids."""
        return {}

    def at_end(self, end: Any, listed: np.ndarray) -> dict[str, list]:
        """Return columns of `clients.csv` of a run that has ended.

        Args:
          end: the run's end, a `Moment`.
          listed: ids of the clients.
        """
        return {}

    def tables(self) -> dict[str, dict[str, list]]:
        """Return tables of a run that has ended, by name."""
        return {}

    def snapshot(self) -> Snapshot:
        """Return what a checkpoint stores."""
        snapshot = Snapshot({}, {})
        for name in self.stored:
            value = getattr(self, name)
            part = snapshot.arrays if isinstance(value, np.ndarray) else snapshot.values
            part[name] = value
        return snapshot

    def restore(self, snapshot: Snapshot) -> None:
        """Resume from a checkpoint, which stores all meters of the run.

        Raises:
          CheckpointError: when it does not fit this run.
        """
        for name in self.stored:
            value = getattr(self, name)
            if isinstance(value, np.ndarray):
                setattr(self, name, restore_tree(name, snapshot.arrays, value).copy())
            else:
                setattr(self, name, snapshot.values[name])
