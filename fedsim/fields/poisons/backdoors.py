"""Backdoors: samples with a trigger are labelled as the attacker's target."""

from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from fedsim.compose import data_attack
from fedsim.data import Poison
from fedsim.fields.poisons.labels import Label, Share, count_of, within

Size = Annotated[int, Ge(1)]
Shape = tuple[int, ...]


@data_attack
def backdoor(
    pattern: Literal["square", "cross", "checkerboard"] = "square",
    target: Label = 0,
    share: Share = 0.5,
    size: Size = 3,
    value: float = 1.0,
) -> Poison:
    """A share of a malicious client's samples gets a bright pattern, and the target label.

    x_p ← value for the pixels p of the pattern, y ← target, for max(1, round(share·n)) random ones
    of its n samples. The pattern occupies the last rows and columns of an image, size × size, in
    all channels: all of these pixels (`square`), the middle row and column (`cross`), or every
    other pixel (`checkerboard`). In samples that are not images, it is the last `size` features.
    `attack_success` is over all test samples of other labels, with the pattern.

    In the paper, poisoned copies are added to the samples; here they replace the samples, so that
    clients keep their sizes.

    Knows: the clients' own samples.    Defence: few attackers under order statistics and selection;
    a mean does not (`scenarios/robust/backdoor.yaml`). Cost: a copy of the samples, before
    training; a second test set. Needs: images or vectors with a label each, in memory.

    Args:
      pattern: shape of the pattern; a cross is for images.
      target: label of the samples that have it.
      share: share of a malicious client's samples.
      size: size of the pattern, in pixels.
      value: value of its pixels, as a model sees them (bytes of images stand for 0 to 1).

    References:
      Gu et al. 2017, BadNets, arXiv:1708.06733; in federated learning Bagdasaryan et al. 2020,
      arXiv:1807.00459.
    """

    def pattern_mask(shape: Shape) -> np.ndarray:
        """Pixels of the pattern in a sample, all channels alike."""
        axes = min(len(shape), 2)
        mask = np.ones([size] * axes, bool)
        position = np.indices(mask.shape)
        if pattern == "checkerboard":
            mask = position.sum(0) % 2 == 0
        elif pattern == "cross":
            middle = [(size - 1) // 2, size // 2]  # two rows and columns if the size is even
            mask = np.isin(position, middle).any(0)
        before = [(length - size, 0) for length in shape[:axes]]
        return np.pad(mask, before)

    def refusal(shape: Shape, classes: int) -> str:
        if not 1 <= len(shape) <= 3:
            return f"is for images and vectors, and samples have shape {shape}; remove it"
        if pattern == "cross" and len(shape) == 1:
            return (
                f"has a cross, which is for images, and samples have shape {shape}; "
                "take pattern square"
            )
        largest = min(shape[:2])
        if size > largest:
            return (
                f"has a pattern of {size} pixels, and samples have shape {shape}; "
                f"size at most {largest}"
            )
        return within(target=target)(shape, classes)

    def trigger(x):
        return stamped(x, pattern_mask(x.shape[1:]), value)

    return Poison(
        stamping(lambda x, place: trigger(x), target, share),
        target=target,
        trigger=trigger,
        refusal=refusal,
    )


@data_attack
def distributed_backdoor(
    parts: Annotated[int, Ge(1), Le(1000)] = 4,
    target: Label = 0,
    share: Share = 0.5,
    size: Size = 3,
    gap: Annotated[int, Ge(0)] = 1,
    value: float = 1.0,
) -> Poison:
    """A backdoor in parts (DBA): every malicious client trains on one part of the trigger.

    The parts are bars, one pixel high and `size` wide, two in a row, with `gap` pixels between
    them, in the first rows and columns of an image and in all channels. The i-th malicious client
    with samples (from 0) sets the pixels of part i mod parts to value, and the label to target, for
    max(1, round(share·n)) random ones of its n samples. In samples that are not images, the bars
    are features in a row from the first one on. `attack_success` is over all test samples of other
    labels, with all bars.

    Knows: the clients' own samples, and which part each of them has.    Defence: as `backdoor`.
    Cost: a copy of the samples, before training; a second test set.
    Needs: images or vectors with a label each, in memory.

    Args:
      parts: number of bars; 4 in the paper.
      target: label of the samples that have one.
      share: share of a malicious client's samples.
      size: width of a bar, in pixels.
      gap: distance between bars, in pixels.
      value: value of its pixels, as a model sees them (bytes of images stand for 0 to 1).

    References:
      Xie et al. 2020, DBA: Distributed Backdoor Attacks against Federated Learning, ICLR (TS is
      size, TG gap, TL the corner).
    """

    def corners(shape: Shape) -> list[tuple[int, int]]:
        """Row and column of the first pixel of each bar."""
        per_row = 2 if len(shape) > 1 else parts
        return [
            ((part // per_row) * (1 + gap), (part % per_row) * (size + gap))
            for part in range(parts)
        ]

    def extent(shape: Shape) -> Shape:
        """Height and width of all bars together; their width in samples that are not images."""
        rows, columns = zip(*corners(shape), strict=True)
        height = max(rows) + 1
        width = max(columns) + size
        return (width,) if len(shape) == 1 else (height, width)

    def bars_mask(shape: Shape, bars: list[int]) -> np.ndarray:
        """Pixels of some bars in a sample, all channels alike."""
        is_image = len(shape) > 1
        mask = np.zeros(shape[:2] if is_image else (1, *shape), bool)
        places = corners(shape)
        for bar in bars:
            row, column = places[bar]
            mask[row, column : column + size] = True
        return mask if is_image else mask[0]

    def refusal(shape: Shape, classes: int) -> str:
        if not 1 <= len(shape) <= 3:
            return f"is for images and vectors, and samples have shape {shape}; remove it"
        needed = extent(shape)
        if any(length > available for length, available in zip(needed, shape, strict=False)):
            pixels = " x ".join(map(str, needed))
            return (
                f"has a pattern of {pixels} pixels, and samples have shape {shape}; "
                "take a smaller size or gap"
            )
        return within(target=target)(shape, classes)

    def trigger(x):
        all_bars = list(range(parts))
        return stamped(x, bars_mask(x.shape[1:], all_bars), value)

    def one_part(x, place):
        return stamped(x, bars_mask(x.shape[1:], [place % parts]), value)

    return Poison(
        stamping(one_part, target, share), target=target, trigger=trigger, refusal=refusal
    )


def stamped(x: np.ndarray, mask: np.ndarray, value: float) -> np.ndarray:
    """Set the features of samples `[n, ...]` under a mask to a value.

    If the mask has fewer axes than a sample, it applies to all channels.
    """
    x = x.copy()
    x[:, mask] = value
    return x


def stamping(stamp: Callable[[np.ndarray, int], np.ndarray], target: int, share: float) -> Callable:
    """Return `Poison.samples` that stamps a share of a client's samples and labels them as target.

    Args:
      stamp: (features, number of the malicious client) -> features.
    """

    def samples(x, y, classes, place, rng):
        rows = rng.choice(len(y), count_of(share, len(y)), replace=False)
        x[rows] = stamp(x[rows], place)
        y[rows] = target
        return x, y

    return samples
