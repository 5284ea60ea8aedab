"""A suite: tasks in their sizes, and a comparison for each of them."""

import pandas as pd
import pytest

from fedsim.errors import ScenarioError
from fedsim.study.grid import design_of
from fedsim.tools.suite.documentation import pages
from fedsim.tools.suite.execute import run_suite
from fedsim.tools.suite.tasks import tasks_of

BASE = """
name: base
rounds: 2
seeds: 1
data: {kind: gaussian_blobs, samples: 200, clients: 4, validation: 0.2}
client: {batch: 16, epochs: 1}
compare:
  budget: 2
  methods: [fedavg, fedprox(mu=0.1)]
  tune: {client.lr: "log(0.01, 1)"}
"""
SIZES = """
small:
  rounds: 1
  compare.budget: 3
  compare.methods: [fedavg, "fedprox(mu=log(1e-3, 1))"]
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with two tasks, what both build on, and sizes."""
    own = "extends: base.yaml\ncompare: {suite: 1, methods: [fedavg, median]}"
    (tmp_path / "first.yaml").write_text(own)
    (tmp_path / "second.yaml").write_text("extends: base.yaml\ncompare: {suite: 1}")
    (tmp_path / "base.yaml").write_text(BASE)
    (tmp_path / "sizes.yml").write_text(SIZES)
    return tmp_path


def test_tasks_are_the_scenarios_with_a_version_in_their_size(folder):
    """A size leaves what the file of a task says: the first one has methods of its own."""
    tasks = tasks_of([folder], "small", ["seeds=2"])
    assert [task.spec.name for task in tasks] == ["first", "second"]
    assert {(t.spec.rounds, len(t.spec.seeds), t.spec.compare.budget) for t in tasks} == {(1, 2, 3)}
    methods = [task.spec.compare.methods for task in tasks]
    assert methods == [["fedavg", "median"], ["fedavg", "fedprox(mu=log(1e-3, 1))"]]
    assert [len(design_of(task).cells) for task in tasks] == [6, 6]
    (as_written,) = tasks_of([folder / "first.yaml"], None, [])
    assert as_written.spec.rounds == 2


def test_what_is_no_suite_is_refused_in_one_line(folder):
    for names, size, text in (
        (["base.yaml"], None, "no task; a task is a scenario with compare.suite=1"),
        (["."], "smal", "no size 'smal'; did you mean 'small'"),
        (["first.yaml", "."], None, "'first' is the name of two tasks"),
    ):
        with pytest.raises(ScenarioError, match=text) as refusal:
            tasks_of([folder / name for name in names], size, [])
        assert "\n" not in str(refusal.value)


def test_every_task_is_on_the_page(root):
    names = {file.stem for file in (root / "scenarios/suite").glob("*.yaml")} - {"protocol"}
    table = lambda header, rows: "\n".join(" | ".join(row) for row in (header, *rows))
    page = "\n".join(pages(table)["suite.md"])
    for name in names:
        assert f"[`{name}`](../scenarios/suite/{name}.yaml)" in page
    assert "`compare.budget` | 4 | 16" in page


@pytest.mark.long
def test_a_task_that_fails_does_not_stop_the_others_and_resume_goes_on(folder, tmp_path):
    out = tmp_path / "out"
    (out / "first").mkdir(parents=True)
    (out / "first" / "notes.txt").write_text("in the way")
    tasks = tasks_of([folder], None, [])
    ended = list(run_suite(tasks, out, progress=False, pictures=False))
    assert [bool(task.code) for task in ended] == [True, False]

    (out / "first" / "notes.txt").unlink()
    before = (out / "second" / "summary.csv").read_bytes()
    ended = list(run_suite(tasks, out, resume=True, progress=False, pictures=False))
    assert [task.code for task in ended] == [0, 0]
    assert (out / "second" / "summary.csv").read_bytes() == before
    assert pd.read_csv(out / "first" / "compare.csv")["trials"].tolist() == [2, 2]
