"""Scenarios with a module of torch, and what comes back from their runs."""

import hashlib
import json
import pickle
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import safetensors.torch
from foreign import networks

import fedsim
from fedsim.assemble import build
from fedsim.errors import ScenarioError
from fedsim.runs.export import exported
from fedsim.scenario import read

pytestmark = pytest.mark.long

FILE = Path(__file__).parent / "foreign" / "net.py"


def scenario(name="Net", **model):
    return {
        "name": "torch",
        "rounds": 2,
        "seeds": [0, 1],
        "data": {"kind": "digits", "clients": 6, "partition": "dirichlet"},
        "cohort": {"kind": "uniform", "size": 3},
        "client": {"lr": 0.1, "batch": 32},
        "model": {"kind": "torch", "name": name, "path": str(FILE), **model},
    }


@pytest.fixture(scope="module")
def loaded():
    from fedsim.scenario import plugins

    plugins.enable(str(FILE))
    yield
    plugins.ENABLED.remove(str(FILE))
    del sys.modules["fedsim_plugin_net"]


@pytest.fixture(scope="module")
def directory(loaded, tmp_path_factory):
    """A run, and its directory."""
    out = tmp_path_factory.mktemp("run") / "run"
    result = fedsim.run(scenario(arguments={"width": 4}), out=out, pictures=False)
    return result, out


def test_each_seed_starts_from_a_module_of_its_own_and_its_end_predicts_as_the_run(directory):
    result, _ = directory
    init = result.experiment.model.init
    first, second, again = (
        init(jax.random.key(seed))["params"]["last"]["weight"] for seed in (0, 1, 0)
    )
    assert not np.array_equal(first, second) and np.array_equal(first, again)
    x = result.experiment.plans[0].federation.test.x[:20]
    for seed in (0, 1):
        net = result.torch(seed=seed)
        assert not net.training
        with torch.no_grad():
            got = net(torch.tensor(np.moveaxis(x, -1, 1)))
        np.testing.assert_allclose(got, result.predict(x, seed=seed), atol=1e-5)


def test_counters_are_neither_leaves_nor_bytes(directory):
    result, _ = directory
    variables = result.variables(seed=0)
    sent = (variables["params"], variables["stats"])
    floats = sum(leaf.size for leaf in jax.tree.leaves(sent))
    assert sorted(variables["stats"]["norm"]) == ["running_mean", "running_var"]
    row = result.rounds.query("seed == 0").iloc[-1]
    assert row["bytes_up"] == 2 * 3 * 4 * floats  # rounds, clients, bytes of a float


def test_an_export_is_a_state_dict_that_torch_loads(directory, tmp_path):
    result, out = directory
    file = tmp_path / "net.pt"
    name = next(out.glob("model.*0.safetensors")).name
    file.write_bytes(exported(out, name, "torch"))
    net = sys.modules["fedsim_plugin_net"].Net(width=4)
    net.load_state_dict(torch.load(file, weights_only=True))
    trained = result.torch(seed=0).state_dict()
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            assert torch.equal(value, trained[name]), name


def test_a_state_dict_is_where_training_starts(loaded, tmp_path):
    torch.manual_seed(3)
    net = sys.modules["fedsim_plugin_net"].Net(width=4)
    net.norm.running_mean += 1
    of_torch = tmp_path / "start.pt"
    torch.save(net.state_dict(), of_torch)
    of_safetensors = tmp_path / "start.safetensors"
    safetensors.torch.save_file(net.state_dict(), of_safetensors)
    for file in (of_torch, of_safetensors):
        model = {"arguments": {"width": 4}, "weights": str(file)}
        experiment = build(read(scenario(**model)))
        start = experiment.model.init(jax.random.key(0))
        np.testing.assert_array_equal(start["params"]["conv"]["weight"], net.conv.weight.detach())
        np.testing.assert_array_equal(start["stats"]["norm"]["running_mean"], np.ones(4))


def test_only_tensors_are_read_of_a_file(loaded, tmp_path):
    file = tmp_path / "start.pt"
    file.write_bytes(pickle.dumps(print))
    with pytest.raises(ScenarioError, match=r"start\.pt: is not a state_dict"):
        build(read(scenario(weights=str(file))))


REFUSALS = {
    "a branch by values": ("Branching", r"branches by the values of a tensor \(net.py, line 26\)$"),
    "an operator that is not in the table": ("Unknown", r"aten._fft_r2c.*\(net.py, line 37\)"),
    "a class that fails": ("Failing", r"RuntimeError: no weights \(net.py, line 43\)"),
    "a name that the file does not have": ("Missing", "net.py has no class or function 'Missing'"),
}


@pytest.mark.parametrize("name, line", REFUSALS.values(), ids=REFUSALS)
def test_what_cannot_be_a_model_is_refused_with_the_line(loaded, name, line):
    with pytest.raises(ScenarioError, match=line):
        build(read(scenario(name)))


def test_a_file_runs_only_where_that_is_asked_for(tmp_path):
    other = tmp_path / "other.py"
    other.write_text("raise RuntimeError\n")
    with pytest.raises(ScenarioError, match=r"other.py runs only where .*--plugin"):
        build(read(scenario(path=str(other))))


def test_a_run_is_verified_with_the_file_that_it_had(tmp_path):
    file = tmp_path / "later.py"
    file.write_text(FILE.read_text())
    fedsim.enable(str(file))
    out = tmp_path / "run"
    short = {"rounds": 1, "seeds": [0]}
    section = scenario(path=str(file), arguments={"width": 2})
    fedsim.run({**section, **short}, out=out, pictures=False)
    recorded = json.loads((out / "run.json").read_text())["scenario"]["model"]
    assert recorded["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    assert fedsim.verify(out, data_roots=[tmp_path]).equal

    file.write_text(FILE.read_text().replace("stride=2", "stride=2, bias=False"))
    last = fedsim.verify(out, data_roots=[tmp_path]).checks[-1]
    assert (last.name, last.ok) == ("data", False)
    assert "model.sha256" in last.detail


def test_a_data_set_of_torch_is_data():
    x = torch.rand(40, 1, 8, 8)
    data_set = torch.utils.data.TensorDataset(x, torch.arange(40) % 10)
    torch.manual_seed(0)
    own = {"name": "own", "rounds": 1, "data": {"kind": "supplied", "clients": 4, "test": 0.25}}
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))
    with pytest.warns(UserWarning, match="have their channels first"):
        result = fedsim.run(own, data=data_set, model=net)
    assert result.clients["samples"].sum() == 30
    samples = np.asarray(x)[:5]
    with torch.no_grad():
        got = result.torch()(x[:5])
    np.testing.assert_allclose(got, result.predict(samples), atol=1e-5)


def test_dropout_has_a_mask_for_every_client_and_step():
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Dropout(0.5))
    model = fedsim.as_model(net, shape=(50,))
    keys = jax.random.split(jax.random.key(0), 3)
    x = jnp.ones((2, 50))
    masks = jax.vmap(lambda key: model.apply(model.init(key), x, key=key, train=True)[0])(keys)
    assert len(np.unique(np.asarray(masks).reshape(6, 50), axis=0)) == 6
    assert set(np.unique(masks)) == {0.0, 2.0}
    evaluated, _ = model.apply(model.init(keys[0]), x)
    np.testing.assert_array_equal(evaluated, x)


def test_rows_that_do_not_count_change_no_batch_norm():
    net = networks.Cnn()
    model = fedsim.as_model(net, shape=(6, 6, 3))
    assert not model.mixes_rows
    variables = model.init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (4, 6, 6, 3))
    mask = jnp.arange(4) < 3
    apply = jax.jit(lambda x: model.apply(variables, x, mask=mask, train=True))
    outputs, stats = apply(x)
    again, same = apply(x.at[3].set(9.0))
    np.testing.assert_array_equal(outputs[:3], again[:3])
    np.testing.assert_array_equal(stats["norm"]["running_var"], same["norm"]["running_var"])


def test_batch_norm_over_other_rows_than_those_of_the_batch_mixes_them():
    class Folded(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(4)

        def forward(self, x):
            return self.norm(x.reshape(-1, 4)).reshape(x.shape).mean(1)

    with pytest.warns(UserWarning, match="batch_norm.*mixes the rows"):
        model = fedsim.as_model(Folded(), shape=(3, 4))
    assert model.mixes_rows
