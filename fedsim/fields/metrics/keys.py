"""`evaluate.metrics`."""

from typing import Annotated, Any

from annotated_types import MinLen

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import AllowedKinds, ByForm

KINDS = AllowedKinds("metric")


class MetricKeys:
    """The key of `evaluate`."""

    metrics: Annotated[Annotated[list[Annotated[Any, KINDS]], MinLen(1)] | None, ByForm()] = None
    """What is measured besides, as `[auc, {kind: f1, average: macro}]`: columns `test_auc` and so
    on, `global_auc` in `clients.csv`, and `client_auc_mean` with `personal`. A kind that is listed
    several times has its parameters in its name, as `f1_macro`. By default nothing."""
    confusion: bool = False
    """Whether the test samples of each class are counted by what the final model takes them for, or
    each of several models: in `confusion.csv`, on the page and as a figure. Not of methods without
    a model that clients share."""


KEYS = [AddedKeys("evaluate", after="metric", keys=MetricKeys)]
