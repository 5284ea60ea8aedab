"""Client methods and server optimisers: memory, schedules, bytes, and what a method owns."""

import inspect
import re

import jax
import numpy as np
import pytest
from building import built
from conftest import GRAPH_METHODS, own_kinds_of, some
from test_lanes import X64, ragged
from test_own_scores import tuned

import fedsim
from fedsim.compose import FAMILIES
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.scenario.fragments import fragment_of, links_of

CLIENT = {"lr": 0.3, "batch": 4, "epochs": 2}
CLOSE = {"rtol": 1e-12, "atol": 1e-14}


def run(data=None, **sections):
    written = {"name": "methods", "rounds": 4, "client": CLIENT, "numerics": X64, **sections}
    return fedsim.run(written, data=data or ragged())


def client(kind, **more):
    return {**CLIENT, "kind": kind, **more}


MLP = {"kind": "mlp", "hidden": [4]}
ADAM = {"kind": "fedadam", "lr": 0.1}
UNIFORM = [{"kind": "mean", "weights": "uniform"}]


@pytest.mark.long
def test_memory_is_kept_only_where_the_message_arrived():
    """Where a message is dropped as non-finite, the old row stays, and c is the mean of c_i."""
    result = run(
        client=client("scaffold"),
        server=UNIFORM,
        wire=[{"kind": "nonfinite"}],
        fleet={"malicious": [0, 3]},
    )
    state = result.state()
    c_i = state["client"]["c_i"]["W"]
    assert (c_i[[0, 3]] == 0).all() and (np.abs(c_i).max((1, 2)) > 0).sum() == 10
    np.testing.assert_allclose(state["server"]["c"]["W"], c_i.mean(0), rtol=1e-12, atol=1e-15)
    assert result.rounds["n_nonfinite"].tolist() == [0, 2, 2, 2, 2]
    assert np.isfinite(result.model()["W"]).all()


@pytest.mark.long
def test_fedexp_evaluates_the_mean_of_the_last_two_models():
    """The saved model is the last one; steps after the rule count, too."""

    def after(rounds, **rule):
        return run(rounds=rounds, data=parted, server=[{"kind": "fedexp", **rule}, ADAM])

    data = ragged()
    parted = data._replace(x_test=data.x, y_test=data.y)
    one, two = after(2), after(3)
    middle = jax.tree.map(lambda a, b: (a + b) / 2, one.model(), two.model())
    written = {"name": "x", "rounds": 0, "numerics": X64}
    want = fedsim.run(written, data=parted, params=middle).rounds["test_loss"]
    np.testing.assert_allclose(two.rounds["test_loss"].iloc[-1], want.iloc[0], rtol=1e-12)
    last = after(3, average=False)
    np.testing.assert_array_equal(last.model()["W"], two.model()["W"])
    assert abs(last.rounds["test_loss"].iloc[-1] - want.iloc[0]) > 1e-6
    np.testing.assert_array_equal(two.state()["server"]["before"]["W"], one.model()["W"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("per", "rates"), [("round", [0.4, 0.4, 0.2, 0.2]), ("step", [0.4, 0.2, 0.4, 0.2])]
)
def test_a_schedule_goes_by_rounds_or_by_the_steps_of_a_round(per, rates):
    pace = {"init_value": 0.4, "transition_steps": 1, "decay_rate": 0.5}
    halving = {"kind": "exponential_decay", **pace}
    data = ragged(clients=1)
    client = {"batch": "full", "steps": 2, "lr": halving, "lr_per": per}
    got = run(rounds=2, data=data, client=client).model()
    want = {"W": np.zeros((5, 3)), "b": np.zeros(3)}
    for rate in rates:
        want = tuned(want, data.x, data.y, 1, rate)
    np.testing.assert_allclose(got["W"], want["W"], **CLOSE)


SENT = {
    "one model": 1,
    "one model, and one number": 1,
    "one model, and its number": "a byte more",
    "two models": 2,
    "k models": "k",
    "one body": 24 / 39,
    "one head": 15 / 39,
    "the other leaves": 32 / 39,
    "prototypes": 3 * (4 + 1) / 39,
    "one model and a mean": 1 + (4 + 1) / 39,
    "one model and prototypes": 1 + 3 * (4 + 1) / 39,
}
RECEIVED = {"": 1, "receives k": "k", "receives two": 2, "receives three": 3}
LAYERS = ("moon", "fedper", "fedrep", "fedbabu", "lg_fedavg", "fedbn", "fedrod", "fedala")
LAYERS += ("fedproto", "fedpac", "fedas", "dbe", "knn_per")


@pytest.mark.long
@pytest.mark.parametrize(
    "name", some(name for name in own_kinds_of("client") if name not in GRAPH_METHODS)
)
def test_bytes_are_those_that_the_docstring_promises(name):
    """Parameters alone: the ragged clients' model has no statistics."""
    text = FAMILIES["client"][name].__doc__ or ""
    says = re.search(r"Sends: (.*?)(?:, (receives (?:the )?\w+))?[.;]", text)
    assert says, "a client method says what it sends"
    model = MLP if name in LAYERS else "logistic"
    own = client(name, personal=["b"]) if name == "fedbn" else client(name)
    shared = {"rounds": 1, "model": model, **({"cohort": "all"} if name == "cfl" else {})}
    plain, other = run(**shared), run(**shared, client=own)
    if says[1] == "nothing":  # of pooled training, bytes are not counted
        assert not other.rounds[["bytes_up", "bytes_down"]].fillna(0).to_numpy().any()
        return
    times = lambda column: other.rounds[column].iloc[-1] / plain.rounds[column].iloc[-1]
    parameters = inspect.signature(FAMILIES["client"][name]).parameters
    k = next((p.default for p in parameters.values()), None)
    d = sum(leaf.size for leaf in jax.tree.leaves(plain.model()))
    of_words = {"k": k, "a byte more": (4 * d + 1) / (4 * d)}
    sent = SENT[says[1]]
    alike = says[2] in ("receives one", "receives them", "receives the same")
    received = sent if alike else RECEIVED[says[2] or ""]
    assert times("bytes_up") == of_words.get(sent, sent)
    assert times("bytes_down") == of_words.get(received, received)


@pytest.mark.long
def test_rules_that_ask_for_losses_take_one_number_more():
    plain, fair = run(rounds=1), run(rounds=1, method="qfedavg")
    assert (fair.rounds["bytes_up"] - plain.rounds["bytes_up"]).tolist() == [0, 4 * 12]


DATA = {"name": "x", "data": "digits"}
FEDPROX, HALF = {"kind": "fedprox"}, {"kind": "sgd", "lr": 0.5}


def resolved(written, **door):
    return read({**DATA, **written}, **door).resolved()


def test_a_method_owns_the_client_and_the_tail_and_keeps_the_rest():
    written = {
        "client": {"kind": "fedprox", "mu": 3.0, "lr": 0.7, "batch": 5},
        "server": [{"kind": "clip", "norm": 2.0}, "median", {"kind": "adam", "lr": 0.1}],
        "wire": ["sign_flip"],
    }
    got = resolved(written, method="scaffold( lr = 0.5 )")
    own, server = got["client"], got["server"]
    assert (own["kind"], own["lr"], own["batch"]) == ("scaffold", 0.7, 5)
    assert [link["kind"] for link in server] == ["clip", "mean", "sgd"]
    assert server[2]["lr"] == 0.5
    assert got["wire"][0]["kind"] == "sign_flip"
    assert got["method"] == "scaffold(lr=0.5)"

    got = resolved(written, method="trimmed_mean(trim=2)")
    assert [link["kind"] for link in got["server"]] == ["clip", "trimmed_mean", "adam"]
    assert got["client"]["mu"] == 3.0
    assert resolved(got) == got  # a resolved scenario repeats itself


MET = {  # a line of the refusal -> what stands beside which method
    "client.kind: is 'fedprox' here and 'scaffold' in": ("scaffold", {"client": FEDPROX}),
    "server[0]: is 'median' here and 'mean' in method": ("scaffold", {"server": ["median"]}),
    "server[0].f: is 1 here and 2 in method krum": ("krum(f=2)", {"server": ["krum(f=1)"]}),
    "owns what follows the rule; remove one of them": ("fedavg", {"server": ["mean", "adam"]}),
    "server[1].lr: is 0.5 here and 1.0 in method": ("scaffold", {"server": ["mean", HALF]}),
    "server[1].kind: is 'sgd' here and 'fedadam' in": ("fedadam", {"server": ["mean", HALF]}),
    "method: no method or rule 'fedpox'; did you mean 'fedprox'?": ("fedpox", {}),
    "method.mu: should be a number of at least 0, found 'x'": ("fedprox(mu=x)", {}),
    "method.omega: unknown key; known: kind, mu": ("fedprox(omega=1)", {}),
    "method: no method or rule 'fed prox'; did you mean 'fedprox'?": ("fed prox", {}),
    "should be a method, NAME or NAME(a=1)": ("?", {}),
}


@pytest.mark.parametrize("message", MET)
def test_a_method_in_a_file_must_not_meet_another_one(message):
    method, sections = MET[message]
    with pytest.raises(ScenarioError) as error:
        read({**DATA, "method": method, **sections})
    assert message in str(error.value)


def test_a_default_never_conflicts():
    got = resolved({"method": "scaffold", "client": {"lr": 0.3}})
    assert got["client"]["kind"] == "scaffold" and got["server"][0]["weights"] == "uniform"


def test_without_a_method_the_rule_is_its_name():
    assert built({**DATA, "server": [{"kind": "clip", "norm": 1.0}, "median"]}).method == "median"


@pytest.mark.quick(12)
@pytest.mark.parametrize("kind", sorted(own_kinds_of("optimizer")))
def test_every_optimizer_steps_downhill_on_the_server(kind):
    """After the mean each optimizer moves along Δ̄, and not at all where Δ̄ and params are 0."""
    deltas = {"w": np.tile([[1.0, -2.0], [0.5, 3.0]], (3, 1, 1))}
    server, params = ["mean", {"kind": kind, "lr": 0.1}], {"w": np.ones((2, 2))}
    step = fedsim.aggregate(server, deltas, params=params)["w"]
    only_looks = kind == "rprop"  # in its first step
    assert np.isfinite(step).all() and (np.sum(step * deltas["w"][0]) > 0 or only_looks)


WITH_ADAM = {**DATA, "server": [{"kind": "mean"}, {"kind": "adam", "lr": 0.1}]}


@pytest.mark.parametrize(
    ("edit", "method", "where"),
    [
        ("client.kind=fedprox", "fedadam", "client.kind"),
        ("server[1].lr=0.5", "fedadam", "server[1].lr"),
        ("server[0].weights=uniform", "median", "server[0].weights"),
        ("method=fedavg", "median", "method"),
    ],
)
def test_a_set_into_a_part_that_the_method_replaces_is_refused(edit, method, where):
    refused = rf"{re.escape(where)}: method {method} replaces this; remove --set"
    with pytest.raises(ScenarioError, match=refused):
        read(WITH_ADAM, (edit,), method)


def test_a_set_elsewhere_stays():
    spec = read(WITH_ADAM, ("client.lr=0.3", "server[1].lr=0.5"), "median").spec
    assert spec.client.lr == 0.3
    assert spec.server[1].lr == 0.5
    assert spec.server[0].kind == "median"


METHODS = sorted(
    name
    for name, factory in FAMILIES["method"].items()
    if factory.__module__ == "fedsim.scenario.methods"
)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_has_the_parameters_of_its_parts(name):
    """All but those of plain optimisers and the weights of a mean, which some methods choose.

    `steps` of centralised is `steps_of` of its client, whose `steps` are a number.
    """
    factory = FAMILIES["method"][name]
    parameters = {*inspect.signature(factory).parameters}
    if name == "centralised":
        parameters = {f"{parameter}_of" for parameter in parameters}
    for _, family, link in links_of(fragment_of(factory)):
        part = FAMILIES[family][link["kind"]]
        names = set(inspect.signature(part).parameters)
        assert link.keys() - {"kind", "width"} <= names  # any client has a width
        if part.__module__ != "fedsim.rules.optimizers" and link["kind"] not in ("mean", "sgd"):
            assert link.keys() - {"kind"} == names <= parameters
