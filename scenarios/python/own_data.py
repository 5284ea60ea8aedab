"""Your own arrays, with one id per row that says whose row it is: the ids are the partition.

    python scenarios/python/own_data.py

Twenty hospitals measure the same four things, each with instruments that are off by an amount of its own.
"""

import numpy as np

import fedsim

SCENARIO = {
    "name": "hospitals",
    "rounds": 20,
    "seeds": 3,
    "data": {
        "test": 0.25
    },  # a quarter of the rows is kept to test on, unless the arrays bring x_test and y_test
    "model": "logistic",
    "cohort": {"kind": "uniform", "size": 5},
    "client": {"lr": 0.5, "batch": 10, "epochs": 2},
}


NAMES = [f"hospital {k:02}" for k in range(20)]


def hospitals(patients: int = 40) -> fedsim.Arrays:
    """Features [n, 4], labels [n] (0 or 1), and the hospital of every row [n]: ids may be names or numbers."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(len(NAMES) * patients, 4))
    ill = truth @ [2.0, -1.0, 1.0, 0.0] + 0.3 * rng.normal(size=len(truth)) > 0
    offset = np.repeat(rng.normal(scale=0.5, size=(len(NAMES), 4)), patients, axis=0)
    return fedsim.Arrays(truth + offset, ill.astype(int), client=np.repeat(NAMES, patients))


def main() -> None:
    result = fedsim.run(SCENARIO, data=hospitals())

    curves = result.rounds.pivot(index="round", columns="seed", values="test_accuracy")
    print(curves.iloc[::5])  # a row per round, a column per seed: curves.plot() draws them

    late = result.rounds[result.rounds["round"] > 10]
    print(late.groupby("seed")["test_accuracy"].agg(["mean", "std"]))

    scores = result.clients.pivot_table(
        index="client", values=["samples", "global_accuracy"]
    )  # means of the seeds
    print(scores.nsmallest(3, "global_accuracy"))


if __name__ == "__main__":
    main()
