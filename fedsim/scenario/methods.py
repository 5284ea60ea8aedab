"""Methods: named fragments of a scenario, each a client kind, a rule and server optimisers.

The name of a rule is a method as well; it replaces the rule alone and keeps what follows it.
"""

import functools
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Literal

from annotated_types import Ge

import fedsim.kinds.shipped  # noqa: F401 (importing it registers all kinds)
from fedsim.installed import modules_with
from fedsim.kinds import FAMILIES, register
from fedsim.scenario.added import without_messages
from fedsim.scenario.docs import docs_of

# A kind, by its name or its factory, whose parameters become the method's; or a link as a scenario
# writes it, which leaves no parameters open.
Link = str | Callable[..., Any] | dict[str, Any]

UNIFORM = {"kind": "mean", "weights": "uniform"}
SAMPLES = {"kind": "mean", "weights": "samples"}


# Methods that federated ones are measured against; `--baselines` adds them to a comparison.
BASELINES = ("centralised", "local_only")

# What baselines set besides client and server: no message passes a wire, and nobody attacks.
WITHOUT_MESSAGES = {
    "fleet": {"malicious": 0.0},
    "schedule": {"kind": "sync"},
    **without_messages(),
    "wire": [],
}


def sgd(lr: Annotated[float, Ge(0)] = 1.0) -> None:
    """The step after the rule: what a method leaves open of optax's `sgd`.

    Args:
      lr: η_g, the server's step.
    """


def composed(
    *server: Link, client: Link = "sgd", sections: dict[str, Any] | None = None
) -> Callable[[Callable], Callable[..., dict[str, Any]]]:
    """Decorator: register a method that is composed of links.

    The decorated function names and describes the method. The parameters of the method are those of
    its links; links with a parameter of the same name share it. A parameter has the annotation,
    default and text of its link, unless the function declares or describes it as well.
    """
    server_kinds = FAMILIES["optimizer"] | FAMILIES["rule"]
    links = [_factory_or_link(client, FAMILIES["client"])]
    links += [_factory_or_link(link, server_kinds) for link in server]
    factories = [link for link in links if not isinstance(link, dict)]

    def decorate(function: Callable) -> Callable[..., dict[str, Any]]:
        parameters: dict[str, Parameter] = {}
        texts: dict[str, str] = {}
        for source in (*factories, function):  # the last one counts
            parameters |= signature(source, eval_str=True).parameters
            texts |= docs_of(source).args
        method_signature = Signature(list(parameters.values()))

        @functools.wraps(function)
        def factory(*args: Any, **kwargs: Any) -> dict[str, Any]:
            bound = method_signature.bind(*args, **kwargs)
            bound.apply_defaults()
            client, *server = (_as_mapping(link, bound.arguments) for link in links)
            return {"client": client, "server": server, **(sections or {})}

        lines = [docs_of(function).summary]
        if parameters:
            lines += ["", "Args:", *(f"  {name}: {texts[name]}" for name in parameters)]
        factory.__doc__ = "\n".join(lines)
        factory.__signature__ = method_signature  # type: ignore[attr-defined]
        return register("method", factory)

    return decorate


def _factory_or_link(link: Link, kinds: dict[str, Callable]) -> Callable | dict[str, Any]:
    """Return the factory of a link that is given by its name; any other link as it is."""
    return kinds[link] if isinstance(link, str) else link


def _as_mapping(link: Callable | dict[str, Any], arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a link as a scenario writes it, with its share of the method's arguments."""
    if isinstance(link, dict):
        return link
    parameters = {name: arguments[name] for name in signature(link).parameters}
    return {"kind": link.__name__, **parameters}


@composed(SAMPLES)
def fedavg() -> None:
    """Plain local training and the sample-weighted mean."""


@composed("mean", client="fedsgd")
def fedsgd(weights: Literal["samples", "uniform"] = "samples") -> None:
    """One step along the gradient of all samples, and the sample-weighted mean.

    Args:
      weights: the weights of the mean; `samples` is gradient descent on all samples of the cohort.
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
    """Anchored gradients in steps of the server's optimizer, held still; the uniform mean."""


@composed(UNIFORM, sgd, client="mimelite")
def mimelite() -> None:
    """Clients' own gradients in steps of the server's optimizer, held still; the uniform mean."""


@composed(UNIFORM, sgd, client="fedlin")
def fedlin() -> None:
    """Anchored gradients, steps shortened by their number, and the uniform mean."""


@composed(UNIFORM, sgd, client="fedcm")
def fedcm() -> None:
    """Clients that step mostly along the last round's mean update, and the uniform mean."""


@composed(UNIFORM, sgd, client="fedlion")
def fedlion() -> None:
    """Lion on the clients, with the uniform mean of models and momenta."""


@composed(UNIFORM, client="feddc")
def feddc() -> None:
    """Clients that remember their drift and add it to what they send, and the uniform mean."""


@composed("mean_over_all", client="fedadmm")
def fedadmm() -> None:
    """Clients with dual variables, and the mean of their changes over all clients."""


@composed("mifa", sgd)
def mifa() -> None:
    """Plain local training, and the mean of all clients' last updates; step η_g = `lr`."""


@composed("fedvarp", sgd)
def fedvarp() -> None:
    """Plain local training, and the mean change since clients' last updates; step η_g = `lr`."""


@composed("ca2fl", sgd)
def ca2fl() -> None:
    """Plain local training, and a buffer calibrated by clients' last updates; step η_g = `lr`."""


@composed("fedau", sgd)
def fedau() -> None:
    """Plain local training, and weights by how long clients were away; step η_g = `lr`."""


@composed(UNIFORM, client="scaffnew")
def scaffnew() -> None:
    """Control variates that cost nothing to send, and the uniform mean."""


@composed(SAMPLES, client="worker_momentum")
def worker_momentum() -> None:
    """Clients that send momenta, and the sample-weighted mean, or a robust rule in its place."""


@composed(SAMPLES, client="fedsam")
def fedsam() -> None:
    """Sharpness-aware local training, and the sample-weighted mean."""


@composed(SAMPLES, client="delta_sgd")
def delta_sgd() -> None:
    """Local steps as long as the client's own loss is smooth, and the sample-weighted mean."""


@composed(SAMPLES, client="moon")
def moon() -> None:
    """Features near the shared model's, far from the client's last; the sample-weighted mean."""


@composed(SAMPLES, client="fedlc")
def fedlc() -> None:
    """Outputs calibrated by the client's label counts, and the sample-weighted mean."""


@composed(SAMPLES, client="fedrs")
def fedrs() -> None:
    """Outputs of classes that a client lacks scaled down, and the sample-weighted mean."""


@composed(SAMPLES, client="fedntd")
def fedntd() -> None:
    """Distillation from the shared model on the other classes; the sample-weighted mean."""


@composed(SAMPLES, client="propfair")
def propfair() -> None:
    """Steps by the proportion of what a client gains, and the sample-weighted mean."""


@composed("q_fair")
def qfedavg() -> None:
    """Plain local training, and a mean in which clients count by a power of their loss.

    Args:
      q: how much more the clients with a large loss count; 0 is the uniform mean.
    """


@composed("agnostic", client="fedsgd")
def afl() -> None:
    """One gradient step of each client, weighted against the model: agnostic federated learning."""


@composed(SAMPLES, client="local_only", sections=WITHOUT_MESSAGES)
def local_only() -> None:
    """A baseline, not a federated method: every client trains alone; no shared model."""


def centralised(steps: Literal["client", "cohort"] = "client") -> dict[str, Any]:
    """A baseline, not a federated method: plain training on the pooled samples of all clients.

    Args:
      steps: a round takes as many steps as one `client` does, or as the clients of a `cohort` do
        together.
    """
    sections = {name: value for name, value in WITHOUT_MESSAGES.items() if name != "schedule"}
    return {"client": {"kind": "centralised", "steps_of": steps}, "server": [SAMPLES], **sections}


register("method", centralised)


list(modules_with("METHODS"))  # importing them registers the methods of fields
