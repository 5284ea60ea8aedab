"""What the tasks of a process share."""

from types import SimpleNamespace

import pytest
from test_compare import SCENARIO

from fedsim.runs import sweep
from fedsim.runs.sweep import Builds
from fedsim.scenario import read


def cell(method: str, samples: int = 100) -> SimpleNamespace:
    """What `Builds` reads of a cell."""
    scenario = read({**SCENARIO, "data": {"kind": "gaussian_blobs", "samples": samples}})
    return SimpleNamespace(key_columns={"method": method}, scenario=scenario)


@pytest.fixture
def built(monkeypatch):
    """The methods of the cells that were built, in order."""
    methods = []

    def build_cell(cell, devices, partition):
        methods.append(cell.key_columns["method"])
        return object(), {}

    monkeypatch.setattr(sweep, "build_cell", build_cell)
    return methods


def test_a_cell_is_built_once_while_tasks_have_it(built):
    builds = Builds(partition=lambda *arguments: {})
    tasks = [["mean", "krum"], ["mean", "krum"], ["krum"], ["mean"]]
    kept = []
    for methods in tasks:
        builds.forget_all_but([(cell(method), (0,)) for method in methods])
        kept.append([builds.build(cell(method), []) for method in methods])

    assert built == ["mean", "krum", "mean"]  # forgotten in the third task
    assert kept[0] == kept[1] and kept[2] == kept[1][1:] and kept[3] != kept[0][:1]


def test_cells_over_other_samples_are_forgotten(built):
    builds = Builds(partition=lambda *arguments: {})
    first = builds.build(cell("mean", samples=100), [])
    assert builds.build(cell("mean", samples=100), []) is first
    builds.build(cell("mean", samples=200), [])
    assert builds.build(cell("mean", samples=100), []) is not first
    assert built == ["mean"] * 3 and len(builds.built) == 1
