"""The tables of a comparison that follow from the scores of its runs."""

from collections.abc import Iterable, Sequence

from fedsim.study.breakdown import breakdowns
from fedsim.study.cost_axes import AXES
from fedsim.study.costs import costs
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
    """The tables that follow from others: `compare`, `across`, `profiles`, `worst`, `breakdown`, `bytes`,
    `seconds`.

    Args:
      summary: rows of `summary.csv`.
      tuning: rows of `tuning.csv`, none where nothing was tuned.
      baseline: label of the method that the others are compared with.
      score: column of `summary.csv` that is compared.
      varied: paths that vary.
      rounds: rows of `rounds.csv`.
    """
    rounds = list(rounds)
    compared = [
        {**row, **sensitivity(row, tuning)} for row in against(summary, baseline, score, varied)
    ]
    scores = scores_of(summary, score)
    together = {"across": across(scores, score), "profiles": profiles(scores, score)}
    attacked = {"worst": worst_cases(summary, score), "breakdown": breakdowns(compared, rounds)}
    spent = {axis.table: costs(axis, summary, rounds, score, varied) for axis in AXES}
    return {"compare": compared, **together, **attacked, **spent}
