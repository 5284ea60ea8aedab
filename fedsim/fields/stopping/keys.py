"""The section `stop`."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt
from pydantic import model_validator

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import Section
from fedsim.scenario.values import Count, Index

Budget = Annotated[float, Gt(0)] | None


class AtMost(Section):
    """`stop.at_most`: what a run may spend; it ends with the first row that has spent as much."""

    bytes: Budget = None
    """Payload of all messages, up and down. By default without a limit."""
    virtual_seconds: Budget = None
    """Seconds of the fleet's clock. By default without a limit."""
    epsilon: Budget = None
    """The ε of a private run. By default without a limit."""
    joules: Budget = None
    """What clients take of energy, under `fleet.energy`. By default without a limit."""

    @model_validator(mode="after")
    def _has_a_limit(self) -> "AtMost":
        if not limits_of(self):
            raise ValueError("has no limit; write bytes, virtual_seconds, epsilon or joules")
        return self


class Stop(Section):
    """`stop`: when a run ends before its last round, after an evaluated one."""

    metric: str | None = None
    """The column of `rounds.csv` that decides. By default `evaluate.metric` on validation samples:
    `validation_accuracy` for `test_accuracy`, or `validation_loss` where there is no accuracy."""
    patience: Count | None = None
    """Evaluated rounds in a row without a better value after which the run ends. By default it does
    not end for that."""
    delta: Annotated[float, Ge(0)] = 0.0
    """By how much a value has to be better than the best one before it to count."""
    after: Index = 0
    """The first round that may be the last one."""
    target: float | None = None
    """Value of the metric with which the run ends. By default none."""
    at_most: AtMost | None = None
    """What the run may spend, as `{bytes: 1e9}`. By default without a limit."""
    restore: Literal["last", "best"] = "last"
    """The model that the run results in: that of its last round, or of the evaluated round in which
    the metric was best."""

    @model_validator(mode="after")
    def _ends(self) -> "Stop":
        if self.patience is None and self.target is None and self.at_most is None:
            raise ValueError("never ends a run; write patience, target or at_most")
        return self


class StopKey:
    """The key at the top of a scenario."""

    stop: Stop | None = None
    """When a run ends early: `{patience: 5}` after five evaluated rounds without progress,
    `{target: 0.9}`, or `{at_most: {bytes: 1e9}}`. By default it plays all its rounds."""


def limits_of(section: AtMost | None) -> list[tuple[str, float]]:
    """Return what `at_most` limits: names and limits."""
    return [] if section is None else list(section.model_dump(exclude_none=True).items())


KEYS = [AddedKeys("", after="evaluate", keys=StopKey)]
