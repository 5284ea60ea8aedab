"""The energy of a fleet: joules of local steps and of bytes, of all clients and of each."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

TAKEN = np.array([3, 1, 2, 3, 3])  # steps of each client in the 3.5 s of a round: 0 and 4 are late
JOULES = np.array([1.0, 2.0, 1.0, 2.0, 1.0])  # of a step of each
LATE = {"deadline": 3.5, "speed": "constant(seconds=1)"}
SCENARIO = {
    "name": "energy",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5},
    "client": {"steps": [4, 1, 2, 3, 4], "batch": 8},
    "fleet": {**LATE, "energy": {"per_step": JOULES.tolist(), "per_byte": 1e-3}},
}


def run(out=None, resume=False, **sections):
    return fedsim.run({**SCENARIO, **sections}, out=out, resume=resume)


@pytest.fixture(scope="module")
def result():
    return run()


def test_joules_are_those_of_all_steps_and_bytes_and_change_no_other_bit(result):
    """Also of those that do not count."""
    rounds, clients = result.rounds, result.clients
    assert rounds["steps_wasted"].tolist()[1:] == [6, 6, 6]
    sent = rounds["bytes_up"] + rounds["bytes_down"]
    expected = (TAKEN @ JOULES) * rounds["round"] + 1e-3 * sent
    assert rounds["joules"].tolist() == pytest.approx(expected.tolist())
    sent = clients["bytes_up"] + clients["bytes_down"]
    assert clients["joules"].tolist() == pytest.approx((3 * TAKEN * JOULES + 1e-3 * sent).tolist())
    plain = run(fleet=LATE)
    assert "joules" not in plain.rounds
    assert rounds.drop(columns="joules").equals(plain.rounds)


def test_a_run_that_resumes_goes_on_counting(tmp_path, monkeypatch, result):
    """By a file of devices, which start over after the last."""
    monkeypatch.chdir(tmp_path)
    header = "client,joules_per_step,joules_per_byte,seconds_per_step"
    (tmp_path / "two.csv").write_text(f"{header}\n0,1,0.001,7\n1,2,0.001,7\n")
    fleet = {**LATE, "energy": {"path": "two.csv"}}
    run(fleet=fleet, rounds=2, out=tmp_path / "run")
    resumed = run(fleet=fleet, out=tmp_path / "run", resume=True)
    assert resumed.rounds["joules"].tolist() == result.rounds["joules"].tolist()


@pytest.mark.long
def test_pooled_training_has_no_clients_that_take_energy():
    fleet = {"energy": {"per_step": 1.0}}
    pooled = run(method="centralised", client={"epochs": 1}, fleet=fleet, rounds=0)
    assert "joules" not in pooled.rounds


@pytest.mark.parametrize(
    ("energy", "line"),
    [
        ({}, "fleet.energy: nothing takes energy; write per_step or per_byte, in joules"),
        ({"per_step": [1, -1]}, r"fleet.energy.per_step\[1\]: should be a number of at least 0"),
        ({"path": "x.csv", "per_step": 1}, "fleet.energy: the file has the joules; remove path"),
    ],
)
def test_wrong_energies_are_refused_in_one_line(energy, line):
    with pytest.raises(ScenarioError, match=line) as refused:
        run(fleet={"energy": energy})
    assert len(refused.value.problems) == 1
