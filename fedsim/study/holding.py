"""Whether a method holds under an attack: keeps at least half of what training gains without it."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.standings import mean_score, seed_scores, shared_seeds
from fedsim.study.statistics import p_mean_above
from fedsim.study.summary import Record, grouped, larger_is_better, metric_of, variation_of
from fedsim.study.words import is_attack


def holds(
    summary: Sequence[Record],
    method: str,
    variation: str,
    score: str,
    start: Mapping[str, float],
    rivals: int,
) -> float:
    """Return the p-value of a method keeping less than half of its gain; 1 if it is not testable.

    The gain is the score less that of the untrained model. The full gain is the largest mean gain
    among the variations that differ in the attack alone. The p-value is twice the one-sided one of
    Student's t, times the number of methods among which this one was chosen for its score.

    Args:
      summary: rows of `summary.csv`.
      method: label of the method.
      variation: the variation of the attack, as in the column `variant`.
      score: one of `SCORES`.
      start: by variation, the score of the untrained model, or of guessing.
      rivals: how many methods there are under the variation.
    """
    if variation not in start:
        return 1.0

    # The runs of the method, under variations that differ in the attack alone.
    settings = _without_attacks(variation)
    of_method = [run for run in summary if run["method"] == method]
    runs = {}
    for name, group in grouped(of_method, key=variation_of).items():
        if _without_attacks(name) == settings:
            runs[name] = group

    sign = 1.0 if larger_is_better(metric_of(runs[variation])) else -1.0
    gains = {}
    for name, group in runs.items():
        mean = mean_score(group, score)
        if mean is not None and name in start:
            gains[name] = sign * (mean - start[name])
    if variation not in gains:
        return 1.0
    strongest = max(gains, key=lambda name: gains[name])

    attacked = seed_scores(runs[variation], score)
    full = seed_scores(runs[strongest], score)
    margins = []  # how much of the gain is left, beyond half of the full gain; by seed
    for seed in shared_seeds(attacked, full):
        left = attacked[seed] - start[variation]
        half = (full[seed] - start[strongest]) / 2
        margins.append(left - half)
    d = sign * np.array(margins)  # [seeds]
    return min(1.0, 2 * rivals * p_mean_above(d, 0.0))


def _without_attacks(label: str) -> list[str]:
    """The settings of a variation that are not about an attack."""
    return [setting for setting in split_at_commas(label) if not is_attack(setting)]
