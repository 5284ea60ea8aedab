"""Augmentation agrees with a NumPy loop, has the same bits in any layout, and changes no more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import own_kinds_of

import fedsim
from fedsim.clients import augmenting, crop, flip
from fedsim.compose import tag_of
from fedsim.engine.keys import Phase, round_key

RNG = np.random.default_rng(0)
LINKS = ["flip", {"kind": "crop", "padding": 2}]


def mirrored(key, image):
    return image[:, ::-1] if bool(jax.random.bernoulli(key, np.float32(0.5))) else image


def cut(key, image, padding=2):
    top, left = np.asarray(jax.random.randint(key, (2,), 0, 2 * padding + 1, np.int32))
    framed = np.pad(image, [(padding, padding)] * 2 + [(0, 0)] * (image.ndim - 2))
    return framed[top : top + image.shape[0], left : left + image.shape[1]]


def by_hand(key, batch):
    """`flip`, then `crop`, of one image after another."""
    out = []
    for place, image in enumerate(np.asarray(batch)):
        own = jax.random.fold_in(key, place)
        image = mirrored(jax.random.fold_in(own, tag_of("flip")), image)
        out.append(cut(jax.random.fold_in(own, tag_of("crop")), image))
    return np.stack(out)


def test_every_augmentation_is_tested():
    assert own_kinds_of("augmentation").keys() == {"flip", "crop"}


@pytest.mark.long
@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)])
def test_a_batch_is_changed_image_by_image(shape):
    x = RNG.integers(1, 255, (12, *shape), np.uint8)
    augment = augmenting({"flip": flip(), "crop": crop(2)})
    many = np.asarray(jax.jit(augment)(jax.random.key(3), x))
    assert many.dtype == np.uint8 and np.array_equal(many, by_hand(jax.random.key(3), x))
    few = np.asarray(jax.jit(augment)(jax.random.key(3), x[:5]))
    assert np.array_equal(few, many[:5])  # by their places, not by how many there are


def scenario(augment=LINKS, **sections):
    return {
        "name": "augmented",
        "rounds": 2,
        "data": {"kind": "supplied", "clients": 3, "test": 0.2, "augment": augment},
        "model": "logistic",
        "client": {"lr": 0.3, "batch": 4, "epochs": 2},
        "numerics": {"dtype": "float64"},
        **sections,
    }


IMAGES = fedsim.Arrays(
    RNG.integers(0, 256, (47, 5, 4, 1), np.uint8), RNG.integers(0, 3, 47), scale=1 / 255
)


@pytest.mark.long
@pytest.mark.parametrize("lanes", [1, 3])
def test_a_run_is_a_plain_loop_with_the_same_keys(lanes):
    """FedAvg of logistic regression in NumPy; keys: root → round → purpose → client → step."""
    numerics = {"dtype": "float64", "lanes": lanes}
    result = fedsim.run(scenario(numerics=numerics), data=IMAGES)
    plan = result.experiment.plans[0]
    f = plan.federation
    W, b = np.zeros((20, 3)), np.zeros(3)
    for r in (1, 2):
        sums, total = [0.0, 0.0], 0
        for client in range(3):
            w, c = W.copy(), b.copy()
            rows, counts = plan.work.batches(r, client)
            for step, (batch, n) in enumerate(zip(rows, counts, strict=True)):
                key = jax.random.fold_in(round_key(jax.random.key(0), r, Phase.AUGMENT), client)
                images = by_hand(jax.random.fold_in(key, step), f.train.x[batch])
                x = images[:n].reshape(n, 20) / 255
                p = np.exp(x @ w + c)
                error = (p / p.sum(1, keepdims=True) - np.eye(3)[f.train.y[batch[:n]]]) / n
                w, c = w - 0.3 * x.T @ error, c - 0.3 * error.sum(0)
            n = len(f.holders.of(client))
            sums, total = [sums[0] + n * w, sums[1] + n * c], total + n
        W, b = sums[0] / total, sums[1] / total
    np.testing.assert_allclose(result.model()["W"], W, rtol=1e-9, atol=1e-12)
    x_test = f.test.x.reshape(len(f.test.x), 20) / 255
    hits = (x_test @ W + b).argmax(1) == f.test.y
    assert result.rounds["test_accuracy"].iloc[-1] == pytest.approx(hits.mean())


@pytest.mark.long
def test_no_other_draw_no_score_and_no_gradient_at_the_global_model_is_touched():
    run = lambda augment: fedsim.run(scenario(augment, rounds=1, method="mime"), data=IMAGES)
    with_it, without = run(LINKS), run([])
    assert with_it.rounds.iloc[0].equals(without.rounds.iloc[0])
    assert not np.array_equal(with_it.model()["W"], without.model()["W"])
    at_start = [result.state()["server"]["probe"]["W"] for result in (with_it, without)]
    np.testing.assert_array_equal(*at_start)
    work = [result.experiment.plans[0].work for result in (with_it, without)]
    for client in range(3):
        np.testing.assert_array_equal(*[each.batches(1, client)[0] for each in work])


LABELS = np.arange(20) % 2
REFUSED = {  # a line of the refusal -> samples, and what is to change them
    "flip is for images [height, width, channels]": ((np.zeros((20, 4)), LABELS), "flip"),
    "padding of 4 pixels around 3×3": ((np.zeros((20, 3, 3)), LABELS), "crop"),
    "these samples are tokens": (np.arange(120).reshape(2, 20, 3) % 7, "crop"),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_image_is_refused(message):
    samples, link = REFUSED[message]
    data = fedsim.Arrays(*samples)
    with pytest.raises(fedsim.ScenarioError) as error:
        fedsim.run(scenario([link]), data=data)
    assert message in str(error.value) and "data.augment[0]" in str(error.value)


def test_one_of_a_plug_in_makes_an_image_of_an_image(own_kinds):
    @fedsim.augmentation
    def squeezed():
        return lambda key, x: jnp.sum(x, 0)

    with pytest.raises(fedsim.ScenarioError, match=r"squeezed: returned .*; the image is"):
        fedsim.run(scenario(["squeezed"]), data=IMAGES)
