"""Partitions with label skew."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt

from fedsim.compose import partition
from fedsim.data.draws import allocate, dirichlet_draw
from fedsim.data.partition import (
    Assign,
    Parts,
    even,
    offsets_of,
    parts_of,
    require_classes,
    require_minimum,
)
from fedsim.data.splits import apportion, apportion_within, by_label
from fedsim.errors import PartitionError

SWAPS = 20  # passes of random swaps; the sets of classes are well mixed after a few


@partition
def dirichlet(
    alpha: Annotated[float, Gt(0)] = 0.5, min_samples: Annotated[int, Ge(0)] = 1
) -> Assign:
    """Label skew: every class is dealt over the clients in proportions drawn from Dirichlet(α·1).

    q_c ~ Dir_N(α) for every class c; client i receives a share q_{c,i} of its samples (largest remainders). Then clients
    below `min_samples` are filled up with samples of the largest ones, which are cut to a common level. Small α: few
    classes per client; large α: the global mix.

    Args:
      alpha: concentration, > 0.
      min_samples: every client's minimum, met by construction.

    Raises:
      PartitionError: when clients · min_samples exceeds the number of training samples.

    References:
      Yurochkin et al. 2019, arXiv:1905.12022; `dirichlet_client` is the other Dirichlet, per client instead of per class.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "dirichlet")
        require_minimum(len(pool.y), clients, min_samples)
        rows, owners = [], []
        for members in by_label(pool.y)[0]:
            rows.append(rng.permutation(members))
            share = apportion(dirichlet_draw(alpha, clients, rng) * len(members), len(members))
            owners.append(np.repeat(np.arange(clients), share))
        return parts_of(
            np.concatenate(rows),
            fill_up(np.concatenate(owners), clients, min_samples, rng),
            clients,
        )

    return assign


@partition
def dirichlet_client(
    alpha: Annotated[float, Gt(0)] = 1.0, min_samples: Annotated[int, Ge(0)] = 1
) -> Assign:
    """Label skew: every client draws its own class mix from Dirichlet(α·p), p the global mix; sizes are equal (±1).

    q_i ~ Dir_C(α·p) for every client i, whose samples ask for classes by q_i. A class that is asked for more often than
    it has samples gives them to askers chosen at random; the others ask again, by q_i among the classes that are left.
    Every such turn empties a class, so there are at most C of them, and every sample is dealt once.

    Many libraries write Dirichlet(α'·1) here; for C equally frequent classes that is α = C·α'.

    Args:
      alpha: concentration, > 0: near 0 one class per client, large: the global mix.
      min_samples: every client's minimum.

    Raises:
      PartitionError: when clients · min_samples exceeds the number of training samples.

    References:
      Hsu, Qi, Brown 2019, Measuring the Effects of Non-Identical Data Distribution, arXiv:1909.06335.
    """

    def assign(pool, clients, rng):
        require_classes(pool, "dirichlet_client")
        require_minimum(len(pool.y), clients, min_samples)
        members, counts = by_label(pool.y)
        present = np.flatnonzero(counts)
        prior = counts[present] / len(pool.y)
        mix = dirichlet_draw(alpha * prior, (clients, len(present)), rng)
        allocated = allocate(mix, even(len(pool.y), clients), counts[present], rng)
        rows = np.concatenate([rng.permutation(members[label]) for label in present])
        return parts_of(
            rows, np.repeat(np.tile(np.arange(clients), len(present)), allocated.T.ravel()), clients
        )

    return assign


@partition
def shards(per_client: Annotated[int, Ge(1)] = 2) -> Assign:
    """Sort by label, cut into clients · per_client shards of equal size (±1), deal every client `per_client` of them.

    Args:
      per_client: shards each; with shards smaller than a class, at most about so many labels per client.

    Raises:
      PartitionError: when there are fewer samples than shards.

    References:
      McMahan et al. 2017, arXiv:1602.05629, section 3 (the pathological non-IID partition of MNIST).
    """

    def assign(pool, clients, rng):
        require_classes(pool, "shards")
        n, cuts = len(pool.y), clients * per_client
        require_minimum(n, clients, per_client, "per_client")
        rows = np.concatenate([rng.permutation(members) for members in by_label(pool.y)[0]])
        holder = rng.permutation(cuts) // per_client
        return parts_of(rows, np.repeat(holder, even(n, cuts)), clients)

    return assign


@partition
def pathological(classes: Annotated[int, Ge(1)] = 2) -> Assign:
    """Every client holds exactly `classes` classes, chosen at random; all samples are dealt.

    A class has holders in proportion to its samples (at least one), which share it equally (±1): so clients are of about
    equal size.

    Args:
      classes: classes per client.

    Raises:
      PartitionError: when there are fewer classes, when not all classes would find a holder, or too few samples.

    References:
      Zhao et al. 2018, arXiv:1806.00582; Li et al. 2022, arXiv:2102.02079 (#C = k).
    """

    def assign(pool, clients, rng):
        require_classes(pool, "pathological")
        return dealt_in_groups(pool.y, clients, classes, rng)

    return assign


def dealt_in_groups(
    group: np.ndarray, clients: int, each: int, rng: np.random.Generator, unit: str = "classes"
) -> Parts:
    """Every client holds exactly so many groups, chosen at random; the holders of a group share it equally (±1).

    Args:
      group: of every sample `[n]`, 0, 1, ...
      clients: how many.
      each: groups of every client.
      rng: draws.
      unit: what groups are called, and the parameter that says how many.

    Raises:
      PartitionError: as `holders_of` does.
    """
    members, counts = by_label(group)
    takers, holders = holders_of(counts, clients, each, rng, unit)
    rows = np.concatenate([rng.permutation(rows) for rows in members])
    shares = np.concatenate(
        [even(n, parts) for n, parts in zip(counts, holders, strict=True) if parts]
    )
    return parts_of(rows, np.repeat(takers, shares), clients)


def holders_of(
    counts: np.ndarray, clients: int, classes: int, rng: np.random.Generator, unit: str = "classes"
) -> tuple[np.ndarray, np.ndarray]:
    """Which clients hold which class, so many classes each -> (clients, class after class; how many hold each class).

    Args:
      counts: samples of every class `[C]`; a class has holders in proportion to them, at least one if it has any.
      clients: how many.
      classes: that every client holds.
      rng: draws the sets.
      unit: what classes are called, and the parameter that says how many.

    Raises:
      PartitionError: when there are fewer classes, when not all classes would find a holder, or too few samples.
    """
    high = np.minimum(clients, counts)  # a class has no more holders than samples
    _require_holders(high, clients, classes, unit)
    holders = apportion_within(
        counts / counts.sum(), clients * classes, np.minimum(counts, 1), high
    )
    order = rng.permutation(len(counts))
    # classes laid out in a row, as often as they have holders: client t mod N takes place t, so never a class twice
    sets = np.repeat(order, holders[order]).reshape(classes, clients).T
    sets = _swapped(sets[rng.permutation(clients)], rng)
    return np.argsort(sets.ravel(), kind="stable") // classes, holders


def _require_holders(high: np.ndarray, clients: int, k: int, unit: str) -> None:
    present = int((high > 0).sum())
    if k > present:
        raise PartitionError(
            f"{k} {unit} per client, but the samples have only {present}; {unit} at most {present}"
        )
    if clients * k < present:
        text = f"{clients} clients x {k} {unit} leave some of the {present} {unit} to nobody"
        raise PartitionError(f"{text}; {unit} at least {-(-present // clients)}")
    if high.sum() < clients * k:
        bound = int(high.sum()) // clients
        raise PartitionError(
            f"too few samples for {k} {unit} at each of {clients} clients; {unit} at most {bound}"
        )


def _swapped(sets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sets of classes `[N, k]` after random swaps between pairs of clients; no class twice, holders as before."""
    N, k = sets.shape
    half = N // 2
    for _ in range(SWAPS):
        one, other = rng.permutation(N)[: 2 * half].reshape(2, half)
        i, j = rng.integers(0, k, (2, half))
        gives, takes = sets[one, i], sets[other, j]
        fits = ~((sets[one] == takes[:, None]).any(1) | (sets[other] == gives[:, None]).any(1))
        sets[one[fits], i[fits]], sets[other[fits], j[fits]] = takes[fits], gives[fits]
    return sets


def fill_up(owner: np.ndarray, clients: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Owners `[n]` after moving random samples from the largest clients (cut to a common level) to those below `least`."""
    sizes = np.bincount(owner, minlength=clients)
    poor = np.flatnonzero(sizes < least)
    needed = int((least - sizes[poor]).sum())
    if not needed:
        return owner
    surplus = np.maximum(sizes - _level(sizes, needed), 0)
    surplus[np.flatnonzero(surplus)[: int(surplus.sum()) - needed]] -= (
        1  # the level is whole: a few give one less
    )
    movable = rng.permutation(np.flatnonzero(surplus[owner]))
    movable = movable[np.argsort(owner[movable], kind="stable")]
    giver = owner[movable]
    rank = np.arange(len(giver)) - offsets_of(np.bincount(giver, minlength=clients))[giver]
    owner = owner.copy()
    owner[movable[rank < surplus[giver]]] = np.repeat(poor, least - sizes[poor])
    return owner


def _level(sizes: np.ndarray, needed: int) -> int:
    """The largest level such that cutting all sizes to it yields at least `needed`."""
    low, high = (
        0,
        int(sizes.max()),
    )  # cutting to `low` yields enough, cutting to `high` yields nothing
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if np.maximum(sizes - middle, 0).sum() >= needed else (low, middle)
        )
    return low
