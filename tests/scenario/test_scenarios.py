"""Every shipped scenario runs, and its results match the numbers in its comments.

The comments of the scenarios to learn from hold a table. Its header names the number of seeds
and the columns; each line below it is what a reader would type after `fedsim run FILE`, and the
means of the results over the seeds:

    #   means of 5 seeds            mean_last_k     sd
    #   unchanged                         0.952  0.008
    #   --set method=fedavg               0.931  0.010
"""

import functools
import math
import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pytest
from conftest import ROOT, shipped

import fedsim
from fedsim.scenario import read

pytestmark = pytest.mark.optimised

FOLDER = ROOT / "scenarios"
FOR_COMPARE = FOLDER / "hospitals.yaml"  # which `fedsim run` refuses
LESSONS = [path for path in sorted(FOLDER.glob("*.yaml")) if path != FOR_COMPARE]
OTHERS = [path for path in shipped() if path not in LESSONS]
each_lesson = pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)


class Line(NamedTuple):
    """A line of a table."""

    path: Path
    seeds: int
    command: str
    stated: dict[str, str]

    @property
    def edits(self) -> tuple[str, ...]:
        """The arguments of --set, as a shell passes them."""
        words = shlex.split(self.command) if self.command != "unchanged" else []
        assert words[::2] == ["--set"] * (len(words) // 2), self.command
        return tuple(words[1::2])


def table(path: Path) -> list[Line]:
    """The lines of the table in a scenario's comments."""
    lines, seeds, columns = [], 0, []
    for text in path.read_text(encoding="utf-8").split("\n"):
        if header := re.fullmatch(r"#   means of (\d+) seeds((?:\s+\w+)+)", text):
            seeds, columns = int(header[1]), header[2].split()
        elif row := re.fullmatch(r"#   (unchanged|--set .+?)\s{2,}([-\d.]+(?:\s+[-\d.]+)*)", text):
            lines.append(Line(path, seeds, row[1], dict(zip(columns, row[2].split(), strict=True))))
    return lines


LINES = [line for path in LESSONS for line in table(path)]


@functools.cache
def run(path: Path, seeds: int, edits: tuple[str, ...] = ()) -> fedsim.Result:
    return fedsim.run(path, seeds=seeds, edits=edits)


def late(result: fedsim.Result) -> pd.DataFrame:
    """The last rounds of every seed, those of `mean_last_k` (all of these evaluate every round)."""
    rounds = result.rounds
    return rounds[rounds["round"] > rounds["round"].max() - result.scenario["evaluate"]["last"]]


def measured(line: Line) -> dict[str, float]:
    """Whatever a table may have as a column; NaN for a target that not every seed reaches."""
    result = run(line.path, line.seeds, line.edits)
    summary = result.summary
    reached = summary[["rounds_to_target", "bytes_to_target"]].astype(float).mean(skipna=False)
    return {
        "mean_last_k": summary["mean_last_k"].mean(),
        "sd": summary["mean_last_k"].std(),
        "rounds_to_target": reached["rounds_to_target"],
        "MB_to_target": reached["bytes_to_target"] / 1e6,
        "MB": result.rounds[["bytes_up", "bytes_down"]].max().sum() / 1e6,
        "test_loss": late(result)["test_loss"].mean(),
        "train_loss": late(result)["train_loss"].mean(),
    }


def tolerance(column: str, value: float, sd: float) -> float:
    """Other processors round differently, which after many rounds is like another seed."""
    relative = {"rounds_to_target": 0.2, "MB_to_target": 0.2, "test_loss": 0.1, "train_loss": 0.1}
    absolute = {"mean_last_k": 0.01 + sd, "sd": 0.01 + sd, "rounds_to_target": 2, "MB": 0.01}
    return max(absolute.get(column, 0), value * relative.get(column, 0))


@pytest.mark.long
@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_every_shipped_scenario_runs_shortened(path):
    edits = ["evaluate.every=1", "data.holdout=null"]
    result = fedsim.run(path, rounds=2, seeds=1, edits=edits)
    assert result.status == "done" and result.rounds["round"].tolist() == [0, 1, 2]


@each_lesson
def test_a_file_starts_with_its_schema_and_has_its_command_and_name(path):
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=schema.json\n# ")
    assert f"\n#\n#   fedsim run scenarios/{path.name}\n#\n" in text
    assert f"\nname: {path.stem}\n" in text
    assert max(map(len, text.split("\n"))) <= 120


@each_lesson
def test_every_proposed_change_is_understood_and_states_its_result(path):
    lines = table(path)
    assert all(read(path, line.edits) for line in lines)
    assert lines[0].command == "unchanged"
    assert len({line.command for line in lines}) == len(lines) > 1
    understood = sum(line.command.count("--set ") for line in lines)
    assert path.read_text(encoding="utf-8").count("--set ") == understood


@pytest.mark.long
@pytest.mark.share(len(LINES))
@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.path.stem} {line.command}")
def test_results_match_the_comments(line):
    results = measured(line)
    for column, stated in line.stated.items():
        if stated == "-":
            assert math.isnan(results[column]), f"{column}: every seed reached the target"
        else:
            near = tolerance(column, float(stated), float(line.stated["sd"]))
            assert results[column] == pytest.approx(float(stated), abs=near), column


@pytest.mark.long
def test_clients_of_the_skewed_scenarios_are_as_described(root):
    skewed = fedsim.run(root / "scenarios/dirichlet.yaml", seeds=5, edits=["rounds=0"]).clients
    assert skewed["classes"].quantile([0.25, 0.75]).tolist() == [4, 6]
    assert skewed["classes"].min() == 1
    assert skewed["samples"].min() == 2 and 45 <= skewed["samples"].max() <= 60
    for name in ("pathological", "scaffold"):
        clients = fedsim.run(root / f"scenarios/{name}.yaml", edits=["rounds=0"]).clients
        assert (clients["classes"] == 2).all()
