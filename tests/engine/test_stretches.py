"""Stretches: rounds of one message in one device call end with the bytes of one call for each."""

import pytest
from building import built
from directories import files_of

import fedsim
from fedsim.engine import loop
from fedsim.engine.stretches import Stretches, stretches_of
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
    "statistics": {"model": {"kind": "resnet", "depth": 8, "norm": "batch"}, "rounds": 10},
    "leaving": {"fleet": {"availability": {"kind": "diurnal", "period": 60.0}, "dropout": 0.3}},
    "diverging": {
        "client": {"lr": 1e30, "batch": 16, "steps": 2}, "model": {"kind": "mlp", "hidden": [8]},
    },
    "stopping": {"wire": ["nonfinite"], "fleet": {"malicious": 0.1}, "on_nonfinite": "stop"},
}  # fmt: skip


@pytest.mark.optimised
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


@pytest.mark.optimised
@pytest.mark.long
def test_a_run_interrupted_between_stretches_ends_with_the_same_bytes(tmp_path):
    scenario = written(checkpoint={"rounds": 3}, seeds=[0, 3])
    fedsim.run(scenario, out=tmp_path / "whole", pictures=False)
    cut = tmp_path / "cut"
    answers = iter([False] * 9)
    with pytest.raises(Interrupted):
        fedsim.run(scenario, out=cut, ask=lambda: next(answers, True), pictures=False)
    fedsim.run(scenario, out=cut, resume=True, pictures=False)
    assert files_of(cut) == files_of(tmp_path / "whole")


@pytest.mark.long
def test_rounds_with_more_to_do_are_dispatched_one_by_one():
    top_k = {"kind": "top_k", "density": 0.1}
    one_by_one = {
        "a larger buffer": {"schedule": {"kind": "fedbuff", "buffer": 2, "concurrency": 5}},
        "memory of the clients": {"wire": [{"kind": "error_feedback", "codec": top_k}]},
        "evaluated each": {"evaluate": {"every": 1}},
    }
    for why, sections in {"nothing": {}, **one_by_one}.items():
        run = built(written(**sections)).run(0)
        assert (stretches_of([run], [None]) is None) == (why in one_by_one), why
