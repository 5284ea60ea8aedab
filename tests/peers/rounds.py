"""Seconds of a round of W1 to W3, ours and other tools', in turn, on the same inputs.

Samples, cohorts, batches and start model are the same for every tool. By hand, on a quiet machine,
with a Python for every tool that is measured (none of them needs fedsim):

    python tests/peers/rounds.py --peer torch=A/bin/python --peer fedjax=B/bin/python

It prints medians and ratios and writes them to `reports/bench/peers.csv`. Every tool runs in its
own process and evaluates the test set every round; the first third of the rounds is not counted.
"""

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import click
import numpy as np
import pandas as pd

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.bench.baselines import cohort
from fedsim.disk.checkpoint import leaves_by_name
from fedsim.scenario import read

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ROUNDS = {"w1": 12, "w2": 30, "w3": 4}
OURS = """
import json, sys, fedsim
result = fedsim.run(sys.argv[1], edits=[f"rounds={sys.argv[2]}", "evaluate.clients=0"])
seconds = result.timing["wall_seconds"].diff().dropna().tolist()
score = float(result.rounds["test_accuracy"].iloc[-1])
print(json.dumps({"tool": f"fedsim {fedsim.__version__}", "seconds": seconds, "accuracy": score}))
"""


def export(workload: str, path: Path) -> None:
    """What every tool trains on."""
    scenario = read(str(ROOT / f"scenarios/bench/{workload}.yaml"), (f"rounds={ROUNDS[workload]}",))
    with numerics(scenario) as devices:
        experiment = build(scenario, devices=devices)
        (seed, plan), room = next(iter(experiment.plans.items())), experiment.program.capacity
        rounds = range(1, ROUNDS[workload] + 1)
        T = max(int(plan.round(r)[0].steps.max()) for r in rounds)
        cohorts = [cohort(plan, r, T, room.batch, experiment.program.dtype) for r in rounds]
        f, start = plan.federation, experiment.shared[seed]["params"]
        slashed = lambda name: name.replace("']['", "/").replace("['", "/").removesuffix("']")
        arrays = {slashed(name): leaf for name, leaf in leaves_by_name("params", start).items()}
        stacked = {
            name: np.stack([getattr(c, name) for c in cohorts])
            for name in ("index", "valid", "weight")
        }
        np.savez(
            path,
            x=f.train.x,
            y=f.train.y,
            x_test=f.test.x,
            y_test=f.test.y,
            lr=scenario.spec.client.lr,
            **stacked,
            **arrays,
        )


def steady(seconds: list[float]) -> float:
    return statistics.median(seconds[len(seconds) // 3 :])


WAYS = {  # tool -> the file that runs it, and the ways to run it
    "torch": ("torch_rounds.py", ("loop", "processes")),
    "fedjax": ("fedjax_rounds.py", ("jit",)),
    "flower": ("flower_rounds.py", ("ray",)),
}


def commands(workload: str, data: Path, peers: dict[str, str]) -> dict[str, list[str]]:
    """Name of a way to run the workload -> the command that does."""
    scenario = str(ROOT / f"scenarios/bench/{workload}.yaml")
    result = {"lanes": [sys.executable, "-c", OURS, scenario, str(ROUNDS[workload])]}
    for tool, python in peers.items():
        file, ways = WAYS[tool]
        for way in ways:
            result[f"{tool} {way}"] = [python, str(HERE / file), str(data), way]
    return result


def measure(command: list[str]) -> dict:
    """What one process printed last: its tool, the seconds of its rounds, and its accuracy."""
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def row_of(workload: str, way: str, measured: list[dict], lanes: list[dict]) -> dict:
    """A row of `peers.csv`; the ratio is the median over pairs of neighbouring processes."""
    seconds = [steady(one["seconds"]) for one in measured]
    ratios = [s / steady(base["seconds"]) for s, base in zip(seconds, lanes, strict=True)]
    return {
        "workload": workload,
        "tool": measured[0]["tool"],
        "how": way,
        "seconds": statistics.median(seconds),
        "least": min(seconds),
        "most": max(seconds),
        "times_lanes": statistics.median(ratios),
        "accuracy": measured[0]["accuracy"],
    }


@click.command()
@click.option("--peer", "peers", multiple=True, help="TOOL=PYTHON, a Python that has the tool.")
@click.option("--times", default=5)
@click.option("--out", default=str(ROOT / "reports/bench/peers.csv"))
@click.argument("workloads", nargs=-1)
def main(peers: tuple[str, ...], times: int, out: str, workloads: tuple[str, ...]) -> None:
    """Measure the tools in turn, `times` times."""
    pythons = dict(peer.split("=", 1) for peer in peers)
    rows = []
    for workload in workloads or ROUNDS:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "workload.npz"
            export(workload, data)
            ways = commands(workload, data, pythons)
            measured: dict[str, list[dict]] = {way: [] for way in ways}
            for _ in range(times):
                for way, command in ways.items():
                    measured[way].append(measure(command))

        for way, several in measured.items():
            row = row_of(workload, way, several, measured["lanes"])
            rows.append(row)
            texts = [f"{n} {v:.4g}" if isinstance(v, float) else v for n, v in row.items()]
            click.echo("  ".join(texts))
    pd.DataFrame(rows).to_csv(out, index=False)


if __name__ == "__main__":
    main()
