"""Results of papers that need no download: each file in scenarios/papers gives what it expects.

The comment of such a file holds a table. Each line is about one run of `fedsim compare FILE` and a
quantity of MEASURED:

    #   method         variant       quantity    expected  here
    #   scaffold       data.slope=1  x           0 ± 1e-9
    #   fedexp(eps=0)  -             final_loss  <= 1e-6   -
    #   fedprox(mu=1)  iid: true     loss_ratio  >= 1.33   2.24

A number with ± has been derived: DERIVED computes it again, from the data that the scenario makes,
and both the file and the run must agree with it. A bound is followed by what was measured, for
information, or by `-` if rounding decides it.
"""

import math
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from conftest import ROOT

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.scenario import read
from fedsim.sources.generators import fedexp_regression, lower_bound_pair

FOLDER = ROOT / "scenarios" / "papers"
FILES = sorted(FOLDER.glob("*.yaml"))
each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
FLOAT64 = np.dtype("float64")


class Expectation(NamedTuple):
    """A line of a table."""

    method: str
    variant: str
    quantity: str
    low: float
    high: float
    exact: bool
    here: float | None


def expectation(
    method: str, variant: str, quantity: str, expected: str, here: str = "-"
) -> Expectation:
    """The cells of a line, understood.

    >>> expectation("scaffold", "-", "x", "0.5 ± 0.1")[3:]
    (0.4, 0.6, True, None)
    """
    if found := re.fullmatch(r"(\S+) ± (\S+)", expected):
        centre, within = map(float, found.groups())
        low, high = centre - within, centre + within
    else:
        sign, bound = expected.split()
        low, high = {"<=": (-math.inf, float(bound)), ">=": (float(bound), math.inf)}[sign]
    measured = None if here == "-" else float(here)
    variant = "" if variant == "-" else variant
    return Expectation(method, variant, quantity, low, high, found is not None, measured)


def table(path: Path) -> list[Expectation]:
    """The lines of the table in a scenario's comments."""
    rows, inside = [], False
    for text in path.read_text(encoding="utf-8").split("\n"):
        cells = re.split(r"\s{2,}", text.removeprefix("#   "))
        if text.startswith("#   method "):
            inside = True
        elif inside and text.startswith("#   "):
            rows.append(expectation(*cells))
        else:
            inside = False
    return rows


class Case(NamedTuple):
    """A run that a line is about, and all that it was compared with."""

    found: fedsim.Comparison
    outcome: "fedsim.runs.comparison.Outcome"

    @property
    def result(self) -> fedsim.Result:
        return self.outcome.result

    @property
    def client(self) -> dict:
        return self.result.scenario["client"]

    @property
    def beside(self) -> "Case":
        """The baseline's run under the same conditions."""
        return case(self.found, self.found.baseline, self.outcome.cell.variant)


def case(found: fedsim.Comparison, method: str, variant: str) -> Case:
    """Return the run of a method under a variant, named by any part that only it has."""
    mine = [o for o in found.outcomes if o.cell.method == method and variant in o.cell.variant]
    same = [o for o in mine if o.cell.variant == variant] or mine
    assert len(same) == 1, f"{len(same)} runs of {method} under '{variant}'"
    return Case(found, same[0])


def late(case: Case):
    """The last evaluated rounds, as many as `mean_last_k` is over."""
    return case.result.rounds.tail(case.result.scenario["evaluate"]["last"])


def loss(case: Case) -> float:
    return late(case)["test_loss"].mean()


def gap(case: Case) -> float:
    """How far the worst of the last rounds is from their mean."""
    return late(case)["test_loss"].max() - loss(case)


def parameters(case: Case) -> np.ndarray:
    """The coefficients of a linear model, which has no intercept."""
    (W,) = case.result.model().values()
    return W.ravel()


class LeastSquares(NamedTuple):
    """What every client minimises: ½ wᵀHw − eᵀw and a constant; and its share of the samples."""

    H: np.ndarray
    e: np.ndarray
    p: np.ndarray

    def minimum(self, weights: np.ndarray) -> np.ndarray:
        return np.linalg.solve(np.tensordot(weights, self.H, 1), np.tensordot(weights, self.e, 1))


def federation(case: Case):
    return federations_of(case.outcome.cell.scenario, None, FLOAT64)[0]


def least_squares(case: Case) -> LeastSquares:
    f = federation(case)
    rows = [
        f.holders.indices[start:end]
        for start, end in zip(f.holders.offsets[:-1], f.holders.offsets[1:], strict=True)
    ]
    H = np.array([f.train.x[row].T @ f.train.x[row] / len(row) for row in rows])
    e = np.array([f.train.x[row].T @ f.train.y[row] / len(row) for row in rows])
    return LeastSquares(H, e, f.sizes / f.sizes.sum())


def local_steps(case: Case) -> np.ndarray:
    return np.broadcast_to(case.client["steps"], len(least_squares(case).p))


def fixed_point(case: Case) -> np.ndarray:
    """Where rounds of local gradient steps change nothing: Σ p_i S_i (H_i x − e_i) = 0.

    S_i = Σ_{j<τ_i} (I − η(H_i + μ))ʲ. With μ = 0, η S_i H_i = I − M_iᵗ, where M_i = I − ηH_i and
    t = τ_i: the form that contains the minima. FedNova divides what a client sends by τ_i.
    """
    problem, client = least_squares(case), case.client
    eye, mu = np.eye(problem.H.shape[1]), client.get("mu", 0.0)
    left, right = np.zeros_like(eye), np.zeros(len(eye))
    for H, e, p, steps in zip(*problem, local_steps(case), strict=True):
        M = eye - client["lr"] * (H + mu * eye)
        S = p * sum(np.linalg.matrix_power(M, j) for j in range(steps))
        share = steps if client["kind"] == "fednova" else 1
        left, right = left + S @ H / share, right + S @ e / share
    return np.linalg.solve(left, right)


def optimum(case: Case) -> np.ndarray:
    problem = least_squares(case)
    return problem.minimum(problem.p)


def surrogate(case: Case) -> np.ndarray:
    """The minimum of Σ p_i τ_i f_i: who trains longer counts for more."""
    problem = least_squares(case)
    return problem.minimum(problem.p * local_steps(case))


def pair(mu: float, G: float, K: int, lr: float) -> float:
    """FedAvg's end on f₁ = μx² + Gx and f₂ = −Gx: K steps on either side must cancel."""
    q = (1 - 2 * lr * mu) ** K
    return G * (K * lr / (1 - q) - 1 / (2 * mu))


def pair_of(case: Case) -> float:
    data, client = case.result.scenario["data"], case.client
    if client["kind"] != "sgd":
        return 0.0
    return pair(data["mu"], data["slope"], client["steps"], client["lr"])


def unscaled(x: np.ndarray, y: np.ndarray, clients: int) -> tuple[np.ndarray, np.ndarray]:
    """A_k [N, s, d] and b_k [N, s] of FedExP's regression, from its test set."""
    samples = len(x) // clients
    A, b = (part / np.sqrt(2 * samples) for part in (x, y))
    return A.reshape(clients, samples, -1), b.reshape(clients, samples)


def notebook(case: Case, rounds: int) -> float:
    """1/N Σ ‖A_k w − b_k‖² after some rounds, computed as in the authors' notebook.

    The same code is for all methods. Its `c` stays 0 except for SCAFFOLD; its server step is 10
    except for FedExP, to which it gives neither ε nor the max nor the mean of the last two models,
    unlike fedsim.
    """
    method, client = case.outcome.cell.method, case.client
    f = federation(case)
    A, b = unscaled(f.test.x, f.test.y, f.N)
    w, c, lr = np.zeros(A.shape[2]), np.zeros((len(A), A.shape[2])), client["lr"]
    told = w
    for _ in range(rounds):
        y = np.tile(w, (len(A), 1))
        for _ in range(client["steps"]):
            residual = (A @ y[:, :, None])[:, :, 0] - b
            y = y - lr * ((residual[:, None] @ A)[:, 0] - c + c.mean(0))
        moved = y - w
        mean, step, share = moved.mean(0), 10.0, 1.0
        if method.startswith("fedexp"):
            rule = case.result.scenario["server"][-1]
            step = max(1, (moved**2).sum(1).mean() / 2 / ((mean**2).sum() + rule["eps"]))
            share = 0.5 if rule["average"] else 1.0
        if method.startswith("scaffold"):
            c = c - c.mean(0) - moved / (lr * client["steps"])
        told, w = w + share * step * mean, w + step * mean
    return ((A @ told - b) ** 2).sum() / len(A)


def after(rounds: int):
    return lambda case: case.result.rounds.set_index("round")["test_loss"][rounds]


def distance(start, end):
    return lambda case: float(np.linalg.norm(start(case) - end(case)))


def final_loss(case: Case) -> float:
    return case.result.rounds["test_loss"].iloc[-1]


# In the order of the table, in per cent; for the shared model, or the clients' own.
PFEDME = {
    ("fedavg", "client"): 77.62,
    ("pfedme", "client"): 78.65,
    ("per_fedavg", "personal"): 81.49,
    ("pfedme", "personal"): 83.20,
}


def accuracy_of_clients(case: Case, model: str) -> float:
    """Over the samples of all clients together, in per cent."""
    return 100 * late(case)[f"{model}_accuracy_samples"].mean()


def off(model: str):
    """Return the distance to the published number."""

    def measured(case: Case) -> float:
        return abs(accuracy_of_clients(case, model) - PFEDME[case.outcome.cell.method, model])

    return measured


def least_lead(run: Case) -> float:
    """The least difference between neighbours in the published order."""
    numbers = [accuracy_of_clients(case(run.found, m, ""), model) for m, model in PFEDME]
    return min(np.diff(numbers))


MEASURED = {
    "shared_off": off("client"),
    "own_off": off("personal"),
    "least_lead": least_lead,
    "final_loss": final_loss,
    "times_baseline": lambda case: final_loss(case) / final_loss(case.beside),
    "loss_20": after(20),
    "loss_200": after(200),
    "loss_ratio": lambda case: loss(case) / loss(case.beside),
    "gap_ratio": lambda case: gap(case) / gap(case.beside),
    "accuracy_gain": lambda case: (
        late(case)["test_accuracy"].mean() - late(case.beside)["test_accuracy"].mean()
    ),
    "x": lambda case: float(parameters(case)[0]),
    "to_closed_form": distance(parameters, fixed_point),
    "to_optimum": distance(parameters, optimum),
    "to_surrogate": distance(parameters, surrogate),
}
DERIVED = {
    "loss_20": lambda case: notebook(case, 20),
    "loss_200": lambda case: notebook(case, 200),
    "x": pair_of,
    "to_optimum": distance(fixed_point, optimum),
    "to_surrogate": distance(fixed_point, surrogate),
}


def faults(found: fedsim.Comparison, line: Expectation) -> list[str]:
    """What is not as a line says."""
    run = case(found, line.method, line.variant)
    what = f"{line.method} {line.variant}: {line.quantity}"
    numbers = {"measured": MEASURED[line.quantity](run)}
    if line.exact:
        numbers["derived"] = DERIVED[line.quantity](run)
    wrong = [f"{what}: {how} {x!r}" for how, x in numbers.items() if not line.low <= x <= line.high]
    if line.here is not None and numbers["measured"] != pytest.approx(line.here, rel=0.2):
        wrong.append(f"{what}: the file says {line.here}, measured {numbers['measured']!r}")
    return wrong


@pytest.mark.long
@each_file
def test_what_comes_out_is_what_is_expected(path):
    found = fedsim.compare(path)
    assert not found.reasons
    assert not [fault for line in table(path) for fault in faults(found, line)]


@each_file
def test_every_file_expects_something_that_is_checked(path):
    lines, methods = table(path), read(path).spec.compare.methods
    exact = [line.quantity for line in lines if line.exact]
    assert len(lines) > 1 and path.read_text(encoding="utf-8").count(" ± ") == len(exact)
    assert {line.quantity for line in lines} <= MEASURED.keys() and {*exact} <= DERIVED.keys()
    labels = {method if isinstance(method, str) else method["label"] for method in methods}
    assert {line.method for line in lines} <= labels
    assert len({line[:3] for line in lines}) == len(lines)


def test_the_pair_as_least_squares_has_its_slopes_and_curvatures():
    x, y, client, x_test, y_test, *_ = lower_bound_pair(mu=0.7, slope=3.0, curvature=1e-4)

    def f(k, at):
        return np.mean((x[client == k, 0] * at - y[client == k]) ** 2) / 2

    for at in (-2.0, 0.5, 3.0):
        assert f(0, at) - f(0, 0) == pytest.approx(0.7 * at**2 + 3 * at)
        assert f(1, at) - f(1, 0) == pytest.approx(-3 * at + 1e-4 * at**2 / 2)
        assert np.mean((x_test[:, 0] * at - y_test) ** 2) / 2 == pytest.approx(0.7 * at**2 / 2)


def recipe(n: int, d: int, s: int, alpha: float, beta: float, seed: int):
    """Return A_k and b_k by the notebook's draws in its order, `multivariate_normal` included."""
    rng = np.random.RandomState(seed)
    mean_w, shift = rng.normal(0, alpha, n), rng.normal(0, beta, n)
    mean_x = [rng.normal(shift[i], 1, d) for i in range(n)]
    for i in range(n):
        truth = rng.normal(mean_w[i], 1, (d, 1))
        x = rng.multivariate_normal(mean_x[i], np.eye(d), s)
        y = (x @ truth).ravel()
        yield x / np.linalg.norm(x, axis=1)[:, None], y / np.linalg.norm(y)


def test_fedexp_s_data_are_the_notebook_s():
    data = fedexp_regression(features=40, samples=7, alpha=0.2, beta=0.5, clients=5, seed=3)
    A, b = unscaled(data.x_test, data.y_test, 5)
    for k, (mine, targets) in enumerate(recipe(5, 40, 7, 0.2, 0.5, 3)):
        np.testing.assert_allclose(A[k], mine, atol=1e-15)
        np.testing.assert_allclose(b[k], targets, atol=1e-15)
        x, y = data.x[data.client == k], data.y[data.client == k]
        w = np.arange(40) / 40
        assert np.mean((x @ w - y) ** 2) / 2 == pytest.approx(np.sum((A[k] @ w - b[k]) ** 2) / 2)
        assert np.linalg.norm(A[k], axis=1) == pytest.approx(np.ones(7))
        assert np.linalg.norm(b[k]) == pytest.approx(1)
    printed = sum(np.sum((A[k] @ w - b[k]) ** 2) for k in range(5)) / 5
    assert np.mean((data.x_test @ w - data.y_test) ** 2) / 2 == pytest.approx(printed)
