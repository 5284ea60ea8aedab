"""Attacks on data in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.report.page.setting import Step
from fedsim.study.words import call_of


def after_data(scenario: Mapping[str, Any]) -> list[Step]:
    """Return the attacks on data of a scenario as they are written."""
    poisons = scenario["data"].get("attack")
    return [("attack on data", call_of(poisons))] if poisons else []
