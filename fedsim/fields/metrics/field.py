"""What metrics add to how a scenario is checked and built."""

from collections.abc import Sequence
from typing import Any

from fedsim.engine.scoring.rows import Measures
from fedsim.field import Field
from fedsim.fields.metrics.checks import foreign_confusion, foreign_metrics, unmeasured_metric
from fedsim.fields.metrics.measured import measures_of


def _measures(spec: Any, labels: Sequence[Any]) -> Measures | None:
    sections = spec.evaluate.metrics
    if sections is None and not spec.evaluate.confusion:
        return None
    return measures_of(sections or (), labels)


FIELD = Field(
    calculations=[foreign_metrics, unmeasured_metric, foreign_confusion],
    measures=_measures,
    sections={
        "evaluate.metrics": {"evaluate": {"metrics": ["auc"]}},
        "evaluate.confusion": {"evaluate": {"confusion": True}},
    },
)
