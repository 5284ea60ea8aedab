"""Runs with an adapter send its numbers, and models that it does not fit are refused."""

import jax.numpy as jnp
import pytest
from building import foretold
from conftest import some

import fedsim
from fedsim.errors import ScenarioError


def written(adapter, **sections) -> dict:
    return {
        "name": "adapters",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6], "adapter": adapter},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 8},
        **sections,
    }


# An adapter of [20, 6] and [6, 10], what is frozen besides -> how many numbers travel
SENT = [
    ({"kind": "lora", "rank": 3}, ["lora_A"], 3 * 6 + 3 * 10),  # FFA-LoRA
    ("lora", [], 4 * 26 + 4 * 16),
    ("dora", [], (4 * 26 + 6) + (4 * 16 + 10)),
    ("ia3", [], 6 + 10),
    ("vera", [], (64 + 6) + (64 + 10)),
    ("bottleneck", [], (2 * 6 * 8 + 6 + 8) + (2 * 10 * 8 + 10 + 8)),
    ("bitfit", [], 6 + 10),
]


@pytest.mark.long
def test_an_adapter_sends_so_many_numbers():
    for adapter, frozen, numbers in some(SENT, 4):
        scenario = written(adapter)
        scenario["model"]["freeze"] = frozen
        told = foretold(scenario)
        assert told["parameters_sent"] == told["parameters_trained"] == numbers, adapter
        assert told["bytes_up_a_round"] == told["bytes_down_a_round"] == 4 * 4 * numbers, adapter

    scenario = written(None)
    scenario["data"]["shape"] = [4, 5]
    prompted = {"adapter": {"kind": "prompt", "tokens": 3}}
    scenario["model"] = {"kind": "transformer", "layers": 1, "heads": 1, "width": 4, **prompted}
    told = foretold(scenario)
    assert told["parameters_sent"] == told["parameters_trained"] == 3 * 4


@pytest.mark.parametrize(
    ("adapter", "users_model", "expected"),
    [
        ("prompt", False, "prompt is for a transformer"),
        ("bitfit", True, "every leaf is frozen"),
        ("bottleneck", True, "not W"),
        ({"kind": "lora", "dropout": 0.1}, True, "lora without dropout"),
        ({"kind": "dora", "rank": 7}, False, "7 is more than min(m, n) of layer0.W [20, 6]"),
        ({"kind": "lora", "targets": ["b"]}, False, "adapter.targets: none of b is a matrix"),
        ({"kind": "ia3", "targets": ["layr0"]}, False, "no leaf is named 'layr0'; did you mean"),
    ],
)
def test_models_that_do_not_fit_are_refused(adapter, users_model, expected):
    scenario = written(adapter)
    users = (lambda key: {"W": jnp.zeros((20, 10))}, lambda params, x: x @ params["W"])
    with pytest.raises(ScenarioError, match="model") as caught:
        fedsim.run(scenario, model=users if users_model else None)
    assert expected in str(caught.value)
