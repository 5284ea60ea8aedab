"""`--log-to` as typed: what is no tracker gets one line."""

import pytest
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "run iid.yaml --log-to tensorbord",
            "--log-to: no tracker 'tensorbord'; did you mean 'tensorboard'?",
        ),
        (
            "compare iid.yaml --methods fedavg --log-to x",
            "--log-to: no tracker 'x'; known: mlflow, tensorboard, wandb",
        ),
    ],
)
def test_what_is_no_tracker_gets_one_line(line, message, desk):  # noqa: F811
    assert fedsim(line, desk) == (2, "", f"{message}\n")
    assert [path.name for path in desk.iterdir()] == ["iid.yaml"]
