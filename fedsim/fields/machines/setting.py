"""Machines in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.report.page.setting import Step
from fedsim.study.words import call_of


def after_cohort(scenario: Mapping[str, Any]) -> list[Step]:
    """Return speed, links and the like; nothing where clients are not modelled as machines."""
    fleet = scenario.get("fleet") or {}
    texts = []
    for name in ("speed", "links", "availability"):
        if fleet.get(name):
            texts.append(f"{name} {call_of(fleet[name])}")

    dropout = fleet.get("dropout") or 0.0
    if isinstance(dropout, Mapping):
        for when, share in dropout.items():
            if share:
                texts.append(f"dropout {when} {share:g}")
    elif dropout:
        texts.append(f"dropout {dropout:g}")

    if fleet.get("deadline") is not None:
        texts.append(f"deadline {fleet['deadline']:g} s")
        if fleet.get("partial_work"):
            texts.append("partial work")
    if fleet.get("energy"):
        texts.append(_energy(fleet["energy"]))
    factor = fleet.get("over_select") or 1.0
    if factor != 1:
        texts.append(f"over-selection {factor:g}")
    return [("machines", ", ".join(texts))] if texts else []


def _energy(section: Mapping[str, Any]) -> str:
    """Joules of a step and of a byte, or that clients differ in them."""
    per_step = section["per_step"]
    per_byte = section["per_byte"]
    if section.get("path") or isinstance(per_step, list) or isinstance(per_byte, list):
        return "energy by client"
    return f"{per_step:g} J a step, {per_byte:g} J a byte"
