"""Runs trained together: each ends with the bytes that it has when trained alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine import loop
from fedsim.engine.run import CommitPoint
from fedsim.scenario import read

METHODS = [
    *("fedavg", "fedprox(mu=0.1)", "scaffold", "fednova(mu=0.1)", "feddyn", "fedexp", "mimelite"),
    *("qfedavg", "afl", "feddc", "fedcm", "fedlc", "scaffnew"),
]
MOMENTUM = {"kind": "sgd", "momentum": 0.9}
DECAY = {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 10}
KINDS = {
    **{method: {"method": method} for method in METHODS},
    "adam": {"server": ["mean", {"kind": "adam", "lr": 0.1}]},
    "median": {"server": ["median"]},
    "krum": {"server": [{"kind": "krum", "f": 1}]},
    "clip": {"server": [{"kind": "clip", "norm": 0.5}, "mean"]},
    "momentum": {"client": {"lr": 0.1, "optimizer": MOMENTUM, "optimizer_state": "carry"}},
    "mlp": {"model": {"kind": "mlp", "hidden": [8]}},
    "steps": {"client": {"lr": DECAY, "lr_per": "step"}},
    "attack": {"fleet": {"malicious": 0.3}, "wire": ["sign_flip"], "server": ["median"]},
    "noise": {"wire": [{"kind": "gaussian", "std": 0.1}], "fleet": {"malicious": 0.3}},
    "poisson": {"cohort": {"kind": "poisson", "rate": 0.2}},
    "adam inside": {"method": "mimelite(beta=0)", "client": {"lr": 0.01, "optimizer": "adam"}},
    "float64": {"numerics": {"dtype": "float64"}},
}


def scenario(**sections):
    partition = {"kind": "dirichlet", "alpha": 0.3}
    data = {"kind": "gaussian_blobs", "samples": 400, "clients": 20, "partition": partition}
    client = {"lr": 0.1, "batch": 8, "epochs": 2}
    plain = {"cohort": {"kind": "uniform", "size": 5}, "client": client}
    return {"name": "together", "rounds": 4, "seeds": 5, "data": data, **plain, **sections}


def rows(runs, seeds, program):
    """The rows of runs by seed, and the arrays that each of them holds at the end."""
    seed_of = {id(run): seed for run, seed in zip(runs, seeds, strict=True)}
    rows_of = {seed: [] for seed in seeds}
    for event in loop.events(runs, program):
        assert not isinstance(event, CommitPoint)
        run, row = event
        rows_of[seed_of[id(run)]].append(row.values)

    return rows_of, {seed_of[id(run)]: run.snapshot(portable=True).arrays for run in runs}


def same_bits(one, two):
    """Two runs hold equal arrays."""
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], strict=True)


def noisy(params, x, *, key, train, **_):
    """A logistic regression that drops features in training: every client has its own noise."""
    features = jax.random.bernoulli(key, 0.5, x.shape) if train else jnp.ones(x.shape)
    return (x * features) @ params["W"]


@pytest.mark.optimised
@pytest.mark.long
@pytest.mark.parametrize("kind", [*KINDS, "dropout"])
def test_training_together_changes_no_bit(kind):
    checked = read(scenario(seeds=3, **KINDS.get(kind, {})))
    model = None
    if kind == "dropout":
        model = (lambda key, x: {"W": jnp.zeros((x.shape[-1], 10))}, noisy)
    with numerics(checked):
        experiment = build(checked, model=model)
        seeds = list(experiment.plans)
        programs = [experiment.program] * len(seeds)
        groups, program = loop.group_runs(programs, list(experiment.plans.values()), 1000)
        assert groups == [(0, len(seeds))]
        assert program.capacity.runs == len(seeds)

        together, ends = rows([experiment.run(seed) for seed in seeds], seeds, program)
        for seed in seeds:
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed] == together[seed]
            assert len(alone[seed]) == 5
            same_bits(end[seed], ends[seed])


@pytest.mark.quick(3)
@pytest.mark.parametrize("method", ["mime", "fedlin", "scaffold(option=1)", "fedsam", "fedntd"])
def test_methods_with_two_passes_per_step_train_separately(method):
    """How the compiler fuses two such passes depends on the other runs."""
    checked = read(scenario(method=method))
    with numerics(checked):
        experiment = build(checked)
        plans = list(experiment.plans.values())
        groups, program = loop.group_runs([experiment.program] * len(plans), plans, 1000)
        assert groups == [(i, i + 1) for i in range(len(plans))]
        assert program is experiment.program


def banks(experiment, seeds, monkeypatch, most):
    """The groups of an experiment's runs, of at most `most` runs each, and their program."""
    monkeypatch.setattr(loop, "MAX_RUNS", most)
    plans = [experiment.plans[seed] for seed in seeds]
    return loop.group_runs([experiment.program] * len(seeds), plans, 1000)


@pytest.mark.long
def test_groups_are_even_and_share_one_program(monkeypatch):
    checked = read(scenario())
    with numerics(checked):
        experiment = build(checked)
        groups, program = banks(experiment, list(experiment.plans), monkeypatch, 2)
        assert groups == [(0, 2), (2, 3), (3, 5)]
        assert program.capacity.runs == 2

        alone, same = banks(experiment, list(experiment.plans), monkeypatch, 1)
        assert alone == [(i, i + 1) for i in range(5)]
        assert same is experiment.program

        # A single run by the program for two: the slots of the other one stay empty.
        got, end = rows([experiment.run(2)], [2], program)
        want, other_end = rows([experiment.run(2)], [2], experiment.program)
        assert got == want
        same_bits(end[2], other_end[2])

        # They commit together; after the last round, none continues.
        runs = [experiment.run(seed) for seed in (0, 1)]
        seen = list(loop.events(runs, program, lambda r: r in (2, 4)))
        commits = [event for event in seen if isinstance(event, CommitPoint)]
        assert [(commit.round, commit.runs) for commit in commits] == [(2, runs)]


@pytest.mark.long
def test_a_group_that_is_filled_up_compiles_nothing_and_reads_no_memory_of_a_block_before(
    monkeypatch,
):
    checked = read(scenario(method="scaffold", rounds=2, seeds=3, numerics={"block": 2}))
    with numerics(checked):
        experiment = build(checked)
        groups, program = banks(experiment, [0, 1, 2], monkeypatch, 2)
        assert groups == [(0, 2), (2, 3)]
        functions = (program.mesh.train, program.server.aggregator.add_program)
        sizes = lambda: [each._cache_size() for each in (*functions, program.server.update)]
        rows([experiment.run(0), experiment.run(1)], [0, 1], program)
        compiled = sizes()
        got, end = rows([experiment.run(2)], [2], program)
        assert sizes() == compiled

        want, other_end = rows([experiment.run(2)], [2], experiment.program)
        assert got == want
        same_bits(end[2], other_end[2])


@pytest.mark.long
def test_a_run_that_diverges_changes_no_other(monkeypatch):
    linear = {"model": {"kind": "linear", "loss": "squared"}, "rounds": 12}
    diverging = read(scenario(client={"lr": 1e30, "batch": 8, "epochs": 2}, **linear))
    calm = read(scenario(client={"lr": 1e-3, "batch": 8, "epochs": 2}, **linear))
    with numerics(diverging):
        wild = build(diverging)
        federations = {seed: plan.federation for seed, plan in wild.plans.items()}
        quiet = build(calm, partition=lambda *_: federations)
        plans = [wild.plans[0], quiet.plans[0]]
        assert loop.can_train_together([wild.program, quiet.program], plans)

        _, program = banks(wild, [0, 1, 2], monkeypatch, 4)
        names = ["wild", "quiet", "other"]
        together, _ = rows([wild.run(0), quiet.run(0), wild.run(1)], names, program)
        # Ten rounds without a usable message end a run.
        assert [len(together[name]) for name in names] == [11, 13, 11]

        for name, experiment, seed in (("wild", wild, 0), ("quiet", quiet, 0), ("other", wild, 1)):
            alone, _ = rows([experiment.run(seed)], [name], experiment.program)
            assert repr(alone[name]) == repr(together[name])  # where NaN equals NaN


@pytest.mark.long
def test_a_cell_that_fails_in_a_group_fails_no_other():
    """A rule for too many clients is refused when it is built; this one fails while it runs."""

    @fedsim.rule
    def breaks_in_a_run():
        """Breaks."""
        return lambda updates, context: updates.no_such_thing

    comparison = fedsim.compare(scenario(seeds=2, rounds=1), ["breaks_in_a_run", "fedavg"])
    assert list(comparison.reasons) == ["breaks_in_a_run"]
    assert "no_such_thing" in comparison.reasons["breaks_in_a_run"]
    assert comparison.rounds["method"].tolist() == ["fedavg"] * 2 * 2
