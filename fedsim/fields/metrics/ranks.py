"""Samples in the order of their scores: those of a class, the positives, among all others."""

import numpy as np

Steps = tuple[np.ndarray, np.ndarray]
"""Weights of positives, and of negatives, at every distinct score, rising."""


class Ranks:
    """Samples that all count the same, sorted once for all metrics.

    Args:
      scores: of the samples, from 0 to 1 `[n]`.
      is_positive: whether each is of the class `[n]`.
    """

    def __init__(self, scores: np.ndarray, is_positive: np.ndarray):
        # The bits of numbers from 0 to 1 are ordered as they are, and leave one for the class.
        keys = scores.view(np.int64) << 1
        keys |= is_positive
        keys.sort()
        self.keys = keys

    @property
    def _is_positive(self) -> np.ndarray:
        last_bits = self.keys.astype(np.uint8) & 1
        return last_bits.astype(bool)

    def steps(self) -> Steps:
        """Return how many positives and negatives have each score."""
        scores = self.keys >> 1
        last = _last_of_equal(scores)
        positives = np.diff(np.cumsum(self._is_positive)[last], prepend=0)
        both = np.diff(last, prepend=-1)
        return positives.astype(np.float64), (both - positives).astype(np.float64)

    def share_of_ordered_pairs(self) -> float | None:
        """Return the share of pairs whose positive has the larger score; None without pairs."""
        keys = self.keys
        is_positive = self._is_positive
        places = np.flatnonzero(is_positive)
        positives = len(places)
        pairs = positives * (len(keys) - positives)
        if not pairs:
            return None
        before = int(places.sum()) - positives * (positives - 1) // 2

        # Before the positives of a score are its negatives, whose pairs count half.
        last_negative = np.flatnonzero(~is_positive[:-1] & is_positive[1:])
        last_negative = last_negative[keys[last_negative] + 1 == keys[last_negative + 1]]
        first_positive = last_negative + 1
        of_negatives = first_positive - np.searchsorted(keys, keys[last_negative], "left")
        of_positives = np.searchsorted(keys, keys[first_positive], "right") - first_positive
        return (before - int(of_negatives @ of_positives) / 2) / pairs


class WeightedRanks:
    """Samples that count differently.

    Args:
      scores: of the samples `[n]`.
      is_positive: whether each is of the class `[n]`.
    """

    def __init__(self, scores: np.ndarray, is_positive: np.ndarray, weights: np.ndarray):
        order = np.argsort(scores, kind="stable")
        self.scores = scores[order]
        self.weights = weights[order]
        self.is_positive = is_positive[order]

    def steps(self) -> Steps:
        """Return the weights of the positives and of the negatives of each score."""
        last = _last_of_equal(self.scores)
        positives = np.diff(np.cumsum(self.weights * self.is_positive)[last], prepend=0)
        both = np.diff(np.cumsum(self.weights)[last], prepend=0)
        return positives, both - positives

    def share_of_ordered_pairs(self) -> float | None:
        """Return the share of pairs, each as the product of its weights, as `Ranks`."""
        positives, negatives = self.steps()
        pairs = positives.sum() * negatives.sum()
        below = np.cumsum(negatives) - negatives / 2
        return float(positives @ below / pairs) if pairs else None


def _last_of_equal(scores: np.ndarray) -> np.ndarray:
    """Return the place of the last of each distinct score."""
    return np.flatnonzero(np.append(scores[1:] != scores[:-1], True))
