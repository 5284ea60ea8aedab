"""One hash of parameters and result CSVs, whatever the packing, blocks or calls."""

import jax
import numpy as np
import pytest
from workloads import digest

import fedsim

pytestmark = pytest.mark.optimised


def scenario(**sections):
    return {
        "name": "bits",
        "rounds": 4,
        "data": {"kind": "digits", "clients": 40, "partition": {"kind": "dirichlet", "alpha": 0.3}},
        "model": {"kind": "mlp", "hidden": [16]},
        "cohort": {"kind": "uniform", "size": 10},
        "client": {"lr": 0.1, "batch": 8, "epochs": 2},
        "server": ["mean", {"kind": "adam", "lr": 0.05}],
        "numerics": {"lanes": 4},
        **sections,
    }


@pytest.fixture(scope="module")
def reference():
    return fedsim.run(scenario())


def random_packing(seed):
    """A packer that deals clients to lanes in random order."""

    def pack(steps, lanes):
        order = np.random.default_rng(seed).permutation(np.flatnonzero(steps))
        queues = [[] for _ in range(lanes)]
        for i, slot in enumerate(order):
            queues[i % lanes].append(int(slot))
        return queues

    return pack


LAYOUTS = {  # what is laid out otherwise -> sections of the scenario, and arguments of the run
    "clients in other lanes": ({}, {"pack": random_packing(2)}),
    "blocks smaller than a cohort": ({"numerics": {"lanes": 4, "block": 3}}, {}),
    "a block of a whole cohort": ({"numerics": {"lanes": 4, "block": 10}}, {}),
    "more calls than steps": ({}, {"calls": 50}),  # fewer: test_devices
}


@pytest.mark.long
def test_the_layout_changes_no_bit(reference):
    for layout, (sections, arguments) in LAYOUTS.items():
        found = fedsim.run(scenario(**sections), **arguments)
        assert digest(found) == digest(reference), layout


@pytest.mark.long
def test_parts_of_a_block_change_no_bit():
    """A block of 10 passes the links whole, one of 8 as many messages at a time as lanes."""
    sections = {
        "model": "logistic",
        "rounds": 2,
        "wire": [{"kind": "error_feedback", "codec": "sign"}],
        "server": [{"kind": "clip", "norm": 0.5}, "mean"],
    }
    blocks = [{"lanes": 4, "block": block} for block in (10, 8)]
    whole, parts = [fedsim.run(scenario(**sections, numerics=each)) for each in blocks]
    assert digest(whole) == digest(parts)


@pytest.mark.long
def test_evaluation_does_not_touch_training(reference):
    sparse, full = fedsim.run(scenario(evaluate={"every": 3})), reference
    np.testing.assert_array_equal(sparse.model()["layer0"]["W"], full.model()["layer0"]["W"])
    assert sparse.rounds["round"].tolist() == [0, 3, 4]
    assert sparse.rounds["clients_sampled"].tolist() == [0, 30, 10]
    assert sparse.rounds["bytes_up"].tolist() == full.rounds["bytes_up"].iloc[[0, 3, 4]].tolist()


@pytest.mark.long
def test_the_caller_s_x64_setting_changes_no_bit(reference):
    with jax.enable_x64(True):
        assert digest(fedsim.run(scenario())) == digest(reference)


VARIANTS = {  # what has programs of its own
    "plain": {},
    "memory": {"method": "scaffold"},
    "whole stacks": {"server": ["median"]},
    "passes at the global model": {"method": "mime"},
}


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS)
def test_all_rounds_and_seeds_share_one_compilation(variant):
    """Nothing is compiled after the first evaluated round, though cohorts' steps differ."""
    sections = {"model": "logistic", "numerics": {"lanes": 4, "block": 7}, **VARIANTS[variant]}
    written = scenario(rounds=4, evaluate={"every": 2}, **sections)
    if "method" in written:  # which brings its own server
        del written["server"]
    compiled = []
    fedsim.run(written, watch=lambda *seen: compiled.append(sizes(*seen)), seeds=2)
    first, *_, last = filter(None, compiled)
    assert last == first


def sizes(experiment, seed, row) -> list[int]:
    """How many programs each function of a round has; none before the first round."""
    if not row.values["round"]:
        return []
    program = experiment.program
    server = program.server
    functions = [
        program.mesh.train,
        server.memories.gather,
        server.probing.add,
        server.aggregator.add_program,
        server.update,
    ]
    if program.probe_mesh is not None:
        functions.append(program.probe_mesh.train)
    return [function._cache_size() for function in functions]
