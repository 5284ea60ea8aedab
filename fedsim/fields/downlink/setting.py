"""The codec of the broadcast in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.report.page.setting import Step
from fedsim.study.words import call_of


def before_wire(scenario: Mapping[str, Any]) -> list[Step]:
    """Return the codec of a scenario as it is written."""
    links = scenario.get("broadcast")
    return [("broadcast", call_of(links[0]))] if links else []
