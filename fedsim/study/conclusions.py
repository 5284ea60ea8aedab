"""The tables of a comparison that follow from the scores of its runs."""

from collections.abc import Iterable, Sequence

import pandas as pd

from fedsim.installed import offered
from fedsim.study.breakdown import breakdown_rows
from fedsim.study.cost_axes import AXES
from fedsim.study.costs import cost_rows
from fedsim.study.guessing import chance_levels
from fedsim.study.pairing import across, against, profiles, scores_of
from fedsim.study.standings import standings
from fedsim.study.summary import Record, is_federated, metric_of, variation_of
from fedsim.study.tuning import sensitivity
from fedsim.study.worst_case import worst_cases


def conclusions(
    summary: Sequence[Record],
    tuning: Sequence[Record],
    baseline: str,
    score: str,
    varied: Sequence[str],
    rounds: Iterable[Record] = (),
    partition: pd.DataFrame | None = None,
) -> dict[str, list[Record]]:
    """Return the rows of all tables that follow from others, by table.

    These are `compare`, `across`, `profiles`, `worst`, `breakdown`, `bytes` and `seconds`. Methods
    that are not federated are in `compare` alone: they are not ranked among the others.

    Args:
      tuning: rows of `tuning.csv`; none if nothing was tuned.
      partition: the columns of `partition.csv`, by which a score is at chance level.
    """
    rounds = list(rounds)
    compared = []
    for row in against(summary, baseline, score, varied):
        compared.append({**row, **sensitivity(row, tuning)})
    for columns in offered("COMPARED", "columns"):
        for row, more in zip(compared, columns(compared, summary, rounds), strict=True):
            row |= more

    chance = chance_levels(partition, metric_of(summary))
    for variation, group in standings(compared, summary, baseline, score, chance).items():
        verdicts = {standing.method: standing.verdict for standing in group}
        for row in compared:
            if variation_of(row) == variation:
                row["verdict"] = verdicts[row["method"]]

    outside = {row["method"] for row in summary if not is_federated(row)}
    federated = [row for row in summary if row["method"] not in outside]
    compared_federated = [row for row in compared if row["method"] not in outside]

    scores = scores_of(federated, score)
    tables = {
        "compare": compared,
        "across": across(scores, score),
        "profiles": profiles(scores, score),
        "worst": worst_cases(federated, score),
        "breakdown": breakdown_rows(compared_federated, rounds),
    }
    for axis in AXES:
        tables[axis.table] = cost_rows(axis, federated, rounds, score, varied)
    return tables
