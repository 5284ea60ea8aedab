"""The tables of the page: the results of all methods, and where the time went."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.context import Context
from fedsim.report.page.strips import breakable
from fedsim.report.results import Cell, Row, results, times
from fedsim.study.standings import Standing
from fedsim.study.summary import in_words
from fedsim.study.words import axis_name


def table_of(
    runs: Sequence[Row],
    compared: Sequence[Row],
    standings: Mapping[str, Sequence[Standing]],
    context: Context,
) -> dict[str, Any] | None:
    """The results of all methods: head, rows, and which columns are words and numbers.

    The first `words` columns are words, those up to `numbers` are numbers, then come verdicts.

    Args:
      runs: the rows of `summary.csv`.
      compared: the rows of `compare.csv`, none where nothing is compared.
      standings: of methods by variation; their verdicts are the last column.
      context: what is shown.
    """
    if not runs:
        return None
    rows = results(runs, compared or None, context.score, by_variation=standings)
    columns = list(rows[0])
    titles = {"score": _score_title(runs, context), "variant": "variation", "tuned": "chosen"}
    if "variant" in columns:
        _in_words(rows, "variant", context.words)
    if "tuned" in columns:
        path = _only_path(rows)
        if path is None:
            _in_words(rows, "tuned", context.words)
        else:
            titles["tuned"] = axis_name(path, context.scenario)
            _in_words(rows, "tuned", lambda label: label.partition("=")[2])
    _in_words(rows, "method", breakable)

    labels = [name for name in ("method", "variant", "tuned") if name in columns]
    numbers = len(columns)
    if "verdict" in columns:
        numbers -= 1
    return {
        "head": [titles.get(column, column) for column in columns],
        "rows": [list(row.values()) for row in rows],
        "words": len(labels),
        "numbers": numbers,
    }


def _score_title(runs: Sequence[Row], context: Context) -> str:
    metric = in_words(context.metric)
    if context.score == "mean_last_k":
        return f"{metric}, mean of last {runs[0].get('k')}"
    return f"{context.score} {metric}"


def _only_path(rows: Sequence[dict[str, Cell]]) -> str | None:
    """The path that was tuned, where it is the only one; its column then has the path as title."""
    labels = [str(row["tuned"][0]) for row in rows]
    if any("," in label for label in labels):
        return None
    paths = {label.partition("=")[0] for label in labels if label}
    return paths.pop() if len(paths) == 1 else None


def _in_words(rows: Sequence[dict[str, Cell]], column: str, words: Callable[[str], str]) -> None:
    """Replace what the cells of a column show; they are sorted as before."""
    for row in rows:
        shown, key = row[column]
        row[column] = (words(str(shown)), key)


def times_of(timing: pd.DataFrame | None, names: Sequence[str]) -> dict[str, Any] | None:
    """Where the time went, by method.

    Args:
      timing: the columns of `timing.csv`.
      names: methods in the order of the result.
    """
    table = times(timing, names)
    if table is None:
        return None
    rows = [(breakable(method), *cells) for method, *cells in table["rows"]]
    return {**table, "rows": rows}
