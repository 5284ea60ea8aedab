"""A run has the same bytes beside any other, and beside any seeds."""

import jax
import numpy as np
import pytest
from companions import AXES, SCENARIO, differing

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.study.grid import design_of

FULL = {"lr": 0.1, "batch": "full", "epochs": 1}


def same_models(one, two):
    jax.tree.map(np.testing.assert_array_equal, one, two)


@pytest.mark.quick(2)
@pytest.mark.parametrize("batch", ["full", 200])
def test_no_width_depends_on_further_seeds(batch):
    """Clients differ in size from seed to seed, and a larger model trains on fewer lanes."""
    client = {**FULL, "batch": batch}
    model = {"kind": "mlp", "hidden": [200, 200]}
    widths = []
    for seeds in ([0], [0, 1, 2, 3]):
        written = {**SCENARIO, "client": client, "model": model, "numerics": {}, "seeds": seeds}
        checked = read(written)
        with numerics(checked):
            experiment = build(checked)
        widths.append((experiment.program.width, experiment.plans[0].batch_rows))
    assert widths[0] == widths[1]


@pytest.mark.long
def test_a_seed_has_the_same_bytes_beside_further_seeds(tmp_path):
    scenario = {**SCENARIO, "client": FULL, "numerics": {}}
    several = fedsim.run(scenario, seeds=[0, 1, 3])
    assert several.summary["seed"].tolist() == [0, 1, 3]
    alone = fedsim.run(scenario, seeds=[0])
    same_models(alone.model(seed=0), several.model(seed=0))

    fedsim.compare(scenario, "fedavg", seeds=[0], out=tmp_path / "out", pictures=False)
    more = fedsim.compare(
        scenario, "fedavg", seeds=[0, 1, 3], out=tmp_path / "out", resume=True, pictures=False
    )
    for seed in (0, 1, 3):
        same_models(more.model("fedavg", seed), several.model(seed=seed))


@pytest.mark.long
def test_a_method_that_trains_by_itself_has_its_own_program():
    """With another one, clients of a buffered server would draw as those of a round do."""
    augmented = {**SCENARIO["data"], "augment": ["flip"]}
    scenario = {**SCENARIO, "rounds": 6, "data": augmented}
    buffered = {"kind": "fedbuff", "buffer": 1, "concurrency": 8}
    runs = []
    for schedules in ([buffered], [{"kind": "sync"}, buffered]):
        comparison = fedsim.compare(scenario, "fedsam", vary={"schedule": schedules}, seeds=[0])
        runs.append(comparison.outcomes[-1].result)
    assert runs[0].records["rounds"] == runs[1].records["rounds"]
    same_models(*[run.model() for run in runs])


@pytest.mark.long
@pytest.mark.parametrize("axis", AXES)
def test_a_run_has_the_same_bytes_beside_any_other(axis, tmp_path):
    assert differing(axis, tmp_path) == []


def test_pools_of_several_sizes_are_refused():
    with pytest.raises(ScenarioError, match=r"one pool of threads.* found 1 and 4"):
        design_of(read(SCENARIO), "fedavg", vary={"numerics.threads": [1, 4]})
