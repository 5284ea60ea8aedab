"""Partitions by domain: by the values of a column, or by clusters of similar samples."""

import warnings
from typing import Annotated, Any

import numpy as np
from annotated_types import Ge, MinLen

from fedsim.compose import partition
from fedsim.data.label_skew import assign_in_groups
from fedsim.data.partition import Assign, Pool, column_of, require_minimum
from fedsim.data.splits import by_label
from fedsim.errors import PartitionError
from fedsim.limits import require_memory
from fedsim.sources.ids import number_ids

COMPONENTS = 32  # principal components that clusters are found in
STARTS: Any = 4  # of k-means, of which the best counts
MAX_FITTED = 10_000  # samples, evenly spaced, that components and a class's clusters are fitted to


@partition
def domains(column: Annotated[str, MinLen(1)], values: Annotated[int, Ge(1)] = 1) -> Assign:
    """Domain shift: every client has one or few values of a column, such as hospital or camera.

    As in `pathological`, with values in place of classes: every client has exactly `values` of
    them, chosen at random. The number of clients that have a value is proportional to its samples
    (at least one), and they share it equally (±1), regardless of labels.

    Args:
      column: column whose values are the domains: of a table (it is then not a feature), an array
        of an npz archive, or one of `Arrays.columns`.
      values: values per client.

    Raises:
      PartitionError: if there is no such column, if it has fewer values, if some value would be
        left without a client, or if there are too few samples.

    References:
      Li et al. 2021, FedBN, arXiv:2102.07623 (every client one domain).
    """

    def assign(pool, clients, rng):
        domain, _ = number_ids(column_of(pool.columns, column))
        return assign_in_groups(domain, clients, values, rng, "values")

    return assign


@partition
def semantic(clusters: Annotated[int, Ge(1)] = 10) -> Assign:
    """Domains found in the features: each class is clustered, and similar clusters form a domain.

    Every client has one domain. Domains are found by principal components of the features (at most
    32) and k-means within every class, with fixed seeds: the run's seed decides which client gets
    what, not what a domain is. Classes are matched one after another, the largest first: a cluster
    joins the domain whose clusters so far differ from the means of their classes in the most
    similar way (least sum of squared distances). The number of clients of a domain is proportional
    to its samples, which they share equally (±1). Without classes there is a single k-means.

    The paper uses embeddings of a pretrained network, Gaussian mixtures and their divergence
    instead of the features themselves, k-means and distances of centres, and as many clusters as
    clients.

    Args:
      clusters: clusters per class, and domains in all.

    Raises:
      PartitionError: if there are fewer clients than clusters, or fewer samples of the largest
        class than clusters; for tokens.

    References:
      Yuan et al. 2022, What Do We Mean by Generalization in Federated Learning?, arXiv:2110.14216,
      section 4.
    """
    cache: list[Any] = []  # features and their domains, for the next seed over the same samples

    def assign(pool, clients, rng):
        is_tokens = pool.x is None or (pool.x.dtype.kind in "iu" and pool.x.dtype != np.uint8)
        if is_tokens:
            raise PartitionError(
                "semantic clusters numbers, and these samples are tokens; use natural or dirichlet"
            )
        require_minimum(len(pool.y), clients, 1)
        if clients < clusters:
            raise PartitionError(
                f"{clients} clients leave some of {clusters} clusters to nobody; "
                f"clusters at most {clients}"
            )
        if not cache or cache[0] is not pool.x:
            cache[:] = [pool.x, _domains(pool, clusters)]
        return assign_in_groups(cache[1], clients, 1, rng, "clusters")

    return assign


def _domains(pool: Pool, clusters: int) -> np.ndarray:
    try:
        # Like scikit-learn, which needs it, it takes a second to import.
        from threadpoolctl import threadpool_limits
    except ImportError:
        raise PartitionError(
            "needs scikit-learn: pip install 'fedsim-jax[semantic]', or pip install scikit-learn"
        ) from None

    labels = pool.y if pool.classes else np.zeros(len(pool.y), np.int32)
    classes = [rows for rows in by_label(labels)[0] if len(rows)]
    classes.sort(key=len, reverse=True)
    largest = len(classes[0])
    if largest < clusters:
        raise PartitionError(
            f"{clusters} clusters, but the largest class has only {largest} samples; "
            f"clusters at most {largest}"
        )

    domain = np.zeros(len(labels), np.int32)
    with threadpool_limits(1):  # the sums of several threads have no fixed order
        features = _components(pool)

        # Means of the domains' centres, each relative to the mean of its class.
        domain_centres = np.zeros((clusters, features.shape[1]))
        for number, rows in enumerate(classes):
            cluster, centres = _clusters(features[rows], clusters)
            is_first = number == 0
            matched = np.arange(clusters) if is_first else _matched(centres, domain_centres)
            domain[rows] = matched[cluster]
            domain_centres[matched] += (centres - domain_centres[matched]) / (number + 1)
    return domain


def _clusters(features: np.ndarray, clusters: int) -> tuple[np.ndarray, np.ndarray]:
    """Cluster the samples of a class, features `[n, F]`.

    Returns the cluster of every sample `[n]`, and the clusters' centres less the mean of the class
    `[k, F]`; k is at most n.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    means: Any = KMeans(min(clusters, len(features)), n_init=STARTS, random_state=0)
    with warnings.catch_warnings():
        # It warns if there are fewer distinct samples than clusters; some clusters are then empty.
        warnings.simplefilter("ignore", ConvergenceWarning)
        means.fit(_evenly_spaced(features))
    return means.predict(features), means.cluster_centers_ - features.mean(0)


def _matched(centres: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Pair centres `[k, F]` with others `[m, F]`, by least squared distances -> others `[k]`."""
    from scipy.optimize import linear_sum_assignment
    from scipy.spatial.distance import cdist

    _, matched = linear_sum_assignment(cdist(centres, others, "sqeuclidean"))
    return matched


def _components(pool: Pool) -> np.ndarray:
    """Return the principal components of the features `[n, F]`."""
    from sklearn.decomposition import PCA

    x = pool.x

    def flat(part: Any) -> np.ndarray:
        return np.asarray(part, np.float64).reshape(len(part), -1) * pool.scale

    width = int(np.prod(x.shape[1:]))
    fitted = min(len(x), MAX_FITTED)
    numbers = len(x) * min(width, COMPONENTS) + 3 * fitted * width
    require_memory(features=8 * numbers)

    components = PCA(min(width, COMPONENTS, fitted), random_state=0)
    components.fit(flat(_evenly_spaced(x)))
    transformed = []
    for first in range(0, len(x), MAX_FITTED):
        transformed.append(components.transform(flat(x[first : first + MAX_FITTED])))
    return np.concatenate(transformed)


def _evenly_spaced(values: Any) -> np.ndarray:
    """Return at most MAX_FITTED rows, evenly spaced."""
    count = min(len(values), MAX_FITTED)
    rows = np.linspace(0, len(values) - 1, count).astype(np.int64)
    return values[np.unique(rows)]
