"""Laws of codecs: what arrives of a message, in how many bits."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsim.tools.conform.findings import Inapplicable, as_law
from fedsim.tools.conform.rows import numbers
from fedsim.tools.conform.subjects import Subject
from fedsim.types import Codec, Size

SHAPES = ((2, 2), (3,))  # of the leaves of a message
D = 7
DRAWS = 4000  # messages that are sent at a time, so that a codec compiles once
ALARM = 1e-5  # probability that a law about averages calls an unbiased codec biased


class Sent(NamedTuple):
    """What became of messages, one to a row."""

    arrived: np.ndarray  # [n, d]
    bits: np.ndarray  # [n]


class Channel:
    """A codec by itself, compiled for one length and type of messages."""

    def __init__(self, codec: Codec, d: int = D):
        is_shaped = codec.shaped is not None and d == D
        self.codec: Codec = codec.shaped(SHAPES) if is_shaped and codec.shaped else codec
        self.d = d

        def one(x: Any, key: Any) -> tuple[Any, Any]:
            memory = self.codec.memory(jnp.zeros_like(x))
            payload, bits, _ = self.codec.encode(x, memory, key)
            if isinstance(bits, Size):
                bits = 8 * bits.bytes + bits.bits
            return self.codec.decode(payload, d).astype(x.dtype), jnp.asarray(bits)

        self.one = jax.jit(jax.vmap(one))

    def send(self, messages: np.ndarray, seed: int, same_key: bool = False) -> Sent:
        """Send at most `DRAWS` messages `[n, d]`, each with its own draws, or all with the same."""
        n = len(messages)
        sent = np.resize(messages, (DRAWS, self.d))
        with jax.enable_x64(messages.dtype == np.float64):
            keys = jax.random.split(jax.random.key(seed), DRAWS)
            keys = keys[np.zeros(DRAWS, int)] if same_key else keys
            arrived, bits = self.one(jnp.asarray(sent), keys)
            return Sent(np.asarray(arrived)[:n], np.asarray(bits)[:n])


@functools.lru_cache(1)
def channel_of(subject: Subject) -> Channel:
    """The subject's codec, once compiled."""
    return Channel(subject.made)


def messages_of(seed: int) -> np.ndarray:
    """Messages of several sorts, in float64 `[n, D]`."""
    rng = np.random.default_rng([seed, 50])
    rows = [
        np.zeros(D),
        np.eye(D)[2] * -2.5,
        np.full(D, 0.5),
        np.array([3.0, -4, 0, 1, 0, 0, 0]),
        np.arange(D) - 2.0,
        rng.normal(size=D),
        rng.normal(size=D) * np.logspace(-2, 1, D),
    ]
    return np.stack(rows)


def finite(subject: Subject) -> str:
    """Finite messages arrive finite: zeros, a single number, equal numbers, too."""
    messages = messages_of(subject.seed)
    arrived = channel_of(subject).send(messages, subject.seed).arrived
    return _first(messages, arrived, np.isfinite(arrived))


def zero(subject: Subject) -> str:
    """Zeros arrive as zeros."""
    messages = np.zeros((4, D))
    arrived = channel_of(subject).send(messages, subject.seed).arrived
    return _first(messages, arrived, arrived == 0)


def one_number(subject: Subject) -> str:
    """A message of one number arrives finite."""
    messages = np.array([[2.0], [-1.0], [0.0]])
    arrived = Channel(subject.made, d=1).send(messages, subject.seed).arrived
    return _first(messages, arrived, np.isfinite(arrived))


def same_bits(subject: Subject) -> str:
    """A message takes as many bits in float64 as in float32."""
    messages = messages_of(subject.seed)
    channel = channel_of(subject)
    double = channel.send(messages, subject.seed).bits
    single = channel.send(messages.astype(np.float32), subject.seed).bits
    if subject.made.most is not None:
        raise Inapplicable("bits depend on the message")
    for message, one, other in zip(messages, double, single, strict=True):
        if one != other:
            return f"{numbers(message)} takes {one} bits in float64, {other} in float32"
    return ""


def bits(subject: Subject) -> str:
    """Bits are positive, at most those that are told in advance, and enough to tell messages apart.

    Where b bits are told for all messages and the draws are known, at most 2^b different ones can
    arrive.
    """
    rng = np.random.default_rng([subject.seed, 51])
    most = subject.made.most
    for d in (1, D):
        channel = channel_of(subject) if d == D else Channel(subject.made, d)
        messages = np.round(rng.normal(size=(DRAWS, d)) * 50) / 8
        sent = channel.send(messages, subject.seed, same_key=True)
        declared = most(d) if most is not None else int(sent.bits[0])
        for message, number in zip(messages, sent.bits, strict=True):
            if number <= 0 or number > declared or (most is None and number != declared):
                return f"{numbers(message)} takes {number} bits where {declared} are declared"
        different = len(np.unique(sent.arrived, axis=0))
        if declared < 30 and different > 2**declared:
            text = f"{different} different messages of {d} numbers arrive"
            return f"{text}, and {declared} bits tell {2**declared} apart"
    return ""


def unbiased(subject: Subject) -> str:
    """What arrives is the message on average, by a z-test over 4,000 draws (Holm)."""
    worst = ("", 0.0)
    messages = messages_of(subject.seed)[1:]
    limit = z_limit(ALARM, len(messages) * D)
    for message in messages:
        copies = np.tile(message, (DRAWS, 1))
        arrived = channel_of(subject).send(copies, subject.seed + 1).arrived
        z, error = z_of(arrived - message, np.abs(message).max())
        j = int(np.argmax(np.abs(z)))
        if abs(z[j]) > max(limit, abs(worst[1])):
            mean = arrived[:, j].mean()
            text = f"{numbers(message)}: number {j} is {mean:.4g} ± {error[j]:.2g} on average"
            worst = (f"{text} in place of {numbers(message[j])}", float(z[j]))
    return worst[0]


def z_limit(alarm: float, tests: int) -> float:
    """The |z| that any of several tests exceeds with a given probability at most (Holm's first)."""
    from scipy.stats import norm  # takes a tenth of a second to import

    return float(norm.isf(alarm / tests / 2))


def z_of(errors: np.ndarray, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean errors over draws in standard errors, and these `[d]`; rounding is no error."""
    error = errors.std(axis=0, ddof=1) / np.sqrt(len(errors))
    error = np.maximum(error, 1e-8 * max(size, 1e-300))
    return errors.mean(axis=0) / error, error


def contraction(subject: Subject) -> str:
    """On average ‖C(x) − x‖² is less than ‖x‖² (1 − 1/1000)."""
    messages = messages_of(subject.seed)[1:]
    for message in messages:
        copies = np.tile(message, (DRAWS, 1))
        arrived = channel_of(subject).send(copies, subject.seed + 2).arrived
        ratios = ((arrived - message) ** 2).sum(axis=1) / (message**2).sum()
        error = ratios.std(ddof=1) / np.sqrt(len(ratios))
        if ratios.mean() - 5 * error > 1 - 1e-3:
            return f"{numbers(message)}: ‖C(x) − x‖² is {ratios.mean():.3g} ± {error:.1g} ‖x‖²"
    return ""


def _first(messages: np.ndarray, arrived: np.ndarray, kept: np.ndarray) -> str:
    """The first message that breaks a law in some number, and what arrives of it."""
    for message, actual, holds in zip(messages, arrived, kept, strict=True):
        if not holds.all():
            return f"{numbers(message)} arrives as {numbers(actual)}"
    return ""


LAWS = (
    as_law(finite, always=True),
    as_law(one_number, always=True),
    as_law(same_bits, always=True),
    as_law(bits, always=True),
    as_law(zero),
    as_law(unbiased),
    as_law(contraction),
)
