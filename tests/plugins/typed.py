"""A user's file: pyright's strict mode knows every type in it, and it runs, given a folder."""
# pyright: strict, reportMissingTypeStubs=false, reportUnnecessaryTypeIgnoreComment=true

import sys
from pathlib import Path
from typing import Annotated, Any, assert_type

import jax
import numpy as np
import pandas as pd
from annotated_types import Ge

import fedsim
from fedsim import tree, types
from fedsim.clients import sgd
from fedsim.tree import Tree


@fedsim.rule
def one(row: Annotated[int, Ge(0)] = 0):
    def reduce(updates: types.Updates, context: types.Context) -> Tree:
        del context
        return tree.take(updates.delta, row)

    return reduce


@fedsim.stage
def halve():
    def change(updates: types.Updates, context: types.Context) -> types.Updates:
        del context
        return updates._replace(delta=tree.scale(updates.delta, 0.5))

    return change


@fedsim.attack
def louder(factor: float = 10.0):
    def corrupt(delta: Tree, context: types.Context) -> Tree:
        del context
        return tree.scale(delta, factor)

    return fedsim.row_attack(corrupt)


@fedsim.client
def decayed(strength: float = 0.1) -> types.Client:
    def gradient(
        task: types.Task,
        variables: Tree,
        batch: types.Batch,
        local: Tree,
        shared: types.Shared,
        work: types.Work,
    ) -> tuple[tuple[jax.Array, Tree], Tree]:
        del local, shared, work
        met, g = task.value_and_grad(variables, batch)
        return met, tree.add(g, tree.scale(variables["params"], strength))

    return sgd()._replace(gradient=gradient)


@fedsim.dataset
def coins(samples: int = 100, seed: int = 0) -> fedsim.Arrays:
    x = np.random.default_rng(seed).normal(size=(samples, 3))
    return fedsim.Arrays(x, (x[:, 0] > 0).astype(int))


def init(key: jax.Array) -> dict[str, jax.Array]:
    return {"W": jax.random.normal(key, (3, 2))}


def apply(params: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    return x @ params["W"]


def squared(outputs: jax.Array, y: jax.Array) -> jax.Array:
    return (outputs[:, 1] - outputs[:, 0] - y) ** 2


SCENARIO: dict[str, Any] = {
    "name": "mine",
    "rounds": 2,
    "data": {"kind": "coins", "clients": 5},
    "client": "decayed",
}


def factories_keep_their_signatures() -> None:
    assert_type(one(row=1), types.Rule)
    assert_type(halve(), types.Stage | types.RowStage)
    assert_type(louder(2.0), types.Stage | types.RowStage | types.Aim)
    assert_type(decayed(0.1), types.Client)
    assert_type(coins(samples=10), fedsim.Arrays)
    one(row="first")  # pyright: ignore[reportArgumentType]
    fedsim.rule(coins)  # pyright: ignore[reportArgumentType]
    fedsim.agregate  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]


def results_are_frames(folder: Path) -> None:
    edits = ["server=[halve, one]"]
    result = fedsim.run(
        SCENARIO, seeds=[0, 1], model=(init, apply), loss=squared, edits=edits, out=folder / "a"
    )
    assert_type(result, fedsim.Result)
    assert_type(result.rounds, pd.DataFrame)
    assert_type(result.clients, pd.DataFrame)
    assert_type(result.partition, pd.DataFrame)
    assert_type(result.summary, pd.DataFrame)
    assert_type(result.timing, pd.DataFrame)
    assert_type(result.scenario, dict[str, Any])
    assert_type(result.method, str)
    assert_type(result.status, str)
    assert_type(result.reasons, dict[int, str])
    assert_type(result.model(seed=0), Any)
    assert_type(result.state(seed=0), dict[str, dict[str, Any]])


def stacks_may_be_anything() -> None:
    assert_type(fedsim.aggregate({"kind": "one", "row": 1}, [[1.0], [2.0]], weights=[1, 2]), Any)
    arrived, sent = fedsim.transmit("louder", np.ones((3, 2)), malicious=[1])
    assert_type(arrived, Any)
    assert_type(sent, np.ndarray)
    assert_type(fedsim.as_model(init, apply), types.Model)


def directories_can_be_read_again(folder: Path) -> None:
    given: dict[str, Any] = {"model": (init, apply), "loss": squared}
    assert_type(fedsim.diff(folder / "a", folder / "a").equal, bool)
    assert_type(fedsim.verify(folder / "a", **given).equal, bool)
    assert_type(fedsim.load_model(next(folder.glob("a/*.safetensors"))), dict[str, Any])
    try:
        fedsim.run(SCENARIO, edits=["client.strenth=1"])
    except fedsim.ScenarioError as error:
        assert_type(error.problems[0].line, int | None)
        print(error)


if __name__ == "__main__":
    results_are_frames(Path(sys.argv[1]))
    stacks_may_be_anything()
    directories_can_be_read_again(Path(sys.argv[1]))
