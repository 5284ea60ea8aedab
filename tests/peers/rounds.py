"""Seconds of a round of W1 to W3, ours and by hand in PyTorch, alternately, on the same inputs.

Samples, cohorts, batches and start model are the same on both sides.

By hand, on a quiet machine, with a Python that has torch and NumPy (need not have fedsim):

    python tests/peers/rounds.py --peer OTHER/bin/python --times 5

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


@click.command()
@click.option("--peer", required=True, help="A Python that has torch and NumPy.")
@click.option("--times", default=5)
@click.option("--out", default=str(ROOT / "reports/bench/peers.csv"))
@click.argument("workloads", nargs=-1)
def main(peer: str, times: int, out: str, workloads: tuple[str, ...]) -> None:
    """Measure, one tool after another, so often."""
    rows = []
    for workload in workloads or ROUNDS:
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "workload.npz"
            export(workload, data)
            ours = [
                sys.executable,
                "-c",
                OURS,
                str(ROOT / f"scenarios/bench/{workload}.yaml"),
                str(ROUNDS[workload]),
            ]
            theirs = [
                [peer, str(HERE / "torch_rounds.py"), str(data), how]
                for how in ("loop", "processes")
            ]
            commands = {"lanes": ours, "loop": theirs[0], "2 processes": theirs[1]}
            measured: dict[str, list[dict]] = {how: [] for how in commands}
            for _ in range(times):
                for how, command in commands.items():
                    done = subprocess.run(command, capture_output=True, text=True, check=True)
                    measured[how].append(json.loads(done.stdout.splitlines()[-1]))
        base = [steady(one["seconds"]) for one in measured["lanes"]]
        for how, several in measured.items():
            seconds = [steady(one["seconds"]) for one in several]
            ratio = statistics.median(s / b for s, b in zip(seconds, base, strict=True))
            row = {
                "workload": workload,
                "tool": several[0]["tool"],
                "how": how,
                "seconds": statistics.median(seconds),
            }
            row |= {
                "least": min(seconds),
                "most": max(seconds),
                "times_lanes": ratio,
                "accuracy": several[0]["accuracy"],
            }
            rows.append(row)
            click.echo(
                "  ".join(
                    f"{name} {value:.4g}" if isinstance(value, float) else value
                    for name, value in row.items()
                )
            )
    pd.DataFrame(rows).to_csv(out, index=False)


if __name__ == "__main__":
    main()
