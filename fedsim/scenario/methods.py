"""Methods: named scenario fragments. A method owns `client.kind`, the rule, and what stands after it.

Every rule's name is a method too; such a one replaces only the rule and keeps what stands after it.
"""

import functools
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal

from annotated_types import Ge

import fedsim.kinds.shipped  # noqa: F401 (after which every kind is known)
from fedsim.kinds import FAMILIES, register
from fedsim.scenario.docs import docs_of

Part = (
    str | Callable[..., Any] | dict[str, Any]
)  # a kind, whose parameters are the method's; or a link that leaves none

UNIFORM = {"kind": "mean", "weights": "uniform"}
SAMPLES = {"kind": "mean", "weights": "samples"}


def sgd(lr: Annotated[float, Ge(0)] = 1.0) -> None:
    """The step behind the rule: of optax's `sgd`, what a method leaves open.

    Args:
      lr: η_g, the server's step.
    """


def composed(
    *server: Part, client: Part = "sgd"
) -> Callable[[Callable], Callable[..., dict[str, Any]]]:
    """Decorator: a method of parts, from which its parameters come; those of the same name are one.

    The decorated function names and describes the method. A parameter has the annotation, default and text of its part,
    unless the function has the parameter as well, or a text for it.

    Args:
      server: the rule, then optimisers.
      client: the client method.
    """
    steps = FAMILIES["optimizer"] | FAMILIES["rule"]
    parts = [_named(client, FAMILIES["client"]), *(_named(part, steps) for part in server)]

    def decorate(function: Callable) -> Callable[..., dict[str, Any]]:
        parameters: dict[str, Parameter] = {}
        texts: dict[str, str] = {}
        for source in (*(part for part in parts if not isinstance(part, dict)), function):
            parameters |= signature(source, eval_str=True).parameters
            texts |= docs_of(source).args
        shape = Signature(list(parameters.values()))

        @functools.wraps(function)
        def factory(*args: Any, **kwargs: Any) -> dict[str, Any]:
            values = shape.bind(*args, **kwargs)
            values.apply_defaults()
            client, *server = (link_of(part, values.arguments) for part in parts)
            return {"client": client, "server": server}

        lines = (
            ["", "Args:", *(f"  {name}: {texts[name]}" for name in parameters)]
            if parameters
            else []
        )
        factory.__doc__ = "\n".join([docs_of(function).summary, *lines])
        factory.__signature__ = shape  # type: ignore[attr-defined]
        return register("method", factory)

    return decorate


def _named(part: Part, kinds: dict[str, Callable]) -> Callable | dict[str, Any]:
    """A part that is given by its name, as the factory; any other as it is."""
    return kinds[part] if isinstance(part, str) else part


def link_of(part: Callable | dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """A part as a scenario writes it, with its share of the method's parameters."""
    if isinstance(part, dict):
        return part
    return {"kind": part.__name__, **{name: values[name] for name in signature(part).parameters}}


@composed(SAMPLES)
def fedavg() -> None:
    """Plain local training and the sample-weighted mean."""


@composed("mean", client="fedsgd")
def fedsgd(weights: Literal["samples", "uniform"] = "samples") -> None:
    """One step along the gradient of everybody's samples, and the sample-weighted mean.

    Args:
      weights: of the mean; `samples` is gradient descent on all samples of the cohort.
    """


@composed(SAMPLES, client="fedprox")
def fedprox() -> None:
    """Local training with a proximal term, and the sample-weighted mean."""


@composed(UNIFORM, sgd, client="scaffold")
def scaffold() -> None:
    """Control variates, and the uniform mean times the server step η_g = `lr`."""


@composed(SAMPLES, "fedavgm")
def fedavgm() -> None:
    """Plain local training, the sample-weighted mean, and server momentum.

    Args:
      lr: η_g, the server's step.
      momentum: β; not an average: the paper adds the full update.
    """


@composed(UNIFORM, "fedadagrad")
def fedadagrad() -> None:
    """Plain local training, the uniform mean, and the paper's Adagrad.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
    """


@composed(UNIFORM, "fedadam")
def fedadam() -> None:
    """Plain local training, the uniform mean, and the paper's Adam.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
      b2: β₂, of its second moment.
    """


@composed(UNIFORM, "fedyogi")
def fedyogi() -> None:
    """Plain local training, the uniform mean, and the paper's Yogi.

    Args:
      lr: η, the server's step.
      b1: β₁, of the server's first moment.
      b2: β₂, of its second moment.
    """


@composed("nova", client="fednova")
def fednova() -> None:
    """Local training, plain or proximal, and the mean per unit of local work."""


@composed("fedexp")
def fedexp() -> None:
    """Plain local training, and the uniform mean with a longer step where updates point apart.

    Args:
      average: evaluate the mean of the last two models, as the paper does; else the last one.
    """


@composed("dyn", client="feddyn")
def feddyn() -> None:
    """Dynamic regularisation on the clients, and the mean corrected by their drift.

    Args:
      alpha: α, strength of the regulariser, the same on both sides.
    """


@composed(UNIFORM, sgd, client="mime")
def mime() -> None:
    """The server's optimizer, held still, steps on the clients with anchored gradients; the uniform mean."""


@composed(UNIFORM, sgd, client="mimelite")
def mimelite() -> None:
    """The server's optimizer, held still, steps on the clients with their own gradients; the uniform mean."""


@composed(UNIFORM, sgd, client="fedlin")
def fedlin() -> None:
    """Anchored gradients, steps shortened by their number, and the uniform mean."""


@composed(UNIFORM, sgd, client="fedcm")
def fedcm() -> None:
    """Clients that go mostly where all went in the last round, and the uniform mean."""


@composed(UNIFORM, sgd, client="fedlion")
def fedlion() -> None:
    """Lion on the clients, with the uniform mean of models and momenta."""


@composed(UNIFORM, client="feddc")
def feddc() -> None:
    """Clients that remember their drift and add it to what they send, and the uniform mean."""


@composed("mean_over_all", client="fedadmm")
def fedadmm() -> None:
    """Clients with dual variables, and the mean over all clients of what they change."""


@composed("mifa", sgd)
def mifa() -> None:
    """Plain local training, and the mean of the last updates of all clients, times the server step η_g = `lr`."""


@composed("fedvarp", sgd)
def fedvarp() -> None:
    """Plain local training, and the mean of what changed since each client's last update; server step η_g = `lr`."""


@composed("ca2fl", sgd)
def ca2fl() -> None:
    """Plain local training, and a buffer calibrated by the last updates of all clients; server step η_g = `lr`."""


@composed("fedau", sgd)
def fedau() -> None:
    """Plain local training, and weights by how long each client stays away; server step η_g = `lr`."""


@composed(UNIFORM, client="scaffnew")
def scaffnew() -> None:
    """Control variates that cost nothing to send, and the uniform mean."""


@composed(SAMPLES, client="worker_momentum")
def worker_momentum() -> None:
    """Clients that send the momentum of their updates, and the sample-weighted mean; a robust rule may take its place."""


@composed(SAMPLES, client="fedsam")
def fedsam() -> None:
    """Sharpness-aware local training, and the sample-weighted mean."""


@composed(SAMPLES, client="delta_sgd")
def delta_sgd() -> None:
    """Local steps as long as the client's own loss is smooth, and the sample-weighted mean."""


@composed(SAMPLES, client="moon")
def moon() -> None:
    """Features like the shared model's and unlike the client's last one's, and the sample-weighted mean."""


@composed(SAMPLES, client="fedlc")
def fedlc() -> None:
    """Outputs calibrated by the client's label counts, and the sample-weighted mean."""


@composed(SAMPLES, client="fedrs")
def fedrs() -> None:
    """Outputs of classes that a client lacks scaled down, and the sample-weighted mean."""


@composed(SAMPLES, client="fedntd")
def fedntd() -> None:
    """What the shared model knows of the other classes is distilled, and the sample-weighted mean."""


@composed(SAMPLES, client="fedper")
def fedper() -> None:
    """A shared body and a head for every client, and the sample-weighted mean of the bodies."""


@composed("q_fair")
def qfedavg() -> None:
    """Plain local training, and the mean in which clients count by a power of their loss.

    Args:
      q: how much the worse off count; 0 is the uniform mean.
    """


@composed("agnostic", client="fedsgd")
def afl() -> None:
    """One gradient step of everybody, weighted against the model: agnostic federated learning."""
