"""The rules of `fedsim doctor --bench rules` in torch, with the fastest calls that we know.

    python torch_rules.py ROWS COLUMNS CALLS

prints as JSON how many seconds a call of each takes, the mean of some; the first call is not
measured. It needs NumPy and torch, nothing of fedsim.
"""

import json
import sys
import time

import numpy as np
import torch

# As in fedsim/tools/bench/plain_rules.py.
F = 10
RADIUS = 1.0
COORDINATES = 10_000
NOISE = 0.001


def works(x):
    """The rules on rows `x` `[K, D]`: functions that return `[D]`, by name."""
    rows = torch.from_numpy(x)

    def on_rows(rule):
        def work():
            with torch.inference_mode():
                return rule(rows)

        return work

    return {name: on_rows(rule) for name, rule in RULES.items() if len(x) >= LEAST.get(name, 1)}


def mean(rows):
    """The mean, as a product, which is several times as fast as `rows.mean(0)`."""
    return torch.full((len(rows),), 1 / len(rows)) @ rows


def columns_of(rows):
    """The columns as rows `[D, K]`: values that are adjacent in memory are sorted faster."""
    return rows.T.contiguous()


def middle(values):
    """The mean of the two middle values of every row; torch.median takes the lower one."""
    ordered = values.sort(dim=1).values
    low = (values.shape[1] - 1) // 2
    high = values.shape[1] // 2
    return (ordered[:, low] + ordered[:, high]) / 2


def without_tails(values):
    return values.sort(dim=1).values[:, F:-F].mean(1)


def without_farthest(values, centre, left_out):
    """The mean of every row `[D, K]` without the values that are farthest from its centre."""
    distance = (values - centre[:, None]).abs()
    farthest = distance.topk(left_out, dim=1, sorted=False).indices
    return values.scatter(1, farthest, 0).sum(1) / (values.shape[1] - left_out)


def median(rows):
    return middle(columns_of(rows))


def trimmed_mean(rows):
    return without_tails(columns_of(rows))


def mean_around_median(rows):
    values = columns_of(rows)
    return without_farthest(values, middle(values), F)


def phocas(rows):
    values = columns_of(rows)
    return without_farthest(values, without_tails(values), F)


def squared_distances(rows):
    """Squared distances of all pairs, +∞ to itself."""
    products = products_of(rows)
    squares = products.diagonal()
    distances = (squares[:, None] + squares - 2 * products).clamp_min(0)
    return distances.fill_diagonal_(torch.inf)


def products_of(rows):
    centred = rows - mean(rows)
    return centred @ centred.T


def krum_scores(rows):
    nearest = len(rows) - F - 2
    return squared_distances(rows).topk(nearest, dim=1, largest=False, sorted=False).values.sum(1)


def krum(rows):
    return rows[krum_scores(rows).argmin()]


def mean_of_least(rows, scores):
    """The mean of the K − f rows with the least scores, without copying them."""
    count = len(rows) - F
    weights = torch.zeros(len(rows))
    weights[scores.topk(count, largest=False, sorted=False).indices] = 1 / count
    return weights @ rows


def multi_krum(rows):
    return mean_of_least(rows, krum_scores(rows))


def bulyan(rows):
    """The mean around the median of the rows that Krum chooses one by one."""
    distances = squared_distances(rows)
    left = torch.ones(len(rows), dtype=torch.bool)
    for count in range(len(rows), 2 * F, -1):
        nearest = max(count - F - 2, 1)
        index = left.nonzero()[:, 0]
        among = distances[index][:, index]
        scores = among.topk(nearest, dim=1, largest=False, sorted=False).values.sum(1)
        left[index[scores.argmin()]] = False
    values = columns_of(rows[~left])
    return without_farthest(values, middle(values), 2 * F)


def monna(rows):
    distances = torch.cdist(rows, rows[:1], compute_mode="donot_use_mm_for_euclid_dist")
    return mean_of_least(rows, distances[:, 0])


def geometric_median(rows):
    """Weiszfeld's iteration on weights, until it converges."""
    products = products_of(rows)
    squares = products.diagonal()
    w = torch.full((len(rows),), 1 / len(rows))
    for _ in range(1000):
        pulled = products @ w
        distances = (squares - 2 * pulled + w @ pulled).clamp_min(1e-12).sqrt()
        new_w = (1 / distances) / (1 / distances).sum()
        if (new_w - w).abs().max() < 1e-7:
            break
        w = new_w
    return w @ rows


def centered_clipping(rows):
    """The first round: around zero."""
    lengths = torch.linalg.vector_norm(rows, dim=1)
    return (RADIUS / lengths).clamp_max(1) / len(rows) @ rows


def divide_and_conquer(rows):
    columns = rows[:, torch.randperm(rows.shape[1])[:COORDINATES]]
    _, vectors = torch.linalg.eigh(products_of(columns))
    return mean_of_least(rows, vectors[:, -1].square())


def flame(rows):
    """The smallest single-linkage cluster of more than half of the rows, clipped, and noise."""
    products = rows @ rows.T
    lengths = products.diagonal().sqrt()
    joined = (1 - products / torch.outer(lengths, lengths)).fill_diagonal_(-torch.inf)
    for k in range(len(rows)):
        joined = torch.minimum(joined, torch.maximum(joined[:, k, None], joined[k]))
    reach = joined.kthvalue(len(rows) // 2 + 1, dim=1).values
    centre = reach.argmin()
    admitted = joined[centre] <= reach[centre]
    bound = middle(lengths[None])
    weights = admitted * (bound / lengths).clamp_max(1) / admitted.sum()
    return torch.add(weights @ rows, torch.randn(rows.shape[1]), alpha=NOISE * float(bound))


def mix_neighbours(rows):
    """The mean of all rows, each of which became the mean of its nearest rows."""
    count = len(rows) - F
    distances = squared_distances(rows).fill_diagonal_(-1)
    nearest = distances.topk(count, dim=1, largest=False, sorted=False).indices
    mask = torch.zeros_like(distances).scatter_(1, nearest, 1 / count)
    return mean(mask @ rows)


LEAST = {"bulyan": 4 * F + 3}
RULES = {
    "mean": mean,
    "median": median,
    "trimmed_mean": trimmed_mean,
    "mean_around_median": mean_around_median,
    "phocas": phocas,
    "krum": krum,
    "multi_krum": multi_krum,
    "bulyan": bulyan,
    "monna": monna,
    "geometric_median": geometric_median,
    "centered_clipping": centered_clipping,
    "divide_and_conquer": divide_and_conquer,
    "flame": flame,
    "mix_neighbours": mix_neighbours,
}


def seconds(work, calls):
    """The mean seconds of a call."""
    work()
    begin = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - begin) / calls


if __name__ == "__main__":
    rows, columns, calls = map(int, sys.argv[1:])
    drawn = np.random.default_rng(0).standard_normal((rows, columns), np.float32)  # as fedsim does
    print(json.dumps({name: seconds(work, calls) for name, work in works(drawn).items()}))
