"""Your own arrays, with a client id for each row: the ids are the partition.

    python scenarios/python/own_data.py

Twenty hospitals measure the same four things, each with instruments that have a different offset.
"""

import numpy as np

import fedsim

SCENARIO = {
    "name": "hospitals",
    "rounds": 20,
    "seeds": 3,
    # A quarter of the rows is held out for testing, unless the arrays include x_test and y_test.
    "data": {"test": 0.25},
    "model": "logistic",
    "cohort": {"kind": "uniform", "size": 5},
    "client": {"lr": 0.5, "batch": 10, "epochs": 2},
}


NAMES = [f"hospital {k:02}" for k in range(20)]


def hospitals(patients: int = 40) -> fedsim.Arrays:
    """Features [n, 4], labels [n] (0 or 1), and the hospital of every row [n].

    Ids may be names or numbers.
    """
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(len(NAMES) * patients, 4))
    ill = truth @ [2.0, -1.0, 1.0, 0.0] + 0.3 * rng.normal(size=len(truth)) > 0
    offset = np.repeat(rng.normal(scale=0.5, size=(len(NAMES), 4)), patients, axis=0)
    return fedsim.Arrays(truth + offset, ill.astype(int), client=np.repeat(NAMES, patients))


def main() -> None:
    result = fedsim.run(SCENARIO, data=hospitals())

    curves = result.rounds.pivot(index="round", columns="seed", values="test_accuracy")
    print(curves.iloc[::5])  # one row per round, one column per seed: curves.plot() draws them

    late = result.rounds[result.rounds["round"] > 10]
    print(late.groupby("seed")["test_accuracy"].agg(["mean", "std"]))

    # Means over the seeds.
    scores = result.clients.pivot_table(index="client", values=["samples", "global_accuracy"])
    print(scores.nsmallest(3, "global_accuracy"))


if __name__ == "__main__":
    main()
