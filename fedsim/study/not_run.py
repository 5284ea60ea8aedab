"""Methods with runs in which no round was aggregated, in a sentence."""

from collections.abc import Callable, Sequence

from fedsim.study.claims import Sentence, Weight
from fedsim.study.summary import NOT_RUN, Record


def not_run_lines(summary: Sequence[Record], words: Callable[[str], str]) -> list[Sentence]:
    """Which methods have runs that aggregated no round, under how many seeds: a sentence, or none.

    Args:
      summary: rows of `summary.csv`.
      words: variations as they are called in sentences.

    >>> row = {"method": "krum(f=2)", "seed": 0, "status": "not_run"}
    >>> not_run_lines([row, {"method": "mean", "seed": 0}], str)
    ['Not run, and so without a score, since no round was aggregated: krum(f=2) (1 of 1 seed).']
    """
    runs: dict[tuple[str, str], list[bool]] = {}
    for row in summary:
        who = row["method"], row.get("variant") or ""
        runs.setdefault(who, []).append(row.get("status") == NOT_RUN)
    items = [
        _item(method, words(variant), idle) for (method, variant), idle in runs.items() if any(idle)
    ]
    if not items:
        return []
    text = f"Not run, and so without a score, since no round was aggregated: {', '.join(items)}."
    return [Sentence(text, Weight.CAUTION)]


def _item(method: str, variation: str, idle: Sequence[bool]) -> str:
    """A method under a variation, and how many of its seeds have not run."""
    where = f" with {variation}" if variation else ""
    seeds = "seed" if len(idle) == 1 else "seeds"
    return f"{method}{where} ({sum(idle)} of {len(idle)} {seeds})"
