"""A result in a notebook: a headline, a table and small curves as a piece of HTML.

It needs nothing from elsewhere, and has no script and no style sheet: text has the colour of the
notebook, in light and dark. All text is escaped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from fedsim.report.context import Context
from fedsim.report.element import element
from fedsim.report.notebook_curves import curves_of
from fedsim.report.page.outcome import headline
from fedsim.report.page.sources import Source, runs_and_context
from fedsim.report.results import Row, amount, grouped_by, rows_of, score_text
from fedsim.report.tables import for_paper
from fedsim.study.guessing import chance_levels
from fedsim.study.summary import in_words

MAX_ROWS = 20  # of the table; the others are counted
MAX_REMARKS = 3  # about runs that did not end as planned; the others are counted
SMALL = "font-size: 90%; opacity: .75"


def html_of_run(frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any]) -> str:
    """The result of one method: a sentence, a row per seed, and curves.

    Args:
      record: its scenario, and the reasons and notes of its seeds.
    """
    runs, context = runs_and_context([Source(record, frames)])
    rounds = frames["rounds"]
    round_rows = rows_of(rounds)
    guessing = chance_levels(frames["partition"], context.metric).get("")
    sentence = headline(runs, round_rows, context.order, context.score, guessing)

    remarks = {**record["reasons"], **record["notes"]}
    lines = [f"seed {seed}: {text}" for seed, text in remarks.items()]
    table = _table(_seeds(runs, round_rows, context))
    return _together(sentence, lines, table, curves_of(rounds, context))


def html_of_comparison(frames: Mapping[str, pd.DataFrame], record: Mapping[str, Any]) -> str:
    """A comparison: the headline, a row per method and variation, and curves.

    Args:
      record: its scenario, baseline, score and verdict, and the reasons of its runs.
    """
    runs, context = runs_and_context([Source(record, frames)])
    table = Markup("")
    if runs:
        frame = for_paper(
            frames["summary"],
            frames["compare"],
            context.score,
            rounds=frames["rounds"],
            scenario=context.scenario,
        )
        if "variant" in frame:
            frame["variant"] = frame["variant"].map(context.words)
        table = _table(frame)

    lines = [f"{run}: {reason}" for run, reason in record["reasons"].items()]
    return _together(record["verdict"][0], lines, table, curves_of(frames["rounds"], context))


def _seeds(runs: Sequence[Row], rounds: Sequence[Row], context: Context) -> pd.DataFrame:
    last = {seed: rows[-1] for (seed,), rows in grouped_by(rounds, "seed").items()}
    rows = []
    for run in runs:
        end = last.get(run["seed"], {})
        cells = {
            "seed": run["seed"],
            "rounds": end.get("round", ""),
            f"final {in_words(context.metric or 'score')}": score_text(run["final"]),
            "best": score_text(run["best"]),
            f"mean of last {run['k']}": score_text(run["mean_last_k"]),
            "sent up": _bytes(end.get("bytes_up")),
            "sent down": _bytes(end.get("bytes_down")),
        }
        rows.append(cells)
    return pd.DataFrame(rows)


def _bytes(size: float | None) -> str:
    if size is None:
        return ""
    return amount(size)


def _together(sentence: str, lines: Sequence[str], table: Markup, curves: Markup) -> str:
    """The parts below each other."""
    remarks = [element("div", line) for line in lines[:MAX_REMARKS]]
    if len(lines) > MAX_REMARKS:
        remarks.append(element("div", f"and {len(lines) - MAX_REMARKS} more: .reasons"))
    head = element("div", element("strong", sentence), style="margin: .4em 0")
    return str(element("div", head, *remarks, table, curves))


def _table(frame: pd.DataFrame) -> Markup:
    """A table of at most so many rows; pandas escapes all text."""
    table = Markup(frame.head(MAX_ROWS).to_html(index=False, border=0))
    parts = [element("div", table, style="overflow-x: auto")]  # on a narrow screen
    if len(frame) > MAX_ROWS:
        more = f"and {len(frame) - MAX_ROWS} more rows: .summary has all"
        parts.append(element("div", more, style=SMALL))
    return Markup("").join(parts)
