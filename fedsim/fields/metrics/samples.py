"""Samples that are scored, and what several metrics read of them: each is computed once."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fedsim.fields.metrics.ranks import Ranks, WeightedRanks

BLOCK = 1 << 14  # rows that fit the cache with what is computed of them


class Samples:
    """Outputs and targets of samples, at least one.

    Args:
      outputs: of the model `[n, ...]`; a single one of classes is the logit of class 1 of two.
      targets: classes `[n]` from 0 on, or numbers `[n, ...]`.
      weights: how much each counts `[n]`; None: all the same.
      names: of the classes; None: their numbers.
    """

    def __init__(
        self,
        outputs: np.ndarray,
        targets: np.ndarray,
        weights: np.ndarray | None = None,
        names: Sequence[Any] | None = None,
    ):
        self.outputs = outputs
        self.targets = targets
        self.weights = weights
        self.names = names
        self._ranks: dict[int, Ranks | WeightedRanks] = {}

    @cached_property
    def logits(self) -> np.ndarray:
        """Logits by class `[C, n]`."""
        logits = self.outputs.reshape(len(self.outputs), -1).T.astype(np.float64, order="C")
        if len(logits) == 1:
            logits = np.concatenate([np.zeros_like(logits), logits])
        return logits

    @cached_property
    def _shifted(self) -> np.ndarray:
        """Logits less the largest of their sample `[C, n]`."""
        return self.logits - self.logits.max(axis=0)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return max(math.prod(self.outputs.shape[1:]), 2)

    def number_of(self, positive: int | str | None) -> int:
        """Return the number of a class by its name; of None, that of the second one."""
        if positive is None:
            return 1
        names: list[Any] = [*(self.names or range(self.classes))]
        return names.index(positive)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """The softmax of the outputs, by class `[C, n]`."""
        exponentials = np.exp(self._shifted)
        exponentials /= exponentials.sum(axis=0)
        return exponentials

    @cached_property
    def log_probabilities(self) -> np.ndarray:
        """Logarithms of the probabilities of the targets `[n]`."""
        of_target = self._shifted[self.targets, np.arange(len(self.targets))]
        return of_target - np.log(np.exp(self._shifted).sum(axis=0))

    def ranks(self, number: int) -> Ranks | WeightedRanks:
        """Return the samples ranked by the probability of a class."""
        if number not in self._ranks:
            scores = self._probabilities_of(number)
            is_positive = self.targets == number
            if self.weights is None:
                self._ranks[number] = Ranks(scores, is_positive)
            else:
                self._ranks[number] = WeightedRanks(scores, is_positive, self.weights)
        return self._ranks[number]

    def _probabilities_of(self, number: int) -> np.ndarray:
        """The softmax of a class `[n]`; one of two is computed without the other."""
        if self.classes != 2:
            return self.probabilities[number]
        columns = self.outputs.reshape(len(self.outputs), -1)
        blocks = np.array_split(columns, -(-len(columns) // BLOCK))
        return np.concatenate([_softmax_of_two(block, number) for block in blocks])

    @cached_property
    def decisions(self) -> np.ndarray:
        """The class of the largest output `[n]`, the first of several."""
        return self.logits.argmax(axis=0)

    @cached_property
    def confusion(self) -> np.ndarray:
        """Weights by class and decision `[C, C]`."""
        cells = self.targets.astype(np.int64) * self.classes + self.decisions
        return np.bincount(cells, self.weights, self.classes**2).reshape(2 * (self.classes,))

    def mean(self, values: np.ndarray) -> float:
        """Return the mean of values `[n]`."""
        return float(np.average(values, weights=self.weights))


def _softmax_of_two(columns: np.ndarray, number: int) -> np.ndarray:
    """The softmax `[n]` of one of two classes, of both logits or that of class 1 `[n, 2 or 1]`."""
    surplus = columns[:, -1].astype(np.float64)
    if columns.shape[1] == 2:
        surplus -= columns[:, 0]
    if number == 0:
        surplus = -surplus
    smaller = np.exp(-np.abs(surplus))  # the larger of both exponentials is 1
    return np.maximum(smaller, surplus > 0) / (1 + smaller)
