"""The speed of recurrent and attention layers with weights per client, compared with flax.

`python -m tests.speed_of_models` prints a row for each: seconds of one local step of all lanes
(loss, gradient and the step of sgd, vmapped over the lanes' weights and batches) as median, minimum
and maximum; how many times as long flax takes; and seconds of compiling. The two take turns in one
process. Seconds are processor time, which other programs on the machine affect less than wall time.
"""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from fedsim.engine.threads import jit_for_threads
from fedsim.losses import cross_entropy
from fedsim.models import Tokens, char_gru, char_lstm, transformer

TRIALS = 5


class Case(NamedTuple):
    """One measurement: a network at a size.

    Attributes:
      kind: `char_lstm`, `char_gru` or `transformer`.
      lanes: clients side by side, each with weights of its own.
      width: of the network.
      vocabulary: tokens.
      batch: sequences.
      length: tokens in each.
    """

    kind: str
    lanes: int
    width: int
    vocabulary: int = 80
    batch: int = 10
    length: int = 80


CASES = [
    Case(
        "char_lstm", 1, 256
    ),  # LEAF's; `lanes: auto` of models above 2 MiB is one lane to a thread of a CPU
    Case("char_lstm", 4, 256),
    Case("char_lstm", 8, 64),
    Case("char_gru", 1, 256),
    Case("char_gru", 4, 256),
    Case("char_gru", 8, 64),
    Case("transformer", 1, 128),
    Case("transformer", 8, 128),
]


class Recurrent(nn.Module):
    """Flax's cells in flax's loop."""

    cell: Any
    width: int
    vocabulary: int

    @nn.compact
    def __call__(self, x):
        h: Any = nn.Embed(self.vocabulary, 8)(x)
        for _ in range(2):
            h = nn.RNN(self.cell(self.width))(h)
        return nn.Dense(self.vocabulary)(h[:, -1])


class Attentive(nn.Module):
    """Flax's attention in the blocks of GPT-2."""

    width: int
    vocabulary: int

    @nn.compact
    def __call__(self, x):
        places = self.param("places", nn.initializers.normal(0.02), (x.shape[1], self.width))
        h = nn.Embed(self.vocabulary, self.width)(x) + places
        for _ in range(2):
            h = h + nn.MultiHeadDotProductAttention(4)(
                nn.LayerNorm()(h), mask=nn.make_causal_mask(x)
            )
            h = h + nn.Dense(self.width)(nn.gelu(nn.Dense(4 * self.width)(nn.LayerNorm()(h))))
        return nn.Dense(self.vocabulary)(nn.LayerNorm()(h))


def both(case: Case) -> dict[str, tuple[Callable, Callable]]:
    """(key -> params, (params, x) -> outputs) of ours and of flax's."""
    every = case.kind == "transformer"
    ours = {
        "char_lstm": lambda: char_lstm(width=case.width),
        "char_gru": lambda: char_gru(width=case.width),
        "transformer": lambda: transformer(width=case.width),
    }[case.kind]()
    model = ours((case.length,), case.vocabulary, Tokens(case.vocabulary, every))
    if every:
        theirs = Attentive(case.width, case.vocabulary)
    else:
        theirs = Recurrent(
            {"char_lstm": nn.LSTMCell, "char_gru": nn.GRUCell}[case.kind],
            case.width,
            case.vocabulary,
        )
    example = jnp.zeros((1, case.length), jnp.int32)
    return {
        "fedsim": (
            lambda key: model.init(key)["params"],
            lambda params, x: model.apply({"params": params, "stats": {}}, x, train=True)[0],
        ),
        "flax": (lambda key: theirs.init(key, example), lambda params, x: theirs.apply(params, x)),
    }


def measured(case: Case, trials: int = TRIALS) -> Iterator[dict[str, Any]]:
    """Records of ours, then of flax's."""
    rng = np.random.default_rng(0)
    text = rng.integers(0, case.vocabulary, (case.lanes, case.batch, case.length + 1), np.int32)
    x, y = text[..., :-1], text[..., 1:] if case.kind == "transformer" else text[..., -1]
    programs, seconds, compiling, sizes = {}, {}, {}, set()
    for how, (init, apply) in both(case).items():

        def step(params, x, y, apply=apply):
            loss = lambda params: jnp.mean(cross_entropy()(apply(params, x), y))
            return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))

        params = jax.vmap(init)(jax.random.split(jax.random.key(0), case.lanes))
        sizes.add(sum(leaf.size for leaf in jax.tree.leaves(params)))
        began = time.perf_counter()
        program: Any = jit_for_threads(jax.vmap(step))
        programs[how] = program.lower(params, x, y).compile(), params
        compiling[how], seconds[how] = time.perf_counter() - began, []
    assert len(sizes) == 1, "two networks with different numbers of parameters"
    for trial in range(trials + 1):
        for how, (program, params) in programs.items():
            began = time.process_time()
            jax.block_until_ready(program(params, x, y))
            if trial:  # the first one is warm-up
                seconds[how].append(time.process_time() - began)
    middle = {how: float(np.median(times)) for how, times in seconds.items()}
    for how, times in seconds.items():
        times_ours = middle[how] / middle["fedsim"]
        spread = {
            "seconds": middle[how],
            "least": min(times),
            "most": max(times),
            "times_ours": times_ours,
        }
        yield {**case._asdict(), "how": how, **spread, "compile_seconds": compiling[how]}


def main(kinds: list[str]) -> None:
    print(f"{'':24}{'seconds':>9}{'least':>9}{'most':>9}{'times ours':>12}{'compiling':>11}")
    for case in CASES:
        for record in measured(case) if not kinds or case.kind in kinds else ():
            name = (
                f"{case.kind} {case.lanes} × {case.width}"
                if record["how"] == "fedsim"
                else "  flax"
            )
            numbers = "".join(f"{record[column]:9.4f}" for column in ("seconds", "least", "most"))
            print(
                f"{name:24}{numbers}{record['times_ours']:12.2f}{record['compile_seconds']:11.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
