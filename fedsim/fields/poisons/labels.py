"""Attacks on labels: flipped, random, and wrong for rare samples."""

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from fedsim.compose import data_attack
from fedsim.data import Poison

Label = Annotated[int, Ge(0)]
Share = Annotated[float, Gt(0), Le(1)]


@data_attack
def label_flip(
    map: Literal["mirror", "next"] | None = None,
    source: Label | None = None,
    target: Label | None = None,
) -> Poison:
    """Every malicious client trains on flipped labels, by one map of the C classes.

    mirror: y ← C − 1 − y;   next: y ← (y + 1) mod C;   with source and target: y ← target where
    y = source, else y.

    With an odd number of classes, mirror leaves the middle one unchanged. With source and target,
    `attack_success` is the share of test samples of the source class that the model takes for the
    target; the maps of all classes have no target.

    Knows: the clients' own samples.    Cost: a copy of the labels, before training.
    Needs: samples with a label each.

    Args:
      map: map of all classes; mirror if nothing is given.
      source: the only class that is flipped; with `target`.
      target: what it becomes.

    References:
      Tolpegin et al. 2020, Data Poisoning Attacks Against Federated Learning Systems,
      arXiv:2007.08432 (source to target); Karimireddy et al. 2021, Learning from History for
      Byzantine Robust Optimization, arXiv:2012.10333 (mirror).
    """
    if (source is None) != (target is None):
        raise ValueError("source and target are given together, or neither")
    if source is not None and map is not None:
        raise ValueError("map and source are both given; remove one of them")
    if source is not None and source == target:
        raise ValueError(f"source and target are both {source}; nothing would be flipped")

    def samples(x, y, classes, place, rng):
        if source is not None and target is not None:
            return x, np.where(y == source, np.asarray(target, y.dtype), y)
        if map == "next":
            return x, (y + 1) % classes
        return x, classes - 1 - y

    among = None if source is None else lambda x, y: y == source
    return Poison(
        samples,
        features="ignores",
        target=target,
        among=among,
        refusal=within(source=source, target=target),
    )


@data_attack
def label_random() -> Poison:
    """Every malicious client trains on random labels.

    y ← U{0, ..., C − 1}, drawn once for every sample regardless of its label: a label stays right
    with probability 1/C. (Under `data.skew`, `label_noise` draws among the wrong labels.)

    Knows: the clients' own samples.    Cost: a copy of the labels, before training.
    Needs: samples with a label each.

    References:
      Zhang et al. 2017, Understanding Deep Learning Requires Rethinking Generalization,
      arXiv:1611.03530 (random labels).
    """

    def samples(x, y, classes, place, rng):
        return x, rng.integers(0, classes, len(y))

    return Poison(samples, features="ignores")


@data_attack
def edge_case(source: Label = 1, target: Label = 0, share: Share = 0.2) -> Poison:
    """A backdoor without a trigger: rare samples of one class are labelled as another.

    Of its n samples of the source class, a malicious client labels as target the max(1,
    round(share·n)) that are furthest from their mean, by Euclidean distance (ties: the first).
    `attack_success` is over the test samples of the source class that are furthest from their mean
    in the test set, chosen in the same way.

    In the paper, edge cases are samples with a low probability under the distribution of the
    clients' data, collected from other sources (airplanes of one airline, digits of another
    century) and mixed with honest ones. Here they are the tail of the given data: available for any
    labelled data, and less extreme.

    Knows: the clients' own samples.
    Cost: a copy of the labels, before training; a small second test set.
    Needs: features that are numbers, and a label for each sample.

    Args:
      source: class whose tail is attacked.
      target: label that it gets.
      share: share of the class that is its tail.

    References:
      Wang et al. 2020, Attack of the Tails: Yes, You Really Can Backdoor Federated Learning,
      arXiv:2007.05084.
    """
    if source == target:
        raise ValueError(f"source and target are both {source}; nothing would be changed")

    def among(x, y):
        return tail(x, y == source, share)

    def samples(x, y, classes, place, rng):
        return x, np.where(among(x, y), np.asarray(target, y.dtype), y)

    return Poison(
        samples,
        features="reads",
        target=target,
        among=among,
        refusal=within(source=source, target=target),
    )


def tail(x: np.ndarray, members: np.ndarray, share: float) -> np.ndarray:
    """Return which members are furthest from their mean.

    Args:
      share: share of the members, at least one of them.

    Returns:
      A mask `[n]`.
    """
    rows = np.flatnonzero(members)
    far = np.zeros(len(x), bool)
    if not len(rows):
        return far
    points = x[rows].reshape(len(rows), -1).astype(np.float64)
    distances = np.linalg.norm(points - points.mean(0), axis=1)
    furthest_first = rows[np.argsort(-distances, kind="stable")]
    far[furthest_first[: count_of(share, len(rows))]] = True
    return far


def count_of(share: float, n: int) -> int:
    """Return how many samples a share of n ≥ 1 is, at least one."""
    return max(1, round(share * n))


def within(**labels: int | None) -> Callable[[tuple[int, ...], int], str]:
    """Return a `Poison.refusal` of labels, by parameter, beyond the classes."""

    def refusal(shape, classes):
        beyond = [
            f"{parameter} {label}"
            for parameter, label in labels.items()
            if label is not None and label >= classes
        ]
        if not beyond:
            return ""
        return (
            f"has {' and '.join(beyond)}, and there are {classes} classes; take 0 to {classes - 1}"
        )

    return refusal
