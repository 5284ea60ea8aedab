"""The clients on the page: by which score they are told apart, and a table of them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.page.strips import breakable
from fedsim.report.pictures.looks import STRONG
from fedsim.report.results import EMPTY, Cell
from fedsim.report.series import by_variant
from fedsim.study.summary import is_share, larger_is_better

OPEN = 60  # rows of a table that is not folded, at most
MOST = 200  # rows of a table; of more clients the worst are shown
COUNTED = ".6g"  # the form of counts, and of their means over seeds
WORDS = {"accuracy": "accuracy", "mae": "mean absolute error", "loss": "loss"}


class Column(NamedTuple):
    """A column of the table: its title, the form of its numbers, and the numbers by client."""

    title: str
    form: str
    numbers: pd.Series


class ClientScore(NamedTuple):
    """By which score clients are told apart.

    Attributes:
      shared: the column of `clients.csv` with the score of the shared model.
      own: the column with the score of clients' own models.
      words: the score in words.
      share: whether it is a share.
      rising: whether a larger one is better.
    """

    shared: str
    own: str
    words: str
    share: bool
    rising: bool


def score_of(clients: pd.DataFrame | None) -> ClientScore | None:
    """The score of clients: accuracy, or else the mean absolute error; None without any.

    Args:
      clients: the columns of `clients.csv`.
    """
    for name, words in WORDS.items():
        shared = f"global_{name}"
        own = f"personal_{name}"
        if clients is not None and _has_any(clients, shared, own):
            return ClientScore(shared, own, words, is_share(shared), larger_is_better(shared))
    return None


def _has_any(clients: pd.DataFrame, *columns: str) -> bool:
    return any(column in clients and clients[column].notna().any() for column in columns)


def scores_of_method(rows: pd.DataFrame, score: ClientScore) -> pd.Series:
    """The scores of a method's clients; without a shared model, those of their own models."""
    if score.shared in rows and rows[score.shared].notna().any():
        return rows[score.shared]
    return rows[score.own] if score.own in rows else rows[score.shared]


def tables(clients: pd.DataFrame | None, context: Context) -> list[dict[str, Any]]:
    """A table per variation, a row per client, the worst first.

    Clients that have names are the same under all seeds, and so have means over them; numbers are
    those of the first seed.

    Args:
      clients: the columns of `clients.csv`.
      context: what is shown.
    """
    score = score_of(clients)
    if clients is None or score is None:
        return []
    named = _named(clients, context.scenario)
    if not named:
        clients = pd.DataFrame(clients[clients["seed"] == clients["seed"].min()])
    seeds = clients["seed"].nunique()
    return [
        _table(context.words(variant), table, score, context, named, seeds)
        for variant, table in by_variant(clients).items()
    ]


def _named(clients: pd.DataFrame, scenario: Mapping[str, Any]) -> bool:
    """Whether clients have names, or ids of their own."""
    partition = (scenario.get("data") or {}).get("partition") or {}
    if partition.get("kind") == "natural":
        return True
    return not all(str(name).isdigit() for name in clients["client"].unique())


def _table(
    title: str,
    table: pd.DataFrame,
    score: ClientScore,
    context: Context,
    named: bool,
    seeds: int,
) -> dict[str, Any]:
    """The table of one variation for the template.

    Args:
      title: the variation in words.
      table: its rows of `clients.csv`.
      score: of the clients.
      context: what is shown.
      named: whether clients have names.
      seeds: how many there are.
    """
    columns = _columns(table, score, context)
    first = columns[0]
    worst_first = first.numbers.sort_values(ascending=score.rising, kind="stable").index
    rows = []
    for client in worst_first[:MOST]:
        cells = [_cell(column, client) for column in columns]
        rows.append([(breakable(str(client)), str(client)), *cells])
    return {
        "title": title,
        "head": ["client", *(breakable(column.title) for column in columns)],
        "rows": rows,
        "caption": _caption(score, first.title, context, named, seeds),
        "summary": _summary(len(rows), len(worst_first)),
        "open": named and len(rows) <= OPEN,
    }


def _columns(table: pd.DataFrame, score: ClientScore, context: Context) -> list[Column]:
    """Scores of methods, samples, and rounds joined."""
    methods = context.ordered([str(name) for name in table["method"].unique()])[:STRONG]
    by_method = {name: pd.DataFrame(table[table["method"] == name]) for name in methods}
    form = ".3f" if score.share else ".4g"
    columns = []
    for method, rows in by_method.items():
        columns.append(Column(method, form, _mean(rows, scores_of_method(rows, score))))
        has_both = _has_any(rows, score.shared) and _has_any(rows, score.own)
        if has_both:
            columns.append(Column(f"{method}, own models", form, _mean(rows, rows[score.own])))

    any_rows = by_method[methods[0]]
    columns.append(Column("samples", COUNTED, _mean(any_rows, any_rows["samples"])))
    joined = {name: _mean(rows, rows["rounds_joined"]) for name, rows in by_method.items()}
    counted = {name: rounds for name, rounds in joined.items() if rounds.notna().any()}
    different = {tuple(rounds.fillna(-1)) for rounds in counted.values()}
    if len(different) == 1:
        columns.append(Column("rounds joined", COUNTED, next(iter(counted.values()))))
    elif different:
        for name, rounds in counted.items():
            columns.append(Column(f"rounds joined, {name}", COUNTED, rounds))
    return columns


def _mean(rows: pd.DataFrame, values: pd.Series) -> pd.Series:
    """The mean over the seeds by client."""
    return values.astype(float).groupby(rows["client"], sort=False).mean()


def _cell(column: Column, client: Any) -> Cell:
    """The cell of a client; empty where it has no number."""
    value = float(column.numbers.get(client, np.nan))
    return EMPTY if np.isnan(value) else (f"{value:{column.form}}", value)


def _caption(score: ClientScore, first: str, context: Context, named: bool, seeds: int) -> str:
    words = score.words.capitalize()
    text = f"{words} on the client's own samples by method, the worst for {first} first"
    over = "1 seed" if seeds == 1 else f"{seeds} seeds"
    which = f"means over {over}" if named else "of the first seed"
    more = ""
    if len(context.order) > STRONG:
        more = f"; the first {STRONG} methods, clients.csv has all"
    return f"{text}; {which}{more}."


def _summary(shown: int, clients: int) -> str:
    if shown < clients:
        return f"The {shown} worst of {clients:,} clients"
    return f"All {clients} clients, the worst first"
