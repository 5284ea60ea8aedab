"""What clients do and when: against plans and flights; its table, pictures and the page."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from by_hand import plan_of, speed_of
from conftest import own_kinds_of

import fedsim
from fedsim.disk.tables import read_table
from fedsim.fields.machines.figures import figures
from fedsim.fields.machines.links import Rates
from fedsim.fields.machines.machines import Dropout
from fedsim.fields.machines.page import shown as shown_of
from fedsim.fields.machines.panels import WHY, panels
from fedsim.fields.machines.timelines import timeline
from fedsim.fleet import Plan
from fedsim.report import page
from fedsim.report.context import context_of
from fedsim.report.derived import derived_files
from fedsim.report.page.left_out import classes_of, left_out
from fedsim.runs import derive

STEPS, STEP, DOWN, UP = 4, np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.0, 5.0  # seconds


ALL = own_kinds_of("cohort")["listed"]([list(range(6))])


def flying(speed, rounds=5) -> Plan:
    """Two clients at a time, a step each, of a server that steps with two messages."""
    timetable = own_kinds_of("timetable")["fedbuff"](buffer=2, concurrency=2)
    return plan_of(ALL, {"speed": speed_of(speed)}, timetable, sizes=[20] * 6, rounds=rounds)


def plan_with(**fleet) -> Plan:
    """Six clients in a round: a second down, and 4 steps, and a second up."""
    links = lambda clients, rng: Rates(DOWN, UP)
    fleet = {"speed": speed_of(STEP), "links": links, **fleet}
    return plan_of(ALL, fleet, sizes=[20] * 6, steps=STEPS, down=2, up=5)


def of(plan: Plan) -> dict[int, dict]:
    """The rows of a timeline by client."""
    first = timeline(plan)
    assert first is not None
    rows = pd.DataFrame(first._asdict()).to_dict("records")
    return {row["client"]: row for row in rows}


def test_nothing_is_shown_where_times_do_not_differ():
    assert timeline(plan_of(own_kinds_of("cohort")["all"]())) is None


# what a fleet does -> its keys, the outcomes, when messages are sent and clients end, and the round
ROUNDS: dict[str, tuple] = {
    "waits for the longest": (
        {}, ["joined"] * 6, [5, 9, 13, 17, 21, 25], [6, 10, 14, 18, 22, 26], 26,
    ),
    "cuts off who is late at the deadline": (
        {"deadline": 15.0}, ["joined"] * 3 + ["late"] * 3,
        [5, 9, 13, 15, 15, 15], [6, 10, 14, 15, 15, 15], 15,
    ),
    "takes the steps for which there is time, 3, 2 and 2": (
        {"deadline": 15.0, "partial": True}, ["joined"] * 3 + ["partial"] * 3,
        [5, 9, 13, 13, 11, 13], [6, 10, 14, 14, 12, 14], 14,
    ),
    "does not need more than two": (
        {"report_goal": 2}, ["joined"] * 2 + ["over-selected"] * 4,
        [5, 9, 10, 10, 10, 10], [6, 10, 10, 10, 10, 10], 10,
    ),
    "needs more than are in time": (
        {"report_goal": 5, "deadline": 15.0}, ["joined"] * 3 + ["late"] * 3,
        [5, 9, 13, 15, 15, 15], [6, 10, 14, 15, 15, 15], 15,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_is_that_worked_out_by_hand(name):
    fleet, outcomes, sends, ends, closes = ROUNDS[name]
    rows = of(plan_with(**fleet))
    column = lambda name: [rows[client][name] for client in range(6)]
    assert (column("outcome"), column("sends"), column("ends")) == (outcomes, sends, ends)
    assert column("begins") == [0] * 6 and column("trains") == [1] * 6
    assert column("closes") == [closes] * 6
    by_end = sorted(range(6), key=lambda client: ends[client])
    assert [rows[client]["place"] for client in by_end] == list(range(6))


@pytest.mark.parametrize("when", ["before", "during", "after"])
def test_who_leaves_is_there_until_then(when):
    rows = of(plan_with(dropout=Dropout(**{when: 1.0})))
    for client, row in rows.items():
        whole = 1 + STEPS * STEP[client]
        assert row["outcome"] == "left"
        assert row["trains"] <= row["sends"] <= row["ends"] <= row["closes"]
        if when == "before":
            assert row["trains"] == row["ends"] == 0
        elif when == "during":
            assert 1 <= row["sends"] == row["ends"] < whole
        else:
            assert row["ends"] == whole + 1


def test_flights_are_those_of_the_plan():
    """Two at a time, of 3 and of 2 seconds: who reports makes room for the next."""
    plan = flying(speed=[3.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    first = timeline(plan)
    assert first is not None
    rows = sorted(
        zip(*(column.tolist() for column in first), strict=True), key=lambda row: (row[2], row[1])
    )
    #       place client begins trains sends ends closes outcome
    assert rows[:4] == [
        (0, 0, 0.0, 0.0, 3.0, 3.0, 3.0, "joined"),
        (1, 1, 0.0, 0.0, 2.0, 2.0, 3.0, "joined"),
        (1, 2, 2.0, 2.0, 4.0, 4.0, 5.0, "joined"),
        (0, 3, 3.0, 3.0, 5.0, 5.0, 5.0, "joined"),
    ]
    state, closes = plan.begin(), []
    for r in range(1, 5):
        work, state = plan.round(r, state)
        closes += [float(state["clock"])] * len(work.ids)
    joined = first.closes[first.outcome == "joined"]
    assert joined.tolist() == closes[: len(joined)]
    for place in (0, 1):  # one after another, without a break
        mine = np.flatnonzero(first.place == place)
        assert (first.begins[mine][1:] == first.ends[mine][:-1]).all()


def test_a_flight_that_does_not_end_is_cut_off():
    speed = [90.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    rows = of(flying(speed=speed, rounds=2))
    assert rows[0]["outcome"] == "in flight"
    assert np.isnan(rows[0]["closes"])
    assert rows[0]["ends"] == 8.0


# ------------------------------------------------------------------------- pictures and page

NAMES = ["wait", "again", "deadline", "fedbuff"]
SCENARIO = {
    "name": "machines",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 12},
    "cohort": {"kind": "uniform", "size": 6},
    "client": {"lr": 0.1, "batch": 10, "epochs": 1},
    "fleet": {
        "speed": {"kind": "pareto"},
        "links": {"kind": "lognormal", "up": 5000.0, "down": 20000.0},
    },
}
BUFFER = {"schedule": {"kind": "fedbuff", "buffer": 3, "concurrency": 6}}
METHODS = [
    {"method": "fedavg", "label": "wait"},
    {"method": "fedavg", "label": "deadline", "set": {"fleet.deadline": 4.0}},
    {"method": "fedavg", "label": "fedbuff", "set": BUFFER},
]


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


@pytest.mark.long
def test_the_table_is_kept_and_the_page_shows_machines_ages_and_who_is_left_out(tmp_path):
    out = tmp_path / "out"
    comparison = fedsim.compare(SCENARIO, methods=METHODS, baseline="wait", out=out)
    table = read_table(out, "machines")
    assert table is not None and len(table) == len(comparison.machines)
    wait = table.query("method == 'wait' and seed == 0")
    rounds = comparison.rounds.query("method == 'wait' and seed == 0 and round == 1")
    assert len(wait) == 6 and wait["closes"].unique().tolist() == rounds["virtual_seconds"].tolist()
    assert all(check.ok for check in fedsim.verify(out).checks)

    record = json.loads((out / "run.json").read_text())
    files = derived_files(comparison.frames(), record)
    text = files["report.html"].decode()
    assert 'id="machines"' in text and "Who is left out" in text
    assert "wait: 6 of 6 count" in text
    assert 'id="seconds"' in text and files["figures/machines.png"].startswith(b"\x89PNG")
    ages = pd.DataFrame(
        {"method": "fedbuff", "seed": [0, 0, 1], "age": [0, 2, 0], "messages": [1, 1, 2]}
    )
    shown = page.page_of(
        [page.Source(record, {**derive.tables_of(out), "staleness": ages})]
    ).decode()
    assert "How old messages are" in shown and "fedbuff: 0.5 on average" in shown


# --------------------------------------------------------------- ages, and who is left out


def test_clients_are_told_apart_by_how_often_they_took_part():
    clients = pd.DataFrame({
        "method": "a", "seed": [0] * 4 + [1] * 4,
        "rounds_joined": [0, 1, 4, 7] * 2, "rounds_late": 0,
        "global_accuracy": [0.2, 0.4, 0.6, 0.8, 0.4, 0.6, 0.8, np.nan],
    })  # fmt: skip
    assert classes_of(np.array([0, 1, 4, 7])).tolist() == [0, 1, 2, 3]
    ((title, picture),) = left_out(clients, context_of({}, order=["a"]))
    assert title == "" and picture.rows[0].texts == ["0.300", "0.500", "0.700", "0.800"]
    assert (
        left_out(clients.drop(columns="rounds_late"), context_of({}))
        == left_out(None, context_of({}))
        == []
    )
