"""Rounds of a scenario, by fedsim and by other libraries: same samples, cohorts, batches, start.

Each runs in a process of its own, in turn, and scores the test set every round. The first third of
the rounds is not counted.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.disk.checkpoint import leaves_by_name
from fedsim.errors import Problem, ScenarioError
from fedsim.scenario import Scenario, read
from fedsim.sources.arrays import is_per_token
from fedsim.tools.bench.baselines import cohort
from fedsim.tools.bench.peers import FOREIGN, TOOLS, Peer, answer_of
from fedsim.tools.bench.timing import TRIALS, Announce, spread
from fedsim.tree import Tree

MOST_ROUNDS = 12
OURS = """
import json, sys, fedsim
result = fedsim.run(sys.argv[1], edits=json.loads(sys.argv[2]))
seconds = result.timing["wall_seconds"].diff().dropna().tolist()
accuracy = float(result.rounds["test_accuracy"].iloc[-1])
print(json.dumps({"seconds": seconds, "accuracy": accuracy}))
"""


class Way(NamedTuple):
    """One way to play the rounds."""

    how: str
    version: str | None
    command: list[str]  # its last line is the seconds of every round and the last accuracy


def players(scenario: Scenario, file: str, peers: Sequence[Peer]) -> list[Peer]:
    """Return the peers that play rounds, without those that do not have the scenario's model.

    Raises:
      ScenarioError: for a model that none of them has.
    """
    tools = [peer for peer in peers if TOOLS[peer.tool].rounds]
    kind = scenario.spec.model.kind
    having = [peer for peer in tools if kind in TOOLS[peer.tool].models]
    if tools and not having:
        known = dict.fromkeys(model for peer in tools for model in TOOLS[peer.tool].models)
        names = ", ".join(peer.tool for peer in tools)
        text = f"{names} play {', '.join(known)}; bench {kind} without --peers"
        raise ScenarioError([Problem("model.kind", text)], file)

    if getattr(scenario.spec.model, "norm", None) == "batch":
        text = "other libraries play norm: group or none; bench others without --peers"
        raise ScenarioError([Problem("model.norm", text)], file)
    return having


def bench_rounds(
    file: str, edits: tuple[str, ...], peers: Sequence[Peer], announce: Announce
) -> Iterator[dict[str, Any]]:
    """Measure the first rounds of a scenario of plain local SGD and `mean`.

    Yields:
      a record for fedsim, then one for every way of every peer.
    """
    scenario = read(file, edits)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rounds.npz"
        rounds = min(scenario.spec.rounds, MOST_ROUNDS)
        seed = write_rounds(scenario, rounds, path)
        own_edits = [*edits, f"rounds={rounds}", f"seeds=[{seed}]", "evaluate.clients=0"]
        ways = _ways(file, own_edits, peers, path)
        played: dict[str, list[dict[str, Any]]] = {way.how: [] for way in ways}
        for _ in range(TRIALS):
            for way in ways:
                announce(f"{scenario.spec.name}: {way.how}, in a process of its own")
                played[way.how].append(answer_of(way.how, way.command))

    ours = None
    for way in ways:
        seconds = spread([_steady(one["seconds"]) for one in played[way.how]])
        record = {"workload": scenario.spec.name, "how": way.how, **seconds}
        if ours is None:
            ours = seconds["seconds"]
        else:
            record |= {"version": way.version, "times_lanes": seconds["seconds"] / ours}
        yield {**record, "final_accuracy": played[way.how][0]["accuracy"]}


def write_rounds(scenario: Scenario, rounds: int, path: Path) -> int:
    """Write the samples, cohorts, batches and start that everyone has -> the seed they are of."""
    with numerics(scenario) as devices:
        experiment = build(scenario, devices=devices)
        seed, plan = next(iter(experiment.plans.items()))
        program = experiment.program
        played = range(1, rounds + 1)
        T = max(int(plan.round(r)[0].steps.max()) for r in played)
        cohorts = [cohort(plan, r, T, plan.batch_rows, program.dtype) for r in played]
        per_token = is_per_token(plan.federation.train.y)
        model = {**scenario.spec.model.model_dump(mode="json"), "per_token": per_token}
        arrays = {
            "model": np.asarray(json.dumps(model)),
            "lr": np.asarray(scenario.spec.client.lr),
            "x": plan.federation.train.x,
            "y": plan.federation.train.y,
            "x_test": plan.federation.test.x,
            "y_test": plan.federation.test.y,
        }
        for field in ("index", "valid", "weight"):
            arrays[field] = np.stack([getattr(c, field) for c in cohorts])
        start = by_path(experiment.shared[seed]["params"])
        arrays |= {f"params/{place}": leaf for place, leaf in start.items()}
        np.savez(path, **arrays)
    return seed


def by_path(params: Tree) -> dict[str, np.ndarray]:
    """Return parameters by the names of layer and leaf, `hidden/W`."""
    leaves = leaves_by_name("", params)  # ['hidden']['W']
    return {name[2:-2].replace("']['", "/"): leaf for name, leaf in leaves.items()}


def _ways(file: str, edits: list[str], peers: Sequence[Peer], path: Path) -> list[Way]:
    """Every way to play the rounds, ours first."""
    our_command = [sys.executable, "-c", OURS, file, json.dumps(edits)]
    ways = [Way("fedsim, whole process", None, our_command)]
    for peer in peers:
        tool = TOOLS[peer.tool]
        for way in tool.ways:
            command = [peer.python, str(FOREIGN / tool.rounds), str(path), way]
            ways.append(Way(f"{peer.tool} {way}", peer.version, command))
    return ways


def _steady(seconds: list[float]) -> float:
    return statistics.median(seconds[len(seconds) // 3 :])
