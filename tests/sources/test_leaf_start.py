"""FEMNIST-shaped data of many writers: read once, then cached; `pytest -s` shows the times."""

import time

import numpy as np
import pytest
from conftest import WHOLE, if_whole
from leaf_sets import femnist

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.scenario import read
from fedsim.sources import leaf_files


@if_whole
@pytest.mark.long
def test_many_natural_clients_are_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    writers = 3500 if WHOLE else 350
    total = femnist(tmp_path / "femnist", writers)
    scenario = read(
        {
            "name": "f",
            "data": {"kind": "leaf", "path": str(tmp_path / "femnist")},
            "model": "logistic",
        }
    )
    prints = []
    for start in ("cold", "warm"):
        began = time.perf_counter()
        with numerics(scenario) as devices:
            federation = build(scenario, devices=devices[:1]).plans[0].federation
        print(f"\n{start}: {time.perf_counter() - began:.1f} s, {total} samples")
        prints.append(federation.fingerprint())
        assert federation.N == writers and federation.names.clients[0] == "f0000_00"
        assert len(federation.holders.indices) + len(
            federation.test_holders.indices
        ) == total and np.all(federation.sizes)
        monkeypatch.setattr(leaf_files.json, "loads", None)  # nothing is parsed again
    assert prints[0] == prints[1]
