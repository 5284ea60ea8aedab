"""Stretches: rounds of one message in one device call end with the bytes of one call for each."""

import pytest
from directories import files_of

import fedsim
from fedsim.engine import loop
from fedsim.engine.stretches import Stretches
from fedsim.errors import Interrupted

FEDASYNC = {"kind": "fedasync", "concurrency": 5}


def written(**sections) -> dict:
    """Rounds of a small model, in stretches of 1, 7, 8 and 5 where these are quick."""
    return {
        "name": "stretches",
        "rounds": 21,
        "data": {"kind": "digits", "clients": 12},
        "model": "logistic",
        "cohort": {"kind": "uniform", "size": 4},
        "schedule": FEDASYNC,
        "client": {"lr": 0.1, "batch": 16, "steps": 2},
        "server": ["mean"],
        "evaluate": {"every": 8},
        **sections,
    }


CASES = {
    "plain": {},
    "seeds": {"seeds": 3},
    "state": {
        "wire": [{"kind": "top_k", "density": 0.1}, {"kind": "gaussian", "std": 0.01}],
        "fleet": {"malicious": 0.3},
        "server": ["mean", {"kind": "adam", "lr": 0.1}],
        "numerics": {"dtype": "float64"},
    },
    "buffer of one": {"schedule": {"kind": "fedbuff", "buffer": 1, "concurrency": 5}},
    "statistics": {
        "model": {"kind": "resnet", "depth": 8, "norm": "batch"},
        "rounds": 10,
    },
    "leaving": {"fleet": {"availability": {"kind": "diurnal", "period": 60.0}, "dropout": 0.3}},
    "diverging": {
        "client": {"lr": 1e30, "batch": 16, "steps": 2},
        "model": {"kind": "mlp", "hidden": [8]},
    },
    "stopping": {
        "wire": ["nonfinite"],
        "fleet": {"malicious": 0.1},
        "on_nonfinite": "stop",
    },
}


@pytest.mark.long
@pytest.mark.parametrize("case", CASES)
def test_a_stretch_changes_no_byte(case, tmp_path, monkeypatch):
    scenario = written(**CASES[case])
    lengths = []
    dispatch = Stretches.dispatch

    def noted(self, numbers, playing, servers):
        lengths.append(len(numbers))
        return dispatch(self, numbers, playing, servers)

    monkeypatch.setattr(Stretches, "dispatch", noted)
    fedsim.run(scenario, out=tmp_path / "stretches", pictures=False)
    monkeypatch.setattr(loop, "stretches_of", lambda runs, data: None)
    fedsim.run(scenario, out=tmp_path / "one by one", pictures=False)
    assert files_of(tmp_path / "stretches") == files_of(tmp_path / "one by one")
    assert max(lengths) > 1


@pytest.mark.long
def test_a_run_interrupted_between_stretches_ends_with_the_same_bytes(tmp_path):
    scenario = written(checkpoint={"rounds": 3}, seeds=[0, 3])
    fedsim.run(scenario, out=tmp_path / "whole", pictures=False)
    for questions in (1, 9):
        out = tmp_path / f"{questions}"
        answers = iter([False] * questions)
        with pytest.raises(Interrupted):
            fedsim.run(
                scenario, out=out, ask=lambda answers=answers: next(answers, True), pictures=False
            )
        fedsim.run(scenario, out=out, resume=True, pictures=False)
        assert files_of(out) == files_of(tmp_path / "whole")


@pytest.mark.long
def test_rounds_with_more_to_do_are_dispatched_one_by_one(monkeypatch):
    """Of a larger buffer, with memory of the clients, evaluated each."""

    def never(self, numbers, states):
        raise AssertionError("a stretch")

    monkeypatch.setattr(Stretches, "dispatch", never)
    for sections in (
        {"schedule": {"kind": "fedbuff", "buffer": 2, "concurrency": 5}},
        {"wire": [{"kind": "error_feedback", "codec": {"kind": "top_k", "density": 0.1}}]},
        {"evaluate": {"every": 1}},
    ):
        assert len(fedsim.run(written(rounds=3, **sections)).rounds) > 1
