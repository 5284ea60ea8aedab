"""`client.width` and `client.rank`."""

from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le, MinLen

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import ByForm, Section


class SubModels(Section):
    """`client.width`."""

    kind: Literal["by_speed", "listed", "uniform"] = "uniform"
    """Who has which width: `uniform` draws it once for every client, each of `widths` with the same
    probability; `listed` has one for each client, by id; under `by_speed`, clients are divided into
    equal groups by `fleet.speed`, and the faster have the larger widths."""
    widths: Annotated[list[Annotated[float, Gt(0), Le(1)]], MinLen(1)]
    """Shares of the units of every hidden layer that clients train, rounded up to whole units."""
    window: Literal["first", "rolling"] = "first"
    """Which units: the first ones of every layer (HeteroFL), or as many that begin one unit later
    in every round, past the last one to the first (FedRolex)."""
    scaler: bool = False
    """Whether a client divides the values of hidden units by its width in training (HeteroFL)."""
    masked_loss: bool = False
    """Whether the outputs of classes that a client lacks are 0 in training, and the mean of the
    last layer is over those who hold the class (HeteroFL)."""


class Ranks(Section):
    """`client.rank`."""

    kind: Literal["by_speed", "listed", "uniform"] = "uniform"
    """Who has which rank, as in `client.width`."""
    ranks: Annotated[list[Annotated[int, Ge(1), Le(100_000)]], MinLen(1)]
    """Ranks of the clients' adapters, each at most `model.adapter.rank`, which is the server's."""


class PartKeys:
    """The keys of `client`."""

    width: Annotated[SubModels | None, ByForm()] = None
    """Sub-models for unequal machines: a client trains, receives and sends some of the units of
    every hidden layer, and a step takes it the share of the time that it has of the parameters. The
    mean is over those who have a number. By default everybody trains the whole model."""
    rank: Annotated[Ranks | None, ByForm()] = None
    """Adapters of different ranks for unequal machines: a client trains, receives and sends the
    first columns of A and rows of B; by the rule `lora_mean`, with `how` factors (HetLoRA), product
    (FlexLoRA) or stack (FLoRA). By default everybody has `model.adapter.rank`."""


KEYS = [AddedKeys("client", after="statistics", keys=PartKeys)]
