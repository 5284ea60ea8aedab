"""Scenarios that are checked and built, and not run."""

from typing import Any

from fedsim.assemble import Experiment, build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.forecast import forecast
from fedsim.scenario import read


def built(written: Any, *edits: str) -> Experiment:
    """The experiment of a path, a dictionary, or a `Scenario`."""
    scenario = read(written, edits)
    with numerics(scenario) as devices:
        return build(scenario, devices=devices[:1])


def foretold(written: Any, *edits: str) -> dict[str, Any]:
    """What `check` says of the cost of a run, and its notes."""
    return forecast(built(written, *edits))
