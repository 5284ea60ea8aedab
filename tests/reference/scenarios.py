"""The same runs for fedsim: which names and hyper-parameters stand for which reference, and how a run is written."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedsim
from fedsim.scenario.federation import federations_of
from fedsim.types import Model
from reference import clients, loop, problems, rules

R = 6
STEPS = (3, 1, 4, 2, 5, 2, 3, 1, 4)


class Method(NamedTuple):
    """A client method and the rule of its fragment.

    Attributes:
      shorthand: as `method:` has it.
      client: the section of fedsim.
      server: the rule of fedsim, and what its fragment puts behind it.
      train: the reference of the one.
      rule: of the other.
      lr: η_l.
      problem: the samples that it needs.
    """

    shorthand: str
    client: dict[str, Any]
    server: list[dict[str, Any]]
    train: type[clients.Client]
    rule: type[rules.Rule]
    lr: float = 0.1
    problem: str = "squares"


SGD = {"kind": "sgd"}
SAMPLES = {"kind": "mean", "weights": "samples"}
UNIFORM = {"kind": "mean", "weights": "uniform"}
ONE = {"kind": "sgd", "lr": 1.0}


def _sampled(shorthand: str, client: dict, train: type, **more) -> Method:
    return Method(shorthand, client, [SAMPLES], train, rules.Samples, **more)


def _uniform(shorthand: str, client: dict, train: type, *tail: dict, **more) -> Method:
    return Method(shorthand, client, [UNIFORM, *tail], train, rules.Uniform, **more)


def _optimised(name: str, lr: float, **numbers: float) -> Method:
    rule, train = (SAMPLES, rules.Samples) if name == "fedavgm" else (UNIFORM, rules.Uniform)
    return Method(f"{name}(lr={lr})", SGD, [rule, {"kind": name, "lr": lr, **numbers}], clients.Client, train)


METHODS = {
    "fedavg": _sampled("fedavg", SGD, clients.Client),
    "fedsgd": _sampled("fedsgd", {"kind": "fedsgd"}, clients.FedSGD),
    "fedprox": _sampled("fedprox(mu=0.3)", {"kind": "fedprox", "mu": 0.3}, clients.FedProx),
    "scaffold": _uniform("scaffold", {"kind": "scaffold", "option": 2}, clients.Scaffold, ONE),
    "scaffold(option=1)": _uniform("scaffold(option=1)", {"kind": "scaffold", "option": 1}, clients.ScaffoldI, ONE),
    "fedavgm": _optimised("fedavgm", 0.8, momentum=0.9),
    "fedadagrad": _optimised("fedadagrad", 0.1, b1=0.0, tau=1e-3),
    "fedadam": _optimised("fedadam", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fedyogi": _optimised("fedyogi", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fednova": Method(
        "fednova(mu=0.3)", {"kind": "fednova", "mu": 0.3}, [{"kind": "nova"}], clients.FedNova, rules.Nova
    ),
    "fedexp": Method("fedexp", SGD, [{"kind": "fedexp", "eps": 1e-3, "average": True}], clients.Client, rules.FedExP),
    "feddyn": Method(
        "feddyn(alpha=0.4)",
        {"kind": "feddyn", "alpha": 0.4},
        [{"kind": "dyn", "alpha": 0.4}],
        clients.FedDyn,
        rules.Dyn,
    ),
    "mime": _uniform("mime(beta=0.8)", {"kind": "mime", "beta": 0.8}, clients.Mime, ONE),
    "mimelite": _uniform("mimelite(beta=0.8)", {"kind": "mimelite", "beta": 0.8}, clients.MimeLite, ONE),
    "fedlin": _uniform("fedlin", {"kind": "fedlin"}, clients.FedLin, ONE),
    "fedcm": _uniform("fedcm(alpha=0.3)", {"kind": "fedcm", "alpha": 0.3}, clients.FedCM, ONE),
    "fedlion": _uniform("fedlion", {"kind": "fedlion", "b1": 0.9, "b2": 0.99}, clients.FedLion, ONE, lr=0.03),
    "feddc": _uniform("feddc(alpha=0.3)", {"kind": "feddc", "alpha": 0.3}, clients.FedDC),
    "fedadmm": Method(
        "fedadmm(rho=0.5)",
        {"kind": "fedadmm", "rho": 0.5},
        [{"kind": "mean_over_all"}],
        clients.FedADMM,
        rules.MeanOverAll,
    ),
    "scaffnew": _uniform("scaffnew", {"kind": "scaffnew"}, clients.Scaffnew),
    "fedsam": _sampled("fedsam(rho=0.2)", {"kind": "fedsam", "rho": 0.2}, clients.FedSAM),
    "delta_sgd": _sampled(
        "delta_sgd(gamma=1.0, delta=0.3, eta0=0.05)",
        {"kind": "delta_sgd", "gamma": 1.0, "delta": 0.3, "eta0": 0.05},
        clients.DeltaSGD,
    ),
    "moon": _sampled(
        "moon(mu=0.8, temperature=0.5)",
        {"kind": "moon", "mu": 0.8, "temperature": 0.5},
        clients.Moon,
        lr=0.02,
        problem="features",
    ),
    "fedlc": _sampled("fedlc(tau=0.5)", {"kind": "fedlc", "tau": 0.5}, clients.FedLC, lr=0.3, problem="softmax"),
    "fedrs": _sampled("fedrs(alpha=0.5)", {"kind": "fedrs", "alpha": 0.5}, clients.FedRS, lr=0.3, problem="softmax"),
    "fedntd": _sampled(
        "fedntd(beta=0.7, temperature=1.5)",
        {"kind": "fedntd", "beta": 0.7, "temperature": 1.5},
        clients.FedNTD,
        lr=0.3,
        problem="softmax",
    ),
    "qfedavg": Method("qfedavg(q=1.5)", SGD, [{"kind": "q_fair", "q": 1.5, "L": None}], clients.Client, rules.QFair),
    "afl": Method("afl(lr=0.2)", {"kind": "fedsgd"}, [{"kind": "agnostic", "lr": 0.2}], clients.FedSGD, rules.Agnostic),
}
"""By name; the same name with another option in brackets is the same method."""

RULES: dict[str, tuple[dict, type[rules.Rule]]] = {
    "mean(samples)": (SAMPLES, rules.Samples),
    "mean(uniform)": (UNIFORM, rules.Uniform),
    "mean(steps)": ({"kind": "mean", "weights": "steps"}, rules.Steps),
    "nova": ({"kind": "nova"}, rules.Nova),
    "fedexp": ({"kind": "fedexp", "eps": 1e-3, "average": True}, rules.FedExP),
    "mean_over_all": ({"kind": "mean_over_all"}, rules.MeanOverAll),
    "horvitz_thompson": ({"kind": "horvitz_thompson"}, rules.HorvitzThompson),
    "q_fair": ({"kind": "q_fair", "q": 1.5, "L": None}, rules.QFair),
    "agnostic": ({"kind": "agnostic", "lr": 0.2}, rules.Agnostic),
    "median": ({"kind": "median"}, rules.Median),
    "trimmed_mean": ({"kind": "trimmed_mean", "trim": 1}, rules.TrimmedMean),
    "krum": ({"kind": "krum", "f": 1}, rules.Krum),
    "multi_krum": ({"kind": "multi_krum", "f": 1}, rules.MultiKrum),
    "geometric_median": ({"kind": "geometric_median"}, rules.GeometricMedian),
    "rfa": ({"kind": "rfa"}, rules.RFA),
    "centered_clipping": ({"kind": "centered_clipping", "radius": 0.15, "iterations": 2}, rules.CenteredClipping),
}
"""As they stand behind plain local training."""


class Condition(NamedTuple):
    """Under what a method is compared.

    Attributes:
      sizes: samples of every client.
      cohort: the section of fedsim.
      lr: η_g behind the rule; None: 1, or what the optimizer of the method's fragment has.
      beta: of server momentum; None: none.
      momentum: of the clients' optimizer.
      carry: whether that optimizer goes on where the client's last round ended.
      uneven: whether local steps differ between clients.
    """

    sizes: tuple[int, ...] = problems.SIZES
    cohort: Any = "all"
    lr: float | None = None
    beta: float | None = None
    momentum: float = 0.0
    carry: bool = False
    uneven: bool = False


FULL = tuple(n for n in problems.SIZES if n)
LISTED = [[0, 1, 2, 3, 4], [1, 3, 5], [0, 1, 3, 4, 5], [0, 2, 4, 5], [1, 2, 3, 4, 5], [0, 1, 2, 4, 5]]


def listed(sizes: tuple[int, ...], *, others: bool = False) -> dict[str, Any]:
    """Cohorts by id of a federation with six clients that have samples; `others`: rounds name clients without any, too.

    With `others`, the second round names nobody else.
    """
    able, empty = [i for i, n in enumerate(sizes) if n], [i for i, n in enumerate(sizes) if not n]
    cohorts = [[able[k] for k in S] for S in LISTED]
    if others:
        cohorts[1] = empty
        cohorts[3] = sorted(cohorts[3] + empty[1:])
    return {"kind": "listed", "rounds": cohorts}


HARD = Condition(cohort=listed(problems.SIZES), lr=0.5)
"""The one of the fast part."""
EMPTY = problems.SIZES
CONDITIONS = {
    "full": Condition(FULL),
    "partial": Condition(FULL, listed(FULL)),
    "cyclic": Condition(FULL, {"kind": "cyclic", "size": 4}),
    "empty": Condition(EMPTY),
    "empty, cyclic": Condition(EMPTY, {"kind": "cyclic", "size": 5}),
    "empty, named": Condition(EMPTY, listed(EMPTY, others=True)),
    "alone": Condition((8,)),
    "alone, others empty": Condition((0, 8, 0, 0)),
    "server step": Condition(FULL, lr=0.5),
    "server momentum": Condition(EMPTY, listed(EMPTY), lr=0.5, beta=0.8),
    "client momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6),
    "carried momentum": Condition(EMPTY, listed(EMPTY), momentum=0.6, carry=True),
    "uneven steps": Condition(EMPTY, listed(EMPTY), lr=0.5, uneven=True),
    "all together": Condition(EMPTY, listed(EMPTY, others=True), lr=0.5, beta=0.8, momentum=0.6, uneven=True),
}


def cohorts(condition: Condition) -> list[list[int]]:
    """Ids of every round, as the names of the cohorts say."""
    able = [i for i, n in enumerate(condition.sizes) if n]
    if condition.cohort == "all":
        return [able] * R
    if condition.cohort["kind"] == "listed":
        return condition.cohort["rounds"]
    size = condition.cohort["size"]
    return [[able[(r * size + k) % len(able)] for k in range(size)] for r in range(R)]


def tailed(server: list[dict[str, Any]], condition: Condition) -> list[dict[str, Any]]:
    """A rule, and what the condition puts behind it; an optimizer that stands there gets the condition's η_g."""
    rule, *tail = server
    if condition.beta is not None:
        return [rule, {"kind": "fedavgm", "lr": condition.lr or 1.0, "momentum": condition.beta}]
    if condition.lr is None:
        return server
    return [rule, {**(tail[0] if tail else {"kind": "sgd"}), "lr": condition.lr}]


TAILS = {
    "sgd": rules.Tail,
    "fedavgm": rules.FedAvgM,
    "fedadagrad": rules.FedAdagrad,
    "fedadam": rules.FedAdam,
    "fedyogi": rules.FedYogi,
}


def scenario(client: dict, server: list[dict], lr: float, problem: str, condition: Condition) -> dict[str, Any]:
    """The run as fedsim reads it."""
    steps = list(STEPS[: len(condition.sizes)]) if condition.uneven else 3
    section = {**client, "lr": lr, "batch": "full", "steps": steps}
    if condition.momentum:
        section |= {"optimizer": {"kind": "sgd", "momentum": condition.momentum}}
    if condition.carry:
        section |= {"optimizer_state": "carry"}
    sections = {"client": section, "server": tailed(server, condition), "cohort": condition.cohort}
    data, numerics = {"clients": len(condition.sizes), "test": 0.0}, {"dtype": "float64"}
    common = {"name": "reference", "rounds": R, "data": data, "numerics": numerics, "evaluate": {"every": R}}
    return {**common, **KINDS[problem], **sections}


def expected(train: type, rule: type, server: list[dict], lr: float, problem: str, condition: Condition) -> loop.Ended:
    """The same in NumPy; `server` is read for the numbers of what stands behind the rule alone."""
    steps = STEPS if condition.uneven else (3,) * len(condition.sizes)
    setting = loop.Setting(lr, steps, condition.momentum, condition.carry)
    ending = None
    for link in tailed(server, condition)[1:]:
        numbers = {"lr": link["lr"]} | ({"momentum": link["momentum"]} if link["kind"] == "fedavgm" else {})
        ending = functools.partial(TAILS[link["kind"]], **numbers)
    samples = problems.PROBLEMS[problem](condition.sizes)
    return loop.play(samples, setting, cohorts(condition), train, rule, ending)


def run(written: dict[str, Any], problem: str, sizes: tuple[int, ...]) -> fedsim.Result:
    """Through `fedsim.run`: client i has the rows that it has in the reference."""
    samples = problems.PROBLEMS[problem](sizes)
    data = fedsim.Arrays(samples.x, samples.y)
    return fedsim.run(
        written, data=data, model=MODELS[problem], params=tree_of(problem, samples.start), deal=dealt(sizes)
    )


def dealt(sizes: tuple[int, ...]):
    """Deals the rows out in their order, so many to each client, none to some."""

    def deal(scenario, data, dtype):
        offsets = np.cumsum((0, *sizes), dtype=np.int64)
        indices = np.arange(offsets[-1], dtype=np.int32)
        tests = {"test_indices": indices[:0], "test_offsets": 0 * offsets}
        federations = federations_of(scenario, data, dtype)
        return {seed: f._replace(indices=indices, offsets=offsets, **tests) for seed, f in federations.items()}

    return deal


def _two_layers() -> Model:
    def features(variables, x):
        return x @ variables["params"]["U"]

    def apply(variables, x, *, mask=None, key=None, train=False):
        return features(variables, x) @ variables["params"]["W"], variables["state"]

    start = lambda key: {"params": {"U": jnp.zeros((2, 2)), "W": jnp.zeros((2, 3))}, "state": {}}
    return Model(start, apply, features)


KINDS = {"squares": {"model": "linear"}, "softmax": {"model": "logistic"}, "features": {}}
MODELS: dict[str, Any] = {"squares": None, "softmax": None, "features": _two_layers()}
SHAPES = {
    "squares": {"W": (2, 1), "b": (1,)},
    "softmax": {"W": (2, 3), "b": (3,)},
    "features": {"U": (2, 2), "W": (2, 3)},
}


def tree_of(problem: str, flat: np.ndarray) -> dict[str, np.ndarray]:
    shapes = SHAPES[problem]
    cuts = np.cumsum([np.prod(shape) for shape in shapes.values()])[:-1]
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, np.split(flat, cuts), strict=True)}


def flat(tree: Any) -> np.ndarray:
    """A model as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def compare(result: fedsim.Result, want: loop.Ended) -> None:
    """Parameters, and what server and clients remember, by name; clients without samples have no weight."""
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(flat(result.model()), want.x, err_msg="params", **close)
    state = result.state()
    for name, value in want.server.items():
        got = state["server"][name]
        if isinstance(value, dict):
            value = np.array([value.get(i, 0.0) for i in range(len(got))])
        np.testing.assert_allclose(flat(got), value, err_msg=f"server {name}", **close)
    for i, row in want.client.items():
        for name, value in row.items():
            got = flat(jax.tree.map(lambda leaf, i=i: leaf[i], state["client"][name]))
            np.testing.assert_allclose(got, value, err_msg=f"client {i} {name}", **close)
