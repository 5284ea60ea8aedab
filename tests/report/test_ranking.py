"""The order of methods: the baseline, then the best, in every table of a comparison."""

from test_paper_table import LONG, body, summary

from fedsim.disk.tables import read_table
from fedsim.report import tables
from fedsim.report.ranking import order_of
from fedsim.runs.export import exported


def test_the_baseline_is_first_and_then_the_best_as_on_the_terminal(root):
    assert order_of(summary(LONG), "median", "final") == ["median", *LONG[:-1]]
    losses = [{**row, "metric": "test_loss"} for row in summary(LONG)]
    assert order_of(losses, None, "final") == LONG[::-1]
    folder = root / "reports/optimisers"
    kept = read_table(folder, "summary")
    means = kept.groupby("method")["mean_last_k"].mean().drop("fedavg")
    order = ["fedavg", *means.sort_values(ascending=False).index]
    frame = tables.for_paper(kept, read_table(folder, "compare"), "mean_last_k")
    lines = tables.markdown(frame).split("\n")
    assert [line.split(" | ")[0].strip("| ") for line in lines][2:-1] == order
    rows = body(exported(folder, None, "latex").decode())
    assert [row[0].replace("\\_", "_") for row in rows][1:] == order


def test_over_variations_methods_stand_by_their_mean_rank():
    rows = summary(["a", "b", "c"], ["x=1"])
    rows += summary(["b", "c", "a"], ["x=2"])
    rows += summary(["c", "b", "a"], ["x=3"])
    assert order_of(rows, None, "final") == ["b", "c", "a"]  # ranks 2 1 2, 3 2 1, 1 3 3
