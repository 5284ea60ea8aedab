"""State and scores of models that compute in bfloat16 are float32; what does not fit is refused."""

import re

import jax
import jax.numpy as jnp
import pytest
from test_computing import EPSILON, distance, learned, network, types

import fedsim
from fedsim.errors import ScenarioError
from fedsim.models.computing import computing_in


def written(**sections) -> dict:
    return {
        "name": "computing",
        "rounds": 2,
        "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 8},
        "model": {"kind": "mlp", "hidden": [6]},
        "cohort": {"kind": "uniform", "size": 4},
        "client": {"lr": 0.1, "batch": 8},
        **sections,
    }


@pytest.mark.long
def test_weights_of_adapters_are_made_in_float32():
    """A pair that moves W by less than bfloat16 can tell at W is not lost where W is merged."""
    pytest.importorskip("fedsim.fields.adapters")
    from fedsim.fields.adapters.adapted import adapted
    from fedsim.fields.adapters.lora import lora

    net, batch = network("mlp")
    low_rank = adapted(computing_in(net, "bfloat16"), lora(rank=2, targets=["layer0.W"]))
    variables = jax.jit(low_rank.init)(jax.random.key(0))
    (_, _), gradient = learned(low_rank, batch, variables)
    assert types(gradient) == {"float32"}
    assert float(jnp.abs(gradient["layer0"]["W"]["lora_B"]).max()) > 0


# --------------------------------------------------------------------------------------- the runs

NARROW = {"compute": "bfloat16"}


@pytest.mark.long
def test_a_run_in_bfloat16_keeps_its_state_in_float32(tmp_path):
    """Its scores are those of the model that it saves, and another value does not resume it."""
    narrow = fedsim.run(written(numerics=NARROW), out=tmp_path / "run")
    plain = fedsim.run(written())
    assert types(narrow.model()) == {"float32"}
    assert 0 < distance(narrow.model(), plain.model()) < 4 * EPSILON

    # Round 0 has the start model, which nobody has trained: the same score to the bit.
    first = narrow.rounds.iloc[0]
    assert first["test_loss"] == plain.rounds.iloc[0]["test_loss"]
    again = fedsim.run(written(rounds=0), params=narrow.model())
    assert again.rounds.iloc[0]["test_loss"] == narrow.rounds.iloc[-1]["test_loss"]

    with pytest.raises(fedsim.errors.CheckpointError, match=r"numerics\.compute"):
        fedsim.run(written(rounds=3), out=tmp_path / "run", resume=True)


LOCALLY = {"lr": 0.1, "batch": 8, "steps": 3}


@pytest.mark.long
def test_own_models_are_scored_in_float32():
    """Where everybody has samples of their own alone, with the shared model as their own."""
    data = {**written()["data"], "client_test": 0.3}
    sections = {"data": data, "client": {"kind": "fedper", "personal": ["layer0.b"], **LOCALLY}}
    result = fedsim.run(written(numerics=NARROW, **sections))
    alone = fedsim.run(written(**sections, rounds=0), params=result.model(client=0))
    of_own = result.clients.set_index("client")["personal_loss"]
    shared = alone.clients.set_index("client")["global_loss"]
    assert of_own[0] == pytest.approx(shared[0], rel=1e-6)


REFUSED = {
    "numerics: compute is bfloat16 and dtype float64; write one of them, not both": {
        "compute": "bfloat16", "dtype": "float64",
    },
    "numerics.compute: should be bfloat16, found 'float16'": {"compute": "float16"},
    "numerics.remat: mlp has no blocks whose values could be computed again; leave it out": {
        "remat": True,
    },
}  # fmt: skip


@pytest.mark.parametrize("line", REFUSED)
def test_what_does_not_fit_is_refused(line):
    with pytest.raises(ScenarioError, match=re.escape(line)):
        fedsim.run(written(numerics=REFUSED[line]))
