"""Leaves that stay with a client are chosen by name, and what `shares` returns is checked."""

import jax
import jax.numpy as jnp
import pytest
from building import built

from fedsim import ScenarioError, tree
from fedsim.clients import sgd
from fedsim.compose.contract import check_shares
from fedsim.compose.shapes import ContractError
from fedsim.fields.personal.fedper import shared_mask
from fedsim.types import Travel


def written(**sections) -> dict:
    return {
        "name": "personal",
        "rounds": 4,
        "data": {
            "kind": "digits",
            "clients": 12,
            "client_test": 0.3,
            "partition": {"kind": "pathological", "classes": 2},
        },
        "model": {"kind": "mlp", "hidden": [8]},
        "cohort": {"kind": "uniform", "size": 5},
        "client": {"lr": 0.1, "batch": 8, "epochs": 1},
        "evaluate": {"every": 2},
        **sections,
    }  # fmt: skip


MLP = {"layer2": {"W": 0, "b": 0}, "layer10": {"W": 0, "b": 0}}
RESNET = {"last": {"W": 0, "b": 0}, "stem": {"W": 0}, "block8_first": {"W": 0}}
NESTED = {"net": {"Dense_0": {"kernel": 0}, "Dense_1": {"kernel": 0}}}


@pytest.mark.parametrize(
    ("params", "personal", "stay"),
    [
        (MLP, None, ["layer10.W", "layer10.b"]),
        (RESNET, None, ["last.W", "last.b"]),
        (NESTED, None, ["net.Dense_1.kernel"]),
        (MLP, ["b"], ["layer10.b", "layer2.b"]),
        (MLP, ["layer2.W", "layer10.b"], ["layer10.b", "layer2.W"]),
        (RESNET, ["block*"], ["block8_first.W"]),
    ],
)
def test_leaves_are_chosen_by_their_names(params, personal, stay):
    mask = shared_mask(params, personal)
    names = zip(tree.leaf_names(params), jax.tree.leaves(mask), strict=True)
    assert [name for name, shared in names if not shared] == stay


@pytest.mark.parametrize(
    ("personal", "says"),
    [
        (["last"], "personal: no leaf is named 'last'; leaves are W, b"),
        (["W", "b"], "personal: every leaf is personal, and nothing is shared; name some of the"),
        ([], "personal: no leaf is personal; name some of the leaves: leaves are W, b"),
        (None, "the model has a single layer; write in personal which leaves stay, or take a"),
    ],
)
def test_a_head_that_is_nothing_or_everything_is_one_line(personal, says):
    scenario = written(model="logistic", client={"kind": "fedper", "personal": personal})
    with pytest.raises(ScenarioError) as error:
        built(scenario)
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"scenario: client: fedper: {says}")


@pytest.mark.parametrize(
    ("shares", "says"),
    [
        ({"W": True}, "returned shares leaves W; the model has leaves W, b"),
        ({"W": True, "b": 1.0}, "returned shares float for b; expected True or False"),
        ({"W": False, "b": False}, "returned shares without a leaf that travels"),
    ],
)
def test_what_shares_returns_is_held_against_the_model(shares, says):
    method = sgd()._replace(travel=Travel(shares=lambda params: shares))
    with pytest.raises(ContractError, match=says):
        check_shares(method, {"W": jnp.zeros(2), "b": jnp.zeros(1)})
