"""A caution: in most seeds, the best of drawn settings lies at one end of its range.

Of a few random draws the best is often the first or the last, so that alone says nothing. Counted
are the seeds in which it lies within a tenth of the range at one end, on the range's own scale. On
pure noise, where under each of ten seeds every setting is as likely to be the best, the sentence
appears for one path of one method in 0.9 % of comparisons with four draws, in 0.02 % with sixteen.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fedsim.scenario.ranges import Range, range_of
from fedsim.study.methods import is_drawn, methods_of, texts_of_axis
from fedsim.study.summary import Record, grouped, variation_of
from fedsim.study.words import count, name_and_path, variation_in_words

TENTH = 0.1  # of a range, at either end
MOST = 0.8  # of the seeds
LEAST_SEEDS = 5
LEAST_SETTINGS = 4

AT_END = (
    "In {seeds} of {all_seeds}, the best {path} of {method} lies in the {side} tenth of its range, "
    "{range}, of {settings} tried: a wider range may have better ones."
)
WITH_VARIATION = "With {variation}: "

Ranges = Mapping[tuple[str, str], Range]
"""by method and path"""


def ranges_in(scenario: Mapping[str, Any] | None) -> dict[tuple[str, str], Range]:
    """Return the ranges that the methods of a comparison are tuned over, by method and path.

    Args:
      scenario: the scenario, as in `run.json`.
    """
    compare = (scenario or {}).get("compare") or {}
    shared = {path: texts_of_axis(values) for path, values in compare.get("tune", {}).items()}
    ranges = {}
    for method in methods_of(compare.get("methods") or []):
        for path, texts in {**shared, **method.grid}.items():
            if is_drawn(texts):
                ranges[method.label, path] = range_of(texts[0])
    return ranges


def tenth_lines(
    tuning: Sequence[Record], ranges: Ranges, words: Callable[[str], str] = variation_in_words
) -> list[str]:
    """Return a sentence for every range with an end at which most seeds have their best setting.

    Args:
      tuning: rows of `tuning.csv`.
      ranges: by method and path.
      words: returns a variation in words.

    >>> best = {0.2: 1, 0.4: 0, 0.6: 0, 0.97: 9}
    >>> rows = [{"method": "m", "mu": mu, "best_seeds": n} for mu, n in best.items()]
    >>> print(*tenth_lines(rows, {("m", "mu"): Range("uniform", 0, 1)}))
    In 9 of 10 seeds, the best μ (mu) of m lies in the upper tenth of its range, uniform(0, 1), of
    4 settings tried: a wider range may have better ones.
    """
    lines = []
    for variation, of_variation in grouped(tuning, key=variation_of).items():
        for method, rows in grouped(of_variation, key=lambda row: row["method"]).items():
            for (label, path), tuned in ranges.items():
                if label != method:
                    continue
                text = _at_an_end(rows, path, tuned)
                if text and variation:
                    text = WITH_VARIATION.format(variation=words(variation)) + text
                if text:
                    lines.append(text)
    return lines


def _at_an_end(rows: Sequence[Record], path: str, tuned: Range) -> str:
    """The sentence about a range; empty if there is nothing to say.

    Args:
      rows: of `tuning.csv`, of one method under one variation.
      path: that was tuned.
      tuned: its range.
    """
    seeds = sum(row.get("best_seeds") or 0 for row in rows)
    if seeds < LEAST_SEEDS or len(rows) < LEAST_SETTINGS:
        return ""
    sides = {"lower": lambda share: share < TENTH, "upper": lambda share: share > 1 - TENTH}
    for side, is_within in sides.items():
        within = [row for row in rows if is_within(tuned.share_of(row[path]))]
        best = sum(row.get("best_seeds") or 0 for row in within)
        if best >= MOST * seeds and len(within) < len(rows):
            return AT_END.format(
                seeds=best,
                all_seeds=count(seeds, "seed"),
                settings=count(len(rows), "setting"),
                method=rows[0]["method"],
                side=side,
                path=name_and_path(path),
                range=tuned,
            )
    return ""
