"""Methods with the same round share a panel; its pictures have every client and every step."""

import re

import pandas as pd
import pytest
from test_machine_pages import SCENARIO
from test_timelines import flying, plan_with

from fedsim.fields.machines.figures import figures
from fedsim.fields.machines.page import shown as shown_of
from fedsim.fields.machines.panels import WHY, panels
from fedsim.fields.machines.timelines import timeline
from fedsim.report.context import context_of

NAMES = ["wait", "again", "deadline", "fedbuff"]


@pytest.fixture
def table() -> pd.DataFrame:
    """The table of four methods, two of which have the same round."""
    wait, late = plan_with(), plan_with(deadline=15.0)
    flown = flying(speed=[3.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    frames = []
    for name, plan in zip(NAMES, (wait, wait, late, flown), strict=True):
        first = timeline(plan)
        assert first is not None
        frames += [pd.DataFrame(first._asdict()).assign(method=name, seed=seed) for seed in (3, 4)]
    return pd.concat(frames, ignore_index=True)


def test_methods_that_have_the_same_round_are_one_panel(table):
    parts = panels(table, NAMES)
    assert [part.names for part in parts] == [["wait", "again"], ["deadline"], ["fedbuff"]]
    assert [part.about for part in parts[:2]] == ["6 of 6 count", "3 of 6 count, 3 late"]
    assert parts[2].flights and parts[2].about.startswith("the server steps ")


def test_the_figure_has_a_bar_for_every_part_and_a_line_for_every_step(table):
    ((name, (figure,)),) = figures({"machines": table}, context_of(SCENARIO, order=NAMES))
    assert name == "machines"
    parts = panels(table, NAMES)
    for axes, part in zip(figure.axes, parts, strict=True):
        assert len(axes.patches) == sum(len(bar.phases) for bar in part.bars)
        lines = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
        assert lines == part.steps
    assert not list(figures({"machines": table.iloc[:0]}, context_of(SCENARIO)))


def test_the_page_has_a_picture_for_every_panel(table):
    shown = shown_of(table, NAMES)
    assert [one["title"] for one in shown["panels"]] == ["wait, again", "deadline", "fedbuff"]
    assert shown["omissions"] == [WHY, "Of 2 seeds, seed 3 is drawn."] and "who waits" in WHY
    wait, late, _ = (str(one["picture"]) for one in shown["panels"])
    assert wait.count('fill="var(--grey') == 18
    lost = re.findall(r'class="client lost"><title>(client \d+):', late)
    assert len(set(lost)) == 3
    assert shown_of(None, NAMES) is None
