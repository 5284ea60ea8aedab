"""The picture of a search: which settings are shown, how long, and in which order."""

import re

from fedsim.report.context import context_of
from fedsim.report.page.added import rungs_of
from fedsim.report.pictures.rungs import MOST, searches

SCENARIO = {"name": "s", "evaluate": {"metric": "test_accuracy"}}


def row(value, rung, score, method="m", chosen=0, metric="validation_accuracy", **more):
    """A row of `tuning.csv`."""
    keys = {"method": method, "tuned": f"client.lr={value}", "client.lr": value, "metric": metric}
    return {**keys, "validation_mean": score, "rung": rung, "chosen": chosen, **more}


TUNING = [
    row("0.1", 1, 0.3),
    row("0.2", 4, 0.7),
    row("0.3", 4, 0.8, chosen=1),
    row("0.4", 2, 0.6),
    row("0.5", 1, None),
]


def of(tuning, order=("m",)):
    return searches(tuning, context_of(SCENARIO, order=order))


def test_settings_that_were_played_longest_are_first_then_the_best():
    (search,) = of(TUNING)
    assert [setting.name for setting in search.settings] == ["0.3", "0.2", "0.4", "0.1", "0.5"]
    assert search.rungs == [1, 2, 4] and search.title == "m, client.lr"

    # Of losses the smallest are the best.
    (search,) = of([row("a", 2, 0.5, metric="test_loss"), row("b", 2, 0.4, metric="test_loss")])
    assert [setting.name for setting in search.settings] == ["b", "a"]


def test_methods_and_variations_have_a_picture_each_in_the_order_of_the_result():
    tuning = [row("1", 2, 0.5, "b"), row("1", 2, 0.5, "a", variant="client.epochs=2")]
    assert [search.method for search in of(tuning, order=("a", "b"))] == ["a", "b"]
    assert "2 local epochs" in of(tuning, order=("a", "b"))[0].title


def test_of_many_settings_those_that_ended_first_are_counted():
    tuning = [row(str(i), 1 + i % 2, i / 100) for i in range(MOST + 8)]
    (search,) = of(tuning)
    assert len(search.settings) == MOST and search.left_out == 8
    page = rungs_of(tuning, context_of(SCENARIO, order=["m"]))
    assert page is not None and "8 settings that ended first are not shown" in page


def test_the_page_has_the_scores_and_a_line_per_setting():
    assert rungs_of([row("0.1", None, 0.3)], context_of(SCENARIO)) is None  # no rungs
    page = rungs_of(TUNING, context_of(SCENARIO, order=["m"]))
    assert all(text in page for text in (">0.8<", ">0.6<", "its accuracy on validation samples"))
    lines = re.findall(r'<path d="M[\d.]+ [\d.]+l([\d.]+)', page)
    first, second, third, *others = map(float, lines)
    assert first == second > third > others[0] == others[1]
