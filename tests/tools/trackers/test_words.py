"""`--log-to` as typed: what is no tracker gets one line."""

import sys

import pytest
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

from fedsim.tools.trackers.log import PACKAGES


def test_what_is_no_tracker_gets_one_line(desk):  # noqa: F811
    message = "--log-to: no tracker 'x'; known: mlflow, tensorboard, wandb\n"
    assert fedsim("compare iid.yaml --methods fedavg --log-to x", desk) == (2, "", message)
    assert [path.name for path in desk.iterdir()] == ["iid.yaml"]


@pytest.mark.parametrize("tracker", PACKAGES)
def test_a_missing_package_is_reported_in_one_line(tracker, desk, monkeypatch):  # noqa: F811
    for package in PACKAGES[tracker]:
        monkeypatch.setitem(sys.modules, package, None)
    message = f"--log-to: {tracker}: is not installed; pip install 'fedsim-jax[{tracker}]'\n"
    assert fedsim(f"run iid.yaml --log-to {tracker}", desk) == (2, "", message)
    assert [path.name for path in desk.iterdir()] == ["iid.yaml"]
