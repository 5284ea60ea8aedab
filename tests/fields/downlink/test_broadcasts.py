"""Models that are sent out through a codec."""

import pytest
from building import foretold
from numpy.testing import assert_array_equal
from reference.scenarios import flat

import fedsim

SCENARIO = {
    "name": "broadcasts",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "model": {"kind": "mlp", "hidden": [4]},  # which does not start at zero
    "cohort": {"kind": "uniform", "size": 6},
}
MODEL_BYTES = 4 * (20 * 4 + 4 + 4 * 10 + 10)


@pytest.mark.long
def test_a_model_is_sent_out_in_half_the_bytes():
    """Clients start from the rounded model, and Δ is relative to it; the server's is exact."""
    cast = {**SCENARIO, "broadcast": ["cast"], "client": {"lr": 0.0}}
    still = fedsim.run(cast)
    assert_array_equal(flat(still.model()), flat(still.experiment.shared[0]["params"]))
    up, down = 6 * MODEL_BYTES, 6 * MODEL_BYTES // 2
    assert still.rounds["bytes_up"].tolist() == [0, up, 2 * up]
    assert still.rounds["bytes_down"].tolist() == [0, down, 2 * down]
    told = foretold(cast)
    assert (told["bytes_up_a_round"], told["bytes_down_a_round"]) == (up, down)


@pytest.mark.long
def test_check_names_the_codec_for_a_model_of_which_little_is_left():
    notes = foretold({**SCENARIO, "broadcast": [{"kind": "top_k", "k": 9}]})["notes"]
    assert any("ef21(codec: top_k) sends them differences" in note for note in notes)
