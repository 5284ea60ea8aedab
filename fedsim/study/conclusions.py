"""The tables of a comparison that follow from the scores of its runs."""

from collections.abc import Iterable, Sequence

from fedsim.study.breakdown import breakdown_rows
from fedsim.study.cost_axes import AXES
from fedsim.study.costs import cost_rows
from fedsim.study.pairing import across, against, profiles, scores_of
from fedsim.study.summary import Record
from fedsim.study.tuning import sensitivity
from fedsim.study.worst_case import worst_cases


def conclusions(
    summary: Sequence[Record],
    tuning: Sequence[Record],
    baseline: str,
    score: str,
    varied: Sequence[str],
    rounds: Iterable[Record] = (),
) -> dict[str, list[Record]]:
    """Return the rows of all tables that follow from others, by table.

    These are `compare`, `across`, `profiles`, `worst`, `breakdown`, `bytes` and `seconds`.

    Args:
      summary: rows of `summary.csv`.
      tuning: rows of `tuning.csv`; none if nothing was tuned.
      baseline: label of the method that the others are compared with.
      score: the column of `summary.csv` that is compared.
      varied: the paths that vary.
      rounds: rows of `rounds.csv`.
    """
    rounds = list(rounds)
    scores = scores_of(summary, score)
    compared = []
    for row in against(summary, baseline, score, varied):
        compared.append({**row, **sensitivity(row, tuning)})

    tables = {
        "compare": compared,
        "across": across(scores, score),
        "profiles": profiles(scores, score),
        "worst": worst_cases(summary, score),
        "breakdown": breakdown_rows(compared, rounds),
    }
    for axis in AXES:
        tables[axis.table] = cost_rows(axis, summary, rounds, score, varied)
    return tables
