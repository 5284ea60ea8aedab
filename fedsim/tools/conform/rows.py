"""Stacks of updates on which laws are tried, and how a counterexample gets smaller."""

import functools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from fedsim.tools.conform.findings import Inapplicable, Law, as_law
from fedsim.tools.conform.subjects import Subject

K = 11  # rows of every stack, so that a rule compiles once; those with no samples did not report
D = 4
MOST_STEPS = 500  # tries while a counterexample gets smaller
WHATEVER = (np.nan, -np.inf, np.inf, 1e30)  # rows of clients that did not report


class Stack(NamedTuple):
    """What K clients sent."""

    rows: np.ndarray  # [K, D]
    samples: np.ndarray  # [K]; 0: did not report
    loss: np.ndarray  # [K]

    @property
    def reports(self) -> np.ndarray:
        """Which rows reported `[K]`."""
        return self.samples > 0

    def shuffled(self) -> tuple["Stack", np.ndarray]:
        """The same rows in another order, and that order."""
        order = np.random.default_rng(int(self.samples.sum())).permutation(K)
        return Stack(*(column[order] for column in self)), order

    def with_anything_absent(self) -> "Stack":
        """The same where the rows that did not report hold what they may: anything."""
        rows = self.rows.copy()
        absent = np.flatnonzero(~self.reports)
        rows[absent] = np.resize(WHATEVER, len(absent))[:, None]
        return self._replace(rows=rows)

    def with_equal_rows(self) -> "Stack":
        """The same where everybody has the first row that reported."""
        return self._replace(rows=np.tile(self.rows[np.argmax(self.reports)], (K, 1)))


Play = Callable[[Stack], np.ndarray]
"""Stack -> what comes out: an aggregate `[D]`, or rows `[K, D]`."""

Gap = tuple[np.ndarray, np.ndarray] | None
"""(What came out, what should have) where they differ."""

Violation = Callable[[Stack], Gap]
"""Stack -> the gap where a law is broken."""


def stacks(seed: int, least: int = 1, most: int | None = None) -> Iterator[Stack]:
    """Stacks of many sorts: few rows and all, integers, outliers, clusters, other scales."""
    rng = np.random.default_rng([seed, 49])
    highest = min(K, most or K)
    lowest = min(max(least, 1), highest)
    sizes = [highest, max(lowest, highest - 1), max(lowest, highest - 4), lowest]
    shapes = (_normal, _scaled, _outliers, _clusters, _positive, _half_integers)
    for draw in shapes:
        for size in sizes:
            rows = draw(rng)
            samples = np.zeros(K)
            present = rng.permutation(K)[:size]
            samples[present] = rng.integers(1, 9, size)
            yield Stack(rows, samples, 0.5 + rng.random(K))


def _normal(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(K, D))


def _scaled(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(K, D)) * np.logspace(-1, 1, K)[:, None]


def _outliers(rng: np.random.Generator) -> np.ndarray:
    rows = rng.normal(size=(K, D))
    rows[:2] += 20
    return rows


def _clusters(rng: np.random.Generator) -> np.ndarray:
    rows = 0.1 * rng.normal(size=(K, D))
    rows[: K // 2] += rng.normal(size=D) * 3
    return rows


def _positive(rng: np.random.Generator) -> np.ndarray:
    return 5 + rng.normal(size=(K, D))


def _half_integers(rng: np.random.Generator) -> np.ndarray:
    return np.round(rng.normal(size=(K, D)) * 4 + rng.normal(size=(K, D)) * 0.01, 3)


def differ(actual: np.ndarray, expected: np.ndarray, scale: float, rtol: float = 1e-7) -> bool:
    """Whether two aggregates differ by more than what rounding and iterations explain."""
    atol = rtol * max(scale, 1e-300)
    return not np.allclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def gap(actual: np.ndarray, expected: np.ndarray, size: float) -> Gap:
    """Both, where they differ by more than rounding does for rows of a size."""
    scale = max(size, float(np.abs(expected).max(initial=0.0)))
    return (actual, expected) if differ(actual, expected, scale) else None


def of_stacks(
    function: Callable[[Play, Stack], Gap],
    play_of: Callable[[Subject], Play],
    always: bool = False,
    fewer: int = 0,
) -> Law:
    """A function of what a kind makes of a stack as a law: no stack may break it.

    Args:
      function: says whether a stack does.
      fewer: by how many rows the function makes a stack smaller.
    """

    def check(subject: Subject) -> str:
        least = max(getattr(subject.made, "least", 1), 1) + fewer
        most = getattr(subject.made, "most", None)
        if min(K, most or K) < least:
            raise Inapplicable(f"needs {least} rows")
        violation = functools.partial(function, play_of(subject))
        example = counterexample(violation, stacks(subject.seed, least, most), least)
        return "" if example is None else in_words(*example)

    return as_law(function, always, check)


def size_of(stack: Stack) -> float:
    """The largest number of the rows that reported."""
    return float(np.abs(stack.rows[stack.reports]).max(initial=0.0))


def counterexample(
    violation: Violation, tried: Iterator[Stack], least: int = 1
) -> tuple[Stack, np.ndarray, np.ndarray] | None:
    """The first stack that breaks a law, made as small as it gets; None if there is none."""
    for stack in tried:
        if violation(stack) is not None:
            smallest = shrunk(stack, violation, least)
            gap = violation(smallest)
            assert gap is not None
            return smallest, *gap
    return None


def shrunk(stack: Stack, violation: Violation, least: int) -> Stack:
    """Fewer rows, then fewer coordinates, then smaller and rounder numbers."""
    steps = 0
    improved = True
    while improved and steps < MOST_STEPS:
        improved = False
        for smaller in _smaller(stack, least):
            steps += 1
            if steps > MOST_STEPS:
                break
            if violation(smaller) is not None:
                stack = smaller
                improved = True
                break
    return stack


def _smaller(stack: Stack, least: int) -> Iterator[Stack]:
    """Stacks that are one step smaller, the largest steps first."""
    present = np.flatnonzero(stack.reports)
    if len(present) > least:
        for row in present:
            samples = stack.samples.copy()
            samples[row] = 0
            yield stack._replace(samples=samples)

    for column in range(D):
        if stack.rows[present, column].any():
            yield stack._replace(rows=_put(stack.rows, (slice(None), column), 0.0))
    if (stack.samples[present] != 1).any():
        yield stack._replace(samples=np.where(stack.reports, 1.0, 0.0))
    if (stack.loss[present] != 1).any():
        yield stack._replace(loss=np.ones(K))

    rounded = np.round(stack.rows)
    if (rounded[present] != stack.rows[present]).any():
        yield stack._replace(rows=rounded)
    for row in present:
        for column in range(D):
            for simpler in _simpler(stack.rows[row, column]):
                yield stack._replace(rows=_put(stack.rows, (row, column), simpler))


def _simpler(value: float) -> Iterator[float]:
    """Numbers in place of another: smaller whole ones, and any whole one for a fraction."""
    is_whole = value == np.round(value)
    for whole in (0.0, np.sign(value), np.round(value), np.round(value / 2)):
        if abs(whole) < abs(value) or (not is_whole and whole != value):
            yield float(whole)


def _put(array: np.ndarray, place: tuple, value: float) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


def in_words(stack: Stack, actual: np.ndarray, expected: np.ndarray) -> str:
    """A counterexample in one line, with the rows that reported and the columns that matter."""
    rows = stack.rows[stack.reports]
    apart = ~np.isclose(actual, expected, rtol=1e-9, atol=0)
    matter = rows.any(axis=0) | (apart if apart.shape == (D,) else np.zeros(D, bool))
    if not matter.any():
        matter[0] = True
    samples = stack.samples[stack.reports]
    text = f"rows {numbers(rows[:, matter])}"
    if (samples != 1).any():
        text += f" of {numbers(samples)} samples"
    return f"{text}: {numbers(actual[..., matter])} in place of {numbers(expected[..., matter])}"


def numbers(array: np.ndarray) -> str:
    """An array as a short text, with whole numbers as such."""
    if array.ndim:
        return f"[{', '.join(numbers(part) for part in array)}]"
    value = float(array)
    whole = np.isfinite(value) and value == round(value) and abs(value) < 1e6
    return str(int(value)) if whole else f"{value:.4g}"
