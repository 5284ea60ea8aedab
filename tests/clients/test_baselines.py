"""Baselines that are not federated methods: training on pooled data, and every client alone."""

import json

import jax
import numpy as np
import pandas as pd
import pytest
from building import built
from reference import clients, loop, problems, rules, scenarios
from reference.conditions import Condition, cohorts, listed

import fedsim
from fedsim.cli.entry import main
from fedsim.scenario import read
from fedsim.study.standings import ON_OWN_SAMPLES

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
def test_pooled_batches_are_drawn_from_all_clients():
    plan = built(written(method="centralised")).plans[0]
    index, counts = plan.work.batches(1, 0)
    drawn = np.concatenate([rows[:n] for rows, n in zip(index, counts, strict=True)])
    holders = plan.federation.origin.holders
    assert set(drawn) <= set(holders.indices)
    assert len(np.unique(holders.owner[np.isin(holders.indices, drawn)])) > 4


@pytest.mark.long
@pytest.mark.parametrize(
    ("sections", "of_client", "of_cohort"),
    [
        # 30 samples each: 4 batches of 8, in 2 epochs
        ({"client": {"lr": 0.1, "batch": 8, "epochs": 2}}, 8, 24),
        ({"client": {"lr": 0.1, "batch": 8, "steps": 5}}, 5, 15),
        ({"cohort": "all"}, 4, 32),
        ({"cohort": {"kind": "poisson", "rate": 0.25}}, 4, 8),
        ({"schedule": {"kind": "fedbuff", "buffer": 2, "concurrency": 4}, "cohort": "all"}, 4, 8),
    ],
)
def test_steps_of_a_round(sections, of_client, of_cohort):
    data = {"kind": "gaussian_blobs", "samples": 300, "clients": 8, "partition": "iid"}
    for method, steps in (("centralised", of_client), ("centralised(steps=cohort)", of_cohort)):
        plan = built(written(**{"data": data, **sections}, method=method)).plans[0]
        assert plan.steps.tolist() == [steps] and plan.federation.N == 1
        assert plan.federation.origin.N == 8


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
    attacked = fedsim.run(written(**ATTACKED, data=data), method=method)
    for name in ("rounds", "clients", "partition", "summary"):
        pd.testing.assert_frame_equal(getattr(attacked, name), getattr(plain, name))
    jax.tree.map(np.testing.assert_array_equal, attacked.model(), plain.model())
    jax.tree.map(np.testing.assert_array_equal, attacked.state(), plain.state())
    assert plain.method == method
    assert plain.scenario["wire"] == plain.scenario["broadcast"] == []
    assert [link["kind"] for link in plain.scenario["server"]] == ["mean"]

    # The resolved scenario is read again as it is.
    assert read(plain.scenario).resolved() == plain.scenario


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


@pytest.mark.long
def test_the_files_of_a_comparison_say_the_same_again(tmp_path, pictures):
    folder = tmp_path / "run"
    comparison = fedsim.compare(
        written(rounds=2), "fedprox(mu=0.1)", baselines=True, seeds=2, out=folder
    )
    assert fedsim.verify(folder).equal
    main(["report", str(folder)])
    record = json.loads((folder / "run.json").read_text())
    assert record["verdict"] == comparison.verdict
    page = (folder / "report.html").read_text()
    assert "not federated" in page and ON_OWN_SAMPLES in page
    paper = (folder / "tables" / "summary.tex").read_text()
    assert "Last, not federated methods: centralised (trained on pooled data)" in paper
    assert "scored on its own test samples" in paper
    (line,) = (line for line in paper.splitlines() if line.startswith("centralised"))
    assert "\\bfseries" not in line
