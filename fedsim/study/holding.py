"""Whether a method holds under an attack: keeps at least half of what training gains it without, as in `breakdown.csv`."""

from collections.abc import Mapping, Sequence

import numpy as np

from fedsim.scenario.shorthand import top_level
from fedsim.study.standings import mean_score, seed_scores
from fedsim.study.statistics import at_least
from fedsim.study.summary import Record, larger_is_better
from fedsim.study.words import attacks


def holds(
    summary: Sequence[Record],
    method: str,
    variant: str,
    score: str,
    start: Mapping[str, float],
    rivals: int,
) -> float:
    """The p of a method keeping less than half of its gain under a variation; 1 where that cannot be tested.

    The gain is the score less that of the untrained model; the whole of it is the largest mean gain among the variations
    that differ in the attack alone. Twice the one-sided p by Student's t, times the methods among which this one was
    chosen for its score.

    Args:
      summary: rows of `summary.csv`.
      method: of which it is asked.
      variant: of the attack, as in the column.
      score: `final`, `best` or `mean_last_k`.
      start: the score of the untrained model, or of guessing, by variation.
      rivals: how many methods there are under the variation.
    """
    if variant not in start:
        return 1.0
    runs: dict[str, list[Record]] = {}
    for run in summary:
        label = run.get("variant") or ""
        if run["method"] == method and _beside_attacks(label) == _beside_attacks(variant):
            runs.setdefault(label, []).append(run)
    metric = next((str(run["metric"]) for run in runs[variant] if run.get("metric")), "")
    sign = 1.0 if larger_is_better(metric) else -1.0
    means = {label: mean_score(some, score) for label, some in runs.items() if label in start}
    gains = {
        label: sign * (mean - start[label]) for label, mean in means.items() if mean is not None
    }
    if variant not in gains:
        return 1.0
    whole = max(gains, key=lambda label: gains[label])
    left = seed_scores(runs[variant], score)
    most = seed_scores(runs[whole], score)
    seeds = sorted(left.keys() & most.keys())
    half = [(most[seed] - start[whole]) / 2 for seed in seeds]
    d = sign * (np.array([left[seed] - start[variant] for seed in seeds]) - np.array(half))
    return min(1.0, 2 * rivals * at_least(d, 0.0))


def _beside_attacks(label: str) -> tuple[str, ...]:
    """The parts of a variation that are no attack."""
    return tuple(part.strip() for part in (top_level(label) if label else ()) if not attacks(part))
