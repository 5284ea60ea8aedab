"""dp-accounting says the same ε of clients and of samples in batches that may be cut."""

import itertools
import math

import pytest
from conftest import some

from fedsim.fields.privacy.counting import losses
from fedsim.fields.privacy.counting.accountant import by_dp_accounting, spending
from fedsim.fields.privacy.counting.records import Mechanism
from fedsim.fields.privacy.counting.samples import sample_epsilon_after
from fedsim.fields.privacy.keys import Privacy
from fedsim.fleet.sampling import Sampling

dp = pytest.importorskip("dp_accounting")

SAMPLED = [(Mechanism(), Sampling("poisson", rate=rate)) for rate in (0.001, 0.01, 0.1, 0.5)]
SAMPLED += [(Mechanism("banded", bands=3), Sampling("cyclic_poisson", groups=4, rate=0.2))]
KNOWN = [
    (Mechanism(), Sampling("all")),
    (Mechanism("tree"), Sampling("separated", size=5, gap=10, most=4)),
    (Mechanism("banded", bands=8), Sampling("cyclic", size=5)),
]
NUMBERS = [(0.5, 1.0, 4.0), (1e-4, 1e-6, 1e-9), (1, 20, 500)]  # noise multiplier, δ, rounds
COUNTS = (spending, by_dp_accounting)


def private(**keys) -> Privacy:
    return Privacy.model_construct(clip=1.0, **{"mechanism": Mechanism(), **keys})


@pytest.mark.long
@pytest.mark.parametrize(("cases", "far"), [(SAMPLED, 5e-6), (KNOWN, 1e-9)])
def test_dp_accounting_says_the_same_of_every_sampler_noise_delta_and_rounds(cases, far):
    for (mechanism, sampling), z, delta, rounds in some(itertools.product(cases, *NUMBERS), 13):
        section = private(delta=delta, noise_multiplier=z, mechanism=mechanism)
        spent = [count(section, sampling, clients=100, rounds=rounds) for count in COUNTS]
        ours, theirs = (epsilon_after(rounds) for epsilon_after in spent)
        assert abs(ours - theirs) < far * (1 + theirs), (sampling, z, delta, rounds)


def test_of_divergences_there_is_nothing_to_count_again():
    section = private(delta=1e-5, noise_multiplier=1.0, accountant="rdp")
    assert by_dp_accounting(section, Sampling("all"), clients=9, rounds=3) is None


def of_samples(steps=20, z=4.0, **keys):
    given = {"samples": 100, "rate": 0.05, "cap": 100, "delta": 1e-5, **keys}
    return sample_epsilon_after(steps, noise_multiplier=z, **given)


def test_a_cap_that_no_batch_reaches_changes_nothing():
    assert of_samples() == pytest.approx(losses.epsilon_after(4.0, 0.05, 1e-5, 20), rel=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("cap", "rate"), [(18, 0.05), (11, 0.02), (40, 1.0), (100, 1.0)])
def test_epsilon_is_that_of_the_event_never_below_and_hardly_above(cap, rate):
    """With a cap that hardly any batch reaches, one that some do, and batches of all samples."""
    samples = 100 if cap < 100 else 30
    accountant = dp.pld.PLDAccountant(value_discretization_interval=1e-3)
    accountant.compose(dp.TruncatedSubsampledGaussianDpEvent(samples, rate, cap, 6.0), 20)
    spent = of_samples(z=6.0, samples=samples, rate=rate, cap=cap)
    wanted = accountant.get_epsilon(1e-5)
    assert wanted * (1 - 1e-4) <= spent <= wanted * (1 + 2e-3)


def test_no_steps_spend_nothing_and_no_noise_everything():
    assert of_samples(steps=0) == 0.0 and of_samples(z=0.0) == math.inf
