"""Partitions by what samples look like or where they come from: domains that a column names, or that clusters are."""

import warnings
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, MinLen

from fedsim.compose import partition
from fedsim.data.partition import Assign, Pool, column_of, require_minimum
from fedsim.data.skew import dealt_in_groups
from fedsim.data.splits import by_label
from fedsim.errors import PartitionError
from fedsim.limits import require_memory
from fedsim.sources.arrays import numbered
from fedsim.sources.mapped import chunks

COMPONENTS = 32  # of the features, that clusters are formed by
STARTS: Any = 4  # of k-means, of which the best counts
FITTED = 10_000  # samples at most that components, and the clusters of a class, are fitted to; evenly chosen


@partition
def domains(column: Annotated[str, MinLen(1)], values: Annotated[int, Ge(1)] = 1) -> Assign:
    """Domain shift: every client draws from one or few values of a column, such as hospital, camera or style.

    As in `pathological`, with the values in place of the classes: every client holds exactly `values` of them, chosen at
    random; a value has holders in proportion to its samples (at least one), which share it equally (±1), labels as they
    come.

    Args:
      column: whose values are the domains: a column of a table (which is no feature then), an array of an npz archive, or
        one of `Arrays.columns`.
      values: per client.

    Raises:
      PartitionError: when there is no such column, or fewer values, when not all would find a holder, or too few samples.

    References:
      Li et al. 2021, FedBN, arXiv:2102.07623 (every client one domain).
    """

    def assign(pool, clients, rng):
        domain, _ = numbered(column_of(pool.columns, column))
        return dealt_in_groups(domain, clients, values, rng, "values")

    return assign


@partition
def semantic(clusters: Annotated[int, Ge(1)] = 10) -> Assign:
    """Domains made of features: each class is cut into clusters, clusters alike are one domain; a client holds one domain.

    Principal components of the features (at most 32), then k-means within every class, with fixed seeds: the run's seed
    decides who gets what, not what a domain is. Classes are matched one after another, largest first: a cluster goes to
    the domain whose clusters so far differ from the means of their classes most like it (least sum of squared distances).
    A domain has clients in proportion to its samples, which share it equally (±1). Without classes: one k-means.

    The paper's own recipe has embeddings of a pretrained network, Gaussian mixtures and their divergence in place of
    features as they are, k-means and distances of centres, and as many clusters as clients.

    Args:
      clusters: of every class, and domains in all.

    Raises:
      PartitionError: when there are fewer clients than clusters, or than samples of the largest class; for tokens.

    References:
      Yuan et al. 2022, What Do We Mean by Generalization in Federated Learning?, arXiv:2110.14216, section 4.
    """
    known: list[Any] = []  # features and domains, for the next seed over the same samples

    def assign(pool, clients, rng):
        if pool.x is None or (pool.x.dtype.kind in "iu" and pool.x.dtype != np.uint8):
            raise PartitionError(
                "semantic clusters numbers, and these samples are tokens; use natural or dirichlet"
            )
        require_minimum(len(pool.y), clients, 1)
        if clients < clusters:
            raise PartitionError(
                f"{clients} clients leave some of {clusters} clusters to nobody; clusters at most {clients}"
            )
        if not known or known[0] is not pool.x:
            known[:] = pool.x, _domains(pool, clusters)
        return dealt_in_groups(known[1], clients, 1, rng, "clusters")

    return assign


def _domains(pool: Pool, clusters: int) -> np.ndarray:
    """The domain of every sample `[n]`."""
    try:
        from threadpoolctl import (
            threadpool_limits,
        )  # takes a second to import, as scikit-learn does, which needs it
    except ImportError:
        needed = (
            "needs scikit-learn: pip install 'fedsim-jax[semantic]', or pip install scikit-learn"
        )
        raise PartitionError(needed) from None

    labels = pool.y if pool.classes else np.zeros(len(pool.y), np.int32)
    members = sorted((rows for rows in by_label(labels)[0] if len(rows)), key=len, reverse=True)
    if len(members[0]) < clusters:
        most = f"{len(members[0])} samples; clusters at most {len(members[0])}"
        raise PartitionError(f"{clusters} clusters, but the largest class has only {most}")
    domain = np.zeros(len(labels), np.int32)
    with threadpool_limits(1):  # sums of several threads have no fixed order
        features = _components(pool)
        centres = np.zeros(
            (clusters, features.shape[1])
        )  # of the domains, less the means of classes
        for place, rows in enumerate(members):
            cluster, own_centres = _clusters(features[rows], clusters)
            matched = _matched(own_centres, centres) if place else np.arange(clusters)
            domain[rows] = matched[cluster]
            centres[matched] += (own_centres - centres[matched]) / (place + 1)
    return domain


def _clusters(features: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster of every sample of a class `[n]`, and the clusters' centres less the mean of the class `[k, F]`."""
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    means: Any = KMeans(min(clusters, len(features)), n_init=STARTS, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer different samples than clusters: some stay empty
        means.fit(_few(features))
    return means.predict(features), means.cluster_centers_ - features.mean(0)


def _matched(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For every centre of one the centre of the other that it is paired with: least sum of squared distances."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    return linear_sum_assignment(cdist(one, other, "sqeuclidean"))[1]


def _components(pool: Pool) -> np.ndarray:
    """Principal components of the features `[n, F]`."""
    from sklearn.decomposition import PCA

    x = pool.x
    flat = lambda part: np.asarray(part, np.float64).reshape(len(part), -1) * pool.scale
    width = int(np.prod(x.shape[1:]))
    fitted = min(len(x), FITTED)
    require_memory(features=8 * (len(x) * min(width, COMPONENTS) + 3 * fitted * width))
    components = PCA(min(width, COMPONENTS, fitted), random_state=0).fit(flat(_few(x)))
    return np.concatenate(
        [
            components.transform(flat(part[i : i + FITTED]))
            for part in chunks(x)
            for i in range(0, len(part), FITTED)
        ]
    )


def _few(values: Any) -> np.ndarray:
    """At most so many rows as things are fitted to, evenly chosen."""
    return values[
        np.unique(np.linspace(0, len(values) - 1, min(len(values), FITTED)).astype(np.int64))
    ]
