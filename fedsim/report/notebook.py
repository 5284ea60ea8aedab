"""A result in a notebook: a headline, a table and small curves as a piece of HTML.

It needs nothing from elsewhere, and has no script and no style sheet: text has the colour of the
notebook, in light and dark. All text is escaped.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.derived import runs_and_context
from fedsim.report.element import element
from fedsim.report.notebook_curves import curves_of
from fedsim.report.page.outcome import headline
from fedsim.report.page.table import table_of
from fedsim.report.results import Row, amount, grouped_by, rows_of
from fedsim.study.guessing import chance_levels
from fedsim.study.standings import Standing
from fedsim.study.summary import in_words

MAX_ROWS = 20  # of the table; the others are counted
MAX_REMARKS = 3  # about runs that did not end as planned; the others are counted
SMALL = "font-size: 90%; opacity: .75"


def html_of_run(frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any]) -> str:
    """The result of one method: a sentence, a row per seed, and curves.

    Args:
      frames: the tables of the run, by name.
      record: its scenario, and the reasons and notes of its seeds.
    """
    runs, context = runs_and_context(frames, record)
    rounds = frames["rounds"]
    round_rows = rows_of(rounds)
    guessing = chance_levels(frames["partition"], context.metric).get("")
    sentence = headline(runs, round_rows, context.order, context.score, guessing)

    remarks = {**record["reasons"], **record["notes"]}
    lines = [f"seed {seed}: {text}" for seed, text in remarks.items()]
    table = _table(*_table_of_seeds(runs, round_rows, context), words=1)
    return _together(sentence, lines, table, curves_of(rounds, context))


def html_of_comparison(
    frames: Mapping[str, pd.DataFrame],
    record: Mapping[str, Any],
    standings: Mapping[str, Sequence[Standing]],
) -> str:
    """A comparison: the headline, a row per method and variation, and curves.

    Args:
      frames: the tables of the comparison, by name.
      record: its scenario, baseline, score and verdict, and the reasons of its runs.
      standings: of methods by variation.
    """
    runs, context = runs_and_context(frames, record)
    table = table_of(runs, rows_of(frames["compare"]), standings, context, frames["rounds"])
    shown = Markup("")
    if table is not None:
        rows = []
        for group in table["groups"]:
            for row in group.rows:
                rows.append([text for text, _ in row])
        shown = _table(table["head"], rows, table["words"], table["numbers"])

    lines = [f"{run}: {reason}" for run, reason in record["reasons"].items()]
    return _together(record["verdict"][0], lines, shown, curves_of(frames["rounds"], context))


def _table_of_seeds(
    runs: Sequence[Row], rounds: Sequence[Row], context: Context
) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the scores of every seed.

    Args:
      runs: rows of `summary.csv`.
      rounds: rows of `rounds.csv`.
      context: what is shown.
    """
    last = {seed: rows[-1] for (seed,), rows in grouped_by(rounds, "seed").items()}
    k = runs[0]["k"] if runs else ""
    head = [
        "seed",
        "rounds",
        f"final {in_words(context.metric or 'score')}",
        "best",
        f"mean of last {k}",
        "sent up",
        "sent down",
    ]
    rows = []
    for run in runs:
        end = last.get(run["seed"], {})
        cells = [
            str(run["seed"]),
            str(end.get("round", "")),
            _score(run["final"]),
            _score(run["best"]),
            _score(run["mean_last_k"]),
            _bytes(end.get("bytes_up")),
            _bytes(end.get("bytes_down")),
        ]
        rows.append(cells)
    return head, rows


def _score(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:z.4f}"


def _bytes(size: float | None) -> str:
    if size is None:
        return ""
    return amount(size)


def _together(sentence: str, lines: Sequence[str], table: Markup, curves: Markup) -> str:
    """The parts below each other.

    Args:
      sentence: the headline.
      lines: about runs that did not end as planned.
      table: as HTML.
      curves: as HTML.
    """
    remarks = [element("div", line) for line in lines[:MAX_REMARKS]]
    if len(lines) > MAX_REMARKS:
        remarks.append(element("div", f"and {len(lines) - MAX_REMARKS} more: .reasons"))
    head = element("div", element("strong", sentence), style="margin: .4em 0")
    return str(element("div", head, *remarks, table, curves))


def _table(
    head: Sequence[str], rows: Sequence[Sequence[str]], words: int, numbers: int | None = None
) -> Markup:
    """A table of at most so many rows.

    Args:
      head: titles.
      rows: cells, which are escaped unless they are markup.
      words: the number of first columns that are words, aligned on the left.
      numbers: the number of columns before further columns of words; None: there are none.
    """
    aligned = []
    for column in range(len(head)):
        is_words = column < words or (numbers is not None and column >= numbers)
        aligned.append("text-align: left" if is_words else "text-align: right; white-space: nowrap")

    titles = element("tr", *_cells("th", head, aligned))
    body = [element("tr", *_cells("td", row, aligned)) for row in rows[:MAX_ROWS]]
    table = element("table", element("thead", titles), element("tbody", *body))
    parts = [element("div", table, style="overflow-x: auto")]  # on a narrow screen
    if len(rows) > MAX_ROWS:
        more = f"and {len(rows) - MAX_ROWS} more rows: .summary has all"
        parts.append(element("div", more, style=SMALL))
    return Markup("").join(parts)


def _cells(name: str, texts: Iterable[str], aligned: Sequence[str]) -> list[Markup]:
    cells = zip(texts, aligned, strict=True)
    return [element(name, text, style=style) for text, style in cells]
