"""What the runs of a comparison were dealt, in the terms of the resolved scenario: as a single run has it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble.federation import resolved_data
from fedsim.assemble.model import model_section
from fedsim.runs.sweep import Partition, data_key
from fedsim.scenario import Scenario
from fedsim.study.grid import Cell, Design


class Dealt(NamedTuple):
    """Sections of a configuration, with everything filled in that its samples decide."""

    data: Any
    model: Any


def with_dealt(design: Design, partition: Partition) -> Design:
    """The comparison, with the sections `data` and `model` of its scenario as all of its configurations have them.

    Where configurations differ, keys on which they agree are filled in, and the others stay as they are written; a
    number of clients that nobody wrote and that differs is left open.

    Args:
      design: of the comparison.
      partition: deals out the samples of a scenario.
    """
    dealt = _dealt(design.cells, partition)
    if not dealt:
        return design
    spec = design.scenario.spec
    values = _agreed([one.data for one in dealt])
    if "clients" not in values and "clients" not in spec.data.model_fields_set:
        values["clients"] = None
    known = {name: value for name, value in values.items() if hasattr(spec.data, name)}
    models = [one.model for one in dealt]
    model = models[0] if all(one == models[0] for one in models) else spec.model
    spec = spec.model_copy(update={"data": spec.data.model_copy(update=known), "model": model})
    return design._replace(scenario=design.scenario._replace(spec=spec))


def _dealt(cells: Sequence[Cell], partition: Partition) -> list[Dealt]:
    """The sections of all configurations, equal ones once; of one that cannot be run there are none: it fails later.

    The first configuration comes last, under all of its seeds: `partition` has it at hand when the runs begin.
    """
    first = cells[0].scenario
    distinct = {_key(cell.scenario): cell.scenario for cell in reversed(cells)}
    dealt = []
    for scenario in reversed([first, *(one for one in distinct.values() if one is not first)]):
        seeds = (
            scenario.spec.seeds
            if data_key(scenario) == data_key(first)
            else scenario.spec.seeds[:1]
        )
        asked = scenario._replace(spec=scenario.spec.model_copy(update={"seeds": seeds}))
        try:
            federations = partition(asked, None, np.dtype(scenario.spec.numerics.dtype))
            federation = next(iter(federations.values()))
            dealt.append(
                Dealt(
                    resolved_data(scenario, None, federation), model_section(scenario, federation)
                )
            )
        except Exception:
            continue
    return dealt


def _key(scenario: Scenario) -> str:
    """Equal where two configurations have the same sections `data` and `model`."""
    model = scenario.spec.model
    return f"{data_key(scenario)} {model!r} {'model' in scenario.spec.model_fields_set}"


def _agreed(sections: Sequence[Any]) -> dict[str, Any]:
    """Keys that all sections have with one value."""
    agreed = {}
    for name in type(sections[0]).model_fields:
        values = [getattr(section, name, None) for section in sections]
        if all(value == values[0] for value in values):
            agreed[name] = values[0]
    return agreed
