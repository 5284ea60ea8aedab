"""The result of a comparison: frames, files, and a verdict in words."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.disk import tables
from fedsim.disk.tables import Record
from fedsim.runs.filenames import RunFiles, label_of
from fedsim.runs.result import TABLE_COLUMNS, Frame, Result, State, Tables
from fedsim.study.conclusions import conclusions
from fedsim.study.findings import findings_of
from fedsim.study.grid import Cell
from fedsim.study.guessing import chance_levels
from fedsim.study.summary import is_federated
from fedsim.study.tuning import Trial, tuned
from fedsim.study.verdict import Verdict, verdict

COLUMNS = {
    **TABLE_COLUMNS,
    "compare": tables.COMPARE,
    "across": tables.ACROSS,
    "profiles": tables.PROFILES,
    "worst": tables.WORST,
    "breakdown": tables.BREAKDOWN,
    "bytes": tables.BYTES,
    "seconds": tables.SECONDS,
    "tuning": tables.TUNING,
}


class Outcome(NamedTuple):
    """The outcome of a cell of the grid.

    Attributes:
      result: its result; None where it failed.
      large: whether it failed for want of memory.
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
      summary: a row per method, variation and seed, also of runs that failed or diverged.
      timing: a row per evaluated round: what may differ between two equal comparisons.
      table: a row per method, as in `compare.csv`: paired differences to the baseline, and how sure
        they are; of the baseline only its scores.
      across: a row per method over all variations together, as in `across.csv`; empty where nothing
        varies.
      profiles: a row per method and threshold, as in `profiles.csv`: the share of runs that are
        better; empty where nothing varies.
      worst: a row per method and other variation, as in `worst.csv`: the attack that hurts it most;
        empty where attacks do not vary.
      breakdown: a row per method and other variation, as in `breakdown.csv`: from how many
        malicious clients on it breaks down; empty where their number does not vary.
      bytes: a row per method and variation, as in `bytes.csv`: what its score costs in bytes; empty
        where all send the same and no run reached a target.
      seconds: a row per method and variation, as in `seconds.csv`: what its score takes in virtual
        seconds; empty where all take the same.
      tuning: a row per method, variation and setting that was tried, as in `tuning.csv`; empty
        where nothing was tuned.
      standings: the methods by variation, best first, each with its verdict.
      verdict: the table in a headline, a line of statistics and at most four sentences.
      edges: sentences that warn of a setting at the edge of what was tried, also those that the
        verdict leaves out.
      baseline: label of the method that the others are compared with.
      score: what is compared of a run: one of `SCORES`.
      outcomes: the outcome of every configuration that is reported.
      scenario: the resolved scenario without its grid.
      status: `done`, or `incomplete` where a run failed, diverged, was stopped or has not run.
      reasons: why, by label of the run.
    """

    table = Frame("compare")
    across = Frame()
    profiles = Frame()
    worst = Frame()
    breakdown = Frame()
    bytes = Frame()
    seconds = Frame()
    tuning = Frame()

    def __init__(
        self, outcomes: Sequence[Outcome], scenario: dict[str, Any], baseline: str, score: str
    ):
        self.scenario = scenario
        self.baseline = baseline
        self.score = score
        self.outcomes, tuning = _with_chosen_settings(list(outcomes), score)
        self.varied = list(dict.fromkeys(path for o in outcomes for path in o.cell.varied))
        self.tuned = list(dict.fromkeys(path for o in outcomes for path in o.cell.tuned))

        self.records = {name: self._rows(name) for name in TABLE_COLUMNS}
        self.records["tuning"] = tuning
        self.records |= conclusions(
            summary=self.records["summary"],
            tuning=tuning,
            baseline=baseline,
            score=score,
            varied=self.varied,
            rounds=self.records["rounds"],
            partition=self.partition,
        )

        conclusion = verdict_of(
            records=self.records,
            partition=self.partition,
            scenario=scenario,
            baseline=baseline,
            score=score,
            tuned=self.tuned,
        )
        self.standings = conclusion.standings
        self.verdict = conclusion.lines
        self.edges = conclusion.edges
        self.reasons = self._reasons()
        self.status = "incomplete" if self.reasons else "done"

    def __repr__(self) -> str:
        count = len(self.outcomes)
        name = self.scenario["name"]
        return f"<{count} configurations of {name} against {self.baseline}: {self.status}>"

    def _repr_html_(self) -> str:
        """The comparison in a notebook: the headline, the table, small curves."""
        from fedsim.report.notebook import html_of_comparison

        return html_of_comparison(self.frames(), self._shown_record())

    def _shown_record(self) -> dict[str, Any]:
        """What pictures and notebooks show, with the keys of `run.json`."""
        return {
            "scenario": self.scenario,
            "baseline": self.baseline,
            "score": self.score,
            "verdict": self.verdict,
            "status": self.status,
            "reasons": self.reasons,
        }

    def order(self, name: str) -> list[str]:
        """The columns of a table in order."""
        return columns_of(name, self.varied, self.tuned)

    def model(self, method: str, seed: int, variant: str = "") -> Any:
        """Final parameters of one run, as `Result.model`.

        Args:
          method: as in the `method` column.
          seed: the run's seed.
          variant: as in the `variant` column; empty where nothing varies.

        Raises:
          KeyError: when that run is not part of the comparison, or failed.
        """
        return self._result(method, variant).model(method, seed)

    def state(self, method: str, seed: int, variant: str = "") -> State:
        """The final state of server and clients of one run, as `Result.state`.

        Args:
          method: as in the `method` column.
          seed: the run's seed.
          variant: as in the `variant` column; empty where nothing varies.

        Raises:
          KeyError: when that run is not part of the comparison, or failed.
        """
        return self._result(method, variant).state(method, seed)

    def _result(self, method: str, variant: str) -> Result:
        results = {(o.cell.method, o.cell.variant): o.result for o in self.outcomes if o.result}
        if (method, variant) not in results:
            raise KeyError(
                f"no run of method={method!r}, variant={variant!r}; there are {sorted(results)}"
            )
        return results[method, variant]

    def _rows(self, name: str) -> list[Record]:
        """The rows of a table over the grid, sorted by method, variation and seed."""
        rows: list[Record] = []
        partitioned = set()  # variations, whose partitions all methods share
        outcomes = sorted(self.outcomes, key=lambda o: (o.cell.method, o.cell.variant))
        if name == "partition":
            # That of methods whose clients may be malicious, where there are any.
            outcomes.sort(key=_is_outside)
        for outcome in outcomes:
            cell = outcome.cell
            if outcome.result is None:
                if name == "summary":
                    rows += _failed_rows(outcome)
            elif name != "partition":
                rows += outcome.result.records[name]
            elif cell.variant not in partitioned:
                partitioned.add(cell.variant)
                shared = {key: value for key, value in cell.key_columns.items() if key != "method"}
                rows += [{**shared, **record} for record in outcome.result.records[name]]
        return rows

    def _reasons(self) -> dict[str, str]:
        """Why runs did not end as `done`, by label."""
        reasons = {}
        for outcome in self.outcomes:
            label = label_of(outcome.cell.key_columns)
            if outcome.result is None:
                reasons[label] = outcome.reason
            else:
                for seed, reason in outcome.result.reasons.items():
                    reasons[f"{label}, seed {seed}"] = reason
        return reasons

    def write_models(self, run_files: RunFiles) -> None:
        """Write the final shared variables of every run that has a result."""
        for outcome in self.outcomes:
            if outcome.result is not None:
                outcome.result.write_models(run_files)

    def _labels(self) -> list[str]:
        return [label_of(outcome.cell.key_columns) for outcome in self.outcomes]


def columns_of(name: str, varied: Sequence[str], tuned: Sequence[str] = ()) -> list[str]:
    """The columns of a comparison's table in order."""
    columns = list(COLUMNS[name])
    added = []
    if varied:
        added += ["variant", *varied]
    if tuned and (name in TABLE_COLUMNS or name == "tuning"):
        added += ["tuned", *tuned]
    if tuned and name == "compare":
        columns += tables.SENSITIVITY

    # They come after the method, where it is a column, and in `compare` also after the baseline.
    position = 0
    if name == "compare":
        position = 2
    elif columns[0] == "method":
        position = 1
    return [*columns[:position], *added, *columns[position:]]


def verdict_of(
    records: Mapping[str, Sequence[Record]],
    partition: pd.DataFrame | None,
    scenario: Mapping[str, Any],
    baseline: str,
    score: str,
    tuned: Sequence[str],
) -> Verdict:
    """The tables of a comparison in sentences, the headline first, with everything they claim."""
    metrics = (str(row["metric"]) for row in records["summary"] if row.get("metric"))
    chance = chance_levels(partition, next(metrics, ""))
    findings = findings_of(records, baseline, score, scenario, chance)
    return verdict(findings, tuned)


def _is_outside(outcome: Outcome) -> bool:
    """Whether a cell's method is not federated, so that nobody poisons its samples."""
    return outcome.result is not None and not all(
        is_federated(row) for row in outcome.result.records["summary"]
    )


def _failed_rows(outcome: Outcome) -> list[Record]:
    """The rows of `summary.csv` of a configuration that could not be run."""
    failure = {"status": "failed", "reason": outcome.reason}
    seeds = outcome.cell.scenario.spec.seeds
    return [{**outcome.cell.key_columns, "seed": seed, **failure} for seed in seeds]


def _with_chosen_settings(
    outcomes: list[Outcome], score: str
) -> tuple[list[Outcome], list[Record]]:
    """Choose the setting of every method and variation that validation data favour.

    Returns:
      The outcomes with the chosen settings, and the rows of `tuning.csv`.
    """
    groups: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.cell.method, outcome.cell.variant), []).append(outcome)
    if all(len(group) == 1 for group in groups.values()):
        return outcomes, []

    chosen = []
    rows = []
    for group in groups.values():
        if len(group) == 1:  # nothing is tuned of this method
            chosen += group
            continue
        trials = list(map(_trial, group))
        metric = group[0].cell.scenario.spec.evaluate.metric
        best, tuning = tuned(trials, metric, score)
        chosen.append(group[best])
        rows += tuning
    return chosen, rows


def _trial(outcome: Outcome) -> Trial:
    """A method with one of its settings; without rows where it failed."""
    cell = outcome.cell
    if outcome.result is None:
        return Trial(cell.key_columns, [], [], rung=cell.until, bracket=cell.bracket)
    records = outcome.result.records
    return Trial(
        key_columns=cell.key_columns,
        rounds=records["rounds"],
        summary=records["summary"],
        timing=records["timing"],
        rung=cell.until,
        bracket=cell.bracket,
    )
