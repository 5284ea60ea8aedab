"""The section `privacy`, and `client.dp_sgd`."""

from typing import Annotated, Any, Literal

from annotated_types import Gt, Lt, MinLen
from pydantic import model_validator

from fedsim.limits import Delta, Epsilon, NoiseMultiplier
from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import AllowedKinds, ByForm, Section
from fedsim.scenario.values import Count, Share

# What `mean` is under `privacy`, where the scenario does not say otherwise.
PRIVATE_MEAN = {"weights": "uniform", "denominator": "expected"}


class DpSgd(Section):
    """`client.dp_sgd`."""

    clip: Annotated[float, Gt(0)]
    """C, the longest gradient of a sample that passes unchanged; longer ones are shortened."""
    noise_multiplier: NoiseMultiplier | None = None
    """z, the deviation of the noise on the sum of a batch's gradients over C. Either z or
    `epsilon`."""
    epsilon: Epsilon | None = None
    """ε, for which z is solved: that of no sample is larger at the end, even where its client takes
    part in all rounds; the resolved scenario has both."""
    microbatch: Count | None = None
    """Samples whose gradients are held at a time, which changes memory and speed alone; by default
    all of a batch. Every sample's gradient is clipped by itself, whatever stands here."""
    cap: Count | None = None
    """Samples of a batch at most: of a larger one, as many are drawn. At least `client.batch` b; by
    default b + 8 √b + 8, rounded up, which hardly any batch reaches."""
    delta: Delta = 1e-5
    """δ of the ε in `clients.csv`; below 1 / samples of a client."""


class AdaptiveClip(Section):
    """`privacy.clip` as a mapping."""

    kind: Literal["adaptive"] = "adaptive"
    initial: Annotated[float, Gt(0)] = 0.1
    """C in the first round."""
    quantile: Share = 0.5
    """γ, the share of the updates that should pass unchanged."""
    lr: Annotated[float, Gt(0)] = 0.2
    """η_C, in C ← C · exp(−η_C (b̄ − γ)), where b̄ is the noised share of updates within C."""
    count_std: Annotated[float, Gt(0)] | None = None
    """σ_b, the deviation of the noise on how many updates were within C; by default m/20 for a
    cohort of m expected clients."""


class Audit(Section):
    """`privacy.audit`."""

    canaries: Count = 100
    """Clients that send a direction of their own in place of what they learn, each by the toss of a
    coin: the others take part in no round. More of them can show a larger ε."""
    confidence: Annotated[float, Gt(0), Lt(1)] = 0.95
    """Confidence of the lower bound on ε."""


class Privacy(Section):
    """`privacy`."""

    unit: Literal["client"] = "client"
    """What neighbouring data sets differ in: all samples of one client."""
    mechanism: Annotated[Any, AllowedKinds("mechanism")] = "gaussian"
    """The noise on the aggregates of all rounds."""
    clip: Annotated[Annotated[float, Gt(0)] | AdaptiveClip, ByForm()]
    """C, the longest update that passes unchanged; longer ones are shortened, last before the rule.
    Or a bound that follows a quantile of the lengths, `{kind: adaptive}`."""
    noise_multiplier: NoiseMultiplier | None = None
    """z, the deviation of the noise on the sum of the updates over C; that on their mean over m
    expected clients is z C / m. Either z or `epsilon`."""
    epsilon: Epsilon | None = None
    """ε after all rounds, for which z is solved; the resolved scenario has both."""
    delta: Delta
    """δ of (ε, δ)-differential privacy; usually below 1 / clients."""
    accountant: Literal["pld", "rdp"] = "pld"
    """How ε is counted: by the privacy loss distribution, or by Rényi divergences."""
    conversion: Literal["improved", "classic"] = "improved"
    """From Rényi divergences to ε (`accountant: rdp`): the tighter formula, or that of Mironov
    2017, as in older tables."""
    orders: Annotated[list[Annotated[float, Gt(1)]], MinLen(1)] | None = None
    """Orders of the Rényi divergences (`accountant: rdp`)."""
    audit: Annotated[Audit | None, ByForm()] = None
    """Canaries among the clients, and a lower bound on ε from what the aggregates tell of them. By
    default none."""


class PrivacyKey:
    """The key at the top of a scenario."""

    privacy: Annotated[Privacy | None, ByForm()] = None
    """Differential privacy: every update is clipped, and noise is added to their mean. By default
    none."""

    @model_validator(mode="after")
    def _private_mean(self: Any):
        if self.privacy is not None:
            self.server = [_private(link) for link in self.server]
        return self


class DpSgdKey:
    """The key of `client`."""

    dp_sgd: Annotated[DpSgd | None, ByForm()] = None
    """Differential privacy of every sample of a client: the gradient of each sample is clipped, and
    their sum gets noise, in every local step. Batches are then drawn as by `shuffle: poisson`. By
    default none."""

    @model_validator(mode="after")
    def _poisson_batches(self: Any):
        if self.dp_sgd is not None and "shuffle" not in self.model_fields_set:
            self.shuffle = "poisson"
        return self


def _private(link: Any) -> Any:
    """Return a mean with what `privacy` makes of it; any other link as it is.

    What the file says otherwise stays, and is refused when the scenario is built.
    """
    if link.family != "rule" or link.kind != "mean":
        return link
    open_keys = {key: PRIVATE_MEAN[key] for key in PRIVATE_MEAN if key not in link.model_fields_set}
    return link.model_copy(update=open_keys)


def settles(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the keys of a kind that a scenario settles, as it is written."""
    return {} if values.get("privacy") is None else {"mean": PRIVATE_MEAN}


KEYS = [
    AddedKeys("", after="server", keys=PrivacyKey),
    AddedKeys("client", after="optimizer_state", keys=DpSgdKey),
]
