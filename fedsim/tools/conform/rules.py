"""Laws of rules: what the aggregate of a stack of updates is, as the stack changes."""

import functools
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from fedsim.assemble import aggregate
from fedsim.tools.conform import rows as stacks
from fedsim.tools.conform.findings import Inapplicable, Law, as_law
from fedsim.tools.conform.rows import D, K, Stack, counterexample, differ, in_words, size_of
from fedsim.tools.conform.subjects import Section, Subject

Play = Callable[[Stack], np.ndarray]
"""Stack -> the aggregate `[D]`."""

Gap = tuple[np.ndarray, np.ndarray] | None
"""(what came out, what should have) where they differ."""

SHIFT = np.array([1.0, -2.0, 3.0, 0.5])
FACTOR = 3.0
WHATEVER = (np.nan, -np.inf, np.inf, 1e30)  # rows of clients that did not report


def as_play(section: Section, needs: frozenset[str]) -> Play:
    """What a fresh rule makes of a stack of two leaves, in float64.

    Args:
      section: the rule's link.
      needs: what it asks for besides updates.
    """
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
    order = np.random.default_rng(int(stack.samples.sum())).permutation(K)
    shuffled = Stack(*(column[order] for column in stack))
    return _gap(play(shuffled), play(stack), size_of(stack))


def translation(play: Play, stack: Stack) -> Gap:
    """The aggregate of rows that are moved by t is moved by t."""
    moved = stack._replace(rows=stack.rows + SHIFT)
    return _gap(play(moved), play(stack) + SHIFT, size_of(moved))


def scale(play: Play, stack: Stack) -> Gap:
    """The aggregate of three times the rows is three times the aggregate."""
    scaled = stack._replace(rows=FACTOR * stack.rows)
    return _gap(play(scaled), FACTOR * play(stack), size_of(scaled))


def equal_rows(play: Play, stack: Stack) -> Gap:
    """Clients that agree are believed: the aggregate of equal rows is that row."""
    row = stack.rows[np.argmax(stack.reports)]
    same = stack._replace(rows=np.tile(row, (K, 1)))
    return _gap(play(same), row, size_of(same))


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
    return _gap(play(Stack(twin, together, loss)), play(apart), size_of(stack))


def absent_rows(play: Play, stack: Stack) -> Gap:
    """Rows that did not report may hold anything, not-a-number too."""
    rows = stack.rows.copy()
    absent = np.flatnonzero(~stack.reports)
    rows[absent] = np.resize(WHATEVER, len(absent))[:, None]
    return _gap(play(stack._replace(rows=rows)), play(stack), 0.0)


def finite(play: Play, stack: Stack) -> Gap:
    """Finite rows have a finite aggregate: zeros, equal rows and one row that is not zero, too."""
    alone = np.zeros_like(stack.rows)
    row = np.argmax(stack.reports)
    alone[row] = stack.rows[row]
    equal = np.tile(stack.rows[row], (K, 1))
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


def _gap(actual: np.ndarray, expected: np.ndarray, size: float) -> Gap:
    """Both, where they differ by more than rounding does for rows of a size."""
    scale_of_both = max(size, float(np.abs(expected).max(initial=0.0)))
    return (actual, expected) if differ(actual, expected, scale_of_both) else None


def tried(law: Callable[[Play, Stack], Gap], fewer: int, subject: Subject) -> str:
    """The smallest stack that breaks a law, in words; empty if none was found.

    Args:
      law: says whether a stack does.
      fewer: by how many rows it makes a stack smaller.
      subject: the rule.
    """
    rule = subject.made
    play = of_subject(subject)
    least = max(rule.least, 1) + fewer
    if min(K, rule.most or K) < least:
        raise Inapplicable(f"needs {least} rows")
    example = counterexample(
        functools.partial(law, play), stacks.stacks(subject.seed, least, rule.most), least
    )
    return "" if example is None else in_words(*example)


def of_rule(function: Callable[[Play, Stack], Gap], always: bool = False, fewer: int = 0) -> Law:
    """A function of a rule and a stack as a law."""
    return as_law(function, always, functools.partial(tried, function, fewer))


LAWS = (
    of_rule(permutation),
    of_rule(translation),
    of_rule(scale),
    of_rule(equal_rows),
    of_rule(samples, fewer=1),
    of_rule(absent_rows, always=True),
    of_rule(finite, always=True),
    of_rule(float64, always=True),
)
