"""A sweep: one scenario with several values of one key, and all rows in one frame.

    python scenarios/python/sweep.py

Cohorts, batches and start models depend only on the seed, so only the value differs.
"""

import pandas as pd

import fedsim

ALPHAS = (0.05, 0.3, 100.0)


def sweep(alphas: tuple[float, ...] = ALPHAS, rounds: int = 20) -> pd.DataFrame:
    """Return one row per alpha, seed and evaluated round."""
    frames = []
    for alpha in alphas:
        edits = [f"data.partition.alpha={alpha}", f"rounds={rounds}", "evaluate.every=5"]
        result = fedsim.run("scenarios/dirichlet.yaml", seeds=3, edits=edits)
        frames.append(result.rounds.assign(alpha=alpha))
    return pd.concat(frames, ignore_index=True)


def main() -> None:
    rows = sweep()
    print(rows.pivot_table(index="round", columns="alpha", values="test_accuracy").round(3))
    last = rows[rows["round"] == rows["round"].max()]
    print(last.groupby("alpha")["test_accuracy"].agg(["mean", "std", "count"]).round(3))


if __name__ == "__main__":
    main()
