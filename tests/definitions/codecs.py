"""Cases of codecs: what arrives of messages, one after another, and the bits they take.

Where a codec draws, its draws are given.
"""

from collections.abc import Iterator
from math import sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from definitions.cohort import compiled, made
from fedsim.codecs.count_sketch import Hashes, Sketches, estimate, fetch, sketch
from fedsim.codecs.drive import one_bit, restored
from fedsim.codecs.eden import nearest
from fedsim.codecs.eden import restored as restored_by_levels
from fedsim.codecs.lazy import step
from fedsim.codecs.low_rank import orthonormalised, power_step
from fedsim.codecs.natural import to_powers_of_two
from fedsim.codecs.product_quantise import improved
from fedsim.codecs.qsgd import quantised
from fedsim.codecs.stochastic_quantise import quantised as quantised_between
from fedsim.codecs.stochastic_quantise import values as values_between
from fedsim.codecs.terngrad import ternary
from fedsim.codecs.top_k import Sparse
from fedsim.types import Size

Checks = Iterator[tuple[Any, Any]]
"""(what came out, what should have)"""

X = (3, -4, 0, 1)
ONE_OF_TWO = {"kind": "top_k", "k": 1}


def f(values: Any) -> jax.Array:
    return jnp.asarray(values, jnp.float32)


def arrivals(link: dict, *messages: Any, shapes: Any = None) -> list[list[float]]:
    """What a receiver makes of a client's messages, and the bits of the last one behind them.

    Args:
      link: of the codec.
      messages: vectors, of one length.
      shapes: of the leaves of a message, for a codec that encodes each apart.
    """
    codec = made("codec", link)
    codec = codec if shapes is None else codec.shaped(shapes)

    @compiled
    def send(x, memory, key):
        payload, bits, memory = codec.encode(x, memory, key)
        return codec.decode(payload, len(x)), bits, memory

    memory = codec.memory(jnp.zeros(len(messages[0]), jnp.float32))
    out, bits = [], 0
    for number, message in enumerate(messages):
        arrived, bits, memory = send(f(message), memory, jax.random.key(number))
        out.append(np.asarray(arrived, float).tolist())
    whole = 8 * int(bits.bytes) + int(bits.bits) if isinstance(bits, Size) else int(bits)
    return [*out, [whole]]


def of_cast() -> Checks:
    # 2⁻⁸ of 1 is half of the last place, and goes to even; 8 bits hold 3.140625, 11 bits a third as
    # 1365/4096
    yield arrivals({"kind": "cast"}, [1 + 2**-8, 3.1415927]), [[1, 3.140625], [32]]
    yield (
        arrivals({"kind": "cast", "dtype": "float16"}, [1 / 3, 65504]),
        [[1365 / 4096, 65504], [32]],
    )


def of_top_k() -> Checks:
    yield arrivals({"kind": "top_k", "k": 2}, [1, 3, 0, -4]), [[0, 3, 0, -4], [2 * (32 + 2)]]
    yield (
        arrivals({"kind": "top_k", "density": 0.3}, [2, -2, 1, 2]),
        [[2, -2, 0, 0], [68]],
    )  # ⌈1.2⌉, the first of equal ones


def of_rand_k() -> Checks:
    payload = Sparse(f([-4, 1]), jnp.asarray([1, 3]))
    yield made("codec", {"kind": "rand_k", "k": 2}).decode(payload, 4), [0, -8, 0, 2]
    yield (
        made("codec", {"kind": "rand_k", "k": 2, "scale": False}).decode(payload, 4),
        [0, -4, 0, 1],
    )
    arrived, bits = arrivals({"kind": "rand_k", "k": 2}, [1, 1, 1, 1])
    yield [sorted(arrived), bits], [[0, 0, 2, 2], [2 * 32 + 32]]


def of_threshold() -> Checks:
    yield arrivals({"kind": "threshold", "value": 3.0}, X), [[3, -4, 0, 0], [32 + 2 * (32 + 2)]]


def of_sign() -> Checks:
    yield arrivals({"kind": "sign"}, X), [[2, -2, 0, 2], [4 + 32]]
    yield arrivals({"kind": "sign", "scale": False}, X), [[1, -1, 1, 1], [4]]


def of_natural() -> Checks:
    # 3 goes to 4 with probability 3/2 - 1, 5 to 8 with 5/4 - 1
    yield compiled(to_powers_of_two)(f([3, -3, 5, 5]), f([0.4, 0.6, 0.3, 0.2])), [4, -2, 4, 8]
    yield arrivals({"kind": "natural"}, [4, -0.5, 0, 1]), [[4, -0.5, 0, 1], [9 * 4]]


def of_qsgd() -> Checks:
    # 4 · 3/5 = 2.4 and 4 · 4/5 = 3.2
    levels_of = compiled(quantised, static_argnums=2)
    norm, codes = levels_of(f([3, -4]), f([0.1, 0.9]), 4)
    yield [float(norm), *codes.tolist()], [5, 3, -3]
    yield levels_of(f([3, -4]), f([0.5, 0.1]), 4)[1], [2, -4]
    yield arrivals({"kind": "qsgd", "levels": 4}, [0, -4, 0, 0]), [[0, -4, 0, 0], [32 + 4 * 4]]


def of_stochastic_quantise() -> Checks:
    # steps of 1 from 0 to 2: half way up with probability 1/2
    levels_of = compiled(quantised_between, static_argnums=2)
    low, high, codes = levels_of(f([0, 2, 1, 0.5]), f([0.6, 0.6, 0.6, 0.6]), 3)
    yield compiled(values_between, static_argnums=3)(low, high, codes, 3), [0, 2, 1, 0]
    yield levels_of(f([0, 2, 1, 0.5]), f([0.4, 0.4, 0.4, 0.4]), 3)[2], [0, 2, 1, 1]
    yield (
        arrivals({"kind": "stochastic_quantise", "levels": 3}, [-1, 3, 1, -1]),
        [[-1, 3, 1, -1], [2 * 32 + 4 * 2]],
    )


def of_terngrad() -> Checks:
    # kept with probability 3/4, 1, 0, 1/4
    scale, values = compiled(ternary)(f(X), f([0.7, 0.9, 0.5, 0.3]))
    yield [float(scale), *values.tolist()], [4, 1, -1, 0, 0]
    yield arrivals({"kind": "terngrad"}, [4, -4, 0, 4]), [[4, -4, 0, 4], [32 + 2 * 4]]


def of_drive() -> Checks:
    # with signs (1, -1): H (3, -1)/√2 = (2, 4)/√2, S = 10 / (6/√2), or half of 6/√2 for one message
    def there_and_back(x, signs, biased):
        return restored(*one_bit(x, signs, biased), signs, 2)

    through = compiled(there_and_back, static_argnums=2)
    yield through(f([3, 1]), f([1, -1]), False), [10 / 3, 0]
    yield through(f([3, 1]), f([1, -1]), True), [3, 0]
    yield arrivals({"kind": "drive"}, [0, -5]), [[0, -5], [2 + 32]]


def of_eden() -> Checks:
    # H (3, 1)/√2 = (4, 2)/√2, at length √2 (1.265, 0.632): nearest to 1.510417 and 0.452780 of
    # Lloyd and Max
    high, low = 1.510417, 0.452780
    scale = 10 / ((4 * high + 2 * low) / sqrt(2))
    got, levels = compiled(nearest, static_argnums=2)(f([3, 1]), f([1, 1]), 2)
    yield [float(got), *levels.tolist()], [scale, 3, 2]
    back = compiled(restored_by_levels, static_argnums=(3, 4))
    wanted = [scale * (high + low) / sqrt(2), scale * (high - low) / sqrt(2)]
    yield back(got, levels, f([1, 1]), 2, 2), wanted
    yield arrivals({"kind": "eden", "bits": 3}, [0, -5]), [[0, -5], [2 * 3 + 32]]


def of_ef21() -> Checks:
    link = {"kind": "ef21", "codec": ONE_OF_TWO}
    yield arrivals(link, [3, 1], [3, 1], [1, 1]), [[3, 0], [3, 1], [1, 1], [33]]


def of_diana() -> Checks:
    # shifts 0, (1.5, 0), (2.25, 0): of (1.5, 1) the first is sent, of (0.75, 1) the second
    link = {"kind": "diana", "codec": ONE_OF_TWO, "alpha": 0.5}
    yield arrivals(link, [3, 1], [3, 1], [3, 1]), [[3, 0], [3, 0], [2.25, 1], [33]]


def of_error_feedback() -> Checks:
    # left out (0, 1), then of (1, 2) the 1
    link = {"kind": "error_feedback", "codec": ONE_OF_TWO}
    yield arrivals(link, [3, 1], [1, 1], [0, 0]), [[3, 0], [0, 2], [1, 0], [33]]


def of_lazy() -> Checks:
    yield step(f([3, 1]), f([7, 8]), jnp.asarray(True)).received, [3, 1]
    yield step(f([3, 1]), f([7, 8]), jnp.asarray(False)).received, [7, 8]
    yield (
        arrivals({"kind": "lazy", "probability": 1.0}, [3, 1], [0, 2]),
        [[3, 1], [0, 2], [2 * 32 + 1]],
    )
    yield arrivals({"kind": "lazy", "probability": 1e-6}, [3, 1], [0, 2]), [[0, 0], [0, 0], [1]]


def of_low_rank() -> Checks:
    # M Q = (3, 1) at length √10, Mᵀ of it (9, 1)/√10
    P, Q = compiled(power_step)(f([[3, 0], [0, 1]]), f([[1], [1]]))
    yield P @ Q.T, [[2.7, 0.3], [0.9, 0.1]]
    yield compiled(orthonormalised)(f([[3, 1], [4, 0]])), [[0.6, 0.8], [0.8, -0.6]]
    # a matrix of rank 1 arrives as it was, and takes 3 + 3 numbers; a vector as it was
    x = [1, 2, 3, -2, -4, -6, 0.5, 1, 1.5, 8, 9]
    yield arrivals({"kind": "low_rank", "rank": 1}, x, shapes=((3, 3), (2,))), [x, [32 * (6 + 2)]]


def of_product_quantise() -> Checks:
    # 0, 2 are nearest to 1, and 10, 14 to 9
    yield compiled(improved)(f([[0, 2, 10, 14]]), f([[1, 9]])), [[1, 12]]
    x = [1, 2, 9, 0, 1, 2, 9]
    link = {"kind": "product_quantise", "block": 2, "codewords": 2}
    yield arrivals(link, x), [x, [32 * 2 * 2 + 4]]


def of_count_sketch() -> Checks:
    # 1 and -3 meet in the one column, -2 is alone in the other; then the middle one of three rows
    hashes = Hashes(jnp.asarray([[0, 1, 0]]), f([[1, -1, -1]]))
    decode = compiled(estimate)
    table = compiled(sketch, static_argnums=2)(f([1, 2, 3]), hashes, 2)
    yield table, [[-2, -2]]
    yield decode(table, hashes), [-2, 2, 2]
    three = Hashes(jnp.zeros((3, 1), int), f([[1], [1], [-1]]))
    yield decode(f([[5], [7], [-6]]), three), [6]
    yield arrivals({"kind": "count_sketch", "rows": 3, "columns": 4}, X), [list(X), [32 * 3 * 4]]


def of_fetch() -> Checks:
    """FetchSGD's server, with as many columns as coordinates.

    S_u = S, then S_u/2 + S; of their sum S_e the larger number is taken out.
    """
    hashes = Hashes(jnp.asarray([[0, 1]]), f([[1, 1]]))
    nothing = f([[0, 0]])
    serve = compiled(fetch, static_argnums=(3, 4, 5))
    update, memory = serve(f([[3, 1]]), Sketches(nothing, nothing), hashes, 1, 0.5, False)
    yield update, [3, 0]
    yield [memory.momentum, memory.error], [[[3, 1]], [[0, 1]]]
    update, memory = serve(f([[0, 1]]), memory, hashes, 1, 0.5, False)
    yield update, [0, 2.5]
    yield [memory.momentum, memory.error], [[[1.5, 1.5]], [[1.5, 0]]]
    update, memory = serve(f([[3, 1]]), Sketches(nothing, nothing), hashes, 1, 0.5, True)
    yield [memory.momentum, memory.error], [[[0, 1]], [[0, 1]]]


def of_secure_aggregation() -> Checks:
    # quarters, and 31.75 is the last that 8 bits hold: 32 is 128 quarters, which is read as −128
    link = {"kind": "secure_aggregation", "bits": 8, "scale": 4}
    yield arrivals(link, [3, -4.1, 0.3, 31.75, 32, -100]), [[3, -4, 0.25, 31.75, -32, 28], [48]]


CASES = {
    "cast": of_cast,
    "top_k": of_top_k,
    "rand_k": of_rand_k,
    "threshold": of_threshold,
    "sign": of_sign,
    "natural": of_natural,
    "qsgd": of_qsgd,
    "stochastic_quantise": of_stochastic_quantise,
    "terngrad": of_terngrad,
    "drive": of_drive,
    "eden": of_eden,
    "ef21": of_ef21,
    "diana": of_diana,
    "error_feedback": of_error_feedback,
    "lazy": of_lazy,
    "low_rank": of_low_rank,
    "product_quantise": of_product_quantise,
    "count_sketch": of_count_sketch,
    "count_sketch, k": of_fetch,
    "secure_aggregation": of_secure_aggregation,
}
"""By the codec's name, and what is special behind a comma."""
