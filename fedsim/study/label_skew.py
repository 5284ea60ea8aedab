"""Label skew: how the samples of clients differ in number and in labels.

It is computed from a federation, or from the rows of `partition.csv`. The label distribution of
client k is p_k(c) = n_kc / n_k, that of all clients together p(c) = Σ_k n_kc / Σ_k n_k.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.data import Federation
from fedsim.disk.tables import Record
from fedsim.study.evenness import gini

MEANS = ("classes", "entropy_bits", "total_variation", "largest_share")
LARGEST_EXACT = 2**53  # floats below it hold whole numbers exactly


class LabelCounts(NamedTuple):
    """Samples by client and label.

    Attributes:
      clients: numbers or names of the clients `[N]`, ascending.
      labels: names of the labels `[C]`, ascending; empty if targets are not classes.
      samples: how many samples there are `[N, C]`; `[N, 1]` if targets are not classes.
      noun: what is counted: `label`, or the column whose values are counted instead.
    """

    clients: np.ndarray
    labels: list[Any]
    samples: np.ndarray
    noun: str = "label"

    @property
    def sizes(self) -> np.ndarray:
        """Samples by client `[N]`."""
        return self.samples.sum(1)


class Heterogeneity(NamedTuple):
    """How much the clients of a partition differ.

    Attributes:
      rows: rows of `partition.csv`, as one stack.
      clients: a row per client, see `client_skew`, with its value of every skew.
      overall: numbers of all clients together, see `overall_skew`.
    """

    rows: Record
    counts: LabelCounts
    clients: pd.DataFrame
    overall: dict[str, Any]

    def plain(self) -> dict[str, Any]:
        """Return plain values for JSON; a value that does not apply is None."""
        values = self.clients.astype(object)
        clients = values.where(values.notna(), None).to_dict("records")
        return {"overall": self.overall, "clients": clients}


def heterogeneity(federation: Federation, seed: int | None = None) -> Heterogeneity:
    """Return how much the clients of a federation differ.

    Args:
      seed: the seed of its partition, which becomes a column; None if there is only one.
    """
    counts = label_counts(federation)
    rows: Record = {}
    if seed is not None:
        rows["seed"] = seed
    rows |= partition_rows(counts, federation.skews)
    return Heterogeneity(
        rows=rows,
        counts=counts,
        clients=client_skew(counts).assign(**federation.skews),
        overall=overall_skew(counts),
    )


def label_counts(federation: Federation) -> LabelCounts:
    """Return the samples of a federation by client and label."""
    if federation.classes > 0 and not federation.per_token:
        labels = federation.label_names
        return LabelCounts(federation.client_names, labels, federation.label_counts())
    return LabelCounts(federation.client_names, [], federation.sizes[:, None])


def column_counts(federation: Federation, name: str, values: np.ndarray) -> LabelCounts:
    """Return the samples of a federation by client and value of a column, in place of the label.

    Args:
      values: its values for all training samples `[n]`.
    """
    distinct, code = np.unique(values, return_inverse=True)  # [C], [n]
    shape = (federation.N, len(distinct))
    cell = federation.holders.owner * len(distinct) + code[federation.holders.indices]
    samples = np.bincount(cell, minlength=federation.N * len(distinct)).reshape(shape)
    return LabelCounts(federation.client_names, distinct.tolist(), samples, name)


def partition_rows(counts: LabelCounts, skews: Mapping[str, np.ndarray]) -> Record:
    """Return rows of `partition.csv`, as one stack: every client and label with samples.

    If targets are not classes, there is a row for every client.

    Args:
      skews: by column, a value for each of these clients `[N]`.
    """
    client, label = np.nonzero(counts.samples)
    if not counts.labels:
        client = np.arange(len(counts.clients))
        label = np.zeros_like(client)
    rows = {
        "client": counts.clients[client].tolist(),
        "label": [counts.labels[index] if counts.labels else None for index in label.tolist()],
        "samples": counts.samples[client, label].tolist(),
    }
    for name, values in skews.items():
        rows[name] = values[client].tolist()
    return rows


def counts_of_rows(rows: pd.DataFrame, clients: int | Sequence[Any] | None = None) -> LabelCounts:
    """Return the counts of rows of `partition.csv`; of several methods or seeds, the first one's.

    Args:
      rows: a table with the columns `client`, `label` (empty if targets are not classes) and
        `samples`.
      clients: all clients, or how many there are, 0, 1, ...; those without a row have no samples.
        None for the clients that have rows.
    """
    chosen = np.ones(len(rows), bool)
    for name in ("method", "seed"):
        if name in rows and len(rows):
            column = np.asarray(rows[name])
            chosen &= column == column[chosen][0]

    listed = range(clients) if isinstance(clients, int) else clients or ()
    with_rows = np.asarray(rows["client"], object)[chosen]
    names, code = np.unique(_client_names([*listed, *with_rows]), return_inverse=True)
    client = code[len(listed) :]
    column = np.asarray(rows["label"], object)[chosen]
    labels: list[Any] = []
    label = np.zeros(len(column), np.int64)
    if not np.all(pd.isna(column)):
        distinct, label = np.unique(_as_labels(column), return_inverse=True)
        labels = distinct.tolist()

    samples = np.zeros((len(names), max(len(labels), 1)), np.int64)
    np.add.at(samples, (client, label), np.asarray(rows["samples"], np.int64)[chosen])
    return LabelCounts(names, labels, samples)


def _client_names(values: list[Any]) -> np.ndarray:
    """Names of clients: whole numbers if all of them are, else text."""
    if all(isinstance(value, int | np.integer) for value in values):
        return np.array(values, np.int64)
    return np.array([str(value) for value in values])


def _as_labels(column: np.ndarray) -> np.ndarray:
    """A column as whole numbers if all of its values are, else as text."""
    try:
        numbers = column.astype(float)
    except ValueError:
        return column.astype(str)
    are_integers = (np.abs(numbers) < LARGEST_EXACT).all() and (numbers % 1 == 0).all()
    if not are_integers:
        return column.astype(str)
    return numbers.astype(np.int64)


def client_skew(counts: LabelCounts) -> pd.DataFrame:
    """Return a table with a row per client.

    Columns: `client`, `samples`, and if there are labels: `classes`, how many it has samples of;
    `entropy_bits` of its labels, H = −Σ_c p_k(c) log₂ p_k(c) (0: one label, log₂ C: uniform);
    `total_variation`, the distance ½ Σ_c |p_k(c) − p(c)| to the common distribution (0: equal, 1:
    no label in common); `largest_share` max_c p_k(c), and `largest_label`. These are missing for a
    client without samples.
    """
    sizes = counts.sizes
    table = pd.DataFrame({"client": counts.clients, "samples": sizes})
    if not counts.labels:
        return table
    shares = _shares(counts.samples)  # [N, C]
    common = _shares(counts.samples.sum(0))  # [C]
    table["classes"] = (counts.samples > 0).sum(1)
    table["entropy_bits"] = np.where(sizes > 0, _entropy_bits(shares), np.nan)
    table["total_variation"] = 0.5 * np.abs(shares - common).sum(1)
    table["largest_share"] = shares.max(1)

    largest = [counts.labels[label] for label in counts.samples.argmax(1)]
    # As objects, whole numbers stay whole although one is missing.
    table["largest_label"] = pd.Series(largest, dtype=object).where(sizes > 0, None)
    return table


def overall_skew(counts: LabelCounts) -> dict[str, Any]:
    """Return numbers of all clients together, as plain values; those that do not exist are None.

    `samples_*` are over all clients: the Gini coefficient of their sizes (0: all equal, near 1: one
    client has all) and the coefficient of variation, standard deviation / mean. `*_mean` and
    `*_max` of labels are over clients with samples, each counting the same. `entropy_bits_all` is
    the entropy of the common distribution. `total_variation_iid` is the expected value of
    `total_variation_mean` if clients of these sizes had drawn their samples at random: small
    clients always differ somewhat.
    """
    sizes = counts.sizes
    has_samples = bool(sizes.any())
    numbers: dict[str, Any] = {
        "clients": len(sizes),
        "clients_without_samples": int((sizes == 0).sum()),
        "samples": int(sizes.sum()),
        "samples_min": int(sizes.min()) if len(sizes) else None,
        "samples_median": float(np.median(sizes)) if len(sizes) else None,
        "samples_mean": float(sizes.mean()) if len(sizes) else None,
        "samples_max": int(sizes.max()) if len(sizes) else None,
        "samples_gini": gini(sizes) if has_samples else None,
        "samples_cv": float(sizes.std() / sizes.mean()) if has_samples else None,
    }
    if not counts.labels or not has_samples:
        return numbers

    together = counts.samples.sum(0)  # [C]
    of_clients = client_skew(counts)[sizes > 0]
    numbers["labels"] = int((together > 0).sum())
    numbers["entropy_bits_all"] = float(_entropy_bits(_shares(together)))
    for name in MEANS:
        numbers[f"{name}_mean"] = float(np.mean(of_clients[name]))
    numbers["total_variation_max"] = float(np.max(of_clients["total_variation"]))
    numbers["total_variation_iid"] = _total_variation_iid(counts)
    return numbers


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """Return at most `most` of n indices, evenly spaced, with the first and the last among them."""
    return np.unique(np.rint(np.linspace(0, n - 1, min(n, most))).astype(np.int64))


def _shares(counts: np.ndarray) -> np.ndarray:  # [..., C] -> [..., C]
    """The shares of labels; NaN if there are no samples."""
    total = counts.sum(-1, keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def _entropy_bits(shares: np.ndarray) -> np.ndarray:  # [..., C] -> [...]
    logarithm = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return -(shares * logarithm).sum(-1) + 0.0  # adding 0 turns the −0 of a single label into 0


def _total_variation_iid(counts: LabelCounts) -> float:
    """The mean over clients of E ½ Σ_c |X_c / n_k − p(c)|, for samples that are drawn at random.

    X_c, the number of samples with label c among n_k, is hypergeometric. With n draws from S
    samples, K of which have the label, and m = ⌊n K / S⌋ + 1,

      E |X − E X| = 2 m (S − K − n + m) / S · P(X = m)

    References:
      Ramasubban 1958, The mean difference and the mean deviation of some discontinuous
      distributions.
    """
    from scipy.stats import hypergeom  # takes a second to import

    n, clients = np.unique(counts.sizes[counts.sizes > 0], return_counts=True)  # distinct sizes
    n = n[:, None]
    K = counts.samples.sum(0)  # [C]
    S = int(counts.samples.sum())
    m = n * K // S + 1  # [sizes, C]
    deviation = 2 * m * (S - K - n + m) / S * hypergeom.pmf(m, S, K, n)
    return float((0.5 * deviation.sum(1) / n[:, 0] * clients).sum() / clients.sum())
