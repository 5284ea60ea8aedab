"""Cases of stages and attacks: the rows that arrive behind them, round after round."""

from math import exp, sqrt

import jax.numpy as jnp
import numpy as np

from definitions.cohort import NONE, Case, Cohort, case, compiled, context_of, made, updates_of
from fedsim import tree
from fedsim.compose import FAMILIES, lift
from fedsim.types import Aim, RowStage

ATTACKED = Cohort(malicious=(0, 0, 0, 0, 1, 1))
"""Honest are (1, 0), (3, 4) and (2, 2): of mean (2, 2) and standard deviation (1, 2).

Malicious are (0, -1) and (10, -6).
"""

HONEST = ATTACKED.rows[:4]
MOVED = ATTACKED._replace(params=(2, 1), number=2)
"""The model has moved by (1, 2)."""


def both(*row: float) -> list:
    """The honest rows, and the same one of both malicious clients."""
    return [*HONEST, row, row]


def apart(one: list, other: list) -> list:
    """The honest rows, and those of the two malicious clients."""
    return [*HONEST, one, other]


LONG = 5 / sqrt(136)
"""Of the row (10, -6), to shorten it to 5."""

C = 2 * exp(0.1)
"""A bound of 2 behind a round in which 2 of 5 pass, where half should."""

STAGES = {
    "clip": case(
        {"kind": "clip", "norm": 5.0}, (Cohort(), [*ATTACKED.rows[:5], [10 * LONG, -6 * LONG]])
    ),
    # lengths 1, 5, √8, 1, √136
    "adaptive_clip": case(
        {"kind": "adaptive_clip", "initial": 2.0, "lr": 1.0},
        (
            Cohort(),
            [[1, 0], [1.2, 1.6], NONE, [sqrt(2), sqrt(2)], [0, -1], [4 * LONG, -2.4 * LONG]],
        ),
        (
            Cohort(),
            [
                [1, 0],
                [0.6 * C, 0.8 * C],
                NONE,
                [C / sqrt(2), C / sqrt(2)],
                [0, -1],
                [2 * C * LONG, -1.2 * C * LONG],
            ],
        ),
    ),
    # three nearest: squared distances 20, 5, 2, 117; 20, 5, 34, 149; 5, 5, 13, 128; 2, 34, 13, 125
    "mix_neighbours": case(
        {"kind": "mix_neighbours", "f": 2},
        (Cohort(), [[1, 1 / 3], [2, 2], NONE, [2, 2], [1, 1 / 3], [11 / 3, -7 / 3]]),
    ),
    # k = ⌊2 · 4/5⌋ = 1: the longest becomes as long as the next, 5
    "adaptive_robust_clip": case(
        {"kind": "adaptive_robust_clip", "f": 1},
        (Cohort(), [*ATTACKED.rows[:5], [10 * LONG, -6 * LONG]]),
    ),
    # noise of deviation 2 · 5 / √(2 · 10⁴), and of scale 2 · 8 / 10⁴
    "local_gaussian": case(
        {"kind": "local_gaussian", "norm": 5.0, "epsilon": 1e4, "delta": 1e-5},
        (Cohort(), [*ATTACKED.rows[:5], [10 * LONG, -6 * LONG]]),
    ),
    "local_laplace": case(
        {"kind": "local_laplace", "norm": 8.0, "epsilon": 1e4},
        (Cohort(), [*ATTACKED.rows[:5], [5, -3]]),
    ),
    # one bucket of all five: their mean, in the first row; the others are away
    "bucket": case(
        {"kind": "bucket", "size": 5}, (Cohort(), [[3.2, -0.2], NONE, NONE, NONE, NONE, NONE])
    ),
}

# How far the noise of a stage may carry a number: five deviations, and less than what is tested.
NOISE = {"local_gaussian": 0.36, "local_laplace": 0.03}

ATTACKS = {
    "sign_flip": case({"kind": "sign_flip", "scale": 2.0}, (ATTACKED, apart([0, 2], [-20, 12]))),
    "nonfinite": case({"kind": "nonfinite", "value": "-inf"}, (ATTACKED, both(-np.inf, -np.inf))),
    "constant": case({"kind": "constant", "value": 7.0}, (ATTACKED, both(7, 7))),
    "zero": case({"kind": "zero"}, (ATTACKED, both(0, 0))),
    # two of five: s = 3 - 2, z = Φ⁻¹(2/3) = 0.4307273
    "little_is_enough": case(
        {"kind": "little_is_enough"}, (ATTACKED, both(2 - 0.4307273, 2 - 2 * 0.4307273))
    ),
    # with σ = (√(2/3), √(8/3))
    "little_is_enough, z": case(
        {"kind": "little_is_enough", "z": 1.5, "sign": "plus", "ddof": 0},
        (ATTACKED, both(2 + 1.5 * sqrt(2 / 3), 2 + 1.5 * sqrt(8 / 3))),
    ),
    "inner_product": case({"kind": "inner_product", "epsilon": 0.25}, (ATTACKED, both(-0.5, -0.5))),
    # of what the two would have sent: the mean (5, -3.5)
    "inner_product, own": case(
        {"kind": "inner_product", "epsilon": 0.5, "knowledge": "own"}, (ATTACKED, both(-2.5, 1.75))
    ),
    # p = -(1, 1)/√2 and (1, 0), (3, 4) are √20 apart: γ² + √18 γ + 5 = 20
    "min_max": case(
        {"kind": "min_max"}, (ATTACKED, both(*[2 - (sqrt(78) - sqrt(18)) / 2 / sqrt(2)] * 2))
    ),
    # Σ over the others is 25 at most, and 10 around the mean: 3 γ² = 15
    "min_sum": case({"kind": "min_sum"}, (ATTACKED, both(*[2 - sqrt(5 / 2)] * 2))),
    # samples 1, 2, 1 and 3, 2: γ = 9/5
    "model_replacement": case(
        {"kind": "model_replacement"}, (ATTACKED, apart([0, -1.8], [18, -10.8]))
    ),
    "model_replacement, boost": case(
        {"kind": "model_replacement", "boost": 3.0}, (ATTACKED, apart([0, -3], [30, -18]))
    ),
    # three times as long, but no longer than 10
    "constrain_and_scale": case(
        {"kind": "constrain_and_scale", "norm": 10.0, "boost": 3.0},
        (ATTACKED, apart([0, -3], [20 * LONG, -12 * LONG])),
    ),
    "free_rider": case({"kind": "free_rider"}, (ATTACKED, both(0, 0)), (MOVED, both(1, 2))),
    # at first all coordinates, then one of two, that which moved least
    "neurotoxin": case(
        {"kind": "neurotoxin", "density": 0.5},
        (ATTACKED, ATTACKED.rows),
        (MOVED, apart([0, 0], [10, 0])),
    ),
    # strengths 10, 30, 20, 15, 17.5 do 10, 0, 6, 11, 8.5: 15 times σ = (1, 2) beyond the mean
    "optimised": case(
        {"kind": "optimised", "evaluations": 6, "ratio": 0.5}, (ATTACKED, both(17, 32))
    ),
}

DRAWN = {"gaussian", "fang", "mimic", "aggregate_noise"}
"""Those that draw have tests of their own."""


def arrived(case: Case) -> list[np.ndarray]:
    """What arrives in every round; NaN of rows that do not."""
    family = "stage" if case.link["kind"] in FAMILIES["stage"] else "attack"
    noun = made(family, case.link)
    noun = noun.aim(strongest_at_13) if isinstance(noun, Aim) else noun
    stage = lift(noun) if isinstance(noun, RowStage) else noun
    play = compiled(stage.apply)
    state = stage.init(np.asarray(case.rounds[0].params, np.float32), jnp.ones(6, bool))
    out = []
    for cohort in case.rounds:
        updates, state, info = play(updates_of(cohort, ()), state, context_of(cohort))
        state = state if noun.after is None else noun.after(state, mean_info(info, updates.arrived))
        out.append(np.where(updates.arrived[:, None], updates.delta, np.nan))
    return out


def mean_info(info: dict, present) -> dict:
    """What the rows that arrived report, on average."""
    return {name: np.mean(np.asarray(values)[np.asarray(present)]) for name, values in info.items()}


def strongest_at_13(updates, context):
    """A defence that an attack moves furthest with 13 · (1, 2) beyond the honest mean (2, 2)."""
    strength = updates.delta[4, 0] - 2
    return jnp.stack([2 + jnp.maximum(13 - jnp.abs(strength - 13), 0), jnp.asarray(2.0)])


def of_attack(link: dict, cohort: Cohort, state=None) -> tuple[np.ndarray, tree.Tree]:
    """What an attack makes of a cohort, in some state -> (rows, its next state)."""
    noun = made("attack", link)
    stage = lift(noun) if isinstance(noun, RowStage) else noun
    params = np.asarray(cohort.params, np.float32)
    state = stage.init(params, jnp.ones(len(cohort.rows), bool)) if state is None else state
    updates, state, _ = compiled(stage.apply)(updates_of(cohort, ()), state, context_of(cohort))
    return np.asarray(updates.delta), state
