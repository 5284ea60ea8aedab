"""Numbers that would kill or hang the process are refused in a line; others run."""

import json
import os
import resource
import subprocess
import sys

import pytest
from building import built
from conftest import TESTS, WHOLE
from hostile.confinement import confined
from hostile.numbers import FAMILIES, SPACE, TINY, Case, outcome

from fedsim.errors import ScenarioError, exit_code
from fedsim.limits import MAX_INTEGER

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
        built({**TINY, "data": data}, edit)
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"scenario: {where}: ") and line.isprintable(), line
    assert exit_code(refused.value) == code
    assert (" MB" in line) == (code == 8), line
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 1 << 20  # kB


def test_a_batch_is_at_most_as_wide_as_the_largest_client():
    """And `drop_last` keeps the only batch of clients that have fewer samples."""
    written = lambda batch: {**TINY, "client": {"batch": batch, "epochs": 3, "drop_last": True}}
    plans = [built(written(batch)).plans[0] for batch in (10**9, 16)]
    assert plans[0].local.batch == plans[0].sizes.max() <= 16
    assert plans[0].steps.tolist() == plans[1].steps.tolist() == [3] * 4


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
