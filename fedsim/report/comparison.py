"""What came out of a comparison: frames, files, and a verdict in words."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report import figures, files, frames
from fedsim.report.frames import Record
from fedsim.report.result import ORDER, Result
from fedsim.study.grid import Cell
from fedsim.study.pairing import against, verdict


class Outcome(NamedTuple):
    """A cell of the grid that was run.

    Attributes:
      cell: which.
      who: first columns of its rows.
      result: None where it failed.
      reason: why it failed.
    """

    cell: Cell
    who: dict[str, Any]
    result: Result | None
    reason: str = ""


class Comparison:
    """What came out of a comparison.

    Attributes:
      rounds: a row per method, variation, seed and evaluated round, as in `rounds.csv`.
      clients: a row per method, variation, seed and client.
      partition: a row per variation, seed, client and label; methods share it.
      summary: a row per method, variation and seed; runs that failed or diverged too.
      timing: a row per evaluated round: what may differ between two equal comparisons.
      table: a row per method other than the baseline, as in `compare.csv`: paired differences, and how sure they are.
      verdict: the same in sentences.
      baseline: label of the method that the others are compared with.
      score: what of a run is compared: `final`, `best` or `mean_last_k`.
      outcomes: every configuration of the grid, with what came out of it.
      scenario: the resolved scenario without its grid.
      status: `done`, or `incomplete` where a run failed, diverged or was stopped.
      reasons: why, by label of the run.
    """

    def __init__(self, outcomes: Sequence[Outcome], scenario: dict[str, Any], baseline: str, score: str):
        self.outcomes = list(outcomes)
        self.scenario, self.baseline, self.score = scenario, baseline, score
        self.paths = list(dict.fromkeys(path for outcome in outcomes for path in outcome.cell.varied))
        self.records: dict[str, list[Record]] = {name: self._rows(name) for name in ORDER}
        self.records["compare"] = against(self.records["summary"], baseline, score)
        self.verdict = verdict(self.records["compare"], baseline)
        self.reasons = dict(self._reasons())
        self.status = "incomplete" if self.reasons else "done"

    def __repr__(self) -> str:
        return (
            f"<{len(self.outcomes)} configurations of {self.scenario['name']} against {self.baseline}: {self.status}>"
        )

    def order(self, name: str) -> list[str]:
        """Columns of a table, in their order."""
        own = frames.COMPARE if name == "compare" else ORDER[name]
        varied = ["variant", *self.paths] if self.paths else []
        more = ["status", "reason"] if name == "summary" else []
        after = 2 if name == "compare" else 1 if own[0] == "method" else 0
        return [*own[:after], *varied, *own[after:], *more]

    def _frame(self, name: str) -> pd.DataFrame:
        return frames.frame(self.records[name], self.order(name))

    @property
    def rounds(self) -> pd.DataFrame:
        return self._frame("rounds")

    @property
    def clients(self) -> pd.DataFrame:
        return self._frame("clients")

    @property
    def partition(self) -> pd.DataFrame:
        return self._frame("partition")

    @property
    def summary(self) -> pd.DataFrame:
        return self._frame("summary")

    @property
    def timing(self) -> pd.DataFrame:
        return self._frame("timing")

    @property
    def table(self) -> pd.DataFrame:
        return self._frame("compare")

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

    def state(self, method: str, seed: int, variant: str = "") -> dict[str, dict[str, Any]]:
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
        found = [o.result for o in self.outcomes if (o.cell.method, o.cell.variant) == (method, variant) and o.result]
        if not found:
            known = sorted({(o.cell.method, o.cell.variant) for o in self.outcomes if o.result})
            raise KeyError(f"no run of method={method!r}, variant={variant!r}; there are {known}")
        return found[0]

    def _rows(self, name: str) -> list[Record]:
        """Rows of one table over the whole grid, sorted by method, variation and seed whatever finished first."""
        rows: list[Record] = []
        dealt = set()
        for outcome in sorted(self.outcomes, key=lambda o: (o.cell.method, o.cell.variant)):
            if outcome.result is None:
                rows += self._failed(outcome) if name == "summary" else []
            elif name != "partition":
                rows += outcome.result.records[name]
            elif outcome.cell.variant not in dealt:  # the same for every method: they share their seeds
                dealt.add(outcome.cell.variant)
                who = {name: value for name, value in outcome.who.items() if name != "method"}
                rows += [{**who, **record} for record in outcome.result.records[name]]
        return rows

    def _failed(self, outcome: Outcome) -> list[Record]:
        seeds = outcome.cell.scenario.spec.seeds
        return [{**outcome.who, "seed": seed, "status": "failed", "reason": outcome.reason} for seed in seeds]

    def _reasons(self) -> Iterator[tuple[str, str]]:
        for outcome in self.outcomes:
            label = " ".join(filter(None, (outcome.cell.method, outcome.cell.variant)))
            if outcome.result is None:
                yield label, outcome.reason
            else:
                yield from ((f"{label}, seed {seed}", why) for seed, why in outcome.result.reasons.items())

    def save(self, path: Path, pictures: bool) -> None:
        """Write tables, pictures and models; every file is whole or as it was before."""
        for name, records in self.records.items():
            files.write(path / f"{name}.csv", frames.to_csv(records, self.order(name)))
        for outcome in self.outcomes:
            if outcome.result is not None:
                outcome.result.save_models(path)
        if pictures:
            drawn = figures.curves(self.rounds, self.scenario) if self.records["rounds"] else {}
            files.make_folder(path / "figures")
            for name, content in drawn.items():
                files.write(path / "figures" / name, content)
