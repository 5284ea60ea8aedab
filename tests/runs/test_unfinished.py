"""Runs that have not ended: their mark, what varies among them, and how short they may become."""

import pytest
from directories import tiny

from fedsim.errors import CheckpointError
from fedsim.report.mark import in_latex, in_markdown
from fedsim.runs import commits
from fedsim.runs.unfinished import UnfinishedRun, axes_of, demand_reachable, mark_of_runs
from fedsim.scenario import read


def test_a_run_can_be_shortened_but_not_below_its_commit_nor_under_a_schedule_of_rounds(tmp_path):
    """A schedule over local steps does not count rounds, and neither does a plain number."""
    decay = {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 9}
    client = {"batch": 16, "epochs": 1}
    shorter = lambda **rate: read(tiny(rounds=5, client={**client, **rate}))
    at = lambda round: [UnfinishedRun("0", {}, 0, 9, commits.Committed({}, round, "running"))]
    demand_reachable(tmp_path, shorter(lr=0.1), at(5))
    demand_reachable(tmp_path, shorter(lr=decay, lr_per="step"), at(5))
    with pytest.raises(
        CheckpointError, match="seed 0: its last commit is of round 6, but rounds is 5"
    ):
        demand_reachable(tmp_path, shorter(lr=0.1), at(6))
    with pytest.raises(CheckpointError, match=r"client\.lr: cosine_decay_schedule counts rounds"):
        demand_reachable(tmp_path, shorter(lr=decay), at(5))


def test_the_mark_says_how_many_rounds_are_done():
    so_far = lambda round, status="running": UnfinishedRun(
        "", {}, 0, 200, commits.Committed({}, round, status)
    )
    assert mark_of_runs([so_far(40)]) == "unfinished: 40 of 200 rounds"
    assert (
        mark_of_runs([so_far(40), so_far(200, "done")])
        == "unfinished: 40 to 200 of 200 rounds, 1 of 2 runs ended"
    )
    assert mark_of_runs([UnfinishedRun("", {}, 0, 200, None)]) == "unfinished: 0 of 200 rounds"
    rows = "\\toprule\na & b \\\\\n\\midrule\n1 & 2 \\\\\n\\bottomrule\n"
    latex = f"\\begin{{tabular}}{{ll}}\n{rows}\\end{{tabular}}\n"
    marked = in_latex(latex, "unfinished: 1 of 2")
    assert "\\midrule\n\\multicolumn{2}{l}{\\emph{unfinished: 1 of 2}} \\\\\n\\bottomrule" in marked
    assert in_latex(latex, "") == latex
    assert in_markdown("| a |\n", "m") == "| a |\n\n*m*\n"
    assert in_markdown("x", "") == "x"


def test_axes_are_those_of_all_configurations():
    cells = [
        {"method": "fedavg", "variant": "a=1", "a": 1},
        {"method": "p", "variant": "a=1", "a": 1, "tuned": "b=2", "b": 2},
    ]
    assert axes_of({"cells": cells}) == axes_of({"cells": cells[::-1]}) == (["a"], ["b"])
    assert axes_of({"cells": [{"method": "fedavg"}]}) == axes_of({}) == ([], [])
