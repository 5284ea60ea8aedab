"""The findings of a comparison: its tables, and what all sentences about it need."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.scenario.shorthand import split_at_commas
from fedsim.study.methods import text_of
from fedsim.study.pairing import without_baseline
from fedsim.study.standings import Standing, count_tests, standings
from fedsim.study.summary import (
    OWN,
    Record,
    has_score,
    in_words,
    is_federated,
    is_share,
    larger_is_better,
    metric_of,
)
from fedsim.study.words import path_and_value, words_of


class Findings(NamedTuple):
    """A comparison as its sentences see it; made once, and every sentence is a template over it.

    Attributes:
      tables: rows by table: `compare` and `summary`, and `rounds`, `worst`, `breakdown`, `bytes`,
        `seconds` and `tuning` if there are any; without methods that are not federated.
      runs: rows of `summary.csv` of all methods.
      metric: the metric that is compared; empty if no run has one.
      asked: the variation that the comparison is about; empty if nothing varies.
      standings: methods by variation, the best first; without those that are not federated, unless
        the others are compared with one of them.
      all_standings: all methods by variation.
    """

    tables: Mapping[str, Sequence[Record]]
    runs: Sequence[Record]
    baseline: str
    score: str
    scenario: Mapping[str, Any] | None
    metric: str
    words: Callable[[str], str]
    asked: str
    standings: Mapping[str, Sequence[Standing]]
    all_standings: Mapping[str, Sequence[Standing]]
    tests: int

    def rows(self, table: str) -> Sequence[Record]:
        """Return the rows of a table; none if there is no such table."""
        return self.tables.get(table, ())

    @property
    def compared(self) -> list[Record]:
        """The rows of `compare.csv` without those of the baseline."""
        return without_baseline(self.rows("compare"))

    @property
    def metric_name(self) -> str:
        """The metric in words: on the clients' own test samples, if that is the score."""
        return f"own {in_words(self.metric)}" if self.score == OWN else in_words(self.metric)

    @property
    def rising(self) -> bool:
        """Whether a larger value of the metric is better."""
        return larger_is_better(self.metric)

    def score_text(self, mean: float | None) -> str:
        """Return a mean score: a share with three decimals, any other with three digits."""
        if mean is None or not math.isfinite(mean):
            return "∞"
        if is_share(self.metric):
            return f"{mean:.3f}"
        return f"{mean:z.3g}"


def findings_of(
    tables: Mapping[str, Sequence[Record]],
    baseline: str,
    score: str = "final",
    scenario: Mapping[str, Any] | None = None,
    chance: Mapping[str, float] | None = None,
) -> Findings:
    """Return the findings of a comparison.

    Args:
      scenario: the scenario, as in `run.json`, which gives names to what varies; without it, paths
        are shown as they are.
      chance: the score of guessing by variation (`chance_levels`); without it, no method is found
        to be at chance level.
    """
    by_variation = standings(tables["compare"], tables["summary"], baseline, score, chance)

    # Sentences rank federated methods alone, unless another one is the baseline.
    outside_rows = [row for row in tables["summary"] if not is_federated(row)]
    unranked = {row["method"] for row in outside_rows} - {baseline}
    ranked = {}
    for variation, group in by_variation.items():
        ranked_group = [standing for standing in group if standing.method not in unranked]
        if ranked_group:
            ranked[variation] = ranked_group

    # No validation score chooses the setting of a method without a shared model.
    alone = {row["method"] for row in outside_rows if not has_score(row, score)}

    ranked_tables = dict(tables)
    ranked_tables["summary"] = _without(unranked, tables["summary"])
    ranked_tables["compare"] = _without(unranked, tables["compare"])
    ranked_tables["tuning"] = _without(alone, tables.get("tuning", ()))

    return Findings(
        tables=ranked_tables,
        runs=tables["summary"],
        baseline=baseline,
        score=score,
        scenario=scenario,
        metric=metric_of(tables["summary"]),
        words=words_of(scenario),
        asked=asked_of(list(ranked), scenario),
        standings=ranked,
        all_standings=by_variation,
        tests=count_tests(by_variation),
    )


def _without(methods: Collection[str], rows: Sequence[Record]) -> list[Record]:
    """The rows of all other methods."""
    return [row for row in rows if row["method"] not in methods]


def asked_of(variations: Sequence[str], scenario: Mapping[str, Any] | None) -> str:
    """Return the variation that a comparison is about; empty if there is none.

    It has the values of `compare.question`, and along all other axes their last ones.
    """
    compare = (scenario or {}).get("compare") or {}
    places: dict[str, list[str]] = {}
    for path, values in (compare.get("vary") or {}).items():
        places[path] = list(map(text_of, values))
    question = {path: text_of(value) for path, value in (compare.get("question") or {}).items()}

    def rank(variation: str) -> list[tuple[bool, int]]:
        """It is larger for what is asked, and then for later values."""
        ranks = []
        for path, value in map(path_and_value, split_at_commas(variation)):
            values = places.get(path, [])
            place = values.index(value) if value in values else -1
            ranks.append((question.get(path) == value, place))
        return ranks

    return max(reversed(variations), key=rank, default="")
