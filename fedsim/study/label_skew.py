"""Label skew: how the samples of clients differ in number and in labels, from a federation or the rows of `partition.csv`.

The label distribution of client k is p_k(c) = n_kc / n_k, that of all of them together p(c) = Σ_k n_kc / Σ_k n_k.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fedsim.data import Federation
from fedsim.disk.tables import Record

MEANS = ("classes", "entropy_bits", "total_variation", "largest_share")


class LabelCounts(NamedTuple):
    """Samples per client and label."""

    clients: np.ndarray  # numbers or ids `[N]`, rising
    labels: list[Any]  # names `[C]` in order; none where targets are no classes
    samples: np.ndarray  # `[N, C]`; `[N, 1]` where targets are no classes
    noun: str = "label"  # or the column whose values are counted in place of labels

    @property
    def sizes(self) -> np.ndarray:
        """Samples per client `[N]`."""
        return self.samples.sum(1)


class Heterogeneity(NamedTuple):
    """How far the clients of a partition differ."""

    rows: Record  # of `partition.csv`, as one stack
    counts: LabelCounts  # the same, counted
    clients: pd.DataFrame  # a row per client, see `client_skew`, and what it has of each skew
    overall: dict[str, Any]  # of all clients together, see `overall_skew`

    def plain(self) -> dict[str, Any]:
        """Plain values for JSON; a value that does not apply is None."""
        return {"overall": self.overall, "clients": [*map(_plain, self.clients.to_dict("records"))]}


def heterogeneity(federation: Federation, seed: int | None = None) -> Heterogeneity:
    """How far the clients of a federation differ.

    Args:
      federation: whose clients.
      seed: of its partition, where there are several: a column of the rows.
    """
    counts = label_counts(federation)
    rows = {**({} if seed is None else {"seed": seed}), **partition_rows(counts, federation.skews)}
    clients = client_skew(counts).assign(**federation.skews)
    return Heterogeneity(rows=rows, counts=counts, clients=clients, overall=overall_skew(counts))


def label_counts(federation: Federation) -> LabelCounts:
    """The samples of a federation, counted."""
    labelled = federation.classes > 0 and not federation.per_token
    samples = federation.label_counts() if labelled else federation.sizes[:, None]
    return LabelCounts(federation.client_names, federation.label_names if labelled else [], samples)


def column_counts(federation: Federation, name: str, values: np.ndarray) -> LabelCounts:
    """The values of a column in place of the labels, counted.

    Args:
      federation: whose clients.
      name: of the column.
      values: of all training samples `[n]`.
    """
    known, code = np.unique(values, return_inverse=True)
    flat = federation.holders.owner * len(known) + code[federation.holders.indices]
    samples = np.bincount(flat, minlength=federation.N * len(known)).reshape(
        federation.N, len(known)
    )
    return LabelCounts(federation.client_names, known.tolist(), samples, name)


def partition_rows(counts: LabelCounts, skews: Mapping[str, np.ndarray]) -> Record:
    """Rows of `partition.csv`: every client and label with samples; every client where targets are no classes.

    Args:
      counts: samples of the clients that are listed.
      skews: what each of these clients has `[N]`, by column.
    """
    if counts.labels:
        row, label = np.nonzero(counts.samples)
        labels = [counts.labels[place] for place in label.tolist()]
        samples = counts.samples[row, label]
    else:
        row, labels, samples = (
            np.arange(len(counts.clients)),
            [None] * len(counts.clients),
            counts.sizes,
        )
    record = {"client": counts.clients[row].tolist(), "label": labels, "samples": samples.tolist()}
    return record | {name: numbers[row].tolist() for name, numbers in skews.items()}


def counts_of_rows(rows: pd.DataFrame, clients: int | Sequence[Any] | None = None) -> LabelCounts:
    """The rows of `partition.csv`, counted; of several methods or seeds the first one.

    Args:
      rows: with the columns `client`, `label` (empty where targets are no classes) and `samples`.
      clients: all that there are, or how many, 0, 1, ...: those without a row hold nothing. Left out: those that have rows.
    """
    chosen = np.ones(len(rows), bool)
    for name in ("method", "seed"):
        if name in rows and len(rows):
            column = np.asarray(rows[name])
            chosen &= column == column[chosen][0]
    count = np.asarray(rows["samples"], np.int64)[chosen]
    known = range(clients or 0) if clients is None or isinstance(clients, int) else clients
    ids, code = np.unique(
        _client_names([*known, *np.asarray(rows["client"], object)[chosen]]), return_inverse=True
    )
    place = code[len(known) :]
    labels, label = _labels(np.asarray(rows["label"], object)[chosen])
    samples = np.zeros((len(ids), max(len(labels), 1)), np.int64)
    np.add.at(samples, (place, label), count)
    return LabelCounts(ids, labels, samples)


def _client_names(values: list[Any]) -> np.ndarray:
    """Whole numbers where all clients are, else text."""
    whole = all(isinstance(value, int | np.integer) for value in values)
    return np.array(values, np.int64) if whole else np.array([str(value) for value in values])


def _labels(column: np.ndarray) -> tuple[list[Any], np.ndarray]:
    """Names of labels in order, numbers as numbers, and the place of every row's."""
    if np.all(pd.isna(column)):
        return [], np.zeros(len(column), np.int64)
    try:
        numbers = column.astype(float)
        whole = (np.abs(numbers) < 2**53).all() and (numbers % 1 == 0).all()
        named = numbers.astype(np.int64) if whole else column.astype(str)
    except ValueError:
        named = column.astype(str)
    names, code = np.unique(named, return_inverse=True)
    return names.tolist(), code


def client_skew(counts: LabelCounts) -> pd.DataFrame:
    """A row per client.

    Columns: `client`, `samples`, and where there are labels: `classes` with samples, `entropy_bits` of its labels
    H = −Σ_c p_k(c) log₂ p_k(c) (0: one label, log₂ C: all alike), `total_variation` ½ Σ_c |p_k(c) − p(c)| from the common
    distribution (0: the same, 1: no label in common), `largest_share` max_c p_k(c) and `largest_label`. They are missing
    for a client without samples.
    """
    sizes = counts.sizes
    table = pd.DataFrame({"client": counts.clients, "samples": sizes})
    if not counts.labels:
        return table
    shares, largest = _shares(counts.samples), counts.samples.argmax(1).tolist()
    table["classes"] = (counts.samples > 0).sum(1)
    table["entropy_bits"] = np.where(sizes > 0, _entropy_bits(shares), np.nan)
    table["total_variation"] = 0.5 * np.abs(shares - _shares(counts.samples.sum(0))).sum(1)
    table["largest_share"] = shares.max(1)
    names = [counts.labels[c] if n else None for c, n in zip(largest, sizes, strict=True)]
    table["largest_label"] = pd.Series(
        names, dtype=object
    )  # numbers stay whole beside one that is missing
    return table


def overall_skew(counts: LabelCounts) -> dict[str, Any]:
    """Of all clients together, as plain values.

    `samples_*` are over all clients: the Gini coefficient of their sizes (0: all alike, near 1: one has all) and the
    coefficient of variation, standard deviation / mean. `*_mean` and `*_max` of labels are over clients with samples, each
    counting the same. `entropy_bits_all` is that of the common distribution. `total_variation_iid` is what
    `total_variation_mean` would be expected to be, had clients of these sizes drawn their samples at random: small
    clients are never quite alike.
    """
    sizes = counts.sizes
    N, total = len(sizes), int(sizes.sum())
    numbers = {
        "clients": N,
        "clients_without_samples": int((sizes == 0).sum()),
        "samples": total,
        "samples_min": int(sizes.min()) if N else None,
        "samples_median": float(np.median(sizes)) if N else None,
        "samples_mean": float(sizes.mean()) if N else None,
        "samples_max": int(sizes.max()) if N else None,
        # Σ_i (2i − N − 1) n_(i) / (N Σ n), sizes in rising order
        "samples_gini": float(
            ((2 * np.arange(1, N + 1) - N - 1) * np.sort(sizes)).sum() / (N * total)
        )
        if total
        else None,
        "samples_cv": float(sizes.std() / sizes.mean()) if sizes.any() else None,
    }
    if counts.labels and sizes.any():
        table, together = client_skew(counts), counts.samples.sum(0)
        columns = {name: np.asarray(table[name], float)[sizes > 0] for name in MEANS}
        numbers["labels"] = int((together > 0).sum())
        numbers["entropy_bits_all"] = float(_entropy_bits(_shares(together)))
        numbers |= {f"{name}_mean": float(columns[name].mean()) for name in MEANS}
        numbers["total_variation_max"] = float(columns["total_variation"].max())
        numbers["total_variation_iid"] = _total_variation_iid(counts)
    return numbers


def evenly_spaced(n: int, most: int) -> np.ndarray:
    """Places of at most so many out of n, evenly spaced, the first and the last among them."""
    return np.unique(np.rint(np.linspace(0, n - 1, min(n, most))).astype(np.int64))


def _shares(counts: np.ndarray) -> np.ndarray:
    """Shares of labels; missing where there is nothing to share."""
    total = counts.sum(-1, keepdims=True)
    return np.divide(counts, total, out=np.full(counts.shape, np.nan), where=total > 0)


def _entropy_bits(shares: np.ndarray) -> np.ndarray:
    logarithm = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return -(shares * logarithm).sum(-1) + 0.0  # one label: 0, not −0


def _total_variation_iid(counts: LabelCounts) -> float:
    """Mean over clients of E ½ Σ_c |X_c / n_k − p(c)| for hypergeometric X_c, the labels of n_k samples drawn at random.

    E |X − E X| = 2 m (S − K − n + m) / S · P(X = m) for n draws from S samples, K of which bear the label, and
    m = ⌊n K / S⌋ + 1 (Ramasubban 1958, The mean difference and the mean deviation of some discontinuous distributions).
    """
    n, clients = np.unique(counts.sizes[counts.sizes > 0], return_counts=True)
    n, K, S = n[:, None], counts.samples.sum(0), int(counts.samples.sum())
    m = n * K // S + 1
    possible = (m <= K) & (m <= n)
    m = np.where(possible, m, 1)
    logarithm = _choose(K, m) + _choose(S - K, n - m) - _choose(S, n)
    deviation = np.where(possible, 2 * m * (S - K - n + m) / S * np.exp(logarithm), 0.0)
    return float((0.5 * deviation.sum(1) / n[:, 0] * clients).sum() / clients.sum())


def _choose(n: Any, k: Any) -> np.ndarray:
    """Logarithm of the binomial coefficient."""
    from scipy.special import gammaln  # a tenth of a second

    return gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(np.subtract(n, k) + 1)


def _plain(row: Mapping[str, Any]) -> Record:
    missing = lambda value: isinstance(value, float) and math.isnan(value)
    return {name: None if missing(value) else value for name, value in row.items()}
