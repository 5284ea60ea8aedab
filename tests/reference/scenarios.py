"""A run by fedsim, the same run in NumPy, and their comparison."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedsim
from fedsim.assemble.federation import federations_of
from fedsim.data import Holders
from fedsim.types import Model
from reference import loop, problems, tails
from reference.conditions import STEPS, Condition, R, cohorts


def tailed(server: list[dict[str, Any]], condition: Condition) -> list[dict[str, Any]]:
    """Return a rule and what the condition adds after it; an existing optimizer gets its η_g."""
    rule, *tail = server
    if condition.beta is not None:
        return [rule, {"kind": "fedavgm", "lr": condition.lr or 1.0, "momentum": condition.beta}]
    if condition.lr is None:
        return server
    return [rule, {**(tail[0] if tail else {"kind": "sgd"}), "lr": condition.lr}]


TAILS = {
    "sgd": tails.Tail,
    "fedavgm": tails.FedAvgM,
    "fedadagrad": tails.FedAdagrad,
    "fedadam": tails.FedAdam,
    "fedyogi": tails.FedYogi,
}


def scenario(
    client: dict, server: list[dict], lr: float, problem: str, condition: Condition
) -> dict[str, Any]:
    """Return the run's scenario for fedsim."""
    steps = list(STEPS[: len(condition.sizes)]) if condition.uneven else 3
    section = {**client, "lr": lr, "batch": "full", "steps": steps}
    if condition.decay:
        short = {
            "momentum": condition.momentum,
            "nesterov": condition.nesterov,
            "weight_decay": condition.decay,
        }
        section |= short
    elif condition.momentum:
        section |= {"optimizer": {"kind": "sgd", "momentum": condition.momentum}}
    if condition.carry:
        section |= {"optimizer_state": "carry"}
    sections = {"client": section, "server": tailed(server, condition), "cohort": condition.cohort}
    data, numerics = {"clients": len(condition.sizes), "test": 0.0}, {"dtype": "float64"}
    common = {
        "name": "reference",
        "rounds": R,
        "data": data,
        "numerics": numerics,
        "evaluate": {"every": R},
    }
    return {**common, **KINDS[problem], **sections}


def expected(
    train: type, rule: type, server: list[dict], lr: float, problem: str, condition: Condition
) -> loop.Ended:
    """Return the result of the run in NumPy; only `server`'s links after the rule are read."""
    steps = STEPS if condition.uneven else (3,) * len(condition.sizes)
    setting = loop.Setting(
        lr, steps, condition.momentum, condition.carry, condition.nesterov, condition.decay
    )
    ending = None
    for link in tailed(server, condition)[1:]:
        numbers = {"lr": link["lr"]} | (
            {"momentum": link["momentum"]} if link["kind"] == "fedavgm" else {}
        )
        ending = functools.partial(TAILS[link["kind"]], **numbers)
    samples = problems.PROBLEMS[problem](condition.sizes)
    return loop.play(samples, setting, cohorts(condition), train, rule, ending)


def run(written: dict[str, Any], problem: str, sizes: tuple[int, ...]) -> fedsim.Result:
    """Run by `fedsim.run`: client i has the same rows as in the reference."""
    samples = problems.PROBLEMS[problem](sizes)
    data = fedsim.Arrays(samples.x, samples.y)
    return fedsim.run(
        written,
        data=data,
        model=MODELS.get(problem),
        params=tree_of(problem, samples.start),
        partition=consecutive(sizes),
    )


def consecutive(sizes: tuple[int, ...]):
    """Return a partition that gives each client its number of rows, in order; some get none."""

    def partition(scenario, data, dtype):
        offsets = np.cumsum((0, *sizes), dtype=np.int64)
        indices = np.arange(offsets[-1], dtype=np.int32)
        holders = {
            "holders": Holders(indices, offsets),
            "test_holders": Holders(indices[:0], 0 * offsets),
        }
        federations = federations_of(scenario, data, dtype)
        return {seed: f._replace(**holders) for seed, f in federations.items()}

    return partition


def _two_layers() -> Model:
    def features(variables, x):
        return x @ variables["params"]["U"]

    def apply(variables, x, *, mask=None, key=None, train=False):
        return features(variables, x) @ variables["params"]["W"], variables["stats"]

    start = lambda key: {"params": {"U": jnp.zeros((2, 2)), "W": jnp.zeros((2, 3))}, "stats": {}}
    head = lambda variables, z: z @ variables["params"]["W"]
    return Model(init=start, apply=apply, features=features, head=head)


KINDS = {"squares": {"model": "linear"}, "softmax": {"model": "logistic"}, "features": {}}
MODELS: dict[str, Any] = {"features": _two_layers()}
SHAPES = {
    "squares": {"W": (2, 1), "b": (1,)},
    "softmax": {"W": (2, 3), "b": (3,)},
    "features": {"U": (2, 2), "W": (2, 3)},
}


def tree_of(problem: str, flat: np.ndarray) -> dict[str, np.ndarray]:
    shapes = SHAPES[problem]
    cuts = np.cumsum([np.prod(shape) for shape in shapes.values()])[:-1]
    return {
        name: leaf.reshape(shapes[name])
        for name, leaf in zip(shapes, np.split(flat, cuts), strict=True)
    }


def flat(tree: Any) -> np.ndarray:
    """A model as one vector."""
    return np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def compare(result: fedsim.Result, want: loop.Ended) -> None:
    """Assert equal parameters, server states and client memory; empty clients have no weight."""
    close = {"rtol": 1e-9, "atol": 1e-12}
    np.testing.assert_allclose(flat(result.model()), want.x, err_msg="params", **close)
    state = result.state()
    for name, value in want.server.items():
        if name not in state["server"]:  # of a method that sends no parameters
            np.testing.assert_array_equal(value, 0, err_msg=f"server {name}")
            continue
        got = state["server"][name]
        if isinstance(value, dict):
            value = np.array([value.get(i, 0.0) for i in range(len(got))])
        if isinstance(got, dict) and any(leaf is None for leaf in got.values()):
            # leaves that are never sent have no state
            got = fedsim.tree.fill_leaves(got, jax.tree.map(np.zeros_like, result.model()))
        np.testing.assert_allclose(flat(got), value, err_msg=f"server {name}", **close)
    # a carried optimizer state is stored next to the method's
    rows = state["client"].get("method", state["client"])
    for i, row in want.client.items():
        for name, value in row.items():
            got = flat(jax.tree.map(lambda leaf, i=i: leaf[i], rows[name]))
            np.testing.assert_allclose(got, value, err_msg=f"client {i} {name}", **close)
