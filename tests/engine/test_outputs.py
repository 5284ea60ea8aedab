"""What a final model says of new samples: the outputs that its scores are made of."""

import numpy as np
import pytest

import fedsim
from fedsim.sources.bundled import breast_cancer

BLOBS = {"kind": "gaussian_blobs", "samples": 300, "clients": 4, "test": 0.2}
SMALL = {"name": "small", "rounds": 2, "data": BLOBS, "model": "logistic", "client": {"lr": 0.1}}


@pytest.fixture(scope="module")
def result():
    return fedsim.run(SMALL)


def by_hand(params, x):
    return x @ params["W"] + params["b"]


@pytest.mark.long
def test_outputs_are_those_of_the_model_that_was_scored(result):
    test = result.experiment.plans[0].federation.test

    outputs = result.predict(test.x)

    np.testing.assert_allclose(outputs, by_hand(result.model(), test.x), rtol=1e-5, atol=1e-5)
    accuracy = (outputs.argmax(1) == test.y).mean()
    assert accuracy == pytest.approx(result.rounds["test_accuracy"].iloc[-1])


@pytest.mark.long
def test_new_samples_are_brought_to_the_scale_of_the_training_samples():
    data = {"kind": "breast_cancer", "clients": 4, "test": 0.5}
    result = fedsim.run({**SMALL, "data": data})
    train = result.experiment.plans[0].federation.train.x
    raw = np.asarray(breast_cancer().x)

    outputs = result.predict(raw)

    # The training samples are among all samples, wherever they stand.
    expected = by_hand(result.model(), train)
    distances = np.abs(outputs[:, None] - expected[None]).max(-1)  # [all, train]
    assert distances.min(0).max() < 1e-4
    assert np.abs(by_hand(result.model(), raw)).max() > 100  # the scale matters


@pytest.mark.long
def test_a_client_s_own_model_answers_for_it():
    result = fedsim.run(SMALL, edits=["client.kind=ditto", "client.lam=0.1"])
    x = result.experiment.plans[0].federation.test.x

    own = result.predict(x, client=1)

    np.testing.assert_allclose(own, by_hand(result.model(client=1), x), rtol=1e-5, atol=1e-5)
    assert not np.array_equal(own, result.predict(x))


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (np.zeros((3, 5)), r"samples of the scenario are \[n, 20\]; found \[3, 5\]"),
        (np.zeros(20), r"found \[20\]"),
        (np.zeros((0, 20)), "no samples"),
        (np.full((1, 20), "a"), "samples of the scenario are float32; found <U1"),
    ],
)
def test_samples_of_another_kind_are_refused(result, x, text):
    with pytest.raises(ValueError, match=text):
        result.predict(x)


@pytest.mark.long
def test_pixels_that_do_not_fit_are_refused():
    data = {"x": np.zeros((40, 2, 2), np.uint8), "y": np.arange(40) % 2}
    sections = {**SMALL, "data": {"clients": 2, "test": 0.2}, "rounds": 1}
    result = fedsim.run(sections, data=data)
    assert result.predict(np.full((1, 2, 2), 255)).shape == (1, 2)
    with pytest.raises(ValueError, match="values of the scenario are 0 to 255; found 256"):
        result.predict(np.full((1, 2, 2), 256))


@pytest.mark.parametrize(
    ("client", "text"), [(4, "the clients are 0 to 3"), (0, "no models of their own")]
)
def test_a_client_without_a_model_is_refused(result, client, text):
    with pytest.raises(ValueError, match=text):
        result.predict(np.zeros((1, 20)), client=client)
