"""Generated data sets: the same seed gives the same samples, everywhere and always."""

import math
from typing import Annotated

import numpy as np
from annotated_types import Ge, Gt, Lt, MinLen

from fedsim.compose import dataset
from fedsim.errors import DataError
from fedsim.limits import require_memory
from fedsim.sources.arrays import Arrays

Count = Annotated[int, Ge(1)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
Share = Annotated[float, Ge(0)]

SYNTHETIC_FEATURES = 60
SYNTHETIC_CLASSES = 10


@dataset
def synthetic(
    alpha: Share = 1.0,
    beta: Share = 1.0,
    iid: bool = False,
    clients: Count = 30,
    multiple: Count = 1,
    seed: Seed = 0,
) -> Arrays:
    """Synthetic(α, β): clients differ in their linear labelling and their features; has client ids.

    n_k = ⌊lognormal(4, 2)⌋ + 50 samples of 60 features in 10 classes; u_k ~ N(0, α), B_k ~ N(0, β),
    v_k ~ N(B_k, 1)⁶⁰; x ~ N(v_k, diag(j^−1.2)), W_k ~ N(u_k, 1), b_k ~ N(u_k, 1),
    y = argmax(x W_k + b_k). α and β are standard deviations, as in the authors' code. `iid`: one
    W, b ~ N(0, 1) for all, v_k = 0. The draws are those of the authors' generators under NumPy's
    old global seed, so a seed means the same data there and here.

    Args:
      alpha: how much the clients' labellings differ.
      beta: how much the clients' features differ.
      iid: whether clients do not differ; α and β are not used then.
      clients: the number of clients.
      multiple: the factor of the numbers of samples (pFedMe uses 5, and 100 clients).
      seed: the seed of the draws.

    References:
      Li et al. 2020, FedProx, arXiv:1812.06127, section 5.1; T. Dinh et al. 2020, pFedMe,
      arXiv:2006.08848.
    """
    features = SYNTHETIC_FEATURES
    classes = SYNTHETIC_CLASSES
    # A lower bound; the true numbers of samples are drawn.
    _require_memory(clients * 50 * multiple, features)
    rng = np.random.RandomState(seed)
    sizes = (rng.lognormal(4, 2, clients).astype(int) + 50) * multiple  # [K]
    _require_memory(int(sizes.sum()), features)

    deviation = np.arange(1, features + 1) ** -0.6
    if iid:
        centres = np.zeros((clients, features))
        W = rng.normal(0, 1, (features, classes))
        b = rng.normal(0, 1, classes)
    else:
        u = rng.normal(0, alpha, clients)
        B = rng.normal(0, beta, clients)
        centres = rng.normal(B[:, None], 1, (clients, features))

    x = np.empty((sizes.sum(), features))
    y = np.empty(sizes.sum(), np.int32)
    for k, (end, n) in enumerate(zip(np.cumsum(sizes), sizes, strict=True)):
        if not iid:
            W = rng.normal(u[k], 1, (features, classes))
            b = rng.normal(u[k], 1, classes)
        rows = slice(end - n, end)
        x[rows] = centres[k] + rng.standard_normal((n, features)) * deviation
        y[rows] = (x[rows] @ W + b).argmax(1)
    return Arrays(x, y, np.repeat(np.arange(clients), sizes))


@dataset
def leaf_synthetic(
    classes: Count = 5, features: Count = 60, clients: Count = 1000, seed: Seed = 931231
) -> Arrays:
    """LEAF's Synthetic: tasks that share a hidden linear model, each with other features; has ids.

    n_k = min(⌊lognormal(3, 2)⌋ + 5, 1000); Q ~ N(0, 1) of shape (features + 1) x classes,
    u ~ N(N(0, 1), 1); per client B ~ N(0, 1), v ~ N(B, 1), x ~ N(v, diag(j^−1.2)), w = Q·N(u, 0.1),
    y = argmax((1, x) w + N(0, 0.1)). One cluster of tasks. The defaults are the published data set,
    draw by draw: 107,553 samples of 1,000 users.

    Args:
      classes: the number of classes.
      features: the number of features.
      clients: the number of users.
      seed: the seed of the draws.

    References:
      Caldas et al. 2018, LEAF, arXiv:1812.01097.
    """
    _require_memory(clients * 5 + classes + 1, features)
    require_memory(truth=8 * (features + 1) * classes, outputs=8 * 1000 * classes)
    sizes = np.random.RandomState(seed).lognormal(3, 2, clients).astype(int) + 5
    sizes = np.minimum(sizes, 1000)  # [K]
    _require_memory(int(sizes.sum()), features)

    rng = np.random.RandomState(seed)  # starts again, as in LEAF
    Q = rng.normal(0, 1, (features + 1, classes, 1))
    centre = rng.normal(rng.normal(0, 1), 1, 1)
    deviation = np.arange(1, features + 1) ** -0.6
    x = np.empty((sizes.sum(), features))
    y = np.empty(sizes.sum(), np.int32)
    for end, n in zip(np.cumsum(sizes), sizes, strict=True):
        rng.random_sample()  # LEAF draws the cluster here: there is only one
        mean = rng.normal(rng.normal(0, 1), 1, features)
        samples = mean + rng.standard_normal((n, features)) * deviation  # [n, features]
        w = Q @ rng.normal(centre, 0.1)  # [features + 1, classes]
        noise = rng.normal(0, 0.1, (n, classes))
        x[end - n : end] = samples
        y[end - n : end] = (samples @ w[1:] + w[0] + noise).argmax(1)
    return Arrays(x, y, np.repeat(np.arange(clients), sizes))


@dataset
def gaussian_blobs(
    shape: Annotated[list[Count], MinLen(1)] = [20],  # noqa: B006 (read, never changed)
    classes: Count = 10,
    samples: Count = 10_000,
    spread: Annotated[float, Gt(0)] = 1.0,
    seed: Seed = 0,
) -> Arrays:
    """One Gaussian cloud per class: centres μ_c ~ N(0, 1), samples x ~ N(μ_c, spread²).

    Classes are equally frequent (±1). Samples are drawn as float32: millions take seconds.

    Args:
      shape: the shape of a sample, e.g. [28, 28, 1].
      classes: the number of clouds.
      samples: the number of samples of all classes.
      spread: the standard deviation within a class; the larger, the harder.
      seed: the seed of the draws.
    """
    _require_memory(samples + classes, math.prod(shape), itemsize=4)
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((classes, *shape), np.float32)
    y = rng.permutation(np.arange(samples, dtype=np.int32) % classes)
    x = rng.standard_normal((samples, *shape), np.float32)
    x *= np.float32(spread)
    x += centres[y]
    return Arrays(x, y)


@dataset
def linear_regression(
    features: Count = 20,
    samples: Count = 50,
    noise: Share = 0.1,
    heterogeneity: Share = 0.0,
    clients: Count = 100,
    seed: Seed = 0,
) -> Arrays:
    """Linear regression with a truth per client: y = x·w_k + noise·N(0, 1); has client ids.

    w_k = w + heterogeneity·N(0, 1), w ~ N(0, 1)ᵈ/√d and x ~ N(0, 1)ᵈ, so y has variance about
    1 + heterogeneity²·d. Targets are floats: the loss is the squared error.

    Args:
      features: the number of features d.
      samples: the number of samples per client.
      noise: the standard deviation of the targets around the truth.
      heterogeneity: the standard deviation of the clients' coefficients around the common ones;
        0: one truth for all.
      clients: the number of clients.
      seed: the seed of the draws.
    """
    _require_memory(clients * (samples + 1), features)
    rng = np.random.default_rng(seed)
    w = rng.standard_normal(features) / np.sqrt(features)
    truths = w + heterogeneity * rng.standard_normal((clients, features))  # [K, d]
    x = rng.standard_normal((clients, samples, features))  # [K, n, d]
    y = np.einsum("ksd,kd->ks", x, truths) + noise * rng.standard_normal((clients, samples))
    return Arrays(x.reshape(-1, features), y.ravel(), np.repeat(np.arange(clients), samples))


@dataset
def quadratics(
    features: Count = 5,
    smallest: Annotated[float, Gt(0)] = 0.1,
    largest: Annotated[float, Gt(0)] = 1.0,
    heterogeneity: Share = 1.0,
    clients: Count = 10,
    seed: Seed = 0,
) -> Arrays:
    """Client k minimises f_k(w) = ½ (w − a_k)ᵀ H_k (w − a_k), as least squares; has client ids.

    A quadratic IS a least-squares problem: with n = d rows A_k = √d · Λ^½ Q_kᵀ and targets A_k a_k,
    the mean over a client's rows of ½ (row·w − target)² equals f_k(w),
    H_k = A_kᵀ A_k / n = Q_k Λ Q_kᵀ. So `model: {kind: linear, bias: false}` with the squared error
    follows f_k exactly, and `batch: full` takes its exact gradient. Λ is a geometric progression
    from `smallest` to `largest`, Q_k is a random rotation, a_k ~ N(0, heterogeneity²).

    The test set is all rows again: `test_loss` is the global objective, the mean of all f_k.

    Args:
      features: the number of features d.
      smallest: the smallest curvature μ.
      largest: the largest curvature L.
      heterogeneity: how far apart the clients' minima are; 0: all at the origin.
      clients: the number of clients.
      seed: the seed of the draws.

    Raises:
      DataError: when `smallest` exceeds `largest`.
    """
    if smallest > largest:
        raise DataError(f"quadratics: smallest {smallest} exceeds largest {largest}")
    _require_memory(3 * clients * features, features)
    rng = np.random.default_rng(seed)
    curvature = np.geomspace(largest, smallest, features)  # [d]
    rotation = np.linalg.qr(rng.standard_normal((clients, features, features)))[0]
    minima = heterogeneity * rng.standard_normal((clients, features))
    rows = np.sqrt(features * curvature)[:, None] * rotation.transpose(0, 2, 1)  # [K, d, d]
    x = rows.reshape(-1, features)
    y = np.einsum("kij,kj->ki", rows, minima).ravel()
    client = np.repeat(np.arange(clients), features)
    return Arrays(x, y, client, x_test=x, y_test=y)


@dataset
def lower_bound_pair(
    mu: Annotated[float, Gt(0)] = 1.0,
    slope: float = 1.0,
    curvature: Annotated[float, Gt(0)] = 1e-12,
) -> Arrays:
    """Two clients whose slopes cancel: f₁(x) = μx² + Gx and f₂(x) = −Gx + ½κx²; has client ids.

    On this pair, FedAvg ends the further from 0, the larger G is. The paper's f₂ has no curvature;
    here it has the κ of `curvature`, since no squared error is a straight line: it changes results
    by a share of about κ/μ. Each function is a row of a least-squares problem, ½(c·x − t)² with c²
    the curvature and −c·t the slope, for `model: {kind: linear, bias: false}`; their constants,
    G²/4μ and G²/2κ, are in `train_loss`.

    The test set is one row, ½(√μ·x)²: `test_loss` is the paper's global objective
    ½(f₁ + f₂) = ½μx².

    Args:
      mu: μ, half the curvature of f₁.
      slope: G.
      curvature: κ.

    References:
      Karimireddy et al. 2020, SCAFFOLD, arXiv:1910.06378, Theorem II.
    """
    row = np.sqrt([2 * mu, curvature])
    target = np.array([-slope, slope]) / row
    return Arrays(
        x=row[:, None],
        y=target,
        client=np.arange(2),
        x_test=np.array([[np.sqrt(mu)]]),
        y_test=np.zeros(1),
    )


@dataset
def fedexp_regression(
    features: Count = 1000,
    samples: Count = 30,
    alpha: Share = 0.1,
    beta: Share = 0.1,
    clients: Count = 20,
    seed: Seed = 0,
) -> Arrays:
    """FedExP's linear regression: one model fits all clients exactly; has client ids.

    There are fewer samples than features. u_k ~ N(0, α), B_k ~ N(0, β), v_k ~ N(B_k, 1)ᵈ;
    w_k ~ N(u_k, 1)ᵈ, a ~ N(v_k, I), b = a·w_k; then every row a is scaled to length 1, and a
    client's targets together to length 1. α and β are standard deviations. The draws are those of
    the authors' notebook, run from its top, whose seed is 0.

    The notebook's clients minimise f_k(w) = ½ ‖A_k w − b_k‖². With rows and targets times √samples,
    the mean over a client's rows of ½ (row·w − target)² equals f_k(w). So
    `model: {kind: linear, bias: false}` with the squared error follows f_k exactly, and
    `batch: full` takes its exact gradient.

    The test set is all rows, times √(2·samples): `test_loss` is what the notebook prints,
    1/N Σ ‖A_k w − b_k‖².

    Args:
      features: the number of features d.
      samples: the number of samples per client.
      alpha: how much the means of the clients' truths differ.
      beta: how much the means of the clients' features differ.
      clients: the number of clients.
      seed: the seed of the draws.

    References:
      Jhunjhunwala et al. 2023, FedExP, arXiv:2301.09604, section 6; github.com/Divyansh03/FedExP,
      linear_regression.
    """
    _require_memory(3 * clients * samples, features)
    rng = np.random.RandomState(seed)
    u = rng.normal(0, alpha, clients)
    B = rng.normal(0, beta, clients)
    centres = rng.normal(B[:, None], 1, (clients, features))
    x = np.empty((clients, samples, features))
    y = np.empty((clients, samples))
    for k in range(clients):
        truth = rng.normal(u[k], 1, features)
        x[k] = centres[k] + rng.standard_normal((samples, features))
        y[k] = x[k] @ truth
    x /= np.linalg.norm(x, axis=2, keepdims=True)
    y /= np.linalg.norm(y, axis=1, keepdims=True)

    x = x.reshape(-1, features)  # [K * n, d]
    y = y.ravel()
    train_scale = np.sqrt(samples)
    test_scale = np.sqrt(2 * samples)
    return Arrays(
        x=train_scale * x,
        y=train_scale * y,
        client=np.repeat(np.arange(clients), samples),
        x_test=test_scale * x,
        y_test=test_scale * y,
    )


def _require_memory(rows: int, features: int, itemsize: int = 8) -> None:
    """Refuse samples that do not fit into memory with a copy, before they are drawn."""
    require_memory(samples=rows * (2 * itemsize * features + 16))
