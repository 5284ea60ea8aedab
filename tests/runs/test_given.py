"""What a Python program passes in place of parts of a scenario, wherever it may."""

import functools
import inspect
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.errors import CheckpointError, DirectoryError, ScenarioError
from fedsim.runs.given import Given

X = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
DATA = fedsim.Arrays(X, (X[:, 0] > 0).astype(int), client=np.arange(60) % 3)
OTHER = DATA._replace(x=X + 1)
SCENARIO = {"name": "mine", "rounds": 2, "data": {"test": 0.2}, "client": {"lr": 0.1, "batch": 8}}
MODEL = (lambda key: {"w": jnp.zeros((4, 1))}, lambda params, x: x @ params["w"])
EVERYTHING = {
    "data": DATA,
    "model": MODEL,
    "params": {"w": np.ones((4, 1), np.float32)},
    "loss": lambda outputs, y: (outputs[:, 0] - y) ** 2,
}


def functions():
    """The public functions that run a scenario, or a recorded run again."""
    for name in dir(fedsim):
        value = getattr(fedsim, name)
        if not inspect.isfunction(value):
            continue
        if {"device", "data_roots"} <= inspect.signature(value).parameters.keys():
            yield name, value


def test_whatever_runs_takes_what_a_program_has():
    assert {"run", "compare", "verify"} <= dict(functions()).keys()
    for name, function in functions():
        parameters = inspect.signature(function).parameters
        assert [*Given._fields] == [each for each in parameters if each in Given._fields], name
        for each in Given._fields:
            assert f"\n      {each}: " in (function.__doc__ or ""), (name, each)


@pytest.mark.parametrize("more", [{"jobs": 2}, {"on": "dask://localhost:1"}])
def test_other_processes_have_nothing_of_a_program(more):
    with pytest.raises(ValueError, match=r"data= is here alone.*; leave (jobs|on)= out"):
        fedsim.compare(SCENARIO, ["fedavg"], data=DATA, **more)


@pytest.mark.long
def test_methods_are_compared_as_they_run(tmp_path):
    labels = ["fedavg", "fedprox(mu=0.1)"]
    fewer = {"rounds": 1, "seeds": [3]}
    comparison = fedsim.compare(SCENARIO, labels, out=tmp_path, **fewer, **EVERYTHING)
    alone = fedsim.run(SCENARIO, method=labels[1], **fewer, **EVERYTHING)
    jax.tree.map(np.testing.assert_array_equal, comparison.model(labels[1], 3), alone.model())
    for result in (alone, comparison):
        assert set(result.rounds["round"]) == {0, 1} and set(result.rounds["seed"]) == {3}
    record = json.loads((tmp_path / "run.json").read_text())
    assert record["supplied"] == ["data", "loss", "model", "params"]
    assert record["scenario"]["data"]["clients"] == 3
    assert fedsim.verify(tmp_path).equal

    again = {"out": tmp_path, "resume": True, **fewer}
    one_more = {"method": "fedavg", "label": "again"}
    more = fedsim.compare(SCENARIO, [*labels, one_more], **again, **EVERYTHING)
    assert len(more.table) == 3
    with pytest.raises(CheckpointError, match=r"hashes.data: "):
        fedsim.compare(SCENARIO, labels, **again, **{**EVERYTHING, "data": OTHER})
    with pytest.raises(ScenarioError, match="data: needs a kind"):
        fedsim.compare(SCENARIO, labels, **again)


@pytest.mark.long
def test_recorded_runs_are_built_again_with_the_same_and_nothing_else(tmp_path):
    path = tmp_path / "run"
    whole = fedsim.run(SCENARIO, out=path, **EVERYTHING)
    checks = {check.name: check.detail for check in fedsim.verify(path).checks}
    advice = "from a Python program: data, loss, model, params; give it again, fedsim.verify(path, "
    assert advice in checks["scenario"]
    other = fedsim.verify(path, **{**EVERYTHING, "data": OTHER})
    assert "hashes.data: " in other.checks[-1].detail and not other.equal
    assert fedsim.verify(path, **EVERYTHING).equal
    again = {
        "contributions": {},
        "contributions, left out": {"how": "leave_one_out"},
        "fork": {"round": 1, "out": tmp_path / "fork"},
        "unlearn": {"clients": 1, "out": tmp_path / "left"},
        "updates_of": {},
    }
    for name, options in again.items():
        function, _, _ = name.partition(",")
        if function not in dir(fedsim):
            continue
        call = functools.partial(getattr(fedsim, function), path, **options)
        made = lambda **given: call(**given) if function != "updates_of" else [*call(**given)]
        with pytest.raises(DirectoryError, match=rf"give it again, fedsim.{function}\(path, data="):
            made()
        with pytest.raises(CheckpointError, match=r"hashes.data: "):
            made(**{**EVERYTHING, "data": OTHER})
        result = made(**EVERYTHING)
        if name == "fork":
            jax.tree.map(np.testing.assert_array_equal, result.model(), whole.model())
