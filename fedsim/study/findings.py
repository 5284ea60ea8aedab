"""The findings of a comparison: its tables, and what all sentences about it need."""

import math
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.breakdown import untrained_scores
from fedsim.study.claims import BETTER, Claim
from fedsim.study.pairing import same_runs, without_baseline
from fedsim.study.regression import errors_of
from fedsim.study.standings import Standing, count_tests, standings
from fedsim.study.summary import (
    Record,
    grouped,
    has_score,
    in_words,
    is_federated,
    is_share,
    larger_is_better,
    metric_of,
    variation_of,
)
from fedsim.study.words import words_of


class Findings(NamedTuple):
    """A comparison as its sentences see it; made once, and every sentence is a template over it.

    Attributes:
      tables: rows by table: `compare` and `summary`, and `rounds`, `worst`, `breakdown`, `bytes`,
        `seconds` and `tuning` if there are any; `outside` has the rows of `summary` of methods that
        are not federated, which the others lack.
      baseline: label of the method that the others are compared with.
      score: one of `SCORES`.
      scenario: the scenario, as in `run.json`.
      metric: the metric that is compared; empty if no run has one.
      words: returns a variation in words.
      standings: methods by variation, the best first; without those that are not federated, unless
        the others are compared with one of them.
      outside: the methods that are not federated, likewise.
      repeats: variations in which every method has the same scores as in an earlier one, which is
        their value.
      start: by variation, the score of the untrained model, or else of guessing.
      errors: R² and MAE in words, by variation and method.
      tests: how many tests Holm's adjustment of `compare.csv` runs over.
    """

    tables: Mapping[str, Sequence[Record]]
    baseline: str
    score: str
    scenario: Mapping[str, Any] | None
    metric: str
    words: Callable[[str], str]
    standings: Mapping[str, Sequence[Standing]]
    outside: Mapping[str, Sequence[Standing]]
    repeats: Mapping[str, str]
    start: Mapping[str, float]
    errors: Mapping[tuple[str, str], str]
    tests: int

    def rows(self, table: str) -> Sequence[Record]:
        """Return the rows of a table; none if there is no such table."""
        return self.tables.get(table, ())

    @property
    def compared(self) -> list[Record]:
        """The rows of `compare.csv` without those of the baseline."""
        return without_baseline(self.rows("compare"))

    @property
    def distinct(self) -> dict[str, Sequence[Standing]]:
        """The standings without variations that repeat an earlier one."""
        return {name: group for name, group in self.standings.items() if name not in self.repeats}

    @property
    def metric_name(self) -> str:
        """The metric in words."""
        return in_words(self.metric)

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

    def claim(self, standing: Standing, variation: str) -> Claim:
        """Return the claim that a method differs from the baseline."""
        p = 1.0
        if standing.row:
            p = standing.row["p_adjusted"]
        return Claim(BETTER, standing.method, self.baseline, variation, p)

    def prefix(self, variation: str) -> str:
        """Return how a sentence about a variation begins, such as `With 20 % malicious: `."""
        if not variation:
            return ""
        return f"With {self.words(variation)}: "


def findings_of(
    tables: Mapping[str, Sequence[Record]],
    baseline: str,
    score: str = "final",
    scenario: Mapping[str, Any] | None = None,
    chance: Mapping[str, float] | None = None,
) -> Findings:
    """Return the findings of a comparison.

    Args:
      tables: rows by table, as in `Findings`.
      baseline: label of the method that the others are compared with.
      score: one of `SCORES`.
      scenario: the scenario, as in `run.json`, which gives names to what varies; without it, paths
        are shown as they are.
      chance: the score of guessing by variation (`chance_levels`); without it, no method is found
        to be at chance level.
    """
    rounds = tables.get("rounds", ())
    metric = metric_of(tables["summary"])
    by_variation = standings(tables["compare"], tables["summary"], baseline, score, chance)

    # Sentences rank federated methods alone, unless another one is the baseline.
    outside_rows = [row for row in tables["summary"] if not is_federated(row)]
    unranked = {row["method"] for row in outside_rows} - {baseline}
    ranked = {}
    outside = {}
    for variation, group in by_variation.items():
        outside[variation] = [s for s in group if s.not_federated]
        ranked_group = [s for s in group if s.method not in unranked]
        if ranked_group:
            ranked[variation] = ranked_group

    # No validation score chooses the setting of a method without a shared model.
    alone = {row["method"] for row in outside_rows if not has_score(row, score)}

    summary = _without(unranked, tables["summary"])
    ranked_tables = dict(tables)
    ranked_tables["outside"] = outside_rows
    ranked_tables["summary"] = summary
    ranked_tables["compare"] = _without(unranked, tables["compare"])
    ranked_tables["tuning"] = _without(alone, tables.get("tuning", ()))

    return Findings(
        tables=ranked_tables,
        baseline=baseline,
        score=score,
        scenario=scenario,
        metric=metric,
        words=words_of(scenario),
        standings=ranked,
        outside=outside,
        repeats=_repeats(summary, score),
        start={**(chance or {}), **untrained_scores(rounds, metric)},
        errors=errors_of(rounds, metric),
        tests=count_tests(by_variation),
    )


def _without(methods: Collection[str], rows: Sequence[Record]) -> list[Record]:
    """The rows of all other methods."""
    return [row for row in rows if row["method"] not in methods]


def _repeats(summary: Sequence[Record], score: str) -> dict[str, str]:
    """The variations that repeat the scores of an earlier one, with the name of that.

    Args:
      summary: rows of `summary.csv`.
      score: one of `SCORES`.
    """
    first: dict[Hashable, str] = {}
    repeats = {}
    for variation, runs in grouped(summary, key=variation_of).items():
        if all(run.get(score) is None for run in runs):
            continue
        scores = set()
        for method, method_runs in grouped(runs, key=lambda run: run["method"]).items():
            scores.add((method, same_runs(method_runs, score)))
        earlier = first.setdefault(frozenset(scores), variation)
        if earlier != variation:
            repeats[variation] = earlier
    return repeats
