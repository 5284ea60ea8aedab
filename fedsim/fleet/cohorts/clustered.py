"""Clustered sampling: draws with replacement, in which counts per client vary less."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def clustered(
    size: Annotated[int, Ge(1)] = 10, by: Literal["samples", "similarity"] = "samples"
) -> Cohort:
    """`size` draws, each from its own cluster; client k is drawn size · n_k / Σ n times on average.

    Client k has size · n_k balls, which fill `size` urns of Σ n balls each, and one ball is drawn
    from each urn. So the number of draws of a client varies no more than under `weighted`, with the
    same mean. With uniform weights, `mean(weights: uniform)`, this is an unbiased estimate of the
    mean over all samples. The urns are filled as follows:

    `samples`: in the order of falling n_k (ties by id), one urn after another; a client with
    n_k ≥ Σ n / size is drawn in every round.

    `similarity`: a client's balls fill entire urns while they can. The remaining balls of all
    clients are grouped by Ward's method over the directions of their last updates (sketches of 64
    numbers, of length 1; 0 for clients that never took part or whose update was not finite). The
    tree is cut from its root, wherever a group has more balls than an urn. The groups with the most
    balls get one urn each, and clients of the other groups fill the space that is left, group by
    group. So the clients of a round differ from each other.

    By similarity, cohorts depend on updates, and so on the method. Cost: O(N log N) on the host; by
    similarity O(N²) numbers and operations, for thousands of clients.

    Args:
      size: draws per round, and clusters.
      by: what fills the urns, as above.
    References:
      Fraboni et al. 2021, Clustered Sampling: Low-Variance and Improved Representativity for
      Clients Selection in Federated Learning, arXiv:2105.05883, Algorithms 1 (`samples`) and 2
      (`similarity`, there of the vectors of all similarities).
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        urn = int(population.samples.sum())
        if by == "samples":
            clients = np.argsort(-population.samples, kind="stable")
            ends = np.cumsum(size * population.samples[clients])
        else:
            assert population.sketch is not None
            clients, ends = fill_urns(size * population.samples, urn, population.sketch)

        # All urns in a row: one ball of each.
        balls = np.arange(size) * urn + rng.integers(urn, size=size)
        stretch = np.searchsorted(ends, balls, side="right")
        return population.ids[clients[stretch]]

    def share(population: Population):
        return size * population.samples / population.samples.sum()

    needs = frozenset({"sketch"} if by == "similarity" else ())
    return Cohort(draw, lambda N: size, repeats=True, needs=needs, share=share)


def fill_urns(balls: np.ndarray, urn: int, sketch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fill urns by similarity.

    Args:
      balls: balls of every client `[n]`; together they fill a whole number of urns.
      urn: balls in an urn.
      sketch: sketches of the clients' updates `[n, SKETCH_SIZE]`.

    Returns:
      The urns in a row, as stretches of balls of one client: whose each is, and where it ends.
    """
    # A client's balls fill entire urns while they can.
    entire = balls // urn
    clients: list[int] = np.repeat(np.arange(len(balls)), entire).tolist()
    lengths = [urn] * int(entire.sum())

    # The groups with the most remaining balls get one urn each.
    remaining = balls % urn
    groups = similar_groups(remaining, urn, sketch)
    groups.sort(key=lambda group: -sum(remaining[i] for i in group))
    urns = int(remaining.sum()) // urn
    spread = [client for group in groups[urns:] for client in group]

    left = remaining.tolist()
    for group in groups[:urns]:
        space = urn
        for queue in (group, spread):  # a group fits into its urn
            while queue and space:
                client = queue[0]
                amount = min(left[client], space)
                clients.append(client)
                lengths.append(amount)
                left[client] -= amount
                space -= amount
                if not left[client]:
                    queue.pop(0)
    return np.array(clients), np.cumsum(lengths)


def similar_groups(balls: np.ndarray, urn: int, sketch: np.ndarray) -> list[list[int]]:
    """Return groups of clients with similar updates, whose balls fit into one urn.

    Args:
      balls: balls of every client `[n]`, below `urn`; clients without balls are in no group.
    """
    from scipy.cluster.hierarchy import linkage  # takes a tenth of a second to import

    clients = np.flatnonzero(balls)
    n = len(clients)
    if n == 0:
        return []
    if n == 1:
        return [clients.tolist()]

    # Nodes 0 to n − 1 of the tree are clients; node n + i has the children of row i.
    children = linkage(directions(sketch[clients]), "ward")[:, :2].astype(int)
    nodes = list(enumerate(children, n))

    # Balls below every node, from the leaves to the root.
    below = np.append(balls[clients], np.zeros(n - 1, int))
    for node, pair in nodes:
        below[node] = below[pair].sum()

    # Where they fit into an urn, all nodes below belong to one group.
    group = np.arange(2 * n - 1)
    for node, pair in reversed(nodes):
        if below[node] <= urn:
            group[pair] = group[node]

    members: dict[int, list[int]] = {}
    for client, number in zip(clients.tolist(), group[:n].tolist(), strict=True):
        members.setdefault(number, []).append(client)
    return list(members.values())


def directions(sketch: np.ndarray) -> np.ndarray:
    """Return sketches `[n, SKETCH_SIZE]` scaled to length 1; those that are not finite become 0."""
    finite = np.isfinite(sketch).all(1, keepdims=True)
    points = np.where(finite, sketch, 0).astype(float)

    # Scaled by the largest number first, so that no square overflows.
    largest = np.abs(points).max(1, keepdims=True)
    points = points / np.where(largest > 0, largest, 1)
    length = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(length > 0, length, 1)
