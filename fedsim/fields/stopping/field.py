"""What early ends add to how a scenario is checked and played."""

from typing import Any

from fedsim.assemble.facts import Facts
from fedsim.assemble.problems import UNKNOWN, Findings
from fedsim.engine.meters.meter import Meter
from fedsim.errors import did_you_mean
from fedsim.field import Field, RunSetting
from fedsim.fields.stopping.keys import Stop, limits_of
from fedsim.fields.stopping.meter import Stopping, decides, deciding_metric
from fedsim.fields.stopping.scored import has_accuracy, is_column, metric_of, scored_columns

PATH = ("stop",)
NO_VALIDATION = (
    "needs validation samples, and there are none; write data.validation: 0.1, or stop.metric: {}"
)


def unmeasured(facts: Facts) -> Findings:
    """A column that no row of `rounds.csv` has."""
    stop = facts.spec.stop
    if stop is None or not (decides(stop) or stop.metric):
        return
    metric = metric_of(facts)
    if metric.startswith("validation_") and not len(facts.partitioned.validation.y):
        yield PATH, NO_VALIDATION.format(metric.replace("validation_", "test_", 1))
    elif not is_column(metric, facts):
        text = f"{metric} is no column of rounds.csv here"
        yield (*PATH, "metric"), text + did_you_mean(metric, scored_columns(facts))


def uncounted(facts: Facts) -> Findings:
    """An expense that nobody counts."""
    stop = facts.spec.stop
    for name, _ in limits_of(None if stop is None else stop.at_most):
        if name == "epsilon" and facts.spec.privacy is None:
            yield (*PATH, "at_most", name), "needs privacy, and there is none; remove it"
        if name == "joules" and getattr(facts.spec.fleet, "energy", None) is None:
            yield (*PATH, "at_most", name), "needs fleet.energy, and there is none; remove it"


def _fill_in_metric(facts: Facts) -> None:
    """Write out which column decides."""
    stop = facts.spec.stop
    if stop is None or not decides(stop):
        return
    if UNKNOWN in (facts.maybe("classes"), facts.maybe("loss")):
        return
    filled = stop.model_copy(update={"metric": metric_of(facts)})
    spec = facts.spec.model_copy(update={"stop": filled})
    facts.scenario = facts.scenario._replace(spec=spec)


def _planned(facts: Facts) -> tuple[Stop, str] | None:
    """The section `stop`, and the metric of the scenario."""
    if facts.spec.stop is None:
        return None
    return facts.spec.stop, facts.spec.evaluate.metric


def _meters(setting: RunSetting) -> list[Meter]:
    if setting.planned is None:
        return []
    stop, score = setting.planned
    task = setting.program.task
    accurate = has_accuracy(task.classes, task.loss)
    return [Stopping(stop, deciding_metric(stop, score, accurate))]


def _notes(spec: Any) -> list[str]:
    """Noise that is made for rounds which may not be played."""
    if spec.stop is None or spec.privacy is None or spec.privacy.epsilon is None:
        return []
    text = f"noise is solved for privacy.epsilon after all {spec.rounds} rounds"
    return [f"{text}; a run that stop ends early spends less, with as much noise in each round"]


FIELD = Field(
    calculations=[unmeasured, uncounted],
    solved_last=[_fill_in_metric],
    planned=_planned,
    meters=_meters,
    notes=_notes,
    sections={"stop": {"stop": {"target": 0.9, "metric": "test_accuracy"}}},
)
