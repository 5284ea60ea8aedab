"""Methods whose clients have models of their own."""

from fedsim.scenario.methods import SAMPLES, UNIFORM, composed, sgd

EFFORT = {"kind": "mean", "weights": "effort"}


@composed(SAMPLES, client="fedper")
def fedper() -> None:
    """A shared body and a head for every client, and the sample-weighted mean of the bodies."""


@composed(SAMPLES, client="fine_tune")
def fine_tune() -> None:
    """Plain local training, the sample-weighted mean, and own steps before clients are scored."""


@composed(UNIFORM, sgd, client="pfedme")
def pfedme() -> None:
    """Personal models by Moreau envelopes, and the uniform mean times the server step β = `lr`.

    Args:
      lr: β, the server's step: x ← (1 − β) x + β mean w.
    """


@composed(UNIFORM, client="apfl")
def apfl() -> None:
    """Plain local training, personal models mixed with the shared one, and the uniform mean."""


@composed(UNIFORM, sgd, client="per_fedavg")
def per_fedavg() -> None:
    """Training for a model that one step adapts, and the uniform mean times the server step."""


@composed(SAMPLES, client="fedrep")
def fedrep() -> None:
    """Heads of the clients' own first, then the body; the sample-weighted mean of the bodies."""


@composed(SAMPLES, client="fedbabu")
def fedbabu() -> None:
    """Bodies trained under a head that never moves; the sample-weighted mean of the bodies."""


@composed(SAMPLES, client="lg_fedavg")
def lg_fedavg() -> None:
    """A shared head on bodies of the clients' own; the sample-weighted mean of the heads."""


@composed(SAMPLES, client="fedbn")
def fedbn() -> None:
    """Normalisation of the clients' own, and the sample-weighted mean of everything else."""


@composed(UNIFORM, client="mr_mtl")
def mr_mtl() -> None:
    """Models of the clients' own that are drawn to their uniform mean."""


@composed(SAMPLES, client="fedrod")
def fedrod() -> None:
    """A balanced shared model with personal heads beside its own; the sample-weighted mean."""


@composed(SAMPLES, client="fedala")
def fedala() -> None:
    """Clients that learn how much of the shared model they take over; the sample-weighted mean."""


@composed(SAMPLES, client="ditto")
def ditto() -> None:
    """A shared model by plain local training, and personal models that are drawn to it."""


@composed(SAMPLES, client="fedamp")
def fedamp() -> None:
    """A model for every client, drawn to those that are near; the sample-weighted mean."""


@composed(SAMPLES, client="fedem")
def fedem() -> None:
    """Several models, and weights of them for every client; the sample-weighted mean."""


@composed(SAMPLES, client="fedfomo")
def fedfomo() -> None:
    """A model for every client, moved to others that suit it better; the sample-weighted mean."""


@composed(SAMPLES, client="fedproto")
def fedproto() -> None:
    """Models of the clients' own, whose features of a class agree by what all clients send."""


@composed(SAMPLES, client="dbe")
def dbe() -> None:
    """Biases of the clients' own on features that agree in the mean; the sample-weighted mean."""


@composed(EFFORT, client="fedas")
def fedas() -> None:
    """Bodies drawn to each client's own features first; their mean by Fisher information."""


@composed(SAMPLES, client="fedpac")
def fedpac() -> None:
    """A shared body whose features agree, and heads mixed from those of similar clients."""


@composed(SAMPLES, client="knn_per")
def knn_per() -> None:
    """Plain local training; clients predict with neighbours among their own samples as well."""


@composed(UNIFORM, sgd, client="pfedhn")
def pfedhn() -> None:
    """A model for every client, made by a hypernetwork at the server; the uniform mean.

    Args:
      lr: the server's step of the hypernetwork, besides `hyper_lr`.
    """


@composed(SAMPLES, client="superfed")
def superfed() -> None:
    """A shared and an own model, trained at mixtures of both; the sample-weighted mean."""
