"""Methods: named scenario fragments. A method owns `client.kind`, the rule, and what stands after it.

Every rule's name is a method too; such a one replaces only the rule and keeps what stands after it.
"""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from fedsim.compose import method

Rate = Annotated[float, Ge(0)]
Decay = Annotated[float, Ge(0), Lt(1)]
SGD = {"kind": "sgd"}
UNIFORM = {"kind": "mean", "weights": "uniform"}


@method
def fedavg() -> dict[str, Any]:
    """Plain local training and the sample-weighted mean."""
    return {"client": SGD, "server": [{"kind": "mean", "weights": "samples"}]}


@method
def fedprox(mu: Annotated[float, Ge(0)] = 0.01) -> dict[str, Any]:
    """Local training with a proximal term, and the sample-weighted mean.

    Args:
      mu: μ, strength of the proximal term.
    """
    return {"client": {"kind": "fedprox", "mu": mu}, "server": [{"kind": "mean", "weights": "samples"}]}


@method
def scaffold(option: Literal[1, 2] = 2, lr: Rate = 1.0) -> dict[str, Any]:
    """Control variates, and the uniform mean times the server step η_g = `lr`.

    Args:
      option: I or II of the paper, as 1 or 2.
      lr: η_g, the server's step.
    """
    return {"client": {"kind": "scaffold", "option": option}, "server": [UNIFORM, {"kind": "sgd", "lr": lr}]}


@method
def fedavgm(lr: Rate = 1.0, momentum: Decay = 0.9) -> dict[str, Any]:
    """Plain local training, the sample-weighted mean, and server momentum.

    Args:
      lr: η_g, the server's step.
      momentum: β; not an average: the paper adds the full update.
    """
    tail = {"kind": "fedavgm", "lr": lr, "momentum": momentum}
    return {"client": SGD, "server": [{"kind": "mean", "weights": "samples"}, tail]}


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
    return {"client": {"kind": "fednova", "mu": mu}, "server": [{"kind": "normalized_mean"}]}


@method
def fedexp(eps: Annotated[float, Ge(0)] = 1e-3) -> dict[str, Any]:
    """Plain local training, and the uniform mean with a longer step where updates point apart.

    Args:
      eps: ε, keeps the step finite where the mean vanishes.
    """
    return {"client": SGD, "server": [{"kind": "extrapolated_mean", "eps": eps}]}


@method
def feddyn(alpha: Annotated[float, Gt(0)] = 0.1) -> dict[str, Any]:
    """Dynamic regularisation on the clients, and the mean corrected by their drift.

    Args:
      alpha: α, strength of the regulariser, the same on both sides.
    """
    return {"client": {"kind": "feddyn", "alpha": alpha}, "server": [{"kind": "dynamic_mean", "alpha": alpha}]}
