"""Comparisons of pure noise for row 25: tables of runs in which some claims would be mistakes."""

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from fedsim.study.claims import APART, BETTER, COSTS, FALLS, IN_TIME, SAME_SCORE, WORST_CASE

UNTRAINED = 0.1  # the score of a model before it is trained
Rows = list[dict[str, Any]]


class Table(NamedTuple):
    """A random comparison.

    Attributes:
      scenario: the parts of the scenario that sentences use.
      summary: rows of `summary.csv`.
      rounds: rows of `rounds.csv`.
      varied: paths that vary.
      false: kinds of claims that are a mistake here, whatever they say.
    """

    scenario: dict[str, Any]
    summary: Rows
    rounds: Rows
    varied: list[str]
    false: frozenset[str]


class Draw(NamedTuple):
    """How scores are drawn.

    Attributes:
      metric: the metric of the scores.
      methods: the number of methods.
      seeds: the number of seeds.
      level: the mean of all scores.
      spread: their standard deviation under a seed; methods also share an offset per seed.
      step: scores are multiples of it; 0: any number.
      tail: whether some runs collapse.
    """

    metric: str
    methods: int
    seeds: int
    level: float
    spread: float
    step: float = 0.0
    tail: bool = False


def drawn(rng: np.random.Generator) -> Draw:
    """Draw a shape: 2 to 8 methods, 2 to 12 seeds, shares or losses, ties, runs that collapse."""
    metric = str(rng.choice([*3 * ["test_accuracy"], "test_loss", "test_r2", "test_mae"]))
    methods = int(rng.integers(2, 9))
    seeds = int(rng.choice([2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 12]))
    level = float(rng.uniform(0.4, 0.9))
    spread = float(10 ** rng.uniform(-3.5, -1.3))
    step = float(rng.choice([0.0, 1 / 360, 1 / 1000])) if metric == "test_accuracy" else 0.0
    return Draw(metric, methods, seeds, level, spread, step, bool(rng.random() < 0.2))


def scores(
    rng: np.random.Generator, draw: Draw, shared: np.ndarray, less: float = 0.0
) -> np.ndarray:
    """Draw the scores of one method, `[seeds]`: the shared offset per seed, and its noise."""
    values = draw.level - less + shared + draw.spread * rng.normal(size=draw.seeds)
    if draw.tail:
        values -= draw.spread * rng.exponential(2.0, draw.seeds)
    if draw.step:
        values = draw.step * np.round(values / draw.step)
    return np.clip(values, 0.0, 1.0) if draw.metric == "test_accuracy" else values


def runs(method: str, draw: Draw, values: np.ndarray, **more: Any) -> Rows:
    """Rows of `summary.csv`, of a run for each seed."""
    return [run(method, s, draw.metric, float(x), **more) for s, x in enumerate(values)]


def run(method: str, seed: int, metric: str, value: float, **more: Any) -> dict[str, Any]:
    """A row of `summary.csv`."""
    scores = {"metric": metric, "final": value, "best": value, "mean_last_k": value, "k": 1}
    return {"method": method, **more, "seed": seed, **scores, "diverged": 0, "status": "done"}


def plain(rng: np.random.Generator) -> Table:
    """Methods that do not differ, under one or several variations."""
    draw = drawn(rng)
    values = [None] if rng.random() < 0.5 else [0.03, 0.1, 0.3][: int(rng.integers(2, 4))]
    unread = rng.random() < 0.3  # an axis that no method reads: the same scores again
    path = "client.lr"
    summary: Rows = []
    first: dict[str, np.ndarray] = {}
    for value in values:
        shared = 3 * draw.spread * rng.normal(size=draw.seeds)
        for m in range(draw.methods):
            of_method = scores(rng, draw, shared)
            if unread:
                of_method = first.setdefault(f"m{m}", of_method)
            more = {} if value is None else {"variant": f"{path}={value}", path: value}
            summary += runs(f"m{m}", draw, of_method, **more)
    varied = [] if values == [None] else [path]
    scenario = {"name": "noise", "compare": {"vary": {path: values} if varied else {}}}
    return Table(scenario, summary, [], varied, frozenset({BETTER, APART}))


def attacked(rng: np.random.Generator) -> Table:
    """Methods that are equally good under each of several attacks, which may differ in strength."""
    draw = drawn(rng)._replace(metric="test_accuracy")
    attacks = ["sign_flip", "gaussian", "zero", "mimic", "fang"][: int(rng.integers(2, 6))]
    shares = [None] if rng.random() < 0.6 else [0.0, 0.2, 0.4]
    hurts = rng.uniform(0, 0.3, len(attacks)) * (rng.random() < 0.5)
    gains = rng.random() < 0.5  # else the models learn nothing at all
    summary: Rows = []
    rounds: Rows = []
    for share, (a, attack) in product(shares, enumerate(attacks)):
        axes = {"wire": f"[{attack}]", **({} if share is None else {"fleet.malicious": share})}
        variant = ", ".join(f"{path}={value}" for path, value in axes.items())
        shared = 3 * draw.spread * rng.normal(size=draw.seeds)
        less = (hurts[a] if share != 0.0 else 0.0) if gains else draw.level - UNTRAINED
        for m in range(draw.methods):
            of_method = scores(rng, draw, shared, less)
            summary += runs(f"m{m}", draw, of_method, variant=variant, **axes)
            rounds += [start(f"m{m}", s, draw.metric, variant) for s in range(draw.seeds)]
    false = frozenset({BETTER, APART, WORST_CASE})
    # where methods gain much and keep it, it is no mistake to say so
    if not gains:
        false |= {FALLS}
    return Table({"name": "noise", "fleet": {"malicious": 0.2}}, summary, rounds, [*axes], false)


def start(method: str, seed: int, metric: str, variant: str) -> dict[str, Any]:
    """Round 0 of a run, as in `rounds.csv`."""
    who = {"method": method, "variant": variant, "seed": seed, "round": 0}
    nothing = {"bytes_up": 0, "bytes_down": 0, "clients_sampled": 0, "virtual_seconds": 0.0}
    return {**who, metric: UNTRAINED, **nothing}


def uneven(rng: np.random.Generator) -> Table:
    """Methods whose worst attacks are equally bad, while they differ under all other attacks."""
    draw = drawn(rng)._replace(metric="test_accuracy", level=0.5, step=0.0, tail=False)
    attacks = ["sign_flip", "gaussian", "zero", "mimic", "fang"][: int(rng.integers(2, 6))]
    fares = rng.choice([0.0, 0.1, 0.3], (draw.methods, len(attacks)))
    fares[:, 0] = 0.0
    summary: Rows = []
    for a, attack in enumerate(attacks):
        shared = 3 * draw.spread * rng.normal(size=draw.seeds)
        for m in range(draw.methods):
            of_method = scores(rng, draw, shared, -fares[m, a])
            axes = {"variant": f"wire=[{attack}]", "wire": f"[{attack}]"}
            summary += runs(f"m{m}", draw, of_method, **axes)
    scenario = {"name": "noise", "fleet": {"malicious": 0.2}}
    return Table(scenario, summary, [], ["wire"], frozenset({WORST_CASE}))


def costly(rng: np.random.Generator) -> Table:
    """Methods that cost less: of the same score, or of one that is worse by exactly the margin."""
    draw = drawn(rng)
    worse = rng.random() < 0.7
    timed = rng.random() < 0.5
    margin = 0.01 if draw.metric == "test_accuracy" else 0.01 * draw.level
    rising = draw.metric in ("test_accuracy", "test_r2")
    less = (margin if rising else -margin) * worse
    draw = draw._replace(step=0.0)
    shared = 3 * draw.spread * rng.normal(size=draw.seeds)
    summary: Rows = []
    rounds: Rows = []
    for m in range(draw.methods):
        of_method = scores(rng, draw._replace(tail=False), shared, less if m else 0.0)
        summary += runs(f"m{m}", draw, of_method)
        for s, x in enumerate(of_method):
            cost = 1000 - 100 * m
            rounds += _played(rng, f"m{m}", s, draw.metric, float(x), cost, timed)
    scenario: dict[str, Any] = {"name": "noise", "compare": {"margin": margin}}
    if timed:
        scenario["fleet"] = {"deadline": 3.0}
    false = {SAME_SCORE} if worse else {BETTER, APART, IN_TIME}
    return Table(scenario, summary, rounds, [], frozenset(false))


def _played(
    rng: np.random.Generator,
    method: str,
    seed: int,
    metric: str,
    score: float,
    cost: int,
    timed: bool,
) -> Iterator[dict[str, Any]]:
    """Yield the rounds of a run that ends with a score; their lengths are independent of it."""
    length = 1.0 if not timed else float(rng.uniform(0.5, 1.5))
    for number in range(4):
        yield {
            "method": method,
            "seed": seed,
            "round": number,
            metric: score if number == 3 else score - 0.1 * rng.random(),
            "bytes_up": 10 * cost * number,
            "bytes_down": 4000 * number,
            "clients_sampled": 10 * (number > 0),
            "virtual_seconds": length * number,
        }


def priced(rng: np.random.Generator) -> Table:
    """Methods that do not differ from a baseline that no variation concerns, as no ε does sgd."""
    draw = drawn(rng)._replace(methods=int(rng.integers(2, 4)))
    values = [0.5, 2.0, 8.0][: int(rng.integers(2, 4))]
    path = "privacy.epsilon"
    shared = 3 * draw.spread * rng.normal(size=draw.seeds)
    of_baseline = scores(rng, draw, shared)
    summary: Rows = []
    for value in values:
        more = {"variant": f"{path}={value}", path: value}
        for m in range(draw.methods):
            of_method = scores(rng, draw, shared) if m else of_baseline
            summary += runs(f"m{m}", draw, of_method, **more)
    scenario = {"name": "noise", "compare": {"vary": {path: values}}}
    return Table(scenario, summary, [], [path], frozenset({BETTER, APART, COSTS}))


Shape = Callable[[np.random.Generator], Table]
SHAPES: tuple[Shape, ...] = (plain, plain, attacked, attacked, uneven, costly, costly, priced)
