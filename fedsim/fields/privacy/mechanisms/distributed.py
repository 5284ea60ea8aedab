"""Noise that clients add to their updates as integers, before secure aggregation sums them."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from fedsim import tree
from fedsim.codecs.hadamard import padded, rotate, signs, unrotate
from fedsim.codecs.modular import centred, modular, wraps
from fedsim.codecs.rounding import rounded
from fedsim.fields.privacy.counting.distributed import Lattice, lattice_of
from fedsim.fields.privacy.counting.records import Mechanism as Accounted
from fedsim.fields.privacy.mechanism import Mechanism
from fedsim.fields.privacy.mechanisms.integers import Probabilities, alias_table, draw
from fedsim.types import Codec, Context, RowStage, Updates

ROTATION_SEED = 0  # of the signs, which all clients share in all rounds

# An update is clipped to slightly less than the clip, so that rounding in float32 does not make it
# longer.
SAFETY = 1 - 1e-5
SLACK_SAFETY = 1 - 1e-3  # likewise for the norm of the integers


def distributed(accounted: Accounted, probabilities: Probabilities) -> Mechanism:
    """Return a mechanism of shares of noise.

    Every client clips its update, rotates it, divides it by the granularity γ, rounds it to
    integers, adds a share of the noise, and sends the integers modulo 2^bits. The sum is read as
    numbers around 0, multiplied by γ, rotated back, and divided by the expected clients.

    A client whose update is not finite sends the noise alone.

    Args:
      accounted: what the accountant knows of the mechanism; a run has filled in its counts.
    """

    def wire(clip: float, noise_multiplier: float) -> list[RowStage | Codec]:
        codec = noisy_integers(accounted, probabilities, clip, noise_multiplier)
        return [clipped_or_zero(clip * SAFETY), codec]

    return Mechanism(wire=wire, least=accounted.shares or 0)


def clipped_or_zero(length: float) -> RowStage:
    """Return the stage that clips an update, and replaces one that is not finite by 0."""

    def is_finite(row: Updates) -> Bool[Array, ""]:
        return tree.finite_rows(jax.tree.map(lambda x: x[None], row.delta), 1)[0]

    def apply(row: Updates, context: Context) -> Updates:
        del context
        shortened = tree.clipped(row.delta, length)
        zeros = tree.zeros_like(row.delta)
        return row._replace(delta=tree.select(is_finite(row), shortened, zeros))

    def measure(row: Updates, context: Context):
        del context
        return {"nonfinite": (~is_finite(row)).astype(jnp.int32)}

    return RowStage(apply=apply, name="clip", measure=measure)


def noisy_integers(
    accounted: Accounted, probabilities: Probabilities, clip: float, noise_multiplier: float
) -> Codec:
    """Return the codec of rotated, rounded and noised updates.

    Args:
      noise_multiplier: z, of the noise of all shares.
    """
    bits = accounted.bits

    def lattice() -> Lattice:
        return lattice_of(accounted, noise_multiplier)

    def encode(x, memory, key):
        n = padded(len(x))
        integers = lattice()
        step = jnp.asarray(integers.granularity * clip, x.dtype)
        whole = rounded_within(rotate(x, rotation(n)) / step, integers.slack, key)
        if integers.std > 0:
            noise_key = jax.random.fold_in(key, 0)
            whole += draw(alias_table(probabilities, integers.std), noise_key, n)
        return modular(whole, bits), bits * n, memory

    def decode(payload, d):
        y = centred(payload.upper, bits) * (lattice().granularity * clip)
        return unrotate(y, rotation(padded(d)), d)

    return Codec(
        encode,
        decode,
        most=lambda d: bits * padded(d),
        linear=True,
        wraps=lambda total: wraps(total, bits),
        name=accounted.kind,
    )


def rotation(n: int) -> Float[Array, " n"]:
    """Return the signs of the rotation."""
    return signs(jax.random.key(ROTATION_SEED), n)


def rounded_within(t: Float[Array, " n"], slack: float, key: Key[Array, ""]) -> Int[Array, " n"]:
    """Round at random to integers, again and again until ‖·‖² grows by at most `slack`.

    A rounding is accepted with probability 1 − exp(−½) at least, where the slack is n/4 + c + √n/2
    and ‖t‖ ≤ c.
    """
    limit = slack * SLACK_SAFETY

    def attempt(number):
        u = jax.random.uniform(jax.random.fold_in(key, number), t.shape, t.dtype)
        return number + 1, rounded(t, u)

    def grows_too_much(state):
        _, whole = state
        # A difference of the two squares would have no correct digit.
        up = whole.astype(t.dtype) - t
        return jnp.sum(up * (2 * t + up)) > limit

    first = attempt(jnp.int32(1))
    return jax.lax.while_loop(grows_too_much, lambda state: attempt(state[0]), first)[1]
