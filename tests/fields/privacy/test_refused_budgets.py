"""What no accountant covers is refused by key and remedy, and every number has a range."""

import sys
from inspect import signature

import pytest
from test_accounting import POISSON, epsilon, section

import fedsim
import fedsim.scenario  # whose sections have the keys
from fedsim.fields.privacy.keys import DpSgd, Privacy
from fedsim.fields.privacy.local_gaussian import local_gaussian
from fedsim.fields.privacy.local_laplace import local_laplace
from fedsim.limits import Delta, Epsilon, NoiseMultiplier


def test_every_epsilon_delta_and_noise_of_privacy_has_a_range():
    """Wherever one is written: a section, or a stage of the clients."""
    ranges = {"epsilon": Epsilon, "delta": Delta, "noise_multiplier": NoiseMultiplier}
    for part in (Privacy, DpSgd):
        for name in ranges.keys() & part.model_fields.keys():
            assert part.__annotations__[name] in (ranges[name], ranges[name] | None)
    for stage in (local_gaussian, local_laplace):
        for name in ranges.keys() & signature(stage).parameters.keys():
            assert signature(stage).parameters[name].annotation == ranges[name]


REFUSED = {
    "both": ({"epsilon": 1.0}, "privacy.noise_multiplier: is given, and epsilon.*remove one"),
    "neither": ({"z": None}, "privacy.noise_multiplier: is needed; fedsim.noise_multiplier"),
    "delta of 1": ({"delta": 1.0}, "privacy.delta: should be .* to 0.5, found 1"),
    "hardly any noise": ({"z": 1e-6}, "expected 0, or a number from 0.001 to 1e[+]06; found 1e-06"),
    "an epsilon of nothing": (
        {"z": None, "epsilon": 1e-300},
        "privacy.epsilon: should be a number from 0.0001 to 10000, found 1e-300",
    ),
    "a decay alone": (
        {"mechanism": {"kind": "blt", "buffers": 2, "decay": [0.9, 0.5]}},
        r"privacy.mechanism.decay: needs scale as well",
    ),
    "a decay too few": (
        {"mechanism": {"kind": "blt", "buffers": 2, "decay": [0.9], "scale": [0.1, 0.2]}},
        r"privacy.mechanism.decay: has 1 numbers for 2 buffers; write as many",
    ),
    "buffers that rise": (
        {"mechanism": {"kind": "blt", "buffers": 1, "decay": [0.9], "scale": [1.2]}},
        r"privacy.mechanism.buffers: 1 buffers have coefficients that do not fall",
    ),
    "sets by pld": ({"cohort": "uniform"}, "privacy.accountant: .* write rdp, or .* poisson"),
    "a tree of samples": (
        {"cohort": POISSON, "mechanism": "tree"},
        "privacy.mechanism: tree correlates .* poisson .* use the cohort all, cyclic or separated",
    ),
    "bands of samples": (
        {"cohort": POISSON, "mechanism": "banded(bands=2)"},
        "privacy.mechanism: banded correlates .* cyclic_poisson",
    ),
    "more bands than groups": (
        {"cohort": "cyclic_poisson(groups=3)", "mechanism": "banded(bands=4)"},
        "privacy.mechanism.bands: .* at most 3, or cohort.groups of at least 4",
    ),
    "a cohort": ({"cohort": "weighted"}, "cohort: no accountant knows how .* use all, poisson"),
    "no cohort": ({"cohort": "poissn"}, "cohort: no cohort 'poissn'; did you mean 'poisson'"),
    "no clients": ({"clients": 0}, "clients: should be an integer of at least 1, found 0"),
    "negative rounds": ({"rounds": [3, -1]}, "rounds: should be an integer of at least 0"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_accounted_for_is_refused_by_key_and_remedy(name):
    keys, text = REFUSED[name]
    with pytest.raises(fedsim.ScenarioError, match=text) as error:
        epsilon(**keys)
    assert error.value.exit_code == 2 and len(error.value.problems) == 1


def test_noise_that_reaches_no_epsilon_is_refused():
    """By orders up to 2 the classic conversion adds ln(1/δ) to whatever is spent."""
    privacy = section(epsilon=1.0, accountant="rdp", conversion="classic", orders=[2.0])
    with pytest.raises(fedsim.ScenarioError, match=r"privacy.epsilon: no noise reaches 1 by"):
        fedsim.noise_multiplier(privacy, clients=10, rounds=5)
    with pytest.raises(fedsim.ScenarioError, match=r"privacy.epsilon: is not there; write the"):
        fedsim.noise_multiplier(section(noise_multiplier=1.0), clients=10, rounds=5)


def test_without_the_extra_one_line_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    line = r"epsilon: privacy: needs dp-accounting: pip install 'fedsim-jax\[privacy\]'"
    with pytest.raises(fedsim.ScenarioError, match=line):
        epsilon()
