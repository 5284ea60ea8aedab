"""The clients on the page: by which score they are told apart, and a table of them."""

import statistics
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.element import breakable
from fedsim.report.pictures.looks import STRONG
from fedsim.report.results import EMPTY, Cell
from fedsim.report.series import by_variant
from fedsim.study import summary
from fedsim.study.summary import in_words, is_share, larger_is_better
from fedsim.study.words import count

OPEN = 60  # rows of a table that is not folded, at most
MOST = 200  # rows of a table; of more clients the worst are shown
OWN = ", own models"  # behind a method's name, where its shared model has a score as well
COUNTED = ".6g"  # the form of counts, and of their means over seeds
WORDS = {"accuracy": "accuracy", "mae": "mean absolute error", "loss": "loss"}


class Column(NamedTuple):
    """A column of the table: its title, the form of its numbers, and the numbers by client."""

    title: str
    form: str
    numbers: dict[Any, float]


class ClientScore(NamedTuple):
    """By which score clients are told apart.

    Attributes:
      shared: the column of `clients.csv` with the score of the shared model.
      own: the column with the score of clients' own models.
    """

    shared: str
    own: str
    words: str
    share: bool
    rising: bool


def score_of(clients: pd.DataFrame | None, metric: str) -> ClientScore | None:
    """The score of clients: that of the metric, or else of `WORDS`; None without any."""
    scored = summary.score_of(metric)
    for name, words in {scored: WORDS.get(scored, in_words(scored)), **WORDS}.items():
        shared = f"global_{name}"
        own = f"personal_{name}"
        if clients is not None and _has_any(clients, shared, own):
            return ClientScore(shared, own, words, is_share(shared), larger_is_better(shared))
    return None


def _has_any(clients: pd.DataFrame, *columns: str) -> bool:
    for column in columns:
        if column in clients and not np.isnan(np.asarray(clients[column], float)).all():
            return True
    return False


def has_both(rows: pd.DataFrame, score: ClientScore) -> bool:
    """Whether a method's clients have scores of the shared model and of models of their own."""
    return _has_any(rows, score.shared) and _has_any(rows, score.own)


def scores_of_method(rows: pd.DataFrame, score: ClientScore) -> np.ndarray:
    """The scores of a method's clients, `[rows]`; without a shared model, of their own models."""
    if _has_any(rows, score.shared) or score.own not in rows:
        return np.asarray(rows[score.shared], float)
    return np.asarray(rows[score.own], float)


def tables(clients: pd.DataFrame | None, context: Context) -> list[dict[str, Any]]:
    """A table per variation, a row per client, the worst first; the first one is open.

    Clients that have names are the same under all seeds, and so have means over them; numbers are
    those of the first seed.
    """
    score = score_of(clients, context.metric)
    if clients is None or score is None:
        return []
    named = _named(clients, context.scenario)
    if not named:
        clients = pd.DataFrame(clients[clients["seed"] == clients["seed"].min()])
    seeds = len(set(clients["seed"]))
    shown = []
    for variant, table in by_variant(clients).items():
        drawn = _table(context.words(variant), table, score, context, named, seeds)
        is_open = named and not shown and len(drawn["rows"]) <= OPEN
        shown.append({**drawn, "open": is_open})
    return shown


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
    columns = _columns(table, score, context)
    head = ["client"]
    for column in columns:
        head.append(breakable(column.title))

    first = columns[0]
    worst_first = _worst_first(first, score)
    rows = []
    for client in worst_first[:MOST]:
        cells = [_cell(column, client) for column in columns]
        rows.append([(breakable(str(client)), str(client)), *cells])
    return {
        "title": title,
        "head": head,
        "rows": rows,
        "caption": _caption(score, first.title, context, named, seeds),
        "summary": _summary(len(rows), len(worst_first)),
    }


def _columns(table: pd.DataFrame, score: ClientScore, context: Context) -> list[Column]:
    """Scores of methods, ε of samples, samples, and rounds joined."""
    methods = context.ordered(list(map(str, table["method"].unique())))[:STRONG]
    by_method = {name: pd.DataFrame(table[table["method"] == name]) for name in methods}
    columns = []
    form = ".3f" if score.share else ".4g"
    for method, rows in by_method.items():
        columns.append(Column(method, form, _mean(rows, scores_of_method(rows, score))))
        if has_both(rows, score):
            own = np.asarray(rows[score.own], float)
            columns.append(Column(method + OWN, form, _mean(rows, own)))
    for method, rows in by_method.items():
        if _has_any(rows, "epsilon"):
            title = "ε of a sample"
            if len(by_method) > 1:
                title += f", {method}"
            columns.append(Column(title, ".4g", _mean(rows, np.asarray(rows["epsilon"], float))))

    any_rows = by_method[methods[0]]
    samples = np.asarray(any_rows["samples"], float)
    columns.append(Column("samples", COUNTED, _mean(any_rows, samples)))

    counted = {}
    for method, rows in by_method.items():
        if _has_any(rows, "rounds_joined"):
            counted[method] = _mean(rows, np.asarray(rows["rounds_joined"], float))
    first, *others = counted.values() or [{}]
    if counted and all(rounds == first for rounds in others):
        columns.append(Column("rounds joined", COUNTED, first))
    else:
        for name, rounds in counted.items():
            columns.append(Column(f"rounds joined, {name}", COUNTED, rounds))
    return columns


def _worst_first(column: Column, score: ClientScore) -> list[Any]:
    """The clients, those without a score last."""
    sign = 1 if score.rising else -1

    def rank(client: Any) -> tuple[bool, float]:
        number = column.numbers[client]
        if np.isnan(number):
            return True, 0.0
        return False, sign * number

    return sorted(column.numbers, key=rank)


def _mean(rows: pd.DataFrame, values: np.ndarray) -> dict[Any, float]:
    """The mean over the seeds by client; NaN where there is no number."""
    of_clients: dict[Any, list[float]] = {}
    for client, value in zip(rows["client"], values.tolist(), strict=True):
        numbers = of_clients.setdefault(client, [])
        if not np.isnan(value):
            numbers.append(value)
    means = {}
    for client, numbers in of_clients.items():
        means[client] = statistics.fmean(numbers or [np.nan])
    return means


def _cell(column: Column, client: Any) -> Cell:
    """The cell of a client; empty where it has no number."""
    value = column.numbers.get(client, np.nan)
    if np.isnan(value):
        return EMPTY
    return f"{value:{column.form}}", value


def _caption(score: ClientScore, first: str, context: Context, named: bool, seeds: int) -> str:
    words = score.words.capitalize()
    text = f"{words} on the client's own samples by method, the worst for {first} first"
    which = "of the first seed"
    if named:
        which = f"means over {count(seeds, 'seed')}"
    more = ""
    if len(context.order) > STRONG:
        more = f"; the first {STRONG} methods, clients.csv has all"
    return f"{text}; {which}{more}."


def _summary(shown: int, clients: int) -> str:
    if shown < clients:
        return f"The {shown} worst of {clients:,} clients"
    return f"All {clients} clients, the worst first"
