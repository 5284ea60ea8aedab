"""Losses against independent references, their limits, and their gradients."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, log_softmax
from scipy.stats import poisson as poisson_distribution
from sklearn.metrics import hinge_loss, log_loss, mean_pinball_loss

from fedsim import losses
from fedsim.compose import FAMILIES
from fedsim.losses import balanced_weights, weighted
from fedsim.types import Loss

RNG = np.random.default_rng(7)
ROWS, CLASSES = 12, 4
LOGITS = 3 * RNG.normal(size=(ROWS, CLASSES))
Y = RNG.integers(0, CLASSES, ROWS)
NUMBERS = 2 * RNG.normal(size=(ROWS, 3))
TARGETS = 2 * RNG.normal(size=(ROWS, 3))
COUNTS = RNG.poisson(3.0, (ROWS, 3)).astype(float)
LABELS = RNG.integers(0, 2, (ROWS, 3)).astype(float)

ONE_HOT = np.eye(CLASSES)[Y]
LOG_P = log_softmax(LOGITS, axis=1)
OF_LABEL = LOG_P[np.arange(ROWS), Y]


@pytest.fixture(autouse=True)
def in_float64():
    with jax.enable_x64(True):
        yield


def of(loss: Loss, outputs, y) -> np.ndarray:
    return np.asarray(jax.jit(loss.of)(outputs, y))


def smoothed_reference(s):
    """Cross-entropy of a distribution that is (1 − s) one-hot and s uniform."""
    q = (1 - s) * ONE_HOT + s / CLASSES
    return -(q * LOG_P).sum(1)


def huber_reference(delta):
    e = np.abs(NUMBERS - TARGETS)
    return np.where(e <= delta, e**2 / 2, delta * (e - delta / 2)).sum(1)


def bernoulli_reference():
    p = expit(NUMBERS)
    return -np.where(LABELS == 1, np.log(p), np.log1p(-p)).mean(1)


def poisson_reference():
    """The negative log-likelihood without its part that depends on the count alone."""
    of_counts = poisson_distribution.logpmf(COUNTS, np.exp(NUMBERS))
    at_one = poisson_distribution.logpmf(COUNTS, 1.0)
    return (1 - of_counts + at_one).sum(1)


SMOOTHED = losses.cross_entropy(smoothing=0.2)
REFERENCES = {
    "cross_entropy": (losses.cross_entropy(), LOGITS, Y, -OF_LABEL),
    "cross_entropy smoothed": (SMOOTHED, LOGITS, Y, smoothed_reference(0.2)),
    "focal": (losses.focal(2.0), LOGITS, Y, -((1 - np.exp(OF_LABEL)) ** 2) * OF_LABEL),
    "squared": (losses.squared(), NUMBERS, TARGETS, ((NUMBERS - TARGETS) ** 2).sum(1) / 2),
    "squared of classes": (losses.squared(), LOGITS, Y, ((LOGITS - ONE_HOT) ** 2).sum(1) / 2),
    "huber": (losses.huber(0.7), NUMBERS, TARGETS, huber_reference(0.7)),
    "poisson": (losses.poisson(), NUMBERS, COUNTS, poisson_reference()),
    "binary_cross_entropy": (losses.binary_cross_entropy(), NUMBERS, LABELS, bernoulli_reference()),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_it_and_its_gradient_are_what_the_paper_says(name):
    """The gradient is that of differences; and no row depends on another."""
    loss, outputs, y, wanted = REFERENCES[name]
    of_rows = jax.jit(loss.of)
    np.testing.assert_allclose(of_rows(outputs, y), wanted, rtol=1e-12)

    others = outputs.copy()
    others[::2] = outputs[1]
    np.testing.assert_array_equal(of_rows(others, y)[1::2], of_rows(outputs, y)[1::2])

    gradient = jax.jit(jax.grad(lambda z: jnp.sum(loss(z, y))))(outputs)
    step = 1e-6
    for index in [(0, 0), (3, 1), (7, 2)]:
        moved = np.zeros_like(outputs)
        moved[index] = step
        ahead, behind = np.sum(of_rows(outputs + moved, y)), np.sum(of_rows(outputs - moved, y))
        slope = (ahead - behind) / (2 * step)
        assert float(gradient[index]) == pytest.approx(float(slope), rel=1e-6, abs=1e-7)


def test_means_are_those_of_scikit_learn():
    mean = lambda loss, outputs, y: of(loss, outputs, y).mean()
    classes = np.arange(CLASSES)
    entropy = mean(losses.cross_entropy(), LOGITS, Y)
    assert entropy == pytest.approx(log_loss(Y, np.exp(LOG_P), labels=classes), rel=1e-12)
    hinge = mean(losses.hinge(), LOGITS, Y)
    assert hinge == pytest.approx(hinge_loss(Y, LOGITS, labels=classes), rel=1e-12)
    binary = mean(losses.hinge(), LOGITS[:, :2], Y % 2)
    margin = LOGITS[:, 1] - LOGITS[:, 0]
    assert binary == pytest.approx(hinge_loss(Y % 2, margin), rel=1e-12)
    target, number = TARGETS[:, 0], NUMBERS[:, 0]
    for q in (0.1, 0.5):
        wanted = mean_pinball_loss(target, number, alpha=q)
        assert mean(losses.quantile(q), number, target) == pytest.approx(wanted, rel=1e-12)


def test_every_loss_has_a_reference():
    """Those of fields have theirs there."""
    made = FAMILIES["loss"].items()
    kinds = {name for name, f in made if f.__module__.startswith("fedsim.losses.")}
    assert kinds == {"hinge", "quantile", *(name.split()[0] for name in REFERENCES)}


LIMITS = {  # the loss; what it is, or is a multiple of
    "focal(0) is cross_entropy": (losses.focal(0.0), losses.cross_entropy(), 1),
    "no smoothing": (losses.cross_entropy(smoothing=0.0), losses.cross_entropy(), 1),
    "a wide huber is squared": (losses.huber(1e6), losses.squared(), 1),
    "a narrow huber is the absolute error": (losses.huber(1e-9), losses.quantile(0.5), 2e-9),
    "weights scale": (weighted(losses.focal(1.5), [2.0] * CLASSES), losses.focal(1.5), 2),
}


@pytest.mark.parametrize("name", LIMITS)
def test_at_its_limit_it_is_another_loss(name):
    loss, other, factor = LIMITS[name]
    outputs, y = (NUMBERS, TARGETS) if "huber" in name else (LOGITS, Y)
    np.testing.assert_allclose(of(loss, outputs, y), factor * of(other, outputs, y), rtol=1e-8)


CERTAIN = np.array([[40.0, 0.0, 0.0, 0.0], [0.0, 900.0, 0.0, 0.0]])
RULED_OUT = np.array([[1.0, 0.5, -np.inf, -np.inf], [0.3, -np.inf, -np.inf, -np.inf]])


EXTREMES = {
    "a focal loss at p = 1": (losses.focal(0.5), CERTAIN, [0, 1]),
    "a focal loss at p = 0": (losses.focal(2.0), CERTAIN, [1, 0]),
    "classes that are ruled out": (losses.focal(2.0), RULED_OUT, [0, 0]),
    "smoothing without them": (losses.cross_entropy(smoothing=0.1), RULED_OUT, [0, 0]),
    "no other class to lead": (losses.hinge(), RULED_OUT, [0, 0]),
}


@pytest.mark.parametrize("name", EXTREMES)
def test_values_and_gradients_are_finite(name):
    loss, outputs, y = EXTREMES[name]
    total = lambda z: jnp.sum(loss(z, jnp.asarray(y)))
    value, gradient = jax.jit(jax.value_and_grad(total))(outputs)
    assert np.isfinite(value) and np.isfinite(gradient).all()


def test_balanced_weights_are_those_of_scikit_learn():
    from sklearn.utils.class_weight import compute_class_weight

    counts = np.bincount(Y, minlength=CLASSES)
    wanted = compute_class_weight("balanced", classes=np.unique(Y), y=Y)
    assert np.array(balanced_weights(counts))[counts > 0] == pytest.approx(wanted)
    assert balanced_weights(np.array([3, 0, 1])) == pytest.approx([4 / 6, 1, 4 / 2])
    by_class = of(weighted(losses.cross_entropy(), [1, 2, 3, 4]), LOGITS, Y)
    assert by_class == pytest.approx(-OF_LABEL * (1 + Y))


def test_numbers_of_a_single_target_may_have_no_axis():
    for loss in (losses.squared(), losses.quantile(0.3), losses.poisson()):
        flat = of(loss, NUMBERS[:, :1], COUNTS[:, 0])
        np.testing.assert_array_equal(flat, of(loss, NUMBERS[:, :1], COUNTS[:, :1]))


def test_tokens_have_a_loss_each():
    logits = RNG.normal(size=(2, 5, CLASSES))
    y = RNG.integers(0, CLASSES, (2, 5))
    for loss in (losses.hinge(), losses.cross_entropy(smoothing=0.3)):
        flat = of(loss, logits.reshape(10, CLASSES), y.reshape(10))
        np.testing.assert_allclose(of(loss, logits, y).reshape(10), flat, rtol=1e-12)
