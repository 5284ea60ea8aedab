"""The codecs in plain NumPy on one thread, as one writes them by hand."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fedsim.codecs.lloyd_max import centroids, thresholds

SPARSE = 0.01  # the share of coordinates that sparsifiers send
SKETCH = (5, 10_000)  # rows and columns of the count sketch
RANK = 4
HADAMARD = 32  # one product with a matrix of this side is five passes of the transform


class Plain(NamedTuple):
    """A codec in NumPy.

    Attributes:
      send: (message `[d]`, generator) -> what arrives; of a linear codec, what is added up. With a
        memory it is the third argument, and changed.
      decode: (sum of what was sent, d) -> the sum of messages, for a linear codec.
      memory: d -> what a client remembers at the start.
    """

    send: Callable[..., np.ndarray]
    decode: Callable[[np.ndarray, int], np.ndarray] | None = None
    memory: Callable[[int], np.ndarray] | None = None


def receiver(plain: Plain, messages: Sequence[np.ndarray]) -> Callable[[], np.ndarray]:
    """Return a function that sends all messages, each of its own client -> their mean."""
    rng = np.random.default_rng(0)
    d = len(messages[0])
    memories = [() if plain.memory is None else (plain.memory(d),) for _ in messages]

    def receive() -> np.ndarray:
        total: Any = 0
        for message, memory in zip(messages, memories, strict=True):
            total += plain.send(message, rng, *memory)
        if plain.decode is not None:
            total = plain.decode(total, d)
        return total / np.float32(len(messages))

    return receive


def zeros(d: int) -> np.ndarray:
    return np.zeros(d, np.float32)


def cast(x, rng):
    """Rounded to bfloat16, ties to even, by integer arithmetic."""
    bits = x.view(np.uint32)
    rounded = bits + (0x7FFF + (bits >> 16 & 1))
    return (rounded & 0xFFFF0000).view(np.float32)


def sketch(x, rng):
    """The table of a count sketch."""
    rows, columns = SKETCH
    column, sign = _hashes(len(x))
    table = [np.bincount(column[r], sign[r] * x, columns) for r in range(rows)]
    return np.array(table, np.float32)


def estimate(table, d):
    """The message of a table."""
    column, sign = _hashes(d)
    return np.median(np.take_along_axis(table, column, 1) * sign, axis=0)


@functools.cache
def _hashes(d: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = SKETCH
    rng = np.random.default_rng(0)
    return rng.integers(columns, size=(rows, d)), _signs(rng, (rows, d))


def _signs(rng, shape):
    return 1 - 2 * rng.integers(2, size=shape, dtype=np.int8).astype(np.float32)


def drive(x, rng):
    """One bit for each coordinate of a rotated message."""
    signs = _signs(rng, _padded(len(x)))
    y = _rotated(x, signs)
    scale = (y @ y) / np.abs(y).sum()
    return _rotated_back(np.where(y >= 0, scale, -scale), signs, len(x))


def eden(x, rng):
    """The Lloyd–Max values nearest to the coordinates of a rotated message."""
    signs = _signs(rng, _padded(len(x)))
    y = _rotated(x, signs)
    square = y @ y
    levels = np.searchsorted(np.array(thresholds(4), x.dtype), y * np.sqrt(len(y) / square))
    values = np.array(centroids(4), x.dtype)[levels]
    return _rotated_back(square / (y @ values) * values, signs, len(x))


def _padded(d: int) -> int:
    return 1 << (d - 1).bit_length()


def _rotated(x, signs):
    y = np.zeros(len(signs), x.dtype)
    y[: len(x)] = signs[: len(x)] * x
    return _transformed(y)


def _rotated_back(y, signs, d):
    return (signs * _transformed(y.astype(np.float32)))[:d]


def _transformed(x):
    """The Walsh–Hadamard transform, by products with small Hadamard matrices."""
    n = len(x)
    left = n
    while left > 1:
        side = min(HADAMARD, left)
        left //= side
        # The product transforms the last axis, and what is written becomes the first one.
        x = (_hadamard(side) @ x.reshape(-1, side).T).reshape(n)
    return x / np.float32(np.sqrt(n))


@functools.cache
def _hadamard(side: int) -> np.ndarray:
    H = np.ones((1, 1), np.float32)
    while len(H) < side:
        H = np.block([[H, H], [H, -H]])
    return H


def low_rank(x, rng, Q):
    """A step of power iteration."""
    M = x.reshape(_side(len(x)), -1).T
    P, _ = np.linalg.qr(M @ Q)
    Q[:] = M.T @ P
    return (Q @ P.T).ravel()


def first_Q(d):
    return np.random.default_rng(0).standard_normal((_side(d), RANK), np.float32)


def _side(d: int) -> int:
    return max(n for n in range(1, int(d**0.5) + 1) if d % n == 0)


def natural(x, rng):
    """Rounded at random to a power of two."""
    size = np.abs(x)
    fraction, exponent = np.frexp(size)
    up = rng.random(len(x), np.float32) < 2 * fraction - 1
    power = np.ldexp(np.float32(1), np.clip(exponent - 1 + up, -126, 127))
    return np.sign(x) * np.where(size < 2.0**-126, np.float32(0), power)


def product_quantise(x, rng, block=8, codewords=256, iterations=5):
    """The nearest words of a code book, by k-means++ and Lloyd's iterations."""
    sub = np.pad(x, (0, -len(x) % block)).reshape(-1, block)
    words = min(codewords, len(sub))
    book = np.empty((words, block), x.dtype)
    book[0] = sub[rng.integers(len(sub))]
    distance = np.square(sub - book[0]).sum(1)
    for i in range(1, words):
        ends = np.cumsum(distance)
        book[i] = sub[min(np.searchsorted(ends, rng.random() * ends[-1]), len(sub) - 1)]
        distance = np.minimum(distance, np.square(sub - book[i]).sum(1))
    for _ in range(iterations):
        codes = _nearest(sub, book)
        count = np.bincount(codes, minlength=words)
        for column in range(block):
            total = np.bincount(codes, sub[:, column], words)
            book[:, column] = np.where(count > 0, total / np.maximum(count, 1), book[:, column])
    return book[_nearest(sub, book)].reshape(-1)[: len(x)]


def _nearest(sub, book):
    """The nearest word of every sub-vector: the least ‖w‖² − 2 ⟨x, w⟩."""
    return (np.square(book).sum(1) - 2 * sub @ book.T).argmin(1)


def qsgd(x, rng, levels=7):
    """Rounded at random to levels between 0 and the norm."""
    norm = np.sqrt(x @ x)
    t = np.abs(x) * (levels / norm)
    low = np.floor(t)
    level = low + (rng.random(len(x), np.float32) < t - low)
    return np.sign(x) * level * (norm / levels)


def rand_k(x, rng):
    """Random coordinates, scaled."""
    k = _sent(len(x))
    index = rng.choice(len(x), k, replace=False, shuffle=False)
    y = np.zeros_like(x)
    y[index] = x[index] * np.float32(len(x) / k)
    return y


def top_k(x, rng):
    """The largest coordinates."""
    index = np.argpartition(np.abs(x), -_sent(len(x)))[-_sent(len(x)) :]
    y = np.zeros_like(x)
    y[index] = x[index]
    return y


def _sent(d: int) -> int:
    return max(int(np.ceil(SPARSE * d)), 1)


def _around(codec, alpha):
    """The difference to a shift is sent, and both sides move the shift."""

    def send(x, rng, shift):
        step = codec(x - shift, rng)
        shift += np.float32(alpha) * step
        return shift if alpha == 1 else shift + (1 - np.float32(alpha)) * step

    return send


def _with_error(codec):
    """What is not sent is remembered."""

    def send(x, rng, error):
        corrected = x + error
        sent = codec(corrected, rng)
        np.subtract(corrected, sent, out=error)
        return sent

    return send


def lazy(x, rng, received):
    """Sent at random; else what was sent last arrives once more."""
    if rng.random() < 0.5:
        received[:] = x
    return received


def secure_aggregation(x, rng):
    """Integers modulo 2³²."""
    return np.round(x * np.float32(2**16)).astype(np.int32)


def sign(x, rng):
    """Signs and the mean absolute value."""
    return np.abs(x).mean() * np.sign(x)


def stochastic_quantise(x, rng, levels=16):
    """Rounded at random to values between the smallest and the largest."""
    low = x.min()
    step = (x.max() - low) / (levels - 1)
    t = (x - low) / step
    whole = np.floor(t)
    return low + step * (whole + (rng.random(len(x), np.float32) < t - whole))


def terngrad(x, rng):
    """Rounded at random to three values."""
    scale = np.abs(x).max()
    return np.where(rng.random(len(x), np.float32) < np.abs(x) / scale, scale * np.sign(x), 0)


PLAIN = {
    "cast": Plain(cast),
    "count_sketch": Plain(sketch, estimate),
    "diana": Plain(_around(rand_k, 0.01), memory=zeros),
    "drive": Plain(drive),
    "eden": Plain(eden),
    "ef21": Plain(_around(top_k, 1), memory=zeros),
    "error_feedback": Plain(_with_error(top_k), memory=zeros),
    "lazy": Plain(lazy, memory=zeros),
    "low_rank": Plain(low_rank, memory=first_Q),
    "natural": Plain(natural),
    "product_quantise": Plain(product_quantise),
    "qsgd": Plain(qsgd),
    "rand_k": Plain(rand_k),
    "secure_aggregation": Plain(secure_aggregation, lambda total, d: total / np.float32(2**16)),
    "sign": Plain(sign),
    "stochastic_quantise": Plain(stochastic_quantise),
    "terngrad": Plain(terngrad),
    "threshold": Plain(lambda x, rng: np.where(np.abs(x) >= 2.5, x, 0)),
    "top_k": Plain(top_k),
}
