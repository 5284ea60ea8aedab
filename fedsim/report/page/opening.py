"""Along which axis the curves of the page open: that of the headline."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.results import Row
from fedsim.study.cost_axes import BYTES, TIME, is_about_cost, timed
from fedsim.study.costs import comparison_groups, differing_way

ROUNDS = "round"
SECONDS = "seconds"
OF_WAYS = {"up": "up", "down": "down"}  # any other way is both directions together
TITLES = {
    ROUNDS: "rounds",
    "bytes": "bytes sent, both ways",
    "up": "bytes up",
    "down": "bytes down",
    SECONDS: "virtual seconds",
}


def opening_axis(
    scenario: Mapping[str, Any], rounds: pd.DataFrame | None, spent: Sequence[Row]
) -> str:
    """The axis of the headline: bytes where codecs are compared, seconds under a fleet, or rounds.

    Args:
      spent: rows of `bytes.csv`, which say in which direction methods differ.
    """
    if rounds is None:
        return ROUNDS
    if is_about_cost(BYTES, scenario) and _counted(rounds, "bytes_up"):
        return _direction(spent)
    if (is_about_cost(TIME, scenario) or timed(scenario)) and _counted(rounds, "virtual_seconds"):
        return SECONDS
    return ROUNDS


def _direction(spent: Sequence[Row]) -> str:
    ways = {differing_way(BYTES, group) for group in comparison_groups(BYTES, spent).values()}
    if len(ways) != 1:
        return "bytes"
    return OF_WAYS.get(ways.pop(), "bytes")


def _counted(rounds: pd.DataFrame, column: str) -> bool:
    return column in rounds and bool(rounds[column].notna().any())
