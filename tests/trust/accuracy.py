"""Row 16: averages against exact sums, for many clients, weights up to 10^9, and any mean."""

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

import fedsim
from trust.table import Figure

EPS = {np.float32: 2.0**-24, np.float64: 2.0**-53}  # half a unit in the last place, relative


def cases(
    clients: int, columns: int, rng: np.random.Generator
) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, updates `[K, D]` in float32, and weights `[K]`: whole numbers up to 10^9."""
    heavy = np.exp(rng.uniform(0, np.log(1e9), clients)).astype(np.int64) + 1
    plain = rng.normal(size=(clients, columns)).astype(np.float32)
    yield "mean near 0, weights to 1e9", plain, heavy
    yield "mean near 0, equal weights", plain, np.full(clients, 600)
    yield "mean far from 0, weights to 1e9", plain + np.float32(3), heavy
    wide = (plain * np.exp(rng.uniform(-30, 30, plain.shape))).astype(np.float32)
    yield "magnitudes over 26 decades, weights to 1e9", wide, heavy
    half = np.concatenate([plain[: clients // 2], -plain[: clients // 2]])
    yield (
        "updates that cancel but for one",
        np.concatenate([half[:-1], half[-1:] * np.float32(1.0001)]),
        heavy[: len(half)],
    )


def exact(updates: np.ndarray, weights: np.ndarray) -> list[Fraction]:
    """Return the exact Σ w x / Σ w of every column: `math.fsum` of products without rounding.

    The sum is rounded once to 53 bits, 2^29 times finer than float32.
    """
    high, low = weights >> 15, weights & 0x7FFF
    total = sum(map(int, weights))
    means = []
    for column in updates.astype(np.float64).T:
        parts = np.concatenate([column * high.astype(float) * 2.0**15, column * low.astype(float)])
        means.append(Fraction(math.fsum(parts.tolist())) / total)
    return means


def judged(updates: np.ndarray, weights: np.ndarray, dtype: type) -> tuple[float, float]:
    """The mean by fedsim -> largest error in float32 ulp of the mean, and in eps·Σ|w x|/Σw."""
    ours = np.asarray(fedsim.aggregate("mean", updates.astype(dtype), weights=weights))
    scale = np.abs(updates.astype(float)).T @ weights.astype(float) / float(weights.sum())
    ulps = bounds = 0.0
    for mean, got, size in zip(exact(updates, weights), ours, scale, strict=True):
        rounded = np.float32(got)
        unit = Fraction(float(np.spacing(np.abs(np.float32(float(mean))))))
        ulps = max(ulps, float(abs(Fraction(float(rounded)) - mean) / unit))
        bounds = max(bounds, float(abs(Fraction(float(got)) - mean) / Fraction(size)) / EPS[dtype])
    return ulps, bounds


def in_other_order(
    updates: np.ndarray, weights: np.ndarray, dtype: type, rng: np.random.Generator
) -> float:
    """Share of elements (as float32) that change when the same clients stand in another order."""
    order = rng.permutation(len(weights))
    one, other = (
        np.asarray(fedsim.aggregate("mean", updates[i].astype(dtype), weights=weights[i])).astype(
            np.float32
        )
        for i in (slice(None), order)
    )
    return float((one != other).mean())


def averages(quick: bool) -> Figure:
    """Both float types over 10^3 to 10^5 clients."""
    sizes = (1000,) if quick else (1000, 10_000, 100_000)
    worst: dict[type, list[tuple[float, float, float]]] = {np.float32: [], np.float64: []}
    for clients in sizes:
        rng = np.random.default_rng(clients)
        for name, updates, weights in cases(clients, 8 if quick else 32, rng):
            for dtype, found in worst.items():
                ulps, bound = judged(updates, weights, dtype)
                changed = in_other_order(updates, weights, dtype, rng)
                found.append((ulps, bound, changed))
                case = f"{clients:>6} {dtype.__name__} {name}"
                print(
                    f"  {case}: {ulps:.3g} ulp, {bound:.3g} eps, {changed:.1%} by order", flush=True
                )
    single, double = (
        [max(column) for column in zip(*found, strict=True)] for found in worst.values()
    )
    text = (
        f"K to {max(sizes):,}, weights to 1e9, against math.fsum. "
        f"float64: at most {double[0]:.2f} float32 ulp, "
        f"error at most {double[1]:.3g} eps·Σ|w x|/Σw, "
        f"{double[2]:.2%} of the elements by order (rounded to float32). "
        f"float32: at most {single[0]:.4g} ulp (means near 0), "
        f"error at most {single[1]:.3g} eps·Σ|w x|/Σw, "
        f"up to {single[2]:.0%} of the elements change when the slots of clients do; "
        "in a run they are those of the ids (row 2: no packing or block changes a byte)"
    )
    return Figure(text, double[0] <= 1 and double[2] == 0)
