"""Processes of a comparison get the runs that they have compiled, and are lost once."""

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from types import SimpleNamespace

import pytest
from test_compare import SCENARIO

from fedsim.runs.executor import all_runs, keys_of, next_family, tasks_by_family
from fedsim.runs.workers import Workers
from fedsim.scenario import read
from fedsim.study.grid import design_of


def test_a_process_whose_loss_is_seen_by_its_next_task_first_is_lost_once():
    read_nothing = SimpleNamespace()
    carrier = Workers(read_nothing, read_nothing, 2, None, None, read_nothing, lambda: False)
    broken = Future()
    broken.set_exception(BrokenProcessPool())

    def start(task):
        raise BrokenProcessPool

    carrier.starters, carrier.latest = {0: start}, {0: broken}
    with pytest.warns(UserWarning, match="a process of the comparison is gone") as caught:
        assert carrier.start([["a task"]]) == {}
        assert carrier.receive(broken) == ""
    assert len(caught) == 1


def test_processes_get_the_runs_that_they_have_compiled():
    vary = {"fleet.malicious": [0, 0.25], "client.lr": [0.05, 0.1], "wire": [[], ["sign_flip"]]}
    cells = design_of(read({**SCENARIO, "seeds": 5}), ["fedavg", "median"], vary).cells
    families = tasks_by_family(all_runs(cells), 2, most=16, least=2)
    dealt = [run for parts in families for part in parts for run in keys_of(part)]
    assert sorted(dealt) == sorted(keys_of(all_runs(cells)))
    kinds = [
        {(c.method, "sign_flip" in c.variant) for part in parts for c, _ in part}
        for parts in families
    ]
    # What differs in its data alone needs no other program.
    assert len(families) == 4 and all(len(kind) == 1 for kind in kinds)
    assert next_family(families, {}, 0) == 0
    assert next_family(families, {0: 0}, 1) == 1
    assert next_family(families, {0: 2, 1: 0}, 0) == 2  # its own
    left = [[], families[1][:1], families[2], []]
    assert next_family(left, {0: 0, 1: 1, 2: 2}, 0) == 2  # what has most left
    assert next_family([[], []], {0: 0}, 0) is None
    one_seed, rates = read({**SCENARIO, "seeds": 1}), {"client.lr": [0.05, 0.1, 0.2, 0.3]}
    alone = design_of(one_seed, ["fedavg"], rates).cells
    (parts,) = tasks_by_family(all_runs(alone), 2, most=16, least=2)
    assert [len(part) for part in parts] == [1, 1, 1, 1]  # all processes have work
