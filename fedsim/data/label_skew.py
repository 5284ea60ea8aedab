"""Partitions with label skew."""

from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import partition
from fedsim.data.apportionment import apportion, apportion_within
from fedsim.data.draws import allocate, dirichlet_draw
from fedsim.data.partition import (
    Assign,
    Parts,
    even_sizes,
    in_classes,
    offsets_of,
    one_number_each,
    parts_of,
    require_minimum,
)
from fedsim.data.splits import by_label
from fedsim.errors import PartitionError

Bins = Annotated[int, Ge(2), Le(10_000)] | None
SWAPS = 20  # passes of random swaps; a few are enough to mix the sets of classes well


@partition
def dirichlet(
    alpha: Annotated[float, Gt(0)] = 0.5,
    min_samples: Annotated[int, Ge(0)] = 1,
    bins: Bins = None,
) -> Assign:
    """Label skew: each class is divided among clients in proportions drawn from Dirichlet(α·1).

    q_c ~ Dir_N(α) for every class c; client i receives a share q_{c,i} of its samples (largest
    remainders). Then clients below `min_samples` are filled up with samples of the largest clients,
    which are cut to a common level. Small α: few classes per client; large α: the global mix.

    Args:
      alpha: concentration, > 0.
      min_samples: every client's minimum, met by construction.
      bins: bins of equally many samples that stand for classes, where targets are numbers.

    Raises:
      PartitionError: if clients · min_samples exceeds the number of training samples.

    References:
      Yurochkin et al. 2019, arXiv:1905.12022; `dirichlet_client` is the other Dirichlet, per client
      instead of per class.
    """

    def assign(pool, clients, rng):
        pool = in_classes(pool, "dirichlet", bins)
        require_minimum(len(pool.y), clients, min_samples)
        rows = []
        owners = []
        for members in by_label(pool.y)[0]:
            rows.append(rng.permutation(members))
            quota = dirichlet_draw(alpha, clients, rng) * len(members)
            owners.append(np.repeat(np.arange(clients), apportion(quota, len(members))))
        owner = fill_up(np.concatenate(owners), clients, min_samples, rng)
        return parts_of(np.concatenate(rows), owner, clients)

    return assign


@partition
def dirichlet_client(
    alpha: Annotated[float, Gt(0)] = 1.0,
    min_samples: Annotated[int, Ge(0)] = 1,
    bins: Bins = None,
) -> Assign:
    """Label skew: every client draws its own class mix from Dirichlet(α·p); sizes are equal (±1).

    q_i ~ Dir_C(α·p) for every client i, with the global mix p. The client's samples request classes
    by q_i. A class that is requested more often than it has samples gives them to randomly chosen
    requests; the others request again, by q_i among the classes that are left. Every such turn
    exhausts a class, so that there are at most C turns, and every sample is assigned once.

    Many libraries write Dirichlet(α'·1) here; for C equally frequent classes that is α = C·α'.

    Args:
      alpha: concentration, > 0: near 0 one class per client, large: the global mix.
      min_samples: every client's minimum.
      bins: as of `dirichlet`.

    Raises:
      PartitionError: if clients · min_samples exceeds the number of training samples.

    References:
      Hsu, Qi, Brown 2019, Measuring the Effects of Non-Identical Data Distribution,
      arXiv:1909.06335.
    """

    def assign(pool, clients, rng):
        pool = in_classes(pool, "dirichlet_client", bins)
        n = len(pool.y)
        require_minimum(n, clients, min_samples)
        members, counts = by_label(pool.y)
        present = np.flatnonzero(counts)
        prior = counts[present] / n
        mix = dirichlet_draw(alpha * prior, (clients, len(present)), rng)  # [N, C]
        allocated = allocate(mix, even_sizes(n, clients), counts[present], rng)  # [N, C]

        # Class after class: its samples, and the clients that they go to.
        rows = np.concatenate([rng.permutation(members[label]) for label in present])
        client = np.tile(np.arange(clients), len(present))
        return parts_of(rows, np.repeat(client, allocated.T.ravel()), clients)

    return assign


@partition
def shards(per_client: Annotated[int, Ge(1)] = 2) -> Assign:
    """Samples are sorted by label and cut into shards; every client gets `per_client` of them.

    There are clients · per_client shards of equal size (±1). Targets that are numbers are sorted as
    such; equal ones are in random order.

    Args:
      per_client: shards per client; if shards are smaller than classes, also about the largest
        number of labels per client.

    Raises:
      PartitionError: if there are fewer samples than shards.

    References:
      McMahan et al. 2017, arXiv:1602.05629, section 3 (the pathological non-IID partition of
      MNIST).
    """

    def assign(pool, clients, rng):
        y = one_number_each(pool, "shards")
        n = len(y)
        count = clients * per_client
        require_minimum(n, clients, per_client, "per_client")
        rows = sorted_rows(y, rng)
        holder = rng.permutation(count) // per_client
        return parts_of(rows, np.repeat(holder, even_sizes(n, count)), clients)

    return assign


def sorted_rows(y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return the rows in the order of their classes, or numbers, `[n]`; equal ones are shuffled."""
    of_value = np.unique(y, return_inverse=True)[1] if y.dtype.kind == "f" else y
    return np.concatenate([rng.permutation(members) for members in by_label(of_value)[0]])


@partition
def pathological(classes: Annotated[int, Ge(1)] = 2, bins: Bins = None) -> Assign:
    """Every client has exactly `classes` classes, chosen at random; all samples are assigned.

    The number of clients that have a class is proportional to its samples (at least one), and they
    share it equally (±1): so all clients have about equally many samples.

    Args:
      classes: classes per client.
      bins: as of `dirichlet`; `classes` of them are a client's.

    Raises:
      PartitionError: if there are fewer classes, if some class would be left without a client, or
        if there are too few samples.

    References:
      Zhao et al. 2018, arXiv:1806.00582; Li et al. 2022, arXiv:2102.02079 (#C = k).
    """

    def assign(pool, clients, rng):
        pool = in_classes(pool, "pathological", bins)
        return assign_in_groups(pool.y, clients, classes, rng)

    return assign


def assign_in_groups(
    group: np.ndarray, clients: int, each: int, rng: np.random.Generator, unit: str = "classes"
) -> Parts:
    """Give every client `each` of the groups of samples `[n]`, at random.

    The clients that have a group share its samples equally (±1). Errors call groups, and the
    parameter `each`, by their unit.
    """
    members, counts = by_label(group)
    takers, holders = holders_of(counts, clients, each, rng, unit)
    rows = np.concatenate([rng.permutation(rows) for rows in members])
    shares = [even_sizes(n, holding) for n, holding in zip(counts, holders, strict=True) if holding]
    return parts_of(rows, np.repeat(takers, np.concatenate(shares)), clients)


def holders_of(
    counts: np.ndarray, clients: int, classes: int, rng: np.random.Generator, unit: str = "classes"
) -> tuple[np.ndarray, np.ndarray]:
    """Choose which clients have which class, equally many classes for each client.

    The number of clients that have a class is proportional to its samples, `counts` `[C]`, and at
    least one if it has any. Returns them, class after class, and how many they are `[C]`.
    """
    high = np.minimum(clients, counts)  # no more clients than samples
    _require_holders(high, clients, classes, unit)
    share = counts / counts.sum()
    holders = apportion_within(share, clients * classes, np.minimum(counts, 1), high)

    # Repeat each class once per client that has it, in a row. Client t mod N gets position t: since
    # no class has more than N clients, no client gets a class twice.
    order = rng.permutation(len(counts))
    sets = np.repeat(order, holders[order]).reshape(classes, clients).T  # [N, k]
    sets = _swapped(sets[rng.permutation(clients)], rng)
    return np.argsort(sets.ravel(), kind="stable") // classes, holders


def _require_holders(high: np.ndarray, clients: int, k: int, unit: str) -> None:
    """Refuse k classes per client where they cannot be met, and name the bound.

    At most `high` clients can have each class `[C]`.
    """
    present = int((high > 0).sum())
    if k > present:
        raise PartitionError(
            f"{k} {unit} per client, but the samples have only {present}; {unit} at most {present}"
        )
    if clients * k < present:
        raise PartitionError(
            f"{clients} clients x {k} {unit} leave some of the {present} {unit} to nobody; "
            f"{unit} at least {-(-present // clients)}"
        )
    if high.sum() < clients * k:
        bound = int(high.sum()) // clients
        raise PartitionError(
            f"too few samples for {k} {unit} at each of {clients} clients; {unit} at most {bound}"
        )


def _swapped(sets: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Swap random classes of random pairs of clients, unless a client would have a class twice.

    The classes of every client `[N, k]` are overwritten.
    """
    N, k = sets.shape
    half = N // 2
    for _ in range(SWAPS):
        first, second = rng.permutation(N)[: 2 * half].reshape(2, half)
        i, j = rng.integers(0, k, (2, half))
        given = sets[first, i]
        taken = sets[second, j]
        has_taken = (sets[first] == taken[:, None]).any(1)
        has_given = (sets[second] == given[:, None]).any(1)
        swaps = ~(has_taken | has_given)
        sets[first[swaps], i[swaps]] = taken[swaps]
        sets[second[swaps], j[swaps]] = given[swaps]
    return sets


def fill_up(owner: np.ndarray, clients: int, least: int, rng: np.random.Generator) -> np.ndarray:
    """Move random samples from the largest clients to those below a minimum.

    The largest clients are cut to a common level. `owner` and the result are the client of every
    sample `[n]`.
    """
    sizes = np.bincount(owner, minlength=clients)
    poor = np.flatnonzero(sizes < least)
    needed = int((least - sizes[poor]).sum())
    if not needed:
        return owner

    # How many samples each client gives; the level is whole, so the first ones give one less.
    gives = np.maximum(sizes - _level(sizes, needed), 0)
    excess = int(gives.sum()) - needed
    gives[np.flatnonzero(gives)[:excess]] -= 1

    # Which ones: the first of each giver, in random order.
    movable = rng.permutation(np.flatnonzero(gives[owner]))
    movable = movable[np.argsort(owner[movable], kind="stable")]
    giver = owner[movable]
    first = offsets_of(np.bincount(giver, minlength=clients))[giver]
    rank = np.arange(len(giver)) - first
    moved = movable[rank < gives[giver]]

    owner = owner.copy()
    owner[moved] = np.repeat(poor, least - sizes[poor])
    return owner


def _level(sizes: np.ndarray, needed: int) -> int:
    """Return the largest level at which cutting all sizes yields at least `needed` samples."""
    enough = 0  # cutting to it yields enough
    too_high = int(sizes.max())  # cutting to it yields nothing
    while too_high - enough > 1:
        middle = (enough + too_high) // 2
        if np.maximum(sizes - middle, 0).sum() >= needed:
            enough = middle
        else:
            too_high = middle
    return enough
