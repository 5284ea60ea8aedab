"""A frozen model of ten million numbers: what more lanes hold, and whether the forecast says it."""

import json
import os
import subprocess
import sys

import pytest
import yaml
from conftest import if_whole

WIDTH = 3000
LANES = 50
BATCH = 8
FROZEN = 4 * (WIDTH * WIDTH + 100 * WIDTH + WIDTH * 10 + 2 * WIDTH + 10)
ADAPTER = 4 * 4 * (WIDTH + WIDTH)
ACTIVATIONS = 4 * BATCH * 2 * WIDTH  # of both hidden layers


def written(how: str, lanes: int) -> dict:
    return {
        "name": "lanes",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "shape": [100], "samples": 1000, "clients": LANES},
        "model": {
            "kind": "mlp",
            "hidden": [WIDTH, WIDTH],
            "adapter": {"kind": "lora", "rank": 4, "targets": ["layer1"]},
        },
        "cohort": {"kind": "uniform", "size": LANES},
        "client": {"lr": 0.1, "batch": BATCH, "steps": 2},
        "server": [{"kind": "lora_mean", "how": how}],
        "numerics": {"lanes": lanes},
    }


def fedsim(*words, cwd) -> str:
    environment = {**os.environ, "XDG_CACHE_HOME": str(cwd / "cache")}
    command = [sys.executable, "-m", "fedsim.cli", *words]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def forecast_and_peak(how: str, lanes: int, folder) -> tuple[dict, int]:
    """What `fedsim check` says, and the most bytes that the process of the run held."""
    folder.mkdir()
    (folder / "lanes.yaml").write_text(yaml.safe_dump(written(how, lanes)))
    counted = json.loads(fedsim("check", "lanes.yaml", "--json", cwd=folder))
    fedsim("run", "lanes.yaml", "--quiet", "--no-pictures", "--out", "run", cwd=folder)
    record = json.loads((folder / "run" / "run.json").read_text())
    return counted, record["memory"]["process_peak"]


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("how", ["product", "stack"])
def test_fifty_lanes_hold_the_frozen_leaves_once(how, tmp_path):
    """More lanes hold adapters, gradients and activations; the forecast is right to a fifth."""
    narrow, narrow_peak = forecast_and_peak(how, 1, tmp_path / "narrow")
    wide, wide_peak = forecast_and_peak(how, LANES, tmp_path / "wide")
    for counted, peak in ((narrow, narrow_peak), (wide, wide_peak)):
        assert 4 * counted["parameters_frozen"] == FROZEN
        assert counted["peak_bytes"] == pytest.approx(peak, rel=0.2)

    # Of every lane: its pair with gradient and message, and activations with their gradients. The
    # rest is what two processes differ by, less than three more copies of the frozen leaves.
    of_a_lane = 4 * ADAPTER + 4 * ACTIVATIONS
    assert LANES * of_a_lane < 2.5 * FROZEN
    assert wide_peak - narrow_peak < LANES * of_a_lane + 3 * FROZEN
