"""The table of the page: the results of all methods."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from fedsim.report.context import Context
from fedsim.report.element import breakable
from fedsim.report.page.folding import MOST_ROWS, by_method
from fedsim.report.results import Cell, Row, errors_in, results
from fedsim.study.regression import ERRORS
from fedsim.study.standings import Standing
from fedsim.study.summary import in_words
from fedsim.study.words import axis_name


def table_of(
    runs: Sequence[Row],
    compared: Sequence[Row],
    standings: Mapping[str, Sequence[Standing]],
    context: Context,
    rounds: pd.DataFrame | None = None,
) -> dict[str, Any] | None:
    """The results of all methods: head, rows, and which columns are words and numbers.

    The first `words` columns are words, those up to `numbers` are numbers, then come verdicts.
    A long table is folded by method.
    """
    if not runs:
        return None
    rows = results(
        summary=runs,
        compare=compared or None,
        score=context.score,
        by_variation=standings,
        scenario=context.scenario,
        errors=errors_in(rounds, context.metric),
    )
    rows = [_score_first(row) for row in rows]
    methods = [str(row["method"][1]) for row in rows]
    columns = list(rows[0])
    titles = {"score": _score_title(runs, context), "variant": "condition", "tuned": "chosen"}
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
    head = [titles.get(column, column) for column in columns]
    score_index = columns.index("score")
    counted = "conditions" if "variant" in columns else "rows"

    def title(method: str, of_method: Sequence[Sequence[Cell]]) -> str:
        """The title of a method's rows where the table is folded."""
        scores = []
        for row in of_method:
            _, score = row[score_index]
            if score != "":
                scores.append(score)
        if not scores:
            return f"{method}: no score in {len(of_method)} {counted}"
        ends = f"{min(scores):.4g} to {max(scores):.4g}"
        return f"{method}: {head[score_index]} {ends} in {len(of_method)} {counted}"

    ordered = list(zip(methods, rows, strict=True))
    if len(rows) > MOST_ROWS:
        ordered.sort(key=lambda pair: context.rank_of(pair[0]))
    cells = [list(row.values()) for _, row in ordered]
    return {
        "head": head,
        "groups": by_method(cells, [method for method, _ in ordered], title),
        "count": len(rows),
        "words": len(labels),
        "numbers": numbers,
        "varied": "variant" in columns,
    }


def _score_first(row: dict[str, Cell]) -> dict[str, Cell]:
    """The cells in the order of the page: whose row it is, its score, and everything else."""
    first = ("method", "variant", "tuned", "score", "sd", *ERRORS.values(), "best")
    ordered = {name: row[name] for name in first if name in row}
    for name, cell in row.items():
        if name != "verdict":
            ordered[name] = cell  # one that is among the first stays there
    if "verdict" in row:
        ordered["verdict"] = row["verdict"]
    return ordered


def _score_title(runs: Sequence[Row], context: Context) -> str:
    metric = in_words(context.metric)
    if context.score == "mean_last_k":
        return f"{metric}, mean of last {runs[0].get('k')}"
    return f"{context.score} {metric}"


def _only_path(rows: Sequence[dict[str, Cell]]) -> str | None:
    """The path that was tuned, where it is the only one; its column then has the path as title."""
    paths = set()
    for row in rows:
        label, _ = row["tuned"]
        if "," in str(label):
            return None
        if label:
            path, _, _ = str(label).partition("=")
            paths.add(path)
    if len(paths) != 1:
        return None
    return paths.pop()


def _in_words(rows: Sequence[dict[str, Cell]], column: str, words: Callable[[str], str]) -> None:
    """Replace what the cells of a column show; they are sorted as before."""
    for row in rows:
        shown, key = row[column]
        row[column] = (words(str(shown)), key)
