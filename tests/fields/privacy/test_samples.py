"""ε of a client's own samples, whose batches are drawn by chance and cut at a cap."""

import math

import pytest

from fedsim.fields.privacy.counting import losses
from fedsim.fields.privacy.counting.samples import sample_epsilon_after

pytest.importorskip("dp_accounting")


def epsilon(steps=20, z=4.0, samples=100, rate=0.05, cap=100, delta=1e-5):
    return sample_epsilon_after(
        steps, noise_multiplier=z, samples=samples, rate=rate, cap=cap, delta=delta
    )


def test_a_cap_that_no_batch_reaches_changes_nothing():
    assert epsilon() == pytest.approx(losses.epsilon_after(4.0, 0.05, 1e-5, 20), rel=1e-4)


@pytest.mark.long
def test_a_cap_that_cuts_batches_spends_more():
    """A cut batch has another sample in place of the one that is not there."""
    spent = [epsilon(cap=cap) for cap in (100, 9, 5)]
    assert spent[0] < spent[1] < spent[2] < 3 * spent[0]


@pytest.mark.long
@pytest.mark.parametrize(("cap", "rate"), [(18, 0.05), (11, 0.02), (40, 1.0), (100, 1.0)])
def test_epsilon_is_that_of_the_event_never_below_and_hardly_above(cap, rate):
    """With a cap that hardly any batch reaches, one that some do, and batches of all samples."""
    import dp_accounting as dp

    samples = 100 if cap < 100 else 30
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp.TruncatedSubsampledGaussianDpEvent(samples, rate, cap, 6.0), 20)
    spent = epsilon(z=6.0, samples=samples, rate=rate, cap=cap)
    wanted = accountant.get_epsilon(1e-5)
    assert wanted * (1 - 1e-4) <= spent <= wanted * (1 + 2e-3)


def test_no_steps_spend_nothing_and_no_noise_everything():
    assert epsilon(steps=0) == 0.0 and epsilon(z=0.0) == math.inf
