"""The result of a comparison: frames, files, and a verdict in words."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk import files, tables
from fedsim.disk.tables import Record
from fedsim.runs.filenames import Layout, label_of, names_of
from fedsim.runs.result import OPTIONAL, ORDER, Result, State, Tables
from fedsim.study.conclusions import conclusions
from fedsim.study.findings import findings_of
from fedsim.study.grid import Cell
from fedsim.study.standings import chance_levels
from fedsim.study.tuning import Trial, tuned
from fedsim.study.verdict import Verdict, verdict

MORE = {
    "compare": tables.COMPARE,
    "across": tables.ACROSS,
    "profiles": tables.PROFILES,
    "worst": tables.WORST,
    "breakdown": tables.BREAKDOWN,
    "bytes": tables.BYTES,
    "seconds": tables.SECONDS,
    "tuning": tables.TUNING,
}
TRIED = ("rounds", "summary")  # tables by which a setting is chosen


class Outcome(NamedTuple):
    """A cell of the grid that was run.

    Attributes:
      cell: of the grid.
      result: None where it failed.
      reason: why it failed.
      large: whether for want of memory.
    """

    cell: Cell
    result: Result | None
    reason: str = ""
    large: bool = False


class Comparison(Tables):
    """The result of a comparison.

    Attributes:
      rounds: a row per method, variation, seed and evaluated round, as in `rounds.csv`.
      clients: a row per method, variation, seed and client.
      partition: a row per variation, seed, client and label; methods share it.
      summary: a row per method, variation and seed; runs that failed or diverged too.
      timing: a row per evaluated round: what may differ between two equal comparisons.
      table: a row per method, as in `compare.csv`: paired differences to the baseline, and how sure
        they are; of the baseline its scores alone.
      across: a row per method over all variations together, as in `across.csv`; empty where nothing
        varies.
      profiles: a row per method and threshold, as in `profiles.csv`: the share of runs that are
        better; empty likewise.
      worst: a row per method and other variation, as in `worst.csv`: the attack that hurts it most;
        empty where attacks do not vary.
      breakdown: a row per method and other variation, as in `breakdown.csv`: from how many
        malicious clients on it falls apart; empty where their number does not vary.
      bytes: a row per method and variation, as in `bytes.csv`: what its score costs in bytes; empty
        where all send the same and no run reached a target.
      seconds: a row per method and variation, as in `seconds.csv`: what its score takes in virtual
        seconds; empty where all take the same.
      tuning: a row per method, variation and setting that was tried, as in `tuning.csv`; empty
        where nothing was tuned.
      standings: of the methods by variation, the best first, each with what is to be said of it.
      verdict: the table in at most six sentences, the headline first.
      edges: sentences that warn of a setting at the edge of what was tried, whether they are among
        those or not.
      baseline: label of the method that the others are compared with.
      score: what of a run is compared: `final`, `best` or `mean_last_k`.
      outcomes: every configuration that is reported, with its result.
      scenario: the resolved scenario without its grid.
      status: `done`, or `incomplete` where a run failed, diverged, was stopped or has not run.
      reasons: why, by label of the run.
    """

    def __init__(
        self, outcomes: Sequence[Outcome], scenario: dict[str, Any], baseline: str, score: str
    ):
        self.scenario, self.baseline, self.score = scenario, baseline, score
        self.outcomes, tuning = _chosen(list(outcomes), score)
        self.varied = list(dict.fromkeys(path for o in outcomes for path in o.cell.varied))
        self.tuned = list(dict.fromkeys(path for o in outcomes for path in o.cell.tuned))
        self.records = {name: self._rows(name) for name in ORDER}
        self.records["tuning"] = tuning
        rounds = self.records["rounds"]
        self.records |= conclusions(
            self.records["summary"], tuning, baseline, score, self.varied, rounds
        )
        about = said(self.records, self.partition, scenario, baseline, score, self.tuned)
        self.standings = about.standings
        self.verdict = about.lines
        self.edges = about.edges
        self.reasons = dict(self._reasons())
        self.status = "incomplete" if self.reasons else "done"

    def __repr__(self) -> str:
        count, name = len(self.outcomes), self.scenario["name"]
        return f"<{count} configurations of {name} against {self.baseline}: {self.status}>"

    def order(self, name: str) -> list[str]:
        """Columns of a table, in their order."""
        return ordered(name, self.varied, self.tuned)

    @property
    def table(self) -> pd.DataFrame:
        return self._frame("compare")

    @property
    def across(self) -> pd.DataFrame:
        return self._frame("across")

    @property
    def profiles(self) -> pd.DataFrame:
        return self._frame("profiles")

    @property
    def worst(self) -> pd.DataFrame:
        return self._frame("worst")

    @property
    def breakdown(self) -> pd.DataFrame:
        return self._frame("breakdown")

    @property
    def bytes(self) -> pd.DataFrame:
        return self._frame("bytes")

    @property
    def seconds(self) -> pd.DataFrame:
        return self._frame("seconds")

    @property
    def tuning(self) -> pd.DataFrame:
        return self._frame("tuning")

    def model(self, method: str, seed: int, variant: str = "") -> Any:
        """Final shared parameters of one run, as `Result.model`.

        Args:
          method: as in the `method` column.
          seed: of the run.
          variant: as in the `variant` column; empty where nothing varies.

        Raises:
          KeyError: when that run is not part of the comparison, or failed.
        """
        return self._one(method, variant).model(method, seed)

    def state(self, method: str, seed: int, variant: str = "") -> State:
        """What server and clients of one run remember at the end, as `Result.state`.

        Args:
          method: as in the `method` column.
          seed: of the run.
          variant: as in the `variant` column; empty where nothing varies.

        Raises:
          KeyError: when that run is not part of the comparison, or failed.
        """
        return self._one(method, variant).state(method, seed)

    def _one(self, method: str, variant: str) -> Result:
        results = {(o.cell.method, o.cell.variant): o.result for o in self.outcomes if o.result}
        if (method, variant) not in results:
            raise KeyError(
                f"no run of method={method!r}, variant={variant!r}; there are {sorted(results)}"
            )
        return results[method, variant]

    def _rows(self, name: str) -> list[Record]:
        """Rows of one table over the whole grid, sorted by method, variation and seed whatever
        finished first.
        """
        rows: list[Record] = []
        partitioned = set()
        for outcome in sorted(self.outcomes, key=lambda o: (o.cell.method, o.cell.variant)):
            if outcome.result is None:
                rows += _failed(outcome) if name == "summary" else []
            elif name != "partition":
                rows += outcome.result.records[name]
            elif (
                outcome.cell.variant not in partitioned
            ):  # the same for every method: they share their seeds
                partitioned.add(outcome.cell.variant)
                who = {name: value for name, value in outcome.cell.who.items() if name != "method"}
                rows += [{**who, **record} for record in outcome.result.records[name]]
        return rows

    def _reasons(self) -> Iterator[tuple[str, str]]:
        for outcome in self.outcomes:
            label = label_of(outcome.cell.who)
            if outcome.result is None:
                yield label, outcome.reason
            else:
                yield from (
                    (f"{label}, seed {seed}", reason)
                    for seed, reason in outcome.result.reasons.items()
                )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write tables and models into a folder; every file is whole or as it was before."""
        labels = [label_of(outcome.cell.who) for outcome in self.outcomes]
        self.write(Layout(Path(path), names_of(labels)))

    def write(self, layout: Layout) -> None:
        """Write tables and models where the directory of a comparison has them."""
        for name, records in self.records.items():
            if records or (name in ORDER and name not in OPTIONAL) or name == "compare":
                files.write(layout.path / f"{name}.csv", tables.to_csv(records, self.order(name)))
            else:  # of an earlier state there may be one
                files.remove(layout.path / f"{name}.csv")
        for outcome in self.outcomes:
            if outcome.result is not None:
                outcome.result.write_models(layout)


def ordered(name: str, varied: Sequence[str], tuned: Sequence[str] = ()) -> list[str]:
    """Columns of a comparison's table, in their order.

    Args:
      name: of the table.
      varied: paths that vary.
      tuned: paths that were tuned.
    """
    columns = {**MORE, **ORDER}[name]
    variant = ["variant", *varied] if varied else []
    setting = ["tuned", *tuned] if tuned and name in (*ORDER, "tuning") else []
    more = tables.SENSITIVITY if name == "compare" and tuned else []
    after = 2 if name == "compare" else 1 if columns[0] == "method" else 0
    return [*columns[:after], *variant, *setting, *columns[after:], *more]


def said(
    records: Mapping[str, Sequence[Record]],
    partition: pd.DataFrame | None,
    scenario: Mapping[str, Any],
    baseline: str,
    score: str,
    tuned: Sequence[str],
) -> Verdict:
    """The tables of a comparison in sentences, the headline first, with all that they claim.

    Args:
      records: the rows of all of its tables.
      partition: the columns of `partition.csv`.
      scenario: resolved.
      baseline: label of the method that the others are compared with.
      score: `final`, `best` or `mean_last_k`.
      tuned: paths that were tuned.
    """
    metric = next((str(row["metric"]) for row in records["summary"] if row.get("metric")), "")
    chance = chance_levels(partition, metric)
    return verdict(findings_of(records, baseline, score, scenario, chance), tuned)


def _failed(outcome: Outcome) -> list[Record]:
    """Rows of `summary.csv` of a configuration that could not be run."""
    failure = {"status": "failed", "reason": outcome.reason}
    return [
        {**outcome.cell.who, "seed": seed, **failure} for seed in outcome.cell.scenario.spec.seeds
    ]


def _chosen(outcomes: list[Outcome], score: str) -> tuple[list[Outcome], list[Record]]:
    """Of every method and variation the setting that validation data favour -> (those, rows of
    `tuning.csv`).
    """
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.cell.method, outcome.cell.variant), []).append(outcome)
    if all(len(group) == 1 for group in groups.values()):
        return outcomes, []
    kept, rows = [], []
    for group in groups.values():
        if len(group) == 1:  # of this method nothing is tuned
            kept.append(group[0])
            continue
        trials = [
            Trial(o.cell.who, *(o.result.records[n] if o.result else [] for n in TRIED))
            for o in group
        ]
        best, tuning = tuned(trials, group[0].cell.scenario.spec.evaluate.metric, score)
        kept.append(group[best])
        rows += tuning
    return kept, rows
