"""ε of Poisson samples against computations that share nothing with it, and its laws."""

import itertools
import math

import pytest
from scipy import optimize
from scipy.special import ndtr

from fedsim.fields.privacy.counting import gaussian, losses

DELTA = 1e-5
# z, rate
SAMPLES = [(1.0, 0.1), (4.0, 0.01), (0.6, 0.02), (2.0, 0.5), (3.0, 0.9)]


def delta_of(epsilon: float, z: float, q: float, removed: bool) -> float:
    """The hockey-stick divergence of one release, by the point where the loss is ε.

    It is that of (1 − q) N(0, z²) + q N(1, z²) and N(0, z²), in either direction.
    """
    sign = 1 if removed else -1
    inside = math.exp(sign * epsilon) - 1 + q
    if inside <= 0:  # the loss is larger, or smaller, everywhere
        return 1 - math.exp(epsilon) if removed else 0.0
    x = z**2 * math.log(inside / q) + 0.5
    without, present = ndtr(-sign * x / z), ndtr(-sign * (x - 1) / z)
    mixed = (1 - q) * without + q * present
    if removed:
        return mixed - math.exp(epsilon) * without
    return without - math.exp(epsilon) * mixed


def exact(delta: float, *release) -> float:
    """The ε at which a release has this δ."""
    excess = lambda epsilon: delta_of(epsilon, *release) - delta
    return 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, 60.0, xtol=1e-12)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize(("z", "q"), SAMPLES)
def test_one_release_is_never_below_the_closed_form_nor_far_above(z, q, delta):
    closed = max(exact(delta, z, q, removed) for removed in (True, False))
    counted = losses.epsilon_after(z, q, delta, 1)
    assert closed - 1e-6 <= counted <= closed + 2e-5 * (1 + closed)


@pytest.mark.parametrize("releases", [1, 30, 1000])
@pytest.mark.parametrize("z", [1.0, 5.0])
def test_samples_of_nearly_everybody_are_releases_of_everybody(z, releases):
    """For which any number of releases has a closed form."""
    closed = gaussian.epsilon_of(math.sqrt(releases) / z, DELTA)
    counted = losses.epsilon_after(z, 1 - 1e-12, DELTA, releases)
    assert closed - 1e-6 <= counted <= closed * (1 + 2e-5)


def test_more_releases_more_samples_and_less_noise_spend_more():
    by_releases = [losses.epsilon_after(1.0, 0.1, DELTA, t) for t in (1, 2, 3, 10, 11, 100, 101)]
    by_rate = [losses.epsilon_after(1.0, rate, DELTA, 10) for rate in (0.025, 0.05, 0.1)]
    by_noise = [losses.epsilon_after(z, 0.1, DELTA, 10) for z in (2.0, 1.1, 1.0)]
    by_delta = [losses.epsilon_after(1.0, 0.1, delta, 10) for delta in (1e-3, 1e-5, 1e-7)]
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


@pytest.mark.parametrize("z", [1e-3, 1e-6])
def test_the_grid_of_one_release_is_bounded_as_that_of_a_sum_is(z, monkeypatch):
    """Else hardly any noise would take gigabytes; ε is about that of the mean loss."""
    monkeypatch.setattr(losses, "MAX_POINTS", 1 << 12)
    assert losses.epsilon_after(z, 0.1, DELTA, 3) == pytest.approx(3 / (2 * z**2), rel=0.01)


def test_what_is_hardly_ever_sampled_spends_nothing():
    """It is in any of the ten samples with a probability below δ."""
    assert losses.epsilon_after(1.0, 1e-7, DELTA, 10) == 0.0
