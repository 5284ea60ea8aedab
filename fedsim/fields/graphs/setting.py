"""A topology in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.fields.graphs.keys import TopologyCommon
from fedsim.report.page.setting import Step
from fedsim.study.words import call_of


def after_model(scenario: Mapping[str, Any]) -> list[Step]:
    """Return the topology of a scenario as it is written."""
    topology = scenario.get("topology")
    return [("topology", topology_call(topology))] if topology else []


def topology_call(topology: Mapping[str, Any]) -> str:
    """A topology as a call, `ring(fail=0.1)`, without keys that have their defaults."""
    common = TopologyCommon.model_fields
    shown = {}
    for name, value in topology.items():
        if name in common and value == common[name].default:
            continue
        shown[name] = call_of(value) if _is_chain(value) else value
    return call_of(shown)


def _is_chain(value: Any) -> bool:
    """Whether a value is a list of edges."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)
