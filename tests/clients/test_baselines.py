"""Baselines that are not federated methods: training on pooled data, and every client alone."""

import json

import jax
import numpy as np
import pytest
from conftest import if_whole
from reference import clients, loop, problems, rules, scenarios
from reference.conditions import Condition, cohorts, listed
from test_bits import random_packing

import fedsim
from fedsim.assemble.experiment import build, numerics
from fedsim.cli.entry import main
from fedsim.disk.tables import read_table, to_csv
from fedsim.errors import Interrupted, ScenarioError
from fedsim.runs.result import TABLE_COLUMNS
from fedsim.scenario import read
from fedsim.study.standings import ON_OWN_SAMPLES, OUTSIDE

SIZES = problems.SIZES  # with clients without samples, in front, in the middle, and at the end
SAMPLES = [{"kind": "mean", "weights": "samples"}]


def written(**sections) -> dict:
    return {
        "name": "baselines",
        "rounds": 4,
        "data": {
            "kind": "gaussian_blobs",
            "samples": 400,
            "clients": 8,
            "client_test": 0.3,
            "partition": {"kind": "dirichlet", "alpha": 0.3},
        },
        "model": {"kind": "mlp", "hidden": [4]},
        "cohort": {"kind": "uniform", "size": 3},
        "client": {"lr": 0.1, "batch": 8, "epochs": 1},
        "evaluate": {"every": 2},
        **sections,
    }


def tables(result) -> dict[str, str]:
    """The result's tables, but for the method's name and what marks a baseline."""
    texts = {}
    for name in ("rounds", "clients", "partition", "summary"):
        rows = []
        for row in result.records[name]:
            rows.append({k: v for k, v in row.items() if k not in ("method", "not_federated")})
        texts[name] = to_csv(rows, TABLE_COLUMNS[name])
    return texts


def same(one, other) -> None:
    """Two results to the bit: tables, model, and what clients remember."""
    assert tables(one) == tables(other)
    pairs = ((one.model(), one.state()), (other.model(), other.state()))
    jax.tree.map(np.testing.assert_array_equal, *pairs)


# ---------------------------------------------------------------------------- against NumPy


class LocalOnly(clients.Client):
    """Every client goes on from its own model, and sends nothing."""

    def start_run(self):
        self.own = dict.fromkeys(self.problem.able, self.problem.start)

    def update(self, i, x):
        self.own[i] = self.trained(i, self.own[i])
        return np.zeros_like(x)

    def memory(self, i):
        return {"v": self.own[i]}


def of_reference(kind: str, condition: Condition, lr: float = 0.3, **keys) -> fedsim.Result:
    sections = scenarios.scenario({"kind": kind, **keys}, SAMPLES, lr, "softmax", condition)
    return scenarios.run(sections, "softmax", condition.sizes)


def alone_by_hand(condition: Condition) -> loop.Ended:
    return scenarios.expected(LocalOnly, rules.Samples, SAMPLES, 0.3, "softmax", condition)


@pytest.mark.long
def test_every_client_goes_on_from_its_own_model_under_partial_participation():
    condition = Condition(cohort=listed(SIZES, empty_too=True), uneven=True)
    result = of_reference("local_only", condition)
    want = alone_by_hand(condition)
    scenarios.compare(result, want)
    assert (want.x == problems.PROBLEMS["softmax"](SIZES).start).all()

    last = result.rounds.iloc[-1]
    assert last["bytes_up"] == last["bytes_down"] == 0 and last["clients_reported"] > 0
    assert not [name for name in result.rounds if name.startswith("test")]


@pytest.mark.long
@pytest.mark.parametrize("carry", [False, True])
@pytest.mark.parametrize("cohort", ["all", listed(SIZES)])
def test_alone_with_momentum(cohort, carry):
    condition = Condition(cohort=cohort, momentum=0.5, carry=carry)
    scenarios.compare(of_reference("local_only", condition), alone_by_hand(condition))


def descent(problem, x: np.ndarray, lr: float, steps: int) -> np.ndarray:
    """Gradient descent on the mean loss of all samples together, by complex steps."""
    n = sum(problem.sizes)
    h = 1e-30
    for _ in range(steps):
        gradient = np.zeros_like(x)
        for d in range(len(x)):
            at = x.astype(complex)
            at[d] += 1j * h
            losses = (problem.sizes[i] * problem.loss(i, at) for i in problem.able)
            gradient[d] = sum(losses).imag / (h * n)
        x = x - lr * gradient
    return x


@pytest.mark.parametrize(
    ("steps_of", "steps"),
    # 3 1 4 2 5 2 3 1 4 steps; of the clients with samples 1 4 5 2 3 1: 16 / 6, and 3 or 6 of them
    [("client", 3), pytest.param("cohort", 8, marks=pytest.mark.long)],
)
def test_pooled_training_is_descent_on_the_samples_of_all_clients(steps_of, steps):
    cohort = {"kind": "uniform", "size": 3}
    condition = Condition(cohort=cohort, uneven=True)
    result = of_reference("centralised", condition, steps_of=steps_of)
    problem = problems.PROBLEMS["softmax"](SIZES)
    want = descent(problem, problem.start, 0.3, steps * len(cohorts(Condition())))
    np.testing.assert_allclose(scenarios.flat(result.model()), want, rtol=1e-9, atol=1e-12)

    last = result.rounds.iloc[-1]
    nobody = ["bytes_up", "bytes_down", "virtual_seconds", "clients_sampled", "clients_reported"]
    assert last[nobody].isna().all()
    assert result.clients["samples"].tolist() == [*SIZES] and "bytes_up" not in result.clients


@pytest.mark.long
def test_pooled_batches_are_drawn_from_all_clients_by_hand():
    """Softmax regression in NumPy, over the batches of the plan."""
    sections = written(
        model="logistic", numerics={"dtype": "float64"}, evaluate={"every": 4}, method="centralised"
    )
    start = fedsim.run({**sections, "rounds": 0}).model()
    result = fedsim.run(sections)
    plan = result.experiment.plans[0]
    f = plan.federation
    x = f.train.x.reshape(len(f.train.x), -1)
    W, b = np.array(start["W"]), np.array(start["b"])
    seen = set()
    for r in range(1, 5):
        index, valid = plan.work.batches(r, 0)
        for rows, n in zip(index, valid, strict=True):
            rows = rows[:n]
            seen |= set(rows.tolist())
            z = x[rows] @ W + b
            p = np.exp(z - z.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            p[np.arange(n), f.train.y[rows]] -= 1
            W, b = W - 0.1 * x[rows].T @ p / n, b - 0.1 * p.mean(0)
    np.testing.assert_allclose(result.model()["W"], W, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(result.model()["b"], b, rtol=1e-9, atol=1e-12)
    owners = f.origin.holders.owner[np.isin(f.origin.holders.indices, list(seen))]
    assert len(np.unique(owners)) > 4 and seen <= set(f.origin.holders.indices.tolist())


# ------------------------------------------------------------------------------- the limits


@pytest.mark.long
@pytest.mark.parametrize(
    "client",
    [
        {"lr": 0.1, "batch": 8, "epochs": 2},
        {"lr": 0.1, "batch": 8, "epochs": 1, "shuffle": False},
        {"lr": 0.1, "batch": 8, "steps": 3, "shuffle": False},
        {"lr": 0.1, "batch": "full", "steps": 2, "momentum": 0.5},
        {"lr": 0.1, "batch": 16, "epochs": 1, "drop_last": True},
    ],
)
@pytest.mark.parametrize("method", ["centralised", "centralised(steps=cohort)"])
def test_with_one_client_pooled_training_is_fedavg_to_the_bit(client, method):
    data = {"kind": "gaussian_blobs", "samples": 200, "clients": 1}
    one, other = (
        fedsim.run(written(client=client, data=data, cohort="all", method=name))
        for name in (method, "fedavg")
    )
    jax.tree.map(np.testing.assert_array_equal, one.model(), other.model())
    assert one.rounds["test_loss"].tolist() == other.rounds["test_loss"].tolist()
    assert (
        one.rounds["train_loss"].dropna().tolist() == other.rounds["train_loss"].dropna().tolist()
    )


@pytest.mark.long
def test_one_full_step_of_all_clients_is_pooled_training():
    sections = written(
        client={"lr": 0.1, "batch": "full", "steps": 1},
        cohort="all",
        numerics={"dtype": "float64"},
    )
    one, other = (
        fedsim.run({**sections, "method": method}).model() for method in ("centralised", "fedavg")
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), one, other)


@pytest.mark.long
def test_with_one_client_alone_is_fedavg():
    data = {"kind": "gaussian_blobs", "samples": 200, "clients": 1, "client_test": 0.3}
    sections = written(data=data, cohort="all", numerics={"dtype": "float64"})
    alone = fedsim.run({**sections, "method": "local_only"})
    shared = fedsim.run({**sections, "method": "fedavg"})
    own = jax.tree.map(lambda leaf: leaf[0], alone.state()["client"]["v"])
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), own, shared.model()
    )
    np.testing.assert_allclose(
        alone.clients["personal_loss"], shared.clients["global_loss"], rtol=1e-9
    )
    assert alone.clients["personal_accuracy"].tolist() == shared.clients["global_accuracy"].tolist()


@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "of_client", "of_cohort"),
    [
        # 30 samples each: 4 batches of 8, in 2 epochs
        ({"client": {"lr": 0.1, "batch": 8, "epochs": 2}}, 8, 24),
        ({"client": {"lr": 0.1, "batch": 8, "steps": 5}}, 5, 15),
        ({"client": {"lr": 0.1, "batch": "full", "epochs": 3}}, 3, 9),
        ({"cohort": "all"}, 4, 32),
        ({"cohort": {"kind": "poisson", "rate": 0.25}}, 4, 8),
        ({"schedule": {"kind": "fedbuff", "buffer": 2, "concurrency": 4}, "cohort": "all"}, 4, 8),
    ],
)
def test_steps_of_a_round(sections, of_client, of_cohort):
    data = {"kind": "gaussian_blobs", "samples": 300, "clients": 8, "partition": "iid"}
    for method, steps in (("centralised", of_client), ("centralised(steps=cohort)", of_cohort)):
        scenario = read(written(**{"data": data, **sections}, method=method), ())
        with numerics(scenario):
            plan = build(scenario).plans[0]
        assert plan.steps.tolist() == [steps] and plan.federation.N == 1
        assert plan.federation.origin.N == 8


@pytest.mark.long
def test_steps_without_a_shuffle_reach_all_clients():
    sections = written(client={"lr": 0.1, "batch": 8, "epochs": 1, "shuffle": False})
    plan = fedsim.run({**sections, "method": "centralised"}).experiment.plans[0]
    seen = np.concatenate([plan.work.batches(r, 0)[0].ravel() for r in range(1, 20)])
    assert len(np.unique(seen)) > 0.9 * plan.sizes.sum()


# ------------------------------------------------------------------ what does not reach them


ATTACKED = {
    "fleet": {"malicious": 0.4},
    "wire": ["sign_flip"],
    "broadcast": ["cast"],
    "server": [{"kind": "clip", "norm": 0.1}, {"kind": "trimmed_mean", "trim": 1}, "adam"],
}


@pytest.mark.long
@pytest.mark.parametrize("method", ["centralised", "local_only"])
def test_attackers_wire_broadcast_and_server_do_not_reach_baselines(method):
    data = {**written()["data"], "attack": ["label_flip"]}
    plain = fedsim.run(written(data=data), method=method)
    same(fedsim.run(written(**ATTACKED, data=data), method=method), plain)
    assert plain.method == method
    assert plain.scenario["wire"] == plain.scenario["broadcast"] == []
    assert [link["kind"] for link in plain.scenario["server"]] == ["mean"]

    # The resolved scenario is read again as it is.
    assert read(plain.scenario).resolved() == plain.scenario


def test_what_a_file_says_besides_a_baseline_is_refused():
    with pytest.raises(ScenarioError) as error:
        read({"name": "x", "data": "digits", "method": "local_only", **ATTACKED})
    for where in ("fleet.malicious", "broadcast", "wire", "server[0]"):
        assert f"{where}: " in str(error.value)
    with pytest.raises(ScenarioError) as error:
        fedsim.run(written(client={"kind": "centralised"}, wire=["sign_flip"]))
    text = (
        "a wire changes messages, and centralised sends no messages; remove wire, or write method"
    )
    assert f"wire: {text}" in str(error.value)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["importance", "divfl"])
def test_a_cohort_that_looks_at_updates_is_refused(kind):
    with pytest.raises(ScenarioError) as error:
        fedsim.run(written(cohort={"kind": kind, "size": 3}, method="local_only"))
    assert "what clients send, and local_only sends no parameters" in str(error.value)


@if_whole
@pytest.mark.long
def test_alone_under_machines_that_fail():
    """The same clients train as with fedavg, and in synchronous rounds under any schedule."""
    fleet = {"availability": {"kind": "bernoulli", "rate": 0.7}, "dropout": 0.2}
    alone, shared = (
        fedsim.run(written(fleet=fleet, method=method)) for method in ("local_only", "fedavg")
    )
    columns = ["round", "clients_sampled", "clients_reported", "clients_left"]
    assert alone.rounds[columns].equals(shared.rounds[columns])
    moved = (alone.state()["client"]["v"]["layer0"]["W"] != alone.model()["layer0"]["W"]).any(
        (1, 2)
    )
    assert moved.tolist() == (alone.clients["rounds_joined"] > 0).tolist()

    schedule = {"kind": "fedbuff", "buffer": 2, "concurrency": 4}
    waits = fedsim.run(written(schedule=schedule, cohort="all"), method="local_only")
    assert waits.status == "done" and "schedule" not in waits.scenario


# ------------------------------------------------------------------------------ how runs end


@pytest.mark.long
@pytest.mark.parametrize("method", ["local_only", "fedavg"])
def test_a_run_of_clients_alone_aggregates_no_round_and_is_done(method):
    nobody = {"availability": {"kind": "bernoulli", "rate": 0.0}}
    result = fedsim.run(written(fleet=nobody, method=method))
    assert result.status == ("done" if method == "local_only" else "not_run")
    if method == "local_only":
        v = result.state()["client"]["v"]["layer0"]["W"]
        assert (v == result.model()["layer0"]["W"]).all()


@pytest.mark.long
def test_losses_of_clients_alone_that_are_not_finite_end_a_run():
    client = {"lr": 1e30, "batch": 8, "epochs": 1}
    result = fedsim.run(written(client=client, method="local_only"))
    assert result.status == "diverged" and "train_loss" in result.reasons[0]


SAME = {
    "blocks": {"numerics": {"lanes": 4, "block": 2}},
    "on disk": {"checkpoint": {"resident_mb": 0}},
}


@if_whole
@pytest.mark.long
@pytest.mark.parametrize("method", ["centralised", "centralised(steps=cohort)", "local_only"])
def test_the_same_bits_however_it_is_run(method, tmp_path):
    def ran(sections=None, **options):
        return fedsim.run(written(**(sections or {}), method=method), **options)

    whole = ran({"numerics": {"lanes": 4}})
    if method == "local_only":
        for sections in SAME.values():
            same(ran({"numerics": {"lanes": 4}, **sections}), whole)
        same(ran({"numerics": {"lanes": 4}}, pack=random_packing(1), calls=3), whole)

    # Several seeds side by side.
    seeds = ran({"numerics": {"lanes": 4}}, seeds=[3, 0])
    jax.tree.map(np.testing.assert_array_equal, seeds.model(seed=0), whole.model())
    jax.tree.map(np.testing.assert_array_equal, seeds.state(seed=0), whole.state())

    # Resumed after every round.
    often = {"checkpoint": {"rounds": 1}}
    longer = ran({**often, "rounds": 6})
    ran({**often, "rounds": 3}, out=tmp_path / "run")
    again = ran({**often, "rounds": 6}, out=tmp_path / "run", resume=True)
    same(again, longer)
    assert fedsim.verify(tmp_path / "run").equal


@pytest.mark.long
@pytest.mark.parametrize("method", ["centralised", "local_only"])
def test_natural_partitions_and_clients_that_never_train(method):
    rng = np.random.default_rng(0)
    x, y, ids = rng.normal(size=(90, 3)), np.arange(90) % 2, np.repeat(np.arange(9), 10)
    data = {"partition": "natural", "test": {"clients": 1 / 3}}
    sections = {"name": "natural", "rounds": 2, "data": data, "client": {"batch": 5}}
    result = fedsim.run({**sections, "method": method}, data=fedsim.Arrays(x, y, client=ids))
    never = result.clients["samples"] == 0
    assert never.sum() == 3 and result.clients["client"].tolist() == [*range(9)]
    if method == "local_only":
        assert result.clients["personal_accuracy"].notna().equals(never)
    else:
        assert result.experiment.plans[0].sizes.tolist() == [60]
        assert result.clients["global_accuracy"].notna().all()


@pytest.mark.long
def test_statistics_of_a_model_stay_with_clients_that_are_alone():
    """A model that counts its batches: nobody sends the count, and every client has its own."""
    from fedsim.types import Model

    def start(key):
        params = {"W": 0.1 * jax.random.normal(key, (20, 10))}
        return {"params": params, "stats": {"batches": np.zeros((), np.float32)}}

    def apply(variables, x, *, mask=None, key=None, train=False):
        batches = variables["stats"]["batches"] + train
        return x.reshape(len(x), -1) @ variables["params"]["W"], {"batches": batches}

    model = Model(init=start, apply=apply)
    result = fedsim.run(written(method="local_only"), model=model)
    counts = result.state()["client"]["stats"]["batches"]
    plan = result.experiment.plans[0]
    assert counts.tolist() == (plan.steps * result.clients["rounds_joined"]).tolist()
    assert result.rounds["bytes_up"].iloc[-1] == 0


# ------------------------------------------------------------------------------- comparisons


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A comparison with both baselines, and where it is."""
    folder = tmp_path_factory.mktemp("baselines") / "run"
    comparison = fedsim.compare(
        written(rounds=2), "fedprox(mu=0.1),scaffold", baselines=True, seeds=7, out=folder
    )
    return comparison, folder


@if_whole
@pytest.mark.long
def test_a_comparison_marks_baselines_and_ranks_them_nowhere(compared):
    comparison, folder = compared
    assert comparison.status == "done" and comparison.baseline == "fedprox(mu=0.1)"
    outcomes = {s.method: s.outcome for s in comparison.standings[""]}
    assert outcomes["centralised"] == OUTSIDE["pooled"]
    assert outcomes["local_only"] == ON_OWN_SAMPLES
    assert list(outcomes)[-2:] == ["centralised", "local_only"]

    # The same partition, start model and test set.
    record = json.loads((folder / "run.json").read_text())
    assert record["not_federated"] == {"centralised": "pooled", "local_only": "alone"}
    first = comparison.rounds[comparison.rounds["round"] == 0]
    by_seed = first[first["method"] != "local_only"].groupby("seed")["test_loss"]
    assert (by_seed.nunique() == 1).all()
    hashes = {
        o.cell.method: [
            p.federation.unpooled.fingerprint() for p in o.result.experiment.plans.values()
        ]
        for o in comparison.outcomes
    }
    assert len({json.dumps(of_method) for of_method in hashes.values()}) == 1

    row = comparison.table.set_index("method").loc["centralised"]
    assert np.isfinite(row["difference"]) and row["seeds"] == 7
    row = comparison.table.set_index("method").loc["local_only"]
    assert row["seeds"] == 7 and row["score"] == "own" and np.isfinite(row["difference"])
    for name in ("bytes", "seconds"):
        rows = comparison.records[name]
        assert {row["method"] for row in rows} <= {"fedprox(mu=0.1)", "scaffold"}

    headline, *lines = comparison.verdict
    assert "centralised" not in headline and "local_only" not in headline
    text = " ".join(lines)
    assert "centralised trains on pooled data and is not a federated method" in text
    scored = f"test accuracy {row['mean']:.3f}, on the clients' own test samples"
    assert f"local_only trains every client alone and is not a federated method: {scored}" in text
    personal = comparison.clients.set_index("method").loc["local_only", "personal_accuracy"]
    assert abs(row["mean"] - personal.groupby(np.repeat(range(7), 8)).mean().mean()) < 1e-9


@pytest.mark.long
def test_the_files_of_a_comparison_say_the_same_again(compared, pictures):
    comparison, folder = compared
    assert fedsim.verify(folder).equal
    main(["report", str(folder)])
    record = json.loads((folder / "run.json").read_text())
    assert record["verdict"] == comparison.verdict
    page = (folder / "report.html").read_text()
    assert "not federated" in page and ON_OWN_SAMPLES in page
    paper = (folder / "tables" / "summary.tex").read_text()
    assert "Last, not federated methods: centralised (trained on pooled data)" in paper
    assert "scored on its own test samples" in paper and "\\bfseries" not in next(
        line for line in paper.splitlines() if line.startswith("centralised")
    )


@if_whole
@pytest.mark.long
def test_the_others_against_pooled_training_and_an_attack_that_is_not_theirs():
    data = {**written()["data"], "attack": ["label_flip"]}
    comparison = fedsim.compare(
        written(rounds=2, data=data),
        "fedavg,local_only,centralised",
        baseline="centralised",
        vary={"fleet.malicious": [0, 0.5]},
        seeds=2,
    )
    for name in ("centralised", "local_only"):
        runs = comparison.summary[comparison.summary["method"] == name]
        scores = runs.drop(columns=["variant", "fleet.malicious"]).groupby("seed")
        assert (scores.nunique(dropna=False) == 1).all(axis=None)
    assert "from centralised" in comparison.verdict[0]

    # The partition that is listed is that of methods whose samples are poisoned.
    changed = comparison.partition.groupby("variant")["attack/label_flip"].sum()
    assert changed["fleet.malicious=0"] == 0 and changed["fleet.malicious=0.5"] > 0


@pytest.mark.long
def test_a_run_that_was_interrupted_is_marked_as_well(tmp_path):
    rounds = iter(range(100))
    sections = written(rounds=6, checkpoint={"rounds": 1}, method="local_only")
    with pytest.raises(Interrupted):
        fedsim.run(sections, out=tmp_path / "run", ask=lambda: next(rounds) > 6)
    summary = read_table(tmp_path / "run", "summary")
    assert summary is not None
    assert summary["not_federated"].tolist() == ["alone"] and summary["metric"].isna().all()


@pytest.mark.long
def test_the_command_runs_another_method(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    options = ["--set", "rounds=1", "--set", "data.clients=12", "--no-pictures"]
    main(["run", "iid", "--method", "centralised", *options])
    assert "it trains on the pooled samples" in capsys.readouterr().out
    main(["check", "iid", "--methods", "fedavg", "--baselines", *options[:4]])
    assert "3 cells in order" in capsys.readouterr().out
