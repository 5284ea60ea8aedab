"""The runs in `reports/paper` are those of its command, and its figure follows from them."""

import re

import pytest
from test_paper_page import VARIED, kept  # noqa: F401 (a fixture)

import fedsim
from fedsim.report import derived, figures
from fedsim.report.context import context_of
from fedsim.report.ranking import order_of
from fedsim.scenario import read
from fedsim.study.grid import design_of


def test_it_is_of_the_command_that_is_written_beside_it(root, kept):  # noqa: F811
    about = (root / "reports/README.md").read_text()
    words = re.search(r"`paper/`.*?`fedsim compare (.*?)`", about)[1]
    path, methods, varied, *edits = re.fullmatch(
        r"(\S+) --methods '(.*?)' --vary (\S+) --set (\S+) --set (\S+) --out \S+", words
    ).groups()
    design = design_of(read(root / path, edits), methods, [varied])
    described = design.scenario.resolved()
    before = read(kept[2]).resolved()  # which was written before there were some of the keys
    left_out = {"numerics": None, "data": None, "title": None}
    assert {**before, **left_out} == {**described, **left_out}
    assert set(kept[1]["summary"]["method"]) == {cell.method for cell in design.cells}
    assert len(kept[1]["summary"]) == len(design.cells) * 10


@pytest.mark.long
def test_the_figure_follows_from_the_runs(kept):  # noqa: F811
    folder, tables, scenario = kept
    summary = tables["summary"].to_dict("records")
    order = order_of(summary, "mean", "final")
    starts = tables["rounds"].query("round == 0")
    frames = {"rounds": starts, "compare": tables["compare"]}
    context = context_of(scenario, summary, "final", order)
    pages = dict(derived.all_figures(frames, [], context))["scores"]
    drawn = figures.files_of(pages, "scores", formats=["pdf"])
    assert (folder / "figures/scores.pdf").read_bytes() == drawn["scores.pdf"]


@pytest.mark.long
def test_the_runs_are_those_of_the_scenario(kept):  # noqa: F811
    """One of the three hundred."""
    folder, tables, _ = kept
    edits = ["fleet.malicious=0.2", "server=[median]"]
    again = fedsim.run(folder / "scenario.yaml", seeds=[0], edits=edits)
    rows = tables["rounds"]
    mine = rows[(rows["method"] == "median") & (rows[VARIED] == 0.2) & (rows["seed"] == 0)]
    ends = [frame["test_accuracy"].iloc[-1] for frame in (again.rounds, mine)]
    assert ends[0] == pytest.approx(ends[1], abs=0.05)
