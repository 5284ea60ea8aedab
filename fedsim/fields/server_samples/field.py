"""What samples of the server add to how a scenario is checked and built."""

import functools
from collections.abc import Sequence
from typing import Any

from fedsim.assemble.plans import of_first_seed
from fedsim.assemble.programs import MAX_CACHED, TrainingInputs, training
from fedsim.clients import sgd
from fedsim.engine.lanes import Lanes
from fedsim.engine.mesh import mesh
from fedsim.field import Field, ProgramSetting
from fedsim.fields.server_samples.checks import unread_samples
from fedsim.fields.server_samples.training import server_plan
from fedsim.fields.server_samples.work import Work
from fedsim.types import Travel


def _held_back(data: Any) -> int:
    return data.server.samples


def _own_work(setting: ProgramSetting) -> Work | None:
    needs = setting.server.pipeline.rule.needs
    trains = "reference" in needs
    scores = "server_loss" in needs
    if not trains and not scores:
        return None
    return Work(mesh(_lanes(setting.inputs)) if trains else None, scores)


@functools.lru_cache(MAX_CACHED)
def _lanes(inputs: TrainingInputs) -> Lanes:
    """The program of the server's own training."""
    trained = training(inputs)
    method = sgd()._replace(travel=Travel(shares=trained.client.travel.shares))
    return Lanes(method, trained.lanes.task)


def _forecast(experiment: Any, rounds: Sequence[Any]) -> dict[str, Any]:
    """The steps that the server takes in a round."""
    work = experiment.program.own_work
    if not isinstance(work, Work) or work.mesh is None:
        return {}
    plan = of_first_seed(experiment.plans)
    return {"server_steps": int(server_plan(plan).steps[0])}


FIELD = Field(
    calculations=[unread_samples],
    held_back=_held_back,
    own_work=_own_work,
    forecast=_forecast,
)
