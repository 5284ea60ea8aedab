"""The record of a run before it starts, and the part of it that decides every bit."""

import json
from collections.abc import Sequence
from typing import Any

from fedsim.assemble import Experiment
from fedsim.disk.checkpoint import digest
from fedsim.runs.changes import version_of_values
from fedsim.runs.environment import numerical, surroundings
from fedsim.runs.journal import CHANGEABLE
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.places import resolved_from, roots_of
from fedsim.scenario.plugins import own_links


def record_of(experiment: Experiment, devices: list, supplied: Sequence[str]) -> dict[str, Any]:
    """The content of `run.json` before a run starts; its `identity` determines every bit of the result."""
    hashes = {seed: plan.federation.fingerprint() for seed, plan in experiment.plans.items()}
    width = experiment.program.width
    record = {
        "status": "running",
        "scenario": resolved_from(experiment.scenario),
        "method": experiment.method,
        "hashes": {
            "scenario": experiment.scenario.hash(),
            "data": next(iter(hashes.values()))["data"],
            "partition": {str(seed): h["partition"] for seed, h in hashes.items()},
            "start": {str(seed): digest(shared) for seed, shared in experiment.shared.items()},
        },
        "supplied": sorted(
            supplied
        ),  # what a Python program must hand over again to repeat the run
        "own_links": own_links(experiment.scenario.spec),
        "lanes": width.lanes,
        "block": width.block,
        "environment": numerical(devices),
        "surroundings": surroundings(devices, roots_of(experiment.scenario.document)),
    }
    return json.loads(json.dumps(record))


def identity(record: dict[str, Any], seed: int | None = None) -> dict[str, Any]:
    """The part of a record that determines the bits of its runs, or of one seed's run.

    In place of the version of fedsim it has the one since which the scenario has had its values (`changes`).
    """
    kept = ("method", "supplied", "own_links")
    scenario = {
        name: value
        for name, value in without_hashed_paths(record["scenario"]).items()
        if name not in CHANGEABLE
    }
    scenario["data"] = {
        name: value for name, value in scenario["data"].items() if name != "resident_mb"
    }
    hashes = {name: value for name, value in record["hashes"].items() if name != "scenario"}
    if seed is not None:
        scenario.pop("seeds")
        hashes = {
            name: h[str(seed)] if isinstance(h, dict) else h for name, h in hashes.items()
        } | {"seed": seed}
    environment = dict(record["environment"])
    if "fedsim" in environment:
        environment["fedsim"] = version_of_values(scenario, str(environment["fedsim"]))
    parts = {name: record[name] for name in kept}
    return {"scenario": scenario, "hashes": hashes, **parts, "environment": environment}
