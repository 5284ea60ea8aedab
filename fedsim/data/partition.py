"""Partitions: who holds what. Constructive: nothing lost, nothing twice, never a retry.

A factory returns `assign(pool, clients, rng) -> Parts`. Minimums are met or refused with the bound, before work starts.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from annotated_types import Ge, Gt, MinLen

from fedsim.compose import partition
from fedsim.data.draws import dirichlet_draw
from fedsim.data.splits import apportion_within
from fedsim.errors import PartitionError, nearest


class Pool(NamedTuple):
    """Training samples as a partition sees them."""

    y: np.ndarray  # labels `[n]` (targets, or labels of tokens, when samples are of no class)
    classes: int  # how many; 0 where samples are of no class
    owner: np.ndarray | None = (
        None  # client number of every sample `[n]`, where the samples brought ids
    )
    owners: int = 0  # clients that the ids name
    x: Any = (
        None  # features as stored `[n, ...]`: an array, or what reads rows of a file (`Mapped`)
    )
    scale: float = 1.0  # features are those, times this
    columns: Mapping[str, np.ndarray] = {}  # further columns `[n]` of the samples, by name
    names: tuple[Any, ...] | None = (
        None  # ids of the clients that `owner` numbers; None: the numbers
    )
    rows: np.ndarray | None = (
        None  # place of every sample `[n]` among all that were read; None: as they stand
    )
    read: int = 0  # samples that were read, those included that are set apart


class Parts(NamedTuple):
    """Index lists of all clients in one: client k holds the rows `indices[offsets[k]:offsets[k + 1]]`."""

    indices: np.ndarray  # [n] int32, fewer where some samples are nobody's
    offsets: np.ndarray  # [N + 1] int64
    names: tuple[Any, ...] | None = None  # of the clients, rising; None: their numbers


Assign = Callable[[Pool, int, np.random.Generator], Parts]


@partition
def iid() -> Assign:
    """Shuffle, then deal: every client gets the same number of samples (±1) of the global mix."""

    def assign(pool, clients, rng):
        n = len(pool.y)
        require_minimum(n, clients, 1)
        return Parts(rng.permutation(n).astype(np.int32), offsets_of(even(n, clients)))

    return assign


@partition
def natural(column: Annotated[str, MinLen(1)] | None = None) -> Assign:
    """By the ids that the samples bring: client k holds the samples of the k-th smallest id.

    The default wherever samples bring ids; `clients` does not matter.

    Args:
      column: whose values are the ids, in place of those that the samples bring: a column of a table (which is no feature
        then), an array of an npz archive, or one of `Arrays.columns`.

    Raises:
      PartitionError: when they bring none, or no such column.
    """
    del column  # by the build, which makes its values the ids before anything is set apart

    def assign(pool, clients, rng):
        if pool.owner is None:
            raise PartitionError(
                "natural deals out by client ids, and these samples bring none; use iid or dirichlet"
            )
        return parts_of(np.arange(len(pool.y)), pool.owner, pool.owners)._replace(names=pool.names)

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

    Sizes are proportional to w_k, with at least `min_samples` each: `lognormal` w = exp(σ·N(0, 1)); `powerlaw` w = r⁻ᵉ
    for ranks r = 1 … N given out at random; `dirichlet` w ~ Dir_N(α).

    Args:
      distribution: of the sizes.
      sigma: σ of `lognormal` (1 unless given).
      exponent: e of `powerlaw` (1 unless given).
      alpha: α of `dirichlet` (0.5 unless given).
      min_samples: every client's minimum.

    Raises:
      PartitionError: when clients · min_samples exceeds the number of training samples, or for a parameter of
        another distribution.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079 (quantity skew by Dirichlet).
    """
    given = {"lognormal": ("sigma", sigma, 1.0), "powerlaw": ("exponent", exponent, 1.0)}
    given["dirichlet"] = ("alpha", alpha, 0.5)
    for kind, (name, value, _) in given.items():
        if value is not None and kind != distribution:
            raise PartitionError(
                f"{name} belongs to the distribution {kind}, not to {distribution}"
            )
    _, value, default = given[distribution]
    skew = default if value is None else value

    def weights(clients, rng):
        if distribution == "dirichlet":
            return dirichlet_draw(skew, clients, rng)
        ranks = rng.permutation(clients) + 1.0
        logarithm = skew * (
            rng.standard_normal(clients) if distribution == "lognormal" else -np.log(ranks)
        )
        return np.exp(logarithm - logarithm.max())

    def assign(pool, clients, rng):
        n = len(pool.y)
        require_minimum(n, clients, min_samples)
        low, high = np.full(clients, min_samples), np.full(clients, n)
        sizes = apportion_within(weights(clients, rng), n, low, high)
        return Parts(rng.permutation(n).astype(np.int32), offsets_of(sizes))

    return assign


def require_minimum(n: int, clients: int, least: int, unit: str = "min_samples") -> None:
    """Refuse a minimum that cannot be met, and say what could be."""
    if clients * least > n:
        if n < clients:
            raise PartitionError(
                f"{clients} clients but only {n} training samples; clients at most {n}", "clients"
            )
        text = f"{clients} clients x {unit} {least} needs {clients * least} samples, there are {n}"
        raise PartitionError(f"{text}; {unit} at most {n // clients}")


def column_of(columns: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """A further column of the samples, by its name.

    Raises:
      PartitionError: when there is none of that name.
    """
    if name in columns:
        return columns[name]
    near = nearest(name, columns)
    listed = ", ".join(ascii(column[:40]) for column in [*columns][:6]) or "none"
    raise PartitionError(
        f"the samples bring no column {name[:40]!a}; {f'did you mean {near!a}?' if near else f'there are {listed}'}",
        "partition.column",
    )


def require_classes(pool: Pool, kind: str) -> None:
    """Refuse targets that are no classes."""
    if pool.classes == 0:
        reason = (
            "every token has a label of its own"
            if pool.y.dtype.kind == "i"
            else "these targets are no classes"
        )
        raise PartitionError(f"{kind} deals out classes, and {reason}; use iid or quantity")


def even(n: int, parts: int) -> np.ndarray:
    """Sizes that sum to n, the first ones one larger."""
    return n // parts + (np.arange(parts) < n % parts)


def offsets_of(sizes: np.ndarray) -> np.ndarray:
    """Where every part begins, and the end of the last one."""
    return np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])


def parts_of(rows: np.ndarray, owner: np.ndarray, clients: int) -> Parts:
    """Rows `[n]` and the client that each is assigned to `[n]` -> index lists, in the order of the rows."""
    order = np.argsort(owner, kind="stable")
    return Parts(rows[order].astype(np.int32), offsets_of(np.bincount(owner, minlength=clients)))
