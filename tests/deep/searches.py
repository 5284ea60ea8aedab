"""Successive halving against random search at equal budget, over the suite's tasks.

    python tests/deep/searches.py FILE

Every task is played once with a pool of learning rates, to the end, which takes about eight
minutes of a processor and is kept in FILE. Searches are then drawn from these runs: a setting that
goes on from a rung has the rows that it has without a search. Under each draw, random search has
the first settings of those that halving has, as many as cost the same trial-rounds.
"""

import json
import sys
from pathlib import Path

import numpy as np

import fedsim
from fedsim.scenario.sections import Search
from fedsim.study.halving import brackets
from fedsim.study.promotion import RungScore, last_rounds
from fedsim.study.search import settings_of
from fedsim.study.statistics import interval

TASKS = Path(__file__).parents[2] / "scenarios" / "suite"
POOL = 32  # learning rates of a task, from the range that all methods of the suite are tuned over
RANGE = "log(1e-2, 1)"
SEEDS = 2
EVERY = 5  # rounds between evaluations: rungs after 5, 10, 20 and 40 rounds
HALVED = 16  # settings of halving: 16·5 + 8·5 + 4·10 + 2·20 = 200 trial-rounds
RANDOM = 5  # settings of random search: 5·40 = 200 trial-rounds
SEARCHES = 500  # drawn of each task


def scores_of(task: Path) -> dict[str, list]:
    """Play a task -> validation scores by setting and evaluation, test scores by setting.

    Both are means over the seeds, the larger the better.
    """
    rates = [setting["client.lr"] for setting in settings_of({"client.lr": [RANGE]}, POOL)]
    own = [f"evaluate.every={EVERY}", "compare.ranges=false", "compare.budget=null"]
    vary = {"client.lr": rates}
    result = fedsim.compare(
        task, ["fedavg"], vary=vary, seeds=SEEDS, edits=own, pictures=False, progress=False
    )
    metric = result.summary["metric"].iloc[0]
    column = metric.replace("test_", "validation_")
    rounds = result.rounds.pivot_table(column, index="client.lr", columns="round", dropna=False)
    test = result.summary.groupby("client.lr")["final"].mean()
    return {"validation": rounds[range(EVERY, 41, EVERY)].values.tolist(), "test": test.tolist()}


def found(validation: np.ndarray, test: np.ndarray, kind: str, trials: np.ndarray) -> float:
    """The test score of the setting that a search chooses.

    Args:
      validation: scores by setting and evaluation `[settings, evaluations]`.
      test: scores at the end `[settings]`.
      kind: of the search.
      trials: the settings that it tries.
    """
    if kind == "random":
        return float(test[max(trials, key=lambda trial: validation[trial, -1])])
    search = Search(kind="halving", eta=2)
    rounds = EVERY * validation.shape[1]
    (bracket,) = brackets(search, len(trials), rounds, EVERY)

    def play(until):
        at = {cell: validation[trials[cell], after // EVERY - 1] for cell, after in until.items()}
        return {cell: RungScore(0, float(score)) for cell, score in at.items()}

    ends = last_rounds([bracket], search.eta, play)
    assert sum(ends.values()) == RANDOM * rounds
    last = [trials[cell] for cell, after in ends.items() if after == rounds]
    return float(test[max(last, key=lambda trial: validation[trial, -1])])


def difference_of(scores: dict[str, list], seed: int) -> float:
    """Halving's score minus that of random search, mean over searches of a task."""
    rng = np.random.default_rng(seed)
    validation = np.nan_to_num(np.array(scores["validation"], float), nan=-np.inf)
    test = np.array(scores["test"], float)
    differences = []
    for _ in range(SEARCHES):
        trials = rng.permutation(POOL)[:HALVED]
        halving = found(validation, test, "halving", trials)
        random = found(validation, test, "random", trials[:RANDOM])
        differences.append(halving - random)
    return float(np.mean(differences))


def main(file: Path) -> None:
    """Play the tasks that the file lacks, and print a line for each of them and for all."""
    scores = json.loads(file.read_text()) if file.exists() else {}
    for task in sorted(TASKS.glob("*.yaml")):
        if task.stem not in (*scores, "protocol"):
            scores[task.stem] = scores_of(task)
            file.write_text(json.dumps(scores))
    differences = []
    for seed, name in enumerate(sorted(scores)):
        differences.append(difference_of(scores[name], seed))
        print(f"{name:20} {differences[-1]:+.4f}")
    values = np.array(differences)
    low, high = interval(values) or (None, None)
    print(f"{len(values)} tasks: {values.mean():+.4f}, 95 % {low:+.4f} to {high:+.4f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
