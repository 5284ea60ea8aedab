"""A run has the same bytes beside any other, and beside any seeds."""

import pytest
from companions import AXES, SCENARIO, differing
from conftest import WHOLE

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.study.grid import design_of

pytestmark = pytest.mark.optimised


@pytest.mark.quick(2)
@pytest.mark.parametrize("batch", ["full", 200])
def test_no_width_depends_on_further_seeds(batch):
    """Clients differ in size from seed to seed, and a larger model trains on fewer lanes."""
    client = {"lr": 0.1, "batch": batch, "epochs": 1}
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
@pytest.mark.parametrize("axis", AXES)
def test_a_run_has_the_same_bytes_beside_any_other(axis, tmp_path):
    assert differing(axis, tmp_path, None if WHOLE else 2) == []


def test_pools_of_several_sizes_are_refused():
    with pytest.raises(ScenarioError, match=r"one pool of threads.* found 1 and 4"):
        design_of(read(SCENARIO), "fedavg", vary={"numerics.threads": [1, 4]})
