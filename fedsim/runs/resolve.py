"""The resolved scenario of a comparison: what samples decide is filled in, as in a single run."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fedsim.assemble.federation import resolved_data
from fedsim.assemble.model import model_section
from fedsim.assemble.weights import resolved_model
from fedsim.runs.sweep import Partitioner, data_key
from fedsim.scenario import Scenario
from fedsim.study.grid import Cell, Design
from fedsim.study.summary import OWN


def resolve_design(design: Design, partition: Partitioner, data: Any = None) -> Design:
    """Fill the sections `data` and `model` of a comparison's scenario in.

    Where configurations differ, keys on which they agree are filled in, and the others stay as they
    are written; a number of clients that nobody wrote and that differs is left open.
    """
    resolved = _resolved_sections(design.cells, partition, data)
    if not resolved:
        return design
    spec = design.scenario.spec

    agreed = _agreed([section for section, _ in resolved])
    if "clients" not in agreed and "clients" not in spec.data.model_fields_set:
        agreed["clients"] = None
    filled_in = {name: value for name, value in agreed.items() if hasattr(spec.data, name)}

    models = [model for _, model in resolved]
    model = spec.model
    if all(other == models[0] for other in models):
        model = models[0]

    data = spec.data.model_copy(update=filled_in)
    spec = spec.model_copy(update={"data": data, "model": model})
    return design._replace(scenario=design.scenario._replace(spec=spec))


def demand_own_samples(design: Design, partition: Partitioner, data: Any) -> None:
    """Refuse a comparison on the clients' own test samples if no client that trains has any."""
    if design.score == OWN and not has_own_samples(design, partition, data):
        text = "clients keep no test samples of their own, on which own compares methods"
        raise design.scenario.error(("compare", "score"), f"{text}; set data.client_test=0.2")


def has_own_samples(design: Design, partition: Partitioner, data: Any) -> bool:
    """Whether any client that trains has test samples of its own; arguments as above."""
    scenario = design.cells[0].scenario
    federations = partition(scenario, data, np.dtype(scenario.spec.numerics.dtype))
    return next(iter(federations.values())).tests_own


def _resolved_sections(
    cells: Sequence[Cell], partition: Partitioner, data: Any
) -> list[tuple[Any, Any]]:
    """The resolved sections `data` and `model` of all configurations, equal ones once.

    A configuration that cannot be run has none: it fails later. The first one comes last, under all
    of its seeds: then `partition` still has its federations when the runs start.
    """
    first = cells[0].scenario
    distinct = {_key(cell.scenario): cell.scenario for cell in reversed(cells)}
    del distinct[_key(first)]

    resolved = []
    for scenario in [*reversed(distinct.values()), first]:
        seeds = scenario.spec.seeds
        if data_key(scenario) != data_key(first):
            seeds = seeds[:1]
        under_seeds = scenario._replace(spec=scenario.spec.model_copy(update={"seeds": seeds}))
        try:
            federations = partition(under_seeds, data, np.dtype(scenario.spec.numerics.dtype))
            federation = next(iter(federations.values()))
            data_section = resolved_data(scenario, data, federation)
            model = resolved_model(scenario, model_section(scenario, federation))
        except Exception:
            continue
        resolved.append((data_section, model))
    return resolved


def _key(scenario: Scenario) -> str:
    """Equal where two configurations have the same sections `data` and `model`."""
    model = scenario.spec.model
    return f"{data_key(scenario)} {model!r} {'model' in scenario.spec.model_fields_set}"


def _agreed(sections: Sequence[Any]) -> dict[str, Any]:
    """The keys for which all sections have the same value."""
    agreed = {}
    for name in type(sections[0]).model_fields:
        values = [getattr(section, name, None) for section in sections]
        if all(value == values[0] for value in values):
            agreed[name] = values[0]
    return agreed
