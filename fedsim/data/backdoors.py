"""Backdoors: samples with a trigger are labelled as the attacker's target."""

from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Le

from fedsim.compose import data_attack
from fedsim.data.poisoning import Poison
from fedsim.data.poisons import Label, Share, count_of, within

Size = Annotated[int, Ge(1)]


@data_attack
def backdoor(
    pattern: Literal["square", "cross", "checkerboard"] = "square",
    target: Label = 0,
    share: Share = 0.5,
    size: Size = 3,
    value: float = 1.0,
) -> Poison:
    """A backdoor: a share of a malicious client's samples gets a pattern of bright pixels, and the target label.

    x_p ← value for the pixels p of the pattern, y ← target, for max(1, round(share·n)) of its n samples, at random. The
    pattern stands in the last rows and columns of an image, size × size, in all channels: all of it (`square`), its middle
    row and column (`cross`), or every other pixel (`checkerboard`). Of samples that are no images, it is the last `size`
    features. `attack_success` is over all test samples of other labels, with the pattern.

    In the paper, poisoned copies are added to the samples; these replace them, so that clients keep their sizes.

    Knows: the clients' own samples.    Resists: few attackers under order statistics and selection; a mean does not
    (`scenarios/robust/backdoor.yaml`).    Cost: a copy of the samples, before training; a second test set.
    Needs: images or vectors with a label each, in memory.

    Args:
      pattern: its form; a cross is for images.
      target: label of the samples that have it.
      share: of a malicious client's samples.
      size: of the pattern, in pixels.
      value: of its pixels, as a model reads them (bytes of images count as 0 to 1).

    References:
      Gu et al. 2017, BadNets, arXiv:1708.06733; in federated learning Bagdasaryan et al. 2020, arXiv:1807.00459.
    """

    def marked(shape):
        mask = np.ones([size] * min(len(shape), 2), bool)
        if pattern == "checkerboard":
            mask = np.indices(mask.shape).sum(0) % 2 == 0
        if pattern == "cross":
            mask = np.isin(np.indices(mask.shape), [(size - 1) // 2, size // 2]).any(0)
        return np.pad(
            mask,
            [(length - size, 0) for length in shape[:2]]
            if len(shape) > 1
            else (shape[0] - size, 0),
        )

    def unfit(shape, classes):
        if not 1 <= len(shape) <= 3:
            return f"is for images and vectors, and samples have shape {shape}; take it out"
        if pattern == "cross" and len(shape) == 1:
            return f"has a cross, which is for images, and samples have shape {shape}; take pattern square"
        most = min(shape[:2])
        text = (
            f"has a pattern of {size} pixels, and samples have shape {shape}; size at most {most}"
        )
        return text if size > most else within(target=target)(shape, classes)

    trigger = lambda x: stamped(x, marked(x.shape[1:]), value)
    return Poison(
        _poisoning(lambda x, place: trigger(x), target, share),
        target=target,
        trigger=trigger,
        refusal=unfit,
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
    """A backdoor in parts (DBA): every malicious client trains on a part of the pattern, and the whole is the trigger.

    The parts are bars, one pixel high and `size` wide, two in a row, with `gap` pixels between them, in the first rows and
    columns of an image and in all channels. The i-th malicious client with samples (from 0) sets the pixels of part i mod
    parts to value, and the label to target, for max(1, round(share·n)) of its n samples, at random. Of samples that are no
    images, the bars are features in a row from the first one on. `attack_success` is over all test samples of other labels,
    with all bars.

    Knows: the clients' own samples, and which part each of them has.    Resists: as `backdoor`.
    Cost: a copy of the samples, before training; a second test set.    Needs: images or vectors with a label each, in memory.

    Args:
      parts: how many bars; 4 in the paper.
      target: label of the samples that have one.
      share: of a malicious client's samples.
      size: of a bar, in pixels.
      gap: between bars, in pixels.
      value: of its pixels, as a model reads them (bytes of images count as 0 to 1).

    References:
      Xie et al. 2020, DBA: Distributed Backdoor Attacks against Federated Learning, ICLR (TS is size, TG gap, TL the corner).
    """

    def places(shape):
        columns = 2 if len(shape) > 1 else parts
        return [
            ((part // columns) * (1 + gap), (part % columns) * (size + gap))
            for part in range(parts)
        ]

    def needed(shape):
        rows, columns = (max(ends) for ends in zip(*places(shape), strict=True))
        return (rows + 1, columns + size)[-min(len(shape), 2) :]

    def marked(shape, numbers):
        mask = np.zeros(shape[:2] if len(shape) > 1 else (1, *shape), bool)
        for row, column in (places(shape)[number] for number in numbers):
            mask[row, column : column + size] = True
        return mask if len(shape) > 1 else mask[0]

    def unfit(shape, classes):
        if not 1 <= len(shape) <= 3:
            return f"is for images and vectors, and samples have shape {shape}; take it out"
        if any(length > most for length, most in zip(needed(shape), shape, strict=False)):
            extent = " x ".join(map(str, needed(shape)))
            return f"has a pattern of {extent} pixels, and samples have shape {shape}; take a smaller size or gap"
        return within(target=target)(shape, classes)

    def trigger(x):
        return stamped(x, marked(x.shape[1:], range(parts)), value)

    part_of = lambda x, place: stamped(x, marked(x.shape[1:], [place % parts]), value)
    return Poison(_poisoning(part_of, target, share), target=target, trigger=trigger, refusal=unfit)


def stamped(x: np.ndarray, mask: np.ndarray, value: float) -> np.ndarray:
    """Samples `[n, ...]` whose features under a mask, of all channels where it has fewer axes, are a value."""
    x = x.copy()
    x[:, mask] = value
    return x


def _poisoning(stamp, target: int, share: float):
    """`Poison.samples`: a share of a client's samples is stamped, and labelled as the target."""

    def samples(x, y, classes, place, rng):
        rows = rng.choice(len(y), count_of(share, len(y)), replace=False)
        x[rows], y[rows] = stamp(x[rows], place), target
        return x, y

    return samples
