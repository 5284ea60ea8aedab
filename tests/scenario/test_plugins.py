"""A user's links are used like ours: on the command line and from Python."""

import subprocess
import sys

import numpy as np
import pytest

import fedsim
from fedsim.assemble import programs
from fedsim.errors import ScenarioError
from fedsim.scenario.plugins import ENABLED

SCENARIO = {
    "name": "mine",
    "rounds": 1,
    "data": {"kind": "two_points", "clients": 5},
    "model": "signs",
    "client": {"kind": "decayed", "strength": 0.0, "lr": 0.5, "batch": "full", "steps": 2},
}


@pytest.fixture(scope="module")
def mine(root):
    fedsim.enable(str(root / "tests/plugins/mine.py"))


def model(**sections):
    return fedsim.run({**SCENARIO, **sections}).model()


@pytest.mark.long
def test_plugins_may_be_clients_rules_stages_attacks_data_and_models(mine):
    plain = model(client={"kind": "sgd", "lr": 0.5, "batch": "full", "steps": 2})
    np.testing.assert_array_equal(model(), plain)
    assert np.abs(model(client={**SCENARIO["client"], "strength": 1.0}) - plain).max() > 1e-3
    halved = model(server=["halve", "mean"])
    np.testing.assert_allclose(halved, plain / 2, rtol=1e-6)
    silent = model(wire=["silence"], fleet={"malicious": 1.0})
    np.testing.assert_array_equal(silent, np.zeros((3, 2)))


def test_plugins_work_on_a_user_s_own_stack(mine):
    assert fedsim.aggregate("loudest", [[1.0], [-3.0], [2.0]]).tolist() == [-3.0]
    scaled = {"kind": "loudest", "scale": 2}
    assert fedsim.aggregate(scaled, [[1.0], [-3.0]], weights=[1, 0]).tolist() == [2.0]
    arrived, sent = fedsim.transmit("silence", np.ones((3, 2)), malicious=[1])
    assert arrived.tolist() == [[1, 1], [0, 0], [1, 1]] and sent.tolist() == [8, 8, 8]


def test_hyper_parameters_are_checked_by_the_signature(mine):
    with pytest.raises(ScenarioError, match=r"client.strength: should be a number.*, found 'x'"):
        fedsim.run({**SCENARIO, "client": {"kind": "decayed", "strength": "x"}})
    with pytest.raises(ScenarioError, match=r"unknown key; did you mean 'scale'"):
        fedsim.aggregate({"kind": "loudest", "scal": 2}, [[1.0]])


def test_what_cannot_be_registered_is_refused_with_the_reason():
    with pytest.raises(fedsim.compose.RegistrationError, match="the function that the factory ret"):

        @fedsim.partition
        def shuffled(rng, labels):
            return labels

    taken = r"already defined in fedsim\.rules\.mean"
    with pytest.raises(fedsim.compose.RegistrationError, match=taken):

        @fedsim.rule
        def mean():
            return lambda updates, context: updates.delta


def test_a_model_kind_that_returns_a_network_is_told_what_to_return(monkeypatch):
    from flax import linen

    class Bare:
        section = None

    monkeypatch.setattr(programs, "factory_of", lambda section: lambda: linen.Dense(10))
    with pytest.raises(TypeError, match="returned a network; return a function that makes one"):
        programs.registered_model(Bare(), (4,), 10, (), None)  # pyright: ignore


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import fedsim\ndef broken(:\n", "line 2: invalid syntax"),
        ("x = 1\ny = x / 0\n", "own.py, line 2: ZeroDivisionError: division by zero"),
        ("import fedsim\n\n@fedsim.rule\ndef r(a=1): ...\n", "'a' needs a type annotation"),
    ],
)
def test_a_plugin_that_fails_is_reported_in_one_line_with_its_place(text, message, tmp_path):
    (tmp_path / "own.py").write_text(text)
    for _ in range(2):  # and does not count as known afterwards
        with pytest.raises(ScenarioError) as error:
            fedsim.enable(str(tmp_path / "own.py"))
        assert message in str(error.value) and "\n" not in str(error.value)


def test_processes_that_start_later_find_a_plugin_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "later.py").write_text("")
    monkeypatch.chdir(tmp_path)
    fedsim.enable("later.py")
    assert ENABLED.pop() == str(tmp_path / "later.py")


def test_a_plugin_that_is_not_there():
    with pytest.raises(ScenarioError, match="no plug-in of that name is installed; the name"):
        fedsim.enable("nosuch")
    with pytest.raises(ScenarioError, match="there is no such file"):
        fedsim.enable("a/none.py")


@pytest.mark.long
def test_a_rule_that_fails_in_the_run_is_named_with_its_line(root, tmp_path):
    (tmp_path / "wrong.py").write_text(
        "import fedsim\n\n\n@fedsim.rule\ndef wrong():\n"
        "    return lambda updates, context: updates.nothing\n"
    )
    options = ["--plugin", "wrong.py", "--set", "server=[wrong]", "--quiet"]
    words = [sys.executable, "-m", "fedsim.cli", "run", str(root / "scenarios/iid.yaml"), *options]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1
    said = "wrong.py:6: AttributeError: 'Updates' object has no attribute 'nothing'; traceback sav"
    assert said in done.stderr
