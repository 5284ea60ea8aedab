"""Partitions that mix label skew with another one, or with samples of the global mix."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import partition
from fedsim.data.draws import dirichlet_draw
from fedsim.data.partition import (
    Assign,
    Parts,
    Pool,
    even,
    iid,
    parts_of,
    require_classes,
    require_minimum,
)
from fedsim.data.skew import dirichlet, dirichlet_client, holders_of
from fedsim.data.splits import apportion_within, by_label

Share = Annotated[float, Ge(0), Le(1)]


@partition
def extended_dirichlet(
    alpha: Annotated[float, Gt(0)] = 0.5, classes: Annotated[int, Ge(1)] = 2
) -> Assign:
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
            apportion_within(
                dirichlet_draw(alpha, parts, rng), n, np.ones(parts, int), np.full(parts, n)
            )
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
        owner = np.concatenate(
            [np.repeat(np.arange(clients), mixed), np.repeat(order, (sizes - mixed)[order])]
        )
        return parts_of(np.concatenate([common, rest]), owner, clients)

    return assign


@partition
def mixed(share: Share = 0.5, alpha: Annotated[float, Gt(0)] = 0.5) -> Assign:
    """A share of the clients is IID, the labels of the others are skewed; sizes are equal (±1).

    round(share · N) clients, drawn at random, hold samples of the global mix; what is left goes to the others as
    `dirichlet_client(alpha)` deals it. share = 1: `iid`; share = 0: `dirichlet_client`. (NIID-Bench's `mixed` is another
    thing: two classes per client in uneven parts, `extended_dirichlet` here.)

    Args:
      share: of the clients that are IID, 0 to 1.
      alpha: concentration of the others, > 0: near 0 one class per client.

    Raises:
      PartitionError: when there are more clients than samples.

    References:
      The sampler `mixed` of Plato (github.com/TL-System/plato), whose IID clients hold all classes equally often.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "mixed")
        n = len(pool.y)
        require_minimum(n, clients, 1)
        order = rng.permutation(clients)
        common, skewed = np.split(order, [round(share * clients)])
        sizes = even(n, clients)[common]
        first, rest = np.split(rng.permutation(n), [int(sizes.sum())])
        if not len(skewed):
            return parts_of(first, np.repeat(common, sizes), clients)
        parts = dirichlet_client(alpha)(Pool(pool.y[rest], pool.classes), len(skewed), rng)
        owner = np.concatenate(
            [np.repeat(common, sizes), np.repeat(skewed, np.diff(parts.offsets))]
        )
        return parts_of(np.concatenate([first, rest[parts.indices]]), owner, clients)

    return assign


@partition
def long_tail(
    ratio: Annotated[float, Ge(1)] = 100.0, alpha: Annotated[float, Gt(0)] | None = None
) -> Assign:
    """Classes of all clients together are imbalanced: thinned to a long tail, then dealt; the other samples are nobody's.

    Class c of C keeps m·ratio^(−c/(C−1)) of its samples, at random, rounded down, at least one: class 0 is the most
    frequent. m is the largest number for which all classes have enough. Then as `iid`, or as `dirichlet(alpha)`.

    Args:
      ratio: of the largest class to the smallest (the imbalance factor), ≥ 1.
      alpha: concentration of a label skew besides; left out: every client holds the common, imbalanced mix.

    Raises:
      PartitionError: when there are more clients than samples that are left.

    References:
      Cao et al. 2019, LDAM, arXiv:1906.07413 (long-tailed CIFAR); Shang et al. 2022, CReFF, arXiv:2204.13399 (federated,
      with Dirichlet); Xiao et al. 2023, Fed-GraB, arXiv:2310.07587.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "long_tail")
        members = [rows for rows in by_label(pool.y)[0] if len(rows)]
        tail = float(ratio) ** -(np.arange(len(members)) / max(len(members) - 1, 1))
        most = (np.array([*map(len, members)]) / tail).min()
        kept = np.maximum(np.floor(most * tail * (1 + 1e-12)).astype(int), 1)
        rows = np.sort(
            np.concatenate([rng.permutation(m)[:k] for m, k in zip(members, kept, strict=True)])
        )
        deal = iid() if alpha is None else dirichlet(alpha)
        parts = deal(Pool(pool.y[rows], pool.classes), clients, rng)
        return Parts(rows[parts.indices].astype(np.int32), parts.offsets)

    return assign
