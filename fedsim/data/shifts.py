"""Skews of features, of labels, and of the concept that leads from one to the other."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le, MinLen

from fedsim.compose import skew
from fedsim.data.skewing import Skew
from fedsim.errors import PartitionError

QUARTERS = (0.0, 90.0, 180.0, 270.0)


@skew
def feature_noise(
    std: Annotated[float, Ge(0)] = 0.1, levels: Literal["linear", "uniform"] = "linear"
) -> Skew:
    """Feature skew: Gaussian noise on the features, of a level that is each client's own.

    x ← x + σ_i·ε, ε ~ N(0, 1) for every feature of every sample of client i, drawn once. `linear`: σ_i = std·i/N for the
    i-th of N clients, i = 1 ... N; `uniform`: σ_i ~ U(0, std). Nothing is clipped. Training samples and the client's own
    test samples are noisy alike.

    Levels by the client's number are those of NIID-Bench, whose paper gives σ·i/N as the variance and whose code, with
    i/(N−1) and i from 0, as the standard deviation; this is the standard deviation.

    Args:
      std: standard deviation of the noisiest client, in units of the features (bytes of images count as 0 to 1).
      levels: how clients differ.

    Raises:
      PartitionError: for tokens, and for samples that stay in their file.

    References:
      Li et al. 2022, Federated Learning on Non-IID Data Silos, arXiv:2102.02079 (noise-based feature imbalance).
    """

    def draw(clients, rng):
        return std * (
            np.arange(1, clients + 1) / clients if levels == "linear" else rng.random(clients)
        )

    def features(x, level, rng):
        return x + level * rng.standard_normal(x.shape)

    return Skew(draw, features=features)


@skew
def rotation(
    degrees: Annotated[list[float], MinLen(1)] | None = None,
    max: Annotated[float, Gt(0), Le(180)] | None = None,
) -> Skew:
    """Feature skew: every client's images are turned, counterclockwise, by its own angle.

    With `degrees`, clients fall into groups of equal size (±1) at random, one group for each angle; with `max`, client i
    has its own angle θ_i ~ U(−max, max). Without either, the groups are 0°, 90°, 180° and 270°. Quarter turns of square
    images (half turns of any) only move pixels, to the bit; other angles are bilinear interpolation in the same frame,
    with 0 outside the image. Training images and the client's own test images are turned alike.

    Args:
      degrees: an angle for each group of clients.
      max: angles reach that far to both sides, in degrees.

    Raises:
      PartitionError: for samples that are no images, or stay in their file.

    References:
      Ghosh et al. 2020, An Efficient Framework for Clustered Federated Learning, arXiv:2006.04088 (Rotated MNIST: groups).
    """
    if degrees is not None and max is not None:
        raise ValueError("degrees and max are both given; take one of them out")

    def draw(clients, rng):
        if max is not None:
            return rng.uniform(-max, max, clients)
        angles = np.asarray(QUARTERS if degrees is None else degrees) % 360
        return angles[groups_of(len(angles), clients, rng)]

    def exact(angles, shape):
        return all(only_moves(shape, angle) for angle in np.unique(angles))

    return Skew(draw, features=lambda x, angle, rng: turned(x, angle), images=True, exact=exact)


@skew
def label_noise(
    rate: Annotated[float, Ge(0), Le(1)] = 0.2,
    flip: Literal["symmetric", "pair"] = "symmetric",
    least: Annotated[float, Ge(0), Le(1)] | None = None,
    test: bool = False,
) -> Skew:
    """Label skew: wrong labels. Each label of a client's training samples becomes another one with probability `rate`.

    `symmetric`: any of the C−1 other classes, each as likely; `pair`: class y becomes (y + 1) mod C. Drawn once, before
    training. With `least`, the rate is each client's own, drawn from U(least, rate).

    Wrong labels are an error of those who labelled, no other world: how often a model agrees with them says nothing of
    how good it is. So a client's own test samples keep their labels, unlike under the other skews, unless `test` is set.

    Args:
      rate: probability that a label is wrong, of the noisiest client.
      flip: what a label becomes.
      least: that of the least noisy client; left out, all have `rate`.
      test: labels of the clients' own test samples are wrong as often.

    Raises:
      PartitionError: for targets that are no classes, and for labels of tokens.

    References:
      Han et al. 2018, Co-teaching, arXiv:1804.06872 (symmetry flipping, pair flipping); rates of the clients' own as in
      Xu et al. 2022, FedCorr, arXiv:2204.04677.
    """
    if least is not None and least > rate:
        raise ValueError(f"least {least} is above rate {rate}")

    def draw(clients, rng):
        return np.full(clients, rate) if least is None else rng.uniform(least, rate, clients)

    def labels(y, share, classes, rng):
        wrong, other = (
            rng.random(len(y)) < share,
            rng.integers(1, classes_to_choose(classes), len(y)),
        )
        return (y + np.where(wrong, other if flip == "symmetric" else 1, 0)) % classes

    return Skew(draw, labels=labels, test=test)


@skew
def concept_shift(
    groups: Annotated[int, Ge(1)] = 2, every: Annotated[int, Ge(1)] | None = None
) -> Skew:
    """Concept shift: the same features, other labels. Clients of group g see class y as (y + g) mod C.

    Clients fall into groups of equal size (±1), drawn at random. With `every`, the concept drifts as well: in round r
    they see (y + g + ⌊(r − 1)/every⌋) mod C. Training samples and the clients' own test samples are labelled alike, those
    in final scores as in the last round; the global test set keeps its labels.

    Args:
      groups: how many concepts there are at a time, at most C.
      every: rounds until all labels move on by one class; left out: they stay.

    Raises:
      PartitionError: for targets that are no classes, for labels of tokens, and for more groups than classes.

    References:
      Sattler et al. 2020, Clustered Federated Learning, arXiv:1910.01991 (groups whose labels are permuted); drift as in
      Jothimurugesan et al. 2023, Federated Learning under Distributed Concept Drift, arXiv:2206.00799.
    """

    def draw(clients, rng):
        return groups_of(groups, clients, rng)

    def labels(y, group, classes, rng):
        return (y + group) % classes

    return Skew(draw, labels=labels, every=every or 0, least_classes=groups)


def groups_of(groups: int, clients: int, rng: np.random.Generator) -> np.ndarray:
    """Group of every client `[N]`: of equal size (±1), at random; it does not depend on how many clients come later."""
    turns = -(-clients // groups)
    return rng.permuted(np.tile(np.arange(groups), (turns, 1)), axis=1).ravel()[:clients]


def turned(x: np.ndarray, degrees: float) -> np.ndarray:
    """Images `[n, height, width, ...]` turned counterclockwise, in the same frame, 0 outside."""
    if only_moves(x.shape, degrees):
        return np.rot90(x, round(degrees / 90), (1, 2))
    from scipy.ndimage import rotate  # a tenth of a second

    return rotate(x, degrees, (1, 2), reshape=False, order=1)


def only_moves(shape: tuple[int, ...], degrees: float) -> bool:
    """Whether a turn of images `[n, height, width, ...]` only moves their pixels."""
    return degrees % (90 if shape[1] == shape[2] else 180) == 0


def classes_to_choose(classes: int) -> int:
    """The number of classes, where there are two at least.

    Raises:
      PartitionError: where there is none but the right one.
    """
    if classes < 2:
        raise PartitionError("a wrong label needs two classes, and there is one; take it out")
    return classes
