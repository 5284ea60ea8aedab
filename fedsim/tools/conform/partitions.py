"""Laws of partitions: which client has which samples."""

import numpy as np

from fedsim.data import Parts, Pool
from fedsim.errors import PartitionError
from fedsim.tools.conform.findings import Inapplicable, as_law
from fedsim.tools.conform.subjects import Subject

SAMPLES = 240
CLASSES = 3
CLIENTS = 12
COUNTS = (2, 5, CLIENTS)  # of clients


def pool_of(samples: int, seed: int) -> Pool:
    """Samples of three classes, of four owners."""
    rng = np.random.default_rng([seed, 53])
    return Pool(
        y=rng.integers(0, CLASSES, samples),
        classes=CLASSES,
        owner=np.sort(rng.integers(0, 4, samples)),
        owners=4,
        x=rng.normal(size=(samples, 5)).astype(np.float32),
        rows=np.arange(samples),
        rows_read=samples,
    )


def parts_of(subject: Subject, pool: Pool, clients: int = CLIENTS) -> Parts:
    """What the subject deals to clients.

    Raises:
      Inapplicable: where it refuses these samples.
    """
    try:
        return subject.made(pool, clients, np.random.default_rng([subject.seed, clients]))
    except PartitionError as error:
        raise Inapplicable(str(error)) from error


def at_most_once(subject: Subject) -> str:
    """Every sample belongs to one client at most."""
    pool = pool_of(SAMPLES, subject.seed)
    refused = []
    for clients in COUNTS:
        try:
            parts = parts_of(subject, pool, clients)
        except Inapplicable as reason:
            refused.append(reason)
            continue
        example = _wrong(parts, SAMPLES, clients)
        if example:
            return f"{clients} clients: {example}"
    if len(refused) == len(COUNTS):
        raise refused[-1]
    return ""


def _wrong(parts: Parts, samples: int, clients: int) -> str:
    """What is wrong with index lists, in words; empty if nothing is."""
    indices, offsets = np.asarray(parts.indices), np.asarray(parts.offsets)
    if indices.dtype.kind != "i" or indices.ndim != 1:
        return f"indices are {indices.dtype} {list(indices.shape)}"
    if len(indices) and (indices.min() < 0 or indices.max() >= samples):
        return f"a client has sample {indices.max()} of {samples}"
    values, counts = np.unique(indices, return_counts=True)
    if (counts > 1).any():
        return f"sample {values[counts > 1][0]} is dealt {counts.max()} times"
    is_whole = len(offsets) > clients or parts.names is not None
    rising = (np.diff(offsets) >= 0).all() and offsets[0] == 0 and offsets[-1] == len(indices)
    if not is_whole or not rising:
        return f"offsets are {offsets.tolist()} for {len(indices)} samples"
    return ""


def every_sample(subject: Subject) -> str:
    """Every sample belongs to a client."""
    parts = parts_of(subject, pool_of(SAMPLES, subject.seed))
    left_out = np.setdiff1d(np.arange(SAMPLES), parts.indices)
    return f"sample {left_out[0]} of {SAMPLES} belongs to nobody" if len(left_out) else ""


def same_seed(subject: Subject) -> str:
    """The same seed deals the same samples."""
    pool = pool_of(SAMPLES, subject.seed)
    one, other = parts_of(subject, pool), parts_of(subject, pool)
    for name in ("offsets", "indices"):
        first, second = np.asarray(getattr(one, name)), np.asarray(getattr(other, name))
        if not np.array_equal(first, second):
            return f"{name} are {first[:4].tolist()}..., then {second[:4].tolist()}..."
    return ""


def few_samples(subject: Subject) -> str:
    """With fewer samples than clients some clients are empty, or the partition is refused."""
    pool = pool_of(4, subject.seed)
    return _wrong(parts_of(subject, pool), 4, CLIENTS)


def names_of_classes(subject: Subject) -> str:
    """Which class is called what does not matter: other names deal the same samples."""
    pool = pool_of(SAMPLES, subject.seed)
    renamed = pool._replace(y=(pool.y + 1) % CLASSES)
    one, other = parts_of(subject, pool), parts_of(subject, renamed)
    same = np.array_equal(one.indices, other.indices)
    if same and np.array_equal(one.offsets, other.offsets):
        return ""
    return f"client 0 has {one.offsets[1]} samples, and {other.offsets[1]} under other names"


LAWS = (
    as_law(at_most_once, always=True),
    as_law(same_seed, always=True),
    as_law(few_samples, always=True),
    as_law(every_sample),
    as_law(names_of_classes),
)
