"""Every method against its paper's algorithm in plain NumPy; `reference` has the conventions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import GRAPH_METHODS, crossed, if_all_installed, own_kinds_of
from reference import alone, problems, scenarios
from reference.conditions import CONDITIONS, Condition
from reference.registry import METHODS, Method

import fedsim
import fedsim.scenario.methods
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.methods import BASELINES

OPTIMISED = ("fedavgm", "fedadagrad", "fedadam", "fedyogi")
UNUSED = "client.{}: {} does not use it; remove it"
MOMENTA = ("client momentum", "carried momentum", "all together", "momentum, weight decay")
REFUSED = {
    **{("fedlion", case): UNUSED.format("optimizer", "fedlion") for case in MOMENTA},
    **{
        (name, "carried momentum"): UNUSED.format("optimizer_state", METHODS[name].client["kind"])
        for name in ("fedsgd", "afl", "mime", "mimelite", "fedpac")
    },
}
"""What means nothing, and what fedsim says of it."""
TWICE = [
    (name, case) for name in OPTIMISED for case in ("server momentum", "all together")
]  # theirs stands there
SEVERAL_MODELS = {"ifca", "hypcluster", "cfl", "fedamp", "fedem", "fedfomo"}
SEVERAL_MODELS |= {"fedgroup", "flexcfl", "pfedhn", "superfed", "dbe"}
PARTS = {"heterofl", "fedrolex"}  # test_submodels
AT_ONCE = ("fednova", "delta_sgd")
MARKS = {(name, "fast part"): () for name in AT_ONCE}
CASES = [
    pytest.param(*pair, marks=MARKS.get(pair, pytest.mark.long), id="-".join(pair))
    for pair in crossed(METHODS, CONDITIONS)
    if pair not in TWICE
]


def run(method: Method, condition: Condition) -> fedsim.Result:
    written = scenarios.scenario(method.client, method.server, method.lr, method.problem, condition)
    return scenarios.run(written, method.problem, condition.sizes)


def check(method: Method, condition: Condition) -> None:
    """Final parameters and states of fedsim and of NumPy."""
    numbers = (method.server, method.lr, method.problem)
    scenarios.compare(
        run(method, condition), scenarios.expected(method.train, method.rule, *numbers, condition)
    )


@pytest.mark.share(40)
@pytest.mark.parametrize(("name", "case"), CASES)
def test_every_method_under_every_condition(name, case):
    if (name, case) in REFUSED:
        with pytest.raises(ScenarioError) as error:
            run(METHODS[name], CONDITIONS[case])
        assert REFUSED[name, case] in str(error.value)
    else:
        check(METHODS[name], CONDITIONS[case])


@pytest.mark.parametrize("name", OPTIMISED)
def test_steps_of_fedavgm_fedadam_and_their_kin_are_those_of_the_papers(name):
    """Of optimisers behind a rule, which take −aggregate for a gradient."""
    (link,) = METHODS[name].server[1:]
    start, aggregates = np.zeros(3), np.random.default_rng(6).normal(size=(6, 3))
    paper = scenarios.TAILS[name](start, lr=link["lr"])
    ours = alone.made("optimizer", link)
    with jax.enable_x64(True):
        state, update = ours.init(jnp.asarray(start)), jax.jit(ours.update)
        for aggregate in aggregates:
            step, state = update(-aggregate, state)
            np.testing.assert_allclose(step, paper.step(aggregate), rtol=1e-12)
    for number, value in paper.server().items():
        np.testing.assert_allclose(getattr(state, number), value, rtol=1e-12)


@if_all_installed
def test_every_method_of_the_registry_has_a_reference():
    known = own_kinds_of("method").keys()
    # Baselines have no messages to aggregate; their reference is in test_baselines.
    # Servers with several models, or with one for each client: test_clusters, test_groups,
    # test_pfedhn, test_superfed and test_dbe. Methods of a graph
    # have no server; theirs is in tests/fields/graphs.
    others = {*BASELINES} | SEVERAL_MODELS | PARTS | GRAPH_METHODS
    assert {name.split("(")[0] for name in METHODS} == known - others


@pytest.mark.parametrize("name", METHODS)
def test_the_method_s_name_stands_for_what_is_compared(name):
    method = METHODS[name]
    resolved = read({"name": "x", "data": "digits", "method": method.shorthand}).resolved()
    defaults = {"theta0": 1.0} if name == "delta_sgd" else {}
    wanted = [method.client | defaults, *method.server]
    for section, want in zip([resolved["client"], *resolved["server"]], wanted, strict=True):
        assert {key: section[key] for key in want} == want


@pytest.mark.long
def test_fedadmm_reaches_the_optimum_of_the_sum_whoever_takes_part():
    """One of four clients a round, 60 steps of gradient descent each: x ends where Σ ∇f_i = 0."""
    sizes = (5, 8, 3, 6)
    condition, fedadmm = Condition(sizes, {"kind": "cyclic", "size": 1}), METHODS["fedadmm"]
    written = scenarios.scenario(fedadmm.client, fedadmm.server, 0.3, "squares", condition)
    written |= {"rounds": 1000, "evaluate": {"every": 1000}}
    written["client"]["steps"] = 60
    result = scenarios.run(written, "squares", sizes)
    assert abs(scenarios.flat(result.model()) - optimum(problems.squares(sizes))).max() < 1e-12


def optimum(problem: problems.Problem):
    """Of Σ f_i for least squares: the sum's gradient is H w + g."""
    g = lambda w: sum(problem.gradient(i, w) for i in problem.able)
    H = np.array([g(e) - g(0 * e) for e in np.eye(3)]).T
    return np.linalg.solve(H, -g(np.zeros(3)))
