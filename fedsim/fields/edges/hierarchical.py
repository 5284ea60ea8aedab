"""Servers between the clients and a cloud."""

from typing import Annotated, NamedTuple

from annotated_types import Ge

from fedsim.compose import topology
from fedsim.compose.groups import Groups, require_disjoint
from fedsim.types import ServerLinks

Rate = Annotated[float, Ge(1e-9)]


class Hierarchy(NamedTuple):
    """Edges, each the server of a group of clients, and the cloud, which is the edges' server.

    The fields are the arguments of `hierarchical`; None stands for the mean, or for unlimited.
    """

    groups: int | list[list[int]]
    edge_rounds: int
    inner: ServerLinks | None
    outer: ServerLinks | None
    cloud_up: float | None
    cloud_down: float | None
    cloud_latency: float

    @property
    def edges(self) -> int:
        """The number of edges."""
        return self.groups if isinstance(self.groups, int) else len(self.groups)


@topology
def hierarchical(
    groups: Groups,
    edge_rounds: Annotated[int, Ge(1)] = 1,
    inner: ServerLinks | None = None,
    outer: ServerLinks | None = None,
    cloud_up: Rate | None = None,
    cloud_down: Rate | None = None,
    cloud_latency: Annotated[float, Ge(0)] = 0.0,
) -> Hierarchy:
    """Clients, edges and a cloud: edges average every round, the cloud every few.

    Edge g: x_g ← x_g + inner({Δ_i : i ∈ g}). Every `edge_rounds` rounds, the cloud:
    x ← x + outer({x_g − x}), and all x_g ← x. An edge weighs as much as the updates that it has
    used since the cloud's last round weigh together; one without any sends nothing. One edge, or
    `edge_rounds: 1`, with means: FedAvg.

    State: a model and optimisers of every edge, and those of the cloud.
    Sends: one model, and one of every edge to the cloud and back in its rounds.

    Args:
      groups: a number of edges, each with consecutive clients, as even as possible; or the clients
        of each edge, `[[0, 1], [2, 3]]`, all in one of them.
      edge_rounds: rounds of the edges from one of the cloud to the next, κ₂.
      inner: what an edge does with its clients' updates: stages, a rule, steps, optimisers, as in
        `server`; by default the mean by samples.
      outer: what the cloud does with the edges' updates, likewise.
      cloud_up: bytes per second from an edge to the cloud; left out: unlimited.
      cloud_down: bytes per second from the cloud to an edge; left out: unlimited.
      cloud_latency: seconds before a message travels between an edge and the cloud, in each
        direction.

    References:
      Liu, Zhang, Song, Letaief 2020, Client-Edge-Cloud Hierarchical Federated Learning,
      arXiv:1905.06641, Algorithm 1 (HierFAVG).
    """
    require_disjoint(groups)
    return Hierarchy(
        groups=groups,
        edge_rounds=edge_rounds,
        inner=inner,
        outer=outer,
        cloud_up=cloud_up,
        cloud_down=cloud_down,
        cloud_latency=cloud_latency,
    )
