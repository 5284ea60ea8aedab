"""The tables of the page: results of all methods, and where the time went; names of variations and
settings in words.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.about import About
from fedsim.report.page.strips import breakable
from fedsim.report.results import Cell, Row, results, times
from fedsim.study.standings import Standing
from fedsim.study.summary import in_words
from fedsim.study.words import axis


def table_of(
    runs: Sequence[Row],
    compared: Sequence[Row],
    by_variation: Mapping[str, Sequence[Standing]],
    about: About,
) -> dict[str, Any] | None:
    """The results of all methods: head, rows of cells, how many of the first columns are words, and
    up to which they are numbers.

    Args:
      runs: the rows of `summary.csv`.
      compared: those of `compare.csv`, none where nothing is compared.
      by_variation: the standings of methods, whose verdicts are the last column.
      about: what is shown.
    """
    if not runs:
        return None
    score = about.score
    rows, metric = (
        results(runs, compared or None, score, by_variation=by_variation),
        in_words(about.metric),
    )
    means = (
        f"{metric}, mean of last {runs[0].get('k')}"
        if score == "mean_last_k"
        else f"{score} {metric}"
    )
    titles = {"score": means, "variant": "variation", "tuned": "chosen"}
    if "variant" in rows[0]:
        _in_words(rows, "variant", about.words)
    if "tuned" in rows[0]:
        paths = {part.partition("=")[0] for row in rows for part in [str(row["tuned"][0])] if part}
        several = any("," in str(row["tuned"][0]) for row in rows)
        if len(paths) == 1 and not several:  # the column is that axis
            titles["tuned"] = axis(paths.pop(), about.scenario)
            _in_words(rows, "tuned", lambda label: label.partition("=")[2])
        else:
            _in_words(rows, "tuned", about.words)
    _in_words(rows, "method", breakable)
    words = sum(name in rows[0] for name in ("method", "variant", "tuned"))
    return {
        "head": [titles.get(name, name) for name in rows[0]],
        "rows": [[*row.values()] for row in rows],
        "words": words,
        "numbers": len(rows[0]) - ("verdict" in rows[0]),
    }


def _in_words(rows: Sequence[dict[str, Cell]], column: str, words: Any) -> None:
    """Show the cells of a column otherwise; they are sorted as they were."""
    for row in rows:
        row[column] = (words(str(row[column][0])), row[column][1])


def times_of(timing: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Where the time went, by method."""
    table = times(timing, names)
    return table and {**table, "rows": [(breakable(row[0]), *row[1:]) for row in table["rows"]]}
