"""Skews of features, of labels, and of the concept that relates the two."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from fedsim.compose import skew
from fedsim.data.skewing import Skew
from fedsim.errors import PartitionError

QUARTERS = (0.0, 90.0, 180.0, 270.0)  # degrees


@skew
def feature_noise(
    std: Annotated[float, Ge(0)] = 0.1, levels: Literal["linear", "uniform"] = "linear"
) -> Skew:
    """Feature skew: Gaussian noise on the features, with a level that differs between clients.

    x ← x + σ_i·ε, ε ~ N(0, 1) for every feature of every sample of client i, drawn once. `linear`:
    σ_i = std·i/N for the i-th of N clients, i = 1 ... N; `uniform`: σ_i ~ U(0, std). Nothing is
    clipped. A client's training samples and test samples are equally noisy.

    Levels by client number are those of NIID-Bench, whose paper gives σ·i/N as the variance and
    whose code, with i/(N−1) and i from 0, as the standard deviation; here it is the standard
    deviation.

    Args:
      std: standard deviation of the noisiest client, in units of the features (bytes of images
        stand for 0 to 1).
      levels: how levels differ between clients.

    Raises:
      PartitionError: for tokens.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079 (noise-based
      feature imbalance).
    """

    def draw(clients, rng):
        if levels == "linear":
            return std * (np.arange(1, clients + 1) / clients)
        return std * rng.random(clients)

    def features(x, level, rng):
        return x + level * rng.standard_normal(x.shape)

    return Skew(draw, features=features)


@skew
def rotation(
    degrees: Annotated[list[float], MinLen(1)] | None = None,
    max: Annotated[float, Gt(0), Le(180)] | None = None,
) -> Skew:
    """Feature skew: every client's images are rotated counterclockwise by an angle of that client.

    With `degrees`, clients are divided at random into groups of equal size (±1), one for each
    angle; with `max`, client i has an angle θ_i ~ U(−max, max). With neither, there are groups for
    0°, 90°, 180° and 270°. Quarter turns of square images (half turns of any) move pixels exactly;
    other angles are bilinear interpolation in the same frame, with 0 outside the image. A client's
    training images and test images are rotated alike.

    Args:
      degrees: an angle for each group of clients.
      max: largest angle in either direction, in degrees.

    Raises:
      PartitionError: for samples that are not images.

    References:
      Ghosh et al. 2020, An Efficient Framework for Clustered Federated Learning, arXiv:2006.04088
      (Rotated MNIST: groups).
    """
    if degrees is not None and max is not None:
        raise ValueError("degrees and max are both given; remove one of them")

    def draw(clients, rng):
        if max is not None:
            return rng.uniform(-max, max, clients)
        angles = np.asarray(QUARTERS if degrees is None else degrees) % 360
        return angles[groups_of(len(angles), clients, rng)]

    def exact(angles, shape):
        return all(only_moves_pixels(shape, angle) for angle in np.unique(angles))

    return Skew(draw, features=lambda x, angle, rng: rotated(x, angle), images=True, exact=exact)


@skew
def label_noise(
    rate: Annotated[float, Ge(0), Le(1)] = 0.2,
    flip: Literal["symmetric", "pair"] = "symmetric",
    least: Annotated[float, Ge(0), Le(1)] | None = None,
    test: bool = False,
) -> Skew:
    """Label skew: each label of a client's training samples is wrong with probability `rate`.

    `symmetric`: it becomes any of the C−1 other classes, each equally likely; `pair`: class y
    becomes (y + 1) mod C. Labels are drawn once, before training. With `least`, each client has its
    own rate, drawn from U(least, rate).

    Wrong labels are mistakes of the annotators, not a different concept: how often a model agrees
    with them says nothing about its quality. So, unlike under other skews, a client's test samples
    keep their labels unless `test` is set.

    Args:
      rate: probability that a label is wrong, for the noisiest client.
      flip: what a wrong label is.
      least: that probability for the least noisy client; left out: all clients have `rate`.
      test: whether the clients' test samples have wrong labels as often.

    Raises:
      PartitionError: for targets that are not classes, and for labels of tokens.

    References:
      Han et al. 2018, Co-teaching, arXiv:1804.06872 (symmetry flipping, pair flipping); a rate for
      each client as in Xu et al. 2022, FedCorr, arXiv:2204.04677.
    """
    if least is not None and least > rate:
        raise ValueError(f"least {least} is above rate {rate}")

    def draw(clients, rng):
        return np.full(clients, rate) if least is None else rng.uniform(least, rate, clients)

    def labels(y, share, classes, rng):
        if classes < 2:
            raise PartitionError("a wrong label needs two classes, and there is one; remove it")
        wrong = rng.random(len(y)) < share
        offset = rng.integers(1, classes, len(y))  # drawn for `pair` as well
        if flip == "pair":
            offset = 1
        return (y + np.where(wrong, offset, 0)) % classes

    return Skew(draw, labels=labels, test=test)


@skew
def concept_shift(
    groups: Annotated[int, Ge(1)] = 2, every: Annotated[int, Ge(1)] | None = None
) -> Skew:
    """Concept shift: clients of group g see class y as (y + g) mod C, for the same features.

    Clients are divided at random into groups of equal size (±1). With `every`, the concept drifts
    as well: in round r they see (y + g + ⌊(r − 1)/every⌋) mod C. A client's training samples and
    test samples are labelled alike, in final scores as in the last round; the global test set keeps
    its labels.

    Args:
      groups: number of concepts at a time, at most C.
      every: rounds after which all labels move on by one class; left out: they do not move.

    Raises:
      PartitionError: for targets that are not classes, for labels of tokens, and for more groups
        than classes.

    References:
      Sattler et al. 2020, Clustered Federated Learning, arXiv:1910.01991 (groups whose labels are
      permuted); drift as in Jothimurugesan et al. 2023, Federated Learning under Distributed
      Concept Drift, arXiv:2206.00799.
    """

    def draw(clients, rng):
        return groups_of(groups, clients, rng)

    def labels(y, group, classes, rng):
        return (y + group) % classes

    return Skew(draw, labels=labels, every=every or 0, least_classes=groups)


def groups_of(groups: int, clients: int, rng: np.random.Generator) -> np.ndarray:
    """Divide clients at random into groups of equal size (±1) -> group of every client `[N]`.

    A client's group does not depend on how many clients come after it.
    """
    turns = -(-clients // groups)  # rounded up
    in_order = np.tile(np.arange(groups), (turns, 1))  # in each turn, one client of each group
    return rng.permuted(in_order, axis=1).ravel()[:clients]


def rotated(x: np.ndarray, degrees: float) -> np.ndarray:
    """Rotate images `[n, height, width, ...]` counterclockwise in their frame, with 0 outside."""
    if only_moves_pixels(x.shape, degrees):
        return np.rot90(x, round(degrees / 90), (1, 2))
    from scipy.ndimage import rotate  # takes a tenth of a second to import

    return rotate(x, degrees, (1, 2), reshape=False, order=1)


def only_moves_pixels(shape: tuple[int, ...], degrees: float) -> bool:
    """Return whether a rotation of images `[n, height, width, ...]` needs no interpolation."""
    is_square = shape[1] == shape[2]
    return degrees % (90 if is_square else 180) == 0
