"""Bits of runs whose rounds depend on earlier ones: asynchronous servers, cohorts by losses."""

import pytest
from test_loop import rows, same_bits
from unchanged import run_of_same_bytes

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine.loop import group_runs
from fedsim.scenario import read

pytestmark = pytest.mark.long


UNIFORM = [{"kind": "mean", "weights": "uniform"}]
KINDS = {
    "fedbuff": {"schedule": {"kind": "fedbuff", "buffer": 5, "concurrency": 12}, "server": UNIFORM},
    "fedasync": {
        "schedule": {"kind": "fedasync", "concurrency": 12, "staleness": "hinge", "threshold": 2},
    },
    "semi_sync": {
        "schedule": {"kind": "semi_sync", "seconds": 0.75, "concurrency": 8}, "server": ["median"],
    },
    "leaving": {
        "schedule": {"kind": "fedbuff", "buffer": 5, "concurrency": 12},
        "fleet": {"availability": {"kind": "diurnal", "period": 60.0}, "dropout": 0.3},
    },
    "power_of_choice": {"cohort": {"kind": "power_of_choice", "size": 5, "candidates": 12}},
}  # fmt: skip


def digits(kind, **sections):
    data = {"kind": "digits", "clients": 40, "partition": {"kind": "dirichlet", "alpha": 0.3}}
    lr = {"kind": "exponential_decay", "init_value": 0.1, "transition_steps": 3, "decay_rate": 0.5}
    return {
        "name": "bits",
        "rounds": 7,
        "data": data,
        "model": {"kind": "mlp", "hidden": [8]},
        "client": {"lr": lr, "batch": 8},
        "numerics": {"lanes": 4},
        **KINDS[kind],
        **sections,
    }


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_ends_with_clients_in_flight_and_goes_on_has_the_same_bytes(kind, tmp_path):
    run_of_same_bytes(digits(kind), tmp_path, cut=3)


@pytest.mark.optimised
@pytest.mark.parametrize("kind", KINDS)
def test_training_together_changes_no_bit(kind):
    data = {"kind": "gaussian_blobs", "samples": 400, "clients": 40}
    checked = read(digits(kind, seeds=4, data=data, model="logistic"))
    with numerics(checked):
        experiment = build(checked)
        seeds, plans = list(experiment.plans), list(experiment.plans.values())
        groups, program = group_runs([experiment.program] * len(seeds), plans, 1000)
        assert groups == [(0, len(seeds))]
        together, ends = rows([experiment.run(seed) for seed in seeds], seeds, program)
        for seed in seeds:
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed] == together[seed]
            same_bits(end[seed], ends[seed])
