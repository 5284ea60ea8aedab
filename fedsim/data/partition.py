"""Partitions: which client has which samples.

A factory returns `assign(pool, clients, rng) -> Parts`. Partitions are constructed directly and
never retried: no sample is lost, and none is assigned twice. A minimum per client is either met or
refused with its bound before any work starts.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, MinLen

from fedsim.compose import partition
from fedsim.data.apportionment import apportion_within
from fedsim.data.draws import dirichlet_draw
from fedsim.errors import PartitionError, nearest


class Pool(NamedTuple):
    """Training samples as a partition sees them.

    Attributes:
      y: labels `[n]`; targets or labels of tokens if samples have no class.
      classes: number of classes; 0 if samples have no class.
      owner: client number of every sample `[n]`; None: the samples have no client ids.
      owners: number of clients that the ids name.
      x: features as stored `[n, ...]`.
      scale: features are the stored numbers, times this.
      columns: further columns `[n]` of the samples, by name.
      names: ids of the clients that `owner` numbers; None: the numbers.
      rows: number of every sample `[n]` among all that were read; None: they are the same.
      rows_read: samples that were read, including those that are set apart.
    """

    y: np.ndarray
    classes: int
    owner: np.ndarray | None = None
    owners: int = 0
    x: Any = None
    scale: float = 1.0
    columns: Mapping[str, np.ndarray] = {}
    names: tuple[Any, ...] | None = None
    rows: np.ndarray | None = None
    rows_read: int = 0


class Parts(NamedTuple):
    """Index lists of all clients: client k has the rows `indices[offsets[k]:offsets[k + 1]]`.

    Attributes:
      indices: rows `[n]` int32, fewer if some samples belong to no client.
      offsets: where each client's rows begin, and the end `[N + 1]` int64.
      names: names of the clients, rising; None: their numbers.
    """

    indices: np.ndarray
    offsets: np.ndarray
    names: tuple[Any, ...] | None = None


Assign = Callable[[Pool, int, np.random.Generator], Parts]


@partition
def iid() -> Assign:
    """Samples are shuffled and dealt out: every client gets equally many (±1) of the global mix."""

    def assign(pool, clients, rng):
        n = len(pool.y)
        require_minimum(n, clients, 1)
        return Parts(rng.permutation(n).astype(np.int32), offsets_of(even_sizes(n, clients)))

    return assign


@partition
def natural(column: Annotated[str, MinLen(1)] | None = None) -> Assign:
    """By the samples' client ids: client k has the samples of the k-th smallest id.

    This is the default if samples have client ids; `clients` is ignored.

    Args:
      column: a column whose values replace the samples' client ids: of a table (it is then not a
        feature), an array of an npz archive, or one of `Arrays.columns`.

    Raises:
      PartitionError: if the samples have no client ids, or no such column.
    """
    del column  # its values become the client ids before anything is set apart

    def assign(pool, clients, rng):
        if pool.owner is None:
            raise PartitionError(
                "natural assigns samples by client ids, and these samples have none; "
                "use iid or dirichlet"
            )
        parts = parts_of(np.arange(len(pool.y)), pool.owner, pool.owners)
        return parts._replace(names=pool.names)

    return assign


@partition
def quantity(
    distribution: Literal["lognormal", "powerlaw", "dirichlet"] = "lognormal",
    sigma: Annotated[float, Ge(0)] | None = None,
    exponent: Annotated[float, Ge(0)] | None = None,
    alpha: Annotated[float, Gt(0)] | None = None,
    min_samples: Annotated[int, Ge(0)] = 1,
) -> Assign:
    """Quantity skew: sizes differ, labels do not (every client draws from the global mix).

    Sizes are proportional to w_k, with at least `min_samples` each: `lognormal` w = exp(σ·N(0, 1));
    `powerlaw` w = r⁻ᵉ for ranks r = 1 … N in random order; `dirichlet` w ~ Dir_N(α).

    Args:
      distribution: distribution of the sizes.
      sigma: σ of `lognormal` (default: 1).
      exponent: e of `powerlaw` (default: 1).
      alpha: α of `dirichlet` (default: 0.5).
      min_samples: every client's minimum.

    Raises:
      PartitionError: if clients · min_samples exceeds the number of training samples, or for a
        parameter of another distribution.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079 (quantity skew by
      Dirichlet).
    """
    given = {
        "lognormal": ("sigma", sigma),
        "powerlaw": ("exponent", exponent),
        "dirichlet": ("alpha", alpha),
    }
    for kind, (name, value) in given.items():
        if value is not None and kind != distribution:
            raise PartitionError(
                f"{name} belongs to the distribution {kind}, not to {distribution}"
            )
    defaults = {"lognormal": 1.0, "powerlaw": 1.0, "dirichlet": 0.5}
    _, value = given[distribution]
    skew = defaults[distribution] if value is None else value

    def weights(clients, rng):
        if distribution == "dirichlet":
            return dirichlet_draw(skew, clients, rng)
        ranks = rng.permutation(clients) + 1.0  # `lognormal` draws them too, without using them
        if distribution == "lognormal":
            logarithm = skew * rng.standard_normal(clients)
        else:
            logarithm = skew * -np.log(ranks)
        return np.exp(logarithm - logarithm.max())

    def assign(pool, clients, rng):
        n = len(pool.y)
        require_minimum(n, clients, min_samples)
        low = np.full(clients, min_samples)
        high = np.full(clients, n)
        sizes = apportion_within(weights(clients, rng), n, low, high)
        return Parts(rng.permutation(n).astype(np.int32), offsets_of(sizes))

    return assign


def require_minimum(n: int, clients: int, least: int, unit: str = "min_samples") -> None:
    """Refuse a minimum per client that n samples cannot meet, and name the largest possible one."""
    if clients * least <= n:
        return
    if n < clients:
        raise PartitionError(
            f"{clients} clients but only {n} training samples; clients at most {n}", "clients"
        )
    raise PartitionError(
        f"{clients} clients x {unit} {least} needs {clients * least} samples, there are {n}; "
        f"{unit} at most {n // clients}"
    )


def column_of(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """Return a further column of the samples."""
    if name in columns:
        return columns[name]
    near = nearest(name, columns)
    if near:
        hint = f"did you mean {near!a}?"
    else:
        listed = ", ".join(ascii(column[:40]) for column in [*columns][:6])
        hint = f"there are {listed or 'none'}"
    raise PartitionError(f"the samples have no column {name[:40]!a}; {hint}", "partition.column")


def in_classes(pool: Pool, kind: str, bins: int | None) -> Pool:
    """Return the samples with a class each; targets that are numbers are put into bins.

    The bins hold equally many samples, but for equal targets, which are in the same one. Refused
    are numbers without bins, bins of classes, and targets of several numbers.
    """
    if pool.classes:
        if bins is not None:
            text = "bins are for targets that are numbers, and these are classes"
            raise PartitionError(f"{text}; remove it", "partition.bins")
        return pool
    y = one_number_each(pool, kind)
    if bins is None:
        require_classes(pool, kind, "write bins: 10, or use iid or similarity")
    assert bins is not None
    edges = np.unique(np.quantile(y, np.arange(1, bins) / bins))
    return pool._replace(y=np.searchsorted(edges, y, side="right"), classes=bins)


def require_classes(pool: Pool, kind: str, remedy: str = "use iid or quantity") -> None:
    """Refuse targets that are not classes, for a kind of partition."""
    if pool.classes:
        return
    if pool.y.dtype.kind == "i":
        reason = "every token has a label of its own"
    else:
        reason = "these targets are numbers"
    raise PartitionError(f"{kind} assigns samples by class, and {reason}; {remedy}")


def one_number_each(pool: Pool, kind: str) -> np.ndarray:
    """Return the classes or targets of the samples, by which they can be sorted `[n]`.

    Refused are classes of tokens, and targets of several numbers.
    """
    y = pool.y.reshape(len(pool.y), -1)
    if y.shape[1] == 1:
        return y[:, 0]
    if y.dtype.kind == "i":
        reason = "every token has a label of its own"
    else:
        reason = f"a target has {y.shape[1]} numbers"
    raise PartitionError(f"{kind} assigns samples by one label each, and {reason}; use iid")


def even_sizes(n: int, parts: int) -> np.ndarray:
    """Return sizes that sum to n and are equal, but for the first ones, which are larger by one."""
    return n // parts + (np.arange(parts) < n % parts)


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Return where each part begins, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def parts_of(rows: np.ndarray, owner: np.ndarray, clients: int) -> Parts:
    """Return index lists in the order of the rows `[n]`; `owner` `[n]` is the client of each."""
    order = np.argsort(owner, kind="stable")
    sizes = np.bincount(owner, minlength=clients)
    return Parts(rows[order].astype(np.int32), offsets_of(sizes))
