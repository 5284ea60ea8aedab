"""Sentences to know before reading on: runs without a score, and too few seeds."""

from collections.abc import Callable, Sequence

from fedsim.study.claims import Priority, Sentence
from fedsim.study.findings import Findings
from fedsim.study.standings import too_few
from fedsim.study.statistics import smallest_p
from fedsim.study.summary import NOT_RUN, Record, grouped, variation_of
from fedsim.study.words import count

MAX_SEEDS = 64  # up to which it is looked for how many seeds would be enough

NOT_AGGREGATED = "Not run (no round was aggregated), and so without a score: {items}."
NOT_AGGREGATED_ITEM = "{configuration} ({idle} of {seeds})"
FEW_SEEDS = (
    "With {seeds}, no difference can be significant: the smallest p of a two-sided test is "
    "{smallest_p:.3g} after Holm over {tests}."
)
ENOUGH_SEEDS = " At least {enough} seeds are needed."


def not_run_lines(summary: Sequence[Record], words: Callable[[str], str]) -> list[Sentence]:
    """Return a sentence that lists methods with runs that aggregated no round; none if all did.

    Args:
      summary: rows of `summary.csv`.
      words: returns a variation in words.

    >>> row = {"method": "krum(f=2)", "seed": 0, "status": "not_run"}
    >>> not_run_lines([row, {"method": "mean", "seed": 0}], str)
    ['Not run (no round was aggregated), and so without a score: krum(f=2) (1 of 1 seed).']
    """
    items = []
    by_configuration = grouped(summary, key=lambda run: (run["method"], variation_of(run)))
    for (method, variation), runs in by_configuration.items():
        idle = sum(run.get("status") == NOT_RUN for run in runs)
        if idle == 0:
            continue
        configuration = method
        if variation:
            configuration += f" with {words(variation)}"
        item = NOT_AGGREGATED_ITEM.format(
            configuration=configuration,
            idle=idle,
            seeds=count(len(runs), "seed"),
        )
        items.append(item)
    if not items:
        return []
    return [Sentence(NOT_AGGREGATED.format(items=", ".join(items)), Priority.CAUTION)]


def few_seeds_lines(findings: Findings) -> list[Sentence]:
    """Return a sentence if no difference could be significant under so few seeds; none otherwise.

    It is about the number of seeds alone: it holds whatever the scores are.
    """
    seeds = max((row["seeds"] for row in findings.compared), default=0)
    text = few_seeds(seeds, findings.tests)
    return [Sentence(text, Priority.CAUTION)] if text else []


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
    # The test draws a fixed number of signs beyond some seeds, so of very many comparisons there
    # may be no number that is enough.
    for enough in range(2, MAX_SEEDS):
        if not too_few(enough, tests):
            return text + ENOUGH_SEEDS.format(enough=enough)
    return text
