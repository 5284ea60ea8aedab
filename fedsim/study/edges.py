"""Cautions: the chosen setting lies at an edge of what was tried, so better ones may lie beyond.

Of a few random draws the best is often the first or the last, so that alone says nothing. Counted
are the seeds in which it lies within a tenth of the range at one end, on the range's own scale. On
pure noise, where under each of ten seeds every setting is as likely to be the best, the sentence
appears for one path of one method in 0.9 % of comparisons with four draws, in 0.02 % with sixteen.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.scenario.ranges import Range, range_of
from fedsim.study.methods import is_drawn, methods_of, texts_of_axis
from fedsim.study.summary import Record, distinct, grouped, variation_of
from fedsim.study.words import count, is_number, name_and_path, variation_in_words

LISTED_VALUES = 6  # of a grid, in a sentence; of more there are the number and the ends
EDGE_VALUES = 3  # a grid with fewer values has no interior, so every choice is at its edge
TENTH = 0.1  # of a range, at either end
MOST = 0.8  # of the seeds
LEAST_SEEDS = 5
LEAST_SETTINGS = 4

AT_EDGE = (
    "{methods} best with the {side} {path} tried, {value} of {values}: try {direction} values, too."
)
IN_TENTH = (
    "In {seeds} of {all_seeds}, the best {path} of {method} lies in the {side} tenth of its range, "
    "{range}, of {settings} tried: a wider range may have better ones."
)

Ranges = Mapping[tuple[str, str], Range]
"""by method and path"""


class Edge(NamedTuple):
    """The edge of a grid at which a method is best; path and values are in words."""

    side: str
    path: str
    value: Any
    values: str

    def line(self, methods: Sequence[str]) -> str:
        """Return the sentence about methods that are best there."""
        *others, last = methods
        names = f"{', '.join(others)} and {last} are" if others else f"{last} is"
        direction = "smaller" if self.side == "smallest" else "larger"
        return AT_EDGE.format(methods=names, direction=direction, **self._asdict())


def ranges_in(scenario: Mapping[str, Any] | None) -> dict[tuple[str, str], Range]:
    """Return the ranges that the methods of a comparison are tuned over, by method and path."""
    compare = (scenario or {}).get("compare") or {}
    shared = {path: texts_of_axis(values) for path, values in compare.get("tune", {}).items()}
    ranges = {}
    for method in methods_of(compare.get("methods") or []):
        for path, texts in {**shared, **method.grid}.items():
            if is_drawn(texts):
                ranges[method.label, path] = range_of(texts[0])
    return ranges


def edge_lines(
    tuning: Sequence[Record],
    paths: Sequence[str],
    ranges: Ranges,
    words: Callable[[str], str] = variation_in_words,
) -> list[str]:
    """Return a sentence for every edge of a grid or a range at which methods are best.

    Of a grid that is the smallest or the largest of three or more numbers, if it was chosen and no
    other value did as well; a grid that begins at 0 has no edge there. Of a range it is an end at
    which most seeds have their best setting.
    """
    lines = []
    for variation, of_variation in grouped(tuning, key=variation_of).items():
        by_method = grouped(of_variation, key=lambda row: row["method"])
        at_edge: dict[Edge, list[str]] = {}
        texts = []
        for method, rows in by_method.items():
            for path in paths:
                edge = None if (method, path) in ranges else _edge(rows, path)
                if edge is not None:
                    at_edge.setdefault(edge, []).append(method)
            for (label, path), tuned in ranges.items():
                if label == method:
                    texts.append(_in_tenth(rows, path, tuned))
        texts = [*(edge.line(methods) for edge, methods in at_edge.items()), *texts]
        where = f"With {words(variation)}: " if variation else ""
        lines += [where + text for text in texts if text]
    return lines


def _edge(rows: Sequence[Record], path: str) -> Edge | None:
    """The edge of a grid at which a method is best; None if it is best inside."""
    chosen = next(row for row in rows if row["chosen"])
    grid = sorted(filter(is_number, distinct(rows, path)))
    if len(grid) < EDGE_VALUES:
        return None
    value = chosen[path]
    at_smallest = value == grid[0] and grid[0] != 0
    if not at_smallest and value != grid[-1]:
        return None
    for row in rows:
        if row[path] != value and row["validation_mean"] == chosen["validation_mean"]:
            return None  # as good, and off the edge
    values = ", ".join(map(str, grid))
    if len(grid) > LISTED_VALUES:
        values = f"{len(grid)} from {grid[0]} to {grid[-1]}"
    return Edge(
        side="smallest" if at_smallest else "largest",
        path=name_and_path(path),
        value=value,
        values=values,
    )


def _in_tenth(rows: Sequence[Record], path: str, tuned: Range) -> str:
    """The sentence about a range; empty if there is nothing to say."""
    seeds = sum(row.get("best_seeds") or 0 for row in rows)
    if seeds < LEAST_SEEDS or len(rows) < LEAST_SETTINGS:
        return ""
    sides = {"lower": lambda share: share < TENTH, "upper": lambda share: share > 1 - TENTH}
    for side, is_within in sides.items():
        within = [row for row in rows if is_within(tuned.share_of(row[path]))]
        best = sum(row.get("best_seeds") or 0 for row in within)
        if best >= MOST * seeds and len(within) < len(rows):
            return IN_TENTH.format(
                seeds=best,
                all_seeds=count(seeds, "seed"),
                settings=count(len(rows), "setting"),
                method=rows[0]["method"],
                side=side,
                path=name_and_path(path),
                range=tuned,
            )
    return ""
