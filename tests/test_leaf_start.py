"""FEMNIST-shaped data of 3,500 writers: read once, and then at hand. `pytest -s` shows how long it takes."""

import time

import numpy as np
import pytest
from leaf_sets import femnist

from fedsim.build import build
from fedsim.build.experiment import numerics
from fedsim.scenario import read
from fedsim.sources import leaf_files


@pytest.mark.long
def test_many_natural_clients_are_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    total = femnist(tmp_path / "femnist")
    scenario = read({"name": "f", "data": {"kind": "leaf", "path": str(tmp_path / "femnist")}, "model": "logistic"})
    prints = []
    for start in ("cold", "warm"):
        began = time.perf_counter()
        with numerics(scenario) as devices:
            federation = build(scenario, devices=devices[:1]).plans[0].federation
        print(f"\n{start}: {time.perf_counter() - began:.1f} s, {total} samples")
        prints.append(federation.fingerprint())
        assert federation.N == 3500 and federation.names.clients[0] == "f0000_00"
        assert len(federation.indices) + len(federation.test_indices) == total and np.all(federation.sizes)
        monkeypatch.setattr(leaf_files.json, "loads", None)  # nothing is parsed again
    assert prints[0] == prints[1]
