"""Numbers that would kill or hang the process are refused by counting shapes; others run."""

import json
import os
import resource
import subprocess
import sys

import jax
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import TESTS, WHOLE
from hostile.confinement import confined
from hostile.numbers import FAMILIES, SPACE, TINY, Case, outcome

import fedsim
from fedsim import limits
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.forecast import remarks
from fedsim.assemble.memory import run_footprint
from fedsim.cli import cli
from fedsim.engine.footprint import largest_value_bytes
from fedsim.errors import OutOfMemoryError, ScenarioError, exit_code
from fedsim.limits import MAX_INTEGER, memory_limit, require_memory
from fedsim.machine import memory_now
from fedsim.scenario import read
from fedsim.study.grid import MAX_CELLS, axes_of, combinations_of, design_of

LARGE = {  # --set -> (where the line puts it, exit code)
    "model={kind: mlp, hidden: [1000000000]}": ("model", 8),
    "model={kind: mlp, hidden: [100000000000000000]}": ("model.hidden[0]", 2),
    "model={kind: cnn, kernel: 1000000000}": ("model", 2),
    "model={kind: char_gru, layers: 1000000000}": ("model.layers", 2),
    "client.epochs=1000000000000000": ("client.epochs", 2),
    "client.epochs=1000000000": ("client.epochs", 8),
    "numerics.lanes=1000000000": ("numerics.lanes", 8),
    "numerics.block=1000000000": ("numerics.block", 8),
    "rounds=1000000000": ("rounds", 8),
    "rounds=1000000000000": ("rounds", 2),
    "cohort={kind: weighted, size: 1000000000}": ("cohort", 8),
    "cohort={kind: uniform, size: 1000000000}": ("cohort.size", 2),
    "data.clients=1000000000": ("data.clients", 8),
    "data={kind: gaussian_blobs, samples: 1000000000}": ("data", 8),
    "data={kind: synthetic, clients: 1000000000}": ("data", 8),
    "data={kind: leaf_synthetic, classes: 1000000000}": ("data", 8),
    "data={kind: linear_regression, samples: 1000000000}": ("data", 8),
    "data={kind: quadratics, features: 1000000}": ("data", 8),
    "data={kind: fedexp_regression, features: 1000000000}": ("data", 8),
    "data={kind: femnist_shaped, pixels: 1000000000}": ("data", 8),
    "data={kind: shakespeare_shaped, clients: 1000000000}": ("data", 8),
    "seeds=1000000000000": ("seeds", 2),
    "data.server={samples: 10}": ("data.server.samples", 2),
}


@pytest.mark.parametrize("edit", LARGE)
def test_values_that_do_not_fit_are_refused_in_one_line_at_their_place(edit):
    where, code = LARGE[edit]
    data = TINY["data"]
    if any(kind in edit for kind in ("cnn", "char_")):
        data = {**data, "shape": [4, 4, 1]}
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with confined(3 << 30), pytest.raises(ScenarioError) as refused:
        scenario = read({**TINY, "data": data}, (edit,))
        with numerics(scenario) as devices:
            build(scenario, devices=devices[:1])
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"scenario: {where}: ") and line.isprintable(), line
    assert exit_code(refused.value) == code
    assert (" MB" in line) == (code == 8), line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 1 << 20  # kB


def test_a_batch_is_at_most_as_wide_as_the_largest_client():
    """And `drop_last` keeps the only batch of clients that have fewer samples."""
    plans = []
    for batch in (10**9, 16):
        scenario = read({**TINY, "client": {"batch": batch, "epochs": 3, "drop_last": True}})
        with numerics(scenario) as devices:
            plans.append(build(scenario, devices=devices[:1]).plans[0])
    assert plans[0].local.batch == plans[0].sizes.max() <= 16
    assert plans[0].steps.tolist() == plans[1].steps.tolist() == [3] * 4


def test_the_counted_shapes_are_those_of_the_first_block():
    """The shapes that are counted without allocation are those of the first block and its stack."""
    from fedsim.engine.blocks import BlockKey, Blocks
    from fedsim.engine.memory import CLIENT
    from fedsim.fleet import Planner

    scenario = read({**TINY, "method": "scaffold", "client": {"batch": 4, "epochs": 2}})
    with numerics(scenario) as devices:
        e = build(scenario, devices=devices[:1])
        plan, program = e.plans[0], e.program
        shapes = run_footprint(scenario, program, plan, e.shared[0]).shapes
        key = BlockKey(round=1, first_slot=0, playing=(True,), is_probe=False)
        layout = Blocks([Planner(plan)], program, readers=[]).get(key).layout
        shapes_of = lambda values: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(values)]
        server = program.server.init(e.shared[0], plan.present)
        store = program.server.memories.empty(server.shared, program.capacity.members)
        of_clients = (server.shared, layout.slots, jax.random.key(0))
        memory = program.server.memories.gather(store, *of_clients)[CLIENT]
        keys = ((jax.random.key(0),), 1)
        inputs = program.mesh.inputs((server.shared,), memory, layout, [()], keys)
        made = {
            "queues": layout.queues,
            "slots": layout.slots,
            "server": server,
            "memory": memory,
            "rows": program.mesh.buffers(None, inputs, layout.seats).rows[0],
        }
        for name, values in made.items():
            assert shapes_of(values) == shapes_of(shapes[name]), name


def test_the_largest_value_of_a_program_is_found():
    inner = jax.jit(lambda x: (x[:, None] * x[None]).sum())
    x = jax.ShapeDtypeStruct((1000,), np.float32)
    assert largest_value_bytes(lambda x: inner(x) + 1, x) == 4_000_000


def test_the_memory_limit_is_at_most_that_of_the_machine():
    whole = memory_limit()
    assert 1 << 28 < whole < 1 << 50
    with confined(1 << 29):
        assert memory_limit() < min(whole, memory_now() + (2 << 29))
    said = r"needs 1e\+24 MB \(a 1e\+24 MB\), and this process may hold"
    with pytest.raises(OutOfMemoryError, match=said):
        require_memory(a=10**30, b=3)


def test_the_limits_of_a_control_group_and_its_parents_count(monkeypatch):
    files = {
        "/proc/meminfo": "MemTotal:  16000000 kB\n",
        "/sys/fs/cgroup/a/memory.max": "4000000000\n",
    }
    files |= {"/sys/fs/cgroup/a/b/memory.max": "max\n", "/proc/self/cgroup": "0::/a/b\n"}
    monkeypatch.setattr(limits, "_text", lambda path: files.get(str(path), ""))
    assert memory_limit() == 4_000_000_000
    files["/proc/self/cgroup"] = "9:cpu:/c\n4:memory:/c\n0::/\n"
    assert memory_limit() == 16_384_000_000
    files["/sys/fs/cgroup/memory/c/memory.limit_in_bytes"] = "3000000000"
    assert memory_limit() == 3_000_000_000


# ---------------------------------------------------------------------------- counted, not expanded


def test_a_grid_is_counted_before_it_is_expanded():
    many = {f"client.a{i}": list(range(29)) for i in range(8)}
    said = f"= 500246412961 combinations.*at most {MAX_CELLS}"
    with confined(1 << 30), pytest.raises(ScenarioError, match=said):
        combinations_of(many)
    scenario = read(TINY, ("seeds=10000",))
    with pytest.raises(ScenarioError, match=r"10000 x 20 x 1 x 1 = 200000 combinations"):
        design_of(scenario, ["fedavg"], vary={"client.lr": list(range(20))})
    assert len(combinations_of({"a": list(range(100)), "b": list(range(100))})) == MAX_CELLS
    assert list(axes_of(many)) == list(many)


def test_too_many_seeds_are_refused(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(TINY))
    done = CliRunner().invoke(cli, ["run", str(path), "--seeds", "1000000000"])
    assert isinstance(done.exception, ScenarioError)
    assert "seeds are too many; at most 10000" in str(done.exception)


# -------------------------------------------------------------------------------------- odd samples

X, Y = np.arange(24, dtype=np.float32).reshape(12, 2), np.arange(12) % 3
SUPPLIED = {**TINY, "rounds": 1, "data": {"kind": "supplied", "clients": 2, "test": 0}}


@pytest.mark.parametrize(
    ("arrays", "line"),
    [
        ({"x": X, "y": np.int64(1)}, "y: a single number; expected an array with a row for"),
        ({"x": X[:, :0], "y": Y}, r"x: samples of shape \(0,\) hold no numbers"),
        ({"x": X[:0], "y": Y[:0]}, "x: no samples"),
        ({"x": X, "y": np.zeros((12, 0))}, r"y: samples of shape \(0,\) hold no numbers"),
        ({"x": X, "y": Y, "x_test": X[:0], "y_test": Y}, "x_test has 0 rows, but y_test has 12"),
    ],
)
def test_samples_without_numbers_are_refused_in_one_line(arrays, line, tmp_path):
    with pytest.raises(fedsim.DataError, match=f"^{line}"):
        fedsim.run(SUPPLIED, data=fedsim.Arrays(**arrays))
    np.savez(tmp_path / "w.npz", **arrays)
    stored = {**TINY, "data": {"kind": "npz", "path": "w.npz", "clients": 2}}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(stored))
    with pytest.raises(fedsim.DataError, match=rf"w.npz: {line}"):
        fedsim.run(tmp_path / "s.yaml")


@pytest.mark.long
def test_an_empty_test_set_counts_as_none():
    """Whatever its type and its samples' shape are."""
    plain = fedsim.run(SUPPLIED, data=fedsim.Arrays(X, Y))
    data = fedsim.Arrays(X, Y, x_test=np.zeros(0), y_test=np.zeros(0))
    assert fedsim.run(SUPPLIED, data=data).rounds.equals(plain.rounds)


@pytest.mark.parametrize(
    ("data", "remark"),
    [
        (fedsim.Arrays(X, Y * 50), "labels run from 0 to 100, 101 classes, and 3 of them have"),
        (
            fedsim.Arrays(X, Y, x_test=X, y_test=np.full(12, 3)),
            "test labels 3 are in no client's training samples",
        ),
    ],
    ids=["of training", "of the test set"],
)
def test_labels_that_are_missing_from_one_set_are_remarked_on(data, remark):
    scenario = read(SUPPLIED)
    with numerics(scenario) as devices:
        (said,) = remarks(build(scenario, devices=devices[:1], data=data))
    assert said.startswith(remark)


# ---------------------------------------------------------------------------- every number there is


@pytest.mark.long
def test_an_accepted_extreme_is_run():
    assert outcome(Case("lr", {**TINY, "client": {"lr": 1e38, "steps": 2}})) == "diverged"
    assert outcome(Case("every", {**TINY, "evaluate": {"every": MAX_INTEGER}})) == "done"
    assert outcome(Case("every", {**TINY, "evaluate": {"every": 0}})) == "refused: ScenarioError"


@pytest.mark.long
@pytest.mark.parametrize("family", FAMILIES)
def test_extremes_of_every_number_are_run_or_refused(family):
    """Every number of the schema takes every extreme, one at a time.

    A fixed share of them is tried, or all with FEDSIM_WHOLE=1.
    """
    paths = f"{TESTS.parent}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    environment = {**os.environ, "PYTHONPATH": paths}
    words = [sys.executable, "-m", "hostile.numbers", family, "1" if WHOLE else "131"]
    done = subprocess.run(words, cwd=TESTS, env=environment, capture_output=True, text=True)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"died at {done.stderr.splitlines()[-1]}, with {SPACE} bytes"
    assert not lines[:-1], "\n".join(map(str, lines[:-1]))
    assert sum(lines[-1]["came to"].values()) >= (10 if WHOLE else 1)
