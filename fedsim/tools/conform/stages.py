"""Laws of stages and attacks: which rows come out of which."""

import numpy as np

from fedsim.assemble import transmit
from fedsim.tools.conform.rows import Gap, K, Play, Stack, gap, of_stacks, size_of
from fedsim.tools.conform.subjects import Subject

MALICIOUS = np.arange(K) < 3


def of_subject(subject: Subject) -> Play:
    """What a fresh stage, or an attack by the first three clients, makes of a stack: rows `[K, D]`.

    Rows that did not report may hold anything.
    """
    malicious = MALICIOUS if subject.family == "attack" else None

    def play(stack: Stack) -> np.ndarray:
        updates = {"W": stack.rows[:, :2].reshape(K, 2, 1), "b": stack.rows[:, 2:]}
        sent, _ = transmit(subject.section, updates, weights=stack.samples, malicious=malicious)
        return np.concatenate([sent["W"].reshape(K, -1), sent["b"]], axis=1)

    return play


def permutation(play: Play, stack: Stack) -> Gap:
    """Whoever stands where: shuffled rows come out as the rows do, shuffled."""
    shuffled, order = stack.shuffled()
    present = stack.reports[order]
    return gap(play(shuffled)[present], play(stack)[order][present], size_of(stack))


def absent_rows(play: Play, stack: Stack) -> Gap:
    """Rows that did not report may hold anything, not-a-number too."""
    present = stack.reports
    return gap(play(stack.with_anything_absent())[present], play(stack)[present], 0.0)


def finite(play: Play, stack: Stack) -> Gap:
    """Finite rows come out finite: zeros and equal rows, too."""
    equal = stack.with_equal_rows().rows
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


STAGES = (
    of_stacks(permutation, of_subject),
    of_stacks(absent_rows, of_subject, always=True),
    of_stacks(finite, of_subject, always=True),
    of_stacks(float64, of_subject, always=True),
)
ATTACKS = (
    of_stacks(honest_rows, of_subject, always=True),
    of_stacks(absent_rows, of_subject, always=True),
)
