"""The codecs of `fedsim doctor --bench codecs` in torch, with its own number of threads.

Without `eden`, whose levels are a long table.
"""

import functools

import torch

# As in fedsim/tools/bench/plain_codecs.py.
SPARSE = 0.01
SKETCH = (5, 10_000)
RANK = 4
HADAMARD = 32


def works(x):
    """The codecs on messages `x` `[K, d]`: functions that send all of them, by name.

    Each returns the mean of what arrives.
    """
    messages = list(torch.from_numpy(x))
    d = x.shape[1]

    def of_codec(send, decode=None, memory=None):
        memories = []  # of every client, from the first call

        def work():
            with torch.inference_mode():
                if not memories:
                    memories.extend(() if memory is None else (memory(d),) for _ in messages)
                total = 0
                for message, row in zip(messages, memories, strict=True):
                    total += send(message, *row)
                if decode is not None:
                    total = decode(total, d)
                return total / len(messages)

        return work

    return {name: of_codec(*codec) for name, codec in CODECS.items()}


def cast(x):
    return x.bfloat16().float()


def sketch(x):
    """The table of a count sketch."""
    column, sign = hashes(len(x))
    return torch.zeros(SKETCH).scatter_add_(1, column, sign * x)


def estimate(table, d):
    """The message of a table."""
    column, sign = hashes(d)
    return (table.gather(1, column) * sign).median(0).values


@functools.cache
def hashes(d):
    rows, columns = SKETCH
    return torch.randint(columns, (rows, d)), signs(rows, d)


def signs(*shape):
    return torch.randint(2, shape, dtype=torch.int8).mul_(2).sub_(1).float()


def drive(x):
    """One bit for each coordinate of a rotated message."""
    padded = 1 << (len(x) - 1).bit_length()
    sign = signs(padded)
    y = torch.zeros(padded)
    torch.mul(sign[: len(x)], x, out=y[: len(x)])
    y = transformed(y)
    scale = (y @ y) / y.abs().sum()
    back = transformed(torch.where(y >= 0, scale, -scale))
    return (sign * back)[: len(x)]


def transformed(x):
    """The Walsh–Hadamard transform, by products with small Hadamard matrices."""
    n = len(x)
    left = n
    while left > 1:
        side = min(HADAMARD, left)
        left //= side
        # The product transforms the last axis, and what is written becomes the first one.
        x = (hadamard(side) @ x.view(-1, side).T).view(n)
    return x / n**0.5


@functools.cache
def hadamard(side):
    H = torch.ones(1, 1)
    while len(H) < side:
        H = torch.cat([torch.cat([H, H], 1), torch.cat([H, -H], 1)])
    return H


def low_rank(x, Q):
    """A step of power iteration."""
    M = x.view(side(len(x)), -1).T
    P, _ = torch.linalg.qr(M @ Q)
    torch.matmul(M.T, P, out=Q)
    return (Q @ P.T).flatten()


def first_Q(d):
    return torch.randn(side(d), RANK)


def side(d):
    return max(n for n in range(1, int(d**0.5) + 1) if d % n == 0)


def natural(x):
    """Rounded at random to a power of two."""
    fraction, exponent = torch.frexp(x.abs())
    up = torch.rand_like(x) < 2 * fraction - 1
    power = torch.ldexp(x.sign(), (exponent - 1 + up).clamp_(-126, 127))
    return power.masked_fill_(x.abs() < 2.0**-126, 0)


def product_quantise(x, block=8, codewords=256, iterations=5):
    """The nearest words of a code book, by k-means++ and Lloyd's iterations."""
    sub = torch.nn.functional.pad(x, (0, -len(x) % block)).view(-1, block)
    words = min(codewords, len(sub))
    book = torch.empty(words, block)
    book[0] = sub[torch.randint(len(sub), ())]
    distance = (sub - book[0]).square_().sum(1)
    for i in range(1, words):
        ends = distance.cumsum(0)
        drawn = torch.searchsorted(ends, torch.rand(()) * ends[-1])
        book[i] = sub[drawn.clamp_max(len(sub) - 1)]
        distance = torch.minimum(distance, (sub - book[i]).square_().sum(1))
    for _ in range(iterations):
        codes = nearest(sub, book)
        count = torch.bincount(codes, minlength=words)[:, None]
        total = torch.zeros_like(book).index_add_(0, codes, sub)
        book = torch.where(count > 0, total / count.clamp_min(1), book)
    return book[nearest(sub, book)].flatten()[: len(x)]


def nearest(sub, book):
    """The nearest word of every sub-vector: the least ‖w‖² − 2 ⟨x, w⟩."""
    return torch.addmm(book.square().sum(1), sub, book.T, alpha=-2).argmin(1)


def rounded(t):
    """Rounded at random, up with the probability of the fraction."""
    return t.add_(torch.rand_like(t)).floor_()


def qsgd(x, levels=7):
    """Rounded at random to levels between 0 and the norm."""
    norm = torch.linalg.vector_norm(x)
    return rounded(x.abs() * (levels / norm)) * x.sign() * (norm / levels)


def rand_k(x):
    """Random coordinates, scaled."""
    index = torch.randperm(len(x))[: sent(len(x))]
    return torch.zeros_like(x).index_copy_(0, index, x[index] * (len(x) / len(index)))


def top_k(x):
    """The largest coordinates."""
    index = x.abs().topk(sent(len(x)), sorted=False).indices
    return torch.zeros_like(x).index_copy_(0, index, x[index])


def sent(d):
    return max(int(-(-SPARSE * d // 1)), 1)


def secure_aggregation(x):
    """Integers modulo 2³²."""
    return (x * 2**16).round_().int()


def sign(x):
    """Signs and the mean absolute value."""
    return x.abs().mean() * x.sign()


def stochastic_quantise(x, levels=16):
    """Rounded at random to values between the smallest and the largest."""
    low, high = torch.aminmax(x)
    step = (high - low) / (levels - 1)
    return rounded((x - low) / step) * step + low


def terngrad(x):
    """Rounded at random to three values."""
    size = x.abs()
    scale = size.max()
    return torch.where(torch.rand_like(x) * scale < size, x.sign() * scale, 0)


def threshold(x):
    return torch.where(x.abs() >= 2.5, x, 0)


def lazy(x, received):
    """Sent at random; else what was sent last arrives once more."""
    if torch.rand(()) < 0.5:
        received.copy_(x)
    return received


def around(codec, alpha):
    """The difference to a shift is sent, and both sides move the shift."""

    def send(x, shift):
        step = codec(x - shift)
        shift.add_(step, alpha=alpha)
        return shift if alpha == 1 else shift + (1 - alpha) * step

    return send


def with_error(codec):
    """What is not sent is remembered."""

    def send(x, error):
        corrected = x + error
        arrived = codec(corrected)
        torch.sub(corrected, arrived, out=error)
        return arrived

    return send


CODECS = {
    "cast": (cast,),
    "count_sketch": (sketch, estimate),
    "diana": (around(rand_k, 0.01), None, torch.zeros),
    "drive": (drive,),
    "ef21": (around(top_k, 1), None, torch.zeros),
    "error_feedback": (with_error(top_k), None, torch.zeros),
    "lazy": (lazy, None, torch.zeros),
    "low_rank": (low_rank, None, first_Q),
    "natural": (natural,),
    "product_quantise": (product_quantise,),
    "qsgd": (qsgd,),
    "rand_k": (rand_k,),
    "secure_aggregation": (secure_aggregation, lambda total, d: total / 2**16),
    "sign": (sign,),
    "stochastic_quantise": (stochastic_quantise,),
    "terngrad": (terngrad,),
    "threshold": (threshold,),
    "top_k": (top_k,),
}
