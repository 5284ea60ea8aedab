"""How evenly methods serve the clients, on the page: a table of a few numbers for each method."""

from typing import Any

import numpy as np
import pandas as pd

from fedsim.report.context import Context
from fedsim.report.element import breakable
from fedsim.report.page.clients import ClientScore, score_of, scores_of_method
from fedsim.report.results import Cell
from fedsim.report.series import by_variant
from fedsim.study.evenness import Evenness, evenness

TITLES = ("mean", "worst 10 %", "standard deviation", "Gini")


def fairness(clients: pd.DataFrame | None, context: Context) -> dict[str, Any] | None:
    """The table of the clients' scores: means over the seeds; None without scores."""
    score = score_of(clients, context.metric)
    if clients is None or score is None:
        return None
    variants = by_variant(clients)
    several = len(variants) > 1
    rows = []
    for variant, table in variants.items():
        for method in context.ordered(list(map(str, table["method"].unique()))):
            numbers = _numbers(pd.DataFrame(table[table["method"] == method]), score)
            if not numbers:
                continue
            cells: list[Cell] = [(breakable(method), method)]
            if several:
                cells.append((context.words(variant), variant))
            for mean in np.mean(numbers, axis=0).tolist():
                cells.append((f"{mean:.3f}", mean))
            rows.append(cells)
    if not rows:
        return None

    words = ["method"]  # titles of the columns that are words
    if several:
        words.append("variation")
    return {"head": [*words, *TITLES], "rows": rows, "words": len(words), "about": score.words}


def _numbers(table: pd.DataFrame, score: ClientScore) -> list[Evenness]:
    seeds = np.asarray(table["seed"])
    scores = scores_of_method(table, score)
    numbers = []
    for seed in np.unique(seeds):
        of_seed = scores[seeds == seed]
        finite = of_seed[np.isfinite(of_seed)]
        if len(finite):
            numbers.append(evenness(finite, score.rising))
    return numbers
