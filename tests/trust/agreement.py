"""Row 19: other environments against this one, by means over seeds, as in MLPerf."""

import hashlib
import json

import numpy as np
from scipy import stats

from trust import in_process
from trust.table import Figure

PARTITION = {"kind": "dirichlet", "alpha": 0.3}
BASE = {
    "name": "agreement",
    "rounds": 30,
    "data": {"kind": "digits", "clients": 50, "partition": PARTITION, "test": 0.4},
    "model": {"kind": "mlp", "hidden": [32]},
    "cohort": {"kind": "uniform", "size": 10},
    "client": {"lr": 0.1, "batch": 16, "epochs": 2},
    "evaluate": {"every": 30},
    "numerics": {"threads": 4},
}
HERE = "float32, lanes auto"
WITHIN = 0.5  # points of accuracy
COUNTED = ("round", "clients_sampled", "clients_reported", "n_nonfinite", "skipped")
ELSEWHERE = {
    "float64": {"numerics": {"threads": 4, "dtype": "float64"}},
    "lanes 1": {"numerics": {"threads": 4, "lanes": 1}},
    "lanes 3": {"numerics": {"threads": 4, "lanes": 3}},
    "one thread": {"numerics": {"threads": 1}},
    "no fused multiply-add, SSE4.2": {"flags": "--xla_cpu_max_isa=SSE4_2"},
}


def start(seed: int) -> dict:
    """A start model that no version of JAX has drawn: another float type would draw another one."""
    rng = np.random.default_rng(seed)
    layer = lambda fan_in, fan_out: {
        "W": rng.uniform(-1, 1, (fan_in, fan_out)) / np.sqrt(fan_in),
        "b": np.zeros(fan_out),
    }
    return {"layer0": layer(64, 32), "layer1": layer(32, 10)}


def measured(sections: dict, seeds: int) -> dict:
    """Return final accuracies in points, models, and a hash of all draws; runs in a process."""
    import jax

    import fedsim

    integers, accuracies, models = hashlib.sha256(), [], []
    dtype = sections.get("numerics", {}).get("dtype", "float32")
    for seed in range(seeds):
        params = jax.tree.map(lambda leaf: leaf.astype(np.float32).astype(dtype), start(seed))
        result = fedsim.run({**BASE, **sections}, seeds=[seed], params=params)
        plan = result.experiment.plans[seed]
        for r in range(1, BASE["rounds"] + 1):
            ids = plan.round(r)[0].ids
            integers.update(ids.tobytes())
            for client in ids.tolist():
                for array in plan.work.batches(r, client):
                    integers.update(array.tobytes())
        for table in (result.partition, result.rounds[list(COUNTED)]):
            integers.update(table.to_csv(index=False).encode())
        accuracies.append(100 * float(result.summary["final"].iloc[0]))
        leaves = [leaf.ravel() for leaf in jax.tree.leaves(result.model())]
        models.append(np.concatenate(leaves).astype(float).tolist())
    found = {"accuracy": accuracies, "models": models, "integers": integers.hexdigest()}
    return {"jax": jax.__version__, **found}


def elsewhere(sections: dict, seeds: int) -> dict:
    """Call `measured` in its own process."""
    code = "import sys, json\nfrom trust.agreement import measured\n"
    code += "print(json.dumps(measured(json.loads(sys.argv[1]), int(sys.argv[2]))))"
    flags = sections.pop("flags", "")
    return in_process(code, json.dumps(sections), str(seeds), XLA_FLAGS=flags)


def compared(quick: bool) -> Figure:
    """Differences of the means over the same seeds, with 95 % intervals by Student's t."""
    seeds = 2 if quick else 10
    here = elsewhere({}, seeds)
    lines, met = [], True
    for name, sections in list(ELSEWHERE.items())[: 1 if quick else None]:
        other = elsewhere(dict(sections), seeds)
        gaps = np.subtract(other["accuracy"], here["accuracy"])
        half = float(stats.t.ppf(0.975, seeds - 1) * gaps.std(ddof=1) / np.sqrt(seeds))
        low, high = gaps.mean() - half, gaps.mean() + half
        same = other["integers"] == here["integers"]
        models = np.array(here["models"])
        distances = np.linalg.norm(np.subtract(other["models"], models), axis=1)
        apart = np.max(distances / np.linalg.norm(models, axis=1))
        met &= same and (quick or (-WITHIN <= low and high <= WITHIN))
        integers = "" if same else ", INTEGERS DIFFER"
        interval = f"{low:+.2f} to {high:+.2f} points"
        lines.append(f"{name} {interval} (models {apart:.1g} apart){integers}")
        print(f"  {lines[-1]}", flush=True)
    mean = np.mean(here["accuracy"])
    text = (
        f"{seeds} seeds x 30 rounds, against {HERE}, jax {here['jax']} (mean {mean:.2f} %): 95 % "
        f"interval of the paired difference: {'; '.join(lines)}; "
        "cohorts, batches, partitions and counts equal in "
        f"{sum('DIFFER' not in line for line in lines)} of {len(lines)}"
    )
    return Figure(text, met)
