"""What parts of the model add to how a scenario is checked and built."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from fedsim.assemble.facts import Facts
from fedsim.assemble.plans import of_first_seed
from fedsim.engine.meters import Meter
from fedsim.field import Field, RunSetting, SeedSetting, ServerParts, ServerSetting
from fedsim.fields.parts import checks
from fedsim.fields.parts.checks import levels_of, ranks_of, widths_of
from fedsim.fields.parts.mean_of_parts import mean_of_parts
from fedsim.fields.parts.ranks import in_ranks
from fedsim.fields.parts.submodels import Widths, in_widths
from fedsim.fleet import Plan
from fedsim.fleet.plan import Conditions
from fedsim.types import Client, Model, Rule


class Parts(NamedTuple):
    """What decides which part of the model a client trains, as a key."""

    widths: Widths | None
    ranks: tuple[int, ...]


def _components(facts: Facts) -> None:
    facts.learn(levels=levels_of(facts.spec.client))


def _method(spec: Any, rule: Rule | None) -> Hashable:
    parts = Parts(widths_of(spec.client), ranks_of(spec.client))
    return None if parts == Parts(None, ()) else parts


def _client(method: Client, parts: Parts, model: Model) -> Client:
    if parts.widths is not None:
        method = in_widths(method, parts.widths, model.hidden)
    if parts.ranks and model.adapter is not None:
        method = in_ranks(method, parts.ranks, model.adapter)
    return method


def _server(spec: Any) -> Hashable:
    return spec.client.width is not None


def _serves(parts: ServerParts, has_widths: Any, setting: ServerSetting) -> ServerParts:
    """Take the mean of every number over those who train it."""
    return parts._replace(rule=mean_of_parts(parts.rule)) if has_widths else parts


def _planned(facts: Facts) -> Any:
    return facts.levels


def _conditions(conditions: Conditions, setting: SeedSetting) -> Conditions:
    return conditions._replace(levels=setting.planned)


class Sizes(Meter):
    """Tells the size of every client."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def of_clients(self, listed: np.ndarray) -> dict[str, list]:
        """Return `width` or `rank`."""
        levels = self.plan.levels
        assert levels is not None and self.plan.level is not None
        sizes = levels.of_clients(np.array(levels.sizes), self.plan.level)
        return {levels.name: sizes[listed].tolist()}


def _meters(setting: RunSetting) -> list[Meter]:
    return [] if setting.plan.levels is None else [Sizes(setting.plan)]


def _method_name(spec: Any, is_plain: bool) -> str | None:
    if not is_plain or spec.client.width is None:
        return None
    return "fedrolex" if spec.client.width.window == "rolling" else "heterofl"


def _forecast(experiment: Any, rounds: Sequence[Any]) -> dict[str, Any]:
    """Who trains and sends how much of the model, by size; nothing where all have all."""
    plan = of_first_seed(experiment.plans)
    if plan.levels is None or plan.level is None:
        return {}
    part = experiment.client.travel.part
    assert part is not None
    params = of_first_seed(experiment.shared)["params"]
    kept = np.sum(jax.tree.leaves(part.kept(params)), axis=0)
    parts = []
    for level, size in enumerate(plan.levels.sizes):
        clients = int((plan.level == level).sum())
        parts.append({plan.levels.name: size, "clients": clients, "trained": int(kept[level])})
    return {"parts": parts}


FIELD = Field(
    voices=[checks.parts_voice, checks.loss_voice],
    calculations=[
        checks.two_kinds_of_parts,
        checks.unknown_levels,
        checks.model_without_parts,
        checks.model_without_ranks,
    ],
    components=_components,
    solved_last=[checks.count_savings],
    method=_method,
    client=_client,
    server=_server,
    serves=_serves,
    planned=_planned,
    conditions=_conditions,
    meters=_meters,
    method_name=_method_name,
    sections={
        "client.rank": {"client": {"rank": {"ranks": [2, 1]}}},
        "client.width": {"client": {"width": {"widths": [1, 0.5]}}},
    },
    forecast=_forecast,
)
