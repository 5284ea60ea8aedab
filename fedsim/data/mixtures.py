"""Partitions that combine label skew with another skew, or with samples of the global mix."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import partition
from fedsim.data.apportionment import apportion_within, count_of
from fedsim.data.draws import dirichlet_draw
from fedsim.data.label_skew import Bins, dirichlet, dirichlet_client, holders_of
from fedsim.data.partition import (
    Assign,
    Parts,
    Pool,
    even_sizes,
    iid,
    in_classes,
    one_number_each,
    parts_of,
    require_classes,
    require_minimum,
)
from fedsim.data.splits import by_label
from fedsim.errors import PartitionError

Share = Annotated[float, Ge(0), Le(1)]


@partition
def extended_dirichlet(
    alpha: Annotated[float, Gt(0)] = 0.5,
    classes: Annotated[int, Ge(1)] = 2,
    bins: Bins = None,
) -> Assign:
    """Label and quantity skew: clients have exactly `classes` classes, divided by Dirichlet(α·1).

    As in `pathological`, the number of clients that have a class is proportional to its samples.
    They share it by q_c ~ Dir(α) over them, with at least one sample each (largest remainders).
    Small α: clients of very different sizes; large α: `pathological`.

    Args:
      alpha: concentration, > 0.
      classes: classes per client.
      bins: as of `dirichlet`; `classes` of them are a client's.

    Raises:
      PartitionError: if there are fewer classes, if some class would be left without a client, or
        if there are too few samples.

    References:
      Li, Lyu 2023, Convergence Analysis of Sequential Federated Learning on Heterogeneous Data,
      arXiv:2311.03154.
    """

    def shares_of(n: int, holding: int, rng: np.random.Generator) -> np.ndarray:
        """Divide n samples among the clients that have a class."""
        weight = dirichlet_draw(alpha, holding, rng)
        return apportion_within(weight, n, np.ones(holding, int), np.full(holding, n))

    def assign(pool, clients, rng):
        pool = in_classes(pool, "extended_dirichlet", bins)
        members, counts = by_label(pool.y)
        takers, holders = holders_of(counts, clients, classes, rng)
        rows = np.concatenate([rng.permutation(rows) for rows in members])
        class_sizes = zip(counts, holders, strict=True)
        shares = [shares_of(n, holding, rng) for n, holding in class_sizes if holding]
        return parts_of(rows, np.repeat(takers, np.concatenate(shares)), clients)

    return assign


@partition
def similarity(gamma: Share = 0.1) -> Assign:
    """A share γ of every client's samples is of the global mix, the rest is sorted by label.

    Sizes are equal (±1). γ = 1: `iid`; γ = 0: as few labels per client as possible. Targets that
    are numbers are sorted as such, so that clients have neighbouring ones.

    Args:
      gamma: share of the global mix, 0 to 1.

    Raises:
      PartitionError: if there are more clients than samples.

    References:
      Karimireddy et al. 2020, SCAFFOLD, arXiv:1910.06378, section 7 (s % similarity, after Hsu et
      al.).
    """

    def assign(pool, clients, rng):
        y = one_number_each(pool, "similarity")
        n = len(y)
        require_minimum(n, clients, 1)
        sizes = even_sizes(n, clients)
        mixed_sizes = np.rint(gamma * sizes).astype(int)
        sorted_sizes = sizes - mixed_sizes

        mixed_rows, rest = np.split(rng.permutation(n), [int(mixed_sizes.sum())])
        sorted_rows = rest[np.argsort(y[rest], kind="stable")]

        order = rng.permutation(clients)  # so that clients with similar ids do not share labels
        mixed_owner = np.repeat(np.arange(clients), mixed_sizes)
        sorted_owner = np.repeat(order, sorted_sizes[order])
        return parts_of(
            np.concatenate([mixed_rows, sorted_rows]),
            np.concatenate([mixed_owner, sorted_owner]),
            clients,
        )

    return assign


@partition
def mixed(share: Share = 0.5, alpha: Annotated[float, Gt(0)] = 0.5, bins: Bins = None) -> Assign:
    """A share of the clients is IID, the labels of the others are skewed; sizes are equal (±1).

    round(share · N) randomly chosen clients have samples of the global mix; the other clients
    divide the remaining samples as `dirichlet_client(alpha)` does. share = 1: `iid`; share = 0:
    `dirichlet_client`. (NIID-Bench's `mixed` is something else: two classes per client in uneven
    parts, which is `extended_dirichlet` here.)

    Args:
      share: share of the clients that are IID, 0 to 1.
      alpha: concentration for the other clients, > 0: near 0 one class per client.
      bins: as of `dirichlet`.

    Raises:
      PartitionError: if there are more clients than samples.

    References:
      The sampler `mixed` of Plato (github.com/TL-System/plato), whose IID clients have all classes
      equally often.
    """

    def assign(pool, clients, rng):
        pool = in_classes(pool, "mixed", bins)
        n = len(pool.y)
        require_minimum(n, clients, 1)
        order = rng.permutation(clients)
        iid_clients, skewed_clients = np.split(order, [count_of(share, clients)])

        sizes = even_sizes(n, clients)[iid_clients]
        iid_rows, rest = np.split(rng.permutation(n), [int(sizes.sum())])
        iid_owner = np.repeat(iid_clients, sizes)
        if not len(skewed_clients):
            return parts_of(iid_rows, iid_owner, clients)

        assign_skewed = dirichlet_client(alpha)
        skewed = assign_skewed(Pool(pool.y[rest], pool.classes), len(skewed_clients), rng)
        skewed_rows = rest[skewed.indices]
        skewed_owner = np.repeat(skewed_clients, np.diff(skewed.offsets))
        return parts_of(
            np.concatenate([iid_rows, skewed_rows]),
            np.concatenate([iid_owner, skewed_owner]),
            clients,
        )

    return assign


@partition
def long_tail(
    ratio: Annotated[float, Ge(1)] = 100.0, alpha: Annotated[float, Gt(0)] | None = None
) -> Assign:
    """The classes of all clients together are imbalanced: thinned to a long tail, then divided.

    Class c of C keeps m·ratio^(−c/(C−1)) of its samples, at random, rounded down, at least one:
    class 0 is the most frequent. m is the largest number for which all classes have enough samples.
    The other samples belong to no client. The rest is divided as `iid` does, or as
    `dirichlet(alpha)` does.

    Args:
      ratio: ratio of the largest class to the smallest (the imbalance factor), ≥ 1.
      alpha: concentration of an additional label skew; left out: every client has the same
        imbalanced mix.

    Raises:
      PartitionError: if there are more clients than samples that are left.

    References:
      Cao et al. 2019, LDAM, arXiv:1906.07413 (long-tailed CIFAR); Shang et al. 2022, CReFF,
      arXiv:2204.13399 (federated, with Dirichlet); Xiao et al. 2023, Fed-GraB, arXiv:2310.07587.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "long_tail")
        members = [rows for rows in by_label(pool.y)[0] if len(rows)]
        C = len(members)

        # Samples that each class keeps.
        tail = float(ratio) ** -(np.arange(C) / max(C - 1, 1))
        m = (np.array([*map(len, members)]) / tail).min()
        counts = np.maximum(np.floor(m * tail * (1 + 1e-12)).astype(int), 1)

        thinned = [
            rng.permutation(rows)[:count] for rows, count in zip(members, counts, strict=True)
        ]
        rows = np.sort(np.concatenate(thinned))
        divide = iid() if alpha is None else dirichlet(alpha)
        try:
            parts = divide(Pool(pool.y[rows], pool.classes), clients, rng)
        except PartitionError as error:
            kept = f"long_tail with ratio {ratio:g} keeps {len(rows)} of {len(pool.y)} samples"
            raise PartitionError(f"{kept}; {error}", error.where) from None
        return Parts(rows[parts.indices].astype(np.int32), parts.offsets)

    return assign
