"""LoRA under what else a scenario may ask for: one run cut in two, with all promises at once."""

import numpy as np
import pytest
from conftest import if_whole
from unchanged import run_of_same_bytes

PAIRS = {"kind": "lora", "rank": 3}
PRODUCT = {"kind": "lora_mean", "how": "product"}
SPARSE = {"kind": "error_feedback", "codec": {"kind": "top_k", "density": 0.2}}


def written(rounds: int, **sections) -> dict:
    return {
        "name": "composed",
        "rounds": rounds,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8, "client_test": 0.2},
        "model": {"kind": "mlp", "hidden": [6], "adapter": PAIRS},
        "cohort": {"kind": "uniform", "size": 5},
        "client": {"lr": 0.1, "batch": 8},
        **sections,
    }


PRIVATE = {
    "privacy": {"clip": 1.0, "noise_multiplier": 0.1, "delta": 1e-3},
    "cohort": {"kind": "poisson", "rate": 0.5},
}
SECTIONS = {
    "clip": {"server": [{"kind": "clip", "norm": 1.0}, PRODUCT]},
    "codec": {"wire": [SPARSE], "server": [PRODUCT]},
    "privacy": PRIVATE,
    "private pairs": {**PRIVATE, "model": {**written(1)["model"], "freeze": ["lora_A"]}},
    "scaffold": {"client": {"kind": "scaffold", "lr": 0.1, "batch": 8}, "server": [PRODUCT]},
    "fedper": {"client": {"kind": "fedper", "personal": ["lora_B"], "lr": 0.1, "batch": 8}},
    "alternate": {"server": [{"kind": "lora_mean", "how": "alternate"}]},
    "dropout": {"model": {**written(1)["model"], "adapter": {**PAIRS, "dropout": 0.2}}},
    "dora": {"model": {**written(1)["model"], "adapter": "dora"}, "server": [PRODUCT]},
}


def leaves_named(result, name: str) -> list:
    params = result.model()
    return [np.asarray(params[layer]["W"][name]) for layer in ("layer0", "layer1")]


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("name", SECTIONS)
def test_pairs_under_other_methods(name, tmp_path):
    sections = SECTIONS[name]
    whole = run_of_same_bytes(written(4, **sections), tmp_path, cut=2)
    assert np.isfinite(whole.rounds["test_loss"]).all()

    # The base stays, and the pairs move.
    start = whole.experiment.shared[0]
    for layer, base in zip(("layer0", "layer1"), leaves_named(whole, "base"), strict=True):
        np.testing.assert_array_equal(base, start["frozen"][layer]["W"]["base"])
    if name != "fedper":  # whose clients keep B
        assert all(np.abs(B).max() > 0 for B in leaves_named(whole, "lora_B"))
