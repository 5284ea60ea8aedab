"""One Gaussian release, messages private by themselves, and the split of an adaptive clip."""

import math

import pytest
from conftest import oracle

from fedsim.errors import PrivacyError
from fedsim.fields.privacy.counting.gaussian import (
    adaptive_noise_split,
    delta_of,
    epsilon_of,
    local_gaussian_std,
)

CASES = oracle("dp_accounting")
(MECHANISM,) = [case for case in CASES if case["fn"] == "gaussian"]
SPLITS = [case for case in CASES if case["fn"] == "adaptive_noise_split"]


@pytest.mark.parametrize("row", MECHANISM["expected"]["table"])
def test_a_release_follows_its_oracle_and_so_does_the_least_std_of_a_message(row):
    """Sensitivity 1, of messages of norm ½: any of them may be any other."""
    epsilon = epsilon_of(1 / row["sigma"], row["delta"])
    assert epsilon == pytest.approx(row["eps_analytic"], rel=1e-8)
    std = local_gaussian_std(0.5, row["eps_analytic"], row["delta"])
    assert std == pytest.approx(row["sigma"], rel=1e-8)
    assert delta_of(1 / std, row["eps_analytic"]) <= row["delta"]


def test_the_classic_std_is_that_of_the_textbook_up_to_one():
    std = local_gaussian_std(2.0, 0.5, 1e-6, calibration="classic")
    assert std == pytest.approx(4.0 * math.sqrt(2 * math.log(1.25e6)) / 0.5)
    assert std > local_gaussian_std(2.0, 0.5, 1e-6)
    with pytest.raises(PrivacyError, match=r"classic holds up to epsilon 1.*exact") as refused:
        local_gaussian_std(2.0, 1.01, 1e-6, calibration="classic")
    assert refused.value.where == "calibration"


@pytest.mark.parametrize("epsilon", [1e-4, 1.0, 300.0])
@pytest.mark.parametrize("delta", [0.4, 1e-3, 1e-12])
def test_epsilon_and_std_are_inverse_and_never_on_the_wrong_side(epsilon, delta):
    std = local_gaussian_std(0.5, epsilon, delta)
    assert delta_of(1 / std, epsilon) <= delta
    assert epsilon_of(1 / std, delta) == pytest.approx(epsilon, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("case", SPLITS, ids=[case["name"] for case in SPLITS])
def test_the_split_of_an_adaptive_clip_follows_its_oracle(case):
    given = case["params"]
    split = adaptive_noise_split(given["z"], given["sigma_b"])
    assert split == pytest.approx(case["expected"]["z_delta"], rel=1e-9)


def test_a_count_takes_nothing_of_no_noise_and_is_refused_where_it_alone_spends_more():
    assert adaptive_noise_split(0.0, 1.0) == 0.0
    with pytest.raises(PrivacyError, match="write more than 1,") as error:
        adaptive_noise_split(2.0, 1.0)
    assert error.value.where == "clip.count_std"
