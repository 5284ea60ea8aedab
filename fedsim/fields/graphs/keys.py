"""The section `topology`."""

from typing import Annotated, Any, Literal

from fedsim.scenario.added import AddedKeys
from fedsim.scenario.schema import PLAIN_LINKS, AllowedKinds, ByForm, Section, links_or_none
from fedsim.scenario.values import Count, ShareBelowOne

MIX_RULE = links_or_none(PLAIN_LINKS)


class TopologyCommon(Section):
    """The keys of `topology` that do not depend on its kind."""

    weights: Literal["metropolis", "max_degree", "uniform"] | None = None
    """How much a neighbour counts: 1/(1 + the larger of both degrees) (`metropolis`, the default),
    1/(1 + the largest degree) (`max_degree`), or 1/(1 + the degree) on regular graphs (`uniform`).
    Directed edges hand out equal parts."""
    directed: bool = False
    """Whether edges are directed (`ring`, `erdos_renyi`, `listed`) and weights are equal parts of
    what a node hands out: then W's columns add up to one, not its rows."""
    mix: Literal["after", "before"] = "after"
    """Whether a node trains and then mixes what was trained (`after`), or its step is added to the
    mix of the models that the round began with (`before`)."""
    every: Count = 1
    """Rounds of training from one mixing to the next."""
    redraw: Count | None = None
    """Rounds after which a random graph is drawn again; by default never."""
    fail: ShareBelowOne = 0.0
    """Probability that an edge is down in a round; its weight stays with its ends."""
    mix_rule: MIX_RULE = None  # pyright: ignore[reportInvalidTypeForm] (a function made it)
    """A rule in place of the weighted sum, over what a node hears and its own model: a kind, or a
    list of stages and a rule. `[clip(norm=1), mean]` is clipped gossip. By default none."""


def is_graph(topology: Any) -> bool:
    """Whether a section `topology` is a graph of clients without a server; else edges have some."""
    return topology is not None and "inner" not in type(topology).model_fields


TOPOLOGIES = AllowedKinds("topology", common=TopologyCommon)


class TopologyKey:
    """The key at the top of a scenario."""

    topology: Annotated[Annotated[Any, TOPOLOGIES] | None, ByForm()] = None
    """The graph over which clients mix their models, in place of a server. By default none."""


def idle(spec: Any) -> tuple[str, ...]:
    """Return the sections of a scenario that say nothing beside its topology."""
    if is_graph(spec.topology):
        return ("server", "cohort", "broadcast")
    return () if spec.topology is None else ("server",)


TOPOLOGY = ("topology",)
FILES = [TOPOLOGY]  # it may name a file by its key `path`
KEYS = [AddedKeys("", after="server", keys=TopologyKey)]
