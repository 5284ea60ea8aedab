"""What happened in a run since its last evaluated round."""

import math
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array

from fedsim.engine.diagnosis import Diagnosis
from fedsim.engine.records import DispatchedRound


class Counters(NamedTuple):
    """Counts and sums since the last evaluated round; checkpoints store them by these names."""

    sampled: int = 0  # clients drawn
    reported: int = 0
    nonfinite: int = 0
    skipped: int = 0  # rounds
    loss: float = 0.0  # Σ batch loss · valid rows, slot after slot
    seen: float = 0.0  # Σ valid rows
    useful: int = 0  # lane steps that trained a client
    lane_steps: int = 0
    diagnosed: int = 0  # rounds whose updates were measured
    update_norm: float = 0.0  # Σ over these rounds
    drift: float = 0.0  # likewise
    cosine: float = 0.0  # likewise
    # What links report: integers are sums, other values are those of the last round.
    info: dict[str, Any] = {}  # noqa: RUF012 (read only)

    @property
    def train_loss(self) -> float | None:
        """Mean loss of the training."""
        return self.loss / self.seen if self.seen else None

    @property
    def lane_efficiency(self) -> float:
        """Share of the lane steps that trained a client."""
        return self.useful / self.lane_steps if self.lane_steps else 0.0

    def diagnosis(self) -> dict[str, float | None]:
        """Return the means of the diagnosis over the rounds that were measured."""
        if not self.diagnosed:
            return dict.fromkeys(Diagnosis._fields)
        return {name: getattr(self, name) / self.diagnosed for name in Diagnosis._fields}


def add_round(
    counters: Counters,
    dispatched: DispatchedRound,
    reports: dict[str, Any],
    columns: dict[str, Any],
) -> Counters:
    """Add a round that is over.

    Args:
      counters: before the round.
      dispatched: the round.
      reports: what links and fleet report of it.
      columns: what the plan reports; it replaces earlier values.
    """
    report = dispatched.report
    sampled = len(dispatched.cohort.ids)
    if dispatched.cohort.uncounted is not None:
        sampled += len(dispatched.cohort.uncounted.ids)

    counters = counters._replace(
        sampled=counters.sampled + sampled,
        reported=counters.reported + int(report.reported),
        nonfinite=counters.nonfinite + int(report.nonfinite),
        skipped=counters.skipped + int(report.skipped),
        loss=_continued_sum(counters.loss, [block.loss for block in dispatched.stats]),
        seen=_continued_sum(counters.seen, [block.seen for block in dispatched.stats]),
        useful=counters.useful + dispatched.steps,
        lane_steps=counters.lane_steps + dispatched.lane_steps,
        info={**_add_reports(counters.info, reports), **columns},
    )
    return _add_diagnosis(counters, dispatched)


def _continued_sum(total: float, blocks: list[Array]) -> float:
    """Return a float64 sum continued over blocks, slot after slot."""
    terms = [np.asarray(block, np.float64) for block in blocks]
    return float(np.cumsum(np.concatenate([[total], *terms]))[-1])


def _add_reports(before: dict[str, Any], reports: dict[str, Any]) -> dict[str, Any]:
    """Return the reports of a round, with integers added to those before.

    A float that is NaN says nothing about the round: it becomes None.
    """
    info = {}
    for name, report in reports.items():
        value = np.asarray(report).item()
        if isinstance(value, int | bool):
            info[name] = before.get(name, 0) + value
        else:
            info[name] = None if math.isnan(value) else value
    return info


def _add_diagnosis(counters: Counters, dispatched: DispatchedRound) -> Counters:
    """Add the diagnosis of a round; one with too few clients is not finite and says nothing."""
    if dispatched.diagnosis is None:
        return counters
    values = {}
    for name, by_run in dispatched.diagnosis._asdict().items():
        values[name] = float(np.asarray(by_run)[dispatched.index])
    if not all(map(math.isfinite, values.values())):
        return counters

    sums = {name: getattr(counters, name) + value for name, value in values.items()}
    return counters._replace(diagnosed=counters.diagnosed + 1, **sums)
