"""What stays with a client is never sent, and its model is scored with what stayed."""

import jax.numpy as jnp
import numpy as np
import pytest
from building import built
from conftest import oracle
from federations import scenario as of_case
from federations import softmax
from test_lanes import ragged
from test_own_leaves import written

import fedsim
from fedsim import tree
from fedsim.assemble.forecast import forecast, notes
from fedsim.clients import sgd


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "client"),
    [
        ("fedper/softmax5", {"kind": "fedper"}),
        ("fedrep/softmax5", {"kind": "fedrep", "head_steps": 5, "steps": 3}),
    ],
)
def test_own_leaves_are_those_of_the_reference(name, client):
    """Shared parameters after every round, and heads at the end."""
    (case,) = [case for case in oracle("personalisation") if case["name"] == name]
    inputs = case["inputs"]
    d, C, x0 = inputs["d"], inputs["C"], np.asarray(inputs["x0"])
    cut = lambda flat: {"W": flat[: d * C].reshape(d, C), "b": flat[d * C :]}
    model = (
        lambda key: {"W": jnp.zeros((d, C)), "b": jnp.zeros(C)},
        lambda params, x: x @ params["W"] + params["b"],
    )
    seen, sections = [], of_case(case, evaluate={"every": 1})
    sections["client"] |= {"personal": ["b"], **client}
    watch = lambda e, s, row: seen.append(np.asarray(row.server.shared["params"]["W"]).ravel())
    result = fedsim.run(
        sections, data=softmax(inputs)["data"], model=model, params=cut(x0), watch=watch
    )
    assert (result.model()["b"] == x0[d * C :]).all()  # the server's own stays as it began
    want, near = case["expected"], {"rtol": case["rtol"], "atol": case["atol"]}
    np.testing.assert_allclose(seen[1:], np.asarray(want["shared"])[:, : d * C], **near)
    np.testing.assert_allclose(result.state()["client"]["head"]["b"], want["personal"], **near)


def fedper(**sections) -> dict:
    client = {**written()["client"], "kind": "fedper"}
    server = ["mean", {"kind": "sgd", "lr": 0.7}]
    return written(**{"numerics": {"lanes": 4}, "server": server, "client": client, **sections})


def ran(**sections) -> fedsim.Result:
    return fedsim.run(fedper(**sections))


@pytest.mark.long
def test_heads_of_absent_clients_and_of_lost_messages_stay_as_they_began():
    lost = [1, 7]
    cohort = {"kind": "listed", "rounds": [[0, 1], [2, 7]]}
    result = ran(wire=["nonfinite"], fleet={"malicious": lost}, cohort=cohort)
    heads, start = result.state()["client"]["head"]["layer1"]["W"], result.model()["layer1"]["W"]
    moved = np.flatnonzero((heads != start).any((1, 2)))
    assert moved.tolist() == [0, 2] and result.state()["client"]["head"]["layer0"]["W"] is None


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "up", "down"),
    [
        # bits: a value, and ⌈log2 520⌉ for its index
        ({"wire": [{"kind": "top_k", "k": 10}]}, 10 * 42, 32 * 520),
        ({"wire": [{"kind": "cast", "dtype": "bfloat16"}]}, 16 * 520, 32 * 520),
        ({"broadcast": [{"kind": "cast", "dtype": "bfloat16"}]}, 32 * 520, 16 * 520),
    ],
)
def test_codecs_see_the_leaves_that_travel(more, up, down):
    result = ran(**more)
    last = result.rounds.iloc[-1]
    assert (last["bytes_up"], last["bytes_down"]) == (4 * 5 * -(-up // 8), 4 * 5 * -(-down // 8))
    assert result.clients["personal_loss"].notna().all()


def by_hand(result) -> np.ndarray:
    """Loss of every client's own two-layer network on its own test samples, in NumPy."""
    f = result.experiment.plans[0].federation
    model, head = result.model(), result.state()["client"]["head"]
    x, y = np.concatenate([f.train.x, f.test.x]), np.concatenate([f.train.y, f.test.y])
    losses = []
    for k in range(f.N):
        rows = f.test_holders.indices[f.test_holders.owner == k]
        pixels = x[rows].reshape(len(rows), -1) * f.scale
        hidden = np.maximum(pixels @ model["layer0"]["W"] + model["layer0"]["b"], 0)
        z = hidden @ head["layer1"]["W"][k] + head["layer1"]["b"][k]
        losses.append(np.mean(np.log(np.exp(z).sum(1)) - z[np.arange(len(rows)), y[rows]]))
    return np.array(losses)


@pytest.mark.long
def test_bytes_count_the_leaves_that_travel_and_scores_are_of_each_client_s_own(monkeypatch):
    """Clients are scored in calls with the rows of a few."""
    monkeypatch.setattr(fedsim.engine.scoring.personal, "CALL_BYTES", 4000)
    result = ran()
    np.testing.assert_allclose(result.clients["personal_loss"], by_hand(result), rtol=1e-5)
    assert (result.clients["rounds_joined"] == 0).any()  # with the head of the start model

    body = 4 * (64 * 8 + 8)
    last = result.rounds.iloc[-1]
    assert last["bytes_up"] == last["bytes_down"] == 4 * 5 * body
    told = forecast(result.experiment)
    assert told["bytes_up_a_round"] == told["bytes_down_a_round"] == 5 * body
    cost = result.experiment.plans[0].cost  # what a plan knows before the training
    assert cost.up == cost.down == body


@pytest.mark.long
def test_without_test_samples_of_their_own_there_are_no_scores():
    result = ran(data={**written()["data"], "client_test": 0})
    assert not [name for name in result.clients if name.startswith("personal")]
    (note,) = [note for note in notes(result.experiment) if "personal" in note]
    assert "set data.client_test" in note
    assert not [note for note in notes(built(fedper())) if "personal" in note]


@pytest.mark.long
def test_clients_that_never_train_are_scored_with_the_head_of_the_start():
    data = {**written()["data"], "client_test": 0, "test": {"clients": 0.25}}
    clients = ran(data=data).clients
    never = clients["samples"] == 0
    assert never.sum() == 3 and clients["personal_loss"].notna().equals(never)
    np.testing.assert_allclose(
        clients["personal_loss"][never], clients["global_loss"][never], rtol=1e-6
    )


@fedsim.client
def idle_if_malicious():
    """Clients that the attacker controls do not move."""

    def gradient(task, variables, batch, local, shared, work):
        value, g = task.value_and_grad(variables, batch)
        return value, tree.scale(g, jnp.where(work.malicious, 0, 1))

    return sgd()._replace(
        gradient=gradient, memory=lambda shared, key: {"y": shared["params"]}, finish=_remember
    )


def _remember(task, shared, variables, local, row, work):
    message = sgd().finish(task, shared, variables, local, row, work)
    return message._replace(memory={"y": message.delta})


@pytest.mark.long
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_client_method_knows_whom_the_attacker_controls(lanes):
    sections = {"name": "x", "rounds": 1, "client": "idle_if_malicious", "cohort": "all"}
    sections |= {"fleet": {"malicious": [2, 5]}, "numerics": {"lanes": lanes}}
    result = fedsim.run(sections, data=ragged())
    moved = np.abs(result.state()["client"]["y"]["W"]).max((1, 2)) > 0
    assert np.flatnonzero(~moved).tolist() == [2, 5]
