"""What a comparison came to: its tables, and what all sentences about it know."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from fedsim.study.breakdown import untrained
from fedsim.study.claims import BETTER, Claim
from fedsim.study.pairing import others
from fedsim.study.regression import errors_of
from fedsim.study.standings import Standing, standings, tests_of
from fedsim.study.summary import Record, in_words, is_share, larger_is_better
from fedsim.study.words import words_of


class Findings(NamedTuple):
    """Made once; every sentence is a template over it.

    Attributes:
      tables: rows by table: `compare`, `summary`, and as far as there are any `rounds`, `worst`,
        `breakdown`, `bytes`, `seconds` and `tuning`.
      baseline: what methods are compared with.
      score: `final`, `best` or `mean_last_k`.
      scenario: as in `run.json`.
      metric: that is compared; empty where no run has one.
      words: a variation in words.
      standings: of the methods by variation, the best first.
      start: the score of the untrained models, or of guessing, by variation.
      errors: R² and MAE in words, by variation and method.
      tests: how many tests Holm's adjustment runs over.
    """

    tables: Mapping[str, Sequence[Record]]
    baseline: str
    score: str
    scenario: Mapping[str, Any] | None
    metric: str
    words: Callable[[str], str]
    standings: Mapping[str, Sequence[Standing]]
    start: Mapping[str, float]
    errors: Mapping[tuple[str, str], str]
    tests: int

    def rows(self, table: str) -> Sequence[Record]:
        """The rows of a table; none where there is no such table."""
        return self.tables.get(table, ())

    @property
    def compared(self) -> list[Record]:
        """The rows of `compare.csv` but the baseline's own."""
        return others(self.rows("compare"))

    @property
    def name(self) -> str:
        """The metric in words."""
        return in_words(self.metric)

    @property
    def rising(self) -> bool:
        """Whether more of the metric is better."""
        return larger_is_better(self.metric)

    def text(self, value: float | None) -> str:
        """A mean score: of a share three decimals, of others three digits."""
        if value is None or not math.isfinite(value):
            return "without bound"
        return f"{value:.3f}" if is_share(self.metric) else f"{value:.3g}"

    def claim(self, standing: Standing, variant: str) -> Claim:
        """That a method surely differs from the baseline."""
        p = standing.row["p_adjusted"] if standing.row else 1.0
        return Claim(BETTER, standing.method, self.baseline, variant, p)

    def start_of(self, variant: str) -> str:
        """How a sentence about a variation begins: `With 20 % malicious: `; with nothing where
        nothing varies.
        """
        return f"With {self.words(variant)}: " if variant else ""


def findings_of(
    tables: Mapping[str, Sequence[Record]],
    baseline: str,
    score: str = "final",
    scenario: Mapping[str, Any] | None = None,
    chance: Mapping[str, float] | None = None,
) -> Findings:
    """What the tables of a comparison come to.

    Args:
      tables: rows by table, as in `Findings`.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      scenario: as in `run.json`, for the names of what varies; left out: paths stay as they are.
      chance: what guessing gives, by variation (`chance_levels`); left out: nothing is said of it.
    """
    summary = tables["summary"]
    metric = next((str(run["metric"]) for run in summary if run.get("metric")), "")
    rounds = tables.get("rounds", ())
    known = standings(tables["compare"], summary, baseline, score, chance)
    return Findings(
        tables=tables,
        baseline=baseline,
        score=score,
        scenario=scenario,
        metric=metric,
        words=words_of(scenario),
        standings=known,
        start={**(chance or {}), **untrained(rounds, metric)},
        errors=errors_of(rounds, metric),
        tests=tests_of(known),
    )
