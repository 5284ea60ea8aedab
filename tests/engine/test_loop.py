"""Runs side by side: whoever trains in company ends with the bytes that it ends with alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import sampled

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.engine import loop
from fedsim.engine.loop import banked, events
from fedsim.engine.run import CommitPoint
from fedsim.scenario import read

CLIENTS = [
    *("fedavg", "fedprox(mu=0.1)", "scaffold", "fednova(mu=0.1)", "feddyn", "fedexp"),
    *("mimelite", "qfedavg", "afl", "feddc", "fedcm", "fedlc", "scaffnew"),
]
SERVERS = {
    "adam": ["mean", {"kind": "adam", "lr": 0.1}],
    "median": ["median"],
    "krum": [{"kind": "krum", "f": 1}],
    "clip": [{"kind": "clip", "norm": 0.5}, "mean"],
}
KINDS = {
    **{method: {"method": method} for method in CLIENTS},
    **{name: {"server": server} for name, server in SERVERS.items()},
    "momentum": {
        "client": {
            "lr": 0.1,
            "optimizer": {"kind": "sgd", "momentum": 0.9},
            "optimizer_state": "carry",
        }
    },
    "mlp": {"model": {"kind": "mlp", "hidden": [8]}},
    "steps": {
        "client": {
            "lr": {"kind": "cosine_decay_schedule", "init_value": 0.1, "decay_steps": 10},
            "lr_per": "step",
        }
    },
    "attack": {"fleet": {"malicious": 0.3}, "wire": ["sign_flip"], "server": ["median"]},
    "noise": {"wire": [{"kind": "gaussian", "std": 0.1}], "fleet": {"malicious": 0.3}},
    "poisson": {"cohort": {"kind": "poisson", "rate": 0.2}},
    "adam inside": {
        "method": "mimelite(beta=0)",
        "client": {"lr": 0.01, "batch": 8, "epochs": 2, "optimizer": "adam"},
    },
    "float64": {"numerics": {"dtype": "float64"}},
}


def scenario(**sections):
    data = {
        "kind": "gaussian_blobs",
        "samples": 400,
        "clients": 20,
        "partition": {"kind": "dirichlet", "alpha": 0.3},
    }
    plain = {
        "cohort": {"kind": "uniform", "size": 5},
        "client": {"lr": 0.1, "batch": 8, "epochs": 2},
    }
    return {"name": "together", "rounds": 4, "seeds": 5, "data": data, **plain, **sections}


def rows(runs, seeds, program):
    """(seed, row) of all of them, and what they hold at the end."""
    found = {seed: [] for seed in seeds}
    names = {id(run): seed for run, seed in zip(runs, seeds, strict=True)}
    for event in events(runs, program):
        assert not isinstance(event, CommitPoint)
        found[names[id(event[0])]].append(event[1].values)
    return found, {
        seed: run.snapshot(portable=True).arrays for run, seed in zip(runs, seeds, strict=True)
    }


def noisy(params, x, *, key, train, **_):
    """A logistic regression that drops features while it trains: every client's noise is its own."""
    kept = jax.random.bernoulli(key, 0.5, x.shape) if train else jnp.ones(x.shape)
    return (x * kept) @ params["W"]


@pytest.mark.parametrize("kind", sampled([*KINDS, "dropout"], 99, share=2))
def test_company_changes_no_bit(kind):
    checked = read(scenario(**KINDS.get(kind, {})))
    own = (lambda key, x: {"W": jnp.zeros((x.shape[-1], 10))}, noisy)
    with numerics(checked):
        experiment = build(checked, model=own if kind == "dropout" else None)
        seeds = list(experiment.plans)
        programs, plans = [experiment.program] * len(seeds), list(experiment.plans.values())
        groups, program = banked(programs, plans, 1000)
        assert groups == [(0, len(seeds))] and program.room.runs == len(seeds)
        together_, ends = rows([experiment.run(seed) for seed in seeds], seeds, program)
        for seed in seeds:
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed] == together_[seed]
            assert end[seed].keys() == ends[seed].keys()
            assert all(
                np.array_equal(end[seed][name], ends[seed][name], equal_nan=True)
                for name in end[seed]
            )
            assert len(alone[seed]) == 5


@pytest.mark.parametrize("method", ["mime", "fedlin", "scaffold(option=1)", "fedsam", "fedntd"])
def test_who_passes_twice_through_the_model_in_a_step_plays_alone(method):
    """What the compiler makes of two such passes is not the same in company, so there is none."""
    checked = read(scenario(method=method))
    with numerics(checked):
        experiment = build(checked)
        plans = list(experiment.plans.values())
        groups, program = banked([experiment.program] * len(plans), plans, 1000)
        assert groups == [(i, i + 1) for i in range(len(plans))] and program is experiment.program


def banks(experiment, seeds, monkeypatch, most):
    monkeypatch.setattr(loop, "MOST", most)
    return banked(
        [experiment.program] * len(seeds), [experiment.plans[seed] for seed in seeds], 1000
    )


@pytest.mark.long
def test_groups_are_even_and_share_one_program(monkeypatch):
    checked = read(scenario())
    with numerics(checked):
        experiment = build(checked)
        groups, program = banks(experiment, list(experiment.plans), monkeypatch, 2)
        assert groups == [(0, 2), (2, 3), (3, 5)] and program.room.runs == 2
        alone, same = banks(experiment, list(experiment.plans), monkeypatch, 1)
        assert alone == [(i, i + 1) for i in range(5)] and same is experiment.program
        one = experiment.run(2)
        found, end = rows([one], [2], program)  # the other place stays empty
        expected, other = rows([experiment.run(2)], [2], experiment.program)
        assert found == expected and all(
            np.array_equal(end[2][name], other[2][name]) for name in end[2]
        )


@pytest.mark.long
def test_a_run_that_diverges_leaves_the_others_alone(monkeypatch):
    checked = read(
        scenario(
            client={"lr": 1e30, "batch": 8, "epochs": 2},
            model={"kind": "linear", "loss": "squared"},
            rounds=14,
        )
    )
    calm = read(
        scenario(
            client={"lr": 1e-3, "batch": 8, "epochs": 2},
            model={"kind": "linear", "loss": "squared"},
            rounds=14,
        )
    )
    with numerics(checked):
        wild = build(checked)
        quiet = build(
            calm, partition=lambda *_: {seed: plan.federation for seed, plan in wild.plans.items()}
        )
        assert loop.alike([wild.program, quiet.program], [wild.plans[0], quiet.plans[0]])
        _, program = banks(wild, [0, 1, 2], monkeypatch, 4)
        found, _ = rows(
            [wild.run(0), quiet.run(0), wild.run(1)], ["wild", "quiet", "other"], program
        )
        assert [len(found[name]) for name in ("wild", "quiet", "other")] == [
            11,
            15,
            11,
        ]  # ten rounds without a message
        for name, experiment, seed in (("wild", wild, 0), ("quiet", quiet, 0), ("other", wild, 1)):
            assert repr(rows([experiment.run(seed)], [name], experiment.program)[0][name]) == repr(
                found[name]
            )


@pytest.mark.long
def test_runs_that_were_left_after_different_rounds_meet_again(monkeypatch):
    checked = read(scenario(method="scaffold", rounds=5))
    with numerics(checked):
        experiment = build(checked)
        _, program = banks(experiment, [0, 1, 2], monkeypatch, 4)
        left = {}
        for seed, until in ((0, 1), (1, 3)):
            run = experiment.run(seed)
            for event in events([run], run.program, lambda r, until=until: r == until):
                if isinstance(event, CommitPoint):
                    left[seed] = run.snapshot(portable=True)
                    break
        runs = [experiment.run(seed) for seed in (0, 1, 2)]
        for seed, snapshot in left.items():
            runs[seed].restore(snapshot)
        found, ends = rows(runs, [0, 1, 2], program)
        assert [len(found[seed]) for seed in (0, 1, 2)] == [4, 2, 6]
        for seed in (0, 1, 2):
            alone, end = rows([experiment.run(seed)], [seed], experiment.program)
            assert alone[seed][-len(found[seed]) :] == found[seed]
            assert all(np.array_equal(end[seed][name], ends[seed][name]) for name in end[seed])


def test_a_rest_is_one_moment_for_all():
    checked = read(scenario())
    with numerics(checked):
        experiment = build(checked)
        _, program = banked([experiment.program] * 5, list(experiment.plans.values()), 1000)
        runs = [experiment.run(seed) for seed in experiment.plans]
        rests = [
            e for e in events(runs, program, lambda r: r in (2, 4)) if isinstance(e, CommitPoint)
        ]
        assert [rest.round for rest in rests] == [2] and rests[
            0
        ].runs == runs  # after the last round nothing goes on


@pytest.mark.long
def test_groups_of_any_size_compile_once(monkeypatch):
    monkeypatch.setattr(loop, "MOST", 2)
    sizes, programs = [], []
    real = loop.events

    def spied(runs, program, *rest):
        yield from real(runs, program, *rest)
        programs.append(program)
        sizes.append(
            [
                f._cache_size()
                for f in (
                    program.mesh.train,
                    program.server.reduction.adding,
                    program.server.update,
                )
            ]
        )

    monkeypatch.setattr("fedsim.runs.execute.events", spied)
    fedsim.run(scenario(method="scaffold"))
    assert len(sizes) == 3 and sizes[0] == sizes[1] == sizes[2]
    assert {(program.room.runs, program.room.steps) for program in programs} == {
        (2, programs[0].room.steps)
    }


def compared(**more):
    methods = ["fedavg", "fedprox(mu=0.1)", "median", "fedadam(lr=0.05)"]
    return fedsim.compare(
        scenario(), methods, vary={"client.lr": [0.05, 0.1], "fleet.malicious": [0, 0.2]}, **more
    )


@pytest.mark.long
def test_a_comparison_has_the_same_bytes_with_and_without_company(monkeypatch, tmp_path):
    sizes = []
    real = loop.events
    monkeypatch.setattr(
        "fedsim.runs.execute.events",
        lambda runs, *rest: sizes.append(len(runs)) or real(runs, *rest),
    )
    compared(out=tmp_path / "many", pictures=False)
    assert sizes == [15] * 4 + [10] * 2  # three methods train alike, one does not
    monkeypatch.setattr(loop, "MOST", 1)
    compared(out=tmp_path / "one", pictures=False)
    for name in ("rounds", "summary", "clients", "partition", "compare", "across", "profiles"):
        assert (tmp_path / f"many/{name}.csv").read_bytes() == (
            tmp_path / f"one/{name}.csv"
        ).read_bytes()


@pytest.mark.long
def test_a_cell_that_fails_in_company_fails_alone():
    """A rule that needs more clients than there are is found when it is built; this one breaks while it runs."""

    @fedsim.rule
    def breaks_in_company():
        """Breaks."""
        return lambda updates, context: updates.no_such_thing

    found = fedsim.compare(scenario(), ["fedavg", "breaks_in_company", "median"])
    assert (
        list(found.reasons) == ["breaks_in_company"]
        and "no_such_thing" in found.reasons["breaks_in_company"]
    )
    assert set(found.rounds["method"]) == {"fedavg", "median"} and len(found.rounds) == 2 * 5 * 5
