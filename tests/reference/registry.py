"""The reference of each method and rule of fedsim, with the hyper-parameters."""

from typing import Any, NamedTuple

from reference import (
    absent,
    clients,
    detectors,
    duals,
    filters,
    labels,
    personal,
    robust,
    rules,
    shared,
)


class Method(NamedTuple):
    """A client method and the rule of its fragment.

    Attributes:
      shorthand: the value of `method:`.
      client: the `client` section of the scenario.
      server: the rule in the scenario, and what the method's fragment adds after it.
      train: the reference of the client method.
      rule: the reference of the rule.
      lr: η_l.
      problem: the name of the samples that it needs.
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


def _written(numbers: dict[str, Any]) -> str:
    """Parameters as they stand in a short form."""
    text = lambda v: f"[{', '.join(v)}]" if isinstance(v, list) else str(v)
    return ", ".join(f"{name}={text(value)}" for name, value in numbers.items())


def _method(
    server: list[dict],
    rule: type[rules.Rule],
    train: type[clients.Client],
    kind: str,
    at: tuple[float, str] = (0.1, "squares"),
    **numbers: Any,
) -> Method:
    """A client method with parameters, at a learning rate on a problem."""
    shorthand = f"{kind}({_written(numbers)})" if numbers else kind
    lr, problem = at
    return Method(shorthand, {"kind": kind, **numbers}, server, train, rule, lr, problem)


def _sampled(*arguments, **numbers) -> Method:
    return _method([SAMPLES], rules.Samples, *arguments, **numbers)


def _uniform(*arguments, **numbers) -> Method:
    return _method([UNIFORM], rules.Uniform, *arguments, **numbers)


def _stepping(*arguments, **numbers) -> Method:
    """Of methods whose server step is written out."""
    return _method([UNIFORM, ONE], rules.Uniform, *arguments, **numbers)


def _plain(shorthand: str, *server: dict, rule: type, lr: float = 0.1) -> Method:
    """Plain local training behind another server."""
    return Method(shorthand, SGD, list(server), clients.Client, rule, lr)


def _optimised(name: str, lr: float, **numbers: float) -> Method:
    link, rule = (SAMPLES, rules.Samples) if name == "fedavgm" else (UNIFORM, rules.Uniform)
    return _plain(f"{name}(lr={lr})", link, {"kind": name, "lr": lr, **numbers}, rule=rule)


CLASSES = (0.3, "softmax")
NETWORK = (0.02, "features")
METHODS = {
    "fedavg": _plain("fedavg", SAMPLES, rule=rules.Samples),
    "fedsgd": _sampled(clients.FedSGD, "fedsgd"),
    "fedprox": _sampled(clients.FedProx, "fedprox", mu=0.3),
    "scaffold": _stepping(duals.Scaffold, "scaffold", option=2)._replace(shorthand="scaffold"),
    "scaffold(option=1)": _stepping(duals.ScaffoldI, "scaffold", option=1),
    "fedavgm": _optimised("fedavgm", 0.8, momentum=0.9),
    "fedadagrad": _optimised("fedadagrad", 0.1, b1=0.0, tau=1e-3),
    "fedadam": _optimised("fedadam", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fedyogi": _optimised("fedyogi", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fednova": _method([{"kind": "nova"}], rules.Nova, clients.FedNova, "fednova", mu=0.3),
    "fedexp": _plain("fedexp", {"kind": "fedexp", "eps": 1e-3, "average": True}, rule=rules.FedExP),
    "feddyn": _method(
        [{"kind": "dyn", "alpha": 0.4}], rules.Dyn, duals.FedDyn, "feddyn", alpha=0.4
    ),
    "mime": _stepping(shared.Mime, "mime", beta=0.8),
    "mimelite": _stepping(shared.MimeLite, "mimelite", beta=0.8),
    "fedlin": _stepping(shared.FedLin, "fedlin"),
    "fedcm": _stepping(shared.FedCM, "fedcm", alpha=0.3),
    "fedlion": _stepping(shared.FedLion, "fedlion", (0.03, "squares"), b1=0.9, b2=0.99),
    "feddc": _uniform(duals.FedDC, "feddc", alpha=0.3),
    "fedadmm": _method(
        [{"kind": "mean_over_all"}], rules.MeanOverAll, duals.FedADMM, "fedadmm", rho=0.5
    ),
    "mifa": _plain("mifa", {"kind": "mifa"}, ONE, rule=absent.Mifa),
    "fedvarp": _plain("fedvarp", {"kind": "fedvarp"}, ONE, rule=absent.FedVARP),
    "ca2fl": _plain("ca2fl", {"kind": "ca2fl"}, ONE, rule=absent.FedVARP),
    "fedau": _plain("fedau(cutoff=2)", {"kind": "fedau", "cutoff": 2}, ONE, rule=absent.FedAUShort),
    "scaffnew": _uniform(duals.Scaffnew, "scaffnew"),
    "worker_momentum": _sampled(duals.WorkerMomentum, "worker_momentum", beta=0.7),
    "fedsam": _sampled(clients.FedSAM, "fedsam", rho=0.2),
    "delta_sgd": _sampled(clients.DeltaSGD, "delta_sgd", gamma=1.0, delta=0.3, eta0=0.05),
    "moon": _sampled(labels.Moon, "moon", NETWORK, mu=0.8, temperature=0.5),
    "fedlc": _sampled(labels.FedLC, "fedlc", CLASSES, tau=0.5),
    "fedrs": _sampled(labels.FedRS, "fedrs", CLASSES, alpha=0.5),
    "fedntd": _sampled(labels.FedNTD, "fedntd", CLASSES, beta=0.7, temperature=1.5),
    "fedper": _sampled(labels.FedPer, "fedper", CLASSES, personal=["b"]),
    "fine_tune": _sampled(clients.Client, "fine_tune", tune_steps=3),
    "knn_per": _sampled(clients.Client, "knn_per", (0.3, "features"), k=3),
    "ditto": _sampled(personal.Ditto, "ditto", lam=0.4, personal_lr=0.15, personal_steps=2),
    "pfedme": _stepping(personal.PFedMe, "pfedme", lam=2.0, personal_lr=0.1, personal_steps=3),
    "per_fedavg": _stepping(personal.PerFedAvg, "per_fedavg", alpha=0.2),
    "apfl": _uniform(personal.APFL, "apfl", alpha=0.4),
    "fedrep": _sampled(personal.FedRep, "fedrep", CLASSES, head_steps=2, personal=["b"]),
    "fedbabu": _sampled(personal.FedBABU, "fedbabu", CLASSES, personal=["b"]),
    "lg_fedavg": _sampled(personal.LGFedAvg, "lg_fedavg", CLASSES, personal=["W"]),
    "fedbn": _sampled(personal.FedBN, "fedbn", CLASSES, personal=["b"]),
    "mr_mtl": _uniform(personal.MRMTL, "mr_mtl", lam=0.4),
    "fedrod": _sampled(personal.FedRoD, "fedrod", CLASSES, personal=["b"]),
    "fedala": _sampled(
        personal.FedALA, "fedala", CLASSES, weight_steps=2, weight_lr=2.0, personal=["b"]
    ),
    "fedproto": _sampled(labels.FedProto, "fedproto", NETWORK, lam=0.8),
    "fedpac": _sampled(personal.FedPAC, "fedpac", NETWORK, lam=0.8, head_epochs=2, personal=["W"]),
    "fedas": _method(
        [{"kind": "mean", "weights": "effort"}],
        rules.Effort,
        personal.FedAS,
        "fedas",
        NETWORK,
        align_lr=0.002,
        align_epochs=2,
        personal=["W"],
    ),
    "propfair": _sampled(clients.PropFair, "propfair", baseline=0.6, epsilon=0.3),
    "qfedavg": _plain("qfedavg(q=1.5)", {"kind": "q_fair", "q": 1.5, "L": None}, rule=rules.QFair),
    "afl": Method(
        "afl(lr=0.02)",
        {"kind": "fedsgd"},
        [{"kind": "agnostic", "lr": 0.02}],
        clients.FedSGD,
        rules.Agnostic,
    ),
}
"""By name; a name with an option in brackets is the same method."""

RULES: dict[str, tuple[dict, type[rules.Rule]]] = {
    "mean(samples)": (SAMPLES, rules.Samples),
    "mean(uniform)": (UNIFORM, rules.Uniform),
    "mean(steps)": ({"kind": "mean", "weights": "steps"}, rules.Steps),
    "mean(effort)": ({"kind": "mean", "weights": "effort"}, rules.Effort),
    "nova": ({"kind": "nova"}, rules.Nova),
    "fedexp": ({"kind": "fedexp", "eps": 1e-3, "average": True}, rules.FedExP),
    "mean_over_all": ({"kind": "mean_over_all"}, rules.MeanOverAll),
    "horvitz_thompson": ({"kind": "horvitz_thompson"}, rules.HorvitzThompson),
    "mifa": ({"kind": "mifa"}, absent.Mifa),
    "fedvarp": ({"kind": "fedvarp"}, absent.FedVARP),
    "ca2fl": ({"kind": "ca2fl"}, absent.FedVARP),
    "fedau": ({"kind": "fedau", "cutoff": 50}, absent.FedAU),
    "fedau(cutoff=2)": ({"kind": "fedau", "cutoff": 2}, absent.FedAUShort),
    "q_fair": ({"kind": "q_fair", "q": 1.5, "L": None}, rules.QFair),
    "term": ({"kind": "term", "t": 0.7}, rules.Term),
    "delta_fl": ({"kind": "delta_fl", "theta": 0.35}, rules.DeltaFL),
    "gifair": ({"kind": "gifair", "strength": 0.8}, rules.Gifair),
    "fedmgda": ({"kind": "fedmgda", "epsilon": 1.0, "weights": "uniform"}, rules.FedMGDA),
    "agnostic": ({"kind": "agnostic", "lr": 0.02}, rules.Agnostic),
    # Two groups, whose clients depend on ids, are in tests/rules/test_hierarchical.py.
    "hierarchical": (
        {"kind": "hierarchical", "groups": 1, "inner": {"kind": "median"}},
        robust.Median,
    ),
    "agnostic(lr=0.3)": ({"kind": "agnostic", "lr": 0.3}, rules.AgnosticFar),
    "median": ({"kind": "median"}, robust.Median),
    "trimmed_mean": ({"kind": "trimmed_mean", "trim": 1}, robust.TrimmedMean),
    "krum": ({"kind": "krum", "f": 1}, robust.Krum),
    "multi_krum": ({"kind": "multi_krum", "f": 1}, robust.MultiKrum),
    "geometric_median": ({"kind": "geometric_median"}, robust.GeometricMedian),
    "rfa": ({"kind": "rfa"}, robust.RFA),
    "centered_clipping": (
        {"kind": "centered_clipping", "radius": 0.15, "iterations": 2},
        robust.CenteredClipping,
    ),
    "mean_around_median": ({"kind": "mean_around_median", "f": 1}, filters.MeanAroundMedian),
    "phocas": ({"kind": "phocas", "f": 1}, filters.Phocas),
    "bulyan": ({"kind": "bulyan", "f": 0}, filters.Bulyan),
    "sign_majority": ({"kind": "sign_majority"}, filters.SignMajority),
    "robust_learning_rate": (
        {"kind": "robust_learning_rate", "threshold": 3},
        filters.RobustLearningRate,
    ),
    "minimum_diameter": ({"kind": "minimum_diameter", "f": 1}, filters.MinimumDiameter),
    "smallest_eigenvalue": ({"kind": "smallest_eigenvalue", "f": 1}, filters.SmallestEigenvalue),
    "covariance_filter": ({"kind": "covariance_filter", "f": 1}, filters.CovarianceFilter),
    "divide_and_conquer": ({"kind": "divide_and_conquer", "f": 1}, filters.DivideAndConquer),
    "foolsgold": ({"kind": "foolsgold"}, filters.FoolsGold),
    "flame": ({"kind": "flame", "noise": 0.0}, filters.Flame),
    "sign_guard": ({"kind": "sign_guard"}, filters.SignGuard),
    "largest_cluster": ({"kind": "largest_cluster"}, filters.LargestCluster),
    "monna": ({"kind": "monna", "f": 1}, filters.Monna),
    "three_sigma": ({"kind": "three_sigma", "factor": 1.0}, filters.ThreeSigma),
    "auto_gm": ({"kind": "auto_gm", "lam": 0.5}, filters.AutoGM),
    "residual_reweighting": ({"kind": "residual_reweighting"}, detectors.ResidualReweighting),
    "lasa": ({"kind": "lasa"}, detectors.Lasa),
    "fldetector": ({"kind": "fldetector", "window": 2}, detectors.FLDetector),
}
"""By name, for plain local training."""
