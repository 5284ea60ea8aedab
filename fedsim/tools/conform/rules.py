"""Laws of rules: what the aggregate of a stack of updates is, as the stack changes."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.tools.conform.rows import D, Gap, K, Play, Stack, gap, of_stacks, size_of
from fedsim.tools.conform.subjects import Section, Subject

SHIFT = np.array([1.0, -2.0, 3.0, 0.5])
FACTOR = 3.0


def as_play(section: Section, needs: frozenset[str]) -> Play:
    """What a fresh rule makes of a stack of two leaves, in float64."""
    more: dict[str, Any] = {}
    if "reference" in needs:
        more["reference"] = {"W": np.ones((2, 1)), "b": np.ones(D - 2)}
    if "server_loss" in needs:
        more["server_loss"] = _away_from_one

    def play(stack: Stack) -> np.ndarray:
        updates = {"W": stack.rows[:, :2].reshape(K, 2, 1), "b": stack.rows[:, 2:]}
        losses = {"loss": stack.loss} if "loss" in needs else {}
        step = aggregate(section, updates, weights=stack.samples, **losses, **more)
        return np.concatenate([np.ravel(step["W"]), np.ravel(step["b"])])

    return play


def _away_from_one(params: Any) -> Any:
    return sum(jnp.sum((leaf - 1) ** 2) for leaf in params.values())


def of_subject(subject: Subject) -> Play:
    """The rule of a subject."""
    return as_play(subject.section, subject.made.needs)


def permutation(play: Play, stack: Stack) -> Gap:
    """Whoever stands where: the aggregate of shuffled rows is that of the rows."""
    shuffled, _ = stack.shuffled()
    return gap(play(shuffled), play(stack), size_of(stack))


def translation(play: Play, stack: Stack) -> Gap:
    """The aggregate of rows that are moved by t is moved by t."""
    moved = stack._replace(rows=stack.rows + SHIFT)
    return gap(play(moved), play(stack) + SHIFT, size_of(moved))


def scale(play: Play, stack: Stack) -> Gap:
    """The aggregate of three times the rows is three times the aggregate."""
    scaled = stack._replace(rows=FACTOR * stack.rows)
    return gap(play(scaled), FACTOR * play(stack), size_of(scaled))


def equal_rows(play: Play, stack: Stack) -> Gap:
    """Clients that agree are believed: the aggregate of equal rows is that row."""
    same = stack.with_equal_rows()
    return gap(play(same), same.rows[0], size_of(same))


def samples(play: Play, stack: Stack) -> Gap:
    """Weights are sample counts: two equal rows of n and m samples count as one of n + m."""
    present = np.flatnonzero(stack.reports)
    first, second = present[:2]
    twin = stack.rows.copy()
    twin[second] = twin[first]
    loss = stack.loss.copy()
    loss[second] = loss[first]
    apart = Stack(twin, stack.samples, loss)
    together = stack.samples.copy()
    together[first] += together[second]
    together[second] = 0
    return gap(play(Stack(twin, together, loss)), play(apart), size_of(stack))


def absent_rows(play: Play, stack: Stack) -> Gap:
    """Rows that did not report may hold anything, not-a-number too."""
    return gap(play(stack.with_anything_absent()), play(stack), 0.0)


def finite(play: Play, stack: Stack) -> Gap:
    """Finite rows have a finite aggregate: zeros, equal rows and one row that is not zero, too."""
    alone = np.zeros_like(stack.rows)
    row = np.argmax(stack.reports)
    alone[row] = stack.rows[row]
    equal = stack.with_equal_rows().rows
    for rows in (stack.rows, np.zeros_like(stack.rows), equal, alone):
        actual = play(stack._replace(rows=rows))
        if not np.isfinite(actual).all():
            return actual, np.zeros(D)
    return None


def float64(play: Play, stack: Stack) -> Gap:
    """In float64 the aggregate is float64, in type and in its last bits."""
    actual = play(stack)
    rounded = actual.astype(np.float32).astype(np.float64)
    is_coarse = (actual * 2**16 == np.round(actual * 2**16)).all()  # as votes are
    if actual.dtype != np.float64 or ((rounded == actual).all() and not is_coarse):
        finer = play(stack._replace(rows=stack.rows.astype(np.float32).astype(np.float64)))
        if actual.dtype != np.float64 or (finer == actual).all():
            return actual, actual.astype(np.float64)
    return None


LAWS = (
    of_stacks(permutation, of_subject),
    of_stacks(translation, of_subject),
    of_stacks(scale, of_subject),
    of_stacks(equal_rows, of_subject),
    of_stacks(samples, of_subject, fewer=1),
    of_stacks(absent_rows, of_subject, always=True),
    of_stacks(finite, of_subject, always=True),
    of_stacks(float64, of_subject, always=True),
)
