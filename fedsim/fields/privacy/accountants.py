"""Which accountant a run's ε is from, and the same ε by dp-accounting."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.extra import dp_accounting
from fedsim.fields.privacy.counting.records import DISTRIBUTED

PACKAGE = __name__.rpartition(".")[0]  # by which experiments have the budget

CLOSE = 1e-5  # relative: the same ε by another program

LOSSES = "fedsim: privacy loss distribution"
GAUSSIAN = "fedsim: one Gaussian release, exactly"
INTEGERS = "fedsim: Rényi divergences of sums of integers"
RENYI = "dp-accounting: Rényi divergences"
BATCHES = "fedsim: privacy loss distribution; of batches that are cut, dp-accounting: likewise"


def entries(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Return which accountants count ε of clients and of samples, as entries of `run.json`."""
    told = {}
    if scenario.get("privacy"):
        told["accountant"] = accountant_of(scenario)
    if scenario["client"].get("dp_sgd"):
        told["samples_accountant"] = BATCHES
    return told


def accountant_of(scenario: Mapping[str, Any]) -> str:
    """Return which accountant counts ε of a private scenario's clients."""
    privacy = scenario["privacy"]
    cohort = scenario["cohort"]
    if privacy["mechanism"]["kind"] in DISTRIBUTED:
        return INTEGERS
    if privacy["accountant"] == "rdp":
        return RENYI
    is_sampled = cohort["kind"] in ("poisson", "cyclic_poisson") and cohort["rate"] < 1
    return LOSSES if is_sampled else GAUSSIAN


def missing(scenario: Mapping[str, Any]) -> list[str]:
    """Return a line where a private run cannot be counted here."""
    if not entries(scenario):
        return []
    try:
        dp_accounting()
    except PrivacyError as error:
        return [f"privacy: {error}"]
    return []


def checks(
    experiment: Any, rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, list[str], str]]:
    """Compare ε of the last round with that of dp-accounting, where fedsim counts it.

    Args:
      rows: the last row of `rounds.csv` of every seed.

    Yields:
      The name of the check, its problems, and its result where there are none.
    """
    budget = experiment.of_fields.get(PACKAGE)
    if budget is None or budget.counted_again is None:
        return
    problems = []
    result = ""
    for round in sorted({row["round"] for row in rows}):
        epsilon = next(row["epsilon"] for row in rows if row["round"] == round)
        again = budget.counted_again(round)
        result = f"{epsilon:.6g} after round {round}, by dp-accounting {again:.6g}"
        if abs(again - epsilon) > CLOSE * (again + 1):
            problems.append(result)
    yield "epsilon", problems, result
