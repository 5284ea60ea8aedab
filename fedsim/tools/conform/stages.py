"""Laws of stages and attacks: which rows come out of which."""

import functools
from collections.abc import Callable

import numpy as np

from fedsim.assemble import transmit
from fedsim.tools.conform import rows as stacks
from fedsim.tools.conform.findings import Law, as_law
from fedsim.tools.conform.rows import K, Stack, counterexample, differ, in_words, size_of
from fedsim.tools.conform.rules import WHATEVER, Gap
from fedsim.tools.conform.subjects import Subject

Play = Callable[[Stack], np.ndarray]
"""Stack -> the rows that come out `[K, D]`; rows that did not report may hold anything."""

MALICIOUS = np.arange(K) < 3


def of_subject(subject: Subject) -> Play:
    """What a fresh stage, or an attack by the first three clients, makes of a stack."""
    malicious = MALICIOUS if subject.family == "attack" else None

    def play(stack: Stack) -> np.ndarray:
        updates = {"W": stack.rows[:, :2].reshape(K, 2, 1), "b": stack.rows[:, 2:]}
        sent, _ = transmit(subject.section, updates, weights=stack.samples, malicious=malicious)
        return np.concatenate([sent["W"].reshape(K, -1), sent["b"]], axis=1)

    return play


def permutation(play: Play, stack: Stack) -> Gap:
    """Whoever stands where: shuffled rows come out as the rows do, shuffled."""
    order = np.random.default_rng(int(stack.samples.sum())).permutation(K)
    shuffled = Stack(*(column[order] for column in stack))
    present = stack.reports[order]
    return _gap(play(shuffled)[present], play(stack)[order][present], size_of(stack))


def absent_rows(play: Play, stack: Stack) -> Gap:
    """Rows that did not report may hold anything, not-a-number too."""
    rows = stack.rows.copy()
    absent = np.flatnonzero(~stack.reports)
    rows[absent] = np.resize(WHATEVER, len(absent))[:, None]
    present = stack.reports
    return _gap(play(stack._replace(rows=rows))[present], play(stack)[present], 0.0)


def finite(play: Play, stack: Stack) -> Gap:
    """Finite rows come out finite: zeros and equal rows, too."""
    equal = np.tile(stack.rows[np.argmax(stack.reports)], (K, 1))
    for rows in (stack.rows, np.zeros_like(stack.rows), equal):
        actual = play(stack._replace(rows=rows))[stack.reports]
        if not np.isfinite(actual).all():
            return actual, np.zeros_like(actual)
    return None


def float64(play: Play, stack: Stack) -> Gap:
    """Rows in float64 come out in float64."""
    actual = play(stack)
    return None if actual.dtype == np.float64 else (actual, stack.rows)


def honest_rows(play: Play, stack: Stack) -> Gap:
    """The rows of clients that the attacker does not control keep their bits."""
    honest = stack.reports & ~MALICIOUS
    actual = play(stack)[honest]
    expected = stack.rows[honest]
    return None if (actual == expected).all() else (actual, expected)


def _gap(actual: np.ndarray, expected: np.ndarray, size: float) -> Gap:
    """Both, where they differ by more than rounding does for rows of a size."""
    return (actual, expected) if differ(actual, expected, max(size, 1e-12)) else None


def tried(law: Callable[[Play, Stack], Gap], subject: Subject) -> str:
    """The smallest stack that breaks a law, in words; empty if none was found."""
    play = of_subject(subject)
    least = max(getattr(subject.made, "least", 1), 1)
    example = counterexample(
        functools.partial(law, play), stacks.stacks(subject.seed, least), least
    )
    return "" if example is None else in_words(*example)


def of_stage(function: Callable[[Play, Stack], Gap], always: bool = False) -> Law:
    """A function of a stage and a stack as a law."""
    return as_law(function, always, functools.partial(tried, function))


STAGES = (
    of_stage(permutation),
    of_stage(absent_rows, always=True),
    of_stage(finite, always=True),
    of_stage(float64, always=True),
)
ATTACKS = (of_stage(honest_rows, always=True), of_stage(absent_rows, always=True))
