"""Methods of graphs."""

from fedsim.scenario.methods import UNIFORM, composed


@composed(UNIFORM, client="dfedavg")
def dfedavg() -> None:
    """Plain local training, and a mix with the neighbours' models: DFedAvg, D-PSGD."""


@composed(UNIFORM, client="gradient_tracking")
def gradient_tracking() -> None:
    """Steps along the tracked gradient of all nodes, and a mix of models and gradients."""


@composed(UNIFORM, client="push_sum")
def push_sum() -> None:
    """Plain local training, and parts of model and weight over directed edges."""


@composed(UNIFORM, client="exact_diffusion")
def exact_diffusion() -> None:
    """Plain local training, and a corrected mix with the neighbours' models."""


@composed(UNIFORM, client="choco")
def choco() -> None:
    """Plain local training, and a mix of what compressed differences say of the neighbours."""


@composed(UNIFORM, client="dfedavgm")
def dfedavgm() -> None:
    """Local training with momentum, and a mix with the neighbours' models."""


@composed(UNIFORM, client="dfedsam")
def dfedsam() -> None:
    """Sharpness-aware local training, and a mix with the neighbours' models."""
