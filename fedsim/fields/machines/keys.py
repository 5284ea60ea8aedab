"""The keys of `fleet` about machines."""

from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import model_validator

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import AllowedKinds, ByForm, Section
from fedsim.scenario.values import Share

Text = Annotated[str, MinLen(1)]
Joules = Annotated[float, Ge(0)]
OfClients = Annotated[Joules | Annotated[list[Joules], MinLen(1)], ByForm()]


class Dropout(Section):
    """`fleet.dropout` as a mapping."""

    before: Share = 0.0
    """Probability that a client of a round leaves before it gets the model."""
    during: Share = 0.0
    """Probability that it leaves while it trains, at a uniformly drawn moment."""
    after: Share = 0.0
    """Probability that it sends its message and the message is lost."""


class Stragglers(Section):
    """`fleet.stragglers`."""

    share: Share
    """Share of the clients of a round that are stragglers."""
    work: Literal["partial", "drop"] = "partial"
    """What a straggler does: it sends what it has done (`partial`), or it is left out as late
    (`drop`)."""


class Energy(Section):
    """`fleet.energy`."""

    per_step: OfClients = 0.0
    """Joules of a local step, one number or one per client."""
    per_byte: OfClients = 0.0
    """Joules that a client takes to send or receive a byte, one number or one per client."""
    path: Text | None = None
    """In place of both, a trace of devices: a CSV with the columns `client, joules_per_step,
    joules_per_byte`. Other columns are ignored, so that one file may hold speeds as well."""
    sha256: Text | None = None
    """Hash of the file; any other file is refused (filled in by the resolved scenario)."""

    @model_validator(mode="after")
    def _takes_energy(self) -> "Energy":
        takes_energy = _some(self.per_step) or _some(self.per_byte)
        if self.path is not None and takes_energy:
            raise ValueError("the file has the joules; remove path, or per_step and per_byte")
        if self.path is None and not takes_energy:
            raise ValueError("nothing takes energy; write per_step or per_byte, in joules")
        return self


def _some(joules: float | list[float]) -> bool:
    """Whether joules are more than 0, those of some client at least."""
    return any(joules) if isinstance(joules, list) else joules > 0


class MachineKeys:
    """The keys of `fleet`."""

    speed: Annotated[Annotated[Any, AllowedKinds("speed")] | None, ByForm()] = None
    """Seconds per local step; by default one, for all clients."""
    links: Annotated[Annotated[Any, AllowedKinds("link")] | None, ByForm()] = None
    """Bytes per second to the clients and back; by default infinitely many."""
    availability: Annotated[Annotated[Any, AllowedKinds("availability")] | None, ByForm()] = None
    """Who can be reached when a round begins; by default everybody."""
    dropout: Annotated[Share | Dropout, ByForm()] = 0.0
    """Probability that a client of a round leaves while it trains, or
    `{before: 0.1, during: 0.1, after: 0.1}`."""
    deadline: Annotated[float, Gt(0)] | None = None
    """Seconds of the virtual clock after which a round ends, whoever is missing."""
    partial_work: bool = False
    """Whether a client that would be late sends the local steps that it has done in time."""
    over_select: Annotated[float, Ge(1), Le(100)] = 1.0
    """The cohort is drawn this many times as large, and the round ends when `cohort.size` clients
    have reported."""
    stragglers: Stragglers | None = None
    """Clients of a round that do 1 to E − 1 of their E epochs (or local steps) in the time of E,
    drawn again in every round."""
    energy: Energy | None = None
    """Joules of a local step and of a byte, as `{per_step: 2.5, per_byte: 1e-6}`, lists of one
    number per client, or `{path: devices.csv}`: columns `joules` of all clients in `rounds.csv`,
    and of each in `clients.csv`. By default nothing is counted."""


KEYS = [AddedKeys("fleet", after="", keys=MachineKeys, written=True)]
KINDS = ("speed", "links", "availability")
FILES = [("fleet", name) for name in (*KINDS, "energy")]
