"""Sentences to know before reading on: runs without a score, and too few seeds."""

from collections.abc import Callable, Sequence

from fedsim.study.standings import enough_seeds, too_few
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import WITHOUT_SCORE, Record, grouped, variation_of
from fedsim.study.words import count

WITHOUT = "Without a score: {items}."
WITHOUT_ITEM = "{configuration} ({lost} of {seeds} {status})"
STATUS = {"failed": "failed", "not_run": "aggregated no round"}
FEW_SEEDS = (
    "With {seeds}, no difference can be significant: the smallest p of a two-sided test is "
    "{smallest_p:.3g} after Holm over {tests}."
)
ENOUGH_SEEDS = " At least {enough} seeds are needed."


def without_score_lines(summary: Sequence[Record], words: Callable[[str], str]) -> list[str]:
    """Return a sentence that lists methods with runs that failed or aggregated no round.

    None if there is no such run.

    Args:
      summary: rows of `summary.csv`.
      words: returns a variation in words.

    >>> row = {"method": "krum(f=2)", "seed": 0, "status": "not_run"}
    >>> without_score_lines([row, {"method": "mean", "seed": 0}], str)
    ['Without a score: krum(f=2) (1 of 1 seed aggregated no round).']
    """
    items = []
    by_configuration = grouped(summary, key=lambda run: (run["method"], variation_of(run)))
    for (method, variation), runs in by_configuration.items():
        configuration = f"{method} with {words(variation)}" if variation else method
        for status in WITHOUT_SCORE:
            lost = sum(run.get("status") == status for run in runs)
            if lost:
                item = WITHOUT_ITEM.format(
                    configuration=configuration,
                    lost=lost,
                    seeds=count(len(runs), "seed"),
                    status=STATUS[status],
                )
                items.append(item)
    return [WITHOUT.format(items=", ".join(items))] if items else []


def few_seeds(seeds: int, tests: int) -> str:
    """Return that no difference could be significant, and how many seeds it takes; else nothing.

    Args:
      seeds: how many seeds the methods have in common.
      tests: how many tests Holm's adjustment runs over.

    >>> few_seeds(6, 1), few_seeds(0, 1)
    ('', '')
    """
    if seeds == 0 or not too_few(seeds, tests):
        return ""
    tests = max(tests, 1)
    comparisons = "one comparison" if tests == 1 else f"{tests} comparisons"
    text = FEW_SEEDS.format(
        seeds=count(seeds, "seed"),
        tests=comparisons,
        smallest_p=min(smallest_p(seeds) * tests, 1),
    )
    enough = enough_seeds(tests)
    return text if enough is None else text + ENOUGH_SEEDS.format(enough=enough)
