"""What the tasks of a process share."""

from types import SimpleNamespace

from fedsim.runs import sweep
from fedsim.runs.sweep import Builds


def cell(method: str) -> SimpleNamespace:
    return SimpleNamespace(key_columns={"method": method})


def test_a_cell_is_built_once_while_tasks_have_it(monkeypatch):
    built = []

    def build_cell(cell, devices, partition):
        built.append(cell.key_columns["method"])
        return object(), {}

    monkeypatch.setattr(sweep, "build_cell", build_cell)
    builds = Builds(partition=lambda *arguments: {})
    tasks = [["mean", "krum"], ["mean", "krum"], ["krum"], ["mean"]]
    kept = []
    for methods in tasks:
        builds.forget_all_but([(cell(method), (0,)) for method in methods])
        kept.append([builds.build(cell(method), []) for method in methods])

    assert built == ["mean", "krum", "mean"]  # forgotten in the third task
    assert kept[0] == kept[1] and kept[2] == kept[1][1:] and kept[3] != kept[0][:1]
