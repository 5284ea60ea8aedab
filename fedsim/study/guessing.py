"""Guessing: the accuracy of the most frequent label, and scores that are hardly above it."""

from collections.abc import Sequence

import pandas as pd

from fedsim.study.summary import Record, in_words, score_of

# A score is at chance level if it is above guessing by at most this much, and at most this
# fraction of it.
NEAR_CHANCE = 0.02
NEAR_SHARE = 0.25


def chance_levels(partition: pd.DataFrame | None, metric: str) -> dict[str, float]:
    """Return the accuracy of guessing by variation: the share of the most frequent label."""
    if partition is None or score_of(metric) != "accuracy":
        return {}
    if partition["label"].isna().to_numpy().any():
        return {}

    variants = partition["variant"].fillna("") if "variant" in partition else ""
    cells = partition.assign(variant=variants)
    table = cells.pivot_table("samples", "label", "variant", aggfunc="sum", fill_value=0)
    shares = table.max() / table.sum()
    return {str(variation): float(share) for variation, share in shares.dropna().items()}


def is_at_chance(mean: float | None, runs: Sequence[Record], level: float | None) -> bool:
    """Return whether a mean score is about that of guessing; never if a run diverged."""
    if mean is None or level is None or any(run.get("diverged") for run in runs):
        return False
    return mean <= level + min(NEAR_CHANCE, NEAR_SHARE * level)


def chance_note(run: Record, partition: pd.DataFrame) -> str:
    """Return a sentence if the final accuracy of a run is about that of guessing; else nothing.

    >>> table = pd.DataFrame({"client": [0, 0], "label": ["ill", "well"], "samples": [1, 3]})
    >>> run = {"metric": "test_accuracy", "final": 0.75}
    >>> chance_note(run, table)
    "final test accuracy 0.75 is at chance level: always answering 'well' would score about 0.75"
    """
    metric = run.get("metric") or ""
    level = chance_levels(partition, metric).get("")
    final = run.get("final")
    if not is_at_chance(final, [run], level):
        return ""
    samples = partition.pivot_table("samples", "label", aggfunc="sum", sort=False)["samples"]
    largest = str(samples.idxmax())
    guess = f"always answering {largest[:40]!a} would score about {level:.3g}"
    return f"final {in_words(metric)} {final:.3g} is at chance level: {guess}"
