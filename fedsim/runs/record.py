"""The record of a run before it starts, and the part of it that determines every bit."""

import json
from collections.abc import Sequence
from typing import Any

from fedsim.assemble import Experiment
from fedsim.assemble.components import links_of, not_federated_of
from fedsim.disk.checkpoint import digest
from fedsim.installed import offered
from fedsim.runs.differences import without
from fedsim.runs.environment import numerical, surroundings
from fedsim.runs.filenames import label_of
from fedsim.scenario import Scenario
from fedsim.scenario.added import idle_sections
from fedsim.scenario.named_files import without_hashed_paths
from fedsim.scenario.plugins import plugin_links
from fedsim.scenario.recorded_paths import resolved_from, roots_of, written_texts
from fedsim.study.grid import Design
from fedsim.study.summary import NOT_FEDERATED

# Sections and keys of a scenario that a run may change when it resumes.
CHANGEABLE = ("title", "rounds", "checkpoint", "compare")


def record_of(experiment: Experiment, devices: list, supplied: Sequence[str]) -> dict[str, Any]:
    """The content of `run.json` before a run starts.

    Its `identity` determines every bit of the result.

    Args:
      supplied: `Given.names`.
    """
    scenario = experiment.scenario
    width = experiment.program.width

    fingerprints = {}
    for seed, plan in experiment.plans.items():
        fingerprints[str(seed)] = plan.federation.unpooled.fingerprint()
    data_hash = next(iter(fingerprints.values()))["data"]  # seeds share the samples
    partition_hashes = {seed: hashes["partition"] for seed, hashes in fingerprints.items()}
    start_hashes = {str(seed): digest(shared) for seed, shared in experiment.shared.items()}

    record = {
        **_common(scenario, devices, supplied),
        "method": experiment.method,
        "hashes": {
            "scenario": scenario.hash(),
            "data": data_hash,
            "partition": partition_hashes,
            "start": start_hashes,
        },
        "own_links": plugin_links(scenario.spec),
        "lanes": width.lanes,
        "block": width.block,
    }
    if experiment.client.not_federated:
        record[NOT_FEDERATED] = {experiment.method: experiment.client.not_federated}
    for entries in offered("RECORDED", "entries"):
        record |= entries(record["scenario"])
    return json.loads(json.dumps(record))


def record_of_comparison(design: Design, devices: list, supplied: Sequence[str]) -> dict[str, Any]:
    """The content of a comparison's `run.json` before it starts.

    Args:
      design: its grid, whose scenario has been resolved.
    """
    planned = {}
    halves: dict[str, dict[str, None]] = {}
    hashes = {}
    links = {}
    outside = {}
    for cell in design.cells:
        label = label_of(cell.key_columns)
        spec = cell.scenario.spec
        planned[label] = {"rounds": spec.rounds, "seeds": spec.seeds}
        halves.setdefault(cell.method, {})[_halves(spec)] = None
        hashes[label] = cell.scenario.hash()
        links |= plugin_links(spec)
        if not_federated := not_federated_of(spec):
            outside[cell.method] = not_federated
    record = {
        **_common(design.scenario, devices, supplied),
        "kind": "compare",
        "method": design.baseline,
        "baseline": design.baseline,
        "score": design.score,
        "cells": [cell.key_columns for cell in design.cells],
        "planned": planned,
        "halves": {method: " or ".join(texts) for method, texts in halves.items()},
        "hashes": {"scenario": design.scenario.hash(), "cells": hashes},
        "own_links": links,
    }
    if outside:
        record[NOT_FEDERATED] = outside
    return record


def _common(scenario: Scenario, devices: list, supplied: Sequence[str]) -> dict[str, Any]:
    common = {
        "status": "running",
        "scenario": resolved_from(scenario),
        "supplied": list(supplied),
        "environment": numerical(devices),
        "surroundings": surroundings(devices, roots_of(scenario.document)),
    }
    if scenario.document.texts:
        common["written"] = written_texts(scenario.document)
    return common


def _halves(spec: Any) -> str:
    """Client and server of a method, with the weights of its mean: `sgd → mean(uniform) → adam`."""
    if not_federated_of(spec):
        return "a baseline, not a federated method"
    names = [spec.client.kind]
    for path, link in links_of(spec):
        if path[0] in ("wire", *idle_sections(spec)):
            continue
        names.append(f"{link.kind}({link.weights})" if hasattr(link, "weights") else link.kind)
    return " → ".join(names)


def identity(record: dict[str, Any], seed: int | None = None) -> dict[str, Any]:
    """The part of a record that determines the bits of its runs, or of the run of one seed."""
    scenario = without(without_hashed_paths(record["scenario"]), *CHANGEABLE)
    scenario["data"] = without(scenario["data"], "resident_mb")
    hashes = without(record["hashes"], "scenario")
    if seed is not None:
        del scenario["seeds"]
        hashes = _hashes_of_seed(hashes, seed)

    determined = {
        "scenario": scenario,
        "hashes": hashes,
        "method": record["method"],
        "supplied": record["supplied"],
        "own_links": record["own_links"],
        "environment": record["environment"],
    }
    if "fork" in record:
        determined["fork"] = record["fork"]
    return determined


def _hashes_of_seed(hashes: dict[str, Any], seed: int) -> dict[str, Any]:
    """The hashes of one seed: its own where there is one for every seed, else the shared one."""
    chosen = {}
    for name, value in hashes.items():
        chosen[name] = value[str(seed)] if isinstance(value, dict) else value
    return {**chosen, "seed": seed}
