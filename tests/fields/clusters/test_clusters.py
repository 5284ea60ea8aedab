"""Several models at the server: IFCA, HypCluster and CFL, against references and limits."""

import itertools

import jax
import numpy as np
import pytest
import yaml
from building import built
from conftest import oracle
from federations import quadratic, softmax
from federations import scenario as of_case
from near_points import ALL, COHORTS, NEAR, SIZES, D, digits, local, losses, means, played
from test_readme import block

import fedsim
from fedsim import tree
from fedsim.errors import ScenarioError
from fedsim.fields.clusters.agreement import adjusted_rand
from fedsim.fields.clusters.page import moves
from fedsim.report.context import context_of
from fedsim.report.page.fairness import fairness

long = pytest.mark.long
CASES = [case for case in oracle("personalisation") if case["fn"] == "ifca"]


@long
@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_ifca_is_that_of_the_reference(case):
    averaging = {"model": "models", "gradient": "gradients"}[case["params"]["averaging"]]
    steps = {} if averaging == "models" else {"steps": 1}
    sections = of_case(case, evaluate={"every": 1})
    sections["client"] |= {"kind": "ifca", "clusters": 2, "averaging": averaging, **steps}
    weights = "samples" if averaging == "models" else "uniform"
    sections["server"] = [{"kind": "mean", "weights": weights}]

    theta = []
    watch = lambda e, s, row: theta.append(np.asarray(row.server.shared["params"]))
    params = list(np.asarray(case["inputs"]["theta0"]))
    problem = softmax if "softmax" in case["name"] else quadratic
    given = problem(case["inputs"])
    result = fedsim.run(sections, **{**given, "params": params, "watch": watch})
    np.testing.assert_allclose(theta[1:], case["expected"]["theta"], **NEAR)
    np.testing.assert_array_equal(result.state()["server"]["theta"], theta[-1])
    assert moved(result) == changes(sections["cohort"]["rounds"], case["expected"]["assignment"])


def moved(result) -> list[tuple[int, int, int]]:
    table = result.clusters
    rows = zip(table["round"], table["client"].astype(int), table["cluster"], strict=True)
    return sorted((int(r), int(c), int(j)) for r, c, j in rows)


def changes(cohorts, assignments) -> list[tuple[int, int, int]]:
    """(round, client, model) wherever a client trained another model than before."""
    last, found = {}, []
    for number, (cohort, models) in enumerate(zip(cohorts, assignments, strict=True), start=1):
        for client, model in zip(cohort, models, strict=True):
            if last.get(client) != model:
                found.append((number, client, model))
            last[client] = model
    return sorted(found)


@long
def test_each_model_has_its_own_momentum_and_an_empty_one_stays():
    theta = [np.array([1.0, 0, 0]), np.array([-1.0, 0, 0]), np.full(D, 50.0)]
    server = [{"kind": "mean"}, {"kind": "fedavgm", "lr": 0.5, "momentum": 0.8}]
    client = {"kind": "ifca", "clusters": 3}
    seen, result = played(COHORTS, params=theta, server=server, client=client)

    sizes = np.array(SIZES, float)
    momentum = [np.zeros(D) for _ in theta]
    for cohort, got in zip(COHORTS, seen, strict=True):
        by_model = np.array([losses(model) for model in theta])
        choice = by_model.argmin(0)
        for j in range(3):
            members = [i for i in cohort if choice[i] == j]
            if members:
                deltas = np.array([local(theta[j], means()[i]) for i in members])
                momentum[j] = 0.8 * momentum[j] + sizes[members] @ deltas / sizes[members].sum()
                theta[j] = theta[j] + 0.5 * momentum[j]
        np.testing.assert_allclose(got, theta, **NEAR)
    assert (seen[-1][2] == 50).all()
    final = np.array([losses(model) for model in seen[-1]])
    assert result.clients["cluster"][ALL].tolist() == final.argmin(0).tolist()
    assert result.clients["cluster"].isna().tolist() == [False] * 6 + [True]
    with pytest.raises(ValueError, match="client 6 has no training samples"):
        result.model(client=6)


@pytest.fixture(scope="module")
def shifted():
    """Two groups of clients that name the classes differently, under three models."""
    data = {"kind": "digits", "clients": 10, "client_test": 0.3, "skew": ["concept_shift"]}
    return fedsim.run(
        digits(
            data=data,
            rounds=12,
            cohort="all",
            client={"lr": 0.3, "batch": 16, "epochs": 2},
            method="ifca",
            evaluate={"every": 6},
            seeds=[0, 1],
        )
    )


@long
def test_tables_tell_the_models_apart(shifted):
    rounds = shifted.rounds
    scores = rounds[["model0/test_accuracy", "model1/test_accuracy"]].to_numpy()
    np.testing.assert_allclose(rounds["test_accuracy"], scores.mean(1), rtol=1e-6)
    best = shifted.summary["adjusted_rand"].max()
    assert best == 1.0
    d = sum(leaf[0].size for layer in shifted.model(seed=0).values() for leaf in layer.values())
    clients = shifted.clients
    joined = clients["rounds_joined"]
    assert (clients["bytes_up"] == joined * (4 * d + 1)).all()
    assert (clients["bytes_down"] == joined * 2 * 4 * d).all()
    assert set(clients["cluster"]) <= {0, 1}

    found = shifted.summary["adjusted_rand"].idxmax()
    seed = shifted.summary["seed"][found]
    own = clients[clients["seed"] == seed]
    assert own["personal_accuracy"].mean() > 0.7 and "global_accuracy" not in clients


@long
def test_a_client_s_model_is_that_of_its_cluster(shifted):
    """As the server has it, and as it is scored."""
    models = shifted.model(seed=1)
    clients = shifted.clients.query("seed == 1")
    for client, cluster in zip(clients["client"], clients["cluster"], strict=True):
        own = shifted.model(seed=1, client=client)
        jax.tree.map(np.testing.assert_array_equal, own, tree.take(models, cluster))

    federation = shifted.experiment.plans[1].federation
    held = federation.test_holders
    rows = held.indices[held.owner == 3]
    x = np.concatenate([federation.train.x, federation.test.x])
    y = np.concatenate([federation.train.y, federation.test.y])
    right = shifted.predict(x[rows], seed=1, client=3).argmax(1) == y[rows]
    assert right.mean() == pytest.approx(clients["personal_accuracy"].iloc[3])


@long
def test_the_scenario_of_the_page_can_be_built(root):
    written = block((root / "docs" / "scenarios" / "personal.md").read_text(), "clusters")
    client = built(yaml.safe_load(written)).client
    assert client.bank.models == 2


@long
def test_the_page_shows_who_went_where_and_how_evenly(shifted):
    context = context_of(shifted.scenario, order=["ifca"])
    (shown,) = moves(shifted.clusters, shifted.rounds, context)
    first = shifted.clusters[shifted.clusters["seed"] == 0]
    assert shown["picture"].count('class="share"') == len(first) and not shown["hidden"]
    assert [text for _, text in shown["keys"]] == [f"model {j}" for j in sorted({*first.cluster})]

    table = fairness(shifted.clients, context)
    by_seed = []
    for _, clients in shifted.clients.groupby("seed"):
        scores = np.sort(clients["personal_accuracy"])
        apart = np.abs(scores[:, None] - scores).sum() / (2 * len(scores) * scores.sum())
        by_seed.append([scores.mean(), scores[0], scores.std(), apart])
    numbers = [number for _, number in table["rows"][0][1:]]
    np.testing.assert_allclose(numbers, np.mean(by_seed, axis=0))


def parts(similarity: np.ndarray) -> frozenset:
    """The bipartition whose largest similarity across is smallest, among all of them."""
    n = len(similarity)
    best = None
    for size in range(1, n):
        for chosen in itertools.combinations(range(1, n), size):
            other = [i for i in range(n) if i not in chosen]
            across = similarity[np.ix_(chosen, other)].max()
            if best is None or across < best[0]:
                best = (across, frozenset(chosen))
    return best[1]


@long
@pytest.mark.parametrize("rule", ["mean", "median"])
def test_cfl_is_that_of_the_paper(rule):
    eps1, eps2, lr = 0.35, 0.3, 0.2
    server = [rule, {"kind": "sgd", "lr": 0.7}]
    client = {"kind": "cfl", "eps1": eps1, "eps2": eps2, "clusters": 4}
    rounds = 12
    seen, result = played([ALL] * rounds, cohort="all", rounds=rounds, server=server, client=client)

    sizes = np.array(SIZES[:-1], float)
    cluster, theta = np.zeros(len(ALL), int), {0: np.zeros(D)}
    tree = []
    for number, got in enumerate(seen, start=1):
        deltas = np.array([local(theta[cluster[i]], means()[i], lr) for i in ALL])
        unit = deltas / np.linalg.norm(deltas, axis=1)[:, None]
        for j in sorted(theta):
            c = np.flatnonzero(cluster == j)
            mean = sizes[c] @ deltas[c] / sizes[c].sum()
            longest = np.linalg.norm(deltas[c], axis=1).max()
            if len(c) > 1 and np.linalg.norm(mean) < eps1 and longest > eps2 and len(theta) < 4:
                leaves = c[sorted(parts((unit @ unit.T)[np.ix_(c, c)]))]
                new = len(theta)
                theta[new] = theta[j]
                cluster[leaves] = new
                tree.append((new, j, number))
        for j in list(theta):
            c = np.flatnonzero(cluster == j)
            step = sizes[c] @ deltas[c] / sizes[c].sum()
            if rule == "median":
                step = np.median(deltas[c], axis=0)
            theta[j] = theta[j] + 0.7 * step
        np.testing.assert_allclose(got[: len(theta)], [theta[j] for j in sorted(theta)], **NEAR)
    assert tree  # something was split
    state = result.state()["server"]
    assert state["cluster"][ALL].tolist() == cluster.tolist()
    assert result.clients["cluster"][ALL].tolist() == cluster.tolist()
    own = [result.model(client=client) for client in ALL]
    np.testing.assert_array_equal(own, seen[-1][cluster])
    for new, parent, number in tree:
        assert (state["parent"][new], state["split_round"][new]) == (parent, number)


@long
def test_clusters_are_split_until_every_client_has_its_own():
    """The tree of splits is bounded: a cluster of one never splits, however long a run lasts."""
    client = {"kind": "cfl", "eps1": 1e9, "eps2": 0.0, "clusters": len(ALL)}
    rounds = len(ALL) + 3
    seen, result = played([ALL] * rounds, cohort="all", rounds=rounds, client=client)
    state = result.state()["server"]
    assert (
        sorted(state["cluster"][ALL].tolist()) == list(range(len(ALL))) == list(range(len(seen[0])))
    )
    assert state["split_round"].max() < len(ALL)


WRONG = [
    ({"method": "ifca(clusters=1000000000)"}, "client.clusters: 1000000000 models for 8 clients"),
    ({"client": "fedproto", "wire": ["sign_flip"]}, "sign_flip works on parameters, and fedproto"),
]


@pytest.mark.parametrize(("sections", "text"), WRONG, ids=["too many models", "prototypes"])
def test_what_is_too_much_or_knows_a_single_model_is_refused(sections, text):
    """Before any model is made. More such sections are in tests/fits/checks.yaml."""
    with pytest.raises(ScenarioError) as error:
        fedsim.run({**digits(), **sections})
    assert text in str(error.value) and "; " in str(error.value)


SCARCE = {"name": "scarce", "data": {"kind": "gaussian_blobs", "samples": 60, "clients": 3}}
START = {"W": np.zeros((20, 10)), "b": np.zeros(10)}


@pytest.mark.parametrize(
    ("kind", "models", "params", "given"),
    [("ifca", "clusters", START, "one model"), ("fedem", "components", [START] * 3, "a list of 3")],
)
def test_start_models_are_as_many_as_clusters(kind, models, params, given):
    with pytest.raises(ScenarioError, match=f"{given}, and {kind} has 2 models; pass a list"):
        fedsim.run({**SCARCE, "method": f"{kind}({models}=2)"}, params=params)


def test_divisions_agree_by_chance_about_0():
    one = np.repeat([0, 1, 2], 20)
    assert adjusted_rand(one, (one + 1) % 3) == 1
    rng = np.random.default_rng(0)
    by_chance = [adjusted_rand(one, rng.permutation(one)) for _ in range(200)]
    assert abs(np.mean(by_chance)) < 0.02
    # Hubert and Arabie's formula by hand: pairs 2, 2 and 1 of 6 together
    assert adjusted_rand(np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1])) == pytest.approx(0.0)
