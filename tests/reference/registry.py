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


def _sampled(shorthand: str, client: dict, train: type, **more) -> Method:
    return Method(shorthand, client, [SAMPLES], train, rules.Samples, **more)


def _uniform(shorthand: str, client: dict, train: type, *tail: dict, **more) -> Method:
    return Method(shorthand, client, [UNIFORM, *tail], train, rules.Uniform, **more)


def _optimised(name: str, lr: float, **numbers: float) -> Method:
    rule, train = (SAMPLES, rules.Samples) if name == "fedavgm" else (UNIFORM, rules.Uniform)
    return Method(
        f"{name}(lr={lr})", SGD, [rule, {"kind": name, "lr": lr, **numbers}], clients.Client, train
    )


METHODS = {
    "fedavg": _sampled("fedavg", SGD, clients.Client),
    "fedsgd": _sampled("fedsgd", {"kind": "fedsgd"}, clients.FedSGD),
    "fedprox": _sampled("fedprox(mu=0.3)", {"kind": "fedprox", "mu": 0.3}, clients.FedProx),
    "scaffold": _uniform("scaffold", {"kind": "scaffold", "option": 2}, duals.Scaffold, ONE),
    "scaffold(option=1)": _uniform(
        "scaffold(option=1)", {"kind": "scaffold", "option": 1}, duals.ScaffoldI, ONE
    ),
    "fedavgm": _optimised("fedavgm", 0.8, momentum=0.9),
    "fedadagrad": _optimised("fedadagrad", 0.1, b1=0.0, tau=1e-3),
    "fedadam": _optimised("fedadam", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fedyogi": _optimised("fedyogi", 0.1, b1=0.9, b2=0.99, tau=1e-3),
    "fednova": Method(
        "fednova(mu=0.3)",
        {"kind": "fednova", "mu": 0.3},
        [{"kind": "nova"}],
        clients.FedNova,
        rules.Nova,
    ),
    "fedexp": Method(
        "fedexp",
        SGD,
        [{"kind": "fedexp", "eps": 1e-3, "average": True}],
        clients.Client,
        rules.FedExP,
    ),
    "feddyn": Method(
        "feddyn(alpha=0.4)",
        {"kind": "feddyn", "alpha": 0.4},
        [{"kind": "dyn", "alpha": 0.4}],
        duals.FedDyn,
        rules.Dyn,
    ),
    "mime": _uniform("mime(beta=0.8)", {"kind": "mime", "beta": 0.8}, shared.Mime, ONE),
    "mimelite": _uniform(
        "mimelite(beta=0.8)", {"kind": "mimelite", "beta": 0.8}, shared.MimeLite, ONE
    ),
    "fedlin": _uniform("fedlin", {"kind": "fedlin"}, shared.FedLin, ONE),
    "fedcm": _uniform("fedcm(alpha=0.3)", {"kind": "fedcm", "alpha": 0.3}, shared.FedCM, ONE),
    "fedlion": _uniform(
        "fedlion", {"kind": "fedlion", "b1": 0.9, "b2": 0.99}, shared.FedLion, ONE, lr=0.03
    ),
    "feddc": _uniform("feddc(alpha=0.3)", {"kind": "feddc", "alpha": 0.3}, duals.FedDC),
    "fedadmm": Method(
        "fedadmm(rho=0.5)",
        {"kind": "fedadmm", "rho": 0.5},
        [{"kind": "mean_over_all"}],
        duals.FedADMM,
        rules.MeanOverAll,
    ),
    "mifa": Method("mifa", SGD, [{"kind": "mifa"}, ONE], clients.Client, absent.Mifa),
    "fedvarp": Method("fedvarp", SGD, [{"kind": "fedvarp"}, ONE], clients.Client, absent.FedVARP),
    "ca2fl": Method("ca2fl", SGD, [{"kind": "ca2fl"}, ONE], clients.Client, absent.FedVARP),
    "fedau": Method(
        "fedau(cutoff=2)",
        SGD,
        [{"kind": "fedau", "cutoff": 2}, ONE],
        clients.Client,
        absent.FedAUShort,
    ),
    "scaffnew": _uniform("scaffnew", {"kind": "scaffnew"}, duals.Scaffnew),
    "worker_momentum": _sampled(
        "worker_momentum(beta=0.7)", {"kind": "worker_momentum", "beta": 0.7}, duals.WorkerMomentum
    ),
    "fedsam": _sampled("fedsam(rho=0.2)", {"kind": "fedsam", "rho": 0.2}, clients.FedSAM),
    "delta_sgd": _sampled(
        "delta_sgd(gamma=1.0, delta=0.3, eta0=0.05)",
        {"kind": "delta_sgd", "gamma": 1.0, "delta": 0.3, "eta0": 0.05},
        clients.DeltaSGD,
    ),
    "moon": _sampled(
        "moon(mu=0.8, temperature=0.5)",
        {"kind": "moon", "mu": 0.8, "temperature": 0.5},
        labels.Moon,
        lr=0.02,
        problem="features",
    ),
    "fedlc": _sampled(
        "fedlc(tau=0.5)", {"kind": "fedlc", "tau": 0.5}, labels.FedLC, lr=0.3, problem="softmax"
    ),
    "fedrs": _sampled(
        "fedrs(alpha=0.5)", {"kind": "fedrs", "alpha": 0.5}, labels.FedRS, lr=0.3, problem="softmax"
    ),
    "fedntd": _sampled(
        "fedntd(beta=0.7, temperature=1.5)",
        {"kind": "fedntd", "beta": 0.7, "temperature": 1.5},
        labels.FedNTD,
        lr=0.3,
        problem="softmax",
    ),
    "fedper": _sampled(
        "fedper(personal=[b])",
        {"kind": "fedper", "personal": ["b"]},
        labels.FedPer,
        lr=0.3,
        problem="softmax",
    ),
    "fine_tune": _sampled(
        "fine_tune(tune_steps=3)", {"kind": "fine_tune", "tune_steps": 3}, clients.Client
    ),
    "knn_per": _sampled(
        "knn_per(k=3)",
        {"kind": "knn_per", "k": 3},
        clients.Client,
        lr=0.3,
        problem="features",
    ),
    "ditto": _sampled(
        "ditto(lam=0.4, personal_lr=0.15, personal_steps=2)",
        {"kind": "ditto", "lam": 0.4, "personal_lr": 0.15, "personal_steps": 2},
        personal.Ditto,
    ),
    "pfedme": _uniform(
        "pfedme(lam=2.0, personal_lr=0.1, personal_steps=3)",
        {"kind": "pfedme", "lam": 2.0, "personal_lr": 0.1, "personal_steps": 3},
        personal.PFedMe,
        ONE,
    ),
    "per_fedavg": _uniform(
        "per_fedavg(alpha=0.2)", {"kind": "per_fedavg", "alpha": 0.2}, personal.PerFedAvg, ONE
    ),
    "apfl": _uniform("apfl(alpha=0.4)", {"kind": "apfl", "alpha": 0.4}, personal.APFL),
    "fedrep": _sampled(
        "fedrep(head_steps=2, personal=[b])",
        {"kind": "fedrep", "head_steps": 2, "personal": ["b"]},
        personal.FedRep,
        lr=0.3,
        problem="softmax",
    ),
    "fedbabu": _sampled(
        "fedbabu(personal=[b])",
        {"kind": "fedbabu", "personal": ["b"]},
        personal.FedBABU,
        lr=0.3,
        problem="softmax",
    ),
    "lg_fedavg": _sampled(
        "lg_fedavg(personal=[W])",
        {"kind": "lg_fedavg", "personal": ["W"]},
        personal.LGFedAvg,
        lr=0.3,
        problem="softmax",
    ),
    "fedbn": _sampled(
        "fedbn(personal=[b])",
        {"kind": "fedbn", "personal": ["b"]},
        personal.FedBN,
        lr=0.3,
        problem="softmax",
    ),
    "mr_mtl": _uniform("mr_mtl(lam=0.4)", {"kind": "mr_mtl", "lam": 0.4}, personal.MRMTL),
    "fedrod": _sampled(
        "fedrod(personal=[b])",
        {"kind": "fedrod", "personal": ["b"]},
        personal.FedRoD,
        lr=0.3,
        problem="softmax",
    ),
    "fedala": _sampled(
        "fedala(weight_steps=2, weight_lr=2.0, personal=[b])",
        {"kind": "fedala", "weight_steps": 2, "weight_lr": 2.0, "personal": ["b"]},
        personal.FedALA,
        lr=0.3,
        problem="softmax",
    ),
    "fedproto": _sampled(
        "fedproto(lam=0.8)",
        {"kind": "fedproto", "lam": 0.8},
        labels.FedProto,
        lr=0.02,
        problem="features",
    ),
    "fedpac": _sampled(
        "fedpac(lam=0.8, head_epochs=2, personal=[W])",
        {"kind": "fedpac", "lam": 0.8, "head_epochs": 2, "personal": ["W"]},
        personal.FedPAC,
        lr=0.02,
        problem="features",
    ),
    "fedas": Method(
        "fedas(align_lr=0.002, align_epochs=2, personal=[W])",
        {"kind": "fedas", "align_lr": 0.002, "align_epochs": 2, "personal": ["W"]},
        [{"kind": "mean", "weights": "effort"}],
        personal.FedAS,
        rules.Effort,
        lr=0.02,
        problem="features",
    ),
    "propfair": _sampled(
        "propfair(baseline=0.6, epsilon=0.3)",
        {"kind": "propfair", "baseline": 0.6, "epsilon": 0.3},
        clients.PropFair,
    ),
    "qfedavg": Method(
        "qfedavg(q=1.5)",
        SGD,
        [{"kind": "q_fair", "q": 1.5, "L": None}],
        clients.Client,
        rules.QFair,
    ),
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
