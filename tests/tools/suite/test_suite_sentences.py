"""Sentences about a suite say what is told apart and what is open, and claim little on noise."""

import math

import numpy as np
import pytest

from fedsim.tools.suite import tables
from fedsim.tools.suite.analysis import analysed
from fedsim.tools.suite.results import Task
from fedsim.tools.suite.sentences import across_lines, headline, notes, task_lines

CLAIMS = (" beats ", " is better than ")


def task(name, scores, metric="test_accuracy", baseline="a", **tables):
    """A task with some scores by method; a method with None has no shared model."""
    summary = []
    for method, values in scores.items():
        if values is None:
            summary.append({"method": method, "seed": 0, "not_federated": "alone"})
            continue
        for seed, value in enumerate(values):
            row = {"method": method, "seed": seed, "metric": metric, "diverged": 0}
            summary.append({**row, "final": float(value)})
    names = ("compare", "rounds", "timing", "tuning")
    of_task = {"summary": summary, **{name: tables.get(name, []) for name in names}}
    return Task(name, metric, "final", baseline, of_task, lost={})


def lines_of(analysis):
    """All sentences."""
    return [headline(analysis), *across_lines(analysis), *task_lines(analysis), *notes(analysis)]


def test_few_seeds_are_named_with_how_many_it_takes():
    scores = {name: np.arange(8) / 20 + rank for rank, name in enumerate("abcdefgh")}
    analysis = analysed([task("one", scores)])
    assert headline(analysis).startswith("Over 1 task, no clear difference: with 8 seeds and 28")
    (line,) = task_lines(analysis)
    assert "8 seeds and 28 pairs, no two methods can be told apart, which takes at least 11" in line
    assert not any(claim in line for line in lines_of(analysis) for claim in CLAIMS)


def test_what_is_told_apart_is_said_and_what_is_not_is_open():
    noise = np.random.default_rng(0).normal(0, 0.01, (2, 3, 9))
    tasks = []
    for number in range(2):
        a, b, c = noise[number] + 0.5
        tasks.append(task(f"task{number}", {"a": a, "b": b + 0.3, "c": c, "alone": None}))
    tasks[0] = tasks[0]._replace(cautions=["In 9 of 10 seeds, ..."])
    analysis = analysed(tasks)
    assert "task0: In 9 of 10 seeds, ..." in notes(analysis)
    assert headline(analysis).startswith("Over 2 tasks, b beats a and c: mean test accuracy 0.")
    lines = lines_of(analysis)
    assert any("alone has no score" in line and "data.client_test" in line for line in lines)
    assert any("may still differ" in line for line in lines)
    rows = {(row["method"], row["other"]): row for row in tables.overall_pair_rows(analysis)}
    counts = {pair: (row["wins"], row["open"], row["losses"]) for pair, row in rows.items()}
    assert counts == {("a", "b"): (0, 0, 2), ("a", "c"): (0, 2, 0), ("b", "c"): (2, 0, 0)}
    assert rows["a", "c"]["outcome"] == "open"


def noise_suites(number, shared):
    """Suites in which no method is better: three methods, three tasks, eight seeds.

    `shared` is how much a method's luck under a seed is the same in all tasks.
    """
    rng = np.random.default_rng(5)
    for _ in range(number):
        scores = rng.normal(size=(3, 3, 8)) + shared * rng.normal(size=(3, 1, 8))  # tasks: axis 1
        yield [task(f"t{i}", dict(zip("abc", scores[:, i], strict=True))) for i in range(3)]


@pytest.mark.long
def test_on_noise_every_sentence_is_wrong_in_at_most_five_percent():
    number = 300
    most = number * 0.05 + 3 * math.sqrt(number * 0.05 * 0.95)
    for shared in (0.0, 2.0):
        over_tasks = 0
        in_task = np.zeros(3)
        for tasks in noise_suites(number, shared):
            analysis = analysed(tasks)
            over_tasks += any(" beats " in line for line in lines_of(analysis))
            in_task += [" is better than " in line for line in task_lines(analysis)]
        assert 0 < over_tasks <= most and (0 < in_task).all() and (in_task <= most).all()
