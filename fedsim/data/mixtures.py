"""Partitions that mix label skew with another one, or with samples of the global mix."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import partition
from fedsim.data.draws import dirichlet_draw
from fedsim.data.partition import Assign, even, parts_of, require_classes, require_minimum
from fedsim.data.skew import holders_of
from fedsim.data.splits import apportion_within, by_label

Share = Annotated[float, Ge(0), Le(1)]


@partition
def extended_dirichlet(alpha: Annotated[float, Gt(0)] = 0.5, classes: Annotated[int, Ge(1)] = 2) -> Assign:
    """Label and quantity skew: every client holds exactly `classes` classes, in parts drawn from Dirichlet(α·1).

    As in `pathological` a class has holders in proportion to its samples; they share it by q_c ~ Dir(α) over them, with at
    least one sample each (largest remainders). Small α: clients of very different sizes; large α: `pathological`.

    Args:
      alpha: concentration, > 0.
      classes: classes per client.

    Raises:
      PartitionError: when there are fewer classes, when not all classes would find a holder, or too few samples.

    References:
      Li, Lyu 2023, Convergence Analysis of Sequential Federated Learning on Heterogeneous Data, arXiv:2311.03154.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "extended_dirichlet")
        members, counts = by_label(pool.y)
        takers, holders = holders_of(counts, clients, classes, rng)
        rows = np.concatenate([rng.permutation(rows) for rows in members])
        shares = [
            apportion_within(dirichlet_draw(alpha, parts, rng), n, np.ones(parts, int), np.full(parts, n))
            for n, parts in zip(counts, holders, strict=True)
            if parts
        ]
        return parts_of(rows, np.repeat(takers, np.concatenate(shares)), clients)

    return assign


@partition
def similarity(gamma: Share = 0.1) -> Assign:
    """A share γ of every client's samples is of the global mix, the rest is dealt sorted by label; sizes are equal (±1).

    γ = 1: `iid`; γ = 0: as few labels per client as there can be.

    Args:
      gamma: share of the global mix, 0 to 1.

    Raises:
      PartitionError: when there are more clients than samples.

    References:
      Karimireddy et al. 2020, SCAFFOLD, arXiv:1910.06378, section 7 (s % similarity, after Hsu et al.).
    """

    def assign(pool, clients, rng):
        require_classes(pool, "similarity")
        n = len(pool.y)
        require_minimum(n, clients, 1)
        sizes = even(n, clients)
        mixed = np.rint(gamma * sizes).astype(int)
        rows = rng.permutation(n)
        common, rest = np.split(rows, [int(mixed.sum())])
        rest = rest[np.argsort(pool.y[rest], kind="stable")]
        order = rng.permutation(clients)  # so that neighbours do not share labels
        owner = np.concatenate([np.repeat(np.arange(clients), mixed), np.repeat(order, (sizes - mixed)[order])])
        return parts_of(np.concatenate([common, rest]), owner, clients)

    return assign
