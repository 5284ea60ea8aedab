"""The energy of a fleet: joules of local steps and of bytes, of all clients and of each."""

import numpy as np
import pytest

import fedsim
from fedsim.errors import ScenarioError

pytestmark = pytest.mark.usefixtures("quickly_compiled")

ENERGY = {"per_step": 2.0, "per_byte": 1e-3}
SCENARIO = {
    "name": "energy",
    "rounds": 3,
    "data": {"kind": "gaussian_blobs", "samples": 300, "clients": 5},
    "client": {"steps": [4, 1, 2, 3, 4], "batch": 8},
    "fleet": {"energy": ENERGY},
}
STEPS = 14  # of a round


def run(**sections):
    return fedsim.run({**SCENARIO, **sections})


@pytest.fixture(scope="module")
def result():
    return run()


def test_joules_are_those_of_steps_and_bytes_and_change_no_other_bit(result):
    rounds = result.rounds
    sent = rounds["bytes_up"] + rounds["bytes_down"]
    expected = 2.0 * STEPS * rounds["round"] + 1e-3 * sent
    assert rounds["joules"].tolist() == pytest.approx(expected.tolist())
    clients = result.clients
    assert clients["joules"].sum() == pytest.approx(rounds["joules"].iloc[-1])
    of_first = 2.0 * 3 * 4 + 1e-3 * (clients["bytes_up"][0] + clients["bytes_down"][0])
    assert clients["joules"][0] == pytest.approx(of_first)
    plain = run(fleet={})
    assert "joules" not in plain.rounds
    assert rounds.drop(columns="joules").equals(plain.rounds)


@pytest.mark.parametrize(
    ("why", "fleet"),
    [
        ("work of late clients", {"deadline": 3.5, "speed": "constant(seconds=1)"}),
        pytest.param("of those that leave", {"dropout": 0.5}, marks=pytest.mark.long),
    ],
)
def test_work_that_does_not_count_takes_energy(why, fleet):
    result = run(fleet={"energy": {"per_step": 1.0}, **fleet})
    table = result.clients
    counted = table["rounds_joined"] * [4, 1, 2, 3, 4]
    wasted = result.rounds["steps_wasted"].sum()
    assert wasted > 0, why
    assert result.rounds["joules"].iloc[-1] == counted.sum() + wasted


def test_clients_may_differ(tmp_path, monkeypatch):
    """By a list, or by a file of devices, which start over after the last."""
    monkeypatch.chdir(tmp_path)
    per_step = [1.0, 2.0, 1.0, 2.0, 1.0]
    listed = run(fleet={"energy": {"per_step": per_step, "per_byte": 1e-3}})
    clients = listed.clients
    sent = clients["bytes_up"] + clients["bytes_down"]
    taken = 3 * np.array([4, 1, 2, 3, 4]) * per_step
    assert clients["joules"].tolist() == pytest.approx((taken + 1e-3 * sent).tolist())
    assert listed.rounds["joules"].iloc[-1] == pytest.approx(clients["joules"].sum())

    header = "client,joules_per_step,joules_per_byte,seconds_per_step"
    (tmp_path / "two.csv").write_text(f"{header}\n0,1,0.001,7\n1,2,0.001,7\n")
    traced = run(fleet={"energy": {"path": "two.csv"}})
    assert traced.rounds["joules"].tolist() == listed.rounds["joules"].tolist()


@pytest.mark.long
def test_pooled_training_has_no_clients_that_take_energy():
    assert "joules" not in run(method="centralised", client={"epochs": 1}).rounds


def test_a_run_that_resumes_goes_on_counting(tmp_path, result):
    fedsim.run(SCENARIO, rounds=2, out=tmp_path / "run")
    resumed = fedsim.run(SCENARIO, out=tmp_path / "run", resume=True)
    assert resumed.rounds["joules"].tolist() == result.rounds["joules"].tolist()


@pytest.mark.parametrize(
    ("energy", "line"),
    [
        ({}, "fleet.energy: nothing takes energy; write per_step or per_byte, in joules"),
        ({"per_step": -1}, "fleet.energy.per_step: should be a number of at least 0"),
        ({"per_step": [1, -1]}, r"fleet.energy.per_step\[1\]: should be a number of at least 0"),
        ({"per_byte": [1, 2]}, "fleet.energy.per_byte: 2 numbers of joules for 5 clients; write"),
        ({"path": "x.csv", "per_step": 1}, "fleet.energy: the file has the joules; remove path"),
        ({"path": "x.csv"}, "fleet.energy.path: there is no file 'x.csv'"),
    ],
)
def test_wrong_energies_are_refused_in_one_line(energy, line):
    with pytest.raises(ScenarioError, match=line) as refused:
        run(fleet={"energy": energy})
    assert len(refused.value.problems) == 1
