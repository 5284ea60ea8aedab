"""Kaplan-Meier curves of clients are those of lifelines: in the table, on the page, in figures."""

import numpy as np
import pandas as pd
import pytest
from rossi import OWNERS, X, Y, scenario

import fedsim
from fedsim.fields.survival.figures import figures
from fedsim.fields.survival.lines import steps_of
from fedsim.fields.survival.page import section
from fedsim.report.context import context_of
from fedsim.report.page.sources import Source

BRESLOW = {"kind": "cox", "ties": "breslow"}


def test_survival_csv_has_the_kaplan_meier_curve_of_every_client(tmp_path):
    without_events = np.where(OWNERS[:, None] == 2, Y * [1, 0], Y)  # of client 2
    data = fedsim.Arrays(x=X, y=without_events, client=OWNERS)
    result = fedsim.run(scenario(BRESLOW), data=data, out=tmp_path / "run")
    assert all(np.isfinite(leaf).all() for leaf in result.model().values())
    clients = result.clients
    assert clients["global_c_index"].isna().tolist() == [False, False, True, False]
    assert np.isfinite(clients["global_loss"]).all() and clients["global_loss"][2] == 0
    table = pd.read_csv(tmp_path / "run" / "survival.csv")
    first = table[table["client"] == 0].set_index("time")
    # KaplanMeierFitter().fit(rossi.week[::4], rossi.arrest[::4])
    expected = {18: 0.9074074074074076, 35: 0.8055555555555554, 52: 0.712962962962963}
    assert first["survival"][list(expected)].to_dict() == pytest.approx(expected, abs=1e-12)
    assert first.loc[52, ["at_risk", "events"]].tolist() == [78, 1]
    assert table["client"].unique().tolist() == [0, 1, 2, 3]
    shown = section([Source({}, {"survival": table})], context_of({"name": "rossi"}))
    assert shown is not None and shown.html.count('class="key s') == 4
    assert f'<td data-sort="{first["events"].sum()}"' in shown.html
    ((name, pages),) = figures({"survival": table}, context_of({"name": "rossi"}))
    assert name == "survival" and len(pages[0].axes[0].lines) == 4


def test_curves_are_steps_of_the_first_run_and_the_largest_clients_come_first():
    rows = {"method": "fedavg", "seed": 0, "client": ["a", "b", "b"], "time": [2.0, 1.0, 4.0]}
    rows |= {"at_risk": [1, 2, 1], "events": [0, 1, 1], "survival": [1.0, 0.5, 0.0]}
    first = pd.DataFrame(rows)
    table = pd.concat([first, first.assign(seed=1), first.assign(method="median")])
    b, a = steps_of(table)
    assert (b.client, b.samples, b.events, b.median) == ("b", 2, 2, 1.0)
    assert b.time.tolist() == [0, 1, 1, 4, 4] and b.survival.tolist() == [1, 1, 0.5, 0.5, 0]
    assert (a.samples, a.events, a.median) == (1, 0, None)
