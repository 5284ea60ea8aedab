"""Every shipped scenario runs, and says the truth about what comes out."""

from pathlib import Path

import pytest

import fedsim

SCENARIOS = sorted((Path(__file__).parents[1] / "scenarios").rglob("*.yaml"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda p: p.stem)
def test_runs_shortened(path):
    result = fedsim.run(path, edits=["rounds=2", "seeds=[0]"])
    assert result.status == "done" and result.rounds["round"].tolist() == [0, 1, 2]


def test_iid_reaches_93_percent(root):
    summary = fedsim.run(root / "scenarios/iid.yaml").summary.iloc[0]
    assert summary["mean_last_k"] >= 0.93 and summary["rounds_to_target"] <= 40
