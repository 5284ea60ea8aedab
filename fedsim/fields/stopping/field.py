"""What early ends add to how a scenario is checked and played."""

from typing import NamedTuple

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import Findings
from fedsim.engine.meters.meter import Meter
from fedsim.field import Field, RunSetting
from fedsim.fields.stopping.keys import Stop
from fedsim.fields.stopping.meter import Stopping, decides, default_metric

PATH = ("stop",)


class Planned(NamedTuple):
    """A section `stop` and the column that decides."""

    stop: Stop
    metric: str


def unmeasured(facts: Facts) -> Findings:
    """A column or an expense that no row of `rounds.csv` has."""
    stop = facts.spec.stop
    if stop is None:
        return
    metric = stop.metric or default_metric(facts.spec.evaluate.metric)
    needs_validation = decides(stop) and metric.startswith("validation_")
    if needs_validation and not len(facts.partitioned.validation.y):
        on_test = metric.replace("validation_", "test_", 1)
        text = "needs validation samples, and there are none; write data.validation: 0.1"
        yield PATH, f"{text}, or stop.metric: {on_test}"
    if stop.at_most is not None and stop.at_most.epsilon and facts.spec.privacy is None:
        yield (*PATH, "at_most", "epsilon"), "needs privacy, and there is none; remove it"


def _planned(facts: Facts) -> Planned | None:
    stop = facts.spec.stop
    if stop is None:
        return None
    return Planned(stop, stop.metric or default_metric(facts.spec.evaluate.metric))


def _meters(setting: RunSetting) -> list[Meter]:
    return [] if setting.planned is None else [Stopping(*setting.planned)]


FIELD = Field(
    calculations=[unmeasured],
    planned=_planned,
    meters=_meters,
    sections={"stop": {"stop": {"target": 0.9, "metric": "test_accuracy"}}},
)
