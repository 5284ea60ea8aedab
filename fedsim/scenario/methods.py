"""Methods: named scenario fragments. A method owns `client.kind`, the rule, and what stands after it.

Every rule's name is a method too; such a one replaces only the rule and keeps what stands after it.
"""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, Lt

from fedsim.compose import method

Rate = Annotated[float, Ge(0)]
Decay = Annotated[float, Ge(0), Lt(1)]
Share = Annotated[float, Ge(0)]
Positive = Annotated[float, Gt(0)]
SGD = {"kind": "sgd"}
UNIFORM = {"kind": "mean", "weights": "uniform"}
SAMPLES = {"kind": "mean", "weights": "samples"}


def _uniform(client: dict[str, Any], lr: float) -> dict[str, Any]:
    """A client method behind which stands the uniform mean, times η_g."""
    return {"client": client, "server": [UNIFORM, {"kind": "sgd", "lr": lr}]}


@method
def fedavg() -> dict[str, Any]:
    """Plain local training and the sample-weighted mean."""
    return {"client": SGD, "server": [SAMPLES]}


@method
def fedsgd(weights: Literal["samples", "uniform"] = "samples") -> dict[str, Any]:
    """One step along the gradient of everybody's samples, and the sample-weighted mean.

    Args:
      weights: of the mean; `samples` is gradient descent on all samples of the cohort.
    """
    return {"client": {"kind": "fedsgd"}, "server": [{"kind": "mean", "weights": weights}]}


@method
def fedprox(mu: Annotated[float, Ge(0)] = 0.01) -> dict[str, Any]:
    """Local training with a proximal term, and the sample-weighted mean.

    Args:
      mu: μ, strength of the proximal term.
    """
    return {"client": {"kind": "fedprox", "mu": mu}, "server": [SAMPLES]}


@method
def scaffold(option: Literal[1, 2] = 2, lr: Rate = 1.0) -> dict[str, Any]:
    """Control variates, and the uniform mean times the server step η_g = `lr`.

    Args:
      option: I or II of the paper, as 1 or 2.
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "scaffold", "option": option}, lr)


@method
def fedavgm(lr: Rate = 1.0, momentum: Decay = 0.9) -> dict[str, Any]:
    """Plain local training, the sample-weighted mean, and server momentum.

    Args:
      lr: η_g, the server's step.
      momentum: β; not an average: the paper adds the full update.
    """
    tail = {"kind": "fedavgm", "lr": lr, "momentum": momentum}
    return {"client": SGD, "server": [SAMPLES, tail]}


@method
def fedadagrad(lr: Rate = 0.1, b1: Decay = 0.0, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Adagrad.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
      tau: τ, the degree of adaptivity.
    """
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedadagrad", "lr": lr, "b1": b1, "tau": tau}]}


@method
def fedadam(lr: Rate = 0.1, b1: Decay = 0.9, b2: Decay = 0.99, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Adam.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
      b2: β₂, of its second moment.
      tau: τ, the degree of adaptivity.
    """
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedadam", "lr": lr, "b1": b1, "b2": b2, "tau": tau}]}


@method
def fedyogi(lr: Rate = 0.1, b1: Decay = 0.9, b2: Decay = 0.99, tau: Annotated[float, Gt(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, the uniform mean, and the paper's Yogi.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
      b2: β₂, of its second moment.
      tau: τ, the degree of adaptivity.
    """
    return {"client": SGD, "server": [UNIFORM, {"kind": "fedyogi", "lr": lr, "b1": b1, "b2": b2, "tau": tau}]}


@method
def fednova(mu: Annotated[float, Ge(0)] = 0.0) -> dict[str, Any]:
    """Local training, plain or proximal, and the mean per unit of local work.

    Args:
      mu: μ, strength of the proximal term.
    """
    return {"client": {"kind": "fednova", "mu": mu}, "server": [{"kind": "nova"}]}


@method
def fedexp(eps: Annotated[float, Ge(0)] = 1e-3, average: bool = True) -> dict[str, Any]:
    """Plain local training, and the uniform mean with a longer step where updates point apart.

    Args:
      eps: ε, keeps the step finite where the mean vanishes.
      average: evaluate the mean of the last two models, as the paper does; else the last one.
    """
    return {"client": SGD, "server": [{"kind": "fedexp", "eps": eps, "average": average}]}


@method
def feddyn(alpha: Annotated[float, Gt(0)] = 0.1) -> dict[str, Any]:
    """Dynamic regularisation on the clients, and the mean corrected by their drift.

    Args:
      alpha: α, strength of the regulariser, the same on both sides.
    """
    return {"client": {"kind": "feddyn", "alpha": alpha}, "server": [{"kind": "dyn", "alpha": alpha}]}


@method
def mime(beta: Decay = 0.9, lr: Rate = 1.0) -> dict[str, Any]:
    """The server's optimizer, held still, steps on the clients with anchored gradients; the uniform mean.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "mime", "beta": beta}, lr)


@method
def mimelite(beta: Decay = 0.9, lr: Rate = 1.0) -> dict[str, Any]:
    """The server's optimizer, held still, steps on the clients with their own gradients; the uniform mean.

    Args:
      beta: β, decay of the server's momentum; an average, not a sum.
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "mimelite", "beta": beta}, lr)


@method
def fedlin(lr: Rate = 1.0) -> dict[str, Any]:
    """Anchored gradients, steps shortened by their number, and the uniform mean.

    Args:
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "fedlin"}, lr)


@method
def fedcm(alpha: Annotated[float, Gt(0), Le(1)] = 0.1, lr: Rate = 1.0) -> dict[str, Any]:
    """Clients that go mostly where all went in the last round, and the uniform mean.

    Args:
      alpha: α, weight of the client's own gradient.
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "fedcm", "alpha": alpha}, lr)


@method
def fedlion(b1: Decay = 0.9, b2: Decay = 0.99, lr: Rate = 1.0) -> dict[str, Any]:
    """Lion on the clients, with the uniform mean of models and momenta.

    Args:
      b1: β₁, of the step.
      b2: β₂, of the momentum.
      lr: η_g, the server's step.
    """
    return _uniform({"kind": "fedlion", "b1": b1, "b2": b2}, lr)


@method
def feddc(alpha: Share = 0.1) -> dict[str, Any]:
    """Clients that remember their drift and add it to what they send, and the uniform mean.

    Args:
      alpha: α, strength of the pull towards the corrected model.
    """
    return {"client": {"kind": "feddc", "alpha": alpha}, "server": [UNIFORM]}


@method
def fedadmm(rho: Positive = 0.01) -> dict[str, Any]:
    """Clients with dual variables, and the mean over all clients of what they change.

    Args:
      rho: ρ, strength of the penalty.
    """
    return {"client": {"kind": "fedadmm", "rho": rho}, "server": [{"kind": "mean_over_all"}]}


@method
def scaffnew() -> dict[str, Any]:
    """Control variates that cost nothing to send, and the uniform mean."""
    return {"client": {"kind": "scaffnew"}, "server": [UNIFORM]}


@method
def fedsam(rho: Share = 0.05) -> dict[str, Any]:
    """Sharpness-aware local training, and the sample-weighted mean.

    Args:
      rho: ρ, radius of the neighbourhood.
    """
    return {"client": {"kind": "fedsam", "rho": rho}, "server": [SAMPLES]}


@method
def delta_sgd(gamma: Positive = 2.0, delta: Share = 0.1, eta0: Positive | None = None) -> dict[str, Any]:
    """Local steps as long as the client's own loss is smooth, and the sample-weighted mean.

    Args:
      gamma: γ, of the local smoothness.
      delta: δ, how fast a step may grow.
      eta0: η₀; left out: the client's `lr`.
    """
    return {"client": {"kind": "delta_sgd", "gamma": gamma, "delta": delta, "eta0": eta0}, "server": [SAMPLES]}


@method
def moon(mu: Share = 1.0, temperature: Positive = 0.5) -> dict[str, Any]:
    """Features like the shared model's and unlike the client's last one's, and the sample-weighted mean.

    Args:
      mu: μ, weight of the contrast.
      temperature: T.
    """
    return {"client": {"kind": "moon", "mu": mu, "temperature": temperature}, "server": [SAMPLES]}


@method
def fedlc(tau: Share = 1.0) -> dict[str, Any]:
    """Outputs calibrated by the client's label counts, and the sample-weighted mean.

    Args:
      tau: τ, strength of the calibration.
    """
    return {"client": {"kind": "fedlc", "tau": tau}, "server": [SAMPLES]}


@method
def fedrs(alpha: Share = 0.5) -> dict[str, Any]:
    """Outputs of classes that a client lacks scaled down, and the sample-weighted mean.

    Args:
      alpha: α, factor of the outputs of missing classes.
    """
    return {"client": {"kind": "fedrs", "alpha": alpha}, "server": [SAMPLES]}


@method
def fedntd(beta: Share = 1.0, temperature: Positive = 1.0) -> dict[str, Any]:
    """What the shared model knows of the other classes is distilled, and the sample-weighted mean.

    Args:
      beta: β, weight of the distillation.
      temperature: T.
    """
    return {"client": {"kind": "fedntd", "beta": beta, "temperature": temperature}, "server": [SAMPLES]}


@method
def qfedavg(q: Share = 1.0, L: Positive | None = None) -> dict[str, Any]:
    """Plain local training, and the mean in which clients count by a power of their loss.

    Args:
      q: how much the worse off count; 0 is the uniform mean.
      L: Lipschitz constant of the gradients; left out: 1/η_l.
    """
    return {"client": SGD, "server": [{"kind": "q_fair", "q": q, "L": L}]}


@method
def afl(lr: Rate = 0.1) -> dict[str, Any]:
    """One gradient step of everybody, weighted against the model: agnostic federated learning.

    Args:
      lr: γ_λ, the weights' learning rate.
    """
    return {"client": {"kind": "fedsgd"}, "server": [{"kind": "agnostic", "lr": lr}]}
