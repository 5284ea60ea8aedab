"""Results as a table, a row per method and variation; and any table as LaTeX and as Markdown."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from fedsim.report.latex import escaped
from fedsim.report.results import errors_in, metric_of, results, rows_of
from fedsim.study.summary import in_words

ON_PAGES = ("best", "better in")  # columns that a paper has no space for


def for_paper(
    summary: pd.DataFrame,
    compare: pd.DataFrame | None = None,
    score: str = "final",
    spread: str = "sd",
    rounds: pd.DataFrame | None = None,
    scenario: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """A row per method and variation: mean ± spread over seeds, costs, and the paired difference.

    In every variation the baseline comes first, then the best.

    Args:
      scenario: resolved; left out: without what virtual seconds show.
    """
    runs = rows_of(summary)
    metric = metric_of(runs)
    compared = None
    if compare is not None and len(compare):
        compared = rows_of(compare)
    titles = {"runs": "seeds", "score": in_words(metric), "95 %": "95 % interval"}
    rows = []
    errors = errors_in(rounds, metric)
    for cells in results(runs, compared, score, scenario=scenario, errors=errors, spread=spread):
        row = {titles.get(name, name): text for name, (text, _) in cells.items()}
        half = row.pop("sd")
        if half:
            row[titles["score"]] += f" ± {half}"
        rows.append({name: text for name, text in row.items() if name not in ON_PAGES})
    return pd.DataFrame(rows)


def latex(table: pd.DataFrame) -> str:
    """The table as LaTeX with booktabs' rules; names are escaped, numbers rounded."""
    plain = table.rename(columns=escaped).map(_rounded).map(escaped)
    return plain.style.hide(axis="index").to_latex(hrules=True)


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown; names are escaped, numbers rounded."""
    text = _markdown_row(table.columns)
    text += _markdown_row(["---"] * len(table.columns))
    for row in table.map(_rounded).itertuples(index=False):
        text += _markdown_row(row)
    return text


def _rounded(cell: Any) -> Any:
    """A number as readers need it: six significant digits."""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    return cell


def _markdown_row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(_escaped, cells))} |\n"


def _escaped(cell: Any) -> str:
    return str(cell).replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
