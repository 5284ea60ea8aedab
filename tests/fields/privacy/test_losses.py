"""ε of Poisson samples against computations that share nothing with it, and its laws."""

import itertools
import math

import pytest
from scipy import integrate, optimize
from scipy.special import ndtr

from fedsim.fields.privacy.counting import gaussian, losses

DELTA = 1e-5
# z, rate
SAMPLES = [(1.0, 0.1), (4.0, 0.01), (0.6, 0.02), (2.0, 0.5), (3.0, 0.9)]


class OneRelease:
    """(1 − q) N(0, z²) + q N(1, z²) against N(0, z²), in either direction, in closed form."""

    def __init__(self, z: float, q: float, removed: bool):
        self.z, self.q, self.removed = z, q, removed

    def loss(self, x: float) -> float:
        lost = math.log(1 - self.q + self.q * math.exp((2 * x - 1) / (2 * self.z**2)))
        return lost if self.removed else -lost

    def density(self, x: float) -> float:
        without, present = (
            math.exp(-((x - mean) ** 2) / (2 * self.z**2)) / (self.z * math.sqrt(2 * math.pi))
            for mean in (0, 1)
        )
        return (1 - self.q) * without + self.q * present if self.removed else without

    def delta(self, epsilon: float) -> float:
        """The hockey-stick divergence, by the point where the loss is ε."""
        sign = 1 if self.removed else -1
        inside = math.exp(sign * epsilon) - 1 + self.q
        if inside <= 0:  # the loss is larger, or smaller, everywhere
            return 1 - math.exp(epsilon) if self.removed else 0.0
        x = self.z**2 * math.log(inside / self.q) + 0.5
        without, present = ndtr(-sign * x / self.z), ndtr(-sign * (x - 1) / self.z)
        mixed = (1 - self.q) * without + self.q * present
        if self.removed:
            return mixed - math.exp(epsilon) * without
        return without - math.exp(epsilon) * mixed

    def delta_of_two(self, epsilon: float) -> float:
        """That of two releases: of the second at what the first has left over."""
        value, _ = integrate.quad(
            lambda x: self.density(x) * self.delta(epsilon - self.loss(x)),
            -12 * self.z,
            1 + 12 * self.z,
            points=[0.0, 1.0],
            limit=400,
            epsabs=1e-13,
        )
        return value


def exact(delta_of, delta: float) -> float:
    if delta_of(0.0) <= delta:
        return 0.0
    return optimize.brentq(lambda epsilon: delta_of(epsilon) - delta, 0.0, 60.0, xtol=1e-12)


def both(z: float, q: float):
    return OneRelease(z, q, True), OneRelease(z, q, False)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize(("z", "q"), SAMPLES)
def test_one_release_is_never_below_the_closed_form_nor_far_above(z, q, delta):
    closed = max(exact(release.delta, delta) for release in both(z, q))
    counted = losses.epsilon_after(z, q, delta, 1)
    assert closed - 1e-6 <= counted <= closed + 2e-5 * (1 + closed)


@pytest.mark.quick(3)
@pytest.mark.parametrize(("z", "q"), SAMPLES)
def test_two_releases_are_never_below_an_integral_nor_far_above(z, q):
    integral = max(exact(release.delta_of_two, DELTA) for release in both(z, q))
    counted = losses.epsilon_after(z, q, DELTA, 2)
    assert integral - 1e-6 <= counted <= integral + 2e-5 * (1 + integral)


@pytest.mark.parametrize("releases", [1, 30, 1000])
@pytest.mark.parametrize("z", [1.0, 5.0])
def test_samples_of_nearly_everybody_are_releases_of_everybody(z, releases):
    """For which any number of releases has a closed form."""
    closed = gaussian.epsilon_of(math.sqrt(releases) / z, DELTA)
    counted = losses.epsilon_after(z, 1 - 1e-12, DELTA, releases)
    assert closed - 1e-6 <= counted <= closed * (1 + 2e-5)


@pytest.mark.parametrize(("z", "q"), SAMPLES)
def test_more_releases_more_samples_and_less_noise_spend_more(z, q):
    by_releases = [losses.epsilon_after(z, q, DELTA, t) for t in (1, 2, 3, 10, 11, 100, 101)]
    by_rate = [losses.epsilon_after(z, q * share, DELTA, 10) for share in (0.25, 0.5, 1.0)]
    by_noise = [losses.epsilon_after(z * more, q, DELTA, 10) for more in (2.0, 1.1, 1.0)]
    by_delta = [losses.epsilon_after(z, q, delta, 10) for delta in (1e-3, 1e-5, 1e-7)]
    for rising in (by_releases, by_rate, by_noise, by_delta):
        assert all(a < b for a, b in itertools.pairwise(rising))


@pytest.mark.parametrize(
    ("bound", "value", "z", "q"), [("INTERVAL", 1e-3, 1.1, 0.01), ("MAX_POINTS", 1 << 13, 1.0, 0.1)]
)
def test_a_coarser_grid_is_only_ever_above(bound, value, z, q, monkeypatch):
    fine = losses.epsilon_after(z, q, DELTA, 100)
    monkeypatch.setattr(losses, bound, value)
    same = DELTA * (1 + 1e-9)  # but not a number whose ε is remembered
    coarse = losses.epsilon_after(z, q, same, 100)
    assert fine < coarse < fine * 1.001


def test_the_grid_of_one_release_is_bounded_as_that_of_a_sum_is(monkeypatch):
    """Else hardly any noise would take gigabytes; ε is about that of the mean loss."""
    monkeypatch.setattr(losses, "MAX_POINTS", 1 << 12)
    epsilon = losses.epsilon_after(1e-6, 0.1, DELTA, 3)
    assert epsilon == pytest.approx(3 / (2 * 1e-6**2), rel=0.01)


@pytest.mark.parametrize("z", [1e-3, 0.02])
def test_hardly_any_noise_spends_a_finite_lot(z):
    """The loss of a release is about 1/2z² where the client was in the sample."""
    assert 0.8 / (2 * z * z) < losses.epsilon_after(z, 0.5, DELTA, 1) < 1.2 / (2 * z * z) + 10 / z


def test_what_is_hardly_ever_sampled_spends_nothing():
    """It is in any of the ten samples with a probability below δ."""
    assert losses.epsilon_after(1.0, 1e-7, DELTA, 10) == 0.0
