"""Models that are sent out through a codec."""

import jax
import pytest
from numpy.testing import assert_array_equal

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.forecast import forecast
from fedsim.scenario import read

SCENARIO = {
    "name": "broadcasts",
    "rounds": 5,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 10},
    "cohort": {"kind": "uniform", "size": 6},
}


def run(**changes) -> fedsim.Result:
    return fedsim.run({**SCENARIO, **changes})


@pytest.mark.long
def test_a_model_is_sent_out_in_half_the_bytes():
    """Clients start from the rounded model, and Δ is relative to it; the server's is exact."""
    plain, cast = run(), run(broadcast=["cast"])
    assert (2 * cast.rounds["bytes_down"]).tolist() == plain.rounds["bytes_down"].tolist()
    assert cast.rounds["bytes_up"].tolist() == plain.rounds["bytes_up"].tolist()
    still = run(broadcast=["cast"], client={"lr": 0.0}, rounds=2)
    for a, b in zip(
        jax.tree.leaves(still.model()), jax.tree.leaves(run(rounds=0).model()), strict=True
    ):
        assert_array_equal(a, b)


@pytest.mark.long
def test_check_foretells_the_bytes():
    scenario = read({**SCENARIO, "broadcast": ["cast"], "rounds": 1})
    with numerics(scenario):
        told = forecast(build(scenario))
    done = run(broadcast=["cast"], rounds=1).rounds.iloc[-1]
    assert (told["bytes_up_a_round"], told["bytes_down_a_round"]) == (
        done["bytes_up"],
        done["bytes_down"],
    )


@pytest.mark.long
def test_check_names_the_codec_for_a_model_of_which_little_is_left():
    scenario = read({**SCENARIO, "rounds": 1, "broadcast": [{"kind": "top_k", "k": 9}]})
    with numerics(scenario):
        notes = forecast(build(scenario))["notes"]
    assert any("ef21(codec: top_k) sends them differences" in note for note in notes)
