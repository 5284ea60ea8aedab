"""Clustered sampling: draws with replacement whose number of times each is drawn varies less."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge

from fedsim.compose import cohort
from fedsim.fleet.selection import Cohort, Population


@cohort
def clustered(
    size: Annotated[int, Ge(1)] = 10, by: Literal["samples", "similarity"] = "samples"
) -> Cohort:
    """`size` draws, each from a cluster of its own; on average client k is drawn size · n_k / Σ n times.

    Client k has size · n_k balls, and they fill `size` urns of Σ n balls each; one ball of each urn is drawn. So
    nobody's number of draws varies more than by `weighted`, with the same mean. With uniform weights an unbiased
    estimate of the mean over all clients: `mean(weights: uniform)`. How the urns are filled:

    `samples`: in the order of falling n_k (ties by id), one urn after another; a client with n_k ≥ Σ n / size is
    drawn in every round.

    `similarity`: a client's balls fill whole urns while they can; what is left of all clients is grouped by Ward's
    method over the directions of their last updates (sketches of 64 numbers, of length 1; 0 for clients that never
    took part or whose update was not finite). From its top the tree is cut where a group has more balls than an
    urn. The groups with the most balls get an urn each, and clients of the others fill what is free, group by
    group. So a round has clients that differ.

    By similarity cohorts depend on updates, and so on the method.
    Cost: O(N log N) on the host; by similarity O(N²) numbers and operations, for thousands of clients.

    Args:
      size: draws per round, and clusters.
      by: what fills the urns, as above.
    References:
      Fraboni et al. 2021, Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in Federated
      Learning, arXiv:2105.05883, Algorithms 1 (`samples`) and 2 (`similarity`, there of the vectors of all similarities).
    """

    def draw(population: Population, round: int, rng: np.random.Generator):
        urn = int(population.samples.sum())
        if by == "samples":
            places = np.argsort(-population.samples, kind="stable")
            ends = np.cumsum(size * population.samples[places])
        else:
            assert population.sketch is not None
            places, ends = filled(size * population.samples, urn, population.sketch)
        balls = np.arange(size) * urn + rng.integers(urn, size=size)
        return population.ids[places[np.searchsorted(ends, balls, side="right")]]

    needs = frozenset({"sketch"} if by == "similarity" else ())
    share = lambda p: size * p.samples / p.samples.sum()
    return Cohort(draw, lambda N: size, repeats=True, needs=needs, share=share)


def filled(balls: np.ndarray, urn: int, sketch: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Urns one after another, by similarity: whose the balls are in each stretch of them, and where it ends."""
    whole = balls // urn
    places: list[int] = np.repeat(np.arange(len(balls)), whole).tolist()
    taken = [urn] * int(whole.sum())
    parts = sorted(
        groups(balls % urn, urn, sketch), key=lambda group: -sum(balls[i] % urn for i in group)
    )
    left, urns = (balls % urn).tolist(), int((balls % urn).sum()) // urn
    others = [i for group in parts[urns:] for i in group]
    for group in parts[:urns]:
        free = urn
        for queue in (group, others):  # a group fits into its urn
            while queue and free:
                amount = min(left[queue[0]], free)
                places.append(queue[0])
                taken.append(amount)
                left[queue[0]] -= amount
                free -= amount
                if not left[queue[0]]:
                    queue.pop(0)
    return np.array(places), np.cumsum(taken)


def groups(balls: np.ndarray, urn: int, sketch: np.ndarray) -> list[list[int]]:
    """Clients that have balls, in groups of similar updates that have at most an urn of them each."""
    from scipy.cluster.hierarchy import linkage  # a tenth of a second

    some = np.flatnonzero(balls)
    n = len(some)
    if n < 2:
        return [some.tolist()] if n else []
    points = np.where(np.isfinite(sketch[some]).all(1, keepdims=True), sketch[some], 0).astype(
        float
    )
    largest = np.abs(points).max(1, keepdims=True)
    points = points / np.where(largest > 0, largest, 1)
    length = np.linalg.norm(points, axis=1, keepdims=True)
    children = linkage(points / np.where(length > 0, length, 1), "ward")[:, :2].astype(
        int
    )  # of nodes n, n + 1, …
    held, group = np.append(balls[some], np.zeros(n - 1, int)), np.arange(2 * n - 1)
    for node, pair in enumerate(children, n):
        held[node] = held[pair].sum()
    for node, pair in reversed([*enumerate(children, n)]):
        if held[node] <= urn:  # so do all below it
            group[pair] = group[node]
    members: dict[int, list[int]] = {}
    for client, number in zip(some.tolist(), group[:n].tolist(), strict=True):
        members.setdefault(number, []).append(client)
    return list(members.values())
