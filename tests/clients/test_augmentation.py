"""Augmentation agrees with a NumPy loop, has the same bits in any layout, and changes no more."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedsim
from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.assemble.federation import federations_of
from fedsim.assemble.hooks import check_augmentation
from fedsim.assemble.programs import (
    HashableSection,
    TrainingInputs,
    augment_key,
    client_key,
    registered_model,
    training,
)
from fedsim.clients import augmenting, crop, flip
from fedsim.compose import FAMILIES, tag_of
from fedsim.engine.keys import Phase, round_key
from fedsim.losses import cross_entropy
from fedsim.scenario import read

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
    builtin = {
        kind
        for kind, factory in FAMILIES["augmentation"].items()
        if factory.__module__.startswith("fedsim.")
    }
    assert builtin == {"flip", "crop"}


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
    written = read(scenario(numerics={"dtype": "float64", "lanes": lanes}))
    result = fedsim.run(written, data=IMAGES)
    with numerics(written):
        plan = build(written, data=IMAGES).plans[0]
    f = plan.federation
    W, b = np.zeros((20, 3)), np.zeros(3)
    for r in (1, 2):
        sums, total = [0.0, 0.0], 0
        for client in range(3):
            w, c = W.copy(), b.copy()
            rows, counts = plan.work.batches(r, client)
            for step, (batch, n) in enumerate(zip(rows, counts, strict=True)):
                key = jax.random.fold_in(round_key(jax.random.key(0), r, Phase.AUGMENT), client)
                x = (
                    by_hand(jax.random.fold_in(key, step), f.train.x[batch])[:n].reshape(n, 20)
                    / 255
                )
                p = np.exp(x @ w + c)
                error = (p / p.sum(1, keepdims=True) - np.eye(3)[f.train.y[batch[:n]]]) / n
                w, c = w - 0.3 * x.T @ error, c - 0.3 * error.sum(0)
            n = len(f.holders.of(client))
            sums, total = [sums[0] + n * w, sums[1] + n * c], total + n
        W, b = sums[0] / total, sums[1] / total
    np.testing.assert_allclose(result.model()["W"], W, rtol=1e-9, atol=1e-12)
    x_test = f.test.x.reshape(len(f.test.x), 20) / 255
    assert result.rounds["test_accuracy"].iloc[-1] == pytest.approx(
        ((x_test @ W + b).argmax(1) == f.test.y).mean()
    )


@pytest.mark.long
def test_no_other_draw_and_no_score_is_touched():
    with_it, without = (
        fedsim.run({**scenario(augment), "method": "scaffold"}, data=IMAGES)
        for augment in (LINKS, [])
    )
    first = lambda result: result.rounds.iloc[0].to_dict()
    assert {k: v for k, v in first(with_it).items() if v == v} == {
        k: v for k, v in first(without).items() if v == v
    }
    assert not np.array_equal(with_it.model()["W"], without.model()["W"])
    plans = []
    for augment in (LINKS, []):
        written = read(scenario(augment))
        with numerics(written):
            plans.append(build(written, data=IMAGES).plans[0])
    for r in (1, 2):
        for client in range(3):
            one, other = (plan.work.batches(r, client) for plan in plans)
            assert np.array_equal(one[0], other[0])


@pytest.mark.long
def test_what_is_measured_at_x_is_not_augmented():
    spec = read(scenario()).spec
    net = registered_model(
        HashableSection(spec.model, {"loss"}), (5, 4, 1), 3, (("classes", 3),), None
    )
    trained = training(
        TrainingInputs(net, cross_entropy(), 3, client_key(spec.client), augment_key(spec.data))
    )
    assert trained.lanes.task.augment is not None and trained.probe.task.augment is None
    plain = training(TrainingInputs(net, cross_entropy(), 3, client_key(spec.client), ()))
    assert plain.lanes.task.augment is None and plain.task.apply is trained.task.apply


@pytest.mark.parametrize(
    ("data", "link", "message"),
    [
        (
            fedsim.Arrays(np.zeros((20, 4)), np.arange(20) % 2),
            "flip",
            "flip is for images [height, width, channels]",
        ),
        (
            fedsim.Arrays(np.zeros((20, 3, 3)), np.arange(20) % 2),
            {"kind": "crop"},
            "padding of 4 pixels around 3×3",
        ),
        (fedsim.Arrays(*np.arange(120).reshape(2, 20, 3) % 7), "crop", "these samples are tokens"),
    ],
)
def test_refused(data, link, message):
    written = read(scenario([link]))
    federation = federations_of(written, data, np.dtype("float32"))[0]
    with pytest.raises(fedsim.ScenarioError) as error:
        check_augmentation(written, 0, written.spec.data.augment[0], federation)
    assert message in str(error.value) and "data.augment[0]" in str(error.value)


def test_one_of_a_plug_in_makes_an_image_of_an_image(monkeypatch):
    def squeezed():
        return lambda key, x: jnp.sum(x, 0)

    class Section:
        family, kind = "augmentation", "squeezed"

    monkeypatch.setitem(FAMILIES["augmentation"], "squeezed", squeezed)
    written = read(scenario([]))
    federation = federations_of(written, IMAGES, np.dtype("float32"))[0]
    with pytest.raises(fedsim.ScenarioError, match=r"squeezed: returned .*; the image is"):
        check_augmentation(written, 0, Section(), federation)
